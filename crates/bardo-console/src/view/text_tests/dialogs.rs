//! Tests of layers above the page and their keys: leaving, hold, revocation, palette, help.

use super::*;
use crate::state::ClickTarget;

#[test]
fn a_transaction_that_is_out_is_in_flight() {
    for last in [TxState::Signed, TxState::Sent, TxState::Unclear] {
        let mut state = running(120, 40, &text("Selling."));
        tell(&mut state, Some(CallId::new(1)), vec![start("uniswap_execute_swap", samples::swap_params()), tx(last)]);
        assert!(key(&mut state, 'q').is_empty(), "{last:?}: it leaves without a word");
        let words = shown(&state);
        assert!(words.contains("In flight:") && words.contains("· Swap 0.25 WETH → USDC, "), "{last:?}\n{words}");
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
        state.update(control('x'));
        let words = shown(&state);
        assert!(words.contains("· Swap 0.25 WETH → USDC, ") && !words.contains("nothing is in flight"), "{words}");
    }
    // A call that ended without a known result leaves its transaction open.
    let mut state = running(120, 40, &text("Selling."));
    let end = ToolEnd { success: true, state: None, duration_ms: 9, result_summary: Value::Null, card: None };
    let kinds =
        vec![start("uniswap_execute_swap", samples::swap_params()), tx(TxState::Unclear), EventKind::ToolEnd(end)];
    tell(&mut state, Some(CallId::new(1)), kinds);
    assert!(key(&mut state, 'q').is_empty());
    assert!(shown(&state).contains("not confirmed"), "{}", shown(&state));
}

#[test]
fn the_bare_word_scenario_opens_the_palette_and_restart_plays_the_show_again() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, ready());
    let typed = |state: &mut State, line: &str| {
        key(state, ':');
        for letter in line.chars() {
            key(state, letter);
        }
        state.update(Input::Key(Key::plain(KeyCode::Enter)))
    };
    let played = |effects: Vec<Effect>| match effects.as_slice() {
        [Effect::Send(sent)] => match &sent.command {
            SessionCommand::Scenario { name } => Some(name.clone()),
            _ => None,
        },
        _ => None,
    };
    assert!(typed(&mut state, "restart").is_empty());
    assert!(shown(&state).contains("no scenario is running"));
    assert!(typed(&mut state, "scenario").is_empty(), "nothing is said to the Golem");
    assert!(matches!(state.display.layers.last(), Some(Layer::Palette { .. })));
    let words = shown(&state);
    assert!(words.contains("scenario first-tour") && words.contains("scenario price-moved"), "{words}");
    for letter in "price".chars() {
        key(&mut state, letter);
    }
    assert_eq!(played(state.update(Input::Key(Key::plain(KeyCode::Enter)))), Some("price-moved".to_owned()));
    assert_eq!(played(typed(&mut state, "restart")), Some("price-moved".to_owned()));
    // A scenario that started by itself is known from its captions.
    let mut state = running(120, 40, &text("Selling."));
    let caption = Caption { show: text("first-tour"), text: text("Look."), at_seconds: 0 };
    tell(&mut state, None, vec![EventKind::Caption(caption)]);
    assert_eq!(played(typed(&mut state, "restart")), Some("first-tour".to_owned()));
}

#[test]
fn the_help_lists_a_key_only_where_it_does_something() {
    let listed = |state: &State, action: Action| state.rows(Context::Page).any(|row| row.action == action);
    let mut state = running(120, 40, &text("Selling."));
    for screen in ScreenId::ALL {
        state.update(Input::Key(Key::char(screen.key())));
        for action in [Action::NextPanel, Action::NextMatch, Action::Zoom, Action::Follow, Action::Explorer] {
            assert_eq!(listed(&state, action), screen.does(action), "{screen:?} {action:?}");
            // The screen does not handle actions that are not listed.
            if !screen.does(action) {
                let body = state.body();
                let mut screens = std::mem::take(&mut state.display.screens);
                let known = state.known();
                let acts = screens.get_mut(screen).and_then(|view| view.act(action, &known, body));
                assert!(acts.is_none(), "{screen:?} {action:?}");
                state.display.screens = screens;
            }
        }
        assert!(!listed(&state, Action::ReplayStep), "only a recording is stepped through");
    }
    assert!(!ScreenId::Logs.does(Action::NextPanel) && !ScreenId::Trade.does(Action::NextMatch));
    let mut network = state.session.page.network.clone().unwrap();
    network.money = MoneyKind::Replay;
    state.session.page.network = Some(network);
    assert!(listed(&state, Action::ReplayStep));
}

/// A recording offers no keys to stop, approve, cancel or verify. Read-only mode offers the stop, and no other change.
#[test]
fn a_recording_and_a_console_that_watches_offer_no_key_that_does_nothing() {
    let acts = [Action::Hold, Action::Decide, Action::Verify, Action::CancelSelected, Action::Pause];
    let offered = |state: &mut State, watched: &[Action]| {
        for screen in ScreenId::ALL {
            state.update(Input::Key(Key::char(screen.key())));
            for action in acts {
                let anywhere = matches!(action, Action::Hold);
                let context = if anywhere { Context::Anywhere } else { Context::Page };
                let listed = state.rows(context).any(|row| row.action == action);
                let does = watched.contains(&action) && (anywhere || screen.does(action));
                assert_eq!(listed, does, "{screen:?} {action:?}");
            }
        }
    };
    let mut live = running(120, 40, &text("Selling."));
    offered(&mut live, &acts);
    let mut watching = running(120, 40, &text("Selling."));
    watching.options.watch_only = true;
    offered(&mut watching, &[Action::Hold, Action::Decide, Action::Verify]);
    watching.update(Input::Key(Key::char('1')));
    assert!(!shown(&watching).contains("p pause") && shown(&watching).contains("Ctrl-X STOP"), "{}", shown(&watching));
    assert!(key(&mut watching, 'p').is_empty(), "nothing is sent");
    assert!(shown(&watching).contains("read-only"), "{}", shown(&watching));

    let mut replay = running(120, 40, &text("Selling."));
    let mut network = replay.session.page.network.clone().unwrap();
    network.money = MoneyKind::Replay;
    replay.session.page.network = Some(network);
    offered(&mut replay, &[Action::Pause]);
    replay.update(Input::Key(Key::char('1')));
    let words = shown(&replay);
    assert!(!words.contains("STOP") && !words.contains("a decide") && words.contains("p pause"), "{words}");
    replay.update(control('x'));
    assert!(replay.display.layers.is_empty() && shown(&replay).contains("nothing to stop"), "{}", shown(&replay));
}

#[test]
fn a_hold_is_called_one_when_the_session_says_so() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, SessionNews::Snapshot(Arc::new(snapshot())));
    state.update(control('x'));
    let words = shown(&state);
    assert!(words.contains("stopping…") && !words.contains("HELD") && !words.contains("No new signature"), "{words}");
    let no = SessionNews::CommandResult { done: false, words: text("the stop file cannot be written") };
    news(&mut state, no);
    assert!(shown(&state).contains("NOT STOPPED: the stop file cannot be written"), "{}", shown(&state));
    news(&mut state, SessionNews::Snapshot(Arc::new(stopped(StopLevel::Halt, true))));
    let words = shown(&state);
    assert!(words.contains("■ HELD") && words.contains("No new signatures are made."), "{words}");
    assert!(!words.contains("NOT STOPPED"), "{words}");
}

#[test]
fn at_forty_columns_a_stop_and_a_decision_both_stand_and_no_answer_is_cut() {
    for level in [StopLevel::Pause, StopLevel::ExitOnly, StopLevel::Halt, StopLevel::Revoke] {
        let mut state = running(40, 20, &text("Selling."));
        news(&mut state, SessionNews::Snapshot(Arc::new(stopped(level, false))));
        news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
        let first = drawn(&state).remove(0);
        let word = super::super::header::stop_word(level);
        assert!(first.contains(word) && first.contains("‼ 1") && first.contains("(a)"), "{level:?}: {first}");
        assert!(first.contains("PLAY MONEY"), "{first}");
        // The frozen mark gives way before a stop does.
        key(&mut state, ' ');
        let first = drawn(&state).remove(0);
        assert!(first.contains(word) && first.contains("‼ 1"), "{level:?}: {first}");
    }
    let mut state = running(40, 20, &text("Selling."));
    state.update(control('x'));
    let words = shown(&state);
    for answer in ["Enter halt", "x exit-only", "Esc release"] {
        assert!(words.contains(answer), "{answer}\n{words}");
    }
}

/// Console with an open dialog that revokes a standing approval, past its guard time.
pub(in crate::view) fn revoking(width: u16, height: u16) -> State {
    let mut state = running(width, height, &text("Selling."));
    news(&mut state, SessionNews::Snapshot(Arc::new(SessionSnapshot { grants: vec![grant("380")], ..snapshot() })));
    for letter in ['5', '\t', '\t', 'x'] {
        let pressed = if letter == '\t' { Key::plain(KeyCode::Tab) } else { Key::char(letter) };
        state.update(Input::Key(pressed));
    }
    state.update(Input::Time(state.clock.now_millis + 1_000));
    state
}

#[test]
fn a_standing_approval_is_revoked_by_a_letter_and_enter_and_by_neither_alone() {
    let revoked = |effects: Vec<Effect>| match effects.as_slice() {
        [Effect::Send(sent)] => Some(sent.command.clone()),
        [] => None,
        other => panic!("{other:?}"),
    };
    let mut state = revoking(120, 40);
    let words = shown(&state);
    assert!(words.contains("Revoke this standing approval?") && words.contains("Nothing is selected."), "{words}");
    // Presses a key after the guard time, which each key restarts.
    let calmly = |state: &mut State, pressed: Key| {
        state.update(Input::Time(state.clock.now_millis + 1_000));
        revoked(state.update(Input::Key(pressed)))
    };
    assert_eq!(calmly(&mut state, Key::plain(KeyCode::Enter)), None);
    assert_eq!(calmly(&mut state, Key::char('y')), None);
    assert!(shown(&state).contains("Selected: yes"), "{}", shown(&state));
    let done = calmly(&mut state, Key::plain(KeyCode::Enter));
    assert_eq!(done, Some(SessionCommand::RevokeGrant { number: 4 }));
    // In read-only mode, the dialog is not opened.
    let mut state = revoking(120, 40);
    state.update(Input::Key(Key::plain(KeyCode::Esc)));
    state.options.watch_only = true;
    key(&mut state, 'x');
    assert!(state.display.layers.is_empty() && shown(&state).contains("read-only"), "{}", shown(&state));
}

/// Console with a screen's own dialog about an allowance, with the revocation chosen and past the guard time.
fn picked_to_take_back() -> State {
    let mut state = running(120, 40, &text("Selling."));
    let row = AllowanceState {
        chain: text("ethereum"),
        chain_id: 31_337,
        symbol: text("WETH"),
        token: alloy_primitives::Address::repeat_byte(1),
        spender: alloy_primitives::Address::repeat_byte(0xa3),
        label: None,
        through_permit2: false,
        raw: U256::from(250_000_000_u64),
        amount: None,
        unlimited: true,
        expires_at: None,
        promised: None,
    };
    let allowances = AllowancesState { rows: vec![row], silent: Vec::new() };
    news(&mut state, SessionNews::Snapshot(Arc::new(SessionSnapshot { allowances, ..snapshot() })));
    news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
    for pressed in [Key::char('4'), Key::plain(KeyCode::Tab), Key::char('x')] {
        state.update(Input::Key(pressed));
    }
    assert!(shown(&state).contains("Revoke this allowance?"), "{}", shown(&state));
    calm(&mut state);
    key(&mut state, 'r');
    calm(&mut state);
    state
}

fn calm(state: &mut State) {
    state.update(Input::Time(state.clock.now_millis + 2_000));
}

/// Clicks on the first position in the top lines that satisfies `wanted`.
fn click_where(state: &mut State, wanted: impl Fn(&ClickTarget) -> bool) {
    let places = (0..2).flat_map(|row| (0..state.display.size.width).map(move |column| (column, row)));
    let is_wanted = |input: &Input| matches!(input, Input::Click { target, .. } if wanted(target));
    let input = { places }.map(|(column, row)| crate::view::click(state, column, row)).find(is_wanted).unwrap();
    state.update(input);
}

#[test]
fn a_question_of_a_screen_that_was_covered_is_before_the_reader_anew() {
    let enter = |state: &mut State| {
        let effects = state.update(Input::Key(Key::plain(KeyCode::Enter)));
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Send(sent) if matches!(sent.command, SessionCommand::Call { .. })))
    };
    let decide = |state: &mut State| {
        click_where(state, |target| target.waiting);
        assert!(matches!(state.display.layers.last(), Some(Layer::Decision(_))));
        state.update(crate::view::drawn(state));
        calm(state);
    };
    let go = |state: &mut State, to: ScreenId| {
        click_where(state, move |target| target.tab == Some(to));
        assert_eq!(state.display.screen, to);
    };
    let nothing = |_: &mut State| {};
    let held = |state: &mut State| {
        state.update(control('x'));
        calm(state);
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
    };
    let put_off = |state: &mut State| {
        decide(state);
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
    };
    let answered_elsewhere = |state: &mut State| {
        decide(state);
        news(state, SessionNews::Questions(Arc::new(Vec::new())));
        calm(state);
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
    };
    let elsewhere = |state: &mut State| {
        go(state, ScreenId::Logs);
        calm(state);
        go(state, ScreenId::Portfolio);
    };
    type Cover<'a> = (&'a str, &'a dyn Fn(&mut State), bool);
    let covers: [Cover<'_>; 5] = [
        ("nothing", &nothing, true),
        ("a hold", &held, false),
        ("a decision put off", &put_off, false),
        ("a decision answered elsewhere", &answered_elsewhere, false),
        ("another screen", &elsewhere, false),
    ];
    for (name, cover, at_once) in covers {
        let mut state = picked_to_take_back();
        cover(&mut state);
        assert!(state.display.layers.is_empty(), "{name}");
        assert_eq!(enter(&mut state), at_once, "{name}: an Enter right behind it");
        if !at_once {
            assert!(shown(&state).contains("too soon"), "{name}\n{}", shown(&state));
            calm(&mut state);
            assert!(enter(&mut state), "{name}: what was picked is done once it was looked at");
        }
    }
}

#[test]
fn an_attached_console_says_so_and_claims_nothing_about_its_golem() {
    for (served, watch_only) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut state = running(120, 40, &text("Selling."));
        let SessionNews::Ready(mut info) = ready() else { panic!() };
        info.served = served;
        news(&mut state, SessionNews::Ready(info));
        state.options.watch_only = watch_only;
        state.session.feed.now = None;
        let words = shown(&state);
        assert_eq!(words.contains("ATTACHED"), served, "{words}");
        assert_eq!(words.contains("No Golem runs here"), watch_only && !served, "{words}");
        assert_eq!(words.contains("Starting."), !watch_only && !served, "{words}");
        assert_eq!(words.contains("Nothing was reported yet."), served, "{words}");
    }
}

#[test]
fn a_read_only_decision_offers_no_answer_and_says_why() {
    let mut state = deciding(120, 50, &text("Buy UNI"));
    let words = shown(&state);
    assert!(words.contains(" r reject, say why") && words.contains("A letter selects"), "{words}");
    state.options.watch_only = true;
    let words = shown(&state);
    for struck in ["-a- approve once", "-r- reject, say why", "-h- reject and STOP everything"] {
        assert!(words.contains(struck), "{struck}: {words}");
    }
    assert!(words.contains("Read-only: another console answers") && !words.contains("A letter selects"), "{words}");
    for absent in ["nothing is picked", "keys act in", "a approve once  s", "Enter confirm", "Space mark read"] {
        assert!(!words.contains(absent), "{absent}: {words}");
    }
    state.update(Input::Time(state.clock.now_millis + 5_000));
    key(&mut state, 'r');
    let words = shown(&state);
    assert!(words.contains("read-only: answer in one that is not") && !words.contains("selected:"), "{words}");
    // Moving and looking work as ever.
    key(&mut state, 'd');
    assert!(shown(&state).contains("Call 1 of 1"), "{}", shown(&state));
}

#[test]
fn leaving_says_what_becomes_of_the_devnet() {
    let texts = [(true, "The devnet ends with Bardo"), (false, "The devnet runs in another process and continues.")];
    for (own, words) in texts {
        let mut state = running(120, 40, &text("Selling."));
        let SessionNews::Ready(mut ready) = ready() else { panic!() };
        ready.own_devnet = own;
        news(&mut state, SessionNews::Ready(ready));
        state.update(Input::Key(Key::ctrl('c')));
        let shown = shown(&state);
        assert!(shown.contains(words), "{words}\n{shown}");
    }
}

/// Exit-only does not lower a stop that is as high or higher, so the key is not offered then and does nothing.
#[test]
fn a_hold_above_a_high_stop_offers_no_exit_only() {
    for (before, offered) in [
        (None, true),
        (Some(StopLevel::Pause), true),
        (Some(StopLevel::ExitOnly), false),
        (Some(StopLevel::Flatten), false),
    ] {
        let mut state = running(80, 24, &text("Selling."));
        if let Some(level) = before {
            news(&mut state, SessionNews::Snapshot(Arc::new(stopped(level, false))));
        }
        state.update(control('x'));
        let words = shown(&state);
        assert_eq!(words.contains("x exit-only"), offered, "{before:?}\n{words}");
        assert!(words.contains("Enter halt"), "{before:?}\n{words}");
        state.update(Input::Time(state.clock.now_millis + 1_000));
        let sent = key(&mut state, 'x');
        assert_eq!(sent.len(), usize::from(offered), "{before:?}: {sent:?}");
    }
}
