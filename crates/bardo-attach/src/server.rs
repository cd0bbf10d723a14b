//! Accepts consoles: of the same user only, with the token, and not too many at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

use super::hub::{Hub, Lines, ToHub};
use super::metrics::Metrics;
use super::metrics_server::MetricsListener;
use super::place::Serving;
use super::wire::{self, FromConsole, Greeting, Hello, MAX_FROM_CONSOLE, MAX_HELLO, VERSION};
use bardo_base::text::SafeText;
use bardo_session::handle::{LeaveMode, SessionHandle, SessionSummary};

/// Timeout for a console that does not read what it is sent.
const PATIENCE: Duration = Duration::from_secs(10);
/// Timeout for a console's greeting.
const GREETING: Duration = Duration::from_secs(2);
/// Commands that a console may send within a second. Their results go to every console.
const COMMANDS_PER_SECOND: u32 = 50;
/// Timeout for consoles to receive the end of the session.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of attached consoles.
const CONSOLES: usize = 16;
/// Maximum number of connections that have not sent their greeting. They take no console's place, and the one that has been silent
/// for the longest gives way to the next.
const UNGREETED: usize = 64;
/// Pause after an error of the listener, such as no free descriptor.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves the session behind `handle` until it ends, and its figures on `figures`. Each message of `ends` asks it to
/// leave in that way. Returns the session's summary; `None` if it ended without one. Must be called on a tokio runtime.
pub async fn serve(
    serving: Serving,
    handle: SessionHandle,
    mut ends: mpsc::Receiver<LeaveMode>,
    figures: Option<MetricsListener>,
) -> Option<Box<SessionSummary>> {
    let (to_hub, from_server) = mpsc::channel(64);
    let ending = to_hub.clone();
    let forwarding = tokio::spawn(async move {
        while let Some(mode) = ends.recv().await {
            if ending.send(ToHub::End(mode)).await.is_err() {
                return;
            }
        }
    });
    let counts = ConnectionCounts::default();
    let accepting = tokio::spawn(accept(serving, to_hub, counts.clone()));
    let metrics = Metrics::new();
    let measuring = figures.map(|listener| tokio::spawn(listener.serve(metrics.clone())));
    let summary = Hub::new(metrics).run(handle, from_server).await;
    if let Some(measuring) = measuring {
        measuring.abort();
    }
    accepting.abort();
    forwarding.abort();
    // It holds the socket and the token, which are gone before the process says that the session has ended.
    let _aborted = accepting.await;
    // Consoles receive what is queued for them, the summary last.
    let _late = timeout(DELIVERY_TIMEOUT, async {
        while counts.consoles.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    summary
}

/// Numbers of open connections. Clones share them.
#[derive(Debug, Clone, Default)]
struct ConnectionCounts {
    ungreeted: Arc<Mutex<VecDeque<Arc<Notify>>>>,
    consoles: Arc<AtomicUsize>,
}

/// Place among the connections that have not sent their greeting, left on drop.
struct Silence {
    among: Arc<Mutex<VecDeque<Arc<Notify>>>>,
    ends: Arc<Notify>,
}

impl Silence {
    /// Takes a place; if there is none, the oldest one is taken away.
    fn begin(among: &Arc<Mutex<VecDeque<Arc<Notify>>>>) -> Self {
        let ends = Arc::new(Notify::new());
        let mut waiting = among.lock();
        if waiting.len() >= UNGREETED
            && let Some(oldest) = waiting.pop_front()
        {
            oldest.notify_one();
        }
        waiting.push_back(Arc::clone(&ends));
        drop(waiting);
        Self { among: Arc::clone(among), ends }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        self.among.lock().retain(|one| !Arc::ptr_eq(one, &self.ends));
    }
}

async fn accept(serving: Serving, to_hub: mpsc::Sender<ToHub>, counts: ConnectionCounts) {
    let token = Arc::new(serving.token.clone());
    for console in 1.. {
        let stream = loop {
            match serving.listener.accept().await {
                Ok((stream, _)) => break stream,
                Err(error) => {
                    tracing::warn!(%error, "a console could not connect");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        let ungreeted = Silence::begin(&counts.ungreeted);
        let (token, to_hub, counts) = (Arc::clone(&token), to_hub.clone(), counts.clone());
        tokio::spawn(async move {
            if let Err(error) = attend(stream, console, (ungreeted, &counts), &token, &to_hub).await {
                tracing::debug!(console, %error, "a console's connection ended");
            }
            let _ended = to_hub.send(ToHub::Gone { console }).await;
        });
    }
}

/// Slot of a connection, released on drop.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    /// Takes one of `most` slots; `None` if all are taken.
    fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        // Dropped again if it is one too many.
        let slot = Self(Arc::clone(taken));
        (taken.fetch_add(1, Ordering::SeqCst) < most).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Greets a console, and passes on its commands until it leaves.
async fn attend(
    stream: UnixStream,
    console: u64,
    (ungreeted, counts): (Silence, &ConnectionCounts),
    token: &Zeroizing<String>,
    to_hub: &mpsc::Sender<ToHub>,
) -> std::io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading);
    let greeted = if peer != rustix::process::geteuid().as_raw() {
        Err("this session belongs to another user")
    } else {
        tokio::select! {
            greeted = greeting(&mut reading, token) => greeted?,
            () = ungreeted.ends.notified() => Err("too many connections wait for their greeting: try again in a moment"),
        }
    };
    let slot = || Slot::take(&counts.consoles, CONSOLES).ok_or("too many consoles are attached");
    let greeted = greeted.and_then(|rights| slot().map(|slot| (rights, slot)));
    drop(ungreeted);
    let (rights, _slot) = match greeted {
        Ok(greeted) => greeted,
        Err(why) => {
            let refused = Greeting::Refused { why: SafeText::clean(why, 200) };
            timeout(PATIENCE, writing.write_all(wire::line_of(&refused)?.as_bytes())).await??;
            return Ok(());
        }
    };
    let (lines, mut waiting) = Lines::new();
    let joined = to_hub.send(ToHub::Joined { console, rights, lines }).await;
    if joined.is_err() {
        return Ok(());
    }
    // It has joined before it is welcomed, so that it misses nothing from then on.
    timeout(PATIENCE, writing.write_all(wire::line_of(&Greeting::Welcome { rights })?.as_bytes())).await??;
    let sending = async {
        while let Some(line) = waiting.next().await {
            timeout(PATIENCE, writing.write_all(line.as_bytes())).await??;
            waiting.written(&line);
        }
        // The hub has detached this console, or the session has ended.
        writing.shutdown().await
    };
    let receiving = async {
        let (mut since, mut commands) = (Instant::now(), 0);
        while let Some(line) = wire::read_line(&mut reading, MAX_FROM_CONSOLE).await? {
            let command = FromConsole::parse(&line)?;
            if since.elapsed() >= Duration::from_secs(1) {
                (since, commands) = (Instant::now(), 0);
            }
            commands += 1;
            if commands > COMMANDS_PER_SECOND {
                return Err(std::io::Error::other("too many commands within a second"));
            }
            if to_hub.send(ToHub::Sent { console, command }).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = sending => ended,
        ended = receiving => ended,
    }
}

/// Reads the console's greeting. The inner error is the reason for a refusal.
async fn greeting(
    reading: &mut (impl tokio::io::AsyncBufRead + Unpin),
    token: &Zeroizing<String>,
) -> std::io::Result<Result<wire::Rights, &'static str>> {
    let line = timeout(GREETING, wire::read_line(reading, MAX_HELLO)).await??;
    let Some(hello) = line.and_then(|line| wire::parse::<Hello>(&line).ok()) else {
        return Ok(Err("the first line is not a console's greeting"));
    };
    if hello.bardo != VERSION {
        return Ok(Err("this session speaks another version of the protocol: use the same version of Bardo"));
    }
    if !same(hello.token.as_bytes(), token.as_bytes()) {
        return Ok(Err("the token is not this session's"));
    }
    Ok(Ok(hello.rights))
}

/// Compares two texts in a time that depends only on their lengths.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}
