//! Proxy between a client and a chain's server that drops or changes selected requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy::transports::http::reqwest::{Client, header};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Treatment of one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// Forward the request and its answer.
    Pass,
    /// Forward the request; close the connection without the answer.
    LoseAnswer,
    /// Close the connection without forwarding.
    LoseRequest,
    /// Return this status without forwarding.
    Status(u16),
    /// Return this error code and message without forwarding.
    Refuse(i64, &'static str),
    /// Return this result without forwarding.
    Claim(Value),
    /// Return this page without forwarding.
    Page(String),
    /// Forward after this delay, whether or not anyone still waits for the answer.
    Delay(Duration),
    /// Forward twice, like a gateway that retries by itself; return the second answer.
    Twice,
    /// Forward as a server that is this many blocks behind the latest.
    StaleHead(u64),
}

/// Proxy on loopback that runs until it is dropped.
pub struct Proxy {
    pub url: String,
    seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

/// Requests that a proxy received.
#[derive(Default)]
struct Seen {
    counts: HashMap<String, usize>,
    /// Method and first parameter of each request; empty for a forgetting proxy.
    requests: Vec<(String, Value)>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Proxy to `target`; `fate` decides by method and by the number of earlier requests of that method.
    pub async fn start(target: String, fate: impl Fn(&str, usize) -> Fate + Send + Sync + 'static) -> Self {
        Self::with(target, by_method(fate), true).await
    }

    /// Proxy that decides by the whole request.
    pub async fn asked(target: String, fate: impl Fn(&Value, usize) -> Fate + Send + Sync + 'static) -> Self {
        Self::with(target, fate, true).await
    }

    /// Proxy that stores only the number of requests, so that it can run for hours.
    pub async fn forgetting(target: String, fate: impl Fn(&str, usize) -> Fate + Send + Sync + 'static) -> Self {
        Self::with(target, by_method(fate), false).await
    }

    async fn with(
        target: String,
        fate: impl Fn(&Value, usize) -> Fate + Send + Sync + 'static,
        remembers: bool,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (log, fate, client) = (Arc::clone(&seen), Arc::new(fate), Client::builder().no_proxy().build().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (log, fate, client, target) = (log.clone(), fate.clone(), client.clone(), target.clone());
                tokio::spawn(async move {
                    // A connection may carry many requests; the client may close it at any moment.
                    while let Some(question) = read(&mut stream).await {
                        let method = question["method"].as_str().unwrap_or("batch").to_owned();
                        let before = {
                            let mut log = log.lock().unwrap();
                            if remembers {
                                log.requests.push((method.clone(), question["params"][0].clone()));
                            }
                            let count = log.counts.entry(method.clone()).or_default();
                            *count += 1;
                            *count - 1
                        };
                        let (status, body) = match fate(&question, before) {
                            Fate::Pass => (200, forward(&client, &target, &question).await),
                            Fate::LoseAnswer => {
                                forward(&client, &target, &question).await;
                                return;
                            }
                            Fate::LoseRequest => return,
                            Fate::Status(status) => (status, String::new()),
                            Fate::Refuse(code, message) => {
                                let error = json!({ "code": code, "message": message });
                                (200, json!({ "jsonrpc": "2.0", "id": question["id"], "error": error }).to_string())
                            }
                            Fate::Claim(result) => {
                                (200, json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }).to_string())
                            }
                            Fate::Page(page) => (200, page),
                            Fate::Delay(long) => {
                                // In its own task: a client that closes the connection does not stop the request.
                                let (client, target, question) = (client.clone(), target.clone(), question.clone());
                                let late = tokio::spawn(async move {
                                    tokio::time::sleep(long).await;
                                    forward(&client, &target, &question).await
                                });
                                (200, late.await.unwrap())
                            }
                            Fate::Twice => {
                                forward(&client, &target, &question).await;
                                (200, forward(&client, &target, &question).await)
                            }
                            Fate::StaleHead(blocks) => (200, stale(&client, &target, &question, blocks).await),
                        };
                        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
                        if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { url, seen, task }
    }

    /// Number of requests of a method.
    pub fn count(&self, method: &str) -> usize {
        self.seen.lock().unwrap().counts.get(method).copied().unwrap_or_default()
    }

    /// First parameter of each request of a method.
    pub fn first_params(&self, method: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.requests.iter().filter(|(asked, _)| asked == method).map(|(_, first)| first.clone()).collect()
    }
}

fn by_method(fate: impl Fn(&str, usize) -> Fate) -> impl Fn(&Value, usize) -> Fate {
    move |question, before| fate(question["method"].as_str().unwrap_or("batch"), before)
}

/// Every failure of a send at an endpoint, and whether it ends a first submission: a known rejection that neither time
/// nor another endpoint can change. Two failures are not an endpoint's: an unreachable endpoint and one of another
/// chain. `tests/chain/sending` and the provider's own tests cover these.
pub fn send_faults() -> Vec<(Fate, bool)> {
    vec![
        (Fate::LoseAnswer, false),
        (Fate::LoseRequest, false),
        (Fate::Status(429), false),
        (Fate::Status(500), false),
        (Fate::Status(502), false),
        (Fate::Status(504), false),
        (Fate::Refuse(-32_603, "internal error"), false),
        (Fate::Refuse(-32_000, "already known"), false),
        (Fate::Refuse(-32_000, "nonce too low"), false),
        (Fate::Refuse(-32_000, "nonce too high"), false),
        (Fate::Refuse(-32_000, "transaction underpriced"), false),
        (Fate::Refuse(-32_000, "replacement transaction underpriced"), false),
        (Fate::Refuse(-32_000, "insufficient funds for gas * price + value"), true),
        (Fate::Refuse(-32_000, "intrinsic gas too low"), true),
        (Fate::Refuse(3, "execution reverted"), true),
        (Fate::Refuse(-32_000, "txpool is full"), false),
        (Fate::Refuse(-32_000, "words that nobody knows"), false),
        (Fate::Claim(json!(format!("0x{}", "9".repeat(64)))), false),
        (Fate::Page("<html>a gateway's page</html>".to_owned()), false),
        (Fate::Page("{\"jsonrpc\":\"2.0\",\"id\":".to_owned()), false),
    ]
}

/// Relay that reports the same status for everything.
pub async fn status_page(status: &'static str) -> Proxy {
    Proxy::start(String::new(), move |_, _| Fate::Page(json!({ "status": status, "maxBlockNumber": 0 }).to_string()))
        .await
}

async fn forward(client: &Client, target: &str, question: &Value) -> String {
    let request = client.post(target).header(header::CONTENT_TYPE, "application/json").body(question.to_string());
    request.send().await.unwrap().text().await.unwrap()
}

/// Answer of a server that is this many blocks behind.
async fn stale(client: &Client, target: &str, question: &Value, blocks: u64) -> String {
    if let Some(batch) = question.as_array() {
        let mut answers = Vec::new();
        for one in batch {
            let answer = Box::pin(stale(client, target, one, blocks)).await;
            answers.push(serde_json::from_str::<Value>(&answer).unwrap());
        }
        return Value::Array(answers).to_string();
    }
    let number = |value: &Value| u64::from_str_radix(value.as_str()?.trim_start_matches("0x"), 16).ok();
    let asked = json!({ "jsonrpc": "2.0", "id": 0, "method": "eth_blockNumber", "params": [] });
    let head: Value = serde_json::from_str(&forward(client, target, &asked).await).unwrap();
    let head = number(&head["result"]).unwrap().saturating_sub(blocks);
    let mut question = question.clone();
    for parameter in question["params"].as_array_mut().into_iter().flatten() {
        if matches!(parameter.as_str(), Some("latest" | "pending")) {
            *parameter = json!(format!("{head:#x}"));
        }
    }
    // It does not have states of later blocks.
    let tag = question["params"].as_array().and_then(|all| all.last()).and_then(number);
    let of_state =
        matches!(question["method"].as_str(), Some("eth_getTransactionCount" | "eth_call" | "eth_getBalance"));
    if of_state && tag.is_some_and(|tag| tag > head) {
        let error = json!({ "code": -32_000, "message": "header not found" });
        return json!({ "jsonrpc": "2.0", "id": question["id"], "error": error }).to_string();
    }
    let mut answer: Value = serde_json::from_str(&forward(client, target, &question).await).unwrap();
    if question["method"] == "eth_blockNumber" {
        answer["result"] = json!(format!("{head:#x}"));
    }
    // A transaction, a receipt or a block that it has not seen.
    let block = answer["result"].get("blockNumber").or_else(|| answer["result"].get("number"));
    if block.and_then(number).is_some_and(|block| block > head) {
        answer["result"] = Value::Null;
    }
    answer.to_string()
}

async fn read(stream: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 8192];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            if let Some(path) = head.strip_prefix("get ") {
                // A status is requested with GET; only its path matters.
                let path = path.split(' ').next()?.to_owned();
                return Some(json!({ "method": "GET", "params": [path], "id": 0 }));
            }
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
            let body = &bytes[end + 4..];
            if body.len() >= length {
                return serde_json::from_slice(&body[..length]).ok();
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}
