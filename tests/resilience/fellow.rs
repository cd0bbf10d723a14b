//! A process that makes many swaps in a row: the whole engine with the configuration from the environment, one call
//! after the other.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use bardo::base::config::ConfigFlags;
use bardo::engine::{ApprovalMode, CallStatus, Executor, ToolCall, ToolInput, ToolResponse};
use serde_json::json;

use bardo_testkit::engine::{Engine, still};

const NAME: &str = "BARDO_TEST_FELLOW";
/// Sold token, bought token, sold amount.
pub type Trade = (&'static str, &'static str, &'static str);
/// A sale for dollars.
pub const SALE: Trade = ("WETH", "USDC", "0.001");
/// A purchase of about the same value.
pub const PURCHASE: Trade = ("USDC", "WETH", "3.4");
const BUYS: &str = "BARDO_TEST_BUYS";
const CALLS: &str = "BARDO_TEST_CALLS";

/// Executor over a configuration, as `bardo call` creates one.
pub struct Bench(Engine);

impl Bench {
    pub async fn open(home: &Path, endpoint: Option<&str>) -> Self {
        Self::of(0, home, endpoint).await
    }

    /// The same for another account of the development mnemonic.
    pub async fn of(account: u32, home: &Path, endpoint: Option<&str>) -> Self {
        let flags = ConfigFlags {
            rpc: endpoint.map(|url| format!("ethereum={url}")).into_iter().collect(),
            account: Some(format!("development:{account}")),
            ..ConfigFlags::default()
        };
        Self(Engine::open(home, &flags, || still(3, true)).await)
    }

    /// Executor that makes the calls of this test bench.
    pub fn executor(&self) -> &Executor {
        &self.0.executor
    }

    /// Sells a thousandth of a WETH under an idempotency key; returns the status and the error code.
    pub async fn swap(&self, key: String) -> (CallStatus, String) {
        self.trade(key, SALE).await
    }

    /// Swaps an amount of one token for another; returns the status and the error code.
    pub async fn trade(&self, key: String, way: (&str, &str, &str)) -> (CallStatus, String) {
        let response = self.respond(key, way).await;
        let code = response.error.as_ref().map(|error| error.code().as_str().to_owned()).unwrap_or_default();
        (response.status, code)
    }

    /// Swaps and returns the full response.
    pub async fn respond(&self, key: String, (from, to, amount): (&str, &str, &str)) -> ToolResponse {
        let params = json!({"token_in": from, "token_out": to, "amount": amount, "chain": "ethereum"});
        let call = ToolCall {
            idempotency_key: Some(key),
            approve: Some(ApprovalMode::Always),
            ..ToolCall::new("uniswap_execute_swap", ToolInput::Json(params))
        };
        self.0.executor.call(call).await
    }
}

/// Starts a process that makes this many swaps on `home` through the endpoint at `url`: this program again, as a test
/// that first calls [`asked`].
pub fn start(name: &str, calls: usize, home: &Path, url: &str) -> Child {
    start_trading(name, calls, home, url, SALE)
}

/// Starts a process with another trade.
pub fn start_trading(name: &str, calls: usize, home: &Path, url: &str, trade: Trade) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::a_stop_reaches_every_program", "--nocapture"])
        .env(NAME, format!("{name} {url}"))
        .env(CALLS, calls.to_string())
        .env(BUYS, (trade == PURCHASE).to_string())
        .env("BARDO_HOME", home)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// True if this process was started by [`start`]; its work is then done.
pub fn asked() -> bool {
    let Ok(given) = std::env::var(NAME) else { return false };
    let runtime = bardo::base::runtime::multi_threaded(Some(2)).unwrap();
    runtime.block_on(work(&given));
    true
}

/// Prints a line for each call: its key, its status, and the error code; and one with the message of a failure.
async fn work(given: &str) {
    let (name, url) = given.split_once(' ').unwrap();
    let calls: usize = std::env::var(CALLS).unwrap().parse().unwrap();
    let home = std::env::var_os("BARDO_HOME").unwrap();
    let trade = if std::env::var(BUYS).is_ok_and(|buys| buys == "true") { PURCHASE } else { SALE };
    let bench = Bench::open(Path::new(&home), Some(url)).await;
    for number in 0..calls {
        let key = format!("{name}-{number}");
        let response = bench.respond(key.clone(), trade).await;
        let error = response.error.as_ref();
        let code = error.map(|error| error.code().as_str()).unwrap_or_default();
        let said = error.map(|error| error.message().to_owned()).unwrap_or_default();
        println!("\nended {key} {:?} {code}\nsaid {key} {said:?}", response.status);
    }
}
