//! Card of a schedule of swaps: its progress, its next slice, its bound, and its last attempts.

use super::figure::{amount, countdown, paid};
use super::paint::{CardLine, Group, Row, Title};
use super::status::CardStatus;
use super::{CardKeys, CardView, Moment, keyed};
use crate::format::{age, time_of_day, wait};
use crate::theme::Role;
use bardo_base::format::utc;
use bardo_session::handle::{ScheduleAttempt, ScheduleRow};

/// Maximum number of attempts on the card.
const MOST_ATTEMPTS: usize = 5;
/// Width of the names of the fields, in columns.
const NAMES: usize = 11;

/// Model of a schedule's card.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleModel {
    /// Schedule as the session read it.
    pub schedule: ScheduleRow,
}

fn field(name: &str, value: impl Into<String>) -> Row {
    Row::new(format!("{name:<NAMES$}"), Role::TextDim).then(value, Role::Text)
}

impl ScheduleModel {
    /// Creates the card of a schedule.
    pub fn of(schedule: &ScheduleRow) -> Self {
        Self { schedule: schedule.clone() }
    }

    /// Status of the schedule.
    pub fn status(&self) -> CardStatus {
        let row = &self.schedule;
        match row.state.as_str() {
            _ if row.is_active && !row.runs_here => CardStatus::Stale,
            _ if row.is_active => CardStatus::Running,
            "done" => CardStatus::Done,
            "cancelled" => CardStatus::Cancelled,
            "expired" => CardStatus::Expired,
            "rejected" => CardStatus::Refused,
            _ => CardStatus::Failed,
        }
    }

    /// Pair and amounts.
    fn name(&self) -> String {
        let row = &self.schedule;
        format!("{} {} → {}", paid(&row.total), row.token_in, row.token_out)
    }

    fn progress(&self) -> String {
        format!("{} of {} done", self.schedule.done, self.schedule.slices)
    }

    /// Time of the next slice in words; the state of one that has ended.
    fn state_text(&self, now: Moment) -> String {
        let row = &self.schedule;
        match row.next_at {
            None => row.state.as_str().to_uppercase(),
            Some(_) if row.is_running => "a slice is under way".to_owned(),
            Some(_) if !row.runs_here => format!("runs in a session of {}", row.golem_id),
            Some(at) if !now.motion => format!("next at {}", time_of_day(at / 1_000)),
            Some(at) => match at.saturating_sub(now.millis) / 1_000 {
                0 => "next now".to_owned(),
                seconds => format!("next in {}", countdown(seconds)),
            },
        }
    }

    /// Row of the amounts paid and received so far.
    fn money(&self) -> Row {
        let row = &self.schedule;
        if row.done == 0 {
            return field("so far", "nothing swapped");
        }
        field("paid", format!("{} {}", paid(&row.paid), row.token_in))
            .then("   received ", Role::TextDim)
            .then(format!("{} {}", amount(&row.received), row.token_out), Role::TextStrong)
    }

    fn next(&self, now: Moment) -> Row {
        let row = &self.schedule;
        let slice = format!("slice {} of {}", row.done.saturating_add(1), row.slices);
        field("next", format!("{slice}, {} {}", paid(&row.next_amount), row.token_in))
            .then(format!("   {}", self.state_text(now)), Role::TextDim)
    }

    fn bound(&self) -> Row {
        let row = &self.schedule;
        match &row.least_price {
            Some(price) => field("bound", format!("at least {price} {} for one {}", row.token_out, row.token_in)),
            None => field("bound", "none: each slice is swapped at the price of its time"),
        }
    }
}

/// Row of an attempt, with its reason where it was not swapped.
fn attempt_row(attempt: &ScheduleAttempt, schedule: &ScheduleRow) -> Row {
    let row = Row::new(format!("{} ", time_of_day(attempt.at / 1_000)), Role::TextDim)
        .then(format!("slice {} ", attempt.slice), Role::Text);
    match (&attempt.paid, &attempt.received) {
        (Some(given), Some(got)) => row.then(
            format!("{} {} → {} {}", paid(given), schedule.token_in, amount(got), schedule.token_out),
            Role::StateGood,
        ),
        _ => {
            let role = if attempt.is_done { Role::StateGood } else { Role::StateCare };
            let gap = if attempt.message.is_empty() { "" } else { ": " };
            row.then(format!("{}{gap}", attempt.outcome), role).then(attempt.message.as_str(), Role::TextDim)
        }
    }
}

impl CardView for ScheduleModel {
    fn line(&self, now: Moment) -> CardLine {
        let status = self.status();
        let groups = vec![
            Group::new(0, self.name(), Role::Text),
            Group::new(1, format!("  {}", self.progress()), Role::TextStrong),
            Group::new(2, format!("  {}", self.state_text(now)), status.role()),
        ];
        let at = self.schedule.created_at;
        CardLine { at, mark: status.sign(), kind: "Schedule".to_owned(), groups, right: Vec::new() }
    }

    fn title(&self, now: Moment) -> Title {
        let status = self.status();
        Title {
            left: vec![(format!("Schedule {}", self.name()), Role::Title)],
            right: vec![(format!("{} {}", status.mark(), self.state_text(now)), status.role())],
        }
    }

    fn short(&self, now: Moment) -> Vec<Row> {
        let end = if self.schedule.is_active { self.next(now) } else { self.bound() };
        vec![field("progress", self.progress()), self.money(), end]
    }

    fn full(&self, now: Moment, _columns: usize) -> Vec<Row> {
        let row = &self.schedule;
        let every = age(row.interval_seconds);
        let mut rows = vec![field("progress", format!("{}, one every {every} on {}", self.progress(), row.chain))];
        rows.push(self.money().kept());
        if row.is_active {
            rows.push(self.next(now));
        }
        rows.push(self.bound());
        rows.push(field("owner", row.golem_id.as_str()));
        if let (true, true) = (row.is_active, now.motion) {
            let left = row.ends_at.saturating_sub(now.millis) / 1_000;
            rows.push(field("ends", format!("in {}, whatever is left", wait(left))));
        } else {
            rows.push(field("ends", utc(row.ends_at)));
        }
        if row.is_active && !row.runs_here {
            let words = "This session does not swap its slices: it belongs to another agent, whose session must run.";
            rows.push(Row::new(words, Role::StateCare).kept());
        }
        if row.is_active && row.failures > 0 {
            let words = format!("{} failed in a row; it ends after {}.", row.failures, row.most_failures);
            rows.push(Row::new(words, Role::StateCare).kept());
        }
        if !row.attempts.is_empty() {
            rows.push(Row::new("Last attempts", Role::Title));
            rows.extend(row.attempts.iter().take(MOST_ATTEMPTS).map(|attempt| attempt_row(attempt, row)));
        }
        rows
    }

    fn last(&self, _now: Moment, keys: CardKeys) -> Option<Row> {
        let mut row = Row::new(self.schedule.id.as_str(), Role::TextDim);
        if keys.cancel && self.schedule.is_active {
            row = keyed(row, "x", "cancel…");
        }
        if keys.copy {
            row = keyed(row, "y", "copy");
        }
        Some(if keys.open.is_empty() { row } else { keyed(row, "Enter", keys.open) })
    }

    fn edge(&self, _now: Moment) -> Role {
        self.status().edge()
    }
}
