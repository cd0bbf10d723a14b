//! Gas of transactions in the native token and in dollars, from what the console knows already.

use alloy_primitives::U256;
use rust_decimal::{Decimal, RoundingStrategy};

use super::ScreenContext;
use crate::format::grouped;
use crate::widgets::figure::amount;
use bardo_base::units::TokenAmount;
use bardo_session::handle::HoldingRow;

/// Gas of an order's cancellation. It invalidates one nonce in Permit2 (`invalidateUnorderedNonces`): 45,937 by its
/// receipt, if it is the first of its 256 nonces, and less otherwise.
const CANCELLATION_GAS: u64 = 46_000;

/// Value of an amount of native token in dollars, at the price implied by the held balance. `None` without a price.
pub(super) fn worth_of(coins: &str, held: &HoldingRow) -> Option<String> {
    let (coins, amount): (Decimal, Decimal) = (coins.parse().ok()?, held.amount.to_string().parse().ok()?);
    let worth = coins.checked_mul(held.value?.decimal())?.checked_div(amount)?;
    let cents = worth.round_dp_with_strategy(2, RoundingStrategy::AwayFromZero);
    Some(format!("${}", grouped(&format!("{cents:.2}"))))
}

/// Estimated cost of an order's cancellation on a chain at its present base fee; says so if that is unknown.
pub(super) fn cancellation_cost(known: &ScreenContext<'_>, chain_id: Option<u64>) -> String {
    let unknown = || "an unknown amount: the base fee is not known".to_owned();
    let Some((chain_id, fee)) = chain_id.and_then(|id| Some((id, base_fee(known, id)?))) else { return unknown() };
    let Some(wei) = U256::from(fee).checked_mul(U256::from(CANCELLATION_GAS)) else { return unknown() };
    let coins = TokenAmount::ether(wei).to_string();
    let chain = known.snapshot.and_then(|snapshot| snapshot.holdings.iter().find(|one| one.chain_id == chain_id));
    let worth = chain.and_then(|chain| chain.rows.first()).and_then(|coin| worth_of(&coins, coin));
    let worth = worth.map(|dollars| format!(" ({dollars})")).unwrap_or_default();
    let symbol = known.native_symbol(chain_id).map_or("native token", |symbol| symbol.as_str());
    format!("about {} {symbol}{worth} at the present base fee", amount(&coins))
}

/// Base fee of a chain in wei per unit of gas: that of the next block, or else of the newest one.
fn base_fee(known: &ScreenContext<'_>, chain_id: u64) -> Option<u128> {
    let state = known.snapshot.and_then(|snapshot| snapshot.transactions.as_ref());
    let next = state.and_then(|state| state.chains.iter().find(|one| one.chain_id == chain_id)?.base_fee);
    let newest = || {
        let at = known.page.network.as_ref()?.chains.iter().position(|one| one.id == chain_id)?;
        Some(known.page.chains.get(at)?.blocks.front()?.base_fee_wei)
    };
    next.map(u128::from).or_else(newest)
}

/// Id of the chain with this name; `None` if the session has none.
pub(super) fn chain_named(known: &ScreenContext<'_>, name: &str) -> Option<u64> {
    let network = known.page.network.as_ref()?;
    network.chains.iter().find(|one| one.name.as_str() == name).map(|one| one.id)
}
