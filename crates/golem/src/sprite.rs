//! Sprite state machine of the Golem on the screen. The next state depends only on the current state and the trigger,
//! as this table defines.
//!
//! | shows | reads | acts | asks | answered | succeeded | failed | rests | stopped | released | dies |
//! |---|---|---|---|---|---|---|---|---|---|---|
//! | Idle | Thinking | Executing | Awaiting | · | · | · | · | Halted | · | Dead |
//! | Thinking | · | Executing | Awaiting | · | Success | Failure | Idle | Halted | · | Dead |
//! | Executing | · | · | Awaiting | · | Success | Failure | Idle | Halted | · | Dead |
//! | Awaiting | · | · | · | Executing | Success | Failure | Idle | Halted | · | Dead |
//! | Success | Thinking | Executing | Awaiting | · | · | Failure | Idle | Halted | · | Dead |
//! | Failure | Thinking | Executing | Awaiting | · | Success | · | Idle | Halted | · | Dead |
//! | Halted | · | · | · | · | · | · | · | · | Idle | Dead |
//! | Dead | · | · | · | · | · | · | · | · | · | · |
//!
//! A dot means no change. The phase affects only the drawing of a state, which belongs to the console.

use bardo_base::fabric::{EventKind, SpriteState};
use bardo_base::id::CallId;
use bardo_base::model::{Phase, SpriteTrigger, StopLevel};

/// Trigger of the sprite's state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpriteEvent {
    /// A read or a thought begins.
    Reads,
    /// A write begins.
    Acts,
    /// The operator is asked for approval.
    Asks,
    /// The operator has answered, and the action continues.
    Answered,
    /// A call succeeded.
    Succeeded,
    /// A call failed.
    Failed,
    /// Nothing has happened for a moment.
    Rests,
    /// A stop that forbids all actions is in force.
    Stopped,
    /// The stop is lifted, or still allows exits.
    Released,
    /// The Golem's life is over.
    Dies,
}

impl SpriteEvent {
    /// All triggers, in the order of the table's columns.
    pub const ALL: [Self; 10] = [
        Self::Reads,
        Self::Acts,
        Self::Asks,
        Self::Answered,
        Self::Succeeded,
        Self::Failed,
        Self::Rests,
        Self::Stopped,
        Self::Released,
        Self::Dies,
    ];

    /// Maps an event to a trigger. `sprite_of` returns the sprite trigger of a tool.
    pub fn of(kind: &EventKind, sprite_of: impl FnOnce(&str) -> Option<SpriteTrigger>) -> Option<Self> {
        match kind {
            EventKind::ToolStart(start) => match sprite_of(&start.tool_name)? {
                SpriteTrigger::Thinking => Some(Self::Reads),
                SpriteTrigger::Executing => Some(Self::Acts),
            },
            EventKind::GolemThought(_) => Some(Self::Reads),
            EventKind::ApprovalRequested(_) => Some(Self::Asks),
            EventKind::ApprovalResolved(_) => Some(Self::Answered),
            EventKind::ToolEnd(end) => Some(if end.success { Self::Succeeded } else { Self::Failed }),
            EventKind::HaltRaised(halt) | EventKind::HaltLowered(halt) => Some(match halt.level {
                Some(StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke) => Self::Stopped,
                // Under these stops it can still sell.
                Some(StopLevel::ExitOnly | StopLevel::Flatten) | None => Self::Released,
            }),
            EventKind::PhaseChanged(changed) if changed.to == Phase::Terminal => None,
            EventKind::ToolUpdate(_)
            | EventKind::ToolOverrun(_)
            | EventKind::ToolError(_)
            | EventKind::SafetyCheck(_)
            | EventKind::PermitIssued(_)
            | EventKind::PermitConsumed(_)
            | EventKind::PermitRefused(_)
            | EventKind::TxUpdate(_)
            | EventKind::ToolVerified(_)
            | EventKind::OrderUpdate(_)
            | EventKind::IntentUpdate(_)
            | EventKind::ChainBlock(_)
            | EventKind::ChainHealth(_)
            | EventKind::PolicyChanged(_)
            | EventKind::SessionOpened(_)
            | EventKind::LimitsChanged(_)
            | EventKind::Vitals(_)
            | EventKind::PhaseChanged(_)
            | EventKind::SpriteChanged(_)
            | EventKind::GolemNow(_)
            | EventKind::MemoryHits(_)
            | EventKind::DirectiveChanged(_)
            | EventKind::LendingLiquidated(_)
            | EventKind::ActionRecovered(_)
            | EventKind::Caption(_)
            | EventKind::AlertChannel(_)
            | EventKind::FabricGap(_)
            | EventKind::FabricFault(_) => None,
        }
    }
}

/// Returns the state after `trigger`.
pub const fn next(state: SpriteState, trigger: SpriteEvent) -> SpriteState {
    use SpriteEvent as T;
    use SpriteState as S;
    match (state, trigger) {
        (S::Dead, _) | (_, T::Dies) => S::Dead,
        (S::Halted, T::Released) => S::Idle,
        (S::Halted, _) | (_, T::Stopped) => S::Halted,
        (S::Idle | S::Success | S::Failure, T::Reads) => S::Thinking,
        (S::Idle | S::Thinking | S::Success | S::Failure, T::Acts) => S::Executing,
        (S::Idle | S::Thinking | S::Executing | S::Success | S::Failure, T::Asks) => S::AwaitingApproval,
        (S::AwaitingApproval, T::Answered) => S::Executing,
        (S::Thinking | S::Executing | S::AwaitingApproval | S::Failure, T::Succeeded) => S::Success,
        (S::Thinking | S::Executing | S::AwaitingApproval | S::Success, T::Failed) => S::Failure,
        (_, T::Rests) => S::Idle,
        (S::Thinking | S::Executing | S::AwaitingApproval, T::Reads)
        | (S::Executing | S::AwaitingApproval, T::Acts)
        | (S::AwaitingApproval, T::Asks)
        | (S::Idle | S::Thinking | S::Executing | S::Success | S::Failure, T::Answered | T::Released)
        | (S::Idle | S::Success, T::Succeeded)
        | (S::Idle | S::Failure, T::Failed)
        | (S::AwaitingApproval, T::Released) => state,
    }
}

/// Sprite state over several concurrent calls. It rests only when no call is running.
#[derive(Debug, Clone)]
pub struct Sprite {
    state: SpriteState,
    open: Vec<CallId>,
    asking: Vec<CallId>,
}

impl Default for Sprite {
    fn default() -> Self {
        Self { state: SpriteState::Idle, open: Vec::new(), asking: Vec::new() }
    }
}

impl Sprite {
    /// Returns the current state.
    pub fn state(&self) -> SpriteState {
        self.state
    }

    /// Applies a trigger of `call` and returns the new state, if it changed.
    pub fn take(&mut self, call: Option<CallId>, trigger: SpriteEvent) -> Option<SpriteState> {
        if let Some(call) = call {
            let forget = |calls: &mut Vec<CallId>| calls.retain(|one| *one != call);
            match trigger {
                SpriteEvent::Reads | SpriteEvent::Acts if !self.open.contains(&call) => self.open.push(call),
                SpriteEvent::Asks if !self.asking.contains(&call) => self.asking.push(call),
                SpriteEvent::Answered => forget(&mut self.asking),
                SpriteEvent::Succeeded | SpriteEvent::Failed => {
                    forget(&mut self.open);
                    forget(&mut self.asking);
                }
                SpriteEvent::Reads
                | SpriteEvent::Acts
                | SpriteEvent::Asks
                | SpriteEvent::Rests
                | SpriteEvent::Stopped
                | SpriteEvent::Released
                | SpriteEvent::Dies => {}
            }
        }
        let busy = !self.open.is_empty();
        let hidden = match trigger {
            // While another call runs or waits for approval, the end of one call neither rests the sprite nor hides the
            // request.
            SpriteEvent::Rests => busy,
            SpriteEvent::Succeeded | SpriteEvent::Failed | SpriteEvent::Answered => !self.asking.is_empty(),
            SpriteEvent::Reads
            | SpriteEvent::Acts
            | SpriteEvent::Asks
            | SpriteEvent::Stopped
            | SpriteEvent::Released
            | SpriteEvent::Dies => false,
        };
        if hidden {
            return None;
        }
        let after = next(self.state, trigger);
        if after == self.state {
            return None;
        }
        self.state = after;
        Some(after)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Parses the table in this file's module documentation: rows, then columns.
    fn table() -> BTreeMap<(SpriteState, SpriteEvent), SpriteState> {
        let name = |word: &str| match word {
            "Idle" => Some(SpriteState::Idle),
            "Thinking" => Some(SpriteState::Thinking),
            "Executing" => Some(SpriteState::Executing),
            "Awaiting" => Some(SpriteState::AwaitingApproval),
            "Success" => Some(SpriteState::Success),
            "Failure" => Some(SpriteState::Failure),
            "Halted" => Some(SpriteState::Halted),
            "Dead" => Some(SpriteState::Dead),
            _ => None,
        };
        let mut read = BTreeMap::new();
        for line in include_str!("sprite.rs").lines().filter_map(|line| line.strip_prefix("//! | ")) {
            let cells: Vec<_> = line.trim_end_matches('|').split('|').map(str::trim).collect();
            let Some(state) = name(cells[0]) else { continue };
            for (trigger, cell) in SpriteEvent::ALL.into_iter().zip(&cells[1..]) {
                read.insert((state, trigger), if *cell == "·" { state } else { name(cell).unwrap() });
            }
        }
        read
    }

    #[test]
    fn every_transition_is_the_table_s() {
        let table = table();
        assert_eq!(table.len(), SpriteState::ALL.len() * SpriteEvent::ALL.len());
        for ((state, trigger), after) in table {
            assert_eq!(next(state, trigger), after, "{state:?} after {trigger:?}");
        }
    }

    #[test]
    fn concurrent_calls_hide_neither_question_nor_activity() {
        let (one, other) = (CallId::new(1), CallId::new(2));
        let mut sprite = Sprite::default();
        assert_eq!(sprite.take(Some(one), SpriteEvent::Acts), Some(SpriteState::Executing));
        assert_eq!(sprite.take(Some(one), SpriteEvent::Asks), Some(SpriteState::AwaitingApproval));
        assert_eq!(sprite.take(Some(other), SpriteEvent::Reads), None);
        assert_eq!(sprite.take(Some(other), SpriteEvent::Succeeded), None, "the question is still open");
        assert_eq!(sprite.take(None, SpriteEvent::Rests), None);
        assert_eq!(sprite.take(Some(one), SpriteEvent::Answered), Some(SpriteState::Executing));
        assert_eq!(sprite.take(None, SpriteEvent::Rests), None, "it is still acting");
        assert_eq!(sprite.take(Some(one), SpriteEvent::Succeeded), Some(SpriteState::Success));
        assert_eq!(sprite.take(None, SpriteEvent::Rests), Some(SpriteState::Idle));
        assert_eq!(sprite.take(None, SpriteEvent::Stopped), Some(SpriteState::Halted));
        assert_eq!(sprite.take(Some(other), SpriteEvent::Acts), None);
        assert_eq!(sprite.take(None, SpriteEvent::Released), Some(SpriteState::Idle));
        assert_eq!(sprite.take(None, SpriteEvent::Dies), Some(SpriteState::Dead));
        assert_eq!(sprite.take(None, SpriteEvent::Released), None);
    }
}
