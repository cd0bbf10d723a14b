//! The `bardo halt` and `bardo resume` commands: the stop ladder, from any terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use super::session_keys::said_of;
use super::{CliExit, CommandFailure, load, password, print, print_json};
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::{ConfigFlags, ConfigPaths, Environment};
use bardo_base::error::ToolError;
use bardo_base::id::GolemId;
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_runtime::data::{ALL_MIGRATIONS, DataFolder};
use bardo_runtime::{reauthentication, session_keys};
use bardo_safety::audit::{AuditKind, AuditLog, AuditNote, LogAnchor};
use bardo_safety::custody::session_keys::RevokedBy;
use bardo_safety::operator_proof::Authorisation;
use bardo_safety::stop::{ActiveStop, OTHER_COPY_STOPPED, RestoredCopy, StopError, StopFile, meaning};
use bardo_store::{Store, StoreConfig};

/// Timeout for another process that is writing to a ledger.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Word that confirms lowering the stop.
const CONFIRMATION_WORD: &str = "resume";

/// Explanation of the level revoke.
const SESSION_KEYS_NOTE: &str = "\
Every running process on this data folder drops its Golem's keys at once. Lowering the stop does not restore them: only
a restart of the process with the stop lifted does. `bardo call`, and you yourself in a console, can still revoke
allowances and cancel orders, but sign nothing else.
";

/// Explanation of the revocation of every session key.
const REVOKED_NOTE: &str = "\
Session keys are revoked for good. An on-chain delegation of an account stays valid until its owner disables it with the
owner's own wallet: that key is never here.
";

/// Explanation for lowering the level revoke.
const RESTART_NOTE: &str =
    "Processes that ran while it was in force have dropped their Golems' keys; restart them to sign again.";

pub(super) fn halt(
    level: StopLevel,
    reason: Option<&str>,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let folder = data_folder(environment, flags)?;
    let file = StopFile::in_folder(&folder);
    let reason = reason.unwrap_or("stopped by hand");
    let by = format!("bardo halt, process {}", std::process::id());
    let before = file.read();
    let (in_force, set) = file.raise_own(level, reason, &by, SystemClock.now_millis())?;
    let exit = print_stop(&file, &in_force, json)?;
    let set = set.map(ActiveStop::Stop);
    // If another process set a higher stop at the same moment, this one remains underneath it permanently.
    let is_below = in_force.is_hold() && set.as_ref().is_some_and(|set| *set != in_force);
    if is_below && !json {
        print(&format!("{level} is also set, and remains in force when the hold is released\n"))?;
    } else if !json {
        print(&format!("{}\n", changed(level, &before, set.is_some())))?;
    }
    if in_force.level() == Some(StopLevel::Revoke) && !json {
        print(SESSION_KEYS_NOTE)?;
    }
    let revoked = in_force.level() != Some(StopLevel::Revoke) || revoke_session_keys(&folder, reason, json);
    if set.is_some() || in_force != before {
        let raised = set.as_ref().unwrap_or(&in_force);
        record(&folder, AuditKind::HaltRaised, raised, raised);
    }
    if !revoked {
        let error = "the stop is in force, but not every session key was revoked".into();
        return Err(CommandFailure { exit: CliExit::Error, error });
    }
    Ok(exit)
}

/// Revokes every session key in the data folder; false if one may be left. The stop is in force even then, and no key signs
/// under it.
fn revoke_session_keys(folder: &std::path::Path, reason: &str, json: bool) -> bool {
    let revoke = || -> Result<Vec<ToolError>, CommandFailure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (by, operator) = ((RevokedBy::Stop, &SafeText::clean(reason, 200)), GolemId::operator());
        let report =
            runtime.block_on(session_keys::revoke(&DataFolder::at(folder), None, by, &operator, &SystemClock))?;
        if !json {
            print(&report.revoked.iter().map(said_of).collect::<String>())?;
            if report.failures.is_empty() {
                print(REVOKED_NOTE)?;
            }
        }
        Ok(report.failures)
    };
    let failures = match revoke() {
        Ok(failures) => failures.iter().map(|failure| failure.message().to_owned()).collect(),
        Err(CommandFailure { error, .. }) => vec![error.to_string()],
    };
    for failure in &failures {
        eprintln!("bardo: {}", SafeText::clean(failure, 300));
    }
    if !failures.is_empty() {
        eprintln!("bardo: after mending this, run `bardo keys session revoke --all`");
    }
    failures.is_empty()
}

pub(super) fn resume(
    level: Option<StopLevel>,
    password_fd: Option<u32>,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let folder = data_folder(environment, flags)?;
    let file = StopFile::in_folder(&folder);
    let before = file.read();
    let Some(current) = before.level() else {
        let exit = print_stop(&file, &before, json)?;
        for level in DataFolder::at(&folder).own_stops().into_iter().filter(|_| !json) {
            print(&format!(
                "{level} is in force in a running console or scenario alone: type `:resume` in that console\n"
            ))?;
        }
        return Ok(exit);
    };
    if level.is_some_and(|level| level >= current) {
        return Err(CommandFailure::usage(format!(
            "{current} is in force; to raise the level, use `bardo halt --level`"
        )));
    }
    eprint!("{}", describe_stop(&before));
    if !std::io::stdin().is_terminal() {
        let error = "lowering the stop needs your approval on a terminal: run `bardo resume` there yourself";
        return Err(CommandFailure { exit: CliExit::Blocked, error: error.into() });
    }
    let to = level.map_or("signing resumes".to_owned(), |level| format!("{level}: {}", meaning(level)));
    if current == StopLevel::Revoke {
        eprintln!("{RESTART_NOTE}");
    }
    eprint!("After this, {to}.\nType `{CONFIRMATION_WORD}` to confirm: ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if answer.trim() != CONFIRMATION_WORD {
        let error = "not resumed; nothing was changed";
        return Err(CommandFailure { exit: CliExit::Rejected, error: error.into() });
    }
    let other_stopped = match file.restored().filter(|_| level < Some(StopLevel::Halt)) {
        Some(copy) => Some(confirm_other_copy(&copy)?),
        None => None,
    };
    let by = format!("bardo resume, process {}", std::process::id());
    let data = DataFolder::at(&folder);
    let wanted = Authorisation::lower_stop(&before, level);
    let gate = reauthentication::of(&data);
    let passwords = password::ask(&gate, &wanted, false, password_fd)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let audit_logs = audit_logs(&data)?;
    let proving = reauthentication::prove(gate, &audit_logs, wanted, false, passwords, &SystemClock);
    let proof = runtime.block_on(proving).map_err(password::refused)?;
    let confirmed = match other_stopped {
        Some(typed) => {
            finish_restore(environment, flags)?;
            file.confirm_other_copy_stopped(&typed)?
        }
        None => file.clone(),
    };
    let in_force = match confirmed.lower(&before, level, "lowered by hand", &by, SystemClock.now_millis(), proof) {
        Err(error @ (StopError::Changed | StopError::Busy | StopError::Proof(_))) => {
            return Err(CommandFailure { exit: CliExit::Blocked, error: error.into() });
        }
        lowered => lowered?,
    };
    let exit = print_stop(&file, &in_force, json)?;
    record(&folder, AuditKind::HaltLowered, &in_force, &before);
    Ok(exit)
}

/// Asks whether the copy that a restored data folder was made from is stopped. Returns what was typed.
fn confirm_other_copy(copy: &RestoredCopy) -> Result<String, CommandFailure> {
    let from = if copy.made_from.is_empty() { String::new() } else { format!(" of {}", copy.made_from) };
    eprint!(
        "This data folder was restored from a backup{from}. If that copy still runs, both spend the same limits and \
         nonces.\nType `{OTHER_COPY_STOPPED}` to confirm: "
    );
    std::io::stderr().flush()?;
    let mut typed = String::new();
    std::io::stdin().lock().read_line(&mut typed)?;
    if typed.trim().eq_ignore_ascii_case(OTHER_COPY_STOPPED) {
        return Ok(typed);
    }
    let error = "not resumed: the other copy may still sign; nothing was changed";
    Err(CommandFailure { exit: CliExit::Rejected, error: error.into() })
}

/// Puts files of the configuration in place if the restore was interrupted before it did.
fn finish_restore(environment: &Environment, flags: &ConfigFlags) -> Result<(), CommandFailure> {
    for path in bardo_runtime::backup::install_configuration(&load(environment, flags)?)? {
        eprintln!("restored {}", path.display());
    }
    Ok(())
}

/// Records a change of the stop in the audit log of every ledger, unless a running process has done so already. `of` is
/// the stop that was raised or lowered. The stop is in force even if recording fails.
fn record(folder: &std::path::Path, kind: AuditKind, in_force: &ActiveStop, of: &ActiveStop) {
    let (level, reason, by) = match in_force {
        ActiveStop::None => (None, "lowered by hand".to_owned(), format!("process {}", std::process::id())),
        ActiveStop::Stop(stop) => (Some(stop.level), stop.reason.to_string(), stop.by.to_string()),
        ActiveStop::Garbled { why } => (in_force.level(), why.clone(), "an unreadable stop file".to_owned()),
    };
    let stop = match of {
        ActiveStop::Stop(stop) => stop.id.as_str(),
        ActiveStop::None | ActiveStop::Garbled { .. } => "",
    };
    let body = serde_json::json!({ "level": level, "reason": reason, "by": by, "stop": stop });
    let note = AuditNote { kind, call_id: None, golem_id: GolemId::operator(), body };
    let recorded = || -> Result<(), CommandFailure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        for audit_log in audit_logs(&DataFolder::at(folder))? {
            runtime.block_on(audit_log.record_stop(note.clone()))?;
        }
        Ok(())
    };
    if let Err(CommandFailure { error, .. }) = recorded() {
        eprintln!("bardo: the stop is set, but could not be recorded in every audit log: {error}");
    }
}

/// Opens the audit logs of all ledgers in the folder.
fn audit_logs(folder: &DataFolder) -> Result<Vec<AuditLog>, CommandFailure> {
    let open = |path| -> Result<AuditLog, CommandFailure> {
        let store = Store::open(StoreConfig { path, patience: PATIENCE }, ALL_MIGRATIONS)?;
        LogAnchor::begin(&store);
        Ok(AuditLog::new(store, std::sync::Arc::new(SystemClock)))
    };
    folder.ledgers()?.into_iter().map(open).collect()
}

/// Returns the data folder, even if the configuration is broken, since stopping must not fail because of that.
fn data_folder(environment: &Environment, flags: &ConfigFlags) -> Result<PathBuf, CommandFailure> {
    match load(environment, flags) {
        Ok(config) => Ok(config.data_dir.value),
        Err(CommandFailure { error, .. }) => {
            let folder = environment.get("BARDO_DATA_DIR").map(PathBuf::from);
            let folder = folder.map_or_else(|| ConfigPaths::find(environment).map(|paths| paths.data_dir), Ok)?;
            eprintln!(
                "bardo: {error}\nbardo: using the data folder {}; if the configuration names another, set the stop \
                 there too",
                folder.display()
            );
            Ok(folder)
        }
    }
}

/// Describes the change by raising the stop to a level.
fn changed(to: StopLevel, before: &ActiveStop, set: bool) -> String {
    match before.level() {
        None => format!("Changed: from no stop to {to}."),
        Some(from) if set && to > from => format!("Changed: from {from} to {to}."),
        Some(_) if set => format!("Changed: {to} replaces a hold, and releasing the hold does not lift it."),
        Some(from) if from == to => format!("Nothing changed: {to} was in force already."),
        Some(from) => format!(
            "Nothing changed: {from} was in force already and stops all that {to} stops. To go down to {to}, run \
             `bardo resume --level {to}`."
        ),
    }
}

fn describe_stop(in_force: &ActiveStop) -> String {
    match in_force {
        ActiveStop::None => "no stop is in force\n".to_owned(),
        ActiveStop::Stop(stop) => {
            format!("{} is in force: {}\n  why  {}\n  by   {}\n", stop.level, meaning(stop.level), stop.reason, stop.by)
        }
        ActiveStop::Garbled { why } => {
            let why = SafeText::clean(why, 200);
            format!("halt is in force because the stop file cannot be trusted: {why}\n")
        }
    }
}

fn print_stop(file: &StopFile, in_force: &ActiveStop, json: bool) -> Result<CliExit, CommandFailure> {
    if !json {
        print(&describe_stop(in_force))?;
        return Ok(CliExit::Success);
    }
    let stop = match in_force {
        ActiveStop::Stop(stop) => serde_json::to_value(stop)?,
        ActiveStop::None => serde_json::Value::Null,
        ActiveStop::Garbled { why } => serde_json::json!({ "garbled": SafeText::clean(why, 200) }),
    };
    let meaning = in_force.level().map(meaning);
    print_json(&serde_json::json!({
        "level": in_force.level(), "meaning": meaning, "file": file.path(), "stop": stop,
    }))?;
    Ok(CliExit::Success)
}
