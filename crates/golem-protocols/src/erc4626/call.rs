//! Calls of a vault in two closed forms: an account deposits an exact amount for itself, or redeems an exact number
//! of its own shares to itself.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;

use bardo_abi::erc4626::Erc4626;

/// Error for calldata that is none of the closed forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultCallError {
    /// The function is none of the two.
    #[error("not a deposit and not a redemption of shares")]
    Unknown,
    /// The calldata has another encoding than its arguments.
    #[error("the call has more bytes than its arguments")]
    NotCanonical,
    /// Somebody else would receive, or own what is redeemed.
    #[error("it acts for {0}, not for the account")]
    Beneficiary(Address),
    /// An amount of zero, or one that no token has.
    #[error("the amount is not one of a token")]
    Amount,
}

/// Call of a vault by an account for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VaultCall {
    /// Deposits exactly this amount of the vault's token, in its raw units.
    Deposit {
        /// Amount in raw units of the token.
        assets: U256,
    },
    /// Redeems exactly this many shares, in their raw units.
    Redeem {
        /// Raw units of shares.
        shares: U256,
    },
}

impl VaultCall {
    /// Amount in the calldata: raw units of the token for a deposit, of shares for a redemption.
    pub fn amount(&self) -> U256 {
        match *self {
            Self::Deposit { assets } => assets,
            Self::Redeem { shares } => shares,
        }
    }

    /// Calldata by which `account` calls the vault.
    pub fn calldata(&self, account: Address) -> Bytes {
        let data = match *self {
            Self::Deposit { assets } => Erc4626::depositCall { assets, receiver: account }.abi_encode(),
            Self::Redeem { shares } => Erc4626::redeemCall { shares, receiver: account, owner: account }.abi_encode(),
        };
        data.into()
    }

    /// Decodes calldata by which `account` calls a vault.
    ///
    /// # Errors
    /// [`VaultCallError`] unless it is exactly one of the closed forms.
    pub fn decode(data: &[u8], account: Address) -> Result<Self, VaultCallError> {
        let own = |of: Address| if of == account { Ok(()) } else { Err(VaultCallError::Beneficiary(of)) };
        let selector: [u8; 4] = data.get(..4).and_then(|four| four.try_into().ok()).ok_or(VaultCallError::Unknown)?;
        let unreadable = |_| VaultCallError::NotCanonical;
        let found = match selector {
            Erc4626::depositCall::SELECTOR => {
                let call = Erc4626::depositCall::abi_decode_validate(data).map_err(unreadable)?;
                own(call.receiver)?;
                Self::Deposit { assets: call.assets }
            }
            Erc4626::redeemCall::SELECTOR => {
                let call = Erc4626::redeemCall::abi_decode_validate(data).map_err(unreadable)?;
                own(call.receiver)?;
                own(call.owner)?;
                Self::Redeem { shares: call.shares }
            }
            _ => return Err(VaultCallError::Unknown),
        };
        // Some vaults read the largest number as "all that is there".
        let amount = found.amount();
        if amount.is_zero() || amount.bit_len() > 128 {
            return Err(VaultCallError::Amount);
        }
        // One encoding for each call, so that what is shown is all that is signed.
        if found.calldata(account).as_ref() != data { Err(VaultCallError::NotCanonical) } else { Ok(found) }
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::hex;

    use super::*;

    const ME: Address = Address::repeat_byte(0xa1);
    const OTHER: Address = Address::repeat_byte(0xa2);

    /// Selectors of `deposit(uint256,address)` and `redeem(uint256,address,address)` as block explorers list them.
    #[test]
    fn each_form_is_read_back_and_nothing_else() {
        let amount = U256::from(5);
        for (form, selector) in [
            (VaultCall::Deposit { assets: amount }, hex!("6e553f65")),
            (VaultCall::Redeem { shares: amount }, hex!("ba087652")),
        ] {
            let data = form.calldata(ME);
            assert_eq!(data[..4], selector);
            assert_eq!(VaultCall::decode(&data, ME), Ok(form));
            assert_eq!(VaultCall::decode(&data, OTHER), Err(VaultCallError::Beneficiary(ME)));
            let longer = [data.as_ref(), &[0; 32]].concat();
            assert_eq!(VaultCall::decode(&longer, ME), Err(VaultCallError::NotCanonical));
            assert!(VaultCall::decode(&data[..data.len() - 1], ME).is_err());
        }
        for [receiver, owner] in [[OTHER, ME], [ME, OTHER]] {
            let call = Erc4626::redeemCall { shares: amount, receiver, owner }.abi_encode();
            assert_eq!(VaultCall::decode(&call, ME), Err(VaultCallError::Beneficiary(OTHER)));
        }
        for amount in [U256::ZERO, U256::MAX, U256::from(1) << 128] {
            for form in [VaultCall::Deposit { assets: amount }, VaultCall::Redeem { shares: amount }] {
                assert_eq!(VaultCall::decode(&form.calldata(ME), ME), Err(VaultCallError::Amount), "{form:?}");
            }
        }
        // `mint`, which takes whatever is allowed, and `withdraw`, which burns whatever is there, are no forms.
        for selector in [hex!("94bf804d"), hex!("b460af94")] {
            let call = [&selector[..], &[0; 96]].concat();
            assert_eq!(VaultCall::decode(&call, ME), Err(VaultCallError::Unknown));
        }
        assert_eq!(VaultCall::decode(&[], ME), Err(VaultCallError::Unknown));
    }
}
