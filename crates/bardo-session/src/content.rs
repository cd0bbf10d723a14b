//! Content that a permit binds, as plain data that any process can hash again: calls, typed messages with their fields,
//! and bounds. The permit's hash covers it. A process that recomputes the hash from what it displays knows that exactly
//! this content would be signed.

use alloy_primitives::{Address, Bytes, U256};
use bardo_base::text::SafeText;
use serde::{Deserialize, Serialize};

/// Content that one permit allows an account to sign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedContent {
    /// Expected outcome, as one sentence.
    pub expected_outcome: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account whose assets are moved.
    pub account: Address,
    /// Address of the key that signs the transactions.
    pub signer: Address,
    /// Transactions, in order.
    pub calls: Vec<SignedCall>,
    /// Order message that others settle; `None` if there is none.
    pub order: Option<SignedMessage>,
    /// Files outside the chain that calls name by content identifier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Bytes>,
    /// Maximum amounts that may leave the account, without gas.
    pub most_out: Vec<SignedFlow>,
    /// Minimum amounts that must arrive, and their recipients.
    pub least_in: Vec<SignedFlow>,
    /// Allowances that may exist afterwards.
    pub allowances: Vec<SignedAllowance>,
    /// Maximum total gas cost, in wei.
    pub worst_gas: U256,
}

/// Transaction that a permit allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedCall {
    /// Purpose of the call in the plan.
    pub purpose: SafeText,
    /// Contract or account that is called.
    pub to: Address,
    /// Value sent with the call, in wei.
    pub value: U256,
    /// Gas limit of the call.
    pub gas_limit: u64,
    /// Calldata, with a placeholder for each signature.
    pub data: Bytes,
    /// Messages whose signatures go into the calldata.
    pub messages: Vec<SignedMessage>,
    /// Content that the call publishes in a registry of agents, as names and texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publishes: Vec<(SafeText, SafeText)>,
}

/// Typed message (EIP-712) that a permit allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedMessage {
    /// Name of the primary type.
    pub kind: SafeText,
    /// Contract that verifies the signature.
    pub verifier: Address,
    /// Fields with their values, as they are signed.
    pub fields: Vec<(SafeText, SafeText)>,
    /// Accounts or contracts that can spend with the signature.
    pub spenders: Vec<Address>,
    /// Time until which the signature can be used, in seconds since the Unix epoch.
    pub usable_until: u64,
}

/// Amount of a token that leaves or arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedFlow {
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Contract of the token; `None` for the native token.
    pub token: Option<Address>,
    /// Decimals of the token.
    pub decimals: u8,
    /// Amount in raw units.
    pub amount: U256,
    /// Recipient of an arriving amount; `None` for a leaving one.
    pub recipient: Option<Address>,
}

/// Allowance that may exist after the action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedAllowance {
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Contract of the token; `None` for the native token.
    pub token: Option<Address>,
    /// Decimals of the token.
    pub decimals: u8,
    /// Account or contract that may spend it.
    pub spender: Address,
    /// Maximum allowance, in raw units.
    pub at_most: U256,
    /// Expiry of an allowance in Permit2, in seconds since the Unix epoch; `None` for an allowance of the token itself.
    pub permit2_expires_at: Option<u64>,
}
