//! What a session follows: its own events, the chains' blocks and health, the stop file, the policy, the questions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::primitives::Address;
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::asking::policy_question;
use super::stage::Stage;
use super::tell;
use crate::market::pools_of;
use crate::market::reader::ChainReader;
use crate::questions::answering::asked_at;
use crate::questions::{Listed, Told};
use bardo_base::fabric::{
    ChainBlock, ChainHealth, ChainOpened, ChainState, EventKind, HaltChanged, LimitsChanged, PolicyChange,
    PolicyChanged, Receiver, SessionOpened,
};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_safety::audit::{AuditError, Kind, Note, Trail};
use bardo_safety::operator_proof::Authorisation;
use bardo_safety::policy::{Adopted, Policy};
use bardo_safety::stop::InForce;
use bardo_sandbox::SandboxChain;
use bardo_session::handle::{ChainHoldings, Holding, News, Snapshot};
use bardo_session::market::{ChainSnapshot, EndpointsState, Money, Update};
use bardo_session::questions::{Confirmation, OperatorAnswer, Question};
use golem_chain::network::Network;
use golem_chain::provider::{self, Backing, ChainClient, Condition, HealthHandle};
use golem_tools::engine::WorldChain;

/// Events the console may be behind before it is told of a gap.
pub(super) const WINDOW: usize = 65_536;
/// Events told at once.
const AT_ONCE: usize = 512;
/// How often the stop file is looked at, where nobody rings.
const LOOK_AT_STOP: Duration = Duration::from_millis(200);
/// Interval between two reads of the paper ledger's version.
const LOOK_AT_PAPER: Duration = Duration::from_millis(400);
/// Between two readings of what others may take.
const ALLOWANCES_EVERY: Duration = Duration::from_secs(4);
/// Least time between two `limits:changed` events, in milliseconds.
const LIMITS_EVERY: u64 = 1_000;
/// How often a chain that is reached over the network is read.
const REMOTE_READ: Duration = Duration::from_secs(2);

/// What was told last, so that only changes are told.
pub(super) struct Watched {
    pub adopted: Option<Adopted>,
    pub policy_fault: Option<SafeText>,
    pub policy_since: Option<(alloy::primitives::B256, u64)>,
    pub numbers: BTreeMap<(Option<CallId>, u64), u64>,
    pub next_number: u64,
    pub questions: Arc<Vec<Question>>,
    /// What was laid down for the other programs on this ledger.
    pub laid: Vec<Question>,
    pub snapshot: Option<Snapshot>,
    /// The limits emitted last, and when, in milliseconds since the Unix epoch.
    pub limits: Option<(u64, LimitsChanged)>,
}

impl Watched {
    pub(super) fn new(stage: &Stage) -> Self {
        Self {
            adopted: stage.keeper.as_ref().map(|keeper| keeper.current()),
            policy_fault: None,
            policy_since: None,
            numbers: BTreeMap::new(),
            next_number: 0,
            questions: Arc::default(),
            laid: Vec::new(),
            snapshot: None,
            limits: None,
        }
    }
}

/// Hands events on, in order, and counts them on the way, until it is told to close: what has happened by then is
/// handed on too.
pub(super) async fn events(stage: Arc<Stage>, mut receiver: Receiver, mut closing: oneshot::Receiver<()>) {
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
            let mut tally = stage.tally();
            for event in &batch {
                tally.take(event);
            }
        }
        if stage.news.send(News::Events(std::mem::take(&mut batch))).await.is_err() {
            return;
        }
    }
}

/// Follows every chain.
pub(super) fn chains(stage: &Arc<Stage>, tasks: &mut JoinSet<()>) {
    for (place, chain) in stage.world.chains().iter().enumerate() {
        let sandbox = stage.sandbox.as_ref().and_then(|sandbox| sandbox.chains().get(place)).cloned();
        tasks.spawn(chain_blocks(Arc::clone(stage), place, sandbox));
        tasks.spawn(chain_health(Arc::clone(stage), place, chain.client.clone()));
    }
}

/// Follows the stop file, beside everything that may take long.
pub(super) async fn stop(stage: Arc<Stage>) {
    let mut look = interval(LOOK_AT_STOP);
    look.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = look.tick() => {}
            () = stage.brake.rung.notified() => {}
        }
        stage.look_at_stop();
    }
}

/// Reads what others may take, over the network and so on a task of its own.
pub(super) async fn allowances(stage: Arc<Stage>) {
    loop {
        // A chain that does not answer leaves what was known; the next reading mends it.
        if let Some(allowances) = stage.read_allowances().await {
            stage.allowances.send_replace(allowances);
        }
        sleep(ALLOWANCES_EVERY).await;
    }
}

async fn chain_health(stage: Arc<Stage>, place: usize, client: ChainClient) {
    let (chain_id, mut health) = (client.chain_id(), client.health_handle());
    // Once it stops, the handle ends; the client would keep it alive.
    let in_process = matches!(client.backing(), Backing::Devnet(_));
    drop(client);
    let mut known = ChainState::Healthy;
    let mut told = EndpointsState::default();
    while let Some(now) = health.next().await {
        let endpoints = endpoints_state(&now, in_process);
        if endpoints != told {
            told = endpoints.clone();
            tell(&stage.news, News::Market(Update::Endpoints { chain: place, state: endpoints })).await;
        }
        if let Some(dispute) = now.disputes().map(|(_, dispute)| dispute).next() {
            if known != ChainState::Disputed {
                known = ChainState::Disputed;
                let why = SafeText::clean(&dispute.to_string(), 300);
                stage.emit(None, EventKind::ChainHealth(ChainHealth { chain_id, state: known, why }));
            }
            continue;
        }
        let state = match now.condition {
            Condition::Healthy | Condition::Unproven => ChainState::Healthy,
            Condition::Degraded => ChainState::Degraded,
            Condition::Down => ChainState::Down,
        };
        if state != known {
            known = state;
            let why = now.last_error.unwrap_or_default();
            stage.emit(None, EventKind::ChainHealth(ChainHealth { chain_id, state, why }));
        }
    }
}

/// How far a chain's endpoints can be cross-checked now.
fn endpoints_state(health: &provider::ChainHealth, in_process: bool) -> EndpointsState {
    if in_process {
        return EndpointsState::default();
    }
    let (answering, configured) = health.answering();
    let disputed = health.disputes().map(|(label, _)| label.clone()).collect();
    let dispute = health.disputes().next().map(|(_, dispute)| SafeText::clean(&dispute.to_string(), 300));
    EndpointsState { configured, answering, disputed, dispute }
}

async fn chain_blocks(stage: Arc<Stage>, place: usize, sandbox: Option<SandboxChain>) {
    let Some(chain) = stage.world.chains().get(place) else { return };
    let wallet = stage.world.account.unwrap_or(Address::ZERO);
    let pools = sandbox.as_ref().map(|chain| pools_of(&chain.deployment)).unwrap_or_default();
    let fault = |words: &dyn std::fmt::Display| {
        let message = SafeText::clean(&words.to_string(), 160);
        News::Market(Update::Fault { chain: Some(place), message })
    };
    let network: Network = chain.network().clone();
    let reader = ChainReader::new(place, network.clone(), chain.client.provider().clone(), wallet, pools);
    let mut reader = match reader {
        Ok(reader) => reader.with_paper(stage.paper.clone()),
        Err(error) => return tell(&stage.news, fault(&error)).await,
    };
    let mut next = NextHead::of(chain, sandbox.as_ref());
    let (mut head, mut paper) = (None, PaperSeen::default());
    loop {
        let read = tokio::select! {
            number = next.next() => {
                let Some(number) = number else { break };
                head = Some(number);
                reader.read(number).await.map(|snapshot| (number, snapshot))
            }
            () = paper.moved(&stage) => match head {
                Some(number) => reader.read_again(number).await.map(|snapshot| (number, snapshot)),
                None => continue,
            },
        };
        match read {
            Ok((number, snapshot)) => {
                if let Some(block) = snapshot.blocks.last() {
                    let block =
                        ChainBlock { chain_id: network.chain_id, number: block.number, timestamp: block.timestamp };
                    stage.emit(None, EventKind::ChainBlock(block));
                }
                stage.hold(&network, number, &snapshot);
                tell(&stage.news, News::Market(Update::Chain(Box::new(snapshot)))).await;
            }
            Err(error) => tell(&stage.news, fault(&error)).await,
        }
    }
    tell(&stage.news, fault(&"the chain has stopped")).await;
}

/// Paper mode and version of the paper ledger at the last read of a chain.
#[derive(Default)]
struct PaperSeen(Option<(bool, (i64, i64))>);

impl PaperSeen {
    /// Waits until balances differ from those that were read: paper mode was entered or left, or something moved on paper.
    async fn moved(&mut self, stage: &Stage) {
        let Some((paper, desk)) = stage.paper.as_ref().and_then(|paper| Some((paper, paper.desk()?))) else {
            return std::future::pending().await;
        };
        loop {
            // What cannot be read now is read the next time.
            let now = desk.ledger.version().ok().map(|version| (paper.on(), version));
            match (self.0, now) {
                (_, None) => {}
                (Some(seen), Some(now)) if seen == now => {}
                (None, Some((false, _))) => self.0 = now,
                (None | Some(_), Some(_)) => {
                    self.0 = now;
                    return;
                }
            }
            sleep(LOOK_AT_PAPER).await;
        }
    }
}

/// Where the next head comes from.
enum NextHead {
    Devnet(watch::Receiver<Arc<golem_chain::devnet::Block>>),
    Remote { health: HealthHandle, known: Option<u64> },
}

impl NextHead {
    fn of(chain: &WorldChain, sandbox: Option<&SandboxChain>) -> Self {
        match sandbox {
            Some(sandbox) => {
                let mut head = sandbox.devnet.head();
                // The block that is there already is news, too.
                head.mark_changed();
                Self::Devnet(head)
            }
            None => Self::Remote { health: chain.client.health_handle(), known: None },
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

impl Stage {
    pub(super) fn emit(&self, call_id: Option<CallId>, kind: EventKind) {
        self.fabric.emit(&self.golem_id, call_id, kind);
    }

    /// Keeps what the wallet holds there.
    fn hold(&self, network: &Network, block: u64, snapshot: &ChainSnapshot) {
        let rows = snapshot.balances.iter().map(|row| Holding {
            symbol: row.symbol.clone(),
            amount: row.amount,
            value: row.value,
        });
        let held = ChainHoldings {
            chain: SafeText::clean(&network.name, 40),
            chain_id: network.chain_id,
            block,
            rows: rows.collect(),
        };
        self.holdings.send_modify(|all| match all.iter_mut().find(|one| one.chain_id == held.chain_id) {
            Some(known) => *known = held,
            None => {
                all.push(held);
                // Chains answer in any order; they are told in one.
                all.sort_unstable_by_key(|one| one.chain_id);
            }
        });
    }

    /// Whose money it is, paper told apart.
    pub(super) fn money(&self) -> Money {
        if self.paper.as_ref().is_some_and(golem_tools::engine::Paper::on) { Money::Paper } else { self.network.money }
    }

    /// One look at everything that no channel tells of.
    pub(super) async fn look_around(self: &Arc<Self>, watched: &mut Watched) {
        self.look_at_policy(watched);
        self.report_forged(watched).await;
        self.hear_answers(watched).await;
        self.tell_questions(watched).await;
        let snapshot = self.snapshot(watched);
        let same = watched.snapshot.as_ref().is_some_and(|known| known.says_the_same(&snapshot));
        self.tell_limits(watched, &snapshot);
        if !same {
            watched.snapshot = Some(snapshot.clone());
            tell(&self.news, News::Snapshot(Arc::new(snapshot))).await;
        }
    }

    /// Emits the limits where they differ from those emitted last, at most once in [`LIMITS_EVERY`]: a recording shows
    /// them as the console did.
    fn tell_limits(&self, watched: &mut Watched, snapshot: &Snapshot) {
        let Some(limits) = &snapshot.limits else { return };
        let now = LimitsChanged { policy: snapshot.policy.clone(), limits: limits.clone() };
        let settled = |(at, told): &(u64, LimitsChanged)| *told == now || snapshot.at < at.saturating_add(LIMITS_EVERY);
        if watched.limits.as_ref().is_some_and(settled) {
            return;
        }
        watched.limits = Some((snapshot.at, now.clone()));
        self.emit(None, EventKind::LimitsChanged(Box::new(now)));
    }

    /// The event that a session begins, with what no other event says of its chains.
    pub(super) fn opened(&self) -> SessionOpened {
        let chain = |chain: &WorldChain| ChainOpened {
            chain_id: chain.network().chain_id,
            name: SafeText::clean(&chain.network().name, 40),
            native_symbol: SafeText::clean(chain.network().native_symbol, 20),
        };
        SessionOpened {
            network: self.network.name.clone(),
            account: self.world.account,
            chains: self.world.chains().iter().map(chain).collect(),
        }
    }

    /// Reads the stop file, and has everybody know where it says something new.
    pub(super) fn look_at_stop(&self) {
        for set in self.brake.take_beneath() {
            let changed = HaltChanged { level: Some(set.level), by: set.by.clone(), reason: set.reason.clone() };
            self.note_stop(Kind::HaltRaised, &changed, &InForce::Stop(set));
        }
        let found = self.brake.file.read();
        let known = self.in_force.borrow().clone();
        if known.as_ref() == Some(&found) {
            return;
        }
        let before = known.as_ref().and_then(InForce::level);
        self.revoke_keys(&found);
        let first = known.is_none();
        let level = found.level();
        let (by, reason) = match &found {
            InForce::None => (SafeText::default(), SafeText::default()),
            InForce::Stop(stop) => (stop.by.clone(), stop.reason.clone()),
            InForce::Garbled { why } => (SafeText::clean("an unreadable stop file", 60), SafeText::clean(why, 200)),
        };
        self.own.keep_for(&found);
        self.stop.send_replace(self.lasting(level));
        // Somebody stopped in earnest where there was a hold.
        let firmer =
            matches!((&known, &found), (Some(InForce::Stop(held)), InForce::Stop(stop)) if held.hold && !stop.hold);
        self.in_force.send_replace(Some(found.clone()));
        if let Some(desk) = &self.desk {
            if level.is_some() {
                desk.drop_grants();
            }
            // Before the stop that came with them takes their questions back; each is given once more in its order, where
            // it finds itself given.
            for (permit, reason) in self.brake.take_refusals() {
                let refusal = OperatorAnswer::RefuseAndStop { reason };
                let _gone = self.answer_action(permit, refusal, Confirmation::default(), None);
            }
            if level >= Some(StopLevel::Halt) {
                desk.withdraw_all("a halt is in force");
            }
        }
        let changed = HaltChanged { level, by, reason };
        if level > before || firmer && level == before {
            self.note_stop(Kind::HaltRaised, &changed, &found);
            self.emit(None, EventKind::HaltRaised(changed));
        } else if !first && level < before {
            if let Some(known) = &known {
                self.note_stop(Kind::HaltLowered, &changed, known);
            }
            self.emit(None, EventKind::HaltLowered(changed));
            self.tell_keys_stay();
        }
    }

    /// Puts a change of the stop on the trail, once among all who see it; `of` is the stop that was raised, or lowered.
    fn note_stop(&self, kind: Kind, changed: &HaltChanged, of: &InForce) {
        if self.watch_only && !self.brake.acted.load(Ordering::SeqCst) {
            return;
        }
        let stop = match of {
            InForce::Stop(stop) => stop.id.as_str(),
            InForce::None | InForce::Garbled { .. } => "",
        };
        let by = if changed.by.is_empty() { "operator" } else { changed.by.as_str() };
        let body = json!({ "level": changed.level, "reason": changed.reason, "by": by, "stop": stop });
        let note = Note { kind, call_id: None, golem_id: GolemId::operator(), body };
        let trail = Trail::new(self.ledger.store.clone(), self.clock.clone());
        self.record_to_the_end(async move { trail.record_stop(note).await });
    }

    /// Writes down what holds whether or not it can be; the session does not end before that is over.
    pub(super) fn record_to_the_end(&self, writing: impl Future<Output = Result<(), AuditError>> + Send + 'static) {
        let running = Arc::clone(&self.running);
        running.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            if let Err(error) = writing.await {
                tracing::warn!(%error, "a change of the stop, or of the keys, is not on the audit trail");
            }
            running.fetch_sub(1, Ordering::SeqCst);
        });
    }

    fn look_at_policy(&self, watched: &mut Watched) {
        let (Some(keeper), Some(rules)) = (&self.keeper, &self.rules) else { return };
        // By the rules, so that what is tighter is put on record.
        rules.policy();
        let broken = keeper.broken();
        watched.policy_fault = broken.map(|error| SafeText::clean(&error.to_string(), 300));
        let now = keeper.current();
        let Some(known) = &watched.adopted else { return };
        if now.version == known.version {
            return;
        }
        let changes = known.policy.changes(&now.policy);
        let told = |change: &bardo_safety::policy::Change| {
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
            changes: changes.iter().map(told).collect(),
        };
        watched.adopted = Some(now);
        if let Some(desk) = &self.desk {
            desk.keep_grants_of(changed.hash, *self.phase_now.borrow());
        }
        self.emit(None, EventKind::PolicyChanged(changed));
    }

    /// Tells the open questions, where they are not what was told last: to the console, and to the other programs.
    pub(super) async fn tell_questions(&self, watched: &mut Watched) {
        let asked = self.asked_here();
        let told = self.for_others(&asked);
        if told != watched.laid {
            match self.shared.lay(&told).await {
                Ok(()) => watched.laid = told,
                // Tried again at the next look; here they are shown all the same.
                Err(error) => tracing::warn!(%error, "other programs do not see what is asked here"),
            }
        }
        let questions = self.questions(asked, watched);
        if questions != *watched.questions {
            watched.questions = Arc::new(questions);
            tell(&self.news, News::Questions(Arc::clone(&watched.questions))).await;
        }
    }

    /// The questions as other programs show them: with what can be answered there.
    fn for_others(&self, asked: &[Question]) -> Vec<Question> {
        let mut told = asked.to_vec();
        for offered in told.iter_mut().flat_map(|question| &mut question.answers) {
            if let Some(why) = self.only_here(offered.kind) {
                offered.why_not = Some(SafeText::clean(why, 80));
            }
        }
        told
    }

    /// What the desk of this program asks, without places.
    fn asked_here(&self) -> Vec<Question> {
        let paper = self.paper.as_ref().is_some_and(golem_tools::engine::Paper::on);
        let Some(desk) = &self.desk else { return Vec::new() };
        let networks: Vec<Network> = self.world.chains().iter().map(|chain| chain.network().clone()).collect();
        let policy = self.keeper.as_ref().map(|keeper| keeper.current().policy.clone());
        let listed = policy.map(|policy| Listed::of(policy.rules())).unwrap_or_default();
        asked_at(desk, &networks, paper, |golem_id| Told { listed: listed.clone(), ..self.tally().told(golem_id) })
    }

    fn questions(&self, asked: Vec<Question>, watched: &mut Watched) -> Vec<Question> {
        let mut all = asked;
        match self.shared.others() {
            Ok(mut others) => {
                for question in &mut others {
                    question.needs_password = self.elsewhere_needs_password();
                }
                all.extend(others);
            }
            Err(error) => tracing::warn!(%error, "what other programs ask cannot be read"),
        }
        all.extend(self.own.questions(self.signer(), self.money(), |wanted| self.needs_password(wanted)));
        match self.keeper.as_ref().and_then(|keeper| Some((keeper.pending()?, keeper.path().display().to_string()))) {
            Some((pending, file)) => {
                let hash = pending.policy.hash();
                let since = match watched.policy_since {
                    Some((known, since)) if known == hash => since,
                    _ => self.clock.now_millis(),
                };
                watched.policy_since = Some((hash, since));
                let needs_password = self.needs_password(&Authorisation::AcceptPolicy { hash });
                all.push(Question { needs_password, ..policy_question(&pending, &file, since, self.money()) });
            }
            None => watched.policy_since = None,
        }
        // First come, first served; asking anew keeps the place.
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
