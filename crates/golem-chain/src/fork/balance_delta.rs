//! Initial balances of a simulation that differ from the chain's, for paper trading.
//!
//! A native balance is part of the account. A token balance is in a storage slot that only the token's contract knows.
//! The slots that `balanceOf` reads are tried one by one: the right slot is the one with which `balanceOf` returns the
//! new balance.

use alloy::primitives::{Address, U256};
use alloy::sol_types::{SolCall as _, SolValue as _};

use super::machine::{CallMachine, QueryAnswer};
use crate::evm::EvmError;
use bardo_abi::erc20::Erc20;

/// Gas limit of a `balanceOf` call.
const BALANCE_CALL_GAS: u64 = 1_000_000;

/// Difference between a balance in a simulation and on the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceDelta {
    /// Address of the token contract; `None` for the native token.
    pub token: Option<Address>,
    /// Holder of the balance.
    pub holder: Address,
    /// Raw units to add to the balance on the chain.
    pub added: U256,
    /// Raw units to subtract.
    pub removed: U256,
}

impl BalanceDelta {
    /// Applies the difference to the balance `on_chain`; the result is never below zero.
    pub fn apply(&self, on_chain: U256) -> U256 {
        on_chain.saturating_add(self.added).saturating_sub(self.removed)
    }
}

/// Error of setting an initial balance.
pub(super) enum BalanceDeltaError {
    /// No single storage slot holds a balance of this token.
    NoSlot(Address),
    /// The state could not be read.
    Machine(EvmError),
}

impl From<EvmError> for BalanceDeltaError {
    fn from(error: EvmError) -> Self {
        Self::Machine(error)
    }
}

impl CallMachine<'_> {
    /// Sets the balances before the first call.
    pub(super) fn apply_deltas(&mut self, deltas: &[BalanceDelta]) -> Result<(), BalanceDeltaError> {
        for delta in deltas {
            match delta.token {
                None => self.add_native_delta(delta.clone()),
                Some(token) => self.apply_token_delta(token, delta)?,
            }
        }
        self.select_state(0);
        Ok(())
    }

    fn apply_token_delta(&mut self, token: Address, delta: &BalanceDelta) -> Result<(), BalanceDeltaError> {
        let before = self.balance(token, delta.holder)?.ok_or(BalanceDeltaError::NoSlot(token))?;
        let wanted = delta.apply(before);
        if wanted == before {
            return Ok(());
        }
        let mut candidates: Vec<(Address, U256)> = self.reads().to_vec();
        candidates.dedup();
        for (contract, slot) in candidates {
            if self.storage(contract, slot)? != before {
                continue;
            }
            self.override_slot(contract, slot, Some(wanted));
            if self.balance(token, delta.holder)? == Some(wanted) {
                return Ok(());
            }
            self.override_slot(contract, slot, None);
        }
        Err(BalanceDeltaError::NoSlot(token))
    }

    /// Returns a token balance in the base state; `None` if `balanceOf` does not return one.
    fn balance(&mut self, token: Address, holder: Address) -> Result<Option<U256>, EvmError> {
        self.select_state(0);
        let call = Erc20::balanceOfCall { owner: holder }.abi_encode().into();
        let (answer, _) = self.ask(Address::ZERO, token, call, BALANCE_CALL_GAS)?;
        Ok(match answer {
            QueryAnswer::Returned(bytes) => U256::abi_decode(&bytes).ok(),
            QueryAnswer::NoCode | QueryAnswer::Reverted | QueryAnswer::OutOfGas | QueryAnswer::Halted => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{B256, Bytes, bytes};

    use super::*;
    use crate::devnet::{ForkPoint, WorldState};
    use crate::evm::{BlockContext, ChainRules};
    use crate::fork::{Fork, ForkCall, ForkError, SimulationOptions, WatchList};

    const HOLDER: Address = Address::repeat_byte(1);
    const TOKEN: Address = Address::repeat_byte(2);
    /// Returns its first slot for every call: `PUSH0 SLOAD PUSH0 MSTORE PUSH1 32 PUSH0 RETURN`.
    const ONE_SLOT: Bytes = bytes!("5f545f5260205ff3");
    /// Returns the sum of its first two slots: `PUSH0 SLOAD PUSH1 1 SLOAD ADD PUSH0 MSTORE PUSH1 32 PUSH0 RETURN`.
    const TWO_SLOTS: Bytes = bytes!("5f54600154015f5260205ff3");

    /// A fork on which the token contract has this code, and 70 and 30 in its slots.
    fn fork(code: Bytes) -> Fork {
        let mut state = WorldState::default();
        state.set_code(TOKEN, code).expect("code");
        state.set_storage_at(TOKEN, U256::ZERO, U256::from(70));
        state.set_storage_at(TOKEN, U256::ONE, U256::from(30));
        state.set_balance(HOLDER, U256::from(500));
        let next = BlockContext {
            number: 2,
            timestamp: 1_800_000_000,
            base_fee: 0,
            gas_limit: 30_000_000,
            coinbase: Address::ZERO,
            prevrandao: B256::ZERO,
            excess_blob_gas: 0,
        };
        let block = BlockContext { number: 1, ..next };
        Fork::on_devnet(ForkPoint { rules: ChainRules::osaka(31_337), state, block, hash: B256::ZERO, next })
    }

    fn delta(token: Option<Address>, added: u64, removed: u64) -> BalanceDelta {
        BalanceDelta { token, holder: HOLDER, added: U256::from(added), removed: U256::from(removed) }
    }

    /// Simulates a call that returns the token's balance, and a payment of `wei`. Returns the balance, and true if the
    /// payment succeeded.
    async fn simulate(code: Bytes, shifts: Vec<BalanceDelta>, wei: u64) -> Result<(U256, bool), ForkError> {
        let watch = WatchList { tokens: vec![TOKEN], owners: vec![HOLDER], ..WatchList::default() };
        let options = SimulationOptions { watch, shifts, ..SimulationOptions::default() };
        let ask = ForkCall::new(HOLDER, TOKEN, Erc20::balanceOfCall { owner: HOLDER }.abi_encode());
        let pay = ForkCall::new(HOLDER, Address::repeat_byte(3), []).with_value(U256::from(wei));
        let simulation = fork(code).simulate_with(&[ask, pay], &options).await?;
        let balance = U256::abi_decode(&simulation.outcomes[0].output).expect("a word");
        Ok((balance, simulation.outcomes[1].status == crate::fork::ExecutionStatus::Success))
    }

    #[tokio::test]
    async fn a_simulation_starts_with_the_given_balance_differences() {
        assert_eq!(simulate(ONE_SLOT, vec![], 500).await.unwrap(), (U256::from(70), true));
        let shifts = vec![delta(Some(TOKEN), 9, 4), delta(None, 100, 0)];
        assert_eq!(simulate(ONE_SLOT, shifts, 600).await.unwrap(), (U256::from(75), true));
        // If more is subtracted than there is, zero remains.
        assert_eq!(simulate(ONE_SLOT, vec![delta(Some(TOKEN), 0, 71)], 0).await.unwrap().0, U256::ZERO);
    }

    #[tokio::test]
    async fn a_balance_that_no_single_slot_holds_is_an_error() {
        let result = simulate(TWO_SLOTS, vec![delta(Some(TOKEN), 1, 0)], 0).await;
        assert!(matches!(result, Err(ForkError::Shift { token: TOKEN })), "{result:?}");
        assert_eq!(simulate(TWO_SLOTS, vec![delta(Some(TOKEN), 2, 2)], 0).await.unwrap().0, U256::from(100));
    }
}
