//! State of a bridge order on both chains. The origin's settler shows whether the money is locked, paid to the filler
//! or refunded. The destination's settler shows the delivery, which the account's balance there confirms.

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::{Provider as _, bindings::IMulticall3};
use alloy::rpc::types::{Filter, Header, Log};
use alloy::sol_types::{SolCall, SolEvent as _};

use super::depth::{ConfirmationDepth, events, witness};
use super::record::{OrderRecord, OrderStage};
use super::{CardState, OrderChain, OrderEnd, OrderError, Orders, PollResult, line};
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
    /// True if the origin's confirmed block is past the deadline for locking.
    over: bool,
    destination: Header,
    locked: Option<TxPlace>,
    repaid: Option<TxPlace>,
    refunded: Option<TxPlace>,
    delivery: Option<DeliveryEvent>,
    /// True if the destination's endpoints disagree about deliveries, so that neither a delivery nor its absence is
    /// certain.
    read_error: bool,
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
    Delivered(DeliveryEvent),
    Nothing,
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
        let there = u64::try_from(intent.data.destinationChainId)
            .map_err(|_| OrderError::Nonsense("the destination's id is too large".to_owned()))?;
        let destination = self.chain(there)?;
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
        let settler = destination.client.network().book.contract(KnownContract::DestinationSettler).is_some();
        if !settler {
            remarks.push("the destination's address book has no settler: delivery cannot be checked".to_owned());
        }
        Ok(seen(record, intent, &state, &bids, remarks, (name(record.chain_id), name(there))))
    }
}

async fn bridge_state(
    chains: [&OrderChain; 2],
    record: &OrderRecord,
    intent: &CrossChainIntent,
) -> Result<BridgeState, OrderError> {
    let [(origin, here), (destination, there)] =
        chains.map(|chain| (&chain.client, ConfirmationDepth::of(&chain.client, chain.confirmations)));
    let (here, there) = futures::try_join!(here, there)?;
    let (here, there) = (here.deep, there.deep);
    let id = record.hash;
    let at = BlockId::hash(here.hash);
    let deposit = ask(origin, intent.origin_settler, OriginSettler::depositsCall { orderId: id }, at).await?;
    let over = time(origin, at).await? > U256::from(intent.open_deadline);
    let (mut locked, mut repaid, mut refunded) = (None, None, None);
    if deposit.status >= LOCKED {
        let filter = Filter::new().address(intent.origin_settler).from_block(record.figures.from_block);
        let filter = filter.to_block(here.number).topic1(id);
        // Only where its steps are shown to have happened; that they have is the settler's own state, which all tell
        // alike.
        let logs = origin.provider().get_logs(&filter).await.map_err(ProviderError::from)?;
        let of = |event: B256| {
            let log = logs.iter().find(|log| log.topic0() == Some(&event))?;
            place(log, record.chain_id)
        };
        locked = of(OriginSettler::Open::SIGNATURE_HASH);
        repaid = of(OriginSettler::Repaid::SIGNATURE_HASH);
        refunded = of(OriginSettler::Refunded::SIGNATURE_HASH);
    }
    let (delivery, read_error) = match delivery(destination, record, intent, there.number).await? {
        DeliverySearch::Delivered(delivery) => (Some(delivery), false),
        DeliverySearch::Nothing => (None, false),
        DeliverySearch::Disputed => (None, true),
    };
    let refund_from = refund_from(origin, record, intent, at).await;
    Ok(BridgeState {
        deposit: deposit.status,
        over,
        destination: there,
        locked,
        repaid,
        refunded,
        delivery,
        read_error,
        refund_from,
    })
}

/// Returns the first second in which the settler refunds. It waits after the fill deadline, so that the news of a late
/// delivery can arrive. The delay is fixed in the contract, so a value read once stays valid. `None` if the contract
/// does not return it.
async fn refund_from(
    origin: &ChainClient,
    record: &OrderRecord,
    intent: &CrossChainIntent,
    at: BlockId,
) -> Option<u64> {
    let known = record.card.as_deref().and_then(|card| serde_json::from_str::<IntentUpdate>(card).ok());
    if let Some(from) = known.and_then(|card| card.refund_from) {
        return Some(from);
    }
    let delay = ask(origin, intent.origin_settler, OriginSettler::refundDelayCall {}, at).await.ok()?;
    Some(u64::from(intent.fill_deadline).saturating_add(delay.into()).saturating_add(1))
}

async fn delivery(
    destination: &ChainClient,
    record: &OrderRecord,
    intent: &CrossChainIntent,
    head: u64,
) -> Result<DeliverySearch, OrderError> {
    let Some(settler) = destination.network().book.contract(KnownContract::DestinationSettler) else {
        return Ok(DeliverySearch::Nothing);
    };
    let from = record.figures.arrival_from_block.unwrap_or_default();
    // The confirmed block is older than the order, so there cannot be a delivery yet.
    if head < from {
        return Ok(DeliverySearch::Nothing);
    }
    let filter = Filter::new().address(settler).from_block(from).to_block(head);
    let filter = filter.event_signature(DestinationSettler::Filled::SIGNATURE_HASH).topic1(record.hash);
    // The high-water mark of the stop-loss follows an arrival, so one endpoint's answer is not enough.
    let Some(logs) = events(destination, &filter).await? else { return Ok(DeliverySearch::Disputed) };
    let in_range = |log: &&Log| log.block_number.is_some_and(|block| (from..=head).contains(&block));
    let found = logs.iter().filter(in_range).filter(|log| log.address() == settler).find_map(|log| {
        let event = DestinationSettler::Filled::decode_log(&log.inner).ok()?;
        Some((place(log, destination.chain_id())?, event.data))
    });
    let right = |event: &DestinationSettler::Filled| {
        event.recipient == record.account
            && event.token == intent.data.outputToken
            && event.amount >= intent.data.outputAmount
            && event.originChainId == U256::from(record.chain_id)
    };
    let Some((place, event)) = found.filter(|(_, event)| right(event)) else { return Ok(DeliverySearch::Nothing) };
    let block = place.block.unwrap_or_default();
    let at = |number: u64| {
        let call = Erc20::balanceOfCall { owner: record.account };
        ask(destination, intent.data.outputToken, call, BlockId::number(number))
    };
    let balances = futures::try_join!(at(block.saturating_sub(1)), at(block)).ok();
    let received = balances.map(|(before, after)| after.saturating_sub(before));
    let sent = witness(destination).get_transaction_by_hash(place.hash).await.ok().flatten();
    let filler = sent.map_or(event.filler, |sent| sent.inner.signer());
    Ok(DeliverySearch::Delivered(DeliveryEvent { place, filler, received }))
}

/// Reads a block's timestamp from Multicall3, in seconds since the Unix epoch.
async fn time(client: &ChainClient, block: BlockId) -> Result<U256, OrderError> {
    let multicall = client.network().book.contract(KnownContract::Multicall3);
    let multicall = multicall
        .ok_or_else(|| OrderError::Nonsense(format!("the address book of {} has no Multicall3", client.network())))?;
    ask(client, multicall, IMulticall3::getCurrentBlockTimestampCall {}, block).await
}

async fn ask<C: SolCall>(client: &ChainClient, to: Address, call: C, block: BlockId) -> Result<C::Return, OrderError> {
    let request = alloy::rpc::types::TransactionRequest {
        to: Some(alloy::primitives::TxKind::Call(to)),
        input: alloy::primitives::Bytes::from(call.abi_encode()).into(),
        ..Default::default()
    };
    let answer = witness(client).call(request).block(block).await.map_err(ProviderError::from)?;
    C::abi_decode_returns(&answer).map_err(|_| {
        OrderError::Nonsense(format!("the contract at {to} on {} returns an unexpected result", client.network()))
    })
}

fn place(log: &Log, chain_id: u64) -> Option<TxPlace> {
    Some(TxPlace { chain_id, hash: log.transaction_hash?, block: log.block_number })
}

fn seen(
    record: &OrderRecord,
    intent: &CrossChainIntent,
    state: &BridgeState,
    service_answers: &[RelayerBid],
    mut remarks: Vec<String>,
    (source, destination): (String, String),
) -> PollResult {
    let (given, wanted) = (&record.figures.token_in, &record.figures.token_out);
    let too_late = state.destination.timestamp > u64::from(intent.fill_deadline);
    let never = state.deposit == 0 && state.over;
    let (status, end) = match state.deposit {
        REFUNDED => (IntentStatus::Refunded, Some(OrderEnd::TookNothing)),
        // The destination's news may lag behind the origin's. Wait for the delivery until the fill deadline has passed
        // there and its endpoints agree.
        REPAID if state.delivery.is_none() && (!too_late || state.read_error) => (IntentStatus::Filled, None),
        REPAID => (IntentStatus::Filled, Some(OrderEnd::Took)),
        _ if state.delivery.is_some() => (IntentStatus::Filled, None),
        LOCKED if too_late => (IntentStatus::Expired, None),
        LOCKED => (IntentStatus::Filling, None),
        _ if never => (IntentStatus::Expired, Some(OrderEnd::TookNothing)),
        _ => (IntentStatus::Pending, None),
    };
    let delivery = state.delivery.as_ref();
    let confirmed = delivery.and_then(|one| one.received).filter(|received| *received >= intent.data.outputAmount);
    if let Some(delivery) = delivery
        && confirmed.is_none()
    {
        remarks.push(match delivery.received {
            Some(received) => format!("the destination balance rose by only {} in that block", text(received, wanted)),
            None => "the destination balance could not be compared".to_owned(),
        });
    }
    if state.read_error {
        remarks.push(format!("the endpoints of {destination} contradict each other about a delivery"));
    }
    let amount_in = text(intent.data.inputAmount, given);
    let held = format!("locked in settler {} on {source}", short_address(intent.origin_settler));
    let money = match (status, state.deposit) {
        (IntentStatus::Pending, _) => {
            format!("the {} stays in the wallet until a relayer locks it on {source}", given.symbol)
        }
        (IntentStatus::Filling, _) => held,
        (IntentStatus::Filled, _) => match confirmed {
            Some(received) => format!("{} {} arrived on {destination}", text(received, wanted), wanted.symbol),
            None if delivery.is_some() => format!("delivered on {destination}, according to its settler"),
            None => format!("paid to the filler on {source}; no delivery has been seen on {destination}"),
        },
        (IntentStatus::Expired, 0) => format!("no {0} left the wallet; nobody locked it", given.symbol),
        (IntentStatus::Expired, _) => match state.refund_from {
            Some(from) => format!("{held}; intent_refund returns it from {} on", time_of_day(from)),
            None => format!("{held}; intent_refund returns it"),
        },
        (IntentStatus::Refunded, _) => format!("{amount_in} {} is back in the wallet on {source}", given.symbol),
    };
    // The deliverer determines the chosen bid. The network's own choice counts only before the delivery.
    let chosen = match delivery.map(|one| one.filler) {
        Some(filler) => {
            let by_them = |bid: &&RelayerBid| bid.relayer == filler;
            service_answers
                .iter()
                .filter(by_them)
                .find(|bid| bid.chosen)
                .or_else(|| service_answers.iter().find(by_them))
        }
        None => service_answers.iter().find(|bid| bid.chosen),
    };
    let bids: Vec<FillerOffer> = service_answers
        .iter()
        .map(|bid| FillerOffer {
            filler: bid.relayer,
            name: Some(bid.name.clone()),
            output_amount: text(bid.output, wanted),
            estimated_seconds: bid.seconds,
            chosen: chosen.is_some_and(|one| std::ptr::eq(one, bid)),
        })
        .collect();
    let update = IntentUpdate {
        intent_id: record.hash,
        status,
        source_chain: SafeText::clean(&source, 40),
        destination_chain: SafeText::clean(&destination, 40),
        token_in: given.clone(),
        token_out: wanted.clone(),
        amount_in,
        min_out: text(intent.data.outputAmount, wanted),
        estimated_output: text(record.figures.quoted_out, wanted),
        recipient: record.account,
        settler: intent.origin_settler,
        bids,
        locked: state.locked.clone(),
        delivered: delivery.map(|one| one.place.clone()),
        filler: delivery.map(|one| one.filler),
        repaid: state.repaid.clone(),
        refunded: state.refunded.clone(),
        amount_out: confirmed.map(|received| text(received, wanted)),
        fill_deadline: intent.fill_deadline.into(),
        refund_from: state.refund_from,
        money: line(money),
        remark: line(remarks.join("; ")),
    };
    PollResult { card: CardState::Intent(Box::new(update)), end }
}

fn text(amount: U256, token: &CardToken) -> String {
    TokenAmount::new(amount, token.decimals).map_or_else(|_| amount.to_string(), |amount| amount.to_string())
}

#[cfg(test)]
mod tests;
