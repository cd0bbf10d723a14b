//! State that a console needs to begin with, gathered from the session's news.

use std::collections::BTreeMap;
use std::sync::Arc;

use bardo_base::fabric::Event;
use bardo_session::handle::{News, Ready, ReplayState, SessionSummary, Snapshot};
use bardo_session::market::{BootStep, ChainSnapshot, EndpointsState, Network, Update};
use bardo_session::questions::Question;

/// Blocks that are kept per chain.
const BLOCKS: usize = 240;
/// Rows of activity that are kept per chain.
const ACTIVITY: usize = 400;

/// Latest state of everything that news replaces.
#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    steps: Vec<BootStep>,
    network: Option<Network>,
    chains: BTreeMap<usize, ChainSnapshot>,
    endpoints: BTreeMap<usize, EndpointsState>,
    faults: BTreeMap<Option<usize>, News>,
    ready: Option<Box<Ready>>,
    /// Latest event only. A console that begins with it notices that earlier ones are missing, and queries them.
    event: Option<Arc<Event>>,
    questions: Option<Arc<Vec<Question>>>,
    snapshot: Option<Arc<Snapshot>>,
    replay: Option<ReplayState>,
    left: Option<Box<SessionSummary>>,
}

impl CatchUp {
    /// Takes in news that every console receives.
    pub fn note(&mut self, news: &News) {
        match news {
            News::Market(update) => self.note_market(update, news),
            News::Ready(ready) => self.ready = Some(ready.clone()),
            News::Events(events) => self.event = events.last().cloned().or_else(|| self.event.take()),
            News::Questions(questions) => self.questions = Some(questions.clone()),
            News::Snapshot(snapshot) => self.snapshot = Some(snapshot.clone()),
            News::Replay(state) => self.replay = Some(*state),
            News::Left(summary) => self.left = Some(summary.clone()),
            // Replies belong to the console that asked; a message is of its moment.
            News::Offered { .. }
            | News::Began { .. }
            | News::Reply { .. }
            | News::Found { .. }
            | News::CommandResult { .. } => {}
        }
    }

    fn note_market(&mut self, update: &Update, news: &News) {
        match update {
            Update::Boot(step) => {
                self.steps.retain(|known| known.chain != step.chain || known.step != step.step);
                self.steps.push(step.clone());
            }
            Update::Started(network) => self.network = Some(network.clone()),
            Update::Chain(snapshot) => {
                // A chain that answers again has no fault.
                self.faults.remove(&Some(snapshot.chain));
                let known = self.chains.remove(&snapshot.chain);
                self.chains.insert(snapshot.chain, joined(known, snapshot));
            }
            Update::Fault { chain, .. } => drop(self.faults.insert(*chain, news.clone())),
            Update::Endpoints { chain, state } => drop(self.endpoints.insert(*chain, state.clone())),
        }
    }

    /// News that bring a new console to the present state, in the order in which a first one received them.
    pub fn news(&self) -> Vec<News> {
        let market = |update| News::Market(update);
        let mut news: Vec<News> = self.steps.iter().cloned().map(Update::Boot).map(market).collect();
        news.extend(self.network.clone().map(Update::Started).map(market));
        news.extend(self.chains.values().cloned().map(|chain| market(Update::Chain(Box::new(chain)))));
        let endpoints = self.endpoints.iter().map(|(chain, state)| (*chain, state.clone()));
        news.extend(endpoints.map(|(chain, state)| market(Update::Endpoints { chain, state })));
        news.extend(self.faults.values().cloned());
        news.extend(self.ready.clone().map(News::Ready));
        news.extend(self.snapshot.clone().map(News::Snapshot));
        news.extend(self.questions.clone().map(News::Questions));
        news.extend(self.event.clone().map(|event| News::Events(vec![event])));
        news.extend(self.replay.map(News::Replay));
        news.extend(self.left.clone().map(News::Left));
        news
    }
}

/// Joins a chain's newest state with the blocks and activity that are known from before. A block with a known number
/// replaces that block and all later ones.
fn joined(known: Option<ChainSnapshot>, new: &ChainSnapshot) -> ChainSnapshot {
    let Some(mut known) = known else { return new.clone() };
    if let Some(first) = new.blocks.first().map(|block| block.number) {
        known.blocks.retain(|block| block.number < first);
        known.activity.retain(|row| row.block < first);
    }
    known.blocks.extend(new.blocks.iter().cloned());
    known.activity.extend(new.activity.iter().cloned());
    let surplus = known.blocks.len().saturating_sub(BLOCKS);
    known.blocks.drain(..surplus);
    let surplus = known.activity.len().saturating_sub(ACTIVITY);
    known.activity.drain(..surplus);
    ChainSnapshot { blocks: known.blocks, activity: known.activity, ..new.clone() }
}
