//! Goes through the whole trail and names everything that is not as it was written.

use alloy::primitives::B256;
use rusqlite::Connection;
use serde::Serialize;

use super::{Anchor, AuditError, Head, Recorded, entries};

/// Entries looked at in one go.
const BATCH: u32 = 1_000;
/// Faults told at most: after the first ones, the rest follow from them.
const MOST_FAULTS: usize = 20;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Entries read.
    pub entries: u64,
    /// Where the trail ends. Worth keeping elsewhere: given back later, it proves that nothing before
    /// it was changed, even by someone who rewrote both the database and the anchor.
    pub head: Head,
    /// What the anchor says.
    pub anchor: Option<Head>,
    /// Everything that is wrong; empty for a good trail.
    pub faults: Vec<Fault>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn good(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// Numbers are missing.
    #[error("entries {from} to {to} are missing")]
    Missing {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// An entry is not the one that was hashed.
    #[error("entry {seq} was changed: its content does not give its hash")]
    Changed {
        /// Which.
        seq: u64,
    },
    /// An entry does not follow the one before it.
    #[error("entry {seq} does not follow the one before it: one of the two was changed, moved or put in")]
    Unlinked {
        /// Which.
        seq: u64,
    },
    /// An entry cannot be read at all.
    #[error("entry {seq} cannot be read")]
    Unreadable {
        /// Which.
        seq: i64,
    },
    /// The trail ends before the anchor.
    #[error("the trail was cut: it ends at entry {ends}, but entry {anchored} was written")]
    Cut {
        /// Its last entry.
        ends: u64,
        /// The last entry the anchor knows of.
        anchored: u64,
    },
    /// The anchored entry is another one now.
    #[error("entry {seq} is not the one the anchor was set at: the trail was written anew up to there or beyond")]
    Rewritten {
        /// Which.
        seq: u64,
    },
    /// There are entries, and no anchor.
    #[error("the anchor is gone: nothing proves that the end of the trail is still there")]
    NoAnchor,
    /// The anchor cannot be read.
    #[error("the anchor cannot be relied on: {what}")]
    BadAnchor {
        /// Why.
        what: String,
    },
    /// The head that was kept elsewhere is nowhere in the trail.
    #[error("no entry has the hash {hash}: the trail was cut before it or written anew")]
    UnknownHead {
        /// The hash that was given.
        hash: B256,
    },
}

/// Checks every entry, its place, and the end of the trail against the anchor; where a head kept
/// elsewhere is given, that it is still in the trail.
///
/// # Errors
/// [`AuditError::Store`] where the database itself cannot be read.
pub fn verify(connection: &Connection, anchor: &Anchor, known: Option<B256>) -> Result<Report, AuditError> {
    // One reading of one moment, though others go on writing. The anchor is read first: it may lag
    // the trail, and must not lead it.
    let anchored = anchor.read();
    let connection = connection.unchecked_transaction()?;
    let mut faults = Faults::default();
    let mut last = Head::EMPTY;
    let mut count = 0;
    let mut at_anchor = None;
    let mut found_known = known.is_none_or(|hash| hash == B256::ZERO);
    let anchor_seq = anchored.as_ref().ok().copied().flatten().map(|head| head.seq);
    loop {
        let batch = match entries(&connection, last.seq, None, BATCH) {
            Ok(batch) => batch,
            Err(AuditError::Damaged(seq)) => {
                faults.add(Fault::Unreadable { seq });
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
            last = Head { seq: entry.seq, hash: entry.hash };
            if anchor_seq == Some(entry.seq) {
                at_anchor = Some(entry.hash);
            }
        }
    }
    match &anchored {
        Err(error) => faults.add(Fault::BadAnchor { what: error.what.clone() }),
        Ok(None) if count > 0 => faults.add(Fault::NoAnchor),
        Ok(None) => {}
        Ok(Some(head)) if head.seq > last.seq => {
            faults.add(Fault::Cut { ends: last.seq, anchored: head.seq });
        }
        Ok(Some(head)) if head.seq > 0 && at_anchor != Some(head.hash) => {
            faults.add(Fault::Rewritten { seq: head.seq });
        }
        Ok(Some(_)) => {}
    }
    if let Some(hash) = known.filter(|_| !found_known) {
        faults.add(Fault::UnknownHead { hash });
    }
    Ok(Report { entries: count, head: last, anchor: anchored.ok().flatten(), faults: faults.found })
}

#[derive(Default)]
struct Faults {
    found: Vec<Fault>,
}

impl Faults {
    fn add(&mut self, fault: Fault) {
        if self.found.len() < MOST_FAULTS {
            self.found.push(fault);
        }
    }

    fn of_entry(&mut self, entry: &Recorded, before: Head) {
        let expected = before.seq.saturating_add(1);
        if entry.seq != expected {
            self.add(Fault::Missing { from: expected, to: entry.seq.saturating_sub(1) });
        }
        if entry.digest() != entry.hash {
            self.add(Fault::Changed { seq: entry.seq });
        }
        if entry.seq == expected && entry.previous != before.hash {
            self.add(Fault::Unlinked { seq: entry.seq });
        }
    }
}
