//! Archetypes: roles with their tool sets and delegation edges.
//!
//! The specification's archetypes, and one of ours that keeps agents' registrations, are in `assets/archetypes` and built in. The operator's own files, in a folder beside
//! the configuration, override them by name. All files are read and checked against the delegation rules before
//! anything runs. A broken file disables its own role, and the roles that need it as their path to the guardian. The
//! built-in role of the same name never replaces it.
//!
//! | file | holds |
//! |---|---|
//! | `file` | parsing TOML to an [`Archetype`], with line numbers |
//! | `dag` | the delegation rules |

mod dag;
mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use bardo_base::config::DEFAULT_ARCHETYPE;
use bardo_base::model::{CapabilityTier, Category, ToolMeta};
use bardo_base::text::{SafeText, nearest};
use golem_tools::engine::{Catalog, SelectionError, ToolSelection};

/// Name of the role that must agree to actions above the hot lane.
pub const GUARDIAN: &str = "safety-guardian";

/// Maximum length of a delegation chain, in hops.
pub const MAX_HOPS: usize = 3;

/// Maximum length of a name from a file or a caller, in characters.
const MAX_NAME: usize = 64;

/// Role of a Golem without a configured role.
pub const DEFAULT: &str = DEFAULT_ARCHETYPE;

/// Built-in archetype files, by file name.
const BUNDLED: &[(&str, &str)] = &[
    ("agent-keeper.toml", include_str!("../../../../assets/archetypes/agent-keeper.toml")),
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

/// Role of a Golem or of an agent it delegates to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archetype {
    /// Name of the role: lower-case letters, digits and `-`.
    pub name: String,
    /// Purpose of the role, in a sentence.
    pub about: String,
    /// Group in the specification, such as `Strategy`.
    pub group: String,
    /// True if the role never delegates.
    pub terminal: bool,
    /// True if the role may call tools that sign. Otherwise such tools are removed from its set, whatever its
    /// categories.
    pub writes: bool,
    /// Tool selection: profile, categories, included and excluded tools.
    pub selection: ToolSelection,
    /// Roles that it may delegate to.
    pub delegates_to: Vec<DelegationEdge>,
    /// Location of the definition.
    pub place: FileLine,
}

/// Permission to delegate to a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationEdge {
    /// Name of the target role.
    pub to: String,
    /// Reason for an edge that the specification does not contain; `None` for edges of the specification.
    pub added: Option<String>,
    /// Location of the definition.
    pub place: FileLine,
}

/// Line in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLine {
    /// Path of the file; for built-in files, only the name.
    pub file: PathBuf,
    /// Line number, counted from 1.
    pub line: usize,
}

impl fmt::Display for FileLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.file.display(), self.line)
    }
}

/// Error in one or several archetypes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchetypeError {
    /// Unreadable file or folder.
    #[error("cannot read the archetype {}: {reason}", path.display())]
    Unreadable {
        /// Path of the file or folder.
        path: PathBuf,
        /// Reason from the operating system, or an exceeded limit.
        reason: String,
    },
    /// Invalid content of a file.
    #[error("{place}: {what}")]
    Line {
        /// Location of the problem.
        place: FileLine,
        /// Description of the problem and of a correct value.
        what: String,
    },
    /// Violated delegation rule.
    #[error("{rule}\n{drawn}")]
    Delegation {
        /// Rule that is violated, in a sentence.
        rule: String,
        /// Path that violates the rule: one line per hop, with its file and line.
        drawn: String,
    },
    /// Unknown role name.
    #[error("no archetype is named `{name}`{}; known archetypes: {known}", .near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// Requested name, with control characters removed.
        name: String,
        /// Closest known name, if any.
        near: Option<String>,
        /// All known names, separated by commas.
        known: String,
    },
    /// Tool set with an unknown or contradictory tool name.
    #[error("{place}: {fault}")]
    Tools {
        /// Location of the role's definition.
        place: FileLine,
        /// Cause of the error.
        fault: SelectionError,
    },
    /// Several errors of one role.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<ArchetypeError>),
}

/// All roles, checked against the delegation rules.
#[derive(Debug, Clone)]
pub struct Archetypes {
    roles: BTreeMap<String, Archetype>,
    /// Unusable roles, each with all of its errors.
    broken: BTreeMap<String, ArchetypeError>,
}

impl Archetypes {
    /// Loads the built-in roles, and over them the `*.toml` files of the folder `own`, if it exists.
    ///
    /// # Errors
    /// [`ArchetypeError::Unreadable`] for the folder. Errors of single files are in [`Self::broken`].
    pub fn load(own: Option<&Path>) -> Result<Self, ArchetypeError> {
        let bundled = BUNDLED.iter().map(|(name, text)| (PathBuf::from(name), Ok((*text).to_owned())));
        let mut sources: Vec<file::Source> = bundled.collect();
        if let Some(folder) = own {
            sources.extend(file::own(folder)?);
        }
        Ok(Self::from_sources(sources))
    }

    /// Builds the roles from file texts. A later file overrides an earlier one of the same name, broken or not.
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
        found.enforce_delegation();
        found
    }

    /// Removes roles that violate a delegation rule, until no violation is left.
    fn enforce_delegation(&mut self) {
        loop {
            let broken: BTreeSet<String> = self.broken.keys().cloned().collect();
            let faults = dag::faults(&self.roles, &broken);
            if faults.is_empty() {
                return;
            }
            for (members, fault) in faults {
                // If the operator's own files are involved, they are at fault: the built-in roles are valid by
                // themselves.
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

    /// Iterates over the unusable roles in the order of their names, each with its errors.
    pub fn broken(&self) -> impl Iterator<Item = (&str, &ArchetypeError)> {
        self.broken.iter().map(|(name, fault)| (name.as_str(), fault))
    }

    /// Iterates over the usable roles in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Archetype> {
        self.roles.values()
    }

    /// Returns the role with this name.
    ///
    /// # Errors
    /// [`ArchetypeError::Unknown`] for an unknown role, or the errors of a broken role.
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

    /// Marks roles that name an unknown tool as broken.
    #[must_use]
    pub fn with_tools_of(mut self, all: &Catalog) -> Self {
        let faults: Vec<_> = self.iter().filter_map(|role| Some((role.name.clone(), role.tools(all).err()?))).collect();
        for (name, fault) in faults {
            self.break_role(&name, fault);
        }
        self.enforce_delegation();
        self
    }

    /// Returns the delegation chain for a call: the roles from `role` to the nearest role that has `tool`. `None` if no
    /// role within [`MAX_HOPS`] hops has it.
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

    /// Returns all tools within reach of a role: its own and those of the roles it may delegate to, directly or
    /// indirectly.
    ///
    /// # Errors
    /// [`ArchetypeError`] for an unknown role, or for a role that names an unknown tool.
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
        let selection = ToolSelection { include: names, ..ToolSelection::default() };
        all.select(&selection).map_err(|fault| match self.get(role) {
            Ok(found) => ArchetypeError::Tools { place: found.place.clone(), fault },
            Err(unknown) => unknown,
        })
    }
}

impl Archetype {
    /// True for a role from the built-in files.
    pub fn is_built_in(&self) -> bool {
        BUNDLED.iter().any(|(name, _)| Path::new(name) == self.place.file)
    }

    /// Returns the role's own tools. A role without `writes` gets only tools that read, or that keep its own notes.
    ///
    /// # Errors
    /// [`ArchetypeError::Tools`] if the selection names an unknown tool.
    pub fn tools(&self, all: &Catalog) -> Result<Catalog, ArchetypeError> {
        let wrong = |fault| ArchetypeError::Tools { place: self.place.clone(), fault };
        let selected = all.select(&self.selection).map_err(wrong)?;
        if self.writes {
            return Ok(selected);
        }
        let changes_nothing_else = |meta: &ToolMeta| {
            meta.capability == CapabilityTier::Read || meta.category == Category::Memory && !meta.signs()
        };
        let reads = selected.iter().filter(|entry| changes_nothing_else(&entry.def.meta));
        let include = reads.map(|entry| entry.def.meta.name.to_owned()).collect();
        all.select(&ToolSelection { include, ..ToolSelection::default() }).map_err(wrong)
    }
}
