//! Failpoints: places where a test ends the process as a power cut would, around each write, signature and send. Builds
//! without debug assertions contain none.
//!
//! `BARDO_FAILPOINT=NAME` kills the process when it first reaches that place, `NAME:3` the third time. `NAME:1:stop`
//! stops it with SIGSTOP until it is continued. `NAME:1:panic` makes the thread panic there, once.

/// Declares the failpoints with their names, in three groups.
macro_rules! failpoints {
    (
        written { $($(#[$meta:meta])* $point:ident = $name:literal,)+ }
        shown { $($(#[$shown_meta:meta])* $shown:ident = $shown_name:literal,)+ }
        moved { $($(#[$moved_meta:meta])* $moved:ident = $moved_name:literal,)+ }
    ) => {
        /// A place where a test can end the process.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Failpoint {
            $($(#[$meta])* $point,)+
            $($(#[$shown_meta])* $shown,)+
            $($(#[$moved_meta])* $moved,)+
        }

        impl Failpoint {
            /// Failpoints that a write passes, in that order.
            pub const ALL: &'static [Self] = &[$(Self::$point,)+];

            /// Failpoints of the console, at which nothing is written.
            pub const SHOWN: &'static [Self] = &[$(Self::$shown,)+];

            /// Failpoints of migrations, backups and restores.
            pub const MOVED: &'static [Self] = &[$(Self::$moved,)+];

            /// Name of the failpoint in `BARDO_FAILPOINT`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)+
                    $(Self::$shown => $shown_name,)+
                    $(Self::$moved => $moved_name,)+
                }
            }
        }
    };
}

failpoints! {
    written {
        /// An idempotency key is claimed; nothing is previewed.
        KeyClaimed = "key.claimed",
        /// A proposal is prepared; no check has run.
        Framed = "preview.framed",
        /// All checks and the simulation are done; no permit exists.
        Assessed = "preview.assessed",
        /// A permit exists, in memory only.
        Permitted = "preview.permitted",
        /// The idempotency key records that a signature is about to be made.
        Acting = "key.acting",
        /// Rechecked before the commit; nothing is written.
        LookedAgain = "commit.looked-again",
        /// Inside the transaction that consumes the permit, reserves the funds and takes the nonce.
        InsideGate = "commit.inside-gate",
        /// That transaction is on disk.
        Gated = "commit.gated",
        /// Signed, in memory only.
        Signed = "commit.signed",
        /// Inside the transaction that stores the signed bytes.
        InsideStore = "commit.inside-store",
        /// The signed bytes are on disk; nobody else has them.
        Stored = "commit.stored",
        /// About to submit the bytes.
        Sending = "send.sending",
        /// The endpoint has answered; the answer is not stored.
        Answered = "send.answered",
        /// The answer is on disk.
        Sent = "send.sent",
        /// A receipt is read; it is not stored.
        Seen = "settle.seen",
        /// The receipt is on disk; the funds are still reserved.
        Mined = "settle.mined",
        /// Inside the transaction that settles the reservation.
        InsideSettle = "settle.inside",
        /// The reservation is settled on disk; the caller has no answer.
        Settled = "settle.settled",
        /// The answer is stored under its idempotency key but was not returned.
        Kept = "key.kept",
        /// An order is signed, in memory only.
        OrderSigned = "order.signed",
        /// Inside the transaction that stores its signature.
        OrderInsideStore = "order.inside-store",
        /// Its signature is on disk; nobody else has it.
        OrderStored = "order.stored",
        /// The record that the order is about to be submitted is on disk.
        OrderSubmitting = "order.submitting",
        /// The service has answered; the answer is not stored.
        OrderAnswered = "order.answered",
        /// The answer is on disk.
        OrderSubmitted = "order.submitted",
        /// The on-chain state of the order is read; it is not stored.
        OrderPolled = "order.looked",
        /// Inside the transaction that stores the order's end and settles its reservation.
        OrderInsideEnd = "order.inside-end",
        /// The order's end is on disk; nobody was notified.
        OrderEnded = "order.ended",
        /// A replacement of a pending transaction is signed, in memory only.
        OutbidSigned = "outbid.signed",
        /// Inside the transaction that stores the replacement.
        OutbidInsideStore = "outbid.inside-store",
        /// The replacement is on disk; nobody else has it.
        OutbidStored = "outbid.stored",
        /// Recovery has read the open items.
        RecoveryRead = "recovery.read",
        /// Recovery is inside the transaction that frees nonces.
        RecoveryInsideNonces = "recovery.inside-nonces",
        /// Unused nonces are free again.
        RecoveryNonces = "recovery.nonces",
        /// Recovery has determined the outcome of one open item.
        RecoveryFound = "recovery.found",
        /// Recovery is about to resend bytes.
        RecoveryResending = "recovery.resending",
        /// Recovery has resent bytes.
        RecoveryResent = "recovery.resent",
        /// Recovery is inside the transaction that stores an outcome.
        RecoveryInsideEnd = "recovery.inside-end",
        /// An outcome is on disk.
        RecoveryEnded = "recovery.ended",
    }
    shown {
        /// A frame has been written to the terminal.
        Drawn = "console.drawn",
    }
    moved {
        /// A database is copied; its tables are not migrated yet.
        MigrationCopied = "migration.copied",
        /// Inside the transaction that migrates tables.
        MigrationInside = "migration.inside",
        /// The databases are copied; no backup file exists.
        BackupCopied = "backup.copied",
        /// The backup is on disk under another name.
        BackupWritten = "backup.written",
        /// The backup is unpacked and checked in a folder of its own.
        RestoreUnpacked = "restore.unpacked",
        /// The data directory is restored; the files of the configuration are not in place.
        RestoreRenamed = "restore.renamed",
    }
}

/// Does nothing in a build without debug assertions.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn reach(_: Failpoint) {}

/// Ends the process if the environment asks for it at this point.
#[cfg(debug_assertions)]
pub fn reach(point: Failpoint) {
    armed::reach(point);
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::Failpoint;

    /// The armed failpoint and its remaining passes.
    struct ArmedFailpoint {
        name: String,
        passes: AtomicU32,
        then: FailpointAction,
    }

    /// Action at the armed failpoint.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum FailpointAction {
        Kill,
        Stop,
        Panic,
    }

    static ARMED: LazyLock<Option<ArmedFailpoint>> = LazyLock::new(|| {
        let asked = std::env::var("BARDO_FAILPOINT").ok()?;
        let mut parts = asked.split(':');
        let (name, count, then) = (parts.next()?, parts.next().unwrap_or("1"), parts.next());
        let passes = AtomicU32::new(count.parse::<u32>().ok()?.saturating_sub(1));
        let then = match then {
            Some("stop") => FailpointAction::Stop,
            Some("panic") => FailpointAction::Panic,
            _ => FailpointAction::Kill,
        };
        Some(ArmedFailpoint { name: name.to_owned(), passes, then })
    });

    pub(super) fn reach(point: Failpoint) {
        let Some(armed) = ARMED.as_ref().filter(|armed| armed.name == point.name()) else { return };
        let left = armed.passes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_err() {
            match armed.then {
                FailpointAction::Kill => end(),
                FailpointAction::Stop => stop(&armed.passes),
                FailpointAction::Panic => break_down(armed, point),
            }
        }
    }

    #[expect(clippy::panic, reason = "asked for: how a panic is told, and what it leaves behind, is what is tested")]
    fn break_down(armed: &ArmedFailpoint, point: Failpoint) {
        armed.passes.store(u32::MAX, Ordering::SeqCst);
        panic!("a panic was asked for at {}", point.name())
    }

    /// Stops the process once; after it is continued, it does not stop here again.
    fn stop(passes: &AtomicU32) {
        passes.store(u32::MAX, Ordering::SeqCst);
        #[cfg(unix)]
        let _stopped = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
        // Another thread may handle the signal; wait until all threads are stopped.
        std::thread::sleep(std::time::Duration::from_millis(500));
    }

    /// Ends the process as `kill -9` does: nothing is flushed or dropped.
    fn end() -> ! {
        #[cfg(unix)]
        let _killed = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        std::process::abort()
    }
}

#[cfg(test)]
mod tests {
    use super::Failpoint;

    #[test]
    fn names_are_unique() {
        let all: Vec<&Failpoint> = Failpoint::ALL.iter().chain(Failpoint::SHOWN).chain(Failpoint::MOVED).collect();
        for (at, point) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other.name() == point.name()), Some(at), "{point:?}");
        }
    }
}
