//! Copying what an account holds to another one, for a stand-in on a fork.
//!
//! Only the contract knows the storage slot of a balance or an allowance. So its view function is executed for
//! both accounts, and the slots that it reads are compared: at the same step, the two executions read the owner's slot
//! and the stand-in's slot. The owner's words are copied into the stand-in's slots, until the function returns the same
//! for both. Words are copied as they are, with whatever else a contract packs into them.

use alloy::primitives::{Address, B256, Bytes, U256};

use super::machine::{CallMachine, QueryAnswer};
use crate::devnet::WorldState;
use crate::evm::{BlockContext, ChainRules, EvmError};

/// Gas limit of one view function.
const VIEW_GAS: u64 = 2_000_000;
/// Rounds of copying per value: a copied word can lead the function to further slots.
const ROUNDS: usize = 4;

/// A value that belongs to an account, as a view function of a contract returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Address of the contract.
    pub contract: Address,
    /// Call that returns the owner's value.
    pub of_owner: Bytes,
    /// The same call for the stand-in.
    pub of_stand_in: Bytes,
}

/// A storage slot of a contract, with the value to set.
pub type SlotWrite = (Address, U256, U256);

/// Result of copying.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Storage slots to set.
    pub writes: Vec<SlotWrite>,
    /// Indices of the values that the owner has and that could not be copied.
    pub missing: Vec<usize>,
}

/// Finds the storage slots that give the stand-in what the owner has. Nothing is written.
///
/// # Errors
/// An [`EvmError`] if the state cannot be read.
pub fn copy(
    state: &WorldState,
    rules: ChainRules,
    next: &BlockContext,
    holdings: &[Holding],
) -> Result<Copied, Box<EvmError>> {
    let mut machine = CallMachine::new(rules, next, B256::ZERO, state, &[]);
    let mut copied = Copied::default();
    for (place, holding) in holdings.iter().enumerate() {
        match machine.copy(holding).map_err(Box::new)? {
            Some(writes) => copied.writes.extend(writes),
            None => copied.missing.push(place),
        }
    }
    Ok(copied)
}

impl CallMachine<'_> {
    /// Writes that copy one value; `None` if it cannot be copied.
    fn copy(&mut self, holding: &Holding) -> Result<Option<Vec<SlotWrite>>, EvmError> {
        let Some(wanted) = self.view(holding.contract, &holding.of_owner)? else { return Ok(Some(Vec::new())) };
        let owners = self.reads().to_vec();
        let mut writes: Vec<SlotWrite> = Vec::new();
        for _ in 0..ROUNDS {
            let found = self.view(holding.contract, &holding.of_stand_in)?;
            if found.as_ref() == Some(&wanted) {
                return Ok(Some(writes));
            }
            let own = self.reads().to_vec();
            let before = writes.len();
            let pairs = owners.iter().zip(&own).filter(|(owner, own)| owner.0 == own.0 && owner.1 != own.1);
            for ((contract, from), (_, to)) in pairs {
                if writes.iter().any(|(at, slot, _)| (at, slot) == (contract, to)) {
                    continue;
                }
                let value = self.storage(*contract, *from)?;
                self.override_slot(*contract, *to, Some(value));
                writes.push((*contract, *to, value));
            }
            if writes.len() == before {
                break;
            }
        }
        let found = self.view(holding.contract, &holding.of_stand_in)?;
        if found.as_ref() == Some(&wanted) {
            return Ok(Some(writes));
        }
        for (contract, slot, _) in writes {
            self.override_slot(contract, slot, None);
        }
        Ok(None)
    }

    /// Return data of a view function; `None` if it does not return.
    fn view(&mut self, contract: Address, call: &Bytes) -> Result<Option<Bytes>, EvmError> {
        self.select_state(0);
        let (answer, _) = self.ask(Address::ZERO, contract, call.clone(), VIEW_GAS)?;
        Ok(match answer {
            QueryAnswer::Returned(bytes) => Some(bytes),
            QueryAnswer::NoCode | QueryAnswer::Reverted | QueryAnswer::OutOfGas | QueryAnswer::Halted => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{bytes, keccak256};
    use alloy::sol_types::{SolCall as _, SolValue as _};

    use super::*;
    use bardo_abi::erc20::Erc20;

    const OWNER: Address = Address::repeat_byte(1);
    const STAND_IN: Address = Address::repeat_byte(2);
    const TOKEN: Address = Address::repeat_byte(3);

    /// Returns the word at `keccak256(account, slot 5)`, like a mapping, for the account in the first argument:
    /// `PUSH1 4 CALLDATALOAD PUSH0 MSTORE PUSH1 5 PUSH1 32 MSTORE PUSH1 64 PUSH0 KECCAK256 SLOAD PUSH0 MSTORE PUSH1 32
    /// PUSH0 RETURN`.
    const MAPPING: Bytes = bytes!("6004355f52600560205260405f20545f5260205ff3");
    /// Returns the account itself, so that two accounts never have the same value.
    const ECHO: Bytes = bytes!("6004355f5260205ff3");

    fn slot(account: Address) -> U256 {
        keccak256((account, U256::from(5)).abi_encode()).into()
    }

    fn found(code: Bytes, balance: u64) -> Copied {
        let mut state = WorldState::default();
        state.set_code(TOKEN, code).unwrap();
        state.set_storage_at(TOKEN, slot(OWNER), U256::from(balance));
        let next = BlockContext {
            number: 2,
            timestamp: 1_800_000_000,
            base_fee: 0,
            gas_limit: 30_000_000,
            coinbase: Address::ZERO,
            prevrandao: B256::ZERO,
            excess_blob_gas: 0,
        };
        let of = |owner| Bytes::from(Erc20::balanceOfCall { owner }.abi_encode());
        let holding = Holding { contract: TOKEN, of_owner: of(OWNER), of_stand_in: of(STAND_IN) };
        copy(&state, ChainRules::osaka(31_337), &next, &[holding]).unwrap()
    }

    #[test]
    fn a_word_of_a_mapping_is_copied_to_the_slot_of_the_stand_in() {
        let copied = found(MAPPING, 70);
        assert_eq!(copied.writes, [(TOKEN, slot(STAND_IN), U256::from(70))]);
        assert!(copied.missing.is_empty());
        assert_eq!(found(MAPPING, 0), Copied::default());
    }

    #[test]
    fn a_value_that_is_in_no_slot_is_reported() {
        assert_eq!(found(ECHO, 0), Copied { writes: Vec::new(), missing: vec![0] });
    }
}
