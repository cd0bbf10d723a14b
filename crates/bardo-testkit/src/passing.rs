//! A proxy between a program and a server of JSON over HTTP: it sees requests, answers some of them itself, forwards
//! the rest, and may replace one text by another in the answers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::Value;

/// Examines a request, its first line and its body; returns the answer, or `None` to forward it.
pub type Look = Arc<dyn Fn(&str, &Value) -> Option<Value> + Send + Sync>;

/// Reads one request: its first line and its body.
fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let mut piece = [0u8; 8192];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            if bytes.len() >= end + 4 + length.unwrap_or(0) {
                let body = String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
                return Some((head.lines().next()?.to_owned(), body));
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend(&piece[..count]),
        }
    }
}

fn exchange(mut stream: TcpStream, upstream: &str, look: &Look, instead: Option<&(String, String)>) -> Option<()> {
    let (line, body) = read(&mut stream)?;
    let (status, mut answer) = match look(&line, &serde_json::from_str(&body).unwrap_or_default()) {
        Some(answer) => ("HTTP/1.1 200 OK".to_owned(), answer.to_string()),
        None => {
            let to = upstream.strip_prefix("http://")?;
            let mut there = TcpStream::connect(to).ok()?;
            let head = format!("{line}\r\nhost: {to}\r\ncontent-type: application/json\r\nconnection: close\r\n");
            write!(there, "{head}content-length: {}\r\n\r\n{body}", body.len()).ok()?;
            let mut answer = String::new();
            there.read_to_string(&mut answer).ok()?;
            let (head, body) = answer.split_once("\r\n\r\n")?;
            (head.lines().next()?.to_owned(), body.to_owned())
        }
    };
    if let Some((from, to)) = instead {
        answer = answer.replace(from.as_str(), to);
    }
    let head = format!("{status}\r\ncontent-type: application/json\r\nconnection: close\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n{answer}", answer.len()).ok()
}

/// Forwards requests to `upstream` while the process lives; returns the proxy's URL. In answers the second text of
/// `instead` replaces the first.
pub fn pass(upstream: String, look: Look, instead: Option<(String, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let (upstream, look, instead) = (upstream.clone(), look.clone(), instead.clone());
            std::thread::spawn(move || exchange(stream, &upstream, &look, instead.as_ref()));
        }
    });
    url
}
