//! Work that a session finishes before it ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Number of tasks that must end before the session does.
#[derive(Debug, Clone, Default)]
pub struct RunningTasks(Arc<AtomicU64>);

impl RunningTasks {
    /// Counts a task until the returned value is dropped, also by a panic.
    pub fn begin(&self) -> RunningTask {
        self.0.fetch_add(1, Ordering::SeqCst);
        RunningTask(Arc::clone(&self.0))
    }

    /// Number of running tasks.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Task that counts as running until this is dropped.
#[derive(Debug)]
#[must_use = "the task counts only while this is held"]
pub struct RunningTask(Arc<AtomicU64>);

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Names of things that tasks of this session are working on, each by one task at most.
#[derive(Debug, Clone, Default)]
pub struct NamesInHand(Arc<Mutex<HashSet<String>>>);

impl NamesInHand {
    /// Takes a name until the returned value is dropped; `None` if another task has it.
    pub fn take(&self, name: &str) -> Option<NameInHand> {
        let taken = self.0.lock().insert(name.to_owned());
        taken.then(|| NameInHand { all: self.clone(), name: name.to_owned() })
    }
}

/// Name that one task has taken.
#[derive(Debug)]
pub struct NameInHand {
    all: NamesInHand,
    name: String,
}

impl Drop for NameInHand {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_counts_no_longer() {
        let (running, names) = (RunningTasks::default(), NamesInHand::default());
        let (task, name) = (running.begin(), names.take("a").unwrap());
        assert!(running.count() == 1 && names.take("a").is_none());
        let ended = tokio::spawn(async move {
            let _held = (task, name);
            panic!("a slice of a schedule");
        });
        assert!(ended.await.is_err_and(|error| error.is_panic()));
        assert!(running.count() == 0 && names.take("a").is_some());
    }
}
