//! Archetypes: roles with a tool set each, and who may hand work to whom.
//!
//! Those of the documents are in `assets/archetypes`, built in; files of the operator's own in a folder beside the
//! configuration stand over them, name by name. All of them are read and checked against the rules of delegation before
//! anything runs. A broken file stops its own role and those that need it as their way to the guardian, and no other; it
//! is never replaced by the built-in role of its name.
//!
//! | file | holds |
//! |---|---|
//! | `file` | from TOML to an [`Archetype`], with the lines it stands on |
//! | `dag` | the rules of delegation |

mod dag;
mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use bardo_base::config::DEFAULT_ARCHETYPE;
use bardo_base::model::CapabilityTier;
use bardo_base::text::{SafeText, nearest};
use golem_tools::engine::{Catalog, Selection, SelectionError};

/// The role that must agree to what is above the hot lane.
pub const GUARDIAN: &str = "safety-guardian";

/// The longest chain of delegation, in hops.
pub const MAX_HOPS: usize = 3;

/// Characters kept of a name that somebody else wrote.
const MAX_NAME: usize = 64;

/// The role of a Golem that is told no other.
pub const DEFAULT: &str = DEFAULT_ARCHETYPE;

/// The files that are built in.
const BUNDLED: &[(&str, &str)] = &[
    ("cross-chain-executor.toml", include_str!("../../../../assets/archetypes/cross-chain-executor.toml")),
    ("golem-instance.toml", include_str!("../../../../assets/archetypes/golem-instance.toml")),
    ("heartbeat-monitor.toml", include_str!("../../../../assets/archetypes/heartbeat-monitor.toml")),
    ("hook-builder.toml", include_str!("../../../../assets/archetypes/hook-builder.toml")),
    ("identity-verifier.toml", include_str!("../../../../assets/archetypes/identity-verifier.toml")),
    ("integration-advisor.toml", include_str!("../../../../assets/archetypes/integration-advisor.toml")),
    ("integration-architect.toml", include_str!("../../../../assets/archetypes/integration-architect.toml")),
    ("liquidity-manager.toml", include_str!("../../../../assets/archetypes/liquidity-manager.toml")),
    ("lp-strategist.toml", include_str!("../../../../assets/archetypes/lp-strategist.toml")),
    ("memory-consolidator.toml", include_str!("../../../../assets/archetypes/memory-consolidator.toml")),
    ("pnl-analyst.toml", include_str!("../../../../assets/archetypes/pnl-analyst.toml")),
    ("pool-researcher.toml", include_str!("../../../../assets/archetypes/pool-researcher.toml")),
    ("position-monitor.toml", include_str!("../../../../assets/archetypes/position-monitor.toml")),
    ("risk-assessor.toml", include_str!("../../../../assets/archetypes/risk-assessor.toml")),
    ("safety-guardian.toml", include_str!("../../../../assets/archetypes/safety-guardian.toml")),
    ("sleepwalker-observer.toml", include_str!("../../../../assets/archetypes/sleepwalker-observer.toml")),
    ("token-analyst.toml", include_str!("../../../../assets/archetypes/token-analyst.toml")),
    ("trade-executor.toml", include_str!("../../../../assets/archetypes/trade-executor.toml")),
    ("vault-manager.toml", include_str!("../../../../assets/archetypes/vault-manager.toml")),
    ("vault-strategist.toml", include_str!("../../../../assets/archetypes/vault-strategist.toml")),
    ("vault-watchdog.toml", include_str!("../../../../assets/archetypes/vault-watchdog.toml")),
    ("wallet-provisioner.toml", include_str!("../../../../assets/archetypes/wallet-provisioner.toml")),
];

/// A role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archetype {
    /// Its name.
    pub name: String,
    /// What it is for, in a sentence.
    pub about: String,
    /// The group the documents put it in, such as `Strategy`.
    pub group: String,
    /// Whether it never hands work on.
    pub terminal: bool,
    /// Whether it may call tools that sign. Without it such tools are not in its set, whatever the categories say.
    pub writes: bool,
    /// Its tools: categories, and single tools beside and less.
    pub selection: Selection,
    /// To whom it may hand work.
    pub delegates_to: Vec<Edge>,
    /// Where it is written.
    pub place: Place,
}

/// Leave to hand work to a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The role.
    pub to: String,
    /// Why it is here although the documents do not draw it; `None` for those they draw.
    pub added: Option<String>,
    /// Where it is written.
    pub place: Place,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file; only its name where it is built in.
    pub file: PathBuf,
    /// Counted from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.file.display(), self.line)
    }
}

/// Why an archetype, or all of them, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchetypeError {
    /// A file or its folder cannot be read.
    #[error("cannot read the archetype {}: {reason}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something in a file is wrong.
    #[error("{place}: {what}")]
    Line {
        /// Where.
        place: Place,
        /// What, and what would be right.
        what: String,
    },
    /// A rule of delegation is broken.
    #[error("{rule}\n{drawn}")]
    Delegation {
        /// Which rule, in a sentence.
        rule: String,
        /// The path that breaks it, a line for each hop with the file and line it stands on.
        drawn: String,
    },
    /// No role of that name.
    #[error("no archetype is named `{name}`{}; known archetypes: {known}", .near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// One nearly so called.
        near: Option<String>,
        /// All that there are.
        known: String,
    },
    /// Its tool set names a tool that does not exist.
    #[error("{place}: {fault}")]
    Tools {
        /// Where the role is written.
        place: Place,
        /// What is wrong.
        fault: SelectionError,
    },
    /// Several of these.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<ArchetypeError>),
}

/// All roles, checked.
#[derive(Debug, Clone)]
pub struct Archetypes {
    roles: BTreeMap<String, Archetype>,
    /// Roles that cannot be used, each with everything that is wrong with it.
    broken: BTreeMap<String, ArchetypeError>,
}

impl Archetypes {
    /// Those built in, and over them the files `*.toml` in `own`, if there is such a folder.
    ///
    /// # Errors
    /// [`ArchetypeError::Unreadable`] for the folder. What is wrong with single files is in [`Self::broken`].
    pub fn load(own: Option<&Path>) -> Result<Self, ArchetypeError> {
        let bundled = BUNDLED.iter().map(|(name, text)| (PathBuf::from(name), Ok((*text).to_owned())));
        let mut sources: Vec<file::Source> = bundled.collect();
        if let Some(folder) = own {
            sources.extend(file::own(folder)?);
        }
        Ok(Self::from_sources(sources))
    }

    /// The roles of these files; a later one stands over an earlier one of the same name, broken or not.
    fn from_sources(sources: impl IntoIterator<Item = file::Source>) -> Self {
        let mut found = Self { roles: BTreeMap::new(), broken: BTreeMap::new() };
        for (path, text) in sources {
            match text.and_then(|text| file::parse(&path, &text)) {
                Ok(role) => drop(found.roles.insert(role.name.clone(), role)),
                Err(fault) => {
                    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
                    found.break_role(SafeText::clean(&name, MAX_NAME).as_str(), fault);
                }
            }
        }
        found.hold_to_delegation();
        found
    }

    /// Takes every role away that breaks a rule of delegation, until none is left.
    fn hold_to_delegation(&mut self) {
        loop {
            let broken: BTreeSet<String> = self.broken.keys().cloned().collect();
            let faults = dag::faults(&self.roles, &broken);
            if faults.is_empty() {
                return;
            }
            for (members, fault) in faults {
                // Where the operator's own files have part in it, the built-in ones are right without them.
                let own = |name: &&String| self.roles.get(*name).is_some_and(|role| !role.is_built_in());
                let mut at_fault: Vec<String> = members.iter().filter(own).cloned().collect();
                if at_fault.is_empty() {
                    at_fault = members;
                }
                for name in at_fault {
                    self.break_role(&name, fault.clone());
                }
            }
        }
    }

    fn break_role(&mut self, name: &str, fault: ArchetypeError) {
        self.roles.remove(name);
        let fault = match self.broken.remove(name) {
            None => fault,
            Some(ArchetypeError::Several(mut faults)) => {
                faults.push(fault);
                ArchetypeError::Several(faults)
            }
            Some(before) => ArchetypeError::Several(vec![before, fault]),
        };
        self.broken.insert(name.to_owned(), fault);
    }

    /// Roles that cannot be used, by name, each with what is wrong.
    pub fn broken(&self) -> impl Iterator<Item = (&str, &ArchetypeError)> {
        self.broken.iter().map(|(name, fault)| (name.as_str(), fault))
    }

    /// Every role, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Archetype> {
        self.roles.values()
    }

    /// The role of that name.
    ///
    /// # Errors
    /// [`ArchetypeError::Unknown`], or for a broken role what is wrong with it.
    pub fn get(&self, name: &str) -> Result<&Archetype, ArchetypeError> {
        if let Some(fault) = self.broken.get(name) {
            return Err(fault.clone());
        }
        self.roles.get(name).ok_or_else(|| ArchetypeError::Unknown {
            name: SafeText::clean(name, MAX_NAME).to_string(),
            near: nearest(name, self.roles.keys().map(String::as_str)).map(str::to_owned),
            known: self.roles.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// The same without the roles that name a tool that does not exist: they are broken.
    #[must_use]
    pub fn with_tools_of(mut self, all: &Catalog) -> Self {
        let faults: Vec<_> = self.iter().filter_map(|role| Some((role.name.clone(), role.tools(all).err()?))).collect();
        for (name, fault) in faults {
            self.break_role(&name, fault);
        }
        self.hold_to_delegation();
        self
    }

    /// Who is to call `tool` for `role`: the roles from `role` to the nearest one that has it. `None` where nobody
    /// that it may hand work to has it.
    pub fn chain(&self, role: &str, tool: &str, all: &Catalog) -> Option<Vec<String>> {
        let mut paths = vec![vec![self.roles.get(role)?]];
        for _ in 0..=MAX_HOPS {
            let mut further = Vec::new();
            for path in paths {
                let last = *path.last()?;
                if last.tools(all).is_ok_and(|tools| tools.get(tool).is_some()) {
                    return Some(path.iter().map(|role| role.name.clone()).collect());
                }
                for edge in &last.delegates_to {
                    if let Some(next) = self.roles.get(&edge.to) {
                        further.push(path.iter().copied().chain([next]).collect());
                    }
                }
            }
            paths = further;
        }
        None
    }

    /// What a Golem of this role can reach: its own tools and those of whoever it may hand work to.
    ///
    /// # Errors
    /// [`ArchetypeError`] for an unknown role, or one that names an unknown tool.
    pub fn reach(&self, role: &str, all: &Catalog) -> Result<Catalog, ArchetypeError> {
        let mut names: Vec<String> = Vec::new();
        let mut waiting = vec![self.get(role)?];
        let mut seen: Vec<&str> = Vec::new();
        while let Some(role) = waiting.pop() {
            if seen.contains(&role.name.as_str()) {
                continue;
            }
            seen.push(&role.name);
            names.extend(role.tools(all)?.iter().map(|entry| entry.def.meta.name.to_owned()));
            waiting.extend(role.delegates_to.iter().filter_map(|edge| self.roles.get(&edge.to)));
        }
        let selection = Selection { include: names, ..Selection::default() };
        all.select(&selection).map_err(|fault| match self.get(role) {
            Ok(found) => ArchetypeError::Tools { place: found.place.clone(), fault },
            Err(unknown) => unknown,
        })
    }
}

impl Archetype {
    /// Whether it came with the program.
    pub fn is_built_in(&self) -> bool {
        BUNDLED.iter().any(|(name, _)| Path::new(name) == self.place.file)
    }

    /// Its own tools out of all there are. A role that does not write has none that sign.
    ///
    /// # Errors
    /// [`ArchetypeError::Tools`].
    pub fn tools(&self, all: &Catalog) -> Result<Catalog, ArchetypeError> {
        let wrong = |fault| ArchetypeError::Tools { place: self.place.clone(), fault };
        let selected = all.select(&self.selection).map_err(wrong)?;
        if self.writes {
            return Ok(selected);
        }
        let reads = selected.iter().filter(|entry| entry.def.meta.capability == CapabilityTier::Read);
        let include = reads.map(|entry| entry.def.meta.name.to_owned()).collect();
        all.select(&Selection { include, ..Selection::default() }).map_err(wrong)
    }
}
