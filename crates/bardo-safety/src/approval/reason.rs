//! Why a yes is needed: the fact itself, with its figures. What a person reads is made from it, so nothing that is
//! decided later has to be read back from words.

use std::fmt;

use alloy::primitives::Address;
use serde::{Serialize, Serializer};

use crate::ledger::Micros;
use crate::value::PriceConcern;
use bardo_base::fabric::AskReason;
use bardo_base::text::SafeText;

/// How much a value may have risen since it was shown, in basis points of it: what a price does while somebody reads.
pub(super) const RISEN_BPS: u128 = 200;

/// Characters kept of one reason in words.
const MAX_WORDS: usize = 200;

/// Why a yes is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It counts for more dollars than one of the policy's limits lets pass unasked.
    Above {
        /// What it counts for, rounded up.
        value: Micros,
        /// What passes unasked, rounded down.
        limit: Micros,
        /// The policy's field.
        field: SafeText,
    },
    /// It counts for more than the safety-guardian is not asked about.
    HotLane,
    /// What it counts for cannot be told.
    Untold,
    /// It changes who holds authority.
    Authority,
    /// It pays somebody who was never paid before.
    FirstPaid,
    /// It lets somebody take who never could before.
    FirstAllowed,
    /// Somebody who gets something, or may take it, has an address that is easily taken for a known one.
    Resembles {
        /// Whose address it is.
        who: Address,
        /// The known address that it begins and ends like.
        known: Address,
    },
    /// It gives or brings a token that no price feed prices, or whose only pool contradicts its feed.
    Price(PriceConcern),
    /// A check wants the operator to look, and says why.
    Found(SafeText),
}

impl Reason {
    /// A limit of the policy's field `field` that the value is above.
    pub fn above(value: Micros, limit: Micros, field: &str) -> Self {
        Self::Above { value, limit, field: SafeText::clean(field, MAX_WORDS) }
    }

    /// As the operator is told it.
    pub fn told(&self) -> AskReason {
        match self {
            Self::Above { value, limit, field } => {
                AskReason::AboveLimit { value: value.dollars(), limit: limit.dollars(), field: field.clone() }
            }
            Self::HotLane => AskReason::HotLane,
            Self::Untold => AskReason::ValueUnknown,
            Self::Authority => AskReason::Authority,
            Self::FirstPaid => AskReason::FirstPaid,
            Self::FirstAllowed => AskReason::FirstAllowed,
            Self::Resembles { who, known } => AskReason::Resembles { who: *who, known: *known },
            Self::Price(PriceConcern::NoFeed { token }) => AskReason::NoFeed { token: *token },
            Self::Price(PriceConcern::Disputed { token, feed, pool }) => {
                AskReason::PriceDisputed { token: *token, feed: *feed, pool: *pool }
            }
            Self::Found(text) => AskReason::Said { text: text.clone() },
        }
    }

    /// In words.
    pub fn words(&self) -> SafeText {
        self.told().words()
    }

    /// Whether it is about this one action as it stands, so that no word given for others answers it.
    pub fn is_of_this_one(&self) -> bool {
        match self {
            Self::Untold | Self::Resembles { .. } | Self::Price(_) | Self::Found(_) => true,
            Self::Above { .. } | Self::HotLane | Self::Authority | Self::FirstPaid | Self::FirstAllowed => false,
        }
    }

    /// Whether both are about the same limit of the same field, whatever the value.
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
                | Self::FirstPaid
                | Self::FirstAllowed
                | Self::Resembles { .. }
                | Self::Price(_)
                | Self::Found(_),
                _,
            ) => false,
        }
    }

    /// Whether this, shown to somebody who said yes, is enough for `now`. The same limit of the same field is the same
    /// reason while the value is no more than [`RISEN_BPS`] above the one that was shown: amounts are bound by the
    /// permit, and only their price moves. A value that is too large to be counted is never known.
    pub(super) fn covers(&self, now: &Self) -> bool {
        match (self, now) {
            (Self::Above { value: shown, limit, field }, Self::Above { value, limit: now_limit, field: now_field }) => {
                // Both are below 2^63.
                let most = u128::from(shown.get()) * (10_000 + RISEN_BPS) / 10_000;
                (limit, field) == (now_limit, now_field) && *value < Micros::MAX && u128::from(value.get()) <= most
            }
            (Self::HotLane, Self::HotLane)
            | (Self::Untold, Self::Untold)
            | (Self::Authority, Self::Authority)
            | (Self::FirstPaid, Self::FirstPaid)
            | (Self::FirstAllowed, Self::FirstAllowed) => true,
            (Self::Resembles { .. }, Self::Resembles { .. }) => self == now,
            (Self::Price(PriceConcern::NoFeed { token }), Self::Price(PriceConcern::NoFeed { token: now })) => {
                token == now
            }
            // The figures move while somebody reads; that the two differ much was shown.
            (
                Self::Price(PriceConcern::Disputed { token, .. }),
                Self::Price(PriceConcern::Disputed { token: now, .. }),
            ) => token == now,
            (Self::Found(shown), Self::Found(now)) => shown == now,
            (
                Self::Above { .. }
                | Self::HotLane
                | Self::Untold
                | Self::Authority
                | Self::FirstPaid
                | Self::FirstAllowed
                | Self::Resembles { .. }
                | Self::Price(_)
                | Self::Found(_),
                _,
            ) => false,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.told().fmt(f)
    }
}

/// As the operator is told it.
impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde::Serialize::serialize(&self.told(), serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::ApprovalNeed;

    /// So many millionths above a limit in whole dollars.
    fn above(micros: u64, limit: u64, field: &str) -> Reason {
        Reason::above(Micros::new(micros).unwrap(), Micros::new(limit * 1_000_000).unwrap(), field)
    }

    fn asked(reasons: &[Reason]) -> ApprovalNeed {
        ApprovalNeed::Approval { reasons: reasons.to_vec() }
    }

    #[test]
    fn a_price_that_moves_while_somebody_reads_is_no_new_reason() {
        let shown = asked(&[above(1_224_056_983, 1_000, "limit"), Reason::FirstPaid]);
        for covered in [above(1_224_056_984, 1_000, "limit"), above(1_001_000_000, 1_000, "limit"), Reason::FirstPaid] {
            assert!(shown.covers(&asked(std::slice::from_ref(&covered))), "{covered}");
        }
        // 2 % of 1,224.056983 are 24.48113966: up to 1,248.538122, in whole millionths.
        assert!(shown.covers(&asked(&[above(1_248_538_122, 1_000, "limit")])));
        for new in [
            above(1_248_538_123, 1_000, "limit"),
            above(1_224_056_983, 900, "limit"),
            above(1_224_056_983, 1_000, "another"),
            Reason::HotLane,
            Reason::Untold,
            Reason::Authority,
            Reason::Found(SafeText::clean("$1,224.056983 is above $1,000.00 (limit)", 200)),
        ] {
            assert!(!shown.covers(&asked(std::slice::from_ref(&new))), "{new}");
            assert!(!shown.covers(&asked(&[Reason::FirstPaid, new.clone()])), "one that is known does not bring {new}");
        }
    }

    #[test]
    fn what_cannot_be_counted_is_never_known() {
        let most = || Reason::above(Micros::MAX, Micros::new(1).unwrap(), "limit");
        assert!(!asked(&[most()]).covers(&asked(&[most()])));
        assert!(!asked(&[above(5, 1, "limit")]).covers(&asked(&[most()])));
    }

    #[test]
    fn an_address_that_looks_like_another_is_of_this_one_action_and_of_no_other() {
        let alike = |who: u8, known: u8| Reason::Resembles {
            who: Address::repeat_byte(who),
            known: Address::repeat_byte(known),
        };
        assert!(alike(1, 2).is_of_this_one() && !Reason::FirstAllowed.is_of_this_one());
        assert!(asked(&[alike(1, 2)]).covers(&asked(&[alike(1, 2)])));
        for other in [alike(1, 3), alike(3, 2), Reason::FirstPaid, Reason::FirstAllowed] {
            assert!(!asked(&[alike(1, 2)]).covers(&asked(&[other])));
        }
        assert!(!asked(&[Reason::FirstPaid]).covers(&asked(&[Reason::FirstAllowed])), "taking is not being paid");
        // Both addresses whole, within what is kept of one reason.
        let words = alike(0xab, 0xcd).words();
        for address in [Address::repeat_byte(0xab), Address::repeat_byte(0xcd)] {
            assert!(words.as_str().contains(&address.to_string()), "{words}");
        }
    }

    #[test]
    fn a_check_says_the_same_only_by_the_same_words() {
        let found = |why: &str| Reason::Found(SafeText::clean(why, 100));
        let shown = asked(&[found("it is close to the stop-loss")]);
        assert!(shown.covers(&asked(&[found("it is close to the stop-loss")])));
        assert!(!shown.covers(&asked(&[found("it is closer to the stop-loss")])));
    }

    #[test]
    fn the_words_come_from_the_figures() {
        assert_eq!(
            above(1_224_056_983, 1_000, "tools.x.requires_approval_above_usd").to_string(),
            "$1,224.056983 is above $1,000.00 (tools.x.requires_approval_above_usd)"
        );
        let json = serde_json::to_value([above(1_000_010_000, 1_000, "a"), Reason::Authority]).unwrap();
        let limit = serde_json::json!({
            "kind": "above_limit", "value": "1000.01", "limit": "1000", "field": "a",
            "words": "$1,000.01 is above $1,000.00 (a)",
        });
        let authority = serde_json::json!({ "kind": "authority", "words": "it changes who holds authority" });
        assert_eq!(json, serde_json::json!([limit, authority]));
    }
}
