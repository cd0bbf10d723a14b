//! The EVM of a simulation: revm over layers of state, with two replaced instructions.
//!
//! It only executes and records: hash preimages in calls, and storage reads in queries. There is no inspector, so that
//! the other 254 instructions run at full speed. Only `KECCAK256` and `SLOAD` are wrapped in the instruction table.

use std::collections::HashMap;

use alloy::{
    eips::eip2935::{HISTORY_SERVE_WINDOW, HISTORY_STORAGE_ADDRESS},
    primitives::{Address, B256, Bytes, U256},
};
use revm::{
    Context, Database, ExecuteEvm, Journal,
    bytecode::opcode,
    context::{BlockEnv, CfgEnv, Evm, JournalTr, LocalContext, TxEnv, result::ExecutionResult},
    context_interface::{LocalContextTr, context::take_error},
    handler::{EthFrame, EvmTr, Handler, MainnetHandler, instructions::EthInstructions},
    interpreter::{
        CallInput, CallInputs, CallScheme, CallValue, FrameInput, InstructionContext, InstructionExecResult,
        InstructionResult, SharedMemory,
        instructions::{Instruction, host, system},
        interpreter::EthInterpreter,
        interpreter_action::FrameInit,
        interpreter_types::InputsTr,
    },
    state::{AccountInfo, Bytecode, EvmState},
};

use super::balance_delta::BalanceDelta;
use crate::evm::{
    self, BlockContext, ChainRules, CheckMode, DatabaseError, DynDatabase, EvmError, Precompiles, SignaturePlaceholder,
    SpecId,
};

/// Maximum number of preimages; a run with more is reported as incomplete.
const MAX_PREIMAGES: usize = 1 << 16;
/// Lengths of hash inputs that can determine a storage slot: one packed address to four words.
const PREIMAGE_BYTES: std::ops::RangeInclusive<usize> = 20..=128;

/// The base state, and above it the changes of each executed call.
///
/// Depth `n` is the state after the first `n` calls; depth 0 is the pinned block.
pub(super) struct StateLayers<'a> {
    base: &'a DynDatabase<'a>,
    /// Slot of the history contract that the block writes before its first transaction, and the parent hash that it
    /// stores there ([EIP-2935](https://eips.ethereum.org/EIPS/eip-2935)).
    history: Option<(U256, U256)>,
    /// Changes of native balances in the base state.
    native_deltas: Vec<BalanceDelta>,
    /// Overridden storage slots of the base state.
    slots: HashMap<(Address, U256), U256>,
    calls: Vec<EvmState>,
    depth: usize,
}

/// Data recorded by the two replaced instructions.
#[derive(Debug, Default)]
pub(super) struct AccessRecorder {
    /// True during queries, which record reads; false during calls, which record preimages.
    asking: bool,
    /// Inputs of `KECCAK256`, concatenated.
    bytes: Vec<u8>,
    /// Hash, start in `bytes`, and length of each input.
    preimages: Vec<(B256, usize, usize)>,
    overflow: bool,
    /// Slots read since the start of the last query.
    reads: Vec<(Address, U256)>,
}

impl AccessRecorder {
    /// Records `bytes` as the preimage of `hash`.
    pub(super) fn remember(&mut self, hash: B256, bytes: &[u8]) {
        if self.preimages.len() >= MAX_PREIMAGES {
            self.overflow = true;
            return;
        }
        self.preimages.push((hash, self.bytes.len(), bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    /// All recorded preimages with their hashes.
    pub(super) fn preimages(&self) -> impl Iterator<Item = (B256, &[u8])> {
        self.preimages
            .iter()
            .map(|&(hash, start, length)| (hash, self.bytes.get(start..start + length).unwrap_or_default()))
    }

    /// Returns true if some preimages were not recorded.
    pub(super) fn overflowed(&self) -> bool {
        self.overflow
    }
}

type SimulationContext<'a> =
    Context<BlockEnv, TxEnv, CfgEnv, StateLayers<'a>, Journal<StateLayers<'a>>, AccessRecorder>;
type SimulationEvm<'a> = Evm<
    SimulationContext<'a>,
    (),
    EthInstructions<EthInterpreter, SimulationContext<'a>>,
    Precompiles,
    EthFrame<EthInterpreter>,
>;

/// EVM for one simulation: executes calls in order, then queries contracts at any depth.
pub(super) struct CallMachine<'a> {
    rules: ChainRules,
    evm: SimulationEvm<'a>,
}

/// Result of a query to a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QueryAnswer {
    /// The contract returned these bytes.
    Returned(Bytes),
    /// The address has no code.
    NoCode,
    /// The contract reverted.
    Reverted,
    /// The contract exceeded the query's gas limit.
    OutOfGas,
    /// The contract halted for another reason.
    Halted,
}

impl<'a> CallMachine<'a> {
    /// Creates an EVM on top of `base` in the given environment, with placeholder signatures for `stand_ins`.
    pub(super) fn new(
        rules: ChainRules,
        block: &BlockContext,
        parent: B256,
        base: &'a DynDatabase<'a>,
        stand_ins: &[SignaturePlaceholder],
    ) -> Self {
        let spec = rules.spec;
        let history = spec.is_enabled_in(SpecId::PRAGUE).then(|| {
            let slot = block.number.saturating_sub(1) % HISTORY_SERVE_WINDOW as u64;
            (U256::from(slot), U256::from_be_bytes(parent.0))
        });
        let transaction = TxEnv::default();
        let cfg = evm::cfg_env(&rules, CheckMode::Call, &transaction);
        let mut journaled_state = Journal::new(StateLayers {
            base,
            history,
            native_deltas: Vec::new(),
            slots: HashMap::new(),
            calls: Vec::new(),
            depth: 0,
        });
        journaled_state.set_spec_id(spec);
        let host = SimulationContext {
            block: evm::block_env(&rules, block),
            tx: transaction,
            cfg,
            journaled_state,
            chain: AccessRecorder::default(),
            local: LocalContext::default(),
            error: Ok(()),
        };
        let mut instructions = EthInstructions::new_mainnet_with_spec(spec);
        let table = instructions.instruction_table_mut();
        // The indices are opcodes (u8) of a table of 256.
        table[usize::from(opcode::KECCAK256)] = Instruction::new(keccak256);
        table[usize::from(opcode::SLOAD)] = Instruction::new(sload);
        Self { rules, evm: Evm::new(host, instructions, Precompiles::new(spec, stand_ins)) }
    }

    /// Executes `transaction` on the state after all earlier ones.
    pub(super) fn execute(&mut self, transaction: TxEnv, checks: CheckMode) -> Result<ExecutionResult, EvmError> {
        self.evm.ctx.cfg = evm::cfg_env(&self.rules, checks, &transaction);
        self.evm.ctx.chain.asking = false;
        let depth = self.evm.ctx.journaled_state.database.calls.len();
        self.evm.ctx.journaled_state.database.depth = depth;
        let outcome = self.evm.transact(transaction)?;
        let layers = &mut self.evm.ctx.journaled_state.database;
        layers.calls.push(outcome.state);
        layers.depth = depth + 1;
        Ok(outcome.result)
    }

    /// Selects the state after the first `depth` calls.
    pub(super) fn select_state(&mut self, depth: usize) {
        let _ = self.evm.finalize();
        self.evm.ctx.journaled_state.database.depth = depth;
    }

    /// Calls `target` with `question` as a static call by `caller` on the selected state. Returns the result and the
    /// used gas.
    ///
    /// The slots that were read are in [`CallMachine::reads`] until the next query.
    pub(super) fn ask(
        &mut self,
        caller: Address,
        target: Address,
        question: Bytes,
        gas: u64,
    ) -> Result<(QueryAnswer, u64), EvmError> {
        self.evm.ctx.chain.asking = true;
        self.evm.ctx.chain.reads.clear();
        let account = self.evm.ctx.journaled_state.load_account_with_code(target)?;
        let mut known_bytecode = (account.info.code_hash, account.info.code.clone().unwrap_or_default());
        if let Some(delegate) = known_bytecode.1.eip7702_address() {
            let account = self.evm.ctx.journaled_state.load_account_with_code(delegate)?;
            known_bytecode = (account.info.code_hash, account.info.code.clone().unwrap_or_default());
        }
        if known_bytecode.1.is_empty() {
            return Ok((QueryAnswer::NoCode, 0));
        }
        let memory = SharedMemory::new_with_buffer(self.evm.ctx.local.shared_memory_buffer().clone());
        let frame = FrameInit {
            depth: 0,
            memory,
            frame_input: FrameInput::Call(Box::new(CallInputs {
                input: CallInput::Bytes(question),
                return_memory_offset: 0..0,
                gas_limit: gas,
                reservoir: 0,
                bytecode_address: target,
                known_bytecode,
                target_address: target,
                caller,
                value: CallValue::Apparent(U256::ZERO),
                scheme: CallScheme::StaticCall,
                is_static: true,
                charged_new_account_state_gas: false,
            })),
        };
        let mut handler = MainnetHandler::<SimulationEvm<'a>, EvmError, EthFrame<EthInterpreter>>::default();
        let result = handler.run_exec_loop(&mut self.evm, frame);
        self.evm.ctx.local.clear();
        self.evm.frame_stack().clear();
        take_error::<EvmError, _>(&mut self.evm.ctx.error)?;
        let result = result?.into_interpreter_result();
        let used = gas.saturating_sub(result.gas.remaining());
        let answer = match result.result {
            outcome if outcome.is_ok() => QueryAnswer::Returned(result.output),
            outcome if outcome.is_revert() => QueryAnswer::Reverted,
            InstructionResult::OutOfGas
            | InstructionResult::MemoryOOG
            | InstructionResult::MemoryLimitOOG
            | InstructionResult::PrecompileOOG
            | InstructionResult::InvalidOperandOOG
            | InstructionResult::ReentrancySentryOOG => QueryAnswer::OutOfGas,
            _ => QueryAnswer::Halted,
        };
        Ok((answer, used))
    }

    /// Changes an account's native balance in the base state.
    pub(super) fn add_native_delta(&mut self, delta: BalanceDelta) {
        self.evm.ctx.journaled_state.database.native_deltas.push(delta);
    }

    /// Overrides a storage slot of the base state, or removes the override.
    pub(super) fn override_slot(&mut self, contract: Address, slot: U256, value: Option<U256>) {
        let slots = &mut self.evm.ctx.journaled_state.database.slots;
        match value {
            Some(value) => slots.insert((contract, slot), value),
            None => slots.remove(&(contract, slot)),
        };
    }

    /// Slots read by the last query.
    pub(super) fn reads(&self) -> &[(Address, U256)] {
        &self.evm.ctx.chain.reads
    }

    pub(super) fn recorder(&self) -> &AccessRecorder {
        &self.evm.ctx.chain
    }

    /// State touched by each executed call, in order.
    pub(super) fn calls(&self) -> &[EvmState] {
        &self.evm.ctx.journaled_state.database.calls
    }

    /// An account in the selected state.
    pub(super) fn account(&mut self, address: Address) -> Result<Option<AccountInfo>, EvmError> {
        Ok(self.evm.ctx.journaled_state.database.basic(address)?)
    }

    /// A storage slot in the selected state.
    pub(super) fn storage(&mut self, address: Address, slot: U256) -> Result<U256, EvmError> {
        Ok(self.evm.ctx.journaled_state.database.storage(address, slot)?)
    }
}

impl Database for StateLayers<'_> {
    type Error = DatabaseError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, DatabaseError> {
        for call in self.calls.iter().take(self.depth).rev() {
            let Some(account) = call.get(&address) else { continue };
            if account.is_selfdestructed() || account.is_loaded_as_not_existing_not_touched() || account.is_empty() {
                return Ok(None);
            }
            return Ok(Some(account.info.clone()));
        }
        let found = self.base.basic_ref(address)?;
        let Some(delta) = self.native_deltas.iter().find(|delta| delta.holder == address) else { return Ok(found) };
        let mut account = found.unwrap_or_default();
        account.balance = delta.apply(account.balance);
        Ok(Some(account))
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, DatabaseError> {
        // Code that a call deployed is part of its account, so only base code is read by hash.
        self.base.code_by_hash_ref(code_hash)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, DatabaseError> {
        for call in self.calls.iter().take(self.depth).rev() {
            let Some(account) = call.get(&address) else { continue };
            if account.is_selfdestructed() {
                return Ok(U256::ZERO);
            }
            if let Some(known) = account.storage.get(&slot) {
                return Ok(known.present_value);
            }
            if account.is_created() {
                return Ok(U256::ZERO);
            }
        }
        if address == HISTORY_STORAGE_ADDRESS
            && let Some((written, parent)) = self.history
            && written == slot
        {
            return Ok(parent);
        }
        match self.slots.get(&(address, slot)) {
            Some(value) => Ok(*value),
            None => self.base.storage_ref(address, slot),
        }
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, DatabaseError> {
        self.base.block_hash_ref(number)
    }
}

/// `KECCAK256` that records its input if it could determine a storage slot.
fn keccak256(context: InstructionContext<'_, SimulationContext<'_>, EthInterpreter>) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = context;
    let operands = match interpreter.stack.data().as_slice() {
        [.., length, offset] => Some((*offset, *length)),
        _ => None,
    };
    system::keccak256(InstructionContext { interpreter: &mut *interpreter, host: &mut *host })?;
    let Some((offset, length)) = operands else { return Ok(()) };
    let recorder = &mut host.chain;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if recorder.asking || !PREIMAGE_BYTES.contains(&length) {
        return Ok(());
    }
    // The instruction succeeded, so the hashed memory exists at this offset.
    let (Ok(offset), Some(hash)) = (usize::try_from(offset), interpreter.stack.top()) else { return Ok(()) };
    recorder.remember(B256::from(*hash), interpreter.memory.slice_len(offset, length).as_ref());
    Ok(())
}

/// `SLOAD` that records the slot during a query.
fn sload(context: InstructionContext<'_, SimulationContext<'_>, EthInterpreter>) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = context;
    if host.chain.asking
        && let Some(slot) = interpreter.stack.data().last()
    {
        host.chain.reads.push((interpreter.input.target_address(), *slot));
    }
    host::sload(InstructionContext { interpreter, host })
}
