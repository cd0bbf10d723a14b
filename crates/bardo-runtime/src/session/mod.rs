//! A running session: a network, an engine and a Golem behind one [`SessionHandle`]. It reports each step of its
//! startup, follows blocks, stop file and policy, manages approval requests, and executes commands. Decisions belong to
//! the pipeline, the approval queue and the operator.
//!
//! | module | contents |
//! |---|---|
//! | `alerts` | alerts beside the session |
//! | `boot` | startup from the configuration to a [`state::SessionState`] |
//! | `state` | session state and main loop |
//! | `watching` | event sources: events, blocks, health, stop file, policy, requests |
//! | `queries` | snapshots and queries |
//! | `stop_watch` | stops, which are handled before all other commands |
//! | `commands` | commands |
//! | `offers` | manual writes: previewed, held, committed |
//! | `shutdown` | shutdown after the Golem's death |
//! | `keys` | removal of the Golem's keys by a stop |
//! | `selling` | liquidation in parts, after a death or by a stop |
//! | `unwind` | cancelling open orders, and refunds of bridge orders |
//! | `prompts` | approval requests that belong to no action: looser rules, lower stops |
//! | `scenario_events` | events around the Golem in a scenario |
//! | `time` | simulated time of a session |
//! | `stats` | statistics of the run, from its events |
//! | `error` | errors of starting a session and of its commands |

mod alerts;
mod boot;
mod commands;
mod error;
mod keys;
mod lending;
mod liquidations;
#[cfg(test)]
mod lowering;
mod offers;
mod prompts;
mod queries;
mod running;
mod scenario_events;
mod schedules;
mod selling;
mod shutdown;
mod state;
mod stats;
mod stop_watch;
mod time;
mod unwind;
mod vaults;
mod watching;

use std::sync::Arc;

use tokio::sync::mpsc;

use super::actor::{Actor, GolemActor};
use super::data::scenario_folder::ScenarioFolder;
use bardo_base::clock::{Clock, SimulatedClock, SystemClock};
use bardo_base::config::Config;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_safety::guardian::Guardian;
use bardo_session::handle::{
    AddressedCommand, COMMANDS_WAITING, LeaveMode, SessionCommand, SessionEnd, SessionHandle, SessionNews,
};
use bardo_session::market::MarketUpdate;
use golem::{brain, scenario, scenario::Scenario};
use golem_chain::network::NetworkPlan;
use golem_tools::engine::ApprovalMode;

pub use stop_watch::HOLD_REASON;
pub use time::{TimeOptions, TimePace};

use stop_watch::StopWatch;

/// Message of a Golem that plays no scenario because its network is not inside this process.
const NO_SHOW: &str = "Scenarios run only on Bardo's built-in devnet, so I do nothing here by myself. Tell me what to \
                       do (:), or give me a brain (--brain).";

/// Message of a Golem on a kept devnet, where a scenario would leave its trades and stops.
const KEPT: &str = "This devnet is kept, so no scenario runs on it, and I do nothing by myself. Tell me what to do \
                    (:), or give me a brain (--brain).";

/// Message of a Golem on a rehearsal, where a scenario would trade in tokens that are not there.
const REHEARSAL: &str = "This is a rehearsal of a live network, so no scenario runs on it, and I do nothing by myself. \
                         Tell me what to do (:), or give me a brain (--brain).";

/// Message of a Golem that only the operator leads.
const YOU_LEAD: &str = "You are in charge; I do nothing by myself. Tell me what to do (:).";

/// Options of a session.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Seed of the embedded devnet's simulated market.
    pub seed: u64,
    /// Paper mode: rehearse everything, sign nothing.
    pub paper: bool,
    /// Read-only mode: no actor runs, and all commands except leaving and queries are rejected.
    pub watch: bool,
    /// True if an operator sees the session and can answer requests of other processes on the ledger.
    pub attended: bool,
    /// The shows that the actor can play.
    pub scenarios: Vec<SafeText>,
    /// Approval mode of calls by the Golem and by the operator.
    pub approve: ApprovalMode,
    /// Reviewer of actions above the hot lane; `None` for Bardo's own safety-guardian.
    pub guardian: Option<Arc<dyn Guardian>>,
    /// Password of the configured key; without it the key can preview but not sign.
    pub password: Option<Password>,
    /// Scenario that [`Session::open`] plays on its own devnet; `None` for the first tour.
    pub show: Option<Scenario>,
    /// Keeps the data directory of a scenario run when it ends.
    pub keep: bool,
    /// Simulated time, for an embedded devnet; `None` for the system clock.
    pub time: Option<TimeOptions>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            paper: false,
            watch: false,
            attended: true,
            scenarios: Vec::new(),
            approve: ApprovalMode::Ask,
            guardian: None,
            password: None,
            show: None,
            keep: false,
            time: None,
        }
    }
}

/// Entry point for opening sessions.
#[derive(Debug)]
pub struct Session;

impl Session {
    /// Opens the configured network with a Golem that is led by the configured brain.
    ///
    /// Without a brain, the Golem plays the first tour on a devnet that ends with this process, and lives on. On any
    /// other network it only follows instructions, because a scenario trades without regard to whose money it is.
    ///
    /// Must be called on a tokio runtime. Returns at once; everything is reported through the handle.
    pub fn open(config: Config, options: SessionOptions) -> SessionHandle {
        let golem = match NetworkPlan::from_config(&config) {
            Ok(NetworkPlan::Devnet) if config.fork.is_some() => GolemActor::listening(&REHEARSAL),
            Ok(NetworkPlan::Devnet) if config.kept_devnet.is_some() => GolemActor::listening(&KEPT),
            Ok(NetworkPlan::Devnet) => {
                let first = || scenario::find(scenario::DEFAULT).unwrap_or_else(|why| Scenario::quiet(&why));
                GolemActor::playing(options.show.clone().unwrap_or_else(first))
            }
            // A network that cannot be opened reports that itself.
            Ok(NetworkPlan::Endpoints(_)) | Err(_) => GolemActor::listening(&NO_SHOW),
        };
        let (golem, led) = match brain::BrainChoice::of(&config) {
            Ok(brain::BrainChoice::Operator) => (GolemActor::listening(&YOU_LEAD), false),
            Ok(choice) => {
                let brain = choice.make();
                let led = brain.is_some();
                (golem.led_by(brain), led)
            }
            Err(why) => (GolemActor::listening(&why), false),
        };
        let golem = golem.given(config.golem.lifespan_seconds()).wanting(config.golem.goal());
        // The end of a brain's work at one moment is unknown, so a brain needs the system clock.
        let time = options.time.filter(|_| !led);
        Self::open_with(config, SessionOptions { time, ..options }, Box::new(golem))
    }

    /// Opens a session with another actor.
    pub fn open_with(config: Config, options: SessionOptions, actor: Box<dyn Actor>) -> SessionHandle {
        let (handle, end) = SessionHandle::pair();
        tokio::spawn(run(config, options, actor, end));
        handle
    }
}

async fn run(config: Config, options: SessionOptions, actor: Box<dyn Actor>, end: SessionEnd) {
    let SessionEnd { commands: mut arriving, news } = end;
    // A read-only session stands beside one that reports.
    let (news, alert_channels) = match options.watch {
        true => (news, None),
        false => {
            let (news, changes) = alerts::between(&config, news);
            (news, Some(changes))
        }
    };
    // A scenario changes stops, ledger and playbook, so it runs in its own data directory. A kept devnet and its ledger
    // stay in the operator's.
    let on_devnet = matches!(NetworkPlan::from_config(&config), Ok(NetworkPlan::Devnet));
    let lasts = config.kept_devnet.is_some() || config.fork.is_some();
    let plays = actor.script().is_some() && !options.watch && on_devnet && !lasts;
    let (_show, config) = match plays.then(|| ScenarioFolder::begin(&config, options.keep)).transpose() {
        Ok(None) => (None, config),
        Ok(Some((show, inside))) => (Some(show), inside),
        Err(why) => {
            let message = SafeText::clean(&why.to_string(), 400);
            send_news(&news, SessionNews::Market(MarketUpdate::Fault { chain: None, message })).await;
            return wait_for_leave(&mut arriving, &news).await;
        }
    };
    let simulated = options.time.map(|_| SimulatedClock::at(time::BEGINS_AT));
    let clock: Arc<dyn Clock> = match &simulated {
        Some(simulated) => Arc::new(simulated.clone()),
        None => Arc::new(SystemClock),
    };
    let stop_watch = StopWatch::of(&config, clock.clone());
    // Stops are executed as they arrive; all other commands are queued behind them.
    let (passed_on, mut commands) = mpsc::channel(COMMANDS_WAITING);
    let front = stop_watch::CommandFront {
        stop_watch: stop_watch.clone(),
        watch_only: options.watch,
        golem_id: config.golem.id(),
    };
    tokio::spawn(front.receive_commands(arriving, passed_on, news.clone()));
    let mut booting = Box::pin(boot::boot(&config, &options, clock, stop_watch.clone(), news.clone()));
    let state = loop {
        tokio::select! {
            booted = &mut booting => match booted {
                Ok(state) => break state,
                Err(why) => {
                    let message = SafeText::clean(&why.to_string(), 400);
                    send_news(&news, SessionNews::Market(MarketUpdate::Fault { chain: None, message })).await;
                    return wait_for_leave(&mut commands, &news).await;
                }
            },
            sent = commands.recv() => if while_booting(sent, &options, &news).await {
                return;
            },
        }
    };
    drop(booting);
    if let Some(changes) = alert_channels {
        tokio::spawn(alerts::report(changes, state.sources.fabric.clone()));
    }
    state.run(options, actor, commands, simulated).await;
}

/// Startup failed: only leaving is possible.
async fn wait_for_leave(commands: &mut mpsc::Receiver<AddressedCommand>, news: &mpsc::Sender<SessionNews>) {
    while let Some(sent) = commands.recv().await {
        if matches!(sent.command, SessionCommand::Leave(_)) {
            break;
        }
        let words = SafeText::clean("nothing runs here: the network did not start", 100);
        send_news(news, SessionNews::CommandResult { done: false, words }).await;
    }
    send_news(news, SessionNews::Left(Box::default())).await;
}

/// Handles a command during startup; returns true to leave.
async fn while_booting(
    sent: Option<AddressedCommand>,
    options: &SessionOptions,
    news: &mpsc::Sender<SessionNews>,
) -> bool {
    let Some(sent) = sent else { return true };
    let words = match sent.command {
        SessionCommand::Leave(LeaveMode::Finish | LeaveMode::CancelOrders | LeaveMode::Now) => {
            send_news(news, SessionNews::Left(Box::default())).await;
            return true;
        }
        _ if options.watch => "this console is read-only",
        _ => "the network is still starting",
    };
    send_news(news, SessionNews::CommandResult { done: false, words: SafeText::clean(words, 400) }).await;
    false
}

/// Sends a message to the console, and ignores that it has closed.
async fn send_news(news: &mpsc::Sender<SessionNews>, what: SessionNews) {
    let _gone = news.send(what).await;
}
