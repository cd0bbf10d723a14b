//! Chain state with real and odd contracts, built by running their constructors.

use alloy::primitives::aliases::{I24, U24, U160};
use alloy::primitives::{Address, B256, Bytes, TxKind, U256, address, hex};
use alloy::sol_types::{SolCall, SolValue};
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::uniswap_v3::{NonfungiblePositionManager, SwapRouter02, UniswapV3Factory};
use bardo::chain::devnet::{ForkPoint, WorldState};
use bardo::chain::evm::{self, BlockContext, ChainRules, CheckMode};
use bardo::chain::fork::{Fork, ForkCall, Simulation, SimulationOptions};
use bardo::sandbox::contracts::BundledContract;
use revm::context::TxEnv;
use revm::context::result::{ExecutionResult, Output};

pub const ALICE: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
pub const BOB: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
pub const CAROL: Address = address!("3C44CdDdB6a900fa2b585dd299e03d12FA4293BC");
pub const RULES: ChainRules = ChainRules::osaka(31337);

/// Creation code of an odd contract, with its constructor's encoded arguments.
macro_rules! odd {
    ($name:literal, $arguments:expr) => {
        $crate::simulation::world::init_code(
            include_str!(concat!("../../fixtures/contracts/", $name, ".hex")),
            $arguments,
        )
    };
}
pub(crate) use odd;

pub fn init_code(file: &str, arguments: impl AsRef<[u8]>) -> Bytes {
    let mut code = hex::decode(file.trim()).expect("committed hexadecimal");
    code.extend_from_slice(arguments.as_ref());
    code.into()
}

pub fn ether(amount: u64) -> U256 {
    U256::from(amount) * U256::from(10).pow(U256::from(18))
}

pub struct TestHarness {
    pub state: WorldState,
    pub block: BlockContext,
}

impl TestHarness {
    pub fn new() -> Self {
        let mut state = WorldState::default();
        for account in [ALICE, BOB, CAROL] {
            state.set_balance(account, ether(100));
        }
        let block = BlockContext {
            number: 8,
            timestamp: 1_800_000_000,
            base_fee: 1_000_000_000,
            gas_limit: 60_000_000,
            coinbase: Address::repeat_byte(0xc0),
            prevrandao: B256::repeat_byte(7),
            excess_blob_gas: 0,
        };
        Self { state, block }
    }

    /// Deploys a contract by running its constructor as the first account.
    pub fn deploy(&mut self, init_code: Bytes) -> Address {
        match self.transact(ALICE, TxKind::Create, init_code) {
            ExecutionResult::Success { output: Output::Create(_, Some(created)), .. } => created,
            other => panic!("the constructor failed: {other:?}"),
        }
    }

    /// Executes a call permanently, as the chain would.
    pub fn send(&mut self, from: Address, to: Address, call: impl SolCall) {
        let result = self.transact(from, TxKind::Call(to), call.abi_encode().into());
        assert!(result.is_success(), "{result:?}");
    }

    /// Executes a call; a failure returns the revert data.
    pub fn try_send(&mut self, from: Address, to: Address, call: impl SolCall) -> Result<(), Bytes> {
        match self.transact(from, TxKind::Call(to), call.abi_encode().into()) {
            ExecutionResult::Success { .. } => Ok(()),
            ExecutionResult::Revert { output, .. } => Err(output),
            other => panic!("{other:?}"),
        }
    }

    /// Executes a call permanently; returns its result.
    pub fn act<C: SolCall>(&mut self, from: Address, to: Address, call: C) -> C::Return {
        let result = self.transact(from, TxKind::Call(to), call.abi_encode().into());
        let output = result.output().unwrap_or_else(|| panic!("{result:?}"));
        assert!(result.is_success(), "{result:?}");
        C::abi_decode_returns(output).expect("the call's result")
    }

    /// Returns the result that a call would have, like `eth_call`.
    pub fn ask<C: SolCall>(&self, from: Address, to: Address, call: C) -> C::Return {
        let tx = TxEnv {
            caller: from,
            kind: TxKind::Call(to),
            data: call.abi_encode().into(),
            gas_limit: 16_000_000,
            gas_price: 0,
            nonce: self.state.nonce(from),
            chain_id: Some(RULES.chain_id),
            ..TxEnv::default()
        };
        let result =
            evm::transact(&self.state, &RULES, &self.block, CheckMode::Call, tx).expect("a sound transaction").result;
        assert!(result.is_success(), "{result:?}");
        C::abi_decode_returns(result.output().expect("an output")).expect("the call's result")
    }

    /// Executes a call with a value permanently; a failure returns the revert data.
    pub fn pay(&mut self, from: Address, to: Address, data: Bytes, value: U256) -> Result<(), Bytes> {
        match self.transact_with(from, TxKind::Call(to), data, value) {
            ExecutionResult::Success { .. } => Ok(()),
            ExecutionResult::Revert { output, .. } => Err(output),
            other => panic!("{other:?}"),
        }
    }

    fn transact(&mut self, from: Address, kind: TxKind, data: Bytes) -> ExecutionResult {
        self.transact_with(from, kind, data, U256::ZERO)
    }

    fn transact_with(&mut self, from: Address, kind: TxKind, data: Bytes, value: U256) -> ExecutionResult {
        let tx = TxEnv {
            caller: from,
            kind,
            data,
            value,
            gas_limit: 16_000_000,
            gas_price: 0,
            nonce: self.state.nonce(from),
            chain_id: Some(RULES.chain_id),
            ..TxEnv::default()
        };
        let execution =
            evm::transact(&self.state, &RULES, &self.block, CheckMode::Call, tx).expect("a sound transaction");
        self.state.apply(execution.state);
        execution.result
    }

    pub fn fork(&self) -> Fork {
        let hash = B256::repeat_byte(0x11);
        let block = BlockContext { number: self.block.number - 1, timestamp: self.block.timestamp - 12, ..self.block };
        Fork::on_devnet(ForkPoint { rules: RULES, state: self.state.clone(), block, hash, next: self.block })
    }

    pub fn simulate(&self, calls: &[ForkCall]) -> Simulation {
        self.simulate_with(calls, &SimulationOptions::default())
    }

    pub fn simulate_with(&self, calls: &[ForkCall], options: &SimulationOptions) -> Simulation {
        block_on(self.fork().simulate_with(calls, options)).expect("a simulation")
    }
}

/// V3 pool at a price of one with two tokens of 18 decimals, and a router with ALICE's allowance.
pub struct Market {
    pub weth: Address,
    pub router: Address,
    pub positions: Address,
    pub pool: Address,
    /// Tokens in the pool's order.
    pub tokens: [Address; 2],
}

const FEE: u32 = 3_000;

impl TestHarness {
    pub fn with_market() -> (Self, Market) {
        let mut world = Self::new();
        let bundled = |contract: BundledContract, arguments: Vec<u8>| contract.creation(&arguments).expect("bundled");
        let weth = world.deploy(bundled(BundledContract::Weth9, vec![]));
        let factory = world.deploy(bundled(BundledContract::UniswapV3Factory, vec![]));
        let nowhere = Address::repeat_byte(0xde);
        let positions = world
            .deploy(bundled(BundledContract::NonfungiblePositionManager, (factory, weth, nowhere).abi_encode_params()));
        let router = world
            .deploy(bundled(BundledContract::SwapRouter02, (nowhere, factory, positions, weth).abi_encode_params()));
        let mut tokens = ["ONE", "TWO"].map(|symbol| {
            let arguments = (symbol.to_string(), symbol.to_string(), U256::from(18)).abi_encode_params();
            world.deploy(bundled(BundledContract::MockERC20, arguments))
        });
        tokens.sort_unstable();
        for token in tokens {
            world.send(ALICE, token, OpenMint::mintCall { to: ALICE, value: ether(1_000_000) });
            for spender in [positions, router] {
                world.send(ALICE, token, Erc20::approveCall { spender, value: ether(900_000) });
            }
        }
        let [token0, token1] = tokens;
        let fee = U24::from(FEE);
        let price_of_one = U160::from(1) << 96;
        world.send(
            ALICE,
            positions,
            NonfungiblePositionManager::createAndInitializePoolIfNecessaryCall {
                token0,
                token1,
                fee,
                sqrtPriceX96: price_of_one,
            },
        );
        for width in [60, 600, 6_000] {
            world.send(
                ALICE,
                positions,
                NonfungiblePositionManager::mintCall {
                    params: NonfungiblePositionManager::MintParams {
                        token0,
                        token1,
                        fee,
                        tickLower: I24::try_from(-width).expect("a tick"),
                        tickUpper: I24::try_from(width).expect("a tick"),
                        amount0Desired: ether(1_000),
                        amount1Desired: ether(1_000),
                        amount0Min: U256::ZERO,
                        amount1Min: U256::ZERO,
                        recipient: ALICE,
                        deadline: U256::MAX,
                    },
                },
            );
        }
        let find = UniswapV3Factory::getPoolCall { tokenA: token0, tokenB: token1, fee };
        let found = world.simulate(&[ForkCall::new(ALICE, factory, find.abi_encode())]);
        let pool = Address::abi_decode(&found.outcomes[0].output).expect("an address");
        (world, Market { weth, router, positions, pool, tokens })
    }
}

impl Market {
    /// Swap of the first token for the second by `trader`.
    pub fn swap(&self, trader: Address, amount_in: U256) -> ForkCall {
        let [token_in, token_out] = self.tokens;
        let params = SwapRouter02::ExactInputSingleParams {
            tokenIn: token_in,
            tokenOut: token_out,
            fee: U24::from(FEE),
            recipient: trader,
            amountIn: amount_in,
            amountOutMinimum: U256::from(1),
            sqrtPriceLimitX96: U160::ZERO,
        };
        call(trader, self.router, SwapRouter02::exactInputSingleCall { params }).with_gas_limit(1_000_000)
    }

    /// Amount that crosses the ticks of both inner positions.
    pub fn deep(&self) -> U256 {
        ether(2_500)
    }
}

pub fn call(from: Address, to: Address, call: impl SolCall) -> ForkCall {
    ForkCall::new(from, to, call.abi_encode())
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}
