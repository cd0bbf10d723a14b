//! Tools that supply to the lending market, withdraw, borrow and repay, and the shared parts of all its tools: its state at
//! one block, described in whole tokens and dollars.

pub(crate) mod actions;
pub(crate) mod holding;
pub mod lending_borrow;
pub mod lending_repay;
pub mod lending_supply;
pub mod lending_withdraw;
pub mod liquidations;

pub(crate) use self::actions::LACKS_COLLATERAL;

use std::collections::{BTreeMap, BTreeSet};

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use schemars::JsonSchema;
use serde::Serialize;

use crate::blocks::{self, BlockPoint};
use crate::engine::ConnectedChain;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::token::{self, TokenInfo};
use golem_protocols::aave::market::{BASE_DECIMALS, MarketContracts, MarketError, MarketState};
use golem_protocols::aave::math::OutOfRange;
use golem_protocols::aave::position::{AccountSums, PriceMove, ReservePosition, price_moves};
use golem_protocols::aave::reserve::ReserveState;

/// Price of a token from which on the debt can be liquidated, all other prices the same.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct LiquidationPrice {
    /// Price in dollars, for sentences.
    #[serde(skip)]
    pub(crate) price: Usd,
    /// Price in dollars.
    pub(crate) price_usd: String,
    /// Fall from the market's current price in percent, rounded down; absent if the price must rise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fall_pct: Option<String>,
    /// Rise from the market's current price in percent, rounded down; absent if the price must fall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rise_pct: Option<String>,
}

impl LiquidationPrice {
    /// A price with its distance from the current one, in basis points.
    pub(crate) fn new(price: Usd, basis_points: u32, rises: bool) -> Self {
        let change = |wanted: bool| (rises == wanted).then(|| percent(basis_points));
        Self { price, price_usd: price.to_string(), fall_pct: change(false), rise_pct: change(true) }
    }
}

/// Supply and debt of an account in one reserve.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct LendingRow {
    /// Symbol of the token, as listed; otherwise its address.
    pub(crate) token: String,
    /// Supply with interest, in whole tokens.
    supplied: String,
    /// Debt with interest, in whole tokens.
    debt: String,
    /// Value of the supply in dollars at the market's price, rounded down.
    supplied_usd: String,
    /// Value of the debt in dollars at the market's price, rounded up.
    debt_usd: String,
    /// True if debts can be made against the supply.
    is_collateral: bool,
    /// Yearly rate that supplies earn, in percent.
    supply_apr_pct: String,
    /// Yearly rate that debts pay, in percent.
    borrow_apr_pct: String,
    /// Share of the supply's value at which a debt is liquidated, in percent.
    liquidation_threshold_pct: String,
    /// Price of the token by the market's own oracle, in dollars; the market liquidates by this one.
    market_price_usd: String,
    /// Price of the token by Bardo's price sources, in dollars; absent without one.
    price_usd: Option<String>,
    /// Price at which the debt can be liquidated; absent if this price alone cannot do it.
    pub(crate) liquidated_at: Option<LiquidationPrice>,
}

/// Contracts of the lending market on a chain.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` if the address book does not have one of them.
pub(crate) fn contracts(chain: &ConnectedChain) -> Result<MarketContracts, ToolError> {
    MarketContracts::of(chain.network()).map_err(|missing| {
        let what = format_args!("the address book of {} has no {}", chain.network(), missing.name());
        ToolError::new(ErrorCode::ChainUnsupported, what)
    })
}

/// Converts the error of a market's read.
pub(crate) fn unreadable(error: MarketError) -> ToolError {
    match error {
        MarketError::Chain(error) => error.into(),
        MarketError::Unreadable(_) => ToolError::new(ErrorCode::ChainInconsistent, error),
    }
}

/// Error for figures of an endpoint that no market can have.
pub(crate) fn impossible(error: OutOfRange) -> ToolError {
    ToolError::new(ErrorCode::ChainInconsistent, error)
}

/// Newest block on which the endpoints agree, and the market's state with the account's position there.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` without the contracts, `CHAIN_INCONSISTENT` if they cannot be right, or the provider's error.
pub(crate) async fn read(chain: &ConnectedChain, account: Address) -> Result<(BlockPoint, MarketState), ToolError> {
    let contracts = contracts(chain)?;
    let head = blocks::newest(chain).await?;
    let state = contracts.state(chain.client.agreed(), account, BlockId::hash(head.hash)).await;
    Ok((head, state.map_err(unreadable)?))
}

/// Tokens of reserves, with the prices of Bardo's own sources.
pub(crate) struct ReserveTokens {
    tokens: BTreeMap<Address, TokenInfo>,
    prices: BTreeMap<Address, Usd>,
}

impl ReserveTokens {
    /// Reads the tokens of these reserves and their prices, in one round trip.
    ///
    /// # Errors
    /// The provider's error.
    pub(crate) async fn read(
        chain: &ConnectedChain,
        reserves: impl Iterator<Item = ReserveState>,
    ) -> Result<Self, ToolError> {
        let addresses: BTreeSet<Address> = reserves.map(|one| one.asset).collect();
        let addresses: Vec<Address> = addresses.into_iter().collect();
        let (infos, reports) = futures::join!(
            token::read(&addresses, chain.network(), chain.client.agreed()),
            chain.prices.prices(&addresses)
        );
        let infos = addresses.iter().copied().zip(infos?).filter_map(|(token, info)| Some((token, info.ok()?)));
        let prices = addresses.iter().copied().zip(reports.iter());
        let prices = prices.filter_map(|(token, report)| Some((token, report.price.as_ref()?.usd)));
        Ok(Self { tokens: infos.collect(), prices: prices.collect() })
    }

    /// True for a token of the address book.
    fn is_listed(&self, asset: Address) -> bool {
        self.tokens.get(&asset).is_some_and(|info| info.listed)
    }

    /// Symbol of a listed token, or the address of any other.
    pub(crate) fn symbol(&self, asset: Address) -> String {
        let listed = self.tokens.get(&asset).filter(|info| info.listed);
        listed.map_or_else(|| asset.to_string(), |info| info.symbol.to_string())
    }

    /// Price of a token by Bardo's own sources, in dollars.
    pub(crate) fn price(&self, asset: Address) -> Option<String> {
        self.prices.get(&asset).map(Usd::to_string)
    }

    /// Description of an account's position in a reserve; `found` is the change of its price that liquidates the debt.
    ///
    /// # Errors
    /// `CHAIN_INCONSISTENT` for figures that no market can have.
    pub(crate) fn row(&self, one: &ReservePosition, found: Option<PriceMove>) -> Result<LendingRow, ToolError> {
        let reserve = &one.reserve;
        Ok(LendingRow {
            token: self.symbol(reserve.asset),
            supplied: whole(reserve, one.supplied)?,
            debt: whole(reserve, one.debt)?,
            supplied_usd: value(reserve, one.supplied, Rounding::Down)?.to_string(),
            debt_usd: value(reserve, one.debt, Rounding::Up)?.to_string(),
            is_collateral: one.is_collateral,
            supply_apr_pct: rate(reserve.supply_rate)?,
            borrow_apr_pct: rate(reserve.debt_rate)?,
            liquidation_threshold_pct: percent(reserve.config.threshold),
            market_price_usd: base(reserve.price)?.to_string(),
            price_usd: self.price(reserve.asset),
            liquidated_at: found.map(liquidation_price).transpose()?,
        })
    }
}

fn liquidation_price(found: PriceMove) -> Result<LiquidationPrice, ToolError> {
    Ok(LiquidationPrice::new(base(found.price)?, found.basis_points, found.rises))
}

/// Changes of single prices that liquidate a debt, in the order of the positions; none for an account in a category, whose
/// thresholds are not the reserves'.
///
/// # Errors
/// `CHAIN_INCONSISTENT` for figures that no market can have.
pub(crate) fn moves(state: &MarketState) -> Result<Vec<Option<PriceMove>>, ToolError> {
    if state.category != 0 {
        return Ok(vec![None; state.positions.len()]);
    }
    price_moves(&state.positions).map_err(impossible)
}

/// Amount of a reserve in whole tokens.
///
/// # Errors
/// `VALIDATION_FAILED` for impossible decimals.
pub(crate) fn whole(reserve: &ReserveState, raw: U256) -> Result<String, ToolError> {
    Ok(TokenAmount::new(raw, reserve.config.decimals)?.to_string())
}

/// The account's sums.
///
/// # Errors
/// `CHAIN_INCONSISTENT` while the market's oracle has no price of one of the account's tokens.
pub(crate) fn sums(state: &MarketState) -> Result<&AccountSums, ToolError> {
    state.sums.as_ref().ok_or_else(|| {
        let what = "the lending market has no price of one of the account's tokens, so that its health is unknown";
        ToolError::new(ErrorCode::ChainInconsistent, what).suggest("Repaying works without that price.")
    })
}

/// Dollars of a sum in the market's base currency.
///
/// # Errors
/// `CHAIN_INCONSISTENT` for a sum that no market can have.
pub(crate) fn base(sum: U256) -> Result<Usd, ToolError> {
    Usd::from_scaled(sum, BASE_DECIMALS).map_err(|_| impossible(OutOfRange))
}

/// Value of an amount of a reserve in dollars, at the market's price.
///
/// # Errors
/// `CHAIN_INCONSISTENT` for figures that no market can have.
pub(crate) fn value(reserve: &ReserveState, raw: U256, rounding: Rounding) -> Result<Usd, ToolError> {
    let amount = TokenAmount::new(raw, reserve.config.decimals)?;
    Usd::value_of(amount, base(reserve.price)?, rounding).map_err(|_| impossible(OutOfRange))
}

/// Yearly rate in percent with four decimals, of a ray.
///
/// # Errors
/// `CHAIN_INCONSISTENT` for a rate that no market can have.
pub(crate) fn rate(ray: U256) -> Result<String, ToolError> {
    // A ray has 27 decimals; in percent and with four decimals, 21 of them go.
    let shortened = ray / U256::from(10).pow(U256::from(21));
    TokenAmount::new(shortened, 4).map(|rate| rate.to_string()).map_err(|_| impossible(OutOfRange))
}

/// Share in percent, of basis points.
pub(crate) fn percent(basis_points: u32) -> String {
    let (whole, part) = (basis_points / 100, basis_points % 100);
    if part == 0 { whole.to_string() } else { format!("{whole}.{part:02}").trim_end_matches('0').to_owned() }
}

/// Health factor as the pool has it, with 18 decimals; `None` without debt.
///
/// # Errors
/// `CHAIN_INCONSISTENT` for a number that no market can have.
pub(crate) fn health(factor: U256) -> Result<Option<String>, ToolError> {
    if factor == U256::MAX {
        return Ok(None);
    }
    TokenAmount::new(factor, 18).map(|factor| Some(factor.to_string())).map_err(|_| impossible(OutOfRange))
}
