//! What must be typed before a yes counts: digits of an address that is easily taken for another one.

use alloy::primitives::Address;

use super::Confirm;
use super::mirror::receivers;
use crate::base::text::SafeText;
use crate::safety::approval::Reason;
use crate::safety::pipeline::Preview;
use crate::safety::proposal::Purpose;

/// Digits that are typed.
const DIGITS: usize = 4;

/// What is asked for before a yes to this: of whoever looks like somebody else, the digits in which they differ; of who is
/// paid for the first time or by a privileged action, the last ones; and so of what a privileged action calls.
pub(super) fn confirm(preview: &Preview, privileged: bool) -> Option<Confirm> {
    if let Some((who, known)) = resembling(preview).next() {
        return Some(differing(who, known));
    }
    let paid = receivers(preview).first().copied().filter(|_| preview.first_seen || privileged);
    if let Some(receiver) = paid {
        return Some(last_digits("receiver", receiver));
    }
    let called = preview.framed.legs().iter().rfind(|leg| leg.purpose == Purpose::Main).filter(|_| privileged)?;
    Some(last_digits("called contract", called.to))
}

/// Who is easily taken for somebody known, and for whom.
fn resembling(preview: &Preview) -> impl Iterator<Item = (Address, Address)> {
    preview.parties.iter().filter_map(|why| match why {
        Reason::Resembles { who, known } => Some((*who, *known)),
        Reason::Above { .. }
        | Reason::HotLane
        | Reason::Untold
        | Reason::Authority
        | Reason::FirstPaid
        | Reason::FirstAllowed
        | Reason::Price(_)
        | Reason::Found(_) => None,
    })
}

fn last_digits(whose: &str, address: Address) -> Confirm {
    let digits = address.to_string();
    let at = digits.len().saturating_sub(DIGITS);
    Confirm {
        what: SafeText::clean(&format!("the last four characters of the {whose}'s address"), 80),
        expected: SafeText::clean(digits.get(at..).unwrap_or(&digits), DIGITS),
    }
}

/// The digits from the first in which they differ. Those at the ends are what somebody has made equal.
fn differing(who: Address, known: Address) -> Confirm {
    let (told, digits, others) = (who.to_string(), format!("{who:#x}"), format!("{known:#x}"));
    let equal = digits.bytes().zip(others.bytes()).take_while(|(one, other)| one == other).count();
    let at = equal.min(digits.len().saturating_sub(DIGITS));
    let (before, after) = told.split_at_checked(at).unwrap_or(("", &told));
    let what = format!("the four characters after {before} in the address that looks like another's");
    Confirm {
        what: SafeText::clean(&what, 160),
        expected: SafeText::clean(after.get(..DIGITS).unwrap_or(after), DIGITS),
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::address;

    use super::{differing, last_digits};

    #[test]
    fn of_two_that_look_alike_the_digits_are_asked_for_in_which_they_differ() {
        let known = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
        for (who, before, expected) in [
            (address!("70990000000000000000000000000000000079C8"), "0x7099", "0000"),
            (address!("70997970C51812dc3A010C7d01b50e0d17aa79C8"), "0x70997970C51812dc3A010C7d01b50e0d17", "aa79"),
            // Not alike at their ends; there is always something to type.
            (address!("70997970C51812dc3A010C7d01b50e0d17dc79C9"), "0x70997970C51812dc3A010C7d01b50e0d17dc", "79c9"),
        ] {
            let asked = differing(who, known);
            let (what, typed) = (asked.what.as_str().to_lowercase(), asked.expected.as_str().to_lowercase());
            assert!(what.contains(&format!("after {} in", before.to_lowercase())), "{what}");
            assert_eq!(typed, expected);
            // What is typed is not what the known one has there.
            let there = format!("{known:#x}");
            assert_ne!(there.get(before.len()..before.len() + 4), Some(expected));
        }
    }

    #[test]
    fn the_last_digits_are_as_the_address_is_written() {
        let asked = last_digits("receiver", address!("70997970C51812dc3A010C7d01b50e0d17dc79C8"));
        assert_eq!(asked.expected.as_str(), "79C8");
        assert_eq!(asked.what.as_str(), "the last four characters of the receiver's address");
    }
}
