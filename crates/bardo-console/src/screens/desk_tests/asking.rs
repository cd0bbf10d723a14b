//! Tests of confirmation dialogs on screens: accepted keys and their timing, closing, and queries made as time passes.

use super::*;
use crate::screens::ScreenContext;
use bardo_base::fabric::{OrderFill, TxPlace};

fn control(letter: char) -> Key {
    Key { code: KeyCode::Char(letter), modifiers: KeyModifiers::CONTROL }
}

fn press(screen: &mut dyn ScreenView, world: &TestHarness, key: Key) -> (bool, Vec<ScreenRequest>) {
    let mut requests = Vec::new();
    (screen.type_key(key, &world.known(), &mut requests), requests)
}

/// Screens with an open confirmation dialog, each with the letter that chooses its option.
fn asking(world: &TestHarness) -> [(char, Box<dyn ScreenView>); 2] {
    let mut portfolio: Box<dyn ScreenView> = Box::<Portfolio>::default();
    portfolio.act(Action::NextPanel, &world.known(), AREA);
    // The bridge order comes first and cannot be refunded yet.
    let mut orders: Box<dyn ScreenView> = Box::<Orders>::default();
    orders.act(Action::Down, &world.known(), AREA);
    let mut all = [('r', portfolio), ('c', orders)];
    for (_, screen) in &mut all {
        assert!(screen.act(Action::CancelSelected, &world.known(), AREA).unwrap().is_empty());
        assert!(screen.accepts_text());
    }
    all
}

#[test]
fn ctrl_c_and_q_close_a_question_and_nothing_is_done() {
    let world = world();
    for key in [control('c'), Key::char('q'), Key::plain(KeyCode::Esc)] {
        for (_, mut screen) in asking(&world) {
            let (taken, requests) = press(screen.as_mut(), &world, key);
            assert!(taken && requests.is_empty() && !screen.accepts_text(), "{key} {:?}", screen.id());
        }
    }
}

#[test]
fn a_question_takes_nothing_that_was_typed_before_it_could_be_read() {
    let world = world();
    for (letter, mut screen) in asking(&world) {
        let screen = screen.as_mut();
        drawn(screen, &world, AREA);
        // Keys typed ahead, all at once.
        for key in [Key::char(letter), Key::plain(KeyCode::Enter)] {
            assert!(press(screen, &world, key).1.is_empty());
        }
        assert!(drawn(screen, &world, AREA).contains("too soon"), "{}", drawn(screen, &world, AREA));
        world.calm.set(world.calm.get() + 1_000);
        press(screen, &world, Key::char(letter));
        // A paste does nothing either, and neither does the key after it.
        screen.paste(&safe("r\n"));
        world.calm.set(world.calm.get() + 1_000);
        assert!(press(screen, &world, Key::plain(KeyCode::Enter)).1.is_empty());
        world.calm.set(world.calm.get() + 1_000);
        assert!(!press(screen, &world, Key::plain(KeyCode::Enter)).1.is_empty(), "{:?}", screen.id());
    }
}

#[test]
fn ctrl_c_clears_a_field_of_a_form_and_then_leaves_the_form() {
    let world = world();
    let mut trade = Trade::default();
    trade.shown(&world.known());
    trade.act(Action::Open, &world.known(), AREA);
    typed(&mut trade, &world, "WETH");
    assert!(press(&mut trade, &world, control('c')).0 && trade.accepts_text());
    assert!(!drawn(&trade, &world, AREA).contains("WETH▏"));
    assert!(press(&mut trade, &world, control('c')).0 && !trade.accepts_text());
    let mut tools = Tools::default();
    // The first tool that reads; its form holds the example.
    tools.act(Action::Open, &world.known(), AREA);
    assert!(tools.accepts_text());
    typed(&mut tools, &world, "x");
    assert!(press(&mut tools, &world, control('c')).0 && tools.accepts_text());
    assert!(press(&mut tools, &world, control('c')).0 && !tools.accepts_text());
}

#[test]
fn endpoints_are_asked_anew_every_ten_seconds_while_they_are_looked_at() {
    let mut world = world();
    let mut screen = NetworkScreen::default();
    assert_eq!(calls(&screen.shown(&world.known())).len(), 1);
    let ticks = |screen: &mut NetworkScreen, world: &TestHarness, motion| {
        calls(&screen.tick(&ScreenContext { motion, ..world.known() })).len()
    };
    assert_eq!(ticks(&mut screen, &world, true), 0, "too soon");
    world.now += 10_000;
    assert_eq!(ticks(&mut screen, &world, false), 0, "nothing moves by itself where nothing may");
    assert_eq!(ticks(&mut screen, &world, true), 1);
    assert_eq!(ticks(&mut screen, &world, true), 0);
    world.now += 10_000;
    let recorded = ScreenContext { money: Some(MoneyKind::Replay), ..world.known() };
    assert!(screen.tick(&recorded).is_empty(), "a recording has no chain to ask");
}

#[test]
fn z_shows_a_panel_of_the_audit_alone_and_v_checks_the_trail() {
    let world = world();
    let mut screen = Audit::default();
    open(&mut screen, &world);
    for (panel, others) in [
        ("Audit log", ["Waiting for you", "Standing approvals", "Decisions"]),
        ("Waiting for you", ["Audit log", "Standing approvals", "Decisions"]),
    ] {
        assert!(screen.act(Action::Zoom, &world.known(), AREA).unwrap().is_empty(), "it asks for nothing");
        let shown = drawn(&screen, &world, AREA);
        assert!(shown.contains(panel) && others.iter().all(|other| !shown.contains(other)), "{shown}");
        assert!(screen.act(Action::Back, &world.known(), AREA).is_some());
        let shown = drawn(&screen, &world, AREA);
        assert!(others.iter().all(|other| shown.contains(other)), "{shown}");
        screen.act(Action::NextPanel, &world.known(), AREA);
    }
    let asked = screen.act(Action::Verify, &world.known(), AREA).unwrap();
    assert!(matches!(&asked[..], [ScreenRequest::Send(_)]), "{asked:?}");
}

#[test]
fn orders_are_filtered_by_what_comes_out_and_by_age() {
    let mut world = world();
    world.feed.intents.nth_mut(0).1.token_out.symbol = safe("DAI");
    let minute = 60_000;
    // An order is as old as its signature, however new its last update is; without one, as old as that update.
    world.feed.orders.nth_mut(0).0 = world.now;
    world.feed.orders.nth_mut(0).1.signed_at = Some(world.now - 10 * minute);
    world.feed.orders.nth_mut(1).0 = world.now - 10 * minute;
    world.feed.orders.nth_mut(1).1.signed_at = None;
    world.feed.intents.nth_mut(0).1.signed_at = Some(world.now - minute);
    let counted = |world: &TestHarness, words: &str| {
        let mut screen = Orders::default();
        screen.act(Action::Filter, &world.known(), AREA);
        typed(&mut screen, world, &format!("{words}\n"));
        let shown = drawn(&screen, world, AREA);
        shown.lines().next().and_then(|line| line.split("Orders  ").nth(1)).map(|rest| rest[..16].trim_end().to_owned())
    };
    let told = |words: &str| counted(&world, words).unwrap_or_default();
    assert!(told("token:dai").starts_with("1 open · 0 past"), "{}", told("token:dai"));
    assert!(told("since:5m").starts_with("1 open · 0 past"), "{}", told("since:5m"));
    assert!(told("since:1h").starts_with("2 open · 1 past"), "{}", told("since:1h"));
    assert!(told("since:1h token:dai").starts_with("1 open · 0 past"));
}

#[test]
fn where_an_order_was_settled_can_be_looked_at() {
    let mut world = world();
    let looked = |world: &TestHarness, down: usize| {
        let mut screen = Orders::default();
        (0..down).for_each(|_| drop(screen.act(Action::Down, &world.known(), AREA)));
        screen.act(Action::Explorer, &world.known(), AREA).unwrap()
    };
    // The bridge order came last, and is locked on its first chain.
    let locked = world.feed.intents.nth_mut(0).1.locked.clone().unwrap();
    let link = |place: &TxPlace| ScreenRequest::Copy(format!("bardo://tx/{}", place.hash));
    assert_eq!(looked(&world, 0)[0], link(&locked));
    let delivered = TxPlace { chain_id: 31_338, hash: B256::repeat_byte(0x77), block: Some(7) };
    world.feed.intents.nth_mut(0).1.delivered = Some(delivered.clone());
    assert_eq!(looked(&world, 0)[0], link(&delivered), "where it came out says more than where it went in");
    assert!(matches!(&looked(&world, 1)[..], [ScreenRequest::Notice(_)]), "an open auction is nowhere yet");
    let tx = TxPlace { chain_id: 31_337, hash: B256::repeat_byte(0x7e), block: Some(9) };
    world.feed.orders.nth_mut(0).1.fill = Some(OrderFill {
        tx: tx.clone(),
        filler: Address::repeat_byte(0x33),
        name: None,
        amount_in: "0.5".to_owned(),
        amount_out: "1698.80".to_owned(),
        position: 0,
    });
    assert_eq!(looked(&world, 1)[0], link(&tx));
}
