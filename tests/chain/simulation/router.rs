//! Routes as calls of the real Universal Router on the devnet, with the allowance signed in the same transaction:
//! simulated with a stand-in for the signature, then signed, sent, and compared.

mod random;

use std::sync::Arc;

use alloy::consensus::{SignableTransaction, TxEip1559};
use alloy::eips::BlockId;
use alloy::primitives::aliases::{U48, U160};
use alloy::primitives::{Address, Bytes, TxKind, U256};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::SolCall;
use bardo::abi::erc20::Erc20;
use bardo::base::units::BasisPoints;
use bardo::chain::devnet::{Block, ChainTransaction, Devnet};
use bardo::chain::evm::{PLACEHOLDER_SIGNATURE, SignaturePlaceholder};
use bardo::chain::fork::{
    CallFees, ExecutionStatus, Fork, ForkCall, ForkSource, NextBlock, Simulation, SimulationOptions,
};
use bardo::chain::permit2::{Permit2Domain, Permit2Message, PermitDetails, PermitSingle};
use bardo::sandbox::genesis::Deployment;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use bardo::uniswap::discovery::{PoolReader, TickReach};
use bardo::uniswap::pool::{FixedAmount, Pool, ProtocolVersion as PoolVersion};
use bardo::uniswap::router::{
    OutputRecipient, RouterCommand, RouterExecution, RouterTrade, RouterVersion, SwapPath, SwapRequest, plan,
};
use bardo::uniswap::routing::{PoolSet, Route, RouteRequest, best_route};

const CHAIN: u64 = 31337;
const GWEI: u128 = 1_000_000_000;
const GAS: u64 = 8_000_000;

struct Floor {
    devnet: Devnet,
    deployment: Arc<Deployment>,
    reader: PoolReader,
    trader: PrivateKeySigner,
}

impl Floor {
    async fn open() -> Self {
        let config = SandboxConfig {
            seed: 7,
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
        chain.devnet.clear_block_hook().await.expect("a chain");
        let network = sandbox.description().networks().swap_remove(0);
        let reader = PoolReader::new(chain.devnet.provider(), &network).expect("a reader");
        // First account of the development mnemonic, as every tool derives it.
        let trader = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80".parse().expect("a key");
        Self { devnet: chain.devnet.clone(), deployment: Arc::clone(&chain.deployment), reader, trader }
    }

    fn token(&self, token: SandboxToken) -> Address {
        self.deployment.tokens[&token]
    }

    fn contract(&self, name: &str) -> Address {
        self.deployment.contracts[name]
    }

    async fn nonce(&self) -> u64 {
        let account = self.trader.address();
        self.devnet.run(move |chain| chain.state().nonce(account)).await.expect("a chain")
    }

    async fn send(&self, to: Address, value: U256, data: Bytes) -> Block {
        let transaction = TxEip1559 {
            chain_id: CHAIN,
            nonce: self.nonce().await,
            gas_limit: GAS,
            max_fee_per_gas: 10 * GWEI,
            max_priority_fee_per_gas: GWEI,
            to: TxKind::Call(to),
            value,
            access_list: Default::default(),
            input: data,
        };
        let signature = self.trader.sign_hash_sync(&transaction.signature_hash()).expect("signs");
        let envelope = transaction.into_signed(signature).into();
        self.devnet
            .run(move |chain| {
                chain.submit(ChainTransaction::signed(envelope).expect("signed")).expect("taken");
                Block::clone(&chain.mine())
            })
            .await
            .expect("a chain")
    }

    async fn approve_permit2(&self, token: Address) {
        let call = Erc20::approveCall { spender: self.contract("permit2"), value: U256::MAX };
        let block = self.send(token, U256::ZERO, call.abi_encode().into()).await;
        assert!(block.receipts[0].is_success());
    }

    /// Best route through the pools that `keep` selects, at the head.
    async fn route(&self, request: &RouteRequest, keep: fn(&Self, &Pool) -> bool) -> Route {
        let tokens = [request.token_in, request.token_out];
        let found = self.reader.pools(&tokens, BlockId::latest(), TickReach::Whole).await.expect("pools");
        let kept = found.pools.pools().iter().filter(|pool| keep(self, pool)).cloned();
        best_route(&PoolSet::new(kept), request).unwrap_or_else(|error| panic!("{request:?}: {error}"))
    }

    fn permit(&self, token: Address, amount: U256, nonce: u64) -> PermitSingle {
        PermitSingle {
            details: PermitDetails {
                token,
                amount: U160::from(amount),
                expiration: U48::from(1_800_001_000_u64),
                nonce: U48::from(nonce),
            },
            spender: self.contract("universalRouterV2_1_0"),
            sigDeadline: U256::from(1_800_001_000_u64),
        }
    }

    fn domain(&self) -> Permit2Domain {
        Permit2Domain { chain_id: CHAIN, permit2: self.contract("permit2") }
    }

    fn stand_in(&self, permit: &PermitSingle) -> SignaturePlaceholder {
        let digest = Permit2Message::Allowance(permit.clone()).digest(&self.domain());
        SignaturePlaceholder { digest, signer: self.trader.address() }
    }

    async fn simulate(&self, trade: &RouterTrade, data: Bytes, signatures: Vec<SignaturePlaceholder>) -> Simulation {
        let source = ForkSource::Devnet(self.devnet.clone());
        let fork = Fork::pin(&source, BlockId::latest(), NextBlock::default()).await.expect("a fork");
        let call = ForkCall::new(self.trader.address(), self.contract("universalRouterV2_1_0"), data)
            .with_value(trade.value)
            .with_gas_limit(GAS)
            .paid(self.nonce().await, CallFees::Dynamic { max_fee: 10 * GWEI, max_priority_fee: GWEI });
        let options = SimulationOptions { signatures, ..SimulationOptions::default() };
        fork.simulate_with(&[call], &options).await.expect("a simulation")
    }

    async fn balance(&self, token: Option<Address>, holder: Address) -> U256 {
        let state = self.devnet.run(|chain| chain.state().clone()).await.expect("a chain");
        let Some(token) = token else { return state.balance(holder) };
        let source = ForkSource::Devnet(self.devnet.clone());
        let fork = Fork::pin(&source, BlockId::latest(), NextBlock::default()).await.expect("a fork");
        let call = ForkCall::new(holder, token, Erc20::balanceOfCall { owner: holder }.abi_encode());
        let simulation = fork.simulate(&[call]).await.expect("a simulation");
        U256::from_be_slice(&simulation.outcomes[0].output)
    }
}

fn signed(data: &Bytes, at: usize, signature: &[u8]) -> Bytes {
    let mut data = data.to_vec();
    data[at..at + 65].copy_from_slice(signature);
    data.into()
}

struct Case {
    name: &'static str,
    token_in: Option<SandboxToken>,
    token_out: Option<SandboxToken>,
    exact: FixedAmount,
    keep: fn(&Floor, &Pool) -> bool,
    most_legs: usize,
    /// Checks that the trade's commands are those of the case.
    shape: fn(&RouterExecution) -> bool,
}

fn units(amount: u64, decimals: u64) -> U256 {
    U256::from(amount) * U256::from(10).pow(U256::from(decimals))
}

fn swaps(execution: &RouterExecution) -> Vec<&bardo::uniswap::router::SwapCommand> {
    let swaps = execution.commands.iter().filter_map(|command| match command {
        RouterCommand::Swap(swap) => Some(swap),
        _ => None,
    });
    swaps.collect()
}

/// Version of each swap.
fn versions(execution: &RouterExecution) -> Vec<u8> {
    let version = |swap: &&bardo::uniswap::router::SwapCommand| match swap.path {
        SwapPath::V2(_) => 2,
        SwapPath::V3(_) => 3,
        SwapPath::V4(_) => 4,
    };
    swaps(execution).iter().map(version).collect()
}

fn cases() -> Vec<Case> {
    let v2: fn(&Floor, &Pool) -> bool = |_, pool| pool.version() == PoolVersion::V2;
    let v3: fn(&Floor, &Pool) -> bool = |_, pool| pool.version() == PoolVersion::V3;
    let v4: fn(&Floor, &Pool) -> bool = |_, pool| pool.version() == PoolVersion::V4;
    let any: fn(&Floor, &Pool) -> bool = |_, _| true;
    // V4 pools, and V2 pairs that buy what no V4 pool has.
    let v4_then_v2: fn(&Floor, &Pool) -> bool = |floor, pool| {
        let link = floor.token(SandboxToken::Link);
        pool.version() == PoolVersion::V4 || pool.version() == PoolVersion::V2 && pool.zero_for_one(link).is_ok()
    };
    let v2_then_v4: fn(&Floor, &Pool) -> bool = |floor, pool| {
        // The V4 pool of UNI, and pairs of other tokens before it.
        let uni = pool.zero_for_one(floor.token(SandboxToken::Uni)).is_ok();
        if pool.version() == PoolVersion::V4 { uni } else { pool.version() == PoolVersion::V2 && !uni }
    };
    let case = |name, token_in, token_out, exact, keep, most_legs, shape| Case {
        name,
        token_in,
        token_out,
        exact,
        keep,
        most_legs,
        shape,
    };
    let is_v2 = |e: &RouterExecution| swaps(e).iter().all(|swap| matches!(swap.path, SwapPath::V2(_)));
    let is_v3 = |e: &RouterExecution| swaps(e).iter().all(|swap| matches!(swap.path, SwapPath::V3(_)));
    let hops = |e: &RouterExecution| matches!(&swaps(e)[0].path, SwapPath::V3(path) if path.steps().len() > 1);
    let split = |e: &RouterExecution| swaps(e).len() > 1;
    let is_v4 = |e: &RouterExecution| swaps(e).iter().all(|swap| matches!(swap.path, SwapPath::V4(_)));
    let v4_hops = |e: &RouterExecution| {
        swaps(e).len() == 1 && matches!(&swaps(e)[0].path, SwapPath::V4(path) if path.steps().len() == 2)
    };
    let v4_split = |e: &RouterExecution| {
        let native = |swap: &&bardo::uniswap::router::SwapCommand| match &swap.path {
            SwapPath::V4(path) => path.currencies().any(|currency| currency.is_zero()),
            SwapPath::V2(_) | SwapPath::V3(_) => false,
        };
        swaps(e).len() == 2 && swaps(e).iter().filter(|swap| native(swap)).count() == 1
    };
    let to_v2 = |e: &RouterExecution| versions(e) == [4, 2];
    let from_v2 = |e: &RouterExecution| versions(e) == [2, 4];
    let (usdt, uni) = (Some(SandboxToken::Usdt), Some(SandboxToken::Uni));
    let (usdc, weth, link) = (Some(SandboxToken::Usdc), Some(SandboxToken::Weth), Some(SandboxToken::Link));
    vec![
        // The large ones first: they use up the V4 pools.
        case("V4 split out", None, usdc, FixedAmount::Out(units(200_000, 6)), v4, 2, v4_split),
        case("V4 split in", None, usdc, FixedAmount::In(units(100, 18)), v4, 2, v4_split),
        case("V2 in", usdc, weth, FixedAmount::In(units(100, 6)), v2, 1, is_v2),
        case("V2 out", usdc, weth, FixedAmount::Out(units(1, 16)), v2, 1, is_v2),
        case("V3 in", weth, usdc, FixedAmount::In(units(1, 17)), v3, 1, is_v3),
        case("V3 out", usdc, weth, FixedAmount::Out(units(1, 16)), v3, 1, is_v3),
        case("V3 hops in", usdc, link, FixedAmount::In(units(100, 6)), v3, 1, hops),
        case("V3 hops out", usdc, link, FixedAmount::Out(units(3, 18)), v3, 1, hops),
        case("split in", None, usdc, FixedAmount::In(units(900, 18)), any, 2, split),
        case("split of many in", None, usdc, FixedAmount::In(units(2_000, 18)), any, 4, split),
        case("split out", None, usdc, FixedAmount::Out(units(2_000_000, 6)), any, 4, split),
        case("coin in", None, link, FixedAmount::In(units(1, 17)), any, 1, |_| true),
        case("coin in, exact out", None, usdc, FixedAmount::Out(units(50, 6)), v3, 1, is_v3),
        case("coin in, exact out, V2", None, usdc, FixedAmount::Out(units(50, 6)), v2, 1, is_v2),
        case("coin out", usdc, None, FixedAmount::In(units(75, 6)), any, 1, |_| true),
        case("coin out, exact", usdc, None, FixedAmount::Out(units(1, 16)), v3, 1, is_v3),
        case("V4 in", usdc, usdt, FixedAmount::In(units(100, 6)), v4, 1, is_v4),
        case("V4 out", usdc, usdt, FixedAmount::Out(units(100, 6)), v4, 1, is_v4),
        case("V4 hops in", usdc, uni, FixedAmount::In(units(100, 6)), v4, 1, v4_hops),
        case("V4 hops out", usdc, uni, FixedAmount::Out(units(3, 18)), v4, 1, v4_hops),
        case("V4 coin in", None, uni, FixedAmount::In(units(1, 17)), v4, 1, is_v4),
        case("V4 coin in, exact out", None, uni, FixedAmount::Out(units(3, 18)), v4, 1, is_v4),
        case("V4 coin out", usdc, None, FixedAmount::In(units(75, 6)), v4, 1, is_v4),
        case("V4 coin out, exact", usdc, None, FixedAmount::Out(units(1, 16)), v4, 1, is_v4),
        case("V4 wrapped out", usdc, weth, FixedAmount::In(units(75, 6)), v4, 1, is_v4),
        case("V4 wrapped in", weth, usdc, FixedAmount::In(units(1, 16)), v4, 1, is_v4),
        case("V4 split to coin", usdc, None, FixedAmount::In(units(1_000, 6)), v4, 2, |_| true),
        case("mixed, V4 to V2", usdc, link, FixedAmount::In(units(100, 6)), v4_then_v2, 1, to_v2),
        case("mixed, V2 to V4", usdc, uni, FixedAmount::In(units(100, 6)), v2_then_v4, 1, from_v2),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_trade_matches_its_quote_and_simulation() {
    let floor = Floor::open().await;
    let trader = floor.trader.address();
    floor.devnet.run(move |chain| chain.set_balance(trader, units(10_000, 18))).await.expect("a chain");
    for token in [SandboxToken::Usdc, SandboxToken::Weth] {
        floor.approve_permit2(floor.token(token)).await;
    }
    let mut nonces = std::collections::BTreeMap::<Address, u64>::new();
    for case in cases() {
        let name = case.name;
        let side = |token: Option<SandboxToken>| floor.token(token.unwrap_or(SandboxToken::Weth));
        let mut asked = RouteRequest::new(side(case.token_in), side(case.token_out), case.exact);
        asked.max_legs = case.most_legs;
        asked.mixed_paths = name.starts_with("mixed");
        asked.v4 = true;
        asked.pays_native = case.token_in.is_none();
        let route = floor.route(&asked, case.keep).await;
        let slippage = BasisPoints::new(50).expect("a share");
        let most = if matches!(case.exact, FixedAmount::In(_)) {
            route.amount_in
        } else {
            slippage.maximum_in(route.amount_in).expect("fits")
        };
        let permit = case.token_in.map(|token| {
            let token = floor.token(token);
            let nonce = nonces.entry(token).or_default();
            *nonce += 1;
            floor.permit(token, most, *nonce - 1)
        });
        let trade = plan(&SwapRequest {
            route: &route,
            native_in: case.token_in.is_none(),
            native_out: case.token_out.is_none(),
            slippage,
            recipient: OutputRecipient::Account(trader),
            permit: permit.clone().map(|permit| (permit, Bytes::from(PLACEHOLDER_SIGNATURE))),
            portion: None,
            one_bound: true,
            deadline: Some(U256::from(1_800_001_000_u64)),
        })
        .expect("a plan");
        assert!((case.shape)(&trade.execution), "{name}: {:?}", trade.execution);
        let data = trade.execution.encode(RouterVersion::V2_1_0);
        assert_eq!(RouterExecution::decode(&data, RouterVersion::V2_1_0).as_ref(), Ok(&trade.execution), "{name}");

        let stand_ins: Vec<SignaturePlaceholder> = permit.iter().map(|permit| floor.stand_in(permit)).collect();
        let simulation = floor.simulate(&trade, data.clone(), stand_ins.clone()).await;
        let outcome = &simulation.outcomes[0];
        assert_eq!(outcome.status, ExecutionStatus::Success, "{name}: {} gas, {:?}", outcome.gas_used, trade.execution);
        if permit.is_some() {
            // Without the stand-in, or with one for another digest, there is no valid signature.
            let other = SignaturePlaceholder { digest: Default::default(), ..stand_ins[0] };
            for wrong in [Vec::new(), vec![other]] {
                let refused = floor.simulate(&trade, data.clone(), wrong).await;
                assert!(matches!(refused.outcomes[0].status, ExecutionStatus::Reverted(_)), "{name}");
            }
        }

        let mut zeros = 0;
        let sent = match trade.execution.signature_offset(RouterVersion::V2_1_0) {
            None => data,
            Some(at) => {
                let signature = floor.trader.sign_hash_sync(&stand_ins[0].digest).expect("signs").as_bytes();
                zeros = signature.iter().filter(|byte| **byte == 0).count() as u64;
                signed(&data, at, &signature)
            }
        };
        let (token_in, token_out) = (case.token_in.map(|t| floor.token(t)), case.token_out.map(|t| floor.token(t)));
        let before = [floor.balance(token_in, trader).await, floor.balance(token_out, trader).await];
        let block = floor.send(floor.contract("universalRouterV2_1_0"), trade.value, sent).await;
        let after = [floor.balance(token_in, trader).await, floor.balance(token_out, trader).await];
        let receipt = &block.receipts[0];
        assert!(receipt.is_success(), "{name}: {:?}", receipt.failure);
        // A zero byte of calldata costs 4 gas, any other 16; the placeholder has no zero byte.
        assert_eq!(outcome.gas_used, receipt.gas_used + 12 * zeros, "{name}");
        assert_eq!(outcome.logs.as_slice(), receipt.logs(), "{name}");

        // The swap tool's gas limit suffices with a margin.
        assert!(
            receipt.gas_used < route.gas_units * 2 + 100_000,
            "{name}: {} of {}",
            receipt.gas_used,
            route.gas_units
        );
        let gas = U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price);
        let gas_of = |native: bool| if native { gas } else { U256::ZERO };
        let paid = before[0] - after[0] - gas_of(token_in.is_none());
        let got = after[1] + gas_of(token_out.is_none()) - before[1];
        assert_eq!(paid, route.amount_in, "{name}");
        // The input to V2 is rounded up, and this router forwards everything that the payment buys.
        let exact_from_v2 = matches!(case.exact, FixedAmount::Out(_))
            && route.legs.iter().flat_map(|leg| &leg.hops).any(|hop| hop.version == PoolVersion::V2);
        let more = got - route.amount_out;
        assert!(
            more.is_zero() || exact_from_v2 && more * U256::from(1_000_000) < route.amount_out,
            "{name}: {more} more"
        );
        assert!(got >= trade.amount_out_min && paid <= trade.amount_in_max, "{name}");
        for (token, holder_change) in
            [(token_in, before[0].abs_diff(after[0])), (token_out, before[1].abs_diff(after[1]))]
        {
            let Some(token) = token else { continue };
            let foreseen = simulation.changes.balance(token, trader).expect("a change");
            assert_eq!(foreseen.before.abs_diff(foreseen.after), holder_change, "{name}");
        }
        // No token stays in the router.
        for token in [Some(asked.token_in), Some(asked.token_out), None] {
            assert_eq!(floor.balance(token, floor.contract("universalRouterV2_1_0")).await, U256::ZERO, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placeholder_is_worth_nothing_on_a_chain() {
    let floor = Floor::open().await;
    let usdc = floor.token(SandboxToken::Usdc);
    let permit = floor.permit(usdc, U256::from(1_000_000), 0);
    let call = Permit2Message::Allowance(permit.clone());
    let owner = floor.trader.address();
    let permit2 = floor.contract("permit2");
    let data = call.calldata(owner, &[], Bytes::from(PLACEHOLDER_SIGNATURE)).expect("calldata");
    // A simulation with a stand-in leaves no trace: the same bytes then fail on the chain.
    let source = ForkSource::Devnet(floor.devnet.clone());
    let fork = Fork::pin(&source, BlockId::latest(), NextBlock::default()).await.expect("a fork");
    let options = SimulationOptions { signatures: vec![floor.stand_in(&permit)], ..SimulationOptions::default() };
    let calls = [ForkCall::new(owner, permit2, data.clone())];
    let simulation = fork.simulate_with(&calls, &options).await.expect("a simulation");
    assert_eq!(simulation.outcomes[0].status, ExecutionStatus::Success);
    let again = fork.clone().simulate(&calls).await.expect("a simulation");
    assert!(matches!(again.outcomes[0].status, ExecutionStatus::Reverted(_)));
    assert!(!floor.send(permit2, U256::ZERO, data).await.receipts[0].is_success());

    // A real signature works beside a stand-in.
    let signature = floor.trader.sign_hash_sync(&call.digest(&floor.domain())).expect("signs").as_bytes();
    let real = call.calldata(owner, &[], Bytes::copy_from_slice(&signature)).expect("calldata");
    let other = floor.permit(usdc, U256::from(5), 1);
    let second = Permit2Message::Allowance(other.clone()).calldata(owner, &[], Bytes::from(PLACEHOLDER_SIGNATURE));
    let calls = [ForkCall::new(owner, permit2, real), ForkCall::new(owner, permit2, second.expect("calldata"))];
    let options = SimulationOptions { signatures: vec![floor.stand_in(&other)], ..SimulationOptions::default() };
    let fork = Fork::pin(&source, BlockId::latest(), NextBlock::default()).await.expect("a fork");
    let simulation = fork.simulate_with(&calls, &options).await.expect("a simulation");
    assert!(simulation.outcomes.iter().all(|outcome| outcome.status == ExecutionStatus::Success));

    // The stand-in applies to its signer only: another account's permit with the same digest is rejected.
    let thief = Address::repeat_byte(0x77);
    let stolen = call.calldata(thief, &[], Bytes::from(PLACEHOLDER_SIGNATURE)).expect("calldata");
    let options = SimulationOptions { signatures: vec![floor.stand_in(&permit)], ..SimulationOptions::default() };
    let simulation =
        fork.simulate_with(&[ForkCall::new(thief, permit2, stolen)], &options).await.expect("a simulation");
    assert!(matches!(simulation.outcomes[0].status, ExecutionStatus::Reverted(_)));
}

/// Swaps of misbehaving tokens: a refusal with its reason, or exactly the amount that arrived.
#[tokio::test(flavor = "multi_thread")]
async fn swaps_of_misbehaving_tokens_are_rejected_or_reported_exactly() {
    let floor = Floor::open().await;
    let trader = floor.trader.address();
    let router = floor.contract("universalRouterV2_1_0");
    let weth = floor.token(SandboxToken::Weth);
    floor.approve_permit2(weth).await;
    let mut nonce = 0;
    let mut buy = async |token: SandboxToken, slippage: u32| {
        let asked = RouteRequest::new(weth, floor.token(token), FixedAmount::In(units(1, 16)));
        let route = floor.route(&asked, |_, _| true).await;
        let permit = floor.permit(weth, route.amount_in, nonce);
        let trade = floor.trade(&route, &permit, slippage);
        let data = trade.execution.encode(RouterVersion::V2_1_0);
        let simulated = floor.simulate(&trade, data.clone(), vec![floor.stand_in(&permit)]).await;
        let at = trade.execution.signature_offset(RouterVersion::V2_1_0).expect("a permit");
        let digest = floor.stand_in(&permit).digest;
        let signature = floor.trader.sign_hash_sync(&digest).expect("signs").as_bytes();
        let before = floor.balance(Some(floor.token(token)), trader).await;
        let block = floor.send(router, U256::ZERO, signed(&data, at, &signature)).await;
        let got = floor.balance(Some(floor.token(token)), trader).await - before;
        let done = block.receipts[0].is_success();
        nonce += u64::from(done);
        let status = simulated.outcomes[0].status.clone();
        assert_eq!(done, status == ExecutionStatus::Success, "{token:?}: {status:?}");
        let foreseen = simulated.changes.balance(floor.token(token), trader);
        assert_eq!(foreseen.map_or(U256::ZERO, |change| change.after - change.before), got, "{token:?}");
        (status, got, route.amount_out)
    };

    // It delivers one percent less than the pool sends: refused with half a percent of slippage, reported exactly with
    // two.
    let (status, got, _) = buy(SandboxToken::FeeOnTransfer, 50).await;
    assert!(format!("{status:?}").contains("V2TooLittleReceived"), "{status:?}");
    assert_eq!(got, U256::ZERO);
    let (status, got, quoted) = buy(SandboxToken::FeeOnTransfer, 200).await;
    assert_eq!(status, ExecutionStatus::Success);
    assert_eq!(got, quoted - quoted / U256::from(100));

    // It returns no bool, or has a misleading name: it trades like any other.
    for token in [SandboxToken::NoReturn, SandboxToken::HostileSymbol, SandboxToken::Lookalike] {
        let (status, got, quoted) = buy(token, 50).await;
        assert_eq!((status, got), (ExecutionStatus::Success, quoted), "{token:?}");
    }

    // It cannot be bought, and the reason is reported.
    let (status, got, _) = buy(SandboxToken::Reverting, 50).await;
    assert!(matches!(status, ExecutionStatus::Reverted(_)), "{status:?}");
    assert_eq!(got, U256::ZERO);
}

impl Floor {
    /// Call that trades `route` for the trader, with the signed allowance in it.
    fn trade(&self, route: &Route, permit: &PermitSingle, slippage: u32) -> RouterTrade {
        plan(&SwapRequest {
            route,
            native_in: false,
            native_out: false,
            slippage: BasisPoints::new(slippage).expect("a share"),
            recipient: OutputRecipient::Account(self.trader.address()),
            permit: Some((permit.clone(), Bytes::from(PLACEHOLDER_SIGNATURE))),
            portion: None,
            one_bound: true,
            deadline: Some(U256::from(1_800_001_000_u64)),
        })
        .expect("a plan")
    }
}
