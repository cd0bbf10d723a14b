//! Delivery: one worker for each channel, with a bounded queue, retries, and a limit of messages per hour. What does not
//! fit is counted and reported with the next message.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::Rng as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::alert::{Alert, AlertMessage};
use super::channel::{Channel, ChannelName, SendError};
use bardo_base::config::AlertDetail;
use bardo_base::text::SafeText;

/// Alerts that wait for a channel.
const WAITING: usize = 32;
/// Attempts per alert.
const ATTEMPTS: u32 = 7;
/// Delay before the second attempt; each further delay is twice as long.
const FIRST_DELAY: Duration = Duration::from_secs(2);
/// Maximum delay between attempts, unless the server asks for more.
const LONGEST_DELAY: Duration = Duration::from_secs(300);
/// Period of the rate limit.
const HOUR: Duration = Duration::from_secs(3_600);
/// Maximum time that one alert may take: what waits behind it becomes stale.
const LONGEST_DELIVERY: Duration = Duration::from_secs(600);

/// Result of a channel's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeliveryReport {
    pub channel: ChannelName,
    /// Answer of the server to a delivered alert, or the error.
    pub result: Result<SafeText, SafeText>,
    /// True if the alert was given up.
    pub given_up: bool,
}

/// Sending side of a channel's queue.
#[derive(Debug, Clone)]
pub(crate) struct ChannelQueue {
    queue: mpsc::Sender<Arc<Alert>>,
    held: Arc<AtomicU64>,
}

impl ChannelQueue {
    /// Queues an alert. It is counted as held back if the queue is full.
    pub fn push(&self, alert: Arc<Alert>) {
        // The last places are for urgent alerts.
        let is_full = !alert.is_urgent() && self.queue.capacity() <= WAITING / 2;
        if is_full || self.queue.try_send(alert).is_err() {
            self.held.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Worker of one channel.
pub(crate) struct Worker {
    channel: Arc<dyn Channel>,
    detail: AlertDetail,
    per_hour: usize,
    queue: mpsc::Receiver<Arc<Alert>>,
    held: Arc<AtomicU64>,
    reports: mpsc::UnboundedSender<DeliveryReport>,
    /// True once the session has ended: nothing is awaited any more.
    ending: watch::Receiver<bool>,
    /// Moments of the messages of the last hour, and true for urgent ones.
    sent: VecDeque<(Instant, bool)>,
    /// Place of the last alert, for a message about held-back ones.
    place: SafeText,
    /// False if the last alert was given up: then no message about held-back ones is made, only added to the next alert.
    works: bool,
}

impl Worker {
    pub fn new(
        channel: Arc<dyn Channel>,
        (detail, per_hour): (AlertDetail, u64),
        reports: mpsc::UnboundedSender<DeliveryReport>,
        ending: watch::Receiver<bool>,
    ) -> (ChannelQueue, Self) {
        let (sender, queue) = mpsc::channel(WAITING);
        let held = Arc::<AtomicU64>::default();
        let per_hour = usize::try_from(per_hour).unwrap_or(usize::MAX).max(1);
        let worker = Self {
            channel,
            detail,
            per_hour,
            queue,
            held: Arc::clone(&held),
            reports,
            ending,
            sent: VecDeque::new(),
            place: SafeText::default(),
            works: true,
        };
        (ChannelQueue { queue: sender, held }, worker)
    }

    /// Works until the queue is closed and empty.
    pub async fn run(mut self, now_millis: impl Fn() -> u64 + Send) {
        loop {
            let summary_at = self.next_slot(false).filter(|_| self.works && self.held.load(Ordering::SeqCst) > 0);
            let next = tokio::select! {
                biased;
                alert = self.queue.recv() => match alert {
                    Some(alert) => alert,
                    None => return,
                },
                () = sleep_until(summary_at.unwrap_or_else(Instant::now)), if summary_at.is_some() => {
                    Arc::new(Alert::held_back(now_millis(), self.place.clone()))
                }
            };
            self.place = next.place.clone();
            let is_late = next.is_over(now_millis());
            if is_late || self.next_slot(next.is_urgent()).is_some_and(|at| at > Instant::now()) {
                self.held.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            self.sent.push_back((Instant::now(), next.is_urgent()));
            self.works = self.deliver(&next).await;
        }
    }

    /// Moment from which a message may be sent; forgets those that are older than an hour. Messages that are not urgent
    /// have half of the hour's. `None` only if time cannot be computed.
    fn next_slot(&mut self, urgent: bool) -> Option<Instant> {
        let now = Instant::now();
        while self.sent.front().is_some_and(|(at, _)| now.duration_since(*at) >= HOUR) {
            self.sent.pop_front();
        }
        let after = |oldest: Option<Instant>| oldest.map_or(Some(now), |at| at.checked_add(HOUR));
        let all = self.sent.front().map(|(at, _)| *at).filter(|_| self.sent.len() >= self.per_hour);
        let mut others = self.sent.iter().filter(|(_, urgent)| !urgent).map(|(at, _)| *at);
        let oldest = others.next();
        let is_crowded = !urgent && oldest.is_some() && others.count().saturating_add(1) >= self.per_hour.div_ceil(2);
        Some(after(all)?.max(after(oldest.filter(|_| is_crowded))?))
    }

    /// Delivers an alert. Returns false if it was given up.
    async fn deliver(&mut self, alert: &Alert) -> bool {
        let held_back = self.held.swap(0, Ordering::SeqCst);
        let message = AlertMessage { alert, detail: self.detail, held_back };
        let (mut delay, began) = (FIRST_DELAY, Instant::now());
        for attempt in 1..=ATTEMPTS {
            let error = match self.channel.send(&message).await {
                Ok(answer) => {
                    self.report(Ok(answer.0), false);
                    return true;
                }
                Err(error) => error,
            };
            let after = match &error {
                SendError::Again { after, .. } => *after,
                SendError::Never(_) => {
                    self.report(Err(error.why().clone()), true);
                    break;
                }
            };
            let pause = jittered(delay).max(after.unwrap_or_default());
            let too_late = began.elapsed().saturating_add(pause) > LONGEST_DELIVERY;
            let last = attempt == ATTEMPTS || too_late || *self.ending.borrow();
            self.report(Err(error.why().clone()), last);
            if last {
                break;
            }
            delay = delay.saturating_mul(2).min(LONGEST_DELAY);
            let ended = tokio::select! {
                () = sleep(pause) => false,
                _ = self.ending.wait_for(|ending| *ending) => true,
            };
            if ended {
                // One more attempt would only delay the end.
                self.report(Err(error.why().clone()), true);
                break;
            }
        }
        self.held.fetch_add(held_back, Ordering::SeqCst);
        false
    }

    fn report(&self, result: Result<SafeText, SafeText>, given_up: bool) {
        // Without a receiver the session has ended.
        let _ended = self.reports.send(DeliveryReport { channel: self.channel.name(), result, given_up });
    }
}

/// A delay between half and the whole of `delay`, so that several sessions do not return to a server together.
fn jittered(delay: Duration) -> Duration {
    let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(rand::rng().random_range(millis / 2..=millis))
}
