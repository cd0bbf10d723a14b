//! Typed reasons for which an approval is needed, with their figures. Displayed text is made from them; no later
//! decision parses that text.

use std::fmt;

use alloy::primitives::{Address, B256, U256};
use serde::{Serialize, Serializer};

use crate::ledger::MicroUsd;
use crate::value::PriceConcern;
use crate::waiting_plan::TxOrigin;
use bardo_base::fabric::{AskReason, CheckReason};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// Tolerated rise of a value since it was shown, in basis points, for price moves while the operator reads.
pub(super) const RISEN_BPS: u128 = 200;

/// Length limit of a reason as text, in characters.
const MAX_WORDS: usize = 200;

/// Reason for which an approval is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalReason {
    /// The action's value is above one of the policy's limits for actions without approval.
    Above {
        /// Value of the action, rounded up.
        value: MicroUsd,
        /// Limit, rounded down.
        limit: MicroUsd,
        /// Policy field that sets the limit.
        field: SafeText,
    },
    /// The value is above the limit up to which the safety-guardian need not be asked (hot lane).
    HotLane,
    /// The action's value is unknown.
    Untold,
    /// The action changes who holds authority.
    Authority,
    /// The action publishes something in the account's name that cannot be withdrawn.
    Publishes,
    /// The action pays an address for the first time.
    FirstPaid,
    /// The action grants an allowance to an address for the first time.
    FirstAllowed,
    /// A recipient or spender has an address that is easily mistaken for a known one.
    Resembles {
        /// Address of the recipient or spender.
        who: Address,
        /// Known address with a similar beginning and end.
        known: Address,
    },
    /// The action spends or receives a token without a price feed, or one whose only pool contradicts its feed.
    Price(PriceConcern),
    /// The action needs a second operator's approval.
    SecondApproval {
        /// Dollars above which the policy asks for it; `None` for a change of authority or an unknown value.
        limit: Option<Usd>,
    },
    /// The action takes the nonce of a waiting transaction.
    Replaces {
        /// Hash of the waiting transaction.
        transaction: B256,
        /// Nonce of both.
        nonce: u64,
        /// True for a cancellation, false for a repetition with higher fees.
        cancels: bool,
        /// Maximum cost beyond that of the waiting one, in wei.
        extra_wei: U256,
        /// The same in dollars; `None` without a price.
        extra_usd: Option<Usd>,
        /// Symbol of the chain's native token.
        symbol: SafeText,
        /// Tool and owner of the waiting transaction; `None` if the ledger does not say.
        origin: Option<TxOrigin>,
    },
    /// A check asks for the operator's decision.
    Found(CheckReason),
}

impl ApprovalReason {
    /// Makes the reason for a value above the limit of the policy field `field`.
    pub fn above(value: MicroUsd, limit: MicroUsd, field: &str) -> Self {
        Self::Above { value, limit, field: SafeText::clean(field, MAX_WORDS) }
    }

    /// Converts the reason into the form that events and screens use.
    pub fn to_ask_reason(&self) -> AskReason {
        match self {
            Self::Above { value, limit, field } => {
                AskReason::AboveLimit { value: value.dollars(), limit: limit.dollars(), field: field.clone() }
            }
            Self::HotLane => AskReason::HotLane,
            Self::Untold => AskReason::ValueUnknown,
            Self::Authority => AskReason::Authority,
            Self::Publishes => AskReason::Publishes,
            Self::FirstPaid => AskReason::FirstPaid,
            Self::FirstAllowed => AskReason::FirstAllowed,
            Self::Resembles { who, known } => AskReason::Resembles { who: *who, known: *known },
            Self::Price(PriceConcern::NoFeed { token }) => AskReason::NoFeed { token: *token },
            Self::Price(PriceConcern::Disputed { token, feed, pool }) => {
                AskReason::PriceDisputed { token: *token, feed: *feed, pool: *pool }
            }
            Self::SecondApproval { limit } => AskReason::SecondApproval { limit: *limit },
            Self::Replaces { transaction, nonce, cancels, extra_wei, extra_usd, symbol, origin } => {
                AskReason::Replaces {
                    transaction: *transaction,
                    nonce: *nonce,
                    cancels: *cancels,
                    extra_wei: *extra_wei,
                    extra_usd: *extra_usd,
                    symbol: symbol.clone(),
                    tool: origin.as_ref().and_then(|origin| origin.tool.clone()),
                    owner: origin.as_ref().map(|origin| origin.golem_id.clone()),
                }
            }
            Self::Found(found) => AskReason::Check(found.clone()),
        }
    }

    /// Returns the reason as text for the operator.
    pub fn describe(&self) -> SafeText {
        self.to_ask_reason().describe()
    }

    /// Returns whether the reason concerns this one action only, so that no approval of other actions covers it.
    pub fn is_of_this_one(&self) -> bool {
        match self {
            Self::Untold
            | Self::Publishes
            | Self::Resembles { .. }
            | Self::Price(_)
            | Self::SecondApproval { .. }
            | Self::Replaces { .. }
            | Self::Found(_) => true,
            Self::Above { .. } | Self::HotLane | Self::Authority | Self::FirstPaid | Self::FirstAllowed => false,
        }
    }

    /// Returns true if both name the same limit of the same field, whatever the value.
    pub(super) fn is_limit_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Above { limit, field, .. }, Self::Above { limit: other_limit, field: other_field, .. }) => {
                (limit, field) == (other_limit, other_field)
            }
            (
                Self::Above { .. }
                | Self::HotLane
                | Self::Untold
                | Self::Authority
                | Self::Publishes
                | Self::FirstPaid
                | Self::FirstAllowed
                | Self::Resembles { .. }
                | Self::Price(_)
                | Self::SecondApproval { .. }
                | Self::Replaces { .. }
                | Self::Found(_),
                _,
            ) => false,
        }
    }

    /// Returns true if an approval that was shown `self` also covers `now`. The same limit of the same field stays
    /// covered while the value is at most [`RISEN_BPS`] above the one that was shown: the permit binds the amounts, and
    /// only their price moves. A value too large to count is never covered.
    pub(super) fn covers(&self, now: &Self) -> bool {
        match (self, now) {
            (Self::Above { value: shown, limit, field }, Self::Above { value, limit: now_limit, field: now_field }) => {
                // Both are below 2^63, so the product fits.
                let most = u128::from(shown.get()) * (10_000 + RISEN_BPS) / 10_000;
                (limit, field) == (now_limit, now_field) && *value < MicroUsd::MAX && u128::from(value.get()) <= most
            }
            (Self::HotLane, Self::HotLane)
            | (Self::Untold, Self::Untold)
            | (Self::Authority, Self::Authority)
            | (Self::Publishes, Self::Publishes)
            | (Self::FirstPaid, Self::FirstPaid)
            | (Self::FirstAllowed, Self::FirstAllowed) => true,
            (Self::Resembles { .. }, Self::Resembles { .. }) => self == now,
            (Self::Price(PriceConcern::NoFeed { token }), Self::Price(PriceConcern::NoFeed { token: now })) => {
                token == now
            }
            // The figures move while the operator reads; the operator has seen that the two prices differ much.
            (
                Self::Price(PriceConcern::Disputed { token, .. }),
                Self::Price(PriceConcern::Disputed { token: now, .. }),
            ) => token == now,
            // The dollars move with the price; the wei are the permit's.
            (
                Self::Replaces { transaction, nonce, cancels, extra_wei, extra_usd: _, symbol: _, origin: _ },
                Self::Replaces {
                    transaction: now, nonce: now_nonce, cancels: now_cancels, extra_wei: now_extra, ..
                },
            ) => (transaction, nonce, cancels) == (now, now_nonce, now_cancels) && now_extra <= extra_wei,
            (Self::SecondApproval { limit }, Self::SecondApproval { limit: now }) => limit == now,
            (Self::Found(shown), Self::Found(now)) => shown.covers(now),
            (
                Self::Above { .. }
                | Self::HotLane
                | Self::Untold
                | Self::Authority
                | Self::Publishes
                | Self::FirstPaid
                | Self::FirstAllowed
                | Self::Resembles { .. }
                | Self::Price(_)
                | Self::SecondApproval { .. }
                | Self::Replaces { .. }
                | Self::Found(_),
                _,
            ) => false,
        }
    }
}

impl fmt::Display for ApprovalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_ask_reason().fmt(f)
    }
}

/// Serializes in the form of [`AskReason`].
impl Serialize for ApprovalReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde::Serialize::serialize(&self.to_ask_reason(), serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::ApprovalNeed;
    use bardo_base::model::RuleName;

    /// A value in millionths of a dollar above a limit in whole dollars.
    fn above(micros: u64, limit: u64, field: &str) -> ApprovalReason {
        ApprovalReason::above(MicroUsd::new(micros).unwrap(), MicroUsd::new(limit * 1_000_000).unwrap(), field)
    }

    fn asked(reasons: &[ApprovalReason]) -> ApprovalNeed {
        ApprovalNeed::Approval { reasons: reasons.to_vec() }
    }

    #[test]
    fn a_price_that_moves_while_somebody_reads_is_no_new_reason() {
        let shown = asked(&[above(1_224_056_983, 1_000, "limit"), ApprovalReason::FirstPaid]);
        for covered in
            [above(1_224_056_984, 1_000, "limit"), above(1_001_000_000, 1_000, "limit"), ApprovalReason::FirstPaid]
        {
            assert!(shown.covers(&asked(std::slice::from_ref(&covered))), "{covered}");
        }
        // 2 % of 1,224.056983 are 24.48113966: up to 1,248.538122, in whole millionths.
        assert!(shown.covers(&asked(&[above(1_248_538_122, 1_000, "limit")])));
        for new in [
            above(1_248_538_123, 1_000, "limit"),
            above(1_224_056_983, 900, "limit"),
            above(1_224_056_983, 1_000, "another"),
            ApprovalReason::HotLane,
            ApprovalReason::Untold,
            ApprovalReason::Authority,
            ApprovalReason::Found(CheckReason::ExitAboveLimit {
                rule: RuleName::MaxLossBps.into(),
                limit: SafeText::clean("$1,000.00", 200),
            }),
        ] {
            assert!(!shown.covers(&asked(std::slice::from_ref(&new))), "{new}");
            assert!(
                !shown.covers(&asked(&[ApprovalReason::FirstPaid, new.clone()])),
                "one that is known does not bring {new}"
            );
        }
    }

    #[test]
    fn an_uncountable_amount_is_never_covered() {
        let most = || ApprovalReason::above(MicroUsd::MAX, MicroUsd::new(1).unwrap(), "limit");
        assert!(!asked(&[most()]).covers(&asked(&[most()])));
        assert!(!asked(&[above(5, 1, "limit")]).covers(&asked(&[most()])));
    }

    #[test]
    fn an_address_that_looks_like_another_is_of_this_one_action_and_of_no_other() {
        let alike = |who: u8, known: u8| ApprovalReason::Resembles {
            who: Address::repeat_byte(who),
            known: Address::repeat_byte(known),
        };
        assert!(alike(1, 2).is_of_this_one() && !ApprovalReason::FirstAllowed.is_of_this_one());
        assert!(asked(&[alike(1, 2)]).covers(&asked(&[alike(1, 2)])));
        for other in [alike(1, 3), alike(3, 2), ApprovalReason::FirstPaid, ApprovalReason::FirstAllowed] {
            assert!(!asked(&[alike(1, 2)]).covers(&asked(&[other])));
        }
        assert!(
            !asked(&[ApprovalReason::FirstPaid]).covers(&asked(&[ApprovalReason::FirstAllowed])),
            "taking is not being paid"
        );
        // Both addresses appear in full within the length limit of a reason.
        let words = alike(0xab, 0xcd).describe();
        for address in [Address::repeat_byte(0xab), Address::repeat_byte(0xcd)] {
            assert!(words.as_str().contains(&address.to_string()), "{words}");
        }
    }

    #[test]
    fn a_reason_of_a_check_is_covered_only_by_the_same_finding() {
        let found = |why: &str| ApprovalReason::Found(CheckReason::HookNotEvaluated { why: SafeText::clean(why, 100) });
        let shown = asked(&[found("it is close to the stop-loss")]);
        assert!(shown.covers(&asked(&[found("it is close to the stop-loss")])));
        assert!(!shown.covers(&asked(&[found("it is closer to the stop-loss")])));
    }

    #[test]
    fn reasons_are_worded_from_their_figures() {
        assert_eq!(
            above(1_224_056_983, 1_000, "tools.x.requires_approval_above_usd").to_string(),
            "$1,224.06 is above $1,000.00 (tools.x.requires_approval_above_usd)"
        );
        let json = serde_json::to_value([above(1_000_010_000, 1_000, "a"), ApprovalReason::Authority]).unwrap();
        let limit = serde_json::json!({
            "kind": "above_limit", "value": "1000.01", "limit": "1000", "field": "a",
            "words": "$1,000.01 is above $1,000.00 (a)",
        });
        let authority = serde_json::json!({ "kind": "authority", "words": "it changes who has authority" });
        assert_eq!(json, serde_json::json!([limit, authority]));
    }
}
