//! Recipients and spenders of an action that are new, or whose address resembles a known one.

use std::collections::BTreeSet;

use alloy::primitives::Address;

use super::{Inner, Pipeline, PipelineRefusal};
use crate::approval::ApprovalReason;
use crate::chain_snapshot::SnapshotReader;
use crate::check_inputs::CheckInputs;
use crate::grants;
use crate::parties::{self, ActionParty, PartyRecords, PartyRole};
use crate::signing_payload::SigningPayload;
use bardo_base::error::ErrorCode;
use bardo_base::text::addresses_look_alike;
use bardo_store::{Store, StoreError};

impl Pipeline {
    /// Returns the reasons for approval that concern the action's recipients and spenders.
    pub(super) fn parties(
        &self,
        payload: &SigningPayload,
        inputs: &CheckInputs,
        reader: &SnapshotReader,
    ) -> Result<Vec<ApprovalReason>, PipelineRefusal> {
        // A revocation pays nobody and lets nobody take tokens.
        if inputs.only_revokes() {
            return Ok(Vec::new());
        }
        let proposal = payload.proposal();
        // A key that signs for the account, such as an owner of a Safe, is another holder of money: paying it is a payment.
        let own = payload.account();
        let contracts: BTreeSet<Address> = reader.network().book.contracts().map(|(_, address)| address).collect();
        let (receivers, spenders) = (grants::receivers(payload), grants::spenders(payload));
        let (chain_id, account) = (proposal.chain_id, payload.account());
        let takes_part = |role, address| self.takes_part(ActionParty { role, chain_id, address, account });
        let mut reasons = Vec::new();
        for who in receivers.iter().filter(|who| **who != own) {
            if !self.inner.rules.knows_recipient(*who) && !takes_part(PartyRole::Receiver, *who)? {
                reasons.push(ApprovalReason::FirstPaid);
                break;
            }
        }
        let book = &reader.network().book;
        for who in spenders.iter().filter(|who| **who != own && !grants::known_spender(payload, book, **who)) {
            if !self.inner.rules.knows_spender(*who) && !takes_part(PartyRole::Spender, *who)? {
                reasons.push(ApprovalReason::FirstAllowed);
                break;
            }
        }
        // An address that is vouched for is never an imitation. A ledger row without a valid tag does not vouch for
        // one.
        let mut vouched = self.inner.rules.named();
        let mut imitable = self.inner.rules.acquaintances().map_err(unavailable)?;
        for (store, records) in self.records() {
            vouched.extend(store.read(|connection| records.known(connection, account)).map_err(unavailable)?);
            imitable.extend(store.read(parties::mentioned).map_err(unavailable)?);
        }
        vouched.extend(payload.exposed());
        vouched.extend(contracts);
        vouched.extend(reader.network().book.tokens().iter().map(|token| token.address));
        imitable.extend(&vouched);
        for who in receivers.union(&spenders).filter(|who| !vouched.contains(*who)) {
            if let Some(known) = imitable.iter().find(|known| addresses_look_alike(*who, **known)) {
                reasons.push(ApprovalReason::Resembles { who: *who, known: *known });
            }
        }
        Ok(reasons)
    }

    /// Returns the ledger with its party records and, in paper mode, also the real one: its parties are known in paper
    /// mode too.
    fn records(&self) -> impl Iterator<Item = (&Store, &PartyRecords)> {
        let Inner { store, paper, known, known_on_paper, .. } = &*self.inner;
        let (own, real) = match paper {
            Some(paper) => ((store, known_on_paper), Some((paper.real(), known))),
            None => ((store, known), None),
        };
        std::iter::once(own).chain(real)
    }

    fn takes_part(&self, party: ActionParty) -> Result<bool, PipelineRefusal> {
        for (store, records) in self.records() {
            if store.read(|connection| records.knows(connection, party)).map_err(unavailable)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Records the recipients and spenders of an action, so that they are known from now on.
    pub(super) async fn note_parties(&self, payload: &SigningPayload) {
        let (proposal, account, now) = (payload.proposal(), payload.account(), self.inner.clock.now_millis());
        let (chain_id, call_id) = (proposal.chain_id, proposal.call_id);
        let paid = grants::receivers(payload).into_iter().map(|address| (PartyRole::Receiver, address));
        let allowed = grants::spenders(payload).into_iter().map(|address| (PartyRole::Spender, address));
        let others = paid.chain(allowed).filter(|(_, address)| *address != account);
        let others: Vec<ActionParty> =
            others.map(|(role, address)| ActionParty { role, chain_id, address, account }).collect();
        let Some((_, records)) = self.records().next().filter(|_| !others.is_empty()) else { return };
        let records = records.clone();
        // An unrecorded party only causes one more approval request.
        let _noted = self
            .inner
            .store
            .write(move |transaction| {
                others.iter().try_for_each(|party| records.note(transaction, *party, call_id, now))
            })
            .await;
    }
}

fn unavailable(error: StoreError) -> PipelineRefusal {
    PipelineRefusal::new(ErrorCode::StoreUnavailable, error)
}
