//! JSON-RPC errors with the codes of the specification ([EIP-1474](https://eips.ethereum.org/EIPS/eip-1474)) and of
//! go-ethereum.

use alloy::primitives::hex;

use super::super::error::{BlockError, CallError, ReorgError, SubmitError, TimestampError};
use super::super::state::InvalidCode;
use bardo_base::text::SafeText;

const INVALID_PARAMS: i64 = -32602;
const METHOD_NOT_FOUND: i64 = -32601;
const INTERNAL: i64 = -32603;
/// Code for any other error.
const SERVER: i64 = -32000;
const TRANSACTION_REJECTED: i64 = -32003;
/// Code for a revert, which carries its data; as in go-ethereum.
const REVERTED: i64 = 3;

/// Maximum length of quoted client input, in characters.
const ECHO_CHARS: usize = 60;

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// Error code of the JSON-RPC response.
    pub code: i64,
    /// Message of the JSON-RPC response.
    pub message: String,
    /// Revert data with `0x` prefix; `None` for other errors.
    pub data: Option<String>,
}

impl RpcError {
    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self { code: INVALID_PARAMS, message: message.into(), data: None }
    }

    pub(super) fn method_not_found(method: &str) -> Self {
        let message = format!("the method {} does not exist", SafeText::clean(method, ECHO_CHARS));
        Self { code: METHOD_NOT_FOUND, message, data: None }
    }

    /// Creates an error with a method's specific code.
    pub(super) fn coded(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(in super::super) fn server(message: impl Into<String>) -> Self {
        Self { code: SERVER, message: message.into(), data: None }
    }

    pub(in super::super) fn internal(message: impl Into<String>) -> Self {
        Self { code: INTERNAL, message: message.into(), data: None }
    }
}

impl From<BlockError> for RpcError {
    fn from(error: BlockError) -> Self {
        Self::server(error.to_string())
    }
}

impl From<CallError> for RpcError {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        match error {
            CallError::Reverted(output) => Self { code: REVERTED, message, data: Some(hex::encode_prefixed(output)) },
            CallError::Request(_) | CallError::Override(_) => Self::invalid_params(message),
            CallError::Internal => Self::internal(message),
            _ => Self::server(message),
        }
    }
}

impl From<SubmitError> for RpcError {
    fn from(error: SubmitError) -> Self {
        let message = error.to_string();
        match error {
            SubmitError::Malformed | SubmitError::Request(_) | SubmitError::NotImpersonated(_) => {
                Self::invalid_params(message)
            }
            SubmitError::Estimate(inner) => (*inner).into(),
            SubmitError::AlreadyKnown
            | SubmitError::IntrinsicGasTooLow { .. }
            | SubmitError::FloorGasTooLow { .. }
            | SubmitError::ExceedsBlockGasLimit { .. }
            | SubmitError::ExceedsTransactionGasCap { .. }
            | SubmitError::InvalidSignature
            | SubmitError::WrongChain { .. } => Self::server(message),
            _ => Self { code: TRANSACTION_REJECTED, message, data: None },
        }
    }
}

impl From<TimestampError> for RpcError {
    fn from(error: TimestampError) -> Self {
        Self::invalid_params(error.to_string())
    }
}

impl From<InvalidCode> for RpcError {
    fn from(error: InvalidCode) -> Self {
        Self::invalid_params(error.to_string())
    }
}

impl From<ReorgError> for RpcError {
    fn from(error: ReorgError) -> Self {
        match error {
            ReorgError::Submit(error) => error.into(),
            other => Self::invalid_params(other.to_string()),
        }
    }
}
