//! Payloads of the Golem's life: vitals, phase, body, words.

use alloy_primitives::U256;
use serde::{Deserialize, Serialize};

use crate::model::Phase;
use crate::text::SafeText;
use crate::units::Usd;

/// What the Golem's body shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpriteState {
    /// Nothing to do.
    Idle,
    /// Reading and weighing.
    Thinking,
    /// Acting.
    Executing,
    /// Waiting for the operator.
    AwaitingApproval,
    /// It went well, for a moment.
    Success,
    /// It did not, for a moment.
    Failure,
    /// Stopped.
    Halted,
    /// Its life is over.
    Dead,
}

impl SpriteState {
    /// All of them.
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

/// Payload of `vitals`. What cannot be told is `null`, never zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vitals {
    /// The phase they amount to.
    pub phase: Phase,
    /// What the phase is due to, in a sentence.
    pub why: SafeText,
    /// What everything it holds is worth.
    pub equity: Option<Usd>,
    /// The most that ever was.
    pub high_water: Option<Usd>,
    /// How far equity is below that, in basis points.
    pub drawdown_bps: Option<u64>,
    /// At which drawdown its stop-loss acts, in basis points.
    pub stop_loss_bps: u64,
    /// How long its gas lasts at its present use, in seconds; `null` where it uses none.
    pub gas_runway_seconds: Option<u64>,
    /// Its coin for gas, in wei.
    pub gas_wei: Option<U256>,
    /// Failures in a row.
    pub failures: u32,
    /// How many it may have.
    pub failures_limit: u32,
    /// Seconds it has lived.
    pub age_seconds: u64,
    /// Seconds it is given.
    pub lifespan_seconds: Option<u64>,
}

/// Payload of `phase:changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseChanged {
    /// Before.
    pub from: Phase,
    /// Now.
    pub to: Phase,
    /// Why.
    pub why: SafeText,
}

/// Payload of `sprite:changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpriteChanged {
    /// Before.
    pub from: SpriteState,
    /// Now.
    pub to: SpriteState,
}

/// Payload of `golem:now`: what it does and will do, in a sentence each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GolemNow {
    /// What it does.
    pub now: SafeText,
    /// What it will do next; empty where it does not know.
    pub next: SafeText,
    /// Which step of how many, where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<(u32, u32)>,
    /// The roles the call runs through, the first asks: `trade-executor`, `safety-guardian`.
    pub delegation: Vec<SafeText>,
}

/// Payload of `golem:thought`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GolemThought {
    /// Counts its thoughts; a thought that is streamed comes in pieces of one number.
    pub thought: u64,
    /// The words, or the next piece of them.
    pub text: SafeText,
    /// Whether more of the same thought follows.
    pub more: bool,
}

/// Payload of `golem:memory`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryHits {
    /// How many past trades were alike.
    pub similar: u32,
    /// What they changed and why, a line each: only what is soft.
    pub changes: Vec<SafeText>,
}

/// Payload of `golem:directive`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveChanged {
    /// Names the change.
    pub delta: u64,
    /// What was changed, in a line.
    pub summary: SafeText,
    /// Whether it was taken back.
    pub undone: bool,
}

/// Payload of `show:caption`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caption {
    /// The show.
    pub show: SafeText,
    /// The line.
    pub text: SafeText,
    /// Seconds into the show.
    pub at_seconds: u64,
}
