//! Places where a test ends the program as a power cut would: between a promise and its keeping, before and after
//! each write, each signature, each send. A build without debug assertions has none of it.
//!
//! `BARDO_FAILPOINT=NAME` kills the process the first time it comes to that place, `NAME:3` the third time. With
//! `NAME:1:stop` it is stopped there as by a debugger, until it is told to go on; with `NAME:1:panic` the thread that
//! comes there panics, once.

/// Declares the places, their names and what lies on their two sides.
macro_rules! failpoints {
    (
        written { $($(#[$meta:meta])* $point:ident = $name:literal,)+ }
        shown { $($(#[$shown_meta:meta])* $shown:ident = $shown_name:literal,)+ }
    ) => {
        /// A place where the program can be made to end.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Failpoint {
            $($(#[$meta])* $point,)+
            $($(#[$shown_meta])* $shown,)+
        }

        impl Failpoint {
            /// Every place that a write passes, in that order.
            pub const ALL: &'static [Self] = &[$(Self::$point,)+];

            /// The places of the console, at which nothing is written.
            pub const SHOWN: &'static [Self] = &[$(Self::$shown,)+];

            /// Its name in the environment.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)+
                    $(Self::$shown => $shown_name,)+
                }
            }
        }
    };
}

failpoints! {
    written {
        /// A key is claimed; nothing is previewed.
        KeyClaimed = "key.claimed",
        /// A proposal is framed; nothing is looked at.
        Framed = "preview.framed",
        /// Everything is checked and simulated; there is no permit.
        Assessed = "preview.assessed",
        /// There is a permit, in memory only.
        Permitted = "preview.permitted",
        /// The key says that something is about to be signed.
        Acting = "key.acting",
        /// Looked at once more; nothing is written.
        LookedAgain = "commit.looked-again",
        /// Inside the transaction that uses the permit up, holds the money and takes the nonce.
        InsideGate = "commit.inside-gate",
        /// That transaction is on disk.
        Gated = "commit.gated",
        /// Signed, in memory only.
        Signed = "commit.signed",
        /// Inside the transaction that stores the signed bytes.
        InsideStore = "commit.inside-store",
        /// The bytes are on disk; nobody has them.
        Stored = "commit.stored",
        /// About to hand the bytes over.
        Sending = "send.sending",
        /// The endpoint has answered; the answer is not written down.
        Answered = "send.answered",
        /// The answer is on disk.
        Sent = "send.sent",
        /// A receipt is seen; it is not written down.
        Seen = "settle.seen",
        /// The receipt is on disk; the money is still held.
        Mined = "settle.mined",
        /// Inside the transaction that settles what was held.
        InsideSettle = "settle.inside",
        /// What was held is settled on disk; the caller has no answer.
        Settled = "settle.settled",
        /// The answer is kept under its key and was not given.
        Kept = "key.kept",
        /// An order is signed, in memory only.
        OrderSigned = "order.signed",
        /// Inside the transaction that stores its signature.
        OrderInsideStore = "order.inside-store",
        /// Its signature is on disk; nobody has it.
        OrderStored = "order.stored",
        /// It is written down that it is about to be handed in.
        OrderSubmitting = "order.submitting",
        /// The service has answered; the answer is not written down.
        OrderAnswered = "order.answered",
        /// The answer is on disk.
        OrderSubmitted = "order.submitted",
        /// What the chain says of it is known; it is not written down.
        OrderLooked = "order.looked",
        /// Inside the transaction that writes its end down and settles what was held for it.
        OrderInsideEnd = "order.inside-end",
        /// Its end is on disk; nobody was told.
        OrderEnded = "order.ended",
        /// What is to outbid a transaction that waits is signed, in memory only.
        OutbidSigned = "outbid.signed",
        /// Inside the transaction that stores it in the place of the other.
        OutbidInsideStore = "outbid.inside-store",
        /// It is on disk; nobody has it.
        OutbidStored = "outbid.stored",
        /// Recovery knows what was left open.
        RecoveryRead = "recovery.read",
        /// Recovery is inside the transaction that gives nonces back.
        RecoveryInsideNonces = "recovery.inside-nonces",
        /// Nonces that nobody will sign with are free again.
        RecoveryNonces = "recovery.nonces",
        /// Recovery knows what became of one thing left open.
        RecoveryFound = "recovery.found",
        /// Recovery is about to send bytes again.
        RecoveryResending = "recovery.resending",
        /// Recovery has sent bytes again.
        RecoveryResent = "recovery.resent",
        /// Recovery is inside the transaction that writes an end down.
        RecoveryInsideEnd = "recovery.inside-end",
        /// An end is on disk.
        RecoveryEnded = "recovery.ended",
    }
    shown {
        /// A picture has been written to the terminal.
        Drawn = "console.drawn",
    }
}

/// Ends the process if the environment asks for it here. In a build without debug assertions this is nothing.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn reach(_: Failpoint) {}

/// Ends the process if the environment asks for it here. In a build without debug assertions this is nothing.
#[cfg(debug_assertions)]
pub fn reach(point: Failpoint) {
    armed::reach(point);
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::Failpoint;

    /// Where to end, and how often that place is passed before.
    struct Armed {
        name: String,
        passes: AtomicU32,
        then: Then,
    }

    /// What happens there.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Then {
        Kill,
        Stop,
        Panic,
    }

    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        let asked = std::env::var("BARDO_FAILPOINT").ok()?;
        let mut parts = asked.split(':');
        let (name, count, then) = (parts.next()?, parts.next().unwrap_or("1"), parts.next());
        let passes = AtomicU32::new(count.parse::<u32>().ok()?.saturating_sub(1));
        let then = match then {
            Some("stop") => Then::Stop,
            Some("panic") => Then::Panic,
            _ => Then::Kill,
        };
        Some(Armed { name: name.to_owned(), passes, then })
    });

    pub(super) fn reach(point: Failpoint) {
        let Some(armed) = ARMED.as_ref().filter(|armed| armed.name == point.name()) else { return };
        let left = armed.passes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_err() {
            match armed.then {
                Then::Kill => end(),
                Then::Stop => stop(&armed.passes),
                Then::Panic => break_down(armed, point),
            }
        }
    }

    #[expect(clippy::panic, reason = "asked for: how a panic is told, and what it leaves behind, is what is tested")]
    fn break_down(armed: &Armed, point: Failpoint) {
        armed.passes.store(u32::MAX, Ordering::SeqCst);
        panic!("a panic was asked for at {}", point.name())
    }

    /// Once: whoever lets it go on does not stop it again.
    fn stop(passes: &AtomicU32) {
        passes.store(u32::MAX, Ordering::SeqCst);
        #[cfg(unix)]
        let _stopped = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
        // Another thread may be the one that hears it: this one goes no further before all have stopped.
        std::thread::sleep(std::time::Duration::from_millis(500));
    }

    /// As `kill -9` does: nothing is flushed, nothing is dropped.
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
        let all: Vec<&Failpoint> = Failpoint::ALL.iter().chain(Failpoint::SHOWN).collect();
        for (at, point) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other.name() == point.name()), Some(at), "{point:?}");
        }
    }
}
