//! A session in paper mode, with the account of a devnet in another process.

use alloy::primitives::U256;
use bardo::engine::CallStatus;
use bardo::runtime::session::SessionOptions;
use bardo::session::handle::{LeaveMode, SessionCommand};
use bardo::session::market::MoneyKind;
use bardo::session::questions::OperatorAnswer;

use crate::host::{Devnet, Home, ROOMY};
use crate::queue::{Console, Seen};

/// Paper mode of the session, its USDC in raw units, and the dollars that count towards the daily limit.
fn shown(seen: &Seen) -> Option<(bool, U256, f64)> {
    let snapshot = seen.snapshot.as_ref()?;
    let rows = snapshot.holdings.iter().filter(|chain| chain.chain_id == 31_337).flat_map(|chain| &chain.rows);
    let usdc = rows.into_iter().find(|row| row.symbol.as_str() == "USDC")?.amount.raw();
    let day = snapshot.limits.as_ref()?.day.used.to_string().parse().ok()?;
    Some((snapshot.paper, usdc, day))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paper_session_asks_counts_and_shows_changes_and_the_next_one_continues() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let (held, nonce) = (devnet.balance("USDC"), devnet.nonce());
    let held_raw = U256::from(held);
    let on_paper = || SessionOptions { paper: true, ..SessionOptions::default() };
    let console = Console::open_as(&home, &devnet, None, on_paper()).await;
    console.swap(1).await;
    let question = console.question(None).await;
    assert_eq!(question.money, MoneyKind::Paper);
    console.answer(question.key, OperatorAnswer::Once).await;
    let reply = console.reply(1).await;
    assert_eq!(reply.status, CallStatus::Simulated, "{reply:?}");
    assert_eq!(reply.decision_hints.as_ref().unwrap()["paper"], true, "{reply:?}");

    let spent = held_raw - U256::from(1_500_000_000_u64);
    let moved = |seen: &Seen| {
        let (paper, usdc, day) = shown(seen)?;
        (paper && usdc == spent && (1_500.0..1_600.0).contains(&day)).then_some(())
    };
    console.until("the trade on paper is in holdings and limits", moved).await;
    assert_eq!((devnet.balance("USDC"), devnet.nonce()), (held, nonce));

    // Paper trades do not count for real limits.
    console.send(SessionCommand::AskToLeavePaper).await;
    let question = console.question(None).await;
    console.answer(question.key, OperatorAnswer::Once).await;
    let real = |seen: &Seen| (shown(seen)? == (false, held_raw, 0.0)).then_some(());
    console.until("the chain's own balances and limits", real).await;
    console.send(SessionCommand::EnterPaper).await;
    console.until("paper goes on where it was", moved).await;
    console.send(SessionCommand::Leave(LeaveMode::Now)).await;

    let next = Console::open_as(&home, &devnet, None, on_paper()).await;
    next.until("the next session goes on from there", moved).await;
    assert_eq!((devnet.balance("USDC"), devnet.nonce()), (held, nonce));
    next.send(SessionCommand::Leave(LeaveMode::Now)).await;
}
