//! Retries, the rate limit and the queue, over a channel that follows a script. Time is simulated.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::alert;
use crate::alert::{Alert, AlertMessage};
use crate::channel::{Channel, ChannelName, Delivered, SendError};
use crate::delivery::{ChannelQueue, DeliveryReport, Worker};
use bardo_base::config::{AlertDetail, AlertRule};
use bardo_base::text::SafeText;

/// Channel that answers by a script, and delivers once the script is over.
#[derive(Debug, Default)]
pub(super) struct Scripted {
    pub(super) script: Mutex<VecDeque<SendError>>,
    /// Moment, text and id of every attempt.
    pub(super) attempts: Mutex<Vec<(Instant, String, String)>>,
    /// Time that an attempt takes.
    pub(super) takes: Duration,
}

impl Scripted {
    fn with(script: impl IntoIterator<Item = SendError>) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(script.into_iter().collect()), ..Self::default() })
    }

    fn gaps(&self) -> Vec<u64> {
        let attempts = self.attempts.lock();
        attempts.windows(2).map(|pair| pair[1].0.duration_since(pair[0].0).as_secs()).collect()
    }
}

impl Channel for Scripted {
    fn name(&self) -> ChannelName {
        ChannelName::Webhook
    }

    fn destination(&self) -> SafeText {
        SafeText::default()
    }

    fn send<'a>(&'a self, message: &'a AlertMessage<'a>) -> BoxFuture<'a, Result<Delivered, SendError>> {
        Box::pin(async move {
            self.attempts.lock().push((Instant::now(), message.text(), message.alert.id.clone()));
            sleep(self.takes).await;
            match self.script.lock().pop_front() {
                Some(error) => Err(error),
                None => Ok(Delivered(SafeText::default())),
            }
        })
    }
}

struct Running {
    queue: ChannelQueue,
    reports: mpsc::UnboundedReceiver<DeliveryReport>,
    ending: watch::Sender<bool>,
    work: tokio::task::JoinHandle<()>,
}

fn start(channel: &Arc<Scripted>, per_hour: u64) -> Running {
    let (reports, reported) = mpsc::unbounded_channel();
    let (ending, ends) = watch::channel(false);
    let channel: Arc<dyn Channel> = Arc::clone(channel) as Arc<dyn Channel>;
    let (queue, worker) = Worker::new(channel, (AlertDetail::Brief, per_hour), reports, ends);
    Running { queue, reports: reported, ending, work: tokio::spawn(worker.run(|| 0)) }
}

fn again(after: Option<u64>) -> SendError {
    SendError::Again { why: SafeText::clean("busy", 40), after: after.map(Duration::from_secs) }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_spaced_out_and_end() {
    let channel = Scripted::with(std::iter::repeat_n(again(None), 50));
    let mut running = start(&channel, 10);
    running.queue.push(Arc::new(alert()));
    sleep(Duration::from_secs(3_600)).await;
    let gaps = channel.gaps();
    assert_eq!(gaps.len(), 6, "seven attempts: {gaps:?}");
    for (gap, longest) in gaps.iter().zip([2_u64, 4, 8, 16, 32, 64]) {
        assert!(*gap >= longest / 2 && *gap <= longest, "{gaps:?}");
    }
    let ids: Vec<String> = channel.attempts.lock().iter().map(|(.., id)| id.clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "one id for all attempts, so that a receiver can drop repeats");
    let mut given_up = 0;
    while let Ok(report) = running.reports.try_recv() {
        given_up += usize::from(report.given_up);
    }
    assert_eq!(given_up, 1);
}

#[tokio::test(start_paused = true)]
async fn a_requested_delay_is_honoured_and_a_permanent_error_is_not_repeated() {
    let never = SendError::Never(SafeText::clean("no such chat", 40));
    let channel = Scripted::with([again(Some(100)), never]);
    let running = start(&channel, 10);
    running.queue.push(Arc::new(alert()));
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(channel.gaps(), [100]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_per_hour_holds_and_what_was_held_back_is_counted() {
    let channel = Scripted::with([]);
    let running = start(&channel, 3);
    for _ in 0..10 {
        running.queue.push(Arc::new(alert()));
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(channel.attempts.lock().len(), 3);
    sleep(Duration::from_secs(3_595)).await;
    let attempts = channel.attempts.lock();
    assert_eq!(attempts.len(), 4, "one message about those held back");
    assert!(attempts[3].1.contains("because there were too many: 7."), "{}", attempts[3].1);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_and_never_waits() {
    let channel = Arc::new(Scripted { takes: Duration::from_secs(60), ..Scripted::default() });
    let running = start(&channel, 600);
    tokio::task::yield_now().await;
    // One is being sent once the worker runs; 32 wait.
    running.queue.push(Arc::new(alert()));
    sleep(Duration::from_secs(1)).await;
    for _ in 0..40 {
        running.queue.push(Arc::new(alert()));
    }
    sleep(Duration::from_secs(100)).await;
    let second = channel.attempts.lock()[1].1.clone();
    assert!(second.contains("because there were too many: 8."), "{second}");
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_refuses_is_not_flooded_with_messages_about_held_back_alerts() {
    let never = || SendError::Never(SafeText::clean("no such chat", 40));
    let channel = Scripted::with((0..50).map(|_| never()));
    let running = start(&channel, 2);
    for _ in 0..4 {
        running.queue.push(Arc::new(alert()));
    }
    sleep(Duration::from_secs(10 * 3_600)).await;
    assert_eq!(channel.attempts.lock().len(), 2, "one for each alert within the limit");
    running.queue.push(Arc::new(alert()));
    sleep(Duration::from_secs(1)).await;
    let last = channel.attempts.lock().last().unwrap().1.clone();
    assert!(last.contains("because there were too many: 2."), "{last}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_waits_for_no_retry() {
    let channel = Scripted::with(std::iter::repeat_n(again(Some(3_000)), 50));
    let Running { queue, reports: _reports, ending, work } = start(&channel, 10);
    queue.push(Arc::new(alert()));
    queue.push(Arc::new(Alert { id: "second".to_owned(), ..alert() }));
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    ending.send_replace(true);
    drop(queue);
    work.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(channel.attempts.lock().last().unwrap().2, "second", "what waits is tried once");
}

#[tokio::test(start_paused = true)]
async fn prices_leave_room_for_a_stop_and_a_decision_that_is_over_is_not_sent() {
    let channel = Scripted::with([]);
    let running = start(&channel, 4);
    let of = |rule| Arc::new(Alert { rule: Some(rule), ..alert() });
    for _ in 0..6 {
        running.queue.push(of(AlertRule::Price));
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(channel.attempts.lock().len(), 2, "half of the hour's messages");
    running.queue.push(Arc::new(Alert { lapses_at: Some(0), ..alert() }));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(channel.attempts.lock().len(), 2, "over");
    running.queue.push(of(AlertRule::Stop));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(channel.attempts.lock().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_alert_does_not_block_its_channel_for_hours() {
    let channel = Scripted::with(std::iter::repeat_n(again(Some(400)), 7));
    let running = start(&channel, 10);
    running.queue.push(Arc::new(alert()));
    running.queue.push(Arc::new(Alert { id: "second".to_owned(), ..alert() }));
    sleep(Duration::from_secs(500)).await;
    let ids: Vec<String> = channel.attempts.lock().iter().map(|(.., id)| id.clone()).collect();
    assert_eq!(ids.iter().filter(|id| *id == "second").count(), 1, "{ids:?}");
}
