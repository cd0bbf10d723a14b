//! Calls of the pool in four closed forms: an account supplies, withdraws, borrows or repays for itself alone, at the
//! variable rate and without a referral.

use alloy::primitives::{Address, Bytes, U256, uint};
use alloy::sol_types::SolCall;

use bardo_abi::aave::AavePool;

/// Variable rate of the pool; the stable one is no longer offered anywhere.
const VARIABLE: U256 = uint!(2_U256);

/// Error for calldata that is none of the closed forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LendingCallError {
    /// The function is none of the four.
    #[error("not a supply, withdrawal, borrowing or repayment")]
    Unknown,
    /// The calldata has another encoding than its arguments.
    #[error("the call has more bytes than its arguments")]
    NotCanonical,
    /// Somebody else would gain or owe.
    #[error("it acts for {0}, not for the account")]
    Beneficiary(Address),
    /// Another rate than the variable one.
    #[error("only the variable rate is used")]
    Rate,
    /// A referral code.
    #[error("it has a referral code")]
    Referral,
    /// An amount of zero, or one that no token has.
    #[error("the amount is not one of a token")]
    Amount,
}

/// Call of the pool for the account itself. Amounts are in raw units of the asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LendingCall {
    /// Supplies exactly this amount.
    Supply {
        /// Token that is supplied.
        asset: Address,
        /// Amount in raw units of the token.
        amount: U256,
    },
    /// Withdraws exactly this amount; [`U256::MAX`] is the whole supply.
    Withdraw {
        /// Token that is withdrawn.
        asset: Address,
        /// Amount in raw units of the token.
        amount: U256,
    },
    /// Borrows exactly this amount.
    Borrow {
        /// Token that is borrowed.
        asset: Address,
        /// Amount in raw units of the token.
        amount: U256,
    },
    /// Repays at most this amount: the whole debt if it is smaller.
    Repay {
        /// Token that is repaid.
        asset: Address,
        /// Amount in raw units of the token.
        amount: U256,
    },
}

impl LendingCall {
    /// Token that moves.
    pub fn asset(&self) -> Address {
        match *self {
            Self::Supply { asset, .. }
            | Self::Withdraw { asset, .. }
            | Self::Borrow { asset, .. }
            | Self::Repay { asset, .. } => asset,
        }
    }

    /// Amount in the calldata, in raw units.
    pub fn amount(&self) -> U256 {
        match *self {
            Self::Supply { amount, .. }
            | Self::Withdraw { amount, .. }
            | Self::Borrow { amount, .. }
            | Self::Repay { amount, .. } => amount,
        }
    }

    /// True for a withdrawal of everything.
    pub fn withdraws_all(&self) -> bool {
        matches!(self, Self::Withdraw { amount, .. } if *amount == U256::MAX)
    }

    /// Calldata by which `account` calls the pool.
    pub fn calldata(&self, account: Address) -> Bytes {
        let data = match *self {
            Self::Supply { asset, amount } => {
                AavePool::supplyCall { asset, amount, onBehalfOf: account, referralCode: 0 }.abi_encode()
            }
            Self::Withdraw { asset, amount } => AavePool::withdrawCall { asset, amount, to: account }.abi_encode(),
            Self::Borrow { asset, amount } => {
                let call = AavePool::borrowCall {
                    asset,
                    amount,
                    interestRateMode: VARIABLE,
                    referralCode: 0,
                    onBehalfOf: account,
                };
                call.abi_encode()
            }
            Self::Repay { asset, amount } => {
                AavePool::repayCall { asset, amount, interestRateMode: VARIABLE, onBehalfOf: account }.abi_encode()
            }
        };
        data.into()
    }

    /// Decodes calldata by which `account` calls the pool.
    ///
    /// # Errors
    /// [`LendingCallError`] unless it is exactly one of the closed forms.
    pub fn decode(data: &[u8], account: Address) -> Result<Self, LendingCallError> {
        let own = |of: Address| if of == account { Ok(()) } else { Err(LendingCallError::Beneficiary(of)) };
        let variable = |mode: U256| if mode == VARIABLE { Ok(()) } else { Err(LendingCallError::Rate) };
        let unreferred = |code: u16| if code == 0 { Ok(()) } else { Err(LendingCallError::Referral) };
        let selector: [u8; 4] = data.get(..4).and_then(|four| four.try_into().ok()).ok_or(LendingCallError::Unknown)?;
        let unreadable = |_| LendingCallError::NotCanonical;
        let found = match selector {
            AavePool::supplyCall::SELECTOR => {
                let call = AavePool::supplyCall::abi_decode_validate(data).map_err(unreadable)?;
                own(call.onBehalfOf)?;
                unreferred(call.referralCode)?;
                Self::Supply { asset: call.asset, amount: call.amount }
            }
            AavePool::withdrawCall::SELECTOR => {
                let call = AavePool::withdrawCall::abi_decode_validate(data).map_err(unreadable)?;
                own(call.to)?;
                Self::Withdraw { asset: call.asset, amount: call.amount }
            }
            AavePool::borrowCall::SELECTOR => {
                let call = AavePool::borrowCall::abi_decode_validate(data).map_err(unreadable)?;
                own(call.onBehalfOf)?;
                variable(call.interestRateMode)?;
                unreferred(call.referralCode)?;
                Self::Borrow { asset: call.asset, amount: call.amount }
            }
            AavePool::repayCall::SELECTOR => {
                let call = AavePool::repayCall::abi_decode_validate(data).map_err(unreadable)?;
                own(call.onBehalfOf)?;
                variable(call.interestRateMode)?;
                Self::Repay { asset: call.asset, amount: call.amount }
            }
            _ => return Err(LendingCallError::Unknown),
        };
        // The largest number means "all" to the pool: of a supply or a repayment it would take whatever is allowed.
        let amount = found.amount();
        if amount.is_zero() || amount.bit_len() > 128 && !found.withdraws_all() {
            return Err(LendingCallError::Amount);
        }
        // One encoding for each call, so that what is shown is all that is signed.
        if found.calldata(account).as_ref() != data { Err(LendingCallError::NotCanonical) } else { Ok(found) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Address = Address::repeat_byte(1);
    const OTHER: Address = Address::repeat_byte(2);
    const ASSET: Address = Address::repeat_byte(3);

    fn forms() -> [LendingCall; 5] {
        let (asset, amount) = (ASSET, U256::from(7));
        [
            LendingCall::Supply { asset, amount },
            LendingCall::Withdraw { asset, amount },
            LendingCall::Withdraw { asset, amount: U256::MAX },
            LendingCall::Borrow { asset, amount },
            LendingCall::Repay { asset, amount },
        ]
    }

    #[test]
    fn the_forms_read_back_for_their_account_alone() {
        for form in forms() {
            let data = form.calldata(ME);
            assert_eq!(LendingCall::decode(&data, ME), Ok(form));
            assert_eq!(LendingCall::decode(&data, OTHER), Err(LendingCallError::Beneficiary(ME)));
            let longer = [data.as_ref(), &[0; 32]].concat();
            assert_eq!(LendingCall::decode(&longer, ME), Err(LendingCallError::NotCanonical));
            assert!(LendingCall::decode(&data[..data.len() - 1], ME).is_err());
        }
    }

    #[test]
    fn other_calls_are_refused() {
        let (asset, amount) = (ASSET, U256::from(7));
        let stable =
            AavePool::borrowCall { asset, amount, interestRateMode: U256::from(1), referralCode: 0, onBehalfOf: ME };
        assert_eq!(LendingCall::decode(&stable.abi_encode(), ME), Err(LendingCallError::Rate));
        let referred = AavePool::supplyCall { asset, amount, onBehalfOf: ME, referralCode: 9 };
        assert_eq!(LendingCall::decode(&referred.abi_encode(), ME), Err(LendingCallError::Referral));
        for whole in [U256::ZERO, U256::MAX, U256::ONE << 128_usize] {
            for form in [LendingCall::Supply { asset, amount: whole }, LendingCall::Repay { asset, amount: whole }] {
                let decoded = LendingCall::decode(&form.calldata(ME), ME);
                assert_eq!(decoded, Err(LendingCallError::Amount), "{form:?}");
            }
        }
        assert_eq!(LendingCall::decode(&[1, 2, 3, 4], ME), Err(LendingCallError::Unknown));
        assert_eq!(LendingCall::decode(&[], ME), Err(LendingCallError::Unknown));
    }

    /// Selectors of the deployed pools, from the function signatures' hashes as block explorers show them.
    #[test]
    fn the_selectors_are_those_of_the_deployed_pools() {
        let selectors = forms().map(|form| alloy::primitives::hex::encode(&form.calldata(ME)[..4]));
        assert_eq!(selectors, ["617ba037", "69328dec", "69328dec", "a415bcad", "573ade81"]);
    }
}
