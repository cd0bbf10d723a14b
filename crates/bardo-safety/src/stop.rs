//! The stop ladder: a file in the data folder that any process and any person can set, read again
//! before every signature. What cannot be read or understood counts as a halt.
//!
//! Whoever changes it takes a lock, reads, and moves what was written aside into its place. Who raises the ladder waits
//! for that lock only a moment, and then puts the stop beside the file, under a name of its own: nobody who looked before
//! can write over it, and what is in force is the highest of all. Who lowers it does nothing without the lock.
//!
//! Beside the lock's name of the stop that was set last stands the level that was in force when Bardo changed it last. A stop
//! file that says less, because somebody removed or replaced it by other means, counts as a halt until `bardo resume`.
//!
//! Not here: who is asked before a stop is lifted (the command line and the console ask), and what
//! is revoked or sold under one.

mod ladder;

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

pub use ladder::{Passage, lets_through, meaning, passage};

/// The file's name in the data folder.
pub const FILE: &str = "STOP";
/// So long whoever raises the ladder waits for others who change it, and then puts the stop beside theirs: one that is
/// held up must not hold up a stop.
const URGENT: Duration = Duration::from_millis(50);
/// So long whoever lowers it waits, and then changes nothing.
const PATIENT: Duration = Duration::from_millis(500);
/// So often a stop is written anew because another came before it, and is then put beside that.
const TRIES: u32 = 4;
/// The longest file that is read.
const MOST_BYTES: u64 = 64 << 10;
/// The longest reason that is kept, in characters.
const MOST_REASON: usize = 400;
/// The longest name that is kept, in characters.
pub const MOST_NAME: usize = 80;

/// A stop, as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// How much is stopped.
    pub level: StopLevel,
    /// Why, in the words of whoever stopped.
    pub reason: SafeText,
    /// Who: `operator`, or what set it by itself.
    pub by: SafeText,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Names this stop, so that whoever set it can take back exactly this one.
    pub id: SafeText,
    /// Whether it only holds until a choice is made: whoever set it releases it without a decision, unless somebody has
    /// stopped in earnest meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
    /// What was in force before, which this one rose above; releasing one's own hold goes back to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Box<Stop>>,
}

/// What is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InForce {
    /// No stop.
    None,
    /// This one.
    Stop(Stop),
    /// There is a file that says nothing one can rely on: a halt.
    Garbled {
        /// What is wrong with it.
        why: String,
    },
}

impl InForce {
    /// The level, a halt where the file cannot be relied on.
    pub fn level(&self) -> Option<StopLevel> {
        match self {
            Self::None => None,
            Self::Stop(stop) => Some(stop.level),
            Self::Garbled { .. } => Some(StopLevel::Halt),
        }
    }

    /// Whether it only holds until a choice is made.
    pub fn is_hold(&self) -> bool {
        matches!(self, Self::Stop(stop) if stop.hold)
    }

    /// What it rose above, one after the other.
    fn beneath(&self) -> impl Iterator<Item = &Stop> {
        let over = match self {
            Self::Stop(stop) => stop.over.as_deref(),
            Self::None | Self::Garbled { .. } => None,
        };
        std::iter::successors(over, |stop| stop.over.as_deref())
    }
}

/// All that is on disk: the file, and the stops that could not wait for it, each in a file of its own beside it.
struct Standing {
    file: InForce,
    beside: Vec<(PathBuf, InForce)>,
}

impl Standing {
    /// The highest of all; of two as high the one that is no hold, then the one that rose above more, then the file's own.
    fn in_force(&self) -> &InForce {
        let beside = self.beside.iter().map(|(_, found)| found);
        let rank = |found: &&InForce| (found.level(), !found.is_hold(), found.beneath().count());
        beside.chain([&self.file]).max_by_key(rank).unwrap_or(&self.file)
    }

    /// The level that stays where every hold is released. What lies beside the file leaves nothing when it is.
    fn lasts(&self) -> Option<StopLevel> {
        let beside = self.beside.iter().filter(|(_, found)| !found.is_hold()).filter_map(|(_, found)| found.level());
        let file = match &self.file {
            InForce::Stop(stop) if stop.hold => {
                self.file.beneath().find(|stop| !stop.hold).map(|earnest| earnest.level)
            }
            found => found.level(),
        };
        beside.chain(file).max()
    }

    /// The stop that stays where every hold is released, if it is in this level.
    fn lasting(&self, level: StopLevel) -> Option<&Stop> {
        let beside = self.beside.iter().map(|(_, found)| found);
        let mut all = beside.chain([&self.file]).filter_map(|found| match found {
            InForce::Stop(stop) if !stop.hold => Some(stop),
            InForce::Stop(_) => found.beneath().find(|stop| !stop.hold),
            InForce::None | InForce::Garbled { .. } => None,
        });
        all.find(|stop| stop.level == level).filter(|_| self.lasts() == Some(level))
    }

    /// Whether this would be swallowed by somebody's hold, and gone with it.
    fn would_swallow(&self, stop: &Stop) -> bool {
        let in_force = self.in_force();
        !stop.hold && in_force.is_hold() && in_force.level() > Some(stop.level) && self.lasts() < Some(stop.level)
    }

    /// Whether nothing is lost where the file is written over by what keeps in mind what is in force.
    fn may_be_written_over(&self) -> bool {
        self.file == InForce::None || self.file == *self.in_force()
    }
}

/// Outcome of a Golem's emergency halt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Emergency {
    /// All signing is stopped; this is in force.
    Raised(InForce),
    /// The operator's flatten stays as it is: a halt above it would end the operator's liquidation.
    Spared(Stop),
}

/// A stop that is on disk, and stops nothing before it is moved into its place. What was not moved is removed.
struct Aside(PathBuf);

impl Drop for Aside {
    fn drop(&mut self) {
        let _moved_already = fs::remove_file(&self.0);
    }
}

/// Why the stop file stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The file or its folder cannot be used.
    #[error(
        "cannot write {path}: {reason}; make a file of that name by any means, empty or not, and all signing stops"
    )]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// Lowering takes a decision.
    #[error(
        "{level} is in force{}: going down takes the operator's decision; only a hold that nobody has raised since \
         can be released by whoever set it",
        by.as_ref().map(|by| format!(", set by {by}")).unwrap_or_default()
    )]
    NotYours {
        /// What is in force.
        level: StopLevel,
        /// Who set it, if that can be told.
        by: Option<SafeText>,
    },
    /// It was not proved that the operator decided.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// Whoever decided had another stop before them.
    #[error("another stop was set meanwhile: look at it and decide anew")]
    Changed,
    /// The stop is in force for the whole data folder, above what is changed here.
    #[error("{level} is in force for the whole data folder, not for this show alone: `bardo resume` lifts it")]
    Above {
        /// What is in force there.
        level: StopLevel,
    },
    /// Nobody can be kept from changing the stop meanwhile, since the file for that cannot be used.
    #[error("cannot lock {path}: {reason}; nothing was loosened: see that it is a file that you can write")]
    Lock {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// Somebody else is about to change the stop, and may be about to raise it.
    #[error("another program is just changing the stop: nothing was loosened, try again")]
    Busy,
}

/// The stop file of one data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopFile {
    path: PathBuf,
    /// Another stop file that counts as well and is never changed through this one.
    outer: Option<PathBuf>,
}

impl StopFile {
    /// The one in this data folder.
    pub fn in_folder(data: &Path) -> Self {
        Self { path: data.join(FILE), outer: None }
    }

    /// The same beneath the stop file of another folder, which counts as well: the higher of the two is in force. It is
    /// read, and never raised or lowered from here.
    #[must_use]
    pub fn beneath(self, outer: &Path) -> Self {
        Self { outer: Some(outer.join(FILE)), ..self }
    }

    /// Where it is, or would be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in force now, read from disk. Nothing is remembered between two readings.
    pub fn read(&self) -> InForce {
        let own = self.standing().in_force().clone();
        match self.read_outer() {
            Some(outer) if outer.level() > own.level() => outer,
            Some(_) | None => own,
        }
    }

    /// What the stop file above says; `None` where there is none above.
    fn read_outer(&self) -> Option<InForce> {
        let path = self.outer.clone()?;
        Some(Self { path, outer: None }.read())
    }

    fn standing(&self) -> Standing {
        // First what is beside it: whoever changes the file removes nothing there before the file says so.
        let beside = match fs::read_dir(self.beside()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => vec![(
                self.beside(),
                InForce::Garbled { why: format!("{} cannot be read: {error}", self.beside().display()) },
            )],
            Ok(entries) => {
                let mut found: Vec<_> = entries
                    .map(|entry| match entry.map(|entry| entry.path()) {
                        Ok(path) => {
                            let found = look(&path);
                            (path, found)
                        }
                        Err(error) => {
                            (self.beside(), InForce::Garbled { why: format!("it cannot be listed: {error}") })
                        }
                    })
                    .collect();
                found.sort_by(|(one, _), (other, _)| one.cmp(other));
                found
            }
        };
        let mut standing = Standing { file: look(&self.path), beside };
        if let Some(marked) = self.marked()
            && standing.in_force().level() < Some(marked)
        {
            // It may have been lowered between the two readings, and the mark with it.
            standing.file = look(&self.path);
            if self.marked().is_some_and(|marked| standing.in_force().level() < Some(marked)) {
                let why = format!("{marked} was in force, and its file was removed or replaced without `bardo resume`");
                standing.file = InForce::Garbled { why };
            }
        }
        standing
    }

    /// The level that was in force when a stop was changed last; `None` where none was, or it was set by hand.
    fn marked(&self) -> Option<StopLevel> {
        self.noted().split_whitespace().nth(1).and_then(|level| level.parse().ok())
    }

    /// What the lock's file says: the name of the stop that was set last, and the level in force since.
    fn noted(&self) -> String {
        let mut text = String::new();
        if let Ok(file) = regular_file::open(&self.lock()) {
            // What cannot be read names nothing.
            let _read = file.take(MOST_NAME as u64).read_to_string(&mut text);
        }
        text
    }

    /// Notes that at most `level` is in force from now on, by whoever loosens and has the lock. Before the file is changed,
    /// so that nobody finds less in force than is noted.
    fn mark_lower(&self, level: Option<StopLevel>) -> std::io::Result<()> {
        let noted = self.noted();
        let Some(id) = noted.split_whitespace().next() else { return Ok(()) };
        self.write_note(id, level)
    }

    fn write_note(&self, id: &str, level: Option<StopLevel>) -> std::io::Result<()> {
        let text = level.map_or_else(|| id.to_owned(), |level| format!("{id} {level}"));
        let mut file = regular_file::open_with(&mut private(), &self.lock())?;
        // Never empty in between: a reader would take that for a folder in which nothing was ever stopped.
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        file.sync_all()
    }

    /// Raises the ladder to `level`. A stop as high or higher stays, except that a hold gives way to whoever stops in
    /// earnest, and one that is higher leaves this in force when it is released; and so does a garbled file unless this
    /// goes higher than the halt it counts as. Answers what is in force afterwards. Where it cannot be written, as on a
    /// full disk, an empty file is put in its place, which is a halt.
    ///
    /// # Errors
    /// [`StopError::File`]: then nothing has changed, unless it was to go higher than the halt that could be put there.
    pub fn raise(&self, level: StopLevel, reason: &str, by: &str, now: u64) -> Result<InForce, StopError> {
        self.raise_own(level, reason, by, now).map(|(in_force, _)| in_force)
    }

    /// The same, and the stop where one was set. That is not the one in force where it lies beneath somebody's hold.
    ///
    /// # Errors
    /// As for [`StopFile::raise`].
    pub fn raise_own(
        &self,
        level: StopLevel,
        reason: &str,
        by: &str,
        now: u64,
    ) -> Result<(InForce, Option<Stop>), StopError> {
        self.set(Stop::new(level, reason, by, now))
    }

    /// Raises it to a halt by a Golem's own decision, except over a flatten set in earnest that is the operator's: the
    /// operator is leaving every position then, and nobody who trades for them ends that.
    ///
    /// # Errors
    /// As for [`StopFile::raise`].
    pub fn raise_emergency(
        &self,
        reason: &str,
        by: &str,
        now: u64,
        is_the_operators: impl Fn(&Stop) -> bool,
    ) -> Result<Emergency, StopError> {
        if let Some(flatten) = self.lasting_flatten().filter(|flatten| is_the_operators(flatten)) {
            return Ok(Emergency::Spared(flatten));
        }
        let (in_force, own) = self.raise_own(StopLevel::Halt, reason, by, now)?;
        // A flatten may have been set between the two; what cannot be released stays a halt.
        let over = own.as_ref().map(|own| std::iter::successors(own.over.as_deref(), |stop| stop.over.as_deref()));
        let flatten = over.and_then(|mut over| over.find(|stop| !stop.hold));
        let flatten = flatten.filter(|flatten| flatten.level == StopLevel::Flatten && is_the_operators(flatten));
        match (&own, flatten) {
            (Some(own), Some(flatten)) if self.release(own).is_ok() => Ok(Emergency::Spared(flatten.clone())),
            _ => Ok(Emergency::Raised(in_force)),
        }
    }

    /// The flatten that stays where every hold is released; `None` where another level does, or none.
    fn lasting_flatten(&self) -> Option<Stop> {
        let own = self.standing();
        let outer = self.outer.clone().map(|path| Self { path, outer: None }.standing());
        let highest = own.lasts().max(outer.as_ref().and_then(Standing::lasts));
        let mut both = [Some(&own), outer.as_ref()].into_iter().flatten();
        let flatten = both.find_map(|standing| standing.lasting(StopLevel::Flatten)).cloned();
        flatten.filter(|_| highest == Some(StopLevel::Flatten))
    }

    /// Raises it to a halt that lasts until a choice is made; the hold, to be released by whoever has it. `None` where a
    /// stop as high is in force already, which no release touches.
    ///
    /// # Errors
    /// [`StopError::File`]: nothing has changed.
    pub fn hold(&self, reason: &str, by: &str, now: u64) -> Result<Option<Stop>, StopError> {
        self.set(Stop { hold: true, ..Stop::new(StopLevel::Halt, reason, by, now) }).map(|(_, own)| own)
    }

    /// What is in force afterwards, and the stop, where it was set.
    fn set(&self, stop: Stop) -> Result<(InForce, Option<Stop>), StopError> {
        let mut tries = TRIES;
        loop {
            let standing = self.standing();
            let before = standing.in_force();
            let beneath = standing.would_swallow(&stop);
            let over = match rises_over(before, &stop) {
                Some(over) => over,
                None if beneath => None,
                None => return Ok((before.clone(), None)),
            };
            let stop = Stop { over: over.map(Box::new), ..stop.clone() };
            let placed = self.aside(&stop).and_then(|aside| {
                // A release leaves what lies beside the file, whenever it was put there.
                if beneath {
                    return self.put_beside(&aside, &stop).map(|()| true);
                }
                // It is on disk already: whoever is alone with the file does nothing that takes long. A lock that cannot
                // be opened, as with a pipe in its place, holds up no stop either.
                let alone = self.alone(URGENT).ok().flatten();
                let now = self.standing();
                match alone {
                    Some(_alone) if now.in_force() == before && now.may_be_written_over() => {
                        fs::rename(&aside.0, &self.path).map(|()| true)
                    }
                    Some(_alone) if now.in_force() != before && tries > 0 => Ok(false),
                    // Nobody who looked before this and writes after it can write over it there.
                    Some(_) | None => self.put_beside(&aside, &stop).map(|()| true),
                }
            });
            match placed.and_then(|placed| if placed { self.note(&stop).map(|()| true) } else { Ok(false) }) {
                Ok(true) => return Ok((self.read(), Some(stop))),
                Ok(false) => tries = tries.saturating_sub(1),
                // The hold would hide that nothing of this stays after it.
                Err(error) if beneath => return Err(self.failed(error)),
                Err(error) => return self.make_do(stop.level, error).map(|in_force| (in_force, None)),
            }
        }
    }

    /// Where a stop cannot be written an empty file is made: that takes no room on a disk, and is a halt.
    fn make_do(&self, level: StopLevel, why: std::io::Error) -> Result<InForce, StopError> {
        if self.read().level() < Some(level.min(StopLevel::Halt)) {
            let made = regular_file::open_with(private().truncate(true), &self.path);
            let _synced = made.and_then(|file| file.sync_all());
        }
        let now = self.read();
        if now.level() >= Some(level) { Ok(now) } else { Err(self.failed(why)) }
    }

    /// Lowers the ladder from `shown` to `level`, or lifts that stop. The operator's approval was for what was shown and for
    /// nothing set since; `proof` shows that it was the operator's.
    ///
    /// # Errors
    /// [`StopError::Proof`]; [`StopError::Changed`] where anything else is in force by now; [`StopError::Busy`]; [`StopError::Lock`];
    /// [`StopError::File`].
    pub fn lower(
        &self,
        shown: &InForce,
        level: Option<StopLevel>,
        reason: &str,
        by: &str,
        now: u64,
        proof: OperatorProof,
    ) -> Result<InForce, StopError> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let _basis = proof.redeem_in(folder, &Authorisation::lower_stop(shown, level), now)?;
        // Nor was who is shown a hold shown what it rose above: where that is higher, it stays.
        let above = shown.is_hold().then(|| shown.beneath().find(|stop| !stop.hold)).flatten();
        let kept = above.filter(|above| level.is_none_or(|level| above.level > level)).cloned();
        let stop = kept.or_else(|| level.map(|level| Stop::new(level, reason, by, now)));
        let lower = stop.as_ref().map(|stop| self.aside(stop)).transpose().map_err(|error| self.failed(error))?;
        let alone = self.alone_to_loosen()?;
        let standing = self.standing();
        let before = standing.in_force();
        if before != shown {
            let above = self.read_outer().filter(|outer| outer == shown).and_then(|outer| outer.level());
            return Err(above.map_or(StopError::Changed, |level| StopError::Above { level }));
        }
        if level.is_some_and(|level| before.level().is_none_or(|before| before <= level)) {
            return Ok(before.clone());
        }
        // What stays, whoever set it, is read again below; the mark only ever says less here than before.
        let kept_beneath = standing.lasts().filter(|_| before.is_hold());
        let stays = stop.as_ref().map(|stop| stop.level).max(kept_beneath);
        self.mark_lower(stays).map_err(|error| self.failed(error))?;
        // Who was shown a hold was not shown what somebody has set in earnest beneath it.
        let unseen = |found: &InForce| before.is_hold() && matches!(found, InForce::Stop(stop) if !stop.hold);
        let placed = match (&stop, &lower) {
            (Some(stop), Some(aside)) if unseen(&standing.file) => self.put_beside(aside, stop),
            _ if unseen(&standing.file) => Ok(()),
            (_, lower) => self.put(lower.as_ref()),
        };
        // Only what was there when it was looked at: what has been put beside it since was decided about by nobody.
        let mut seen = standing.beside.iter().filter(|(_, found)| !unseen(found));
        let loosened = placed.and_then(|()| seen.try_for_each(|(path, _)| gone(path)));
        drop(alone);
        loosened.and_then(|()| self.on_disk()).map_err(|error| self.failed(error))?;
        Ok(self.read())
    }

    /// [`Self::lower`] with the proof that it takes.
    #[cfg(test)]
    pub(crate) fn lower_in_tests(
        &self,
        shown: &InForce,
        level: Option<StopLevel>,
        reason: &str,
        by: &str,
        now: u64,
    ) -> Result<InForce, StopError> {
        use crate::operator_proof::Basis;
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let proof = OperatorProof::issue(Authorisation::lower_stop(shown, level), Basis::NoKeys, folder, now);
        self.lower(shown, level, reason, by, now, proof)
    }

    /// Takes back one's own hold: what was in force before it is in force again, or what was set in earnest beneath it.
    /// Needs no decision, because nothing is let through that was not before.
    ///
    /// # Errors
    /// [`StopError::NotYours`] where another stop is in force; [`StopError::Busy`]; [`StopError::Lock`];
    /// [`StopError::File`].
    pub fn release(&self, own: &Stop) -> Result<InForce, StopError> {
        let over = own.over.as_deref().map(|over| self.aside(over)).transpose();
        let over = over.map_err(|error| self.failed(error))?;
        let alone = self.alone_to_loosen()?;
        let standing = self.standing();
        match standing.in_force() {
            InForce::None => return Ok(InForce::None),
            InForce::Stop(found) if found == own => {}
            InForce::Stop(other) => {
                return Err(StopError::NotYours { level: other.level, by: Some(other.by.clone()) });
            }
            InForce::Garbled { .. } => return Err(StopError::NotYours { level: StopLevel::Halt, by: None }),
        }
        let is_own = |found: &InForce| matches!(found, InForce::Stop(stop) if stop == own);
        let others = standing.beside.iter().map(|(_, found)| found).chain([&standing.file]);
        let others = others.filter(|found| !is_own(found)).filter_map(InForce::level).max();
        let stays = own.over.as_deref().map(|over| over.level).max(others);
        self.mark_lower(stays).map_err(|error| self.failed(error))?;
        let mut released = if is_own(&standing.file) { self.put(over.as_ref()) } else { Ok(()) };
        for (path, _) in standing.beside.iter().filter(|(_, found)| is_own(found)) {
            released = released.and_then(|()| gone(path));
        }
        drop(alone);
        released.and_then(|()| self.on_disk()).map_err(|error| self.failed(error))?;
        Ok(self.read())
    }

    /// Names the stop that was set last, whether it stands or has been lifted; `None` where none ever was, or it was made
    /// by hand. What was allowed before it ends with it, however short it was.
    pub fn last(&self) -> Option<SafeText> {
        fs::metadata(self.lock()).ok()?;
        Some(SafeText::clean(self.noted().split_whitespace().next().unwrap_or_default(), MOST_NAME))
    }

    /// Keeps others who change the file waiting; `None` where the lock cannot be had in time. Whoever raises does it all
    /// the same, beside the file.
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

    /// The same for whoever loosens, and does nothing without it.
    fn alone_to_loosen(&self) -> Result<fs::File, StopError> {
        let alone = self.alone(PATIENT).map_err(|reason| StopError::Lock { path: self.lock(), reason })?;
        alone.ok_or(StopError::Busy)
    }

    /// The file that is locked, which stays when the stop is lifted.
    fn lock(&self) -> PathBuf {
        self.path.with_extension("lock")
    }

    /// The folder of the stops that could not wait.
    fn beside(&self) -> PathBuf {
        self.path.with_extension("d")
    }

    /// Writes a whole stop to disk, so that moving it into its place takes no time and no reader ever sees half of it.
    fn aside(&self, stop: &Stop) -> std::io::Result<Aside> {
        if let Some(folder) = self.path.parent() {
            private::make(folder)?;
        }
        let path = self.path.with_extension(format!("{:016x}.new", rand::random::<u64>()));
        let mut file = private().create_new(true).open(&path)?;
        let aside = Aside(path);
        serde_json::to_writer_pretty(&mut file, stop)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        Ok(aside)
    }

    /// Under a name that nobody else writes to.
    fn put_beside(&self, aside: &Aside, stop: &Stop) -> std::io::Result<()> {
        let folder = self.beside();
        private::make(&folder)?;
        fs::rename(&aside.0, folder.join(stop.id.as_str()))?;
        fs::File::open(&folder)?.sync_all()
    }

    /// Puts this into the file's place, or nothing.
    fn put(&self, stop: Option<&Aside>) -> std::io::Result<()> {
        match stop {
            Some(aside) => fs::rename(&aside.0, &self.path),
            None => gone(&self.path),
        }
    }

    /// After a stop was set: notes its name, and has the folder's entries on disk before anybody relies on them.
    fn note(&self, stop: &Stop) -> std::io::Result<()> {
        // It stops all the same where it cannot be noted.
        let level = self.standing().in_force().level().max(Some(stop.level));
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

/// What `stop` would be over; `None` where it changes nothing.
fn rises_over(before: &InForce, stop: &Stop) -> Option<Option<Stop>> {
    match before {
        InForce::None => Some(None),
        InForce::Stop(before) if before.level < stop.level => Some(Some(before.clone())),
        // Each releases their own hold: what is to stay must not go with it.
        InForce::Stop(before) if before.level == stop.level && before.hold => match stop.hold {
            true => Some(Some(before.clone())),
            false => Some(before.over.as_deref().cloned()),
        },
        InForce::Stop(_) => None,
        InForce::Garbled { why } if stop.level > StopLevel::Halt => {
            Some(Some(Stop::new(StopLevel::Halt, why, "an unreadable stop file", stop.at)))
        }
        InForce::Garbled { .. } => None,
    }
}

/// What the file under this name says.
fn look(path: &Path) -> InForce {
    // A link counts by what it leads to, and one that leads nowhere is an entry all the same.
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return InForce::None,
        Err(error) => return InForce::Garbled { why: format!("it cannot be looked for: {error}") },
        Ok(_) => {}
    }
    match regular_file::read_text(path, MOST_BYTES) {
        // It was moved or lifted while it was looked at.
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => InForce::None,
        Err(error) => InForce::Garbled { why: format!("it cannot be read: {error}") },
        Ok(text) => serde_json::from_str(&text).map_or_else(
            |error| InForce::Garbled { why: SafeText::clean(&format!("it is no stop: {error}"), 200).to_string() },
            InForce::Stop,
        ),
    }
}

/// Removes a file that may have gone already.
fn gone(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// For this user alone.
fn private() -> OpenOptions {
    let mut options = private::file();
    options.write(true).create(true).truncate(false);
    options
}

#[cfg(test)]
mod tests;
