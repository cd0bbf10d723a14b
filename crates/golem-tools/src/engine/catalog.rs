//! Which tools there are, and which of them a caller sees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::profiles::categories_of;
use super::tool::{Handler, ToolDef};
use bardo_base::model::{CapabilityTier, Category, Phase, Profile};
use bardo_base::text::{SafeText, nearest};

/// A definition that cannot be taken in. Each is a fault of the program that offers the tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Two tools of one name.
    #[error("two tools are called `{0}`")]
    Duplicate(&'static str),
    /// A name that no caller could write.
    #[error(
        "`{0}` is not a valid tool name: start with a lower-case letter, then use lower-case letters, digits and \
         underscores, at most 64 characters"
    )]
    Name(&'static str),
    /// Something about the definition does not fit together.
    #[error("tool `{tool}`: {fault}")]
    Definition {
        /// Which tool.
        tool: &'static str,
        /// What does not fit, and what would.
        fault: String,
    },
}

/// A tool set that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// A name that no tool has.
    #[error("unknown tool `{name}`{}", .nearest.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// The name, cleaned.
        name: SafeText,
        /// A tool with nearly that name.
        nearest: Option<&'static str>,
    },
    /// A name both included and excluded.
    #[error("`{0}` is both included and excluded: choose one")]
    Both(SafeText),
}

/// One tool as the catalog holds it, its schemas made once.
#[derive(Debug)]
pub struct Entry {
    /// The definition.
    pub def: &'static ToolDef,
    /// JSON Schema (draft 2020-12) of the parameters.
    pub input_schema: Value,
    /// JSON Schema (draft 2020-12) of the result.
    pub output_schema: Value,
    /// Parameters that work on the embedded devnet.
    pub example: Value,
    pub(super) parameters: Vec<String>,
    pub(super) secret_fields: Vec<String>,
}

/// The tools that can be called, by name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    entries: Arc<BTreeMap<&'static str, Arc<Entry>>>,
}

/// What to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only the categories of this profile.
    pub profile: Option<Profile>,
    /// Only this category.
    pub category: Option<Category>,
    /// Only tools that may do this.
    pub capability: Option<CapabilityTier>,
}

/// A tool set: the categories of a profile and those listed, less some tools, plus some.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// A named set of categories.
    pub profile: Option<Profile>,
    /// Categories by name.
    pub categories: Vec<Category>,
    /// Tools to add, whatever their category.
    pub include: Vec<String>,
    /// Tools to leave out.
    pub exclude: Vec<String>,
}

impl Catalog {
    /// Takes in definitions, each checked: a name once and well formed, schemas closed, an example
    /// that the tool itself accepts, and metadata that fits the schemas.
    pub fn new(defs: impl IntoIterator<Item = &'static ToolDef>) -> Result<Self, CatalogError> {
        let mut entries = BTreeMap::new();
        for def in defs {
            let name = def.meta.name;
            let entry = Arc::new(take_in(def)?);
            if entries.insert(name, entry).is_some() {
                return Err(CatalogError::Duplicate(name));
            }
        }
        Ok(Self { entries: Arc::new(entries) })
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.get(name)
    }

    /// The tool whose name is nearly that.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        nearest(name, self.entries.keys().copied())
    }

    /// Every tool, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values()
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The tools that pass every part of the filter, by name.
    pub fn filter(&self, filter: Filter) -> impl Iterator<Item = &Arc<Entry>> {
        self.iter().filter(move |entry| {
            let meta = &entry.def.meta;
            filter.profile.is_none_or(|profile| categories_of(profile).contains(&meta.category))
                && filter.category.is_none_or(|category| category == meta.category)
                && filter.capability.is_none_or(|capability| capability == meta.capability)
        })
    }

    /// A catalog of the selected tools alone.
    pub fn select(&self, selection: &Selection) -> Result<Self, SelectionError> {
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

    /// What a model is told about these tools in a phase: per tool its snippet and the guideline of
    /// the phase, and the one about memory where the set has tools of that category.
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

/// Checks one definition and makes its schemas.
fn take_in(def: &'static ToolDef) -> Result<Entry, CatalogError> {
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
    }
    .map_err(|error| fault(format!("it rejects its own example: {error}")))?;
    Ok(Entry { def, input_schema, output_schema, example, parameters, secret_fields })
}

fn property_names(schema: &Value) -> Vec<String> {
    schema["properties"].as_object().map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

/// Names of fields, at any depth, that a schema marks as secret: `writeOnly` or the format
/// `password` (JSON Schema validation, §9.4 and §7.3; OpenAPI's registry of formats).
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
