//! Paper ledger: the effects of paper-mode actions, in a database of its own beside the real ledger. It has the same
//! tables, so that paper limits and rates follow the same rules and never mix with real ones. The tables of this module
//! exist only there. A paper balance is the chain's balance plus the paper moves.

use std::collections::BTreeMap;

use alloy::primitives::{Address, U256};
use rusqlite::{Connection, Transaction, params};
use serde::Serialize;

use super::ledger;
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::text::SafeText;
use bardo_store::{Migrations, Store, StoreError};
use golem_chain::fork::BalanceDelta;
use golem_chain::token::{TokenId, TokenInfo};

/// Tables of paper actions and of the balances that they moved. Amounts are raw units in decimal text, since they have
/// up to 256 bits.
pub const MIGRATIONS: Migrations = Migrations {
    room: "paper",
    steps: &[
        "
    CREATE TABLE paper_action (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        permit_id TEXT NOT NULL UNIQUE,
        call_id TEXT NOT NULL,
        golem_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        outcome TEXT NOT NULL,
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        block INTEGER NOT NULL,
        spent_usd TEXT NOT NULL
    ) STRICT;

    CREATE TABLE paper_move (
        action INTEGER NOT NULL REFERENCES paper_action (seq),
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        token TEXT NOT NULL,
        symbol TEXT NOT NULL,
        decimals INTEGER NOT NULL,
        came TEXT NOT NULL,
        went TEXT NOT NULL,
        PRIMARY KEY (action, chain_id, account, token)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX paper_move_account ON paper_move (chain_id, account);
",
        GAS,
    ],
};

/// Adds the gas of each action, in wei: it is part of the native token's outgoing amount.
const GAS: &str = "ALTER TABLE paper_action ADD COLUMN gas TEXT NOT NULL DEFAULT '0'";

/// Paper ledger of a network. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PaperLedger {
    store: Store,
    real: Store,
}

/// Paper action as stored.
#[derive(Debug, Clone)]
pub struct PaperAction {
    /// Time of the action, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Permit that the action used.
    pub permit_id: PermitId,
    /// Call that the action belongs to.
    pub call_id: CallId,
    /// Golem that acted.
    pub golem_id: GolemId,
    /// Name of the tool.
    pub tool: &'static str,
    /// Expected outcome, as a sentence.
    pub outcome: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account that acted.
    pub account: Address,
    /// Number of the block that the action was simulated on.
    pub block: u64,
    /// Dollars that count as spent, as decimal text.
    pub spent_usd: String,
    /// Gas in wei, which is part of the native token's outgoing amount.
    pub gas: U256,
    /// Balances that the action moved.
    pub moves: Vec<PaperMove>,
}

/// Balance change of the account by a paper action.
#[derive(Debug, Clone)]
pub struct PaperMove {
    /// EIP-155 id of the chain; the destination's for the output of a bridge order.
    pub chain_id: u64,
    /// Token of the balance.
    pub token: TokenInfo,
    /// Incoming amount, in raw units.
    pub added: U256,
    /// Outgoing amount, in raw units.
    pub removed: U256,
}

/// Total of all paper moves of one token of an account, for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PaperPosition {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account that holds the position.
    pub account: String,
    /// Address of the token, or `native`.
    pub token: String,
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Decimals of the token.
    pub decimals: u8,
    /// Total incoming amount, in raw units.
    pub came_raw: String,
    /// Total outgoing amount, in raw units.
    pub went_raw: String,
}

impl PaperLedger {
    /// Creates the paper ledger in `store`, beside the real ledger `real`.
    pub fn new(store: Store, real: Store) -> Self {
        Self { store, real }
    }

    /// Returns the paper ledger's database.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the real ledger's database, which knows earlier recipients and the amounts that signed orders may take.
    pub(super) fn real(&self) -> &Store {
        &self.real
    }

    /// Returns the number of actions and the highest sequence number. The pair changes with every paper action, and
    /// when the ledger is reset.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn version(&self) -> Result<(i64, i64), StoreError> {
        let version = "SELECT count(*), coalesce(max(seq), 0) FROM paper_action";
        self.store.read(|connection| {
            Ok(connection.prepare_cached(version)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?)
        })
    }

    /// Returns the shifts of an account's balances on a chain by all paper actions.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn shifts(&self, chain_id: u64, account: Address) -> Result<Vec<BalanceDelta>, StoreError> {
        self.store.read(|connection| shifts(connection, chain_id, account))
    }
}

fn text(token: TokenId) -> String {
    match token {
        TokenId::Native => "native".to_owned(),
        TokenId::Erc20(address) => address.to_string(),
    }
}

fn damaged(what: &str) -> StoreError {
    StoreError::Corrupt(format!("{what} in the paper ledger"))
}

fn stored(chain_id: u64) -> Result<i64, StoreError> {
    i64::try_from(chain_id).map_err(|_| damaged("a number that is too large"))
}

fn shifts(connection: &Connection, chain_id: u64, account: Address) -> Result<Vec<BalanceDelta>, StoreError> {
    let mut asked =
        connection.prepare_cached("SELECT token, came, went FROM paper_move WHERE chain_id = ?1 AND account = ?2")?;
    let rows = asked.query_map(params![stored(chain_id)?, account.to_string()], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    })?;
    let mut moved: BTreeMap<Option<Address>, (U256, U256)> = BTreeMap::new();
    for row in rows {
        let (token, added, removed) = row?;
        let token = match token.as_str() {
            "native" => None,
            address => Some(address.parse().map_err(|_| damaged("an invalid token"))?),
        };
        let amount = |text: &str| text.parse::<U256>().map_err(|_| damaged("an invalid amount"));
        let (all_came, all_went) = moved.entry(token).or_default();
        *all_came = all_came.saturating_add(amount(&added)?);
        *all_went = all_went.saturating_add(amount(&removed)?);
    }
    Ok(moved
        .into_iter()
        .map(|(token, (added, removed))| BalanceDelta { token, holder: account, added, removed })
        .collect())
}

/// Stores an action, in the database transaction that counts it against the limits.
///
/// # Errors
/// [`StoreError`] if the database fails, or if the permit was used before.
pub(super) fn note(transaction: &Transaction<'_>, action: &PaperAction) -> Result<(), StoreError> {
    let (at, block) = (stored(action.at)?, stored(action.block)?);
    let account = action.account.to_string();
    transaction
        .prepare_cached(
            "INSERT INTO paper_action
             (at, permit_id, call_id, golem_id, tool, outcome, chain_id, account, block, spent_usd, gas)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            at,
            action.permit_id.to_string(),
            action.call_id.to_string(),
            action.golem_id.as_str(),
            action.tool,
            action.outcome.as_str(),
            stored(action.chain_id)?,
            account,
            block,
            action.spent_usd,
            action.gas.to_string(),
        ])?;
    let number = transaction.last_insert_rowid();
    for moved in &action.moves {
        transaction
            .prepare_cached(
                "INSERT INTO paper_move (action, chain_id, account, token, symbol, decimals, came, went)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                number,
                stored(moved.chain_id)?,
                account,
                text(moved.token.id),
                moved.token.symbol.as_str(),
                moved.token.decimals,
                moved.added.to_string(),
                moved.removed.to_string(),
            ])?;
    }
    Ok(())
}

/// Total of the moves of one token.
struct MoveTotal {
    symbol: String,
    decimals: u8,
    added: U256,
    removed: U256,
}

/// Returns the totals of all paper moves, by account and token.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn positions(connection: &Connection) -> Result<Vec<PaperPosition>, StoreError> {
    let mut asked = connection.prepare_cached(
        "SELECT chain_id, account, token, symbol, decimals, came, went FROM paper_move ORDER BY action",
    )?;
    let rows = asked.query_map([], |row| {
        Ok((
            (row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?),
            (row.get::<_, String>(3)?, row.get::<_, u8>(4)?),
            (row.get::<_, String>(5)?, row.get::<_, String>(6)?),
        ))
    })?;
    let mut all: BTreeMap<(i64, String, String), MoveTotal> = BTreeMap::new();
    for row in rows {
        let (key, (symbol, decimals), (added, removed)) = row?;
        let amount = |text: &str| text.parse::<U256>().map_err(|_| damaged("an invalid amount"));
        let total = all.entry(key).or_insert(MoveTotal { symbol, decimals, added: U256::ZERO, removed: U256::ZERO });
        total.added = total.added.saturating_add(amount(&added)?);
        total.removed = total.removed.saturating_add(amount(&removed)?);
    }
    let position = |((chain_id, account, token), total): ((i64, String, String), MoveTotal)| {
        Ok(PaperPosition {
            chain_id: u64::try_from(chain_id).map_err(|_| damaged("an invalid chain"))?,
            account,
            token,
            symbol: SafeText::clean(&total.symbol, 40),
            decimals: total.decimals,
            came_raw: total.added.to_string(),
            went_raw: total.removed.to_string(),
        })
    };
    all.into_iter().map(position).collect()
}

/// Paper action as the books need it.
#[derive(Debug, Clone)]
pub struct RecordedAction {
    /// Time of the action, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Call that the action belongs to.
    pub call_id: CallId,
    /// Golem that acted.
    pub golem_id: GolemId,
    /// Name of the tool.
    pub tool: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account that acted.
    pub account: Address,
    /// Number of the block that the action was simulated on.
    pub block: u64,
    /// Gas in wei, which is part of the native token's outgoing amount.
    pub gas: U256,
    /// Balances that the action moved.
    pub moves: Vec<PaperMove>,
}

/// Returns all paper actions, the oldest first.
///
/// # Errors
/// [`StoreError`] if the database fails or a row is invalid.
pub fn actions(connection: &Connection) -> Result<Vec<RecordedAction>, StoreError> {
    let mut moves: BTreeMap<i64, Vec<PaperMove>> = BTreeMap::new();
    let mut asked =
        connection.prepare_cached("SELECT action, chain_id, token, symbol, decimals, came, went FROM paper_move")?;
    let mut rows = asked.query([])?;
    let amount = |text: &str| text.parse::<U256>().map_err(|_| damaged("an invalid amount"));
    let number = |value: i64| u64::try_from(value).map_err(|_| damaged("a negative number"));
    while let Some(row) = rows.next()? {
        let id = match row.get::<_, String>(2)?.as_str() {
            "native" => TokenId::Native,
            address => TokenId::Erc20(address.parse().map_err(|_| damaged("an invalid token"))?),
        };
        let symbol = SafeText::clean(&row.get::<_, String>(3)?, 40);
        let token = TokenInfo { id, symbol, name: SafeText::default(), decimals: row.get(4)?, listed: false };
        let (added, removed) = (amount(&row.get::<_, String>(5)?)?, amount(&row.get::<_, String>(6)?)?);
        moves.entry(row.get(0)?).or_default().push(PaperMove { chain_id: number(row.get(1)?)?, token, added, removed });
    }
    let mut asked = connection.prepare_cached(
        "SELECT seq, at, call_id, golem_id, tool, chain_id, account, block, gas FROM paper_action ORDER BY seq",
    )?;
    let mut rows = asked.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(RecordedAction {
            at: number(row.get(1)?)?,
            call_id: row.get::<_, String>(2)?.parse().map_err(|_| damaged("an invalid call id"))?,
            golem_id: GolemId::stored(&row.get::<_, String>(3)?).map_err(|_| damaged("an invalid Golem"))?,
            tool: SafeText::clean(&row.get::<_, String>(4)?, 80),
            chain_id: number(row.get(5)?)?,
            account: row.get::<_, String>(6)?.parse().map_err(|_| damaged("an invalid account"))?,
            block: number(row.get(7)?)?,
            gas: amount(&row.get::<_, String>(8)?)?,
            moves: moves.remove(&row.get(0)?).unwrap_or_default(),
        });
    }
    Ok(all)
}

/// Deletes all paper actions and their usage of limits. Returns the number of actions. On a real ledger it fails
/// without changes, because only a paper ledger has these tables.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn reset(transaction: &Transaction<'_>) -> Result<usize, StoreError> {
    transaction.execute("DELETE FROM paper_move", [])?;
    let actions = transaction.execute("DELETE FROM paper_action", [])?;
    ledger::forget_all(transaction)?;
    bardo_accounting::tables::forget_all(transaction)?;
    Ok(actions)
}
