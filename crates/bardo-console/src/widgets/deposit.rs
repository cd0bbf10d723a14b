//! Card of a deposit with a bridge's pool: what became of it on both chains, what arrived where, and by which transaction.

use super::figure::{amount, countdown, paid};
use super::paint::{CardLine, Group, Row, Title};
use super::status::CardStatus;
use super::{CardKeys, CardView, Moment, keyed};
use crate::format::{grouped, short_hash, time_of_day};
use crate::theme::Role;
use bardo_base::fabric::TxPlace;
use bardo_session::handle::{DepositRow, DepositStage};

/// Width of the names of the fields, in columns.
const NAMES: usize = 11;

/// Model of a deposit's card.
#[derive(Debug, Clone, PartialEq)]
pub struct DepositModel {
    /// Deposit as the session read it.
    pub deposit: DepositRow,
}

fn field(name: &str, value: impl Into<String>) -> Row {
    Row::new(format!("{name:<NAMES$}"), Role::TextDim).then(value, Role::Text)
}

/// Row of a transaction on a chain.
fn tx_row(name: &str, words: &str, place: &TxPlace) -> Row {
    let words = match place.block {
        Some(block) => format!("{words} #{}", grouped(&block.to_string())),
        None => words.to_owned(),
    };
    field(name, words).end(format!("tx {}", short_hash(place.hash)), Role::TextDim)
}

impl DepositModel {
    /// Creates the card of a deposit.
    pub fn of(deposit: &DepositRow) -> Self {
        Self { deposit: deposit.clone() }
    }

    /// Status of the deposit.
    pub const fn status(&self) -> CardStatus {
        match self.deposit.stage {
            DepositStage::Waiting | DepositStage::SlowFillAsked => CardStatus::Running,
            DepositStage::Filled | DepositStage::FilledSlowly => CardStatus::Done,
            DepositStage::Expired => CardStatus::Expired,
            DepositStage::Refunded => CardStatus::Cancelled,
            DepositStage::Unclear => CardStatus::Unclear,
        }
    }

    fn name(&self) -> String {
        let row = &self.deposit;
        format!("{} {}  {} → {}", paid(&row.amount_in), row.token_in, row.source_chain, row.destination_chain)
    }

    fn state_text(&self, now: Moment) -> String {
        match self.deposit.stage {
            DepositStage::Waiting if now.motion => {
                let seconds = now.millis.saturating_sub(self.deposit.deposited_at) / 1_000;
                format!("WAITING {}", countdown(seconds))
            }
            DepositStage::Expired => "EXPIRED, refund follows".to_owned(),
            stage => stage.as_str().to_uppercase(),
        }
    }

    /// Row with what arrived, or what must.
    fn received_row(&self) -> Row {
        let row = &self.deposit;
        let asked = format!("{} {} on {}", amount(&row.amount_asked), row.token_out, row.destination_chain);
        match (&row.amount_received, row.stage) {
            (Some(got), _) => Row::new("You got ", Role::TextDim)
                .then(format!("{} {} on {}", amount(got), row.token_out, row.destination_chain), Role::TextStrong)
                .then(
                    if *got == row.amount_asked {
                        String::new()
                    } else {
                        format!("  asked {}", amount(&row.amount_asked))
                    },
                    Role::TextDim,
                ),
            (None, DepositStage::Expired | DepositStage::Refunded) => {
                Row::new("Nothing arrived: ", Role::TextDim).then(format!("{asked} was asked for"), Role::Text)
            }
            (None, DepositStage::Unclear) => Row::new("Asked for ", Role::TextDim).then(asked, Role::Text),
            (None, _) => Row::new("You get ", Role::TextDim).then(asked, Role::Text),
        }
    }

    /// Row that says where the money is.
    fn money_row(&self) -> Row {
        let row = &self.deposit;
        let words = match row.stage {
            DepositStage::Waiting | DepositStage::SlowFillAsked => {
                format!("in the pool on {} until somebody pays you on {}", row.source_chain, row.destination_chain)
            }
            DepositStage::Filled | DepositStage::FilledSlowly => format!("in your wallet on {}", row.destination_chain),
            DepositStage::Expired => format!("in the pool on {}, which pays it back by itself", row.source_chain),
            DepositStage::Refunded => format!("back in your wallet on {}", row.source_chain),
            DepositStage::Unclear => "not known".to_owned(),
        };
        Row::new("Money: ", Role::TextDim).then(words, Role::Text).kept()
    }

    fn deadline_row(&self) -> Option<Row> {
        let at = time_of_day(self.deposit.fill_deadline);
        match self.deposit.stage {
            DepositStage::Waiting => Some(
                Row::new("Nobody fills it? ", Role::TextDim).then(format!("It is paid back after {at}."), Role::Text),
            ),
            DepositStage::SlowFillAsked => Some(
                Row::new("No relayer filled it. ", Role::StateCare)
                    .then(format!("The pool was asked to pay it by {at}; later it is paid back."), Role::Text),
            ),
            DepositStage::Expired => {
                Some(Row::new("Nobody filled it ", Role::StateCare).then(format!("by {at}."), Role::Text))
            }
            DepositStage::Filled | DepositStage::FilledSlowly | DepositStage::Refunded | DepositStage::Unclear => None,
        }
    }

    /// Rows of the transactions, in their order.
    fn tx_rows(&self) -> Vec<Row> {
        let row = &self.deposit;
        let mut rows = vec![tx_row("deposited", row.source_chain.as_str(), &row.deposited)];
        if let Some(place) = &row.slow_fill_asked {
            rows.push(tx_row("slow fill", &format!("asked on {}", row.destination_chain), place));
        }
        if let Some(place) = &row.filled {
            let words = match row.stage {
                DepositStage::FilledSlowly => format!("by the pool of {}", row.destination_chain),
                _ => format!("by a relayer on {}", row.destination_chain),
            };
            rows.push(tx_row("filled", &words, place));
        }
        if let Some(relayer) = &row.relayer {
            rows.push(field("relayer", relayer.as_str()));
        }
        if let Some(place) = &row.refunded {
            rows.push(tx_row("refunded", row.source_chain.as_str(), place));
        }
        rows
    }

    fn remark_row(&self) -> Option<Row> {
        let remark = self.deposit.remark.as_str();
        (!remark.is_empty()).then(|| Row::new(remark, Role::StateCare).kept())
    }
}

impl CardView for DepositModel {
    fn line(&self, now: Moment) -> CardLine {
        let (row, status) = (&self.deposit, self.status());
        let arrives = match (&row.amount_received, row.stage) {
            (Some(got), _) => format!("{} {} on {}", amount(got), row.token_out, row.destination_chain),
            (None, DepositStage::Expired | DepositStage::Refunded | DepositStage::Unclear) => {
                format!("{} on {}", row.token_out, row.destination_chain)
            }
            (None, _) => format!("{} {} on {}", amount(&row.amount_asked), row.token_out, row.destination_chain),
        };
        let pieces =
            vec![(format!("{} {} → ", paid(&row.amount_in), row.token_in), Role::Text), (arrives, Role::TextStrong)];
        let groups =
            vec![Group { rank: 0, pieces }, Group::new(1, format!("  {}", self.state_text(now)), status.role())];
        CardLine { at: row.deposited_at, mark: status.sign(), kind: "Deposit".to_owned(), groups, right: Vec::new() }
    }

    fn title(&self, now: Moment) -> Title {
        let status = self.status();
        Title {
            left: vec![(format!("Deposit {}", self.name()), Role::Title)],
            right: vec![(format!("{} {}", status.mark(), self.state_text(now)), status.role())],
        }
    }

    fn short(&self, _now: Moment) -> Vec<Row> {
        let mut rows = vec![self.received_row(), self.money_row()];
        rows.extend(self.remark_row().or_else(|| self.deadline_row()));
        rows
    }

    fn full(&self, _now: Moment, _columns: usize) -> Vec<Row> {
        let mut rows = vec![self.received_row(), self.money_row()];
        rows.extend(self.deadline_row());
        rows.extend(self.remark_row());
        rows.extend(self.tx_rows());
        rows
    }

    fn last(&self, _now: Moment, keys: CardKeys) -> Option<Row> {
        let mut row = Row::new(format!("deposit number {}", self.deposit.id), Role::TextDim);
        if keys.copy {
            row = keyed(row, "y", "copy");
        }
        if keys.explorer {
            row = keyed(row, "o", "explorer");
        }
        Some(if keys.open.is_empty() { row } else { keyed(row, "Enter", keys.open) })
    }

    fn edge(&self, _now: Moment) -> Role {
        self.status().edge()
    }
}
