//! Payloads with one fault each: in the payload, in its declarations and signatures, or in its simulation. They start
//! from the valid payload of `properties`.

use alloy::primitives::{Bytes, U256};
use bardo::base::text::SafeText;
use bardo::chain::evm::PLACEHOLDER_SIGNATURE;
use bardo::chain::fork::{
    AllowanceChange, BalanceChange, ExecutionStatus, PinnedBlock, SimulatedOutcome, Simulation, StateChanges,
};
use bardo::chain::network::AddressBook;
use bardo::chain::token::TokenId;
use bardo::safety::permit::{ActionPermit, PermitFault};
use bardo::safety::proposal::{AllowanceKind, Inflow, LegPurpose, SignedOrder};
use bardo::safety::simulate::{JudgeContext, declared, judge, order_faults};
use bardo::safety::typed::TypedMessage;
use bardo::safety::{PayloadError, PayloadOrder, PayloadParts, SigningPayload};
use bardo::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft};
use tokio::time::Instant;

use crate::properties::{
    GIVEN, ME, OTHER, PERMIT2, POOL, WANTED, change, honest, number, single, valid_parts, with_order,
};

fn around() -> JudgeContext {
    JudgeContext { permit2: Some(PERMIT2), ..JudgeContext::default() }
}

#[test]
fn the_parts_of_a_payload_must_match() {
    assert!(SigningPayload::new(valid_parts()).is_ok());
    type Wrong = (fn(&mut PayloadParts), fn(&PayloadError) -> bool);
    let wrong: &[Wrong] = &[
        (|parts| parts.legs.clear(), |error| matches!(error, PayloadError::Legs(0))),
        (|parts| with_order(parts, 1, POOL), |_| true),
        (
            |parts| {
                with_order(parts, 1, POOL);
                parts.order = None;
            },
            |error| matches!(error, PayloadError::Order),
        ),
        (|parts| parts.fees.max_fee_per_gas = 0, |error| matches!(error, PayloadError::Fees)),
        (|parts| parts.fees.max_priority_fee_per_gas = 1_001, |error| matches!(error, PayloadError::Fees)),
        (|parts| parts.legs[0].from = OTHER, |error| matches!(error, PayloadError::Leg { .. })),
        (|parts| parts.legs[0].purpose = LegPurpose::CleanUp, |error| matches!(error, PayloadError::Leg { .. })),
        (|parts| parts.legs[0].slots.clear(), |error| matches!(error, PayloadError::Leg { .. })),
        (|parts| parts.legs[0].gas_limit = 199_999, |error| matches!(error, PayloadError::Leg { .. })),
        (
            |parts| single(&mut parts.legs[0].slots[0].message).spender = OTHER,
            |error| matches!(error, PayloadError::Slot { .. }),
        ),
        // 65 bytes from here reach past the 200 of the calldata.
        (|parts| parts.legs[0].slots[0].offset = 136, |error| matches!(error, PayloadError::Slot { .. })),
        (
            |parts| {
                let (slot, proposed) = (parts.legs[0].slots[0].clone(), parts.proposal.legs[0].slots[0].clone());
                parts.legs[0].slots.push(slot);
                parts.proposal.legs[0].slots.push(proposed);
            },
            |error| matches!(error, PayloadError::Slot { slot: 1, .. }),
        ),
    ];
    for (at, (change_parts, is)) in wrong.iter().enumerate() {
        let mut one = valid_parts();
        change_parts(&mut one);
        match SigningPayload::new(one) {
            Err(error) => assert!(is(&error), "{at}: {error}"),
            // The second case adds an order to the transactions, which is a valid payload.
            Ok(payload) => assert!(at == 1 && payload.order().is_some(), "{at} passes"),
        }
    }
}

/// A permit whose hash was computed for other bounds does not fit this payload.
#[test]
fn a_permit_hashed_for_other_bounds_is_rejected() {
    let payload = SigningPayload::new(valid_parts()).unwrap();
    let policy = alloy::primitives::keccak256("policy");
    let mut permit = ActionPermit::issue(&payload, policy, 1, 60_000);
    permit.bounds.outflows[0].amount = number(5_000);
    permit.simulation_hash = payload.binding_hash(policy, &permit.bounds);
    assert_eq!(permit.verify(&payload, policy, 1, Instant::now()), Err(PermitFault::Mismatch));
}

/// The valid payload with the placeholder for its signature.
fn signable() -> PayloadParts {
    let mut parts = valid_parts();
    let mut data = parts.legs[0].data.to_vec();
    data[100..165].copy_from_slice(&PLACEHOLDER_SIGNATURE);
    parts.legs[0].data = Bytes::from(data.clone());
    parts.proposal.legs[0].data = Bytes::from(data);
    parts
}

/// Changes the message to sign, in the proposal and in the payload.
fn change_message(parts: &mut PayloadParts, change: impl Fn(&mut TypedMessage)) {
    change(&mut parts.proposal.legs[0].slots[0].message);
    change(&mut parts.legs[0].slots[0].message);
}

#[test]
fn declarations_and_messages_are_checked_before_the_simulation() {
    let found = |change_parts: &dyn Fn(&mut PayloadParts)| -> Vec<(&'static str, String)> {
        let mut parts = signable();
        change_parts(&mut parts);
        let faults = declared(&SigningPayload::new(parts).unwrap(), &around());
        faults.into_iter().map(|fault| (fault.rule.as_str(), fault.declared.to_string())).collect()
    };
    assert!(found(&|_| {}).is_empty());
    type Wrong<'a> = (&'a str, &'a str, &'a dyn Fn(&mut PayloadParts));
    let wrong: &[Wrong<'_>] = &[
        ("frame", "the proposed call", &|parts| parts.legs[0].value = number(1)),
        ("frame", "the proposed call", &|parts| parts.legs[0].to = OTHER),
        ("signature", "placeholder", &|parts| {
            let data = crate::properties::valid_parts().legs[0].data.clone();
            parts.legs[0].data = data.clone();
            parts.proposal.legs[0].data = data;
        }),
        ("signature", "a signature of the account", &|parts| parts.legs[0].slots[0].signer = OTHER),
        ("signature", "the known Permit2", &|parts| {
            change_message(parts, |message| {
                if let TypedMessage::Permit2Allowance { permit2, .. } = message {
                    *permit2 = OTHER;
                }
            });
        }),
        ("signature", "nothing of", &|parts| change_message(parts, |message| single(message).spender = OTHER)),
        ("signature", "at most 0.000000000000001 IN (", &|parts| {
            change_message(parts, |message| {
                single(message).details.amount = alloy::primitives::aliases::U160::from(1_001u64)
            });
        }),
        ("signature", "nothing after", &|parts| {
            change_message(parts, |message| single(message).sigDeadline = number(1_790_000_301));
        }),
        ("signature", "nothing after", &|parts| {
            let later = alloy::primitives::aliases::U48::from(1_790_000_301u64);
            change_message(parts, |message| single(message).details.expiration = later);
        }),
        ("trade", "at least 0.0000000000000009 OUT (", &|parts| parts.proposal.inflows[0].at_least = number(899)),
        ("trade", "at least 0.0000000000000009 OUT (", &|parts| parts.proposal.inflows[0].recipient = OTHER),
        ("trade", "all of the 0.000000000000001 IN (", &|parts| parts.proposal.outflows[0].amount = number(999)),
    ];
    for (rule, declared, change_parts) in wrong {
        let found = found(change_parts);
        assert!(found.iter().any(|one| one.0 == *rule && one.1.contains(declared)), "{rule} {declared}: {found:?}");
    }
}

fn outcome(status: ExecutionStatus) -> SimulatedOutcome {
    SimulatedOutcome { status, gas_used: 100_000, output: Bytes::new(), created: None, logs: vec![], changes: None }
}

/// Rules that these outcomes and changes of this payload violate.
fn judged(parts: PayloadParts, outcomes: Vec<SimulatedOutcome>, changes: StateChanges) -> Vec<(&'static str, String)> {
    let simulation =
        Simulation { pinned: PinnedBlock { chain_id: 31_337, number: 1, hash: Default::default() }, outcomes, changes };
    let faults = judge(&SigningPayload::new(parts).unwrap(), 0, simulation, 500, &around()).1;
    faults.into_iter().map(|fault| (fault.rule.as_str(), format!("{}: {}", fault.declared, fault.found))).collect()
}

/// Asserts that one of the faults is of this rule and contains these words.
fn assert_fault(found: &[(&'static str, String)], rule: &str, words: &str) {
    assert!(found.iter().any(|one| one.0 == rule && one.1.contains(words)), "no {rule} with {words}: {found:?}");
}

#[test]
fn a_simulation_must_run_every_transaction_and_read_every_change() {
    let success = || vec![outcome(ExecutionStatus::Success)];
    assert!(judged(valid_parts(), success(), honest()).is_empty());
    let halted = outcome(ExecutionStatus::Halted(SafeText::clean("out of gas", 20)));
    assert_fault(&judged(valid_parts(), vec![halted], honest()), "simulation", "transaction 1 halts");
    assert_fault(&judged(valid_parts(), vec![], honest()), "simulation", "transaction 1 was not");
    // An order's settlement is part of the simulation, and must succeed.
    let mut ordered = valid_parts();
    ordered.proposal.legs.clear();
    ordered.legs.clear();
    with_order(&mut ordered, 1_000, POOL);
    assert_fault(&judged(ordered.clone(), vec![], honest()), "simulation", "it was not");
    assert_fault(
        &judged(ordered, vec![outcome(ExecutionStatus::Halted(SafeText::clean("stack", 20)))], honest()),
        "simulation",
        "it halts",
    );
    // Only one main transaction is permitted; with an order there are two.
    let mut both = valid_parts();
    with_order(&mut both, 1_000, POOL);
    assert_fault(&judged(both, vec![outcome(ExecutionStatus::Success); 2], honest()), "plan", "2 of them");
}

#[test]
fn helper_transactions_move_nothing_and_grant_only_what_is_needed() {
    // The same call, declared as a helper that only grants an allowance.
    let mut helper = valid_parts();
    helper.proposal.legs[0].purpose = LegPurpose::Approve;
    helper.legs[0].purpose = LegPurpose::Approve;
    let moves = StateChanges {
        balances: vec![BalanceChange { token: GIVEN, holder: ME, balance: change(number(5), number(4)) }],
        ..StateChanges::default()
    };
    let step = SimulatedOutcome { changes: Some(moves), ..outcome(ExecutionStatus::Success) };
    assert_fault(&judged(helper, vec![step], honest()), "plan", "moves");
    // Before the action an allowance may cover the action's input, for its declared spender only.
    let allows = |spender, is: u64| StateChanges {
        allowances: vec![AllowanceChange {
            token: GIVEN,
            owner: ME,
            spender,
            allowance: change(U256::ZERO, number(is)),
        }],
        ..StateChanges::default()
    };
    let after = |spender, is| {
        vec![SimulatedOutcome { changes: Some(allows(spender, is)), ..outcome(ExecutionStatus::Success) }]
    };
    let after_first = |amount: &str| format!("{amount} IN ({GIVEN}) after transaction 1");
    assert!(judged(valid_parts(), after(PERMIT2, 1_000), honest()).is_empty());
    assert_fault(
        &judged(valid_parts(), after(PERMIT2, 1_001), honest()),
        "allowance",
        &after_first("0.000000000000001001"),
    );
    assert_fault(&judged(valid_parts(), after(POOL, 1), honest()), "allowance", &after_first("0.000000000000000001"));
}

#[test]
fn declared_inflows_must_appear_in_the_simulation() {
    let success = || vec![outcome(ExecutionStatus::Success)];
    // The token does not arrive at all.
    let mut none = honest();
    none.balances.retain(|one| one.token != WANTED);
    assert_fault(&judged(valid_parts(), success(), none), "inflow", "nothing");
    // An amount for another account does not arrive.
    let mut pays = valid_parts();
    let inflow = Inflow { recipient: OTHER, at_least: number(5), ..pays.proposal.inflows[0].clone() };
    pays.proposal.inflows.push(inflow);
    assert_fault(&judged(pays, success(), honest()), "inflow", "at least 0.000000000000000005 OUT (");
    // The native token does not arrive.
    let mut native = valid_parts();
    native.proposal.inflows[0].token.id = TokenId::Native;
    let mut untouched = honest();
    untouched.accounts.clear();
    assert_fault(&judged(native, success(), untouched), "inflow", "at least 0.0000000000000009 OUT to");
    // Nothing arrives, and an undeclared account receives the input.
    let mut gift = valid_parts();
    gift.proposal.inflows.clear();
    gift.proposal.recipients = vec![OTHER];
    assert_fault(&judged(gift, success(), honest()), "recipient", &POOL.to_string());
    // An allowance inside Permit2 that was declared as one of the token.
    let mut kept = valid_parts();
    kept.proposal.allowances[1].kind = AllowanceKind::Erc20;
    let mut stays = honest();
    stays.permit2_allowances[0].allowance.after.amount = number(1);
    assert_fault(&judged(kept, success(), stays), "allowance", "none of");
}

#[test]
fn an_order_is_checked_before_its_simulation() {
    let found = |change_parts: &dyn Fn(&mut PayloadParts)| {
        let mut parts = valid_parts();
        with_order(&mut parts, 1_000, POOL);
        change_parts(&mut parts);
        let faults = order_faults(&SigningPayload::new(parts).unwrap(), &AddressBook::default(), 1, None);
        faults
            .into_iter()
            .map(|fault| (fault.rule.as_str(), format!("{}: {}", fault.declared, fault.found)))
            .collect::<Vec<_>>()
    };
    // An empty book knows neither settler nor Permit2 nor code.
    for words in ["the known Permit2", "of the address book: none", "a contract with known code", "states what arrives"]
    {
        assert_fault(&found(&|_| {}), "order", words);
    }
    assert_fault(&found(&|parts| parts.order.as_mut().unwrap().signer = OTHER), "order", "a signature of the account");
    assert_fault(
        &found(&|parts| parts.proposal.order.as_mut().unwrap().holder = ME),
        "order",
        "a filler other than the account",
    );
    // The order takes 1,000, and only 999 are declared.
    assert_fault(
        &found(&|parts| parts.proposal.outflows[0].amount = number(999)),
        "order",
        "at most 0.000000000000000999 IN (",
    );
    // An auction for a book without a cosigner.
    let auction = OrderDraft {
        reactor: OTHER,
        swapper: ME,
        recipient: ME,
        nonce: number(4),
        deadline: 1_790_000_300,
        cosigner: POOL,
        token_in: GIVEN,
        token_out: WANTED,
        legs: OrderAmounts::ExactIn { amount_in: number(1_000), start_out: number(950), least_out: number(900) },
        auction: AuctionTerms::CosignedTimes,
    };
    let message = TypedMessage::UniswapxOrder { permit2: PERMIT2, order: Box::new(auction.order().unwrap()) };
    assert_fault(
        &found(&|parts| {
            parts.proposal.order =
                Some(Box::new(SignedOrder { message: message.clone(), holder: POOL, arrival: None }));
            parts.order = Some(PayloadOrder { message: message.clone(), signer: ME });
        }),
        "order",
        "a known cosigner",
    );
    // A message that no known contract settles.
    assert_fault(
        &found(&|parts| {
            let message = parts.legs[0].slots[0].message.clone();
            parts.proposal.order =
                Some(Box::new(SignedOrder { message: message.clone(), holder: POOL, arrival: None }));
            parts.order = Some(PayloadOrder { message, signer: ME });
        }),
        "order",
        "a known contract settles",
    );
}
