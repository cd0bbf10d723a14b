//! Backup, restore and migration, killed at each point: the old state or the new one, never half of one.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::model::StopLevel;
use bardo::runtime::backup::install_configuration;
use bardo::runtime::data::DataFolder;
use bardo::safety::stop::StopFile;
use rusqlite::Connection;

/// Database of the third version of its tables.
const OLD: &str = include_str!("../../crates/bardo-runtime/src/data/versions/v3.sql");

/// Runs the program with a passphrase on descriptor 3, killed at `failpoint` if one is named.
fn bardo(home: &Path, arguments: &str, failpoint: &str) -> Output {
    let passphrase = home.join("passphrase");
    fs::write(&passphrase, "correct horse battery staple\n").unwrap();
    let mut command = Command::new("/bin/sh");
    command.env_clear().env("BARDO_HOME", home.join("bardo")).env("BARDO_FAILPOINT", failpoint);
    command.env("BARDO", env!("CARGO_BIN_EXE_bardo")).env("PASSPHRASE", passphrase);
    command.args(["-c", &format!("exec \"$BARDO\" {arguments} 3<\"$PASSPHRASE\"")]);
    command.output().unwrap()
}

fn killed(output: &Output) {
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Names in a folder; none if it does not exist.
fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Writes a database of an old version, as an older Bardo has left it.
fn old_database(home: &Path) -> PathBuf {
    let database = home.join("bardo/data/ledger/real/ledger.db");
    fs::create_dir_all(database.parent().unwrap()).unwrap();
    Connection::open(&database).unwrap().execute_batch(OLD).unwrap();
    database
}

/// Newest version of the ledger's tables, and whether the database is whole.
fn version(database: &Path) -> (i64, String) {
    let connection = Connection::open(database).unwrap();
    let version = "SELECT MAX(version) FROM store_migrations WHERE room = 'ledger'";
    let check = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    (connection.query_row(version, [], |row| row.get(0)).unwrap(), check)
}

#[test]
fn a_killed_migration_leaves_the_old_tables_and_a_whole_copy() {
    let home = tempfile::tempdir().unwrap();
    let database = old_database(home.path());
    let whole = |version: i64| (version, "ok".to_owned());
    // A stop is recorded in every ledger, which is opened for that.
    for (level, point) in [("pause", "migration.copied"), ("exit-only", "migration.inside")] {
        killed(&bardo(home.path(), &format!("halt --level {level}"), point));
        assert_eq!(version(&database), whole(3), "{point}");
    }
    done(&bardo(home.path(), "halt", ""));
    assert!(version(&database).0 > 3);
    let copies = database.with_file_name("ledger.db-copies");
    let names = names(&copies);
    assert_eq!(names.len(), 3, "{names:?}");
    for name in names {
        assert_eq!(version(&copies.join(&name)), whole(3), "{name}");
    }
}

#[test]
fn a_killed_backup_leaves_no_backup_or_the_one_before() {
    let home = tempfile::tempdir().unwrap();
    old_database(home.path());
    let file = home.path().join("b.age");
    let arguments = format!("backup {} --passphrase-fd 3", file.display());
    for point in ["backup.copied", "backup.written"] {
        killed(&bardo(home.path(), &arguments, point));
        assert!(!file.exists(), "{point}");
    }
    fs::write(&file, "the backup of yesterday").unwrap();
    killed(&bardo(home.path(), &format!("{arguments} --force"), "backup.written"));
    assert_eq!(fs::read(&file).unwrap(), b"the backup of yesterday");
    done(&bardo(home.path(), &format!("{arguments} --force"), ""));
    let data = home.path().join("bardo/data");
    assert_eq!(names(&data), ["ledger"], "what the killed ones have left is removed");
    let other = tempfile::tempdir().unwrap();
    done(&bardo(other.path(), &format!("restore {} --passphrase-fd 3", file.display()), ""));
}

#[test]
fn a_killed_restore_leaves_nothing_or_a_whole_halted_copy() {
    let home = tempfile::tempdir().unwrap();
    old_database(home.path());
    fs::write(home.path().join("bardo/policy.toml"), "preset = \"paranoid\"\n").unwrap();
    let file = home.path().join("b.age");
    done(&bardo(home.path(), &format!("backup {} --passphrase-fd 3", file.display()), ""));
    let other = tempfile::tempdir().unwrap();
    let (bare, data) = (other.path().join("bardo"), other.path().join("bardo/data"));
    fs::create_dir(&bare).unwrap();
    let arguments = format!("restore {} --passphrase-fd 3", file.display());
    killed(&bardo(other.path(), &arguments, "restore.unpacked"));
    assert!(!data.exists() && !bare.join("policy.toml").exists(), "{:?}", names(&bare));
    killed(&bardo(other.path(), &arguments, "restore.renamed"));
    assert_eq!(StopFile::in_folder(&data).read().level(), Some(StopLevel::Halt));
    assert!(StopFile::in_folder(&data).restored().is_some());
    assert_eq!(version(&data.join("ledger/real/ledger.db")).1, "ok");
    assert!(!bare.join("policy.toml").exists());
    let environment: Environment = [("BARDO_HOME", bare.to_str().unwrap())].into_iter().collect();
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    // As `bardo resume` does.
    assert_eq!(install_configuration(&config).unwrap(), [bare.join("policy.toml")]);
    assert!(DataFolder::of(&config).ledgers().unwrap().len() == 1);
}
