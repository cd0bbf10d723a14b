//! Orders that others settle: faults that show without a simulation, and the worst possible settlement, simulated
//! through the real contracts. The filler is a made-up address that receives the order's output tokens. It fills at the
//! least price and with the cosigner's least favourable data.

use bardo_base::model::RuleName;
use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, U256, address};
use alloy::sol_types::SolCall as _;

use super::figures::{figure, figure_of, when};
use super::{DeclarationFault, JudgeContext};
use crate::signing_payload::SigningPayload;
use crate::typed::TypedMessage;
use bardo_abi::erc20::Erc20;
use bardo_abi::uniswapx::{Reactor, SignedOrder as EncodedSigned};
use golem_chain::evm::{BlockContext, PLACEHOLDER_SIGNATURE, SignaturePlaceholder};
use golem_chain::fork::{CallFees, ForkCall};
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::token::TokenId;
use golem_protocols::intents;
use golem_protocols::uniswap::order::{OrderExpectation, OrderKind, UniswapXOrder};

/// Filler address in a simulation. Its private key is not known, since it is the start of a hash.
const FILLER: Address = address!("5bd1e995c9a1f3b0a7d2c4e8f60718293a4b5c6d");

/// Native balance of the filler, in wei.
const FILLER_COIN: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);

/// Gas limit of a token's transfer or approval.
const STEP_GAS: u64 = 200_000;
const FILL_GAS: u64 = 1_200_000;

/// Calls of a worst settlement, and the signatures that stand in for real ones.
pub(super) struct WorstSettlement {
    pub(super) calls: Vec<ForkCall>,
    pub(super) signatures: Vec<SignaturePlaceholder>,
}

/// Returns the contract that settles an order, with its role in the address book; `None` for other messages.
pub fn settler(message: &TypedMessage) -> Option<(KnownContract, Address)> {
    match message {
        TypedMessage::UniswapxOrder { order, .. } => {
            reactor_role(order.kind()).map(|role| (role, order.info().reactor))
        }
        TypedMessage::CrossChainOrder { intent, .. } => Some((KnownContract::OriginSettler, intent.origin_settler)),
        TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => None,
    }
}

/// Returns the role of a kind's reactor; `None` for kinds that are not signed here.
pub const fn reactor_role(kind: OrderKind) -> Option<KnownContract> {
    match kind {
        // A Dutch order has no cosigner between it and its fillers, and no supported network has its reactor.
        OrderKind::Dutch => None,
        OrderKind::DutchV2 => Some(KnownContract::V2DutchReactor),
        OrderKind::DutchV3 => Some(KnownContract::V3DutchReactor),
        OrderKind::Priority => Some(KnownContract::PriorityReactor),
    }
}

/// Returns the faults of the order of `payload` that show without a simulation. `code` is the hash of the settling
/// contract's code on chain; `now` is the next block's time in seconds since the Unix epoch.
pub fn order_faults(
    payload: &SigningPayload,
    book: &AddressBook,
    now: u64,
    code: Option<B256>,
) -> Vec<DeclarationFault> {
    let mut faults = Vec::new();
    let proposal = payload.proposal();
    let (Some(order), Some(proposed)) = (payload.order(), &proposal.order) else { return faults };
    let Some((role, at)) = settler(&order.message) else {
        faults.push(DeclarationFault::new(
            RuleName::Order,
            "an order that a known contract settles",
            order.message.kind(),
        ));
        return faults;
    };
    if !payload.exposed().contains(&order.signer) {
        faults.push(DeclarationFault::new(
            RuleName::Order,
            "a signature of the account",
            format!("one of {}", order.signer),
        ));
    }
    if book.contract(KnownContract::Permit2) != Some(order.message.verifier()) {
        faults.push(DeclarationFault::new(
            RuleName::Order,
            "one for the known Permit2",
            format!("one for {}", order.message.verifier()),
        ));
    }
    if payload.exposed().contains(&proposed.holder) || proposed.holder == FILLER {
        faults.push(DeclarationFault::new(RuleName::Order, "a filler other than the account", proposed.holder));
    }
    match book.contract(role) {
        Some(known) if known == at => {}
        known => {
            let known = known.map_or_else(|| "none".to_owned(), |known| known.to_string());
            faults.push(DeclarationFault::new(
                RuleName::Order,
                format!("the {} of the address book: {known}", role.key()),
                at,
            ));
        }
    }
    match (book.code_hash(role), code) {
        (Some(known), Some(found)) if known == found => {}
        (Some(known), found) => {
            let found = found.map_or_else(|| "unreadable code".to_owned(), |found| found.to_string());
            faults.push(DeclarationFault::new(RuleName::Order, format!("code with the hash {known} at {at}"), found));
        }
        (None, _) => faults.push(DeclarationFault::new(
            RuleName::Order,
            "a contract with known code",
            format!("the address book has no code hash for its {}", role.key()),
        )),
    }
    match &order.message {
        TypedMessage::UniswapxOrder { order: signed, .. } => uniswapx(payload, signed, at, book, now, &mut faults),
        TypedMessage::CrossChainOrder { intent, .. } => cross_chain(payload, intent, at, now, &mut faults),
        TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => {}
    }
    for takes in order.message.takes() {
        let id = TokenId::Erc20(takes.token);
        let flows = proposal.outflows.iter().filter(|flow| flow.token.id == id);
        let most = flows.fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.amount));
        if takes.amount > most {
            let found = format!("{} may be taken", figure(proposal, id, takes.amount));
            faults.push(DeclarationFault::new(
                RuleName::Order,
                format!("at most {} out", figure(proposal, id, most)),
                found,
            ));
        }
    }
    faults
}

fn uniswapx(
    payload: &SigningPayload,
    order: &UniswapXOrder,
    reactor: Address,
    book: &AddressBook,
    now: u64,
    faults: &mut Vec<DeclarationFault>,
) {
    let proposal = payload.proposal();
    let account = payload.account();
    let Some(cosigner) = book.contract(KnownContract::OrderCosigner) else {
        faults.push(DeclarationFault::new(RuleName::Order, "a known cosigner", "the address book names none"));
        return;
    };
    let expected =
        OrderExpectation { chain_id: proposal.chain_id, now, reactor, swapper: account, recipient: account, cosigner };
    for fault in order.faults(&expected) {
        faults.push(DeclarationFault::new(RuleName::Order, "a valid order of the account for itself", fault));
    }
    if order.cosigner().is_none() {
        faults.push(DeclarationFault::new(
            RuleName::Order,
            "an order that needs the service's cosignature",
            "one without a cosigner",
        ));
    }
    // The order must survive encoding and decoding unchanged, so that the submitted order is the checked one.
    if UniswapXOrder::decode(order.kind(), &order.encode()).ok().as_ref() != Some(order) {
        faults.push(DeclarationFault::new(
            RuleName::Order,
            "an order in canonical encoding",
            "one that decodes differently",
        ));
    }
    let bounds = order.bounds();
    for inflow in proposal.inflows.iter().filter(|inflow| inflow.recipient == account) {
        let certain = bounds.least_out.iter().filter(|output| {
            let token = if output.token.is_zero() { TokenId::Native } else { TokenId::Erc20(output.token) };
            output.recipient == account && token == inflow.token.id
        });
        let certain = certain.fold(U256::ZERO, |sum, output| sum.saturating_add(output.amount));
        if certain < inflow.at_least {
            let (wanted, certain) =
                (figure(proposal, inflow.token.id, inflow.at_least), figure(proposal, inflow.token.id, certain));
            let declared = format!("at least {wanted} in, guaranteed");
            faults.push(DeclarationFault::new(
                RuleName::Order,
                declared,
                format!("only {certain} guaranteed by the order"),
            ));
        }
    }
    if proposal.trade.as_ref().is_none_or(|trade| order.info().deadline > U256::from(trade.deadline)) {
        let until =
            proposal.trade.as_ref().map_or_else(|| "the deadline of a trade".to_owned(), |trade| when(trade.deadline));
        let found = format!("expires after {}", when(order.info().deadline.saturating_to()));
        faults.push(DeclarationFault::new(RuleName::Order, format!("expires after {until}"), found));
    }
}

fn cross_chain(
    payload: &SigningPayload,
    intent: &intents::CrossChainIntent,
    settler: Address,
    now: u64,
    faults: &mut Vec<DeclarationFault>,
) {
    let proposal = payload.proposal();
    let account = payload.account();
    let Some(arrival) = proposal.order.as_ref().and_then(|order| order.arrival.as_ref()) else {
        faults.push(DeclarationFault::new(RuleName::Order, "an order that states what arrives", "one that does not"));
        return;
    };
    let expected = intents::IntentExpectation {
        now,
        origin_chain_id: proposal.chain_id,
        destination_chain_id: arrival.chain_id,
        origin_settler: settler,
        user: account,
        recipient: account,
    };
    for fault in intent.faults(&expected) {
        faults.push(DeclarationFault::new(RuleName::Order, "a valid order of the account for itself", fault));
    }
    if intents::CrossChainIntent::decode(&intent.encode()).ok().as_ref() != Some(intent) {
        faults.push(DeclarationFault::new(
            RuleName::Order,
            "an order in canonical encoding",
            "one that decodes differently",
        ));
    }
    let token = TokenId::Erc20(intent.data.outputToken);
    if token != arrival.token.id || intent.data.outputAmount < arrival.at_least {
        let found = match token == arrival.token.id {
            true => figure_of(&arrival.token, intent.data.outputAmount),
            false => format!("{} smallest units of {}", intent.data.outputAmount, intent.data.outputToken),
        };
        let wanted = format!("at least {} arrive", figure_of(&arrival.token, arrival.at_least));
        faults.push(DeclarationFault::new(RuleName::Order, wanted, found));
    }
}

/// Error: an order's settlement cannot be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SettlementError {
    /// The chain's wrapped native token is not in the address book.
    #[error("no known contract wraps the native token")]
    NoWrapper,
    /// The sum of the outputs exceeds 256 bits.
    #[error("its outputs are too large")]
    Overflow,
    /// The signed message is not an order.
    #[error("no known contract settles it")]
    NoSettler,
}

/// Builds the worst settlement of the order of `payload` in the block `next`; `None` without an order.
///
/// # Errors
/// [`SettlementError`]: it cannot be run at all; then nothing is known of what the order does.
pub(super) fn worst(
    payload: &SigningPayload,
    next: &BlockContext,
    around: &JudgeContext,
) -> Result<Option<WorstSettlement>, SettlementError> {
    let (Some(framed_order), Some(proposed)) = (payload.order(), &payload.proposal().order) else { return Ok(None) };
    let chain_id = payload.proposal().chain_id;
    let mut signatures =
        vec![SignaturePlaceholder { digest: framed_order.message.digest(chain_id), signer: framed_order.signer }];
    let step = |from, to, data: Vec<u8>| ForkCall::new(from, to, data).with_gas_limit(STEP_GAS);
    let mut calls = Vec::new();
    match &framed_order.message {
        TypedMessage::UniswapxOrder { order, .. } => {
            let order = least_favourable(order, next);
            if let (Some(digest), Some(signer)) = (order.cosigner_digest(chain_id), order.cosigner()) {
                signatures.push(SignaturePlaceholder { digest, signer });
            }
            let wrapped = around.wrapped.ok_or(SettlementError::NoWrapper)?;
            let reactor = order.info().reactor;
            let (mut coin, mut tokens) = (U256::ZERO, BTreeMap::<Address, U256>::new());
            for output in order.bounds().least_out {
                let sum = if output.token.is_zero() { &mut coin } else { tokens.entry(output.token).or_default() };
                *sum = sum.checked_add(output.amount).ok_or(SettlementError::Overflow)?;
            }
            let given = FILLER_COIN.checked_add(coin).ok_or(SettlementError::Overflow)?;
            calls.push(step(wrapped, FILLER, Vec::new()).with_value(given));
            let mut nonce = 0;
            for (token, amount) in tokens {
                calls.push(step(
                    proposed.holder,
                    token,
                    Erc20::transferCall { to: FILLER, value: amount }.abi_encode(),
                ));
                calls.push(step(FILLER, token, Erc20::approveCall { spender: reactor, value: amount }.abi_encode()));
                nonce += 1;
            }
            let signed = EncodedSigned { order: order.encode(), sig: Bytes::from(PLACEHOLDER_SIGNATURE) };
            // Exactly the base fee, so that a Priority order yields its least output.
            let fees = CallFees::Dynamic { max_fee: next.base_fee.into(), max_priority_fee: 0 };
            let fill = ForkCall::new(FILLER, reactor, Reactor::executeCall { order: signed }.abi_encode());
            calls.push(fill.with_value(coin).with_gas_limit(FILL_GAS).paid(nonce, fees));
        }
        TypedMessage::CrossChainOrder { intent, .. } => {
            let data = intent.open_for(Bytes::from(PLACEHOLDER_SIGNATURE), Bytes::new());
            calls.push(ForkCall::new(FILLER, intent.origin_settler, data).with_gas_limit(FILL_GAS));
        }
        TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => {
            return Err(SettlementError::NoSettler);
        }
    }
    Ok(Some(WorstSettlement { calls, signatures }))
}

/// Returns the order as a malicious cosigner would complete it: fully decayed, with a placeholder cosignature.
fn least_favourable(order: &UniswapXOrder, next: &BlockContext) -> UniswapXOrder {
    let mut order = order.clone();
    match &mut order {
        UniswapXOrder::Dutch(_) => {}
        UniswapXOrder::DutchV2(order) => {
            // The decay ended long ago.
            order.cosignerData.decayStartTime = U256::ZERO;
            order.cosignerData.decayEndTime = U256::from(1);
            order.cosignerData.exclusiveFiller = Address::ZERO;
            order.cosignerData.exclusivityOverrideBps = U256::ZERO;
            order.cosignerData.inputAmount = U256::ZERO;
            order.cosignerData.outputAmounts = vec![U256::ZERO; order.baseOutputs.len()];
        }
        UniswapXOrder::DutchV3(order) => {
            // A decay curve spans at most 65,535 blocks.
            let start = next.number.saturating_sub(u64::from(u16::MAX));
            order.cosignerData.decayStartBlock = U256::from(start);
            order.cosignerData.exclusiveFiller = Address::ZERO;
            order.cosignerData.exclusivityOverrideBps = U256::ZERO;
            order.cosignerData.inputAmount = U256::ZERO;
            order.cosignerData.outputAmounts = vec![U256::ZERO; order.baseOutputs.len()];
        }
        UniswapXOrder::Priority(order) => order.cosignerData.auctionTargetBlock = U256::from(next.number),
    }
    order.with_cosignature(Bytes::from(PLACEHOLDER_SIGNATURE))
}
