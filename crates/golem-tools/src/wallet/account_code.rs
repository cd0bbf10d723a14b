//! Code of an account, and what follows from it alone.

use alloy::primitives::{Address, Bytes};
use alloy::providers::Provider as _;

use crate::engine::ConnectedChain;
use bardo_base::error::ToolError;
use golem_chain::provider::ProviderError;

/// Prefix of the code of an account that has delegated; the delegate's address follows
/// ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
const DESIGNATOR: [u8; 3] = [0xef, 0x01, 0x00];

/// Kind of an account, by its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccountKindByCode {
    /// No code: an account of a key, or an address that nobody has used.
    Plain,
    /// Account of a key that runs the code of this contract (EIP-7702).
    Delegated(Address),
    /// Code of its own, so a contract.
    Contract,
}

impl AccountKindByCode {
    pub(super) fn of(code: &[u8]) -> Self {
        let delegate = code.strip_prefix(&DESIGNATOR).and_then(|rest| <[u8; 20]>::try_from(rest).ok());
        match delegate {
            Some(delegate) => Self::Delegated(delegate.into()),
            None if code.is_empty() => Self::Plain,
            None => Self::Contract,
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Plain => "eoa",
            Self::Delegated(_) => "eip7702",
            Self::Contract => "contract",
        }
    }

    /// Contract whose code runs for the account, if it has delegated.
    pub(super) const fn delegate(self) -> Option<Address> {
        match self {
            Self::Delegated(delegate) => Some(delegate),
            Self::Plain | Self::Contract => None,
        }
    }
}

/// Code and number of transactions sent of `account` in the newest block that the endpoints agree on.
///
/// # Errors
/// The provider's error; `CHAIN_INCONSISTENT` if the endpoints contradict each other without a majority.
pub(super) async fn code_and_nonce(chain: &ConnectedChain, account: Address) -> Result<(Bytes, u64), ToolError> {
    let (provider, block) = chain.client.newest().await?;
    let code = async { provider.get_code_at(account).block_id(block).await.map_err(ProviderError::from) };
    let nonce = async { provider.get_transaction_count(account).block_id(block).await.map_err(ProviderError::from) };
    Ok(futures::try_join!(code, nonce)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delegation_is_exactly_23_bytes() {
        let delegate = Address::repeat_byte(0x7c);
        let designator = |length: usize| [&[0xef, 0x01, 0x00][..], &[0x7c; 24][..length]].concat();
        assert_eq!(AccountKindByCode::of(&designator(20)), AccountKindByCode::Delegated(delegate));
        for other in [designator(19), designator(21), vec![0xef, 0x01], vec![0x60; 23]] {
            assert_eq!(AccountKindByCode::of(&other), AccountKindByCode::Contract, "{other:02x?}");
        }
        assert_eq!(AccountKindByCode::of(&[]), AccountKindByCode::Plain);
    }
}
