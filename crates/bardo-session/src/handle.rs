//! Messages between a running session and a console, as plain data: commands in one direction, news in the other.
//!
//! Every message can be serialized, and commands name the Golem that they concern. The same protocol therefore serves a
//! console in another process, or one for several Golems. Handling of commands and drawing of news are done elsewhere.

mod deposits;
mod pnl;
mod schedules;
mod snapshot;
mod transactions;

use std::sync::Arc;

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::envelope::ToolResponse;
use crate::isolation::Isolation;
use crate::market::MarketUpdate;
use crate::questions::{Confirmation, OperatorAnswer, Question, QuestionKey};
use bardo_base::fabric::Event;
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Phase, Profile, RiskTier, StopLevel, TickBudget,
};
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

pub use deposits::{DepositRow, DepositStage, DepositsState};
pub use pnl::{PnlDay, PnlState, PnlSums, PnlToken};
pub use schedules::{ScheduleAttempt, ScheduleRow, SchedulesState};
pub use snapshot::{
    AllowanceState, AllowancesState, BreakerState, ChainHoldings, Custody, GrantState, HoldingRow, LimitUsage,
    NamedAddress, PolicyState, SessionSnapshot, SilentToken, SpendState, StopLossState, StopState, WatchedHoldings,
    name_addresses, names_in,
};
pub use transactions::{
    ChainTransactions, Inclusion, NonceGap, OpenOrderRow, TransactionRow, TransactionsState, WaitingPlan,
};

/// Capacity of the news channel. When it is full, the forwarder waits; the console then misses events, and is notified.
pub const NEWS_WAITING: usize = 256;

/// Capacity of the command channel.
pub const COMMANDS_WAITING: usize = 64;

/// Command with the Golem that it is meant for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AddressedCommand {
    /// Golem that the command concerns; `operator` if it concerns none.
    pub golem_id: GolemId,
    /// Command to carry out.
    pub command: SessionCommand,
}

/// Command of an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum SessionCommand {
    /// Calls a tool manually, through the same pipeline as every other call.
    Call {
        /// Number that identifies the reply; chosen by the caller.
        ticket: u64,
        /// Name of the tool.
        tool: String,
        /// Parameters of the tool.
        params: Value,
        /// True to stop before any signature.
        dry_run: bool,
        /// Key that makes the call run at most once, however often it is sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
        /// True for a read that a form makes by itself while it is being filled in: no event reports it, and no failure is
        /// counted. It has no effect on a call that signs.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unasked: bool,
    },
    /// Previews a manual write and holds its offer. The reply is the simulated offer with its permit, followed by an
    /// approval request. The offer lapses with that request, or when another one is made. A [`SessionCommand::Answer`]
    /// with its permit executes or withdraws it.
    Offer {
        /// Number that identifies the reply; chosen by the caller.
        ticket: u64,
        /// Name of the tool.
        tool: String,
        /// Parameters of the tool.
        params: Value,
    },
    /// Executes exactly a previewed offer, or nothing.
    Commit {
        /// Number that identifies the reply; chosen by the caller.
        ticket: u64,
        /// Permit of the offer.
        permit_id: PermitId,
        /// Hash that was returned with the offer, over what was shown.
        simulation_hash: B256,
    },
    /// Cancels a call, unless it is already being signed.
    Cancel {
        /// Id of the call.
        call_id: CallId,
    },
    /// Answers an approval request.
    Answer {
        /// Key of the request.
        key: QuestionKey,
        /// Answer of the operator.
        answer: OperatorAnswer,
        /// Warnings read and text typed before the answer.
        confirmation: Confirmation,
        /// Password of the account's key, if the request needs one. Never serialized.
        #[serde(skip)]
        password: Option<Password>,
    },
    /// Gives the second operator's approval of a request: a signature over it, made with a key that the policy names. It
    /// needs no rights, because the signature alone decides.
    ApproveSecond {
        /// Key of the request.
        key: QuestionKey,
        /// Signature: 0x and 130 hexadecimal digits.
        signature: String,
        /// Deadline that was signed, in milliseconds since the Unix epoch; only for a looser policy. That of an action is
        /// the end of its request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<u64>,
    },
    /// Blocks new signatures at once, before the operator chooses what follows.
    Hold,
    /// Releases the session's own hold, and nothing else.
    ReleaseHold,
    /// Raises the stop level.
    Raise {
        /// New level; a higher one in force is kept.
        level: StopLevel,
        /// Reason for the stop.
        reason: SafeText,
    },
    /// Queues an approval request for a lower stop level, because lowering a stop needs a decision.
    AskToLower {
        /// Requested level; `null` lifts the stop.
        level: Option<StopLevel>,
    },
    /// Queues an approval request for the end of paper mode.
    AskToLeavePaper,
    /// Starts paper mode. Needs no approval, because nothing is signed any more.
    EnterPaper,
    /// Queues an approval request that resets the failure breaker.
    AskToResetBreaker,
    /// Sends a message to the Golem.
    Say {
        /// Text of the message.
        words: SafeText,
    },
    /// Revokes a standing approval.
    RevokeGrant {
        /// Number of the standing approval in the snapshot.
        number: u64,
    },
    /// Sends a waiting transaction's signed bytes to all endpoints again. Nothing is signed.
    Rebroadcast {
        /// Hash of the transaction.
        transaction: B256,
    },
    /// Names an address, or renames it. It is checked as `bardo labels add` does.
    Label {
        /// Address to name: 0x and 40 hexadecimal digits.
        address: String,
        /// Name of the address.
        name: String,
        /// True to show its balances, false to end that, `None` to leave it as it is.
        watched: Option<bool>,
    },
    /// Queries data; the reply is a [`SessionNews::Found`].
    Look {
        /// Number that identifies the reply; chosen by the caller.
        ticket: u64,
        /// Data to query.
        query: SessionQuery,
    },
    /// Controls the in-process devnet.
    Devnet(DevnetControl),
    /// Controls the playback of a recording.
    Replay(ReplayControl),
    /// Plays a scenario.
    Scenario {
        /// Name or file of the scenario.
        name: String,
    },
    /// Advances a scenario that runs step by step.
    Step,
    /// Ends the session.
    Leave(LeaveMode),
}

impl SessionCommand {
    /// Returns true for a command about stops that needs no approval: it is executed on arrival, before all others.
    pub fn is_stop(&self) -> bool {
        match self {
            Self::Hold | Self::ReleaseHold | Self::Raise { .. } => true,
            Self::Call { .. }
            | Self::Offer { .. }
            | Self::Commit { .. }
            | Self::Cancel { .. }
            | Self::Answer { .. }
            | Self::ApproveSecond { .. }
            | Self::AskToLower { .. }
            | Self::AskToLeavePaper
            | Self::EnterPaper
            | Self::AskToResetBreaker
            | Self::Say { .. }
            | Self::RevokeGrant { .. }
            | Self::Rebroadcast { .. }
            | Self::Label { .. }
            | Self::Look { .. }
            | Self::Devnet(_)
            | Self::Replay(_)
            | Self::Scenario { .. }
            | Self::Step
            | Self::Leave(_) => false,
        }
    }

    /// Number that identifies the command's reply; `None` for a command without one.
    pub fn ticket_mut(&mut self) -> Option<&mut u64> {
        match self {
            Self::Call { ticket, .. }
            | Self::Offer { ticket, .. }
            | Self::Commit { ticket, .. }
            | Self::Look { ticket, .. } => Some(ticket),
            Self::Cancel { .. }
            | Self::Answer { .. }
            | Self::ApproveSecond { .. }
            | Self::Hold
            | Self::ReleaseHold
            | Self::Raise { .. }
            | Self::AskToLower { .. }
            | Self::AskToLeavePaper
            | Self::EnterPaper
            | Self::AskToResetBreaker
            | Self::Say { .. }
            | Self::RevokeGrant { .. }
            | Self::Rebroadcast { .. }
            | Self::Label { .. }
            | Self::Devnet(_)
            | Self::Replay(_)
            | Self::Scenario { .. }
            | Self::Step
            | Self::Leave(_) => None,
        }
    }
}

/// Control of the in-process devnet; it is rejected on any other network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
pub enum DevnetControl {
    /// Mines blocks at once.
    Mine {
        /// Chain to mine on.
        chain_id: u64,
        /// Number of blocks, at most 256.
        blocks: u32,
    },
    /// Advances the chain's time: the next block is that much later.
    Advance {
        /// Chain to advance.
        chain_id: u64,
        /// Time to skip in seconds, at most 30 days.
        seconds: u64,
    },
    /// Switches the simulated market on or off.
    Market {
        /// True if the market trades.
        on: bool,
    },
    /// Lets all prices except those of stablecoins fall over 10 blocks, permanently.
    Crash {
        /// Size of the fall, in basis points.
        bps: u32,
    },
    /// Lets all prices except those of stablecoins rise over 10 blocks, and fall back over the next 10.
    Spike {
        /// Size of the rise, in basis points.
        bps: u32,
    },
    /// Switches timed block production on or off.
    Blocks {
        /// True if blocks are produced by the clock.
        running: bool,
    },
}

/// Control of a recording's playback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
pub enum ReplayControl {
    /// Pauses or continues the playback.
    Toggle,
    /// Pauses, and plays one event.
    Step,
    /// Doubles the playback speed.
    Faster,
    /// Halves the playback speed.
    Slower,
    /// Jumps to a position.
    Seek {
        /// Position in percent of the events, from 0 to 100.
        percent: u8,
    },
}

/// Way to end the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaveMode {
    /// Starts nothing new, waits until signed transactions are settled, then ends.
    Finish,
    /// Cancels open orders first, then ends as with [`Self::Finish`].
    CancelOrders,
    /// Ends at once. Signed transactions stay in the ledger and are settled at the next start.
    Now,
}

/// Data that can be queried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "look_up", rename_all = "snake_case")]
pub enum SessionQuery {
    /// Entries of the audit log, oldest first.
    Audit {
        /// Number after which to start; 0 starts at the first entry.
        after: u64,
        /// Call to which the entries must belong; `None` for all.
        call: Option<CallId>,
        /// Maximum number of entries, at most 1,000.
        most: u32,
    },
    /// Newest entries of the audit log.
    AuditTail {
        /// Maximum number of entries, at most 1,000.
        most: u32,
    },
    /// Verification of the whole audit log.
    VerifyAudit,
    /// Known events after a sequence number, for a console that missed some.
    History {
        /// Sequence number after which to start.
        after: u64,
    },
}

/// Result of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum QueryResult {
    /// Entries of the audit log, oldest first.
    Audit {
        /// Entries that match the query.
        entries: Vec<AuditEntry>,
    },
    /// Result of an audit log verification.
    Verified {
        /// True if the audit log is intact.
        good: bool,
        /// Number of entries.
        entries: u64,
        /// Hash of the newest entry.
        head: B256,
        /// Faults found, one line each.
        faults: Vec<SafeText>,
    },
    /// Known events, and whether they are complete.
    History {
        /// Events, oldest first.
        events: Vec<Arc<Event>>,
        /// Sequence number up to which the history is complete.
        last: u64,
        /// True if no older events are missing.
        complete: bool,
    },
    /// The query failed.
    Nothing {
        /// Reason for the failure.
        why: SafeText,
    },
}

/// Entry of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Number of the entry, starting at 1.
    pub seq: u64,
    /// Time of the entry, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Kind of the entry, in its stored form.
    pub kind: SafeText,
    /// Call that the entry belongs to.
    pub call_id: Option<SafeText>,
    /// Golem, or operator, that acted.
    pub golem_id: SafeText,
    /// Content of the entry as JSON.
    pub body: Value,
    /// Hash of the entry.
    pub hash: B256,
}

/// Message from the session to the console.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "news", content = "of", rename_all = "snake_case")]
pub enum SessionNews {
    /// State of chains and markets, and progress of the boot.
    Market(MarketUpdate),
    /// Description of the session, sent once when it is ready.
    Ready(Box<SessionInfo>),
    /// Events, in order.
    Events(Vec<Arc<Event>>),
    /// All open approval requests, oldest first; replaces the previous list.
    Questions(Arc<Vec<Question>>),
    /// Snapshot of what events do not report; replaces the previous one.
    Snapshot(Arc<SessionSnapshot>),
    /// A manual action is held until its operator answers, under its permit.
    Offered {
        /// Ticket of the command that requested it; the reply to the call uses the same ticket.
        ticket: u64,
        /// Approval request for the action, which is not in the list of open ones.
        question: Box<Question>,
    },
    /// A manual call has started.
    Began {
        /// Ticket of the command.
        ticket: u64,
        /// Id of the call.
        call_id: CallId,
    },
    /// A manual call has ended.
    Reply {
        /// Ticket of the command.
        ticket: u64,
        /// Response to the call.
        response: Box<ToolResponse>,
    },
    /// Reply to a query.
    Found {
        /// Ticket of the command.
        ticket: u64,
        /// Result of the query.
        found: Box<QueryResult>,
    },
    /// A command was carried out or not, with a message.
    #[serde(rename = "told")]
    CommandResult {
        /// True if the command was carried out.
        done: bool,
        /// Message for the operator, as a sentence.
        words: SafeText,
    },
    /// Position in a recording, sent after every change.
    Replay(ReplayState),
    /// The session has ended; no news follows.
    Left(Box<SessionSummary>),
}

impl SessionNews {
    /// Number of the command that a reply belongs to; `None` for news that are no reply.
    pub fn ticket_mut(&mut self) -> Option<&mut u64> {
        match self {
            Self::Offered { ticket, .. }
            | Self::Began { ticket, .. }
            | Self::Reply { ticket, .. }
            | Self::Found { ticket, .. } => Some(ticket),
            Self::Market(_)
            | Self::Ready(_)
            | Self::Events(_)
            | Self::Questions(_)
            | Self::Snapshot(_)
            | Self::CommandResult { .. }
            | Self::Replay(_)
            | Self::Left(_) => None,
        }
    }
}

/// Playback position of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayState {
    /// True while the playback is paused.
    pub paused: bool,
    /// Speed in percent of the recorded pace.
    pub speed_percent: u32,
    /// Number of events played so far.
    pub told: u64,
    /// Total number of events.
    pub of: u64,
}

/// Description of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Id of the Golem of this session.
    pub golem_id: GolemId,
    /// Display name of the Golem.
    pub name: SafeText,
    /// Role of the Golem.
    pub role: SafeText,
    /// Tools that can be called manually.
    pub tools: Vec<ToolInfo>,
    /// Names of the scenarios that can be played.
    pub scenarios: Vec<SafeText>,
    /// Path of this run's journal, for `bardo replay`; `None` if there is none.
    pub journal: Option<SafeText>,
    /// Commands that the agent understands at the prompt.
    #[serde(default)]
    pub commands: Vec<PromptCommand>,
    /// Isolation of the brain process that makes the decisions; `None` without such a process.
    #[serde(default)]
    pub brain: Option<Isolation>,
    /// Reason that a read-only console is not attached to a running session, and the way to see one. `None` if the
    /// session is not read-only.
    #[serde(default)]
    pub not_attached: Option<SafeText>,
    /// True if the session runs the devnet's chains itself, so that they end with it and it can control them.
    #[serde(default)]
    pub own_devnet: bool,
    /// True if the session runs in another process, so that leaving the console does not end it.
    #[serde(default)]
    pub served: bool,
}

/// Command that the agent understands at the prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptCommand {
    /// First word of the command.
    pub name: SafeText,
    /// Description of the effect.
    pub description: SafeText,
    /// JSON Schema of the command's own parameters.
    pub schema: Value,
    /// Names of the positional parameters, in order.
    pub in_order: Vec<SafeText>,
    /// Values of the first parameter, each with the tool whose parameters it also takes.
    pub kinds: Vec<CommandKind>,
}

/// Kind of an action or a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandKind {
    /// Name of the kind.
    pub name: SafeText,
    /// Tool that carries it out.
    pub tool: SafeText,
}

/// Tool as screens show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// Name of the tool.
    pub name: SafeText,
    /// Description of the effect.
    pub description: SafeText,
    /// Category in the catalog.
    pub category: Category,
    /// Tool sets that contain the tool.
    pub profiles: Vec<Profile>,
    /// Capability: read, write, or privileged.
    pub capability: CapabilityTier,
    /// Possible damage of a mistake.
    pub risk_tier: RiskTier,
    /// Time budget of a call.
    pub tick_budget: TickBudget,
    /// Names of the steps, in order.
    pub progress_steps: Vec<SafeText>,
    /// Effect on positions.
    pub action_class: ActionClass,
    /// Checks that apply to a call.
    pub checks: Vec<Check>,
    /// Description for a language model.
    pub prompt_snippet: SafeText,
    /// Guideline for each phase.
    pub guidelines: Vec<(Phase, SafeText)>,
    /// JSON Schema of the parameters.
    pub input_schema: Value,
    /// JSON Schema of the result.
    pub output_schema: Value,
    /// Example parameters that work on the embedded devnet.
    pub example: Value,
}

/// Summary of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Number of successful trades.
    pub trades: u64,
    /// Average shortfall of trades from their quotes, in hundredths of a basis point; negative if they were above.
    /// `None` if no trade had a quote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_short: Option<i64>,
    /// Number of blocked actions.
    pub blocked: u64,
    /// Number of approval requests that the operator rejected.
    pub refused: u64,
    /// Number of approval requests that lapsed, or were open at the end, without an answer.
    pub lapsed: u64,
    /// Number of failed calls.
    pub failed: u64,
    /// Equity at the first and at the last reading.
    pub equity: Option<(Usd, Usd)>,
    /// Signed and unsettled items, one line each.
    pub unsettled: Vec<SafeText>,
    /// True if the chains of the session ended with it, so that nothing follows up what is unsettled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chains_ended: bool,
    /// Tasks of leaving that were not carried out, one line each.
    pub remarks: Vec<SafeText>,
    /// Path of this run's journal; `None` if there is none.
    pub journal: Option<SafeText>,
    /// True if the session ended in paper mode.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paper: bool,
    /// State of the session after the console has left it.
    #[serde(default, skip)]
    pub left: SessionLeft,
}

/// State of a session after a console has left it. A session always reports its own end; the other states are a
/// connection's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionLeft {
    /// The session has ended.
    #[default]
    Ended,
    /// The console was detached, and the session continues.
    Detached,
    /// The connection was lost; the session may continue.
    Lost,
}

/// Console side of a session.
#[derive(Debug)]
pub struct SessionHandle {
    /// Sender of commands to the session.
    pub commands: mpsc::Sender<AddressedCommand>,
    /// Receiver of news, in order. It closes when the session ends.
    pub news: mpsc::Receiver<SessionNews>,
}

/// Session side, used by the real session, a replay, or a test.
#[derive(Debug)]
pub struct SessionEnd {
    /// Receiver of commands. It closes when the console is gone.
    pub commands: mpsc::Receiver<AddressedCommand>,
    /// Sender of news to the console.
    pub news: mpsc::Sender<SessionNews>,
}

impl SessionHandle {
    /// Creates both sides of a connection.
    pub fn pair() -> (Self, SessionEnd) {
        let (commands, orders) = mpsc::channel(COMMANDS_WAITING);
        let (tell, news) = mpsc::channel(NEWS_WAITING);
        (Self { commands, news }, SessionEnd { commands: orders, news: tell })
    }
}
