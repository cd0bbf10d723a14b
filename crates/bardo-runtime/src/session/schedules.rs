//! Slices of scheduled swaps, when they are due: each is a call of its owner, through the whole pipeline and with its own
//! approval, under a key that lets it run once even if this process dies in it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use serde_json::Value;

use super::running::NamesInHand;
use super::state::SessionState;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_safety::approval::AskedBy;
use bardo_session::envelope::{CallStatus, ToolResponse};
use bardo_store::StoreError;
use golem_tools::engine::{Executor, SignedCall, ToolCall, ToolInput};
use golem_tools::schedules::{self, LEAST_PRICE, SLICE_TOOL, Schedule, ScheduledToken, SliceAttempt, SliceOutcome};

/// Interval between two looks at the schedules.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of looks between two that resume open attempts.
const RESUMED_EVERY: u32 = 30;
/// Maximum length of the reason that a decision shows, in characters.
const WHY: usize = 200;

/// Runs due slices until the session ends.
pub(super) async fn follow(state: Arc<SessionState>) {
    let Some(account) = state.sources.world.account.filter(|_| !state.watch_only) else { return };
    let runner = Runner {
        account,
        network: state.sources.world.network_name(),
        owners: vec![GolemId::operator(), state.golem_id.clone()],
        in_hand: NamesInHand::default(),
        state,
    };
    let clock = Arc::clone(&runner.state.sources.clock);
    let _attendance = clock.attend();
    let mut until_resumed = 0;
    loop {
        if runner.may_run() {
            // What an earlier session was killed in goes first: its keys tell whether it was swapped. The same holds for an
            // attempt of this session whose end could not be noted, or was not known yet.
            if until_resumed == 0 && runner.resume().await {
                until_resumed = RESUMED_EVERY;
            }
            if until_resumed > 0 {
                until_resumed = if runner.run_due().await { 0 } else { until_resumed - 1 };
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
    /// Ids of the schedules whose attempt runs on a task of this session.
    in_hand: NamesInHand,
}

impl Runner {
    /// True if slices may begin: no stop, no paper mode, and no end of the session.
    fn may_run(&self) -> bool {
        let world = &self.state.sources.world;
        let is_stopped = self.state.links.stop.borrow().is_some();
        !is_stopped && !world.is_on_paper() && !*self.state.control.leaving.borrow()
    }

    /// Goes on with the open attempts of dead sessions and of this one. Returns false if they cannot be read now.
    async fn resume(&self) -> bool {
        let store = &self.state.sources.ledger.store;
        match schedules::adopt(store, &self.network, self.account, &self.owners).await {
            Ok(open) => {
                for schedule in open {
                    // One in hand goes on by itself.
                    let _begun = self.begin(schedule);
                }
                true
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the schedules");
                false
            }
        }
    }

    /// Runs the slices that are due. Returns true if one was claimed while its schedule's last attempt was still in hand: its
    /// attempt is open, and is resumed next.
    async fn run_due(&self) -> bool {
        let (store, clock) = (&self.state.sources.ledger.store, &self.state.sources.clock);
        let mut is_left_open = false;
        loop {
            let owners = self.owners.clone();
            match schedules::claim(store, &self.network, self.account, owners, clock.now_millis()).await {
                Ok(Some(schedule)) => is_left_open |= !self.begin(schedule),
                Ok(None) => return is_left_open,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the schedules");
                    return is_left_open;
                }
            }
        }
    }

    /// Runs the present attempt of a schedule on a task of its own: a slice that waits for the operator holds up no other
    /// schedule. Returns false, and does nothing, if a task of this session is in it.
    fn begin(&self, schedule: Schedule) -> bool {
        let Some(in_hand) = self.in_hand.take(&schedule.id) else { return false };
        let state = Arc::clone(&self.state);
        let task = state.control.running.begin();
        tokio::spawn(async move {
            if let Err(error) = state.swap_slice(&schedule).await {
                // The attempt stays open, so that its key is asked again how it ended.
                tracing::error!(%error, schedule = %schedule.id, "cannot note the end of a slice");
            }
            drop((in_hand, task));
        });
        true
    }
}

impl SessionState {
    /// Swaps the next slice of a schedule, and notes how that ended. An attempt whose end is not known stays open.
    async fn swap_slice(&self, schedule: &Schedule) -> Result<(), ToolError> {
        let Some(attempt) = self.attempt(schedule).await? else { return Ok(()) };
        let now = self.sources.clock.now_millis();
        schedules::finish(&self.sources.ledger.store, schedule, attempt, now).await.map_err(unavailable)
    }

    /// Makes the present attempt of a schedule, or learns how it ended; `None` if it has no known end yet.
    async fn attempt(&self, schedule: &Schedule) -> Result<Option<SliceAttempt>, ToolError> {
        let is_operators = schedule.golem_id == GolemId::operator();
        let executor = if is_operators { &self.sources.operator } else { &self.sources.golem };
        let (slice, key, clock) = (schedule.next_slice(), schedule.key(), &self.sources.clock);
        let failed = |why: &str| SliceAttempt::unsigned(slice, clock.now_millis(), SliceOutcome::Failed, why);
        let is_signed = executor.signed_under(&key)?.is_some();
        if !is_signed && self.has_ended(schedule)? {
            // It died in this slice, and was cancelled, or its time was over, before a session went on.
            return Ok(Some(failed("the schedule ended before this slice was signed")));
        }
        let response = match schedule.call() {
            Ok(params) => self.slice(executor, schedule, params).await,
            Err(error) => return Ok(Some(failed(error.message()))),
        };
        // Another session is in this attempt, or its end is still open: it is not over, and must not be tried again.
        if response.error.as_ref().is_some_and(|error| error.code() == ErrorCode::CallInProgress) {
            return Ok(None);
        }
        let attempt = ended(schedule, slice, &response, clock.now_millis());
        match attempt.outcome {
            SliceOutcome::Done | SliceOutcome::Unclear => Ok(Some(attempt)),
            SliceOutcome::BelowBound | SliceOutcome::Failed | SliceOutcome::Rejected => {
                // A refusal that came before the key was asked, such as a limit of calls, says nothing of what an earlier
                // session signed under it.
                let is_answer = |signed: SignedCall| signed.is_answered && signed.call_id == response.call_id;
                Ok(executor.signed_under(&key)?.is_none_or(is_answer).then_some(attempt))
            }
        }
    }

    /// Calls the swap of a slice. If the schedule is cancelled or its time is over before it is signed, the call is cancelled.
    /// If an earlier call has signed it, this one only learns how that ended, and must come to its answer.
    async fn slice(&self, executor: &Executor, schedule: &Schedule, params: Value) -> ToolResponse {
        let (number, of) = (schedule.next_slice(), schedule.terms.slices);
        let why = format!("slice {number} of {of} of the schedule {}", short_id(&schedule.id));
        let call_id = executor.new_call_id();
        let call = ToolCall {
            call_id: Some(call_id),
            idempotency_key: Some(schedule.key()),
            asked_by: AskedBy::Agent { why: Some(SafeText::clean(&why, WHY)) },
            ..ToolCall::new(SLICE_TOOL, ToolInput::Json(params))
        };
        let mut call = pin!(executor.call(call));
        loop {
            tokio::select! {
                response = &mut call => return response,
                () = self.sources.clock.pause(POLL_INTERVAL) => {
                    // What cannot be read now is read again.
                    let is_unsigned = || executor.signed_under(&schedule.key()).is_ok_and(|signed| {
                        signed.is_none_or(|signed| signed.call_id == call_id)
                    });
                    if self.has_ended(schedule).is_ok_and(|ended| ended) && is_unsigned() {
                        executor.cancel(call_id);
                    }
                }
            }
        }
    }

    /// True once nothing more of the schedule may be signed.
    fn has_ended(&self, schedule: &Schedule) -> Result<bool, ToolError> {
        let now = self.sources.clock.now_millis();
        schedules::is_active(&self.sources.ledger.store, &schedule.id, now).map(|active| !active).map_err(unavailable)
    }
}

fn unavailable(error: StoreError) -> ToolError {
    ToolError::new(ErrorCode::StoreUnavailable, error)
}

/// True if the swap could bring less than the schedule asks for.
fn is_below_bound(error: &ToolError) -> bool {
    error.code() == ErrorCode::SafetySlippage
        && error.details().get("parameter").is_some_and(|parameter| parameter == LEAST_PRICE)
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
        CallStatus::Rejected | CallStatus::Blocked | CallStatus::Error
            if response.error.as_ref().is_some_and(is_below_bound) =>
        {
            SliceOutcome::BelowBound
        }
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
