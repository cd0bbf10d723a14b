//! Properties that hold for every value: a permit covers only what it was issued for, and a simulation with any
//! undeclared change is detected.

use alloy::primitives::aliases::{U48, U160, U192};
use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::abi::erc7683::AcrossOrderData;
use bardo::base::id::{CallId, GolemId};
use bardo::base::model::ActionClass;
use bardo::base::text::SafeText;
use bardo::base::units::BasisPoints;
use bardo::chain::fork::{
    AccountChange, AccountNonceChange, AllowanceChange, BalanceChange, DetectionGap, ExecutionStatus,
    MultiBalanceChange, NftChange, NonceWordChange, OperatorChange, Permit2Allowance, Permit2AllowanceChange,
    PermitNonceChange, PinnedBlock, QueryFailure, RevertReason, SimulatedOutcome, Simulation, StateChanges,
    StorageWrite, UnansweredQuery, ValueChange, WriteExplanation,
};
use bardo::chain::permit2::{PermitDetails, PermitSingle};
use bardo::chain::token::{TokenId, TokenInfo};
use bardo::intents::CrossChainIntent as Intent7683;
use bardo::safety::account::AccountKind;
use bardo::safety::permit::{ActionPermit, PermitFault};
use bardo::safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent, SignatureSlot,
    SignedOrder, TradeFigures,
};
use bardo::safety::simulate::{JudgeContext, SimulatedEffects, judge};
use bardo::safety::typed::TypedMessage;
use bardo::safety::{FeeBound, PayloadLeg, PayloadOrder, PayloadParts, PayloadSlot, SigningPayload};
use proptest::prelude::*;
use tokio::time::Instant;

use bardo_testkit::harness::TOOL;

pub const ME: Address = Address::repeat_byte(0x11);
pub const ROUTER: Address = Address::repeat_byte(0x22);
pub const PERMIT2: Address = Address::repeat_byte(0x33);
pub const POOL: Address = Address::repeat_byte(0x44);
pub const GIVEN: Address = Address::repeat_byte(0xaa);
pub const WANTED: Address = Address::repeat_byte(0xbb);
pub const OTHER: Address = Address::repeat_byte(0xcc);
const NOW: u64 = 1_790_000_000_000;

fn token(address: Address, symbol: &str) -> TokenInfo {
    let text = SafeText::clean(symbol, 10);
    TokenInfo { id: TokenId::Erc20(address), symbol: text.clone(), name: text, decimals: 18, listed: true }
}

pub fn number(value: u64) -> U256 {
    U256::from(value)
}

/// Signing payload of a swap of 1,000 for at least 900, with a permit signed inside it.
pub fn valid_parts() -> PayloadParts {
    let permit = PermitSingle {
        details: PermitDetails {
            token: GIVEN,
            amount: U160::from(1_000u64),
            expiration: U48::from(1_790_000_300u64),
            nonce: U48::from(7u64),
        },
        spender: ROUTER,
        sigDeadline: number(1_790_000_300),
    };
    let message = TypedMessage::Permit2Allowance { permit2: PERMIT2, permit };
    let data = Bytes::from(vec![0x5a; 200]);
    let leg = PlanLeg {
        purpose: LegPurpose::Main,
        to: ROUTER,
        value: U256::ZERO,
        data: data.clone(),
        gas_limit: 200_000,
        slots: vec![SignatureSlot { offset: 100, message: message.clone() }],
    };
    let bound = |spender, kind| AllowanceBound { token: token(GIVEN, "IN"), spender, kind, at_most: U256::ZERO };
    let proposal = Proposal {
        chain_id: 31_337,
        tool: TOOL,
        call_id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap(),
        golem_id: GolemId::operator(),
        account: ME,
        intent: ProposalIntent::Swap,
        legs: vec![leg],
        outflows: vec![Outflow { token: token(GIVEN, "IN"), amount: number(1_000) }],
        inflows: vec![Inflow {
            token: token(WANTED, "OUT"),
            at_least: number(900),
            expected: number(950),
            recipient: ME,
        }],
        allowances: vec![
            bound(PERMIT2, AllowanceKind::Erc20),
            bound(ROUTER, AllowanceKind::Permit2 { expires_at: 1_790_000_300 }),
        ],
        trade: Some(TradeFigures {
            token_in: token(GIVEN, "IN"),
            token_out: token(WANTED, "OUT"),
            amount_in: number(1_000),
            expected_out: number(950),
            min_out: number(900),
            slippage: BasisPoints::new(50).unwrap(),
            price_impact: BasisPoints::new(10).unwrap(),
            impact_reached: BasisPoints::new(10).unwrap(),
            quoted_at: NOW,
            deadline: 1_790_000_300,
            pools: vec![POOL],
            exact_output: false,
        }),
        recipients: vec![ME],
        order: None,
        files: Vec::new(),
        replaces: None,
        arrival: None,
        expected_outcome: SafeText::clean("a swap", 20),
    };
    let payload = PayloadLeg {
        purpose: LegPurpose::Main,
        from: ME,
        to: ROUTER,
        value: U256::ZERO,
        data,
        gas_limit: 200_000,
        slots: vec![PayloadSlot { offset: 100, message, signer: ME }],
    };
    PayloadParts {
        proposal,
        kind: AccountKind::LocalKey,
        signer: ME,
        payer: ME,
        legs: vec![payload],
        order: None,
        fees: FeeBound { max_fee_per_gas: 1_000, max_priority_fee_per_gas: 10 },
    }
}

pub fn single(message: &mut TypedMessage) -> &mut PermitSingle {
    match message {
        TypedMessage::Permit2Allowance { permit, .. } => permit,
        TypedMessage::Permit2Transfer { .. }
        | TypedMessage::UniswapxOrder { .. }
        | TypedMessage::CrossChainOrder { .. } => unreachable!("the valid payload has an allowance"),
    }
}

/// Applies the same change to the slot in the proposal and in the payload.
fn both(parts: &mut PayloadParts, change: impl Fn(&mut PermitSingle)) {
    change(single(&mut parts.proposal.legs[0].slots[0].message));
    change(single(&mut parts.legs[0].slots[0].message));
}

/// Adds an order beside the transactions, in the proposal and in the payload.
pub fn with_order(parts: &mut PayloadParts, by: u64, holder: Address) {
    let intent = Intent7683 {
        origin_settler: ROUTER,
        user: ME,
        nonce: number(by),
        origin_chain_id: 31_337,
        open_deadline: 1,
        fill_deadline: 2,
        data: AcrossOrderData {
            inputToken: GIVEN,
            inputAmount: number(by),
            outputToken: WANTED,
            outputAmount: number(1),
            destinationChainId: number(31_338),
            recipient: ME.into_word(),
            exclusiveRelayer: Address::ZERO,
            depositNonce: U256::ZERO,
            exclusivityPeriod: 0,
            message: Bytes::new(),
        },
    };
    let message = TypedMessage::CrossChainOrder { permit2: PERMIT2, intent: Box::new(intent) };
    parts.proposal.order = Some(Box::new(SignedOrder { message: message.clone(), holder, arrival: None }));
    parts.order = Some(PayloadOrder { message, signer: ME });
}

type Mutation = (&'static str, fn(&mut PayloadParts, u64));

/// One mutation of each field that a permit binds. The number is never zero.
const MUTATIONS: &[Mutation] = &[
    ("chain", |parts, by| parts.proposal.chain_id ^= by),
    ("tool", |parts, _| parts.proposal.tool.name = "another_tool"),
    ("call", |parts, by| parts.proposal.call_id = CallId::new(by & 0xffff_ffff)),
    ("golem", |parts, _| parts.proposal.golem_id = "ada".parse().unwrap()),
    ("account", |parts, by| parts.proposal.account.0[12..].copy_from_slice(&by.to_be_bytes())),
    ("intent", |parts, _| parts.proposal.intent = ProposalIntent::Transfer),
    ("proposed target", |parts, by| parts.proposal.legs[0].to.0[12..].copy_from_slice(&by.to_be_bytes())),
    ("proposed value", |parts, by| parts.proposal.legs[0].value = number(by)),
    ("proposed data", |parts, by| {
        let mut data = parts.proposal.legs[0].data.to_vec();
        data[(by % 200) as usize] ^= 1;
        parts.proposal.legs[0].data = data.into();
    }),
    ("proposed gas", |parts, by| parts.proposal.legs[0].gas_limit -= 1 + by % 1_000),
    ("proposed slot", |parts, by| parts.proposal.legs[0].slots[0].offset ^= 1 + (by % 8) as usize),
    ("signed token", |parts, _| both(parts, |permit| permit.details.token = OTHER)),
    ("signed amount", |parts, _| both(parts, |permit| permit.details.amount += U160::from(1u8))),
    ("signed expiry", |parts, _| both(parts, |permit| permit.details.expiration += U48::from(1u8))),
    ("signed nonce", |parts, _| both(parts, |permit| permit.details.nonce += U48::from(1u8))),
    ("signed spender", |parts, _| both(parts, |permit| permit.spender = OTHER)),
    ("signed deadline", |parts, by| both(parts, |permit| permit.sigDeadline ^= number(by))),
    ("verifier", |parts, _| {
        for message in [&mut parts.proposal.legs[0].slots[0].message, &mut parts.legs[0].slots[0].message] {
            if let TypedMessage::Permit2Allowance { permit2, .. } = message {
                *permit2 = OTHER;
            }
        }
    }),
    ("outflow", |parts, by| parts.proposal.outflows[0].amount ^= number(by)),
    ("outflow's token", |parts, _| parts.proposal.outflows[0].token.id = TokenId::Erc20(OTHER)),
    ("outflow's coin", |parts, _| parts.proposal.outflows[0].token.id = TokenId::Native),
    ("outflow's symbol", |parts, _| parts.proposal.outflows[0].token.symbol = SafeText::clean("USDC", 10)),
    ("outflow's name", |parts, _| parts.proposal.outflows[0].token.name = SafeText::clean("USD Coin", 10)),
    ("outflow's decimals", |parts, by| parts.proposal.outflows[0].token.decimals ^= 1 + (by % 8) as u8),
    ("outflow's listing", |parts, _| parts.proposal.outflows[0].token.listed = false),
    ("no outflow", |parts, _| parts.proposal.outflows.clear()),
    ("inflow", |parts, by| parts.proposal.inflows[0].at_least ^= number(by)),
    ("expected inflow", |parts, by| parts.proposal.inflows[0].expected ^= number(by)),
    ("inflow's recipient", |parts, _| parts.proposal.inflows[0].recipient = OTHER),
    ("no inflow", |parts, _| parts.proposal.inflows.clear()),
    ("allowance", |parts, by| parts.proposal.allowances[0].at_most ^= number(by)),
    ("allowance's spender", |parts, _| parts.proposal.allowances[0].spender = OTHER),
    ("allowance's keeper", |parts, _| {
        parts.proposal.allowances[0].kind = AllowanceKind::Permit2 { expires_at: 1_790_000_300 };
    }),
    ("allowance's end", |parts, by| {
        parts.proposal.allowances[1].kind = AllowanceKind::Permit2 { expires_at: 1_790_000_300 ^ by };
    }),
    ("trade", |parts, _| parts.proposal.trade = None),
    ("trade in", |parts, by| parts.proposal.trade.as_mut().unwrap().amount_in ^= number(by)),
    ("trade expects", |parts, by| parts.proposal.trade.as_mut().unwrap().expected_out ^= number(by)),
    ("trade's least", |parts, by| parts.proposal.trade.as_mut().unwrap().min_out ^= number(by)),
    ("slippage", |parts, by| {
        parts.proposal.trade.as_mut().unwrap().slippage = BasisPoints::new(51 + (by % 1_000) as u32).unwrap();
    }),
    ("impact", |parts, by| {
        parts.proposal.trade.as_mut().unwrap().price_impact = BasisPoints::new(11 + (by % 1_000) as u32).unwrap();
    }),
    ("impact reached", |parts, by| {
        parts.proposal.trade.as_mut().unwrap().impact_reached = BasisPoints::new(11 + (by % 1_000) as u32).unwrap();
    }),
    ("quote's time", |parts, by| parts.proposal.trade.as_mut().unwrap().quoted_at ^= by),
    ("deadline", |parts, by| parts.proposal.trade.as_mut().unwrap().deadline ^= by),
    ("pools", |parts, _| parts.proposal.trade.as_mut().unwrap().pools.push(OTHER)),
    ("exact side", |parts, _| parts.proposal.trade.as_mut().unwrap().exact_output = true),
    ("recipients", |parts, _| parts.proposal.recipients.push(OTHER)),
    ("order", |parts, by| with_order(parts, by, POOL)),
    ("order's holder", |parts, by| with_order(parts, by, OTHER)),
    ("outcome", |parts, _| parts.proposal.expected_outcome = SafeText::clean("another", 20)),
    ("kind of account", |parts, _| parts.kind = AccountKind::Embedded),
    ("signer", |parts, _| {
        parts.signer = OTHER;
        parts.legs[0].from = OTHER;
    }),
    ("payer", |parts, _| parts.payer = OTHER),
    ("target", |parts, by| parts.legs[0].to.0[12..].copy_from_slice(&by.to_be_bytes())),
    ("value", |parts, by| parts.legs[0].value = number(by)),
    ("data", |parts, by| {
        let mut data = parts.legs[0].data.to_vec();
        data[(by % 200) as usize] ^= 1 << (by % 8);
        parts.legs[0].data = data.into();
    }),
    ("gas", |parts, by| parts.legs[0].gas_limit += 1 + by % 1_000_000),
    ("slot", |parts, by| parts.legs[0].slots[0].offset ^= 1 + (by % 8) as usize),
    ("slot's signer", |parts, _| parts.legs[0].slots[0].signer = OTHER),
    ("fee", |parts, by| parts.fees.max_fee_per_gas += 1 + u128::from(by)),
    ("tip", |parts, by| parts.fees.max_priority_fee_per_gas = 11 + u128::from(by % 900)),
];

proptest! {
    #[test]
    fn a_permit_is_valid_only_for_its_own_payload(which in 0..MUTATIONS.len(), by in 1u64..) {
        let policy = keccak256("policy");
        let payload = SigningPayload::new(valid_parts()).unwrap();
        let permit = ActionPermit::issue(&payload, policy, NOW, 60_000);
        prop_assert_eq!(permit.verify(&payload, policy, NOW + 59_999, Instant::now()), Ok(()));
        let (name, mutate) = MUTATIONS[which];
        let mut other = valid_parts();
        mutate(&mut other, by);
        prop_assert_ne!(&other, &valid_parts(), "{} changed nothing", name);
        // An invalid payload cannot be signed.
        if let Ok(other) = SigningPayload::new(other) {
            let answer = permit.verify(&other, policy, NOW, Instant::now());
            prop_assert_eq!(answer, Err(PermitFault::Mismatch), "{}", name);
        }
    }

    #[test]
    fn a_permit_is_valid_only_within_its_time_and_rules(late in 60_000u64.., early in 1..=NOW, rules in any::<[u8; 32]>()) {
        let policy = keccak256("policy");
        let payload = SigningPayload::new(valid_parts()).unwrap();
        let permit = ActionPermit::issue(&payload, policy, NOW, 60_000);
        let at = |now| permit.verify(&payload, policy, now, Instant::now());
        prop_assert_eq!(at(NOW.saturating_add(late)), Err(PermitFault::Expired));
        // A clock that shows a time before the issue does not prove the permit's age.
        prop_assert_eq!(at(NOW - early), Err(PermitFault::Expired));
        let other_rules = permit.verify(&payload, B256::from(rules), NOW, Instant::now());
        prop_assert_eq!(other_rules, Err(PermitFault::Mismatch));
        let by_the_other_clock = permit.verify(&payload, policy, NOW, permit.expires);
        prop_assert_eq!(by_the_other_clock, Err(PermitFault::Expired));
    }

    #[test]
    fn an_altered_permit_is_invalid(by in 1u64.., which in 0..6usize) {
        let policy = keccak256("policy");
        let payload = SigningPayload::new(valid_parts()).unwrap();
        let mut permit = ActionPermit::issue(&payload, policy, NOW, 60_000);
        match which {
            0 => permit.simulation_hash.0[(by % 32) as usize] ^= 1,
            1 => permit.bounds.outflows[0].amount ^= number(by),
            2 => permit.bounds.inflows[0].at_least ^= number(by),
            3 => permit.bounds.allowances[0].at_most ^= number(by),
            4 => permit.bounds.worst_gas ^= number(by),
            _ => permit.expected_outcome = SafeText::clean("another", 20),
        }
        prop_assert_eq!(permit.verify(&payload, policy, NOW, Instant::now()), Err(PermitFault::Mismatch));
    }
}

pub fn change<T>(before: T, after: T) -> ValueChange<T> {
    ValueChange { before, after }
}

/// Effects of the swap as declared: 100,000 gas at the maximum of base 500 and tip 10.
pub fn honest() -> StateChanges {
    let account = |account, before: u64, after: u64, nonces: (u64, u64)| AccountChange {
        account,
        balance: change(number(before), number(after)),
        nonce: change(nonces.0, nonces.1),
        code_hash: change(B256::ZERO, B256::ZERO),
        delegation: change(None, None),
    };
    let balance = |token, holder, before: u64, after: u64| BalanceChange {
        token,
        holder,
        balance: change(number(before), number(after)),
    };
    let signed = |amount: u64, expiration, nonce| Permit2Allowance { amount: number(amount), expiration, nonce };
    StateChanges {
        accounts: vec![account(ME, 1_000_000_000, 1_000_000_000 - 100_000 * 510, (3, 4))],
        balances: vec![
            balance(GIVEN, ME, 5_000, 4_000),
            balance(GIVEN, POOL, 0, 1_000),
            balance(WANTED, ME, 0, 950),
            balance(WANTED, POOL, 9_000, 8_050),
        ],
        allowances: vec![AllowanceChange {
            token: GIVEN,
            owner: ME,
            spender: PERMIT2,
            allowance: change(number(1_000), U256::ZERO),
        }],
        permit2_allowances: vec![Permit2AllowanceChange {
            permit2: PERMIT2,
            owner: ME,
            token: GIVEN,
            spender: ROUTER,
            allowance: change(signed(0, 0, 7), signed(0, 1_790_000_300, 8)),
        }],
        ..StateChanges::default()
    }
}

fn outcome(status: ExecutionStatus) -> SimulatedOutcome {
    SimulatedOutcome { status, gas_used: 100_000, output: Bytes::new(), created: None, logs: vec![], changes: None }
}

/// Verdict on a payload whose only transaction has this outcome and these changes, and the violated rules.
fn judged(
    parts: PayloadParts,
    outcomes: Vec<SimulatedOutcome>,
    changes: StateChanges,
    around: &JudgeContext,
) -> (SimulatedEffects, Vec<&'static str>) {
    let pinned = PinnedBlock { chain_id: 31_337, number: 1, hash: B256::ZERO };
    let payload = SigningPayload::new(parts).unwrap();
    let (simulated, faults) = judge(&payload, 0, Simulation { pinned, outcomes, changes }, 500, around);
    (simulated, faults.iter().map(|fault| fault.rule.as_str()).collect())
}

fn around() -> JudgeContext {
    JudgeContext { permit2: Some(PERMIT2), known_tokens: [GIVEN].into(), ..JudgeContext::default() }
}

fn faults(changes: StateChanges) -> Vec<&'static str> {
    judged(valid_parts(), vec![outcome(ExecutionStatus::Success)], changes, &around()).1
}

type Undeclared = (&'static str, fn(&mut StateChanges, u64));

/// One undeclared change of each kind. The number is never zero.
const UNDECLARED: &[Undeclared] = &[
    ("more goes out", |changes, by| changes.balances[0].balance.after = number(4_000 - 1 - by % 4_000)),
    ("less comes in", |changes, by| changes.balances[2].balance.after = number(by % 900)),
    ("another token goes out", |changes, by| {
        changes.balances.push(BalanceChange { token: OTHER, holder: ME, balance: change(number(by), number(by - 1)) })
    }),
    ("another token comes in", |changes, by| {
        changes.balances.push(BalanceChange { token: OTHER, holder: ME, balance: change(U256::ZERO, number(by)) })
    }),
    ("coin goes out", |changes, by| changes.accounts[0].balance.after -= number(1 + by % 900_000_000)),
    ("coin comes in", |changes, by| changes.accounts[0].balance.after += number(by)),
    ("nonce", |changes, by| changes.accounts[0].nonce.after += by % 1_000 + 1),
    ("no nonce", |changes, _| changes.accounts.clear()),
    ("code", |changes, by| changes.accounts[0].code_hash.after = B256::from(number(by))),
    ("delegation", |changes, _| changes.accounts[0].delegation.after = Some(OTHER)),
    ("allowance for a stranger", |changes, by| {
        changes.allowances.push(AllowanceChange {
            token: GIVEN,
            owner: ME,
            spender: OTHER,
            allowance: change(U256::ZERO, number(by)),
        })
    }),
    ("allowance that stays", |changes, by| changes.allowances[0].allowance.after = number(1_000) + number(by)),
    ("allowance of another token", |changes, by| {
        changes.allowances.push(AllowanceChange {
            token: OTHER,
            owner: ME,
            spender: PERMIT2,
            allowance: change(U256::ZERO, number(by)),
        })
    }),
    ("allowance taken back", |changes, by| {
        changes.allowances.push(AllowanceChange {
            token: OTHER,
            owner: ME,
            spender: POOL,
            allowance: change(number(by), U256::ZERO),
        })
    }),
    ("allowance in Permit2 that stays", |changes, by| {
        changes.permit2_allowances[0].allowance.after.amount = number(by);
    }),
    ("allowance in Permit2 for a stranger", |changes, by| {
        changes.permit2_allowances.push(Permit2AllowanceChange {
            spender: OTHER,
            allowance: change(
                Permit2Allowance::default(),
                Permit2Allowance { amount: number(by), expiration: u64::MAX, nonce: 0 },
            ),
            ..changes.permit2_allowances[0]
        });
    }),
    ("allowance in Permit2 taken back", |changes, by| {
        let before = Permit2Allowance { amount: number(by), expiration: 1_790_000_300, nonce: 3 };
        changes.permit2_allowances.push(Permit2AllowanceChange {
            token: OTHER,
            allowance: change(before, Permit2Allowance { amount: U256::ZERO, ..before }),
            ..changes.permit2_allowances[0]
        });
    }),
    ("another Permit2", |changes, _| changes.permit2_allowances[0].permit2 = OTHER),
    ("nonce in Permit2", |changes, by| changes.permit2_allowances[0].allowance.after.nonce += 1 + by % 1_000),
    ("signed nonce not used", |changes, _| changes.permit2_allowances[0].allowance.after.nonce = 7),
    ("unordered nonce", |changes, by| {
        changes.permit2_nonces.push(NonceWordChange {
            permit2: PERMIT2,
            owner: ME,
            word: number(by),
            bits: change(U256::ZERO, number(by)),
        })
    }),
    ("permit of a token", |changes, by| {
        changes.permit_nonces.push(PermitNonceChange { token: GIVEN, owner: ME, nonce: change(U256::ZERO, number(by)) })
    }),
    ("nonce at an entry point", |changes, by| {
        changes.account_nonces.push(AccountNonceChange {
            entry_point: OTHER,
            account: ME,
            key: U192::from(by),
            nonce: change(U256::ZERO, number(by)),
        })
    }),
    ("operator", |changes, _| {
        changes.operators.push(OperatorChange {
            collection: OTHER,
            owner: ME,
            operator: POOL,
            approved: change(false, true),
        })
    }),
    ("single token leaves", |changes, by| {
        changes.nft_owners.push(NftChange { collection: OTHER, id: number(by), who: change(ME, POOL) })
    }),
    ("single token comes", |changes, by| {
        changes.nft_owners.push(NftChange { collection: OTHER, id: number(by), who: change(POOL, ME) })
    }),
    ("single token may be taken", |changes, by| {
        changes.nft_approvals.push(NftChange { collection: OTHER, id: number(by), who: change(Address::ZERO, POOL) })
    }),
    ("token of many kinds", |changes, by| {
        changes.multi_balances.push(MultiBalanceChange {
            collection: OTHER,
            holder: ME,
            id: number(by),
            balance: change(number(by), U256::ZERO),
        })
    }),
    ("write about the account", |changes, by| {
        changes.writes.push(StorageWrite {
            account: OTHER,
            slot: number(by) << 200usize,
            value: change(U256::ZERO, number(by)),
            keys: vec![U256::from_be_bytes(ME.into_word().0)],
            explained: if by % 2 == 0 { WriteExplanation::No } else { WriteExplanation::Partly },
        })
    }),
    ("write into the account", |changes, by| {
        changes.writes.push(StorageWrite {
            account: ME,
            slot: number(by),
            value: change(U256::ZERO, number(by)),
            keys: vec![],
            explained: WriteExplanation::No,
        })
    }),
    ("a bound was hit", |changes, by| changes.gaps.push(DetectionGap::Questions(by as usize))),
    ("a token is silent", |changes, _| {
        changes.unreadable.push(UnansweredQuery {
            contract: GIVEN,
            question: "balanceOf".to_owned(),
            failure: QueryFailure::Reverted,
        })
    }),
];

proptest! {
    #[test]
    fn anything_undeclared_is_found(which in 0..UNDECLARED.len(), by in 1u64..) {
        prop_assert_eq!(faults(honest()), Vec::<&str>::new());
        let (name, add) = UNDECLARED[which];
        let mut changes = honest();
        add(&mut changes, by);
        prop_assert_ne!(&changes, &honest(), "{} changed nothing", name);
        prop_assert!(!faults(changes).is_empty(), "{} by {} was not found", name, by);
    }
}

#[test]
fn every_kind_of_change_is_tried() {
    for (name, add) in UNDECLARED {
        let mut changes = honest();
        add(&mut changes, 12_345);
        assert!(!faults(changes).is_empty(), "{name} was not found");
    }
    for (name, mutate) in MUTATIONS {
        let mut other = valid_parts();
        mutate(&mut other, 12_345);
        assert_ne!(other, valid_parts(), "{name} changed nothing");
    }
}

/// An exit's exemption covers the exit only: not with an undeclared effect beside it, and not if a spender may take
/// more afterwards, even if declared.
#[test]
fn only_a_pure_exit_counts_as_an_exit() {
    // A dollar token arrives, so the position is left.
    let mut around = JudgeContext { stables: [WANTED].into(), ..around() };
    let success = || vec![outcome(ExecutionStatus::Success)];
    let (simulated, found) = judged(valid_parts(), success(), honest(), &around);
    assert_eq!((simulated.class, found.as_slice()), (ActionClass::DecreasePosition, &[][..]));
    assert!(simulated.leaves && !simulated.only_revokes);
    for (name, add) in UNDECLARED {
        let mut changes = honest();
        add(&mut changes, 12_345);
        let (simulated, found) = judged(valid_parts(), success(), changes, &around);
        assert!(!found.is_empty() && !simulated.leaves, "{name}");
    }
    // Open orders explain the allowance, but Permit2 may take more than before: the action is not an exit only.
    around.promised = [(GIVEN, number(1_500))].into();
    let mut parts = valid_parts();
    parts.proposal.allowances[0].at_most = number(1_500);
    let mut changes = honest();
    changes.allowances[0].allowance.after = number(1_500);
    let (simulated, found) = judged(parts, success(), changes, &around);
    assert_eq!((simulated.leaves, found.as_slice()), (false, &[][..]));
}

/// Makes the payload's only transaction approve this amount of `GIVEN`.
fn calls(parts: &mut PayloadParts, spender: Address, amount: u64) {
    let data: Bytes = Erc20::approveCall { spender, value: number(amount) }.abi_encode().into();
    let (proposed, payload) = (&mut parts.proposal.legs[0], &mut parts.legs[0]);
    (proposed.to, proposed.data, proposed.value) = (GIVEN, data.clone(), U256::ZERO);
    (payload.to, payload.data, payload.value) = (GIVEN, data, U256::ZERO);
}

/// A transaction that revokes an allowance of `POOL`, without token flows.
fn taken_back() -> (PayloadParts, StateChanges) {
    let mut parts = valid_parts();
    parts.proposal.intent = ProposalIntent::Revoke;
    (parts.proposal.trade, parts.proposal.outflows, parts.proposal.inflows) = (None, vec![], vec![]);
    parts.proposal.legs[0].slots.clear();
    parts.legs[0].slots.clear();
    calls(&mut parts, POOL, 0);
    let bound = |spender, at_most| AllowanceBound {
        token: token(GIVEN, "IN"),
        spender,
        kind: AllowanceKind::Erc20,
        at_most: number(at_most),
    };
    parts.proposal.allowances = vec![bound(POOL, 0), bound(ROUTER, 7)];
    let allowance = change(number(1_000), U256::ZERO);
    let changes = StateChanges {
        accounts: honest().accounts,
        allowances: vec![AllowanceChange { token: GIVEN, owner: ME, spender: POOL, allowance }],
        ..StateChanges::default()
    };
    (parts, changes)
}

/// A revocation passes every stop and every limit, so it must have no other effect.
#[test]
fn only_a_pure_revocation_counts_as_a_revocation() {
    let success = || vec![outcome(ExecutionStatus::Success)];
    let (parts, changes) = taken_back();
    let (simulated, found) = judged(parts, success(), changes, &around());
    assert_eq!((simulated.only_revokes, found.as_slice()), (true, &[][..]));
    for (name, add) in [
        (
            "an operator",
            (|changes, _| {
                changes.operators.push(OperatorChange {
                    collection: OTHER,
                    owner: ME,
                    operator: POOL,
                    approved: change(true, false),
                })
            }) as fn(&mut StateChanges, u64),
        ),
        ("a bound was hit", |changes, by| changes.gaps.push(DetectionGap::Questions(by as usize))),
        ("code", |changes, by| changes.accounts[0].code_hash.after = B256::from(number(by))),
    ] {
        let (parts, mut changes) = taken_back();
        add(&mut changes, 12_345);
        let (simulated, found) = judged(parts, success(), changes, &around());
        assert!(!found.is_empty() && !simulated.only_revokes, "{name}");
    }
    // From open orders as well: the operator may invalidate them.
    let (mut parts, mut changes) = taken_back();
    (parts.proposal.allowances[0].spender, changes.allowances[0].spender) = (PERMIT2, PERMIT2);
    calls(&mut parts, PERMIT2, 0);
    let promised = JudgeContext { promised: [(GIVEN, number(500))].into(), ..around() };
    let (simulated, found) = judged(parts, success(), changes, &promised);
    assert_eq!((simulated.only_revokes, found.as_slice()), (true, &[][..]));
    // The bytes decide: by the changes everything is revoked, but one unit is approved.
    let (mut parts, changes) = taken_back();
    calls(&mut parts, POOL, 1);
    assert!(!judged(parts, success(), changes, &around()).0.only_revokes);
    // Another spender gets an allowance instead: declared, but not a revocation.
    let (parts, mut changes) = taken_back();
    let allowance = change(U256::ZERO, number(7));
    changes.allowances.push(AllowanceChange { token: GIVEN, owner: ME, spender: ROUTER, allowance });
    let (simulated, found) = judged(parts, success(), changes, &around());
    assert_eq!((simulated.only_revokes, found.as_slice()), (false, &[][..]));
}

#[test]
fn a_failed_or_missing_transaction_blocks_the_action() {
    let words = SafeText::clean("no", 10);
    let reverted = ExecutionStatus::Reverted(RevertReason::Message(words.clone()));
    for status in [reverted, ExecutionStatus::Halted(words)] {
        let (_, found) = judged(valid_parts(), vec![outcome(status.clone())], honest(), &around());
        assert_eq!(found, ["simulation"], "{status:?}");
    }
    let (_, found) = judged(valid_parts(), vec![], honest(), &around());
    assert!(found.contains(&"simulation"), "{found:?}");
}

/// An open order may still take 500 with Permit2's allowance: a trade must leave that.
#[test]
fn a_trade_does_not_revoke_what_open_orders_may_take() {
    let around = JudgeContext { promised: [(GIVEN, number(500))].into(), ..around() };
    for (after, stands) in [(500, false), (499, true), (0, true)] {
        let mut changes = honest();
        changes.allowances[0].allowance = change(number(1_500), number(after));
        let (_, found) = judged(valid_parts(), vec![outcome(ExecutionStatus::Success)], changes, &around);
        assert_eq!(found == ["allowance"], stands, "{after}: {found:?}");
        assert_eq!(found.is_empty(), !stands, "{after}: {found:?}");
    }
}

/// Without an outflow no position is left, whatever the intent.
#[test]
fn an_action_without_outflow_does_not_count_as_an_exit() {
    let around = JudgeContext { stables: [WANTED].into(), ..around() };
    let (mut parts, mut changes) = (plain(), honest());
    (parts.proposal.trade, parts.proposal.outflows, parts.proposal.allowances) = (None, vec![], vec![]);
    changes.balances.retain(|change| change.token == WANTED);
    (changes.allowances, changes.permit2_allowances) = (vec![], vec![]);
    let (simulated, found) = judged(parts, vec![outcome(ExecutionStatus::Success)], changes, &around);
    assert_eq!((simulated.class, found.as_slice()), (ActionClass::NewPosition, &[][..]));
    assert!(!simulated.leaves && !simulated.only_revokes);
}

/// The swap without a signature in it.
fn plain() -> PayloadParts {
    let mut parts = valid_parts();
    parts.proposal.legs[0].slots.clear();
    parts.legs[0].slots.clear();
    parts
}

/// An existing allowance may be used up by the declared outflow, and need not be declared again.
#[test]
fn an_existing_allowance_may_fall_only_by_what_is_spent() {
    let mut parts = plain();
    parts.proposal.allowances.clear();
    for (token, stands) in [(GIVEN, false), (OTHER, true)] {
        let before = Permit2Allowance { amount: number(1_000), expiration: 1_790_000_300, nonce: 7 };
        let mut changes = honest();
        changes.allowances[0].token = token;
        changes.permit2_allowances[0].token = token;
        changes.permit2_allowances[0].allowance = change(before, Permit2Allowance { amount: U256::ZERO, ..before });
        let (_, found) = judged(parts.clone(), vec![outcome(ExecutionStatus::Success)], changes, &around());
        assert_eq!(found == ["allowance", "allowance"], stands, "{found:?}");
        assert_eq!(found.is_empty(), !stands, "{found:?}");
    }
}
