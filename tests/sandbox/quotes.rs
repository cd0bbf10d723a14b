//! Bardo's own quotes, routes and pool prices compared with the protocols' contracts, on a populated chain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::primitives::{Address, B256, Bytes, TxKind, U160, U256};
use alloy::providers::{DynProvider, Provider};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use bardo::abi::uniswap_v2::UniswapV2Router02;
use bardo::abi::uniswap_v3::QuoterV2;
use bardo::base::clock::SystemClock;
use bardo::base::units::Usd;
use bardo::chain::devnet::{Devnet, MiningMode, RunningConfig};
use bardo::chain::network::{AddressBook, BookToken, DEVNET_ETHEREUM, Network};
use bardo::chain::price::{FeedPrices, NoPrice, Price, PriceOrigin, PriceSource, feed_specs};
use bardo::sandbox::genesis::Deployment;
use bardo::sandbox::plan::{ETHEREUM, SandboxToken};
use bardo::sandbox::target::PricedAsset;
use bardo::uniswap::discovery::{DiscoveryError, PoolReader, TickReach};
use bardo::uniswap::pool::{FixedAmount, Pool, PoolError, ProtocolVersion};
use bardo::uniswap::pool_id::PoolId;
use bardo::uniswap::ratio::Ratio;
use bardo::uniswap::routing::{GasCost, Route, RouteError, RouteRequest};
use bardo::uniswap::twap::{TwapPrices, TwapRules};
use bardo::uniswap::v3::tick_math::{MAX_SQRT_PRICE, MIN_SQRT_PRICE};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::world::World;

/// A populated chain without new blocks, and readers for it.
pub(crate) struct Fixture {
    pub(crate) devnet: Devnet,
    pub(crate) provider: DynProvider,
    network: Network,
    pub(crate) deployment: Arc<Deployment>,
    usd: BTreeMap<PricedAsset, f64>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let world = World::new(&ETHEREUM);
        let deployment = Arc::clone(world.background_actors.deployment());
        let usd = PricedAsset::FED.into_iter().map(|asset| (asset, world.price(asset))).collect();
        let running = RunningConfig { mining: MiningMode::Manual, clock: None, hook: None };
        let devnet = Devnet::adopt(world.chain, running).unwrap();
        let mut book = AddressBook::default();
        for (name, address) in &deployment.contracts {
            book.set(name, *address);
        }
        for (token, address) in deployment.tokens.iter().filter(|(token, _)| !token.is_bad()) {
            let plan = token.plan();
            let (symbol, name) = (plan.key.to_owned(), plan.name.to_owned());
            book.set_token(BookToken { symbol, name, decimals: plan.decimals, address: *address });
        }
        for (asset, address) in &deployment.feeds {
            let pair = format!("{} / USD", asset.ticker());
            book.set_feed(bardo::chain::network::PriceFeed { pair, address: *address, decimals: 8 });
        }
        let provider = devnet.provider();
        let network = Network::devnet("ethereum", DEVNET_ETHEREUM, book);
        Self { devnet, provider, network, deployment, usd }
    }

    pub(crate) fn reader(&self) -> PoolReader {
        PoolReader::new(self.provider.clone(), &self.network).unwrap()
    }

    pub(crate) fn good_tokens(&self) -> Vec<Address> {
        let tokens = self.deployment.tokens.iter();
        tokens.filter(|(token, _)| !token.is_bad()).map(|(_, address)| *address).collect()
    }

    fn token(&self, token: SandboxToken) -> Address {
        self.deployment.tokens[&token]
    }

    pub(crate) async fn ask<C: SolCall>(&self, contract: &str, call: C) -> Option<C::Return> {
        let request = TransactionRequest {
            to: Some(TxKind::Call(self.deployment.contracts[contract])),
            input: Bytes::from(call.abi_encode()).into(),
            ..Default::default()
        };
        let output = self.provider.call(request).await.ok()?;
        Some(C::abi_decode_returns(&output).unwrap())
    }

    /// The open side according to the protocol's lens for pools of one version, and whether all was filled.
    async fn lens(&self, path: &[Pool], tokens: &[Address], exact: FixedAmount) -> Option<(U256, bool)> {
        if path[0].version() == ProtocolVersion::V2 {
            let path = tokens.to_vec();
            let amounts = match exact {
                FixedAmount::In(amount) => {
                    let call = UniswapV2Router02::getAmountsOutCall { amountIn: amount, path };
                    *self.ask("v2Router", call).await?.last().unwrap()
                }
                FixedAmount::Out(amount) => {
                    let call = UniswapV2Router02::getAmountsInCall { amountOut: amount, path };
                    *self.ask("v2Router", call).await?.first().unwrap()
                }
            };
            return Some((amounts, true));
        }
        let mut packed = tokens[0].to_vec();
        for (pool, token) in path.iter().zip(&tokens[1..]) {
            packed.extend(&pool.fee().to_be_bytes()[1..]);
            packed.extend(token.as_slice());
        }
        let (amount, prices) = match exact {
            FixedAmount::In(amount) => {
                let call = QuoterV2::quoteExactInputCall { path: packed.into(), amountIn: amount };
                let answer = self.ask("quoterV2", call).await?;
                (answer.amountOut, answer.sqrtPriceX96AfterList)
            }
            FixedAmount::Out(amount) => {
                let mut reversed = tokens[tokens.len() - 1].to_vec();
                for (pool, token) in path.iter().zip(tokens).rev() {
                    reversed.extend(&pool.fee().to_be_bytes()[1..]);
                    reversed.extend(token.as_slice());
                }
                let call = QuoterV2::quoteExactOutputCall { path: reversed.into(), amountOut: amount };
                let answer = self.ask("quoterV2", call).await?;
                (answer.amountIn, answer.sqrtPriceX96AfterList)
            }
        };
        let ends = [MIN_SQRT_PRICE + U256::from(1), MAX_SQRT_PRICE - U256::from(1)];
        Some((amount, !prices.iter().any(|price: &U160| ends.contains(&U256::from(*price)))))
    }
}

/// The open side, computed pool by pool.
fn native(path: &[Pool], tokens: &[Address], exact: FixedAmount) -> Result<U256, PoolError> {
    let hops: Vec<_> = path.iter().zip(tokens).collect();
    let hop = |(pool, token): &(&Pool, &Address), exact| pool.quote(pool.zero_for_one(**token)?, exact);
    match exact {
        FixedAmount::In(amount) => {
            hops.iter().try_fold(amount, |amount, at| Ok(hop(at, FixedAmount::In(amount))?.amount_out))
        }
        FixedAmount::Out(amount) => {
            hops.iter().rev().try_fold(amount, |amount, at| Ok(hop(at, FixedAmount::Out(amount))?.amount_in))
        }
    }
}

/// Random path of pools of one version, without meeting a token twice.
fn draw_path(random: &mut ChaCha8Rng, pools: &[Pool]) -> (Vec<Pool>, Vec<Address>) {
    let first = &pools[random.random_range(0..pools.len())];
    let (token0, token1) = first.tokens();
    let mut tokens = if random.random() { vec![token0, token1] } else { vec![token1, token0] };
    let mut path = vec![first.clone()];
    for _ in 1..random.random_range(1..=3) {
        let here = tokens[tokens.len() - 1];
        let onwards: Vec<(&Pool, Address)> = pools
            .iter()
            .filter(|pool| pool.version() == first.version())
            .filter_map(|pool| match pool.tokens() {
                (a, b) if a == here => Some((pool, b)),
                (a, b) if b == here => Some((pool, a)),
                _ => None,
            })
            .filter(|(_, next)| !tokens.contains(next))
            .collect();
        if onwards.is_empty() {
            break;
        }
        let (pool, next) = onwards[random.random_range(0..onwards.len())];
        path.push(pool.clone());
        tokens.push(next);
    }
    (path, tokens)
}

/// From a millionth of a pool's depth to thirty times it, on a logarithmic scale.
fn draw_amount(random: &mut ChaCha8Rng, pool: &Pool, token: Address) -> U256 {
    let depth = pool.virtual_reserve(pool.tokens().0 == token);
    let scaled = depth * U256::from(30u64 * 1_000_000 / (1u64 << random.random_range(0..25))) / U256::from(1_000_000);
    let fine = U256::from(random.random_range(500_000u64..1_000_000));
    (scaled * fine / U256::from(1_000_000)).max(U256::from(1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotes_equal_the_contracts_own_to_the_wei() {
    let fixture = Fixture::new();
    let reader = fixture.reader();
    let snapshot = reader.pools(&fixture.good_tokens(), BlockId::latest(), TickReach::Whole).await.unwrap();
    assert_eq!(snapshot.refused, []);
    let with_contract: Vec<Pool> =
        snapshot.pools.pools().iter().filter(|pool| pool.version() != ProtocolVersion::V4).cloned().collect();
    let found: BTreeSet<PoolId> = with_contract.iter().map(Pool::id).collect();
    let good = |token: SandboxToken| !token.is_bad();
    let pools = fixture.deployment.pools.iter();
    let listed = pools.filter(|pool| good(pool.token0.token) && good(pool.token1.token));
    let expected: BTreeSet<PoolId> = listed.map(|pool| pool.address.into()).collect();
    assert_eq!(found, expected);

    let mut random = ChaCha8Rng::seed_from_u64(7);
    let (mut filled, mut refused, mut long) = (0, 0, 0);
    for draw in 0..400 {
        let (path, tokens) = draw_path(&mut random, &with_contract);
        let exact = if random.random() {
            FixedAmount::In(draw_amount(&mut random, &path[0], tokens[0]))
        } else {
            FixedAmount::Out(draw_amount(&mut random, &path[path.len() - 1], tokens[tokens.len() - 1]))
        };
        let lens = fixture.lens(&path, &tokens, exact).await;
        match native(&path, &tokens, exact) {
            Ok(amount) => {
                assert_eq!(lens, Some((amount, true)), "draw {draw}: {exact:?} along {tokens:?}");
                filled += 1;
                long += usize::from(path.len() == 3);
            }
            Err(PoolError::InsufficientLiquidity { .. }) => {
                assert!(lens.is_none_or(|(_, whole)| !whole), "draw {draw}: {exact:?} along {tokens:?}: {lens:?}");
                refused += 1;
            }
            // The amount was so small that one hop had no output.
            Err(PoolError::ZeroAmount) => assert!(lens.is_none_or(|(amount, _)| amount.is_zero()), "draw {draw}"),
            Err(other) => panic!("draw {draw}: {other}"),
        }
    }
    assert!(filled >= 200 && refused >= 10 && long >= 30, "{filled} filled, {refused} refused, {long} of three hops");
}

async fn check_route(fixture: &Fixture, route: &Route, pools: &BTreeMap<PoolId, Pool>) {
    for leg in &route.legs {
        for hop in &leg.hops {
            let path = [pools[&hop.pool].clone()];
            let exact = match route.exact {
                FixedAmount::In(_) => FixedAmount::In(hop.amount_in),
                FixedAmount::Out(_) => FixedAmount::Out(hop.amount_out),
            };
            let expected = match route.exact {
                FixedAmount::In(_) => hop.amount_out,
                FixedAmount::Out(_) => hop.amount_in,
            };
            let lens = fixture.lens(&path, &[hop.token_in, hop.token_out], exact).await;
            assert_eq!(lens, Some((expected, true)), "{hop:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_are_what_the_contracts_would_give() {
    let fixture = Fixture::new();
    let reader = fixture.reader();
    let (weth, usdc) = (fixture.token(SandboxToken::Weth), fixture.token(SandboxToken::Usdc));
    let tokens = fixture.good_tokens();
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let (mut routed, mut splits, mut multi_hop) = (0, 0, 0);
    let all = reader.pools(&tokens, BlockId::latest(), TickReach::Whole).await.unwrap();
    let by_id: BTreeMap<PoolId, Pool> = all.pools.pools().iter().map(|pool| (pool.id(), pool.clone())).collect();
    for _ in 0..60 {
        let from = tokens[random.random_range(0..tokens.len())];
        let to = tokens[random.random_range(0..tokens.len())];
        if from == to {
            continue;
        }
        let paying = random.random();
        let fixed = if paying { from } else { to };
        let deepest = all.pools.pools().iter().filter(|pool| [pool.tokens().0, pool.tokens().1].contains(&fixed));
        let deepest = deepest.max_by_key(|pool| pool.virtual_reserve(pool.tokens().0 == fixed)).unwrap();
        let depth = deepest.virtual_reserve(deepest.tokens().0 == fixed);
        let amount = depth / U256::from(1u64 << random.random_range(4..16));
        let exact = if paying { FixedAmount::In(amount) } else { FixedAmount::Out(amount) };
        let native = all.pools.token_per_native(weth, if paying { to } else { from }).unwrap();
        let gas = GasCost::new(1_000_000_000, &native);
        let request = RouteRequest { gas, ..RouteRequest::new(from, to, exact) };
        let (route, snapshot) = match reader.route(&request, BlockId::latest()).await {
            Ok(found) => found,
            // A virtual depth is far above the holdings of a narrow position.
            Err(DiscoveryError::Route(RouteError::InsufficientLiquidity { .. })) => continue,
            Err(error) => panic!("{error}"),
        };
        routed += 1;
        assert_eq!(snapshot.block_hash, all.block_hash);
        check_route(&fixture, &route, &by_id).await;
        splits += usize::from(route.legs.len() > 1);
        multi_hop += usize::from(route.legs.iter().any(|leg| leg.hops.len() > 1));
    }
    assert!(routed >= 30 && splits >= 5 && multi_hop >= 5, "{routed}: {splits} splits, {multi_hop} with several hops");

    // The spot price of ether in dollars, up to the differences between its pools.
    let one = FixedAmount::In(U256::from(10u64).pow(U256::from(18)));
    let (route, near) = reader.route(&RouteRequest::new(weth, usdc, one), BlockId::latest()).await.unwrap();
    let dollars = u128::try_from(route.amount_out).unwrap() as f64 / 1e6;
    assert!((dollars / fixture.usd[&PricedAsset::Eth] - 1.0).abs() < 0.01, "{dollars}");
    assert!(route.price_impact < Ratio::of(U256::from(1), U256::from(100)).unwrap());
    // More than all pools hold is an error, found only after every tick was read.
    let hoard = FixedAmount::Out(U256::from(10u64).pow(U256::from(20)));
    let error = reader.route(&RouteRequest::new(weth, usdc, hoard), BlockId::latest()).await.unwrap_err();
    assert!(matches!(error, DiscoveryError::Route(RouteError::InsufficientLiquidity { .. })), "{error}");
    // The same block is read once; another block again.
    let again = reader.pools(&[weth, usdc], BlockId::latest(), TickReach::Near).await.unwrap();
    assert!(Arc::ptr_eq(&near, &again));
    fixture.devnet.mine().await.unwrap();
    let next = reader.pools(&[weth, usdc], BlockId::latest(), TickReach::Near).await.unwrap();
    assert_eq!(next.block_number, near.block_number + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_remember_prices() {
    let fixture = Fixture::new();
    let multicall = fixture.deployment.contracts["multicall3"];
    let feeds = || {
        let specs = feed_specs(&fixture.network);
        Arc::new(FeedPrices::new(fixture.provider.clone(), multicall, specs, None, None, Arc::new(SystemClock)))
    };
    let usd = |dollars: u64| -> Usd { dollars.to_string().parse().unwrap() };
    let source = |window, depth| {
        let rules = TwapRules { window, minimum_depth: usd(depth) };
        TwapPrices::new(fixture.provider.clone(), &fixture.network, rules).unwrap()
    };
    let priced = async |twap: TwapPrices, tokens: &[Address]| -> Vec<Result<Price, NoPrice>> {
        let anchors: Vec<Address> = feed_specs(&fixture.network).iter().map(|spec| spec.token).collect();
        let dollars = feeds().prices(&anchors).await.into_iter().map(|price| price.unwrap().usd);
        let dollars = anchors.into_iter().zip(dollars).collect();
        let mut observed = match twap.observe(tokens).await {
            Ok(observed) => observed,
            Err(error) => return vec![Err(error); tokens.len()],
        };
        twap.complete(&mut observed, &dollars).await;
        let pools = twap.judge(&observed, &dollars).into_iter();
        pools.map(|pools| pools.map(|pools| pools.price().unwrap())).collect()
    };
    let (uni, weth, usdc) =
        (fixture.token(SandboxToken::Uni), fixture.token(SandboxToken::Weth), fixture.token(SandboxToken::Usdc));
    let twap = source(1_800, 50_000);
    let prices = priced(twap, &[uni, weth, usdc, Address::repeat_byte(0x77)]).await;
    for (price, asset) in prices.iter().zip([PricedAsset::Uni, PricedAsset::Eth, PricedAsset::Usdc]) {
        let price = price.as_ref().unwrap();
        let dollars: f64 = price.usd.to_fixed(8, bardo::base::units::Rounding::Down).parse().unwrap();
        // The market moves by less than a percent in a quarter of an hour, and pools lag it by their fee.
        assert!((dollars / fixture.usd[&asset] - 1.0).abs() < 0.03, "{asset:?}: {dollars}");
        assert!(matches!(price.source, PriceOrigin::Twap { .. }));
    }
    assert_eq!(prices[3], Err(NoPrice::UnknownToken));
    // An excluded pool is not a price source.
    let PriceOrigin::Twap { pool, .. } = prices[0].as_ref().unwrap().source else { panic!("not a mean") };
    let other = priced(source(1_800, 50_000).without([pool]), &[uni]).await.remove(0).unwrap();
    assert!(matches!(other.source, PriceOrigin::Twap { pool: witness, .. } if witness != pool));
    // A pinned block is read through the provider whose endpoints agree; one without that block gives no price.
    let by = async |witness: &Fixture, block: B256| {
        let twap = source(1_800, 50_000).witnessed_by(Some(witness.provider.clone()));
        priced(twap.at(Some(BlockId::hash(block))), &[uni]).await.remove(0)
    };
    let latest = async || {
        let block = fixture.provider.get_block_by_number(BlockNumberOrTag::Latest).await.unwrap();
        block.unwrap().header.hash
    };
    assert_eq!(by(&fixture, latest().await).await.unwrap().usd, prices[0].as_ref().unwrap().usd);
    let elsewhere = Fixture::new();
    fixture.devnet.mine().await.unwrap();
    assert!(by(&fixture, latest().await).await.is_ok());
    assert!(by(&elsewhere, latest().await).await.is_err());
    let shallow = priced(source(1_800, 1_000_000_000), &[uni]).await.remove(0);
    assert!(matches!(shallow, Err(NoPrice::TooShallow { .. })), "{shallow:?}");
    // Genesis has the same date on every devnet, and pools record it: only a longer window begins before them.
    let young = priced(source(150_000_000, 100_000), &[uni]).await.remove(0);
    assert!(matches!(young, Err(NoPrice::TooYoung { .. })), "{young:?}");
}
