//! One session for several consoles. Every console receives the session's news; a reply goes to the console that asked.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::catch_up::CatchUp;
use super::metrics::Metrics;
use super::wire::{FromConsole, Rights, line_of};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_session::handle::{AddressedCommand, LeaveMode, SessionCommand, SessionHandle, SessionNews, SessionSummary};

/// Lines that wait for a console. One that does not keep up is detached, and may attach again.
const LINES_WAITING: usize = 512;
/// Bytes that wait for a console, beside one line of any length.
const BYTES_WAITING: usize = 16 << 20;
/// Replies that a console may wait for at once. A query can be answered with all events of a session.
const OPEN_TICKETS: usize = 8;

/// Message of the server to the hub.
pub(crate) enum ToHub {
    /// A console is attached.
    Joined {
        /// Number of the console.
        console: u64,
        /// Rights of the console.
        rights: Rights,
        /// Lines to the console.
        lines: Lines,
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

/// Ticket of a command, as its console knows it.
#[derive(Debug, Clone, Copy)]
struct ConsoleTicket {
    console: u64,
    own: u64,
    /// True if the command requests an offer: its ticket goes on after the reply, with the offer and its result.
    is_offer: bool,
    /// True once the preview of an offer was sent.
    is_previewed: bool,
}

struct Console {
    rights: Rights,
    lines: Lines,
}

/// Queue of lines to a console, bounded by their number and their bytes.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    queue: mpsc::Sender<Arc<str>>,
    bytes: Arc<AtomicUsize>,
}

/// Receiving side of [`Lines`].
pub(crate) struct LinesWaiting {
    queue: mpsc::Receiver<Arc<str>>,
    bytes: Arc<AtomicUsize>,
}

impl Lines {
    pub fn new() -> (Self, LinesWaiting) {
        let (queue, waiting) = mpsc::channel(LINES_WAITING);
        let bytes = Arc::<AtomicUsize>::default();
        (Self { queue, bytes: Arc::clone(&bytes) }, LinesWaiting { queue: waiting, bytes })
    }

    fn try_send(&self, line: Arc<str>) -> Result<(), TrySendError<Arc<str>>> {
        let (waiting, length) = (self.bytes.load(Ordering::SeqCst), line.len());
        if waiting > 0 && waiting.saturating_add(length) > BYTES_WAITING {
            return Err(TrySendError::Full(line));
        }
        self.bytes.fetch_add(length, Ordering::SeqCst);
        self.queue.try_send(line).inspect_err(|_| {
            self.bytes.fetch_sub(length, Ordering::SeqCst);
        })
    }
}

impl LinesWaiting {
    /// Next line. It counts as waiting until [`Self::written`].
    pub async fn next(&mut self) -> Option<Arc<str>> {
        self.queue.recv().await
    }

    pub fn written(&self, line: &str) {
        self.bytes.fetch_sub(line.len(), Ordering::SeqCst);
    }
}

/// Distributes one session's news and collects the commands of its consoles.
pub(crate) struct Hub {
    catch_up: CatchUp,
    metrics: Metrics,
    consoles: HashMap<u64, Console>,
    /// Ticket of a console, by the ticket that the session knows.
    tickets: BTreeMap<u64, ConsoleTicket>,
    last_ticket: u64,
}

impl Hub {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            catch_up: CatchUp::default(),
            metrics,
            consoles: HashMap::new(),
            tickets: BTreeMap::new(),
            last_ticket: 0,
        }
    }

    /// Runs until the session ends. Returns its summary; `None` if it ended without one.
    pub(crate) async fn run(
        mut self,
        handle: SessionHandle,
        mut from_server: mpsc::Receiver<ToHub>,
    ) -> Option<Box<SessionSummary>> {
        let SessionHandle { commands, mut news } = handle;
        loop {
            tokio::select! {
                // Consoles first: a new one receives all news from then on. What they send is limited.
                biased;
                Some(message) = from_server.recv() => self.receive(message, &commands),
                message = news.recv() => match message {
                    Some(message) => {
                        let summary = match &message {
                            SessionNews::Left(summary) => Some(summary.clone()),
                            _ => None,
                        };
                        self.distribute(message);
                        if summary.is_some() {
                            return summary;
                        }
                    }
                    None => return None,
                },
            }
        }
    }

    fn receive(&mut self, message: ToHub, commands: &mpsc::Sender<AddressedCommand>) {
        match message {
            ToHub::Joined { console, rights, lines } => self.join(console, Console { rights, lines }),
            ToHub::Sent { console, command } => self.pass_on(console, command, commands),
            ToHub::Gone { console } => self.forget(console),
            ToHub::End(mode) => {
                leave(
                    commands,
                    AddressedCommand { golem_id: GolemId::operator(), command: SessionCommand::Leave(mode) },
                );
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
        self.metrics.set_consoles(self.consoles.len());
    }

    fn forget(&mut self, number: u64) {
        self.consoles.remove(&number);
        self.metrics.set_consoles(self.consoles.len());
        self.tickets.retain(|_, ticket| ticket.console != number);
    }

    fn pass_on(&mut self, console: u64, command: FromConsole, commands: &mpsc::Sender<AddressedCommand>) {
        let Some(rights) = self.consoles.get(&console).map(|console| console.rights) else { return };
        let FromConsole { mut sent } = command;
        if !rights.allow(&sent.command) {
            return self.refuse(console, "this console is attached read-only");
        }
        if matches!(sent.command, SessionCommand::Leave(_)) {
            return leave(commands, sent);
        }
        let mut waits = None;
        let is_offer = matches!(sent.command, SessionCommand::Offer { .. });
        if let Some(ticket) = sent.command.ticket_mut() {
            let open = self.tickets.values().filter(|ticket| ticket.console == console && !ticket.is_previewed);
            if open.count() >= OPEN_TICKETS {
                return self.refuse(console, "this console waits for too many replies: try again when one has come");
            }
            self.last_ticket = self.last_ticket.wrapping_add(1);
            let known = ConsoleTicket { console, own: *ticket, is_offer, is_previewed: false };
            self.tickets.insert(self.last_ticket, known);
            *ticket = self.last_ticket;
            waits = Some(self.last_ticket);
        }
        if let Err(error) = commands.try_send(sent) {
            if let Some(ticket) = waits {
                self.tickets.remove(&ticket);
            }
            let ended = matches!(error, TrySendError::Closed(_));
            self.refuse(
                console,
                if ended { "the session has ended" } else { "the session is busy: try again in a moment" },
            );
        }
    }

    fn refuse(&mut self, console: u64, why: &str) {
        let message = SessionNews::CommandResult { done: false, words: SafeText::clean(why, 200) };
        self.send(console, line(&message));
    }

    /// Sends news to the console that they belong to, or to all.
    fn distribute(&mut self, mut message: SessionNews) {
        if let SessionNews::Ready(ready) = &mut message {
            ready.served = true;
        }
        self.catch_up.note(&message);
        self.metrics.note(&message);
        let replies = matches!(message, SessionNews::Reply { .. } | SessionNews::Found { .. });
        if let Some(ticket) = message.ticket_mut() {
            let Some(known) = self.tickets.get(ticket).copied() else { return };
            if replies {
                self.note_reply(*ticket, known);
            }
            *ticket = known.own;
            return self.send(known.console, line(&message));
        }
        let line = line(&message);
        let all: Vec<u64> = self.consoles.keys().copied().collect();
        for console in all {
            self.send(console, line.clone());
        }
    }

    /// Ends a ticket with its reply. That of an offer goes on once, for the offer's result; of those, the oldest end
    /// first.
    fn note_reply(&mut self, number: u64, ticket: ConsoleTicket) {
        if !ticket.is_offer || ticket.is_previewed {
            self.tickets.remove(&number);
            return;
        }
        self.tickets.insert(number, ConsoleTicket { is_previewed: true, ..ticket });
        let offers = self.tickets.iter().filter(|(_, known)| known.console == ticket.console && known.is_previewed);
        let offers: Vec<u64> = offers.map(|(number, _)| *number).collect();
        for oldest in offers.iter().take(offers.len().saturating_sub(OPEN_TICKETS)) {
            self.tickets.remove(oldest);
        }
    }

    /// Queues a line for a console. One that does not keep up is detached: it could miss an approval request.
    fn send(&mut self, console: u64, line: Option<Arc<str>>) {
        let (Some(known), Some(line)) = (self.consoles.get(&console), line) else { return };
        match known.lines.try_send(line) {
            // A console that has left is not forgotten yet: its last command may wait behind this message.
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(_)) => self.forget(console),
        }
    }
}

/// Asks the session to end. Waits for room: a signal or `bardo serve --end` asks once.
fn leave(commands: &mpsc::Sender<AddressedCommand>, asked: AddressedCommand) {
    let commands = commands.clone();
    tokio::spawn(async move {
        let _ended = commands.send(asked).await;
    });
}

fn line(message: &SessionNews) -> Option<Arc<str>> {
    match line_of(message) {
        Ok(line) => Some(line.into()),
        Err(error) => {
            tracing::warn!(%error, "a message to the consoles cannot be written");
            None
        }
    }
}
