//! With whose hands writes act: the pipeline they go through, the account that signs, and how the operator's
//! consent is come by. The engine decides nothing of it: the pipeline does.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::base::model::Phase;
use crate::base::text::SafeText;
use crate::safety::account::Account;
use crate::safety::pipeline::Pipeline;

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
    /// Whether everything is only rehearsed.
    pub paper: Paper,
}

/// Whether everything is only rehearsed. A clone is the same switch: whoever holds one sees it turned. Turning it off
/// lets things be signed again; whoever does that has the operator's yes.
#[derive(Debug, Clone, Default)]
pub struct Paper(Arc<AtomicBool>);

impl Paper {
    /// A switch that stands so.
    pub fn new(on: bool) -> Self {
        Self(Arc::new(AtomicBool::new(on)))
    }

    /// Whether everything is only rehearsed now.
    pub fn on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Turns it.
    pub fn turn(&self, on: bool) {
        self.0.store(on, Ordering::SeqCst);
    }
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
#[error("`{0}` is no way to approve; known: never, ask, always")]
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
