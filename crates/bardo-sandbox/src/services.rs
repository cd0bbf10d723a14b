//! HTTP server on the loopback interface for the devnet's order service, quotes, relayers and subgraphs, in the documented
//! formats of their clients. A Bardo in another process trades through it.
//!
//! It is a minimal HTTP/1.1 server: request line, headers, bounded body, response, and the connection is closed.
//! Requests of web pages are refused by their `Origin`.

mod graphql;
mod order_info;
mod subgraph;
mod trading;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::Sandbox;
use super::order_service::LocalOrders;
use super::relayers::LocalRelayers;
use bardo_base::service::ServiceError;
use golem_protocols::across::quote::{FeeGateway as _, FeeRequest, quote_json};
use golem_protocols::intents::CrossChainIntent;
use golem_protocols::intents::gateway::{BidRequest, IntentGateway as _};
use golem_protocols::intents::service::bid_json;
use golem_protocols::uniswap::gateway::ServiceReport;
use golem_protocols::uniswap::order::{OrderKind, UniswapXOrder};

/// Maximum size of a request, in bytes; an encoded order is far smaller.
const MAX_REQUEST: usize = 128 * 1024;
/// Timeout for reading a request and sending the response.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of concurrent connections.
const MOST_CONNECTIONS: usize = 64;

/// The running server, which stops when it is dropped.
#[derive(Debug)]
pub struct ServiceServer {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

impl ServiceServer {
    /// Base URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

impl Drop for ServiceServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves the order service and the relayers of `sandbox` on 127.0.0.1 at `port`; with 0, the system chooses a port.
///
/// # Errors
/// An [`io::Error`] if the port cannot be used.
pub async fn serve(sandbox: &Sandbox, port: u16) -> io::Result<ServiceServer> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let addr = listener.local_addr()?;
    let sandbox = sandbox.clone();
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let task = tokio::spawn(async move {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else { continue };
            let sandbox = sandbox.clone();
            tokio::spawn(async move {
                // A client that is too slow or disconnects gets no response.
                let _ended = tokio::time::timeout(PATIENCE, exchange(&sandbox, stream)).await;
                drop(place);
            });
        }
    });
    Ok(ServiceServer { addr, task })
}

/// The relevant parts of a request.
#[derive(Debug, PartialEq, Eq)]
struct HttpRequest {
    method: String,
    path: String,
    query: Vec<(String, String)>,
    body: Vec<u8>,
    /// True if the request has an API key; all keys are accepted.
    key: bool,
    /// Requested Universal Router version, from the header `x-universal-router-version`.
    router: Option<String>,
}

/// HTTP status and JSON body of a response.
type HttpAnswer = (u16, Value);

async fn exchange(sandbox: &Sandbox, mut stream: TcpStream) -> io::Result<()> {
    let (status, body) = match read(&mut stream).await? {
        Ok(request) => Box::pin(answer(sandbox, &request)).await,
        Err(refused) => refused,
    };
    let words = match status {
        200 => "OK",
        201 => "Created",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        _ => "Service Unavailable",
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} {words}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

fn refused(status: u16, code: &str, detail: impl std::fmt::Display) -> HttpAnswer {
    (status, json!({ "errorCode": code, "detail": detail.to_string() }))
}

fn invalid(detail: impl std::fmt::Display) -> HttpAnswer {
    refused(400, "RequestValidationError", detail)
}

async fn read(stream: &mut TcpStream) -> io::Result<Result<HttpRequest, HttpAnswer>> {
    let mut reading = PartialRequest::default();
    let mut piece = [0u8; 4096];
    loop {
        if let Some(request) = reading.request() {
            return Ok(request);
        }
        if reading.bytes.len() > MAX_REQUEST {
            return Ok(Err(refused(413, "RequestValidationError", "the request is too large")));
        }
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Ok(Err(invalid("the request ended before its end")));
        }
        reading.bytes.extend(piece.iter().take(count));
    }
}

/// A partially received request. Each byte is searched for the end of the head once, and the head is parsed once. The
/// work is linear in the request's length, for any fragmentation.
#[derive(Debug, Default)]
struct PartialRequest {
    bytes: Vec<u8>,
    /// Position at which the search for the end of the head continues.
    searched: usize,
    head: Option<RequestHead>,
    /// Number of bytes compared so far.
    #[cfg(test)]
    compared: usize,
}

/// The parsed head, and the range of the body.
#[derive(Debug)]
struct RequestHead {
    request: HttpRequest,
    body: std::ops::Range<usize>,
}

impl PartialRequest {
    /// Returns the request once it is complete.
    fn request(&mut self) -> Option<Result<HttpRequest, HttpAnswer>> {
        if self.head.is_none() {
            let rest = self.bytes.get(self.searched..)?;
            #[cfg(test)]
            {
                self.compared += rest.len();
            }
            let Some(found) = rest.windows(4).position(|four| four == b"\r\n\r\n") else {
                // The terminator may have started in the last three bytes.
                self.searched = self.bytes.len().saturating_sub(3);
                return None;
            };
            let end = self.searched.checked_add(found)?;
            match head(self.bytes.get(..end)?, end.checked_add(4)?) {
                Ok(head) => self.head = Some(head),
                Err(refused) => return Some(Err(refused)),
            }
        }
        let body = self.bytes.get(self.head.as_ref()?.body.clone())?.to_vec();
        let RequestHead { request, .. } = self.head.take()?;
        Some(Ok(HttpRequest { body, ..request }))
    }
}

/// Parses a complete request; `None` if it is incomplete.
#[cfg(test)]
fn parse(bytes: &[u8]) -> Option<Result<HttpRequest, HttpAnswer>> {
    PartialRequest { bytes: bytes.to_vec(), ..PartialRequest::default() }.request()
}

/// Parses a head whose body starts at `from`.
fn head(bytes: &[u8], from: usize) -> Result<RequestHead, HttpAnswer> {
    let Ok(head) = std::str::from_utf8(bytes) else { return Err(invalid("the header is not text")) };
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0")) = (words.next(), words.next(), words.next()) else {
        return Err(invalid("not an HTTP/1.1 request"));
    };
    let (mut length, mut key, mut router) = (0, false, None);
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { return Err(invalid("a header without a name")) };
        match name.trim().to_ascii_lowercase().as_str() {
            "content-length" => match value.trim().parse::<usize>() {
                Ok(given) if given <= MAX_REQUEST => length = given,
                _ => return Err(refused(413, "RequestValidationError", "the request is too large")),
            },
            "x-api-key" => key = !value.trim().is_empty(),
            "x-universal-router-version" => router = Some(value.trim().to_owned()),
            "transfer-encoding" => return Err(invalid("the content-length header is missing")),
            // Only browsers send this header.
            "origin" => return Err(refused(403, "Forbidden", "requests from web pages are rejected")),
            "host" if !local(value.trim()) => {
                return Err(refused(403, "Forbidden", "the host header names another host"));
            }
            _ => {}
        }
    }
    let body = from..from.saturating_add(length);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = query.split('&').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned()));
    let request = HttpRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.collect(),
        body: Vec::new(),
        key,
        router,
    };
    Ok(RequestHead { request, body })
}

fn local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

async fn answer(sandbox: &Sandbox, request: &HttpRequest) -> HttpAnswer {
    let body = || serde_json::from_slice::<Value>(&request.body).map_err(|_| invalid("the body is not JSON"));
    let result = match (request.method.as_str(), request.path.as_str()) {
        (_, "/quote" | "/check_approval" | "/swap" | "/swaps") if !request.key => {
            Err(refused(401, "UnauthorizedError", "the header x-api-key is missing"))
        }
        // The devnet's router is 2.1.0, which accepts the older format.
        ("POST", "/quote" | "/swap") if request.router.as_deref().is_some_and(|asked| asked != "2.0") => {
            Err(invalid("\"x-universal-router-version\" is 2.0 here"))
        }
        ("POST", path @ ("/quote" | "/check_approval" | "/swap")) => match body() {
            Ok(body) => match path {
                "/quote" => trading::quote(sandbox, &body).await,
                "/swap" => trading::swap(sandbox, &body).await,
                _ => trading::approval(sandbox, &body).await,
            },
            Err(refused) => Err(refused),
        },
        ("GET", "/swaps") => trading::swaps(sandbox, &request.query).await,
        ("POST", "/order") => match body() {
            Ok(body) => take_order(sandbox, &body).await,
            Err(refused) => Err(refused),
        },
        ("GET", "/orders") => show_orders(sandbox, &request.query).await,
        ("POST", "/intents/quote") => match body() {
            Ok(body) => quote_intent(sandbox, &body).await,
            Err(refused) => Err(refused),
        },
        ("POST", "/intents") => match body() {
            Ok(body) => take_intent(sandbox, &body).await,
            Err(refused) => Err(refused),
        },
        ("POST", path) if path.starts_with("/subgraphs/") => match body() {
            Ok(body) => {
                let behind = request.query.iter().find(|(key, _)| key == "behind");
                let behind = behind.and_then(|(_, number)| number.parse().ok()).unwrap_or_default();
                subgraph::ask(sandbox, path.trim_start_matches("/subgraphs/"), behind, &body).await
            }
            Err(refused) => Err(refused),
        },
        ("GET", path) if path.starts_with("/intents/") => show_intent(sandbox, path).await,
        ("GET", "/suggested-fees") => suggest_fees(sandbox, &request.query).await,
        _ => Err(refused(404, "ResourceNotFound", "no such path")),
    };
    result.unwrap_or_else(|refused| refused)
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(*name))
}

fn text<'a>(value: &'a Value, path: &[&str]) -> Result<&'a str, HttpAnswer> {
    at(value, path).and_then(Value::as_str).ok_or_else(|| invalid(format_args!("\"{}\" is missing", path.join("."))))
}

fn number(value: &Value, path: &[&str]) -> Result<u64, HttpAnswer> {
    at(value, path).and_then(Value::as_u64).ok_or_else(|| invalid(format_args!("\"{}\" is missing", path.join("."))))
}

fn bytes(value: &Value, path: &[&str]) -> Result<Bytes, HttpAnswer> {
    Bytes::from_str(text(value, path)?).map_err(|_| invalid(format_args!("\"{}\" is not hexadecimal", path.join("."))))
}

fn address(value: &Value, name: &str) -> Result<Address, HttpAnswer> {
    Address::from_str(text(value, &[name])?).map_err(|_| invalid(format_args!("\"{name}\" is not an address")))
}

fn orders_of(sandbox: &Sandbox, chain_id: u64) -> Result<LocalOrders, HttpAnswer> {
    let chain = sandbox.chain(&chain_id.to_string());
    let chain = chain.ok_or_else(|| invalid(format_args!("chain {chain_id} is not a chain of this devnet")))?;
    Ok(LocalOrders::new(chain.devnet.clone(), chain.background_actors.clone()))
}

fn relayers_of(sandbox: &Sandbox, chain_id: u64) -> Result<LocalRelayers, HttpAnswer> {
    let chain = sandbox.chain(&chain_id.to_string());
    let found = chain.and_then(|chain| Some((chain, chain.background_actors.relayers()?.clone())));
    let (chain, relayers) =
        found.ok_or_else(|| invalid(format_args!("no relayer accepts intents from chain {chain_id}")))?;
    Ok(LocalRelayers::new(relayers, chain.devnet.clone(), chain.background_actors.clone()))
}

fn request_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

async fn take_order(sandbox: &Sandbox, body: &Value) -> Result<HttpAnswer, HttpAnswer> {
    let kind = text(body, &["routing"])?;
    let kind = OrderKind::named(kind).ok_or_else(|| invalid(format_args!("routing {kind} is not an order type")))?;
    let orders = orders_of(sandbox, number(body, &["quote", "orderInfo", "chainId"])?)?;
    let encoded = bytes(body, &["quote", "encodedOrder"])?;
    let order = UniswapXOrder::decode(kind, &encoded).map_err(|error| invalid(&error))?;
    order_info::validate(at(body, &["quote", "orderInfo"]).unwrap_or(&Value::Null), &order).map_err(invalid)?;
    let taken = orders.submit_order(order, bytes(body, &["signature"])?).await;
    let taken = taken.map_err(|error| refused(503, "ServiceUnavailable", error))?;
    let hash = taken.map_err(|error| invalid(&error))?;
    Ok((201, json!({ "requestId": request_id(), "orderId": hash, "orderStatus": "open" })))
}

async fn show_orders(sandbox: &Sandbox, query: &[(String, String)]) -> Result<HttpAnswer, HttpAnswer> {
    let of = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let asked =
        of("orderIds").or_else(|| of("orderId")).ok_or_else(|| invalid("\"orderId\" or \"orderIds\" is missing"))?;
    let chains: Vec<u64> = match of("chainId") {
        Some(id) => vec![id.parse().map_err(|_| invalid("\"chainId\" is not a number"))?],
        None => sandbox.chains().iter().map(|chain| chain.deployment.plan.chain_id).collect(),
    };
    let mut found = Vec::new();
    for id in asked.split(',').take(50) {
        let hash = B256::from_str(id).map_err(|_| invalid("an order id is not a hash"))?;
        for chain_id in &chains {
            let entry = orders_of(sandbox, *chain_id)?.entry(hash).await;
            let entry = entry.map_err(|error| refused(503, "ServiceUnavailable", error))?;
            if let Some((entry, report)) = entry {
                found.push(order_json(*chain_id, hash, &entry.order, &entry.signature, &report));
            }
        }
    }
    Ok((200, json!({ "requestId": request_id(), "orders": found })))
}

/// Builds the answer's entry for one order.
fn order_json(chain_id: u64, hash: B256, order: &UniswapXOrder, signature: &Bytes, report: &ServiceReport) -> Value {
    let mut entry = json!({
        "type": order.kind().service_name(),
        "encodedOrder": order.encode(),
        "signature": signature,
        "nonce": order.info().nonce.to_string(),
        "orderId": hash,
        "orderStatus": report.status.as_str(),
        "chainId": chain_id,
        "swapper": order.info().swapper,
    });
    if let Value::Object(fields) = &mut entry {
        if let Some(cosignature) = order.cosignature().filter(|bytes| !bytes.is_empty()) {
            fields.insert("cosignature".to_owned(), json!(cosignature));
        }
        if let Some(transaction) = report.transaction {
            fields.insert("txHash".to_owned(), json!(transaction));
        }
        if let Some(bid) = &report.best_bid {
            let best_bid = json!({ "filler": bid.filler, "name": bid.name, "output": bid.output.to_string() });
            fields.insert("bestBid".to_owned(), best_bid);
        }
        let fillers = report.names.iter().map(|(filler, name)| json!({ "filler": filler, "name": name }));
        fields.insert("fillers".to_owned(), fillers.collect());
    }
    entry
}

fn relayed(error: ServiceError) -> HttpAnswer {
    match error {
        ServiceError::Refused(why) => invalid(&why),
        other => refused(503, "ServiceUnavailable", other),
    }
}

async fn quote_intent(sandbox: &Sandbox, body: &Value) -> Result<HttpAnswer, HttpAnswer> {
    let origin = number(body, &["originChainId"])?;
    let amount = U256::from_str(text(body, &["amountIn"])?).map_err(|_| invalid("\"amountIn\" is not a number"))?;
    let request = BidRequest {
        origin_chain_id: origin,
        destination_chain_id: number(body, &["destinationChainId"])?,
        token_in: address(body, "tokenIn")?,
        amount_in: amount,
        token_out: address(body, "tokenOut")?,
    };
    let bids = relayers_of(sandbox, origin)?.quote(&request).await.map_err(relayed)?;
    Ok((200, json!({ "requestId": request_id(), "bids": bids.iter().map(bid_json).collect::<Vec<_>>() })))
}

/// Answers in the form of Across's API.
async fn suggest_fees(sandbox: &Sandbox, query: &[(String, String)]) -> Result<HttpAnswer, HttpAnswer> {
    fn read<T: std::str::FromStr>(query: &[(String, String)], name: &str) -> Result<T, HttpAnswer> {
        let given = query.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.parse().ok());
        given.ok_or_else(|| invalid(format_args!("\"{name}\" is missing")))
    }
    let [origin_chain_id, destination_chain_id] = [read(query, "originChainId")?, read(query, "destinationChainId")?];
    let pool = |chain_id: u64| {
        let chain = sandbox.chain(&chain_id.to_string());
        let pool = chain.and_then(|chain| chain.deployment.contracts.get("acrossSpokePool").copied());
        pool.ok_or_else(|| invalid(format_args!("chain {chain_id} has no SpokePool")))
    };
    let request = FeeRequest {
        origin_chain_id,
        destination_chain_id,
        input_token: read(query, "inputToken")?,
        output_token: read(query, "outputToken")?,
        amount: read(query, "amount")?,
        pool: pool(origin_chain_id)?,
        destination_pool: pool(destination_chain_id)?,
    };
    let quote = relayers_of(sandbox, origin_chain_id)?.suggested_fees(&request).await.map_err(relayed)?;
    Ok((200, quote_json(&request, &quote)))
}

async fn take_intent(sandbox: &Sandbox, body: &Value) -> Result<HttpAnswer, HttpAnswer> {
    let intent = CrossChainIntent::decode(&bytes(body, &["encodedOrder"])?).map_err(|error| invalid(&error))?;
    let relayers = relayers_of(sandbox, intent.origin_chain_id)?;
    let id = relayers.submit(&intent, &bytes(body, &["signature"])?).await.map_err(relayed)?;
    Ok((201, json!({ "requestId": request_id(), "intentId": id })))
}

async fn show_intent(sandbox: &Sandbox, path: &str) -> Result<HttpAnswer, HttpAnswer> {
    let id = path.rsplit('/').next().unwrap_or_default();
    let id = B256::from_str(id).map_err(|_| invalid("the intent's id is not a hash"))?;
    for chain in sandbox.chains() {
        let bids = relayers_of(sandbox, chain.deployment.plan.chain_id)?.bids(id).await.map_err(relayed)?;
        if let Some(bids) = bids {
            let bids: Vec<Value> = bids.iter().map(bid_json).collect();
            return Ok((200, json!({ "requestId": request_id(), "intentId": id, "bids": bids })));
        }
    }
    Err(refused(404, "ResourceNotFound", "no such intent"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_request_in_single_bytes_takes_linear_work() {
        let body = "x".repeat(2_000);
        let filler = "y".repeat(20_000);
        let whole = format!("POST /quote HTTP/1.1\r\nx-filler: {filler}\r\ncontent-length: 2000\r\n\r\n{body}");
        let mut reading = super::PartialRequest::default();
        let mut found = None;
        for byte in whole.bytes() {
            reading.bytes.push(byte);
            found = reading.request();
            assert!(found.is_none() || reading.bytes.len() == whole.len());
        }
        assert_eq!(found.unwrap().unwrap().body, body.as_bytes());
        assert!(reading.compared < 5 * whole.len(), "{} for {}", reading.compared, whole.len());
    }

    use super::*;

    fn asked(text: &str) -> Option<Result<HttpRequest, HttpAnswer>> {
        parse(text.as_bytes())
    }

    #[test]
    fn requests_are_read_completely_or_rejected() {
        assert_eq!(asked("GET /orders?orderId=0x1 HTTP/1.1\r\nhost: 127.0.0.1:1\r\n"), None);
        let request = asked("GET /orders?orderId=0x1&x HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n").unwrap().unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/orders"));
        assert_eq!(request.query, [("orderId".to_owned(), "0x1".to_owned())]);
        assert_eq!(asked("POST /order HTTP/1.1\r\ncontent-length: 4\r\n\r\nabc"), None);
        assert_eq!(asked("POST /order HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcd").unwrap().unwrap().body, b"abc");
        for (bad, status) in [
            ("GET /\r\n\r\n", 400),
            ("GET / HTTP/2\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nnothing\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\norigin: https://page.example\r\n\r\n", 403),
            ("GET / HTTP/1.1\r\nhost: page.example\r\n\r\n", 403),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n", 413),
            ("POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 413),
        ] {
            assert_eq!(asked(bad).unwrap().unwrap_err().0, status, "{bad}");
        }
    }
}
