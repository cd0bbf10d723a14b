//! Trades of non-standard tokens that the policy allows and that have a price: each is blocked by its own fault and not
//! by a list, and successful trades are checked by balances.
//!
//! | token | bought | sold |
//! |---|---|---|
//! | fee of one percent on transfers | refused if less than the minimum arrives; with enough slippage, the amount that arrived | the same |
//! | returns no bool | passes | passes |
//! | has a hostile symbol | refused by its name, which is shown cleaned | the same |
//! | reverts | refused by the simulation | refused by the simulation |
//! | imitates another token | refused by its name | refused by its name |

use serde_json::{Value, json};

use crate::figures::told;
use crate::fixture::{Answer, Fixture};
use crate::writes::expect;

const KEYS: [&str; 5] =
    ["badFeeOnTransferToken", "badNoReturnToken", "badHostileSymbolToken", "badLookalikeToken", "badRevertingToken"];

/// The wallet gets 1,000 of each token, and buys or sells for about 34 dollars.
const GIVEN: u128 = 1_000;

fn decimals(key: &str) -> u32 {
    if matches!(key, "badNoReturnToken" | "badLookalikeToken") { 6 } else { 18 }
}

fn word(address: &str) -> String {
    format!("{:0>64}", address.trim_start_matches("0x").to_lowercase())
}

impl Fixture {
    /// Fixture in which each of these tokens is allowed and worth a dollar, with this limit on slippage and loss.
    fn with_bad_tokens(slippage: u32) -> Self {
        let mut fixture = Self::new();
        let mut allowed = vec!["31337:native".to_owned()];
        allowed.extend(["WETH", "USDC"].map(|symbol| format!("31337:{}", fixture.token(symbol))));
        allowed.extend(KEYS.map(|key| format!("31337:{}", fixture.contract(key))));
        let lines = format!("allowed_tokens = {allowed:?}\nmax_slippage_bps = {slippage}\nmax_loss_bps = 500\n");
        fixture.under(&lines);
        let prices: String = KEYS.map(|key| format!("\"{}\" = \"1\"\n", fixture.contract(key))).concat();
        fixture.configure(&format!("[prices.ethereum]\n{prices}"));
        let account = fixture.account().to_owned();
        fixture.ask("anvil_impersonateAccount", json!([account]));
        for key in KEYS {
            // mint(address,uint256) is open to everyone.
            let amount = GIVEN * 10_u128.pow(decimals(key));
            let data = format!("0x40c10f19{}{amount:064x}", word(&account));
            let sent = fixture
                .ask("eth_sendTransaction", json!([{"from": account, "to": fixture.contract(key), "data": data}]));
            assert_eq!(fixture.ask("eth_getTransactionReceipt", json!([sent]))["status"], "0x1", "{key}");
        }
        fixture
    }

    /// Balance of the wallet according to the contract itself.
    fn held(&self, contract: &str) -> u128 {
        let data = format!("0x70a08231{}", word(self.account()));
        let answer = self.ask("eth_call", json!([{"to": contract, "data": data}, "latest"]));
        u128::from_str_radix(answer.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    }

    fn buy(&self, key: &str, slippage: u32) -> Answer {
        self.swap(
            json!({"token_in": "WETH", "token_out": self.contract(key), "amount": "0.01",
                         "slippage_bps": slippage}),
            &[],
        )
    }

    fn sell(&self, key: &str, slippage: u32) -> Answer {
        self.swap(
            json!({"token_in": self.contract(key), "token_out": "WETH", "amount": "30",
                         "slippage_bps": slippage}),
            &[],
        )
    }
}

/// Advice after a price movement.
const FRESH: &str = "the same with a new quote, or with more slippage";

/// Rule that a swap violates whose second transaction, after the allowance, reverts.
fn reverts(why: &str, would_pass: &str) -> String {
    format!("simulation | every transaction succeeds | transaction 2 reverts: {why} | {would_pass}")
}

/// An amount of whole tokens in raw units.
fn raw(amount: &Value, decimals: u32) -> u128 {
    let text = amount.as_str().unwrap();
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{rest:0<width$}", width = decimals as usize).parse().unwrap()
}

/// Asserts success, and that the reported amounts equal the contracts' balance changes.
fn counted(fixture: &Fixture, (answer, exit): Answer, key: &str, bought: bool, before: (u128, u128)) -> Value {
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{key}: {answer}");
    let weth = fixture.token("WETH").to_owned();
    let (bad, good) = (fixture.held(fixture.contract(key)), fixture.held(&weth));
    let data = &answer["data"];
    let (paid, received) = (&data["amount_in"], &data["amount_out"]);
    if bought {
        assert_eq!(raw(received, decimals(key)), bad - before.0, "{key}: {answer}");
        assert_eq!(raw(paid, 18), before.1 - good, "{key}: {answer}");
    } else {
        assert_eq!(raw(received, 18), good - before.1, "{key}: {answer}");
        assert_eq!(raw(paid, decimals(key)), before.0 - bad, "{key}: {answer}");
    }
    // No allowance remains: allowance(account, permit2) is zero.
    let data = format!("0xdd62ed3e{}{}", word(fixture.account()), word(fixture.contract("permit2")));
    let left = fixture.ask("eth_call", json!([{"to": fixture.contract(key), "data": data}, "latest"]));
    assert_eq!(left.as_str().unwrap().trim_start_matches("0x").trim_start_matches('0'), "", "{key}");
    answer
}

impl Fixture {
    fn before(&self, key: &str) -> (u128, u128) {
        let weth = self.token("WETH").to_owned();
        (self.held(self.contract(key)), self.held(&weth))
    }
}

#[test]
fn a_token_without_return_values_is_traded_and_counted() {
    let (fixture, key) = (Fixture::with_bad_tokens(100), "badNoReturnToken");
    for bought in [true, false] {
        let before = fixture.before(key);
        let answer = if bought { fixture.buy(key, 50) } else { fixture.sell(key, 50) };
        counted(&fixture, answer, key, bought, before);
    }
}

#[test]
fn a_token_fee_below_the_minimum_output_is_refused_and_a_smaller_one_counted() {
    let key = "badFeeOnTransferToken";
    let fixture = Fixture::with_bad_tokens(300);
    let before = fixture.before(key);
    let nonce = fixture.nonce("latest");
    // One percent is lost in the transfer, and half a percent is tolerated.
    for (answer, what) in [(fixture.buy(key, 50), "bought"), (fixture.sell(key, 50), "sold")] {
        // The router counts the received amount, which is less than the amount sent.
        let why = "the price moved: the output would be below the minimum; by the contract: V2TooLittleReceived()";
        assert_eq!(told(&answer, "SAFETY_SIMULATION_FAILED"), [reverts(why, FRESH)], "{what}");
    }
    assert_eq!((fixture.before(key), fixture.nonce("latest")), (before, nonce), "nothing was sent");
    // With two percent of slippage it succeeds, and reports the amount that arrived instead of the quote.
    for bought in [true, false] {
        let before = fixture.before(key);
        let answer = if bought { fixture.buy(key, 250) } else { fixture.sell(key, 250) };
        let told = counted(&fixture, answer, key, bought, before);
        let slipped = told["data"]["slippage_actual_bps"].as_i64().unwrap();
        assert!((95..=105).contains(&slipped), "a hundredth against the quote: {told}");
    }
}

#[test]
fn reverting_and_imitating_tokens_are_refused() {
    let fixture = Fixture::with_bad_tokens(100);
    let nonce = fixture.nonce("latest");
    // When bought, the pair pays it out; when sold, Permit2 takes it.
    let paid = "the token could not be paid out: it refuses, or its balance is too low; by the contract: UniswapV2: \
                TRANSFER_FAILED";
    let bought = fixture.buy("badRevertingToken", 50);
    assert_eq!(told(&bought, "SAFETY_SIMULATION_FAILED"), [reverts(paid, "another token")]);
    let taken = "the token could not be taken: balance or allowance too low, or the token refuses; by the contract: \
                 TRANSFER_FROM_FAILED";
    let would_pass = "an amount within balance and allowance, of a transferable token";
    let sold = fixture.sell("badRevertingToken", 50);
    assert_eq!(told(&sold, "SAFETY_SIMULATION_FAILED"), [reverts(taken, would_pass)]);
    for (key, why) in [("badLookalikeToken", "USDC"), ("badHostileSymbolToken", "invisible characters")] {
        for (answer, what) in [(fixture.buy(key, 50), "bought"), (fixture.sell(key, 50), "sold")] {
            expect(&answer, "TOKEN_LOOKALIKE", what);
            let told = answer.0.to_string();
            assert!(told.contains(why), "{key}: {told}");
            assert!(
                !told.contains('\u{202e}') && !told.contains('\u{200b}') && !told.contains("\\u001b"),
                "{key}: {told}"
            );
        }
    }
    assert_eq!(fixture.nonce("latest"), nonce, "nothing was sent");
}
