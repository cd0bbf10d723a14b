//! Liquidations of an account's debts, by the pool's own events: what was taken, and what debt was repaid for it.

use std::collections::BTreeMap;

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolEvent as _;

use super::{ReserveTokens, contracts};
use crate::engine::ConnectedChain;
use crate::market::logs::{LogBudget, LogQuery, PlacedLog, read_backwards};
use bardo_abi::aave::AavePool;
use bardo_base::error::ToolError;
use bardo_base::fabric::LendingLiquidated;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::token;

/// Number of newest blocks in which liquidations are looked for: a week of a chain with a block every twelve seconds.
pub const LOOKBACK_BLOCKS: u64 = 50_400;

/// Requests for logs in one reading.
const REQUESTS: u32 = 12;

/// Logs in one reading. Only events of the account are asked for.
const LOGS: usize = 1_000;

/// Liquidations of an account in a range of blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Liquidations {
    /// Liquidations, the oldest first.
    pub found: Vec<LendingLiquidated>,
    /// First block that was read.
    pub from: u64,
}

/// Reads the liquidations of an account in `first..=last`, from the end and within a bounded number of requests.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` without a lending market, `CHAIN_INCONSISTENT` for events that no pool emits, or the provider's error.
pub async fn liquidations(
    chain: &ConnectedChain,
    account: Address,
    (first, last): (u64, u64),
) -> Result<Liquidations, ToolError> {
    let pool = contracts(chain)?.pool;
    let query = LogQuery {
        addresses: vec![pool],
        events: vec![AavePool::LiquidationCall::SIGNATURE_HASH],
        first: None,
        second: None,
        third: Some(account.into_word()),
    };
    let mut budget = LogBudget::new(REQUESTS, LOGS);
    let read = read_backwards(chain, &query, (first, last), &mut budget, |_| false).await?;
    let events: Vec<(PlacedLog, AavePool::LiquidationCall)> = read
        .logs
        .into_iter()
        .filter_map(|placed| {
            let event = AavePool::LiquidationCall::decode_log(&placed.log).ok()?.data;
            (event.user == account).then_some((placed, event))
        })
        .collect();
    let tokens = tokens(chain, &events).await?;
    let found = events.iter().filter_map(|(placed, event)| described(chain, &tokens, placed, event));
    Ok(Liquidations { found: found.collect(), from: read.from })
}

/// Tokens of the events, with their decimals and prices.
async fn tokens(
    chain: &ConnectedChain,
    events: &[(PlacedLog, AavePool::LiquidationCall)],
) -> Result<ReserveTokens, ToolError> {
    let named = events.iter().flat_map(|(_, event)| [event.collateralAsset, event.debtAsset]);
    let addresses: std::collections::BTreeSet<Address> = named.collect();
    let addresses: Vec<Address> = addresses.into_iter().collect();
    if addresses.is_empty() {
        return Ok(ReserveTokens { tokens: BTreeMap::new(), prices: BTreeMap::new() });
    }
    let (infos, reports) = futures::join!(
        token::read(&addresses, chain.network(), chain.client.agreed()),
        chain.prices.prices(&addresses)
    );
    let infos = addresses.iter().copied().zip(infos?).filter_map(|(token, info)| Some((token, info.ok()?)));
    let prices = addresses.iter().copied().zip(reports.iter());
    let prices = prices.filter_map(|(token, report)| Some((token, report.price.as_ref()?.usd)));
    Ok(ReserveTokens { tokens: infos.collect(), prices: prices.collect() })
}

/// Description of an event; `None` if a token does not answer as one, which no reserve of a pool does.
fn described(
    chain: &ConnectedChain,
    tokens: &ReserveTokens,
    placed: &PlacedLog,
    event: &AavePool::LiquidationCall,
) -> Option<LendingLiquidated> {
    let amount = |token: Address, raw: U256| TokenAmount::new(raw, tokens.tokens.get(&token)?.decimals).ok();
    let value =
        |token: Address, amount: TokenAmount| Usd::value_of(amount, *tokens.prices.get(&token)?, Rounding::Down).ok();
    let taken = amount(event.collateralAsset, event.liquidatedCollateralAmount)?;
    let covered = amount(event.debtAsset, event.debtToCover)?;
    Some(LendingLiquidated {
        chain_id: chain.network().chain_id,
        block: placed.number,
        tx_hash: placed.transaction,
        log_index: placed.index,
        collateral: SafeText::clean(&tokens.symbol(event.collateralAsset), 60),
        taken,
        taken_usd: value(event.collateralAsset, taken),
        debt: SafeText::clean(&tokens.symbol(event.debtAsset), 60),
        covered,
        covered_usd: value(event.debtAsset, covered),
        liquidator: event.liquidator,
    })
}
