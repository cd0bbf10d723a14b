//! The `bardo backup` and `bardo restore` commands.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use serde_json::json;

use super::{CliExit, CommandFailure, load, print, print_json, secret};
use bardo_base::clock::{Clock as _, SystemClock};
use bardo_base::config::{ConfigFlags, Environment};
use bardo_base::format::counted;
use bardo_runtime::backup::{self, BackupOptions};

/// Text that confirms that key files belong into the backup.
const WITH_KEYS: &str = "with keys";

/// Minimum length of the passphrase of a backup with key files, in characters.
const SHORTEST_WITH_KEYS: usize = 12;

/// Options of a backup from the command line.
#[derive(Debug, Clone, Copy)]
pub(super) struct BackupFlags {
    pub(super) with_keys: bool,
    pub(super) force: bool,
    pub(super) passphrase_fd: Option<u32>,
}

pub(super) fn make(
    file: &Path,
    options: BackupFlags,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let BackupFlags { with_keys, force, passphrase_fd } = options;
    let config = load(environment, flags)?;
    let choices = BackupOptions { with_keys, replace: force };
    // Before any prompt, so that no passphrase is typed in vain.
    backup::check_before_backup(&config, file, choices)?;
    if with_keys {
        confirm_keys()?;
    }
    let passphrase = secret::new_password(passphrase_fd, "passphrase for the backup")?;
    if with_keys && passphrase.chars() < SHORTEST_WITH_KEYS {
        return Err(CommandFailure::usage(format!(
            "a backup with key files needs a passphrase of at least {SHORTEST_WITH_KEYS} characters, because others can \
             try passphrases on a copy of it: no backup was made"
        )));
    }
    let made = backup::make(&config, file, &passphrase, choices, SystemClock.now_millis())?;
    if json {
        print_json(&json!({ "file": file, "redacted_urls": made.redacted, "manifest": made.manifest }))?;
        return Ok(CliExit::Success);
    }
    let mut text = format!("{} with {}\n", file.display(), files(made.manifest.files.len()));
    for listed in &made.manifest.files {
        text.push_str(&format!("  {:>12}  {}\n", listed.bytes, listed.path));
    }
    if made.redacted > 0 {
        let urls = if made.redacted == 1 { "1 URL" } else { &format!("{} URLs", made.redacted) };
        text.push_str(&format!(
            "{urls} of the configuration kept the host alone: fill in path or key after a restore\n"
        ));
    }
    if !with_keys {
        text.push_str("Key files are not in it: keep a copy of your keys elsewhere, or use --with-keys\n");
    }
    print(&text)?;
    Ok(CliExit::Success)
}

/// Asks whether key files belong into the backup. A program that has the file could then guess their passwords.
fn confirm_keys() -> Result<(), CommandFailure> {
    eprintln!(
        "The backup will hold your encrypted key files. Anyone with the file and its passphrase can try passwords on \
         them without limit."
    );
    if !std::io::stdin().is_terminal() {
        let error = "key files need your confirmation on a terminal: run `bardo backup --with-keys` there yourself";
        return Err(CommandFailure { exit: CliExit::Blocked, error: error.into() });
    }
    eprint!("Type `{WITH_KEYS}` to include them: ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if answer.trim() == WITH_KEYS {
        return Ok(());
    }
    Err(CommandFailure { exit: CliExit::Rejected, error: "not confirmed; no backup was made".into() })
}

pub(super) fn restore(
    file: &Path,
    with_configuration: bool,
    passphrase_fd: Option<u32>,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let config = load(environment, flags)?;
    // Before the prompt, so that no passphrase is typed in vain.
    backup::check_before_passphrase(&config, file)?;
    let passphrase = secret::password(&secret::read(passphrase_fd, "passphrase of the backup")?);
    let restored = backup::restore(&config, file, &passphrase, with_configuration, SystemClock.now_millis())?;
    let data = &config.data_dir.value;
    if json {
        let configuration = &restored.configuration;
        print_json(&json!({ "data": data, "configuration": configuration, "manifest": restored.manifest }))?;
        return Ok(CliExit::Success);
    }
    let mut text = format!("restored {} into {}\n", files(restored.manifest.files.len()), data.display());
    for path in &restored.configuration {
        text.push_str(&format!("  {}\n", path.display()));
    }
    text.push_str(&format!(
        "It was made from {}. This copy is halted: two copies would spend the same limits and nonces twice.\nStop the \
         other copy, then run `bardo resume` here. `bardo doctor` checks the configuration, whose URLs have lost their \
         credentials.\n",
        restored.manifest.made_from
    ));
    print(&text)?;
    Ok(CliExit::Success)
}

/// Number of files with its noun.
fn files(count: usize) -> String {
    counted(u64::try_from(count).unwrap_or(u64::MAX), "file", "files")
}
