//! The event fabric: one totally ordered stream of everything that happens, for screens, logs and recordings. Nothing
//! that money depends on is stored here: ledger, permits and approvals have their own stores.
//!
//! An event gets a sequence number, enters a bounded ring and the journal, and wakes the receivers. A receiver that
//! falls behind gets the number of events it missed. It then reads the [`History`] and drops deliveries at or below
//! [`History::last`].

mod ask_reason;
mod bus;
mod event;
mod finding;
mod journal;
mod redact;
#[cfg(test)]
mod tests;
mod tool_facts;

pub use ask_reason::AskReason;
pub use bus::{Fabric, FabricConfig, History, Receiver};
pub use event::{
    ApprovalOutcome, ApprovalRequested, ApprovalResolved, Asset, Bid, BreakerState, Caption, Card, ChainBlock,
    ChainHealth, ChainOpened, ChainState, CheckOutcome, DecayCurve, DecayUnit, DirectiveChanged, EndState, Event,
    EventKind, Exclusivity, FabricFault, FabricGap, GolemNow, GolemThought, HaltChanged, IntentStatus, IntentUpdate,
    LeastOut, Limits, LimitsChanged, MemoryHits, OrderFill, OrderStatus, OrderUpdate, PermitIssued, PermitRefused,
    PermitUsed, PhaseChanged, PolicyChange, PolicyChanged, PolicyState, SessionOpened, SimulatedChange, SpendState,
    SpriteChanged, SpriteState, StopLossNow, ToolEnd, ToolFailed, ToolOverrun, ToolStart, ToolUpdate, ToolVerified,
    TxPlace, TxState, TxUpdate, Vitals,
};
pub use finding::{Finding, SafetyCheck};
pub use journal::{JournalError, read as read_journal};
pub use redact::{Redacted, hash as params_hash};
pub use tool_facts::ToolFacts;
