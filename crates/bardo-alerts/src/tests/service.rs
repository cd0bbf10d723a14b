//! Everything together: news pass through, a dead channel holds nothing up, and its state is kept.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::delivery::Scripted;
use super::settings;
use crate::channel::SendError;
use crate::service::{Alerts, follow};
use crate::status::StatusFile;
use bardo_base::fabric::{Event, EventKind, HaltChanged};
use bardo_base::id::GolemId;
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_session::handle::SessionNews;

fn halt(level: StopLevel) -> SessionNews {
    let text = |words| SafeText::clean(words, 40);
    let kind = EventKind::HaltRaised(HaltChanged { level: Some(level), by: text("x"), reason: text("y"), hold: false });
    SessionNews::Events(vec![Arc::new(Event { seq: 1, at: 0, golem_id: GolemId::operator(), call_id: None, kind })])
}

#[tokio::test]
async fn news_pass_through_a_dead_channel_at_once_and_its_failure_is_reported_and_kept() {
    let home = TempDir::new().unwrap();
    let settings = settings(home.path(), "decision_seconds = 0");
    let dead = SendError::Never(SafeText::clean("no such chat", 40));
    let channel = Arc::new(Scripted { script: parking_lot::Mutex::new([dead].into()), ..Scripted::default() });
    let (changes, mut changed) = mpsc::channel(8);
    let alerts = Alerts::over(vec![channel.clone()], &settings, home.path(), changes);
    let (session, passing) = mpsc::channel(8);
    let (passed_on, mut console) = mpsc::channel(8);
    tokio::spawn(follow(alerts, passing, passed_on));
    for level in [StopLevel::Pause, StopLevel::Halt] {
        session.send(halt(level)).await.unwrap();
        assert_eq!(timeout(Duration::from_secs(5), console.recv()).await.unwrap(), Some(halt(level)));
    }
    let failed = timeout(Duration::from_secs(5), changed.recv()).await.unwrap().unwrap();
    assert_eq!((failed.channel.as_str(), failed.works, failed.lost), ("webhook", false, 1));
    assert_eq!(failed.why.as_str(), "no such chat");
    let works = timeout(Duration::from_secs(5), changed.recv()).await.unwrap().unwrap();
    assert!(works.works, "{works:?}");
    session.send(SessionNews::Left(Box::default())).await.unwrap();
    assert!(matches!(timeout(Duration::from_secs(5), console.recv()).await.unwrap(), Some(SessionNews::Left(_))));
    let status = StatusFile::in_data(home.path()).read();
    let status = &status["webhook"];
    assert!(status.delivered_at.is_some() && status.failing_since.is_none() && status.lost == 1, "{status:?}");
}

#[tokio::test]
async fn a_session_that_ends_without_a_last_word_ends_its_alerts() {
    let home = TempDir::new().unwrap();
    let (changes, mut changed) = mpsc::channel(8);
    let channel = Arc::new(Scripted::default());
    let alerts = Alerts::over(vec![channel], &settings(home.path(), ""), home.path(), changes);
    let (session, passing) = mpsc::channel(8);
    let (passed_on, mut console) = mpsc::channel(8);
    let following = tokio::spawn(follow(alerts, passing, passed_on));
    drop(session);
    assert_eq!(timeout(Duration::from_secs(5), console.recv()).await.unwrap(), None);
    following.await.unwrap();
    assert_eq!(
        timeout(Duration::from_secs(5), changed.recv()).await.unwrap(),
        None,
        "nothing holds the session's events"
    );
}

#[tokio::test(start_paused = true)]
async fn a_console_that_does_not_read_silences_no_decision() {
    let home = TempDir::new().unwrap();
    let channel = Arc::new(Scripted::default());
    let (changes, _changed) = mpsc::channel(8);
    let alerts =
        Alerts::over(vec![channel.clone()], &settings(home.path(), "decision_seconds = 0"), home.path(), changes);
    let (session, passing) = mpsc::channel(8);
    let (passed_on, _console) = mpsc::channel(1);
    tokio::spawn(follow(alerts, passing, passed_on));
    // The second finds no room, and the third is not read any more.
    for level in [StopLevel::Pause, StopLevel::Halt, StopLevel::Revoke] {
        session.send(halt(level)).await.unwrap();
    }
    timeout(Duration::from_secs(60), async {
        while channel.attempts.lock().len() < 2 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .unwrap();
}
