//! Tests of the effect of time: requests that pass without an answer, frozen views, absences, and notifications about
//! calls without approval.

use super::*;
use crate::view::pictures::lively;

/// Approval request that passes in twelve seconds unless it is rejected.
fn passing(state: &State) -> SessionNews {
    let mut asked = question(&text("Buy UNI"));
    asked.passes_by_itself = true;
    asked.ends_at = Some(state.clock.now_millis + 12_000);
    asked.reasons = vec![AskReason::Delay { seconds: 30 }];
    SessionNews::Questions(Arc::new(vec![asked]))
}

/// Screen as one text without line breaks.
fn flowing(state: &State) -> String {
    let rows = drawn(state);
    let bare = rows.iter().map(|row| row.trim_matches(|edge: char| edge.is_whitespace() || "│┌└".contains(edge)));
    bare.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(" ")
}

#[test]
fn that_silence_lets_it_pass_is_said_wherever_the_question_stands() {
    for (motion, when) in [(true, "ahead in 0:12"), (false, "ahead at 22:13:32")] {
        for (width, height) in [(40, 24), (80, 24), (120, 50), (200, 50)] {
            let mut state = running(width, height, &text("Selling."));
            state.clock.motion = motion;
            let asked = passing(&state);
            news(&mut state, asked);
            state.display.notice = None;
            for screen in ['1', '5'] {
                key(&mut state, screen);
                assert!(shown(&state).contains(when), "{screen} at {width}×{height}\n{}", shown(&state));
            }
            key(&mut state, 'a');
            key(&mut state, 'z');
            let words = flowing(&state);
            assert!(words.contains("later (it goes ahead)"), "{width}×{height}\n{}", shown(&state));
            assert!(!words.contains("keeps waiting"), "{width}×{height}\n{words}");
            if width > 40 {
                assert!(words.contains(&format!("it goes {when} unless you reject it")), "{width}×{height}\n{words}");
                assert!(words.contains("delay of 30 s"), "{words}");
            }
            state.update(Input::Key(Key::plain(KeyCode::Esc)));
            let said = state.display.notice.as_ref().map(ToString::to_string).unwrap_or_default();
            assert!(said.contains(&format!("later: it goes {when} unless you reject it")), "{said}");
        }
    }
    // A new simulation does not hide the deadline.
    let mut state = running(120, 50, &text("Selling."));
    let asked = passing(&state);
    let SessionNews::Questions(questions) = asked else { panic!() };
    let mut question = questions[0].clone();
    if let bardo_session::questions::RequestSubject::Action(action) = &mut question.about {
        action.valid_until = state.clock.now_millis;
    }
    news(&mut state, SessionNews::Questions(Arc::new(vec![question])));
    key(&mut state, 'a');
    let words = flowing(&state);
    assert!(words.contains("simulating again…") && words.contains("it goes ahead in 0:12 unless"), "{words}");
}

#[test]
fn a_call_that_silence_lets_pass_waits_for_nobody() {
    let mut state = running(120, 40, &text("Selling."));
    let asked = |passes_by_itself| {
        EventKind::ApprovalRequested(ApprovalRequested {
            permit_id: PermitId::random(),
            title: text("Swap 0.25 WETH"),
            reasons: vec![],
            lapses_at: samples::START_MILLIS + 48_000,
            passes_by_itself,
            renewal: None,
        })
    };
    let begun = || start("uniswap_execute_swap", samples::swap_params());
    tell(&mut state, Some(CallId::new(1)), vec![begun(), asked(true)]);
    let words = shown(&state);
    assert!(words.contains("goes ahead in") && !words.contains("WAITS FOR YOU"), "{words}");
    assert!(words.contains("goes ahead unless you reject it"), "the line of the event says so too\n{words}");
    tell(&mut state, Some(CallId::new(2)), vec![begun(), asked(false)]);
    assert!(shown(&state).contains("WAITS FOR YOU"), "{}", shown(&state));
}

#[test]
fn a_view_that_stands_still_moves_in_nothing_but_the_header_and_what_waits() {
    let mut state = lively(120, 40);
    key(&mut state, ' ');
    let body = |state: &State| drawn(state)[2..38].join("\n");
    let before = body(&state);
    let mut later = snapshot();
    if let Some(limits) = &mut later.limits {
        limits.day.used = usd("4800");
    }
    later.equity = Some(usd("31000"));
    later.at += 60_000;
    news(&mut state, SessionNews::Snapshot(Arc::new(later)));
    state.update(Input::Time(state.clock.now_millis + 60_000));
    let words = body(&state);
    assert!(!words.contains("$4,800"), "{words}");
    // The prompt line is not part of the body.
    assert_eq!(words, before);
    assert!(drawn(&state)[1].contains("$31,000"), "the header lives: {}", drawn(&state)[1]);
    let asked = passing(&state);
    news(&mut state, asked);
    let told = |state: &State| body(state).lines().find(|line| line.contains("ahead in")).map(str::to_owned);
    let first = told(&state);
    state.update(Input::Time(state.clock.now_millis + 5_000));
    assert!(first.is_some() && told(&state).is_some() && first != told(&state), "{first:?}");
    // The operator's own actions are followed in a frozen view.
    let begun = start("uniswap_execute_swap", samples::swap_params());
    tell(&mut state, Some(CallId::new(77)), vec![begun]);
    let call = state.session.feed.calls.back().map(|call| call.call_id).unwrap();
    assert!(state.known().feed.call(call).is_none() && state.known().live_feed.call(call).is_some());
    // The view follows again.
    key(&mut state, ' ');
    assert!(body(&state).contains("$4,800"), "{}", body(&state));
}

#[test]
fn an_absence_is_told_on_small_terminals_too() {
    for (width, height) in [(40, 24), (80, 24), (99, 60), (120, 24)] {
        let mut state = lively(width, height);
        let leave = |state: &mut State| {
            state.update(Input::Focus(false));
            let at = state.clock.now_millis;
            state.update(Input::Time(at + 720_000));
            state.update(Input::Focus(true));
        };
        leave(&mut state);
        let words = shown(&state);
        for said in ["While you were away 12 min", "nothing went wrong", "Enter all"] {
            assert!(words.contains(said), "{said} at {width}×{height}\n{words}");
        }
        state.update(Input::Key(Key::plain(KeyCode::Enter)));
        assert_eq!((state.display.screen, state.display.layers.len()), (ScreenId::Logs, 0), "{width}×{height}");
        key(&mut state, '1');
        assert!(!shown(&state).contains("While you were away"), "{}", shown(&state));
        // Esc dismisses it as well.
        leave(&mut state);
        assert!(shown(&state).contains("While you were away"));
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
        assert!(!shown(&state).contains("While you were away"));
    }
}

#[test]
fn what_is_large_enough_to_be_told_of_is_told_when_it_is_done_and_only_then() {
    let offer = |notify| {
        EventKind::PermitIssued(PermitIssued {
            permit_id: PermitId::random(),
            simulation_hash: B256::repeat_byte(3),
            expected_outcome: text("Swap 0.25 WETH for >= 848.28 USDC"),
            expires_at: samples::START_MILLIS + 900_000,
            notify,
            changes: Vec::new(),
            least_out: None,
            leaves_usd: None,
            is_order: false,
        })
    };
    let end = |success| {
        EventKind::ToolEnd(ToolEnd { success, state: None, duration_ms: 9, result_summary: Value::Null, card: None })
    };
    for (notify, success, told) in [(true, true, true), (false, true, false), (true, false, false)] {
        let mut state = running(120, 40, &text("Selling."));
        state.options.attention = crate::state::Attention::Bell;
        let begun = start("uniswap_execute_swap", samples::swap_params());
        let call = Some(CallId::new(1));
        tell(&mut state, call, vec![begun, offer(notify), tx(TxState::Confirmed)]);
        assert!(state.operator.alerts.is_empty(), "it is not done yet");
        tell(&mut state, call, vec![end(success)]);
        let words = "done without asking you, above your notification limit: Swap 0.25 WETH → USDC";
        let alerts = state.operator.alerts.iter().filter(|alert| alert.text.as_str() == words).count();
        assert_eq!(alerts, usize::from(told), "{notify} {success}: {:?}", state.operator.alerts);
        assert_eq!(shown(&state).contains(words), told);
    }
    // The end state decides, whatever the card is: only a completed call is reported as done.
    for (tool, params, said, told) in [
        ("uniswap_execute_swap", samples::swap_params(), EndState::Done, Some("done without asking you, above ")),
        (
            "uniswap_submit_uniswapx_order",
            samples::swap_params(),
            EndState::Placed,
            Some("submitted without asking you, not filled yet, above "),
        ),
        (
            "uniswap_execute_swap",
            samples::swap_params(),
            EndState::Unclear,
            Some("signed without asking you, outcome unknown, above "),
        ),
        ("wallet_transfer_token", json!({ "token": "USDC", "amount": "120" }), EndState::Rehearsed, None),
        ("wallet_transfer_token", json!({ "token": "USDC", "amount": "120" }), EndState::NotDone, None),
    ] {
        let mut state = running(120, 40, &text("Selling."));
        let ended =
            ToolEnd { success: true, state: Some(said), duration_ms: 9, result_summary: Value::Null, card: None };
        tell(&mut state, Some(CallId::new(1)), vec![start(tool, params), offer(true), EventKind::ToolEnd(ended)]);
        let alerts: Vec<&str> = state.operator.alerts.iter().map(|alert| alert.text.as_str()).collect();
        match told {
            Some(words) => assert!(alerts.len() == 1 && alerts[0].starts_with(words), "{said:?}: {alerts:?}"),
            None => assert!(alerts.is_empty(), "{said:?}: {alerts:?}"),
        }
    }
    // A simulation is not reported; in an old journal only the card says so.
    let mut state = running(120, 40, &text("Selling."));
    let card = ResultCard {
        widget: bardo_base::model::CardKind::Swap,
        data: Value::Null,
        hints: Some(json!({ "state": "simulated" })),
    };
    let rehearsed =
        ToolEnd { success: true, state: None, duration_ms: 9, result_summary: Value::Null, card: Some(card) };
    let begun = start("uniswap_execute_swap", samples::swap_params());
    tell(&mut state, Some(CallId::new(1)), vec![begun, offer(true), EventKind::ToolEnd(rehearsed)]);
    assert!(state.operator.alerts.is_empty(), "{:?}", state.operator.alerts);
}

#[test]
fn events_are_told_in_words_with_no_code_and_no_second_hash() {
    let mut state = running(120, 40, &text("Selling."));
    let failed = ToolFailed {
        error_code: ErrorCode::SafetySpendingLimitExceeded,
        error_message: text("spending_limit: max_single_trade_usd: $6,785.11 is above $2,500.00"),
        checks: None,
    };
    let used = PermitUsed { permit_id: PermitId::random(), simulation_hash: B256::repeat_byte(0x51) };
    let changed = PolicyChanged {
        hash: B256::ZERO,
        version: 2,
        changes: vec![
            PolicyChange { field: text("max_daily_spend_usd"), from: text("5000"), to: text("8000"), tighter: false },
            PolicyChange { field: text("max_slippage_bps"), from: text("100"), to: text("50"), tighter: true },
        ],
        binding: vec![BindingLimit {
            field: text("max_daily_spend_usd"),
            by: text("spending_limits.per_day"),
            limit: "5000".parse().unwrap(),
        }],
    };
    tell(&mut state, Some(CallId::new(1)), vec![EventKind::PermitConsumed(used), EventKind::ToolError(failed)]);
    tell(&mut state, None, vec![EventKind::PolicyChanged(changed)]);
    let words = shown(&state);
    assert!(words.contains("signing exactly what was simulated"), "{words}");
    assert!(words.contains("not done: One action: $6,785.11 is above $2,500.00"), "{words}");
    assert!(
        words.contains("Day cap: $5,000 → $8,000 (still at most $5,000.00); Slippage: 100 bps → 50 bps"),
        "{words}"
    );
    for raw in ["SAFETY_", "0x5151", "max_daily", "the permit"] {
        assert!(!words.contains(raw), "{raw}\n{words}");
    }
    // The log shows the error code, and its filter finds the line by it.
    let code = ErrorCode::SafetySpendingLimitExceeded.as_str();
    state.display.size = ratatui::layout::Size { width: 200, height: 40 };
    key(&mut state, '8');
    assert!(shown(&state).contains(code), "{}", shown(&state));
    for letter in format!("/{}", code.to_lowercase()).chars() {
        key(&mut state, letter);
    }
    let words = shown(&state);
    assert!(words.contains("One action") && !words.contains("policy v2"), "{words}");
}

#[test]
fn live_is_filtered_by_how_calls_stand_and_by_their_age() {
    let mut state = running(120, 40, &text("Selling."));
    let ended = |success| {
        EventKind::ToolEnd(ToolEnd { success, state: None, duration_ms: 9, result_summary: Value::Null, card: None })
    };
    let error = ToolFailed { error_code: ErrorCode::TokenLookalike, error_message: text("a lookalike"), checks: None };
    let begun = |amount: &str| {
        let params = json!({ "token_in": "WETH", "token_out": "USDC", "amount": amount, "chain": "ethereum" });
        start("uniswap_execute_swap", params)
    };
    let call = |number| Some(CallId::new(number));
    tell(&mut state, call(1), vec![begun("7.25"), EventKind::ToolError(error), ended(false)]);
    state.update(Input::Time(state.clock.now_millis + 600_000));
    tell(&mut state, call(2), vec![begun("8.25"), tx(TxState::Confirmed), ended(true)]);
    for (words, first, second) in [
        ("status:blocked", true, false),
        ("status:done", false, true),
        ("since:5m", false, true),
        ("since:1h", true, true),
        ("since:1h status:blocked token:weth", true, false),
    ] {
        for letter in format!("/{words}").chars() {
            key(&mut state, letter);
        }
        state.update(Input::Key(Key::plain(KeyCode::Enter)));
        let told = shown(&state);
        assert_eq!((told.contains("7.25 WETH"), told.contains("8.25 WETH")), (first, second), "{words}\n{told}");
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
    }
}
