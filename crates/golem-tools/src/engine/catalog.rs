//! Catalog of the tools, and the selections that a caller can use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::profiles::categories_of;
use super::tool::{Handler, ToolDef};
use bardo_base::model::{CapabilityTier, Category, Phase, Profile};
use bardo_base::text::{SafeText, nearest};

/// Error for a tool definition that cannot be added. Each is a bug of the program that offers the tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Two tools with the same name.
    #[error("two tools are called `{0}`")]
    Duplicate(&'static str),
    /// Malformed tool name.
    #[error(
        "`{0}` is not a valid tool name: start with a lower-case letter, then use lower-case letters, digits and \
         underscores, at most 64 characters"
    )]
    Name(&'static str),
    /// Inconsistent tool definition.
    #[error("tool `{tool}`: {fault}")]
    Definition {
        /// Name of the tool.
        tool: &'static str,
        /// Description of the problem and of a correct value.
        fault: String,
    },
}

/// Error for a tool selection that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// Unknown tool name.
    #[error("unknown tool `{name}`{}", .nearest.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// Given name, with control characters removed.
        name: SafeText,
        /// Closest existing tool name, if any.
        nearest: Option<&'static str>,
    },
    /// Tool name that is both included and excluded.
    #[error("`{0}` is both included and excluded: choose one")]
    Both(SafeText),
}

/// Catalog entry: a tool with its schemas.
#[derive(Debug)]
pub struct CatalogEntry {
    /// Definition of the tool.
    pub def: &'static ToolDef,
    /// JSON Schema (draft 2020-12) of the parameters.
    pub input_schema: Value,
    /// JSON Schema (draft 2020-12) of the result.
    pub output_schema: Value,
    /// Example parameters that work on the embedded devnet.
    pub example: Value,
    pub(super) parameters: Vec<String>,
    pub(super) secret_fields: Vec<String>,
}

/// Callable tools by name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    entries: Arc<BTreeMap<&'static str, Arc<CatalogEntry>>>,
}

/// Filter for listing tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only tools in the categories of this profile.
    pub profile: Option<Profile>,
    /// Only tools in this category.
    pub category: Option<Category>,
    /// Only tools with this capability.
    pub capability: Option<CapabilityTier>,
}

/// Tool selection: the categories of a profile plus the listed categories, minus excluded tools, plus included tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSelection {
    /// Named set of categories.
    pub profile: Option<Profile>,
    /// Categories in addition to the profile's.
    pub categories: Vec<Category>,
    /// Tools to include, whatever their category.
    pub include: Vec<String>,
    /// Tools to exclude.
    pub exclude: Vec<String>,
}

impl Catalog {
    /// Builds a catalog and checks each definition: a unique and well-formed name, closed schemas, an example that the
    /// tool accepts, and metadata that fits the schemas.
    ///
    /// # Errors
    /// Returns the first definition that fails a check.
    pub fn new(defs: impl IntoIterator<Item = &'static ToolDef>) -> Result<Self, CatalogError> {
        let mut entries = BTreeMap::new();
        for def in defs {
            let name = def.meta.name;
            let entry = Arc::new(add_definition(def)?);
            if entries.insert(name, entry).is_some() {
                return Err(CatalogError::Duplicate(name));
            }
        }
        Ok(Self { entries: Arc::new(entries) })
    }

    /// Returns the tool with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<CatalogEntry>> {
        self.entries.get(name)
    }

    /// Returns the tool name closest to `name`, if one is close enough for a suggestion.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        nearest(name, self.entries.keys().copied())
    }

    /// Iterates over all tools in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        self.entries.values()
    }

    /// Number of tools.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the catalog has no tools.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over the tools that match every part of the filter, in the order of their names.
    pub fn filter(&self, filter: ToolFilter) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        self.iter().filter(move |entry| {
            let meta = &entry.def.meta;
            filter.profile.is_none_or(|profile| categories_of(profile).contains(&meta.category))
                && filter.category.is_none_or(|category| category == meta.category)
                && filter.capability.is_none_or(|capability| capability == meta.capability)
        })
    }

    /// Builds a catalog of the selected tools only.
    ///
    /// # Errors
    /// Returns an unknown name, or a name that is both included and excluded.
    pub fn select(&self, selection: &ToolSelection) -> Result<Self, SelectionError> {
        let known = |name: &String| match self.entries.get_key_value(name.as_str()) {
            Some((name, _)) => Ok(*name),
            None => Err(SelectionError::Unknown { name: SafeText::clean(name, 64), nearest: self.nearest(name) }),
        };
        let include = selection.include.iter().map(known).collect::<Result<BTreeSet<_>, _>>()?;
        let exclude = selection.exclude.iter().map(known).collect::<Result<BTreeSet<_>, _>>()?;
        if let Some(both) = include.intersection(&exclude).next() {
            return Err(SelectionError::Both(SafeText::clean(both, 64)));
        }
        let profile = selection.profile.map_or(&[][..], categories_of);
        let wanted = |category: &Category| profile.contains(category) || selection.categories.contains(category);
        let entries = self
            .entries
            .iter()
            .filter(|(name, entry)| {
                include.contains(*name) || (wanted(&entry.def.meta.category) && !exclude.contains(*name))
            })
            .map(|(name, entry)| (*name, entry.clone()))
            .collect();
        Ok(Self { entries: Arc::new(entries) })
    }

    /// Returns the model prompt for these tools in a phase: each tool's snippet and guideline for the phase. The
    /// guideline about memory is added if the set has tools of the memory category.
    pub fn prompt(&self, phase: Phase) -> String {
        let remembers = self.iter().any(|entry| entry.def.meta.category == Category::Memory);
        let mut prompt = String::new();
        for entry in self.iter() {
            let meta = &entry.def.meta;
            prompt.push_str(&format!(
                "{}: {} {}",
                meta.name,
                meta.prompt_snippet,
                meta.prompt_guidelines.for_phase(phase)
            ));
            if let (true, Some(memory)) = (remembers, meta.prompt_guidelines.memory) {
                prompt.push(' ');
                prompt.push_str(memory);
            }
            prompt.push('\n');
        }
        prompt
    }
}

/// Checks a definition and generates its schemas.
fn add_definition(def: &'static ToolDef) -> Result<CatalogEntry, CatalogError> {
    let meta = &def.meta;
    let mut letters = meta.name.bytes();
    let well_formed = letters.next().is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && meta.name.len() <= 64;
    if !well_formed {
        return Err(CatalogError::Name(meta.name));
    }
    let fault = |fault: String| CatalogError::Definition { tool: meta.name, fault };
    let guidelines = &meta.prompt_guidelines;
    let texts = [meta.description, meta.prompt_snippet, guidelines.thriving, guidelines.cautious];
    if texts.into_iter().chain([guidelines.declining, guidelines.terminal]).any(|text| text.trim().is_empty()) {
        return Err(fault("description, snippet and every guideline must not be empty".to_owned()));
    }
    let input_schema = (def.input_schema)();
    let output_schema = (def.output_schema)();
    if input_schema["type"] != "object" || input_schema["additionalProperties"] != false {
        return Err(fault(
            "its parameters must be a struct that refuses unknown fields: add #[serde(deny_unknown_fields)]".to_owned(),
        ));
    }
    if output_schema["type"] != "object" || output_schema["additionalProperties"] != false {
        return Err(fault("its output must be a struct with named fields".to_owned()));
    }
    let parameters = property_names(&input_schema);
    let results = property_names(&output_schema);
    for (names, known, what) in
        [(meta.event_params, &parameters, "parameter"), (meta.summary_fields, &results, "result field")]
    {
        if let Some(name) = names.iter().find(|name| !known.iter().any(|one| one == *name)) {
            return Err(fault(format!("it has no {what} `{name}`; it has {}", known.join(", "))));
        }
    }
    let mut secret_fields = Vec::new();
    collect_secrets(&input_schema, &mut secret_fields);
    let example = (def.example)();
    match def.handler {
        Handler::Read(bind) => bind(&example, &parameters).map(drop),
        Handler::Write(bind) => bind(&example, &parameters).map(drop),
        Handler::Record { bind, .. } => bind(&example, &parameters).map(drop),
    }
    .map_err(|error| fault(format!("it rejects its own example: {error}")))?;
    Ok(CatalogEntry { def, input_schema, output_schema, example, parameters, secret_fields })
}

fn property_names(schema: &Value) -> Vec<String> {
    schema["properties"].as_object().map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

/// Collects the names of fields, at any depth, that a schema marks as secret: `writeOnly` or the format `password`
/// (JSON Schema validation, §9.4 and §7.3; OpenAPI's registry of formats).
fn collect_secrets(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
                let marked = properties
                    .iter()
                    .filter(|(_, inner)| inner["writeOnly"] == true || inner["format"] == "password")
                    .map(|(name, _)| name.clone());
                into.extend(marked);
            }
            fields.values().for_each(|inner| collect_secrets(inner, into));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect_secrets(inner, into)),
        _ => {}
    }
}
