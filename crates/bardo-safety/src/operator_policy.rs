//! The operator's rules as a [`PolicyEngine`]: policy file, stop file, ledger and checks.

pub(crate) mod consent;
mod in_transit;
mod liquidation;
mod policy_changes;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use alloy::primitives::{Address, B256, U256};
use parking_lot::Mutex;
use rusqlite::Transaction;
use serde_json::json;
use tokio::runtime::Handle;

use super::approval::ApprovalNeed;
use super::audit::{self, AuditError, AuditKind, LogAnchor, LogEntry};
use super::check_inputs::CheckInputs;
use super::checks::operators;
use super::checks::policy_context::{PolicyContext, moved, request};
use super::checks::slippage::SlippageLimits;
use super::content;
use super::ledger::{
    self, LedgerError, LedgerUsage, MarkChange, MicroUsd, Originator, ReservationId, ReservationOutcome,
};
use super::operator_proof::{Authorisation, OperatorProof, ProofError};
use super::orders::record;
use super::policy::{self, ActivePolicy, ChainId, Policy, PolicyKeeper, Spender, TokenRef};
use super::policy_engine::{ActionEnd, PolicyEngine, Reservation, ReserveError};
use super::safe_proposals::{self, SafeProposalRecord};
use super::second_approval::{GivenPolicyApproval, SecondError, SecondRequirement};
use super::signing_payload::SigningPayload;
use super::stop::{ActiveStop, StopError, StopFile};
use super::value::UnknownValue;
use super::vault_calls;
use super::verdict::Verdict;
use bardo_accounting::entry::Action;
use bardo_accounting::tables;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::id::GolemId;
use bardo_base::model::{Check, Phase, Rule, RuleName, StopLevel};
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, Usd};
use bardo_store::{Store, StoreError};
use golem_chain::network::{Network, NetworkKind};
use golem_chain::sender::{self, RecordError, TxRecord};
use golem_chain::token::TokenId;

/// Maximum length of one policy change's text, in characters.
const MAX_CHANGE: usize = 200;

/// Source of the addresses that the operator has named elsewhere. Others may imitate them; that they are named makes none
/// of them known.
#[derive(Clone, Default)]
struct Acquaintances(Option<AcquaintanceSource>);

/// Function that reads the addresses, called for each action.
pub type AcquaintanceSource = Arc<dyn Fn() -> Result<BTreeSet<Address>, StoreError> + Send + Sync>;

impl std::fmt::Debug for Acquaintances {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Acquaintances").field(&self.0.is_some()).finish()
    }
}

/// Rules that the pipeline checks before it lets an action pass.
///
/// Every reservation and its end is recorded in the audit log in the same database transaction. The audit log's anchor
/// is updated by the next check, after each of the operator's decisions, and when the last holder of the rules is
/// dropped.
#[derive(Debug)]
pub struct OperatorPolicyEngine {
    keeper: Arc<PolicyKeeper>,
    stop: StopFile,
    store: Store,
    networks: Vec<Network>,
    anchor: LogAnchor,
    /// Runtime for writes that may happen a moment later. The commit calls these rules on the store's own thread, which
    /// belongs to no runtime.
    runtime: OnceLock<Handle>,
    /// Time of [`Self::resume`], in milliseconds since the Unix epoch: a new ledger has no clock yet.
    resumed_at: OnceLock<u64>,
    /// Further addresses that others may imitate, such as labelled ones.
    acquaintances: Acquaintances,
    /// Accounts that act under these rules, whose keys never count as second approvers.
    accounts: Mutex<Vec<Address>>,
    /// Second approval of the waiting policy, if one was given.
    second: Mutex<Option<GivenPolicyApproval>>,
    /// Rules of the real ledger, if these rules count in a paper ledger. They own the policy, and know earlier
    /// recipients.
    real: Option<Arc<OperatorPolicyEngine>>,
}

/// Reason why a decision about the policy was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The audit log entry could not be appended.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The ledger's clock cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The proof of the operator's decision does not cover it.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The second operator's approval is missing or does not count.
    #[error(transparent)]
    Second(#[from] SecondError),
    /// Another process has put another policy into force.
    #[error("another process has put a policy into force that this one does not follow: start this one again")]
    Overtaken,
}

/// Reason why a tool call is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallRefused {
    /// The limit of calls in the last minute is reached.
    #[error("the limit of {limit} tool calls per 60 seconds is reached")]
    TooMany {
        /// Maximum number of calls per minute.
        limit: u32,
        /// Milliseconds until the next call is allowed.
        wait: u64,
    },
    /// The ledger could not count the call.
    #[error("the call could not be counted: {0}")]
    Uncounted(LedgerError),
}

impl OperatorPolicyEngine {
    /// Creates the rules of this data folder for these chains.
    pub fn new(
        keeper: Arc<PolicyKeeper>,
        stop: StopFile,
        store: Store,
        networks: impl IntoIterator<Item = Network>,
    ) -> Self {
        let anchor = LogAnchor::beside(store.path());
        let runtime = Handle::try_current().map(OnceLock::from).unwrap_or_default();
        let networks = networks.into_iter().collect();
        let acquaintances = Acquaintances::default();
        let resumed_at = OnceLock::new();
        let (accounts, second) = (Mutex::default(), Mutex::default());
        let real = None;
        let rules =
            Self { keeper, stop, store, networks, anchor, runtime, resumed_at, acquaintances, accounts, second, real };
        LogAnchor::begin(&rules.store);
        rules
    }

    /// Adds addresses that others may imitate, such as labelled ones. An action is refused while they cannot be read.
    pub fn acquainted_with(mut self, source: AcquaintanceSource) -> Self {
        self.acquaintances = Acquaintances(Some(source));
        self
    }

    /// Creates rules that count in a paper ledger: limits, rates and high-water marks are its own; the policy and the
    /// stop are those of `real`.
    pub fn on_paper(real: &Arc<Self>, store: Store) -> Self {
        let networks = real.networks.clone();
        let mut rules = Self::new(Arc::clone(&real.keeper), real.stop.clone(), store, networks);
        rules.real = Some(Arc::clone(real));
        rules
    }

    /// Returns the keeper, which follows the policy file.
    pub fn keeper(&self) -> &Arc<PolicyKeeper> {
        &self.keeper
    }

    /// Returns the policy in force, without reading its file.
    pub(super) fn adopted(&self) -> ActivePolicy {
        self.keeper.current()
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Reads the stop in force from disk.
    pub fn stop_in_force(&self) -> ActiveStop {
        self.stop.read()
    }

    /// Returns true if these rules are for devnets only.
    fn is_devnet(&self) -> bool {
        !self.networks.is_empty() && self.networks.iter().all(|network| network.kind == NetworkKind::Devnet)
    }

    /// Closes the failure breaker, on the operator's decision.
    ///
    /// # Errors
    /// [`AcceptError`] if the proof does not cover it or it cannot be recorded; the breaker is unchanged.
    pub async fn reset_breaker(&self, by: &str, now: u64, proof: OperatorProof) -> Result<(), AcceptError> {
        let basis = proof.redeem_on(self.is_devnet(), &Authorisation::ResetBreaker, now)?;
        let by = &format!("{by}, confirmed by {}", basis.as_str());
        let body = json!({ "by": SafeText::clean(by, MAX_CHANGE) });
        self.recorded(AuditKind::BreakerReset, body, now, |transaction| Ok(ledger::reset_breaker(transaction)?)).await
    }

    /// Deletes an account's high-water marks, on the operator's decision. The account's value at its next action
    /// becomes the new mark. Returns the number of deleted marks.
    ///
    /// # Errors
    /// [`AcceptError`] if the proof does not cover it or it cannot be recorded; the marks are unchanged.
    pub async fn forget_high_water(
        &self,
        account: Address,
        by: &str,
        now: u64,
        proof: OperatorProof,
    ) -> Result<usize, AcceptError> {
        let basis = proof.redeem_on(self.is_devnet(), &Authorisation::ResetHighWater { account }, now)?;
        let by = &format!("{by}, confirmed by {}", basis.as_str());
        let body = json!({ "account": account, "by": SafeText::clean(by, MAX_CHANGE) });
        self.recorded(AuditKind::HighWaterReset, body, now, move |transaction| {
            Ok(ledger::forget_high_water(transaction, account)?)
        })
        .await
    }

    async fn recorded<T: Send + 'static>(
        &self,
        kind: AuditKind,
        body: serde_json::Value,
        now: u64,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, AcceptError> + Send + 'static,
    ) -> Result<T, AcceptError> {
        let written = self.store.write(move |transaction| {
            let done = work(transaction)?;
            let golem_id = GolemId::operator();
            let entry = LogEntry { kind, call_id: None, golem_id: &golem_id, body: &body };
            audit::append(transaction, now, &entry)?;
            Ok(done)
        });
        let written = written.await;
        self.anchor();
        written
    }

    /// Sets a halt in the operator's name.
    ///
    /// # Errors
    /// [`StopError`] if the stop could not be set.
    pub fn halt(&self, reason: &str, now: u64) -> Result<ActiveStop, StopError> {
        let reason = if reason.is_empty() { "the operator rejected an action and stopped everything" } else { reason };
        self.stop.raise(StopLevel::Halt, reason, "operator", now)
    }

    /// Counts a tool call of `caller` across all processes on this ledger, and checks the caller's rate.
    ///
    /// # Errors
    /// [`CallRefused`] if the limit is reached, or if the call could not be counted.
    pub async fn take_call(&self, now: u64, caller: &GolemId) -> Result<(), CallRefused> {
        let limit = self.policy().rules().max_tool_calls_per_minute.0;
        let caller = caller.clone();
        let taken = self.store.write(move |transaction| ledger::take_call(transaction, now, &caller, limit));
        match taken.await {
            Ok(None) => Ok(()),
            Ok(Some(wait)) => Err(CallRefused::TooMany { limit, wait }),
            Err(error) => Err(CallRefused::Uncounted(error)),
        }
    }

    /// Returns the number of consecutive failures that the failure breaker has counted.
    ///
    /// # Errors
    /// [`LedgerError`] if the ledger cannot be read.
    pub fn failures(&self) -> Result<u32, LedgerError> {
        self.store.read(ledger::failures)
    }

    /// Returns the amount that signed orders of an account may still take of a token, in raw units. The ledger is the
    /// source, whether or not a service that settles the orders is connected.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn promised(&self, chain_id: u64, account: Address, token: Address) -> Result<U256, StoreError> {
        let promised = self.store.read(|connection| record::promised(connection, chain_id, account))?;
        Ok(promised.get(&token).copied().unwrap_or_default())
    }

    /// Loads a waiting transaction of `account` from the ledger, on whichever chain its signed bytes are valid. The row
    /// is compared with these bytes.
    ///
    /// # Errors
    /// [`RecordError`] if the ledger has no such transaction, it no longer waits, or the row contradicts the bytes.
    pub fn waiting(&self, hash: B256, account: Address) -> Result<TxRecord, RecordError> {
        self.store.read(|connection| {
            let chain_id = sender::load(connection, hash)?.ok_or(RecordError::Unknown(hash))?.signed.chain_id();
            sender::waiting_of(connection, hash, chain_id, account)
        })
    }

    /// Returns the proposals of a Safe that it can still execute, the oldest first.
    ///
    /// # Errors
    /// [`StoreError`] if the ledger cannot be read.
    pub fn safe_proposals(&self, chain_id: u64, safe: Address) -> Result<Vec<SafeProposalRecord>, StoreError> {
        let mut all = self.store.read(safe_proposals::record::every)?;
        all.retain(|one| one.state.is_live() && (one.proposal.chain_id, one.proposal.account) == (chain_id, safe));
        Ok(all)
    }

    /// Returns the number of nonces of `account` on a chain whose signed transactions have no final outcome yet.
    /// Transactions that replace each other share a nonce and count once.
    ///
    /// # Errors
    /// [`RecordError`] if the ledger cannot be read or a row is invalid.
    pub fn unconfirmed(&self, chain_id: u64, account: Address) -> Result<usize, RecordError> {
        let open = self.store.read(|connection| sender::open(connection, chain_id))?;
        let own = open.iter().filter(|record| record.signed.from() == account);
        Ok(own.map(|record| record.signed.nonce()).collect::<BTreeSet<_>>().len())
    }

    /// Moves the anchor to the end of the audit log on disk. A failure is only logged: the anchor may lag, and the
    /// entries exist anyway.
    fn anchor(&self) {
        match self.store.read(audit::head) {
            Ok(head) => {
                if let Err(error) = self.anchor.advance(head) {
                    tracing::warn!("{error}");
                }
            }
            Err::<_, AuditError>(error) => tracing::warn!("{error}"),
        }
    }

    fn network(&self, chain_id: u64) -> Option<&Network> {
        self.networks.iter().find(|network| network.chain_id == chain_id)
    }

    fn on_devnet(&self, payload: &SigningPayload) -> bool {
        self.network(payload.proposal().chain_id).is_some_and(|network| network.kind == NetworkKind::Devnet)
    }

    /// Reads the usage of the caps and the open bridge orders in one database transaction. An order that ended between
    /// two reads would be missing from both.
    fn usage(
        &self,
        policy: &Policy,
        payload: &SigningPayload,
        inputs: &CheckInputs,
    ) -> Result<(LedgerUsage, MicroUsd), UnknownValue> {
        let tokens =
            request(payload, inputs, policy.rules().max_unfed_usd).map(|request| request.tokens).unwrap_or_default();
        let cool_off = policy.caps(inputs.phase, false).cool_off;
        let (chain_id, account) = (payload.proposal().chain_id, payload.account());
        let found = self.store.read(|connection| {
            let moment = connection.unchecked_transaction()?;
            let used = ledger::usage(&moment, inputs.now_millis, chain_id, account, tokens.keys(), cool_off)?
                .called_by(&moment, &payload.proposal().golem_id)?;
            let bridges = in_transit::worth(&in_transit::of(&moment, payload, inputs));
            Ok((used, bridges, record::incoming_by_token(&moment, chain_id, account)?))
        });
        let (mut usage, bridges, incoming) = found.map_err(|error: LedgerError| UnknownValue::because(error))?;
        for (token, given) in incoming {
            let token = if token.is_zero() { TokenId::Native } else { TokenId::Erc20(token) };
            let given = MicroUsd::of(given, Rounding::Up).map_err(UnknownValue::because)?;
            usage.coming.insert((chain_id, token), given);
        }
        Ok((usage, bridges))
    }
}

impl PolicyEngine for OperatorPolicyEngine {
    fn version(&self) -> B256 {
        self.policy().hash()
    }

    fn stop(&self) -> Option<StopLevel> {
        self.stop.read().level()
    }

    fn last_stop(&self) -> Option<SafeText> {
        self.stop.last()
    }

    fn slippage(&self, phase: Phase) -> SlippageLimits {
        self.policy().slippage(phase)
    }

    fn check(&self, payload: &SigningPayload, inputs: &CheckInputs) -> Vec<Verdict> {
        let policy = self.policy();
        let found = self.usage(&policy, payload, inputs);
        let network = self.network(payload.proposal().chain_id);
        // Without a readable ledger, no open bridge orders are counted.
        let bridges = found.as_ref().map(|(_, bridges)| *bridges).unwrap_or_default();
        let usage = found.as_ref().map(|(usage, _)| usage);
        self.anchor();
        operators(
            payload,
            inputs,
            &PolicyContext::new(&policy, usage, network, payload, inputs).with_in_transit(bridges),
        )
    }

    fn consent(&self, payload: &SigningPayload, inputs: &CheckInputs) -> ApprovalNeed {
        consent::of(&self.policy(), payload, inputs)
    }

    fn second_approval(&self, payload: &SigningPayload, inputs: &CheckInputs) -> Option<SecondRequirement> {
        consent::second_approval(&self.policy(), payload, inputs)
    }

    fn above_hot_lane(&self, _framed: &SigningPayload, inputs: &CheckInputs) -> bool {
        consent::above_hot_lane(&self.policy(), inputs)
    }

    fn largest_granted(&self) -> Option<Usd> {
        self.policy().largest_granted()
    }

    fn largest_gas_fee(&self) -> Option<u128> {
        self.policy().rules().max_fee_per_gas_gwei.wei()
    }

    fn always_covers(&self, payload: &SigningPayload, inputs: &CheckInputs) -> bool {
        consent::always_covers(&self.policy(), self.on_devnet(payload), payload, inputs)
    }

    fn needs_private_relay(&self, payload: &SigningPayload, inputs: &CheckInputs) -> bool {
        consent::needs_private_relay(&self.policy(), payload, inputs)
    }

    fn reserve(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        payload: &SigningPayload,
        inputs: &CheckInputs,
    ) -> Result<Reservation, ReserveError> {
        let policy = self.policy();
        // A paper ledger has no policy of its own.
        if self.real.is_none() && policy::stored_policy(transaction)?.is_some() {
            policy_changes::still_in_force(transaction, &policy)
                .map_err(|error| ReserveError::Ledger(error.to_string()))?;
        }
        let request = request(payload, inputs, policy.rules().max_unfed_usd)
            .map_err(|doubt| refused(ErrorCode::SafetyPriceUnknown, &doubt, Vec::new()))?;
        let bridges = in_transit::of(transaction, payload, inputs);
        let request = request.with_in_transit(in_transit::worth(&bridges));
        let proposal = payload.proposal();
        let party = Originator {
            call_id: proposal.call_id,
            golem_id: proposal.golem_id.clone(),
            chain_id: proposal.chain_id,
            account: proposal.account,
        };
        let caps = policy.caps(inputs.phase, inputs.reduce_only());
        // A devnet may have its own time. Any other chain's block time bounds how late it is, whatever the machine's
        // clock shows.
        let own_time = self.on_devnet(payload);
        let reserved = match own_time {
            true => ledger::reserve(transaction, now, &caps, &party, &request),
            false => {
                let block_time = inputs.block_time.saturating_mul(1_000);
                ledger::reserve_by_chain(transaction, now, block_time, &caps, &party, &request)
            }
        };
        match reserved {
            Ok(id) => {
                let moved = moved(payload, inputs)
                    .map_err(|doubt| refused(ErrorCode::SafetyPriceUnknown, &doubt, Vec::new()))?;
                ledger::note_moved(transaction, id, &moved).map_err(failed)?;
                if inputs.portfolio.is_ok() {
                    ledger::update_in_transit(transaction, &party, request.equity, &in_transit::weighed(&bridges))
                        .map_err(failed)?;
                }
                if let Some(leaving) = in_transit::leaving(payload, inputs, request.equity) {
                    ledger::record_bridged(transaction, id, &party, leaving).map_err(failed)?;
                }
                ledger::note_recipients(transaction, id, proposal.chain_id, &proposal.recipients).map_err(failed)?;
                witness_prices(transaction, payload, inputs)?;
                let mut body = json!({
                    "reservation": id.get(), "tool": proposal.tool.name, "intent": proposal.intent.as_str(),
                    "chain_id": proposal.chain_id, "account": proposal.account, "recipients": proposal.recipients,
                    "spend": request.spend.dollars(), "class": inputs.class(proposal.tool.action_class).as_str(),
                    "phase": inputs.phase, "policy": policy.hash(), "expected_outcome": proposal.expected_outcome,
                });
                let publishes = payload.legs().iter().map(|leg| leg.call(proposal.account));
                let publishes: Vec<_> =
                    publishes.flat_map(|call| content::published(&call.data, &proposal.files)).collect();
                if let (false, Some(body)) = (publishes.is_empty(), body.as_object_mut()) {
                    body.insert("publishes".to_owned(), json!(publishes));
                }
                let entry = LogEntry {
                    kind: AuditKind::ActionReserved,
                    call_id: Some(proposal.call_id),
                    golem_id: &proposal.golem_id,
                    body: &body,
                };
                audit::append(transaction, now, &entry).map_err(unrecorded)?;
                Ok(Reservation(id.get()))
            }
            Err(LedgerError::Exceeded(violations)) => {
                let code = match violations.first().map(|one| &one.rule) {
                    Some(Rule::Named(
                        RuleName::MaxTradesPerHour
                        | RuleName::MaxToolCallsPerMinute
                        | RuleName::CooldownSeconds
                        | RuleName::MaxRevocationsPerHour,
                    )) => ErrorCode::SafetyRateLimited,
                    Some(Rule::Named(RuleName::StopLossPct | RuleName::MaxConsecutiveFailures)) => {
                        ErrorCode::SafetyBalanceBreaker
                    }
                    _ => ErrorCode::SafetySpendingLimitExceeded,
                };
                Err(ReserveError::Refused(vec![Verdict::broken(Check::SpendingLimit, code, violations)]))
            }
            Err(other) => Err(failed(other)),
        }
    }

    fn settle(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
        end: ActionEnd,
    ) -> Result<(), ReserveError> {
        // A value that is too large counts as the maximum.
        let micros = |usd| MicroUsd::of(usd, Rounding::Up).unwrap_or(MicroUsd::MAX);
        let outcome = match end {
            ActionEnd::Done { spent } => ReservationOutcome::Done { spent: micros(spent) },
            ActionEnd::Partly { spent } => ReservationOutcome::Partly { spent: micros(spent) },
            ActionEnd::MaybeSigned { spent } => ReservationOutcome::MaybeSigned { spent: micros(spent) },
            ActionEnd::Reverted { gas } => ReservationOutcome::Reverted { gas: micros(gas) },
            ActionEnd::NotSent => ReservationOutcome::NotSent,
            ActionEnd::Withdrawn => ReservationOutcome::Withdrawn,
            ActionEnd::Unclear => ReservationOutcome::Unclear,
        };
        let failures = self.keeper.current().policy.rules().max_consecutive_failures.0;
        let id = ReservationId::stored(reservation.0);
        if matches!(end, ActionEnd::Done { .. }) && in_transit::is_deposit(transaction, reservation.0)? {
            ledger::note_arrived(transaction, now, id).map_err(failed)?;
        }
        ledger::settle(transaction, now, id, outcome, failures).map_err(failed)?;
        let (call_id, golem_id) = ledger::party(transaction, id).map_err(failed)?;
        let (state, spent) = match outcome {
            ReservationOutcome::Done { spent } => ("done", Some(spent)),
            ReservationOutcome::Partly { spent } => ("partly", Some(spent)),
            ReservationOutcome::MaybeSigned { spent } => ("maybe_signed", Some(spent)),
            ReservationOutcome::Reverted { gas } => ("reverted", Some(gas)),
            ReservationOutcome::NotSent => ("not_sent", None),
            ReservationOutcome::Withdrawn => ("withdrawn", None),
            ReservationOutcome::Unclear => ("unclear", None),
        };
        let body = json!({ "reservation": id.get(), "state": state, "spent": spent.map(MicroUsd::dollars) });
        let entry =
            LogEntry { kind: AuditKind::ActionSettled, call_id: Some(call_id), golem_id: &golem_id, body: &body };
        audit::append(transaction, now, &entry).map_err(unrecorded)?;
        Ok(())
    }

    fn arrived(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
    ) -> Result<Option<MarkChange>, ReserveError> {
        ledger::note_arrived(transaction, now, ReservationId::stored(reservation.0)).map_err(failed)
    }

    fn reserve_again(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
    ) -> Result<Reservation, ReserveError> {
        let before = ReservationId::stored(reservation.0);
        let id = ledger::reserve_again(transaction, now, before).map_err(failed)?;
        let (call_id, golem_id) = ledger::party(transaction, id).map_err(failed)?;
        let body = json!({ "reservation": id.get(), "before": before.get() });
        let entry =
            LogEntry { kind: AuditKind::ActionHeldAgain, call_id: Some(call_id), golem_id: &golem_id, body: &body };
        audit::append(transaction, now, &entry).map_err(unrecorded)?;
        Ok(Reservation(id.get()))
    }

    fn knows_recipient(&self, recipient: Address) -> bool {
        let policy = self.policy();
        let named = policy.rules().allowed_recipients.listed.as_ref();
        !policy.rules().approve_first_seen.0 || named.is_some_and(|listed| listed.iter().any(|one| one.0 == recipient))
    }

    fn knows_spender(&self, spender: Address) -> bool {
        let policy = self.policy();
        let named = policy.rules().allowed_spenders.listed.as_ref();
        !policy.rules().approve_first_seen.0 || named.is_some_and(|listed| listed.contains(&Spender(spender)))
    }

    fn named(&self) -> BTreeSet<Address> {
        let policy = self.policy();
        let rules = policy.rules();
        let wallets = [&rules.safe_addresses, &rules.allowed_execution_wallets].into_iter();
        let wallets = wallets.flat_map(|scope| scope.listed.iter().flatten()).map(|wallet| wallet.0);
        wallets.chain(rules.allowed_recipients.listed.iter().flatten().map(|recipient| recipient.0)).collect()
    }

    fn acquaintances(&self) -> Result<BTreeSet<Address>, StoreError> {
        let paid: Result<Vec<Address>, LedgerError> = self.store.read(ledger::recipients);
        let paid = paid.map_err(|error| match error {
            LedgerError::Store(error) => error,
            other => StoreError::Corrupt(other.to_string()),
        })?;
        let real = self.real.as_ref().map(|real| real.acquaintances()).transpose()?.unwrap_or_default();
        let more = self.acquaintances.0.as_ref().map(|source| source()).transpose()?.unwrap_or_default();
        Ok(paid.into_iter().chain(self.named()).chain(real).chain(more).collect())
    }

    fn names_token(&self, chain_id: u64, token: Address) -> bool {
        let policy = self.policy();
        let named = TokenRef { chain: ChainId(chain_id), token: TokenId::Erc20(token) };
        policy.rules().allowed_tokens.listed.as_ref().is_some_and(|listed| listed.contains(&named))
    }

    fn named_vaults(&self, chain_id: u64) -> BTreeSet<Address> {
        vault_calls::named(chain_id, self.policy().rules())
    }
}

impl Drop for OperatorPolicyEngine {
    fn drop(&mut self) {
        self.anchor();
    }
}

fn unrecorded(error: AuditError) -> ReserveError {
    match error {
        AuditError::Store(error) => ReserveError::Store(error),
        other => ReserveError::Ledger(other.to_string()),
    }
}

fn refused(code: ErrorCode, detail: &dyn std::fmt::Display, violations: Vec<Violation>) -> ReserveError {
    ReserveError::Refused(vec![Verdict::because(Check::SpendingLimit, code, detail, violations)])
}

/// Stores the prices that the action was decided by, its tokens, and who acts: profit and loss is computed from them
/// later.
fn witness_prices(
    transaction: &Transaction<'_>,
    payload: &SigningPayload,
    inputs: &CheckInputs,
) -> Result<(), ReserveError> {
    let proposal = payload.proposal();
    let (call_id, golem_id) = (proposal.call_id, proposal.golem_id.clone());
    let action = Action { call_id, golem_id, tool: SafeText::clean(proposal.tool.name, 80) };
    tables::store_action(transaction, &action, inputs.block_time).map_err(ReserveError::Store)?;
    let prices = inputs.portfolio.iter().flat_map(|portfolio| &portfolio.lowest);
    for (contract, price) in prices {
        let token = (proposal.chain_id, Some(*contract));
        tables::store_price(transaction, token, inputs.block_time, Some(call_id), *price)
            .map_err(ReserveError::Store)?;
    }
    let of_inflows = proposal.inflows.iter().map(|inflow| inflow.token.id);
    let of_outflows = proposal.outflows.iter().map(|outflow| outflow.token.id);
    for token in of_inflows.chain(of_outflows) {
        if let TokenId::Erc20(contract) = token {
            tables::store_traded(transaction, proposal.chain_id, contract).map_err(ReserveError::Store)?;
        }
    }
    Ok(())
}

fn failed(error: LedgerError) -> ReserveError {
    match error {
        LedgerError::Store(error) => ReserveError::Store(error),
        other => ReserveError::Ledger(other.to_string()),
    }
}
