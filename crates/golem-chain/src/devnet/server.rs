//! Server of a devnet chain on a loopback port: HTTP and WebSocket on the same port, with batches and subscriptions. It
//! is not reachable from the network.
//!
//! Web pages of other origins are refused: by the `Host` header if their name resolves to this machine, and by the
//! `Origin` header if they use its real address.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use alloy::rpc::types::Filter;
use alloy::transports::http::reqwest::StatusCode;
use futures::future::Either;
use jsonrpsee::core::SubscriptionError;
use jsonrpsee::core::SubscriptionResult;
use jsonrpsee::core::server::{SubscriptionMessage, SubscriptionSink};
use jsonrpsee::core::traits::IdProvider;
use jsonrpsee::server::middleware::http::HostFilterLayer;
use jsonrpsee::server::{
    BatchRequestConfig, HttpBody, HttpRequest, HttpResponse, PendingSubscriptionSink, RpcModule,
    Server as JsonRpcServer, ServerConfig, ServerHandle,
};
use jsonrpsee::types::{ErrorObjectOwned, Params, SubscriptionId};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::broadcast::error::RecvError;
use tower::Service;
use url::{Host, Url};

use super::events::ChainEvent;
use super::handle::Devnet;
use super::rpc::{self, RpcError, event_logs, render};

/// Maximum size of a request in bytes; a contract creation at the gas limit fits.
const MAX_REQUEST_BYTES: u32 = 8 * 1024 * 1024;
/// Maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: u32 = 64 * 1024 * 1024;
/// Maximum number of requests in a batch.
const MAX_BATCH: u32 = 1_000;
/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: u32 = 256;

/// A running server, which stops when it is dropped.
#[derive(Debug)]
pub struct RpcServer {
    addr: SocketAddr,
    handle: ServerHandle,
}

/// Error for a port that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process uses the port.
    #[error("port {0} on 127.0.0.1 is in use: stop the process that listens there, or choose another with --port")]
    PortTaken(u16),
    /// The operating system refused to listen.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Listen {
        /// The requested port.
        port: u16,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The method table or the host filter is invalid.
    #[error("the method table cannot be served: {0}")]
    Methods(String),
}

impl RpcServer {
    /// Address on which the server listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// HTTP URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Stops the server and waits for its end.
    pub async fn stop(self) {
        // The server may have stopped already.
        let _ = self.handle.stop();
        self.handle.stopped().await;
    }
}

/// Serves `devnet` on 127.0.0.1 at `port`; with 0, the system chooses a port.
///
/// # Errors
/// [`ServeError`] if the port is taken or cannot be used.
pub async fn serve(devnet: Devnet, port: u16) -> Result<RpcServer, ServeError> {
    let config = ServerConfig::builder()
        .max_request_body_size(MAX_REQUEST_BYTES)
        .max_response_body_size(MAX_RESPONSE_BYTES)
        .max_connections(MAX_CONNECTIONS)
        .set_batch_request_config(BatchRequestConfig::Limit(MAX_BATCH))
        .set_id_provider(SubscriptionIds::default())
        .set_tcp_no_delay(true)
        .build();
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AddrInUse => ServeError::PortTaken(port),
        _ => ServeError::Listen { port, source },
    };
    let hosts = HostFilterLayer::new(["127.0.0.1:*", "localhost:*", "[::1]:*"])
        .map_err(|error| ServeError::Methods(error.to_string()))?;
    let server = JsonRpcServer::builder()
        .set_config(config)
        .set_http_middleware(tower::ServiceBuilder::new().layer(hosts).layer_fn(OriginGuard))
        .build(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .await
        .map_err(failed)?;
    let addr = server.local_addr().map_err(failed)?;
    let handle = server.start(module(devnet)?);
    Ok(RpcServer { addr, handle })
}

/// Middleware that refuses requests from web pages of other machines. Browsers send the page's `Origin`, also in
/// WebSocket upgrades, which no same-origin policy restricts; other programs send none.
#[derive(Debug, Clone)]
struct OriginGuard<S>(S);

impl<S, B> Service<HttpRequest<B>> for OriginGuard<S>
where
    S: Service<HttpRequest<B>, Response = HttpResponse>,
{
    type Response = HttpResponse;
    type Error = S::Error;
    type Future = Either<S::Future, std::future::Ready<Result<HttpResponse, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let mut origins = request.headers().get_all("origin").iter();
        if origins.all(|origin| origin.to_str().is_ok_and(is_of_this_machine)) {
            return Either::Left(self.0.call(request));
        }
        let mut refusal = HttpResponse::new(HttpBody::from("Requests from web pages of other hosts are rejected.\n"));
        *refusal.status_mut() = StatusCode::FORBIDDEN;
        Either::Right(std::future::ready(Ok(refusal)))
    }
}

/// Returns true if an origin is a page served by this machine. `null`, which sandboxed pages and files send, is
/// refused.
fn is_of_this_machine(origin: &str) -> bool {
    match Url::parse(origin).ok().as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Generator of consecutive subscription ids in hexadecimal, the form that clients expect.
#[derive(Debug, Default)]
struct SubscriptionIds(AtomicU64);

impl IdProvider for SubscriptionIds {
    fn next_id(&self) -> SubscriptionId<'static> {
        let id = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        SubscriptionId::Str(format!("{id:#x}").into())
    }
}

fn module(devnet: Devnet) -> Result<RpcModule<Devnet>, ServeError> {
    let mut module = RpcModule::new(devnet);
    let failed = |error: jsonrpsee::core::RegisterMethodError| ServeError::Methods(error.to_string());
    for name in rpc::served_names() {
        module
            .register_async_method(name, move |params, devnet, _| async move {
                request(&devnet, name, &params).await.map_err(error_object)
            })
            .map_err(failed)?;
    }
    module
        .register_subscription("eth_subscribe", "eth_subscription", "eth_unsubscribe", |params, pending, devnet, _| {
            subscribe(params, pending, (*devnet).clone())
        })
        .map_err(failed)?;
    Ok(module)
}

async fn request(devnet: &Devnet, method: &'static str, params: &Params<'static>) -> Result<Box<RawValue>, RpcError> {
    let params = match params.as_str() {
        None => None,
        Some(text) => Some(
            RawValue::from_string(text.to_owned()).map_err(|_| RpcError::internal("the parameters are not JSON"))?,
        ),
    };
    devnet.request(method.to_owned(), params).await.map_err(|gone| RpcError::internal(gone.to_string()))?
}

fn error_object(error: RpcError) -> ErrorObjectOwned {
    // All codes in use fit; any other becomes an internal error.
    let code = i32::try_from(error.code).unwrap_or(-32603);
    ErrorObjectOwned::owned(code, error.message, error.data)
}

/// Subject of a subscription.
enum SubscriptionTopic {
    Heads,
    Logs(Box<Filter>),
    PendingTransactions,
}

async fn subscribe(params: Params<'static>, pending: PendingSubscriptionSink, devnet: Devnet) -> SubscriptionResult {
    let topic = match topic(&params) {
        Ok(topic) => topic,
        Err(error) => {
            pending.reject(ErrorObjectOwned::owned(-32602, error.to_string(), None::<()>)).await;
            return Ok(());
        }
    };
    // Before the client is informed, so that it misses no later event.
    let mut events = devnet.events();
    // The chain must be able to stop while there are subscribers.
    drop(devnet);
    let sink = pending.accept().await?;
    loop {
        tokio::select! {
            () = sink.closed() => return Ok(()),
            event = events.recv() => match event {
                Ok(ChainEvent::Missed(missed)) => return Err(behind(missed)),
                Ok(event) => {
                    for message in messages(&topic, &event) {
                        if !deliver(&sink, message).await {
                            return Ok(());
                        }
                    }
                }
                Err(RecvError::Closed) => return Ok(()),
                // After a gap, the subscription must end. Clients are informed of an error, but not of a normal end.
                Err(RecvError::Lagged(missed)) => return Err(behind(missed)),
            },
        }
    }
}

fn behind(missed: u64) -> SubscriptionError {
    format!("{missed} events were missed; subscribe again").into()
}

/// Error of an invalid subscription request.
#[derive(Debug, thiserror::Error)]
enum TopicError {
    #[error("the first parameter must name the subscription: newHeads, logs or newPendingTransactions")]
    Missing,
    #[error("the second parameter must be a filter: {{address, topics}}")]
    NoFilter,
    #[error("no such subscription: use newHeads, logs or newPendingTransactions")]
    Unknown,
}

fn topic(params: &Params<'static>) -> Result<SubscriptionTopic, TopicError> {
    let mut sequence = params.sequence();
    let name: String = sequence.next().map_err(|_| TopicError::Missing)?;
    match name.as_str() {
        "newHeads" => Ok(SubscriptionTopic::Heads),
        "newPendingTransactions" => Ok(SubscriptionTopic::PendingTransactions),
        "logs" => {
            let filter: Option<Filter> = sequence.optional_next().map_err(|_| TopicError::NoFilter)?;
            Ok(SubscriptionTopic::Logs(Box::new(filter.unwrap_or_default())))
        }
        _ => Err(TopicError::Unknown),
    }
}

fn messages(topic: &SubscriptionTopic, event: &ChainEvent) -> Vec<Box<RawValue>> {
    match (topic, event) {
        (SubscriptionTopic::Heads, ChainEvent::Added(block)) => {
            to_raw_value(&render::header(block)).into_iter().collect()
        }
        (SubscriptionTopic::Logs(filter), event) => {
            event_logs(filter, event).iter().filter_map(|log| to_raw_value(log).ok()).collect()
        }
        (SubscriptionTopic::PendingTransactions, ChainEvent::Pending(transaction)) => {
            to_raw_value(&transaction.hash).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

async fn deliver(sink: &SubscriptionSink, message: Box<RawValue>) -> bool {
    sink.send(SubscriptionMessage::from(message)).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devnet::{ChainConfig, DevnetConfig, MiningMode, RunningConfig};
    use serde_json::Value;

    #[tokio::test]
    async fn a_subscription_that_falls_too_far_behind_ends_with_an_error() {
        let running = RunningConfig { mining: MiningMode::Manual, clock: None, hook: None };
        let devnet = Devnet::spawn(DevnetConfig { chain: ChainConfig::default(), running }).expect("spawns");
        let module = module(devnet.clone()).expect("methods");
        let mut events = devnet.events();
        let subscribe = r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;
        let (_, mut told) = module.raw_json_request(subscribe, 16_384).await.expect("subscribed");
        // The journal keeps 4,096 events, so the first four of these blocks are lost before they are reported.
        let mine = |blocks: usize| devnet.run(move |chain| (0..blocks).for_each(|_| drop(chain.mine())));
        mine(4_100).await.expect("alive");
        assert!(matches!(events.recv().await, Ok(ChainEvent::Missed(4))));
        let Some(last) = told.recv().await else { panic!("an end without a word") };
        let last: Value = serde_json::from_str(last.get()).expect("JSON");
        assert_eq!(last["params"]["error"], "4 events were missed; subscribe again");
        assert!(told.recv().await.is_none());
    }
}
