//! Databases of every version of the tables, as SQL, and their migration to the present one.
//!
//! A fixture is written once, from the migrations of its version: `BARDO_UPDATE_DOCS=1` writes only those that are
//! missing. Version N has the first N steps of every module, so a module that joins changes all of them. From the first
//! release on they must stay, and a later module must begin with a later version.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use alloy::primitives::keccak256;
use rusqlite::Connection;

use super::{ALL_MIGRATIONS, DataFolder};
use bardo_store::{Store, StoreConfig, StoreError};

/// Rows that every version has.
const ROWS: &str = "INSERT INTO runtime_ledger VALUES ('real-fixture');
INSERT INTO runtime_genesis VALUES (11155111, x'25a5cc106eea7138acab33231d7160d69cb777ee0c2c553fcddf5138993e6dd9');
INSERT INTO ledger_clock VALUES (1, 1700000000000);
";

fn versions() -> usize {
    ALL_MIGRATIONS.iter().map(|one| one.steps.len()).max().unwrap()
}

fn fixture(version: usize) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/data/versions/v{version}.sql"))
}

/// SQL of a database with the first `version` steps of every module.
fn sql(version: usize) -> String {
    let mut text = String::from(
        "CREATE TABLE store_migrations (room TEXT NOT NULL, version INTEGER NOT NULL, digest BLOB NOT NULL, PRIMARY KEY \
         (room, version)) STRICT;\n",
    );
    for module in ALL_MIGRATIONS {
        for (number, step) in (1..).zip(module.steps.iter().take(version)) {
            let digest = alloy::hex::encode(keccak256(step));
            writeln!(text, "{};", step.trim().trim_end_matches(';')).unwrap();
            writeln!(text, "INSERT INTO store_migrations VALUES ('{}', {number}, x'{digest}');", module.room).unwrap();
        }
    }
    text + ROWS
}

fn schema(connection: &Connection) -> Vec<(String, String, Option<String>)> {
    let schema = "SELECT type, name, sql FROM sqlite_schema WHERE name <> 'store_migrations' AND tbl_name <> \
                  'store_migrations' ORDER BY type, name";
    let mut read = connection.prepare(schema).unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    read.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Databases in the folder of copies beside a database.
fn copies(database: &Path) -> Vec<PathBuf> {
    let folder = database.with_file_name("ledger.db-copies");
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn a_database_of_every_version_opens_after_a_copy_of_it_was_made() {
    let home = tempfile::tempdir().unwrap();
    let fresh = Store::open(StoreConfig::at(home.path().join("fresh.db")), ALL_MIGRATIONS).unwrap();
    let expected = fresh.read(|connection| Ok::<_, StoreError>(schema(connection))).unwrap();
    for version in 1..=versions() {
        let data = DataFolder::at(&home.path().join(format!("v{version}")));
        let database = data.root().join("ledger/real/ledger.db");
        std::fs::create_dir_all(database.parent().unwrap()).unwrap();
        let text = std::fs::read_to_string(fixture(version)).unwrap();
        let old = Connection::open(&database).unwrap();
        old.execute_batch(&text).unwrap();
        let before = schema(&old);
        old.close().unwrap();
        let ledger = data.open_real_ledger(1).await.unwrap();
        assert_eq!(ledger.id(), "real-fixture", "v{version}");
        let (found, rows) = ledger
            .store
            .read(|connection| {
                let rows = "SELECT (SELECT COUNT(*) FROM runtime_genesis), (SELECT now FROM ledger_clock)";
                let rows = connection.query_row(rows, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok::<(_, (i64, i64)), StoreError>((schema(connection), rows))
            })
            .unwrap();
        assert_eq!(found, expected, "v{version}");
        assert_eq!(rows, (1, 1_700_000_000_000), "v{version}");
        let copies = copies(&database);
        if version == versions() {
            assert!(copies.is_empty(), "nothing was migrated");
            continue;
        }
        assert_eq!(copies.len(), 1, "v{version}");
        let copy = Connection::open(&copies[0]).unwrap();
        assert_eq!(schema(&copy), before, "v{version}");
    }
}

/// A released migration keeps its digest; this keeps its text beside it.
#[test]
fn a_fixture_of_every_version_exists_and_is_what_its_migrations_make() {
    for version in 1..=versions() {
        let path = fixture(version);
        if !path.exists() && std::env::var_os("BARDO_UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, sql(version)).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == sql(version), "{}: write it with BARDO_UPDATE_DOCS=1", path.display());
    }
    assert!(!fixture(versions() + 1).exists());
}
