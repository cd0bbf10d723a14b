use std::path::PathBuf;

use rusqlite::TransactionBehavior;
use serde_json::json;

use super::*;
use bardo_store::{Store, StoreConfig};

struct TestLog {
    folder: tempfile::TempDir,
    path: PathBuf,
    connection: Connection,
}

impl TestLog {
    fn new(entries: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        drop(Store::open(StoreConfig::at(&path), &[MIGRATIONS]).unwrap());
        let connection = Connection::open(&path).unwrap();
        let mut log = Self { folder, path, connection };
        (1..=entries).for_each(|number| log.append(number));
        log
    }

    fn append(&mut self, number: u64) {
        let head = self.append_unanchored(number);
        self.anchor().advance(head).unwrap();
    }

    fn append_unanchored(&mut self, number: u64) -> LogHead {
        let golem = GolemId::operator();
        let body = json!({ "number": number });
        let entry = LogEntry {
            kind: AuditKind::BreakerReset,
            call_id: Some(CallId::new(number)),
            golem_id: &golem,
            body: &body,
        };
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let head = append(&transaction, number, &entry).unwrap();
        transaction.commit().unwrap();
        head
    }

    fn anchor(&self) -> LogAnchor {
        LogAnchor::beside(&self.path)
    }

    fn faults(&self) -> Vec<LogFault> {
        verify(&self.connection, &self.anchor(), None).unwrap().faults
    }

    fn execute(&self, sql: &str) {
        self.connection.execute_batch(sql).unwrap();
    }
}

#[test]
fn a_trail_that_was_left_alone_is_good() {
    let mut log = TestLog::new(0);
    assert_eq!(log.faults(), []);
    (1..=5).for_each(|number| log.append(number));
    let report = verify(&log.connection, &log.anchor(), None).unwrap();
    assert_eq!((report.entries, report.good(), report.anchor), (5, true, Some(report.head)));
    assert_eq!(entries(&log.connection, 3, None, 10).unwrap().len(), 2);
    let third = entries(&log.connection, 2, None, 1).unwrap().remove(0);
    let call = third.call_id.as_ref().unwrap().parse().unwrap();
    assert_eq!(entries(&log.connection, 0, Some(call), 10).unwrap(), [third]);
    // A process that died before it could move the anchor has truncated nothing.
    log.append_unanchored(6);
    assert_eq!(log.faults(), []);
}

#[test]
fn each_kind_of_tampering_is_found() {
    for (sql, expected) in [
        ("UPDATE audit_entry SET body = '{\"number\":9}' WHERE seq = 3", vec![LogFault::Changed { seq: 3 }]),
        ("UPDATE audit_entry SET at = at + 1 WHERE seq = 1", vec![LogFault::Changed { seq: 1 }]),
        ("UPDATE audit_entry SET call_id = NULL WHERE seq = 2", vec![LogFault::Changed { seq: 2 }]),
        ("UPDATE audit_entry SET golem_id = 'Ada' WHERE seq = 2", vec![LogFault::Changed { seq: 2 }]),
        ("UPDATE audit_entry SET kind = 'test:other' WHERE seq = 2", vec![LogFault::Changed { seq: 2 }]),
        ("DELETE FROM audit_entry WHERE seq IN (2, 3)", vec![LogFault::Missing { from: 2, to: 3 }]),
        ("DELETE FROM audit_entry WHERE seq = 1", vec![LogFault::Missing { from: 1, to: 1 }]),
        ("DELETE FROM audit_entry WHERE seq > 4", vec![LogFault::Cut { ends: 4, anchored: 6 }]),
        ("DELETE FROM audit_entry", vec![LogFault::Cut { ends: 0, anchored: 6 }]),
    ] {
        let log = TestLog::new(6);
        log.execute(sql);
        assert_eq!(log.faults(), expected, "{sql}");
    }
    // Two entries swapped.
    let log = TestLog::new(6);
    log.execute(
        "UPDATE audit_entry SET seq = 99 WHERE seq = 2; UPDATE audit_entry SET seq = 2 WHERE seq = 3;
         UPDATE audit_entry SET seq = 3 WHERE seq = 99;",
    );
    let faults = log.faults();
    assert!(
        faults.contains(&LogFault::Changed { seq: 2 }) && faults.contains(&LogFault::Unlinked { seq: 2 }),
        "{faults:?}"
    );
    // One entry changed together with its hash: the next one no longer follows it.
    let log = TestLog::new(6);
    let mut third = entries(&log.connection, 2, None, 1).unwrap().remove(0);
    third.body = "{}".to_owned();
    let hash = third.digest();
    log.connection.execute("UPDATE audit_entry SET body = '{}', hash = ?1 WHERE seq = 3", [hash.as_slice()]).unwrap();
    assert_eq!(log.faults(), [LogFault::Unlinked { seq: 4 }]);
}

#[test]
fn a_trail_written_anew_is_found_by_the_anchor_or_by_a_head_kept_elsewhere() {
    let log = TestLog::new(6);
    let kept = head(&log.connection).unwrap().hash;
    // An attacker rewrites everything, including the hashes.
    let mut forged = TestLog::new(0);
    (11..=16).for_each(|number| forged.append(number));
    std::fs::copy(log.anchor().path(), forged.anchor().path()).unwrap();
    assert_eq!(forged.faults(), [LogFault::Rewritten { seq: 6 }]);
    std::fs::remove_file(forged.anchor().path()).unwrap();
    assert_eq!(forged.faults(), [LogFault::NoAnchor]);

    // With a rewritten anchor as well, only a head kept elsewhere detects it.
    let mut forged = TestLog::new(0);
    (11..=16).for_each(|number| forged.append(number));
    let report = verify(&forged.connection, &forged.anchor(), Some(kept)).unwrap();
    assert_eq!(report.faults, [LogFault::UnknownHead { hash: kept }]);
    assert!(verify(&log.connection, &log.anchor(), Some(kept)).unwrap().good());

    // Database and anchor are both set back to an earlier copy.
    let early = TestLog::new(3);
    let report = verify(&early.connection, &early.anchor(), Some(kept)).unwrap();
    assert_eq!(report.faults, [LogFault::UnknownHead { hash: kept }]);
}

#[test]
fn the_anchor_only_goes_forward_and_a_broken_one_stays_for_all_to_see() {
    let log = TestLog::new(4);
    let anchor = log.anchor();
    let end = anchor.read().unwrap();
    anchor.advance(LogHead { seq: 2, hash: B256::repeat_byte(1) }).unwrap();
    assert_eq!(anchor.read().unwrap(), end);
    std::fs::write(anchor.path(), "00000000000000000009 0x12\n").unwrap();
    anchor.advance(LogHead { seq: 5, hash: B256::repeat_byte(1) }).unwrap();
    assert!(matches!(log.faults().as_slice(), [LogFault::BadAnchor { .. }]), "{:?}", log.faults());
    drop(log.folder);
}

#[test]
fn an_entry_is_there_with_its_transaction_or_not_at_all() {
    let mut log = TestLog::new(2);
    let golem = GolemId::operator();
    let entry = LogEntry { kind: AuditKind::BreakerReset, call_id: None, golem_id: &golem, body: &json!(null) };
    let transaction = log.connection.transaction().unwrap();
    append(&transaction, 1, &entry).unwrap();
    drop(transaction);
    assert_eq!(head(&log.connection).unwrap().seq, 2);
    assert_eq!(log.faults(), []);
}

#[test]
fn a_locked_anchor_delays_no_check() {
    let folder = tempfile::tempdir().unwrap();
    let anchor = LogAnchor::beside(&folder.path().join("ledger.db"));
    let head = |seq| LogHead { seq, hash: B256::repeat_byte(1) };
    anchor.advance(head(1)).unwrap();
    let held = std::fs::File::open(anchor.path()).unwrap();
    held.lock().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let moved = anchor.clone();
    std::thread::spawn(move || tell.send(moved.advance(head(2)).is_err()));
    let refused = told.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits for the lock");
    assert!(refused, "moved under somebody else's lock");
    assert_eq!(anchor.read().unwrap(), Some(head(1)));
    drop(held);
    anchor.advance(head(2)).unwrap();
    assert_eq!(anchor.read().unwrap(), Some(head(2)));
}

/// An unreadable stop file has no name: each start sees it again, but it is recorded once.
#[tokio::test]
async fn a_stop_without_a_name_is_recorded_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), &[MIGRATIONS]).unwrap();
    let log = super::AuditLog::new(store.clone(), std::sync::Arc::new(bardo_base::clock::SystemClock));
    let note = |kind: AuditKind, level: Option<&str>, reason: &str, stop: &str| AuditNote {
        kind,
        call_id: None,
        golem_id: GolemId::operator(),
        body: json!({ "level": level, "reason": reason, "by": "somebody", "stop": stop }),
    };
    let (raised, lowered) = (AuditKind::HaltRaised, AuditKind::HaltLowered);
    let unread = || note(raised, Some("halt"), "it is not a valid stop", "");
    for (told, entries) in [
        (unread(), 1),
        (unread(), 1),
        (note(raised, Some("halt"), "it cannot be read", ""), 2),
        (unread(), 3),
        (note(lowered, None, "lowered by hand", ""), 4),
        (note(lowered, None, "lowered by hand", ""), 4),
        (unread(), 5),
        (note(raised, Some("halt"), "it is not a valid stop", "named"), 6),
        (unread(), 7),
        (note(raised, Some("halt"), "it is not a valid stop", "named"), 7),
    ] {
        let what = format!("{told:?}");
        log.record_stop(told).await.unwrap();
        let count = store.read(|connection| -> Result<i64, AuditError> {
            Ok(connection.query_row("SELECT count(*) FROM audit_entry", [], |row| row.get(0))?)
        });
        assert_eq!(count.unwrap(), entries, "{what}");
    }
}

/// A new session has an anchor before the first request, and a removed anchor is detected.
#[tokio::test]
async fn a_first_session_has_its_anchor_before_anything_is_asked() {
    use crate::ledger;
    use crate::operator_policy::OperatorPolicyEngine;
    use crate::policy::{PolicyKeeper, parse};
    use crate::stop::StopFile;

    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("ledger.db");
    let open = || Store::open(StoreConfig::at(&database), &[MIGRATIONS, ledger::MIGRATIONS]).unwrap();
    let rules = |store: &Store| {
        let policy = parse("preset = \"demo\"", std::path::Path::new("policy.toml")).unwrap();
        let stop = StopFile::in_folder(folder.path());
        OperatorPolicyEngine::new(std::sync::Arc::new(PolicyKeeper::fixed(policy)), stop, store.clone(), [])
    };
    let anchor = LogAnchor::beside(&database);
    let verified = |store: &Store| store.read(|connection| verify(connection, &anchor, None)).unwrap();
    let store = open();
    let first = rules(&store);
    let log = super::AuditLog::new(store.clone(), std::sync::Arc::new(bardo_base::clock::SystemClock));
    let body = json!({ "level": "pause", "reason": "x", "by": "somebody", "stop": "1" });
    let note = AuditNote { kind: AuditKind::HaltRaised, call_id: None, golem_id: GolemId::operator(), body };
    log.record(note).await.unwrap();
    let report = verified(&store);
    assert_eq!((report.entries, report.faults), (1, vec![]));
    // A decision of the operator is anchored at once.
    use crate::operator_proof::{Authorisation, OperatorProof, ProofBasis};
    let proof = OperatorProof::issue(Authorisation::ResetBreaker, ProofBasis::NoKeys, std::path::Path::new(""), 1);
    first.reset_breaker("somebody", 1, proof).await.unwrap();
    let report = verified(&store);
    assert_eq!((report.entries, report.anchor), (2, Some(report.head)));
    // A removed anchor is not created again.
    std::fs::remove_file(anchor.path()).unwrap();
    let second = rules(&store);
    assert_eq!(verified(&store).faults, [LogFault::NoAnchor]);
    drop((first, second));
}
