//! Payloads of the Golem's life: vitals, phase, sprite and thoughts.

use std::fmt;

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize};

use crate::model::Phase;
use crate::text::SafeText;
use crate::units::{TokenAmount, Usd};

/// Activity that the Golem's sprite shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpriteState {
    /// Nothing to do.
    Idle,
    /// Reading and planning.
    Thinking,
    /// Executing an action.
    Executing,
    /// Waiting for the operator's approval.
    AwaitingApproval,
    /// Shown briefly after a success.
    Success,
    /// Shown briefly after a failure.
    Failure,
    /// Stopped by a stop level.
    Halted,
    /// Dead: the Golem's life is over.
    Dead,
}

impl SpriteState {
    /// All states, in declaration order.
    pub const ALL: [Self; 8] = [
        Self::Idle,
        Self::Thinking,
        Self::Executing,
        Self::AwaitingApproval,
        Self::Success,
        Self::Failure,
        Self::Halted,
        Self::Dead,
    ];
}

/// Payload of `vitals`. Unknown figures are `null`, never zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vitals {
    /// Phase that follows from these figures.
    pub phase: Phase,
    /// Reason for the phase, in one sentence.
    pub why: SafeText,
    /// Value of all holdings, in dollars.
    pub equity: Option<Usd>,
    /// High-water mark of the equity, in dollars.
    pub high_water: Option<Usd>,
    /// Drawdown from the high-water mark, in basis points.
    pub drawdown_bps: Option<u64>,
    /// Drawdown at which the stop-loss acts, in basis points.
    pub stop_loss_bps: u64,
    /// Seconds that its gas lasts at the present rate of use; `null` if it uses none.
    pub gas_runway_seconds: Option<u64>,
    /// Native token for gas, in wei.
    pub gas_wei: Option<U256>,
    /// Number of consecutive failures.
    pub failures: u32,
    /// Number of consecutive failures at which the circuit breaker acts.
    pub failures_limit: u32,
    /// Age of the Golem in seconds.
    pub age_seconds: u64,
    /// Lifespan in seconds; `None` for no limit.
    pub lifespan_seconds: Option<u64>,
    /// Supplies and debts in lending markets, which are in the equity; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lending: Option<LendingVitals>,
}

/// Supplies and debts of the account in all lending markets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LendingVitals {
    /// Value of the supplies, in dollars; `null` without a live feed of each token.
    pub supplied: Option<Usd>,
    /// Value of the debts, in dollars; `null` without a live feed of each token.
    pub owed: Option<Usd>,
    /// Lowest health factor of a market in hundredths, rounded down; `null` without debt, and while it is unknown. Below
    /// 100 the debt can be liquidated.
    pub health: Option<u64>,
    /// Health factor in hundredths that the policy wants to keep.
    pub least: u64,
}

/// Payload of `lending:liquidated`: a liquidator repaid a part of the account's debt and took collateral for it. By the
/// pool's event; no action of the Golem, and no trade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LendingLiquidated {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Number of the block.
    pub block: u64,
    /// Hash of the liquidator's transaction.
    pub tx_hash: B256,
    /// Position of the event among those of its block.
    pub log_index: u64,
    /// Symbol of the collateral that was taken, as listed; otherwise its address.
    pub collateral: SafeText,
    /// Amount of it that was taken, in whole tokens.
    pub taken: TokenAmount,
    /// Value of it in dollars at the price source's present price; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_usd: Option<Usd>,
    /// Symbol of the debt's token, as listed; otherwise its address.
    pub debt: SafeText,
    /// Amount of debt that was repaid for it, in whole tokens.
    pub covered: TokenAmount,
    /// Value of it in dollars at the price source's present price; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered_usd: Option<Usd>,
    /// Account of the liquidator.
    pub liquidator: Address,
}

/// As in `Liquidated: 0.1 WETH taken for 300 USDC of debt`.
impl fmt::Display for LendingLiquidated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { collateral, taken, debt, covered, .. } = self;
        write!(f, "Liquidated: {taken} {collateral} taken for {covered} {debt} of debt")
    }
}

/// Payload of `phase:changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseChanged {
    /// Phase before the change.
    pub from: Phase,
    /// Phase after the change.
    pub to: Phase,
    /// Reason for the change.
    pub why: SafeText,
}

/// Payload of `sprite:changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpriteChanged {
    /// Sprite state before the change.
    pub from: SpriteState,
    /// Sprite state after the change.
    pub to: SpriteState,
}

/// Payload of `golem:now`: present and next activity, one sentence each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GolemState {
    /// Description of the present activity.
    pub now: SafeText,
    /// Description of the next activity; empty if unknown.
    pub next: SafeText,
    /// Present step and number of steps, if the activity has steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<(u32, u32)>,
    /// Roles that the call passes through, the requesting one first: `trade-executor`, `safety-guardian`.
    pub delegation: Vec<SafeText>,
}

/// Payload of `golem:thought`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GolemThought {
    /// Number of the thought; all pieces of a streamed thought share it.
    pub thought: u64,
    /// Text of the thought, or its next piece.
    pub text: SafeText,
    /// True if more pieces of this thought follow.
    pub more: bool,
    /// True for a report of the program about the Golem's account, which is not in the Golem's words. Absent in recordings
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub report: bool,
}

/// Payload of `golem:memory`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryHits {
    /// Number of similar past trades.
    pub similar: u32,
    /// Changes that the memories led to, with reasons, one line each: tuning values only.
    pub changes: Vec<SafeText>,
}

/// Payload of `golem:directive`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveChanged {
    /// Id of the change.
    pub delta: u64,
    /// Summary of the change, in one line.
    pub summary: SafeText,
    /// True if the change was undone.
    pub undone: bool,
}

/// Payload of `show:caption`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caption {
    /// Name of the scenario.
    pub show: SafeText,
    /// Text of the caption.
    pub text: SafeText,
    /// Seconds since the start of the scenario.
    pub at_seconds: u64,
}
