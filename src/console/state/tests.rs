//! The reducer: what each input does, and what it never does.

use alloy::primitives::{Address, B256};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;

use super::layout::Panel;
use super::model::*;
use super::{Effect, Input, Layer, State};
use crate::base::text::SafeText;

fn text(raw: &str) -> SafeText {
    SafeText::clean(raw, 64)
}

fn snapshot(chain: usize, numbers: std::ops::RangeInclusive<u64>) -> Input {
    let block =
        |number| BlockRow { number, timestamp: number, base_fee_wei: 1, gas_used: 1, gas_limit: 2, transactions: 0 };
    let row = |number| ActivityRow {
        at: number,
        block: number,
        chain,
        kind: ActivityKind::Call,
        failed: false,
        text: text("call"),
        transaction: B256::ZERO,
    };
    Input::News(Update::Chain(Box::new(ChainSnapshot {
        chain,
        blocks: numbers.clone().map(block).collect(),
        tokens: vec![],
        pools: vec![],
        balances: vec![],
        activity: numbers.map(row).collect(),
    })))
}

fn started() -> State {
    let mut state = State::new(Size { width: 120, height: 40 }, 0, true);
    let chain = |name| ChainIdentity { name: text(name), id: 1, interval_millis: Some(1000) };
    state.update(Input::News(Update::Started(Network {
        name: text("devnet"),
        money: Money::Play,
        chains: vec![chain("ethereum"), chain("base")],
        wallet: Address::ZERO,
    })));
    state.update(snapshot(0, 1..=100));
    state
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> Input {
    Input::Key(KeyEvent::new(code, modifiers).into())
}

fn press(state: &mut State, character: char) -> Option<Effect> {
    state.update(key(KeyCode::Char(character), KeyModifiers::NONE))
}

#[test]
fn leaving_is_asked_and_escape_stays() {
    let mut state = started();
    assert_eq!(press(&mut state, 'q'), None);
    assert_eq!(state.layers, [Layer::Quit]);
    assert_eq!(press(&mut state, 'q'), None, "a held q closes the question instead of leaving");
    assert_eq!(state.layers, []);
    let ctrl_c = || key(KeyCode::Char('c'), KeyModifiers::CONTROL);
    state.update(ctrl_c());
    assert_eq!(state.layers, [Layer::Quit]);
    state.update(ctrl_c());
    assert_eq!(state.layers, []);
    state.update(ctrl_c());
    assert_eq!(press(&mut state, 'y'), Some(Effect::Quit));
}

#[test]
fn the_topmost_layer_has_the_keys() {
    let mut state = started();
    press(&mut state, '?');
    press(&mut state, 'z');
    press(&mut state, ' ');
    assert!(!state.zoomed && state.frozen.is_none(), "the help consumed them");
    press(&mut state, 'j');
    assert_eq!(state.layers, [Layer::Help { offset: 1 }]);
    press(&mut state, '?');
    assert_eq!(state.layers, []);
    assert_eq!(press(&mut state, 'y'), None, "y means nothing on the page");
}

#[test]
fn pasted_text_is_no_key() {
    let mut state = started();
    press(&mut state, 'q');
    let before = state.clone();
    assert_eq!(state.update(Input::Paste), None);
    assert_eq!(state, before);
}

#[test]
fn tab_goes_round_all_panels_and_back() {
    let mut state = started();
    let first = state.focus;
    let mut seen = vec![first];
    for _ in 0..5 {
        state.update(key(KeyCode::Tab, KeyModifiers::NONE));
        assert!(!seen.contains(&state.focus), "{seen:?} {:?}", state.focus);
        seen.push(state.focus);
    }
    state.update(key(KeyCode::Tab, KeyModifiers::NONE));
    assert_eq!(state.focus, first);
    state.update(key(KeyCode::BackTab, KeyModifiers::SHIFT));
    assert_eq!(state.focus, seen[5]);
}

#[test]
fn scrolling_stops_at_both_ends() {
    let mut state = started();
    state.focus = Panel::Activity;
    press(&mut state, 'k');
    assert_eq!(state.offset(Panel::Activity), 0);
    press(&mut state, 'G');
    let last = state.offset(Panel::Activity);
    let area = state.plan().area_of(Panel::Activity).unwrap();
    // 100 rows less those in the frame.
    assert_eq!(last, 100 - usize::from(area.height - 2));
    press(&mut state, 'j');
    assert_eq!(state.offset(Panel::Activity), last);
    press(&mut state, 'g');
    assert_eq!(state.offset(Panel::Activity), 0);
}

#[test]
fn the_mouse_focuses_and_scrolls_what_is_under_it() {
    let mut state = started();
    let area = state.plan().area_of(Panel::Activity).unwrap();
    state.update(Input::Click { column: area.x + 1, row: area.y + 1 });
    assert_eq!(state.focus, Panel::Activity);
    state.update(Input::Wheel { column: area.x, row: area.y, down: true });
    assert_eq!(state.offset(Panel::Activity), 3);
    press(&mut state, 'q');
    let other = state.plan().area_of(Panel::Wallet).unwrap();
    state.update(Input::Click { column: other.x, row: other.y });
    assert_eq!(state.focus, Panel::Activity, "a click beside a dialog reaches nothing under it");
}

#[test]
fn a_reorganised_chain_takes_its_blocks_back() {
    let mut state = started();
    state.update(snapshot(1, 1..=3));
    state.update(snapshot(0, 98..=99));
    let numbers: Vec<u64> = state.live.chains[0].blocks.iter().take(4).map(|block| block.number).collect();
    assert_eq!(numbers, [99, 98, 97, 96]);
    let activity: Vec<u64> =
        state.live.activity.iter().filter(|row| row.chain == 0).take(3).map(|row| row.block).collect();
    assert_eq!(activity, [99, 98, 97]);
    assert_eq!(state.live.activity.iter().filter(|row| row.chain == 1).count(), 3, "the other chain keeps its own");
}

#[test]
fn memory_is_bounded_however_long_it_runs() {
    let mut state = started();
    for round in 0..40 {
        state.update(snapshot(0, 101 + round * 100..=200 + round * 100));
        let step = format!("step {round}");
        for detail in ["one", "two"] {
            let step = BootStep { chain: text("ethereum"), step: text(&step), detail: text(detail), done: false };
            state.update(Input::News(Update::Boot(step)));
        }
    }
    assert_eq!(state.live.chains[0].blocks.len(), BLOCKS_KEPT);
    assert_eq!(state.live.activity.len(), ACTIVITY_KEPT);
    assert_eq!(state.live.chains[0].blocks[0].number, 4100);
    assert_eq!(state.live.boot.len(), 40, "a step told again replaces itself");
}

#[test]
fn news_of_a_chain_nobody_announced_is_ignored() {
    let mut state = started();
    let before = state.live.clone();
    state.update(snapshot(7, 1..=2));
    assert_eq!(state.live, before);
}

#[test]
fn a_gap_is_that_of_plain_arithmetic() {
    let pool = |price: &str, feed: Option<&str>| PoolRow {
        base: text("A"),
        quote: text("B"),
        version: PoolVersion::V2,
        fee_pips: 3000,
        address: Address::ZERO,
        price: Some(price.parse().unwrap()),
        feed_price: feed.map(|feed| feed.parse().unwrap()),
        holds: None,
    };
    assert_eq!(pool("102", Some("100")).gap_bps(), Some(200));
    assert_eq!(pool("99.99", Some("100")).gap_bps(), Some(-1));
    assert_eq!(pool("1", None).gap_bps(), None);
    assert_eq!(pool("1", Some("0")).gap_bps(), None);
}

#[test]
fn a_resize_redraws_and_keeps_the_keys_somewhere_visible() {
    let mut state = started();
    state.focus = Panel::Activity;
    assert_eq!(state.update(Input::Resize(Size { width: 1, height: 1 })), Some(Effect::Redraw));
    state.update(Input::Resize(Size { width: 40, height: 10 }));
    assert!(state.plan().area_of(state.focus).is_some(), "{:?}", state.focus);
}

#[test]
fn the_screen_moves_by_itself_only_where_it_may() {
    let mut state = State::new(Size { width: 80, height: 24 }, 1_234, true);
    assert_eq!(state.next_change_millis(), Some(1_320), "the spinner's next picture");
    state = State { now_millis: 5_250, ..started() };
    assert_eq!(state.next_change_millis(), Some(6_000), "the clock's next second");
    state.motion = false;
    assert_eq!(state.next_change_millis(), None);
}
