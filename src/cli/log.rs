//! The `bardo log` command: reads the audit log of one ledger, even during a stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::B256;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{CliExit, CommandFailure, call, load, print, print_json, spans};
use bardo_base::clock::SystemClock;
use bardo_base::config::{Config, ConfigFlags, DEFAULT_NETWORK, Environment};
use bardo_base::fabric::{Event, read_journal};
use bardo_base::format::{counted, utc};
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_runtime::data::{DataFolder, LedgerKind};
use bardo_runtime::labels;
use bardo_safety::audit::{LogAnchor, StoredEntry, entries, verify};
use bardo_session::audit_words::sentence_of;
use bardo_session::handle::{NamedAddress, names_in};

/// Number of entries read at a time.
const BATCH: u32 = 500;
/// Polling interval for new entries.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Length limit of a body in the text output, in characters.
const MOST_BODY: usize = 400;

pub(super) fn show(
    follow: bool,
    call: Option<CallId>,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let (connection, database) = loop {
        match named(environment, flags)? {
            Some(found) => break found,
            None if follow => std::thread::sleep(POLL_INTERVAL),
            None => {
                eprintln!("bardo: nothing has been recorded yet");
                return Ok(CliExit::Success);
            }
        }
    };
    if !json {
        eprintln!("bardo: ledger {}", database.display());
    }
    let names = labels::names(&DataFolder::of(&load(environment, flags)?)).all();
    let mut after = 0;
    loop {
        let found = entries(&connection, after, call, BATCH)?;
        let mut text = String::new();
        for entry in &found {
            after = entry.seq;
            if json {
                text.push_str(&serde_json::to_string(&whole(entry))?);
                text.push('\n');
            } else {
                text.push_str(&line(entry));
                text.extend(named_parties(entry, &names));
            }
        }
        if !text.is_empty() {
            print(&text)?;
        } else if !follow {
            return show_spans(call, environment, flags, json);
        } else {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Prints the duration of each step of a call.
fn show_spans(
    call: Option<CallId>,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let Some(call) = call else { return Ok(CliExit::Success) };
    let spans = spans::of_call(&load(environment, flags)?.log_dir(), call)?;
    let mut text = String::new();
    for span in &spans {
        if json {
            text.push_str(&serde_json::to_string(span)?);
            text.push('\n');
        } else {
            text.push_str(&spans::line(span));
        }
    }
    if !json && !spans.is_empty() {
        text.insert_str(0, "Spans\n");
    }
    print(&text)?;
    Ok(CliExit::Success)
}

/// Prints the trades of a recorded run as CSV.
pub(super) fn trades(file: &Path) -> Result<CliExit, CommandFailure> {
    let mut failed = None;
    let events =
        read_journal(file)?.map_while(|event: Result<Event, _>| event.map_err(|error| failed = Some(error)).ok());
    let text = bardo_console::state::trades::csv_of(events);
    if let Some(error) = failed {
        return Err(error.into());
    }
    print(&text)?;
    Ok(CliExit::Success)
}

pub(super) fn check(
    head: Option<B256>,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let Some((connection, database)) = named(environment, flags)? else {
        if head.is_some() {
            return Err("there is no audit log yet, so none has that head".into());
        }
        eprintln!("bardo: nothing has been recorded yet");
        return Ok(CliExit::Success);
    };
    let report = verify(&connection, &LogAnchor::beside(&database), head)?;
    if json {
        print_json(&serde_json::json!({ "good": report.good(), "database": database, "report": report }))?;
    } else if report.good() {
        print(&format!(
            "good: {}, in order and unchanged\nledger  {}\nhead    {}\nKeep the head elsewhere; `bardo log verify --head` \
             checks a later audit log against it.\n",
            counted(report.entries, "entry", "entries"),
            database.display(),
            report.head.hash
        ))?;
    } else {
        let faults: String = report.faults.iter().map(|fault| format!("  {fault}\n")).collect();
        print(&format!("NOT GOOD: {}\n{faults}", database.display()))?;
    }
    Ok(if report.good() { CliExit::Success } else { CliExit::Error })
}

/// Opens a ledger read-only: that of the chains behind `--rpc`, else the most recently written one, of any network or
/// of the kind that `--network` names.
fn named(environment: &Environment, flags: &ConfigFlags) -> Result<Option<(Connection, PathBuf)>, CommandFailure> {
    let config = load(environment, flags)?;
    let Some(database) = named_ledger(&config, flags)? else { return Ok(None) };
    Ok(Some((read_only(&database)?, database)))
}

/// Path of the ledger of the chains behind `--rpc`, else of the most recently written one, of any network or of the kind
/// that `--network` names.
pub(super) fn named_ledger(config: &Config, flags: &ConfigFlags) -> Result<Option<PathBuf>, CommandFailure> {
    let data = DataFolder::of(config);
    Ok(match flags.network.as_deref() {
        _ if !flags.rpc.is_empty() => ledger_of_chains(config, &data)?,
        None => data.newest_ledger()?,
        Some(DEFAULT_NETWORK) => data.newest_ledger_of(LedgerKind::Devnet)?,
        Some(_) => data.newest_ledger_of(LedgerKind::Real)?,
    })
}

/// Path of the ledger of the configured chains, which their endpoints identify.
fn ledger_of_chains(config: &Config, data: &DataFolder) -> Result<Option<PathBuf>, CommandFailure> {
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    runtime.block_on(async {
        let clock = Arc::new(SystemClock);
        let opened = bardo_runtime::open(config, || call::one_call(Arc::new(SystemClock)), clock).await?;
        Ok(data.ledger_of_chains(&opened).await?)
    })
}

/// Opens a ledger's database for reading alone.
pub(super) fn read_only(database: &Path) -> Result<Connection, CommandFailure> {
    let access = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = |connection: Connection| {
        connection.busy_timeout(Duration::from_secs(5))?;
        // SQLite opens the file at the first read.
        connection.query_row("SELECT COUNT(*) FROM sqlite_master", [], |_| Ok(()))?;
        Ok(connection)
    };
    let first = Connection::open_with_flags(database, access).and_then(opened);
    let first = match first {
        // A properly closed database has no WAL file, and on a read-only disk none can be created. Then the file is
        // complete and cannot change (https://sqlite.org/wal.html, "Read-Only Databases").
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) && !log_beside(database).exists() => {
            let whole = std::path::absolute(database)?;
            let unchanging = url::Url::from_file_path(whole).map_err(|()| error.to_string())?;
            let unchanging = format!("{unchanging}?immutable=1");
            Connection::open_with_flags(unchanging, access | OpenFlags::SQLITE_OPEN_URI).and_then(opened)
        }
        first => first,
    };
    first.map_err(|error| format!("cannot read {}: {error}", database.display()).into())
}

/// Path of the WAL file, which contains changes that are not in the database file yet.
fn log_beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// Converts an entry to JSON, with its body as JSON instead of text.
fn whole(entry: &StoredEntry) -> serde_json::Value {
    let mut value = serde_json::to_value(entry).unwrap_or_default();
    if let (Some(fields), Ok(body)) = (value.as_object_mut(), serde_json::from_str(&entry.body)) {
        fields.insert("body".to_owned(), body);
    }
    value
}

/// Fields of a body that identify something, for the text output.
const IDENTIFIERS: [&str; 6] = ["permit_id", "order", "tx", "hash", "reservation", "nonce"];

/// Details of an entry as the console shows them, with the identifiers in full; the raw body if it is not an object.
fn describe(entry: &StoredEntry) -> String {
    let Ok(body) = serde_json::from_str::<serde_json::Value>(&entry.body) else { return entry.body.clone() };
    if !body.is_object() {
        return entry.body.clone();
    }
    let mut text = sentence_of(&entry.kind, &body).to_string();
    for name in IDENTIFIERS {
        let id = body.get(name).filter(|value| value.is_string() || value.is_number());
        if let Some(id) = id.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)) {
            text.push_str(&format!(" · {} {id}", name.replace('_', " ")));
        }
    }
    text
}

fn line(entry: &StoredEntry) -> String {
    // The entry comes from a file that others may have written to, and goes to a terminal.
    let clean = |text: &str| SafeText::clean(text, MOST_BODY);
    let call = entry.call_id.as_deref().unwrap_or("-");
    format!(
        "{:>6}  {}  {:18}  {}  {}  {}\n",
        entry.seq,
        utc(entry.at),
        clean(&entry.kind),
        clean(call),
        clean(&entry.golem_id),
        clean(&describe(entry))
    )
}

/// Lines with the whole addresses of an entry that have a name.
fn named_parties(entry: &StoredEntry, names: &[NamedAddress]) -> Vec<String> {
    let body = serde_json::from_str(&entry.body).unwrap_or_default();
    names_in(&body, names).into_iter().map(|one| format!("{:>8}{}  {}\n", "", one.address, one.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_followed_by_the_names_of_its_parties() {
        let address = alloy::primitives::address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65");
        let other = alloy::primitives::address!("90F79bf6EB2c4f870365E785982E1f101E93b906");
        let named = |address, name: &str| NamedAddress { address, name: SafeText::clean(name, 40) };
        let names = [named(address, "label “Savings”"), named(other, "label “Alice”")];
        let entry = StoredEntry {
            seq: 1,
            at: 0,
            kind: "action:reserved".to_owned(),
            call_id: None,
            golem_id: "operator".to_owned(),
            body: serde_json::json!({ "recipients": [address.to_string().to_lowercase()] }).to_string(),
            previous: B256::ZERO,
            hash: B256::ZERO,
        };
        assert_eq!(named_parties(&entry, &names), [format!("        {address}  label “Savings”\n")]);
    }

    #[test]
    fn an_entry_has_the_words_of_the_console_and_its_identifiers_in_full() {
        let entry = |kind: &str, body: &str| StoredEntry {
            seq: 1,
            at: 0,
            kind: kind.to_owned(),
            call_id: None,
            golem_id: "ada".to_owned(),
            body: body.to_owned(),
            previous: B256::ZERO,
            hash: B256::ZERO,
        };
        let settled = line(&entry("action:settled", r#"{"state":"done","spent":"20001.354346","reservation":2}"#));
        let words = "action:settled      -  ada  done, $20,001.35 counted · reservation 2\n";
        assert!(settled.ends_with(words), "{settled}");
        let hash = format!("0x{}", "ab".repeat(32));
        let late = line(&entry("tx:late", &format!(r#"{{"hash":"{hash}"}}"#)));
        assert!(late.contains(&format!("spending is reserved again · hash {hash}")), "{late}");
        assert!(line(&entry("tx:late", "no JSON")).contains("no JSON"));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        // Expected values by `date -u -d @SECONDS`.
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399, "2000-02-28 23:59:59Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (1_795_310_350, "2026-11-22 01:19:10Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
        ] {
            assert_eq!(utc(seconds * 1_000), text);
        }
    }
}
