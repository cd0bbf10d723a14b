//! From vitals to a phase. Pure: a reading and a time in, a change out.
//!
//! | measure | Cautious | Defensive | Survival | Terminal |
//! |---|---|---|---|---|
//! | drawdown from the high-water mark | 3 % | 6 % | 9 % | 15 % |
//! | gas runway, at most | 3 d | 1 d | 6 h | 0 |
//! | failures in a row, of the limit | one fewer | the limit | | |
//! | age, of the lifespan | 80 % | 90 % | 95 % | 100 % |
//!
//! A measure asks for a phase when it reaches the figure, and goes on asking until it is back at half of it: for the
//! runway at twice, for failures at fewer than half. Age does not go back. The worst measure counts.
//!
//! Getting worse takes effect at once, getting better one phase at a time, each after the dwell without a measure that
//! asks for the present phase. Terminal is entered only after a whole dwell in which every reading asked for it, and on
//! account of losses only if every price in each of them came from a feed: whoever bends a pool for a while cannot
//! kill a Golem. It is never left.
//!
//! What cannot be told asks for nothing and lets nothing get better.

use bardo_base::model::Phase;

/// Hundred percent, in basis points.
const WHOLE: u64 = 10_000;

/// When each phase is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseRules {
    /// One row for each phase below Thriving, in their order.
    pub rows: [Row; 4],
    /// How long a reading must hold before it gets better, or ends a life; in milliseconds.
    pub dwell_millis: u64,
}

/// What leads into one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The phase.
    pub phase: Phase,
    /// At this loss from the high-water mark, or more; in basis points.
    pub drawdown_bps: u64,
    /// With gas for so many seconds, or fewer.
    pub runway_seconds: u64,
    /// With so few failures left to the limit; `None` where failures alone do not lead here.
    pub failures_left: Option<u32>,
    /// At this share of the lifespan, in basis points.
    pub age_bps: u64,
}

impl PhaseRules {
    /// The table above, with a dwell of a minute.
    pub const DEFAULT: Self = Self {
        rows: [
            Row {
                phase: Phase::Cautious,
                drawdown_bps: 300,
                runway_seconds: 3 * 86_400,
                failures_left: Some(1),
                age_bps: 8_000,
            },
            Row {
                phase: Phase::Defensive,
                drawdown_bps: 600,
                runway_seconds: 86_400,
                failures_left: Some(0),
                age_bps: 9_000,
            },
            Row {
                phase: Phase::Survival,
                drawdown_bps: 900,
                runway_seconds: 6 * 3_600,
                failures_left: None,
                age_bps: 9_500,
            },
            Row { phase: Phase::Terminal, drawdown_bps: 1_500, runway_seconds: 0, failures_left: None, age_bps: WHOLE },
        ],
        dwell_millis: 60_000,
    };

    /// The same with another dwell, in milliseconds.
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

/// How a Golem is doing at one moment. What cannot be told is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Loss from the high-water mark, in basis points.
    pub drawdown_bps: Option<u64>,
    /// Whether every price behind that came from a feed.
    pub feed_grade: bool,
    /// How long the gas lasts.
    pub runway: Runway,
    /// Failures in a row.
    pub failures: u32,
    /// How many there may be.
    pub failures_limit: u32,
    /// Seconds lived.
    pub age_seconds: u64,
    /// Seconds given; `None` for a Golem without an end.
    pub lifespan_seconds: Option<u64>,
}

/// How long the gas lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runway {
    /// So many seconds at the present use.
    Seconds(u64),
    /// No gas is being used, and there is some.
    Unused,
    /// The balance could not be read.
    Unknown,
}

/// What led to a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Loss from the high-water mark.
    Drawdown,
    /// Gas.
    Runway,
    /// Failures in a row.
    Failures,
    /// Age.
    Age,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Drawdown, Self::Runway, Self::Failures, Self::Age];

    /// What it says of a reading, for a sentence.
    pub fn words(self, reading: &Reading) -> String {
        match self {
            Self::Drawdown => match reading.drawdown_bps {
                Some(points) => format!("{}.{:02} % below its peak", points / 100, points % 100),
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
        }
    }
}

/// A time in the two largest of its parts.
fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// What one measure says against one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// It is as bad as the row.
    Enters,
    /// It is not, and not so much better that the phase could be left.
    Holds,
    /// It is well clear of the row.
    Clear,
    /// It cannot be told.
    Unknown,
}

fn says(measure: Measure, row: &Row, reading: &Reading) -> Says {
    let place = |enters: bool, holds: bool| match (enters, holds) {
        (true, _) => Says::Enters,
        (false, true) => Says::Holds,
        (false, false) => Says::Clear,
    };
    match measure {
        Measure::Drawdown => match reading.drawdown_bps {
            Some(lost) => place(lost >= row.drawdown_bps, lost.saturating_mul(2) > row.drawdown_bps),
            None => Says::Unknown,
        },
        Measure::Runway => match reading.runway {
            Runway::Seconds(left) => place(left <= row.runway_seconds, left < row.runway_seconds.saturating_mul(2)),
            Runway::Unused => Says::Clear,
            Runway::Unknown => Says::Unknown,
        },
        Measure::Failures => match row.failures_left {
            Some(left) => {
                let at = reading.failures_limit.saturating_sub(left).max(1);
                place(reading.failures >= at, reading.failures.saturating_mul(2) >= at)
            }
            None => Says::Clear,
        },
        Measure::Age => match reading.lifespan_seconds {
            Some(given) => {
                let lived = u128::from(reading.age_seconds) * u128::from(WHOLE);
                place(lived >= u128::from(given) * u128::from(row.age_bps), false)
            }
            None => Says::Clear,
        },
    }
}

/// A phase that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Before.
    pub from: Phase,
    /// Now.
    pub to: Phase,
    /// In a sentence.
    pub why: String,
}

/// The machine. Its first phase is Thriving.
#[derive(Debug, Clone)]
pub struct PhaseMachine {
    rules: PhaseRules,
    phase: Phase,
    /// Since when no measure holds the present phase.
    better_since: Option<u64>,
    /// Since when every reading asks for the end.
    dying_since: Option<u64>,
    last: Option<u64>,
    why: String,
}

impl PhaseMachine {
    /// A machine in Thriving.
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

    /// The phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// What it is due to, in a sentence.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Takes in a reading made at `now` (milliseconds). A clock that goes back starts every wait anew.
    pub fn observe(&mut self, reading: &Reading, now: u64) -> Option<Change> {
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
        // Terminal has a wait of its own; until that is over, what asks for it asks for Survival.
        let asked = self.asked(reading);
        if let Some((phase, measure)) = asked
            && phase > self.phase
        {
            return Some(self.go(phase, measure.words(reading)));
        }
        if self.phase == Phase::Thriving {
            return None;
        }
        let held = self
            .rules
            .rows
            .iter()
            .find(|row| row.phase == self.phase)
            .and_then(|row| Measure::ALL.into_iter().find(|measure| says(*measure, row, reading) != Says::Clear));
        if let Some(measure) = held {
            self.why = measure.words(reading);
            self.better_since = None;
            return None;
        }
        let since = *self.better_since.get_or_insert(now);
        if now.saturating_sub(since) < self.rules.dwell_millis {
            return None;
        }
        let to = Phase::ALL.iter().rev().copied().find(|phase| *phase < self.phase).unwrap_or(Phase::Thriving);
        let why = asked.map_or("nothing is wrong".to_owned(), |(_, measure)| measure.words(reading));
        Some(self.go(to, why))
    }

    /// The worst phase, short of the end, that a measure asks for.
    fn asked(&self, reading: &Reading) -> Option<(Phase, Measure)> {
        let rows = self.rules.rows.iter().rev();
        rows.filter_map(|row| {
            let measure = Measure::ALL.into_iter().find(|measure| says(*measure, row, reading) == Says::Enters)?;
            Some((row.phase.min(Phase::Survival), measure))
        })
        .next()
    }

    /// Why it dies now, if it does.
    fn dying(&mut self, reading: &Reading, now: u64) -> Option<String> {
        let row = self.rules.rows.iter().find(|row| row.phase == Phase::Terminal)?;
        let asks = Measure::ALL.into_iter().find(|measure| {
            says(*measure, row, reading) == Says::Enters && (*measure != Measure::Drawdown || reading.feed_grade)
        });
        let Some(measure) = asks else {
            self.dying_since = None;
            return None;
        };
        let since = *self.dying_since.get_or_insert(now);
        (now.saturating_sub(since) >= self.rules.dwell_millis).then(|| measure.words(reading))
    }

    fn go(&mut self, to: Phase, why: String) -> Change {
        let from = std::mem::replace(&mut self.phase, to);
        self.better_since = None;
        self.why.clone_from(&why);
        Change { from, to, why }
    }
}

#[cfg(test)]
mod tests;
