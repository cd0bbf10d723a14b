//! What becomes of a signed transaction: the states, what can happen, and the one table of both.
//!
//! Not here: how it is found out (see `watch`) and where it is kept (see `record`).

use std::fmt;

/// What is known of one signed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxState {
    /// Its bytes are on disk, and no endpoint has them as far as is known.
    Stored,
    /// An endpoint took it.
    Sent,
    /// It may have left, and nothing says what became of it.
    Unclear,
    /// In a block, and it did what it was to do.
    Included,
    /// In a block, and it reverted: nonce and gas are spent.
    Reverted,
    /// Another of ours with the same nonce was signed in its place. The chain may still take this one.
    Replaced,
    /// It will not happen: refused for good, or its nonce went to another transaction.
    Dropped,
}

/// What can happen to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxEvent {
    /// An endpoint took it, or has it already.
    Accepted,
    /// It was sent and the answer was lost, or said nothing.
    Lost,
    /// An endpoint refused it for a reason that no other endpoint and no time will change.
    Refused,
    /// A receipt with success.
    Mined,
    /// A receipt with failure.
    Failed,
    /// Another of ours with its nonce was stored.
    Outbid,
    /// Its nonce is spent, deep enough, and not by a transaction of ours.
    NonceTaken,
    /// The block it was in has left the chain.
    Unmined,
}

impl TxState {
    /// Every state.
    pub const ALL: [Self; 7] =
        [Self::Stored, Self::Sent, Self::Unclear, Self::Included, Self::Reverted, Self::Replaced, Self::Dropped];

    /// The written form, in the database and for a person.
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

    /// The state written so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether a block has it.
    pub const fn is_mined(self) -> bool {
        matches!(self, Self::Included | Self::Reverted)
    }

    /// Whether sending its bytes is of any use.
    pub const fn may_be_sent(self) -> bool {
        matches!(self, Self::Stored | Self::Sent | Self::Unclear)
    }

    /// The state after `event`, or `None` where that event cannot happen to it.
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
    /// Every event.
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

/// All that can happen. What is not here cannot, and is an error where it is claimed.
///
/// Two rules shape it. A receipt is stronger than anything: every state gives way to one. And bytes that may once
/// have left are never given up on an endpoint's word: only a first refusal of bytes nobody had ends in `Dropped`.
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
