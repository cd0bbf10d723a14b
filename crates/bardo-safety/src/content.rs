//! Content that a permit lets an account sign, and the hash that binds it.

use alloy::primitives::{Address, B256};
use bardo_session::content::{SignedAllowance, SignedCall, SignedContent, SignedFlow, SignedMessage};

use super::binding::BindingHash;
use super::custody::safe::SafeTx;
use super::permit::PermitBounds;
use super::proposal::AllowanceKind;
use super::signing_payload::SigningPayload;
use super::typed::TypedMessage;
use bardo_base::text::SafeText;
use golem_chain::token::{TokenId, TokenInfo};
pub use golem_protocols::erc8004::publication::published;

/// Maximum length of a name or a field's value, in characters; the longest value is a 256-bit number.
const MAX_TEXT: usize = 200;

/// Returns the content that `payload` would sign within `bounds`.
pub fn signed(payload: &SigningPayload, bounds: &PermitBounds) -> SignedContent {
    let call = |(index, leg): (usize, &super::signing_payload::PayloadLeg)| SignedCall {
        purpose: text(leg.purpose.as_str()),
        to: leg.to,
        value: leg.value,
        gas_limit: leg.gas_limit,
        data: leg.data.clone(),
        messages: leg.slots.iter().map(|slot| message(&slot.message)).chain(of_safe(payload, index)).collect(),
        publishes: published(&leg.call(payload.account()).data, &payload.proposal().files),
    };
    let flow = |token: &TokenInfo, amount, recipient| {
        let (symbol, token, decimals) = parts(token);
        SignedFlow { symbol, token, decimals, amount, recipient }
    };
    let allowance = |bound: &super::proposal::AllowanceBound| {
        let (symbol, token, decimals) = parts(&bound.token);
        let permit2_expires_at = match bound.kind {
            AllowanceKind::Erc20 => None,
            AllowanceKind::Permit2 { expires_at } => Some(expires_at),
        };
        SignedAllowance { symbol, token, decimals, spender: bound.spender, at_most: bound.at_most, permit2_expires_at }
    };
    let inflows = bounds.inflows.iter();
    SignedContent {
        expected_outcome: payload.proposal().expected_outcome.clone(),
        chain_id: payload.proposal().chain_id,
        account: payload.account(),
        signer: payload.signer(),
        calls: payload.legs().iter().enumerate().map(call).collect(),
        order: payload.order().map(|order| message(&order.message)),
        files: payload.proposal().files.clone(),
        most_out: bounds.outflows.iter().map(|out| flow(&out.token, out.amount, None)).collect(),
        least_in: inflows.map(|inflow| flow(&inflow.token, inflow.at_least, Some(inflow.recipient))).collect(),
        allowances: bounds.allowances.iter().map(allowance).collect(),
        worst_gas: bounds.worst_gas,
    }
}

/// Returns the transaction of a Safe that an owner signs for the other owners; `None` where nothing is proposed.
fn of_safe(payload: &SigningPayload, leg: usize) -> Option<SignedMessage> {
    let plan = payload.safe().filter(|plan| !plan.executes)?;
    let transaction = SafeTx::of_leg(payload, leg)?;
    let fields = [
        ("nonce", transaction.nonce.to_string()),
        ("hash", transaction.hash().to_string()),
        ("owners needed", plan.threshold.to_string()),
    ];
    Some(SignedMessage {
        kind: text("SafeTx"),
        verifier: payload.account(),
        fields: fields.map(|(name, value)| (text(name), text(&value))).to_vec(),
        spenders: Vec::new(),
        // It holds until the Safe has executed a transaction with its nonce.
        usable_until: u64::MAX,
    })
}

/// Returns the hash of a permit over `content`; `rest` is the hash of everything else that the permit binds.
pub fn bind(content: &SignedContent, rest: B256) -> B256 {
    let mut binding = BindingHash::new();
    binding.hash_of(rest);
    // Plain structs with text keys have one JSON form each, and serializing them cannot fail. Empty bytes match no
    // content.
    binding.bytes(&serde_json::to_vec(content).unwrap_or_default());
    binding.finish()
}

fn parts(token: &TokenInfo) -> (SafeText, Option<Address>, u8) {
    let address = match token.id {
        TokenId::Native => None,
        TokenId::Erc20(address) => Some(address),
    };
    (shown(token), address, token.decimals)
}

/// Returns what a decision calls a token: the list's symbol, or its address. What a contract that is not listed calls itself, such as
/// the shares of a vault, is its author's choice, and could be the symbol of a listed token.
pub fn shown(token: &TokenInfo) -> SafeText {
    match token.id {
        TokenId::Erc20(address) if !token.listed => text(&address.to_string()),
        TokenId::Native | TokenId::Erc20(_) => token.symbol.clone(),
    }
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
