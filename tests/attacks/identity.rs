//! Attacks on the operator's name: a brain that publishes, as the account, what nobody approved.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bardo::base::error::ErrorCode;
use bardo::base::text::SafeText;
use bardo::engine::{ApprovalMode, ToolCall, ToolInput};
use bardo::runtime::questions::answering::queued_at;
use bardo::runtime::questions::{RequestContext, is_bound};
use bardo::safety::approval::{OperatorAnswer, OperatorReply};
use bardo::session::questions::sections::sections;
use bardo::session::questions::{QuestionKey, RequestSubject};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use bardo_testkit::golem_harness::GolemHarness;

/// Endpoint that a prompt-injected brain sends customers to.
const ELSEWHERE: &str = "https://elsewhere.example/card.json";

/// Registration with a foreign endpoint.
fn registration(approve: ApprovalMode) -> ToolCall {
    let params = json!({
        "name": "Ada", "description": "Swaps in small steps.", "registration": {"a2a_endpoint": ELSEWHERE},
    });
    let call = ToolCall::new("identity_register_agent", ToolInput::Json(params));
    ToolCall { approve: Some(approve), ..call }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_published_in_the_operators_name_without_a_decision() {
    let harness = GolemHarness::new().await;
    let before = harness.sent().await;
    let refused = harness.operators_executor().call(registration(ApprovalMode::Never)).await;
    let error = refused.error.unwrap();
    assert_eq!(error.code(), ErrorCode::ApprovalRequired, "{error}");
    let details = Value::Object(error.details().clone()).to_string();
    assert!(details.contains("\"publishes\""), "{details}");
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
    let refused = harness.operators_executor().call(registration(ApprovalMode::Ask)).await;
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

/// An IPFS node that answers whether it runs, and counts uploads.
async fn node() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let uploads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&uploads);
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 4_096];
            let read = socket.read(&mut request).await.unwrap();
            if !request[..read].starts_with(b"POST /api/v0/version ") {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            let _gone = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
        }
    });
    (url, uploads)
}

/// A file in IPFS is not in the calldata: the decision shows it all the same, and a session cannot put another one in its
/// place. Nothing is stored before the answer, nor after a rejection.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_for_ipfs_is_shown_bound_and_not_stored_before_the_answer() {
    let (url, uploads) = node().await;
    let harness = GolemHarness::asking_with("preset = \"demo\"\n", &format!("[agents]\nupload = \"{url}\"\n")).await;
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
    let refused = harness.operators_executor().call(registration(ApprovalMode::Ask)).await;
    assert_eq!(refused.error.map(|error| error.code()), Some(ErrorCode::ApprovalRefused));
    let question = tokio::time::timeout(Duration::from_secs(60), reading).await.unwrap().unwrap();
    let shown: Vec<_> = sections(&question, 0).into_iter().flat_map(|section| section.rows).collect();
    for line in ["Ada", "Swaps in small steps.", ELSEWHERE] {
        assert!(shown.iter().any(|row| row.value == line), "{line}: {shown:#?}");
    }
    assert!(is_bound(&question), "the permit's hash binds it");
    let mut lies = question.clone();
    if let RequestSubject::Action(action) = &mut lies.about {
        let content = &mut action.bound.as_mut().unwrap().content;
        assert_eq!(content.files.len(), 1);
        let other =
            String::from_utf8(content.files[0].to_vec()).unwrap().replace(ELSEWHERE, "https://ada.example/card.json");
        content.files = vec![other.into_bytes().into()];
    }
    assert!(!is_bound(&lies), "another file has another identifier");
    assert_eq!(uploads.load(Ordering::SeqCst), 0);
}
