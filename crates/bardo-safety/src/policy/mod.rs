//! Policy: the limits on what an agent may do, as one file over one of four presets. Each setting is a field of one
//! table ([`Rules`]). A field that no installed tool can violate is shown as such.
//!
//! Usage of the limits is in `ledger`, and the checks of an action are in `checks`.

mod fields;
mod file;
mod hours;
mod items;
mod keeper;
mod limits;
mod preset;
mod rules;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy::primitives::{Address, B256, Keccak256};

use bardo_base::model::{Check, Phase};
use bardo_base::units::Usd;

pub use fields::{EnforcedBy, PhaseRules, Phases, PolicyField, Rules, SecondApprovalRules, SpendingLimits};
pub use file::{PolicyError, parse, read};
pub use hours::{HoursError, TradingHours};
pub use items::{
    AllowedItems, Approvers, ChainId, ContractRef, ItemError, ItemName, Recipient, Spender, TokenRef, Wallet,
};
pub use keeper::{ActivePolicy, PendingPolicy, PolicyFileCheck, PolicyKeeper};
pub use preset::PolicyPreset;
use rules::PolicyValue as _;
pub use rules::{
    MaxBps, MaxCount, MaxGwei, MaxPercent, MaxSeconds, MaxUsd, MinFactor, MinSeconds, MinUsd, Permission, Require,
    TokenRule, TokenRules, ToolRule, ToolRules,
};

pub use stored::{MIGRATIONS, store_policy, stored_policy};

/// Immutable policy that is ready to be enforced.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    rules: Rules,
    origin: PolicyOrigin,
    hash: B256,
    /// Policy texts that reproduce this policy: it is the strictest combination of them.
    sources: Vec<Arc<str>>,
}

/// Origin of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyOrigin {
    /// One of the built-in presets.
    Preset(PolicyPreset),
    /// File that the operator wrote.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Preset that the file starts from.
        preset: PolicyPreset,
        /// Fields that the file sets, with their line numbers.
        set: BTreeMap<String, usize>,
    },
    /// Stricter combination of two policies, field by field, while the looser one waits for a decision.
    Between,
}

/// Field that differs between two policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// Name of the field.
    pub field: String,
    /// Value in the old policy.
    pub from: String,
    /// Value in the new policy.
    pub to: String,
    /// True if the new value allows nothing that the old one did not.
    pub tighter: bool,
}

/// Lower limit that binds in the place of a changed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingCap {
    /// Name of the changed field.
    pub field: String,
    /// Name of the field that binds.
    pub by: String,
    /// Its limit in dollars.
    pub limit: Usd,
}

impl Policy {
    /// Returns the lower limits over the same period that bind in the place of limits which `changes` loosen: such a change
    /// alone permits nothing more.
    pub fn binding(&self, changes: &[FieldChange]) -> Vec<BindingCap> {
        let caps = self.caps(Phase::Thriving, true).spend;
        let lower = |change: &FieldChange| {
            let own = caps.iter().find(|cap| cap.rule.as_str() == change.field)?;
            let others = caps.iter().filter(|cap| cap.span == own.span && cap.limit < own.limit);
            let least = others.min_by_key(|cap| cap.limit)?;
            let by = least.rule.as_str().to_owned();
            Some(BindingCap { field: change.field.clone(), by, limit: least.limit.dollars() })
        };
        changes.iter().filter(|change| !change.tighter).filter_map(lower).collect()
    }

    fn new(rules: Rules, origin: PolicyOrigin, sources: Vec<Arc<str>>) -> Self {
        let mut hasher = Keccak256::new();
        hasher.update(b"bardo policy 1");
        rules.walk("", &mut |field| {
            // Without these rules, the hash is that of earlier versions: an upgrade must not make the stored policy unknown.
            let is_new = match field.name.as_str() {
                "max_borrow_usd" => field.value == "\"none\"",
                "min_health_factor" => field.value == MinFactor::DEFAULT.shown(),
                "allowed_vaults" => field.value == "\"book\"",
                name => name.starts_with("second_approval.") && field.value == "\"none\"",
            };
            if is_new {
                return;
            }
            for text in [&field.name, &field.value] {
                hasher.update((text.len() as u64).to_be_bytes());
                hasher.update(text);
            }
        });
        Self { rules, origin, hash: hasher.finalize(), sources }
    }

    /// Creates a policy from a built-in preset.
    pub fn preset(preset: PolicyPreset) -> Self {
        let source = format!("preset = \"{}\"\n", preset.as_str());
        Self::new(preset.rules(), PolicyOrigin::Preset(preset), vec![source.into()])
    }

    /// Returns the texts that reproduce this policy, see [`Self::from_sources`].
    pub fn sources(&self) -> &[Arc<str>] {
        &self.sources
    }

    /// Combines the texts from [`Self::sources`] into their strictest policy; `None` without texts.
    ///
    /// # Errors
    /// [`PolicyError::Line`] for a text that this version cannot parse.
    pub fn from_sources<'a>(sources: impl IntoIterator<Item = &'a str>) -> Result<Option<Self>, PolicyError> {
        let mut all: Option<Self> = None;
        for source in sources {
            let one = parse(source, Path::new("the last accepted policy"))?;
            all = Some(match all {
                Some(before) => before.stricter(&one),
                None => one,
            });
        }
        Ok(all)
    }

    /// Returns the rules of the policy.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the amount above which actions need a second approval, with the addresses that can give it; `None` if
    /// the policy asks for none.
    pub fn second_approval(&self) -> Option<(Usd, &BTreeSet<Address>)> {
        static NOBODY: BTreeSet<Address> = BTreeSet::new();
        let SecondApprovalRules { above_usd, approvers } = &self.rules.second_approval;
        Some((above_usd.0?, approvers.0.as_ref().unwrap_or(&NOBODY)))
    }

    /// Returns the policy with a second approval that nobody can give.
    pub(crate) fn asking_nobody(&self) -> Self {
        let mut rules = self.rules.clone();
        rules.second_approval.above_usd.0 = Some(Usd::ZERO);
        rules.second_approval.approvers.0 = None;
        Self::new(rules, self.origin.clone(), self.sources.clone())
    }

    /// Returns the origin of the policy.
    pub fn origin(&self) -> &PolicyOrigin {
        &self.origin
    }

    /// Returns a hash of all rules: two policies with any difference have different hashes.
    pub fn hash(&self) -> B256 {
        self.hash
    }

    /// Returns the display name: the preset's, with `*` for a file.
    pub fn name(&self) -> String {
        match &self.origin {
            PolicyOrigin::Preset(preset) => preset.as_str().to_owned(),
            PolicyOrigin::File { preset, .. } => format!("{}*", preset.as_str()),
            PolicyOrigin::Between => "stricter of two".to_owned(),
        }
    }

    /// Returns the preset that the policy starts from; `None` for a combination of two policies.
    pub fn begins_with(&self) -> Option<PolicyPreset> {
        match &self.origin {
            PolicyOrigin::Preset(preset) | PolicyOrigin::File { preset, .. } => Some(*preset),
            PolicyOrigin::Between => None,
        }
    }

    /// Returns every field, in order.
    pub fn fields(&self) -> Vec<PolicyField> {
        let mut fields = Vec::new();
        self.rules.walk("", &mut |field| fields.push(field));
        fields
    }

    /// Describes where a field was set.
    pub fn set_by(&self, field: &str) -> String {
        match &self.origin {
            PolicyOrigin::Preset(preset) => format!("preset {}", preset.as_str()),
            PolicyOrigin::File { preset, set, .. } => match set.get(field) {
                Some(line) => format!("line {line}"),
                None => format!("preset {}", preset.as_str()),
            },
            PolicyOrigin::Between => "the stricter of two".to_owned(),
        }
    }

    /// Returns the fields that differ in `next`.
    pub fn changes(&self, next: &Self) -> Vec<FieldChange> {
        let both = self.stricter(next);
        let fields = self.fields().into_iter().zip(next.fields()).zip(both.fields());
        fields
            .filter(|((from, to), _)| from.value != to.value)
            .map(|((from, to), both)| FieldChange {
                tighter: both.value == to.value,
                field: from.name,
                from: from.value,
                to: to.value,
            })
            .collect()
    }

    /// Combines two policies, taking the stricter value of each field.
    #[must_use]
    pub fn stricter(&self, other: &Self) -> Self {
        let mut sources = self.sources.clone();
        sources.extend(other.sources.iter().filter(|source| !self.sources.contains(source)).cloned());
        Self::new(self.rules.stricter_fields(&other.rules), PolicyOrigin::Between, sources)
    }
}

/// Component that enforces a field of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyEnforcer {
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
    /// The tools of these names.
    Tools(&'static [&'static str]),
}

impl fmt::Display for PolicyEnforcer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check(check) => write!(f, "{check}"),
            Self::Approval => f.write_str("approval"),
            Self::Sender => f.write_str("sender"),
            Self::TradingTools => f.write_str("trading tools"),
            Self::Reader => f.write_str("this file's reader"),
            Self::Tools(tools) => f.write_str(&tools.join(" and ")),
        }
    }
}

/// Nothing enforces a field of the policy: no tool that could violate it is installed, such as this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not enforced: {0} is not installed")]
pub struct NotEnforced(pub &'static str);

impl PolicyField {
    /// Returns the component that enforces the field if the tools of these names are installed.
    ///
    /// # Errors
    /// [`NotEnforced`] if nothing enforces it.
    pub fn enforced_with(&self, installed: &[&str]) -> Result<PolicyEnforcer, NotEnforced> {
        match self.enforced {
            EnforcedBy::By(check) => Ok(PolicyEnforcer::Check(check)),
            EnforcedBy::Approval => Ok(PolicyEnforcer::Approval),
            EnforcedBy::Sending => Ok(PolicyEnforcer::Sender),
            EnforcedBy::Routing => Ok(PolicyEnforcer::TradingTools),
            EnforcedBy::Load => Ok(PolicyEnforcer::Reader),
            EnforcedBy::Tools(tools) if tools.iter().any(|tool| installed.contains(tool)) => {
                Ok(PolicyEnforcer::Tools(tools))
            }
            EnforcedBy::Tools(tools) => Err(NotEnforced(tools.first().copied().unwrap_or_default())),
        }
    }
}
