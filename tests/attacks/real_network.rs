//! A network that Bardo takes for real money: a devnet behind a proxy that gives it another chain id, with its own
//! address book. The devnet rejects everything that is signed there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use alloy::primitives::Address;
use serde_json::{Value, json};

use bardo_testkit::devnet::{Devnet, ask, program};
use bardo_testkit::lying_rpc::{Lie, LyingRpc};

/// Chain id that no known network has.
pub const CHAIN_ID: i64 = 424_242;
/// The devnet's first account, which has a balance there.
pub const ACCOUNT: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
/// Private key of [`ACCOUNT`], from the development mnemonic.
const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
/// Password of the key file that [`RealNetwork::settle_in`] creates.
pub const PASSWORD: &str = "correct horse battery";

/// The network and a program's connection to it.
pub struct RealNetwork {
    devnet: Devnet,
    proxy: LyingRpc,
    folder: tempfile::TempDir,
}

impl RealNetwork {
    pub fn start(seed: u64) -> Self {
        Self::described(seed, |_| {})
    }

    /// Network with an address book that `change` has modified. The configuration trusts every entry of it.
    pub fn described(seed: u64, change: impl FnOnce(&mut Value)) -> Self {
        let devnet = Devnet::start("0", seed);
        let proxy = LyingRpc::start(devnet.url(0), Box::new(another));
        let folder = tempfile::tempdir().unwrap();
        let mut chain = devnet.described["chains"][0].clone();
        (chain["name"], chain["chain_id"], chain["rpc"]) = (json!("mine"), json!(CHAIN_ID), json!(""));
        change(&mut chain);
        std::fs::write(folder.path().join("book.json"), json!({ "chains": [chain] }).to_string()).unwrap();
        Self { devnet, proxy, folder }
    }

    /// Another endpoint of the network, which also tells this lie.
    pub fn endpoint(&self, lie: Lie) -> LyingRpc {
        let told = move |asked: &Value, answer: &mut Value| {
            another(asked, answer);
            lie(asked, answer);
        };
        LyingRpc::start(self.devnet.url(0), Box::new(told))
    }

    fn book(&self) -> PathBuf {
        self.folder.path().join("book.json")
    }

    /// Command-line arguments for working on it.
    pub fn arguments(&self) -> [String; 4] {
        let rpc = format!("mine={}", self.proxy.url());
        ["--rpc".to_owned(), rpc, "--book".to_owned(), self.book().to_str().unwrap().to_owned()]
    }

    /// Every entry of the address book, as a line of `trusted_entries`.
    pub fn entries(&self) -> Vec<String> {
        let book: Value = serde_json::from_str(&std::fs::read_to_string(self.book()).unwrap()).unwrap();
        let chain = &book["chains"][0];
        let id = &chain["chain_id"];
        let part = |name: &str| chain[name].as_object().cloned().unwrap_or_default();
        let at = |address: &Value| address.as_str().unwrap().parse::<Address>().unwrap();
        let contracts = part("contracts").into_iter().map(|(name, address)| {
            let hash = chain["code_hashes"][&name].as_str().map(|hash| format!(" {hash}")).unwrap_or_default();
            format!("{id} contract {name} {}{hash}", at(&address))
        });
        let priced = |kind: &'static str, all: serde_json::Map<String, Value>| {
            let line = move |(name, entry): (String, Value)| {
                format!("{id} {kind} {name} {} {}", at(&entry["address"]), entry["decimals"])
            };
            all.into_iter().map(line).collect::<Vec<_>>()
        };
        contracts.chain(priced("token", part("tokens"))).chain(priced("feed", part("feeds"))).collect()
    }

    /// Creates a home for the account: its key file, a configuration that trusts the address book and contains these
    /// lines, and a policy that requires approval above ten dollars.
    pub fn settle_in(&self, home: &Path, lines: &str) {
        let config = format!(
            "account = \"main\"\ntrusted_entries = {}\n[chains.mine]\nchain_id = {CHAIN_ID}\n\
             data_fee_oracle = \"none\"\n{lines}\n",
            json!(self.entries())
        );
        std::fs::write(home.join("config.toml"), config).unwrap();
        let policy = format!(
            "preset = \"demo\"\nallowed_chains = [\"{CHAIN_ID}\"]\nrequire_human_approval_above_usd = \"10\"\n"
        );
        std::fs::write(home.join("policy.toml"), policy).unwrap();
        for (name, secret) in [("key", KEY), ("password", PASSWORD)] {
            std::fs::write(self.folder.path().join(name), format!("{secret}\n")).unwrap();
        }
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "exec \"$0\" keys import main --secret-fd 3 --password-fd 4 3<\"$1\" 4<\"$2\""]);
        shell.arg(program()).args(["key", "password"].map(|name| self.folder.path().join(name)));
        let output = shell.env_clear().env("BARDO_HOME", home).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Previews an allowance of 5 USDC for `spender` with the program in `home`; returns the envelope.
    pub fn rehearse_allowance(&self, home: &Path, spender: &str) -> Value {
        self.rehearse_allowance_over(home, spender, &self.arguments())
    }

    /// The same with these arguments for working on the network.
    pub fn rehearse_allowance_over(&self, home: &Path, spender: &str, arguments: &[String]) -> Value {
        let params = json!({ "token": "USDC", "spender": spender, "amount": "5", "chain": "mine" }).to_string();
        let mut call = Command::new(program());
        call.args(arguments).args(["call", "--approve", "never", "--dry-run", "token_approve", &params]);
        let output = call.env_clear().env("BARDO_HOME", home).stdin(Stdio::null()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Runs the program in `home` on the network, with `secret` on descriptor 3; returns both outputs and the exit code.
    pub fn run_with(&self, home: &Path, arguments: &[&str], secret: &str) -> (String, String, i32) {
        let file = self.folder.path().join("third");
        std::fs::write(&file, format!("{secret}\n")).unwrap();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "third=$1; shift; exec \"$0\" \"$@\" 3<\"$third\""]).arg(program()).arg(&file);
        shell.args(self.arguments()).args(arguments);
        let output = shell.env_clear().env("BARDO_HOME", home).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr), output.status.code().unwrap())
    }

    /// Number of signed transactions that were submitted.
    pub fn sends(&self) -> usize {
        let heard = self.proxy.heard();
        heard.iter().flat_map(|one| &one.methods).filter(|method| *method == "eth_sendRawTransaction").count()
    }

    /// Uses the account outside of the ledger: one transaction of a program with another home.
    pub fn use_account_elsewhere(&self) {
        let (home, given) = (tempfile::tempdir().unwrap(), format!("ethereum={}", self.devnet.url(0)));
        let permit2 = self.devnet.described["chains"][0]["contracts"]["permit2"].clone();
        let params = json!({"token": "USDC", "spender": permit2, "amount": "5", "chain": "ethereum"}).to_string();
        let mut call = Command::new(program());
        call.args(["--rpc", &given, "call", "--approve", "always", "token_approve", &params]);
        let output = call.env_clear().env("BARDO_HOME", home.path()).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(ask(self.devnet.url(0), "eth_getTransactionCount", json!([ACCOUNT, "latest"])), "0x1");
    }
}

/// Gives the devnet another chain id, and hides that it describes itself as a devnet.
fn another(asked: &Value, answer: &mut Value) {
    match asked["method"].as_str() {
        Some("eth_chainId") => answer["result"] = json!(format!("{CHAIN_ID:#x}")),
        Some("bardo_describe") => {
            let error = json!({"code": -32601, "message": "method not found"});
            *answer = json!({"jsonrpc": "2.0", "id": asked["id"], "error": error});
        }
        _ => {}
    }
}
