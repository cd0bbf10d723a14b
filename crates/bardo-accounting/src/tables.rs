//! Entries, tokens and witnessed prices in the database.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, B256, U256};
use rusqlite::{Connection, Transaction, params};
use serde::Serialize;

use crate::books::{TokenBook, WitnessedPrices};
use crate::entry::{Action, Entry, EntryNote, Flow, Origin, Token, TokenFacts};
use bardo_base::id::{CallId, GolemId};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_store::{Migrations, StoreError};

/// Migrations of the accounting tables. Amounts are raw units in decimal text, since they have up to 256 bits; dollars
/// are decimal text; times are block times in seconds since the Unix epoch.
pub const MIGRATIONS: Migrations = Migrations { room: "accounting", steps: &[FIRST, UNEXPLAINED] };

const FIRST: &str = "
    CREATE TABLE accounting_entry (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        block INTEGER NOT NULL,
        block_hash BLOB NOT NULL,
        position INTEGER NOT NULL,
        at INTEGER NOT NULL,
        tx BLOB,
        origin TEXT NOT NULL CHECK (origin IN ('opening', 'transaction', 'order', 'bridge', 'outside')),
        call_id TEXT,
        golem_id TEXT,
        gas TEXT NOT NULL,
        UNIQUE (chain_id, account, block, position)
    ) STRICT;

    CREATE TABLE accounting_flow (
        entry INTEGER NOT NULL REFERENCES accounting_entry (id) ON DELETE CASCADE,
        token TEXT NOT NULL,
        received TEXT NOT NULL,
        given TEXT NOT NULL,
        PRIMARY KEY (entry, token)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE accounting_block (
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        block INTEGER NOT NULL,
        block_hash BLOB NOT NULL,
        PRIMARY KEY (chain_id, account, block)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE accounting_token (
        chain_id INTEGER NOT NULL,
        token TEXT NOT NULL,
        symbol TEXT NOT NULL,
        decimals INTEGER NOT NULL,
        is_dollar INTEGER NOT NULL CHECK (is_dollar IN (0, 1)),
        wraps_native INTEGER NOT NULL CHECK (wraps_native IN (0, 1)),
        PRIMARY KEY (chain_id, token)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE accounting_price (
        chain_id INTEGER NOT NULL,
        token TEXT NOT NULL,
        at INTEGER NOT NULL,
        call_id TEXT NOT NULL,
        usd TEXT NOT NULL,
        PRIMARY KEY (chain_id, token, at, call_id)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE accounting_action (
        call_id TEXT PRIMARY KEY,
        golem_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// Adds unexplained differences, notes, traded tokens without a price, faults of tokens, and whether the address book
/// lists a token, which the next import fills in. A check cannot be changed in place, so two tables are copied.
const UNEXPLAINED: &str = "
    CREATE TABLE accounting_entry_new (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        block INTEGER NOT NULL,
        block_hash BLOB NOT NULL,
        position INTEGER NOT NULL,
        at INTEGER NOT NULL,
        tx BLOB,
        origin TEXT NOT NULL
            CHECK (origin IN ('opening', 'transaction', 'order', 'bridge', 'outside', 'unexplained')),
        call_id TEXT,
        golem_id TEXT,
        gas TEXT NOT NULL,
        note TEXT,
        UNIQUE (chain_id, account, block, position)
    ) STRICT;
    INSERT INTO accounting_entry_new SELECT *, NULL FROM accounting_entry;
    CREATE TABLE accounting_flow_new (
        entry INTEGER NOT NULL REFERENCES accounting_entry_new (id) ON DELETE CASCADE,
        token TEXT NOT NULL,
        received TEXT NOT NULL,
        given TEXT NOT NULL,
        PRIMARY KEY (entry, token)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO accounting_flow_new SELECT * FROM accounting_flow;
    DROP TABLE accounting_flow;
    DROP TABLE accounting_entry;
    ALTER TABLE accounting_entry_new RENAME TO accounting_entry;
    ALTER TABLE accounting_flow_new RENAME TO accounting_flow;
    CREATE INDEX accounting_entry_time ON accounting_entry (chain_id, at);

    ALTER TABLE accounting_token ADD COLUMN listed INTEGER NOT NULL DEFAULT 0 CHECK (listed IN (0, 1));
    UPDATE accounting_token SET listed = 1 WHERE token = 'native' OR is_dollar = 1 OR wraps_native = 1;

    CREATE TABLE accounting_traded (
        chain_id INTEGER NOT NULL,
        token TEXT NOT NULL,
        PRIMARY KEY (chain_id, token)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE accounting_fault (
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        token TEXT NOT NULL,
        block INTEGER NOT NULL,
        fault TEXT NOT NULL,
        PRIMARY KEY (chain_id, account, token)
    ) STRICT, WITHOUT ROWID;
";

/// Number of blocks per account whose hash is kept, to find where a reorganised chain branches off.
const KEPT_BLOCKS: i64 = 256;

/// Time around an event in which a price counts as witnessed then, in seconds.
const NEAR: u64 = 900;
/// Days whose prices are thinned out again with each import.
const THINNED_DAYS: u64 = 7;
/// Age up to which a price still values a holding at the end of a day, in seconds.
const DAY: u64 = 86_400;

fn damaged(what: &str) -> StoreError {
    StoreError::Corrupt(format!("{what} in the accounting tables"))
}

fn sql(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| damaged("a number that is too large"))
}

fn unsigned(value: i64) -> Result<u64, StoreError> {
    u64::try_from(value).map_err(|_| damaged("a negative number"))
}

fn token_text(token: Token) -> String {
    token.map_or_else(|| "native".to_owned(), |address| address.to_string())
}

fn token_of(text: &str) -> Result<Token, StoreError> {
    match text {
        "native" => Ok(None),
        address => Ok(Some(address.parse().map_err(|_| damaged("an invalid token"))?)),
    }
}

fn amount(text: &str) -> Result<U256, StoreError> {
    text.parse().map_err(|_| damaged("an invalid amount"))
}

fn hash(bytes: &[u8]) -> Result<B256, StoreError> {
    B256::try_from(bytes).map_err(|_| damaged("an invalid hash"))
}

/// Stores an entry. An entry at the same place of the same block is replaced, so importing twice changes nothing.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn store_entry(transaction: &Transaction<'_>, entry: &Entry) -> Result<(), StoreError> {
    let (chain_id, account) = (sql(entry.chain_id)?, entry.account.to_string());
    let (block, position) = (sql(entry.block.0)?, sql(entry.position)?);
    transaction
        .prepare_cached(
            "DELETE FROM accounting_entry WHERE chain_id = ?1 AND account = ?2 AND block = ?3 AND position = ?4",
        )?
        .execute(params![chain_id, account, block, position])?;
    transaction
        .prepare_cached(
            "INSERT INTO accounting_entry
             (chain_id, account, block, block_hash, position, at, tx, origin, call_id, golem_id, gas, note)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            chain_id,
            account,
            block,
            entry.block.1.as_slice(),
            position,
            sql(entry.at)?,
            entry.tx.map(|tx| tx.to_vec()),
            entry.origin.as_str(),
            entry.action.as_ref().map(|action| action.call_id.to_string()),
            entry.action.as_ref().map(|action| action.golem_id.as_str().to_owned()),
            entry.gas.to_string(),
            entry.note.map(|note| note.as_str()),
        ])?;
    let id = transaction.last_insert_rowid();
    for (token, flow) in &entry.flows {
        transaction
            .prepare_cached("INSERT INTO accounting_flow (entry, token, received, given) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![id, token_text(*token), flow.received.to_string(), flow.given.to_string()])?;
    }
    Ok(())
}

/// Stores an unexplained difference. Earlier ones of the account on the same day in UTC become part of it, so that a token
/// whose balances change with every block has one entry a day.
///
/// # Errors
/// [`StoreError`] if the database fails, a row is invalid, or the sum does not fit 256 bits.
pub fn store_unexplained(transaction: &Transaction<'_>, mut entry: Entry) -> Result<(), StoreError> {
    let begins = entry.at - entry.at % DAY;
    let same_day = |known: &Entry| known.origin == Origin::Unexplained && known.at >= begins && known.at <= entry.at;
    let known: Vec<Entry> =
        entries_of(transaction, entry.chain_id, entry.account)?.into_iter().filter(same_day).collect();
    for earlier in known {
        transaction
            .prepare_cached(
                "DELETE FROM accounting_entry WHERE chain_id = ?1 AND account = ?2 AND block = ?3 AND position = ?4",
            )?
            .execute(params![
                sql(earlier.chain_id)?,
                earlier.account.to_string(),
                sql(earlier.block.0)?,
                sql(earlier.position)?
            ])?;
        for (token, flow) in earlier.flows {
            let sum = entry.flows.entry(token).or_default();
            let add = |one: U256, other: U256| one.checked_add(other).ok_or_else(|| damaged("a sum above 256 bits"));
            *sum = Flow { received: add(sum.received, flow.received)?, given: add(sum.given, flow.given)? };
        }
    }
    store_entry(transaction, &entry)
}

/// Reason why a token is not, or not wholly, in the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenFault {
    /// Its symbol or decimals cannot be read.
    Unreadable,
    /// Its balance cannot be read.
    BalanceUnreadable,
    /// Its transfers exceed 256 bits.
    Overflow,
    /// It reports another symbol or other decimals than when it joined the books.
    Changed,
    /// It joined the books after transfers of it, which can no longer be read.
    JoinedLate,
}

impl TokenFault {
    const WORDS: [(Self, &'static str); 5] = [
        (Self::Unreadable, "unreadable"),
        (Self::BalanceUnreadable, "balance_unreadable"),
        (Self::Overflow, "overflow"),
        (Self::Changed, "changed"),
        (Self::JoinedLate, "joined_late"),
    ];

    fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(fault, _)| *fault == self).map_or("", |(_, word)| word)
    }

    /// Predicate that follows the token's name in a sentence.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Unreadable => "is left out: its symbol or decimals cannot be read",
            Self::BalanceUnreadable => "is not compared: its balance cannot be read",
            Self::Overflow => "is left out: its transfers exceed 256 bits",
            Self::Changed => "now reports another symbol or other decimals; the books keep the first",
            Self::JoinedLate => "joined the books late: earlier transfers could no longer be read",
        }
    }
}

/// Stores the faults of an account's tokens on a chain at a block. Those that are not in `faults` are over, except for
/// [`TokenFault::JoinedLate`], which stays.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn store_faults(
    transaction: &Transaction<'_>,
    (chain_id, account): (u64, Address),
    block: u64,
    faults: &BTreeMap<Token, TokenFault>,
) -> Result<(), StoreError> {
    let (chain_id, account) = (sql(chain_id)?, account.to_string());
    transaction
        .prepare_cached("DELETE FROM accounting_fault WHERE chain_id = ?1 AND account = ?2 AND fault <> ?3")?
        .execute(params![chain_id, account, TokenFault::JoinedLate.as_str()])?;
    for (token, fault) in faults {
        transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO accounting_fault (chain_id, account, token, block, fault)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![chain_id, account, token_text(*token), sql(block)?, fault.as_str()])?;
    }
    Ok(())
}

/// Faults of all tokens, by chain, account and token.
///
/// # Errors
/// [`StoreError`] if the database fails or a row is invalid.
pub fn faults(connection: &Connection) -> Result<BTreeMap<(u64, Address, Token), TokenFault>, StoreError> {
    let mut asked = connection.prepare_cached("SELECT chain_id, account, token, fault FROM accounting_fault")?;
    let mut rows = asked.query([])?;
    let mut all = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let word: String = row.get(3)?;
        let fault = TokenFault::WORDS.iter().find(|(_, known)| *known == word).map(|(fault, _)| *fault);
        let account = row.get::<_, String>(1)?.parse().map_err(|_| damaged("an invalid account"))?;
        let key = (unsigned(row.get(0)?)?, account, token_of(&row.get::<_, String>(2)?)?);
        all.insert(key, fault.ok_or_else(|| damaged("an invalid fault"))?);
    }
    Ok(all)
}

/// Stores the description of a token. Decimals stay as they were stored first, and so does the symbol of an unlisted
/// token: a contract that changes them must not revalue earlier entries.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn store_token(
    transaction: &Transaction<'_>,
    chain_id: u64,
    token: Token,
    facts: &TokenFacts,
) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "INSERT INTO accounting_token (chain_id, token, symbol, decimals, is_dollar, wraps_native, listed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (chain_id, token) DO UPDATE SET is_dollar = ?5, wraps_native = ?6, listed = ?7,
                 symbol = CASE WHEN ?7 THEN ?3 ELSE symbol END",
        )?
        .execute(params![
            sql(chain_id)?,
            token_text(token),
            facts.symbol.as_str(),
            facts.decimals,
            facts.is_dollar,
            facts.wraps_native,
            facts.listed
        ])?;
    Ok(())
}

/// Stores a price as witnessed at `at`, in seconds of block time, for the action `call` or for none. The first one for
/// the same time stays.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn store_price(
    transaction: &Transaction<'_>,
    (chain_id, token): (u64, Token),
    at: u64,
    call: Option<CallId>,
    price: Usd,
) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "INSERT OR IGNORE INTO accounting_price (chain_id, token, at, call_id, usd) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            sql(chain_id)?,
            token_text(token),
            sql(at)?,
            call.map(|call| call.to_string()).unwrap_or_default(),
            price.to_string()
        ])?;
    Ok(())
}

/// Stores that an action trades a token, whether or not its price is known: the token joins the books.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn store_traded(transaction: &Transaction<'_>, chain_id: u64, token: Address) -> Result<(), StoreError> {
    transaction
        .prepare_cached("INSERT OR IGNORE INTO accounting_traded (chain_id, token) VALUES (?1, ?2)")?
        .execute(params![sql(chain_id)?, token_text(Some(token))])?;
    Ok(())
}

/// Deletes prices that were witnessed for no action, less than [`THINNED_DAYS`] days before `before`, up to one in 15
/// minutes. Those near an entry stay.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn thin_prices(transaction: &Transaction<'_>, chain_id: u64, before: u64) -> Result<usize, StoreError> {
    let removed = transaction
        .prepare_cached(
            "DELETE FROM accounting_price AS old WHERE chain_id = ?1 AND call_id = '' AND at < ?2 AND at >= ?3
             AND EXISTS (SELECT 1 FROM accounting_price AS kept WHERE kept.chain_id = ?1 AND kept.token = old.token
                         AND kept.call_id = '' AND kept.at >= old.at - old.at % ?4 AND kept.at < old.at)
             AND NOT EXISTS (SELECT 1 FROM accounting_entry AS entry WHERE entry.chain_id = ?1
                             AND entry.at BETWEEN old.at - ?4 AND old.at + ?4)",
        )?
        .execute(params![sql(chain_id)?, sql(before)?, sql(before.saturating_sub(THINNED_DAYS * DAY))?, sql(NEAR)?])?;
    Ok(removed)
}

/// State of the books in a database: equal states have equal entries, prices, tokens and faults.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn version(connection: &Connection) -> Result<[i64; 6], StoreError> {
    let state = "SELECT (SELECT COUNT(*) FROM accounting_entry), (SELECT coalesce(max(id), 0) FROM accounting_entry),
                        (SELECT COUNT(*) FROM accounting_price), (SELECT COUNT(*) FROM accounting_fault),
                        (SELECT coalesce(max(at), 0) FROM accounting_price),
                        (SELECT coalesce(sum(decimals + listed), 0) FROM accounting_token)";
    Ok(connection
        .prepare_cached(state)?
        .query_row([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?]))?)
}

/// Stores that an action was reserved at `at`, in seconds of block time.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn store_action(transaction: &Transaction<'_>, action: &Action, at: u64) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO accounting_action (call_id, golem_id, tool, at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![action.call_id.to_string(), action.golem_id.as_str(), action.tool.as_str(), sql(at)?])?;
    Ok(())
}

/// Number and hash of the last imported block of an account; `None` before the first import.
///
/// # Errors
/// [`StoreError`] if the database fails or a row is invalid.
pub fn last_block(connection: &Connection, chain_id: u64, account: Address) -> Result<Option<(u64, B256)>, StoreError> {
    Ok(blocks(connection, chain_id, account)?.into_iter().next())
}

/// Imported blocks of an account whose hash is known, the newest first.
///
/// # Errors
/// [`StoreError`] if the database fails or a row is invalid.
pub fn blocks(connection: &Connection, chain_id: u64, account: Address) -> Result<Vec<(u64, B256)>, StoreError> {
    let mut asked = connection.prepare_cached(
        "SELECT block, block_hash FROM accounting_block WHERE chain_id = ?1 AND account = ?2 ORDER BY block DESC",
    )?;
    let rows = asked.query_map(params![sql(chain_id)?, account.to_string()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
    })?;
    rows.map(|row| {
        let (number, bytes) = row?;
        Ok((unsigned(number)?, hash(&bytes)?))
    })
    .collect()
}

/// Records that everything up to a block is imported.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn store_block(
    transaction: &Transaction<'_>,
    chain_id: u64,
    account: Address,
    block: (u64, B256),
) -> Result<(), StoreError> {
    let (chain_id, account) = (sql(chain_id)?, account.to_string());
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO accounting_block (chain_id, account, block, block_hash) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![chain_id, account, sql(block.0)?, block.1.as_slice()])?;
    // The oldest stays: it is the beginning of the books.
    transaction
        .prepare_cached(
            "DELETE FROM accounting_block WHERE chain_id = ?1 AND account = ?2
             AND block > (SELECT min(block) FROM accounting_block WHERE chain_id = ?1 AND account = ?2)
             AND block < (SELECT min(block) FROM (SELECT block FROM accounting_block
                          WHERE chain_id = ?1 AND account = ?2 ORDER BY block DESC LIMIT ?3))",
        )?
        .execute(params![chain_id, account, KEPT_BLOCKS])?;
    Ok(())
}

/// Deletes everything above a block whose receipts are no longer on the chain. `None` deletes all.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn take_back(
    transaction: &Transaction<'_>,
    chain_id: u64,
    account: Address,
    above: Option<u64>,
) -> Result<usize, StoreError> {
    let (chain_id, account) = (sql(chain_id)?, account.to_string());
    let above = above.map(sql).transpose()?.unwrap_or(-1);
    let removed = transaction
        .prepare_cached("DELETE FROM accounting_entry WHERE chain_id = ?1 AND account = ?2 AND block > ?3")?
        .execute(params![chain_id, account, above])?;
    transaction
        .prepare_cached("DELETE FROM accounting_block WHERE chain_id = ?1 AND account = ?2 AND block > ?3")?
        .execute(params![chain_id, account, above])?;
    Ok(removed)
}

/// All entries of every account, in the order of time.
///
/// # Errors
/// [`StoreError`] if the database fails or a row is invalid.
pub fn entries(connection: &Connection) -> Result<Vec<Entry>, StoreError> {
    entries_where(connection, None)
}

/// Entries of one account on one chain, in the order of time.
///
/// # Errors
/// [`StoreError`] if the database fails or a row is invalid.
pub fn entries_of(connection: &Connection, chain_id: u64, account: Address) -> Result<Vec<Entry>, StoreError> {
    entries_where(connection, Some((chain_id, account)))
}

fn entries_where(connection: &Connection, only: Option<(u64, Address)>) -> Result<Vec<Entry>, StoreError> {
    let only =
        only.map(|(chain_id, account)| Ok::<_, StoreError>((sql(chain_id)?, account.to_string()))).transpose()?;
    let (chain_id, account) = only.unzip();
    let mut flows = flows(connection, chain_id, account.as_deref())?;
    let tools = tools(connection)?;
    let mut asked = connection.prepare_cached(
        "SELECT id, chain_id, account, block, block_hash, position, at, tx, origin, call_id, golem_id, gas, note
         FROM accounting_entry WHERE (?1 IS NULL OR chain_id = ?1) AND (?2 IS NULL OR account = ?2)",
    )?;
    let mut rows = asked.query(params![chain_id, account])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let call: Option<String> = row.get(9)?;
        let golem: Option<String> = row.get(10)?;
        let action = match (call, golem) {
            (Some(call), Some(golem)) => Some(Action {
                tool: tools.get(&call).cloned().unwrap_or_default(),
                call_id: call.parse().map_err(|_| damaged("an invalid call id"))?,
                golem_id: GolemId::stored(&golem).map_err(|_| damaged("an invalid Golem"))?,
            }),
            _ => None,
        };
        all.push(Entry {
            chain_id: unsigned(row.get(1)?)?,
            account: row.get::<_, String>(2)?.parse().map_err(|_| damaged("an invalid account"))?,
            block: (unsigned(row.get(3)?)?, hash(&row.get::<_, Vec<u8>>(4)?)?),
            position: unsigned(row.get(5)?)?,
            at: unsigned(row.get(6)?)?,
            tx: row.get::<_, Option<Vec<u8>>>(7)?.map(|bytes| hash(&bytes)).transpose()?,
            origin: Origin::parse(&row.get::<_, String>(8)?).ok_or_else(|| damaged("an invalid origin"))?,
            action,
            flows: flows.remove(&id).unwrap_or_default(),
            gas: amount(&row.get::<_, String>(11)?)?,
            note: row.get::<_, Option<String>>(12)?.as_deref().and_then(EntryNote::parse),
        });
    }
    all.sort_by_key(Entry::place);
    Ok(all)
}

fn flows(
    connection: &Connection,
    chain_id: Option<i64>,
    account: Option<&str>,
) -> Result<BTreeMap<i64, BTreeMap<Token, Flow>>, StoreError> {
    let mut asked = connection.prepare_cached(
        "SELECT entry, token, received, given FROM accounting_flow JOIN accounting_entry ON id = entry
         WHERE (?1 IS NULL OR chain_id = ?1) AND (?2 IS NULL OR account = ?2)",
    )?;
    let mut rows = asked.query(params![chain_id, account])?;
    let mut all: BTreeMap<i64, BTreeMap<Token, Flow>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let flow = Flow { received: amount(&row.get::<_, String>(2)?)?, given: amount(&row.get::<_, String>(3)?)? };
        all.entry(row.get(0)?).or_default().insert(token_of(&row.get::<_, String>(1)?)?, flow);
    }
    Ok(all)
}

fn tools(connection: &Connection) -> Result<BTreeMap<String, SafeText>, StoreError> {
    let mut asked = connection.prepare_cached("SELECT call_id, tool FROM accounting_action")?;
    let rows = asked.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    rows.map(|row| row.map(|(call, tool)| (call, SafeText::clean(&tool, 80))).map_err(StoreError::from)).collect()
}

/// Tokens of a chain that an action traded, or whose price was ever witnessed.
///
/// # Errors
/// [`StoreError`] if the database fails or a row is invalid.
pub fn traded_tokens(connection: &Connection, chain_id: u64) -> Result<Vec<Address>, StoreError> {
    let mut asked = connection.prepare_cached(
        "SELECT token FROM accounting_price WHERE chain_id = ?1 AND token <> 'native'
             UNION SELECT token FROM accounting_traded WHERE chain_id = ?1",
    )?;
    let rows = asked.query_map([sql(chain_id)?], |row| row.get::<_, String>(0))?;
    let mut all = Vec::new();
    for row in rows {
        all.extend(token_of(&row?)?);
    }
    Ok(all)
}

/// Tokens whose balance at the beginning of an account's books is stored.
///
/// # Errors
/// [`StoreError`] if the database fails or a row is invalid.
pub fn opened_tokens(connection: &Connection, chain_id: u64, account: Address) -> Result<BTreeSet<Token>, StoreError> {
    let mut asked = connection.prepare_cached(
        "SELECT DISTINCT token FROM accounting_flow JOIN accounting_entry ON id = entry
         WHERE chain_id = ?1 AND account = ?2 AND origin = 'opening'",
    )?;
    let rows = asked.query_map(params![sql(chain_id)?, account.to_string()], |row| row.get::<_, String>(0))?;
    rows.map(|row| token_of(&row?)).collect()
}

/// Time of the newest price of a chain that was witnessed for no action, in seconds since the Unix epoch.
///
/// # Errors
/// [`StoreError`] if the database fails or the row is invalid.
pub fn last_witnessed(connection: &Connection, chain_id: u64) -> Result<Option<u64>, StoreError> {
    let at: Option<i64> = connection
        .prepare_cached("SELECT max(at) FROM accounting_price WHERE chain_id = ?1 AND call_id = ''")?
        .query_row([sql(chain_id)?], |row| row.get(0))?;
    at.map(unsigned).transpose()
}

/// Deletes all actions, prices and entries of a paper ledger, which then starts again.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn forget_all(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    for table in [
        "accounting_flow",
        "accounting_entry",
        "accounting_block",
        "accounting_price",
        "accounting_action",
        "accounting_traded",
        "accounting_fault",
    ] {
        transaction.execute(&format!("DELETE FROM {table}"), [])?;
    }
    Ok(())
}

/// Descriptions of all tokens.
///
/// # Errors
/// [`StoreError`] if the database fails or a row is invalid.
pub fn tokens(connection: &Connection) -> Result<TokenBook, StoreError> {
    let mut asked = connection.prepare_cached(
        "SELECT chain_id, token, symbol, decimals, is_dollar, wraps_native, listed FROM accounting_token",
    )?;
    let mut rows = asked.query([])?;
    let mut all = TokenBook::new();
    while let Some(row) = rows.next()? {
        let facts = TokenFacts {
            symbol: SafeText::clean(&row.get::<_, String>(2)?, 40),
            decimals: row.get(3)?,
            is_dollar: row.get(4)?,
            wraps_native: row.get(5)?,
            listed: row.get(6)?,
        };
        all.insert((unsigned(row.get(0)?)?, token_of(&row.get::<_, String>(1)?)?), facts);
    }
    Ok(all)
}

/// All witnessed prices, by token and time.
#[derive(Debug, Clone, Default)]
pub struct PriceHistory {
    by_time: BTreeMap<(u64, Token), BTreeMap<u64, Usd>>,
    by_call: BTreeMap<(CallId, u64, Token), (u64, Usd)>,
}

impl PriceHistory {
    /// Reads the stored prices. `tokens` says which contract wraps the native token, whose price it has.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails or a row is invalid.
    pub fn read(connection: &Connection, tokens: &TokenBook) -> Result<Self, StoreError> {
        let mut asked = connection.prepare_cached("SELECT chain_id, token, at, call_id, usd FROM accounting_price")?;
        let mut rows = asked.query([])?;
        let mut all = Self::default();
        while let Some(row) = rows.next()? {
            let call: String = row.get(3)?;
            let call = match call.is_empty() {
                true => None,
                false => Some(call.parse().map_err(|_| damaged("an invalid call id"))?),
            };
            let usd = row.get::<_, String>(4)?.parse().map_err(|_| damaged("an invalid price"))?;
            let (chain_id, token) = (unsigned(row.get(0)?)?, token_of(&row.get::<_, String>(1)?)?);
            let wraps = tokens.get(&(chain_id, token)).is_some_and(|facts| facts.wraps_native);
            all.add(chain_id, if wraps { None } else { token }, unsigned(row.get(2)?)?, call, usd);
        }
        Ok(all)
    }

    /// Adds a price.
    pub fn add(&mut self, chain_id: u64, token: Token, at: u64, call: Option<CallId>, usd: Usd) {
        self.by_time.entry((chain_id, token)).or_default().entry(at).or_insert(usd);
        if let Some(call) = call {
            self.by_call.entry((call, chain_id, token)).or_insert((at, usd));
        }
    }

    /// Adds the prices of another history, where this one has none for the time.
    pub fn merge(&mut self, other: Self) {
        for (key, known) in other.by_time {
            let own = self.by_time.entry(key).or_default();
            for (at, usd) in known {
                own.entry(at).or_insert(usd);
            }
        }
        for (key, known) in other.by_call {
            self.by_call.entry(key).or_insert(known);
        }
    }

    /// Times of all prices, in seconds since the Unix epoch.
    pub(crate) fn times(&self) -> impl Iterator<Item = u64> {
        self.by_time.values().filter_map(|known| known.keys().next_back().copied())
    }

    /// Last price at or before `at` that is at most a day old.
    pub fn before(&self, chain_id: u64, token: Token, at: u64) -> Option<Usd> {
        let known = self.by_time.get(&(chain_id, token))?;
        known.range(at.saturating_sub(DAY)..=at).next_back().map(|(_, usd)| *usd)
    }
}

impl WitnessedPrices for PriceHistory {
    fn at(&self, chain_id: u64, token: Token, at: u64, call: Option<CallId>) -> Option<Usd> {
        // An order is filled long after its decision: the price then counts, and the decision's only without one.
        let decided = || {
            let (then, usd) = call.and_then(|call| self.by_call.get(&(call, chain_id, token)))?;
            (at.abs_diff(*then) <= DAY).then_some(*usd)
        };
        self.near(chain_id, token, at).or_else(decided)
    }
}

impl PriceHistory {
    /// Price that was witnessed nearest to `at`, at most 15 minutes before or after.
    fn near(&self, chain_id: u64, token: Token, at: u64) -> Option<Usd> {
        let known = self.by_time.get(&(chain_id, token))?;
        let before = known.range(at.saturating_sub(NEAR)..=at).next_back();
        let after = known.range(at..=at.saturating_add(NEAR)).next();
        match (before, after) {
            (Some((first, usd)), Some((second, later))) => {
                Some(if at.saturating_sub(*first) <= second.saturating_sub(at) { *usd } else { *later })
            }
            (Some((_, usd)), None) | (None, Some((_, usd))) => Some(*usd),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests;
