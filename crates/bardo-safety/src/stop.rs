//! Stop file: a file in the data folder that any process or person can set. It is read again before every signature. A
//! file that cannot be read or parsed counts as a halt.
//!
//! Every writer takes a lock, reads the file, and renames a prepared file into its place. A writer that raises the stop
//! waits for the lock only briefly. After that, it puts the stop into a file of its own in a folder beside the stop
//! file. No earlier reader can overwrite it there, and the highest of all stops is in force. A writer that lowers the
//! stop does nothing without the lock.
//!
//! The lock file stores the id of the last stop, and the level in force since Bardo's last change. If the stop file
//! then shows a lower level, because somebody removed or replaced it by other means, it counts as a halt until `bardo
//! resume`.
//!
//! Confirmations (in the command line and the console), and revoking or selling under a stop, are elsewhere.

mod ladder;
mod restored;

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::operator_proof::{Authorisation, OperatorProof, ProofError};
use bardo_base::model::StopLevel;
use bardo_base::private;
use bardo_base::regular_file;
use bardo_base::text::SafeText;

pub use ladder::{StopCategory, lets_through, meaning, passage};
pub use restored::{OTHER_COPY_STOPPED, RestoredCopy};

/// File name in the data folder.
pub const FILE: &str = "STOP";
/// Lock timeout for raising the stop. After it, the stop goes into a file of its own: a stuck process must not delay a
/// stop.
const URGENT: Duration = Duration::from_millis(50);
/// Lock timeout for lowering the stop. After it, nothing is changed.
const PATIENT: Duration = Duration::from_millis(500);
/// Maximum number of retries after another stop was set first. After them, the stop goes into a file of its own.
const TRIES: u32 = 4;
/// Maximum file size that is read, in bytes.
const MOST_BYTES: u64 = 64 << 10;
/// Maximum length of a reason, in characters.
const MOST_REASON: usize = 400;
/// Maximum length of a name, in characters.
pub const MOST_NAME: usize = 80;

/// Stop as stored in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Level of the stop.
    pub level: StopLevel,
    /// Reason given with the stop.
    pub reason: SafeText,
    /// Origin of the stop: `operator`, or the name of the component or Golem that set it.
    pub by: SafeText,
    /// Time of the stop, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Random id, so that a hold's owner can release exactly this stop.
    pub id: SafeText,
    /// True for a temporary hold until the operator chooses. Its owner may release it without a decision, unless a
    /// permanent stop was set meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
    /// Stop that was in force below this one; releasing a hold restores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Box<Stop>>,
}

/// Stop in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActiveStop {
    /// No stop is set.
    None,
    /// This stop is in force.
    Stop(Stop),
    /// The file exists and cannot be relied on; this counts as a halt.
    Garbled {
        /// Description of the problem.
        why: String,
    },
}

impl ActiveStop {
    /// Returns the level; a halt if the file cannot be relied on.
    pub fn level(&self) -> Option<StopLevel> {
        match self {
            Self::None => None,
            Self::Stop(stop) => Some(stop.level),
            Self::Garbled { .. } => Some(StopLevel::Halt),
        }
    }

    /// Returns true for a temporary hold.
    pub fn is_hold(&self) -> bool {
        matches!(self, Self::Stop(stop) if stop.hold)
    }

    /// Iterates over the stops below this one, from the top.
    fn beneath(&self) -> impl Iterator<Item = &Stop> {
        let over = match self {
            Self::Stop(stop) => stop.over.as_deref(),
            Self::None | Self::Garbled { .. } => None,
        };
        std::iter::successors(over, |stop| stop.over.as_deref())
    }
}

/// All stops on disk: the stop file, and the stops beside it in files of their own.
struct StopsOnDisk {
    file: ActiveStop,
    beside: Vec<(PathBuf, ActiveStop)>,
}

impl StopsOnDisk {
    /// Returns the highest stop. Of equal levels, a permanent stop wins, then the one above more stops, then the stop
    /// file's.
    fn in_force(&self) -> &ActiveStop {
        let beside = self.beside.iter().map(|(_, found)| found);
        let rank = |found: &&ActiveStop| (found.level(), !found.is_hold(), found.beneath().count());
        beside.chain([&self.file]).max_by_key(rank).unwrap_or(&self.file)
    }

    /// Returns the level that remains once every hold is released. A hold beside the file leaves nothing.
    fn lasts(&self) -> Option<StopLevel> {
        let beside = self.beside.iter().filter(|(_, found)| !found.is_hold()).filter_map(|(_, found)| found.level());
        let file = match &self.file {
            ActiveStop::Stop(stop) if stop.hold => {
                self.file.beneath().find(|stop| !stop.hold).map(|earnest| earnest.level)
            }
            found => found.level(),
        };
        beside.chain(file).max()
    }

    /// Returns the stop that remains once every hold is released, if it has this level.
    fn lasting(&self, level: StopLevel) -> Option<&Stop> {
        let beside = self.beside.iter().map(|(_, found)| found);
        let mut all = beside.chain([&self.file]).filter_map(|found| match found {
            ActiveStop::Stop(stop) if !stop.hold => Some(stop),
            ActiveStop::Stop(_) => found.beneath().find(|stop| !stop.hold),
            ActiveStop::None | ActiveStop::Garbled { .. } => None,
        });
        all.find(|stop| stop.level == level).filter(|_| self.lasts() == Some(level))
    }

    /// True if a hold above `stop` would hide it, and releasing that hold would remove it.
    fn would_hide(&self, stop: &Stop) -> bool {
        let in_force = self.in_force();
        !stop.hold && in_force.is_hold() && in_force.level() > Some(stop.level) && self.lasts() < Some(stop.level)
    }

    /// True if the file may be overwritten by a stop that includes the one in force.
    fn may_be_written_over(&self) -> bool {
        self.file == ActiveStop::None || self.file == *self.in_force()
    }
}

/// Outcome of a Golem's emergency halt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmergencyOutcome {
    /// All signing is stopped; this stop is in force.
    Raised(ActiveStop),
    /// The operator's flatten stays in force: a halt above it would end the operator's liquidation.
    Spared(Stop),
}

/// Prepared stop file that is not in force yet. Removed on drop unless it was renamed into place.
struct PreparedStop(PathBuf);

impl Drop for PreparedStop {
    fn drop(&mut self) {
        let _moved_already = fs::remove_file(&self.0);
    }
}

/// Reason why the stop file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The file or its folder cannot be written.
    #[error("cannot write {path}: {reason}; to stop all signing, create any file with that name")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// Lowering the stop needs the operator's decision.
    #[error(
        "{level} is in force{}: only the operator can lower it; a hold can be released by its owner, unless it was \
         raised since",
        by.as_ref().map(|by| format!(", set by {by}")).unwrap_or_default()
    )]
    NotYours {
        /// Level in force.
        level: StopLevel,
        /// Origin of that stop, if known.
        by: Option<SafeText>,
    },
    /// The proof of the operator's decision does not cover the change.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The decision was made about another stop.
    #[error("another stop was set in the meantime: review it and decide again")]
    Changed,
    /// The stop is in force for the whole data folder, above the one to be changed.
    #[error("{level} is in force for the whole data folder, not only for this scenario: `bardo resume` lifts it")]
    Above {
        /// Level in force there.
        level: StopLevel,
    },
    /// The lock file cannot be used, so concurrent changes cannot be excluded.
    #[error("cannot lock {path}: {reason}; the stop was not lowered: make the file writable")]
    Lock {
        /// Path of the lock file.
        path: PathBuf,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// The data folder was restored, and nobody has confirmed that the other copy is stopped.
    #[error(
        "this data folder was restored from a backup, and the copy that it was made from may still sign: confirm that \
         the other copy is stopped, in `bardo resume` or by `:resume` in the console"
    )]
    Restored,
    /// The typed text does not confirm that the other copy is stopped.
    #[error("not confirmed: type exactly \"{OTHER_COPY_STOPPED}\"")]
    NotConfirmed,
    /// Another process holds the lock, and may be about to raise the stop.
    #[error("another process is changing the stop: it was not lowered, try again")]
    Busy,
}

/// Stop file of one data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopFile {
    path: PathBuf,
    /// Stop file of an outer folder, which also counts. It is only read.
    outer: Option<PathBuf>,
    /// True if the operator has confirmed that the copy a restored folder was made from is stopped.
    other_copy_stopped: bool,
}

impl StopFile {
    /// Returns the stop file of this data folder.
    pub fn in_folder(data: &Path) -> Self {
        Self { path: data.join(FILE), outer: None, other_copy_stopped: false }
    }

    /// Adds the stop file of an outer folder: the higher of both stops is in force. The outer file is read only.
    #[must_use]
    pub fn beneath(self, outer: &Path) -> Self {
        Self { outer: Some(outer.join(FILE)), ..self }
    }

    /// Returns the path of the stop file, which may not exist.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the stop in force from disk. Nothing is cached between two reads.
    pub fn read(&self) -> ActiveStop {
        let own = self.stops_on_disk().in_force().clone();
        match self.read_outer() {
            Some(outer) if outer.level() > own.level() => outer,
            Some(_) | None => own,
        }
    }

    /// Level that stays in force once this file's own stop is lifted: that of the outer folder's stop.
    pub fn outer_level(&self) -> Option<StopLevel> {
        self.read_outer()?.level()
    }

    /// Reads the outer folder's stop; `None` without an outer folder.
    fn read_outer(&self) -> Option<ActiveStop> {
        let path = self.outer.clone()?;
        Some(Self { path, outer: None, other_copy_stopped: false }.read())
    }

    fn stops_on_disk(&self) -> StopsOnDisk {
        // The folder is read first: a writer updates the stop file before it removes anything from the folder.
        let beside = match fs::read_dir(self.beside()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => vec![(
                self.beside(),
                ActiveStop::Garbled { why: format!("{} cannot be read: {error}", self.beside().display()) },
            )],
            Ok(entries) => {
                let mut found: Vec<_> = entries
                    .map(|entry| match entry.map(|entry| entry.path()) {
                        Ok(path) => {
                            let found = read_file(&path);
                            (path, found)
                        }
                        Err(error) => {
                            (self.beside(), ActiveStop::Garbled { why: format!("it cannot be listed: {error}") })
                        }
                    })
                    .collect();
                found.sort_by(|(one, _), (other, _)| one.cmp(other));
                found
            }
        };
        let mut standing = StopsOnDisk { file: read_file(&self.path), beside };
        if let Some(marked) = self.marked()
            && standing.in_force().level() < Some(marked)
        {
            // The stop and the marked level may have been lowered between the two reads.
            standing.file = read_file(&self.path);
            if self.marked().is_some_and(|marked| standing.in_force().level() < Some(marked)) {
                let why = format!("{marked} was in force, but its file was removed or replaced without `bardo resume`");
                standing.file = ActiveStop::Garbled { why };
            }
        }
        if standing.in_force().level() < Some(StopLevel::Halt) && self.is_restored() {
            standing.file = ActiveStop::Garbled { why: restored::REASON.to_owned() };
        }
        standing
    }

    /// Returns the marked level of the last change; `None` if no stop was ever changed, or if it was set by hand.
    fn marked(&self) -> Option<StopLevel> {
        self.noted().split_whitespace().nth(1).and_then(|level| level.parse().ok())
    }

    /// Returns the content of the lock file: the id of the last stop, and the level in force since.
    fn noted(&self) -> String {
        let mut text = String::new();
        if let Ok(file) = regular_file::open(&self.lock()) {
            // An unreadable file counts as empty.
            let _read = file.take(MOST_NAME as u64).read_to_string(&mut text);
        }
        text
    }

    /// Marks that at most `level` is in force from now on. The caller holds the lock, and calls this before it lowers
    /// the file, so that no reader finds less in force than is marked.
    fn mark_lower(&self, level: Option<StopLevel>) -> std::io::Result<()> {
        let noted = self.noted();
        let Some(id) = noted.split_whitespace().next() else { return Ok(()) };
        self.write_note(id, level)
    }

    fn write_note(&self, id: &str, level: Option<StopLevel>) -> std::io::Result<()> {
        let text = level.map_or_else(|| id.to_owned(), |level| format!("{id} {level}"));
        let mut file = regular_file::open_with(&mut private(), &self.lock())?;
        // Never empty in between: a reader would take that for a folder without any stop so far.
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        file.sync_all()
    }

    /// Raises the stop to `level`, and returns what is in force afterwards. An equal or higher stop stays. A permanent
    /// stop replaces a hold of the same level, and is kept below a higher hold. An unreadable file stays unless `level`
    /// is above the halt it counts as. If the stop cannot be written, as on a full disk, an empty file is created,
    /// which is a halt.
    ///
    /// # Errors
    /// [`StopError::File`] if the stop could not be written: nothing changed, or only a halt below the requested level
    /// could be set.
    pub fn raise(&self, level: StopLevel, reason: &str, by: &str, now: u64) -> Result<ActiveStop, StopError> {
        self.raise_own(level, reason, by, now).map(|(in_force, _)| in_force)
    }

    /// Like [`Self::raise`], and also returns the stop if one was set. A hold above it may be in force instead.
    ///
    /// # Errors
    /// As for [`StopFile::raise`].
    pub fn raise_own(
        &self,
        level: StopLevel,
        reason: &str,
        by: &str,
        now: u64,
    ) -> Result<(ActiveStop, Option<Stop>), StopError> {
        self.set(Stop::new(level, reason, by, now))
    }

    /// Raises the stop to a halt on a Golem's own decision, except over the operator's permanent flatten. The operator
    /// is leaving every position then, and no agent may end that.
    ///
    /// # Errors
    /// As for [`StopFile::raise`].
    pub fn raise_emergency(
        &self,
        reason: &str,
        by: &str,
        now: u64,
        is_the_operators: impl Fn(&Stop) -> bool,
    ) -> Result<EmergencyOutcome, StopError> {
        if let Some(flatten) = self.lasting_flatten().filter(|flatten| is_the_operators(flatten)) {
            return Ok(EmergencyOutcome::Spared(flatten));
        }
        let (in_force, own) = self.raise_own(StopLevel::Halt, reason, by, now)?;
        // A flatten may have been set between the two reads; if this halt cannot be released, it stays.
        let over = own.as_ref().map(|own| std::iter::successors(own.over.as_deref(), |stop| stop.over.as_deref()));
        let flatten = over.and_then(|mut over| over.find(|stop| !stop.hold));
        let flatten = flatten.filter(|flatten| flatten.level == StopLevel::Flatten && is_the_operators(flatten));
        match (&own, flatten) {
            (Some(own), Some(flatten)) if self.release(own).is_ok() => Ok(EmergencyOutcome::Spared(flatten.clone())),
            _ => Ok(EmergencyOutcome::Raised(in_force)),
        }
    }

    /// Returns the flatten that remains once every hold is released; `None` if another level or none remains.
    fn lasting_flatten(&self) -> Option<Stop> {
        let own = self.stops_on_disk();
        let outer =
            self.outer.clone().map(|path| Self { path, outer: None, other_copy_stopped: false }.stops_on_disk());
        let highest = own.lasts().max(outer.as_ref().and_then(StopsOnDisk::lasts));
        let mut both = [Some(&own), outer.as_ref()].into_iter().flatten();
        let flatten = both.find_map(|standing| standing.lasting(StopLevel::Flatten)).cloned();
        flatten.filter(|_| highest == Some(StopLevel::Flatten))
    }

    /// Raises the stop to a temporary halt until the operator chooses. Returns the hold, which its owner must release.
    /// `None` if an equal or higher stop is in force. That includes the halt by an empty file that is made if the hold
    /// cannot be written: nobody owns it, and only `bardo resume` lifts it.
    ///
    /// # Errors
    /// [`StopError::File`] if neither the hold nor that file could be written; then nothing was stopped.
    pub fn hold(&self, reason: &str, by: &str, now: u64) -> Result<Option<Stop>, StopError> {
        self.set(Stop { hold: true, ..Stop::new(StopLevel::Halt, reason, by, now) }).map(|(_, own)| own)
    }

    /// Sets a stop. Returns what is in force afterwards, and the stop if it was set.
    fn set(&self, stop: Stop) -> Result<(ActiveStop, Option<Stop>), StopError> {
        let mut tries = TRIES;
        loop {
            let standing = self.stops_on_disk();
            let before = standing.in_force();
            let beneath = standing.would_hide(&stop);
            let over = match stop_below(before, &stop) {
                Some(over) => over,
                None if beneath => None,
                None => return Ok((before.clone(), None)),
            };
            let stop = Stop { over: over.map(Box::new), ..stop.clone() };
            let placed = self.aside(&stop).and_then(|aside| {
                // Releasing the hold leaves other files beside the stop file alone, even newer ones.
                if beneath {
                    return self.put_beside(&aside, &stop).map(|()| true);
                }
                // The stop is already on disk, so nothing under the lock takes long. A lock that cannot be opened, such
                // as a pipe in its place, must not delay a stop either.
                let alone = self.alone(URGENT).ok().flatten();
                let now = self.stops_on_disk();
                match alone {
                    Some(_alone) if now.in_force() == before && now.may_be_written_over() => {
                        fs::rename(&aside.0, &self.path).map(|()| true)
                    }
                    Some(_alone) if now.in_force() != before && tries > 0 => Ok(false),
                    // No writer with an older read can overwrite it there.
                    Some(_) | None => self.put_beside(&aside, &stop).map(|()| true),
                }
            });
            match placed.and_then(|placed| if placed { self.note(&stop).map(|()| true) } else { Ok(false) }) {
                Ok(true) => return Ok((self.read(), Some(stop))),
                Ok(false) => tries = tries.saturating_sub(1),
                // The hold would hide that this stop does not remain after it.
                Err(error) if beneath => return Err(self.failed(error)),
                Err(error) => return self.make_do(stop.level, error).map(|in_force| (in_force, None)),
            }
        }
    }

    /// Creates an empty file if a stop cannot be written. It needs no disk space, and counts as a halt.
    fn make_do(&self, level: StopLevel, why: std::io::Error) -> Result<ActiveStop, StopError> {
        if self.read().level() < Some(level.min(StopLevel::Halt)) {
            let made = regular_file::open_with(private().truncate(true), &self.path);
            let _synced = made.and_then(|file| file.sync_all());
        }
        let now = self.read();
        if now.level() >= Some(level) { Ok(now) } else { Err(self.failed(why)) }
    }

    /// Lowers the stop from `shown` to `level`, or lifts it. The operator approved lowering the shown stop only, not
    /// any later one; `proof` shows that the approval is the operator's.
    ///
    /// # Errors
    /// - [`StopError::Proof`] if the proof does not cover this change.
    /// - [`StopError::Changed`] if another stop is in force by now.
    /// - [`StopError::Above`] if the shown stop belongs to the outer folder.
    /// - [`StopError::Busy`] or [`StopError::Lock`] if the lock cannot be acquired.
    /// - [`StopError::File`] if the change cannot be written.
    pub fn lower(
        &self,
        shown: &ActiveStop,
        level: Option<StopLevel>,
        reason: &str,
        by: &str,
        now: u64,
        proof: OperatorProof,
    ) -> Result<ActiveStop, StopError> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let _basis = proof.redeem_in(folder, &Authorisation::lower_stop(shown, level), now)?;
        // A shown hold hides the stop below it: if that one is higher than `level`, it stays.
        let above = shown.is_hold().then(|| shown.beneath().find(|stop| !stop.hold)).flatten();
        let kept = above.filter(|above| level.is_none_or(|level| above.level > level)).cloned();
        let stop = kept.or_else(|| level.map(|level| Stop::new(level, reason, by, now)));
        let lower = stop.as_ref().map(|stop| self.aside(stop)).transpose().map_err(|error| self.failed(error))?;
        let alone = self.lock_to_lower()?;
        let begins = level < Some(StopLevel::Halt) && self.is_restored();
        if begins && !self.other_copy_stopped {
            return Err(StopError::Restored);
        }
        let standing = self.stops_on_disk();
        let before = standing.in_force();
        if before != shown {
            let above = self.read_outer().filter(|outer| outer == shown).and_then(|outer| outer.level());
            return Err(above.map_or(StopError::Changed, |level| StopError::Above { level }));
        }
        if level.is_some_and(|level| before.level().is_none_or(|before| before <= level)) {
            return Ok(before.clone());
        }
        // The remaining stops are read again below. The marked level can only be lower than before.
        let kept_beneath = standing.lasts().filter(|_| before.is_hold());
        let stays = stop.as_ref().map(|stop| stop.level).max(kept_beneath);
        self.mark_lower(stays).map_err(|error| self.failed(error))?;
        // A shown hold hides permanent stops below it, so they are kept.
        let unseen = |found: &ActiveStop| before.is_hold() && matches!(found, ActiveStop::Stop(stop) if !stop.hold);
        let placed = match (&stop, &lower) {
            (Some(stop), Some(aside)) if unseen(&standing.file) => self.put_beside(aside, stop),
            _ if unseen(&standing.file) => Ok(()),
            (_, lower) => self.put(lower.as_ref()),
        };
        // Only stops from the read above are removed: the operator did not decide about later ones.
        let mut seen = standing.beside.iter().filter(|(_, found)| !unseen(found));
        let loosened = placed.and_then(|()| seen.try_for_each(|(path, _)| remove_if_present(path)));
        // The mark of a restored copy goes last: until then it keeps the halt, whatever happens to this process.
        let loosened = loosened.and_then(|()| if begins { self.remove_mark() } else { Ok(()) });
        drop(alone);
        loosened.and_then(|()| self.on_disk()).map_err(|error| self.failed(error))?;
        Ok(self.read())
    }

    /// [`Self::lower`] with a proof for tests.
    #[cfg(test)]
    pub(crate) fn lower_in_tests(
        &self,
        shown: &ActiveStop,
        level: Option<StopLevel>,
        reason: &str,
        by: &str,
        now: u64,
    ) -> Result<ActiveStop, StopError> {
        use crate::operator_proof::ProofBasis;
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let proof = OperatorProof::issue(Authorisation::lower_stop(shown, level), ProofBasis::NoKeys, folder, now);
        self.lower(shown, level, reason, by, now, proof)
    }

    /// Releases the caller's own hold: the stop before it is in force again, or a permanent stop that was set below it.
    /// It needs no decision, because it allows nothing that was not allowed before the hold.
    ///
    /// # Errors
    /// - [`StopError::NotYours`] if another stop is in force.
    /// - [`StopError::Busy`] or [`StopError::Lock`] if the lock cannot be acquired.
    /// - [`StopError::File`] if the change cannot be written.
    pub fn release(&self, own: &Stop) -> Result<ActiveStop, StopError> {
        let over = own.over.as_deref().map(|over| self.aside(over)).transpose();
        let over = over.map_err(|error| self.failed(error))?;
        let alone = self.lock_to_lower()?;
        let standing = self.stops_on_disk();
        match standing.in_force() {
            ActiveStop::None => return Ok(ActiveStop::None),
            ActiveStop::Stop(found) if found == own => {}
            ActiveStop::Stop(other) => {
                return Err(StopError::NotYours { level: other.level, by: Some(other.by.clone()) });
            }
            ActiveStop::Garbled { .. } => return Err(StopError::NotYours { level: StopLevel::Halt, by: None }),
        }
        let is_own = |found: &ActiveStop| matches!(found, ActiveStop::Stop(stop) if stop == own);
        let others = standing.beside.iter().map(|(_, found)| found).chain([&standing.file]);
        let others = others.filter(|found| !is_own(found)).filter_map(ActiveStop::level).max();
        let stays = own.over.as_deref().map(|over| over.level).max(others);
        self.mark_lower(stays).map_err(|error| self.failed(error))?;
        let mut released = if is_own(&standing.file) { self.put(over.as_ref()) } else { Ok(()) };
        for (path, _) in standing.beside.iter().filter(|(_, found)| is_own(found)) {
            released = released.and_then(|()| remove_if_present(path));
        }
        drop(alone);
        released.and_then(|()| self.on_disk()).map_err(|error| self.failed(error))?;
        Ok(self.read())
    }

    /// Returns the id of the last stop that was set, even if it has been lifted. `None` if there never was one, or if
    /// it was created by hand. Approvals from before a stop end with it, however short it was.
    pub fn last(&self) -> Option<SafeText> {
        fs::metadata(self.lock()).ok()?;
        Some(SafeText::clean(self.noted().split_whitespace().next().unwrap_or_default(), MOST_NAME))
    }

    /// Acquires the lock; `None` on timeout. A writer that raises the stop proceeds without it, beside the file.
    fn alone(&self, waits: Duration) -> std::io::Result<Option<fs::File>> {
        let file = regular_file::open_with(&mut private(), &self.lock())?;
        let until = Instant::now() + waits;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Acquires the lock for lowering the stop, which must not happen without it.
    fn lock_to_lower(&self) -> Result<fs::File, StopError> {
        let alone = self.alone(PATIENT).map_err(|reason| StopError::Lock { path: self.lock(), reason })?;
        alone.ok_or(StopError::Busy)
    }

    /// Path of the lock file, which remains after the stop is lifted.
    fn lock(&self) -> PathBuf {
        self.path.with_extension("lock")
    }

    /// Path of the folder for stops that were set without the lock.
    fn beside(&self) -> PathBuf {
        self.path.with_extension("d")
    }

    /// Writes a complete stop to disk. Renaming it into place is then quick, and no reader sees half of it.
    fn aside(&self, stop: &Stop) -> std::io::Result<PreparedStop> {
        if let Some(folder) = self.path.parent() {
            private::make(folder)?;
        }
        let path = self.path.with_extension(format!("{:016x}.new", rand::random::<u64>()));
        let mut file = private().create_new(true).open(&path)?;
        let aside = PreparedStop(path);
        serde_json::to_writer_pretty(&mut file, stop)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        Ok(aside)
    }

    /// Moves a prepared stop into the folder beside the file, under its own id.
    fn put_beside(&self, aside: &PreparedStop, stop: &Stop) -> std::io::Result<()> {
        let folder = self.beside();
        private::make(&folder)?;
        fs::rename(&aside.0, folder.join(stop.id.as_str()))?;
        fs::File::open(&folder)?.sync_all()
    }

    /// Renames a prepared stop to the stop file's path, or removes the stop file.
    fn put(&self, stop: Option<&PreparedStop>) -> std::io::Result<()> {
        match stop {
            Some(aside) => fs::rename(&aside.0, &self.path),
            None => remove_if_present(&self.path),
        }
    }

    /// Records the id of a new stop, and syncs the folder's entries to disk before anything relies on them.
    fn note(&self, stop: &Stop) -> std::io::Result<()> {
        // The stop is in force even if this record fails.
        let level = self.stops_on_disk().in_force().level().max(Some(stop.level));
        let _noted = self.write_note(stop.id.as_str(), level);
        self.on_disk()
    }

    fn on_disk(&self) -> std::io::Result<()> {
        match self.path.parent() {
            Some(folder) => fs::File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    fn failed(&self, reason: std::io::Error) -> StopError {
        StopError::File { path: self.path.clone(), reason }
    }
}

impl Stop {
    fn new(level: StopLevel, reason: &str, by: &str, now: u64) -> Self {
        Self {
            level,
            reason: SafeText::clean(reason, MOST_REASON),
            by: SafeText::clean(by, MOST_NAME),
            at: now,
            id: SafeText::clean(&format!("{:032x}", rand::random::<u128>()), 32),
            hold: false,
            over: None,
        }
    }
}

/// Returns the stop that `stop` would be placed above; the outer `None` means that it changes nothing.
fn stop_below(before: &ActiveStop, stop: &Stop) -> Option<Option<Stop>> {
    match before {
        ActiveStop::None => Some(None),
        ActiveStop::Stop(before) if before.level < stop.level => Some(Some(before.clone())),
        // Each owner releases their own hold, so a stop that must stay cannot depend on it.
        ActiveStop::Stop(before) if before.level == stop.level && before.hold => match stop.hold {
            true => Some(Some(before.clone())),
            false => Some(before.over.as_deref().cloned()),
        },
        ActiveStop::Stop(_) => None,
        ActiveStop::Garbled { why } if stop.level > StopLevel::Halt => {
            Some(Some(Stop::new(StopLevel::Halt, why, "an unreadable stop file", stop.at)))
        }
        ActiveStop::Garbled { .. } => None,
    }
}

/// Reads the stop in one file.
fn read_file(path: &Path) -> ActiveStop {
    // A symbolic link counts by its target; one without a target still counts as a file.
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return ActiveStop::None,
        Err(error) => return ActiveStop::Garbled { why: format!("it cannot be checked: {error}") },
        Ok(_) => {}
    }
    match regular_file::read_text(path, MOST_BYTES) {
        // It was moved or lifted during the read.
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => ActiveStop::None,
        Err(error) => ActiveStop::Garbled { why: format!("it cannot be read: {error}") },
        Ok(text) => serde_json::from_str(&text).map_or_else(
            |error| ActiveStop::Garbled {
                why: SafeText::clean(&format!("it is not a valid stop: {error}"), 200).to_string(),
            },
            ActiveStop::Stop,
        ),
    }
}

/// Removes a file that may already be gone.
fn remove_if_present(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Open options for a file that only this user can access.
fn private() -> OpenOptions {
    let mut options = private::file();
    options.write(true).create(true).truncate(false);
    options
}

#[cfg(test)]
mod tests;
