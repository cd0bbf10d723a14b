//! How Bardo configures revm: one place for hardfork, block environment, fee rules and
//! transaction environments, used by the devnet and by the fork simulation.
//!
//! There is one EVM type, [`Evm`], over a borrowed `dyn` database: whoever has state to run on
//! implements revm's `DatabaseRef` with [`DatabaseError`], and the interpreter is compiled once.
//!
//! Not here: state (see `devnet::state`, `fork`) and what is done with a result.

mod stand_in;

use alloy::consensus::{Transaction, TxType};
use alloy::eips::eip1559::{BaseFeeParams, calc_next_block_base_fee};
use alloy::eips::eip7840::BlobParams;
use alloy::primitives::{Address, B256, Bytes, TxKind, U256};
use alloy::rpc::types::TransactionRequest;
use revm::ExecuteEvm;
use revm::context::either::Either;
use revm::context::result::{EVMError, ExecResultAndState, ExecutionResult, HaltReason, InvalidTransaction};
use revm::context::{BlockEnv, CfgEnv, Context, TxEnv};
use revm::context_interface::block::BlobExcessGasAndPrice;
use revm::database_interface::{DatabaseRef, EmptyDB, ErasedError, WrapDatabaseRef};
use revm::handler::{MainBuilder, MainContext, MainnetContext, MainnetEvm, SystemCallEvm};
use revm::inspector::{InspectEvm, Inspector};
use revm::state::EvmState;

pub use revm::primitives::hardfork::SpecId;
pub(crate) use stand_in::Precompiles;
pub use stand_in::{PLACEHOLDER_SIGNATURE, StandIn};

/// The error every database under an [`Evm`] reports: the room's own error, erased, so that the
/// interpreter exists in one instance. `into_inner` gives it back for a downcast.
pub type DatabaseError = ErasedError;

/// State to execute on, as an [`Evm`] borrows it.
pub type DynDatabase<'a> = dyn DatabaseRef<Error = DatabaseError> + 'a;

/// The context of an [`Evm`]: what an inspector sees.
pub type EvmContext<'a> = MainnetContext<WrapDatabaseRef<&'a DynDatabase<'a>>>;

/// The one EVM type of this crate; `Inspect` is `()` where nothing watches.
pub type Evm<'a, Inspect = ()> = MainnetEvm<EvmContext<'a>, Inspect>;

/// Result, logs and every touched account of one execution.
pub type Execution = ExecResultAndState<ExecutionResult<HaltReason>, EvmState>;

/// Why an execution did not even begin, or the database failed under it.
pub type EvmError = EVMError<DatabaseError, InvalidTransaction>;

/// The gas a transaction may ask for at most, from Osaka on: 2^24
/// ([EIP-7825](https://eips.ethereum.org/EIPS/eip-7825)).
pub const TRANSACTION_GAS_CAP: u64 = 1 << 24;

/// Which rules a chain runs under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainRules {
    /// The id a transaction must carry ([EIP-155](https://eips.ethereum.org/EIPS/eip-155)).
    pub chain_id: u64,
    /// The hardfork.
    pub spec: SpecId,
}

impl ChainRules {
    /// The rules of chain `chain_id` under Osaka, the hardfork of the devnet.
    pub const fn osaka(chain_id: u64) -> Self {
        Self { chain_id, spec: SpecId::OSAKA }
    }

    /// Blob schedule of this hardfork ([EIP-7840](https://eips.ethereum.org/EIPS/eip-7840)).
    pub fn blob_params(&self) -> BlobParams {
        if self.spec.is_enabled_in(SpecId::OSAKA) {
            BlobParams::osaka()
        } else if self.spec.is_enabled_in(SpecId::PRAGUE) {
            BlobParams::prague()
        } else {
            BlobParams::cancun()
        }
    }

    /// The most gas one transaction may ask for in a block of `block_gas_limit`.
    pub fn transaction_gas_limit(&self, block_gas_limit: u64) -> u64 {
        if self.spec.is_enabled_in(SpecId::OSAKA) { block_gas_limit.min(TRANSACTION_GAS_CAP) } else { block_gas_limit }
    }
}

/// What a transaction can learn about the block it runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockContext {
    /// Height.
    pub number: u64,
    /// Seconds since the Unix epoch.
    pub timestamp: u64,
    /// Wei per gas that is burnt ([EIP-1559](https://eips.ethereum.org/EIPS/eip-1559)).
    pub base_fee: u64,
    /// Gas that all transactions of the block may use together.
    pub gas_limit: u64,
    /// Who receives the priority fees.
    pub coinbase: Address,
    /// The beacon chain's randomness ([EIP-4399](https://eips.ethereum.org/EIPS/eip-4399)).
    pub prevrandao: B256,
    /// Blob gas above target, summed over past blocks ([EIP-4844](https://eips.ethereum.org/EIPS/eip-4844)).
    pub excess_blob_gas: u64,
}

/// How strictly a transaction is examined before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checks {
    /// As a block producer does.
    Transaction,
    /// As a block producer does, but the sender may be a contract: what an impersonated sender needs.
    Impersonated,
    /// As `eth_call` does: any nonce, any sender, gas beyond the caps, and a gas price of zero passes.
    /// Value must still be covered by the sender's balance.
    Call,
}

/// A request that does not describe a transaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Both fee styles at once.
    #[error("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified: give one kind")]
    MixedFees,
    /// `input` and `data` disagree.
    #[error("both \"data\" and \"input\" are set and not equal: set \"input\" only")]
    InputMismatch,
    /// A contract creation of a type that has none.
    #[error("a type {0} transaction cannot create a contract: give \"to\"")]
    MissingTarget(u8),
    /// The chain id is another chain's.
    #[error("the request names chain id {given}, this chain is {expected}")]
    WrongChain {
        /// What the request says.
        given: u64,
        /// What this chain is.
        expected: u64,
    },
}

/// The environment for chain `rules` with `checks` on the transaction `tx`.
pub fn cfg_env(rules: &ChainRules, checks: Checks, tx: &TxEnv) -> CfgEnv {
    let mut cfg = CfgEnv::new_with_spec(rules.spec).with_chain_id(rules.chain_id);
    let blobs = rules.blob_params();
    cfg.set_max_blobs_per_tx(blobs.max_blobs_per_tx);
    cfg.blob_base_fee_update_fraction = u64::try_from(blobs.update_fraction).ok();
    match checks {
        Checks::Transaction => {}
        Checks::Impersonated => cfg.disable_eip3607 = true,
        Checks::Call => {
            cfg.disable_eip3607 = true;
            cfg.disable_nonce_check = true;
            cfg.disable_block_gas_limit = true;
            cfg.tx_gas_limit_cap = Some(u64::MAX);
            // A price that was given is held to the base fee, as geth does; no price is a free call.
            cfg.disable_base_fee = tx.gas_price == 0;
        }
    }
    cfg
}

/// revm's form of a block's context.
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

/// Executes one transaction on `database` and returns what it would change; nothing is written.
pub fn transact(
    database: &DynDatabase<'_>,
    rules: &ChainRules,
    block: &BlockContext,
    checks: Checks,
    tx: TxEnv,
) -> Result<Execution, EvmError> {
    let mut evm: Evm<'_> = context(database, rules, block, checks, &tx).build_mainnet();
    evm.transact(tx)
}

/// [`transact`] with somebody who watches every step.
pub fn inspect<'a, Watch: Inspector<EvmContext<'a>>>(
    database: &'a DynDatabase<'a>,
    rules: &ChainRules,
    block: &BlockContext,
    checks: Checks,
    tx: TxEnv,
    watch: Watch,
) -> Result<Execution, EvmError> {
    let mut evm: Evm<'a, Watch> = context(database, rules, block, checks, &tx).build_mainnet_with_inspector(watch);
    evm.inspect_tx(tx)
}

/// Runs a system contract as the system address does at the start of a block
/// ([EIP-2935](https://eips.ethereum.org/EIPS/eip-2935)): no fee, no nonce.
pub fn system_call(
    database: &DynDatabase<'_>,
    rules: &ChainRules,
    block: &BlockContext,
    contract: Address,
    data: Bytes,
) -> Result<Execution, EvmError> {
    let mut evm: Evm<'_> = context(database, rules, block, Checks::Call, &TxEnv::default()).build_mainnet();
    evm.system_call(contract, data)
}

fn context<'a>(
    database: &'a DynDatabase<'a>,
    rules: &ChainRules,
    block: &BlockContext,
    checks: Checks,
    tx: &TxEnv,
) -> EvmContext<'a> {
    let mainnet: MainnetContext<EmptyDB> = Context::mainnet();
    mainnet.with_db(WrapDatabaseRef(database)).with_cfg(cfg_env(rules, checks, tx)).with_block(block_env(rules, block))
}

/// The base fee of the block after one that used `gas_used` of `gas_limit` at `base_fee`
/// ([EIP-1559](https://eips.ethereum.org/EIPS/eip-1559), elasticity 2, denominator 8).
pub fn next_base_fee(gas_used: u64, gas_limit: u64, base_fee: u64) -> u64 {
    calc_next_block_base_fee(gas_used, gas_limit, base_fee, BaseFeeParams::ethereum())
}

/// The environment of a transaction by `sender`, signed or impersonated, of any standard type.
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

/// The environment of a call: `request` with what it leaves out filled in. The sender is the zero
/// address, the gas `gas_limit`, the fee zero, unless the request says otherwise.
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

/// The type a request's fields ask for; the `type` field itself is only a label.
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
    use crate::devnet::state::State;
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

    fn call(state: &State, request: &TransactionRequest) -> Result<Execution, EvmError> {
        let tx = call_env(request, &RULES, &block(), 30_000_000).expect("a sound request");
        transact(state, &RULES, &block(), Checks::Call, tx)
    }

    #[test]
    fn base_fee_follows_eip_1559() {
        // Target is half the limit; a full block adds an eighth, an empty one takes an eighth.
        assert_eq!(next_base_fee(15_000_000, 30_000_000, 1_000_000_000), 1_000_000_000);
        assert_eq!(next_base_fee(30_000_000, 30_000_000, 1_000_000_000), 1_125_000_000);
        assert_eq!(next_base_fee(0, 30_000_000, 1_000_000_000), 875_000_000);
        // The rise is at least one wei; the fall is not.
        assert_eq!(next_base_fee(15_000_001, 30_000_000, 7), 8);
        assert_eq!(next_base_fee(0, 30_000_000, 7), 7);
    }

    #[test]
    fn a_plain_transfer_costs_21000() {
        let mut state = State::default();
        state.set_balance(SENDER, U256::from(10));
        let execution = call(&state, &TransactionRequest { value: Some(U256::from(3)), ..request() }).expect("runs");
        assert_eq!(execution.result.tx_gas_used(), 21_000);
        assert_eq!(execution.state[&SENDER].info.balance, U256::from(7));
    }

    #[test]
    fn calldata_has_the_floor_price_of_eip_7623() {
        // 100 nonzero bytes are 400 tokens: the floor of 10 a token beats the 4 a token of plain calldata.
        let request = TransactionRequest { input: TransactionInput::new(vec![1; 100].into()), ..request() };
        let execution = call(&State::default(), &request).expect("runs");
        assert_eq!(execution.result.tx_gas_used(), 21_000 + 400 * 10);
    }

    #[test]
    fn a_call_must_still_cover_its_value() {
        let request = TransactionRequest { value: Some(U256::from(1)), ..request() };
        let error = call(&State::default(), &request).expect_err("no balance");
        assert!(matches!(error, EVMError::Transaction(InvalidTransaction::LackOfFundForMaxFee { .. })), "{error}");
    }

    #[test]
    fn transactions_are_capped_by_eip_7825_and_calls_are_not() {
        let mut state = State::default();
        state.set_balance(SENDER, U256::from(10).pow(U256::from(20)));
        let request = TransactionRequest { gas: Some(16_777_217), gas_price: Some(1_000_000_000), ..request() };
        let tx = call_env(&request, &RULES, &block(), 0).expect("a sound request");
        let error = transact(&state, &RULES, &block(), Checks::Transaction, tx.clone()).expect_err("over the cap");
        assert!(matches!(error, EVMError::Transaction(InvalidTransaction::TxGasLimitGreaterThanCap { .. })), "{error}");
        assert!(transact(&state, &RULES, &block(), Checks::Call, tx).is_ok());
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
    fn system_calls_cost_nobody_anything() {
        // Stores calldata's first word at slot 0: PUSH0 CALLDATALOAD PUSH0 SSTORE STOP.
        let contract = Address::repeat_byte(0x22);
        let mut state = State::default();
        state.set_code(contract, Bytes::from_static(&[0x5f, 0x35, 0x5f, 0x55, 0x00])).expect("plain code");
        let data = Bytes::from(U256::from(5).to_be_bytes::<32>().to_vec());
        let execution = system_call(&state, &RULES, &block(), contract, data).expect("runs");
        state.apply(execution.state);
        assert_eq!(state.storage_at(contract, U256::ZERO), U256::from(5));
        assert_eq!(state.nonce(revm::handler::SYSTEM_ADDRESS), 0);
    }
}
