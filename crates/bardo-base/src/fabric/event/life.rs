//! Payloads of the Golem's life: vitals, phase, sprite and thoughts.

use alloy_primitives::U256;
use serde::{Deserialize, Serialize};

use crate::model::Phase;
use crate::text::SafeText;
use crate::units::Usd;

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
