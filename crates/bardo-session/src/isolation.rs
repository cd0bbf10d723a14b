//! Isolation of a brain process from the operator's session, as far as the operating system enforces it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Isolation measure that depends on the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationMeasure {
    /// Files, folders and terminals outside the allow-list are inaccessible.
    Files,
    /// Dangerous system calls are rejected.
    SystemCalls,
    /// Signals and abstract sockets outside the brain process are inaccessible.
    Signals,
}

impl IsolationMeasure {
    /// Resources that the measure protects, and the required system feature.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Files => "files and terminals (Landlock, Linux 6.2 or later)",
            Self::SystemCalls => "system calls (seccomp)",
            Self::Signals => "signals (Landlock scopes, Linux 6.12 or later)",
        }
    }
}

/// Isolation that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    missing: Vec<IsolationMeasure>,
}

/// Level of the isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IsolationLevel {
    /// Every measure is in force.
    Full,
    /// The brain cannot act as the operator, but can disturb Bardo: only [`IsolationMeasure::Signals`] is missing.
    Partial,
    /// The brain could act as the operator.
    None,
}

impl Isolation {
    /// Creates an isolation in which these measures are missing.
    pub fn without(missing: impl IntoIterator<Item = IsolationMeasure>) -> Self {
        let mut missing: Vec<IsolationMeasure> = missing.into_iter().collect();
        missing.sort_unstable();
        missing.dedup();
        Self { missing }
    }

    /// Measures that are not in force, sorted and without duplicates.
    pub fn missing(&self) -> &[IsolationMeasure] {
        &self.missing
    }

    /// Level that results from the missing measures.
    pub fn level(&self) -> IsolationLevel {
        if self.missing.is_empty() {
            IsolationLevel::Full
        } else if self.missing.iter().all(|measure| *measure == IsolationMeasure::Signals) {
            IsolationLevel::Partial
        } else {
            IsolationLevel::None
        }
    }

    /// Returns true if the brain process cannot act as the operator.
    pub fn is_isolated(&self) -> bool {
        match self.level() {
            IsolationLevel::Full | IsolationLevel::Partial => true,
            IsolationLevel::None => false,
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level() {
            IsolationLevel::Full => "brain isolated",
            IsolationLevel::Partial => "brain partly isolated",
            IsolationLevel::None => "brain not isolated",
        })?;
        let missing: Vec<&str> = self.missing.iter().map(|measure| measure.describe()).collect();
        if missing.is_empty() { Ok(()) } else { write!(f, "; missing: {}", missing.join(", ")) }
    }
}
