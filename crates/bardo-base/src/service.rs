//! Errors of external services, whichever service it is.

use std::time::Duration;

use super::text::SafeText;

/// Error of a request to an external service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The service rejected the request; it took no action.
    #[error("the service refused: {0}")]
    Refused(SafeText),
    /// The service was not reached; it took no action.
    #[error("the service cannot be reached: {0}")]
    Unreachable(SafeText),
    /// The service asks the caller to wait; it took no action.
    #[error("the service asks to wait {} s", after.as_secs())]
    Busy {
        /// Time to wait before the next request.
        after: Duration,
    },
    /// The request may or may not have been accepted.
    #[error("the service's response is unclear: {0}")]
    Unclear(SafeText),
    /// The answer does not have the expected form.
    #[error("the service returned an invalid response: {0}")]
    InvalidResponse(SafeText),
}

/// Rejection of a quote service, from its error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceRefusal {
    /// The service searched and found no route between these tokens.
    NoRoute,
    /// The amount is below the service's minimum.
    TooLittle,
    /// The service does not answer this request.
    Question,
    /// The caller is wrong: an unknown API key, or no quote service at this address.
    Caller,
}

impl ServiceError {
    /// Rejection in HTTP form: status, then the service's code and message.
    pub fn refused(status: u16, code: &str, detail: &str, max_chars: usize) -> Self {
        Self::Refused(SafeText::clean(format!("{status} {code} {detail}").trim(), max_chars))
    }

    /// Kind of the rejection; `None` for other errors.
    pub fn refusal(&self) -> Option<ServiceRefusal> {
        let Self::Refused(said) = self else { return None };
        let mut words = said.as_str().split(' ');
        let (first, code) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        Some(match (first, code) {
            ("404", "ResourceNotFound") | ("NO_ROUTE", _) => ServiceRefusal::NoRoute,
            (_, "QuoteAmountTooLowError") => ServiceRefusal::TooLittle,
            // A 404 without a known code comes from a server that is not a quote service.
            ("404", "TokenBalanceNotAvailable" | "InsufficientBalance") | ("400" | "422", _) => {
                ServiceRefusal::Question
            }
            _ => ServiceRefusal::Caller,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes that the Trading API's documentation lists for 400, 401, 404 and 422; the last two are the sidecar's.
    #[test]
    fn a_refusal_is_classified_by_the_services_own_code() {
        let of = |status, code| ServiceError::refused(status, code, "some words", 300).refusal();
        assert_eq!(of(404, "ResourceNotFound"), Some(ServiceRefusal::NoRoute));
        assert_eq!(of(404, "QuoteAmountTooLowError"), Some(ServiceRefusal::TooLittle));
        assert_eq!(of(404, "TokenBalanceNotAvailable"), Some(ServiceRefusal::Question));
        assert_eq!(of(404, "InsufficientBalance"), Some(ServiceRefusal::Question));
        assert_eq!(of(400, "RequestValidationError"), Some(ServiceRefusal::Question));
        assert_eq!(of(422, "UnprocessableEntity"), Some(ServiceRefusal::Question));
        assert_eq!(of(401, "UnauthorizedError"), Some(ServiceRefusal::Caller));
        assert_eq!(of(403, ""), Some(ServiceRefusal::Caller));
        assert_eq!(of(404, ""), Some(ServiceRefusal::Caller));
        let sidecar = |text| ServiceError::Refused(SafeText::clean(text, 300)).refusal();
        assert_eq!(sidecar("NO_ROUTE the router finds no route for this amount"), Some(ServiceRefusal::NoRoute));
        assert_eq!(sidecar("CHAIN_UNKNOWN no endpoint was given"), Some(ServiceRefusal::Caller));
        assert_eq!(ServiceError::Unreachable(SafeText::clean("404 ResourceNotFound", 30)).refusal(), None);
    }
}
