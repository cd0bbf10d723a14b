//! Quotes of V4 pools compared with the protocol's own quoter, on a populated chain.

use std::collections::BTreeSet;

use alloy::eips::BlockId;
use alloy::primitives::{B256, Bytes, U256, keccak256};
use alloy::providers::Provider as _;
use alloy::sol_types::SolValue as _;
use bardo::abi::uniswap_v4::{PoolKey, V4Quoter};
use bardo::sandbox::plan::{PoolHook, SandboxToken};
use bardo::uniswap::discovery::{PoolReader, TickReach};
use bardo::uniswap::pool::{FixedAmount, PoolError};
use bardo::uniswap::pool_id::PoolId;
use bardo::uniswap::v4::V4Pool;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::quotes::Fixture;

/// Slot of the pool manager's mapping of pools (`StateLibrary` of v4-core).
const POOLS_SLOT: u64 = 6;

impl Fixture {
    fn keys(&self) -> Vec<PoolKey> {
        self.deployment.v4_pools.iter().map(|pool| pool.key).collect()
    }

    /// The open side according to the protocol's quoter; `None` where it reverts, as it does for a partial fill.
    async fn quoter(&self, key: &PoolKey, zero_for_one: bool, exact: FixedAmount) -> Option<U256> {
        let params = |amount: U256| V4Quoter::QuoteExactSingleParams {
            poolKey: *key,
            zeroForOne: zero_for_one,
            exactAmount: amount.to(),
            hookData: Bytes::new(),
        };
        match exact {
            FixedAmount::In(amount) => {
                let call = V4Quoter::quoteExactInputSingleCall { params: params(amount) };
                Some(self.ask("v4Quoter", call).await?.amountOut)
            }
            FixedAmount::Out(amount) => {
                let call = V4Quoter::quoteExactOutputSingleCall { params: params(amount) };
                Some(self.ask("v4Quoter", call).await?.amountIn)
            }
        }
    }

    /// Writes the protocol's fees into a pool's first slot: price (160 bits), tick (24), the fees of selling currency 0
    /// and currency 1 (12 each), and the liquidity providers' fee.
    async fn set_protocol_fees(&self, id: B256, selling_0: u64, selling_1: u64) {
        let manager = self.deployment.contracts["v4PoolManager"];
        let slot: B256 = keccak256((id, U256::from(POOLS_SLOT)).abi_encode());
        let held = self.provider.get_storage_at(manager, slot.into()).await.unwrap();
        let fees: U256 = U256::from(selling_0 | selling_1 << 12) << 184;
        let all: U256 = U256::from(0xff_ffff_u64) << 184;
        let cleared = held & !all;
        let value = B256::from(cleared | fees);
        let _done: serde_json::Value =
            self.provider.raw_request("anvil_setStorageAt".into(), (manager, slot, value)).await.unwrap();
        self.devnet.mine().await.unwrap();
    }
}

/// From a millionth of the pool's depth to thirty times it, on a logarithmic scale.
fn draw(random: &mut ChaCha8Rng, pool: &V4Pool, zero_for_one: bool) -> FixedAmount {
    let paying = random.random();
    let depth = pool.virtual_reserve(zero_for_one == paying);
    let scaled = depth * U256::from(30u64 * 1_000_000 / (1u64 << random.random_range(0..25))) / U256::from(1_000_000);
    let amount = scaled * U256::from(random.random_range(500_000u64..1_000_000)) / U256::from(1_000_000);
    let amount = amount.max(U256::from(1));
    if paying { FixedAmount::In(amount) } else { FixedAmount::Out(amount) }
}

async fn pools(reader: &PoolReader, keys: &[PoolKey], reach: TickReach) -> Vec<V4Pool> {
    reader.keyed_pools(keys, BlockId::latest(), reach).await.unwrap().pools
}

/// Compares `draws` random swaps; returns how many were filled and how many refused.
async fn compare(fixture: &Fixture, pools: &[V4Pool], random: &mut ChaCha8Rng, draws: usize) -> (usize, usize) {
    let (mut filled, mut refused) = (0, 0);
    for at in 0..draws {
        let pool = &pools[random.random_range(0..pools.len())];
        let zero_for_one = random.random();
        let exact = draw(random, pool, zero_for_one);
        let quoted = fixture.quoter(pool.key(), zero_for_one, exact).await;
        match pool.quote(zero_for_one, exact) {
            Ok(quote) => {
                let open = match exact {
                    FixedAmount::In(_) => quote.amount_out,
                    FixedAmount::Out(_) => quote.amount_in,
                };
                assert_eq!(quoted, Some(open), "{at}: {exact:?} {zero_for_one} in {:?}", pool.key());
                filled += 1;
            }
            Err(PoolError::InsufficientLiquidity { .. }) => {
                assert_eq!(quoted, None, "{at}: {exact:?} {zero_for_one} in {:?}", pool.key());
                refused += 1;
            }
            Err(other) => panic!("{at}: {other}"),
        }
    }
    (filled, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v4_quotes_equal_the_quoter_to_the_wei() {
    let fixture = Fixture::new();
    let reader = fixture.reader();
    let plain: Vec<PoolKey> = fixture.keys().into_iter().filter(|key| key.hooks.is_zero()).collect();
    let mut random = ChaCha8Rng::seed_from_u64(26);
    let whole = pools(&reader, &plain, TickReach::Whole).await;
    assert_eq!(whole.len(), plain.len());
    let (filled, refused) = compare(&fixture, &whole, &mut random, 900).await;
    assert!(filled >= 600 && refused >= 30, "{filled} filled, {refused} refused");
    // The ticks near the price give the same quotes as far as they reach.
    let near = pools(&reader, &plain, TickReach::Near).await;
    for _ in 0..100 {
        let at = random.random_range(0..near.len());
        let zero_for_one = random.random();
        let exact = draw(&mut random, &near[at], zero_for_one);
        if let Ok(quote) = near[at].quote(zero_for_one, exact) {
            assert_eq!(whole[at].quote(zero_for_one, exact), Ok(quote));
        }
    }
    // With the protocol's fee, another one for each direction.
    for pool in &whole {
        let PoolId::Keyed(id) = pool.id() else { panic!("a V4 pool without a key") };
        fixture.set_protocol_fees(id, random.random_range(1..=1_000), random.random_range(1..=1_000)).await;
    }
    let taxed = pools(&reader, &plain, TickReach::Whole).await;
    for (pool, before) in taxed.iter().zip(&whole) {
        assert!([true, false].iter().all(|down| pool.fee(*down) > before.fee(*down)), "{pool:?}");
    }
    let (filled, refused) = compare(&fixture, &taxed, &mut random, 400).await;
    assert!(filled >= 250 && refused >= 10, "{filled} filled, {refused} refused");
}

/// Two parts of one sale give what the quoter says for the whole, up to the rounding of one more step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_v4_pool_after_a_swap_continues_where_it_ended() {
    let fixture = Fixture::new();
    let plain: Vec<PoolKey> = fixture.keys().into_iter().filter(|key| key.hooks.is_zero()).collect();
    for pool in pools(&fixture.reader(), &plain, TickReach::Whole).await {
        for zero_for_one in [true, false] {
            let part = pool.virtual_reserve(zero_for_one) / U256::from(50);
            let (first, after) = pool.after(zero_for_one, FixedAmount::In(part)).unwrap();
            let second = after.quote(zero_for_one, FixedAmount::In(part)).unwrap();
            let both = FixedAmount::In(part * U256::from(2));
            let whole = fixture.quoter(pool.key(), zero_for_one, both).await.unwrap();
            let parts = first.amount_out + second.amount_out;
            // The fee of each part is rounded to a unit of the input.
            let unit = whole / both.amount() + U256::from(1);
            assert!(whole.abs_diff(parts) <= unit * U256::from(2), "{whole} {parts}");
        }
    }
}

/// The usual keys of all pairs find exactly the pools without a hook; the other ones are named with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v4_pools_are_found_by_their_keys_and_hooks_in_swaps_refused() {
    let fixture = Fixture::new();
    let reader = fixture.reader();
    let tokens = fixture.good_tokens();
    let mut keys = Vec::new();
    for (at, a) in tokens.iter().enumerate() {
        keys.extend(tokens[at + 1..].iter().flat_map(|b| reader.usual_keys(*a, *b)));
    }
    let found: BTreeSet<PoolId> = pools(&reader, &keys, TickReach::Near).await.iter().map(V4Pool::id).collect();
    let deployed = &fixture.deployment.v4_pools;
    let listed = deployed.iter().filter(|pool| pool.key.hooks.is_zero()).map(|pool| PoolId::Keyed(pool.id));
    assert_eq!(found, listed.collect());
    assert!(found.len() >= 4);

    let read = reader.keyed_pools(&fixture.keys(), BlockId::latest(), TickReach::Near).await.unwrap();
    let refused: BTreeSet<PoolId> = read
        .refused
        .iter()
        .map(|error| match error {
            PoolError::Unsupported { pool, what: "its hook takes part in swaps" } => *pool,
            other => panic!("{other}"),
        })
        .collect();
    let hooked = deployed.iter().filter(|pool| !pool.key.hooks.is_zero()).map(|pool| PoolId::Keyed(pool.id));
    assert_eq!(refused, hooked.collect());
    for hook in [PoolHook::SwapCount, PoolHook::SwapTax] {
        assert!(deployed.iter().any(|pool| pool.key.hooks == fixture.deployment.contracts[hook.key()]));
    }
    let (weth, usdc) = (fixture.deployment.tokens[&SandboxToken::Weth], fixture.deployment.tokens[&SandboxToken::Usdc]);
    // Four fees, for the native token and for its wrapped token.
    assert_eq!(reader.usual_keys(weth, usdc).len(), 8);
    assert_eq!(reader.usual_keys(usdc, fixture.deployment.tokens[&SandboxToken::Usdt]).len(), 4);
}
