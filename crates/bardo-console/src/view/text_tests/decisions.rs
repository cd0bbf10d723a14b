//! Tests of waiting requests: shown completely, with their time and figures.

use super::*;
use bardo_session::questions::AnswerKind;

#[test]
fn an_offer_that_the_price_left_is_told_beside_the_next() {
    let mut state = running(120, 60, &text("Selling."));
    let offer = |least: &str| {
        EventKind::PermitIssued(PermitIssued {
            permit_id: PermitId::random(),
            simulation_hash: B256::repeat_byte(3),
            expected_outcome: text(&format!("Swap 0.36 WETH for >= {least} USDC")),
            expires_at: samples::START_MILLIS + 900_000,
            notify: false,
            changes: Vec::new(),
            least_out: None,
            leaves_usd: None,
            is_order: false,
        })
    };
    let params = json!({ "token_in": "WETH", "token_out": "USDC", "amount": "0.36", "chain": "ethereum" });
    let (first, second) = (CallId::new(1), CallId::new(2));
    let failed =
        ToolFailed { error_code: ErrorCode::PermitMismatch, error_message: text("less would come in"), checks: None };
    let end = ToolEnd { success: false, state: None, duration_ms: 9, result_summary: Value::Null, card: None };
    let kinds = vec![
        start("uniswap_execute_swap", params.clone()),
        offer("1220.12"),
        EventKind::ToolError(failed),
        EventKind::ToolEnd(end),
    ];
    tell(&mut state, Some(first), kinds);
    tell(&mut state, Some(second), vec![start("uniswap_execute_swap", params.clone()), offer("1190.03")]);
    let card = |state: &mut State, down: usize| {
        for _ in 0..down {
            key(state, 'j');
        }
        state.update(Input::Key(Key::plain(KeyCode::Enter)));
        let words = shown(state);
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
        key(state, 'g');
        words
    };
    for down in [1, 2] {
        let words = card(&mut state, down);
        assert!(words.contains("was: Swap 0.36 WETH for at least 1,220.12 USDC"), "{down}\n{words}");
        assert!(words.contains("is:  Swap 0.36 WETH for at least 1,190.03 USDC"), "{down}\n{words}");
    }
    let mut asked = question(&text("Swap 0.36 WETH for >= 1190.03 USDC"));
    asked.call_id = Some(second);
    news(&mut state, SessionNews::Questions(Arc::new(vec![asked])));
    key(&mut state, 'a');
    let words = shown(&state);
    assert!(words.contains("Before         Swap 0.36 WETH for at least 1,220.12 USDC (no longer"), "{words}");
    // A different trade is not linked to an earlier offer.
    let other = json!({ "token_in": "UNI", "token_out": "USDC", "amount": "1", "chain": "ethereum" });
    tell(&mut state, Some(CallId::new(3)), vec![start("uniswap_execute_swap", other), offer("7")]);
    assert!(state.session.feed.calls.back().is_some_and(|call| call.before.is_none()));
}

#[test]
fn a_waiting_row_keeps_its_countdown_at_forty_columns() {
    let mut state = running(40, 20, &text("Selling."));
    news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Swap 0.6 WETH for at least 258.53 UNI"))])));
    assert!(shown(&state).contains("4:59") || shown(&state).contains("5:00"), "{}", shown(&state));
}

#[test]
fn an_offer_that_waits_stands_on_the_audit_screen_with_its_time() {
    let mut state = running(160, 40, &text("Selling."));
    let offer = |expires_at| {
        EventKind::PermitIssued(PermitIssued {
            permit_id: PermitId::random(),
            simulation_hash: B256::repeat_byte(3),
            expected_outcome: text("Swap 0.25 WETH for >= 848.28 USDC"),
            expires_at,
            notify: false,
            changes: Vec::new(),
            least_out: None,
            leaves_usd: None,
            is_order: false,
        })
    };
    let now = state.clock.now_millis;
    let begun = || start("uniswap_execute_swap", samples::swap_params());
    tell(&mut state, Some(CallId::new(1)), vec![begun(), offer(now + 48_000)]);
    key(&mut state, '5');
    let words = shown(&state);
    assert!(words.contains("offer Swap 0.25 WETH for at least 848.28 USDC") && words.contains("0:48 left"), "{words}");
    state.update(Input::Time(now + 49_000));
    assert!(!shown(&state).contains("≈ offer"), "what is over waits no more");
}

#[test]
fn a_decision_says_of_when_its_figures_are_who_may_take_and_what_it_costs() {
    let mut state = deciding(120, 60, &text("Buy UNI"));
    state.update(Input::Time(samples::START_MILLIS + 2_000));
    let words = shown(&state);
    for said in [
        "What changes · simulated on block #1,286, 22:13:01 · quoted 22:12:59",
        "0x2222222222222222222222222222222222222222 may take WITHOUT LIMIT",
        "Costs $10.47 (0.51 %) at the least favourable prices · worst case 1.00 %",
        "Counts against your limits as $2,047.53 with gas of at most $0.58",
    ] {
        assert!(words.contains(said), "{said}\n{words}");
    }
}

#[test]
fn an_allowance_that_was_unlimited_says_so_and_prints_no_number_of_seventy_digits() {
    let mut question = question(&text("Swap"));
    let bardo_session::questions::RequestSubject::Action(action) = &mut question.about else { panic!("no action") };
    let after = action.allowances.first_mut().unwrap();
    after.before = Some("115792089237316195423570985008687907853269984665640564039457.584007913129639935".to_owned());
    (after.before_unlimited, after.unlimited) = (true, false);
    let sections = bardo_session::questions::sections::sections(&question, 0);
    let told = format!("{sections:?}");
    assert!(told.contains("was unlimited") && !told.contains("1157920892"), "{told}");
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, SessionNews::Questions(Arc::new(vec![question])));
    key(&mut state, 'a');
    let words = shown(&state);
    assert!(words.contains("(was unlimited;") && !words.contains("1157920892"), "{words}");
}

/// The panel of what waits, the decision and the card name one figure: what leaves the wallet. What counts against the
/// limits, with gas, stands with the limits. Both of the card's clocks say what they are of.
#[test]
fn a_card_names_what_leaves_the_wallet_and_whose_time_runs() {
    let mut state = running(120, 40, &text("Selling."));
    let offered = EventKind::PermitIssued(PermitIssued {
        permit_id: PermitId::random(),
        simulation_hash: B256::repeat_byte(3),
        expected_outcome: text("Swap 0.36 WETH for >= 155.75 UNI"),
        expires_at: state.clock.now_millis + 41_000,
        notify: false,
        changes: Vec::new(),
        least_out: None,
        leaves_usd: Some(usd("1229.76")),
        is_order: false,
    });
    let counted = EventKind::SafetyCheck(SafetyCheck {
        check: Check::SpendingLimit,
        outcome: CheckOutcome::Passed,
        finding: Finding::spending(usd("1234.837"), usd("1344.43"), None),
    });
    let params = json!({ "token_in": "WETH", "token_out": "UNI", "amount": "0.36", "chain": "ethereum" });
    tell(&mut state, Some(CallId::new(1)), vec![start("uniswap_execute_swap", params), counted, offered]);
    let words = shown(&state);
    assert!(words.contains("pay 0.36 WETH $1,229.76") && !words.contains("1,234.8"), "{words}");
    assert!(words.contains("offer 0:41 left"), "{words}");
}

#[test]
fn standing_approvals_are_counted_and_the_key_that_lists_them_is_no_part_of_the_count() {
    let mut state = running(120, 40, &text("Selling."));
    let mut now = snapshot();
    now.grants = vec![grant("400")];
    news(&mut state, SessionNews::Snapshot(Arc::new(now)));
    let words = shown(&state);
    assert!(words.contains("standing approvals  1 ") && words.contains("5 lists"), "{words}");
}

#[test]
fn the_last_line_offers_only_answers_that_the_decision_has() {
    let last = |state: &State| shown(state).lines().last().unwrap().to_owned();
    let mut state = deciding(120, 40, &text("Buy UNI"));
    let words = last(&state);
    assert!(words.contains("s similar") && words.contains("e smaller"), "{words}");
    let mut question = question(&text("Buy UNI"));
    for offered in &mut question.answers {
        let struck = matches!(offered.kind, AnswerKind::Similar | AnswerKind::Smaller);
        offered.why_not = struck.then(|| text("not for this one"));
    }
    question.to_read.clear();
    news(&mut state, SessionNews::Questions(Arc::new(vec![question])));
    state.update(Input::Key(Key::plain(KeyCode::Esc)));
    key(&mut state, 'a');
    let words = last(&state);
    assert!(words.contains("a approve once") && words.contains("r reject"), "{words}");
    assert!(!words.contains("s similar") && !words.contains("e smaller") && !words.contains("mark read"), "{words}");
}
