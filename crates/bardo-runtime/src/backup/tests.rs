//! Backups of a folder that is in use, hostile archives, and the halt of a restored copy.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::archive::{BackupManifest, BackupPath, FORMAT, ListedFile, MANIFEST};
use super::{BackupError, BackupOptions, install_configuration, make, redact, restore};
use crate::data::{DataError, DataFolder};
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_base::model::StopLevel;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_safety::custody::Reauthentication;
use bardo_safety::operator_proof::Authorisation;
use bardo_safety::stop::{OTHER_COPY_STOPPED, RestoredCopy, StopError, StopFile};
use bardo_store::StoreError;

const PASSPHRASE: &str = "correct horse battery staple";

fn passphrase(text: &str) -> Password {
    Password::new(text.to_owned())
}

fn config(home: &TempDir) -> Config {
    let environment: Environment = [("BARDO_HOME", home.path().to_str().unwrap())].into_iter().collect();
    Config::load(&environment, &ConfigFlags::default()).unwrap()
}

/// A home with a configuration, a policy, a strategy and a key file.
fn home() -> TempDir {
    let home = TempDir::new().unwrap();
    let write = |path: &str, text: &str| {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "config.toml",
        "data_dir = \"/elsewhere\"\n[chains.sepolia]\nrpc = [\"https://one.example/canary-key\", 'wss://u:canary-word@two.example']\n# rpc = \
         [\"HTTPS://old.example/v3/canary-old\"]\n[golem]\nmodel_url = \"http://127.0.0.1:11434\"\n",
    );
    write("policy.toml", "preset = \"paranoid\"\n");
    write("data/golems/ada/STRATEGY.md", "buy low\n");
    write("data/keys/trading.json", "canary-key-file\n");
    home
}

fn with_data_of(home: &TempDir) -> Config {
    let mut config = config(home);
    config.data_dir.value = home.path().join("data");
    config
}

/// Archive with these entries, encrypted with a passphrase that is quick to derive.
fn archive(file: &Path, manifest: &BackupManifest, add: impl FnOnce(&mut tar::Builder<Vec<u8>>)) {
    let mut plain = tar::Builder::new(Vec::new());
    append(&mut plain, MANIFEST, &serde_json::to_vec(manifest).unwrap());
    add(&mut plain);
    encrypt(file, &plain.into_inner().unwrap());
}

fn encrypt(file: &Path, plain: &[u8]) {
    let mut recipient = age::scrypt::Recipient::new(super::make::secret(&passphrase(PASSPHRASE)));
    recipient.set_work_factor(4);
    let encryptor = age::Encryptor::with_recipients(std::iter::once(&recipient as &dyn age::Recipient)).unwrap();
    let mut out = encryptor.wrap_output(Vec::new()).unwrap();
    out.write_all(plain).unwrap();
    std::fs::write(file, out.finish().unwrap()).unwrap();
}

fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_entry_type(tar::EntryType::Regular);
    // Written past the library's own checks, as an attacker would.
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    header.set_cksum();
    archive.append(&header, content).unwrap();
}

fn manifest(files: &[(&str, &[u8])]) -> BackupManifest {
    let listed = |(path, content): &(&str, &[u8])| ListedFile {
        path: (*path).to_owned(),
        bytes: content.len() as u64,
        sha256: alloy::hex::encode(Sha256::digest(content)),
    };
    BackupManifest {
        format: FORMAT,
        bardo: SafeText::default(),
        made_at: 0,
        made_from: SafeText::default(),
        with_keys: false,
        files: files.iter().map(listed).collect(),
    }
}

/// Names in the folder that holds a home's data folder, to see that nothing is left there.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_folder_in_use_restores_one_moment_halted_and_without_credentials() {
    let home = home();
    let from = with_data_of(&home);
    let ledger = DataFolder::of(&from).open_real_ledger(1).await.unwrap();
    ledger
        .store
        .write(|transaction| {
            transaction.execute_batch("CREATE TABLE left (n INTEGER) STRICT; CREATE TABLE right (n INTEGER) STRICT")?;
            Ok::<_, StoreError>(())
        })
        .await
        .unwrap();
    // Writes go on, each into both tables.
    let ends = Arc::new(AtomicBool::new(false));
    let writing = {
        let (store, ends) = (ledger.store.clone(), Arc::clone(&ends));
        tokio::spawn(async move {
            for number in 0_i64.. {
                store
                    .write(move |transaction| {
                        transaction.execute("INSERT INTO left VALUES (?1)", [number])?;
                        transaction.execute("INSERT INTO right VALUES (?1)", [number])?;
                        Ok::<_, StoreError>(())
                    })
                    .await
                    .unwrap();
                if ends.load(Ordering::SeqCst) {
                    return number;
                }
            }
            0
        })
    };
    let file = home.path().join("backup.age");
    let made = {
        let (from, file) = (from.clone(), file.clone());
        tokio::task::spawn_blocking(move || {
            make(&from, &file, &passphrase(PASSPHRASE), BackupOptions::default(), 1_700_000_000_000)
        })
    };
    let made = made.await.unwrap().unwrap();
    ends.store(true, Ordering::SeqCst);
    assert!(writing.await.unwrap() > 0);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let paths: Vec<&str> = made.manifest.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "data/ledger/real/ledger.audit-head",
            "data/ledger/real/ledger.db",
            "data/golems/ada/STRATEGY.md",
            "config/config.toml",
            "config/policy.toml"
        ]
    );
    assert_eq!(made.redacted, 3);
    assert_eq!(names(&home.path().join("data")), ["golems", "keys", "ledger"], "no copy is left");
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"age-encryption.org/v1\n-> scrypt "), "age reads it");

    let other = TempDir::new().unwrap();
    let to = config(&other);
    let restored = restore(&to, &file, &passphrase(PASSPHRASE), true, 1_700_000_001_000).unwrap();
    assert_eq!(restored.manifest, made.manifest);
    assert_eq!(names(other.path()), ["config.toml", "data", "policy.toml"]);
    let text = std::fs::read_to_string(other.path().join("config.toml")).unwrap();
    assert_eq!(
        text,
        "#data_dir = \"/elsewhere\"\n[chains.sepolia]\nrpc = [\"https://one.example/REMOVED\", 'wss://two.example/REMOVED']\n# rpc = \
         [\"https://old.example/REMOVED\"]\n[golem]\nmodel_url = \"http://127.0.0.1:11434\"\n"
    );
    let data = other.path().join("data");
    assert_eq!(names(&data), ["RESTORED", "STOP", "STOP.lock", "golems", "ledger"]);

    let stop = StopFile::in_folder(&data);
    let shown = stop.read();
    assert_eq!(shown.level(), Some(StopLevel::Halt));
    let ledger = DataFolder::of(&to).open_real_ledger(1).await.unwrap();
    let counts = ledger.store.read(|connection| {
        let one = "SELECT (SELECT COUNT(*) FROM left), (SELECT COUNT(*) FROM right), (SELECT MAX(n) FROM left)";
        let row = connection.query_row(one, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok::<(i64, i64, Option<i64>), StoreError>(row)
    });
    let (left, right, last) = counts.unwrap();
    assert_eq!((left, left), (right, last.map_or(0, |last| last + 1)), "one moment");

    // Neither a proof of the operator nor a removed stop file is enough while the other copy may run.
    let prove = |level| {
        let wanted = Authorisation::lower_stop(&stop.read(), level);
        Reauthentication::new(&data, data.join("keys")).prove(wanted, false, &[], 1).unwrap()
    };
    for level in [None, Some(StopLevel::Pause), Some(StopLevel::Flatten)] {
        let refused = stop.lower(&stop.read(), level, "over", "operator", 1, prove(level));
        assert!(matches!(refused, Err(StopError::Restored)), "{refused:?}");
    }
    assert!(matches!(stop.confirm_other_copy_stopped("stopped"), Err(StopError::NotConfirmed)));
    // The halt does not hang on its files: the mark alone keeps it, and so does a change that did not take place.
    let confirmed = stop.confirm_other_copy_stopped(OTHER_COPY_STOPPED).unwrap();
    let proof = prove(None);
    for file in ["STOP", "STOP.lock"] {
        std::fs::remove_file(data.join(file)).unwrap();
    }
    assert_eq!(stop.read().level(), Some(StopLevel::Halt));
    let changed = confirmed.lower(&shown, None, "over", "operator", 1, proof);
    assert!(matches!(changed, Err(StopError::Changed)), "{changed:?}");
    assert!(stop.restored().is_some());
    let shown = stop.read();
    confirmed.lower(&shown, None, "over", "operator", 1, prove(None)).unwrap();
    assert_eq!((stop.read().level(), stop.restored()), (None, None));
}

#[test]
fn an_existing_backup_is_replaced_only_by_request_and_keys_come_only_by_request() {
    let home = home();
    let from = with_data_of(&home);
    let file = home.path().join("backup.age");
    std::fs::write(&file, "mine").unwrap();
    let refused = make(&from, &file, &passphrase(PASSPHRASE), BackupOptions::default(), 0);
    assert!(matches!(refused, Err(BackupError::Exists(_))), "{refused:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    let options = BackupOptions { with_keys: true, replace: true };
    let made = make(&from, &file, &passphrase(PASSPHRASE), options, 0).unwrap();
    assert!(made.manifest.files.iter().any(|file| file.path == "data/keys/trading.json"));
    assert_eq!(names(home.path()), ["backup.age", "config.toml", "data", "policy.toml"], "nothing unfinished is left");
    let other = TempDir::new().unwrap();
    restore(&config(&other), &file, &passphrase(PASSPHRASE), false, 0).unwrap();
    assert_eq!(std::fs::read(other.path().join("data/keys/trading.json")).unwrap(), b"canary-key-file\n");
    assert_eq!(names(other.path()), ["data"], "--without-config");
}

#[tokio::test]
async fn only_an_empty_folder_and_free_names_are_restored_into() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("backup.age");
    let (policy, strategy): (&[u8], &[u8]) = (b"preset = \"demo\"\n", b"x");
    let files = [("config/policy.toml", policy), ("data/golems/ada/STRATEGY.md", strategy)];
    archive(&file, &manifest(&files), |archive| {
        files.iter().for_each(|(path, content)| append(archive, path, content))
    });
    let other = TempDir::new().unwrap();
    let to = config(&other);
    std::fs::write(other.path().join("policy.toml"), "preset = \"paranoid\"\n").unwrap();
    let refused = restore(&to, &file, &passphrase(PASSPHRASE), true, 0);
    assert!(matches!(refused, Err(BackupError::ConfigExists(_))), "{refused:?}");
    assert_eq!(names(other.path()), ["policy.toml"], "nothing is restored");
    // An equal file does no harm; an empty data folder is replaced.
    std::fs::write(other.path().join("policy.toml"), policy).unwrap();
    std::fs::create_dir(other.path().join("data")).unwrap();
    restore(&to, &file, &passphrase(PASSPHRASE), true, 0).unwrap();
    let refused = restore(&to, &file, &passphrase(PASSPHRASE), true, 0);
    assert!(matches!(refused, Err(BackupError::NotEmpty(_))), "{refused:?}");
    // The files of an interrupted restore are put in place later.
    let waiting = other.path().join("data/restored-config");
    std::fs::create_dir(&waiting).unwrap();
    std::fs::write(waiting.join("policy-devnet.toml"), policy).unwrap();
    // No session may sign under another policy meanwhile.
    let refused = DataFolder::of(&to).open_real_ledger(1).await.map(drop);
    assert!(matches!(refused, Err(DataError::Unrestored(_))), "{refused:?}");
    assert_eq!(install_configuration(&to).unwrap(), [other.path().join("policy-devnet.toml")]);
    assert!(!waiting.exists());
    DataFolder::of(&to).open_real_ledger(1).await.unwrap();
    std::fs::create_dir(&waiting).unwrap();
    std::fs::write(waiting.join("policy-devnet.toml"), "preset = \"paranoid\"\n").unwrap();
    let refused = install_configuration(&to);
    assert!(matches!(refused, Err(BackupError::ConfigExists(_))), "{refused:?}");
    assert_eq!(std::fs::read(other.path().join("policy-devnet.toml")).unwrap(), policy);
}

#[test]
fn hostile_archives_restore_nothing() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("hostile.age");
    let path = "data/golems/ada/STRATEGY.md";
    let content: &[u8] = b"harmless";
    let good = manifest(&[(path, content)]);
    let link = |archive: &mut tar::Builder<Vec<u8>>, kind: tar::EntryType| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_path(path).unwrap();
        header.set_link_name("/etc/passwd").unwrap();
        header.set_size(0);
        header.set_cksum();
        archive.append(&header, std::io::empty()).unwrap();
    };
    let refused = |says: &str| {
        let other = TempDir::new().unwrap();
        let refused = restore(&config(&other), &file, &passphrase(PASSPHRASE), true, 0).unwrap_err().to_string();
        assert!(refused.contains(says) && refused.contains("nothing was restored"), "{says}: {refused}");
        assert_eq!(names(other.path()), [""; 0], "{says}");
    };
    for bad in ["data/golems/../../x/STRATEGY.md", "/etc/passwd", "data/STOP", "data/keys/../x", "config/../x.toml"] {
        let files = [(bad, content)];
        archive(&file, &manifest(&files), |archive| append(archive, bad, content));
        refused("is not a file of a backup");
    }
    // The manifest is harmless, and the entry is not.
    archive(&file, &good, |archive| append(archive, "../../outside", content));
    refused("is not where it is listed");
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Fifo, tar::EntryType::XHeader] {
        // As long as it is listed.
        archive(&file, &manifest(&[(path, b"")]), |archive| link(archive, kind));
        refused("is not where it is listed");
    }
    archive(&file, &good, |archive| append(archive, path, b"harmful!"));
    refused("is not what the manifest lists");
    archive(&file, &good, |archive| append(archive, path, b"longer than it says"));
    refused("is not where it is listed");
    archive(&file, &good, |_| {});
    refused("it was cut off");
    archive(&file, &good, |archive| [path, path].iter().for_each(|path| append(archive, path, content)));
    refused("files that it does not list");
    archive(&file, &manifest(&[(path, content), (path, content)]), |_| {});
    refused("lists a file twice");
    archive(&file, &manifest(&[("data/keys/a.json", content)]), |_| {});
    refused("says that it has none");
    archive(&file, &BackupManifest { format: 2, ..good.clone() }, |_| {});
    refused("its format is 2");
    let mut huge = good.clone();
    huge.files[0].bytes = u64::MAX;
    archive(&file, &huge, |_| {});
    refused("is larger than");
    let database = "data/ledger/real/ledger.db";
    archive(&file, &manifest(&[(database, content)]), |archive| append(archive, database, content));
    refused("data/ledger/real/ledger.db");
    encrypt(&file, b"");
    refused("it is empty");
    std::fs::write(&file, "no backup").unwrap();
    refused("is not a whole backup");

    archive(&file, &good, |archive| append(archive, path, content));
    let whole = std::fs::read(&file).unwrap();
    for length in [whole.len() - 1, whole.len() / 2, 200, 30] {
        std::fs::write(&file, &whole[..length]).unwrap();
        refused("");
    }
    for at in [30, whole.len() / 2, whole.len() - 20] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        std::fs::write(&file, changed).unwrap();
        refused("");
    }
    std::fs::write(&file, &whole).unwrap();
    let other = TempDir::new().unwrap();
    let wrong = restore(&config(&other), &file, &passphrase("another"), true, 0);
    assert!(matches!(wrong, Err(BackupError::Passphrase)), "{wrong:?}");
    restore(&config(&other), &file, &passphrase(PASSPHRASE), true, 0).unwrap();
}

#[test]
fn a_credential_that_cannot_be_removed_is_an_error() {
    for (text, says) in [
        ("rpc = \"https:\\u002F\\u002Fone.example/key\"", "hides its credential"),
        ("rpc = \"\\u0068ttps://one.example/key\"", "hides its credential"),
        ("rpc = [", ""),
        ("\"data\\u005Fdir\" = \"/x\"", "data_dir"),
    ] {
        let error = redact::redacted(text).unwrap_err();
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
    let (text, count) =
        redact::redacted("a = \"https://h.example:8443/k?x=1#f\" # see https://docs.example/page").unwrap();
    assert_eq!(
        (text.as_str(), count),
        ("a = \"https://h.example:8443/REMOVED\" # see https://docs.example/REMOVED", 2)
    );
    let host = "https://h.example/REMOVED";
    for (text, redacted) in [
        ("# https://h.example/a,KEY", format!("# {host}")),
        ("# https://u:p(ss@h.example", format!("# {host}")),
        ("a = 1 # https://h.example/a'KEY", format!("a = 1 # {host}")),
        ("# \"https://h.example/a KEY\", more", format!("# \"{host}\", more")),
        ("a = \"https:/h.example/v2/KEY\"", format!("a = \"{host}\"")),
        ("a = 'https:\\\\h.example\\KEY'", format!("a = '{host}'")),
    ] {
        assert_eq!(redact::redacted(text).unwrap(), (redacted, 1), "{text}");
    }
    for text in ["a = \"https:h.example/v2/KEY\"", "a = \"x https://h.example/a'KEY\""] {
        assert!(redact::redacted(text).is_err(), "{text}");
    }
    let unchanged = "a = [\"https://h.example\", \"http://[::1]:8545\"]\nb = \"wss://127.0.0.1:1/\"\nc = \"x://y/z\"\n";
    assert_eq!(redact::redacted(unchanged).unwrap(), (unchanged.to_owned(), 0));
}

#[test]
fn a_backup_contains_playbooks_of_all_chains_and_rejects_impossible_names() {
    let home = home();
    let from = with_data_of(&home);
    let ledger = home.path().join("data/ledger/real");
    std::fs::create_dir_all(&ledger).unwrap();
    rusqlite::Connection::open(ledger.join("ledger.db")).unwrap().execute_batch("CREATE TABLE one (n)").unwrap();
    // As long as a key of a network can be.
    let network = format!("ethereum+base+{}", "x".repeat(106));
    let golem = ledger.join("playbooks").join(&network).join("ada");
    std::fs::create_dir_all(&golem).unwrap();
    std::fs::write(golem.join("PLAYBOOK.md"), "learned").unwrap();
    std::fs::write(home.path().join("data/keys/.hidden"), "x").unwrap();
    std::fs::write(home.path().join("data/keys/a.json.new"), "x").unwrap();
    let file = home.path().join("backup.age");
    let options = BackupOptions { with_keys: true, replace: false };
    make(&from, &file, &passphrase(PASSPHRASE), options, 0).unwrap();
    let other = TempDir::new().unwrap();
    restore(&config(&other), &file, &passphrase(PASSPHRASE), false, 0).unwrap();
    let playbook = other.path().join(format!("data/ledger/real/playbooks/{network}/ada/PLAYBOOK.md"));
    assert_eq!(std::fs::read(playbook).unwrap(), b"learned");
    assert_eq!(names(&other.path().join("data/keys")), ["trading.json"]);
    std::fs::write(home.path().join("data/keys/my key.json"), "x").unwrap();
    let options = BackupOptions { with_keys: true, replace: true };
    let refused = make(&from, &file, &passphrase(PASSPHRASE), options, 0).unwrap_err().to_string();
    assert!(refused.starts_with("data/keys/my key.json cannot be backed up"), "{refused}");
}

#[test]
fn leftovers_of_a_killed_backup_are_removed_and_folders_of_others_stay() {
    let home = home();
    let from = with_data_of(&home);
    let data = home.path().join("data");
    let foreign = ["backup-old", ".backup-copies-0123456789abcdef0", ".backup-copies-ABCDEF0123456789"];
    // Without a lock that was ever taken.
    let unlocked = ".backup-copies-00000000000000aa";
    for name in foreign.into_iter().chain([unlocked, ".backup-copies-0123456789abcdef"]) {
        std::fs::create_dir(data.join(name)).unwrap();
        std::fs::write(data.join(name).join("ledger.db"), "mine").unwrap();
        if name != unlocked {
            std::fs::write(data.join(name).join("in-use"), "").unwrap();
        }
    }
    let busy = ".backup-copies-00000000000000bb";
    std::fs::create_dir(data.join(busy)).unwrap();
    let lock = std::fs::File::create(data.join(busy).join("in-use")).unwrap();
    lock.lock().unwrap();
    std::os::unix::fs::symlink(data.join("backup-old"), data.join(".backup-copies-00000000000000cc")).unwrap();
    make(&from, &home.path().join("backup.age"), &passphrase(PASSPHRASE), BackupOptions::default(), 0).unwrap();
    let left = names(&data);
    assert!(!left.iter().any(|name| name == ".backup-copies-0123456789abcdef"), "{left:?}");
    for name in foreign {
        assert_eq!(std::fs::read(data.join(name).join("ledger.db")).unwrap(), b"mine", "{name}");
    }
    for name in [unlocked, busy, ".backup-copies-00000000000000cc"] {
        assert!(left.iter().any(|found| found == name), "{name}: {left:?}");
    }
}

#[test]
fn a_backup_accepts_only_known_paths() {
    for good in ["data/ledger/devnet-1/paper.db", "config/archetypes/mine.toml", "data/keys/trading.json"] {
        assert_eq!(BackupPath::parse(good).unwrap().relative(), PathBuf::from(good.split_once('/').unwrap().1));
    }
    for bad in [
        "",
        "data",
        "data/ledger//ledger.db",
        "data/ledger/./ledger.db",
        "data/keys/.hidden",
        "data\\keys\\a",
        "config/archetypes/a.toml/b",
        "data/RESTORED",
        "data/serve/token",
        "data/ledger/a b/ledger.db",
    ] {
        assert_eq!(BackupPath::parse(bad), None, "{bad}");
    }
}

#[test]
fn a_backup_is_not_written_into_its_own_folder() {
    let home = home();
    let from = with_data_of(&home);
    for file in ["data/backup.age", "data/keys/trading.json", "data/keys/../x.age"] {
        let file = home.path().join(file);
        let options = BackupOptions { with_keys: false, replace: true };
        let refused = make(&from, &file, &passphrase(PASSPHRASE), options, 0);
        assert!(matches!(refused, Err(BackupError::Inside(_))), "{refused:?}");
    }
    assert_eq!(std::fs::read(home.path().join("data/keys/trading.json")).unwrap(), b"canary-key-file\n");
}

#[test]
fn leftovers_of_a_killed_restore_are_halted_and_removed_by_the_next() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("backup.age");
    let (path, content): (&str, &[u8]) = ("data/golems/ada/STRATEGY.md", b"x");
    archive(&file, &manifest(&[(path, content)]), |archive| append(archive, path, content));
    let other = TempDir::new().unwrap();
    let left = other.path().join("data.restoring-1700000000000-0123abcd");
    let foreign = other.path().join("data.restoring-1700000000000-old");
    let unmarked = other.path().join("data.restoring-1-0123abcd");
    for folder in [&left, &foreign, &unmarked] {
        std::fs::create_dir(folder).unwrap();
    }
    StopFile::in_folder(&left).begin_restored(&RestoredCopy::default(), 1).unwrap();
    StopFile::in_folder(&foreign).begin_restored(&RestoredCopy::default(), 1).unwrap();
    restore(&config(&other), &file, &passphrase(PASSPHRASE), false, 0).unwrap();
    assert!(!left.exists() && foreign.exists() && unmarked.exists());
    let mark = StopFile::in_folder(&other.path().join("data")).restored().unwrap();
    assert_eq!(mark.made_from, SafeText::default());
}
