//! The keeper: writes what the market holds things to be worth into the price feeds, when it has moved enough or
//! long enough has passed, and throws the feeds' fault switches when told to.
//!
//! Not here: reading a feed (see `chain::price`).

use alloy::primitives::aliases::I192;
use alloy::primitives::{Address, U256, keccak256};
use alloy::sol_types::{SolCall, SolValue};

use super::cast::{Order, Role};
use super::genesis::Deployment;
use super::target::{Asset, PriceE8, Prices};
use bardo_abi::feed::{FeedKeeper, PriceFeed};
use golem_chain::devnet::State;

/// A feed is written at least this often, in seconds.
pub const HEARTBEAT_SECONDS: u64 = 300;

/// A feed is written when the price is this far from it, in parts per million.
pub const DEVIATION_PARTS_PER_MILLION: u128 = 1_000;

/// Slots of `PriceFeed.sol`: fault and round number share one, the rounds are a mapping.
const ROUND_SLOT: u64 = 1;
const ROUNDS_SLOT: u64 = 3;

/// What is wrong with a feed's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedFault {
    /// Nothing.
    None,
    /// It drops what is written: answer and time stay as they were.
    Frozen,
    /// It answers this, eight decimals, as if just written. May be zero or negative.
    Forced(i128),
    /// Reading it reverts.
    Broken,
}

/// What a feed holds, whatever it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Written {
    answer: U256,
    updated_at: u64,
}

/// One transaction that writes every feed that is due at `timestamp`, if any is. `silent` are the feeds whose
/// heartbeat has been stopped.
pub fn orders(
    deployment: &Deployment,
    state: &State,
    timestamp: u64,
    prices: &Prices,
    silent: impl Fn(Asset) -> bool,
) -> Option<Order> {
    let (mut feeds, mut answers) = (Vec::new(), Vec::new());
    for (&asset, &feed) in &deployment.feeds {
        let price = prices.of(asset);
        if !silent(asset) && is_due(written(state, feed), price, timestamp) {
            feeds.push(feed);
            answers.push(I192::try_from(price).unwrap_or(I192::MAX));
        }
    }
    if feeds.is_empty() {
        return None;
    }
    let gas = 100_000 + 120_000 * u64::try_from(feeds.len()).unwrap_or(u64::MAX);
    let call = FeedKeeper::pushCall { feeds, answers }.abi_encode();
    Some(Order::call(Role::Keeper, deployment.feed_keeper, call, gas, "writing the price feeds"))
}

/// The transaction that throws a feed's fault switch.
pub fn fault_order(deployment: &Deployment, asset: Asset, fault: FeedFault) -> Option<Order> {
    let feed = *deployment.feeds.get(&asset)?;
    let (switch, answer) = match fault {
        FeedFault::None => (PriceFeed::Fault::None, 0),
        FeedFault::Frozen => (PriceFeed::Fault::Frozen, 0),
        FeedFault::Forced(answer) => (PriceFeed::Fault::Forced, answer),
        FeedFault::Broken => (PriceFeed::Fault::Broken, 0),
    };
    let forced = I192::try_from(answer).unwrap_or(I192::ZERO);
    let call = FeedKeeper::setFaultCall { feed, fault: switch as u8, forcedAnswer: forced }.abi_encode();
    Some(Order::call(Role::Keeper, deployment.feed_keeper, call, 150_000, "a price feed's fault switch"))
}

fn is_due(written: Written, price: PriceE8, timestamp: u64) -> bool {
    let moved = U256::from(price).abs_diff(written.answer) * U256::from(1_000_000);
    timestamp.saturating_sub(written.updated_at) >= HEARTBEAT_SECONDS
        || moved >= written.answer * U256::from(DEVIATION_PARTS_PER_MILLION)
}

fn written(state: &State, feed: Address) -> Written {
    let round = (state.storage_at(feed, U256::from(ROUND_SLOT)) >> 8_usize) & ((U256::ONE << 80_usize) - U256::ONE);
    let slot = keccak256((round, U256::from(ROUNDS_SLOT)).abi_encode());
    let word = state.storage_at(feed, slot.into());
    Written { answer: word & ((U256::ONE << 192_usize) - U256::ONE), updated_at: (word >> 192_usize).saturating_to() }
}
