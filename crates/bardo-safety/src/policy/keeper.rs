//! Keeps the policy in force and follows its file: what is tighter holds at once, what is looser
//! waits for a decision, and a file that cannot be read changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use alloy::primitives::B256;
use parking_lot::Mutex;

use super::{Change, Policy, PolicyError, Preset, read};

/// A policy in force.
#[derive(Debug, Clone)]
pub struct Adopted {
    /// What holds.
    pub policy: Arc<Policy>,
    /// Counts every change of what holds in this process, from 1.
    pub version: u64,
}

/// A looser policy that waits for a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// What the file says.
    pub policy: Arc<Policy>,
    /// What differs from what holds now.
    pub changes: Vec<Change>,
}

/// What following the file came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Followed {
    /// The file is as it was.
    Unchanged,
    /// It was written anew, and says what holds here already.
    Restated,
    /// It is tighter, and holds.
    Tightened(Vec<Change>),
    /// Some of it is looser. What is tighter holds; the rest waits.
    Waits(Pending),
    /// It cannot be read. What held goes on holding.
    Broken(PolicyError),
}

/// Holds the policy in force.
#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    absent: Preset,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    adopted: Adopted,
    /// What the file says, whether it holds or waits.
    written: Arc<Policy>,
    stamp: Option<Stamp>,
    /// Counts the readings of the file that changed anything here.
    readings: u64,
    broken: Option<PolicyError>,
    /// What the operator has said no to.
    refused: Option<B256>,
}

/// How a file is told from its successor without reading it.
type Stamp = (SystemTime, u64);

impl Keeper {
    /// Takes the policy at `path`, or `absent` where there is no such file.
    ///
    /// # Errors
    /// [`PolicyError`]: at the start there is nothing to fall back on.
    pub fn open(path: PathBuf, absent: Preset) -> Result<Self, PolicyError> {
        // Looked at before it is read: a change in between is then seen as one.
        let stamp = stamp(&path);
        let policy = Arc::new(read(&path)?.unwrap_or_else(|| Policy::preset(absent)));
        let adopted = Adopted { policy: policy.clone(), version: 1 };
        Ok(Self {
            path,
            absent,
            state: Mutex::new(State { adopted, written: policy, stamp, readings: 0, broken: None, refused: None }),
        })
    }

    /// One that follows no file.
    pub fn fixed(policy: Policy) -> Self {
        let policy = Arc::new(policy);
        let adopted = Adopted { policy: policy.clone(), version: 1 };
        let state = State { adopted, written: policy, stamp: None, readings: 0, broken: None, refused: None };
        Self { path: PathBuf::new(), absent: Preset::ReadOnly, state: Mutex::new(state) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What holds now. Does not look at the file.
    pub fn current(&self) -> Adopted {
        self.state.lock().adopted.clone()
    }

    /// Reads the file again if it has changed. To be called before every preview and every commit: it costs one look at
    /// the folder while nothing has changed. The lock is free meanwhile, so that a slow file system holds up nobody who
    /// only asks for the policy in force.
    pub fn follow(&self) -> Followed {
        if self.path.as_os_str().is_empty() {
            return Followed::Unchanged;
        }
        loop {
            let stamp = stamp(&self.path);
            let readings = {
                let mut state = self.state.lock();
                if stamp == state.stamp {
                    // What was read under this stamp is in force or waits, whatever stood in its place meanwhile.
                    state.broken = None;
                    return Followed::Unchanged;
                }
                state.readings
            };
            let read = read(&self.path);
            // Another thread may have taken a later reading, which this one must not undo.
            if let Some(followed) = self.take(readings, stamp, read) {
                return followed;
            }
        }
    }

    /// Takes a reading of the file, unless another was taken since `readings` were; `None` then.
    fn take(&self, readings: u64, stamp: Option<Stamp>, read: Result<Option<Policy>, PolicyError>) -> Option<Followed> {
        let mut state = self.state.lock();
        if state.readings != readings {
            return None;
        }
        Some(state.take(stamp, read, self.absent))
    }

    /// Goes on from what held when the last program ended: what the file has loosened since waits for a decision, as if
    /// it had been loosened just now. To be called once, before anything relies on it.
    pub fn resume(&self, held: Policy) -> Followed {
        let mut state = self.state.lock();
        let written = state.written.clone();
        state.adopted.policy = Arc::new(held);
        state.weigh(written)
    }

    /// Why the file cannot be read, where it could not be when it was looked at last.
    pub fn broken(&self) -> Option<PolicyError> {
        self.state.lock().broken.clone()
    }

    /// The looser policy that waits for a decision, if one does.
    pub fn pending(&self) -> Option<Pending> {
        let state = self.state.lock();
        let written = state.written.hash();
        let waits = written != state.adopted.policy.hash() && state.refused != Some(written);
        waits.then(|| Pending { policy: state.written.clone(), changes: state.adopted.policy.changes(&state.written) })
    }

    /// Takes the waiting policy, by the operator's yes to exactly the one with this hash. `None` where
    /// another one, or none, is waiting by now.
    pub fn accept(&self, hash: B256) -> Option<Adopted> {
        let mut state = self.state.lock();
        let written = state.written.clone();
        if written.hash() != hash || hash == state.adopted.policy.hash() {
            return None;
        }
        state.adopt(written);
        Some(state.adopted.clone())
    }

    /// Leaves the waiting policy with this hash where it is, by the operator's no: it is not asked about again until the
    /// file changes. `false` where another one, or none, is waiting by now.
    pub fn refuse(&self, hash: B256) -> bool {
        let mut state = self.state.lock();
        let waits = state.written.hash() == hash && hash != state.adopted.policy.hash();
        if waits {
            state.refused = Some(hash);
        }
        waits
    }
}

impl State {
    /// Takes what the file says under this stamp.
    fn take(&mut self, stamp: Option<Stamp>, read: Result<Option<Policy>, PolicyError>, absent: Preset) -> Followed {
        let next = match read {
            Ok(next) => Arc::new(next.unwrap_or_else(|| Policy::preset(absent))),
            Err(error) => {
                // Looked at again next time: it may be half written.
                if self.broken.as_ref() == Some(&error) {
                    return Followed::Unchanged;
                }
                self.readings = self.readings.wrapping_add(1);
                self.broken = Some(error.clone());
                return Followed::Broken(error);
            }
        };
        self.readings = self.readings.wrapping_add(1);
        self.stamp = stamp;
        self.broken = None;
        if next.hash() == self.written.hash() {
            let holds = next.hash() == self.adopted.policy.hash();
            return if holds { Followed::Restated } else { Followed::Unchanged };
        }
        self.refused = None;
        self.weigh(next)
    }

    /// Takes what is tighter in `next` at once; what is looser waits.
    fn weigh(&mut self, next: Arc<Policy>) -> Followed {
        self.written = next.clone();
        let now = self.adopted.policy.clone();
        let changes = now.changes(&next);
        if changes.is_empty() {
            return Followed::Restated;
        }
        if changes.iter().all(|change| change.tighter) {
            self.adopt(next);
            return Followed::Tightened(changes);
        }
        let between = Arc::new(now.stricter(&next));
        if between.hash() != now.hash() {
            self.adopt(between);
        }
        let changes = self.adopted.policy.changes(&next);
        Followed::Waits(Pending { policy: next, changes })
    }

    fn adopt(&mut self, policy: Arc<Policy>) {
        self.adopted = Adopted { policy, version: self.adopted.version.saturating_add(1) };
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}
