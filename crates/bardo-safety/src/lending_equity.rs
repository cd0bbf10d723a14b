//! Supplies and debts of an account in the lending market as a part of its equity.
//!
//! Without them a supply would look like a loss, and a debt like a gain.

use alloy::eips::BlockId;

use crate::chain_snapshot::SnapshotReader;
use crate::check_inputs::Portfolio;
use crate::proposal::ProposalIntent;
use crate::signing_payload::SigningPayload;
use crate::value::{PriceSpreads, UnknownValue};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::token::TokenId;
use golem_protocols::aave::market::{MarketContracts, MarketState};

/// Reads the account's supplies and debts at `block`. `None` where the network has no market, and without supplies and
/// debts, unless the payload changes them.
///
/// # Errors
/// [`UnknownValue`] if the market cannot be read.
pub async fn market(
    reader: &SnapshotReader,
    payload: &SigningPayload,
    block: BlockId,
) -> Result<Option<MarketState>, UnknownValue> {
    let Ok(contracts) = MarketContracts::of(reader.network()) else { return Ok(None) };
    let (provider, account) = (reader.client.agreed(), payload.account());
    let lends = payload.proposal().intent == ProposalIntent::Lending;
    let used = reader.receipts.is_used(&contracts, provider, account, block).await.map_err(UnknownValue::because)?;
    match used {
        None => Ok(None),
        Some(false) if !lends => Ok(None),
        Some(_) => contracts.state(provider, account, block).await.map(Some).map_err(UnknownValue::because),
    }
}

/// Adds supplies to a portfolio and subtracts debts, at the prices that its holdings have. A supply without a price counts
/// as nothing, like such a holding. Where the debts are worth more than everything else, the equity is zero.
///
/// # Errors
/// [`UnknownValue`] if the market could not be read, a debt has no price, or a sum is out of range.
pub fn with(
    mut portfolio: Portfolio,
    market: &Result<Option<MarketState>, UnknownValue>,
    spreads: &PriceSpreads,
) -> Result<Portfolio, UnknownValue> {
    let Some(market) = market.as_ref().map_err(Clone::clone)? else { return Ok(portfolio) };
    let mut owed = Usd::ZERO;
    for one in &market.positions {
        let value = |raw, rounding| {
            let spread = spreads.get(TokenId::Erc20(one.reserve.asset))?;
            let amount = TokenAmount::new(raw, one.reserve.config.decimals).map_err(UnknownValue::because)?;
            let usd = Usd::value_of(amount, spread.held(), rounding).map_err(UnknownValue::because)?;
            Ok::<_, UnknownValue>((usd, spread.feed.is_some()))
        };
        if !one.supplied.is_zero()
            && let Ok((usd, fed)) = value(one.supplied, Rounding::Down)
        {
            let sum = if fed { &mut portfolio.equity } else { &mut portfolio.by_pools };
            *sum = sum.checked_add(usd).map_err(UnknownValue::because)?;
            // A limit on one holding counts what is supplied, at the price that it counts the wallet at.
            let spread = spreads.get(TokenId::Erc20(one.reserve.asset))?;
            let amount = TokenAmount::new(one.supplied, one.reserve.config.decimals).map_err(UnknownValue::because)?;
            let most = Usd::value_of(amount, spread.all.highest, Rounding::Up).map_err(UnknownValue::because)?;
            let held = portfolio.in_positions.entry(TokenId::Erc20(one.reserve.asset)).or_default();
            *held = held.checked_add(most).map_err(UnknownValue::because)?;
        }
        if !one.debt.is_zero() {
            owed = owed.checked_add(value(one.debt, Rounding::Up)?.0).map_err(UnknownValue::because)?;
        }
    }
    portfolio.equity = portfolio.equity.checked_sub(owed).unwrap_or(Usd::ZERO);
    Ok(portfolio)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, U256};

    use super::*;
    use crate::value::PriceSpread;
    use golem_protocols::aave::math::RAY;
    use golem_protocols::aave::position::{AccountSums, ReservePosition};
    use golem_protocols::aave::reserve::{ReserveConfig, ReserveState};

    const ETHER: Address = Address::repeat_byte(1);
    const DOLLAR: Address = Address::repeat_byte(2);

    fn position(asset: Address, decimals: u8, [supplied, debt]: [u64; 2]) -> ReservePosition {
        let unit = U256::from(10).pow(U256::from(decimals));
        let reserve = ReserveState {
            asset,
            id: 0,
            config: ReserveConfig { decimals, ..ReserveConfig::decode(U256::ZERO) },
            a_token: Address::ZERO,
            debt_token: Address::ZERO,
            liquidity_index: RAY,
            debt_index: RAY,
            supply_rate: U256::ZERO,
            debt_rate: U256::ZERO,
            updated: 0,
            // Not the price that counts.
            price: U256::from(7),
        };
        let [supplied, debt] = [supplied, debt].map(|whole| U256::from(whole) * unit);
        ReservePosition { reserve, supplied, debt, is_collateral: true }
    }

    fn equity(prices: &[(Address, &str)], positions: Vec<ReservePosition>) -> Option<String> {
        let of = prices.iter().map(|(token, price)| (*token, Ok(PriceSpread::fed(price.parse().unwrap()))));
        let spreads = PriceSpreads { of: of.collect(), wrapped: None };
        let sums = AccountSums::of(&positions).ok();
        let (account, oracle) = (Address::ZERO, Address::ZERO);
        let state = MarketState { account, positions, sums, category: 0, rewards: vec![], oracle };
        let held = Portfolio { equity: "100".parse().unwrap(), ..Portfolio::default() };
        with(held, &Ok(Some(state)), &spreads).ok().map(|portfolio| portfolio.equity.to_fixed(2, Rounding::Down))
    }

    /// By hand: $100 held, two ether at $3,400 supplied, $5,000 owed.
    #[test]
    fn supplies_count_and_debts_are_subtracted() {
        let prices = [(ETHER, "3400"), (DOLLAR, "1")];
        let both = || vec![position(ETHER, 18, [2, 0]), position(DOLLAR, 6, [0, 5_000])];
        assert_eq!(equity(&prices, both()).as_deref(), Some("1900.00"));
        assert_eq!(equity(&prices, vec![position(DOLLAR, 6, [0, 5_000])]).as_deref(), Some("0.00"), "never below zero");
        assert_eq!(equity(&prices[1..], both()).as_deref(), Some("0.00"), "a supply without a price is nothing");
        assert_eq!(equity(&prices[..1], both()), None, "a debt without a price is unknown");
        let unread = Err(UnknownValue::because("silence"));
        assert!(with(Portfolio::default(), &unread, &PriceSpreads::default()).is_err());
        let none = with(Portfolio::default(), &Ok(None), &PriceSpreads::default()).unwrap();
        assert_eq!(none, Portfolio::default());
    }
}
