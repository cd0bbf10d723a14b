//! A rollup with a hostile fee oracle. No signature bounds the data fee, so it is bounded before each signature.
//!
//! The devnet plays the rollup: `FeeOracle` of the fixtures returns the values that its owner writes into its storage.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy::primitives::{Address, Bytes, U256, address, hex};
use alloy::providers::Provider as _;
use bardo::base::error::ErrorCode;
use bardo::base::model::StopLevel;
use bardo::engine::{CallStatus, ToolResponse};
use bardo::golem::agent_api::AgentSession;
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::CommitState;
use serde_json::{Value, json};

use crate::endpoints::{Attack, chain};
use bardo_testkit::devnet::ask;
use bardo_testkit::golem_harness::{GolemHarness, permit, swap};
use bardo_testkit::harness::{Hook, TestHarness};

const ORACLE: Address = address!("0x0000000000000000000000000000000000f0ac1e");
const PERMIT2: Address = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3");

/// A thousandth of a native token per transaction: about three dollars.
const MODEST: u64 = 1_000_000_000_000_000;

/// One native token per transaction.
const HUGE: u64 = 1_000_000_000_000_000_000;

const REVERTS: U256 = U256::ONE;

fn slot(number: u64) -> U256 {
    U256::from(number)
}

/// Runtime code of the oracle: the part of its creation code after the first `RETURN`, `INVALID`.
fn runtime() -> Bytes {
    let creation = hex::decode(include_str!("../fixtures/contracts/FeeOracle.hex").trim()).unwrap();
    let end = creation.windows(2).position(|pair| pair == [0xf3, 0xfe]).unwrap();
    creation[end + 2..].to_vec().into()
}

/// Devnet that the configuration declares to be a rollup, and an agent on it.
async fn rollup() -> (GolemHarness, AgentSession) {
    let lines = format!("[chains.ethereum]\ndata_fee_oracle = \"{ORACLE}\"\n");
    let harness = GolemHarness::configured("preset = \"demo\"\n", &lines).await;
    let provider = harness.world.chains()[0].client.provider();
    let _done: Value = provider.raw_request("anvil_setCode".into(), json!([ORACLE, runtime()])).await.unwrap();
    asks(&harness, U256::from(MODEST)).await;
    let golem = harness.golem("ada", "trade-executor");
    (harness, golem)
}

async fn write(harness: &GolemHarness, slot: U256, value: U256) {
    let provider = harness.world.chains()[0].client.provider();
    let params = json!([ORACLE, slot, alloy::primitives::B256::from(value)]);
    let _done: Value = provider.raw_request("anvil_setStorageAt".into(), params).await.unwrap();
    let _mined: Value = provider.raw_request("evm_mine".into(), json!([])).await.unwrap();
}

async fn asks(harness: &GolemHarness, wei: U256) {
    write(harness, slot(0), wei).await;
}

async fn act(golem: &AgentSession, action: Value) -> ToolResponse {
    let previewed = golem.call("preview_action", action).await;
    match previewed.status {
        CallStatus::Simulated => golem.call("commit_action", permit(&previewed)).await,
        _ => previewed,
    }
}

fn code(answer: &ToolResponse) -> Option<ErrorCode> {
    answer.error.as_ref().map(|error| error.code())
}

fn kind(kind: &str, amount: Option<&str>) -> Value {
    let mut params = json!({"token": "DAI", "spender": PERMIT2, "chain": "ethereum"});
    if let Some(amount) = amount {
        params["amount"] = json!(amount);
    }
    json!({"kind": kind, "params": params})
}

fn exit() -> Value {
    swap("WETH", "USDC", "0.02")
}

/// Asserts a refusal before anything is signed, with this code and a reason that contains `says`.
async fn refused(harness: &GolemHarness, golem: &AgentSession, action: Value, expected: ErrorCode, says: &str) {
    let sent = harness.sent().await;
    let answer = act(golem, action).await;
    assert_eq!(code(&answer), Some(expected), "{answer:#?}");
    let told = serde_json::to_string(&answer.error).unwrap();
    assert!(told.contains(says), "{told}");
    assert_eq!(harness.sent().await, sent, "something was signed: {answer:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_fee_blocks_even_exits_and_revocations_until_it_falls() {
    let (harness, golem) = rollup().await;
    let given = act(&golem, kind("approve", Some("900"))).await;
    assert_eq!(given.status, CallStatus::Success, "{given:#?}");
    let spending = ErrorCode::SafetySpendingLimitExceeded;
    for level in [None, Some(StopLevel::Flatten)] {
        if let Some(level) = level {
            harness.stop.raise(level, "a test", "operator", 1).unwrap();
        }
        asks(&harness, U256::from(HUGE)).await;
        refused(&harness, &golem, exit(), spending, "max_gas_usd").await;
        refused(&harness, &golem, kind("revoke", None), spending, "max_gas_usd").await;
        // A fee that exceeds any dollar figure, and one that overflows when doubled.
        for fee in [U256::MAX, U256::MAX >> 1] {
            asks(&harness, fee).await;
            let unknown = ErrorCode::SafetyPriceUnknown;
            // Under a stop only a fair exit passes, and the cost of this one is unknown.
            let by_exit = level.map_or(unknown, |_| ErrorCode::Halted);
            refused(&harness, &golem, exit(), by_exit, "L1 data fee").await;
            refused(&harness, &golem, kind("revoke", None), unknown, "L1 data fee").await;
        }
    }
    // Within the bound both succeed, also under the stop.
    asks(&harness, U256::from(MODEST)).await;
    let back = act(&golem, kind("revoke", None)).await;
    assert_eq!(back.status, CallStatus::Success, "{back:#?}");
    let out = act(&golem, exit()).await;
    assert_eq!(out.status, CallStatus::Success, "{out:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fee_that_rises_between_preview_and_commit_blocks_the_signature() {
    let (harness, golem) = rollup().await;
    let given = act(&golem, kind("approve", Some("900"))).await;
    assert_eq!(given.status, CallStatus::Success, "{given:#?}");
    for action in [exit(), kind("revoke", None), swap("USDC", "UNI", "20")] {
        asks(&harness, U256::from(MODEST)).await;
        let previewed = golem.call("preview_action", action).await;
        assert_eq!(previewed.status, CallStatus::Simulated, "{previewed:#?}");
        asks(&harness, U256::from(HUGE)).await;
        let sent = harness.sent().await;
        let answer = golem.call("commit_action", permit(&previewed)).await;
        assert_eq!(code(&answer), Some(ErrorCode::SafetySpendingLimitExceeded), "{answer:#?}");
        assert_eq!(harness.sent().await, sent, "something was signed: {answer:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oracle_with_an_invalid_answer_blocks_the_signature_and_is_named() {
    let (harness, golem) = rollup().await;
    let given = act(&golem, kind("approve", Some("900"))).await;
    assert_eq!(given.status, CallStatus::Success, "{given:#?}");
    for fault in [slot(1), slot(2)] {
        write(&harness, fault, REVERTS).await;
        for action in [exit(), kind("revoke", None), swap("USDC", "UNI", "20")] {
            refused(&harness, &golem, action, ErrorCode::SafetyPriceUnknown, "L1 data fee").await;
        }
        write(&harness, fault, U256::ZERO).await;
    }
    let back = act(&golem, kind("revoke", None)).await;
    assert_eq!(back.status, CallStatus::Success, "{back:#?}");
}

/// A plan of two transactions; after the first signature the oracle's slot gets this value. Returns the plan's end, the
/// number of signed transactions, and the remaining allowance of Permit2.
async fn turns_behind_the_first_signature(slot: U256, value: U256) -> (CommitState, usize, U256, Vec<String>) {
    let world = TestHarness::new(8).await;
    let oracle = Address::repeat_byte(0x0c);
    let set = move |slot: U256, value: U256| async move {
        bardo_testkit::harness::devnet().devnet.run(move |chain| chain.set_storage_at(oracle, slot, value)).await
    };
    for number in 0..3 {
        set(U256::from(number), U256::ZERO).await.unwrap();
    }
    set(U256::ZERO, U256::from(MODEST)).await.unwrap();
    let rollup = world.as_rollup(oracle, runtime()).await;
    let proposal = world.swap(100_000_000).await;
    let preview = rollup.preview(proposal, world.wallet.clone(), bardo_testkit::harness::ASKED).await.unwrap();
    let signed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&signed);
    *world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            let turned = set(slot, value);
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(turned)).unwrap();
        }
    })
    .into_inner()
    .unwrap();
    let committed = rollup.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    *world.wallet.on_sign.lock().unwrap() = None;
    let left = world.allowance(world.contract(bardo::chain::network::KnownContract::Permit2)).await;
    world.disallow().await;
    (committed.state, signed.load(Ordering::SeqCst), left, committed.remarks)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fee_that_rises_between_two_transactions_of_a_plan_stops_the_rest() {
    // Fifty times as much: the rest is not signed, and the first allowance is revoked within the rules' own bound.
    let (state, signed, left, remarks) = turns_behind_the_first_signature(slot(0), U256::from(50 * MODEST)).await;
    let CommitState::Stopped { code, why } = state else { panic!("{state:?}") };
    assert_eq!(code, ErrorCode::SafetySpendingLimitExceeded, "{why}");
    assert!(why.contains("L1 data fee"), "{why}");
    assert_eq!((signed, left), (2, U256::ZERO), "the allowance and its revocation: {remarks:?}");
    // A thousand native tokens: not even the revocation is paid for, and the result reports that.
    let most = U256::from(HUGE) * U256::from(1_000);
    let (state, signed, left, remarks) = turns_behind_the_first_signature(slot(0), most).await;
    assert!(matches!(state, CommitState::Stopped { .. }), "{state:?}");
    assert_eq!((signed, left), (1, U256::from(100_000_000)));
    assert!(remarks.iter().any(|remark| remark.contains("could not be revoked")), "{remarks:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oracle_that_fails_between_two_transactions_of_a_plan_stops_the_rest() {
    let (state, signed, _, remarks) = turns_behind_the_first_signature(slot(1), REVERTS).await;
    let CommitState::Stopped { code, why } = state else { panic!("{state:?}") };
    assert_eq!((code, signed), (ErrorCode::SafetyPriceUnknown, 1), "{why}");
    assert!(remarks.iter().any(|remark| remark.contains("could not be revoked")), "{remarks:?}");
}

/// The fee that was paid counts, not the one that the oracle announced.
#[test]
fn a_fee_above_the_oracles_answer_counts_in_full_once_it_is_paid() {
    // A rollup's receipts contain the fee that was paid: a hundred times the oracle's figure.
    let attack = Attack::new(
        1,
        0,
        Box::new(|asked, answer| {
            if asked["method"] == "eth_getTransactionReceipt" && answer["result"].is_object() {
                answer["result"]["l1Fee"] = json!(format!("{:#x}", 100 * MODEST));
            }
        }),
    );
    let lines = format!("[chains.ethereum]\ndata_fee_oracle = \"{ORACLE}\"\n");
    std::fs::write(attack.home().join("config.toml"), lines).unwrap();
    let url = chain().devnet.url(0);
    ask(url, "anvil_setCode", json!([ORACLE, runtime()]));
    ask(url, "anvil_setStorageAt", json!([ORACLE, slot(0), alloy::primitives::B256::from(U256::from(MODEST))]));
    ask(url, "evm_mine", json!([]));
    let answer = attack.call("token_approve", &kind("approve", Some("5"))["params"]);
    assert_eq!(answer["status"], "success", "{answer:#}");
    let status = attack.call("check_safety_status", &json!({}));
    let caps = status["data"]["caps"].as_array().unwrap_or_else(|| panic!("{status:#}"));
    let day = caps.iter().find(|cap| cap["rule"] == "max_daily_spend_usd").unwrap();
    // A tenth of a native token at about 3,400 dollars; twice the oracle's figure is 7.
    assert!(day["used_usd"].as_str().unwrap().parse::<f64>().unwrap() > 200.0, "{status:#}");
}
