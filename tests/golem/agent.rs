//! Display of a faulty agent: its phase follows from its attempts, and a decision shows the agent's reason for that
//! action.

use std::path::Path;
use std::time::Duration;

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::id::GolemId;
use bardo::base::text::SafeText;
use bardo::engine::CallStatus;
use bardo::fabric::{EventKind, Vitals};
use bardo::golem::brain::{AgentSignals, Brain, BrainEnd, WakeReason};
use bardo::runtime::actor::GolemActor;
use bardo::runtime::session::{Session, SessionOptions};
use bardo::session::handle::{AddressedCommand, LeaveMode, SessionCommand, SessionHandle, SessionNews};
use bardo::session::questions::{Question, RequestSubject};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

/// Number of malformed commits that once led to the Defensive phase, when these were counted.
const MALFORMED: usize = 8;

/// Brain that commits an unknown permit, then buys above the operator's limit, and meanwhile says something else.
#[derive(Debug)]
struct Careless;

impl Brain for Careless {
    fn live<'a>(self: Box<Self>, signals: &'a mut AgentSignals) -> BoxFuture<'a, BrainEnd> {
        Box::pin(async move {
            let caps = signals.agent().caps();
            let once = caps.iter().find(|cap| cap["limit"] == "2500");
            assert!(once.is_some_and(|cap| cap["left"] == "2500"), "the demo policy's cap on one trade: {caps:?}");
            let unknown =
                json!({"permit_id": "00000000000000000000000000", "simulation_hash": format!("0x{:064x}", 1)});
            for _ in 0..MALFORMED {
                let refused = signals.call("commit_action".to_owned(), unknown.clone()).await;
                assert!(!matches!(refused.status, CallStatus::Success | CallStatus::Partial), "{refused:?}");
            }
            let params = json!({"token_in": "USDC", "token_out": "WETH", "amount": "1500", "chain": "ethereum",
                                "prefer_uniswapx": false});
            let wanted = json!({"kind": "swap", "params": params, "why": "dollars are above their share"});
            let offer = signals.call("preview_action".to_owned(), wanted).await;
            let data = offer.data.unwrap_or_else(|| panic!("{:?}", offer.error));
            signals.think("Cats are fine animals.", false);
            let permit = json!({"permit_id": data["permit_id"], "simulation_hash": data["simulation_hash"]});
            let committing = signals.call("commit_action".to_owned(), permit);
            tokio::select! {
                _ = committing => {}
                () = async { while signals.wake(Instant::now() + Duration::from_secs(60)).await != WakeReason::Leave {} } => {}
            }
            signals.agent().withdraw_own().await;
            BrainEnd { well: true, why: SafeText::clean("told to leave", 40) }
        })
    }
}

/// Messages of a session.
#[derive(Default)]
struct Told {
    vitals: Vec<Vitals>,
    questions: Vec<Question>,
    malformed: usize,
}

async fn watched(home: &Path) -> Told {
    let environment: Environment = [("BARDO_HOME", home.to_str().unwrap())].into_iter().collect();
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    let golem = GolemActor::listening(&"led by a brain").led_by(Some(Box::new(Careless)));
    let SessionHandle { commands, mut news } = Session::open_with(config, SessionOptions::default(), Box::new(golem));
    let mut told = Told::default();
    let mut beats = None;
    // Two heartbeats after the request, the phase would reflect everything before it.
    while beats.is_none_or(|beats| told.vitals.len() < beats + 2) {
        match timeout(Duration::from_secs(120), news.recv()).await.expect("in time").expect("the session goes on") {
            SessionNews::Events(events) => {
                for event in events {
                    match &event.kind {
                        EventKind::Vitals(vitals) => told.vitals.push((**vitals).clone()),
                        EventKind::ToolError(_) => told.malformed += 1,
                        _ => {}
                    }
                }
            }
            SessionNews::Questions(questions) if !questions.is_empty() => {
                beats = beats.or(Some(told.vitals.len()));
                told.questions = questions.to_vec();
            }
            _ => {}
        }
    }
    let command = SessionCommand::Leave(LeaveMode::Now);
    commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    while news.recv().await.is_some() {}
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_calls_are_not_counted_as_failures_and_a_decision_states_its_reason() {
    let home = tempfile::tempdir().unwrap();
    let told = watched(home.path()).await;
    assert!(told.malformed >= MALFORMED, "{}", told.malformed);
    let last = told.vitals.last().unwrap();
    assert_eq!((last.failures, last.phase.to_string().as_str()), (0, "Thriving"), "nothing was tried");
    let [question] = told.questions.as_slice() else { panic!("{:?}", told.questions) };
    let RequestSubject::Action(action) = &question.about else { panic!("{question:?}") };
    let words = action.words.as_ref().map(SafeText::as_str);
    assert_eq!(words, Some("dollars are above their share"), "its reason, and not what it said last");
    let shown: Value = serde_json::to_value(question).unwrap();
    assert!(!shown.to_string().contains("Cats"), "{shown}");
}
