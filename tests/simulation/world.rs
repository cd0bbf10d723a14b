//! A chain state with real and odd contracts, built by running their constructors.

use alloy::primitives::{Address, B256, Bytes, TxKind, U256, address, hex};
use alloy::sol_types::SolCall;
use bardo::chain::devnet::State;
use bardo::chain::evm::{self, BlockContext, ChainRules, Checks};
use bardo::chain::fork::{Call, Fork, Options, Simulation};
use revm::context::TxEnv;
use revm::context::result::{ExecutionResult, Output};

pub const ALICE: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
pub const BOB: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
pub const CAROL: Address = address!("3C44CdDdB6a900fa2b585dd299e03d12FA4293BC");
pub const RULES: ChainRules = ChainRules::osaka(31337);

/// Creation code of an odd contract, with its constructor's encoded arguments.
macro_rules! odd {
    ($name:literal, $arguments:expr) => {
        $crate::world::init_code(include_str!(concat!("../fixtures/contracts/", $name, ".hex")), $arguments)
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

pub struct World {
    pub state: State,
    pub block: BlockContext,
}

impl World {
    pub fn new() -> Self {
        let mut state = State::default();
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

    /// Deploys by running the constructor as the first account.
    pub fn deploy(&mut self, init_code: Bytes) -> Address {
        match self.transact(ALICE, TxKind::Create, init_code) {
            ExecutionResult::Success { output: Output::Create(_, Some(created)), .. } => created,
            other => panic!("the constructor failed: {other:?}"),
        }
    }

    /// Executes for good, as the chain would.
    pub fn send(&mut self, from: Address, to: Address, call: impl SolCall) {
        let result = self.transact(from, TxKind::Call(to), call.abi_encode().into());
        assert!(result.is_success(), "{result:?}");
    }

    fn transact(&mut self, from: Address, kind: TxKind, data: Bytes) -> ExecutionResult {
        let tx = TxEnv {
            caller: from,
            kind,
            data,
            gas_limit: 16_000_000,
            gas_price: 0,
            nonce: self.state.nonce(from),
            chain_id: Some(RULES.chain_id),
            ..TxEnv::default()
        };
        let execution = evm::transact(&self.state, &RULES, &self.block, Checks::Call, tx).expect("a sound transaction");
        self.state.apply(execution.state);
        execution.result
    }

    pub fn fork(&self) -> Fork {
        Fork::on_state(self.state.clone(), B256::repeat_byte(0x11), RULES, self.block)
    }

    pub fn simulate(&self, calls: &[Call]) -> Simulation {
        self.simulate_with(calls, &Options::default())
    }

    pub fn simulate_with(&self, calls: &[Call], options: &Options) -> Simulation {
        block_on(self.fork().simulate_with(calls, options)).expect("a simulation")
    }
}

pub fn call(from: Address, to: Address, call: impl SolCall) -> Call {
    Call::new(from, to, call.abi_encode())
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}
