//! Highest stop level: every running process removes its Golem's keys until it restarts, and the operator can still
//! act.

use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::id::GolemId;
use bardo::base::model::StopLevel;
use bardo::base::text::SafeText;
use bardo::engine::{CallStatus, ToolCall, ToolInput, ToolResponse};
use bardo::fabric::EventKind;
use bardo::runtime::actor::{Actor, ActorContext};
use bardo::runtime::session::{Session, SessionOptions};
use bardo::safety::stop::{RestoredCopy, StopFile};
use bardo::session::handle::{
    AddressedCommand, AuditEntry, DevnetControl, LeaveMode, QueryResult, SessionCommand, SessionHandle, SessionNews,
    SessionQuery, SessionSnapshot,
};
use bardo::session::questions::{Confirmation, OperatorAnswer, Question};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// Actor that does what the test requests, with a Golem's access.
struct Puppet {
    wishes: mpsc::Receiver<Value>,
    answers: mpsc::Sender<ToolResponse>,
    /// Sends the test the actor's view of the stop.
    stop: mpsc::Sender<watch::Receiver<Option<StopLevel>>>,
}

impl Actor for Puppet {
    fn live(mut self: Box<Self>, mut seat: ActorContext) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.stop.send(seat.stop.clone()).await.unwrap();
            loop {
                let left = async {
                    // An ended session counts as leaving, too.
                    let _left = seat.leaving.wait_for(|leaving| *leaving).await;
                };
                tokio::select! {
                    () = left => return,
                    wish = self.wishes.recv() => {
                        let Some(params) = wish else { return };
                        let response = seat.executor.call(ToolCall::new("uniswap_execute_swap", ToolInput::Json(params))).await;
                        let _told = self.answers.send(response).await;
                    }
                }
            }
        })
    }
}

/// A session and the controls of its Golem.
struct GolemHarness {
    commands: mpsc::Sender<AddressedCommand>,
    news: mpsc::Receiver<SessionNews>,
    wishes: mpsc::Sender<Value>,
    answers: mpsc::Receiver<ToolResponse>,
    stop: mpsc::Receiver<watch::Receiver<Option<StopLevel>>>,
    thoughts: Vec<String>,
    questions: Vec<Question>,
    snapshot: Option<SessionSnapshot>,
    told: Vec<String>,
    found: Option<QueryResult>,
    replies: Vec<ToolResponse>,
}

impl GolemHarness {
    async fn open(home: &Path) -> Self {
        let variables = [("BARDO_HOME".to_owned(), home.to_str().unwrap().to_owned())];
        let config = Config::load(&Environment::from_iter(variables), &ConfigFlags::default()).unwrap();
        let (wishes, heard) = mpsc::channel(4);
        let (said, answers) = mpsc::channel(4);
        let (tell, stop) = mpsc::channel(1);
        let puppet = Puppet { wishes: heard, answers: said, stop: tell };
        let SessionHandle { commands, news } = Session::open_with(config, SessionOptions::default(), Box::new(puppet));
        let mut harness = Self {
            commands,
            news,
            wishes,
            answers,
            stop,
            thoughts: Vec::new(),
            questions: Vec::new(),
            snapshot: None,
            told: Vec::new(),
            found: None,
            replies: Vec::new(),
        };
        harness.until("a snapshot", |harness| harness.snapshot.is_some()).await;
        harness
    }

    async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            let news = timeout(Duration::from_secs(120), self.news.recv()).await;
            match news.unwrap_or_else(|_| panic!("in vain: {what}; {:?}", self.told)).expect("the session goes on") {
                SessionNews::Events(events) => {
                    for event in events {
                        if let EventKind::GolemThought(thought) = &event.kind {
                            self.thoughts.push(thought.text.to_string());
                        }
                    }
                }
                SessionNews::Questions(questions) => self.questions = questions.to_vec(),
                SessionNews::Snapshot(snapshot) => self.snapshot = Some((*snapshot).clone()),
                SessionNews::CommandResult { words, .. } => self.told.push(words.to_string()),
                SessionNews::Found { found, .. } => self.found = Some(*found),
                SessionNews::Reply { response, .. } => self.replies.push(*response),
                _ => {}
            }
        }
    }

    async fn send(&self, command: SessionCommand) {
        self.commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    }

    /// Calls a tool as the operator.
    async fn by_hand(&mut self, tool: &str, params: Value) -> ToolResponse {
        self.replies.clear();
        let tool = tool.to_owned();
        self.send(SessionCommand::Call {
            ticket: 1,
            tool,
            params,
            dry_run: false,
            idempotency_key: None,
            unasked: false,
        })
        .await;
        self.until("a reply", |harness| !harness.replies.is_empty()).await;
        self.replies.remove(0)
    }

    /// Requests a swap by the Golem.
    async fn by_golem(&mut self) -> ToolResponse {
        self.wishes.send(swap()).await.unwrap();
        loop {
            tokio::select! {
                answer = self.answers.recv() => return answer.expect("it lives"),
                // Unread messages would block the session.
                news = self.news.recv() => if let Some(SessionNews::Events(events)) = news {
                    for event in events {
                        if let EventKind::GolemThought(thought) = &event.kind {
                            self.thoughts.push(thought.text.to_string());
                        }
                    }
                },
            }
        }
    }

    async fn keys_go(&mut self) {
        self.until("the keys go", |harness| harness.thoughts.iter().any(|one| one.contains("My keys are revoked")))
            .await;
    }

    /// Asserts that only a restart restores the keys.
    async fn has_no_keys(&mut self) {
        let refused = self.by_golem().await;
        assert_eq!(refused.status, CallStatus::Blocked, "{refused:?}");
        let error = serde_json::to_value(refused.error.unwrap()).unwrap();
        assert_eq!(error["code"], "HALTED", "{error}");
        let violation = &error["details"]["violations"][0];
        assert_eq!(violation["rule"], "session_keys", "{error}");
        assert!(violation["would_pass"].as_str().unwrap().contains("restarts the process"), "{error}");
        let suggestion = error["suggestion"].as_str().unwrap();
        assert!(suggestion.contains("restarts the process") && !suggestion.contains("bardo resume"), "{error}");
    }

    /// Entries of one kind in the audit log.
    async fn trail(&mut self, kind: &str) -> Vec<AuditEntry> {
        self.found = None;
        self.send(SessionCommand::Look { ticket: 9, query: SessionQuery::AuditTail { most: 1_000 } }).await;
        self.until("the trail", |harness| harness.found.is_some()).await;
        match self.found.take() {
            Some(QueryResult::Audit { entries }) => {
                entries.into_iter().filter(|entry| entry.kind.as_str() == kind).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    async fn leave(mut self) {
        self.send(SessionCommand::Leave(LeaveMode::Finish)).await;
        while !matches!(self.news.recv().await, None | Some(SessionNews::Left(_))) {}
    }
}

fn swap() -> Value {
    json!({"token_in": "USDC", "token_out": "UNI", "amount": "5", "chain": "ethereum", "prefer_uniswapx": false})
}

fn stop_file(home: &Path) -> StopFile {
    StopFile::in_folder(&home.join("data"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_highest_stop_revokes_the_golems_keys_and_not_the_operators() {
    let home = tempfile::tempdir().unwrap();
    let mut harness = GolemHarness::open(home.path()).await;
    let first = harness.by_golem().await;
    assert_eq!(first.status, CallStatus::Success, "{first:?}");
    let allowed = harness.by_hand("token_approve", json!({"token": "DAI", "amount": "5", "chain": "ethereum"})).await;
    assert_eq!(allowed.status, CallStatus::Success, "{allowed:?}");

    let reason = SafeText::clean("the host may be lost", 60);
    harness.send(SessionCommand::Raise { level: StopLevel::Revoke, reason }).await;
    harness.keys_go().await;
    let is_told =
        |harness: &GolemHarness| harness.told.iter().any(|told| told.contains("the Golem's session keys are revoked"));
    harness.until("the result", is_told).await;
    harness.has_no_keys().await;
    // The operator can always revoke; other actions are blocked.
    let back = harness.by_hand("token_revoke", json!({"token": "DAI", "chain": "ethereum"})).await;
    assert_eq!(back.status, CallStatus::Success, "{back:?}");
    let refused = harness.by_hand("uniswap_execute_swap", swap()).await;
    assert_eq!(refused.status, CallStatus::Blocked, "{refused:?}");

    // Lowered again by the operator's decision, which lists what is not restored.
    harness.send(SessionCommand::AskToLower { level: None }).await;
    harness.until("a question", |harness| !harness.questions.is_empty()).await;
    let question = harness.questions[0].clone();
    assert!(question.title.as_str().contains("keys stay revoked"), "{}", question.title);
    harness
        .send(SessionCommand::Answer {
            key: question.key,
            answer: OperatorAnswer::Once,
            confirmation: Default::default(),
            password: None,
        })
        .await;
    harness
        .until("it is lifted", |harness| harness.told.iter().any(|told| told.starts_with("the stop is lifted")))
        .await;
    assert!(harness.told.iter().any(|told| told.contains("keys stay revoked")), "{:?}", harness.told);
    let says_so = |harness: &GolemHarness| harness.thoughts.iter().any(|one| one.contains("The stop was lowered"));
    harness.until("the Golem says so", says_so).await;
    // Nothing is due for a Golem without keys, so that its planner is not refused again and again.
    assert_eq!(*harness.stop.recv().await.unwrap().borrow(), Some(StopLevel::Revoke));
    harness.has_no_keys().await;
    let own = harness.by_hand("uniswap_execute_swap", swap()).await;
    assert_eq!(own.status, CallStatus::Success, "{own:?}");
    let shown = |harness: &GolemHarness| harness.snapshot.as_ref().and_then(|one| one.fault.clone()).is_some();
    harness.until("it stays on the screen", shown).await;
    let now = |harness: &GolemHarness| harness.snapshot.as_ref().map(|one| (one.stop.is_none(), one.keys_revoked));
    harness.until("by a word of its own", |harness| now(harness) == Some((true, true))).await;

    // Each stop and its lift, with their author, once.
    let raised = harness.trail("halt:raised").await;
    let [entry] = raised.as_slice() else { panic!("once, and no more: {raised:?}") };
    assert_eq!((&entry.body["level"], &entry.body["by"]), (&json!("revoke"), &json!("operator")), "{entry:?}");
    let lowered = harness.trail("halt:lowered").await;
    let [entry] = lowered.as_slice() else { panic!("once, and no more: {lowered:?}") };
    assert_eq!((&entry.body["level"], &entry.body["stop"]), (&Value::Null, &raised[0].body["stop"]), "{entry:?}");
    let trail = harness.trail("keys:revoked").await;
    let [entry] = trail.as_slice() else { panic!("once, and no more: {trail:?}") };
    assert_eq!((entry.golem_id.as_str(), &entry.body["reason"]), ("ada", &json!("the host may be lost")));
    harness.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_copy_is_lifted_in_a_console_only_with_the_words_about_the_other_copy() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    std::fs::create_dir(&data).unwrap();
    stop_file(home.path()).begin_restored(&RestoredCopy::default(), 1).unwrap();
    let mut harness = GolemHarness::open(home.path()).await;
    harness.send(SessionCommand::AskToLower { level: None }).await;
    harness.until("a question", |harness| !harness.questions.is_empty()).await;
    let question = harness.questions[0].clone();
    assert_eq!(question.confirm.as_ref().unwrap().expected.as_str(), "the other copy is stopped");
    let answer = |typed: Option<&str>| SessionCommand::Answer {
        key: question.key,
        answer: OperatorAnswer::Once,
        confirmation: Confirmation { read: Vec::new(), typed: typed.map(|typed| SafeText::clean(typed, 60)) },
        password: None,
    };
    for typed in [None, Some("resume")] {
        harness.told.clear();
        harness.send(answer(typed)).await;
        harness.until("a refusal", |harness| harness.told.iter().any(|told| told.contains("typing"))).await;
        assert_eq!(stop_file(home.path()).read().level(), Some(StopLevel::Halt));
    }
    harness.send(answer(Some("the other copy is stopped"))).await;
    harness
        .until("it is lifted", |harness| harness.told.iter().any(|told| told.starts_with("the stop is lifted")))
        .await;
    assert_eq!(stop_file(home.path()).restored(), None);
    harness.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_revoked_by_another_process_return_only_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let file = stop_file(home.path());
    let lift = || bardo_testkit::proof::lift(file.path().parent().unwrap());

    let mut harness = GolemHarness::open(home.path()).await;
    let mut program = Program::new(env!("CARGO_BIN_EXE_bardo"));
    program.env_clear().env("BARDO_HOME", home.path()).args(["halt", "--level", "revoke"]);
    let ran = tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success() && said.contains("restart of the process with the stop lifted does"), "{said}");
    assert!(said.contains("stays valid until its owner") && said.contains("`bardo call`"), "{said}");
    harness.keys_go().await;
    lift();
    harness.has_no_keys().await;
    assert_eq!(harness.trail("keys:revoked").await.len(), 1);
    // Both processes see it, and it is recorded once.
    assert_eq!(harness.trail("halt:raised").await.len(), 1);
    harness.leave().await;

    // In force at the start.
    file.raise(StopLevel::Revoke, "not over", "operator", 2).unwrap();
    let mut harness = GolemHarness::open(home.path()).await;
    harness.keys_go().await;
    lift();
    harness.has_no_keys().await;
    harness.leave().await;

    let mut harness = GolemHarness::open(home.path()).await;
    let acts = harness.by_golem().await;
    assert_eq!(acts.status, CallStatus::Success, "{acts:?}");
    harness.leave().await;
}

/// The stop that comes with a rejection is set at once, however long its answer waits behind other work. The Golem
/// still receives the operator's comment, rather than a withdrawn request.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_with_a_stop_gives_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let mut harness = GolemHarness::open(home.path()).await;
    let params = json!({"token_in": "USDC", "token_out": "WETH", "amount": "1500", "chain": "ethereum",
                        "prefer_uniswapx": false});
    harness.wishes.send(params).await.unwrap();
    harness.until("a question", |harness| !harness.questions.is_empty()).await;
    let key = harness.questions[0].key;
    for _ in 0..2 {
        harness.send(SessionCommand::Devnet(DevnetControl::Mine { chain_id: 31_337, blocks: 256 })).await;
    }
    let reason = SafeText::clean("smoke in the room", 60);
    harness
        .send(SessionCommand::Answer {
            key,
            answer: OperatorAnswer::RefuseAndStop { reason },
            confirmation: Default::default(),
            password: None,
        })
        .await;
    let response = timeout(Duration::from_secs(120), harness.answers.recv()).await.unwrap().unwrap();
    let words = response.error.as_ref().map(|error| error.message().to_owned()).unwrap_or_default();
    assert!(words.contains("smoke in the room"), "{response:?}");
    assert_eq!(stop_file(home.path()).read().level(), Some(StopLevel::Halt));
    harness.leave().await;
}
