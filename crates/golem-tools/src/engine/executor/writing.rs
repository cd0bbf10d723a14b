//! Writes: the tool proposes, the pipeline previews, the operator approves where needed, and the pipeline commits. Each
//! write runs on a task of its own. Until signing begins, the caller can cancel it explicitly or by going away. After
//! that it runs to its end, and its answer is kept under its key even if the caller is gone.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::B256;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep, timeout};
use tracing::{Instrument as _, debug_span, instrument};

use super::call_end::{CallEnd, CallRefusal, ended_badly, failure};
use super::offer::{ManualAnswer, OfferReceiver};
use super::{Executor, RunningCall, Shared, ToolJob, bound, settle, to_json};
use crate::engine::catalog::CatalogEntry;
use crate::engine::context::CallContext;
use crate::engine::environment::ConnectedChain;
use crate::engine::keys::KeyClaim;
use crate::engine::steps::StepCaller;
use crate::engine::tool::{PreparedWrite, ToolReply, WriteJob, WriteRest};
use crate::engine::write_access::{ApprovalMode, WriteAccess};
use bardo_base::error::{ErrorCode, ErrorGroup, ToolError};
use bardo_base::fabric::{EventKind, ToolOverrun, TxState};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::model::{Phase, TickBudget, ToolMeta};
use bardo_base::text::SafeText;
use bardo_safety::approval::{AnswerError, ApprovalNeed, ApprovalReason, AskRefused, AskedBy, Consent, Decision};
use bardo_safety::pipeline::{AccountLock, CommitOutcome, CommitState, PhaseRequest, Pipeline, Preview};
use bardo_safety::verdict::Verdict;
use bardo_session::envelope::{CallStatus, ToolResponse};

/// Options of a call beside its parameters.
#[derive(Debug, Clone)]
pub(super) struct CallOptions {
    pub(super) dry_run: bool,
    pub(super) approve: Option<ApprovalMode>,
    pub(super) phase: Option<Phase>,
    pub(super) asked_by: AskedBy,
}

/// Cancellation state of a write.
#[derive(Debug, Default)]
pub(super) struct CancelState {
    progress: Mutex<WriteProgress>,
    /// True once no further step of the write may begin.
    steps_end: watch::Sender<bool>,
}

/// Effect of cancelling a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelEffect {
    /// Nothing was signed, and nothing will be.
    Ended,
    /// A step was signed; no further one begins.
    NoFurtherStep,
    /// None: it is being signed.
    TooLate,
}

/// Stage of a write, and the time that the operator has taken so far.
#[derive(Debug, Default)]
struct WriteProgress {
    stage: WriteStage,
    /// Time spent in earlier stages of asking.
    asked: Duration,
    /// Beginning of the present stage of asking; `None` in any other stage.
    asking_since: Option<Instant>,
}

/// Progress of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum WriteStage {
    /// Preparing, checking and simulating, limited by the tool's budget.
    #[default]
    Preparing,
    /// Waiting for the operator, without a budget.
    Asking,
    /// Cancelling an agent's order that blocks the write; ends with the cancellation transaction.
    Clearing,
    /// Being signed; can no longer be cancelled.
    Committing,
    /// Between further steps after the first one, or in one of them; what has begun is not undone.
    Stepping,
    /// Cancelled before signing.
    Cancelled,
}

impl CancelState {
    fn progress(&self) -> MutexGuard<'_, WriteProgress> {
        self.progress.lock()
    }

    fn stage(&self) -> WriteStage {
        self.progress().stage
    }

    /// Time for which the write has waited for the operator. It counts against no budget.
    fn asked(&self) -> Duration {
        let progress = self.progress();
        let present = progress.asking_since.map(|since| since.elapsed()).unwrap_or_default();
        progress.asked.saturating_add(present)
    }

    /// Moves to the next stage.
    ///
    /// # Errors
    /// `TOOL_CANCELLED` if the write was cancelled.
    fn advance(&self, to: WriteStage) -> Result<(), CallRefusal> {
        let mut progress = self.progress();
        if progress.stage == WriteStage::Cancelled {
            return Err(ToolError::new(ErrorCode::ToolCancelled, "it was cancelled before anything was signed").into());
        }
        progress.stage = to;
        let now = Instant::now();
        let asking = (to == WriteStage::Asking).then_some(now);
        if let Some(since) = std::mem::replace(&mut progress.asking_since, asking) {
            progress.asked = progress.asked.saturating_add(now.saturating_duration_since(since));
        }
        Ok(())
    }

    /// Cancels the write, or what of it has not begun.
    pub(super) fn cancel(&self) -> CancelEffect {
        let mut progress = self.progress();
        match progress.stage {
            WriteStage::Preparing | WriteStage::Asking | WriteStage::Clearing | WriteStage::Cancelled => {
                progress.stage = WriteStage::Cancelled;
                CancelEffect::Ended
            }
            WriteStage::Stepping => {
                self.steps_end.send_replace(true);
                CancelEffect::NoFurtherStep
            }
            WriteStage::Committing => CancelEffect::TooLate,
        }
    }

    /// Moves from the first step, which is done, to the further ones. What is being signed cannot have been cancelled.
    fn begin_steps(&self) -> watch::Receiver<bool> {
        self.progress().stage = WriteStage::Stepping;
        self.steps_end.subscribe()
    }

    /// True from the commit on, also while further steps follow: what was done stays done.
    fn has_signed(&self) -> bool {
        match self.stage() {
            WriteStage::Committing | WriteStage::Stepping => true,
            WriteStage::Preparing | WriteStage::Asking | WriteStage::Clearing | WriteStage::Cancelled => false,
        }
    }

    fn preparing(&self) -> bool {
        self.stage() == WriteStage::Preparing
    }
}

/// Result of a write within its time budget.
enum BudgetedEnd<T> {
    /// The task ended.
    Joined(Result<T, JoinError>),
    /// The write was cancelled in its preparation, at its last limit.
    TimedOut,
}

/// Waits for the end of a write that was called at `started`. `overrun` is called once the tool, the pipeline and the
/// chain have taken the budget's limit; a write that is still being prepared at the last limit is cancelled. The time in
/// which the operator reads a decision does not count.
async fn within_budget<T>(
    handle: &mut JoinHandle<T>,
    leave: &CancelState,
    started: Instant,
    budget: TickBudget,
    overrun: impl Fn(),
) -> BudgetedEnd<T> {
    for limit in [budget.limit(), budget.cancel_after()] {
        loop {
            let left = limit.saturating_sub(started.elapsed().saturating_sub(leave.asked()));
            if left.is_zero() {
                break;
            }
            // The time that is left stands still while the operator reads, so the next look is not earlier than this.
            if let Ok(joined) = timeout(left.max(POLL_INTERVAL), &mut *handle).await {
                return BudgetedEnd::Joined(joined);
            }
        }
        if limit == budget.limit() && leave.stage() != WriteStage::Cancelled {
            overrun();
        }
    }
    if leave.preparing() && leave.cancel() == CancelEffect::Ended {
        return BudgetedEnd::TimedOut;
    }
    BudgetedEnd::Joined(handle.await)
}

impl Executor {
    /// Runs a write and waits for its answer. The answer is produced and kept even if the caller goes away.
    pub(super) async fn write(
        &self,
        context: &CallContext,
        entry: &Arc<CatalogEntry>,
        started: Instant,
        (job, params, options): (WriteJob, Value, CallOptions),
        (claim, hold): (Option<KeyClaim>, Option<OfferReceiver>),
    ) -> ToolResponse {
        let leave = Arc::new(CancelState::default());
        let meta = entry.def.meta;
        let act = WriteTask {
            shared: Arc::clone(&self.shared),
            context: context.clone(),
            entry: Arc::clone(entry),
            options,
            leave: Arc::clone(&leave),
            claim,
            hold,
            by_hand: None,
            cleared: Vec::new(),
            broke: false,
        };
        let handle = tokio::spawn(act.run(job, params, started).in_current_span());
        let mut guard = Guard::new(&self.shared, context.clone(), started, handle, Arc::clone(&leave));
        let budget = meta.tick_budget;
        let overrun = || context.emit(EventKind::ToolOverrun(ToolOverrun { budget_ms: budget.limit_millis() }));
        let joined = match within_budget(&mut guard.handle, &leave, started, budget, overrun).await {
            BudgetedEnd::Joined(joined) => joined,
            BudgetedEnd::TimedOut => {
                guard.over = true;
                guard.handle.abort();
                return self.shared.answer(context, &meta, started, timed_out(&meta).into());
            }
        };
        guard.over = true;
        match joined {
            Ok(response) => response,
            Err(error) => self.shared.answer(context, &meta, started, ended_badly(&meta, error).into()),
        }
    }
}

/// Builds the error for a signed transaction that is not included, or lacks confirmations, after the waiting time.
fn unsettled(committed: &CommitOutcome) -> Option<ToolError> {
    let open = committed.legs.iter().find(|leg| !matches!(leg.state, TxState::Confirmed | TxState::Reverted))?;
    let reason = format_args!("transaction {} was signed, but did not settle within the timeout", open.hash);
    Some(ToolError::new(ErrorCode::ExecutionTxTimeout, reason).detail("tx_hash", open.hash.to_string()))
}

fn timed_out(meta: &ToolMeta) -> CallRefusal {
    let seconds = meta.tick_budget.cancel_after().as_secs();
    ToolError::new(
        ErrorCode::ToolTimeout,
        format_args!("{} was cancelled after {seconds} s, before anything was signed", meta.name),
    )
    .detail("budget_ms", meta.tick_budget.limit_millis())
    .into()
}

/// Running write. Dropping the guard cancels it, unless signing has begun.
struct Guard<'a> {
    shared: &'a Shared,
    context: CallContext,
    started: Instant,
    handle: JoinHandle<ToolResponse>,
    leave: Arc<CancelState>,
    over: bool,
}

impl<'a> Guard<'a> {
    fn new(
        shared: &'a Shared,
        context: CallContext,
        started: Instant,
        handle: JoinHandle<ToolResponse>,
        leave: Arc<CancelState>,
    ) -> Self {
        let running = RunningCall::Write(handle.abort_handle(), Arc::clone(&leave));
        shared.running().insert(context.call_id(), running);
        Self { shared, context, started, handle, leave, over: false }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.over || self.handle.is_finished() {
            self.shared.running().remove(&self.context.call_id());
        } else if !self.leave.has_signed() && self.leave.cancel() == CancelEffect::Ended {
            self.shared.running().remove(&self.context.call_id());
            self.handle.abort();
            let error = ToolError::new(ErrorCode::ToolCancelled, "the caller disconnected before anything was signed");
            self.context.finish(failure(self.started, &error));
        }
    }
}

/// State of one write on its task.
struct WriteTask {
    shared: Arc<Shared>,
    context: CallContext,
    entry: Arc<CatalogEntry>,
    options: CallOptions,
    leave: Arc<CancelState>,
    claim: Option<KeyClaim>,
    hold: Option<OfferReceiver>,
    /// Operator's answer about their own action.
    by_hand: Option<ManualAnswer>,
    /// Hashes of agents' orders that blocked this write and were cancelled for it.
    cleared: Vec<B256>,
    /// True if the commit panicked, so that this task does not know what was signed.
    broke: bool,
}

impl Drop for WriteTask {
    /// Releases the key of a call that was cancelled or failed before signing.
    fn drop(&mut self) {
        if self.leave.has_signed() {
            return;
        }
        if let (Some(claim), Ok(runtime)) = (self.claim.take(), Handle::try_current()) {
            runtime.spawn(async move {
                // If the release fails, the key is free again once its call counts as abandoned.
                let _released = claim.release().await;
            });
        }
    }
}

/// Preview, with the rest of the tool's work after it.
struct Previewed {
    preview: Arc<Preview>,
    rest: Box<dyn WriteRest>,
    /// Account lock count before the preview was prepared; `None` if the lock was held.
    turns: Option<u64>,
}

/// Maximum number of previews when another action of the account interferes.
const OVERTAKEN: usize = 3;
/// Timeout for the other action, per attempt: one or two blocks of the slowest chains.
const OTHERS_ACT: Duration = Duration::from_secs(25);
/// Poll interval while waiting for the other action.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of agents' orders that are cancelled for one exit. Each agent has at most one open order per pair, or
/// two if one of them uses the wrapped native token.
const MOST_CLEARED: usize = 16;

impl WriteTask {
    async fn run(mut self, job: WriteJob, params: Value, started: Instant) -> ToolResponse {
        let ended = Box::pin(self.attempt(job, params)).await.unwrap_or_else(Into::into);
        // Whatever was signed must never be signed again under the same key, whatever the outcome.
        let keep = self.leave.has_signed() && ended.reply.is_some();
        let response = self.shared.answer(&self.context, &self.entry.def.meta, started, ended);
        if self.broke {
            // The key stays taken, without an answer. The ledger records the outcome of the call.
            drop(self.claim.take());
        }
        let response = settle(self.claim.take(), response, keep).await;
        self.shared.running().remove(&self.context.call_id());
        response
    }

    async fn attempt(&mut self, job: WriteJob, mut params: Value) -> Result<CallEnd, CallRefusal> {
        let shared = Arc::clone(&self.shared);
        let Some(acting) = &shared.acting else {
            let error = ToolError::new(ErrorCode::WalletNotConfigured, "nothing can be signed: no account is set up");
            return Err(error.into());
        };
        let then = acting.paper.now();
        let acting = &acting.as_of(then);
        let mut previewed = self.preview_undisturbed(acting, job, &params).await?;
        // An action that was previewed and committed by its permit runs unchanged or not at all, unless it waits for a
        // decision, which then shows what it has become.
        let as_it_is = self.hold.is_some();
        if let Some(hold) = self.hold.take() {
            self.leave.advance(WriteStage::Asking)?;
            self.by_hand = hold.wait(&previewed.preview).await?;
        }
        // An action that was approved in one mode must not run in the other.
        if self.options.dry_run || acting.only_rehearses(then) {
            return self.rehearse(acting, previewed).await;
        }
        let (consent, lock) = loop {
            match self.consent(acting, &mut previewed, &params).await? {
                ConsentAnswer::Consent(consent) => {
                    let lock = self.lock_account(acting, &previewed.preview).await?;
                    let stale = lock.as_ref().is_some_and(|lock| previewed.turns != Some(lock.count()));
                    let mut consent = Some(consent);
                    if stale && !as_it_is && !matches!(consent, Some(Consent::Approved(_))) {
                        // Another action of the account ran first, so balances and allowances have changed. Nobody has
                        // approved the old preview; prepare a new one while holding the account lock.
                        previewed = self.preview(acting, self.bind(&params)?, &params).await?;
                        consent = self.without_asking(acting, &previewed.preview);
                    }
                    if let Some(lock) = lock.as_ref().filter(|_| consent.is_some() && !acting.only_rehearses(then)) {
                        let cleared = self.cancel_blocking_orders(acting, &previewed.preview, lock).await?;
                        if cleared && as_it_is {
                            return Err(refused(ToolError::new(ErrorCode::PermitMismatch, CLEARED)));
                        }
                        if cleared {
                            // The new preview no longer reserves the allowances of the cancelled orders.
                            previewed = self.preview(acting, self.bind(&params)?, &params).await?;
                            consent = self.without_asking(acting, &previewed.preview);
                        }
                    }
                    if let Some(consent) = consent {
                        break (consent, lock);
                    }
                }
                ConsentAnswer::Edit(amount) => {
                    edit(&mut params, amount)?;
                    self.leave.advance(WriteStage::Preparing)?;
                    previewed = self.preview(acting, self.bind(&params)?, &params).await?;
                }
            }
        };
        if acting.only_rehearses(then) {
            // The mode changed while the operator decided. The approval was for the other mode, even if it has changed
            // back.
            return self.rehearse(acting, previewed).await;
        }
        self.leave.advance(WriteStage::Committing)?;
        if let Some(claim) = &self.claim {
            claim.begin_acting().await?;
        }
        failpoint::reach(Failpoint::Acting);
        let permit_id = previewed.preview.permit.permit_id;
        let committed = match lock {
            Some(lock) => acting.pipeline.commit_in(lock, permit_id, consent).await,
            None => acting.pipeline.commit(permit_id, consent).await,
        };
        match committed {
            Ok(committed) => self.carried_out(acting, previewed, &committed).await,
            Err(refusal) => {
                self.broke = refusal.code == ErrorCode::ToolPanicked;
                Err(refused(refusal.error()))
            }
        }
    }

    /// Carries on an action of several steps after its first, and returns the end of the call.
    async fn carried_out(
        &mut self,
        acting: &WriteAccess,
        previewed: Previewed,
        committed: &CommitOutcome,
    ) -> Result<CallEnd, CallRefusal> {
        let mut rest = previewed.rest;
        let carried = match committed.state {
            CommitState::Done => {
                let CallOptions { approve, phase, asked_by, .. } = self.options.clone();
                let ends = self.leave.begin_steps();
                let whole = (self.context.meta().name, self.context.call_id());
                let asks = (approve, phase, asked_by);
                let steps = StepCaller::new(self.context.executor(), whole, asks, ends);
                rest.carry_on(&self.context, &steps, committed).await
            }
            CommitState::Simulated
            | CommitState::Placed
            | CommitState::Unclear
            | CommitState::Reverted
            | CommitState::Stopped { .. } => Ok(()),
        };
        let mut ended = self.ended(&previewed.preview, rest, committed).await?;
        if let Err(failed) = carried {
            ended.status = failed.status;
            ended.error = Some(failed.error);
            // The first step is done; the action is not.
            if let Some(Value::Object(hints)) = ended.reply.as_mut().and_then(|it| it.decision_hints.as_mut()) {
                hints.insert("state".to_owned(), Value::from("stopped"));
            }
        }
        if committed.state == CommitState::Reverted {
            let why = acting.pipeline.why_reverted(committed).await;
            ended.error = Some(ToolError::new(ErrorCode::ExecutionTxReverted, why));
        }
        Ok(ended)
    }

    /// Ends a call whose action is only rehearsed.
    async fn rehearse(&mut self, acting: &WriteAccess, previewed: Previewed) -> Result<CallEnd, CallRefusal> {
        let rehearsed = acting.pipeline.rehearse(previewed.preview.permit.permit_id).await;
        let rehearsed = rehearsed.map_err(|refusal| refused(refusal.error()))?;
        self.ended(&previewed.preview, previewed.rest, &rehearsed).await
    }

    /// Cancels agents' orders that block a fair exit by the operator. The account lock is held, so that no agent places
    /// another order in between. Returns true if any order was cancelled.
    ///
    /// # Errors
    /// `ORDER_STILL_OPEN` if a cancellation needs approval, fails or does not settle in time.
    async fn cancel_blocking_orders(
        &mut self,
        acting: &WriteAccess,
        preview: &Preview,
        lock: &AccountLock,
    ) -> Result<bool, CallRefusal> {
        let before = self.cleared.len();
        for _ in 0..MOST_CLEARED {
            let asked = PhaseRequest { phase: preview.phase, own: Some(acting.phase.clone()) };
            let account = Arc::clone(&acting.account);
            let clearing = acting.pipeline.preview_clearing(preview, account, asked).await;
            let Some(clearing) = clearing.map_err(|refusal| uncleared(&refusal.message))? else { break };
            if self.cleared.contains(&clearing.order) {
                return Err(uncleared(&"its cancellation is in a block, but not recorded yet"));
            }
            let Some(consent) = self.without_asking(acting, &clearing.preview) else {
                return Err(uncleared(&"the cancellation needs your approval"));
            };
            self.leave.advance(WriteStage::Clearing)?;
            let permit_id = clearing.preview.permit.permit_id;
            let committed = acting.pipeline.commit_in(lock.clone(), permit_id, consent).await;
            let committed = committed.map_err(|refusal| uncleared(&refusal.message))?;
            if committed.state != CommitState::Done {
                return Err(uncleared(&"the cancellation is not settled yet"));
            }
            self.cleared.push(clearing.order);
            self.leave.advance(WriteStage::Preparing)?;
        }
        Ok(self.cleared.len() > before)
    }

    fn bind(&self, params: &Value) -> Result<WriteJob, CallRefusal> {
        match bound(&self.entry, params)? {
            ToolJob::Write(job) => Ok(job),
            ToolJob::Read(_) | ToolJob::Record(..) => {
                Err(ToolError::new(ErrorCode::ToolPanicked, "internal error: a write became something else").into())
            }
        }
    }

    /// Returns the account lock count of each chain; `None` while the lock is held.
    fn turns(&self, acting: &WriteAccess) -> Result<Vec<(u64, Option<u64>)>, CallRefusal> {
        let chains = self.shared.world.chains().iter().map(ConnectedChain::network);
        let turns = chains.map(|network| {
            let turns = acting.pipeline.turns(network.chain_id, acting.account.address());
            Ok((network.chain_id, turns.map_err(|refusal| refused(refusal.error()))?))
        });
        turns.collect()
    }

    /// Makes the first preview of a call, and repeats it if its simulation fails while another action of the account is
    /// running. In that case the tool's proposal is based on outdated state.
    async fn preview_undisturbed(
        &self,
        acting: &WriteAccess,
        mut job: WriteJob,
        params: &Value,
    ) -> Result<Previewed, CallRefusal> {
        let mut left = OVERTAKEN;
        loop {
            let before = self.turns(acting)?;
            let refusal = match self.preview(acting, job, params).await {
                Ok(previewed) => return Ok(previewed),
                Err(refusal) => refusal,
            };
            let undisturbed = before == self.turns(acting)? && before.iter().all(|(_, turns)| turns.is_some());
            left -= 1;
            if undisturbed || left == 0 || refusal.error.code() != ErrorCode::SafetySimulationFailed {
                return Err(refusal);
            }
            acting.pipeline.record_overtaken(self.context.call_id(), &self.shared.golem_id).await;
            self.wait_until_idle(acting).await?;
            job = self.bind(params)?;
        }
    }

    /// Waits until no other action of the account is running, at most [`OTHERS_ACT`].
    async fn wait_until_idle(&self, acting: &WriteAccess) -> Result<(), CallRefusal> {
        let clock = &self.shared.world.clock;
        let until = clock.steady_millis().saturating_add(OTHERS_ACT.as_secs() * 1_000);
        while self.turns(acting)?.iter().any(|(_, turns)| turns.is_none()) && clock.steady_millis() < until {
            clock.pause(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Prepares a proposal and runs the pipeline's preview. If the endpoints contradict each other without a majority,
    /// the tool proposes from each endpoint alone, and the pipeline, which queries all of them, decides.
    async fn preview(&self, acting: &WriteAccess, job: WriteJob, params: &Value) -> Result<Previewed, CallRefusal> {
        if let Some(orders) = acting.pipeline.orders() {
            orders.settle_expired(acting.account.address()).await;
        }
        let turns = self.turns(acting)?;
        let prepared = job(self.context.clone()).instrument(debug_span!("prepare")).await;
        let contradiction = match prepared {
            Ok(prepared) => return self.run_preview(acting, prepared, &turns).await,
            Err(error) if error.code() == ErrorCode::ChainInconsistent => error,
            Err(error) => return Err(error.into()),
        };
        let mut proposed = Vec::new();
        for world in self.context.world.each_alone() {
            let job = self.bind(params)?;
            proposed.extend(job(self.context.within(world)).instrument(debug_span!("prepare")).await.ok());
        }
        // A superfluous approval costs gas; a missing one makes the transaction fail.
        proposed.sort_by_key(|prepared| std::cmp::Reverse(prepared.proposal.legs.len()));
        let mut refusal = CallRefusal::from(contradiction);
        for prepared in proposed {
            match self.run_preview(acting, prepared, &turns).await {
                Ok(previewed) => return Ok(previewed),
                Err(refused) => refusal = refused,
            }
        }
        Err(refusal)
    }

    /// Runs the pipeline's preview on a proposal.
    async fn run_preview(
        &self,
        acting: &WriteAccess,
        prepared: PreparedWrite,
        turns: &[(u64, Option<u64>)],
    ) -> Result<Previewed, CallRefusal> {
        let mut proposal = prepared.proposal;
        // The tool must not choose the caller's identity.
        proposal.tool = self.entry.def.meta;
        proposal.call_id = self.context.call_id();
        proposal.golem_id = self.shared.golem_id.clone();
        let own = *acting.phase.borrow();
        let phase = self.options.phase.map_or(own, |asked| asked.max(own));
        let turns = turns.iter().find(|(chain_id, _)| *chain_id == proposal.chain_id).and_then(|(_, turns)| *turns);
        let asked = PhaseRequest { phase, own: Some(acting.phase.clone()) };
        let preview = acting.pipeline.preview(proposal, Arc::clone(&acting.account), asked).await;
        let preview = preview.map_err(|refusal| refused(refusal.error()))?;
        Ok(Previewed { preview: Arc::new(preview), rest: prepared.rest, turns })
    }

    /// Waits for the account lock until the permit expires. Returns `None` for an action that only cancels or revokes:
    /// the pipeline takes the lock itself, with a short timeout. An action with the nonce of a waiting transaction takes
    /// none.
    async fn lock_account(&self, acting: &WriteAccess, preview: &Preview) -> Result<Option<AccountLock>, CallRefusal> {
        if preview.simulated.only_revokes || preview.payload.proposal().replaces.is_some() {
            return Ok(None);
        }
        let (chain_id, account) = (preview.payload.proposal().chain_id, preview.payload.account());
        let patience = preview.permit.expires.saturating_duration_since(Instant::now());
        let lock = acting.pipeline.lock_account(chain_id, account, patience).await;
        lock.map(Some).map_err(|refusal| refused(refusal.error()))
    }

    /// Returns the consent that applies without asking; `None` if the operator would have to be asked.
    fn without_asking(&self, acting: &WriteAccess, preview: &Preview) -> Option<Consent> {
        match &preview.needs {
            ApprovalNeed::Instant | ApprovalNeed::Notify => Some(Consent::None),
            ApprovalNeed::Delay { .. } => None,
            ApprovalNeed::Approval { .. } if preview.second.is_some() => None,
            ApprovalNeed::Approval { .. } => match self.options.approve.unwrap_or(acting.approve) {
                ApprovalMode::Always => Some(Consent::Always),
                ApprovalMode::Never | ApprovalMode::Ask => None,
            },
        }
    }

    /// Obtains the approval that the preview needs.
    #[instrument(level = "debug", name = "approve", skip_all, fields(permit_id = %previewed.preview.permit.permit_id))]
    async fn consent(
        &mut self,
        acting: &WriteAccess,
        previewed: &mut Previewed,
        params: &Value,
    ) -> Result<ConsentAnswer, CallRefusal> {
        let queue = acting.pipeline.approval_queue();
        let over = || Err(refused(ToolError::new(ErrorCode::PermitExpired, AnswerError::Expired)));
        let approval = match self.by_hand.take() {
            Some(ManualAnswer::Reject { reason, halt }) => {
                let mut ticket = queue.ask_rejected(Arc::clone(&previewed.preview), reason, halt);
                return self.concluded(ticket.decision().await).unwrap_or_else(over);
            }
            Some(ManualAnswer::Approve { confirmation, proof }) => Some((confirmation, proof)),
            None => None,
        };
        let needs_yes = match &previewed.preview.needs {
            ApprovalNeed::Instant | ApprovalNeed::Notify => return Ok(ConsentAnswer::Consent(Consent::None)),
            ApprovalNeed::Delay { .. } => false,
            ApprovalNeed::Approval { .. } => true,
        };
        if let Some((confirmation, proof)) = approval {
            let approved = queue.ask_approved(Arc::clone(&previewed.preview), &confirmation, proof);
            let mut ticket = approved.map_err(|why| refused(ToolError::new(ErrorCode::ApprovalRequired, why)))?;
            return self.concluded(ticket.decision().await).unwrap_or_else(over);
        }
        if let Some(yes) = queue.granted(&previewed.preview) {
            return Ok(ConsentAnswer::Consent(Consent::Approved(yes)));
        }
        match self.options.approve.unwrap_or(acting.approve) {
            // A second operator decides each time, so the first one is asked as well.
            ApprovalMode::Always if needs_yes && previewed.preview.second.is_none() => {
                return Ok(ConsentAnswer::Consent(Consent::Always));
            }
            ApprovalMode::Never if needs_yes => return Err(unapproved(&previewed.preview)),
            ApprovalMode::Always | ApprovalMode::Never | ApprovalMode::Ask => {}
        }
        self.leave.advance(WriteStage::Asking)?;
        let mut ticket = queue.ask_for(Arc::clone(&previewed.preview), self.options.asked_by.clone());
        loop {
            let decision = ticket.decision_until(outdated(&acting.pipeline, &previewed.preview)).await;
            if let Some(concluded) = self.concluded(decision) {
                return concluded;
            }
            let again = match self.bind(params) {
                Ok(job) => self.preview(acting, job, params).await,
                Err(refusal) => Err(refusal),
            };
            match again {
                Ok(again) => {
                    *previewed = again;
                    ticket.replace(Arc::clone(&previewed.preview));
                }
                Err(refusal) => {
                    let reason = ticket.refused_meanwhile().await.and_then(|reason| self.concluded(reason));
                    if reason.is_none() {
                        ticket.withdraw(refusal.error.message()).await;
                    }
                    return reason.unwrap_or(Err(refusal));
                }
            }
        }
    }

    /// Converts a decision to a result; `None` if the operator must be asked again.
    fn concluded(&self, decision: Decision) -> Option<Result<ConsentAnswer, CallRefusal>> {
        Some(match decision {
            Decision::PermitExpired => return None,
            Decision::NotAsked(refused_to_ask) => Err(not_asked(&refused_to_ask)),
            Decision::Approved(yes) => Ok(ConsentAnswer::Consent(Consent::Approved(yes))),
            Decision::Edit { amount } => Ok(ConsentAnswer::Edit(amount)),
            decided @ (Decision::Refused { .. } | Decision::RefusedAndHalted { .. }) => {
                if let Decision::RefusedAndHalted { reason } = &decided {
                    self.halt(reason);
                }
                let reason = decided.reason().map(SafeText::as_str).unwrap_or_default();
                let message = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                let error =
                    ToolError::new(ErrorCode::ApprovalRefused, format_args!("the operator rejected it{message}"));
                Err(rejected(error))
            }
            Decision::Lapsed => {
                let error = ToolError::new(ErrorCode::ApprovalLapsed, "nobody answered in time; nothing was signed");
                Err(rejected(error))
            }
            Decision::Withdrawn { reason } => {
                let message = format_args!("the approval request was withdrawn: {reason}");
                Err(refused(ToolError::new(ErrorCode::Halted, message)))
            }
        })
    }

    /// Halts all trading on the operator's request. If that fails, the error is logged, and no halt is reported.
    fn halt(&self, reason: &SafeText) {
        let Some(rules) = &self.shared.world.rules else { return };
        if let Err(error) = rules.halt(reason.as_str(), self.shared.world.clock.now_millis()) {
            tracing::error!(%error, "the operator asked to stop everything, but the stop could not be set");
        }
    }

    /// Builds the outcome from the tool's answer. If the tool fails after something was signed, the outcome still
    /// reports the transactions.
    async fn ended(
        &mut self,
        preview: &Preview,
        rest: Box<dyn WriteRest>,
        committed: &CommitOutcome,
    ) -> Result<CallEnd, CallRefusal> {
        let mut hints = to_json::committed(committed);
        if let Some(opinion) = &preview.opinion {
            hints.insert("guardian".to_owned(), to_json::opinion(opinion));
        }
        if !self.cleared.is_empty() {
            hints.insert("cancelled_orders".to_owned(), self.cleared.iter().map(B256::to_string).collect());
        }
        let (mut status, error) = match &committed.state {
            CommitState::Simulated => {
                hints.insert("permit".to_owned(), to_json::preview(preview));
                (CallStatus::Simulated, None)
            }
            CommitState::Done => (CallStatus::Success, None),
            CommitState::Placed => (CallStatus::Partial, None),
            // Not an error of the call: the action continues by itself, and calling again would execute it twice.
            CommitState::Unclear => (CallStatus::Partial, unsettled(committed)),
            CommitState::Reverted => {
                let error =
                    ToolError::new(ErrorCode::ExecutionTxReverted, "the transaction is in a block and reverted");
                (CallStatus::Error, Some(error))
            }
            CommitState::Stopped { code, why } => {
                // The checks that stopped it, as values for those who do not read sentences.
                let blocking: Vec<_> =
                    committed.verdicts.iter().filter(|verdict| verdict.blocks()).map(Verdict::event).collect();
                let error = ToolError::new(*code, why);
                let error = if blocking.is_empty() { error } else { error.checked(&blocking) };
                let CallRefusal { status, error } = refused(error);
                (status, Some(error))
            }
        };
        let context = self.context.clone();
        if let Some(proposed) = &committed.proposed {
            // The tool has done nothing that it could summarise.
            hints.insert("safe_proposal".to_owned(), to_json::safe_proposal(proposed));
            let reply = ToolReply {
                output: Value::Null,
                decision_hints: Some(Value::Object(hints)),
                explanation: proposed.explanation(),
                is_open: true,
            };
            return Ok(CallEnd { status, reply: Some(reply), error });
        }
        let reply = match rest.answer(&context, committed).await {
            Ok(mut reply) => {
                match reply.decision_hints.take() {
                    Some(Value::Object(own)) => hints.extend(own),
                    Some(other) => drop(hints.insert("tool".to_owned(), other)),
                    None => {}
                }
                if reply.is_open && status == CallStatus::Success {
                    // Done on the chain, and waiting for somebody else there.
                    status = CallStatus::Partial;
                    hints.insert("state".to_owned(), "placed".into());
                }
                reply.decision_hints = Some(Value::Object(hints));
                if committed.on_paper {
                    reply.explanation = format!("PAPER, nothing was signed: {}", reply.explanation);
                }
                reply
            }
            Err(error) => ToolReply {
                output: Value::Null,
                decision_hints: Some(Value::Object(hints)),
                explanation: format!(
                    "The steps are listed here, but the tool could not summarise them: {}",
                    error.message()
                ),
                is_open: false,
            },
        };
        Ok(CallEnd { status, reply: Some(reply), error })
    }
}

/// Answer of the operator or of a standing approval.
enum ConsentAnswer {
    Consent(Consent),
    Edit(String),
}

/// Message for an exit that was previewed while an agent's order blocked it.
const CLEARED: &str =
    "an agent's order delayed this exit and was cancelled; the preview still counted it. Preview the exit again";

/// Builds the refusal for an exit that is blocked by an agent's open order.
fn uncleared(why: &dyn std::fmt::Display) -> CallRefusal {
    let what = format_args!("an agent's order of the same pair delays this exit and was not cancelled: {why}");
    let error = ToolError::new(ErrorCode::OrderStillOpen, what);
    refused(error.suggest("Cancel the order with uniswapx_cancel_order, or try again in a few seconds."))
}

/// Maps denials of rules and of the pipeline to `blocked`, rejected approvals to `rejected`, and failures to `error`.
/// Interval at which it is checked whether an action that waits for a decision is outdated.
const OUTDATED_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Ends when the previewed action must be simulated again.
async fn outdated(pipeline: &Pipeline, preview: &Preview) {
    while !pipeline.is_outdated(preview) {
        sleep(OUTDATED_POLL_INTERVAL).await;
    }
}

fn refused(error: ToolError) -> CallRefusal {
    let code = error.code();
    if code == ErrorCode::ApprovalRefused {
        return rejected(error);
    }
    // Every refusal of a pipeline check is a denial, whichever category its code belongs to.
    if code.group() == ErrorGroup::Safety {
        return CallRefusal { status: CallStatus::Blocked, error };
    }
    error.into()
}

/// Builds the refusal for an approval request that was not queued, with the time after which it can be repeated.
fn not_asked(why: &AskRefused) -> CallRefusal {
    let code = match why {
        AskRefused::RefusedBefore { .. } => ErrorCode::ApprovalRefused,
        AskRefused::TooMany { .. } => ErrorCode::SafetyRateLimited,
    };
    refused(ToolError::new(code, why).detail("retry_after_seconds", why.retry_after_seconds()))
}

/// Replaces the amount of a call by the one that the operator wants.
fn edit(params: &mut Value, amount: String) -> Result<(), CallRefusal> {
    let Some(old) = params.get_mut("amount") else {
        let what = "the operator asked for another amount, but this call has no amount";
        return Err(ToolError::new(ErrorCode::ValidationFailed, what).into());
    };
    *old = Value::from(amount);
    Ok(())
}

fn rejected(error: ToolError) -> CallRefusal {
    CallRefusal { status: CallStatus::Rejected, error }
}

/// Builds the refusal for an action that needs approval when nobody may be asked. It contains the whole preview.
fn unapproved(preview: &Preview) -> CallRefusal {
    let reasons = match &preview.needs {
        ApprovalNeed::Approval { reasons } => {
            // The limit of the hot lane says more than that the action is above it.
            let named = reasons
                .iter()
                .any(|why| matches!(why, ApprovalReason::Above { field, .. } if field.as_str().ends_with("hot_lane")));
            let told = reasons.iter().filter(|why| !(named && matches!(why, ApprovalReason::HotLane)));
            told.map(ToString::to_string).collect::<Vec<_>>().join("; ")
        }
        ApprovalNeed::Instant | ApprovalNeed::Notify | ApprovalNeed::Delay { .. } => String::new(),
    };
    let error =
        ToolError::new(ErrorCode::ApprovalRequired, format_args!("it needs the operator's approval: {reasons}"));
    refused(error.detail("permit", to_json::preview(preview)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    /// A write that goes through these stages, each for a time. Returns how often an overrun was reported and whether it
    /// ended by itself, with the time until its end.
    async fn written(stages: &'static [(WriteStage, Duration)]) -> (usize, bool, Duration) {
        let leave = Arc::new(CancelState::default());
        let started = Instant::now();
        let mut handle = tokio::spawn({
            let leave = Arc::clone(&leave);
            async move {
                for (stage, lasts) in stages {
                    leave.advance(*stage).unwrap();
                    tokio::time::sleep(*lasts).await;
                }
            }
        });
        let overruns = AtomicUsize::new(0);
        let report = || _ = overruns.fetch_add(1, Ordering::SeqCst);
        let end = within_budget(&mut handle, &leave, started, TickBudget::Fast, report).await;
        handle.abort();
        (overruns.load(Ordering::SeqCst), matches!(end, BudgetedEnd::Joined(Ok(()))), started.elapsed())
    }

    /// The budget of a fast tool is a second, and the last limit three seconds.
    #[tokio::test(start_paused = true)]
    async fn the_time_in_which_the_operator_reads_is_no_overrun_of_the_tool() {
        use WriteStage::{Asking, Committing, Preparing};
        const HALF: Duration = Duration::from_millis(500);
        const PART: Duration = Duration::from_millis(300);
        const LONGER: Duration = Duration::from_millis(600);
        let ends = |stages| written(stages);
        assert_eq!(ends(&[(Preparing, HALF), (Asking, DAY), (Committing, PART)]).await, (0, true, DAY + HALF + PART));
        // An edited amount is prepared again, with what is left of the time.
        let edited = &[(Preparing, PART), (Asking, DAY), (Preparing, PART), (Asking, DAY), (Committing, PART)];
        assert_eq!(ends(edited).await, (0, true, DAY * 2 + PART * 3));
        // Half a second before the decision and 600 ms after it are more than a second.
        assert_eq!(ends(&[(Preparing, HALF), (Asking, DAY), (Committing, LONGER)]).await.0, 1);
        assert_eq!(ends(&[(Preparing, HALF), (Committing, DAY)]).await, (1, true, DAY + HALF));
        let (overruns, by_itself, after) = ends(&[(Preparing, HALF), (Asking, DAY), (Preparing, DAY)]).await;
        assert_eq!((overruns, by_itself), (1, false));
        let limit = DAY + Duration::from_secs(3);
        assert!((limit..limit + POLL_INTERVAL * 2).contains(&after), "{after:?}");
    }
}
