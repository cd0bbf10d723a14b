//! Execution without a block: calls, gas estimates and access lists, on any kept state, with overrides.

use alloy::eips::BlockId;
use alloy::eips::eip2930::{AccessList, AccessListItem};
use alloy::primitives::{Address, B256, Bytes, TxKind, U256};
use alloy::rpc::types::state::{AccountOverride, StateOverride};
use alloy::rpc::types::{BlockOverrides, TransactionRequest};
use revm::context::TxEnv;
use revm::context::result::{ExecutionResult, HaltReason};
use revm::state::EvmState;

use super::chain::{Chain, ExecutionView};
use super::error::{CallError, OverrideError};
use super::state::WorldState;
use crate::evm::{self, BlockContext, CheckMode, Execution};

/// Gas of a plain transfer, the minimum of any transaction.
const TRANSFER_GAS: u64 = 21_000;

/// Gas that a call with value gives its target for free; an estimate must cover it.
const CALL_STIPEND: u64 = 2_300;

/// Width of the search interval, in thousandths of the upper bound, at which an estimate is accurate enough.
const ESTIMATE_TOLERANCE_PERMILLE: u64 = 15;

/// Maximum gas of a call, unless the block gas limit is higher. It suffices for anything that fits in a block, and does
/// not delay block production for long.
const CALL_GAS_CAP: u64 = 50_000_000;

/// Maximum number of rounds in which an access list is refined.
const ACCESS_LIST_ROUNDS: usize = 8;

/// Highest address of the consecutive precompiles; that of [EIP-7951](https://eips.ethereum.org/EIPS/eip-7951) is at
/// 0x100.
const LAST_PRECOMPILE: u64 = 0x11;

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOutcome {
    /// Return data of the call.
    pub output: Bytes,
    /// Gas used, after refunds and with the calldata floor.
    pub gas_used: u64,
}

/// An access list, and the result of the call with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessListOutcome {
    /// All addresses and slots that the call touches and that are not warm anyway.
    pub access_list: AccessList,
    /// Gas used with that list.
    pub gas_used: u64,
    /// Reason of the failure, if any; the list then covers the execution up to that point.
    pub failure: Option<CallError>,
}

impl Chain {
    /// Executes `request` at `block` like `eth_call`: nothing is kept, the sender needs no signature, and without a gas
    /// price there is no fee.
    ///
    /// # Errors
    /// [`CallError`] if the request is invalid, the block is not available, or the call fails.
    pub fn call(
        &self,
        request: &TransactionRequest,
        block: BlockId,
        state: Option<&StateOverride>,
        surroundings: Option<&BlockOverrides>,
    ) -> Result<CallOutcome, CallError> {
        let view = self.overridden(block, state, surroundings)?;
        let tx = evm::call_env(request, self.rules(), &view.context, self.gas_limit())?;
        let execution = self.run(&view, tx)?;
        let gas_used = execution.result.tx_gas_used();
        match failure(&execution) {
            Some(error) => Err(error),
            None => Ok(CallOutcome { output: execution.result.into_output().unwrap_or_default(), gas_used }),
        }
    }

    /// Executes `request` on the newest state like `eth_call`, and keeps what it changes in the called contract's own
    /// storage, at once and without a block. Nothing else of it remains: no transaction, no log, no fee, and the
    /// sender's nonce and balance are as before.
    ///
    /// # Errors
    /// [`CallError`] if the request is invalid or the call fails; nothing has changed then.
    pub fn set_storage_by_call(&mut self, request: &TransactionRequest) -> Result<(), CallError> {
        let view = self.view(BlockId::latest())?;
        let tx = evm::call_env(request, self.rules(), &view.context, self.gas_limit())?;
        let called = tx.kind;
        let execution = self.run(&view, tx)?;
        if let Some(error) = failure(&execution) {
            return Err(error);
        }
        let written = called.to().and_then(|contract| Some((*contract, execution.state.get(contract)?)));
        if let Some((contract, account)) = written {
            let slots = account.storage.iter().filter(|(_, value)| value.is_changed());
            self.edit(|state| {
                slots.for_each(|(slot, value)| state.set_storage_at(contract, *slot, value.present_value))
            });
        }
        Ok(())
    }

    /// Lowest gas limit with which `request` succeeds at `block`, at most 1.5 % too high and never too low. It covers
    /// gas that is refunded at the end and gas that calls retain (63/64).
    ///
    /// # Errors
    /// [`CallError`], as for [`Self::call`].
    pub fn estimate_gas(
        &self,
        request: &TransactionRequest,
        block: BlockId,
        state: Option<&StateOverride>,
        surroundings: Option<&BlockOverrides>,
    ) -> Result<u64, CallError> {
        let view = self.overridden(block, state, surroundings)?;
        let limit = self.rules().transaction_gas_limit(view.context.gas_limit);
        let mut tx = evm::call_env(request, self.rules(), &view.context, limit)?;
        tx.gas_limit = affordable(&view.state, &tx, tx.gas_limit.min(limit))?;

        // A transfer to an account without code has a fixed cost.
        if let TxKind::Call(to) = tx.kind
            && tx.data.is_empty()
            && tx.authorization_list.is_empty()
            && tx.access_list.0.is_empty()
            && view.state.code(to).is_empty()
            && tx.gas_limit >= TRANSFER_GAS
            && !is_precompile(to)
        {
            let execution = self.run(&view, TxEnv { gas_limit: TRANSFER_GAS, ..tx.clone() })?;
            if execution.result.is_success() {
                return Ok(TRANSFER_GAS);
            }
        }

        let mut high = tx.gas_limit;
        let execution = match self.run(&view, tx.clone()) {
            Err(CallError::Invalid(invalid)) if gas_is_too_low(&invalid) => {
                return Err(CallError::GasExceedsAllowance(high));
            }
            other => other?,
        };
        match failure(&execution) {
            Some(CallError::Halted(HaltReason::OutOfGas(_))) => return Err(CallError::GasExceedsAllowance(high)),
            Some(error) => return Err(error),
            None => {}
        }
        let spent = execution.result.gas().total_gas_spent().max(execution.result.tx_gas_used());
        let mut low = execution.result.tx_gas_used().saturating_sub(1);

        // Calls retain a 64th at every depth; a limit with room for that nearly always succeeds.
        let likely = spent.saturating_add(CALL_STIPEND).saturating_mul(64) / 63;
        if likely < high {
            if self.succeeds(&view, &tx, likely)? {
                high = likely;
            } else {
                low = likely;
            }
        }
        while low.saturating_add(1) < high {
            if (high - low).saturating_mul(1_000) < high.saturating_mul(ESTIMATE_TOLERANCE_PERMILLE) {
                break;
            }
            // Most calls need little more than the lower bound, so a very high upper bound must not slow the search.
            let middle = (low + (high - low) / 2).min(low.saturating_mul(2));
            if self.succeeds(&view, &tx, middle)? {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(high)
    }

    /// Access list ([EIP-2930](https://eips.ethereum.org/EIPS/eip-2930)) of `request` at `block`. The call is repeated
    /// with each resulting list until the list no longer changes.
    ///
    /// # Errors
    /// [`CallError`] if the request is invalid or the block is not available. A failed call is a result.
    pub fn create_access_list(
        &self,
        request: &TransactionRequest,
        block: BlockId,
        state: Option<&StateOverride>,
    ) -> Result<AccessListOutcome, CallError> {
        let view = self.overridden(block, state, None)?;
        let tx = evm::call_env(request, self.rules(), &view.context, self.gas_limit())?;
        let mut list = tx.access_list.clone();
        let mut outcome = None;
        for _ in 0..ACCESS_LIST_ROUNDS {
            let mut next = tx.clone();
            next.access_list = list.clone();
            if next.tx_type == 0 {
                next.tx_type = 1;
            }
            let execution = self.run(&view, next)?;
            let found = touched(&execution.state, &tx, &view);
            let settled = found == list;
            let gas_used = execution.result.tx_gas_used();
            outcome = Some(AccessListOutcome { access_list: found.clone(), gas_used, failure: failure(&execution) });
            if settled {
                break;
            }
            list = found;
        }
        outcome.ok_or(CallError::Internal)
    }

    fn overridden(
        &self,
        block: BlockId,
        state: Option<&StateOverride>,
        surroundings: Option<&BlockOverrides>,
    ) -> Result<ExecutionView, CallError> {
        let mut view = self.view(block)?;
        override_view(&mut view, state, surroundings)?;
        Ok(view)
    }

    pub(super) fn call_gas_cap(&self) -> u64 {
        CALL_GAS_CAP.max(self.gas_limit())
    }

    fn run(&self, view: &ExecutionView, mut tx: TxEnv) -> Result<Execution, CallError> {
        let sender = tx.caller;
        tx.gas_limit = tx.gas_limit.min(self.call_gas_cap());
        let transact =
            |state: &WorldState| evm::transact(state, self.rules(), &view.context, CheckMode::Call, tx.clone());
        view.state.settled(transact).map_err(|error| CallError::from_evm(error, sender))
    }

    fn succeeds(&self, view: &ExecutionView, tx: &TxEnv, gas_limit: u64) -> Result<bool, CallError> {
        match self.run(view, TxEnv { gas_limit, ..tx.clone() }) {
            Ok(execution) => Ok(execution.result.is_success()),
            Err(CallError::Invalid(invalid)) if gas_is_too_low(&invalid) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

pub(super) fn failure(execution: &Execution) -> Option<CallError> {
    match &execution.result {
        ExecutionResult::Success { .. } => None,
        ExecutionResult::Revert { output, .. } => Some(CallError::Reverted(output.clone())),
        ExecutionResult::Halt { reason, .. } => Some(CallError::Halted(reason.clone())),
    }
}

fn gas_is_too_low(invalid: &revm::context::result::InvalidTransaction) -> bool {
    use revm::context::result::InvalidTransaction::{CallGasCostMoreThanGasLimit, GasFloorMoreThanGasLimit};
    matches!(invalid, CallGasCostMoreThanGasLimit { .. } | GasFloorMoreThanGasLimit { .. })
}

/// Gas that the sender can pay for at the given price, at most `limit`.
fn affordable(state: &WorldState, tx: &TxEnv, limit: u64) -> Result<u64, CallError> {
    let have = state.balance(tx.caller);
    let Some(left) = have.checked_sub(tx.value) else {
        return Err(CallError::InsufficientFunds { address: tx.caller, have, want: tx.value });
    };
    if tx.gas_price == 0 {
        return Ok(limit);
    }
    Ok(u64::try_from(left / U256::from(tx.gas_price)).map_or(limit, |allowance| allowance.min(limit)))
}

/// Addresses and slots of an execution that an access list would make cheaper, without those that are warm from the
/// start ([EIP-2929](https://eips.ethereum.org/EIPS/eip-2929), [EIP-3651](https://eips.ethereum.org/EIPS/eip-3651)).
fn touched(state: &EvmState, tx: &TxEnv, view: &ExecutionView) -> AccessList {
    let target = match tx.kind {
        TxKind::Call(to) => to,
        TxKind::Create => tx.caller.create(view.state.nonce(tx.caller)),
    };
    let mut items: Vec<AccessListItem> = state
        .iter()
        .filter_map(|(address, account)| {
            let mut storage_keys: Vec<B256> = account.storage.keys().map(|slot| B256::from(*slot)).collect();
            storage_keys.sort_unstable();
            let warm = *address == tx.caller
                || *address == target
                || *address == view.context.coinbase
                || is_precompile(*address)
                || account.is_created();
            (!storage_keys.is_empty() || !warm).then_some(AccessListItem { address: *address, storage_keys })
        })
        .collect();
    items.sort_unstable_by_key(|item| item.address);
    AccessList(items)
}

fn is_precompile(address: Address) -> bool {
    let number = U256::from_be_slice(address.as_slice());
    (number >= U256::from(1) && number <= U256::from(LAST_PRECOMPILE)) || number == U256::from(0x100)
}

/// Applies state and block overrides to a view.
pub(super) fn override_view(
    view: &mut ExecutionView,
    state: Option<&StateOverride>,
    surroundings: Option<&BlockOverrides>,
) -> Result<(), OverrideError> {
    for (address, account) in state.into_iter().flatten() {
        override_account(&mut view.state, *address, account)?;
    }
    if let Some(overrides) = surroundings {
        override_block(view, overrides);
    }
    Ok(())
}

pub(super) fn override_account(
    state: &mut WorldState,
    address: Address,
    account: &AccountOverride,
) -> Result<(), OverrideError> {
    if account.state.is_some() && account.state_diff.is_some() {
        return Err(OverrideError::StateAndDiff(address));
    }
    if account.move_precompile_to.is_some() {
        return Err(OverrideError::MovePrecompile(address));
    }
    if let Some(balance) = account.balance {
        state.set_balance(address, balance);
    }
    if let Some(nonce) = account.nonce {
        state.set_nonce(address, nonce);
    }
    if let Some(code) = &account.code {
        state.set_code(address, code.clone())?;
    }
    if let Some(slots) = &account.state {
        state.replace_storage(address, slots.iter().map(|(slot, value)| ((*slot).into(), (*value).into())));
    }
    for (slot, value) in account.state_diff.iter().flatten() {
        state.set_storage_at(address, (*slot).into(), (*value).into());
    }
    Ok(())
}

pub(super) fn override_block(view: &mut ExecutionView, overrides: &BlockOverrides) {
    let BlockContext { number, timestamp, base_fee, gas_limit, coinbase, prevrandao, .. } = &mut view.context;
    if let Some(value) = overrides.number {
        *number = value.saturating_to();
    }
    if let Some(value) = overrides.time {
        *timestamp = value;
    }
    if let Some(value) = overrides.base_fee {
        *base_fee = value.saturating_to();
    }
    if let Some(value) = overrides.gas_limit {
        *gas_limit = value;
    }
    if let Some(value) = overrides.coinbase {
        *coinbase = value;
    }
    if let Some(value) = overrides.random {
        *prevrandao = value;
    }
    for (number, hash) in overrides.block_hash.iter().flatten() {
        view.state.override_block_hash(*number, *hash);
    }
}
