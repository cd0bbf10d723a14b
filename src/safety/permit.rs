//! What stands between a preview and its commit: a permit that serves once, for a short time, for
//! exactly what was previewed.

use alloy::primitives::{B256, U256};

use super::framed::{FeeBound, Framed};
use super::proposal::{AllowanceBound, Flow, Inflow};
use crate::base::id::PermitId;
use crate::base::text::SafeText;

/// How long a permit serves unless configured otherwise, in milliseconds.
pub const DEFAULT_TTL_MILLIS: u64 = 60_000;

/// Leave to do what was previewed: once, until it expires, within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionPermit {
    /// Its name.
    pub permit_id: PermitId,
    /// Binds the framed bytes, the policy's version and the bounds, see [`Framed::binding_hash`].
    pub simulation_hash: B256,
    /// What will be true afterwards, in one sentence.
    pub expected_outcome: SafeText,
    /// What may happen at most, and must at least.
    pub bounds: Bounds,
    /// Until when it serves, in milliseconds since the Unix epoch.
    pub expires_at: u64,
}

/// What an action may do at most, and must bring at least. Exact changes may differ while they stay
/// within: a price that moves does not break a permit.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds {
    /// The most that may leave the account, gas apart.
    pub outflows: Vec<Flow>,
    /// The least that must come in.
    pub inflows: Vec<Inflow>,
    /// The allowances that may stand afterwards.
    pub allowances: Vec<AllowanceBound>,
    /// The most that a unit of gas may cost.
    pub fees: FeeBound,
    /// The most that gas may cost in all, in wei.
    pub worst_gas: U256,
}

impl Bounds {
    /// The bounds a frame declares.
    pub fn of(framed: &Framed) -> Self {
        let proposal = framed.proposal();
        Self {
            outflows: proposal.outflows.clone(),
            inflows: proposal.inflows.clone(),
            allowances: proposal.allowances.clone(),
            fees: framed.fees(),
            worst_gas: framed.worst_gas(),
        }
    }
}
