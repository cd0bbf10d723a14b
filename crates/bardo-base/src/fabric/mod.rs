//! The event fabric: whatever happens is said here once, in one order, for whoever watches. It holds
//! nothing that money depends on: the ledger, permits and approvals have keepers of their own.
//!
//! An event gets its sequence number, goes into a bounded ring and to the journal, and wakes the
//! receivers. A receiver that falls behind is told how many events it missed, takes the
//! [`History`] and drops what it is delivered at or below [`History::last`].

mod asked;
mod bus;
mod event;
mod facts;
mod finding;
mod journal;
mod redact;
#[cfg(test)]
mod tests;

pub use asked::AskReason;
pub use bus::{Fabric, FabricConfig, History, Receiver};
pub use event::{
    ApprovalOutcome, ApprovalRequested, ApprovalResolved, Asset, Bid, BreakerNow, Caption, Card, ChainBlock,
    ChainHealth, ChainOpened, ChainState, CheckOutcome, DecayCurve, DecayUnit, DirectiveChanged, EndState, Event,
    EventKind, Exclusivity, FabricFault, FabricGap, GolemNow, GolemThought, HaltChanged, IntentStatus, IntentUpdate,
    LeastOut, Limits, LimitsChanged, MemoryHits, OrderFill, OrderStatus, OrderUpdate, PermitIssued, PermitRefused,
    PermitUsed, PhaseChanged, PolicyChange, PolicyChanged, PolicyNow, SessionOpened, SimulatedChange, SpendNow,
    SpriteChanged, SpriteState, StopLossNow, ToolEnd, ToolFailed, ToolOverrun, ToolStart, ToolUpdate, ToolVerified,
    TxPlace, TxState, TxUpdate, Vitals,
};
pub use facts::ToolFacts;
pub use finding::{Finding, SafetyCheck};
pub use journal::{JournalError, read as read_journal};
pub use redact::{Redacted, hash as params_hash};
