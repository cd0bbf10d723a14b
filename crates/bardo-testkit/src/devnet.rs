//! The program under test, and `bardo devnet` in its own process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

/// Timeout for the start of a devnet on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(180);

/// Path of the program under test: the one built with the tests, or the one in `BARDO_TEST_PROGRAM`, such as a copy
/// that does not change during a long test.
pub fn program() -> PathBuf {
    std::env::var_os("BARDO_TEST_PROGRAM").map_or_else(built, PathBuf::from)
}

/// Cargo builds a package's programs for its tests, one folder above the tests' own.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    folder.join(format!("bardo{}", std::env::consts::EXE_SUFFIX))
}

/// A running `bardo devnet` on free ports, which is killed on drop.
pub struct Devnet {
    pub child: Child,
    /// Output after its first line.
    pub out: BufReader<ChildStdout>,
    /// JSON object of its first line.
    pub described: Value,
    _home: Option<tempfile::TempDir>,
}

impl Drop for Devnet {
    fn drop(&mut self) {
        // It may have ended by itself, so an error is expected.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Devnet {
    /// Devnet with blocks at `block_time`: `0` for a block per transaction, `1s` for one per second.
    pub fn start(block_time: &str, seed: u64) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut started = Self::start_in(home.path(), &["--block-time", block_time, "--seed", &seed.to_string()]);
        started._home = Some(home);
        started
    }

    /// Devnet with these arguments and a home that outlives it.
    pub fn start_in(home: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(program())
            .args(["devnet", "--port", "0"])
            .args(arguments)
            .env_clear()
            .env("BARDO_HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (said, heard) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = out.read_line(&mut line);
            let _ = said.send(read.map(|_| (line, out)));
        });
        let heard = heard.recv_timeout(STARTS_WITHIN);
        let Ok(Ok((line, out))) = heard else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("no first line within three minutes");
        };
        let described = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self { child, out, described, _home: None }
    }

    /// Endpoint of the chain at this index.
    pub fn url(&self, index: usize) -> &str {
        self.described["chains"][index]["rpc"].as_str().unwrap()
    }

    /// Description of the chain with this name.
    pub fn chain(&self, name: &str) -> &Value {
        let chains = self.described["chains"].as_array().unwrap();
        chains.iter().find(|chain| chain["name"] == name).unwrap_or_else(|| panic!("no chain called {name}"))
    }
}

/// Result of one JSON-RPC call by plain HTTP, without the code under test.
pub fn ask(url: &str, method: &str, params: Value) -> Value {
    let address = url.strip_prefix("http://").unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(
        stream,
        "POST / HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let answer: Value = serde_json::from_str(body).unwrap();
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}
