//! The power goes at any moment. What the program did to its files is noted in order; a folder is made as the disk may
//! then have had it (what was synced is there, of the rest any sectors are or are not), and opened again: what was
//! acknowledged is in it, and the database is sound.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use alloy::primitives::{B256, U256};
use alloy::signers::local::PrivateKeySigner;
use bardo::base::id::GolemId;
use bardo::chain::sender::{self, ChainNonces, Route};
use bardo::safety::audit;
use bardo::store::{Migrations, Store, StoreConfig};
use rand::{Rng as _, SeedableRng as _};

use crate::chain::{PLENTY, sign};

const ROOMS: &[Migrations] = &[sender::MIGRATIONS, audit::MIGRATIONS];
/// Where the writer tells whoever listens that something is kept: it is outside of what the power takes away.
const HEARD: &str = "/heard";
const FOLDER: &str = "BARDO_TEST_POWER";
const RECORDS: u64 = 120;
const RUNS: u32 = 250;
/// What a disk writes whole.
const SECTOR: usize = 512;

fn key() -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(0x11)).unwrap()
}

/// Stores signed transactions and their entries on the trail, and says each that it is kept.
#[tokio::test]
#[ignore = "run by the test of this file, as a process of its own"]
async fn writer() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let store = Store::open(StoreConfig::at(folder.join("ledger.db")), ROOMS).unwrap();
    let mut heard = fs::File::create(folder.join(HEARD.trim_start_matches('/'))).unwrap();
    let key = key();
    for nonce in 0..RECORDS {
        let seen = ChainNonces { latest: 0, pending: 0 };
        let account = key.address();
        let ticket = store.write(move |tx| sender::allocate(tx, 31_337, account, seen, nonce)).await.unwrap();
        let signed = sign(&key, 31_337, ticket.nonce, U256::from(nonce), PLENTY);
        let hash = signed.hash();
        let kept = store.write(move |tx| {
            let body = serde_json::json!({ "kept": hash });
            let entry = audit::Entry { kind: "test:kept", call_id: None, golem_id: &GolemId::operator(), body: &body };
            audit::append(tx, nonce, &entry).map_err(|error| match error {
                audit::AuditError::Store(error) => sender::RecordError::Store(error),
                other => panic!("{other}"),
            })?;
            sender::keep(tx, &ticket, &signed, Route::Public, None, nonce)
        });
        heard.write_all(kept.await.unwrap().hash().as_slice()).unwrap();
        if nonce % 40 == 39 {
            // The log goes into the database, which is when a power cut is worst.
            rusqlite::Connection::open(store.path())
                .unwrap()
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .unwrap();
        }
    }
}

#[derive(Debug, Clone)]
enum Deed {
    Write { at: usize, bytes: Vec<u8> },
    Cut(usize),
    Remove,
}

#[derive(Debug)]
enum Noted {
    Done(String, Deed),
    Synced(String),
}

fn notes(path: &Path) -> Vec<Noted> {
    let bytes = fs::read(path).unwrap();
    let mut rest = bytes.as_slice();
    let mut found = Vec::new();
    while rest.len() >= 17 {
        let number = |range: std::ops::Range<usize>| {
            rest[range].iter().rev().fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte))
        };
        let (kind, named, offset, length) = (rest[0], number(1..5), number(5..13), number(13..17));
        let name = String::from_utf8(rest[17..17 + named].to_vec()).unwrap();
        let data = rest[17 + named..17 + named + length].to_vec();
        found.push(match kind {
            b'w' => Noted::Done(name, Deed::Write { at: offset, bytes: data }),
            b't' => Noted::Done(name, Deed::Cut(offset)),
            b'u' => Noted::Done(name, Deed::Remove),
            b's' => Noted::Synced(name),
            other => panic!("{other}"),
        });
        rest = &rest[17 + named + length..];
    }
    found
}

fn apply(file: &mut Option<Vec<u8>>, deed: &Deed) {
    match deed {
        Deed::Remove => *file = None,
        Deed::Cut(length) => file.get_or_insert_default().resize(*length, 0),
        Deed::Write { at, bytes } => {
            let file = file.get_or_insert_default();
            if file.len() < at + bytes.len() {
                file.resize(at + bytes.len(), 0);
            }
            file[*at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// The files as the disk may have them after the first `until` notes, and what was heard by then.
fn after(notes: &[Noted], until: usize, random: &mut impl rand::Rng) -> (BTreeMap<String, Option<Vec<u8>>>, Vec<u8>) {
    let mut safe: BTreeMap<String, Option<Vec<u8>>> = BTreeMap::new();
    let mut loose: BTreeMap<String, Vec<Deed>> = BTreeMap::new();
    let mut heard = Vec::new();
    for note in &notes[..until] {
        match note {
            Noted::Done(name, Deed::Write { bytes, .. }) if name == HEARD => heard.extend_from_slice(bytes),
            Noted::Done(name, deed) => loose.entry(name.clone()).or_default().push(deed.clone()),
            Noted::Synced(name) => {
                let file = safe.entry(name.clone()).or_default();
                loose.remove(name).unwrap_or_default().iter().for_each(|deed| apply(file, deed));
            }
        }
    }
    // Of what nobody asked the disk to keep, any part may be there, sector by sector.
    let share = [0.0, 0.5, 0.9, 1.0][random.random_range(0..4)];
    for (name, deeds) in loose {
        let file = safe.entry(name).or_default();
        for deed in deeds {
            match &deed {
                Deed::Write { at, bytes } => {
                    let mut from = 0;
                    while from < bytes.len() {
                        let to = bytes.len().min(from + SECTOR - (at + from) % SECTOR);
                        if random.random_bool(share) {
                            apply(file, &Deed::Write { at: at + from, bytes: bytes[from..to].to_vec() });
                        }
                        from = to;
                    }
                }
                Deed::Cut(_) | Deed::Remove => {
                    if random.random_bool(share) {
                        apply(file, &deed);
                    }
                }
            }
        }
    }
    (safe, heard)
}

/// The library that notes what a program does to files, compiled with the machine's C compiler.
fn library(folder: &Path) -> std::path::PathBuf {
    let (source, library) = (folder.join("power.c"), folder.join("libpower.so"));
    fs::write(&source, include_str!("power.c")).unwrap();
    let arguments = ["-O1", "-shared", "-fPIC", "-o"];
    let built = Command::new("cc").args(arguments).arg(&library).arg(&source).arg("-ldl").output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

#[cfg(target_os = "linux")]
#[test]
fn whenever_the_power_goes_what_was_acknowledged_is_there() {
    let work = tempfile::tempdir().unwrap();
    let (root, record) = (work.path().join("root"), work.path().join("record"));
    fs::create_dir(&root).unwrap();
    let writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "power::writer", "--ignored", "--nocapture"])
        .env(FOLDER, &root)
        .env("LD_PRELOAD", library(work.path()))
        .env("POWER_ROOT", &root)
        .env("POWER_RECORD", &record)
        .output()
        .unwrap();
    assert!(writer.status.success(), "{}", String::from_utf8_lossy(&writer.stdout));
    let notes = notes(&record);
    let syncs = notes.iter().filter(|note| matches!(note, Noted::Synced(_))).count() as u64;
    assert!(syncs >= 2 * RECORDS, "{syncs} syncs for {RECORDS} records of two writes each");

    let seed = rand::random::<u64>();
    println!("seed {seed}, {} notes", notes.len());
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut most = 0;
    for run in 0..RUNS {
        let until = if run == 0 { notes.len() } else { random.random_range(1..=notes.len()) };
        let (files, heard) = after(&notes, until, &mut random);
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if let Some(content) = content {
                fs::write(path, content).unwrap();
            }
        }
        let heard: BTreeSet<B256> = heard.chunks_exact(32).map(B256::from_slice).collect();
        most = most.max(heard.len());
        let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ROOMS)
            .unwrap_or_else(|error| panic!("run {run}, cut at {until}: {error}"));
        store
            .read(|connection| {
                let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
                assert_eq!(sound, "ok", "run {run}, cut at {until}");
                for hash in &heard {
                    let record = sender::load(connection, *hash)?;
                    let record = record.unwrap_or_else(|| panic!("run {run}, cut at {until}: {hash} is lost"));
                    assert_eq!(record.signed.hash(), *hash);
                }
                let told: i64 = connection.query_row("SELECT count(*) FROM audit_entry", [], |row| row.get(0))?;
                let kept: i64 =
                    connection.query_row("SELECT count(*) FROM sender_transaction", [], |row| row.get(0))?;
                assert_eq!(told, kept, "run {run}: what was done and what is said of it are together");
                Ok::<_, sender::RecordError>(())
            })
            .unwrap();
    }
    assert_eq!(most as u64, RECORDS);
}
