//! What can be wrong with what is asked of a devnet chain.
//!
//! Messages about transactions use the words of go-ethereum, because clients match on them.

use alloy::eips::BlockId;
use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::{Panic, Revert, SolError};
use revm::context::result::{HaltReason, InvalidTransaction};

use super::state::InvalidCode;
use crate::evm::{EvmError, RequestError};
use bardo_base::text::SafeText;

/// Why a transaction was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Not the encoding of a transaction.
    #[error("failed to decode transaction: not an RLP or EIP-2718 encoding of a signed transaction")]
    Malformed,
    /// No sender can be recovered.
    #[error("invalid sender: the signature does not recover to an address")]
    InvalidSignature,
    /// Signed for another chain.
    #[error("invalid chain id for signer: have {have} want {want}")]
    WrongChain {
        /// In the transaction.
        have: u64,
        /// Of this chain.
        want: u64,
    },
    /// A type this chain does not produce blocks with.
    #[error("transaction type not supported: type {0}; this chain takes 0, 1, 2 and 4")]
    UnsupportedType(u8),
    /// The same transaction is in the pool or mined.
    #[error("already known")]
    AlreadyKnown,
    /// The account has sent a transaction of that nonce.
    #[error("nonce too low: next nonce {next}, tx nonce {nonce}")]
    NonceTooLow {
        /// Next nonce of the account.
        next: u64,
        /// Nonce of the transaction.
        nonce: u64,
    },
    /// The account's nonce cannot grow any more.
    #[error("nonce has max value")]
    NonceAtMaximum,
    /// A pending transaction has that nonce and pays about as much.
    #[error("replacement transaction underpriced: fee cap and tip must both rise by at least 10%")]
    ReplacementUnderpriced,
    /// It could not be included now.
    #[error("max fee per gas less than block base fee: maxFeePerGas: {fee_cap}, baseFee: {base_fee}")]
    FeeCapTooLow {
        /// Of the transaction, wei per gas.
        fee_cap: u128,
        /// Of the next block, wei per gas.
        base_fee: u64,
    },
    /// Tip above cap.
    #[error(
        "max priority fee per gas higher than max fee per gas: maxPriorityFeePerGas: {tip}, maxFeePerGas: {fee_cap}"
    )]
    TipAboveFeeCap {
        /// Wei per gas.
        tip: u128,
        /// Wei per gas.
        fee_cap: u128,
    },
    /// More gas than a block has.
    #[error("exceeds block gas limit: tx gas {gas}, block gas limit {limit}")]
    ExceedsBlockGasLimit {
        /// Of the transaction.
        gas: u64,
        /// Of the block.
        limit: u64,
    },
    /// More gas than [EIP-7825](https://eips.ethereum.org/EIPS/eip-7825) lets one transaction have.
    #[error("transaction gas limit too high (cap: {cap}, tx: {gas})")]
    ExceedsTransactionGasCap {
        /// Of the transaction.
        gas: u64,
        /// By the hardfork.
        cap: u64,
    },
    /// Less gas than it costs before the first opcode.
    #[error("intrinsic gas too low: gas {gas}, minimum needed {minimum}")]
    IntrinsicGasTooLow {
        /// Of the transaction.
        gas: u64,
        /// What it needs.
        minimum: u64,
    },
    /// Less gas than the floor of [EIP-7623](https://eips.ethereum.org/EIPS/eip-7623).
    #[error("insufficient gas for floor data gas cost: gas {gas}, minimum needed {minimum}")]
    FloorGasTooLow {
        /// Of the transaction.
        gas: u64,
        /// What it needs.
        minimum: u64,
    },
    /// The balance does not cover value and the highest possible fee.
    #[error("insufficient funds for gas * price + value: address {address} have {have} want {want}")]
    InsufficientFunds {
        /// The sender.
        address: Address,
        /// Its balance in wei.
        have: U256,
        /// What the transaction may cost at most, in wei.
        want: U256,
    },
    /// The sender has code ([EIP-3607](https://eips.ethereum.org/EIPS/eip-3607)).
    #[error("sender not an eoa: address {0} has code")]
    SenderHasCode(Address),
    /// Initialisation code over the limit of [EIP-3860](https://eips.ethereum.org/EIPS/eip-3860).
    #[error("max initcode size exceeded: code size {size}, limit {limit}")]
    InitcodeTooLarge {
        /// Of the transaction, bytes.
        size: usize,
        /// Bytes.
        limit: usize,
    },
    /// Type 4 with nothing to authorise ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
    #[error("EIP-7702 transaction with empty auth list")]
    EmptyAuthorizationList,
    /// The pool holds as much as it may.
    #[error("txpool is full: {0} transactions pending")]
    PoolFull(usize),
    /// In the name of somebody whose key is not here and who is not impersonated.
    #[error("No Signer available for {0}: sign it yourself, or to send call anvil_impersonateAccount first")]
    NotImpersonated(Address),
    /// A request that describes no transaction.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A request whose gas could not be estimated.
    #[error(transparent)]
    Estimate(Box<CallError>),
    /// Any other objection of the EVM.
    #[error("{0}")]
    Invalid(InvalidTransaction),
}

/// Why a call gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// By REVERT, with this data.
    #[error("execution reverted{}", revert_text(.0))]
    Reverted(Bytes),
    /// By an exceptional halt.
    #[error("{}", halt_text(.0))]
    Halted(HaltReason),
    /// It fails at every gas limit that is allowed.
    #[error("gas required exceeds allowance ({0})")]
    GasExceedsAllowance(u64),
    /// The value is more than the sender has.
    #[error("insufficient funds for gas * price + value: address {address} have {have} want {want}")]
    InsufficientFunds {
        /// The sender.
        address: Address,
        /// Wei.
        have: U256,
        /// Wei.
        want: U256,
    },
    /// The EVM's other objections.
    #[error("{0}")]
    Invalid(InvalidTransaction),
    /// The request is not sound.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The block or its state is not there.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// An override that cannot be applied.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// The interpreter could not go on.
    #[error("execution failed inside the node")]
    Internal,
}

/// A state override that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// `state` and `stateDiff` together.
    #[error("account {0} has both 'state' and 'stateDiff': give one")]
    StateAndDiff(Address),
    /// Precompiles stay where they are here.
    #[error("'movePrecompileToAddress' is not supported (account {0})")]
    MovePrecompile(Address),
    /// Code that cannot be.
    #[error(transparent)]
    Code(#[from] InvalidCode),
}

/// A block that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// No such block.
    #[error("block not found: {}, the chain is at {head}", block_text(.asked))]
    NotFound {
        /// What was asked for.
        asked: BlockId,
        /// Height of the chain.
        head: u64,
    },
    /// The block is too old: only recent states are kept.
    #[error("missing state of block {number}: this chain keeps the states of blocks {oldest} to {head}")]
    StatePruned {
        /// What was asked for.
        number: u64,
        /// The oldest kept.
        oldest: u64,
        /// The newest.
        head: u64,
    },
}

/// A time that cannot be the next block's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("timestamp {asked} is not after the last block's, which is {last}: a block must be later than its parent")]
pub struct TimestampError {
    /// Seconds.
    pub asked: u64,
    /// Seconds.
    pub last: u64,
}

/// A reorganisation that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReorgError {
    /// Deeper than what is kept.
    #[error("cannot reorganise {depth} blocks: the chain is at {head} and keeps states from {oldest} on")]
    TooDeep {
        /// Asked for.
        depth: u64,
        /// Height.
        head: u64,
        /// Oldest state.
        oldest: u64,
    },
    /// A replacement for a block beyond the reorganised ones.
    #[error("replacement transaction for block offset {offset}, but only {depth} blocks are reorganised: use 0 to {}", .depth.saturating_sub(1))]
    OffsetOutOfRange {
        /// Asked for.
        offset: u64,
        /// How many.
        depth: u64,
    },
    /// A replacement that cannot be taken.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl CallError {
    /// The words for what the EVM objected to before executing.
    pub(super) fn from_evm(error: EvmError, sender: Address) -> Self {
        match error {
            EvmError::Transaction(InvalidTransaction::LackOfFundForMaxFee { fee, balance }) => {
                Self::InsufficientFunds { address: sender, have: *balance, want: *fee }
            }
            EvmError::Transaction(invalid) => Self::Invalid(invalid),
            _ => Self::Internal,
        }
    }
}

/// `Error(string)` and `Panic(uint256)` in words; the data itself travels beside the message.
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
