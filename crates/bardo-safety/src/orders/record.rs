//! Signed orders in the database. An order is stored before it is signed, in the transaction that reserves its funds.
//! Its signature is stored before a service receives it. Its end is stored in the transaction that settles the
//! reservation.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, Signature, U256};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use super::state::OrderState;
use crate::policy_engine::Reservation;
use crate::typed::TypedMessage;
use bardo_base::fabric::CardToken;
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_store::StoreError;
use golem_protocols::intents::CrossChainIntent;
use golem_protocols::uniswap::order::{OrderKind, UniswapXOrder};

/// Stored kind of a bridge order, in place of the name of a UniswapX order kind.
const CROSS_CHAIN: &str = "ERC7683";

/// Progress of an order in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderStage {
    /// The funds are reserved. The order may or may not have been signed.
    Reserved,
    /// The order is signed and stored. No service has accepted it.
    Signed,
    /// The submission has started; the service may have received the order.
    Submitting,
    /// The service has accepted the order.
    Submitted,
    /// The service rejected the order. The signature still stays valid until its deadline.
    Refused,
    /// The order has ended: it can take no more tokens.
    Ended,
}

impl OrderStage {
    const NAMES: [(Self, &'static str); 6] = [
        (Self::Reserved, "reserved"),
        (Self::Signed, "signed"),
        (Self::Submitting, "submitting"),
        (Self::Submitted, "submitted"),
        (Self::Refused, "refused"),
        (Self::Ended, "ended"),
    ];

    /// Returns the name that the database contains.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(stage, _)| *stage == self).map_or("ended", |(_, name)| name)
    }

    fn parse_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(stage, _)| *stage)
    }
}

/// Figures for an order's card that the order itself does not contain. Amounts in raw units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderFigures {
    /// Expected outcome, as a sentence.
    #[serde(default)]
    pub expected_outcome: SafeText,
    /// Token that the account gives.
    pub token_in: CardToken,
    /// Token that the account receives.
    pub token_out: CardToken,
    /// Amount received according to the quote.
    pub quoted_out: U256,
    /// Block at which the order was checked; no event of the order can be earlier.
    pub from_block: u64,
    /// Block at which a bridge order was checked on the destination chain.
    pub arrival_from_block: Option<u64>,
    /// Balance of the received token on the destination chain before a bridge order.
    pub arrival_before: Option<U256>,
}

/// Order with its stored state.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderRecord {
    /// Hash of the order, or id of the bridge order.
    pub hash: B256,
    /// Permit for the signature.
    pub permit_id: PermitId,
    /// Tool call that the order belongs to.
    pub call_id: CallId,
    /// Golem that acts.
    pub golem_id: GolemId,
    /// EIP-155 id of the chain that the signature is for.
    pub chain_id: u64,
    /// Account that pays and signs.
    pub account: Address,
    /// Typed data to sign.
    pub message: TypedMessage,
    /// Signature of the account; `None` before it is stored.
    pub signature: Option<Bytes>,
    /// Progress of the order in this process.
    pub stage: OrderStage,
    /// Status of the order, as last seen on the chain.
    pub status: OrderState,
    /// Figures for the order's card.
    pub figures: OrderFigures,
    /// Last published card, as JSON.
    pub card: Option<String>,
    /// Reservation in the ledger.
    pub reservation: Reservation,
    /// Value that counts as spent if the order is filled, in dollars.
    pub spent: Usd,
    /// Cost of the transactions before the order, in dollars.
    pub gas: Usd,
    /// Time of the insertion, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Time of the signature, in milliseconds since the Unix epoch.
    pub signed_at: Option<u64>,
    /// True if a service has received the order without accepting it.
    pub maybe_seen: bool,
}

impl OrderRecord {
    /// Returns true if the order has not ended, as far as this process knows.
    pub fn is_live(&self) -> bool {
        self.stage != OrderStage::Ended
    }

    /// Returns true if the stored signature is the account's own. Permit2 accepts no other signature for the order.
    fn has_valid_signature(&self) -> bool {
        let signature = self.signature.as_ref().and_then(|bytes| Signature::from_raw(bytes).ok());
        let signer = signature
            .and_then(|signature| signature.recover_address_from_prehash(&self.message.digest(self.chain_id)).ok());
        signer == Some(self.account)
    }

    /// Returns true if the operator placed the order, rather than an agent.
    pub fn is_manual(&self) -> bool {
        self.golem_id == GolemId::operator()
    }

    /// Returns true for a limit order: it asks for more than the quote gave. An auction may end below its quote.
    pub fn is_limit(&self) -> bool {
        let TypedMessage::UniswapxOrder { order, .. } = &self.message else { return false };
        let least = order.bounds().least_out;
        least.iter().fold(U256::ZERO, |sum, output| sum.saturating_add(output.amount)) > self.figures.quoted_out
    }

    /// Returns the last second in which the order can be filled or locked, since the Unix epoch.
    pub fn usable_until(&self) -> u64 {
        self.message.takes().iter().map(|takes| takes.usable_until).max().unwrap_or(u64::MAX)
    }

    /// Returns the name of the order's kind, such as `DUTCH_V2`, `DUTCH_V3`, `PRIORITY` or `ERC7683`.
    pub fn kind(&self) -> &'static str {
        kind(&self.message)
    }
}

fn kind(message: &TypedMessage) -> &'static str {
    match message {
        TypedMessage::UniswapxOrder { order, .. } => order.kind().name(),
        TypedMessage::CrossChainOrder { .. }
        | TypedMessage::Permit2Allowance { .. }
        | TypedMessage::Permit2Transfer { .. } => CROSS_CHAIN,
    }
}

/// Returns an order's identifier and encoding; `None` for a message that is not an order.
pub(crate) fn identity(message: &TypedMessage) -> Option<(B256, Bytes)> {
    match message {
        TypedMessage::UniswapxOrder { order, .. } => Some((order.hash(), order.encode())),
        TypedMessage::CrossChainOrder { intent, .. } => Some((intent.id(), intent.encode())),
        TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => None,
    }
}

/// Returns the given token, the received token, and the destination chain of a bridge order.
fn pair(message: &TypedMessage) -> (Address, Address, Option<u64>) {
    match message {
        TypedMessage::UniswapxOrder { order, .. } => {
            let wanted = order.bounds().least_out.first().map(|output| output.token).unwrap_or_default();
            (order.token_in(), wanted, None)
        }
        TypedMessage::CrossChainOrder { intent, .. } => {
            (intent.data.inputToken, intent.data.outputToken, u64::try_from(intent.data.destinationChainId).ok())
        }
        TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => {
            (Address::ZERO, Address::ZERO, None)
        }
    }
}

/// Stores an order, in the transaction that reserves its funds.
pub(crate) fn insert(transaction: &Transaction<'_>, record: &OrderRecord) -> Result<(), StoreError> {
    let (hash, encoded) = identity(&record.message)
        .filter(|(hash, _)| *hash == record.hash)
        .ok_or_else(|| StoreError::Query("the message to sign is not an order".to_owned()))?;
    let (token_in, token_out, destination) = pair(&record.message);
    let figures = serde_json::to_string(&record.figures).map_err(|error| StoreError::Query(error.to_string()))?;
    transaction
        .prepare_cached(
            "INSERT INTO safety_order (hash, permit_id, call_id, golem_id, kind, chain_id, account, permit2, token_in,
         token_out, destination, encoded, signature, stage, status, facts, card, reservation, spent_usd, gas_usd,
         created_at, changed_at, shown)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, NULL, ?13, ?14, ?15, NULL, ?16, ?17, ?18, ?19, ?19,
                 0)",
        )?
        .execute(params![
            hash.as_slice(),
            record.permit_id.to_string(),
            record.call_id.to_string(),
            record.golem_id.as_str(),
            record.kind(),
            number(record.chain_id)?,
            record.account.to_string(),
            record.message.verifier().to_string(),
            token_in.to_string(),
            token_out.to_string(),
            destination.map(number).transpose()?,
            encoded.as_ref(),
            record.stage.as_str(),
            record.status.as_str(),
            figures,
            record.reservation.0,
            record.spent.to_string(),
            record.gas.to_string(),
            number(record.created_at)?,
        ])?;
    Ok(())
}

/// Tokens of a trade, for finding open orders of the same pair. The native token and its wrapper count as one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TradedPair {
    /// Token that the account gives.
    pub given: Address,
    /// Tokens that the account receives.
    pub wanted: Vec<Address>,
    /// Destination chain of a bridge order; `None` for the same chain.
    pub destination: Option<u64>,
}

impl TradedPair {
    /// Returns the tokens of an order; `None` for a message that is not an order.
    pub(crate) fn of(message: &TypedMessage) -> Option<Self> {
        match message {
            TypedMessage::UniswapxOrder { order, .. } => {
                let wanted = order.bounds().least_out.iter().map(|output| output.token).collect();
                Some(Self { given: order.token_in(), wanted, destination: None })
            }
            TypedMessage::CrossChainOrder { intent, .. } => Some(Self {
                given: intent.data.inputToken,
                wanted: vec![intent.data.outputToken],
                destination: Some(u64::try_from(intent.data.destinationChainId).unwrap_or(u64::MAX)),
            }),
            TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => None,
        }
    }

    /// Returns true if both trade the same pair on one chain. `wrapped` is the contract that wraps the native token.
    fn is_same_pair(&self, other: &Self, wrapped: Option<Address>) -> bool {
        let unified = |token: Address| if token.is_zero() { wrapped.unwrap_or(token) } else { token };
        let shared =
            self.wanted.iter().any(|wanted| other.wanted.iter().any(|also| unified(*also) == unified(*wanted)));
        unified(self.given) == unified(other.given)
            && shared
            && self.destination.is_none()
            && other.destination.is_none()
    }
}

/// A fairly priced exit by the operator, for the comparison with open orders. Amounts in raw units of the token given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ManualExit {
    /// Token balance of the account.
    pub balance: U256,
    /// Amount that the exit gives.
    pub gives: U256,
}

/// Returns the account's open orders that block a new trade of the same pair, the oldest first.
///
/// An open order blocks the trade because both could sell the same tokens. An agent's order blocks the operator's
/// `exit` only if the balance does not cover both. Otherwise an agent could block every exit of a pair with a worthless
/// order. Bridge orders never block a trade, since the chain does not show before they expire that one was invalidated.
pub(crate) fn conflicting_orders(
    connection: &Connection,
    (chain_id, account): (u64, Address),
    pair: &TradedPair,
    wrapped: Option<Address>,
    exit: Option<ManualExit>,
) -> Result<Vec<OrderRecord>, StoreError> {
    let mut live = select_where(connection, "stage <> 'ended'")?;
    live.retain(|one| one.chain_id == chain_id && one.account == account);
    let is_covered = exit.is_some_and(|exit| {
        let takes = live.iter().flat_map(|one| one.message.takes()).filter(|takes| takes.token == pair.given);
        let promised = takes.fold(U256::ZERO, |sum, takes| sum.saturating_add(takes.amount));
        promised.checked_add(exit.gives).is_some_and(|needed| needed <= exit.balance)
    });
    live.retain(|one| TradedPair::of(&one.message).is_some_and(|own| own.is_same_pair(pair, wrapped)));
    live.retain(|one| !is_covered || one.is_manual());
    Ok(live)
}

/// Moves an order from one stage to another. Returns false if it was not in the stage `from`.
pub(crate) fn advance(
    transaction: &Transaction<'_>,
    hash: B256,
    (from, to): (OrderStage, OrderStage),
    status: OrderState,
    now: u64,
) -> Result<bool, StoreError> {
    let rows = transaction
        .prepare_cached(
            "UPDATE safety_order SET stage = ?3, status = ?4, changed_at = ?5 WHERE hash = ?1 AND stage = ?2",
        )?
        .execute(params![hash.as_slice(), from.as_str(), to.as_str(), status.as_str(), number(now)?])?;
    Ok(rows == 1)
}

/// Stores the signature and the gas cost of a reserved order. Returns false if the order is not reserved.
pub(crate) fn store_signature(
    transaction: &Transaction<'_>,
    hash: B256,
    signature: &Bytes,
    gas: Usd,
    now: u64,
) -> Result<bool, StoreError> {
    let rows = transaction
        .prepare_cached(
            "UPDATE safety_order SET stage = 'signed', signature = ?2, gas_usd = ?3, changed_at = ?4, signed_at = ?4
         WHERE hash = ?1 AND stage = 'reserved'",
        )?
        .execute(params![hash.as_slice(), signature.as_ref(), gas.to_string(), number(now)?])?;
    Ok(rows == 1)
}

/// Records that a service has received the order without accepting it.
pub(crate) fn note_maybe_seen(transaction: &Transaction<'_>, hash: B256) -> Result<(), StoreError> {
    transaction.prepare_cached("UPDATE safety_order SET shown = 1 WHERE hash = ?1")?.execute([hash.as_slice()])?;
    Ok(())
}

/// Ends a signed order that no service has seen, so that it is never submitted. Returns false if a service may have
/// seen it.
pub(crate) fn withdraw(
    transaction: &Transaction<'_>,
    hash: B256,
    status: OrderState,
    now: u64,
) -> Result<bool, StoreError> {
    let rows = transaction
        .prepare_cached(
            "UPDATE safety_order SET stage = 'ended', status = ?2, changed_at = ?3
         WHERE hash = ?1 AND stage = 'signed' AND shown = 0",
        )?
        .execute(params![hash.as_slice(), status.as_str(), number(now)?])?;
    Ok(rows == 1)
}

/// Ends an order. Returns false if it had ended before.
pub(crate) fn end(transaction: &Transaction<'_>, hash: B256, status: OrderState, now: u64) -> Result<bool, StoreError> {
    let rows = transaction
        .prepare_cached(
            "UPDATE safety_order SET stage = 'ended', status = ?2, changed_at = ?3
             WHERE hash = ?1 AND stage <> 'ended'",
        )?
        .execute(params![hash.as_slice(), status.as_str(), number(now)?])?;
    Ok(rows == 1)
}

/// Stores the last published card of an order, and its status unless it has ended.
pub(crate) fn store_card(
    transaction: &Transaction<'_>,
    hash: B256,
    status: OrderState,
    card: &str,
    now: u64,
) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "UPDATE safety_order
             SET card = ?3, status = CASE stage WHEN 'ended' THEN status ELSE ?2 END, changed_at = ?4
         WHERE hash = ?1",
        )?
        .execute(params![hash.as_slice(), status.as_str(), card, number(now)?])?;
    Ok(())
}

const COLUMNS: &str = "hash, permit_id, call_id, golem_id, kind, chain_id, account, permit2, encoded, signature, stage,
    status, facts, card, reservation, spent_usd, gas_usd, created_at, signed_at, shown";

/// Returns the order with this hash.
pub(crate) fn find(connection: &Connection, hash: B256) -> Result<Option<OrderRecord>, StoreError> {
    let row = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM safety_order WHERE hash = ?1"))?
        .query_row([hash.as_slice()], read_columns)
        .optional()?;
    row.map(OrderRow::read).transpose()
}

/// Returns the order that this permit covers, signed or not.
pub(crate) fn find_by_permit(connection: &Connection, permit_id: PermitId) -> Result<Option<OrderRecord>, StoreError> {
    let row = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM safety_order WHERE permit_id = ?1"))?
        .query_row([permit_id.to_string()], read_columns)
        .optional()?;
    row.map(OrderRow::read).transpose()
}

/// Returns the amounts that signed orders of an account may still take on a chain, by token, in raw units. A row counts
/// only with the account's own signature, since allowances are kept in place for these amounts.
///
/// # Errors
/// The database's failure.
pub fn promised(
    connection: &Connection,
    chain_id: u64,
    account: Address,
) -> Result<BTreeMap<Address, U256>, StoreError> {
    let mut promised: BTreeMap<Address, U256> = BTreeMap::new();
    let live = live(connection)?.into_iter().filter(|one| one.chain_id == chain_id && one.account == account);
    let live = live.filter(OrderRecord::has_valid_signature);
    for takes in live.flat_map(|one| one.message.takes()) {
        let sum = promised.entry(takes.token).or_default();
        *sum = sum.saturating_add(takes.amount);
    }
    Ok(promised)
}

/// Returns the dollars spent on open orders of an account, by the token that the orders bring to this chain. It
/// includes bridge orders from other chains.
pub(crate) fn incoming_by_token(
    connection: &Connection,
    chain_id: u64,
    account: Address,
) -> Result<BTreeMap<Address, Usd>, StoreError> {
    let mut incoming: BTreeMap<Address, Usd> = BTreeMap::new();
    for one in live(connection)?.into_iter().filter(|one| one.account == account) {
        let Some(pair) =
            TradedPair::of(&one.message).filter(|pair| pair.destination.unwrap_or(one.chain_id) == chain_id)
        else {
            continue;
        };
        for token in pair.wanted {
            let sum = incoming.entry(token).or_insert(Usd::ZERO);
            *sum = sum.checked_add(one.spent).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        }
    }
    Ok(incoming)
}

/// Returns the latest order that was signed for this call.
///
/// # Errors
/// The database's failure, or a row that cannot be read.
pub fn find_by_call(connection: &Connection, call_id: CallId) -> Result<Option<OrderRecord>, StoreError> {
    let row = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM safety_order WHERE call_id = ?1 AND signature IS NOT NULL ORDER BY created_at DESC"
        ))?
        .query_row([call_id.to_string()], read_columns)
        .optional()?;
    row.map(OrderRow::read).transpose()
}

/// Signed order as the books need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderParty {
    /// Tool call that signed it.
    pub call_id: CallId,
    /// Golem that acts.
    pub golem_id: GolemId,
    /// True for a bridge order.
    pub is_bridge: bool,
    /// True if it is to be paid in the native token, whose transfers leave no event.
    pub wants_native: bool,
}

/// Returns the parties of an account's signed orders, by order hash.
///
/// # Errors
/// The database's failure. An unreadable row is skipped.
pub fn parties(connection: &Connection, account: Address) -> Result<BTreeMap<B256, OrderParty>, StoreError> {
    let mut asked = connection.prepare_cached(
        "SELECT hash, call_id, golem_id, destination IS NOT NULL, token_out FROM safety_order
         WHERE account = ?1 AND signature IS NOT NULL",
    )?;
    let rows = asked.query_map([account.to_string()], |row| {
        let (hash, call, golem) = (row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?);
        Ok((hash, call, golem, row.get::<_, bool>(3)?, row.get::<_, String>(4)?))
    })?;
    let mut all = BTreeMap::new();
    for row in rows {
        let (hash, call, golem, is_bridge, token_out) = row?;
        let wants_native = token_out == Address::ZERO.to_string();
        match (B256::try_from(hash.as_slice()), call.parse(), GolemId::stored(&golem)) {
            (Ok(hash), Ok(call_id), Ok(golem_id)) => {
                all.insert(hash, OrderParty { call_id, golem_id, is_bridge, wants_native });
            }
            _ => tracing::warn!("the database has an unreadable order, which the books leave out"),
        }
    }
    Ok(all)
}

/// Returns every signed order that has not ended, the oldest first.
pub(crate) fn live(connection: &Connection) -> Result<Vec<OrderRecord>, StoreError> {
    select_where(connection, "stage NOT IN ('reserved', 'ended')")
}

/// Returns every signed order, the oldest first.
pub(crate) fn every(connection: &Connection) -> Result<Vec<OrderRecord>, StoreError> {
    select_where(connection, "signature IS NOT NULL")
}

/// Returns the orders that match an SQL condition, the oldest first. An unreadable row is skipped, so that it cannot
/// block every exit and revocation. Skipping gives no advantage to anyone who can damage a row, since they could also
/// delete it. The funds reserved for the order stay reserved.
fn select_where(connection: &Connection, condition: &str) -> Result<Vec<OrderRecord>, StoreError> {
    let mut statement = connection
        .prepare(&format!("SELECT {COLUMNS} FROM safety_order WHERE {condition} ORDER BY created_at, hash"))?;
    let mut records = Vec::new();
    for row in statement.query_map([], |row| Ok(read_columns(row)))? {
        match row?.map_err(StoreError::from).and_then(OrderRow::read) {
            Ok(record) => records.push(record),
            Err(error) => tracing::warn!(%error, "a signed order in the ledger cannot be read and is skipped"),
        }
    }
    Ok(records)
}

struct OrderRow {
    hash: Vec<u8>,
    texts: [String; 11],
    chain_id: i64,
    encoded: Vec<u8>,
    signature: Option<Vec<u8>>,
    card: Option<String>,
    reservation: i64,
    created_at: i64,
    signed_at: Option<i64>,
    maybe_seen: bool,
}

fn read_columns(row: &Row<'_>) -> rusqlite::Result<OrderRow> {
    Ok(OrderRow {
        hash: row.get(0)?,
        texts: [
            row.get(1)?,
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
            row.get(6)?,
            row.get(7)?,
            row.get(10)?,
            row.get(11)?,
            row.get(12)?,
            row.get(15)?,
            row.get(16)?,
        ],
        chain_id: row.get(5)?,
        encoded: row.get(8)?,
        signature: row.get(9)?,
        card: row.get(13)?,
        reservation: row.get(14)?,
        created_at: row.get(17)?,
        signed_at: row.get(18)?,
        maybe_seen: row.get(19)?,
    })
}

impl OrderRow {
    fn read(self) -> Result<OrderRecord, StoreError> {
        let [permit_id, call_id, golem_id, kind, account, permit2, stage, status, figures, spent, gas] = self.texts;
        let permit2: Address = permit2.parse().map_err(|_| unreadable("Permit2"))?;
        let message = if kind == CROSS_CHAIN {
            let intent = CrossChainIntent::decode(&self.encoded).map_err(|_| unreadable("bridge order"))?;
            TypedMessage::CrossChainOrder { permit2, intent: Box::new(intent) }
        } else {
            let kind = OrderKind::named(&kind).ok_or_else(|| unreadable("kind"))?;
            let order = UniswapXOrder::decode(kind, &self.encoded).map_err(|_| unreadable("order"))?;
            TypedMessage::UniswapxOrder { permit2, order: Box::new(order) }
        };
        let status = OrderState::parse_name(&message, &status).ok_or_else(|| unreadable("status"))?;
        let hash = B256::try_from(self.hash.as_slice()).map_err(|_| unreadable("hash"))?;
        if identity(&message).is_none_or(|(identity, _)| identity != hash) {
            return Err(unreadable("hash: it belongs to another order"));
        }
        let unsigned = |number: i64| u64::try_from(number).map_err(|_| unreadable("number"));
        Ok(OrderRecord {
            hash,
            permit_id: permit_id.parse().map_err(|_| unreadable("permit"))?,
            call_id: call_id.parse().map_err(|_| unreadable("call"))?,
            golem_id: GolemId::stored(&golem_id).map_err(|_| unreadable("Golem"))?,
            chain_id: unsigned(self.chain_id)?,
            account: account.parse().map_err(|_| unreadable("account"))?,
            message,
            signature: self.signature.map(Bytes::from),
            stage: OrderStage::parse_name(&stage).ok_or_else(|| unreadable("stage"))?,
            status,
            figures: serde_json::from_str(&figures).map_err(|_| unreadable("figures"))?,
            card: self.card,
            reservation: Reservation(self.reservation),
            spent: spent.parse().map_err(|_| unreadable("value"))?,
            gas: gas.parse().map_err(|_| unreadable("gas"))?,
            created_at: unsigned(self.created_at)?,
            signed_at: self.signed_at.map(unsigned).transpose()?,
            maybe_seen: self.maybe_seen,
        })
    }
}

fn unreadable(field: &str) -> StoreError {
    StoreError::Corrupt(format!("a signed order has no readable {field}"))
}

fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| StoreError::Query(format!("{value} is too large for the database")))
}
