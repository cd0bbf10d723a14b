//! A power cut at any moment. The file operations of a program are recorded in order. The folder is rebuilt as the disk
//! may then have had it: synced data are present, other sectors may be missing, and a file may have its old or new
//! name. It is opened again: acknowledged data are present, and started actions reach their one end.

mod replayed;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use alloy::primitives::{B256, U256};
use alloy::signers::local::PrivateKeySigner;
use bardo::base::failpoint::Failpoint;
use bardo::base::id::GolemId;
use bardo::chain::sender::{self, ChainNonces, SendRoute};
use bardo::safety::audit;
use bardo::store::{Migrations, Store, StoreConfig};
use rand::{Rng as _, SeedableRng as _};

use crate::crash::is_of_swaps;
use crate::host::{AMOUNT, Devnet, Home, ROOMY, drawn, run, settled};
use bardo_testkit::sending::{PLENTY, sign};

const ALL_MIGRATIONS: &[Migrations] = &[sender::MIGRATIONS, audit::MIGRATIONS];
/// File in which the writer acknowledges stored data: excluded from power cuts.
const HEARD: &str = "/heard";
/// Environment variable that makes a test of this file the writer, and names its folder.
const WRITER: &str = "BARDO_TEST_POWER";
const RECORDS: u64 = 120;
/// Bytes that a disk writes atomically.
const SECTOR: usize = 512;

fn runs() -> u32 {
    std::env::var("BARDO_POWER_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(250)
}

/// Stores signed transactions with their audit entries, and acknowledges each.
async fn write(folder: &Path) {
    let store = Store::open(StoreConfig::at(folder.join("ledger.db")), ALL_MIGRATIONS).unwrap();
    let mut heard = fs::File::create(folder.join(HEARD.trim_start_matches('/'))).unwrap();
    let key = PrivateKeySigner::from_bytes(&B256::repeat_byte(0x11)).unwrap();
    for nonce in 0..RECORDS {
        let seen = ChainNonces { latest: 0, pending: 0 };
        let account = key.address();
        let ticket = store.write(move |tx| sender::allocate(tx, 31_337, account, seen, nonce)).await.unwrap();
        let signed = sign(&key, 31_337, ticket.nonce, U256::from(nonce), PLENTY);
        let hash = signed.hash();
        let kept = store.write(move |tx| {
            let body = serde_json::json!({ "kept": hash });
            let entry = audit::LogEntry {
                kind: audit::AuditKind::BreakerReset,
                call_id: None,
                golem_id: &GolemId::operator(),
                body: &body,
            };
            audit::append(tx, nonce, &entry).map_err(|error| match error {
                audit::AuditError::Store(error) => sender::RecordError::Store(error),
                other => panic!("{other}"),
            })?;
            sender::keep(tx, &ticket, &signed, SendRoute::Public, None, nonce)
        });
        heard.write_all(kept.await.unwrap().hash().as_slice()).unwrap();
        if nonce % 40 == 39 {
            // A checkpoint of the WAL into the database, the worst moment for a power cut.
            rusqlite::Connection::open(store.path())
                .unwrap()
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .unwrap();
        }
    }
}

/// An operation on a file's content.
#[derive(Debug, Clone)]
enum Deed {
    Write { at: usize, bytes: Vec<u8> },
    Cut(usize),
}

/// An operation of a program, by its name in the record.
#[derive(Debug)]
enum Noted {
    Made(String),
    Done(String, Deed),
    Removed(String),
    Moved(String, String),
    Synced(String),
}

fn notes(path: &Path) -> Vec<Noted> {
    let bytes = fs::read(path).unwrap_or_default();
    let mut rest = bytes.as_slice();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let number = |range: std::ops::Range<usize>| {
            rest[range].iter().rev().fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte))
        };
        let (kind, named, offset, length) = (rest[0], number(1..5), number(5..13), number(13..17));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let name = text(&rest[17..17 + named]);
        let data = &rest[17 + named..17 + named + length];
        found.push(match kind {
            b'c' => Noted::Made(name),
            b'w' => Noted::Done(name, Deed::Write { at: offset, bytes: data.to_vec() }),
            b't' => Noted::Done(name, Deed::Cut(offset)),
            b'u' => Noted::Removed(name),
            b'r' => Noted::Moved(name, text(data)),
            b's' => Noted::Synced(name),
            other => panic!("{other}"),
        });
        rest = &rest[17 + named + length..];
    }
    found
}

/// Synced content of a file, and the operations since.
#[derive(Debug, Default, Clone)]
struct Content {
    safe: Vec<u8>,
    loose: Vec<Deed>,
}

impl Content {
    fn apply(&mut self, deed: &Deed) {
        match deed {
            Deed::Cut(length) => self.safe.resize(*length, 0),
            Deed::Write { at, bytes } => {
                if self.safe.len() < at + bytes.len() {
                    self.safe.resize(at + bytes.len(), 0);
                }
                self.safe[*at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    fn sync(&mut self) {
        for deed in std::mem::take(&mut self.loose) {
            self.apply(&deed);
        }
    }

    /// Keeps each unsynced sector with this probability.
    fn lose(&mut self, share: f64, random: &mut impl rand::Rng) {
        for deed in std::mem::take(&mut self.loose) {
            match &deed {
                Deed::Write { at, bytes } => {
                    let mut from = 0;
                    while from < bytes.len() {
                        let to = bytes.len().min(from + SECTOR - (at + from) % SECTOR);
                        if random.random_bool(share) {
                            self.apply(&Deed::Write { at: at + from, bytes: bytes[from..to].to_vec() });
                        }
                        from = to;
                    }
                }
                Deed::Cut(_) => {
                    if random.random_bool(share) {
                        self.apply(&deed);
                    }
                }
            }
        }
    }
}

/// A change of names, which is permanent once its folder was synced.
#[derive(Debug, Clone)]
enum Naming {
    Link(String, usize),
    Unlink(String),
}

/// A folder as a program sees it and as its disk has it.
#[derive(Debug, Default, Clone)]
struct Disk {
    contents: Vec<Content>,
    seen: BTreeMap<String, usize>,
    kept: BTreeMap<String, usize>,
    pending: Vec<Naming>,
}

impl Disk {
    /// A folder that is completely synced.
    fn of(root: &Path) -> Self {
        let mut disk = Self::default();
        for (name, content) in files(root) {
            let number = disk.add(content);
            disk.seen.insert(name.clone(), number);
            disk.kept.insert(name, number);
        }
        disk
    }

    fn add(&mut self, safe: Vec<u8>) -> usize {
        self.contents.push(Content { safe, loose: Vec::new() });
        self.contents.len() - 1
    }

    fn take(&mut self, note: &Noted) {
        match note {
            Noted::Made(name) => {
                if !self.seen.contains_key(name) {
                    let number = self.add(Vec::new());
                    self.seen.insert(name.clone(), number);
                    self.pending.push(Naming::Link(name.clone(), number));
                }
            }
            Noted::Done(name, deed) => {
                let number = *self.seen.get(name).unwrap_or_else(|| panic!("{name} was never made"));
                self.contents[number].loose.push(deed.clone());
            }
            Noted::Removed(name) => {
                self.seen.remove(name);
                self.pending.push(Naming::Unlink(name.clone()));
            }
            Noted::Moved(from, to) => {
                if let Some(number) = self.seen.remove(from) {
                    self.seen.insert(to.clone(), number);
                    self.pending.push(Naming::Link(to.clone(), number));
                    self.pending.push(Naming::Unlink(from.clone()));
                }
            }
            Noted::Synced(name) => match self.seen.get(name).copied() {
                // A synced file is also found again, under the name with which it was created.
                Some(number) => {
                    self.contents[number].sync();
                    self.settle(|naming| matches!(naming, Naming::Link(_, linked) if *linked == number));
                }
                None => self.settle(|naming| {
                    let (Naming::Link(named, _) | Naming::Unlink(named)) = naming;
                    named.rsplit_once('/').is_some_and(|(folder, _)| folder == name)
                }),
            },
        }
    }

    fn settle(&mut self, stays: impl Fn(&Naming) -> bool) {
        let (now, later) = std::mem::take(&mut self.pending).into_iter().partition(stays);
        self.pending = later;
        self.name(now);
    }

    fn name(&mut self, namings: Vec<Naming>) {
        for naming in namings {
            match naming {
                Naming::Link(name, number) => self.kept.insert(name, number),
                Naming::Unlink(name) => self.kept.remove(&name),
            };
        }
    }

    /// Possible contents after a power cut.
    fn cut(mut self, random: &mut impl rand::Rng) -> BTreeMap<String, Vec<u8>> {
        let share = [0.0, 0.5, 0.9, 1.0][random.random_range(0..4)];
        for content in &mut self.contents {
            content.lose(share, random);
        }
        // Name changes are applied in order, up to some point.
        let so_far = random.random_range(0..=self.pending.len());
        let namings = self.pending.drain(..so_far).collect();
        self.name(namings);
        self.kept.iter().map(|(name, number)| (name.clone(), self.contents[*number].safe.clone())).collect()
    }

    /// Contents as the program sees them, whatever the disk has.
    fn whole(mut self) -> BTreeMap<String, Vec<u8>> {
        self.contents.iter_mut().for_each(Content::sync);
        self.seen.iter().map(|(name, number)| (name.clone(), self.contents[*number].safe.clone())).collect()
    }
}

/// Files of a folder with their contents, without shared memory.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("/{}", path.strip_prefix(root).unwrap().to_str().unwrap());
            if path.is_dir() {
                folders.push(path);
            } else if !name.ends_with("-shm") {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Makes a folder contain exactly these files, for their owner only, as Bardo creates them.
fn restore(root: &Path, content: &BTreeMap<String, Vec<u8>>) {
    for old in fs::read_dir(root).unwrap() {
        let path = old.unwrap().path();
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    for (name, bytes) in content {
        let path = root.join(name.trim_start_matches('/'));
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap()).unwrap();
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.unwrap().write_all(bytes).unwrap();
    }
}

/// Preloaded library that records the file operations of programs in a folder.
struct Recorder {
    work: tempfile::TempDir,
    library: PathBuf,
}

impl Recorder {
    /// Compiles it with the system's C compiler, which the build needs anyway.
    fn new() -> Self {
        let work = tempfile::tempdir().unwrap();
        let (source, library) = (work.path().join("power.c"), work.path().join("libpower.so"));
        fs::write(&source, include_str!("power.c")).unwrap();
        let arguments = ["-O1", "-shared", "-fPIC", "-o"];
        let built = Command::new("cc").args(arguments).arg(&library).arg(&source).arg("-ldl").output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Self { work, library }
    }

    fn watch(&self, command: &mut Command, root: &Path) -> PathBuf {
        let record = self.work.path().join("record");
        let _ = fs::remove_file(&record);
        command.env("LD_PRELOAD", &self.library).env("POWER_ROOT", root).env("POWER_RECORD", &record);
        record
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn acknowledged_writes_survive_a_power_cut_at_any_time() {
    if let Some(folder) = std::env::var_os(WRITER) {
        return tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(write(Path::new(&folder)));
    }
    let recorder = Recorder::new();
    let root = recorder.work.path().join("root");
    fs::create_dir(&root).unwrap();
    let mut writer = Command::new(std::env::current_exe().unwrap());
    let record = recorder.watch(&mut writer, &root);
    let name = "power::acknowledged_writes_survive_a_power_cut_at_any_time";
    let written = writer.args(["--exact", name, "--nocapture"]).env(WRITER, &root).output().unwrap();
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stdout));
    let notes = notes(&record);
    let syncs = notes.iter().filter(|note| matches!(note, Noted::Synced(_))).count() as u64;
    assert!(syncs >= 2 * RECORDS, "{syncs} syncs for {RECORDS} records of two writes each");
    // Nothing was missed: the record equals the actual files.
    let mut disk = Disk::default();
    notes.iter().for_each(|note| disk.take(note));
    let (noted, there) = (disk.whole(), files(&root));
    assert!(noted == there, "{:?} noted, {:?} there", noted.keys(), there.keys());

    let seed = drawn();
    println!("seed {seed}, {} notes", notes.len());
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut most = 0;
    for run in 0..runs() {
        let until = if run == 0 { notes.len() } else { random.random_range(1..=notes.len()) };
        let mut disk = Disk::default();
        notes[..until].iter().for_each(|note| disk.take(note));
        // Acknowledgements are excluded from power cuts.
        let heard = disk.clone().whole().remove(HEARD).unwrap_or_default();
        let heard: BTreeSet<B256> = heard.chunks_exact(32).map(B256::from_slice).collect();
        most = most.max(heard.len());
        let folder = tempfile::tempdir().unwrap();
        restore(folder.path(), &disk.cut(&mut random));
        let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS)
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

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_power_cut_at_any_place_of_a_swap_leaves_it_made_once() {
    let (devnet, home, recorder) = (Devnet::start(), Home::new(ROOMY), Recorder::new());
    let seed = drawn();
    println!("seed {seed}");
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut swaps = 0;
    for point in Failpoint::ALL.iter().filter(|point| is_of_swaps(**point)) {
        let place = point.name();
        let (before, disk) = (devnet.balance("WETH"), Disk::of(home.path()));
        let mut swap = home.swap(devnet.url(), place);
        let record = recorder.watch(&mut swap, home.path());
        let ran = run(swap.env("BARDO_FAILPOINT", place));
        assert!(ran.killed(), "{place} is not on the way: {ran:?}");
        let notes = notes(&record);
        let mut disk = disk;
        notes.iter().for_each(|note| disk.take(note));
        restore(home.path(), &disk.cut(&mut random));
        let ran = run(&mut home.swap(devnet.url(), place));
        assert!(matches!(ran.status(), "success" | "partial") && ran.code == Some(0), "{place}: {ran:?}");
        swaps += 1;
        assert_eq!(settled(&home, &devnet), swaps, "{place}, seed {seed}");
        assert_eq!(before - devnet.balance("WETH"), AMOUNT, "{place}, seed {seed}: sold once");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn an_acknowledged_stop_survives_a_power_cut() {
    let (home, recorder) = (Home::new(ROOMY), Recorder::new());
    let mut disk = Disk::of(home.path());
    let mut halt = home.command(&["halt", "--reason", "smoke in the engine room"]);
    let record = recorder.watch(&mut halt, home.path());
    assert_eq!(run(&mut halt).code, Some(0));
    notes(&record).iter().for_each(|note| disk.take(note));
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    for _ in 0..20 {
        let left = disk.clone().cut(&mut random);
        let stop = left.get("/data/STOP").map(|stop| String::from_utf8_lossy(stop).into_owned());
        assert!(stop.as_ref().is_some_and(|stop| stop.contains("smoke in the engine room")), "{stop:?}");
    }
}
