//! Phase machine: derives the phase from vitals. It does no I/O: it takes a reading and a time, and returns a change.
//!
//! | measure | Cautious | Defensive | Survival | Terminal |
//! |---|---|---|---|---|
//! | drawdown from the high-water mark | 3 % | 6 % | 9 % | 15 % |
//! | gas runway, at most | 3 d | 1 d | 6 h | 0 |
//! | failures in a row, of the limit | one fewer | the limit | | |
//! | age, of the lifespan | 80 % | 90 % | 95 % | 100 % |
//! | health factor below, in parts of the policy's margin above 1 | | 100 % | 50 % | |
//!
//! A measure triggers a phase when it reaches the threshold. It stays active until it is back at half the threshold;
//! for the runway, at twice; for failures, below half; for the health factor, at a twentieth above it. Age never goes back.
//! The worst measure decides.
//!
//! Deterioration takes effect at once. Improvement goes one phase at a time, each after a dwell without an active
//! measure for the current phase. Terminal requires a whole dwell in which every reading triggers it. Losses count for
//! that only if every price in each reading came from a feed, so that a temporarily manipulated pool cannot kill a
//! Golem. Terminal is final.
//!
//! An unknown measure triggers nothing and prevents improvement.

use bardo_base::fabric::health_factor;
use bardo_base::model::Phase;

/// One hundred percent in basis points, and one in ten thousandths.
const WHOLE: u64 = 10_000;

/// Thresholds of the phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseRules {
    /// Thresholds for each phase below Thriving, in the order of the phases.
    pub rows: [PhaseThresholds; 4],
    /// Dwell before an improvement or before Terminal, in milliseconds.
    pub dwell_millis: u64,
}

/// Thresholds of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseThresholds {
    /// Phase that these thresholds trigger.
    pub phase: Phase,
    /// Minimum loss from the high-water mark, in basis points.
    pub drawdown_bps: u64,
    /// Maximum gas runway, in seconds.
    pub runway_seconds: u64,
    /// Number of failures left before the limit; `None` if failures do not trigger this phase.
    pub failures_left: Option<u32>,
    /// Minimum share of the lifespan, in basis points.
    pub age_bps: u64,
    /// Health factor below which a debt triggers this phase, as a part of the margin between 1 and the policy's minimum, in
    /// basis points; `None` if debts do not trigger it.
    pub health_margin_bps: Option<u64>,
}

impl PhaseRules {
    /// Thresholds of the table above, with a dwell of one minute.
    pub const DEFAULT: Self = Self {
        rows: [
            PhaseThresholds {
                phase: Phase::Cautious,
                drawdown_bps: 300,
                runway_seconds: 3 * 86_400,
                failures_left: Some(1),
                age_bps: 8_000,
                health_margin_bps: None,
            },
            PhaseThresholds {
                phase: Phase::Defensive,
                drawdown_bps: 600,
                runway_seconds: 86_400,
                failures_left: Some(0),
                age_bps: 9_000,
                health_margin_bps: Some(WHOLE),
            },
            PhaseThresholds {
                phase: Phase::Survival,
                drawdown_bps: 900,
                runway_seconds: 6 * 3_600,
                failures_left: None,
                age_bps: 9_500,
                health_margin_bps: Some(WHOLE / 2),
            },
            PhaseThresholds {
                phase: Phase::Terminal,
                drawdown_bps: 1_500,
                runway_seconds: 0,
                failures_left: None,
                age_bps: WHOLE,
                health_margin_bps: None,
            },
        ],
        dwell_millis: 60_000,
    };

    /// Replaces the dwell; in milliseconds.
    #[must_use]
    pub const fn dwelling(mut self, millis: u64) -> Self {
        self.dwell_millis = millis;
        self
    }
}

impl Default for PhaseRules {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Measurements of a Golem at one moment. Unknown values are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseReading {
    /// Loss from the high-water mark, in basis points.
    pub drawdown_bps: Option<u64>,
    /// True if every price behind the loss came from a feed.
    pub feed_grade: bool,
    /// Time until the gas is used up.
    pub runway: Runway,
    /// Number of consecutive failures.
    pub failures: u32,
    /// Limit of consecutive failures.
    pub failures_limit: u32,
    /// Age in seconds.
    pub age_seconds: u64,
    /// Lifespan in seconds; `None` for no limit.
    pub lifespan_seconds: Option<u64>,
    /// Security of the debts in lending markets.
    pub health: DebtHealth,
}

/// Security of debts in lending markets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DebtHealth {
    /// Nothing is owed.
    NoDebt,
    /// Lowest health factor of a market, and the policy's minimum, both in ten thousandths.
    Factor {
        /// Health factor, rounded down.
        found: u64,
        /// Minimum of the policy, of 1 or more.
        least: u64,
    },
    /// A market could not be read, or has no price of what is owed or secures it.
    Unknown,
}

/// Time until the gas is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runway {
    /// Seconds left at the current rate of use.
    Seconds(u64),
    /// Gas is available, and none is being used.
    Unused,
    /// The balance could not be read.
    Unknown,
}

/// Measure that can trigger a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhaseMeasure {
    /// Loss from the high-water mark.
    Drawdown,
    /// Time until the gas is used up.
    Runway,
    /// Number of consecutive failures.
    Failures,
    /// Age relative to the lifespan.
    Age,
    /// Health factor of debts in lending markets.
    Health,
}

impl PhaseMeasure {
    /// All measures, in the order in which they are checked.
    pub const ALL: [Self; 5] = [Self::Drawdown, Self::Runway, Self::Failures, Self::Age, Self::Health];

    /// Describes this measure of a reading as a sentence fragment.
    pub fn describe(self, reading: &PhaseReading) -> String {
        match self {
            Self::Drawdown => match reading.drawdown_bps {
                Some(points) => format!("{}.{:02} % below peak", points / 100, points % 100),
                None => "its holdings cannot be valued".to_owned(),
            },
            Self::Runway => match reading.runway {
                Runway::Seconds(seconds) => format!("gas for {}", span(seconds)),
                Runway::Unused => "uses no gas".to_owned(),
                Runway::Unknown => "its gas balance cannot be read".to_owned(),
            },
            Self::Failures => format!("{} of {} failures in a row", reading.failures, reading.failures_limit),
            Self::Age => match reading.lifespan_seconds {
                Some(given) => format!("age {} of {}", span(reading.age_seconds), span(given)),
                None => format!("age {}", span(reading.age_seconds)),
            },
            Self::Health => match reading.health {
                DebtHealth::NoDebt => "owes nothing".to_owned(),
                DebtHealth::Factor { found, least } => {
                    let hundredths = |factor: u64| health_factor(Some(factor / 100));
                    let side = if found < least { "below" } else { "near" };
                    format!("health factor {}, {side} the minimum of {}", hundredths(found), hundredths(least))
                }
                DebtHealth::Unknown => "its health factor cannot be read".to_owned(),
            },
        }
    }
}

/// Formats a duration with its one or two largest units.
fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// State of one measure relative to one phase's thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MeasureVerdict {
    /// Threshold of the phase reached.
    Enters,
    /// Threshold not reached, but not enough improvement to leave the phase.
    Holds,
    /// Well clear of the threshold.
    Clear,
    /// Value of the measure unknown.
    Unknown,
}

fn verdict(measure: PhaseMeasure, row: &PhaseThresholds, reading: &PhaseReading) -> MeasureVerdict {
    let place = |enters: bool, holds: bool| match (enters, holds) {
        (true, _) => MeasureVerdict::Enters,
        (false, true) => MeasureVerdict::Holds,
        (false, false) => MeasureVerdict::Clear,
    };
    match measure {
        PhaseMeasure::Drawdown => match reading.drawdown_bps {
            Some(lost) => place(lost >= row.drawdown_bps, lost.saturating_mul(2) > row.drawdown_bps),
            None => MeasureVerdict::Unknown,
        },
        PhaseMeasure::Runway => match reading.runway {
            Runway::Seconds(left) => place(left <= row.runway_seconds, left < row.runway_seconds.saturating_mul(2)),
            Runway::Unused => MeasureVerdict::Clear,
            Runway::Unknown => MeasureVerdict::Unknown,
        },
        PhaseMeasure::Failures => match row.failures_left {
            Some(left) => {
                let at = reading.failures_limit.saturating_sub(left).max(1);
                place(reading.failures >= at, reading.failures.saturating_mul(2) >= at)
            }
            None => MeasureVerdict::Clear,
        },
        PhaseMeasure::Age => match reading.lifespan_seconds {
            Some(given) => {
                let lived = u128::from(reading.age_seconds) * u128::from(WHOLE);
                place(lived >= u128::from(given) * u128::from(row.age_bps), false)
            }
            None => MeasureVerdict::Clear,
        },
        PhaseMeasure::Health => match (row.health_margin_bps, reading.health) {
            (None, _) | (_, DebtHealth::NoDebt) => MeasureVerdict::Clear,
            (Some(_), DebtHealth::Unknown) => MeasureVerdict::Unknown,
            (Some(part), DebtHealth::Factor { found, least }) => {
                let margin = least.saturating_sub(WHOLE).saturating_mul(part) / WHOLE;
                let limit = WHOLE.saturating_add(margin);
                place(found < limit, found.saturating_mul(20) < limit.saturating_mul(21))
            }
        },
    }
}

/// Change of the phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseTransition {
    /// Phase before the change.
    pub from: Phase,
    /// Phase after the change.
    pub to: Phase,
    /// Reason as a sentence fragment.
    pub why: String,
}

/// Phase machine, which starts in Thriving.
#[derive(Debug, Clone)]
pub struct PhaseMachine {
    rules: PhaseRules,
    phase: Phase,
    /// Time since which no measure holds the current phase, in milliseconds; `None` while one does.
    better_since: Option<u64>,
    /// Time since which every reading triggers Terminal, in milliseconds; `None` while none does.
    dying_since: Option<u64>,
    last: Option<u64>,
    why: String,
}

impl PhaseMachine {
    /// Creates a machine in Thriving.
    pub fn new(rules: PhaseRules) -> Self {
        Self {
            rules,
            phase: Phase::Thriving,
            better_since: None,
            dying_since: None,
            last: None,
            why: "nothing is wrong".to_owned(),
        }
    }

    /// Returns the current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the reason for the current phase, as a sentence fragment.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Processes a reading made at `now`, in milliseconds. A clock that goes backwards restarts every dwell.
    pub fn observe(&mut self, reading: &PhaseReading, now: u64) -> Option<PhaseTransition> {
        if self.phase == Phase::Terminal {
            return None;
        }
        if self.last.is_some_and(|last| now < last) {
            self.better_since = None;
            self.dying_since = None;
        }
        self.last = Some(now);
        if let Some(why) = self.dying(reading, now) {
            return Some(self.go(Phase::Terminal, why));
        }
        // Terminal has its own dwell. Until it is over, readings that trigger Terminal trigger Survival.
        let asked = self.asked(reading);
        if let Some((phase, measure)) = asked
            && phase > self.phase
        {
            return Some(self.go(phase, measure.describe(reading)));
        }
        if self.phase == Phase::Thriving {
            return None;
        }
        let held = self.rules.rows.iter().find(|row| row.phase == self.phase).and_then(|row| {
            PhaseMeasure::ALL.into_iter().find(|measure| verdict(*measure, row, reading) != MeasureVerdict::Clear)
        });
        if let Some(measure) = held {
            self.why = measure.describe(reading);
            self.better_since = None;
            return None;
        }
        let since = *self.better_since.get_or_insert(now);
        if now.saturating_sub(since) < self.rules.dwell_millis {
            return None;
        }
        let to = Phase::ALL.iter().rev().copied().find(|phase| *phase < self.phase).unwrap_or(Phase::Thriving);
        let why = asked.map_or("nothing is wrong".to_owned(), |(_, measure)| measure.describe(reading));
        Some(self.go(to, why))
    }

    /// Returns the worst phase up to Survival that a measure triggers, with that measure.
    fn asked(&self, reading: &PhaseReading) -> Option<(Phase, PhaseMeasure)> {
        let rows = self.rules.rows.iter().rev();
        rows.filter_map(|row| {
            let measure = PhaseMeasure::ALL
                .into_iter()
                .find(|measure| verdict(*measure, row, reading) == MeasureVerdict::Enters)?;
            Some((row.phase.min(Phase::Survival), measure))
        })
        .next()
    }

    /// Returns the reason for entering Terminal, once its dwell is over.
    fn dying(&mut self, reading: &PhaseReading, now: u64) -> Option<String> {
        let row = self.rules.rows.iter().find(|row| row.phase == Phase::Terminal)?;
        let asks = PhaseMeasure::ALL.into_iter().find(|measure| {
            verdict(*measure, row, reading) == MeasureVerdict::Enters
                && (*measure != PhaseMeasure::Drawdown || reading.feed_grade)
        });
        let Some(measure) = asks else {
            self.dying_since = None;
            return None;
        };
        let since = *self.dying_since.get_or_insert(now);
        (now.saturating_sub(since) >= self.rules.dwell_millis).then(|| measure.describe(reading))
    }

    fn go(&mut self, to: Phase, why: String) -> PhaseTransition {
        let from = std::mem::replace(&mut self.phase, to);
        self.better_since = None;
        self.why.clone_from(&why);
        PhaseTransition { from, to, why }
    }
}

#[cfg(test)]
mod tests;
