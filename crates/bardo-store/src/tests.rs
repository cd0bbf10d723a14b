//! The database under concurrent use and under failures.

use std::time::Duration;

use rusqlite::Connection;

use super::*;

const COUNTER: Migrations = Migrations {
    room: "counter",
    steps: &["CREATE TABLE counter_value (at INTEGER PRIMARY KEY, value INTEGER NOT NULL) STRICT"],
};

const COUNTER_2: Migrations = Migrations {
    room: "counter",
    steps: &[
        "CREATE TABLE counter_value (at INTEGER PRIMARY KEY, value INTEGER NOT NULL) STRICT",
        "INSERT INTO counter_value VALUES (7, 70)",
    ],
};

fn open(folder: &tempfile::TempDir, rooms: &[Migrations]) -> Result<Store, StoreError> {
    let path = folder.path().join("bardo.db");
    Store::open(StoreConfig { path, patience: Duration::from_millis(20) }, rooms)
}

async fn put(store: &Store, at: i64, value: i64) -> Result<(), StoreError> {
    store
        .write(move |tx| {
            tx.execute("INSERT OR REPLACE INTO counter_value VALUES (?1, ?2)", [at, value])?;
            Ok(())
        })
        .await
}

fn value(store: &Store, at: i64) -> Result<Option<i64>, StoreError> {
    store.read(|connection| {
        let mut found = connection.prepare("SELECT value FROM counter_value WHERE at = ?1")?;
        Ok(found.query_map([at], |row| row.get(0))?.next().transpose()?)
    })
}

#[tokio::test]
async fn data_survives_reopening_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, &[COUNTER]).unwrap();
    put(&store, 1, 10).await.unwrap();
    drop(store);
    let store = open(&folder, &[COUNTER_2]).unwrap();
    assert_eq!(value(&store, 1), Ok(Some(10)));
    assert_eq!(value(&store, 7), Ok(Some(70)), "the second step ran");
    drop(store);
    assert_eq!(
        open(&folder, &[COUNTER]).unwrap_err(),
        StoreError::TooNew { room: "counter".into(), found: 2, known: 1 }
    );
    const OTHER: &[&str] = &["CREATE TABLE counter_other (a INTEGER)", "INSERT INTO counter_value VALUES (7, 70)"];
    let other = Migrations { room: "counter", steps: OTHER };
    assert_eq!(open(&folder, &[other]).unwrap_err(), StoreError::Changed { room: "counter".into(), version: 1 });
}

/// Counters of a database in the folder of copies, oldest copy first.
fn copied_values(folder: &tempfile::TempDir) -> Vec<i64> {
    let Ok(entries) = std::fs::read_dir(folder.path().join("bardo.db-copies")) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort_unstable();
    let count = |path: &std::path::PathBuf| {
        let copy = Connection::open(path).unwrap();
        copy.query_row("SELECT COUNT(*) FROM counter_value", [], |row| row.get(0)).unwrap()
    };
    paths.iter().map(count).collect()
}

#[tokio::test]
async fn a_copy_is_made_before_each_migration_and_few_are_kept() {
    const STEPS: &[&str] = &[
        "CREATE TABLE counter_value (at INTEGER PRIMARY KEY, value INTEGER NOT NULL) STRICT",
        "INSERT INTO counter_value VALUES (1, 1)",
        "INSERT INTO counter_value VALUES (2, 2)",
        "INSERT INTO counter_value VALUES (3, 3)",
        "INSERT INTO counter_value VALUES (4, 4)",
        "INSERT INTO counter_value VALUES (5, 5)",
    ];
    let folder = tempfile::tempdir().unwrap();
    let upto = |count: usize| open(&folder, &[Migrations { room: "counter", steps: &STEPS[..count] }]).unwrap();
    drop(upto(1));
    drop(upto(1));
    assert_eq!(copied_values(&folder), [0; 0], "nothing was migrated");
    // One copy that a killed process has left unfinished.
    std::fs::create_dir(folder.path().join("bardo.db-copies")).unwrap();
    std::fs::write(folder.path().join("bardo.db-copies/0000000000001-0.part"), "half").unwrap();
    for count in 2..=6 {
        // What is only in the write-ahead log yet is copied, too.
        put(&upto(count - 1), 1_000 + i64::try_from(count).unwrap(), 0).await.unwrap();
        drop(upto(count));
        assert!(!folder.path().join("bardo.db-copies/0000000000001-0.part").exists(), "before the disk is filled");
    }
    assert_eq!(copied_values(&folder), [5, 7, 9], "the newest three, each as it was before its migration");
}

#[tokio::test]
async fn a_copy_of_a_database_in_use_is_one_moment_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, &[COUNTER]).unwrap();
    put(&store, 1, 10).await.unwrap();
    let to = folder.path().join("copy.db");
    copy(store.path(), &to, Duration::from_secs(5)).unwrap();
    put(&store, 2, 20).await.unwrap();
    let copied = Connection::open(&to).unwrap();
    let found: i64 = copied.query_row("SELECT SUM(value) FROM counter_value", [], |row| row.get(0)).unwrap();
    assert_eq!(found, 10);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(matches!(copy(store.path(), &to, Duration::ZERO), Err(StoreError::Open { .. })), "nothing is overwritten");
}

#[tokio::test]
async fn the_database_is_durable_and_private() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, &[COUNTER]).unwrap();
    let (mode, level): (String, i64) = store
        .write(|tx| {
            let pragma = |name: &str| format!("SELECT * FROM pragma_{name}");
            Ok::<_, StoreError>((
                tx.query_row(&pragma("journal_mode"), [], |row| row.get(0))?,
                tx.query_row(&pragma("synchronous"), [], |row| row.get(0))?,
            ))
        })
        .await
        .unwrap();
    // 2 is FULL: https://www.sqlite.org/pragma.html#pragma_synchronous
    assert_eq!((mode.as_str(), level), ("wal", 2));
    #[cfg(unix)]
    for name in ["bardo.db", "bardo.db-wal"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn an_error_or_a_panic_undoes_the_whole_write() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, &[COUNTER]).unwrap();
    let refused: Result<(), StoreError> = store
        .write(|tx| {
            tx.execute("INSERT INTO counter_value VALUES (1, 1)", [])?;
            Err(StoreError::Query("no".into()))
        })
        .await;
    assert_eq!(refused, Err(StoreError::Query("no".into())));
    let panicked: Result<(), StoreError> = store
        .write(|tx| {
            tx.execute("INSERT INTO counter_value VALUES (1, 1)", [])?;
            panic!("in the middle")
        })
        .await;
    assert_eq!(panicked, Err(StoreError::Interrupted));
    assert_eq!(value(&store, 1), Ok(None));
    put(&store, 1, 5).await.unwrap();
    assert_eq!(value(&store, 1), Ok(Some(5)));
}

#[test]
fn a_new_file_can_be_opened_by_many_at_once() {
    for _ in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bardo.db");
        let start = std::sync::Barrier::new(6);
        let open = || {
            start.wait();
            Store::open(StoreConfig { patience: Duration::from_secs(60), ..StoreConfig::at(&path) }, &[COUNTER])
        };
        std::thread::scope(|scope| {
            let opened: Vec<_> = (0..6).map(|_| scope.spawn(open)).collect();
            for one in opened {
                one.join().unwrap().unwrap();
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_increments_from_two_handles_are_all_counted() {
    let folder = tempfile::tempdir().unwrap();
    // The lock is not fair: a newcomer may be served long before a waiting writer.
    let config = StoreConfig { patience: Duration::from_secs(60), ..StoreConfig::at(folder.path().join("bardo.db")) };
    let stores: Vec<_> = (0..2).map(|_| Store::open(config.clone(), &[COUNTER]).unwrap()).collect();
    put(&stores[0], 1, 0).await.unwrap();
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move {
                store
                    .write(|tx| {
                        let old: i64 =
                            tx.query_row("SELECT value FROM counter_value WHERE at = 1", [], |row| row.get(0))?;
                        tx.execute("UPDATE counter_value SET value = ?1 WHERE at = 1", [old + 1])?;
                        Ok::<_, StoreError>(())
                    })
                    .await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(value(&stores[1], 1), Ok(Some(100)));
}

#[tokio::test]
async fn every_failure_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, &[COUNTER]).unwrap();

    let other = Connection::open(store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(put(&store, 1, 1).await, Err(StoreError::Locked));
    other.execute_batch("ROLLBACK").unwrap();

    let written: Result<usize, StoreError> =
        store.read(|connection| Ok(connection.execute("INSERT INTO counter_value VALUES (2, 2)", [])?));
    assert_eq!(written, Err(StoreError::ReadOnly));

    let full: Result<(), StoreError> = store
        .write(|tx| {
            tx.execute_batch(
                "PRAGMA max_page_count = 1; CREATE TABLE big (x); INSERT INTO big VALUES (zeroblob(1000000))",
            )?;
            Ok(())
        })
        .await;
    assert_eq!(full, Err(StoreError::DiskFull));

    let garbage = folder.path().join("garbage.db");
    std::fs::write(&garbage, "no database at all, and longer than the header of one: ".repeat(40)).unwrap();
    let error = Store::open(StoreConfig::at(&garbage), &[COUNTER]).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");

    let nowhere = Store::open(StoreConfig::at(folder.path().join("absent/bardo.db")), &[]).unwrap_err();
    assert!(matches!(nowhere, StoreError::Open { .. }), "{nowhere}");
    for error in [error, nowhere, StoreError::Locked, StoreError::ReadOnly, StoreError::DiskFull] {
        assert!(error.to_string().contains(':'), "{error}");
    }
}

#[tokio::test]
async fn a_session_is_alive_exactly_as_long_as_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (open(&folder, &[COUNTER]).unwrap(), open(&folder, &[COUNTER]).unwrap());
    assert_ne!(first.session(), second.session());
    assert!(first.is_session_alive(second.session()) && second.is_session_alive(first.session()));
    assert!(first.is_session_alive(first.session()));
    let written: String = second
        .write(|tx| Ok::<_, StoreError>(tx.query_row("SELECT id FROM temp.store_session", [], |row| row.get(0))?))
        .await
        .unwrap();
    assert_eq!(written, second.session(), "a write knows whose it is");
    let name = second.session().to_owned();
    let handle = second.clone();
    drop(second);
    assert!(first.is_session_alive(&name), "a clone is the same store");
    drop(handle);
    assert!(!first.is_session_alive(&name));
    for none in ["", ".", "../bardo.db", &"0".repeat(32)] {
        assert!(!first.is_session_alive(none), "{none}");
    }
    // A closed store leaves no file behind.
    let left = std::fs::read_dir(folder.path().join("bardo.db-sessions")).unwrap().count();
    assert_eq!(left, 1, "the first one's own");
}

#[cfg(unix)]
#[test]
fn pipes_beside_the_database_never_block_it() {
    for (place, opens, locks) in [
        ("bardo.db-journal", false, false),
        ("bardo.db-wal", false, false),
        ("bardo.db-sessions/0123456789abcdef0123456789abcdef", true, true),
        ("bardo.db-holds/one", true, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join(place);
        std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let store = open(&folder, &[COUNTER]);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let held =
                store.as_ref().ok().map(|store| runtime.block_on(store.acquire_lock("one", Duration::from_secs(30))));
            let lives = store.as_ref().ok().map(|store| store.is_session_alive("0123456789abcdef0123456789abcdef"));
            tell.send((store.err(), held.is_some_and(|held| held.is_ok()), lives)).unwrap();
        });
        let (refused, held, lives) = told.recv_timeout(Duration::from_secs(60)).expect(place);
        assert_eq!((refused.is_none(), held), (opens, locks), "{place}: {refused:?}");
        assert!(refused.is_none_or(|error| error.to_string().contains("regular file")), "{place}");
        // If the state is unknown, an ended process's work does not count as left over.
        assert_eq!(lives, opens.then_some(place.contains("sessions")), "{place}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_has_one_holder_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    // Two stores on one file stand for two processes, since a file lock belongs to the handle that opened the file.
    let stores = [open(&folder, &[COUNTER]).unwrap(), open(&folder, &[COUNTER]).unwrap()];
    let (inside, most) = (Arc::new(std::sync::atomic::AtomicUsize::new(0)), Arc::new(Mutex::new((0, Vec::new()))));
    let tasks: Vec<_> = (0..60)
        .map(|number| {
            let (store, inside, most) = (stores[number % 2].clone(), Arc::clone(&inside), Arc::clone(&most));
            tokio::spawn(async move {
                let hold = store.acquire_lock("one", Duration::from_secs(30)).await.unwrap();
                let now = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
                {
                    let mut most = most.lock();
                    most.0 = most.0.max(now);
                    most.1.push(hold.count());
                }
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let (most, counts) = most.lock().clone();
    assert_eq!(most, 1, "never two at once");
    assert_eq!(counts, (0..60).collect::<Vec<u64>>(), "each was told how many came before");
    assert_eq!(stores[0].times_locked("one"), Ok(Some(60)));
    assert_eq!(stores[0].times_locked("another"), Ok(Some(0)));
}

#[tokio::test]
async fn a_held_lock_is_waited_for_up_to_the_given_time() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [open(&folder, &[COUNTER]).unwrap(), open(&folder, &[COUNTER]).unwrap()];
    let short = Duration::from_millis(30);
    let held = stores[0].acquire_lock("one", short).await.unwrap();
    for store in &stores {
        assert_eq!(store.acquire_lock("one", short).await.unwrap_err(), FileLockError::Busy("one".to_owned()));
        // A lock of another name is independent.
        drop(store.acquire_lock("two", short).await.unwrap());
        assert_eq!(
            (store.times_locked("one"), store.times_locked("two").map(|count| count > Some(0))),
            (Ok(None), Ok(true))
        );
    }
    drop(held);
    assert_eq!(stores[1].times_locked("one"), Ok(Some(1)));
    drop(stores[1].acquire_lock("one", short).await.unwrap());
    // A name must not lead out of the folder.
    for bad in ["", "..", "a/b", "a.b"] {
        assert!(matches!(stores[0].acquire_lock(bad, short).await, Err(FileLockError::Store(_))), "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_queue_in_one_store_does_not_starve_others() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [open(&folder, &[COUNTER]).unwrap(), open(&folder, &[COUNTER]).unwrap()];
    let first = stores[0].acquire_lock("one", Duration::from_secs(30)).await.unwrap();
    let line: Vec<_> = (0..40)
        .map(|_| {
            let store = stores[0].clone();
            tokio::spawn(async move {
                let hold = store.acquire_lock("one", Duration::from_secs(30)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
                drop(hold);
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let other = stores[1].clone();
    let came = tokio::spawn(async move { other.acquire_lock("one", Duration::from_secs(30)).await.unwrap().count() });
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(first);
    let came = came.await.unwrap();
    // Forty tasks wait ahead of it: the one that was next already goes first, and a few more between two polls. Without
    // the second lock it would come after all of them.
    assert!(came <= 30, "it came after {came} of the line");
    for task in line {
        task.await.unwrap();
    }
}
