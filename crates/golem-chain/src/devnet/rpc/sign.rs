//! Signing for the development accounts: transactions, messages and typed data. The keys come from the well-known
//! mnemonic only, so a signature reveals nothing and is worthless elsewhere.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use alloy::consensus::{SignableTransaction, TypedTransaction};
use alloy::dyn_abi::TypedData;
use alloy::eips::Encodable2718;
use alloy::primitives::{Address, B256, Bytes, Signature};
use alloy::rpc::types::TransactionRequest;
use alloy_signer::SignerSync;
use alloy_signer_local::{MnemonicBuilder, PrivateKeySigner};
use serde::Deserialize;
use serde_json::Value;

use super::super::MNEMONIC;
use super::super::block::ChainTransaction;
use super::super::handle::DevnetThread;
use super::error::RpcError;
use super::params::Params;
use super::{RpcResult, json};

/// Number of accounts of the mnemonic that the node signs for.
const DEVELOPMENT_ACCOUNTS: usize = 10;

/// Maximum number of members in the types of a message, with nested structs counted at each use. A chain of types that
/// each contain the next one twice doubles the number at every level.
const MAX_TYPED_MEMBERS: usize = 10_000;

/// Maximum nesting depth of a message's structs.
const MAX_TYPE_DEPTH: usize = 64;

/// Maximum length of a type name, in bytes: each pair of brackets in it is another level of nested lists.
const MAX_TYPE_NAME: usize = 256;

/// Development accounts that were funded at genesis, in the mnemonic's order.
pub(super) fn accounts(engine: &DevnetThread) -> impl Iterator<Item = Address> + '_ {
    let funded = &engine.chain.config().balances;
    keys().iter().map(PrivateKeySigner::address).filter(|address| funded.iter().any(|(known, _)| known == address))
}

/// Creates the transaction for `request`: unsigned for an impersonated sender, else signed with a development key.
pub(super) fn transaction(engine: &DevnetThread, request: TransactionRequest) -> Result<ChainTransaction, RpcError> {
    let Some(sender) = request.from else {
        return Err(RpcError::invalid_params("the transaction has no \"from\": give the sender's address"));
    };
    if engine.chain.is_impersonated(sender) {
        return Ok(engine.chain.prepare(request)?);
    }
    let key = key(engine, sender)?;
    match engine.chain.complete(request, sender)? {
        TypedTransaction::Legacy(tx) => signed(key, tx),
        TypedTransaction::Eip2930(tx) => signed(key, tx),
        TypedTransaction::Eip1559(tx) => signed(key, tx),
        TypedTransaction::Eip4844(tx) => signed(key, tx),
        TypedTransaction::Eip7702(tx) => signed(key, tx),
    }
}

fn signed<T>(key: &PrivateKeySigner, tx: T) -> Result<ChainTransaction, RpcError>
where
    T: SignableTransaction<Signature>,
    alloy::consensus::TxEnvelope: From<alloy::consensus::Signed<T>>,
{
    let signature = sign(key, tx.signature_hash())?;
    Ok(ChainTransaction::signed(tx.into_signed(signature).into())?)
}

/// `eth_signTransaction`: the encoded transaction that `eth_sendTransaction` would send.
pub(super) fn sign_transaction(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let request: TransactionRequest = params.required(0, "transaction")?;
    let signer = request.from.unwrap_or_default();
    let transaction = transaction(engine, request)?;
    if transaction.impersonated {
        return Err(no_signer(signer));
    }
    json(&Bytes::from(transaction.envelope.encoded_2718()))
}

/// `eth_sign`: account and message; the message is signed with the prefix of
/// [EIP-191](https://eips.ethereum.org/EIPS/eip-191).
pub(super) fn sign_message(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    message_signature(engine, params.required(0, "account")?, &params.required::<Bytes>(1, "message")?)
}

/// `personal_sign`: like [`sign_message`] with its parameters in reverse order.
pub(super) fn personal_sign(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    message_signature(engine, params.required(1, "account")?, &params.required::<Bytes>(0, "message")?)
}

fn message_signature(engine: &DevnetThread, account: Address, message: &[u8]) -> RpcResult {
    let signature = key(engine, account)?.sign_message_sync(message).map_err(|_| unsigned())?;
    json(&Bytes::from(signature.as_bytes()))
}

/// `eth_signTypedData_v4`: account and typed data ([EIP-712](https://eips.ethereum.org/EIPS/eip-712)), as an object or
/// as JSON text.
pub(super) fn sign_typed_data(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let key = key(engine, params.required(0, "account")?)?;
    let invalid = |what: &dyn std::fmt::Display| {
        let what = bardo_base::text::SafeText::clean(&what.to_string(), 200);
        RpcError::invalid_params(format!("parameter 1 (typed data) is not valid: {what}"))
    };
    let data = match params.required::<Value>(1, "typed data")? {
        Value::String(text) => serde_json::from_str(&text).map_err(|error| invalid(&error))?,
        other => other,
    };
    check_types(&data).map_err(|what| invalid(&what))?;
    let data: TypedData = serde_json::from_value(data).map_err(|error| invalid(&error))?;
    let hash = data.eip712_signing_hash().map_err(|error| invalid(&error))?;
    json(&Bytes::from(sign(key, hash)?.as_bytes()))
}

#[derive(Deserialize)]
struct Member {
    #[serde(rename = "type")]
    kind: String,
}

/// Refuses recursive types, and types whose expansion is too large.
fn check_types(data: &Value) -> Result<(), &'static str> {
    let types = data.get("types").cloned().unwrap_or_default();
    let types: BTreeMap<String, Vec<Member>> =
        serde_json::from_value(types).map_err(|_| "\"types\" must list the members of each type")?;
    let mut sizes = BTreeMap::new();
    for name in types.keys() {
        if size(name, &types, &mut sizes, 0)? > MAX_TYPED_MEMBERS {
            return Err("its types have too many members");
        }
    }
    Ok(())
}

/// Number of members of a type, with those of its structs; recursive types exceed the depth limit.
fn size<'a>(
    name: &'a str,
    types: &'a BTreeMap<String, Vec<Member>>,
    sizes: &mut BTreeMap<&'a str, usize>,
    depth: usize,
) -> Result<usize, &'static str> {
    if let Some(size) = sizes.get(name) {
        return Ok(*size);
    }
    let Some(members) = types.get(name) else { return Ok(1) };
    if depth > MAX_TYPE_DEPTH {
        return Err("its types are recursive or nested too deeply");
    }
    let mut total = 1_usize;
    for member in members {
        if member.kind.len() > MAX_TYPE_NAME {
            return Err("the name of a type is too long");
        }
        let kind = member.kind.split('[').next().unwrap_or_default();
        total = total.saturating_add(size(kind, types, sizes, depth + 1)?);
    }
    sizes.insert(name, total);
    Ok(total)
}

fn key(engine: &DevnetThread, account: Address) -> Result<&'static PrivateKeySigner, RpcError> {
    let listed = accounts(engine).any(|known| known == account);
    keys().iter().find(|key| listed && key.address() == account).ok_or_else(|| no_signer(account))
}

fn sign(key: &PrivateKeySigner, hash: B256) -> Result<Signature, RpcError> {
    key.sign_hash_sync(&hash).map_err(|_| unsigned())
}

fn unsigned() -> RpcError {
    RpcError::internal("the signature could not be made")
}

fn no_signer(account: Address) -> RpcError {
    super::super::error::SubmitError::NotImpersonated(account).into()
}

/// The mnemonic's first keys, derived at first use because that takes thousands of hashes.
fn keys() -> &'static [PrivateKeySigner] {
    static KEYS: OnceLock<Vec<PrivateKeySigner>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let parent = MnemonicBuilder::from_phrase(MNEMONIC).build_parent_key();
        // The phrase is a valid constant; a failure would leave no accounts.
        let keys: Result<Vec<_>, _> = parent.and_then(|parent| parent.children().take(DEVELOPMENT_ACCOUNTS).collect());
        keys.unwrap_or_default()
    })
}
