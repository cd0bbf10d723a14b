//! Test fixture: a devnet in its own process, a home folder, and the binary called with both.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::{Value, json};

use crate::devnet::{Running, start};
use crate::{bardo, run};
use bardo_testkit::devnet::ask;

/// Envelope and exit code of a call.
pub type Answer = (Value, i32);

pub struct Fixture {
    pub devnet: Running,
    pub home: tempfile::TempDir,
    /// Value for `--rpc`.
    pub given: String,
}

impl Fixture {
    pub fn new() -> Self {
        Self::on(start())
    }

    pub fn on(devnet: Running) -> Self {
        let given = format!("ethereum={}", devnet.url(0));
        Self { devnet, home: tempfile::tempdir().unwrap(), given }
    }

    /// Sets the policy: the demo preset with these lines. A looser policy would wait for the operator, so the home
    /// folder is replaced.
    pub fn under(&mut self, policy: &str) {
        self.home = tempfile::tempdir().unwrap();
        self.tighten(policy);
    }

    /// Sets the policy file in the present home folder.
    pub fn tighten(&self, policy: &str) {
        fs::write(self.home.path().join("policy-devnet.toml"), format!("preset = \"demo\"\n{policy}")).unwrap();
    }

    /// Sets the configuration file.
    pub fn configure(&self, text: &str) {
        fs::write(self.home.path().join("config.toml"), text).unwrap();
    }

    pub fn call(&self, tool: &str, params: &Value, more: &[&str]) -> Answer {
        let params = params.to_string();
        let fixed = ["call", tool, &params, "--rpc", &self.given];
        let (out, err, code) = run(bardo(self.home.path()).args(fixed).args(more));
        let envelope = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{params}: {error}: {out}{err}"));
        let fault = bardo::engine::schema::mismatch(&bardo::engine::schema::envelope(), &envelope);
        assert_eq!(fault, None, "an envelope that does not fit its published schema: {envelope}");
        (envelope, code)
    }

    pub fn swap(&self, changed: Value, more: &[&str]) -> Answer {
        self.call("uniswap_execute_swap", &swap(changed), more)
    }

    /// Starts a swap as a process in the background.
    pub fn swapping(&self, changed: Value) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
        command.env_clear().env("BARDO_HOME", self.home.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command.args(["call", "uniswap_execute_swap", &swap(changed).to_string(), "--rpc", &self.given]);
        command.spawn().unwrap()
    }

    /// Runs a call on a terminal. Once it prompts, calls `meanwhile` and types the answer; returns the output and the
    /// exit code.
    pub fn on_a_terminal(&self, params: &Value, answer: Option<&str>, meanwhile: impl Fn()) -> (String, u32) {
        self.typed_ahead("", params, answer, meanwhile)
    }

    /// Runs a call on a terminal after typing `early`, before there is a prompt.
    pub fn typed_ahead(
        &self,
        early: &str,
        params: &Value,
        answer: Option<&str>,
        meanwhile: impl Fn(),
    ) -> (String, u32) {
        let arguments =
            ["call", "uniswap_execute_swap", &params.to_string(), "--approve", "ask", "--json", "--rpc", &self.given];
        self.at_a_terminal(early, &arguments, "Type yes", answer, meanwhile)
    }

    /// Runs the binary on a terminal. Once it has shown `asks`, calls `meanwhile` and types the answer; returns the
    /// output and the exit code.
    pub fn at_a_terminal(
        &self,
        early: &str,
        arguments: &[&str],
        asks: &str,
        answer: Option<&str>,
        meanwhile: impl Fn(),
    ) -> (String, u32) {
        let pty = native_pty_system().openpty(PtySize { rows: 60, cols: 200, ..PtySize::default() }).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
        command.env_clear();
        command.env("BARDO_HOME", self.home.path());
        command.args(arguments);
        let mut child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let mut screen = pty.master.try_clone_reader().unwrap();
        let mut keys = pty.master.take_writer().unwrap();
        keys.write_all(early.as_bytes()).unwrap();
        let mut shown = Vec::new();
        let mut typed = false;
        loop {
            let mut some = [0; 4_096];
            match screen.read(&mut some) {
                Ok(0) | Err(_) => break,
                Ok(read) => shown.extend_from_slice(&some[..read]),
            }
            // Input that was typed before this line appeared is discarded.
            if let Some(answer) = answer.filter(|_| !typed && String::from_utf8_lossy(&shown).contains(asks)) {
                meanwhile();
                keys.write_all(answer.as_bytes()).unwrap();
                typed = true;
            }
        }
        (String::from_utf8_lossy(&shown).into_owned(), child.wait().unwrap().exit_code())
    }

    /// Runs the binary on a terminal and types each answer at its prompt; returns the output and the exit code.
    pub fn conversation(&self, arguments: &[&str], answers: &[(&str, &str)]) -> (String, u32) {
        on_a_terminal(self.home.path(), arguments, answers)
    }

    pub fn ask(&self, method: &str, params: Value) -> Value {
        ask(self.devnet.url(0), method, params)
    }

    pub fn contract(&self, name: &str) -> &str {
        self.devnet.described["chains"][0]["contracts"][name].as_str().unwrap()
    }

    pub fn token(&self, symbol: &str) -> &str {
        self.devnet.described["chains"][0]["tokens"][symbol]["address"].as_str().unwrap()
    }

    pub fn account(&self) -> &str {
        self.devnet.described["chains"][0]["accounts"][0].as_str().unwrap()
    }

    pub fn nonce(&self, block: &str) -> u64 {
        let count = self.ask("eth_getTransactionCount", json!([self.account(), block]));
        u64::from_str_radix(count.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    }

    /// Waits until this many of the account's transactions are pending.
    pub fn until_pending(&self, count: u64) {
        let since = Instant::now();
        while self.nonce("pending") - self.nonce("latest") < count {
            assert!(since.elapsed() < Duration::from_secs(180), "nothing was sent");
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

/// Runs the binary on a terminal and types each answer at its prompt; returns the output and the exit code.
pub fn on_a_terminal(home: &Path, arguments: &[&str], answers: &[(&str, &str)]) -> (String, u32) {
    let pty = native_pty_system().openpty(PtySize { rows: 60, cols: 200, ..PtySize::default() }).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env_clear();
    command.env("BARDO_HOME", home);
    command.args(arguments);
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut screen = pty.master.try_clone_reader().unwrap();
    let mut keys = pty.master.take_writer().unwrap();
    let (mut shown, mut answers) = (Vec::new(), answers.iter());
    let mut next = answers.next();
    let mut some = [0; 4_096];
    while let Ok(read @ 1..) = screen.read(&mut some) {
        shown.extend_from_slice(&some[..read]);
        if let Some((asks, answer)) = next
            && String::from_utf8_lossy(&shown).contains(asks)
        {
            keys.write_all(answer.as_bytes()).unwrap();
            next = answers.next();
        }
    }
    (String::from_utf8_lossy(&shown).into_owned(), child.wait().unwrap().exit_code())
}

/// Parameters of a swap of the native token, which takes one transaction.
pub fn swap(changed: Value) -> Value {
    let mut params = json!({"token_in": "ETH", "token_out": "USDC", "amount": "0.01", "chain": "ethereum",
                            "prefer_uniswapx": false});
    params.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
    params
}

/// Waits for a background process; returns its answer.
pub fn ended(child: Child) -> Answer {
    let output = child.wait_with_output().unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code().unwrap())
}
