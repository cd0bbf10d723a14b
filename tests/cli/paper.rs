//! Paper mode through the binary: everything is checked, approved and counted as for real trades and kept between runs,
//! and the chain does not change.

use std::fs;

use serde_json::{Value, json};

use crate::fixture::{Fixture, swap};
use crate::{bardo, run};

/// Balances of the native token and of two tokens, and the account's nonce.
fn chain(fixture: &Fixture) -> Vec<Value> {
    let balance = |symbol: &str| {
        let account = fixture.account().trim_start_matches("0x").to_lowercase();
        let call = format!("0x70a08231000000000000000000000000{account}");
        fixture.ask("eth_call", json!([{"to": fixture.token(symbol), "data": call}, "latest"]))
    };
    let coin = fixture.ask("eth_getBalance", json!([fixture.account(), "latest"]));
    vec![coin, balance("USDC"), balance("LINK"), json!(fixture.nonce("pending"))]
}

/// Raw units of a token, as `get_balances` reports them.
fn held(fixture: &Fixture, symbol: &str, more: &[&str]) -> u128 {
    let params = json!({"chain": "ethereum", "tokens": ["ETH", "USDC", "LINK"]});
    let (answer, _) = fixture.call("get_balances", &params, more);
    let rows = answer["data"]["chains"][0]["balances"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let row = rows.iter().find(|row| row["token"] == symbol).unwrap_or_else(|| panic!("{symbol}: {answer}"));
    row["raw"].as_str().unwrap().parse().unwrap()
}

/// Dollars that count towards the daily limit, and trades of the last hour.
fn used(fixture: &Fixture, more: &[&str]) -> (f64, u64) {
    let (answer, _) = fixture.call("check_safety_status", &json!({"chain": "ethereum"}), more);
    let caps = answer["data"]["caps"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let day = caps.iter().find(|cap| cap["rule"] == "max_daily_spend_usd").unwrap_or_else(|| panic!("{answer}"));
    let trades = answer["data"]["trades_per_hour"]["used"].as_u64().unwrap_or_else(|| panic!("{answer}"));
    (day["used_usd"].as_str().unwrap().parse().unwrap(), trades)
}

fn paper(fixture: &Fixture, arguments: &[&str]) -> (String, String, i32) {
    run(bardo(fixture.home.path()).arg("paper").args(arguments))
}

/// Number of rows in a table of one of the data directory's databases.
fn rows(fixture: &Fixture, database: &str, table: &str) -> i64 {
    let ledgers = fs::read_dir(fixture.home.path().join("data/ledger")).unwrap();
    let path = ledgers.map(|entry| entry.unwrap().path().join(database)).find(|path| path.exists()).unwrap();
    let open = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    open.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn a_swap_on_paper_moves_positions_and_limits_is_kept_and_is_forgotten_on_reset() {
    let mut fixture = Fixture::new();
    fixture.under("require_human_approval_above_usd = \"500\"\nmax_daily_spend_usd = \"400\"\n");
    let before = chain(&fixture);
    let real = |symbol: &str| held(&fixture, symbol, &[]);
    let (usdc, link, coin) = (real("USDC"), real("LINK"), real("ETH"));
    assert_eq!(link, 0, "what is sold on paper below must be held there alone");

    let buy = json!({"token_in": "USDC", "token_out": "LINK", "amount": "150"});
    let (answer, exit) = fixture.swap(buy.clone(), &["--paper"]);
    assert_eq!((&answer["status"], exit), (&json!("simulated"), 0), "{answer}");
    assert_eq!(answer["decision_hints"]["paper"], true, "{answer}");
    assert!(answer["explanation"].as_str().unwrap().starts_with("PAPER, nothing was signed: "), "{answer}");
    assert_eq!(chain(&fixture), before, "paper mode moved the chain");

    // The next process sees the changed balances, on paper only.
    let on_paper = |symbol: &str| held(&fixture, symbol, &["--paper"]);
    assert_eq!(on_paper("USDC"), usdc - 150_000_000);
    let bought = on_paper("LINK") - link;
    // The quote less the call's slippage tolerance: half a percent of the output of 150 dollars.
    let quoted: f64 = answer["decision_hints"]["quoted_out"].as_str().unwrap().parse().unwrap();
    let whole = bought as f64 / 1e18;
    assert!((whole / quoted - 1.0).abs() < 0.01, "{whole} {quoted}");
    let gas = coin - on_paper("ETH");
    assert!(gas > 0 && gas < 10_u128.pow(16), "{gas}");
    assert_eq!((real("USDC"), real("LINK"), real("ETH")), (usdc, link, coin));

    // Paper limits are counted separately from real ones.
    let (spent, trades) = used(&fixture, &["--paper"]);
    assert!((150.0..200.0).contains(&spent) && trades == 1, "{spent} {trades}");
    assert_eq!(used(&fixture, &[]), (0.0, 0));
    assert_eq!(
        (rows(&fixture, "ledger.db", "ledger_reservation"), rows(&fixture, "ledger.db", "safety_permit")),
        (0, 0)
    );
    assert_eq!((rows(&fixture, "paper.db", "paper_action"), rows(&fixture, "paper.db", "sender_transaction")), (1, 0));

    // Tokens bought on paper can be sold there, to the last unit.
    let sell = json!({"token_in": "LINK", "token_out": "USDC", "amount": "max"});
    let (answer, _) = fixture.swap(sell, &["--paper"]);
    assert_eq!(answer["decision_hints"]["paper"], true, "{answer}");
    assert_eq!(on_paper("LINK"), 0);
    let left = on_paper("USDC");
    assert!(left < usdc && left > usdc - 3_000_000, "{left} {usdc}");

    // The paper limit is exhausted: the same trade is refused on paper, and would pass for real.
    let (answer, _) = fixture.swap(buy.clone(), &["--paper"]);
    assert_eq!(answer["decision_hints"]["paper"], true, "{answer}");
    let (answer, exit) = fixture.swap(buy.clone(), &["--paper"]);
    let error = &answer["error"];
    assert_eq!((&error["code"], exit), (&json!("SAFETY_SPENDING_LIMIT_EXCEEDED"), 3), "{answer}");
    assert!(error.to_string().contains("max_daily_spend_usd"), "{error}");
    assert_eq!(fixture.swap(buy.clone(), &["--dry-run"]).0["status"], "simulated");

    // An idempotency key covers one paper call, and is unused for a real one.
    let keyed = json!({"token_in": "USDC", "token_out": "LINK", "amount": "20"});
    let key = ["--paper", "--idempotency-key", "k"];
    let (first, again) = (fixture.swap(keyed.clone(), &key).0, fixture.swap(keyed.clone(), &key).0);
    assert_eq!((&first["status"], &first["data"]), (&json!("simulated"), &again["data"]), "{first} {again}");
    assert_eq!(rows(&fixture, "paper.db", "paper_action"), 4);
    assert_eq!(rows(&fixture, "ledger.db", "engine_idempotency"), 0);

    let (shown, err, code) = paper(&fixture, &["show"]);
    assert!(
        code == 0 && shown.starts_with("PAPER: none of this was signed\n") && shown.contains("LINK"),
        "{shown}{err}"
    );
    let (said, err, code) = paper(&fixture, &["reset"]);
    assert!(code == 0 && said.starts_with("4 paper actions discarded"), "{said}{err}");
    assert_eq!((on_paper("USDC"), on_paper("LINK"), on_paper("ETH")), (usdc, link, coin));
    assert_eq!(used(&fixture, &["--paper"]), (0.0, 0));
    assert_eq!(paper(&fixture, &["show"]).0, "PAPER: no balance has changed\n");
    assert_eq!(fixture.swap(keyed, &key).0["status"], "simulated");
    assert_eq!(rows(&fixture, "paper.db", "paper_action"), 1, "the key was forgotten too");
    assert_eq!(chain(&fixture), before);
}

/// Supplies and debts are not kept on paper, so that an action there would be lost: it is refused as such.
#[test]
fn lending_is_refused_on_paper_and_says_why() {
    let fixture = Fixture::new();
    let before = chain(&fixture);
    for tool in ["lending_supply", "lending_withdraw", "lending_borrow", "lending_repay"] {
        let params = json!({"token": "USDC", "amount": "50", "chain": "ethereum"});
        let (answer, exit) = fixture.call(tool, &params, &["--paper"]);
        assert_ne!(exit, 0, "{tool}: {answer}");
        assert!(answer.to_string().contains("the lending market is not kept in paper mode"), "{tool}: {answer}");
    }
    assert_eq!(chain(&fixture), before);
}

/// Nor is a bridge's deposit, which nobody would fill.
#[test]
fn a_bridge_deposit_is_refused_on_paper_and_says_why() {
    let fixture = Fixture::new();
    let before = chain(&fixture);
    let base = format!("base={}", fixture.devnet.url(1));
    let params = json!({"token_in": "USDC", "amount": "500", "source_chain": "ethereum", "destination_chain": "base"});
    let (answer, exit) = fixture.call("across_deposit", &params, &["--paper", "--rpc", &base]);
    assert_ne!(exit, 0, "{answer}");
    assert!(answer.to_string().contains("cannot be made in paper mode"), "{answer}");
    assert_eq!(chain(&fixture), before);
}

/// Nor are shares of vaults.
#[test]
fn vaults_are_refused_on_paper_and_say_why() {
    let fixture = Fixture::new();
    let before = chain(&fixture);
    for (tool, field) in [("vault_deposit", "amount"), ("vault_withdraw", "shares")] {
        let (answer, exit) = fixture.call(tool, &json!({field: "50", "chain": "ethereum"}), &["--paper"]);
        assert_ne!(exit, 0, "{tool}: {answer}");
        assert!(answer.to_string().contains("vaults are not kept in paper mode"), "{tool}: {answer}");
    }
    assert_eq!(chain(&fixture), before);
}

#[test]
fn above_the_approval_limit_paper_mode_asks_and_signs_nothing() {
    let mut fixture = Fixture::new();
    fixture.under("require_human_approval_above_usd = \"50\"\n");
    let before = chain(&fixture);
    let buy = json!({"token_in": "USDC", "token_out": "LINK", "amount": "150"});
    let (answer, exit) = fixture.swap(buy.clone(), &["--paper"]);
    assert_eq!((&answer["error"]["code"], exit), (&json!("APPROVAL_REQUIRED"), 3), "{answer}");
    assert_eq!(rows(&fixture, "paper.db", "paper_action"), 0);

    let params = swap(buy).to_string();
    let arguments =
        ["call", "uniswap_execute_swap", &params, "--approve", "ask", "--paper", "--json", "--rpc", &fixture.given];
    let (shown, code) = fixture.at_a_terminal("", &arguments, "Type yes", Some("no\r"), || {});
    assert!(shown.contains("PAPER") && shown.contains("APPROVAL_REFUSED"), "{shown}");
    assert_ne!(code, 0);
    assert_eq!(rows(&fixture, "paper.db", "paper_action"), 0);

    let (shown, code) = fixture.at_a_terminal("", &arguments, "Type yes", Some("yes\r"), || {});
    assert!(code == 0 && shown.contains("PAPER") && shown.contains("\"paper\": true"), "{code} {shown}");
    assert_eq!(rows(&fixture, "paper.db", "paper_action"), 1);
    assert_eq!(rows(&fixture, "ledger.db", "ledger_reservation"), 0);
    // Approval requests are in the real ledger's audit log, and each entry is marked as paper.
    let asked = "audit_entry WHERE kind IN ('approval:requested', 'approval:resolved')";
    let on_paper = format!("{asked} AND body LIKE '%\"paper\":true%'");
    assert_eq!((rows(&fixture, "ledger.db", asked), rows(&fixture, "ledger.db", &on_paper)), (4, 4));
    assert_eq!(chain(&fixture), before);
}

/// A headless run and the only command that repairs the remains of real runs respect paper mode, too.
#[test]
fn no_command_signs_where_paper_was_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let show = home.path().join("show.toml");
    let text = r#"
name = "small-swap"
about = "One swap that nobody is asked about."
operator = "wait"

[[beat]]
at = 0
now = "Selling 0.01 WETH."
do = "act"
params = { kind = "swap", why = "a small one", params = { token_in = "WETH", token_out = "USDC", amount = "0.01", chain = "ethereum", slippage_bps = 100, prefer_uniswapx = false } }
expect = ["success", "simulated"]
"#;
    fs::write(&show, text).unwrap();
    let play = |more: &[&str]| {
        let (out, err, code) =
            run(bardo(home.path()).args(["golem", "run", "--headless", "--scenario"]).arg(&show).args(more));
        assert_eq!(code, 0, "{out}{err}");
        let count = |kind: &str| out.lines().filter(|line| line.contains(kind)).count();
        (count("permit:issued"), count("tx:update"))
    };
    let (permits, signed) = play(&[]);
    assert!(permits > 0 && signed > 0, "in earnest it is signed: {permits} {signed}");
    let (permits, signed) = play(&["--paper"]);
    assert!(permits > 0 && signed == 0, "{permits} {signed}");

    let (out, err, code) = run(bardo(home.path()).args(["reconcile", "--paper"]));
    assert!(code == 2 && out.is_empty() && err.contains("remove --paper"), "{out}{err}");
}

/// The stop-loss of a chain does not take money that a paper bridge order carried to another chain for a loss.
#[test]
fn a_bridge_order_on_paper_moves_the_high_water_mark_with_the_money() {
    let fixture = Fixture::new();
    let base = format!("base={}", fixture.devnet.url(1));
    let flags = ["--paper", "--rpc", base.as_str()];
    let mark = || {
        let (answer, _) = fixture.call("check_safety_status", &json!({"chain": "ethereum"}), &flags);
        let mark = answer["data"]["stop_loss"]["high_water_usd"].as_str().unwrap_or_else(|| panic!("{answer}"));
        mark.parse::<f64>().unwrap()
    };
    let swap = json!({"token_in": "USDC", "token_out": "WETH", "amount": "5", "chain": "ethereum"});
    let (answer, _) = fixture.call("uniswap_execute_swap", &swap, &flags);
    assert_eq!(answer["decision_hints"]["paper"], true, "{answer}");
    let before = mark();
    let bridge = json!({"token_in": "USDC", "token_out": "USDC", "amount": "1000",
                        "source_chain": "ethereum", "destination_chain": "base"});
    let (answer, _) =
        fixture.call("uniswap_submit_cross_chain_intent", &bridge, &["--approve", "always", "--paper", "--rpc", &base]);
    assert_eq!(answer["decision_hints"]["paper"], true, "{answer}");
    let moved = before - mark();
    assert!((990.0..1_010.0).contains(&moved), "{before} {moved}");
}

/// Answer of a price feed of the devnet, in dollars. `latestRoundData()` of Chainlink's aggregators returns it as the
/// second word, with eight decimals.
fn feed(fixture: &Fixture, pair: &str) -> f64 {
    let address = &fixture.devnet.described["chains"][0]["feeds"][pair]["address"];
    let words = fixture.ask("eth_call", json!([{"to": address, "data": "0xfeaf968c"}, "latest"]));
    let words = words.as_str().unwrap_or_else(|| panic!("{pair}: {address}")).trim_start_matches("0x");
    u128::from_str_radix(&words[64..128], 16).unwrap() as f64 / 1e8
}

/// Profit and loss of paper trades by hand: what came in, at the feeds' prices of that moment, less what it cost.
#[test]
fn profit_and_loss_on_paper_is_that_of_the_trades() {
    let fixture = Fixture::new();
    // No block is made unless it is asked for, so a price is the same before and after a call.
    fixture.ask("evm_setAutomine", json!([false]));
    let report = || {
        let (out, err, code) =
            run(bardo(fixture.home.path()).args(["pnl", "--paper", "--json", "--rpc", &fixture.given]));
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let figure = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).parse::<f64>().unwrap();
    let near = |value: &Value, by_hand: f64| {
        assert!((figure(value) - by_hand).abs() < 0.000_01, "{value} is not {by_hand}\n{:#}", report());
    };
    let prices = || ["LINK / USD", "USDC / USD", "ETH / USD"].map(|pair| feed(&fixture, pair));
    let eth = || held(&fixture, "ETH", &["--paper"]);
    let trade = |changed: Value| {
        let before = eth();
        let (answer, _) = fixture.swap(changed, &["--paper", "--approve", "always"]);
        assert_eq!(answer["decision_hints"]["paper"], true, "{answer}");
        // Amount received, and gas in ether.
        (figure(&answer["data"]["amount_out"]), (before - eth()) as f64 / 1e18)
    };

    // 150 USDC buy LINK, which costs what the dollars are worth. It is worth less at once, by fee and spread.
    let [link, usdc, ether] = prices();
    let (bought, gas) = trade(json!({"token_in": "USDC", "token_out": "LINK", "amount": "150"}));
    let (cost, spread) = (150.0 * usdc, bought * link - 150.0 * usdc);
    assert!(spread < 0.0 && spread > -2.0, "{spread}");
    let books = report();
    near(&books["totals"]["realised"], 0.0);
    near(&books["totals"]["gas"], gas * ether);
    near(&books["net"], -gas * ether);
    let [holding] = books["holdings"].as_array().unwrap().as_slice() else { panic!("{books:#}") };
    assert_eq!(holding["symbol"], "LINK");
    near(&holding["cost_usd"], cost);
    near(&holding["unrealised_usd"], spread);
    let (spent, _) = used(&fixture, &["--paper"]);
    assert!((spent - 150.0 * usdc - gas * ether).abs() < 0.05, "{spent}");

    // The market moves for an hour, and a part is sold at the new price.
    for _ in 0..30 {
        fixture.ask("evm_increaseTime", json!([120]));
        fixture.ask("evm_mine", json!([]));
    }
    let [later, _, ether_later] = prices();
    assert!((later - link).abs() > 0.001, "the price has moved");
    let usdc_later = prices()[1];
    let (received, gas_later) = trade(json!({"token_in": "LINK", "token_out": "USDC", "amount": "3"}));
    let books = report();
    near(&books["totals"]["realised"], received * usdc_later - cost * 3.0 / bought);
    // The chain's clock is an hour ahead of the action's, so either price is the nearest one.
    let second = figure(&books["totals"]["gas"]) - gas * ether;
    let (low, high) = (ether.min(ether_later), ether.max(ether_later));
    assert!((gas_later * low - 0.000_01..=gas_later * high + 0.000_01).contains(&second), "{second}");
    assert_eq!((&books["totals"]["trades"], &books["totals"]["incomplete"]), (&json!(2), &json!(0)), "{books:#}");
    let of = |symbol: &str| {
        let holdings = books["holdings"].as_array().unwrap();
        holdings.iter().find(|one| one["symbol"] == symbol).unwrap_or_else(|| panic!("{books:#}")).clone()
    };
    near(&of("USDC")["cost_usd"], received * usdc_later);
    let holding = of("LINK");
    let rest = cost * (bought - 3.0) / bought;
    near(&holding["cost_usd"], rest);
    near(&holding["unrealised_usd"], (bought - 3.0) * later - rest);
    near(&books["unrealised"], (bought - 3.0) * later - rest);
    // A fair sale into dollars counts its possible loss and its gas only.
    let (both, trades) = used(&fixture, &["--paper"]);
    assert!(both > spent && both < spent + 3.0 && trades == 2, "{spent} {both}");

    // Nothing is left of it after a reset.
    assert_eq!(paper(&fixture, &["reset"]).2, 0);
    let books = report();
    assert_eq!((&books["holdings"], &books["totals"]["trades"]), (&json!([]), &json!(0)), "{books:#}");
    assert_eq!(used(&fixture, &["--paper"]).0, 0.0);
}
