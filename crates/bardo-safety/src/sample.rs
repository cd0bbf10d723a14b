//! Sample proposals for tests, to be changed in one detail at a time.

use alloy::primitives::{Address, B256, Bytes, U256};

use super::checks::model::META;
use super::orders::record::OrderFigures;
use super::orders::{OrderRecord, OrderStage, OrderState};
use super::policy_engine::Reservation;
use super::proposal::{
    LegPurpose, PlanLeg, Proposal, ProposalIntent, ReplacedTx, SignatureSlot, SignedOrder, TradeFigures,
};
use super::signing_payload::{FeeBound, PayloadLeg, PayloadParts, PayloadSlot};
use super::typed::TypedMessage;
use crate::account::AccountKind;
use bardo_abi::erc7683::AcrossOrderData;
use bardo_base::fabric::CardToken;
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Usd};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::intents;

/// Returns a listed token.
pub(super) fn token(contract: Address, symbol: &str, decimals: u8) -> TokenInfo {
    let text = SafeText::clean(symbol, 20);
    TokenInfo { id: TokenId::Erc20(contract), symbol: text.clone(), name: text, decimals, listed: true }
}

/// Returns a call of `to` with this calldata and a gas limit of 200,000.
pub(super) fn leg(to: Address, data: impl Into<Bytes>) -> PlanLeg {
    PlanLeg { purpose: LegPurpose::Main, to, value: U256::ZERO, data: data.into(), gas_limit: 200_000, slots: vec![] }
}

/// Returns a minimal proposal of one call for `account`.
pub(super) fn proposal(account: Address, intent: ProposalIntent, leg: PlanLeg) -> Proposal {
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
        files: Vec::new(),
        replaces: None,
        arrival: None,
        expected_outcome: SafeText::default(),
    }
}

/// Change of a proposal that adds something to it.
pub(super) type Addition = fn(&mut Proposal);

/// Additions to the last call of a plan, each of which makes the plan do more than its call.
pub(super) fn additions() -> [(&'static str, Addition); 5] {
    fn message() -> TypedMessage {
        bridge_order(Address::repeat_byte(7), Address::repeat_byte(8), 1_800_000_000).message
    }
    fn last(proposal: &mut Proposal) -> &mut PlanLeg {
        proposal.legs.last_mut().unwrap()
    }
    [
        ("value", |one| last(one).value = U256::ONE),
        ("message", |one| last(one).slots.push(SignatureSlot { offset: 4, message: message() })),
        ("order", |one| {
            one.order = Some(Box::new(SignedOrder { message: message(), holder: Address::ZERO, arrival: None }));
        }),
        ("trade", |one| {
            let token = token(Address::repeat_byte(8), "T", 6);
            let (amount, points) = (U256::ONE, BasisPoints::ZERO);
            one.trade = Some(TradeFigures {
                token_in: token.clone(),
                token_out: token,
                amount_in: amount,
                expected_out: amount,
                min_out: amount,
                slippage: points,
                price_impact: points,
                impact_reached: points,
                quoted_at: 0,
                deadline: 0,
                pools: vec![],
                exact_output: false,
            });
        }),
        ("replacement", |one| {
            let fees = FeeBound { max_fee_per_gas: 1, max_priority_fee_per_gas: 1 };
            one.replaces = Some(ReplacedTx { hash: B256::ZERO, nonce: 1, fees });
        }),
    ]
}

/// Returns the payload of a proposal as a plain key signs it, at 10 gwei per unit of gas at most, with a 1 gwei tip.
pub(super) fn frame(proposal: Proposal) -> PayloadParts {
    let signer = proposal.account;
    let payload = |leg: &PlanLeg| PayloadLeg {
        purpose: leg.purpose,
        from: signer,
        to: leg.to,
        value: leg.value,
        data: leg.data.clone(),
        gas_limit: leg.gas_limit,
        slots: leg
            .slots
            .iter()
            .map(|slot| PayloadSlot { offset: slot.offset, message: slot.message.clone(), signer })
            .collect(),
    };
    let legs = proposal.legs.iter().map(payload).collect();
    let fees = FeeBound { max_fee_per_gas: 10_000_000_000, max_priority_fee_per_gas: 1_000_000_000 };
    PayloadParts { proposal, kind: AccountKind::LocalKey, signer, payer: signer, legs, order: None, fees }
}

/// Returns a bridge order of `account`: five of this stablecoin here for four on the destination, until `deadline`.
pub(super) fn bridge_order(account: Address, token: Address, deadline: u32) -> OrderRecord {
    let intent = intents::CrossChainIntent {
        origin_settler: Address::repeat_byte(1),
        user: account,
        nonce: U256::from(1),
        origin_chain_id: 31_337,
        open_deadline: deadline.saturating_sub(100),
        fill_deadline: deadline,
        data: AcrossOrderData {
            inputToken: token,
            inputAmount: U256::from(5_000_000),
            outputToken: Address::repeat_byte(3),
            outputAmount: U256::from(4_000_000),
            destinationChainId: U256::from(31_338),
            recipient: account.into_word(),
            exclusiveRelayer: Address::ZERO,
            depositNonce: U256::from(1),
            exclusivityPeriod: 0,
            message: Default::default(),
        },
    };
    let message = TypedMessage::CrossChainOrder { permit2: Address::repeat_byte(4), intent: Box::new(intent) };
    let asset = CardToken { symbol: SafeText::clean("USDC", 5), address: token, decimals: 6 };
    OrderRecord {
        hash: B256::repeat_byte(1),
        permit_id: PermitId::random(),
        call_id: CallId::new(1),
        golem_id: GolemId::operator(),
        chain_id: 31_337,
        account,
        status: OrderState::pending(&message),
        message,
        signature: None,
        stage: OrderStage::Submitted,
        figures: OrderFigures {
            token_in: asset.clone(),
            token_out: asset,
            quoted_out: U256::from(5),
            expected_outcome: SafeText::default(),
            from_block: 1,
            arrival_from_block: None,
            arrival_before: None,
        },
        card: None,
        reservation: Reservation(1),
        spent: Usd::ZERO,
        gas: Usd::ZERO,
        created_at: 0,
        signed_at: None,
        maybe_seen: false,
    }
}
