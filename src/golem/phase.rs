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

use crate::base::model::Phase;

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
                Some(points) => format!("{}.{:02} % below its best", points / 100, points % 100),
                None => "what it holds cannot be valued".to_owned(),
            },
            Self::Runway => match reading.runway {
                Runway::Seconds(seconds) => format!("gas for {}", span(seconds)),
                Runway::Unused => "uses no gas".to_owned(),
                Runway::Unknown => "its gas cannot be read".to_owned(),
            },
            Self::Failures => format!("{} failures in a row of {}", reading.failures, reading.failures_limit),
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DWELL: u64 = 60_000;
    const WELL: Reading = Reading {
        drawdown_bps: Some(0),
        feed_grade: true,
        runway: Runway::Unused,
        failures: 0,
        failures_limit: 3,
        age_seconds: 0,
        lifespan_seconds: Some(1_000_000),
    };

    fn lost(points: u64) -> Reading {
        Reading { drawdown_bps: Some(points), ..WELL }
    }

    fn runway(seconds: u64) -> Reading {
        Reading { runway: Runway::Seconds(seconds), ..WELL }
    }

    fn failed(times: u32) -> Reading {
        Reading { failures: times, ..WELL }
    }

    fn aged(parts_of_a_thousand: u64) -> Reading {
        Reading { age_seconds: parts_of_a_thousand * 1_000, ..WELL }
    }

    /// Where a fresh machine is after one reading, and after it has held for the dwell.
    fn after(reading: Reading) -> (Phase, Phase) {
        let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
        machine.observe(&reading, 1_000);
        let first = machine.phase();
        machine.observe(&reading, 1_000 + DWELL);
        (first, machine.phase())
    }

    #[test]
    fn every_figure_of_the_table_leads_where_it_says_and_not_a_step_earlier() {
        use Phase::{Cautious, Defensive, Survival, Terminal, Thriving};
        for (reading, at_once, after_the_dwell) in [
            (lost(299), Thriving, Thriving),
            (lost(300), Cautious, Cautious),
            (lost(599), Cautious, Cautious),
            (lost(600), Defensive, Defensive),
            (lost(899), Defensive, Defensive),
            (lost(900), Survival, Survival),
            (lost(1_499), Survival, Survival),
            (lost(1_500), Survival, Terminal),
            (runway(259_201), Thriving, Thriving),
            (runway(259_200), Cautious, Cautious),
            (runway(86_401), Cautious, Cautious),
            (runway(86_400), Defensive, Defensive),
            (runway(21_601), Defensive, Defensive),
            (runway(21_600), Survival, Survival),
            (runway(1), Survival, Survival),
            (runway(0), Survival, Terminal),
            (failed(1), Thriving, Thriving),
            (failed(2), Cautious, Cautious),
            (failed(3), Defensive, Defensive),
            (failed(1_000), Defensive, Defensive),
            (aged(799), Thriving, Thriving),
            (aged(800), Cautious, Cautious),
            (aged(900), Defensive, Defensive),
            (aged(950), Survival, Survival),
            (aged(999), Survival, Survival),
            (aged(1_000), Survival, Terminal),
        ] {
            assert_eq!(after(reading), (at_once, after_the_dwell), "{reading:?}");
        }
    }

    #[test]
    fn it_gets_better_at_half_the_figure_one_phase_at_a_time_after_the_dwell() {
        // In Survival by a loss of 9 %: back at half of each figure, and not above.
        let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
        machine.observe(&lost(900), 0);
        for (points, from, to) in [
            (450, Phase::Survival, Phase::Defensive),
            (300, Phase::Defensive, Phase::Cautious),
            (150, Phase::Cautious, Phase::Thriving),
        ] {
            let start = machine.last.unwrap();
            // A hair above the half holds the phase however long it lasts.
            assert_eq!(machine.observe(&lost(points + 1), start + 10 * DWELL), None, "{from}");
            assert_eq!(machine.observe(&lost(points), start + 11 * DWELL), None, "{from}");
            assert_eq!(machine.observe(&lost(points), start + 12 * DWELL - 1), None, "{from}");
            let change = machine.observe(&lost(points), start + 12 * DWELL).unwrap();
            assert_eq!((change.from, change.to), (from, to));
        }
        let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
        machine.observe(&runway(86_400), 0);
        assert_eq!(machine.observe(&runway(2 * 86_400 - 1), DWELL), None);
        assert_eq!(machine.observe(&runway(2 * 86_400 - 1), 9 * DWELL), None);
        machine.observe(&runway(2 * 86_400), 10 * DWELL);
        assert_eq!(machine.observe(&runway(2 * 86_400), 11 * DWELL).unwrap().to, Phase::Cautious);
    }

    #[test]
    fn a_relapse_starts_the_wait_anew() {
        let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
        machine.observe(&lost(300), 0);
        machine.observe(&lost(0), 1_000);
        machine.observe(&lost(200), 59_000);
        assert_eq!(machine.observe(&lost(0), 62_000), None);
        assert_eq!(machine.observe(&lost(0), 121_999), None);
        assert_eq!(machine.observe(&lost(0), 122_000).unwrap().to, Phase::Thriving);
    }

    #[test]
    fn what_cannot_be_told_neither_harms_nor_heals() {
        let blind = Reading { drawdown_bps: None, runway: Runway::Unknown, feed_grade: false, ..WELL };
        let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
        assert_eq!(machine.observe(&blind, 0), None);
        machine.observe(&lost(600), 1);
        for now in 1..100 {
            assert_eq!(machine.observe(&blind, now * DWELL), None);
        }
        assert_eq!(machine.phase(), Phase::Defensive);
    }

    #[test]
    fn a_bent_pool_cannot_kill() {
        let bent = Reading { feed_grade: false, ..lost(9_999) };
        let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
        for now in 0..1_000 {
            machine.observe(&bent, now * DWELL);
        }
        assert_eq!(machine.phase(), Phase::Survival);
        // One reading within the dwell that does not rest on feeds starts the wait anew.
        let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
        machine.observe(&lost(2_000), 0);
        machine.observe(&bent, 30_000);
        machine.observe(&lost(2_000), 31_000);
        assert_eq!(machine.observe(&lost(2_000), 90_999), None);
        assert_eq!(machine.observe(&lost(2_000), 91_000).unwrap().to, Phase::Terminal);
    }

    #[test]
    fn a_clock_that_goes_back_ends_no_life_and_heals_nothing() {
        let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
        machine.observe(&lost(2_000), 10 * DWELL);
        assert_eq!(machine.observe(&lost(2_000), 0), None);
        assert_eq!(machine.observe(&lost(2_000), DWELL - 1), None);
        assert_eq!(machine.observe(&lost(2_000), DWELL).unwrap().to, Phase::Terminal);
    }

    fn reading() -> impl Strategy<Value = Reading> {
        (
            proptest::option::of(0_u64..2_000),
            any::<bool>(),
            prop_oneof![(0_u64..400_000).prop_map(Runway::Seconds), Just(Runway::Unused), Just(Runway::Unknown)],
            0_u32..6,
            0_u64..1_100,
        )
            .prop_map(|(drawdown_bps, feed_grade, runway, failures, age)| Reading {
                drawdown_bps,
                feed_grade,
                runway,
                failures,
                failures_limit: 3,
                age_seconds: age,
                lifespan_seconds: Some(1_000),
            })
    }

    /// The documents' figures once more, as a person would write them down.
    fn as_bad_as(phase: Phase, reading: &Reading) -> bool {
        let (loss, gas, age) = match phase {
            Phase::Thriving => return true,
            Phase::Cautious => (300, 259_200, 800),
            Phase::Defensive => (600, 86_400, 900),
            Phase::Survival => (900, 21_600, 950),
            Phase::Terminal => (1_500, 0, 1_000),
        };
        let failures = matches!((phase, reading.failures), (Phase::Cautious, 2..) | (Phase::Defensive, 3..));
        reading.drawdown_bps.is_some_and(|lost| lost >= loss)
            || matches!(reading.runway, Runway::Seconds(left) if left <= gas)
            || reading.age_seconds >= age
            || failures
    }

    proptest! {
        #[test]
        fn whatever_happens(readings in proptest::collection::vec((reading(), 0_u64..90_000), 1..60)) {
            let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
            let mut now = 0;
            let mut changed = 0;
            for (reading, passed) in readings {
                now += passed;
                let before = machine.phase();
                let change = machine.observe(&reading, now);
                let after = machine.phase();
                prop_assert_eq!(change.is_some(), before != after);
                if let Some(change) = &change {
                    prop_assert_eq!((change.from, change.to), (before, after));
                    prop_assert!(!change.why.is_empty());
                }
                // Never better than the worst that is asked for, the end apart.
                for phase in [Phase::Cautious, Phase::Defensive, Phase::Survival] {
                    prop_assert!(!as_bad_as(phase, &reading) || after >= phase, "{reading:?} in {after}");
                }
                if before == Phase::Terminal {
                    prop_assert_eq!(after, Phase::Terminal);
                } else if after == Phase::Terminal {
                    prop_assert!(as_bad_as(Phase::Terminal, &reading));
                } else if after < before {
                    prop_assert_eq!(Phase::ALL.iter().filter(|one| **one > after && **one <= before).count(), 1);
                    prop_assert!(now - changed >= DWELL);
                } else if after > before {
                    prop_assert!(as_bad_as(after, &reading));
                }
                if before != after {
                    changed = now;
                }
            }
        }
    }
}
