//! A call that another program with the same key would make.

use alloy::consensus::TxEip1559;
use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall;

/// Call with fees that any block of a devnet accepts.
pub fn call(nonce: u64, to: Address, call: impl SolCall) -> TxEip1559 {
    TxEip1559 {
        chain_id: 31_337,
        nonce,
        gas_limit: 1_000_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: to.into(),
        value: U256::ZERO,
        access_list: Default::default(),
        input: call.abi_encode().into(),
    }
}
