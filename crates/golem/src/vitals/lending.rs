//! Supplies and debts in the lending market as a part of an account's value, by live price feeds, and the security of the
//! debts as the pool computes it.

use std::collections::BTreeMap;

use alloy::primitives::{Address, U256};

use crate::phase::DebtHealth;
use bardo_abi::aave::{AaveBalance, AavePool};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::multicall::{BatchResults, CallBatch, CallIndex};
use golem_chain::price::PriceOrigin;
use golem_protocols::aave::market::{MarketContracts, MarketError};
use golem_protocols::aave::reserve::ReserveState;
use golem_tools::engine::ConnectedChain;

/// Amount of a token with its decimals, in raw units.
pub(super) type Owned = (Address, u8, U256);

/// Supplies and debts in the lending market of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainLending {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Value of the supplies of listed tokens, in dollars; `None` without a live feed of each.
    pub supplied: Option<Usd>,
    /// Value of the debts, in dollars; `None` without a live feed of each.
    pub owed: Option<Usd>,
    /// Health factor by the pool's own sums, in ten thousandths and rounded down.
    pub health: LendingHealth,
}

/// Health factor of one market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LendingHealth {
    /// Nothing is owed.
    NoDebt,
    /// Health factor in ten thousandths, rounded down.
    Factor(u64),
    /// The pool does not compute it: its oracle lacks a price.
    Unknown,
}

/// Ten thousandths of one, in the 18 decimals of a health factor.
const TEN_THOUSANDTH: u64 = 100_000_000_000_000;

/// Returns the security of an account's debts: the lowest of all markets; unknown if one is, or if one could not be read,
/// unless another is below `least`.
pub(super) fn health(markets: &[ChainLending], is_one_unread: bool, least: u64) -> DebtHealth {
    let mut lowest = DebtHealth::NoDebt;
    for health in markets.iter().map(|market| market.health).chain(is_one_unread.then_some(LendingHealth::Unknown)) {
        lowest = match (lowest, health) {
            // A market that is known to be below the minimum counts whatever the others are.
            (DebtHealth::Factor { found, .. }, LendingHealth::Unknown) if found < least => lowest,
            (DebtHealth::Unknown, LendingHealth::Factor(found)) if found < least => DebtHealth::Factor { found, least },
            (DebtHealth::Unknown, _) | (_, LendingHealth::Unknown) => DebtHealth::Unknown,
            (_, LendingHealth::NoDebt) => lowest,
            (DebtHealth::Factor { found: known, .. }, LendingHealth::Factor(found)) => {
                DebtHealth::Factor { found: found.min(known), least }
            }
            (DebtHealth::NoDebt, LendingHealth::Factor(found)) => DebtHealth::Factor { found, least },
        };
    }
    lowest
}

/// Reserves of the market, with their tokens; none for an account that does not use it.
#[derive(Debug, Default)]
pub(super) struct LendingQuestions(Option<(Address, Vec<ReserveState>)>);

/// Answers to come about what an account has supplied and owes.
#[derive(Debug, Default)]
pub(super) struct LendingCalls {
    reserves: Vec<LendingCalled>,
    sums: Option<CallIndex<AavePool::getUserAccountDataCall>>,
}

/// Questions for one reserve: its token, decimals, supply and debt.
type LendingCalled = (Address, u8, CallIndex<AaveBalance::balanceOfCall>, CallIndex<AaveBalance::balanceOfCall>);

/// Supplies and debts of an account, none of them zero.
#[derive(Debug)]
pub(super) struct LentAmounts {
    pub(super) supplies: Vec<Owned>,
    pub(super) debts: Vec<Owned>,
    health: LendingHealth,
}

/// Prepares the questions about an account's supplies and debts. None on a chain without a market, and for an account that
/// does not use it.
///
/// # Errors
/// `CHAIN_INCONSISTENT` if the market cannot be right, or the provider's error.
pub(super) async fn questions(chain: &ConnectedChain, account: Address) -> Result<LendingQuestions, ToolError> {
    let Ok(contracts) = MarketContracts::of(chain.network()) else { return Ok(LendingQuestions::default()) };
    let unreadable = |error: MarketError| match error {
        MarketError::Chain(error) => error.into(),
        MarketError::Unreadable(_) => ToolError::new(ErrorCode::ChainInconsistent, error),
    };
    let (provider, block) = chain.client.newest().await?;
    let used = chain.receipts().is_used(&contracts, provider, account, block).await;
    if used.map_err(unreadable)? != Some(true) {
        return Ok(LendingQuestions::default());
    }
    let reserves = contracts.reserves(provider, block).await.map_err(unreadable)?;
    Ok(LendingQuestions(Some((contracts.pool, reserves))))
}

impl LendingQuestions {
    /// Adds the questions to the call that reads the account's balances, so that a supply is never counted twice or not at
    /// all.
    pub(super) fn push(&self, account: Address, calls: &mut CallBatch) -> LendingCalls {
        let Some((pool, reserves)) = &self.0 else { return LendingCalls::default() };
        let sums = calls.push(*pool, &AavePool::getUserAccountDataCall { user: account });
        let called = reserves.iter().map(|one| {
            let mut of = |token| calls.push(token, &AaveBalance::balanceOfCall { user: account });
            (one.asset, one.config.decimals, of(one.a_token), of(one.debt_token))
        });
        LendingCalls { reserves: called.collect(), sums: Some(sums) }
    }
}

impl LendingCalls {
    /// Supplies and debts of the account; `None` if one was not answered.
    pub(super) fn take(&self, answers: &BatchResults) -> Option<LentAmounts> {
        let (mut supplies, mut debts) = (Vec::new(), Vec::new());
        for (asset, decimals, supply, debt) in &self.reserves {
            supplies.push((*asset, *decimals, supply.take(answers)?));
            debts.push((*asset, *decimals, debt.take(answers)?));
        }
        supplies.retain(|(.., amount)| !amount.is_zero());
        debts.retain(|(.., amount)| !amount.is_zero());
        let health = match self.sums.as_ref().map(|sums| sums.take(answers)) {
            _ if debts.is_empty() => LendingHealth::NoDebt,
            Some(Some(sums)) => LendingHealth::Factor((sums.healthFactor / U256::from(TEN_THOUSANDTH)).saturating_to()),
            Some(None) | None => LendingHealth::Unknown,
        };
        Some(LentAmounts { supplies, debts, health })
    }
}

impl LentAmounts {
    /// Drops supplies of tokens that are not listed: anybody can give an account one, and it has no value here, as a
    /// position has none. A debt is the account's own, whatever its token is.
    pub(super) fn keep_listed(&mut self, is_listed: impl Fn(Address) -> bool) {
        self.supplies.retain(|(token, ..)| is_listed(*token));
    }

    /// Values of the supplies at these prices of live feeds, and of the debts at theirs; `None` without supplies and debts.
    pub(super) async fn valued(&self, chain: &ConnectedChain, feeds: &BTreeMap<Address, Usd>) -> Option<ChainLending> {
        if self.supplies.is_empty() && self.debts.is_empty() {
            return None;
        }
        let tokens: Vec<Address> = self.debts.iter().map(|(token, ..)| *token).collect();
        let reports = chain.prices.prices(&tokens).await;
        let owing = tokens.iter().copied().zip(reports).filter_map(|(token, report)| {
            let price = report.price.filter(|price| matches!(price.source, PriceOrigin::Feed { .. }))?;
            Some((token, price.usd))
        });
        Some(ChainLending {
            chain_id: chain.network().chain_id,
            supplied: sum(&self.supplies, feeds, Rounding::Down),
            owed: sum(&self.debts, &owing.collect(), Rounding::Up),
            health: self.health,
        })
    }
}

/// Value of amounts at these prices; `None` if one has none.
fn sum(amounts: &[Owned], prices: &BTreeMap<Address, Usd>, rounding: Rounding) -> Option<Usd> {
    amounts.iter().try_fold(Usd::ZERO, |sum, (token, decimals, amount)| {
        let amount = TokenAmount::new(*amount, *decimals).ok()?;
        sum.checked_add(Usd::value_of(amount, *prices.get(token)?, rounding).ok()?).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gift would otherwise make the whole value unknown, for want of a price.
    #[test]
    fn a_gift_of_an_unlisted_supply_is_left_out_and_an_unlisted_debt_is_not() {
        let (listed, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let both = || vec![(listed, 6, U256::ONE), (other, 6, U256::ONE)];
        let mut lent = LentAmounts { supplies: both(), debts: both(), health: LendingHealth::Factor(20_000) };
        lent.keep_listed(|token| token == listed);
        assert_eq!((lent.supplies, lent.debts), (vec![(listed, 6, U256::ONE)], both()));
        let prices = BTreeMap::from([(listed, "2".parse().unwrap())]);
        assert_eq!(sum(&both(), &prices, Rounding::Down), None, "a debt without a feed makes the value unknown");
    }

    #[test]
    fn the_worst_market_decides_and_an_unknown_one_hides_no_bad_one() {
        let market = |health| ChainLending { chain_id: 1, supplied: None, owed: None, health };
        let of = |all: &[LendingHealth]| {
            let all: Vec<ChainLending> = all.iter().map(|health| market(*health)).collect();
            health(&all, false, 15_000)
        };
        let factor = |found| DebtHealth::Factor { found, least: 15_000 };
        use LendingHealth::{Factor, NoDebt, Unknown};
        for (all, expected) in [
            (vec![], DebtHealth::NoDebt),
            (vec![NoDebt, NoDebt], DebtHealth::NoDebt),
            (vec![NoDebt, Factor(20_000)], factor(20_000)),
            (vec![Factor(20_000), Factor(14_000), NoDebt], factor(14_000)),
            (vec![Factor(20_000), Unknown], DebtHealth::Unknown),
            (vec![Unknown, NoDebt], DebtHealth::Unknown),
            (vec![Unknown, Factor(14_000)], factor(14_000)),
            (vec![Factor(14_000), Unknown], factor(14_000)),
        ] {
            assert_eq!(of(&all), expected, "{all:?}");
        }
        assert_eq!(health(&[], true, 15_000), DebtHealth::Unknown);
        assert_eq!(health(&[market(Factor(20_000))], true, 15_000), DebtHealth::Unknown);
        let low = [market(Factor(14_000))];
        assert_eq!(health(&low, true, 15_000), factor(14_000), "a chain that is silent hides no bad one");
    }
}
