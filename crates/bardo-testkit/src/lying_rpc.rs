//! A JSON-RPC proxy that modifies single answers, also inside batches, and counts requests.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Modifies one answer; the first argument is its request.
pub type Lie = Box<dyn Fn(&Value, &mut Value) + Send + Sync>;

/// One HTTP request that the proxy received.
#[derive(Debug, Clone)]
pub struct Heard {
    /// Time of its arrival.
    pub at: Instant,
    /// Methods of its calls.
    pub methods: Vec<String>,
}

/// The proxy, which ends with the test's process.
pub struct LyingRpc {
    port: u16,
    heard: Arc<Mutex<Vec<Heard>>>,
    lies: Arc<AtomicBool>,
}

impl LyingRpc {
    /// Proxy in front of the endpoint at `real` that modifies answers with `lie`.
    pub fn start(real: &str, lie: Lie) -> Self {
        Self::slow(real, lie, Duration::ZERO)
    }

    /// Proxy that modifies nothing.
    pub fn honest(real: &str) -> Self {
        Self::start(real, Box::new(|_, _| {}))
    }

    /// Proxy that modifies nothing, and rejects batches of more than `most` calls.
    pub fn narrow(real: &str, most: usize) -> Self {
        Self::with(real, Box::new(|_, _| {}), Duration::ZERO, most)
    }

    /// Proxy that delays each answer.
    pub fn slow(real: &str, lie: Lie, delay: Duration) -> Self {
        Self::with(real, lie, delay, usize::MAX)
    }

    fn with(real: &str, lie: Lie, delay: Duration, most: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let lies = Arc::new(AtomicBool::new(true));
        let real = real.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let (log, lying, lie) = (Arc::clone(&heard), Arc::clone(&lies), Arc::new(lie));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (real, log, lie, lying) = (real.clone(), Arc::clone(&log), Arc::clone(&lie), Arc::clone(&lying));
                std::thread::spawn(move || {
                    // A connection carries many requests, until either side closes it.
                    let (mut client, mut node) = (stream, None);
                    while serve(&mut client, &mut node, &real, &lie, &lying, &log, (delay, most)).is_some() {}
                });
            }
        });
        Self { port, heard, lies }
    }

    /// URL of the proxy.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Switches the lie on or off.
    pub fn lie(&self, lies: bool) {
        self.lies.store(lies, Ordering::SeqCst);
    }

    /// Every request so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }
}

fn serve(
    client: &mut TcpStream,
    node: &mut Option<TcpStream>,
    real: &str,
    lie: &Lie,
    lies: &AtomicBool,
    log: &Mutex<Vec<Heard>>,
    (delay, most): (Duration, usize),
) -> Option<()> {
    let body = message(client)?;
    let question: Value = serde_json::from_slice(&body).ok()?;
    let all = question.as_array().cloned().unwrap_or_else(|| vec![question.clone()]);
    let methods = all.iter().map(|one| one["method"].as_str().unwrap_or_default().to_owned()).collect();
    log.lock().unwrap().push(Heard { at: Instant::now(), methods });
    std::thread::sleep(delay);
    let mut answer = match all.len() > most {
        false => ask(node, real, &body)?,
        true => {
            serde_json::json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "too many calls in one request"}})
        }
    };
    if lies.load(Ordering::SeqCst) {
        let change = |answer: &mut Value| {
            let id = answer["id"].clone();
            if let Some(asked) = all.iter().find(|one| one["id"] == id) {
                lie(asked, answer);
            }
        };
        match &mut answer {
            Value::Array(answers) => answers.iter_mut().for_each(change),
            single => change(single),
        }
    }
    // A lie that leaves nothing closes the connection.
    if answer["silent"] == true {
        return None;
    }
    let body = answer.to_string();
    write!(client, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .ok()
}

/// Answer of the real endpoint, over a reused connection.
fn ask(node: &mut Option<TcpStream>, real: &str, body: &[u8]) -> Option<Value> {
    let mut attempt = || {
        if node.is_none() {
            *node = Some(TcpStream::connect(real).ok()?);
        }
        let stream = node.as_mut()?;
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {real}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let sent = stream.write_all(&[head.as_bytes(), body].concat()).ok().and_then(|()| message(stream));
        if sent.is_none() {
            *node = None;
        }
        sent
    };
    // Only a connection that was idle is retried, on a new one.
    let answer = attempt().or_else(attempt)?;
    serde_json::from_slice(&answer).ok()
}

/// The body of an HTTP/1.1 message with a length.
fn message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0_u8; 16_384];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut piece).ok()? {
            0 => return None,
            count => bytes.extend_from_slice(&piece[..count]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length: usize = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok()).flatten()
    })?;
    let mut body = bytes.split_off(end);
    while body.len() < length {
        match stream.read(&mut piece).ok()? {
            0 => return None,
            count => body.extend_from_slice(&piece[..count]),
        }
    }
    Some(body)
}
