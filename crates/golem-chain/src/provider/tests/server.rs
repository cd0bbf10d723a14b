//! A test HTTP server that misbehaves on demand and records its requests.

use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Default chain id of a test server.
pub(super) const CHAIN_ID: u64 = 31337;

/// Reaction of the server to one request.
pub(super) enum Reaction {
    /// Status 200 with this body.
    Body(String),
    /// Any status, with extra header lines and a body.
    Status(u16, &'static str, String),
    /// Accepts the request and never answers.
    Silence,
    /// Announces more than it sends, then closes the connection.
    Cut(String),
    /// Closes the connection without an answer.
    Close,
    /// An endless chunked body.
    Endless,
    /// Announces a body of this many bytes and sends a part of it.
    Announce(usize),
}

/// A server on the loopback interface that runs until it is dropped.
pub(super) struct Server {
    pub(super) url: String,
    seen: Arc<Mutex<Vec<Value>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts a server. `react` decides the reaction to everything but a single `eth_chainId`, which returns
    /// `chain_id`.
    pub(super) async fn start(
        chain_id: u64,
        react: impl Fn(usize, &Value) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, react) = (Arc::clone(&seen), Arc::new(react));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, react) = (Arc::clone(&log), Arc::clone(&react));
                tokio::spawn(async move {
                    let mut stream = stream;
                    let Some(question) = read_request(&mut stream).await else { return };
                    let reaction = if question["method"] == "eth_chainId" {
                        Reaction::Body(result(&question, json!(format!("{chain_id:#x}"))))
                    } else {
                        let index = {
                            let mut log = log.lock();
                            log.push(question.clone());
                            log.len() - 1
                        };
                        react(index, &question)
                    };
                    // The client may close the connection at any moment; some tests are about that.
                    let _ = answer(&mut stream, reaction).await;
                });
            }
        });
        Self { url, seen, task }
    }

    /// Starts a server that answers each call with its method's name.
    pub(super) async fn good() -> Self {
        Self::start(CHAIN_ID, |_, question| Reaction::Body(good_answer(question))).await
    }

    /// Number of requests, without those for the chain id.
    pub(super) fn count(&self) -> usize {
        self.seen.lock().len()
    }
}

/// URL on the loopback interface without a listener.
pub(super) async fn dead_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// JSON-RPC result for a single call.
pub(super) fn result(question: &Value, result: Value) -> String {
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string()
}

/// Correct answer to a single call or a batch: each call's method name.
pub(super) fn good_answer(question: &Value) -> String {
    let one = |call: &Value| json!({"jsonrpc": "2.0", "id": call["id"], "result": call["method"]});
    match question.as_array() {
        Some(calls) => Value::Array(calls.iter().map(one).collect()).to_string(),
        None => one(question).to_string(),
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
            let body = &bytes[end + 4..];
            if body.len() >= length {
                return serde_json::from_slice(&body[..length]).ok();
            }
        }
        let read = stream.read(&mut buffer).await.ok()?;
        if read == 0 {
            return None;
        }
        bytes.extend_from_slice(&buffer[..read]);
    }
}

async fn answer(stream: &mut TcpStream, reaction: Reaction) -> std::io::Result<()> {
    match reaction {
        Reaction::Body(body) => whole(stream, 200, "", &body).await,
        Reaction::Status(status, headers, body) => whole(stream, status, headers, &body).await,
        Reaction::Silence => {
            // Waits until the client closes the connection.
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.map(|_| ())
        }
        Reaction::Cut(body) => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len() + 100);
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
            stream.shutdown().await
        }
        Reaction::Close => stream.shutdown().await,
        Reaction::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
            loop {
                stream.write_all(b"400\r\n").await?;
                stream.write_all(&[b' '; 1024]).await?;
                stream.write_all(b"\r\n").await?;
            }
        }
        Reaction::Announce(length) => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n[");
            stream.write_all(head.as_bytes()).await?;
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.map(|_| ())
        }
    }
}

async fn whole(stream: &mut TcpStream, status: u16, headers: &str, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
