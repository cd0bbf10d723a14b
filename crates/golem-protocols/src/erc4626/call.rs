//! Calls of a vault in closed forms: an account deposits an exact amount for itself, or redeems an exact number of its own shares
//! to itself. With an asynchronous vault (ERC-7540) both are requests, which are claimed once they are settled; a request to
//! deposit can be cancelled before that, where the vault has Lagoon's interface.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;

use bardo_abi::erc4626::Erc4626;
use bardo_abi::erc7540::{Erc7540, LagoonVault};

/// Error for calldata that is none of the closed forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultCallError {
    /// The function is none of these.
    #[error("not a deposit, not a redemption of shares, and no request, claim or cancellation of one")]
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

/// Side that a call of a vault moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VaultSide {
    /// Token that the vault holds.
    Asset,
    /// Shares of the vault.
    Share,
}

/// Call of a vault by an account for itself. Amounts are in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VaultCall {
    /// Deposits exactly this amount of the vault's token.
    Deposit {
        /// Amount of the token.
        assets: U256,
    },
    /// Redeems exactly this many shares.
    Redeem {
        /// Number of shares.
        shares: U256,
    },
    /// Gives exactly this amount of the token to an asynchronous vault, for shares that its manager settles.
    RequestDeposit {
        /// Amount of the token.
        assets: U256,
    },
    /// Gives exactly this many shares to an asynchronous vault, for tokens that its manager settles.
    RequestRedeem {
        /// Number of shares.
        shares: U256,
    },
    /// Claims the shares of a settled request to deposit.
    ClaimShares {
        /// Part of the requested amount.
        assets: U256,
    },
    /// Claims the tokens of a settled request to redeem. Its bytes are those of [`Self::Redeem`]: see [`Self::claiming`].
    ClaimAssets {
        /// Part of the requested shares.
        shares: U256,
    },
    /// Takes back the last request to deposit, all of it.
    CancelDeposit,
}

impl VaultCall {
    /// Amount in the calldata: raw units of the token or of shares; zero for a cancellation, which names none.
    pub fn amount(&self) -> U256 {
        match *self {
            Self::Deposit { assets } | Self::RequestDeposit { assets } | Self::ClaimShares { assets } => assets,
            Self::Redeem { shares } | Self::RequestRedeem { shares } | Self::ClaimAssets { shares } => shares,
            Self::CancelDeposit => U256::ZERO,
        }
    }

    /// Side that leaves the account; `None` for a claim and a cancellation.
    pub fn gives(&self) -> Option<VaultSide> {
        match self {
            Self::Deposit { .. } | Self::RequestDeposit { .. } => Some(VaultSide::Asset),
            Self::Redeem { .. } | Self::RequestRedeem { .. } => Some(VaultSide::Share),
            Self::ClaimShares { .. } | Self::ClaimAssets { .. } | Self::CancelDeposit => None,
        }
    }

    /// Side that comes to the account; `None` for a request.
    pub fn receives(&self) -> Option<VaultSide> {
        match self {
            Self::Deposit { .. } | Self::ClaimShares { .. } => Some(VaultSide::Share),
            Self::Redeem { .. } | Self::ClaimAssets { .. } | Self::CancelDeposit => Some(VaultSide::Asset),
            Self::RequestDeposit { .. } | Self::RequestRedeem { .. } => None,
        }
    }

    /// Returns true if the account puts something in. Every other call only brings back what is its own.
    pub fn is_deposit(&self) -> bool {
        self.gives() == Some(VaultSide::Asset)
    }

    /// Returns true for a call that only an asynchronous vault knows.
    pub fn is_asynchronous(&self) -> bool {
        !matches!(self, Self::Deposit { .. } | Self::Redeem { .. })
    }

    /// Returns true for a call about a deposit, false for one about a redemption: a vault can be asynchronous in one of them.
    pub fn concerns_deposits(&self) -> bool {
        match self {
            Self::Deposit { .. } | Self::RequestDeposit { .. } | Self::ClaimShares { .. } | Self::CancelDeposit => true,
            Self::Redeem { .. } | Self::RequestRedeem { .. } | Self::ClaimAssets { .. } => false,
        }
    }

    /// The same bytes as a claim: `redeem` of an asynchronous vault takes no shares from the account, which gave them with its
    /// request.
    #[must_use]
    pub fn claiming(self) -> Self {
        match self {
            Self::Redeem { shares } => Self::ClaimAssets { shares },
            other => other,
        }
    }

    /// Calldata by which `account` calls the vault.
    pub fn calldata(&self, account: Address) -> Bytes {
        let (receiver, owner, controller) = (account, account, account);
        let data = match *self {
            Self::Deposit { assets } => Erc4626::depositCall { assets, receiver }.abi_encode(),
            Self::Redeem { shares } | Self::ClaimAssets { shares } => {
                Erc4626::redeemCall { shares, receiver, owner }.abi_encode()
            }
            Self::RequestDeposit { assets } => Erc7540::requestDepositCall { assets, controller, owner }.abi_encode(),
            Self::RequestRedeem { shares } => Erc7540::requestRedeemCall { shares, controller, owner }.abi_encode(),
            Self::ClaimShares { assets } => Erc7540::depositCall { assets, receiver, controller }.abi_encode(),
            Self::CancelDeposit => LagoonVault::cancelRequestDepositCall {}.abi_encode(),
        };
        data.into()
    }

    /// Decodes calldata by which `account` calls a vault.
    ///
    /// # Errors
    /// [`VaultCallError`] unless it is exactly one of the closed forms.
    pub fn decode(data: &[u8], account: Address) -> Result<Self, VaultCallError> {
        let own = |all: &[Address]| {
            all.iter().find(|of| **of != account).map_or(Ok(()), |of| Err(VaultCallError::Beneficiary(*of)))
        };
        let selector: [u8; 4] = data.get(..4).and_then(|four| four.try_into().ok()).ok_or(VaultCallError::Unknown)?;
        let unreadable = |_| VaultCallError::NotCanonical;
        let found = match selector {
            Erc4626::depositCall::SELECTOR => {
                let call = Erc4626::depositCall::abi_decode_validate(data).map_err(unreadable)?;
                own(&[call.receiver])?;
                Self::Deposit { assets: call.assets }
            }
            Erc4626::redeemCall::SELECTOR => {
                let call = Erc4626::redeemCall::abi_decode_validate(data).map_err(unreadable)?;
                own(&[call.receiver, call.owner])?;
                Self::Redeem { shares: call.shares }
            }
            Erc7540::requestDepositCall::SELECTOR => {
                let call = Erc7540::requestDepositCall::abi_decode_validate(data).map_err(unreadable)?;
                own(&[call.controller, call.owner])?;
                Self::RequestDeposit { assets: call.assets }
            }
            Erc7540::requestRedeemCall::SELECTOR => {
                let call = Erc7540::requestRedeemCall::abi_decode_validate(data).map_err(unreadable)?;
                own(&[call.controller, call.owner])?;
                Self::RequestRedeem { shares: call.shares }
            }
            Erc7540::depositCall::SELECTOR => {
                let call = Erc7540::depositCall::abi_decode_validate(data).map_err(unreadable)?;
                own(&[call.receiver, call.controller])?;
                Self::ClaimShares { assets: call.assets }
            }
            LagoonVault::cancelRequestDepositCall::SELECTOR => Self::CancelDeposit,
            _ => return Err(VaultCallError::Unknown),
        };
        // Some vaults read the largest number as "all that is there".
        let amount = found.amount();
        if found != Self::CancelDeposit && (amount.is_zero() || amount.bit_len() > 128) {
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

    /// Selectors as block explorers list them: `deposit(uint256,address)`, `redeem(uint256,address,address)`,
    /// `requestDeposit(uint256,address,address)`, `requestRedeem(uint256,address,address)`, `deposit(uint256,address,address)`.
    #[test]
    fn each_form_is_read_back_and_nothing_else() {
        let amount = U256::from(5);
        for (form, selector) in [
            (VaultCall::Deposit { assets: amount }, hex!("6e553f65")),
            (VaultCall::Redeem { shares: amount }, hex!("ba087652")),
            (VaultCall::RequestDeposit { assets: amount }, hex!("85b77f45")),
            (VaultCall::RequestRedeem { shares: amount }, hex!("7d41c86e")),
            (VaultCall::ClaimShares { assets: amount }, hex!("2e2d2984")),
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
            let (controller, assets, shares) = (receiver, amount, amount);
            for call in [
                Erc4626::redeemCall { shares, receiver, owner }.abi_encode(),
                Erc7540::requestDepositCall { assets, controller, owner }.abi_encode(),
                Erc7540::requestRedeemCall { shares, controller, owner }.abi_encode(),
                Erc7540::depositCall { assets, receiver: owner, controller }.abi_encode(),
            ] {
                assert_eq!(VaultCall::decode(&call, ME), Err(VaultCallError::Beneficiary(OTHER)));
            }
        }
        // A cancellation names nobody: it is about the caller's own.
        let cancels = VaultCall::CancelDeposit.calldata(ME);
        assert_eq!(VaultCall::decode(&cancels, OTHER), Ok(VaultCall::CancelDeposit));
        let longer = [cancels.as_ref(), &[0; 32]].concat();
        assert_eq!(VaultCall::decode(&longer, ME), Err(VaultCallError::NotCanonical));
        for amount in [U256::ZERO, U256::MAX, U256::from(1) << 128] {
            for form in [
                VaultCall::Deposit { assets: amount },
                VaultCall::Redeem { shares: amount },
                VaultCall::RequestDeposit { assets: amount },
                VaultCall::RequestRedeem { shares: amount },
                VaultCall::ClaimShares { assets: amount },
            ] {
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
