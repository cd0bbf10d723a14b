//! Words of the operator while a step of the Golem's waits for a decision: questions are answered at once, and an action comes
//! after the step.

use std::sync::Arc;

use bardo::base::model::StopLevel;
use bardo::base::text::SafeText;
use bardo::fabric::{Event, EventKind};
use bardo::session::handle::SessionCommand;
use bardo::session::questions::{Confirmation, OperatorAnswer};

use super::on_death::{SessionLog, WatchedSession};

/// A swap above the demo policy's limit for an approval.
const ASKING_LIFE: &str = r#"
name = "asking-life"
about = "It asks."

[[beat]]
at = 2
do = "act"
now = "Buying."
waits = "It waits for you."
params = { kind = "swap", params = { token_in = "WETH", token_out = "USDC", amount = "0.4", chain = "ethereum", prefer_uniswapx = false } }
expect = ["success"]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_while_a_decision_waits_and_actions_come_next() {
    let home = tempfile::tempdir().unwrap();
    let mut session = WatchedSession::open(home.path(), "ask", ASKING_LIFE);
    session.until("the decision", |log| !log.questions.is_empty()).await;
    let say = |words: &str| SessionCommand::Say { words: SafeText::clean(words, 100) };
    session.send(say("balances")).await;
    session.until("the answer", |log| log.has_thought("You said: balances")).await;
    let shows = |log: &SessionLog, words: &str| {
        let now = log.events.iter().rev().find_map(|event| match &event.kind {
            EventKind::GolemNow(state) => Some(state.now.as_str()),
            _ => None,
        });
        now == Some(words)
    };
    session.until("what it waits for, again", |log| shows(log, "It waits for you.")).await;
    session.send(say("nothing that it knows")).await;
    session.until("that it did not understand", |log| log.has_thought("I did not understand")).await;
    session.send(say("swap 0.01 WETH USDC")).await;
    session.until("that it comes next", |log| log.has_thought("I do it once this step is over")).await;
    assert_eq!(session.log.questions.len(), 1, "the decision still waits");
    assert!(!session.log.has_thought("swap 0.01 WETH USDC. Swapped"), "{:?}", session.log.thought_with("swap 0.01"));

    let key = session.log.questions[0].key;
    let answer = OperatorAnswer::Refuse { reason: SafeText::clean("no", 10) };
    session.send(SessionCommand::Answer { key, answer, confirmation: Confirmation::default(), password: None }).await;
    let done = |log: &SessionLog| {
        log.events.iter().any(|event| match &event.kind {
            EventKind::GolemThought(thought) => {
                let text = thought.text.as_str();
                text.starts_with("You said: swap 0.01 WETH USDC.") && !text.contains("once this step")
            }
            _ => false,
        })
    };
    session.until("the swap", done).await;
    session.end().await;
}

/// A stop that is raised and lifted while commands wait for a step's end forgets them, and no more of them wait than eight.
#[tokio::test(flavor = "multi_thread")]
async fn commands_that_wait_do_not_outlive_a_stop() {
    let home = tempfile::tempdir().unwrap();
    let mut session = WatchedSession::open(home.path(), "keep", ASKING_LIFE);
    session.until("the decision", |log| !log.questions.is_empty()).await;
    let say =
        |number: u32| SessionCommand::Say { words: SafeText::clean(&format!("swap 0.01{number} WETH USDC"), 100) };
    let thoughts = |log: &SessionLog, words: &str| {
        let has = |event: &&Arc<Event>| match &event.kind {
            EventKind::GolemThought(thought) => thought.text.as_str().contains(words),
            _ => false,
        };
        log.events.iter().filter(has).count()
    };
    for number in 0..9 {
        session.send(say(number)).await;
    }
    session.until("the ninth", |log| log.has_thought("I did nothing: 8 commands already wait")).await;
    assert_eq!(thoughts(&session.log, "once this step is over"), 8);
    let reason = SafeText::clean("wait", 10);
    session.send(SessionCommand::Raise { level: StopLevel::Pause, reason }).await;
    session
        .until("the stop", |log| log.events.iter().any(|event| matches!(event.kind, EventKind::HaltRaised(_))))
        .await;
    // The step ends with its decision, if the stop has left it open.
    let key = session.log.questions.first().map(|question| question.key);
    if let Some(key) = key {
        let answer = OperatorAnswer::Refuse { reason: SafeText::clean("no", 10) };
        let confirmation = Confirmation::default();
        session.send(SessionCommand::Answer { key, answer, confirmation, password: None }).await;
    }
    let forgotten = |log: &SessionLog| thoughts(log, "I did nothing: a stop was raised or lifted since") == 8;
    session.until("that they are forgotten", forgotten).await;
    assert_eq!(thoughts(&session.log, "Not done"), 0);
    session.end().await;
}
