//! Parser for an archetype's TOML file. Unknown content is rejected with its line.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::{Archetype, ArchetypeError, DelegationEdge, FileLine};
use bardo_base::model::{Category, Profile};
use bardo_base::regular_file;
use bardo_base::text::{SafeText, nearest};
use golem_tools::engine::ToolSelection;

/// Maximum size of an archetype file, in bytes.
const MOST_BYTES: u64 = 64 << 10;

/// Maximum number of files read from one folder.
const MOST_FILES: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    about: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    terminal: bool,
    #[serde(default)]
    writes: bool,
    profile: Option<Spanned<String>>,
    #[serde(default)]
    categories: Vec<Spanned<String>>,
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default)]
    delegates_to: Vec<Spanned<String>>,
    #[serde(default)]
    added_edges: Vec<AddedEdge>,
}

/// Delegation edge that the specification does not contain, with the reason for it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddedEdge {
    to: Spanned<String>,
    why: String,
}

/// File path with its text, or the reason why it cannot be read.
pub(super) type Source = (PathBuf, Result<String, ArchetypeError>);

/// Reads the operator's own archetype files, sorted by path. A missing folder counts as empty.
///
/// # Errors
/// [`ArchetypeError::Unreadable`] if the folder cannot be read or holds more than [`MOST_FILES`] files.
pub(super) fn own(folder: &Path) -> Result<Vec<Source>, ArchetypeError> {
    let unreadable = |path: &Path, reason: &dyn std::fmt::Display| ArchetypeError::Unreadable {
        path: path.to_owned(),
        reason: reason.to_string(),
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, &error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    if paths.len() > MOST_FILES {
        return Err(unreadable(folder, &format_args!("{} files; at most {MOST_FILES} are read", paths.len())));
    }
    paths.sort();
    let read = |path: &Path| {
        regular_file::read_text(path, MOST_BYTES).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => unreadable(path, &"larger than 64 KiB, the maximum for an archetype"),
            _ => unreadable(path, &error),
        })
    };
    Ok(paths.into_iter().map(|path| (read(&path), path)).map(|(text, path)| (path, text)).collect())
}

/// Parses the archetype in `text`, which was read from `path`.
///
/// # Errors
/// [`ArchetypeError::Line`] for the first problem, with its line.
pub(super) fn parse(path: &Path, text: &str) -> Result<Archetype, ArchetypeError> {
    let place = |at: usize| FileLine { file: path.to_owned(), line: line(text, at) };
    let fail = |at: usize, what: String| ArchetypeError::Line { place: place(at), what };
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        fail(at, SafeText::clean(error.message(), 400).to_string())
    })?;
    let at = file.name.span().start;
    let name = file.name.into_inner();
    let well_formed = !name.is_empty()
        && name.len() <= 40
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !well_formed {
        return Err(fail(at, "name: use up to 40 lower-case letters, digits and `-`".to_owned()));
    }
    if path.file_stem().is_none_or(|stem| stem != name.as_str()) {
        return Err(fail(at, format!("name: `{name}` must be in a file named {name}.toml")));
    }
    let profile = file.profile.map(|given| {
        let known = || Profile::ALL.iter().map(|one| one.as_str());
        given
            .get_ref()
            .parse::<Profile>()
            .map_err(|error| fail(given.span().start, describe(&error, given.get_ref(), known())))
    });
    let profile = profile.transpose()?;
    let categories = file.categories.into_iter().map(|given| {
        let known = || Category::ALL.iter().map(|one| one.as_str());
        given
            .get_ref()
            .parse::<Category>()
            .map_err(|error| fail(given.span().start, describe(&error, given.get_ref(), known())))
    });
    let categories = categories.collect::<Result<Vec<_>, _>>()?;
    if profile.is_none() && categories.is_empty() && file.include.is_empty() {
        return Err(fail(at, format!("`{name}` has no tools: give it a profile, categories or an include list")));
    }
    let drawn = file.delegates_to.into_iter().map(|to| (to, None));
    let added = file.added_edges.into_iter().map(|edge| (edge.to, Some(edge.why)));
    let edges = drawn.chain(added).map(|(to, added)| DelegationEdge {
        place: place(to.span().start),
        to: to.into_inner(),
        added,
    });
    let mut delegates_to: Vec<DelegationEdge> = Vec::new();
    for edge in edges {
        if delegates_to.iter().any(|known| known.to == edge.to) {
            let what = format!("`{}` is listed twice", SafeText::clean(&edge.to, 64));
            return Err(ArchetypeError::Line { place: edge.place, what });
        }
        delegates_to.push(edge);
    }
    Ok(Archetype {
        place: place(at),
        name,
        about: SafeText::clean(&file.about, 300).to_string(),
        group: SafeText::clean(&file.group, 40).to_string(),
        terminal: file.terminal,
        writes: file.writes,
        selection: ToolSelection { profile, categories, include: file.include, exclude: file.exclude },
        delegates_to,
    })
}

fn describe<'a>(error: &dyn std::fmt::Display, given: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = nearest(given, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    format!("{error}{near}")
}

/// Returns the line number of a byte offset, counted from 1.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
