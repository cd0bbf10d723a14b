//! Lenient parsing of parameters: trailing ones may be missing or null. Numbers may be hex strings, decimal strings or
//! JSON numbers, because clients differ.

use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::primitives::{B256, U256};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::RpcError;
use bardo_base::text::SafeText;

/// Maximum length of a value quoted in an error, in characters.
const ECHO_CHARS: usize = 40;

pub(super) struct Params<'a>(Vec<&'a RawValue>);

impl<'a> Params<'a> {
    /// Parses an array; missing parameters are an empty array.
    pub(super) fn parse(raw: Option<&'a RawValue>) -> Result<Self, RpcError> {
        match raw.map(RawValue::get) {
            None | Some("null") => Ok(Self(Vec::new())),
            Some(text) => serde_json::from_str(text)
                .map(Self)
                .map_err(|_| RpcError::invalid_params("params must be an array, such as [\"0x…\", \"latest\"]")),
        }
    }

    /// Parameter `index`; `None` if it is missing or null.
    pub(super) fn optional<T: DeserializeOwned>(&self, index: usize, name: &str) -> Result<Option<T>, RpcError> {
        let Some(raw) = self.0.get(index).filter(|raw| raw.get() != "null") else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|error| self.complaint(index, name, &error))
    }

    /// Parameter `index`, or an error if it is missing.
    pub(super) fn required<T: DeserializeOwned>(&self, index: usize, name: &str) -> Result<T, RpcError> {
        self.optional(index, name)?.ok_or_else(|| missing(index, name))
    }

    /// A number in any form; `None` if it is missing.
    pub(super) fn optional_number(&self, index: usize, name: &str) -> Result<Option<U256>, RpcError> {
        let Some(value) = self.optional::<Value>(index, name)? else { return Ok(None) };
        number(&value).map(Some).ok_or_else(|| {
            RpcError::invalid_params(format!("parameter {index} ({name}) must be a number, such as \"0x1\""))
        })
    }

    /// A number in any form, or an error if it is missing.
    pub(super) fn number(&self, index: usize, name: &str) -> Result<U256, RpcError> {
        self.optional_number(index, name)?.ok_or_else(|| missing(index, name))
    }

    /// A number below 2^64, or an error if it is missing.
    pub(super) fn small_number(&self, index: usize, name: &str) -> Result<u64, RpcError> {
        small(self.number(index, name)?, index, name)
    }

    /// A number below 2^64; `None` if it is missing.
    pub(super) fn optional_small_number(&self, index: usize, name: &str) -> Result<Option<u64>, RpcError> {
        self.optional_number(index, name)?.map(|value| small(value, index, name)).transpose()
    }

    /// A block as tag, number in any form, hash or object; the newest if it is missing.
    pub(super) fn block(&self, index: usize) -> Result<BlockId, RpcError> {
        let Some(value) = self.optional::<Value>(index, "block")? else { return Ok(BlockId::latest()) };
        if let Value::String(text) = &value
            && text.len() == 66
            && let Ok(hash) = text.parse::<B256>()
        {
            return Ok(BlockId::hash(hash));
        }
        if let Some(number) = number(&value) {
            return Ok(BlockId::Number(BlockNumberOrTag::Number(small(number, index, "block")?)));
        }
        serde_json::from_value(value).map_err(|error| self.complaint(index, "block", &error))
    }

    fn complaint(&self, index: usize, name: &str, error: &serde_json::Error) -> RpcError {
        let value = self.0.get(index).map_or("", |raw| raw.get());
        // The message describes kind and position of the mistake, but may quote the value.
        let what = SafeText::clean(&error.to_string(), 120);
        RpcError::invalid_params(format!(
            "parameter {index} ({name}) is not valid: {what}; got {}",
            SafeText::clean(value, ECHO_CHARS)
        ))
    }
}

/// Parses a number from a hex string, a decimal string or a JSON number.
pub(in super::super) fn number(value: &Value) -> Option<U256> {
    match value {
        Value::Number(number) => number.as_u64().map(U256::from),
        Value::String(text) => match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some("") => Some(U256::ZERO),
            Some(digits) => U256::from_str_radix(digits, 16).ok(),
            None if text.is_empty() => None,
            None => U256::from_str_radix(text, 10).ok(),
        },
        _ => None,
    }
}

fn small(value: U256, index: usize, name: &str) -> Result<u64, RpcError> {
    u64::try_from(value)
        .map_err(|_| RpcError::invalid_params(format!("parameter {index} ({name}) is too large: {value}")))
}

fn missing(index: usize, name: &str) -> RpcError {
    RpcError::invalid_params(format!("missing value for required parameter {index} ({name})"))
}
