//! The event type and its payloads, with the kinds that the documents name.
//!
//! Payloads of orders and bridges stand in `trade`, those of the Golem's life in `life`, those of the session and its
//! limits in `limits`.

mod life;
mod limits;
mod trade;

use std::borrow::Cow;

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ask_reason::AskReason;
use super::finding::{SafetyCheck, checks_of_earlier_versions};
use super::redact::RedactedParams;
use super::tool_facts::ToolFacts;
use crate::error::{ErrorCode, ToolError};
use crate::id::{CallId, GolemId, PermitId};
use crate::model::{CardKind, StopLevel};
use crate::text::SafeText;
use crate::units::Usd;

pub use life::{
    Caption, DirectiveChanged, GolemState, GolemThought, LendingLiquidated, LendingVitals, MemoryHits, PhaseChanged,
    SpriteChanged, SpriteState, Vitals,
};
pub use limits::{
    BreakerState, ChainOpened, LimitUsage, LimitsChanged, PolicyState, SessionOpened, SpendState, StopLossState,
};
pub use trade::{
    CardToken, DecayCurve, DecayUnit, Exclusivity, FillerOffer, IntentStatus, IntentUpdate, OrderFill, OrderStatus,
    OrderUpdate, TxPlace,
};

/// Maximum length of a step's name, in characters.
const MAX_STEP: usize = 80;
/// Maximum length of an error's sentence, in characters.
const MAX_MESSAGE: usize = 400;

/// An event. JSON has the payload's fields beside `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Sequence number within the run, from 1 without gaps.
    pub seq: u64,
    /// Time of the event, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Golem that acted.
    pub golem_id: GolemId,
    /// Call that the event belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// Kind and payload.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Kind and payload of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum EventKind {
    /// A call begins.
    #[serde(rename = "tool:start")]
    ToolStart(ToolStart),
    /// A call reached its next step.
    #[serde(rename = "tool:update")]
    ToolUpdate(ToolUpdate),
    /// A call exceeded its latency budget; it continues.
    #[serde(rename = "tool:overrun")]
    ToolOverrun(ToolOverrun),
    /// A call failed; `tool:end` follows.
    #[serde(rename = "tool:error")]
    ToolError(ToolFailed),
    /// A call ended.
    #[serde(rename = "tool:end")]
    ToolEnd(ToolEnd),
    /// A check of the safety pipeline decided.
    #[serde(rename = "safety:check")]
    SafetyCheck(SafetyCheck),
    /// A previewed action may be committed once, until the permit expires.
    #[serde(rename = "permit:issued")]
    PermitIssued(PermitIssued),
    /// A permit was used: its content is being signed.
    #[serde(rename = "permit:consumed")]
    PermitConsumed(PermitUsed),
    /// A permit was refused.
    #[serde(rename = "permit:refused")]
    PermitRefused(PermitRefused),
    /// The operator is asked for approval.
    #[serde(rename = "approval:requested")]
    ApprovalRequested(ApprovalRequested),
    /// An approval request ended: with the operator's answer or for another reason.
    #[serde(rename = "approval:resolved")]
    ApprovalResolved(ApprovalResolved),
    /// A transaction of a call was submitted or included.
    #[serde(rename = "tx:update")]
    TxUpdate(TxUpdate),
    /// An action that an earlier process left open was looked up on the chain.
    #[serde(rename = "action:recovered")]
    ActionRecovered(ActionRecovered),
    /// The claimed outcome of a write was compared with the chain.
    #[serde(rename = "tool:verified")]
    ToolVerified(ToolVerified),
    /// An auction order's status or figures changed.
    #[serde(rename = "order:update")]
    OrderUpdate(Box<OrderUpdate>),
    /// A bridge order's status changed.
    #[serde(rename = "intent:update")]
    IntentUpdate(Box<IntentUpdate>),
    /// A chain has a new block.
    #[serde(rename = "chain:block")]
    ChainBlock(ChainBlock),
    /// The reachability of a chain changed.
    #[serde(rename = "chain:health")]
    ChainHealth(ChainHealth),
    /// The stop level rose.
    #[serde(rename = "halt:raised")]
    HaltRaised(HaltChanged),
    /// The stop level fell, or the stop was lifted.
    #[serde(rename = "halt:lowered")]
    HaltLowered(HaltChanged),
    /// The policy changed.
    #[serde(rename = "policy:changed")]
    PolicyChanged(PolicyChanged),
    /// A session begins.
    #[serde(rename = "session:opened")]
    SessionOpened(SessionOpened),
    /// More or less of the limits is used, or other limits hold.
    #[serde(rename = "limits:changed")]
    LimitsChanged(Box<LimitsChanged>),
    /// Health figures of the Golem, such as equity, drawdown and gas.
    #[serde(rename = "vitals")]
    Vitals(Box<Vitals>),
    /// A part of the account's debt in a lending market was liquidated.
    #[serde(rename = "lending:liquidated")]
    LendingLiquidated(Box<LendingLiquidated>),
    /// The Golem's phase changed.
    #[serde(rename = "phase:changed")]
    PhaseChanged(PhaseChanged),
    /// The Golem's sprite changed.
    #[serde(rename = "sprite:changed")]
    SpriteChanged(SpriteChanged),
    /// Present and next activity of the Golem.
    #[serde(rename = "golem:now")]
    GolemNow(GolemState),
    /// A thought of the Golem, in its own words.
    #[serde(rename = "golem:thought")]
    GolemThought(GolemThought),
    /// Memories that the Golem used for a call.
    #[serde(rename = "golem:memory")]
    MemoryHits(MemoryHits),
    /// The Golem changed its playbook, or undid a change.
    #[serde(rename = "golem:directive")]
    DirectiveChanged(DirectiveChanged),
    /// A caption of a scenario, for its audience.
    #[serde(rename = "show:caption")]
    Caption(Caption),
    /// A channel of alerts stopped working, works again, or lost an alert.
    #[serde(rename = "alert:channel")]
    AlertChannel(AlertChannelChanged),
    /// A receiver was too slow; only that receiver gets this event, and it is never journaled.
    #[serde(rename = "fabric:gap")]
    FabricGap(FabricGap),
    /// The journal can no longer be written.
    #[serde(rename = "fabric:fault")]
    FabricFault(FabricFault),
}

/// Payload of `tool:start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolStart {
    /// Name of the tool.
    pub tool_name: Cow<'static, str>,
    /// Parameters for display, with secrets removed.
    pub params: RedactedParams,
    /// Hash of all parameters, see [`super::params_hash`].
    pub params_hash: B256,
    /// Heartbeat that the call belongs to, if one runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<u64>,
    /// Facts about the tool for drawing its card. Recordings of earlier versions lack them; read them with
    /// [`ToolStart::facts`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<ToolFacts>,
}

impl ToolStart {
    /// Facts about the tool; for a recording of an earlier version, the facts of that version.
    pub fn facts(&self) -> ToolFacts {
        self.facts.clone().unwrap_or_else(|| ToolFacts::of_earlier_versions(&self.tool_name))
    }
}

/// Payload of `tool:update`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUpdate {
    /// Name of the step, from the tool's own list.
    pub step: SafeText,
    /// Position in that list, from 1.
    pub index: u32,
    /// Number of steps in that list.
    pub of: u32,
}

impl ToolUpdate {
    /// Returns the step called `name` of a tool's list; `None` if the tool has no such step.
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
    /// Latency budget in milliseconds.
    pub budget_ms: u64,
}

/// Payload of `tool:error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolFailed {
    /// Code of the error.
    pub error_code: ErrorCode,
    /// Message of the error, in one sentence.
    pub error_message: SafeText,
    /// Checks that block the call. Recordings before version 3 lack them; read them with [`ToolFailed::blocked`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<SafetyCheck>>,
}

impl ToolFailed {
    /// Payload for an error.
    pub fn of(error: &ToolError) -> Self {
        Self {
            error_code: error.code(),
            error_message: SafeText::clean(error.message(), MAX_MESSAGE),
            checks: Some(error.blocked()),
        }
    }

    /// Checks that block the call; for a recording of an earlier version, those that its message names.
    pub fn blocked(&self) -> Cow<'_, [SafetyCheck]> {
        match &self.checks {
            Some(checks) => Cow::Borrowed(checks),
            None => Cow::Owned(checks_of_earlier_versions(self.error_message.as_str())),
        }
    }
}

/// Outcome of a call as the tool reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// The call did what was requested.
    Done,
    /// The call showed what would happen; nothing changed.
    Rehearsed,
    /// An order was submitted and can fill.
    Placed,
    /// A transaction or order is signed, and its outcome is not known yet.
    Unclear,
    /// The call did not do what was requested.
    NotDone,
}

/// Payload of `tool:end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolEnd {
    /// True if nothing went wrong, including for submitted orders and rehearsals.
    pub success: bool,
    /// Outcome of the call; absent in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<EndState>,
    /// Duration of the call, in milliseconds.
    pub duration_ms: u64,
    /// Main fields of the result, for one line; `null` if the call failed.
    pub result_summary: Value,
    /// Full result, if a widget draws it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<ResultCard>,
}

/// A result and the widget that draws it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultCard {
    /// Widget that draws the result.
    pub widget: CardKind,
    /// Output of the tool.
    pub data: Value,
    /// Additional hints of the tool for the widget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Value>,
}

/// Decision of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// No rule blocks the action.
    Passed,
    /// Passed, but close to a limit; the operator should read why.
    Warned,
    /// The action may not proceed.
    Blocked,
}

/// Payload of `permit:issued`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermitIssued {
    /// Id of the permit.
    pub permit_id: PermitId,
    /// Hash that binds the signing payload, the policy version and the bounds.
    pub simulation_hash: B256,
    /// Expected result of the action, in words.
    pub expected_outcome: SafeText,
    /// Expiry of the permit, in milliseconds since the Unix epoch.
    pub expires_at: u64,
    /// True if the operator is notified after the action, without being asked before it.
    #[serde(default)]
    pub notify: bool,
    /// Simulated balance changes of the account, including gas.
    #[serde(default)]
    pub changes: Vec<SimulatedChange>,
    /// Minimum output of a trade. Recordings before version 3 of the journal lack it; read it with
    /// [`PermitIssued::least`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_out: Option<LeastOut>,
    /// Dollars of what leaves the wallet, without gas, at the highest price. `None` where nothing leaves, and in
    /// recordings before version 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves_usd: Option<Usd>,
    /// True for the signature of an order that others may fill later, instead of transactions. Absent in recordings of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_order: bool,
}

impl PermitIssued {
    /// Minimum output of a trade; for a recording of an earlier version, as its sentence has it.
    pub fn least(&self) -> Option<LeastOut> {
        self.least_out.clone().or_else(|| {
            let (_, least) = self.expected_outcome.as_str().split_once(">= ")?;
            let (amount, symbol) = least.split_once(' ')?;
            let text = |part: &str| SafeText::clean(part, MAX_STEP);
            Some(LeastOut { amount: text(amount), symbol: text(symbol) })
        })
    }
}

/// Minimum output of a trade, in whole tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeastOut {
    /// Amount in whole tokens, with all its digits.
    pub amount: SafeText,
    /// Symbol of the token.
    pub symbol: SafeText,
}

/// A balance change of the account in a simulation, in whole tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedChange {
    /// Symbol of the token; its address if the token has no known name.
    pub symbol: SafeText,
    /// Contract of the token; `None` for the native token.
    pub address: Option<Address>,
    /// Signed difference of the balance.
    pub change: SafeText,
    /// Balance before; empty if unknown.
    pub before: SafeText,
    /// Balance after the simulation.
    pub after: SafeText,
    /// True if the change is the cost of gas.
    pub gas: bool,
}

/// Payload of `permit:consumed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermitUsed {
    /// Id of the permit.
    pub permit_id: PermitId,
    /// Simulation hash that the permit bound.
    pub simulation_hash: B256,
}

/// Payload of `permit:refused`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermitRefused {
    /// Id of the permit.
    pub permit_id: PermitId,
    /// Error code of the refusal.
    pub code: ErrorCode,
    /// Reason of the refusal.
    pub why: SafeText,
}

/// Payload of `approval:requested`. The full request travels on the approvals channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// Permit that waits for the approval.
    pub permit_id: PermitId,
    /// Summary of the request, in one line.
    pub title: SafeText,
    /// Reasons for asking the operator.
    pub reasons: Vec<AskReason>,
    /// End of the request, in milliseconds since the Unix epoch.
    pub lapses_at: u64,
    /// True if the action proceeds at the end unless it is rejected; otherwise the request lapses.
    #[serde(default)]
    pub passes_by_itself: bool,
    /// Change of an open request by another simulation of its action; `None` for a new request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal: Option<RequestRenewal>,
}

/// Change of an open approval request by another simulation of its action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestRenewal {
    /// Nothing became worse: what was read and chosen stands.
    AsGood,
    /// Something became worse: it must be read again.
    Worse,
}

/// Payload of `action:recovered`: what became of an action whose process ended before it did. Its `tool:end` never comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionRecovered {
    /// Tool of the call; `None` if the ledger does not name it.
    pub tool: Option<SafeText>,
    /// End of the action; `None` while the chain does not say.
    pub end: Option<RecoveredEnd>,
}

/// End of an action that an earlier process left open, by its receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveredEnd {
    /// All of it happened.
    Done,
    /// It ended before its purpose, without failing: a plan stopped early.
    Partly,
    /// It failed: it was included and reverted, or can never be included.
    Failed,
    /// It was withdrawn before anything was signed, or the operator cancelled it: nothing of it happened.
    Withdrawn,
    /// Parts of it may be signed elsewhere.
    Unclear,
}

/// Outcome of an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalOutcome {
    /// Approved for this action only.
    Approved,
    /// Approved, together with similar actions for a limited time.
    ApprovedSimilar,
    /// The operator wants a smaller amount.
    Edited,
    /// Rejected, with or without a comment.
    Refused,
    /// Rejected, together with a stop of all actions.
    RefusedAndHalted,
    /// No answer in time, which is not a rejection.
    Lapsed,
    /// Withdrawn, because an answer became unnecessary.
    Withdrawn,
}

/// Payload of `approval:resolved`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalResolved {
    /// Permit that waited for the approval.
    pub permit_id: PermitId,
    /// Outcome of the request.
    pub outcome: ApprovalOutcome,
    /// Comment of the operator, or why the request was withdrawn, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<SafeText>,
    /// Smaller amount that the operator asked for, in the unit of the call's `amount`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<SafeText>,
}

/// Purpose of a transaction in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TxPurpose {
    /// Sets an allowance that the main transaction needs.
    Approve,
    /// Does what the plan is for.
    Main,
    /// Revokes what is left of an allowance.
    CleanUp,
}

/// State of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TxState {
    /// Signed, with its bytes stored.
    Signed,
    /// Submitted to an endpoint.
    Sent,
    /// Included in a block and successful.
    Confirmed,
    /// Included in a block and reverted.
    Reverted,
    /// Never accepted by any endpoint, now or later: it has no effect.
    Dropped,
    /// Unknown for now; it is tracked by its hash.
    Unclear,
}

/// Payload of `tx:update`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TxUpdate {
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Hash of the transaction.
    pub hash: B256,
    /// Position in the plan, from 1.
    pub leg: u32,
    /// Number of transactions in the plan.
    pub of: u32,
    /// State of the transaction.
    pub state: TxState,
    /// Block that includes the transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    /// Cost of its gas in wei, as decimal digits in JSON; absent before it is in a block, and in recordings of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "decimal_wei")]
    pub gas_cost_wei: Option<U256>,
    /// Its purpose; absent in recordings of earlier versions, and after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<TxPurpose>,
}

/// Amounts in wei as text of decimal digits.
mod decimal_wei {
    use alloy_primitives::U256;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(wei: &Option<U256>, serializer: S) -> Result<S::Ok, S::Error> {
        match wei {
            Some(wei) => serializer.collect_str(wei),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<U256>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| U256::from_str_radix(&text, 10).map_err(D::Error::custom)).transpose()
    }
}

/// Payload of `tool:verified`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolVerified {
    /// Outcome that the tool predicted.
    pub expected_outcome: SafeText,
    /// Outcome that was observed.
    pub actual_outcome: SafeText,
    /// Source of the observation.
    pub ground_truth_source: Cow<'static, str>,
    /// True if prediction and observation agree.
    pub matched: bool,
    /// True for an order that ended without a fill, and for a plan that was stopped before its main transaction: nothing
    /// that was reported is wrong. Absent in recordings of earlier versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfilled: bool,
}

/// Payload of `chain:block`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChainBlock {
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Number of the block.
    pub number: u64,
    /// Timestamp of the block, in seconds since the Unix epoch.
    pub timestamp: u64,
}

/// Reachability of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChainState {
    /// Endpoints answer, and their blocks are fresh.
    Healthy,
    /// Endpoints answer slowly, partly, or with old blocks.
    Degraded,
    /// No endpoint answers.
    Down,
    /// Endpoints contradict each other.
    Disputed,
}

/// Payload of `chain:health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHealth {
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Present state of the chain.
    pub state: ChainState,
    /// Reason, if the chain is not healthy.
    pub why: SafeText,
}

/// Payload of `halt:raised` and `halt:lowered`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaltChanged {
    /// Stop level now in force; `null` if none.
    pub level: Option<StopLevel>,
    /// Person or process that changed the level.
    pub by: SafeText,
    /// Reason for the change.
    pub reason: SafeText,
    /// True for a hold: the stop is in force only until the operator has chosen a level.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
}

/// Payload of `policy:changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChanged {
    /// Hash of the policy now in force.
    pub hash: B256,
    /// Number of changes since the policy was first read, from 1.
    pub version: u64,
    /// Fields that differ from the policy before.
    pub changes: Vec<PolicyChange>,
    /// Lower limits that bind in the place of changed ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binding: Vec<BindingLimit>,
}

/// Lower limit that binds in the place of a changed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingLimit {
    /// Policy field that the operator changed.
    pub field: SafeText,
    /// Field that binds.
    pub by: SafeText,
    /// Its limit in dollars.
    pub limit: Usd,
}

/// A changed field of a policy. Recordings before version 3 of the journal have a line `field: from → to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PolicyChangeForm")]
pub struct PolicyChange {
    /// Name of the field.
    pub field: SafeText,
    /// Value before the change.
    pub from: SafeText,
    /// Value after the change.
    pub to: SafeText,
    /// True if the change tightens the policy.
    pub tighter: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PolicyChangeForm {
    Line(String),
    Fields { field: SafeText, from: SafeText, to: SafeText, tighter: bool },
}

impl From<PolicyChangeForm> for PolicyChange {
    fn from(written: PolicyChangeForm) -> Self {
        let text = |part: &str| SafeText::clean(part, MAX_MESSAGE);
        match written {
            PolicyChangeForm::Fields { field, from, to, tighter } => Self { field, from, to, tighter },
            PolicyChangeForm::Line(line) => {
                let (field, values) = line.split_once(": ").unwrap_or((&line, ""));
                let (from, to) = values.split_once(" → ").unwrap_or(("", values));
                Self { field: text(field), from: text(from), to: text(to), tighter: false }
            }
        }
    }
}

/// Payload of `alert:channel`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertChannelChanged {
    /// Name of the channel: `webhook`, `telegram`, `email` or `desktop`.
    pub channel: SafeText,
    /// True if the channel delivered its last alert.
    pub works: bool,
    /// Reason of the last failure; empty if it works.
    pub why: SafeText,
    /// Number of alerts that were given up in this run.
    pub lost: u64,
}

/// Payload of `fabric:gap`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricGap {
    /// Number of skipped events.
    pub missed: u64,
    /// Sequence number of the first skipped event.
    pub first: u64,
}

/// Payload of `fabric:fault`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricFault {
    /// Error of the disk, and advice.
    pub message: SafeText,
    /// Sequence number of the first event that the journal may lack.
    pub first_lost: u64,
}
