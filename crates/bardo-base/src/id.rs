//! Identifiers created at run time: calls, permits, Golems and devnets.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::SafeText;

/// Digits of Crockford's base 32, the encoding of ULIDs.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Error for a text that is not an identifier of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a valid {what}")]
pub struct IdError {
    /// Expected kind of identifier, with its format.
    pub what: &'static str,
    /// Given text, cleaned.
    pub given: SafeText,
}

/// Id of one tool call, carried by all its events.
///
/// A ULID (<https://github.com/ulid/spec>): 48 bits of milliseconds, 80 random bits, 26 characters. Sorting by text
/// sorts by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u128);

impl CallId {
    /// Creates an id for a call that starts at `now_millis` since the Unix epoch.
    pub fn new(now_millis: u64) -> Self {
        Self((u128::from(now_millis) << 80) | (rand::random::<u128>() >> 48))
    }

    /// The 26 ASCII digits.
    fn digits(self) -> [u8; 26] {
        let mut digits = [b'0'; 26];
        let mut rest = self.0;
        for place in digits.iter_mut().rev() {
            // In range: the mask leaves 0..=31.
            *place = DIGITS.get((rest & 31) as usize).copied().unwrap_or(b'0');
            rest >>= 5;
        }
        digits
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits();
        // All digits of the table are ASCII.
        f.pad(std::str::from_utf8(&digits).unwrap_or_default())
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallId({self})")
    }
}

impl FromStr for CallId {
    type Err = IdError;

    fn from_str(given: &str) -> Result<Self, IdError> {
        let bad = || IdError { what: "call id (26 characters of base 32)", given: SafeText::clean(given, 40) };
        // The first of 26 digits holds the upper three of 128 bits.
        if given.len() != 26 || !matches!(given.as_bytes().first(), Some(b'0'..=b'7')) {
            return Err(bad());
        }
        let mut value = 0u128;
        for byte in given.bytes() {
            let digit = DIGITS.iter().position(|one| *one == byte.to_ascii_uppercase()).ok_or_else(bad)?;
            value = (value << 5) | digit as u128;
        }
        Ok(Self(value))
    }
}

impl Serialize for CallId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Bypasses the formatter for speed: every event of the journal has a call id.
        serializer.serialize_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for CallId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Id of one permit: 128 random bits, written as 32 hexadecimal digits. It must be unguessable, because a commit is
/// requested with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId(u128);

impl PermitId {
    /// Creates a random id.
    pub fn random() -> Self {
        Self(rand::random())
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for PermitId {
    type Err = IdError;

    fn from_str(given: &str) -> Result<Self, IdError> {
        let bad = || IdError { what: "permit id (32 hexadecimal digits)", given: SafeText::clean(given, 60) };
        let fits = given.len() == 32 && given.bytes().all(|b| b.is_ascii_hexdigit());
        if !fits {
            return Err(bad());
        }
        u128::from_str_radix(given, 16).map(Self).map_err(|_| bad())
    }
}

impl Serialize for PermitId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PermitId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Id of an actor: the name of a Golem, or `operator` for a person who calls tools by hand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GolemId(Arc<str>);

/// Name of the operator in records and events.
const OPERATOR: &str = "operator";

impl GolemId {
    /// Id of the operator.
    pub fn operator() -> Self {
        Self(OPERATOR.into())
    }

    /// Returns true for the operator.
    pub fn is_operator(&self) -> bool {
        &*self.0 == OPERATOR
    }

    /// Parses a name that Bardo itself wrote: a Golem's or the operator's.
    ///
    /// # Errors
    /// [`IdError`] for a text that is not a valid name.
    pub fn stored(given: &str) -> Result<Self, IdError> {
        let fits = (1..=40).contains(&given.len())
            && given.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        let what = "golem id (1 to 40 letters, digits, `-` or `_`)";
        if fits { Ok(Self(given.into())) } else { Err(IdError { what, given: SafeText::clean(given, 60) }) }
    }

    /// Fallback id of a Golem without a usable name.
    pub fn nameless() -> Self {
        Self("golem".into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GolemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for GolemId {
    type Err = IdError;

    /// Accepts 1 to 40 letters, digits, `-` and `_`, but not the operator's name in any case: the operator's own
    /// actions pass limits that apply to Golems.
    fn from_str(given: &str) -> Result<Self, IdError> {
        if given.eq_ignore_ascii_case(OPERATOR) {
            let what = "golem id (`operator` is reserved for the operator)";
            return Err(IdError { what, given: SafeText::clean(given, 60) });
        }
        Self::stored(given)
    }
}

impl Serialize for GolemId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for GolemId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Stored ids were written by Bardo: no other party names the actor of a record or an event.
        Self::stored(&std::borrow::Cow::<'de, str>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Id of one devnet, from its start to its end: 128 random bits, written as 32 hexadecimal digits. Data of one devnet
/// is meaningless to the next, even if both began with the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(u128);

impl InstanceId {
    /// Creates the id of a devnet that starts now.
    pub fn random() -> Self {
        Self(rand::random())
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for InstanceId {
    type Err = IdError;

    /// Accepts only the exact lower-case form: the id becomes part of a path, so it must have one form.
    fn from_str(given: &str) -> Result<Self, IdError> {
        let bad =
            || IdError { what: "devnet id (32 lower-case hexadecimal digits)", given: SafeText::clean(given, 60) };
        let fits = given.len() == 32 && given.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !fits {
            return Err(bad());
        }
        u128::from_str_radix(given, 16).map(Self).map_err(|_| bad())
    }
}

impl Serialize for InstanceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for InstanceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_are_ulids() {
        // The example of the ULID specification: 01ARZ3NDEKTSV4RRFFQ69G5FAV was created at 1469922850259.
        let known: CallId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        assert_eq!(known.0 >> 80, 1_469_922_850_259);
        assert_eq!(known.to_string(), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
        assert!(CallId::new(1).to_string() < CallId::new(2).to_string());
        assert_ne!(CallId::new(1), CallId::new(1));
        for bad in ["", "01ARZ3NDEKTSV4RRFFQ69G5FA", "81ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAU"] {
            assert!(bad.parse::<CallId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn permit_ids_are_random_and_read_back() {
        let id = PermitId(0xabc);
        assert_eq!(id.to_string(), "00000000000000000000000000000abc");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(PermitId::random(), PermitId::random());
        for bad in ["", "abc", "+0000000000000000000000000000abc", "0x000000000000000000000000000abc"] {
            assert!(bad.parse::<PermitId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn golem_ids_are_plain_words() {
        assert_eq!("Ada-2_b".parse::<GolemId>().unwrap().as_str(), "Ada-2_b");
        for bad in ["", "a b", "a/b", "\u{1b}", &"a".repeat(41)] {
            assert!(bad.parse::<GolemId>().is_err(), "{bad:?}");
            assert!(GolemId::stored(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn no_golem_takes_the_operators_name() {
        for taken in ["operator", "Operator", "OPERATOR"] {
            assert!(taken.parse::<GolemId>().is_err(), "{taken}");
        }
        assert!("operators".parse::<GolemId>().is_ok());
        // The operator's id in a record is read back.
        assert_eq!(GolemId::stored("operator"), Ok(GolemId::operator()));
        let written = serde_json::to_string(&GolemId::operator()).unwrap();
        assert_eq!(serde_json::from_str::<GolemId>(&written).unwrap(), GolemId::operator());
    }

    #[test]
    fn instance_ids_have_one_form() {
        let id = InstanceId(0xabc);
        assert_eq!(id.to_string(), "00000000000000000000000000000abc");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(InstanceId::random(), InstanceId::random());
        for bad in [
            "",
            "../../../../../../../../../../etc",
            "00000000000000000000000000000ABC",
            "+0000000000000000000000000000abc",
        ] {
            assert!(bad.parse::<InstanceId>().is_err(), "{bad}");
        }
    }
}
