//! The console with a scripted source. As a test of its own it does nothing; the others start it in a PTY.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, U256};
use bardo::base::id::GolemId;
use bardo::base::text::{SafeText, corpus};
use bardo::base::units::TokenAmount;
use bardo::console::state::model::{
    BalanceRow, BlockRow, ChainIdentity, ChainSnapshot, FeedPrice, Money, Network, TokenRow, Update,
};
use bardo::console::terminal::TerminalGuard;
use bardo::console::{ConsoleOptions, run_with};
use bardo::fabric::{Event, EventKind, FabricFault, GolemNow, GolemThought};
use bardo::runtime::handle::{Command, Handle, News, SessionEnd};
use bardo::runtime::questions::{About, Question, QuestionKey};

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
            match script {
                Script::Still => std::future::pending().await,
                Script::Same if number > 1 => std::future::pending().await,
                Script::Same => tokio::time::sleep(Duration::from_millis(5)).await,
                Script::Blocks => tokio::time::sleep(Duration::from_millis(20)).await,
                Script::Panic => panic!("the script says so"),
            }
        }
    });
    handle
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
    let question = Question {
        key: QuestionKey::Own(number),
        number,
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
        answers: vec![],
        about: About::LeavePaper,
    };
    (events, Arc::new(vec![question]))
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
