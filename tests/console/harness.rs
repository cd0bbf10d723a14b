//! The console with a scripted source. As a test it does nothing; the other tests start it in a PTY.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use alloy::primitives::Address;
use bardo::base::id::{CallId, GolemId};
use bardo::base::text::SafeText;
use bardo::console::state::model::{BlockRow, ChainIdentity, ChainSnapshot, MarketUpdate, MoneyKind, NetworkIdentity};
use bardo::console::terminal::TerminalGuard;
use bardo::console::{Attention, ConsoleOptions, run};
use bardo::fabric::{Event, EventKind, GolemState, RedactedParams, ResultCard, ToolEnd, ToolStart, TxState, TxUpdate};
use bardo::session::handle::{SessionCommand, SessionEnd, SessionHandle, SessionNews};
use bardo::session::questions::{AnswerKind, AnswerOption, Question, QuestionKey, RequestSubject};
use serde_json::json;

use crate::hostile::TestHarness;

/// Environment variable that makes the test below a program.
pub const SCRIPT: &str = "BARDO_CONSOLE_TEST_SCRIPT";

/// Number of times that [`Script::Same`] reports one block.
const TIMES_THE_SAME: u64 = 100;

/// Behaviour of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    /// One block, then nothing.
    Still,
    /// One block after another.
    Blocks,
    /// Blocks, together with every hostile text that external parties can send.
    Hostile,
    /// One block that is reported unchanged again and again, then the next, then nothing.
    Same,
    /// Events of calls as fast as the console accepts them, until there were [`flood_calls`] of them.
    Flood,
    /// One block and a completed swap, then nothing.
    Call,
    /// One block and a waiting decision.
    Asks,
    /// One block, then a panic in one of the program's threads.
    Panic,
}

/// Session that plays `script`, and leaves on request.
fn open(script: Script) -> SessionHandle {
    let (handle, SessionEnd { mut commands, news }) = SessionHandle::pair();
    let leaving = news.clone();
    let world = (script == Script::Hostile).then(|| Arc::new(TestHarness::new()));
    let hostile = world.clone();
    let turn = Arc::new(AtomicU64::new(0));
    let answered = Arc::clone(&turn);
    tokio::spawn(async move {
        while let Some(sent) = commands.recv().await {
            if matches!(sent.command, SessionCommand::Leave(_)) {
                let _ = leaving.send(SessionNews::Left(Box::default())).await;
            }
            let answer = hostile.as_ref().and_then(|one| one.answer(&sent.command, answered.load(Ordering::Relaxed)));
            if let Some(answer) = answer {
                let _ = leaving.send(answer).await;
            }
        }
    });
    tokio::spawn(async move {
        let chain = |name: &str, id| ChainIdentity { name: SafeText::clean(name, 20), id, interval_millis: None };
        let network = NetworkIdentity {
            name: SafeText::clean("devnet", 20),
            money: MoneyKind::Play,
            chains: vec![chain("ethereum", 31337)],
            wallet: Address::ZERO,
        };
        // A closed channel means that the console has closed, so this may end, too.
        if news.send(SessionNews::Market(MarketUpdate::Started(network))).await.is_err() {
            return;
        }
        if let Some(world) = &world {
            let _ = news.send(world.ready()).await;
        }
        for told in 1.. {
            let number = if script == Script::Same { 1 + u64::from(told > TIMES_THE_SAME) } else { told };
            if news.send(SessionNews::Market(MarketUpdate::Chain(Box::new(snapshot(number))))).await.is_err() {
                return;
            }
            if let Some(world) = &world {
                turn.store(number, Ordering::Relaxed);
                for told in world.tell(number) {
                    if news.send(told).await.is_err() {
                        return;
                    }
                }
            }
            if script == Script::Flood {
                return flood(&news).await;
            }
            if script == Script::Call {
                let _gone = news.send(SessionNews::Events(call(0, ""))).await;
            }
            if script == Script::Asks {
                let _gone = news.send(SessionNews::Questions(Arc::new(vec![leave_paper()]))).await;
            }
            match script {
                Script::Flood | Script::Still | Script::Call | Script::Asks => std::future::pending().await,
                Script::Same if number > 1 => std::future::pending().await,
                Script::Same => tokio::time::sleep(Duration::from_millis(5)).await,
                Script::Blocks | Script::Hostile => tokio::time::sleep(Duration::from_millis(20)).await,
                Script::Panic => panic!("the script says so"),
            }
        }
    });
    handle
}

/// Number of events per call of the flood.
pub const EACH: u64 = 5;

/// Number of calls of the flood: a million events with `BARDO_LONG`.
pub fn flood_calls() -> u64 {
    if std::env::var_os("BARDO_LONG").is_some() { 1_000_000 / EACH } else { 20_000 }
}

/// Resident memory of this process, in pages.
fn resident_pages() -> u64 {
    let told = std::fs::read_to_string("/proc/self/statm").unwrap();
    told.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Events of one swap, from its beginning to its end.
fn call(call: u64, padding: &str) -> Vec<Arc<Event>> {
    let golem: GolemId = "ada".parse().unwrap();
    let at = 1_700_000_000_000 + call;
    let call_id = CallId::new(at);
    let params = json!({ "token_in": "WETH", "token_out": "USDC", "amount": format!("{call}"), "chain": "ethereum" });
    let tx = |state| {
        let hash = alloy::primitives::B256::repeat_byte(7);
        EventKind::TxUpdate(TxUpdate {
            chain_id: 31_337,
            hash,
            leg: 1,
            of: 1,
            state,
            block: Some(call),
            gas_cost_wei: None,
            purpose: None,
        })
    };
    let kinds: [EventKind; 5] = [
        EventKind::ToolStart(ToolStart {
            tool_name: "uniswap_execute_swap".into(),
            params: RedactedParams::new(&params, &[]),
            params_hash: alloy::primitives::B256::ZERO,
            tick: None,
            facts: None,
        }),
        tx(TxState::Signed),
        tx(TxState::Sent),
        tx(TxState::Confirmed),
        EventKind::ToolEnd(ToolEnd {
            success: true,
            state: None,
            duration_ms: 9,
            result_summary: serde_json::Value::Null,
            card: Some(ResultCard {
                widget: bardo::base::model::CardKind::Swap,
                data: json!({ "amount_in": format!("{call}"), "amount_out": "9", "padding": padding }),
                hints: None,
            }),
        }),
    ];
    let event = |(place, kind)| {
        Arc::new(Event { seq: call * EACH + place, at, golem_id: golem.clone(), call_id: Some(call_id), kind })
    };
    (1..).zip(kinds).map(event).collect()
}

/// A request without consequences.
fn leave_paper() -> Question {
    let title = SafeText::clean("Leave paper mode", 40);
    Question {
        key: QuestionKey::Own(1),
        number: 1,
        golem_id: GolemId::operator(),
        call_id: None,
        place: 1,
        of: 1,
        title,
        value: None,
        money: MoneyKind::Play,
        asked_at: 0,
        ends_at: None,
        passes_by_itself: false,
        needs_password: false,
        reasons: vec![],
        changed: vec![],
        revision: 0,
        second: None,
        to_read: vec![],
        confirm: None,
        answers: AnswerKind::ALL.into_iter().map(|kind| AnswerOption { kind, why_not: None }).collect(),
        about: RequestSubject::LeavePaper,
    }
}

/// Calls with all their events, one batch per call: only the channel limits the speed. The last message states the
/// memory growth during the second half.
async fn flood(news: &tokio::sync::mpsc::Sender<SessionNews>) {
    let golem: GolemId = "ada".parse().unwrap();
    // Makes each call so large that keeping the second half would take twice the permitted memory.
    let padding = "x".repeat(16 * 1024);
    let mut half = 0;
    for call in 0..flood_calls() {
        if call == flood_calls() / 2 {
            half = resident_pages();
        }
        if news.send(SessionNews::Events(self::call(call, &padding))).await.is_err() {
            return;
        }
    }
    // Events that the console has not read are still in the channel: a few hundred calls.
    let grown = resident_pages().saturating_sub(half) * 4 / 1024;
    let words = SafeText::clean(&format!("the flood is over; {grown} MiB in its second half"), 100);
    let kind =
        EventKind::GolemNow(GolemState { now: words, next: SafeText::default(), step: None, delegation: vec![] });
    let seq = flood_calls() * EACH + 1;
    let event = Arc::new(Event { seq, at: 1_800_000_000_000, golem_id: golem, call_id: None, kind });
    let _gone = news.send(SessionNews::Events(vec![event])).await;
    std::future::pending().await
}

/// Snapshot with a block and nothing else.
fn snapshot(number: u64) -> ChainSnapshot {
    let block = BlockRow {
        number,
        timestamp: number,
        base_fee_wei: 1_000_000_000,
        gas_used: number % 10,
        gas_limit: 10,
        transactions: 0,
    };
    let (tokens, pools, balances, activity) = (vec![], vec![], vec![], vec![]);
    ChainSnapshot { chain: 0, blocks: vec![block], tokens, pools, balances, positions: vec![], lending: None, activity }
}

#[test]
fn harness() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    if script == "panic-here" {
        let _guard = TerminalGuard::enter().unwrap();
        panic!("the script says so");
    }
    let script = match script.as_str() {
        "still" => Script::Still,
        "blocks" => Script::Blocks,
        "hostile" => Script::Hostile,
        "same" => Script::Same,
        "flood" => Script::Flood,
        "call" => Script::Call,
        "asks" => Script::Asks,
        "panic" => Script::Panic,
        other => panic!("no script {other}"),
    };
    let options = ConsoleOptions {
        theme: Some("dark".to_owned()),
        no_motion: std::env::var_os("BARDO_CONSOLE_TEST_MOVES").is_none(),
        may_suspend: true,
        attention: match std::env::var("BARDO_CONSOLE_TEST_CALLS").as_deref() {
            Ok("bell") => Attention::Bell,
            Ok("notify") => Attention::Notify,
            _ => Attention::None,
        },
        ..ConsoleOptions::default()
    };
    let code = match run(&options, Box::new(move || open(script))) {
        Ok(_) => 0,
        Err(error) => {
            eprintln!("error: {error}");
            1
        }
    };
    std::process::exit(code);
}
