//! What can be said: one event type, plain payloads, the kinds as the documents name them.
//!
//! Payloads of orders and bridges stand in `trade`, those of the Golem's life in `life`, those of the session and its
//! limits in `limits`.

mod life;
mod limits;
mod trade;

use std::borrow::Cow;

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::asked::AskReason;
use super::facts::ToolFacts;
use super::finding::{SafetyCheck, checks_of_earlier_versions};
use super::redact::Redacted;
use crate::error::{ErrorCode, ToolError};
use crate::id::{CallId, GolemId, PermitId};
use crate::model::{CardKind, StopLevel};
use crate::text::SafeText;
use crate::units::Usd;

pub use life::{
    Caption, DirectiveChanged, GolemNow, GolemThought, MemoryHits, PhaseChanged, SpriteChanged, SpriteState, Vitals,
};
pub use limits::{BreakerNow, ChainOpened, Limits, LimitsChanged, PolicyNow, SessionOpened, SpendNow, StopLossNow};
pub use trade::{
    Asset, Bid, DecayCurve, DecayUnit, Exclusivity, IntentStatus, IntentUpdate, OrderFill, OrderStatus, OrderUpdate,
    TxPlace,
};

/// Characters kept of a step's name.
const MAX_STEP: usize = 80;
/// Characters kept of an error's sentence.
const MAX_MESSAGE: usize = 400;

/// One thing that happened. In JSON the payload's fields stand beside `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Place in the order of the run, from 1 without holes.
    pub seq: u64,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Who acted.
    pub golem_id: GolemId,
    /// The call it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum EventKind {
    /// A call begins.
    #[serde(rename = "tool:start")]
    ToolStart(ToolStart),
    /// A call reached its next step.
    #[serde(rename = "tool:update")]
    ToolUpdate(ToolUpdate),
    /// A call has taken longer than its budget; it goes on.
    #[serde(rename = "tool:overrun")]
    ToolOverrun(ToolOverrun),
    /// A call failed; `tool:end` follows.
    #[serde(rename = "tool:error")]
    ToolError(ToolFailed),
    /// A call is over.
    #[serde(rename = "tool:end")]
    ToolEnd(ToolEnd),
    /// A check of the safety pipeline decided.
    #[serde(rename = "safety:check")]
    SafetyCheck(SafetyCheck),
    /// A previewed action may be done once, for a while.
    #[serde(rename = "permit:issued")]
    PermitIssued(PermitIssued),
    /// A permit was used: what it covers is being signed.
    #[serde(rename = "permit:consumed")]
    PermitConsumed(PermitUsed),
    /// A permit was refused.
    #[serde(rename = "permit:refused")]
    PermitRefused(PermitRefused),
    /// The operator is asked.
    #[serde(rename = "approval:requested")]
    ApprovalRequested(ApprovalRequested),
    /// The operator has answered, or the question is over for another reason.
    #[serde(rename = "approval:resolved")]
    ApprovalResolved(ApprovalResolved),
    /// A transaction of a call is on its way, or has arrived.
    #[serde(rename = "tx:update")]
    TxUpdate(TxUpdate),
    /// What a write claimed was compared with what the chain says.
    #[serde(rename = "tool:verified")]
    ToolVerified(ToolVerified),
    /// An auction order has a new standing, or its figures have moved.
    #[serde(rename = "order:update")]
    OrderUpdate(Box<OrderUpdate>),
    /// A bridge order has a new standing.
    #[serde(rename = "intent:update")]
    IntentUpdate(Box<IntentUpdate>),
    /// A chain has a new block.
    #[serde(rename = "chain:block")]
    ChainBlock(ChainBlock),
    /// A chain became better or worse to reach.
    #[serde(rename = "chain:health")]
    ChainHealth(ChainHealth),
    /// The stop ladder went up.
    #[serde(rename = "halt:raised")]
    HaltRaised(HaltChanged),
    /// The stop ladder went down, or the stop was lifted.
    #[serde(rename = "halt:lowered")]
    HaltLowered(HaltChanged),
    /// Other rules hold.
    #[serde(rename = "policy:changed")]
    PolicyChanged(PolicyChanged),
    /// A session begins.
    #[serde(rename = "session:opened")]
    SessionOpened(SessionOpened),
    /// More or less of the limits is used, or other limits hold.
    #[serde(rename = "limits:changed")]
    LimitsChanged(Box<LimitsChanged>),
    /// How the Golem is doing.
    #[serde(rename = "vitals")]
    Vitals(Box<Vitals>),
    /// The Golem's phase changed.
    #[serde(rename = "phase:changed")]
    PhaseChanged(PhaseChanged),
    /// The Golem's body shows something else.
    #[serde(rename = "sprite:changed")]
    SpriteChanged(SpriteChanged),
    /// What the Golem does now and will do next.
    #[serde(rename = "golem:now")]
    GolemNow(GolemNow),
    /// What the Golem thinks, in its own words.
    #[serde(rename = "golem:thought")]
    GolemThought(GolemThought),
    /// What the Golem remembered for a call.
    #[serde(rename = "golem:memory")]
    MemoryHits(MemoryHits),
    /// The Golem changed its playbook, or the change was undone.
    #[serde(rename = "golem:directive")]
    DirectiveChanged(DirectiveChanged),
    /// A line of a show, for whoever watches.
    #[serde(rename = "show:caption")]
    Caption(Caption),
    /// A receiver was too slow; said to that receiver only, never journaled.
    #[serde(rename = "fabric:gap")]
    FabricGap(FabricGap),
    /// The journal can no longer be written.
    #[serde(rename = "fabric:fault")]
    FabricFault(FabricFault),
}

/// Payload of `tool:start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolStart {
    /// Which tool.
    pub tool_name: Cow<'static, str>,
    /// The parameters worth showing, secrets removed.
    pub params: Redacted,
    /// Hash of all parameters, see [`super::params_hash`].
    pub params_hash: B256,
    /// The heartbeat it belongs to, where one runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<u64>,
    /// Facts of the tool that its card is drawn from. Recordings of earlier versions lack it; read it
    /// with [`ToolStart::facts`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<ToolFacts>,
}

impl ToolStart {
    /// Facts of the tool; in a recording of an earlier version, those of that version.
    pub fn facts(&self) -> ToolFacts {
        self.facts.clone().unwrap_or_else(|| ToolFacts::of_earlier_versions(&self.tool_name))
    }
}

/// Payload of `tool:update`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUpdate {
    /// The step's name, from the tool's own list.
    pub step: SafeText,
    /// Its place in that list, from 1.
    pub index: u32,
    /// How many steps the list has.
    pub of: u32,
}

impl ToolUpdate {
    /// The step called `name` of a tool's list; `None` where the tool has no such step.
    pub fn named(steps: &'static [&'static str], name: &str) -> Option<Self> {
        let at = steps.iter().position(|step| *step == name)?;
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let step = SafeText::clean(steps.get(at)?, MAX_STEP);
        Some(Self { step, index: count(at).saturating_add(1), of: count(steps.len()) })
    }
}

/// Payload of `tool:overrun`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOverrun {
    /// The budget, in milliseconds.
    pub budget_ms: u64,
}

/// Payload of `tool:error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolFailed {
    /// The error.
    pub error_code: ErrorCode,
    /// What was wrong, in a sentence.
    pub error_message: SafeText,
    /// The checks that stand against the call. Recordings before version 3 lack them; read them with
    /// [`ToolFailed::blocked`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<SafetyCheck>>,
}

impl ToolFailed {
    /// The event of an error.
    pub fn of(error: &ToolError) -> Self {
        Self {
            error_code: error.code(),
            error_message: SafeText::clean(error.message(), MAX_MESSAGE),
            checks: Some(error.blocked()),
        }
    }

    /// The checks that stand against the call; in a recording of an earlier version, those that its message names.
    pub fn blocked(&self) -> Cow<'_, [SafetyCheck]> {
        match &self.checks {
            Some(checks) => Cow::Borrowed(checks),
            None => Cow::Owned(checks_of_earlier_versions(self.error_message.as_str())),
        }
    }
}

/// What came of a call, by its own word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// It did what was asked.
    Done,
    /// It showed what would happen; nothing changed.
    Rehearsed,
    /// An order was handed in, and can fill.
    Placed,
    /// Something is signed, and how it ends is not known yet.
    Unclear,
    /// It did not do what was asked.
    NotDone,
}

/// Payload of `tool:end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolEnd {
    /// Whether nothing went wrong. An order that was only handed in, and a rehearsal, went well too.
    pub success: bool,
    /// What came of it; absent in journals from before it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<EndState>,
    /// From start to end, in milliseconds.
    pub duration_ms: u64,
    /// The few fields of the result worth a line; `null` when it failed.
    pub result_summary: Value,
    /// The whole result, where a widget draws it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
}

/// A result and the widget that draws it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Which widget.
    pub widget: CardKind,
    /// The tool's output.
    pub data: Value,
    /// What the tool says beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Value>,
}

/// How a check decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// Nothing stands against it.
    Passed,
    /// Passed, and the operator should read why it was close.
    Warned,
    /// It may not go on.
    Blocked,
}

/// Payload of `permit:issued`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermitIssued {
    /// Which permit.
    pub permit_id: PermitId,
    /// Binds the framed bytes, the policy's version and the bounds.
    pub simulation_hash: B256,
    /// What will be true afterwards.
    pub expected_outcome: SafeText,
    /// Until when it serves, in milliseconds since the Unix epoch.
    pub expires_at: u64,
    /// Whether the operator is told when it is done, without being asked.
    #[serde(default)]
    pub notify: bool,
    /// What the simulation found: each balance of the account that moves, and the gas.
    #[serde(default)]
    pub changes: Vec<SimulatedChange>,
    /// The least that a trade brings; recordings before version 3 of the journal lack it, read it with
    /// [`PermitIssued::least`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_out: Option<LeastOut>,
    /// Dollars of what leaves the wallet, without gas, at the highest price. `None` where nothing leaves, and in
    /// recordings before version 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves_usd: Option<Usd>,
}

impl PermitIssued {
    /// The least that a trade brings; in a recording of an earlier version, as its sentence has it.
    pub fn least(&self) -> Option<LeastOut> {
        self.least_out.clone().or_else(|| {
            let (_, least) = self.expected_outcome.as_str().split_once(">= ")?;
            let (amount, symbol) = least.split_once(' ')?;
            let text = |part: &str| SafeText::clean(part, MAX_STEP);
            Some(LeastOut { amount: text(amount), symbol: text(symbol) })
        })
    }
}

/// The least that a trade brings, in whole tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeastOut {
    /// The figure, with all its digits.
    pub amount: SafeText,
    /// The token.
    pub symbol: SafeText,
}

/// A balance of the account in a simulation, in whole tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedChange {
    /// Of what; an address where the token has no name here.
    pub symbol: SafeText,
    /// The token's contract; `None` for the chain's coin.
    pub address: Option<Address>,
    /// By how much, with its sign.
    pub change: SafeText,
    /// Before; empty where it is not known.
    pub before: SafeText,
    /// After.
    pub after: SafeText,
    /// Whether it is what the gas costs.
    pub gas: bool,
}

/// Payload of `permit:consumed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermitUsed {
    /// Which permit.
    pub permit_id: PermitId,
    /// What it bound.
    pub simulation_hash: B256,
}

/// Payload of `permit:refused`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermitRefused {
    /// Which permit.
    pub permit_id: PermitId,
    /// The error it was refused with.
    pub code: ErrorCode,
    /// Why.
    pub why: SafeText,
}

/// Payload of `approval:requested`. The whole request travels on the channel of approvals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// Which permit waits for it.
    pub permit_id: PermitId,
    /// What is asked, in one line.
    pub title: SafeText,
    /// Why it is asked.
    pub reasons: Vec<AskReason>,
    /// When the question is over, in milliseconds since the Unix epoch.
    pub lapses_at: u64,
    /// Whether it goes ahead then, unless somebody says no; else it lapses.
    #[serde(default)]
    pub passes_by_itself: bool,
}

/// How a question to the operator ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalOutcome {
    /// Yes, to this.
    Approved,
    /// Yes, to this and to more of its kind for a while.
    ApprovedSimilar,
    /// A smaller amount is wanted.
    Edited,
    /// No.
    Refused,
    /// No, and everything stops.
    RefusedAndHalted,
    /// Nobody answered in time, which is no refusal.
    Lapsed,
    /// Nobody needs to answer any more.
    Withdrawn,
}

/// Payload of `approval:resolved`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalResolved {
    /// Which permit waited for it.
    pub permit_id: PermitId,
    /// How it ended.
    pub outcome: ApprovalOutcome,
    /// The operator's words, where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<SafeText>,
}

/// Where a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TxState {
    /// Signed, and its bytes stored.
    Signed,
    /// Handed to the chain.
    Sent,
    /// In a block, and it succeeded.
    Confirmed,
    /// In a block, and it reverted.
    Reverted,
    /// No endpoint took it, and none ever will: it is as if it had never been.
    Dropped,
    /// Not known yet; it is followed by its hash.
    Unclear,
}

/// Payload of `tx:update`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TxUpdate {
    /// The chain's id.
    pub chain_id: u64,
    /// The transaction.
    pub hash: B256,
    /// Its place in the plan, from 1.
    pub leg: u32,
    /// How many transactions the plan has.
    pub of: u32,
    /// Where it is.
    pub state: TxState,
    /// The block it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
}

/// Payload of `tool:verified`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolVerified {
    /// What the tool said would happen.
    pub expected_outcome: SafeText,
    /// What did.
    pub actual_outcome: SafeText,
    /// How that is known.
    pub ground_truth_source: Cow<'static, str>,
    /// Whether the two agree.
    pub matched: bool,
}

/// Payload of `chain:block`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChainBlock {
    /// The chain's id.
    pub chain_id: u64,
    /// The block's number.
    pub number: u64,
    /// Its time, in seconds since the Unix epoch.
    pub timestamp: u64,
}

/// How well a chain can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChainState {
    /// Answers, and its blocks are fresh.
    Healthy,
    /// Answers slowly, partly, or with old blocks.
    Degraded,
    /// Does not answer.
    Down,
    /// Its endpoints contradict each other.
    Disputed,
}

/// Payload of `chain:health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHealth {
    /// The chain's id.
    pub chain_id: u64,
    /// How it is now.
    pub state: ChainState,
    /// Why, where it is not healthy.
    pub why: SafeText,
}

/// Payload of `halt:raised` and `halt:lowered`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaltChanged {
    /// What is in force now; `null` when nothing is.
    pub level: Option<StopLevel>,
    /// Who did it.
    pub by: SafeText,
    /// Why.
    pub reason: SafeText,
}

/// Payload of `policy:changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChanged {
    /// Names the rules that hold now.
    pub hash: B256,
    /// How many times the rules have changed since they were first read, from 1.
    pub version: u64,
    /// What is different.
    pub changes: Vec<PolicyChange>,
}

/// One field of a policy that changes. Recordings before version 3 of the journal have a line `field: from → to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenChange")]
pub struct PolicyChange {
    /// The field.
    pub field: SafeText,
    /// The value before.
    pub from: SafeText,
    /// The value after.
    pub to: SafeText,
    /// Whether it tightens the policy.
    pub tighter: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenChange {
    Line(String),
    Fields { field: SafeText, from: SafeText, to: SafeText, tighter: bool },
}

impl From<WrittenChange> for PolicyChange {
    fn from(written: WrittenChange) -> Self {
        let text = |part: &str| SafeText::clean(part, MAX_MESSAGE);
        match written {
            WrittenChange::Fields { field, from, to, tighter } => Self { field, from, to, tighter },
            WrittenChange::Line(line) => {
                let (field, values) = line.split_once(": ").unwrap_or((&line, ""));
                let (from, to) = values.split_once(" → ").unwrap_or(("", values));
                Self { field: text(field), from: text(from), to: text(to), tighter: false }
            }
        }
    }
}

/// Payload of `fabric:gap`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricGap {
    /// How many events were skipped.
    pub missed: u64,
    /// Sequence number of the first of them.
    pub first: u64,
}

/// Payload of `fabric:fault`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricFault {
    /// What the disk said, and what to do.
    pub message: SafeText,
    /// The first event that the journal may lack.
    pub first_lost: u64,
}
