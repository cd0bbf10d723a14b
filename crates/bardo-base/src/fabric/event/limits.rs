//! Payloads that let a recording show what no other event says: the chains, the policy and what is used of its limits.

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use crate::text::SafeText;
use crate::units::{Rounding, Usd};

/// Payload of `session:opened`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOpened {
    /// Name of the network.
    pub network: SafeText,
    /// Account whose money moves; `None` where there is none.
    pub account: Option<Address>,
    /// Its chains, in the order of their ids.
    pub chains: Vec<ChainOpened>,
}

/// One chain of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainOpened {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Display name of the chain.
    pub name: SafeText,
    /// Symbol of the native token, which pays for gas.
    pub native_symbol: SafeText,
}

/// Payload of `limits:changed`: the policy in force and what is used of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitsChanged {
    /// The policy in force.
    pub policy: PolicyState,
    /// Usage of the policy's limits.
    pub limits: LimitUsage,
}

/// The policy in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyState {
    /// Name of the policy.
    pub name: SafeText,
    /// Counts its changes in this run, from 1.
    pub version: u64,
    /// Names exactly these rules.
    pub hash: B256,
}

/// Usage of the policy's limits, in dollars and counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitUsage {
    /// In the last 24 hours, with all that is reserved.
    pub day: SpendState,
    /// In the last 30 days, with all that is reserved.
    pub month: SpendState,
    /// The largest single action there may be; `None`: no limit.
    pub one: Option<Usd>,
    /// Dollars reserved for actions that are not settled yet.
    pub reserved: Usd,
    /// Above this the operator is asked.
    pub asks_above: Option<Usd>,
    /// Above this a second opinion must agree.
    pub hot_lane: Option<Usd>,
    /// Tool calls in the last minute, and how many there may be.
    pub calls: (u32, u32),
    /// Trades in the last hour, and how many there may be.
    pub trades: (u32, u32),
    /// The failure breaker.
    pub breaker: BreakerState,
    /// Failures that open it.
    pub failures_limit: u32,
    /// Fall of a chain's holdings below their highest worth at which only exits pass there, in basis points.
    pub stop_loss_bps: u32,
    /// Stop-loss state of each chain, in the order of the session's chains; empty in recordings before version 4.
    #[serde(default)]
    pub stop_losses: Vec<StopLossState>,
}

/// Stop-loss state of the holdings on one chain. The stop-loss is checked for each chain separately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopLossState {
    /// The chain's name.
    pub chain: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Value of the holdings on the chain and of open bridge orders from it, in dollars. `None` while the holdings have
    /// not been read, or if one has no price.
    pub worth: Option<Usd>,
    /// The most it was worth there, as the ledger keeps it; zero before the first action.
    pub high_water: Usd,
    /// Worth below which only exits pass there; zero before the first action.
    pub stops_at: Usd,
}

impl StopLossState {
    /// Drawdown of the holdings from their high-water mark, in basis points, rounded up. It is 0 before the first
    /// action, which sets the first mark. `None` while the value is unknown.
    pub fn fall_bps(&self) -> Option<u64> {
        let (worth, highest) = (self.worth?.scaled(6, Rounding::Down)?, self.high_water.scaled(6, Rounding::Down)?);
        let fallen = highest.saturating_sub(worth).checked_mul(10_000)?;
        u64::try_from(fallen.div_ceil(highest.max(1))).ok()
    }
}

/// A figure and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpendState {
    /// Dollars spent in the period, including all that is reserved.
    pub used: Usd,
    /// The most; `None`: no limit.
    pub limit: Option<Usd>,
}

/// State of the failure breaker, which counts consecutive failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum BreakerState {
    /// Trading goes on.
    Closed {
        /// Failures since the last success.
        failures: u32,
    },
    /// No new trades.
    Open {
        /// Until then, in milliseconds since the Unix epoch.
        until: u64,
        /// Failures that opened it.
        failures: u32,
    },
    /// One trial may be made, or is being made.
    OneTrial,
}
