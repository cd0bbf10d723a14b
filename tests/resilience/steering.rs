//! The operator's commands in a running session: a stop overtakes slow work, and exactly what was displayed is signed.

use std::time::Duration;

use bardo::base::fabric::AskReason;
use bardo::base::failpoint::Failpoint;
use bardo::base::id::GolemId;
use bardo::base::id::PermitId;
use bardo::base::model::StopLevel;
use bardo::base::text::SafeText;
use bardo::engine::CallStatus;
use bardo::runtime::session::SessionOptions;
use bardo::safety::stop::StopFile;
use bardo::session::handle::{LeaveMode, SessionCommand};
use bardo::session::questions::{
    AddressPart, AnswerKind, Confirmation, OperatorAnswer, Question, QuestionKey, RequestSubject,
};
use serde_json::{Value, json};

use crate::host::{Devnet, Home, ROOMY, run};
use crate::queue::Console;

/// A manual trade with these parameters.
fn trade(from: &str, to: &str, amount: &str) -> (String, Value) {
    let params = json!({
        "token_in": from, "token_out": to, "amount": amount, "chain": "ethereum", "prefer_uniswapx": false,
    });
    ("uniswap_execute_swap".to_owned(), params)
}

async fn bought(console: &Console, ticket: u64) {
    let (tool, params) = trade("USDC", "UNI", "100");
    console
        .send(SessionCommand::Call { ticket, tool, params, dry_run: false, idempotency_key: None, unasked: false })
        .await;
    let reply = console.reply(ticket).await;
    assert_eq!(reply.status, CallStatus::Success, "{reply:?}");
}

/// Requests an offer to sell all UNI; returns the command that commits it.
async fn offered(console: &Console, ticket: u64) -> SessionCommand {
    let (tool, params) = trade("UNI", "USDC", "max");
    console.send(SessionCommand::Offer { ticket, tool, params }).await;
    committing(&console.reply(ticket).await, ticket + 1)
}

/// Command that commits an offer.
fn committing(reply: &bardo::engine::ToolResponse, ticket: u64) -> SessionCommand {
    assert_eq!(reply.status, CallStatus::Simulated, "{reply:?}");
    let permit = &reply.decision_hints.as_ref().unwrap()["permit"];
    let read = |field: &str| permit[field].as_str().unwrap();
    SessionCommand::Commit {
        ticket,
        permit_id: read("permit_id").parse().unwrap(),
        simulation_hash: read("simulation_hash").parse().unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_the_displayed_offer_is_signed() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let console = Console::open(&home, &devnet).await;
    bought(&console, 1).await;
    let shown = devnet.balance("UNI");
    assert!(shown > 0);
    let commit = offered(&console, 10).await;
    // More tokens arrive before the approval; they are not part of the offer.
    bought(&console, 2).await;
    let more = devnet.balance("UNI") - shown;
    assert!(more > 0);

    // Another hash than the displayed one does not approve the offer, and does not use it up.
    let SessionCommand::Commit { ticket, permit_id, .. } = commit.clone() else { panic!() };
    console.send(SessionCommand::Commit { ticket, permit_id, simulation_hash: Default::default() }).await;
    let refused = |words: &'static str| {
        move |seen: &crate::queue::Seen| {
            seen.told.iter().any(|(done, told)| !done && told.contains(words)).then_some(())
        }
    };
    console.until("another hash is refused", refused("does not match this permit")).await;
    assert_eq!(devnet.balance("UNI"), shown + more);

    console.send(commit.clone()).await;
    let reply = console.reply(11).await;
    assert_eq!(reply.status, CallStatus::Success, "{reply:?}");
    assert_eq!(devnet.balance("UNI"), more, "what was shown was sold, and nothing beside it");
    console.send(commit).await;
    console.until("one offer, one deed", refused("this offer has expired")).await;

    // A newer offer replaces the older one.
    let older = offered(&console, 20).await;
    let newer = offered(&console, 30).await;
    let over = console.seen.lock().unwrap().told.len();
    console.send(older).await;
    console.until("the older is over", |seen| (seen.told.len() > over).then_some(())).await;
    assert_eq!(devnet.balance("UNI"), more);
    console.send(newer).await;
    assert_eq!(console.reply(31).await.status, CallStatus::Success);
    assert_eq!(devnet.balance("UNI"), 0);
    console.send(SessionCommand::Leave(LeaveMode::Now)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_overtakes_work_the_session_waits_for() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let console = Console::open(&home, &devnet).await;
    // Another connection locks the ledger: every write of the session waits for it.
    let ledger = rusqlite::Connection::open(home.database()).unwrap();
    ledger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let reason = SafeText::clean("no", 10);
    let key = QuestionKey::Action(PermitId::random());
    console.answer(key, OperatorAnswer::Refuse { reason }).await;
    console.send(SessionCommand::Hold).await;
    let first = console.until("something is told", |seen| seen.told.first().cloned()).await;
    assert!(first.0 && first.1.starts_with("held"), "{first:?}");
    assert_eq!(StopFile::in_folder(&home.path().join("data")).read().level(), Some(StopLevel::Halt));
    console.send(SessionCommand::ReleaseHold).await;
    let second = console.until("the next", |seen| seen.told.get(1).cloned()).await;
    assert!(second.0 && second.1.contains("released"), "{second:?}");
    assert_eq!(StopFile::in_folder(&home.path().join("data")).read().level(), None);
    ledger.execute_batch("ROLLBACK").unwrap();
    console.until("the answer comes to its end", |seen| (seen.told.len() > 2).then_some(())).await;
    console.send(SessionCommand::Leave(LeaveMode::Now)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only_and_paper_runs_do_not_send_pending_transactions() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    // Signed and stored, and killed before it was sent.
    let killed = run(home.swap(devnet.url(), "left").env("BARDO_FAILPOINT", Failpoint::Stored.name()));
    assert!(killed.killed(), "{killed:?}");
    let nonce = devnet.nonce();
    let given = format!("ethereum={}", devnet.url());
    let params = r#"{"token_in":"WETH","token_out":"USDC","amount":"0.001","chain":"ethereum"}"#;
    for arguments in [&["call", "--dry-run", "uniswap_execute_swap", params][..], &["reconcile", "--json"]] {
        let ran = run(&mut home.command(&[&["--rpc", &given], arguments].concat()));
        assert!(ran.answer.is_some(), "{arguments:?} says nothing: {ran:?}");
        assert_eq!(devnet.nonce(), nonce, "{arguments:?} sends: {ran:?}");
    }
    let watching =
        Console::open_as(&home, &devnet, None, SessionOptions { watch: true, ..SessionOptions::default() }).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(devnet.nonce(), nonce, "a console that watches sends");
    watching.send(SessionCommand::Leave(LeaveMode::Now)).await;

    // A session in paper mode does not send it either; when it leaves paper mode, the remains are completed first.
    let paper =
        Console::open_as(&home, &devnet, None, SessionOptions { paper: true, ..SessionOptions::default() }).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(devnet.nonce(), nonce, "a rehearsal sends");
    let (tool, params) = trade("WETH", "USDC", "0.01");
    paper.send(SessionCommand::Offer { ticket: 7, tool, params }).await;
    let shown = committing(&paper.reply(7).await, 8);
    paper.send(SessionCommand::AskToLeavePaper).await;
    let question = paper.question(None).await;
    paper.answer(question.key, OperatorAnswer::Once).await;
    let off =
        |seen: &crate::queue::Seen| seen.told.iter().any(|(done, told)| *done && told.contains("off")).then_some(());
    paper.until("paper mode is left", off).await;
    let ended = devnet.nonce();
    assert!(ended > nonce, "what was left is brought to its end before anything new is signed");
    // An offer that was shown as a rehearsal is gone.
    paper.send(shown).await;
    let over = |seen: &crate::queue::Seen| {
        seen.told.iter().any(|(done, told)| !done && told.contains("this offer has expired")).then_some(())
    };
    paper.until("the offer is over", over).await;
    assert_eq!(devnet.nonce(), ended);
    paper.send(SessionCommand::Leave(LeaveMode::Now)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leading_program_cannot_approve_its_own_request_through_the_ledger() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let led = Console::open_as(&home, &devnet, Some("process:true"), SessionOptions::default()).await;
    let other = Console::open(&home, &devnet).await;
    let usdc = devnet.balance("USDC");
    led.swap(1).await;
    led.question(None).await;
    let question = other.question(None).await;
    let why_not = |kind| question.answers.iter().find(|offered| offered.kind == kind).unwrap().why_not.clone();
    assert!(why_not(AnswerKind::Once).is_some_and(|why| why.as_str().contains("in the console that asks")));
    assert_eq!(why_not(AnswerKind::Refuse), None);

    // An approval that someone inserts into the ledger, as any process of this user can.
    other.answer(question.key, OperatorAnswer::Once).await;
    let refused = |seen: &crate::queue::Seen| {
        seen.told.iter().any(|(done, words)| !done && words.contains("was rejected")).then_some(())
    };
    led.until("the yes is not taken", refused).await;
    assert_eq!(devnet.balance("USDC"), usdc, "nothing was signed by it");
    assert_eq!(led.seen.lock().unwrap().questions.len(), 1, "it is still asked where it was asked");
    // The other processes see it again, and a rejection counts from anywhere.
    let open = "SELECT count(*) FROM shared_question WHERE permit_id NOT IN (SELECT permit_id FROM shared_answer)";
    other.until("it is laid again", |_| (home.count(open) == 1).then_some(())).await;
    other.answer(question.key, OperatorAnswer::Refuse { reason: SafeText::clean("no", 10) }).await;
    assert_eq!(led.reply(1).await.status, CallStatus::Rejected);
    for console in [led, other] {
        console.send(SessionCommand::Leave(LeaveMode::Now)).await;
    }
}

/// Roles and words in a request about an action.
fn said(question: &Question) -> (&[SafeText], Option<&SafeText>) {
    match &question.about {
        RequestSubject::Action(action) => (&action.asked_by, action.words.as_ref()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manual_action_above_the_limit_is_asked_once_with_all_details() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let console = Console::open(&home, &devnet).await;
    let before = devnet.balance("USDC");
    let held = async |ticket: u64| {
        let (tool, params) = trade("USDC", "WETH", "1500");
        console.send(SessionCommand::Offer { ticket, tool, params }).await;
        assert_eq!(console.reply(ticket).await.status, CallStatus::Simulated);
        let of = |seen: &crate::queue::Seen| {
            seen.offers.iter().find(|(found, _)| *found == ticket).map(|(_, question)| question.clone())
        };
        console.until("its question", of).await
    };
    let answer = async |key, answer, confirmation| {
        console.send(SessionCommand::Answer { key, answer, confirmation, password: None }).await;
    };
    // A rejection ends it and is recorded with its reason, and a later approval has no effect.
    let question = held(1).await;
    let reason = SafeText::clean("wait for the fee", 20);
    answer(question.key, OperatorAnswer::Refuse { reason }, Confirmation::default()).await;
    let rejected = |seen: &crate::queue::Seen| {
        seen.told.iter().any(|(done, told)| *done && told.contains("rejected")).then_some(())
    };
    console.until("it is rejected", rejected).await;
    let recorded =
        "SELECT count(*) FROM audit_entry WHERE kind = 'approval:resolved' AND body LIKE '%wait for the fee%'";
    assert_eq!(home.count(recorded), 1);
    answer(question.key, OperatorAnswer::Once, question.requirement().met()).await;
    let refused = |seen: &crate::queue::Seen| seen.told.last().is_some_and(|(done, _)| !*done).then_some(());
    console.until("it is over", refused).await;
    assert_eq!(devnet.balance("USDC"), before);

    // Its requester, and everything that a decision shows: spenders, allowances, recipients, the hash that binds it.
    let question = held(2).await;
    assert_eq!((&question.golem_id, said(&question)), (&GolemId::operator(), (&[][..], None)));
    assert!(question.reasons.iter().any(|why| matches!(why, AskReason::AboveLimit { .. })), "{:?}", question.reasons);
    assert!(bardo::runtime::questions::is_bound(&question));
    let RequestSubject::Action(action) = &question.about else { panic!() };
    for part in [AddressPart::From, AddressPart::Calls, AddressPart::Spender, AddressPart::Receiver] {
        assert!(action.places.iter().any(|place| place.part == part), "{part:?}");
    }
    // The headline shows the outflow; the counted amount is higher by the gas.
    let (value, counted) = (question.value.unwrap(), action.costs.spent);
    assert_eq!(value.checked_add(action.costs.gas).unwrap(), counted);
    // After the approval it is done: there is no second request, and the approval is recorded.
    answer(question.key, OperatorAnswer::Once, question.requirement().met()).await;
    let done = |seen: &crate::queue::Seen| {
        seen.replies.iter().filter(|(ticket, _)| *ticket == 2).nth(1).map(|(_, reply)| reply.clone())
    };
    let reply = console.until("it is done", done).await;
    assert_eq!(reply.status, CallStatus::Success, "{reply:?}");
    assert_eq!(devnet.balance("USDC"), before - 1_500_000_000);
    assert!(console.seen.lock().unwrap().questions.is_empty());
    for kind in ["approval:requested", "approval:resolved"] {
        assert_eq!(home.count(&format!("SELECT count(*) FROM audit_entry WHERE kind = '{kind}'")), 2, "{kind}");
    }
    console.send(SessionCommand::Leave(LeaveMode::Now)).await;
}
