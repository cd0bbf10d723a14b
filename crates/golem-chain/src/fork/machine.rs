//! The virtual machine of a simulation: revm over layers of state, with two instructions replaced.
//!
//! Nothing here is interpreted: it executes, remembers hash preimages while it executes and slots
//! read while it answers questions. No inspector is installed, so that the other 254 instructions
//! run at full speed: `KECCAK256` and `SLOAD` alone are wrapped, in the instruction table.

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

use super::shift::BalanceShift;
use crate::evm::{
    self, BlockContext, ChainRules, Checks, DatabaseError, DynDatabase, EvmError, Precompiles, SpecId, StandIn,
};

/// Preimages kept at most; a run that hashes more is reported as incomplete.
const MAX_PREIMAGES: usize = 1 << 16;
/// Hash inputs of these lengths can name a storage slot: from one packed address to three words and a bit.
const PREIMAGE_BYTES: std::ops::RangeInclusive<usize> = 20..=128;

/// The base state and, over it, what each executed call changed.
///
/// Depth `n` shows the state after the first `n` calls; depth 0 is the pinned block.
pub(super) struct Layers<'a> {
    base: &'a DynDatabase<'a>,
    /// Slot of the history contract that the block writes before its first transaction, and the
    /// parent's hash that it writes there ([EIP-2935](https://eips.ethereum.org/EIPS/eip-2935)).
    history: Option<(U256, U256)>,
    /// Coins that accounts have in place of the chain's, and slots in place of the chain's.
    coins: Vec<BalanceShift>,
    slots: HashMap<(Address, U256), U256>,
    calls: Vec<EvmState>,
    depth: usize,
}

/// What the two replaced instructions remember.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    /// Whether questions are being asked (slots read are kept) or calls executed (preimages are).
    asking: bool,
    /// Inputs of `KECCAK256`, one after the other.
    bytes: Vec<u8>,
    /// Hash, start in `bytes`, length.
    preimages: Vec<(B256, usize, usize)>,
    overflow: bool,
    /// Slots read since the last question.
    reads: Vec<(Address, U256)>,
}

impl Recorder {
    /// Keeps `bytes` as what was hashed to `hash`.
    pub(super) fn remember(&mut self, hash: B256, bytes: &[u8]) {
        if self.preimages.len() >= MAX_PREIMAGES {
            self.overflow = true;
            return;
        }
        self.preimages.push((hash, self.bytes.len(), bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    /// Every preimage seen, with its hash.
    pub(super) fn preimages(&self) -> impl Iterator<Item = (B256, &[u8])> {
        self.preimages
            .iter()
            .map(|&(hash, start, length)| (hash, self.bytes.get(start..start + length).unwrap_or_default()))
    }

    /// Whether some preimages were left out.
    pub(super) fn overflowed(&self) -> bool {
        self.overflow
    }
}

type Host<'a> = Context<BlockEnv, TxEnv, CfgEnv, Layers<'a>, Journal<Layers<'a>>, Recorder>;
type Machinery<'a> =
    Evm<Host<'a>, (), EthInstructions<EthInterpreter, Host<'a>>, Precompiles, EthFrame<EthInterpreter>>;

/// One machine for one simulation: executes calls in order, then answers questions about any depth.
pub(super) struct Machine<'a> {
    rules: ChainRules,
    evm: Machinery<'a>,
}

/// What a contract said to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It returned these bytes.
    Returned(Bytes),
    /// There is no code to ask.
    NoCode,
    /// It reverted.
    Reverted,
    /// It ran out of the gas a question may use.
    OutOfGas,
    /// It stopped in another way.
    Halted,
}

impl<'a> Machine<'a> {
    /// A machine on top of `base`, in the given environment, for which the signatures of `stand_ins` exist.
    pub(super) fn new(
        rules: ChainRules,
        block: &BlockContext,
        parent: B256,
        base: &'a DynDatabase<'a>,
        stand_ins: &[StandIn],
    ) -> Self {
        let spec = rules.spec;
        let history = spec.is_enabled_in(SpecId::PRAGUE).then(|| {
            let slot = block.number.saturating_sub(1) % HISTORY_SERVE_WINDOW as u64;
            (U256::from(slot), U256::from_be_bytes(parent.0))
        });
        let transaction = TxEnv::default();
        let cfg = evm::cfg_env(&rules, Checks::Call, &transaction);
        let mut journaled_state = Journal::new(Layers {
            base,
            history,
            coins: Vec::new(),
            slots: HashMap::new(),
            calls: Vec::new(),
            depth: 0,
        });
        journaled_state.set_spec_id(spec);
        let host = Host {
            block: evm::block_env(&rules, block),
            tx: transaction,
            cfg,
            journaled_state,
            chain: Recorder::default(),
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
    pub(super) fn execute(&mut self, transaction: TxEnv, checks: Checks) -> Result<ExecutionResult, EvmError> {
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

    /// Turns to the state after the first `depth` calls.
    pub(super) fn turn_to(&mut self, depth: usize) {
        let _ = self.evm.finalize();
        self.evm.ctx.journaled_state.database.depth = depth;
    }

    /// Asks `target` with `question` as a static call by `caller` on the state turned to.
    ///
    /// The slots it read to answer are in [`Machine::reads`] until the next question.
    pub(super) fn ask(
        &mut self,
        caller: Address,
        target: Address,
        question: Bytes,
        gas: u64,
    ) -> Result<(Answer, u64), EvmError> {
        self.evm.ctx.chain.asking = true;
        self.evm.ctx.chain.reads.clear();
        let account = self.evm.ctx.journaled_state.load_account_with_code(target)?;
        let mut known_bytecode = (account.info.code_hash, account.info.code.clone().unwrap_or_default());
        if let Some(delegate) = known_bytecode.1.eip7702_address() {
            let account = self.evm.ctx.journaled_state.load_account_with_code(delegate)?;
            known_bytecode = (account.info.code_hash, account.info.code.clone().unwrap_or_default());
        }
        if known_bytecode.1.is_empty() {
            return Ok((Answer::NoCode, 0));
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
        let mut handler = MainnetHandler::<Machinery<'a>, EvmError, EthFrame<EthInterpreter>>::default();
        let result = handler.run_exec_loop(&mut self.evm, frame);
        self.evm.ctx.local.clear();
        self.evm.frame_stack().clear();
        take_error::<EvmError, _>(&mut self.evm.ctx.error)?;
        let result = result?.into_interpreter_result();
        let used = gas.saturating_sub(result.gas.remaining());
        let answer = match result.result {
            outcome if outcome.is_ok() => Answer::Returned(result.output),
            outcome if outcome.is_revert() => Answer::Reverted,
            InstructionResult::OutOfGas
            | InstructionResult::MemoryOOG
            | InstructionResult::MemoryLimitOOG
            | InstructionResult::PrecompileOOG
            | InstructionResult::InvalidOperandOOG
            | InstructionResult::ReentrancySentryOOG => Answer::OutOfGas,
            _ => Answer::Halted,
        };
        Ok((answer, used))
    }

    /// Gives an account another balance of the chain's coin.
    pub(super) fn shift_coin(&mut self, shift: BalanceShift) {
        self.evm.ctx.journaled_state.database.coins.push(shift);
    }

    /// Puts a value in the place of a slot of the chain, or takes it away again.
    pub(super) fn shift_slot(&mut self, contract: Address, slot: U256, value: Option<U256>) {
        let slots = &mut self.evm.ctx.journaled_state.database.slots;
        match value {
            Some(value) => slots.insert((contract, slot), value),
            None => slots.remove(&(contract, slot)),
        };
    }

    /// Slots read by the last question.
    pub(super) fn reads(&self) -> &[(Address, U256)] {
        &self.evm.ctx.chain.reads
    }

    /// What was remembered while executing.
    pub(super) fn recorder(&self) -> &Recorder {
        &self.evm.ctx.chain
    }

    /// State touched by each executed call, in order.
    pub(super) fn calls(&self) -> &[EvmState] {
        &self.evm.ctx.journaled_state.database.calls
    }

    /// An account on the state turned to.
    pub(super) fn account(&mut self, address: Address) -> Result<Option<AccountInfo>, EvmError> {
        Ok(self.evm.ctx.journaled_state.database.basic(address)?)
    }

    /// A slot on the state turned to.
    pub(super) fn storage(&mut self, address: Address, slot: U256) -> Result<U256, EvmError> {
        Ok(self.evm.ctx.journaled_state.database.storage(address, slot)?)
    }
}

impl Database for Layers<'_> {
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
        let Some(shift) = self.coins.iter().find(|shift| shift.holder == address) else { return Ok(found) };
        let mut shifted = found.unwrap_or_default();
        shifted.balance = shift.apply(shifted.balance);
        Ok(Some(shifted))
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, DatabaseError> {
        // Code that a call deployed or set travels inside its account, so only the base is asked by hash.
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
            Some(shifted) => Ok(*shifted),
            None => self.base.storage_ref(address, slot),
        }
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, DatabaseError> {
        self.base.block_hash_ref(number)
    }
}

/// `KECCAK256` as it is, and its input kept when it could name a storage slot.
fn keccak256(context: InstructionContext<'_, Host<'_>, EthInterpreter>) -> InstructionExecResult {
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
    // The instruction succeeded, so the memory it hashed exists at this offset.
    let (Ok(offset), Some(hash)) = (usize::try_from(offset), interpreter.stack.top()) else { return Ok(()) };
    recorder.remember(B256::from(*hash), interpreter.memory.slice_len(offset, length).as_ref());
    Ok(())
}

/// `SLOAD` as it is; while a question is asked, the slot is kept.
fn sload(context: InstructionContext<'_, Host<'_>, EthInterpreter>) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = context;
    if host.chain.asking
        && let Some(slot) = interpreter.stack.data().last()
    {
        host.chain.reads.push((interpreter.input.target_address(), *slot));
    }
    host::sload(InstructionContext { interpreter, host })
}
