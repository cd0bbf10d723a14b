//! Policy of each kind of network: one file for devnets and one for all other networks, beside the configuration file,
//! each with a preset that applies while the file is absent.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use bardo_base::config::Config;
use bardo_base::text::SafeText;
use bardo_base::{private, regular_file};
use bardo_safety::policy::{PolicyError, PolicyKeeper, PolicyPreset};
use golem_chain::network::{NetworkKind, NetworkPlan, NetworkPlanError};

/// Policy file of test networks and real networks. Without it nothing is signed there.
const FILE: &str = "policy.toml";
/// Policy file of devnets. Without it the demo preset applies.
const DEVNET_FILE: &str = "policy-devnet.toml";

/// Maximum size of a policy file, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Maximum number of lines that are compared one by one; longer files are shown whole.
const MOST_COMPARED: usize = 1_000;

/// Maximum length of a line of the file for display, in characters.
const MOST_SHOWN: usize = 4_000;

/// Path of the policy file, and the preset that applies without it.
pub fn place(config: &Config, devnet: bool) -> (PathBuf, PolicyPreset) {
    let (file, absent) = if devnet { (DEVNET_FILE, PolicyPreset::Demo) } else { (FILE, PolicyPreset::ReadOnly) };
    (config.file.with_file_name(file), absent)
}

/// Opens the policy of this kind of network.
///
/// # Errors
/// [`PolicyError`] for a file that cannot be used.
pub fn open(config: &Config, devnet: bool) -> Result<PolicyKeeper, PolicyError> {
    let (path, absent) = place(config, devnet);
    PolicyKeeper::open(path, absent)
}

/// True if all configured chains are devnets, as far as the configuration shows.
///
/// # Errors
/// [`NetworkPlanError`] if the configuration names no usable network.
pub fn is_devnet(config: &Config) -> Result<bool, NetworkPlanError> {
    Ok(match NetworkPlan::from_config(config)? {
        NetworkPlan::Devnet => true,
        NetworkPlan::Endpoints(plans) => {
            let kind = |plan: &golem_chain::network::ChainPlan| plan.network.as_ref().map(|network| network.kind);
            !plans.is_empty() && plans.iter().all(|plan| kind(plan) == Some(NetworkKind::Devnet))
        }
    })
}

/// New text of a policy file, with the text that it replaces. What the operator confirms is what is written: if the file
/// has changed since, it is not.
#[derive(Debug)]
pub struct PolicyRewrite {
    path: PathBuf,
    /// Text of the file; `None` if there is none.
    before: Option<String>,
    /// Text that stands for the preset that applies without a file.
    absent: String,
    text: String,
}

impl PolicyRewrite {
    /// Prepares to replace the file at `path` by `text`. `absent` applies without a file.
    ///
    /// # Errors
    /// The error of reading the file.
    pub fn new(path: PathBuf, absent: PolicyPreset, text: String) -> io::Result<Self> {
        let before = read(&path)?;
        let absent = format!("# There was no policy file: this preset applied.\npreset = \"{}\"\n", absent.as_str());
        Ok(Self { path, before, absent, text })
    }

    /// Prepares to restore the newest previous text of the file at `path`. `None` without one.
    ///
    /// # Errors
    /// The error of reading the files.
    pub fn undo(path: PathBuf, absent: PolicyPreset) -> io::Result<Option<(Self, PathBuf)>> {
        let Some((_, newest)) = previous(&path)?.pop_last() else { return Ok(None) };
        let Some(text) = read(&newest)? else { return Ok(None) };
        Ok(Some((Self::new(path, absent, text)?, newest)))
    }

    /// Path of the policy file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// New text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Every line of the old and the new file, marked as removed (-), added (+) or unchanged.
    pub fn lines(&self) -> Vec<String> {
        let before = self.before.as_deref().unwrap_or(&self.absent);
        let shown = |(mark, line): (char, &str)| format!("  {mark} {}", SafeText::clean(line, MOST_SHOWN));
        differences(before, &self.text).into_iter().map(shown).collect()
    }

    /// Writes the new text, and keeps the previous one beside it. Returns the path of the previous file.
    ///
    /// # Errors
    /// The error of the operating system, and an error if the file has changed since it was read. The file is then as it
    /// was.
    pub fn write(self) -> io::Result<PathBuf> {
        if read(&self.path)? != self.before {
            return Err(io::Error::other(
                "it has changed since it was shown, and was not written: run the command again",
            ));
        }
        let number = previous(&self.path)?.last_key_value().map_or(1, |(number, _)| number.saturating_add(1));
        let kept = numbered(&self.path, number);
        private::replace(&kept, self.before.as_deref().unwrap_or(&self.absent).as_bytes())?;
        private::replace(&self.path, self.text.as_bytes())?;
        Ok(kept)
    }

    /// Writes the restored text and removes the previous file, so that the next undo restores the one before it.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn restore(self, from: &Path) -> io::Result<()> {
        if read(&self.path)? != self.before {
            return Err(io::Error::other(
                "it has changed since it was shown, and was not written: run the command again",
            ));
        }
        private::replace(&self.path, self.text.as_bytes())?;
        fs::remove_file(from)
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match regular_file::read_text(path, MOST_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Path of the previous text with this number.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.previous-{number}"))
}

/// Previous texts of the file by their number.
fn previous(path: &Path) -> io::Result<BTreeMap<u64, PathBuf>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let prefix = format!("{}.previous-", path.file_name().unwrap_or_default().to_string_lossy());
    let mut found = BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(number) = name.strip_prefix(&prefix).and_then(|number| number.parse().ok()) {
            found.insert(number, entry.path());
        }
    }
    Ok(found)
}

/// Lines of two texts by their longest common subsequence: removed, added and unchanged ones, in order.
fn differences<'a>(before: &'a str, after: &'a str) -> Vec<(char, &'a str)> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    if old.len() > MOST_COMPARED || new.len() > MOST_COMPARED {
        return old.iter().map(|line| ('-', *line)).chain(new.iter().map(|line| ('+', *line))).collect();
    }
    // Length of the longest common subsequence of each pair of tails.
    let mut tails = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    let at = |tails: &[Vec<usize>], row: usize, column: usize| {
        tails.get(row).and_then(|row| row.get(column)).copied().unwrap_or_default()
    };
    for (row, left) in old.iter().enumerate().rev() {
        for (column, right) in new.iter().enumerate().rev() {
            let length = match left == right {
                true => at(&tails, row + 1, column + 1) + 1,
                false => at(&tails, row + 1, column).max(at(&tails, row, column + 1)),
            };
            if let Some(cell) = tails.get_mut(row).and_then(|row| row.get_mut(column)) {
                *cell = length;
            }
        }
    }
    let (mut row, mut column, mut found) = (0, 0, Vec::new());
    loop {
        match (old.get(row), new.get(column)) {
            (None, None) => return found,
            (Some(left), Some(right)) if left == right => {
                found.push((' ', *left));
                (row, column) = (row + 1, column + 1);
            }
            (Some(left), right) if right.is_none() || at(&tails, row + 1, column) >= at(&tails, row, column + 1) => {
                found.push(('-', *left));
                row += 1;
            }
            (_, Some(right)) => {
                found.push(('+', *right));
                column += 1;
            }
            (Some(left), None) => {
                found.push(('-', *left));
                row += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(path: &Path, text: &str) -> PolicyRewrite {
        PolicyRewrite::new(path.to_owned(), PolicyPreset::Demo, text.to_owned()).unwrap()
    }

    #[test]
    fn every_changed_line_is_shown_in_its_place() {
        let marked = |before, after| {
            differences(before, after).into_iter().map(|(mark, line)| format!("{mark}{line}")).collect::<Vec<_>>()
        };
        assert_eq!(marked("a\nb\nc\n", "a\nx\nc\nd\n"), [" a", "-b", "+x", " c", "+d"]);
        assert_eq!(marked("", "a\n"), ["+a"]);
        assert_eq!(marked("a\n", ""), ["-a"]);
        assert_eq!(marked("a\n", "a"), [" a"]);
        let long = "x\n".repeat(MOST_COMPARED + 1);
        assert_eq!(marked(&long, "x\n").len(), MOST_COMPARED + 2);
    }

    #[test]
    fn previous_texts_are_kept_and_restored_one_after_another() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("policy.toml");
        // Nothing to restore yet.
        assert!(PolicyRewrite::undo(path.clone(), PolicyPreset::Demo).unwrap().is_none());
        let first = rewrite(&path, "preset = \"paranoid\"\n").write().unwrap();
        let second = rewrite(&path, "preset = \"read-only\"\n").write().unwrap();
        assert_eq!(fs::read_to_string(&second).unwrap(), "preset = \"paranoid\"\n");
        for (from, restored) in [(&second, "preset = \"paranoid\"\n"), (&first, "preset = \"demo\"\n")] {
            let (undo, newest) = PolicyRewrite::undo(path.clone(), PolicyPreset::Demo).unwrap().unwrap();
            assert_eq!(&newest, from);
            undo.restore(&newest).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.ends_with(restored) && !newest.exists(), "{text}");
        }
    }

    #[test]
    fn a_file_that_changed_since_it_was_shown_is_not_written() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("policy.toml");
        let shown = rewrite(&path, "preset = \"demo\"\n");
        fs::write(&path, "preset = \"paranoid\"\n").unwrap();
        assert!(shown.write().unwrap_err().to_string().contains("has changed since"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "preset = \"paranoid\"\n");
        assert!(previous(&path).unwrap().is_empty());
    }
}
