//! Types of policy values. Each type defines which of two values is stricter, so that two policies can be compared
//! field by field.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::items::TokenRef;
use crate::ledger::percent;
use bardo_base::units::{AmountError, BasisPoints, Usd, UsdError};

/// Operations that every policy value supports.
pub(super) trait PolicyValue: Clone + PartialEq {
    /// Returns the stricter of the two values; if neither is, a value stricter than both.
    fn stricter(&self, other: &Self) -> Self;
    /// Formats the value in the file's syntax. Different values have different texts.
    fn shown(&self) -> String;
}

/// Error of an invalid number in a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum FigureError {
    #[error(transparent)]
    Usd(#[from] UsdError),
    #[error(transparent)]
    Amount(#[from] AmountError),
    #[error("more than 100 percent")]
    Percent,
    #[error("not 1 or more")]
    Factor,
    #[error("too many gwei")]
    Gwei,
}

/// Visitor for a number or a text in TOML. Floats are rejected, since they have already lost digits.
struct NumberOrText<'a, T> {
    expected: &'a str,
    read: fn(&str) -> Result<T, FigureError>,
}

impl<T> Visitor<'_> for NumberOrText<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        (self.read)(&number.to_string()).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        (self.read)(&number.to_string()).map_err(E::custom)
    }

    /// Rejects a decimal without quotes, which TOML has already parsed as a float. The number is used for the message
    /// only.
    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        Err(E::custom(format!("put it in quotes so that no digit is lost: \"{number}\"")))
    }
}

fn number_or_text<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    expected: &str,
    read: fn(&str) -> Result<T, FigureError>,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(NumberOrText { expected, read })
}

/// Maximum in dollars; `"none"` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxUsd(pub Option<Usd>);

impl PolicyValue for MaxUsd {
    fn stricter(&self, other: &Self) -> Self {
        Self(match (self.0, other.0) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        })
    }

    fn shown(&self) -> String {
        self.0.map_or_else(|| "\"none\"".to_owned(), |most| format!("\"{most}\""))
    }
}

impl<'de> Deserialize<'de> for MaxUsd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_text(deserializer, "dollars such as \"2500\" or \"0.50\", or \"none\"", |text| {
            if text == "none" { Ok(Self(None)) } else { Ok(Self(Some(text.parse()?))) }
        })
    }
}

/// Minimum in dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinUsd(pub Usd);

impl PolicyValue for MinUsd {
    fn stricter(&self, other: &Self) -> Self {
        Self(self.0.max(other.0))
    }

    fn shown(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

impl<'de> Deserialize<'de> for MinUsd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_text(deserializer, "dollars such as \"10\"", |text| Ok(Self(text.parse()?)))
    }
}

/// Minimum factor with up to four decimals, of 1 or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinFactor(u32);

impl MinFactor {
    /// One and a half.
    pub const DEFAULT: Self = Self(15_000);

    /// Factor in ten thousandths.
    pub const fn ten_thousandths(self) -> u32 {
        self.0
    }

    /// Factor as text, such as `1.5`.
    pub fn text(self) -> String {
        let (whole, part) = (self.0 / 10_000, self.0 % 10_000);
        let digits = format!("{part:04}");
        let digits = digits.trim_end_matches('0');
        if digits.is_empty() { whole.to_string() } else { format!("{whole}.{digits}") }
    }
}

impl PolicyValue for MinFactor {
    fn stricter(&self, other: &Self) -> Self {
        Self(self.0.max(other.0))
    }

    fn shown(&self) -> String {
        format!("\"{}\"", self.text())
    }
}

impl<'de> Deserialize<'de> for MinFactor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_text(deserializer, "a factor of 1 or more such as \"1.5\", with at most four decimals", |text| {
            let factor = bardo_base::units::TokenAmount::parse(text, 4)?;
            let factor = u32::try_from(factor.raw()).ok().filter(|factor| *factor >= 10_000);
            factor.map(Self).ok_or(FigureError::Factor)
        })
    }
}

/// Declares a whole number of which the smaller, or larger, value is stricter.
macro_rules! whole_number {
    ($(#[$about:meta])* $name:ident($inner:ty), $stricter:ident) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        pub struct $name(pub $inner);

        impl PolicyValue for $name {
            fn stricter(&self, other: &Self) -> Self {
                Self(self.0.$stricter(other.0))
            }

            fn shown(&self) -> String {
                self.0.to_string()
            }
        }
    };
}

whole_number! {
    /// Maximum count of something.
    MaxCount(u32), min
}
whole_number! {
    /// Minimum time, in seconds.
    MinSeconds(u64), max
}
whole_number! {
    /// Maximum time, in seconds.
    MaxSeconds(u64), min
}

/// Maximum share, in basis points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct MaxBps(pub BasisPoints);

impl PolicyValue for MaxBps {
    fn stricter(&self, other: &Self) -> Self {
        Self(self.0.min(other.0))
    }

    fn shown(&self) -> String {
        self.0.get().to_string()
    }
}

/// Maximum share, in percent with up to two decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxPercent(pub BasisPoints);

impl PolicyValue for MaxPercent {
    fn stricter(&self, other: &Self) -> Self {
        Self(self.0.min(other.0))
    }

    fn shown(&self) -> String {
        format!("\"{}\"", percent(self.0))
    }
}

impl<'de> Deserialize<'de> for MaxPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_text(deserializer, "percent such as \"5.0\", with at most two decimals", |text| {
            // Percent with two decimals are basis points.
            let points = bardo_base::units::TokenAmount::parse(text, 2)?;
            let points = u32::try_from(points.raw()).ok().and_then(|points| BasisPoints::new(points).ok());
            points.map(Self).ok_or(FigureError::Percent)
        })
    }
}

/// Maximum gas price, stored in wei per unit of gas and written in gwei; `"none"` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxGwei(pub Option<u128>);

impl MaxGwei {
    /// Returns the limit in wei per unit of gas; `None` for no limit.
    pub fn wei(self) -> Option<u128> {
        self.0
    }
}

impl PolicyValue for MaxGwei {
    fn stricter(&self, other: &Self) -> Self {
        Self(match (self.0, other.0) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        })
    }

    fn shown(&self) -> String {
        let gwei = |wei| bardo_base::units::TokenAmount::new(alloy::primitives::U256::from(wei), 9);
        let text = self.0.and_then(|wei| gwei(wei).ok()).map_or_else(|| "none".to_owned(), |gwei| gwei.to_string());
        format!("\"{text}\"")
    }
}

impl<'de> Deserialize<'de> for MaxGwei {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_text(deserializer, "gwei such as \"50\" or \"0.25\", or \"none\"", |text| {
            if text == "none" {
                return Ok(Self(None));
            }
            let wei = bardo_base::units::TokenAmount::parse(text, 9)?;
            u128::try_from(wei.raw()).map(|wei| Self(Some(wei))).map_err(|_| FigureError::Gwei)
        })
    }
}

/// Requirement; true is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Require(pub bool);

impl PolicyValue for Require {
    fn stricter(&self, other: &Self) -> Self {
        Self(self.0 || other.0)
    }

    fn shown(&self) -> String {
        self.0.to_string()
    }
}

/// Permission; false is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Permission(pub bool);

impl PolicyValue for Permission {
    fn stricter(&self, other: &Self) -> Self {
        Self(self.0 && other.0)
    }

    fn shown(&self) -> String {
        self.0.to_string()
    }
}

/// Approval threshold of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRule {
    /// Dollars above which the tool needs approval, in addition to the general threshold.
    pub requires_approval_above_usd: MaxUsd,
}

/// Approval thresholds by tool name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct ToolRules(pub BTreeMap<String, ToolRule>);

impl PolicyValue for ToolRules {
    fn stricter(&self, other: &Self) -> Self {
        let mut all = self.0.clone();
        for (tool, rule) in &other.0 {
            let stricter = all.get(tool).map_or(*rule, |own| ToolRule {
                requires_approval_above_usd: own
                    .requires_approval_above_usd
                    .stricter(&rule.requires_approval_above_usd),
            });
            all.insert(tool.clone(), stricter);
        }
        Self(all)
    }

    fn shown(&self) -> String {
        let rule = |rule: &ToolRule| rule.requires_approval_above_usd.shown();
        let all: Vec<_> = self
            .0
            .iter()
            .map(|(tool, one)| format!("{tool} = {{ requires_approval_above_usd = {} }}", rule(one)))
            .collect();
        format!("{{ {} }}", all.join(", "))
    }
}

/// Limits of one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRule {
    /// Dollars of the token in one action.
    #[serde(default = "no_limit")]
    pub max_single_usd: MaxUsd,
    /// Dollars of the token in any 24 hours.
    #[serde(default = "no_limit")]
    pub max_daily_usd: MaxUsd,
}

fn no_limit() -> MaxUsd {
    MaxUsd(None)
}

/// Limits by token and chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenRules(pub BTreeMap<TokenRef, TokenRule>);

impl<'de> Deserialize<'de> for TokenRules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = BTreeMap::<String, TokenRule>::deserialize(deserializer)?;
        let mut rules = BTreeMap::new();
        for (token, rule) in written {
            let token: TokenRef = token.parse().map_err(D::Error::custom)?;
            if rules.insert(token, rule).is_some() {
                return Err(D::Error::custom(format!("{token} is listed twice")));
            }
        }
        Ok(Self(rules))
    }
}

impl PolicyValue for TokenRules {
    fn stricter(&self, other: &Self) -> Self {
        let mut all = self.0.clone();
        for (token, rule) in &other.0 {
            let stricter = all.get(token).map_or(*rule, |own| TokenRule {
                max_single_usd: own.max_single_usd.stricter(&rule.max_single_usd),
                max_daily_usd: own.max_daily_usd.stricter(&rule.max_daily_usd),
            });
            all.insert(*token, stricter);
        }
        Self(all)
    }

    fn shown(&self) -> String {
        let all: Vec<_> = self
            .0
            .iter()
            .map(|(token, rule)| {
                let (single, daily) = (rule.max_single_usd.shown(), rule.max_daily_usd.shown());
                format!("\"{token}\" = {{ max_single_usd = {single}, max_daily_usd = {daily} }}")
            })
            .collect();
        format!("{{ {} }}", all.join(", "))
    }
}
