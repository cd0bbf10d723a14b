//! Schedules of swaps of an account, from the ledger, for display. Nothing is written or signed.

use alloy::primitives::{Address, U256};

use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_session::handle::{ScheduleAttempt, ScheduleRow, SchedulesState};
use bardo_store::Store;
use golem_tools::schedules::{self, MOST_FAILURES, Schedule, ScheduleState, ScheduledToken};

/// Number of ended schedules that are shown.
const MOST_ENDED: u32 = 20;
/// Maximum length of a name, in characters.
const NAME: usize = 60;
/// Maximum length of an error, in characters.
const NOTE: usize = 300;

/// Reads the schedules of `account` on a network; `owners` are those whose slices this session swaps.
pub fn read(store: &Store, network: &str, account: Address, owners: &[GolemId]) -> SchedulesState {
    match schedules::of_account(store, network, account, MOST_ENDED) {
        Ok((found, unreadable)) => {
            let rows = found.iter().map(|schedule| row(schedule, owners)).collect();
            SchedulesState { rows, unreadable, fault: None }
        }
        Err(error) => {
            SchedulesState { fault: Some(SafeText::clean(&error.to_string(), NOTE)), ..SchedulesState::default() }
        }
    }
}

fn row(schedule: &Schedule, owners: &[GolemId]) -> ScheduleRow {
    let (terms, progress) = (&schedule.terms, &schedule.progress);
    let (paid, received) = (&terms.token_in, &terms.token_out);
    let is_active = schedule.state == ScheduleState::Active;
    let attempts = progress.newest.iter().rev().map(|attempt| ScheduleAttempt {
        slice: attempt.slice,
        at: attempt.at,
        outcome: SafeText::clean(&attempt.outcome.as_str().replace('_', " "), NAME),
        is_done: attempt.received.is_some(),
        paid: attempt.paid.map(|raw| whole(raw, paid)),
        received: attempt.received.map(|raw| whole(raw, received)),
        message: attempt.message.clone(),
    });
    ScheduleRow {
        id: SafeText::clean(&schedule.id, NAME),
        golem_id: SafeText::clean(schedule.golem_id.as_str(), NAME),
        runs_here: owners.contains(&schedule.golem_id),
        chain: SafeText::clean(&terms.chain, NAME),
        state: SafeText::clean(schedule.state.as_str(), NAME),
        is_active,
        is_running: progress.is_running,
        token_in: paid.symbol.clone(),
        token_out: received.symbol.clone(),
        total: whole(terms.total, paid),
        next_amount: whole(terms.slice(schedule.next_slice()), paid),
        slices: terms.slices,
        done: progress.done,
        paid: whole(progress.paid, paid),
        received: whole(progress.received, received),
        interval_seconds: terms.interval / 1_000,
        least_price: terms.least_per_unit.map(|price| whole(price, received)),
        created_at: terms.created_at,
        next_at: is_active.then_some(schedule.next_at),
        ends_at: terms.ends_at,
        failures: progress.failures,
        most_failures: MOST_FAILURES,
        attempts: attempts.collect(),
    }
}

/// An amount in whole tokens; raw units where a row states decimals that no token has.
fn whole(raw: U256, token: &ScheduledToken) -> String {
    TokenAmount::new(raw, token.decimals).map_or_else(|_| format!("{raw} raw units"), |amount| amount.to_string())
}
