//! Uniswap V4 on the devnet: what the contracts themselves say about the pools, and that quoter, Universal Router and
//! market agree.

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, Bytes, TxKind, U256, aliases::U48, aliases::U160, b256, keccak256};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::{SolCall, SolValue};

use crate::actors::{Actors, TIP, UnsentTransaction, send_from};
use crate::background_actors::BackgroundActors;
use crate::boot::{PAST_SECONDS, build_chain};
use crate::contracts::PERMIT2;
use crate::genesis::V4GenesisPool;
use crate::keys::DevnetAccount;
use crate::market_v4::v4_sqrt_price;
use crate::math::{PricedToken, amount_for, shift};
use crate::plan::{BASE, ChainSetup, ETHEREUM, PoolCurrency, PoolHook, SandboxToken};
use crate::v4_pools::target_price;
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_abi::uniswap_v4::{PoolKey, StateView, V4Quoter};
use bardo_abi::universal_router::UniversalRouter;
use golem_chain::devnet::Chain;
use golem_protocols::uniswap::v3::tick_math::tick_at_sqrt_price;

const ETHER: u128 = 1_000_000_000_000_000_000;

alloy::sol! {
    /// The addresses that the contracts were built with, and what a hook has counted.
    interface Built {
        function poolManager() external view returns (address);
        function V4_POSITION_MANAGER() external view returns (address);
        function swaps(bytes32 poolId) external view returns (uint256);
    }

    struct ExactInputSingle {
        PoolKey poolKey;
        bool zeroForOne;
        uint128 amountIn;
        uint128 amountOutMinimum;
        bytes hookData;
    }
}

struct Devnet {
    chain: Chain,
    actors: BackgroundActors,
    account: DevnetAccount,
}

impl Devnet {
    fn new(plan: &'static ChainSetup) -> Self {
        let began = 1_760_000_000 - PAST_SECONDS;
        let (chain, actors) = build_chain(7, plan, &Actors::new().unwrap(), began, &|_| {}).unwrap();
        let account = DevnetAccount::development_accounts().unwrap().remove(1);
        Self { chain, actors, account }
    }

    fn at(&self, name: &str) -> Address {
        self.actors.deployment().contracts[name]
    }

    fn pool(&self, a: PoolCurrency, b: SandboxToken, hook: Option<PoolHook>) -> V4GenesisPool {
        let hook = hook.map_or(Address::ZERO, |hook| self.at(hook.key()));
        let sides = [a, PoolCurrency::Token(b)];
        let is_it = |pool: &&V4GenesisPool| {
            pool.key.hooks == hook && sides.contains(&pool.currency0) && sides.contains(&pool.currency1)
        };
        self.actors.deployment().v4_pools.iter().find(is_it).unwrap().clone()
    }

    /// The pool's price is within its fee of the market's, plus what a block's drift may add.
    fn assert_near_the_price(&self, pool: &V4GenesisPool) {
        let prices = self.actors.prices(&self.chain);
        let quoted =
            |token: SandboxToken| PricedToken { price: prices.of(token.plan().asset), decimals: token.plan().decimals };
        let price = v4_sqrt_price(self.chain.state(), self.at("v4PoolManager"), pool.id);
        let (band, target) = (pool.key.fee.to::<i32>() + 500, target_price(pool, &quoted));
        assert!(price > shift(target, -band) && price < shift(target, band), "{pool:?} {price} {target}");
    }

    fn ask<C: SolCall>(&self, to: Address, call: C) -> C::Return {
        let request = TransactionRequest {
            from: Some(self.account.address()),
            to: Some(TxKind::Call(to)),
            input: Bytes::from(call.abi_encode()).into(),
            ..Default::default()
        };
        C::abi_decode_returns(&self.chain.call(&request, BlockId::latest(), None, None).unwrap().output).unwrap()
    }

    fn send(&mut self, to: Address, call: impl SolCall, value: U256) {
        let (to, input) = (TxKind::Call(to), call.abi_encode().into());
        let unsent = UnsentTransaction { to, value, input, gas: 1_000_000, tip: TIP, step: "a test" };
        send_from(&mut self.chain, &self.account, unsent).unwrap();
        let failure = self.chain.mine().receipts.iter().find_map(|receipt| receipt.failure.clone());
        assert!(failure.is_none(), "{failure:?}");
    }

    fn balance(&self, currency: Address) -> U256 {
        let owner = self.account.address();
        if currency.is_zero() {
            return self.chain.state().balance(owner);
        }
        self.ask(currency, Erc20::balanceOfCall { owner })
    }

    fn quote(&self, pool: &V4GenesisPool, zero_for_one: bool, amount: u128) -> U256 {
        let params = V4Quoter::QuoteExactSingleParams {
            poolKey: pool.key,
            zeroForOne: zero_for_one,
            exactAmount: amount,
            hookData: Bytes::new(),
        };
        self.ask(self.at("v4Quoter"), V4Quoter::quoteExactInputSingleCall { params }).amountOut
    }

    /// Swaps by the Universal Router's V4_SWAP, paid by the account; returns what arrived.
    fn swap(&mut self, pool: &V4GenesisPool, zero_for_one: bool, amount: u128) -> U256 {
        let (give, take) = if zero_for_one {
            (pool.key.currency0, pool.key.currency1)
        } else {
            (pool.key.currency1, pool.key.currency0)
        };
        let router = self.at("universalRouterV2_1_0");
        if !give.is_zero() {
            self.send(give, Erc20::approveCall { spender: PERMIT2, value: U256::MAX }, U256::ZERO);
            let permit = Permit2::approveCall { token: give, spender: router, amount: U160::MAX, expiration: U48::MAX };
            self.send(PERMIT2, permit, U256::ZERO);
        }
        let swap = ExactInputSingle {
            poolKey: pool.key,
            zeroForOne: zero_for_one,
            amountIn: amount,
            amountOutMinimum: 0,
            hookData: Bytes::new(),
        };
        // SWAP_EXACT_IN_SINGLE, SETTLE_ALL, TAKE_ALL (`Actions` of v4-periphery).
        let inputs: Vec<Bytes> = vec![
            swap.abi_encode().into(),
            (give, U256::from(amount)).abi_encode_params().into(),
            (take, U256::ZERO).abi_encode_params().into(),
        ];
        let input = (Bytes::from_static(&[0x06, 0x0c, 0x0f]), inputs).abi_encode_params();
        let call = UniversalRouter::execute_0Call { commands: Bytes::from_static(&[0x10]), inputs: vec![input.into()] };
        let before = self.balance(take);
        self.send(router, call, if give.is_zero() { U256::from(amount) } else { U256::ZERO });
        let after = self.balance(take);
        // Gas is paid in the native token; no other test transaction is in the block.
        if take.is_zero() { after + self.last_gas() - before } else { after - before }
    }

    fn last_gas(&self) -> U256 {
        let block = self.chain.block(BlockId::latest()).unwrap();
        let receipt = block.receipts.last().unwrap();
        U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price)
    }
}

#[test]
fn every_contract_knows_the_pool_manager_that_was_deployed() {
    let devnet = Devnet::new(&BASE);
    let manager = devnet.at("v4PoolManager");
    for name in ["universalRouterV2_1_0", "v4PositionManager", "v4StateView", "v4Quoter"] {
        assert_eq!(devnet.ask(devnet.at(name), Built::poolManagerCall {}), manager, "{name}");
    }
    let positions = devnet.ask(devnet.at("universalRouterV2_1_0"), Built::V4_POSITION_MANAGERCall {});
    assert_eq!(positions, devnet.at("v4PositionManager"));
}

/// The pools by StateView: the hash of the key is the id, there is liquidity in range, the storage slot that the market
/// reads holds the price, and it is near the market's.
#[test]
fn the_pools_are_filled_and_near_the_price() {
    for plan in [&ETHEREUM, &BASE] {
        let devnet = Devnet::new(plan);
        let view = devnet.at("v4StateView");
        let deployment = devnet.actors.deployment();
        assert_eq!(deployment.v4_pools.len(), plan.v4_pools.len());
        for pool in &deployment.v4_pools {
            assert_eq!(pool.id, keccak256(pool.key.abi_encode()));
            let slot0 = devnet.ask(view, StateView::getSlot0Call { poolId: pool.id });
            let price = U256::from(slot0.sqrtPriceX96);
            assert!(devnet.ask(view, StateView::getLiquidityCall { poolId: pool.id }) > 0, "{pool:?}");
            assert_eq!(v4_sqrt_price(devnet.chain.state(), devnet.at("v4PoolManager"), pool.id), price);
            assert_eq!(slot0.tick.as_i32(), tick_at_sqrt_price(price).unwrap());
            assert_eq!((slot0.protocolFee.to::<u32>(), slot0.lpFee), (0, pool.key.fee));
            if Some(&pool.key.hooks) != deployment.contracts.get(PoolHook::SwapTax.key()) {
                devnet.assert_near_the_price(pool);
            }
        }
    }
}

/// After a fall of a fifth, the arbitrageur has moved every pool but the taxed one to the new price.
#[test]
fn the_market_keeps_the_pools_at_its_price() {
    let mut devnet = Devnet::new(&ETHEREUM);
    let manager = devnet.at("v4PoolManager");
    let tax = devnet.at(PoolHook::SwapTax.key());
    let before = devnet.actors.deployment().v4_pools.clone();
    let price = |devnet: &Devnet, id| v4_sqrt_price(devnet.chain.state(), manager, id);
    let prices: Vec<U256> = before.iter().map(|pool| price(&devnet, pool.id)).collect();
    devnet.actors.crash(&devnet.chain, 200_000, 10);
    for _ in 0..12 {
        devnet.actors.act(&mut devnet.chain).unwrap();
        let failure = devnet.chain.mine().receipts.iter().find_map(|receipt| receipt.failure.clone());
        assert!(failure.is_none(), "{failure:?}");
    }
    for (pool, was) in before.iter().zip(prices) {
        if pool.key.hooks == tax {
            assert_eq!(price(&devnet, pool.id), was);
        } else {
            devnet.assert_near_the_price(pool);
        }
    }
}

#[test]
fn quoter_and_router_agree_to_the_unit_in_every_kind_of_pool() {
    let mut devnet = Devnet::new(&ETHEREUM);
    let (native, usdc) = (PoolCurrency::Native, SandboxToken::Usdc);
    let plain = devnet.pool(native, usdc, None);
    let counted = devnet.pool(native, usdc, Some(PoolHook::SwapCount));
    let taxed = devnet.pool(native, usdc, Some(PoolHook::SwapTax));
    let stable = devnet.pool(PoolCurrency::Token(SandboxToken::Usdt), usdc, None);
    let counter = devnet.at(PoolHook::SwapCount.key());
    let before = devnet.ask(counter, Built::swapsCall { poolId: counted.id });
    let usdc_is_0 = stable.currency0 == PoolCurrency::Token(usdc);
    for (pool, zero_for_one, amount) in [
        (&plain, true, 3 * ETHER),
        (&plain, false, 2_000_000_000),
        (&counted, true, ETHER),
        (&taxed, true, ETHER),
        (&stable, usdc_is_0, 1_500_000_000),
    ] {
        let quoted = devnet.quote(pool, zero_for_one, amount);
        assert!(!quoted.is_zero());
        assert_eq!(devnet.swap(pool, zero_for_one, amount), quoted, "{pool:?}");
    }
    let after = devnet.ask(counter, Built::swapsCall { poolId: counted.id });
    assert_eq!(after, before + U256::ONE);
    // The taxed pool has a fee of 0.01 % and stays at the first price; the hook takes two percent of the output.
    let ether = PricedToken { price: crate::target::PricedAsset::Eth.anchor(), decimals: 18 };
    let dollars = amount_for(1_000, PricedToken { price: crate::target::DOLLAR, decimals: 6 });
    let worth = devnet.quote(&taxed, true, amount_for(1_000, ether).saturating_to());
    assert!(worth < dollars * U256::from(981) / U256::from(1_000), "{worth}");
    assert!(worth > dollars * U256::from(960) / U256::from(1_000), "{worth}");
}

/// The hooks' addresses state exactly their permissions: only then does the pool manager call them.
#[test]
fn hook_addresses_carry_their_flags() {
    let devnet = Devnet::new(&ETHEREUM);
    // After-swap is bit 6, its returned delta bit 2 (`Hooks` of v4-core).
    for (hook, flags) in [(PoolHook::SwapCount, 0x40), (PoolHook::SwapTax, 0x44)] {
        let [.., high, low] = devnet.at(hook.key()).into_array();
        assert_eq!(u16::from_be_bytes([high, low]) & 0x3fff, flags, "{hook:?}");
    }
}

/// The topic is that of mainnet's pool manager.
#[test]
fn the_pool_manager_announces_each_pool_with_its_key() {
    let topic: B256 = b256!("0xdd466e674ea557f56295e2d0218a125ea4b4f0f6f3307b95f85e6110838d6438");
    let devnet = Devnet::new(&BASE);
    let manager = devnet.at("v4PoolManager");
    let logs =
        devnet.chain.blocks(0, u64::MAX).flat_map(|block| &block.receipts).flat_map(|receipt| receipt.envelope.logs());
    let ids: Vec<B256> = logs
        .filter(|log| log.address == manager && log.topics().first() == Some(&topic))
        .filter_map(|log| log.topics().get(1).copied())
        .collect();
    let pools: Vec<B256> = devnet.actors.deployment().v4_pools.iter().map(|pool| pool.id).collect();
    // Those of the hostile hooks follow.
    let (first, hostile) = ids.split_at(pools.len());
    assert_eq!((first, hostile.len()), (pools.as_slice(), 3));
}
