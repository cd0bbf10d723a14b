//! ERC-8004 agents of the devnet: their registration at genesis, and their past before the market's history.
//!
//! Owners, clients and validators have accounts of their own and act in ordinary transactions.
//!
//! Not here: the registries' deployment (see `deploy`).

pub mod history;
pub mod population;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use alloy::sol_types::SolCall;

use super::actors::{TIP, UnsentTransaction, send_from};
use super::block_builder::BlockBuilder;
use super::error::SandboxError;
use super::genesis::Deployment;
use super::keys::{DevnetAccount, KeyError};
use super::plan::{BASE, ChainSetup};
use bardo_abi::erc8004::ReputationRegistry;
use golem_chain::devnet::{Chain, ChainTransaction};
use golem_protocols::erc8004::file::{AgentService, RegistrationFile, RegistryEntry, TYPE};
use golem_protocols::erc8004::{AgentRegistry, MAX_DEADLINE_SECONDS, RegistryCall, WalletChange};
use history::{PAST, PastAct, PastEvent};
use population::{AGENTS, AgentSetup, FileSetup, UriSetup};

/// Gas limit of a registration: 690 gas per byte of its URI, and more.
const REGISTRATION_GAS: u64 = 4_000_000;
/// Gas limit of any other transaction of an agent's owner, client or validator.
const WRITE_GAS: u64 = 500_000;

const SECONDS_PER_HOUR: u64 = 3_600;
const PAST_STEP: &str = "the agents' past";

/// Agents of a chain, in the order of their ids, which start at 0.
pub fn agents_of(plan: &ChainSetup) -> impl Iterator<Item = &'static AgentSetup> {
    let is_base = plan.chain_id == BASE.chain_id;
    AGENTS.iter().filter(move |agent| agent.on_base || !is_base)
}

/// Account of an owner, a client or a validator.
///
/// # Errors
/// [`KeyError`] if its key cannot be derived.
pub fn account(key: &str) -> Result<DevnetAccount, KeyError> {
    DevnetAccount::agent(key)
}

/// Addresses that need ether: all owners, clients and validators.
///
/// # Errors
/// As for [`account`].
pub(super) fn funded() -> Result<Vec<Address>, KeyError> {
    let owners = AGENTS.iter().flat_map(|agent| [Some(agent.key), agent.transferred_to]).flatten();
    let others = PAST.iter().filter_map(|event| match event.act {
        PastAct::Feedback { client, .. } => Some(client),
        PastAct::Validation { validator, .. } => Some(validator),
        PastAct::Revocation { .. } | PastAct::Response { .. } => None,
    });
    let mut keys: Vec<&str> = owners.chain(others).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(|key| Ok(account(key)?.address())).collect()
}

/// Rating of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRating {
    /// Token id of the rated agent.
    pub agent: U256,
    /// Rating from 0 to 100.
    pub value: u8,
    /// Tag of the rating; empty for none.
    pub tag: String,
}

/// Sends a rating from the account of this key: an owner of an agent, or a client of the devnet's past. It waits in the
/// pool for the next block.
///
/// # Errors
/// A [`SandboxError`] if the devnet has no such account, or the chain does not take the transaction.
pub fn rate(chain: &mut Chain, deployment: &Deployment, key: &str, rating: &AgentRating) -> Result<(), SandboxError> {
    let owns = agents_of(&deployment.plan).any(|agent| agent.key == key);
    let is_client = PAST.iter().any(|event| matches!(event.act, PastAct::Feedback { client, .. } if client == key));
    if !owns && !is_client {
        return Err(SandboxError::NoAgent(key.to_owned()));
    }
    let call = RegistryCall::GiveFeedback {
        agent: rating.agent,
        value: i128::from(rating.value),
        decimals: 0,
        tags: [rating.tag.clone(), String::new()],
        endpoint: String::new(),
        uri: String::new(),
        hash: B256::ZERO,
    };
    let reputation = Registries::of(deployment).reputation;
    send_from(chain, &account(key)?, write(reputation, call.calldata(), "rating an agent")).map(drop)
}

/// Registries of a chain.
#[derive(Debug, Clone, Copy)]
struct Registries {
    identity: AgentRegistry,
    reputation: Address,
    validation: Address,
}

impl Registries {
    fn of(deployment: &Deployment) -> Self {
        let named = |name: &'static str| deployment.contracts.get(name).copied().unwrap_or_default();
        let identity = AgentRegistry { chain_id: deployment.plan.chain_id, address: named("identityRegistry") };
        Self { identity, reputation: named("reputationRegistry"), validation: named("validationRegistry") }
    }
}

/// Registers all agents of the chain, sets their wallets, and transfers those that were sold.
///
/// # Errors
/// A [`SandboxError`] that names the failed step.
pub(super) fn register_agents(builder: &mut BlockBuilder<'_>, deployment: &Deployment) -> Result<(), SandboxError> {
    let Registries { identity, .. } = Registries::of(deployment);
    let agents: Vec<(U256, &AgentSetup)> = (0_u64..).map(U256::from).zip(agents_of(&deployment.plan)).collect();
    for (id, agent) in &agents {
        let uri = uri_of(agent, identity, *id)?;
        let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), Bytes::copy_from_slice(value.as_bytes()));
        let call = RegistryCall::Register { uri, metadata: agent.metadata.iter().map(entry).collect() };
        let registration = UnsentTransaction {
            gas: REGISTRATION_GAS,
            ..write(identity.address, call.calldata(), "registering an agent")
        };
        builder.send_from(&account(agent.key)?, registration)?;
    }
    builder.seal()?;

    let deadline = builder.chain.next_context().timestamp + MAX_DEADLINE_SECONDS;
    for (id, agent) in &agents {
        let owner = account(agent.key)?;
        if agent.own_wallet {
            let wallet = DevnetAccount::agent(&format!("{} wallet", agent.key))?;
            let change = WalletChange {
                registry: identity,
                agent: *id,
                new_wallet: wallet.address(),
                owner: owner.address(),
                deadline,
            };
            let signature = wallet.sign_digest(identity.chain_id, change.digest())?;
            builder
                .send_from(&owner, write(identity.address, change.calldata(signature), "setting an agent's wallet"))?;
        }
        if let Some(buyer) = agent.transferred_to {
            let to = account(buyer)?.address();
            let call = RegistryCall::Transfer { agent: *id, from: owner.address(), to };
            builder.send_from(&owner, write(identity.address, call.calldata(), "transferring an agent"))?;
        }
    }
    builder.seal()
}

/// URI of an agent. Its registration file names the agent's own id.
fn uri_of(agent: &AgentSetup, registry: AgentRegistry, id: U256) -> Result<String, SandboxError> {
    let setup = match agent.uri {
        UriSetup::Absent => return Ok(String::new()),
        UriSetup::Elsewhere(uri) => return Ok(uri.to_owned()),
        UriSetup::Embedded(setup) => setup,
    };
    let owned = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
    let service = |name: &str, endpoint: &str, version: Option<&str>| AgentService {
        name: name.to_owned(),
        endpoint: endpoint.to_owned(),
        version: version.map(str::to_owned),
        ..AgentService::default()
    };
    let FileSetup { name, description, image, mcp, a2a, ens, did, x402, active, trust } = setup;
    let mut services = Vec::new();
    services.extend(mcp.map(|mcp| AgentService {
        mcp_tools: owned(mcp.tools),
        mcp_prompts: owned(mcp.prompts),
        mcp_resources: owned(mcp.resources),
        ..service("MCP", mcp.endpoint, Some("2025-06-18"))
    }));
    services.extend(a2a.map(|(endpoint, skills)| AgentService {
        a2a_skills: owned(skills),
        ..service("A2A", endpoint, Some("0.3.0"))
    }));
    services.extend(ens.map(|name| service("ENS", name, Some("v1"))));
    services.extend(did.map(|did| service("DID", did, Some("v1"))));
    let file = RegistrationFile {
        kind: TYPE.to_owned(),
        name: name.to_owned(),
        description: description.to_owned(),
        image: image.to_owned(),
        services,
        x402_support: x402,
        active,
        registrations: vec![RegistryEntry { agent_id: id.saturating_to(), agent_registry: registry.to_string() }],
        supported_trust: owned(trust),
    };
    Ok(file.data_uri()?)
}

/// A block of the agents' past.
#[derive(Debug, Clone)]
pub struct PastBlock {
    /// Time before the market's begin, in hours.
    pub hours: u64,
    /// Transactions, in order.
    pub transactions: Vec<ChainTransaction>,
}

/// Signs the agents' past, oldest block first. It depends on nothing but the chain after genesis, so it is signed once
/// and bundled: signing costs more than executing. The copy of the chain is used to execute it.
///
/// # Errors
/// A [`SandboxError`] if a transaction fails.
pub(super) fn sign_past(mut chain: Chain, deployment: &Deployment) -> Result<Vec<PastBlock>, SandboxError> {
    let registries = Registries::of(deployment);
    let ids: BTreeMap<&str, (U256, &AgentSetup)> = (0_u64..)
        .map(U256::from)
        .zip(agents_of(&deployment.plan))
        .map(|(id, agent)| (agent.key, (id, agent)))
        .collect();
    let mut accounts = Accounts::default();
    let mut past = Vec::new();
    for events in PAST.chunk_by(|one, next| one.hours == next.hours) {
        let mut present =
            events.iter().filter_map(|event| ids.get(event.agent).map(|agent| (event, *agent))).peekable();
        let Some(hours) = present.peek().map(|(event, _)| event.hours) else { continue };
        for (event, (id, agent)) in present {
            for (sender, unsent) in transactions(event, id, agent, registries, &mut accounts)? {
                send_from(&mut chain, accounts.get(sender)?, unsent)?;
            }
        }
        let transactions = mine_past(&mut chain)?;
        past.push(PastBlock { hours, transactions });
    }
    Ok(past)
}

/// Produces the agents' past before `began`, in seconds since the Unix epoch. If the chain is younger than the past,
/// the oldest blocks follow its head.
///
/// # Errors
/// A [`SandboxError`] if the chain refuses a transaction, or one fails.
pub(super) fn replay_past(chain: &mut Chain, past: &[PastBlock], began: u64) -> Result<(), SandboxError> {
    for PastBlock { hours, transactions } in past {
        let wanted = began.saturating_sub(hours * SECONDS_PER_HOUR);
        chain.set_next_timestamp(wanted.max(chain.head().header.timestamp + 1))?;
        for transaction in transactions {
            let refused = |source| SandboxError::Refused { step: PAST_STEP, source };
            chain.submit(transaction.clone()).map_err(refused)?;
        }
        mine_past(chain)?;
    }
    Ok(())
}

/// Mines a block of which no transaction may fail; returns its transactions.
fn mine_past(chain: &mut Chain) -> Result<Vec<ChainTransaction>, SandboxError> {
    let block = chain.mine();
    match block.receipts.iter().find_map(|receipt| receipt.failure.clone()) {
        Some(failure) => Err(SandboxError::Failed { step: PAST_STEP, failure }),
        None => Ok(block.transactions.iter().map(|transaction| ChainTransaction::clone(transaction)).collect()),
    }
}

/// Accounts by key, each derived once.
#[derive(Debug, Default)]
struct Accounts(BTreeMap<&'static str, DevnetAccount>);

impl Accounts {
    fn get(&mut self, key: &'static str) -> Result<&DevnetAccount, KeyError> {
        match self.0.entry(key) {
            std::collections::btree_map::Entry::Occupied(known) => Ok(known.into_mut()),
            std::collections::btree_map::Entry::Vacant(free) => Ok(free.insert(account(key)?)),
        }
    }
}

/// Transactions of an event with the keys of their senders, in order.
fn transactions(
    event: &PastEvent,
    id: U256,
    agent: &AgentSetup,
    registries: Registries,
    accounts: &mut Accounts,
) -> Result<Vec<(&'static str, UnsentTransaction)>, SandboxError> {
    let Registries { reputation, validation, .. } = registries;
    let owner = agent.transferred_to.unwrap_or(agent.key);
    Ok(match event.act {
        PastAct::Feedback { client, value, decimals, tags } => {
            let (endpoint, uri, hash) = (String::new(), String::new(), B256::ZERO);
            let tags = tags.map(str::to_owned);
            let call = RegistryCall::GiveFeedback { agent: id, value, decimals, tags, endpoint, uri, hash };
            vec![(client, write(reputation, call.calldata(), "giving feedback"))]
        }
        PastAct::Revocation { client } => {
            let call = RegistryCall::RevokeFeedback { agent: id, index: 1 };
            vec![(client, write(reputation, call.calldata(), "revoking feedback"))]
        }
        PastAct::Response { client, uri } => {
            let call = ReputationRegistry::appendResponseCall {
                agentId: id,
                clientAddress: accounts.get(client)?.address(),
                feedbackIndex: 1,
                responseURI: uri.to_owned(),
                responseHash: keccak256(uri),
            };
            vec![(owner, write(reputation, call.abi_encode().into(), "responding to feedback"))]
        }
        PastAct::Validation { validator, response, tag } => {
            let uri = format!("https://{}.example/validation.json", event.agent.replace(' ', "-"));
            let request = keccak256(format!("{uri} {}", event.hours));
            let address = accounts.get(validator)?.address();
            let call = RegistryCall::RequestValidation { validator: address, agent: id, uri, hash: request };
            let mut sent = vec![(owner, write(validation, call.calldata(), "requesting a validation"))];
            if let Some(response) = response {
                let (uri, hash, tag) = (String::new(), B256::ZERO, tag.to_owned());
                let call = RegistryCall::RespondValidation { request, response, uri, hash, tag };
                sent.push((validator, write(validation, call.calldata(), "responding to a validation request")));
            }
            sent
        }
    })
}

fn write(to: Address, input: Bytes, step: &'static str) -> UnsentTransaction {
    UnsentTransaction { to: TxKind::Call(to), value: U256::ZERO, input, gas: WRITE_GAS, tip: TIP, step }
}
