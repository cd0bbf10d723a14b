//! Startup of a session from the configuration, with a report of each step.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::error::BootError;
use super::state::{SessionChannels, SessionControl, SessionSources, SessionState};
use super::time::UNHURRIED;
use super::{SessionOptions, StopWatch, send_news};
use crate::accounting::{BookKeeper, ToolBooks};
use crate::data::{DataFolder, Ledger};
use crate::questions::shared::SharedQueue;
use crate::rehearsal::Rehearsal;
use crate::rehearsed::RehearsalRecorder;
use crate::session_keyring::FolderKeyring;
use crate::{OpenEnvironment, SigningContext, account, open_telling};
use bardo_base::clock::Clock;
use bardo_base::config::{Config, ForkSettings};
use bardo_base::fabric::{Fabric, FabricConfig};
use bardo_base::id::GolemId;
use bardo_base::model::Phase;
use bardo_base::rng::RandomSource;
use bardo_base::text::SafeText;
use bardo_safety::Account;
use bardo_safety::custody::{RevocableAccount, RevocationSwitch};
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_sandbox::genesis::StartStage as Step;
use bardo_sandbox::{BlockPace, MarketMode, SandboxConfig, StartProgress};
use bardo_session::handle::SessionNews;
use bardo_session::market::{BootStep, ChainIdentity, MarketUpdate, MoneyKind, NetworkIdentity};
use golem::brain::BrainChoice;
use golem::brain::process::confinement;
use golem_chain::network::NetworkKind;
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::{Catalog, Executor, ExecutorConfig, Hook, WriteAccess};

/// Number of events kept in memory. Older events are in the journal.
const RING: usize = 65_536;
/// Tool calls per minute, for the Golem and for the operator each.
pub(super) const CALLS_PER_MINUTE: u32 = 60;

/// Starts everything that a session needs.
///
/// # Errors
/// [`BootError`].
pub(super) async fn boot(
    config: &Config,
    options: &SessionOptions,
    clock: Arc<dyn Clock>,
    stop_watch: StopWatch,
    news: mpsc::Sender<SessionNews>,
) -> Result<SessionState, BootError> {
    let folder = DataFolder::of(config);
    folder.create()?;
    let journal = folder.new_journal(&*clock)?;
    let fabric = FabricConfig { ring: RING, journal: Some(journal.clone()), clock: clock.clone() };
    let fabric = Fabric::new(fabric)?;
    let mut opened = open(config, options, &clock, &news).await?;
    let ledger = folder.open_ledger(&opened).await?;
    let rules = crate::rules(config, &opened, &ledger).await?;
    opened.world = opened.world.under(Arc::clone(&rules));
    let keyring = FolderKeyring::new(folder.clone(), clock.clone()).with_agents_in(&ledger);
    opened.world.session_keys = Some(Arc::new(keyring));
    match (options.time.is_some(), opened.sandbox.is_some()) {
        (true, false) => return Err(BootError::OwnTime),
        (true, true) => opened.world.rng = RandomSource::seeded(options.seed),
        (false, _) => {}
    }
    let (phase, phase_now) = watch::channel(Phase::Thriving);
    let acting = act(config, options, (&opened, &ledger), &rules, &fabric, &clock, &phase_now).await?;
    let selected = account::pick(config, &opened.world)?;
    if let (false, Some(account)) = (options.watch, opened.world.account) {
        // A process that was killed during a sale has left its plan, which permits parts that nothing else would.
        rules.end_orphaned_liquidations(account, clock.now_millis()).await?;
    }
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied())?;
    // Programs that start a session have validated the archetypes already; the files may have changed since.
    let roles = crate::roles(config, &catalog)?;
    let role = &config.golem.archetype.value;
    let reach = roles.reach(role, &catalog)?;
    let network = identity(&opened);
    let recorder = opened.rehearsal.as_ref().and_then(|rehearsal| RehearsalRecorder::of(rehearsal, &folder));
    let hooks: Vec<Arc<dyn Hook>> = recorder.into_iter().map(|hook| Arc::new(hook) as Arc<dyn Hook>).collect();
    let inhabited = opened.inhabited().to_vec();
    let sandbox = opened.sandbox;
    let orders = acting.as_ref().and_then(|acting| acting.pipeline.orders().cloned());
    let paper = acting.as_ref().map(|acting| acting.paper.clone());
    let world = opened.world.with_orders(orders).with_paper(paper);
    let books = world.account.filter(|_| !options.watch);
    let books = books.map(|account| BookKeeper::new(config, world.chains(), ledger.store.clone(), account));
    let tool_books = books.clone().map(|keeper| Arc::new(ToolBooks::new(keeper, world.chains())) as Arc<_>);
    let world = Arc::new(world.with_books(tool_books));
    let (golems, revocation) = acting.clone().map(revocable).unzip();
    let golem_id = config.golem.id();
    let executor = |golem_id: &GolemId, catalog: &Catalog, acting: &Option<WriteAccess>| {
        Executor::new(ExecutorConfig {
            catalog: catalog.clone(),
            world: Arc::clone(&world),
            fabric: fabric.clone(),
            golem_id: golem_id.clone(),
            calls_per_minute: CALLS_PER_MINUTE,
            hooks: hooks.clone(),
            store: Some(ledger.store.clone()),
            acting: acting.clone(),
        })
    };
    let (shared, led_by_program) = (ledger.queue.clone(), BrainChoice::is_program(&config.golem));
    join_queue(&shared, options, led_by_program).await?;
    send_news(&news, SessionNews::Market(MarketUpdate::Started(network.clone()))).await;
    let sources = SessionSources {
        folder,
        selected,
        books,
        golem: executor(&golem_id, &reach, &golems),
        operator: executor(&GolemId::operator(), &catalog, &acting),
        catalog: catalog.clone(),
        roles: Arc::new(roles),
        paper: acting.as_ref().map(|acting| acting.paper.clone()),
        queue: acting.as_ref().map(|acting| acting.pipeline.approval_queue().clone()),
        pipeline: acting.as_ref().map(|acting| acting.pipeline.clone()),
        keeper: acting.as_ref().map(|_| Arc::clone(rules.keeper())),
        rules: acting.as_ref().map(|_| rules),
        world,
        sandbox,
        inhabited,
        ledger,
        shared,
        network,
        clock,
        fabric,
        journal,
    };
    Ok(SessionState {
        golem_id,
        name: SafeText::clean(&config.golem.name.value, 40),
        role: SafeText::clean(role, 40),
        watch_only: options.watch,
        on_death: config.on_death.value,
        has_own_time: options.time.is_some(),
        step_by_step: options.time.is_some_and(|time| time.step),
        led_by_program,
        brain_isolation: led_by_program.then(confinement::available),
        sources,
        control: SessionControl::new(stop_watch, revocation, phase),
        links: SessionChannels::new(news, phase_now),
    })
}

/// Tells the other processes on this ledger who decides here.
async fn join_queue(shared: &SharedQueue, options: &SessionOptions, led_by_program: bool) -> Result<(), BootError> {
    if led_by_program {
        // Before the brain process starts. This session itself knows that approvals from elsewhere do not count. Other
        // processes on this ledger rely on this row, which a process of the same user could delete. So it stops a brain
        // that merely answers requests it finds, but not a deliberate attack; that takes another user or a container.
        shared.lead().await?;
    }
    if options.attended && !options.watch {
        shared.attend().await?;
    }
    Ok(())
}

/// Opens the network, and reports its progress to the console.
async fn open(
    config: &Config,
    options: &SessionOptions,
    clock: &Arc<dyn Clock>,
    news: &mpsc::Sender<SessionNews>,
) -> Result<OpenEnvironment, BootError> {
    let sandbox = SandboxConfig {
        seed: options.seed,
        start_time: clock.now_seconds(),
        // With simulated time, blocks are made as that time passes.
        pace: if options.time.is_some() { BlockPace::Every(UNHURRIED) } else { BlockPace::Live },
        clock: Some(clock.clone()),
        market: MarketMode::On,
        keeper: true,
    };
    if let Some(fork) = &config.fork {
        return rehearse(config, fork, sandbox, clock, news).await;
    }
    let telling = news.clone();
    let lasts = match &config.kept_devnet {
        Some(name) => format!("kept as {name}"),
        None => "ends with this process".to_owned(),
    };
    let report = move |progress: StartProgress| {
        // A closed console needs no reports.
        let _gone = telling.blocking_send(SessionNews::Market(MarketUpdate::Boot(step_of(progress, &lasts))));
    };
    Ok(open_telling(config, move || sandbox, clock.clone(), report).await?)
}

/// Opens a rehearsal, and reports its steps.
async fn rehearse(
    config: &Config,
    fork: &ForkSettings,
    pace: SandboxConfig,
    clock: &Arc<dyn Clock>,
    news: &mpsc::Sender<SessionNews>,
) -> Result<OpenEnvironment, BootError> {
    let step = |step: &str, detail: &str, done: bool| {
        SessionNews::Market(MarketUpdate::Boot(BootStep {
            chain: SafeText::clean(&fork.network, 40),
            step: SafeText::clean(step, 80),
            detail: SafeText::clean(detail, 120),
            done,
            rehearses: true,
        }))
    };
    send_news(news, step("reading the live network", &fork.to_string(), false)).await;
    let opened = open_telling(config, move || pace, clock.clone(), |_| {}).await?;
    if let Some(rehearsal) = &opened.rehearsal {
        let source = if rehearsal.origin.is_offline() { ", from the cache" } else { "" };
        send_news(news, step(&format!("at block {}{source}", rehearsal.origin.number()), "", false)).await;
        let holder = match rehearsal.holder {
            Some(holder) => format!("a stand-in with what {holder} holds"),
            None => "a stand-in with 10 of the native token".to_owned(),
        };
        send_news(news, step(&holder, &not_copied(rehearsal), false)).await;
        if let Some(residents) = &rehearsal.residents {
            let pools = residents.deployment.pools.len();
            send_news(news, step(&format!("traders on {pools} pools, and UniswapX fillers"), "", false)).await;
        }
        let lasts = match &config.kept_devnet {
            Some(name) => format!("kept as {name}"),
            None => "ends with this process".to_owned(),
        };
        send_news(news, step("running", &lasts, true)).await;
    }
    Ok(opened)
}

/// Description of the holdings that the stand-in did not get.
fn not_copied(rehearsal: &Rehearsal) -> String {
    match rehearsal.not_copied.as_slice() {
        [] => String::new(),
        [first] => format!("without {first}"),
        [first, rest @ ..] => format!("without {first} and {} more", rest.len()),
    }
}

/// The signing account and its pipeline; `None` where no account is configured.
async fn act(
    config: &Config,
    options: &SessionOptions,
    (opened, ledger): (&OpenEnvironment, &Ledger),
    rules: &Arc<OperatorPolicyEngine>,
    fabric: &Fabric,
    clock: &Arc<dyn Clock>,
    phase: &watch::Receiver<Phase>,
) -> Result<Option<WriteAccess>, BootError> {
    let Some(picked) = account::pick(config, &opened.world)? else { return Ok(None) };
    let signing = SigningContext {
        phase: phase.clone(),
        approve: options.approve,
        guardian: options.guardian.clone(),
        paper: options.paper,
        may_turn: true,
        looks_only: options.watch,
        ..SigningContext::of(unlocked(config, options, opened, ledger, &picked).await?)
    };
    let made = crate::acting(config, opened, ledger, Arc::clone(rules), fabric, clock.clone(), signing);
    Ok(Some(made.await?))
}

/// The Golem signs with the same account, until its access is revoked.
fn revocable(acting: WriteAccess) -> (WriteAccess, RevocationSwitch) {
    let (account, revocation) = RevocableAccount::new(Arc::clone(&acting.account));
    (WriteAccess { account: Arc::new(account), ..acting }, revocation)
}

/// The signing account, unlocked where the session has its password.
async fn unlocked(
    config: &Config,
    options: &SessionOptions,
    opened: &OpenEnvironment,
    ledger: &Ledger,
    picked: &account::SelectedAccount,
) -> Result<Arc<dyn Account>, BootError> {
    let account = account::locked(picked, opened, ledger)?;
    match (picked.key(), &options.password) {
        (Some(_), Some(password)) => Ok(account::unlock(config, picked, password.clone(), (opened, ledger)).await?),
        _ => Ok(account),
    }
}

/// Converts progress of the devnet into a step for the console. `lasts` says what happens to the devnet at the end.
fn step_of(progress: StartProgress, lasts: &str) -> BootStep {
    let (step, detail) = match progress.stage {
        Step::Snapshot => ("loading contracts, pools and balances", String::new()),
        Step::Kept => ("reading the kept chain", String::new()),
        Step::Contracts => ("deploying the protocols' contracts", String::new()),
        Step::Pools => ("creating pools", String::new()),
        Step::Funds => ("funding accounts", String::new()),
        Step::Liquidity => ("adding liquidity", String::new()),
        Step::Past { done, of } => ("simulating two hours of market", format!("block {done} of {of}")),
        Step::Ready => ("running", lasts.to_owned()),
    };
    BootStep {
        chain: SafeText::clean(progress.chain, 40),
        step: SafeText::clean(step, 80),
        detail: SafeText::clean(&detail, 40),
        done: progress.stage == Step::Ready,
        rehearses: false,
    }
}

/// Network as the header shows it.
fn identity(opened: &crate::OpenEnvironment) -> NetworkIdentity {
    let chains = opened.world.chains();
    let kinds: Vec<NetworkKind> = chains.iter().map(|chain| chain.network().kind).collect();
    // The riskiest kind decides: real money beside play money counts as real money.
    let money = if chains.iter().any(|chain| chain.network().rehearses.is_some()) {
        MoneyKind::Rehearsal
    } else if kinds.contains(&NetworkKind::Real) || kinds.is_empty() {
        MoneyKind::Real
    } else if kinds.contains(&NetworkKind::Test) {
        MoneyKind::Test
    } else {
        MoneyKind::Play
    };
    let name = match chains {
        _ if money == MoneyKind::Play => "devnet".to_owned(),
        [one] if let Some(block) = one.network().rehearses => {
            format!("{} at block {}", one.network().name, block.number)
        }
        [one] => one.network().name.clone(),
        _ => format!("{} networks", chains.len()),
    };
    NetworkIdentity {
        name: SafeText::clean(&name, 40),
        money,
        chains: chains
            .iter()
            .map(|chain| ChainIdentity {
                name: SafeText::clean(&chain.network().name, 40),
                id: chain.network().chain_id,
                interval_millis: Some(chain.network().block_millis),
            })
            .collect(),
        wallet: opened.world.account.unwrap_or_default(),
    }
}
