//! Price keeper: writes the market's prices to the price feeds after a sufficient change or time, and sets the feeds'
//! fault switches.
//!
//! Not here: reading of feeds (see `chain::price`).

use alloy::primitives::aliases::I192;
use alloy::primitives::{Address, U256, keccak256};
use alloy::sol_types::{SolCall, SolValue};

use super::actors::{ActorRole, ActorTransaction};
use super::genesis::Deployment;
use super::target::{AssetPrices, PriceE8, PricedAsset};
use bardo_abi::feed::{FeedKeeper, PriceFeed};
use golem_chain::devnet::WorldState;

/// Maximum interval between two updates of a feed, in seconds.
pub const HEARTBEAT_SECONDS: u64 = 300;

/// Price deviation at which a feed is updated, in parts per million.
pub const DEVIATION_PARTS_PER_MILLION: u128 = 1_000;

/// Storage layout of `PriceFeed.sol`: fault and round number share a slot, the rounds are a mapping.
const ROUND_SLOT: u64 = 1;
const ROUNDS_SLOT: u64 = 3;

/// Fault mode of a feed contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedFault {
    /// No fault; the feed works normally.
    None,
    /// Updates are ignored: answer and time stay unchanged.
    Frozen,
    /// The feed returns this answer with eight decimals and the current time. It may be zero or negative.
    Forced(i128),
    /// Reads of the feed revert.
    Broken,
}

/// Stored values of a feed, independent of its fault mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StoredFeed {
    answer: U256,
    updated_at: u64,
}

/// Creates one transaction that updates all feeds that are due at `timestamp`; `None` if there are none. `silent`
/// returns true for feeds whose updates are stopped.
pub fn orders(
    deployment: &Deployment,
    state: &WorldState,
    timestamp: u64,
    prices: &AssetPrices,
    silent: impl Fn(PricedAsset) -> bool,
) -> Option<ActorTransaction> {
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
    Some(ActorTransaction::call(ActorRole::Keeper, deployment.feed_keeper, call, gas, "writing the price feeds"))
}

/// Creates the transaction that sets a feed's fault switch; `None` if the asset has no feed.
pub fn fault_order(deployment: &Deployment, asset: PricedAsset, fault: FeedFault) -> Option<ActorTransaction> {
    let feed = *deployment.feeds.get(&asset)?;
    let (switch, answer) = match fault {
        FeedFault::None => (PriceFeed::Fault::None, 0),
        FeedFault::Frozen => (PriceFeed::Fault::Frozen, 0),
        FeedFault::Forced(answer) => (PriceFeed::Fault::Forced, answer),
        FeedFault::Broken => (PriceFeed::Fault::Broken, 0),
    };
    let forced = I192::try_from(answer).unwrap_or(I192::ZERO);
    let call = FeedKeeper::setFaultCall { feed, fault: switch as u8, forcedAnswer: forced }.abi_encode();
    Some(ActorTransaction::call(
        ActorRole::Keeper,
        deployment.feed_keeper,
        call,
        150_000,
        "setting a price feed's fault",
    ))
}

fn is_due(written: StoredFeed, price: PriceE8, timestamp: u64) -> bool {
    let moved = U256::from(price).abs_diff(written.answer) * U256::from(1_000_000);
    timestamp.saturating_sub(written.updated_at) >= HEARTBEAT_SECONDS
        || moved >= written.answer * U256::from(DEVIATION_PARTS_PER_MILLION)
}

fn written(state: &WorldState, feed: Address) -> StoredFeed {
    let round = (state.storage_at(feed, U256::from(ROUND_SLOT)) >> 8_usize) & ((U256::ONE << 80_usize) - U256::ONE);
    let slot = keccak256((round, U256::from(ROUNDS_SLOT)).abi_encode());
    let word = state.storage_at(feed, slot.into());
    StoredFeed {
        answer: word & ((U256::ONE << 192_usize) - U256::ONE),
        updated_at: (word >> 192_usize).saturating_to(),
    }
}
