//! Status of an order through the binary when its input tokens leave and return, by transactions outside of Bardo.

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{bardo, run};

/// Maximum input of the order, in raw units: 100 USDC.
const TAKEN: u64 = 100_000_000;

fn word(address: &str) -> String {
    format!("{:0>64}", address.trim_start_matches("0x"))
}

impl Fixture {
    /// A transaction of the account outside of Bardo, in its own block.
    fn outside(&self, from: &str, to: &str, data: &str) {
        self.ask("anvil_impersonateAccount", json!([from]));
        let sent = self.ask("eth_sendTransaction", json!([{ "from": from, "to": to, "data": data }]));
        self.ask("evm_mine", json!([]));
        assert_eq!(self.ask("eth_getTransactionReceipt", json!([sent]))["status"], "0x1");
    }

    fn status_of(&self, hash: &Value) -> String {
        let (answer, exit) = self.call("uniswap_get_uniswapx_order_status", &json!({"order_hash": hash}), &[]);
        assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{answer}");
        answer["data"]["status"].as_str().unwrap().to_owned()
    }
}

/// A call of `wallet_fund` on the devnet of the process.
fn fund(home: &std::path::Path, params: &Value) -> (Value, i32) {
    let params = params.to_string();
    let (out, err, code) = run(bardo(home).args(["call", "wallet_fund", &params]));
    (serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")), code)
}

#[test]
fn the_faucet_funds_a_wallet_of_the_built_in_devnet_and_no_other() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let held = |token: &str| -> String {
        let params = json!({"chain": "ethereum", "tokens": [token]}).to_string();
        let (out, err, code) = run(bardo(home).args(["call", "get_balances", &params]));
        assert_eq!(code, 0, "{err}");
        let answer: Value = serde_json::from_str(&out).unwrap();
        let found =
            answer["data"]["chains"][0]["balances"].as_array().unwrap().iter().find(|one| one["token"] == token);
        found.unwrap_or_else(|| panic!("{answer}"))["amount"].as_str().unwrap().to_owned()
    };
    let before: u64 = held("USDC").parse().unwrap();
    let (given, code) = fund(home, &json!({"source": "faucet", "token": "USDC", "amount": "1234", "chain_id": 31_337}));
    assert_eq!((&given["status"], code), (&json!("success"), 0), "{given}");
    assert_eq!((&given["data"]["amount_funded"], &given["data"]["token"]), (&json!("1234"), &json!("USDC")));
    // Every call begins with the same devnet.
    let (least, most) = (before.to_string(), (before + 1_234).to_string());
    assert_eq!((&given["data"]["balance_before"], &given["data"]["balance_after"]), (&json!(least), &json!(most)));
    assert!(given["explanation"].as_str().unwrap().contains("end with the call"), "{given}");
    // Without a token it is gas money.
    let before = held("ETH");
    let (given, _) = fund(home, &json!({"source": "faucet"}));
    let data = &given["data"];
    assert_eq!((&data["amount_funded"], &data["token"]), (&json!("0.1"), &json!("ETH")), "{given}");
    assert_eq!(data["balance_before"], json!(before), "{given}");
    // A tenth of an ether is 10^17 wei.
    let wei = |amount: &str| {
        let (whole, rest) = amount.split_once('.').unwrap_or((amount, ""));
        format!("{whole}{rest:0<18}").parse::<u128>().unwrap()
    };
    assert_eq!(wei(data["balance_after"].as_str().unwrap()), wei(&before) + 10_u128.pow(17), "{given}");

    for (params, code, why) in [
        (json!({"source": "faucet", "token": "USDC", "amount": "10001"}), "VALIDATION_FAILED", "above the faucet's"),
        (json!({"source": "faucet", "token": "USDC", "amount": "0"}), "VALIDATION_FAILED", "zero"),
        (json!({"source": "faucet", "token": "USDC"}), "VALIDATION_FAILED", "an amount of this token"),
        (json!({"source": "bridge"}), "VALIDATION_FAILED", "uniswap_submit_cross_chain_intent"),
        (json!({"source": "transfer"}), "VALIDATION_FAILED", "send to 0x"),
    ] {
        let (refused, _) = fund(home, &params);
        assert_eq!(refused["error"]["code"], code, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(why), "{refused}");
    }
    // Under a stop and in paper mode nothing real changes.
    let params = json!({"source": "faucet"}).to_string();
    let (out, _, _) = run(bardo(home).args(["--paper", "call", "wallet_fund", &params]));
    assert!(out.contains("SAFETY_NOT_ALLOWED") && out.contains("paper mode"), "{out}");
    let (_, err, code) = run(bardo(home).args(["halt"]));
    assert_eq!(code, 0, "{err}");
    let (refused, code) = fund(home, &json!({"source": "faucet"}));
    assert_eq!((&refused["error"]["code"], &refused["status"], code), (&json!("HALTED"), &json!("blocked"), 3));

    // A devnet elsewhere is reached by its RPC, which has no faucet.
    let fixture = Fixture::new();
    let (refused, _) = fixture.call("wallet_fund", &json!({"source": "faucet"}), &[]);
    assert_eq!(refused["error"]["code"], "CHAIN_UNSUPPORTED", "{refused}");
}

#[test]
fn an_order_without_funds_is_reported_until_they_are_back() {
    let fixture = Fixture::new();
    // The allowance comes first, so that the order is a signature without a block, and no block is made until
    // requested. No filler holds the token in the first block after an order, so none fills it here.
    let allow = json!({"token": "USDC", "amount": "100", "chain": "ethereum"});
    let allowed = fixture.call("token_approve", &allow, &["--approve", "always"]);
    assert_eq!(allowed.1, 0, "{}", allowed.0);
    fixture.ask("evm_setAutomine", json!([false]));
    let order = json!({"token_in": "USDC", "token_out": "WETH", "amount": "100", "chain": "ethereum",
                       "decay_end_time": 3_000});
    let (placed, _) = fixture.call("uniswap_submit_uniswapx_order", &order, &["--approve", "always"]);
    assert_eq!(placed["status"], "partial", "{placed}");
    let hash = placed["data"]["order_hash"].clone();
    assert_eq!(fixture.status_of(&hash), "open");

    let (usdc, permit2) = (fixture.token("USDC").to_owned(), fixture.contract("permit2").to_owned());
    let account = fixture.account().to_owned();
    // approve(permit2, amount)
    let approve = |amount: u64| format!("0x095ea7b3{}{amount:064x}", word(&permit2));
    fixture.outside(&account, &usdc, &approve(TAKEN - 1));
    assert_eq!(fixture.status_of(&hash), "insufficient_funds");
    fixture.outside(&account, &usdc, &approve(TAKEN));
    assert_eq!(fixture.status_of(&hash), "open");
}

/// A process that runs for one call does not track orders: the end of an expired one is read when it matters.
#[test]
fn an_expired_order_blocks_no_trade() {
    let fixture = Fixture::new();
    let allow = json!({"token": "USDC", "amount": "100", "chain": "ethereum"});
    let allowed = fixture.call("token_approve", &allow, &["--approve", "always"]);
    assert_eq!(allowed.1, 0, "{}", allowed.0);
    // Without blocks nobody can fill it.
    fixture.ask("evm_setAutomine", json!([false]));
    let order = json!({"token_in": "USDC", "token_out": "WETH", "amount": "100", "chain": "ethereum",
                       "decay_end_time": 40});
    let (placed, _) = fixture.call("uniswap_submit_uniswapx_order", &order, &["--approve", "always"]);
    assert_eq!(placed["status"], "partial", "{placed}");

    // While it can be filled, a trade of the pair reports the order and how long it can last.
    let swap =
        || fixture.swap(json!({"token_in": "USDC", "token_out": "WETH", "amount": "50"}), &["--approve", "always"]);
    let early = swap();
    crate::writes::expect(&early, "ORDER_STILL_OPEN", "it is open");
    let details = &early.0["error"]["details"];
    assert_eq!(details["order_hash"], placed["data"]["order_hash"]);
    let wait = details["retry_after_seconds"].as_u64().unwrap();
    assert!((1..=600).contains(&wait), "{early:?}");

    // Its deadline is in the chain's time.
    fixture.ask("evm_increaseTime", json!([wait + 2]));
    fixture.ask("evm_setAutomine", json!([true]));
    for _ in 0..3 {
        fixture.ask("evm_mine", json!([]));
    }
    // No status was requested meanwhile.
    let (late, exit) = swap();
    assert_eq!((&late["status"], exit), (&json!("success"), 0), "{late}");
}

/// The same for a bridge order that nobody locked: what it reserved of the day's limit is free once nobody can lock it.
#[test]
fn an_expired_bridge_order_holds_nothing_back() {
    let mut fixture = Fixture::new();
    fixture.under("max_daily_spend_usd = \"800\"\n");
    let base = format!("base={}", fixture.devnet.url(1));
    let flags = ["--approve", "always", "--rpc", base.as_str()];
    let allow = json!({"token": "USDC", "amount": "300", "chain": "ethereum"});
    let allowed = fixture.call("token_approve", &allow, &["--approve", "always"]);
    assert_eq!(allowed.1, 0, "{}", allowed.0);
    // Without blocks nobody can lock it.
    fixture.ask("evm_setAutomine", json!([false]));
    let bridge = json!({"token_in": "USDC", "token_out": "USDC", "amount": "300", "deadline": 600,
                        "source_chain": "ethereum", "destination_chain": "base"});
    let (placed, _) = fixture.call("uniswap_submit_cross_chain_intent", &bridge, &flags);
    assert_eq!(placed["status"], "partial", "{placed}");

    // While it can be locked, its 300 dollars count beside those of the allowance: 900 of 800 would be spent.
    let swap = || fixture.swap(json!({"token_in": "USDC", "token_out": "WETH", "amount": "300"}), &flags);
    let early = swap();
    let rules = crate::writes::expect(&early, "SAFETY_SPENDING_LIMIT_EXCEEDED", "it is open");
    assert_eq!(rules, ["max_daily_spend_usd"], "{}", early.0);

    // It can be locked in the first half of its time, in the chain's time.
    fixture.ask("evm_increaseTime", json!([302]));
    fixture.ask("evm_setAutomine", json!([true]));
    for _ in 0..3 {
        fixture.ask("evm_mine", json!([]));
    }
    // No status was requested meanwhile.
    let (late, exit) = swap();
    assert_eq!((&late["status"], exit), (&json!("success"), 0), "{late}");
}

#[test]
fn an_unlimited_allowance_needs_the_second_operator_whatever_the_account_holds() {
    let mut fixture = Fixture::new();
    fixture.under(
        "allow_unlimited_allowance = true\n[second_approval]\nabove_usd = \"1000000\"\n\
         approvers = [\"0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf\"]\n",
    );
    // The account holds none of it.
    let approve = |amount: &str| {
        let params = json!({"token": "UNI", "amount": amount, "chain": "ethereum"});
        fixture.call("token_approve", &params, &["--approve", "never"])
    };
    let (answer, exit) = approve("10");
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{answer}");
    let (answer, exit) = approve("unlimited");
    assert_eq!((&answer["error"]["code"], exit), (&json!("APPROVAL_REQUIRED"), 3), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("second"), "{answer}");
}

#[test]
fn an_action_on_paper_needs_the_second_operator_as_a_real_one_does() {
    let mut fixture = Fixture::new();
    fixture.under(
        "[second_approval]\nabove_usd = \"100\"\napprovers = [\"0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf\"]\n",
    );
    for how in [&["--paper", "--approve", "never"], &["--approve", "never"][..]] {
        let buy = |amount: &str| {
            let params = json!({"token_in": "USDC", "token_out": "LINK", "amount": amount});
            fixture.swap(params, how)
        };
        let (answer, exit) = buy("90");
        assert_eq!(exit, 0, "{how:?} {answer}");
        let (answer, exit) = buy("110");
        assert_eq!((&answer["error"]["code"], exit), (&json!("APPROVAL_REQUIRED"), 3), "{how:?} {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("second"), "{answer}");
    }
}
