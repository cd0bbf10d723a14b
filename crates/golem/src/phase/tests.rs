//! Tests of entering and leaving the phases.

use proptest::prelude::*;

use super::*;

const DWELL: u64 = 60_000;
const WELL: PhaseReading = PhaseReading {
    drawdown_bps: Some(0),
    feed_grade: true,
    runway: Runway::Unused,
    failures: 0,
    failures_limit: 3,
    age_seconds: 0,
    lifespan_seconds: Some(1_000_000),
    health: DebtHealth::NoDebt,
};

fn lost(points: u64) -> PhaseReading {
    PhaseReading { drawdown_bps: Some(points), ..WELL }
}

fn runway(seconds: u64) -> PhaseReading {
    PhaseReading { runway: Runway::Seconds(seconds), ..WELL }
}

fn failed(times: u32) -> PhaseReading {
    PhaseReading { failures: times, ..WELL }
}

fn aged(parts_of_a_thousand: u64) -> PhaseReading {
    PhaseReading { age_seconds: parts_of_a_thousand * 1_000, ..WELL }
}

/// Health factor in ten thousandths, with 1.5 as the policy's minimum.
fn indebted(found: u64) -> PhaseReading {
    PhaseReading { health: DebtHealth::Factor { found, least: 15_000 }, ..WELL }
}

/// Returns the phase of a new machine after one reading, and after the same reading one dwell later.
fn after(reading: PhaseReading) -> (Phase, Phase) {
    let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
    machine.observe(&reading, 1_000);
    let first = machine.phase();
    machine.observe(&reading, 1_000 + DWELL);
    (first, machine.phase())
}

#[test]
fn each_threshold_of_the_table_changes_the_phase_exactly_there() {
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
        (indebted(15_000), Thriving, Thriving),
        (indebted(14_999), Defensive, Defensive),
        // Half of the margin above 1 is gone.
        (indebted(12_500), Defensive, Defensive),
        (indebted(12_499), Survival, Survival),
        (indebted(0), Survival, Survival),
        (PhaseReading { health: DebtHealth::Unknown, ..WELL }, Thriving, Thriving),
        // With a minimum of 1, only a debt that can be liquidated counts.
        (PhaseReading { health: DebtHealth::Factor { found: 10_000, least: 10_000 }, ..WELL }, Thriving, Thriving),
        (PhaseReading { health: DebtHealth::Factor { found: 9_999, least: 10_000 }, ..WELL }, Survival, Survival),
    ] {
        assert_eq!(after(reading), (at_once, after_the_dwell), "{reading:?}");
    }
}

#[test]
fn a_phase_improves_by_one_step_at_half_the_threshold_after_the_dwell() {
    // From Survival after a loss of 9 %: each phase is left at half of its threshold, and not above.
    let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
    machine.observe(&lost(900), 0);
    for (points, from, to) in [
        (450, Phase::Survival, Phase::Defensive),
        (300, Phase::Defensive, Phase::Cautious),
        (150, Phase::Cautious, Phase::Thriving),
    ] {
        let start = machine.last.unwrap();
        // One basis point above the half holds the phase, however long it lasts.
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
    // A debt is well again a twentieth above the minimum, at 1.575; an unknown one heals nothing.
    let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
    assert_eq!(machine.observe(&indebted(14_300), 0).unwrap().why, "health factor 1.43, below the minimum of 1.50");
    assert_eq!(machine.observe(&indebted(15_749), 9 * DWELL), None);
    assert_eq!(machine.observe(&PhaseReading { health: DebtHealth::Unknown, ..WELL }, 19 * DWELL), None);
    machine.observe(&indebted(15_750), 20 * DWELL);
    assert_eq!(machine.observe(&indebted(15_750), 21 * DWELL).unwrap().to, Phase::Cautious);
}

#[test]
fn a_relapse_restarts_the_wait() {
    let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
    machine.observe(&lost(300), 0);
    machine.observe(&lost(0), 1_000);
    machine.observe(&lost(200), 59_000);
    assert_eq!(machine.observe(&lost(0), 62_000), None);
    assert_eq!(machine.observe(&lost(0), 121_999), None);
    assert_eq!(machine.observe(&lost(0), 122_000).unwrap().to, Phase::Thriving);
}

#[test]
fn an_unknown_reading_neither_harms_nor_heals() {
    let blind = PhaseReading { drawdown_bps: None, runway: Runway::Unknown, feed_grade: false, ..WELL };
    let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
    assert_eq!(machine.observe(&blind, 0), None);
    machine.observe(&lost(600), 1);
    for now in 1..100 {
        assert_eq!(machine.observe(&blind, now * DWELL), None);
    }
    assert_eq!(machine.phase(), Phase::Defensive);
}

#[test]
fn a_manipulated_pool_cannot_end_a_life() {
    let bent = PhaseReading { feed_grade: false, ..lost(9_999) };
    let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
    for now in 0..1_000 {
        machine.observe(&bent, now * DWELL);
    }
    assert_eq!(machine.phase(), Phase::Survival);
    // A single reading without feed prices within the dwell restarts it.
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

fn reading() -> impl Strategy<Value = PhaseReading> {
    (
        proptest::option::of(0_u64..2_000),
        any::<bool>(),
        prop_oneof![(0_u64..400_000).prop_map(Runway::Seconds), Just(Runway::Unused), Just(Runway::Unknown)],
        0_u32..6,
        0_u64..1_100,
        prop_oneof![
            Just(DebtHealth::NoDebt),
            (8_000_u64..20_000).prop_map(|found| DebtHealth::Factor { found, least: 15_000 }),
            Just(DebtHealth::Unknown)
        ],
    )
        .prop_map(|(drawdown_bps, feed_grade, runway, failures, age, health)| PhaseReading {
            drawdown_bps,
            feed_grade,
            runway,
            failures,
            failures_limit: 3,
            age_seconds: age,
            lifespan_seconds: Some(1_000),
            health,
        })
}

/// Thresholds of the specification, written independently.
fn as_bad_as(phase: Phase, reading: &PhaseReading) -> bool {
    let (loss, gas, age) = match phase {
        Phase::Thriving => return true,
        Phase::Cautious => (300, 259_200, 800),
        Phase::Defensive => (600, 86_400, 900),
        Phase::Survival => (900, 21_600, 950),
        Phase::Terminal => (1_500, 0, 1_000),
    };
    let failures = matches!((phase, reading.failures), (Phase::Cautious, 2..) | (Phase::Defensive, 3..));
    let health = match phase {
        Phase::Defensive => 15_000,
        Phase::Survival => 12_500,
        Phase::Thriving | Phase::Cautious | Phase::Terminal => 0,
    };
    let owes = matches!(reading.health, DebtHealth::Factor { found, .. } if found < health);
    reading.drawdown_bps.is_some_and(|lost| lost >= loss)
        || matches!(reading.runway, Runway::Seconds(left) if left <= gas)
        || reading.age_seconds >= age
        || failures
        || owes
}

proptest! {
    #[test]
    fn the_phases_invariants_hold_for_any_readings(readings in proptest::collection::vec((reading(), 0_u64..90_000), 1..60)) {
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
            // The phase is never better than the worst triggered phase, except for Terminal.
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
