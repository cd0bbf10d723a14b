//! Treatment of unanswered queries that may hide a change.

use alloy::primitives::KECCAK256_EMPTY;
use revm::state::AccountInfo;

use super::{
    call::ForkCall,
    changes::{ChangeDetector, SlotWrite, TrackedQuery, WatchList, code_hash, delegation, moved},
    machine::CallMachine,
    outcome::{QueryFailure, StateChanges, UnansweredQuery},
    ownership_query::{OwnershipQuery, QueryReading, QueryValue},
    storage_trace::address_in,
};
use crate::evm::EvmError;

impl ChangeDetector<'_> {
    /// `getApproved` reverts for a token without owner, which then has no approved address. A revert for a token with
    /// an owner counts as a failed query.
    pub(super) fn settle_approvals(&mut self) {
        for index in self.answered..self.queries.len() {
            let Some(TrackedQuery { question: OwnershipQuery::NftApproved { collection, id }, .. }) =
                self.queries.get(index)
            else {
                continue;
            };
            let ownership = OwnershipQuery::NftOwner { collection: *collection, id: *id };
            let owners = self.queries.iter().find(|asked| asked.question == ownership);
            let owners = owners.map(|asked| asked.readings.clone()).unwrap_or_default();
            let Some(asked) = self.queries.get_mut(index) else { continue };
            for (reading, owner) in asked.readings.iter_mut().zip(owners) {
                if *reading == QueryReading::Failed(QueryFailure::Reverted)
                    && owner == QueryReading::Value(QueryValue::default())
                {
                    *reading = owner;
                }
            }
        }
    }

    /// Finds unexplained writes whose keys name an account and whose contract does not answer the query that they
    /// suggest. Assets of an account may have changed then in an unknown way.
    pub(super) fn find_unanswered(
        &mut self,
        machine: &mut CallMachine<'_>,
        calls: &[ForkCall],
        watch: &WatchList,
    ) -> Result<(), EvmError> {
        machine.select_state(0);
        for write in &mut self.writes {
            if !write.read_by.is_empty() || !moved(&write.values) {
                continue;
            }
            let answering = self.answering.contains(&write.account);
            let silent = self.queries.iter().position(|asked| {
                asked.readings.iter().any(|reading| matches!(reading, QueryReading::Failed(_)))
                    && asked.question.contract() == write.account
                    && asked.question.is_suggested_by(&write.keys, answering)
            });
            let Some(silent) = silent else { continue };
            let concerns = match write.keys.iter().find_map(|key| address_in(*key)) {
                // A single token whose owner is not in the keys.
                None => true,
                Some(owner) if calls.iter().any(|call| call.from == owner) || watch.owners.contains(&owner) => true,
                // Registries store contracts by address: pools by tokens, stakes by managers, and what the calls themselves made.
                Some(owner) => {
                    let found = self.accounts.iter().find(|(address, _)| *address == owner);
                    let is_made = found.and_then(|(_, infos)| infos.last()).is_some_and(is_contract);
                    !is_made && machine.account(owner)?.is_none_or(|info| !is_contract(&info))
                }
            };
            write.silent = concerns.then_some(silent);
        }
        Ok(())
    }

    /// Reports the query about `write` that failed at one of two points in time, if there is one.
    pub(super) fn report_unanswered(&self, write: &SlotWrite, from: usize, to: usize, changes: &mut StateChanges) {
        let Some(asked) = write.silent.and_then(|silent| self.queries.get(silent)) else { return };
        for reading in [asked.readings.get(from), asked.readings.get(to)].into_iter().flatten() {
            let QueryReading::Failed(failure) = *reading else { continue };
            let entry = UnansweredQuery { contract: write.account, question: asked.question.describe(), failure };
            if !changes.unreadable.contains(&entry) {
                changes.unreadable.push(entry);
            }
            return;
        }
    }
}

/// Returns true for a contract account; an account with a delegation still belongs to its owner.
fn is_contract(info: &AccountInfo) -> bool {
    code_hash(info) != KECCAK256_EMPTY && delegation(info).is_none()
}
