//! The way from a proposal to a settled transaction, and the only maker of a [`Capability`].
//!
//! | file | holds |
//! |---|---|
//! | `capability` | leave to sign one thing |
//! | `look` | what is read of the chain on one block, once |
//! | `assess` | facts, verdicts and simulation on one block |
//! | `preview` | from a proposal to a permit |
//! | `commit` | from a permit to money held and a nonce taken |
//! | `sign` | one leg signed, held against its frame, stored |
//! | `turn` | one commit of an account at a time, among all programs on a ledger |
//! | `plan` | the legs of a plan one after the other, and what is taken back if it stops half-way |
//! | `paper` | an action that is done on paper: counted and kept, never signed |
//! | `order` | a message that others settle, signed and handed on |
//! | `way` | what is on its way already for the same |
//! | `outbid` | a transaction that no block takes, signed once more within the frame's gas |
//! | `settle` | receipts, what the chain says became of it, the ledger's last word |
//! | `recover` | what a crash left behind |
//! | `refusal` | why not |
//! | `reverted` | why a transaction that is in a block did nothing |

mod assess;
mod capability;
mod commit;
pub(crate) mod consent;
mod look;
mod order;
mod outbid;
mod paper;
mod parties;
mod plan;
mod preview;
mod recover;
mod refusal;
mod reverted;
mod settle;
mod sign;
mod turn;
mod way;
mod witness;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::account::Account;
use crate::approval::ApprovalDesk;
use crate::audit::{Kind, Note, Trail};
use crate::facts::Facts;
use crate::framed::{FeeBound, Framed};
use crate::ground::Ground;
use crate::guardian::Guardian;
use crate::orders::Orders;
use crate::paper::PaperLedger;
use crate::parties::PartyRecords;
use crate::queue_key::QueueKey;
use crate::rulebook::Rulebook;
use bardo_base::clock::Clock;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{EventKind, Fabric, ToolUpdate};
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::model::Phase;
use bardo_store::Store;
use golem_chain::provider::ProviderError;
use golem_chain::sender::{ChainNonces, FeeQuote, Fees, Sender, SenderError};

use look::Look;

pub use capability::{Action, Capability, Order, OrderToSign, ToSign, Transaction};
pub use commit::{Committed, LegReport, State};
pub use preview::Preview;
pub use recover::{Fate, Found, LeftOver, RECOVERY, Recovered, Step, ToSend};
pub use refusal::Refusal;
pub use settle::Truth;
pub use turn::Turn;
pub use way::Clearing;

/// A frame's fees may be this many times the base fee, beside the tip: the first try pays up to twice
/// of it, the rest is for outbidding.
const FEE_HEADROOM: u128 = 3;

/// A frame's tip may be this many times what is usual.
const TIP_HEADROOM: u128 = 2;

/// Previews kept at most; the oldest go first.
const MAX_PREPARED: usize = 256;

/// One chain as the pipeline works on it.
#[derive(Debug, Clone)]
pub struct PipelineChain {
    /// What is read of it.
    pub ground: Ground,
    /// What goes to it.
    pub sender: Sender,
}

/// What a pipeline is made of.
#[derive(Debug)]
pub struct PipelineConfig {
    /// The chains it works on.
    pub chains: Vec<PipelineChain>,
    /// The ledger's database, opened with the migrations of permits, the audit trail, the sender and the ledger.
    pub store: Store,
    /// The operator's rules.
    pub rules: Arc<dyn Rulebook>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where it says what happens.
    pub fabric: Fabric,
    /// Where it asks the operator.
    pub desk: ApprovalDesk,
    /// Key of the acting account in this ledger, which vouches for who was paid before; `None` where the account is
    /// locked, and then nobody is known.
    pub key: Option<QueueKey>,
    /// Who must agree above the hot lane.
    pub guardian: Option<Arc<dyn Guardian>>,
    /// How long a permit serves.
    pub permit_ttl: Duration,
    /// How long a receipt is waited for before the answer is that it is not known yet.
    pub patience: Duration,
}

/// How something is asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The phase to decide in: the Golem's, tightened by the caller where it wants that.
    pub phase: Phase,
    /// The Golem's own, as it goes on: between a preview and a signature it may have become worse. Where there is none
    /// the phase stays what it was.
    pub own: Option<watch::Receiver<Phase>>,
}

impl Asked {
    /// The phase to decide in now: the worse of what was asked for and what has become of the Golem.
    pub fn now(&self) -> Phase {
        self.own.as_ref().map_or(self.phase, |own| self.phase.max(*own.borrow()))
    }

    /// The same, from now on: a change of the Golem's phase that is seen by it has come later.
    fn since_now(mut self) -> Self {
        if let Some(own) = &mut self.own {
            own.mark_unchanged();
        }
        self
    }
}

/// The pipeline. Cheap to clone; clones are the same pipeline.
#[derive(Clone)]
pub struct Pipeline {
    inner: Arc<Inner>,
}

struct Inner {
    chains: Vec<PipelineChain>,
    store: Store,
    rules: Arc<dyn Rulebook>,
    clock: Arc<dyn Clock>,
    fabric: Fabric,
    desk: ApprovalDesk,
    /// Who took part before, by the records of the real ledger.
    known: PartyRecords,
    /// The same by the paper ledger's own.
    known_on_paper: PartyRecords,
    guardian: Option<Arc<dyn Guardian>>,
    permit_ttl: u64,
    patience: Duration,
    prepared: Mutex<HashMap<PermitId, Slot>>,
    trail: Trail,
    orders: OnceLock<Orders>,
    /// Paper ledger of a pipeline on paper, which signs nothing.
    paper: Option<PaperLedger>,
    /// Permits that this program is carrying out or following now: recovery leaves them alone.
    at_work: Mutex<HashSet<PermitId>>,
    /// What recovery has told last of what is still open.
    told: Mutex<HashMap<PermitId, Found>>,
}

/// What a permit stands for, in memory only: no permit outlives the program.
#[derive(Debug, Clone)]
struct Prepared {
    preview: Preview,
    account: Arc<dyn Account>,
    ground: Ground,
    asked: Asked,
    /// What the preview has read.
    look: Look,
}

impl Prepared {
    /// Whether the phase has become worse since these facts were gathered. What only takes back passes in every phase.
    fn worsened(&self, facts: &Facts) -> bool {
        self.asked.now() > facts.phase && !facts.takes_back()
    }
}

/// A permit's place in memory.
enum Slot {
    Open(Box<Prepared>),
    /// A commit has begun with it.
    Taken {
        until: Instant,
    },
}

/// Whether a chain was not heard, or its endpoints contradict each other.
fn told_by(error: &SenderError) -> ErrorCode {
    match error {
        SenderError::Provider(ProviderError::Disagreement { .. }) | SenderError::ReceiptDisputed { .. } => {
            ErrorCode::ChainInconsistent
        }
        SenderError::Provider(_)
        | SenderError::Record(_)
        | SenderError::Lane(_)
        | SenderError::Fees(_)
        | SenderError::OtherChain { .. }
        | SenderError::NoRelay(_)
        | SenderError::Nonsense { .. } => ErrorCode::ChainUnreachable,
    }
}

/// As long as it is there, recovery leaves the permit to whoever holds it.
struct AtWork {
    pipeline: Pipeline,
    permit_id: PermitId,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.pipeline.at_work().remove(&self.permit_id);
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("rules", &self.inner.rules).finish_non_exhaustive()
    }
}

impl Pipeline {
    /// A pipeline.
    pub fn new(config: PipelineConfig) -> Self {
        Self::made(config, None)
    }

    /// A pipeline on paper: what is committed is counted in the paper ledger and kept there, and nothing is signed. The
    /// store and the rules of `config` are the paper ledger's.
    pub fn on_paper(config: PipelineConfig, paper: PaperLedger) -> Self {
        Self::made(config, Some(paper))
    }

    fn made(config: PipelineConfig, paper: Option<PaperLedger>) -> Self {
        let PipelineConfig { chains, store, rules, clock, fabric, desk, key, guardian, permit_ttl, patience } = config;
        let permit_ttl = u64::try_from(permit_ttl.as_millis()).unwrap_or(u64::MAX);
        let trail = Trail::new(store.clone(), clock.clone());
        let inner = Inner {
            chains,
            store,
            rules,
            clock,
            fabric,
            desk,
            known: PartyRecords::in_earnest(key.clone()),
            known_on_paper: PartyRecords::on_paper(key),
            guardian,
            permit_ttl,
            patience,
            prepared: Mutex::default(),
            trail,
            orders: OnceLock::new(),
            paper,
            at_work: Mutex::default(),
            told: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Where the operator is asked.
    pub fn desk(&self) -> &ApprovalDesk {
        &self.inner.desk
    }

    /// The operator's rules.
    pub fn rules(&self) -> &Arc<dyn Rulebook> {
        &self.inner.rules
    }

    fn chain(&self, chain_id: u64) -> Result<&PipelineChain, Refusal> {
        let found = self.inner.chains.iter().find(|chain| chain.ground.client.chain_id() == chain_id);
        found.ok_or_else(|| Refusal::new(ErrorCode::ChainUnknown, format_args!("no chain {chain_id} is connected")))
    }

    fn ground(&self, chain_id: u64) -> Result<Ground, Refusal> {
        Ok(self.chain(chain_id)?.ground.clone())
    }

    fn sender(&self, chain_id: u64) -> Result<Sender, Refusal> {
        Ok(self.chain(chain_id)?.sender.clone())
    }

    /// The most that gas may cost in what is framed now: room for a second try that pays more.
    async fn fee_bound(&self, chain_id: u64) -> Result<FeeBound, Refusal> {
        let impossible = || Refusal::new(ErrorCode::ChainInconsistent, "the chain asks impossible fees");
        let quote = self.fee_quote(chain_id).await?;
        let tip = quote.tip.checked_mul(TIP_HEADROOM).ok_or_else(impossible)?;
        let cap = quote.base_fee.checked_mul(FEE_HEADROOM).and_then(|base| base.checked_add(tip));
        Ok(FeeBound { max_fee_per_gas: cap.ok_or_else(impossible)?, max_priority_fee_per_gas: tip })
    }

    async fn fee_quote(&self, chain_id: u64) -> Result<FeeQuote, Refusal> {
        let quote = self.sender(chain_id)?.fee_quote().await;
        quote.map_err(|error| Refusal::new(told_by(&error), error))
    }

    /// What the next transaction of a frame takes: the chain's word on nonces, and fees for the
    /// blocks to come within the frame's bound. `despite_disputes` is for exits and revocations, which endpoints that
    /// contradict each other must not hold up.
    async fn for_next(&self, framed: &Framed, despite_disputes: bool) -> Result<(ChainNonces, FeeBound), Refusal> {
        let chain_id = framed.proposal().chain_id;
        let sender = self.sender(chain_id)?;
        let nonces = async {
            match despite_disputes {
                true => sender.nonces_despite_disputes(framed.signer()).await,
                false => sender.nonces(framed.signer()).await,
            }
        };
        let (nonces, quote) = futures::join!(nonces, self.fee_quote(chain_id));
        let nonces = nonces.map_err(|error| Refusal::new(told_by(&error), error))?;
        let bound = framed.fees();
        let cap =
            Fees { max_fee_per_gas: bound.max_fee_per_gas, max_priority_fee_per_gas: bound.max_priority_fee_per_gas };
        // Fees that have grown past the bound: what was permitted would not get into a block.
        let fees = quote?.within(cap).map_err(|error| Refusal::new(ErrorCode::PermitMismatch, error))?;
        let Fees { max_fee_per_gas, max_priority_fee_per_gas } = fees;
        Ok((nonces, FeeBound { max_fee_per_gas, max_priority_fee_per_gas }))
    }

    /// Says that a step of the tool begins, where the tool has such a step.
    fn step(&self, framed: &Framed, name: &str) {
        if let Some(update) = ToolUpdate::named(framed.proposal().tool.progress_steps, name) {
            self.say(framed, EventKind::ToolUpdate(update));
        }
    }

    /// A note for the audit trail about what `framed` is part of.
    fn note(&self, framed: &Framed, kind: Kind, body: Value) -> Note {
        let proposal = framed.proposal();
        Note { kind, call_id: Some(proposal.call_id), golem_id: proposal.golem_id.clone(), body }
    }

    /// Records why something is not done. It is not done either way: what could not be recorded is for the log.
    async fn record_refusal(&self, framed: &Framed, permit_id: Option<PermitId>, refusal: &Refusal) {
        let (kind, proposal) =
            (if permit_id.is_some() { Kind::PermitRefused } else { Kind::ActionRefused }, framed.proposal());
        let blocking = refusal.verdicts.iter().filter(|verdict| verdict.blocks());
        let body = json!({
            "permit_id": permit_id, "tool": proposal.tool.name, "intent": proposal.intent.as_str(),
            "chain_id": proposal.chain_id, "account": proposal.account, "code": refusal.code,
            "why": refusal.why(), "checks": blocking.map(|verdict| verdict.check).collect::<Vec<_>>(),
            "violations": refusal.violations, "wanted": proposal.expected_outcome,
        });
        if let Err(error) = self.inner.trail.record(self.note(framed, kind, body)).await {
            tracing::warn!(%error, "a refusal is not on the audit trail");
        }
    }

    /// Records that what was refused last for a call was refused only because another action of the account came between,
    /// and is prepared anew: nobody is refused anything by it.
    pub async fn record_overtaken(&self, call_id: CallId, golem_id: &GolemId) {
        let (kind, golem_id) = (Kind::ActionOvertaken, golem_id.clone());
        let note = Note { kind, call_id: Some(call_id), golem_id, body: json!({}) };
        if let Err(error) = self.inner.trail.record(note).await {
            tracing::warn!(%error, "that a preview is made anew is not on the audit trail");
        }
    }

    fn say(&self, framed: &Framed, kind: EventKind) {
        let proposal = framed.proposal();
        self.inner.fabric.emit(&proposal.golem_id, Some(proposal.call_id), kind);
    }

    fn prepared(&self) -> MutexGuard<'_, HashMap<PermitId, Slot>> {
        self.inner.prepared.lock()
    }

    fn at_work(&self) -> MutexGuard<'_, HashSet<PermitId>> {
        self.inner.at_work.lock()
    }

    fn told(&self) -> MutexGuard<'_, HashMap<PermitId, Found>> {
        self.inner.told.lock()
    }

    /// Says that this program is at it, until the answer is dropped.
    fn work_on(&self, permit_id: PermitId) -> AtWork {
        self.at_work().insert(permit_id);
        AtWork { pipeline: self.clone(), permit_id }
    }

    /// Keeps what a permit stands for until it expires.
    fn remember(&self, prepared: Prepared, now_millis: u64, now: Instant) {
        let mut slots = self.prepared();
        slots.retain(|_, slot| match slot {
            Slot::Open(prepared) => !prepared.preview.permit.expired(now_millis, now),
            Slot::Taken { until } => now < *until,
        });
        while slots.len() >= MAX_PREPARED {
            let oldest = slots
                .iter()
                .min_by_key(|(_, slot)| match slot {
                    Slot::Open(prepared) => prepared.preview.permit.expires,
                    Slot::Taken { until } => *until,
                })
                .map(|(permit_id, _)| *permit_id);
            match oldest {
                Some(oldest) => drop(slots.remove(&oldest)),
                None => break,
            }
        }
        slots.insert(prepared.preview.permit.permit_id, Slot::Open(Box::new(prepared)));
    }
}
