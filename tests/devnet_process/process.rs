//! One `bardo devnet` for all tests of this program, and what it said on its first line.

use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

/// The mnemonic every development chain uses (<https://getfoundry.sh/anvil/reference>); worthless elsewhere.
pub const MNEMONIC: &str = "test test test test test test test test test test test junk";

/// A running devnet. Ends with the test that started it.
pub struct Devnet {
    child: Child,
    /// The JSON object of its first line.
    pub description: Value,
}

impl Drop for Devnet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Devnet {
    /// Starts `bardo devnet` on two free ports.
    pub fn start() -> Self {
        // Ports found free can be taken before the devnet binds them; then it says so and ends.
        (0..5).find_map(|_| Self::try_start(free_pair())).expect("bardo devnet starts on some pair of free ports")
    }

    fn try_start(port: u16) -> Option<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bardo"))
            .args(["devnet", "--block-time", "1s", "--seed", "7", "--port", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bardo runs");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (said, heard) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(stdout).read_line(&mut line);
            let _ = said.send(line);
        });
        let line = heard.recv_timeout(Duration::from_secs(180)).expect("a first line within three minutes");
        match serde_json::from_str(&line) {
            Ok(description) => Some(Self { child, description }),
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                None
            }
        }
    }

    /// The chain of this name.
    pub fn chain(&self, name: &str) -> &Value {
        let chains = self.description["chains"].as_array().expect("a list of chains");
        chains.iter().find(|chain| chain["name"] == name).expect("a chain of that name")
    }
}

/// A tool's place, from the environment that `.ci/tools/install` prints.
pub fn tool(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run eval \"$(.ci/tools/install)\" first"))
}

/// A port that is free together with the one after it.
fn free_pair() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = first.local_addr().expect("its address").port();
        if let Some(next) = port.checked_add(1)
            && TcpListener::bind(("127.0.0.1", next)).is_ok()
        {
            return port;
        }
    }
}
