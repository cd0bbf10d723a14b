//! The event fabric: one totally ordered stream of everything that happens, for screens, logs and recordings. Nothing
//! that money depends on is stored here: ledger, permits and approvals have their own stores.
//!
//! An event gets a sequence number, enters a bounded ring and the journal, and wakes the receivers. A receiver that
//! falls behind gets the number of events it missed. It then reads the [`EventHistory`] and drops deliveries at or
//! below [`EventHistory::last`].

mod ask_reason;
mod bus;
mod check_reason;
mod event;
mod finding;
mod journal;
mod redact;
#[cfg(test)]
mod tests;
mod tool_facts;

pub use ask_reason::{AskReason, HoldingsSale};
pub use bus::{EventHistory, Fabric, FabricConfig, Receiver};
pub use check_reason::CheckReason;
pub use event::{
    ActionRecovered, AlertChannelChanged, ApprovalOutcome, ApprovalRequested, ApprovalResolved, BindingLimit,
    BreakerState, Caption, CardToken, ChainBlock, ChainHealth, ChainOpened, ChainState, CheckOutcome, DecayCurve,
    DecayUnit, DirectiveChanged, EndState, Event, EventKind, Exclusivity, FabricFault, FabricGap, FillerOffer,
    GolemState, GolemThought, HaltChanged, IntentStatus, IntentUpdate, LeastOut, LendingLiquidated, LendingVitals,
    LimitUsage, LimitsChanged, MemoryHits, OrderFill, OrderStatus, OrderUpdate, PermitIssued, PermitRefused,
    PermitUsed, PhaseChanged, PolicyChange, PolicyChanged, PolicyState, RecoveredEnd, RequestRenewal, ResultCard,
    SessionOpened, SimulatedChange, SpendState, SpriteChanged, SpriteState, StopLossState, ToolEnd, ToolFailed,
    ToolOverrun, ToolStart, ToolUpdate, ToolVerified, TxPlace, TxPurpose, TxState, TxUpdate, Vitals,
};
pub use finding::{Finding, LiquidationMove, SafetyCheck, health_factor};
pub use journal::{JournalError, read as read_journal};
pub use redact::{NOT_RECORDED, RedactedParams, hash as params_hash};
pub use tool_facts::ToolFacts;
