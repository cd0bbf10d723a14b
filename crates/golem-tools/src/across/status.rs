//! State of an account's deposits, by the pools' own logs on both chains. Nobody else is asked: the events of the source's pool
//! say what was deposited, those of the destination's pool what was filled, and those of the source's pool again what was paid back.
//!
//! A fill counts only if every field is the deposit's, the destination's pool keeps it under the deposit's hash, and the recipient
//! received the tokens in the same transaction. A refund event names recipients and sums, not deposits: sums go to the expired
//! deposits in the order of their deadlines, and only as far as the token's transfers to the account confirm them.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Log, U256};
use alloy::providers::Provider as _;
use alloy::sol_types::SolEvent as _;

use crate::engine::{ConnectedChain, ToolEnvironment};
use crate::market::logs::{LogBudget, LogQuery, PlacedLog, read_backwards};
use crate::shared::head_time;
use bardo_abi::across::{AcrossRelay, AcrossSpokePool};
use bardo_abi::erc20::{Erc20, Weth9};
use bardo_base::error::{ErrorCode, ToolError};
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_chain::provider::ProviderError;
use golem_protocols::across::event::{DepositEvent, FillEvent, FillKind, RefundEvent, SlowFillRequest};
use golem_protocols::across::{address_of, relay_hash};

/// Time back from the head in which deposits are looked for, in milliseconds: a day. Refunds follow within hours.
const LOOKBACK_MILLIS: u64 = 86_400_000;

/// Requests for logs of one kind, and logs in one reading.
const REQUESTS: u32 = 24;
const LOGS: usize = 2_000;

/// Most deposits whose fills are looked for, the newest first. Anybody may deposit in the name of an account, so that their number
/// is not the account's own to bound.
const MOST_DEPOSITS: usize = 20;

/// Statuses of a relay in a pool (`FillStatus`).
const SLOW_FILL_REQUESTED: u64 = 1;
const FILLED: u64 = 2;

/// State of a deposit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DepositState {
    /// It can be filled.
    Pending,
    /// The destination's pool was asked to pay it itself; a relayer can still fill it.
    SlowFillRequested,
    /// It was filled.
    Filled,
    /// Its deadline has passed by the destination's time, and nobody filled it.
    Expired,
    /// It expired, and was paid back.
    Refunded,
    /// The chains contradict each other, or cannot be read.
    Unclear,
}

impl DepositState {
    /// Word for the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::SlowFillRequested => "slow_fill_requested",
            Self::Filled => "filled",
            Self::Expired => "expired",
            Self::Refunded => "refunded",
            Self::Unclear => "unclear",
        }
    }
}

/// A deposit and what became of it. Amounts in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDeposit {
    /// All that identifies it on its destination.
    pub relay: AcrossRelay,
    /// EIP-155 id of its destination.
    pub destination_chain_id: u64,
    /// Transaction and block of the deposit.
    pub deposited: (B256, u64),
    /// State of it by the logs of both chains.
    pub state: DepositState,
    /// Transaction in which the destination's pool was asked to pay it itself.
    pub slow_fill_asked_by: Option<B256>,
    /// Transaction of the fill.
    pub filled_by: Option<B256>,
    /// Way in which it was filled.
    pub fill_kind: Option<FillKind>,
    /// Address that is repaid for the fill; `None` for a slow fill, which the pool pays itself.
    pub relayer: Option<B256>,
    /// Amount that arrived.
    pub received: Option<U256>,
    /// Transaction of the refund.
    pub refunded_by: Option<B256>,
    /// Reason for an unclear state.
    pub remark: Option<&'static str>,
}

/// Deposits of an account, with what became of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownDeposits {
    /// Deposits, the oldest first.
    pub deposits: Vec<KnownDeposit>,
    /// True if there may be others: the logs of the day could not be read whole, or there are more than are shown.
    pub is_partial: bool,
}

/// Block this long before `head`, on a chain with these block times.
fn back(head: u64, millis: u64, block_millis: u64) -> u64 {
    head.saturating_sub(millis / block_millis.max(1)).max(1)
}

/// First block in which a fill is looked for: as long ago as an own deposit is followed, and a day more, because the clock that dates
/// deposits is not the destination's.
fn fills_from(head: u64, block_millis: u64) -> u64 {
    back(head, FOLLOWED_MILLIS + LOOKBACK_MILLIS, block_millis)
}

async fn head_number(chain: &ConnectedChain) -> Result<u64, ToolError> {
    Ok(chain.client.agreed().get_block_number().await.map_err(ProviderError::from)?)
}

/// Logs of a transaction that succeeded, by the receipt; `None` without one.
async fn logs_of(chain: &ConnectedChain, transaction: B256) -> Result<Option<Vec<Log>>, ToolError> {
    let receipt = chain.client.agreed().get_transaction_receipt(transaction).await.map_err(ProviderError::from)?;
    let receipt = receipt.filter(|receipt| receipt.status());
    Ok(receipt.map(|receipt| receipt.logs().iter().map(|log| log.inner.clone()).collect()))
}

/// Reads the newest deposits of an account from a chain's pool, or the one with the `wanted` id, with what became of each. `to`
/// connects the destinations.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` without a pool in the address book, or the error of the source. A destination that does not answer leaves
/// its deposits unclear.
pub(crate) async fn deposits<'a>(
    source: &ConnectedChain,
    account: Address,
    wanted: Option<U256>,
    to: impl Fn(u64) -> Result<&'a ConnectedChain, ToolError>,
) -> Result<KnownDeposits, ToolError> {
    let pool = source.contract(KnownContract::AcrossSpokePool)?;
    let head = head_number(source).await?;
    let range = (back(head, LOOKBACK_MILLIS, source.network().block_millis), head);
    let query = LogQuery {
        addresses: vec![pool],
        events: DepositEvent::SIGNATURES.to_vec(),
        first: None,
        second: wanted.map(B256::from),
        third: Some(account.into_word()),
    };
    let (mut known, mut is_partial) = newest(source, &query, range).await?;
    look_all(&mut known, &to).await;
    let expired: Vec<KnownDeposit> =
        known.iter().filter(|deposit| deposit.state == DepositState::Expired).cloned().collect();
    if expired.is_empty() {
        return Ok(KnownDeposits { deposits: known, is_partial });
    }
    if wanted.is_some() {
        // A refund names no deposit: the others that it may be of must be known.
        let (mut others, is_part) = newest(source, &LogQuery { second: None, ..query }, range).await?;
        others.retain(|other| expired.iter().all(|one| one.relay.depositId != other.relay.depositId));
        look_all(&mut others, &to).await;
        is_partial |= is_part;
        known.extend(others);
    }
    if is_partial {
        remark_expired(&mut known, "too many deposits name this account to tell which one a refund is of");
    } else {
        let first = known.iter().map(|deposit| deposit.deposited.1).min().unwrap_or(range.0);
        let (paid, is_whole) = refunds(source, (pool, account), (first, head)).await?;
        allot(&mut known, &paid);
        if !is_whole {
            remark_expired(&mut known, UNREAD_REFUNDS);
            is_partial = true;
        }
    }
    known.retain(|deposit| wanted.is_none_or(|id| deposit.relay.depositId == id));
    Ok(KnownDeposits { deposits: known, is_partial })
}

/// Remark about a deposit of which it is not known whether it was paid back.
const UNREAD_REFUNDS: &str = "the logs of refunds since the deposit could not all be read";

fn remark_expired(known: &mut [KnownDeposit], remark: &'static str) {
    for deposit in known.iter_mut().filter(|deposit| deposit.state == DepositState::Expired) {
        deposit.remark = Some(remark);
    }
}

/// Makes the state of deposits unclear that expired and of which no refund was seen in logs that are not whole.
fn doubt_expired(known: &mut [KnownDeposit]) {
    remark_expired(known, UNREAD_REFUNDS);
    for deposit in known.iter_mut().filter(|deposit| deposit.state == DepositState::Expired) {
        deposit.state = DepositState::Unclear;
    }
}

/// Time for which an own deposit is followed, in milliseconds: three days. Refunds follow within hours.
const FOLLOWED_MILLIS: u64 = 3 * 86_400_000;

/// Own deposits that are on their way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InTransit {
    /// Token and amount of each deposit that nobody filled and that was not paid back, on its source, in raw units.
    pub deposits: Vec<(Address, U256)>,
    /// True if the state of one is not clear: it is in no figure.
    pub is_partial: bool,
}

/// Included transactions of this ledger that called the pool of a chain in the last three days; none without a pool or a ledger.
///
/// # Errors
/// The errors of the ledger.
pub fn own_transactions(world: &ToolEnvironment, source: &ConnectedChain) -> Result<Vec<B256>, ToolError> {
    let network = source.network();
    let (Some(pool), Some(orders)) = (network.book.contract(KnownContract::AcrossSpokePool), &world.orders) else {
        return Ok(Vec::new());
    };
    let since = world.clock.now_millis().saturating_sub(FOLLOWED_MILLIS);
    Ok(orders.transactions_with(network.chain_id, pool, since)?)
}

/// Reads the deposits that an account made from a chain in the last three days, the oldest first, with what became of each. Only
/// deposits in transactions of this ledger count: anybody may deposit in the name of an account.
///
/// # Errors
/// The errors of the source, or of the ledger. A destination that does not answer leaves its deposits unclear.
pub async fn own_deposits(
    world: &ToolEnvironment,
    source: &ConnectedChain,
    account: Address,
) -> Result<Vec<KnownDeposit>, ToolError> {
    let network = source.network();
    let Some(pool) = network.book.contract(KnownContract::AcrossSpokePool) else { return Ok(Vec::new()) };
    let mut known = Vec::new();
    for transaction in own_transactions(world, source)? {
        let receipt = source.client.agreed().get_transaction_receipt(transaction).await.map_err(ProviderError::from)?;
        let Some(receipt) = receipt.filter(|receipt| receipt.status()) else { continue };
        let logs = receipt.logs().iter().filter(|log| log.address() == pool);
        let number = receipt.block_number.unwrap_or_default();
        let own = logs.filter_map(|log| opened(&log.inner, (transaction, number), network.chain_id));
        known.extend(own.filter(|deposit| address_of(deposit.relay.depositor) == Some(account)));
    }
    look_all(&mut known, &|chain_id| world.chain(&chain_id.to_string())).await;
    let expired = known.iter().filter(|deposit| deposit.state == DepositState::Expired);
    if let Some(first) = expired.map(|deposit| deposit.deposited.1).min() {
        let (paid, is_whole) = refunds(source, (pool, account), (first, head_number(source).await?)).await?;
        allot(&mut known, &paid);
        // What may have been paid back is in the wallet then, and must not count twice.
        if !is_whole {
            doubt_expired(&mut known);
        }
    }
    Ok(known)
}

/// Reads what an account has on its way through Across from a chain, of its own deposits.
///
/// # Errors
/// As [`own_deposits`]. A destination that does not answer makes the figure partial.
pub async fn in_transit(
    world: &ToolEnvironment,
    source: &ConnectedChain,
    account: Address,
) -> Result<InTransit, ToolError> {
    let known = own_deposits(world, source, account).await?;
    let open = |deposit: &&KnownDeposit| match deposit.state {
        DepositState::Pending | DepositState::SlowFillRequested | DepositState::Expired => true,
        DepositState::Filled | DepositState::Refunded | DepositState::Unclear => false,
    };
    let deposits = known
        .iter()
        .filter(open)
        .filter_map(|deposit| Some((address_of(deposit.relay.inputToken)?, deposit.relay.inputAmount)));
    Ok(InTransit {
        deposits: deposits.collect(),
        is_partial: known.iter().any(|deposit| deposit.state == DepositState::Unclear),
    })
}

/// The newest deposits that a query finds, the oldest first; true if there may be others.
async fn newest(
    source: &ConnectedChain,
    query: &LogQuery,
    range: (u64, u64),
) -> Result<(Vec<KnownDeposit>, bool), ToolError> {
    let read = read_backwards(source, query, range, &mut LogBudget::new(REQUESTS, LOGS), |_| false).await?;
    let origin = source.network().chain_id;
    let found = read.logs.iter().filter_map(|log| opened(&log.log, (log.transaction, log.number), origin));
    let mut known: Vec<KnownDeposit> = found.collect();
    let skipped = known.len().saturating_sub(MOST_DEPOSITS);
    known.drain(..skipped);
    Ok((known, skipped > 0 || read.from > range.0))
}

/// Looks for the fill of each deposit. A destination that does not answer leaves its deposits unclear.
async fn look_all<'a>(known: &mut [KnownDeposit], to: &impl Fn(u64) -> Result<&'a ConnectedChain, ToolError>) {
    for deposit in known {
        let looked = match to(deposit.destination_chain_id) {
            Ok(destination) => look(destination, deposit).await.map_err(|error| match error.code() {
                ErrorCode::ChainUnsupported => "the destination's address book has no SpokePool",
                _ => "the destination does not answer",
            }),
            Err(_) => Err("the destination is not connected"),
        };
        if let Err(remark) = looked {
            deposit.state = DepositState::Unclear;
            deposit.remark = Some(remark);
        }
    }
}

fn opened(log: &Log, deposited: (B256, u64), origin: u64) -> Option<KnownDeposit> {
    let event = DepositEvent::decode(log, origin)?;
    Some(KnownDeposit {
        destination_chain_id: u64::try_from(event.destination_chain_id).ok()?,
        relay: event.relay,
        deposited,
        state: DepositState::Pending,
        slow_fill_asked_by: None,
        filled_by: None,
        fill_kind: None,
        relayer: None,
        received: None,
        refunded_by: None,
        remark: None,
    })
}

/// Looks for the fill of a deposit on its destination.
async fn look(destination: &ConnectedChain, deposit: &mut KnownDeposit) -> Result<(), ToolError> {
    let pool = destination.contract(KnownContract::AcrossSpokePool)?;
    // The time first: a fill in its last second is in a block before the one that ends it.
    let time = head_time(destination).await?;
    let head = head_number(destination).await?;
    let hash = relay_hash(&deposit.relay, deposit.destination_chain_id);
    let mut calls = CallBatch::default();
    let status = calls.push(pool, &AcrossSpokePool::fillStatusesCall { relayHash: hash });
    let answers = destination.ask(calls).await?;
    let status = status.take(&answers).ok_or_else(|| {
        ToolError::new(
            ErrorCode::ChainInconsistent,
            format_args!("the SpokePool of {} does not answer", destination.network()),
        )
    })?;
    let range = (fills_from(head, destination.network().block_millis), head);
    if status != U256::from(FILLED) {
        let over = time > u64::from(deposit.relay.fillDeadline);
        let asked = status == U256::from(SLOW_FILL_REQUESTED);
        deposit.state = match (over, asked) {
            (true, _) => DepositState::Expired,
            (false, true) => DepositState::SlowFillRequested,
            (false, false) => DepositState::Pending,
        };
        if asked {
            deposit.slow_fill_asked_by = slow_fill_request(destination, pool, range, &deposit.relay).await?;
        }
        return Ok(());
    }
    let relay = deposit.relay.clone();
    let fills = |log: &PlacedLog| FillEvent::decode(&log.log).filter(|fill| fill.fills(&relay));
    let query = of_deposit(pool, &relay, FillEvent::SIGNATURES);
    let found = read_backwards(destination, &query, range, &mut LogBudget::new(REQUESTS, LOGS), |logs| {
        logs.iter().any(|log| fills(log).is_some())
    })
    .await?;
    let found = found.logs.iter().find_map(|log| Some((log, fills(log)?)));
    let Some((log, fill)) = found else {
        deposit.state = DepositState::Unclear;
        deposit.remark = Some("the destination's pool says that it is filled, and has no event of it");
        return Ok(());
    };
    deposit.filled_by = Some(log.transaction);
    deposit.fill_kind = Some(fill.kind);
    deposit.relayer = Some(fill.relayer).filter(|_| fill.kind != FillKind::Slow);
    if fill.kind != FillKind::Fast {
        deposit.slow_fill_asked_by = slow_fill_request(destination, pool, range, &relay).await?;
    }
    let logs = logs_of(destination, log.transaction).await?.unwrap_or_default();
    let wrapped = destination.network().book.contract(KnownContract::WrappedNative);
    match received(&deposit.relay, &fill, (pool, wrapped), &logs) {
        Some(amount) => {
            deposit.state = DepositState::Filled;
            deposit.received = Some(amount);
        }
        None => {
            deposit.state = DepositState::Unclear;
            deposit.remark = Some("the destination's pool tells a fill, and no transfer to the account confirms it");
        }
    }
    Ok(())
}

/// Logs of the destination's pool about one relay.
fn of_deposit(pool: Address, relay: &AcrossRelay, events: [B256; 2]) -> LogQuery {
    LogQuery {
        addresses: vec![pool],
        events: events.to_vec(),
        first: Some(B256::from(relay.originChainId)),
        second: Some(B256::from(relay.depositId)),
        third: None,
    }
}

/// Transaction in which the destination's pool was asked to pay a relay itself; `None` if its event is not found.
async fn slow_fill_request(
    destination: &ConnectedChain,
    pool: Address,
    range: (u64, u64),
    relay: &AcrossRelay,
) -> Result<Option<B256>, ToolError> {
    let asks = |log: &PlacedLog| SlowFillRequest::decode(&log.log).is_some_and(|request| request.asks_for(relay));
    let query = of_deposit(pool, relay, SlowFillRequest::SIGNATURES);
    let mut budget = LogBudget::new(REQUESTS, LOGS);
    let found = read_backwards(destination, &query, range, &mut budget, |logs| logs.iter().any(asks)).await?;
    Ok(found.logs.iter().find(|log| asks(log)).map(|log| log.transaction))
}

/// Amount that a fill brought the recipient, by the token's own events; `None` if they show less than the deposit asks for. A
/// slow fill may pay more than that, and comes from the pool. The wrapped native token arrives unwrapped, which only its contract
/// and the pool tell.
fn received(
    relay: &AcrossRelay,
    fill: &FillEvent,
    (pool, wrapped): (Address, Option<Address>),
    logs: &[Log],
) -> Option<U256> {
    let (token, recipient) = (address_of(relay.outputToken)?, address_of(relay.recipient)?);
    let of_token = || logs.iter().filter(|log| log.address == token);
    let transfers = of_token().filter_map(|log| Erc20::Transfer::decode_log(log).ok());
    let own = transfers.filter(|one| one.to == recipient && (fill.kind != FillKind::Slow || one.from == pool));
    let moved = own.fold(U256::ZERO, |sum, one| sum.saturating_add(one.value));
    if moved >= relay.outputAmount {
        // One transaction can fill several deposits: what is above this fill is not this deposit's.
        return Some(moved.min(fill.paid));
    }
    let unwrapped = of_token().filter_map(|log| Weth9::Withdrawal::decode_log(log).ok());
    let unwrapped = unwrapped.filter(|one| one.src == pool && one.wad == fill.paid).count();
    (wrapped == Some(token) && unwrapped == 1).then_some(fill.paid)
}

/// Payment of a bundle to the account.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PaidBack {
    token: Address,
    amount: U256,
    transaction: B256,
    block: u64,
}

/// Reads what bundles paid the account, the oldest first, as far as the tokens' transfers confirm it; false if older ones of the
/// range may be missing.
async fn refunds(
    source: &ConnectedChain,
    (pool, account): (Address, Address),
    range: (u64, u64),
) -> Result<(Vec<PaidBack>, bool), ToolError> {
    let query = LogQuery {
        addresses: vec![pool],
        events: vec![RefundEvent::SIGNATURE],
        first: Some(B256::from(U256::from(source.network().chain_id))),
        second: None,
        third: None,
    };
    let read = read_backwards(source, &query, range, &mut LogBudget::new(REQUESTS, LOGS), |_| false).await?;
    let mut told: BTreeMap<(u64, B256, Address), U256> = BTreeMap::new();
    for placed in &read.logs {
        let Some(event) = RefundEvent::decode(&placed.log) else { continue };
        let amount = event.paid_to(account);
        if !amount.is_zero() {
            let sum = told.entry((placed.number, placed.transaction, event.token)).or_default();
            *sum = sum.saturating_add(amount);
        }
    }
    let mut paid = Vec::new();
    for ((block, transaction, token), amount) in told {
        let logs = logs_of(source, transaction).await?.unwrap_or_default();
        let transfers = logs.iter().filter(|log| log.address == token);
        let transfers = transfers.filter_map(|log| Erc20::Transfer::decode_log(log).ok());
        let own = transfers.filter(|one| one.from == pool && one.to == account);
        let moved = own.fold(U256::ZERO, |sum, one| sum.saturating_add(one.value));
        paid.push(PaidBack { token, amount: amount.min(moved), transaction, block });
    }
    Ok((paid, read.from <= range.0))
}

/// Assigns payments to expired deposits of the same token, both in their order. A deposit counts as refunded once payments after
/// it cover it whole.
fn allot(known: &mut [KnownDeposit], paid: &[PaidBack]) {
    let mut expired: Vec<&mut KnownDeposit> =
        known.iter_mut().filter(|deposit| deposit.state == DepositState::Expired).collect();
    expired.sort_by_key(|deposit| (deposit.relay.fillDeadline, deposit.deposited.1));
    let mut left: Vec<PaidBack> = paid.to_vec();
    for deposit in expired {
        let Some(token) = address_of(deposit.relay.inputToken) else { continue };
        let usable = |one: &PaidBack| one.token == token && one.block > deposit.deposited.1 && !one.amount.is_zero();
        let sum = left.iter().filter(|one| usable(one)).fold(U256::ZERO, |sum, one| sum.saturating_add(one.amount));
        if sum < deposit.relay.inputAmount {
            continue;
        }
        let mut owed = deposit.relay.inputAmount;
        for one in left.iter_mut().filter(|one| usable(one)) {
            let part = one.amount.min(owed);
            one.amount = one.amount.saturating_sub(part);
            owed = owed.saturating_sub(part);
            if owed.is_zero() {
                deposit.refunded_by = Some(one.transaction);
                break;
            }
        }
        deposit.state = DepositState::Refunded;
    }
}

#[cfg(test)]
mod tests;
