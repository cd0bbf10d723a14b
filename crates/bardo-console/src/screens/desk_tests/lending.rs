//! Supplies and debts on the Portfolio screen, at every size.

use alloy_primitives::U256;

use super::*;
use bardo_base::fabric::LiquidationMove;
use bardo_base::units::{BasisPoints, TokenAmount};
use bardo_session::market::{LendingRow, LendingState};

fn row(symbol: &str, decimals: u8, [supplied, owed]: [u64; 2], [worth, owes]: [Option<&str>; 2]) -> LendingRow {
    let unit = U256::from(10).pow(U256::from(decimals - 2));
    let amount = |hundredths: u64| TokenAmount::new(U256::from(hundredths) * unit, decimals).unwrap();
    LendingRow {
        symbol: safe(symbol),
        supplied: amount(supplied),
        supplied_value: worth.map(|usd| usd.parse().unwrap()),
        owed: amount(owed),
        owed_value: owes.map(|usd| usd.parse().unwrap()),
    }
}

/// Half an ether supplied, 900 dollars owed.
fn indebted(mut world: TestHarness, word: &str) -> TestHarness {
    let fall = LiquidationMove {
        symbol: safe(word),
        fall: BasisPoints::new(3_621).unwrap(),
        price: "2168.67".parse().unwrap(),
        rises: false,
    };
    let rows = vec![
        row(word, 18, [50, 0], [Some("1700"), Some("0")]),
        row("USDC", 6, [0, 90_000], [Some("0"), Some("900.12")]),
        row("DAI", 18, [0, 100], [Some("0"), None]),
    ];
    let lending = LendingState { rows, health: Some(156), moves: vec![fall], unread: false };
    world.snapshot.holdings[0].lending = Some(lending);
    world
}

#[test]
fn supplies_and_debts_as_pictures() {
    let world = indebted(world(), "WETH");
    for (width, height) in [(80, 20), (120, 36), (40, 20), (14, 5)] {
        let text = drawn(&Portfolio::default(), &world, Rect { x: 0, y: 0, width, height });
        insta::assert_snapshot!(format!("lending_{width}x{height}"), text);
    }
}

#[test]
fn a_debt_is_subtracted_and_its_security_is_said() {
    let mut world = indebted(world(), "WETH");
    let shown = |world: &TestHarness| drawn(&Portfolio::default(), world, AREA);
    let text = shown(&world);
    let words =
        ["Aave  health 1.56", "owed 900", "−$900.12", "liquidated if WETH falls 36.2 % to $2,168.67", "no price"];
    for words in words {
        assert!(text.contains(words), "{words}\n{text}");
    }
    // 14,503.34 and 1,700 less 900.12; what has no price is left out.
    assert!(text.contains("$15,303.22"), "{text}");
    let lending = world.snapshot.holdings[0].lending.as_mut().unwrap();
    lending.health = Some(99);
    assert!(shown(&world).contains("✕ health 0.99, can be liquidated"), "{}", shown(&world));
    world.snapshot.holdings[0].lending.as_mut().unwrap().health = None;
    assert!(shown(&world).contains("? health unknown"), "{}", shown(&world));
    world.snapshot.holdings[0].lending = Some(LendingState::unread());
    assert!(shown(&world).contains("Aave  ? could not be read"), "{}", shown(&world));
}

#[test]
fn the_filter_finds_supplies_and_debts() {
    let world = indebted(world(), "WETH");
    let mut screen = Portfolio::default();
    screen.act(Action::Filter, &world.known(), AREA);
    typed(&mut screen, &world, "lending\n");
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("owed 900") && text.contains("health 1.56") && !text.contains("4.25"), "{text}");
}

#[test]
fn hostile_symbols_of_a_market_reach_no_cell() {
    let theme = Theme::load("dark", None).unwrap().0;
    for word in corpus::all() {
        let world = indebted(in_words(&word), &word);
        let mut buffer = Buffer::empty(AREA);
        Portfolio::default().draw(&world.known(), &mut Painter { buffer: &mut buffer, theme: &theme }, AREA);
        for cell in &buffer.content {
            assert!(!cell.symbol().chars().any(char::is_control), "{word:?}");
        }
    }
}
