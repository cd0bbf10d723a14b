//! Simulation compared with execution: random transactions on the populated devnet are simulated in the next block's
//! environment and then sent; both must have the same effects.
//!
//! Every failure message contains the seed, which can be set with `BARDO_SEED`. The actual effects are read from
//! receipts and state. A second state is computed from the simulation alone, and the two states must be equal.

use std::fmt::Write as _;

use alloy::consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEip7702, TxEnvelope, TxLegacy};
use alloy::eips::BlockId;
use alloy::eips::eip2930::{AccessList, AccessListItem};
use alloy::eips::eip7702::Authorization;
use alloy::primitives::aliases::{U24, U48, U160};
use alloy::primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use alloy::providers::{Provider, ProviderBuilder};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::SolCall;
use bardo::abi::erc20::{Erc20, OpenMint, Weth9};
use bardo::abi::permit2::Permit2;
use bardo::abi::uniswap_v2::UniswapV2Router02;
use bardo::abi::uniswap_v3::SwapRouter02;
use bardo::chain::devnet::{Block, ChainTransaction, Devnet, ForkPoint, WorldState};
use bardo::chain::evm::{self, CheckMode};
use bardo::chain::fork::{
    ExecutionStatus, Fork, ForkCall, ForkSource, NextBlock, RemoteLimits, RemoteState, Simulation, StateChanges,
};
use bardo::sandbox::genesis::{Deployment, GenesisPool};
use bardo::sandbox::plan::Venue;
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use revm::context::TxEnv;

use crate::simulation::world::ether;

const TRADERS: usize = 6;
const GWEI: u128 = 1_000_000_000;
/// EIP-2935 contract for block hashes; a block writes to it before its transactions.
const HISTORY: Address = alloy::eips::eip2935::HISTORY_STORAGE_ADDRESS;

pub fn seed(default: u64) -> u64 {
    std::env::var("BARDO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(default)
}

/// The devnet's first chain with its market paused, and the test's random state.
pub struct Exchange {
    pub devnet: Devnet,
    random: ChaCha8Rng,
    traders: Vec<PrivateKeySigner>,
    deployment: std::sync::Arc<Deployment>,
    tokens: Vec<(Address, u8)>,
    seed: u64,
}

/// A transaction and its purpose.
pub struct Attempt {
    pub envelope: TxEnvelope,
    pub what: String,
}

impl Exchange {
    pub async fn open(seed: u64) -> Self {
        let config = SandboxConfig {
            seed,
            start_time: 1_800_000_000,
            pace: BlockPace::Manual,
            clock: None,
            market: MarketMode::Off,
            keeper: false,
        };
        let sandbox = tokio::task::spawn_blocking(move || Sandbox::boot(&config, &|_| {}))
            .await
            .expect("boots")
            .expect("a sandbox");
        let chain = sandbox.chain("ethereum").expect("the first chain");
        let (devnet, deployment) = (chain.devnet.clone(), std::sync::Arc::clone(&chain.deployment));
        devnet.clear_block_hook().await.expect("a chain");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let traders: Vec<_> = (0..TRADERS)
            .map(|_| PrivateKeySigner::from_bytes(&B256::from(random.random::<[u8; 32]>())).expect("a key"))
            .collect();
        let tokens = deployment.tokens.iter().map(|(token, address)| (*address, token.plan().decimals)).collect();
        let mut exchange = Self { devnet, random, traders, deployment, tokens, seed };
        exchange.endow().await;
        exchange
    }

    /// Gives every trader ether, tokens and some approvals.
    async fn endow(&mut self) {
        let traders: Vec<Address> = self.traders.iter().map(PrivateKeySigner::address).collect();
        self.devnet
            .run(move |chain| traders.into_iter().for_each(|trader| chain.set_balance(trader, ether(10_000))))
            .await
            .expect("a chain");
        for trader in 0..TRADERS {
            let to = self.traders[trader].address();
            for (token, decimals) in self.tokens.clone() {
                let (value, call) = if token == self.deployment.weth {
                    (ether(500), Weth9::depositCall {}.abi_encode())
                } else {
                    let value = U256::from(1_000_000) * U256::from(10).pow(U256::from(decimals));
                    (U256::ZERO, OpenMint::mintCall { to, value }.abi_encode())
                };
                self.send_now(trader, token, value, call).await;
                for spender in [self.deployment.swap_router, self.deployment.v2_router] {
                    if self.random.random_bool(0.8) {
                        let call = Erc20::approveCall { spender, value: U256::MAX }.abi_encode();
                        self.send_now(trader, token, U256::ZERO, call).await;
                    }
                }
            }
        }
    }

    async fn send_now(&mut self, trader: usize, to: Address, value: U256, data: Vec<u8>) {
        let envelope = self.sign(trader, TxKind::Call(to), value, data.into(), 400_000).await;
        let (_, block, _) = self.execute(envelope).await;
        assert_eq!(block.receipts.len(), 1);
    }

    async fn sign(&mut self, trader: usize, to: TxKind, value: U256, data: Bytes, gas_limit: u64) -> TxEnvelope {
        let signer = self.traders[trader].clone();
        let from = signer.address();
        let (nonce, base_fee, chain_id) = self
            .devnet
            .run(move |chain| (chain.state().nonce(from), chain.next_base_fee(), chain.rules().chain_id))
            .await
            .expect("a chain");
        let max_fee = u128::from(base_fee) * 2 + GWEI;
        let tip = self.random.random_range(0..2 * GWEI).min(max_fee);
        let access_list = if self.random.random_bool(0.2) {
            let address = *[self.deployment.weth, self.deployment.swap_router].choose(&mut self.random).expect("one");
            AccessList(vec![AccessListItem { address, storage_keys: vec![B256::ZERO, B256::with_last_byte(3)] }])
        } else {
            AccessList::default()
        };
        fn finish<T: SignableTransaction<Signature>>(signer: &PrivateKeySigner, tx: T) -> TxEnvelope
        where
            TxEnvelope: From<alloy::consensus::Signed<T>>,
        {
            let signature = signer.sign_hash_sync(&tx.signature_hash()).expect("signs");
            tx.into_signed(signature).into()
        }
        let kind = match to {
            TxKind::Call(_) => self.random.random_range(0..10),
            TxKind::Create => self.random.random_range(0..9),
        };
        let gas_price = max_fee;
        match (kind, to) {
            (0, _) => {
                let chain_id = Some(chain_id);
                finish(&signer, TxLegacy { chain_id, nonce, gas_price, gas_limit, to, value, input: data })
            }
            (1, _) => finish(
                &signer,
                TxEip2930 { chain_id, nonce, gas_price, gas_limit, to, value, access_list, input: data },
            ),
            (9, TxKind::Call(to)) => {
                // Another trader delegates to a contract, or with a wrong nonce.
                let authority = self.traders.choose(&mut self.random).expect("one").clone();
                let account = authority.address();
                let known = self.devnet.run(move |chain| chain.state().nonce(account)).await.expect("a chain");
                let own = u64::from(account == from);
                let wrong = u64::from(self.random.random_bool(0.2));
                let code = [self.deployment.weth, Address::ZERO].choose(&mut self.random).copied().expect("one");
                let authorization =
                    Authorization { chain_id: U256::from(chain_id), address: code, nonce: known + own + wrong };
                let signature = authority.sign_hash_sync(&authorization.signature_hash()).expect("signs");
                finish(
                    &signer,
                    TxEip7702 {
                        chain_id,
                        nonce,
                        gas_limit: gas_limit + 100_000,
                        max_fee_per_gas: max_fee,
                        max_priority_fee_per_gas: tip,
                        to,
                        value,
                        access_list,
                        authorization_list: vec![authorization.into_signed(signature)],
                        input: data,
                    },
                )
            }
            _ => finish(
                &signer,
                TxEip1559 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas: max_fee,
                    max_priority_fee_per_gas: tip,
                    to,
                    value,
                    access_list,
                    input: data,
                },
            ),
        }
    }

    fn amount(&mut self, token: Address) -> U256 {
        let decimals = self.tokens.iter().find(|(known, _)| *known == token).map_or(18, |(_, decimals)| *decimals);
        let scale = U256::from(10).pow(U256::from(decimals));
        let cents = U256::from(self.random.random_range(1..10_000_u64));
        match self.random.random_range(0..20) {
            0 => U256::ZERO,
            1 => U256::from(1),
            // More than anyone has.
            2 => scale * U256::from(10).pow(U256::from(9)),
            // Across many ticks.
            3 | 4 => scale * cents,
            _ => scale * cents / U256::from(100),
        }
    }

    fn pool(&mut self, wanted: fn(&GenesisPool) -> bool) -> GenesisPool {
        let pools: Vec<GenesisPool> = self.deployment.pools.iter().copied().filter(wanted).collect();
        *pools.choose(&mut self.random).expect("a pool")
    }

    /// A random transaction of a random trader.
    pub async fn attempt(&mut self) -> Attempt {
        let trader = self.random.random_range(0..TRADERS);
        let from = self.traders[trader].address();
        let other = self.traders.choose(&mut self.random).expect("one").address();
        let deployment = std::sync::Arc::clone(&self.deployment);
        let (token, _) = *self.tokens.choose(&mut self.random).expect("one");
        let permit2 = deployment.contracts["permit2"];
        let spenders = [deployment.swap_router, deployment.v2_router, permit2, other];
        let spender = *spenders.choose(&mut self.random).expect("one");
        let deadline = U256::from(u64::MAX);
        let mut value = U256::ZERO;
        let (what, to, data) = match self.random.random_range(0..20) {
            0..=7 => {
                let pool = self.pool(|pool| matches!(pool.venue, Venue::V3(_)));
                let (token_in, token_out) = self.sides(&pool);
                let amount = self.amount(token_in);
                let fee = U24::from(pool.venue.fee());
                let limit = U160::ZERO;
                let data = if self.random.random_bool(0.7) {
                    let least = if self.random.random_bool(0.1) { U256::MAX } else { U256::ZERO };
                    let params = SwapRouter02::ExactInputSingleParams {
                        tokenIn: token_in,
                        tokenOut: token_out,
                        fee,
                        recipient: other,
                        amountIn: amount,
                        amountOutMinimum: least,
                        sqrtPriceLimitX96: limit,
                    };
                    SwapRouter02::exactInputSingleCall { params }.abi_encode()
                } else {
                    let params = SwapRouter02::ExactOutputSingleParams {
                        tokenIn: token_in,
                        tokenOut: token_out,
                        fee,
                        recipient: other,
                        amountOut: amount,
                        amountInMaximum: U256::MAX,
                        sqrtPriceLimitX96: limit,
                    };
                    SwapRouter02::exactOutputSingleCall { params }.abi_encode()
                };
                ("a V3 swap", TxKind::Call(deployment.swap_router), data)
            }
            8 | 9 => {
                let first = self.pool(|pool| matches!(pool.venue, Venue::V3(_)));
                let (token_in, middle) = self.sides(&first);
                let second = self.pool(|pool| matches!(pool.venue, Venue::V3(_)));
                let (left, right) = (second.token0.address, second.token1.address);
                let token_out = if left == middle { right } else { left };
                let mut path = token_in.to_vec();
                path.extend(first.venue.fee().to_be_bytes().split_at(1).1);
                path.extend(middle);
                path.extend(second.venue.fee().to_be_bytes().split_at(1).1);
                path.extend(token_out);
                let params = SwapRouter02::ExactInputParams {
                    path: path.into(),
                    recipient: from,
                    amountIn: self.amount(token_in),
                    amountOutMinimum: U256::ZERO,
                };
                let call = SwapRouter02::exactInputCall { params };
                ("a V3 swap over two pools", TxKind::Call(deployment.swap_router), call.abi_encode())
            }
            10 | 11 => {
                let pool = self.pool(|pool| pool.venue == Venue::V2);
                let (token_in, token_out) = self.sides(&pool);
                let call = UniswapV2Router02::swapExactTokensForTokensCall {
                    amountIn: self.amount(token_in),
                    amountOutMin: U256::ZERO,
                    path: vec![token_in, token_out],
                    to: other,
                    deadline,
                };
                ("a V2 swap", TxKind::Call(deployment.v2_router), call.abi_encode())
            }
            12..=14 => {
                let value = *[U256::ZERO, U256::MAX, self.amount(token)].choose(&mut self.random).expect("one");
                ("an approval", TxKind::Call(token), Erc20::approveCall { spender, value }.abi_encode())
            }
            15 => {
                let call = Permit2::approveCall {
                    token,
                    spender,
                    amount: U160::from(self.random.random::<u64>()),
                    expiration: U48::from(self.random.random::<u32>()),
                };
                ("a Permit2 approval", TxKind::Call(permit2), call.abi_encode())
            }
            16 => {
                let call = Permit2::invalidateUnorderedNoncesCall {
                    wordPos: U256::from(self.random.random_range(0..4_u64)),
                    mask: U256::from(self.random.random::<u64>()),
                };
                ("used nonces", TxKind::Call(permit2), call.abi_encode())
            }
            17 => {
                let call = Erc20::transferFromCall { from: other, to: from, value: self.amount(token) };
                ("a transfer out of an allowance", TxKind::Call(token), call.abi_encode())
            }
            18 => {
                value = ether(1) / U256::from(self.random.random_range(1..1_000_u64));
                ("wrapping", TxKind::Call(deployment.weth), Weth9::depositCall {}.abi_encode())
            }
            _ => {
                let call = Erc20::transferCall { to: other, value: self.amount(token) };
                ("a transfer", TxKind::Call(token), call.abi_encode())
            }
        };
        // One in ten has too little gas to finish.
        let gas_limit = if self.random.random_bool(0.1) {
            self.random.random_range(45_000..90_000)
        } else {
            self.random.random_range(1_500_000..2_500_000)
        };
        let envelope = self.sign(trader, to, value, data.into(), gas_limit).await;
        let what = format!("{what} by {from}, type {}, seed {}", envelope.tx_type() as u8, self.seed);
        Attempt { envelope, what }
    }

    fn sides(&mut self, pool: &GenesisPool) -> (Address, Address) {
        let (left, right) = (pool.token0.address, pool.token1.address);
        if self.random.random_bool(0.5) { (left, right) } else { (right, left) }
    }

    /// Sends the transaction and makes the block; returns the states before and after, with the block.
    pub async fn execute(&self, envelope: TxEnvelope) -> (ForkPoint, Block, WorldState) {
        self.devnet
            .run(move |chain| {
                let before = chain.snapshot(BlockId::latest()).expect("the head");
                let transaction = ChainTransaction::signed(envelope).expect("signed");
                chain.submit(transaction).expect("taken");
                let block = chain.mine();
                (before, Block::clone(&block), chain.state().clone())
            })
            .await
            .expect("a chain")
    }

    /// Executes a simulated transaction and compares all effects.
    pub async fn compare(&mut self, attempt: Attempt, simulation: &Simulation) -> bool {
        let Attempt { envelope, what } = attempt;
        let (before, block, after) = self.execute(envelope).await;
        let [receipt] = block.receipts.as_slice() else { panic!("one transaction in the block: {what}") };
        let [outcome] = simulation.outcomes.as_slice() else { panic!("one outcome: {what}") };
        let succeeded = outcome.status == ExecutionStatus::Success;
        assert_eq!(succeeded, receipt.is_success(), "{what}: {:?}", outcome.status);
        assert_eq!(outcome.gas_used, receipt.gas_used, "{what}");
        assert_eq!(outcome.logs.as_slice(), receipt.logs(), "{what}");
        let changes = &simulation.changes;
        assert!(changes.complete(), "{what}: {:?} {:?}", changes.gaps, changes.unreadable);

        // The state computed from the simulation's report equals the actual state.
        let mut foreseen = before.state.clone();
        apply(changes, &mut foreseen, &after);
        let mut expected = after.clone();
        for (slot, _) in after.storage(HISTORY) {
            expected.set_storage_at(HISTORY, slot, before.state.storage_at(HISTORY, slot));
        }
        if foreseen != expected {
            panic!("{what}: the states differ\n{}", difference(&foreseen, &expected));
        }

        // Every reported token amount is the token's own answer on the chain, before and after.
        for entry in &changes.balances {
            let call = Erc20::balanceOfCall { owner: entry.holder }.abi_encode();
            let said = [&before.state, &after].map(|state| read(state, &before, entry.token, &call));
            assert_eq!([entry.balance.before, entry.balance.after], said, "{what}: {entry:?}");
        }
        for entry in &changes.allowances {
            let call = Erc20::allowanceCall { owner: entry.owner, spender: entry.spender }.abi_encode();
            let said = [&before.state, &after].map(|state| read(state, &before, entry.token, &call));
            assert_eq!([entry.allowance.before, entry.allowance.after], said, "{what}: {entry:?}");
        }
        // Every change of a watched party is reported.
        let mut parties: Vec<Address> = self.traders.iter().map(PrivateKeySigner::address).collect();
        parties.extend(self.deployment.pools.iter().map(|pool| pool.address));
        parties.extend([self.deployment.swap_router, self.deployment.v2_router]);
        for _ in 0..12 {
            let (token, _) = *self.tokens.choose(&mut self.random).expect("one");
            let holder = *parties.choose(&mut self.random).expect("one");
            let call = Erc20::balanceOfCall { owner: holder }.abi_encode();
            let [was, is] = [&before.state, &after].map(|state| read(state, &before, token, &call));
            let reported = changes.balance(token, holder);
            assert_eq!(reported.is_some(), was != is, "{what}: balance of {holder} in {token}");
        }
        // Every write of a token or Permit2 is explained; internal writes of pools are not.
        for write in changes.unexplained() {
            let token = self.tokens.iter().any(|(token, _)| *token == write.account);
            assert!(!token && write.account != self.deployment.contracts["permit2"], "{what}: {write:?}");
        }
        succeeded
    }
}

/// Applies a simulation's report. Code is taken from `after`, where its hash must equal the reported one.
fn apply(changes: &StateChanges, state: &mut WorldState, after: &WorldState) {
    for write in &changes.writes {
        assert_eq!(state.storage_at(write.account, write.slot), write.value.before);
        state.set_storage_at(write.account, write.slot, write.value.after);
    }
    for account in &changes.accounts {
        assert_eq!(state.balance(account.account), account.balance.before);
        assert_eq!(state.nonce(account.account), account.nonce.before);
        state.set_balance(account.account, account.balance.after);
        state.set_nonce(account.account, account.nonce.after);
        if account.code_hash.moved() {
            assert_eq!(after.code_hash(account.account), account.code_hash.after);
            state.set_code(account.account, after.code(account.account)).expect("code of the chain");
        }
    }
}

/// One word that `contract` returns on `state`.
fn read(state: &WorldState, at: &ForkPoint, contract: Address, call: &[u8]) -> U256 {
    let tx = TxEnv {
        kind: TxKind::Call(contract),
        data: Bytes::copy_from_slice(call),
        gas_price: 0,
        gas_limit: 1_000_000,
        chain_id: Some(at.rules.chain_id),
        ..TxEnv::default()
    };
    let execution = evm::transact(state, &at.rules, &at.next, CheckMode::Call, tx).expect("a sound call");
    U256::from_be_slice(execution.result.output().expect("an answer"))
}

/// Describes the differences of two states.
fn difference(left: &WorldState, right: &WorldState) -> String {
    let mut text = String::new();
    let mut addresses: Vec<Address> = left.addresses().chain(right.addresses()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    for address in addresses {
        let info = |state: &WorldState| (state.balance(address), state.nonce(address), state.code_hash(address));
        if info(left) != info(right) {
            let _ = writeln!(text, "{address}: {:?} and {:?}", info(left), info(right));
        }
        for (slot, _) in left.storage(address).chain(right.storage(address)) {
            let (a, b) = (left.storage_at(address, slot), right.storage_at(address, slot));
            if a != b {
                let _ = writeln!(text, "{address} slot {slot:#x}: {a:#x} and {b:#x}");
            }
        }
    }
    text
}

/// Full description of the chain's next block.
pub async fn next_block(exchange: &Exchange) -> NextBlock {
    let next = exchange.devnet.run(|chain| chain.next_context()).await.expect("a chain");
    NextBlock {
        timestamp: Some(next.timestamp),
        coinbase: Some(next.coinbase),
        base_fee: Some(next.base_fee),
        prevrandao: Some(next.prevrandao),
    }
}

/// Pins, simulates, executes and compares; returns how many of `count` succeeded.
async fn run(exchange: &mut Exchange, source: &ForkSource, count: usize) -> usize {
    let mut succeeded = 0;
    for _ in 0..count {
        let attempt = exchange.attempt().await;
        // A fork of the devnet itself needs no declared owners.
        let on_devnet = matches!(source, ForkSource::Devnet(_));
        let next = if on_devnet { NextBlock::default() } else { next_block(exchange).await };
        let fork = Fork::pin(source, BlockId::latest(), next).await.expect("a fork");
        let call = ForkCall::from_signed(&attempt.envelope).expect("a call");
        let simulation = fork.simulate(&[call]).await.unwrap_or_else(|error| panic!("{}: {error}", attempt.what));
        succeeded += usize::from(exchange.compare(attempt, &simulation).await);
    }
    succeeded
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_random_transactions_do_what_was_simulated() {
    let mut exchange = Exchange::open(seed(20)).await;
    let source = ForkSource::Devnet(exchange.devnet.clone());
    let succeeded = run(&mut exchange, &source, 1_000).await;
    assert!((500..1_000).contains(&succeeded), "{succeeded} succeeded: most should, and some should not");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_transactions_over_http_do_what_was_simulated() {
    let mut exchange = Exchange::open(seed(21)).await;
    let server = bardo::chain::devnet::server::serve(exchange.devnet.clone(), 0).await.expect("a server");
    let provider = ProviderBuilder::default().connect_http(server.url().parse().expect("a URL")).erased();
    let rules = exchange.devnet.run(|chain| *chain.rules()).await.expect("a chain");
    let source = ForkSource::Remote(RemoteState::new(provider, rules, RemoteLimits::default()));
    let succeeded = run(&mut exchange, &source, 120).await;
    assert!((60..120).contains(&succeeded), "{succeeded} succeeded: most should, and some should not");
    server.stop().await;
}
