//! The page as text at four widths, and the styles that carry meaning.

use alloy::primitives::{Address, B256, U256};
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::style::Color;

use crate::base::text::{SafeText, corpus};
use crate::base::units::TokenAmount;
use crate::console::keymap::Key;
use crate::console::state::layout::Panel;
use crate::console::state::model::*;
use crate::console::state::{Input, State};
use crate::console::theme::{Role, Theme};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// 2023-11-14 22:13:20 UTC.
const NOON: u64 = 1_700_000_000;

fn text(raw: &str) -> SafeText {
    SafeText::clean(raw, 64)
}

fn address(seed: u8) -> Address {
    Address::repeat_byte(seed)
}

fn token(symbol: &str, seed: u8, price: &str) -> TokenRow {
    TokenRow { symbol: text(symbol), address: address(seed), price: FeedPrice::Live(price.parse().unwrap()) }
}

fn pool(base: &str, quote: &str, version: PoolVersion, fee_pips: u32, price: &str, feed: &str, holds: &str) -> PoolRow {
    PoolRow {
        base: text(base),
        quote: text(quote),
        version,
        fee_pips,
        address: address(9),
        price: Some(price.parse().unwrap()),
        feed_price: Some(feed.parse().unwrap()),
        holds: Some(holds.parse().unwrap()),
    }
}

fn block(number: u64) -> BlockRow {
    BlockRow {
        number,
        timestamp: NOON - 2 * (1284 - number.min(1284)),
        base_fee_wei: 914_000_000 + u128::from(number % 7) * 1_000_000,
        gas_used: 400_000 * (number % 5),
        gas_limit: 30_000_000,
        transactions: usize::try_from(number % 5).unwrap(),
    }
}

fn balance(symbol: &str, raw: u64, decimals: u8, value: Option<&str>) -> BalanceRow {
    BalanceRow {
        symbol: text(symbol),
        amount: TokenAmount::new(U256::from(raw), decimals).unwrap(),
        value: value.map(|value| value.parse().unwrap()),
    }
}

fn swap(chain: usize, at: u64, number: u8, failed: bool, words: &str) -> ActivityRow {
    ActivityRow {
        at,
        block: 1284,
        chain,
        kind: ActivityKind::Swap,
        failed,
        text: text(words),
        transaction: B256::repeat_byte(number),
    }
}

fn ethereum(eth: &str) -> ChainSnapshot {
    use PoolVersion::{V2, V3};
    ChainSnapshot {
        chain: 0,
        blocks: (1260..=1284).map(block).collect(),
        tokens: vec![
            token("WETH", 1, eth),
            token("WBTC", 2, "68010.2"),
            token("USDC", 3, "1"),
            TokenRow {
                symbol: text("DAI"),
                address: address(4),
                price: FeedPrice::None(text("stale: stated 700 s ago")),
            },
            token("UNI", 5, "7.85"),
            token("LINK", 6, "17.0123"),
            TokenRow { symbol: text("RARE"), address: address(7), price: FeedPrice::None(text("no feed")) },
        ],
        pools: vec![
            pool("WETH", "USDC", V3, 500, "3412.5521", "3411.2", "12450000"),
            pool("WETH", "USDC", V3, 3000, "3415.01", "3411.2", "4100000"),
            pool("WETH", "USDC", V2, 3000, "3409.9", "3411.2", "3450000"),
            pool("WBTC", "WETH", V3, 3000, "19.9405", "19.9373", "3000000"),
            pool("UNI", "WETH", V3, 3000, "0.002401", "0.0023012", "850000"),
            pool("LINK", "USDC", V3, 10_000, "17.1", "17.0123", "2000000"),
            PoolRow { price: None, holds: None, ..pool("RARE", "WETH", V2, 3000, "1", "1", "1") },
        ],
        balances: vec![
            balance("ETH", 1_400_000_000_000_000_000, 18, Some("4775.68")),
            balance("WETH", 4_500_000_000_000_000_000, 18, Some("15350.4")),
            balance("USDC", 5_000_123_456, 6, Some("5000.12")),
        ],
        activity: vec![
            swap(0, NOON - 4, 0x8c, false, "0.25 WETH → 852.54 USDC  V3 0.05 %"),
            swap(0, NOON, 0x4b, true, "Too little received"),
        ],
    }
}

fn base() -> ChainSnapshot {
    ChainSnapshot {
        chain: 1,
        blocks: (1270..=1279).map(block).collect(),
        tokens: vec![token("WETH", 1, "3411.9"), token("USDC", 3, "1")],
        pools: vec![pool("WETH", "USDC", PoolVersion::V3, 500, "3411.0", "3411.9", "2000000")],
        balances: vec![balance("ETH", 200_000_000_000_000_000, 18, Some("682.38")), balance("宽币", 77, 0, None)],
        activity: vec![swap(1, NOON - 1, 0x51, false, "500 USDC → 0.1465 WETH  V3 0.05 %")],
    }
}

fn network() -> Network {
    let chain = |name: &str, id, interval| ChainIdentity { name: text(name), id, interval_millis: Some(interval) };
    Network {
        name: text("devnet"),
        money: Money::Play,
        chains: vec![chain("ethereum", 31337, 2000), chain("base", 31338, 1000)],
        wallet: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap(),
    }
}

fn step(chain: &str, words: &str, detail: &str) -> BootStep {
    BootStep { chain: text(chain), step: text(words), detail: text(detail), done: false }
}

fn empty(width: u16, height: u16) -> State {
    State::new(Size { width, height }, NOON * 1000 + 1000, true)
}

fn running(width: u16, height: u16) -> State {
    let mut state = empty(width, height);
    let mut news = |update| {
        state.update(Input::News(update));
    };
    news(Update::Started(network()));
    news(Update::Chain(Box::new(ethereum("3409.1"))));
    let one_more = ChainSnapshot { blocks: vec![], activity: vec![], ..ethereum("3411.2") };
    news(Update::Chain(Box::new(one_more)));
    news(Update::Chain(Box::new(base())));
    state
}

fn theme() -> Theme {
    Theme::load("dark", None).unwrap().0
}

fn drawn(state: &State) -> Buffer {
    let area = Rect::new(0, 0, state.size.width, state.size.height);
    let mut buffer = Buffer::empty(area);
    super::draw(state, &theme(), area, &mut buffer);
    buffer
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let row = |y| {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            if skip == 0 {
                line.push_str(symbol);
                skip = crate::base::text::width(symbol).max(1);
            }
            skip -= 1;
        }
        line.trim_end().to_owned()
    };
    (0..buffer.area.height).map(row).collect()
}

fn picture(state: &State) -> String {
    lines(&drawn(state)).join("\n")
}

/// The colour of the first cell of `words` on the screen.
fn colour_of(state: &State, words: &str) -> (Color, Color) {
    let buffer = drawn(state);
    for (y, line) in (0..).zip(lines(&buffer)) {
        if let Some(at) = line.find(words) {
            // Nothing before it on these lines is wider than a column.
            let x = u16::try_from(line[..at].chars().count()).unwrap();
            let cell = &buffer[(x, y)];
            return (cell.fg, cell.bg);
        }
    }
    panic!("`{words}` is not on the screen:\n{}", lines(&buffer).join("\n"));
}

fn press(state: &mut State, code: KeyCode) {
    state.update(Input::Key(Key::from(KeyEvent::new(code, KeyModifiers::NONE))));
}

#[test]
fn the_page_at_its_sizes() {
    for (width, height) in [(40, 24), (80, 24), (120, 40), (200, 50), (20, 5)] {
        insta::assert_snapshot!(format!("page_{width}x{height}"), picture(&running(width, height)));
    }
}

#[test]
fn the_boot_at_its_sizes() {
    for (width, height) in [(40, 24), (80, 24), (120, 40)] {
        let mut state = empty(width, height);
        for news in [
            step("ethereum", "deploying contracts", ""),
            step("base", "deploying contracts", ""),
            step("ethereum", "living through the past", "block 1 of 120"),
            step("base", "creating pools", ""),
            step("ethereum", "living through the past", "block 61 of 120"),
        ] {
            state.update(Input::News(Update::Boot(news)));
        }
        insta::assert_snapshot!(format!("boot_{width}x{height}"), picture(&state));
    }
}

#[test]
fn a_boot_that_fails_says_so() {
    let mut state = empty(80, 24);
    state.update(Input::News(Update::Boot(step("ethereum", "deploying contracts", ""))));
    let message = text("the bundle's WETH9 has another hash than its manifest");
    state.update(Input::News(Update::Fault { chain: None, message }));
    insta::assert_snapshot!("boot_failed_80x24", picture(&state));
    assert_eq!(state.next_change_millis().map(|at| at % 1000), Some(0), "no spinner after a failure");
}

#[test]
fn dialogs_at_their_sizes() {
    for (width, height) in [(40, 12), (80, 24), (120, 40)] {
        let mut state = running(width, height);
        press(&mut state, KeyCode::Char('?'));
        insta::assert_snapshot!(format!("help_{width}x{height}"), picture(&state));
        press(&mut state, KeyCode::Esc);
        press(&mut state, KeyCode::Char('q'));
        insta::assert_snapshot!(format!("quit_{width}x{height}"), picture(&state));
    }
}

#[test]
fn a_zoomed_and_a_frozen_view() {
    let mut state = running(80, 24);
    press(&mut state, KeyCode::Char('z'));
    insta::assert_snapshot!("zoomed_pools_80x24", picture(&state));
    let mut state = running(120, 40);
    press(&mut state, KeyCode::Char(' '));
    state.update(Input::News(Update::Chain(Box::new(ChainSnapshot { blocks: vec![block(1285)], ..ethereum("3500") }))));
    let shown = picture(&state);
    assert!(shown.contains("VIEW FROZEN, chains still running, 1 new"), "{shown}");
    assert!(shown.contains("ethereum #1,285"), "the header goes on:\n{shown}");
    assert!(shown.contains("$3,411.20") && !shown.contains("$3,500.00"), "the page stands still:\n{shown}");
    press(&mut state, KeyCode::Char(' '));
    assert!(picture(&state).contains("$3,500.00"));
}

#[test]
fn colours_say_what_the_words_say() {
    let state = running(120, 40);
    let of = |role: Role| theme().style(role);
    assert_eq!(colour_of(&state, "PLAY MONEY"), (of(Role::BadgePlay).fg.unwrap(), of(Role::BadgePlay).bg.unwrap()));
    assert_eq!(colour_of(&state, "● RUNNING").0, of(Role::StateGood).fg.unwrap());
    assert_eq!(colour_of(&state, "$3,411.20 ▲").0, of(Role::PriceUp).fg.unwrap());
    assert_eq!(colour_of(&state, "no price").0, of(Role::StateCare).fg.unwrap());
    assert_eq!(colour_of(&state, "no feed").0, of(Role::TextDim).fg.unwrap());
    // 3412.5521 against 3411.2 is 3.96 bps, within the pool's 5; 0.002401 against 0.0023012 is 434, far outside.
    assert_eq!(colour_of(&state, "+4 bps").0, of(Role::StateGood).fg.unwrap());
    assert_eq!(colour_of(&state, "+434 bps").0, of(Role::StateBad).fg.unwrap());
    assert_eq!(colour_of(&state, "✕").0, of(Role::StateBad).fg.unwrap());
    let frames = drawn(&state);
    let focused = state.plan().area_of(Panel::Pools).unwrap();
    let other = state.plan().area_of(Panel::Wallet).unwrap();
    assert_eq!(frames[(focused.x, focused.y)].fg, of(Role::BorderFocus).fg.unwrap());
    assert_eq!(frames[(other.x, other.y)].fg, of(Role::Border).fg.unwrap());
}

#[test]
fn a_fall_is_marked_and_a_quiet_chain_is_named() {
    let mut state = running(120, 40);
    let fell = ChainSnapshot { blocks: vec![block(1285)], activity: vec![], ..ethereum("3400.5") };
    state.update(Input::News(Update::Chain(Box::new(fell))));
    assert_eq!(colour_of(&state, "$3,400.50 ▼").0, theme().style(Role::PriceDown).fg.unwrap());
    state.update(Input::Time((NOON + 60) * 1000));
    let shown = picture(&state);
    assert!(shown.contains("no block for 60 s") && shown.contains("quiet 60 s"), "{shown}");
}

#[test]
fn a_chain_in_trouble_says_so_until_its_next_block() {
    let mut state = running(120, 40);
    state.update(Input::News(Update::Fault { chain: Some(1), message: text("the chain's thread has ended") }));
    let shown = picture(&state);
    assert!(shown.contains("▲ TROUBLE") && shown.contains("▲ the chain's thread has ended"), "{shown}");
    state.update(Input::News(Update::Chain(Box::new(ChainSnapshot { blocks: vec![block(1280)], ..base() }))));
    assert!(picture(&state).contains("● RUNNING"));
}

#[test]
fn without_motion_nothing_depends_on_the_time() {
    let mut state = State { motion: false, ..running(120, 40) };
    let before = drawn(&state);
    state.update(Input::Time((NOON + 5000) * 1000));
    assert_eq!(drawn(&state), before);
    assert_eq!(state.next_change_millis(), None);
    assert!(!lines(&before)[0].contains("UTC"));
}

#[test]
fn the_badge_stays_however_little_room_there_is() {
    for width in 36..=200 {
        let shown = lines(&drawn(&running(width, 24)));
        assert!(shown[0].contains(" PLAY MONEY "), "{width}: {}", shown[0]);
    }
    for width in 10..36 {
        assert!(picture(&running(width, 24)).starts_with("PLAY MONEY"), "{width}");
    }
    assert!(picture(&empty(80, 24)).contains("PLAY MONEY"), "before the network stands, too");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Any size, any layers, hostile symbols: drawing never panics, and no control character is drawn.
    #[test]
    fn drawing_holds_at_any_size(width in 0u16..210, height in 0u16..60, keys in "[?qzj G\t]{0,6}", pick in 0usize..400) {
        let mut state = running(width, height);
        let hostile: Vec<String> = corpus::all().collect();
        let raw = &hostile[pick % hostile.len()];
        let mut snapshot = base();
        snapshot.tokens[0].symbol = SafeText::clean(raw, 32);
        snapshot.pools[0].base = SafeText::clean(raw, 32);
        snapshot.balances[0].symbol = SafeText::clean(raw, 32);
        snapshot.activity[0].text = SafeText::clean(raw, 200);
        state.update(Input::News(Update::Chain(Box::new(snapshot))));
        for key in keys.chars() {
            press(&mut state, if key == '\t' { KeyCode::Tab } else { KeyCode::Char(key) });
        }
        for cell in drawn(&state).content() {
            prop_assert!(!cell.symbol().chars().any(char::is_control), "{:?}", cell.symbol());
        }
    }
}
