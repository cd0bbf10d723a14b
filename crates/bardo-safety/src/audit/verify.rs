//! Verification of the whole audit log.

use alloy::primitives::B256;
use rusqlite::Connection;
use serde::Serialize;

use super::{AuditError, LogAnchor, LogHead, StoredEntry, entries};

/// Number of entries read at a time.
const BATCH: u32 = 1_000;
/// Limit of reported faults; later ones mostly follow from the first.
const MOST_FAULTS: usize = 20;

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerificationReport {
    /// Number of entries read.
    pub entries: u64,
    /// Head of the log. A copy kept elsewhere can later prove that nothing before it was changed, even if both the
    /// database and the anchor were rewritten.
    pub head: LogHead,
    /// Head in the anchor file; `None` if it is missing or unreadable.
    pub anchor: Option<LogHead>,
    /// Faults found; empty for a valid log.
    pub faults: Vec<LogFault>,
}

impl VerificationReport {
    /// Returns true if there are no faults.
    pub fn good(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Difference from the log as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum LogFault {
    /// Numbers are missing in the sequence.
    #[error("entries {from} to {to} are missing")]
    Missing {
        /// First missing number.
        from: u64,
        /// Last missing number.
        to: u64,
    },
    /// The content of an entry does not match its hash.
    #[error("entry {seq} was changed: its content does not match its hash")]
    Changed {
        /// Number of the entry.
        seq: u64,
    },
    /// An entry does not contain the hash of the previous one.
    #[error("entry {seq} does not follow the one before it: one of the two was changed, moved or inserted")]
    Unlinked {
        /// Number of the entry.
        seq: u64,
    },
    /// An entry cannot be read.
    #[error("entry {seq} cannot be read")]
    Unreadable {
        /// Number of the entry, as stored.
        seq: i64,
    },
    /// The log ends before the anchored entry.
    #[error("the log was truncated: it ends at entry {ends}, but entry {anchored} was written")]
    Cut {
        /// Number of the last entry.
        ends: u64,
        /// Number of the anchored entry.
        anchored: u64,
    },
    /// The entry with the anchored number has another hash.
    #[error("entry {seq} is not the anchored one: the log was rewritten up to there or beyond")]
    Rewritten {
        /// Number of the entry.
        seq: u64,
    },
    /// There are entries but no anchor.
    #[error("the anchor is missing: nothing proves that the end of the log is still there")]
    NoAnchor,
    /// The anchor cannot be read or is malformed.
    #[error("the anchor is invalid: {what}")]
    BadAnchor {
        /// Description of the fault.
        what: String,
    },
    /// No entry has the hash of the head that was kept elsewhere.
    #[error("no entry has the hash {hash}: the log was truncated before it or rewritten")]
    UnknownHead {
        /// Hash of that head.
        hash: B256,
    },
}

/// Verifies every entry, its position, and the end of the log against the anchor. If `known` is given, also verifies
/// that an entry has this hash.
///
/// # Errors
/// [`AuditError`] if the database cannot be read.
pub fn verify(
    connection: &Connection,
    anchor: &LogAnchor,
    known: Option<B256>,
) -> Result<VerificationReport, AuditError> {
    // One snapshot, while others may go on writing. Read the anchor first: it may lag behind the log, but must not be
    // ahead of it.
    let anchored = anchor.read();
    let connection = connection.unchecked_transaction()?;
    let mut faults = FaultList::default();
    let mut last = LogHead::EMPTY;
    let mut count = 0;
    let mut at_anchor = None;
    let mut found_known = known.is_none_or(|hash| hash == B256::ZERO);
    let anchor_seq = anchored.as_ref().ok().copied().flatten().map(|head| head.seq);
    loop {
        let batch = match entries(&connection, last.seq, None, BATCH) {
            Ok(batch) => batch,
            Err(AuditError::Damaged(seq)) => {
                faults.add(LogFault::Unreadable { seq });
                break;
            }
            Err(other) => return Err(other),
        };
        if batch.is_empty() {
            break;
        }
        for entry in &batch {
            count += 1;
            faults.of_entry(entry, last);
            found_known |= known == Some(entry.hash);
            last = LogHead { seq: entry.seq, hash: entry.hash };
            if anchor_seq == Some(entry.seq) {
                at_anchor = Some(entry.hash);
            }
        }
    }
    match &anchored {
        Err(error) => faults.add(LogFault::BadAnchor { what: error.what.clone() }),
        Ok(None) if count > 0 => faults.add(LogFault::NoAnchor),
        Ok(None) => {}
        Ok(Some(head)) if head.seq > last.seq => {
            faults.add(LogFault::Cut { ends: last.seq, anchored: head.seq });
        }
        Ok(Some(head)) if head.seq > 0 && at_anchor != Some(head.hash) => {
            faults.add(LogFault::Rewritten { seq: head.seq });
        }
        Ok(Some(_)) => {}
    }
    if let Some(hash) = known.filter(|_| !found_known) {
        faults.add(LogFault::UnknownHead { hash });
    }
    Ok(VerificationReport { entries: count, head: last, anchor: anchored.ok().flatten(), faults: faults.found })
}

#[derive(Default)]
struct FaultList {
    found: Vec<LogFault>,
}

impl FaultList {
    fn add(&mut self, fault: LogFault) {
        if self.found.len() < MOST_FAULTS {
            self.found.push(fault);
        }
    }

    fn of_entry(&mut self, entry: &StoredEntry, before: LogHead) {
        let expected = before.seq.saturating_add(1);
        if entry.seq != expected {
            self.add(LogFault::Missing { from: expected, to: entry.seq.saturating_sub(1) });
        }
        if entry.digest() != entry.hash {
            self.add(LogFault::Changed { seq: entry.seq });
        }
        if entry.seq == expected && entry.previous != before.hash {
            self.add(LogFault::Unlinked { seq: entry.seq });
        }
    }
}
