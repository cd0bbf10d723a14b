//! Strict parsers for the Trading API's answers, which are compared with the results of our own code: permits, calls,
//! approvals, orders and swap states.

use std::collections::BTreeSet;
use std::str::FromStr as _;

use alloy::primitives::aliases::{U48, U160};
use alloy::primitives::{Address, B256, Bytes, U256, hex};
use alloy::sol_types::SolCall as _;
use serde_json::Value;

use super::wei;
use crate::uniswap::claim::{ClaimMismatch, ClaimRequest, address, amount, at, check_address, check_chain};
use crate::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft, OrderExpectation, UniswapXOrder};
use crate::uniswap::quote::{ApprovalQuery, BuiltCall, OrderQuery, SourceApproval, SourceAuction};
use crate::uniswap::router::{CALLER, RouterCommand, RouterExecution, SwapAmounts, SwapPath, THE_ROUTER};
use bardo_abi::erc20::Erc20;
use bardo_base::text::SafeText;
use golem_chain::permit2::{PermitDetails, PermitSingle};

/// Maximum length of parsed calldata, in bytes.
const MOST_CALLDATA: usize = 64 * 1024;

/// Error for an answer that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TradingApiMismatch {
    /// Field that is missing or wrong.
    #[error(transparent)]
    Field(#[from] ClaimMismatch),
    /// Valid answer that differs from the result of our own code.
    #[error("{0}")]
    Differs(SafeText),
}

fn differs(what: impl std::fmt::Display) -> TradingApiMismatch {
    TradingApiMismatch::Differs(SafeText::clean(&what.to_string(), 300))
}

/// Parses the permit that a quote requires, if any. Its token, chain and spender must be the expected token, this chain
/// and a known router.
///
/// # Errors
/// Returns a [`TradingApiMismatch`] for an invalid or unexpected permit.
pub fn permit(
    data: &Value,
    asked: &ClaimRequest,
    permit2: Option<Address>,
    routers: &[Address],
) -> Result<Option<PermitSingle>, TradingApiMismatch> {
    if data.is_null() {
        return Ok(None);
    }
    let permit2 = permit2.ok_or_else(|| differs("it has a permit, but the chain has no Permit2"))?;
    check_chain(at(data, &["domain", "chainId"]), "permitData.domain.chainId", asked.chain_id)?;
    check_address(at(data, &["domain", "verifyingContract"]), "permitData.domain.verifyingContract", permit2)?;
    check_address(at(data, &["values", "details", "token"]), "permitData.token", asked.token_in)?;
    let spender = address(at(data, &["values", "spender"]), "permitData.spender")?;
    if !routers.contains(&spender) {
        return Err(differs(format_args!("its permit is for {spender}, which is not a router of the chain")));
    }
    let number = |path: &[&str], field| amount(at(data, path), field);
    let sized = |path: &[&str], field: &'static str| {
        let value = number(path, field)?;
        u64::try_from(value)
            .ok()
            .filter(|value| *value < 1 << 48)
            .ok_or(ClaimMismatch::Field(field, "number of 48 bits"))
    };
    let permitted = number(&["values", "details", "amount"], "permitData.amount")?;
    let permitted = U160::checked_from_limbs_slice(permitted.as_limbs())
        .ok_or(ClaimMismatch::Field("permitData.amount", "number of 160 bits"))?;
    let details = PermitDetails {
        token: asked.token_in,
        amount: permitted,
        expiration: U48::from(sized(&["values", "details", "expiration"], "permitData.expiration")?),
        nonce: U48::from(sized(&["values", "details", "nonce"], "permitData.nonce")?),
    };
    let deadline = number(&["values", "sigDeadline"], "permitData.sigDeadline")?;
    Ok(Some(PermitSingle { details, spender, sigDeadline: deadline }))
}

fn bytes(value: Option<&Value>, field: &'static str) -> Result<Bytes, ClaimMismatch> {
    let text = value.and_then(Value::as_str).filter(|text| text.len() <= 2 * MOST_CALLDATA + 2);
    let digits = text.and_then(|text| text.strip_prefix("0x"));
    digits
        .and_then(|digits| hex::decode(digits).ok())
        .map(Into::into)
        .ok_or(ClaimMismatch::Field(field, "hexadecimal bytes"))
}

/// Compares the API's call with our own: router, sender, value, paths and amounts must be the same, and no third party
/// may be paid. Permits, bounds and deadlines may differ, because only our own call is signed.
///
/// # Errors
/// Returns a [`TradingApiMismatch`] for an invalid or different call.
pub fn call(swap: &Value, own: &BuiltCall<'_>) -> Result<(), TradingApiMismatch> {
    check_chain(at(swap, &["chainId"]), "swap.chainId", own.chain_id)?;
    check_address(at(swap, &["to"]), "swap.to", own.router)?;
    check_address(at(swap, &["from"]), "swap.from", own.account)?;
    let value = wei(at(swap, &["value"])).ok_or(ClaimMismatch::Field("swap.value", "amount"))?;
    if value != own.value {
        return Err(differs(format_args!("its call sends {value} wei, but ours sends {}", own.value)));
    }
    let data = bytes(at(swap, &["data"]), "swap.data")?;
    let theirs = RouterExecution::decode(&data, own.version)
        .map_err(|error| differs(format_args!("its calldata cannot be decoded: {error}")))?;
    let mine = |who: Address| who == own.account || who == CALLER;
    let mut swaps = Vec::new();
    for command in &theirs.commands {
        match command {
            RouterCommand::Swap(swap) => {
                let passes = swap.recipient == THE_ROUTER || own.pools.contains(&swap.recipient);
                if !(mine(swap.recipient) || passes) {
                    return Err(differs(format_args!("its call pays {}", swap.recipient)));
                }
                swaps.push((swap.path.clone(), fixed(swap.exact)));
            }
            RouterCommand::UnwrapWeth { recipient, .. } | RouterCommand::Sweep { recipient, .. } => {
                if !mine(*recipient) {
                    return Err(differs(format_args!("its call pays {recipient}")));
                }
            }
            RouterCommand::WrapEth { recipient, .. } => {
                if !(mine(*recipient) || *recipient == THE_ROUTER) {
                    return Err(differs(format_args!("its call wraps native tokens for {recipient}")));
                }
            }
            RouterCommand::PayPortion { recipient, bips, .. } => {
                return Err(differs(format_args!("its call gives {bips} bps to {recipient}")));
            }
            RouterCommand::Permit2Permit { permit, .. } => {
                if permit.spender != own.router {
                    return Err(differs(format_args!("its call lets {} spend", permit.spender)));
                }
            }
        }
    }
    let ours = own.execution.commands.iter().filter_map(|command| match command {
        RouterCommand::Swap(swap) => Some((swap.path.clone(), fixed(swap.exact))),
        RouterCommand::Permit2Permit { .. }
        | RouterCommand::WrapEth { .. }
        | RouterCommand::UnwrapWeth { .. }
        | RouterCommand::Sweep { .. }
        | RouterCommand::PayPortion { .. } => None,
    });
    let (mut ours, mut theirs) = (ours.collect::<Vec<_>>(), swaps);
    let key = |(path, amount): &(SwapPath, U256)| (format!("{path:?}"), *amount);
    ours.sort_by_key(key);
    theirs.sort_by_key(key);
    if ours != theirs {
        return Err(differs("its call trades other pools or amounts than its quote"));
    }
    Ok(())
}

/// Returns the fixed amount of a swap command.
fn fixed(exact: SwapAmounts) -> U256 {
    match exact {
        SwapAmounts::In { amount, .. } | SwapAmounts::Out { amount, .. } => amount,
    }
}

/// Parses the API's answer about an approval.
///
/// # Errors
/// Returns a [`TradingApiMismatch`] for a transaction that is not an approval of Permit2 for this token.
pub fn approval(answer: &Value, ask: &ApprovalQuery) -> Result<SourceApproval, TradingApiMismatch> {
    for name in ["approval", "cancel"] {
        if answer.get(name).is_none() {
            return Err(ClaimMismatch::Field("approval and cancel", "transaction or null").into());
        }
    }
    let cancel = at(answer, &["cancel"]).map(|transaction| approved(transaction, ask)).transpose()?;
    if cancel.is_some_and(|amount| !amount.is_zero()) {
        return Err(differs("its cancellation grants an allowance"));
    }
    let Some(transaction) = at(answer, &["approval"]) else { return Ok(SourceApproval::Enough) };
    let amount = approved(transaction, ask)?;
    if amount < ask.amount {
        return Err(differs(format_args!("its approval of {amount} is less than the requested {}", ask.amount)));
    }
    Ok(SourceApproval::Needed { amount, cancel_first: cancel.is_some() })
}

/// Returns the amount that an approval transaction allows Permit2 to take.
fn approved(transaction: &Value, ask: &ApprovalQuery) -> Result<U256, TradingApiMismatch> {
    check_chain(at(transaction, &["chainId"]), "approval.chainId", ask.chain_id)?;
    check_address(at(transaction, &["to"]), "approval.to", ask.token)?;
    check_address(at(transaction, &["from"]), "approval.from", ask.owner)?;
    if wei(at(transaction, &["value"])) != Some(U256::ZERO) {
        return Err(differs("its approval sends native tokens"));
    }
    let data = bytes(at(transaction, &["data"]), "approval.data")?;
    let call = Erc20::approveCall::abi_decode_validate(&data).ok();
    // Calldata that differs from its re-encoding hides data behind its fields.
    let call =
        call.filter(|call| call.abi_encode() == *data).ok_or_else(|| differs("its approval is not an approve call"))?;
    if call.spender != ask.permit2 {
        return Err(differs(format_args!("its approval is for {}, not for Permit2", call.spender)));
    }
    Ok(call.value)
}

/// Parses the amounts of an order quote. The encoded order must equal the one that our own builder makes from its
/// amounts, nonce, deadline and curve, and from the expected parties.
///
/// # Errors
/// Returns a [`TradingApiMismatch`] for an invalid or different order.
pub fn order(quote: &Value, ask: &OrderQuery) -> Result<SourceAuction, TradingApiMismatch> {
    let encoded = bytes(at(quote, &["encodedOrder"]), "encodedOrder")?;
    let theirs = UniswapXOrder::decode(ask.kind, &encoded).map_err(differs)?;
    let id = at(quote, &["orderId"]).and_then(Value::as_str).and_then(|id| B256::from_str(id).ok());
    if id != Some(theirs.hash()) {
        return Err(differs("its order id is not the hash of its encoded order"));
    }
    let expected = OrderExpectation {
        chain_id: ask.chain_id,
        now: ask.now,
        reactor: ask.reactor,
        swapper: ask.swapper,
        recipient: ask.swapper,
        cosigner: ask.cosigner,
    };
    let faults = theirs.faults(&expected);
    if !faults.is_empty() {
        return Err(differs(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")));
    }
    if theirs.token_in() != ask.token_in || theirs.most_in() != ask.amount_in {
        return Err(differs(format_args!(
            "its order takes {} of {}, but {} of {} was requested",
            theirs.most_in(),
            theirs.token_in(),
            ask.amount_in,
            ask.token_in
        )));
    }
    let shape =
        shape(&theirs).ok_or_else(|| differs("its order has several outputs, or a decay curve with several points"))?;
    if shape.token_out != ask.token_out {
        return Err(differs(format_args!("its order pays {}, but {} was requested", shape.token_out, ask.token_out)));
    }
    let draft = OrderDraft {
        reactor: ask.reactor,
        swapper: ask.swapper,
        recipient: ask.swapper,
        nonce: theirs.info().nonce,
        deadline: u64::try_from(theirs.info().deadline).map_err(|_| differs("its deadline is too large"))?,
        cosigner: ask.cosigner,
        token_in: ask.token_in,
        token_out: ask.token_out,
        legs: OrderAmounts::ExactIn { amount_in: ask.amount_in, start_out: shape.start, least_out: shape.least },
        auction: shape.auction,
    };
    let ours = draft.order().map_err(differs)?;
    if ours.hash() != theirs.hash() {
        return Err(differs("its order differs from the one for these amounts and parties"));
    }
    if shape.least < ask.slippage.minimum_out(shape.start) {
        return Err(differs(format_args!(
            "its order may end at {}, further below its start of {} than {} allow",
            shape.least, shape.start, ask.slippage
        )));
    }
    Ok(SourceAuction { start_out: shape.start, least_out: shape.least })
}

/// Values from which our builder can rebuild an order.
struct OrderShape {
    token_out: Address,
    start: U256,
    least: U256,
    auction: AuctionTerms,
}

fn shape(order: &UniswapXOrder) -> Option<OrderShape> {
    match order {
        UniswapXOrder::Dutch(_) => None,
        UniswapXOrder::DutchV2(order) => {
            let [output] = order.baseOutputs.as_slice() else { return None };
            let (start, least) = (output.startAmount, output.endAmount);
            Some(OrderShape { token_out: output.token, start, least, auction: AuctionTerms::CosignedTimes })
        }
        UniswapXOrder::DutchV3(v3) => {
            let [output] = v3.baseOutputs.as_slice() else { return None };
            let over = u16::try_from(output.curve.relativeBlocks & U256::from(u16::MAX)).ok()?;
            let auction = AuctionTerms::CosignedBlocks {
                over,
                base_fee: u128::try_from(v3.startingBaseFee).ok()?,
                per_gwei: output.adjustmentPerGweiBaseFee,
            };
            Some(OrderShape { token_out: output.token, start: output.startAmount, least: output.minAmount, auction })
        }
        UniswapXOrder::Priority(order) => {
            let [output] = order.outputs.as_slice() else { return None };
            let auction = AuctionTerms::PriorityFee {
                start_block: u64::try_from(order.auctionStartBlock).ok()?,
                baseline: u128::try_from(order.baselinePriorityFeeWei).ok()?,
                mps_per_wei: output.mpsPerPriorityFeeWei,
            };
            Some(OrderShape { token_out: output.token, start: output.amount, least: output.amount, auction })
        }
    }
}

/// State of a swap according to the API. Unverified: only the chain's receipt counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapStatus {
    /// Transaction that is not included yet.
    Pending,
    /// Transaction that succeeded.
    Success,
    /// Transaction that the API does not know.
    NotFound,
    /// Transaction that reverted.
    Failed,
    /// Transaction that expired.
    Expired,
}

/// API's words for the states.
const STATUS_WORDS: [(SwapStatus, &str); 5] = [
    (SwapStatus::Pending, "PENDING"),
    (SwapStatus::Success, "SUCCESS"),
    (SwapStatus::NotFound, "NOT_FOUND"),
    (SwapStatus::Failed, "FAILED"),
    (SwapStatus::Expired, "EXPIRED"),
];

impl SwapStatus {
    /// Returns the API's word for the state.
    pub fn word(self) -> &'static str {
        STATUS_WORDS.iter().find(|(status, _)| *status == self).map_or("NOT_FOUND", |(_, word)| word)
    }
}

/// Parses the states of the requested transactions.
///
/// # Errors
/// Returns a description of the problem.
pub fn swaps(answer: &Value, asked: &[B256]) -> Result<Vec<(B256, SwapStatus)>, &'static str> {
    let listed = answer.get("swaps").and_then(Value::as_array).ok_or("not a list of swaps")?;
    let mut seen = BTreeSet::new();
    let read = |swap: &Value| {
        let hash = at(swap, &["txHash"]).and_then(Value::as_str).and_then(|hash| B256::from_str(hash).ok());
        let hash = hash.filter(|hash| asked.contains(hash)).ok_or("a swap that was not requested")?;
        let word = at(swap, &["status"]).and_then(Value::as_str).ok_or("a swap without a status")?;
        let status = STATUS_WORDS.iter().find(|(_, known)| *known == word).ok_or("an unknown status")?.0;
        if seen.insert(hash) { Ok((hash, status)) } else { Err("a duplicate swap") }
    };
    listed.iter().map(read).collect()
}
