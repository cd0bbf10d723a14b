//! Conversions of this crate's errors into [`ToolError`].

use crate::fork::ForkError;
use crate::network::UnknownChain;
use crate::price::PriceUnknown;
use crate::provider::{ConnectError, ProviderError};
use crate::sender::SenderError;
use crate::token::{TokenCandidate, TokenError};
use bardo_base::error::{ErrorCode, ToolError};

impl From<ProviderError> for ToolError {
    fn from(error: ProviderError) -> Self {
        use ProviderError as E;
        let code = match &error {
            E::Disagreement { .. }
            | E::Malformed { .. }
            | E::WrongChain { .. }
            | E::Decode { .. }
            | E::Rpc { .. }
            | E::TooLarge { .. } => ErrorCode::ChainInconsistent,
            _ => ErrorCode::ChainUnreachable,
        };
        Self::new(code, error)
    }
}

impl From<SenderError> for ToolError {
    fn from(error: SenderError) -> Self {
        let code = match &error {
            SenderError::Provider(ProviderError::Disagreement { .. }) | SenderError::ReceiptDisputed { .. } => {
                ErrorCode::ChainInconsistent
            }
            SenderError::Provider(_)
            | SenderError::Record(_)
            | SenderError::Lane(_)
            | SenderError::Fees(_)
            | SenderError::OtherChain { .. }
            | SenderError::NoRelay(_)
            | SenderError::InvalidAnswer { .. } => ErrorCode::ChainUnreachable,
        };
        Self::new(code, error)
    }
}

impl From<ConnectError> for ToolError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Provider(error) => error.into(),
            ConnectError::Silent { .. } => Self::new(ErrorCode::ChainUnreachable, error),
            other => Self::new(ErrorCode::ChainInconsistent, other),
        }
    }
}

impl From<UnknownChain> for ToolError {
    fn from(error: UnknownChain) -> Self {
        let failed = Self::new(ErrorCode::ChainUnknown, &error);
        match error {
            UnknownChain::Name { nearest, known, .. } => {
                let failed = failed.detail("known", known);
                match nearest {
                    Some(near) => failed.detail("nearest", near),
                    None => failed,
                }
            }
            UnknownChain::Id { known, .. } => failed.detail("known", known),
            UnknownChain::NotDecimal { .. } => failed,
        }
    }
}

impl From<TokenError> for ToolError {
    fn from(error: TokenError) -> Self {
        use TokenError as E;
        let code = match &error {
            E::Empty | E::NotAnAddress { .. } | E::Checksum { .. } | E::ZeroAddress { .. } => {
                ErrorCode::ValidationFailed
            }
            E::UnknownSymbol { .. } | E::NoCode { .. } => ErrorCode::TokenNotFound,
            E::Ambiguous { .. } => ErrorCode::TokenAmbiguous,
            E::Lookalike { .. } | E::Impostor { .. } => ErrorCode::TokenLookalike,
            E::NotAToken { .. } | E::AbsurdDecimals { .. } | E::DecimalsDiffer { .. } => ErrorCode::TokenInvalid,
            E::Chain(cause) => return cause.clone().into(),
        };
        let failed = Self::new(code, &error);
        match &error {
            E::UnknownSymbol { nearest: Some(near), .. } => failed.detail("nearest", near.as_str()),
            E::Ambiguous { candidates, .. } => failed.detail("candidates", list(candidates)),
            E::Lookalike { candidate: Some(candidate), .. } | E::Impostor { candidate, .. } => {
                failed.detail("candidates", list(std::slice::from_ref(candidate)))
            }
            _ => failed,
        }
    }
}

impl From<PriceUnknown> for ToolError {
    fn from(error: PriceUnknown) -> Self {
        let refusals: Vec<String> =
            error.refusals.iter().map(|(source, reason)| format!("{source}: {reason}")).collect();
        Self::new(ErrorCode::PriceUnavailable, &error).detail("refusals", refusals)
    }
}

impl From<ForkError> for ToolError {
    fn from(error: ForkError) -> Self {
        let code = match error {
            ForkError::Endpoint(error) => return error.into(),
            ForkError::Malformed { .. }
            | ForkError::UnknownBlock { .. }
            | ForkError::WrongChain { .. }
            | ForkError::Disputed(_)
            | ForkError::Reorganised { .. } => ErrorCode::ChainInconsistent,
            ForkError::State(_) | ForkError::Unverified | ForkError::Stopped => ErrorCode::ChainUnreachable,
            ForkError::Rejected { .. }
            | ForkError::NotConverging { .. }
            | ForkError::Machine(_)
            | ForkError::Shift { .. } => ErrorCode::SafetySimulationFailed,
        };
        Self::new(code, error)
    }
}

fn list(candidates: &[TokenCandidate]) -> serde_json::Value {
    candidates
        .iter()
        .map(|candidate| serde_json::json!({"symbol": candidate.symbol, "address": candidate.address}))
        .collect()
}
