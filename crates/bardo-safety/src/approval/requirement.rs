//! Viewing and typing that an approval requires. The approval queue derives it from the preview and checks it with
//! every approval, whether from the console, the command line or another process.

use alloy::primitives::Address;

use super::ApprovalReason;
use crate::pipeline::Preview;
use crate::proposal::LegPurpose;
use crate::value::is_unlimited;
use crate::verdict::Verdict;
use bardo_base::fabric::CheckOutcome;
use bardo_base::model::CapabilityTier;
use bardo_base::text::SafeText;

use bardo_session::confirmation::{ApprovalRequirement, TypedConfirmation, WarningToRead};

/// Number of an address's characters that the operator types.
const DIGITS: usize = 4;
/// Length limit of a line, in characters.
const LINE: usize = 400;

/// Warning about a simulation that did not see every change.
pub const INCOMPLETE: &str = "the simulation could not see every change: more may move than is shown here";

/// Returns what the operator must view and type to approve the action.
pub fn requirement(preview: &Preview) -> ApprovalRequirement {
    let privileged = preview.payload.proposal().tool.capability == CapabilityTier::Privileged;
    ApprovalRequirement { to_read: to_read(preview), confirm: confirm(preview, privileged) }
}

fn to_read(preview: &Preview) -> Vec<WarningToRead> {
    let warned = |verdict: &&Verdict| verdict.outcome == CheckOutcome::Warned;
    let mut seen: Vec<WarningToRead> = Vec::new();
    for verdict in preview.verdicts.iter().filter(warned) {
        let text = SafeText::clean(&format!("{}: {}", verdict.check, verdict.detail()), LINE);
        add(&mut seen, WarningToRead { text, check: Some(verdict.event()) });
    }
    let mut read: Vec<SafeText> = Vec::new();
    let asks = preview.verdicts.iter().flat_map(|verdict| &verdict.asks);
    read.extend(asks.map(|why| SafeText::clean(&why.to_string(), LINE)));
    if preview.first_seen {
        let whom: Vec<String> = receivers(preview).iter().map(ToString::to_string).collect();
        read.push(SafeText::clean(&format!("first payment from this account to {}", whom.join(", ")), LINE));
    }
    let of_others =
        |why: &&ApprovalReason| matches!(why, ApprovalReason::FirstAllowed | ApprovalReason::Resembles { .. });
    read.extend(preview.parties.iter().filter(of_others).map(ApprovalReason::describe));
    for bound in &preview.permit.bounds.allowances {
        if is_unlimited(bound.at_most) {
            let source = format!("{} may take {} without limit", bound.spender, bound.token.symbol);
            read.push(SafeText::clean(&source, LINE));
        }
    }
    if !preview.simulated.simulation.changes.complete() {
        read.push(SafeText::clean(INCOMPLETE, LINE));
    }
    for text in read {
        add(&mut seen, WarningToRead::plain(text));
    }
    seen
}

/// Adds `one` unless its text is present already, so that the operator views each text once.
fn add(seen: &mut Vec<WarningToRead>, one: WarningToRead) {
    if !seen.iter().any(|other| other.text == one.text) {
        seen.push(one);
    }
}

/// Returns every address except the account that receives something, each once.
pub fn receivers(preview: &Preview) -> Vec<Address> {
    let proposal = preview.payload.proposal();
    // A key that signs for the account, such as an owner of a Safe, is another holder of money.
    let own = preview.payload.account();
    let mut all: Vec<Address> = Vec::new();
    let inflows = proposal.inflows.iter().map(|inflow| inflow.recipient);
    for address in proposal.recipients.iter().copied().chain(inflows) {
        if address != own && !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

/// Characters that the operator must type, if any. For an address that resembles a known one, they are the characters
/// where the two differ. For a recipient paid for the first time or by a privileged action, and for the contract that a
/// privileged action calls, they are the last ones.
fn confirm(preview: &Preview, privileged: bool) -> Option<TypedConfirmation> {
    if let Some((who, known)) = resembling(preview).next() {
        return Some(differing(who, known));
    }
    let paid = receivers(preview).first().copied().filter(|_| preview.first_seen || privileged);
    if let Some(receiver) = paid {
        return Some(last_digits("receiver", receiver));
    }
    let called = preview.payload.legs().iter().rfind(|leg| leg.purpose == LegPurpose::Main).filter(|_| privileged)?;
    Some(last_digits("called contract", called.call(preview.payload.account()).to))
}

/// Addresses that resemble a known one, each with the known one.
fn resembling(preview: &Preview) -> impl Iterator<Item = (Address, Address)> {
    preview.parties.iter().filter_map(|why| match why {
        ApprovalReason::Resembles { who, known } => Some((*who, *known)),
        ApprovalReason::Above { .. }
        | ApprovalReason::HotLane
        | ApprovalReason::Untold
        | ApprovalReason::Authority
        | ApprovalReason::Publishes
        | ApprovalReason::FirstPaid
        | ApprovalReason::FirstAllowed
        | ApprovalReason::Price(_)
        | ApprovalReason::SecondApproval { .. }
        | ApprovalReason::Replaces { .. }
        | ApprovalReason::Found(_) => None,
    })
}

fn last_digits(whose: &str, address: Address) -> TypedConfirmation {
    let digits = address.to_string();
    let at = digits.len().saturating_sub(DIGITS);
    TypedConfirmation {
        what: SafeText::clean(&format!("the last four characters of the {whose}'s address"), 80),
        expected: SafeText::clean(digits.get(at..).unwrap_or(&digits), DIGITS),
    }
}

/// Asks for the characters from the first difference on, since an attacker has matched those at both ends.
fn differing(who: Address, known: Address) -> TypedConfirmation {
    let (told, digits, others) = (who.to_string(), format!("{who:#x}"), format!("{known:#x}"));
    let equal = digits.bytes().zip(others.bytes()).take_while(|(one, other)| one == other).count();
    let at = equal.min(digits.len().saturating_sub(DIGITS));
    let (before, after) = told.split_at_checked(at).unwrap_or(("", &told));
    let what = format!("the four characters after {before} in the address that looks like another's");
    TypedConfirmation {
        what: SafeText::clean(&what, 160),
        expected: SafeText::clean(after.get(..DIGITS).unwrap_or(after), DIGITS),
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::address;

    use super::{differing, last_digits};

    #[test]
    fn for_a_similar_address_the_differing_digits_must_be_typed() {
        let known = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
        for (who, before, expected) in [
            (address!("70990000000000000000000000000000000079C8"), "0x7099", "0000"),
            (address!("70997970C51812dc3A010C7d01b50e0d17aa79C8"), "0x70997970C51812dc3A010C7d01b50e0d17", "aa79"),
            // The ends differ, and there are still four characters to type.
            (address!("70997970C51812dc3A010C7d01b50e0d17dc79C9"), "0x70997970C51812dc3A010C7d01b50e0d17dc", "79c9"),
        ] {
            let asked = differing(who, known);
            let (what, typed) = (asked.what.as_str().to_lowercase(), asked.expected.as_str().to_lowercase());
            assert!(what.contains(&format!("after {} in", before.to_lowercase())), "{what}");
            assert_eq!(typed, expected);
            // The known address has other characters at that position.
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
