//! In-process alloy transport to a devnet chain, without sockets. Only the requests and results that alloy itself
//! serialises become text.

use std::borrow::Cow;
use std::task::{Context, Poll};

use alloy::providers::{DynProvider, Provider, ProviderBuilder};
use alloy::rpc::client::RpcClient;
use alloy::rpc::json_rpc::{
    ErrorPayload, Id, RequestPacket, Response, ResponsePacket, ResponsePayload, SerializedRequest,
};
use alloy::transports::{TransportError, TransportErrorKind, TransportFut};
use serde_json::value::to_raw_value;
use tower::Service;

use super::handle::{Devnet, DevnetStopped, DevnetThread};
use super::rpc::{self, Answer, RpcError, RpcResult};

/// Transport as a tower service in front of the chain's thread. Immediate answers of a batch are computed together.
#[derive(Debug, Clone)]
pub struct InProcessTransport {
    devnet: Devnet,
}

impl InProcessTransport {
    /// Creates a transport to `devnet`.
    pub fn new(devnet: Devnet) -> Self {
        Self { devnet }
    }
}

impl Devnet {
    /// alloy provider for this chain within the process. It has no fillers, so transactions must be complete.
    pub fn provider(&self) -> DynProvider {
        // The chain answers at once, so a long polling interval would only add delay.
        let client = RpcClient::new(InProcessTransport::new(self.clone()), true)
            .with_poll_interval(std::time::Duration::from_millis(50));
        ProviderBuilder::default().connect_client(client).erased()
    }
}

impl Service<RequestPacket> for InProcessTransport {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let devnet = self.devnet.clone();
        Box::pin(async move { answer(&devnet, packet).await.map_err(TransportErrorKind::custom) })
    }
}

async fn answer(devnet: &Devnet, packet: RequestPacket) -> Result<ResponsePacket, DevnetStopped> {
    match packet {
        RequestPacket::Single(request) => {
            let params = request.params().map(ToOwned::to_owned);
            let result = devnet.request(request.method().to_owned(), params).await?;
            Ok(ResponsePacket::Single(Response { id: request.id().clone(), payload: payload(result) }))
        }
        RequestPacket::Batch(requests) => {
            for request in &requests {
                // A value that cannot be read is reported by the request that needs it.
                let _read = devnet.read_ahead(request.method(), request.params()).await?;
            }
            let mut batch = Batch { rest: requests.into_iter(), answered: Vec::new() };
            loop {
                let (rest, unfinished) = devnet.engine(move |engine| batch.answer(engine)).await?;
                batch = rest;
                let Some((id, answer)) = unfinished else { return Ok(ResponsePacket::Batch(batch.answered)) };
                let result = devnet.complete(answer).await?;
                batch.answered.push(Response { id, payload: payload(result) });
            }
        }
    }
}

/// A batch with the answers so far.
struct Batch {
    rest: std::vec::IntoIter<SerializedRequest>,
    answered: Vec<Response>,
}

impl Batch {
    /// Answers requests up to the first that needs more work.
    fn answer(mut self, engine: &mut DevnetThread) -> (Self, Option<(Id, Answer)>) {
        while let Some(request) = self.rest.next() {
            match rpc::dispatch(engine, request.method(), request.params()) {
                Answer::Now(result) => {
                    self.answered.push(Response { id: request.id().clone(), payload: payload(result) });
                }
                more => return (self, Some((request.id().clone(), more))),
            }
        }
        (self, None)
    }
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
