//! Words of the operator while a step of the Golem's waits for a decision: questions are answered at once, and an action comes
//! after the step.

use bardo::base::text::SafeText;
use bardo::session::handle::SessionCommand;
use bardo::session::questions::{Confirmation, OperatorAnswer};

use super::on_death::WatchedSession;

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
    let shows = |log: &super::on_death::SessionLog, words: &str| {
        let now = log.events.iter().rev().find_map(|event| match &event.kind {
            bardo::fabric::EventKind::GolemNow(state) => Some(state.now.as_str()),
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
    let done = |log: &super::on_death::SessionLog| {
        log.events.iter().any(|event| match &event.kind {
            bardo::fabric::EventKind::GolemThought(thought) => {
                let text = thought.text.as_str();
                text.starts_with("You said: swap 0.01 WETH USDC.") && !text.contains("once this step")
            }
            _ => false,
        })
    };
    session.until("the swap", done).await;
    session.end().await;
}
