//! Manipulated prices: pools that an attacker opens, adds liquidity to or wash-trades, to change the value that Bardo
//! computes for a token.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use alloy::network::TransactionBuilder as _;
use alloy::primitives::aliases::{I24, U24, U160};
use alloy::primitives::{Address, U256};
use alloy::providers::{Provider as _, ProviderBuilder};
use alloy::rpc::client::RpcClient;
use alloy::rpc::json_rpc::{RequestPacket, ResponsePacket};
use alloy::rpc::types::TransactionRequest;
use alloy::sol;
use alloy::sol_types::SolCall;
use alloy::transports::{BoxTransport, TransportError, TransportErrorKind, TransportFut};
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::uniswap_v3::{NonfungiblePositionManager, SwapRouter02, UniswapV3Pool};
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::units::{Rounding, Usd};
use bardo::chain::network::KnownContract;
use bardo::chain::price::{NoPrice, PriceChain, PriceResult, PriceSource};
use bardo::chain::provider::ChainClient;
use bardo::chain::token::{TokenId, TokenInfo as ChainToken};
use bardo::safety::chain_snapshot::{SnapshotReader, portfolio};
use bardo::safety::value::{PriceSpread, PriceSpreads};
use bardo::sandbox::actors::{ActorRole, ActorTransaction, Actors, send};
use bardo::sandbox::genesis::Deployment;
use bardo::sandbox::plan::{SandboxToken, Venue};
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use bardo::uniswap::address::{V3_POOL_INIT_CODE_HASH, v3_pool};
use bardo::uniswap::positions::AccountPositions;
use bardo::uniswap::twap::{PoolPrices, TwapPrices, TwapRules};
use futures::future::BoxFuture;

sol! {
    /// Enumeration of the position manager, which numbers its positions.
    interface Enumerable {
        struct DecreaseLiquidityParams {
            uint256 tokenId;
            uint128 liquidity;
            uint256 amount0Min;
            uint256 amount1Min;
            uint256 deadline;
        }

        function totalSupply() external view returns (uint256);
        function tokenByIndex(uint256 index) external view returns (uint256);
        function multicall(bytes[] data) external payable returns (bytes[] results);
        function decreaseLiquidity(DecreaseLiquidityParams params) external payable returns (uint256, uint256);
    }
}

/// Fee of pools with a tick spacing of one, in which liquidity can be narrowest.
const FEE: u32 = 100;

/// Default of `safety.minimum_pool_depth_usd`.
fn minimum_depth() -> Usd {
    Usd::whole(50_000)
}

/// Price source that lacks the feeds of some tokens.
#[derive(Debug)]
struct PricesWithout(PriceChain, Vec<Address>);

impl PriceSource for PricesWithout {
    fn name(&self) -> &'static str {
        "feeds without some tokens"
    }

    fn prices<'a>(&'a self, tokens: &'a [Address]) -> BoxFuture<'a, Vec<PriceResult>> {
        Box::pin(async move {
            let reports = self.0.prices(tokens).await.into_iter();
            let known = |token: Address| !self.1.contains(&token);
            reports.map(|one| one.price.filter(|_| known(one.token)).ok_or(NoPrice::UnknownToken)).collect()
        })
    }
}

/// Devnet of a case, and its prices.
struct Market {
    sandbox: Sandbox,
    deployment: Arc<Deployment>,
    client: ChainClient,
    prices: PriceChain,
    reader: SnapshotReader,
}

impl Market {
    fn boot() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let config = SandboxConfig {
            seed: 1,
            start_time: clock.now_seconds(),
            pace: BlockPace::Manual,
            clock: Some(Arc::clone(&clock)),
            market: MarketMode::Off,
            keeper: true,
        };
        let sandbox = Sandbox::boot(&config, &|_| {}).unwrap();
        let network = sandbox.description().networks().remove(0);
        let chain = &sandbox.chains()[0];
        let client = ChainClient::devnet(network, chain.devnet.clone(), Arc::clone(&clock)).unwrap();
        let prices = PriceChain::for_chain(&client, &BTreeMap::new(), clock).unwrap();
        let reader = SnapshotReader::new(client.clone(), prices.clone(), minimum_depth());
        let deployment = Arc::clone(&chain.deployment);
        Self { sandbox, deployment, client, prices, reader }
    }

    /// The same market without a feed for `token`.
    fn without_feed(mut self, token: SandboxToken) -> Self {
        let source = PricesWithout(self.prices.clone(), vec![self.address(token)]);
        self.reader =
            SnapshotReader::new(self.client.clone(), PriceChain::new(vec![Arc::new(source)]), minimum_depth());
        self
    }

    fn address(&self, token: SandboxToken) -> Address {
        self.deployment.tokens[&token]
    }

    /// V3 pools of the devnet's genesis that trade `token`.
    fn genesis_pools(&self, token: SandboxToken) -> Vec<Address> {
        let of = |pool: &&bardo::sandbox::genesis::GenesisPool| {
            matches!(pool.venue, Venue::V3(_)) && [pool.token0.token, pool.token1.token].contains(&token)
        };
        self.deployment.pools.iter().filter(of).map(|pool| pool.address).collect()
    }

    async fn spreads(&self, token: SandboxToken, without: &[Address]) -> PriceSpreads {
        self.reader.spreads(&[TokenId::Erc20(self.address(token))], without).await
    }

    async fn spread(&self, token: SandboxToken, without: &[Address]) -> Result<PriceSpread, String> {
        let spreads = self.spreads(token, without).await;
        spreads.of[&self.address(token)].clone().map_err(|reason| reason.to_string())
    }

    /// Feed price in dollars.
    async fn feed(&self, token: SandboxToken) -> f64 {
        let price = self.prices.price(self.address(token)).await.unwrap();
        dollars(price.usd)
    }

    async fn send(&self, to: Address, call: impl SolCall, gas: u64) {
        let input = call.abi_encode();
        let chain = &self.sandbox.chains()[0];
        let sent = chain.devnet.run(move |chain| {
            let actors = Actors::new().unwrap();
            send(chain, &actors, ActorTransaction::call(ActorRole::Arbitrageur, to, input, gas, "an attack")).unwrap();
            let block = chain.mine();
            drop(block);
        });
        sent.await.unwrap();
    }

    /// Lets time pass, in seconds, and makes a block.
    async fn advance(&self, seconds: u64) {
        self.sandbox.chains()[0].devnet.run(move |chain| chain.increase_time(seconds)).await.unwrap();
        self.sandbox.chains()[0].devnet.mine().await.unwrap();
    }

    /// Swaps this number of raw units in a genesis pool with this fee.
    async fn swap(&self, [from, to]: [SandboxToken; 2], fee: u32, raw: u128) {
        let router = self.deployment.swap_router;
        let approve = Erc20::approveCall { spender: router, value: U256::MAX };
        self.send(self.address(from), approve, 100_000).await;
        let params = SwapRouter02::ExactInputSingleParams {
            tokenIn: self.address(from),
            tokenOut: self.address(to),
            fee: U24::from(fee),
            recipient: router,
            amountIn: U256::from(raw),
            amountOutMinimum: U256::ZERO,
            sqrtPriceLimitX96: U160::ZERO,
        };
        self.send(router, SwapRouter02::exactInputSingleCall { params }, 3_000_000).await;
    }

    /// Opens a pool of `token` and a dollar token with 18 decimals, at `price` dollars.
    async fn open(&self, token: SandboxToken, price: f64) -> AttackerPool<'_> {
        let (token, dai) = (self.address(token), self.address(SandboxToken::Dai));
        let token_first = token < dai;
        let (token0, token1) = if token_first { (token, dai) } else { (dai, token) };
        let root = if token_first { price.sqrt() } else { price.sqrt().recip() };
        let tick = (2.0 * root.ln() / 1.0001_f64.ln()).floor() as i32;
        let scaled = U160::from((root * 2_f64.powi(96)) as u128);
        let manager = self.deployment.contracts["v3PositionManager"];
        let fee = U24::from(FEE);
        let create = NonfungiblePositionManager::createAndInitializePoolIfNecessaryCall {
            token0,
            token1,
            fee,
            sqrtPriceX96: scaled,
        };
        self.send(manager, create, 6_000_000).await;
        let factory = self.client.network().book.contract(KnownContract::V3Factory).unwrap();
        let pool = v3_pool(factory, token, dai, FEE, V3_POOL_INIT_CODE_HASH);
        let grow = UniswapV3Pool::increaseObservationCardinalityNextCall { observationCardinalityNext: 120 };
        self.send(pool, grow, 6_000_000).await;
        for spent in [token, dai] {
            for spender in [manager, self.deployment.swap_router] {
                self.send(spent, Erc20::approveCall { spender, value: U256::MAX }, 100_000).await;
            }
        }
        AttackerPool { market: self, token0, token1, dai, tick, manager, pool, token_first, price }
    }
}

/// Pool that an attacker opened.
struct AttackerPool<'a> {
    market: &'a Market,
    token0: Address,
    token1: Address,
    dai: Address,
    tick: i32,
    manager: Address,
    pool: Address,
    token_first: bool,
    price: f64,
}

impl AttackerPool<'_> {
    /// Provides about this many dollars in total on the ticks from `low` to `high`, relative to the pool's first tick.
    async fn provide(&self, low: i32, high: i32, dollars: f64) {
        self.provide_for(self.manager, low, high, dollars).await;
    }

    /// Provides liquidity in a position of `recipient`.
    async fn provide_for(&self, recipient: Address, low: i32, high: i32, dollars: f64) {
        let call = self.mint_call(recipient, low, high, dollars);
        self.market.send(self.manager, call, 2_000_000).await;
    }

    /// Initializes each tick from `low` to `high` with a position of almost no value.
    async fn initialize_each(&self, low: i32, high: i32) {
        let ticks: Vec<i32> = (low..high).collect();
        for some in ticks.chunks(30) {
            let mints = some.iter().map(|tick| self.mint_call(self.manager, *tick, tick + 1, 0.01).abi_encode().into());
            self.market.send(self.manager, Enumerable::multicallCall { data: mints.collect() }, 16_000_000).await;
        }
    }

    fn mint_call(&self, recipient: Address, low: i32, high: i32, dollars: f64) -> NonfungiblePositionManager::mintCall {
        let wei = |dollars: f64| U256::from((dollars * 1e18) as u128);
        let (token, dai) = (wei(dollars / self.price), wei(dollars));
        let (amount0, amount1) = if self.token_first { (token, dai) } else { (dai, token) };
        let params = NonfungiblePositionManager::MintParams {
            token0: self.token0,
            token1: self.token1,
            fee: U24::from(FEE),
            tickLower: I24::try_from(self.tick + low).unwrap(),
            tickUpper: I24::try_from(self.tick + high).unwrap(),
            amount0Desired: amount0,
            amount1Desired: amount1,
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            recipient,
            deadline: U256::MAX,
        };
        NonfungiblePositionManager::mintCall { params }
    }

    /// Distance of the pool's tick from its initial one.
    async fn tick_distance(&self) -> i32 {
        let request =
            TransactionRequest::default().with_to(self.pool).with_input(UniswapV3Pool::slot0Call {}.abi_encode());
        let answer = self.market.client.provider().call(request).await.unwrap();
        (UniswapV3Pool::slot0Call::abi_decode_returns(&answer).unwrap().tick.as_i32() - self.tick).abs()
    }

    async fn ask<C: SolCall>(&self, call: C) -> C::Return {
        let request = TransactionRequest::default().with_to(self.manager).with_input(call.abi_encode());
        C::abi_decode_returns(&self.market.client.provider().call(request).await.unwrap()).unwrap()
    }

    /// Id and liquidity of the newest position.
    async fn newest(&self) -> (U256, u128) {
        let count = self.ask(Enumerable::totalSupplyCall {}).await;
        let position = self.ask(Enumerable::tokenByIndexCall { index: count - U256::from(1) }).await;
        (position, self.ask(NonfungiblePositionManager::positionsCall { tokenId: position }).await.liquidity)
    }

    /// Swaps this many dollars of the dollar token for the other one.
    async fn trade(&self, dollars: f64) {
        let out = if self.dai == self.token0 { self.token1 } else { self.token0 };
        let params = SwapRouter02::ExactInputSingleParams {
            tokenIn: self.dai,
            tokenOut: out,
            fee: U24::from(FEE),
            recipient: self.manager,
            amountIn: U256::from((dollars * 1e18) as u128),
            amountOutMinimum: U256::ZERO,
            sqrtPriceLimitX96: U160::ZERO,
        };
        self.market
            .send(self.market.deployment.swap_router, SwapRouter02::exactInputSingleCall { params }, 16_000_000)
            .await;
    }
}

fn dollars(usd: Usd) -> f64 {
    usd.to_fixed(6, Rounding::Down).parse().unwrap()
}

/// True if both are within 4 %: the fee of the widest pool and the market's lag.
fn near(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 0.04
}

#[tokio::test(flavor = "multi_thread")]
async fn six_dollars_in_one_tick_set_no_price() {
    let market = Market::boot().without_feed(SandboxToken::Uni);
    let attacker_pool = market.open(SandboxToken::Uni, 5.0 * 7.85).await;
    attacker_pool.provide(-1, 1, 3.0).await;
    market.advance(1_000).await;
    attacker_pool.trade(0.5).await;
    market.advance(1_000).await;
    let genesis_pools = market.genesis_pools(SandboxToken::Uni);
    let refused = market.spread(SandboxToken::Uni, &genesis_pools).await.unwrap_err();
    assert!(refused.contains("it has no price feed"), "{refused}");
}

/// Transport that records requests, and fails every request that contains `failing`.
#[derive(Clone)]
struct RecordingTransport {
    inner: BoxTransport,
    requests: Arc<Mutex<Vec<String>>>,
    failing: Option<String>,
}

impl tower::Service<RequestPacket> for RecordingTransport {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let text = serde_json::to_string(&packet).unwrap();
        let fails = self.failing.as_ref().is_some_and(|failing| text.contains(failing));
        self.requests.lock().unwrap().push(text);
        match fails {
            true => Box::pin(async { Err(TransportErrorKind::custom_str("it takes too long")) }),
            false => self.inner.call(packet),
        }
    }
}

/// Encoded call of `ticks(int24)` of `pool` inside `aggregate3`, up to the part that depends on the tick: target,
/// permission to fail, offset and length of the calldata (multicall3.com; ABI specification).
fn ticks_of(pool: Address) -> String {
    format!("{}{:064x}{:064x}{:064x}f30dba93", alloy::hex::encode(pool), 1, 0x60, 0x24)
}

impl Market {
    /// Pool prices of `token` while requests that contain `failing` fail; also returns the requests.
    async fn pools(&self, token: SandboxToken, failing: Option<String>) -> (Result<PoolPrices, NoPrice>, Vec<String>) {
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let inner = self.client.provider().client().transport().clone();
        let client = RpcClient::new(RecordingTransport { inner, requests: Arc::clone(&requests), failing }, true);
        let provider = ProviderBuilder::new().disable_recommended_fillers().connect_client(client).erased();
        let rules = TwapRules { window: 1_800, minimum_depth: Usd::whole(50_000) };
        let twap = TwapPrices::new(provider, self.client.network(), rules).unwrap();
        let mut anchors = BTreeMap::new();
        for anchor in [SandboxToken::Weth, SandboxToken::Usdc, SandboxToken::Dai, SandboxToken::Usdt]
            .map(|token| self.address(token))
        {
            anchors.insert(anchor, self.prices.price(anchor).await.unwrap().usd);
        }
        let mut observed = twap.observe(&[self.address(token)]).await.unwrap();
        twap.complete(&mut observed, &anchors).await;
        let prices = twap.judge(&observed, &anchors).remove(0);
        let requests = requests.lock().unwrap().clone();
        (prices, requests)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ticks_of_a_nearly_empty_pool_are_not_read() {
    let market = Market::boot();
    let read =
        |requests: &[String], pool| requests.iter().map(|text| text.matches(&ticks_of(pool)).count()).sum::<usize>();
    let (prices, requests) = market.pools(SandboxToken::Uni, None).await;
    let witnesses = prices.unwrap().pools;
    assert!(
        witnesses.iter().all(|one| read(&requests, one.pool) > 0),
        "the ticks of genesis pools are read: {witnesses:?}"
    );
    let attacker_pool = market.open(SandboxToken::Uni, 7.85).await;
    for step in 1..=40 {
        attacker_pool.provide(-step, step, 3.0).await;
    }
    market.advance(1_000).await;
    // The price moves by two ticks or more: the pool counts as traded, and only its small depth excludes it.
    attacker_pool.trade(30.0).await;
    market.advance(1_000).await;
    let (prices, requests) = market.pools(SandboxToken::Uni, None).await;
    assert_eq!(read(&requests, attacker_pool.pool), 0, "the pool has 80 ticks");
    assert!(
        prices.is_err(),
        "the genesis pools have not traded since, and the attacker's pool does not count: {prices:?}"
    );
}

/// Without the limit, an attacker could make the reading of ticks take any time.
#[tokio::test(flavor = "multi_thread")]
async fn ticks_beyond_4096_are_not_read_and_do_not_count_as_depth() {
    const MOVED: i32 = 4_400;
    let market = Market::boot();
    let read =
        |requests: &[String], pool| requests.iter().map(|text| text.matches(&ticks_of(pool)).count()).sum::<usize>();
    let attacker_pool = market.open(SandboxToken::Uni, 7.85).await;
    // The tick rises with the price of UNI if UNI is the first token, and falls otherwise.
    let (below, above) = if attacker_pool.token_first { (-400, MOVED) } else { (-MOVED, 400) };
    attacker_pool.provide(-2_000, 2_000, 600_000.0).await;
    attacker_pool.provide(-8_000, 8_000, 1_500_000.0).await;
    attacker_pool.initialize_each(below, above).await;
    market.advance(1_000).await;
    attacker_pool.trade(20_000.0).await;
    market.advance(1_000).await;
    let (prices, requests) = market.pools(SandboxToken::Uni, None).await;
    assert!(prices.unwrap().pools.iter().any(|one| one.pool == attacker_pool.pool), "near its mean the pool counts");
    // Read are the ticks within 4 % of the mean on either side, and one more at each end.
    assert!((400..=802).contains(&read(&requests, attacker_pool.pool)), "{}", read(&requests, attacker_pool.pool));
    // A price that moves widens the range to more than 4,096 initialized ticks.
    for _ in 0..80 {
        match attacker_pool.tick_distance().await {
            // A transaction's gas suffices for about 250 initialized ticks.
            moved if moved < MOVED - 100 => attacker_pool.trade(40_000.0).await,
            _ => break,
        }
    }
    assert!(
        (MOVED - 100..8_000).contains(&attacker_pool.tick_distance().await),
        "{}",
        attacker_pool.tick_distance().await
    );
    let (prices, requests) = market.pools(SandboxToken::Uni, None).await;
    assert_eq!(read(&requests, attacker_pool.pool), 0);
    assert!(prices.is_err(), "unread ticks do not count as depth, and the other pools have no trades: {prices:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_with_unreadable_ticks_leaves_other_pools_usable() {
    let market = Market::boot();
    let pools = |prices: Result<PoolPrices, NoPrice>| prices.unwrap().pools.into_iter().map(|one| one.pool);
    let (all, _) = market.pools(SandboxToken::Uni, None).await;
    let all: Vec<Address> = pools(all).collect();
    assert!(all.len() > 1, "{all:?}");
    let (prices, _) = market.pools(SandboxToken::Uni, Some(ticks_of(all[0]))).await;
    let mut left: Vec<Address> = pools(prices).collect();
    left.sort();
    let mut others = all[1..].to_vec();
    others.sort();
    assert_eq!(left, others);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_dollars_permanently_in_six_ticks_do_not_count_as_depth() {
    let market = Market::boot().without_feed(SandboxToken::Uni);
    let attacker_pool = market.open(SandboxToken::Uni, 5.0 * 7.85).await;
    // If this liquidity were everywhere, 89,000 dollars or more could be traded within 2 %, according to the window's
    // mean.
    attacker_pool.provide(-3, 3, 1_800.0).await;
    market.advance(1_000).await;
    // The price moves by a tick or more, but stays within the range.
    attacker_pool.trade(620.0).await;
    market.advance(1_000).await;
    // Its liquidity is so small that its ticks are not read.
    let (_, requests) = market.pools(SandboxToken::Uni, None).await;
    assert!(requests.iter().all(|text| !text.contains(&ticks_of(attacker_pool.pool))));
    let refused = market.spread(SandboxToken::Uni, &market.genesis_pools(SandboxToken::Uni)).await.unwrap_err();
    assert!(refused.contains("it has no price feed"), "{refused}");
}

/// By its mean liquidity and its balances, the pool would be deep. Only its ticks show that almost nothing can be
/// traded near its price.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_dollars_in_six_ticks_beside_distant_liquidity_do_not_count_as_depth() {
    let market = Market::boot().without_feed(SandboxToken::Uni);
    let attacker_pool = market.open(SandboxToken::Uni, 5.0 * 7.85).await;
    attacker_pool.provide(-3, 3, 1_800.0).await;
    attacker_pool.provide(-9_000, -600, 500_000.0).await;
    attacker_pool.provide(600, 9_000, 500_000.0).await;
    market.advance(1_000).await;
    attacker_pool.trade(620.0).await;
    market.advance(1_000).await;
    let (_, requests) = market.pools(SandboxToken::Uni, None).await;
    assert!(
        requests.iter().any(|text| text.contains(&ticks_of(attacker_pool.pool))),
        "it might be deep, so its ticks are read"
    );
    let refused = market.spread(SandboxToken::Uni, &market.genesis_pools(SandboxToken::Uni)).await.unwrap_err();
    assert!(refused.contains("it has no price feed"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn distant_liquidity_around_one_tick_does_not_count_as_depth() {
    let market = Market::boot().without_feed(SandboxToken::Uni);
    let attacker_pool = market.open(SandboxToken::Uni, 5.0 * 7.85).await;
    attacker_pool.provide(-1, 1, 3.0).await;
    // Half a million dollars on either side, out of reach of the range near the mean.
    attacker_pool.provide(-9_000, -600, 500_000.0).await;
    attacker_pool.provide(600, 9_000, 500_000.0).await;
    market.advance(1_000).await;
    attacker_pool.trade(0.5).await;
    market.advance(1_000).await;
    let refused = market.spread(SandboxToken::Uni, &market.genesis_pools(SandboxToken::Uni)).await.unwrap_err();
    assert!(refused.contains("it has no price feed"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_younger_than_the_window_sets_no_price() {
    let market = Market::boot().without_feed(SandboxToken::Uni);
    let attacker_pool = market.open(SandboxToken::Uni, 5.0 * 7.85).await;
    attacker_pool.provide(-2_000, 2_000, 5_000_000.0).await;
    market.advance(900).await;
    attacker_pool.trade(10_000.0).await;
    market.advance(600).await;
    let refused = market.spread(SandboxToken::Uni, &market.genesis_pools(SandboxToken::Uni)).await.unwrap_err();
    assert!(refused.contains("it has no price feed"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_without_trades_sets_no_price() {
    let market = Market::boot().without_feed(SandboxToken::Uni);
    let attacker_pool = market.open(SandboxToken::Uni, 5.0 * 7.85).await;
    attacker_pool.provide(-2_000, 2_000, 5_000_000.0).await;
    market.advance(2_000).await;
    let genesis_pools = market.genesis_pools(SandboxToken::Uni);
    let refused = market.spread(SandboxToken::Uni, &genesis_pools).await.unwrap_err();
    assert!(refused.contains("it has no price feed"), "{refused}");
    // After one trade and a full window it counts as a price, which no feed confirms.
    attacker_pool.trade(50_000.0).await;
    market.advance(1_000).await;
    let spread = market.spread(SandboxToken::Uni, &genesis_pools).await.unwrap();
    assert_eq!(spread.feed, None);
    assert!(near(dollars(spread.all.lowest), 5.0 * 7.85), "{spread:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn liquidity_of_one_block_does_not_count_as_depth() {
    let market = Market::boot().without_feed(SandboxToken::Uni);
    let attacker_pool = market.open(SandboxToken::Uni, 5.0 * 7.85).await;
    attacker_pool.provide(-500, 500, 100.0).await;
    market.advance(1_000).await;
    attacker_pool.trade(1.0).await;
    market.advance(1_000).await;
    attacker_pool.provide(-2_000, 2_000, 5_000_000.0).await;
    let refused = market.spread(SandboxToken::Uni, &market.genesis_pools(SandboxToken::Uni)).await.unwrap_err();
    assert!(refused.contains("it has no price feed"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bids_at_half_the_price_change_neither_price_nor_equity() {
    let market = Market::boot();
    let feed = market.feed(SandboxToken::Weth).await;
    let attacker_pool = market.open(SandboxToken::Weth, feed / 2.0).await;
    // Dollars only, on the side of the price where WETH would be sold for them.
    let (low, high) = if attacker_pool.token_first { (-400, 0) } else { (1, 401) };
    attacker_pool.provide(low, high, 5_000_000.0).await;
    market.advance(300).await;
    for _ in 0..6 {
        market.advance(290).await;
    }
    let genesis_pools = market.genesis_pools(SandboxToken::Weth);
    for without in [&[][..], &genesis_pools] {
        let spread = market.spread(SandboxToken::Weth, without).await.unwrap();
        for price in [spread.all.highest, spread.all.lowest] {
            assert!(near(dollars(price), feed), "{spread:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn asks_at_five_times_the_price_do_not_block_an_exit() {
    let market = Market::boot();
    let feed = market.feed(SandboxToken::Uni).await;
    let attacker_pool = market.open(SandboxToken::Uni, feed * 5.0).await;
    let (low, high) = if attacker_pool.token_first { (1, 401) } else { (-400, 0) };
    attacker_pool.provide(low, high, 5_000_000.0).await;
    for _ in 0..7 {
        market.advance(290).await;
    }
    let spread = market.spread(SandboxToken::Uni, &market.genesis_pools(SandboxToken::Uni)).await.unwrap();
    for price in [spread.all.highest, spread.present.unwrap().highest] {
        assert!(near(dollars(price), market.feed(SandboxToken::Uni).await), "{spread:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_overrides_a_deep_pool_with_a_different_price() {
    let market = Market::boot();
    let feed = market.feed(SandboxToken::Uni).await;
    for times in [5.0] {
        let attacker_pool = market.open(SandboxToken::Uni, feed * times).await;
        attacker_pool.provide(-2_000, 2_000, 5_000_000.0).await;
        market.advance(290).await;
        attacker_pool.trade(50_000.0).await;
        market.swap([SandboxToken::Usdc, SandboxToken::Uni], 3_000, 2_000_000_000).await;
        market.swap([SandboxToken::Weth, SandboxToken::Uni], 3_000, 500_000_000_000_000_000).await;
        for _ in 0..6 {
            market.advance(290).await;
        }
        let spread = market.spread(SandboxToken::Uni, &market.genesis_pools(SandboxToken::Uni)).await.unwrap();
        let fed = market.feed(SandboxToken::Uni).await;
        assert!(near(dollars(spread.all.highest), fed) && near(dollars(spread.all.lowest), fed), "{spread:?}");
        assert!(spread.outvoted.is_some_and(|pool| dollars(pool) > fed * 4.0), "the operator is asked: {spread:?}");
        assert!(!spread.several_pools, "one pool is not a majority: {spread:?}");
        // With the genesis pools it is one of several, and their median decides.
        let spread = market.spread(SandboxToken::Uni, &[]).await.unwrap();
        assert!(near(dollars(spread.all.highest), fed), "{spread:?}");
        assert!(spread.several_pools && spread.outvoted.is_none(), "{spread:?}");
        assert_ne!(attacker_pool.pool, Address::ZERO);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wash_traded_price_without_a_feed_adds_no_equity() {
    let market = Market::boot().without_feed(SandboxToken::Uni);
    let attacker_pool = market.open(SandboxToken::Uni, 5.0 * 7.85).await;
    attacker_pool.provide(-2_000, 2_000, 5_000_000.0).await;
    market.advance(100).await;
    for _ in 0..6 {
        attacker_pool.trade(20_000.0).await;
        market.advance(320).await;
    }
    let spreads = market.spreads(SandboxToken::Uni, &market.genesis_pools(SandboxToken::Uni)).await;
    let uni = bardo::chain::token::resolve("UNI", market.client.network(), market.client.provider()).await.unwrap();
    let held: BTreeMap<TokenId, (ChainToken, U256)> =
        BTreeMap::from([(uni.id, (uni, U256::from(10).pow(U256::from(21))))]);
    let portfolio = portfolio(&held, &AccountPositions::default(), &spreads).unwrap();
    // A thousand UNI at the wash-traded price are 39,250 dollars, which no feed confirms.
    assert_eq!(portfolio.equity, Usd::ZERO);
    assert!(dollars(portfolio.by_pools) > 30_000.0, "{portfolio:?}");
}

/// An agent's purchases of a token without a price feed.
mod unfed_purchases {
    use std::sync::OnceLock;

    use bardo::base::error::ErrorCode;
    use bardo::engine::{ApprovalMode, CallStatus, ToolCall, ToolInput, ToolResponse};

    use super::*;
    use bardo_testkit::golem_harness::{GolemHarness, swap};

    /// Address of UNI in the harness below, whose prices do not know it: the devnet's addresses follow from its seed.
    static UNFED: OnceLock<Address> = OnceLock::new();

    /// Harness whose policy has this line, and in which only pools price UNI.
    async fn harness(line: &str) -> GolemHarness {
        let uni = *UNFED.get_or_init(|| Market::boot().address(SandboxToken::Uni));
        let prices = |prices: PriceChain| {
            let source = PricesWithout(prices, UNFED.get().copied().into_iter().collect());
            PriceChain::new(vec![Arc::new(source)])
        };
        let harness = GolemHarness::told(&format!("preset = \"demo\"\n{line}\n"), prices).await;
        assert_eq!(harness.address(SandboxToken::Uni), uni);
        harness
    }

    async fn buys(harness: &GolemHarness, dollars: &str, approve: ApprovalMode) -> ToolResponse {
        let call =
            ToolCall::new("uniswap_execute_swap", ToolInput::Json(swap("USDC", "UNI", dollars)["params"].clone()));
        harness.executor("mallory", "trade-executor").call(ToolCall { approve: Some(approve), ..call }).await
    }

    fn code(answer: &ToolResponse) -> Option<ErrorCode> {
        answer.error.as_ref().map(|error| error.code())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_token_without_a_feed_is_bought_only_after_an_approval() {
        let harness = harness("max_unfed_usd = \"100\"").await;
        let sent = harness.sent().await;
        let refused = buys(&harness, "20", ApprovalMode::Never).await;
        assert_eq!(code(&refused), Some(ErrorCode::ApprovalRequired), "{refused:#?}");
        assert!(format!("{refused:?}").contains("no price feed covers"), "{refused:#?}");
        assert_eq!(harness.sent().await, sent);
        let bought = buys(&harness, "20", ApprovalMode::Always).await;
        assert_eq!(bought.status, CallStatus::Success, "{bought:#?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_approval_does_not_raise_the_position_cap_of_a_token_without_a_feed() {
        let harness = harness("max_unfed_usd = \"50\"").await;
        let bought = buys(&harness, "30", ApprovalMode::Always).await;
        assert_eq!(bought.status, CallStatus::Success, "{bought:#?}");
        let sent = harness.sent().await;
        // Existing holdings count: 60 is more than 50.
        let refused = buys(&harness, "30", ApprovalMode::Always).await;
        assert_eq!(code(&refused), Some(ErrorCode::SafetySpendingLimitExceeded), "{refused:#?}");
        let violations = refused.error.as_ref().unwrap().details()["violations"].to_string();
        assert!(violations.contains("max_unfed_usd"), "{violations}");
        assert_eq!(harness.sent().await, sent);
    }
}

/// Late quotes: the price moves meanwhile, which a malicious quote source can exploit.
mod late_quotes {
    use bardo::base::error::ErrorCode;
    use bardo::engine::{ApprovalMode, ToolCall, ToolInput};
    use bardo::uniswap::quote::{LocalRouter, QuoteError, QuoteRequest, QuoteSource, QuotedRoute};
    use serde_json::json;

    use super::*;
    use bardo_testkit::golem_harness::{GolemHarness, swap};
    use bardo_testkit::harness::Shifted;

    /// Quote source that delays each quote by this many milliseconds of the shared clock.
    #[derive(Debug)]
    struct Late(Arc<Shifted>, i64);

    impl QuoteSource for Late {
        fn name(&self) -> &'static str {
            "a late source"
        }

        fn quote<'a>(&'a self, ask: &'a QuoteRequest<'a>) -> BoxFuture<'a, Result<QuotedRoute, QuoteError>> {
            Box::pin(async move {
                let quoted = LocalRouter.quote(ask).await?;
                self.0.shift(self.1);
                Ok(quoted)
            })
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_age_of_a_quote_counts_from_its_request() {
        let policy = "preset = \"demo\"\nmax_quote_age_seconds = 30\n";
        for (millis, refused) in [(100, false), (31_000, true)] {
            let shifted = Arc::<Shifted>::default();
            let clock: Arc<dyn Clock> = shifted.clone();
            let harness = GolemHarness::on(GolemHarness::still(&clock), policy, ApprovalMode::Always, clock).await;
            let harness = harness.with_orders().quoting_from(Arc::new(Late(shifted, millis)));
            let order = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.01", "chain": "ethereum",
                               "decay_end_time": 300});
            let trade = swap("USDC", "WETH", "20")["params"].clone();
            for (tool, params) in [("uniswap_execute_swap", trade), ("uniswap_submit_uniswapx_order", order)] {
                let call = ToolCall { dry_run: true, ..ToolCall::new(tool, ToolInput::Json(params)) };
                let answer = harness.executor("ada", "trade-executor").call(call).await;
                let code = answer.error.as_ref().map(|error| error.code());
                assert_eq!(code, refused.then_some(ErrorCode::SafetySlippage), "{tool}: {answer:#?}");
                let violations = answer.error.map(|error| error.details()["violations"].to_string());
                assert!(violations.is_none_or(|one| one.contains("max_quote_age_seconds")), "{tool}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn liquidity_that_is_present_only_during_reads_does_not_count_as_depth() {
    let market = Market::boot().without_feed(SandboxToken::Uni);
    let attacker_pool = market.open(SandboxToken::Uni, 5.0 * 7.85).await;
    attacker_pool.provide(-500, 500, 100.0).await;
    let (attacker, genesis_pools) =
        (Actors::new().unwrap().address(ActorRole::Arbitrageur), market.genesis_pools(SandboxToken::Uni));
    for round in 0..8 {
        market.advance(290).await;
        attacker_pool.provide_for(attacker, -2_000, 2_000, 5_000_000.0).await;
        attacker_pool.trade(1.0).await;
        let (position, liquidity) = attacker_pool.newest().await;
        assert!(liquidity > 0);
        let refused = market.spread(SandboxToken::Uni, &genesis_pools).await.unwrap_err();
        assert!(refused.contains("it has no price feed"), "round {round}: {refused}");
        let params = Enumerable::DecreaseLiquidityParams {
            tokenId: position,
            liquidity,
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            deadline: U256::MAX,
        };
        market.send(attacker_pool.manager, Enumerable::decreaseLiquidityCall { params }, 1_000_000).await;
        assert_eq!(attacker_pool.newest().await, (position, 0), "it is taken out again");
    }
}

/// A pool that is manipulated around a trade of the account.
mod bent_trades {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bardo::base::error::ErrorCode;
    use bardo::chain::devnet::Chain;
    use bardo::chain::network::NetworkKind;
    use bardo::chain::sender::SenderRules;
    use bardo::engine::CallStatus;
    use bardo::safety::approval::Consent;
    use bardo::safety::pipeline::CommitState;
    use bardo::safety::policy_engine::ActionEnd;
    use bardo::sandbox::SandboxChain;

    use super::*;
    use bardo_testkit::golem_harness::{GolemHarness, permit, swap};
    use bardo_testkit::harness::{FEE as TRADED, Hook, TestHarness, sandbox};

    /// Dollars that move a pool of ten million by several percent.
    const BENDING: u64 = 3_000_000;

    /// Buys `token` for dollars in its pool with this fee.
    fn bend(chain: &mut Chain, deployment: &Deployment, token: SandboxToken, fee: u32) {
        let actors = Actors::new().unwrap();
        let (usdc, amount) = (deployment.tokens[&SandboxToken::Usdc], U256::from(BENDING) * U256::from(1_000_000));
        let attacker = actors.address(ActorRole::Arbitrageur);
        let params = SwapRouter02::ExactInputSingleParams {
            tokenIn: usdc,
            tokenOut: deployment.tokens[&token],
            fee: U24::from(fee),
            recipient: attacker,
            amountIn: amount,
            amountOutMinimum: U256::ZERO,
            sqrtPriceLimitX96: U160::ZERO,
        };
        let router = deployment.swap_router;
        for (to, input, gas) in [
            (usdc, OpenMint::mintCall { to: attacker, value: amount }.abi_encode(), 200_000),
            (usdc, Erc20::approveCall { spender: router, value: U256::MAX }.abi_encode(), 200_000),
            (router, SwapRouter02::exactInputSingleCall { params }.abi_encode(), 5_000_000),
        ] {
            send(chain, &actors, ActorTransaction::call(ActorRole::Arbitrageur, to, input, gas, "an attack")).unwrap();
        }
        let block = chain.mine();
        drop(block);
    }

    async fn attacker_pool(chain: &SandboxChain, token: SandboxToken, fee: u32) {
        let deployment = Arc::clone(&chain.deployment);
        chain.devnet.run(move |chain| bend(chain, &deployment, token, fee)).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_pool_manipulated_between_preview_and_commit_blocks_the_signature() {
        let harness = GolemHarness::with_policy("preset = \"demo\"\n").await;
        let golem = harness.golem("ada", "trade-executor");
        let previewed = golem.call("preview_action", swap("USDC", "UNI", "200")).await;
        assert_eq!(previewed.status, CallStatus::Simulated, "{previewed:#?}");
        attacker_pool(&harness.sandbox().chains()[0], SandboxToken::Uni, 3_000).await;
        let sent = harness.sent().await;
        let answer = golem.call("commit_action", permit(&previewed)).await;
        let code = answer.error.as_ref().map(|error| error.code());
        assert_eq!(code, Some(ErrorCode::PermitMismatch), "{answer:#?}");
        assert_eq!(harness.sent().await, sent, "something was signed: {answer:#?}");
    }

    /// Swap of 100 USDC for WETH whose pool is manipulated after signature number `at`; returns its end and the loss in
    /// dollars.
    async fn bent_behind_signature(account: usize, at: usize) -> (CommitState, Vec<ActionEnd>, U256, U256) {
        // A devnet for this case only: a pool stays manipulated.
        let own: &'static Sandbox = Box::leak(Box::new(sandbox(6)));
        let world = TestHarness::over(own, account, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await;
        let preview = world.preview(world.swap(100_000_000).await).await.unwrap();
        let (usdc, weth) = (world.balance(&world.usdc).await, world.balance(&world.weth).await);
        let signed = AtomicUsize::new(0);
        *world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
            if signed.fetch_add(1, Ordering::SeqCst) == at {
                let done = attacker_pool(&own.chains()[0], SandboxToken::Weth, TRADED);
                tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(done));
            }
        })
        .into_inner()
        .unwrap();
        let committed = world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
        let ends = world.book.ends.lock().unwrap().clone();
        let left = world.allowance(world.contract(KnownContract::Permit2)).await;
        assert_eq!(left, U256::ZERO, "what the plan allowed is taken back: {:?}", committed.remarks);
        let lost = usdc - world.balance(&world.usdc).await;
        (committed.state, ends, lost, world.balance(&world.weth).await - weth)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_pool_manipulated_after_the_signature_costs_only_gas() {
        let (state, ends, lost, came) = bent_behind_signature(4, 1).await;
        assert!(matches!(state, CommitState::Reverted), "{state:?}: {came} came for {lost}");
        assert_eq!((lost, came), (U256::ZERO, U256::ZERO));
        assert!(
            matches!(ends.as_slice(), [ActionEnd::Reverted { .. }, ..] | [.., ActionEnd::Reverted { .. }]),
            "{ends:?}"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_pool_manipulated_between_two_transactions_of_a_plan_stops_the_rest() {
        let (state, _, lost, came) = bent_behind_signature(5, 0).await;
        let CommitState::Stopped { code, why } = state else { panic!("{state:?}") };
        assert_eq!((code, lost, came), (ErrorCode::PermitMismatch, U256::ZERO, U256::ZERO), "{why}");
    }
}
