//! A running session: a network, an engine and a Golem behind one [`Handle`]. It boots while it tells of each step,
//! follows blocks, stop file and policy, keeps the questions, and carries out commands. It decides nothing that the
//! pipeline, the desk or the operator decides.
//!
//! | file | holds |
//! |---|---|
//! | `boot` | from configuration to a [`stage::Stage`] |
//! | `stage` | everything that stands while the session runs |
//! | `watching` | what is followed: events, blocks, health, stop file, policy, questions |
//! | `looking` | the snapshot, and queries |
//! | `brake` | stops, which wait for nothing: commands pass by it first |
//! | `doing` | commands |
//! | `offers` | writes by hand: previewed, held, committed |
//! | `dying` | what is done when the Golem has died |
//! | `keys` | the Golem's keys taken away by the stop ladder |
//! | `selling` | positions left: sold in parts that fit, by death or by the stop ladder |
//! | `taking_back` | open orders: made void, or asked back from a bridge |
//! | `asking` | questions that are no action's: looser rules, lower stops |
//! | `cues` | what happens around the Golem in a show |
//! | `time` | a session's own time, where it does not follow the machine's |
//! | `tally` | what came of the run, counted from its events |

mod asking;
mod boot;
mod brake;
mod cues;
mod doing;
mod dying;
mod keys;
mod looking;
#[cfg(test)]
mod lowering;
mod offers;
mod selling;
mod stage;
mod taking_back;
mod tally;
mod time;
mod watching;

use std::sync::Arc;

use tokio::sync::mpsc;

use super::actor::{Actor, Living};
use super::data::show::ShowFolder;
use bardo_base::clock::{Clock, SimulatedClock, SystemClock};
use bardo_base::config::Config;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_safety::guardian::Guardian;
use bardo_session::handle::{COMMANDS_WAITING, Command, Handle, LeaveMode, News, Sent, SessionEnd};
use bardo_session::market::Update;
use golem::{brain, scenario, scenario::Scenario};
use golem_chain::network::Plan;
use golem_tools::engine::ApprovalMode;

pub use brake::HOLD_REASON;
pub use time::{Pace, TimeOptions};

use brake::Brake;

/// What a Golem says that plays no show because its network is not inside this process.
const NO_SHOW: &str = "Scenarios run only on Bardo's built-in devnet, so I do nothing here by myself. Tell me what to \
                       do (:), or give me a brain (--brain).";

/// What a Golem says on a devnet that is kept: a show would leave its trades and its stops there.
const KEPT: &str = "This devnet is kept, so no scenario runs on it, and I do nothing by myself. Tell me what to do \
                    (:), or give me a brain (--brain).";

/// What a Golem says that is led by the operator alone.
const YOU_LEAD: &str = "You are in charge; I do nothing by myself. Tell me what to do (:).";

/// How a session is opened.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Decides everything an embedded devnet's market does.
    pub seed: u64,
    /// Rehearse everything, sign nothing.
    pub paper: bool,
    /// Look only: nobody lives in it, and every command but leaving and looking is refused.
    pub watch: bool,
    /// The shows that the actor can play.
    pub scenarios: Vec<SafeText>,
    /// Approval mode of the Golem and of the operator's hand.
    pub approve: ApprovalMode,
    /// Who must agree above the hot lane; without one, what is above it is blocked.
    pub guardian: Option<Arc<dyn Guardian>>,
    /// Opens the key that the configuration names; without it that key previews, and does not sign.
    pub password: Option<Password>,
    /// The show that [`Session::open`] plays on a devnet of its own; without one it is the first tour.
    pub show: Option<Scenario>,
    /// Whether a show's own data folder is kept when it ends.
    pub keep: bool,
    /// A time of its own, on an embedded devnet; without one it follows the machine's clock.
    pub time: Option<TimeOptions>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            paper: false,
            watch: false,
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

/// Opens sessions.
#[derive(Debug)]
pub struct Session;

impl Session {
    /// Opens the network that `config` asks for, with a Golem in it that is led by the brain that `config` names. Without
    /// one it plays the first tour and lives on, on a devnet that ends with this process; anywhere else it only listens,
    /// since a show trades without having looked at whose money it is. Must be called on a tokio runtime, and returns at once:
    /// everything is told through the handle.
    pub fn open(config: Config, options: SessionOptions) -> Handle {
        let golem = match Plan::from_config(&config) {
            Ok(Plan::Devnet) if config.kept_devnet.is_some() => Living::listening(&KEPT),
            Ok(Plan::Devnet) => {
                let first = || scenario::find(scenario::DEFAULT).unwrap_or_else(|why| Scenario::quiet(&why));
                Living::playing(options.show.clone().unwrap_or_else(first))
            }
            // A network that cannot be opened says so itself.
            Ok(Plan::Endpoints(_)) | Err(_) => Living::listening(&NO_SHOW),
        };
        let (golem, led) = match brain::Choice::of(&config) {
            Ok(brain::Choice::Operator) => (Living::listening(&YOU_LEAD), false),
            Ok(choice) => {
                let brain = choice.make();
                let led = brain.is_some();
                (golem.led_by(brain), led)
            }
            Err(why) => (Living::listening(&why), false),
        };
        let golem = golem.given(config.golem.lifespan_seconds()).wanting(config.golem.goal());
        // Nobody can tell when a brain is done with a moment: it lives in the machine's time.
        let time = options.time.filter(|_| !led);
        Self::open_with(config, SessionOptions { time, ..options }, Box::new(golem))
    }

    /// The same with somebody else living in it.
    pub fn open_with(config: Config, options: SessionOptions, actor: Box<dyn Actor>) -> Handle {
        let (handle, end) = Handle::pair();
        tokio::spawn(run(config, options, actor, end));
        handle
    }
}

async fn run(config: Config, options: SessionOptions, actor: Box<dyn Actor>, end: SessionEnd) {
    let SessionEnd { commands: mut arriving, news } = end;
    // A show does as it likes with stops, ledger and playbook, so it does it in a data folder of its own. A kept devnet
    // stays with its ledger where the operator's are.
    let on_devnet = matches!(Plan::from_config(&config), Ok(Plan::Devnet));
    let plays = actor.script().is_some() && !options.watch && on_devnet && config.kept_devnet.is_none();
    let (_show, config) = match plays.then(|| ShowFolder::begin(&config, options.keep)).transpose() {
        Ok(None) => (None, config),
        Ok(Some((show, inside))) => (Some(show), inside),
        Err(why) => {
            let message = SafeText::clean(&why.to_string(), 400);
            tell(&news, News::Market(Update::Fault { chain: None, message })).await;
            return wait_for_leave(&mut arriving, &news).await;
        }
    };
    let simulated = options.time.map(|_| SimulatedClock::at(time::BEGINS_AT));
    let clock: Arc<dyn Clock> = match &simulated {
        Some(simulated) => Arc::new(simulated.clone()),
        None => Arc::new(SystemClock),
    };
    let brake = Brake::of(&config, clock.clone());
    // Stops are carried out as they arrive; everything else waits its turn behind them.
    let (passed_on, mut commands) = mpsc::channel(COMMANDS_WAITING);
    let front = brake::Front { brake: brake.clone(), watch_only: options.watch, golem_id: config.golem.id() };
    tokio::spawn(front.stand(arriving, passed_on, news.clone()));
    let mut booting = Box::pin(boot::boot(&config, &options, clock, brake.clone(), news.clone()));
    let stage = loop {
        tokio::select! {
            booted = &mut booting => match booted {
                Ok(stage) => break stage,
                Err(why) => {
                    tell(&news, News::Market(Update::Fault { chain: None, message: SafeText::clean(&why, 400) })).await;
                    return wait_for_leave(&mut commands, &news).await;
                }
            },
            sent = commands.recv() => if while_booting(sent, &options, &news).await {
                return;
            },
        }
    };
    drop(booting);
    stage.run(options, actor, commands, simulated).await;
}

/// Nothing stands, and nothing will: only leaving is left.
async fn wait_for_leave(commands: &mut mpsc::Receiver<Sent>, news: &mpsc::Sender<News>) {
    while let Some(sent) = commands.recv().await {
        if matches!(sent.command, Command::Leave(_)) {
            break;
        }
        let words = SafeText::clean("nothing runs here: the network did not start", 100);
        tell(news, News::Told { done: false, words }).await;
    }
    tell(news, News::Left(Box::default())).await;
}

/// A command that comes while the network boots; true: leave.
async fn while_booting(sent: Option<Sent>, options: &SessionOptions, news: &mpsc::Sender<News>) -> bool {
    let Some(sent) = sent else { return true };
    let words = match sent.command {
        Command::Leave(LeaveMode::Finish | LeaveMode::CancelOrders | LeaveMode::Now) => {
            tell(news, News::Left(Box::default())).await;
            return true;
        }
        _ if options.watch => "this console is read-only",
        _ => "the network is still starting",
    };
    tell(news, News::Told { done: false, words: SafeText::clean(words, 400) }).await;
    false
}

/// Tells the console something. One that has gone needs no news.
async fn tell(news: &mpsc::Sender<News>, what: News) {
    let _gone = news.send(what).await;
}
