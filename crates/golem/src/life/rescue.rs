//! Repayment of a debt whose health factor has fallen below the policy's minimum: proposed at a heartbeat, like any other
//! action of the Golem, so that the whole pipeline and the operator's decisions stand before it.
//!
//! One repayment at a time, of one debt, and only with what the wallet has of its token. The pause between two attempts
//! doubles, so that a repayment that does not help, or cannot be done, is not tried without end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256, U512};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::EventOutput;
use crate::agent_api::AgentSession;
use crate::brain::operator;
use crate::vitals::{ChainLending, LendingHealth};
use bardo_abi::erc20::Erc20;
use bardo_base::clock::{Clock, ClockParticipation};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{EventKind, GolemThought, health_factor};
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_protocols::aave::market::{MarketContracts, MarketState};
use golem_protocols::aave::math::percent_mul;
use golem_tools::engine::{CallStatus, ConnectedChain, ToolEnvironment};

/// Shortest pause between two attempts on a chain, in milliseconds.
const FIRST_PAUSE: u64 = 10_000;

/// Longest pause between two attempts on a chain, in milliseconds.
const LONGEST_PAUSE: u64 = 1_800_000;

/// Pause until the next look for something to repay with, in milliseconds.
const EMPTY_PAUSE: u64 = 30_000;

/// Health factor that a repayment aims for, in percent of the policy's minimum: above the point where the phase recovers.
const AIM: u64 = 110;

/// Least value of a repayment that does not reach its aim, in the market's base currency: a dollar.
const LEAST_VALUE: u64 = 100_000_000;

/// Ten thousandths of one, in the 18 decimals of a health factor.
const TEN_THOUSANDTH: u64 = 100_000_000_000_000;

/// Lending markets of which one has a health factor below the minimum, found at one heartbeat. It holds simulated time
/// until they have been handled.
pub(super) struct LowHealth {
    /// Markets of the account.
    pub(super) markets: Vec<ChainLending>,
    /// Minimum of the policy, in ten thousandths.
    pub(super) least: u64,
    /// Participation in the simulated clock, which waits for it until this is dropped.
    pub(super) attendance: ClockParticipation,
}

/// Sender of low health factors. A heartbeat while a repayment is under way sends nothing.
#[derive(Debug, Clone)]
pub(super) struct RescueBell {
    sender: mpsc::Sender<LowHealth>,
    busy: Arc<AtomicBool>,
}

impl RescueBell {
    /// Reports markets of which one is below the minimum.
    pub(super) fn ring(&self, low: LowHealth) {
        if !self.busy.swap(true, Ordering::SeqCst) && self.sender.try_send(low).is_err() {
            self.busy.store(false, Ordering::SeqCst);
        }
    }
}

/// Returns true if a market is below the minimum, in ten thousandths.
pub(super) fn is_low(markets: &[ChainLending], least: u64) -> bool {
    markets.iter().any(|market| low(market, least).is_some())
}

/// Health factor of a market that is below the minimum, in ten thousandths.
fn low(market: &ChainLending, least: u64) -> Option<u64> {
    match market.health {
        LendingHealth::Factor(found) if found < least => Some(found),
        LendingHealth::Factor(_) | LendingHealth::NoDebt | LendingHealth::Unknown => None,
    }
}

/// Attempts on one chain since its health factor fell.
#[derive(Debug, Default, Clone, Copy)]
struct Attempts {
    made: u32,
    /// Earliest time of the next one, on the clock's steady scale.
    next: u64,
    /// True if the Golem has said that it has nothing to repay with.
    said_empty: bool,
}

impl Attempts {
    /// Pause after an attempt, which doubles each time.
    fn pause(&mut self) -> u64 {
        let pause = FIRST_PAUSE.saturating_mul(1_u64.checked_shl(self.made).unwrap_or(u64::MAX)).min(LONGEST_PAUSE);
        self.made = self.made.saturating_add(1).min(32);
        pause
    }
}

/// Repays debts whose health factor is too low.
pub(super) struct Rescuer {
    agent: AgentSession,
    world: Arc<ToolEnvironment>,
    voice: EventOutput,
    stop: watch::Receiver<Option<StopLevel>>,
    leaving: watch::Receiver<bool>,
    clock: Arc<dyn Clock>,
    heard: mpsc::Receiver<LowHealth>,
    busy: Arc<AtomicBool>,
    attempts: BTreeMap<u64, Attempts>,
}

impl Rescuer {
    /// Creates the rescuer of a life, with its bell.
    pub(super) fn new(
        agent: AgentSession,
        world: Arc<ToolEnvironment>,
        voice: EventOutput,
        stop: watch::Receiver<Option<StopLevel>>,
        leaving: watch::Receiver<bool>,
        clock: Arc<dyn Clock>,
    ) -> (Self, RescueBell) {
        let (sender, heard) = mpsc::channel(1);
        let busy = Arc::new(AtomicBool::new(false));
        let bell = RescueBell { sender, busy: Arc::clone(&busy) };
        let attempts = BTreeMap::new();
        (Self { agent, world, voice, stop, leaving, clock, heard, busy, attempts }, bell)
    }

    /// Acts on each low health factor until the life ends.
    pub(super) async fn follow(mut self) {
        while let Some(LowHealth { markets, least, attendance }) = self.heard.recv().await {
            self.attempts.retain(|chain_id, _| {
                markets.iter().any(|market| market.chain_id == *chain_id && low(market, least).is_some())
            });
            for market in &markets {
                if let Some(found) = low(market, least)
                    && !self.is_held()
                {
                    self.rescue(market.chain_id, found, least).await;
                }
            }
            self.busy.store(false, Ordering::SeqCst);
            drop(attendance);
        }
    }

    /// True while the Golem must begin nothing. Exits pass under the other stops.
    fn is_held(&self) -> bool {
        *self.leaving.borrow()
            || matches!(*self.stop.borrow(), Some(StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke))
            || self.agent.has_stopped_itself()
    }

    /// Proposes a repayment on a chain, unless the last attempt was a short while ago.
    async fn rescue(&mut self, chain_id: u64, found: u64, least: u64) {
        let now = self.clock.steady_millis();
        let mut attempts = self.attempts.get(&chain_id).copied().unwrap_or_default();
        if now < attempts.next {
            return;
        }
        let pause = match self.attempt(chain_id, [found, least], &mut attempts).await {
            Ok(pause) => pause,
            Err(error) => {
                tracing::warn!(chain_id, %error, "cannot prepare a repayment");
                attempts.pause()
            }
        };
        attempts.next = self.clock.steady_millis().saturating_add(pause);
        self.attempts.insert(chain_id, attempts);
    }

    /// Makes one attempt, and returns the pause until the next one.
    async fn attempt(&self, chain_id: u64, factors: [u64; 2], attempts: &mut Attempts) -> Result<u64, ToolError> {
        let chain = self.world.chain(&chain_id.to_string())?;
        let name = &chain.network().name;
        let [found, least] = factors.map(|factor| health_factor(Some(factor / 100)));
        let state = market(chain, self.world.account(None)?).await?;
        // Repaid since by somebody else, or saved by the price.
        if state.sums.is_some_and(|sums| sums.health / U256::from(TEN_THOUSANDTH) >= U256::from(factors[1])) {
            return Ok(0);
        }
        let (free, bound) = self.free(chain, &state).await?;
        let Some(repayment) = repayment(&state, &free, factors[1]) else {
            // An order at an absurd price must not keep the Golem from its rescue.
            if let Some(order) = self.own_order(chain.network().chain_id, state.account, &bound)? {
                self.think(&format!(
                    "My health factor on {name} is {found}, below the minimum of {least}: I cancel my order {order}, which \
                     binds what I owe."
                ));
                let asked = json!({"kind": "cancel-order", "params": {"order_hash": order}, "why": "to repay a debt"});
                // Whoever places it again has it cancelled more and more rarely.
                operator::act(&self.agent, asked).await;
                return Ok(attempts.pause());
            }
            if !attempts.said_empty {
                attempts.said_empty = true;
                let symbols = |tokens: Vec<Address>| {
                    let named = tokens.into_iter().map(|token| chain.network().book.symbol_at(token));
                    named.collect::<Vec<_>>().join(", ")
                };
                let why = match bound.is_empty() {
                    true => {
                        let owed = debts(&state).map(|one| one.reserve.asset).collect();
                        format!("I hold nothing of what I owe ({}) to repay with", symbols(owed))
                    }
                    false => format!("open orders bind what I hold of {}: cancel them to repay", symbols(bound)),
                };
                self.think(&format!(
                    "My health factor on {name} is {found}, below the minimum of {least}, and {why}. Below 1 anybody may \
                     liquidate the debt."
                ));
            }
            return Ok(EMPTY_PAUSE);
        };
        let token = chain.network().book.symbol_at(repayment.asset);
        let amount = match &repayment.amount {
            None => "max".to_owned(),
            Some(amount) => amount.to_string(),
        };
        let whole = if amount == "max" { "all that I owe".to_owned() } else { amount.clone() };
        let why = format!("my health factor on {name} is {found}, below the minimum of {least}");
        self.think(&format!("I repay {whole} {token}: {why}."));
        let params = json!({"token": token, "amount": amount, "chain": chain_id.to_string()});
        let asked = json!({"kind": "lending-repay", "params": params, "why": why});
        let (response, _) = operator::act(&self.agent, asked).await;
        if let Some(error) = &response.error {
            self.think(&format!("It was not repaid: {}", error.message()));
        }
        // The brain's calls have used up those of this minute, which says nothing about the repayment.
        if response.error.as_ref().is_some_and(|error| error.code() == ErrorCode::SafetyRateLimited) {
            return Ok(FIRST_PAUSE);
        }
        Ok(match response.status {
            // Rejected or lapsed: the operator is not asked again soon.
            CallStatus::Rejected => LONGEST_PAUSE,
            CallStatus::Success
            | CallStatus::Partial
            | CallStatus::Simulated
            | CallStatus::Blocked
            | CallStatus::Error => attempts.pause(),
        })
    }

    /// An open order of this Golem's that may take one of these tokens on a chain. Those of the operator stay.
    fn own_order(&self, chain_id: u64, account: Address, tokens: &[Address]) -> Result<Option<B256>, ToolError> {
        let Some(orders) = &self.world.orders else { return Ok(None) };
        let own = self.agent.golem_id();
        let order = orders.live()?.into_iter().find(|order| {
            order.chain_id == chain_id
                && order.account == account
                && order.golem_id == *own
                && order.message.takes().iter().any(|takes| tokens.contains(&takes.token))
        });
        Ok(order.map(|order| order.hash))
    }

    /// Balances of the wallet in what it owes, as far as no open order may take them, and the tokens of which one may.
    async fn free(
        &self,
        chain: &ConnectedChain,
        state: &MarketState,
    ) -> Result<(BTreeMap<Address, U256>, Vec<Address>), ToolError> {
        let mut calls = CallBatch::default();
        let asked: Vec<_> = debts(state)
            .map(|one| {
                let asset = one.reserve.asset;
                (asset, calls.push(asset, &Erc20::balanceOfCall { owner: state.account }))
            })
            .collect();
        let answers = chain.ask(calls).await?;
        let book = &chain.network().book;
        let (mut free, mut bound) = (BTreeMap::new(), Vec::new());
        for (asset, call) in asked {
            let unread = || {
                let what = format_args!("the token {} does not report the balance", book.symbol_at(asset));
                ToolError::new(ErrorCode::ChainInconsistent, what)
            };
            let held = call.take(&answers).ok_or_else(unread)?;
            let promised = self.world.promised(chain.network().chain_id, state.account, asset)?;
            free.insert(asset, held.saturating_sub(promised));
            if !held.min(promised).is_zero() {
                bound.push(asset);
            }
        }
        Ok((free, bound))
    }

    fn think(&self, text: &str) {
        let text = SafeText::clean(text, 400);
        self.voice.emit(EventKind::GolemThought(GolemThought { thought: 0, text, more: false, report: false }));
    }
}

/// Positions that owe something.
fn debts(state: &MarketState) -> impl Iterator<Item = &golem_protocols::aave::position::ReservePosition> {
    state.positions.iter().filter(|one| !one.debt.is_zero())
}

/// State of the chain's market with the account's position.
async fn market(chain: &ConnectedChain, account: Address) -> Result<MarketState, ToolError> {
    let contracts = MarketContracts::of(chain.network()).map_err(|missing: KnownContract| {
        ToolError::new(ErrorCode::ChainUnsupported, format_args!("the address book has no {}", missing.name()))
    })?;
    let (provider, block): (_, BlockId) = chain.client.newest().await?;
    let state = contracts.state(provider, account, block).await;
    state.map_err(|error| ToolError::new(ErrorCode::ChainInconsistent, error))
}

/// Repayment that raises the health factor.
#[derive(Debug, PartialEq, Eq)]
struct Repayment {
    asset: Address,
    /// Amount; `None` for the whole debt.
    amount: Option<TokenAmount>,
}

/// Returns the repayment that raises the health factor most towards its aim: what is needed, or as much as the wallet has
/// free of the debt's token. `None` without the pool's sums, and if nothing worth its gas can be repaid. `least` is the
/// policy's minimum in ten thousandths.
///
/// From collateral · threshold / debt = aim: the debt that may stay is the weighted collateral divided by the aim.
fn repayment(state: &MarketState, free: &BTreeMap<Address, U256>, least: u64) -> Option<Repayment> {
    let sums = state.sums.as_ref()?;
    let weighted = percent_mul(sums.collateral, sums.threshold).ok()?;
    let aim = U256::from(least.saturating_mul(AIM) / 100);
    let may_stay = weighted.checked_mul(U256::from(10_000))?.checked_div(aim)?;
    let needed = sums.debt.saturating_sub(may_stay);
    let candidates = debts(state).filter_map(|one| {
        let unit = U256::from(10).checked_pow(U256::from(one.reserve.config.decimals))?;
        let price = one.reserve.price;
        let held = free.get(&one.reserve.asset).copied().unwrap_or_default().min(one.debt);
        // Rounded up, so that the aim is reached.
        let wanted = (U512::from(needed) * U512::from(unit)).checked_add(U512::from(price))?;
        let wanted = wanted.checked_sub(U512::from(1))?.checked_div(U512::from(price))?;
        let enough = U512::from(held) >= wanted;
        let paid = if enough { U256::from(wanted) } else { held };
        let value = paid.checked_mul(price)?.checked_div(unit)?;
        if paid.is_zero() || !enough && value < U256::from(LEAST_VALUE) {
            return None;
        }
        let amount = TokenAmount::new(paid, one.reserve.config.decimals).ok()?;
        let amount = (paid < one.debt).then_some(amount);
        Some((value, Repayment { asset: one.reserve.asset, amount }))
    });
    // The first of several equal ones.
    let best = candidates.reduce(|best, one| if one.0 > best.0 { one } else { best });
    best.map(|(_, repayment)| repayment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use golem_protocols::aave::math::RAY;
    use golem_protocols::aave::position::{AccountSums, ReservePosition};
    use golem_protocols::aave::reserve::{ReserveConfig, ReserveState};

    const ETHER: Address = Address::repeat_byte(1);
    const DOLLAR: Address = Address::repeat_byte(2);
    const COIN: Address = Address::repeat_byte(3);

    fn position(asset: Address, decimals: u8, price: u64, [supplied, debt]: [u64; 2]) -> ReservePosition {
        let unit = U256::from(10).pow(U256::from(decimals - 2));
        let config = ReserveConfig { ltv: 8_000, threshold: 8_300, decimals, ..ReserveConfig::decode(U256::ZERO) };
        let reserve = ReserveState {
            asset,
            id: 0,
            config,
            a_token: Address::ZERO,
            debt_token: Address::ZERO,
            liquidity_index: RAY,
            debt_index: RAY,
            supply_rate: U256::ZERO,
            debt_rate: U256::ZERO,
            updated: 0,
            price: U256::from(price) * U256::from(100_000_000),
        };
        let [supplied, debt] = [supplied, debt].map(|hundredths| U256::from(hundredths) * unit);
        ReservePosition { reserve, supplied, debt, is_collateral: true }
    }

    /// Amounts in hundredths of whole tokens: what is repaid of which token.
    fn repaid(positions: Vec<ReservePosition>, free: &[(Address, u8, u64)]) -> Option<(Address, Option<String>)> {
        let sums = AccountSums::of(&positions).ok();
        let (account, oracle) = (Address::ZERO, Address::ZERO);
        let state = MarketState { account, positions, sums, category: 0, rewards: vec![], oracle };
        let free = free.iter().map(|(token, decimals, hundredths)| {
            (*token, U256::from(*hundredths) * U256::from(10).pow(U256::from(decimals - 2)))
        });
        let found = repayment(&state, &free.collect(), 15_000)?;
        Some((found.asset, found.amount.map(|amount| amount.to_string())))
    }

    /// By hand: an ether at $3,000 and 83 % carries $2,490. At the aim of 1.65 it carries a debt of 2,490 / 1.65 = $1,509.09
    /// (rounded down), so of $1,800 (factor 1.38) 290.909091 are repaid.
    #[test]
    fn as_much_as_is_needed_is_repaid_and_as_much_as_is_there() {
        let ether = || position(ETHER, 18, 3_000, [100, 0]);
        let owed = || position(DOLLAR, 6, 1, [0, 180_000]);
        let all = |hundredths| [(DOLLAR, 6, hundredths)];
        let some = |text: &str| Some((DOLLAR, Some(text.to_owned())));
        assert_eq!(repaid(vec![ether(), owed()], &all(500_000)), some("290.909091"));
        assert_eq!(repaid(vec![ether(), owed()], &all(10_000)), some("100"), "what the wallet has");
        assert_eq!(repaid(vec![ether(), owed()], &all(99)), None, "not worth its gas");
        assert_eq!(repaid(vec![ether(), owed()], &[]), None, "nothing of the token");
        // Two debts: the one of which more can be repaid. $200 in coins of $20 are all that is owed in them.
        let coins = || position(COIN, 18, 20, [0, 1_000]);
        let both = [(DOLLAR, 6, 15_000), (COIN, 18, 10_000)];
        assert_eq!(repaid(vec![ether(), owed(), coins()], &both), Some((COIN, None)), "the whole debt");
        // A debt that the market has no price of cannot be aimed at.
        let unpriced = ReservePosition { reserve: ReserveState { price: U256::ZERO, ..owed().reserve }, ..owed() };
        assert_eq!(repaid(vec![ether(), unpriced], &all(500_000)), None);
    }

    #[test]
    fn attempts_become_rarer() {
        let mut attempts = Attempts::default();
        let pauses: Vec<u64> = (0..10).map(|_| attempts.pause() / 1_000).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1_280, 1_800, 1_800]);
        attempts.made = 32;
        assert_eq!(attempts.pause(), LONGEST_PAUSE);
    }

    #[test]
    fn only_a_known_factor_below_the_minimum_is_low() {
        let market = |health| ChainLending { chain_id: 1, supplied: None, owed: None, health };
        for (health, expected) in [
            (LendingHealth::Factor(14_999), true),
            (LendingHealth::Factor(15_000), false),
            (LendingHealth::NoDebt, false),
            (LendingHealth::Unknown, false),
        ] {
            assert_eq!(is_low(&[market(health)], 15_000), expected, "{health:?}");
        }
    }
}
