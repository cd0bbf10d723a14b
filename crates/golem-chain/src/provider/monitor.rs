//! Background task that keeps a chain's health current with one small request per endpoint and interval.

use super::{
    endpoint::Endpoint,
    health::{ChainEndpointHealth, EndpointCondition, HealthHandle, RequestOutcome},
};
use bardo_base::{clock::Clock, text::SafeText};
use futures::future::join_all;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, task::AbortHandle};

/// Settings of the health monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonitorRules {
    /// Time between two polls.
    pub interval: Duration,
    /// Number of polls after which the chain id is verified again.
    pub verify_every: u32,
    /// Timeout of a poll for one endpoint.
    pub patience: Duration,
}

impl Default for MonitorRules {
    fn default() -> Self {
        Self { interval: Duration::from_secs(6), verify_every: 20, patience: Duration::from_secs(8) }
    }
}

/// Health monitor of a chain's endpoints.
#[derive(Debug)]
pub struct EndpointMonitor {
    endpoints: Vec<Endpoint>,
    chain_id: u64,
    rules: MonitorRules,
    clock: Arc<dyn Clock>,
    polls: u32,
    out: watch::Sender<ChainEndpointHealth>,
}

/// Owner of a monitor's task; dropping it ends the task.
#[derive(Debug)]
pub struct MonitorGuard(AbortHandle);

impl Drop for MonitorGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl EndpointMonitor {
    /// Creates a monitor that has not polled yet, and a handle to its results.
    pub fn new(
        chain_id: u64,
        endpoints: Vec<Endpoint>,
        rules: MonitorRules,
        clock: Arc<dyn Clock>,
    ) -> (Self, HealthHandle) {
        let first = ChainEndpointHealth::from_endpoints(chain_id, endpoints.iter().map(Endpoint::health).collect());
        let (out, view) = watch::channel(first);
        (Self { endpoints, chain_id, rules, clock, polls: 0, out }, HealthHandle(view))
    }

    /// Polls every endpoint once and publishes the result.
    pub async fn poll(&mut self) {
        let verify = self.polls.is_multiple_of(self.rules.verify_every.max(1));
        self.polls = self.polls.wrapping_add(1);
        let patience = self.rules.patience;
        let heads = join_all(self.endpoints.iter().map(|endpoint| async move {
            let asked = tokio::time::timeout(patience, ask(endpoint, verify)).await;
            if asked.is_err() {
                let error = format!("no response to a poll within {} ms", patience.as_millis());
                endpoint.observe(RequestOutcome::Failed { error: SafeText::clean(&error, 100) });
            }
            asked.ok().flatten()
        }))
        .await;

        let reached = reached(heads.iter().flatten().map(|head| head.number));
        let now = self.clock.now_seconds();
        for (endpoint, head) in self.endpoints.iter().zip(&heads) {
            if let (Some(head), Some(reached)) = (head, reached) {
                let age = Duration::from_secs(now.saturating_sub(head.timestamp));
                endpoint.judge(reached.saturating_sub(head.number), Some(age));
            }
        }
        let endpoints = self.endpoints.iter().map(Endpoint::health).collect();
        // The order of endpoints depends on it, so polling continues without receivers.
        self.out.send_replace(ChainEndpointHealth::from_endpoints(self.chain_id, endpoints));
    }

    /// Spawns the polling task on the current tokio runtime.
    #[must_use = "dropping the guard ends the task"]
    pub fn spawn(mut self) -> MonitorGuard {
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(self.rules.interval);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                self.poll().await;
            }
        });
        MonitorGuard(task.abort_handle())
    }
}

/// Highest block that at least two endpoints have reached, or the only reported one. A single endpoint that claims to
/// be ahead therefore does not make the others look late.
fn reached(heads: impl Iterator<Item = u64>) -> Option<u64> {
    let mut heads: Vec<u64> = heads.collect();
    heads.sort_unstable_by(|one, other| other.cmp(one));
    heads.get(1).or(heads.first()).copied()
}

/// Reads the endpoint's head, after verifying the chain id if that is due. The endpoint updates its own statistics.
async fn ask(endpoint: &Endpoint, verify: bool) -> Option<super::health::BlockHead> {
    let health = endpoint.health();
    let wrong = health.chain_id.is_some_and(|found| found != endpoint.chain_id());
    if verify || wrong || health.chain_id.is_none() || health.condition() == EndpointCondition::Down {
        endpoint.verify_again().await.ok()?;
    }
    endpoint.head().await.ok()
}
