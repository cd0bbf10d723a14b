//! Means by which writes act: the pipeline, the signing account, the approval mode and paper mode. The engine passes
//! them on; the pipeline makes the decisions.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use bardo_safety::account::Account;
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_safety::paper::PaperLedger;
use bardo_safety::pipeline::Pipeline;

/// Means by which an executor can perform writes, not only reads.
#[derive(Debug, Clone)]
pub struct WriteAccess {
    /// Write pipeline. No other path leads to a signature.
    pub pipeline: Pipeline,
    /// Account that pays and signs.
    pub account: Arc<dyn Account>,
    /// Current phase of the actor, read at each call. A call may tighten it, never loosen it.
    pub phase: watch::Receiver<Phase>,
    /// Approval mode for calls that do not set one.
    pub approve: ApprovalMode,
    /// Paper mode of this account.
    pub paper: PaperMode,
}

impl WriteAccess {
    /// Returns a copy that uses the paper ledger, if paper mode was on at `then` and a paper ledger exists.
    pub fn as_of(&self, then: PaperModeAtStart) -> Self {
        let mut acting = self.clone();
        if let Some(trading) = self.paper.trading().filter(|_| then.on()) {
            acting.pipeline = trading.pipeline.clone();
        }
        acting
    }

    /// True if a call that began at `then` can only be rehearsed: there is no paper ledger, or the mode has changed
    /// since.
    pub fn only_rehearses(&self, then: PaperModeAtStart) -> bool {
        self.paper.turned_since(then) || then.on() && self.paper.trading().is_none()
    }
}

/// Paper mode switch with its optional paper ledger. Clones share the switch. Switching it off enables signing again,
/// so the caller needs the operator's approval. Calls that began in paper mode stay in paper mode.
#[derive(Debug, Clone, Default)]
pub struct PaperMode {
    /// Number of changes; an odd count means on.
    turns: Arc<AtomicU64>,
    /// Paper ledger. Without it, actions are only rehearsed.
    trading: Option<Arc<PaperTrading>>,
}

/// Paper ledger of a network, with the pipeline and the rules of paper mode.
#[derive(Debug)]
pub struct PaperTrading {
    /// Pipeline that signs nothing.
    pub pipeline: Pipeline,
    /// Ledger of paper balances, orders and allowances.
    pub ledger: PaperLedger,
    /// Operator's rules, counting only paper actions.
    pub rules: Arc<OperatorPolicyEngine>,
}

/// State of the paper mode switch when a call began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaperModeAtStart(u64);

impl PaperModeAtStart {
    /// True if paper mode was on.
    pub fn on(self) -> bool {
        is_on(self.0)
    }
}

impl PaperMode {
    /// Creates a switch in the given position, without a paper ledger.
    pub fn new(on: bool) -> Self {
        Self { turns: Arc::new(AtomicU64::new(u64::from(on))), trading: None }
    }

    /// Creates a switch in the given position, with a paper ledger.
    pub fn with(on: bool, trading: PaperTrading) -> Self {
        Self { trading: Some(Arc::new(trading)), ..Self::new(on) }
    }

    /// Returns the paper ledger, whether or not paper mode is on.
    pub fn trading(&self) -> Option<&PaperTrading> {
        self.trading.as_deref()
    }

    /// Returns the paper ledger while paper mode is on.
    pub fn in_force(&self) -> Option<&PaperTrading> {
        self.trading().filter(|_| self.on())
    }

    /// True if paper mode is on, so that nothing is signed.
    pub fn on(&self) -> bool {
        is_on(self.turns.load(Ordering::SeqCst))
    }

    /// Returns the current state of the switch, for a call that begins.
    pub fn now(&self) -> PaperModeAtStart {
        PaperModeAtStart(self.turns.load(Ordering::SeqCst))
    }

    /// True if the switch changed after `then`. An action that was previewed in one mode must not run in the other.
    pub fn turned_since(&self, then: PaperModeAtStart) -> bool {
        self.now() != then
    }

    /// Sets the switch.
    pub fn turn(&self, on: bool) {
        let turned = |turns: u64| (is_on(turns) != on).then(|| turns.wrapping_add(1));
        // Only a change of position counts.
        let _stood = self.turns.fetch_update(Ordering::SeqCst, Ordering::SeqCst, turned);
    }
}

fn is_on(turns: u64) -> bool {
    turns % 2 == 1
}

/// Treatment of an action that needs the operator's approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApprovalMode {
    /// Blocks the action and returns its whole preview.
    Never,
    /// Asks the operator; the call waits for the answer.
    Ask,
    /// Approved by the operator in advance. Outside devnets this applies only if the policy allows it.
    Always,
}

/// Error for text that is not an approval mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an approval mode; use never, ask or always")]
pub struct UnknownApprovalMode(SafeText);

impl FromStr for ApprovalMode {
    type Err = UnknownApprovalMode;

    fn from_str(given: &str) -> Result<Self, UnknownApprovalMode> {
        match given {
            "never" => Ok(Self::Never),
            "ask" => Ok(Self::Ask),
            "always" => Ok(Self::Always),
            other => Err(UnknownApprovalMode(SafeText::clean(other, 40))),
        }
    }
}
