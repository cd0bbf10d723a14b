//! Random swaps over pools of all versions, sent through the real Universal Router: what is paid and received equals the
//! quote to the unit. And what the router does where a V4 pool's liquidity ends.

use std::collections::BTreeMap;

use alloy::primitives::aliases::I24;
use alloy::sol_types::SolValue as _;
use bardo::abi::permit2::Permit2;
use bardo::abi::uniswap_v4::{PoolManager, PositionManager};
use bardo::abi::universal_router::UniversalRouter;
use bardo::uniswap::discovery::keys_of;
use bardo::uniswap::router::{SwapAmounts, SwapCommand, V4Path, V4Step};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Kinds of swaps that were sent.
#[derive(Debug, Default)]
struct Seen {
    sent: u32,
    through_v4: u32,
    v4_beside_others: u32,
    v4_native: u32,
    v4_bought: u32,
    mixed_paths: u32,
}

impl Seen {
    fn count(&mut self, route: &Route) {
        let hops = || route.legs.iter().flat_map(|leg| &leg.hops);
        let through_v4 = hops().any(|hop| hop.version == PoolVersion::V4);
        let beside = through_v4 && hops().any(|hop| hop.version != PoolVersion::V4);
        let native = hops().any(|hop| hop.key.as_ref().is_some_and(|key| key.currency0.is_zero()));
        let mixed = route.legs.iter().any(|leg| leg.hops.windows(2).any(|pair| pair[0].version != pair[1].version));
        self.sent += 1;
        self.through_v4 += u32::from(through_v4);
        self.v4_beside_others += u32::from(beside);
        self.v4_native += u32::from(native);
        self.v4_bought += u32::from(through_v4 && matches!(route.exact, FixedAmount::Out(_)));
        self.mixed_paths += u32::from(mixed);
    }
}

/// A pool that a draw may use.
type Keep = fn(&Floor, &Pool) -> bool;

#[tokio::test(flavor = "multi_thread")]
async fn random_swaps_over_all_versions_pay_and_receive_what_was_quoted() {
    let floor = Floor::open().await;
    let (trader, router) = (floor.trader.address(), floor.contract("universalRouterV2_1_0"));
    floor.devnet.run(move |chain| chain.set_balance(trader, units(3_000, 18))).await.expect("a chain");
    let kinds = [
        None,
        Some(SandboxToken::Weth),
        Some(SandboxToken::Usdc),
        Some(SandboxToken::Usdt),
        Some(SandboxToken::Uni),
        Some(SandboxToken::Link),
    ];
    for token in kinds.into_iter().flatten() {
        floor.approve_permit2(floor.token(token)).await;
    }
    let keeps: [Keep; 4] = [
        |_, _| true,
        |_, pool| pool.version() == PoolVersion::V4,
        |_, pool| pool.version() != PoolVersion::V2,
        |_, pool| pool.version() != PoolVersion::V3,
    ];
    let mut random = ChaCha8Rng::seed_from_u64(26);
    let (mut nonces, mut seen) = (BTreeMap::<Address, u64>::new(), Seen::default());
    for draw in 0..60 {
        let [from, to] = [random.random_range(0..kinds.len()), random.random_range(0..kinds.len())];
        let wrapped = |at: usize| floor.token(kinds[at].unwrap_or(SandboxToken::Weth));
        let held = floor.balance(kinds[from].map(|token| floor.token(token)), trader).await;
        if wrapped(from) == wrapped(to) || held < U256::from(1_000_000) {
            continue;
        }
        // From a millionth to a tenth of the balance.
        let divisor = 10_f64.powf(random.random_range(1.0..6.0)) as u64;
        let sold = held / U256::from(divisor);
        let mut asked = RouteRequest::new(wrapped(from), wrapped(to), FixedAmount::In(sold));
        (asked.v4, asked.pays_native) = (true, kinds[from].is_none());
        asked.max_legs = random.random_range(1..=4);
        let keep = keeps[random.random_range(0..keeps.len())];
        let ends = [asked.token_in, asked.token_out];
        let found = floor.reader.pools(&ends, BlockId::latest(), TickReach::Whole).await.expect("pools");
        let kept = PoolSet::new(found.pools.pools().iter().filter(|pool| keep(&floor, pool)).cloned());
        let Ok(mut route) = best_route(&kept, &asked) else { continue };
        if random.random() {
            asked.exact = FixedAmount::Out(route.amount_out - route.amount_out / U256::from(7));
            asked.mixed_paths = false;
            let Ok(bought) = best_route(&kept, &asked) else { continue };
            route = bought;
        }
        let slippage = BasisPoints::new(50).expect("a share");
        let exact_input = matches!(asked.exact, FixedAmount::In(_));
        let most = if exact_input { route.amount_in } else { slippage.maximum_in(route.amount_in).expect("fits") };
        let permit = kinds[from].map(|_| {
            let nonce = nonces.entry(wrapped(from)).or_default();
            *nonce += 1;
            let permit = floor.permit(wrapped(from), most, *nonce - 1);
            let digest = floor.stand_in(&permit).digest;
            (permit, Bytes::from(floor.trader.sign_hash_sync(&digest).expect("signs").as_bytes()))
        });
        let trade = plan(&SwapRequest {
            route: &route,
            native_in: kinds[from].is_none(),
            native_out: kinds[to].is_none(),
            slippage,
            recipient: OutputRecipient::Account(trader),
            permit,
            portion: None,
            one_bound: random.random(),
            deadline: Some(U256::from(1_800_001_000_u64)),
        })
        .expect("a plan");
        let data = trade.execution.encode(RouterVersion::V2_1_0);
        assert_eq!(RouterExecution::decode(&data, RouterVersion::V2_1_0).as_ref(), Ok(&trade.execution), "{draw}");
        let sides = [kinds[from], kinds[to]].map(|token| token.map(|token| floor.token(token)));
        let before = [floor.balance(sides[0], trader).await, floor.balance(sides[1], trader).await];
        let block = floor.send(router, trade.value, data).await;
        let after = [floor.balance(sides[0], trader).await, floor.balance(sides[1], trader).await];
        let receipt = &block.receipts[0];
        assert!(receipt.is_success(), "{draw}: {:?} of {:?}", receipt.failure, trade.execution);
        let gas = U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price);
        let gas_of = |token: Option<Address>| if token.is_none() { gas } else { U256::ZERO };
        assert_eq!(before[0] - after[0] - gas_of(sides[0]), route.amount_in, "{draw}: {:?}", trade.execution);
        let got = after[1] + gas_of(sides[1]) - before[1];
        // Pairs of V2 get their input rounded up, and give what it buys.
        let v2 = route.legs.iter().flat_map(|leg| &leg.hops).any(|hop| hop.version == PoolVersion::V2);
        if exact_input || !v2 {
            assert_eq!(got, route.amount_out, "{draw}: {:?}", trade.execution);
        } else {
            let more = got - route.amount_out;
            assert!(more * U256::from(100_000) <= route.amount_out, "{draw}: {more} more");
        }
        if route.legs.iter().flat_map(|leg| &leg.hops).all(|hop| hop.version == PoolVersion::V4) {
            // The estimate, which ranks routes, is within two fifths; it does not count an allowance in the call.
            let off = receipt.gas_used.abs_diff(route.gas_units);
            assert!(off * 5 < route.gas_units * 2, "{draw}: {} of {}", receipt.gas_used, route.gas_units);
        }
        seen.count(&route);
    }
    for token in kinds {
        let left = floor.balance(token.map(|token| floor.token(token)), router).await;
        assert_eq!(left, U256::ZERO, "{token:?}");
    }
    let Seen { sent, through_v4, v4_beside_others, v4_native, v4_bought, mixed_paths } = seen;
    let kinds = [through_v4, v4_beside_others, v4_native, v4_bought, mixed_paths];
    assert!(sent >= 30 && kinds.iter().all(|count| *count >= 2), "{seen:?}");
}

/// A purchase of more than a V4 pool holds: the router's own action would take what there is. The planned call names the
/// amount, and reverts.
#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_that_a_pool_cannot_fill_is_reverted() {
    let floor = Floor::open().await;
    let (router, permit2) = (floor.contract("universalRouterV2_1_0"), floor.contract("permit2"));
    let usdc = floor.token(SandboxToken::Usdc);
    // A pool of its own at a price of one, which sells some 1,000,000 wei and nothing more:
    // 2 × 10^9 × (1 / 1.0001^5 − 1 / 1.0001^10) = 999,250.
    let key = keys_of(Address::ZERO, usdc).find(|key| key.fee.to::<u32>() == 500).expect("a usual key");
    let root = U160::from(1_u8) << 96_u32;
    let open = PoolManager::initializeCall { key, sqrtPriceX96: root };
    let tick = |index: i32| I24::try_from(index).expect("a tick");
    let (most, owner) = (1_000_000_u128, floor.trader.address());
    let mint = (key, tick(10), tick(20), U256::from(2_000_000_000_u64), most, 0_u128, owner, Bytes::new());
    // MINT_POSITION, SETTLE_PAIR and SWEEP (`Actions` of v4-periphery).
    let inputs: Vec<Bytes> = vec![
        mint.abi_encode_params().into(),
        (Address::ZERO, usdc).abi_encode_params().into(),
        (Address::ZERO, owner).abi_encode_params().into(),
    ];
    let actions = Bytes::from_static(&[0x02, 0x0d, 0x14]);
    let fill = PositionManager::modifyLiquiditiesCall {
        unlockData: (actions, inputs).abi_encode_params().into(),
        deadline: U256::MAX,
    };
    let approve = Permit2::approveCall { token: usdc, spender: router, amount: U160::MAX, expiration: U48::MAX };
    floor.approve_permit2(usdc).await;
    for (to, value, data) in [
        (floor.contract("v4PoolManager"), U256::ZERO, open.abi_encode()),
        (floor.contract("v4PositionManager"), U256::from(most), fill.abi_encode()),
        (permit2, U256::ZERO, approve.abi_encode()),
    ] {
        let block = floor.send(to, value, data.into()).await;
        assert!(block.receipts[0].is_success(), "{:?}", block.receipts[0].failure);
    }

    let friend = Address::repeat_byte(0x33);
    let step = V4Step { fee: key.fee, tick_spacing: key.tickSpacing, hooks: key.hooks, currency_out: Address::ZERO };
    let buy = |amount: u64| RouterExecution {
        commands: vec![RouterCommand::Swap(SwapCommand {
            path: SwapPath::V4(V4Path::new(usdc, vec![step]).expect("a path")),
            exact: SwapAmounts::Out { amount: U256::from(amount), in_max: units(100, 6) },
            recipient: friend,
            payer_is_user: true,
            min_hop_prices: Vec::new(),
        })],
        deadline: None,
    };
    let too_much = buy(2_000_000).encode(RouterVersion::V2_1_0);
    let block = floor.send(router, U256::ZERO, too_much.clone()).await;
    assert!(!block.receipts[0].is_success());
    assert_eq!(floor.balance(None, friend).await, U256::ZERO);
    let block = floor.send(router, U256::ZERO, buy(5_000).encode(RouterVersion::V2_1_0)).await;
    assert!(block.receipts[0].is_success(), "{:?}", block.receipts[0].failure);
    assert_eq!(floor.balance(None, friend).await, U256::from(5_000));

    // The same call that takes all there is (an amount of zero) succeeds, and brings less; it is not read back.
    let mut call = UniversalRouter::execute_0Call::abi_decode(&too_much).expect("a call");
    let (actions, mut parameters) = <(Bytes, Vec<Bytes>)>::abi_decode_params(&call.inputs[0]).expect("a program");
    parameters[2] = (Address::ZERO, friend, U256::ZERO).abi_encode_params().into();
    call.inputs[0] = (actions, parameters).abi_encode_params().into();
    let open = Bytes::from(call.abi_encode());
    assert!(RouterExecution::decode(&open, RouterVersion::V2_1_0).is_err());
    let block = floor.send(router, U256::ZERO, open).await;
    assert!(block.receipts[0].is_success(), "{:?}", block.receipts[0].failure);
    assert_eq!(floor.balance(None, friend).await / U256::from(1_000), U256::from(999));
}
