//! `bardo golem run`: a show, in the console or without a screen. Headless it takes as long as its work does: time passes
//! as soon as everybody is done. Events go to stdout, a JSON object a line; the exit code says whether everything came as
//! the scenario expects, so that a scenario is a test.

use std::collections::HashSet;

use tokio::sync::{mpsc, watch};

use super::{Exit, Failure, known_role, load, logs, print};
use ::golem::brain::Choice;
use ::golem::life::Played;
use ::golem::scenario::{self, Operator, Scenario};
use bardo_base::config::{Config, DEFAULT_NETWORK, Environment, Flags};
use bardo_base::fabric::EventKind;
use bardo_base::id::GolemId;
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_runtime::actor::{HEARTBEAT, Living};
use bardo_runtime::data::DataFolder;
use bardo_runtime::session::{Pace, Session, SessionOptions, TimeOptions};
use bardo_session::handle::{Command, Handle, LeaveMode, News, Sent};
use bardo_session::market::Update;
use bardo_session::questions::{OperatorAnswer, Question, QuestionKey};
use golem_tools::engine::ApprovalMode;

/// How a show is run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) scenario: String,
    pub(super) seed: u64,
    pub(super) speed: Option<u32>,
    pub(super) step: bool,
    pub(super) ticks: Option<u64>,
    pub(super) keep: bool,
    pub(super) approve: Option<ApprovalMode>,
    pub(super) paper: bool,
}

/// The brain that is wanted. Its time cannot be owned, so nobody can hurry it or have it wait for a step.
fn brain(run: &Run, config: &Config) -> Result<Choice, Failure> {
    let choice = Choice::of(config)?;
    if matches!(choice, Choice::Operator) {
        let words = "where you lead no show is played; open the console without one: bardo --brain operator";
        return Err(Failure::usage(words.to_owned()));
    }
    if !matches!(choice, Choice::Scenario) && (run.step || run.speed.is_some()) {
        let words = "a brain lives in the machine's time; --speed and --step are for shows";
        return Err(Failure::usage(words.to_owned()));
    }
    Ok(choice)
}

/// The show that is asked for, and that it can be played where the flags say.
pub(super) fn show(name: &str, environment: &Environment, flags: &Flags) -> Result<Scenario, Failure> {
    let scenario = scenario::find(name).map_err(|error| Failure::usage(error.to_string()))?;
    let config = load(environment, flags)?;
    if config.network.value != DEFAULT_NETWORK || !flags.rpc.is_empty() {
        return Err(Failure::usage("shows are played on the devnet only; leave --network and --rpc out".to_owned()));
    }
    Ok(scenario)
}

/// A session that plays it in the console. At another pace than the machine's, or step by step, its time is its own.
pub(super) fn on_screen(run: &Run, environment: &Environment, flags: &Flags) -> Result<SessionOptions, Failure> {
    let show = show(&run.scenario, environment, flags)?;
    let _found = brain(run, &load(environment, flags)?)?;
    let own_time = run.step || run.speed.is_some_and(|speed| speed != 1);
    let time = own_time.then(|| own_time_of(&show, run.speed, run.step)).or_else(|| time_of(&show));
    Ok(SessionOptions { seed: run.seed, show: Some(show), keep: run.keep, time, ..SessionOptions::default() })
}

/// The time of a show on a screen: its own where it says so, else the machine's.
pub(super) fn time_of(show: &Scenario) -> Option<TimeOptions> {
    show.tick.map(|_| own_time_of(show, None, false))
}

/// A time of its own for a show on a screen. One that ticks in larger steps ticks once a second where nobody says
/// otherwise.
fn own_time_of(show: &Scenario, speed: Option<u32>, step: bool) -> TimeOptions {
    let tick = show.tick.unwrap_or(1);
    let times = speed.or_else(|| u32::try_from(tick).ok()).unwrap_or(1);
    TimeOptions { pace: Pace::Times(times), tick, most: None, step, operator: false }
}

/// Approval mode of a run without a screen.
fn approval(asked: Option<ApprovalMode>, led: bool) -> Result<ApprovalMode, Failure> {
    match asked {
        None => Ok(ApprovalMode::Ask),
        Some(_) if !led => {
            Err(Failure::usage("a show answers as its file says; --approve is for a run that a brain leads".to_owned()))
        }
        Some(ApprovalMode::Always) => {
            Err(Failure::usage("a brain's actions are never approved unseen: give --approve never or ask".to_owned()))
        }
        Some(asked @ (ApprovalMode::Never | ApprovalMode::Ask)) => Ok(asked),
    }
}

/// Plays it without a screen.
pub(super) fn headless(run: &Run, environment: &Environment, flags: &Flags) -> Result<Exit, Failure> {
    let scenario = show(&run.scenario, environment, flags)?;
    let config = load(environment, flags)?;
    let brain = brain(run, &config)?.asked_at_most(run.ticks).make();
    known_role(&config)?;
    let led = brain.is_some();
    let approve = approval(run.approve, led)?;
    if !led {
        unstopped(&config)?;
    }
    let _logs = logs::start(&config)?;
    let time = TimeOptions {
        pace: run.speed.map_or(Pace::Free, Pace::Times),
        tick: scenario.tick.unwrap_or(1),
        // The first heartbeat is at the very beginning.
        most: run.ticks.map(|ticks| ticks.saturating_sub(1).saturating_mul(HEARTBEAT.as_secs()).saturating_mul(1_000)),
        step: run.step,
        operator: true,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let played = runtime.block_on(async {
        let actor = Living::playing(scenario.clone()).led_by(brain);
        let actor = actor.given(config.golem.lifespan_seconds()).wanting(config.golem.goal());
        let played = actor.played();
        // A brain lives in the machine's time: there nobody but this program answers for the show's operator.
        let (time, operator) = if led { (None, scenario.operator) } else { (Some(time), Operator::Wait) };
        let Run { seed, keep, paper, .. } = *run;
        let options = SessionOptions { seed, keep, paper, approve, time, attended: false, ..SessionOptions::default() };
        follow(Session::open_with(config, options, Box::new(actor)), played, operator, led, run).await
    })?;
    let died = played.phases.last() == Some(&Phase::Terminal);
    if led && (died || !played.missed.is_empty()) {
        let died = died.then(|| "the Golem died".to_owned());
        for missed in played.missed.iter().chain(&died) {
            eprintln!("bardo: {missed}");
        }
        return Ok(Exit::Error);
    }
    if led {
        eprintln!("bardo: the brain is done");
        return Ok(Exit::Success);
    }
    // Whoever counts heartbeats may leave before the end, and what is still to come is then not missed.
    let whole = run.ticks.is_none() || died || played.beats + played.skipped >= scenario.beats.len();
    told(&scenario, &played, whole)
}

/// Under a stop that holds a Golem nothing of a show is ever due, and nobody here could lift it: it would be waited for
/// without an end.
fn unstopped(config: &Config) -> Result<(), Failure> {
    let stop = DataFolder::of(config).stop_file().read();
    match stop.level() {
        Some(level @ (StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke)) => {
            let words = format!("{level} is in force, and no show is played under it; `bardo resume` lifts it");
            Err(Failure { exit: Exit::Blocked, error: words.into() })
        }
        Some(StopLevel::ExitOnly | StopLevel::Flatten) | None => Ok(()),
    }
}

/// A word for every line on stdin, read on a thread of its own: it ends with the program, or with stdin.
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

/// Follows a session until its show is over, or as many heartbeats as are wanted, and it has been left.
async fn follow(
    handle: Handle,
    mut played: watch::Receiver<Played>,
    operator: Operator,
    led: bool,
    run: &Run,
) -> Result<Played, Failure> {
    let Handle { commands, mut news } = handle;
    let mut lines = if run.step { lines()? } else { mpsc::channel(1).1 };
    // A brain counts how often it is asked, and ends by itself.
    let ticks = run.ticks.filter(|_| !led);
    let (mut stepping, mut left, mut beats) = (run.step, false, 0_u64);
    let mut answered = HashSet::new();
    loop {
        let mut sent = Vec::new();
        let over = async {
            match (left, ticks) {
                // Whoever counts heartbeats lives on after the show.
                (true, _) | (_, Some(_)) => std::future::pending().await,
                // What it has set going, such as a sale of all that is held, comes to its end in the show's own time.
                (false, None) => drop(played.wait_for(|played| played.is_over() && (played.settled || led)).await),
            }
        };
        tokio::select! {
            () = over => sent.push(Command::Leave(LeaveMode::Finish)),
            line = lines.recv(), if stepping => match line {
                Some(()) => sent.push(Command::Step),
                // Nobody is left who could say when to go on.
                None => {
                    stepping = false;
                    sent.push(Command::Leave(LeaveMode::Finish));
                }
            },
            told = news.recv() => match told {
                None | Some(News::Left(_)) => break,
                Some(News::Events(events)) => {
                    for event in events {
                        print(&format!("{}\n", serde_json::to_string(&event)?))?;
                        beats += u64::from(matches!(event.kind, EventKind::Vitals(_)));
                    }
                    let dead = ticks.is_some() && played.borrow().phases.last() == Some(&Phase::Terminal);
                    if !left && (dead || ticks.is_some_and(|ticks| beats >= ticks)) {
                        sent.push(Command::Leave(LeaveMode::Finish));
                    }
                }
                Some(News::Questions(questions)) => {
                    for question in questions.iter().filter(|question| answered.insert(question.key)) {
                        sent.extend(answer(operator, question));
                    }
                }
                Some(News::Market(Update::Fault { chain: None, message })) => return Err(message.to_string().into()),
                Some(_) => {}
            },
        }
        for command in sent {
            left |= matches!(command, Command::Leave(_));
            // A session that has gone says so by its last news.
            let _gone = commands.send(Sent { golem_id: GolemId::operator(), command }).await;
        }
    }
    let played = played.borrow().clone();
    if ticks.is_none() && !played.is_over() {
        return Err("the show was left before its end".into());
    }
    Ok(played)
}

/// What the show's operator says, where time is the machine's.
fn answer(operator: Operator, question: &Question) -> Option<Command> {
    let QuestionKey::Action(_) = question.key else { return None };
    let answer = match operator {
        Operator::Wait => return None,
        Operator::Approve => OperatorAnswer::Once,
        Operator::Refuse => OperatorAnswer::Refuse { reason: SafeText::clean("the show's operator refuses", 60) },
    };
    // Shows run on devnets only; nobody is there to read or type.
    Some(Command::Answer { key: question.key, answer, confirmation: question.requirement().met(), password: None })
}

fn told(scenario: &Scenario, played: &Played, whole: bool) -> Result<Exit, Failure> {
    let mut missed = played.missed.clone();
    if whole && played.is_over() {
        let left_out = scenario.beats.len().saturating_sub(played.beats + played.skipped);
        let died = played.phases.last() == Some(&Phase::Terminal);
        let why = if died { "the Golem died" } else { "the show was left" };
        missed.extend((left_out > 0).then(|| format!("{why} with {left_out} beats to play")));
        missed.extend(scenario.missed_phases(&played.phases));
    }
    for missed in &missed {
        eprintln!("bardo: {}: {missed}", scenario.name);
    }
    if missed.is_empty() {
        let skipped = match played.skipped {
            0 => String::new(),
            skipped => format!("; {skipped} left out, as their conditions did not hold"),
        };
        eprintln!("bardo: {}: {} beats, all as expected{skipped}", scenario.name, played.beats);
        return Ok(Exit::Success);
    }
    Ok(Exit::Error)
}
