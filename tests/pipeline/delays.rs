//! A delay must pass on both clocks: the wall clock and the monotonic one.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bardo::base::clock::{Clock, SystemClock};
use bardo::fabric::Fabric;
use bardo::safety::approval::{ApprovalNeed, ApprovalQueue, Decision};
use futures::future::BoxFuture;
use futures::poll;

use bardo_testkit::harness::{ASKED, TestHarness};

const HUNDRED: u64 = 100_000_000;
const DELAY: u64 = 300_000;

/// Clock with two scales that a test moves independently.
#[derive(Debug, Default)]
struct SteppedClock {
    wall: AtomicU64,
    steady: AtomicU64,
}

impl SteppedClock {
    fn wall(&self, millis: u64) {
        self.wall.fetch_add(millis, Ordering::SeqCst);
    }

    fn steady(&self, millis: u64) {
        self.steady.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for SteppedClock {
    fn now_millis(&self) -> u64 {
        self.wall.load(Ordering::SeqCst)
    }

    fn steady_millis(&self) -> u64 {
        self.steady.load(Ordering::SeqCst)
    }

    fn pause(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::task::yield_now())
    }
}

struct Waiting {
    world: TestHarness,
    clock: Arc<SteppedClock>,
    queue: ApprovalQueue,
}

impl Waiting {
    async fn new() -> Self {
        let world = TestHarness::new(0).await;
        *world.book.need.lock().unwrap() = ApprovalNeed::Delay { millis: DELAY };
        let clock = Arc::new(SteppedClock::default());
        clock.wall(SystemClock.now_millis());
        let queue =
            ApprovalQueue::new(clock.clone(), Fabric::in_memory(100, Arc::new(SystemClock)), Duration::from_secs(300));
        Self { world, clock, queue }
    }

    /// A waiting action, under a permit with this lifetime in minutes.
    async fn preview(&self, minutes: u64) -> Arc<bardo::safety::pipeline::Preview> {
        self.preview_of(HUNDRED, minutes).await
    }

    /// The same with this allowance.
    async fn preview_of(&self, amount: u64, minutes: u64) -> Arc<bardo::safety::pipeline::Preview> {
        let lasting = self.world.with_permits_of(Duration::from_secs(minutes * 60));
        Arc::new(lasting.preview(self.world.approval(amount), self.world.wallet.clone(), ASKED).await.unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_the_clock_forward_does_not_shorten_a_delay() {
    let waiting = Waiting::new().await;
    let mut ticket = waiting.queue.ask(waiting.preview(60).await);
    let mut decision = pin!(ticket.decision());
    assert!(poll!(&mut decision).is_pending());
    waiting.clock.wall(DELAY + 1_000);
    for _ in 0..10 {
        assert!(poll!(&mut decision).is_pending(), "it passed by the wall clock alone");
    }
    waiting.clock.steady(DELAY);
    assert!(matches!(decision.await, Decision::Approved(_)));

    // Nor does setting the clock back: the displayed time was promised as well.
    let mut ticket = waiting.queue.ask(waiting.preview(60).await);
    let mut decision = pin!(ticket.decision());
    waiting.clock.steady(DELAY + 1_000);
    for _ in 0..10 {
        assert!(poll!(&mut decision).is_pending(), "it passed by the steady clock alone");
    }
    waiting.clock.wall(DELAY);
    assert!(matches!(decision.await, Decision::Approved(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_whose_permit_has_expired_starts_again() {
    let waiting = Waiting::new().await;
    let mut ticket = waiting.queue.ask(waiting.preview(10).await);
    waiting.clock.wall(601_000);
    waiting.clock.steady(601_000);
    assert!(matches!(ticket.decision().await, Decision::PermitExpired));
    ticket.replace(waiting.preview(60).await);
    assert_eq!(waiting.queue.pending()[0].ends_at, waiting.clock.now_millis() + DELAY);
    let mut decision = pin!(ticket.decision());
    for _ in 0..10 {
        assert!(poll!(&mut decision).is_pending(), "nobody has seen what passes");
    }
    waiting.clock.wall(DELAY);
    waiting.clock.steady(DELAY);
    assert!(matches!(decision.await, Decision::Approved(_)));
}

/// An agent can choose the moment at which its action is simulated again: at the end of the delay, with more than was shown.
#[tokio::test(flavor = "multi_thread")]
async fn what_became_worse_is_shown_for_the_whole_delay() {
    let waiting = Waiting::new().await;
    let mut ticket = waiting.queue.ask(waiting.preview(60).await);
    let shown = waiting.queue.pending()[0].ends_at;
    let almost = DELAY - 1_000;
    waiting.clock.wall(almost);
    waiting.clock.steady(almost);
    ticket.replace(waiting.preview(60).await);
    assert_eq!(waiting.queue.pending()[0].ends_at, shown, "nothing changed");
    ticket.replace(waiting.preview_of(2 * HUNDRED, 60).await);
    assert_eq!(waiting.queue.pending()[0].ends_at, waiting.clock.now_millis() + DELAY);
    let mut decision = pin!(ticket.decision());
    waiting.clock.wall(almost);
    waiting.clock.steady(almost);
    for _ in 0..10 {
        assert!(poll!(&mut decision).is_pending(), "twice as much passed after a second");
    }
    waiting.clock.wall(1_000);
    waiting.clock.steady(1_000);
    assert!(matches!(decision.await, Decision::Approved(_)));
}
