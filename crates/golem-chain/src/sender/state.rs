//! States of a signed transaction, events, and the transition table.
//!
//! Not here: detection of events (see `watch`) and storage (see `record`).

use std::fmt;

/// Known state of a signed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendState {
    /// Stored on disk, and not at any endpoint as far as is known.
    Stored,
    /// Accepted by an endpoint.
    Sent,
    /// May have been sent, with unknown outcome.
    Unclear,
    /// Included in a block with success.
    Included,
    /// Included in a block and reverted: nonce and gas are spent.
    Reverted,
    /// Superseded by a replacement of ours with the same nonce. The chain may still include this one.
    Replaced,
    /// Will not be included: refused for good, or its nonce was used by another transaction.
    Dropped,
}

/// Event in the life of a signed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendEvent {
    /// An endpoint accepted it, or already has it.
    Accepted,
    /// It was sent, and the answer was lost or inconclusive.
    Lost,
    /// An endpoint refused it for a permanent reason that applies to all endpoints.
    Refused,
    /// It has a receipt with success.
    Mined,
    /// It has a receipt with failure.
    Failed,
    /// A replacement of ours with the same nonce was sent or included.
    Outbid,
    /// Its nonce was used by another transaction, with enough confirmations.
    NonceTaken,
    /// The block that contained it is no longer part of the chain.
    Unmined,
}

impl SendState {
    /// All states of a transaction.
    pub const ALL: [Self; 7] =
        [Self::Stored, Self::Sent, Self::Unclear, Self::Included, Self::Reverted, Self::Replaced, Self::Dropped];

    /// Name of the state, in the database and for display.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Sent => "sent",
            Self::Unclear => "unclear",
            Self::Included => "included",
            Self::Reverted => "reverted",
            Self::Replaced => "replaced",
            Self::Dropped => "dropped",
        }
    }

    /// Parses the name of a state.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Returns true if the transaction is in a block.
    pub const fn is_mined(self) -> bool {
        matches!(self, Self::Included | Self::Reverted)
    }

    /// Returns true if sending its bytes can be of use.
    pub const fn may_be_sent(self) -> bool {
        matches!(self, Self::Stored | Self::Sent | Self::Unclear)
    }

    /// Returns the state after `event`; `None` if the event is not possible in this state.
    pub fn after(self, event: SendEvent) -> Option<Self> {
        TABLE.iter().find(|(state, happened, _)| *state == self && *happened == event).map(|(_, _, next)| *next)
    }
}

impl fmt::Display for SendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl SendEvent {
    /// All events of a transaction.
    pub const ALL: [Self; 8] = [
        Self::Accepted,
        Self::Lost,
        Self::Refused,
        Self::Mined,
        Self::Failed,
        Self::Outbid,
        Self::NonceTaken,
        Self::Unmined,
    ];
}

/// The transition table. Missing combinations are impossible and are errors.
///
/// Two rules determine it. A receipt overrides every state. Bytes that may have been sent are never dropped because of
/// an endpoint's refusal: only the first refusal of bytes that no endpoint had leads to `Dropped`.
#[rustfmt::skip]
pub const TABLE: &[(SendState, SendEvent, SendState)] = &[
    (SendState::Stored,   SendEvent::Accepted,   SendState::Sent),
    (SendState::Stored,   SendEvent::Lost,       SendState::Unclear),
    (SendState::Stored,   SendEvent::Refused,    SendState::Dropped),
    (SendState::Stored,   SendEvent::Mined,      SendState::Included),
    (SendState::Stored,   SendEvent::Failed,     SendState::Reverted),
    (SendState::Stored,   SendEvent::Outbid,     SendState::Replaced),
    (SendState::Stored,   SendEvent::NonceTaken, SendState::Dropped),

    (SendState::Sent,     SendEvent::Accepted,   SendState::Sent),
    (SendState::Sent,     SendEvent::Lost,       SendState::Sent),
    (SendState::Sent,     SendEvent::Refused,    SendState::Unclear),
    (SendState::Sent,     SendEvent::Mined,      SendState::Included),
    (SendState::Sent,     SendEvent::Failed,     SendState::Reverted),
    (SendState::Sent,     SendEvent::Outbid,     SendState::Replaced),
    (SendState::Sent,     SendEvent::NonceTaken, SendState::Dropped),

    (SendState::Unclear,  SendEvent::Accepted,   SendState::Sent),
    (SendState::Unclear,  SendEvent::Lost,       SendState::Unclear),
    (SendState::Unclear,  SendEvent::Refused,    SendState::Unclear),
    (SendState::Unclear,  SendEvent::Mined,      SendState::Included),
    (SendState::Unclear,  SendEvent::Failed,     SendState::Reverted),
    (SendState::Unclear,  SendEvent::Outbid,     SendState::Replaced),
    (SendState::Unclear,  SendEvent::NonceTaken, SendState::Dropped),

    (SendState::Included, SendEvent::Accepted,   SendState::Included),
    (SendState::Included, SendEvent::Lost,       SendState::Included),
    (SendState::Included, SendEvent::Refused,    SendState::Included),
    (SendState::Included, SendEvent::Mined,      SendState::Included),
    (SendState::Included, SendEvent::Failed,     SendState::Reverted),
    (SendState::Included, SendEvent::Unmined,    SendState::Sent),

    (SendState::Reverted, SendEvent::Accepted,   SendState::Reverted),
    (SendState::Reverted, SendEvent::Lost,       SendState::Reverted),
    (SendState::Reverted, SendEvent::Refused,    SendState::Reverted),
    (SendState::Reverted, SendEvent::Mined,      SendState::Included),
    (SendState::Reverted, SendEvent::Failed,     SendState::Reverted),
    (SendState::Reverted, SendEvent::Unmined,    SendState::Sent),

    (SendState::Replaced, SendEvent::Accepted,   SendState::Replaced),
    (SendState::Replaced, SendEvent::Lost,       SendState::Replaced),
    (SendState::Replaced, SendEvent::Refused,    SendState::Replaced),
    (SendState::Replaced, SendEvent::Mined,      SendState::Included),
    (SendState::Replaced, SendEvent::Failed,     SendState::Reverted),
    (SendState::Replaced, SendEvent::Outbid,     SendState::Replaced),
    (SendState::Replaced, SendEvent::NonceTaken, SendState::Dropped),

    (SendState::Dropped,  SendEvent::Accepted,   SendState::Unclear),
    (SendState::Dropped,  SendEvent::Lost,       SendState::Unclear),
    (SendState::Dropped,  SendEvent::Mined,      SendState::Included),
    (SendState::Dropped,  SendEvent::Failed,     SendState::Reverted),
    (SendState::Dropped,  SendEvent::NonceTaken, SendState::Dropped),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_table_has_one_row_per_state_and_event() {
        for (at, (state, event, _)) in TABLE.iter().enumerate() {
            let first = TABLE.iter().position(|row| row.0 == *state && row.1 == *event);
            assert_eq!(first, Some(at), "{state} {event:?} is there twice");
        }
        for state in SendState::ALL {
            assert_eq!(SendState::parse(state.as_str()), Some(state));
        }
    }

    #[test]
    fn a_receipt_decides_in_every_state() {
        for state in SendState::ALL {
            assert_eq!(state.after(SendEvent::Mined), Some(SendState::Included), "{state}");
            assert_eq!(state.after(SendEvent::Failed), Some(SendState::Reverted), "{state}");
        }
    }

    #[test]
    fn only_never_sent_transactions_are_dropped_on_a_rejection() {
        for state in SendState::ALL {
            let dropped = state.after(SendEvent::Refused) == Some(SendState::Dropped);
            assert_eq!(dropped, state == SendState::Stored, "{state}");
        }
    }

    #[test]
    fn only_mined_transactions_can_be_unmined() {
        for state in SendState::ALL {
            assert_eq!(state.after(SendEvent::Unmined).is_some(), state.is_mined(), "{state}");
        }
    }
}
