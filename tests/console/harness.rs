//! The console with a scripted source. As a test of its own it does nothing; the others start it in a PTY.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, U256};
use bardo::base::id::{CallId, GolemId, PermitId};
use bardo::base::text::{SafeText, corpus};
use bardo::base::units::TokenAmount;
use bardo::console::state::model::{
    BalanceRow, BlockRow, ChainIdentity, ChainSnapshot, FeedPrice, Money, Network, TokenRow, Update,
};
use bardo::console::terminal::TerminalGuard;
use bardo::console::{ConsoleOptions, run_with};
use bardo::fabric::{
    Card, Event, EventKind, FabricFault, GolemNow, GolemThought, Redacted, ToolEnd, ToolStart, TxState, TxUpdate,
};
use bardo::runtime::handle::{Command, Handle, News, SessionEnd};
use bardo::runtime::questions::{
    About, ActionAsked, AllowanceAfter, AnswerKind, ArrivalTold, Change, Costs, Offered, OrderTold, Part, Place,
    Question, QuestionKey, RawCall,
};
use serde_json::json;

/// The variable that makes the test below a program.
pub const SCRIPT: &str = "BARDO_CONSOLE_TEST_SCRIPT";

/// How often [`Script::Same`] tells of one block.
const TIMES_THE_SAME: u64 = 100;

/// What the source does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    /// One block and then nothing.
    Still,
    /// A block after another.
    Blocks,
    /// One block, told again and again as it was, then the next, then nothing.
    Same,
    /// Events of calls as fast as the console takes them, until there were [`flood_calls`] of them.
    Flood,
    /// One block, then a thread of it panics.
    Panic,
}

/// A session that plays `script`, and leaves when it is told to.
fn open(script: Script) -> Handle {
    let (handle, SessionEnd { mut commands, news }) = Handle::pair();
    let leaving = news.clone();
    tokio::spawn(async move {
        while let Some(sent) = commands.recv().await {
            if matches!(sent.command, Command::Leave(_)) {
                let _ = leaving.send(News::Left(Box::default())).await;
            }
        }
    });
    tokio::spawn(async move {
        let chain = |name: &str, id| ChainIdentity { name: SafeText::clean(name, 20), id, interval_millis: None };
        let network = Network {
            name: SafeText::clean("devnet", 20),
            money: Money::Play,
            chains: vec![chain("ethereum", 31337)],
            wallet: Address::ZERO,
        };
        // A closed channel means that the console has gone, and so may this.
        if news.send(News::Market(Update::Started(network))).await.is_err() {
            return;
        }
        for told in 1.. {
            let number = if script == Script::Same { 1 + u64::from(told > TIMES_THE_SAME) } else { told };
            if news.send(News::Market(Update::Chain(Box::new(snapshot(number))))).await.is_err() {
                return;
            }
            if script == Script::Blocks {
                let (events, questions) = hostile(number);
                if news.send(News::Events(events)).await.is_err()
                    || news.send(News::Questions(questions)).await.is_err()
                {
                    return;
                }
            }
            if script == Script::Flood {
                return flood(&news).await;
            }
            match script {
                Script::Flood | Script::Still => std::future::pending().await,
                Script::Same if number > 1 => std::future::pending().await,
                Script::Same => tokio::time::sleep(Duration::from_millis(5)).await,
                Script::Blocks => tokio::time::sleep(Duration::from_millis(20)).await,
                Script::Panic => panic!("the script says so"),
            }
        }
    });
    handle
}

/// Events of each call of the flood.
pub const EACH: u64 = 5;

/// Calls of the flood: a million events by flag.
pub fn flood_calls() -> u64 {
    if std::env::var_os("BARDO_LONG").is_some() { 1_000_000 / EACH } else { 20_000 }
}

/// Pages of memory this process holds.
fn resident_pages() -> u64 {
    let told = std::fs::read_to_string("/proc/self/statm").unwrap();
    told.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Calls with all their events, one batch a call: nothing is held back, the channel alone says how fast. The last word
/// says how much memory the second half has taken.
async fn flood(news: &tokio::sync::mpsc::Sender<News>) {
    let golem: GolemId = "ada".parse().unwrap();
    let mut half = 0;
    for call in 0..flood_calls() {
        if call == flood_calls() / 2 {
            half = resident_pages();
        }
        let at = 1_700_000_000_000 + call;
        let call_id = CallId::new(at);
        let params =
            json!({ "token_in": "WETH", "token_out": "USDC", "amount": format!("{call}"), "chain": "ethereum" });
        let tx = |state| {
            let hash = alloy::primitives::B256::repeat_byte(7);
            EventKind::TxUpdate(TxUpdate { chain_id: 31_337, hash, leg: 1, of: 1, state, block: Some(call) })
        };
        let kinds: [EventKind; 5] = [
            EventKind::ToolStart(ToolStart {
                tool_name: "uniswap_execute_swap".into(),
                params: Redacted::new(&params, &[]),
                params_hash: alloy::primitives::B256::ZERO,
                tick: None,
            }),
            tx(TxState::Signed),
            tx(TxState::Sent),
            tx(TxState::Confirmed),
            EventKind::ToolEnd(ToolEnd {
                success: true,
                duration_ms: 9,
                result_summary: serde_json::Value::Null,
                card: Some(Card {
                    widget: bardo::base::model::CardKind::Swap,
                    data: json!({ "amount_in": format!("{call}"), "amount_out": "9" }),
                    hints: None,
                }),
            }),
        ];
        let event = |(place, kind)| {
            Arc::new(Event { seq: call * EACH + place, at, golem_id: golem.clone(), call_id: Some(call_id), kind })
        };
        if news.send(News::Events((1..).zip(kinds).map(event).collect())).await.is_err() {
            return;
        }
    }
    // What the console has not taken in yet is still in the channel; it is a few hundred calls.
    let grown = resident_pages().saturating_sub(half) * 4 / 1024;
    let words = SafeText::clean(&format!("the flood is over; {grown} MiB in its second half"), 100);
    let kind = EventKind::GolemNow(GolemNow { now: words, next: SafeText::default(), step: None, delegation: vec![] });
    let seq = flood_calls() * EACH + 1;
    let event = Arc::new(Event { seq, at: 1_800_000_000_000, golem_id: golem, call_id: None, kind });
    let _gone = news.send(News::Events(vec![event])).await;
    std::future::pending().await
}

/// What a hostile world would say: in the Golem's words, in errors, in what the operator is asked.
fn hostile(number: u64) -> (Vec<Arc<Event>>, Arc<Vec<Question>>) {
    let all: Vec<SafeText> = corpus::all().map(|raw| SafeText::clean(&raw, 200)).collect();
    let at = usize::try_from(number).unwrap() % all.len();
    let words = all[at].clone();
    let golem: GolemId = "ada".parse().unwrap();
    let kinds = [
        EventKind::GolemNow(GolemNow { now: words.clone(), next: words.clone(), step: None, delegation: vec![] }),
        EventKind::GolemThought(GolemThought { thought: number, text: words.clone(), more: false }),
        EventKind::FabricFault(FabricFault { message: words.clone(), first_lost: number }),
    ];
    let event = |(place, kind)| {
        let seq = number * 3 + place;
        Arc::new(Event { seq, at: number, golem_id: golem.clone(), call_id: None, kind })
    };
    let events = (0..).zip(kinds).map(event).collect();
    // The same question stays open for a while, and what it says changes all the time.
    let asked = number / 25 + 1;
    let question = Question {
        key: QuestionKey::Own(asked),
        number: asked,
        golem_id: golem.clone(),
        call_id: None,
        place: 1,
        of: 1,
        title: words.clone(),
        value: None,
        money: Money::Play,
        asked_at: number,
        ends_at: None,
        passes_by_itself: false,
        reasons: vec![words.clone()],
        changed: vec![words.clone()],
        to_read: vec![],
        confirm: None,
        answers: AnswerKind::ALL.into_iter().map(|kind| Offered { kind, why_not: Some(words.clone()) }).collect(),
        about: if number.is_multiple_of(2) { About::LeavePaper } else { About::Action(Box::new(action(&words))) },
    };
    (events, Arc::new(vec![question]))
}

/// An action all of whose words are a hostile world's.
fn action(words: &SafeText) -> ActionAsked {
    let place = |part| Place {
        part,
        address: Address::ZERO,
        label: Some(words.clone()),
        listed: false,
        is_from: false,
        first_seen: true,
    };
    ActionAsked {
        tool: words.clone(),
        intent: words.clone(),
        chain: words.clone(),
        chain_id: 31_337,
        valid_until: 4_000_000_000_000,
        valid_since: 1,
        asked_by: vec![words.clone()],
        opinion: None,
        words: Some(words.clone()),
        quoted_at: None,
        block: 1,
        changes: vec![Change {
            symbol: words.clone(),
            address: None,
            expected: "+1".to_owned(),
            dollars: None,
            before: "0".to_owned(),
            after: "1".to_owned(),
            worst: Some("+1".to_owned()),
            gas: false,
        }],
        arrival: Some(ArrivalTold {
            chain_id: 31_338,
            symbol: words.clone(),
            address: None,
            expected: "1".to_owned(),
            least: "1".to_owned(),
        }),
        order: Some(OrderTold { kind: words.clone(), usable_until: 1, fields: vec![(words.clone(), words.clone())] }),
        allowances: vec![AllowanceAfter {
            symbol: words.clone(),
            spender: Address::ZERO,
            label: Some(words.clone()),
            amount: "1".to_owned(),
            unlimited: true,
            through_permit2: true,
            expires_at: Some(9),
            before: None,
        }],
        nothing_else: Err(words.clone()),
        costs: Costs {
            spent: "1".parse().unwrap(),
            received: "1".parse().unwrap(),
            gas: "1".parse().unwrap(),
            worst_loss_bps: None,
            expected_loss: None,
        },
        places: vec![place(Part::From), place(Part::Receiver)],
        checks: vec![],
        permit: PermitId::random(),
        hash: alloy::primitives::B256::ZERO,
        raw: vec![RawCall {
            purpose: words.clone(),
            to: Address::ZERO,
            value_wei: "0".to_owned(),
            gas_limit: 1,
            data: "0x".to_owned(),
            signs: vec![words.clone()],
        }],
        amount: Some(("1".to_owned(), words.clone())),
    }
}

/// Every hostile symbol there is stands among its tokens and holdings.
fn snapshot(number: u64) -> ChainSnapshot {
    let hostile: Vec<SafeText> = corpus::all().map(|raw| SafeText::clean(&raw, 24)).collect();
    let at = usize::try_from(number).unwrap() % hostile.len();
    let tokens = hostile.iter().cycle().skip(at).take(10).map(|symbol| TokenRow {
        symbol: symbol.clone(),
        address: Address::ZERO,
        price: FeedPrice::None(symbol.clone()),
    });
    let amount = TokenAmount::new(U256::from(number), 0).unwrap();
    ChainSnapshot {
        chain: 0,
        blocks: vec![BlockRow {
            number,
            timestamp: number,
            base_fee_wei: 1_000_000_000,
            gas_used: number % 10,
            gas_limit: 10,
            transactions: 0,
        }],
        tokens: tokens.collect(),
        pools: vec![],
        balances: vec![BalanceRow { symbol: hostile[at].clone(), amount, value: None }],
        activity: vec![],
    }
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
        "same" => Script::Same,
        "flood" => Script::Flood,
        "panic" => Script::Panic,
        other => panic!("no script {other}"),
    };
    let options = ConsoleOptions {
        theme: Some("dark".to_owned()),
        no_motion: true,
        may_suspend: true,
        ..ConsoleOptions::default()
    };
    let code = match run_with(&options, Box::new(move || open(script))) {
        Ok(_) => 0,
        Err(error) => {
            eprintln!("error: {error}");
            1
        }
    };
    std::process::exit(code);
}
