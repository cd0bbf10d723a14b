//! Spenders and recipients of an action, by its declaration and its calldata.
//!
//! The address book and the tool decide which of the book's contracts may take tokens at all. The policy decides about
//! addresses that are in no address book.

use std::collections::BTreeSet;

use alloy::primitives::{Address, B256};
use alloy::sol_types::SolCall;

use super::signing_payload::SigningPayload;
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::error::Violation;
use bardo_base::model::{RuleName, SpenderRole};
use golem_chain::devnet::PUBLIC_KEY_ACCOUNTS;
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
    for inner in payload.legs().iter().map(|leg| leg.call(payload.account())) {
        if let Some(call) = decoded::<Erc20::approveCall>(&inner.data)
            && !call.value.is_zero()
        {
            spenders.insert(call.spender);
        }
        if let Some(call) = decoded::<Permit2::approveCall>(&inner.data)
            && !call.amount.is_zero()
        {
            spenders.insert(call.spender);
        }
    }
    spenders
}

/// Decodes a call of one function; `None` for any other. The selector is compared first: for another one, the library
/// writes an error text that nobody reads, and most calls are none of these.
fn decoded<C: SolCall>(data: &[u8]) -> Option<C> {
    if data.starts_with(&C::SELECTOR) { C::abi_decode(data).ok() } else { None }
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

/// Returns address book entries that the action would let take tokens, or would pay, against their role, and accounts
/// that anyone can empty. No policy can allow these.
pub fn violations(payload: &SigningPayload, network: &Network) -> Vec<Violation> {
    let book = &network.book;
    let mut violations = with_public_keys(payload, network);
    for spender in spenders(payload) {
        let why = match book.spender(spender) {
            BookSpender::Unknown => continue,
            BookSpender::Takes(role) if may_take(payload, role, spender) => continue,
            BookSpender::Takes(role) if role.by_signature_only() => {
                format!("{spender} takes tokens only through orders signed for it, so it must not get an allowance")
            }
            BookSpender::Takes(_) => {
                format!(
                    "{spender} takes tokens only for the tool that deposits them, which allows it no more than that"
                )
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
    let own = payload.account();
    for receiver in receivers(payload).into_iter().filter(|receiver| *receiver != own) {
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

/// Returns accounts of the well-known development mnemonic that the action would pay or let take tokens. On devnets
/// they are the usual counterparties. On a rehearsal the live network decides, so that the rehearsal shows the refusal.
fn with_public_keys(payload: &SigningPayload, network: &Network) -> Vec<Violation> {
    if network.rehearses.map_or(network.kind, |live| live.kind()) == NetworkKind::Devnet {
        return Vec::new();
    }
    let own = payload.account();
    let parties = [(RuleName::RecipientRole, receivers(payload)), (RuleName::SpenderRole, spenders(payload))];
    let mut violations = Vec::new();
    for (rule, addresses) in parties {
        let is_public = |address: &&Address| PUBLIC_KEY_ACCOUNTS.contains(*address) && **address != own;
        for address in addresses.iter().filter(is_public) {
            violations.push(Violation::new(
                rule,
                "addresses whose keys are not public",
                format_args!("{address} is a development account: its key is public, so anyone can take what it gets"),
                "an address whose key only its owner has; no policy can allow this one",
            ));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use alloy::primitives::aliases::U48;
    use alloy::primitives::{Bytes, U160, U256, address};

    use super::*;
    use crate::AccountKind;
    use crate::custody::safe::execution;
    use crate::proposal::{AllowanceBound, AllowanceKind, ProposalIntent};
    use crate::sample;
    use golem_chain::network::{LiveBlock, named};

    const ME: Address = Address::repeat_byte(1);
    /// Second and last account of the mnemonic, as Hardhat prints them.
    const PUBLIC: [Address; 2] =
        [address!("70997970C51812dc3A010C7d01b50e0d17dc79C8"), address!("8626f6940E2eb28930eFb4CeF49B2d1F2C9C1199")];

    fn rules(account: Address, paid: Address, network: &Network) -> Vec<String> {
        let mut proposal = sample::proposal(account, ProposalIntent::Transfer, sample::leg(paid, Bytes::new()));
        proposal.recipients = vec![paid];
        proposal.allowances = vec![AllowanceBound {
            token: sample::token(Address::repeat_byte(2), "IN", 6),
            spender: paid,
            kind: AllowanceKind::Erc20,
            at_most: U256::from(1),
        }];
        let payload = SigningPayload::new(sample::frame(proposal)).unwrap();
        violations(&payload, network).iter().map(|one| one.rule.to_string()).collect()
    }

    /// An allowance that the plan itself revokes is in no bound: only the calldata has its spender.
    #[test]
    fn the_spender_of_an_allowance_inside_a_safes_call_is_seen() {
        let (spender, token) = (Address::repeat_byte(7), Address::repeat_byte(2));
        for data in [
            Erc20::approveCall { spender, value: U256::from(5) }.abi_encode(),
            Permit2::approveCall { token, spender, amount: U160::from(5), expiration: U48::from(9) }.abi_encode(),
        ] {
            let proposal = sample::proposal(ME, ProposalIntent::Vault, sample::leg(token, Bytes::from(data)));
            let mut parts = sample::frame(proposal);
            let plain = SigningPayload::new(parts.clone()).unwrap();
            let owner = Address::repeat_byte(8);
            let wrapped = execution(owner, &parts.proposal.legs[0]);
            (parts.kind, parts.signer, parts.payer) = (AccountKind::Safe, owner, owner);
            let leg = &mut parts.legs[0];
            (leg.from, leg.to, leg.data) = (owner, ME, wrapped);
            let carried = SigningPayload::new(parts).unwrap();
            assert_eq!((spenders(&plain), spenders(&carried)), ([spender].into(), [spender].into()));
        }
    }

    #[test]
    fn an_account_whose_key_is_public_gets_nothing_outside_devnets() {
        let network = |name: &str| named().iter().find(|one| one.name == name).unwrap().clone();
        let (base, sepolia) = (network("base"), network("sepolia"));
        let block = |chain_id| LiveBlock { chain_id, number: 1, hash: B256::ZERO, timestamp: 1 };
        let devnet = Network::devnet("ethereum", 31_337, AddressBook::default());
        let rehearsal = Network::rehearsal(&base, 31_337, block(8_453));
        let of_devnet = Network::rehearsal(&devnet, 31_338, block(31_337));
        for paid in PUBLIC {
            for live in [&base, &sepolia, &Network::unknown("mine", 77), &rehearsal] {
                assert_eq!(rules(ME, paid, live), ["recipient_role", "spender_role"], "{paid} on {}", live.name);
            }
            for play in [&devnet, &of_devnet] {
                assert_eq!(rules(ME, paid, play), [""; 0], "{paid} on {}", play.name);
            }
            assert_eq!(rules(paid, paid, &base), [""; 0], "the account itself");
        }
        assert_eq!(rules(ME, Address::repeat_byte(9), &base), [""; 0]);
    }
}
