//! Screen 3: schedules of swaps among the orders.

use std::sync::Arc;

use ratatui::layout::Rect;
use serde_json::json;

use super::world::{TestHarness, world};
use super::{AREA, calls, drawn, safe};
use crate::keymap::{Action, Key};
use crate::screens::form::tests::tool;
use crate::screens::orders::Orders;
use crate::screens::{ScreenRequest, ScreenView};
use crate::widgets::samples::START_MILLIS;
use bardo_base::model::CapabilityTier;
use bardo_session::handle::{ScheduleAttempt, ScheduleRow, SchedulesState};

fn attempt(slice: u32, outcome: &str, received: Option<&str>) -> ScheduleAttempt {
    ScheduleAttempt {
        slice,
        at: START_MILLIS - 30_000,
        outcome: safe(outcome),
        is_done: received.is_some(),
        paid: received.map(|_| "200".to_owned()),
        received: received.map(str::to_owned),
        message: safe(if received.is_some() {
            ""
        } else {
            "it would be sure of 0.0585 WETH, and the schedule asks for 0.06"
        }),
    }
}

fn schedule(id: &str) -> ScheduleRow {
    ScheduleRow {
        id: safe(id),
        golem_id: safe("operator"),
        runs_here: true,
        chain: safe("ethereum"),
        state: safe("active"),
        is_active: true,
        is_running: false,
        token_in: safe("USDC"),
        token_out: safe("WETH"),
        total: "1000".to_owned(),
        next_amount: "200".to_owned(),
        slices: 5,
        done: 2,
        paid: "400".to_owned(),
        received: "0.1171".to_owned(),
        interval_seconds: 3_600,
        least_price: Some("0.00028".to_owned()),
        created_at: START_MILLIS + 10,
        next_at: Some(START_MILLIS + 754_000),
        ends_at: START_MILLIS + 86_400_000,
        failures: 0,
        most_failures: 5,
        attempts: vec![attempt(3, "below bound", None), attempt(2, "done", Some("0.0586"))],
    }
}

fn with(rows: Vec<ScheduleRow>) -> TestHarness {
    let mut world = world();
    world.ready.tools.push(tool("cancel_schedule", CapabilityTier::Write));
    world.snapshot.schedules = Some(Arc::new(SchedulesState { rows, ..SchedulesState::default() }));
    world
}

#[test]
fn a_schedule_is_listed_with_its_next_slice_its_progress_and_its_bound() {
    let others = ScheduleRow { runs_here: false, golem_id: safe("other"), failures: 3, ..schedule("01C") };
    let over = ScheduleRow {
        state: safe("rejected"),
        is_active: false,
        next_at: None,
        least_price: None,
        done: 0,
        attempts: Vec::new(),
        ..schedule("01D")
    };
    for (name, row) in [("active", schedule("01B")), ("of_another_agent", others), ("ended", over)] {
        let mut world = with(vec![row]);
        (world.feed.orders, world.feed.intents) = Default::default();
        for (width, height) in [(120, 24), (80, 20)] {
            let text = drawn(&Orders::default(), &world, Rect { x: 0, y: 0, width, height });
            insta::assert_snapshot!(format!("schedule_{name}_{width}x{height}"), text);
        }
    }
}

#[test]
fn x_asks_and_cancels_the_selected_schedule_and_no_ended_one() {
    let over = ScheduleRow { state: safe("done"), is_active: false, next_at: None, ..schedule("01A") };
    let mut world = with(vec![schedule("01B"), over]);
    let mut screen = Orders::default();
    // The newest open entry is selected first.
    assert!(screen.act(Action::CancelSelected, &world.known(), AREA).unwrap().is_empty() && screen.asks());
    assert!(drawn(&screen, &world, AREA).contains("3 would follow"));
    world.calm.set(1_000);
    let mut requests = Vec::new();
    screen.type_key(Key::char('c'), &world.known(), &mut requests);
    world.calm.set(2_000);
    screen.type_key(Key::plain(crossterm::event::KeyCode::Enter), &world.known(), &mut requests);
    let sent = calls(&requests);
    assert!(
        matches!(&sent[..], [(_, tool, params, false)] if tool == "cancel_schedule" && *params == json!({"schedule_id": "01B"})),
        "{requests:?}"
    );
    assert_eq!(
        screen.act(Action::Copy, &world.known(), AREA).unwrap(),
        [ScreenRequest::Copy("01B".to_owned())],
        "the id is copied"
    );
    // One that has ended has nothing to cancel.
    let mut ended = with(vec![ScheduleRow { state: safe("done"), is_active: false, next_at: None, ..schedule("01A") }]);
    (ended.feed.orders, ended.feed.intents) = Default::default();
    let said = Orders::default().act(Action::CancelSelected, &ended.known(), AREA).unwrap();
    assert!(matches!(&said[..], [ScreenRequest::Notice(words)] if words.as_str().contains("has ended")), "{said:?}");
    // A read-only console cancels nothing.
    world.watch_only = true;
    let said = Orders::default().act(Action::CancelSelected, &world.known(), AREA).unwrap();
    assert!(matches!(&said[..], [ScreenRequest::Notice(_)]), "{said:?}");
}

#[test]
fn schedules_that_cannot_be_read_are_said_and_move_the_rows_down() {
    let mut world = with(vec![schedule("01B")]);
    let text = drawn(&Orders::default(), &world, AREA);
    assert!(!text.contains("cannot be read"), "{text}");
    let state = SchedulesState { rows: vec![schedule("01B")], unreadable: 2, fault: None };
    world.snapshot.schedules = Some(Arc::new(state));
    let text = drawn(&Orders::default(), &world, AREA);
    assert!(text.contains("! 2 stored schedules cannot be read") && text.contains("Schedule"), "{text}");
    world.snapshot.schedules =
        Some(Arc::new(SchedulesState { fault: Some(safe("database is locked")), ..SchedulesState::default() }));
    assert!(drawn(&Orders::default(), &world, AREA).contains("! schedules: database is locked"));
}
