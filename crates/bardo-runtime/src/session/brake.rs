//! Stops, which wait for nothing. Every command passes by here first: what stops is carried out as it arrives, however
//! long the session is busy with the network, the ledger or a slow console; the rest goes on in its order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, watch};

use super::tell;
use crate::data::DataFolder;
use bardo_base::clock::Clock;
use bardo_base::config::Config;
use bardo_base::id::{GolemId, PermitId};
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_safety::stop::{InForce, Stop, StopFile};
use bardo_session::handle::{Command, News, Sent};
use bardo_session::questions::{OperatorAnswer, QuestionKey};

/// What can be done about a stop before anything else stands, and from everywhere afterwards.
#[derive(Debug, Clone)]
pub(super) struct Brake {
    pub file: StopFile,
    pub clock: Arc<dyn Clock>,
    /// The hold this session set, so that it can take back exactly that one.
    pub own: watch::Sender<Option<Stop>>,
    /// Stops that were set here beneath somebody's hold and are not on record yet: no look at what is in force shows them.
    beneath: Arc<Mutex<Vec<Stop>>>,
    /// Refusals that came with a stop and wait behind other commands. The stop takes the question back, and whoever asked
    /// should hear the operator's words all the same.
    refusals: Arc<Mutex<Vec<(PermitId, SafeText)>>>,
    /// Rung when something was done here, so that everybody looks at the stop file now and not at the next look.
    pub rung: Arc<Notify>,
    /// True once a console that only watches has changed the stop file.
    pub acted: Arc<AtomicBool>,
}

impl Brake {
    pub(super) fn of(config: &Config, clock: Arc<dyn Clock>) -> Self {
        Self::over(DataFolder::of(config).stop_file(), clock)
    }

    /// Over this stop file.
    pub(super) fn over(file: StopFile, clock: Arc<dyn Clock>) -> Self {
        Self {
            file,
            clock,
            own: watch::Sender::new(None),
            beneath: Arc::default(),
            refusals: Arc::default(),
            rung: Arc::default(),
            acted: Arc::default(),
        }
    }

    /// Raises the ladder; the answer says what is in force now.
    pub(super) fn raise(&self, level: StopLevel, reason: &str) -> Result<InForce, String> {
        let raised = self.file.raise_own(level, reason, "operator", self.clock.now_millis());
        let (in_force, set) = raised.map_err(|error| error.to_string())?;
        if let Some(set) = set.filter(|set| in_force != InForce::Stop(set.clone())) {
            self.beneath.lock().unwrap_or_else(PoisonError::into_inner).push(set);
        }
        Ok(in_force)
    }

    /// The stops that were set beneath another one since this was asked last.
    pub(super) fn take_beneath(&self) -> Vec<Stop> {
        std::mem::take(&mut *self.beneath.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The refusals that came with a stop since this was asked last.
    pub(super) fn take_refusals(&self) -> Vec<(PermitId, SafeText)> {
        std::mem::take(&mut *self.refusals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a choice of one's own hold, or raises the ladder where there is none. Where the choice is lower it is set
    /// beneath the hold first, so that between the two nothing is let through. What was higher beneath it stays.
    pub(super) fn choose(&self, level: StopLevel, reason: &str) -> Result<InForce, String> {
        let in_force = self.raise(level, reason)?;
        let own = self.own.borrow().clone();
        let in_force = match own.filter(|own| in_force == InForce::Stop(own.clone())) {
            // Where it fails it holds on, and can still be chosen about.
            Some(own) if level < own.level => self.file.release(&own).map_err(|error| error.to_string())?,
            // Somebody else's: one's own may lie beneath it, and is then still to be released.
            _ if in_force.is_hold() => return Ok(in_force),
            _ => in_force,
        };
        self.own.send_replace(None);
        Ok(in_force)
    }

    /// Stops new signatures at once, and remembers the stop as one's own.
    pub(super) fn hold(&self) -> Result<(), String> {
        let own = self.own.borrow().clone();
        if own.is_some_and(|own| self.file.read() == InForce::Stop(own)) {
            return Ok(());
        }
        let set = self.file.hold(HOLD_REASON, "operator", self.clock.now_millis());
        if let Some(set) = set.map_err(|error| error.to_string())? {
            self.own.send_replace(Some(set));
        }
        Ok(())
    }

    /// Takes back one's own hold, and no other stop.
    pub(super) fn release(&self) -> Result<String, String> {
        let own = self.own.borrow().clone().ok_or("this console has no hold to release")?;
        let now = self.file.release(&own).map_err(|error| error.to_string())?;
        self.own.send_replace(None);
        Ok(match now {
            InForce::None => "the hold is released".to_owned(),
            InForce::Stop(stop) => {
                format!("the hold is released; the stop below it, {}, is in force", stop.level)
            }
            InForce::Garbled { why } => why,
        })
    }

    /// Carries a command out that is about the stop ladder and needs no decision; `None`: it is another.
    pub(super) fn obey(&self, command: &Command) -> Option<Result<String, String>> {
        let done = match command {
            Command::Hold => self.hold().map(|()| "held: no new signatures".to_owned()),
            Command::ReleaseHold => self.release(),
            Command::Raise { level, reason } => {
                let raised = self.choose(*level, reason.as_str());
                raised.map(|now| {
                    let told = format!("the stop ladder is at {}", now.level().map_or("nothing", StopLevel::as_str));
                    match now.level() {
                        Some(StopLevel::Revoke) => {
                            format!("{told}: the Golem's session keys are revoked until a restart")
                        }
                        _ => told,
                    }
                })
            }
            Command::Call { .. }
            | Command::Offer { .. }
            | Command::Commit { .. }
            | Command::Cancel { .. }
            | Command::Answer { .. }
            | Command::AskToLower { .. }
            | Command::AskToLeavePaper
            | Command::EnterPaper
            | Command::AskToResetBreaker
            | Command::Say { .. }
            | Command::RevokeGrant { .. }
            | Command::Look { .. }
            | Command::Devnet(_)
            | Command::Replay(_)
            | Command::Scenario { .. }
            | Command::Step
            | Command::Leave(_) => return None,
        };
        self.rung.notify_one();
        Some(done)
    }

    /// The stop that comes with a refusal: whatever becomes of the answer, nothing is signed after it.
    pub(super) fn refuse_all(&self, reason: &SafeText) -> Result<InForce, String> {
        let reason = if reason.is_empty() { "refused, and everything stopped" } else { reason.as_str() };
        let raised = self.raise(StopLevel::Halt, reason);
        self.rung.notify_one();
        raised
    }
}

/// The reason that a hold carries.
pub const HOLD_REASON: &str = "held by the operator: no choice made yet";

/// Stands before the session's queue.
pub(super) struct Front {
    pub brake: Brake,
    /// This console changes nothing but the stop file.
    pub watch_only: bool,
    pub golem_id: GolemId,
}

impl Front {
    /// Takes every command off as it arrives, until nobody sends any or the session has ended.
    pub(super) async fn stand(
        self,
        mut arriving: mpsc::Receiver<Sent>,
        on: mpsc::Sender<Sent>,
        news: mpsc::Sender<News>,
    ) {
        loop {
            let sent = tokio::select! {
                sent = arriving.recv() => sent,
                () = on.closed() => None,
            };
            let Some(sent) = sent else { return };
            if let Some(told) = self.stops(&sent) {
                say(&news, told);
                continue;
            }
            match on.try_send(sent) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => {
                    say(&news, Err("not done: the command queue is full. Try again".to_owned()))
                }
                Err(TrySendError::Closed(_)) => return,
            }
        }
    }

    /// Obeys a command of a console that only watches, provided that it raises the stop file or releases that console's own
    /// hold: all sessions of the data folder obey the file. `None` for any other command, which the session refuses.
    fn stop_from_aside(&self, command: &Command) -> Option<Result<String, String>> {
        match command {
            Command::Hold | Command::ReleaseHold | Command::Raise { .. } => {
                // It has raised the stop itself: nobody else may be there to put that on record.
                self.brake.acted.store(true, Ordering::SeqCst);
                self.brake.obey(command)
            }
            _ => None,
        }
    }

    /// What came of a stop; `None` where the command is for the queue. One that both refuses and stops has stopped here,
    /// and goes on for its answer.
    fn stops(&self, sent: &Sent) -> Option<Result<String, String>> {
        let ours = sent.golem_id == self.golem_id || sent.golem_id == GolemId::operator();
        if !ours {
            return None;
        }
        if self.watch_only {
            return self.stop_from_aside(&sent.command);
        }
        if let Command::Answer { key, answer: OperatorAnswer::RefuseAndStop { reason }, .. } = &sent.command {
            // Known before the stop is, so that whoever sees the stop finds it.
            if let QuestionKey::Action(permit) = key {
                let mut refusals = self.brake.refusals.lock().unwrap_or_else(PoisonError::into_inner);
                refusals.push((*permit, reason.clone()));
            }
            // Where it fails, it fails again where the answer is given, and that says so.
            let _tried_again = self.brake.refuse_all(reason);
            return None;
        }
        self.brake.obey(&sent.command)
    }
}

/// Tells the console, and does not wait for it.
fn say(news: &mpsc::Sender<News>, told: Result<String, String>) {
    let (done, words) = match told {
        Ok(words) => (true, words),
        Err(words) => (false, words),
    };
    let told = News::Told { done, words: SafeText::clean(&words, 400) };
    if let Err(TrySendError::Full(told)) = news.try_send(told) {
        let news = news.clone();
        tokio::spawn(async move { tell(&news, told).await });
    }
}

#[cfg(test)]
mod tests;
