//! Slices of scheduled swaps, when they are due: each is a call of its owner, through the whole pipeline and with its own
//! approval, under a key that lets it run once even if this process dies in it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::primitives::{Address, U256};
use serde_json::Value;

use super::state::SessionState;
use bardo_base::error::ErrorCode;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_safety::approval::AskedBy;
use bardo_session::envelope::{CallStatus, ToolResponse};
use bardo_store::StoreError;
use golem_tools::engine::{Executor, Offer, PreviewResult, ToolCall, ToolInput};
use golem_tools::schedules::{self, SLICE_TOOL, Schedule, ScheduledToken, SliceAttempt, SliceOutcome};

/// Interval between two looks at the schedules.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum length of the reason that a decision shows, in characters.
const WHY: usize = 200;

/// Runs due slices until the session ends.
pub(super) async fn follow(state: Arc<SessionState>) {
    let Some(account) = state.sources.world.account.filter(|_| !state.watch_only) else { return };
    let runner = Runner {
        account,
        network: state.sources.world.network_name(),
        owners: vec![GolemId::operator(), state.golem_id.clone()],
        state,
    };
    let clock = Arc::clone(&runner.state.sources.clock);
    let _attendance = clock.attend();
    let mut is_resumed = false;
    loop {
        if runner.may_run() {
            // What an earlier session was killed in goes first: its keys tell whether it was swapped.
            is_resumed = is_resumed || runner.resume().await;
            if is_resumed {
                runner.run_due().await;
            }
        }
        clock.pause(POLL_INTERVAL).await;
    }
}

/// Runner of the schedules of one account.
struct Runner {
    state: Arc<SessionState>,
    account: Address,
    network: String,
    owners: Vec<GolemId>,
}

impl Runner {
    /// True if slices may begin: no stop, no paper mode, and no end of the session.
    fn may_run(&self) -> bool {
        let world = &self.state.sources.world;
        let is_stopped = self.state.links.stop.borrow().is_some();
        !is_stopped && !world.is_on_paper() && !*self.state.control.leaving.borrow()
    }

    /// Ends the attempts in which an earlier session died. Returns false if they cannot be read now.
    async fn resume(&self) -> bool {
        let store = &self.state.sources.ledger.store;
        match schedules::interrupted(store, &self.network, self.account, &self.owners) {
            Ok(interrupted) => {
                for schedule in interrupted {
                    self.begin(schedule);
                }
                true
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the schedules");
                false
            }
        }
    }

    async fn run_due(&self) {
        let (store, clock) = (&self.state.sources.ledger.store, &self.state.sources.clock);
        loop {
            let owners = self.owners.clone();
            match schedules::claim(store, &self.network, self.account, owners, clock.now_millis()).await {
                Ok(Some(schedule)) => self.begin(schedule),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the schedules");
                    return;
                }
            }
        }
    }

    /// Runs the present attempt of a schedule on a task of its own: a slice that waits for the operator holds up no other
    /// schedule.
    fn begin(&self, schedule: Schedule) {
        let state = Arc::clone(&self.state);
        state.control.running.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let ended = state.swap_slice(&schedule).await;
            if let Err(error) = ended {
                // The attempt stays open, so that the next session asks its key how it ended.
                tracing::error!(%error, schedule = %schedule.id, "cannot note the end of a slice");
            }
            state.control.running.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

impl SessionState {
    /// Swaps the next slice of a schedule, and notes how that ended.
    async fn swap_slice(&self, schedule: &Schedule) -> Result<(), StoreError> {
        let is_operators = schedule.golem_id == GolemId::operator();
        let executor = if is_operators { &self.sources.operator } else { &self.sources.golem };
        let slice = schedule.next_slice();
        let attempt = match schedule.call() {
            Ok(params) => match self.slice(executor, schedule, params).await {
                // Another session is in this attempt, or its end is still open: it is not over, and must not be tried again.
                SliceEnd::Answered(response) if is_in_progress(&response) => return Ok(()),
                SliceEnd::Answered(response) => ended(schedule, slice, &response, self.sources.clock.now_millis()),
                SliceEnd::BelowBound(message) => {
                    let now = self.sources.clock.now_millis();
                    SliceAttempt::unsigned(slice, now, SliceOutcome::BelowBound, &message)
                }
            },
            Err(error) => {
                let now = self.sources.clock.now_millis();
                SliceAttempt::unsigned(slice, now, SliceOutcome::Failed, error.message())
            }
        };
        let now = self.sources.clock.now_millis();
        schedules::finish(&self.sources.ledger.store, schedule, attempt, now).await
    }

    /// Previews a slice, and commits it if it is sure to bring what the schedule asks for.
    async fn slice(&self, executor: &Executor, schedule: &Schedule, params: Value) -> SliceEnd {
        let (number, of) = (schedule.next_slice(), schedule.terms.slices);
        let why = format!("slice {number} of {of} of the schedule {}", short_id(&schedule.id));
        let call = ToolCall::new(SLICE_TOOL, ToolInput::Json(params));
        let call = ToolCall {
            idempotency_key: Some(schedule.key()),
            asked_by: AskedBy::Agent { why: Some(SafeText::clean(&why, WHY)) },
            ..call
        };
        let offer = match executor.offer(call).await {
            PreviewResult::Held(offer) => *offer,
            PreviewResult::Over(response) => return SliceEnd::Answered(response),
        };
        let (least, sure) = (schedule.terms.least(schedule.terms.slice(number)), sure(&offer, schedule.account));
        match least.filter(|least| sure < *least) {
            Some(least) => {
                let _withdrawn = offer.withdraw().await;
                let whole = |raw| whole(raw, &schedule.terms.token_out);
                let symbol = &schedule.terms.token_out.symbol;
                SliceEnd::BelowBound(format!(
                    "it would be sure of {} {symbol}, and the schedule asks for {}",
                    whole(sure),
                    whole(least)
                ))
            }
            None => SliceEnd::Answered(Box::new(offer.commit().await)),
        }
    }
}

/// End of the call of a slice.
enum SliceEnd {
    /// The call answered.
    Answered(Box<ToolResponse>),
    /// It was withdrawn, because it could bring less than the schedule asks for.
    BelowBound(String),
}

/// True if the call's key belongs to an attempt that has not ended.
fn is_in_progress(response: &ToolResponse) -> bool {
    response.error.as_ref().is_some_and(|error| error.code() == ErrorCode::CallInProgress)
}

/// Amount that a previewed slice brings the account at least, in raw units.
fn sure(offer: &Offer, account: Address) -> U256 {
    let inflows = offer.preview().payload.proposal().inflows.iter().filter(|inflow| inflow.recipient == account);
    inflows.fold(U256::ZERO, |sum, inflow| sum.saturating_add(inflow.at_least))
}

/// Describes the end of a slice by the response of its call.
fn ended(schedule: &Schedule, slice: u32, response: &ToolResponse, now: u64) -> SliceAttempt {
    let data = response.data.as_ref();
    let text = |field: &str| Some(data?.get(field)?.as_str()?.to_owned());
    let raw = |field: &str, token: &ScheduledToken| {
        text(field).and_then(|amount| TokenAmount::parse(&amount, token.decimals).ok()).map(|amount| amount.raw())
    };
    let code = response.error.as_ref().map(|error| error.code());
    // The ledger's answer for a call whose process died: its transactions succeeded, without their amounts.
    let hints = response.decision_hints.as_ref();
    let is_told = hints.is_some_and(|hints| hints.get("succeeded") == Some(&Value::Bool(true)));
    let outcome = match response.status {
        CallStatus::Success => SliceOutcome::Done,
        CallStatus::Partial if is_told => SliceOutcome::Done,
        // Signed: repeated it could be swapped twice.
        CallStatus::Partial => SliceOutcome::Unclear,
        CallStatus::Rejected if code == Some(ErrorCode::ApprovalRefused) => SliceOutcome::Rejected,
        CallStatus::Rejected | CallStatus::Blocked | CallStatus::Error | CallStatus::Simulated => SliceOutcome::Failed,
    };
    let is_done = outcome == SliceOutcome::Done;
    let said = match &response.error {
        Some(error) => error.message(),
        None => response.explanation.as_deref().unwrap_or_default(),
    };
    let unsigned = SliceAttempt::unsigned(slice, now, outcome, said);
    SliceAttempt {
        paid: raw("amount_in", &schedule.terms.token_in).filter(|_| is_done),
        received: raw("amount_out", &schedule.terms.token_out).filter(|_| is_done),
        call_id: Some(response.call_id.to_string()),
        tx_hash: text("tx_hash").or_else(|| Some(hints?.get("transactions")?.as_array()?.last()?.as_str()?.to_owned())),
        ..unsigned
    }
}

/// The last characters of an id, which differ from one schedule to the next.
fn short_id(id: &str) -> &str {
    id.char_indices().rev().nth(5).and_then(|(at, _)| id.get(at..)).unwrap_or(id)
}

fn whole(raw: U256, token: &ScheduledToken) -> String {
    TokenAmount::new(raw, token.decimals).map_or_else(|_| raw.to_string(), |amount| amount.to_string())
}
