//! Errors of devnet chain operations.
//!
//! Messages about transactions use the wording of go-ethereum, because clients match on it.

use alloy::eips::BlockId;
use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::{Panic, Revert, SolError};
use revm::context::result::{HaltReason, InvalidTransaction};

use super::state::InvalidCode;
use crate::evm::{EvmError, RequestError};
use bardo_base::text::SafeText;

/// Reason why a transaction was not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The bytes are not an encoded transaction.
    #[error("failed to decode transaction: not an RLP or EIP-2718 encoding of a signed transaction")]
    Malformed,
    /// The signature recovers to no sender.
    #[error("invalid sender: the signature does not recover to an address")]
    InvalidSignature,
    /// The transaction is for another chain.
    #[error("invalid chain id for signer: have {have} want {want}")]
    WrongChain {
        /// Chain id in the transaction.
        have: u64,
        /// Chain id of this chain.
        want: u64,
    },
    /// A transaction type that this chain does not support.
    #[error("transaction type not supported: type {0}; this chain takes 0, 1, 2 and 4")]
    UnsupportedType(u8),
    /// The same transaction is already in the pool or mined.
    #[error("already known")]
    AlreadyKnown,
    /// The account has already used this nonce.
    #[error("nonce too low: next nonce {next}, tx nonce {nonce}")]
    NonceTooLow {
        /// Next nonce of the account.
        next: u64,
        /// Nonce of the transaction.
        nonce: u64,
    },
    /// The account's nonce cannot increase further.
    #[error("nonce has max value")]
    NonceAtMaximum,
    /// A pending transaction has the same nonce, and the fees do not exceed it by enough.
    #[error("replacement transaction underpriced: fee cap and tip must both rise by at least 10%")]
    ReplacementUnderpriced,
    /// The fee cap is below the next block's base fee.
    #[error("max fee per gas less than block base fee: maxFeePerGas: {fee_cap}, baseFee: {base_fee}")]
    FeeCapTooLow {
        /// Fee cap of the transaction, in wei per gas.
        fee_cap: u128,
        /// Base fee of the next block, in wei per gas.
        base_fee: u64,
    },
    /// The tip exceeds the fee cap.
    #[error(
        "max priority fee per gas higher than max fee per gas: maxPriorityFeePerGas: {tip}, maxFeePerGas: {fee_cap}"
    )]
    TipAboveFeeCap {
        /// Tip of the transaction, in wei per gas.
        tip: u128,
        /// Fee cap of the transaction, in wei per gas.
        fee_cap: u128,
    },
    /// The gas limit exceeds that of a block.
    #[error("exceeds block gas limit: tx gas {gas}, block gas limit {limit}")]
    ExceedsBlockGasLimit {
        /// Gas limit of the transaction.
        gas: u64,
        /// Gas limit of the block.
        limit: u64,
    },
    /// The gas limit exceeds that of a transaction ([EIP-7825](https://eips.ethereum.org/EIPS/eip-7825)).
    #[error("transaction gas limit too high (cap: {cap}, tx: {gas})")]
    ExceedsTransactionGasCap {
        /// Gas limit of the transaction.
        gas: u64,
        /// Limit set by the hardfork.
        cap: u64,
    },
    /// The gas limit is below the intrinsic gas.
    #[error("intrinsic gas too low: gas {gas}, minimum needed {minimum}")]
    IntrinsicGasTooLow {
        /// Gas limit of the transaction.
        gas: u64,
        /// Intrinsic gas of the transaction.
        minimum: u64,
    },
    /// The gas limit is below the calldata floor ([EIP-7623](https://eips.ethereum.org/EIPS/eip-7623)).
    #[error("insufficient gas for floor data gas cost: gas {gas}, minimum needed {minimum}")]
    FloorGasTooLow {
        /// Gas limit of the transaction.
        gas: u64,
        /// Floor gas of the transaction.
        minimum: u64,
    },
    /// The balance does not cover the value and the maximum fee.
    #[error("insufficient funds for gas * price + value: address {address} have {have} want {want}")]
    InsufficientFunds {
        /// Address of the sender.
        address: Address,
        /// Balance of the sender, in wei.
        have: U256,
        /// Maximum cost of the transaction, in wei.
        want: U256,
    },
    /// The sender has code ([EIP-3607](https://eips.ethereum.org/EIPS/eip-3607)).
    #[error("sender not an eoa: address {0} has code")]
    SenderHasCode(Address),
    /// The init code exceeds the size limit ([EIP-3860](https://eips.ethereum.org/EIPS/eip-3860)).
    #[error("max initcode size exceeded: code size {size}, limit {limit}")]
    InitcodeTooLarge {
        /// Size of the init code, in bytes.
        size: usize,
        /// Size limit, in bytes.
        limit: usize,
    },
    /// A type 4 transaction without authorizations ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
    #[error("EIP-7702 transaction with empty auth list")]
    EmptyAuthorizationList,
    /// The pool is full.
    #[error("txpool is full: {0} transactions pending")]
    PoolFull(usize),
    /// The sender's key is not available, and it is not impersonated.
    #[error("No Signer available for {0}: sign it yourself, or to send call anvil_impersonateAccount first")]
    NotImpersonated(Address),
    /// The request does not describe a transaction.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The gas of the request could not be estimated.
    #[error(transparent)]
    Estimate(Box<CallError>),
    /// Any other validation error of the EVM.
    #[error("{0}")]
    Invalid(InvalidTransaction),
}

/// Reason why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The call reverted with this data.
    #[error("execution reverted{}", revert_text(.0))]
    Reverted(Bytes),
    /// The call halted exceptionally.
    #[error("{}", halt_text(.0))]
    Halted(HaltReason),
    /// The call fails at every allowed gas limit.
    #[error("gas required exceeds allowance ({0})")]
    GasExceedsAllowance(u64),
    /// The value exceeds the sender's balance.
    #[error("insufficient funds for gas * price + value: address {address} have {have} want {want}")]
    InsufficientFunds {
        /// Address of the sender.
        address: Address,
        /// Balance of the sender, in wei.
        have: U256,
        /// Required amount, in wei.
        want: U256,
    },
    /// Any other validation error of the EVM.
    #[error("{0}")]
    Invalid(InvalidTransaction),
    /// The request is invalid.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The block or its state is not available.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// An override cannot be applied.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// A value of the fork's origin could not be read.
    #[error("{0}")]
    Origin(SafeText),
    /// Internal failure of the EVM or its database.
    #[error("execution failed inside the node")]
    Internal,
}

/// Error for a state override that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// `state` and `stateDiff` are both set.
    #[error("account {0} has both 'state' and 'stateDiff': give one")]
    StateAndDiff(Address),
    /// Moving precompiles is not supported.
    #[error("'movePrecompileToAddress' is not supported (account {0})")]
    MovePrecompile(Address),
    /// The code of the override is invalid.
    #[error(transparent)]
    Code(#[from] InvalidCode),
}

/// Error for a block that is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The block does not exist.
    #[error("block not found: {}, the chain is at {head}", block_text(.asked))]
    NotFound {
        /// The requested block.
        asked: BlockId,
        /// Height of the chain.
        head: u64,
    },
    /// The state of the block is no longer kept.
    #[error("missing state of block {number}: this chain keeps the states of blocks {oldest} to {head}")]
    StatePruned {
        /// Number of the requested block.
        number: u64,
        /// Number of the oldest block whose state is kept.
        oldest: u64,
        /// Number of the newest block.
        head: u64,
    },
}

/// Error for a timestamp that is not after the newest block's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("timestamp {asked} is not after the last block's, which is {last}: a block must be later than its parent")]
pub struct TimestampError {
    /// Requested timestamp, in seconds since the Unix epoch.
    pub asked: u64,
    /// Timestamp of the newest block, in seconds since the Unix epoch.
    pub last: u64,
}

/// Error for a reorganisation that is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReorgError {
    /// The reorganisation needs a state that is no longer kept.
    #[error("cannot reorganise {depth} blocks: the chain is at {head} and keeps states from {oldest} on")]
    TooDeep {
        /// Requested number of blocks.
        depth: u64,
        /// Height of the chain.
        head: u64,
        /// Number of the oldest block whose state is kept.
        oldest: u64,
    },
    /// A replacement transaction for a block that is not reorganised.
    #[error("replacement transaction for block offset {offset}, but only {depth} blocks are reorganised: use 0 to {}", .depth.saturating_sub(1))]
    OffsetOutOfRange {
        /// Requested offset of the block.
        offset: u64,
        /// Number of reorganised blocks.
        depth: u64,
    },
    /// A replacement transaction is not admitted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl CallError {
    /// Converts a validation error of the EVM.
    pub(super) fn from_evm(error: EvmError, sender: Address) -> Self {
        match error {
            EvmError::Transaction(InvalidTransaction::LackOfFundForMaxFee { fee, balance }) => {
                Self::InsufficientFunds { address: sender, have: *balance, want: *fee }
            }
            EvmError::Transaction(invalid) => Self::Invalid(invalid),
            EvmError::Database(error) => Self::Origin(SafeText::clean(&error.to_string(), 300)),
            _ => Self::Internal,
        }
    }
}

/// Decodes `Error(string)` and `Panic(uint256)` as text; the raw data is reported separately.
fn revert_text(data: &Bytes) -> String {
    if let Ok(Revert { reason }) = Revert::abi_decode(data) {
        format!(": {}", SafeText::clean(&reason, 200))
    } else if let Ok(panic) = Panic::abi_decode(data) {
        format!(": {panic}")
    } else {
        String::new()
    }
}

fn halt_text(reason: &HaltReason) -> String {
    match reason {
        HaltReason::OutOfGas(_) => "out of gas".to_owned(),
        HaltReason::InvalidFEOpcode | HaltReason::OpcodeNotFound => "invalid opcode".to_owned(),
        HaltReason::InvalidJump => "invalid jump destination".to_owned(),
        HaltReason::CreateContractSizeLimit => "max code size exceeded".to_owned(),
        HaltReason::CreateCollision => "contract address collision".to_owned(),
        other => format!("execution halted: {other:?}"),
    }
}

fn block_text(id: &BlockId) -> String {
    match id {
        BlockId::Hash(hash) => format!("{}", hash.block_hash),
        BlockId::Number(number) => format!("{number}"),
    }
}
