//! The `bardo golem run` command: a scenario, in the console or without a screen. A headless run takes as long as its
//! work: the simulated time advances as soon as all actors are done. Events go to stdout as JSON lines. The exit code
//! shows whether everything happened as the scenario expects, so that a scenario can serve as a test.

use std::collections::{HashSet, VecDeque};

use tokio::sync::{mpsc, watch};

use super::{CliExit, CommandFailure, alerts, consent, known_role, load, logs, print};
use ::golem::brain::BrainChoice;
use ::golem::life::ScenarioProgress;
use ::golem::scenario::{self, Scenario};
use bardo_base::config::{Config, ConfigFlags, DEFAULT_NETWORK, Environment, Setting, SettingOrigin};
use bardo_base::fabric::EventKind;
use bardo_base::format::counted;
use bardo_base::id::GolemId;
use bardo_base::model::{Phase, StopLevel};
use bardo_runtime::actor::{GolemActor, HEARTBEAT};
use bardo_runtime::data::DataFolder;
use bardo_runtime::session::{Session, SessionOptions, TimeOptions, TimePace};
use bardo_safety::approval::OperatorReply;
use bardo_session::handle::{AddressedCommand, LeaveMode, SessionCommand, SessionHandle, SessionNews};
use bardo_session::market::MarketUpdate;
use bardo_session::questions::{Question, QuestionKey};
use golem_tools::engine::ApprovalMode;

/// Options of a scenario run.
#[derive(Debug)]
pub(super) struct RunOptions {
    pub(super) scenario: String,
    pub(super) seed: u64,
    pub(super) speed: Option<u32>,
    pub(super) step: bool,
    pub(super) ticks: Option<u64>,
    pub(super) keep: bool,
    pub(super) approve: Option<ApprovalMode>,
    pub(super) paper: bool,
}

/// Returns the configured brain. A brain runs in real time, so it can neither be accelerated nor wait for steps.
fn brain(run: &RunOptions, config: &Config) -> Result<BrainChoice, CommandFailure> {
    let choice = BrainChoice::of(config)?;
    if matches!(choice, BrainChoice::Operator) {
        let words = "--brain operator plays no scenario; open the console without one: bardo --brain operator";
        return Err(CommandFailure::usage(words.to_owned()));
    }
    if !matches!(choice, BrainChoice::Scenario) && (run.step || run.speed.is_some()) {
        let words = "a brain runs in real time; --speed and --step apply to scenarios only";
        return Err(CommandFailure::usage(words.to_owned()));
    }
    Ok(choice)
}

/// Finds the scenario, and checks that it can be played with these flags.
pub(super) fn show(name: &str, environment: &Environment, flags: &ConfigFlags) -> Result<Scenario, CommandFailure> {
    let scenario = scenario::find(name).map_err(|error| CommandFailure::usage(error.to_string()))?;
    let config = load(environment, flags)?;
    if config.network.value != DEFAULT_NETWORK || !flags.rpc.is_empty() {
        return Err(CommandFailure::usage("scenarios run on the devnet only; remove --network and --rpc".to_owned()));
    }
    Ok(scenario)
}

/// Loads the configuration for a scenario, whose role counts where none is configured.
pub(super) fn load_for(
    show: Option<&Scenario>,
    environment: &Environment,
    flags: &ConfigFlags,
) -> Result<Config, CommandFailure> {
    let mut config = load(environment, flags)?;
    let role = show.and_then(|show| show.archetype.clone());
    if let (Some(value), SettingOrigin::Default) = (role, &config.golem.archetype.origin) {
        config.golem.archetype = Setting { value, origin: SettingOrigin::Flag("--scenario") };
    }
    Ok(config)
}

/// Returns the options of a console session that plays the scenario. At another speed, or step by step, it has a
/// simulated clock.
pub(super) fn on_screen(
    run: &RunOptions,
    environment: &Environment,
    flags: &ConfigFlags,
) -> Result<SessionOptions, CommandFailure> {
    let show = show(&run.scenario, environment, flags)?;
    let _found = brain(run, &load(environment, flags)?)?;
    let own_time = run.step || run.speed.is_some_and(|speed| speed != 1);
    let time = own_time.then(|| own_time_of(&show, run.speed, run.step)).or_else(|| time_of(&show));
    Ok(SessionOptions { seed: run.seed, show: Some(show), keep: run.keep, time, ..SessionOptions::default() })
}

/// Returns the simulated time of a scenario in the console; `None` for real time.
pub(super) fn time_of(show: &Scenario) -> Option<TimeOptions> {
    show.tick.map(|_| own_time_of(show, None, false))
}

/// Returns a simulated time for a scenario in the console. A scenario with larger ticks runs at one tick per second by
/// default.
fn own_time_of(show: &Scenario, speed: Option<u32>, step: bool) -> TimeOptions {
    let tick = show.tick.unwrap_or(1);
    let times = speed.or_else(|| u32::try_from(tick).ok()).unwrap_or(1);
    TimeOptions { pace: TimePace::Times(times), tick, most: None, step, operator: false }
}

/// Returns the approval mode of a headless run. A scenario's requests are answered by its file. Those of a brain are
/// asked on this terminal; without one they are blocked at once, since its devnet is in this process, where no other
/// console could answer.
fn approval(asked: Option<ApprovalMode>, led: bool) -> Result<ApprovalMode, CommandFailure> {
    match asked {
        None if led && !consent::is_attended() => Ok(ApprovalMode::Never),
        Some(ApprovalMode::Ask) if led && !consent::is_attended() => {
            eprintln!(
                "bardo: no terminal here: what needs approval is blocked. Run it on a terminal, or open the console with \
                 `bardo --brain …`, to approve it"
            );
            Ok(ApprovalMode::Never)
        }
        None => Ok(ApprovalMode::Ask),
        Some(_) if !led => Err(CommandFailure::usage(
            "a scenario answers as its file says; --approve applies to runs with a brain only".to_owned(),
        )),
        Some(ApprovalMode::Always) => Err(CommandFailure::usage(
            "a brain's actions are never approved unseen: use --approve never or --approve ask".to_owned(),
        )),
        Some(asked @ (ApprovalMode::Never | ApprovalMode::Ask)) => Ok(asked),
    }
}

/// Runs the scenario without a screen.
pub(super) fn headless(
    run: &RunOptions,
    environment: &Environment,
    flags: &ConfigFlags,
) -> Result<CliExit, CommandFailure> {
    let scenario = show(&run.scenario, environment, flags)?;
    let config = load_for(Some(&scenario), environment, flags)?;
    let brain = brain(run, &config)?.asked_at_most(run.ticks).make();
    known_role(&config)?;
    alerts::check(&config)?;
    let led = brain.is_some();
    let approve = approval(run.approve, led)?;
    unstopped(&config)?;
    let _logs = logs::start(&config)?;
    let time = TimeOptions {
        pace: run.speed.map_or(TimePace::Free, TimePace::Times),
        tick: scenario.tick.unwrap_or(1),
        // The first heartbeat is at time zero.
        most: run.ticks.map(|ticks| ticks.saturating_sub(1).saturating_mul(HEARTBEAT.as_secs()).saturating_mul(1_000)),
        step: run.step,
        operator: true,
    };
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    let played = runtime.block_on(async {
        let actor = GolemActor::playing(scenario.clone()).led_by(brain);
        let actor = actor.given(config.golem.lifespan_seconds()).wanting(config.golem.goal());
        let played = actor.played();
        // With a brain, the session runs in real time. No scenario answers for it: a brain's actions are never approved
        // unseen.
        let time = if led { None } else { Some(time) };
        let terminal = (led && approve == ApprovalMode::Ask).then(TerminalPrompt::new);
        let RunOptions { seed, keep, paper, .. } = *run;
        let options = SessionOptions { seed, keep, paper, approve, time, attended: false, ..SessionOptions::default() };
        follow(Session::open_with(config, options, Box::new(actor)), played, terminal, led, run).await
    })?;
    let died = played.phases.last() == Some(&Phase::Terminal);
    if led && (died || !played.missed.is_empty()) {
        let died = died.then(|| "the Golem died".to_owned());
        for missed in played.missed.iter().chain(&died) {
            eprintln!("bardo: {missed}");
        }
        return Ok(CliExit::Error);
    }
    if led {
        eprintln!("bardo: the brain has finished");
        return Ok(CliExit::Success);
    }
    // A run with a limited number of heartbeats may end early; remaining steps then do not count as missed.
    let whole = run.ticks.is_none() || died || played.steps + played.skipped >= scenario.steps.len();
    describe(&scenario, &played, whole)
}

/// Checks that no stop blocks the run. Under such a stop no step or heartbeat would ever be due, and nothing here could
/// lift it, so the run would never end.
fn unstopped(config: &Config) -> Result<(), CommandFailure> {
    let stop = DataFolder::of(config).stop_file().read();
    match stop.level() {
        Some(level @ (StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke)) => {
            let words = format!("{level} is in force, so nothing can run; `bardo resume` lifts it");
            Err(CommandFailure { exit: CliExit::Blocked, error: words.into() })
        }
        Some(StopLevel::ExitOnly | StopLevel::Flatten) | None => Ok(()),
    }
}

/// Sends a message for every line on stdin, from a thread that ends with the process or with stdin.
fn lines() -> std::io::Result<mpsc::Receiver<()>> {
    let (word, words) = mpsc::channel(1);
    let read = move || {
        for line in std::io::stdin().lines() {
            if line.is_err() || word.blocking_send(()).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("steps".to_owned()).spawn(read)?;
    Ok(words)
}

/// Follows a session until the scenario or the number of heartbeats is over and the session has closed.
async fn follow(
    handle: SessionHandle,
    mut played: watch::Receiver<ScenarioProgress>,
    mut terminal: Option<TerminalPrompt>,
    led: bool,
    run: &RunOptions,
) -> Result<ScenarioProgress, CommandFailure> {
    let SessionHandle { commands, mut news } = handle;
    let mut lines = if run.step { lines()? } else { mpsc::channel(1).1 };
    // With a brain, the number of requests is limited elsewhere, and the run ends by itself.
    let ticks = run.ticks.filter(|_| !led);
    let (mut stepping, mut left, mut beats) = (run.step, false, 0_u64);
    loop {
        let mut sent = Vec::new();
        let over = async {
            match (left, ticks) {
                // A run with a fixed number of heartbeats continues after the scenario.
                (true, _) | (_, Some(_)) => std::future::pending().await,
                // Actions in progress, such as a sale of all holdings, finish in simulated time.
                (false, None) => drop(played.wait_for(|played| played.is_over() && (played.settled || led)).await),
            }
        };
        tokio::select! {
            () = over => sent.push(SessionCommand::Leave(LeaveMode::Finish)),
            line = lines.recv(), if stepping => match line {
                Some(()) => sent.push(SessionCommand::Step),
                // No one is left to request further steps.
                None => {
                    stepping = false;
                    sent.push(SessionCommand::Leave(LeaveMode::Finish));
                }
            },
            told = news.recv() => match told {
                None | Some(SessionNews::Left(_)) => break,
                Some(SessionNews::Events(events)) => {
                    for event in events {
                        print(&format!("{}\n", serde_json::to_string(&event)?))?;
                        beats += u64::from(matches!(event.kind, EventKind::Vitals(_)));
                    }
                    let dead = ticks.is_some() && played.borrow().phases.last() == Some(&Phase::Terminal);
                    if !left && (dead || ticks.is_some_and(|ticks| beats >= ticks)) {
                        sent.push(SessionCommand::Leave(LeaveMode::Finish));
                    }
                }
                Some(SessionNews::Questions(questions)) => {
                    if let Some(terminal) = &mut terminal {
                        terminal.update(&questions)?;
                    }
                }
                Some(SessionNews::Market(MarketUpdate::Fault { chain: None, message })) => return Err(message.to_string().into()),
                Some(_) => {}
            },
            answer = next_answer(&mut terminal) => sent.extend(answer),
        }
        for command in sent {
            left |= matches!(command, SessionCommand::Leave(_));
            // A closed session reports that in its last news.
            let _gone = commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await;
        }
    }
    let played = played.borrow().clone();
    if ticks.is_none() && !played.is_over() {
        return Err("the scenario was left before its end".into());
    }
    Ok(played)
}

/// Prompts for the approval requests of a session, one at a time.
struct TerminalPrompt {
    /// Requests that were shown.
    shown: HashSet<QuestionKey>,
    /// Requests that wait for the prompt, the oldest first.
    waiting: VecDeque<Question>,
    /// True while a prompt waits for input.
    is_busy: bool,
    answers: mpsc::Receiver<(QuestionKey, Option<OperatorReply>)>,
    answer: mpsc::Sender<(QuestionKey, Option<OperatorReply>)>,
}

impl TerminalPrompt {
    fn new() -> Self {
        let (answer, answers) = mpsc::channel(1);
        Self { shown: HashSet::new(), waiting: VecDeque::new(), is_busy: false, answers, answer }
    }

    /// Takes the open requests, and shows the next one if no prompt is open.
    fn update(&mut self, open: &[Question]) -> std::io::Result<()> {
        self.waiting.retain(|waiting| open.iter().any(|one| one.key == waiting.key));
        let actions = open.iter().filter(|one| matches!(one.key, QuestionKey::Action(_)));
        for question in actions {
            if self.shown.insert(question.key) {
                self.waiting.push_back(question.clone());
            }
        }
        self.prompt()
    }

    /// Shows the next request. The thread ends with its answer or with the process.
    fn prompt(&mut self) -> std::io::Result<()> {
        let Some(question) = (!self.is_busy).then(|| self.waiting.pop_front()).flatten() else { return Ok(()) };
        self.is_busy = true;
        let answer = self.answer.clone();
        let ask = move || {
            let reply = consent::ask_on_terminal(&question);
            // The run may have ended meanwhile.
            let _over = answer.blocking_send((question.key, reply));
        };
        std::thread::Builder::new().name("approval".to_owned()).spawn(ask).map(drop)
    }
}

/// Waits for the answer on the terminal. If the terminal fails, the request lapses.
async fn next_answer(terminal: &mut Option<TerminalPrompt>) -> Option<SessionCommand> {
    let Some(prompt) = terminal else { return std::future::pending().await };
    // The sender is in the same value, so the channel is never closed.
    let Some((key, reply)) = prompt.answers.recv().await else { return std::future::pending().await };
    prompt.is_busy = false;
    if let Err(error) = prompt.prompt() {
        eprintln!("bardo: the next approval request cannot be shown: {error}");
    }
    let OperatorReply { answer, confirmation, .. } = reply?;
    Some(SessionCommand::Answer { key, answer, confirmation, password: None })
}

/// Number of steps with its noun.
fn steps(count: usize) -> String {
    counted(u64::try_from(count).unwrap_or(u64::MAX), "step", "steps")
}

fn describe(scenario: &Scenario, played: &ScenarioProgress, whole: bool) -> Result<CliExit, CommandFailure> {
    let mut missed = played.missed.clone();
    if whole && played.is_over() {
        let left_out = scenario.steps.len().saturating_sub(played.steps + played.skipped);
        let died = played.phases.last() == Some(&Phase::Terminal);
        let why = if died { "the Golem died" } else { "the scenario was left" };
        missed.extend((left_out > 0).then(|| format!("{why} with {} remaining", steps(left_out))));
        missed.extend(scenario.missed_phases(&played.phases));
    }
    for missed in &missed {
        eprintln!("bardo: {}: {missed}", scenario.name);
    }
    if missed.is_empty() {
        let skipped = match played.skipped {
            0 => String::new(),
            skipped => format!("; {skipped} skipped because their conditions were not met"),
        };
        eprintln!("bardo: {}: {}, all as expected{skipped}", scenario.name, steps(played.steps));
        return Ok(CliExit::Success);
    }
    Ok(CliExit::Error)
}
