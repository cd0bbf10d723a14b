//! Alerts beside a running session: its news pass through, the rules read them, and the channels send.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::alert::Alert;
use super::channel::{Channel, ChannelError, channels};
use super::delivery::{ChannelQueue, DeliveryReport, Worker};
use super::rules::AlertRules;
use super::status::{ChannelStatus, StatusFile};
use bardo_base::clock::{Clock as _, SystemClock};
use bardo_base::config::AlertSettings;
use bardo_base::fabric::AlertChannelChanged;
use bardo_base::text::SafeText;
use bardo_session::handle::SessionNews;

/// Interval in which waiting decisions are checked.
const TICK: Duration = Duration::from_millis(500);
/// Timeout for the last alerts when the session has ended.
const LAST: Duration = Duration::from_secs(3);

/// Change of a channel's state, for the session's events.
pub type ChannelReport = AlertChannelChanged;

/// Rules and channels of one session.
#[derive(Debug)]
pub struct Alerts {
    rules: AlertRules,
    queues: Vec<ChannelQueue>,
    workers: JoinSet<()>,
    ending: watch::Sender<bool>,
}

impl Alerts {
    /// Opens the configured channels and starts their workers. `data` is the data directory, where their state is kept.
    /// Must be called on a tokio runtime. Changes of a channel's state are sent to `changes`.
    ///
    /// # Errors
    /// [`ChannelError`] of a channel that cannot be used.
    pub fn start(
        settings: &AlertSettings,
        data: &Path,
        changes: mpsc::Sender<ChannelReport>,
    ) -> Result<Self, ChannelError> {
        Ok(Self::over(channels(settings)?, settings, data, changes))
    }

    pub(crate) fn over(
        channels: Vec<Arc<dyn Channel>>,
        settings: &AlertSettings,
        data: &Path,
        changes: mpsc::Sender<ChannelReport>,
    ) -> Self {
        let (reports, reported) = mpsc::unbounded_channel();
        let (ending, ends) = watch::channel(false);
        let mut workers = JoinSet::new();
        let mut queues = Vec::new();
        for channel in channels {
            let limits = (settings.detail.value, settings.per_hour.value);
            let (queue, worker) = Worker::new(channel, limits, reports.clone(), ends.clone());
            queues.push(queue);
            workers.spawn(worker.run(|| SystemClock.now_millis()));
        }
        workers.spawn(keep_status(StatusFile::in_data(data), reported, changes));
        Self { rules: AlertRules::new(settings), queues, workers, ending }
    }

    /// Follows news of the session.
    pub fn note(&mut self, news: &SessionNews) {
        let found = self.rules.note(news, SystemClock.now_millis());
        self.send(found);
    }

    fn tick(&mut self) {
        let found = self.rules.tick(SystemClock.now_millis());
        self.send(found);
    }

    fn send(&self, alerts: Vec<Alert>) {
        for alert in alerts {
            tracing::debug!(rule = ?alert.rule, "alert");
            let alert = Arc::new(alert);
            for queue in &self.queues {
                queue.push(Arc::clone(&alert));
            }
        }
    }

    /// Ends the workers. What waits is sent if its channel answers at once.
    pub async fn finish(mut self) {
        self.ending.send_replace(true);
        self.queues.clear();
        let _late = timeout(LAST, async { while self.workers.join_next().await.is_some() {} }).await;
    }
}

/// Passes news on, with alerts about them. Ends when the session has ended, after its last alerts.
pub async fn follow(mut alerts: Alerts, mut news: mpsc::Receiver<SessionNews>, passed_on: mpsc::Sender<SessionNews>) {
    let mut look = interval(TICK);
    look.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut last, mut held) = (None, None::<SessionNews>);
    loop {
        // One message in hand: a console that does not read holds up the news, but not the alerts about what is known.
        let message = tokio::select! {
            biased;
            _ = look.tick() => {
                alerts.tick();
                continue;
            }
            place = passed_on.reserve(), if held.is_some() => {
                // A console that is gone receives nothing; the session goes on to its end.
                if let (Ok(place), Some(message)) = (place, held.take()) {
                    place.send(message);
                }
                held = None;
                continue;
            }
            message = news.recv(), if held.is_none() => message,
        };
        let Some(message) = message else { break };
        alerts.note(&message);
        if matches!(message, SessionNews::Left(_)) {
            last = Some(message);
            break;
        }
        held = Some(message);
    }
    alerts.finish().await;
    if let Some(message) = last {
        let _gone = passed_on.send(message).await;
    }
}

/// Keeps the state of the channels on disk, and reports its changes.
async fn keep_status(
    file: StatusFile,
    mut reports: mpsc::UnboundedReceiver<DeliveryReport>,
    changes: mpsc::Sender<ChannelReport>,
) {
    let mut known: BTreeMap<String, ChannelStatus> = file.read();
    for status in known.values_mut() {
        status.lost = 0;
    }
    while let Some(report) = reports.recv().await {
        let name = report.channel.as_str();
        let status = known.entry(name.to_owned()).or_default();
        let before = status.clone();
        note_report(status, &report);
        if before.failing_since.is_some() != status.failing_since.is_some() || before.lost != status.lost {
            let change = AlertChannelChanged {
                channel: SafeText::clean(name, 20),
                works: status.failing_since.is_none(),
                why: status.why.clone(),
                lost: status.lost,
            };
            // Events are for display: a session that is busy must not wait for them.
            let _full = changes.try_send(change);
        }
        let (file, written) = (file.clone(), known.clone());
        let written = tokio::task::spawn_blocking(move || file.write(&written)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "the state of the alert channels cannot be written");
        }
    }
}

fn note_report(status: &mut ChannelStatus, report: &DeliveryReport) {
    let now = SystemClock.now_millis();
    match &report.result {
        Ok(_) => {
            status.delivered_at = Some(now);
            status.failing_since = None;
            status.why = SafeText::default();
        }
        Err(why) => {
            tracing::warn!(channel = %report.channel, %why, "an alert was not delivered");
            status.failing_since = status.failing_since.or(Some(now));
            status.why = why.clone();
            status.lost = status.lost.saturating_add(u64::from(report.given_up));
        }
    }
}
