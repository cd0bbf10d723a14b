//! The policy: what an agent may do, as one documented file over one of four presets. Everything it
//! says is a field of one table ([`Rules`]); a field that nothing installed can break is shown as
//! such, never silently carried.
//!
//! Not here: what has been used of a limit (see `ledger`), and the judgement of an action (see
//! `checks`).

mod fields;
mod file;
mod held;
mod hours;
mod items;
mod keeper;
mod limits;
mod preset;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy::primitives::{B256, Keccak256};

use bardo_base::model::{Category, Check};

pub use fields::{Enforced, Field, PhaseRules, Phases, Rules, SpendingLimits};
pub use file::{PolicyError, parse, read};
pub use held::{MIGRATIONS, held, hold};
pub use hours::{Hours, HoursError};
pub use items::{ChainId, ContractRef, ItemError, Recipient, Scope, Spender, TokenRef, Wallet, Word};
pub use keeper::{Adopted, Followed, Keeper, Pending};
pub use preset::Preset;
pub use rules::{
    Leave, MaxBps, MaxCount, MaxGwei, MaxPercent, MaxSeconds, MaxUsd, MinSeconds, MinUsd, Require, TokenRule,
    TokenRules, ToolRule, ToolRules,
};

/// A policy that is ready to be enforced. Does not change once made.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    rules: Rules,
    origin: Origin,
    hash: B256,
    /// The texts it can be made from again: the stricter of all of them.
    sources: Vec<Arc<str>>,
}

/// Where a policy comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The program itself.
    Preset(Preset),
    /// A file.
    File {
        /// Which.
        path: PathBuf,
        /// What it was laid over.
        preset: Preset,
        /// The fields it sets, with their lines.
        set: BTreeMap<String, usize>,
    },
    /// The stricter of two, field by field, while the looser waits for a decision.
    Between,
}

/// One field that differs between two policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub field: String,
    /// What it was.
    pub from: String,
    /// What it is to be.
    pub to: String,
    /// Whether nothing passes that did not pass before.
    pub tighter: bool,
}

impl Policy {
    fn new(rules: Rules, origin: Origin, sources: Vec<Arc<str>>) -> Self {
        let mut hasher = Keccak256::new();
        hasher.update(b"bardo policy 1");
        rules.walk("", &mut |field| {
            for text in [&field.name, &field.value] {
                hasher.update((text.len() as u64).to_be_bytes());
                hasher.update(text);
            }
        });
        Self { rules, origin, hash: hasher.finalize(), sources }
    }

    /// One that comes with the program.
    pub fn preset(preset: Preset) -> Self {
        let source = format!("preset = \"{}\"\n", preset.as_str());
        Self::new(preset.rules(), Origin::Preset(preset), vec![source.into()])
    }

    /// The texts of files that it can be made from again, see [`Self::from_sources`].
    pub fn sources(&self) -> &[Arc<str>] {
        &self.sources
    }

    /// The stricter of all these files' texts, as [`Self::sources`] gave them; `None` where there is none.
    ///
    /// # Errors
    /// [`PolicyError::Line`] for a text that this version of the program does not understand.
    pub fn from_sources<'a>(sources: impl IntoIterator<Item = &'a str>) -> Result<Option<Self>, PolicyError> {
        let mut all: Option<Self> = None;
        for source in sources {
            let one = parse(source, Path::new("the policy that was accepted last"))?;
            all = Some(match all {
                Some(before) => before.stricter(&one),
                None => one,
            });
        }
        Ok(all)
    }

    /// What it says.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Where it comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Names exactly these rules: two policies that differ in anything differ in this.
    pub fn hash(&self) -> B256 {
        self.hash
    }

    /// Its name for people: the preset's, with a mark where a file has changed something.
    pub fn name(&self) -> String {
        match &self.origin {
            Origin::Preset(preset) => preset.as_str().to_owned(),
            Origin::File { preset, .. } => format!("{}*", preset.as_str()),
            Origin::Between => "stricter of two".to_owned(),
        }
    }

    /// The preset it begins with; `None` for the stricter of two policies, which begins with neither.
    pub fn begins_with(&self) -> Option<Preset> {
        match &self.origin {
            Origin::Preset(preset) | Origin::File { preset, .. } => Some(*preset),
            Origin::Between => None,
        }
    }

    /// Every field, in order.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = Vec::new();
        self.rules.walk("", &mut |field| fields.push(field));
        fields
    }

    /// Where a field was set.
    pub fn set_by(&self, field: &str) -> String {
        match &self.origin {
            Origin::Preset(preset) => format!("preset {}", preset.as_str()),
            Origin::File { preset, set, .. } => match set.get(field) {
                Some(line) => format!("line {line}"),
                None => format!("preset {}", preset.as_str()),
            },
            Origin::Between => "the stricter of two".to_owned(),
        }
    }

    /// What differs in `next`.
    pub fn changes(&self, next: &Self) -> Vec<Change> {
        let both = self.stricter(next);
        let fields = self.fields().into_iter().zip(next.fields()).zip(both.fields());
        fields
            .filter(|((from, to), _)| from.value != to.value)
            .map(|((from, to), both)| Change {
                tighter: both.value == to.value,
                field: from.name,
                from: from.value,
                to: to.value,
            })
            .collect()
    }

    /// Field by field the stricter of the two.
    #[must_use]
    pub fn stricter(&self, other: &Self) -> Self {
        let mut sources = self.sources.clone();
        sources.extend(other.sources.iter().filter(|source| !self.sources.contains(source)).cloned());
        Self::new(self.rules.stricter_fields(&other.rules), Origin::Between, sources)
    }
}

/// What enforces a field of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcer {
    /// A check of the pipeline.
    Check(Check),
    /// The approval queue.
    Approval,
    /// The sender of transactions.
    Sender,
    /// The tools that trade.
    TradingTools,
    /// The reader of the policy file.
    Reader,
}

impl fmt::Display for Enforcer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check(check) => write!(f, "{check}"),
            Self::Approval => f.write_str("approval"),
            Self::Sender => f.write_str("sender"),
            Self::TradingTools => f.write_str("trading tools"),
            Self::Reader => f.write_str("this file's reader"),
        }
    }
}

/// Nothing enforces a field of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotEnforced {
    /// Tools are installed that could break it.
    #[error("NOT ENFORCED although {0} tools are installed")]
    Although(Category),
    /// No tool is installed that could break it.
    #[error("not enforced: no {0} tool is installed")]
    NoTool(Category),
}

impl Field {
    /// Who enforces it among tools of these categories.
    ///
    /// # Errors
    /// [`NotEnforced`] where nobody does.
    pub fn enforced_with(&self, installed: &[Category]) -> Result<Enforcer, NotEnforced> {
        match self.enforced {
            Enforced::By(check) => Ok(Enforcer::Check(check)),
            Enforced::Approval => Ok(Enforcer::Approval),
            Enforced::Sending => Ok(Enforcer::Sender),
            Enforced::Routing => Ok(Enforcer::TradingTools),
            Enforced::Load => Ok(Enforcer::Reader),
            Enforced::ToolsOf(category) if installed.contains(&category) => Err(NotEnforced::Although(category)),
            Enforced::ToolsOf(category) => Err(NotEnforced::NoTool(category)),
        }
    }
}

/// Refuses tools of these categories where one of them could break a rule that nothing enforces.
///
/// # Errors
/// [`PolicyError::Unenforced`] for the first such rule.
pub fn enforceable(installed: &[Category]) -> Result<(), PolicyError> {
    let fields = Policy::preset(Preset::ReadOnly).fields().into_iter();
    let mut open = fields.filter_map(|field| match field.enforced {
        Enforced::ToolsOf(category) if installed.contains(&category) => {
            Some(PolicyError::Unenforced { field: field.name, category })
        }
        _ => None,
    });
    open.next().map_or(Ok(()), Err)
}
