//! Stop ladder: the levels, their meaning, and the actions that each lets through.

use bardo_base::model::{ActionClass, StopLevel};

/// Category of an action under a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopCategory {
    /// Only revokes allowances, cancels orders, collects refunds or revokes session keys.
    TakesBack,
    /// Fair exit: only leaves positions.
    Exit,
    /// Any other action.
    Other,
}

impl StopCategory {
    /// Every category of action.
    pub const ALL: &'static [Self] = &[Self::TakesBack, Self::Exit, Self::Other];
}

/// Returns true if a stop at `level` lets an action of this category through.
///
/// | level | revocations | exits | other actions |
/// |---|---|---|---|
/// | none | yes | yes | yes |
/// | pause | yes | no | no |
/// | exit-only | yes | yes | no |
/// | flatten | yes | yes | no |
/// | halt | yes | no | no |
/// | revoke | yes | no | no |
///
/// Pause is not a weaker exit-only: no new action begins, exits included, until the operator decides. To let exits
/// pass, the operator raises the stop to exit-only. Revocations are never blocked.
pub const fn lets_through(level: Option<StopLevel>, passage: StopCategory) -> bool {
    match (level, passage) {
        (None, _) | (Some(_), StopCategory::TakesBack) => true,
        (Some(StopLevel::ExitOnly | StopLevel::Flatten), StopCategory::Exit) => true,
        (Some(StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke), StopCategory::Exit) => false,
        (Some(_), StopCategory::Other) => false,
    }
}

/// Describes a level for display.
pub const fn meaning(level: StopLevel) -> &'static str {
    match level {
        StopLevel::Pause => {
            "no new action starts; sent transactions settle; revocations, cancellations and refunds pass"
        }
        StopLevel::ExitOnly => "only exits, revocations, cancellations and refunds are signed",
        StopLevel::Flatten => {
            "like exit-only; open orders are cancelled, and a running Bardo offers to sell the holdings"
        }
        StopLevel::Halt => "only revocations, cancellations and refunds are signed",
        StopLevel::Revoke => "like halt, and every running Bardo drops its session keys until restarted",
    }
}

/// Returns the category of an action, from the simulation's findings and its class.
pub const fn passage(only_revokes: bool, reduce_only: bool, class: ActionClass) -> StopCategory {
    match (only_revokes, reduce_only, class) {
        (true, _, _) => StopCategory::TakesBack,
        (false, true, ActionClass::DecreasePosition | ActionClass::ClosePosition) => StopCategory::Exit,
        (false, _, _) => StopCategory::Other,
    }
}
