//! Write pipeline: takes a proposal to a settled transaction. Only this module can make a [`Capability`].
//!
//! | file | contents |
//! |---|---|
//! | `capability` | permission to sign one transaction or order |
//! | `chain_view` | chain state read on one block for one decision |
//! | `assess` | check inputs, verdicts and simulation on one block |
//! | `disputes` | actions that may be signed although endpoints contradict each other |
//! | `parties` | recipients and spenders that are new, or resemble a known one |
//! | `consent` | required consent, and whether the given consent suffices |
//! | `preview` | proposal to permit |
//! | `commit` | permit to reserved spending and an allocated nonce |
//! | `sign` | signs one transaction, compares it with its payload, stores it |
//! | `account_lock` | account lock: one commit per account at a time, across all processes on a ledger |
//! | `plan` | runs a plan's transactions in order; revokes its allowances if it stops early |
//! | `paper` | paper-mode actions: counted and stored, never signed |
//! | `order` | signs an order that fillers settle, and submits it |
//! | `open_orders` | open orders for the same pair |
//! | `replace` | actions of the operator that take the nonce of a waiting transaction |
//! | `outbid` | replaces a pending transaction with higher fees, within the payload's gas bound |
//! | `settle` | receipts, on-chain outcome, final ledger entry |
//! | `recover` | work that an ended process left unfinished |
//! | `safe_proposals` | signs what a Safe proposes to its other owners, executes it, follows it to its end |
//! | `refusal` | the pipeline's error type |
//! | `reverted` | revert reasons of included transactions |

mod account_lock;
mod assess;
mod capability;
mod chain_view;
mod commit;
pub(crate) mod consent;
mod disputes;
mod hook_gate;
mod open_orders;
mod order;
mod outbid;
mod paper;
mod parties;
mod plan;
mod preview;
mod recover;
mod refusal;
mod replace;
mod reverted;
mod safe_proposals;
mod settle;
mod sign;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::account::Account;
use crate::approval::ApprovalQueue;
use crate::audit::{AuditKind, AuditLog, AuditNote};
use crate::chain_snapshot::SnapshotReader;
use crate::check_inputs::CheckInputs;
use crate::guardian::Guardian;
use crate::orders::Orders;
use crate::paper::PaperLedger;
use crate::parties::PartyRecords;
use crate::policy_engine::PolicyEngine;
use crate::queue_key::QueueKey;
use crate::signing_payload::{FeeBound, SigningPayload};
use bardo_base::clock::Clock;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{EventKind, Fabric, ToolUpdate};
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::model::Phase;
use bardo_store::Store;
use golem_chain::sender::{ChainNonces, FeeQuote, TxFees, TxSender};

use chain_view::ChainView;

pub use account_lock::AccountLock;
pub use capability::{
    Capability, Order, OrderToSign, SafeToSign, SafeTransaction, SignableAction, ToSign, Transaction,
};
pub use commit::{CommitOutcome, CommitState, LegReport};
pub use open_orders::BlockingOrderCancel;
pub use preview::{Preview, UnderWay};
pub use recover::{
    RECOVERY, RecoveredPermit, RecoveryState, RecoveryStep, SignedOutcome, UnincludedTx, UnusedAllowance,
};
pub use refusal::PipelineRefusal;
pub use settle::OnchainOutcome;

/// Multiple of the base fee in a payload's fee bound; the tip is added on top. The first transaction pays up to twice
/// the base fee, so the rest is room for replacement.
const FEE_HEADROOM: u128 = 3;

/// Multiple of the suggested tip in a payload's tip bound.
const TIP_HEADROOM: u128 = 2;

/// Maximum number of permits in memory. The permit that expires first is evicted first.
const MAX_PREPARED: usize = 256;

/// One chain's reader and sender.
#[derive(Debug, Clone)]
pub struct PipelineChain {
    /// Reads the chain: tokens, prices, balances, forks.
    pub reader: SnapshotReader,
    /// Sends transactions and follows them.
    pub sender: TxSender,
}

/// Dependencies and settings of a [`Pipeline`].
#[derive(Debug)]
pub struct PipelineConfig {
    /// Chains that the pipeline can read and send to.
    pub chains: Vec<PipelineChain>,
    /// Ledger database, opened with the migrations of permits, audit log, sender and ledger.
    pub store: Store,
    /// Policy, stops and ledger limits of the operator.
    pub rules: Arc<dyn PolicyEngine>,
    /// Wall clock of every decision.
    pub clock: Arc<dyn Clock>,
    /// Event Fabric that receives the pipeline's events.
    pub fabric: Fabric,
    /// Approval queue for questions to the operator.
    pub queue: ApprovalQueue,
    /// Key of the signing account in this ledger; it authenticates the records of known recipients and spenders. `None`
    /// while the account is locked: then every recipient and spender counts as unknown.
    pub key: Option<QueueKey>,
    /// Safety-guardian, which must agree to actions above the hot lane; `None` if none runs.
    pub guardian: Option<Arc<dyn Guardian>>,
    /// Lifetime of a permit.
    pub permit_ttl: Duration,
    /// Maximum wait for a receipt. After it, the action is reported as unresolved and followed in the background.
    pub patience: Duration,
}

/// Phase that an action is decided in.
#[derive(Debug, Clone)]
pub struct PhaseRequest {
    /// Phase to decide in: the Golem's phase, or a stricter one that the caller chose.
    pub phase: Phase,
    /// Live phase of the Golem, which may worsen between preview and signature. `None` fixes the phase to
    /// [`Self::phase`].
    pub own: Option<watch::Receiver<Phase>>,
}

impl PhaseRequest {
    /// Returns the worse of the requested phase and the Golem's current phase.
    pub fn now(&self) -> Phase {
        self.own.as_ref().map_or(self.phase, |own| self.phase.max(*own.borrow()))
    }

    /// Marks the Golem's current phase as seen, so that the receiver reports later changes only.
    fn since_now(mut self) -> Self {
        if let Some(own) = &mut self.own {
            own.mark_unchanged();
        }
        self
    }
}

/// Write pipeline. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Pipeline {
    inner: Arc<Inner>,
}

struct Inner {
    chains: Vec<PipelineChain>,
    store: Store,
    rules: Arc<dyn PolicyEngine>,
    clock: Arc<dyn Clock>,
    fabric: Fabric,
    queue: ApprovalQueue,
    /// Known recipients, spenders and tokens, by the records of the real ledger.
    known: PartyRecords,
    /// Known recipients and spenders by the records of the paper ledger.
    known_on_paper: PartyRecords,
    guardian: Option<Arc<dyn Guardian>>,
    permit_ttl: u64,
    patience: Duration,
    prepared: Mutex<HashMap<PermitId, PermitSlot>>,
    audit_log: AuditLog,
    orders: OnceLock<Orders>,
    /// Paper ledger of a pipeline in paper mode, which signs nothing.
    paper: Option<PaperLedger>,
    /// Permits that this process executes or follows now. Recovery skips them.
    at_work: Mutex<HashSet<PermitId>>,
    /// Last finding that recovery reported for each permit that is still open.
    reported: Mutex<HashMap<PermitId, RecoveryState>>,
}

/// Previewed action behind a permit. Kept in memory only: an unused permit ends with the process.
#[derive(Debug, Clone)]
struct PreparedAction {
    preview: Preview,
    account: Arc<dyn Account>,
    reader: SnapshotReader,
    phase_request: PhaseRequest,
    /// Chain state that the preview read.
    view: ChainView,
}

impl PreparedAction {
    /// Returns true if the phase has worsened since `inputs` were gathered. Actions that only revoke, cancel or refund
    /// pass in every phase.
    fn worsened(&self, inputs: &CheckInputs) -> bool {
        self.phase_request.now() > inputs.phase && !inputs.only_revokes()
    }
}

/// State of a permit in memory.
enum PermitSlot {
    Open(Box<PreparedAction>),
    /// A commit has started with this permit.
    Taken {
        until: Instant,
    },
}

/// Guard that keeps a permit in [`Inner::mark_in_progress`], so that recovery skips it.
struct InProgressGuard {
    pipeline: Pipeline,
    permit_id: PermitId,
}

impl Drop for InProgressGuard {
    fn drop(&mut self) {
        self.pipeline.mark_in_progress().remove(&self.permit_id);
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("rules", &self.inner.rules).finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Creates a pipeline that signs and sends.
    pub fn new(config: PipelineConfig) -> Self {
        Self::made(config, None)
    }

    /// Creates a pipeline in paper mode: a commit is counted and stored in the paper ledger, and nothing is signed. The
    /// store and the rules of `config` must be those of the paper ledger.
    pub fn on_paper(config: PipelineConfig, paper: PaperLedger) -> Self {
        Self::made(config, Some(paper))
    }

    fn made(config: PipelineConfig, paper: Option<PaperLedger>) -> Self {
        let PipelineConfig { chains, store, rules, clock, fabric, queue, key, guardian, permit_ttl, patience } = config;
        let permit_ttl = u64::try_from(permit_ttl.as_millis()).unwrap_or(u64::MAX);
        let audit_log = AuditLog::new(store.clone(), clock.clone());
        let inner = Inner {
            chains,
            store,
            rules,
            clock,
            fabric,
            queue,
            known: PartyRecords::in_earnest(key.clone()),
            known_on_paper: PartyRecords::on_paper(key),
            guardian,
            permit_ttl,
            patience,
            prepared: Mutex::default(),
            audit_log,
            orders: OnceLock::new(),
            paper,
            at_work: Mutex::default(),
            reported: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the approval queue.
    pub fn approval_queue(&self) -> &ApprovalQueue {
        &self.inner.queue
    }

    /// Returns the operator's rules.
    pub fn rules(&self) -> &Arc<dyn PolicyEngine> {
        &self.inner.rules
    }

    fn chain(&self, chain_id: u64) -> Result<&PipelineChain, PipelineRefusal> {
        let found = self.inner.chains.iter().find(|chain| chain.reader.client.chain_id() == chain_id);
        found.ok_or_else(|| {
            PipelineRefusal::new(ErrorCode::ChainUnknown, format_args!("no chain {chain_id} is connected"))
        })
    }

    fn reader(&self, chain_id: u64) -> Result<SnapshotReader, PipelineRefusal> {
        Ok(self.chain(chain_id)?.reader.clone())
    }

    fn sender(&self, chain_id: u64) -> Result<TxSender, PipelineRefusal> {
        Ok(self.chain(chain_id)?.sender.clone())
    }

    /// Returns the fee bound for a new signing payload, in wei per gas unit. It leaves room for one replacement with
    /// higher fees.
    async fn fee_bound(&self, chain_id: u64) -> Result<FeeBound, PipelineRefusal> {
        let impossible = || PipelineRefusal::new(ErrorCode::ChainInconsistent, "the chain reports impossible fees");
        let quote = self.fee_quote(chain_id).await?;
        let tip = quote.tip.checked_mul(TIP_HEADROOM).ok_or_else(impossible)?;
        let cap = quote.base_fee.checked_mul(FEE_HEADROOM).and_then(|base| base.checked_add(tip));
        let cap = cap.ok_or_else(impossible)?;
        // Less room, where the operator's limit still suffices for the next block; below that, the check of the limit says so.
        let next = quote.base_fee.saturating_add(quote.base_fee.div_ceil(8)).saturating_add(tip);
        let most = self.inner.rules.largest_gas_fee().filter(|most| *most >= next);
        Ok(FeeBound { max_fee_per_gas: most.map_or(cap, |most| cap.min(most)), max_priority_fee_per_gas: tip })
    }

    async fn fee_quote(&self, chain_id: u64) -> Result<FeeQuote, PipelineRefusal> {
        let quote = self.sender(chain_id)?.fee_quote().await;
        Ok(quote?)
    }

    /// Returns the chain's nonces of the signer, and fees for the next blocks within the payload's bound.
    /// `despite_disputes` accepts endpoints that contradict each other: exits and revocations must not wait for them.
    async fn for_next(
        &self,
        payload: &SigningPayload,
        despite_disputes: bool,
    ) -> Result<(ChainNonces, FeeBound), PipelineRefusal> {
        let chain_id = payload.proposal().chain_id;
        let sender = self.sender(chain_id)?;
        let nonces = async {
            match despite_disputes {
                true => sender.nonces_despite_disputes(payload.signer()).await,
                false => sender.nonces(payload.signer()).await,
            }
        };
        let (nonces, quote) = futures::join!(nonces, self.fee_quote(chain_id));
        let nonces = nonces?;
        let bound = payload.fees();
        let cap =
            TxFees { max_fee_per_gas: bound.max_fee_per_gas, max_priority_fee_per_gas: bound.max_priority_fee_per_gas };
        // Fees above the bound: the permitted transaction could not be included.
        let fees = quote?.within(cap).map_err(|error| PipelineRefusal::new(ErrorCode::PermitMismatch, error))?;
        let TxFees { max_fee_per_gas, max_priority_fee_per_gas } = fees;
        Ok((nonces, FeeBound { max_fee_per_gas, max_priority_fee_per_gas }))
    }

    /// Emits the progress step `name`, if the tool declares such a step.
    fn step(&self, payload: &SigningPayload, name: &str) {
        if let Some(update) = ToolUpdate::named(payload.proposal().tool.progress_steps, name) {
            self.emit(payload, EventKind::ToolUpdate(update));
        }
    }

    /// Builds an audit log entry about the action of `payload`.
    fn note(&self, payload: &SigningPayload, kind: AuditKind, body: Value) -> AuditNote {
        let proposal = payload.proposal();
        AuditNote { kind, call_id: Some(proposal.call_id), golem_id: proposal.golem_id.clone(), body }
    }

    /// Records a refusal in the audit log. A failure to record it is only logged: the action is refused either way.
    async fn record_refusal(&self, payload: &SigningPayload, permit_id: Option<PermitId>, refusal: &PipelineRefusal) {
        let (kind, proposal) =
            (if permit_id.is_some() { AuditKind::PermitRefused } else { AuditKind::ActionRefused }, payload.proposal());
        let blocking = refusal.verdicts.iter().filter(|verdict| verdict.blocks());
        let body = json!({
            "permit_id": permit_id, "tool": proposal.tool.name, "intent": proposal.intent.as_str(),
            "chain_id": proposal.chain_id, "account": proposal.account, "code": refusal.code,
            "why": refusal.why(), "checks": blocking.map(|verdict| verdict.check).collect::<Vec<_>>(),
            "violations": refusal.violations, "wanted": proposal.expected_outcome,
        });
        if let Err(error) = self.inner.audit_log.record(self.note(payload, kind, body)).await {
            tracing::warn!(%error, "a refusal is not in the audit log");
        }
    }

    /// Records that the last refusal of a call was caused only by another action of the account, and that the action is
    /// previewed again.
    pub async fn record_overtaken(&self, call_id: CallId, golem_id: &GolemId) {
        let (kind, golem_id) = (AuditKind::ActionOvertaken, golem_id.clone());
        let note = AuditNote { kind, call_id: Some(call_id), golem_id, body: json!({}) };
        if let Err(error) = self.inner.audit_log.record(note).await {
            tracing::warn!(%error, "a new preview is not in the audit log");
        }
    }

    fn emit(&self, payload: &SigningPayload, kind: EventKind) {
        let proposal = payload.proposal();
        self.inner.fabric.emit(&proposal.golem_id, Some(proposal.call_id), kind);
    }

    fn prepared(&self) -> MutexGuard<'_, HashMap<PermitId, PermitSlot>> {
        self.inner.prepared.lock()
    }

    fn mark_in_progress(&self) -> MutexGuard<'_, HashSet<PermitId>> {
        self.inner.at_work.lock()
    }

    fn describe(&self) -> MutexGuard<'_, HashMap<PermitId, RecoveryState>> {
        self.inner.reported.lock()
    }

    /// Marks a permit as in progress in this process until the guard is dropped.
    fn work_on(&self, permit_id: PermitId) -> InProgressGuard {
        self.mark_in_progress().insert(permit_id);
        InProgressGuard { pipeline: self.clone(), permit_id }
    }

    /// Keeps a previewed action until its permit expires, and drops expired ones.
    fn remember(&self, prepared: PreparedAction, now_millis: u64, now: Instant) {
        let mut slots = self.prepared();
        slots.retain(|_, slot| match slot {
            PermitSlot::Open(prepared) => !prepared.preview.permit.expired(now_millis, now),
            PermitSlot::Taken { until } => now < *until,
        });
        while slots.len() >= MAX_PREPARED {
            let oldest = slots
                .iter()
                .min_by_key(|(_, slot)| match slot {
                    PermitSlot::Open(prepared) => prepared.preview.permit.expires,
                    PermitSlot::Taken { until } => *until,
                })
                .map(|(permit_id, _)| *permit_id);
            match oldest {
                Some(oldest) => drop(slots.remove(&oldest)),
                None => break,
            }
        }
        slots.insert(prepared.preview.permit.permit_id, PermitSlot::Open(Box::new(prepared)));
    }
}
