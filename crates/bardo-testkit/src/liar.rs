//! A server on loopback that forwards requests to a real one and falsifies the answers, or returns invalid ones.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// Treatment of requests of one path; all others are forwarded unchanged.
pub enum Lie {
    /// Return these bytes and close the connection.
    Raw(Vec<u8>),
    /// Return the real answer, modified.
    Changed(Box<dyn Fn(&mut Value) + Send + Sync>),
    /// Stay silent for this time.
    Silence(Duration),
}

/// The server, which ends with the test's process.
pub struct Liar {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Liar {
    /// Lies about `path` in front of the server at `real`, such as `http://127.0.0.1:8547`.
    pub fn start(real: &str, path: &'static str, lie: Lie) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (real, log, lie) = (real.trim_start_matches("http://").to_owned(), Arc::clone(&heard), Arc::new(lie));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (real, log, lie) = (real.clone(), Arc::clone(&log), Arc::clone(&lie));
                std::thread::spawn(move || serve(stream, &real, path, &lie, &log));
            }
        });
        Self { port, heard }
    }

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Received requests, each as its head and body.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, real: &str, path: &str, lie: &Lie, log: &Mutex<Vec<String>>) -> Option<()> {
    let (head, body) = message(&mut stream)?;
    log.lock().unwrap().push(format!("{head}{}", String::from_utf8_lossy(&body)));
    let target = head.split(' ').nth(1)?;
    let meant = target.split('?').next() == Some(path);
    let answer = match lie {
        Lie::Raw(bytes) if meant => bytes.clone(),
        Lie::Silence(long) if meant => {
            std::thread::sleep(*long);
            Vec::new()
        }
        _ => {
            let (answer, told) = ask(real, &head, &body)?;
            match lie {
                Lie::Changed(change) if meant => {
                    let mut value: Value = serde_json::from_slice(&told).ok()?;
                    change(&mut value);
                    let status = answer.split("\r\n").next()?;
                    with_body(status, value.to_string().as_bytes())
                }
                _ => [answer.as_bytes(), told.as_slice()].concat(),
            }
        }
    };
    stream.write_all(&answer).ok()
}

/// Response with this status line.
pub fn with_body(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// The real server's response: its head and its body.
fn ask(real: &str, head: &str, body: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut stream = TcpStream::connect(real).ok()?;
    let lines = head.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("host:") && !line.is_empty());
    let head = format!("{}\r\nhost: {real}\r\n\r\n", lines.collect::<Vec<_>>().join("\r\n"));
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    message(&mut stream)
}

/// An HTTP/1.1 message with a length: its head with the empty line, and its body.
fn message(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut piece = [0u8; 4096];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut piece).ok()? {
            0 => return None,
            count => bytes.extend_from_slice(&piece[..count]),
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    let mut body = bytes[end..].to_vec();
    while body.len() < length.unwrap_or(0) {
        match stream.read(&mut piece).ok()? {
            0 => return None,
            count => body.extend_from_slice(&piece[..count]),
        }
    }
    Some((head, body))
}
