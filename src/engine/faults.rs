//! From the errors of the rooms below to the one that callers see.

use crate::base::error::{ErrorCode, ToolError};
use crate::base::service::{Refusal, ServiceError};
use crate::base::units::AmountError;
use crate::chain::fork::ForkError;
use crate::chain::network::UnknownChain;
use crate::chain::price::PriceUnknown;
use crate::chain::provider::{ConnectError, ProviderError};
use crate::chain::token::{Candidate, TokenError};
use crate::uniswap::discovery::DiscoveryError;
use crate::uniswap::quote::QuoteError;
use crate::uniswap::routing::RouteError;

impl From<ProviderError> for ToolError {
    fn from(error: ProviderError) -> Self {
        use ProviderError as E;
        let code = match &error {
            E::Malformed { .. } | E::WrongChain { .. } | E::Decode { .. } | E::Rpc { .. } | E::TooLarge { .. } => {
                ErrorCode::ChainInconsistent
            }
            _ => ErrorCode::ChainUnreachable,
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

impl From<RouteError> for ToolError {
    fn from(error: RouteError) -> Self {
        let of_amount =
            matches!(error, RouteError::ZeroAmount | RouteError::AmountTooLarge | RouteError::AmountTooSmall { .. });
        let code = match &error {
            RouteError::NoRoute { .. } => ErrorCode::RoutingNoRoute,
            RouteError::InsufficientLiquidity { .. } => ErrorCode::RoutingInsufficientLiquidity,
            RouteError::SameToken { .. }
            | RouteError::ZeroAmount
            | RouteError::AmountTooLarge
            | RouteError::AmountTooSmall { .. } => ErrorCode::ValidationFailed,
        };
        if of_amount {
            Self::new(code, format_args!("parameter `amount`: {error}")).detail("parameter", "amount")
        } else {
            Self::new(code, error)
        }
    }
}

impl From<DiscoveryError> for ToolError {
    fn from(error: DiscoveryError) -> Self {
        match error {
            DiscoveryError::Route(error) => error.into(),
            DiscoveryError::Chain(error) => error.into(),
            DiscoveryError::NotHere { .. } => Self::new(ErrorCode::ChainUnsupported, error),
            DiscoveryError::NoBlock { .. } => Self::new(ErrorCode::ChainInconsistent, error),
        }
    }
}

impl From<QuoteError> for ToolError {
    fn from(error: QuoteError) -> Self {
        match error {
            QuoteError::Discovery(error) => error.into(),
            QuoteError::Absent { .. } => Self::new(ErrorCode::SdkFallbackUnavailable, error),
            QuoteError::Refused { name, .. } => {
                Self::new(ErrorCode::RoutingQuoteRefused, &error).detail("source", name)
            }
            QuoteError::Service { name, error: ref cause } => {
                // A source that answers is there: what it finds or refuses is told as what it is.
                let code = match cause.refusal() {
                    Some(Refusal::NoRoute) => ErrorCode::RoutingNoRoute,
                    Some(Refusal::TooLittle | Refusal::Question) => ErrorCode::ValidationFailed,
                    Some(Refusal::Caller) | None => ErrorCode::SdkFallbackUnavailable,
                };
                let failed = Self::new(code, &error).detail("source", name);
                match (cause, cause.refusal()) {
                    (ServiceError::Busy { after }, _) => failed
                        .suggest("Ask again after that time; it lets itself be asked so often and no more.")
                        .detail("retry_after_seconds", after.as_secs()),
                    (_, Some(Refusal::NoRoute)) => failed.suggest(
                        "Choose another pair or amount, or leave the source out: BARDO_QUOTE_SOURCE=own quotes over \
                         the pools on chain.",
                    ),
                    (_, Some(Refusal::TooLittle)) => failed
                        .suggest("Ask for more, or leave the source out with BARDO_QUOTE_SOURCE=own.")
                        .detail("parameter", "amount"),
                    (_, Some(Refusal::Question)) => failed.suggest(
                        "Read what it says: it does not answer this question. BARDO_QUOTE_SOURCE=own quotes over the \
                         pools on chain.",
                    ),
                    (_, Some(Refusal::Caller)) => failed.suggest(
                        "Read what it says: the key it is asked with is set in BARDO_UNISWAP_API_KEY, its address in \
                         BARDO_UNISWAP_API_URL.",
                    ),
                    _ => failed.suggest(
                        "Ask again, or leave the source out: BARDO_QUOTE_SOURCE=own quotes over the pools on chain.",
                    ),
                }
            }
        }
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

impl From<AmountError> for ToolError {
    fn from(error: AmountError) -> Self {
        Self::new(ErrorCode::ValidationFailed, format_args!("parameter `amount`: {error}"))
            .detail("parameter", "amount")
    }
}

fn list(candidates: &[Candidate]) -> serde_json::Value {
    candidates
        .iter()
        .map(|candidate| serde_json::json!({"symbol": candidate.symbol, "address": candidate.address}))
        .collect()
}
