//! The devnet's agents and their past.

use alloy::sol_types::SolEvent;

use super::*;
use crate::actors::Actors;
use crate::agents::population::{AGENTS, UriSetup};
use crate::agents::{account, agents_of};
use crate::boot::build_chain;
use crate::keys::DevnetAccount;
use crate::plan::{BASE, CHAINS, ChainSetup};
use bardo_abi::erc8004::ReputationRegistry::NewFeedback;
use bardo_abi::erc8004::{ReputationRegistry, ValidationRegistry};
use golem_protocols::erc8004::file::ReadRegistration;

fn field(plan: &'static ChainSetup) -> Field {
    let populated = furnished(plan).unwrap();
    let at = |name: &str| populated.deployment.contracts[name];
    Field {
        identity: at("identityRegistry"),
        reputation: at("reputationRegistry"),
        validation: at("validationRegistry"),
        chain: populated.chain,
    }
}

/// A chain whose market began at `began`.
fn begun(plan: &'static ChainSetup, began: u64) -> Field {
    let (chain, _) = build_chain(1, plan, &Actors::new().unwrap(), began, &|_| {}).unwrap();
    Field { chain, ..field(plan) }
}

fn id_of(plan: &ChainSetup, key: &str) -> U256 {
    U256::from(agents_of(plan).position(|agent| agent.key == key).unwrap())
}

#[test]
fn both_chains_have_the_registries_at_the_same_addresses() {
    let [ethereum, base] = CHAINS.map(field);
    assert_eq!(ethereum.identity, base.identity);
    assert_eq!(ethereum.reputation, base.reputation);
    assert_eq!(ethereum.validation, base.validation);
}

#[test]
fn the_agents_are_registered_as_planned() {
    for (plan, count) in [(CHAINS[0], 13), (&BASE, 7)] {
        let field = field(plan);
        assert_eq!(agents_of(plan).count(), count);
        for (id, agent) in agents_of(plan).enumerate() {
            let id = U256::from(id);
            let owner = account(agent.transferred_to.unwrap_or(agent.key)).unwrap().address();
            assert_eq!(field.owner(id), owner, "{}", agent.key);
            let wallet = match agent {
                agent if agent.transferred_to.is_some() => Address::ZERO,
                agent if agent.own_wallet => DevnetAccount::agent(&format!("{} wallet", agent.key)).unwrap().address(),
                _ => owner,
            };
            assert_eq!(field.wallet(id), wallet, "{}", agent.key);
            for (key, value) in agent.metadata {
                let call = IdentityRegistry::getMetadataCall { agentId: id, metadataKey: (*key).to_owned() };
                assert_eq!(field.read(field.identity, call).unwrap()[..], *value.as_bytes());
            }
            let uri = field.read(field.identity, IdentityRegistry::tokenURICall { tokenId: id }).unwrap();
            match agent.uri {
                UriSetup::Absent => assert_eq!(uri, ""),
                UriSetup::Elsewhere(address) => assert_eq!(uri, address),
                UriSetup::Embedded(file) => {
                    let read = ReadRegistration::read_data_uri(&uri).unwrap();
                    assert_eq!((read.active, read.x402_support), (file.active, file.x402));
                    let (number, registry) = read.registrations[0];
                    assert_eq!((U256::from(number), registry.address), (id, field.identity));
                    assert_eq!(registry.chain_id, plan.chain_id);
                }
            }
        }
        let next = U256::from(count);
        let beyond = field.read(field.identity, IdentityRegistry::ownerOfCall { tokenId: next });
        failed(beyond, Errors::ERC721NonexistentToken { tokenId: next });
    }
}

#[test]
fn a_registration_file_says_what_the_agent_offers() {
    let field = field(CHAINS[0]);
    let read = |key: &str| {
        let call = IdentityRegistry::tokenURICall { tokenId: id_of(CHAINS[0], key) };
        ReadRegistration::read_data_uri(&field.read(field.identity, call).unwrap()).unwrap()
    };
    let meridian = read("meridian");
    let texts =
        |list: &[bardo_base::text::SafeText]| list.iter().map(|text| text.as_str().to_owned()).collect::<Vec<_>>();
    let names: Vec<_> = meridian.services.iter().map(|service| service.name.as_str().to_owned()).collect();
    assert_eq!(names, ["MCP", "A2A", "ENS"]);
    assert_eq!(texts(&meridian.services[0].mcp_tools), ["quote_swap", "find_route", "estimate_gas"]);
    assert_eq!(texts(&meridian.services[0].mcp_prompts), ["explain_route"]);
    assert_eq!(texts(&meridian.services[0].mcp_resources), ["pools://weth-usdc"]);
    assert_eq!(texts(&meridian.services[1].a2a_skills), ["swap-routing", "quotes"]);
    // The hostile one is readable, and nothing of it reaches a terminal as it is.
    let siren = read("siren");
    assert!(siren.name.altered() && !siren.name.as_str().contains('\u{1b}'));
    assert!(siren.description.altered() && siren.services[0].a2a_skills[0].altered());
}

#[test]
fn the_past_is_of_the_weeks_before_the_start() {
    const BEGAN: u64 = 1_800_000_000;
    let field = begun(CHAINS[0], BEGAN);
    let mut times = Vec::new();
    for block in field.chain.blocks(0, field.chain.number()) {
        let is_feedback = |log: &Log| log.topics().first() == Some(&NewFeedback::SIGNATURE_HASH);
        let feedback = block.receipts.iter().flat_map(|receipt| receipt.logs()).filter(|log| is_feedback(log));
        times.extend(feedback.map(|_| block.header.timestamp));
    }
    assert_eq!(times.len(), 39);
    assert_eq!(times.first(), Some(&(BEGAN - 600 * 3_600)));
    assert_eq!(times.last(), Some(&(BEGAN - 24 * 3_600)));

    let clients = |key| {
        field.read(field.reputation, ReputationRegistry::getClientsCall { agentId: id_of(CHAINS[0], key) }).unwrap()
    };
    let summary = |key| {
        let (agent, none) = (id_of(CHAINS[0], key), String::new());
        let clients = clients(key);
        let call = ReputationRegistry::getSummaryCall {
            agentId: agent,
            clientAddresses: clients,
            tag1: none.clone(),
            tag2: none,
        };
        let summary = field.read(field.reputation, call).unwrap();
        (summary.count, summary.summaryValue, summary.summaryValueDecimals)
    };
    // (94 + 92.5 + 97 + 95 + 91 + 98 + 96) / 7 = 94.78…
    assert_eq!(summary("meridian"), (7, 94, 0));
    // (93 + 90 + 74 + 52 + 38) / 5 = 69.4; the revoked 15 does not count.
    assert_eq!(summary("copperline"), (5, 69, 0));
    assert_eq!(clients("meridian").len(), 6);
    assert!(clients("nameless").is_empty());
    let validations = ValidationRegistry::getSummaryCall {
        agentId: id_of(CHAINS[0], "meridian"),
        validatorAddresses: Vec::new(),
        tag: "tee-attestation".to_owned(),
    };
    let validations = field.read(field.validation, validations).unwrap();
    assert_eq!((validations.count, validations.avgResponse), (1, 97));
}

#[test]
fn the_past_fits_between_genesis_and_an_early_start() {
    let began = crate::snapshot::GENESIS_TIME + 3_600;
    for plan in CHAINS {
        let field = begun(plan, began);
        let times: Vec<_> = field.chain.blocks(0, field.chain.number()).map(|block| block.header.timestamp).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }
    assert_eq!(AGENTS.len(), 13);
}
