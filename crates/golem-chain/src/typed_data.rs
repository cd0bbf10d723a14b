//! Typed data in JSON, as wallets and signing services take it (`eth_signTypedData_v4`,
//! [EIP-712](https://eips.ethereum.org/EIPS/eip-712)).

use alloy::dyn_abi::eip712::Resolver;
use alloy::dyn_abi::{DynSolValue, TypedData};
use alloy::primitives::hex;
use alloy::sol_types::{Eip712Domain, SolStruct, SolValue};
use serde_json::{Map, Value, json};

/// A struct as typed data of a domain; `None` if its hash would be another.
pub fn typed_data<T: SolStruct + SolValue>(value: &T, domain: Eip712Domain) -> Option<TypedData> {
    let mut resolver = Resolver::from_struct::<T>();
    resolver.ingest_string(domain.encode_type()).ok()?;
    let (message, hash) = (content_in(&resolver, value)?, value.eip712_signing_hash(&domain));
    let data = TypedData { domain, resolver, primary_type: T::NAME.to_owned(), message };
    (data.eip712_signing_hash().ok()? == hash).then_some(data)
}

/// Content of a struct as JSON, with the members that the resolver's definition names.
pub(crate) fn content_in<T: SolStruct + SolValue>(resolver: &Resolver, value: &T) -> Option<Value> {
    Some(content_of(&resolver.resolve(T::NAME).ok()?.abi_decode(&value.abi_encode()).ok()?))
}

/// A value as JSON: numbers in decimal digits, bytes in hexadecimal.
pub(crate) fn content_of(value: &DynSolValue) -> Value {
    match value {
        DynSolValue::Bool(value) => json!(value),
        DynSolValue::Int(value, _) => json!(value.to_string()),
        DynSolValue::Uint(value, _) => json!(value.to_string()),
        DynSolValue::FixedBytes(word, size) => json!(hex::encode_prefixed(word.get(..*size).unwrap_or_default())),
        DynSolValue::Address(address) => json!(address.to_string()),
        DynSolValue::Function(function) => json!(hex::encode_prefixed(function)),
        DynSolValue::Bytes(bytes) => json!(hex::encode_prefixed(bytes)),
        DynSolValue::String(text) => json!(text),
        DynSolValue::Array(values) | DynSolValue::FixedArray(values) | DynSolValue::Tuple(values) => {
            values.iter().map(content_of).collect()
        }
        DynSolValue::CustomStruct { prop_names, tuple, .. } => {
            prop_names.iter().cloned().zip(tuple.iter().map(content_of)).collect::<Map<_, _>>().into()
        }
    }
}
