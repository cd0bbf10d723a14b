//! Initial balances of a simulation that differ from the chain's, for paper trading.
//!
//! A native balance is part of the account. A token balance is in a storage slot that only its contract knows. The
//! slots that `balanceOf` reads are tried; a slot is right if the contract returns the shifted balance with it.

use alloy::primitives::{Address, U256};
use alloy::sol_types::{SolCall as _, SolValue as _};

use super::machine::{CallMachine, QueryAnswer};
use crate::evm::EvmError;
use bardo_abi::erc20::Erc20;

/// Gas limit of a `balanceOf` call.
const QUESTION_GAS: u64 = 1_000_000;

/// A difference from a balance on the chain.
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

/// Reason why a balance was not set.
pub(super) enum DeltaUnknown {
    /// No single slot holds the balance of this token.
    NoSlot(Address),
    /// The state could not be read.
    Machine(EvmError),
}

impl From<EvmError> for DeltaUnknown {
    fn from(error: EvmError) -> Self {
        Self::Machine(error)
    }
}

impl CallMachine<'_> {
    /// Sets the balances before the first call.
    pub(super) fn shift(&mut self, shifts: &[BalanceDelta]) -> Result<(), DeltaUnknown> {
        for shift in shifts {
            match shift.token {
                None => self.shift_coin(shift.clone()),
                Some(token) => self.shift_token(token, shift)?,
            }
        }
        self.select_state(0);
        Ok(())
    }

    fn shift_token(&mut self, token: Address, shift: &BalanceDelta) -> Result<(), DeltaUnknown> {
        let before = self.balance(token, shift.holder)?.ok_or(DeltaUnknown::NoSlot(token))?;
        let wanted = shift.apply(before);
        if wanted == before {
            return Ok(());
        }
        let mut tried: Vec<(Address, U256)> = self.reads().to_vec();
        tried.dedup();
        for (contract, slot) in tried {
            if self.storage(contract, slot)? != before {
                continue;
            }
            self.shift_slot(contract, slot, Some(wanted));
            if self.balance(token, shift.holder)? == Some(wanted) {
                return Ok(());
            }
            self.shift_slot(contract, slot, None);
        }
        Err(DeltaUnknown::NoSlot(token))
    }

    fn balance(&mut self, token: Address, holder: Address) -> Result<Option<U256>, EvmError> {
        self.select_state(0);
        let question = Erc20::balanceOfCall { owner: holder }.abi_encode().into();
        let (answer, _) = self.ask(Address::ZERO, token, question, QUESTION_GAS)?;
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

    fn shift(token: Option<Address>, added: u64, removed: u64) -> BalanceDelta {
        BalanceDelta { token, holder: HOLDER, added: U256::from(added), removed: U256::from(removed) }
    }

    async fn simulated(code: Bytes, shifts: Vec<BalanceDelta>, coins: u64) -> Result<(U256, bool), ForkError> {
        let watch = WatchList { tokens: vec![TOKEN], owners: vec![HOLDER], ..WatchList::default() };
        let options = SimulationOptions { watch, shifts, ..SimulationOptions::default() };
        // A call that returns the token's balance, and a payment of this many wei.
        let ask = ForkCall::new(HOLDER, TOKEN, Erc20::balanceOfCall { owner: HOLDER }.abi_encode());
        let pay = ForkCall::new(HOLDER, Address::repeat_byte(3), []).with_value(U256::from(coins));
        let simulation = fork(code).simulate_with(&[ask, pay], &options).await?;
        let answer = U256::abi_decode(&simulation.outcomes[0].output).expect("a word");
        Ok((answer, simulation.outcomes[1].status == crate::fork::ExecutionStatus::Success))
    }

    #[tokio::test]
    async fn a_call_meets_the_balances_that_were_put_in_place_and_no_others() {
        assert_eq!(simulated(ONE_SLOT, vec![], 500).await.unwrap(), (U256::from(70), true));
        let shifts = vec![shift(Some(TOKEN), 9, 4), shift(None, 100, 0)];
        assert_eq!(simulated(ONE_SLOT, shifts, 600).await.unwrap(), (U256::from(75), true));
        // If more is subtracted than there is, zero remains.
        assert_eq!(simulated(ONE_SLOT, vec![shift(Some(TOKEN), 0, 71)], 0).await.unwrap().0, U256::ZERO);
    }

    #[tokio::test]
    async fn a_balance_that_no_single_slot_holds_is_no_simulation() {
        let found = simulated(TWO_SLOTS, vec![shift(Some(TOKEN), 1, 0)], 0).await;
        assert!(matches!(found, Err(ForkError::Shift { token: TOKEN })), "{found:?}");
        assert_eq!(simulated(TWO_SLOTS, vec![shift(Some(TOKEN), 2, 2)], 0).await.unwrap().0, U256::from(100));
    }
}
