//! Signing context of a network: the account, the operator's rules, and the pipeline over both.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::account;
use super::data::{DataFolder, Ledger};
use super::depth::{sender_rules, settings_of};
use super::environment::prices;
use super::labels::Labels;
use super::orders::orders;
use super::{OpenEnvironment, policy};
use bardo_base::clock::Clock;
use bardo_base::config::{ChainSettings, Config};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::Fabric;
use bardo_base::model::Phase;
use bardo_safety::Account;
use bardo_safety::approval::ApprovalQueue;
use bardo_safety::audit::AuditLog;
use bardo_safety::chain_snapshot::SnapshotReader;
use bardo_safety::guardian::Guardian;
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_safety::pipeline::{Pipeline, PipelineChain, PipelineConfig};
use bardo_store::Store;
use golem::guardian::{self, SafetyGuardian};
use golem_chain::network::{DataFees, Network, NetworkKind};
use golem_chain::provider::HttpLimits;
use golem_chain::sender::{PrivateRelay, TxSender};
use golem_tools::engine::{ApprovalMode, ConnectedChain, PaperMode, PaperTrading, WriteAccess};

/// Timeout of a call that waits for the end of its transaction, however late.
const TO_THE_END: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Interval of the recovery of unfinished work that other processes left on this ledger.
const RECOVER_EVERY: Duration = Duration::from_secs(15);

/// Signing account and the conditions under which it acts.
#[derive(Debug)]
pub struct SigningContext {
    /// Account that signs; see [`super::account`].
    pub account: Arc<dyn Account>,
    /// Phase of the actor.
    pub phase: watch::Receiver<Phase>,
    /// Reviewer of actions above the hot lane; `None` for Bardo's own safety-guardian.
    pub guardian: Option<Arc<dyn Guardian>>,
    /// Approval mode of calls that do not set one.
    pub approve: ApprovalMode,
    /// Paper mode: nothing is signed, and the remains of an earlier run are not touched.
    pub paper: bool,
    /// True if paper mode may be entered later; its ledger is then opened even while the mode is off.
    pub may_turn: bool,
    /// True for read-only use, regardless of later changes of paper mode: no recovery of an earlier run, no resending,
    /// and no submission of orders.
    pub looks_only: bool,
    /// True if calls wait until their transactions are final, instead of for the configured time.
    pub wait: bool,
}

impl SigningContext {
    /// Signing context of the operator: phase Thriving, Bardo's guardian, and no approvals: actions that need one are
    /// blocked.
    pub fn of(account: Arc<dyn Account>) -> Self {
        let (_, phase) = watch::channel(Phase::Thriving);
        Self {
            account,
            phase,
            guardian: None,
            approve: ApprovalMode::Never,
            paper: false,
            may_turn: false,
            looks_only: false,
            wait: false,
        }
    }
}

/// Operator's rules for these chains: the policy of their kind of network, the data directory's stop file, and the
/// ledger.
///
/// # Errors
/// `VALIDATION_FAILED` for a policy that cannot be used, `STORE_UNAVAILABLE` if the policy last in force cannot be
/// read.
pub async fn rules(
    config: &Config,
    opened: &OpenEnvironment,
    ledger: &Ledger,
) -> Result<Arc<OperatorPolicyEngine>, ToolError> {
    let chains = opened.world.chains();
    let devnet = chains.iter().all(|chain| chain.network().kind == NetworkKind::Devnet);
    let networks = chains.iter().map(|chain| chain.network().clone()).collect();
    rules_of(config, devnet, networks, ledger, opened.world.clock.now_millis()).await
}

/// Creates the rule keeper of the real networks without connecting to any of them: enough to read, accept or reject a
/// policy file. `ledger` is the one that they share.
///
/// # Errors
/// An error for a policy that cannot be read, or for a ledger that fails.
pub async fn rules_of_real_networks(
    config: &Config,
    ledger: &Ledger,
    now_millis: u64,
) -> Result<Arc<OperatorPolicyEngine>, ToolError> {
    rules_of(config, false, Vec::new(), ledger, now_millis).await
}

async fn rules_of(
    config: &Config,
    devnet: bool,
    networks: Vec<Network>,
    ledger: &Ledger,
    now_millis: u64,
) -> Result<Arc<OperatorPolicyEngine>, ToolError> {
    let keeper = policy::open(config, devnet).map_err(|error| {
        ToolError::new(ErrorCode::ValidationFailed, format_args!("the policy: {error}")).suggest(
            "Correct the policy file: `bardo policy show` says what is wrong, `bardo policy explain` lists the fields.",
        )
    })?;
    let stop = DataFolder::of(config).stop_file();
    let labels = Labels::of(&DataFolder::of(config));
    let labelled = move || Ok(labels.list()?.into_iter().map(|label| label.address).collect());
    let rules = OperatorPolicyEngine::new(Arc::new(keeper), stop, ledger.store.clone(), networks)
        .acquainted_with(Arc::new(labelled));
    // On devnets the account is not a key's; it is added when it opens.
    if let Ok(Some(named)) = account::named(config) {
        rules.acts_for(named.address());
        rules.acts_for(named.signer());
    }
    let resumed = rules.resume(now_millis).await;
    resumed.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))?;
    Ok(Arc::new(rules))
}

/// Creates the pipeline for writes. Unless the use is read-only or on paper, first completes unfinished work of an
/// earlier run on this ledger.
///
/// # Errors
/// An error for a relay that cannot be used, or if the recovery fails.
pub async fn acting(
    config: &Config,
    opened: &OpenEnvironment,
    ledger: &Ledger,
    rules: Arc<OperatorPolicyEngine>,
    fabric: &Fabric,
    clock: Arc<dyn Clock>,
    signing: SigningContext,
) -> Result<WriteAccess, ToolError> {
    let settings = &config.safety;
    let seconds = |setting: &bardo_base::config::Setting<u64>| Duration::from_secs(setting.value);
    let chains = opened.world.chains().iter().map(|chain| pipeline_chain(config, chain, &ledger.store, &clock));
    let SigningContext { account, phase, guardian, approve, paper: on_paper, may_turn, looks_only, wait } = signing;
    rules.acts_for(account.address());
    // Nor does the key of a Safe's owner, or a session key, count as a second person.
    rules.acts_for(account.signer());
    let guardian = match guardian {
        Some(guardian) => guardian,
        None => own_guardian(config, opened, &clock)?,
    };
    let audit_log = AuditLog::new(ledger.store.clone(), clock.clone());
    let lapse = seconds(&settings.approval_timeout_seconds);
    let queue = ApprovalQueue::recording(clock.clone(), fabric.clone(), lapse, audit_log);
    let key = account::queue_key(&*account, config, opened, ledger)?;
    if let Some(key) = &key {
        ledger.queue.unlock(key.clone());
    }
    queue.listen(Arc::new(ledger.queue.clone()));
    let chains: Vec<PipelineChain> = chains.collect::<Result<_, _>>()?;
    let parts = PipelineConfig {
        chains,
        store: ledger.store.clone(),
        rules: rules.clone(),
        clock: clock.clone(),
        fabric: fabric.clone(),
        queue,
        key,
        guardian: Some(guardian),
        permit_ttl: seconds(&settings.permit_seconds),
        patience: if wait { TO_THE_END } else { seconds(&settings.receipt_patience_seconds) },
    };
    let paper = match on_paper || may_turn {
        true => PaperMode::with(on_paper, paper_trading(config, opened, ledger, &rules, &parts).await?),
        false => PaperMode::new(false),
    };
    // Evaluated again in each round: paper mode can be entered and left.
    let acts = {
        let paper = paper.clone();
        move || !looks_only && !paper.on()
    };
    let pipeline = Pipeline::new(parts);
    let orders = orders(config, opened, ledger, rules, fabric, clock, acts.clone()).await;
    pipeline.connect_orders(orders.clone());
    if acts() {
        pipeline.recover().await.map_err(|refusal| refusal.error())?;
        // Orders that a killed process had signed but not submitted. Submitted here, because a short call ends before
        // the first round.
        orders.submit_stored().await?;
    }
    pipeline.keep_recovering(RECOVER_EVERY, acts);
    Ok(WriteAccess { pipeline, account, phase, approve, paper })
}

/// Paper ledger beside `ledger`, with the same chains, rules, guardian and approval queue as `parts`.
async fn paper_trading(
    config: &Config,
    opened: &OpenEnvironment,
    ledger: &Ledger,
    rules: &Arc<OperatorPolicyEngine>,
    parts: &PipelineConfig,
) -> Result<PaperTrading, ToolError> {
    let paper = ledger.paper().await?;
    let store = paper.store().clone();
    let counting = Arc::new(OperatorPolicyEngine::on_paper(rules, store.clone()));
    let chains = opened.world.chains().iter().map(|chain| pipeline_chain(config, chain, &store, &parts.clock));
    let config = PipelineConfig {
        chains: chains.collect::<Result<_, _>>()?,
        store,
        rules: counting.clone(),
        clock: parts.clock.clone(),
        fabric: parts.fabric.clone(),
        queue: parts.queue.clone(),
        key: parts.key.clone(),
        guardian: parts.guardian.clone(),
        permit_ttl: parts.permit_ttl,
        patience: parts.patience,
    };
    Ok(PaperTrading { pipeline: Pipeline::on_paper(config, paper.clone()), ledger: paper, rules: counting })
}

/// Bardo's own safety-guardian. It reads chains, prices and the policy file by itself. Its price sources are separate,
/// so faults or cached values of the pipeline's sources do not affect it.
fn own_guardian(
    config: &Config,
    opened: &OpenEnvironment,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Guardian>, ToolError> {
    let chains = opened.world.chains();
    let devnet = chains.iter().all(|chain| chain.network().kind == NetworkKind::Devnet);
    let (place, absent) = policy::place(config, devnet);
    let watched = chains.iter().map(|chain| {
        let own = prices(config, &chain.client, clock);
        let own = own.map_err(|error| ToolError::new(ErrorCode::ValidationFailed, error))?;
        Ok((chain.client.clone(), own))
    });
    let watched = watched.collect::<Result<Vec<_>, ToolError>>()?;
    Ok(guardian::shared(SafetyGuardian::new(watched, place, absent)))
}

fn pipeline_chain(
    config: &Config,
    chain: &ConnectedChain,
    store: &Store,
    clock: &Arc<dyn Clock>,
) -> Result<PipelineChain, ToolError> {
    let network = chain.network();
    let rules = sender_rules(config, network);
    let settings = settings_of(config, network);
    let relay = settings.map(|settings| relay(settings, network.chain_id, clock)).transpose()?.flatten();
    let mut reader =
        SnapshotReader::new(chain.client.clone(), chain.prices.clone(), config.safety.minimum_pool_depth_usd.value);
    if let Some(oracle) = settings.and_then(|settings| settings.data_fee_oracle.as_ref()) {
        reader = reader.charging(oracle.value.map_or(DataFees::None, DataFees::Oracle));
    }
    Ok(PipelineChain {
        reader,
        sender: TxSender::new(chain.client.clone(), store.clone(), clock.clone(), relay, rules),
    })
}

/// Configured private relay of a chain, if any.
fn relay(settings: &ChainSettings, chain_id: u64, clock: &Arc<dyn Clock>) -> Result<Option<PrivateRelay>, ToolError> {
    let Some(relay) = &settings.relay else { return Ok(None) };
    let status = settings.relay_status.as_ref().map(|status| status.value.clone());
    let made = PrivateRelay::new(relay.value.clone(), status, chain_id, HttpLimits::default(), clock.clone());
    let made = made.map_err(|error| {
        ToolError::new(ErrorCode::ValidationFailed, format_args!("the relay ({}): {error}", relay.origin))
    })?;
    Ok(Some(made))
}
