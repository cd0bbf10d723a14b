//! Figures of a refused write through the binary: for each rule its limit, the violating value and a passing value,
//! computed here from the chain and by arithmetic. `writes` has the codes.

use alloy::primitives::Address;
use serde_json::{Value, json};

use crate::fixture::{Answer, Fixture};
use crate::writes::expect;
use crate::{bardo, run};

/// Checks an answer's code, and returns every violated rule as `rule | limit | value | what would pass`.
pub fn told(answer: &Answer, code: &str) -> Vec<String> {
    expect(answer, code, &answer.0.to_string());
    let violations = answer.0["error"]["details"]["violations"].as_array().cloned().unwrap_or_default();
    let field = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    let words = |one: &Value| ["rule", "limit", "value", "would_pass"].map(|name| field(one, name)).join(" | ");
    violations.iter().map(words).collect()
}

/// A dollar amount as displayed, in millionths.
fn micros(dollars: &str) -> u128 {
    let plain = dollars.trim_start_matches('$').replace(',', "");
    let (whole, rest) = plain.split_once('.').unwrap_or((&plain, ""));
    format!("{whole}{rest:0<6}").parse().unwrap_or_else(|_| panic!("{dollars}"))
}

/// Text between the braces of a pattern such as `a {} b`.
fn between<'a>(text: &'a str, (before, after): (&str, &str)) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{before:?} in {text}")).1;
    if after.is_empty() { rest } else { rest.split_once(after).unwrap_or_else(|| panic!("{after:?} in {text}")).0 }
}

impl Fixture {
    /// Feed price of the native token, in hundred-millionths of a dollar.
    fn price(&self) -> u128 {
        let feed = &self.devnet.described["chains"][0]["feeds"]["ETH / USD"]["address"];
        // latestRoundData(): the second of five words.
        let told = self.ask("eth_call", json!([{"to": feed, "data": "0xfeaf968c"}, "latest"]));
        u128::from_str_radix(&told.as_str().unwrap()[2 + 64..2 + 128], 16).unwrap()
    }

    fn at(&self, symbol: &str) -> Address {
        self.token(symbol).parse().unwrap()
    }
}

#[test]
fn violations_of_a_swap_are_reported_with_their_figures() {
    let mut fixture = Fixture::new();
    // Amount that a purchase counts for: the dollars given, and its maximum gas at the highest price.
    fixture.under("");
    let bought = || json!({"token_in": "USDC", "token_out": "WETH", "amount": "34"});
    let (rehearsed, _) = fixture.swap(bought(), &["--dry-run"]);
    let gas = &rehearsed["decision_hints"]["permit"]["bounds"]["gas_at_most_wei"];
    let wei = gas.as_str().unwrap().parse::<u128>().unwrap();
    let least = 34_000_000 + wei * fixture.price() / 10_u128.pow(18 + 8 - 6);
    fixture.under("max_single_trade_usd = \"20\"\n");
    let rules = told(&fixture.swap(bought(), &[]), "SAFETY_SPENDING_LIMIT_EXCEEDED");
    let value = between(&rules[0], ("in one action | ", " | "));
    let (besides, gas) = (between(&rules[0], ("at most ", " besides")), between(&rules[0], ("gas of at most ", "")));
    let passes = format!("at most {besides} besides gas of at most {gas}");
    assert_eq!(rules, [format!("max_single_trade_usd | $20.00 in one action | {value} | {passes}")]);
    // Without its gas: what is left of the limit for the amount itself.
    assert_eq!(micros(besides) + micros(gas), 20_000_000, "{passes}");
    // The pools' mean may be above the feed, by at most the market's movement.
    // It is rounded to the nearest cent.
    let about = least - 10_000..=least * 102 / 100;
    assert!(about.contains(&micros(value)), "{value} is not about {least} millionths");

    fixture.under(&format!("allowed_tokens = [\"31337:{}\", \"31337:native\"]\n", fixture.token("USDC")));
    assert_eq!(
        told(&fixture.swap(json!({"token_out": "UNI"}), &[]), "SAFETY_TOKEN_NOT_ALLOWED"),
        [format!(
            "allowed_tokens | devnet-ethereum:native, devnet-ethereum:{} | devnet-ethereum:{} (calls itself UNI) | an \
             allowed token",
            fixture.at("USDC"),
            fixture.at("UNI")
        )]
    );
    fixture.under("allowed_tools = [\"token_revoke\"]\n");
    assert_eq!(
        told(&fixture.swap(json!({}), &[]), "SAFETY_NOT_ALLOWED"),
        ["allowed_tools | token_revoke | uniswap_execute_swap | an allowed tool"]
    );
    // At 300 basis points of slippage the worst case is a loss of the same size, which has its own rule.
    fixture.under("max_slippage_bps = 100\nmax_loss_bps = 1000\n");
    assert_eq!(
        told(&fixture.swap(json!({"slippage_bps": 300}), &[]), "SAFETY_SLIPPAGE"),
        ["max_slippage_bps | at most 100 bps | 300 bps | 100 bps or less"]
    );
    // The account has no UNI yet: a new position.
    assert_eq!(
        told(&fixture.swap(json!({"token_out": "UNI"}), &["--phase", "defensive"]), "SAFETY_PHASE_BLOCKED"),
        [
            "phase Defensive | rebalance, decrease-position, close-position, read-only | new-position | an action of one \
             of these classes, or the same in a better phase",
            "phases.defensive.exit_only | exits only: to an exit asset, to the wallet itself, at a fair price, leaving \
             no allowance | new-position | a sale of holdings for a stablecoin or the native token",
        ]
    );
    // The account holds none and would sell three. The failed sale has no inflow, which is not a violation of its own.
    assert_eq!(
        told(&fixture.swap(json!({"token_in": "UNI", "amount": "3"}), &[]), "SAFETY_SIMULATION_FAILED"),
        ["simulation | every transaction succeeds | transaction 2 reverts: the token could not be taken: balance or \
          allowance too low, or the token refuses; by the contract: TRANSFER_FROM_FAILED | an amount within balance \
          and allowance, of a transferable token"]
    );
    let mute: Address = fixture.contract("badNoReturnToken").parse().unwrap();
    fixture.under(&format!("allowed_tokens = [\"31337:{mute}\", \"31337:native\"]\n"));
    let priceless = json!({"token": mute.to_string(), "amount": "5", "chain": "ethereum"});
    let untold = format!("{mute}: it has no price feed, and no sufficiently deep and traded pool");
    assert_eq!(
        told(&fixture.call("token_approve", &priceless, &[]), "SAFETY_PRICE_UNKNOWN"),
        [
            format!(
                "price | every value must be known to check a limit | {untold} | the same when every price is known"
            ),
            format!(
                "stop_loss_pct | the account's value must be known | {untold} | the same when it is known, or an exit \
                 now"
            ),
        ]
    );
    fixture.under("");
    assert_eq!(run(bardo(fixture.home.path()).args(["halt", "--reason", "a test"])).2, 0);
    let stopped = "only revocations, cancellations and refunds are signed";
    let rules = told(&fixture.swap(json!({}), &[]), "HALTED");
    assert_eq!(
        rules,
        [format!(
            "stop | halt: {stopped} | decrease-position, an exit | revocations, cancellations and refunds; everything else \
             after the operator resumes"
        )]
    );
    assert_eq!(fixture.nonce("pending"), 0);
}

#[test]
fn limits_across_calls_are_reported_with_the_rest() {
    let mut fixture = Fixture::new();
    fixture.under("max_trades_per_hour = 1\n");
    let bought = || json!({"token_in": "USDC", "token_out": "WETH", "amount": "34"});
    assert_eq!(fixture.swap(json!({}), &[]).1, 0);
    let rules = told(&fixture.swap(bought(), &[]), "SAFETY_RATE_LIMITED");
    let wait = between(&rules[0], ("the next one in ", ", or an exit now"));
    assert_eq!(
        rules,
        [format!("max_trades_per_hour | 1 in any 60 minutes | 1 were made | the next one in {wait}, or an exit now")]
    );
    // It leaves the window an hour after it was made, which was a moment ago.
    assert!(wait == "1 h" || wait.starts_with("59 min"), "{wait}");

    fixture.under("max_daily_spend_usd = \"60\"\n");
    let (done, exit) = fixture.swap(bought(), &[]);
    assert_eq!(exit, 0, "{done}");
    let rules = told(&fixture.swap(bought(), &[]), "SAFETY_SPENDING_LIMIT_EXCEEDED");
    let (now, before) = (
        between(&rules[0], ("in any 24 hours | ", " on top of ")),
        between(&rules[0], (" on top of ", " already spent or reserved")),
    );
    let besides = between(&rules[0], ("at most ", " now besides"));
    let gas = between(&rules[0], ("besides gas of at most ", "; "));
    let frees = rules[0].split("starts to free up in ").nth(1).unwrap().to_owned();
    assert_eq!(
        rules,
        [format!(
            "max_daily_spend_usd | $60.00 in any 24 hours | {now} on top of {before} already spent or reserved | at \
             most {besides} now besides gas of at most {gas}; the window starts to free up in {frees}"
        )]
    );
    assert!(frees == "1 day" || frees.starts_with("23 h"), "{frees}");
    // What is left is for the amount and its gas; each figure is rounded to a cent.
    let left = micros(besides) + micros(gas);
    assert!((micros(before) + left).abs_diff(60_000_000) <= 20_000, "{before} {besides} {gas}");
    assert!(micros(now) > left);
    // At least the dollars given and the gas burnt were spent; nothing is reserved any more.
    let one = 34_000_000;
    assert!((one * 99 / 100..one * 120 / 100).contains(&micros(before)), "{before} is not about {one} millionths");

    fixture.under("stop_loss_pct = \"10\"\n");
    assert_eq!(fixture.swap(json!({}), &[]).1, 0);
    // 1.4 native tokens at the start, and a tenth of one remains.
    fixture.ask("anvil_setBalance", json!([fixture.account(), "0x16345785d8a0000"]));
    let rules = told(
        &fixture.swap(json!({"token_in": "USDC", "token_out": "UNI", "amount": "50"}), &[]),
        "SAFETY_BALANCE_BREAKER",
    );
    let highest = between(&rules[0], ("10 % below the highest, ", ": stops at "));
    let floor = between(&rules[0], (": stops at ", " | "));
    let now = between(&rules[0], (&format!("stops at {floor} | "), " | "));
    assert_eq!(
        rules,
        [format!(
            "stop_loss_pct | 10 % below the highest, {highest}: stops at {floor} | {now} | exits, until the portfolio has \
             recovered or the operator sets a new mark"
        )]
    );
    // The demo wallet: 5.9 native and wrapped tokens, 5,000 dollars, less the cost of the swaps above. 5.9 at a price
    // with eight decimals are 59 tenths, in millionths a thousandth of it.
    let held = 59 * fixture.price() / 1_000 + 5_000_000_000;
    assert!(
        (held * 98 / 100..=held * 102 / 100).contains(&micros(highest)),
        "{highest} is not about {held} millionths"
    );
    let tenth = micros(highest) * 9 / 10;
    assert!(micros(floor).abs_diff(tenth) <= 10_000, "{floor} is not nine tenths of {highest}");
    let gone = 13 * fixture.price() / 1_000;
    assert!(
        micros(now).abs_diff(micros(highest) - gone) <= held / 50,
        "{now} is not {highest} less 1.3 coins at {}",
        fixture.price()
    );
}

#[test]
fn reasons_for_an_approval_are_reported() {
    let mut fixture = Fixture::new();
    fixture.under("require_human_approval_above_usd = \"10\"\n");
    let answer = fixture.swap(json!({}), &[]);
    assert_eq!(told(&answer, "APPROVAL_REQUIRED"), [""; 0], "no rule stands against it");
    let error = &answer.0["error"];
    let permit = &error["details"]["permit"];
    // A hundredth of a native token plus its maximum gas, as the preview itself shows them.
    let wei = permit["bounds"]["gas_at_most_wei"].as_str().unwrap().parse::<u128>().unwrap() + 10_u128.pow(16);
    let least = wei * fixture.price() / 10_u128.pow(18 + 8 - 6);
    let message = error["message"].as_str().unwrap();
    let value = between(message, ("the operator's approval: ", " is above"));
    // It is rounded to the nearest cent.
    let about = least - 10_000..=least * 102 / 100;
    assert!(about.contains(&micros(value)), "{value} is not about {least} millionths");
    let why = format!("{value} is above $10.00 (require_human_approval_above_usd)");
    assert_eq!(message, format!("it needs the operator's approval: {why}"));
    let reasons = permit["reasons"].as_array().unwrap();
    assert_eq!((reasons.len(), &reasons[0]["words"]), (1, &json!(why)));
    assert_eq!((&reasons[0]["kind"], &reasons[0]["limit"]), (&json!("above_limit"), &json!("10")));
}

#[test]
fn a_missing_key_is_reported_with_the_existing_ones() {
    let fixture = Fixture::new();
    let answer = fixture.swap(json!({}), &["--key", "trading"]);
    assert_eq!(told(&answer, "WALLET_NOT_CONFIGURED"), [""; 0]);
    assert_eq!(
        answer.0["error"]["message"],
        "--key trading: keys sign on real networks only, never on a devnet. Omit the option, or name an account of the \
         development mnemonic, such as development:1"
    );
    assert_eq!(fixture.nonce("pending"), 0);
}

/// A bridge order's filler pays for gas, so a cent is not worth filling.
#[test]
fn the_error_of_a_bridge_without_bids_names_both_ends() {
    let fixture = Fixture::new();
    let bridge = json!({"token_in": "USDC", "token_out": "USDC", "amount": "0.01",
                        "source_chain": "ethereum", "destination_chain": "base"});
    let base = format!("base={}", fixture.devnet.url(1));
    let answer = fixture.call("uniswap_submit_cross_chain_intent", &bridge, &["--rpc", &base]);
    assert_eq!(told(&answer, "ROUTING_INSUFFICIENT_LIQUIDITY"), [""; 0]);
    let error = &answer.0["error"];
    assert_eq!(error["message"], "no filler bids for 0.01 USDC on ethereum (31337) against USDC on base (31338)");
    assert_eq!(
        error["suggestion"],
        "Try another amount: fillers skip amounts below their gas cost and above their balance."
    );
    assert_eq!(fixture.nonce("pending"), 0);
}
