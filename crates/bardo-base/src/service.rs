//! How a service that others run can fail us, whichever service it is.

use std::time::Duration;

use super::text::SafeText;

/// Why a service did not do what was asked of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// It understood and refused: it has taken nothing.
    #[error("the service refused: {0}")]
    Refused(SafeText),
    /// It was not reached: it has taken nothing.
    #[error("the service cannot be reached: {0}")]
    Unreachable(SafeText),
    /// It asks to be left alone for a while: it has taken nothing.
    #[error("the service asks to wait {} s", after.as_secs())]
    Busy {
        /// How long.
        after: Duration,
    },
    /// It may have taken what was handed in, or not.
    #[error("the service's response is unclear: {0}")]
    Unclear(SafeText),
    /// What it says is not what such a service says.
    #[error("the service returned an invalid response: {0}")]
    Nonsense(SafeText),
}

/// What a service that quotes has refused, read from its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It has looked, and finds no way to trade these.
    NoRoute,
    /// The amount is below what it quotes.
    TooLittle,
    /// The question is one that it does not answer.
    Question,
    /// It is not to be used so: a key that it does not know, or nothing of its kind at this address.
    Caller,
}

impl ServiceError {
    /// A refusal as HTTP gives it: the status, then the service's own code and sentence.
    pub fn refused(status: u16, code: &str, detail: &str, max_chars: usize) -> Self {
        Self::Refused(SafeText::clean(format!("{status} {code} {detail}").trim(), max_chars))
    }

    /// What was refused; nothing where this is no refusal.
    pub fn refusal(&self) -> Option<Refusal> {
        let Self::Refused(said) = self else { return None };
        let mut words = said.as_str().split(' ');
        let (first, code) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        Some(match (first, code) {
            ("404", "ResourceNotFound") | ("NO_ROUTE", _) => Refusal::NoRoute,
            (_, "QuoteAmountTooLowError") => Refusal::TooLittle,
            // Without a code of its own a 404 is of a server that knows nothing of quotes.
            ("404", "TokenBalanceNotAvailable" | "InsufficientBalance") | ("400" | "422", _) => Refusal::Question,
            _ => Refusal::Caller,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes as the Trading API's document lists them for 400, 401, 404 and 422; the last two are the sidecar's.
    #[test]
    fn what_was_refused_is_read_from_the_services_own_code() {
        let of = |status, code| ServiceError::refused(status, code, "some words", 300).refusal();
        assert_eq!(of(404, "ResourceNotFound"), Some(Refusal::NoRoute));
        assert_eq!(of(404, "QuoteAmountTooLowError"), Some(Refusal::TooLittle));
        assert_eq!(of(404, "TokenBalanceNotAvailable"), Some(Refusal::Question));
        assert_eq!(of(404, "InsufficientBalance"), Some(Refusal::Question));
        assert_eq!(of(400, "RequestValidationError"), Some(Refusal::Question));
        assert_eq!(of(422, "UnprocessableEntity"), Some(Refusal::Question));
        assert_eq!(of(401, "UnauthorizedError"), Some(Refusal::Caller));
        assert_eq!(of(403, ""), Some(Refusal::Caller));
        assert_eq!(of(404, ""), Some(Refusal::Caller));
        let sidecar = |text| ServiceError::Refused(SafeText::clean(text, 300)).refusal();
        assert_eq!(sidecar("NO_ROUTE the router finds no route for this amount"), Some(Refusal::NoRoute));
        assert_eq!(sidecar("CHAIN_UNKNOWN no endpoint was given"), Some(Refusal::Caller));
        assert_eq!(ServiceError::Unreachable(SafeText::clean("404 ResourceNotFound", 30)).refusal(), None);
    }
}
