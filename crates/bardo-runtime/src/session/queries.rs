//! Snapshots and read-only queries of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use serde_json::Value;
use tokio::time::timeout;

use super::state::SessionState;
use super::watching::ReportedState;
use crate::accounting::{self, BalanceCheck, ReportScope};
use crate::allowances;
use crate::ens::EnsReader;
use crate::labels::{self, Labels};
use bardo_accounting::report::Period;
use bardo_accounting::tables;
use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_safety::AccountKind;
use bardo_safety::audit::{self, AuditError, LogAnchor, StoredEntry};
use bardo_safety::ledger::{self, CapPeriod, FailureBreaker, LedgerCaps, LedgerError, MicroUsd};
use bardo_safety::policy::Policy;
use bardo_safety::stop::ActiveStop;
use bardo_session::handle::{
    AllowanceState, AllowancesState, AuditEntry, BreakerState, ChainHoldings, Custody, GrantState, LimitUsage,
    PnlState, PolicyState, QueryResult, SessionQuery, SessionSnapshot, SpendState, StopLossState, StopState,
    WatchedHoldings,
};
use golem::vitals::AccountValue;
use golem_chain::network::{BookToken, Network};
use golem_chain::token::TokenId;

/// Maximum number of audit log entries per query.
const MOST_ENTRIES: u32 = 1_000;
/// Time after which an ENS name is looked up again, in milliseconds.
const ENS_LASTS: u64 = 600_000;
/// Maximum number of ENS names that are looked up at once.
const MOST_ENS: usize = 16;
/// Maximum time to read the value at the end of a session, for which the operator waits.
const LAST_READING: Duration = Duration::from_secs(3);
/// Maximum number of watch-only accounts whose holdings are read.
const MOST_WATCHED: usize = 20;

/// State of everything that profit and loss follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResultsVersion {
    real: Option<[i64; 6]>,
    /// State of the paper ledger; `None` outside of paper mode.
    paper: Option<Option<(i64, i64)>>,
    checks: Vec<BalanceCheck>,
    faults: Vec<String>,
}

impl SessionState {
    /// Present state of everything that is not an event.
    pub(super) fn snapshot(&self, watched: &ReportedState) -> SessionSnapshot {
        let (policy, version) = match &self.sources.keeper {
            Some(keeper) => {
                let adopted = keeper.current();
                (adopted.policy, adopted.version)
            }
            None => (std::sync::Arc::new(Policy::preset(bardo_safety::policy::PolicyPreset::ReadOnly)), 0),
        };
        let limits = self.limits(&policy);
        let (limits, fault) = match limits {
            Ok(limits) => (limits, watched.policy_fault.clone().or_else(|| self.keys_fault())),
            Err(error) => (None, Some(SafeText::clean(&error.to_string(), 300))),
        };
        let own = self.control.stop_watch.own.borrow().clone();
        let stop = match self.links.in_force.borrow().as_ref() {
            None | Some(ActiveStop::None) => None,
            Some(ActiveStop::Stop(stop)) => Some(StopState {
                level: stop.level,
                by: stop.by.clone(),
                reason: stop.reason.clone(),
                at: stop.at,
                own_hold: own.as_ref() == Some(stop),
            }),
            Some(ActiveStop::Garbled { why }) => Some(StopState {
                level: bardo_base::model::StopLevel::Halt,
                by: SafeText::clean("an unreadable stop file", 60),
                reason: SafeText::clean(why, 200),
                at: 0,
                own_hold: false,
            }),
        };
        let holdings = self.links.holdings.borrow().clone();
        let (held, all_priced) = worth(&holdings);
        // The vitals of a live Golem include funds that are on their way over bridges; the wallets alone do not.
        let lives = *self.links.phase_now.borrow() != Phase::Terminal;
        let equity = self.stats().equity().filter(|_| lives).or(held);
        SessionSnapshot {
            golem_id: self.golem_id.clone(),
            at: self.sources.clock.now_millis(),
            account: self.sources.world.account,
            paper: self.sources.paper.as_ref().is_some_and(golem_tools::engine::PaperMode::on),
            phase: *self.links.phase_now.borrow(),
            policy: PolicyState { name: SafeText::clean(&policy.name(), 60), version, hash: policy.hash() },
            limits,
            fault,
            stop,
            keys_revoked: self.keys_revoked(),
            custody: self.sources.world.custody.map(custody),
            holdings,
            equity,
            all_priced,
            allowances: self.links.allowances.borrow().clone(),
            grants: self.grants(),
            running: u32::try_from(self.control.running.count()).unwrap_or(u32::MAX),
            pnl: self.links.pnl.borrow().clone(),
            transactions: self.links.transactions.borrow().clone(),
            schedules: self.links.schedules.borrow().clone(),
            deposits: self.links.deposits.borrow().clone(),
            watched: self.links.watched.borrow().clone(),
            names: self.links.names.borrow().all(),
        }
    }

    /// Reads the names of keys and labels. Returns true if they changed.
    pub(super) fn read_names(&self) -> bool {
        let folder = &self.sources.folder;
        self.links.names.send_if_modified(|known| {
            let now = labels::names(folder).with_ens(&self.links.ens.borrow());
            let changed = *known != now;
            *known = now;
            changed
        })
    }

    /// Reads the value at the end of the session, if something moved it since the first reading: a session that stops right
    /// after a trade has no later heartbeat.
    pub(super) async fn read_last_value(&self) {
        let Some(account) = self.sources.world.account.filter(|_| self.stats().awaits_last_value()) else { return };
        let read = timeout(LAST_READING, AccountValue::read(&self.sources.world, account)).await;
        self.stats().close_at(read.ok().and_then(|value| value.equity));
    }

    /// Looks up the ENS names of labelled accounts, of spenders, and of the parties to open requests, where a connected
    /// network has them. `known` are those of earlier rounds with their times.
    pub(super) async fn read_ens(&self, known: &mut BTreeMap<Address, (u64, Option<SafeText>)>) {
        let chains = self.sources.world.chains();
        let Some(reader) = chains.iter().find_map(|chain| EnsReader::of(&chain.client)) else { return };
        let now = self.sources.clock.now_millis();
        let mut wanted: BTreeSet<Address> =
            self.links.names.borrow().all().into_iter().map(|name| name.address).collect();
        for request in self.sources.queue.as_ref().map(|queue| queue.pending()).unwrap_or_default() {
            wanted.extend(&request.preview.payload.proposal().recipients);
        }
        let allowances = self.links.allowances.borrow().clone();
        wanted.extend(allowances.rows.iter().map(|row| row.spender));
        wanted.retain(|address| known.get(address).is_none_or(|(at, _)| now.saturating_sub(*at) > ENS_LASTS));
        let asked = wanted.into_iter().take(MOST_ENS).map(|address| {
            let reader = reader.clone();
            async move { (address, reader.name_of(address).await) }
        });
        for (address, found) in futures::future::join_all(asked).await {
            match found {
                Ok(name) => drop(known.insert(address, (now, name))),
                // Without an answer an old name must not stay.
                Err(error) => {
                    tracing::debug!(%error, %address, "its ENS name cannot be read");
                    known.remove(&address);
                }
            }
        }
        let names = known.iter().filter_map(|(address, (_, name))| Some((*address, name.clone()?))).collect();
        self.links.ens.send_if_modified(|before| {
            let changed = *before != names;
            *before = names;
            changed
        });
    }

    /// Reads the holdings of watch-only accounts.
    pub(super) async fn read_watched(&self) {
        let Some(books) = &self.sources.books else { return };
        let labels = Labels::of(&self.sources.folder).list().unwrap_or_default();
        let watched: Vec<_> = labels.into_iter().filter(|label| label.watched).take(MOST_WATCHED).collect();
        let asked = watched.iter().map(|label| books.holdings_of(label.address));
        let answers = futures::future::join_all(asked).await;
        let mut all = Vec::new();
        for (label, holdings) in watched.into_iter().zip(answers) {
            let known = |holdings| WatchedHoldings { name: label.name.clone(), address: label.address, holdings };
            all.extend(holdings.into_iter().map(known));
        }
        self.links.watched.send_if_modified(|known| {
            let plain = |one: &WatchedHoldings| {
                let ChainHoldings { chain_id, rows, positions, .. } = &one.holdings;
                (one.name.clone(), one.address, *chain_id, rows.clone(), positions.clone())
            };
            // A new block alone makes no snapshot: each carries the whole history of the results.
            let changed = !known.iter().map(plain).eq(all.iter().map(plain));
            if changed {
                *known = all;
            }
            changed
        });
    }

    /// Brings the books up to date and publishes profit and loss: in paper mode that of the paper ledger.
    /// Nothing is read again while `known` is the state of everything that the results follow from.
    pub(super) async fn read_profit_and_loss(&self, known: &mut Option<ResultsVersion>) {
        let store = &self.sources.ledger.store;
        let paper = self.sources.paper.as_ref().filter(|paper| paper.on()).and_then(|paper| paper.trading());
        let (mut faults, mut checks) = (Vec::new(), Vec::new());
        if let Some(books) = &self.sources.books {
            for (chain, imported) in books.update().await {
                faults.extend(imported.err().map(|error| format!("{chain}: {error}")));
            }
            match books.reconcile().await {
                Ok(compared) => {
                    for (chain, compared) in compared {
                        match compared {
                            Ok(found) => checks.extend(found),
                            Err(error) => faults.push(format!("{chain}: {error}")),
                        }
                    }
                }
                Err(error) => faults.push(error.to_string()),
            }
        }
        let networks: Vec<Network> = self.sources.world.chains().iter().map(|chain| chain.network().clone()).collect();
        let account = self.sources.world.account;
        let scope = ReportScope {
            period: Period::default(),
            account,
            networks: &networks,
            money: ReportScope::money_of(&networks),
        };
        let on_paper = paper.as_ref().map(|paper| paper.ledger.store());
        let now = ResultsVersion {
            real: store.read(tables::version).ok(),
            paper: paper.as_ref().map(|paper| paper.ledger.version().ok()),
            checks: checks.iter().map(|check| BalanceCheck { block: 0, ..check.clone() }).collect(),
            faults: faults.clone(),
        };
        if now.real.is_some() && known.as_ref() == Some(&now) {
            return;
        }
        let (books, is_paper) = match on_paper {
            Some(paper) => {
                checks.clear();
                (accounting::read_paper(paper, Some(store), &scope), true)
            }
            None => (accounting::read(store, &scope), false),
        };
        let name = |chain_id| {
            let known = networks.iter().find(|network| network.chain_id == chain_id);
            SafeText::clean(&known.map_or_else(|| format!("chain {chain_id}"), |network| network.name.clone()), 40)
        };
        let state = books.and_then(|books| accounting::summary(&books, &checks, is_paper, name));
        let state = state.unwrap_or_else(|error| {
            faults.push(error.to_string());
            PnlState { paper: is_paper, ..PnlState::default() }
        });
        let fault = (!faults.is_empty()).then(|| SafeText::clean(&faults.join("; "), 300));
        let money = Some(self.money());
        self.links.pnl.send_replace(Some(Arc::new(PnlState { fault, account, money, ..state })));
        *known = Some(now);
    }

    fn limits(&self, policy: &Policy) -> Result<Option<LimitUsage>, LedgerError> {
        let Some((account, chain)) = self.sources.world.account.zip(self.sources.world.chains().first()) else {
            return Ok(None);
        };
        let caps = policy.caps(*self.links.phase_now.borrow(), false);
        let (now, chain_id) = (self.sources.clock.now_millis(), chain.network().chain_id);
        let on_paper = self.sources.world.paper().map(|paper| paper.ledger.store());
        let read = on_paper.unwrap_or(&self.sources.ledger.store).read(|connection| {
            let usage = ledger::usage(connection, now, chain_id, account, [], caps.cool_off)?
                .called_by(connection, &self.golem_id)?;
            let chains = self.sources.world.chains().iter().map(|chain| chain.network().chain_id);
            let marks = chains
                .map(|chain_id| {
                    let mark = ledger::observed_high_water(connection, chain_id, account)?;
                    Ok((chain_id, mark, ledger::carried(connection, chain_id, account)?))
                })
                .collect::<Result<Vec<_>, LedgerError>>()?;
            Ok::<_, LedgerError>((usage, ledger::held(connection)?, marks))
        });
        let (usage, held, marks) = read?;
        let most = |span: CapPeriod| {
            let of_span = caps.spend.iter().filter(|cap| cap.span == span);
            of_span.map(|cap| cap.limit).min().map(MicroUsd::dollars)
        };
        let rules = policy.rules();
        Ok(Some(LimitUsage {
            day: SpendState { used: usage.spent(CapPeriod::Day).dollars(), limit: most(CapPeriod::Day) },
            month: SpendState { used: usage.spent(CapPeriod::Month).dollars(), limit: most(CapPeriod::Month) },
            one: most(CapPeriod::Once),
            reserved: held.dollars(),
            asks_above: rules.require_human_approval_above_usd.0,
            hot_lane: rules.spending_limits.hot_lane.0,
            calls: (usage.calls_minute, caps.calls_per_minute),
            trades: (usage.trades_hour, caps.trades_per_hour),
            breaker: breaker(usage.breaker),
            failures_limit: caps.failures,
            stop_loss_bps: caps.stop_loss.get(),
            stop_losses: marks.into_iter().map(|mark| self.stop_loss(mark, &caps)).collect(),
        }))
    }

    /// Returns the stop-loss state of the holdings on a chain.
    fn stop_loss(
        &self,
        (chain_id, high_water, carried): (u64, MicroUsd, MicroUsd),
        caps: &LedgerCaps,
    ) -> StopLossState {
        let holdings = self.links.holdings.borrow();
        let held = holdings.iter().find(|held| held.chain_id == chain_id);
        let name = self.sources.world.chains().iter().find(|chain| chain.network().chain_id == chain_id);
        StopLossState {
            chain: name.map_or_else(SafeText::default, |chain| SafeText::clean(&chain.network().name, 40)),
            chain_id,
            worth: held.and_then(all_worth).and_then(|worth| worth.checked_add(carried.dollars()).ok()),
            high_water: high_water.dollars(),
            stops_at: high_water.less(high_water.share(caps.stop_loss)).dollars(),
        }
    }

    fn grants(&self) -> Vec<GrantState> {
        let Some(queue) = &self.sources.queue else { return Vec::new() };
        let symbol = |chain_id: u64, token: &TokenId| {
            let chain = self.sources.world.chains().iter().find(|chain| chain.network().chain_id == chain_id);
            match (token, chain) {
                (TokenId::Native, Some(chain)) => SafeText::clean(chain.network().native_symbol, 20),
                (TokenId::Native, None) => SafeText::clean("the native token", 20),
                (TokenId::Erc20(address), chain) => {
                    let listed = chain.and_then(|chain| chain.network().book.token_at(*address));
                    listed.map_or_else(
                        || SafeText::clean(&address.to_string(), 42),
                        |token: &BookToken| SafeText::clean(&token.symbol, 20),
                    )
                }
            }
        };
        let live = queue.grants().into_iter();
        live.map(|(grant, lasts)| {
            let scope = grant.scope();
            GrantState {
                number: grant.number(),
                golem_id: scope.golem_id.clone(),
                tool: SafeText::clean(scope.tool, 80),
                chain_id: scope.chain_id,
                tokens: scope.gives.iter().chain(&scope.gets).map(|token| symbol(scope.chain_id, token)).collect(),
                recipients: scope.recipients.iter().copied().collect(),
                granted: Some(grant.granted()),
                left: grant.left(),
                lasts_millis: u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
            }
        })
        .collect()
    }

    /// Reads the allowances on the listed tokens; `None` if a chain did not answer.
    pub(super) async fn read_allowances(&self) -> Option<AllowancesState> {
        let owner = self.sources.world.account?;
        let mut all = AllowancesState::default();
        for chain in self.sources.world.chains() {
            let AllowancesState { rows, silent } =
                allowances::read_allowances(chain, owner, &self.sources.ledger.store).await.ok()?;
            let names = self.links.names.borrow();
            let named = |mut row: AllowanceState| {
                row.label = row.label.or_else(|| names.describe(None, row.spender));
                row
            };
            all.rows.extend(rows.into_iter().map(named));
            all.silent.extend(silent);
        }
        Some(all)
    }

    /// Answers a query.
    pub(super) async fn run_query(&self, query: SessionQuery) -> QueryResult {
        let nothing =
            |why: &dyn std::fmt::Display| QueryResult::Nothing { why: SafeText::clean(&why.to_string(), 300) };
        match query {
            SessionQuery::Audit { after, call, most } => {
                let most = most.min(MOST_ENTRIES);
                let read = self.sources.ledger.store.read(|connection| audit::entries(connection, after, call, most));
                read.map_or_else(
                    |error: AuditError| nothing(&error),
                    |entries| QueryResult::Audit { entries: describe(entries) },
                )
            }
            SessionQuery::AuditTail { most } => {
                let most = most.min(MOST_ENTRIES);
                let read = self.sources.ledger.store.read(|connection| {
                    let head = audit::head(connection)?;
                    audit::entries(connection, head.seq.saturating_sub(u64::from(most)), None, most)
                });
                read.map_or_else(
                    |error: AuditError| nothing(&error),
                    |entries| QueryResult::Audit { entries: describe(entries) },
                )
            }
            SessionQuery::VerifyAudit => {
                let store = self.sources.ledger.store.clone();
                let checked = tokio::task::spawn_blocking(move || {
                    let anchor = LogAnchor::beside(store.path());
                    store.read(|connection| audit::verify(connection, &anchor, None))
                });
                match checked.await {
                    Ok(Ok(report)) => QueryResult::Verified {
                        good: report.good(),
                        entries: report.entries,
                        head: report.head.hash,
                        faults: report.faults.iter().map(|fault| SafeText::clean(&fault.to_string(), 300)).collect(),
                    },
                    Ok(Err(error)) => nothing(&error),
                    Err(error) => nothing(&error),
                }
            }
            SessionQuery::History { after } => {
                let fabric = self.sources.fabric.clone();
                match tokio::task::spawn_blocking(move || fabric.history(after)).await {
                    Ok(Ok(history)) => {
                        QueryResult::History { events: history.events, last: history.last, complete: history.complete }
                    }
                    Ok(Err(error)) => nothing(&error),
                    Err(error) => nothing(&error),
                }
            }
        }
    }
}

fn describe(entries: Vec<StoredEntry>) -> Vec<AuditEntry> {
    let entry = |entry: StoredEntry| AuditEntry {
        seq: entry.seq,
        at: entry.at,
        kind: SafeText::clean(&entry.kind, 60),
        call_id: entry.call_id.map(|id| SafeText::clean(&id, 60)),
        golem_id: SafeText::clean(&entry.golem_id, 60),
        body: serde_json::from_str(&entry.body).unwrap_or(Value::String(entry.body)),
        hash: entry.hash,
    };
    entries.into_iter().map(entry).collect()
}

pub(super) fn breaker(breaker: FailureBreaker) -> BreakerState {
    match breaker {
        FailureBreaker::Closed { failures } => BreakerState::Closed { failures },
        FailureBreaker::Open { until, failures } => BreakerState::Open { until, failures },
        FailureBreaker::HalfOpen | FailureBreaker::Trial => BreakerState::OneTrial,
    }
}

/// Worth of everything held on a chain less what is owed there; `None` where something has no price.
fn all_worth(held: &ChainHoldings) -> Option<Usd> {
    held.all_priced().then(|| held.net()).flatten()
}

/// Everything priced less what is owed, together, and whether everything has a price.
fn worth(holdings: &[ChainHoldings]) -> (Option<Usd>, bool) {
    let all_priced = holdings.iter().all(ChainHoldings::all_priced);
    if holdings.is_empty() {
        return (None, all_priced);
    }
    let sum = holdings.iter().try_fold(Usd::ZERO, |sum, held| sum.checked_add(held.net()?).ok());
    (sum, all_priced)
}

/// Custody as a session reports it.
const fn custody(kind: AccountKind) -> Custody {
    match kind {
        AccountKind::LocalKey => Custody::KeyFile,
        AccountKind::DevelopmentKey => Custody::DevelopmentKey,
        AccountKind::Delegated => Custody::SessionKey,
        AccountKind::Embedded => Custody::WalletServer,
        AccountKind::Safe => Custody::Safe,
    }
}
