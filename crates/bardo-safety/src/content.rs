//! What would be signed, as plain data that any process can hash again: calls, typed messages field by field, and the
//! bounds. A permit's hash is made over this, so that a process that draws it and recomputes the hash draws what is
//! signed, and nothing else.

use alloy::primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::binding::Binding;
use super::framed::Framed;
use super::permit::Bounds;
use super::proposal::AllowanceKind;
use super::typed::TypedMessage;
use bardo_base::text::SafeText;
use golem_chain::token::{Token, TokenId};

/// Characters kept of a name or a field's value; the longest value is a 256-bit number.
const MAX_TEXT: usize = 200;

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

impl SignedContent {
    /// What `framed` would sign within `bounds`.
    pub fn of(framed: &Framed, bounds: &Bounds) -> Self {
        let call = |leg: &super::framed::FramedLeg| SignedCall {
            purpose: text(leg.purpose.as_str()),
            to: leg.to,
            value: leg.value,
            gas_limit: leg.gas_limit,
            data: leg.data.clone(),
            messages: leg.slots.iter().map(|slot| message(&slot.message)).collect(),
        };
        let flow = |token: &Token, amount, recipient| {
            let (symbol, token, decimals) = parts(token);
            SignedFlow { symbol, token, decimals, amount, recipient }
        };
        let allowance = |bound: &super::proposal::AllowanceBound| {
            let (symbol, token, decimals) = parts(&bound.token);
            let permit2_expires_at = match bound.kind {
                AllowanceKind::Erc20 => None,
                AllowanceKind::Permit2 { expires_at } => Some(expires_at),
            };
            SignedAllowance {
                symbol,
                token,
                decimals,
                spender: bound.spender,
                at_most: bound.at_most,
                permit2_expires_at,
            }
        };
        let inflows = bounds.inflows.iter();
        Self {
            expected_outcome: framed.proposal().expected_outcome.clone(),
            chain_id: framed.proposal().chain_id,
            account: framed.account(),
            signer: framed.signer(),
            calls: framed.legs().iter().map(call).collect(),
            order: framed.order().map(|order| message(&order.message)),
            most_out: bounds.outflows.iter().map(|out| flow(&out.token, out.amount, None)).collect(),
            least_in: inflows.map(|inflow| flow(&inflow.token, inflow.at_least, Some(inflow.recipient))).collect(),
            allowances: bounds.allowances.iter().map(allowance).collect(),
            worst_gas: bounds.worst_gas,
        }
    }

    /// Hash of a permit over this content; `rest` is the hash of everything else that the permit binds.
    pub fn bind(&self, rest: B256) -> B256 {
        let mut binding = Binding::new();
        binding.hash_of(rest);
        // Plain structs with text keys have one JSON form each, and making it cannot fail; nothing at all is no content.
        binding.bytes(&serde_json::to_vec(self).unwrap_or_default());
        binding.finish()
    }
}

fn parts(token: &Token) -> (SafeText, Option<Address>, u8) {
    let address = match token.id {
        TokenId::Native => None,
        TokenId::Erc20(address) => Some(address),
    };
    (token.symbol.clone(), address, token.decimals)
}

fn message(message: &TypedMessage) -> SignedMessage {
    let takes = message.takes();
    SignedMessage {
        kind: text(message.kind()),
        verifier: message.verifier(),
        fields: message.fields().into_iter().map(|(name, value)| (text(name), text(&value))).collect(),
        spenders: takes.iter().map(|take| take.spender).collect(),
        usable_until: takes.iter().map(|take| take.usable_until).max().unwrap_or_default(),
    }
}

fn text(text: &str) -> SafeText {
    SafeText::clean(text, MAX_TEXT)
}
