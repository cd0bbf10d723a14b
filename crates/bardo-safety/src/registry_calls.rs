//! Calls of a proposal to the ERC-8004 registries: their rules, the changes that they declare, and the events that prove
//! them. Everything here follows from the calldata and from the address book.

use std::collections::BTreeMap;

use alloy::primitives::{Address, Bytes, Log, U256};

use crate::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use bardo_base::model::CapabilityTier;
use golem_chain::fork::NftChange;
use golem_chain::network::{AddressBook, KnownContract};
use golem_protocols::erc8004::publication::is_named;
use golem_protocols::erc8004::{RegistryCall, RegistryEvent, RegistryKind, RuleError};

/// Maximum size of a file that a call names, in bytes. The operator reads all of it.
const MAX_FILE: usize = 64 * 1024;

/// Registries of a chain by address.
pub type Registries = BTreeMap<Address, RegistryKind>;

/// Returns the registries of the address book.
pub fn registries(book: &AddressBook) -> Registries {
    let known = [
        (KnownContract::IdentityRegistry, RegistryKind::Identity),
        (KnownContract::ReputationRegistry, RegistryKind::Reputation),
        (KnownContract::ValidationRegistry, RegistryKind::Validation),
    ];
    known.into_iter().filter_map(|(contract, kind)| Some((book.contract(contract)?, kind))).collect()
}

/// Reason why a call to a registry is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryCallError {
    /// The action is not declared as a change of an identity.
    #[error("registries of agents can only be called by an identity tool")]
    Beside,
    /// The action is declared as a change of an identity and calls another contract.
    #[error("a change of an identity calls only the registries of agents in the address book")]
    Elsewhere,
    /// The plan does more than call a registry.
    #[error("a change of an identity sends no value, signs no message and moves no tokens")]
    MovesTokens,
    /// A file that no call names, or one that is too large.
    #[error("a file outside the chain must be named by its content identifier, and have at most 64 KiB")]
    File,
    /// The calldata is none of the allowed calls.
    #[error("unknown call of a registry of agents")]
    Unknown,
    /// The registry would reject the call.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A transfer by a tool that is not privileged.
    #[error("only a privileged tool can transfer an agent")]
    NotPrivileged,
    /// A transfer of an agent of another account, or to an address that is not declared.
    #[error("an agent can only be transferred from the account itself to the declared recipient")]
    Transfer,
}

/// Decodes a call of a proposal to a registry.
///
/// # Errors
/// [`RegistryCallError`] if the call must not be signed.
pub fn decode(leg: &PlanLeg, proposal: &Proposal, registries: &Registries) -> Result<RegistryCall, RegistryCallError> {
    let Some(kind) = registries.get(&leg.to) else { return Err(RegistryCallError::Elsewhere) };
    if proposal.intent != ProposalIntent::Identity {
        return Err(RegistryCallError::Beside);
    }
    let moves = !leg.value.is_zero()
        || !leg.slots.is_empty()
        || leg.purpose != LegPurpose::Main
        || !proposal.outflows.is_empty()
        || !proposal.inflows.is_empty()
        || !proposal.allowances.is_empty()
        || proposal.order.is_some();
    if moves {
        return Err(RegistryCallError::MovesTokens);
    }
    let call = RegistryCall::decode(*kind, &leg.data).ok_or(RegistryCallError::Unknown)?;
    call.check(proposal.account, &[])?;
    let fits = |file: &Bytes| file.len() <= MAX_FILE && is_named(file, std::iter::once(&call));
    if !proposal.files.iter().all(fits) {
        return Err(RegistryCallError::File);
    }
    if let RegistryCall::Transfer { from, to, .. } = &call {
        if proposal.tool.capability != CapabilityTier::Privileged {
            return Err(RegistryCallError::NotPrivileged);
        }
        if *from != proposal.account || *to == proposal.account || !proposal.recipients.contains(to) {
            return Err(RegistryCallError::Transfer);
        }
    }
    Ok(call)
}

/// Calls of a proposal that may be signed, with their registries.
pub fn calls<'a>(
    proposal: &'a Proposal,
    registries: &'a Registries,
) -> impl Iterator<Item = (Address, RegistryCall)> + 'a {
    proposal.legs.iter().filter_map(|leg| Some((leg.to, decode(leg, proposal, registries).ok()?)))
}

/// Returns true if a proposal that changes an identity calls the contract at `address`, which is then a registry.
pub fn is_called(proposal: &Proposal, registries: &Registries, address: Address) -> bool {
    calls(proposal, registries).any(|(called, _)| called == address)
}

/// Returns true if the calldata declares that a single token moves as in `change`: the new agent of a registration, or
/// the agent of a transfer.
pub fn declares(proposal: &Proposal, registries: &Registries, change: &NftChange) -> bool {
    calls(proposal, registries).any(|(registry, call)| {
        registry == change.collection
            && match call {
                RegistryCall::Register { .. } => change.who.before.is_zero() && change.who.after == proposal.account,
                RegistryCall::Transfer { agent, from, to } => {
                    (change.id, change.who.before, change.who.after) == (agent, from, to)
                }
                RegistryCall::SetUri { .. }
                | RegistryCall::SetMetadata { .. }
                | RegistryCall::GiveFeedback { .. }
                | RegistryCall::RevokeFeedback { .. }
                | RegistryCall::RequestValidation { .. }
                | RegistryCall::RespondValidation { .. } => false,
            }
    })
}

/// Returns true if a call of the proposal moves an agent: a registration or a transfer.
pub fn moves_an_agent(proposal: &Proposal, registries: &Registries) -> bool {
    calls(proposal, registries)
        .any(|(_, call)| matches!(call, RegistryCall::Register { .. } | RegistryCall::Transfer { .. }))
}

/// Number of agents that `holder` has after the calls of a proposal, if it has `before` of `collection` now; `None` if no
/// call moves an agent of it.
pub fn agents_after(
    proposal: &Proposal,
    registries: &Registries,
    (collection, holder): (Address, Address),
    before: U256,
) -> Option<U256> {
    let one = U256::from(1);
    let mut after = None;
    for (_, call) in calls(proposal, registries).filter(|(registry, _)| *registry == collection) {
        let now = after.unwrap_or(before);
        after = match call {
            RegistryCall::Register { .. } if holder == proposal.account => now.checked_add(one),
            RegistryCall::Transfer { to, .. } if holder == to => now.checked_add(one),
            RegistryCall::Transfer { from, .. } if holder == from => now.checked_sub(one),
            _ => after,
        };
    }
    after
}

/// Returns a call of which the receipts contain no event; `None` if every call is proven.
pub fn unproven(proposal: &Proposal, registries: &Registries, logs: &[&Log]) -> Option<&'static str> {
    calls(proposal, registries).find_map(|(registry, call)| {
        let mut events = logs.iter().filter(|log| log.address == registry);
        let proven = events.any(|log| RegistryEvent::decode(log).is_ok_and(|event| proves(proposal, &call, &event)));
        (!proven).then(|| expected_event(&call))
    })
}

fn expected_event(call: &RegistryCall) -> &'static str {
    match call {
        RegistryCall::Register { .. } => "Registered",
        RegistryCall::SetUri { .. } => "URIUpdated",
        RegistryCall::SetMetadata { .. } => "MetadataSet",
        RegistryCall::Transfer { .. } => "Transfer",
        RegistryCall::GiveFeedback { .. } => "NewFeedback",
        RegistryCall::RevokeFeedback { .. } => "FeedbackRevoked",
        RegistryCall::RequestValidation { .. } => "ValidationRequest",
        RegistryCall::RespondValidation { .. } => "ValidationResponse",
    }
}

/// Returns true if the event says what the call does. Texts are cleaned in events, so only figures and accounts count.
fn proves(proposal: &Proposal, call: &RegistryCall, event: &RegistryEvent) -> bool {
    let account = proposal.account;
    match (call, event) {
        (RegistryCall::Register { .. }, RegistryEvent::Registered { owner, .. }) => *owner == account,
        (RegistryCall::SetUri { agent, .. }, RegistryEvent::UriUpdated { agent: of, by, .. }) => {
            agent == of && *by == account
        }
        (RegistryCall::SetMetadata { agent, value, .. }, RegistryEvent::MetadataSet { agent: of, value: set, .. }) => {
            agent == of && value == set
        }
        (
            RegistryCall::Transfer { agent, from, to },
            RegistryEvent::Transferred { agent: of, from: giver, to: taker },
        ) => (agent, from, to) == (of, giver, taker),
        (
            RegistryCall::GiveFeedback { agent, value, decimals, .. },
            RegistryEvent::Feedback { agent: of, client, value: given, decimals: places, .. },
        ) => (agent, value, decimals) == (of, given, places) && *client == account,
        (
            RegistryCall::RevokeFeedback { agent, index },
            RegistryEvent::FeedbackRevoked { agent: of, client, index: revoked },
        ) => (agent, index) == (of, revoked) && *client == account,
        (
            RegistryCall::RequestValidation { validator, agent, hash, .. },
            RegistryEvent::ValidationRequested { validator: by, agent: of, request, .. },
        ) => (validator, agent, hash) == (by, of, request),
        (
            RegistryCall::RespondValidation { request, response, .. },
            RegistryEvent::ValidationAnswered { validator, request: of, response: given, .. },
        ) => (request, response) == (of, given) && *validator == account,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::address;
    use alloy::sol_types::{SolCall, SolEvent};

    use super::*;
    use crate::sample;
    use bardo_abi::erc8004::IdentityRegistry;
    use golem_chain::fork::ValueChange;
    use golem_protocols::erc8004::publication::content_uri;

    const IDENTITY: Address = address!("0x0000000000000000000000000000000000008001");
    const ME: Address = address!("0x00000000000000000000000000000000000000a1");
    const OTHER: Address = address!("0x00000000000000000000000000000000000000a2");

    fn known() -> Registries {
        [(IDENTITY, RegistryKind::Identity)].into()
    }

    fn proposal(data: Bytes) -> Proposal {
        let leg = PlanLeg { to: IDENTITY, ..sample::leg(IDENTITY, data) };
        Proposal { recipients: vec![OTHER], ..sample::proposal(ME, ProposalIntent::Identity, leg) }
    }

    fn privileged(data: Bytes) -> Proposal {
        let mut proposal = proposal(data);
        proposal.tool.capability = CapabilityTier::Privileged;
        proposal
    }

    fn judged(proposal: &Proposal) -> Result<RegistryCall, RegistryCallError> {
        decode(&proposal.legs[0], proposal, &known())
    }

    #[test]
    fn only_a_privileged_tool_transfers_an_agent_and_only_to_the_declared_recipient() {
        let transfer = |from, to| RegistryCall::Transfer { agent: U256::from(3), from, to }.calldata();
        assert_eq!(judged(&proposal(transfer(ME, OTHER))), Err(RegistryCallError::NotPrivileged));
        assert!(judged(&privileged(transfer(ME, OTHER))).is_ok());
        assert_eq!(judged(&privileged(transfer(OTHER, ME))), Err(RegistryCallError::Transfer));
        assert_eq!(judged(&privileged(transfer(ME, IDENTITY))), Err(RegistryCallError::Transfer));
        assert_eq!(judged(&privileged(transfer(ME, Address::ZERO))), Err(RuleError::NoRecipient.into()));
    }

    #[test]
    fn approvals_other_contracts_and_other_intents_are_never_signed() {
        let everything = IdentityRegistry::setApprovalForAllCall { operator: OTHER, approved: true }.abi_encode();
        let single = IdentityRegistry::approveCall { to: OTHER, tokenId: U256::from(3) }.abi_encode();
        for data in [everything, single, vec![1, 2, 3, 4]] {
            assert_eq!(judged(&privileged(data.into())), Err(RegistryCallError::Unknown));
        }
        let register = || RegistryCall::Register { uri: String::new(), metadata: Vec::new() }.calldata();
        assert!(judged(&proposal(register())).is_ok());
        let mut elsewhere = proposal(register());
        elsewhere.legs[0].to = OTHER;
        assert_eq!(judged(&elsewhere), Err(RegistryCallError::Elsewhere));
        assert_eq!(
            judged(&Proposal { intent: ProposalIntent::Swap, ..proposal(register()) }),
            Err(RegistryCallError::Beside)
        );
        let mut paying = proposal(register());
        paying.legs[0].value = U256::from(1);
        assert_eq!(judged(&paying), Err(RegistryCallError::MovesTokens));
        let wallet = vec![("agentWallet".to_owned(), Bytes::copy_from_slice(OTHER.as_slice()))];
        let reserved = RegistryCall::Register { uri: String::new(), metadata: wallet };
        assert_eq!(judged(&proposal(reserved.calldata())), Err(RuleError::ReservedKey.into()));
    }

    #[test]
    fn a_file_outside_the_chain_is_named_by_the_call_and_short_enough_to_be_read() {
        let file = Bytes::from_static(b"{\"name\":\"Careful\"}");
        let register =
            |file: &Bytes| RegistryCall::Register { uri: content_uri(file), metadata: Vec::new() }.calldata();
        let with = |data: Bytes, files: Vec<Bytes>| judged(&Proposal { files, ..proposal(data) });
        assert!(with(register(&file), vec![file.clone()]).is_ok());
        let other = Bytes::from_static(b"{\"name\":\"Careless\"}");
        assert_eq!(with(register(&file), vec![other.clone()]), Err(RegistryCallError::File));
        assert_eq!(with(register(&file), vec![file, other]), Err(RegistryCallError::File));
        let long = Bytes::from(vec![b' '; MAX_FILE + 1]);
        assert_eq!(with(register(&long), vec![long.clone()]), Err(RegistryCallError::File));
    }

    #[test]
    fn a_single_token_may_move_only_as_the_calldata_says() {
        let change = |collection, id: u64, before, after| NftChange {
            collection,
            id: U256::from(id),
            who: ValueChange { before, after },
        };
        let transfer = privileged(RegistryCall::Transfer { agent: U256::from(3), from: ME, to: OTHER }.calldata());
        assert!(declares(&transfer, &known(), &change(IDENTITY, 3, ME, OTHER)));
        for other in [
            change(IDENTITY, 4, ME, OTHER),
            change(IDENTITY, 3, ME, IDENTITY),
            change(OTHER, 3, ME, OTHER),
            change(IDENTITY, 3, OTHER, ME),
        ] {
            assert!(!declares(&transfer, &known(), &other), "{other:?}");
        }
        assert_eq!(agents_after(&transfer, &known(), (IDENTITY, ME), U256::from(2)), Some(U256::from(1)));
        assert_eq!(agents_after(&transfer, &known(), (OTHER, ME), U256::from(2)), None);
        let register = proposal(RegistryCall::Register { uri: String::new(), metadata: Vec::new() }.calldata());
        assert!(declares(&register, &known(), &change(IDENTITY, 13, Address::ZERO, ME)));
        assert!(!declares(&register, &known(), &change(IDENTITY, 3, ME, OTHER)));
        assert!(!declares(&register, &known(), &change(IDENTITY, 3, OTHER, ME)));
        let set = proposal(RegistryCall::SetUri { agent: U256::from(3), uri: String::new() }.calldata());
        assert!(!declares(&set, &known(), &change(IDENTITY, 3, ME, OTHER)));
    }

    #[test]
    fn a_call_is_proven_by_its_own_event_of_its_own_registry() {
        let transfer = privileged(RegistryCall::Transfer { agent: U256::from(3), from: ME, to: OTHER }.calldata());
        let log = |address, to| {
            let event = IdentityRegistry::Transfer { from: ME, to, tokenId: U256::from(3) };
            Log { address, data: event.encode_log_data() }
        };
        assert_eq!(unproven(&transfer, &known(), &[&log(IDENTITY, OTHER)]), None);
        for other in [log(OTHER, OTHER), log(IDENTITY, ME)] {
            assert_eq!(unproven(&transfer, &known(), &[&other]), Some("Transfer"));
        }
        assert_eq!(unproven(&transfer, &known(), &[]), Some("Transfer"));
    }
}
