//! A program that makes many swaps in a row, as a process of its own: the whole engine over whatever the environment
//! says, one call after the other.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bardo::base::clock::{Clock, SystemClock};
use bardo::base::config::{Config, Environment, Flags};
use bardo::base::id::GolemId;
use bardo::engine::{ApprovalMode, Call, Catalog, Executor, ExecutorConfig, Input, Status};
use bardo::fabric::Fabric;
use bardo::runtime::data::DataFolder;
use bardo::runtime::{self, Hands};
use bardo::sandbox::{MarketMode, Pace, SandboxConfig};
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::json;

const NAME: &str = "BARDO_TEST_FELLOW";
const CALLS: &str = "BARDO_TEST_CALLS";

/// An executor over a configuration, as `bardo call` makes one.
pub struct Bench {
    pub executor: Executor,
    _sandbox: Option<bardo::sandbox::Sandbox>,
}

impl Bench {
    pub async fn open(home: &Path, endpoint: Option<&str>) -> Self {
        let variables = [("BARDO_HOME".to_owned(), home.to_str().unwrap().to_owned())];
        let environment = Environment::from_iter(variables);
        let flags =
            Flags { rpc: endpoint.map(|url| format!("ethereum={url}")).into_iter().collect(), ..Flags::default() };
        let config = Config::load(&environment, &flags).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut opened = runtime::open(&config, sandbox, clock.clone()).await.unwrap();
        let ledger = DataFolder::of(&config).open_ledger(&opened).await.unwrap();
        let fabric = Fabric::in_memory(256, clock.clone());
        let rules = runtime::rules(&config, &opened, &ledger).await.unwrap();
        opened.world = opened.world.under(rules.clone());
        let picked = runtime::account::pick(&config, &opened.world).unwrap().unwrap();
        let hands = Hands::of(runtime::account::locked(&picked, &opened, &ledger).unwrap());
        let acting = runtime::acting(&config, &opened, &ledger, rules, &fabric, clock, hands).await.unwrap();
        let executor = Executor::new(ExecutorConfig {
            catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(),
            world: Arc::new(opened.world),
            fabric,
            golem_id: GolemId::operator(),
            calls_per_minute: 1_000_000,
            hooks: Vec::new(),
            store: Some(ledger.store.clone()),
            acting: Some(acting),
        });
        Self { executor, _sandbox: opened.sandbox }
    }

    /// A swap of a thousandth of a WETH under a key: how it ended, and the code of its error.
    pub async fn swap(&self, key: String) -> (Status, String) {
        self.trade(key, ("WETH", "USDC", "0.001")).await
    }

    /// A swap of an amount of one token for another.
    pub async fn trade(&self, key: String, (from, to, amount): (&str, &str, &str)) -> (Status, String) {
        let params = json!({"token_in": from, "token_out": to, "amount": amount, "chain": "ethereum"});
        let call = Call {
            idempotency_key: Some(key),
            approve: Some(ApprovalMode::Always),
            ..Call::new("uniswap_execute_swap", Input::Json(params))
        };
        let response = self.executor.call(call).await;
        let code = response.error.as_ref().map(|error| error.code().as_str().to_owned()).unwrap_or_default();
        (response.status, code)
    }
}

fn sandbox() -> SandboxConfig {
    SandboxConfig {
        seed: 3,
        start_time: SystemClock.now_seconds(),
        pace: Pace::OnTransaction,
        clock: Some(Arc::new(SystemClock)),
        market: MarketMode::Off,
        keeper: true,
    }
}

/// Starts a process that makes so many swaps on `home` through the endpoint at `url`: this program again, as a test
/// that asks [`asked`] first.
pub fn start(name: &str, calls: usize, home: &Path, url: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::a_stop_reaches_every_program", "--nocapture"])
        .env(NAME, format!("{name} {url}"))
        .env(CALLS, calls.to_string())
        .env("BARDO_HOME", home)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Whether this process was started by [`start`]; then it has done its work.
pub fn asked() -> bool {
    let Ok(given) = std::env::var(NAME) else { return false };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(&given));
    true
}

/// Prints a line for each call: its key, how it ended, and the error's code.
async fn work(given: &str) {
    let (name, url) = given.split_once(' ').unwrap();
    let calls: usize = std::env::var(CALLS).unwrap().parse().unwrap();
    let home = std::env::var_os("BARDO_HOME").unwrap();
    let bench = Bench::open(Path::new(&home), Some(url)).await;
    for number in 0..calls {
        let key = format!("{name}-{number}");
        let (status, code) = bench.swap(key.clone()).await;
        println!("\nended {key} {status:?} {code}");
    }
}
