//! Reasons for asking the operator, as values with their figures. Sentences are made from them where they are shown.

use std::fmt;

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::CheckReason;
use crate::display::tool_word;
use crate::format::{dollars, dollars_above, price, short_hash};
use crate::id::{CallId, GolemId};
use crate::text::SafeText;
use crate::units::{TokenAmount, Usd};

/// Maximum length of a reason's sentence, in characters.
const MAX_SENTENCE: usize = 400;

/// A reason for asking the operator. JSON has its fields beside `kind`, and its sentence as `words`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", remote = "Self")]
pub enum AskReason {
    /// The value of the action is above a limit of the policy for actions without approval.
    AboveLimit {
        /// Value of the action in dollars, rounded up.
        value: Usd,
        /// Maximum value without approval, rounded down.
        limit: Usd,
        /// Field of the policy that sets the limit.
        field: SafeText,
    },
    /// The value of the action is above the limit up to which the safety-guardian need not agree.
    HotLane,
    /// The value of the action is unknown.
    ValueUnknown,
    /// The action changes who holds authority.
    Authority,
    /// The action publishes something in the account's name that cannot be withdrawn.
    Publishes,
    /// The action pays a recipient for the first time.
    FirstPaid,
    /// The action grants a spender an allowance for the first time.
    FirstAllowed,
    /// An address in the action resembles a known one.
    Resembles {
        /// Address in the action.
        who: Address,
        /// Known address with the same beginning and end.
        known: Address,
    },
    /// The action gives or brings a token without a price feed.
    NoFeed {
        /// Contract of the token.
        token: Address,
    },
    /// The token's only pool contradicts its feed.
    PriceDisputed {
        /// Contract of the token.
        token: Address,
        /// Dollar price of the feed.
        feed: Usd,
        /// Dollar price of the pool.
        pool: Usd,
    },
    /// The action is large enough for a delay in which the operator can reject it.
    Delay {
        /// Length of the delay in seconds, rounded up.
        seconds: u64,
    },
    /// The operator confirms every action of their own.
    ByHand,
    /// Another process with the same ledger made the request, which can be answered there as well.
    Elsewhere,
    /// The change permits more than before.
    Loosens,
    /// The new policy would permit more than before.
    LoosensPolicy,
    /// The Golem is dead, and nobody trades its holdings.
    GolemDied,
    /// The stop in force asks to close positions.
    LeavesPositions,
    /// An emergency halt is in force, under which nothing is sold without approval.
    SellsUnderHalt,
    /// The action is a step of a sale of all holdings.
    PartOfSale {
        /// Sale that the step belongs to.
        sale: HoldingsSale,
        /// Number of holdings that the sale sells after this one; `None` for a step that sells none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        more: Option<u32>,
    },
    /// The action is a further step of an action whose earlier steps are done.
    FurtherStep {
        /// Tool of the whole action.
        tool: SafeText,
        /// Call of the whole action.
        call_id: CallId,
    },
    /// An order for the same pair is open, and both can be filled.
    OrderOpen {
        /// Hash of the open order.
        order: B256,
        /// Golem, or operator, that placed it.
        owner: GolemId,
    },
    /// The reasons for the request have passed since it was made. It stays open: the operator has not decided.
    NoneLeft,
    /// The action needs a second operator's approval.
    SecondApproval {
        /// Maximum value without one, rounded down; `None` if the action changes who has authority, which always needs
        /// one.
        limit: Option<Usd>,
    },
    /// The transaction takes the place of a waiting one with the same nonce. Only one of the two can be included.
    Replaces {
        /// Hash of the waiting transaction.
        transaction: B256,
        /// Nonce of both.
        nonce: u64,
        /// True if it cancels the waiting one; false if it repeats it with higher fees.
        cancels: bool,
        /// Maximum cost beyond that of the waiting one, in wei.
        extra_wei: U256,
        /// The same in dollars, rounded up; `None` without a price.
        extra_usd: Option<Usd>,
        /// Symbol of the chain's native token.
        #[serde(default = "ether")]
        symbol: SafeText,
        /// Tool that sent the waiting transaction; `None` if the ledger does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<SafeText>,
        /// Golem, or operator, whose transaction waits; `None` if the ledger does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<GolemId>,
    },
    /// A check asks for the operator's decision.
    Check(CheckReason),
    /// A sentence of another party, or of an unknown version.
    Said {
        /// The sentence, cleaned.
        text: SafeText,
    },
}

/// Sale of all holdings of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldingsSale {
    /// Sale under the stop level flatten.
    Flatten,
    /// Sale after the death of the Golem.
    Death,
}

impl fmt::Display for HoldingsSale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flatten => "the flatten",
            Self::Death => "the sale after the Golem's death",
        })
    }
}

/// Native token in recordings of earlier versions, which named no other.
fn ether() -> SafeText {
    SafeText::clean("ETH", 8)
}

impl AskReason {
    /// Reason with a sentence of another party, which is cleaned.
    pub fn said(text: impl fmt::Display) -> Self {
        Self::Said { text: SafeText::clean(&text.to_string(), MAX_SENTENCE) }
    }

    /// Sentence of the reason, cleaned and truncated.
    pub fn describe(&self) -> SafeText {
        SafeText::clean(&self.to_string(), MAX_SENTENCE)
    }

    /// Parses the sentence in recordings before version 3 of the journal. An unknown sentence becomes [`Self::Said`].
    fn of_earlier_versions(sentence: &str) -> Self {
        match sentence {
            "it is above the hot lane" => Self::HotLane,
            _ => above_limit(sentence).unwrap_or_else(|| Self::said(sentence)),
        }
    }
}

/// Parses `$2,047.53 is above $1,000.00 (field)`, the form of earlier versions.
fn above_limit(sentence: &str) -> Option<AskReason> {
    let usd = |figure: &str| figure.strip_prefix('$')?.replace(',', "").parse::<Usd>().ok();
    let (amounts, field) = sentence.strip_suffix(')')?.rsplit_once(" (")?;
    let (value, limit) = amounts.split_once(" is above ")?;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-');
    let is_field = field.contains('_') && field.bytes().all(is_name);
    let field = is_field.then(|| SafeText::clean(field, MAX_SENTENCE))?;
    Some(AskReason::AboveLimit { value: usd(value)?, limit: usd(limit)?, field })
}

/// English sentence, as in the audit log and in responses.
impl fmt::Display for AskReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AboveLimit { value, limit, field } => {
                write!(f, "{} is above {} ({field})", dollars_above(*value, *limit), dollars(*limit))
            }
            Self::HotLane => f.write_str("it is so large that it needs a second opinion"),
            Self::ValueUnknown => f.write_str("its value is unknown"),
            Self::Authority => f.write_str("it changes who has authority"),
            Self::Publishes => f.write_str("it publishes in your name what cannot be withdrawn"),
            Self::FirstPaid => f.write_str("it pays a new recipient"),
            Self::FirstAllowed => f.write_str("it gives an allowance to a new spender"),
            Self::Resembles { who, known } => {
                write!(f, "{who} begins and ends like the known address {known}, but differs from it")
            }
            Self::NoFeed { token } => write!(f, "no price feed covers {token}: only pools price it"),
            Self::PriceDisputed { token, feed, pool } => write!(
                f,
                "the feed prices {token} at {} and its only pool at {}: the feed is used",
                price(*feed),
                price(*pool)
            ),
            Self::Delay { seconds } => {
                write!(f, "it is large enough for a delay of {seconds} s in which you can reject it")
            }
            Self::ByHand => f.write_str("every manual action is confirmed before signing"),
            Self::Elsewhere => f.write_str("requested by another process on this ledger"),
            Self::Loosens => f.write_str("it permits more than is permitted now"),
            Self::LoosensPolicy => f.write_str("it loosens the policy"),
            Self::GolemDied => f.write_str("the Golem has died, and nobody trades its holdings"),
            Self::LeavesPositions => f.write_str("the stop in force asks to close positions"),
            Self::SellsUnderHalt => f.write_str("after an emergency halt, nothing is sold without your approval"),
            Self::PartOfSale { sale, more: None } => write!(f, "it is a step of {sale}"),
            Self::PartOfSale { sale, more: Some(0) } => write!(f, "it sells the last holding of {sale}"),
            Self::PartOfSale { sale, more: Some(1) } => {
                write!(f, "it is a step of {sale}, which sells one more holding")
            }
            Self::PartOfSale { sale, more: Some(more) } => {
                write!(f, "it is a step of {sale}, which sells {more} more holdings")
            }
            Self::FurtherStep { tool, call_id } => write!(
                f,
                "it is a further step of \"{}\", whose earlier steps are done (call {call_id})",
                tool_word(tool.as_str())
            ),
            Self::OrderOpen { order, owner } => {
                let whose = if owner.is_operator() { "your own".to_owned() } else { format!("{owner}'s") };
                write!(f, "{whose} order {} for the same pair is open, and both can be filled", short_hash(*order))
            }
            Self::NoneLeft => f.write_str("what it was asked for has passed: by itself it would need no approval now"),
            Self::SecondApproval { limit: Some(limit) } => {
                write!(f, "above {} it needs a second operator's approval", dollars(*limit))
            }
            Self::SecondApproval { limit: None } => {
                f.write_str("a change of authority needs a second operator's approval")
            }
            Self::Replaces { transaction, nonce, cancels, extra_wei, extra_usd, symbol, tool, owner } => {
                let what = if *cancels { "cancels" } else { "raises the fees of" };
                write!(f, "{what} waiting transaction {transaction} (nonce {nonce})")?;
                match owner {
                    Some(owner) if owner.is_operator() => f.write_str(", which you sent")?,
                    Some(owner) => write!(f, ", which {owner} sent")?,
                    None => f.write_str(", whose sender the ledger does not know")?,
                }
                if let Some(tool) = tool {
                    write!(f, " with {tool}")?;
                }
                write!(f, "; it costs at most {} {symbol}", TokenAmount::ether(*extra_wei))?;
                match extra_usd {
                    Some(usd) => write!(f, " ({})", dollars(*usd))?,
                    None => f.write_str(" (no dollar price)")?,
                }
                f.write_str(if *cancels { "" } else { " more" })?;
                f.write_str("; if the original is included first, this one never happens and costs nothing")
            }
            Self::Check(found) => write!(f, "{found}"),
            Self::Said { text } => write!(f, "{text}"),
        }
    }
}

/// Adds the sentence beside the fields, for readers without wording of their own.
impl Serialize for AskReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct AskReasonForm<'a> {
            #[serde(flatten, serialize_with = "AskReason::serialize")]
            reason: &'a AskReason,
            words: SafeText,
        }
        AskReasonForm { reason: self, words: self.describe() }.serialize(serializer)
    }
}

/// Uses the sentence only if it stands alone, or beside a kind that this version does not know.
impl<'de> Deserialize<'de> for AskReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Value::deserialize(deserializer)?;
        if let Value::String(sentence) = &written {
            return Ok(Self::of_earlier_versions(sentence));
        }
        let words = written.get("words").and_then(Value::as_str).map(Self::said);
        match (Self::deserialize(written), words) {
            (Ok(reason), _) => Ok(reason),
            (Err(_), Some(words)) => Ok(words),
            (Err(error), None) => Err(serde::de::Error::custom(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::RuleName;

    fn usd(figure: &str) -> Usd {
        figure.parse().unwrap()
    }

    fn limit(field: &str) -> AskReason {
        AskReason::AboveLimit { value: usd("2047.53"), limit: usd("1000"), field: SafeText::clean(field, 100) }
    }

    #[test]
    fn json_has_fields_and_sentence_and_only_the_fields_are_read() {
        let written = serde_json::to_value(limit("hot_lane")).unwrap();
        let expected = json!({
            "kind": "above_limit", "value": "2047.53", "limit": "1000", "field": "hot_lane",
            "words": "$2,047.53 is above $1,000.00 (hot_lane)",
        });
        assert_eq!(written, expected);
        let mut other = written;
        other["words"] = json!("$1 is above $0 (nothing)");
        assert_eq!(serde_json::from_value::<AskReason>(other).unwrap(), limit("hot_lane"));
    }

    #[test]
    fn every_kind_survives_a_round_trip_through_json() {
        let (who, known) = (Address::repeat_byte(1), Address::repeat_byte(2));
        for reason in [
            limit("tools.token_approve.requires_approval_above_usd"),
            AskReason::HotLane,
            AskReason::ValueUnknown,
            AskReason::Authority,
            AskReason::Publishes,
            AskReason::FirstPaid,
            AskReason::FirstAllowed,
            AskReason::Resembles { who, known },
            AskReason::NoFeed { token: who },
            AskReason::PriceDisputed { token: who, feed: usd("1.5"), pool: usd("1") },
            AskReason::Delay { seconds: 30 },
            AskReason::ByHand,
            AskReason::Elsewhere,
            AskReason::Loosens,
            AskReason::LoosensPolicy,
            AskReason::GolemDied,
            AskReason::LeavesPositions,
            AskReason::SellsUnderHalt,
            AskReason::PartOfSale { sale: HoldingsSale::Flatten, more: Some(2) },
            AskReason::PartOfSale { sale: HoldingsSale::Death, more: None },
            AskReason::FurtherStep { tool: SafeText::clean("rebalance_position", 40), call_id: CallId::new(7) },
            AskReason::NoneLeft,
            AskReason::OrderOpen { order: B256::repeat_byte(9), owner: GolemId::operator() },
            AskReason::Replaces {
                transaction: B256::repeat_byte(7),
                nonce: 4,
                cancels: true,
                extra_wei: U256::from(21_000),
                extra_usd: Some(usd("0.02")),
                symbol: SafeText::clean("POL", 8),
                tool: Some(SafeText::clean("uniswap_execute_swap", 40)),
                owner: Some(GolemId::operator()),
            },
            AskReason::SecondApproval { limit: Some(usd("500")) },
            AskReason::SecondApproval { limit: None },
            AskReason::Check(CheckReason::ManyRevocations),
            AskReason::Check(CheckReason::ExitAboveLimit {
                rule: RuleName::MaxLossBps.into(),
                limit: SafeText::clean("at most $5", 40),
            }),
            AskReason::Check(CheckReason::SellsBelowAverage { sold: vec![SafeText::clean("WETH", 8)], percent: 25 }),
            AskReason::Check(CheckReason::HookUnknown { open: Vec::new() }),
            AskReason::said("another party asks"),
        ] {
            let written = serde_json::to_value(&reason).unwrap();
            assert_eq!(serde_json::from_value::<AskReason>(written).unwrap(), reason);
        }
    }

    #[test]
    fn a_replacement_names_the_tool_the_owner_and_the_native_token_and_old_recordings_are_read() {
        let old = json!({
            "kind": "replaces", "transaction": B256::ZERO, "nonce": 4, "cancels": true, "extra_wei": "0x5208",
            "extra_usd": "0.02",
        });
        let old = serde_json::from_value::<AskReason>(old).unwrap();
        assert!(old.to_string().contains("0.000000000000021 ETH ($0.02)"), "{old}");
        let of = |owner: GolemId| AskReason::Replaces {
            transaction: B256::ZERO,
            nonce: 4,
            cancels: true,
            extra_wei: U256::from(21_000),
            extra_usd: None,
            symbol: SafeText::clean("POL", 8),
            tool: Some(SafeText::clean("token_approve", 40)),
            owner: Some(owner),
        };
        let own = of(GolemId::operator()).to_string();
        assert!(own.contains("which you sent with token_approve; it costs at most 0.000000000000021 POL"), "{own}");
        let golems = of("alpha".parse().unwrap()).to_string();
        assert!(golems.contains("which alpha sent with token_approve"), "{golems}");
    }

    #[test]
    fn known_sentences_of_earlier_versions_are_parsed_and_others_kept() {
        let read = |sentence: &str| serde_json::from_value::<AskReason>(json!(sentence)).unwrap();
        assert_eq!(read("$2,047.53 is above $1,000.00 (hot_lane)"), limit("hot_lane"));
        assert_eq!(read("it is above the hot lane"), AskReason::HotLane);
        for other in ["above your limit (again)", "$2 is above $x (a_field)", "$2 is above $1 (No Field)"] {
            assert_eq!(read(other), AskReason::said(other));
        }
    }

    #[test]
    fn an_unknown_kind_becomes_its_cleaned_sentence() {
        let newer = json!({ "kind": "moon_phase", "words": "the \u{1b}[31mmoon is full" });
        let reason = serde_json::from_value::<AskReason>(newer).unwrap();
        assert!(matches!(&reason, AskReason::Said { text } if !text.as_str().contains('\u{1b}')), "{reason:?}");
        assert!(serde_json::from_value::<AskReason>(json!({ "kind": "moon_phase" })).is_err());
    }
}
