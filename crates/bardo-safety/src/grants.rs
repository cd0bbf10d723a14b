//! Spenders and recipients of an action, from its declaration and its bytes.
//!
//! The address book and the tool determine which of the book's contracts may take tokens. The policy decides about all
//! other addresses.

use std::collections::BTreeSet;

use alloy::primitives::{Address, B256};
use alloy::sol_types::SolCall as _;

use super::framed::Framed;
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::error::Violation;
use bardo_base::model::{RuleName, SpenderRole};
use golem_chain::network::{AddressBook, BookSpender, Network, NetworkKind, by_id};

/// Returns every address that may take tokens, even during a single transaction of the plan. A zero allowance does not
/// count.
pub fn spenders(framed: &Framed) -> BTreeSet<Address> {
    let mut spenders = allowed(framed);
    spenders.extend(framed.order().iter().flat_map(|order| order.message.takes()).map(|takes| takes.spender));
    spenders
}

/// The part of [`spenders`] that gets an allowance, on a token or inside Permit2. The others take tokens through a
/// signed order.
fn allowed(framed: &Framed) -> BTreeSet<Address> {
    let bounds = framed.proposal().allowances.iter().filter(|bound| !bound.at_most.is_zero());
    let mut spenders: BTreeSet<Address> = bounds.map(|bound| bound.spender).collect();
    let inside = framed.legs().iter().flat_map(|leg| leg.slots.iter().map(|slot| &slot.message));
    spenders.extend(inside.flat_map(|message| message.takes()).map(|takes| takes.spender));
    for leg in framed.legs() {
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

/// Returns every recipient of the action.
pub fn receivers(framed: &Framed) -> BTreeSet<Address> {
    let proposal = framed.proposal();
    let inflows = proposal.inflows.iter().map(|inflow| inflow.recipient);
    proposal.recipients.iter().copied().chain(inflows).collect()
}

/// Returns true if the address book and the tool alone permit the action to let `spender` take tokens.
pub fn known_spender(framed: &Framed, book: &AddressBook, spender: Address) -> bool {
    match book.spender(spender) {
        BookSpender::Takes(role) => may_take(framed, role, spender),
        BookSpender::Unknown | BookSpender::Never { .. } => false,
    }
}

/// Returns the spenders whose role comes from an address book file only, each with the code hashes in that file. Roles
/// from Bardo's bundled address books are not included, nor those of a devnet.
pub fn described(framed: &Framed, network: &Network) -> Vec<(Address, Vec<B256>)> {
    if network.kind == NetworkKind::Devnet {
        return Vec::new();
    }
    let takes = |book: &AddressBook, spender| matches!(book.spender(spender), BookSpender::Takes(_));
    let bundled = |spender| by_id(network.chain_id).is_some_and(|known| takes(&known.book, spender));
    let by_file = spenders(framed).into_iter().filter(|one| takes(&network.book, *one) && !bundled(*one));
    let hashes = |spender| {
        let roles = network.book.contracts().filter(move |(_, at)| *at == spender);
        roles.filter_map(|(role, _)| network.book.code_hash(role)).collect()
    };
    by_file.map(|spender| (spender, hashes(spender))).collect()
}

fn may_take(framed: &Framed, role: SpenderRole, spender: Address) -> bool {
    let by_order_only = role.by_signature_only() && !allowed(framed).contains(&spender);
    framed.proposal().tool.may_allow(role) && (by_order_only || !role.by_signature_only())
}

/// Returns the violations by address book entries that must not become spenders or recipients. No policy can permit
/// these.
pub fn violations(framed: &Framed, book: &AddressBook) -> Vec<Violation> {
    let mut violations = Vec::new();
    for spender in spenders(framed) {
        let why = match book.spender(spender) {
            BookSpender::Unknown => continue,
            BookSpender::Takes(role) if may_take(framed, role, spender) => continue,
            BookSpender::Takes(_) => {
                format!("{spender} takes tokens only by orders signed for it, and gets no allowance")
            }
            BookSpender::Never { name, why } => format!("{spender} is {name}: {why}"),
        };
        violations.push(Violation::new(
            RuleName::SpenderRole,
            "of the address book, only Permit2, routers, position managers and what the tool itself needs",
            why,
            "an allowance for one of those; no policy can allow this one",
        ));
    }
    let own = framed.exposed();
    for receiver in receivers(framed).into_iter().filter(|receiver| !own.contains(receiver)) {
        let Some(name) = book.swallows(receiver) else { continue };
        violations.push(Violation::new(
            RuleName::RecipientRole,
            "recipients that can send money back",
            format_args!("{receiver} is {name}: tokens sent there are lost, or anyone can take them"),
            "a recipient that is not an entry of the address book",
        ));
    }
    violations
}
