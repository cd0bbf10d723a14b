//! Faults that make a scenario unusable.

use bardo_base::text::SafeText;

use super::LONGEST_TICK;
use super::event::MOST_BPS;

/// Fault that prevents a scenario from being played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioFlaw {
    /// The text is not a scenario in TOML; the parser's message.
    #[error("{0}")]
    Syntax(SafeText),
    /// The seconds of one tick are out of range.
    #[error("a tick of {0} s; expected 1 to {LONGEST_TICK} s")]
    Tick(u64),
    /// A beat or cue comes before the one above it.
    #[error("at {at} s it is earlier than its predecessor, at {last} s")]
    Order {
        /// Time of the beat or cue, in seconds.
        at: u64,
        /// The second of the one above it.
        last: u64,
    },
    /// A `later` beat has no pause before it.
    #[error("a repeated step needs an `at` of at least 1 s")]
    NoPause,
    /// A beat has an expectation and no action.
    #[error("it expects a result but has no `do`")]
    IdleExpectation,
    /// Texts for an outcome without any text.
    #[error("an `ended` needs a caption, now, next or think")]
    EmptyOutcome,
    /// A text that quotes the amount of a step without one.
    #[error("a text says $amount, but the parameters have no amount")]
    NoAmount,
    /// No tool has this name.
    #[error("there is no tool `{name}`{}", suggestion(near.as_ref()))]
    UnknownTool {
        /// The name in the scenario.
        name: SafeText,
        /// A tool with a similar name.
        near: Option<&'static str>,
    },
    /// A price movement of no or too many basis points, or over no block.
    #[error("prices move by 1 to {MOST_BPS} basis points, up or down, over at least a block")]
    Movement,
    /// A rating above 100.
    #[error("a rating of {0}; expected 0 to 100")]
    Rating(u8),
    /// A cue without action and caption.
    #[error("a cue needs a caption or a `do`")]
    EmptyCue,
    /// A condition without content.
    #[error("`when` is empty: give it a phase, an earlier beat (after), or a beat that has not ended (before)")]
    EmptyCondition,
    /// A condition with a status and no beat.
    #[error("`when` has a status but no beat: name the beat with after")]
    StatusWithoutBeat,
    /// A reference to a beat that is not before this one, or does nothing.
    #[error("no earlier beat with a `do` is named `{name}`{}", suggestion(near.as_ref()))]
    UnknownBeat {
        /// The name in the condition.
        name: SafeText,
        /// An earlier beat with a similar name.
        near: Option<SafeText>,
    },
    /// A condition on a status that does not exist.
    #[error("`{0}` is neither a status, such as success, nor an error code")]
    UnknownStatus(SafeText),
}

fn suggestion(near: Option<&impl std::fmt::Display>) -> String {
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}
