//! What the operator is asked, as plain data: everything the decision draws, and the answers it takes.
//!
//! A question about an action mirrors the one on the approval desk, which alone decides whether an answer counts. The
//! other kinds, which loosen a rule or a stop, are kept by the session. Figures are decimal strings made here from
//! exact amounts; nothing that is checked reads them back.

pub mod sections;

use std::fmt;

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use crate::market::Money;
use bardo_base::fabric::{AskReason, SafetyCheck};

use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

use crate::content::SignedContent;

pub use bardo_base::fabric::PolicyChange;

pub use crate::confirmation::{Confirm, Confirmation, Requirement, ToRead};

/// Names a question, and the state it is in: a question that is asked anew under a new permit has a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "about", content = "id", rename_all = "snake_case")]
pub enum QuestionKey {
    /// An action, by the permit that waits.
    Action(PermitId),
    /// A looser policy, by its hash.
    Policy(B256),
    /// Something the session asks by itself, by a number of its own.
    Own(u64),
}

impl fmt::Display for QuestionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(permit) => write!(f, "{permit}"),
            Self::Policy(hash) => write!(f, "{hash}"),
            Self::Own(number) => write!(f, "{number}"),
        }
    }
}

/// Number of the question about an action by hand, which is not queued: those in the queue count from 1, and one is held
/// at a time.
pub const OFFER_NUMBER: u64 = 0;

/// One open question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Names it.
    pub key: QuestionKey,
    /// Counts questions in the order they were first asked, and stays when one is asked anew.
    pub number: u64,
    /// Whose action waits; `operator` where the operator asked for something.
    pub golem_id: GolemId,
    /// The call it belongs to.
    pub call_id: Option<CallId>,
    /// Its place among all open questions, from 1.
    pub place: usize,
    /// How many are open.
    pub of: usize,
    /// What is asked, in a line.
    pub title: SafeText,
    /// Dollars of what leaves the wallet, without gas, at the highest price; `None` where nothing leaves.
    pub value: Option<Usd>,
    /// Whose money.
    pub money: Money,
    /// When it was first asked, in milliseconds since the Unix epoch.
    pub asked_at: u64,
    /// When it lapses, or passes by itself; `None`: never.
    pub ends_at: Option<u64>,
    /// Whether silence lets it pass when the time is over.
    pub passes_by_itself: bool,
    /// Why it is asked.
    pub reasons: Vec<AskReason>,
    /// What became worse when it was last simulated again with a worse result.
    pub changed: Vec<SafeText>,
    /// Count of new simulations with a worse result. What was read and picked holds as long as it stays the same.
    #[serde(default)]
    pub revision: u32,
    /// What must be read before a yes counts.
    pub to_read: Vec<ToRead>,
    /// What must be typed before a yes counts.
    pub confirm: Option<Confirm>,
    /// Whether an approval takes the password of the account's key.
    #[serde(default)]
    pub needs_password: bool,
    /// The answers there are, each with why it cannot be given, in their fixed order.
    pub answers: Vec<Offered>,
    /// What it is about.
    pub about: About,
}

impl Question {
    /// What an approval must come with.
    pub fn requirement(&self) -> Requirement {
        Requirement { to_read: self.to_read.clone(), confirm: self.confirm.clone() }
    }
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum About {
    /// An action that would be signed.
    Action(Box<ActionAsked>),
    /// A policy that lets more through.
    Policy(PolicyAsked),
    /// A lower stop, or none.
    Lower {
        /// What is in force.
        from: Option<StopLevel>,
        /// What it would be.
        to: Option<StopLevel>,
        /// Who stopped, and why.
        said: SafeText,
    },
    /// The end of paper mode: from then on things are signed.
    LeavePaper,
    /// The failure breaker is to close.
    ResetBreaker {
        /// Failures in a row.
        failures: u32,
    },
    /// Everything that is held is to be sold: the Golem has died, or positions are to be left.
    SellHoldings,
}

/// A looser policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyAsked {
    /// The file it stands in.
    pub file: SafeText,
    /// What it changes.
    pub changes: Vec<PolicyChange>,
}

/// An action that would be signed, with everything that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionAsked {
    /// The tool.
    pub tool: SafeText,
    /// What it is for: `swap`, `approve`, …
    pub intent: SafeText,
    /// The chain's name.
    pub chain: SafeText,
    /// Its id.
    pub chain_id: u64,
    /// Until when the simulated offer serves, in milliseconds since the Unix epoch.
    pub valid_until: u64,
    /// Since when.
    pub valid_since: u64,
    /// The roles the call ran through, the first asked.
    pub asked_by: Vec<SafeText>,
    /// What the safety-guardian thinks, where it was asked.
    pub opinion: Option<OpinionTold>,
    /// The reason that the agent gave for this action, in its own words: unchecked.
    pub words: Option<SafeText>,
    /// When the quote it goes by was made, in milliseconds since the Unix epoch; absent where it goes by none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted_at: Option<u64>,
    /// The block it was simulated on.
    pub block: u64,
    /// The tokens that move.
    pub changes: Vec<Change>,
    /// What comes to the account on another chain.
    pub arrival: Option<ArrivalTold>,
    /// The message that would be signed for others to settle.
    pub order: Option<OrderTold>,
    /// What others may take afterwards.
    pub allowances: Vec<AllowanceAfter>,
    /// Whether nothing else moves, as far as the simulation can see all; else why it cannot.
    pub nothing_else: Result<(), SafeText>,
    /// What it costs.
    pub costs: Costs,
    /// Every address that plays a part.
    pub places: Vec<Place>,
    /// Every check.
    pub checks: Vec<SafetyCheck>,
    /// The permit.
    pub permit: PermitId,
    /// What binds the bytes, the policy and the bounds.
    pub hash: B256,
    /// The calls as they would be signed.
    pub raw: Vec<RawCall>,
    /// What the hash is made of. A process that draws the question recomputes the hash from it, and everything that is
    /// drawn of the signed bytes from it as well; `None` where nothing is shared, such as in a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Box<BoundContent>>,
    /// The amount a smaller one would replace, and its token.
    pub amount: Option<(String, SafeText)>,
    /// What a standing approval would be bound to; `None` where none can be given.
    #[serde(default)]
    pub similar: Option<SimilarScope>,
}

/// What a standing approval is bound to, beside its time and its total.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimilarScope {
    /// The agent that may act without asking.
    pub golem_id: GolemId,
    /// The one tool.
    pub tool: SafeText,
    /// Symbols of the tokens that may go out.
    pub gives: Vec<SafeText>,
    /// Symbols of the tokens that come in.
    pub gets: Vec<SafeText>,
    /// Everyone who receives something.
    pub receivers: Vec<Address>,
    /// Id of the other chain that a bridge order brings something on.
    pub arrives_on: Option<u64>,
}

/// What a permit's hash is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundContent {
    /// What would be signed.
    pub content: SignedContent,
    /// Hash of everything else that the permit binds.
    pub rest: B256,
}

/// What the safety-guardian thinks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpinionTold {
    /// Whether it agrees.
    pub agrees: bool,
    /// Why.
    pub why: SafeText,
}

/// One token's balance before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The token's symbol.
    pub symbol: SafeText,
    /// Its contract; `None` for the chain's coin.
    pub address: Option<Address>,
    /// What is thought to come or go, with its sign.
    pub expected: String,
    /// The same in dollars, with its sign; `None` without a price.
    pub dollars: Option<String>,
    /// Held before.
    pub before: String,
    /// Held afterwards.
    pub after: String,
    /// The worst that is let through, with its sign.
    pub worst: Option<String>,
    /// Whether it is the coin that pays for gas.
    pub gas: bool,
}

/// What a bridge order brings on another chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrivalTold {
    /// EIP-155 id of that chain.
    pub chain_id: u64,
    /// The token's symbol there.
    pub symbol: SafeText,
    /// Its contract there; `None` for the chain's coin.
    pub address: Option<Address>,
    /// What is thought to come, in whole tokens.
    pub expected: String,
    /// The least that settles the order, in whole tokens.
    pub least: String,
}

/// A message that would be signed for others to settle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderTold {
    /// The name of the type that is signed.
    pub kind: SafeText,
    /// Until when it can be settled, in seconds since the Unix epoch.
    pub usable_until: u64,
    /// Every field with its value, as it is signed.
    pub fields: Vec<(SafeText, SafeText)>,
}

/// What somebody may take afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowanceAfter {
    /// The token's symbol.
    pub symbol: SafeText,
    /// Who may take it.
    pub spender: Address,
    /// Who that is.
    pub label: Option<SafeText>,
    /// At most so much, in whole tokens.
    pub amount: String,
    /// Whether it is as good as unlimited.
    pub unlimited: bool,
    /// Whether it stands inside Permit2.
    pub through_permit2: bool,
    /// When it ends, in seconds since the Unix epoch; only inside Permit2.
    pub expires_at: Option<u64>,
    /// What it was before, where the simulation tells.
    pub before: Option<String>,
    /// Whether it was as good as unlimited before.
    #[serde(default)]
    pub before_unlimited: bool,
    /// The part of it that orders which are open already may still take, in whole tokens; `None` where there is none.
    #[serde(default)]
    pub for_open_orders: Option<String>,
    /// At most so much until the order that is asked about is settled, in whole tokens: what stays, and what the order
    /// takes. `None` where no order is.
    #[serde(default)]
    pub until_settled: Option<String>,
}

/// What an action costs. Dollars; `None` where it cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// What is spent, gas included.
    pub spent: Usd,
    /// What counts against the limits: for a fair exit its possible loss and gas. Absent in recordings of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Usd>,
    /// The least that is certain to come in.
    pub received: Usd,
    /// Gas at most.
    pub gas: Usd,
    /// How far the worst that comes in is below what goes out, in basis points of the latter.
    pub worst_loss_bps: Option<u64>,
    /// How far what is expected to come in is below what goes out, in dollars and basis points.
    pub expected_loss: Option<(Usd, u64)>,
}

/// What an address is to an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Whose money it is.
    From,
    /// Who signs, where that is somebody else.
    Signer,
    /// What is called.
    Calls,
    /// Who may take.
    Spender,
    /// Who receives.
    Receiver,
}

/// An address that plays a part, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Which part.
    pub part: Part,
    /// The address.
    pub address: Address,
    /// Who that is, where it is known.
    pub label: Option<SafeText>,
    /// Whether the policy lists it by its address, for this part; what is only known anyway is not listed.
    #[serde(default)]
    pub listed: bool,
    /// Whether it is the account itself.
    pub is_from: bool,
    /// Whether nobody here has ever paid it.
    pub first_seen: bool,
}

/// One call as it would be signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawCall {
    /// Why it is in the plan.
    pub purpose: SafeText,
    /// Called.
    pub to: Address,
    /// Wei sent along.
    pub value_wei: String,
    /// Gas at most.
    pub gas_limit: u64,
    /// The calldata, in hexadecimal.
    pub data: String,
    /// Typed data that would be signed inside it, a line each.
    pub signs: Vec<SafeText>,
}

/// The kinds of answer, in their fixed order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// Yes, to this.
    Once,
    /// Yes, to this and to more of its kind for a while.
    Similar,
    /// A smaller amount.
    Smaller,
    /// No.
    Refuse,
    /// No, and everything stops.
    RefuseAndStop,
}

impl AnswerKind {
    /// All of them, in their fixed order.
    pub const ALL: [Self; 5] = [Self::Once, Self::Similar, Self::Smaller, Self::Refuse, Self::RefuseAndStop];

    /// Whether it lets something be signed: an approval, or a request for a smaller amount.
    pub const fn lets_through(self) -> bool {
        match self {
            Self::Once | Self::Similar | Self::Smaller => true,
            Self::Refuse | Self::RefuseAndStop => false,
        }
    }

    /// Whether it approves what is asked as it is.
    pub const fn is_approval(self) -> bool {
        match self {
            Self::Once | Self::Similar => true,
            Self::Smaller | Self::Refuse | Self::RefuseAndStop => false,
        }
    }

    /// The letter that picks it, the same in every layout.
    pub const fn letter(self) -> char {
        match self {
            Self::Once => 'a',
            Self::Similar => 's',
            Self::Smaller => 'e',
            Self::Refuse => 'r',
            Self::RefuseAndStop => 'h',
        }
    }
}

/// An answer, and why it cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// Which.
    pub kind: AnswerKind,
    /// Why not; `None` if it can be given.
    pub why_not: Option<SafeText>,
}

/// What the operator answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum OperatorAnswer {
    /// Yes, to this.
    Once,
    /// Yes, to this and to more of its kind for a while.
    Similar {
        /// For how long, in milliseconds.
        millis: u64,
        /// Up to how much in all, this one included.
        total: Usd,
    },
    /// A smaller amount, in whole tokens.
    Smaller {
        /// The amount.
        amount: String,
    },
    /// No.
    Refuse {
        /// Why, for the Golem.
        reason: SafeText,
    },
    /// No, and everything stops.
    RefuseAndStop {
        /// Why.
        reason: SafeText,
    },
}

impl OperatorAnswer {
    /// Which kind it is.
    pub const fn kind(&self) -> AnswerKind {
        match self {
            Self::Once => AnswerKind::Once,
            Self::Similar { .. } => AnswerKind::Similar,
            Self::Smaller { .. } => AnswerKind::Smaller,
            Self::Refuse { .. } => AnswerKind::Refuse,
            Self::RefuseAndStop { .. } => AnswerKind::RefuseAndStop,
        }
    }
}
