//! Tests of event lines, alerts, call details, the absence summary, and the CSV of trades.

use super::*;

#[test]
fn events_and_alerts_speak_the_words_of_the_screen() {
    let mut state = running(120, 40, &text("Selling."));
    let phase = PhaseChanged { from: Phase::Cautious, to: Phase::Defensive, why: text("a fall of 8 %") };
    tell(&mut state, None, vec![EventKind::PhaseChanged(phase)]);
    let words = shown(&state);
    assert!(words.contains("CAUTIOUS → EXITS ONLY") && !words.contains("Defensive"), "{words}");
    assert!(words.contains("phase CAUTIOUS → EXITS ONLY: a fall of 8 %"), "the alert\n{words}");
    let health = ChainHealth { chain_id: 31_337, state: ChainState::Degraded, why: text("timed out") };
    let blocked = SafetyCheck {
        check: Check::SpendingLimit,
        outcome: CheckOutcome::Blocked,
        finding: Finding::of_earlier_versions(
            Check::SpendingLimit,
            &text("max_single_trade_usd: $6,785.11 is above it"),
        ),
    };
    let call = Some(CallId::new(1));
    tell(&mut state, call, vec![EventKind::ChainHealth(health), EventKind::SafetyCheck(blocked)]);
    let words = shown(&state);
    assert!(words.contains("ethereum responds with errors") && !words.contains("31337"), "{words}");
    assert!(words.contains("limits blocked: One action: $6,785.11 is above it"), "{words}");
}

#[test]
fn a_story_is_told_in_words_and_names_a_call_once() {
    let mut state = running(120, 60, &text("Selling."));
    let told = |state: &mut State, tool, params: Value, kinds: Vec<EventKind>| {
        let call = CallId::new(state.session.feed.last);
        let mut all = vec![start(tool, params)];
        all.extend(kinds);
        let error = ToolFailed { error_code: ErrorCode::RoutingNoRoute, error_message: text("no pool"), checks: None };
        all.push(EventKind::ToolError(error));
        tell(state, Some(call), all);
        state.update(Input::Key(Key::plain(KeyCode::Enter)));
        let words = shown(state);
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
        words
    };
    let words = told(&mut state, "uniswap_check_allowance", json!({ "token": "WETH" }), vec![]);
    assert!(words.contains("Call details · Allowance WETH ─"), "{words}");
    let words = told(&mut state, "get_balances", json!({}), vec![]);
    assert!(words.contains("Call details · Balances ─"), "{words}");
    let bridge = json!({ "token_in": "USDC", "token_out": "USDC", "amount": "100",
        "source_chain": "ethereum", "destination_chain": "base" });
    let words = told(&mut state, "uniswap_submit_cross_chain_intent", bridge, vec![]);
    assert!(words.contains("Call details · Bridge 100 USDC ethereum → base ─"), "{words}");
    let asked = ApprovalRequested {
        permit_id: PermitId::random(),
        title: text("Swap"),
        reasons: vec![],
        lapses_at: samples::START_MILLIS + 9,
        passes_by_itself: false,
        renewal: None,
    };
    let resolved = ApprovalResolved {
        permit_id: asked.permit_id,
        outcome: ApprovalOutcome::RefusedAndHalted,
        reason: Some(text("wait")),
        amount: None,
    };
    let check =
        SafetyCheck { check: Check::PolicyCage, outcome: CheckOutcome::Passed, finding: Finding::said("no rules") };
    let kinds = vec![
        EventKind::SafetyCheck(check),
        EventKind::ApprovalRequested(asked),
        EventKind::ApprovalResolved(resolved),
        tx(TxState::Confirmed),
    ];
    let words = told(&mut state, "uniswap_execute_swap", samples::swap_params(), kinds);
    for said in ["✕ rejected, all stopped: \"wait\"", "confirmed ✓ in block #1,285", "✓ policy contract"] {
        assert!(words.contains(said), "{said}\n{words}");
    }
    for raw in ["RefusedAndHalted", "Confirmed", "policy_cage", "Swap Swap"] {
        assert!(!words.contains(raw), "{raw}\n{words}");
    }
}

#[test]
fn four_fifths_of_any_cap_is_an_alert_once() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, SessionNews::Snapshot(Arc::new(snapshot())));
    let full = |state: &mut State, change: &dyn Fn(&mut SessionSnapshot)| {
        let before = state.operator.alerts.len();
        let mut next = snapshot();
        change(&mut next);
        news(state, SessionNews::Snapshot(Arc::new(next.clone())));
        news(state, SessionNews::Snapshot(Arc::new(next)));
        let said: Vec<String> = state.operator.alerts.iter().skip(before).map(|alert| alert.text.to_string()).collect();
        news(state, SessionNews::Snapshot(Arc::new(snapshot())));
        said
    };
    fn limits(snapshot: &mut SessionSnapshot) -> &mut LimitUsage {
        snapshot.limits.as_mut().unwrap()
    }
    let day = full(&mut state, &|next| limits(next).day.used = usd("4000"));
    assert_eq!(day, ["80 % of the daily cap is used"]);
    let month = full(&mut state, &|next| limits(next).month.used = usd("40000"));
    assert_eq!(month, ["80 % of the 30-day cap is used"]);
    assert_eq!(full(&mut state, &|next| limits(next).calls = (8, 10)).len(), 1);
    assert_eq!(full(&mut state, &|next| limits(next).calls = (7, 10)), [""; 0]);
    assert_eq!(full(&mut state, &|next| next.grants = vec![grant("101")]), [""; 0]);
    let used = full(&mut state, &|next| next.grants = vec![grant("99")]);
    assert_eq!(used, ["standing approval Swap WETH USDC: $99.00 of $500.00 left"]);
    // The audit screen shows the full scope.
    let mut next = snapshot();
    next.grants = vec![grant("380")];
    news(&mut state, SessionNews::Snapshot(Arc::new(next)));
    state.update(Input::Resize(ratatui::layout::Size { width: 200, height: 40 }));
    key(&mut state, '5');
    let words = shown(&state);
    assert!(words.contains("Swap WETH USDC on ethereum to you"), "{words}");
    assert!(words.contains("$120.00 of $500.00 used · 30 min"), "{words}");
}

#[test]
fn while_away_gas_and_refusals_are_counted_too() {
    let mut state = running(120, 40, &text("Selling."));
    state.update(Input::Focus(false));
    let EventKind::TxUpdate(mut confirmed) = tx(TxState::Confirmed) else { panic!() };
    confirmed.gas_cost_wei = Some(U256::from(138_582_612_000_000_u64));
    let card = Some(ResultCard { widget: bardo_base::model::CardKind::Swap, data: json!({}), hints: None });
    let end = ToolEnd { success: true, state: None, duration_ms: 9, result_summary: Value::Null, card };
    let kinds = vec![
        start("token_approve", json!({ "token": "WETH" })),
        EventKind::TxUpdate(confirmed),
        EventKind::ToolEnd(end),
    ];
    tell(&mut state, Some(CallId::new(1)), kinds);
    assert_eq!(state.session.feed.counts.gas_wei, U256::from(138_582_612_000_000_u64));
    let resolved = ApprovalResolved {
        permit_id: PermitId::random(),
        outcome: ApprovalOutcome::Refused,
        reason: Some(text("wait")),
        amount: None,
    };
    let end = ToolEnd { success: false, state: None, duration_ms: 9, result_summary: Value::Null, card: None };
    let kinds = vec![
        start("uniswap_execute_swap", samples::swap_params()),
        EventKind::ApprovalResolved(resolved),
        EventKind::ToolEnd(end),
    ];
    tell(&mut state, Some(CallId::new(2)), kinds);
    state.update(Input::Time(state.clock.now_millis + 120_000));
    state.update(Input::Focus(true));
    let words = shown(&state);
    assert!(words.contains("0 trades") && words.contains("gas 0.0001385… ETH"), "{words}");
    assert!(words.contains("1 rejected") && !words.contains("0 blocked"), "{words}");
}

/// The absence includes the first five minutes after the last key.
#[test]
fn an_absence_counts_from_the_last_key_and_by_the_headers_value() {
    let mut state = running(120, 40, &text("Selling."));
    let worth = |state: &mut State, dollars: &str| {
        let next = SessionSnapshot { equity: Some(dollars.parse().unwrap()), ..snapshot() };
        news(state, SessionNews::Snapshot(Arc::new(next)));
    };
    worth(&mut state, "26158.16");
    key(&mut state, '1');
    let last_key = state.clock.now_millis;
    state.update(Input::Time(last_key + 60_000));
    let mut order = samples::order(bardo_base::fabric::DecayUnit::Seconds);
    order.status = bardo_base::fabric::OrderStatus::Filled;
    order.fill = Some(bardo_base::fabric::OrderFill {
        tx: bardo_base::fabric::TxPlace { chain_id: 31_337, hash: Default::default(), block: None },
        filler: Default::default(),
        name: None,
        amount_in: "0.45".to_owned(),
        amount_out: "1523.34".to_owned(),
        position: 1,
    });
    tell(&mut state, None, vec![EventKind::OrderUpdate(Box::new(order))]);
    worth(&mut state, "26174.07");
    for minutes in [4, 5, 6] {
        state.update(Input::Time(last_key + minutes * 60_000));
    }
    key(&mut state, '1');
    let words = shown(&state);
    // 26,174.07 less 26,158.16.
    assert!(words.contains("While you were away 6 min") && words.contains("1 trade · value +$15.91"), "{words}");
}

#[test]
fn the_trades_file_holds_the_trade_from_whatever_screen() {
    let mut state = running(120, 40, &text("Selling."));
    let data = json!({ "chain_id": 31_337, "amount_in": "0.25", "amount_out": "852.54", "token_in": "WETH",
        "token_out": "USDC", "slippage_actual_bps": 2 });
    let card = Some(ResultCard { widget: bardo_base::model::CardKind::Swap, data, hints: None });
    let end = ToolEnd { success: true, state: None, duration_ms: 9, result_summary: Value::Null, card };
    let kinds =
        vec![start("uniswap_execute_swap", samples::swap_params()), tx(TxState::Confirmed), EventKind::ToolEnd(end)];
    tell(&mut state, Some(CallId::new(1)), kinds);
    key(&mut state, '5');
    key(&mut state, ':');
    "export trades".chars().for_each(|letter| drop(key(&mut state, letter)));
    let effects = state.update(Input::Key(Key::plain(KeyCode::Enter)));
    let [Effect::Write { name, text }] = &effects[..] else { panic!("{effects:?}") };
    assert!(name.starts_with("bardo-trades-") && name.ends_with(".csv"), "{name}");
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 2, "{text}");
    for cell in ["2023-11-14", "0.25", "WETH", "852.54", "USDC", &B256::repeat_byte(0x8c).to_string()] {
        assert!(rows[1].split(',').any(|one| one.contains(cell)), "{cell} in {}", rows[1]);
    }
}

#[test]
fn a_gap_in_the_log_is_a_line_of_its_own_that_the_keys_go_past() {
    let mut state = running(120, 40, &text("Selling."));
    let (at, golem_id) = (state.clock.now_millis, state.session.feed.lines().next().unwrap().golem_id.clone());
    let event = |seq, kind| Arc::new(Event { seq, at, golem_id: golem_id.clone(), call_id: None, kind });
    let now = |seq: u64| {
        let now = GolemState { now: text(&format!("Step {seq}.")), next: text(""), step: None, delegation: vec![] };
        event(seq, EventKind::GolemNow(now))
    };
    let gap = event(12, EventKind::FabricGap(FabricGap { missed: 2, first: 11 }));
    news(&mut state, SessionNews::Events(vec![now(10), gap]));
    // The missed events have been queried; the last one has the number of the gap.
    state.session.feed.take_history(&[now(10), now(11), now(12), now(13)], 13);
    key(&mut state, '8');
    let under = |state: &State| {
        let row = drawn(state).into_iter().find(|row| row.contains('▸')).unwrap();
        ["Step 13", "missed 2", "Step 12", "Step 11", "Step 10"].into_iter().find(|words| row.contains(words))
    };
    let mut passed = Vec::new();
    for _ in 0..5 {
        key(&mut state, 'j');
        passed.push(under(&state).unwrap());
    }
    assert_eq!(passed, ["Step 13", "missed 2", "Step 12", "Step 11", "Step 10"]);
}

#[test]
fn an_attached_console_asks_for_what_happened_before_and_shows_it() {
    let phase = |seq: u64| {
        let changed = PhaseChanged { from: Phase::Cautious, to: Phase::Thriving, why: text(&format!("reason {seq}")) };
        let golem_id = "ada".parse().unwrap();
        Arc::new(Event {
            seq,
            at: 1_700_000_000_000 + seq,
            golem_id,
            call_id: None,
            kind: EventKind::PhaseChanged(changed),
        })
    };
    for (served, first) in [(true, 5), (true, 1), (false, 5)] {
        let mut state = State::new(Size { width: 120, height: 40 }, 1_700_000_000_000, true);
        let SessionNews::Ready(mut info) = ready() else { panic!() };
        info.served = served;
        news(&mut state, SessionNews::Ready(info));
        let effects = state.update(Input::News(Box::new(SessionNews::Events(vec![phase(first)]))));
        let asked: Vec<_> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Send(sent) => Some(&sent.command),
                _ => None,
            })
            .collect();
        let [SessionCommand::Look { ticket, query }] = asked[..] else {
            assert!(asked.is_empty() && !(served && first > 1), "{served} {first}: {asked:?}");
            continue;
        };
        assert_eq!((served, first, query), (true, 5, &SessionQuery::History { after: 0 }));
        let found = QueryResult::History { events: (1..=5).map(phase).collect(), last: 5, complete: true };
        news(&mut state, SessionNews::Found { ticket: *ticket, found: Box::new(found) });
        assert_eq!((state.session.feed.last, state.session.feed.lines().count()), (5, 5));
        // It asks once.
        assert!(state.update(Input::News(Box::new(SessionNews::Events(vec![phase(6)])))).is_empty());
        assert_eq!(state.session.feed.lines().count(), 6);
    }
}
