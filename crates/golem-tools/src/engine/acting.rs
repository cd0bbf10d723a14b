//! With whose hands writes act: the pipeline they go through, the account that signs, and how the operator's
//! consent is come by. The engine decides nothing of it: the pipeline does.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use bardo_safety::account::Account;
use bardo_safety::operator::OperatorRules;
use bardo_safety::paper::PaperLedger;
use bardo_safety::pipeline::Pipeline;

/// What an executor needs to act, rather than to read only.
#[derive(Debug, Clone)]
pub struct Acting {
    /// The only way to a signature.
    pub pipeline: Pipeline,
    /// Whose money it is, and who signs.
    pub account: Arc<dyn Account>,
    /// The phase of whoever acts, as it stands at each call. A call may tighten it, never loosen it.
    pub phase: watch::Receiver<Phase>,
    /// How consent is come by where a call does not say.
    pub approve: ApprovalMode,
    /// Paper mode of this account.
    pub paper: Paper,
}

impl Acting {
    /// A copy that goes through the paper ledger, provided that paper mode was on then and there is one.
    pub fn as_of(&self, then: PaperThen) -> Self {
        let mut acting = self.clone();
        if let Some(desk) = self.paper.desk().filter(|_| then.on()) {
            acting.pipeline = desk.pipeline.clone();
        }
        acting
    }

    /// True if a call that began then can only be rehearsed: there is no paper ledger, or the mode has changed since.
    pub fn only_rehearses(&self, then: PaperThen) -> bool {
        self.paper.turned_since(then) || then.on() && self.paper.desk().is_none()
    }
}

/// Paper mode: whether everything is done on paper, and where. A clone is the same switch: whoever holds one sees it
/// turned. Turning it off lets things be signed again; whoever does that has the operator's approval. What was begun on
/// paper stays on paper.
#[derive(Debug, Clone, Default)]
pub struct Paper {
    /// How often it was turned: an odd count is on.
    turns: Arc<AtomicU64>,
    /// Paper ledger; without it actions are only rehearsed.
    desk: Option<Arc<PaperDesk>>,
}

/// The paper ledger of a network, and what actions on paper go through.
#[derive(Debug)]
pub struct PaperDesk {
    /// The pipeline that signs nothing.
    pub pipeline: Pipeline,
    /// Paper ledger itself.
    pub ledger: PaperLedger,
    /// The operator's rules, counting on paper.
    pub rules: Arc<OperatorRules>,
}

/// How the switch stood when a call began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaperThen(u64);

impl PaperThen {
    /// True if paper mode was on.
    pub fn on(self) -> bool {
        is_on(self.0)
    }
}

impl Paper {
    /// A switch that stands so.
    pub fn new(on: bool) -> Self {
        Self { turns: Arc::new(AtomicU64::new(u64::from(on))), desk: None }
    }

    /// A switch that stands so, with a paper ledger to act on.
    pub fn with(on: bool, desk: PaperDesk) -> Self {
        Self { desk: Some(Arc::new(desk)), ..Self::new(on) }
    }

    /// The paper ledger, whether or not paper mode is on.
    pub fn desk(&self) -> Option<&PaperDesk> {
        self.desk.as_deref()
    }

    /// The paper ledger while paper mode is on.
    pub fn in_force(&self) -> Option<&PaperDesk> {
        self.desk().filter(|_| self.on())
    }

    /// Whether everything is only rehearsed now.
    pub fn on(&self) -> bool {
        is_on(self.turns.load(Ordering::SeqCst))
    }

    /// How it stands now, for a call that begins.
    pub fn now(&self) -> PaperThen {
        PaperThen(self.turns.load(Ordering::SeqCst))
    }

    /// True if it was turned since: an action that was shown in one mode is not done in the other.
    pub fn turned_since(&self, then: PaperThen) -> bool {
        self.now() != then
    }

    /// Turns it.
    pub fn turn(&self, on: bool) {
        let turned = |turns: u64| (is_on(turns) != on).then(|| turns.wrapping_add(1));
        // One that stands so already is not turned.
        let _stood = self.turns.fetch_update(Ordering::SeqCst, Ordering::SeqCst, turned);
    }
}

fn is_on(turns: u64) -> bool {
    turns % 2 == 1
}

/// What happens to an action that needs the operator's yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApprovalMode {
    /// It is blocked, with its whole preview.
    Never,
    /// The operator is asked, and the call waits for the answer.
    Ask,
    /// The operator has said yes beforehand. Off devnets it counts only where the policy says so.
    Always,
}

/// A word that is no approval mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an approval mode; use never, ask or always")]
pub struct UnknownMode(SafeText);

impl FromStr for ApprovalMode {
    type Err = UnknownMode;

    fn from_str(given: &str) -> Result<Self, UnknownMode> {
        match given {
            "never" => Ok(Self::Never),
            "ask" => Ok(Self::Ask),
            "always" => Ok(Self::Always),
            other => Err(UnknownMode(SafeText::clean(other, 40))),
        }
    }
}
