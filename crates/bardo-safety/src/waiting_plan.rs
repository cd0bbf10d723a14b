//! Plans behind stored transactions, for display. No decision reads them: a row of the ledger alone proves nothing.

use alloy::primitives::B256;
use rusqlite::{Connection, OptionalExtension as _};

use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_store::StoreError;
use golem_chain::sender::{self, RecordError};

/// Maximum length of a name, in characters.
const NAME: usize = 60;

/// Plan that a stored transaction belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanOfTx {
    /// Permit of the plan.
    pub permit_id: PermitId,
    /// Call of the plan.
    pub call_id: Option<CallId>,
    /// Golem, or the operator, that acts.
    pub golem_id: SafeText,
    /// Tool of the call; `None` if the books do not list it.
    pub tool: Option<SafeText>,
    /// Number of the transaction in the plan, from 1.
    pub leg: u32,
    /// Number of transactions in the plan.
    pub of: u32,
    /// Dollars that stay reserved until the plan ends; `None` if the figure cannot be read.
    pub reserved: Option<Usd>,
}

/// Origin of a stored transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxOrigin {
    /// Golem, or the operator, whose call sent it.
    pub golem_id: GolemId,
    /// Tool of the call; `None` if the books do not list it.
    pub tool: Option<SafeText>,
}

/// Returns the origin of a stored transaction; `None` if the ledger lists none. A plan names its newest transaction, so
/// a replaced one is found by those with the same nonce and purpose.
///
/// # Errors
/// [`RecordError`] if the ledger cannot be read or a row is damaged.
pub fn origin_of(connection: &Connection, hash: B256) -> Result<Option<TxOrigin>, RecordError> {
    for one in sender::kin(connection, hash)? {
        if let Some(plan) = plan_of(connection, one)? {
            let garbled = |_| StoreError::Corrupt("a stored plan has no readable Golem".to_owned());
            let golem_id = GolemId::stored(plan.golem_id.as_str()).map_err(garbled)?;
            return Ok(Some(TxOrigin { golem_id, tool: plan.tool }));
        }
    }
    Ok(None)
}

/// Returns the plan that a stored transaction belongs to; `None` if the ledger lists none.
///
/// # Errors
/// [`StoreError`] if the ledger cannot be read or the row is damaged.
pub fn plan_of(connection: &Connection, hash: B256) -> Result<Option<PlanOfTx>, StoreError> {
    type Row = (String, String, Option<String>, Option<String>, u32, u32, String);
    let found: Option<Row> = connection
        .prepare_cached(
            "SELECT permit_id, used.call_id, used.golem_id, tool, leg, of, spent_usd
             FROM safety_leg JOIN safety_permit AS used USING (permit_id)
                  LEFT JOIN accounting_action AS action ON action.call_id = used.call_id
             WHERE hash = ?1",
        )?
        .query_row([hash.as_slice()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
        })
        .optional()?;
    let Some((permit_id, call_id, golem_id, tool, leg, of, spent)) = found else { return Ok(None) };
    let clean = |text: String| SafeText::clean(&text, NAME);
    Ok(Some(PlanOfTx {
        permit_id: permit_id.parse().map_err(|_| StoreError::Corrupt("a used permit has no readable id".to_owned()))?,
        call_id: call_id.parse().ok(),
        golem_id: clean(golem_id.unwrap_or_else(|| "operator".to_owned())),
        tool: tool.map(clean),
        leg: leg.saturating_add(1),
        of,
        reserved: spent.parse().ok(),
    }))
}
