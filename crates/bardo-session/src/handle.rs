//! What passes between a running session and whoever watches and steers it, as plain data: commands in, news out.
//!
//! Every message can be written down and read again, and names the Golem it concerns, so that a console in another
//! process, or one for several Golems, needs no other words. Not here: what is done about a command (see
//! [`super::session`]), and what is drawn of the news.

mod snapshot;

use std::sync::Arc;

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::envelope::ToolResponse;
use crate::isolation::Isolation;
use crate::market::Update;
use crate::questions::{Confirmation, OperatorAnswer, Question, QuestionKey};
use bardo_base::fabric::Event;
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Phase, Profile, RiskTier, StopLevel, TickBudget,
};
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

pub use snapshot::{
    AllowanceNow, AllowancesNow, BreakerNow, ChainHoldings, GrantNow, Holding, Limits, PolicyNow, SilentToken,
    Snapshot, SpendNow, StopLossNow, StopNow,
};

/// News that may wait; a console that is slower makes the session's forwarder wait, and then misses events, which it
/// is told.
pub const NEWS_WAITING: usize = 256;

/// Commands that may wait.
pub const COMMANDS_WAITING: usize = 64;

/// One command, and the Golem it is meant for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Which Golem; `operator` for what concerns no Golem.
    pub golem_id: GolemId,
    /// What is wanted.
    pub command: Command,
}

/// What an operator can want.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Command {
    /// Call a tool by hand, through the same pipeline as everybody.
    Call {
        /// Finds the answer among the news; chosen by whoever asks.
        ticket: u64,
        /// Which tool.
        tool: String,
        /// Its parameters.
        params: Value,
        /// Go as far as a signature, and stop before it.
        dry_run: bool,
        /// Makes the call once, however often it is sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Preview a write by hand and hold it: the answer is the simulated offer, with its permit, and then the question
    /// whether to do it. It lapses with that, or when another is asked for. An [`Command::Answer`] under its permit does
    /// or withdraws it.
    Offer {
        /// Finds the answer among the news; chosen by whoever asks.
        ticket: u64,
        /// Which tool.
        tool: String,
        /// Its parameters.
        params: Value,
    },
    /// Do exactly what an offer said, or nothing.
    Commit {
        /// Finds the answer among the news.
        ticket: u64,
        /// The offer's permit.
        permit_id: PermitId,
        /// The hash that it was given with: of what was shown.
        simulation_hash: B256,
    },
    /// Cancel a call, as long as nothing is being signed.
    Cancel {
        /// Which call.
        call_id: CallId,
    },
    /// Answer a question.
    Answer {
        /// Which question.
        key: QuestionKey,
        /// The answer.
        answer: OperatorAnswer,
        /// What was read and typed before it was given.
        confirmation: Confirmation,
        /// The password of the account's key, where the question takes it. Never written down: it does not travel.
        #[serde(skip)]
        password: Option<Password>,
    },
    /// Stop new signatures at once; the choice of what to make of it follows.
    Hold,
    /// Take back one's own hold, and nothing else.
    ReleaseHold,
    /// Raise the stop ladder.
    Raise {
        /// To this level; a higher one that is in force stays.
        level: StopLevel,
        /// Why.
        reason: SafeText,
    },
    /// Ask for a lower stop: lays a question on the desk, because letting more through needs a decision.
    AskToLower {
        /// Only so far; `null` lifts the stop.
        level: Option<StopLevel>,
    },
    /// Ask for the end of paper mode, which needs a decision.
    AskToLeavePaper,
    /// Rehearse everything from now on; signs nothing any more, so it needs no decision.
    EnterPaper,
    /// Let the failure breaker close: asks for a decision.
    AskToResetBreaker,
    /// Say something to the Golem.
    Say {
        /// The words.
        words: SafeText,
    },
    /// Take a standing approval back.
    RevokeGrant {
        /// Its number in the snapshot.
        number: u64,
    },
    /// Look something up; the answer comes as news.
    Look {
        /// Finds the answer.
        ticket: u64,
        /// What.
        query: Query,
    },
    /// Do something to the devnet.
    Devnet(DevnetControl),
    /// Steer a recording.
    Replay(ReplayControl),
    /// Play a show, by its name or its file.
    Scenario {
        /// Which.
        name: String,
    },
    /// Let the next moment of a show come, where they come one by one.
    Step,
    /// Leave: ends the session.
    Leave(LeaveMode),
}

/// What can be done to the devnet, and to nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
pub enum DevnetControl {
    /// Make blocks.
    Mine {
        /// On which chain.
        chain_id: u64,
        /// How many, at most 256 at once.
        blocks: u32,
    },
    /// Let time pass: the next block is that much later.
    Advance {
        /// On which chain.
        chain_id: u64,
        /// By so much, at most 30 days at once.
        seconds: u64,
    },
    /// Let the market trade, or stand still.
    Market {
        /// Whether it trades.
        on: bool,
    },
    /// Let everything but the dollar coins fall over 10 blocks, for good.
    Crash {
        /// By how much, in basis points.
        bps: u32,
    },
    /// Let everything but the dollar coins rise over 10 blocks, and fall back over as many.
    Spike {
        /// By how much, in basis points.
        bps: u32,
    },
    /// Let blocks come by the clock, or only when asked.
    Blocks {
        /// Whether they come.
        running: bool,
    },
}

/// How a recording is steered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
pub enum ReplayControl {
    /// Pause, or go on.
    Toggle,
    /// One event further, paused.
    Step,
    /// Twice as fast.
    Faster,
    /// Half as fast.
    Slower,
    /// To a place, in per cent of its events.
    Seek {
        /// From 0 to 100.
        percent: u8,
    },
}

/// How to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaveMode {
    /// Begin nothing new, wait for what is signed, then end.
    Finish,
    /// Make open orders void first.
    CancelOrders,
    /// End now. What is signed stays in the ledger and is settled at the next start.
    Now,
}

/// What can be looked up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "look_up", rename_all = "snake_case")]
pub enum Query {
    /// Entries of the audit trail.
    Audit {
        /// After this number; 0 begins at the beginning.
        after: u64,
        /// Only of this call.
        call: Option<CallId>,
        /// At most so many, at most 1,000 at once.
        most: u32,
    },
    /// The newest entries of the audit trail.
    AuditTail {
        /// At most so many, at most 1,000 at once.
        most: u32,
    },
    /// Whether the audit trail is whole.
    VerifyAudit,
    /// Every event after one, as far as it is known: for whoever missed some.
    History {
        /// After this sequence number.
        after: u64,
    },
}

/// What a query found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum Found {
    /// Entries of the audit trail, oldest first.
    Audit {
        /// The entries.
        entries: Vec<AuditEntry>,
    },
    /// What the check of the trail came to.
    Verified {
        /// Whether it is whole.
        good: bool,
        /// How many entries there are.
        entries: u64,
        /// The head's hash.
        head: B256,
        /// What is wrong with it, a line each.
        faults: Vec<SafeText>,
    },
    /// Events.
    History {
        /// In order.
        events: Vec<Arc<Event>>,
        /// Up to which sequence number this is the truth.
        last: u64,
        /// Whether nothing older is missing.
        complete: bool,
    },
    /// It could not be looked up.
    Nothing {
        /// Why.
        why: SafeText,
    },
}

/// One entry of the audit trail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Its place in the trail, from 1.
    pub seq: u64,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// What kind.
    pub kind: SafeText,
    /// The call it belongs to.
    pub call_id: Option<SafeText>,
    /// Who acted.
    pub golem_id: SafeText,
    /// What it says, as JSON.
    pub body: Value,
    /// Its hash.
    pub hash: B256,
}

/// What the session tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "news", content = "of", rename_all = "snake_case")]
pub enum News {
    /// Of chains and markets, and of the boot.
    Market(Update),
    /// Who is here: told once the session stands.
    Ready(Box<Ready>),
    /// What happened, in order.
    Events(Vec<Arc<Event>>),
    /// All open questions, the oldest first; replaces what was told before.
    Questions(Arc<Vec<Question>>),
    /// What is not an event.
    Snapshot(Arc<Snapshot>),
    /// An action by hand is held and waits for its operator's answer, under its permit.
    Offered {
        /// The ticket of the command that asked for it; the answer to the call comes under it as well.
        ticket: u64,
        /// The question, which is not among the open ones.
        question: Box<Question>,
    },
    /// A call made by hand has its id.
    Began {
        /// The command's ticket.
        ticket: u64,
        /// The call.
        call_id: CallId,
    },
    /// A call made by hand is over.
    Reply {
        /// The command's ticket.
        ticket: u64,
        /// Its envelope.
        response: Box<ToolResponse>,
    },
    /// What a query found.
    Found {
        /// The command's ticket.
        ticket: u64,
        /// What.
        found: Box<Found>,
    },
    /// A command was carried out, or not, and this is what there is to say of it.
    Told {
        /// Whether it was carried out.
        done: bool,
        /// In a sentence.
        words: SafeText,
    },
    /// Where a recording is, after every step of it.
    Replay(ReplayNow),
    /// The session ends; nothing follows.
    Left(Box<Farewell>),
}

/// Where a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayNow {
    /// Whether it stands still until it is told to go on.
    pub paused: bool,
    /// Its speed, in hundredths of the recording's own pace.
    pub speed_percent: u32,
    /// Events told so far.
    pub told: u64,
    /// Events there are.
    pub of: u64,
}

/// Who is here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// The Golem that lives here.
    pub golem_id: GolemId,
    /// What the Golem is called on the screen.
    pub name: SafeText,
    /// Its role.
    pub role: SafeText,
    /// The tools that can be called by hand.
    pub tools: Vec<ToolInfo>,
    /// The shows that can be played.
    pub scenarios: Vec<SafeText>,
    /// The journal of this run, for `bardo replay`.
    pub journal: Option<SafeText>,
    /// What the agent understands at the prompt.
    #[serde(default)]
    pub commands: Vec<PromptCommand>,
    /// How far the system isolates the brain process that decides here; `None` where no process does.
    #[serde(default)]
    pub brain: Option<Isolation>,
    /// Why a console that only watches is not attached to a running session, and how to see one; `None` in a session
    /// that is not watched.
    #[serde(default)]
    pub not_attached: Option<SafeText>,
}

/// A command that the agent understands at the prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptCommand {
    /// Its first word.
    pub name: SafeText,
    /// What it does.
    pub description: SafeText,
    /// JSON Schema of its own parameters.
    pub schema: Value,
    /// Names of the parameters that may be given in order, without a name.
    pub in_order: Vec<SafeText>,
    /// Kinds that its first parameter names, each with the tool whose parameters it takes as well.
    pub kinds: Vec<CommandKind>,
}

/// A kind of action or of question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandKind {
    /// Its name.
    pub name: SafeText,
    /// The tool behind it.
    pub tool: SafeText,
}

/// A tool, as a screen shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// Its name.
    pub name: SafeText,
    /// What it does.
    pub description: SafeText,
    /// The area it belongs to.
    pub category: Category,
    /// The named tool sets it is in.
    pub profiles: Vec<Profile>,
    /// What it may do at all.
    pub capability: CapabilityTier,
    /// How far a mistake could reach.
    pub risk_tier: RiskTier,
    /// How long it may take.
    pub tick_budget: TickBudget,
    /// Its steps.
    pub progress_steps: Vec<SafeText>,
    /// What it does to positions.
    pub action_class: ActionClass,
    /// The checks it runs under.
    pub checks: Vec<Check>,
    /// What a model is told of it.
    pub prompt_snippet: SafeText,
    /// The guideline of each phase.
    pub guidelines: Vec<(Phase, SafeText)>,
    /// JSON Schema of its parameters.
    pub input_schema: Value,
    /// JSON Schema of its result.
    pub output_schema: Value,
    /// Parameters that work on the embedded devnet.
    pub example: Value,
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Farewell {
    /// Trades that succeeded.
    pub trades: u64,
    /// How far below their quotes they came on average, in hundredths of a basis point; less than 0: above. Absent
    /// where none had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_short: Option<i64>,
    /// Actions that were blocked.
    pub blocked: u64,
    /// Questions that were refused.
    pub refused: u64,
    /// Questions that nobody answered.
    pub lapsed: u64,
    /// Calls that failed.
    pub failed: u64,
    /// What everything was worth at the first look, and at the last.
    pub equity: Option<(Usd, Usd)>,
    /// What is signed and not settled, a line each.
    pub unsettled: Vec<SafeText>,
    /// What was to be done on leaving and was not, a line each.
    pub remarks: Vec<SafeText>,
    /// The journal of this run.
    pub journal: Option<SafeText>,
}

/// A console's end of a session.
#[derive(Debug)]
pub struct Handle {
    /// Commands go in here.
    pub commands: mpsc::Sender<Sent>,
    /// News comes out here, in order. It ends with the session.
    pub news: mpsc::Receiver<News>,
}

/// The session's end, for whoever plays the session: the real one, a replay, or a test.
#[derive(Debug)]
pub struct SessionEnd {
    /// Commands come out here. It ends when the console has gone.
    pub commands: mpsc::Receiver<Sent>,
    /// News goes in here.
    pub news: mpsc::Sender<News>,
}

impl Handle {
    /// Both ends.
    pub fn pair() -> (Self, SessionEnd) {
        let (commands, orders) = mpsc::channel(COMMANDS_WAITING);
        let (tell, news) = mpsc::channel(NEWS_WAITING);
        (Self { commands, news }, SessionEnd { commands: orders, news: tell })
    }
}
