//! Recovery table: the possible findings about an open permit, and the step that follows each. Reading the chain and
//! executing a step are in `recover`.

use super::super::commit::ReservedSpend;
use crate::policy_engine::ActionEnd;

pub use bardo_session::recovery::{RecoveryState, RecoveryStep};

/// Recovery table: finding, step, and step while a stop is in force. Under a stop nothing is sent except revocations,
/// which count as not stopped; outcomes are recorded all the same.
///
/// Unused permits, approval requests and timers are kept in memory only. They end with the process, so recovery never
/// finds them.
#[rustfmt::skip]
pub const TABLE: &[(RecoveryState, RecoveryStep, RecoveryStep)] = &[
    (RecoveryState::Owned,       RecoveryStep::LeaveAlone,   RecoveryStep::LeaveAlone),
    (RecoveryState::LooseNonce,  RecoveryStep::GiveBack,     RecoveryStep::GiveBack),
    (RecoveryState::Unsigned,    RecoveryStep::Withdraw,     RecoveryStep::Withdraw),
    (RecoveryState::Waiting,     RecoveryStep::SendAgain,    RecoveryStep::Watch),
    (RecoveryState::Shallow,     RecoveryStep::Watch,        RecoveryStep::Watch),
    (RecoveryState::Whole,       RecoveryStep::CountAll,     RecoveryStep::CountAll),
    (RecoveryState::Begun,       RecoveryStep::CountFees,    RecoveryStep::CountFees),
    (RecoveryState::Half,        RecoveryStep::CountAll,     RecoveryStep::CountAll),
    (RecoveryState::Failed,      RecoveryStep::CountGas,     RecoveryStep::CountGas),
    (RecoveryState::Gone,        RecoveryStep::CountNothing, RecoveryStep::CountNothing),
    (RecoveryState::GoneHalfway, RecoveryStep::CountGas,     RecoveryStep::CountGas),
    (RecoveryState::Untold,      RecoveryStep::Watch,        RecoveryStep::Watch),
];

/// Returns the step for a finding; `stopped` selects the column for a stop in force.
pub fn step(what: RecoveryState, stopped: bool) -> RecoveryStep {
    let row = TABLE.iter().find(|(found, _, _)| *found == what);
    // The table has a row for every finding; a test counts them.
    row.map_or(RecoveryStep::Watch, |(_, step, halted)| if stopped { *halted } else { *step })
}

/// Returns the end of a reservation after `step`; [`ActionEnd::Unclear`] if it stays open.
pub(in super::super) fn end(step: RecoveryStep, reserved: ReservedSpend) -> ActionEnd {
    match step {
        RecoveryStep::CountAll => ActionEnd::Done { spent: reserved.spent },
        RecoveryStep::CountFees => ActionEnd::Partly { spent: reserved.gas },
        RecoveryStep::CountGas => ActionEnd::Reverted { gas: reserved.gas },
        RecoveryStep::CountNothing => ActionEnd::NotSent,
        RecoveryStep::Withdraw => ActionEnd::Withdrawn,
        RecoveryStep::LeaveAlone | RecoveryStep::GiveBack | RecoveryStep::SendAgain | RecoveryStep::Watch => {
            ActionEnd::Unclear
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy_engine::Reservation;
    use bardo_base::units::Usd;

    #[test]
    fn there_is_one_row_for_everything_that_can_be_found() {
        let rows: Vec<_> = TABLE.iter().map(|(found, _, _)| *found).collect();
        assert_eq!(rows, RecoveryState::ALL);
    }

    #[test]
    fn under_a_stop_nothing_is_sent_and_everything_else_is_as_ever() {
        for (found, step, halted) in TABLE {
            let expected = if *step == RecoveryStep::SendAgain { RecoveryStep::Watch } else { *step };
            assert_eq!(*halted, expected, "{found}");
        }
    }

    #[test]
    fn money_is_freed_only_where_nothing_can_happen_any_more() {
        let reserved = ReservedSpend {
            reservation: Reservation(1),
            spent: "9".parse::<Usd>().unwrap(),
            gas: "1".parse().unwrap(),
        };
        for found in RecoveryState::ALL {
            let freed = matches!(end(step(found, false), reserved), ActionEnd::NotSent | ActionEnd::Withdrawn);
            assert_eq!(freed, matches!(found, RecoveryState::Unsigned | RecoveryState::Gone), "{found}");
        }
    }

    /// The recovery page of the documentation has the same table.
    #[test]
    fn the_page_on_recovery_has_this_table() {
        let page = include_str!("../../../../../docs/internals/recovery.md");
        let row = |line: &str| -> Option<Vec<String>> {
            let cells = line.strip_prefix("| `")?.trim_end().strip_suffix('|')?;
            let cells: Vec<_> = cells.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect();
            (cells.len() == 4).then_some(cells)
        };
        let start = page.find("| found |").expect("the page has the table");
        let reported: Vec<_> = page[start..].lines().skip(2).map_while(row).collect();
        let code: Vec<_> =
            TABLE.iter().map(|(found, step, halted)| [found.as_str(), step.as_str(), halted.as_str()]).collect();
        let reported: Vec<_> =
            reported.iter().map(|cells| [cells[0].as_str(), cells[2].as_str(), cells[3].as_str()]).collect();
        assert_eq!(reported, code);
    }
}
