//! Recorded liquidation plans: holdings that the operator has decided to sell whole, in as many parts as the limits need.
//! A part of such a plan counts as closing a position, which every phase allows; a sale that is in no plan does not.

use std::collections::BTreeSet;

use alloy::primitives::Address;
use rusqlite::{Connection, Transaction, params};

use super::LedgerError;
use super::usage::{sql, token_text};
use golem_chain::token::TokenId;

/// Records that a holding is to be sold whole. Planning it again changes nothing.
///
/// # Errors
/// [`LedgerError`]: it is not recorded.
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

/// Ends the plan for a holding, sold or not.
///
/// # Errors
/// [`LedgerError`]: it stands on.
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

/// What an account is to sell whole on a chain. A row that cannot be read plans nothing: without a plan less passes.
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
                Err(_) => tracing::warn!("the ledger plans to sell something that is no token"),
            },
        }
    }
    Ok(planned)
}
