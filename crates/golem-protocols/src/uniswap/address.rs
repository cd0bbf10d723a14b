//! CREATE2 addresses of V2 pairs and V3 pools.
//!
//! Formula: [EIP-1014](https://eips.ethereum.org/EIPS/eip-1014).

use alloy::primitives::{Address, B256, b256, keccak256};
use alloy::sol_types::SolValue;

/// Creation code hash of the canonical V2 factories' pairs.
pub const V2_PAIR_INIT_CODE_HASH: B256 = b256!("96e8ac4277198ff8b6f785478aa9a39f403cb768dd02cbee326c3e7da348845f");

/// Creation code hash of the canonical V3 factories' pools.
pub const V3_POOL_INIT_CODE_HASH: B256 = b256!("e34f199b19b2b4f47f68442619d555527d244f78a3297ea89325f843f87b8b54");

/// Returns the two tokens in pool order: the lower address first.
pub fn sort_tokens(a: Address, b: Address) -> (Address, Address) {
    if a < b { (a, b) } else { (b, a) }
}

/// Computes the address of the V2 pair of two tokens, in any order. `init_code_hash` is the hash of the pair's creation
/// code.
pub fn v2_pair(factory: Address, a: Address, b: Address, init_code_hash: B256) -> Address {
    let (token0, token1) = sort_tokens(a, b);
    let salt = keccak256([token0.as_slice(), token1.as_slice()].concat());
    factory.create2(salt, init_code_hash)
}

/// Computes the address of the V3 pool of two tokens, in any order. `fee` is in hundredths of a basis point;
/// `init_code_hash` is the hash of the pool's creation code.
pub fn v3_pool(factory: Address, a: Address, b: Address, fee: u32, init_code_hash: B256) -> Address {
    let (token0, token1) = sort_tokens(a, b);
    let salt = keccak256((token0, token1, fee).abi_encode());
    factory.create2(salt, init_code_hash)
}
