//! Attacks on the operator's name: a brain that publishes, as the account, what nobody approved.

use std::time::Duration;

use bardo::base::error::ErrorCode;
use bardo::base::text::SafeText;
use bardo::engine::CallStatus;
use bardo::runtime::questions::answering::queued_at;
use bardo::runtime::questions::{RequestContext, is_bound};
use bardo::safety::approval::{OperatorAnswer, OperatorReply};
use bardo::session::questions::sections::sections;
use bardo::session::questions::{QuestionKey, RequestSubject};
use serde_json::{Value, json};

use bardo_testkit::golem_harness::GolemHarness;

/// Endpoint that a prompt-injected brain sends customers to.
const ELSEWHERE: &str = "https://elsewhere.example/card.json";

/// Registration with a foreign endpoint, by the agent's own API.
fn registration() -> Value {
    json!({
        "kind": "register-agent",
        "params": {
            "name": "Ada", "description": "Swaps in small steps.",
            "registration": {"a2a_endpoint": ELSEWHERE},
        },
        "why": "So that customers find me.",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brain_publishes_nothing_in_the_operators_name_without_a_decision() {
    let harness = GolemHarness::new().await;
    let before = harness.sent().await;
    let golem = harness.golem("ada", "golem-instance");
    let preview = golem.call("preview_action", registration()).await;
    assert_eq!(preview.status, CallStatus::Simulated, "{preview:#?}");
    let permit = preview.decision_hints.as_ref().unwrap()["permit"].clone();
    assert!(permit["reasons"].to_string().contains("\"publishes\""), "{permit:#}");
    let commit = json!({"permit_id": permit["permit_id"], "simulation_hash": permit["simulation_hash"]});
    let refused = golem.call("commit_action", commit).await;
    assert_eq!(refused.error.as_ref().map(|error| error.code()), Some(ErrorCode::ApprovalRequired), "{refused:#?}");
    assert_eq!(harness.sent().await, before, "nothing is signed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_decision_shows_every_line_that_would_be_published() {
    let harness = GolemHarness::asking("preset = \"demo\"\n").await;
    let before = harness.sent().await;
    let queue = harness.acting.pipeline.approval_queue().clone();
    let networks: Vec<_> = harness.world.chains().iter().map(|chain| chain.network().clone()).collect();
    let reading = tokio::spawn(async move {
        let mut changes = queue.watch();
        let question = loop {
            let asked = queued_at(&queue, &networks, false, |_| RequestContext::default());
            if let Some(question) = asked.into_iter().next() {
                break question;
            }
            changes.changed().await.unwrap();
        };
        let QuestionKey::Action(permit_id) = question.key else { panic!("{question:?}") };
        let reason = SafeText::clean("not mine", 40);
        queue.answer(permit_id, OperatorReply::from(OperatorAnswer::Refuse { reason })).unwrap();
        question
    });
    let golem = harness.golem("ada", "golem-instance");
    let preview = golem.call("preview_action", registration()).await;
    let permit = preview.decision_hints.as_ref().unwrap()["permit"].clone();
    let commit = json!({"permit_id": permit["permit_id"], "simulation_hash": permit["simulation_hash"]});
    let refused = golem.call("commit_action", commit).await;
    assert_eq!(refused.error.map(|error| error.code()), Some(ErrorCode::ApprovalRefused));
    let question = tokio::time::timeout(Duration::from_secs(60), reading).await.unwrap().unwrap();
    let shown: Vec<_> = sections(&question, 0).into_iter().flat_map(|section| section.rows).collect();
    for line in ["Ada", "Swaps in small steps.", ELSEWHERE] {
        assert!(shown.iter().any(|row| row.value == line), "{line}: {shown:#?}");
    }
    let RequestSubject::Action(action) = &question.about else { panic!("{question:?}") };
    assert!(is_bound(&question), "the permit's hash binds it");
    // A session that shows other lines than the calldata has, in the row alone or in the bound content too.
    let harmless = vec![(SafeText::clean("name", 20), SafeText::clean("Ada", 20))];
    let mut lies = question.clone();
    if let RequestSubject::Action(action) = &mut lies.about {
        action.publishes.clone_from(&harmless);
    }
    assert!(!is_bound(&lies));
    if let RequestSubject::Action(action) = &mut lies.about {
        action.bound.as_mut().unwrap().content.calls[0].publishes = harmless;
    }
    assert!(!is_bound(&lies));
    assert!(action.publishes.len() > 3);
    assert_eq!(harness.sent().await, before, "nothing is signed");
}
