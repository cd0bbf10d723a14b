//! Calls of a proposal about Uniswap's protocol fees: their rules, and the events that prove them.
//!
//! A collection moves nothing of the account's. A release pays the threshold of UNI and brings whole balances of the jar. Its calldata
//! has no minimum, but its number must be the contract's, so that it is the only release between simulation and inclusion: the jar
//! cannot hold less then. What it may take is bounded by the allowance, which the same plan sets to the declared payment.

use std::collections::BTreeSet;

use alloy::primitives::{Address, Log, U256};
use alloy::sol_types::{SolCall as _, SolEvent as _};

use crate::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use bardo_abi::erc20::Erc20;
use bardo_abi::protocol_fees::{Firepit, ProtocolFeePool};
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::token::TokenId;
use golem_protocols::protocol_fees::FeeCall;

/// Reason why a call about protocol fees is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FeeRuleError {
    /// One of the contracts is called by another kind of action.
    #[error("the contracts of protocol fees can only be called by a tool for them")]
    Beside,
    /// Another contract is called.
    #[error("a collection calls the address book's fee adapter, and a release its fee releaser")]
    Elsewhere,
    /// The calldata is none of the closed forms.
    #[error("it is neither a collection of whole fees nor a release to the account")]
    Call,
    /// The plan does more than its one call.
    #[error("it sends value, signs a message, or does more than one call with the allowance for it")]
    DoesMore,
    /// The flows differ from the calldata.
    #[error(
        "a collection moves nothing of the account's; a release declares one payment, and each asset of the calldata with a \
         minimum above zero, all for the account"
    )]
    Flows,
    /// The allowance is not exactly the payment, or stays.
    #[error("a release sets the releaser's allowance to exactly its payment, and leaves none")]
    Allowance,
}

/// Token of an address, where the zero address is the native token.
fn asset(address: Address) -> TokenId {
    if address.is_zero() { TokenId::Native } else { TokenId::Erc20(address) }
}

/// Returns true for a call that only this module may judge.
pub fn concerns(leg: &PlanLeg, proposal: &Proposal, book: &AddressBook) -> bool {
    let ours = [KnownContract::FeeReleaser, KnownContract::V3FeeAdapter, KnownContract::TokenJar];
    proposal.intent == ProposalIntent::ProtocolFees && leg.purpose == LegPurpose::Main
        || ours.into_iter().any(|contract| book.contract(contract) == Some(leg.to))
}

/// Decodes a call of a proposal about protocol fees.
///
/// # Errors
/// [`FeeRuleError`] if the call must not be signed.
pub fn decode(leg: &PlanLeg, proposal: &Proposal, book: &AddressBook) -> Result<FeeCall, FeeRuleError> {
    if proposal.intent != ProposalIntent::ProtocolFees {
        return Err(FeeRuleError::Beside);
    }
    let account = proposal.account;
    let call = FeeCall::decode(&leg.data, account).ok_or(FeeRuleError::Call)?;
    let contract = match &call {
        FeeCall::Collect { .. } => KnownContract::V3FeeAdapter,
        FeeCall::Release { .. } => KnownContract::FeeReleaser,
    };
    if book.contract(contract) != Some(leg.to) {
        return Err(FeeRuleError::Elsewhere);
    }
    let mains = proposal.legs.iter().filter(|leg| leg.purpose == LegPurpose::Main).count();
    let does_more = mains != 1
        || leg.purpose != LegPurpose::Main
        || proposal.legs.iter().any(|leg| !leg.value.is_zero() || !leg.slots.is_empty())
        || proposal.trade.is_some()
        || proposal.order.is_some()
        || proposal.replaces.is_some()
        || proposal.recipients.iter().any(|one| *one != account);
    if does_more {
        return Err(FeeRuleError::DoesMore);
    }
    let FeeCall::Release { assets, .. } = &call else {
        let moves = !proposal.outflows.is_empty() || !proposal.inflows.is_empty();
        let more = !proposal.allowances.is_empty() || proposal.legs.len() != 1;
        return match (moves, more) {
            (true, _) => Err(FeeRuleError::Flows),
            (false, true) => Err(FeeRuleError::DoesMore),
            (false, false) => Ok(call),
        };
    };
    let [payment] = proposal.outflows.as_slice() else { return Err(FeeRuleError::Flows) };
    let TokenId::Erc20(paid) = payment.token.id else { return Err(FeeRuleError::Flows) };
    let released: BTreeSet<TokenId> = assets.iter().copied().map(asset).collect();
    let declared: BTreeSet<TokenId> = proposal.inflows.iter().map(|inflow| inflow.token.id).collect();
    let for_account = proposal.inflows.iter().all(|one| one.recipient == account && !one.at_least.is_zero());
    // A jar that holds the token that is paid would make the two amounts one.
    let fits = released == declared
        && declared.len() == proposal.inflows.len()
        && for_account
        && !payment.amount.is_zero()
        && !declared.contains(&payment.token.id);
    if !fits {
        return Err(FeeRuleError::Flows);
    }
    let bounds = proposal
        .allowances
        .iter()
        .all(|bound| bound.token.id == payment.token.id && bound.spender == leg.to && bound.at_most.is_zero());
    let approvals = proposal.legs.iter().filter(|leg| leg.purpose != LegPurpose::Main).map(|approval| {
        let call = Erc20::approveCall::abi_decode(&approval.data).ok();
        let exact = call.filter(|one| one.abi_encode() == approval.data.as_ref() && one.spender == leg.to);
        exact.filter(|_| approval.to == paid).map(|one| (approval.purpose, one.value))
    });
    let approvals: Option<Vec<(LegPurpose, U256)>> = approvals.collect();
    let is_set = approvals.is_some_and(|set| {
        let last = set.iter().rev().find(|(purpose, _)| *purpose == LegPurpose::Approve);
        let allowed = |value: U256| value == payment.amount || value.is_zero();
        last.is_some_and(|(_, value)| *value == payment.amount) && set.iter().all(|(_, value)| allowed(*value))
    });
    if bounds && is_set { Ok(call) } else { Err(FeeRuleError::Allowance) }
}

/// Returns the call that a proposal consists of; `None` for any other action, and for a call that must not be signed.
pub fn plan(proposal: &Proposal, book: &AddressBook) -> Option<FeeCall> {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?;
    decode(main, proposal, book).ok()
}

/// Returns the event that the receipts should contain and do not; `None` if the action is proven.
pub fn unproven(proposal: &Proposal, book: &AddressBook, logs: &[&Log]) -> Option<&'static str> {
    match plan(proposal, book)? {
        FeeCall::Collect { pools } => {
            let jar = book.contract(KnownContract::TokenJar);
            let adapter = book.contract(KnownContract::V3FeeAdapter);
            let collected = |pool: &Address| {
                let own = logs.iter().filter(|log| log.address == *pool);
                let mut events = own.filter_map(|log| ProtocolFeePool::CollectProtocol::decode_log(log).ok());
                events.any(|event| Some(event.sender) == adapter && Some(event.recipient) == jar)
            };
            // A pool that owes nothing reports nothing of its own tokens, but the event all the same.
            (!pools.iter().all(collected)).then_some("CollectProtocol")
        }
        FeeCall::Release { nonce, assets } => {
            let releaser = book.contract(KnownContract::FeeReleaser);
            let own = logs.iter().filter(|log| Some(log.address) == releaser);
            let mut events = own.filter_map(|log| Firepit::Released::decode_log(log).ok());
            let told = events
                .any(|event| (event.nonce, event.recipient) == (nonce, proposal.account) && event.assets == assets);
            (!told).then_some("Released")
        }
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::Bytes;

    use super::*;
    use crate::proposal::{AllowanceBound, AllowanceKind, Inflow, Outflow};
    use crate::sample;

    const ACCOUNT: Address = Address::repeat_byte(0x11);
    const JAR: Address = Address::repeat_byte(0x21);
    const RELEASER: Address = Address::repeat_byte(0x22);
    const ADAPTER: Address = Address::repeat_byte(0x23);
    const UNI: Address = Address::repeat_byte(0x31);
    const DAI: Address = Address::repeat_byte(0x32);
    const OTHER: Address = Address::repeat_byte(0x66);

    fn book() -> AddressBook {
        let mut book = AddressBook::default();
        book.set("tokenJar", JAR);
        book.set("feeReleaser", RELEASER);
        book.set("v3FeeAdapter", ADAPTER);
        book
    }

    fn approval(spender: Address, value: u64) -> PlanLeg {
        let data = Erc20::approveCall { spender, value: U256::from(value) }.abi_encode();
        PlanLeg { purpose: LegPurpose::Approve, ..sample::leg(UNI, data) }
    }

    /// Pays 9 UNI for at least 5 DAI.
    fn release() -> Proposal {
        let call = FeeCall::Release { nonce: U256::from(3), assets: vec![DAI] };
        let main = sample::leg(RELEASER, call.calldata(ACCOUNT));
        let (uni, dai) = (sample::token(UNI, "UNI", 18), sample::token(DAI, "DAI", 18));
        let (five, nine) = (U256::from(5), U256::from(9));
        Proposal {
            legs: vec![approval(RELEASER, 9), main.clone()],
            outflows: vec![Outflow { token: uni.clone(), amount: nine }],
            inflows: vec![Inflow { token: dai, at_least: five, expected: five, recipient: ACCOUNT }],
            allowances: vec![AllowanceBound {
                token: uni,
                spender: RELEASER,
                kind: AllowanceKind::Erc20,
                at_most: U256::ZERO,
            }],
            ..sample::proposal(ACCOUNT, ProposalIntent::ProtocolFees, main)
        }
    }

    fn collection() -> Proposal {
        let call = FeeCall::Collect { pools: vec![OTHER] };
        sample::proposal(ACCOUNT, ProposalIntent::ProtocolFees, sample::leg(ADAPTER, call.calldata(ACCOUNT)))
    }

    fn judged(proposal: &Proposal) -> Result<FeeCall, FeeRuleError> {
        let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main).unwrap();
        decode(main, proposal, &book())
    }

    #[test]
    fn a_release_is_the_declared_one_and_for_nobody_but_the_account() {
        assert!(matches!(judged(&release()), Ok(FeeCall::Release { .. })));
        type Change = fn(&mut Proposal);
        let cases: [(Change, FeeRuleError); 14] = [
            (|one| one.intent = ProposalIntent::Swap, FeeRuleError::Beside),
            (|one| one.legs[1].to = OTHER, FeeRuleError::Elsewhere),
            (|one| one.legs[1].to = ADAPTER, FeeRuleError::Elsewhere),
            (|one| one.account = OTHER, FeeRuleError::Call),
            (|one| one.legs[1].value = U256::ONE, FeeRuleError::DoesMore),
            (|one| one.recipients.push(OTHER), FeeRuleError::DoesMore),
            (|one| one.inflows.clear(), FeeRuleError::Flows),
            (|one| one.inflows[0].at_least = U256::ZERO, FeeRuleError::Flows),
            (|one| one.inflows[0].recipient = OTHER, FeeRuleError::Flows),
            (|one| one.outflows.push(one.outflows[0].clone()), FeeRuleError::Flows),
            // More than the payment, less, for somebody else, or none: a standing allowance is then what bounds it.
            (|one| one.legs[0] = approval(RELEASER, 10), FeeRuleError::Allowance),
            (|one| one.legs[0] = approval(OTHER, 9), FeeRuleError::Allowance),
            (|one| drop(one.legs.remove(0)), FeeRuleError::Allowance),
            (|one| one.allowances[0].at_most = U256::ONE, FeeRuleError::Allowance),
        ];
        for (at, (change, expected)) in cases.into_iter().enumerate() {
            let mut changed = release();
            change(&mut changed);
            assert_eq!(judged(&changed), Err(expected), "case {at}");
        }
    }

    #[test]
    fn a_call_about_fees_is_the_only_thing_that_its_plan_does() {
        for honest in [release, collection] {
            for (name, add) in sample::additions() {
                let mut more = honest();
                add(&mut more);
                assert_eq!(judged(&more), Err(FeeRuleError::DoesMore), "{name}");
            }
            let mut twice = honest();
            twice.legs.extend(twice.legs.last().cloned());
            assert_eq!(judged(&twice), Err(FeeRuleError::DoesMore));
            // In the place of an allowance, the call would be another one.
            let mut beside = honest();
            let main = beside.legs.last().cloned().unwrap();
            beside.legs.insert(0, PlanLeg { purpose: LegPurpose::Approve, ..main });
            assert_eq!(decode(&beside.legs[0], &beside, &book()), Err(FeeRuleError::DoesMore));
        }
        // The account is named in the calldata too; a collection is for the jar.
        let mut paying = collection();
        paying.recipients.push(OTHER);
        assert_eq!(judged(&paying), Err(FeeRuleError::DoesMore));
        let mut allowing = collection();
        allowing.allowances = release().allowances;
        assert_eq!(judged(&allowing), Err(FeeRuleError::DoesMore));
        let mut receiving = collection();
        receiving.inflows = release().inflows;
        assert_eq!(judged(&receiving), Err(FeeRuleError::Flows));
    }

    #[test]
    fn a_release_declares_exactly_what_its_calldata_moves() {
        type Change = fn(&mut Proposal);
        let cases: [(Change, FeeRuleError); 15] = [
            (|one| one.outflows[0].amount = U256::ZERO, FeeRuleError::Flows),
            (|one| one.outflows[0].token.id = TokenId::Native, FeeRuleError::Flows),
            (|one| one.outflows.clear(), FeeRuleError::Flows),
            // The jar holds what is paid: the two amounts would be one.
            (|one| one.outflows[0].token.id = TokenId::Erc20(DAI), FeeRuleError::Flows),
            (|one| one.inflows[0].token.id = TokenId::Native, FeeRuleError::Flows),
            (|one| one.inflows.push(one.inflows[0].clone()), FeeRuleError::Flows),
            (
                |one| {
                    let token = sample::token(OTHER, "O", 18);
                    one.inflows.push(Inflow { token, ..one.inflows[0].clone() });
                },
                FeeRuleError::Flows,
            ),
            // Of another token, less than the payment, set to nothing before the call, larger at first, or in words that more than one contract reads.
            (|one| one.legs[0].to = DAI, FeeRuleError::Allowance),
            (|one| one.legs[0] = approval(RELEASER, 8), FeeRuleError::Allowance),
            (|one| one.legs.insert(1, approval(RELEASER, 0)), FeeRuleError::Allowance),
            (|one| one.legs.insert(0, approval(RELEASER, 10)), FeeRuleError::Allowance),
            (|one| one.legs[0].data = [one.legs[0].data.as_ref(), &[0]].concat().into(), FeeRuleError::Allowance),
            (|one| one.legs[0].data = Bytes::from_static(&[1, 2, 3, 4]), FeeRuleError::Allowance),
            (|one| one.allowances[0].spender = OTHER, FeeRuleError::Allowance),
            (|one| one.allowances[0].token.id = TokenId::Erc20(DAI), FeeRuleError::Allowance),
        ];
        for (at, (change, expected)) in cases.into_iter().enumerate() {
            let mut changed = release();
            change(&mut changed);
            assert_eq!(judged(&changed), Err(expected), "case {at}");
        }
    }

    #[test]
    fn a_call_about_fees_is_proven_by_the_contracts_own_events() {
        let missing =
            |proposal: &Proposal, logs: &[Log]| unproven(proposal, &book(), &logs.iter().collect::<Vec<_>>()).is_some();
        let released = |at: Address, nonce: u64, recipient: Address, assets: &[Address]| {
            let event = Firepit::Released { nonce: U256::from(nonce), recipient, assets: assets.to_vec() };
            Log { address: at, data: event.encode_log_data() }
        };
        assert!(!missing(&release(), &[released(RELEASER, 3, ACCOUNT, &[DAI])]));
        let others = [
            released(OTHER, 3, ACCOUNT, &[DAI]),
            released(RELEASER, 4, ACCOUNT, &[DAI]),
            released(RELEASER, 3, OTHER, &[DAI]),
            released(RELEASER, 3, ACCOUNT, &[UNI]),
        ];
        assert!(missing(&release(), &others));
        let collected = |pool: Address, sender: Address, recipient: Address| {
            let event = ProtocolFeePool::CollectProtocol { sender, recipient, amount0: 1, amount1: 2 };
            Log { address: pool, data: event.encode_log_data() }
        };
        assert!(!missing(&collection(), &[collected(OTHER, ADAPTER, JAR)]));
        let others = [collected(DAI, ADAPTER, JAR), collected(OTHER, ACCOUNT, JAR), collected(OTHER, ADAPTER, ACCOUNT)];
        assert!(missing(&collection(), &others) && missing(&collection(), &[]));
    }

    #[test]
    fn a_collection_moves_nothing_of_the_accounts() {
        assert!(matches!(judged(&collection()), Ok(FeeCall::Collect { .. })));
        let mut paying = collection();
        paying.outflows = release().outflows;
        assert_eq!(judged(&paying), Err(FeeRuleError::Flows));
        let mut allowing = collection();
        allowing.legs.insert(0, approval(OTHER, 1));
        assert_eq!(judged(&allowing), Err(FeeRuleError::DoesMore));
        let mut jar = collection();
        jar.legs[0].to = JAR;
        assert_eq!(judged(&jar), Err(FeeRuleError::Elsewhere));
        jar.intent = ProposalIntent::Transfer;
        assert!(concerns(&jar.legs[0], &jar, &book()));
    }
}
