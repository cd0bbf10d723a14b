//! Vitals of a Golem: holdings relative to the high-water mark, gas, failures and age.
//!
//! Holdings are valued only by price feeds. If one holding has no live feed, the total is unknown, and no drawdown
//! changes the phase.
//!
//! Liquidity positions count at their exit value: the amounts at the price of both tokens' feeds, whatever the pool's
//! price is ([`golem_protocols::uniswap::positions`], `exit_value`), and what they are owed. Those that a hook does not let
//! out, and those that cannot be read, count as nothing, and the loss that this looks like ends no life. The same holds for
//! shares of the address book's vault and of those that the policy names, which count what a simulated redemption pays out.
//!
//! Tokens on a bridge count while the settler that locked them still holds them and they are not delivered. Each
//! chain's balances and settler states are read in one call, so that nothing is counted twice, whatever the order of
//! the chains' answers. A deposit with Across counts until its destination has filled it or it is paid back. The input of an
//! open auction is still in the wallet. Supplies in the lending market count, and debts
//! there are subtracted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::bindings::IMulticall3;

use super::phase::{DebtHealth, PhaseMachine, PhaseReading, Runway};
use bardo_abi::erc20::Erc20;
use bardo_abi::erc7683::{DestinationSettler, OriginSettler};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{LendingVitals, Vitals};
use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use bardo_safety::policy::MinFactor;
use bardo_safety::typed::TypedMessage;
use bardo_safety::vault_calls;
use golem_chain::multicall::{BatchResults, CallBatch};
use golem_chain::network::KnownContract;
use golem_chain::price::PriceOrigin;
use golem_chain::token::TokenId;
use golem_protocols::erc4626::holding::{HeldShares, HoldingSources, VaultQuestions, redeemed};
use golem_protocols::intents::CrossChainIntent;
use golem_protocols::uniswap::positions::{
    AccountPositions, Exit, PositionAnswer, PositionContracts, PositionKeys, PositionState, PricedToken,
    UnreadablePositions,
};
use golem_tools::across::{InTransit, in_transit};
use golem_tools::engine::{ConnectedChain, ToolEnvironment};

mod lending;

pub use lending::{ChainLending, LendingHealth};
#[cfg(test)]
mod tests;

/// Window for measuring gas use, in seconds.
const GAS_WINDOW: u64 = 3_600;

/// Minimum observation time for a runway estimate, in seconds.
const LEAST_SEEN: u64 = 300;

/// Maximum number of stored gas samples.
const SAMPLES: usize = 120;

/// Dwell before the high-water mark rises, in milliseconds. A single reading with a wrong price or balance would
/// otherwise set the mark forever and count as a loss from then on.
const MARK_DWELL: u64 = 60_000;

/// Holdings of the account, valued by price feeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountValue {
    /// Total value; `None` if any holding has no live feed.
    pub equity: Option<Usd>,
    /// Native tokens on all chains, in wei; `None` if a chain did not answer.
    pub gas_wei: Option<U256>,
    /// Supplies and debts in the lending market of each chain that has any and that could be read.
    pub lending: Vec<ChainLending>,
    /// True if `lending` lacks a chain that could not be read.
    pub lending_unread: bool,
    /// True if `equity` lacks liquidity positions that count as nothing because they could not be read, or because a hook
    /// does not let them out, or shares of a vault that does not let them out, or deposits on their way to another chain whose
    /// state is not clear.
    pub lacks_positions: bool,
}

impl AccountValue {
    /// Value of which nothing is known.
    const UNKNOWN: Self =
        Self { equity: None, gas_wei: None, lending: Vec::new(), lending_unread: true, lacks_positions: false };

    /// Values the holdings of an account on all chains and bridges. Without one of the chains, or the ledger, equity and gas
    /// are unknown, and the debts of the others are not: they are repaid all the same.
    pub async fn read(world: &ToolEnvironment, account: Address) -> Self {
        let Some(bridges) = bridges(world, account) else { return Self::UNKNOWN };
        // Before any balance, so that what arrives meanwhile is counted twice for a moment, and never not at all.
        let transits = world.chains().iter().map(|chain| in_transit(world, chain, account));
        let transits = futures::future::join_all(transits).await;
        let asked = world.chains().iter().zip(transits);
        // Deposits that cannot be read take nothing else with them: the debts above all must stay known.
        let unread = |_| InTransit { deposits: Vec::new(), is_partial: true };
        let asked = asked.map(|(chain, transit)| held(world, chain, account, &bridges, transit.unwrap_or_else(unread)));
        let asked = futures::future::join_all(asked).await;
        let is_whole = world.lost().is_empty() && asked.iter().all(Result::is_ok);
        let chains: Vec<ChainValue> = asked.into_iter().flatten().collect();
        if !is_whole {
            let lending = chains.into_iter().filter_map(|held| held.lending).collect();
            return Self { lending, ..Self::UNKNOWN };
        }
        let delivered: BTreeSet<B256> = chains.iter().flat_map(|held| held.delivered.iter().copied()).collect();
        let mut worth = Self {
            equity: Some(Usd::ZERO),
            gas_wei: Some(U256::ZERO),
            lending: Vec::new(),
            lending_unread: false,
            lacks_positions: chains.iter().any(|held| held.lacks_positions),
        };
        for held in chains {
            let locked = held.locked.iter().filter(|(id, _)| !delivered.contains(id)).map(|(_, value)| *value);
            for value in std::iter::once(held.value).chain(locked) {
                worth.equity = worth.equity.zip(value).and_then(|(sum, value)| sum.checked_add(value).ok());
            }
            worth.gas_wei = worth.gas_wei.map(|sum| sum.saturating_add(held.gas));
            worth.lending.extend(held.lending);
        }
        worth
    }
}

/// Vitals meter of a Golem.
#[derive(Debug)]
pub struct VitalsMeter {
    world: Arc<ToolEnvironment>,
    account: Address,
    born_at: u64,
    lifespan_seconds: Option<u64>,
    mark: HighWaterMark,
    failures: u32,
    gas: VecDeque<(u64, U256)>,
}

/// High-water mark, with the recent holdings.
#[derive(Debug)]
struct HighWaterMark {
    high: Option<Usd>,
    /// Uninterrupted readings, oldest first, starting with the last one before the dwell.
    recent: VecDeque<(u64, Usd)>,
}

impl HighWaterMark {
    fn new(high: Option<Usd>) -> Self {
        Self { high, recent: VecDeque::new() }
    }

    /// Records the holdings at `now`. The first reading of a life sets the mark. After that, the mark rises to the
    /// minimum held during the dwell.
    fn note(&mut self, now: u64, equity: Option<Usd>) {
        let Some(equity) = equity else { return self.recent.clear() };
        self.recent.retain(|(at, _)| *at <= now);
        self.recent.push_back((now, equity));
        let edge = now.saturating_sub(MARK_DWELL);
        while self.recent.get(1).is_some_and(|(at, _)| *at <= edge) {
            self.recent.pop_front();
        }
        let Some(high) = self.high else {
            self.high = Some(equity);
            return;
        };
        let dwelt = self.recent.front().is_some_and(|(at, _)| *at <= edge);
        if let Some(least) = self.recent.iter().map(|(_, held)| *held).min().filter(|_| dwelt) {
            self.high = Some(high.max(least));
        }
    }
}

/// Fixed terms of a life.
#[derive(Debug, Clone, Copy)]
pub struct LifeTerms {
    /// Birth, in milliseconds since the Unix epoch.
    pub born_at: u64,
    /// High-water mark from earlier runs; `None` for a new life.
    pub high_water: Option<Usd>,
    /// Lifespan in seconds; `None` for no limit.
    pub lifespan_seconds: Option<u64>,
}

impl VitalsMeter {
    /// Creates a meter for the wallet.
    ///
    /// # Errors
    /// `WALLET_NOT_CONFIGURED` without a wallet.
    pub fn new(world: Arc<ToolEnvironment>, terms: LifeTerms) -> Result<Self, ToolError> {
        let account = world.account(None)?;
        let LifeTerms { born_at, high_water, lifespan_seconds } = terms;
        let (mark, failures, gas) = (HighWaterMark::new(high_water), 0, VecDeque::new());
        Ok(Self { world, account, born_at, lifespan_seconds, mark, failures, gas })
    }

    /// Returns the policy's limit of consecutive failures, and the drawdown of its stop-loss in basis points. Without a
    /// policy nothing is signed, so the strictest values do no harm.
    fn limits(&self) -> (u32, u64) {
        let Some(rules) = self.world.rules_in_force() else { return (1, 0) };
        let caps = rules.policy().caps(Phase::Thriving, true);
        (caps.failures, u64::from(caps.stop_loss.get()))
    }

    /// Returns the policy's minimum health factor, in ten thousandths. Without a policy nothing is signed, so that only what
    /// is shown depends on it.
    pub fn least_health(&self) -> u64 {
        let rules = self.world.rules_in_force();
        let least = rules.map_or(MinFactor::DEFAULT, |rules| rules.policy().rules().min_health_factor);
        u64::from(least.ten_thousandths())
    }

    /// Reads the number of consecutive failures from the failure breaker, so that phase and breaker agree. If the
    /// ledger cannot be read, the last count stays.
    fn count_failures(&mut self) {
        let counted = self.world.rules_in_force().and_then(|rules| rules.failures().ok());
        self.failures = counted.unwrap_or(self.failures);
    }

    /// Returns the high-water mark: the highest value held throughout the dwell.
    pub fn high_water(&self) -> Option<Usd> {
        self.mark.high
    }

    /// Resets the high-water mark at the operator's request; the next reading sets a new one.
    pub fn forget_high_water(&mut self) {
        self.mark = HighWaterMark::new(None);
    }

    /// Measures the vitals at `now`, in milliseconds since the Unix epoch.
    pub async fn read(&mut self, now: u64) -> (PhaseReading, AccountValue) {
        let worth = AccountValue::read(&self.world, self.account).await;
        self.mark.note(now, worth.equity);
        self.count_failures();
        let reading = PhaseReading {
            drawdown_bps: worth.equity.zip(self.mark.high).and_then(|(equity, high)| drawdown(equity, high)),
            // Prices come only from feeds. A feed confirms no loss by what is missing: an endpoint without old events
            // hides positions, and others can give the account more of them than are read.
            feed_grade: worth.equity.is_some() && !worth.lacks_positions,
            runway: self.runway(now, worth.gas_wei),
            failures: self.failures,
            failures_limit: self.limits().0,
            age_seconds: now.saturating_sub(self.born_at) / 1_000,
            lifespan_seconds: self.lifespan_seconds,
            health: lending::health(&worth.lending, worth.lending_unread, self.least_health()),
        };
        (reading, worth)
    }

    /// Estimates how long the gas lasts at the rate of the last hour.
    fn runway(&mut self, now: u64, gas: Option<U256>) -> Runway {
        let Some(gas) = gas else { return Runway::Unknown };
        if gas.is_zero() {
            return Runway::Seconds(0);
        }
        let seconds = now / 1_000;
        self.gas.retain(|(at, _)| *at <= seconds && seconds - at <= GAS_WINDOW);
        if self.gas.len() >= SAMPLES {
            self.gas.pop_front();
        }
        self.gas.push_back((seconds, gas));
        let Some((first, _)) = self.gas.front() else { return Runway::Unused };
        let seen = seconds.saturating_sub(*first);
        // Receipts are not use: only decreases count.
        let pairs = self.gas.iter().zip(self.gas.iter().skip(1));
        let used = pairs.fold(U256::ZERO, |sum, (one, next)| sum.saturating_add(one.1.saturating_sub(next.1)));
        if seen < LEAST_SEEN || used.is_zero() {
            return Runway::Unused;
        }
        let lasts = gas.saturating_mul(U256::from(seen)).checked_div(used).unwrap_or(U256::MAX);
        Runway::Seconds(u64::try_from(lasts).unwrap_or(u64::MAX))
    }

    /// Converts the measurements to the event for observers.
    pub fn to_event(&self, machine: &PhaseMachine, reading: &PhaseReading, worth: &AccountValue) -> Vitals {
        Vitals {
            phase: machine.phase(),
            why: SafeText::clean(machine.why(), 200),
            equity: worth.equity,
            high_water: self.mark.high,
            drawdown_bps: reading.drawdown_bps,
            stop_loss_bps: self.limits().1,
            gas_runway_seconds: match reading.runway {
                Runway::Seconds(seconds) => Some(seconds),
                Runway::Unused | Runway::Unknown => None,
            },
            gas_wei: worth.gas_wei,
            failures: reading.failures,
            failures_limit: reading.failures_limit,
            age_seconds: reading.age_seconds,
            lifespan_seconds: reading.lifespan_seconds,
            lending: Some(&worth.lending)
                .filter(|_| !worth.lending_unread)
                .and_then(|all| self.lending_vitals(all, reading.health)),
        }
    }

    /// Sums of all markets for observers; `None` without supplies and debts.
    fn lending_vitals(&self, all: &[ChainLending], health: DebtHealth) -> Option<LendingVitals> {
        let sum = |of: fn(&ChainLending) -> Option<Usd>| {
            all.iter().try_fold(Usd::ZERO, |sum, one| sum.checked_add(of(one)?).ok())
        };
        let health = match health {
            DebtHealth::Factor { found, .. } => Some(found / 100),
            DebtHealth::NoDebt | DebtHealth::Unknown => None,
        };
        (!all.is_empty()).then(|| LendingVitals {
            supplied: sum(|one| one.supplied),
            owed: sum(|one| one.owed),
            health,
            least: self.least_health() / 100,
        })
    }
}

/// Returns the account's open bridge orders in this ledger; `None` if the ledger cannot be read.
fn bridges(world: &ToolEnvironment, account: Address) -> Option<Vec<(B256, CrossChainIntent)>> {
    let Some(orders) = &world.orders else { return Some(Vec::new()) };
    let own = orders.live().ok()?.into_iter().filter(|record| record.account == account);
    let bridge = own.filter_map(|record| match record.message {
        TypedMessage::CrossChainOrder { intent, .. } => Some((record.hash, *intent)),
        TypedMessage::UniswapxOrder { .. }
        | TypedMessage::Permit2Allowance { .. }
        | TypedMessage::Permit2Transfer { .. } => None,
    });
    Some(bridge.collect())
}

/// Holdings on one chain, valued by feeds. A value is `None` if a holding has no live feed.
#[derive(Debug)]
struct ChainValue {
    /// Value in the wallet and in liquidity positions, in dollars.
    value: Option<Usd>,
    /// Native tokens of the address that pays for gas, in wei: the account, an owner of a Safe, or a session key.
    gas: U256,
    /// Values locked in the chain's settler, by bridge order.
    locked: Vec<(B256, Option<Usd>)>,
    /// Bridge orders that were delivered on this chain.
    delivered: Vec<B256>,
    /// Supplies and debts in its lending market; `None` without any.
    lending: Option<ChainLending>,
    /// True if `value` lacks liquidity positions, shares of vaults or deposits in transit that count as nothing.
    lacks_positions: bool,
}

/// Settler status of a deposit that is still locked.
const LOCKED: u8 = 1;

async fn held(
    world: &ToolEnvironment,
    chain: &ConnectedChain,
    account: Address,
    bridges: &[(B256, CrossChainIntent)],
    transit: InTransit,
) -> Result<ChainValue, ToolError> {
    let network = chain.network();
    let multicall = chain.contract(KnownContract::Multicall3)?;
    let wrapped = chain.contract(KnownContract::WrappedNative)?;
    let leaving = bridges.iter().filter(|(_, intent)| intent.origin_chain_id == network.chain_id);
    let settler = network.book.contract(KnownContract::DestinationSettler);
    let arriving = bridges.iter().filter(|(_, intent)| intent.data.destinationChainId == U256::from(network.chain_id));
    let lending = lending::questions(chain, account).await?;
    let policy = world.policy();
    let vaults = vault_calls::known(network.chain_id, policy.as_ref().map(|policy| policy.rules()), &network.book);
    let payer = Some(world.signer_of(account)).filter(|payer| *payer != account);
    let push = |calls: &mut CallBatch| {
        let coin = calls.push(multicall, &IMulticall3::getEthBalanceCall { addr: account });
        let gas = payer.map(|addr| calls.push(multicall, &IMulticall3::getEthBalanceCall { addr }));
        let balance = Erc20::balanceOfCall { owner: account };
        let tokens = network.book.tokens().iter();
        let listed: Vec<_> =
            tokens.map(|token| (token.address, token.decimals, calls.push(token.address, &balance))).collect();
        let deposits = |id| OriginSettler::depositsCall { orderId: id };
        let leaving: Vec<_> =
            leaving.clone().map(|(id, intent)| (*id, calls.push(intent.origin_settler, &deposits(*id)))).collect();
        let filled = |id| DestinationSettler::filledForCall { orderId: id };
        let arriving: Vec<_> =
            arriving.clone().filter_map(|(id, _)| Some((*id, calls.push(settler?, &filled(*id))))).collect();
        let factory = network.book.contract(KnownContract::AsyncVaultFactory);
        let shares = VaultQuestions::push(calls, (account, factory), &vaults);
        ((coin, gas), listed, leaving, arriving, lending.push(account, calls), shares)
    };
    let (((coin, gas), listed, leaving, arriving, lent, shares), answers, positions) =
        with_positions(chain, account, push).await?;
    let silent =
        |what: &str| ToolError::new(ErrorCode::ChainInconsistent, format_args!("{network} does not report {what}"));
    let coin = coin.take(&answers).ok_or_else(|| silent("balances"))?;
    let coin = world.balance(network.chain_id, account, TokenId::Native, coin)?;
    let gas = gas.map_or(Ok(coin), |gas| gas.take(&answers).ok_or_else(|| silent("balances")))?;
    let mut holdings = vec![(wrapped, 18, coin, None)];
    let mut decimals_of = BTreeMap::new();
    for (token, decimals, call) in listed {
        decimals_of.insert(token, decimals);
        match call.take(&answers) {
            Some(amount) => {
                let amount = world.balance(network.chain_id, account, TokenId::Erc20(token), amount)?;
                holdings.push((token, decimals, amount, None));
            }
            // A listed token without a contract holds nothing. A contract that does not answer may hold anything.
            None if call.is_void(&answers) => {}
            None => return Err(silent(&format!("the balance of {token}"))),
        }
    }
    let mut locked = Vec::new();
    for (id, call) in leaving {
        let deposit = call.take(&answers).ok_or_else(|| silent("deposits"))?;
        if deposit.status != LOCKED || deposit.user != account {
            continue;
        }
        match decimals_of.get(&deposit.token) {
            Some(decimals) => holdings.push((deposit.token, *decimals, deposit.amount, Some(id))),
            // The decimals of an unlisted token are unknown.
            None => locked.push((id, None)),
        }
    }
    let mut delivered = Vec::new();
    for (id, call) in arriving {
        if !call.take(&answers).ok_or_else(|| silent("deliveries"))?.is_zero() {
            delivered.push(id);
        }
    }
    let mut lent = lent.take(&answers).ok_or_else(|| silent("supplies and debts"))?;
    lent.keep_listed(|token| network.book.tokens().iter().any(|one| one.address == token));
    holdings.extend(lent.supplies.iter().map(|(token, decimals, amount)| (*token, *decimals, *amount, None)));
    let (paid, held_for_others, lacks_shares) = paid_by_vaults(chain, account, shares.take(&answers)).await?;
    holdings.extend(paid.into_iter().map(|(token, decimals, amount)| (token, decimals, amount, None)));
    let (on_the_way, lacks_transit) = with_decimals(transit, &decimals_of);
    holdings.extend(on_the_way.into_iter().map(|(token, decimals, amount)| (token, decimals, amount, None)));
    holdings.retain(|(_, _, amount, _)| !amount.is_zero());
    let counted = counted_positions(chain, &positions);
    let lacks_positions = lacks_shares
        || lacks_transit
        || positions.unread > 0
        || counted.iter().any(|(state, _)| state.exit != Exit::Open);
    let of_positions = counted.iter().flat_map(|(_, tokens)| tokens.map(|(token, _)| token));
    let of_others = held_for_others.iter().map(|(token, ..)| *token);
    let tokens = holdings.iter().map(|(token, ..)| *token).chain(of_positions).chain(of_others);
    let feeds = feed_prices(chain, tokens.collect()).await;
    let mut value = in_positions(&counted, &feeds);
    for (token, decimals, amount, bridge) in &holdings {
        let price = feeds.get(token).copied().zip(TokenAmount::new(*amount, *decimals).ok());
        let worth = price.and_then(|(price, amount)| Usd::value_of(amount, price, Rounding::Down).ok());
        match bridge {
            Some(id) => locked.push((*id, worth)),
            None => value = value.zip(worth).and_then(|(sum, worth)| sum.checked_add(worth).ok()),
        }
    }
    let lending = lent.valued(chain, &feeds).await;
    let owed = lending.as_ref().map_or(Some(Usd::ZERO), |lending| lending.owed);
    let owed = owed.and_then(|owed| owed.checked_add(owed_to_others(&held_for_others, &feeds)?).ok());
    let value = value.zip(owed).map(|(value, owed)| value.checked_sub(owed).unwrap_or(Usd::ZERO));
    Ok(ChainValue { value, gas, locked, delivered, lending, lacks_positions })
}

/// Value of what belongs to the depositors of vaults that the account manages, rounded up; `None` without a price of each.
fn owed_to_others(held: &[(Address, u8, U256)], feeds: &BTreeMap<Address, Usd>) -> Option<Usd> {
    held.iter().try_fold(Usd::ZERO, |sum, (token, decimals, amount)| {
        let amount = TokenAmount::new(*amount, *decimals).ok()?;
        sum.checked_add(Usd::value_of(amount, *feeds.get(token)?, Rounding::Up).ok()?).ok()
    })
}

/// Token, decimals and amount of each deposit on its way, and whether one is missing: of an unlisted token, or of an unclear state.
fn with_decimals(transit: InTransit, decimals_of: &BTreeMap<Address, u8>) -> (Vec<(Address, u8, U256)>, bool) {
    let mut is_missing = transit.is_partial;
    let mut listed = Vec::new();
    for (token, amount) in transit.deposits {
        match decimals_of.get(&token) {
            Some(decimals) => listed.push((token, *decimals, amount)),
            None => is_missing = true,
        }
    }
    (listed, is_missing)
}

/// Dollar prices of those tokens that have a price feed.
async fn feed_prices(chain: &ConnectedChain, tokens: BTreeSet<Address>) -> BTreeMap<Address, Usd> {
    let tokens: Vec<Address> = tokens.into_iter().collect();
    let reports = chain.prices.prices(&tokens).await;
    let feeds = tokens.into_iter().zip(reports).filter_map(|(token, report)| {
        let price = report.price.filter(|price| matches!(price.source, PriceOrigin::Feed { .. }))?;
        Some((token, price.usd))
    });
    feeds.collect()
}

/// Payments for these shares in a simulation and what is owed to depositors of managed vaults, by token, and whether some of the
/// shares count as nothing.
async fn paid_by_vaults(
    chain: &ConnectedChain,
    account: Address,
    held: Vec<HeldShares>,
) -> Result<(Vec<lending::Owned>, Vec<lending::Owned>, bool), ToolError> {
    let (mut paid, mut owed, mut lacks) = (Vec::new(), Vec::new(), false);
    if held.is_empty() {
        return Ok((paid, owed, lacks));
    }
    let sources = HoldingSources::of(chain.client.agreed(), &chain.network().book);
    let Some(sources) = sources else { return Ok((paid, owed, true)) };
    let fork = chain.fork(BlockId::latest()).await?;
    for holding in redeemed(sources, &fork, account, held).await? {
        let listed = chain.network().book.token_at(holding.asset);
        lacks |= !holding.is_whole() || listed.is_none();
        if let (Ok(pays), Some(token)) = (holding.pays, listed) {
            paid.push((holding.asset, token.decimals, pays));
        }
        if !holding.owed.is_zero() {
            // What is owed in a token without a price makes the value unknown.
            let decimals = listed.map_or(0, |token| token.decimals);
            owed.push((holding.asset, decimals, holding.owed));
        }
    }
    Ok((paid, owed, lacks))
}

/// Sends a batch that `push` fills together with the questions for the account's liquidity positions, until all of them
/// are read in the batch. Nothing is counted twice then, or missing, whatever moved between wallet and position.
async fn with_positions<T>(
    chain: &ConnectedChain,
    account: Address,
    push: impl Fn(&mut CallBatch) -> T,
) -> Result<(T, BatchResults, AccountPositions), ToolError> {
    let Ok(contracts) = PositionContracts::of(chain.network()) else {
        let mut calls = CallBatch::default();
        let pushed = push(&mut calls);
        return Ok((pushed, chain.ask(calls).await?, AccountPositions::default()));
    };
    let inconsistent = |error: &dyn std::fmt::Display| {
        ToolError::new(ErrorCode::ChainInconsistent, format_args!("{}: {error}", chain.network()))
    };
    let mut question = chain.positions().question(contracts, account);
    for _ in 0..PositionKeys::most_rounds() {
        let mut calls = CallBatch::default();
        let (pushed, asked) = (push(&mut calls), question.push(&mut calls));
        let answers = chain.ask(calls).await?;
        match asked.take(chain.positions(), &answers).map_err(|error| inconsistent(&error))? {
            PositionAnswer::Whole(mut positions) => {
                let (provider, block) = chain.client.newest().await?;
                contracts.try_exits(provider, positions.states.iter_mut(), block).await;
                return Ok((pushed, answers, positions));
            }
            PositionAnswer::Unknown(missing) => {
                let (provider, block) = chain.client.newest().await?;
                let resolved = question.resolve(provider, missing, block).await;
                resolved.map_err(|error| inconsistent(&error))?;
            }
        }
    }
    Err(inconsistent(&UnreadablePositions))
}

/// Position with its tokens and their decimals.
type CountedPosition<'a> = (&'a PositionState, [(Address, u8); 2]);

/// Positions that hold something, of listed tokens only: anybody can give the account a position in tokens of their own
/// making.
fn counted_positions<'a>(chain: &ConnectedChain, positions: &'a AccountPositions) -> Vec<CountedPosition<'a>> {
    let book = &chain.network().book;
    let known = |token: TokenId| {
        let address = match token {
            // The wrapped token has its price and its decimals.
            TokenId::Native => book.contract(KnownContract::WrappedNative)?,
            TokenId::Erc20(address) => address,
        };
        let token = book.token_at(address)?;
        Some((address, token.decimals))
    };
    let held = positions.states.iter().filter(|state| !state.is_empty());
    let counted = held.filter_map(|state| {
        let [first, second] = state.key.tokens();
        Some((state, [known(first)?, known(second)?]))
    });
    counted.collect()
}

/// Value of liquidity positions at the prices of the feeds; `None` if a token has no live feed, as for a token in the
/// wallet.
fn in_positions(counted: &[CountedPosition<'_>], feeds: &BTreeMap<Address, Usd>) -> Option<Usd> {
    counted.iter().try_fold(Usd::ZERO, |sum, (state, tokens)| {
        let priced = |(token, decimals)| Some(PricedToken { usd: *feeds.get(&token)?, decimals });
        let [first, second] = *tokens;
        sum.checked_add(state.exit_value([priced(first)?, priced(second)?])?).ok()
    })
}

/// Returns the shortfall of `equity` below `high` in basis points, rounded down; zero above the mark, `None` if the
/// mark is zero. Equity can exceed the mark, because the mark rises only after the dwell.
fn drawdown(equity: Usd, high: Usd) -> Option<u64> {
    let lost = high.checked_sub(equity.min(high)).ok()?.scaled(6, Rounding::Down)?;
    let whole = high.scaled(6, Rounding::Down)?;
    u64::try_from(lost.checked_mul(10_000)?.checked_div(whole)?).ok()
}
