//! Brain that is an external program in any language. It runs as a child process and speaks JSON lines on stdin and
//! stdout, as [`protocol`] describes. It can use the eight tools and nothing else of Bardo.
//!
//! The program runs as the operator's user, but confined ([`confinement`]): it cannot reach the terminal, the data,
//! configuration and key folders, or other processes. Where the system cannot enforce that, the program is refused
//! unless the configuration allows it. Approvals given outside the session do not count for requests of such a brain.
//!
//! | behaviour | consequence |
//! |---|---|
//! | ends, closes its stdout, sends `done` | the brain ends, with the reason |
//! | sends a line that cannot be parsed | an error is returned; more than sixteen such lines end it |
//! | sends more than 200 lines in a second, or a line of more than 128 KiB | it is ended |
//! | does not answer a tick within its timeout, with no call of its own running | it is ended |
//! | does not read its input | it is ended |
//! | makes more concurrent calls, or more calls in total, than allowed | the call is refused |
//!
//! In every case its open offers are withdrawn, its pending approval requests are cancelled, and the Golem continues
//! and listens to the operator. Signing that has begun runs to its end.

mod child;
pub mod confinement;
pub mod lines;
pub mod protocol;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};

use super::{AgentSignals, Brain, BrainEnd, COMMIT, WakeReason};
use crate::agent_api::{ActionKind, AgentTools};
use bardo_base::format::counted;
use bardo_base::text::SafeText;
use child::{ChildOutput, ChildProcess};
use confinement::{Confinement, IsolationLevel};
use golem_tools::dialect::ToolGroup;
use golem_tools::dialect::almanak::{self, AlmanakSession};
use golem_tools::engine::{ToolInput, schema};
use protocol::{BrainDialect, BrainLimits, BrainMessage};

pub use child::CommandLine;

/// Maximum number of concurrent calls.
const AT_ONCE: usize = 4;
/// Maximum number of lines in one second.
const LINES_A_SECOND: usize = 200;
/// Maximum number of unparsable lines in total.
const NONSENSE: u32 = 16;
/// Poll interval for the state of the process.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time that the process gets to exit after `bye`.
const GOING: Duration = Duration::from_secs(2);
/// Timeout for a running commit when the brain ends.
const SETTLING: Duration = Duration::from_secs(20);

/// Limits of a brain process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Interval between two ticks.
    pub tick: Duration,
    /// Timeout for an answer to a tick.
    pub patience: Duration,
    /// Maximum number of calls in total.
    pub calls: u64,
    /// Maximum number of ticks; `None` for no limit.
    pub ticks: Option<u64>,
}

/// External program as a brain; see the module documentation.
#[derive(Debug)]
pub struct ProcessBrain {
    line: CommandLine,
    limits: ProcessLimits,
    confinement: Confinement,
}

impl ProcessBrain {
    /// Creates a brain that runs this program under this confinement.
    pub fn new(line: CommandLine, limits: ProcessLimits, confinement: Confinement) -> Self {
        Self { line, limits, confinement }
    }
}

impl Brain for ProcessBrain {
    fn live<'a>(self: Box<Self>, signals: &'a mut AgentSignals) -> BoxFuture<'a, BrainEnd> {
        Box::pin(async move {
            let (well, why) = match ChildProcess::start(&self.line, &self.confinement).await {
                Err(why) => (false, why.to_string()),
                Ok((running, isolation)) => {
                    let led = format!("Led by the program `{}`.", self.line.program());
                    match isolation.level() {
                        IsolationLevel::Full => signals.now(&led, "", None, None),
                        IsolationLevel::Partial | IsolationLevel::None => {
                            tracing::warn!(%isolation, "brain process");
                            signals.now(&format!("{led} {isolation}."), "", None, None);
                        }
                    }
                    Conversation::new(running, self.limits).lead(signals).await
                }
            };
            BrainEnd { well, why: SafeText::clean(&why, 300) }
        })
    }
}

/// Conversation with a running program.
struct Conversation {
    running: ChildProcess,
    limits: ProcessLimits,
    calls_left: u64,
    /// True once the program has said what it does: its reasons then do not replace its words.
    says_now: bool,
    /// Running calls. Dropping the set aborts them unless signing has begun.
    calls: JoinSet<Value>,
    /// Running commits, which are awaited at the end.
    commits: JoinSet<Value>,
    /// Session in which the program speaks a dialect, from its first such call on.
    almanak: Option<Arc<AlmanakSession>>,
    /// The program's id for each running call, and the number of the line that made it.
    ids: HashMap<Id, (String, u64)>,
    ticks: u64,
    due: Instant,
    /// Time at which the unanswered tick was sent; `None` if no tick is unanswered.
    unanswered: Option<Instant>,
    /// Arrival times of the lines of the last second.
    lately: VecDeque<Instant>,
    /// Time at which the process was first seen to have ended.
    ended: Option<Instant>,
    nonsense: u32,
    /// Number of lines received from the program.
    lines: u64,
    thinking: bool,
}

/// Reason for the end of a conversation.
#[derive(Debug)]
enum ConversationEnd {
    /// The program said that it is done, or its ticks are used up.
    Done(String),
    /// The conversation cannot continue.
    Broken(String),
}

fn broken(why: impl Into<String>) -> ConversationEnd {
    ConversationEnd::Broken(why.into())
}

impl Conversation {
    fn new(running: ChildProcess, limits: ProcessLimits) -> Self {
        Self {
            running,
            limits,
            calls_left: limits.calls,
            says_now: false,
            calls: JoinSet::new(),
            commits: JoinSet::new(),
            almanak: None,
            ids: HashMap::new(),
            ticks: 0,
            due: Instant::now(),
            unanswered: None,
            lately: VecDeque::new(),
            ended: None,
            nonsense: 0,
            lines: 0,
            thinking: false,
        }
    }

    /// Runs the conversation. Returns whether it ended regularly, and the reason.
    async fn lead(mut self, signals: &mut AgentSignals) -> (bool, String) {
        let over = match self.talk(signals).await {
            Err(ConversationEnd::Broken(why)) => (false, why),
            Err(ConversationEnd::Done(why)) => {
                self.session_summary().await;
                (true, why)
            }
            Ok(()) => {
                self.session_summary().await;
                (true, "it was asked to stop".to_owned())
            }
        };
        // Previews and reads end here, so no new offer can appear.
        self.calls.shutdown().await;
        signals.agent().withdraw_own().await;
        let until = Instant::now() + SETTLING;
        while let Ok(Some(_)) = timeout_at(until, self.commits.join_next()).await {}
        // Commits that are still being signed continue by themselves.
        self.commits.detach_all();
        over
    }

    /// Returns `Ok` if the session asks the brain to leave.
    async fn talk(&mut self, signals: &mut AgentSignals) -> Result<(), ConversationEnd> {
        let told = BrainLimits {
            tick_seconds: self.limits.tick.as_secs(),
            patience_seconds: self.limits.patience.as_secs(),
            calls: self.limits.calls,
            calls_at_once: AT_ONCE,
            lines_a_second: LINES_A_SECOND,
        };
        self.send_line(&protocol::hello(signals.agent(), told))?;
        loop {
            // A program that has not answered the last tick, or has running calls, gets no new tick.
            let free = self.unanswered.is_none() && self.ids.is_empty();
            let wakes = if free { self.due } else { Instant::now() + POLL_INTERVAL };
            tokio::select! {
                out = self.running.next() => match out {
                    Some(ChildOutput::Line(line)) => self.receive(&line, signals)?,
                    Some(ChildOutput::TooLong) => {
                        let most = protocol::MOST_LINE >> 10;
                        return Err(broken(format!("it wrote a line longer than {most} KiB")));
                    }
                    Some(ChildOutput::End(half)) => return Err(self.closed(half).await),
                    None => return Err(self.closed(0).await),
                },
                Some(answered) = self.calls.join_next_with_id() => self.answer(answered)?,
                Some(answered) = self.commits.join_next_with_id() => self.answer(answered)?,
                woken = signals.wake(wakes) => match woken {
                    WakeReason::Leave => return Ok(()),
                    WakeReason::Words(words) => {
                        self.send_line(&json!({"type": "words", "text": words, "context": signals.context()}))?;
                    }
                    WakeReason::Due if free => self.tick(signals)?,
                    WakeReason::Due => {}
                },
                () = sleep(POLL_INTERVAL) => self.check_alive()?,
            }
        }
    }

    fn tick(&mut self, signals: &AgentSignals) -> Result<(), ConversationEnd> {
        if let Some(most) = self.limits.ticks.filter(|most| self.ticks >= *most) {
            return Err(ConversationEnd::Done(format!("it reached its limit of {}", counted(most, "tick", "ticks"))));
        }
        let now = Instant::now();
        self.due = now + self.limits.tick;
        self.ticks += 1;
        self.unanswered = Some(now);
        let context = signals.context();
        self.send_line(&json!({"type": "tick", "tick": self.ticks, "calls_left": self.calls_left, "context": context}))
    }

    /// Checks that the process is alive and answers its tick.
    fn check_alive(&mut self) -> Result<(), ConversationEnd> {
        if let Some(asked) = self.unanswered
            && self.ids.is_empty()
            && asked.elapsed() > self.limits.patience
        {
            return Err(broken(format!("it has not answered for {} s", self.limits.patience.as_secs())));
        }
        // Output left in the pipe by an ended program is read first; only its descendants can keep the pipe open after
        // that.
        let Some(how) = self.running.ended() else { return Ok(()) };
        let seen = *self.ended.get_or_insert_with(Instant::now);
        let quiet = self.lately.back().map_or(seen, |last| seen.max(*last)).elapsed();
        if quiet > GOING { Err(self.how(how)) } else { Ok(()) }
    }

    fn receive(&mut self, line: &[u8], signals: &mut AgentSignals) -> Result<(), ConversationEnd> {
        let now = Instant::now();
        self.lines = self.lines.saturating_add(1);
        self.lately.push_back(now);
        while self.lately.front().is_some_and(|at| now.duration_since(*at) > Duration::from_secs(1)) {
            self.lately.pop_front();
        }
        if self.lately.len() > LINES_A_SECOND {
            return Err(broken(format!("it wrote more than {LINES_A_SECOND} lines in a second")));
        }
        let said = match protocol::read(line) {
            Ok(said) => said,
            Err(why) => {
                self.nonsense += 1;
                if self.nonsense > NONSENSE {
                    return Err(broken(format!("it keeps writing invalid lines: {why}")));
                }
                return self.send_line(&protocol::refused(&protocol::id_of(line), self.lines, &why));
            }
        };
        // Only a valid line counts as an answer.
        self.unanswered = None;
        let thinks = matches!(&said, BrainMessage::Think { more: true, .. });
        match said {
            BrainMessage::Call { id, tool, params, dialect } => self.call(id, (tool, dialect), params, signals)?,
            BrainMessage::Think { text, more } if self.thinking => signals.think_on(&text, more),
            BrainMessage::Think { text, more } => signals.think(&text, more),
            BrainMessage::Now { now, next, step, of } => {
                let step = step.zip(of).filter(|(step, of)| (1..=*of).contains(step));
                self.says_now = true;
                signals.now(&now, &next, step, None);
            }
            BrainMessage::Idle {} => {}
            BrainMessage::Done { why } if why.trim().is_empty() => {
                return Err(ConversationEnd::Done("it is done".to_owned()));
            }
            BrainMessage::Done { why } => return Err(ConversationEnd::Done(format!("it is done: {why}"))),
        }
        self.thinking = thinks;
        Ok(())
    }

    fn call(
        &mut self,
        id: String,
        (tool, dialect): (String, Option<BrainDialect>),
        params: Value,
        signals: &mut AgentSignals,
    ) -> Result<(), ConversationEnd> {
        if self.ids.values().any(|(one, _)| *one == id) {
            return self.send_line(&protocol::refused(&json!(id), self.lines, &"a call with this id is in progress"));
        }
        if self.ids.len() >= AT_ONCE {
            let why = format!("{AT_ONCE} calls are in progress; wait for an answer");
            return self.send_line(&protocol::refused(&json!(id), self.lines, &why));
        }
        let Some(left) = self.calls_left.checked_sub(1) else {
            return self.send_line(&protocol::refused(
                &json!(id),
                self.lines,
                &"the call limit of this run is reached",
            ));
        };
        self.calls_left = left;
        let begun = match dialect {
            Some(BrainDialect::Almanak) => {
                let new = || Arc::new(AlmanakSession::new(Arc::new(AgentTools::new(signals.agent().clone()))));
                let session = Arc::clone(self.almanak.get_or_insert_with(new));
                let acts = almanak::tool(&tool).is_some_and(|tool| tool.category == ToolGroup::Action);
                let call = async move { json!(session.call(&tool, ToolInput::Json(params)).await) };
                if acts { self.commits.spawn(call) } else { self.calls.spawn(call) }
            }
            None => {
                let kind = params.get("kind").and_then(Value::as_str).and_then(ActionKind::named);
                if let Some(kind) = kind.filter(|_| !self.says_now) {
                    let why = params.get("why").and_then(Value::as_str).unwrap_or(kind.name);
                    signals.now(why, "", None, Some(kind));
                }
                let commits = tool == COMMIT;
                let call = signals.call(tool, params);
                let call = async move { json!(call.await) };
                if commits { self.commits.spawn(call) } else { self.calls.spawn(call) }
            }
        };
        self.ids.insert(begun.id(), (id, self.lines));
        Ok(())
    }

    fn answer(&mut self, answered: Result<(Id, Value), tokio::task::JoinError>) -> Result<(), ConversationEnd> {
        match answered {
            Ok((task, response)) => {
                let (id, _) = self.ids.remove(&task).unwrap_or_default();
                self.send_line(&protocol::result(&id, &response))
            }
            Err(broken) => {
                let (id, line) = self.ids.remove(&broken.id()).unwrap_or_default();
                self.send_line(&protocol::refused(&json!(id), line, &"the call failed"))
            }
        }
    }

    fn send_line(&self, line: &serde_json::Value) -> Result<(), ConversationEnd> {
        // Debug builds, and therefore tests, check every line against the published schema; release builds skip the
        // cost.
        if cfg!(debug_assertions)
            && let Some(fault) = schema::mismatch(&lines::to_brain(), line)
        {
            return Err(broken(format!("a line to it does not match the protocol's schema: {fault}")));
        }
        if self.running.send_line(line) { Ok(()) } else { Err(broken("it does not read its stdin")) }
    }

    /// Handles a closed stdout: the process has ended or is useless. Returns the reason.
    async fn closed(&mut self, half: usize) -> ConversationEnd {
        let until = Instant::now() + GOING;
        let how = loop {
            match self.running.ended() {
                Some(how) => break how,
                None if Instant::now() >= until => break "it closed its stdout".to_owned(),
                None => sleep(Duration::from_millis(10)).await,
            }
        };
        // The process may have explained its end on stderr, which is read concurrently. A descendant may keep stderr
        // open.
        let until = Instant::now() + GOING / 4;
        while !self.running.stderr_is_read() && Instant::now() < until {
            sleep(Duration::from_millis(10)).await;
        }
        let how = if half > 0 { format!("{how}, in the middle of a line") } else { how };
        self.how(how)
    }

    fn how(&self, how: String) -> ConversationEnd {
        let complaint = self.running.complaint();
        broken(if complaint.is_empty() { how } else { format!("{how}; its stderr: {complaint}") })
    }

    /// Sends `bye` and gives the process time to exit.
    async fn session_summary(&mut self) {
        let seconds = GOING.as_secs();
        // A process that no longer reads is killed like one that does not exit.
        let _unheard =
            self.running.send_line(&json!({"type": "bye", "why": "the session is ending", "seconds": seconds}));
        self.running.close();
        let until = Instant::now() + GOING;
        while Instant::now() < until && self.running.ended().is_none() {
            sleep(Duration::from_millis(20)).await;
        }
    }
}
