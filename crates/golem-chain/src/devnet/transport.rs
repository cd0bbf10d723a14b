//! Speaking to a devnet chain through an alloy provider, within the process: no socket, and no
//! text beyond the requests and results alloy makes text of itself.

use std::borrow::Cow;
use std::task::{Context, Poll};

use alloy::providers::{DynProvider, Provider, ProviderBuilder};
use alloy::rpc::client::RpcClient;
use alloy::rpc::json_rpc::{ErrorPayload, RequestPacket, Response, ResponsePacket, ResponsePayload, SerializedRequest};
use alloy::transports::{TransportError, TransportErrorKind, TransportFut};
use serde_json::value::to_raw_value;
use tower::Service;

use super::handle::{Devnet, Engine};
use super::rpc::{self, RpcError, RpcResult};

/// The transport: a tower service in front of the chain's thread. Batches are answered in one go.
#[derive(Debug, Clone)]
pub struct InProcess {
    devnet: Devnet,
}

impl InProcess {
    /// A transport to `devnet`.
    pub fn new(devnet: Devnet) -> Self {
        Self { devnet }
    }
}

impl Devnet {
    /// An alloy provider that speaks to this chain within the process. It fills in nothing: a
    /// transaction must be complete when it is sent.
    pub fn provider(&self) -> DynProvider {
        // The chain answers at once; there is no point in waiting seconds between polls.
        let client =
            RpcClient::new(InProcess::new(self.clone()), true).with_poll_interval(std::time::Duration::from_millis(50));
        ProviderBuilder::default().connect_client(client).erased()
    }
}

impl Service<RequestPacket> for InProcess {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let devnet = self.devnet.clone();
        Box::pin(async move {
            devnet.engine(move |engine| answer(engine, packet)).await.map_err(TransportErrorKind::custom)
        })
    }
}

fn answer(engine: &mut Engine, packet: RequestPacket) -> ResponsePacket {
    match packet {
        RequestPacket::Single(request) => ResponsePacket::Single(answer_one(engine, &request)),
        RequestPacket::Batch(requests) => {
            ResponsePacket::Batch(requests.iter().map(|request| answer_one(engine, request)).collect())
        }
    }
}

fn answer_one(engine: &mut Engine, request: &SerializedRequest) -> Response {
    let result = rpc::dispatch(engine, request.method(), request.params());
    Response { id: request.id().clone(), payload: payload(result) }
}

fn payload(result: RpcResult) -> ResponsePayload {
    match result {
        Ok(value) => ResponsePayload::Success(value),
        Err(RpcError { code, message, data }) => ResponsePayload::Failure(ErrorPayload {
            code,
            message: Cow::Owned(message),
            data: data.and_then(|data| to_raw_value(&data).ok()),
        }),
    }
}
