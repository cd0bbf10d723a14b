//! Approval requests as plain data: everything that the approval dialog draws, and the answers that it accepts.
//!
//! A request about an action mirrors the one in the approval queue, which alone decides whether an answer counts. The
//! other kinds, which loosen a rule or a stop, are kept by the session. Figures are decimal strings made from exact
//! amounts; checks never read them.

pub mod sale_plan;
pub mod sections;
pub mod signed;

use std::fmt;

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use crate::handle::NamedAddress;
use crate::market::MoneyKind;
use bardo_base::fabric::{AskReason, BindingLimit, LiquidationMove, SafetyCheck, health_factor};

use bardo_base::display::readable_figure;
use bardo_base::format::time_of_day;
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Usd};

use crate::content::SignedContent;

pub use sale_plan::{PlannedAmount, SalePlan, StayingPosition};

pub use bardo_base::fabric::PolicyChange;

pub use crate::confirmation::{ApprovalRequirement, Confirmation, TypedConfirmation, WarningToRead};

/// Identity of an approval request in its current state. A request that is issued again under a new permit has a new
/// key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "about", content = "id", rename_all = "snake_case")]
pub enum QuestionKey {
    /// Request about an action, by its waiting permit.
    Action(PermitId),
    /// Request about a looser policy, by the policy's hash.
    Policy(B256),
    /// Request of the session itself, by its own number.
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

/// Number of the request about a manual action, which is not queued. Queued requests start at 1, and only one manual
/// action is held at a time.
pub const OFFER_NUMBER: u64 = 0;

/// Open approval request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Identity of the request and its state.
    pub key: QuestionKey,
    /// Number in order of first issue, which stays the same when the request is issued again.
    pub number: u64,
    /// Golem whose action waits; `operator` if the operator requested it.
    pub golem_id: GolemId,
    /// Call that the request belongs to.
    pub call_id: Option<CallId>,
    /// Position among all open requests, starting at 1.
    pub place: usize,
    /// Number of open requests.
    pub of: usize,
    /// Title in one line.
    pub title: SafeText,
    /// Dollar value of what leaves the wallet, without gas, at the highest price; `None` if nothing leaves.
    pub value: Option<Usd>,
    /// Kind of money that moves.
    pub money: MoneyKind,
    /// Time of the first issue, in milliseconds since the Unix epoch.
    pub asked_at: u64,
    /// Time at which the request lapses, or passes without an answer, in milliseconds since the Unix epoch; `None` for
    /// never.
    pub ends_at: Option<u64>,
    /// True if the request passes without an answer when its time is over.
    pub passes_by_itself: bool,
    /// Reasons for the request.
    pub reasons: Vec<AskReason>,
    /// Descriptions of what the last worse simulation changed.
    pub changed: Vec<SafeText>,
    /// Number of new simulations with a worse result. Read marks and choices stay valid while it is the same.
    #[serde(default)]
    pub revision: u32,
    /// Second operator's approval that must be given before an approval counts; `None` if none is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<SecondApprovalRequest>,
    /// Warnings that must be read before an approval counts.
    pub to_read: Vec<WarningToRead>,
    /// Text that must be typed before an approval counts.
    pub confirm: Option<TypedConfirmation>,
    /// True if an approval needs the password of the account's key.
    #[serde(default)]
    pub needs_password: bool,
    /// All answers in their fixed order, each with the reason if it is not available.
    pub answers: Vec<AnswerOption>,
    /// Subject of the request.
    pub about: RequestSubject,
}

impl RequestSubject {
    /// True for a request to sell all holdings.
    pub fn sells_holdings(&self) -> bool {
        matches!(self, Self::SellHoldings { .. })
    }
}

impl Question {
    /// Requirements that an approval must meet.
    pub fn requirement(&self) -> ApprovalRequirement {
        ApprovalRequirement { to_read: self.to_read.clone(), confirm: self.confirm.clone() }
    }
}

/// Subject of an approval request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RequestSubject {
    /// Action that would be signed.
    Action(Box<ActionRequest>),
    /// Policy that allows more than the current one.
    Policy(PolicyRequest),
    /// Lower stop level, or none.
    Lower {
        /// Level in force.
        from: Option<StopLevel>,
        /// Requested level; `None` lifts the stop.
        to: Option<StopLevel>,
        /// Initiator of the stop, and the reason.
        said: SafeText,
    },
    /// End of paper mode, after which transactions are signed.
    LeavePaper,
    /// Reset of the failure breaker.
    ResetBreaker {
        /// Number of failures in a row.
        failures: u32,
    },
    /// Sale of all holdings, because the Golem died or positions are to be closed.
    SellHoldings {
        /// Its plan; absent in recordings of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<Box<SalePlan>>,
    },
}

/// Second operator's approval that a request needs. It is a signature over the request, so its delivery needs no rights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondApprovalRequest {
    /// Addresses whose signature counts; one is enough.
    pub approvers: Vec<Address>,
    /// Hash of the policy in force, which is part of what is signed.
    pub policy: B256,
    /// Hash of the audit log's newest entry about a policy; only for a looser policy, where it is part of what is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<B256>,
    /// Approval that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<SecondApprovalGiven>,
}

/// Second operator's approval that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondApprovalGiven {
    /// Address of the second operator.
    pub by: Address,
    /// Time at which it was given, in milliseconds since the Unix epoch.
    pub at: u64,
}

impl SecondApprovalRequest {
    /// Reason that the request cannot be approved yet; `None` once the second approval was given.
    pub fn why_not(&self) -> Option<SafeText> {
        let missing = || SafeText::clean("a second operator must approve first, with `bardo approve`", 80);
        self.given.is_none().then(missing)
    }
}

/// Looser policy to approve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRequest {
    /// File of the policy.
    pub file: SafeText,
    /// Changes against the current policy.
    pub changes: Vec<PolicyChange>,
    /// Lower limits of the new policy that bind in the place of those that would be looser; absent in recordings of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binding: Vec<BindingLimit>,
    /// Names of the addresses in the changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NamedAddress>,
    /// Exact texts of both policies, from which a second operator computes hashes and changes again. They are parsed,
    /// never drawn. `None` if no second approval is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<PolicyTexts>,
}

/// Texts of two policies, each as the list of texts whose strictest combination it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyTexts {
    /// Texts of the policy in force.
    pub in_force: Vec<String>,
    /// Texts of the new policy.
    pub new: Vec<String>,
}

/// Action that would be signed, with everything that is known about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionRequest {
    /// Name of the tool.
    pub tool: SafeText,
    /// Intent of the action, such as `swap` or `approve`.
    pub intent: SafeText,
    /// Name of the chain.
    pub chain: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Expiry of the simulated offer, in milliseconds since the Unix epoch.
    pub valid_until: u64,
    /// Time of the simulation, in milliseconds since the Unix epoch.
    pub valid_since: u64,
    /// Roles that the call passed through, the requesting one first.
    pub asked_by: Vec<SafeText>,
    /// Second opinion of the safety-guardian, if it was requested.
    pub opinion: Option<OpinionDetails>,
    /// Reason that the agent gave for this action, in its own words. Not checked.
    pub words: Option<SafeText>,
    /// Time of the quote behind the action, in milliseconds since the Unix epoch; `None` without a quote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted_at: Option<u64>,
    /// Block of the simulation.
    pub block: u64,
    /// Token balances that change.
    pub changes: Vec<TokenChange>,
    /// Supply, debt and health factor that a lending action changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lending: Option<Box<LendingChange>>,
    /// Arrival of tokens on another chain.
    pub arrival: Option<ArrivalDetails>,
    /// Order message that would be signed for others to settle.
    pub order: Option<OrderDetails>,
    /// Content that the action publishes in a registry of agents, as names and texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publishes: Vec<(SafeText, SafeText)>,
    /// Allowances after the action.
    pub allowances: Vec<AllowanceAfter>,
    /// `Ok` if the simulation shows that nothing else moves; else the reason why that is unknown.
    pub nothing_else: Result<(), SafeText>,
    /// Costs of the action.
    pub costs: ActionCosts,
    /// Addresses that take part in the action.
    pub places: Vec<ActionAddress>,
    /// Verdicts of all checks.
    pub checks: Vec<SafetyCheck>,
    /// Permit of the action.
    pub permit: PermitId,
    /// Hash over the content, the policy and the bounds.
    pub hash: B256,
    /// Calls as they would be signed.
    pub raw: Vec<RawCall>,
    /// Content of the hash. A process that draws the request recomputes the hash and everything that it shows of the
    /// signed bytes from it. `None` if it is not shared, such as in a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Box<BoundContent>>,
    /// Amount that a smaller one would replace, and its token; `None` if the action has no such amount.
    pub amount: Option<(String, SafeText)>,
    /// Scope of a standing approval for such actions; `None` if none can be given.
    #[serde(default)]
    pub similar: Option<SimilarScope>,
}

/// Change that a lending action makes in the market, by its simulation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LendingChange {
    /// Symbol of the token that is supplied, withdrawn, borrowed or repaid.
    pub symbol: SafeText,
    /// Supply before and after, in whole tokens.
    pub supply: [String; 2],
    /// Debt before and after, in whole tokens.
    pub debt: [String; 2],
    /// Health factor of the account before and after, in hundredths; `None` without a debt.
    pub health: [Option<u64>; 2],
    /// Changes of single prices that make the debt liquidable afterwards.
    pub moves: Vec<LiquidationMove>,
}

impl LendingChange {
    /// Lines for people: a word and what changes, with figures of at most `places` decimals.
    pub fn lines(&self, places: usize) -> Vec<(&'static str, String)> {
        let Self { symbol, supply, debt, health, moves } = self;
        let amounts = [("supply", supply), ("debt", debt)].into_iter().filter(|(_, [before, after])| before != after);
        let amounts = amounts.map(|(word, [before, after])| {
            let short = |figure: &str| readable_figure(figure, places);
            (word, format!("{} → {} {symbol}", short(before), short(after)))
        });
        let [before, after] = health;
        let factor = (before.is_some() || after.is_some())
            .then(|| ("health factor", format!("{} → {}", health_factor(*before), health_factor(*after))));
        let moves = moves.iter().map(|found| ("then", found.to_string()));
        amounts.chain(factor).chain(moves).collect()
    }
}

/// Scope of a standing approval, besides its duration and its total.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimilarScope {
    /// Agent that may act without further approval.
    pub golem_id: GolemId,
    /// Tool that may be used.
    pub tool: SafeText,
    /// Symbols of the tokens that may leave.
    pub gives: Vec<SafeText>,
    /// Symbols of the tokens that arrive.
    pub gets: Vec<SafeText>,
    /// Addresses that receive something.
    pub receivers: Vec<Address>,
    /// Id of the destination chain of a bridge order; `None` without one.
    pub arrives_on: Option<u64>,
    /// The largest slippage that may be allowed; `None` in recordings of earlier versions.
    #[serde(default)]
    pub slippage: Option<BasisPoints>,
    /// The largest size of one action that it covers, in dollars; `None` without a limit, and in recordings of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each_up_to: Option<Usd>,
}

/// Content of a permit's hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundContent {
    /// Content that would be signed.
    pub content: SignedContent,
    /// Hash of everything else that the permit binds.
    pub rest: B256,
}

/// Second opinion of the safety-guardian.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpinionDetails {
    /// True if it agrees with the action.
    pub agrees: bool,
    /// Reason for the opinion.
    pub why: SafeText,
}

/// Change of one token's balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenChange {
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Contract of the token; `None` for the native token.
    pub address: Option<Address>,
    /// Expected change in whole tokens, with its sign.
    pub expected: String,
    /// Expected change in dollars, with its sign; `None` without a price.
    pub dollars: Option<String>,
    /// Balance before, in whole tokens.
    pub before: String,
    /// Balance after, in whole tokens.
    pub after: String,
    /// Worst change that is allowed, in whole tokens with its sign.
    pub worst: Option<String>,
    /// True for the native token that pays for gas.
    pub gas: bool,
}

/// Arrival of a bridge order's tokens on another chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrivalDetails {
    /// EIP-155 id of that chain.
    pub chain_id: u64,
    /// Symbol of the token there.
    pub symbol: SafeText,
    /// Contract of the token there; `None` for the native token.
    pub address: Option<Address>,
    /// Expected amount, in whole tokens.
    pub expected: String,
    /// Minimum amount that settles the order, in whole tokens.
    pub least: String,
    /// Decimals of the token there; `None` in recordings of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decimals: Option<u8>,
}

/// Order message that would be signed for others to settle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderDetails {
    /// Name of the primary type.
    pub kind: SafeText,
    /// Time until which it can be settled, in seconds since the Unix epoch.
    pub usable_until: u64,
    /// Fields with their values, as they are signed.
    pub fields: Vec<(SafeText, SafeText)>,
}

impl OrderDetails {
    /// Time until which a bridge order can be delivered, in seconds since the Unix epoch: the deadline that was asked for.
    /// `None` for an order on one chain. It is signed as `fillDeadline`
    /// ([ERC-7683](https://eips.ethereum.org/EIPS/eip-7683)).
    pub fn delivered_by(&self) -> Option<u64> {
        self.fields.iter().find(|(name, _)| name.as_str() == "fillDeadline")?.1.as_str().parse().ok()
    }
}

/// Allowance of a spender after the action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowanceAfter {
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Address that may spend it.
    pub spender: Address,
    /// Display name of the spender, if known.
    pub label: Option<SafeText>,
    /// Maximum amount, in whole tokens.
    pub amount: String,
    /// True if the amount is practically unlimited.
    pub unlimited: bool,
    /// True for an allowance in Permit2.
    pub through_permit2: bool,
    /// Expiry in seconds since the Unix epoch; only for an allowance in Permit2.
    pub expires_at: Option<u64>,
    /// Amount before the action, if the simulation reports it.
    pub before: Option<String>,
    /// True if the amount was practically unlimited before the action.
    #[serde(default)]
    pub before_unlimited: bool,
    /// The part of it that orders which are open already may still take, in whole tokens; `None` where there is none.
    #[serde(default)]
    pub for_open_orders: Option<String>,
    /// Maximum amount until the requested order is settled, in whole tokens: the remaining allowance plus what the
    /// order takes. `None` without an order.
    #[serde(default)]
    pub until_settled: Option<String>,
}

impl AllowanceAfter {
    /// Sentence about the allowance of `who`, with amounts of at most `places` decimals. It names the amount before and
    /// what open orders may take.
    pub fn describe(&self, who: &str, places: usize) -> String {
        let short = |figure: &str| readable_figure(figure, places);
        let zero = |figure: &str| figure.chars().all(|c| matches!(c, '0' | '.'));
        let symbol = &self.symbol;
        let none = !self.unlimited && zero(&self.amount);
        let amount = if self.unlimited { "WITHOUT LIMIT".to_owned() } else { short(&self.amount) };
        let until = self.expires_at.map(|at| format!(" until {}", time_of_day(at))).unwrap_or_default();
        let was = match &self.before {
            Some(_) if self.before_unlimited => "was unlimited; ".to_owned(),
            Some(before) if zero(before) => "was none; ".to_owned(),
            Some(before) => format!("was {} {symbol}; ", short(before)),
            None => String::new(),
        };
        let kind = if self.unlimited { "unlimited" } else { "exact, not unlimited" };
        let orders = match &self.for_open_orders {
            Some(part) if *part == self.amount && !self.unlimited => " for your open orders".to_owned(),
            Some(part) => format!(", {} of it for your open orders", short(part)),
            None => String::new(),
        };
        match (&self.until_settled, none) {
            (Some(most), _) if !self.unlimited => {
                let then = if none { format!("no {symbol}") } else { format!("{amount} {symbol}{orders}") };
                format!("{who} may take {} {symbol} until it is settled, then {then}  ({was}{kind})", short(most))
            }
            (_, true) => {
                let was = self.before.as_deref().filter(|before| self.before_unlimited || !zero(before));
                let was = was.map_or("as before".to_owned(), |before| match self.before_unlimited {
                    true => "was unlimited".to_owned(),
                    false => format!("was {} {symbol}", short(before)),
                });
                format!("{who} may take no {symbol} afterwards  ({was})")
            }
            (_, false) => format!("{who} may take {amount} {symbol}{orders}{until}  ({was}{kind})"),
        }
    }
}

impl ActionRequest {
    /// Returns true if another address signs and pays the gas than the account whose assets are moved.
    pub fn has_own_signer(&self) -> bool {
        self.places.iter().any(|place| place.part == AddressPart::Signer)
    }
}

/// Costs of an action in dollars.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionCosts {
    /// Value spent, gas included.
    pub spent: Usd,
    /// Amount that counts toward the limits: for a fair exit its possible loss and gas. `None` in recordings of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Usd>,
    /// Minimum value that is certain to arrive.
    pub received: Usd,
    /// Maximum gas cost.
    pub gas: Usd,
    /// Worst-case loss of a trade, in basis points of the outgoing value; `None` for other actions, or if unknown.
    pub worst_loss_bps: Option<u64>,
    /// Expected loss of a trade, in dollars and in basis points of the outgoing value; `None` as above.
    pub expected_loss: Option<(Usd, u64)>,
}

/// Part of an address in an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressPart {
    /// Account whose assets are moved.
    From,
    /// Signer, if it is a different address.
    Signer,
    /// Called contract or account.
    Calls,
    /// Address that may spend.
    Spender,
    /// Address that receives something.
    Receiver,
}

/// Address that takes part in an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionAddress {
    /// Part in the action.
    pub part: AddressPart,
    /// Address in full.
    pub address: Address,
    /// Display name, if known: from the address book, or the operator's words.
    pub label: Option<SafeText>,
    /// True if the policy lists the address for this part. Being known otherwise does not count.
    #[serde(default)]
    pub listed: bool,
    /// True if the address is in the network's address book. A label alone does not put it there.
    #[serde(default)]
    pub in_book: bool,
    /// True for the account itself.
    pub is_from: bool,
    /// True if this installation has never paid the address.
    pub first_seen: bool,
}

/// Call as it would be signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawCall {
    /// Purpose of the call in the plan.
    pub purpose: SafeText,
    /// Contract or account that is called.
    pub to: Address,
    /// Value sent with the call, in wei.
    pub value_wei: String,
    /// Gas limit of the call.
    pub gas_limit: u64,
    /// Calldata in hexadecimal.
    pub data: String,
    /// Typed messages that would be signed inside the calldata, one line each.
    pub signs: Vec<SafeText>,
}

/// Kind of an answer, in fixed order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// Approves this request once.
    Once,
    /// Approves this and similar actions for a while.
    Similar,
    /// Requests a smaller amount.
    Smaller,
    /// Rejects the action.
    Refuse,
    /// Rejects the action and stops everything.
    RefuseAndStop,
}

impl AnswerKind {
    /// All kinds, in their fixed order.
    pub const ALL: [Self; 5] = [Self::Once, Self::Similar, Self::Smaller, Self::Refuse, Self::RefuseAndStop];

    /// Returns true if the answer can lead to a signature: an approval, or a request for a smaller amount.
    pub const fn lets_through(self) -> bool {
        match self {
            Self::Once | Self::Similar | Self::Smaller => true,
            Self::Refuse | Self::RefuseAndStop => false,
        }
    }

    /// Returns true if the answer approves the request unchanged.
    pub const fn is_approval(self) -> bool {
        match self {
            Self::Once | Self::Similar => true,
            Self::Smaller | Self::Refuse | Self::RefuseAndStop => false,
        }
    }

    /// Letter that chooses the answer, the same in every layout.
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

/// Answer of a request, and whether it is available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerOption {
    /// Kind of the answer.
    pub kind: AnswerKind,
    /// Reason why it is not available; `None` if it is.
    pub why_not: Option<SafeText>,
}

/// Answer of the operator to an approval request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum OperatorAnswer {
    /// Approves this request once.
    Once,
    /// Approves this and similar actions for a while.
    Similar {
        /// Duration in milliseconds.
        millis: u64,
        /// Maximum total in dollars, this action included.
        total: Usd,
    },
    /// Requests a smaller amount.
    Smaller {
        /// Amount in whole tokens.
        amount: String,
    },
    /// Rejects the action.
    Refuse {
        /// Reason, reported to the Golem.
        reason: SafeText,
    },
    /// Rejects the action and stops everything.
    RefuseAndStop {
        /// Reason for the rejection and the stop.
        reason: SafeText,
    },
}

impl OperatorAnswer {
    /// Kind of the answer, without its values.
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
