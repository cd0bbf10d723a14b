//! Supplies and debts of an account as a part of its holdings, at the prices of Bardo's own sources.

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ReserveTokens, health, unreadable, whole};
use crate::engine::ConnectedChain;
use bardo_base::error::ToolError;
use bardo_base::fabric::health_factor;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_protocols::aave::market::{MarketContracts, MarketState};
use golem_protocols::aave::position::ReservePosition;

/// Supplies and debts of an account in the lending market of a chain.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HeldLending {
    /// Name of the chain.
    chain: String,
    /// Supplies with interest, one per token.
    supplies: Vec<LentAmount>,
    /// Debts with interest, one per token.
    debts: Vec<LentAmount>,
    /// Value of the supplies in dollars, without those that have none.
    supplied_usd: String,
    /// Value of the debts in dollars, without those that have none.
    debt_usd: String,
    /// Supplies less debts in dollars, with a minus sign where the debts are worth more.
    net_usd: String,
    /// Health factor by the pool with 18 decimals; absent without debt, and while the pool's oracle lacks a price.
    health_factor: Option<String>,
    #[serde(skip)]
    pub(crate) supplied: Usd,
    #[serde(skip)]
    pub(crate) owed: Usd,
    #[serde(skip)]
    pub(crate) health_hundredths: Option<u64>,
    /// True if everything has a value.
    #[serde(skip)]
    pub(crate) all_priced: bool,
}

/// Amount that is supplied or owed.
#[derive(Debug, Serialize, JsonSchema)]
struct LentAmount {
    /// Symbol of the token, as listed; otherwise its address.
    token: String,
    /// Amount in whole tokens.
    amount: String,
    /// Value in dollars; absent without a price, and for a supply of an unlisted token, which anybody can give an account.
    value_usd: Option<String>,
}

impl HeldLending {
    /// Describes the security of the debts, such as `Health factor 1.62 on ethereum`; `None` without debt.
    pub(crate) fn security(&self) -> Option<String> {
        if self.debts.is_empty() {
            return None;
        }
        Some(match self.health_hundredths {
            Some(hundredths) => format!("Health factor {} on {}", health_factor(Some(hundredths)), self.chain),
            None => format!("Health factor unknown on {}", self.chain),
        })
    }
}

/// Supplies and debts of an account at a block; `None` on a chain without a market, and without any.
///
/// # Errors
/// `CHAIN_INCONSISTENT` if the market cannot be right, or the provider's error.
pub(crate) async fn held_lending(
    chain: &ConnectedChain,
    account: Address,
    block: u64,
) -> Result<Option<HeldLending>, ToolError> {
    let Ok(contracts) = MarketContracts::of(chain.network()) else { return Ok(None) };
    let (provider, block) = (chain.client.agreed(), BlockId::number(block));
    let used = chain.receipts().is_used(&contracts, provider, account, block).await;
    if used.map_err(unreadable)? != Some(true) {
        return Ok(None);
    }
    let state = contracts.state(provider, account, block).await.map_err(unreadable)?;
    let held = || state.positions.iter().filter(|one| !one.is_empty());
    let tokens = ReserveTokens::read(chain, held().map(|one| one.reserve)).await?;
    held_in(chain.network().name.clone(), &state, &tokens).map(Some)
}

fn held_in(chain: String, state: &MarketState, tokens: &ReserveTokens) -> Result<HeldLending, ToolError> {
    let (mut supplied, mut owed, mut all_priced) = (Usd::ZERO, Usd::ZERO, true);
    let mut list = |raw: fn(&ReservePosition) -> U256, rounding: Rounding, sum: &mut Usd, counts: bool| {
        let held = state.positions.iter().filter(|one| !raw(one).is_zero());
        let rows = held.map(|one| {
            let reserve = &one.reserve;
            let amount = TokenAmount::new(raw(one), reserve.config.decimals)?;
            let price = tokens.prices.get(&reserve.asset).filter(|_| counts || tokens.is_listed(reserve.asset));
            let value = price.and_then(|price| Usd::value_of(amount, *price, rounding).ok());
            let added = value.and_then(|value| sum.checked_add(value).ok());
            all_priced &= added.is_some();
            *sum = added.unwrap_or(*sum);
            Ok(LentAmount {
                token: tokens.symbol(reserve.asset),
                amount: whole(reserve, raw(one))?,
                value_usd: value.map(|usd| usd.to_string()),
            })
        });
        rows.collect::<Result<Vec<_>, ToolError>>()
    };
    let supplies = list(|one| one.supplied, Rounding::Down, &mut supplied, false)?;
    let debts = list(|one| one.debt, Rounding::Up, &mut owed, true)?;
    let net = match supplied.checked_sub(owed) {
        Ok(net) => net.to_string(),
        Err(_) => format!("-{}", owed.checked_sub(supplied).unwrap_or(Usd::ZERO)),
    };
    let sums = state.sums.as_ref();
    Ok(HeldLending {
        chain,
        supplies,
        debts,
        supplied_usd: supplied.to_string(),
        debt_usd: owed.to_string(),
        net_usd: net,
        health_factor: sums.map(|sums| health(sums.health)).transpose()?.flatten(),
        supplied,
        owed,
        health_hundredths: sums.and_then(|sums| sums.health_hundredths()),
        all_priced,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use bardo_base::text::SafeText;
    use golem_chain::token::{TokenId, TokenInfo};
    use golem_protocols::aave::math::RAY;
    use golem_protocols::aave::position::AccountSums;
    use golem_protocols::aave::reserve::{ReserveConfig, ReserveState};

    const LISTED: Address = Address::repeat_byte(1);
    const OTHER: Address = Address::repeat_byte(2);

    fn position(asset: Address, [supplied, debt]: [u64; 2]) -> ReservePosition {
        let reserve = ReserveState {
            asset,
            id: 0,
            config: ReserveConfig { decimals: 6, threshold: 8_000, ..ReserveConfig::decode(U256::ZERO) },
            a_token: Address::ZERO,
            debt_token: Address::ZERO,
            liquidity_index: RAY,
            debt_index: RAY,
            supply_rate: U256::ZERO,
            debt_rate: U256::ZERO,
            updated: 0,
            price: U256::from(100_000_000),
        };
        let [supplied, debt] = [supplied, debt].map(|whole| U256::from(whole) * U256::from(1_000_000));
        ReservePosition { reserve, supplied, debt, is_collateral: true }
    }

    fn held(positions: Vec<ReservePosition>) -> HeldLending {
        let info = |address, listed| TokenInfo {
            id: TokenId::Erc20(address),
            symbol: SafeText::clean("USDC", 8),
            name: SafeText::default(),
            decimals: 6,
            listed,
        };
        let tokens = ReserveTokens {
            tokens: BTreeMap::from([(LISTED, info(LISTED, true)), (OTHER, info(OTHER, false))]),
            prices: [LISTED, OTHER].map(|token| (token, "2".parse().unwrap())).into(),
        };
        let sums = AccountSums::of(&positions).ok();
        let (account, oracle) = (Address::ZERO, Address::ZERO);
        let state = MarketState { account, positions, sums, category: 0, rewards: vec![], oracle };
        held_in("ethereum".to_owned(), &state, &tokens).unwrap()
    }

    /// By hand, at $2 each: 100 supplied are $200, 30 owed are $60.
    #[test]
    fn supplies_count_and_debts_are_subtracted() {
        let found = held(vec![position(LISTED, [100, 0]), position(OTHER, [0, 30])]);
        assert_eq!([&*found.supplied_usd, &found.debt_usd, &found.net_usd], ["200", "60", "140"]);
        assert!(found.all_priced, "a debt in an unlisted token is the account's own: {found:?}");
        let found = held(vec![position(LISTED, [10, 30])]);
        assert_eq!(found.net_usd, "-40", "more owed than supplied");
        assert_eq!(found.security().as_deref(), Some("Health factor 0.26 on ethereum"), "10 · 0.8 / 30");
    }

    #[test]
    fn a_gift_of_an_unlisted_supply_has_no_value() {
        let found = held(vec![position(LISTED, [100, 0]), position(OTHER, [1_000_000, 0])]);
        assert_eq!((&*found.supplied_usd, found.all_priced), ("200", false), "{found:?}");
        assert_eq!(
            found.supplies[1].token,
            OTHER.to_string(),
            "by its address, not by the symbol that it gives itself"
        );
        assert_eq!(found.security(), None);
    }
}
