//! Event sources of a session: its events, the chains' blocks and health, the stop file, the policy, the requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::primitives::Address;
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::prompts::policy_question;
use super::selling::halts_as;
use super::send_news;
use super::state::SessionState;
use crate::market::pools_of;
use crate::market::reader::ChainReader;
use crate::policy_cage;
use crate::questions::answering::queued_at;
use crate::questions::second::second_of_policy;
use crate::questions::{ListedAddresses, RequestContext};
use crate::{deposits, schedules, transactions};
use bardo_base::fabric::{
    ChainBlock, ChainHealth, ChainOpened, ChainState, EventKind, HaltChanged, LimitsChanged, PolicyChange,
    PolicyChanged, Receiver, SessionOpened,
};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_safety::audit::{AuditError, AuditKind, AuditLog, AuditNote};
use bardo_safety::operator_proof::Authorisation;
use bardo_safety::policy::{ActivePolicy, Policy};
use bardo_safety::stop::ActiveStop;
use bardo_sandbox::SandboxChain;
use bardo_session::handle::{ChainHoldings, HoldingRow, SessionNews, SessionSnapshot, TransactionsState};
use bardo_session::market::{ChainSnapshot, EndpointsState, MarketUpdate, MoneyKind};
use bardo_session::questions::{Confirmation, OperatorAnswer, Question};
use golem_chain::network::{Network, NetworkKind};
use golem_chain::provider::{self, ChainClient, ClientBackend, EndpointCondition, HealthHandle};
use golem_tools::engine::{ConnectedChain, PaperMode};

/// Number of events that the console may be behind before it gets a gap.
pub(super) const WINDOW: usize = 65_536;
/// Maximum number of events per message.
const AT_ONCE: usize = 512;
/// Polling interval of the stop file.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Polling interval of the paper ledger's version.
const PAPER_POLL_INTERVAL: Duration = Duration::from_millis(400);
/// Interval between two readings of allowances.
const ALLOWANCES_EVERY: Duration = Duration::from_secs(4);
/// Interval between two imports into the books on devnets.
const BOOKS_EVERY: Duration = Duration::from_secs(5);
/// The same on other networks, whose endpoints limit the number of requests.
const BOOKS_EVERY_REMOTE: Duration = Duration::from_secs(30);
/// Interval between two readings of unconfirmed transactions on devnets.
const TRANSACTIONS_EVERY: Duration = Duration::from_secs(1);
/// Interval between two readings of the schedules, which are in the ledger.
const SCHEDULES_EVERY: Duration = Duration::from_secs(1);
/// Interval between two readings of bridge deposits on devnets.
const DEPOSITS_EVERY: Duration = Duration::from_secs(2);
/// The same on other networks while one is open, and while all are settled.
const DEPOSITS_EVERY_REMOTE: Duration = Duration::from_secs(15);
const DEPOSITS_SETTLED: Duration = Duration::from_secs(300);
/// Interval between two looks in the ledger for a new deposit.
const DEPOSITS_LOOK: Duration = Duration::from_secs(2);
/// Interval between two readings of names, which are in local files.
const NAMES_EVERY: Duration = Duration::from_secs(5);
/// Interval between two readings of the holdings of watch-only accounts.
const WATCHED_EVERY: Duration = Duration::from_secs(60);
/// Least time between two `limits:changed` events, in milliseconds.
const LIMITS_EVERY: u64 = 1_000;
/// Interval between reads of a chain that is reached over the network.
const REMOTE_READ: Duration = Duration::from_secs(2);

/// Last reported state, so that only changes are reported.
pub(super) struct ReportedState {
    pub adopted: Option<ActivePolicy>,
    pub policy_fault: Option<SafeText>,
    pub policy_since: Option<(alloy::primitives::B256, u64)>,
    pub numbers: BTreeMap<(Option<CallId>, u64), u64>,
    pub next_number: u64,
    pub questions: Arc<Vec<Question>>,
    /// Requests that were stored for the other processes on this ledger.
    pub requests: Vec<Question>,
    pub snapshot: Option<SessionSnapshot>,
    /// The limits emitted last, and when, in milliseconds since the Unix epoch.
    pub limits: Option<(u64, LimitsChanged)>,
}

impl ReportedState {
    pub(super) fn new(session: &SessionState) -> Self {
        Self {
            adopted: session.sources.keeper.as_ref().map(|keeper| keeper.current()),
            policy_fault: None,
            policy_since: None,
            numbers: BTreeMap::new(),
            next_number: 0,
            questions: Arc::default(),
            requests: Vec::new(),
            snapshot: None,
            limits: None,
        }
    }
}

/// Forwards events in order and counts them until `closing` is signalled; earlier events are still forwarded.
pub(super) async fn events(session: Arc<SessionState>, mut receiver: Receiver, mut closing: oneshot::Receiver<()>) {
    let (mut batch, mut closed) = (Vec::new(), false);
    loop {
        let more = if closed {
            receiver.try_receive(&mut batch, AT_ONCE)
        } else {
            tokio::select! {
                biased;
                more = receiver.receive(&mut batch, AT_ONCE) => more,
                _ = &mut closing => {
                    closed = true;
                    continue;
                }
            }
        };
        if !more {
            return;
        }
        {
            let mut stats = session.stats();
            for event in &batch {
                stats.take(event);
            }
        }
        if session.links.news.send(SessionNews::Events(std::mem::take(&mut batch))).await.is_err() {
            return;
        }
    }
}

/// Starts the tasks that follow every chain.
pub(super) fn chains(session: &Arc<SessionState>, tasks: &mut JoinSet<()>) {
    for (place, chain) in session.sources.world.chains().iter().enumerate() {
        let sandbox = session.sources.inhabited.get(place).cloned();
        tasks.spawn(chain_blocks(Arc::clone(session), place, sandbox));
        tasks.spawn(chain_health(Arc::clone(session), place, chain.client.clone()));
    }
}

/// Follows the stop file in a task of its own, beside slower work.
pub(super) async fn stop(session: Arc<SessionState>) {
    let mut look = interval(STOP_POLL_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = look.tick() => {}
            () = session.control.stop_watch.rung.notified() => {}
        }
        session.poll_stop();
    }
}

/// Reads allowances over the network, in a task of its own.
pub(super) async fn allowances(session: Arc<SessionState>) {
    loop {
        // If a chain does not answer, the known state stays until the next reading.
        if let Some(allowances) = session.read_allowances().await {
            session.links.allowances.send_replace(allowances);
        }
        sleep(ALLOWANCES_EVERY).await;
    }
}

/// Reads the names of addresses and the holdings of watch-only accounts, in a task of its own, beside the books.
pub(super) async fn names(session: Arc<SessionState>) {
    let mut tick = interval(NAMES_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let rounds = (WATCHED_EVERY.as_secs() / NAMES_EVERY.as_secs()).max(1);
    let mut ens = BTreeMap::new();
    for round in (0..rounds).cycle() {
        tick.tick().await;
        let changed = session.read_names();
        if round == 0 || changed {
            session.read_watched().await;
        }
        // Last: the operator's own names must not wait for endpoints. The next round shows the names found.
        session.read_ens(&mut ens).await;
    }
}

/// Brings the books up to date and reads profit and loss, in a task of its own.
pub(super) async fn profit_and_loss(session: Arc<SessionState>) {
    let mut known = None;
    loop {
        session.read_profit_and_loss(&mut known).await;
        let mut chains = session.sources.world.chains().iter();
        let devnet = chains.all(|chain| chain.network().kind == NetworkKind::Devnet);
        sleep(if devnet { BOOKS_EVERY } else { BOOKS_EVERY_REMOTE }).await;
    }
}

/// Reads unconfirmed transactions and open orders, in a task of its own.
pub(super) async fn transactions(session: Arc<SessionState>) {
    let Some(account) = session.sources.world.account else { return };
    let signer = session.sources.world.signer_of(account);
    let chains = session.sources.world.chains();
    let devnet = chains.iter().all(|chain| chain.network().kind == NetworkKind::Devnet);
    loop {
        let (store, orders) = (&session.sources.ledger.store, session.sources.world.orders.as_ref());
        let read = transactions::read(chains, orders, store, &session.sources.clock, (account, signer)).await;
        let waits = read.chains.iter().any(|chain| !chain.rows.is_empty()) || !read.orders.is_empty();
        session.links.transactions.send_if_modified(|known| {
            // Apart from its time, most readings are equal, and consoles need none of those.
            let same =
                known.as_ref().is_some_and(|known| **known == TransactionsState { at: known.at, ..read.clone() });
            if !same {
                *known = Some(Arc::new(read));
            }
            !same
        });
        let pause = match (devnet, waits) {
            (true, _) => TRANSACTIONS_EVERY,
            (false, true) => TRANSACTIONS_EVERY * 4,
            // Without anything under way, only a foreign transaction could appear.
            (false, false) => TRANSACTIONS_EVERY * 20,
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = session.links.transactions_changed.notified() => {}
        }
    }
}

/// Reads the schedules of swaps, in a task of its own.
pub(super) async fn schedules(session: Arc<SessionState>) {
    let Some(account) = session.sources.world.account else { return };
    let owners = [GolemId::operator(), session.golem_id.clone()];
    let network = session.sources.world.network_name();
    loop {
        let read = schedules::read(&session.sources.ledger.store, &network, account, &owners);
        session.links.schedules.send_if_modified(|known| {
            let same = known.as_ref().is_some_and(|known| **known == read);
            if !same {
                *known = Some(Arc::new(read));
            }
            !same
        });
        sleep(SCHEDULES_EVERY).await;
    }
}

/// Reads the deposits with a bridge's pool, in a task of its own: again after a while, and at once when there is a new one.
pub(super) async fn deposits(session: Arc<SessionState>) {
    let world = &session.sources.world;
    let Some(account) = world.account else { return };
    let devnet = world.chains().iter().all(|chain| chain.network().kind == NetworkKind::Devnet);
    loop {
        // Counted before the reading, so that one that comes meanwhile is read next.
        let sent = deposits::sent(world);
        let read = deposits::read(world, account).await;
        let waits = read.fault.is_some() || read.rows.iter().any(|row| !row.stage.is_final());
        session.links.deposits.send_if_modified(|known| {
            let same = known.as_ref().is_some_and(|known| **known == read);
            if !same {
                *known = Some(Arc::new(read));
            }
            !same
        });
        let pause = match (devnet, waits) {
            (true, _) => DEPOSITS_EVERY,
            (false, true) => DEPOSITS_EVERY_REMOTE,
            (false, false) => DEPOSITS_SETTLED,
        };
        let until = tokio::time::Instant::now() + pause;
        while tokio::time::Instant::now() < until {
            sleep(DEPOSITS_LOOK.min(pause)).await;
            if deposits::sent(world) != sent {
                break;
            }
        }
    }
}

async fn chain_health(session: Arc<SessionState>, place: usize, client: ChainClient) {
    let (chain_id, mut health) = (client.chain_id(), client.health_handle());
    // The health handle ends with the chain's client, which must not be kept alive here.
    let in_process = matches!(client.backing(), ClientBackend::Devnet(_));
    drop(client);
    let mut known = ChainState::Healthy;
    let mut reported = EndpointsState::default();
    while let Some(now) = health.next().await {
        let endpoints = endpoints_state(&now, in_process);
        if endpoints != reported {
            reported = endpoints.clone();
            send_news(
                &session.links.news,
                SessionNews::Market(MarketUpdate::Endpoints { chain: place, state: endpoints }),
            )
            .await;
        }
        if let Some(dispute) = now.disputes().map(|(_, dispute)| dispute).next() {
            if known != ChainState::Disputed {
                known = ChainState::Disputed;
                let why = SafeText::clean(&dispute.to_string(), 300);
                session.emit(None, EventKind::ChainHealth(ChainHealth { chain_id, state: known, why }));
            }
            continue;
        }
        let state = match now.condition {
            EndpointCondition::Healthy | EndpointCondition::Unproven => ChainState::Healthy,
            EndpointCondition::Degraded => ChainState::Degraded,
            EndpointCondition::Down => ChainState::Down,
        };
        if state != known {
            known = state;
            let why = now.last_error.unwrap_or_default();
            session.emit(None, EventKind::ChainHealth(ChainHealth { chain_id, state, why }));
        }
    }
}

/// Extent to which a chain's endpoints can be cross-checked now.
fn endpoints_state(health: &provider::ChainEndpointHealth, in_process: bool) -> EndpointsState {
    if in_process {
        return EndpointsState::default();
    }
    let (answering, configured) = health.answering();
    let disputed = health.disputes().map(|(label, _)| label.clone()).collect();
    let dispute = health.disputes().next().map(|(_, dispute)| SafeText::clean(&dispute.to_string(), 300));
    EndpointsState { configured, answering, disputed, dispute }
}

async fn chain_blocks(session: Arc<SessionState>, place: usize, sandbox: Option<SandboxChain>) {
    let Some(chain) = session.sources.world.chains().get(place) else { return };
    let wallet = session.sources.world.account.unwrap_or(Address::ZERO);
    let pools = sandbox.as_ref().map(|chain| pools_of(&chain.deployment)).unwrap_or_default();
    let fault = |words: &dyn std::fmt::Display| {
        let message = SafeText::clean(&words.to_string(), 160);
        SessionNews::Market(MarketUpdate::Fault { chain: Some(place), message })
    };
    let network: Network = chain.network().clone();
    let reader = ChainReader::new(place, network.clone(), chain.client.provider().clone(), wallet, pools);
    let mut reader = match reader {
        Ok(reader) => reader.with_paper(session.sources.paper.clone()).with_vaults(Arc::clone(&session.sources.world)),
        Err(error) => return send_news(&session.links.news, fault(&error)).await,
    };
    let mut next = NextHead::of(chain);
    let (mut head, mut paper) = (None, PaperSeen::default());
    loop {
        let read = tokio::select! {
            number = next.next() => {
                let Some(number) = number else { break };
                head = Some(number);
                reader.read(number).await.map(|snapshot| (number, snapshot))
            }
            () = paper.moved(&session) => match head {
                Some(number) => reader.read_again(number).await.map(|snapshot| (number, snapshot)),
                None => continue,
            },
        };
        match read {
            Ok((number, snapshot)) => {
                if let Some(block) = snapshot.blocks.last() {
                    let block =
                        ChainBlock { chain_id: network.chain_id, number: block.number, timestamp: block.timestamp };
                    session.emit(None, EventKind::ChainBlock(block));
                }
                session.hold(&network, number, &snapshot);
                send_news(&session.links.news, SessionNews::Market(MarketUpdate::Chain(Box::new(snapshot)))).await;
            }
            Err(error) => send_news(&session.links.news, fault(&error)).await,
        }
    }
    send_news(&session.links.news, fault(&"the chain has stopped")).await;
}

/// Paper mode and version of the paper ledger at the last reading of a chain.
#[derive(Default)]
struct PaperSeen(Option<(bool, (i64, i64))>);

impl PaperSeen {
    /// Waits until balances differ from those that were read: paper mode was entered or left, or a paper balance
    /// changed.
    async fn moved(&mut self, session: &SessionState) {
        let Some((paper, queue)) = session.sources.paper.as_ref().and_then(|paper| Some((paper, paper.trading()?)))
        else {
            return std::future::pending().await;
        };
        loop {
            // A failed reading is repeated at the next interval.
            let now = queue.ledger.version().ok().map(|version| (paper.on(), version));
            match (self.0, now) {
                (_, None) => {}
                (Some(seen), Some(now)) if seen == now => {}
                (None, Some((false, _))) => self.0 = now,
                (None | Some(_), Some(_)) => {
                    self.0 = now;
                    return;
                }
            }
            sleep(PAPER_POLL_INTERVAL).await;
        }
    }
}

/// Source of new block numbers.
enum NextHead {
    Devnet(watch::Receiver<Arc<golem_chain::devnet::Block>>),
    Remote { health: HealthHandle, known: Option<u64> },
}

impl NextHead {
    fn of(chain: &ConnectedChain) -> Self {
        match chain.client.backing() {
            ClientBackend::Devnet(devnet) => {
                let mut head = devnet.head();
                // The block that already exists counts as new, too.
                head.mark_changed();
                Self::Devnet(head)
            }
            ClientBackend::Endpoints(_) => Self::Remote { health: chain.client.health_handle(), known: None },
        }
    }

    async fn next(&mut self) -> Option<u64> {
        match self {
            Self::Devnet(head) => {
                head.changed().await.ok()?;
                Some(head.borrow_and_update().number())
            }
            Self::Remote { health, known } => loop {
                let now = health.now().head.map(|head| head.number);
                if now > *known {
                    *known = now;
                    return now;
                }
                sleep(REMOTE_READ).await;
            },
        }
    }
}

impl SessionState {
    pub(super) fn emit(&self, call_id: Option<CallId>, kind: EventKind) {
        self.sources.fabric.emit(&self.golem_id, call_id, kind);
    }

    /// Stores the wallet's balances on a chain.
    fn hold(&self, network: &Network, block: u64, snapshot: &ChainSnapshot) {
        let rows = snapshot.balances.iter().map(|row| HoldingRow {
            symbol: row.symbol.clone(),
            amount: row.amount,
            value: row.value,
        });
        let held = ChainHoldings {
            chain: SafeText::clean(&network.name, 40),
            chain_id: network.chain_id,
            block,
            rows: rows.collect(),
            positions: snapshot.positions.clone(),
            lending: snapshot.lending.clone(),
        };
        self.links.holdings.send_modify(|all| match all.iter_mut().find(|one| one.chain_id == held.chain_id) {
            Some(known) => *known = held,
            None => {
                all.push(held);
                // Chains answer in any order; they are listed by chain id.
                all.sort_unstable_by_key(|one| one.chain_id);
            }
        });
    }

    /// Kind of money, with paper as a kind of its own.
    pub(super) fn money(&self) -> MoneyKind {
        if self.sources.paper.as_ref().is_some_and(PaperMode::on) {
            MoneyKind::Paper
        } else {
            self.sources.network.money
        }
    }

    /// Polls everything that has no channel.
    pub(super) async fn poll_unwatched(self: &Arc<Self>, watched: &mut ReportedState) {
        self.poll_policy(watched).await;
        self.report_forged(watched).await;
        self.receive_remote_answers(watched).await;
        self.report_approved_elsewhere().await;
        self.publish_requests(watched).await;
        let snapshot = self.snapshot(watched);
        let same = watched.snapshot.as_ref().is_some_and(|known| known.same_content(&snapshot));
        self.emit_limits(watched, &snapshot);
        if !same {
            watched.snapshot = Some(snapshot.clone());
            send_news(&self.links.news, SessionNews::Snapshot(Arc::new(snapshot))).await;
        }
    }

    /// Emits the limits where they differ from those emitted last, at most once in [`LIMITS_EVERY`]: a recording shows
    /// them as the console did.
    fn emit_limits(&self, watched: &mut ReportedState, snapshot: &SessionSnapshot) {
        let Some(limits) = &snapshot.limits else { return };
        let now = LimitsChanged { policy: snapshot.policy.clone(), limits: limits.clone() };
        let settled =
            |(at, reported): &(u64, LimitsChanged)| *reported == now || snapshot.at < at.saturating_add(LIMITS_EVERY);
        if watched.limits.as_ref().is_some_and(settled) {
            return;
        }
        watched.limits = Some((snapshot.at, now.clone()));
        self.emit(None, EventKind::LimitsChanged(Box::new(now)));
    }

    /// The event that a session begins, with what no other event says of its chains.
    pub(super) fn opened(&self) -> SessionOpened {
        let chain = |chain: &ConnectedChain| ChainOpened {
            chain_id: chain.network().chain_id,
            name: SafeText::clean(&chain.network().name, 40),
            native_symbol: SafeText::clean(chain.network().native_symbol, 20),
        };
        SessionOpened {
            network: self.sources.network.name.clone(),
            account: self.sources.world.account,
            chains: self.sources.world.chains().iter().map(chain).collect(),
        }
    }

    /// Reads the stop file and publishes changes.
    pub(super) fn poll_stop(&self) {
        for set in self.control.stop_watch.take_lower_stops() {
            let changed =
                HaltChanged { level: Some(set.level), by: set.by.clone(), reason: set.reason.clone(), hold: false };
            self.note_stop(AuditKind::HaltRaised, &changed, &ActiveStop::Stop(set));
        }
        self.control.own.update_remaining(|| self.control.stop_watch.file.outer_level());
        let found = self.control.stop_watch.file.read();
        let known = self.links.in_force.borrow().clone();
        if known.as_ref() == Some(&found) {
            return;
        }
        let before = known.as_ref().and_then(ActiveStop::level);
        self.revoke_keys(&found);
        let first = known.is_none();
        let level = found.level();
        let (by, reason) = match &found {
            ActiveStop::None => (SafeText::default(), SafeText::default()),
            ActiveStop::Stop(stop) => (stop.by.clone(), stop.reason.clone()),
            ActiveStop::Garbled { why } => (SafeText::clean("an unreadable stop file", 60), SafeText::clean(why, 200)),
        };
        self.control.own.keep_for(&found);
        self.links.stop.send_replace(self.lasting(level));
        // A real stop replaced a hold.
        let firmer = matches!((&known, &found), (Some(ActiveStop::Stop(held)), ActiveStop::Stop(stop)) if held.hold && !stop.hold);
        self.links.in_force.send_replace(Some(found.clone()));
        if let Some(queue) = &self.sources.queue {
            // Before the accompanying stop withdraws the requests. Each rejection is delivered again in its turn, and
            // is then found to be given already.
            for (permit, reason) in self.control.stop_watch.take_refusals() {
                let refusal = OperatorAnswer::RefuseAndStop { reason };
                let _gone = self.answer_action(permit, refusal, Confirmation::default(), None);
            }
            match level {
                Some(level @ (StopLevel::Halt | StopLevel::Revoke)) => {
                    queue.withdraw_all(&format!("{level} is in force"));
                    self.withdraw_blocked(level);
                }
                Some(level @ (StopLevel::ExitOnly | StopLevel::Flatten)) => {
                    queue.withdraw_blocked(level, &format!("{level} is in force"));
                    self.withdraw_blocked(level);
                }
                // The requests can be answered once the pause is lifted.
                Some(StopLevel::Pause) => queue.drop_grants(),
                None => {}
            }
        }
        let changed = HaltChanged { level, by, reason, hold: found.is_hold() };
        if level > before || firmer && level == before {
            self.note_stop(AuditKind::HaltRaised, &changed, &found);
            self.emit(None, EventKind::HaltRaised(changed));
        } else if !first && level < before {
            if let Some(known) = &known {
                self.note_stop(AuditKind::HaltLowered, &changed, known);
            }
            self.emit(None, EventKind::HaltLowered(changed));
            self.report_keys_stay();
        }
    }

    /// Records a change of the stop in the audit log, once among all sessions that see it; `of` is the stop that was
    /// raised or lowered.
    fn note_stop(&self, kind: AuditKind, changed: &HaltChanged, of: &ActiveStop) {
        if self.watch_only && !self.control.stop_watch.acted.load(Ordering::SeqCst) {
            return;
        }
        let stop = match of {
            ActiveStop::Stop(stop) => stop.id.as_str(),
            ActiveStop::None | ActiveStop::Garbled { .. } => "",
        };
        let by = if changed.by.is_empty() { "operator" } else { changed.by.as_str() };
        let body = json!({ "level": changed.level, "reason": changed.reason, "by": by, "stop": stop });
        // This session's Golem has its own name in the log; of other processes only the name in the stop file is known.
        let own = changed.by == halts_as(&self.golem_id, &self.sources.network);
        let golem_id = if own { self.golem_id.clone() } else { GolemId::operator() };
        let note = AuditNote { kind, call_id: None, golem_id, body };
        let audit_log = AuditLog::new(self.sources.ledger.store.clone(), self.sources.clock.clone());
        self.record_to_the_end(async move { audit_log.record_stop(note).await });
    }

    /// Writes an audit entry that does not affect the change itself; the session does not end before it is written.
    pub(super) fn record_to_the_end(&self, writing: impl Future<Output = Result<(), AuditError>> + Send + 'static) {
        let task = self.control.running.begin();
        tokio::spawn(async move {
            if let Err(error) = writing.await {
                tracing::warn!(%error, "cannot record a change of the stop or the keys in the audit log");
            }
            drop(task);
        });
    }

    pub(super) async fn poll_policy(&self, watched: &mut ReportedState) {
        let (Some(keeper), Some(rules)) = (&self.sources.keeper, &self.sources.rules) else { return };
        // Read through the rules, so that a tighter policy is recorded.
        rules.policy();
        let broken = keeper.broken();
        // What stays comes first: a narrow panel cuts the end.
        let fault = broken.map(|error| {
            SafeText::clean(&format!("the policy in force stays: the policy file is broken: {error}"), 300)
        });
        if let Some(words) = fault.clone().filter(|_| fault != watched.policy_fault) {
            send_news(&self.links.news, SessionNews::CommandResult { done: false, words }).await;
        }
        watched.policy_fault = fault;
        let now = keeper.current();
        let Some(known) = &watched.adopted else { return };
        if now.version == known.version {
            return;
        }
        self.set_policy_cage().await;
        let changes = known.policy.changes(&now.policy);
        let reported = |change: &bardo_safety::policy::FieldChange| {
            let text = |words: &str| SafeText::clean(words, 200);
            PolicyChange {
                field: text(&change.field),
                from: text(&change.from),
                to: text(&change.to),
                tighter: change.tighter,
            }
        };
        let changed = PolicyChanged {
            hash: Policy::hash(&now.policy),
            version: now.version,
            changes: changes.iter().map(reported).collect(),
            binding: now.policy.binding(&changes).into_iter().map(super::prompts::binding_limit).collect(),
        };
        watched.adopted = Some(now);
        if let Some(queue) = &self.sources.queue {
            queue.keep_grants_of(changed.hash, *self.links.phase_now.borrow());
        }
        self.emit(None, EventKind::PolicyChanged(changed));
    }

    /// Makes the account's rules in PolicyCage those of the policy in force, on a devnet that ends with this process.
    /// Elsewhere only `bardo policy cage set` changes them.
    pub(super) async fn set_policy_cage(&self) {
        let (Some(sandbox), Some(keeper)) = (&self.sources.sandbox, &self.sources.keeper) else { return };
        let Some(account) = self.sources.world.account.filter(|_| !sandbox.is_kept()) else { return };
        let _alone = self.control.policy_cage.lock().await;
        if let Err(error) = policy_cage::follow_policy(sandbox, account, &keeper.current().policy).await {
            tracing::warn!(%error, "the rules in PolicyCage are still those of the previous policy");
        }
    }

    /// Reports the open requests if they changed: to the console, and to other processes.
    pub(super) async fn publish_requests(&self, watched: &mut ReportedState) {
        let asked = self.own_requests();
        let reported = self.for_others(&asked);
        if reported != watched.requests {
            match self.sources.shared.publish(&reported).await {
                Ok(()) => watched.requests = reported,
                // Retried at the next poll; meanwhile they are shown in this process.
                Err(error) => tracing::warn!(%error, "cannot show this process's decisions to other processes"),
            }
        }
        let questions = self.questions(asked, watched);
        if questions != *watched.questions {
            watched.questions = Arc::new(questions);
            send_news(&self.links.news, SessionNews::Questions(Arc::clone(&watched.questions))).await;
        }
    }

    /// Requests as other processes show them: with the answers that are possible there.
    fn for_others(&self, asked: &[Question]) -> Vec<Question> {
        let mut reported = asked.to_vec();
        for offered in reported.iter_mut().flat_map(|question| &mut question.answers) {
            if let Some(why) = self.only_here(offered.kind) {
                offered.why_not = Some(SafeText::clean(why, 80));
            }
        }
        reported
    }

    /// Requests of this process's approval queue, without positions.
    fn own_requests(&self) -> Vec<Question> {
        let paper = self.sources.paper.as_ref().is_some_and(PaperMode::on);
        let Some(queue) = &self.sources.queue else { return Vec::new() };
        let networks: Vec<Network> = self.sources.world.chains().iter().map(|chain| chain.network().clone()).collect();
        let policy = self.sources.keeper.as_ref().map(|keeper| keeper.current().policy.clone());
        let listed = policy.map(|policy| ListedAddresses::of(policy.rules())).unwrap_or_default();
        queued_at(queue, &networks, paper, |golem_id| RequestContext {
            listed: listed.clone(),
            names: self.links.names.borrow().clone(),
            ..self.stats().request_context(golem_id)
        })
    }

    fn questions(&self, asked: Vec<Question>, watched: &mut ReportedState) -> Vec<Question> {
        let mut all = asked;
        match self.sources.shared.others() {
            Ok(mut others) => {
                for question in &mut others {
                    question.needs_password = self.remote_needs_password();
                }
                all.extend(others);
            }
            Err(error) => tracing::warn!(%error, "cannot read the decisions of other processes"),
        }
        self.control.own.update_plans(|| self.sale_plan());
        all.extend(self.control.own.questions(self.signer(), self.money(), |wanted| self.needs_password(wanted)));
        match self
            .sources
            .keeper
            .as_ref()
            .and_then(|keeper| Some((keeper.pending()?, keeper.current().policy, keeper.path().display().to_string())))
        {
            Some((pending, in_force, file)) => {
                let hash = pending.policy.hash();
                let since = match watched.policy_since {
                    Some((known, since)) if known == hash => since,
                    _ => self.sources.clock.now_millis(),
                };
                watched.policy_since = Some((hash, since));
                let needs_password = self.needs_password(&Authorisation::AcceptPolicy { hash });
                let second = self.sources.rules.as_ref().and_then(|rules| second_of_policy(rules, &pending.policy));
                let names = self.links.names.borrow().all();
                let whom = (self.money(), names.as_slice());
                let question = policy_question(&pending, &in_force, second, &file, since, whom);
                all.push(Question { needs_password, ..question });
            }
            None => watched.policy_since = None,
        }
        // In the order of the first request; a repeated request keeps its position.
        all.sort_by_key(|question| question.asked_at);
        let of = all.len();
        for (at, question) in all.iter_mut().enumerate() {
            let name = (question.call_id, question.asked_at);
            question.number = *watched.numbers.entry(name).or_insert_with(|| {
                watched.next_number += 1;
                watched.next_number
            });
            (question.place, question.of) = (at + 1, of);
        }
        if watched.numbers.len() > 4_096 {
            let open: Vec<_> = all.iter().map(|question| (question.call_id, question.asked_at)).collect();
            watched.numbers.retain(|name, _| open.contains(name));
        }
        all
    }
}
