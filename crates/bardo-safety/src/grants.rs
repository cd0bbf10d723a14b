//! Spenders and recipients of an action, by its declaration and its calldata.
//!
//! The address book and the tool decide which of the book's contracts may take tokens at all. The policy decides about
//! addresses that are in no address book.

use std::collections::BTreeSet;

use alloy::primitives::{Address, B256};
use alloy::sol_types::SolCall as _;

use super::signing_payload::SigningPayload;
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::error::Violation;
use bardo_base::model::{RuleName, SpenderRole};
use golem_chain::network::{AddressBook, BookSpender, Network, NetworkKind, by_id};

/// Returns every address that may take tokens, even during one transaction of the plan only. Allowances of zero do not
/// count.
pub fn spenders(payload: &SigningPayload) -> BTreeSet<Address> {
    let mut spenders = allowed(payload);
    spenders.extend(payload.order().iter().flat_map(|order| order.message.takes()).map(|takes| takes.spender));
    spenders
}

/// Returns the [`spenders`] that get an allowance, on a token or inside Permit2. The others take tokens by a signed
/// order.
fn allowed(payload: &SigningPayload) -> BTreeSet<Address> {
    let bounds = payload.proposal().allowances.iter().filter(|bound| !bound.at_most.is_zero());
    let mut spenders: BTreeSet<Address> = bounds.map(|bound| bound.spender).collect();
    let inside = payload.legs().iter().flat_map(|leg| leg.slots.iter().map(|slot| &slot.message));
    spenders.extend(inside.flat_map(|message| message.takes()).map(|takes| takes.spender));
    for leg in payload.legs() {
        if let Ok(call) = Erc20::approveCall::abi_decode(&leg.data)
            && !call.value.is_zero()
        {
            spenders.insert(call.spender);
        }
        if let Ok(call) = Permit2::approveCall::abi_decode(&leg.data)
            && !call.amount.is_zero()
        {
            spenders.insert(call.spender);
        }
    }
    spenders
}

/// Returns every address that is declared to receive something.
pub fn receivers(payload: &SigningPayload) -> BTreeSet<Address> {
    let proposal = payload.proposal();
    let inflows = proposal.inflows.iter().map(|inflow| inflow.recipient);
    proposal.recipients.iter().copied().chain(inflows).collect()
}

/// Returns true if the address book and the tool let `spender` take tokens, without the policy.
pub fn known_spender(payload: &SigningPayload, book: &AddressBook, spender: Address) -> bool {
    match book.spender(spender) {
        BookSpender::Takes(role) => may_take(payload, role, spender),
        BookSpender::Unknown | BookSpender::Never { .. } => false,
    }
}

/// Returns spenders whose role only an address book file states, with the code hashes from that file (Keccak-256).
/// Roles from Bardo's built-in network data and from devnets are left out.
pub fn described(payload: &SigningPayload, network: &Network) -> Vec<(Address, Vec<B256>)> {
    if network.kind == NetworkKind::Devnet {
        return Vec::new();
    }
    let takes = |book: &AddressBook, spender| matches!(book.spender(spender), BookSpender::Takes(_));
    let bundled = |spender| by_id(network.chain_id).is_some_and(|known| takes(&known.book, spender));
    let by_file = spenders(payload).into_iter().filter(|one| takes(&network.book, *one) && !bundled(*one));
    let hashes = |spender| {
        let roles = network.book.contracts().filter(move |(_, at)| *at == spender);
        roles.filter_map(|(role, _)| network.book.code_hash(role)).collect()
    };
    by_file.map(|spender| (spender, hashes(spender))).collect()
}

fn may_take(payload: &SigningPayload, role: SpenderRole, spender: Address) -> bool {
    let by_order_only = role.by_signature_only() && !allowed(payload).contains(&spender);
    payload.proposal().tool.may_allow(role) && (by_order_only || !role.by_signature_only())
}

/// Returns address book entries that the action would let take tokens, or would pay, against their role. No policy can
/// allow these.
pub fn violations(payload: &SigningPayload, book: &AddressBook) -> Vec<Violation> {
    let mut violations = Vec::new();
    for spender in spenders(payload) {
        let why = match book.spender(spender) {
            BookSpender::Unknown => continue,
            BookSpender::Takes(role) if may_take(payload, role, spender) => continue,
            BookSpender::Takes(_) => {
                format!("{spender} takes tokens only through orders signed for it, so it must not get an allowance")
            }
            BookSpender::Never { name, why } => format!("{spender} is {name}: {why}"),
        };
        violations.push(Violation::new(
            RuleName::SpenderRole,
            "from the address book, only Permit2, routers, position managers and the tool's own spenders",
            why,
            "an allowance for one of those; no policy can allow this one",
        ));
    }
    let own = payload.exposed();
    for receiver in receivers(payload).into_iter().filter(|receiver| !own.contains(receiver)) {
        let Some(name) = book.swallows(receiver) else { continue };
        violations.push(Violation::new(
            RuleName::RecipientRole,
            "recipients that can send money back",
            format_args!("{receiver} is {name}: tokens sent there are lost, or anyone can take them"),
            "a recipient that is not in the address book",
        ));
    }
    violations
}
