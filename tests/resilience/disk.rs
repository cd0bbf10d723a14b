//! A full disk, and a database that cannot be opened, is locked or damaged: nothing is signed, the answer says what to
//! do, and after the repair everything is intact.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;

use crate::host::{Devnet, Home, ROOMY, Ran, run, settled};

/// Asserts that nothing was signed because of the database, and that the answer says what to do.
fn refused(ran: &Ran, says: &str) {
    assert_eq!((ran.code, ran.status(), ran.error_code()), (Some(1), "error", "STORE_UNAVAILABLE"), "{ran:?}");
    let message = ran.answer.as_ref().unwrap()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(says), "{message}");
}

/// Home with one completed swap.
fn used() -> (Devnet, Home) {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let ran = run(&mut home.swap(devnet.url(), "first"));
    assert_eq!(ran.status(), "success", "{ran:?}");
    assert_eq!(settled(&home, &devnet), 1);
    (devnet, home)
}

/// Checkpoints the WAL into the database, so that it is a single file.
fn folded(database: &Path) {
    Connection::open(database).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

/// Asserts after the repair that the next swap succeeds and the first is still recorded.
fn mended(home: &Home, devnet: &Devnet, nonce: u64) {
    assert_eq!(devnet.nonce(), nonce, "nothing was sent meanwhile");
    let ran = run(&mut home.swap(devnet.url(), "second"));
    assert_eq!(ran.status(), "success", "{ran:?}");
    assert_eq!(settled(home, devnet), 2);
}

#[test]
fn with_a_locked_database_a_swap_is_rejected_and_nothing_lost() {
    let (devnet, home) = used();
    let nonce = devnet.nonce();
    let other = Connection::open(home.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    refused(&run(&mut home.swap(devnet.url(), "second")), "locked by another process");
    other.execute_batch("ROLLBACK").unwrap();
    mended(&home, &devnet, nonce);
}

#[test]
fn a_damaged_database_is_rejected_and_left_unchanged() {
    let (devnet, home) = used();
    let (nonce, database) = (devnet.nonce(), home.database());
    folded(&database);
    let good = fs::read(&database).unwrap();
    // No database, one with damaged first pages, and an empty one that claims a length.
    let mut torn = good.clone();
    torn[100..4_096].fill(0x5a);
    for bad in [b"what is this doing here? ".repeat(400), torn] {
        fs::write(&database, &bad).unwrap();
        refused(&run(&mut home.swap(devnet.url(), "second")), "move the file away");
        assert_eq!(fs::read(&database).unwrap(), bad, "evidence is not touched");
    }
    fs::write(&database, good).unwrap();
    mended(&home, &devnet, nonce);
}

#[test]
fn with_an_unwritable_database_path_a_swap_is_rejected() {
    let (devnet, home) = used();
    let (nonce, database) = (devnet.nonce(), home.database());
    folded(&database);
    let aside = database.with_extension("aside");
    fs::rename(&database, &aside).unwrap();
    fs::create_dir(&database).unwrap();
    refused(&run(&mut home.swap(devnet.url(), "second")), "is writable");
    fs::remove_dir(&database).unwrap();
    fs::rename(&aside, &database).unwrap();
    mended(&home, &devnet, nonce);
}

/// The same for a user to whom permissions mean nothing, such as root: the system calls themselves fail as on a
/// read-only disk.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn on_a_read_only_disk_a_swap_is_rejected_and_nothing_lost() {
    let (devnet, home) = used();
    let (nonce, database) = (devnet.nonce(), home.database());
    let work = tempfile::tempdir().unwrap();
    let (source, library) = (work.path().join("readonly.c"), work.path().join("libreadonly.so"));
    fs::write(&source, include_str!("readonly.c")).unwrap();
    let arguments = ["-O1", "-shared", "-fPIC", "-o"];
    let built = Command::new("cc").args(arguments).arg(&library).arg(&source).arg("-ldl").output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let read_only =
        |command: &mut Command, below: &Path| run(command.env("LD_PRELOAD", &library).env("READONLY_ROOT", below));
    let data = home.path().join("data");
    // The whole disk, or only the database and the files beside it; with its WAL beside it, and with it checkpointed.
    for folds in [false, true] {
        if folds {
            folded(&database);
        }
        for below in [data.as_path(), database.as_path()] {
            let before = fs::read(&database).unwrap();
            refused(&read_only(&mut home.swap(devnet.url(), "second"), below), "is writable");
            assert_eq!(fs::read(&database).unwrap(), before);
        }
    }
    // Reads still work.
    for below in [data.as_path(), database.as_path()] {
        let log = read_only(&mut home.command(&["log", "verify", "--json"]), below);
        let entries = log.answer.as_ref().and_then(|answer| answer["report"]["entries"].as_u64());
        assert!(log.code == Some(0) && entries.is_some_and(|entries| entries > 5), "{log:?}");
    }
    mended(&home, &devnet, nonce);
}

#[test]
fn a_disk_that_becomes_full_at_any_time_loses_nothing() {
    let (devnet, home) = used();
    let database = home.database();
    folded(&database);
    // Maximum file size in blocks of 512 bytes: first too small, then larger step by step. With the signal ignored the
    // system returns an error, as a full disk does.
    let mut refusals = 0;
    for (turn, more) in [1_u64, 24, 80, 120, 200, 400, 800].into_iter().enumerate() {
        let key = format!("full-{turn}");
        let swap = home.swap(devnet.url(), &key);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", more)]);
        shell.arg(swap.get_program()).args(swap.get_args()).env_clear().env("BARDO_HOME", home.path());
        shell
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let ran = run(&mut shell);
        assert_eq!(ran.signal, None, "{ran:?}");
        if ran.code != Some(0) {
            refusals += 1;
        }
        // With space again, a started action ends, and exactly one swap results.
        let ran = run(&mut home.swap(devnet.url(), &key));
        assert!(matches!(ran.status(), "success" | "partial"), "{key}: {ran:?}");
        assert_eq!(settled(&home, &devnet), 2 + turn as u64, "{key}");
    }
    assert!(refusals >= 3, "the disk was hardly ever full: {refusals}");
}

#[test]
fn a_changed_byte_is_found_by_verifying_the_audit_log() {
    let (devnet, home) = used();
    let database = home.database();
    folded(&database);
    // Change one letter inside an entry of the audit log, as a failing disk or a person would.
    let bytes = fs::read(&database).unwrap();
    let word = b"action:reserved";
    let at = bytes.windows(word.len()).position(|window| window == word).unwrap();
    fs::OpenOptions::new().write(true).open(&database).unwrap().write_all_at(b"X", at as u64).unwrap();
    let log = run(&mut home.command(&["log", "verify", "--json"]));
    assert_eq!(log.code, Some(1), "{log:?}");
    drop(devnet);
}
