//! What recovery does: what can be found of something that was begun, and the one table of what follows.
//!
//! Not here: how it is found out, and how a step is carried out (see `recover`).

use std::fmt;

use super::super::commit::Held;
use crate::rulebook::End;

/// What the ledger and the chain say of one thing that was begun and has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Found {
    /// The program that began it still runs.
    Owned,
    /// A nonce is taken, nothing signed with it is stored, and whoever took it is gone.
    LooseNonce,
    /// The permit is used and the money held; no signed bytes are stored.
    Unsigned,
    /// Signed bytes are stored; no block has them, and their nonce is not spent.
    Waiting,
    /// A block has it; too few blocks lie on it.
    Shallow,
    /// Deep in the chain; it succeeded and was the plan's last transaction.
    Whole,
    /// Deep in the chain; it succeeded, and what the plan is for was never signed.
    Begun,
    /// Deep in the chain; the plan's purpose was served, and its rest failed or was never signed.
    Half,
    /// Deep in the chain; it failed.
    Failed,
    /// It can never happen, and nothing of its plan has.
    Gone,
    /// It can never happen; earlier transactions of its plan have.
    GoneHalfway,
    /// The chain does not answer, or contradicts itself.
    Untold,
}

/// What is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Nothing: it is somebody's work.
    LeaveAlone,
    /// The nonce goes to the next transaction.
    GiveBack,
    /// What was held is free; nobody failed.
    Withdraw,
    /// The same bytes go out once more; then it is looked at again.
    SendAgain,
    /// It is looked at again later; what was held stays held.
    Watch,
    /// All that was held counts as spent.
    CountAll,
    /// The gas that was held counts as spent; the rest is free, and nobody failed.
    CountFees,
    /// The gas that was held counts as spent, and it counts as a failure.
    CountGas,
    /// Nothing was spent, and it counts as a failure.
    CountNothing,
}

impl Found {
    /// Everything that can be found.
    pub const ALL: [Self; 12] = [
        Self::Owned,
        Self::LooseNonce,
        Self::Unsigned,
        Self::Waiting,
        Self::Shallow,
        Self::Whole,
        Self::Begun,
        Self::Half,
        Self::Failed,
        Self::Gone,
        Self::GoneHalfway,
        Self::Untold,
    ];

    /// The word for it on the audit trail.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owned => "owned",
            Self::LooseNonce => "loose_nonce",
            Self::Unsigned => "unsigned",
            Self::Waiting => "waiting",
            Self::Shallow => "shallow",
            Self::Whole => "whole",
            Self::Begun => "begun",
            Self::Half => "half",
            Self::Failed => "failed",
            Self::Gone => "gone",
            Self::GoneHalfway => "gone_halfway",
            Self::Untold => "untold",
        }
    }

    /// What it means, for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Owned => "whoever began it is still at it",
            Self::LooseNonce => "a nonce that nobody will sign with any more",
            Self::Unsigned => "money held, and nothing signed",
            Self::Waiting => "a signed transaction that no block has",
            Self::Shallow => "a transaction with too few blocks on it",
            Self::Whole => "a transaction that succeeded",
            Self::Begun => "a plan that was only begun",
            Self::Half => "a plan that did what it is for, and not its rest",
            Self::Failed => "a transaction that failed",
            Self::Gone => "a transaction that can never happen",
            Self::GoneHalfway => "a plan that ended half-way",
            Self::Untold => "the chain does not tell",
        }
    }

    /// The other way round from [`Self::as_str`].
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|found| found.as_str() == word)
    }

    /// What is done about it, where a stop holds it back or not.
    pub fn step(self, stopped: bool) -> Step {
        let row = TABLE.iter().find(|(found, _, _)| *found == self);
        // The table has a row for everything that can be found; a test counts them.
        row.map_or(Step::Watch, |(_, step, halted)| if stopped { *halted } else { *step })
    }
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 9] = [
        Self::LeaveAlone,
        Self::GiveBack,
        Self::Withdraw,
        Self::SendAgain,
        Self::Watch,
        Self::CountAll,
        Self::CountFees,
        Self::CountGas,
        Self::CountNothing,
    ];

    /// The word for it on the audit trail.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LeaveAlone => "leave_alone",
            Self::GiveBack => "give_back",
            Self::Withdraw => "withdraw",
            Self::SendAgain => "send_again",
            Self::Watch => "watch",
            Self::CountAll => "count_all",
            Self::CountFees => "count_fees",
            Self::CountGas => "count_gas",
            Self::CountNothing => "count_nothing",
        }
    }

    /// What it does, for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::LeaveAlone => "it was left alone",
            Self::GiveBack => "the nonce goes to the next transaction",
            Self::Withdraw => "what was held is free again",
            Self::SendAgain => "the same bytes were sent once more",
            Self::Watch => "it is looked at again",
            Self::CountAll => "all that was held counts as spent",
            Self::CountFees => "the gas counts as spent, the rest is free",
            Self::CountGas => "the gas counts as spent, and it counts as a failure",
            Self::CountNothing => "nothing was spent, and it counts as a failure",
        }
    }

    /// The other way round from [`Self::as_str`].
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == word)
    }

    /// How what was held ends by it; [`End::Unclear`] where it does not end yet.
    pub(in super::super) fn end(self, held: Held) -> End {
        match self {
            Self::CountAll => End::Done { spent: held.spent },
            Self::CountFees => End::Partly { spent: held.gas },
            Self::CountGas => End::Reverted { gas: held.gas },
            Self::CountNothing => End::NotSent,
            Self::Withdraw => End::Withdrawn,
            Self::LeaveAlone | Self::GiveBack | Self::SendAgain | Self::Watch => End::Unclear,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The machine: what was found, what follows, and what follows while a stop is in force. Under a stop nothing leaves
/// this program but what only takes back, which no stop holds back; what the chain says is written down all the same.
///
/// Permits that were not used, questions to the operator and waiting times live in memory only: they end with the
/// program, and nothing of them is left to find.
#[rustfmt::skip]
pub const TABLE: &[(Found, Step, Step)] = &[
    (Found::Owned,       Step::LeaveAlone,   Step::LeaveAlone),
    (Found::LooseNonce,  Step::GiveBack,     Step::GiveBack),
    (Found::Unsigned,    Step::Withdraw,     Step::Withdraw),
    (Found::Waiting,     Step::SendAgain,    Step::Watch),
    (Found::Shallow,     Step::Watch,        Step::Watch),
    (Found::Whole,       Step::CountAll,     Step::CountAll),
    (Found::Begun,       Step::CountFees,    Step::CountFees),
    (Found::Half,        Step::CountAll,     Step::CountAll),
    (Found::Failed,      Step::CountGas,     Step::CountGas),
    (Found::Gone,        Step::CountNothing, Step::CountNothing),
    (Found::GoneHalfway, Step::CountGas,     Step::CountGas),
    (Found::Untold,      Step::Watch,        Step::Watch),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rulebook::Reservation;
    use bardo_base::units::Usd;

    #[test]
    fn there_is_one_row_for_everything_that_can_be_found() {
        let rows: Vec<_> = TABLE.iter().map(|(found, _, _)| *found).collect();
        assert_eq!(rows, Found::ALL);
    }

    #[test]
    fn every_word_is_found_again_and_told_as_something_of_its_own() {
        for found in Found::ALL {
            assert_eq!(Found::named(found.as_str()), Some(found));
        }
        for step in Step::ALL {
            assert_eq!(Step::named(step.as_str()), Some(step));
        }
        let told = Found::ALL.map(Found::words).into_iter().chain(Step::ALL.map(Step::words));
        assert_eq!(told.collect::<std::collections::BTreeSet<_>>().len(), Found::ALL.len() + Step::ALL.len());
        assert_eq!((Found::named("lost"), Step::named("")), (None, None));
    }

    #[test]
    fn under_a_stop_nothing_is_sent_and_everything_else_is_as_ever() {
        for (found, step, halted) in TABLE {
            let expected = if *step == Step::SendAgain { Step::Watch } else { *step };
            assert_eq!(*halted, expected, "{found}");
        }
    }

    #[test]
    fn money_is_freed_only_where_nothing_can_happen_any_more() {
        let held = Held { reservation: Reservation(1), spent: "9".parse::<Usd>().unwrap(), gas: "1".parse().unwrap() };
        for found in Found::ALL {
            let freed = matches!(found.step(false).end(held), End::NotSent | End::Withdrawn);
            assert_eq!(freed, matches!(found, Found::Unsigned | Found::Gone), "{found}");
        }
    }

    /// The page that explains the program has the same table.
    #[test]
    fn the_architecture_has_this_table() {
        let page = include_str!("../../../../../ARCHITECTURE.md");
        let row = |line: &str| -> Option<Vec<String>> {
            let cells = line.strip_prefix("| `")?.trim_end().strip_suffix('|')?;
            let cells: Vec<_> = cells.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect();
            (cells.len() == 4).then_some(cells)
        };
        let start = page.find("| found |").expect("the page has the table");
        let told: Vec<_> = page[start..].lines().skip(2).map_while(row).collect();
        let code: Vec<_> =
            TABLE.iter().map(|(found, step, halted)| [found.as_str(), step.as_str(), halted.as_str()]).collect();
        let told: Vec<_> = told.iter().map(|cells| [cells[0].as_str(), cells[2].as_str(), cells[3].as_str()]).collect();
        assert_eq!(told, code);
    }
}
