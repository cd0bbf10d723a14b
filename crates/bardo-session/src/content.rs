//! What would be signed, as plain data that any process can hash again: calls, typed messages field by field, and the
//! bounds. A permit's hash is made over this, so that a process that draws it and recomputes the hash draws what is
//! signed, and nothing else.

use alloy_primitives::{Address, Bytes, U256};
use bardo_base::text::SafeText;
use serde::{Deserialize, Serialize};

/// Everything that one permit lets an account sign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedContent {
    /// What will be true afterwards, in one sentence.
    pub expected_outcome: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account whose money it is.
    pub account: Address,
    /// Key that signs the transactions.
    pub signer: Address,
    /// Transactions, in order.
    pub calls: Vec<SignedCall>,
    /// Message for others to settle.
    pub order: Option<SignedMessage>,
    /// Most that may leave the account, gas apart.
    pub most_out: Vec<SignedFlow>,
    /// Least that must come in, and to whom.
    pub least_in: Vec<SignedFlow>,
    /// Allowances that may exist afterwards.
    pub allowances: Vec<SignedAllowance>,
    /// Most that gas may cost in all, in wei.
    pub worst_gas: U256,
}

/// One transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedCall {
    /// Why it is in the plan.
    pub purpose: SafeText,
    /// Contract or account called.
    pub to: Address,
    /// Wei sent along.
    pub value: U256,
    /// Most gas it may use.
    pub gas_limit: u64,
    /// Calldata, with a placeholder where a signature belongs.
    pub data: Bytes,
    /// Messages whose signatures belong into the calldata.
    pub messages: Vec<SignedMessage>,
}

/// One typed message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedMessage {
    /// Name of the type that is signed.
    pub kind: SafeText,
    /// Contract that verifies the signature.
    pub verifier: Address,
    /// Fields with their values, as they are signed.
    pub fields: Vec<(SafeText, SafeText)>,
    /// Account or contract that may take something with the signature.
    pub spenders: Vec<Address>,
    /// Last moment at which the signature can be used, in seconds since the Unix epoch.
    pub usable_until: u64,
}

/// An amount of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedFlow {
    /// Token's symbol.
    pub symbol: SafeText,
    /// Token's contract; `None` for the native token.
    pub token: Option<Address>,
    /// Token's decimals.
    pub decimals: u8,
    /// Raw units.
    pub amount: U256,
    /// Receiver of what comes in; `None` for what goes out.
    pub recipient: Option<Address>,
}

/// An allowance that may exist afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedAllowance {
    /// Token's symbol.
    pub symbol: SafeText,
    /// Token's contract; `None` for the native token.
    pub token: Option<Address>,
    /// Token's decimals.
    pub decimals: u8,
    /// Account or contract that may take it.
    pub spender: Address,
    /// Raw units.
    pub at_most: U256,
    /// End of an allowance inside Permit2, in seconds since the Unix epoch; `None` for one of the token itself.
    pub permit2_expires_at: Option<u64>,
}
