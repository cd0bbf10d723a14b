//! Reads a policy's TOML: a preset, and over it what the file says. What is not understood is
//! refused with its line; nothing is guessed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::fields::{Rules, RulesFile};
use super::preset::Preset;
use super::{Origin, Policy};
use bardo_base::model::Category;
use bardo_base::regular_file;
use bardo_base::text::{SafeText, nearest};

/// The longest file that is read.
const MOST_BYTES: u64 = 1 << 20;

/// Why there is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The file is there and cannot be read.
    #[error("cannot read the policy {}: {reason}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something in it is wrong.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// Tools are installed that could break a rule which nothing holds them to.
    #[error("nothing enforces {field}, although {category} tools are installed: do without them")]
    Unenforced {
        /// The rule.
        field: String,
        /// What tools could break it.
        category: Category,
    },
}

/// The policy in the file at `path`; `None` where there is none.
///
/// # Errors
/// [`PolicyError`], with the line.
pub fn read(path: &Path) -> Result<Option<Policy>, PolicyError> {
    let unreadable = |reason: String| PolicyError::Unreadable { path: path.to_owned(), reason };
    match regular_file::read_text(path, MOST_BYTES) {
        Ok(text) => parse(&text, path).map(Some),
        Err(error) => match error.kind() {
            ErrorKind::NotFound => Ok(None),
            ErrorKind::FileTooLarge => Err(unreadable("larger than 1 MiB; that is no policy".to_owned())),
            ErrorKind::InvalidData => Err(unreadable("not valid UTF-8".to_owned())),
            _ => Err(unreadable(error.to_string())),
        },
    }
}

/// The policy in a text that came from `path`.
///
/// # Errors
/// [`PolicyError::Line`].
pub fn parse(text: &str, path: &Path) -> Result<Policy, PolicyError> {
    let fail = |at: usize, what: String| PolicyError::Line { path: path.to_owned(), line: line(text, at), what };
    let file: RulesFile = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        fail(at, told(error.message()))
    })?;
    let Some(preset) = file.preset else {
        let names = Preset::ALL.map(Preset::as_str).join(", ");
        return Err(fail(0, format!("no preset named: begin with `preset = \"…\"`, one of {names}")));
    };
    let set = keys(text);
    if file.require_simulation_before_execution.is_some_and(|require| !require.0) {
        let at = set.iter().find(|(name, _)| name == "require_simulation_before_execution").map_or(0, |(_, at)| *at);
        let what = "require_simulation_before_execution: simulation cannot be switched off; leave the line out";
        return Err(fail(at, what.to_owned()));
    }
    let set = set.into_iter().map(|(name, at)| (name, line(text, at))).collect();
    let origin = Origin::File { path: path.to_owned(), preset, set };
    Ok(Policy::new(preset.rules().under(file), origin, vec![text.into()]))
}

/// What the reader says, with the nearest field where one was not known.
fn told(message: &str) -> String {
    let clean = SafeText::clean(message, 2_000).to_string();
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
    let Some((unknown, _)) = unknown else { return clean };
    let mut names = Vec::new();
    Preset::ReadOnly.rules().walk("", &mut |field| names.push(field.name));
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let near = nearest(unknown, names.iter().map(String::as_str)).map(last).or_else(|| {
        let bare: Vec<_> = names.iter().map(|name| last(name)).collect();
        nearest(unknown, bare.iter().map(String::as_str)).map(str::to_owned)
    });
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    format!("unknown field `{}`{near} (`bardo policy explain` lists them all)", SafeText::clean(unknown, 80))
}

/// Every field the text sets, with where.
fn keys(text: &str) -> Vec<(String, usize)> {
    fn gather(table: &DeTable<'_>, within: &str, known: &[String], found: &mut Vec<(String, usize)>) {
        for (key, value) in table {
            let name = format!("{within}{}", key.get_ref());
            match value.get_ref().as_table() {
                // A table that is one field, such as the limits by token, is not gone into.
                Some(inner) if !known.contains(&name) => gather(inner, &format!("{name}."), known, found),
                _ => found.push((name, key.span().start)),
            }
        }
    }
    let mut known = Vec::new();
    Rules::walk(&Preset::ReadOnly.rules(), "", &mut |field| known.push(field.name));
    let mut found = Vec::new();
    if let Ok(table) = DeTable::parse(text) {
        gather(table.get_ref(), "", &known, &mut found);
    }
    found
}

/// The line a byte stands on, counted from 1.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
