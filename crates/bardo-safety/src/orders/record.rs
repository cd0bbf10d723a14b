//! Signed orders in the database: written down in the transaction that holds their money, before they are signed;
//! their signature before anybody else sees it; their end with the ledger's.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, Signature, U256};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use super::state::OrderState;
use crate::rulebook::Reservation;
use crate::typed::TypedMessage;
use bardo_base::fabric::Asset;
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_store::StoreError;
use golem_protocols::intents::Intent;
use golem_protocols::uniswap::order::{Order, OrderKind};

/// The word for a bridge order where a UniswapX order has the name of its kind.
const CROSS_CHAIN: &str = "ERC7683";

/// How far an order has come here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Its money is held; whether it was signed is not known to anybody but whoever is signing.
    Reserved,
    /// Signed and stored; nobody else has seen it.
    Signed,
    /// On its way to the service; it may have arrived.
    Submitting,
    /// The service has it.
    Submitted,
    /// The service said no. The signature is good all the same, until its deadline.
    Refused,
    /// Nothing can come of it any more.
    Ended,
}

impl Stage {
    const WORDS: [(Self, &'static str); 6] = [
        (Self::Reserved, "reserved"),
        (Self::Signed, "signed"),
        (Self::Submitting, "submitting"),
        (Self::Submitted, "submitted"),
        (Self::Refused, "refused"),
        (Self::Ended, "ended"),
    ];

    /// The written form.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(stage, _)| *stage == self).map_or("ended", |(_, word)| word)
    }

    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(stage, _)| *stage)
    }
}

/// What a card needs beside the order itself. Amounts in raw units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// What is expected to come of it, in a sentence.
    #[serde(default)]
    pub expected_outcome: SafeText,
    /// What is given.
    pub token_in: Asset,
    /// What is wanted.
    pub token_out: Asset,
    /// What the quote said would come.
    pub quoted_out: U256,
    /// The block it was checked on: nothing can have happened to it before.
    pub from_block: u64,
    /// The same on the chain where it arrives, for a bridge order.
    pub arrival_from_block: Option<u64>,
    /// What the account had of the wanted token there, for a bridge order.
    pub arrival_before: Option<U256>,
}

/// A signed order as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The order's hash, or the bridge order's id.
    pub hash: B256,
    /// The permit it was signed under.
    pub permit_id: PermitId,
    /// The call it belongs to.
    pub call_id: CallId,
    /// On whose behalf.
    pub golem_id: GolemId,
    /// EIP-155 id of the chain it is signed for.
    pub chain_id: u64,
    /// Whose money.
    pub account: Address,
    /// What is signed.
    pub message: TypedMessage,
    /// The signature, once there is one.
    pub signature: Option<Bytes>,
    /// How far it has come here.
    pub stage: Stage,
    /// Where it stands.
    pub status: OrderState,
    /// What a card needs.
    pub figures: Figures,
    /// The last payload that was told of it, as JSON.
    pub card: Option<String>,
    /// What is held for it.
    pub reservation: Reservation,
    /// What counts as spent if it is filled.
    pub spent: Usd,
    /// What the transactions before it cost.
    pub gas: Usd,
    /// When it was written down, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// When its signature was, in milliseconds since the Unix epoch.
    pub signed_at: Option<u64>,
    /// Whether a service may have seen it that did not take it.
    pub shown: bool,
}

impl Record {
    /// Whether it can still take something, as far as is known here.
    pub fn is_live(&self) -> bool {
        self.stage != Stage::Ended
    }

    /// Whether its account has signed it: Permit2 takes nothing from an account on any other signature.
    fn is_signed_by_its_account(&self) -> bool {
        let signature = self.signature.as_ref().and_then(|bytes| Signature::from_raw(bytes).ok());
        let signer =
            signature.and_then(|one| one.recover_address_from_prehash(&self.message.digest(self.chain_id)).ok());
        signer == Some(self.account)
    }

    /// Whether the operator placed it by hand.
    pub fn is_by_hand(&self) -> bool {
        self.golem_id == GolemId::operator()
    }

    /// The last second in which it can take something, since the Unix epoch.
    pub fn usable_until(&self) -> u64 {
        self.message.takes().iter().map(|takes| takes.usable_until).max().unwrap_or(u64::MAX)
    }

    /// The name of its kind: `DUTCH_V2`, `DUTCH_V3`, `PRIORITY` or `ERC7683`.
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

/// What identifies an order and how it is encoded; nothing for a message that is no order.
pub(crate) fn identity(message: &TypedMessage) -> Option<(B256, Bytes)> {
    match message {
        TypedMessage::UniswapxOrder { order, .. } => Some((order.hash(), order.encode())),
        TypedMessage::CrossChainOrder { intent, .. } => Some((intent.id(), intent.encode())),
        TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => None,
    }
}

/// What an order gives and wants.
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

/// Writes an order down, in the transaction that holds its money.
pub(crate) fn insert(transaction: &Transaction<'_>, record: &Record) -> Result<(), StoreError> {
    let (hash, encoded) = identity(&record.message)
        .filter(|(hash, _)| *hash == record.hash)
        .ok_or_else(|| StoreError::Query("what is to be signed is no order".to_owned()))?;
    let (token_in, token_out, destination) = pair(&record.message);
    let facts = serde_json::to_string(&record.figures).map_err(|error| StoreError::Query(error.to_string()))?;
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
            facts,
            record.reservation.0,
            record.spent.to_string(),
            record.gas.to_string(),
            number(record.created_at)?,
        ])?;
    Ok(())
}

/// A trade or a bridge as far as another may replace it. The coin stands under the contract that wraps it: to whoever
/// sells twice they are one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    /// What is given.
    pub given: Address,
    /// Each of what is wanted.
    pub wanted: Vec<Address>,
    /// Where it arrives, if elsewhere.
    pub destination: Option<u64>,
}

impl Pair {
    /// What an order gives and wants; nothing for a message that is no order.
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

    /// Whether both trade the same on one chain; `wrapped` is the contract that wraps the chain's coin.
    fn is_for_the_same(&self, other: &Self, wrapped: Option<Address>) -> bool {
        let one = |token: Address| if token.is_zero() { wrapped.unwrap_or(token) } else { token };
        let shared = self.wanted.iter().any(|wanted| other.wanted.iter().any(|also| one(*also) == one(*wanted)));
        one(self.given) == one(other.given) && shared && self.destination.is_none() && other.destination.is_none()
    }
}

/// A fair exit by the operator's own hand, as far as open orders compete with it. Amounts in raw units of the token given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExitByHand {
    /// Balance of the account.
    pub balance: U256,
    /// Amount that the exit gives.
    pub gives: U256,
}

/// Live orders of this account that a new trade of the same pair would replace, the oldest first. Bridge orders hold back
/// nothing: the chain does not say of one that was made void that it is, before its time is over.
///
/// Whoever has signed an order and then trades its pair would sell twice, so the caller's own orders always stand in the
/// way. The operator's exit does not follow from an agent's order: such an order holds it up only where the balance does
/// not cover both, or an agent could lock every exit of a pair with a worthless order.
pub(crate) fn in_the_way(
    connection: &Connection,
    (chain_id, account): (u64, Address),
    pair: &Pair,
    wrapped: Option<Address>,
    exit: Option<ExitByHand>,
) -> Result<Vec<Record>, StoreError> {
    let mut live = all(connection, "stage <> 'ended'")?;
    live.retain(|one| one.chain_id == chain_id && one.account == account);
    let is_covered = exit.is_some_and(|exit| {
        let takes = live.iter().flat_map(|one| one.message.takes()).filter(|takes| takes.token == pair.given);
        let promised = takes.fold(U256::ZERO, |sum, takes| sum.saturating_add(takes.amount));
        promised.checked_add(exit.gives).is_some_and(|needed| needed <= exit.balance)
    });
    live.retain(|one| Pair::of(&one.message).is_some_and(|own| own.is_for_the_same(pair, wrapped)));
    live.retain(|one| !is_covered || one.is_by_hand());
    Ok(live)
}

/// Moves an order from one stage to another; false where it was not in the first.
pub(crate) fn advance(
    transaction: &Transaction<'_>,
    hash: B256,
    (from, to): (Stage, Stage),
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

/// Keeps the signature of a reserved order.
pub(crate) fn keep_signature(
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

/// Notes that somebody may have seen an order who did not take it.
pub(crate) fn note_shown(transaction: &Transaction<'_>, hash: B256) -> Result<(), StoreError> {
    transaction.prepare_cached("UPDATE safety_order SET shown = 1 WHERE hash = ?1")?.execute([hash.as_slice()])?;
    Ok(())
}

/// Ends an order that nobody has seen: what was signed is never handed to anybody. False where somebody may have.
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

/// Ends an order that has not ended yet; false where it had.
pub(crate) fn end(transaction: &Transaction<'_>, hash: B256, status: OrderState, now: u64) -> Result<bool, StoreError> {
    let rows = transaction
        .prepare_cached(
            "UPDATE safety_order SET stage = 'ended', status = ?2, changed_at = ?3
             WHERE hash = ?1 AND stage <> 'ended'",
        )?
        .execute(params![hash.as_slice(), status.as_str(), number(now)?])?;
    Ok(rows == 1)
}

/// Notes what was told of an order last.
pub(crate) fn note_card(
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

/// The order with this hash.
pub(crate) fn find(connection: &Connection, hash: B256) -> Result<Option<Record>, StoreError> {
    let row = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM safety_order WHERE hash = ?1"))?
        .query_row([hash.as_slice()], raw)
        .optional()?;
    row.map(Raw::read).transpose()
}

/// The order that was signed under this permit.
pub(crate) fn of_permit(connection: &Connection, permit_id: PermitId) -> Result<Option<Record>, StoreError> {
    let row = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM safety_order WHERE permit_id = ?1"))?
        .query_row([permit_id.to_string()], raw)
        .optional()?;
    row.map(Raw::read).transpose()
}

/// What signed orders of an account may still take on a chain, by token, in raw units. What the database says of an order
/// counts only with the account's own signature: allowances are kept for it.
pub fn promised(
    connection: &Connection,
    chain_id: u64,
    account: Address,
) -> Result<BTreeMap<Address, U256>, StoreError> {
    let mut promised: BTreeMap<Address, U256> = BTreeMap::new();
    let live = live(connection)?.into_iter().filter(|one| one.chain_id == chain_id && one.account == account);
    let live = live.filter(Record::is_signed_by_its_account);
    for takes in live.flat_map(|one| one.message.takes()) {
        let sum = promised.entry(takes.token).or_default();
        *sum = sum.saturating_add(takes.amount);
    }
    Ok(promised)
}

/// What was given for what live orders are still to bring an account on a chain, by what they bring. An order on another
/// chain may bring something here.
pub(crate) fn coming(
    connection: &Connection,
    chain_id: u64,
    account: Address,
) -> Result<BTreeMap<Address, Usd>, StoreError> {
    let mut coming: BTreeMap<Address, Usd> = BTreeMap::new();
    for one in live(connection)?.into_iter().filter(|one| one.account == account) {
        let Some(pair) = Pair::of(&one.message).filter(|pair| pair.destination.unwrap_or(one.chain_id) == chain_id)
        else {
            continue;
        };
        for token in pair.wanted {
            let sum = coming.entry(token).or_insert(Usd::ZERO);
            *sum = sum.checked_add(one.spent).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        }
    }
    Ok(coming)
}

/// The order that was signed for this call.
pub fn of_call(connection: &Connection, call_id: CallId) -> Result<Option<Record>, StoreError> {
    let row = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM safety_order WHERE call_id = ?1 AND signature IS NOT NULL ORDER BY created_at DESC"
        ))?
        .query_row([call_id.to_string()], raw)
        .optional()?;
    row.map(Raw::read).transpose()
}

/// Every order that has been signed and has not ended, the oldest first.
pub(crate) fn live(connection: &Connection) -> Result<Vec<Record>, StoreError> {
    all(connection, "stage NOT IN ('reserved', 'ended')")
}

/// Every order that was signed, the oldest first.
pub(crate) fn every(connection: &Connection) -> Result<Vec<Record>, StoreError> {
    all(connection, "signature IS NOT NULL")
}

/// A row that cannot be read is left out: it must not hold up every exit and revocation, and whoever can spoil a row can
/// delete it as well. The money that is reserved for its order stays reserved.
fn all(connection: &Connection, which: &str) -> Result<Vec<Record>, StoreError> {
    let mut statement =
        connection.prepare(&format!("SELECT {COLUMNS} FROM safety_order WHERE {which} ORDER BY created_at, hash"))?;
    let mut records = Vec::new();
    for row in statement.query_map([], |row| Ok(raw(row)))? {
        match row?.map_err(StoreError::from).and_then(Raw::read) {
            Ok(record) => records.push(record),
            Err(error) => tracing::warn!(%error, "a signed order in the ledger cannot be read and is left out"),
        }
    }
    Ok(records)
}

struct Raw {
    hash: Vec<u8>,
    texts: [String; 11],
    chain_id: i64,
    encoded: Vec<u8>,
    signature: Option<Vec<u8>>,
    card: Option<String>,
    reservation: i64,
    created_at: i64,
    signed_at: Option<i64>,
    shown: bool,
}

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    Ok(Raw {
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
        shown: row.get(19)?,
    })
}

impl Raw {
    fn read(self) -> Result<Record, StoreError> {
        let [permit_id, call_id, golem_id, kind, account, permit2, stage, status, facts, spent, gas] = self.texts;
        let permit2: Address = permit2.parse().map_err(|_| garbled("Permit2"))?;
        let message = if kind == CROSS_CHAIN {
            let intent = Intent::decode(&self.encoded).map_err(|_| garbled("bridge order"))?;
            TypedMessage::CrossChainOrder { permit2, intent: Box::new(intent) }
        } else {
            let kind = OrderKind::named(&kind).ok_or_else(|| garbled("kind"))?;
            let order = Order::decode(kind, &self.encoded).map_err(|_| garbled("order"))?;
            TypedMessage::UniswapxOrder { permit2, order: Box::new(order) }
        };
        let status = OrderState::of_word(&message, &status).ok_or_else(|| garbled("status"))?;
        let hash = B256::try_from(self.hash.as_slice()).map_err(|_| garbled("hash"))?;
        if identity(&message).is_none_or(|(identity, _)| identity != hash) {
            return Err(garbled("hash: the order under it is another one"));
        }
        let unsigned = |number: i64| u64::try_from(number).map_err(|_| garbled("number"));
        Ok(Record {
            hash,
            permit_id: permit_id.parse().map_err(|_| garbled("permit"))?,
            call_id: call_id.parse().map_err(|_| garbled("call"))?,
            golem_id: GolemId::stored(&golem_id).map_err(|_| garbled("Golem"))?,
            chain_id: unsigned(self.chain_id)?,
            account: account.parse().map_err(|_| garbled("account"))?,
            message,
            signature: self.signature.map(Bytes::from),
            stage: Stage::of_word(&stage).ok_or_else(|| garbled("stage"))?,
            status,
            figures: serde_json::from_str(&facts).map_err(|_| garbled("figures"))?,
            card: self.card,
            reservation: Reservation(self.reservation),
            spent: spent.parse().map_err(|_| garbled("value"))?,
            gas: gas.parse().map_err(|_| garbled("gas"))?,
            created_at: unsigned(self.created_at)?,
            signed_at: self.signed_at.map(unsigned).transpose()?,
            shown: self.shown,
        })
    }
}

fn garbled(what: &str) -> StoreError {
    StoreError::Corrupt(format!("a signed order has no readable {what}"))
}

fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| StoreError::Query(format!("{value} is too large for the database")))
}
