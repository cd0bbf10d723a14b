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
    state.feed = Default::default();
    let mut pictures = Vec::new();
    for event in events(VERSION_2) {
        state.update(Input::Time(event.at));
        let (ends, asks) =
            (matches!(event.kind, EventKind::ToolEnd(_)), matches!(event.kind, EventKind::ApprovalRequested(_)));
        news(&mut state, News::Events(vec![Arc::new(event)]));
        state.notice = None;
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
