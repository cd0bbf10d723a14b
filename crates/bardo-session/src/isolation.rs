//! How far the system isolates a brain process from the operator's session.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A part of the isolation that depends on the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Files, folders and terminals outside the allow-list are closed.
    Files,
    /// Dangerous system calls are refused.
    SystemCalls,
    /// Signals and abstract sockets outside the brain are closed.
    Signals,
}

impl Measure {
    /// What it keeps the program from, with the system that has it.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Files => "files and terminals (Landlock, Linux 6.2 or later)",
            Self::SystemCalls => "system calls (seccomp)",
            Self::Signals => "signals (Landlock scopes, Linux 6.12 or later)",
        }
    }
}

/// How much of the isolation the system enforces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    missing: Vec<Measure>,
}

/// The same in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IsolationLevel {
    /// Every measure is in force.
    Full,
    /// The program cannot act as the operator, but it can disturb: only [`Measure::Signals`] is missing.
    Partial,
    /// The program could act as the operator.
    None,
}

impl Isolation {
    /// The isolation with these measures missing.
    pub fn without(missing: impl IntoIterator<Item = Measure>) -> Self {
        let mut missing: Vec<Measure> = missing.into_iter().collect();
        missing.sort_unstable();
        missing.dedup();
        Self { missing }
    }

    /// What is not in force.
    pub fn missing(&self) -> &[Measure] {
        &self.missing
    }

    /// How much is in force.
    pub fn level(&self) -> IsolationLevel {
        if self.missing.is_empty() {
            IsolationLevel::Full
        } else if self.missing.iter().all(|measure| *measure == Measure::Signals) {
            IsolationLevel::Partial
        } else {
            IsolationLevel::None
        }
    }

    /// Whether the program cannot act as the operator.
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
