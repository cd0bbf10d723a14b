//! A brain that is a program of its own, in whatever language: it is started as a child and speaks JSON lines on its
//! stdin and stdout, as `protocol` says. Of Bardo it has the eight tools and nothing else.
//!
//! It runs as the operator's own user, but confined ([`confinement`]): it reaches neither the terminal nor the data,
//! configuration and key folders, nor other processes. Where the system cannot enforce that, it is refused unless the
//! configuration allows it. No approval given outside the session counts for a question that such a brain raised.
//!
//! | what it does | what becomes of it |
//! |---|---|
//! | ends, closes its stdout, says `done` | its brain has gone, with the reason |
//! | says what cannot be understood | it is told; after sixteen such lines it is ended |
//! | says more than 200 lines in a second, or a line of more than 128 KiB | it is ended |
//! | says nothing to a tick for the patience it has, with no call of its own running | it is ended |
//! | does not read what it is told | it is ended |
//! | makes more calls at once, or in all, than it may | the call is refused |
//!
//! However it ends, its open offers are taken back, what waits for the operator is called off, and the Golem lives on
//! and hears the operator. What is being signed goes on to its end.

mod child;
pub mod confinement;
pub mod lines;
pub mod protocol;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Brain, COMMIT, End, Nerves, Wake};
use crate::pi::ActionKind;
use bardo_base::text::SafeText;
use child::{Out, Running};
use confinement::{Confinement, IsolationLevel};
use golem_tools::engine::{ToolResponse, schema};
use protocol::{Said, Told};

pub use child::CommandLine;

/// Calls at the same time.
const AT_ONCE: usize = 4;
/// Lines in one second.
const LINES_A_SECOND: usize = 200;
/// Lines that are not understood, in all.
const NONSENSE: u32 = 16;
/// How often it is looked whether it still lives.
const LOOK: Duration = Duration::from_millis(200);
/// How long it is given to leave.
const GOING: Duration = Duration::from_secs(2);
/// How long a commit that goes on is waited for at the end.
const SETTLING: Duration = Duration::from_secs(20);

/// What a program may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Time between two ticks.
    pub tick: Duration,
    /// How long an answer to a tick may take.
    pub patience: Duration,
    /// Calls in all.
    pub calls: u64,
    /// How often it is asked what it wants; `None` without an end.
    pub ticks: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub struct ProcessBrain {
    line: CommandLine,
    limits: ProcessLimits,
    confinement: Confinement,
}

impl ProcessBrain {
    /// A brain that is this program, confined so.
    pub fn new(line: CommandLine, limits: ProcessLimits, confinement: Confinement) -> Self {
        Self { line, limits, confinement }
    }
}

impl Brain for ProcessBrain {
    fn live<'a>(self: Box<Self>, nerves: &'a mut Nerves) -> BoxFuture<'a, End> {
        Box::pin(async move {
            let (well, why) = match Running::start(&self.line, &self.confinement).await {
                Err(why) => (false, why),
                Ok((running, isolation)) => {
                    let led = format!("Led by the program `{}`.", self.line.program());
                    match isolation.level() {
                        IsolationLevel::Full => nerves.now(&led, "", None, None),
                        IsolationLevel::Partial | IsolationLevel::None => {
                            tracing::warn!(%isolation, "brain process");
                            nerves.now(&format!("{led} {isolation}."), "", None, None);
                        }
                    }
                    Talk::new(running, self.limits).lead(nerves).await
                }
            };
            End { well, why: SafeText::clean(&why, 300) }
        })
    }
}

/// A conversation with a running program.
struct Talk {
    running: Running,
    limits: ProcessLimits,
    calls_left: u64,
    /// Calls under way; dropped, they are ended where nothing is being signed.
    calls: JoinSet<ToolResponse>,
    /// Commits under way: what is being signed is waited for.
    commits: JoinSet<ToolResponse>,
    /// Under which id the program knows each of them, and the line that made it.
    ids: HashMap<Id, (String, u64)>,
    ticks: u64,
    due: Instant,
    /// When the tick was sent that it has not answered yet.
    unanswered: Option<Instant>,
    /// When its last lines came.
    lately: VecDeque<Instant>,
    /// When it was first seen to have ended.
    ended: Option<Instant>,
    nonsense: u32,
    /// Lines that it has said.
    lines: u64,
    thinking: bool,
}

/// Why a conversation is over.
#[derive(Debug)]
enum Over {
    /// The program says so.
    Done(String),
    /// It cannot go on.
    Broken(String),
}

fn broken(why: impl Into<String>) -> Over {
    Over::Broken(why.into())
}

impl Talk {
    fn new(running: Running, limits: ProcessLimits) -> Self {
        Self {
            running,
            limits,
            calls_left: limits.calls,
            calls: JoinSet::new(),
            commits: JoinSet::new(),
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

    /// Talks until it is over; whether that is well, and why.
    async fn lead(mut self, nerves: &mut Nerves) -> (bool, String) {
        let over = match self.talk(nerves).await {
            Err(Over::Broken(why)) => (false, why),
            Err(Over::Done(why)) => {
                self.farewell().await;
                (true, why)
            }
            Ok(()) => {
                self.farewell().await;
                (true, "it was asked to stop".to_owned())
            }
        };
        // Previews and reads end here; no offer can come of them any more.
        self.calls.shutdown().await;
        nerves.pi().take_back_own().await;
        let until = Instant::now() + SETTLING;
        while let Ok(Some(_)) = timeout_at(until, self.commits.join_next()).await {}
        // What is still being signed goes on by itself.
        self.commits.detach_all();
        over
    }

    /// Ok: it was told to leave.
    async fn talk(&mut self, nerves: &mut Nerves) -> Result<(), Over> {
        let told = Told {
            tick_seconds: self.limits.tick.as_secs(),
            patience_seconds: self.limits.patience.as_secs(),
            calls: self.limits.calls,
            calls_at_once: AT_ONCE,
            lines_a_second: LINES_A_SECOND,
        };
        self.say(&protocol::hello(nerves.pi(), told))?;
        loop {
            // A program that has not answered the last tick, or is at work, gets no other.
            let free = self.unanswered.is_none() && self.ids.is_empty();
            let wakes = if free { self.due } else { Instant::now() + LOOK };
            tokio::select! {
                out = self.running.next() => match out {
                    Some(Out::Line(line)) => self.hear(&line, nerves)?,
                    Some(Out::TooLong) => {
                        let most = protocol::MOST_LINE >> 10;
                        return Err(broken(format!("it wrote a line longer than {most} KiB")));
                    }
                    Some(Out::End(half)) => return Err(self.closed(half).await),
                    None => return Err(self.closed(0).await),
                },
                Some(answered) = self.calls.join_next_with_id() => self.answer(answered)?,
                Some(answered) = self.commits.join_next_with_id() => self.answer(answered)?,
                woken = nerves.wake(wakes) => match woken {
                    Wake::Leave => return Ok(()),
                    Wake::Words(words) => {
                        self.say(&json!({"type": "words", "text": words, "context": nerves.context()}))?;
                    }
                    Wake::Due if free => self.tick(nerves)?,
                    Wake::Due => {}
                },
                () = sleep(LOOK) => self.look()?,
            }
        }
    }

    fn tick(&mut self, nerves: &Nerves) -> Result<(), Over> {
        if let Some(most) = self.limits.ticks.filter(|most| self.ticks >= *most) {
            return Err(Over::Done(format!("it reached its limit of {most} ticks")));
        }
        let now = Instant::now();
        self.due = now + self.limits.tick;
        self.ticks += 1;
        self.unanswered = Some(now);
        let context = nerves.context();
        self.say(&json!({"type": "tick", "tick": self.ticks, "calls_left": self.calls_left, "context": context}))
    }

    /// Whether it still lives and speaks.
    fn look(&mut self) -> Result<(), Over> {
        if let Some(asked) = self.unanswered
            && self.ids.is_empty()
            && asked.elapsed() > self.limits.patience
        {
            return Err(broken(format!("it has not answered for {} s", self.limits.patience.as_secs())));
        }
        // What a program that has ended left in its pipe is read first; only what it has started keeps that open.
        let Some(how) = self.running.ended() else { return Ok(()) };
        let seen = *self.ended.get_or_insert_with(Instant::now);
        let quiet = self.lately.back().map_or(seen, |last| seen.max(*last)).elapsed();
        if quiet > GOING { Err(self.how(how)) } else { Ok(()) }
    }

    fn hear(&mut self, line: &[u8], nerves: &mut Nerves) -> Result<(), Over> {
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
                return self.say(&protocol::refused(&protocol::id_of(line), self.lines, &why));
            }
        };
        // Sense alone counts as an answer.
        self.unanswered = None;
        let thinks = matches!(&said, Said::Think { more: true, .. });
        match said {
            Said::Call { id, tool, params } => self.call(id, tool, params, nerves)?,
            Said::Think { text, more } if self.thinking => nerves.think_on(&text, more),
            Said::Think { text, more } => nerves.think(&text, more),
            Said::Now { now, next, step, of } => {
                let step = step.zip(of).filter(|(step, of)| (1..=*of).contains(step));
                nerves.now(&now, &next, step, None);
            }
            Said::Idle {} => {}
            Said::Done { why } if why.trim().is_empty() => return Err(Over::Done("it has finished".to_owned())),
            Said::Done { why } => return Err(Over::Done(format!("it has finished: {why}"))),
        }
        self.thinking = thinks;
        Ok(())
    }

    fn call(&mut self, id: String, tool: String, params: serde_json::Value, nerves: &mut Nerves) -> Result<(), Over> {
        if self.ids.values().any(|(one, _)| *one == id) {
            return self.say(&protocol::refused(&json!(id), self.lines, &"a call with this id is in progress"));
        }
        if self.ids.len() >= AT_ONCE {
            let why = format!("{AT_ONCE} calls are in progress; wait for an answer");
            return self.say(&protocol::refused(&json!(id), self.lines, &why));
        }
        let Some(left) = self.calls_left.checked_sub(1) else {
            return self.say(&protocol::refused(&json!(id), self.lines, &"the call limit of this run is reached"));
        };
        self.calls_left = left;
        if let Some(kind) = params.get("kind").and_then(serde_json::Value::as_str).and_then(ActionKind::named) {
            let why = params.get("why").and_then(serde_json::Value::as_str).unwrap_or(kind.name);
            nerves.now(why, "", None, Some(kind));
        }
        let commits = tool == COMMIT;
        let call = nerves.call(tool, params);
        let begun = if commits { self.commits.spawn(call) } else { self.calls.spawn(call) };
        self.ids.insert(begun.id(), (id, self.lines));
        Ok(())
    }

    fn answer(&mut self, answered: Result<(Id, ToolResponse), tokio::task::JoinError>) -> Result<(), Over> {
        match answered {
            Ok((task, response)) => {
                let (id, _) = self.ids.remove(&task).unwrap_or_default();
                self.say(&protocol::result(&id, &response))
            }
            Err(broken) => {
                let (id, line) = self.ids.remove(&broken.id()).unwrap_or_default();
                self.say(&protocol::refused(&json!(id), line, &"the call failed"))
            }
        }
    }

    fn say(&self, line: &serde_json::Value) -> Result<(), Over> {
        // Every test holds the lines that it meets to the published schema; a release build does not take the time.
        if cfg!(debug_assertions)
            && let Some(fault) = schema::mismatch(&lines::to_brain(), line)
        {
            return Err(broken(format!("a line to it does not match the protocol's schema: {fault}")));
        }
        if self.running.say(line) { Ok(()) } else { Err(broken("it does not read its stdin")) }
    }

    /// It has closed its stdout: it has ended, or is useless.
    async fn closed(&mut self, half: usize) -> Over {
        let until = Instant::now() + GOING;
        let how = loop {
            match self.running.ended() {
                Some(how) => break how,
                None if Instant::now() >= until => break "it closed its stdout".to_owned(),
                None => sleep(Duration::from_millis(10)).await,
            }
        };
        // Why, it has said on stderr, which is read beside this; whom it has started may keep that open.
        let until = Instant::now() + GOING / 4;
        while !self.running.is_heard() && Instant::now() < until {
            sleep(Duration::from_millis(10)).await;
        }
        let how = if half > 0 { format!("{how}, in the middle of a line") } else { how };
        self.how(how)
    }

    fn how(&self, how: String) -> Over {
        let complaint = self.running.complaint();
        broken(if complaint.is_empty() { how } else { format!("{how}; its stderr: {complaint}") })
    }

    /// Says goodbye, and waits a moment for it to go.
    async fn farewell(&mut self) {
        let seconds = GOING.as_secs();
        // One that does not read any more is killed like one that does not go.
        let _unheard = self.running.say(&json!({"type": "bye", "why": "the session is ending", "seconds": seconds}));
        self.running.close();
        let until = Instant::now() + GOING;
        while Instant::now() < until && self.running.ended().is_none() {
            sleep(Duration::from_millis(20)).await;
        }
    }
}
