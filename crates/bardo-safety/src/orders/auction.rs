//! On-chain state of a UniswapX order, and the card that shows it. The order is filled if its reactor emits a fill
//! event, and cancelled if Permit2 emits an invalidation of its nonce. It is expired once the chain's time is past its
//! deadline; until then it is open. A used nonce without such an event may have been used by a fill.

use alloy::eips::BlockId;
use alloy::primitives::{Address, Log, U256};
use alloy::providers::{Provider as _, bindings::IMulticall3};
use alloy::rpc::types::{Filter, TransactionInput, TransactionRequest};
use alloy::sol_types::{SolCall as _, SolEvent as _};

use super::depth::{ConfirmationDepth, events, witness};
use super::fill_amounts;
use super::price_time::seconds_until;
use super::record::{OrderRecord, OrderStage};
use super::{CardState, OrderChain, OrderEnd, OrderError, Orders, PollResult, line};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_abi::uniswapx::{OrderInfo, Reactor};
use bardo_base::fabric::{
    CardToken, DecayCurve, DecayUnit, Exclusivity, FillerOffer, OrderFill, OrderStatus, OrderUpdate, TxPlace,
};
use bardo_base::format::time_of_day;
use bardo_base::service::ServiceError;
use bardo_base::units::TokenAmount;
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_chain::permit2::{nonce_position, nonce_used};
use golem_chain::provider::{ChainClient, ProviderError};
use golem_protocols::uniswap::gateway::{ServiceReport, ServiceStatus};
use golem_protocols::uniswap::order::{ResolutionPoint, UniswapXOrder};

/// Height of a priority order's curve above its minimum output, in basis points.
const PRIORITY_SPAN_BPS: u64 = 200;

/// Number of recent blocks whose state every endpoint is assumed to keep: go-ethereum keeps 128, with a margin.
const STATES_KEPT: u64 = 100;

/// Number of blocks after which a possibly temporary RPC error about an old state counts as missing state. Some nodes
/// report missing state with such an error, and a temporary fault would be over by then.
const TROUBLE_LASTS: u64 = 1_000;

/// Denominator of a priority order's scaling: ten-millionths (MPS).
const MPS: u64 = 10_000_000;

/// The chain's latest block, and the order's state at the confirmed block.
struct AuctionState {
    number: u64,
    timestamp: u64,
    base_fee: u128,
    /// Block interval of the chain, in milliseconds.
    block_millis: u64,
    /// True if the confirmed block is past the order's deadline.
    over: bool,
    nonce_used: bool,
    funded: bool,
    fill: Option<ObservedFill>,
    void: Option<TxPlace>,
}

struct ObservedFill {
    place: TxPlace,
    filler: Address,
    timestamp: u64,
    number: u64,
    base_fee: u128,
    priority_fee: u128,
    received: U256,
    paid: U256,
}

impl Orders {
    pub(super) async fn auction(
        &self,
        record: &OrderRecord,
        order: &UniswapXOrder,
        remark: &str,
    ) -> Result<PollResult, OrderError> {
        let chain = self.chain(record.chain_id)?;
        let state = auction_state(chain, record, order).await?;
        let service_answers = match &chain.auctions {
            // Also ask for filled orders: their price depends on the cosigner's data.
            Some(service) if record.stage != OrderStage::Refused => {
                self.hearsay(service.as_ref(), record.hash, state.fill.is_some()).await
            }
            _ => Ok(None),
        };
        Ok(seen(record, order, &state, service_answers, remark))
    }
}

async fn auction_state(
    OrderChain { client, confirmations, .. }: &OrderChain,
    record: &OrderRecord,
    order: &UniswapXOrder,
) -> Result<AuctionState, OrderError> {
    let info = order.info();
    let nonsense = |what: &str| OrderError::Nonsense(format!("{} does not return {what}", client.network()));
    let ConfirmationDepth { head, deep } = ConfirmationDepth::of(client, *confirmations).await?;
    let multicall = client
        .network()
        .book
        .contract(KnownContract::Multicall3)
        .ok_or_else(|| nonsense("the address of Multicall3"))?;
    let (word, _) = nonce_position(info.nonce);
    let mut calls = CallBatch::default();
    let permit2 = record.message.verifier();
    let token = order.token_in();
    let bits = calls.push(permit2, &Permit2::nonceBitmapCall { owner: info.swapper, word });
    let time = calls.push(multicall, &IMulticall3::getCurrentBlockTimestampCall {});
    let has = calls.push(token, &Erc20::balanceOfCall { owner: info.swapper });
    let lets = calls.push(token, &Erc20::allowanceCall { owner: info.swapper, spender: permit2 });
    let answers = calls.send(witness(client), multicall, BlockId::hash(deep.hash)).await?;
    let bits = bits.take(&answers).ok_or_else(|| nonsense("the used Permit2 nonces"))?;
    let used = nonce_used(info.nonce, bits);
    let enough = |amount: Option<U256>| amount.is_some_and(|amount| amount >= order.most_in());
    let funded = enough(has.take(&answers)) && enough(lets.take(&answers));
    let time = time.take(&answers).ok_or_else(|| nonsense("the time"))?;
    let (fill, void) = if used { spent(client, record, order, deep.number).await? } else { (None, None) };
    Ok(AuctionState {
        number: head.number,
        timestamp: head.timestamp,
        base_fee: head.base_fee_per_gas.unwrap_or_default().into(),
        block_millis: client.network().block_millis,
        over: time > info.deadline,
        nonce_used: used,
        funded,
        fill,
        void,
    })
}

/// Returns the fill or the invalidation that used the order's nonce; both `None` if neither can be determined.
async fn spent(
    client: &ChainClient,
    record: &OrderRecord,
    order: &UniswapXOrder,
    head: u64,
) -> Result<(Option<ObservedFill>, Option<TxPlace>), OrderError> {
    let provider = client.agreed();
    let info = order.info();
    let filter = Filter::new().from_block(record.figures.from_block).to_block(head);
    let filled =
        filter.clone().address(info.reactor).event_signature(Reactor::Fill::SIGNATURE_HASH).topic1(record.hash);
    // While the endpoints disagree about the fill, no other event may explain the nonce.
    let Some(logs) = events(client, &filled).await? else { return Ok((None, None)) };
    let place = |log: &alloy::rpc::types::Log| {
        let hash = log.transaction_hash?;
        Some(TxPlace { chain_id: record.chain_id, hash, block: log.block_number })
    };
    let found = logs.iter().find_map(|log| Some((place(log)?, Reactor::Fill::decode_log(&log.inner).ok()?)));
    if let Some((place, event)) = found.filter(|(_, event)| event.swapper == info.swapper) {
        // Receipts are asked of all endpoints, whatever the provider; one that is a moment behind is asked again.
        let receipt = client.provider().get_transaction_receipt(place.hash).await.map_err(ProviderError::from)?;
        let receipt = receipt.ok_or_else(|| OrderError::Nonsense("a fill without a receipt".to_owned()))?;
        let number = place.block.unwrap_or_default();
        let block = provider.get_block_by_number(number.into()).await.map_err(ProviderError::from)?;
        let header = block.ok_or_else(|| OrderError::Nonsense("a fill in a missing block".to_owned()))?.header;
        let base_fee = u128::from(header.base_fee_per_gas.unwrap_or_default());
        let logs: Vec<Log> = receipt.inner.logs().iter().map(|log| log.inner.clone()).collect();
        let fill = ObservedFill {
            filler: event.filler,
            timestamp: header.timestamp,
            number,
            base_fee,
            priority_fee: receipt.effective_gas_price.saturating_sub(base_fee),
            received: fill_amounts::received(&logs, order, record.hash, record.figures.token_out.address),
            paid: fill_amounts::paid(&logs, order),
            place,
        };
        return Ok((Some(fill), None));
    }
    let (word, _) = nonce_position(info.nonce);
    let voided = filter
        .address(record.message.verifier())
        .event_signature(Permit2::UnorderedNonceInvalidation::SIGNATURE_HASH)
        .topic1(info.swapper.into_word());
    let Some(logs) = events(client, &voided).await? else { return Ok((None, None)) };
    // Only the first invalidation of the nonce can have used it.
    let void = logs.iter().find(|log| {
        let event = Permit2::UnorderedNonceInvalidation::decode_log(&log.inner).ok();
        event.is_some_and(|event| event.word == word && nonce_used(info.nonce, event.mask))
    });
    let Some(void) = void.and_then(place) else { return Ok((None, None)) };
    let voids = match void.block.and_then(|block| block.checked_sub(1)) {
        Some(before) => was_free(client, record.message.verifier(), info, (before, head)).await?,
        None => false,
    };
    Ok((None, voids.then_some(void)))
}

/// Returns true if the order's nonce was unused at the end of `block`. Permit2 emits an invalidation even for a nonce
/// that a fill has used before, and an endpoint may have omitted that fill. Returns false if no endpoint keeps the
/// state of that block.
async fn was_free(
    client: &ChainClient,
    permit2: Address,
    info: &OrderInfo,
    (block, head): (u64, u64),
) -> Result<bool, OrderError> {
    let (word, _) = nonce_position(info.nonce);
    let question = Permit2::nonceBitmapCall { owner: info.swapper, word }.abi_encode();
    let request = TransactionRequest::default().to(permit2).input(TransactionInput::new(question.into()));
    let answer = match witness(client).call(request).block(BlockId::number(block)).await.map_err(ProviderError::from) {
        Ok(answer) => answer,
        Err(error) if is_forgotten(&error, head.saturating_sub(block)) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let bits = Permit2::nonceBitmapCall::abi_decode_returns(&answer);
    Ok(bits.is_ok_and(|bits| !nonce_used(info.nonce, bits)))
}

/// Returns true if an error about the state of `back` blocks ago shows that the endpoint no longer keeps that state. A
/// missing answer does not show it. If endpoints that agree about the latest state disagree about an old one, not all
/// of them keep it.
fn is_forgotten(error: &ProviderError, back: u64) -> bool {
    match error {
        ProviderError::Rpc { .. } => back >= if error.is_refusal() { STATES_KEPT } else { TROUBLE_LASTS },
        ProviderError::AllFailed { failures, .. } => {
            !failures.is_empty() && failures.iter().all(|failure| is_forgotten(failure, back))
        }
        ProviderError::Disagreement { .. } => back >= STATES_KEPT,
        // Timeout, too early or rate limit: a temporary failure.
        ProviderError::Http { status: 408 | 425 | 429, .. } => false,
        ProviderError::Http { status: 400..500, .. } => back >= TROUBLE_LASTS,
        _ => false,
    }
}

fn seen(
    record: &OrderRecord,
    order: &UniswapXOrder,
    state: &AuctionState,
    service_answers: Result<Option<ServiceReport>, ServiceError>,
    remark: &str,
) -> PollResult {
    let unexplained = state.nonce_used && state.fill.is_none() && state.void.is_none();
    let (status, end) = if state.fill.is_some() {
        (OrderStatus::Filled, Some(OrderEnd::Took))
    } else if state.void.is_some() {
        (OrderStatus::Cancelled, Some(OrderEnd::TookNothing))
    } else if state.nonce_used && state.over {
        // Nothing more can be taken, and it is unknown what was: count the order as filled completely.
        (OrderStatus::Error, Some(OrderEnd::Took))
    } else if state.nonce_used {
        (OrderStatus::Open, None)
    } else if state.over {
        (OrderStatus::Expired, Some(OrderEnd::TookNothing))
    } else if record.stage == OrderStage::Refused {
        (OrderStatus::Error, None)
    } else if !state.funded {
        (OrderStatus::InsufficientFunds, None)
    } else if record.stage == OrderStage::Submitted || matches!(service_answers, Ok(Some(_))) {
        (OrderStatus::Open, None)
    } else {
        (OrderStatus::Pending, None)
    };
    let mut remarks = Vec::new();
    if !remark.is_empty() {
        remarks.push(remark.to_owned());
    }
    let hearsay = match service_answers {
        Ok(hearsay) => hearsay,
        Err(error) => {
            remarks.push(error.to_string());
            None
        }
    };
    if unexplained {
        remarks.push("its nonce is used, but no event shows by what: it counts in full until one does".to_owned());
    }
    if let Some(claim) = contradiction(status, hearsay.as_ref()) {
        remarks.push(claim);
    }
    // The cosigner's data in the service's answer counts only for this order with a valid cosignature.
    let cosigned = hearsay.as_ref().and_then(|service_answers| service_answers.cosigned.clone());
    let cosigned = cosigned.filter(|one| one.hash() == record.hash && one.cosigner_faults(record.chain_id).is_empty());
    if hearsay.as_ref().is_some_and(|service_answers| service_answers.cosigned.is_some()) && cosigned.is_none() {
        remarks.push("the service returned another order, or one with an invalid cosignature".to_owned());
    }
    match status {
        OrderStatus::InsufficientFunds => {
            remarks
                .push(format!("the wallet lacks {}, or has not allowed it to Permit2", record.figures.token_in.symbol));
        }
        OrderStatus::Expired => remarks.push("it expired without a fill".to_owned()),
        OrderStatus::Cancelled => remarks.push("its nonce was invalidated on chain".to_owned()),
        OrderStatus::Pending | OrderStatus::Open | OrderStatus::Filled | OrderStatus::Error => {}
    }
    let update = card(record, order, cosigned.as_ref(), state, status, hearsay.as_ref(), remarks.join("; "));
    PollResult { card: CardState::Order(Box::new(update)), end }
}

/// Returns a remark if the service reports an end that the chain does not confirm.
fn contradiction(status: OrderStatus, service_answers: Option<&ServiceReport>) -> Option<String> {
    let service_answers = service_answers?.status;
    let ended = matches!(service_answers, ServiceStatus::Filled | ServiceStatus::Expired | ServiceStatus::Cancelled);
    (ended && !status.is_final()).then(|| {
        format!("the service reports it as {}, but the chain does not: the chain counts", service_answers.word())
    })
}

fn card(
    record: &OrderRecord,
    order: &UniswapXOrder,
    cosigned: Option<&UniswapXOrder>,
    state: &AuctionState,
    status: OrderStatus,
    service_answers: Option<&ServiceReport>,
    remark: String,
) -> OrderUpdate {
    let figures = &record.figures;
    let (given, wanted) = (&figures.token_in, &figures.token_out);
    let bounds = order.bounds();
    let least = bounds.least_out.iter().fold(U256::ZERO, |sum, output| sum.saturating_add(output.amount));
    let drawn = cosigned.unwrap_or(order);
    let named = |party: Address| service_answers.and_then(|service_answers| service_answers.name_of(party));
    let exclusivity = exclusivity(drawn).map(|one| Exclusivity { name: named(one.filler), ..one });
    let filler = exclusivity.as_ref().map(|one| one.filler).unwrap_or_default();
    let at = |number: u64, timestamp: u64, base_fee: u128, priority_fee: u128, filler: Address| ResolutionPoint {
        chain_id: record.chain_id,
        timestamp,
        block: number,
        base_fee,
        priority_fee,
        filler,
    };
    let deadline: u64 = order.info().deadline.saturating_to();
    let bid_fee = service_answers
        .and_then(|service_answers| service_answers.best_bid.as_ref())
        .and_then(|bid| fee_for(drawn, bid.output))
        .unwrap_or(0);
    let (number, timestamp, priority_fee) = match &state.fill {
        Some(fill) => (fill.number, fill.timestamp, fill.priority_fee),
        None => (state.number, state.timestamp, bid_fee),
    };
    let position = match drawn {
        UniswapXOrder::Dutch(_) | UniswapXOrder::DutchV2(_) => timestamp,
        UniswapXOrder::DutchV3(_) => number,
        UniswapXOrder::Priority(_) => u64::try_from(priority_fee).unwrap_or(u64::MAX),
    };
    let curve = curve(record, drawn, cosigned.is_some(), state);
    let now = match &state.fill {
        Some(fill) => at(fill.number, fill.timestamp, fill.base_fee, fill.priority_fee, fill.filler),
        None => at(state.number, state.timestamp, state.base_fee, bid_fee, filler),
    };
    let current = cosigned.and_then(|order| order.resolve(&now).ok());
    let current = current
        .map(|resolved| sum(&resolved.outputs))
        .or_else(|| state.fill.as_ref().map(|fill| fill.received).filter(|received| !received.is_zero()))
        .or_else(|| starts(drawn))
        .unwrap_or(least);
    let start = starts(drawn).unwrap_or(least);
    let fill = state.fill.as_ref().map(|fill| OrderFill {
        tx: fill.place.clone(),
        filler: fill.filler,
        name: named(fill.filler),
        amount_in: text(fill.paid, given),
        // Transfers of the native token emit no event. The curve's amount arrived, or else the fill would have
        // reverted.
        amount_out: text(if wanted.address.is_zero() { current } else { fill.received }, wanted),
        position,
    });
    let money = money(record, status, fill.as_ref(), deadline);
    let bid = service_answers.and_then(|service_answers| service_answers.best_bid.as_ref()).map(|bid| FillerOffer {
        filler: bid.filler,
        name: Some(bid.name.clone()),
        output_amount: text(bid.output, wanted),
        estimated_seconds: cosigned
            .and_then(|order| {
                let from = at(state.number, state.timestamp, state.base_fee, 0, bid.filler);
                seconds_until(order, &from, bid.output, deadline, state.block_millis)
            })
            .unwrap_or_default(),
        chosen: false,
    });
    OrderUpdate {
        order_hash: record.hash,
        order_type: line(record.kind()),
        chain_id: record.chain_id,
        status,
        token_in: given.clone(),
        token_out: wanted.clone(),
        amount_in: text(order.most_in(), given),
        quoted_out: text(figures.quoted_out, wanted),
        start_amount: text(start, wanted),
        end_amount: text(least, wanted),
        curve,
        position,
        current_amount: text(current, wanted),
        exclusivity,
        best_bid: if status.is_final() { None } else { bid },
        deadline,
        fill,
        cancelled_by: state.void.clone(),
        money,
        remark: line(remark),
    }
}

fn money(
    record: &OrderRecord,
    status: OrderStatus,
    fill: Option<&OrderFill>,
    deadline: u64,
) -> bardo_base::text::SafeText {
    let (given, wanted) = (&record.figures.token_in.symbol, &record.figures.token_out.symbol);
    match (status, fill) {
        (OrderStatus::Filled, Some(fill)) => line(format_args!(
            "{} {given} left the wallet and {} {wanted} came in, in one transaction of the filler",
            fill.amount_in, fill.amount_out
        )),
        (OrderStatus::Expired | OrderStatus::Cancelled, _) => {
            line(format_args!("no {given} left the wallet; the signature is no longer valid"))
        }
        _ => line(format_args!(
            "the {given} stays in the wallet until a filler fills it; the signature can be used once, until {}",
            time_of_day(deadline)
        )),
    }
}

fn text(amount: U256, token: &CardToken) -> String {
    TokenAmount::new(amount, token.decimals).map_or_else(|_| amount.to_string(), |amount| amount.to_string())
}

fn sum(outputs: &[golem_protocols::uniswap::order::OutputAmount]) -> U256 {
    outputs.iter().fold(U256::ZERO, |sum, output| sum.saturating_add(output.amount))
}

/// Returns the order's initial output, including the cosigner's overrides.
fn starts(order: &UniswapXOrder) -> Option<U256> {
    let over = |starts: Vec<U256>, given: &[U256]| {
        let all = starts
            .iter()
            .enumerate()
            .map(|(at, start)| given.get(at).copied().filter(|given| !given.is_zero()).unwrap_or(*start));
        all.fold(U256::ZERO, U256::saturating_add)
    };
    match order {
        UniswapXOrder::Dutch(order) => Some(over(order.outputs.iter().map(|output| output.startAmount).collect(), &[])),
        UniswapXOrder::DutchV2(order) => {
            let starts = order.baseOutputs.iter().map(|output| output.startAmount).collect();
            Some(over(starts, &order.cosignerData.outputAmounts))
        }
        UniswapXOrder::DutchV3(order) => {
            let starts = order.baseOutputs.iter().map(|output| output.startAmount).collect();
            Some(over(starts, &order.cosignerData.outputAmounts))
        }
        // A priority order has no upper limit; use the top of the drawn curve.
        UniswapXOrder::Priority(order) => order
            .outputs
            .iter()
            .map(|output| output.amount.checked_mul(U256::from(10_000 + PRIORITY_SPAN_BPS)))
            .try_fold(U256::ZERO, |sum, amount| sum.checked_add(amount? / U256::from(10_000))),
    }
}

/// Returns the exclusive filler and the end of its exclusivity; `None` if there is none.
fn exclusivity(order: &UniswapXOrder) -> Option<Exclusivity> {
    let (filler, until) = match order {
        UniswapXOrder::Dutch(order) => (order.exclusiveFiller, order.decayStartTime),
        UniswapXOrder::DutchV2(order) => (order.cosignerData.exclusiveFiller, order.cosignerData.decayStartTime),
        UniswapXOrder::DutchV3(order) => (order.cosignerData.exclusiveFiller, order.cosignerData.decayStartBlock),
        UniswapXOrder::Priority(_) => return None,
    };
    (!filler.is_zero()).then(|| Exclusivity { filler, name: None, until: until.saturating_to() })
}

/// Returns the priority fee at which a priority order requires `output`, in wei per gas.
fn fee_for(order: &UniswapXOrder, output: U256) -> Option<u128> {
    let UniswapXOrder::Priority(order) = order else { return None };
    let least = order.outputs.iter().fold(U256::ZERO, |sum, output| sum.saturating_add(output.amount));
    let per_wei = order.outputs.first()?.mpsPerPriorityFeeWei;
    let more = output.checked_sub(least)?.checked_mul(U256::from(MPS))?;
    let fee = more.checked_div(least.checked_mul(per_wei)?)?;
    fee.checked_add(order.baselinePriorityFeeWei)?.try_into().ok()
}

/// Returns the curve of the output: as cosigned, or before the cosignature from now to the deadline.
fn curve(record: &OrderRecord, order: &UniswapXOrder, cosigned: bool, state: &AuctionState) -> DecayCurve {
    let wanted = &record.figures.token_out;
    let least = sum(&order.bounds().least_out);
    let start = starts(order).unwrap_or(least);
    let deadline: u64 = order.info().deadline.saturating_to();
    let straight = |unit, from: u64, until: u64| DecayCurve {
        unit,
        points: vec![(from, text(start, wanted)), (until.max(from), text(least, wanted))],
    };
    match order {
        UniswapXOrder::Dutch(order) => {
            straight(DecayUnit::Seconds, order.decayStartTime.saturating_to(), order.decayEndTime.saturating_to())
        }
        UniswapXOrder::DutchV2(order) if cosigned => {
            let added = &order.cosignerData;
            straight(DecayUnit::Seconds, added.decayStartTime.saturating_to(), added.decayEndTime.saturating_to())
        }
        UniswapXOrder::DutchV2(_) => straight(DecayUnit::Seconds, state.timestamp.min(deadline), deadline),
        UniswapXOrder::DutchV3(order) => {
            let from: u64 = if cosigned { order.cosignerData.decayStartBlock.saturating_to() } else { state.number };
            let over = order.baseOutputs.first().map(|output| output.curve.relativeBlocks);
            let over = over.map_or(0, |blocks| (blocks & U256::from(u16::MAX)).saturating_to::<u64>());
            straight(DecayUnit::Blocks, from, from.saturating_add(over))
        }
        UniswapXOrder::Priority(_) => {
            let until = fee_for(order, start).and_then(|fee| u64::try_from(fee).ok()).unwrap_or(u64::MAX);
            DecayCurve { unit: DecayUnit::Wei, points: vec![(0, text(least, wanted)), (until, text(start, wanted))] }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bardo_base::text::SafeText;

    fn said(words: &str) -> ProviderError {
        ProviderError::Rpc { code: -32_000, message: SafeText::clean(words, 100), data: None }
    }

    #[test]
    fn only_an_answer_says_that_a_state_is_kept_by_nobody() {
        let pruned = said("missing trie node 5f3d (path ) state is not available");
        let trouble = said("upstream request timed out");
        let silent = ProviderError::NoEndpoint { chain_id: 31_337 };
        let all = |failures: &[&ProviderError]| ProviderError::AllFailed {
            chain_id: 31_337,
            failures: failures.iter().map(|one| (*one).clone()).collect(),
        };
        let name = SafeText::clean("one", 10);
        let contradicted =
            ProviderError::Disagreement { method: name.clone(), first: name.clone(), second: name.clone() };
        let page = |status| ProviderError::Http { endpoint: name.clone(), status, body: SafeText::default() };
        for (error, back, forgotten) in [
            (contradicted.clone(), 99, false),
            (contradicted.clone(), 100, true),
            (page(403), 999, false),
            (page(403), 1_000, true),
            (page(429), 1_000_000, false),
            (page(502), 1_000_000, false),
            (pruned.clone(), 99, false),
            (pruned.clone(), 100, true),
            (trouble.clone(), 100, false),
            (trouble.clone(), 999, false),
            (trouble.clone(), 1_000, true),
            (silent.clone(), 1_000_000, false),
            (all(&[]), 1_000_000, false),
            (all(&[&pruned, &silent]), 1_000_000, false),
            (all(&[&pruned, &pruned]), 100, true),
            (all(&[&pruned, &trouble]), 100, false),
        ] {
            assert_eq!(is_forgotten(&error, back), forgotten, "{error} {back} blocks back");
        }
    }
}
