//! Tests of recordings from earlier versions, which must be shown as they were when made.

use super::*;

/// Journal of version 2. One run has swaps that the operator approves and that the price overtakes. Another has
/// rejections by several rules and a sale under a stop.
const VERSION_2: &str = include_str!("../../../../../tests/fixtures/recordings/version-2.jsonl");

fn events(recording: &str) -> Vec<Event> {
    recording.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_recording_of_version_2_shows_what_it_showed() {
    let mut state = running(120, 60, &text("Selling."));
    state.session.feed = Default::default();
    let mut pictures = Vec::new();
    for event in events(VERSION_2) {
        state.update(Input::Time(event.at));
        let (ends, asks) =
            (matches!(event.kind, EventKind::ToolEnd(_)), matches!(event.kind, EventKind::ApprovalRequested(_)));
        news(&mut state, SessionNews::Events(vec![Arc::new(event)]));
        state.display.notice = None;
        if asks || ends {
            pictures.push(shown(&state));
        }
        if ends {
            state.update(Input::Key(Key::plain(KeyCode::Enter)));
            pictures.push(shown(&state));
            state.update(Input::Key(Key::plain(KeyCode::Esc)));
        }
    }
    assert!(pictures.len() > 10, "{} pictures", pictures.len());
    insta::assert_snapshot!(pictures.join("\n\n"));
}

/// From version 4 on a recording has the session's chains and limits: it shows them as the console did.
#[test]
fn a_recording_knows_the_limits_and_what_gas_is_paid_in() {
    let mut state = running(120, 40, &text("Selling."));
    state.session.page.network.as_mut().unwrap().money = MoneyKind::Replay;
    let vitals = || {
        EventKind::Vitals(Box::new(Vitals {
            phase: Phase::Thriving,
            why: text("nothing is wrong"),
            equity: Some(usd("25310.42")),
            high_water: Some(usd("25400")),
            drawdown_bps: Some(35),
            stop_loss_bps: 1_000,
            gas_runway_seconds: None,
            gas_wei: Some(U256::from(998_000_000_000_000_000_u64)),
            failures: 0,
            failures_limit: 3,
            age_seconds: 0,
            lifespan_seconds: None,
            lending: None,
        }))
    };
    // One of an earlier version has neither, and says so instead of a unit that is none.
    tell(&mut state, None, vec![vitals()]);
    let words = shown(&state);
    assert!(!words.contains("coin") && words.contains("not in this recording"), "{words}");

    let chain = ChainOpened { chain_id: 31_337, name: text("ethereum"), native_symbol: text("ETH") };
    let opened = SessionOpened { network: text("devnet"), account: None, chains: vec![chain] };
    let SessionSnapshot { policy, limits, .. } = snapshot();
    let mut limits = limits.unwrap();
    limits.stop_losses = vec![StopLossState {
        chain: text("ethereum"),
        chain_id: 31_337,
        worth: Some(usd("19000")),
        high_water: usd("20000"),
        stops_at: usd("18000"),
    }];
    let changed = EventKind::LimitsChanged(Box::new(LimitsChanged { policy, limits }));
    tell(&mut state, None, vec![EventKind::SessionOpened(opened), changed, vitals()]);
    let words = shown(&state);
    for told in ["policy demo v3", "$1,966/$5,000", "up to $2,500", "3/10 a min", "0.998 ETH", "−5.0% of 10%"] {
        assert!(words.contains(told), "{told}\n{words}");
    }
    assert!(!words.contains("standing approvals"), "a recording has no list of them\n{words}");
    state.update(Input::Resize(Size { width: 80, height: 24 }));
    assert!(shown(&state).contains("$1,966/$5,000"), "{}", shown(&state));
    state.update(Input::Resize(Size { width: 120, height: 40 }));
    key(&mut state, '4');
    assert!(shown(&state).contains("$18,000.00 on ethereum"), "{}", shown(&state));
}

/// No screen of a recording names a key for which there is nothing to do in it.
#[test]
fn no_screen_of_a_recording_offers_a_key_that_does_nothing_there() {
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        let mut state = running(width, height, &text("Selling."));
        state.session.page.network.as_mut().unwrap().money = MoneyKind::Replay;
        for event in events(VERSION_2) {
            state.update(Input::Time(event.at));
            news(&mut state, SessionNews::Events(vec![Arc::new(event)]));
        }
        state.display.notice = None;
        for screen in ScreenId::ALL {
            key(&mut state, screen.key());
            let words = shown(&state);
            assert!(!drawn(&state)[1].contains("gwei"), "a recording holds no base fee\n{words}");
            let idle = [
                "x cancel",
                "x revoke",
                "Ctrl-X",
                "a decide",
                "(a)",
                "v verif",
                "x takes",
                "Enter types",
                "[ Preview ]",
                "[ Ask ]",
                "Enter asks",
                "m mine",
                "x refund",
                "tell Ada",
                "tell ada",
                "tell the Golem",
                "v checks",
                "e exports",
                "← → ",
                "takes back",
            ];
            for offer in idle {
                assert!(!words.contains(offer), "{screen:?} {width}: {offer}\n{words}");
            }
        }
    }
}
