//! The ladder: what each step means, and what it still lets through.

use bardo_base::model::{ActionClass, StopLevel};

/// What an action is to the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Passage {
    /// Takes back allowances, orders or session keys, and nothing else.
    TakesBack,
    /// Only leaves positions.
    Exit,
    /// Anything else.
    Other,
}

impl Passage {
    /// Every one.
    pub const ALL: &'static [Self] = &[Self::TakesBack, Self::Exit, Self::Other];
}

/// The ladder: what each step still lets through.
///
/// | step | takes back | exits | anything else |
/// |---|---|---|---|
/// | none | yes | yes | yes |
/// | pause | yes | no | no |
/// | exit-only | yes | yes | no |
/// | flatten | yes | yes | no |
/// | halt | yes | no | no |
/// | revoke | yes | no | no |
///
/// Pause is not a weaker exit-only: nothing new begins at all, exits included, until the operator
/// looks; to let exits pass, they raise it by their own word. Taking back what others may take is
/// never held up.
pub const fn lets_through(level: Option<StopLevel>, passage: Passage) -> bool {
    match (level, passage) {
        (None, _) | (Some(_), Passage::TakesBack) => true,
        (Some(StopLevel::ExitOnly | StopLevel::Flatten), Passage::Exit) => true,
        (Some(StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke), Passage::Exit) => false,
        (Some(_), Passage::Other) => false,
    }
}

/// What a step means, for a person.
pub const fn meaning(level: StopLevel) -> &'static str {
    match level {
        StopLevel::Pause => "no new action begins; what is sent settles; revocations and cancellations pass",
        StopLevel::ExitOnly => "only exits to an exit asset, revocations and cancellations are signed",
        StopLevel::Flatten => "as exit-only, and positions are to be left: orders cancelled, holdings sold",
        StopLevel::Halt => "nothing is signed but revocations and cancellations",
        StopLevel::Revoke => "as halt, and every running program takes its Golem's keys away, until it is started anew",
    }
}

/// What an action is to the ladder, from its derived class.
pub const fn passage(takes_back: bool, reduce_only: bool, class: ActionClass) -> Passage {
    match (takes_back, reduce_only, class) {
        (true, _, _) => Passage::TakesBack,
        (false, true, ActionClass::DecreasePosition | ActionClass::ClosePosition) => Passage::Exit,
        (false, _, _) => Passage::Other,
    }
}
