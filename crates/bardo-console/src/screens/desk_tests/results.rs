//! Profit and loss on the Portfolio screen: every state at every size, and watch-only accounts.

use std::sync::Arc;

use alloy_primitives::{U256, address};

use super::*;
use bardo_base::units::{SignedUsd, TokenAmount, Usd};
use bardo_session::handle::{ChainHoldings, HoldingRow, PnlDay, PnlState, PnlSums, PnlToken, WatchedHoldings};

/// 2026-11-24 00:00:00 UTC.
const MIDNIGHT: u64 = 1_795_478_400;

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

fn signed(text: &str) -> SignedUsd {
    match text.strip_prefix('-') {
        Some(loss) => SignedUsd::loss(usd(loss)),
        None => SignedUsd::gain(usd(text)),
    }
}

fn sums(realised: &str, gas: &str, fees: &str, net: &str, incomplete: u64) -> PnlSums {
    PnlSums { trades: 3, realised: signed(realised), gas: usd(gas), fees: signed(fees), net: signed(net), incomplete }
}

fn state() -> PnlState {
    let token = |symbol: &str, chain: &str, sums, unrealised: Option<&str>| PnlToken {
        symbol: safe(symbol),
        chain: safe(chain),
        sums,
        unrealised: unrealised.map(signed),
    };
    let day = |number: u64, net: &str, so_far: &str, unrealised: Option<&str>| PnlDay {
        begins: MIDNIGHT + number * 86_400,
        sums: sums(net, "0", "0", net, 0),
        net_so_far: signed(so_far),
        unrealised: unrealised.map(signed),
        entries: 1,
    };
    PnlState {
        paper: false,
        account: Some(address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266")),
        money: None,
        unvalued: 0,
        more_tokens: 0,
        left_out: Vec::new(),
        total: sums("412.3312", "18.42", "1.07", "392.8412", 1),
        unrealised: Some(signed("-120.5")),
        tokens: vec![
            token("ETH", "ethereum", sums("5.5", "18.42", "0", "-12.92", 0), Some("-310.1")),
            token("USDC", "ethereum", sums("-2.01", "0", "0", "-2.01", 0), Some("0.4")),
            token("UNI", "ethereum", sums("408.8412", "0", "0", "408.8412", 1), None),
            token("USDC", "base", sums("0", "0", "1.07", "-1.07", 0), Some("189.2")),
        ],
        days: vec![
            day(0, "-40.25", "-40.25", Some("12")),
            day(1, "310.1", "269.85", None),
            day(2, "122.9912", "392.8412", Some("-120.5")),
        ],
        even: 6,
        differences: Vec::new(),
        fault: None,
    }
}

fn shown(state: Option<PnlState>, days: bool) -> (Portfolio, TestHarness) {
    let mut world = world();
    world.snapshot.pnl = state.map(Arc::new);
    let mut screen = Portfolio::default();
    screen.act(Action::Open, &world.known(), AREA).unwrap();
    if days {
        screen.act(Action::NextPanel, &world.known(), AREA).unwrap();
    }
    (screen, world)
}

#[test]
fn profit_and_loss_as_pictures() {
    for days in [false, true] {
        let (screen, world) = shown(Some(state()), days);
        for (width, height) in [(120, 36), (80, 20), (40, 20), (14, 5)] {
            let name = if days { "results_by_day" } else { "results" };
            let text = drawn(&screen, &world, Rect { x: 0, y: 0, width, height });
            insta::assert_snapshot!(format!("{name}_{width}x{height}"), text);
        }
    }
}

#[test]
fn every_state_of_profit_and_loss_has_its_words() {
    let differing = PnlState {
        differences: vec![safe("WETH on ethereum: the chain has 0.5 more than the books")],
        fault: Some(safe("base: the endpoints contradict each other")),
        ..state()
    };
    let empty = PnlState { tokens: Vec::new(), days: Vec::new(), ..PnlState::default() };
    for (state, words) in [
        (None, "Not known yet."),
        (Some(empty.clone()), "No entries yet."),
        (Some(PnlState { paper: true, ..empty.clone() }), "PAPER: no entries yet."),
        (Some(PnlState { fault: Some(safe("ethereum: no answer")), ..empty }), "No entries yet. ethereum: no answer"),
        (Some(state()), "✓ 6 balances agree with the chain to the last unit"),
        (Some(state()), "? 1 entry lacks a price or a cost"),
        (Some(PnlState { paper: true, ..state() }), "PAPER profit and loss of 0xf39F…2266"),
        (Some(PnlState { money: Some(MoneyKind::Test), ..state() }), "TEST money: profit and loss of 0xf39F…2266"),
        (Some(PnlState { more_tokens: 3, ..state() }), "3 more tokens are in the sums, but not listed"),
        (Some(PnlState { unvalued: 1, ..state() }), "? unrealised leaves out 1 holding without a price or a cost"),
        (
            Some(PnlState { left_out: vec![safe("FEE-0x12… on base is not compared")], ..state() }),
            "! FEE-0x12… on base is not compared",
        ),
        (Some(differing.clone()), "! WETH on ethereum: the chain has 0.5 more than the books"),
        (Some(differing), "! Not up to date: base: the endpoints contradict each other"),
    ] {
        let (screen, world) = shown(state, false);
        let text = drawn(&screen, &world, Rect { width: 80, height: 24, ..AREA });
        assert!(text.contains(words), "{words}:\n{text}");
        for (width, height) in [(0, 0), (1, 1), (3, 2), (14, 5), (40, 8), (300, 90)] {
            drawn(&screen, &world, Rect { x: 0, y: 0, width, height });
        }
    }
}

#[test]
fn enter_shows_profit_and_loss_and_escape_leaves_it() {
    let (mut screen, world) = shown(Some(state()), false);
    assert!(drawn(&screen, &world, AREA).contains("By token"));
    screen.act(Action::NextPanel, &world.known(), AREA).unwrap();
    assert!(drawn(&screen, &world, AREA).contains("By day, UTC"));
    screen.act(Action::Back, &world.known(), AREA).unwrap();
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("Holding, confirmed") && text.contains("Enter profit and loss"), "{text}");
    assert!(screen.act(Action::Back, &world.known(), AREA).is_none(), "the screen itself is left as before");
}

#[test]
fn a_watched_account_has_its_whole_address_and_counts_in_no_total() {
    let mut world = world();
    let before = drawn(&Portfolio::default(), &world, AREA);
    let address = address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65");
    let row = HoldingRow {
        symbol: safe("WBTC"),
        amount: TokenAmount::new(U256::from(3_u64), 0).unwrap(),
        value: Some(usd("204030.6")),
    };
    let holdings = ChainHoldings {
        chain: safe("base"),
        chain_id: 31_338,
        block: 7,
        rows: vec![row],
        positions: vec![],
        lending: None,
    };
    world.snapshot.watched = vec![WatchedHoldings { name: safe("Savings"), address, holdings }];
    let text = drawn(&Portfolio::default(), &world, Rect { width: 200, ..AREA });
    assert!(text.contains(&format!("watch-only “Savings”  base  {address}")), "{text}");
    assert!(text.contains("$204,030.60") && !text.contains("806 %"), "{text}");
    let total = |text: &str| text.lines().next().unwrap().matches("$25,310.42").count();
    assert_eq!((total(&text), total(&before)), (1, 1), "the equity is that of the own account");
}
