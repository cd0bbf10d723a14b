//! Immediate handling of stops. Every command passes here first: a stop is carried out as it arrives, however busy the
//! session is with the network, the ledger or a slow console. Other commands are queued in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, watch};

use super::commands::CommandOutcome;
use super::error::CommandError;
use super::send_news;
use crate::data::DataFolder;
use bardo_base::clock::Clock;
use bardo_base::config::Config;
use bardo_base::id::{GolemId, PermitId};
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_safety::stop::{ActiveStop, Stop, StopError, StopFile};
use bardo_session::handle::{AddressedCommand, SessionCommand, SessionNews};
use bardo_session::questions::{OperatorAnswer, QuestionKey};

/// State for stops that exists before everything else, and is used from everywhere afterwards.
#[derive(Debug, Clone)]
pub(super) struct StopWatch {
    pub file: StopFile,
    pub clock: Arc<dyn Clock>,
    /// Hold that this session set, so that it can release exactly that one.
    pub own: watch::Sender<Option<Stop>>,
    /// Stops that were set here beneath another console's hold and are not recorded yet: reading the stop in force does
    /// not show them.
    lower_stops: Arc<Mutex<Vec<Stop>>>,
    /// Rejections that came with a stop and wait behind other commands. The stop withdraws the request, but the agent
    /// must still receive the operator's comment.
    refusals: Arc<Mutex<Vec<(PermitId, SafeText)>>>,
    /// Notified after a change here, so that the stop file is read at once instead of at the next poll.
    pub rung: Arc<Notify>,
    /// True once a read-only console has changed the stop file.
    pub acted: Arc<AtomicBool>,
    /// True once flatten was asked for again while it was in force: what is left is to be sold.
    pub flatten_again: Arc<AtomicBool>,
}

impl StopWatch {
    pub(super) fn of(config: &Config, clock: Arc<dyn Clock>) -> Self {
        Self::over(DataFolder::of(config).stop_file(), clock)
    }

    /// Creates the state for this stop file.
    pub(super) fn over(file: StopFile, clock: Arc<dyn Clock>) -> Self {
        Self {
            file,
            clock,
            own: watch::Sender::new(None),
            lower_stops: Arc::default(),
            refusals: Arc::default(),
            rung: Arc::default(),
            acted: Arc::default(),
            flatten_again: Arc::default(),
        }
    }

    /// Raises the stop level; returns the stop now in force.
    pub(super) fn raise(&self, level: StopLevel, reason: &str) -> Result<ActiveStop, StopError> {
        let raised = self.file.raise_own(level, reason, "operator", self.clock.now_millis());
        let (in_force, set) = raised?;
        if let Some(set) = set.filter(|set| in_force != ActiveStop::Stop(set.clone())) {
            self.lower_stops.lock().push(set);
        }
        Ok(in_force)
    }

    /// Returns and clears the stops that were set beneath another one.
    pub(super) fn take_lower_stops(&self) -> Vec<Stop> {
        std::mem::take(&mut *self.lower_stops.lock())
    }

    /// Returns and clears the rejections that came with a stop.
    pub(super) fn take_refusals(&self) -> Vec<(PermitId, SafeText)> {
        std::mem::take(&mut *self.refusals.lock())
    }

    /// Replaces the session's own hold with a chosen level, or raises the level without one. A lower choice is
    /// first set beneath the hold, so that nothing passes in between. A higher stop beneath the hold stays.
    pub(super) fn choose(&self, level: StopLevel, reason: &str) -> Result<ActiveStop, StopError> {
        let in_force = self.raise(level, reason)?;
        let own = self.own.borrow().clone();
        let in_force = match own.filter(|own| in_force == ActiveStop::Stop(own.clone())) {
            // If it fails, the hold stays and the choice can be repeated.
            Some(own) if level < own.level => self.file.release(&own)?,
            // Another console's hold: the own hold may be beneath it and must still be released.
            _ if in_force.is_hold() => return Ok(in_force),
            _ => in_force,
        };
        self.own.send_replace(None);
        Ok(in_force)
    }

    /// Stops new signatures at once, and remembers the stop as this session's own hold.
    pub(super) fn hold(&self) -> Result<(), StopError> {
        let own = self.own.borrow().clone();
        if own.is_some_and(|own| self.file.read() == ActiveStop::Stop(own)) {
            return Ok(());
        }
        let set = self.file.hold(HOLD_REASON, "operator", self.clock.now_millis());
        if let Some(set) = set? {
            self.own.send_replace(Some(set));
        }
        Ok(())
    }

    /// Releases the session's own hold, and no other stop.
    pub(super) fn release(&self) -> Result<String, CommandError> {
        let own = self.own.borrow().clone().ok_or(CommandError::NoHold)?;
        let now = self.file.release(&own)?;
        self.own.send_replace(None);
        Ok(match now {
            ActiveStop::None => "the hold is released".to_owned(),
            ActiveStop::Stop(stop) => {
                format!("the hold is released; the stop below it, {}, is in force", stop.level)
            }
            ActiveStop::Garbled { why } => why,
        })
    }

    /// Executes a command about stops that needs no approval; `None` for other commands.
    pub(super) fn obey(&self, command: &SessionCommand) -> CommandOutcome {
        let done = match command {
            SessionCommand::Hold => self.hold().map(|()| "held: no new signatures".to_owned()).map_err(Into::into),
            SessionCommand::ReleaseHold => self.release(),
            SessionCommand::Raise { level, reason } => {
                let again = *level == StopLevel::Flatten && self.file.read().level() == Some(StopLevel::Flatten);
                let raised = self.choose(*level, reason.as_str()).map_err(Into::into);
                raised.map(|now| {
                    if again && now.level() == Some(StopLevel::Flatten) {
                        self.flatten_again.store(true, Ordering::SeqCst);
                        return "the stop is at flatten already: what is left is sold, or asked about".to_owned();
                    }
                    let result = now.level().map_or_else(
                        || "no stop is in force".to_owned(),
                        |level| format!("the stop in force is {}", level.as_str()),
                    );
                    match now.level() {
                        Some(stronger) if stronger > *level => {
                            format!("{result}, which is stronger than {}", level.as_str())
                        }
                        Some(StopLevel::Revoke) => {
                            format!("{result}: the Golem's session keys are revoked until a restart")
                        }
                        _ => result,
                    }
                })
            }
            SessionCommand::Call { .. }
            | SessionCommand::Offer { .. }
            | SessionCommand::Commit { .. }
            | SessionCommand::Cancel { .. }
            | SessionCommand::Answer { .. }
            | SessionCommand::AskToLower { .. }
            | SessionCommand::AskToLeavePaper
            | SessionCommand::EnterPaper
            | SessionCommand::AskToResetBreaker
            | SessionCommand::Say { .. }
            | SessionCommand::RevokeGrant { .. }
            | SessionCommand::Rebroadcast { .. }
            | SessionCommand::Label { .. }
            | SessionCommand::ApproveSecond { .. }
            | SessionCommand::Look { .. }
            | SessionCommand::Devnet(_)
            | SessionCommand::Replay(_)
            | SessionCommand::Scenario { .. }
            | SessionCommand::Step
            | SessionCommand::Leave(_) => return None,
        };
        self.rung.notify_one();
        Some(done)
    }

    /// Sets the stop that comes with a rejection: whatever happens to the answer, nothing is signed afterwards.
    pub(super) fn refuse_all(&self, reason: &SafeText) -> Result<ActiveStop, StopError> {
        let reason = if reason.is_empty() { "rejected a request, and stopped everything" } else { reason.as_str() };
        let raised = self.raise(StopLevel::Halt, reason);
        self.rung.notify_one();
        raised
    }
}

/// Reason that a hold states in the stop file.
pub const HOLD_REASON: &str = "held by the operator: no choice made yet";

/// First stage of command handling, before the session's queue.
pub(super) struct CommandFront {
    pub stop_watch: StopWatch,
    /// True for a read-only console, which changes nothing but the stop file.
    pub watch_only: bool,
    pub golem_id: GolemId,
}

impl CommandFront {
    /// Receives every command as it arrives, until no sender remains or the session has ended.
    pub(super) async fn receive_commands(
        self,
        mut arriving: mpsc::Receiver<AddressedCommand>,
        on: mpsc::Sender<AddressedCommand>,
        news: mpsc::Sender<SessionNews>,
    ) {
        loop {
            let sent = tokio::select! {
                sent = arriving.recv() => sent,
                () = on.closed() => None,
            };
            let Some(sent) = sent else { return };
            if let Some(result) = self.stops(&sent) {
                send_result(&news, result);
                continue;
            }
            match on.try_send(sent) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => send_result(&news, Err(CommandError::Busy)),
                Err(TrySendError::Closed(_)) => return,
            }
        }
    }

    /// Executes a command of a read-only console if it raises the stop or releases that console's own hold, which all
    /// sessions of the data directory obey. `None` for any other command, which the session rejects.
    fn stop_from_aside(&self, command: &SessionCommand) -> CommandOutcome {
        if !command.is_stop() {
            return None;
        }
        // This console raised the stop, and possibly no other session exists that would record it.
        self.stop_watch.acted.store(true, Ordering::SeqCst);
        self.stop_watch.obey(command)
    }

    /// Executes a stop and returns its result; `None` for commands that belong into the queue. A rejection with a stop
    /// is stopped here and still queued for its answer.
    fn stops(&self, sent: &AddressedCommand) -> CommandOutcome {
        let ours = sent.golem_id == self.golem_id || sent.golem_id == GolemId::operator();
        if !ours {
            return None;
        }
        if self.watch_only {
            return self.stop_from_aside(&sent.command);
        }
        if let SessionCommand::Answer { key, answer: OperatorAnswer::RefuseAndStop { reason }, .. } = &sent.command {
            // Stored before the stop, so that every observer of the stop finds it.
            if let QuestionKey::Action(permit) = key {
                let mut refusals = self.stop_watch.refusals.lock();
                refusals.push((*permit, reason.clone()));
            }
            // If it fails, it fails again with the answer, which reports the error.
            let _tried_again = self.stop_watch.refuse_all(reason);
            return None;
        }
        self.stop_watch.obey(&sent.command)
    }
}

/// Sends a message to the console without waiting for it.
fn send_result(news: &mpsc::Sender<SessionNews>, result: Result<String, CommandError>) {
    let (done, words) = match result {
        Ok(words) => (true, words),
        Err(error) => (false, error.to_string()),
    };
    let result = SessionNews::CommandResult { done, words: SafeText::clean(&words, 400) };
    if let Err(TrySendError::Full(result)) = news.try_send(result) {
        let news = news.clone();
        tokio::spawn(async move { send_news(&news, result).await });
    }
}

#[cfg(test)]
mod tests;
