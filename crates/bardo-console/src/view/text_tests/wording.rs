//! Tests of single texts: hints that say what their key does, notes beside figures, and words about a stop.

use super::*;
use bardo_session::handle::{ChainTransactions, NonceGap, TransactionsState};

/// Hint line of the screen.
fn hints(state: &State) -> String {
    drawn(state).pop().unwrap_or_default()
}

#[test]
fn the_hint_of_enter_is_what_enter_does_here() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut state = running(width, height, &text("Selling."));
        news(&mut state, ready());
        news(&mut state, SessionNews::Snapshot(Arc::new(snapshot())));
        assert!(hints(&state).contains("Enter open"), "{}", hints(&state));
        key(&mut state, '2');
        assert!(hints(&state).contains("Enter types") && !hints(&state).contains("Enter open"), "{}", hints(&state));
        // No order is there to be opened.
        key(&mut state, '3');
        assert!(!hints(&state).contains("Enter"), "{}", hints(&state));
        tell(&mut state, None, vec![EventKind::IntentUpdate(Box::new(samples::intent()))]);
        assert!(hints(&state).contains("Enter open"), "{}", hints(&state));
        state.update(Input::Key(Key::plain(KeyCode::Enter)));
        assert!(hints(&state).contains("Enter all orders"), "{}", hints(&state));
    }
}

/// The note says whether the figure above contains the amount, and is whole at the width of its panel.
#[test]
fn a_bridge_order_is_noted_beside_the_holding_with_its_whole_meaning() {
    let held = |status| {
        let mut state = running(120, 40, &text("Selling."));
        news(&mut state, SessionNews::Snapshot(Arc::new(snapshot())));
        let intent = IntentUpdate { status, amount_in: "100".to_owned(), ..samples::intent() };
        tell(&mut state, None, vec![EventKind::IntentUpdate(Box::new(intent))]);
        shown(&state)
    };
    for (status, words) in [
        (IntentStatus::Pending, "USDC 100 leaving for base"),
        (IntentStatus::Filling, "USDC 100 more on its way"),
        (IntentStatus::Expired, "USDC 100 more to be refunded"),
    ] {
        let shown = held(status);
        assert!(shown.contains(words) && !shown.contains(&format!("{words}…")), "{words}\n{shown}");
    }
}

#[test]
fn a_stop_says_who_set_it_and_how_it_ends() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, SessionNews::Snapshot(Arc::new(stopped(StopLevel::Halt, false))));
    let raised = HaltChanged {
        level: Some(StopLevel::Halt),
        by: text("operator"),
        reason: text("the price is wrong"),
        hold: false,
    };
    tell(&mut state, None, vec![EventKind::HaltRaised(raised.clone())]);
    let words = shown(&state);
    let alert = "▲ the operator raised the stop to halt · :resume asks to lift it · the price is wrong";
    assert!(words.contains(alert), "{words}");
    assert!(words.contains("the operator raised the stop to halt: the price is wrong"), "the event\n{words}");
    // The vital signs are not the whole of it.
    tell(&mut state, None, vec![super::pages::vitals(35)]);
    let words = shown(&state);
    assert!(words.contains("stop: halt") && !words.contains("nothing is wrong"), "{words}");
    // What cannot be done here is not offered.
    let mut watching = running(120, 40, &text("Selling."));
    watching.options.watch_only = true;
    tell(&mut watching, None, vec![EventKind::HaltRaised(raised)]);
    assert!(!shown(&watching).contains(":resume"), "{}", shown(&watching));
}

/// The operator does not learn it only after approving something.
#[test]
fn an_account_that_something_else_used_is_said_on_every_screen() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut state = running(width, height, &text("Selling."));
        tell(&mut state, None, vec![super::pages::vitals(35)]);
        assert!(!shown(&state).contains("nothing is signed"), "{}", shown(&state));
        let mut blocked = snapshot();
        let chain = ChainTransactions {
            chain: text("ethereum"),
            chain_id: 31_337,
            base_fee: None,
            next_nonce: Some(4),
            rows: Vec::new(),
            gaps: vec![NonceGap::Foreign { ledger: 3, chain: 4 }],
            fault: None,
        };
        blocked.transactions =
            Some(Arc::new(TransactionsState { chains: vec![chain], ..TransactionsState::default() }));
        news(&mut state, SessionNews::Snapshot(Arc::new(blocked)));
        let words = shown(&state);
        assert!(words.contains("▲ ethereum: nothing is signed (9)"), "{words}");
        assert!(!words.contains("nothing is wrong"), "{words}");
        // The panel of the Golem is narrower, and cuts nothing that says what is wrong.
        assert!(!words.contains("nothing …") && (width < 120 || words.contains("cannot sign (9)")), "{words}");
        key(&mut state, '4');
        assert!(shown(&state).contains("nothing is signed (9)"), "{}", shown(&state));
        key(&mut state, '1');
        state.update(Input::Focus(false));
        state.update(Input::Time(state.clock.now_millis + 720_000));
        state.update(Input::Focus(true));
        let words = shown(&state);
        assert!(words.contains("nothing is signed on ethereum") && !words.contains("nothing went wrong"), "{words}");
    }
}

#[test]
fn a_read_only_console_says_so_beside_a_decision_and_offers_no_answer() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut state = running(width, height, &text("Selling."));
        let SessionNews::Ready(mut info) = ready() else { panic!() };
        info.served = true;
        news(&mut state, SessionNews::Ready(info));
        state.options.watch_only = true;
        news(&mut state, SessionNews::Snapshot(Arc::new(snapshot())));
        news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
        let first = drawn(&state).remove(0);
        assert!(first.contains("ATTACHED read-only") && first.contains("(a reads)"), "{first}");
        let words = shown(&state);
        assert!(
            !words.contains("FOR YOU") && !words.contains("a decide") && !words.contains("waits for you: press"),
            "{words}"
        );
        assert!(words.contains("a decision waits for the operator: a opens it to read"), "{words}");
        key(&mut state, 'x');
        assert!(hints(&state).contains("a read "), "{}", hints(&state));
    }
}

/// Esc returns to the stop below the hold. A key that would not lower it is neither offered nor obeyed.
#[test]
fn a_hold_over_a_higher_stop_offers_only_what_it_does() {
    for (level, back, exit_only) in [
        (None, "Esc release", true),
        (Some(StopLevel::ExitOnly), "Esc back to exit-only", false),
        (Some(StopLevel::Flatten), "Esc back to flatten", false),
    ] {
        let mut state = running(120, 40, &text("Selling."));
        let before = level.map_or_else(snapshot, |level| stopped(level, false));
        news(&mut state, SessionNews::Snapshot(Arc::new(before)));
        state.update(control('x'));
        news(&mut state, SessionNews::Snapshot(Arc::new(stopped(StopLevel::Halt, true))));
        let words = shown(&state);
        assert!(words.contains(back), "{level:?}\n{words}");
        assert_eq!(words.contains("x exit-only"), exit_only, "{level:?}\n{words}");
        state.update(Input::Time(state.clock.now_millis + 1_000));
        let sent = key(&mut state, 'x');
        assert_eq!(!sent.is_empty(), exit_only, "{level:?}: {sent:?}");
    }
}

#[test]
fn the_title_of_a_faster_transaction_says_what_is_asked_and_its_cost() {
    let mut asked = question(&text("Speed up transaction 0x72"));
    asked.reasons = vec![AskReason::Replaces {
        transaction: B256::repeat_byte(0x72),
        nonce: 11,
        cancels: false,
        extra_wei: U256::from(21_000),
        extra_usd: Some(usd("0.24")),
        symbol: text("ETH"),
        tool: Some(text("uniswap_execute_swap")),
        owner: Some(bardo_base::id::GolemId::operator()),
    }];
    let mut state = running(120, 50, &text("Selling."));
    news(&mut state, SessionNews::Questions(Arc::new(vec![asked])));
    key(&mut state, 'a');
    let words = shown(&state);
    assert!(words.contains("Speed up: Swap, transaction 0x7272…7272, nonce 11 · at most $0.24 more"), "{words}");
    assert!(words.contains("it replaces your waiting Swap transaction 0x7272…7272;"), "{words}");
    // The dialog is open, so that nothing asks to open it.
    assert!(!words.contains("press a to open it"), "{words}");
    assert!(!words.contains("uniswap_execute_swap"), "{words}");
}

#[test]
fn the_curve_says_that_it_ends_with_the_golem() {
    let mut state = running(120, 40, &text("Selling."));
    tell(&mut state, None, vec![super::pages::vitals(35)]);
    assert!(!shown(&state).contains("until the Golem died"));
    let died = PhaseChanged { from: Phase::Survival, to: Phase::Terminal, why: text("17.28 % below peak") };
    tell(&mut state, None, vec![EventKind::PhaseChanged(died)]);
    assert!(shown(&state).contains("Equity 15 min, until the Golem died"), "{}", shown(&state));
}

/// The request was about 0.25 WETH, and the answer was 0.1: the row of the decision says both.
#[test]
fn a_decision_with_a_smaller_amount_says_what_was_asked_and_what_was_answered() {
    let mut state = running(200, 50, &text("Selling."));
    let answered = ApprovalResolved {
        permit_id: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        outcome: ApprovalOutcome::Edited,
        reason: None,
        amount: Some(text("0.1")),
    };
    let kinds = vec![start("uniswap_execute_swap", samples::swap_params()), EventKind::ApprovalResolved(answered)];
    tell(&mut state, Some(CallId::new(1)), kinds);
    key(&mut state, '5');
    let words = shown(&state);
    assert!(words.contains("Swap 0.25 WETH → USDC  smaller: 0.1"), "{words}");
}

/// The prompt's answer is as long as what it can do; at 80 columns its end was cut, and nothing showed it.
#[test]
fn a_long_notice_is_shown_to_its_end_at_every_width() {
    let words = "I did not understand \"what can you do\" and did nothing. I can: swap AMOUNT TOKEN TOKEN [on CHAIN]; quote \
                 AMOUNT TOKEN TOKEN [on CHAIN]; balances; price TOKEN [on CHAIN]; status; act KIND name=value; and THE-END.";
    for (width, height) in [(80, 24), (100, 30), (120, 40), (200, 50)] {
        let mut state = running(width, height, &text("Selling."));
        state.show_notice(words);
        let shown = shown(&state);
        assert!(shown.contains("I did not understand") && shown.contains("THE-END"), "{width}\n{shown}");
        assert!(shown.contains("STOP"), "the key that stops keeps its place: {width}\n{shown}");
    }
}
