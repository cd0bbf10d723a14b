//! Health of endpoints and chains, as a state machine with a transition table.

use super::dispute::Dispute;
use bardo_base::text::SafeText;
use std::time::Duration;
use tokio::sync::watch;

/// Condition of an endpoint, or of a chain through its endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointCondition {
    /// Answers in time and follows the head of the chain.
    Healthy,
    /// No request has been made yet.
    Unproven,
    /// Answers, but slowly, late, or not always.
    Degraded,
    /// Does not answer at all.
    Down,
}

/// Grade of one observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservationGrade {
    /// A timely answer.
    Good,
    /// An answer that is slow or behind, or a rate limit.
    Poor,
    /// No usable answer.
    Bad,
}

/// Kind of consecutive observations that a transition counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObservationRun {
    Good,
    NotGood,
    NotBad,
    Bad,
}

/// Transition to another condition after a number of consecutive observations.
#[derive(Debug, Clone, Copy)]
struct Transition {
    from: EndpointCondition,
    run: ObservationRun,
    times: u32,
    to: EndpointCondition,
}

/// The transition table. Degradation takes fewer observations than recovery. No single observation changes an endpoint
/// that has been tried before, so that the order of endpoints stays stable.
const TRANSITIONS: &[Transition] = &[
    Transition {
        from: EndpointCondition::Unproven,
        run: ObservationRun::Good,
        times: 1,
        to: EndpointCondition::Healthy,
    },
    Transition { from: EndpointCondition::Unproven, run: ObservationRun::Bad, times: 1, to: EndpointCondition::Down },
    Transition {
        from: EndpointCondition::Unproven,
        run: ObservationRun::NotGood,
        times: 1,
        to: EndpointCondition::Degraded,
    },
    Transition {
        from: EndpointCondition::Healthy,
        run: ObservationRun::Bad,
        times: 2,
        to: EndpointCondition::Degraded,
    },
    Transition {
        from: EndpointCondition::Healthy,
        run: ObservationRun::NotGood,
        times: 3,
        to: EndpointCondition::Degraded,
    },
    Transition { from: EndpointCondition::Degraded, run: ObservationRun::Bad, times: 2, to: EndpointCondition::Down },
    Transition {
        from: EndpointCondition::Degraded,
        run: ObservationRun::Good,
        times: 4,
        to: EndpointCondition::Healthy,
    },
    Transition {
        from: EndpointCondition::Down,
        run: ObservationRun::NotBad,
        times: 2,
        to: EndpointCondition::Degraded,
    },
];

/// State machine of one endpoint: its condition and the lengths of the current runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthMachine {
    condition: EndpointCondition,
    good: u32,
    not_good: u32,
    not_bad: u32,
    bad: u32,
}

impl Default for HealthMachine {
    fn default() -> Self {
        Self::at(EndpointCondition::Unproven)
    }
}

impl HealthMachine {
    fn at(condition: EndpointCondition) -> Self {
        Self { condition, good: 0, not_good: 0, not_bad: 0, bad: 0 }
    }

    /// Current condition of the endpoint.
    pub fn condition(self) -> EndpointCondition {
        self.condition
    }

    /// Returns the state after one more observation.
    #[must_use]
    pub fn step(self, grade: ObservationGrade) -> Self {
        let count = |run: u32, goes_on: bool| if goes_on { run.saturating_add(1) } else { 0 };
        let next = Self {
            condition: self.condition,
            good: count(self.good, grade == ObservationGrade::Good),
            not_good: count(self.not_good, grade != ObservationGrade::Good),
            not_bad: count(self.not_bad, grade != ObservationGrade::Bad),
            bad: count(self.bad, grade == ObservationGrade::Bad),
        };
        let fires = |row: &&Transition| row.from == next.condition && next.run(row.run) >= row.times;
        TRANSITIONS.iter().find(fires).map_or(next, |row| Self::at(row.to))
    }

    fn run(self, run: ObservationRun) -> u32 {
        match run {
            ObservationRun::Good => self.good,
            ObservationRun::NotGood => self.not_good,
            ObservationRun::NotBad => self.not_bad,
            ObservationRun::Bad => self.bad,
        }
    }
}

/// Limits beyond which an answer is graded as poor. `None` disables a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthThresholds {
    /// Highest moving average of the latency.
    pub slow: Duration,
    /// Most blocks behind the highest block that two endpoints of the chain have reached.
    pub lag_blocks: u64,
    /// Highest age of the latest block by the local clock. `None` for chains that produce blocks only with
    /// transactions.
    pub max_age: Option<Duration>,
}

impl HealthThresholds {
    /// Thresholds for a chain with a block interval of `block_time`.
    pub fn for_block_time(block_time: Duration) -> Self {
        // A proposer may miss a few slots, and half a minute without blocks is normal even on fast chains that batch.
        let max_age = block_time.saturating_mul(8).max(Duration::from_secs(30));
        Self { max_age: Some(max_age), ..Self::default() }
    }
}

impl Default for HealthThresholds {
    fn default() -> Self {
        Self { slow: Duration::from_millis(2500), lag_blocks: 3, max_age: None }
    }
}

/// Outcome of a request for the health record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    /// An answer, including a JSON-RPC error.
    Answered { latency: Duration },
    /// A rate limit answer.
    Refused { error: SafeText },
    /// No usable answer.
    Failed { error: SafeText },
}

/// Number and time of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHead {
    /// Number of the block.
    pub number: u64,
    /// Block time, in seconds since the Unix epoch.
    pub timestamp: u64,
}

/// Health record of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointHealth {
    /// Label of the endpoint in messages.
    pub label: SafeText,
    machine: HealthMachine,
    wrong_chain: bool,
    /// Chain id that the endpoint returned; `None` before the first request.
    pub chain_id: Option<u64>,
    /// Latest block that the endpoint reported.
    pub head: Option<BlockHead>,
    /// Blocks behind the highest block that two endpoints of the chain have reached.
    pub lag_blocks: Option<u64>,
    /// Age of its latest block by the local clock.
    pub age: Option<Duration>,
    /// Moving average of the latency (weight of the newest value: one eighth).
    pub latency: Option<Duration>,
    /// The latest failure; kept after recovery.
    pub last_error: Option<SafeText>,
    /// The latest contradiction with other endpoints of the chain; kept for ten minutes.
    pub dispute: Option<Dispute>,
    /// Number of completed requests.
    pub requests: u64,
    /// Number of requests without a usable answer.
    pub failures: u64,
}

impl EndpointHealth {
    pub(super) fn new(label: SafeText) -> Self {
        Self {
            label,
            machine: HealthMachine::default(),
            wrong_chain: false,
            chain_id: None,
            head: None,
            lag_blocks: None,
            age: None,
            latency: None,
            last_error: None,
            dispute: None,
            requests: 0,
            failures: 0,
        }
    }

    /// Condition of the endpoint; always down if it serves another chain.
    pub fn condition(&self) -> EndpointCondition {
        if self.wrong_chain { EndpointCondition::Down } else { self.machine.condition() }
    }

    pub(super) fn learn_chain(&mut self, found: u64, expected: u64) {
        self.chain_id = Some(found);
        self.wrong_chain = found != expected;
        if self.wrong_chain {
            self.last_error = Some(SafeText::clean(&format!("chain id {found} instead of {expected}"), 80));
        }
    }

    pub(super) fn observe(&mut self, thresholds: &HealthThresholds, outcome: RequestOutcome) {
        self.requests = self.requests.saturating_add(1);
        let grade = match outcome {
            RequestOutcome::Answered { latency } => {
                self.latency = Some(self.latency.map_or(latency, |old| (old.saturating_mul(7) + latency) / 8));
                self.grade(thresholds)
            }
            RequestOutcome::Refused { error } => {
                self.last_error = Some(error);
                ObservationGrade::Poor
            }
            RequestOutcome::Failed { error } => {
                self.failures = self.failures.saturating_add(1);
                self.last_error = Some(error);
                ObservationGrade::Bad
            }
        };
        self.machine = self.machine.step(grade);
    }

    /// Grade of an answer, by the endpoint's latency and lag.
    fn grade(&self, thresholds: &HealthThresholds) -> ObservationGrade {
        let slow = self.latency.is_some_and(|latency| latency > thresholds.slow);
        let behind = self.lag_blocks.is_some_and(|lag| lag > thresholds.lag_blocks);
        if slow || behind || self.is_old(thresholds) { ObservationGrade::Poor } else { ObservationGrade::Good }
    }

    /// Returns true if the endpoint's own latest block is too old by the local clock. Independent of other endpoints;
    /// always false where `max_age` is `None`.
    pub(super) fn is_old(&self, thresholds: &HealthThresholds) -> bool {
        matches!((self.age, thresholds.max_age), (Some(age), Some(max)) if age > max)
    }
}

/// Health record of a chain with all its endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainEndpointHealth {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Condition of the best endpoint.
    pub condition: EndpointCondition,
    /// Highest block that an endpoint reported.
    pub head: Option<BlockHead>,
    /// Age of that block by the local clock.
    pub age: Option<Duration>,
    /// Average latency of the best endpoint.
    pub latency: Option<Duration>,
    /// Latest failure of the worst endpoint.
    pub last_error: Option<SafeText>,
    /// Health of each endpoint, in the operator's order.
    pub endpoints: Vec<EndpointHealth>,
}

impl ChainEndpointHealth {
    /// Endpoints with a recorded contradiction.
    pub fn disputes(&self) -> impl Iterator<Item = (&SafeText, &Dispute)> {
        self.endpoints.iter().filter_map(|endpoint| Some((&endpoint.label, endpoint.dispute.as_ref()?)))
    }

    /// Number of endpoints that are not down, and number of configured endpoints.
    pub fn answering(&self) -> (usize, usize) {
        let up = |endpoint: &&EndpointHealth| match endpoint.condition() {
            EndpointCondition::Healthy | EndpointCondition::Unproven | EndpointCondition::Degraded => true,
            EndpointCondition::Down => false,
        };
        (self.endpoints.iter().filter(up).count(), self.endpoints.len())
    }

    /// Derives the chain's health from that of its endpoints.
    pub fn from_endpoints(chain_id: u64, endpoints: Vec<EndpointHealth>) -> Self {
        let best = endpoints.iter().min_by_key(|endpoint| endpoint.condition());
        let worst = endpoints.iter().max_by_key(|endpoint| endpoint.condition());
        let furthest = endpoints.iter().max_by_key(|endpoint| endpoint.head.map(|head| head.number));
        Self {
            chain_id,
            condition: best.map_or(EndpointCondition::Down, EndpointHealth::condition),
            head: furthest.and_then(|endpoint| endpoint.head),
            age: furthest.and_then(|endpoint| endpoint.age),
            latency: best.and_then(|endpoint| endpoint.latency),
            last_error: worst.and_then(|endpoint| endpoint.last_error.clone()),
            endpoints,
        }
    }
}

/// A live view of a chain's health. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HealthHandle(pub(super) watch::Receiver<ChainEndpointHealth>);

impl HealthHandle {
    /// Health of the chain at the latest poll.
    pub fn now(&self) -> ChainEndpointHealth {
        self.0.borrow().clone()
    }

    /// Waits for the next poll's result. `None` once the monitor has ended.
    pub async fn next(&mut self) -> Option<ChainEndpointHealth> {
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: EndpointCondition, grades: &[ObservationGrade]) -> EndpointCondition {
        grades.iter().fold(HealthMachine::at(start), |machine, grade| machine.step(*grade)).condition()
    }

    #[test]
    fn every_transition_needs_its_whole_run() {
        use {EndpointCondition::*, ObservationGrade::*};
        // (from, grades, to), written by hand from the table.
        let cases: &[(EndpointCondition, &[ObservationGrade], EndpointCondition)] = &[
            (Unproven, &[Good], Healthy),
            (Unproven, &[Poor], Degraded),
            (Unproven, &[Bad], Down),
            (Healthy, &[Bad], Healthy),
            (Healthy, &[Bad, Bad], Degraded),
            (Healthy, &[Bad, Good, Bad, Good, Bad], Healthy),
            (Healthy, &[Poor, Poor], Healthy),
            (Healthy, &[Poor, Bad, Poor], Degraded),
            (Healthy, &[Good; 50], Healthy),
            (Degraded, &[Bad], Degraded),
            (Degraded, &[Bad, Poor, Bad], Degraded),
            (Degraded, &[Bad, Bad], Down),
            (Degraded, &[Good, Good, Good], Degraded),
            (Degraded, &[Good, Good, Good, Good], Healthy),
            (Degraded, &[Good, Good, Good, Poor, Good], Degraded),
            (Down, &[Good], Down),
            (Down, &[Good, Poor], Degraded),
            (Down, &[Good, Bad, Good, Bad], Down),
            (Down, &[Good; 5], Degraded),
            (Down, &[Good; 6], Healthy),
        ];
        for (from, grades, to) in cases {
            assert_eq!(after(*from, grades), *to, "{from:?} after {grades:?}");
        }
    }

    #[test]
    fn a_dead_endpoint_goes_down_and_comes_back_step_by_step() {
        let mut machine = HealthMachine::at(EndpointCondition::Healthy);
        let mut seen = vec![machine.condition()];
        let grades = [ObservationGrade::Bad; 6].into_iter().chain([ObservationGrade::Good; 8]);
        for grade in grades {
            machine = machine.step(grade);
            if seen.last() != Some(&machine.condition()) {
                seen.push(machine.condition());
            }
        }
        use EndpointCondition::*;
        assert_eq!(seen, [Healthy, Degraded, Down, Degraded, Healthy]);
    }

    #[test]
    fn slow_lagging_or_stale_endpoints_are_degraded() {
        let thresholds = HealthThresholds {
            slow: Duration::from_millis(100),
            lag_blocks: 3,
            max_age: Some(Duration::from_secs(60)),
        };
        let fresh = EndpointHealth::new(SafeText::clean("one", 10));
        let with = |change: fn(&mut EndpointHealth)| {
            let mut health = fresh.clone();
            change(&mut health);
            health.grade(&thresholds)
        };
        assert_eq!(with(|_| {}), ObservationGrade::Good);
        assert_eq!(with(|health| health.latency = Some(Duration::from_millis(100))), ObservationGrade::Good);
        assert_eq!(with(|health| health.latency = Some(Duration::from_millis(101))), ObservationGrade::Poor);
        assert_eq!(with(|health| health.lag_blocks = Some(3)), ObservationGrade::Good);
        assert_eq!(with(|health| health.lag_blocks = Some(4)), ObservationGrade::Poor);
        assert_eq!(with(|health| health.age = Some(Duration::from_secs(60))), ObservationGrade::Good);
        assert_eq!(with(|health| health.age = Some(Duration::from_secs(61))), ObservationGrade::Poor);
    }

    #[test]
    fn a_chain_is_as_good_as_its_best_endpoint() {
        let endpoint = |condition, number| {
            let mut health = EndpointHealth::new(SafeText::clean("one", 10));
            health.machine = HealthMachine::at(condition);
            health.head = Some(BlockHead { number, timestamp: number * 12 });
            health
        };
        let chain = ChainEndpointHealth::from_endpoints(
            1,
            vec![endpoint(EndpointCondition::Down, 90), endpoint(EndpointCondition::Healthy, 100)],
        );
        assert_eq!(chain.condition, EndpointCondition::Healthy);
        assert_eq!(chain.head, Some(BlockHead { number: 100, timestamp: 1200 }));
        assert_eq!(ChainEndpointHealth::from_endpoints(1, vec![]).condition, EndpointCondition::Down);
    }
}
