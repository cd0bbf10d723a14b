//! Attacks by one lying endpoint among several.
//!
//! A devnet runs in its own process. Proxies in front of it are the endpoints, one of which gives false answers. The
//! program under test is the real binary, connected to all of them. Outcomes are read from the devnet itself.

use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use alloy::eips::BlockId;
use alloy::network::TransactionBuilder as _;
use alloy::primitives::{Address, U256, hex};
use alloy::providers::Provider as _;
use alloy::providers::bindings::IMulticall3;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::base::clock::SystemClock;
use bardo::base::config::RpcUrl;
use bardo::chain::fork::{ExecutionStatus, Fork, ForkCall, ForkError, ForkSource, NextBlock};
use bardo::chain::network::ChainPlan;
use bardo::chain::provider::{ChainClient, ConnectRules};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use bardo_testkit::devnet::{Devnet, ask, program};
use bardo_testkit::lying_rpc::{Heard, Lie, LyingRpc};

/// Devnet, and the lock for the use of its account.
pub(crate) struct Chain {
    pub(crate) devnet: Devnet,
    account_lock: Mutex<()>,
}

/// Devnets of one seed, with equal addresses. Cases mostly wait for retries and blocks, so several run at once, each on
/// the devnet with the fewest users. Cases on one devnet run one after the other.
static CHAINS: [OnceLock<Chain>; 4] = [const { OnceLock::new() }; 4];
static USERS: Mutex<[usize; CHAINS.len()]> = Mutex::new([0; CHAINS.len()]);

/// Use of a devnet by one test: its index in [`CHAINS`].
struct DevnetLease(usize);

impl DevnetLease {
    fn take() -> Self {
        let mut users = USERS.lock();
        let place = (0..users.len()).min_by_key(|place| users[*place]).unwrap();
        users[place] += 1;
        Self(place)
    }
}

impl Drop for DevnetLease {
    fn drop(&mut self) {
        USERS.lock()[self.0] -= 1;
    }
}

thread_local! {
    // Each test has its own thread; threads that it starts use no devnet.
    static LEASE: DevnetLease = DevnetLease::take();
}

/// Devnet of this test.
pub(crate) fn chain() -> &'static Chain {
    CHAINS[LEASE.with(|lease| lease.0)].get_or_init(|| {
        let devnet = Devnet::start("0", 7);
        end_with_this_process(&devnet);
        Chain { devnet, account_lock: Mutex::default() }
    })
}

/// Ends a devnet in a static when this process ends in any way. Statics are not dropped.
pub(crate) fn end_with_this_process(devnet: &Devnet) {
    let ends = "while kill -0 \"$0\" 2>/dev/null; do sleep 1; done; kill \"$1\"";
    let (own, its) = (std::process::id().to_string(), devnet.child.id().to_string());
    let mut watch = Command::new("sh");
    watch.args(["-c", ends, &own, &its]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    drop(watch.spawn().unwrap());
}

/// Runs of the binary over the test's endpoints, with a home folder of their own. It holds the lock of the devnet's
/// account.
pub(crate) struct Attack {
    lock: MutexGuard<'static, ()>,
    home: tempfile::TempDir,
    urls: Vec<String>,
    environment: Vec<(String, String)>,
    proxies: Vec<LyingRpc>,
}

const BUY: (&str, &str, &str) = ("USDC", "WETH", "50");
const SELL: (&str, &str, &str) = ("ETH", "USDC", "0.02");

/// Creates a lying proxy for the index `place` and honest ones for the others.
fn one_lying(place: usize, lie: Lie) -> impl FnMut(&str, usize) -> LyingRpc {
    let mut lie = Some(lie);
    move |real, index| match lie.take_if(|_| index == place) {
        Some(lie) => LyingRpc::start(real, lie),
        None => LyingRpc::honest(real),
    }
}

impl Attack {
    /// `count` endpoints; the one at index `place` lies.
    pub(crate) fn new(count: usize, place: usize, lie: Lie) -> Self {
        Self::locked(chain().account_lock.lock(), count, one_lying(place, lie))
    }

    /// Ends this attack and begins one as [`Self::new`] does, in another home folder. No other case uses the account
    /// in between, so what the first has done, such as an allowance, still holds.
    fn then(self, count: usize, place: usize, lie: Lie) -> Self {
        Self::locked(self.lock, count, one_lying(place, lie))
    }

    /// `count` endpoints in front of the real one, each created by `proxy` for its index.
    fn through(count: usize, proxy: impl FnMut(&str, usize) -> LyingRpc) -> Self {
        Self::locked(chain().account_lock.lock(), count, proxy)
    }

    fn locked(lock: MutexGuard<'static, ()>, count: usize, mut proxy: impl FnMut(&str, usize) -> LyingRpc) -> Self {
        let real = chain().devnet.url(0);
        let proxies: Vec<LyingRpc> = (0..count).map(|index| proxy(real, index)).collect();
        let urls = proxies.iter().map(LyingRpc::url).collect();
        Self { lock, home: tempfile::tempdir().unwrap(), urls, environment: Vec::new(), proxies }
    }

    /// Switches the lies on or off.
    pub(crate) fn lying(&self, lies: bool) {
        self.proxies.iter().for_each(|proxy| proxy.lie(lies));
    }

    /// Home folder of the binary.
    pub(crate) fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> (String, i32) {
        let mut command = Command::new(program());
        command.env_clear().env("BARDO_HOME", self.home.path()).stdin(Stdio::null()).args(arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        for url in &self.urls {
            command.args(["--rpc", &format!("ethereum={url}")]);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let text = if text.is_empty() { String::from_utf8_lossy(&output.stderr).into_owned() } else { text };
        (text, output.status.code().unwrap())
    }

    pub(crate) fn call(&self, tool: &str, params: &Value) -> Value {
        let (text, _) = self.run(&["call", tool, &params.to_string(), "--approve", "always"]);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn swap(&self, (token_in, token_out, amount): (&str, &str, &str)) -> Value {
        let params = json!({"token_in": token_in, "token_out": token_out, "amount": amount, "chain": "ethereum",
                            "prefer_uniswapx": false});
        self.call("uniswap_execute_swap", &params)
    }

    /// Label of the endpoint at index `place` in screens and errors.
    fn label(&self, place: usize) -> &str {
        self.urls[place].trim_start_matches("http://")
    }
}

pub(crate) fn account() -> &'static str {
    chain().devnet.described["chains"][0]["accounts"][0].as_str().unwrap()
}

pub(crate) fn token(symbol: &str) -> &'static str {
    chain().devnet.described["chains"][0]["tokens"][symbol]["address"].as_str().unwrap()
}

/// Number of the account's transactions in blocks, read from the devnet itself.
pub(crate) fn sent() -> u64 {
    number(&ask(chain().devnet.url(0), "eth_getTransactionCount", json!([account(), "latest"])))
}

fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// True if a request calls `method` with the address `of` as its first parameter.
fn is_for(asked: &Value, method: &str, of: &str) -> bool {
    asked["method"] == method && asked["params"][0].as_str().is_some_and(|one| one.eq_ignore_ascii_case(of))
}

/// Asserts that a swap is refused because the endpoints contradict each other, and that nothing is signed.
fn assert_contradiction(attack: &Attack, trade: (&str, &str, &str)) -> Value {
    let before = sent();
    let answer = attack.swap(trade);
    assert_eq!(answer["status"], "error", "{answer:#}");
    assert_eq!(answer["error"]["code"], "CHAIN_INCONSISTENT", "{answer:#}");
    assert_eq!(sent(), before, "something was signed: {answer:#}");
    answer
}

/// Asserts that a swap succeeds although an endpoint lies.
fn assert_swaps(attack: &Attack, trade: (&str, &str, &str)) {
    let before = sent();
    let answer = attack.swap(trade);
    assert_eq!(answer["status"], "success", "{answer:#}");
    assert!(sent() > before, "{answer:#}");
}

const HUGE: &str = "0x00000000000000000000000000000000000000000000000000038d7ea4c68000";

fn is_zero(word: &str) -> bool {
    word.trim_start_matches("0x").bytes().all(|byte| byte == b'0')
}

/// Lie about the result of `method` for the address `of` as first parameter.
fn lie_about(method: &'static str, of: String, change: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Lie {
    Box::new(move |asked, answer| {
        let changed = answer["result"].as_str().filter(|_| is_for(asked, method, &of)).and_then(&change);
        if let Some(changed) = changed {
            answer["result"] = json!(changed);
        }
    })
}

/// Every empty slot of USDC, including allowances, appears to hold 10^15.
pub(crate) fn allowances() -> Lie {
    lie_about("eth_getStorageAt", token("USDC").to_owned(), |word| is_zero(word).then(|| HUGE.to_owned()))
}

/// Every non-empty slot of USDC, including balances, appears to hold 10^15.
pub(crate) fn balances() -> Lie {
    lie_about("eth_getStorageAt", token("USDC").to_owned(), |word| (!is_zero(word)).then(|| HUGE.to_owned()))
}

/// The slot `slot` of every contract except tokens has another last digit, such as the price or liquidity of a pool.
fn pools(slot: &'static str) -> Lie {
    Box::new(move |asked, answer| {
        let tokens = ["USDC", "WETH", "USDT", "DAI"].map(token);
        let of_token = tokens.iter().any(|token| is_for(asked, "eth_getStorageAt", token));
        let is_pool_slot = asked["method"] == "eth_getStorageAt"
            && !of_token
            && asked["params"][1]
                .as_str()
                .is_some_and(|asked| asked.trim_start_matches("0x").trim_start_matches('0') == slot);
        if let Some(word) = answer["result"].as_str().filter(|word| is_pool_slot && !is_zero(word)) {
            answer["result"] = json!(with_changed_last_digit(word));
        }
    })
}

/// The code of USDC is one that accepts every call.
pub(crate) fn code() -> Lie {
    // PUSH1 1 PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
    lie_about("eth_getCode", token("USDC").to_owned(), |_| Some("0x60015f5260205ff3".to_owned()))
}

/// The code of USDC reverts on every call.
fn broken_code() -> Lie {
    // PUSH0 PUSH0 REVERT
    lie_about("eth_getCode", token("USDC").to_owned(), |_| Some("0x5f5ffd".to_owned()))
}

/// The account holds a million native tokens.
fn native_balances() -> Lie {
    lie_about("eth_getBalance", account().to_owned(), |_| Some("0xd3c21bcecceda1000000".to_owned()))
}

/// The account has sent five more transactions.
fn nonces() -> Lie {
    lie_about("eth_getTransactionCount", account().to_owned(), |count| {
        Some(format!("{:#x}", u64::from_str_radix(count.trim_start_matches("0x"), 16).unwrap() + 5))
    })
}

/// The account has pending transactions that nobody sent.
fn pending_nonces() -> Lie {
    Box::new(|asked, answer| {
        if is_for(asked, "eth_getTransactionCount", account()) && asked["params"][1] == "pending" {
            answer["result"] = json!("0x7fff");
        }
    })
}

/// Results of Multicall3 have another last word: the last balance or price.
fn multicalls() -> Lie {
    Box::new(|asked, answer| {
        if let Some(word) = answer["result"].as_str().filter(|word| asked["method"] == "eth_call" && word.len() > 400) {
            // The first word of the last result, whose end holds the low digits of a number.
            answer["result"] = json!(with_changed_last_digit(word));
        }
    })
}

/// Changes the results of calls inside multicalls whose data starts with `prefix`, such as a function's selector.
fn multicall_answers(prefix: impl Into<Vec<u8>>, change: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Lie {
    let prefix = prefix.into();
    Box::new(move |asked, answer| {
        let input = asked["params"][0]["input"].as_str().or(asked["params"][0]["data"].as_str()).unwrap_or_default();
        let decoded = hex::decode(input).ok().and_then(|input| IMulticall3::aggregate3Call::abi_decode(&input).ok());
        let data = answer["result"].as_str().and_then(|text| hex::decode(text).ok());
        let results = data.and_then(|data| IMulticall3::aggregate3Call::abi_decode_returns(&data).ok());
        let (Some(call), Some(mut results)) = (decoded, results) else { return };
        for (call, result) in call.calls.iter().zip(&mut results) {
            if call.callData.starts_with(&prefix) {
                let mut data = result.returnData.to_vec();
                change(&mut data);
                result.returnData = data.into();
            }
        }
        answer["result"] = json!(hex::encode_prefixed(IMulticall3::aggregate3Call::abi_encode_returns(&results)));
    })
}

/// Changes the number in word `index` of the results of calls inside multicalls whose data starts with `prefix`.
fn inside_multicalls(prefix: impl Into<Vec<u8>>, index: usize) -> Lie {
    multicall_answers(prefix, move |data| {
        if let Some(byte) = data.get_mut(32 * index + 31) {
            *byte ^= 1;
        }
    })
}

/// All allowances are zero: `allowance(address,address)` of tokens.
fn no_allowances() -> Lie {
    multicall_answers([0xdd, 0x62, 0xed, 0x3e], |data| data.fill(0))
}

/// All allowances are unlimited.
fn full_allowances() -> Lie {
    multicall_answers([0xdd, 0x62, 0xed, 0x3e], |data| data.fill(0xff))
}

/// No V3 pool has liquidity: `liquidity()`.
fn no_liquidity() -> Lie {
    multicall_answers([0x1a, 0x68, 0x65, 0x02], |data| data.fill(0))
}

/// The gas price does not fit into 128 bits.
fn absurd_gas_price() -> Lie {
    Box::new(|asked, answer| {
        if asked["method"] == "eth_gasPrice" {
            answer["result"] = json!(format!("0x1{}", "0".repeat(40)));
        }
    })
}

/// Every nonce of Permit2 is used: `nonceBitmap(address,uint256)`.
fn used_nonces() -> Lie {
    multicall_answers([0x4f, 0xe0, 0x2b, 0x44], |data| data.fill(0xff))
}

/// The account's token balances are false, from which its value is computed: `balanceOf(address)`. Balances of pools
/// are true.
fn account_balances() -> Lie {
    inside_multicalls(Erc20::balanceOfCall { owner: account().parse().unwrap() }.abi_encode(), 0)
}

/// Prices of feeds are false: the answer of `latestRoundData()`.
fn feeds() -> Lie {
    inside_multicalls([0xfe, 0xaf, 0x96, 0x8c], 1)
}

/// Price histories of pools are false: the first cumulative value of `observe(uint32[])`.
fn price_histories() -> Lie {
    inside_multicalls([0x88, 0x3b, 0xdb, 0xfd], 3)
}

/// Every token has 18 decimals.
fn decimals() -> Lie {
    Box::new(|asked, answer| {
        let input = asked["params"][0]["input"].as_str().or(asked["params"][0]["data"].as_str()).unwrap_or_default();
        if asked["method"] == "eth_call" && input.starts_with("0x313ce567") {
            answer["result"] = json!(format!("{:#066x}", 18));
        }
    })
}

/// Every block header has another timestamp and base fee under its hash.
fn headers() -> Lie {
    Box::new(|asked, answer| {
        let method = asked["method"].as_str().unwrap_or_default();
        if method.starts_with("eth_getBlockBy") && answer["result"].is_object() {
            let time = number(&answer["result"]["timestamp"]);
            answer["result"]["timestamp"] = json!(format!("{:#x}", time + 1_000));
        }
    })
}

fn with_changed_last_digit(word: &str) -> String {
    let (rest, last) = word.split_at(word.len() - 1);
    format!("{rest}{}", if last == "0" { "1" } else { "0" })
}

/// Asserts that a purchase is refused, and that the error names the lying endpoint, for each number of endpoints and
/// index of the liar.
fn assert_purchases_refused(lie: fn() -> Lie, places: &[(usize, usize)]) {
    for (count, place) in places {
        let attack = Attack::new(*count, *place, lie());
        let answer = assert_contradiction(&attack, BUY);
        assert!(answer.to_string().contains(attack.label(*place)), "{answer:#}");
    }
}

/// Asserts that an exit succeeds for each number of endpoints and index of the liar.
fn assert_exits_succeed(lie: fn() -> Lie, places: &[(usize, usize)]) {
    for (count, place) in places {
        assert_swaps(&Attack::new(*count, *place, lie()), SELL);
    }
}

#[test]
fn honest_endpoints_pass_every_check() {
    let attack = Attack::new(3, 3, Box::new(|_, _| {}));
    assert_swaps(&attack, BUY);
    assert_swaps(&attack, SELL);
}

#[test]
fn a_false_allowance_slot_from_any_endpoint_gets_nothing_new_signed() {
    assert_purchases_refused(allowances, &[(3, 0), (3, 1), (3, 2), (2, 0), (2, 1)]);
}

#[test]
fn a_false_balance_slot_gets_nothing_new_signed() {
    assert_purchases_refused(balances, &[(3, 0), (2, 1)]);
}

#[test]
fn a_false_pool_price_gets_nothing_new_signed() {
    assert_purchases_refused(|| pools(""), &[(3, 1), (2, 0)]);
}

#[test]
fn false_pool_liquidity_gets_nothing_new_signed() {
    assert_purchases_refused(|| pools("4"), &[(3, 0), (2, 1)]);
}

#[test]
fn false_token_code_gets_nothing_new_signed() {
    assert_purchases_refused(code, &[(3, 1), (2, 1)]);
}

/// Client of `count` endpoints of which the one at index `place` lies, and the proxies.
fn client(runtime: &tokio::runtime::Runtime, (count, place): (usize, usize), lie: Lie) -> (ChainClient, Vec<LyingRpc>) {
    let (mut lie, real) = (Some(lie), chain().devnet.url(0));
    let proxies: Vec<LyingRpc> = (0..count)
        .map(|index| match lie.take_if(|_| index == place) {
            Some(lie) => LyingRpc::start(real, lie),
            None => LyingRpc::honest(real),
        })
        .collect();
    let plan = ChainPlan {
        name: "ethereum".into(),
        network: None,
        chain_id: None,
        endpoints: proxies.iter().map(|proxy| RpcUrl::parse(&proxy.url()).unwrap()).collect(),
    };
    let connected = ChainClient::connect(&plan, ConnectRules::default(), Arc::new(SystemClock));
    (runtime.block_on(connected).unwrap(), proxies)
}

fn runtime() -> tokio::runtime::Runtime {
    bardo::base::runtime::multi_threaded(Some(2)).unwrap()
}

/// Neither of two endpoints decides what a simulation shows, whichever of them lies: not even that an exit is fair.
#[test]
fn without_a_majority_nothing_is_simulated() {
    let _lock = chain().account_lock.lock();
    let runtime = runtime();
    for (count, place) in [(2, 0), (2, 1), (3, 0), (3, 1)] {
        let (client, _proxies) = client(&runtime, (count, place), balances());
        let simulated = runtime.block_on(async {
            let fork = Fork::pin(&ForkSource::of(&client), BlockId::latest(), NextBlock::default()).await.unwrap();
            let transfer = Erc20::transferCall { to: Address::repeat_byte(7), value: U256::from(1) }.abi_encode();
            fork.simulate(&[ForkCall::new(account().parse().unwrap(), token("USDC").parse().unwrap(), transfer)]).await
        });
        match count {
            2 => assert!(matches!(simulated, Err(ForkError::Disputed(_))), "{place} of {count}: {simulated:?}"),
            _ => assert_eq!(simulated.unwrap().outcomes[0].status, ExecutionStatus::Success, "{place} of {count}"),
        }
    }
}

/// A question for one endpoint alone goes to another one where the answer is impossible.
#[test]
fn an_endpoint_without_multicall3_is_skipped() {
    let _lock = chain().account_lock.lock();
    let runtime = runtime();
    let multicall: Address =
        chain().devnet.described["chains"][0]["contracts"]["multicall3"].as_str().unwrap().parse().unwrap();
    for lie in [no_multicall, broken_multicall] {
        let (client, _proxies) = client(&runtime, (2, 0), lie());
        let input = IMulticall3::aggregate3Call { calls: Vec::new() }.abi_encode();
        let request = TransactionRequest::default().with_to(multicall).with_input(input);
        let told = runtime.block_on(async { client.provider().call(request).await });
        assert!(IMulticall3::aggregate3Call::abi_decode_returns(&told.unwrap()).unwrap().is_empty());
    }
}

/// No tool reads the code of Permit2; only the simulation does.
#[test]
fn false_code_of_another_contract_gets_nothing_new_signed() {
    let permit2 = || -> Lie {
        let at = chain().devnet.described["chains"][0]["contracts"]["permit2"].as_str().unwrap();
        lie_about("eth_getCode", at.to_owned(), |_| Some("0x60015f5260205ff3".to_owned()))
    };
    assert_purchases_refused(permit2, &[(3, 1), (2, 1)]);
}

#[test]
fn a_false_native_balance_gets_nothing_new_signed() {
    assert_purchases_refused(native_balances, &[(3, 0), (2, 1)]);
}

#[test]
fn a_false_nonce_gets_nothing_new_signed() {
    assert_purchases_refused(nonces, &[(3, 1), (2, 1)]);
}

#[test]
fn false_balances_and_prices_in_a_multicall_get_nothing_new_signed() {
    assert_purchases_refused(multicalls, &[(3, 1), (2, 1)]);
}

#[test]
fn balances_feeds_and_pools_are_compared_separately() {
    for lie in [account_balances as fn() -> Lie, feeds, price_histories] {
        assert_purchases_refused(lie, &[(3, 0), (2, 0)]);
    }
}

#[test]
fn false_decimals_get_nothing_new_signed() {
    assert_purchases_refused(decimals, &[(3, 1), (2, 1)]);
}

#[test]
fn a_header_that_does_not_match_its_hash_gets_nothing_new_signed() {
    assert_purchases_refused(headers, &[(3, 0), (2, 1)]);
}

#[test]
fn an_exit_succeeds_by_the_majority_of_three() {
    for lie in [allowances, code, nonces, pending_nonces, multicalls, headers] {
        assert_exits_succeed(lie, &[(3, 1)]);
    }
    assert_exits_succeed(|| pools(""), &[(3, 2)]);
}

#[test]
fn an_exit_succeeds_although_two_endpoints_contradict_each_other() {
    for lie in [allowances, nonces, pending_nonces, headers] {
        assert_exits_succeed(lie, &[(2, 1)]);
    }
    // The sale reverts in one of the two views.
    assert_exits_succeed(broken_code, &[(2, 1)]);
}

#[test]
fn an_exit_that_returns_nothing_by_one_of_two_endpoints_is_blocked() {
    // In that view the sale succeeds and returns nothing: the token accepts every call and moves nothing.
    let attack = Attack::new(2, 1, code());
    assert_contradiction(&attack, SELL);
    drop(attack);
    assert_swaps(&Attack::new(2, 2, code()), SELL);
}

#[test]
fn a_revocation_succeeds_by_a_majority_and_with_two_endpoints() {
    let spender = chain().devnet.described["chains"][0]["contracts"]["permit2"].as_str().unwrap();
    let approve = |attack: &Attack, amount: &str| {
        let params = json!({"token": "USDC", "spender": spender, "amount": amount, "chain": "ethereum"});
        attack.call("token_approve", &params)
    };
    let revoke = |attack: &Attack| {
        attack.call("token_revoke", &json!({"token": "USDC", "spender": spender, "chain": "ethereum"}))
    };
    for (lie, count) in [(allowances as fn() -> Lie, 3), (nonces, 3), (native_balances, 2), (headers, 2)] {
        let honest = Attack::new(1, 1, Box::new(|_, _| {}));
        let approval = approve(&honest, "900");
        assert_eq!(approval["status"], "success", "{approval:#}");
        let attack = honest.then(count, 1, lie());
        let answer = revoke(&attack);
        assert_eq!(answer["status"], "success", "{answer:#}");
        assert!(is_zero(&allowance(spender)), "{answer:#}");
    }
}

/// An allowance is found and revoked although the first endpoint hides it.
#[test]
fn an_allowance_that_the_first_endpoint_hides_is_revoked() {
    let spender = chain().devnet.described["chains"][0]["contracts"]["permit2"].as_str().unwrap();
    for count in [3, 2] {
        let honest = Attack::new(1, 1, Box::new(|_, _| {}));
        let params = json!({"token": "USDC", "spender": spender, "amount": "900", "chain": "ethereum"});
        let approval = honest.call("token_approve", &params);
        assert_eq!(approval["status"], "success", "{approval:#}");
        let attack = honest.then(count, 0, no_allowances());
        let answer = attack.call("token_revoke", &json!({"token": "USDC", "spender": spender, "chain": "ethereum"}));
        assert_eq!(answer["status"], "success", "{answer:#}");
        assert!(is_zero(&allowance(spender)), "{answer:#}");
    }
}

/// Reads before the proposal of an exit must not depend on the first endpoint alone.
#[test]
fn one_endpoint_alone_does_not_decide_what_an_exit_sells() {
    const HELD: (&str, &str, &str) = ("WETH", "USDC", "0.02");
    for lie in [full_allowances, no_liquidity, absurd_gas_price] {
        for count in [3, 2] {
            assert_swaps(&Attack::new(count, 0, lie()), HELD);
        }
    }
}

/// An order is cancelled although the first endpoint reports its nonce as used.
#[test]
fn an_order_whose_nonce_the_first_endpoint_reports_as_used_is_cancelled() {
    let mut attack = Attack::new(3, 0, used_nonces());
    let service = chain().devnet.described["order_service"].as_str().unwrap().to_owned();
    let served =
        [("BARDO_UNISWAP_API_URL", service.as_str()), ("BARDO_UNISWAP_API_KEY", "key"), ("BARDO_QUOTE_SOURCE", "own")];
    attack.environment = served.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    // The slippage is so low that no filler takes the order at once.
    let params = json!({"token_in": "USDC", "token_out": "WETH", "amount": "30", "slippage_bps": 1,
                        "decay_end_time": 600, "chain": "ethereum"});
    let placed = attack.call("uniswap_submit_uniswapx_order", &params);
    let hash = placed["data"]["order_hash"].as_str().unwrap_or_else(|| panic!("{placed:#}"));
    let answer = attack.call("uniswapx_cancel_order", &json!({ "order_hash": hash }));
    assert_eq!(answer["status"], "success", "{answer:#}");
}

/// Allowance of `spender` on the account's USDC, read from the devnet itself.
fn allowance(spender: &str) -> String {
    let word = |address: &str| format!("{:0>64}", address.trim_start_matches("0x"));
    let data = format!("0xdd62ed3e{}{}", word(account()), word(spender));
    let told = ask(chain().devnet.url(0), "eth_call", json!([{ "to": token("USDC"), "data": data }, "latest"]));
    told.as_str().unwrap().to_owned()
}

/// Every direct call of a token returns `told`, or reverts if it is `None`.
fn token_calls(selector: &'static str, told: Option<&'static str>) -> Lie {
    Box::new(move |asked, answer| {
        let call = &asked["params"][0];
        let input = call["input"].as_str().or(call["data"].as_str()).unwrap_or_default();
        if asked["method"] != "eth_call" || !input.starts_with(selector) {
            return;
        }
        match told {
            Some(told) => *answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": told}),
            None => {
                let error = json!({"code": 3, "message": "execution reverted", "data": "0x"});
                *answer = json!({"jsonrpc": "2.0", "id": asked["id"], "error": error});
            }
        }
    })
}

/// Every token has 200 decimals.
fn absurd_decimals() -> Lie {
    token_calls("0x313ce567", Some("0x00000000000000000000000000000000000000000000000000000000000000c8"))
}

/// No token answers `decimals()`.
fn no_decimals() -> Lie {
    token_calls("0x313ce567", None)
}

/// There is no code at the address of Multicall3.
fn no_multicall() -> Lie {
    token_calls("0x82ad56cb", Some("0x"))
}

/// Multicall3 reverts on every call.
fn broken_multicall() -> Lie {
    token_calls("0x82ad56cb", None)
}

/// The chain has no first block.
fn no_first_block() -> Lie {
    Box::new(|asked, answer| {
        if asked["method"] == "eth_getBlockByNumber" && asked["params"][0] == "earliest" {
            answer["result"] = Value::Null;
        }
    })
}

#[test]
fn an_impossible_answer_of_the_first_endpoint_does_not_block_an_exit() {
    for lie in [absurd_decimals, no_decimals, no_multicall, broken_multicall, no_first_block] {
        assert_exits_succeed(lie, &[(3, 0), (2, 0)]);
    }
}

#[test]
fn an_impossible_answer_of_the_first_endpoint_does_not_block_a_revocation() {
    let spender = chain().devnet.described["chains"][0]["contracts"]["permit2"].as_str().unwrap();
    for (lie, count) in [(absurd_decimals as fn() -> Lie, 2), (no_decimals, 3), (no_multicall, 2)] {
        let honest = Attack::new(1, 1, Box::new(|_, _| {}));
        let params = json!({"token": "USDC", "spender": spender, "amount": "900", "chain": "ethereum"});
        let approval = honest.call("token_approve", &params);
        assert_eq!(approval["status"], "success", "{approval:#}");
        let attack = honest.then(count, 0, lie());
        let answer = attack.call("token_revoke", &json!({"token": "USDC", "spender": spender, "chain": "ethereum"}));
        assert_eq!(answer["status"], "success", "{answer:#}");
        assert!(is_zero(&allowance(spender)), "{answer:#}");
    }
}

#[test]
fn an_impossible_answer_about_a_token_gets_nothing_new_signed() {
    assert_purchases_refused(absurd_decimals, &[(3, 0), (2, 0)]);
    assert_purchases_refused(no_decimals, &[(2, 0)]);
}

/// No transaction has a receipt.
fn no_receipts() -> Lie {
    Box::new(|asked, answer| {
        if asked["method"] == "eth_getTransactionReceipt" {
            answer["result"] = Value::Null;
        }
    })
}

#[test]
fn an_endpoint_that_answers_null_for_receipts_does_not_block_a_plan() {
    for (count, place) in [(3, 0), (2, 0), (2, 1)] {
        assert_swaps(&Attack::new(count, place, no_receipts()), BUY);
    }
}

/// The base fee is one wei, according to the fee history only.
fn no_base_fee() -> Lie {
    Box::new(|asked, answer| {
        if asked["method"] == "eth_feeHistory" {
            for fee in answer["result"]["baseFeePerGas"].as_array_mut().into_iter().flatten() {
                *fee = json!("0x1");
            }
        }
    })
}

#[test]
fn one_of_two_endpoints_cannot_lower_the_base_fee() {
    for place in [0, 1] {
        let attack = Attack::new(2, place, no_base_fee());
        let answer = attack.swap(SELL);
        assert_eq!(answer["status"], "success", "{answer:#}");
        let sent = ask(chain().devnet.url(0), "eth_getTransactionByHash", json!([answer["data"]["tx_hash"]]));
        let block = ask(chain().devnet.url(0), "eth_getBlockByHash", json!([sent["blockHash"], false]));
        // Twice the previous block's base fee, not twice a wei, plus the tip.
        let (most, base) = (number(&sent["maxFeePerGas"]), number(&block["baseFeePerGas"]));
        let tip = number(&sent["maxPriorityFeePerGas"]);
        assert!(most >= base + base / 2 + tip, "{most} for a base fee of {base}: {sent:#}");
    }
}

/// An endpoint that lacks the blocks of the others.
fn lacks_blocks() -> Lie {
    Box::new(|asked, answer| {
        let by_hash = asked["params"].to_string().contains("blockHash") || asked["method"] == "eth_getBlockByHash";
        if by_hash {
            answer.as_object_mut().unwrap().remove("result");
            answer["error"] = json!({"code": -32000, "message": "header not found"});
        }
    })
}

#[test]
fn an_endpoint_that_denies_having_the_block_blocks_nothing_if_two_others_have_it() {
    assert_swaps(&Attack::new(3, 1, lacks_blocks()), BUY);
    // With two endpoints, neither can prove that the other invents a block: no new positions, but exits succeed.
    assert_contradiction(&Attack::new(2, 1, lacks_blocks()), BUY);
    assert_swaps(&Attack::new(2, 1, lacks_blocks()), SELL);
}

/// The latest block is another one: `ahead` above the real one, with another hash.
fn ahead() -> Lie {
    Box::new(|asked, answer| {
        if asked["method"] == "eth_getBlockByNumber" && asked["params"][0] == "latest" {
            let real = number(&answer["result"]["number"]);
            answer["result"]["number"] = json!(format!("{:#x}", real + 7));
            answer["result"]["hash"] = json!(format!("0x{}", "7".repeat(64)));
        }
    })
}

#[test]
fn a_block_that_one_endpoint_invents_is_not_used() {
    for (count, place) in [(3, 0), (2, 0), (2, 1)] {
        assert_swaps(&Attack::new(count, place, ahead()), BUY);
    }
}

/// Only the chain id is answered.
fn errors() -> Lie {
    Box::new(|asked, answer| {
        if asked["method"] != "eth_chainId" && asked["method"] != "bardo_describe" {
            answer.as_object_mut().unwrap().remove("result");
            answer["error"] = json!({"code": -32603, "message": "internal error"});
        }
    })
}

#[test]
fn an_endpoint_that_only_fails_is_ignored() {
    for (count, place) in [(3, 0), (2, 1)] {
        assert_swaps(&Attack::new(count, place, errors()), BUY);
    }
}

#[test]
fn a_lying_endpoint_does_not_decide_alone_if_the_other_takes_only_small_requests() {
    let attack = Attack::through(2, |real, place| match place {
        0 => LyingRpc::start(real, allowances()),
        _ => LyingRpc::narrow(real, 10),
    });
    assert_contradiction(&attack, BUY);
    drop(attack);
    // Without a lie such an endpoint blocks nothing.
    let honest = Attack::through(2, |real, place| match place {
        0 => LyingRpc::honest(real),
        _ => LyingRpc::narrow(real, 10),
    });
    assert_swaps(&honest, BUY);
}

#[test]
fn a_lying_endpoint_does_not_decide_alone_if_the_other_fails_the_simulations_reads() {
    let fails = || -> Lie {
        Box::new(|asked, answer| {
            if asked["method"] == "eth_getStorageAt" {
                *answer = json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32000, "message": "busy"}});
            }
        })
    };
    let attack = Attack::through(2, |real, place| match place {
        0 => LyingRpc::start(real, allowances()),
        _ => LyingRpc::start(real, fails()),
    });
    assert_contradiction(&attack, BUY);
}

#[test]
fn an_endpoint_whose_chain_id_changes_is_dropped() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let asked_before = AtomicUsize::new(0);
    let lie: Lie = Box::new(move |asked, answer| {
        // Its first answers, on which it is accepted, are correct.
        if asked["method"] == "eth_chainId" && asked_before.fetch_add(1, Ordering::SeqCst) > 1 {
            answer["result"] = json!("0x1");
        }
    });
    assert_swaps(&Attack::new(3, 0, lie), BUY);
    // What it says of that other chain does not count, so it contradicts nobody.
    let (asked_before, balances) = (AtomicUsize::new(0), balances());
    let lie: Lie = Box::new(move |asked, answer| {
        if asked["method"] == "eth_chainId" && asked_before.fetch_add(1, Ordering::SeqCst) > 0 {
            answer["result"] = json!("0x1");
        }
        balances(asked, answer);
    });
    assert_swaps(&Attack::new(3, 2, lie), BUY);
}

#[test]
fn a_lie_that_begins_between_two_transactions_of_a_plan_stops_the_rest() {
    let first: Mutex<Option<Value>> = Mutex::default();
    let usdc = token("USDC");
    // It is honest about the first block that it is asked about, and lies about every later one.
    let lie: Lie = Box::new(move |asked, answer| {
        if !is_for(asked, "eth_getStorageAt", usdc) {
            return;
        }
        let block = asked["params"][2].clone();
        let later = *first.lock().get_or_insert_with(|| block.clone()) != block;
        if later && answer["result"].as_str().is_some_and(is_zero) {
            answer["result"] = json!(HUGE);
        }
    });
    let attack = Attack::new(3, 1, lie);
    let weth = || {
        let data = format!("0x70a08231{:0>64}", account().trim_start_matches("0x"));
        ask(chain().devnet.url(0), "eth_call", json!([{ "to": token("WETH"), "data": data }, "latest"]))
    };
    let (before, weth_before) = (sent(), weth());
    let answer = attack.swap(BUY);
    assert_ne!(answer["status"], "success", "{answer:#}");
    assert!(answer.to_string().contains("contradicts"), "{answer:#}");
    assert_eq!(weth(), weth_before, "the purchase was made: {answer:#}");
    // The allowance was granted in the first transaction and is revoked.
    assert_eq!(sent() - before, 2, "{answer:#}");
    for contract in ["permit2", "universal_router", "swap_router02"] {
        if let Some(spender) = chain().devnet.described["chains"][0]["contracts"][contract].as_str() {
            assert!(is_zero(&allowance(spender)), "{contract}: {answer:#}");
        }
    }
}

/// The usual tip is 900 gwei.
fn fees() -> Lie {
    Box::new(|asked, answer| match asked["method"].as_str() {
        Some("eth_maxPriorityFeePerGas" | "eth_gasPrice") => answer["result"] = json!("0xd18c2e2800"),
        Some("eth_feeHistory") => {
            for rewards in answer["result"]["reward"].as_array_mut().into_iter().flatten() {
                *rewards = json!(["0xd18c2e2800", "0xd18c2e2800", "0xd18c2e2800"]);
            }
        }
        _ => {}
    })
}

#[test]
fn one_endpoint_cannot_raise_the_fee() {
    let attack = Attack::new(3, 0, fees());
    let answer = attack.swap(SELL);
    assert_eq!(answer["status"], "success", "{answer:#}");
    let hash = answer["data"]["tx_hash"].clone();
    let sent = ask(chain().devnet.url(0), "eth_getTransactionByHash", json!([hash]));
    assert!(number(&sent["maxPriorityFeePerGas"]) < 30_000_000_000, "{sent:#}");
}

/// The gas reserve of a transfer of the whole native balance follows from the gas price. One endpoint must make it
/// neither nothing nor the whole balance.
#[test]
fn one_endpoint_cannot_set_the_gas_price() {
    let _lock = chain().account_lock.lock();
    let runtime = runtime();
    let real = chain().devnet.url(0);
    let honest = number(&ask(real, "eth_gasPrice", json!([])));
    let head = ask(real, "eth_getBlockByNumber", json!(["latest", false]));
    let base_fee = number(&head["baseFeePerGas"]);
    for (count, told) in [(2, 0_u128), (3, 0), (2, 1 << 100), (3, 1 << 100)] {
        for place in 0..count {
            let price: Lie = Box::new(move |asked, answer| {
                if asked["method"] == "eth_gasPrice" {
                    answer["result"] = json!(format!("{told:#x}"));
                }
            });
            let (client, _proxies) = client(&runtime, (count, place), price);
            let found = runtime.block_on(client.gas_price()).unwrap();
            // Of two endpoints that differ, the higher one counts, up to thirty gwei above the base fee.
            let expected =
                if (count, told > 0) == (2, true) { u128::from(base_fee) + 30_000_000_000 } else { honest.into() };
            assert_eq!(found, expected, "{told} by endpoint {place} of {count}");
        }
    }
}

/// An endpoint whose machines are not equally far: where the block is not named by its hash, feeds are read from an old
/// block, on which their last answer is from long ago.
fn old_feeds() -> Lie {
    let old = multicall_answers([0xfe, 0xaf, 0x96, 0x8c], |data| {
        if let Some(updated_at) = data.get_mut(96..128) {
            updated_at.fill(0);
            updated_at[31] = 1;
        }
    });
    Box::new(move |asked, answer| {
        if asked["method"] == "eth_call" && asked["params"][1] == "latest" {
            old(asked, answer);
        }
    })
}

#[test]
fn prices_are_read_at_the_block_of_the_simulation() {
    for (count, place) in [(1, 0), (2, 0), (3, 1)] {
        assert_swaps(&Attack::new(count, place, old_feeds()), BUY);
    }
}

#[test]
fn the_doctor_names_the_endpoint_that_lies() {
    for lie in [code, balances, headers] {
        let attack = Attack::new(3, 2, lie());
        let (text, exit) = attack.run(&["doctor"]);
        assert_ne!(exit, 0, "{text}");
        assert!(text.contains(attack.label(2)) && text.contains("contradicts"), "{text}");
        assert!(!text.contains(&format!("{} contradicts", attack.label(0))), "{text}");
    }
}

#[test]
fn the_doctor_reports_that_a_single_endpoint_is_unchecked() {
    let (text, _) = Attack::new(1, 1, Box::new(|_, _| {})).run(&["doctor"]);
    assert!(text.contains("one endpoint, so its answers are not cross-checked"), "{text}");
}

/// Counts the sequential round trips that a proxy with this delay has seen: requests that arrive while an earlier one
/// is unanswered belong to its round trip.
fn round_trips(heard: &[Heard], delay: Duration) -> usize {
    let mut trips = 0;
    let mut until = None;
    for one in heard {
        if until.is_none_or(|until| one.at >= until) {
            trips += 1;
            until = Some(one.at + delay);
        }
    }
    trips
}

#[test]
fn several_endpoints_cost_one_more_round_trip() {
    const DELAY: Duration = Duration::from_millis(60);
    let _lock = chain().account_lock.lock();
    let runtime = runtime();
    let trips = |count: usize| {
        let slow = || LyingRpc::slow(chain().devnet.url(0), Box::new(|_, _| {}), DELAY);
        let proxies: Vec<LyingRpc> = (0..count).map(|_| slow()).collect();
        runtime.block_on(async {
            let plan = ChainPlan {
                name: "ethereum".into(),
                network: None,
                chain_id: None,
                endpoints: proxies.iter().map(|proxy| RpcUrl::parse(&proxy.url()).unwrap()).collect(),
            };
            let client = ChainClient::connect(&plan, ConnectRules::default(), Arc::new(SystemClock)).await.unwrap();
            // Every endpoint has proven its chain id by then.
            for (_, alone) in client.each_alone() {
                alone.provider().get_block_number().await.unwrap();
            }
            let before: Vec<usize> = proxies.iter().map(|proxy| proxy.heard().len()).collect();
            let fork = Fork::pin(&ForkSource::of(&client), BlockId::latest(), NextBlock::default()).await.unwrap();
            let call = ForkCall::new(
                account().parse().unwrap(),
                token("USDC").parse().unwrap(),
                Erc20::transferCall { to: Address::repeat_byte(7), value: U256::from(1) }.abi_encode(),
            );
            let simulation = fork.simulate(&[call]).await.unwrap();
            assert!(simulation.outcomes[0].status == ExecutionStatus::Success, "{simulation:?}");
            let first = proxies[0].heard();
            let asked: Vec<Heard> = first.into_iter().skip(before[0]).filter(|one| !is_poll(one)).collect();
            round_trips(&asked, DELAY)
        })
    };
    let (one, three) = (trips(1), trips(3));
    assert_eq!(three, one + 1, "{one} round trips with one endpoint");
}

/// True for requests of the health monitor, which polls on its own schedule.
fn is_poll(heard: &Heard) -> bool {
    matches!(heard.methods.as_slice(), [one] if one == "eth_getBlockByNumber" || one == "eth_chainId")
}

/// One endpoint of three cannot make an account look delegated, nor a contract look like an account of a key; of two,
/// neither is believed.
#[test]
fn no_endpoint_alone_decides_what_an_account_is() {
    let delegated = || {
        let code = format!("0xef0100{}", "7c".repeat(20));
        lie_about("eth_getCode", account().to_owned(), move |_| Some(code.clone()))
    };
    let asked = |attack: &Attack, tool: &str, of: Option<&str>| {
        let params = of.map_or_else(|| json!({}), |of| json!({"address": of}));
        attack.call(tool, &params)
    };
    for place in [0, 2] {
        let attack = Attack::new(3, place, delegated());
        let answer = asked(&attack, "wallet_detect_account_type", Some(account()));
        assert_eq!(answer["data"]["account_type"], "eoa", "{answer:#}");
        let answer = asked(&attack, "wallet_get_delegation", None);
        assert_eq!(answer["data"]["delegated"], false, "{answer:#}");
        let attack = attack.then(2, place.min(1), delegated());
        for (tool, of) in [("wallet_detect_account_type", Some(account())), ("wallet_get_delegation", None)] {
            let answer = asked(&attack, tool, of);
            assert_eq!(answer["error"]["code"], "CHAIN_INCONSISTENT", "{tool}: {answer:#}");
        }
        let no_code = lie_about("eth_getCode", token("USDC").to_owned(), |_| Some("0x".to_owned()));
        let attack = attack.then(3, place, no_code);
        let answer = asked(&attack, "wallet_detect_account_type", Some(token("USDC")));
        assert_eq!(answer["data"]["account_type"], "contract", "{answer:#}");
    }
}
