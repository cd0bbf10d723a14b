//! States of a signed transaction, events, and the transition table.
//!
//! Not here: detection of events (see `watch`) and storage (see `record`).

use std::fmt;

/// Known state of a signed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxState {
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
pub enum TxEvent {
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

impl TxState {
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
    pub fn after(self, event: TxEvent) -> Option<Self> {
        TABLE.iter().find(|(state, happened, _)| *state == self && *happened == event).map(|(_, _, next)| *next)
    }
}

impl fmt::Display for TxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl TxEvent {
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
pub const TABLE: &[(TxState, TxEvent, TxState)] = &[
    (TxState::Stored,   TxEvent::Accepted,   TxState::Sent),
    (TxState::Stored,   TxEvent::Lost,       TxState::Unclear),
    (TxState::Stored,   TxEvent::Refused,    TxState::Dropped),
    (TxState::Stored,   TxEvent::Mined,      TxState::Included),
    (TxState::Stored,   TxEvent::Failed,     TxState::Reverted),
    (TxState::Stored,   TxEvent::Outbid,     TxState::Replaced),
    (TxState::Stored,   TxEvent::NonceTaken, TxState::Dropped),

    (TxState::Sent,     TxEvent::Accepted,   TxState::Sent),
    (TxState::Sent,     TxEvent::Lost,       TxState::Sent),
    (TxState::Sent,     TxEvent::Refused,    TxState::Unclear),
    (TxState::Sent,     TxEvent::Mined,      TxState::Included),
    (TxState::Sent,     TxEvent::Failed,     TxState::Reverted),
    (TxState::Sent,     TxEvent::Outbid,     TxState::Replaced),
    (TxState::Sent,     TxEvent::NonceTaken, TxState::Dropped),

    (TxState::Unclear,  TxEvent::Accepted,   TxState::Sent),
    (TxState::Unclear,  TxEvent::Lost,       TxState::Unclear),
    (TxState::Unclear,  TxEvent::Refused,    TxState::Unclear),
    (TxState::Unclear,  TxEvent::Mined,      TxState::Included),
    (TxState::Unclear,  TxEvent::Failed,     TxState::Reverted),
    (TxState::Unclear,  TxEvent::Outbid,     TxState::Replaced),
    (TxState::Unclear,  TxEvent::NonceTaken, TxState::Dropped),

    (TxState::Included, TxEvent::Accepted,   TxState::Included),
    (TxState::Included, TxEvent::Lost,       TxState::Included),
    (TxState::Included, TxEvent::Refused,    TxState::Included),
    (TxState::Included, TxEvent::Mined,      TxState::Included),
    (TxState::Included, TxEvent::Failed,     TxState::Reverted),
    (TxState::Included, TxEvent::Unmined,    TxState::Sent),

    (TxState::Reverted, TxEvent::Accepted,   TxState::Reverted),
    (TxState::Reverted, TxEvent::Lost,       TxState::Reverted),
    (TxState::Reverted, TxEvent::Refused,    TxState::Reverted),
    (TxState::Reverted, TxEvent::Mined,      TxState::Included),
    (TxState::Reverted, TxEvent::Failed,     TxState::Reverted),
    (TxState::Reverted, TxEvent::Unmined,    TxState::Sent),

    (TxState::Replaced, TxEvent::Accepted,   TxState::Replaced),
    (TxState::Replaced, TxEvent::Lost,       TxState::Replaced),
    (TxState::Replaced, TxEvent::Refused,    TxState::Replaced),
    (TxState::Replaced, TxEvent::Mined,      TxState::Included),
    (TxState::Replaced, TxEvent::Failed,     TxState::Reverted),
    (TxState::Replaced, TxEvent::Outbid,     TxState::Replaced),
    (TxState::Replaced, TxEvent::NonceTaken, TxState::Dropped),

    (TxState::Dropped,  TxEvent::Accepted,   TxState::Unclear),
    (TxState::Dropped,  TxEvent::Lost,       TxState::Unclear),
    (TxState::Dropped,  TxEvent::Mined,      TxState::Included),
    (TxState::Dropped,  TxEvent::Failed,     TxState::Reverted),
    (TxState::Dropped,  TxEvent::NonceTaken, TxState::Dropped),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_one_answer_for_what_can_happen() {
        for (at, (state, event, _)) in TABLE.iter().enumerate() {
            let first = TABLE.iter().position(|row| row.0 == *state && row.1 == *event);
            assert_eq!(first, Some(at), "{state} {event:?} is there twice");
        }
        for state in TxState::ALL {
            assert_eq!(TxState::parse(state.as_str()), Some(state));
        }
    }

    #[test]
    fn a_receipt_is_stronger_than_anything() {
        for state in TxState::ALL {
            assert_eq!(state.after(TxEvent::Mined), Some(TxState::Included), "{state}");
            assert_eq!(state.after(TxEvent::Failed), Some(TxState::Reverted), "{state}");
        }
    }

    #[test]
    fn only_bytes_that_nobody_had_are_given_up_on_a_refusal() {
        for state in TxState::ALL {
            let given_up = state.after(TxEvent::Refused) == Some(TxState::Dropped);
            assert_eq!(given_up, state == TxState::Stored, "{state}");
        }
    }

    #[test]
    fn only_what_was_in_a_block_can_leave_one() {
        for state in TxState::ALL {
            assert_eq!(state.after(TxEvent::Unmined).is_some(), state.is_mined(), "{state}");
        }
    }
}
