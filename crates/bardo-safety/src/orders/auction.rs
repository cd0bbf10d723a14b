//! On-chain state of a UniswapX order, and the card that shows it. The order is filled if its reactor emits a fill
//! event, and cancelled if Permit2 emits an invalidation of its nonce. It is expired once the chain's time is past its
//! deadline; until then it is open. A used nonce without such an event may have been used by a fill.

use alloy::eips::BlockId;
use alloy::primitives::{Address, Log, U256};
use alloy::providers::{Provider as _, bindings::IMulticall3};
use alloy::rpc::types::{Filter, TransactionInput, TransactionRequest};
use alloy::sol_types::{SolCall as _, SolEvent as _};

use super::depth::{ConfirmationDepth, agreeing_provider, events};
use super::fill_amounts;
use super::price_time::seconds_until;
use super::record::{OrderRecord, OrderStage};
use super::{CardState, OrderChain, OrderEnd, OrderError, Orders, PollResult, card_text};
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

/// Number of recent blocks whose state every endpoint is assumed to keep: go-ethereum keeps 128; this leaves a margin.
const MAX_STATE_AGE: u64 = 100;

/// Age in blocks from which an RPC error that may be temporary counts as missing state. Some nodes report missing state
/// with such an error, and a temporary fault would have passed by then.
const MAX_ERROR_AGE: u64 = 1_000;

/// Denominator of a priority order's scaling: ten-millionths (MPS).
const MPS: u64 = 10_000_000;

/// State of an order at the confirmed block, with the latest block's figures for the current price.
struct AuctionState {
    number: u64,
    timestamp: u64,
    base_fee: u128,
    /// Block interval of the chain, in milliseconds.
    block_millis: u64,
    /// True if the confirmed block is past the order's deadline.
    past_deadline: bool,
    nonce_used: bool,
    /// True if the account's balance and its allowance to Permit2 both cover the order.
    funded: bool,
    fill: Option<ObservedFill>,
    /// Transaction that invalidated the order's nonce in Permit2 before the order was filled.
    invalidation: Option<TxPlace>,
}

/// Fill of an order, as its receipt and block show it. Amounts in raw units, fees in wei per unit of gas.
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
        let service_answer = match &chain.auctions {
            // Filled orders are included: their price depends on the cosigner's data.
            Some(service) if record.stage != OrderStage::Refused => {
                self.service_answer(service.as_ref(), record.hash, state.fill.is_some()).await
            }
            _ => Ok(None),
        };
        Ok(poll_result(record, order, &state, service_answer, remark))
    }
}

async fn auction_state(
    OrderChain { client, confirmations, .. }: &OrderChain,
    record: &OrderRecord,
    order: &UniswapXOrder,
) -> Result<AuctionState, OrderError> {
    let info = order.info();
    let missing = |what: &str| OrderError::InvalidAnswer(format!("{} does not return {what}", client.network()));
    let ConfirmationDepth { head, confirmed } = ConfirmationDepth::read(client, *confirmations).await?;
    let multicall = client
        .network()
        .book
        .contract(KnownContract::Multicall3)
        .ok_or_else(|| missing("the address of Multicall3"))?;
    let (word, _) = nonce_position(info.nonce);
    let mut calls = CallBatch::default();
    let permit2 = record.message.verifier();
    let token = order.token_in();
    let used_nonces = calls.push(permit2, &Permit2::nonceBitmapCall { owner: info.swapper, word });
    let time = calls.push(multicall, &IMulticall3::getCurrentBlockTimestampCall {});
    let balance = calls.push(token, &Erc20::balanceOfCall { owner: info.swapper });
    let allowance = calls.push(token, &Erc20::allowanceCall { owner: info.swapper, spender: permit2 });
    let answers = calls.send(agreeing_provider(client), multicall, BlockId::hash(confirmed.hash)).await?;
    let used_nonces = used_nonces.take(&answers).ok_or_else(|| missing("the used Permit2 nonces"))?;
    let nonce_used = nonce_used(info.nonce, used_nonces);
    let covers_order = |amount: Option<U256>| amount.is_some_and(|amount| amount >= order.most_in());
    let funded = covers_order(balance.take(&answers)) && covers_order(allowance.take(&answers));
    let time = time.take(&answers).ok_or_else(|| missing("the time"))?;
    let (fill, invalidation) =
        if nonce_used { find_nonce_use(client, record, order, confirmed.number).await? } else { (None, None) };
    Ok(AuctionState {
        number: head.number,
        timestamp: head.timestamp,
        base_fee: head.base_fee_per_gas.unwrap_or_default().into(),
        block_millis: client.network().block_millis,
        past_deadline: time > info.deadline,
        nonce_used,
        funded,
        fill,
        invalidation,
    })
}

/// Returns the fill or the invalidation that used the order's nonce; both `None` if neither can be determined.
async fn find_nonce_use(
    client: &ChainClient,
    record: &OrderRecord,
    order: &UniswapXOrder,
    head: u64,
) -> Result<(Option<ObservedFill>, Option<TxPlace>), OrderError> {
    let provider = client.agreed();
    let info = order.info();
    let filter = Filter::new().from_block(record.figures.from_block).to_block(head);
    let fill_filter =
        filter.clone().address(info.reactor).event_signature(Reactor::Fill::SIGNATURE_HASH).topic1(record.hash);
    // While the endpoints disagree about a fill, no other event may count as the use of the nonce.
    let Some(logs) = events(client, &fill_filter).await? else { return Ok((None, None)) };
    let place = |log: &alloy::rpc::types::Log| {
        let hash = log.transaction_hash?;
        Some(TxPlace { chain_id: record.chain_id, hash, block: log.block_number })
    };
    let fill = logs.iter().find_map(|log| Some((place(log)?, Reactor::Fill::decode_log(&log.inner).ok()?)));
    if let Some((place, event)) = fill.filter(|(_, event)| event.swapper == info.swapper) {
        // Every provider requests receipts from all endpoints, and repeats the request at one that is a moment behind.
        let receipt = client.provider().get_transaction_receipt(place.hash).await.map_err(ProviderError::from)?;
        let receipt = receipt.ok_or_else(|| OrderError::InvalidAnswer("a fill without a receipt".to_owned()))?;
        let number = place.block.unwrap_or_default();
        let block = provider.get_block_by_number(number.into()).await.map_err(ProviderError::from)?;
        let header = block.ok_or_else(|| OrderError::InvalidAnswer("a fill in a missing block".to_owned()))?.header;
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
    let invalidation_filter = filter
        .address(record.message.verifier())
        .event_signature(Permit2::UnorderedNonceInvalidation::SIGNATURE_HASH)
        .topic1(info.swapper.into_word());
    let Some(logs) = events(client, &invalidation_filter).await? else { return Ok((None, None)) };
    // Only the first invalidation of the nonce can have used it.
    let invalidation = logs.iter().find(|log| {
        let event = Permit2::UnorderedNonceInvalidation::decode_log(&log.inner).ok();
        event.is_some_and(|event| event.word == word && nonce_used(info.nonce, event.mask))
    });
    let Some(invalidation) = invalidation.and_then(place) else { return Ok((None, None)) };
    let used_the_nonce = match invalidation.block.and_then(|block| block.checked_sub(1)) {
        Some(before) => was_nonce_unused(client, record.message.verifier(), info, (before, head)).await?,
        None => false,
    };
    Ok((None, used_the_nonce.then_some(invalidation)))
}

/// Returns true if the order's nonce was unused at the end of `block`, false if no endpoint keeps that state. Permit2
/// emits an invalidation even for a nonce that an earlier fill has used, and an endpoint may have omitted that fill.
async fn was_nonce_unused(
    client: &ChainClient,
    permit2: Address,
    info: &OrderInfo,
    (block, head): (u64, u64),
) -> Result<bool, OrderError> {
    let (word, _) = nonce_position(info.nonce);
    let call = Permit2::nonceBitmapCall { owner: info.swapper, word }.abi_encode();
    let request = TransactionRequest::default().to(permit2).input(TransactionInput::new(call.into()));
    let answer = match agreeing_provider(client)
        .call(request)
        .block(BlockId::number(block))
        .await
        .map_err(ProviderError::from)
    {
        Ok(answer) => answer,
        Err(error) if shows_pruned_state(&error, head.saturating_sub(block)) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let used_nonces = Permit2::nonceBitmapCall::abi_decode_returns(&answer);
    Ok(used_nonces.is_ok_and(|used_nonces| !nonce_used(info.nonce, used_nonces)))
}

/// Returns true if an error about the state of `age` blocks ago shows that the endpoint no longer keeps that state. A
/// missing answer does not show it. If endpoints that agree about the latest state disagree about an old one, not all
/// of them keep it.
fn shows_pruned_state(error: &ProviderError, age: u64) -> bool {
    match error {
        ProviderError::Rpc { .. } => age >= if error.is_refusal() { MAX_STATE_AGE } else { MAX_ERROR_AGE },
        ProviderError::AllFailed { failures, .. } => {
            !failures.is_empty() && failures.iter().all(|failure| shows_pruned_state(failure, age))
        }
        ProviderError::Disagreement { .. } => age >= MAX_STATE_AGE,
        // Timeout, too early or rate limit: a temporary failure.
        ProviderError::Http { status: 408 | 425 | 429, .. } => false,
        ProviderError::Http { status: 400..500, .. } => age >= MAX_ERROR_AGE,
        _ => false,
    }
}

/// Combines the state on chain with the service's answer. Only the chain determines the end; the answer adds remarks,
/// the cosigner's data, names and bids.
fn poll_result(
    record: &OrderRecord,
    order: &UniswapXOrder,
    state: &AuctionState,
    service_answer: Result<Option<ServiceReport>, ServiceError>,
    remark: &str,
) -> PollResult {
    let unexplained = state.nonce_used && state.fill.is_none() && state.invalidation.is_none();
    let (status, end) = if state.fill.is_some() {
        (OrderStatus::Filled, Some(OrderEnd::Filled))
    } else if state.invalidation.is_some() {
        (OrderStatus::Cancelled, Some(OrderEnd::Unfilled))
    } else if state.nonce_used && state.past_deadline {
        // The order can take no more, but how much it took is unknown: count it as filled completely.
        (OrderStatus::Error, Some(OrderEnd::Filled))
    } else if state.nonce_used {
        (OrderStatus::Open, None)
    } else if state.past_deadline {
        (OrderStatus::Expired, Some(OrderEnd::Unfilled))
    } else if record.stage == OrderStage::Refused {
        (OrderStatus::Error, None)
    } else if !state.funded {
        (OrderStatus::InsufficientFunds, None)
    } else if record.stage == OrderStage::Submitted || matches!(service_answer, Ok(Some(_))) {
        (OrderStatus::Open, None)
    } else {
        (OrderStatus::Pending, None)
    };
    let mut remarks = Vec::new();
    if !remark.is_empty() {
        remarks.push(remark.to_owned());
    }
    let report = match service_answer {
        Ok(report) => report,
        Err(error) => {
            remarks.push(error.to_string());
            None
        }
    };
    if unexplained {
        remarks
            .push("its nonce is used, but no event shows how: it counts as filled in full until one does".to_owned());
    }
    if let Some(remark) = unconfirmed_end(status, report.as_ref()) {
        remarks.push(remark);
    }
    // The service's copy of the order counts only if it is this order with a valid cosignature.
    let cosigned = report.as_ref().and_then(|report| report.cosigned.clone());
    let cosigned =
        cosigned.filter(|copy| copy.hash() == record.hash && copy.cosigner_faults(record.chain_id).is_empty());
    if report.as_ref().is_some_and(|report| report.cosigned.is_some()) && cosigned.is_none() {
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
    let update = card(record, order, cosigned.as_ref(), state, status, report.as_ref(), remarks.join("; "));
    PollResult { card: CardState::Order(Box::new(update)), end }
}

/// Returns a remark if the service reports an end that the chain does not show.
fn unconfirmed_end(status: OrderStatus, report: Option<&ServiceReport>) -> Option<String> {
    let reported = report?.status;
    let ended = matches!(reported, ServiceStatus::Filled | ServiceStatus::Expired | ServiceStatus::Cancelled);
    (ended && !status.is_final())
        .then(|| format!("the service reports it as {}, but the chain does not: the chain counts", reported.as_str()))
}

/// Builds the card of an order. `cosigned` is the order with its cosigner's data; `None` if the service has not
/// returned it.
fn card(
    record: &OrderRecord,
    order: &UniswapXOrder,
    cosigned: Option<&UniswapXOrder>,
    state: &AuctionState,
    status: OrderStatus,
    report: Option<&ServiceReport>,
    remark: String,
) -> OrderUpdate {
    let figures = &record.figures;
    let (given, wanted) = (&figures.token_in, &figures.token_out);
    let bounds = order.bounds();
    let least = bounds.least_out.iter().fold(U256::ZERO, |sum, output| sum.saturating_add(output.amount));
    let effective = cosigned.unwrap_or(order);
    let filler_name = |party: Address| report.and_then(|report| report.name_of(party));
    let exclusivity = exclusivity(effective).map(|found| Exclusivity { name: filler_name(found.filler), ..found });
    let filler = exclusivity.as_ref().map(|exclusive| exclusive.filler).unwrap_or_default();
    let point = |number: u64, timestamp: u64, base_fee: u128, priority_fee: u128, filler: Address| ResolutionPoint {
        chain_id: record.chain_id,
        timestamp,
        block: number,
        base_fee,
        priority_fee,
        filler,
    };
    let deadline: u64 = order.info().deadline.saturating_to();
    let bid_fee = report
        .and_then(|report| report.best_bid.as_ref())
        .and_then(|bid| priority_fee_for(effective, bid.output))
        .unwrap_or(0);
    let (number, timestamp, priority_fee) = match &state.fill {
        Some(fill) => (fill.number, fill.timestamp, fill.priority_fee),
        None => (state.number, state.timestamp, bid_fee),
    };
    let position = match effective {
        UniswapXOrder::Dutch(_) | UniswapXOrder::DutchV2(_) => timestamp,
        UniswapXOrder::DutchV3(_) => number,
        UniswapXOrder::Priority(_) => u64::try_from(priority_fee).unwrap_or(u64::MAX),
    };
    let curve = curve(record, effective, cosigned.is_some(), state);
    let now = match &state.fill {
        Some(fill) => point(fill.number, fill.timestamp, fill.base_fee, fill.priority_fee, fill.filler),
        None => point(state.number, state.timestamp, state.base_fee, bid_fee, filler),
    };
    let current = cosigned.and_then(|order| order.resolve(&now).ok());
    let current = current
        .map(|resolved| total(&resolved.outputs))
        .or_else(|| state.fill.as_ref().map(|fill| fill.received).filter(|received| !received.is_zero()))
        .or_else(|| start_output(effective))
        .unwrap_or(least);
    let start = start_output(effective).unwrap_or(least);
    let fill = state.fill.as_ref().map(|fill| OrderFill {
        tx: fill.place.clone(),
        filler: fill.filler,
        name: filler_name(fill.filler),
        amount_in: amount_text(fill.paid, given),
        // Transfers of the native token emit no event. The fill would have reverted without the curve's amount.
        amount_out: amount_text(if wanted.address.is_zero() { current } else { fill.received }, wanted),
        position,
    });
    let money = money(record, status, fill.as_ref(), deadline);
    let bid = report.and_then(|report| report.best_bid.as_ref()).map(|bid| FillerOffer {
        filler: bid.filler,
        name: Some(bid.name.clone()),
        output_amount: amount_text(bid.output, wanted),
        estimated_seconds: cosigned
            .and_then(|order| {
                let from = point(state.number, state.timestamp, state.base_fee, 0, bid.filler);
                seconds_until(order, &from, bid.output, deadline, state.block_millis)
            })
            .unwrap_or_default(),
        chosen: false,
    });
    OrderUpdate {
        order_hash: record.hash,
        order_type: card_text(record.kind()),
        chain_id: record.chain_id,
        status,
        token_in: given.clone(),
        token_out: wanted.clone(),
        amount_in: amount_text(order.most_in(), given),
        quoted_out: amount_text(figures.quoted_out, wanted),
        start_amount: amount_text(start, wanted),
        end_amount: amount_text(least, wanted),
        curve,
        position,
        current_amount: amount_text(current, wanted),
        exclusivity,
        best_bid: if status.is_final() { None } else { bid },
        signed_at: record.signed_at,
        deadline,
        fill,
        cancelled_by: state.invalidation.clone(),
        money,
        remark: card_text(remark),
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
        (OrderStatus::Filled, Some(fill)) => card_text(format_args!(
            "{} {given} left the wallet and {} {wanted} came in, in one transaction of the filler",
            fill.amount_in, fill.amount_out
        )),
        (OrderStatus::Expired | OrderStatus::Cancelled, _) => {
            card_text(format_args!("no {given} left the wallet; the signature is no longer valid"))
        }
        _ => card_text(format_args!(
            "the {given} stays in the wallet until a filler fills it; the signature can be used once, until {}",
            time_of_day(deadline)
        )),
    }
}

fn amount_text(amount: U256, token: &CardToken) -> String {
    TokenAmount::new(amount, token.decimals).map_or_else(|_| amount.to_string(), |amount| amount.to_string())
}

fn total(outputs: &[golem_protocols::uniswap::order::OutputAmount]) -> U256 {
    outputs.iter().fold(U256::ZERO, |sum, output| sum.saturating_add(output.amount))
}

/// Returns the order's initial output, including the cosigner's overrides.
fn start_output(order: &UniswapXOrder) -> Option<U256> {
    let sum_with_overrides = |starts: Vec<U256>, overrides: &[U256]| {
        let outputs = starts
            .iter()
            .enumerate()
            .map(|(index, start)| overrides.get(index).copied().filter(|own| !own.is_zero()).unwrap_or(*start));
        outputs.fold(U256::ZERO, U256::saturating_add)
    };
    match order {
        UniswapXOrder::Dutch(order) => {
            Some(sum_with_overrides(order.outputs.iter().map(|output| output.startAmount).collect(), &[]))
        }
        UniswapXOrder::DutchV2(order) => {
            let starts = order.baseOutputs.iter().map(|output| output.startAmount).collect();
            Some(sum_with_overrides(starts, &order.cosignerData.outputAmounts))
        }
        UniswapXOrder::DutchV3(order) => {
            let starts = order.baseOutputs.iter().map(|output| output.startAmount).collect();
            Some(sum_with_overrides(starts, &order.cosignerData.outputAmounts))
        }
        // The output of a priority order has no upper limit; use the top of the displayed curve.
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
fn priority_fee_for(order: &UniswapXOrder, output: U256) -> Option<u128> {
    let UniswapXOrder::Priority(order) = order else { return None };
    let least = order.outputs.iter().fold(U256::ZERO, |sum, output| sum.saturating_add(output.amount));
    let per_wei = order.outputs.first()?.mpsPerPriorityFeeWei;
    let surplus = output.checked_sub(least)?.checked_mul(U256::from(MPS))?;
    let fee = surplus.checked_div(least.checked_mul(per_wei)?)?;
    fee.checked_add(order.baselinePriorityFeeWei)?.try_into().ok()
}

/// Returns the curve of the output: the cosigned one, or one from now to the deadline if the order is not cosigned yet.
fn curve(record: &OrderRecord, order: &UniswapXOrder, cosigned: bool, state: &AuctionState) -> DecayCurve {
    let wanted = &record.figures.token_out;
    let least = total(&order.bounds().least_out);
    let start = start_output(order).unwrap_or(least);
    let deadline: u64 = order.info().deadline.saturating_to();
    let straight_line = |unit, from: u64, until: u64| DecayCurve {
        unit,
        points: vec![(from, amount_text(start, wanted)), (until.max(from), amount_text(least, wanted))],
    };
    match order {
        UniswapXOrder::Dutch(order) => {
            straight_line(DecayUnit::Seconds, order.decayStartTime.saturating_to(), order.decayEndTime.saturating_to())
        }
        UniswapXOrder::DutchV2(order) if cosigned => {
            let cosigned = &order.cosignerData;
            straight_line(
                DecayUnit::Seconds,
                cosigned.decayStartTime.saturating_to(),
                cosigned.decayEndTime.saturating_to(),
            )
        }
        UniswapXOrder::DutchV2(_) => straight_line(DecayUnit::Seconds, state.timestamp.min(deadline), deadline),
        UniswapXOrder::DutchV3(order) => {
            let from: u64 = if cosigned { order.cosignerData.decayStartBlock.saturating_to() } else { state.number };
            let blocks = order.baseOutputs.first().map(|output| output.curve.relativeBlocks);
            let blocks = blocks.map_or(0, |blocks| (blocks & U256::from(u16::MAX)).saturating_to::<u64>());
            straight_line(DecayUnit::Blocks, from, from.saturating_add(blocks))
        }
        UniswapXOrder::Priority(_) => {
            let until = priority_fee_for(order, start).and_then(|fee| u64::try_from(fee).ok()).unwrap_or(u64::MAX);
            DecayCurve {
                unit: DecayUnit::Wei,
                points: vec![(0, amount_text(least, wanted)), (until, amount_text(start, wanted))],
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bardo_base::text::SafeText;

    fn rpc_error(message: &str) -> ProviderError {
        ProviderError::Rpc { code: -32_000, message: SafeText::clean(message, 100), data: None }
    }

    #[test]
    fn an_error_counts_as_pruned_state_from_the_age_for_its_kind() {
        let pruned = rpc_error("missing trie node 5f3d (path ) state is not available");
        let temporary = rpc_error("upstream request timed out");
        let no_endpoint = ProviderError::NoEndpoint { chain_id: 31_337 };
        let all_failed = |failures: &[&ProviderError]| ProviderError::AllFailed {
            chain_id: 31_337,
            failures: failures.iter().map(|one| (*one).clone()).collect(),
        };
        let name = SafeText::clean("one", 10);
        let disagreement =
            ProviderError::Disagreement { method: name.clone(), first: name.clone(), second: name.clone() };
        let http_error = |status| ProviderError::Http { endpoint: name.clone(), status, body: SafeText::default() };
        for (error, age, expected) in [
            (disagreement.clone(), 99, false),
            (disagreement.clone(), 100, true),
            (http_error(403), 999, false),
            (http_error(403), 1_000, true),
            (http_error(429), 1_000_000, false),
            (http_error(502), 1_000_000, false),
            (pruned.clone(), 99, false),
            (pruned.clone(), 100, true),
            (temporary.clone(), 100, false),
            (temporary.clone(), 999, false),
            (temporary.clone(), 1_000, true),
            (no_endpoint.clone(), 1_000_000, false),
            (all_failed(&[]), 1_000_000, false),
            (all_failed(&[&pruned, &no_endpoint]), 1_000_000, false),
            (all_failed(&[&pruned, &pruned]), 100, true),
            (all_failed(&[&pruned, &temporary]), 100, false),
        ] {
            assert_eq!(shows_pruned_state(&error, age), expected, "{error}, {age} blocks ago");
        }
    }
}
