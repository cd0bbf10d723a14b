//! `bardo golem run`: a show, on the screen or without one. Headless, events go to stdout, a JSON object a line; the
//! exit code says whether everything came as the scenario expects, so that a scenario is a test.

use std::collections::HashSet;

use tokio::sync::oneshot;

use super::{Exit, Failure, load, logs, print};
use crate::base::config::{Config, DEFAULT_NETWORK, Environment, Flags};
use crate::base::text::SafeText;
use crate::golem::brain::Choice;
use crate::golem::life::Played;
use crate::golem::scenario::{self, Operator, Scenario};
use crate::runtime::actor::Living;
use crate::runtime::handle::{Command, Handle, LeaveMode, News, Sent};
use crate::runtime::market::model::Update;
use crate::runtime::questions::{OperatorAnswer, Question, QuestionKey};
use crate::runtime::session::{Session, SessionOptions};

/// How a show is run.
pub(super) struct Run {
    pub(super) scenario: String,
    pub(super) seed: u64,
    pub(super) speed: u32,
}

/// A show and where it is played, for the console as well.
pub(super) fn on_screen(run: &Run, environment: &Environment, flags: &Flags) -> Result<(Scenario, Config), Failure> {
    let scenario = scenario::find(&run.scenario).map_err(|error| Failure::usage(error.to_string()))?;
    let config = load(environment, flags)?;
    if config.network.value != DEFAULT_NETWORK || !flags.rpc.is_empty() {
        return Err(Failure::usage("shows are played on the devnet only; leave --network and --rpc out".to_owned()));
    }
    Ok((scenario, config))
}

pub(super) fn run(run: &Run, environment: &Environment, flags: &Flags) -> Result<Exit, Failure> {
    let (scenario, config) = on_screen(run, environment, flags)?;
    let brain = Choice::of(&config.golem)?.make();
    let led = brain.is_some();
    let _logs = logs::start(&config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let played = runtime.block_on(async {
        let (send, heard) = oneshot::channel();
        let operator = scenario.operator;
        let actor = Living::playing(scenario.clone()).at_speed(run.speed).heard_by(send).led_by(brain);
        let options = SessionOptions { seed: run.seed, ..SessionOptions::default() };
        follow(Session::open_with(config, options, Box::new(actor)), operator, heard).await
    })?;
    if led && played.missed.is_empty() {
        eprintln!("bardo: the brain is done");
        return Ok(Exit::Success);
    }
    told(&scenario, &played)
}

/// Follows a session until its show is over and it has been left.
async fn follow(handle: Handle, operator: Operator, heard: oneshot::Receiver<Played>) -> Result<Played, Failure> {
    let Handle { commands, mut news } = handle;
    let mut heard = Some(heard);
    let mut played = None;
    let mut answered = HashSet::new();
    loop {
        let hearing = async {
            match heard.as_mut() {
                Some(heard) => heard.await,
                None => std::future::pending().await,
            }
        };
        let mut sent = Vec::new();
        tokio::select! {
            over = hearing => {
                heard = None;
                played = over.ok();
                sent.push(Command::Leave(LeaveMode::Finish));
            }
            told = news.recv() => match told {
                None | Some(News::Left(_)) => break,
                Some(News::Events(events)) => {
                    for event in events {
                        print(&format!("{}\n", serde_json::to_string(&event)?))?;
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
            let sent = Sent { golem_id: crate::base::id::GolemId::operator(), command };
            // A session that has gone says so by its last news.
            let _gone = commands.send(sent).await;
        }
    }
    played.ok_or_else(|| "the Golem did not live to the end of the show".into())
}

/// What the scenario's operator says.
fn answer(operator: Operator, question: &Question) -> Option<Command> {
    let QuestionKey::Action(_) = question.key else { return None };
    let answer = match operator {
        Operator::Wait => return None,
        Operator::Approve => OperatorAnswer::Once,
        Operator::Refuse => OperatorAnswer::Refuse { reason: SafeText::clean("the show's operator refuses", 60) },
    };
    Some(Command::Answer { key: question.key, answer })
}

fn told(scenario: &Scenario, played: &Played) -> Result<Exit, Failure> {
    for missed in &played.missed {
        eprintln!("bardo: {}: {missed}", scenario.name);
    }
    if played.missed.is_empty() {
        eprintln!("bardo: {}: {} beats, all as expected", scenario.name, played.beats);
        return Ok(Exit::Success);
    }
    Ok(Exit::Error)
}
