//! Actions that pretend only to revoke, cancel or refund.
//!
//! Cases about proposals call the deciding function; those about a Golem use its eight tools on a devnet in this
//! process; those about the binary use one lying endpoint, so that nothing contradicts it.

use alloy::primitives::{Address, Bytes, U256, address, aliases::U48, aliases::U160};
use alloy::providers::Provider as _;
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::abi::erc7683::OriginSettler;
use bardo::abi::permit2::Permit2;
use bardo::base::model::{Phase, StopLevel};
use bardo::engine::{CallStatus, ToolResponse};
use bardo::safety::proposal::{LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent};
use bardo::safety::revocation::{self, only_revokes};
use bardo::safety::simulate::JudgeContext;
use bardo::sandbox::plan::SandboxToken;
use serde_json::{Value, json};

use crate::endpoints::{Attack, account, allowances, balances, chain, code, sent, token};
use bardo_testkit::devnet::ask;
use bardo_testkit::golem_harness::{GolemHarness, permit};

const ACCOUNT: Address = address!("00000000000000000000000000000000000000a1");
const TOKEN: Address = address!("00000000000000000000000000000000000000a2");
const PERMIT2: Address = address!("000000000022D473030F116dDEE9F6B43aC78BA3");
const SETTLER: Address = address!("00000000000000000000000000000000000000a3");
const STRANGER: Address = address!("00000000000000000000000000000000000000a4");

fn context() -> JudgeContext {
    JudgeContext {
        permit2: Some(PERMIT2),
        settler: Some(SETTLER),
        known_tokens: [TOKEN].into(),
        promised: [(TOKEN, U256::from(500))].into(),
        ..JudgeContext::default()
    }
}

fn leg(to: Address, call: impl Into<Bytes>) -> PlanLeg {
    PlanLeg {
        purpose: LegPurpose::Main,
        to,
        value: U256::ZERO,
        data: call.into(),
        gas_limit: 100_000,
        slots: Vec::new(),
    }
}

fn approve(spender: Address, amount: u64) -> Vec<u8> {
    Erc20::approveCall { spender, value: U256::from(amount) }.abi_encode()
}

fn permit2_approve(amount: u64) -> Vec<u8> {
    let (amount, expiration) = (U160::from(amount), U48::from(9));
    Permit2::approveCall { token: TOKEN, spender: STRANGER, amount, expiration }.abi_encode()
}

fn lockdown() -> Vec<u8> {
    let approvals = vec![Permit2::TokenSpenderPair { token: TOKEN, spender: STRANGER }];
    Permit2::lockdownCall { approvals }.abi_encode()
}

fn nonces(mask: u64) -> Vec<u8> {
    Permit2::invalidateUnorderedNoncesCall { wordPos: U256::ZERO, mask: U256::from(mask) }.abi_encode()
}

fn refund() -> Vec<u8> {
    OriginSettler::refundCall { orderId: [7; 32].into() }.abi_encode()
}

fn proposal(intent: ProposalIntent, legs: Vec<PlanLeg>) -> Proposal {
    Proposal {
        chain_id: 31_337,
        tool: bardo::tools::ALL_TOOL_DEFS[0].meta,
        call_id: bardo::base::id::CallId::new(1),
        golem_id: "mallory".parse().unwrap(),
        account: ACCOUNT,
        intent,
        legs,
        outflows: Vec::new(),
        inflows: Vec::new(),
        allowances: Vec::new(),
        trade: None,
        recipients: vec![ACCOUNT],
        order: None,
        files: Vec::new(),
        replaces: None,
        arrival: None,
        expected_outcome: Default::default(),
    }
}

fn revokes(intent: ProposalIntent, legs: Vec<PlanLeg>) -> bool {
    only_revokes(&proposal(intent, legs), 0, &context())
}

#[test]
fn revocations_cancellations_and_refunds_pass() {
    for call in [leg(TOKEN, approve(STRANGER, 0)), leg(PERMIT2, permit2_approve(0)), leg(PERMIT2, lockdown())] {
        assert!(revokes(ProposalIntent::Revoke, vec![call.clone()]), "{call:?}");
    }
    assert!(revokes(ProposalIntent::CancelOrder, vec![leg(PERMIT2, nonces(5))]));
    assert!(revokes(ProposalIntent::Refund, vec![leg(SETTLER, refund())]));
    assert!(revokes(ProposalIntent::Revoke, vec![leg(TOKEN, approve(STRANGER, 0)), leg(PERMIT2, lockdown())]));
}

#[test]
fn another_intent_with_a_revocations_calldata_does_not_count_as_a_revocation() {
    use ProposalIntent::{Approve, Bridge, Identity, PlaceOrder, Swap, Transfer};
    for intent in [Approve, Bridge, Identity, PlaceOrder, Swap, Transfer] {
        assert!(!revokes(intent, vec![leg(TOKEN, approve(STRANGER, 0))]), "{intent:?}");
    }
    // A refund pays the account, so only the intent `Refund` covers it, and that intent covers nothing else.
    for intent in [ProposalIntent::Revoke, ProposalIntent::CancelOrder, Approve, Transfer] {
        assert!(!revokes(intent, vec![leg(SETTLER, refund())]), "{intent:?}");
    }
    for other in [leg(TOKEN, approve(STRANGER, 0)), leg(PERMIT2, lockdown()), leg(PERMIT2, nonces(1))] {
        assert!(!revokes(ProposalIntent::Refund, vec![other]));
    }
}

#[test]
fn an_allowance_of_one_unit_does_not_count_as_a_revocation() {
    assert!(!revokes(ProposalIntent::Revoke, vec![leg(TOKEN, approve(STRANGER, 1))]));
    assert!(!revokes(ProposalIntent::Revoke, vec![leg(PERMIT2, permit2_approve(1))]));
}

#[test]
fn only_permit2s_allowance_may_be_set_to_the_amount_of_open_orders() {
    assert!(revokes(ProposalIntent::Revoke, vec![leg(TOKEN, approve(PERMIT2, 500))]));
    for other in [1, 499, 501] {
        assert!(!revokes(ProposalIntent::Revoke, vec![leg(TOKEN, approve(PERMIT2, other))]), "{other}");
    }
    assert!(revokes(ProposalIntent::Revoke, vec![leg(TOKEN, approve(PERMIT2, 0))]));
    assert!(!revokes(ProposalIntent::Revoke, vec![leg(TOKEN, approve(STRANGER, 500))]));
}

#[test]
fn permit2_calldata_to_another_contract_does_not_count_as_a_revocation() {
    for call in [permit2_approve(0), lockdown(), nonces(1)] {
        for to in [STRANGER, TOKEN, SETTLER] {
            assert!(!revokes(ProposalIntent::Revoke, vec![leg(to, call.clone())]), "{to}");
            assert!(!revokes(ProposalIntent::CancelOrder, vec![leg(to, call.clone())]), "{to}");
        }
    }
}

#[test]
fn a_revocation_mixed_with_another_call_does_not_count() {
    let transfer = Erc20::transferCall { to: STRANGER, value: U256::from(1) }.abi_encode();
    for other in [leg(TOKEN, transfer), leg(TOKEN, approve(STRANGER, 9)), leg(SETTLER, refund())] {
        assert!(!revokes(ProposalIntent::Revoke, vec![leg(PERMIT2, lockdown()), other.clone()]), "{other:?}");
        assert!(!revokes(ProposalIntent::Revoke, vec![other.clone(), leg(PERMIT2, lockdown())]), "{other:?}");
    }
}

#[test]
fn a_revocation_wrapped_in_a_multicall_does_not_count() {
    // `multicall(bytes[])` with the call inside.
    let mut data = vec![0xac, 0x96, 0x50, 0xd8];
    data.extend(lockdown());
    for to in [PERMIT2, TOKEN, STRANGER] {
        assert!(!revokes(ProposalIntent::Revoke, vec![leg(to, data.clone())]));
    }
}

#[test]
fn a_revocation_at_an_unknown_contract_does_not_count() {
    assert!(!revokes(ProposalIntent::Revoke, vec![leg(STRANGER, approve(STRANGER, 0))]));
}

#[test]
fn a_revocation_with_native_value_does_not_count() {
    for (intent, call) in [
        (ProposalIntent::Revoke, leg(TOKEN, approve(STRANGER, 0))),
        (ProposalIntent::CancelOrder, leg(PERMIT2, nonces(1))),
        (ProposalIntent::Refund, leg(SETTLER, refund())),
    ] {
        assert!(!revokes(intent, vec![PlanLeg { value: U256::from(1), ..call }]), "{intent:?}");
    }
}

#[test]
fn a_revocation_that_contains_a_signature_does_not_count() {
    use bardo::abi::permit2::typed::{PermitDetails, PermitSingle};
    let details = PermitDetails { token: TOKEN, amount: U160::MAX, expiration: U48::MAX, nonce: U48::ZERO };
    let permit = PermitSingle { details, spender: STRANGER, sigDeadline: U256::MAX };
    let message = bardo::safety::typed::TypedMessage::Permit2Allowance { permit, permit2: PERMIT2 };
    let slot = bardo::safety::proposal::SignatureSlot { offset: 0, message };
    assert!(!revokes(ProposalIntent::Revoke, vec![PlanLeg { slots: vec![slot], ..leg(PERMIT2, lockdown()) }]));
}

#[test]
fn a_refund_at_a_fake_settler_does_not_count() {
    for to in [STRANGER, TOKEN, PERMIT2] {
        assert!(!revokes(ProposalIntent::Refund, vec![leg(to, refund())]), "{to}");
    }
    let unknown = JudgeContext { settler: None, ..context() };
    assert!(!only_revokes(&proposal(ProposalIntent::Refund, vec![leg(SETTLER, refund())]), 0, &unknown));
}

#[test]
fn a_revocation_with_trailing_bytes_does_not_count() {
    for (to, mut data) in [(TOKEN, approve(STRANGER, 0)), (PERMIT2, lockdown()), (PERMIT2, nonces(1))] {
        data.extend([0; 32]);
        assert!(!revokes(ProposalIntent::Revoke, vec![leg(to, data)]));
    }
}

#[test]
fn a_revocation_that_declares_an_outflow_does_not_count() {
    let listed = bardo::chain::token::TokenInfo {
        id: bardo::chain::token::TokenId::Erc20(TOKEN),
        symbol: Default::default(),
        name: Default::default(),
        decimals: 6,
        listed: true,
    };
    let flow = Outflow { token: listed, amount: U256::from(1) };
    let gives =
        Proposal { outflows: vec![flow], ..proposal(ProposalIntent::Revoke, vec![leg(TOKEN, approve(STRANGER, 0))]) };
    assert!(!only_revokes(&gives, 0, &context()));
}

#[test]
fn a_revocation_with_a_high_gas_limit_or_no_effect_does_not_count() {
    let call = leg(TOKEN, approve(STRANGER, 0));
    let gas = |gas_limit| vec![PlanLeg { gas_limit, ..call.clone() }];
    assert!(revokes(ProposalIntent::Revoke, gas(revocation::MAX_GAS)));
    assert!(!revokes(ProposalIntent::Revoke, gas(revocation::MAX_GAS + 1)));
    assert!(!revokes(ProposalIntent::Revoke, gas(u64::MAX)));
    assert!(!revokes(ProposalIntent::Revoke, vec![call.clone(); 11]), "11 · 100,000 is more than a million");
    assert!(!revokes(ProposalIntent::Revoke, Vec::new()));
    assert!(!revokes(
        ProposalIntent::Revoke,
        vec![leg(PERMIT2, Permit2::lockdownCall { approvals: vec![] }.abi_encode())]
    ));
    assert!(!revokes(ProposalIntent::CancelOrder, vec![leg(PERMIT2, nonces(0))]));
}

#[test]
fn only_the_clean_up_after_a_signed_plan_counts_as_a_revocation() {
    let revocation = |purpose| PlanLeg { purpose, ..leg(TOKEN, approve(STRANGER, 0)) };
    let plan = proposal(ProposalIntent::Swap, vec![leg(STRANGER, vec![1, 2, 3, 4]), revocation(LegPurpose::CleanUp)]);
    assert!(only_revokes(&plan, 1, &context()));
    assert!(!only_revokes(&plan, 0, &context()), "nothing of it is signed");
    let main = proposal(ProposalIntent::Swap, vec![revocation(LegPurpose::Main), revocation(LegPurpose::Main)]);
    assert!(!only_revokes(&main, 1, &context()));
    // A plan that consists only of clean-up steps has no main step.
    let bare = proposal(ProposalIntent::Swap, vec![revocation(LegPurpose::CleanUp), revocation(LegPurpose::CleanUp)]);
    assert!(!only_revokes(&bare, 0, &context()), "nothing of it is signed");
    assert!(only_revokes(&bare, 1, &context()));
}

#[test]
fn stored_bytes_are_rechecked_to_be_a_revocation() {
    let revokes_with = |to, value: u64, data: Vec<u8>, promised: u64| {
        let promised = [(TOKEN, U256::from(promised))].into();
        let contracts = (Some(PERMIT2), Some(SETTLER));
        revocation::is_revoking_call(ACCOUNT, to, U256::from(value), &data, contracts, promised)
    };
    let revokes = |to, value, data| revokes_with(to, value, data, 0);
    assert!(
        revokes(TOKEN, 0, approve(STRANGER, 0)) && revokes(PERMIT2, 0, lockdown()) && revokes(SETTLER, 0, refund())
    );
    assert!(!revokes(TOKEN, 0, approve(STRANGER, 1)) && !revokes(TOKEN, 1, approve(STRANGER, 0)));
    assert!(!revokes(TOKEN, 0, Erc20::transferCall { to: STRANGER, value: U256::from(5) }.abi_encode()));
    assert!(!revokes(PERMIT2, 0, permit2_approve(1)));
    assert!(!revokes(STRANGER, 0, Vec::new()), "a transfer of the native token");
    assert!(revokes(ACCOUNT, 0, Vec::new()), "a cancellation");
    assert!(!revokes(ACCOUNT, 1, Vec::new()) && !revokes(ACCOUNT, 0, vec![1, 2, 3, 4]));
    // Permit2's allowance must be the present amount of open orders, whatever was signed earlier.
    assert!(revokes_with(TOKEN, 0, approve(PERMIT2, 5), 5) && revokes_with(TOKEN, 0, approve(PERMIT2, 0), 5));
    assert!(!revokes_with(TOKEN, 0, approve(PERMIT2, 6), 5) && !revokes_with(TOKEN, 0, approve(PERMIT2, 4), 5));
    assert!(!revokes_with(TOKEN, 0, approve(STRANGER, 5), 5));
}

// With the binary and one lying endpoint.

/// Calls a tool without approval.
fn call_without_approval(attack: &Attack, tool: &str, params: &Value) -> Value {
    let (text, _) = attack.run(&["call", tool, &params.to_string(), "--approve", "never"]);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Attack by a single endpoint with this lie, under a stop of this level.
fn attack_under_stop(lie: fn() -> bardo_testkit::lying_rpc::Lie, level: &str) -> Attack {
    let attack = Attack::new(1, 0, lie());
    attack.run(&["halt", "--level", level]);
    attack
}

/// Calls a tool without approval; asserts that it is blocked with this code and that nothing is sent.
fn assert_blocked(attack: &Attack, tool: &str, params: &Value, code: &str) {
    let before = sent();
    let answer = call_without_approval(attack, tool, params);
    assert_eq!(answer["status"], "blocked", "{answer:#}");
    assert_eq!(answer["error"]["code"], code, "{answer:#}");
    assert_eq!(sent(), before, "something was signed: {answer:#}");
}

fn permit2_allowance(amount: &str) -> Value {
    json!({"token": "USDC", "spender": PERMIT2, "amount": amount, "chain": "ethereum"})
}

#[test]
fn a_false_allowance_slot_gets_no_approval_past_a_stop() {
    for level in ["halt", "exit-only"] {
        assert_blocked(&attack_under_stop(allowances, level), "token_approve", &permit2_allowance("max"), "HALTED");
    }
}

#[test]
fn a_false_allowance_slot_gets_no_approval_past_the_caps() {
    let attack = Attack::new(1, 0, allowances());
    let policy = "preset = \"demo\"\nmax_daily_spend_usd = \"0\"\n";
    std::fs::write(attack.home().join("policy-devnet.toml"), policy).unwrap();
    assert_blocked(&attack, "token_approve", &permit2_allowance("max"), "SAFETY_SPENDING_LIMIT_EXCEEDED");
}

#[test]
fn false_token_code_and_balances_get_no_transfer_or_approval_past_a_stop() {
    let transfer = json!({"token": "USDC", "recipient": STRANGER, "amount": "5", "chain_id": "ethereum"});
    for lie in [code, balances] {
        for (tool, params) in [("wallet_transfer_token", &transfer), ("token_approve", &permit2_allowance("5"))] {
            let attack = attack_under_stop(lie, "exit-only");
            let before = sent();
            let answer = call_without_approval(&attack, tool, params);
            assert_ne!(answer["status"], "success", "{answer:#}");
            assert_eq!(sent(), before, "something was signed: {answer:#}");
        }
    }
}

/// Allowance of Permit2 on the account's USDC, from the chain.
fn current_allowance() -> U256 {
    let call = Erc20::allowanceCall { owner: account().parse().unwrap(), spender: PERMIT2 }.abi_encode();
    let call = json!([{"to": token("USDC"), "data": Bytes::from(call)}, "latest"]);
    ask(chain().devnet.url(0), "eth_call", call).as_str().unwrap().parse().unwrap()
}

#[test]
fn under_a_stop_a_lower_allowance_is_blocked_and_a_revocation_passes() {
    let attack = Attack::new(1, 0, Box::new(|_, _| {}));
    let answer = attack.call("token_approve", &permit2_allowance("900"));
    assert_eq!(answer["status"], "success", "{answer:#}");
    attack.run(&["halt"]);
    for amount in ["899", "898", "0.000001"] {
        assert_blocked(&attack, "token_approve", &permit2_allowance(amount), "HALTED");
    }
    assert_eq!(current_allowance(), U256::from(900_000_000));
    let answer = call_without_approval(
        &attack,
        "token_revoke",
        &json!({"token": "USDC", "spender": PERMIT2, "chain": "ethereum"}),
    );
    assert_eq!(answer["status"], "success", "{answer:#}");
    assert_eq!(current_allowance(), U256::ZERO);
}

// Through the agent protocol.

fn kind(kind: &str, token: &str, amount: Option<&str>) -> Value {
    let mut params = json!({"token": token, "spender": PERMIT2, "chain": "ethereum"});
    if let Some(amount) = amount {
        params["amount"] = json!(amount);
    }
    json!({"kind": kind, "params": params})
}

async fn act(golem: &bardo::golem::agent_api::AgentSession, action: Value) -> ToolResponse {
    let previewed = golem.call("preview_action", action).await;
    match previewed.status {
        CallStatus::Simulated => golem.call("commit_action", permit(&previewed)).await,
        _ => previewed,
    }
}

fn violated(answer: &ToolResponse) -> String {
    serde_json::to_string(&answer.error).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_stop_a_golem_may_only_revoke_an_allowance_completely() {
    let harness = GolemHarness::with_policy("preset = \"demo\"\n").await;
    let golem = harness.golem("mallory", "trade-executor");
    let given = act(&golem, kind("approve", "DAI", Some("900"))).await;
    assert_eq!(given.status, CallStatus::Success, "{given:#?}");
    for level in [StopLevel::Pause, StopLevel::ExitOnly, StopLevel::Flatten, StopLevel::Halt] {
        harness.stop.raise(level, "a test", "operator", 1).unwrap();
        let lowered = act(&golem, kind("approve", "DAI", Some("899"))).await;
        assert_eq!(lowered.status, CallStatus::Blocked, "{level}: {lowered:#?}");
    }
    harness.phase.send_replace(Phase::Terminal);
    let gone = act(&golem, kind("revoke", "DAI", None)).await;
    assert_eq!(gone.status, CallStatus::Success, "{gone:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_revocations_ends_at_the_rate_for_every_caller() {
    let harness = GolemHarness::with_policy("preset = \"demo\"\nmax_revocations_per_hour = 1\n").await;
    let golem = harness.golem("mallory", "trade-executor");
    for (round, expected) in [(0, CallStatus::Success), (1, CallStatus::Blocked)] {
        let given = act(&golem, kind("approve", "DAI", Some("5"))).await;
        assert_eq!(given.status, CallStatus::Success, "{given:#?}");
        let gone = act(&golem, kind("revoke", "DAI", None)).await;
        assert_eq!(gone.status, expected, "{round}: {gone:#?}");
    }
    // Another Golem of the same account, after the first: the ledger counts per account.
    let other = harness.golem("trudy", "trade-executor");
    let gone = act(&other, kind("revoke", "DAI", None)).await;
    assert!(violated(&gone).contains("max_revocations_per_hour"), "{gone:#?}");
    let allowance = Erc20::allowanceCall { owner: harness.world.account.unwrap(), spender: PERMIT2 }.abi_encode();
    let request = alloy::rpc::types::TransactionRequest::default().to(harness.address(SandboxToken::Dai));
    let request = request.input(Bytes::from(allowance).into());
    let allowed = harness.world.chains()[0].client.provider().call(request).await.unwrap();
    assert_ne!(U256::from_be_slice(&allowed), U256::ZERO, "the refused revocation was not sent");
}
