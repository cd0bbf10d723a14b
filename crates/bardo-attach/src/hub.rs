//! One session for several consoles. Every console receives the session's news; a reply goes to the console that asked.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::catch_up::CatchUp;
use super::wire::{FromConsole, Rights, line_of};
use bardo_base::text::SafeText;
use bardo_session::handle::{Command, Handle, LeaveMode, News, Sent, SessionSummary};

/// Lines that wait for a console. One that does not keep up is detached, and may attach again.
pub(crate) const LINES_WAITING: usize = 512;
/// Tickets whose replies are still due. The oldest is forgotten when there are more.
const OPEN_TICKETS: usize = 4_096;

/// Message of the server to the hub.
pub(crate) enum ToHub {
    /// A console is attached.
    Joined {
        /// Number of the console.
        console: u64,
        /// Rights of the console.
        rights: Rights,
        /// Lines to the console.
        lines: mpsc::Sender<Arc<str>>,
    },
    /// A console sent a command.
    Sent {
        /// Number of the console.
        console: u64,
        /// Command of the console.
        command: FromConsole,
    },
    /// A console is gone.
    Gone {
        /// Number of the console.
        console: u64,
    },
    /// The process is to end.
    End(LeaveMode),
}

struct Console {
    rights: Rights,
    lines: mpsc::Sender<Arc<str>>,
}

/// Distributes one session's news and collects the commands of its consoles.
#[derive(Default)]
pub struct Hub {
    catch_up: CatchUp,
    consoles: HashMap<u64, Console>,
    /// Console and its own ticket, by the ticket that the session knows.
    tickets: HashMap<u64, (u64, u64)>,
    last_ticket: u64,
}

impl Hub {
    /// Runs until the session ends. Returns its summary; `None` if it ended without one.
    pub(crate) async fn run(
        mut self,
        handle: Handle,
        mut from_server: mpsc::Receiver<ToHub>,
    ) -> Option<Box<SessionSummary>> {
        let Handle { commands, mut news } = handle;
        loop {
            tokio::select! {
                message = news.recv() => match message {
                    Some(message) => {
                        let summary = match &message {
                            News::Left(summary) => Some(summary.clone()),
                            _ => None,
                        };
                        self.distribute(message);
                        if summary.is_some() {
                            return summary;
                        }
                    }
                    None => return None,
                },
                Some(message) = from_server.recv() => self.hear(message, &commands),
            }
        }
    }

    fn hear(&mut self, message: ToHub, commands: &mpsc::Sender<Sent>) {
        match message {
            ToHub::Joined { console, rights, lines } => self.join(console, Console { rights, lines }),
            ToHub::Sent { console, command } => self.pass_on(console, command, commands),
            ToHub::Gone { console } => self.forget(console),
            ToHub::End(mode) => {
                let golem_id = bardo_base::id::GolemId::operator();
                // A full channel loses nothing: the next signal tries again.
                let _full = commands.try_send(Sent { golem_id, command: Command::Leave(mode) });
            }
        }
    }

    /// Brings a new console up to date.
    fn join(&mut self, number: u64, console: Console) {
        for line in self.catch_up.news().iter().filter_map(line) {
            match console.lines.try_send(line) {
                Ok(()) => {}
                // It has left already, and its last command follows.
                Err(TrySendError::Closed(_)) => break,
                // It would begin without a part of the state.
                Err(TrySendError::Full(_)) => return,
            }
        }
        self.consoles.insert(number, console);
    }

    fn forget(&mut self, number: u64) {
        self.consoles.remove(&number);
        self.tickets.retain(|_, (console, _)| *console != number);
    }

    fn pass_on(&mut self, console: u64, command: FromConsole, commands: &mpsc::Sender<Sent>) {
        let Some(rights) = self.consoles.get(&console).map(|console| console.rights) else { return };
        let FromConsole { mut sent } = command;
        if !rights.allow(&sent.command) {
            return self.refuse(console, "this console is attached read-only");
        }
        if let Some(ticket) = sent.command.ticket_mut() {
            self.last_ticket = self.last_ticket.wrapping_add(1);
            self.tickets.insert(self.last_ticket, (console, *ticket));
            self.tickets.remove(&self.last_ticket.wrapping_sub(OPEN_TICKETS as u64));
            *ticket = self.last_ticket;
        }
        match commands.try_send(sent) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.refuse(console, "the session is busy: try again in a moment"),
            Err(TrySendError::Closed(_)) => self.refuse(console, "the session has ended"),
        }
    }

    fn refuse(&mut self, console: u64, why: &str) {
        let message = News::CommandResult { done: false, words: SafeText::clean(why, 200) };
        self.send(console, line(&message));
    }

    /// Sends news to the console that they belong to, or to all.
    fn distribute(&mut self, mut message: News) {
        if let News::Ready(ready) = &mut message {
            ready.served = true;
        }
        self.catch_up.note(&message);
        // The last message about a ticket ends it.
        let ends = matches!(message, News::Reply { .. } | News::Found { .. });
        if let Some(ticket) = message.ticket_mut() {
            let known = if ends { self.tickets.remove(ticket) } else { self.tickets.get(ticket).copied() };
            let Some((console, own)) = known else { return };
            *ticket = own;
            return self.send(console, line(&message));
        }
        let line = line(&message);
        let all: Vec<u64> = self.consoles.keys().copied().collect();
        for console in all {
            self.send(console, line.clone());
        }
    }

    /// Queues a line for a console. One that does not keep up is detached: it could miss an approval request.
    fn send(&mut self, console: u64, line: Option<Arc<str>>) {
        let (Some(known), Some(line)) = (self.consoles.get(&console), line) else { return };
        if known.lines.try_send(line).is_err() {
            self.forget(console);
        }
    }
}

fn line(message: &News) -> Option<Arc<str>> {
    match line_of(message) {
        Ok(line) => Some(line.into()),
        Err(error) => {
            tracing::warn!(%error, "a message to the consoles cannot be written");
            None
        }
    }
}
