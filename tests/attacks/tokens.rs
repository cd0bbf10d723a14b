//! Misbehaving tokens: fees, rebasing, callbacks, false returns, upgrades between preview and commit.
//!
//! A token is upgraded by replacing its code on the devnet, as the owner of a proxy can at any moment. Outcomes are
//! read from the chain. `tests/cli/bad_tokens.rs` trades tokens that are odd from the start.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy::network::TransactionBuilder as _;
use alloy::primitives::{Address, Bytes, U256, address, hex, keccak256, uint};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::{SolCall, SolValue as _};
use bardo::abi::erc20::Erc20;
use bardo::base::error::ErrorCode;
use bardo::chain::network::NetworkKind;
use bardo::chain::sender::SenderRules;
use bardo::engine::{CallStatus, ToolResponse};
use bardo::golem::agent_api::AgentSession;
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::approval::Consent;
use bardo::safety::ledger::{self, MicroUsd};
use bardo::safety::pipeline::{CommitOutcome, PipelineRefusal};
use bardo::safety::policy_engine::ActionEnd;
use bardo::sandbox::Sandbox;
use bardo::sandbox::plan::SandboxToken;
use bardo::store::{Store, StoreConfig};
use serde_json::{Value, json};

use bardo_testkit::golem_harness::{GolemHarness, permit, swap};
use bardo_testkit::harness::{Hook, TestHarness, cents, sandbox};

/// `PUSH1 1 PUSH0 MSTORE PUSH1 32 PUSH0 RETURN`: every call returns one, or true, and nothing moves.
const SAYS_TRUE: &str = "0x60015f5260205ff3";

/// `PUSH1 32 PUSH0 RETURN`: every call returns zero, or false, and nothing moves.
const SAYS_FALSE: &str = "0x60205ff3";

/// `PUSH0 PUSH0 REVERT`: every call reverts.
const REVERTS: &str = "0x5f5ffd";

async fn harness() -> (GolemHarness, AgentSession) {
    let harness = GolemHarness::with_policy("preset = \"demo\"\n").await;
    harness.give(SandboxToken::Uni, U256::from(20) * U256::from(10).pow(U256::from(18))).await;
    let golem = harness.golem("ada", "trade-executor");
    (harness, golem)
}

async fn upgrade(harness: &GolemHarness, token: SandboxToken, code: Bytes) {
    let (provider, at): (_, Address) = (harness.world.chains()[0].client.provider(), harness.address(token));
    let done: Value = provider.raw_request("anvil_setCode".into(), json!([at, code])).await.unwrap();
    assert!(done.is_null(), "{done}");
    mine(harness).await;
}

/// On a real chain, state changes with a block; without a new one a commit correctly reuses the reads of this one.
async fn mine(harness: &GolemHarness) {
    let provider = harness.world.chains()[0].client.provider();
    let _mined: Value = provider.raw_request("evm_mine".into(), json!([])).await.unwrap();
}

async fn code_of(harness: &GolemHarness, token: SandboxToken) -> Bytes {
    harness.world.chains()[0].client.provider().get_code_at(harness.address(token)).await.unwrap()
}

/// Previews the sale of UNI, replaces its code, and commits the preview.
async fn sold_after_an_upgrade(harness: &GolemHarness, golem: &AgentSession, code: Bytes) -> ToolResponse {
    let previewed = golem.call("preview_action", swap("UNI", "USDC", "2")).await;
    assert_eq!(previewed.status, CallStatus::Simulated, "{previewed:#?}");
    upgrade(harness, SandboxToken::Uni, code).await;
    golem.call("commit_action", permit(&previewed)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_upgraded_between_preview_and_commit_is_not_sold() {
    let (harness, golem) = harness().await;
    let (honest, fee) =
        (code_of(&harness, SandboxToken::Uni).await, code_of(&harness, SandboxToken::FeeOnTransfer).await);
    let sent = harness.sent().await;
    for (what, code) in [
        ("takes a fee of one percent", fee),
        ("moves nothing and says true", SAYS_TRUE.parse().unwrap()),
        ("moves nothing and says false", SAYS_FALSE.parse().unwrap()),
        ("reverts", REVERTS.parse().unwrap()),
    ] {
        let answer = sold_after_an_upgrade(&harness, &golem, code).await;
        assert_ne!(answer.status, CallStatus::Success, "{what}: {answer:#?}");
        assert_eq!(harness.sent().await, sent, "{what}: something was signed: {answer:#?}");
        upgrade(&harness, SandboxToken::Uni, honest.clone()).await;
    }
    let answer = sold_after_an_upgrade(&harness, &golem, honest).await;
    assert_eq!(answer.status, CallStatus::Success, "the token itself is sold: {answer:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_whose_transfers_do_nothing_is_neither_bought_nor_sold() {
    let (harness, golem) = harness().await;
    let sent = harness.sent().await;
    for code in [SAYS_TRUE, SAYS_FALSE, REVERTS] {
        upgrade(&harness, SandboxToken::Uni, code.parse().unwrap()).await;
        for action in [swap("UNI", "USDC", "0.000000000000000001"), swap("USDC", "UNI", "20")] {
            let answer = golem.call("preview_action", action).await;
            assert_ne!(answer.status, CallStatus::Simulated, "{code}: {answer:#?}");
        }
    }
    assert_eq!(harness.sent().await, sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_upgraded_between_preview_and_commit_is_not_bought() {
    let (harness, golem) = harness().await;
    let (honest, fee) =
        (code_of(&harness, SandboxToken::Uni).await, code_of(&harness, SandboxToken::FeeOnTransfer).await);
    let sent = harness.sent().await;
    for (what, code) in [
        ("takes a fee of one percent", fee),
        ("moves nothing and says true", SAYS_TRUE.parse().unwrap()),
        ("moves nothing and says false", SAYS_FALSE.parse().unwrap()),
        ("reverts", REVERTS.parse().unwrap()),
    ] {
        let previewed = golem.call("preview_action", swap("USDC", "UNI", "20")).await;
        assert_eq!(previewed.status, CallStatus::Simulated, "{previewed:#?}");
        upgrade(&harness, SandboxToken::Uni, code).await;
        let answer = golem.call("commit_action", permit(&previewed)).await;
        assert_ne!(answer.status, CallStatus::Success, "{what}: {answer:#?}");
        assert_eq!(harness.sent().await, sent, "{what}: something was signed: {answer:#?}");
        upgrade(&harness, SandboxToken::Uni, honest.clone()).await;
    }
}

// A token whose owner turns faults on and off: `TrickToken` of the fixtures, in place of UNI.

/// `keccak256("eip1967.proxy.implementation") - 1` ([ERC-1967](https://eips.ethereum.org/EIPS/eip-1967)).
const IMPLEMENTATION: U256 = uint!(0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc_U256);
const TRICK: U256 = uint!(0x100000000000000000000000000000000_U256);
const HOOK: U256 = uint!(0x100000000000000000000000000000001_U256);

const HONEST: u64 = 0;
const CALLS_HOOK: u64 = 1;
const MOVES_TWICE: u64 = 2;
const ALLOWS_HOOK: u64 = 3;
const DENIES_TRANSFER: u64 = 4;
const DENIES_APPROVAL: u64 = 5;
const HALVES_BALANCES: u64 = 6;
const DENIES_TRANSFER_AND_STAYS: u64 = 7;
const DENIES_APPROVAL_AND_STAYS: u64 = 8;
const CONFIRMS_APPROVAL_AND_STAYS: u64 = 9;
const ALLOWS_HOOK_TOO: u64 = 10;

/// Address of the implementation.
const BEHIND: Address = address!("0x00000000000000000000000000000000000be41d");
const ATTACKER: Address = address!("0x00000000000000000000000000000000000a77ac");
const PERMIT2: Address = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3");

fn creation(hex: &str, arguments: Vec<u8>) -> Bytes {
    hex::decode(hex.trim()).unwrap().into_iter().chain(arguments).collect::<Vec<u8>>().into()
}

/// Slot of `key` in the mapping at `slot`, in Solidity's layout.
fn mapped(key: Address, slot: U256) -> U256 {
    keccak256((key, slot).abi_encode()).into()
}

fn balance_slot(owner: Address) -> U256 {
    mapped(owner, uint!(3_U256))
}

fn allowance_slot(owner: Address, spender: Address) -> U256 {
    mapped(spender, mapped(owner, uint!(4_U256)))
}

fn whole(tokens: u64) -> U256 {
    U256::from(tokens) * U256::from(10).pow(U256::from(18))
}

async fn store(harness: &GolemHarness, at: Address, slot: U256, value: U256) {
    let provider = harness.world.chains()[0].client.provider();
    let params = json!([at, slot, alloy::primitives::B256::from(value)]);
    let _done: Value = provider.raw_request("anvil_setStorageAt".into(), params).await.unwrap();
    mine(harness).await;
}

/// UNI with its own code behind a proxy that its owner controls.
async fn tricked() -> (GolemHarness, AgentSession) {
    let (harness, golem) = harness().await;
    let (uni, honest) = (harness.address(SandboxToken::Uni), code_of(&harness, SandboxToken::Uni).await);
    let provider = harness.world.chains()[0].client.provider();
    let _done: Value = provider.raw_request("anvil_setCode".into(), json!([BEHIND, honest])).await.unwrap();
    let at = harness.deploy(creation(include_str!("../fixtures/contracts/TrickToken.hex"), Vec::new())).await;
    let proxy = provider.get_code_at(at).await.unwrap();
    store(&harness, uni, IMPLEMENTATION, BEHIND.into_word().into()).await;
    upgrade(&harness, SandboxToken::Uni, proxy).await;
    (harness, golem)
}

async fn turn(harness: &GolemHarness, trick: u64, hook: Address) {
    let uni = harness.address(SandboxToken::Uni);
    store(harness, uni, HOOK, hook.into_word().into()).await;
    store(harness, uni, TRICK, U256::from(trick)).await;
}

async fn ask<C: SolCall>(harness: &GolemHarness, token: SandboxToken, call: C) -> C::Return {
    let request = TransactionRequest::default().with_to(harness.address(token)).with_input(call.abi_encode());
    let answer = harness.world.chains()[0].client.provider().call(request).await.unwrap();
    C::abi_decode_returns(&answer).unwrap()
}

async fn held(harness: &GolemHarness, token: SandboxToken) -> U256 {
    ask(harness, token, Erc20::balanceOfCall { owner: harness.world.account.unwrap() }).await
}

async fn allowed(harness: &GolemHarness, token: SandboxToken, spender: Address) -> U256 {
    ask(harness, token, Erc20::allowanceCall { owner: harness.world.account.unwrap(), spender }).await
}

async fn act(golem: &AgentSession, action: Value) -> ToolResponse {
    let previewed = golem.call("preview_action", action).await;
    match previewed.status {
        CallStatus::Simulated => golem.call("commit_action", permit(&previewed)).await,
        _ => previewed,
    }
}

/// Contract that uses an old allowance on `token` whenever UNI moves.
async fn collector(harness: &GolemHarness, token: SandboxToken, allowance: U256) -> Address {
    let account = harness.world.account.unwrap();
    let arguments = (harness.address(token), account).abi_encode_params();
    let hook = harness.deploy(creation(include_str!("../fixtures/contracts/Collector.hex"), arguments)).await;
    store(harness, harness.address(token), allowance_slot(account, hook), allowance).await;
    assert_eq!(allowed(harness, token, hook).await, allowance);
    hook
}

/// Asserts that neither direction is traded with this trick, whether it is active at the preview or only later.
async fn nothing_is_signed(harness: &GolemHarness, golem: &AgentSession, trick: u64, hook: Address, trades: &[Value]) {
    let sent = harness.sent().await;
    for trade in trades {
        turn(harness, HONEST, hook).await;
        let previewed = golem.call("preview_action", trade.clone()).await;
        assert_eq!(previewed.status, CallStatus::Simulated, "{trick}: {previewed:#?}");
        turn(harness, trick, hook).await;
        let answer = golem.call("commit_action", permit(&previewed)).await;
        assert_ne!(answer.status, CallStatus::Success, "{trick}: {answer:#?}");
        assert_eq!(harness.sent().await, sent, "{trick}: something was signed: {answer:#?}");
        let answer = act(golem, trade.clone()).await;
        assert_ne!(answer.status, CallStatus::Success, "{trick}: {answer:#?}");
        assert_eq!(harness.sent().await, sent, "{trick}: something was signed: {answer:#?}");
    }
    turn(harness, HONEST, hook).await;
}

fn both() -> [Value; 2] {
    [swap("UNI", "USDC", "2"), swap("USDC", "UNI", "20")]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_takes_another_token_by_an_old_allowance_blocks_the_signature() {
    let (harness, golem) = tricked().await;
    harness.give(SandboxToken::Dai, whole(300)).await;
    let hook = collector(&harness, SandboxToken::Dai, whole(100)).await;
    nothing_is_signed(&harness, &golem, CALLS_HOOK, hook, &both()).await;
    assert_eq!(held(&harness, SandboxToken::Dai).await, whole(300));
    // The proxy alone does not prevent trading.
    let answer = act(&golem, swap("UNI", "USDC", "2")).await;
    assert_eq!(answer.status, CallStatus::Success, "{answer:#?}");
    assert_eq!(held(&harness, SandboxToken::Uni).await, whole(18));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_moves_more_of_the_token_blocks_the_signature() {
    let (harness, golem) = tricked().await;
    let hook = collector(&harness, SandboxToken::Uni, whole(5)).await;
    nothing_is_signed(&harness, &golem, CALLS_HOOK, hook, &both()).await;
    nothing_is_signed(&harness, &golem, MOVES_TWICE, ATTACKER, &[swap("UNI", "USDC", "2")]).await;
    assert_eq!(held(&harness, SandboxToken::Uni).await, whole(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_grants_an_allowance_during_a_transfer_blocks_the_signature() {
    let (harness, golem) = tricked().await;
    for trick in [ALLOWS_HOOK, ALLOWS_HOOK_TOO] {
        nothing_is_signed(&harness, &golem, trick, ATTACKER, &[swap("UNI", "USDC", "2")]).await;
    }
    assert_eq!(allowed(&harness, SandboxToken::Uni, ATTACKER).await, U256::ZERO);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_transfers_but_returns_false_is_judged_by_balances() {
    let (harness, golem) = tricked().await;
    // Permit2 reverts when a token returns false, and it pays V2 and V3 pools; so does a pool that pays out.
    nothing_is_signed(&harness, &golem, DENIES_TRANSFER, ATTACKER, &both()).await;
    nothing_is_signed(&harness, &golem, DENIES_TRANSFER_AND_STAYS, ATTACKER, &both()).await;
}

/// The return value of `approve` is ignored; the resulting allowance counts.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_returns_false_but_takes_effect_counts_as_given() {
    let (harness, golem) = tricked().await;
    turn(&harness, DENIES_APPROVAL, ATTACKER).await;
    let answer = act(&golem, swap("UNI", "USDC", "2")).await;
    assert_eq!(answer.status, CallStatus::Success, "{answer:#?}");
    assert_eq!(held(&harness, SandboxToken::Uni).await, whole(18));
    assert_eq!(allowed(&harness, SandboxToken::Uni, PERMIT2).await, U256::ZERO);
}

fn kind(kind: &str, amount: Option<&str>) -> Value {
    let mut params = json!({"token": "UNI", "spender": PERMIT2, "chain": "ethereum"});
    if let Some(amount) = amount {
        params["amount"] = json!(amount);
    }
    json!({"kind": kind, "params": params})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_without_effect_is_not_reported_as_done() {
    let (harness, golem) = tricked().await;
    for trick in [DENIES_APPROVAL_AND_STAYS, CONFIRMS_APPROVAL_AND_STAYS] {
        let sent = harness.sent().await;
        turn(&harness, trick, ATTACKER).await;
        for action in [kind("approve", Some("3")), swap("UNI", "USDC", "2")] {
            let answer = act(&golem, action).await;
            assert_ne!(answer.status, CallStatus::Success, "{trick}: {answer:#?}");
            assert_eq!(harness.sent().await, sent, "{trick}: something was signed: {answer:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_without_effect_is_not_reported_as_done() {
    let (harness, golem) = tricked().await;
    let given = act(&golem, kind("approve", Some("3"))).await;
    assert_eq!(given.status, CallStatus::Success, "{given:#?}");
    let sent = harness.sent().await;
    for trick in [DENIES_APPROVAL_AND_STAYS, CONFIRMS_APPROVAL_AND_STAYS] {
        turn(&harness, trick, ATTACKER).await;
        let answer = act(&golem, kind("revoke", None)).await;
        assert_eq!(allowed(&harness, SandboxToken::Uni, PERMIT2).await, whole(3));
        assert_ne!(answer.status, CallStatus::Success, "{trick}: {answer:#?}");
        assert_eq!(harness.sent().await, sent, "{trick}: something was signed: {answer:#?}");
    }
    turn(&harness, HONEST, ATTACKER).await;
    let answer = act(&golem, kind("revoke", None)).await;
    assert_eq!(answer.status, CallStatus::Success, "{answer:#?}");
    assert_eq!(allowed(&harness, SandboxToken::Uni, PERMIT2).await, U256::ZERO);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_upgraded_between_preview_and_commit_blocks_the_signature() {
    let (harness, golem) = tricked().await;
    let uni = harness.address(SandboxToken::Uni);
    let sent = harness.sent().await;
    for (number, code) in [SAYS_TRUE, SAYS_FALSE, REVERTS].into_iter().enumerate() {
        let next = Address::with_last_byte(0xd0 + u8::try_from(number).unwrap());
        let provider = harness.world.chains()[0].client.provider();
        let _done: Value = provider.raw_request("anvil_setCode".into(), json!([next, code])).await.unwrap();
        for trade in both() {
            let previewed = golem.call("preview_action", trade).await;
            assert_eq!(previewed.status, CallStatus::Simulated, "{previewed:#?}");
            store(&harness, uni, IMPLEMENTATION, next.into_word().into()).await;
            let answer = golem.call("commit_action", permit(&previewed)).await;
            assert_ne!(answer.status, CallStatus::Success, "{code}: {answer:#?}");
            assert_eq!(harness.sent().await, sent, "{code}: something was signed: {answer:#?}");
            store(&harness, uni, IMPLEMENTATION, BEHIND.into_word().into()).await;
        }
    }
    let answer = act(&golem, swap("UNI", "USDC", "2")).await;
    assert_eq!(answer.status, CallStatus::Success, "{answer:#?}");
}

// Tokens whose balances change by themselves.

/// Paths of every database below a folder.
fn databases(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let deeper: Vec<_> = folders.iter().flat_map(|folder| databases(folder)).collect();
    files.into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "db")).chain(deeper).collect()
}

/// High-water mark of the account in its ledger.
fn high_water(harness: &GolemHarness) -> MicroUsd {
    let found = databases(harness.folder.path());
    let [found] = found.as_slice() else { panic!("{found:?}") };
    let store = Store::open(StoreConfig::at(found), ALL_MIGRATIONS).unwrap();
    let account = harness.world.account.unwrap();
    store.read(|connection| ledger::usage(connection, 0, 31_337, account, [], 0)).unwrap().high_water
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_whose_balance_shrinks_between_preview_and_commit_is_not_sold() {
    let (harness, golem) = harness().await;
    let (uni, account) = (harness.address(SandboxToken::Uni), harness.world.account.unwrap());
    let sent = harness.sent().await;
    let previewed = golem.call("preview_action", swap("UNI", "USDC", "2")).await;
    assert_eq!(previewed.status, CallStatus::Simulated, "{previewed:#?}");
    store(&harness, uni, balance_slot(account), whole(1)).await;
    let answer = golem.call("commit_action", permit(&previewed)).await;
    let code = answer.error.as_ref().map(|error| error.code());
    assert_eq!(code, Some(ErrorCode::PermitMismatch), "{answer:#?}");
    assert_eq!(harness.sent().await, sent, "something was signed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_balance_that_grows_between_preview_and_commit_neither_raises_the_mark_nor_sells_more() {
    let (harness, golem) = harness().await;
    let (uni, account) = (harness.address(SandboxToken::Uni), harness.world.account.unwrap());
    let first = act(&golem, swap("UNI", "USDC", "2")).await;
    assert_eq!(first.status, CallStatus::Success, "{first:#?}");
    let mark = high_water(&harness);
    assert!(mark > MicroUsd::ZERO);
    let previewed = golem.call("preview_action", swap("UNI", "USDC", "2")).await;
    store(&harness, uni, balance_slot(account), whole(10_000_000)).await;
    let answer = golem.call("commit_action", permit(&previewed)).await;
    assert_eq!(answer.status, CallStatus::Success, "{answer:#?}");
    assert_eq!(held(&harness, SandboxToken::Uni).await, whole(10_000_000) - whole(2));
    assert_eq!(high_water(&harness), mark, "ten million UNI from nowhere are no profit");
}

/// Balances that are shares of a changing total, like those of staked tokens.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_halves_all_balances_between_preview_and_commit_is_not_traded() {
    let (harness, golem) = tricked().await;
    nothing_is_signed(&harness, &golem, HALVES_BALANCES, ATTACKER, &both()).await;
}

static OWN: LazyLock<Sandbox> = LazyLock::new(|| sandbox(5));

/// Swap of 100 of 10,000 USDC; between the second signature and its block, the account's balance becomes `becomes`.
async fn rebased_behind_the_signature(becomes: u64) -> (Result<CommitOutcome, PipelineRefusal>, Vec<ActionEnd>, U256) {
    let world = TestHarness::over(&OWN, 3, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await;
    let (usdc, account) = (world.contract_of(&world.usdc), world.account());
    let preview = world.preview(world.swap(100_000_000).await).await.unwrap();
    let signed = AtomicUsize::new(0);
    *world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
        if signed.fetch_add(1, Ordering::SeqCst) == 1 {
            let devnet = OWN.chains()[0].devnet.clone();
            let rebase = devnet.run(move |chain| {
                chain.set_storage_at(usdc, balance_slot(account), U256::from(becomes));
            });
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(rebase)).unwrap();
        }
    })
    .into_inner()
    .unwrap();
    let committed = world.pipeline.commit(preview.permit.permit_id, Consent::None).await;
    let ends = world.book.ends.lock().unwrap().clone();
    (committed, ends, world.balance(&world.usdc).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_balance_that_shrinks_after_the_signature_is_reported_as_a_mismatch_and_counts_in_full() {
    let (committed, ends, left) = rebased_behind_the_signature(5_000_000_000).await;
    let (committed, truth) = committed.map(|one| (one.clone(), one.truth.unwrap())).unwrap();
    assert_eq!(left, U256::from(4_900_000_000_u64), "only what was declared is taken");
    assert!(!truth.mismatches.is_empty(), "half of the balance is gone: {committed:#?}");
    let [ActionEnd::Done { spent }] = ends.as_slice() else { panic!("{ends:?}") };
    assert!(cents(*spent) >= 10_000, "100 dollars left, and {spent} are counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_balance_that_grows_after_the_signature_does_not_reduce_the_spending() {
    let (committed, ends, left) = rebased_behind_the_signature(50_000_000_000).await;
    let truth = committed.unwrap().truth.unwrap();
    assert_eq!(left, U256::from(49_900_000_000_u64), "only what was declared is taken: {truth:#?}");
    let [ActionEnd::Done { spent }] = ends.as_slice() else { panic!("{ends:?}") };
    assert!(cents(*spent) >= 10_000, "100 dollars left, and {spent} are counted");
}
