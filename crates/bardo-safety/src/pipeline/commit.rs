//! Permit to signing permission: assesses the action again, then reserves spending and nonce in one immediate database
//! transaction. Signing is in `sign`, the order of a plan's transactions in `plan`.
//!
//! A started commit runs to its end on its own task, even if the caller goes away: a signed transaction is never
//! abandoned.

use std::sync::Arc;

use alloy::primitives::{Address, B256, Log, U256};
use rusqlite::Transaction;
use serde_json::json;
use tokio::time::Instant;
use tracing::{Instrument as _, debug_span, instrument};

use super::account_lock::{AccountLock, LockSource, REVOCATION_WAIT};
use super::assess::Assessment;
use super::disputes::despite_disputes;
use super::open_orders::{exit_by_hand, traded};
use super::recover::{ended, reserve_late_inclusions};
use super::replace::SigningNonce;
use super::settle::OnchainOutcome;
use super::{PermitSlot, Pipeline, PipelineRefusal, PreparedAction, Preview, consent};
use crate::approval::Consent;
use crate::audit::{self, AuditError, AuditKind, LogEntry};
use crate::custody::SafeRefusal;
use crate::orders::OrderState;
use crate::orders::record::{self, ManualExit, OrderFigures, OrderRecord};
use crate::permit::{self, PermitFault, PermitUseRecord};
use crate::policy_engine::{ActionEnd, Reservation, ReserveError};
use crate::proposal::{LegPurpose, ReplacedTx};
use crate::safe_proposals::record::{self as safe_record, SafeProposalRecord, TakeOverError};
use crate::second_approval::SecondError;
use crate::signing_payload::SigningPayload;
use crate::simulate::SimulatedEffects;
use crate::value::{ActionValues, value_of_part};
use crate::verdict::Verdict;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{EventKind, PermitRefused, PermitUsed, TxPurpose, TxState, TxUpdate};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::id::PermitId;
use bardo_base::model::Check;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_store::StoreError;
use golem_chain::network::KnownContract;
use golem_chain::sender::{self, ChainNonces, LaneError, RecordError, SendRoute};

/// Shortest `retry_after_seconds` for an order that blocks an action.
const MIN_RETRY_AFTER_SECONDS: u64 = 5;

/// Result of a commit or rehearsal.
#[derive(Debug, Clone)]
pub struct CommitOutcome {
    /// Signing payload that was signed, or would have been.
    pub payload: SigningPayload,
    /// Findings of the last simulation before signing.
    pub simulated: SimulatedEffects,
    /// Dollar values that the action was counted at.
    pub values: ActionValues,
    /// Dollars that count against the limits: of a fair exit its possible loss and gas, else the whole spending.
    pub counted: Usd,
    /// Last verdict of every check.
    pub verdicts: Vec<Verdict>,
    /// Final state, as far as it is known.
    pub state: CommitState,
    /// Reports of the signed transactions, in order.
    pub legs: Vec<LegReport>,
    /// Balance changes and gas cost by the chain; `None` until they are known.
    pub truth: Option<OnchainOutcome>,
    /// Problems that did not undo the action, such as an allowance that could not be revoked.
    pub remarks: Vec<String>,
    /// Record of the order that was signed and submitted.
    pub order: Option<Box<OrderRecord>>,
    /// Proposal of a Safe that was signed for its other owners; nothing was sent.
    pub proposed: Option<Box<SafeProposalRecord>>,
    /// True for an action in paper mode: counted and stored in the paper ledger, not signed.
    pub on_paper: bool,
}

impl CommitOutcome {
    /// Dollars that left the wallet: the declared outflows as the chain shows them, and gas by the receipts, at the
    /// prices that the action was counted at. For an order that is only placed, this is its gas. `None` for a rehearsal,
    /// on paper, and until the chain shows the amounts.
    pub fn left_wallet(&self) -> Option<Usd> {
        if self.on_paper || matches!(self.state, CommitState::Simulated | CommitState::Unclear) {
            return None;
        }
        let gas = match &self.truth {
            Some(truth) => truth.gas_cost,
            None => self.legs.iter().try_fold(U256::ZERO, |sum, leg| sum.checked_add(leg.gas_cost?))?,
        };
        let mut left = value_of_part(self.values.gas, gas, self.values.gas_wei)?;
        let moves: &[_] = match (&self.truth, &self.state) {
            (Some(truth), _) => truth.moves.as_slice(),
            // Nothing but gas has left for a reverted plan or an open order.
            (None, CommitState::Reverted | CommitState::Placed) => &[],
            (None, _) => return None,
        };
        for one in &self.values.outflows {
            let moved = moves.iter().find(|moved| moved.token == one.token.id);
            let gone = moved.map_or(U256::ZERO, |moved| moved.before.saturating_sub(moved.after));
            left = left.checked_add(value_of_part(one.usd, gone, one.amount)?).ok()?;
        }
        Some(left)
    }
}

/// Final state of a commit or rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitState {
    /// Only simulated; nothing was signed.
    Simulated,
    /// Every transaction is included and succeeded.
    Done,
    /// Every transaction is included, and the order is signed, stored and submitted; or the action is proposed to the other
    /// owners of a Safe. Its reserved spending stays reserved until the chain shows how it ended. Repeating the action would
    /// execute it twice.
    Placed,
    /// A transaction is included and reverted.
    Reverted,
    /// Signed, and not settled yet. The pipeline follows it in the background; repeating the action would execute it
    /// twice.
    Unclear,
    /// Part of the plan is done; the rest was not signed or failed.
    Stopped {
        /// Error that stopped the plan.
        code: ErrorCode,
        /// Reason in one sentence.
        why: String,
    },
}

/// Report on one transaction of a plan.
#[derive(Debug, Clone)]
pub struct LegReport {
    /// Role of the transaction in the plan.
    pub purpose: LegPurpose,
    /// Transaction hash; after a replacement, the hash of the replacement.
    pub hash: B256,
    /// Public mempool or private relay.
    pub route: SendRoute,
    /// Nonce of the transaction.
    pub nonce: u64,
    /// State on the chain.
    pub state: TxState,
    /// Transaction of another plan that used the nonce, if one of the two is a cancellation.
    pub displaced_by: Option<B256>,
    /// Number of the block that includes it; `None` if none does yet.
    pub block: Option<u64>,
    /// Gas used, in gas units; `None` without a receipt.
    pub gas_used: Option<u64>,
    /// Gas cost in wei, without a rollup's data fee; `None` without a receipt.
    pub gas_cost: Option<U256>,
    /// Event logs of the receipt.
    pub logs: Vec<Log>,
}

/// Origin of the nonce of a plan's first transaction.
#[derive(Debug, Clone, Copy)]
enum NonceSource {
    /// Allocated with these counts of the chain.
    Lane(ChainNonces),
    /// Taken from a waiting transaction.
    Waiting(ReplacedTx),
}

/// Reservation of a plan in the ledger, with the dollars that it covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReservedSpend {
    pub reservation: Reservation,
    pub spent: Usd,
    pub gas: Usd,
}

impl ReservedSpend {
    /// Maximum spending if the gas cost, data fee included, came to `gas`. A rollup may charge more than was estimated.
    pub(super) fn most_with(&self, gas: Usd) -> Usd {
        let more = gas.checked_sub(self.gas).unwrap_or(Usd::ZERO);
        self.spent.checked_add(more).unwrap_or(self.spent)
    }
}

/// Reason why the reserving database transaction was rolled back.
#[derive(Debug, thiserror::Error)]
pub(super) enum GateError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Lane(#[from] LaneError),
    #[error(transparent)]
    Waiting(#[from] RecordError),
    #[error(transparent)]
    Reserve(#[from] ReserveError),
    #[error(transparent)]
    Permit(#[from] PermitFault),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error("a stop was set or changed before signing")]
    Stopped,
    #[error("the phase got worse before signing")]
    Worsened,
    #[error("the approval was revoked or expired before signing")]
    TakenBack,
    #[error(transparent)]
    Second(#[from] SecondError),
    #[error(transparent)]
    Safe(SafeRefusal),
    #[error("it was rejected in another process: {0}")]
    RefusedElsewhere(SafeText),
    #[error(
        "order {order} for the same pair can still be filled, and both would settle: wait until it ends, or cancel it \
         first"
    )]
    Replaces { order: B256, lasts_seconds: u64 },
}

impl From<TakeOverError> for GateError {
    fn from(error: TakeOverError) -> Self {
        match error {
            TakeOverError::Store(error) => Self::Store(error),
            TakeOverError::Ledger(error) => Self::Reserve(error),
            TakeOverError::Safe(refusal) => Self::Safe(refusal),
        }
    }
}

impl From<PermitFault> for PipelineRefusal {
    fn from(fault: PermitFault) -> Self {
        let code = match fault {
            PermitFault::Expired => ErrorCode::PermitExpired,
            PermitFault::Mismatch => ErrorCode::PermitMismatch,
            PermitFault::Consumed => ErrorCode::PermitConsumed,
        };
        Self::new(code, fault)
    }
}

impl From<GateError> for PipelineRefusal {
    fn from(error: GateError) -> Self {
        match error {
            GateError::Permit(fault) => fault.into(),
            GateError::Reserve(ReserveError::Refused(verdicts)) => Self::by(verdicts, None),
            GateError::Safe(refusal) => Self::new(refusal.code(), refusal),
            GateError::Stopped => Self::new(ErrorCode::Halted, error),
            GateError::Worsened => Self::new(ErrorCode::PermitMismatch, error),
            GateError::TakenBack | GateError::Second(_) => Self::new(ErrorCode::ApprovalRequired, error),
            GateError::RefusedElsewhere(_) => Self::new(ErrorCode::ApprovalRefused, error),
            GateError::Replaces { order, lasts_seconds } => Self {
                facts: vec![("order_hash", order.to_string().into()), ("retry_after_seconds", lasts_seconds.into())],
                ..Self::new(ErrorCode::OrderStillOpen, error)
            },
            GateError::Waiting(_) => Self::new(ErrorCode::ValidationFailed, error),
            GateError::Lane(LaneError::ChainAhead { .. }) => Self::new(ErrorCode::AccountUsedOutside, error),
            GateError::Store(_) | GateError::Lane(_) | GateError::Reserve(_) | GateError::Audit(_) => {
                Self::new(ErrorCode::StoreUnavailable, error)
            }
        }
    }
}

impl Pipeline {
    /// Executes a previewed action: once, within the permit's bounds, with sufficient consent.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if nothing was signed, or if nothing that was signed can ever be included. Other failures
    /// after the first signature are in the [`CommitOutcome`].
    pub async fn commit(&self, permit_id: PermitId, consent: Consent) -> Result<CommitOutcome, PipelineRefusal> {
        self.commit_by(LockSource::Own, permit_id, consent).await
    }

    /// Like [`Self::commit`], under an account lock that the caller already has.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn commit_in(
        &self,
        lock: AccountLock,
        permit_id: PermitId,
        consent: Consent,
    ) -> Result<CommitOutcome, PipelineRefusal> {
        self.commit_by(LockSource::Given(lock), permit_id, consent).await
    }

    pub(super) async fn commit_by(
        &self,
        lock: LockSource,
        permit_id: PermitId,
        consent: Consent,
    ) -> Result<CommitOutcome, PipelineRefusal> {
        let prepared = self.take(permit_id).inspect_err(|refusal| {
            // A used permit belongs to the commit that used it, and one of which that is not known may.
            if refusal.code == ErrorCode::PermitExpired {
                self.inner.queue.settle_charge(permit_id, true);
            }
        })?;
        let (payload, pipeline) = (prepared.preview.payload.clone(), self.clone());
        let proposal = prepared.preview.payload.proposal();
        let (call_id, chain_id) = (proposal.call_id, proposal.chain_id);
        let work = async move {
            let result = match pipeline.inner.paper.clone() {
                Some(paper) => pipeline.carry_out_on_paper(prepared, consent, lock, paper).await,
                None => Box::pin(pipeline.carry_out(prepared, consent, lock)).await,
            };
            if let Err(refusal) = &result {
                pipeline.refuse(&payload, permit_id, refusal).await;
            }
            pipeline.inner.queue.settle_charge(permit_id, result.is_err());
            result
        };
        // A separate task, because dropping the caller must not stop a commit half-way.
        let span = debug_span!("commit", %call_id, %permit_id, chain_id);
        match tokio::spawn(work.instrument(span)).await {
            Ok(result) => result,
            Err(_) => Err(PipelineRefusal::new(
                ErrorCode::ToolPanicked,
                "the commit failed: check the account's open transactions before any other action",
            )),
        }
    }

    /// Runs a commit up to the point before anything is written, for dry runs. Consumes the permit.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the permit has expired or was used, or if a check blocks the action now.
    pub async fn rehearse(&self, permit_id: PermitId) -> Result<CommitOutcome, PipelineRefusal> {
        let prepared = self.take(permit_id)?;
        let result = self.reassess(&prepared).await;
        if let Err(refusal) = &result {
            self.refuse(&prepared.preview.payload, permit_id, refusal).await;
        }
        let assessment = result?;
        let payload = &prepared.preview.payload;
        let body = json!({
            "permit_id": permit_id, "tool": payload.proposal().tool.name,
            "expected_outcome": payload.proposal().expected_outcome,
        });
        if let Err(error) = self.inner.audit_log.record(self.note(payload, AuditKind::PermitRehearsed, body)).await {
            tracing::warn!(%error, "a dry run is not in the audit log");
        }
        committed(&prepared.preview, assessment, CommitState::Simulated)
    }

    /// Reports and records why a permit was refused.
    async fn refuse(&self, payload: &SigningPayload, permit_id: PermitId, refusal: &PipelineRefusal) {
        let refused = PermitRefused { permit_id, code: refusal.code, why: refusal.why() };
        self.emit(payload, EventKind::PermitRefused(refused));
        self.record_refusal(payload, Some(permit_id), refusal).await;
    }

    /// Returns true if the permit was used, or a commit has started with it, in this run or an earlier one.
    ///
    /// # Errors
    /// [`PipelineRefusal`] with `STORE_UNAVAILABLE` if the ledger cannot be read.
    pub fn was_used(&self, permit_id: PermitId) -> Result<bool, PipelineRefusal> {
        if matches!(self.prepared().get(&permit_id), Some(PermitSlot::Taken { .. })) {
            return Ok(true);
        }
        let used = self.inner.store.read(|connection| permit::is_consumed(connection, permit_id));
        used.map_err(|error| PipelineRefusal::new(ErrorCode::StoreUnavailable, error))
    }

    /// Removes a permit from memory, so that only one commit can start with it.
    fn take(&self, permit_id: PermitId) -> Result<PreparedAction, PipelineRefusal> {
        let taken = {
            let mut slots = self.prepared();
            match slots.remove(&permit_id) {
                Some(PermitSlot::Open(prepared)) => {
                    slots.insert(permit_id, PermitSlot::Taken { until: prepared.preview.permit.expires });
                    Some(Ok(prepared))
                }
                Some(taken @ PermitSlot::Taken { .. }) => {
                    slots.insert(permit_id, taken);
                    Some(Err(PermitFault::Consumed))
                }
                None => None,
            }
        };
        match taken {
            Some(Ok(prepared)) => Ok(*prepared),
            Some(Err(fault)) => Err(fault.into()),
            None if self.was_used(permit_id)? => Err(PermitFault::Consumed.into()),
            None => Err(PermitFault::Expired.into()),
        }
    }

    /// Repeats everything that can be checked without a reservation: the permit itself, and every check on the latest
    /// block. If that is still the preview's block, chain state is not read again.
    pub(super) async fn reassess(&self, prepared: &PreparedAction) -> Result<Assessment, PipelineRefusal> {
        let PreparedAction { preview, reader, view, .. } = prepared;
        self.verify(preview)?;
        let assessment = self.assess(reader, &preview.payload, 0, prepared.phase_request.now(), Some(view)).await?;
        self.verify(preview)?;
        if assessment.blocks() {
            self.emit_verdicts(&preview.payload, &assessment.verdicts);
            // The preview passed every check, so the chain has changed. A price outside the bounds fails both the
            // simulation and the slippage guard.
            let only_the_chain = assessment
                .verdicts
                .iter()
                .filter(|verdict| verdict.blocks())
                .all(|verdict| matches!(verdict.check, Check::Simulation | Check::SlippageGuard));
            if only_the_chain && self.is_outdated(preview) {
                let why =
                    "another action of this account came first, so it is no longer as simulated: preview it again";
                return Err(PipelineRefusal::new(ErrorCode::PermitMismatch, why));
            }
            return Err(if only_the_chain && !assessment.faults.is_empty() {
                PipelineRefusal::out_of_bounds(&assessment.faults, assessment.inputs.simulation)
            } else {
                PipelineRefusal::by(assessment.verdicts, assessment.inputs.simulation)
            });
        }
        Ok(assessment)
    }

    fn verify(&self, preview: &Preview) -> Result<(), PipelineRefusal> {
        let now = self.inner.clock.now_millis();
        Ok(preview.permit.verify(&preview.payload, self.inner.rules.version(), now, Instant::now())?)
    }

    async fn carry_out(
        &self,
        prepared: PreparedAction,
        consent: Consent,
        lock: LockSource,
    ) -> Result<CommitOutcome, PipelineRefusal> {
        let permit_id = prepared.preview.permit.permit_id;
        let _turn = self.lock_for_plan(&prepared.preview, lock).await?;
        let payload = &prepared.preview.payload;
        self.verified_replacement(payload)?;
        self.order_has_ended(&prepared.preview)?;
        let assessment = self.reassess(&prepared).await?;
        if let Some(verdict) = self.unseen(payload, &assessment.inputs)? {
            return Err(PipelineRefusal::by(vec![verdict], None));
        }
        self.consented(&prepared.preview, &assessment, &consent)?;
        failpoint::reach(Failpoint::LookedAgain);
        let figures = self.order_figures(payload, &assessment).await?;
        // The nonces are read last, so that a transaction from another wallet is noticed. An action that only signs an
        // order, or that is proposed to a Safe's other owners, takes no nonce.
        let proposes = payload.proposes_to_safe();
        let next = match (&payload.proposal().replaces, payload.legs().is_empty() || proposes) {
            (_, true) => None,
            (None, false) => {
                let (nonces, fees) = self.for_next(payload, despite_disputes(&assessment)).await?;
                Some((NonceSource::Lane(nonces), fees))
            }
            (Some(replaced), false) => {
                let fees = self.for_replacement(payload, replaced).await?;
                Some((NonceSource::Waiting(*replaced), fees))
            }
        };
        let source = next.map(|(source, _)| source);
        let at_work = self.work_on(permit_id);
        let (held, nonce) = self.gate(&prepared, &assessment, source, figures, consent).await?;
        let next = nonce.zip(next.map(|(_, fees)| fees));
        let used = PermitUsed { permit_id, simulation_hash: prepared.preview.permit.simulation_hash };
        self.emit(&prepared.preview.payload, EventKind::PermitConsumed(used));
        if proposes {
            return self.propose(prepared, assessment, held).await;
        }
        Box::pin(self.run_plan(prepared, assessment, held, next, at_work)).await
    }

    /// Acquires the account lock for the duration of the plan. `None` for a part of a plan that already holds it, and
    /// for a revocation whose wait for the lock timed out.
    pub(super) async fn lock_for_plan(
        &self,
        preview: &Preview,
        lock: LockSource,
    ) -> Result<Option<AccountLock>, PipelineRefusal> {
        let (chain_id, account) = (preview.payload.proposal().chain_id, preview.payload.account());
        if preview.payload.proposal().replaces.is_some() {
            // The plan that waits for the transaction may hold the lock until its patience ends.
            return Ok(None);
        }
        match lock {
            LockSource::Outer => Ok(None),
            LockSource::Given(lock) if lock.is_of(chain_id, account) => Ok(Some(lock)),
            LockSource::Given(_) | LockSource::Own => {
                let patience = preview.permit.expires.saturating_duration_since(Instant::now());
                if preview.simulated.only_revokes {
                    return Ok(self.lock_account(chain_id, account, patience.min(REVOCATION_WAIT)).await.ok());
                }
                Ok(Some(self.lock_account(chain_id, account, patience).await?))
            }
        }
    }

    /// Checks that the consent given covers the action as it is assessed now.
    pub(super) fn consented(
        &self,
        preview: &Preview,
        assessment: &Assessment,
        given: &Consent,
    ) -> Result<(), PipelineRefusal> {
        let inputs = &assessment.inputs;
        let above = self.inner.rules.above_hot_lane(&preview.payload, inputs);
        if above && preview.opinion.is_none() {
            let why = "it now needs the safety-guardian's agreement, and the safety-guardian has not been asked";
            return Err(PipelineRefusal::new(ErrorCode::PermitMismatch, why));
        }
        if above && !inputs.reduce_only() && preview.opinion.as_ref().is_some_and(|opinion| !opinion.agrees) {
            let why = "it is no longer a fair exit, and the safety-guardian does not agree to it";
            return Err(PipelineRefusal::new(ErrorCode::PermitMismatch, why));
        }
        let by_rules = self.inner.rules.consent(&preview.payload, inputs);
        let needs = consent::needs(by_rules, &preview.payload, inputs, &assessment.verdicts, above, &preview.parties);
        let second = self.inner.rules.second_approval(&preview.payload, inputs);
        let needs = consent::and_second(needs, second.as_ref());
        let now = self.inner.clock.now_millis();
        consent::second_given(second.as_ref(), preview, given, now)
            .map_err(|error| PipelineRefusal::new(ErrorCode::ApprovalRequired, error))?;
        consent::enough(preview, &needs, given, || self.inner.rules.always_covers(&preview.payload, inputs))
    }

    /// Reserves the action in one immediate database transaction: rechecks stop, rules, permit and caps, consumes the
    /// permit, reserves the spending and allocates the nonce. Either all of it is written or nothing.
    #[instrument(level = "debug", name = "reserve", skip_all)]
    async fn gate(
        &self,
        prepared: &PreparedAction,
        assessment: &Assessment,
        source: Option<NonceSource>,
        figures: Option<OrderFigures>,
        consent: Consent,
    ) -> Result<(ReservedSpend, Option<SigningNonce>), PipelineRefusal> {
        let preview = &prepared.preview;
        let payload = preview.payload.clone();
        let proposal = payload.proposal();
        let inputs = Arc::new(assessment.inputs.clone());
        let Ok(values) = inputs.values.as_ref() else {
            return Err(PipelineRefusal::new(ErrorCode::SafetyPriceUnknown, "its value is unknown"));
        };
        let counted = inputs.counted();
        let counted = counted.map_err(|doubt| PipelineRefusal::new(ErrorCode::SafetyPriceUnknown, doubt))?;
        let (spent, gas) = (counted, values.gas);
        let used = PermitUseRecord {
            permit_id: preview.permit.permit_id,
            simulation_hash: preview.permit.simulation_hash,
            call_id: proposal.call_id,
            golem_id: proposal.golem_id.clone(),
            chain_id: proposal.chain_id,
            account: proposal.account,
            gas_usd: gas.to_string(),
            spent_usd: spent.to_string(),
        };
        let (rules, clock, permit) =
            (Arc::clone(&self.inner.rules), Arc::clone(&self.inner.clock), preview.permit.clone());
        let wrapped = prepared.reader.network().book.contract(KnownContract::WrappedNative);
        let queue = self.inner.queue.clone();
        let (pipeline, prepared) = (self.clone(), prepared.clone());
        let written = self.inner.store.write(move |transaction| {
            if rules.stop() != inputs.stop {
                return Err(GateError::Stopped);
            }
            let now = clock.now_millis();
            permit.verify(&payload, rules.version(), now, Instant::now())?;
            // Spending that turned out to have happened after all must count first.
            reserve_late_inclusions(transaction, &*rules, now)?;
            let proposed = safe_record::take_over(transaction, &*rules, &payload, now)?;
            let reservation = rules.reserve(transaction, now, &payload, &inputs)?;
            if let Some(id) = proposed {
                let executes = payload.safe().is_some_and(|plan| plan.executes);
                safe_record::taken_over(transaction, id, reservation, executes)?;
            }
            if prepared.worsened(&inputs) {
                return Err(GateError::Worsened);
            }
            let second = rules.second_approval(&payload, &inputs);
            consent::second_given(second.as_ref(), &prepared.preview, &consent, now)?;
            if let Consent::Approved(yes) = &consent {
                // Read rejections from other processes first: the queue learns of a rejection before its row leaves the
                // ledger.
                if let Some(decision) = queue.close(transaction, yes)? {
                    return Err(GateError::RefusedElsewhere(decision));
                }
                if !queue.stands(yes) {
                    return Err(GateError::TakenBack);
                }
            }
            if !permit::consume(transaction, &used, reservation.0, now)? {
                return Err(PermitFault::Consumed.into());
            }
            let held = ReservedSpend { reservation, spent, gas };
            let exit = inputs.simulation.as_ref().and_then(|simulated| exit_by_hand(&payload, simulated));
            no_open_order(transaction, &payload, wrapped, exit, now)?;
            let order = figures.and_then(|figures| pipeline.record_of(&prepared, figures, &held, now));
            if let Some(record) = &order {
                record::insert(transaction, record)?;
            }
            let chain_id = payload.proposal().chain_id;
            let signer = payload.signer();
            let nonce = match source {
                Some(NonceSource::Lane(seen)) => {
                    Some(SigningNonce::Reserved(sender::allocate(transaction, chain_id, signer, seen, now)?))
                }
                Some(NonceSource::Waiting(replaced)) => {
                    sender::waiting_of(transaction, replaced.hash, chain_id, signer)?;
                    Some(SigningNonce::Replacing(replaced))
                }
                None => None,
            };
            let body = json!({
                "permit_id": used.permit_id, "simulation_hash": used.simulation_hash, "reservation": reservation.0,
                "consent": consent.word(), "second_approval": consent.second(), "nonce": nonce.as_ref().map(SigningNonce::number),
                "order": order.map(|record| record.hash),
            });
            let (proposal, kind) = (payload.proposal(), AuditKind::PermitConsumed);
            let entry = LogEntry { kind, call_id: Some(proposal.call_id), golem_id: &proposal.golem_id, body: &body };
            audit::append(transaction, now, &entry)?;
            failpoint::reach(Failpoint::InsideGate);
            Ok((held, nonce))
        });
        let gated = written.await?;
        failpoint::reach(Failpoint::Gated);
        Ok(gated)
    }

    /// Emits the state of a transaction of the plan, with its block and its gas cost once it is in one.
    pub(super) fn emit_leg(
        &self,
        payload: &SigningPayload,
        leg: usize,
        hash: B256,
        state: TxState,
        (block, gas_cost_wei): (Option<u64>, Option<U256>),
    ) {
        let update = TxUpdate {
            chain_id: payload.proposal().chain_id,
            hash,
            leg: u32::try_from(leg).unwrap_or(u32::MAX).saturating_add(1),
            of: u32::try_from(payload.legs().len()).unwrap_or(u32::MAX),
            state,
            block,
            gas_cost_wei,
            purpose: payload.legs().get(leg).map(|leg| purpose(leg.purpose)),
        };
        self.emit(payload, EventKind::TxUpdate(update));
    }

    /// Records how a reservation ended, unless that is already recorded.
    #[instrument(level = "debug", name = "settle", skip_all, fields(%permit_id))]
    pub(super) async fn settle_as(
        &self,
        permit_id: PermitId,
        held: ReservedSpend,
        end: ActionEnd,
    ) -> Result<(), ReserveError> {
        let (rules, clock) = (Arc::clone(&self.inner.rules), Arc::clone(&self.inner.clock));
        let written = self.inner.store.write(move |transaction| {
            if permit::has_ended(transaction, permit_id)? {
                return Ok::<_, ReserveError>(());
            }
            rules.settle(transaction, clock.now_millis(), held.reservation, end)?;
            safe_record::after_action(transaction, &*rules, (held.reservation, end), clock.now_millis())?;
            if let Some(ended) = ended(end) {
                permit::note_end(transaction, permit_id, ended)?;
                if let Some(order) = record::find_by_permit(transaction, permit_id)? {
                    let failed = OrderState::failed(&order.message);
                    record::end(transaction, order.hash, failed, clock.now_millis())?;
                }
            }
            failpoint::reach(Failpoint::InsideSettle);
            Ok(())
        });
        written.await?;
        failpoint::reach(Failpoint::Settled);
        Ok(())
    }
}

/// Builds the result of a commit that ends before anything was signed.
pub(super) fn committed(
    preview: &Preview,
    assessment: Assessment,
    state: CommitState,
) -> Result<CommitOutcome, PipelineRefusal> {
    let Assessment { inputs, verdicts, .. } = assessment;
    let counted = inputs.counted();
    match (inputs.simulation, inputs.values) {
        (Some(simulated), Ok(values)) => Ok(CommitOutcome {
            payload: preview.payload.clone(),
            simulated,
            counted: counted.unwrap_or(values.spent),
            values,
            verdicts,
            state,
            legs: Vec::new(),
            truth: None,
            remarks: Vec::new(),
            order: None,
            proposed: None,
            on_paper: false,
        }),
        _ => Err(PipelineRefusal::by(verdicts, None)),
    }
}
/// Purpose of a transaction, as events have it.
const fn purpose(purpose: LegPurpose) -> TxPurpose {
    match purpose {
        LegPurpose::Approve => TxPurpose::Approve,
        LegPurpose::Main => TxPurpose::Main,
        LegPurpose::CleanUp => TxPurpose::CleanUp,
    }
}

/// Refuses an action whose pair has an open order of the same account.
fn no_open_order(
    transaction: &Transaction<'_>,
    payload: &SigningPayload,
    wrapped: Option<Address>,
    exit: Option<ManualExit>,
    now: u64,
) -> Result<(), GateError> {
    let Some(pair) = traded(payload) else { return Ok(()) };
    let whose = (payload.proposal().chain_id, payload.proposal().account);
    match record::conflicting_orders(transaction, whose, &pair, wrapped, exit)?.first() {
        Some(order) => {
            // An expired order only waits for recovery to read its end from the chain, a block or two later.
            let lasts_seconds = order.usable_until().saturating_sub(now / 1_000).max(MIN_RETRY_AFTER_SECONDS);
            Err(GateError::Replaces { order: order.hash, lasts_seconds })
        }
        None => Ok(()),
    }
}
