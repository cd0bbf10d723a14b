//! Calls about Uniswap's protocol fees, in two closed forms: the collection of V3 fees into the jar, and a release of assets of the
//! jar for burnt UNI.

use std::collections::BTreeSet;

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall as _;

use bardo_abi::protocol_fees::{Firepit, V3FeeAdapter};

/// Maximum number of assets of a release (`Firepit.MAX_RELEASE_LENGTH`).
pub const MOST_ASSETS: usize = 20;

/// Maximum number of pools of a collection.
pub const MOST_POOLS: usize = 20;

/// A call about protocol fees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeeCall {
    /// Collects all that these V3 pools owe the protocol but one unit of each token, into the jar.
    Collect {
        /// Addresses of the pools.
        pools: Vec<Address>,
    },
    /// Pays the threshold of UNI and receives the whole balance of these assets.
    Release {
        /// Number of the release, which must be the contract's.
        nonce: U256,
        /// Addresses of the assets; the zero address is the native token.
        assets: Vec<Address>,
    },
}

impl FeeCall {
    /// Calldata for an account that receives what is released.
    pub fn calldata(&self, account: Address) -> Bytes {
        match self {
            Self::Collect { pools } => {
                let all = |pool: &Address| V3FeeAdapter::CollectParams {
                    pool: *pool,
                    amount0Requested: u128::MAX,
                    amount1Requested: u128::MAX,
                };
                V3FeeAdapter::collectCall { collectParams: pools.iter().map(all).collect() }.abi_encode().into()
            }
            Self::Release { nonce, assets } => {
                let call = Firepit::releaseCall { nonce: *nonce, assets: assets.clone(), recipient: account };
                call.abi_encode().into()
            }
        }
    }

    /// Reads calldata; `None` unless it is, byte by byte, one of the two forms for this account, with at least one pool or asset,
    /// none of them twice, and no more than the contracts take.
    pub fn decode(data: &[u8], account: Address) -> Option<Self> {
        let (found, names, most) = if let Ok(call) = V3FeeAdapter::collectCall::abi_decode(data) {
            let pools: Vec<Address> = call.collectParams.iter().map(|one| one.pool).collect();
            (Self::Collect { pools: pools.clone() }, pools, MOST_POOLS)
        } else {
            let call = Firepit::releaseCall::abi_decode(data).ok()?;
            (Self::Release { nonce: call.nonce, assets: call.assets.clone() }, call.assets, MOST_ASSETS)
        };
        let different: BTreeSet<&Address> = names.iter().collect();
        let fits = !names.is_empty() && names.len() <= most && different.len() == names.len();
        (fits && found.calldata(account).as_ref() == data).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::hex;

    const ACCOUNT: Address = Address::repeat_byte(0x11);

    /// By hand: the selector of `release(uint256,address[],address)`, the number, the place of the list (3 words), the recipient,
    /// the list's length and its one item.
    #[test]
    fn a_release_is_encoded_as_the_interface_says() {
        let call = FeeCall::Release { nonce: U256::from(7), assets: vec![Address::repeat_byte(0x22)] };
        let selector = &alloy::primitives::keccak256("release(uint256,address[],address)")[..4];
        let words = hex!(
            "0000000000000000000000000000000000000000000000000000000000000007"
            "0000000000000000000000000000000000000000000000000000000000000060"
            "0000000000000000000000001111111111111111111111111111111111111111"
            "0000000000000000000000000000000000000000000000000000000000000001"
            "0000000000000000000000002222222222222222222222222222222222222222"
        );
        assert_eq!(call.calldata(ACCOUNT).as_ref(), [selector, &words].concat());
    }

    #[test]
    fn only_the_two_forms_for_the_account_are_read() {
        let address = Address::repeat_byte;
        let collect = FeeCall::Collect { pools: vec![address(1), address(2)] };
        let release = FeeCall::Release { nonce: U256::ONE, assets: vec![address(3), Address::ZERO] };
        for call in [&collect, &release] {
            let data = call.calldata(ACCOUNT);
            assert_eq!(FeeCall::decode(&data, ACCOUNT).as_ref(), Some(call));
            assert_eq!(FeeCall::decode(&[data.as_ref(), &[0]].concat(), ACCOUNT), None);
        }
        assert_eq!(FeeCall::decode(&release.calldata(ACCOUNT), address(9)), None, "another recipient");
        let twice = FeeCall::Release { nonce: U256::ONE, assets: vec![address(3), address(3)] };
        assert_eq!(FeeCall::decode(&twice.calldata(ACCOUNT), ACCOUNT), None);
        let many = FeeCall::Release { nonce: U256::ONE, assets: (0..21).map(Address::with_last_byte).collect() };
        assert_eq!(FeeCall::decode(&many.calldata(ACCOUNT), ACCOUNT), None);
        let none = FeeCall::Collect { pools: Vec::new() };
        assert_eq!(FeeCall::decode(&none.calldata(ACCOUNT), ACCOUNT), None);
        let mut part = V3FeeAdapter::collectCall::abi_decode(&collect.calldata(ACCOUNT)).unwrap();
        part.collectParams[0].amount0Requested = 5;
        assert_eq!(FeeCall::decode(&part.abi_encode(), ACCOUNT), None);
    }
}
