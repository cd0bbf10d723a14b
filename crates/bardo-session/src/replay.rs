//! Playback of a recorded run for a console: at any speed, paused, step by step, from any position. Nothing is
//! connected, and every command that would change something is rejected.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Address;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::handle::{
    AddressedCommand, QueryResult, ReplayControl, ReplayState, SessionCommand, SessionEnd, SessionHandle, SessionInfo,
    SessionNews, SessionQuery, SessionSummary,
};
use crate::market::{ChainIdentity, MarketUpdate, MoneyKind, NetworkIdentity};
use bardo_base::chains::{DEVNET_BASE, DEVNET_ETHEREUM};
use bardo_base::fabric::{Event, EventKind, JournalError, read_journal};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;

/// Maximum number of events sent in one message.
const AT_ONCE: usize = 256;
/// Ticket of a history that the console accepts as its complete state.
pub const WHOLE_TICKET: u64 = 1;
/// Longest pause of a recording that is played, in milliseconds, so that long silences are shortened.
const LONGEST_PAUSE: u64 = 5_000;
/// Slowest and fastest speed, in percent of the recorded pace.
const SLOWEST: u32 = 10;
const FASTEST: u32 = 100_000;

/// Maximum size of a recording in bytes, because all of it is kept in memory.
const MOST_BYTES: u64 = 512 << 20;

/// Opens a recording and starts its playback. Must be called on a tokio runtime.
///
/// # Errors
/// [`JournalError`] if the file cannot be read, is too large, or contains an invalid event.
pub fn open(path: &Path, speed_percent: u32) -> Result<SessionHandle, JournalError> {
    let size = std::fs::metadata(path).map_or(0, |found| found.len());
    if size > MOST_BYTES {
        return Err(JournalError::Read {
            path: path.to_owned(),
            reason: "it is larger than 512 MiB, the maximum for a replay".to_owned(),
        });
    }
    let events: Vec<Arc<Event>> =
        read_journal(path)?.map(|event| event.map(Arc::new)).collect::<Result<_, JournalError>>()?;
    let (handle, end) = SessionHandle::pair();
    tokio::spawn(play(events, speed_percent.clamp(SLOWEST, FASTEST), end));
    Ok(handle)
}

/// State of the playback.
struct ReplayPlayer {
    events: Vec<Arc<Event>>,
    /// Number of events played.
    at: usize,
    speed: u32,
    paused: bool,
    news: mpsc::Sender<SessionNews>,
    chains: Vec<u64>,
    /// Time of the last automatic event, or of the last start. The next pause counts from it, whatever commands arrive.
    since: Instant,
}

async fn play(events: Vec<Arc<Event>>, speed: u32, end: SessionEnd) {
    let SessionEnd { mut commands, news } = end;
    let chains = chains_of(&events);
    let mut player = ReplayPlayer { at: 0, speed, paused: false, news, chains, events, since: Instant::now() };
    player.introduce().await;
    loop {
        let waiting = !player.paused && player.at < player.events.len();
        let due = player.since + player.pause();
        tokio::select! {
            sent = commands.recv() => {
                let Some(AddressedCommand { command, .. }) = sent else { return };
                if !player.command(command).await {
                    return;
                }
            }
            () = sleep_until(due), if waiting => player.advance(AT_ONCE).await,
        }
    }
}

/// The chains that the recording names, or has blocks or transactions of, in the order of their numbers.
fn chains_of(events: &[Arc<Event>]) -> Vec<u64> {
    let mut all = BTreeSet::new();
    for event in events {
        match &event.kind {
            EventKind::SessionOpened(opened) => all.extend(opened.chains.iter().map(|chain| chain.chain_id)),
            EventKind::ChainBlock(block) => drop(all.insert(block.chain_id)),
            EventKind::TxUpdate(update) => drop(all.insert(update.chain_id)),
            _ => {}
        }
    }
    all.into_iter().collect()
}

impl ReplayPlayer {
    async fn publish(&self, news: SessionNews) {
        // A closed channel means that the console is gone.
        let _gone = self.news.send(news).await;
    }

    async fn introduce(&self) {
        let opened = self.events.iter().find_map(|event| match &event.kind {
            EventKind::SessionOpened(opened) => Some(opened),
            _ => None,
        });
        // A recording before version 4 names no chain.
        let name =
            |id: u64| match (opened.and_then(|opened| opened.chains.iter().find(|chain| chain.chain_id == id)), id) {
                (Some(chain), _) => chain.name.clone(),
                (None, DEVNET_ETHEREUM) => SafeText::clean("ethereum", 40),
                (None, DEVNET_BASE) => SafeText::clean("base", 40),
                (None, other) => SafeText::clean(&format!("chain {other}"), 40),
            };
        let identity = |id: &u64| ChainIdentity { name: name(*id), id: *id, interval_millis: None };
        let network = NetworkIdentity {
            name: SafeText::clean("a recorded run", 40),
            money: MoneyKind::Replay,
            chains: self.chains.iter().map(identity).collect(),
            wallet: opened.and_then(|opened| opened.account).unwrap_or(Address::ZERO),
        };
        self.publish(SessionNews::Market(MarketUpdate::Started(network))).await;
        let golem = self.events.iter().map(|event| &event.golem_id).find(|id| **id != GolemId::operator());
        let golem_id = golem.cloned().unwrap_or_else(GolemId::operator);
        let name = SafeText::clean(golem_id.as_str(), 40);
        self.publish(SessionNews::Ready(Box::new(SessionInfo {
            golem_id,
            name,
            role: SafeText::clean("recorded", 40),
            tools: Vec::new(),
            scenarios: Vec::new(),
            journal: None,
            commands: Vec::new(),
            brain: None,
            not_attached: None,
            own_devnet: false,
            served: false,
        })))
        .await;
        self.send_position().await;
    }

    /// Sends the position.
    async fn send_position(&self) {
        let count = |events: usize| u64::try_from(events).unwrap_or(u64::MAX);
        let (told, of) = (count(self.at), count(self.events.len()));
        self.publish(SessionNews::Replay(ReplayState { paused: self.paused, speed_percent: self.speed, told, of }))
            .await;
    }

    /// Time to wait before the next event at the current speed.
    fn pause(&self) -> Duration {
        let before = self.at.checked_sub(1).and_then(|at| self.events.get(at)).map(|event| event.at);
        let next = self.events.get(self.at).map(|event| event.at);
        let gap = match (before, next) {
            (Some(before), Some(next)) => next.saturating_sub(before).min(LONGEST_PAUSE),
            _ => 0,
        };
        Duration::from_millis(gap.saturating_mul(100) / u64::from(self.speed.max(1)))
    }

    /// Plays the next event, and up to `most` events with the same timestamp.
    async fn advance(&mut self, most: usize) {
        self.since = Instant::now();
        let Some(first) = self.events.get(self.at).cloned() else { return };
        let rest = self.events.get(self.at..).unwrap_or_default();
        let batch: Vec<_> = rest.iter().take_while(|event| event.at == first.at).take(most).cloned().collect();
        self.at += batch.len();
        self.publish(SessionNews::Events(batch)).await;
        self.send_position().await;
        if self.at == self.events.len() {
            self.send_event(true, "end of the recording").await;
        }
    }

    async fn send_event(&self, done: bool, words: &str) {
        self.publish(SessionNews::CommandResult { done, words: SafeText::clean(words, 200) }).await;
    }

    /// Carries out a command. Returns false if the playback must end.
    async fn command(&mut self, command: SessionCommand) -> bool {
        match command {
            SessionCommand::Leave(_) => {
                self.publish(SessionNews::Left(Box::<SessionSummary>::default())).await;
                return false;
            }
            SessionCommand::Replay(control) => self.control(control).await,
            SessionCommand::Look { ticket, query } => {
                let found = match query {
                    SessionQuery::History { .. } => self.whole(),
                    SessionQuery::Audit { .. } | SessionQuery::AuditTail { .. } | SessionQuery::VerifyAudit => {
                        QueryResult::Nothing { why: SafeText::clean("a recording has no audit log", 60) }
                    }
                };
                self.publish(SessionNews::Found { ticket, found: Box::new(found) }).await;
            }
            _ => self.send_event(false, "this is a recording: commands have no effect").await,
        }
        true
    }

    /// History with all events up to the current position.
    fn whole(&self) -> QueryResult {
        let events = self.events.get(..self.at).unwrap_or_default().to_vec();
        let last = events.last().map_or(0, |event| event.seq);
        QueryResult::History { events, last, complete: true }
    }

    async fn control(&mut self, control: ReplayControl) {
        match control {
            ReplayControl::Toggle => {
                self.paused = !self.paused;
                self.since = Instant::now();
            }
            ReplayControl::Step => {
                self.paused = true;
                self.advance(1).await;
            }
            ReplayControl::Faster => self.speed = self.speed.saturating_mul(2).clamp(SLOWEST, FASTEST),
            ReplayControl::Slower => self.speed = (self.speed / 2).clamp(SLOWEST, FASTEST),
            ReplayControl::Seek { percent } => {
                self.at = self.events.len().saturating_mul(usize::from(percent.min(100))) / 100;
                self.since = Instant::now();
                self.publish(SessionNews::Found { ticket: WHOLE_TICKET, found: Box::new(self.whole()) }).await;
            }
        }
        self.send_position().await;
        let state = if self.paused { "paused" } else { "playing" };
        let words = format!("{state} at {} % speed, event {} of {}", self.speed, self.at, self.events.len());
        self.send_event(true, &words).await;
    }
}

#[cfg(test)]
mod tests;
