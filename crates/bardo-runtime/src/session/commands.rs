//! Execution of commands. Raising a stop, holding and rejecting take effect at once; a command that loosens a
//! restriction only opens an approval request.

use std::sync::Arc;

use alloy::primitives::{Address, B256};
use serde_json::json;

use super::error::{CommandError, SteerError};
use super::keys::STAY;
use super::prompts::PromptSubject;
use super::prompts::policy_requirement;
use super::selling::{SALE_BEGAN, SaleCause};
use super::send_news;
use super::state::{ActorChannels, ApprovedElsewhere, SessionState};
use super::watching::ReportedState;
use crate::actor::ActorScript;
use crate::data::{DataFolder, LedgerKind};
use crate::labels;
use crate::questions::answering::{self, AnswerRefused};
use crate::questions::shared::{RemoteAnswer, ShareError};
use crate::reauthentication;
use bardo_base::fabric::ApprovalOutcome;
use bardo_base::format::counted;
use bardo_base::id::{GolemId, PermitId};
use bardo_base::model::StopLevel;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_safety::approval::ApprovalQueue;
use bardo_safety::audit::{AuditKind, AuditLog, AuditNote};
use bardo_safety::custody::Reauthentication;
use bardo_safety::ledger::{self, LedgerError};
use bardo_safety::operator_proof::{Authorisation, OperatorProof};
use bardo_safety::pipeline::SignedOutcome;
use bardo_safety::second_approval::{SecondError, SecondSignature};
use bardo_safety::stop::{ActiveStop, StopError};
use bardo_session::handle::{AddressedCommand, BreakerState, DevnetControl, LeaveMode, SessionCommand, SessionNews};
use bardo_session::questions::{AnswerKind, Confirmation, OperatorAnswer, Question, QuestionKey};
use golem::life::ScenarioProgress;
use golem::scenario;
use golem_chain::devnet::MiningMode;
use golem_chain::network::Network;
use golem_tools::engine::{ToolCall, ToolInput};

/// Maximum number of blocks per command.
const MOST_BLOCKS: u32 = 256;
/// Maximum time per command, in seconds: 30 days.
const MOST_SECONDS: u64 = 30 * 86_400;
/// Time within which the outcome of an action of another process is reported, in milliseconds. One that signed nothing
/// by then is not reported.
const REPORTED_FOR: u64 = 600_000;
/// Number of blocks over which prices fall or rise.
const SHOCK_BLOCKS: u64 = 10;

/// Result of a command: success or failure with a message; `None` if other messages report it.
pub(super) type CommandOutcome = Option<Result<String, CommandError>>;

impl SessionState {
    /// Executes a command; returns the mode of leaving if it is one to leave.
    pub(super) async fn carry_out(
        self: &Arc<Self>,
        sent: AddressedCommand,
        lines: &ActorChannels,
        watched: &mut ReportedState,
    ) -> Option<LeaveMode> {
        if let SessionCommand::Leave(mode) = sent.command {
            return Some(mode);
        }
        let ours = sent.golem_id == self.golem_id || sent.golem_id == GolemId::operator();
        let outcome = if ours {
            match (self.watch_only, &sent.command) {
                (false, _) | (true, SessionCommand::Look { .. }) => self.command(sent.command, lines).await,
                (true, _) => Some(Err(CommandError::WatchOnly)),
            }
        } else {
            Some(Err(CommandError::OtherGolem(sent.golem_id)))
        };
        if let Some(result) = outcome {
            let (done, words) = match result {
                Ok(words) => (true, words),
                Err(error) => (false, error.to_string()),
            };
            send_news(&self.links.news, SessionNews::CommandResult { done, words: SafeText::clean(&words, 400) }).await;
        }
        self.poll_unwatched(watched).await;
        None
    }

    async fn command(self: &Arc<Self>, command: SessionCommand, lines: &ActorChannels) -> CommandOutcome {
        match command {
            SessionCommand::Call { ticket, tool, params, dry_run, idempotency_key, unasked } => {
                if *self.control.leaving.borrow() {
                    return Some(Err(CommandError::Ends));
                }
                let call = ToolCall::new(tool, ToolInput::Json(params));
                self.call(ticket, ToolCall { idempotency_key, dry_run, unreported: unasked, ..call }).await;
                None
            }
            SessionCommand::Offer { .. } | SessionCommand::Commit { .. } if *self.control.leaving.borrow() => {
                Some(Err(CommandError::Ends))
            }
            SessionCommand::Offer { ticket, tool, params } => {
                self.offer(ticket, ToolCall::new(tool, ToolInput::Json(params))).await;
                None
            }
            SessionCommand::Commit { ticket, permit_id, simulation_hash } => {
                self.commit(ticket, permit_id, simulation_hash).await.err().map(|error| Err(error.into()))
            }
            SessionCommand::Cancel { call_id } => {
                let cancelled = self.sources.operator.cancel(call_id) || self.sources.golem.cancel(call_id);
                Some(if cancelled {
                    Ok("cancelled: nothing was signed".to_owned())
                } else {
                    Err(CommandError::NotCancelled)
                })
            }
            SessionCommand::Answer { key, answer, confirmation, password } => {
                Some(self.answer(key, answer, confirmation, password).await)
            }
            SessionCommand::ApproveSecond { key, signature, deadline } => {
                Some(self.approve_second(key, &signature, deadline).await)
            }
            // Already executed when they arrive here; see `stop_watch`.
            stop @ (SessionCommand::Hold | SessionCommand::ReleaseHold | SessionCommand::Raise { .. }) => {
                self.control.stop_watch.obey(&stop)
            }
            SessionCommand::AskToLower { level } => Some(self.ask_to_lower(level)),
            SessionCommand::AskToLeavePaper => {
                let on = self.sources.paper.as_ref().is_some_and(golem_tools::engine::PaperMode::on);
                Some(on.then(|| self.queue_prompt(PromptSubject::LeavePaper)).ok_or(CommandError::NoPaper))
            }
            SessionCommand::EnterPaper => Some(match &self.sources.paper {
                Some(paper) => {
                    paper.turn(true);
                    Ok("paper mode: actions are simulated, nothing is signed".to_owned())
                }
                None => Err(CommandError::NoSigner),
            }),
            SessionCommand::AskToResetBreaker => Some(self.ask_to_reset()),
            SessionCommand::Say { words } => {
                let sent = lines.words.try_send(words);
                // The reply, or its absence, appears in the agent's own words.
                sent.err().map(|_| Err(CommandError::NobodyListens))
            }
            SessionCommand::RevokeGrant { number } => {
                let revoked = self.sources.queue.as_ref().is_some_and(|queue| queue.revoke_grant(number));
                Some(revoked.then(|| "revoked".to_owned()).ok_or(CommandError::NoGrant))
            }
            SessionCommand::Rebroadcast { transaction } => Some(self.rebroadcast(transaction).await),
            SessionCommand::Label { address, name, watched } => {
                let networks: Vec<Network> =
                    self.sources.world.chains().iter().map(|chain| chain.network().clone()).collect();
                let now = self.sources.clock.now_millis();
                let added = labels::add(&self.sources.folder, (&address, &name), watched, &networks, now).await;
                if added.is_ok() {
                    self.read_names();
                    // The task of the names would see no change any more, and read the balances a minute later.
                    let state = Arc::clone(self);
                    tokio::spawn(async move { state.read_watched().await });
                }
                Some(added.map(|label| label.describe()).map_err(CommandError::from))
            }
            SessionCommand::Look { ticket, query } => {
                let state = Arc::clone(self);
                tokio::spawn(async move {
                    let found = Box::new(state.run_query(query).await);
                    send_news(&state.links.news, SessionNews::Found { ticket, found }).await;
                });
                None
            }
            SessionCommand::Devnet(control) => Some(self.devnet(control).await.map_err(CommandError::from)),
            SessionCommand::Scenario { name } => Some(self.show(&name, lines)),
            SessionCommand::Step if self.step_by_step => {
                self.control.steps.add_permits(1);
                None
            }
            SessionCommand::Step => Some(Err(CommandError::GoesByItself)),
            SessionCommand::Replay(_) => Some(Err(CommandError::NoRecording)),
            SessionCommand::Leave(_) => None,
        }
    }

    /// Sends a waiting transaction's signed bytes to all endpoints again.
    async fn rebroadcast(&self, transaction: B256) -> Result<String, CommandError> {
        let account = self.sources.world.account.ok_or(CommandError::NoSigner)?;
        let pipeline = self.sources.pipeline.as_ref().ok_or(CommandError::NoSigner)?;
        if self.sources.paper.as_ref().is_some_and(golem_tools::engine::PaperMode::on) {
            return Err(CommandError::NotSent("paper mode is on, which sends nothing".to_owned()));
        }
        let sent = pipeline.rebroadcast(transaction, account).await;
        self.links.transactions_changed.notify_one();
        let sent = sent.map_err(|refusal| CommandError::NotSent(refusal.message))?;
        match sent.fault {
            None => Ok(format!("{transaction} was sent to all endpoints again: {}", sent.state)),
            Some((_, words)) => {
                Ok(format!("{transaction} was sent again ({}); an endpoint answered: {words}", sent.state))
            }
        }
    }

    /// Starts a scenario in place of the present one.
    fn show(&self, name: &str, lines: &ActorChannels) -> Result<String, CommandError> {
        if self.sources.sandbox.is_none() {
            return Err(CommandError::NoShowsHere);
        }
        let scenario = scenario::find(name)?;
        if scenario.tick.is_some() && !self.has_own_time {
            return Err(CommandError::OwnTime(name.to_owned()));
        }
        if let Some(role) = scenario.archetype.as_ref().filter(|role| self.role.as_str() != role.as_str()) {
            return Err(CommandError::OtherRole { show: name.to_owned(), role: role.clone() });
        }
        let asked_at = self.sources.clock.steady_millis();
        lines.scenarios.try_send(scenario.clone()).map_err(|_| CommandError::NoPlayer)?;
        let waits = self.sources.queue.as_ref().is_some_and(|queue| !queue.pending().is_empty());
        let result = match waits {
            true => format!("scenario {name} starts once the Golem's open decision is answered"),
            false => format!("scenario {name} starts"),
        };
        let played = self.control.script.borrow().as_ref().map(|script| script.played.clone());
        let played = played.unwrap_or_else(|| tokio::sync::watch::Sender::new(ScenarioProgress::default()));
        self.control.script.send_replace(Some(ActorScript { scenario, played, asked_at }));
        Ok(result)
    }

    /// Calls a tool on the operator's behalf, in the background.
    async fn call(self: &Arc<Self>, ticket: u64, call: ToolCall) {
        let call_id = self.sources.operator.new_call_id();
        send_news(&self.links.news, SessionNews::Began { ticket, call_id }).await;
        let state = Arc::clone(self);
        let task = state.control.running.begin();
        tokio::spawn(async move {
            let response = state.sources.operator.call(ToolCall { call_id: Some(call_id), ..call }).await;
            drop(task);
            send_news(&state.links.news, SessionNews::Reply { ticket, response: Box::new(response) }).await;
        });
    }

    async fn answer(
        self: &Arc<Self>,
        key: QuestionKey,
        answer: OperatorAnswer,
        confirmation: Confirmation,
        password: Option<Password>,
    ) -> Result<String, CommandError> {
        let stops = matches!(answer, OperatorAnswer::RefuseAndStop { .. });
        if let OperatorAnswer::RefuseAndStop { reason } = &answer {
            // Already done before the answer; a failure there is reported here.
            self.control.stop_watch.refuse_all(reason)?;
        }
        let result = match key {
            QuestionKey::Action(permit) if self.control.offers.has(permit) => {
                self.answer_offer(permit, &answer, confirmation, password).await
            }
            QuestionKey::Action(permit) if self.is_asked_here(permit) => {
                let needs_proof = self.sources.queue.as_ref().is_some_and(ApprovalQueue::needs_proof);
                let proof = match needs_proof && answer.kind().lets_through() {
                    true => Some(self.prove(self.approving(permit)?, password).await?),
                    false => None,
                };
                self.answer_action(permit, answer, confirmation, proof)
            }
            // The stop that comes with a rejection has withdrawn this process's own request already.
            QuestionKey::Action(permit) if stops && !self.sources.shared.asks_elsewhere(permit)? => {
                Ok(answering::answer_message(&answer))
            }
            QuestionKey::Action(permit) => {
                let by = format!("process {}", std::process::id());
                let proof = match answer.kind().lets_through() {
                    true => Some(self.prove(self.approving(permit)?, password).await?),
                    false => None,
                };
                let asked = self.sources.shared.others()?.into_iter().find(|asked| asked.key == key);
                let now = self.sources.clock.now_millis();
                self.sources.shared.answer(permit, &answer, &confirmation, &by, now, proof).await?;
                if let Some(Question { call_id: Some(call_id), title, .. }) = asked
                    && answer.kind().lets_through()
                {
                    let approved =
                        ApprovedElsewhere { call_id, title, reported_until: now.saturating_add(REPORTED_FOR) };
                    self.control.approved_elsewhere.lock().push(approved);
                }
                Ok(answering::answer_message(&answer))
            }
            QuestionKey::Policy(hash) => self.answer_policy(hash, &answer, &confirmation, password).await,
            QuestionKey::Own(number) => self.answer_own(number, &answer, &confirmation, password).await,
        };
        if stops { Ok(result.unwrap_or_else(|_| "everything is stopped".to_owned())) } else { result }
    }

    /// Takes a second operator's approval. Its signature alone decides whether it counts.
    async fn approve_second(
        &self,
        key: QuestionKey,
        signature: &str,
        deadline: Option<u64>,
    ) -> Result<String, CommandError> {
        let signature: SecondSignature = signature.parse().map_err(CommandError::Second)?;
        let by = match key {
            QuestionKey::Action(permit) => {
                let queue = self.sources.queue.as_ref().ok_or(CommandError::NoQueue)?;
                match queue.approve_second(permit, signature).await {
                    Err(SecondError::Over) if self.sources.shared.asks_elsewhere(permit)? => {
                        self.sources.shared.approve_second(permit, signature).await?;
                        return Ok("passed on to the process that asks, which verifies it".to_owned());
                    }
                    taken => taken.map_err(CommandError::Second)?,
                }
            }
            QuestionKey::Policy(hash) => {
                let rules = self.sources.rules.as_ref().ok_or(CommandError::NoPolicy)?;
                let now = self.sources.clock.now_millis();
                rules.approve_second(hash, deadline.unwrap_or_default(), signature, now)?
            }
            QuestionKey::Own(_) => return Err(CommandError::Second(SecondError::NotNeeded)),
        };
        Ok(format!("second approval by {by}; the operator decides now"))
    }

    fn is_asked_here(&self, permit: PermitId) -> bool {
        let pending = self.sources.queue.as_ref().map(|queue| queue.pending()).unwrap_or_default();
        pending.iter().any(|request| request.preview.permit.permit_id == permit)
    }

    pub(super) fn answer_action(
        &self,
        permit: PermitId,
        answer: OperatorAnswer,
        confirmation: Confirmation,
        proof: Option<OperatorProof>,
    ) -> Result<String, CommandError> {
        let queue = self.sources.queue.as_ref().ok_or(CommandError::NoQueue)?;
        Ok(answering::answer(queue, permit, answer, confirmation, proof)?)
    }

    /// Reports what became of the actions of other processes that the operator approved here, by the ledger.
    pub(super) async fn report_approved_elsewhere(&self) {
        let Some(pipeline) = &self.sources.pipeline else { return };
        let now = self.sources.clock.now_millis();
        let mut ended = Vec::new();
        self.control.approved_elsewhere.lock().retain(|approved| {
            let Ok(outcome) = pipeline.fate(approved.call_id) else { return true };
            let words = match outcome {
                SignedOutcome::Nothing | SignedOutcome::Open => return now < approved.reported_until,
                SignedOutcome::Placed { hash, .. } => (true, format!("was placed as order {hash}")),
                SignedOutcome::Ended { succeeded, transactions } => {
                    let verb = if succeeded { "is done in" } else { "was not done; of it there is" };
                    let all: Vec<String> = transactions.iter().map(B256::to_string).collect();
                    (succeeded, format!("{verb} {}", all.join(", ")))
                }
            };
            ended.push((approved.title.clone(), words));
            false
        });
        for (title, (done, words)) in ended {
            let words = SafeText::clean(&format!("another process: {title} {words}"), 400);
            send_news(&self.links.news, SessionNews::CommandResult { done, words }).await;
        }
    }

    /// Reports rows of the shared queue that do not verify: to the operator, and in the audit log.
    pub(super) async fn report_forged(&self, watched: &mut ReportedState) {
        match self.sources.shared.report(self.sources.clock.now_millis()).await {
            Ok(rejected) => {
                for one in rejected {
                    // A modified request of this process, or one whose answer was removed, is stored again.
                    watched.requests.clear();
                    let words = format!("{} (offer {}); `bardo log` has the entry", one.why, one.permit_id);
                    send_news(
                        &self.links.news,
                        SessionNews::CommandResult { done: false, words: SafeText::clean(&words, 400) },
                    )
                    .await;
                }
            }
            Err(error) => tracing::warn!(%error, "cannot report invalid rows of the shared queue"),
        }
    }

    /// Delivers second approvals that other processes on this ledger received.
    async fn receive_second_approvals(&self) {
        let Some(queue) = &self.sources.queue else { return };
        for (done, words) in answering::take_second_approvals(queue, &self.sources.shared).await {
            send_news(&self.links.news, SessionNews::CommandResult { done, words: SafeText::clean(&words, 400) }).await;
        }
    }

    /// Delivers the answers of other processes on this ledger to the approval queue.
    pub(super) async fn receive_remote_answers(&self, watched: &mut ReportedState) {
        self.receive_second_approvals().await;
        let heard = match self.sources.shared.remote_answers() {
            Ok(heard) if heard.is_empty() => return,
            Ok(heard) => heard,
            Err(error) => return tracing::warn!(%error, "cannot read the answers of other processes"),
        };
        let answered = heard.iter().map(|heard| heard.permit_id).collect();
        for RemoteAnswer { permit_id, answer, confirmation, by } in heard {
            let taken = match self.only_here(answer.kind()) {
                Some(why) => Err(AnswerRefused::OnlyThere(why).into()),
                None => self.answer_action(permit_id, answer, confirmation, None),
            };
            let (done, words) = match taken {
                Ok(sent) => (true, format!("{sent}, in another process ({by})")),
                Err(why) => (false, format!("an answer from another process ({by}) was rejected: {why}")),
            };
            send_news(&self.links.news, SessionNews::CommandResult { done, words: SafeText::clean(&words, 400) }).await;
        }
        // Only now: until the approval queue has the answers, the ledger must keep them.
        match self.sources.shared.forget(answered).await {
            // Requests whose answers were rejected are still open, and other processes must see them again.
            Ok(()) => watched.requests.clear(),
            Err(error) => {
                tracing::warn!(%error, "cannot remove handled answers of other processes; they are read again")
            }
        }
    }

    /// Reason that an answer of this kind counts only in the process that asks, if there is one.
    pub(super) fn only_here(&self, kind: AnswerKind) -> Option<&'static str> {
        answering::only_here(|| self.led_by_program || self.sources.shared.is_led(), kind)
    }

    /// Data directory of this session.
    pub(super) fn data_folder(&self) -> DataFolder {
        DataFolder::at(self.control.stop_watch.file.path().parent().unwrap_or(std::path::Path::new("")))
    }

    /// Signing account. Without one it is the zero address, for which no password exists.
    pub(super) fn signer(&self) -> Address {
        self.sources.world.account.unwrap_or_default()
    }

    fn on_devnet(&self) -> bool {
        self.sources.ledger.kind == LedgerKind::Devnet
    }

    /// Password check, in which the session's own account acts.
    fn gate(&self) -> Reauthentication {
        reauthentication::acting(&self.data_folder(), self.sources.selected.as_ref())
    }

    /// True if this authorisation needs a password, or if that cannot be determined.
    pub(super) fn needs_password(&self, wanted: &Authorisation) -> bool {
        let keys = self.gate().keys_for(wanted, self.on_devnet());
        keys.map_or(true, |keys| !keys.is_empty())
    }

    /// True if approving a request of another process needs a password.
    pub(super) fn remote_needs_password(&self) -> bool {
        !self.on_devnet()
    }

    /// True if approving a request of this process needs a password: beside a brain that could act as the operator.
    pub(super) fn here_needs_password(&self) -> bool {
        self.is_brain_unisolated() && !self.on_devnet()
    }

    /// Authorisation for approving another process's request.
    pub(super) fn approving(&self, permit_id: PermitId) -> Result<Authorisation, CommandError> {
        let account = self.sources.world.account.ok_or(CommandError::NoPassword)?;
        Ok(Authorisation::Approve { permit_id, account })
    }

    /// Creates a proof for `wanted` with the typed password, which is tried on every key concerned.
    pub(super) async fn prove(
        &self,
        wanted: Authorisation,
        password: Option<Password>,
    ) -> Result<OperatorProof, CommandError> {
        let gate = self.gate();
        let keys = gate.keys_for(&wanted, self.on_devnet());
        let keys = keys?.into_iter().map(|key| key.name);
        let passwords = password.map(|password| keys.map(|name| (name, password.clone())).collect());
        let audit_logs = [AuditLog::new(self.sources.ledger.store.clone(), self.sources.clock.clone())];
        let passwords = passwords.unwrap_or_default();
        let proving =
            reauthentication::prove(gate, &audit_logs, wanted, self.on_devnet(), passwords, &*self.sources.clock);
        Ok(proving.await?)
    }

    async fn answer_policy(
        &self,
        hash: alloy::primitives::B256,
        answer: &OperatorAnswer,
        confirmation: &Confirmation,
        password: Option<Password>,
    ) -> Result<String, CommandError> {
        let rules = self.sources.rules.as_ref().ok_or(CommandError::NoPolicy)?;
        let now = self.sources.clock.now_millis();
        match answer.kind() {
            AnswerKind::Once => {
                policy_requirement(hash, self.money()).check(confirmation)?;
                let proof = self.prove(Authorisation::AcceptPolicy { hash }, password).await?;
                let accepted = rules.accept(hash, "operator", self.sources.clock.now_millis(), proof).await;
                let adopted = accepted?.ok_or(CommandError::OtherPolicy)?;
                // Before the answer, so that nothing is checked against the rules of the previous policy.
                self.set_policy_cage().await;
                Ok(format!("the policy is in force, as version {}", adopted.version))
            }
            AnswerKind::Refuse | AnswerKind::RefuseAndStop => {
                // The file belongs to the operator: its present content has no effect until it changes.
                rules.refuse(hash, "operator", now).await?;
                let file = rules.keeper().path().display();
                Ok(format!("the current policy stays in force; {file} differs from it until you change it back"))
            }
            AnswerKind::Similar | AnswerKind::Smaller => Err(CommandError::WholePolicy),
        }
    }

    async fn answer_own(
        self: &Arc<Self>,
        number: u64,
        answer: &OperatorAnswer,
        confirmation: &Confirmation,
        password: Option<Password>,
    ) -> Result<String, CommandError> {
        let asked = self.control.own.get(number).ok_or(CommandError::QuestionOver)?;
        if answer.kind() == AnswerKind::Once {
            asked.requirement().check(confirmation)?;
        }
        let wanted = asked.authorisation(self.signer());
        // Before the request is removed: after a wrong password it must still be open.
        let proof = match answer.kind() {
            AnswerKind::Once => Some(self.prove(wanted.clone(), password).await?),
            AnswerKind::Refuse | AnswerKind::RefuseAndStop | AnswerKind::Similar | AnswerKind::Smaller => None,
        };
        self.record_own_answer(number, answer).await?;
        let own = self.control.own.take(number).ok_or(CommandError::QuestionOver)?;
        let proof = match (answer.kind(), proof) {
            (AnswerKind::Once, Some(proof)) => proof,
            (AnswerKind::Once, None) => return Err(CommandError::NotConfirmed),
            (AnswerKind::Refuse | AnswerKind::RefuseAndStop, _) => {
                self.stats().note_rejected();
                return Ok("nothing was changed".to_owned());
            }
            (AnswerKind::Similar | AnswerKind::Smaller, _) => return Err(CommandError::OnceOnly),
        };
        let redeem = |proof: OperatorProof| {
            let redeemed = proof.redeem_on(self.on_devnet(), &wanted, self.sources.clock.now_millis());
            redeemed.map(drop)
        };
        match own {
            PromptSubject::Lower { from, to, restored, .. } => {
                let now = self.sources.clock.now_millis();
                let reason = "lowered by the operator's decision";
                let mut file = self.control.stop_watch.file.clone();
                if restored.is_some() && to < Some(StopLevel::Halt) {
                    let typed = confirmation.typed.as_ref().map(SafeText::as_str).unwrap_or_default();
                    file = file.confirm_other_copy_stopped(typed)?;
                }
                let lowered = file.lower(&from, to, reason, "operator", now, proof)?.level();
                // A stop of the whole data folder stays in force below the session's own.
                let level = lowered.max(file.outer_level());
                let result = level.map_or("the stop is lifted".to_owned(), |level| format!("the stop is at {level}"));
                Ok(if self.keys_revoked() { format!("{result}; {STAY}") } else { result })
            }
            PromptSubject::LeavePaper => {
                let paper = self.sources.paper.as_ref().ok_or(CommandError::NoSigner)?;
                redeem(proof)?;
                // Earlier unfinished work was left alone in paper mode; it is recovered before anything new is signed.
                if let Some(pipeline) = &self.sources.pipeline {
                    pipeline
                        .recover()
                        .await
                        .map_err(|refusal| CommandError::PaperStays(SafeText::clean(&refusal.message, 400)))?;
                }
                // Offers that were shown as a rehearsal can no longer be approved.
                self.control.offers.clear();
                paper.turn(false);
                Ok("paper mode is off: actions are signed again".to_owned())
            }
            PromptSubject::SellAfterDeath => {
                redeem(proof)?;
                let state = Arc::clone(self);
                let task = state.control.running.begin();
                tokio::spawn(async move {
                    state.sell_all(SaleCause::Death).await;
                    drop(task);
                });
                Ok(SALE_BEGAN.to_owned())
            }
            PromptSubject::SellUnderFlatten { from, .. } => {
                redeem(proof)?;
                let state = Arc::clone(self);
                let task = state.control.running.begin();
                tokio::spawn(async move {
                    state.flatten(from).await;
                    drop(task);
                });
                Ok(SALE_BEGAN.to_owned())
            }
            PromptSubject::SellUnderHalt { from } => self.sell_under_halt(&from, proof).map_err(|error| {
                // Requested once for each halt: after a failure it must be possible to try again.
                if !matches!(error, StopError::Changed) {
                    self.control.own.ask(PromptSubject::SellUnderHalt { from }, self.sources.clock.now_millis());
                }
                error.into()
            }),
            PromptSubject::ResetBreaker { .. } => {
                let rules = self.sources.rules.as_ref().ok_or(CommandError::NoPolicy)?;
                let reset = rules.reset_breaker("operator", self.sources.clock.now_millis(), proof).await;
                reset?;
                Ok("the failure breaker is closed".to_owned())
            }
        }
    }

    /// Records the operator's answer to a request of the session itself, before anything is done about it.
    async fn record_own_answer(&self, number: u64, answer: &OperatorAnswer) -> Result<(), CommandError> {
        let (outcome, reason) = match answer {
            OperatorAnswer::Once => (ApprovalOutcome::Approved, None),
            OperatorAnswer::Refuse { reason } | OperatorAnswer::RefuseAndStop { reason } => {
                (ApprovalOutcome::Refused, Some(reason))
            }
            OperatorAnswer::Similar { .. } | OperatorAnswer::Smaller { .. } => return Ok(()),
        };
        let (asked, plan) = self.control.own.shown(number).ok_or(CommandError::QuestionOver)?;
        let mut body = json!({ "outcome": outcome, "by": "operator", "reason": reason, "asked": asked });
        if let (Some(plan), Some(fields)) = (plan, body.as_object_mut()) {
            fields.insert("plan".to_owned(), json!(plan));
        }
        let note =
            AuditNote { kind: AuditKind::ApprovalResolved, call_id: None, golem_id: self.golem_id.clone(), body };
        let audit_log = AuditLog::new(self.sources.ledger.store.clone(), self.sources.clock.clone());
        audit_log.record(note).await.map_err(|error| CommandError::Share(ShareError::Audit(error)))
    }

    fn ask_to_lower(&self, to: Option<StopLevel>) -> Result<String, CommandError> {
        let found = self.control.stop_watch.file.read();
        let level = found.level();
        if level.is_none() || to >= level {
            return Err(CommandError::NoHigherStop);
        }
        let sent = match &found {
            ActiveStop::Stop(stop) if stop.by.as_str() == "operator" => format!("the operator: {}", stop.reason),
            ActiveStop::Stop(stop) => format!("{}: {}", stop.by, stop.reason),
            ActiveStop::Garbled { why } => why.clone(),
            ActiveStop::None => String::new(),
        };
        Ok(self.queue_prompt(PromptSubject::Lower {
            from: found,
            to,
            remains: self.control.stop_watch.file.outer_level(),
            said: SafeText::clean(&sent, 300),
            without_keys: self.keys_revoked(),
            restored: self.control.stop_watch.file.restored(),
        }))
    }

    fn ask_to_reset(&self) -> Result<String, CommandError> {
        let policy = self.sources.keeper.as_ref().ok_or(CommandError::NoPolicy)?.current().policy;
        let account = self.sources.world.account.ok_or(CommandError::NoAccount)?;
        let chain = self.sources.world.chains().first().ok_or(CommandError::NoChain)?.network().chain_id;
        let cool_off = policy.caps(*self.links.phase_now.borrow(), false).cool_off;
        let now = self.sources.clock.now_millis();
        let read =
            self.sources.ledger.store.read(|connection| ledger::usage(connection, now, chain, account, [], cool_off));
        let usage = read.map_err(|error: LedgerError| CommandError::from(error))?;
        match super::queries::breaker(usage.breaker) {
            BreakerState::Closed { .. } => Ok("nothing to reset: the failure breaker is closed".to_owned()),
            BreakerState::Open { failures, .. } => Ok(self.queue_prompt(PromptSubject::ResetBreaker { failures })),
            BreakerState::OneTrial => Ok(self.queue_prompt(PromptSubject::ResetBreaker { failures: 0 })),
        }
    }

    /// Opens a request of the session itself; it is reported with the others.
    fn queue_prompt(&self, own: PromptSubject) -> String {
        self.control.own.ask(own, self.sources.clock.now_millis());
        "this needs a decision: press a to open it".to_owned()
    }

    async fn devnet(&self, control: DevnetControl) -> Result<String, SteerError> {
        let chains = self.inhabited()?;
        let of = |chain_id: u64| {
            let found = chains.iter().find(|chain| chain.devnet.chain_id() == chain_id);
            found.ok_or(SteerError::NoChain(chain_id))
        };
        match control {
            DevnetControl::Mine { chain_id, blocks } => {
                let chain = of(chain_id)?;
                let blocks = blocks.clamp(1, MOST_BLOCKS);
                let mut number = 0;
                for _ in 0..blocks {
                    number = chain.devnet.mine().await?.number();
                }
                Ok(format!("{} mined, up to #{number}", counted(blocks.into(), "block", "blocks")))
            }
            DevnetControl::Advance { chain_id, seconds } => {
                let chain = of(chain_id)?;
                let seconds = seconds.min(MOST_SECONDS);
                chain.devnet.run(move |chain| chain.increase_time(seconds)).await?;
                chain.devnet.mine().await?;
                Ok(format!("advanced chain {chain_id} by {seconds} s"))
            }
            DevnetControl::Market { on } => {
                self.set_market(on).await?;
                Ok(format!("the market {}", if on { "trades" } else { "is stopped" }))
            }
            DevnetControl::Crash { bps } | DevnetControl::Spike { bps } => {
                let parts = bps.min(9_900).saturating_mul(100);
                let crash = matches!(control, DevnetControl::Crash { .. });
                for chain in chains {
                    let background_actors = chain.background_actors.clone();
                    let shock = move |chain: &mut golem_chain::devnet::Chain| {
                        if crash {
                            background_actors.crash(chain, parts, SHOCK_BLOCKS);
                        } else {
                            background_actors.spike(chain, parts, SHOCK_BLOCKS);
                        }
                    };
                    chain.devnet.run(shock).await?;
                }
                Ok(format!("prices {} by {} bps over {SHOCK_BLOCKS} blocks", if crash { "fall" } else { "rise" }, bps))
            }
            DevnetControl::Blocks { running } => {
                for chain in chains {
                    let pace = std::time::Duration::from_millis(chain.deployment.plan.block_millis);
                    let mining = if running { MiningMode::Interval(pace) } else { MiningMode::Manual };
                    chain.devnet.set_mining(mining).await?;
                }
                Ok(format!("blocks are produced {}", if running { "by the clock" } else { "only on request" }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::policy_cage::tests::{config, most};
    use crate::session::boot::boot;
    use crate::session::{SessionOptions, StopWatch};
    use bardo_base::clock::{Clock, SystemClock};

    fn one_trade(usd: u32) -> String {
        format!("max_single_trade_usd = \"{usd}\"\n")
    }

    /// On a devnet inside the process, the rules on chain are those of the policy in force: a looser file changes
    /// nothing until the operator accepts it, and a tighter one holds at once.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_policy_contract_follows_what_the_operator_accepts() {
        let home = tempfile::tempdir().unwrap();
        let config_of = |usd| config(home.path(), &one_trade(usd));
        let (first, clock): (_, Arc<dyn Clock>) = (config_of(1_500), Arc::new(SystemClock));
        let (news, _console) = mpsc::channel(4_096);
        let stop_watch = StopWatch::of(&first, clock.clone());
        let session = boot(&first, &SessionOptions::default(), clock, stop_watch, news).await.unwrap();
        let chains = session.sources.sandbox.as_ref().unwrap().chains();
        let all = async |usd: u128| {
            for chain in chains {
                assert_eq!(most(chain).await, Some(usd * 1_000_000), "{}", chain.deployment.plan.name);
            }
        };
        let mut watched = ReportedState::new(&session);
        all(1_500).await;

        config_of(2_400);
        session.poll_policy(&mut watched).await;
        all(1_500).await;
        let hash = session.sources.rules.as_ref().unwrap().pending().unwrap().policy.hash();
        let refused = OperatorAnswer::Refuse { reason: Default::default() };
        session.answer_policy(hash, &refused, &Confirmation::default(), None).await.unwrap();
        all(1_500).await;

        config_of(2_300);
        let hash = session.sources.rules.as_ref().unwrap().pending().unwrap().policy.hash();
        session.answer_policy(hash, &OperatorAnswer::Once, &Confirmation::default(), None).await.unwrap();
        all(2_300).await;

        config_of(900);
        session.poll_policy(&mut watched).await;
        all(900).await;
    }
}
