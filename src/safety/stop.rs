//! The stop ladder: a file in the data folder that any process and any person can set, read again
//! before every signature. What cannot be read or understood counts as a halt.
//!
//! Not here: who is asked before a stop is lifted (the command line and the console ask), and what
//! is revoked or sold under one.

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::base::model::{ActionClass, StopLevel};
use crate::base::text::SafeText;

/// The file's name in the data folder.
pub const FILE: &str = "STOP";
/// So long whoever changes the file waits for others who do, and no longer: one that is held up must not hold up a stop.
const WAITS: Duration = Duration::from_millis(300);
/// The longest file that is read.
const MOST_BYTES: u64 = 64 << 10;
/// The longest reason that is kept, in characters.
const MOST_REASON: usize = 400;
/// The longest name that is kept, in characters.
const MOST_NAME: usize = 80;

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
    /// Whoever decided had another stop before them.
    #[error("another stop was set meanwhile: look at it and decide anew")]
    Changed,
}

/// The stop file of one data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopFile {
    path: PathBuf,
}

impl StopFile {
    /// The one in this data folder.
    pub fn in_folder(data: &Path) -> Self {
        Self { path: data.join(FILE) }
    }

    /// Where it is, or would be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in force now, read from the file. Nothing is remembered between two readings.
    pub fn read(&self) -> InForce {
        // A link counts by what it leads to, and one that leads nowhere is an entry all the same.
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return InForce::None,
            Err(error) => return InForce::Garbled { why: format!("it cannot be looked for: {error}") },
            Ok(_) => {}
        }
        match self.text() {
            Err(error) => InForce::Garbled { why: format!("it cannot be read: {error}") },
            Ok(text) => serde_json::from_str(&text).map_or_else(
                |error| InForce::Garbled { why: SafeText::clean(&format!("it is no stop: {error}"), 200).to_string() },
                InForce::Stop,
            ),
        }
    }

    fn text(&self) -> std::io::Result<String> {
        // Reading from a pipe would wait for whoever writes to it.
        if !fs::metadata(&self.path)?.is_file() {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut text = String::new();
        fs::File::open(&self.path)?.take(MOST_BYTES).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Raises the ladder to `level`. A stop as high or higher stays, and so does a garbled file
    /// unless this goes higher than the halt it counts as. Answers what is in force afterwards. Where it cannot be written,
    /// as on a full disk, an empty file is put in its place, which is a halt.
    ///
    /// # Errors
    /// [`StopError::File`]: then nothing has changed, unless it was to go higher than the halt that could be put there.
    pub fn raise(&self, level: StopLevel, reason: &str, by: &str, now: u64) -> Result<InForce, StopError> {
        let _alone = self.alone();
        let before = self.read();
        if before.level().is_some_and(|before| before >= level) {
            return Ok(before);
        }
        let over = match before {
            InForce::None => None,
            InForce::Stop(before) => Some(before),
            InForce::Garbled { why } => Some(Stop::new(StopLevel::Halt, &why, "an unreadable stop file", now)),
        };
        let stop = Stop { over: over.map(Box::new), ..Stop::new(level, reason, by, now) };
        match self.write(&stop) {
            Ok(()) => Ok(InForce::Stop(stop)),
            Err(error) => {
                // Nothing of it may be on disk; an empty file takes no room there.
                let _made = private().truncate(true).open(&self.path).and_then(|file| file.sync_all());
                let now = self.read();
                if now.level().is_some_and(|found| found >= level) { Ok(now) } else { Err(error) }
            }
        }
    }

    /// Lowers the ladder from `shown` to `level`, or lifts that stop. Whoever calls has the operator's yes, which was to
    /// what was shown and to nothing set since.
    ///
    /// # Errors
    /// [`StopError::Changed`] where anything else is in force by now; [`StopError::File`].
    pub fn lower(
        &self,
        shown: &InForce,
        level: Option<StopLevel>,
        reason: &str,
        by: &str,
        now: u64,
    ) -> Result<InForce, StopError> {
        let _alone = self.alone();
        let before = self.read();
        if before != *shown {
            return Err(StopError::Changed);
        }
        match level {
            Some(level) if before.level().is_none_or(|before| before <= level) => Ok(before),
            None => self.put(None),
            Some(level) => self.put(Some(Stop::new(level, reason, by, now))),
        }
    }

    /// Takes back one's own hold: what was in force before it is in force again. Needs no decision,
    /// because nothing is let through that was not before.
    ///
    /// # Errors
    /// [`StopError::NotYours`] where the file holds another stop; [`StopError::File`].
    pub fn release(&self, own: &Stop) -> Result<InForce, StopError> {
        let _alone = self.alone();
        match self.read() {
            InForce::None => Ok(InForce::None),
            InForce::Stop(found) if found == *own => self.put(found.over.map(|over| *over)),
            InForce::Stop(other) => Err(StopError::NotYours { level: other.level, by: Some(other.by) }),
            InForce::Garbled { .. } => Err(StopError::NotYours { level: StopLevel::Halt, by: None }),
        }
    }

    /// Names the stop that was set last, whether it stands or has been lifted; `None` where none ever was, or it was made
    /// by hand. What was allowed before it ends with it, however short it was.
    pub fn last(&self) -> Option<SafeText> {
        let mut text = String::new();
        let file = fs::File::open(self.path.with_extension("lock")).ok()?;
        file.take(MOST_NAME as u64).read_to_string(&mut text).ok()?;
        Some(SafeText::clean(&text, MOST_NAME))
    }

    /// Keeps others who change the file waiting. Where no lock can be had, or not soon, the change is made all the
    /// same: stopping must not fail for want of one, nor wait for whoever is held up with it.
    fn alone(&self) -> Option<fs::File> {
        let file = private().open(self.path.with_extension("lock")).ok()?;
        let until = Instant::now() + WAITS;
        loop {
            match file.try_lock() {
                Ok(()) => return Some(file),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return None,
            }
        }
    }

    fn put(&self, stop: Option<Stop>) -> Result<InForce, StopError> {
        if let Some(stop) = stop {
            self.write(&stop)?;
            return Ok(InForce::Stop(stop));
        }
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(InForce::None),
        }
    }

    /// Writes the whole file aside and moves it into place, so that no reader ever sees half of it.
    fn write(&self, stop: &Stop) -> Result<(), StopError> {
        let aside = self.path.with_extension(format!("{:016x}.new", rand::random::<u64>()));
        let written = self.write_aside(&aside, stop).and_then(|()| fs::rename(&aside, &self.path));
        // Noted in the file that is locked, which stays when the stop is lifted. It stops all the same where it cannot be.
        let _noted = private()
            .truncate(true)
            .open(self.path.with_extension("lock"))
            .and_then(|mut file| file.write_all(stop.id.as_str().as_bytes()));
        if written.is_err() {
            // What is left aside stops nothing.
            let _ = fs::remove_file(&aside);
        }
        // Its new name, too, has to be on disk before anybody relies on it.
        let written = written.and_then(|()| match self.path.parent() {
            Some(folder) => fs::File::open(folder)?.sync_all(),
            None => Ok(()),
        });
        written.map_err(|error| self.failed(error))
    }

    fn write_aside(&self, aside: &Path, stop: &Stop) -> std::io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = private().create_new(true).open(aside)?;
        serde_json::to_writer_pretty(&mut file, stop)?;
        file.write_all(b"\n")?;
        file.sync_all()
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
            over: None,
        }
    }
}

/// For this user alone.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// What an action is to the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Passage {
    /// Takes back allowances, orders or session keys, and nothing else.
    TakesBack,
    /// Only leaves positions.
    Exit,
    /// Anything else.
    Other,
}

impl Passage {
    /// Every one.
    pub const ALL: &'static [Self] = &[Self::TakesBack, Self::Exit, Self::Other];
}

/// The ladder: what each step still lets through.
///
/// | step | takes back | exits | anything else |
/// |---|---|---|---|
/// | none | yes | yes | yes |
/// | pause | yes | no | no |
/// | exit-only | yes | yes | no |
/// | flatten | yes | yes | no |
/// | halt | yes | no | no |
/// | revoke | yes | no | no |
///
/// Pause is not a weaker exit-only: nothing new begins at all, exits included, until the operator
/// looks; to let exits pass, they raise it by their own word. Taking back what others may take is
/// never held up.
pub const fn lets_through(level: Option<StopLevel>, passage: Passage) -> bool {
    match (level, passage) {
        (None, _) | (Some(_), Passage::TakesBack) => true,
        (Some(StopLevel::ExitOnly | StopLevel::Flatten), Passage::Exit) => true,
        (Some(StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke), Passage::Exit) => false,
        (Some(_), Passage::Other) => false,
    }
}

/// What a step means, for a person.
pub const fn meaning(level: StopLevel) -> &'static str {
    match level {
        StopLevel::Pause => "no new action begins; what is sent settles; revocations and cancellations pass",
        StopLevel::ExitOnly => "only exits to an exit asset, revocations and cancellations are signed",
        StopLevel::Flatten => "as exit-only, and positions are to be left: orders cancelled, holdings sold",
        StopLevel::Halt => "nothing is signed but revocations and cancellations",
        StopLevel::Revoke => "as halt, and session keys are to be revoked",
    }
}

/// What an action is to the ladder, from its derived class.
pub const fn passage(takes_back: bool, reduce_only: bool, class: ActionClass) -> Passage {
    match (takes_back, reduce_only, class) {
        (true, _, _) => Passage::TakesBack,
        (false, true, ActionClass::DecreasePosition | ActionClass::ClosePosition) => Passage::Exit,
        (false, _, _) => Passage::Other,
    }
}

#[cfg(test)]
mod tests;
