//! A room imports only from floors below its own: reads every `crate::` path in `src/` and names
//! each one that runs up, or sideways between rooms of one floor.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms and their floors, as `ARCHITECTURE.md` draws them.
const FLOORS: &[(&str, u8)] = &[
    ("base", 1),
    ("fabric", 2),
    ("abi", 3),
    ("store", 4),
    ("chain", 5),
    ("uniswap", 6),
    ("intents", 6),
    ("erc8004", 6),
    ("sandbox", 7),
    ("safety", 8),
    ("custody", 9),
    ("engine", 10),
    ("tools", 11),
    ("golem", 12),
    ("runtime", 13),
    ("cli", 14),
    ("console", 14),
];

/// The one import between two rooms of one floor: the command line opens the console.
const ALLOWED_SIDEWAYS: &[(&str, &str)] = &[("cli", "console")];

fn floor_of(room: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == room).map(|(_, floor)| *floor)
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every first path segment after `prefix` in one source text, groups in braces included; comments do not count.
fn segments_after(source: &str, prefix: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .map(|line| if line.trim_start().starts_with("//") { "" } else { line })
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut segments = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0usize;
            let mut word = String::new();
            let mut skip = false;
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        segments.push(std::mem::take(&mut word));
                        skip = false;
                    }
                    c if depth == 0 && !skip && (c.is_alphanumeric() || c == '_') => word.push(c),
                    ':' if depth == 0 => skip = true,
                    _ => {}
                }
            }
            segments.push(word);
        } else {
            segments.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    segments.retain(|segment| segment.starts_with(|c: char| c.is_lowercase()));
    segments
}

/// What is wrong with one file's imports, as lines to print.
fn faults(room: &str, depth: usize, source: &str, file: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(own) = floor_of(room) else {
        return vec![format!("{file}: the room `{room}` has no floor in tests/floors.rs")];
    };
    for other in segments_after(source, "crate::") {
        let Some(floor) = floor_of(&other) else { continue };
        let sideways_allowed = ALLOWED_SIDEWAYS.contains(&(room, other.as_str()));
        if other != room && floor >= own && !sideways_allowed {
            faults.push(format!("{file}: `{room}` (floor {own}) imports `{other}` (floor {floor})"));
        }
    }
    // `super` chains that leave the room would hide an import from the check above. An inline test
    // module adds one level, so a chain longer than the file is deep is the first that must leave.
    let climbing = "super::".repeat(depth + 1);
    if source.contains(&climbing) {
        faults.push(format!("{file}: `{climbing}…` leaves the room; write `crate::` instead"));
    }
    faults
}

#[test]
fn no_import_runs_up_or_sideways() {
    let source_folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&source_folder, &mut files);
    assert!(files.len() > 10, "found only {} files: is the path right?", files.len());
    let mut all = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&source_folder).unwrap();
        let parts: Vec<_> = relative.iter().map(|part| part.to_str().unwrap()).collect();
        if parts.len() == 1 && matches!(parts[0], "lib.rs" | "main.rs") {
            continue;
        }
        let room = parts[0].trim_end_matches(".rs");
        let depth = parts.len() - usize::from(parts.last() == Some(&"mod.rs"));
        all.extend(faults(room, depth, &fs::read_to_string(&file).unwrap(), &relative.display().to_string()));
    }
    assert!(all.is_empty(), "\n{}\n", all.join("\n"));
}

#[test]
fn upward_and_sideways_imports_are_found() {
    assert_eq!(faults("base", 2, "use crate::chain::Chain;", "f").len(), 1);
    assert_eq!(faults("cli", 2, "use crate::console;", "f").len(), 0);
    assert_eq!(faults("console", 2, "use crate::cli;", "f").len(), 1);
    assert_eq!(faults("chain", 2, "use crate::{base::units::Usd, sandbox::{self, market}};", "f").len(), 1);
    assert_eq!(faults("chain", 2, "fn f() { crate::engine::run() }", "f").len(), 1);
    assert_eq!(faults("chain", 2, "// see crate::engine", "f").len(), 0);
    assert_eq!(faults("chain", 2, "use crate::chain::evm; use crate::base::text;", "f").len(), 0);
    assert_eq!(faults("attic", 2, "", "f").len(), 1);
    assert_eq!(faults("chain", 2, "use super::super::super::engine;", "f").len(), 1);
}

/// Proofs that the operator decided come from the password check alone; tests make theirs where they need one.
#[test]
fn only_the_password_check_makes_proofs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    let makes = |path: &PathBuf| {
        let source = fs::read_to_string(path).unwrap();
        // What stands behind the last mark of a test is a test.
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        !path.ends_with("tests.rs") && code.contains("OperatorProof::issue(")
    };
    let made: Vec<_> = files.into_iter().filter(makes).collect();
    assert_eq!(made, [root.join("custody/reauthentication.rs")]);
}
