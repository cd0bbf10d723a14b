//! Recorded liquidation plans: holdings that the operator has decided to sell completely, in as many parts as the
//! limits require. A sale within a plan counts as closing a position, which every phase allows; other sales do not.

use std::collections::BTreeSet;

use alloy::primitives::Address;
use rusqlite::{Connection, Transaction, params};

use super::LedgerError;
use super::usage::{sql, token_text};
use golem_chain::token::TokenId;

/// Records the plan to sell a holding completely. A repeated call changes nothing.
///
/// # Errors
/// [`LedgerError`] if the plan could not be recorded.
pub fn plan_liquidation(
    transaction: &Transaction<'_>,
    now: u64,
    chain_id: u64,
    account: Address,
    token: TokenId,
) -> Result<(), LedgerError> {
    transaction
        .prepare_cached(
            "INSERT OR IGNORE INTO ledger_liquidation (chain_id, account, token, planned_at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![sql(chain_id)?, account.to_string(), token_text(token), sql(now)?])?;
    Ok(())
}

/// Deletes the plan for a holding, whether it was sold or not.
///
/// # Errors
/// [`LedgerError`] if the plan could not be deleted.
pub fn end_liquidation(
    transaction: &Transaction<'_>,
    chain_id: u64,
    account: Address,
    token: TokenId,
) -> Result<(), LedgerError> {
    transaction
        .prepare_cached("DELETE FROM ledger_liquidation WHERE chain_id = ?1 AND account = ?2 AND token = ?3")?
        .execute(params![sql(chain_id)?, account.to_string(), token_text(token)])?;
    Ok(())
}

/// Returns the tokens that an account plans to sell completely on a chain. An unreadable row is skipped, which permits
/// less.
pub(super) fn liquidating(
    connection: &Connection,
    chain_id: u64,
    account: Address,
) -> Result<BTreeSet<TokenId>, LedgerError> {
    let mut statement =
        connection.prepare_cached("SELECT token FROM ledger_liquidation WHERE chain_id = ?1 AND account = ?2")?;
    let rows = statement.query_map(params![sql(chain_id)?, account.to_string()], |row| row.get::<_, String>(0))?;
    let mut planned = BTreeSet::new();
    for text in rows {
        match text?.as_str() {
            "native" => {
                planned.insert(TokenId::Native);
            }
            address => match address.parse() {
                Ok(address) => {
                    planned.insert(TokenId::Erc20(address));
                }
                Err(_) => tracing::warn!("the ledger plans to sell an invalid token"),
            },
        }
    }
    Ok(planned)
}
