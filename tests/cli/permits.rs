//! Unusable permits, and the owner's policy contract, through the binary: each from a real situation.
//!
//! | code | situation |
//! |---|---|
//! | `PERMIT_EXPIRED` | the account is busy for too long; no commit in time; a permit of an earlier program; an unknown permit |
//! | `PERMIT_MISMATCH` | the rules change during the approval; a hash of another permit |
//! | `PERMIT_CONSUMED` | a second commit |
//! | `SAFETY_CAGE_VIOLATION` | the owner's contract permits less |

use std::cell::Cell;
use std::path::Path;

use alloy::eips::eip2718::Encodable2718 as _;
use alloy::primitives::{Address, FixedBytes, hex};
use alloy::sol_types::SolCall;
use bardo::abi::policy_cage::PolicyCage::{AssetRule, CallRule, Rules, clearCall, configureCall};
use bardo::sandbox::keys::DevnetAccount;
use serde_json::{Value, json};

use crate::fixture::{Fixture, ended, swap};
use crate::writes::{envelope_is, expect};
use crate::{bardo, run};

#[test]
fn a_permit_ends_with_the_action_it_waits_for() {
    let fixture = Fixture::new();
    fixture.ask("evm_setAutomine", json!([false]));
    let first = fixture.swapping(json!({}));
    fixture.until_pending(1);
    // Only for the second: the first has read its own lifetime already.
    fixture.configure("[safety]\npermit_seconds = 5\n");
    // The first holds the account lock until a block includes it; the second waits at most for its permit's lifetime.
    let answer = fixture.swap(json!({"amount": "0.02"}), &[]);
    expect(&answer, "PERMIT_EXPIRED", "a busy account");
    assert_eq!(fixture.nonce("pending"), 1, "nothing more was signed");
    fixture.ask("evm_mine", json!([]));
    let (answer, exit) = ended(first);
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{answer}");
    assert_eq!(fixture.nonce("latest"), 1);
}

#[test]
fn rules_that_change_during_a_decision_invalidate_the_permit() {
    let fixture = Fixture::new();
    let asks = "require_human_approval_above_usd = \"10\"\n";
    fixture.tighten(asks);
    let asked = Cell::new(0);
    let tighten = || {
        asked.set(asked.get() + 1);
        fixture.tighten(&format!("{asks}max_trades_per_hour = 3\n"));
    };
    let (shown, exit) = fixture.on_a_terminal(&swap(json!({})), Some("yes\n"), tighten);
    assert_eq!((asked.get(), exit), (1, 3), "{shown}");
    assert!(shown.contains("PERMIT_MISMATCH"), "{shown}");
    assert_eq!(fixture.nonce("pending"), 0);
    // It succeeds under the present rules.
    let (shown, exit) = fixture.on_a_terminal(&swap(json!({})), Some("yes\n"), || {});
    assert_eq!(exit, 0, "{shown}");
    assert_eq!(fixture.nonce("latest"), 1);
}

/// An approval counts only after its prompt has appeared, and only as the complete word.
#[test]
fn text_typed_before_the_question_or_a_partial_word_approves_nothing() {
    let fixture = Fixture::new();
    fixture.tighten("require_human_approval_above_usd = \"10\"\n");
    for (early, answer) in [("yes\n", "not this one\n"), ("", "y\n")] {
        let (shown, _) = fixture.typed_ahead(early, &swap(json!({})), Some(answer), || {});
        assert!(shown.contains("APPROVAL_REFUSED"), "{early:?} {answer:?}: {shown}");
        assert_eq!(fixture.nonce("pending"), 0, "{early:?} {answer:?}");
    }
}

/// Sends a transaction from the demo account, without Bardo.
fn send(fixture: &Fixture, to: Address, call: impl SolCall) {
    let party = DevnetAccount::development_accounts().unwrap().swap_remove(0);
    assert_eq!(party.address(), fixture.account().parse::<Address>().unwrap());
    let transaction = bardo_testkit::outside::call(fixture.nonce("latest"), to, call);
    let raw = hex::encode_prefixed(party.sign(transaction).unwrap().encoded_2718());
    let hash = fixture.ask("eth_sendRawTransaction", json!([raw]));
    assert_eq!(fixture.ask("eth_getTransactionReceipt", json!([hash]))["status"], "0x1");
}

#[test]
fn an_action_that_the_policy_contract_would_reject_is_refused_first() {
    let fixture = Fixture::new();
    let at = |text: &str| text.parse::<Address>().unwrap();
    let feed = |pair: &str| at(fixture.devnet.described["chains"][0]["feeds"][pair]["address"].as_str().unwrap());
    let cage = at(fixture.contract("policyCage"));
    // `execute(bytes,bytes[],uint256)` of the router, from its published interface.
    let execute =
        CallRule { target: at(fixture.contract("universalRouterV2_1_0")), selector: FixedBytes(hex!("3593564c")) };
    let configure = |calls: Vec<CallRule>, most: u128| {
        let asset = |token, feed, exit, most| AssetRule {
            token,
            feed,
            exit,
            maxPerTransaction: most,
            maxPerDay: u128::MAX,
            maxPosition: u128::MAX,
        };
        let set = Rules {
            assets: vec![
                asset(Address::ZERO, feed("ETH / USD"), true, most),
                asset(at(fixture.token("USDC")), feed("USDC / USD"), true, u128::MAX),
            ],
            calls,
            spenders: vec![],
            maxDrawdownBps: 5_000,
            maxLossBps: 500,
            minInterval: 0,
            maxPriceAge: 86_400,
        };
        send(&fixture, cage, configureCall { set });
    };
    // The swap gives 0.01 native tokens: 10^16 wei.
    configure(vec![execute.clone()], 9_999_999_999_999_999);
    let answer = fixture.swap(json!({}), &[]);
    let rules = expect(&answer, "SAFETY_CAGE_VIOLATION", "more than the owner allows");
    assert_eq!(rules, ["policy_cage.maxPerTransaction"]);
    let violation = &answer.0["error"]["details"]["violations"][0];
    assert_eq!(violation["limit"], "at most 0.009999999999999999 ETH in one transaction");
    assert_eq!(violation["value"], "0.01 ETH");
    assert_eq!(violation["would_pass"], "0.009999999999999999 ETH or less");
    configure(vec![CallRule { selector: FixedBytes([1, 2, 3, 4]), ..execute.clone() }], u128::MAX);
    assert_eq!(
        expect(&fixture.swap(json!({}), &[]), "SAFETY_CAGE_VIOLATION", "another function"),
        ["policy_cage.calls"]
    );
    let before = fixture.nonce("latest");
    configure(vec![execute], 10_000_000_000_000_000);
    let (answer, exit) = fixture.swap(json!({}), &[]);
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "inside the rules: {answer}");
    assert_eq!(fixture.nonce("latest"), before + 2, "the new rules and the swap");
    send(&fixture, cage, clearCall {});
}

/// Runs a brain with these lines of Python in its own process with its own devnet; returns its results by name. The
/// lines can use `offer()` and `commit(permit, hash)`, return `found`, and read an earlier brain's results in `before`.
fn brain(home: &Path, lines: &str, before: &Value) -> Value {
    const HEAD: &str = "import json, sys, time\n\
        def say(**line): print(json.dumps(line), flush=True)\n\
        def hear(wanted):\n    while True:\n        line = json.loads(sys.stdin.readline())\n        \
        if line['type'] == wanted: return line\n\
        def call(tool, **params):\n    say(type='call', id=tool, tool=tool, params=params)\n    \
        return hear('result')['response']\n\
        def offer():\n    params = dict(token_in='ETH', token_out='USDC', amount='0.01', chain='ethereum')\n    \
        params['prefer_uniswapx'] = False\n    told = call('preview_action', kind='swap', params=params)\n    \
        assert told['status'] == 'simulated', told\n    return told['data']\n\
        def commit(one, digest): return call('commit_action', permit_id=one, simulation_hash=digest)\n\
        found = {}\nhear('tick')\n";
    // Not in the configuration folder, which brains cannot access; the configuration permits its output folder.
    let programs = tempfile::tempdir().unwrap();
    let (script, said) = (programs.path().join("brain.py"), programs.path().join("said.json"));
    let write = format!("[golem]\nwrite = [{:?}]\n[safety]\npermit_seconds = 20\n", programs.path());
    std::fs::write(home.join("config.toml"), write).unwrap();
    let tail = format!(
        "open({:?}, 'w').write(json.dumps(found))\nsay(type='done', why='told')\nhear('bye')\n",
        said.to_str().unwrap()
    );
    let before = format!("before = json.loads({:?})\n", before.to_string());
    std::fs::write(&script, format!("{HEAD}{before}{lines}{tail}")).unwrap();
    let brain = format!("process:python3 '{}'", script.display());
    let path = std::env::var_os("PATH").unwrap();
    let arguments = ["golem", "run", "--headless", "--brain", &brain];
    let (out, err, code) = run(bardo(home).env("PATH", path).args(arguments));
    assert!(code == 0 && err.contains("the brain has finished"), "{err}{out}");
    let said = std::fs::read_to_string(said).unwrap();
    serde_json::from_str(&said).unwrap()
}

#[test]
fn a_brain_receives_the_unusable_permit_and_the_reason() {
    if !std::process::Command::new("python3").arg("--version").output().is_ok_and(|told| told.status.success()) {
        eprintln!("skipped: no python3 on this machine");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let lines = "one = offer()\npermit, digest = one['permit_id'], one['simulation_hash']\n\
        found['permit'], found['digest'] = permit, digest\n\
        found['other'] = commit(permit, '0x' + '11' * 32)\n\
        found['done'] = commit(permit, digest)\n\
        found['twice'] = commit(permit, digest)\n\
        found['never'] = commit('5' * 32, digest)\n\
        two = offer()\ntime.sleep(21)\n\
        found['late'] = commit(two['permit_id'], two['simulation_hash'])\n";
    let said = brain(home.path(), lines, &Value::Null);
    let told = |name: &str, code: &str, message: &str| {
        envelope_is(&said[name], code, name);
        assert_eq!(said[name]["error"]["message"], message, "{name}");
    };
    // Nothing has changed there, so the advice is about the hash that was sent.
    let other = &said["other"]["error"];
    let message = "the simulation hash does not match this permit; the offer is still open";
    assert_eq!((&other["code"], &other["message"]), (&json!("PERMIT_MISMATCH"), &json!(message)));
    assert!(other["suggestion"].as_str().unwrap().contains("`simulation_hash` that the preview"), "{other}");
    assert_eq!(said["done"]["status"], "success", "the offer stood: {}", said["done"]);
    told("twice", "PERMIT_CONSUMED", &format!("permit {} was already used", said["permit"].as_str().unwrap()));
    let never = format!("no offer is open under {}: it was withdrawn, has expired, or never existed", "5".repeat(32));
    told("never", "PERMIT_EXPIRED", &never);
    told("late", "PERMIT_EXPIRED", "the offer was not committed in time and has expired; nothing was signed");
    // No permit outlives its process.
    let again = "found['again'] = commit(before['permit'], before['digest'])\n";
    let said = brain(home.path(), again, &json!({"permit": said["permit"], "digest": said["digest"]}));
    envelope_is(&said["again"], "PERMIT_EXPIRED", "another program's");
}
