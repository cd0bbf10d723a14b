//! State of a bridge order on both chains. The origin's settler shows whether the input is locked, paid to the filler
//! or refunded. The destination's settler shows the delivery, which the account's balance there must confirm.

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::{Provider as _, bindings::IMulticall3};
use alloy::rpc::types::{Filter, Header, Log};
use alloy::sol_types::{SolCall, SolEvent as _};

use super::depth::{ConfirmationDepth, agreeing_provider, events};
use super::record::{OrderRecord, OrderStage};
use super::{CardState, OrderChain, OrderEnd, OrderError, Orders, PollResult, card_text};
use bardo_abi::erc20::Erc20;
use bardo_abi::erc7683::{DestinationSettler, OriginSettler};
use bardo_base::fabric::{CardToken, FillerOffer, IntentStatus, IntentUpdate, TxPlace};
use bardo_base::format::{short_address, time_of_day};
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use golem_chain::network::KnownContract;
use golem_chain::provider::{ChainClient, ProviderError};
use golem_protocols::intents::CrossChainIntent;
use golem_protocols::intents::gateway::RelayerBid;

/// Deposit states of the origin's settler: locked, repaid to the filler, refunded to the account.
const LOCKED: u8 = 1;
const REPAID: u8 = 2;
const REFUNDED: u8 = 3;

struct BridgeState {
    deposit: u8,
    /// True if the origin's confirmed block is past the deadline for locking the input.
    past_open_deadline: bool,
    destination: Header,
    locked: Option<TxPlace>,
    repaid: Option<TxPlace>,
    refunded: Option<TxPlace>,
    delivery: Option<DeliveryEvent>,
    /// True if the destination's endpoints disagree about deliveries, so that neither a delivery nor its absence is
    /// certain.
    endpoints_disagree: bool,
    /// First second in which the settler refunds, since the Unix epoch; `None` if unknown.
    refund_from: Option<u64>,
}

struct DeliveryEvent {
    place: TxPlace,
    /// Sender of the fill transaction, or the filler in the settler's event if the transaction cannot be read.
    filler: Address,
    /// Rise of the account's balance in the delivery's block, in raw units; `None` if it cannot be read.
    received: Option<U256>,
}

/// Result of the search for a delivery on the destination.
enum DeliverySearch {
    Found(DeliveryEvent),
    NotFound,
    /// The destination's endpoints disagree.
    Disputed,
}

impl Orders {
    pub(super) async fn bridge(
        &self,
        record: &OrderRecord,
        intent: &CrossChainIntent,
        remark: &str,
    ) -> Result<PollResult, OrderError> {
        let chain = self.chain(record.chain_id)?;
        let destination_id = u64::try_from(intent.data.destinationChainId)
            .map_err(|_| OrderError::InvalidAnswer("the destination's id is too large".to_owned()))?;
        let destination = self.chain(destination_id)?;
        let state = bridge_state([chain, destination], record, intent).await?;
        let mut remarks: Vec<String> = Vec::new();
        if !remark.is_empty() {
            remarks.push(remark.to_owned());
        }
        let bids = match &chain.bridges {
            Some(network) if record.stage != OrderStage::Refused => match network.bids(record.hash).await {
                Ok(bids) => bids.unwrap_or_default(),
                Err(error) => {
                    remarks.push(error.to_string());
                    Vec::new()
                }
            },
            Some(_) | None => Vec::new(),
        };
        let name = |id: u64| self.network(id).map_or_else(|| id.to_string(), |network| network.name.clone());
        let has_settler = destination.client.network().book.contract(KnownContract::DestinationSettler).is_some();
        if !has_settler {
            remarks.push("the destination's address book has no settler: delivery cannot be checked".to_owned());
        }
        Ok(poll_result(record, intent, &state, &bids, remarks, (name(record.chain_id), name(destination_id))))
    }
}

async fn bridge_state(
    chains: [&OrderChain; 2],
    record: &OrderRecord,
    intent: &CrossChainIntent,
) -> Result<BridgeState, OrderError> {
    let [(origin, origin_depth), (destination, destination_depth)] =
        chains.map(|chain| (&chain.client, ConfirmationDepth::read(&chain.client, chain.confirmations)));
    let (origin_depth, destination_depth) = futures::try_join!(origin_depth, destination_depth)?;
    let (origin_block, destination_block) = (origin_depth.confirmed, destination_depth.confirmed);
    let id = record.hash;
    let at = BlockId::hash(origin_block.hash);
    let deposit = read(origin, intent.origin_settler, OriginSettler::depositsCall { orderId: id }, at).await?;
    let past_open_deadline = block_time(origin, at).await? > U256::from(intent.open_deadline);
    let (mut locked, mut repaid, mut refunded) = (None, None, None);
    if deposit.status >= LOCKED {
        let filter = Filter::new().address(intent.origin_settler).from_block(record.figures.from_block);
        let filter = filter.to_block(origin_block.number).topic1(id);
        // The events only give the transactions for the card. The settler's own state, on which the endpoints agree,
        // determines what happened.
        let logs = origin.provider().get_logs(&filter).await.map_err(ProviderError::from)?;
        let transaction_of = |event: B256| {
            let log = logs.iter().find(|log| log.topic0() == Some(&event))?;
            place(log, record.chain_id)
        };
        locked = transaction_of(OriginSettler::Open::SIGNATURE_HASH);
        repaid = transaction_of(OriginSettler::Repaid::SIGNATURE_HASH);
        refunded = transaction_of(OriginSettler::Refunded::SIGNATURE_HASH);
    }
    let (delivery, endpoints_disagree) =
        match find_delivery(destination, record, intent, destination_block.number).await? {
            DeliverySearch::Found(delivery) => (Some(delivery), false),
            DeliverySearch::NotFound => (None, false),
            DeliverySearch::Disputed => (None, true),
        };
    let refund_from = refund_from(origin, record, intent, at).await;
    Ok(BridgeState {
        deposit: deposit.status,
        past_open_deadline,
        destination: destination_block,
        locked,
        repaid,
        refunded,
        delivery,
        endpoints_disagree,
        refund_from,
    })
}

/// Returns the first second in which the settler refunds, since the Unix epoch; `None` if the contract does not return
/// its delay. The settler waits after the fill deadline, so that the message about a late delivery can arrive from the
/// destination. The delay is fixed in the contract, so the value on the last card stays valid.
async fn refund_from(
    origin: &ChainClient,
    record: &OrderRecord,
    intent: &CrossChainIntent,
    at: BlockId,
) -> Option<u64> {
    let last_card = record.card.as_deref().and_then(|card| serde_json::from_str::<IntentUpdate>(card).ok());
    if let Some(from) = last_card.and_then(|card| card.refund_from) {
        return Some(from);
    }
    let delay = read(origin, intent.origin_settler, OriginSettler::refundDelayCall {}, at).await.ok()?;
    Some(u64::from(intent.fill_deadline).saturating_add(delay.into()).saturating_add(1))
}

/// Searches the destination's confirmed blocks, up to `head`, for the delivery that the order asks for.
async fn find_delivery(
    destination: &ChainClient,
    record: &OrderRecord,
    intent: &CrossChainIntent,
    head: u64,
) -> Result<DeliverySearch, OrderError> {
    let Some(settler) = destination.network().book.contract(KnownContract::DestinationSettler) else {
        return Ok(DeliverySearch::NotFound);
    };
    let from = record.figures.arrival_from_block.unwrap_or_default();
    // The confirmed block is older than the order, so there cannot be a delivery yet.
    if head < from {
        return Ok(DeliverySearch::NotFound);
    }
    let filter = Filter::new().address(settler).from_block(from).to_block(head);
    let filter = filter.event_signature(DestinationSettler::Filled::SIGNATURE_HASH).topic1(record.hash);
    // An arrival moves the stop-loss's high-water mark, so one endpoint's answer is not enough.
    let Some(logs) = events(destination, &filter).await? else { return Ok(DeliverySearch::Disputed) };
    let in_range = |log: &&Log| log.block_number.is_some_and(|block| (from..=head).contains(&block));
    let found = logs.iter().filter(in_range).filter(|log| log.address() == settler).find_map(|log| {
        let event = DestinationSettler::Filled::decode_log(&log.inner).ok()?;
        Some((place(log, destination.chain_id())?, event.data))
    });
    let matches_order = |event: &DestinationSettler::Filled| {
        event.recipient == record.account
            && event.token == intent.data.outputToken
            && event.amount >= intent.data.outputAmount
            && event.originChainId == U256::from(record.chain_id)
    };
    let Some((place, event)) = found.filter(|(_, event)| matches_order(event)) else {
        return Ok(DeliverySearch::NotFound);
    };
    let block = place.block.unwrap_or_default();
    let balance_at = |number: u64| {
        let call = Erc20::balanceOfCall { owner: record.account };
        read(destination, intent.data.outputToken, call, BlockId::number(number))
    };
    let balances = futures::try_join!(balance_at(block.saturating_sub(1)), balance_at(block)).ok();
    let received = balances.map(|(before, after)| after.saturating_sub(before));
    let transaction = agreeing_provider(destination).get_transaction_by_hash(place.hash).await.ok().flatten();
    let filler = deliverer(event.filler, transaction.map(|transaction| transaction.inner.signer()));
    Ok(DeliverySearch::Found(DeliveryEvent { place, filler, received }))
}

/// Returns who delivered an order: the sender of the transaction. A relayer may fill through a contract of its own, which
/// the event then names; it counts only where the transaction cannot be read.
fn deliverer(of_event: Address, sender: Option<Address>) -> Address {
    sender.unwrap_or(of_event)
}

/// Reads a block's timestamp from Multicall3, in seconds since the Unix epoch.
async fn block_time(client: &ChainClient, block: BlockId) -> Result<U256, OrderError> {
    let multicall = client.network().book.contract(KnownContract::Multicall3);
    let multicall = multicall.ok_or_else(|| {
        OrderError::InvalidAnswer(format!("the address book of {} has no Multicall3", client.network()))
    })?;
    read(client, multicall, IMulticall3::getCurrentBlockTimestampCall {}, block).await
}

/// Calls a contract in the state of `block` and decodes its answer.
async fn read<C: SolCall>(client: &ChainClient, to: Address, call: C, block: BlockId) -> Result<C::Return, OrderError> {
    let request = alloy::rpc::types::TransactionRequest {
        to: Some(alloy::primitives::TxKind::Call(to)),
        input: alloy::primitives::Bytes::from(call.abi_encode()).into(),
        ..Default::default()
    };
    let answer = agreeing_provider(client).call(request).block(block).await.map_err(ProviderError::from)?;
    C::abi_decode_returns(&answer).map_err(|_| {
        OrderError::InvalidAnswer(format!("the contract at {to} on {} returns an unexpected result", client.network()))
    })
}

fn place(log: &Log, chain_id: u64) -> Option<TxPlace> {
    Some(TxPlace { chain_id, hash: log.transaction_hash?, block: log.block_number })
}

/// Determines status and end from the state on both chains, and builds the card. `bids` only adds to the card.
fn poll_result(
    record: &OrderRecord,
    intent: &CrossChainIntent,
    state: &BridgeState,
    bids: &[RelayerBid],
    mut remarks: Vec<String>,
    (source, destination): (String, String),
) -> PollResult {
    let (given, wanted) = (&record.figures.token_in, &record.figures.token_out);
    let (status, end) = status_and_end(state, intent);
    let delivery = state.delivery.as_ref();
    let confirmed = delivery.and_then(|found| found.received).filter(|received| *received >= intent.data.outputAmount);
    if let Some(delivery) = delivery
        && confirmed.is_none()
    {
        remarks.push(match delivery.received {
            Some(received) => {
                format!("the destination balance rose by only {} in that block", amount_text(received, wanted))
            }
            None => "the destination balance could not be compared".to_owned(),
        });
    }
    if state.endpoints_disagree {
        remarks.push(format!("the endpoints of {destination} contradict each other about a delivery"));
    }
    let amount_in = amount_text(intent.data.inputAmount, given);
    let money = money_words(record, intent, state, status, confirmed, [&source, &destination]);
    let bids = offers(bids, delivery.map(|found| found.filler), wanted);
    let update = IntentUpdate {
        intent_id: record.hash,
        status,
        source_chain: SafeText::clean(&source, 40),
        destination_chain: SafeText::clean(&destination, 40),
        signed_at: record.signed_at,
        token_in: given.clone(),
        token_out: wanted.clone(),
        amount_in,
        min_out: amount_text(intent.data.outputAmount, wanted),
        estimated_output: amount_text(record.figures.quoted_out, wanted),
        recipient: record.account,
        settler: intent.origin_settler,
        bids,
        locked: state.locked.clone(),
        delivered: delivery.map(|found| found.place.clone()),
        filler: delivery.map(|found| found.filler),
        repaid: state.repaid.clone(),
        refunded: state.refunded.clone(),
        amount_out: confirmed.map(|received| amount_text(received, wanted)),
        fill_deadline: intent.fill_deadline.into(),
        refund_from: state.refund_from,
        money: card_text(money),
        remark: card_text(remarks.join("; ")),
    };
    PollResult { card: CardState::Intent(Box::new(update)), end }
}

/// Status of a bridge order, and its end if it has one.
fn status_and_end(state: &BridgeState, intent: &CrossChainIntent) -> (IntentStatus, Option<OrderEnd>) {
    let past_fill_deadline = state.destination.timestamp > u64::from(intent.fill_deadline);
    let never_locked = state.deposit == 0 && state.past_open_deadline;
    match state.deposit {
        REFUNDED => (IntentStatus::Refunded, Some(OrderEnd::Unfilled)),
        // The destination may be read later than the origin. Wait for the delivery until the fill deadline has passed
        // there and its endpoints agree.
        REPAID if state.delivery.is_none() && (!past_fill_deadline || state.endpoints_disagree) => {
            (IntentStatus::Filled, None)
        }
        REPAID => (IntentStatus::Filled, Some(OrderEnd::Filled)),
        _ if state.delivery.is_some() => (IntentStatus::Filled, None),
        LOCKED if past_fill_deadline => (IntentStatus::Expired, None),
        LOCKED => (IntentStatus::Filling, None),
        _ if never_locked => (IntentStatus::Expired, Some(OrderEnd::Unfilled)),
        _ => (IntentStatus::Pending, None),
    }
}

/// The place of the money, in a sentence for the card. `confirmed` is the amount that arrived, if it is known.
fn money_words(
    record: &OrderRecord,
    intent: &CrossChainIntent,
    state: &BridgeState,
    status: IntentStatus,
    confirmed: Option<U256>,
    [source, destination]: [&str; 2],
) -> String {
    let (given, wanted) = (&record.figures.token_in, &record.figures.token_out);
    let amount_in = amount_text(intent.data.inputAmount, given);
    let locked_in = format!("locked in settler {} on {source}", short_address(intent.origin_settler));
    match (status, state.deposit) {
        (IntentStatus::Pending, _) => {
            format!("the {} stays in the wallet until a relayer locks it on {source}", given.symbol)
        }
        (IntentStatus::Filling, _) => locked_in,
        (IntentStatus::Filled, _) => match confirmed {
            Some(received) => format!("{} {} arrived on {destination}", amount_text(received, wanted), wanted.symbol),
            None if state.delivery.is_some() => format!("delivered on {destination}, according to its settler"),
            None => format!("paid to the filler on {source}; no delivery has been seen on {destination}"),
        },
        (IntentStatus::Expired, 0) => format!("no {0} left the wallet; nobody locked it", given.symbol),
        (IntentStatus::Expired, _) => match state.refund_from {
            Some(from) => format!("{locked_in}; intent_refund returns it from {} on", time_of_day(from)),
            None => format!("{locked_in}; intent_refund returns it"),
        },
        (IntentStatus::Refunded, _) => format!("{amount_in} {} is back in the wallet on {source}", given.symbol),
    }
}

/// The bids for the card, of which one is chosen.
fn offers(bids: &[RelayerBid], delivered_by: Option<Address>, wanted: &CardToken) -> Vec<FillerOffer> {
    // The chosen bid is the one of the relayer that delivered. Before the delivery, it is the network's choice.
    let chosen = match delivered_by {
        Some(filler) => {
            let is_theirs = |bid: &&RelayerBid| bid.relayer == filler;
            bids.iter().filter(is_theirs).find(|bid| bid.chosen).or_else(|| bids.iter().find(is_theirs))
        }
        None => bids.iter().find(|bid| bid.chosen),
    };
    bids.iter()
        .map(|bid| FillerOffer {
            filler: bid.relayer,
            name: Some(bid.name.clone()),
            output_amount: amount_text(bid.output, wanted),
            estimated_seconds: bid.seconds,
            chosen: chosen.is_some_and(|one| std::ptr::eq(one, bid)),
        })
        .collect()
}

fn amount_text(amount: U256, token: &CardToken) -> String {
    TokenAmount::new(amount, token.decimals).map_or_else(|_| amount.to_string(), |amount| amount.to_string())
}

#[cfg(test)]
mod tests;
