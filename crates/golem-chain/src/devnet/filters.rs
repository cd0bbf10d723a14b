//! Installed filters: what a client asked to be told, and up to where it has been told.

use std::collections::BTreeMap;

use alloy::rpc::types::Filter;

/// How many filters there may be; the one longest not asked for goes first.
const CAPACITY: usize = 1_024;

/// What a filter is about.
#[derive(Debug, Clone)]
pub(super) enum FilterKind {
    /// Logs that match.
    Logs(Box<Filter>),
    /// Hashes of new blocks.
    Blocks,
    /// Hashes of transactions that begin to wait.
    PendingTransactions,
}

/// A filter and the number of the next event it has not told of.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    pub(super) kind: FilterKind,
    pub(super) cursor: u64,
    used: u64,
}

/// All installed filters, by id.
#[derive(Debug, Default)]
pub(super) struct Filters {
    installed: BTreeMap<u64, Installed>,
    last_id: u64,
    uses: u64,
}

impl Filters {
    /// Installs a filter that tells of events from `cursor` on; returns its id.
    pub(super) fn install(&mut self, kind: FilterKind, cursor: u64) -> u64 {
        if self.installed.len() >= CAPACITY {
            let idle = self.installed.iter().min_by_key(|(_, filter)| filter.used).map(|(id, _)| *id);
            idle.map(|id| self.installed.remove(&id));
        }
        self.last_id += 1;
        self.uses += 1;
        self.installed.insert(self.last_id, Installed { kind, cursor, used: self.uses });
        self.last_id
    }

    /// A filter, and a note that it is in use.
    pub(super) fn get(&mut self, id: u64) -> Option<&mut Installed> {
        self.uses += 1;
        let filter = self.installed.get_mut(&id)?;
        filter.used = self.uses;
        Some(filter)
    }

    /// Removes a filter; whether there was one.
    pub(super) fn uninstall(&mut self, id: u64) -> bool {
        self.installed.remove(&id).is_some()
    }
}
