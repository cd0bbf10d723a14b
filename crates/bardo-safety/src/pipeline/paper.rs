//! Paper-mode actions: checked, approved and counted like real ones, and stored in the paper ledger with the balances
//! that the simulation moved. Nothing is signed and no nonce is allocated.

use std::sync::Arc;

use alloy::primitives::U256;
use serde_json::json;
use tokio::time::Instant;

use super::account_lock::LockSource;
use super::assess::{Assessment, gas_usd};
use super::commit::{CommitOutcome, CommitState, GateError, committed};
use super::{Pipeline, PipelineRefusal, PreparedAction, consent as required};
use crate::approval::Consent;
use crate::audit::{self, AuditKind, LogEntry};
use crate::paper::{self, PaperAction, PaperLedger, PaperMove};
use crate::permit::{self, PermitFault, PermitUseRecord};
use crate::policy_engine::ActionEnd;
use crate::signing_payload::SigningPayload;
use crate::simulate::SimulatedEffects;
use bardo_base::error::ErrorCode;
use bardo_base::units::Usd;
use bardo_store::Store;
use golem_chain::fork::BalanceDelta;
use golem_chain::token::TokenId;

impl Pipeline {
    /// Returns the shifts of the account's balances by earlier paper actions; empty in a real pipeline.
    pub(super) fn shifts(&self, payload: &SigningPayload) -> Result<Vec<BalanceDelta>, PipelineRefusal> {
        let Some(paper) = &self.inner.paper else { return Ok(Vec::new()) };
        let shifts = paper.shifts(payload.proposal().chain_id, payload.account());
        shifts.map_err(|error| PipelineRefusal::new(ErrorCode::StoreUnavailable, error))
    }

    /// Returns the real ledger, which knows what signed orders may take and which allowances were given.
    pub(super) fn history(&self) -> &Store {
        self.inner.paper.as_ref().map_or(&self.inner.store, PaperLedger::real)
    }

    /// Executes a previewed action in paper mode, with the same checks and the same consent as a real one.
    pub(super) async fn carry_out_on_paper(
        &self,
        prepared: PreparedAction,
        consent: Consent,
        lock: LockSource,
        paper: PaperLedger,
    ) -> Result<CommitOutcome, PipelineRefusal> {
        let _turn = self.lock_for_plan(&prepared.preview, lock).await?;
        let assessment = self.reassess(&prepared).await?;
        if let Some(verdict) = self.unseen(&prepared.preview.payload, &assessment.inputs)? {
            return Err(PipelineRefusal::by(vec![verdict], None));
        }
        self.consented(&prepared.preview, &assessment, &consent)?;
        let consent = self.close_question(&paper, consent).await?;
        self.record_on_paper(&prepared, &assessment, consent).await?;
        self.note_parties(&prepared.preview.payload).await;
        Ok(CommitOutcome { on_paper: true, ..committed(&prepared.preview, assessment, CommitState::Simulated)? })
    }

    /// Closes the approval request in the real ledger, which other processes read. Returns the consent that was given.
    async fn close_question(&self, paper: &PaperLedger, consent: Consent) -> Result<Consent, PipelineRefusal> {
        let Consent::Approved(yes) = consent else { return Ok(consent) };
        let queue = self.inner.queue.clone();
        let closed = paper.real().write(move |transaction| -> Result<Consent, GateError> {
            match queue.close(transaction, &yes)? {
                Some(decision) => Err(GateError::RefusedElsewhere(decision)),
                None => Ok(Consent::Approved(yes)),
            }
        });
        Ok(closed.await?)
    }

    /// Counts the action in one immediate transaction of the paper ledger: rechecks stop, rules, permit and caps,
    /// consumes the permit, counts the spending and stores the moves. Either all of it is written or nothing.
    async fn record_on_paper(
        &self,
        prepared: &PreparedAction,
        assessment: &Assessment,
        consent: Consent,
    ) -> Result<(), PipelineRefusal> {
        let preview = &prepared.preview;
        let payload = preview.payload.clone();
        let proposal = payload.proposal();
        let inputs = Arc::new(assessment.inputs.clone());
        let read_error = |doubt: &dyn std::fmt::Display| PipelineRefusal::new(ErrorCode::SafetyPriceUnknown, doubt);
        let values = inputs.values.as_ref().map_err(|doubt| read_error(doubt))?;
        let counted = inputs.counted().map_err(|doubt| read_error(&doubt))?;
        // A real action reserves the worst gas cost and later counts the actual one. Here the simulated cost counts.
        let gas = inputs.simulation.as_ref().and_then(|one| gas_usd(&assessment.view.spreads, gas_of(one, assessment)));
        let used_gas = |gas: Usd| counted.checked_sub(values.gas).ok()?.checked_add(gas).ok();
        let spent = gas.and_then(used_gas).map_or(counted, |spent| spent.min(counted));
        let used = PermitUseRecord {
            permit_id: preview.permit.permit_id,
            simulation_hash: preview.permit.simulation_hash,
            call_id: proposal.call_id,
            golem_id: proposal.golem_id.clone(),
            chain_id: proposal.chain_id,
            account: proposal.account,
            gas_usd: values.gas.to_string(),
            spent_usd: spent.to_string(),
        };
        let action = PaperAction {
            at: 0,
            permit_id: used.permit_id,
            call_id: proposal.call_id,
            golem_id: proposal.golem_id.clone(),
            tool: proposal.tool.name,
            outcome: proposal.expected_outcome.clone(),
            chain_id: proposal.chain_id,
            account: proposal.account,
            block: inputs.simulation.as_ref().map_or(0, |simulated| simulated.pinned.number),
            spent_usd: spent.to_string(),
            gas: match &inputs.simulation {
                Some(simulated) if payload.payer() == payload.account() => gas_of(simulated, assessment),
                Some(_) | None => U256::ZERO,
            },
            moves: moves(&payload, assessment)?,
        };
        let (rules, clock, permit) =
            (Arc::clone(&self.inner.rules), Arc::clone(&self.inner.clock), preview.permit.clone());
        let (queue, prepared) = (self.inner.queue.clone(), prepared.clone());
        let written = self.inner.store.write(move |transaction| -> Result<(), GateError> {
            if rules.stop() != inputs.stop {
                return Err(GateError::Stopped);
            }
            let now = clock.now_millis();
            permit.verify(&payload, rules.version(), now, Instant::now())?;
            let reservation = rules.reserve(transaction, now, &payload, &inputs)?;
            if prepared.worsened(&inputs) {
                return Err(GateError::Worsened);
            }
            let second = rules.second_approval(&payload, &inputs);
            required::second_given(second.as_ref(), &prepared.preview, &consent, now)?;
            if let Consent::Approved(yes) = &consent
                && !queue.stands(yes)
            {
                return Err(GateError::TakenBack);
            }
            if !permit::consume(transaction, &used, reservation.0, now)? {
                return Err(PermitFault::Consumed.into());
            }
            // A bridge order counts as delivered at once, so its share of the high-water mark moves with it.
            rules.arrived(transaction, now, reservation)?;
            rules.settle(transaction, now, reservation, ActionEnd::Done { spent })?;
            permit::note_end(transaction, used.permit_id, "done")?;
            paper::note(transaction, &PaperAction { at: now, ..action })?;
            let body = json!({
                "permit_id": used.permit_id, "simulation_hash": used.simulation_hash, "reservation": reservation.0,
                "consent": consent.word(), "second_approval": consent.second(), "paper": true,
            });
            let proposal = payload.proposal();
            let kind = AuditKind::PermitConsumed;
            let entry = LogEntry { kind, call_id: Some(proposal.call_id), golem_id: &proposal.golem_id, body: &body };
            audit::append(transaction, now, &entry)?;
            Ok(())
        });
        Ok(written.await?)
    }
}

/// Simulated gas cost in wei, including a rollup's data fee.
fn gas_of(simulated: &SimulatedEffects, assessment: &Assessment) -> U256 {
    let data_fee = assessment.view.data_fee.as_ref().copied().unwrap_or_default();
    simulated.gas_cost.saturating_add(data_fee)
}

/// Balance moves of the account by the simulation, gas included, and a bridge order's arrival on the other chain.
fn moves(payload: &SigningPayload, assessment: &Assessment) -> Result<Vec<PaperMove>, PipelineRefusal> {
    let (proposal, inputs) = (payload.proposal(), &assessment.inputs);
    let none = || PipelineRefusal::new(ErrorCode::SafetySimulationFailed, "there is no simulation");
    let simulated = inputs.simulation.as_ref().ok_or_else(none)?;
    let mut moved = Vec::new();
    for one in &simulated.moves {
        let undescribed =
            || PipelineRefusal::new(ErrorCode::SafetySimulationFailed, "a balance changes for an undescribed token");
        let token = inputs.tokens.get(&one.token).cloned().ok_or_else(undescribed)?;
        let (added, removed) = (one.after.saturating_sub(one.before), one.before.saturating_sub(one.after));
        moved.push(PaperMove { chain_id: proposal.chain_id, token, added, removed });
    }
    if payload.payer() == payload.account() {
        let gas = gas_of(simulated, assessment);
        match moved.iter_mut().find(|one| one.token.id == TokenId::Native) {
            Some(coin) => coin.removed = coin.removed.saturating_add(gas),
            None => {
                let coin = inputs.tokens.get(&TokenId::Native).cloned().ok_or_else(none)?;
                moved.push(PaperMove { chain_id: proposal.chain_id, token: coin, added: U256::ZERO, removed: gas });
            }
        }
    }
    let arrival = proposal.bridged();
    if let Some(arrival) = arrival.filter(|_| proposal.recipients.iter().all(|one| *one == proposal.account)) {
        let (added, removed) = (arrival.at_least, U256::ZERO);
        moved.push(PaperMove { chain_id: arrival.chain_id, token: arrival.token.clone(), added, removed });
    }
    Ok(moved)
}
