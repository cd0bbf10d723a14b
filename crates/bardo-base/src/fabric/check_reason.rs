//! Reasons for which a check asks the operator although nothing blocks the action, as values with their figures.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::display::rule_word;
use crate::error::Violation;
use crate::model::Rule;
use crate::text::SafeText;

/// A check's reason for asking the operator. JSON has its fields beside `found`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum CheckReason {
    /// A transfer, which cannot be undone, under a policy without a threshold for the tool.
    Transfer,
    /// An exit exceeds a limit of the policy. It is not refused, since a position must be sellable.
    ExitAboveLimit {
        /// Rule of the policy that is exceeded.
        rule: Rule,
        /// Limit of the rule, in words, without the current value: it changes while the operator reads.
        limit: SafeText,
    },
    /// A revocation of the operator's costs more gas than a rule permits.
    RevocationGas {
        /// Rule of the policy that is exceeded.
        rule: Rule,
        /// Limit of the rule, in words.
        limit: SafeText,
    },
    /// The operator's revocations, cancellations and refunds of the last 60 minutes reach the policy's limit. Without their
    /// number: it may grow while the operator reads.
    ManyRevocations,
    /// An exit is outside the active hours by one of two clocks that differ: the machine's and the chain's.
    OutsideHours {
        /// Active hours of the policy, in words.
        hours: SafeText,
    },
    /// An exit above the hot lane lacks the safety-guardian's agreement.
    GuardianDisagrees {
        /// Explanation of the guardian.
        why: SafeText,
    },
    /// An exit sells tokens far below the 30-minute average of other pools.
    SellsBelowAverage {
        /// Symbols of the sold tokens, each once.
        sold: Vec<SafeText>,
        /// Distance from which on the operator is asked, in percent.
        percent: u32,
    },
    /// The feed of the sold tokens and the pools of the trade agree, but several other pools show a higher value.
    FeedContested {
        /// Symbols of the sold tokens, each once.
        sold: Vec<SafeText>,
    },
    /// A withdrawal from a vault that `allowed_vaults` does not name.
    VaultUnlisted,
    /// A change of a vault of the account's own that `allowed_vaults` does not name.
    ManagedVaultUnlisted,
    /// The share price of a vault rose by more than 1 % within the last 100 blocks.
    SharePriceRose,
    /// A vault pays less for its shares than they are worth by its price, now or 100 blocks ago.
    PaysBelowSharePrice,
    /// A vault that is not known to have taken requests 100 blocks ago gets shares for a price that its manager sets later.
    NewlyAsynchronous,
    /// Nothing bounds what a vault will pay for the shares of a request.
    RequestUnbounded,
    /// The share price of a vault, at which a request would be settled, fell within the last 100 blocks.
    SharePriceFell,
    /// A valuation below the vault's last one.
    ValuedLow,
    /// A valuation of more than 1 % above the vault's last one, or higher than the lending market's interest explains.
    ValuedHigh,
    /// Nothing but the vault itself says that the account is its Safe: no factory vouches for its code.
    OnlyClaimed,
    /// The hook of a pool takes part in what happens there; simulations found no harm.
    HookTakesPart,
    /// The simulations did not show what the hook of a pool does.
    HookUnknown {
        /// Findings that they left open, in words; empty if none is known.
        open: Vec<SafeText>,
    },
    /// The hook of a pool could not be evaluated.
    HookNotEvaluated {
        /// Error of the evaluation.
        why: SafeText,
    },
}

impl CheckReason {
    /// An exit that exceeds the rule of `violation`.
    pub fn exit_above(violation: &Violation) -> Self {
        Self::ExitAboveLimit { rule: violation.rule.clone(), limit: violation.limit.clone() }
    }

    /// Returns true if an operator who approved with `self` on the screen has seen what `now` says. The guardian need not
    /// object in the same words to the same action, and a hook may leave less open than before.
    pub fn covers(&self, now: &Self) -> bool {
        match (self, now) {
            (Self::GuardianDisagrees { .. }, Self::GuardianDisagrees { .. }) => true,
            (Self::HookUnknown { open: shown }, Self::HookUnknown { open: now }) => {
                now.iter().all(|finding| shown.contains(finding))
            }
            (shown, now) => shown == now,
        }
    }
}

/// Joins symbols by "and"; without any, a phrase for what is sold.
fn sold_words(sold: &[SafeText]) -> String {
    let symbols: Vec<&str> = sold.iter().map(SafeText::as_str).collect();
    if symbols.is_empty() { "what it sells".to_owned() } else { symbols.join(" and ") }
}

/// English sentence, as in the audit log and in responses.
impl fmt::Display for CheckReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transfer => f.write_str("every transfer needs your approval under this policy"),
            Self::ExitAboveLimit { rule, limit } => write!(f, "this exit exceeds {}: {limit}", rule_word(rule)),
            Self::RevocationGas { rule, limit } => write!(f, "this exceeds {}: {limit}", rule_word(rule)),
            Self::ManyRevocations => f.write_str(
                "the revocations, cancellations and refunds of the last 60 minutes reach the policy's limit; each costs gas",
            ),
            Self::OutsideHours { hours } => {
                write!(f, "this exit is outside {hours} by one of two clocks that differ")
            }
            Self::GuardianDisagrees { why } => {
                write!(f, "this exit lacks the safety-guardian's agreement: {why}")
            }
            Self::SellsBelowAverage { sold, percent } => write!(
                f,
                "it sells {} at a price more than {percent} % below the 30-minute average of other pools",
                sold_words(sold)
            ),
            Self::FeedContested { sold } => write!(
                f,
                "the feed of {} and the pools of this trade agree, but several other pools show a higher value",
                sold_words(sold)
            ),
            Self::VaultUnlisted => f.write_str("it withdraws from a vault that is not in allowed_vaults"),
            Self::ManagedVaultUnlisted => f.write_str("it manages a vault that is not in allowed_vaults"),
            Self::SharePriceRose => {
                f.write_str("the vault's share price rose by more than 1 % within the last 100 blocks")
            }
            Self::PaysBelowSharePrice => f.write_str(
                "it pays less for the shares than they are worth by the vault's price, now or 100 blocks ago",
            ),
            Self::NewlyAsynchronous => f.write_str(
                "the vault is not known to have taken requests to withdraw 100 blocks ago, and sets the price of this \
                 one later",
            ),
            Self::RequestUnbounded => f.write_str(
                "nothing bounds what the vault will pay for the shares: its manager, or its price now or 100 blocks \
                 ago, is not known",
            ),
            Self::SharePriceFell => f.write_str(
                "the vault's share price fell within the last 100 blocks, and the request is settled at its price",
            ),
            Self::ValuedLow => f.write_str("it values the vault below its last valuation"),
            Self::ValuedHigh => f.write_str(
                "it values the vault at more than 1 % above its last valuation, or higher than the lending market's \
                 interest explains",
            ),
            Self::OnlyClaimed => f.write_str("nothing but the vault itself says that the account is its Safe"),
            Self::HookTakesPart => {
                f.write_str("the pool's hook takes part in what happens there; simulations found no harm")
            }
            Self::HookUnknown { open } => {
                let open = open.iter().map(SafeText::as_str).collect::<Vec<_>>().join("; ");
                write!(f, "the effect of the pool's hook is not known: {open}")
            }
            Self::HookNotEvaluated { why } => write!(f, "the pool's hook could not be evaluated: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &str) -> SafeText {
        SafeText::clean(words, 100)
    }

    #[test]
    fn what_was_shown_covers_itself_other_words_of_the_guardian_and_fewer_open_questions() {
        let disagrees = |why: &str| CheckReason::GuardianDisagrees { why: text(why) };
        assert!(disagrees("too large").covers(&disagrees("it is too large")));
        let open = |all: &[&str]| CheckReason::HookUnknown { open: all.iter().map(|one| text(one)).collect() };
        assert!(open(&["a fee", "a swap"]).covers(&open(&["a swap"])) && !open(&["a fee"]).covers(&open(&["a swap"])));
        let above = |limit: &str| CheckReason::ExitAboveLimit { rule: Rule::read("max_loss_bps"), limit: text(limit) };
        assert!(above("$5").covers(&above("$5")) && !above("$5").covers(&above("$4")));
        assert!(!CheckReason::VaultUnlisted.covers(&CheckReason::ManagedVaultUnlisted));
        assert!(!disagrees("no").covers(&CheckReason::Transfer));
    }
}
