//! Configuration of revm: hardfork, block environment, fee rules and transaction environments for the devnet and the
//! fork simulation.
//!
//! There is one EVM type, [`Evm`], over a borrowed `dyn` database, so that the interpreter is compiled once. State
//! providers implement revm's `DatabaseRef` with [`DatabaseError`].
//!
//! Not here: state (see `devnet::state`, `fork`) and the interpretation of results.

mod stand_in;

use std::cell::RefCell;

use alloy::consensus::{Transaction, TxType};
use alloy::eips::eip1559::{BaseFeeParams, calc_next_block_base_fee};
use alloy::eips::eip7840::BlobParams;
use alloy::primitives::{Address, B256, Bytes, TxKind, U256};
use alloy::rpc::types::TransactionRequest;
use revm::ExecuteEvm;
use revm::context::either::Either;
use revm::context::result::{EVMError, ExecResultAndState, ExecutionResult, HaltReason, InvalidTransaction};
use revm::context::{BlockEnv, CfgEnv, Context, TxEnv};
use revm::context_interface::FrameStack;
use revm::context_interface::block::BlobExcessGasAndPrice;
use revm::database_interface::{DatabaseRef, EmptyDB, ErasedError, WrapDatabaseRef};
use revm::handler::instructions::EthInstructions;
use revm::handler::{EthFrame, EthPrecompiles, MainBuilder, MainContext, MainnetContext, MainnetEvm, SystemCallEvm};
use revm::inspector::{InspectEvm, Inspector};
use revm::interpreter::interpreter::EthInterpreter;
use revm::state::EvmState;

pub use revm::primitives::hardfork::SpecId;
pub(crate) use stand_in::Precompiles;
pub use stand_in::{PLACEHOLDER_SIGNATURE, SignaturePlaceholder};

/// Error type of every database under an [`Evm`]: the provider's own error, type-erased, so that the interpreter is
/// instantiated once. `into_inner` returns the original for a downcast.
pub type DatabaseError = ErasedError;

/// State that an [`Evm`] borrows and executes on.
pub type DynDatabase<'a> = dyn DatabaseRef<Error = DatabaseError> + 'a;

/// Context of an [`Evm`], which inspectors see.
pub type EvmContext<'a> = MainnetContext<WrapDatabaseRef<&'a DynDatabase<'a>>>;

/// The EVM type of this crate; `Inspect` is `()` where no inspector runs.
pub type Evm<'a, Inspect = ()> = MainnetEvm<EvmContext<'a>, Inspect>;

/// Result, logs and all touched accounts of one execution.
pub type Execution = ExecResultAndState<ExecutionResult<HaltReason>, EvmState>;

/// Error of an execution that could not start, or whose database failed.
pub type EvmError = EVMError<DatabaseError, InvalidTransaction>;

/// Gas limit of a single transaction since Osaka, 2^24 ([EIP-7825](https://eips.ethereum.org/EIPS/eip-7825)).
pub const TRANSACTION_GAS_CAP: u64 = 1 << 24;

/// Number of call frames that are allocated at first, as many as revm allocates.
const PREPARED_FRAMES: usize = 8;

/// Chain id and hardfork that an execution follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainRules {
    /// Chain id that a transaction must carry ([EIP-155](https://eips.ethereum.org/EIPS/eip-155)).
    pub chain_id: u64,
    /// The active hardfork.
    pub spec: SpecId,
}

impl ChainRules {
    /// Rules of chain `chain_id` under Osaka, the hardfork of the devnet.
    pub const fn osaka(chain_id: u64) -> Self {
        Self { chain_id, spec: SpecId::OSAKA }
    }

    /// Blob schedule of the hardfork ([EIP-7840](https://eips.ethereum.org/EIPS/eip-7840)).
    pub fn blob_params(&self) -> BlobParams {
        if self.spec.is_enabled_in(SpecId::OSAKA) {
            BlobParams::osaka()
        } else if self.spec.is_enabled_in(SpecId::PRAGUE) {
            BlobParams::prague()
        } else {
            BlobParams::cancun()
        }
    }

    /// Highest gas limit of one transaction in a block with `block_gas_limit`.
    pub fn transaction_gas_limit(&self, block_gas_limit: u64) -> u64 {
        if self.spec.is_enabled_in(SpecId::OSAKA) { block_gas_limit.min(TRANSACTION_GAS_CAP) } else { block_gas_limit }
    }
}

/// Block values that a transaction can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockContext {
    /// Height of the block.
    pub number: u64,
    /// Block time, in seconds since the Unix epoch.
    pub timestamp: u64,
    /// Base fee, in wei per gas ([EIP-1559](https://eips.ethereum.org/EIPS/eip-1559)).
    pub base_fee: u64,
    /// Gas limit of the block.
    pub gas_limit: u64,
    /// Recipient of the priority fees.
    pub coinbase: Address,
    /// Randomness of the beacon chain ([EIP-4399](https://eips.ethereum.org/EIPS/eip-4399)).
    pub prevrandao: B256,
    /// Blob gas above the target, accumulated over past blocks ([EIP-4844](https://eips.ethereum.org/EIPS/eip-4844)).
    pub excess_blob_gas: u64,
}

/// Strictness of the checks before a transaction runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckMode {
    /// All checks of a block producer.
    Transaction,
    /// All checks of a block producer except that the sender may be a contract, for impersonated senders.
    Impersonated,
    /// The checks of `eth_call`: any nonce, any sender, gas above the limits and a gas price of zero are accepted. The
    /// sender's balance must still cover the value.
    Call,
}

/// Error for a request that does not describe a transaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The request sets both a gas price and EIP-1559 fees.
    #[error("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified: give one kind")]
    MixedFees,
    /// `input` and `data` differ.
    #[error("both \"data\" and \"input\" are set and not equal: set \"input\" only")]
    InputMismatch,
    /// A contract creation of a transaction type that does not support it.
    #[error("a type {0} transaction cannot create a contract: give \"to\"")]
    MissingTarget(u8),
    /// The request names the chain id of another chain.
    #[error("the request names chain id {given}, this chain is {expected}")]
    WrongChain {
        /// Chain id in the request.
        given: u64,
        /// Chain id of this chain.
        expected: u64,
    },
}

/// Configuration environment for the chain `rules`, with `checks` applied to the transaction `tx`.
pub fn cfg_env(rules: &ChainRules, checks: CheckMode, tx: &TxEnv) -> CfgEnv {
    let mut cfg = CfgEnv::new_with_spec(rules.spec).with_chain_id(rules.chain_id);
    let blobs = rules.blob_params();
    cfg.set_max_blobs_per_tx(blobs.max_blobs_per_tx);
    cfg.blob_base_fee_update_fraction = u64::try_from(blobs.update_fraction).ok();
    match checks {
        CheckMode::Transaction => {}
        CheckMode::Impersonated => cfg.disable_eip3607 = true,
        CheckMode::Call => {
            cfg.disable_eip3607 = true;
            cfg.disable_nonce_check = true;
            cfg.disable_block_gas_limit = true;
            cfg.tx_gas_limit_cap = Some(u64::MAX);
            // As in geth, a given gas price must cover the base fee; without a price the call is free.
            cfg.disable_base_fee = tx.gas_price == 0;
        }
    }
    cfg
}

/// Converts a block context to revm's block environment.
pub fn block_env(rules: &ChainRules, block: &BlockContext) -> BlockEnv {
    let fraction = u64::try_from(rules.blob_params().update_fraction).unwrap_or(u64::MAX);
    BlockEnv {
        number: U256::from(block.number),
        beneficiary: block.coinbase,
        timestamp: U256::from(block.timestamp),
        gas_limit: block.gas_limit,
        basefee: block.base_fee,
        difficulty: U256::ZERO,
        prevrandao: Some(block.prevrandao),
        blob_excess_gas_and_price: Some(BlobExcessGasAndPrice::new(block.excess_blob_gas, fraction)),
        slot_num: 0,
    }
}

/// Executes one transaction on `database` and returns its changes; nothing is written.
///
/// # Errors
/// An [`EvmError`] if a check fails before the execution or the database fails. A revert is a result, not an error.
pub fn transact(
    database: &DynDatabase<'_>,
    rules: &ChainRules,
    block: &BlockContext,
    checks: CheckMode,
    tx: TxEnv,
) -> Result<Execution, EvmError> {
    let mut evm: Evm<'_> = context(database, rules, block, checks, &tx).build_mainnet();
    evm.transact(tx)
}

thread_local! {
    /// Call frames of this thread's last transaction of a block.
    static FRAMES: RefCell<Option<FrameStack<EthFrame<EthInterpreter>>>> = const { RefCell::new(None) };
}

/// Like [`transact`], for the transactions of a block, which follow each other on one thread: their call frames, 32 KiB
/// each, are allocated once. A thread keeps as many as its deepest transaction had, so this is not for calls.
///
/// # Errors
/// As [`transact`].
pub(crate) fn transact_in_block(
    database: &DynDatabase<'_>,
    rules: &ChainRules,
    block: &BlockContext,
    checks: CheckMode,
    tx: TxEnv,
) -> Result<Execution, EvmError> {
    let ctx = context(database, rules, block, checks, &tx);
    let mut evm: Evm<'_> = MainnetEvm {
        ctx,
        inspector: (),
        instruction: EthInstructions::new_mainnet_with_spec(rules.spec),
        precompiles: EthPrecompiles::new(rules.spec),
        frame_stack: FRAMES.take().unwrap_or_else(|| FrameStack::new_prealloc(PREPARED_FRAMES)),
    };
    let executed = evm.transact(tx);
    FRAMES.set(Some(evm.frame_stack));
    executed
}

/// Like [`transact`], with an inspector that sees every step.
///
/// # Errors
/// As [`transact`].
pub fn inspect<'a, Watch: Inspector<EvmContext<'a>>>(
    database: &'a DynDatabase<'a>,
    rules: &ChainRules,
    block: &BlockContext,
    checks: CheckMode,
    tx: TxEnv,
    watch: Watch,
) -> Result<Execution, EvmError> {
    let mut evm: Evm<'a, Watch> = context(database, rules, block, checks, &tx).build_mainnet_with_inspector(watch);
    evm.inspect_tx(tx)
}

/// Runs a system contract with the system address as caller, without fee or nonce, as at the start of a block
/// ([EIP-2935](https://eips.ethereum.org/EIPS/eip-2935)).
///
/// # Errors
/// An [`EvmError`] if the database fails.
pub fn system_call(
    database: &DynDatabase<'_>,
    rules: &ChainRules,
    block: &BlockContext,
    contract: Address,
    data: Bytes,
) -> Result<Execution, EvmError> {
    let mut evm: Evm<'_> = context(database, rules, block, CheckMode::Call, &TxEnv::default()).build_mainnet();
    evm.system_call(contract, data)
}

fn context<'a>(
    database: &'a DynDatabase<'a>,
    rules: &ChainRules,
    block: &BlockContext,
    checks: CheckMode,
    tx: &TxEnv,
) -> EvmContext<'a> {
    let mainnet: MainnetContext<EmptyDB> = Context::mainnet();
    mainnet.with_db(WrapDatabaseRef(database)).with_cfg(cfg_env(rules, checks, tx)).with_block(block_env(rules, block))
}

/// Base fee of the next block after one that used `gas_used` of `gas_limit` at `base_fee`
/// ([EIP-1559](https://eips.ethereum.org/EIPS/eip-1559), elasticity 2, denominator 8).
pub fn next_base_fee(gas_used: u64, gas_limit: u64, base_fee: u64) -> u64 {
    calc_next_block_base_fee(gas_used, gas_limit, base_fee, BaseFeeParams::ethereum())
}

/// Transaction environment of a signed or impersonated transaction of any standard type.
pub fn tx_env(transaction: &impl Transaction, sender: Address) -> TxEnv {
    TxEnv {
        tx_type: transaction.ty(),
        caller: sender,
        gas_limit: transaction.gas_limit(),
        gas_price: transaction.max_fee_per_gas(),
        kind: transaction.kind(),
        value: transaction.value(),
        data: transaction.input().clone(),
        nonce: transaction.nonce(),
        chain_id: transaction.chain_id(),
        access_list: transaction.access_list().cloned().unwrap_or_default(),
        gas_priority_fee: transaction.max_priority_fee_per_gas(),
        blob_hashes: transaction.blob_versioned_hashes().map(<[B256]>::to_vec).unwrap_or_default(),
        max_fee_per_blob_gas: transaction.max_fee_per_blob_gas().unwrap_or_default(),
        authorization_list: transaction
            .authorization_list()
            .unwrap_or_default()
            .iter()
            .cloned()
            .map(Either::Left)
            .collect(),
    }
}

/// Transaction environment of a call. Where `request` names no sender, gas or fee, the zero address, `gas_limit` and a
/// zero fee apply.
///
/// # Errors
/// A [`RequestError`] if the fields contradict each other or the chain.
pub fn call_env(
    request: &TransactionRequest,
    rules: &ChainRules,
    block: &BlockContext,
    gas_limit: u64,
) -> Result<TxEnv, RequestError> {
    if let Some(given) = request.chain_id.filter(|given| *given != rules.chain_id) {
        return Err(RequestError::WrongChain { given, expected: rules.chain_id });
    }
    let data = match (&request.input.input, &request.input.data) {
        (Some(input), Some(data)) if input != data => return Err(RequestError::InputMismatch),
        (Some(bytes), _) | (None, Some(bytes)) => bytes.clone(),
        (None, None) => Bytes::new(),
    };
    let tx_type = request_type(request);
    let (gas_price, gas_priority_fee) =
        match (request.gas_price, request.max_fee_per_gas, request.max_priority_fee_per_gas) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => return Err(RequestError::MixedFees),
            (Some(price), None, None) => (price, (tx_type as u8 >= TxType::Eip1559 as u8).then_some(price)),
            (None, Some(cap), tip) => (cap, Some(tip.unwrap_or_default())),
            (None, None, Some(tip)) => (tip.saturating_add(u128::from(block.base_fee)), Some(tip)),
            (None, None, None) => (0, (tx_type as u8 >= TxType::Eip1559 as u8).then_some(0)),
        };
    let kind = request.to.unwrap_or(TxKind::Create);
    if kind.is_create() && matches!(tx_type, TxType::Eip4844 | TxType::Eip7702) {
        return Err(RequestError::MissingTarget(tx_type as u8));
    }
    Ok(TxEnv {
        tx_type: tx_type as u8,
        caller: request.from.unwrap_or_default(),
        gas_limit: request.gas.unwrap_or(gas_limit),
        gas_price,
        kind,
        value: request.value.unwrap_or_default(),
        data,
        nonce: request.nonce.unwrap_or_default(),
        chain_id: Some(rules.chain_id),
        access_list: request.access_list.clone().unwrap_or_default(),
        gas_priority_fee,
        blob_hashes: request.blob_versioned_hashes.clone().unwrap_or_default(),
        max_fee_per_blob_gas: request.max_fee_per_blob_gas.unwrap_or_default(),
        authorization_list: request.authorization_list.iter().flatten().cloned().map(Either::Left).collect(),
    })
}

/// Transaction type that the request's fields imply; the `type` field itself is ignored.
fn request_type(request: &TransactionRequest) -> TxType {
    if request.authorization_list.as_ref().is_some_and(|list| !list.is_empty()) {
        TxType::Eip7702
    } else if request.blob_versioned_hashes.as_ref().is_some_and(|hashes| !hashes.is_empty()) {
        TxType::Eip4844
    } else if request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some() {
        TxType::Eip1559
    } else if request.access_list.is_some() {
        TxType::Eip2930
    } else {
        TxType::Legacy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devnet::state::WorldState;
    use alloy::primitives::address;
    use alloy::rpc::types::TransactionInput;

    const RULES: ChainRules = ChainRules::osaka(31337);
    const SENDER: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");

    fn block() -> BlockContext {
        BlockContext {
            number: 1,
            timestamp: 1_700_000_000,
            base_fee: 1_000_000_000,
            gas_limit: 30_000_000,
            coinbase: Address::ZERO,
            prevrandao: B256::ZERO,
            excess_blob_gas: 0,
        }
    }

    fn request() -> TransactionRequest {
        TransactionRequest {
            from: Some(SENDER),
            to: Some(TxKind::Call(Address::repeat_byte(0x11))),
            ..Default::default()
        }
    }

    fn call(state: &WorldState, request: &TransactionRequest) -> Result<Execution, EvmError> {
        let tx = call_env(request, &RULES, &block(), 30_000_000).expect("a sound request");
        transact(state, &RULES, &block(), CheckMode::Call, tx)
    }

    #[test]
    fn base_fee_follows_eip_1559() {
        // The target is half the limit; a full block raises the fee by an eighth, an empty one lowers it by an eighth.
        assert_eq!(next_base_fee(15_000_000, 30_000_000, 1_000_000_000), 1_000_000_000);
        assert_eq!(next_base_fee(30_000_000, 30_000_000, 1_000_000_000), 1_125_000_000);
        assert_eq!(next_base_fee(0, 30_000_000, 1_000_000_000), 875_000_000);
        // An increase is at least one wei; a decrease may be zero.
        assert_eq!(next_base_fee(15_000_001, 30_000_000, 7), 8);
        assert_eq!(next_base_fee(0, 30_000_000, 7), 7);
    }

    #[test]
    fn a_plain_transfer_costs_21000() {
        let mut state = WorldState::default();
        state.set_balance(SENDER, U256::from(10));
        let execution = call(&state, &TransactionRequest { value: Some(U256::from(3)), ..request() }).expect("runs");
        assert_eq!(execution.result.tx_gas_used(), 21_000);
        assert_eq!(execution.state[&SENDER].info.balance, U256::from(7));
    }

    #[test]
    fn calldata_has_the_floor_price_of_eip_7623() {
        // 100 nonzero bytes are 400 tokens; the floor of 10 gas per token exceeds the usual 4 gas per token.
        let request = TransactionRequest { input: TransactionInput::new(vec![1; 100].into()), ..request() };
        let execution = call(&WorldState::default(), &request).expect("runs");
        assert_eq!(execution.result.tx_gas_used(), 21_000 + 400 * 10);
    }

    #[test]
    fn a_call_must_still_cover_its_value() {
        let request = TransactionRequest { value: Some(U256::from(1)), ..request() };
        let error = call(&WorldState::default(), &request).expect_err("no balance");
        assert!(matches!(error, EVMError::Transaction(InvalidTransaction::LackOfFundForMaxFee { .. })), "{error}");
    }

    #[test]
    fn transactions_are_capped_by_eip_7825_and_calls_are_not() {
        let mut state = WorldState::default();
        state.set_balance(SENDER, U256::from(10).pow(U256::from(20)));
        let request = TransactionRequest { gas: Some(16_777_217), gas_price: Some(1_000_000_000), ..request() };
        let tx = call_env(&request, &RULES, &block(), 0).expect("a sound request");
        let error = transact(&state, &RULES, &block(), CheckMode::Transaction, tx.clone()).expect_err("over the cap");
        assert!(matches!(error, EVMError::Transaction(InvalidTransaction::TxGasLimitGreaterThanCap { .. })), "{error}");
        assert!(transact(&state, &RULES, &block(), CheckMode::Call, tx).is_ok());
    }

    #[test]
    fn requests_that_contradict_themselves_are_refused() {
        let mixed = TransactionRequest { gas_price: Some(1), max_fee_per_gas: Some(1), ..request() };
        assert_eq!(call_env(&mixed, &RULES, &block(), 0), Err(RequestError::MixedFees));
        let mut twice = request();
        twice.input = TransactionInput { input: Some(vec![1].into()), data: Some(vec![2].into()) };
        assert_eq!(call_env(&twice, &RULES, &block(), 0), Err(RequestError::InputMismatch));
        let other = TransactionRequest { chain_id: Some(1), ..request() };
        assert_eq!(call_env(&other, &RULES, &block(), 0), Err(RequestError::WrongChain { given: 1, expected: 31337 }));
    }

    #[test]
    fn system_calls_cost_the_sender_nothing() {
        // Stores the first word of the calldata at slot 0: PUSH0 CALLDATALOAD PUSH0 SSTORE STOP.
        let contract = Address::repeat_byte(0x22);
        let mut state = WorldState::default();
        state.set_code(contract, Bytes::from_static(&[0x5f, 0x35, 0x5f, 0x55, 0x00])).expect("plain code");
        let data = Bytes::from(U256::from(5).to_be_bytes::<32>().to_vec());
        let execution = system_call(&state, &RULES, &block(), contract, data).expect("runs");
        state.apply(execution.state);
        assert_eq!(state.storage_at(contract, U256::ZERO), U256::from(5));
        assert_eq!(state.nonce(revm::handler::SYSTEM_ADDRESS), 0);
    }
}
