//! Tests of filtered lists, which show that they are filtered.

use std::sync::Arc;

use super::*;
use bardo_base::fabric::{BreakerState, GolemThought, LimitUsage, SpendState};
use bardo_base::id::GolemId;

/// Types a filter on a screen and returns the drawn result.
fn narrowed(screen: &mut dyn ScreenView, world: &TestHarness, words: &str) -> String {
    screen.act(Action::Filter, &world.known(), AREA);
    assert!(screen.accepts_text());
    typed(screen, world, &format!("{words}\n"));
    assert!(!screen.accepts_text() && screen.has_filter());
    drawn(screen, world, AREA)
}

/// Screen, typed filter, texts that remain, and texts that disappear.
type Case = (Box<dyn ScreenView>, &'static str, &'static [&'static str], &'static [&'static str]);

#[test]
fn tools_prices_and_holdings_are_narrowed_to_what_fits_and_esc_shows_all_again() {
    let world = world();
    let cases: [Case; 4] = [
        (Box::<Tools>::default(), "QUOTE", &["Tools 1", "uniswap_get_quote"], &["get_balances", "intent_refund"]),
        (Box::<NetworkScreen>::default(), "base dai", &["DAI"], &["ethereum · prices", "  WETH", "pool  "]),
        (Box::<Portfolio>::default(), "usdc", &["6,120", "Allowances 1 of 2", "UNLIMITED"], &["WETH"]),
        (Box::<Portfolio>::default(), "router", &["nothing matches the filter", "Allowances 1 of 2"], &["UNLIMITED"]),
    ];
    for (mut screen, words, left, gone) in cases {
        let before = drawn(screen.as_ref(), &world, AREA);
        assert!(gone.iter().all(|one| before.contains(one)), "{words}\n{before}");
        let shown = narrowed(screen.as_mut(), &world, words);
        for one in left.iter().chain([&format!("/{words}").as_str()]) {
            assert!(shown.contains(one), "{words}: {one}\n{shown}");
        }
        assert!(!gone.iter().any(|one| shown.contains(one)), "{words}\n{shown}");
        screen.act(Action::Back, &world.known(), AREA);
        let all = drawn(screen.as_ref(), &world, AREA);
        assert!(all.contains("/ all") && gone.iter().all(|one| all.contains(one)), "{words}\n{all}");
    }
}

#[test]
fn what_is_taken_back_is_what_is_shown() {
    let world = world();
    let mut screen = Portfolio::default();
    narrowed(&mut screen, &world, "usdc");
    screen.act(Action::NextPanel, &world.known(), AREA);
    screen.act(Action::CancelSelected, &world.known(), AREA);
    drawn(&screen, &world, AREA);
    let done = calls(&typed(&mut screen, &world, "r\n"));
    // The second of all allowances is the first that matches the filter.
    let [(_, tool, params, false)] = &done[..] else { panic!("{done:?}") };
    assert_eq!((tool.as_str(), &params["token"]), ("token_revoke", &json!(Address::repeat_byte(2).to_string())));
}

/// Naming begins with the whole address of the row, and sends nothing by itself.
#[test]
fn the_spender_of_a_row_is_named_by_its_whole_address() {
    let world = world();
    let mut screen = Portfolio::default();
    screen.act(Action::NextPanel, &world.known(), AREA);
    let spender = world.snapshot.allowances.rows[0].spender;
    let asked = screen.act(Action::Label, &world.known(), AREA);
    assert_eq!(asked, Some(vec![ScreenRequest::Palette(format!("label {spender} "))]));
}

#[test]
fn an_allowance_names_its_spender_by_a_label_where_the_address_book_has_none() {
    let mut world = world();
    let row = &mut world.snapshot.allowances.rows[0];
    row.label = None;
    let name = safe("label “Friend”");
    world.snapshot.names = vec![bardo_session::handle::NamedAddress { address: row.spender, name }];
    let shown = drawn(&Portfolio::default(), &world, AREA);
    assert!(shown.contains("→ label “Friend”"), "{shown}");
    let spender = world.snapshot.allowances.rows[0].spender.to_string();
    // With room for it, the whole address stands there.
    let wide = drawn(&Portfolio::default(), &world, Rect { width: 240, ..AREA });
    assert!(wide.contains(&format!("→ label “Friend” {spender}")), "{wide}");
}

#[test]
fn a_log_line_names_whole_addresses_and_is_found_by_their_names() {
    let mut world = world();
    let friend: alloy_primitives::Address = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65".parse().unwrap();
    let said = |seq: u64, text: &str| {
        let thought = GolemThought { thought: seq, text: safe(text), more: false, report: true };
        let golem_id = GolemId::operator();
        Arc::new(Event { seq, at: START_MILLIS, golem_id, call_id: None, kind: EventKind::GolemThought(thought) })
    };
    world.feed.take(&said(9_001, &format!("20 USDC went to {friend}")));
    world.feed.take(&said(9_002, "nothing went elsewhere"));
    world.snapshot.names =
        vec![bardo_session::handle::NamedAddress { address: friend, name: safe("label “Friend”") }];
    let mut logs = crate::screens::logs::Logs::default();
    let shown = drawn(&logs, &world, AREA);
    assert!(shown.contains(&format!("{friend} (label “Friend”)")), "{shown}");
    let found = narrowed(&mut logs, &world, "friend");
    assert!(found.contains("20 USDC went to") && !found.contains("nothing went elsewhere"), "{found}");
}

#[test]
fn the_answer_and_the_details_can_have_the_whole_place() {
    let world = world();
    for mut screen in [Box::<Trade>::default() as Box<dyn ScreenView>, Box::<Tools>::default()] {
        screen.shown(&world.known());
        let before = drawn(screen.as_ref(), &world, AREA);
        screen.act(Action::Zoom, &world.known(), AREA);
        let alone = drawn(screen.as_ref(), &world, AREA);
        assert_ne!(alone, before);
        assert!(!alone.contains("Tools 5") && !alone.contains("Enter types"), "{alone}");
        assert!(screen.act(Action::Back, &world.known(), AREA).is_some());
        assert_eq!(drawn(screen.as_ref(), &world, AREA), before);
    }
}

#[test]
fn what_is_held_and_has_no_line_is_counted_above_the_others() {
    let mut world = world();
    let rows = &mut world.snapshot.holdings[0].rows;
    let one = rows[0].clone();
    rows.resize(20, one);
    let wide = Rect { x: 0, y: 0, width: 80, height: 20 };
    // One line is the chain's heading. Only the title counts the rows: the lower edge belongs to the next panel.
    let shown = drawn(&Portfolio::default(), &world, wide);
    let rows = shown.lines().skip(1).take_while(|line| !line.contains("Allowances ")).count();
    assert!(shown.contains(&format!("Holding 1–{rows} of 21")), "{shown}");
    // The allowance panel gives away the lines that it does not need.
    world.snapshot.allowances.rows.truncate(1);
    world.snapshot.allowances.silent.clear();
    let shown = drawn(&Portfolio::default(), &world, wide);
    assert!(shown.contains(&format!("Holding 1–{} of 21", rows + 2)), "{shown}");
    let mut zoomed = Portfolio::default();
    zoomed.act(Action::Zoom, &world.known(), wide);
    assert!(drawn(&zoomed, &world, wide).contains("Holding 1–18 of 21"), "{}", drawn(&zoomed, &world, wide));
}

#[test]
fn every_row_of_the_spending_panel_can_be_reached() {
    let mut world = world();
    world.snapshot.allowances.rows.clear();
    world.snapshot.allowances.silent.clear();
    let usd = |figure: &str| figure.parse().unwrap();
    let spend = || SpendState { used: usd("1966.02"), limit: Some(usd("5000")) };
    world.snapshot.limits = Some(LimitUsage {
        day: spend(),
        month: spend(),
        one: Some(usd("2500")),
        reserved: usd("853.14"),
        asks_above: None,
        hot_lane: None,
        calls: (3, 10),
        trades: (1, 120),
        breaker: BreakerState::Closed { failures: 0 },
        failures_limit: 3,
        stop_loss_bps: 1_000,
        stop_losses: Vec::new(),
    });
    // The height of the panel on a terminal of 80×24.
    let small = Rect { x: 0, y: 0, width: 80, height: 20 };
    let mut screen = Portfolio::default();
    let shown = drawn(&screen, &world, small);
    assert!(shown.contains("more lines") && !shown.contains("read at"), "{shown}");
    for _ in 0..3 {
        screen.act(Action::NextPanel, &world.known(), small);
    }
    let mut seen = String::new();
    for _ in 0..20 {
        seen.push_str(&drawn(&screen, &world, small));
        screen.act(Action::Down, &world.known(), small);
    }
    for row in [
        "gas  ",
        "today  ",
        "30 days  ",
        "one action; a fair sale counts its possible loss",
        "reserved $853.14",
        "read at",
    ] {
        assert!(seen.contains(row), "{row}\n{seen}");
    }
    assert!(!seen.contains("more lines"), "{seen}");
    screen.act(Action::Zoom, &world.known(), small);
    assert!(drawn(&screen, &world, small).contains("read at"), "zoomed, all of it is in view");
}

#[test]
fn an_exact_allowance_of_permit2_says_whether_an_order_needs_it() {
    let mut world = world();
    let rows = &mut world.snapshot.allowances.rows;
    let exact = bardo_session::handle::AllowanceState { through_permit2: false, expires_at: None, ..rows[0].clone() };
    let promised = |raw: Option<u64>| bardo_session::handle::AllowanceState {
        promised: raw.map(alloy_primitives::U256::from),
        ..exact.clone()
    };
    *rows = vec![promised(Some(7)), promised(Some(0)), promised(None)];
    let mut zoomed = Portfolio::default();
    zoomed.act(Action::NextPanel, &world.known(), AREA);
    zoomed.act(Action::Zoom, &world.known(), AREA);
    let shown = drawn(&zoomed, &world, AREA);
    let lines: Vec<&str> =
        shown.lines().filter(|line| line.contains("Approved") || line.contains("Unneeded")).collect();
    let [needed, left, unknown] = lines[..] else { panic!("{shown}") };
    assert!(needed.contains("for signed orders") && !needed.contains("needed"), "{needed}");
    assert!(left.contains("Unneeded") && left.contains("not needed by any order"), "{left}");
    // Without room for the note, the first word still says it.
    let narrow = drawn(&zoomed, &world, Rect { width: 46, ..AREA });
    assert!(narrow.contains("Unneeded") && !narrow.contains("not n"), "{narrow}");
    assert!(!unknown.contains("orders") && !unknown.contains("needed"), "{unknown}");
}
