//! Alerts beside a session: its news pass through them, and changes of their channels become events.

use tokio::sync::mpsc;

use bardo_alerts::{Alerts, ChannelReport, follow};
use bardo_base::config::Config;
use bardo_base::fabric::{EventKind, Fabric};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_session::handle::{NEWS_WAITING, SessionNews};

/// Number of channel changes that wait for their event.
const CHANGES_WAITING: usize = 32;

/// Starts the configured alerts between a session and its console. Returns the sender for the session's news, and the
/// changes of the channels; without alerts, the console's own sender.
pub(super) fn between(
    config: &Config,
    console: mpsc::Sender<SessionNews>,
) -> (mpsc::Sender<SessionNews>, mpsc::Receiver<ChannelReport>) {
    let (changes, changed) = mpsc::channel(CHANGES_WAITING);
    if !config.alerts.is_on() {
        return (console, changed);
    }
    match Alerts::start(&config.alerts, &config.data_dir.value, changes.clone()) {
        Ok(alerts) => {
            let (news, passing) = mpsc::channel(NEWS_WAITING);
            tokio::spawn(follow(alerts, passing, console));
            (news, changed)
        }
        // Programs that start a session have opened the channels already; a secret's file may have changed since.
        Err(error) => {
            let why = SafeText::clean(&error.to_string(), 300);
            let channel = SafeText::clean("every channel", 20);
            let _waiting = changes.try_send(ChannelReport { channel, works: false, why, lost: 0 });
            (console, changed)
        }
    }
}

/// Emits an event for every change of a channel, until the alerts have ended.
pub(super) async fn report(mut changed: mpsc::Receiver<ChannelReport>, fabric: Fabric) {
    while let Some(change) = changed.recv().await {
        fabric.emit(&GolemId::operator(), None, EventKind::AlertChannel(change));
    }
}
