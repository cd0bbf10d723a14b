//! State that a console needs to begin with, gathered from the session's news.

use std::collections::BTreeMap;
use std::sync::Arc;

use bardo_base::fabric::Event;
use bardo_session::handle::{ReplayState, SessionInfo, SessionNews, SessionSnapshot, SessionSummary};
use bardo_session::market::{
    ACTIVITY_KEPT, BLOCKS_KEPT, BootStep, ChainSnapshot, EndpointsState, MarketUpdate, NetworkIdentity,
};
use bardo_session::questions::Question;

/// Latest state of everything that news replaces.
#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    steps: Vec<BootStep>,
    network: Option<NetworkIdentity>,
    chains: BTreeMap<usize, ChainSnapshot>,
    endpoints: BTreeMap<usize, EndpointsState>,
    faults: BTreeMap<Option<usize>, SessionNews>,
    ready: Option<Box<SessionInfo>>,
    /// Latest event only. A console that begins with it notices that earlier ones are missing, and queries them.
    event: Option<Arc<Event>>,
    questions: Option<Arc<Vec<Question>>>,
    snapshot: Option<Arc<SessionSnapshot>>,
    replay: Option<ReplayState>,
    left: Option<Box<SessionSummary>>,
}

impl CatchUp {
    /// Takes in news that every console receives.
    pub fn note(&mut self, news: &SessionNews) {
        match news {
            SessionNews::Market(update) => self.note_market(update, news),
            SessionNews::Ready(ready) => self.ready = Some(ready.clone()),
            SessionNews::Events(events) => self.event = events.last().cloned().or_else(|| self.event.take()),
            SessionNews::Questions(questions) => self.questions = Some(questions.clone()),
            SessionNews::Snapshot(snapshot) => self.snapshot = Some(snapshot.clone()),
            SessionNews::Replay(state) => self.replay = Some(*state),
            SessionNews::Left(summary) => self.left = Some(summary.clone()),
            // Replies belong to the console that asked; a command's outcome concerns only the moment when it was given.
            SessionNews::Offered { .. }
            | SessionNews::Began { .. }
            | SessionNews::Reply { .. }
            | SessionNews::Found { .. }
            | SessionNews::CommandResult { .. } => {}
        }
    }

    fn note_market(&mut self, update: &MarketUpdate, news: &SessionNews) {
        match update {
            MarketUpdate::Boot(step) => {
                self.steps.retain(|known| known.chain != step.chain || known.step != step.step);
                self.steps.push(step.clone());
            }
            MarketUpdate::Started(network) => self.network = Some(network.clone()),
            MarketUpdate::Chain(snapshot) => {
                // A chain that answers again has no fault.
                self.faults.remove(&Some(snapshot.chain));
                let known = self.chains.remove(&snapshot.chain);
                self.chains.insert(snapshot.chain, joined(known, snapshot));
            }
            MarketUpdate::Fault { chain, .. } => drop(self.faults.insert(*chain, news.clone())),
            MarketUpdate::Endpoints { chain, state } => drop(self.endpoints.insert(*chain, state.clone())),
        }
    }

    /// News that bring a new console to the present state, in the order in which a first one received them.
    pub fn news(&self) -> Vec<SessionNews> {
        let market = |update| SessionNews::Market(update);
        let mut news: Vec<SessionNews> = self.steps.iter().cloned().map(MarketUpdate::Boot).map(market).collect();
        news.extend(self.network.clone().map(MarketUpdate::Started).map(market));
        news.extend(self.chains.values().cloned().map(|chain| market(MarketUpdate::Chain(Box::new(chain)))));
        let endpoints = self.endpoints.iter().map(|(chain, state)| (*chain, state.clone()));
        news.extend(endpoints.map(|(chain, state)| market(MarketUpdate::Endpoints { chain, state })));
        news.extend(self.faults.values().cloned());
        news.extend(self.ready.clone().map(SessionNews::Ready));
        news.extend(self.snapshot.clone().map(SessionNews::Snapshot));
        news.extend(self.questions.clone().map(SessionNews::Questions));
        news.extend(self.event.clone().map(|event| SessionNews::Events(vec![event])));
        news.extend(self.replay.map(SessionNews::Replay));
        news.extend(self.left.clone().map(SessionNews::Left));
        news
    }
}

/// Joins a chain's newest state with the blocks and activity that are known from before, as many as a console keeps. A
/// block with a known number replaces that block and all later ones.
fn joined(known: Option<ChainSnapshot>, new: &ChainSnapshot) -> ChainSnapshot {
    let Some(mut known) = known else { return new.clone() };
    if let Some(first) = new.blocks.first().map(|block| block.number) {
        known.blocks.retain(|block| block.number < first);
        known.activity.retain(|row| row.block < first);
    }
    known.blocks.extend(new.blocks.iter().cloned());
    known.activity.extend(new.activity.iter().cloned());
    let surplus = known.blocks.len().saturating_sub(BLOCKS_KEPT);
    known.blocks.drain(..surplus);
    let surplus = known.activity.len().saturating_sub(ACTIVITY_KEPT);
    known.activity.drain(..surplus);
    ChainSnapshot { blocks: known.blocks, activity: known.activity, ..new.clone() }
}
