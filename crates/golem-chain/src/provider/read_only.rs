//! Connection to a chain that can only be read, for the origin of a fork.
//!
//! The allow-list is part of each endpoint's transport, below retries, failover and providers. No code above it can
//! send a transaction, whatever method it asks for.

use super::{
    client::{ConnectError, over, settle, thresholds},
    endpoint::Endpoint,
    error::ProviderError,
    health::HealthThresholds,
    http::{CappedHttp, HttpLimits},
    retry::RetryRules,
    stack::EndpointStack,
};
use crate::network::{ChainPlan, Network};
use alloy::{
    providers::DynProvider,
    rpc::json_rpc::{RequestPacket, ResponsePacket},
    transports::{BoxTransport, IntoBoxTransport, TransportError, TransportFut},
};
use bardo_base::{clock::Clock, config::RpcUrl, text::SafeText};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tower::Service;

/// Methods that reach the endpoints of a [`ReadOnlyChain`]. Each reads the chain and changes nothing, at the endpoint
/// or on the chain.
pub const READ_ONLY_METHODS: &[&str] = &[
    "bardo_describe",
    "eth_blockNumber",
    "eth_chainId",
    "eth_getBalance",
    "eth_getBlockByHash",
    "eth_getBlockByNumber",
    "eth_getCode",
    "eth_getStorageAt",
    "eth_getTransactionCount",
];

/// Limits of a fork's requests. Shorter than usual, since the local chain waits for the answers.
const LIMITS: HttpLimits =
    HttpLimits { timeout: Duration::from_secs(6), connect_timeout: Duration::from_secs(3), max_body: 16 * 1024 * 1024 };

/// Endpoints of a chain, of which only reads can be requested.
#[derive(Debug, Clone)]
pub struct ReadOnlyChain {
    network: Network,
    stack: EndpointStack,
    is_local: bool,
}

/// Transport that passes on only packets whose methods are all in [`READ_ONLY_METHODS`].
#[derive(Debug, Clone)]
struct ReadsOnly<T>(T);

impl ReadOnlyChain {
    /// Connects to the endpoints of a plan: reads each chain id and determines the network. Endpoints that do not
    /// answer are kept if another one does.
    ///
    /// # Errors
    /// A [`ConnectError`] that names the endpoint and the expected chain.
    pub async fn connect(plan: &ChainPlan, clock: Arc<dyn Clock>) -> Result<Self, ConnectError> {
        let retry = RetryRules { rounds: 2, total: Duration::from_secs(8), ..RetryRules::default() };
        let transports: Vec<(SafeText, BoxTransport)> = plan
            .endpoints
            .iter()
            .map(|url| {
                let http = CappedHttp::new(url.clone(), LIMITS, Arc::clone(&clock))?;
                Ok((http.label().clone(), ReadsOnly(http).into_box_transport()))
            })
            .collect::<Result<_, ProviderError>>()?;
        let at = |chain_id: u64, thresholds: HealthThresholds| -> Vec<Endpoint> {
            let all = transports.iter();
            all.map(|(label, transport)| Endpoint::new(label.clone(), chain_id, transport.clone(), thresholds))
                .collect()
        };
        // The chain id is not known yet, so these endpoints expect none.
        let network = settle(plan, &at(0, HealthThresholds::default()), retry).await?;
        let endpoints = at(network.chain_id, thresholds(&network));
        let stack = EndpointStack::new(network.chain_id, endpoints, retry)?;
        Ok(Self { network, stack, is_local: plan.endpoints.iter().all(RpcUrl::is_loopback) })
    }

    /// Network of the chain: name, id and address book.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Endpoints that are read.
    pub(crate) fn stack(&self) -> &EndpointStack {
        &self.stack
    }

    /// Provider over the endpoints, which can only read.
    pub(crate) fn provider(&self) -> DynProvider {
        over(self.stack.clone(), self.is_local, None)
    }
}

impl<T> Service<RequestPacket> for ReadsOnly<T>
where
    T: Service<RequestPacket, Response = ResponsePacket, Error = TransportError, Future = TransportFut<'static>>,
{
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let refused = packet.method_names().find(|method| !READ_ONLY_METHODS.contains(method));
        if let Some(method) = refused {
            let detail = format!("{method} was not sent: a fork only reads its origin");
            let error = ProviderError::Local { detail: SafeText::clean(&detail, 120) };
            return Box::pin(std::future::ready(Err(error.into())));
        }
        self.0.call(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::{
        providers::Provider as _,
        rpc::json_rpc::{Response, ResponsePayload},
    };
    use parking_lot::Mutex;
    use serde_json::value::to_raw_value;

    /// Transport that records the methods it receives and answers `0x1` to each.
    #[derive(Debug, Clone, Default)]
    struct Recording(Arc<Mutex<Vec<String>>>);

    impl Service<RequestPacket> for Recording {
        type Response = ResponsePacket;
        type Error = TransportError;
        type Future = TransportFut<'static>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, packet: RequestPacket) -> Self::Future {
            self.0.lock().extend(packet.method_names().map(str::to_owned));
            let answer = |request: &alloy::rpc::json_rpc::SerializedRequest| Response {
                id: request.id().clone(),
                payload: ResponsePayload::Success(to_raw_value("0x1").unwrap()),
            };
            let answers: Vec<Response> = packet.requests().iter().map(answer).collect();
            let packet = match packet {
                RequestPacket::Single(_) => ResponsePacket::Single(answers.into_iter().next().unwrap()),
                RequestPacket::Batch(_) => ResponsePacket::Batch(answers),
            };
            Box::pin(std::future::ready(Ok(packet)))
        }
    }

    fn chain(recording: &Recording) -> ReadOnlyChain {
        let transport = ReadsOnly(recording.clone()).into_box_transport();
        let endpoint = Endpoint::new(SafeText::clean("one", 10), 1, transport, HealthThresholds::default());
        let stack = EndpointStack::new(1, vec![endpoint], RetryRules::default()).unwrap();
        ReadOnlyChain { network: crate::network::by_id(1).unwrap().clone(), stack, is_local: true }
    }

    #[tokio::test]
    async fn a_read_only_provider_sends_only_reads() {
        let recording = Recording::default();
        let provider = chain(&recording).provider();
        for method in [
            "eth_sendRawTransaction",
            "eth_sendRawTransactionConditional",
            "eth_sendPrivateTransaction",
            "eth_sendTransaction",
            "eth_sendBundle",
            "eth_sign",
            "eth_signTypedData_v4",
            "personal_sign",
            "anvil_setBalance",
            "evm_mine",
            "eth_call",
        ] {
            let refused = provider.raw_request::<_, String>(method.into(), ("0x02",)).await.unwrap_err().to_string();
            assert!(refused.contains("was not sent"), "{method}: {refused}");
        }
        // A batch that hides a transaction among reads goes nowhere as a whole.
        let mut batch = alloy::rpc::client::BatchRequest::new(provider.client());
        let _read = batch.add_call::<_, String>("eth_blockNumber", &()).unwrap();
        let _sent = batch.add_call::<_, String>("eth_sendRawTransaction", &("0x02",)).unwrap();
        assert!(batch.send().await.is_err());
        let only = |recording: &Recording| recording.0.lock().iter().all(|method| method == "eth_chainId");
        assert!(only(&recording), "{:?}", recording.0.lock());
        for method in READ_ONLY_METHODS {
            provider.raw_request::<_, String>((*method).into(), ()).await.unwrap();
        }
        assert!(!only(&recording));
    }

    #[test]
    fn every_method_on_the_list_is_a_known_read() {
        for method in READ_ONLY_METHODS {
            assert_eq!(
                super::super::method::repeat_rule_of_method(method),
                super::super::method::RepeatRule::Free,
                "{method}"
            );
        }
    }
}
