//! Across: deposits for another chain in its SpokePools, fills there, and refunds. One closed form of deposit is made and
//! read; the events of both generations are decoded to the same values.
//!
//! Not here: what a deposit must be worth (see `safety`), and reading of the chains (see `tools`).

pub mod call;
pub mod event;
pub mod quote;

#[cfg(test)]
mod tests;

use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::sol_types::SolValue as _;

use bardo_abi::across::AcrossRelay;

/// Returns the hash under which the destination's pool keeps a relay. Source: `SpokePool.getV3RelayHash`.
pub fn relay_hash(relay: &AcrossRelay, destination_chain_id: u64) -> B256 {
    keccak256((relay.clone(), U256::from(destination_chain_id)).abi_encode_params())
}

/// Returns the address in a padded word; `None` for a word with anything else in it.
pub fn address_of(word: B256) -> Option<Address> {
    let address = Address::from_word(word);
    (address.into_word() == word).then_some(address)
}

/// Returns the relay of a deposit that an account made for itself, without exclusivity and message.
pub fn relay_of(deposit: &call::OwnDeposit, account: Address, origin_chain_id: u64, deposit_id: U256) -> AcrossRelay {
    AcrossRelay {
        depositor: account.into_word(),
        recipient: account.into_word(),
        exclusiveRelayer: B256::ZERO,
        inputToken: deposit.input_token.into_word(),
        outputToken: deposit.output_token.into_word(),
        inputAmount: deposit.input_amount,
        outputAmount: deposit.output_amount,
        originChainId: U256::from(origin_chain_id),
        depositId: deposit_id,
        fillDeadline: deposit.fill_deadline,
        exclusivityDeadline: 0,
        message: Bytes::new(),
    }
}
