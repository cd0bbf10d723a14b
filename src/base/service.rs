//! How a service that others run can fail us, whichever service it is.

use std::time::Duration;

use super::text::SafeText;

/// Why a service did not do what was asked of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// It understood and refused: it has taken nothing.
    #[error("the service refused: {0}")]
    Refused(SafeText),
    /// It was not reached: it has taken nothing.
    #[error("the service cannot be reached: {0}")]
    Unreachable(SafeText),
    /// It asks to be left alone for a while: it has taken nothing.
    #[error("the service asks to wait {} s", after.as_secs())]
    Busy {
        /// How long.
        after: Duration,
    },
    /// It may have taken what was handed in, or not.
    #[error("the service gave no clear answer: {0}")]
    Unclear(SafeText),
    /// What it says is not what such a service says.
    #[error("the service answers nonsense: {0}")]
    Nonsense(SafeText),
}
