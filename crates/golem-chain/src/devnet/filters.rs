//! Installed filters with their read positions.

use std::collections::BTreeMap;

use alloy::rpc::types::Filter;

/// Maximum number of filters; the least recently used one is removed.
const CAPACITY: usize = 1_024;

/// Subject of a filter.
#[derive(Debug, Clone)]
pub(super) enum FilterKind {
    /// Logs that match a filter.
    Logs(Box<Filter>),
    /// Hashes of new blocks.
    Blocks,
    /// Hashes of new pending transactions.
    PendingTransactions,
}

/// A filter, and the sequence number of the next event to report.
#[derive(Debug, Clone)]
pub(super) struct InstalledFilter {
    pub(super) kind: FilterKind,
    pub(super) cursor: u64,
    used: u64,
}

/// All installed filters by id.
#[derive(Debug, Default)]
pub(super) struct FilterSet {
    installed: BTreeMap<u64, InstalledFilter>,
    last_id: u64,
    uses: u64,
}

impl FilterSet {
    /// Installs a filter for events from `cursor` on; returns its id.
    pub(super) fn install(&mut self, kind: FilterKind, cursor: u64) -> u64 {
        if self.installed.len() >= CAPACITY {
            let idle = self.installed.iter().min_by_key(|(_, filter)| filter.used).map(|(id, _)| *id);
            idle.map(|id| self.installed.remove(&id));
        }
        self.last_id += 1;
        self.uses += 1;
        self.installed.insert(self.last_id, InstalledFilter { kind, cursor, used: self.uses });
        self.last_id
    }

    /// Returns a filter and marks it as used.
    pub(super) fn get(&mut self, id: u64) -> Option<&mut InstalledFilter> {
        self.uses += 1;
        let filter = self.installed.get_mut(&id)?;
        filter.used = self.uses;
        Some(filter)
    }

    /// Removes a filter; returns whether it existed.
    pub(super) fn uninstall(&mut self, id: u64) -> bool {
        self.installed.remove(&id).is_some()
    }
}
