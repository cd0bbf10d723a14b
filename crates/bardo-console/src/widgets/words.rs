//! Display texts of states, with their roles. Texts without a role are those of [`bardo_base::display`].

use crate::theme::Role;
use bardo_base::fabric::{ApprovalOutcome, TxState};

pub use bardo_base::display::{
    check_word, counted, failure_words, figure_of, finding_words, found, grouped_cents, offer_words, policy_lines,
    policy_value, policy_word, reason, reason_in, reasons, rule_word,
};

/// Text and role for the resolution of an approval request.
pub const fn outcome_words(outcome: ApprovalOutcome) -> (&'static str, Role) {
    match outcome {
        ApprovalOutcome::Approved => ("✓ approved", Role::StateGood),
        ApprovalOutcome::ApprovedSimilar => ("✓ approved, and similar", Role::StateGood),
        ApprovalOutcome::Edited => ("smaller amount", Role::Text),
        ApprovalOutcome::Refused => ("✕ rejected", Role::StateBad),
        ApprovalOutcome::RefusedAndHalted => ("✕ rejected, all stopped", Role::StateBad),
        ApprovalOutcome::Lapsed => ("○ nobody answered", Role::StateCare),
        ApprovalOutcome::Withdrawn => ("○ withdrawn", Role::TextDim),
    }
}

/// Display text for the state of a transaction.
pub const fn transaction_words(state: TxState) -> &'static str {
    match state {
        TxState::Signed => "signed",
        TxState::Sent => "sent, not confirmed",
        TxState::Confirmed => "confirmed ✓",
        TxState::Reverted => "reverted ✕",
        TxState::Dropped => "never included ✕",
        TxState::Unclear => "outcome unknown ?",
    }
}
