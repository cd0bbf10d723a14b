//! Parser of policy files (TOML): a preset, with the file's fields applied over it. Unknown content is rejected with
//! its line number.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::fields::{Rules, RulesFile, SecondApprovalRules};
use super::preset::PolicyPreset;
use super::{Policy, PolicyOrigin};
use bardo_base::regular_file;
use bardo_base::text::{SafeText, nearest};

/// Maximum file size, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Reason why a policy could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The file exists and cannot be read.
    #[error("cannot read the policy {}: {reason}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error message of the reader.
        reason: String,
    },
    /// The file has an error.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Description of the error, with a correct form.
        what: String,
    },
}

/// Reads the policy file at `path`; `None` if there is no such file.
///
/// # Errors
/// [`PolicyError`] if the file cannot be read, or with the line of its first error.
pub fn read(path: &Path) -> Result<Option<Policy>, PolicyError> {
    let unreadable = |reason: String| PolicyError::Unreadable { path: path.to_owned(), reason };
    match regular_file::read_text(path, MOST_BYTES) {
        Ok(text) => parse(&text, path).map(Some),
        Err(error) => match error.kind() {
            ErrorKind::NotFound => Ok(None),
            ErrorKind::FileTooLarge => Err(unreadable("larger than 1 MiB, so not a policy".to_owned())),
            ErrorKind::InvalidData => Err(unreadable("not valid UTF-8".to_owned())),
            _ => Err(unreadable(error.to_string())),
        },
    }
}

/// Parses a policy text that was read from `path`.
///
/// # Errors
/// [`PolicyError::Line`] for the first error.
pub fn parse(text: &str, path: &Path) -> Result<Policy, PolicyError> {
    let fail = |at: usize, what: String| PolicyError::Line { path: path.to_owned(), line: line(text, at), what };
    let file: RulesFile = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        fail(at, parser_message(error.message()))
    })?;
    let Some(preset) = file.preset else {
        let names = PolicyPreset::ALL.map(PolicyPreset::as_str).join(", ");
        return Err(fail(0, format!("no preset named: start with `preset = \"…\"`, one of {names}")));
    };
    let set = keys(text);
    if file.require_simulation_before_execution.is_some_and(|require| !require.0) {
        let at = set.iter().find(|(name, _)| name == "require_simulation_before_execution").map_or(0, |(_, at)| *at);
        let what = "require_simulation_before_execution: simulation cannot be switched off; remove the line";
        return Err(fail(at, what.to_owned()));
    }
    if let Some((field, why)) = one_sided(&preset.rules().under(file.clone()).second_approval) {
        let at = set.iter().find(|(name, _)| name == field).map_or(0, |(_, at)| *at);
        return Err(fail(at, why.to_owned()));
    }
    let set = set.into_iter().map(|(name, at)| (name, line(text, at))).collect();
    let origin = PolicyOrigin::File { path: path.to_owned(), preset, set };
    Ok(Policy::new(preset.rules().under(file), origin, vec![text.into()]))
}

/// Returns the field of a second approval that is set without the other, with the error.
fn one_sided(rules: &SecondApprovalRules) -> Option<(&'static str, &'static str)> {
    match (rules.above_usd.0.is_some(), rules.approvers.0.is_some()) {
        (true, false) => {
            let why = "second_approval.above_usd needs second_approval.approvers: list the addresses that can approve";
            Some(("second_approval.above_usd", why))
        }
        (false, true) => {
            let why = "second_approval.approvers has no effect without second_approval.above_usd: set the amount, or \
                       remove the line";
            Some(("second_approval.approvers", why))
        }
        (true, true) | (false, false) => None,
    }
}

/// Formats a parser error, with the nearest field name for an unknown field.
fn parser_message(message: &str) -> String {
    let clean = SafeText::clean(message, 2_000).to_string();
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
    let Some((unknown, _)) = unknown else { return clean };
    let mut names = Vec::new();
    PolicyPreset::ReadOnly.rules().walk("", &mut |field| names.push(field.name));
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let near = nearest(unknown, names.iter().map(String::as_str)).map(last).or_else(|| {
        let bare: Vec<_> = names.iter().map(|name| last(name)).collect();
        nearest(unknown, bare.iter().map(String::as_str)).map(str::to_owned)
    });
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    format!("unknown field `{}`{near} (`bardo policy explain` lists them all)", SafeText::clean(unknown, 80))
}

/// Returns every field that the text sets, with its byte offset.
fn keys(text: &str) -> Vec<(String, usize)> {
    fn gather(table: &DeTable<'_>, within: &str, known: &[String], found: &mut Vec<(String, usize)>) {
        for (key, value) in table {
            let name = format!("{within}{}", key.get_ref());
            match value.get_ref().as_table() {
                // A table that is a single field, such as the limits by token, is not descended into.
                Some(inner) if !known.contains(&name) => gather(inner, &format!("{name}."), known, found),
                _ => found.push((name, key.span().start)),
            }
        }
    }
    let mut known = Vec::new();
    Rules::walk(&PolicyPreset::ReadOnly.rules(), "", &mut |field| known.push(field.name));
    let mut found = Vec::new();
    if let Ok(table) = DeTable::parse(text) {
        gather(table.get_ref(), "", &known, &mut found);
    }
    found
}

/// Returns the line number of a byte offset, from 1.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
