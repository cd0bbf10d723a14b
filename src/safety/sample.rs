//! Proposals for tests, to be changed in one thing at a time.

use alloy::primitives::{Address, Bytes, U256};

use super::checks::model::META;
use super::framed::{FeeBound, Frame, FramedLeg, FramedSlot};
use super::proposal::{Intent, Leg, Proposal, Purpose};
use crate::base::id::{CallId, GolemId};
use crate::base::text::SafeText;
use crate::chain::token::{Token, TokenId};
use crate::safety::account::AccountKind;

/// A listed token.
pub(super) fn token(contract: Address, symbol: &str, decimals: u8) -> Token {
    let text = SafeText::clean(symbol, 20);
    Token { id: TokenId::Erc20(contract), symbol: text.clone(), name: text, decimals, listed: true }
}

/// One call of `to` with this calldata and 200,000 gas at most.
pub(super) fn leg(to: Address, data: impl Into<Bytes>) -> Leg {
    Leg { purpose: Purpose::Main, to, value: U256::ZERO, data: data.into(), gas_limit: 200_000, slots: vec![] }
}

/// A bare proposal of one call for `account`.
pub(super) fn proposal(account: Address, intent: Intent, leg: Leg) -> Proposal {
    Proposal {
        chain_id: 31_337,
        tool: META,
        call_id: CallId::new(1),
        golem_id: GolemId::operator(),
        account,
        intent,
        legs: vec![leg],
        outflows: vec![],
        inflows: vec![],
        allowances: vec![],
        trade: None,
        recipients: vec![account],
        order: None,
        expected_outcome: SafeText::default(),
    }
}

/// The proposal as a plain key signs it, at 10 gwei for a unit of gas at most, 1 of it for the block's producer.
pub(super) fn frame(proposal: Proposal) -> Frame {
    let signer = proposal.account;
    let framed = |leg: &Leg| FramedLeg {
        purpose: leg.purpose,
        from: signer,
        to: leg.to,
        value: leg.value,
        data: leg.data.clone(),
        gas_limit: leg.gas_limit,
        slots: leg
            .slots
            .iter()
            .map(|slot| FramedSlot { offset: slot.offset, message: slot.message.clone(), signer })
            .collect(),
    };
    let legs = proposal.legs.iter().map(framed).collect();
    let fees = FeeBound { max_fee_per_gas: 10_000_000_000, max_priority_fee_per_gas: 1_000_000_000 };
    Frame { proposal, kind: AccountKind::LocalKey, signer, payer: signer, legs, order: None, fees }
}
