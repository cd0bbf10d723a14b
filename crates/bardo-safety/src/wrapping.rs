//! Recognition of an action that only wraps or unwraps the native token, by its calldata. Such an action changes the
//! form of a holding and not its value: it spends nothing but gas. Wrapped, a holding is within reach of allowances that
//! were granted earlier, and pays for no gas; so a wrapping needs consent like spending, leaves a reserve, and does not
//! count as an exit. Its reversal passes wherever an exit passes.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall as _;

use super::proposal::{LegPurpose, Proposal, ProposalIntent};
use super::simulate::SimulatedEffects;
use bardo_abi::erc20::Weth9;
use bardo_base::model::ActionClass;
use golem_chain::token::TokenId;

/// Gas whose cost at the highest fee a wrapping must leave in the native token: of about five exits, each of an approval
/// and a swap, or of as many revocations as an account usually has allowances.
pub const GAS_RESERVE: u64 = 2_000_000;

/// Exchange of the native token for its wrapped form, or back, unit for unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapping {
    /// Token that is given.
    pub given: TokenId,
    /// Token that is received.
    pub received: TokenId,
    /// Amount of both, in raw units.
    pub amount: U256,
}

/// Returns the wrapping that `proposal` consists of; `None` if it is anything else or does anything else as well.
/// `wrapped` is the address book's contract: no other contract is trusted to give back what it takes.
pub fn only_wraps(proposal: &Proposal, wrapped: Option<Address>) -> Option<Wrapping> {
    let wrapped = wrapped?;
    let ([leg], [out], [into]) = (proposal.legs.as_slice(), proposal.outflows.as_slice(), proposal.inflows.as_slice())
    else {
        return None;
    };
    let is_plain = proposal.intent == ProposalIntent::Wrap
        && proposal.allowances.is_empty()
        && proposal.trade.is_none()
        && proposal.order.is_none()
        && proposal.replaces.is_none()
        && leg.purpose == LegPurpose::Main
        && leg.slots.is_empty()
        && leg.to == wrapped;
    if !is_plain {
        return None;
    }
    let token = TokenId::Erc20(wrapped);
    let found = if leg.data.as_ref() == (Weth9::depositCall {}).abi_encode() {
        Wrapping { given: TokenId::Native, received: token, amount: leg.value }
    } else {
        let call = Weth9::withdrawCall::abi_decode(&leg.data).ok()?;
        let is_exact = leg.data.as_ref() == call.abi_encode() && leg.value.is_zero();
        if !is_exact {
            return None;
        }
        Wrapping { given: token, received: TokenId::Native, amount: call.wad }
    };
    let declared = (out.token.id, out.amount) == (found.given, found.amount)
        && (into.token.id, into.at_least, into.recipient) == (found.received, found.amount, proposal.account);
    (declared && !found.amount.is_zero()).then_some(found)
}

/// Returns true if the action only gets native tokens back for wrapped ones, by its intent and by the simulation, which
/// gives the class [`ActionClass::ReadOnly`] to nothing else that claims to be a wrapping.
pub fn only_unwraps(proposal: &Proposal, simulated: Option<&SimulatedEffects>) -> bool {
    proposal.intent == ProposalIntent::Wrap
        && simulated.is_some_and(|simulated| simulated.class == ActionClass::ReadOnly)
        && proposal.outflows.iter().all(|flow| flow.token.id != TokenId::Native)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proposal::{Inflow, Outflow, PlanLeg};
    use crate::sample;
    use alloy::primitives::Bytes;
    use bardo_base::text::SafeText;
    use golem_chain::token::TokenInfo;

    const WETH: Address = Address::repeat_byte(0xee);

    fn token(id: TokenId) -> TokenInfo {
        let text = SafeText::default();
        TokenInfo { id, symbol: text.clone(), name: text, decimals: 18, listed: true }
    }

    fn proposal(given: TokenId, received: TokenId, value: u64, data: Vec<u8>) -> Proposal {
        let account = Address::repeat_byte(0x11);
        let amount = U256::from(7);
        let leg = PlanLeg { value: U256::from(value), ..sample::leg(WETH, Bytes::from(data)) };
        let inflow = Inflow { token: token(received), at_least: amount, expected: amount, recipient: account };
        Proposal {
            outflows: vec![Outflow { token: token(given), amount }],
            inflows: vec![inflow],
            ..sample::proposal(account, ProposalIntent::Wrap, leg)
        }
    }

    fn wrap() -> Proposal {
        proposal(TokenId::Native, TokenId::Erc20(WETH), 7, Weth9::depositCall {}.abi_encode())
    }

    fn unwrap() -> Proposal {
        let call = Weth9::withdrawCall { wad: U256::from(7) };
        proposal(TokenId::Erc20(WETH), TokenId::Native, 0, call.abi_encode())
    }

    #[test]
    fn a_deposit_and_a_withdrawal_of_the_known_contract_are_wrappings() {
        let amount = U256::from(7);
        let wrapped = TokenId::Erc20(WETH);
        assert_eq!(
            only_wraps(&wrap(), Some(WETH)),
            Some(Wrapping { given: TokenId::Native, received: wrapped, amount })
        );
        assert_eq!(
            only_wraps(&unwrap(), Some(WETH)),
            Some(Wrapping { given: wrapped, received: TokenId::Native, amount })
        );
    }

    #[test]
    fn anything_else_or_anything_more_is_none() {
        let changed = |change: fn(&mut Proposal)| {
            [wrap(), unwrap()].map(|mut proposal| {
                change(&mut proposal);
                only_wraps(&proposal, Some(WETH))
            })
        };
        assert_eq!(only_wraps(&wrap(), None), None);
        assert_eq!(only_wraps(&wrap(), Some(Address::repeat_byte(0xdd))), None);
        for change in [
            (|one| one.intent = ProposalIntent::Swap) as fn(&mut Proposal),
            |one| one.legs.push(one.legs[0].clone()),
            |one| one.legs[0].to = Address::repeat_byte(0xdd),
            |one| one.legs[0].value += U256::ONE,
            |one| one.legs[0].data = [one.legs[0].data.as_ref(), &[0]].concat().into(),
            |one| one.outflows[0].amount += U256::ONE,
            |one| one.inflows[0].at_least -= U256::ONE,
            |one| one.inflows[0].recipient = Address::repeat_byte(0x22),
            |one| one.outflows.clear(),
            |one| one.inflows.clear(),
        ] {
            assert_eq!(changed(change), [None, None]);
        }
    }
}
