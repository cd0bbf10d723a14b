//! Classes of send failures, with one treatment each.

use super::state::SendEvent;
use crate::provider::ProviderError;

/// Class of a send failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendFault {
    /// The endpoint already has the transaction.
    AlreadyKnown,
    /// The account's nonce is past it: this transaction or another one is in a block.
    NonceTooLow,
    /// The endpoint lacks a transaction with an earlier nonce.
    NonceTooHigh,
    /// The fees are below the minimum of the endpoint or the next block.
    Underpriced,
    /// A transaction with the same nonce is waiting, and the fees do not exceed it by enough.
    ReplacementUnderpriced,
    /// The account's balance does not cover value and maximum fee.
    InsufficientFunds,
    /// The transaction is invalid for any node: too little gas, too large, wrong type, wrong signature.
    Invalid,
    /// The endpoint executed it first and it reverted.
    Reverted,
    /// The endpoint accepts nothing at the moment.
    Busy,
    /// The endpoint was not reached, so nothing was sent.
    NotReached,
    /// The endpoint belongs to another chain and did not get the transaction.
    WrongChain,
    /// The transaction may have arrived, but the answer was lost or is inconclusive.
    OutcomeUnknown,
    /// A refusal with an unknown message.
    Unrecognised,
}

/// Treatment of a send failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultTreatment {
    /// Wait for the receipt.
    WaitForReceipt,
    /// Determine the outcome from receipt and nonce. Until then, nothing else is signed for this nonce.
    AskTheChain,
    /// Send the same bytes again later.
    SendAgain,
    /// Sign the same action again with the same nonce and higher fees.
    Outbid,
    /// Drop the transaction; the next one uses its nonce.
    DropAndReleaseNonce,
}

impl SendFault {
    /// All classes of send failures.
    pub const ALL: [Self; 13] = [
        Self::AlreadyKnown,
        Self::NonceTooLow,
        Self::NonceTooHigh,
        Self::Underpriced,
        Self::ReplacementUnderpriced,
        Self::InsufficientFunds,
        Self::Invalid,
        Self::Reverted,
        Self::Busy,
        Self::NotReached,
        Self::WrongChain,
        Self::OutcomeUnknown,
        Self::Unrecognised,
    ];

    /// Treatment of the class, and the event it implies for the transaction.
    pub const fn treatment(self) -> (FaultTreatment, Option<SendEvent>) {
        match self {
            Self::AlreadyKnown => (FaultTreatment::WaitForReceipt, Some(SendEvent::Accepted)),
            Self::NonceTooLow => (FaultTreatment::AskTheChain, Some(SendEvent::Lost)),
            Self::NonceTooHigh => (FaultTreatment::SendAgain, None),
            Self::Underpriced => (FaultTreatment::Outbid, None),
            Self::ReplacementUnderpriced => (FaultTreatment::Outbid, None),
            Self::InsufficientFunds => (FaultTreatment::DropAndReleaseNonce, Some(SendEvent::Refused)),
            Self::Invalid => (FaultTreatment::DropAndReleaseNonce, Some(SendEvent::Refused)),
            Self::Reverted => (FaultTreatment::DropAndReleaseNonce, Some(SendEvent::Refused)),
            Self::Busy => (FaultTreatment::SendAgain, None),
            Self::NotReached => (FaultTreatment::SendAgain, None),
            Self::WrongChain => (FaultTreatment::SendAgain, None),
            Self::OutcomeUnknown => (FaultTreatment::AskTheChain, Some(SendEvent::Lost)),
            Self::Unrecognised => (FaultTreatment::AskTheChain, Some(SendEvent::Lost)),
        }
    }

    /// Classifies an error of the provider stack.
    pub fn of(error: &ProviderError) -> Self {
        match error {
            ProviderError::WrongChain { .. } => Self::WrongChain,
            // Comes first, since it wraps causes that say less on their own.
            ProviderError::OutcomeUnknown { .. } => Self::OutcomeUnknown,
            ProviderError::Rpc { message, code, .. } => Self::of_message(message.as_str(), *code),
            error if error.nothing_sent() => Self::NotReached,
            ProviderError::AllFailed { failures, .. } => {
                // For each endpoint, nothing was sent or a rate limit applied.
                let harmless = |failure: &ProviderError| {
                    failure.nothing_sent() || matches!(failure, ProviderError::RateLimited { .. })
                };
                if failures.iter().all(harmless) { Self::Busy } else { Self::OutcomeUnknown }
            }
            // `nothing_sent` is true for the first four, so they were handled above.
            ProviderError::NoEndpoint { .. }
            | ProviderError::BadUrl { .. }
            | ProviderError::Unreachable { .. }
            | ProviderError::Local { .. }
            | ProviderError::Disagreement { .. }
            | ProviderError::TimedOut { .. }
            | ProviderError::Interrupted { .. }
            | ProviderError::TooLarge { .. }
            | ProviderError::Malformed { .. }
            | ProviderError::Http { .. }
            | ProviderError::RateLimited { .. }
            | ProviderError::Decode { .. } => Self::OutcomeUnknown,
        }
    }

    /// Classifies a node's refusal by the messages of go-ethereum, Nethermind, Erigon, Besu, reth and anvil, which have
    /// no codes for it. Unknown messages become [`SendFault::Unrecognised`], the safe choice.
    fn of_message(message: &str, code: i64) -> Self {
        let message = message.to_ascii_lowercase();
        WORDS
            .iter()
            .find(|(words, _)| message.contains(words))
            .map(|(_, class)| *class)
            // 3 is the nodes' code for a reverted execution.
            .unwrap_or(if code == 3 { Self::Reverted } else { Self::Unrecognised })
    }
}

/// Phrases of refusals, in lower case; more specific ones come first.
const WORDS: &[(&str, SendFault)] = &[
    ("already known", SendFault::AlreadyKnown),
    ("alreadyknown", SendFault::AlreadyKnown),
    ("already imported", SendFault::AlreadyKnown),
    ("known transaction", SendFault::AlreadyKnown),
    ("already exists", SendFault::AlreadyKnown),
    ("already in mempool", SendFault::AlreadyKnown),
    ("nonce too low", SendFault::NonceTooLow),
    ("nonce is too low", SendFault::NonceTooLow),
    ("oldnonce", SendFault::NonceTooLow),
    ("nonce too high", SendFault::NonceTooHigh),
    ("nonce gap", SendFault::NonceTooHigh),
    ("noncegap", SendFault::NonceTooHigh),
    ("exceeds next nonce", SendFault::NonceTooHigh),
    ("too distant", SendFault::NonceTooHigh),
    ("replacement transaction underpriced", SendFault::ReplacementUnderpriced),
    ("replacement fee too low", SendFault::ReplacementUnderpriced),
    ("could not replace existing", SendFault::ReplacementUnderpriced),
    ("replacementnotallowed", SendFault::ReplacementUnderpriced),
    ("underpriced", SendFault::Underpriced),
    ("less than block base fee", SendFault::Underpriced),
    ("fee cap less than", SendFault::Underpriced),
    ("max fee per gas less than", SendFault::Underpriced),
    ("gas price below", SendFault::Underpriced),
    ("gas price too low", SendFault::Underpriced),
    ("feetoolow", SendFault::Underpriced),
    ("tip needed", SendFault::Underpriced),
    ("insufficient funds", SendFault::InsufficientFunds),
    ("insufficientfunds", SendFault::InsufficientFunds),
    ("upfront cost exceeds", SendFault::InsufficientFunds),
    ("overshot", SendFault::InsufficientFunds),
    ("execution reverted", SendFault::Reverted),
    ("intrinsic gas", SendFault::Invalid),
    ("floor data gas", SendFault::Invalid),
    ("exceeds block gas limit", SendFault::Invalid),
    ("gas limit too high", SendFault::Invalid),
    ("gaslimitexceeded", SendFault::Invalid),
    ("oversized data", SendFault::Invalid),
    ("initcode size", SendFault::Invalid),
    ("type not supported", SendFault::Invalid),
    ("invalid sender", SendFault::Invalid),
    ("invalid signature", SendFault::Invalid),
    ("invalid chain id", SendFault::Invalid),
    ("priority fee per gas higher than", SendFault::Invalid),
    ("sender not an eoa", SendFault::Invalid),
    ("failed to decode", SendFault::Invalid),
    ("rlp:", SendFault::Invalid),
    ("txpool is full", SendFault::Busy),
    ("pool is full", SendFault::Busy),
    ("pool full", SendFault::Busy),
    ("rate limit", SendFault::Busy),
    ("too many requests", SendFault::Busy),
    ("limit exceeded", SendFault::Busy),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devnet::error::SubmitError;
    use bardo_base::text::SafeText;

    fn refusal(message: &str) -> SendFault {
        SendFault::of(&ProviderError::Rpc { code: -32000, message: SafeText::clean(message, 300), data: None })
    }

    #[test]
    fn messages_of_nodes_are_classified() {
        // go-ethereum core/txpool/errors.go and core/error.go; reth and Nethermind in their own words.
        for (words, class) in [
            ("already known", SendFault::AlreadyKnown),
            ("AlreadyKnown", SendFault::AlreadyKnown),
            ("nonce too low: next nonce 5, tx nonce 4", SendFault::NonceTooLow),
            ("nonce too high", SendFault::NonceTooHigh),
            ("replacement transaction underpriced", SendFault::ReplacementUnderpriced),
            ("transaction underpriced: gas tip cap 1, minimum needed 1000000", SendFault::Underpriced),
            (
                "max fee per gas less than block base fee: address 0x1, maxFeePerGas: 1, baseFee: 7",
                SendFault::Underpriced,
            ),
            ("insufficient funds for gas * price + value: balance 0, tx cost 21000", SendFault::InsufficientFunds),
            ("intrinsic gas too low: gas 100, minimum needed 21000", SendFault::Invalid),
            ("execution reverted: TRANSFER_FAILED", SendFault::Reverted),
            ("txpool is full", SendFault::Busy),
            ("the moon is in the wrong place", SendFault::Unrecognised),
        ] {
            assert_eq!(refusal(words), class, "{words}");
        }
    }

    #[test]
    fn rejections_of_the_devnet_are_classified() {
        let account = Default::default();
        for (error, class) in [
            (SubmitError::AlreadyKnown, SendFault::AlreadyKnown),
            (SubmitError::NonceTooLow { next: 1, nonce: 0 }, SendFault::NonceTooLow),
            (SubmitError::ReplacementUnderpriced, SendFault::ReplacementUnderpriced),
            (SubmitError::FeeCapTooLow { fee_cap: 1, base_fee: 2 }, SendFault::Underpriced),
            (SubmitError::TipAboveFeeCap { tip: 2, fee_cap: 1 }, SendFault::Invalid),
            (SubmitError::IntrinsicGasTooLow { gas: 1, minimum: 2 }, SendFault::Invalid),
            (SubmitError::ExceedsBlockGasLimit { gas: 2, limit: 1 }, SendFault::Invalid),
            (SubmitError::PoolFull(1), SendFault::Busy),
            (
                SubmitError::InsufficientFunds { address: account, have: Default::default(), want: Default::default() },
                SendFault::InsufficientFunds,
            ),
        ] {
            assert_eq!(refusal(&error.to_string()), class, "{error}");
        }
    }

    #[test]
    fn a_lost_answer_and_unknown_words_never_free_a_nonce() {
        let lost = ProviderError::OutcomeUnknown {
            method: SafeText::clean("eth_sendRawTransaction", 60),
            cause: Box::new(ProviderError::Rpc {
                code: -32603,
                message: SafeText::clean("insufficient funds", 60),
                data: None,
            }),
        };
        for class in [SendFault::of(&lost), SendFault::Unrecognised, SendFault::NonceTooLow] {
            assert_eq!(class.treatment().0, FaultTreatment::AskTheChain);
        }
        // Only a definite refusal may release a nonce.
        for class in SendFault::ALL {
            let (treatment, event) = class.treatment();
            assert_eq!(
                treatment == FaultTreatment::DropAndReleaseNonce,
                event == Some(SendEvent::Refused),
                "{class:?}"
            );
        }
    }

    #[test]
    fn a_send_that_reached_no_endpoint_is_repeated() {
        let endpoint = SafeText::clean("http://127.0.0.1:1", 60);
        let unreachable = ProviderError::Unreachable { endpoint: endpoint.clone(), reason: endpoint.clone() };
        let limited = ProviderError::RateLimited { endpoint: endpoint.clone(), retry_after: None };
        let broken = ProviderError::Interrupted { endpoint: endpoint.clone(), reason: endpoint };
        let all = |failures| ProviderError::AllFailed { chain_id: 1, failures };
        assert_eq!(SendFault::of(&unreachable), SendFault::NotReached);
        assert_eq!(SendFault::of(&all(vec![unreachable.clone(), limited.clone()])), SendFault::Busy);
        assert_eq!(SendFault::of(&all(vec![unreachable, broken.clone()])), SendFault::OutcomeUnknown);
        assert_eq!(SendFault::of(&broken), SendFault::OutcomeUnknown);
    }
}
