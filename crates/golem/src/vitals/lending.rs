//! Supplies and debts in the lending market as a part of an account's value, by live price feeds.

use alloy::primitives::{Address, U256};

use bardo_abi::aave::AaveBalance;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::multicall::{BatchResults, CallBatch, CallIndex};
use golem_chain::price::PriceOrigin;
use golem_protocols::aave::market::{MarketContracts, MarketError};
use golem_protocols::aave::reserve::ReserveState;
use golem_tools::engine::ConnectedChain;

/// Amount of a token with its decimals, in raw units.
pub(super) type Owned = (Address, u8, U256);

/// Reserves of the market, with their tokens; none for an account that does not use it.
#[derive(Debug, Default)]
pub(super) struct LendingQuestions(Vec<ReserveState>);

/// Answers to come about what an account has supplied and owes.
#[derive(Debug, Default)]
pub(super) struct LendingCalls(Vec<LendingCalled>);

/// Questions for one reserve: its token, decimals, supply and debt.
type LendingCalled = (Address, u8, CallIndex<AaveBalance::balanceOfCall>, CallIndex<AaveBalance::balanceOfCall>);

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
    if contracts.is_used(provider, account, block).await.map_err(unreadable)? != Some(true) {
        return Ok(LendingQuestions::default());
    }
    Ok(LendingQuestions(contracts.reserves(provider, block).await.map_err(unreadable)?))
}

impl LendingQuestions {
    /// Adds the questions to the call that reads the account's balances, so that a supply is never counted twice or not at
    /// all.
    pub(super) fn push(&self, account: Address, calls: &mut CallBatch) -> LendingCalls {
        let called = self.0.iter().map(|one| {
            let mut of = |token| calls.push(token, &AaveBalance::balanceOfCall { user: account });
            (one.asset, one.config.decimals, of(one.a_token), of(one.debt_token))
        });
        LendingCalls(called.collect())
    }
}

impl LendingCalls {
    /// Supplies and debts of the account; `None` if one was not answered.
    pub(super) fn take(&self, answers: &BatchResults) -> Option<(Vec<Owned>, Vec<Owned>)> {
        let (mut supplies, mut debts) = (Vec::new(), Vec::new());
        for (asset, decimals, supply, debt) in &self.0 {
            supplies.push((*asset, *decimals, supply.take(answers)?));
            debts.push((*asset, *decimals, debt.take(answers)?));
        }
        debts.retain(|(.., amount)| !amount.is_zero());
        Some((supplies, debts))
    }
}

/// Value less these debts, zero where they are worth more; `None` if a debt has no live feed.
pub(super) async fn less(chain: &ConnectedChain, value: Option<Usd>, debts: &[Owned]) -> Option<Usd> {
    let tokens: Vec<Address> = debts.iter().map(|(token, ..)| *token).collect();
    let reports = chain.prices.prices(&tokens).await;
    let mut owed = Usd::ZERO;
    for ((_, decimals, amount), report) in debts.iter().zip(reports) {
        let price = report.price.filter(|price| matches!(price.source, PriceOrigin::Feed { .. }))?;
        let amount = TokenAmount::new(*amount, *decimals).ok()?;
        owed = owed.checked_add(Usd::value_of(amount, price.usd, Rounding::Up).ok()?).ok()?;
    }
    value.map(|value| value.checked_sub(owed).unwrap_or(Usd::ZERO))
}
