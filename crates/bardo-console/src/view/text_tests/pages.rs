//! Tests of page texts: the Golem, recordings, and missing data.

use super::*;

#[test]
fn live_shows_who_asks_and_through_whom_and_what_memory_changed() {
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        let mut state = running(width, height, &text("Selling."));
        news(&mut state, ready());
        let now = GolemState {
            now: text("Selling."),
            next: text("Rest."),
            step: None,
            delegation: vec![text("trade-executor"), text("safety-guardian")],
        };
        tell(&mut state, None, vec![EventKind::GolemNow(now)]);
        let words = shown(&state);
        assert!(words.contains("Ada › trade-executor › safety-guardian"), "{width}\n{words}");
    }
    let mut state = running(120, 40, &text("Selling."));
    let changes = vec![text("slippage 50 bps to 30 bps: the worst of 4 alike was 10 bps under its quote")];
    let call = CallId::new(1);
    let kinds = vec![
        start("uniswap_execute_swap", samples::swap_params()),
        EventKind::MemoryHits(MemoryHits { similar: 4, changes }),
        tx(TxState::Sent),
    ];
    tell(&mut state, Some(call), kinds);
    assert!(shown(&state).contains("slippage 50 bps to 30 bps"), "the events\n{}", shown(&state));
    state.update(Input::Key(Key::plain(KeyCode::Enter)));
    let words = shown(&state);
    assert!(words.contains("Call details · Swap 0.25 WETH → USDC"), "{words}");
    assert!(words.contains("Memory") && words.contains("4 similar past trades"), "{words}");
    assert!(words.contains("memory: slippage 50 bps to 30 bps"), "{words}");
}

#[test]
fn n_goes_from_one_that_fits_to_the_next_and_says_where_nothing_is_filtered() {
    let mut state = running(120, 40, &text("Selling."));
    for (at, token) in [(1, "WETH"), (2, "UNI"), (3, "WETH")] {
        let params = json!({ "token_in": token, "token_out": "USDC", "amount": format!("{at}"), "chain": "ethereum" });
        tell(&mut state, Some(CallId::new(at)), vec![start("uniswap_execute_swap", params), tx(TxState::Confirmed)]);
    }
    key(&mut state, 'n');
    assert!(shown(&state).contains("no filter is set"));
    key(&mut state, '/');
    for letter in "token:weth".chars() {
        key(&mut state, letter);
    }
    state.update(Input::Key(Key::plain(KeyCode::Enter)));
    let selected = |state: &State| {
        let rows = drawn(state);
        let at = rows.iter().position(|row| row.contains("▸┌") || row.contains("│▸2")).unwrap_or(0);
        rows.get(at).cloned().unwrap_or_default()
    };
    key(&mut state, 'n');
    let first = selected(&state);
    assert!(first.contains("3 WETH"), "{first}\n{}", shown(&state));
    key(&mut state, 'n');
    assert!(selected(&state).contains("1 WETH"), "{}", shown(&state));
    key(&mut state, 'N');
    assert_eq!(selected(&state), first);
}

#[test]
fn tab_gives_the_keys_to_a_panel_of_live_and_z_shows_it_alone() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
    let tab = |state: &mut State| state.update(Input::Key(Key::plain(KeyCode::Tab)));
    for name in ["the price", "Equity", "Events", "Waiting for you"] {
        tab(&mut state);
        assert!(shown(&state).contains(&format!("focus: {name}")), "{}", shown(&state));
    }
    key(&mut state, 'z');
    let words = shown(&state);
    assert!(words.contains("Waiting for you 1") && !words.contains("Activity"), "{words}");
    state.update(Input::Key(Key::plain(KeyCode::Enter)));
    assert!(shown(&state).contains("DECISION 1 of 1"), "Enter opens what the keys are on");
    state.update(Input::Key(Key::plain(KeyCode::Esc)));
    state.update(Input::Key(Key::plain(KeyCode::Esc)));
    assert!(shown(&state).contains("Activity"));
}

#[test]
fn at_eighty_columns_the_keys_that_freeze_and_pause_are_in_the_hints() {
    let state = running(80, 24, &text("Selling."));
    let last = drawn(&state).pop().unwrap();
    for words in ["0-9 screens", "Space freeze", "p pause", "Ctrl-X STOP", "? help"] {
        assert!(last.contains(words), "{words}: {last}");
    }
}

/// Vitals with so much lost, in basis points.
pub(super) fn vitals(bps: u64) -> EventKind {
    EventKind::Vitals(Box::new(Vitals {
        phase: Phase::Thriving,
        why: text("nothing is wrong"),
        equity: "25310.42".parse().ok(),
        high_water: "25400".parse().ok(),
        drawdown_bps: Some(bps),
        stop_loss_bps: 1_000,
        gas_runway_seconds: None,
        gas_wei: None,
        failures: 0,
        failures_limit: 3,
        age_seconds: 0,
        lifespan_seconds: None,
        lending: None,
    }))
}

#[test]
fn nothing_lost_has_no_minus() {
    let mut state = running(120, 40, &text("Selling."));
    for (bps, figure) in
        [(0, " 0.0% of 10%"), (4, " 0.0% of 10%"), (5, "−0.1% of 10%"), (35, "−0.4% of 10%"), (547, "−5.5% of 10%")]
    {
        tell(&mut state, None, vec![vitals(bps)]);
        assert!(shown(&state).contains(figure), "{bps}\n{}", shown(&state));
    }
}

/// A limit of which a cent more is used is never shown as if less were.
#[test]
fn used_dollars_are_rounded_up_on_every_screen() {
    let mut state = running(120, 40, &text("Selling."));
    let mut now = snapshot();
    let limits = now.limits.as_mut().unwrap();
    (limits.day.used, limits.month.used, limits.reserved) = (usd("1966.021"), usd("2100.331"), usd("853.141"));
    news(&mut state, SessionNews::Snapshot(Arc::new(now)));
    let words = shown(&state);
    assert!(words.contains("$1,967/$5,000") && words.contains("reserved $854"), "{words}");
    key(&mut state, '4');
    let words = shown(&state);
    for figure in ["$1,966.03", "$2,100.34", "$853.15"] {
        assert!(words.contains(figure), "{figure}\n{words}");
    }
}

/// The stop-loss is checked chain by chain: one figure for the whole would be of nothing that acts.
#[test]
fn the_fall_shown_is_that_of_the_chain_closest_to_its_stop_loss() {
    let stop = |chain: &str, chain_id, worth: Option<&str>, high_water: &str, stops_at: &str| StopLossState {
        chain: text(chain),
        chain_id,
        worth: worth.map(usd),
        high_water: usd(high_water),
        stops_at: usd(stops_at),
    };
    let with = |stop_losses| {
        let mut state = running(120, 40, &text("Selling."));
        let mut now = snapshot();
        now.limits.as_mut().unwrap().stop_losses = stop_losses;
        tell(&mut state, None, vec![vitals(35)]);
        news(&mut state, SessionNews::Snapshot(Arc::new(now)));
        state
    };
    let ethereum = || stop("ethereum", 31_337, Some("19900"), "20000", "18000");
    let mut state = with(vec![ethereum(), stop("base", 31_338, Some("4650"), "5000", "4500")]);
    for (size, words) in [((120, 40), "base −7.0/10%"), ((80, 24), "equity base −7.0 of 10 %")] {
        state.update(Input::Resize(Size { width: size.0, height: size.1 }));
        assert!(shown(&state).contains(words), "{words}\n{}", shown(&state));
    }
    state.update(Input::Resize(Size { width: 160, height: 50 }));
    assert!(shown(&state).contains("stop-loss on ethereum at $18,000, base at $4,500"), "{}", shown(&state));
    key(&mut state, '4');
    for words in ["$4,500.00 on base", "10 % under its highest $5,000.00", "$18,000.00 on ethereum"] {
        assert!(shown(&state).contains(words), "{words}\n{}", shown(&state));
    }
    // Before the first action the ledger has no mark: the fall of the whole, by which the phase goes, is shown.
    let unmarked = stop("ethereum", 31_337, Some("19900"), "0", "0");
    assert!(shown(&with(vec![unmarked])).contains("−0.4% of 10%"), "35 basis points, rounded to tenths");
    // One chain needs no name; one that is not known is not taken for one that is well.
    assert!(shown(&with(vec![ethereum()])).contains("−0.5% of 10%"));
    let unknown = with(vec![ethereum(), stop("base", 31_338, None, "5000", "4500")]);
    assert!(!shown(&unknown).contains("of 10%"), "{}", shown(&unknown));
}

#[test]
fn a_recording_says_how_it_goes_whatever_key_is_pressed_and_never_that_something_runs() {
    for (width, height) in [(40, 24), (80, 24), (120, 40)] {
        let mut state = running(width, height, &text("Selling."));
        state.session.page.network.as_mut().unwrap().money = MoneyKind::Replay;
        let at = |told, paused| SessionNews::Replay(ReplayState { paused, speed_percent: 50, told, of: 5_678 });
        for (place, told) in
            [(at(1_234, true), "■ PAUSED"), (at(1_234, false), "▸ PLAYING"), (at(5_678, false), "■ AT ITS END")]
        {
            news(&mut state, place);
            key(&mut state, 'j');
            let first = drawn(&state).remove(0);
            assert!(first.contains("REPLAY") && first.contains(told) && !first.contains("RUNNING"), "{width}: {first}");
        }
        news(&mut state, at(1_234, true));
        let first = drawn(&state).remove(0);
        assert_eq!(first.contains("50 %  1,234 of 5,678"), width > 40, "{first}");
        key(&mut state, ' ');
        let frozen = drawn(&state).remove(0);
        assert!(frozen.contains("frozen") && !frozen.contains("Golem"), "{frozen}");
        assert_eq!(frozen.contains("the recording still running"), width >= 80, "{frozen}");
    }
}

#[test]
fn the_arrows_scrub_a_recording_and_nothing_else() {
    let mut state = running(120, 40, &text("Selling."));
    let arrow = |state: &mut State, code| match state.update(Input::Key(Key::plain(code))).as_slice() {
        [Effect::Send(sent)] => match &sent.command {
            SessionCommand::Replay(ReplayControl::Seek { percent }) => Some(*percent),
            other => panic!("{other:?}"),
        },
        [] => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(arrow(&mut state, KeyCode::Right), None);
    state.session.page.network.as_mut().unwrap().money = MoneyKind::Replay;
    for (told, of, back, on) in
        [(50, 100, 45, 55), (0, 100, 0, 5), (100, 100, 95, 100), (98, 100, 93, 100), (1, 3, 28, 67), (0, 0, 0, 100)]
    {
        news(&mut state, SessionNews::Replay(ReplayState { paused: true, speed_percent: 100, told, of }));
        assert_eq!(arrow(&mut state, KeyCode::Left), Some(back), "{told} of {of}");
        assert_eq!(arrow(&mut state, KeyCode::Right), Some(on), "{told} of {of}");
    }
}

#[test]
fn before_there_is_a_block_nothing_is_said_of_money_that_is_not_known() {
    let starting = || State::new(ratatui::layout::Size { width: 80, height: 24 }, samples::START_MILLIS, false);
    let mut state = starting();
    assert!(!shown(&state).contains("costs"), "{}", shown(&state));
    let step = BootStep {
        chain: text("base"),
        step: text("moving the market"),
        detail: text(""),
        done: false,
        rehearses: false,
    };
    news(&mut state, SessionNews::Market(MarketUpdate::Boot(step)));
    assert!(shown(&state).contains("nothing costs real money"), "{}", shown(&state));
    for (money, words) in [
        (MoneyKind::Real, "real money"),
        (MoneyKind::Test, "Test tokens only"),
        (MoneyKind::Play, "Nothing costs real"),
    ] {
        let mut state = starting();
        let wallet = alloy_primitives::Address::ZERO;
        let network = NetworkIdentity { name: text("base"), money, chains: Vec::new(), wallet };
        news(&mut state, SessionNews::Market(MarketUpdate::Started(network)));
        let shown = shown(&state);
        assert!(shown.contains(words) && !shown.contains("Starting the devnet"), "{shown}");
    }
}

#[test]
fn a_place_that_the_terminal_does_not_have_presses_nothing() {
    // Terminals that count from 1 can report column 0, which is parsed as the largest number.
    for (column, row) in [(u16::MAX, 0), (0, u16::MAX), (u16::MAX, u16::MAX), (120, 5), (5, 40)] {
        for screen in ScreenId::ALL {
            let mut state = running(120, 40, &text("Selling."));
            news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
            key(&mut state, screen.key());
            let before = shown(&state);
            assert!(state.update(crate::view::click(&state, column, row)).is_empty(), "{screen:?} {column} {row}");
            assert!(state.update(Input::Wheel { column, row, down: true }).is_empty());
            assert_eq!(shown(&state), before, "{screen:?} {column} {row}");
        }
    }
}

#[test]
fn what_a_line_has_no_room_for_is_told_in_two() {
    let long =
        "I did not understand \"foo\" and did nothing. I can: swap AMOUNT TOKEN for TOKEN, sell, buy, stop, playbook";
    let mut state = running(80, 24, &text("Selling."));
    state.show_notice(long);
    let rows = drawn(&state);
    let (above, below) = (rows[22].trim(), rows[23].trim());
    assert!(above.starts_with("I did not understand") && !above.contains('…'), "{above}");
    assert!(below.contains("playbook") && below.contains("Ctrl-X STOP") && !below.contains('…'), "{below}");
    // One that fits leaves the line above to the prompt.
    state.show_notice("written");
    assert!(drawn(&state)[22].contains("type a command"), "{}", shown(&state));
}

#[test]
fn the_header_says_whose_key_acts() {
    let mut state = running(200, 50, &text("Selling."));
    for (custody, expected) in [
        (None, " 0x0707"),
        (Some(Custody::KeyFile), " 0x0707"),
        (Some(Custody::DevelopmentKey), " 0x0707"),
        (Some(Custody::SessionKey), "session key for 0x0707"),
        (Some(Custody::WalletServer), "wallet server for 0x0707"),
        (Some(Custody::Safe), "Safe 0x0707"),
    ] {
        news(&mut state, SessionNews::Snapshot(Arc::new(SessionSnapshot { custody, ..snapshot() })));
        let header = shown(&state);
        assert!(header.contains(expected), "{custody:?}: {header}");
        assert_eq!(header.contains(" for 0x0707"), expected.contains(" for "), "{custody:?}: {header}");
    }
}
