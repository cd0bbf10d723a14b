//! Rehearsals over a live network, which is a devnet in another process here: the same quotes and swaps to the smallest
//! unit, offline afterwards, with what the operator holds, and with nothing sent to the network.

use std::path::Path;
use std::sync::Arc;

use bardo::base::clock::{Clock, SystemClock};
use bardo::chain::devnet::server::{RpcServer, serve};
use bardo::chain::provider::read_only::READ_ONLY_METHODS;
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use serde_json::{Value, json};

use crate::{bardo, run};
use bardo_testkit::devnet::{Devnet, ask};
use bardo_testkit::lying_rpc::LyingRpc;

/// Demo wallet, which is also the stand-in.
const FIRST: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

/// A devnet's first chain, served in this process, on which nobody else trades.
pub(crate) struct Quiet {
    pub(crate) url: String,
    pub(crate) book: Value,
    _runtime: tokio::runtime::Runtime,
    _sandbox: Sandbox,
    _server: RpcServer,
}

impl Quiet {
    pub(crate) fn start() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let config = SandboxConfig {
            seed: 7,
            start_time: clock.now_seconds(),
            pace: BlockPace::OnTransaction,
            clock: Some(clock),
            market: MarketMode::Off,
            keeper: false,
        };
        let sandbox = Sandbox::boot(&config, &|_| {}).unwrap();
        let runtime = bardo::base::runtime::multi_threaded(Some(2)).unwrap();
        let devnet = sandbox.chains()[0].devnet.clone();
        let server = runtime.block_on(serve(devnet.clone(), 0)).unwrap();
        let mut description = sandbox.description();
        description.chains[0].rpc = server.url();
        let book = serde_json::to_value(&description).unwrap();
        runtime.block_on(devnet.set_description(book.clone())).unwrap();
        Self { url: server.url(), book, _runtime: runtime, _sandbox: sandbox, _server: server }
    }
}

/// Path of a file with this address book.
pub(crate) fn written(home: &Path, book: &Value) -> String {
    let path = home.join("book.json");
    std::fs::write(&path, book.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Response of a call, and the exit code.
pub(crate) fn call(home: &Path, tool: &str, params: &Value, more: &[&str]) -> (Value, i32) {
    let params = params.to_string();
    let (out, err, code) = run(bardo(home).args(["call", tool, &params]).args(more));
    let response = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    (response, code)
}

pub(crate) fn swap(token_in: &str, token_out: &str, amount: &str) -> Value {
    json!({
        "token_in": token_in, "token_out": token_out, "amount": amount, "chain": "ethereum", "prefer_uniswapx": false,
    })
}

/// Amounts of an executed swap.
pub(crate) fn result(response: &Value) -> Value {
    let data = &response["data"];
    assert_eq!(response["status"], "success", "{response}");
    json!([data["amount_in"], data["amount_out"]])
}

fn balance(url: &str, token: &str, owner: &str) -> Value {
    let data = format!("0x70a08231{:0>64}", owner.trim_start_matches("0x").to_lowercase());
    ask(url, "eth_call", json!([{ "to": token, "data": data }, "latest"]))
}

#[test]
fn a_rehearsal_quotes_and_swaps_as_the_network_does_and_again_without_it() {
    let home = tempfile::tempdir().unwrap();
    let quiet = Quiet::start();
    let before = ask(&quiet.url, "eth_blockNumber", json!([]));
    let proxy = LyingRpc::honest(&quiet.url);
    let fork = format!("ethereum={}", proxy.url());
    let live = format!("ethereum={}", quiet.url);
    let (rehearsed, network) = (["--fork", &fork, "--approve", "always"], ["--rpc", &live, "--approve", "always"]);
    for (from, to, amount) in [("WETH", "USDC", "0.1"), ("USDC", "UNI", "25"), ("ETH", "DAI", "0.01")] {
        let amounts = swap(from, to, amount);
        let quoted = |more: &[&str]| {
            let (response, code) = call(home.path(), "uniswap_get_quote", &amounts, more);
            assert_eq!((code, &response["status"]), (0, &json!("success")), "{response}");
            (response["data"]["amount_out"].clone(), response["data"]["route"].clone())
        };
        assert_eq!(quoted(&rehearsed), quoted(&network), "{amounts}");
    }
    let wanted = swap("WETH", "USDC", "0.1");
    let (there, code) = call(home.path(), "uniswap_execute_swap", &wanted, &rehearsed);
    assert_eq!(code, 0, "{there}");
    // Whatever the rehearsal did, the network heard reads only, and made no block.
    let heard: Vec<String> = proxy.heard().into_iter().flat_map(|heard| heard.methods).collect();
    assert!(heard.len() > 50, "{}", heard.len());
    for method in &heard {
        assert!(READ_ONLY_METHODS.contains(&method.as_str()), "{method} reached the network");
    }
    assert_eq!(ask(&quiet.url, "eth_blockNumber", json!([])), before);
    let (live_swap, code) = call(home.path(), "uniswap_execute_swap", &wanted, &network);
    assert_eq!(code, 0, "{live_swap}");
    assert_eq!(result(&there), result(&live_swap));
    // The network is gone; the block that was rehearsed on is in the cache.
    let book = written(home.path(), &quiet.book);
    drop(quiet);
    let block = u64::from_str_radix(&before.as_str().unwrap()[2..], 16).unwrap();
    let gone = format!("ethereum=http://127.0.0.1:9@{block}");
    // With an endpoint that does not answer, and with none: the address book says which network it was.
    for fork in [&gone, &format!("ethereum@{block}")] {
        let (offline, code) = call(
            home.path(),
            "uniswap_execute_swap",
            &wanted,
            &["--fork", fork, "--book", &book, "--approve", "always"],
        );
        assert_eq!(code, 0, "{fork}: {offline}");
        assert_eq!(result(&offline), result(&there), "{fork}");
    }
    let (lacking, code) =
        call(home.path(), "uniswap_get_quote", &swap("LINK", "UNI", "1"), &["--fork", &gone, "--book", &book]);
    assert_eq!(code, 1, "{lacking}");
    assert!(lacking.to_string().contains("no endpoint of ethereum responds"), "{lacking}");
}

#[test]
fn the_stand_in_has_what_the_holder_has_and_keeps_it_between_runs() {
    let home = tempfile::tempdir().unwrap();
    let devnet = Devnet::start("0", 7);
    let url = devnet.url(0).to_owned();
    let book = devnet.chain("ethereum").clone();
    let at = |name: &str| book["tokens"][name]["address"].as_str().unwrap().to_owned();
    // The third account gets tokens and grants an allowance.
    let holder = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
    let word = |hex: &str| format!("{:0>64}", hex.trim_start_matches("0x").to_lowercase());
    let send = |from: &str, to: &str, data: String| {
        ask(&url, "eth_sendTransaction", json!([{ "from": from, "to": to, "data": data, "gas": "0x30d40" }]));
    };
    send(FIRST, &at("USDC"), format!("0xa9059cbb{}{}", word(holder), word("75bcd15")));
    let permit2 = book["contracts"]["permit2"].as_str().unwrap().to_owned();
    send(holder, &at("USDC"), format!("0x095ea7b3{}{}", word(&permit2), word("3ade68b1")));
    let fork = format!("ethereum={url}");
    let arguments = ["--fork", &fork, "--holder", holder, "--data", "dress", "--block-time", "0"];
    let first = Devnet::start_in(home.path(), &arguments);
    let local = first.url(0).to_owned();
    assert_eq!(first.described["chains"][0]["chain_id"], 31_338);
    assert_eq!(first.described["chains"][0]["rehearses"]["chain_id"], 31_337);
    for token in ["USDC", "WETH", "DAI"] {
        assert_eq!(balance(&local, &at(token), FIRST), balance(&url, &at(token), holder), "{token}");
    }
    assert_eq!(balance(&local, &at("USDC"), FIRST), json!(format!("0x{}", word("75bcd15"))));
    let allowed = |url: &str, owner: &str| {
        let data = format!("0xdd62ed3e{}{}", word(owner), word(&permit2));
        ask(url, "eth_call", json!([{ "to": at("USDC"), "data": data }, "latest"]))
    };
    assert_eq!(allowed(&local, FIRST), json!(format!("0x{}", word("3ade68b1"))));
    let ether = |url: &str, owner: &str| ask(url, "eth_getBalance", json!([owner, "latest"]));
    assert_eq!(ether(&local, FIRST), ether(&url, holder));
    // What happens on the rehearsal is there in the next run, without the network.
    ask(&local, "eth_sendTransaction", json!([{ "from": FIRST, "to": holder, "value": "0x7" }]));
    let after = ether(&local, FIRST);
    drop(first);
    // A public network is known by name; what a devnet is, only its description says.
    let book_file = written(home.path(), &devnet.described);
    drop(devnet);
    let (listed, _, _) = run(bardo(home.path()).args(["devnet", "list"]));
    assert!(listed.contains("dress") && listed.contains("fork of ethereum@"), "{listed}");
    let (_, refused, code) =
        run(bardo(home.path()).args(["devnet", "--port", "0", "--data", "dress", "--fork", "base"]));
    assert!(code != 0 && refused.contains("is not a fork of base"), "{refused}");
    let again = Devnet::start_in(
        home.path(),
        &["--fork", "ethereum=http://127.0.0.1:9", "--data", "dress", "--book", &book_file],
    );
    assert_eq!(ether(again.url(0), FIRST), after);
}

#[test]
fn an_unknown_or_conflicting_network_is_refused_in_words() {
    let home = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (vec!["--fork", "etherum"], "did you mean 'ethereum'?"),
        (vec!["--fork", "devnet"], "unknown chain 'devnet'"),
        (vec!["--fork", "ethereum@soon"], "does not name a network"),
        (vec!["--fork", "ethereum=http://127.0.0.1:9@5"], "no endpoint of ethereum responds"),
        (vec!["--fork", "ethereum=http://127.0.0.1:9", "--holder", "nobody"], "no key of this name"),
        (vec!["--holder", FIRST], "--holder belongs to a rehearsal"),
        (vec!["--fork", "ethereum", "--network", "base"], "cannot be used with"),
    ] {
        let (_, err, code) = run(bardo(home.path()).args(["devnet", "--port", "0"]).args(&arguments));
        assert!(code != 0 && err.contains(expected), "{arguments:?}: {err}");
    }
}

#[test]
fn a_rehearsed_call_is_proposed_on_the_network_and_checked_again() {
    let home = tempfile::tempdir().unwrap();
    let devnet = Devnet::start("0", 7);
    let place = format!("ethereum={}", devnet.url(0));
    let uni = devnet.chain("ethereum")["tokens"]["UNI"]["address"].as_str().unwrap().to_owned();
    let before = balance(devnet.url(0), &uni, FIRST);
    let (rehearsed, code) = call(
        home.path(),
        "uniswap_execute_swap",
        &swap("USDC", "UNI", "50"),
        &["--fork", &place, "--approve", "always"],
    );
    assert_eq!(code, 0, "{rehearsed}");
    let id = rehearsed["call_id"].as_str().unwrap();
    let said = rehearsed["explanation"].as_str().unwrap();
    assert!(said.contains(&format!("bardo call --from-rehearsal {id}")), "{said}");
    assert_eq!(balance(devnet.url(0), &uni, FIRST), before, "the rehearsal reached the network");
    let propose = |more: &[&str]| {
        let (out, err, code) = run(bardo(home.path()).args(["call", "--from-rehearsal", id]).args(more));
        (serde_json::from_str::<Value>(&out).unwrap_or_else(|_| panic!("{out}{err}")), err, code)
    };
    // Nobody approves in advance what a Golem may have chosen, and no other chain gets it: neither a devnet of another
    // id nor the built-in one.
    let elsewhere = format!("base={}", devnet.url(1));
    for (more, expected) in [
        (vec!["--rpc", &place, "--approve", "always"], "remove it and approve the call on the terminal"),
        (vec!["--rpc", &elsewhere], "the call was rehearsed on chain id 31337, but"),
        (vec!["--network", "devnet"], "not on the built-in devnet"),
    ] {
        let (out, err, code) = run(bardo(home.path()).args(["call", "--from-rehearsal", id]).args(&more));
        assert_eq!((code, out.as_str()), (2, ""), "{more:?}: {err}");
        assert!(err.contains(expected), "{more:?}: {err}");
    }
    let (done, shown, code) = propose(&["--rpc", &place]);
    assert_eq!(code, 0, "{done}");
    for expected in [
        "the live network ethereum (chain id 31337)",
        "rehearsed by  you, at block",
        "tool          uniswap_execute_swap",
        "token_out     \"UNI\"",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert_ne!(done["call_id"], rehearsed["call_id"]);
    assert_eq!(result(&done)[0], result(&rehearsed)[0]);
    let after = balance(devnet.url(0), &uni, FIRST);
    assert_ne!(after, before);
    // The network's own policy decides, not the result of the rehearsal.
    std::fs::write(home.path().join("policy-devnet.toml"), "preset = \"demo\"\nmax_single_trade_usd = \"1\"\n")
        .unwrap();
    let (blocked, _, code) = propose(&["--rpc", &place]);
    assert_eq!((code, &blocked["status"]), (3, &json!("blocked")), "{blocked}");
    assert_eq!(balance(devnet.url(0), &uni, FIRST), after);
    let (_, unknown, code) = run(bardo(home.path()).args(["call", "--from-rehearsal", "01JDKZZZZZZZZZZZZZZZZZZZZZ"]));
    assert!(code != 0 && unknown.contains("no call"), "{unknown}");
}

#[test]
fn the_doctor_rehearses_a_swap_under_the_networks_policy() {
    let home = tempfile::tempdir().unwrap();
    let devnet = Devnet::start("0", 7);
    let place = format!("ethereum={}", devnet.url(0));
    let before = ask(devnet.url(0), "eth_blockNumber", json!([]));
    let rehearse = |size: &str| {
        let (out, err, _) =
            run(bardo(home.path()).args(["doctor", "--json", "--rehearse", "--size", size, "--rpc", &place]));
        let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        let checks = report["checks"].as_array().unwrap().clone();
        checks.into_iter().filter(|one| matches!(one["check"].as_str(), Some("rehearsal" | "live"))).collect::<Vec<_>>()
    };
    std::fs::write(home.path().join("config.toml"), "[rehearsal]\nsize = \"0.03\"\n").unwrap();
    let (out, _, _) = run(bardo(home.path()).args(["doctor", "--json", "--rehearse", "--rpc", &place]));
    assert!(out.contains("swapped 0.03 ETH for USDC"), "{out}");
    let found = rehearse("0.02");
    let text = json!(found).to_string();
    assert!(found.iter().all(|one| one["status"] != "fail"), "{text}");
    assert!(text.contains("a fork of ethereum at block") && text.contains("swapped 0.02 ETH for USDC"), "{text}");
    assert!(found.iter().any(|one| one["check"] == "live" && one["detail"].to_string().contains("chain id is 31337")));
    // The policy of the network holds on the rehearsal.
    std::fs::write(
        home.path().join("policy-devnet.toml"),
        "preset = \"demo\"\nallowed_intent_types = [\"approve\"]\nallowed_chains = [\"devnet-ethereum\"]\n",
    )
    .unwrap();
    let found = json!(rehearse("0.02")).to_string();
    assert!(found.contains("did not swap 0.02 ETH for USDC"), "{found}");
    assert_eq!(ask(devnet.url(0), "eth_blockNumber", json!([])), before);
    // Its own ledger and policy are gone.
    let left: Vec<_> =
        std::fs::read_dir(home.path().join("data")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("rehearse-")), "{left:?}");
    let (_, err, code) = run(bardo(home.path()).args(["doctor", "--rehearse"]));
    assert!(code == 2 && err.contains("needs a live network"), "{err}");
}

/// Topics of the swap events of V2 pairs and V3 pools, `keccak256` of their signatures.
const SWAPS: [&str; 2] = [
    "0xd78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822",
    "0xc42079f94a6350d7e6235f29174924f928cc2ac818eb64fed8004e115fbcca67",
];

/// Senders of the swaps between two blocks.
fn traders(url: &str, from: u64, to: u64) -> Vec<String> {
    let range = json!({ "fromBlock": format!("{from:#x}"), "toBlock": format!("{to:#x}"), "topics": [SWAPS] });
    let logs = ask(url, "eth_getLogs", json!([range]));
    let sender = |log: &Value| {
        let transaction = ask(url, "eth_getTransactionByHash", json!([log["transactionHash"]]));
        transaction["from"].as_str().unwrap().to_owned()
    };
    logs.as_array().unwrap().iter().map(sender).collect()
}

fn number(url: &str) -> u64 {
    let text = ask(url, "eth_blockNumber", json!([]));
    u64::from_str_radix(text.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Square of the pool's square-root price, as a float, of the WETH/USDC pool with a fee of 0.05 %.
fn pool_price(url: &str, chain: &Value) -> f64 {
    let word = |hex: &str| format!("{:0>64}", hex.trim_start_matches("0x").to_lowercase());
    let token = |name: &str| word(chain["tokens"][name]["address"].as_str().unwrap());
    let data = format!("0x1698ee82{}{}{:064x}", token("WETH"), token("USDC"), 500);
    let pool = ask(url, "eth_call", json!([{ "to": chain["contracts"]["v3Factory"], "data": data }, "latest"]));
    let pool = format!("0x{}", &pool.as_str().unwrap()[26..]);
    let slot0 = ask(url, "eth_call", json!([{ "to": pool, "data": "0x3850c7bd" }, "latest"]));
    let root = u128::from_str_radix(&slot0.as_str().unwrap()[2 + 24..2 + 64 - 6], 16).unwrap();
    (root as f64).powi(2)
}

#[test]
fn residents_trade_on_the_networks_pools_and_stay_with_a_kept_rehearsal() {
    let home = tempfile::tempdir().unwrap();
    let quiet = Quiet::start();
    let (fork, before) = (format!("ethereum={}", quiet.url), number(&quiet.url));
    let arguments = ["--fork", &fork, "--residents", "--data", "lively", "--block-time", "0"];
    let first = Devnet::start_in(home.path(), &arguments);
    let (url, chain) = (first.url(0).to_owned(), first.chain("ethereum").clone());
    assert!(first.described["order_service"].is_string(), "{}", first.described);
    let (origin, start) = (pool_price(&quiet.url, &quiet.book["chains"][0]), pool_price(&url, &chain));
    assert_eq!(origin, start, "the market starts at the pool's price");
    let live_for = |url: &str, blocks: u64| {
        let begin = number(url);
        for _ in 0..blocks {
            ask(url, "evm_increaseTime", json!([12]));
            ask(url, "evm_mine", json!([]));
        }
        traders(url, begin + 1, number(url))
    };
    let seen = live_for(&url, 40);
    assert!(seen.len() >= 10, "{seen:?}");
    let distinct: std::collections::BTreeSet<&String> = seen.iter().collect();
    assert!(distinct.len() >= 3 && !distinct.contains(&FIRST.to_lowercase()), "{distinct:?}");
    let moved = pool_price(&url, &chain) / start;
    assert!(moved != 1.0 && (0.97..1.03).contains(&moved), "{moved}");
    assert_eq!(number(&quiet.url), before, "nothing reaches the network");
    drop(first);
    // The market goes on in the next run, without a word of it, and with what the actors have.
    let book = written(home.path(), &quiet.book);
    let again =
        Devnet::start_in(home.path(), &["--data", "lively", "--block-time", "0", "--rpc", &fork, "--book", &book]);
    let seen = live_for(again.url(0), 20);
    assert!(seen.len() >= 4, "{seen:?}");
}

#[test]
fn residents_fill_auctions_of_a_rehearsal_which_otherwise_has_none() {
    let home = tempfile::tempdir().unwrap();
    let quiet = Quiet::start();
    let fork = format!("ethereum={}", quiet.url);
    let order = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.2", "chain": "ethereum"});
    let tool = "uniswap_submit_uniswapx_order";
    let alone = call(home.path(), tool, &order, &["--fork", &fork, "--approve", "always", "--wait"]);
    assert_ne!(alone.1, 0, "{}", alone.0);
    let before = number(&quiet.url);
    let (filled, code) =
        call(home.path(), tool, &order, &["--fork", &fork, "--residents", "--approve", "always", "--wait"]);
    assert_eq!((code, &filled["status"]), (0, &json!("success")), "{filled}");
    assert_eq!(filled["data"]["status"], "filled", "{filled}");
    assert_eq!(number(&quiet.url), before, "the network was only read");
}
