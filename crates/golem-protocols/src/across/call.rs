//! The one form of deposit that is made: an account deposits an exact amount for itself, for an exact amount of a token on
//! another chain, open to every relayer, without a message.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall as _;

use bardo_abi::across::AcrossSpokePool::depositV3Call;

/// Error for calldata that is not the closed form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DepositCallError {
    /// The calldata calls another function.
    #[error("not a deposit with a SpokePool")]
    Unknown,
    /// The calldata has another encoding than its arguments.
    #[error("the call has another encoding than its arguments")]
    NotCanonical,
    /// Somebody else is credited with the deposit, or receives its output.
    #[error("it acts for {0}, not for the account")]
    Beneficiary(Address),
    /// Only one relayer may fill it, for a time.
    #[error("it is exclusive to relayer {0}")]
    Exclusive(Address),
    /// A message would be called on arrival.
    #[error("it has a message that is called on arrival")]
    Message,
    /// The destination's id is not one of a chain.
    #[error("{0} is not the id of a chain")]
    Destination(U256),
    /// An amount of zero, or one that no token has.
    #[error("the {0} amount is not one of a token")]
    Amount(&'static str),
    /// A token at address zero, which a pool replaces by one of its own choice.
    #[error("the {0} token is not named")]
    Token(&'static str),
}

/// Deposit of an account for itself. Amounts in raw units, times in seconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnDeposit {
    /// Token that is deposited.
    pub input_token: Address,
    /// Token that is received on the destination.
    pub output_token: Address,
    /// Amount that is deposited.
    pub input_amount: U256,
    /// Amount that is received.
    pub output_amount: U256,
    /// EIP-155 id of the destination.
    pub destination_chain_id: u64,
    /// Time for which the fee was quoted.
    pub quote_timestamp: u32,
    /// Last second in which it can be filled, by the destination's time.
    pub fill_deadline: u32,
}

impl OwnDeposit {
    /// Calldata by which `account` deposits.
    pub fn calldata(&self, account: Address) -> Bytes {
        let call = depositV3Call {
            depositor: account,
            recipient: account,
            inputToken: self.input_token,
            outputToken: self.output_token,
            inputAmount: self.input_amount,
            outputAmount: self.output_amount,
            destinationChainId: U256::from(self.destination_chain_id),
            exclusiveRelayer: Address::ZERO,
            quoteTimestamp: self.quote_timestamp,
            fillDeadline: self.fill_deadline,
            exclusivityParameter: 0,
            message: Bytes::new(),
        };
        call.abi_encode().into()
    }

    /// Decodes calldata by which `account` deposits.
    ///
    /// # Errors
    /// [`DepositCallError`] unless it is exactly the closed form.
    pub fn decode(data: &[u8], account: Address) -> Result<Self, DepositCallError> {
        if data.get(..4) != Some(depositV3Call::SELECTOR.as_slice()) {
            return Err(DepositCallError::Unknown);
        }
        let call = depositV3Call::abi_decode_validate(data).map_err(|_| DepositCallError::NotCanonical)?;
        for beneficiary in [call.depositor, call.recipient] {
            if beneficiary != account {
                return Err(DepositCallError::Beneficiary(beneficiary));
            }
        }
        if !call.exclusiveRelayer.is_zero() || call.exclusivityParameter != 0 {
            return Err(DepositCallError::Exclusive(call.exclusiveRelayer));
        }
        if !call.message.is_empty() {
            return Err(DepositCallError::Message);
        }
        for (token, which) in [(call.inputToken, "input"), (call.outputToken, "output")] {
            if token.is_zero() {
                return Err(DepositCallError::Token(which));
            }
        }
        for (amount, which) in [(call.inputAmount, "input"), (call.outputAmount, "output")] {
            if amount.is_zero() || amount.bit_len() > 128 {
                return Err(DepositCallError::Amount(which));
            }
        }
        let destination = u64::try_from(call.destinationChainId).ok().filter(|id| *id != 0);
        let found = Self {
            input_token: call.inputToken,
            output_token: call.outputToken,
            input_amount: call.inputAmount,
            output_amount: call.outputAmount,
            destination_chain_id: destination.ok_or(DepositCallError::Destination(call.destinationChainId))?,
            quote_timestamp: call.quoteTimestamp,
            fill_deadline: call.fillDeadline,
        };
        // One encoding for each call, so that what is shown is all that is signed.
        if found.calldata(account).as_ref() != data { Err(DepositCallError::NotCanonical) } else { Ok(found) }
    }
}
