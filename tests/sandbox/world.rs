//! One populated chain for a test, with helpers for reading and acting.

use alloy::consensus::TxEip1559;
use alloy::eips::BlockId;
use alloy::primitives::{Address, Bytes, TxKind, U256, aliases::U24, aliases::U160};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use bardo::abi::erc20::{Erc20, Weth9};
use bardo::abi::uniswap_v2::UniswapV2Router02;
use bardo::abi::uniswap_v3::QuoterV2;
use bardo::chain::devnet::{Chain, ChainTransaction, Receipt};
use bardo::sandbox::BackgroundActors;
use bardo::sandbox::MarketMode;
use bardo::sandbox::actors::Actors;
use bardo::sandbox::boot::{PAST_SECONDS, build_chain};
use bardo::sandbox::genesis::{DeployedToken, GenesisPool};
use bardo::sandbox::keys::DevnetAccount;
use bardo::sandbox::plan::{ChainSetup, SandboxToken, Venue};
use bardo::sandbox::target::PricedAsset;

pub const START: u64 = 1_800_000_000;

pub struct World {
    pub chain: Chain,
    pub background_actors: BackgroundActors,
    pub accounts: Vec<DevnetAccount>,
}

impl World {
    pub fn new(plan: &'static ChainSetup) -> Self {
        Self::seeded(plan, 1)
    }

    pub fn seeded(plan: &'static ChainSetup, seed: u64) -> Self {
        Self::begun(plan, seed, START)
    }

    /// Chain whose generated past ends at `start`.
    pub fn begun(plan: &'static ChainSetup, seed: u64, start: u64) -> Self {
        let accounts = DevnetAccount::development_accounts().unwrap();
        let actors = Actors::new().unwrap();
        let (chain, background_actors) = build_chain(seed, plan, &actors, start - PAST_SECONDS, &|_| {}).unwrap();
        Self { chain, background_actors, accounts }
    }

    /// Chain on which only the test acts.
    pub fn quiet(plan: &'static ChainSetup) -> Self {
        let world = Self::new(plan);
        world.background_actors.set_market(&world.chain, MarketMode::Off);
        world.background_actors.set_keeper_rests(true);
        world
    }

    pub fn demo(&self) -> Address {
        self.accounts[0].address()
    }

    pub fn contract(&self, name: &str) -> Address {
        self.background_actors.deployment().contracts[name]
    }

    pub fn token(&self, token: SandboxToken) -> Address {
        self.background_actors.deployment().tokens[&token]
    }

    pub fn pool(&self, a: SandboxToken, b: SandboxToken, venue: Venue) -> GenesisPool {
        let has = |pool: &GenesisPool, token| pool.token0.token == token || pool.token1.token == token;
        let pools = &self.background_actors.deployment().pools;
        *pools.iter().find(|pool| has(pool, a) && has(pool, b) && pool.venue == venue).unwrap()
    }

    /// Answer of a call, or the revert data.
    pub fn try_ask<C: SolCall>(&self, to: Address, call: C) -> Result<C::Return, String> {
        let request = TransactionRequest {
            from: Some(self.demo()),
            to: Some(TxKind::Call(to)),
            input: Bytes::from(call.abi_encode()).into(),
            ..Default::default()
        };
        let outcome = self.chain.call(&request, BlockId::latest(), None, None).map_err(|error| error.to_string())?;
        C::abi_decode_returns(&outcome.output).map_err(|error| error.to_string())
    }

    pub fn ask<C: SolCall>(&self, to: Address, call: C) -> C::Return {
        self.try_ask(to, call).unwrap()
    }

    pub fn balance(&self, token: SandboxToken, owner: Address) -> U256 {
        self.ask(self.token(token), Erc20::balanceOfCall { owner })
    }

    /// Makes one block with the actors, a second later.
    pub fn block(&mut self) {
        self.background_actors.act(&mut self.chain).unwrap();
        let block = self.chain.mine();
        for (transaction, receipt) in block.transactions.iter().zip(&block.receipts) {
            assert!(receipt.failure.is_none(), "{:?} {transaction:?}", receipt.failure);
        }
    }

    /// Makes one block with the actors; returns the number of failures, such as fillers that lose a race.
    pub fn busy_block(&mut self) -> usize {
        self.background_actors.act(&mut self.chain).unwrap();
        self.chain.mine().receipts.iter().filter(|receipt| !receipt.is_success()).count()
    }

    /// Wraps ether of a development account.
    pub fn wrap(&mut self, account: usize, value: U256) {
        let weth = self.token(SandboxToken::Weth);
        assert!(self.pay(account, weth, Weth9::depositCall {}, value).is_success());
    }

    /// Signs, sends and mines a call of a development account; nobody else acts.
    pub fn transact<C: SolCall>(&mut self, account: usize, to: Address, call: C) -> Receipt {
        self.pay(account, to, call, U256::ZERO)
    }

    /// Same as [`transact`](Self::transact), with ether.
    fn pay<C: SolCall>(&mut self, account: usize, to: Address, call: C, value: U256) -> Receipt {
        let party = &self.accounts[account];
        let signed = party
            .sign(TxEip1559 {
                chain_id: self.chain.rules().chain_id,
                nonce: self.chain.pending_nonce(party.address()),
                gas_limit: 1_000_000,
                max_fee_per_gas: 100_000_000_000,
                max_priority_fee_per_gas: 1_000_000_000,
                to: TxKind::Call(to),
                value,
                access_list: Default::default(),
                input: call.abi_encode().into(),
            })
            .unwrap();
        self.chain.submit(ChainTransaction::signed(signed).unwrap()).unwrap();
        let block = self.chain.mine();
        assert_eq!(block.receipts.len(), 1);
        block.receipts[0].clone()
    }

    /// Output of a pool for `amount`, from the protocol's own lens.
    pub fn quote(&self, pool: &GenesisPool, give: DeployedToken, take: DeployedToken, amount: U256) -> U256 {
        match pool.venue {
            Venue::V2 => {
                let path = vec![give.address, take.address];
                let call = UniswapV2Router02::getAmountsOutCall { amountIn: amount, path };
                *self.ask(self.contract("v2Router"), call).last().unwrap()
            }
            Venue::V3(fee) => {
                let params = QuoterV2::QuoteExactInputSingleParams {
                    tokenIn: give.address,
                    tokenOut: take.address,
                    amountIn: amount,
                    fee: U24::from(fee),
                    sqrtPriceLimitX96: U160::ZERO,
                };
                self.ask(self.contract("quoterV2"), QuoterV2::quoteExactInputSingleCall { params }).amountOut
            }
        }
    }

    /// The market's dollar price, as a float for tolerances.
    pub fn price(&self, asset: PricedAsset) -> f64 {
        self.background_actors.price(&self.chain, asset) as f64 / 1e8
    }

    /// Distance between a pool's price of token 0 in token 1, without the fee, and the market's: 0.01 is one percent.
    pub fn distance(&self, pool: &GenesisPool) -> f64 {
        let (token0, token1) = (pool.token0.token.plan(), pool.token1.token.plan());
        // About twenty dollars: enough for six decimals, too little to move the price.
        let dollars = 20.0;
        let whole = dollars / self.price(token0.asset) * 10_f64.powi(token0.decimals.into());
        let amount = U256::from(whole as u128);
        let out = self.quote(pool, pool.token0, pool.token1, amount);
        let got = u128::try_from(out).unwrap() as f64 / 10_f64.powi(token1.decimals.into()) * self.price(token1.asset);
        let gave =
            u128::try_from(amount).unwrap() as f64 / 10_f64.powi(token0.decimals.into()) * self.price(token0.asset);
        got / (gave * (1.0 - f64::from(pool.venue.fee()) / 1e6)) - 1.0
    }

    /// Pools of well-behaved tokens.
    pub fn sound_pools(&self) -> Vec<GenesisPool> {
        let pools = &self.background_actors.deployment().pools;
        pools.iter().filter(|pool| !pool.token0.token.is_bad() && !pool.token1.token.is_bad()).copied().collect()
    }
}
