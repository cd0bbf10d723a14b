//! One fault at a time: in a signing payload, in its declarations and signatures, in its simulation. The payload is the
//! valid one of `properties`.

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

use crate::properties::{GIVEN, ME, OTHER, PERMIT2, POOL, WANTED, change, frame, honest, number, single, with_order};

fn around() -> JudgeContext {
    JudgeContext { permit2: Some(PERMIT2), ..JudgeContext::default() }
}

#[test]
fn the_parts_of_a_payload_must_match() {
    assert!(SigningPayload::new(frame()).is_ok());
    type Wrong = (fn(&mut PayloadParts), fn(&PayloadError) -> bool);
    let wrong: &[Wrong] = &[
        (|frame| frame.legs.clear(), |error| matches!(error, PayloadError::Legs(0))),
        (|frame| with_order(frame, 1, POOL), |_| true),
        (
            |frame| {
                with_order(frame, 1, POOL);
                frame.order = None;
            },
            |error| matches!(error, PayloadError::Order),
        ),
        (|frame| frame.fees.max_fee_per_gas = 0, |error| matches!(error, PayloadError::Fees)),
        (|frame| frame.fees.max_priority_fee_per_gas = 1_001, |error| matches!(error, PayloadError::Fees)),
        (|frame| frame.legs[0].from = OTHER, |error| matches!(error, PayloadError::Leg { .. })),
        (|frame| frame.legs[0].purpose = LegPurpose::CleanUp, |error| matches!(error, PayloadError::Leg { .. })),
        (|frame| frame.legs[0].slots.clear(), |error| matches!(error, PayloadError::Leg { .. })),
        (|frame| frame.legs[0].gas_limit = 199_999, |error| matches!(error, PayloadError::Leg { .. })),
        (
            |frame| single(&mut frame.legs[0].slots[0].message).spender = OTHER,
            |error| matches!(error, PayloadError::Slot { .. }),
        ),
        // 65 bytes from here reach past the 200 of the calldata.
        (|frame| frame.legs[0].slots[0].offset = 136, |error| matches!(error, PayloadError::Slot { .. })),
        (
            |frame| {
                let (slot, proposed) = (frame.legs[0].slots[0].clone(), frame.proposal.legs[0].slots[0].clone());
                frame.legs[0].slots.push(slot);
                frame.proposal.legs[0].slots.push(proposed);
            },
            |error| matches!(error, PayloadError::Slot { slot: 1, .. }),
        ),
    ];
    for (at, (spoil, is)) in wrong.iter().enumerate() {
        let mut one = frame();
        spoil(&mut one);
        match SigningPayload::new(one) {
            Err(error) => assert!(is(&error), "{at}: {error}"),
            // An order beside the transactions is valid as such.
            Ok(payload) => assert!(at == 1 && payload.order().is_some(), "{at} passes"),
        }
    }
}

/// A permit whose hash was computed for other bounds does not fit this payload.
#[test]
fn a_permit_hashed_for_other_bounds_is_rejected() {
    let payload = SigningPayload::new(frame()).unwrap();
    let policy = alloy::primitives::keccak256("policy");
    let mut permit = ActionPermit::issue(&payload, policy, 1, 60_000);
    permit.bounds.outflows[0].amount = number(5_000);
    permit.simulation_hash = payload.binding_hash(policy, &permit.bounds);
    assert_eq!(permit.verify(&payload, policy, 1, Instant::now()), Err(PermitFault::Mismatch));
}

/// The valid payload with the placeholder for its signature.
fn signable() -> PayloadParts {
    let mut frame = frame();
    let mut data = frame.legs[0].data.to_vec();
    data[100..165].copy_from_slice(&PLACEHOLDER_SIGNATURE);
    frame.legs[0].data = Bytes::from(data.clone());
    frame.proposal.legs[0].data = Bytes::from(data);
    frame
}

fn signs(frame: &mut PayloadParts, change: impl Fn(&mut TypedMessage)) {
    change(&mut frame.proposal.legs[0].slots[0].message);
    change(&mut frame.legs[0].slots[0].message);
}

#[test]
fn declarations_and_messages_are_checked_before_the_simulation() {
    let found = |spoil: &dyn Fn(&mut PayloadParts)| -> Vec<(&'static str, String)> {
        let mut frame = signable();
        spoil(&mut frame);
        let faults = declared(&SigningPayload::new(frame).unwrap(), &around());
        faults.into_iter().map(|fault| (fault.rule.as_str(), fault.declared.to_string())).collect()
    };
    assert!(found(&|_| {}).is_empty());
    type Wrong<'a> = (&'a str, &'a str, &'a dyn Fn(&mut PayloadParts));
    let wrong: &[Wrong<'_>] = &[
        ("frame", "the proposed call", &|frame| frame.legs[0].value = number(1)),
        ("frame", "the proposed call", &|frame| frame.legs[0].to = OTHER),
        ("signature", "placeholder", &|frame| {
            let data = crate::properties::frame().legs[0].data.clone();
            frame.legs[0].data = data.clone();
            frame.proposal.legs[0].data = data;
        }),
        ("signature", "a signature of the account", &|frame| frame.legs[0].slots[0].signer = OTHER),
        ("signature", "the known Permit2", &|frame| {
            signs(frame, |message| {
                if let TypedMessage::Permit2Allowance { permit2, .. } = message {
                    *permit2 = OTHER;
                }
            });
        }),
        ("signature", "nothing of", &|frame| signs(frame, |message| single(message).spender = OTHER)),
        ("signature", "at most 0.000000000000001 IN (", &|frame| {
            signs(frame, |message| single(message).details.amount = alloy::primitives::aliases::U160::from(1_001u64));
        }),
        ("signature", "nothing after", &|frame| {
            signs(frame, |message| single(message).sigDeadline = number(1_790_000_301));
        }),
        ("signature", "nothing after", &|frame| {
            let later = alloy::primitives::aliases::U48::from(1_790_000_301u64);
            signs(frame, |message| single(message).details.expiration = later);
        }),
        ("trade", "at least 0.0000000000000009 OUT (", &|frame| frame.proposal.inflows[0].at_least = number(899)),
        ("trade", "at least 0.0000000000000009 OUT (", &|frame| frame.proposal.inflows[0].recipient = OTHER),
        ("trade", "all of the 0.000000000000001 IN (", &|frame| frame.proposal.outflows[0].amount = number(999)),
    ];
    for (rule, declared, spoil) in wrong {
        let found = found(spoil);
        assert!(found.iter().any(|one| one.0 == *rule && one.1.contains(declared)), "{rule} {declared}: {found:?}");
    }
}

fn outcome(status: ExecutionStatus) -> SimulatedOutcome {
    SimulatedOutcome { status, gas_used: 100_000, output: Bytes::new(), created: None, logs: vec![], changes: None }
}

/// Rules that these outcomes and changes of this payload violate.
fn judged(frame: PayloadParts, outcomes: Vec<SimulatedOutcome>, changes: StateChanges) -> Vec<(&'static str, String)> {
    let simulation =
        Simulation { pinned: PinnedBlock { chain_id: 31_337, number: 1, hash: Default::default() }, outcomes, changes };
    let faults = judge(&SigningPayload::new(frame).unwrap(), 0, simulation, 500, &around()).1;
    faults.into_iter().map(|fault| (fault.rule.as_str(), format!("{}: {}", fault.declared, fault.found))).collect()
}

fn is(found: &[(&'static str, String)], rule: &str, words: &str) {
    assert!(found.iter().any(|one| one.0 == rule && one.1.contains(words)), "no {rule} with {words}: {found:?}");
}

#[test]
fn a_simulation_must_run_every_transaction_and_read_every_change() {
    let well = || vec![outcome(ExecutionStatus::Success)];
    assert!(judged(frame(), well(), honest()).is_empty());
    let halted = outcome(ExecutionStatus::Halted(SafeText::clean("out of gas", 20)));
    is(&judged(frame(), vec![halted], honest()), "simulation", "transaction 1 halts");
    is(&judged(frame(), vec![], honest()), "simulation", "transaction 1 was not");
    // An order's settlement is part of it, and must have run successfully.
    let mut ordered = frame();
    ordered.proposal.legs.clear();
    ordered.legs.clear();
    with_order(&mut ordered, 1_000, POOL);
    is(&judged(ordered.clone(), vec![], honest()), "simulation", "it was not");
    is(
        &judged(ordered, vec![outcome(ExecutionStatus::Halted(SafeText::clean("stack", 20)))], honest()),
        "simulation",
        "it halts",
    );
    // One main transaction: one plus an order makes two.
    let mut both = frame();
    with_order(&mut both, 1_000, POOL);
    is(&judged(both, vec![outcome(ExecutionStatus::Success); 2], honest()), "plan", "2 of them");
}

#[test]
fn helper_transactions_move_nothing_and_grant_only_what_is_needed() {
    // The same call, declared as one that only grants an allowance.
    let mut helper = frame();
    helper.proposal.legs[0].purpose = LegPurpose::Approve;
    helper.legs[0].purpose = LegPurpose::Approve;
    let moves = StateChanges {
        balances: vec![BalanceChange { token: GIVEN, holder: ME, balance: change(number(5), number(4)) }],
        ..StateChanges::default()
    };
    let step = SimulatedOutcome { changes: Some(moves), ..outcome(ExecutionStatus::Success) };
    is(&judged(helper, vec![step], honest()), "plan", "moves");
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
    assert!(judged(frame(), after(PERMIT2, 1_000), honest()).is_empty());
    is(&judged(frame(), after(PERMIT2, 1_001), honest()), "allowance", &after_first("0.000000000000001001"));
    is(&judged(frame(), after(POOL, 1), honest()), "allowance", &after_first("0.000000000000000001"));
}

#[test]
fn declared_inflows_must_appear_in_the_simulation() {
    let well = || vec![outcome(ExecutionStatus::Success)];
    // The token did not move at all.
    let mut none = honest();
    none.balances.retain(|one| one.token != WANTED);
    is(&judged(frame(), well(), none), "inflow", "nothing");
    // Another account must receive something, and does not.
    let mut pays = frame();
    let inflow = Inflow { recipient: OTHER, at_least: number(5), ..pays.proposal.inflows[0].clone() };
    pays.proposal.inflows.push(inflow);
    is(&judged(pays, well(), honest()), "inflow", "at least 0.000000000000000005 OUT (");
    // The native token must arrive, and the account does not change.
    let mut coin = frame();
    coin.proposal.inflows[0].token.id = TokenId::Native;
    let mut untouched = honest();
    untouched.accounts.clear();
    is(&judged(coin, well(), untouched), "inflow", "at least 0.0000000000000009 OUT to");
    // Nothing returns, and an undeclared account has it.
    let mut gift = frame();
    gift.proposal.inflows.clear();
    gift.proposal.recipients = vec![OTHER];
    is(&judged(gift, well(), honest()), "recipient", &POOL.to_string());
    // An allowance inside Permit2 that was declared as one of the token.
    let mut kept = frame();
    kept.proposal.allowances[1].kind = AllowanceKind::Erc20;
    let mut stays = honest();
    stays.permit2_allowances[0].allowance.after.amount = number(1);
    is(&judged(kept, well(), stays), "allowance", "none of");
}

#[test]
fn an_order_is_checked_before_its_simulation() {
    let found = |spoil: &dyn Fn(&mut PayloadParts)| {
        let mut frame = frame();
        with_order(&mut frame, 1_000, POOL);
        spoil(&mut frame);
        let faults = order_faults(&SigningPayload::new(frame).unwrap(), &AddressBook::default(), 1, None);
        faults
            .into_iter()
            .map(|fault| (fault.rule.as_str(), format!("{}: {}", fault.declared, fault.found)))
            .collect::<Vec<_>>()
    };
    // An empty book knows neither settler nor Permit2 nor code.
    for words in ["the known Permit2", "of the address book: none", "a contract with known code", "states what arrives"]
    {
        is(&found(&|_| {}), "order", words);
    }
    is(&found(&|frame| frame.order.as_mut().unwrap().signer = OTHER), "order", "a signature of the account");
    is(&found(&|frame| frame.proposal.order.as_mut().unwrap().holder = ME), "order", "a filler other than the account");
    // It takes 1,000; one less may leave.
    is(&found(&|frame| frame.proposal.outflows[0].amount = number(999)), "order", "at most 0.000000000000000999 IN (");
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
    is(
        &found(&|frame| {
            frame.proposal.order =
                Some(Box::new(SignedOrder { message: message.clone(), holder: POOL, arrival: None }));
            frame.order = Some(PayloadOrder { message: message.clone(), signer: ME });
        }),
        "order",
        "a known cosigner",
    );
    // A message that no known contract settles.
    is(
        &found(&|frame| {
            let message = frame.legs[0].slots[0].message.clone();
            frame.proposal.order =
                Some(Box::new(SignedOrder { message: message.clone(), holder: POOL, arrival: None }));
            frame.order = Some(PayloadOrder { message, signer: ME });
        }),
        "order",
        "a known contract settles",
    );
}
