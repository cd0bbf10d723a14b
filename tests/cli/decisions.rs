//! The operator's policy commands: checking a call, accepting a looser file, and resetting the circuit breaker.

use serde_json::{Value, json};

use crate::fixture::{Fixture, swap};
use crate::{bardo, run};

impl Fixture {
    /// Runs `bardo policy` with these arguments; returns both streams and the exit code.
    fn policy(&self, arguments: &[&str]) -> (String, String, i32) {
        run(bardo(self.home.path()).arg("policy").args(arguments).args(["--rpc", &self.given]))
    }

    fn check(&self, params: &Value, more: &[&str]) -> (Value, i32) {
        let params = params.to_string();
        let (out, err, code) = self.policy(&[&["check", "uniswap_execute_swap", &params, "--json"][..], more].concat());
        (serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}")), code)
    }

    /// Runs `bardo policy` on a terminal and answers its prompt.
    fn decides(&self, arguments: &[&str], asks: &str, answer: &str) -> (String, u32) {
        let all = [&["policy"][..], arguments, &["--rpc", &self.given]].concat();
        self.at_a_terminal("", &all, asks, Some(answer), || {})
    }

    /// Kinds of the entries of the audit log, the oldest first.
    pub fn kinds(&self) -> Vec<String> {
        let (out, _, _) = run(bardo(self.home.path()).args(["log", "--json"]));
        let kind = |line: &str| serde_json::from_str::<Value>(line).unwrap()["kind"].as_str().unwrap().to_owned();
        out.lines().map(kind).collect()
    }
}

#[test]
fn a_check_reports_what_passes_needs_approval_or_fails() {
    let fixture = Fixture::new();
    // A hundredth of a native token is about 34 dollars.
    let (told, code) = fixture.check(&swap(json!({})), &[]);
    assert_eq!(code, 0, "{told}");
    assert_eq!((&told["tool"], &told["passes"]), (&json!("uniswap_execute_swap"), &json!(true)));
    assert_eq!((&told["needs"], &told["error"], &told["violations"]), (&json!("instant"), &Value::Null, &json!([])));
    let spent: f64 = told["spent_usd"].as_str().unwrap().parse().unwrap();
    assert!((25.0..50.0).contains(&spent), "{told}");
    let checks: Vec<_> = told["checks"].as_array().unwrap().iter().map(|one| one["check"].as_str().unwrap()).collect();
    assert!(checks.contains(&"spending_limit") && checks.contains(&"simulation"), "{checks:?}");
    let (out, err, code) = fixture.policy(&["check", "uniswap_execute_swap", &swap(json!({})).to_string()]);
    assert!(code == 0 && out.starts_with("uniswap_execute_swap would pass\n") && out.contains("  ok  "), "{out}{err}");

    // In a phase: opening a position is refused, and an exit is not restricted further.
    let (told, code) = fixture.check(&swap(json!({"token_out": "UNI"})), &["--phase", "terminal"]);
    assert_eq!((&told["passes"], &told["error"]["code"], code), (&json!(false), &json!("SAFETY_PHASE_BLOCKED"), 3));

    fixture.tighten("require_human_approval_above_usd = \"10\"\n");
    let (told, code) = fixture.check(&swap(json!({})), &[]);
    assert_eq!((&told["needs"], &told["passes"], code), (&json!("approval"), &json!(true), 0), "{told}");
    let why = told["reasons"][0]["words"].as_str().unwrap();
    assert!(why.contains("is above $10.00 (require_human_approval_above_usd)"), "{why}");
    let (out, _, _) = fixture.policy(&["check", "uniswap_execute_swap", &swap(json!({})).to_string()]);
    assert!(
        out.starts_with("uniswap_execute_swap would pass, with your approval: above your $10 approval limit"),
        "{out}"
    );

    // A sale for dollars counts with its possible loss, so a purchase shows the limit.
    let bought = swap(json!({"token_in": "USDC", "token_out": "WETH", "amount": "30", "slippage_bps": 50}));
    fixture.tighten("max_single_trade_usd = \"10\"\nmax_slippage_bps = 1\n");
    let (told, code) = fixture.check(&bought, &[]);
    assert_eq!((&told["passes"], code), (&json!(false), 3), "{told}");
    let mut rules: Vec<_> =
        told["violations"].as_array().unwrap().iter().map(|one| one["rule"].as_str().unwrap()).collect();
    rules.sort_unstable();
    assert_eq!(rules, ["max_single_trade_usd", "max_slippage_bps"], "{told}");
    let (out, _, code) = fixture.policy(&["check", "uniswap_execute_swap", &bought.to_string()]);
    assert_eq!(code, 3);
    assert!(out.starts_with("uniswap_execute_swap would not pass: SAFETY_SPENDING_LIMIT_EXCEEDED "), "{out}");
    for line in ["  NO  limits ", "      limit       ", "      found       ", "      would pass  "] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert_eq!(fixture.nonce("pending"), 0, "nothing was signed by all that");
}

#[test]
fn a_looser_policy_applies_after_the_operators_approval() {
    let fixture = Fixture::new();
    fixture.tighten("max_single_trade_usd = \"10\"\n");
    let refused = |what: &str| {
        let (answer, exit) = fixture.swap(json!({"token_in": "USDC", "token_out": "WETH", "amount": "30"}), &[]);
        assert_eq!((&answer["error"]["code"], exit), (&json!("SAFETY_SPENDING_LIMIT_EXCEEDED"), 3), "{what}: {answer}");
    };
    refused("it holds from its first use on");
    let (out, _, code) = fixture.policy(&["accept"]);
    assert!(code == 0 && out.starts_with("no change is pending: demo*"), "{out}");
    fixture.tighten("max_single_trade_usd = \"100\"\n");
    refused("a looser one waits");

    // Only the operator can approve it.
    let (out, err, code) = fixture.policy(&["accept"]);
    assert_eq!((out.as_str(), code), ("", 3), "{err}");
    assert!(err.contains("LOOSER   max_single_trade_usd: \"10\" → \"100\""), "{err}");
    assert!(err.contains("needs your approval on a terminal"), "{err}");
    let (shown, code) = fixture.decides(&["accept"], "Type `loosen`", "yes\n");
    assert!(code == 4 && shown.contains("not accepted; the previous policy stays in force"), "{code}: {shown}");
    refused("any other word is none");

    // Rejected and recorded. It can still be accepted later.
    let (out, err, code) = fixture.policy(&["refuse"]);
    assert_eq!((out.as_str(), code), ("rejected; the previous policy stays in force\n", 0), "{err}");
    assert!(fixture.kinds().contains(&"policy:refused".to_owned()), "{:?}", fixture.kinds());
    refused("it was refused");
    let (shown, code) = fixture.decides(&["accept"], "Type `loosen`", "loosen\n");
    assert!(code == 0 && shown.contains("is now in force"), "{code}: {shown}");
    assert!(fixture.kinds().contains(&"policy:accepted".to_owned()), "{:?}", fixture.kinds());
    let (answer, exit) = fixture.swap(json!({"token_in": "USDC", "token_out": "WETH", "amount": "30"}), &[]);
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{answer}");
}

#[test]
fn the_breaker_is_reset_only_by_the_right_word() {
    let fixture = Fixture::new();
    let (answer, exit) = fixture.swap(json!({}), &[]);
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{answer}");
    for (what, kind, says) in [
        ("breaker", "breaker:reset", "the breaker is closed"),
        ("high-water", "high_water:reset", "1 high-water marks were reset"),
    ] {
        let (out, err, code) = fixture.policy(&["reset", what]);
        assert_eq!((out.as_str(), code), ("", 3), "{err}");
        assert!(err.contains("needs your approval on a terminal"), "{err}");
        let (shown, code) = fixture.decides(&["reset", what], "Type `reset`", "no\n");
        assert!(code == 4 && shown.contains("nothing was reset"), "{code}: {shown}");
        assert!(!fixture.kinds().contains(&kind.to_owned()), "{what}: {:?}", fixture.kinds());
        let (shown, code) = fixture.decides(&["reset", what], "Type `reset`", "reset\n");
        assert!(code == 0 && shown.contains(says), "{what}: {code}: {shown}");
        assert!(fixture.kinds().contains(&kind.to_owned()), "{what}: {:?}", fixture.kinds());
    }
    // The devnet inside a process has its own ledger: there is nothing to decide for it.
    for arguments in [&["accept"][..], &["refuse"], &["reset", "breaker"]] {
        let (_, err, code) = run(bardo(fixture.home.path()).arg("policy").args(arguments));
        assert!(code == 2 && err.contains("--rpc"), "{arguments:?}: {code} {err}");
    }
}

/// The safety-guardian's opinion is a separate object wherever the call is reported, and names prices that it read
/// itself.
#[test]
fn the_guardians_opinion_is_in_the_json() {
    let mut fixture = Fixture::new();
    fixture.under("[spending_limits]\nhot_lane = \"50\"\n");
    let buy = json!({"token_in": "USDC", "token_out": "LINK", "amount": "150"});
    let (rehearsed, _) = fixture.swap(buy.clone(), &["--dry-run"]);
    let (blocked, _) = fixture.swap(buy.clone(), &[]);
    let (done, _) = fixture.swap(buy, &["--approve", "always"]);
    assert_eq!((&blocked["error"]["code"], &done["status"]), (&json!("APPROVAL_REQUIRED"), &json!("success")));
    for opinion in [
        &rehearsed["decision_hints"]["guardian"],
        &rehearsed["decision_hints"]["permit"]["guardian"],
        &blocked["error"]["details"]["permit"]["guardian"],
        &done["decision_hints"]["guardian"],
    ] {
        assert_eq!(opinion["agrees"], true, "{opinion}");
        let why = opinion["why"].as_str().unwrap();
        assert!(why.contains("own USDC price $1.00") && why.contains("own LINK price $"), "{why}");
    }
    // Below the hot lane it was not asked, and no opinion is reported.
    let (small, _) = fixture.swap(json!({"token_in": "USDC", "token_out": "LINK", "amount": "10"}), &["--dry-run"]);
    assert_eq!((&small["status"], &small["decision_hints"]["guardian"]), (&json!("simulated"), &Value::Null));
}
