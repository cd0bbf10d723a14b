//! One RPC endpoint of several that lies.
//!
//! A devnet in a process of its own is the truth; proxies in front of it play endpoints, and one of them lies. The
//! program under test is the real binary, called with all of them. What happened is read from the devnet itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Value, json};

use crate::devnet_process::{Devnet, ask, program};
use crate::lying_rpc::{Lie, LyingRpc};

/// The one devnet of these cases, and the turn to use its account.
struct Chain {
    devnet: Devnet,
    turn: Mutex<()>,
}

fn chain() -> &'static Chain {
    static CHAIN: OnceLock<Chain> = OnceLock::new();
    CHAIN.get_or_init(|| Chain { devnet: Devnet::start("0", 7), turn: Mutex::default() })
}

/// One call at a time on the devnet, from a fresh home folder.
struct Attack {
    _turn: MutexGuard<'static, ()>,
    home: tempfile::TempDir,
    urls: Vec<String>,
    _proxies: Vec<LyingRpc>,
}

const BUY: (&str, &str, &str) = ("USDC", "WETH", "50");
const SELL: (&str, &str, &str) = ("ETH", "USDC", "0.02");

impl Attack {
    /// `count` endpoints, of which the one at `place` lies.
    fn new(count: usize, place: usize, lie: Lie) -> Self {
        let turn = chain().turn.lock().unwrap_or_else(PoisonError::into_inner);
        let real = chain().devnet.url(0);
        let mut lie = Some(lie);
        let proxies: Vec<LyingRpc> = (0..count)
            .map(|index| match lie.take_if(|_| index == place) {
                Some(lie) => LyingRpc::start(real, lie),
                None => LyingRpc::honest(real),
            })
            .collect();
        let urls = proxies.iter().map(LyingRpc::url).collect();
        Self { _turn: turn, home: tempfile::tempdir().unwrap(), urls, _proxies: proxies }
    }

    fn run(&self, arguments: &[&str]) -> (String, i32) {
        let mut command = Command::new(program());
        command.env_clear().env("BARDO_HOME", self.home.path()).stdin(Stdio::null()).args(arguments);
        for url in &self.urls {
            command.args(["--rpc", &format!("ethereum={url}")]);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let text = if text.is_empty() { String::from_utf8_lossy(&output.stderr).into_owned() } else { text };
        (text, output.status.code().unwrap())
    }

    fn call(&self, tool: &str, params: &Value) -> Value {
        let (text, _) = self.run(&["call", tool, &params.to_string(), "--approve", "always"]);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn swap(&self, (token_in, token_out, amount): (&str, &str, &str)) -> Value {
        let params = json!({"token_in": token_in, "token_out": token_out, "amount": amount, "chain": "ethereum",
                            "prefer_uniswapx": false});
        self.call("uniswap_execute_swap", &params)
    }

    /// The name by which screens and errors call the endpoint at `place`.
    fn label(&self, place: usize) -> &str {
        self.urls[place].trim_start_matches("http://")
    }
}

fn account() -> &'static str {
    chain().devnet.described["chains"][0]["accounts"][0].as_str().unwrap()
}

fn token(symbol: &str) -> &'static str {
    chain().devnet.described["chains"][0]["tokens"][symbol]["address"].as_str().unwrap()
}

/// How many transactions of the account are in blocks, by the devnet itself.
fn sent() -> u64 {
    number(&ask(chain().devnet.url(0), "eth_getTransactionCount", json!([account(), "latest"])))
}

fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Whether a request is for `method`, its first parameter being the address `of`.
fn is_for(asked: &Value, method: &str, of: &str) -> bool {
    asked["method"] == method && asked["params"][0].as_str().is_some_and(|one| one.eq_ignore_ascii_case(of))
}

/// An attack that must not lead to a signature: refused, with the endpoints' contradiction as the reason.
fn refused(attack: &Attack, trade: (&str, &str, &str)) -> Value {
    let before = sent();
    let answer = attack.swap(trade);
    assert_eq!(answer["status"], "failed", "{answer:#}");
    assert_eq!(answer["error"]["code"], "CHAIN_INCONSISTENT", "{answer:#}");
    assert_eq!(sent(), before, "something was signed: {answer:#}");
    answer
}

/// An exit goes through although an endpoint lies.
fn done(attack: &Attack, trade: (&str, &str, &str)) {
    let before = sent();
    let answer = attack.swap(trade);
    assert_eq!(answer["status"], "success", "{answer:#}");
    assert!(sent() > before, "{answer:#}");
}

const HUGE: &str = "0x00000000000000000000000000000000000000000000000000038d7ea4c68000";

/// Every empty slot of USDC, allowances among them, looks as if it held 10^15.
fn allowance_slots() -> Lie {
    let usdc = token("USDC");
    Box::new(move |asked, answer| {
        let empty = answer["result"].as_str().is_some_and(|word| word.trim_start_matches("0x").bytes().all(|b| b == b'0'));
        if is_for(asked, "eth_getStorageAt", usdc) && empty {
            answer["result"] = json!(HUGE);
        }
    })
}

#[test]
fn honest_endpoints_change_nothing() {
    let attack = Attack::new(3, 3, Box::new(|_, _| {}));
    done(&attack, BUY);
    done(&attack, SELL);
    let _ = (attack.label(0), Path::new("/"));
}

#[test]
fn a_lied_allowance_slot_is_refused_wherever_the_liar_stands() {
    for place in 0..3 {
        let attack = Attack::new(3, place, allowance_slots());
        let answer = refused(&attack, BUY);
        assert!(answer.to_string().contains(attack.label(place)), "{answer:#}");
    }
}
