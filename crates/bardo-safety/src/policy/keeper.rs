//! Keeper of the policy in force, which follows the policy file. Tighter changes apply at once, looser ones wait for a
//! decision, and an unreadable file changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use alloy::primitives::B256;
use parking_lot::Mutex;

use super::{FieldChange, Policy, PolicyError, PolicyPreset, read};

/// Policy in force.
#[derive(Debug, Clone)]
pub struct ActivePolicy {
    /// The policy itself.
    pub policy: Arc<Policy>,
    /// Number of the policy in this process, from 1; each change increments it.
    pub version: u64,
}

/// Looser policy that waits for a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingPolicy {
    /// Policy of the file.
    pub policy: Arc<Policy>,
    /// Differences from the policy in force.
    pub changes: Vec<FieldChange>,
}

/// Result of checking the policy file.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyFileCheck {
    /// The file is unchanged.
    Unchanged,
    /// The file was rewritten, and matches the policy in force.
    Restated,
    /// The file is tighter, and is now in force.
    Tightened(Vec<FieldChange>),
    /// Part of the file is looser. The tighter part is in force, and the rest waits.
    Waits(PendingPolicy),
    /// The file cannot be read. The policy in force is unchanged.
    Broken(PolicyError),
}

/// Keeper of the policy in force.
#[derive(Debug)]
pub struct PolicyKeeper {
    path: PathBuf,
    absent: PolicyPreset,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    adopted: ActivePolicy,
    /// Policy of the file, in force or waiting.
    written: Arc<Policy>,
    stamp: Option<FileStamp>,
    /// Number of file readings that changed this state.
    readings: u64,
    broken: Option<PolicyError>,
    /// Hash of the policy that the operator rejected.
    refused: Option<B256>,
}

/// Modification time and size, which detect a changed file without reading it.
type FileStamp = (SystemTime, u64);

impl PolicyKeeper {
    /// Loads the policy at `path`, or the preset `absent` if there is no such file.
    ///
    /// # Errors
    /// [`PolicyError`] if the file cannot be read or parsed: at startup there is no earlier policy to fall back on.
    pub fn open(path: PathBuf, absent: PolicyPreset) -> Result<Self, PolicyError> {
        // Taken before the read, so that a change in between is noticed.
        let stamp = stamp(&path);
        let policy = Arc::new(read(&path)?.unwrap_or_else(|| Policy::preset(absent)));
        let adopted = ActivePolicy { policy: policy.clone(), version: 1 };
        Ok(Self {
            path,
            absent,
            state: Mutex::new(State { adopted, written: policy, stamp, readings: 0, broken: None, refused: None }),
        })
    }

    /// Creates a keeper of a fixed policy, without a file.
    pub fn fixed(policy: Policy) -> Self {
        let policy = Arc::new(policy);
        let adopted = ActivePolicy { policy: policy.clone(), version: 1 };
        let state = State { adopted, written: policy, stamp: None, readings: 0, broken: None, refused: None };
        Self { path: PathBuf::new(), absent: PolicyPreset::ReadOnly, state: Mutex::new(state) }
    }

    /// Returns the path of the policy file; empty for a fixed policy.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the policy in force, without checking the file.
    pub fn current(&self) -> ActivePolicy {
        self.state.lock().adopted.clone()
    }

    /// Reads the file again if it has changed. Call it before every preview and every commit: without a change it costs
    /// one metadata lookup. The lock is released during the read, so that a slow file system does not block readers of
    /// the policy in force.
    pub fn follow(&self) -> PolicyFileCheck {
        if self.path.as_os_str().is_empty() {
            return PolicyFileCheck::Unchanged;
        }
        loop {
            let stamp = stamp(&self.path);
            let readings = {
                let mut state = self.state.lock();
                if stamp == state.stamp {
                    // The file with this stamp is already in force or waiting, whatever replaced it temporarily.
                    state.broken = None;
                    return PolicyFileCheck::Unchanged;
                }
                state.readings
            };
            let read = read(&self.path);
            // Another thread may have applied a later reading, which this one must not undo.
            if let Some(followed) = self.take(readings, stamp, read) {
                return followed;
            }
        }
    }

    /// Applies a reading of the file, unless another one was applied since `readings`; `None` then.
    fn take(
        &self,
        readings: u64,
        stamp: Option<FileStamp>,
        read: Result<Option<Policy>, PolicyError>,
    ) -> Option<PolicyFileCheck> {
        let mut state = self.state.lock();
        if state.readings != readings {
            return None;
        }
        Some(state.take(stamp, read, self.absent))
    }

    /// Restores the policy that was in force when the last process ended. Parts of the file that were loosened since
    /// wait for a decision. Call it once, before anything relies on the policy.
    pub fn resume(&self, held: Policy) -> PolicyFileCheck {
        let mut state = self.state.lock();
        let written = state.written.clone();
        state.adopted.policy = Arc::new(held);
        state.weigh(written)
    }

    /// Returns the error of the last attempt to read the file; `None` if it succeeded.
    pub fn broken(&self) -> Option<PolicyError> {
        self.state.lock().broken.clone()
    }

    /// Returns the looser policy that waits for a decision; `None` if there is none, if it was rejected, or while the file
    /// cannot be read: nobody is asked about a text that the file no longer has.
    pub fn pending(&self) -> Option<PendingPolicy> {
        let state = self.state.lock();
        let written = state.written.hash();
        let waits = state.broken.is_none() && written != state.adopted.policy.hash() && state.refused != Some(written);
        waits.then(|| PendingPolicy {
            policy: state.written.clone(),
            changes: state.adopted.policy.changes(&state.written),
        })
    }

    /// Puts the waiting policy with this hash into force, on the operator's approval. `None` if another policy, or
    /// none, is waiting by now, or the file cannot be read.
    pub fn accept(&self, hash: B256) -> Option<ActivePolicy> {
        let mut state = self.state.lock();
        let written = state.written.clone();
        if state.broken.is_some() || written.hash() != hash || hash == state.adopted.policy.hash() {
            return None;
        }
        state.adopt(written);
        Some(state.adopted.clone())
    }

    /// Rejects the waiting policy with this hash. It is not offered again until the file changes. `false` if another
    /// policy, or none, is waiting by now.
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
    /// Applies a reading of the file with this stamp.
    fn take(
        &mut self,
        stamp: Option<FileStamp>,
        read: Result<Option<Policy>, PolicyError>,
        absent: PolicyPreset,
    ) -> PolicyFileCheck {
        let next = match read {
            Ok(next) => Arc::new(next.unwrap_or_else(|| Policy::preset(absent))),
            Err(error) => {
                // Read again next time: the file may be half written.
                if self.broken.as_ref() == Some(&error) {
                    return PolicyFileCheck::Unchanged;
                }
                self.readings = self.readings.wrapping_add(1);
                self.broken = Some(error.clone());
                return PolicyFileCheck::Broken(error);
            }
        };
        self.readings = self.readings.wrapping_add(1);
        self.stamp = stamp;
        self.broken = None;
        if next.hash() == self.written.hash() {
            let holds = next.hash() == self.adopted.policy.hash();
            return if holds { PolicyFileCheck::Restated } else { PolicyFileCheck::Unchanged };
        }
        self.refused = None;
        self.weigh(next)
    }

    /// Puts the tighter parts of `next` into force; looser parts wait.
    fn weigh(&mut self, next: Arc<Policy>) -> PolicyFileCheck {
        self.written = next.clone();
        let now = self.adopted.policy.clone();
        let changes = now.changes(&next);
        if changes.is_empty() {
            return PolicyFileCheck::Restated;
        }
        if changes.iter().all(|change| change.tighter) {
            self.adopt(next);
            return PolicyFileCheck::Tightened(changes);
        }
        let between = Arc::new(now.stricter(&next));
        if between.hash() != now.hash() {
            self.adopt(between);
        }
        let changes = self.adopted.policy.changes(&next);
        PolicyFileCheck::Waits(PendingPolicy { policy: next, changes })
    }

    fn adopt(&mut self, policy: Arc<Policy>) {
        self.adopted = ActivePolicy { policy, version: self.adopted.version.saturating_add(1) };
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}
