//! Execution of best routes: SwapRouter02 and the V2 router give exactly the promised amount; no single path is better
//! after gas; and the estimated gas is close to the actual gas.

use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, Bytes, U256, address};
use alloy::sol_types::SolCall;
use bardo::abi::erc20::{Erc20, OpenMint, Weth9};
use bardo::abi::uniswap_v2::UniswapV2Router02;
use bardo::abi::uniswap_v3::SwapRouter02;
use bardo::chain::devnet::{Devnet, MiningMode, RunningConfig};
use bardo::chain::fork::{Fork, ForkCall, ForkSource, NextBlock};
use bardo::chain::network::{AddressBook, BookToken, DEVNET_ETHEREUM, Network};
use bardo::sandbox::genesis::Deployment;
use bardo::sandbox::plan::{ETHEREUM, SandboxToken};
use bardo::uniswap::discovery::{DiscoveryError, PoolReader, TickReach};
use bardo::uniswap::pool::{FixedAmount, Pool, ProtocolVersion};
use bardo::uniswap::routing::{GasCost, GasModel, PoolSet, Route, RouteError, RouteLeg, RouteRequest};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::world::World;

/// Account without any previous balance.
const TRADER: Address = address!("0x00000000000000000000000000000000007e57e4");
/// A deadline far in the future.
const DEADLINE: u64 = 4_000_000_000;
/// Number of routes that must be executed.
const DRAWS: usize = 500;

struct Fixture {
    reader: PoolReader,
    deployment: Arc<Deployment>,
    fork: Fork,
    tokens: Vec<Address>,
    weth: Address,
}

impl Fixture {
    async fn new() -> Self {
        let mut world = World::quiet(&ETHEREUM);
        world.chain.set_balance(TRADER, U256::MAX >> 100);
        let deployment = Arc::clone(world.background_actors.deployment());
        let running = RunningConfig { mining: MiningMode::Manual, clock: None, hook: None };
        let devnet = Devnet::adopt(world.chain, running).unwrap();
        // The balance is of the pinned block.
        devnet.mine().await.unwrap();
        let mut book = AddressBook::default();
        for (name, address) in &deployment.contracts {
            book.set(name, *address);
        }
        for (token, address) in deployment.tokens.iter().filter(|(token, _)| !token.is_bad()) {
            let plan = token.plan();
            let (symbol, name) = (plan.key.to_owned(), plan.name.to_owned());
            book.set_token(BookToken { symbol, name, decimals: plan.decimals, address: *address });
        }
        let network = Network::devnet("ethereum", DEVNET_ETHEREUM, book);
        let reader = PoolReader::new(devnet.provider(), &network).unwrap();
        let fork = Fork::pin(&ForkSource::Devnet(devnet), BlockId::latest(), NextBlock::default()).await.unwrap();
        let tokens = deployment.tokens.iter().filter(|(token, _)| !token.is_bad()).map(|(_, at)| *at).collect();
        let weth = deployment.tokens[&SandboxToken::Weth];
        Self { reader, deployment, fork, tokens, weth }
    }

    /// Call that gives the trader this amount of a token.
    fn fund(&self, token: Address, amount: U256) -> ForkCall {
        if token == self.weth {
            ForkCall::new(TRADER, token, Weth9::depositCall {}.abi_encode()).with_value(amount)
        } else {
            ForkCall::new(TRADER, token, OpenMint::mintCall { to: TRADER, value: amount }.abi_encode())
        }
    }

    fn contract(&self, name: &str) -> Address {
        self.deployment.contracts[name]
    }

    /// Executes a route as a trader who holds some of both tokens, and compares the flows with the promise. Returns the
    /// gas used if it was one transaction.
    async fn execute(&self, route: &Route) -> Option<u64> {
        let steps = self.steps(route);
        let mut calls = Vec::new();
        let mut swaps = Vec::new();
        for (to, data, [token_in, token_out], [paid, received]) in steps {
            calls.push(self.fund(token_in, paid + U256::from(1)));
            calls.push(self.fund(token_out, U256::from(1)));
            let approve = Erc20::approveCall { spender: to, value: U256::MAX };
            calls.push(ForkCall::new(TRADER, token_in, approve.abi_encode()));
            swaps.push((calls.len(), [token_in, token_out], [paid, received]));
            calls.push(ForkCall::new(TRADER, to, data));
        }
        let simulation = self.fork.simulate(&calls).await.unwrap();
        assert!(simulation.succeeded(), "{:?} of {route:?}", simulation.failure());
        for (index, [token_in, token_out], [paid, received]) in &swaps {
            let changes = simulation.changes_of(*index).unwrap();
            let moved = |token| changes.balance(token, TRADER).unwrap();
            let (given, got) = (moved(*token_in), moved(*token_out));
            assert_eq!(given.before - given.after, *paid, "paid in {route:?}");
            assert_eq!(got.after - got.before, *received, "received in {route:?}");
        }
        match &swaps[..] {
            [(index, ..)] => Some(simulation.outcomes[*index].gas_used),
            _ => None,
        }
    }

    /// One transaction if the routers can do it in one; otherwise one for each leg, and for each part of a leg with one
    /// version: target, calldata, tokens, input and output.
    fn steps(&self, route: &Route) -> Vec<(Address, Bytes, [Address; 2], [U256; 2])> {
        let router = self.contract("swapRouter02");
        let mixed = |leg: &RouteLeg| leg.hops.iter().any(|hop| hop.version != leg.hops[0].version);
        // For an exact output SwapRouter02 pays V2 pairs the required input and forwards all of their output, which
        // exceeds the request by rounding; the V2 router sends exactly the requested output.
        let rounds =
            |leg: &RouteLeg| matches!(route.exact, FixedAmount::Out(_)) && leg.hops[0].version == ProtocolVersion::V2;
        let one_by_one = route.legs.len() > 1 && route.legs.iter().any(rounds);
        if one_by_one || route.legs.iter().any(mixed) {
            let mut steps = Vec::new();
            for leg in &route.legs {
                for stretch in leg.hops.chunk_by(|one, next| one.version == next.version) {
                    let (first, last) = (&stretch[0], &stretch[stretch.len() - 1]);
                    let part = RouteLeg {
                        hops: stretch.to_vec(),
                        amount_in: first.amount_in,
                        amount_out: last.amount_out,
                        ..leg.clone()
                    };
                    let (to, data) = self.leg_alone(&part, route.exact);
                    steps.push((to, data, [first.token_in, last.token_out], [part.amount_in, part.amount_out]));
                }
            }
            return steps;
        }
        let (to, data) = match &route.legs[..] {
            [leg] => self.leg_alone(leg, route.exact),
            legs => {
                let data = legs.iter().map(|leg| on_router(leg, route.exact)).collect();
                let call = SwapRouter02::multicallCall { deadline: U256::from(DEADLINE), data };
                (router, call.abi_encode().into())
            }
        };
        vec![(to, data, [route.token_in, route.token_out], [route.amount_in, route.amount_out])]
    }

    fn leg_alone(&self, leg: &RouteLeg, exact: FixedAmount) -> (Address, Bytes) {
        if leg.hops[0].version == ProtocolVersion::V3 {
            return (self.contract("swapRouter02"), on_router(leg, exact));
        }
        let (path, to, deadline) = (tokens_of(leg), TRADER, U256::from(DEADLINE));
        let data = match exact {
            FixedAmount::In(_) => UniswapV2Router02::swapExactTokensForTokensCall {
                amountIn: leg.amount_in,
                amountOutMin: U256::ZERO,
                path,
                to,
                deadline,
            }
            .abi_encode(),
            FixedAmount::Out(_) => UniswapV2Router02::swapTokensForExactTokensCall {
                amountOut: leg.amount_out,
                amountInMax: U256::MAX,
                path,
                to,
                deadline,
            }
            .abi_encode(),
        };
        (self.contract("v2Router"), data.into())
    }
}

fn tokens_of(leg: &RouteLeg) -> Vec<Address> {
    std::iter::once(leg.hops[0].token_in).chain(leg.hops.iter().map(|hop| hop.token_out)).collect()
}

/// One leg as a call of SwapRouter02. Bounds are loose: the flows are compared afterwards.
fn on_router(leg: &RouteLeg, exact: FixedAmount) -> Bytes {
    let (amount_in, amount_out) = (leg.amount_in, leg.amount_out);
    let path = tokens_of(leg);
    let v2 = leg.hops[0].version == ProtocolVersion::V2;
    match exact {
        FixedAmount::In(_) if v2 => SwapRouter02::swapExactTokensForTokensCall {
            amountIn: amount_in,
            amountOutMin: U256::ZERO,
            path,
            to: TRADER,
        }
        .abi_encode(),
        FixedAmount::Out(_) if v2 => SwapRouter02::swapTokensForExactTokensCall {
            amountOut: amount_out,
            amountInMax: U256::MAX,
            path,
            to: TRADER,
        }
        .abi_encode(),
        FixedAmount::In(_) => {
            let mut packed = path[0].to_vec();
            for hop in &leg.hops {
                packed.extend(&hop.fee.to_be_bytes()[1..]);
                packed.extend(hop.token_out.as_slice());
            }
            let params = SwapRouter02::ExactInputParams {
                path: packed.into(),
                recipient: TRADER,
                amountIn: amount_in,
                amountOutMinimum: U256::ZERO,
            };
            SwapRouter02::exactInputCall { params }.abi_encode()
        }
        FixedAmount::Out(_) => {
            let mut packed = path[path.len() - 1].to_vec();
            for hop in leg.hops.iter().rev() {
                packed.extend(&hop.fee.to_be_bytes()[1..]);
                packed.extend(hop.token_in.as_slice());
            }
            let params = SwapRouter02::ExactOutputParams {
                path: packed.into(),
                recipient: TRADER,
                amountOut: amount_out,
                amountInMaximum: U256::MAX >> 1,
            };
            SwapRouter02::exactOutputCall { params }.abi_encode()
        }
    }
    .into()
}

/// Open side of a trade after gas, as a signed number where higher is better.
fn after_gas(exact: FixedAmount, open_side: U256, gas: U256) -> i128 {
    let open_side = i128::try_from(open_side).unwrap();
    let gas = i128::try_from(gas).unwrap();
    match exact {
        FixedAmount::In(_) => open_side - gas,
        FixedAmount::Out(_) => -open_side - gas,
    }
}

/// The best of all single paths of up to three pools, found by trying every one.
fn best_single(pools: &PoolSet, request: &RouteRequest) -> Option<i128> {
    let (from, to) = (request.token_in, request.token_out);
    let mut best = None;
    let mut open = vec![(Vec::<&Pool>::new(), vec![from])];
    while let Some((path, tokens)) = open.pop() {
        let here = tokens[tokens.len() - 1];
        if here == to {
            if let Some(score) = path_score(&path, &tokens, request) {
                best = best.max(Some(score));
            }
            continue;
        }
        if path.len() == 3 {
            continue;
        }
        // The request is without V4 pools, which these routers do not reach.
        for pool in pools.pools().iter().filter(|pool| pool.version() != ProtocolVersion::V4) {
            let next = match pool.tokens() {
                (a, b) if a == here => b,
                (a, b) if b == here => a,
                _ => continue,
            };
            // Mixed paths are offered for exact inputs only.
            let one_version = path.first().is_none_or(|first| first.version() == pool.version());
            if tokens.contains(&next) || !(one_version || matches!(request.exact, FixedAmount::In(_))) {
                continue;
            }
            let mut longer = (path.clone(), tokens.clone());
            longer.0.push(pool);
            longer.1.push(next);
            open.push(longer);
        }
    }
    best
}

fn path_score(path: &[&Pool], tokens: &[Address], request: &RouteRequest) -> Option<i128> {
    let model = request.gas_model;
    let mut units = model.transaction + model.leg;
    let mut amount = request.exact.amount();
    let mut swap = |pool: &Pool, token_in: Address| {
        let zero_for_one = pool.tokens().0 == token_in;
        let exact = match request.exact {
            FixedAmount::In(_) => FixedAmount::In(amount),
            FixedAmount::Out(_) => FixedAmount::Out(amount),
        };
        let quote = pool.quote(zero_for_one, exact).ok()?;
        units += match pool.version() {
            ProtocolVersion::V2 => model.v2_hop,
            ProtocolVersion::V3 => model.v3_hop + model.v3_tick * u64::from(quote.ticks_crossed),
            ProtocolVersion::V4 => unreachable!("no path has one"),
        };
        amount = match request.exact {
            FixedAmount::In(_) => quote.amount_out,
            FixedAmount::Out(_) => quote.amount_in,
        };
        Some(())
    };
    match request.exact {
        FixedAmount::In(_) => path.iter().zip(tokens).try_for_each(|(pool, token_in)| swap(pool, *token_in))?,
        FixedAmount::Out(_) => path.iter().zip(tokens).rev().try_for_each(|(pool, token_in)| swap(pool, *token_in))?,
    }
    (!amount.is_zero()).then(|| after_gas(request.exact, amount, request.gas.unwrap().of(units)))
}

/// Gas used, and its components: transactions, V3 pools, ticks, V2 pairs.
type Used = (f64, [f64; 4]);

fn used(route: &Route, gas: u64) -> Used {
    let hops = || route.legs.iter().flat_map(|leg| &leg.hops);
    let count = |version| hops().filter(|hop| hop.version == version).count() as f64;
    let ticks = hops().map(|hop| f64::from(hop.ticks_crossed)).sum();
    (gas as f64, [1.0, count(ProtocolVersion::V3), ticks, count(ProtocolVersion::V2)])
}

/// Least squares: the four figures that explain the measured gas best.
fn fitted(measured: &[Used]) -> [f64; 4] {
    let mut rows = [[0.0; 5]; 4];
    for (gas, parts) in measured {
        for (row, part) in rows.iter_mut().zip(parts) {
            for (cell, other) in row.iter_mut().zip(parts) {
                *cell += part * other;
            }
            row[4] += part * gas;
        }
    }
    for at in 0..4 {
        let pivot = (at..4).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs())).unwrap();
        rows.swap(at, pivot);
        let head = rows[at];
        for (other, row) in rows.iter_mut().enumerate() {
            if other != at {
                let factor = row[at] / head[at];
                row.iter_mut().zip(head).for_each(|(cell, above)| *cell -= factor * above);
            }
        }
    }
    std::array::from_fn(|at| rows[at][4] / rows[at][at])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_best_route_is_executed_to_the_wei_and_no_single_path_beats_it() {
    let fixture = Fixture::new().await;
    let all = fixture.reader.pools(&fixture.tokens, BlockId::latest(), TickReach::Whole).await.unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(23);
    let (mut executed, mut splits, mut long, mut mixed, mut two) = (0, 0, 0, 0, 0);
    let mut measured: Vec<Used> = Vec::new();
    let (mut off, mut refused) = (0.0, 0);
    while executed < DRAWS {
        let [from, to] = std::array::from_fn(|_| fixture.tokens[random.random_range(0..fixture.tokens.len())]);
        if from == to {
            continue;
        }
        let paying = random.random();
        let fixed = if paying { from } else { to };
        let pools = all.pools.pools().iter().filter(|pool| <[Address; 2]>::from(pool.tokens()).contains(&fixed));
        let depth = pools.map(|pool| pool.virtual_reserve(pool.tokens().0 == fixed)).max().unwrap();
        // From a third of a millionth of the deepest pool to an eighth, on a logarithmic scale.
        let amount = depth / U256::from(1u64 << random.random_range(3..21))
            * U256::from(random.random_range(512..1024u64))
            / U256::from(1024);
        let exact = if paying { FixedAmount::In(amount) } else { FixedAmount::Out(amount) };
        let open = if paying { to } else { from };
        let native = all.pools.token_per_native(fixture.weth, open).unwrap();
        let gas = GasCost::new(1_000_000_000, &native);
        let request = RouteRequest { gas, ..RouteRequest::new(from, to, exact) };
        let route = match fixture.reader.route(&request, BlockId::latest()).await {
            Ok((route, _)) => route,
            // Depth is virtual: far above the holdings of a narrow position.
            Err(DiscoveryError::Route(RouteError::InsufficientLiquidity { .. })) => {
                refused += 1;
                assert!(refused < DRAWS, "most draws can be filled");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        executed += 1;
        let gas = fixture.execute(&route).await;
        if let Some(best) = best_single(&all.pools, &request) {
            let open_side = if paying { route.amount_out } else { route.amount_in };
            let cost = request.gas.unwrap().of(route.gas_units);
            // Costs are rounded up once per leg if the router adds up legs.
            let rounding = route.legs.len() as i128 + 1;
            let own = after_gas(exact, open_side, cost);
            assert!(own + rounding >= best, "{own} after gas, a single path gives {best}: {route:?}");
        }
        splits += usize::from(route.legs.len() > 1);
        long += usize::from(route.legs.iter().any(|leg| leg.hops.len() == 3));
        mixed += usize::from(gas.is_none());
        two += usize::from(route.legs.iter().any(|leg| leg.hops[0].version == ProtocolVersion::V2));
        if let Some(gas) = gas {
            off += (route.gas_units as f64 / gas as f64 - 1.0).abs();
            measured.push(used(&route, gas));
        }
    }
    assert!(
        splits >= 50 && long >= 5 && mixed >= 5 && two >= 50,
        "{splits} splits, {long} long, {mixed} mixed, {two} V2"
    );
    let off = off / measured.len() as f64;
    let model = GasModel::default();
    let best = fitted(&measured);
    println!(
        "gas of {} transactions: off by {:.1} % on average; best fit {best:.0?}, model {model:?}",
        measured.len(),
        off * 100.0
    );
    assert!(off < 0.18, "the gas model is off by {:.1} % on average; the best fit is {best:.0?}", off * 100.0);
}
