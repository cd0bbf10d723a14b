//! Conversion of quote and route errors to tool errors.

use crate::uniswap::discovery::DiscoveryError;
use crate::uniswap::quote::QuoteError;
use crate::uniswap::routing::RouteError;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::service::{ServiceError, ServiceRefusal};

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
                // The source did answer, so its refusal determines the error code.
                let code = match cause.refusal() {
                    Some(ServiceRefusal::NoRoute) => ErrorCode::RoutingNoRoute,
                    Some(ServiceRefusal::TooLittle | ServiceRefusal::Question) => ErrorCode::ValidationFailed,
                    Some(ServiceRefusal::Caller) | None => ErrorCode::SdkFallbackUnavailable,
                };
                let failed = Self::new(code, &error).detail("source", name);
                match (cause, cause.refusal()) {
                    (ServiceError::Busy { after }, _) => failed
                        .suggest("Try again after that time; the source limits the request rate.")
                        .detail("retry_after_seconds", after.as_secs()),
                    (_, Some(ServiceRefusal::NoRoute)) => failed.suggest(
                        "Choose another pair or amount, or another source: BARDO_QUOTE_SOURCE=own quotes from on-chain \
                         pools.",
                    ),
                    (_, Some(ServiceRefusal::TooLittle)) => failed
                        .suggest("Increase the amount, or use another source: BARDO_QUOTE_SOURCE=own.")
                        .detail("parameter", "amount"),
                    (_, Some(ServiceRefusal::Question)) => failed.suggest(
                        "Read its message: it rejects this request. BARDO_QUOTE_SOURCE=own quotes from on-chain pools.",
                    ),
                    (_, Some(ServiceRefusal::Caller)) => failed.suggest(
                        "Read its message: its key is set in BARDO_UNISWAP_API_KEY, its URL in BARDO_UNISWAP_API_URL.",
                    ),
                    _ => failed.suggest(
                        "Try again, or use another source: BARDO_QUOTE_SOURCE=own quotes from on-chain pools.",
                    ),
                }
            }
        }
    }
}
