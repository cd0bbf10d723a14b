//! Tests of the playback, with journals written by the event fabric and a paused clock.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use bardo_base::clock::Clock;
use bardo_base::fabric::{ChainBlock, ChainOpened, Fabric, FabricConfig, SessionOpened};

/// Start of the recorded run, in milliseconds since the Unix epoch.
const BEGAN: u64 = 1_700_000_000_000;
/// Time after which every automatic event has been played.
const LONG: Duration = Duration::from_secs(3_600);

/// Clock of the recorded run.
#[derive(Debug)]
struct Recorded(AtomicU64);

impl Clock for Recorded {
    fn now_millis(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Journal with an event at each of these times, in milliseconds after its start.
fn journal(folder: &tempfile::TempDir, times: &[u64]) -> PathBuf {
    let path = folder.path().join("run.jsonl");
    let clock = Arc::new(Recorded(AtomicU64::new(BEGAN)));
    let config = FabricConfig { ring: 64, journal: Some(path.clone()), clock: clock.clone() };
    let fabric = Fabric::new(config).unwrap();
    for (number, after) in (1..).zip(times) {
        clock.0.store(BEGAN + after, Ordering::Relaxed);
        let block = ChainBlock { chain_id: DEVNET_BASE, number, timestamp: BEGAN / 1000 + number };
        fabric.emit(&"ada".parse().unwrap(), None, EventKind::ChainBlock(block));
    }
    fabric.flush().unwrap();
    path
}

/// Console side of a playback, with the time of its start.
struct Watcher {
    handle: SessionHandle,
    start: Instant,
    /// Last reported position.
    place: Option<ReplayState>,
}

impl Watcher {
    fn of(path: &Path, speed_percent: u32) -> Self {
        Self { handle: open(path, speed_percent).unwrap(), start: Instant::now(), place: None }
    }

    async fn send(&self, command: SessionCommand) {
        self.handle.commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    }

    async fn steer(&self, control: ReplayControl) {
        self.send(SessionCommand::Replay(control)).await;
    }

    /// Next news before this time after the start; `None` if there is none.
    async fn next(&mut self, until: Duration) -> Option<SessionNews> {
        let news = tokio::time::timeout_at(self.start + until, self.handle.news.recv()).await.ok()?;
        if let Some(SessionNews::Replay(now)) = &news {
            self.place = Some(*now);
        }
        news
    }

    /// Times and numbers of the events before this time after the start.
    async fn events(&mut self, until: Duration) -> Vec<(u128, u64)> {
        let mut came = Vec::new();
        while let Some(news) = self.next(until).await {
            if let SessionNews::Events(events) = news {
                let at = self.start.elapsed().as_millis();
                came.extend(events.iter().map(|event| (at, event.seq)));
            }
        }
        came
    }

    /// Numbers of the events in the next history.
    async fn history(&mut self) -> Vec<u64> {
        loop {
            if let SessionNews::Found { ticket: WHOLE_TICKET, found } = self.next(LONG * 100).await.unwrap() {
                let QueryResult::History { events, .. } = *found else { panic!("{found:?}") };
                return events.iter().map(|event| event.seq).collect();
            }
        }
    }

    /// Last reported position: events played, all events, and whether it is paused.
    fn at(&self) -> (u64, u64, bool) {
        self.place.map(|now| (now.told, now.of, now.paused)).unwrap()
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn every_event_comes_in_order_at_the_pace_of_the_recording_and_a_long_wait_is_cut_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = journal(&folder, &[0, 1_000, 1_000, 3_000, 3_600_000]);
    let mut whole = Watcher::of(&path, 100);
    assert_eq!(whole.events(LONG).await, [(0, 1), (1_000, 2), (1_000, 3), (3_000, 4), (8_000, 5)]);
    assert_eq!(whole.at(), (5, 5, false));
    let mut half = Watcher::of(&path, 50);
    assert_eq!(half.events(LONG).await, [(0, 1), (2_000, 2), (2_000, 3), (6_000, 4), (16_000, 5)]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_replay_continues_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::of(&journal(&folder, &[0, 1_000, 2_000]), 100);
    assert_eq!(watcher.events(millis(1_500)).await, [(0, 1), (1_000, 2)]);
    watcher.steer(ReplayControl::Toggle).await;
    assert_eq!(watcher.events(LONG).await, []);
    assert_eq!(watcher.at(), (2, 3, true));
    watcher.steer(ReplayControl::Toggle).await;
    // The wait before the next event starts over, so that nothing jumps on continuing.
    assert_eq!(watcher.events(LONG * 2).await, [(3_601_000, 3)]);
    assert_eq!(watcher.at(), (3, 3, false));
}

#[tokio::test(start_paused = true)]
async fn a_step_delivers_one_of_two_simultaneous_events_and_pauses() {
    let folder = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::of(&journal(&folder, &[0, 500, 500, 900]), 100);
    assert_eq!(watcher.events(millis(100)).await, [(0, 1)]);
    for step in 2..=4 {
        watcher.steer(ReplayControl::Step).await;
        let until = watcher.start.elapsed() + LONG;
        let came: Vec<u64> = watcher.events(until).await.into_iter().map(|(_, seq)| seq).collect();
        assert_eq!((came, watcher.at()), (vec![step], (step, 4, true)));
    }
    // No further event follows.
    watcher.steer(ReplayControl::Step).await;
    assert_eq!(watcher.events(watcher.start.elapsed() + LONG).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_new_speed_counts_from_the_last_event_and_lookups_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::of(&journal(&folder, &[0, 4_000, 8_000, 12_000]), 100);
    assert_eq!(watcher.events(millis(1_000)).await, [(0, 1)]);
    watcher.send(SessionCommand::Look { ticket: 7, query: SessionQuery::VerifyAudit }).await;
    assert_eq!(watcher.events(millis(1_200)).await, []);
    watcher.steer(ReplayControl::Faster).await;
    assert_eq!(watcher.events(millis(4_500)).await, [(2_000, 2), (4_000, 3)]);
    assert_eq!(watcher.place.map(|now| now.speed_percent), Some(200));
    watcher.steer(ReplayControl::Slower).await;
    watcher.steer(ReplayControl::Slower).await;
    assert_eq!(watcher.events(LONG).await, [(12_000, 4)]);
    assert_eq!(watcher.place.map(|now| now.speed_percent), Some(50));
}

#[tokio::test(start_paused = true)]
async fn a_seek_delivers_all_earlier_events_and_continues_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::of(&journal(&folder, &[0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000]), 100);
    watcher.steer(ReplayControl::Toggle).await;
    for (percent, told) in [(100, 8), (0, 0), (50, 4), (49, 3), (200, 8), (25, 2)] {
        watcher.steer(ReplayControl::Seek { percent }).await;
        assert_eq!(watcher.history().await, (1..=told).collect::<Vec<_>>(), "{percent} %");
        assert_eq!(watcher.events(watcher.start.elapsed() + LONG).await, [], "it stands as it stood");
        assert_eq!(watcher.at(), (told, 8, true));
    }
    watcher.steer(ReplayControl::Toggle).await;
    let rest: Vec<u64> = watcher.events(watcher.start.elapsed() + LONG).await.into_iter().map(|(_, seq)| seq).collect();
    assert_eq!(rest, [3, 4, 5, 6, 7, 8]);
}

#[tokio::test(start_paused = true)]
async fn a_recording_accepts_no_command_and_ends_when_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::of(&journal(&folder, &[0]), 100);
    watcher.events(millis(10)).await;
    for command in [SessionCommand::Hold, SessionCommand::AskToLeavePaper, SessionCommand::RevokeGrant { number: 1 }] {
        watcher.send(command).await;
        assert!(matches!(watcher.next(LONG).await, Some(SessionNews::CommandResult { done: false, .. })));
    }
    watcher.send(SessionCommand::Leave(super::super::handle::LeaveMode::Finish)).await;
    assert!(matches!(watcher.next(LONG).await, Some(SessionNews::Left(_))));
    assert!(watcher.handle.news.recv().await.is_none());
}

#[test]
fn a_file_that_is_not_a_journal_is_rejected_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "not an event\n").unwrap();
    let refused = open(&path, 100).unwrap_err().to_string();
    assert!(refused.contains("notes.txt line 1"), "{refused}");
}

/// A recording names its chains and its account; one that was made before it did shows their ids.
#[tokio::test(start_paused = true)]
async fn a_recording_names_the_chains_that_its_session_had() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let clock = Arc::new(Recorded(AtomicU64::new(BEGAN)));
    let fabric = Fabric::new(FabricConfig { ring: 64, journal: Some(path.clone()), clock }).unwrap();
    let (golem, account) = ("ada".parse().unwrap(), Address::repeat_byte(7));
    let chain = ChainOpened {
        chain_id: 4_242,
        name: SafeText::clean("somewhere", 20),
        native_symbol: SafeText::clean("SOME", 20),
    };
    let opened =
        SessionOpened { network: SafeText::clean("a network", 20), account: Some(account), chains: vec![chain] };
    fabric.emit(&golem, None, EventKind::SessionOpened(opened));
    for chain_id in [4_242, 77] {
        fabric.emit(&golem, None, EventKind::ChainBlock(ChainBlock { chain_id, number: 1, timestamp: BEGAN / 1000 }));
    }
    fabric.flush().unwrap();
    let mut watcher = Watcher::of(&path, 100);
    let Some(SessionNews::Market(MarketUpdate::Started(network))) = watcher.next(LONG).await else {
        panic!("no network")
    };
    let named: Vec<_> = network.chains.iter().map(|chain| (chain.id, chain.name.as_str())).collect();
    assert_eq!(named, [(77, "chain 77"), (4_242, "somewhere")]);
    assert_eq!(network.wallet, account);
}
