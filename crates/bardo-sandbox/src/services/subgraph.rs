//! Subgraph of a devnet chain's agents, with the entities of the published one
//! (<https://github.com/agent0lab/subgraph>): agents, their feedback, and the last indexed block.
//!
//! The entities are folded from the chain's logs for each query, so that it is never behind unless a query asks for
//! it: `?behind=N` answers as it was N blocks ago.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Log, U256};
use alloy::sol_types::SolEventInterface as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::graphql::{self, Entities};
use super::{HttpAnswer, invalid, refused};
use crate::Sandbox;
use bardo_abi::erc8004::IdentityRegistry::IdentityRegistryEvents;
use bardo_abi::erc8004::ReputationRegistry::ReputationRegistryEvents;
use golem_protocols::erc8004::AgentRegistry;
use golem_protocols::erc8004::directory::{AgentDirectory, RegistrySet};
use golem_protocols::erc8004::file::{ReadRegistration, ReadService};

/// Answers a GraphQL request about the chain of this name or id, as it was `behind` blocks ago.
pub(super) async fn ask(sandbox: &Sandbox, chain: &str, behind: u64, body: &Value) -> Result<HttpAnswer, HttpAnswer> {
    let found = sandbox.chain(chain).ok_or_else(|| invalid(format_args!("{chain} is not a chain of this devnet")))?;
    let query = body.get("query").and_then(Value::as_str).ok_or_else(|| invalid("\"query\" is missing"))?;
    let named = |name: &'static str| found.deployment.contracts.get(name).copied().unwrap_or_default();
    let registries = RegistrySet {
        identity: AgentRegistry { chain_id: found.deployment.plan.chain_id, address: named("identityRegistry") },
        reputation: named("reputationRegistry"),
        validation: None,
    };
    let wanted = registries.addresses();
    let logs = found.devnet.run(move |chain| {
        let last = chain.number().saturating_sub(behind);
        let mut logs = Vec::new();
        for block in chain.blocks(0, last) {
            let all = block.receipts.iter().flat_map(|receipt| receipt.logs());
            let own = all.filter(|log| wanted.contains(&log.address));
            logs.extend(own.map(|log| (log.clone(), block.header.timestamp)));
        }
        let hash = chain.blocks(last, last).next().map(|block| block.hash).unwrap_or_default();
        (last, hash, logs)
    });
    let (number, hash, logs) = logs.await.map_err(|error| refused(503, "ServiceUnavailable", error))?;
    let meta = json!({"block": {"number": number, "hash": hash}, "hasIndexingErrors": false, "deployment": "devnet"});
    let variables = body.get("variables").unwrap_or(&Value::Null);
    Ok((
        200,
        match graphql::answer(query, variables, &entities(registries, &logs), &meta) {
            Ok(data) => json!({ "data": data }),
            Err(error) => json!({"data": null, "errors": [{"message": error.to_string()}]}),
        },
    ))
}

/// Facts of the logs that the directory does not keep.
#[derive(Default)]
struct RawLogs {
    uris: BTreeMap<U256, String>,
    feedback: Vec<RawFeedback>,
}

struct RawFeedback {
    agent: U256,
    client: Address,
    index: u64,
    value: String,
    tags: [String; 2],
    endpoint: String,
    uri: String,
    hash: B256,
    time: u64,
    revoked_at: Option<u64>,
}

fn entities(registries: RegistrySet, logs: &[(Log, u64)]) -> Entities {
    let mut directory = AgentDirectory::new(registries);
    let mut raw = RawLogs::default();
    for (log, time) in logs {
        directory.apply(log, *time);
        raw.apply(registries, log, *time);
    }
    let chain_id = registries.identity.chain_id;
    let mut agents = Vec::new();
    for (id, agent) in directory.agents() {
        let uri = raw.uris.get(&id).cloned().unwrap_or_default();
        let own = format!("{chain_id}:{id}");
        agents.push(json!({
            "id": own, "chainId": chain_id.to_string(), "agentId": id.to_string(),
            "owner": lower(agent.owner), "operators": [], "agentURI": uri, "agentURIType": kind(&uri),
            "agentWallet": agent.wallet.map(lower),
            "createdAt": agent.registered.to_string(), "updatedAt": agent.last_event.to_string(),
            "lastActivity": agent.last_event.to_string(), "totalFeedback": agent.feedback.len().to_string(),
            "registrationFile": agent.file.read().map(|file| registration(file, &own, agent.registered)),
        }));
    }
    let feedback = raw.feedback.iter().map(|given| given.entity(chain_id)).collect();
    [("agents", agents), ("feedbacks", feedback), ("agentMetadatas", Vec::new()), ("feedbackResponses", Vec::new())]
        .into()
}

impl RawLogs {
    fn apply(&mut self, registries: RegistrySet, log: &Log, time: u64) {
        if log.address == registries.identity.address {
            match IdentityRegistryEvents::decode_log(log).map(|event| event.data) {
                Ok(IdentityRegistryEvents::Registered(event)) => {
                    self.uris.insert(event.agentId, event.agentURI);
                }
                Ok(IdentityRegistryEvents::URIUpdated(event)) => {
                    self.uris.insert(event.agentId, event.newURI);
                }
                Ok(IdentityRegistryEvents::Transfer(_) | IdentityRegistryEvents::MetadataSet(_)) | Err(_) => {}
            }
            return;
        }
        match ReputationRegistryEvents::decode_log(log).map(|event| event.data) {
            Ok(ReputationRegistryEvents::NewFeedback(event)) => self.feedback.push(RawFeedback {
                agent: event.agentId,
                client: event.clientAddress,
                index: event.feedbackIndex,
                value: decimal(event.value, event.valueDecimals),
                tags: [event.tag1, event.tag2],
                endpoint: event.endpoint,
                uri: event.feedbackURI,
                hash: event.feedbackHash,
                time,
                revoked_at: None,
            }),
            Ok(ReputationRegistryEvents::FeedbackRevoked(event)) => {
                let same = |given: &&mut RawFeedback| {
                    (given.agent, given.client, given.index)
                        == (event.agentId, event.clientAddress, event.feedbackIndex)
                };
                if let Some(given) = self.feedback.iter_mut().find(same) {
                    given.revoked_at = Some(time);
                }
            }
            Ok(_) | Err(_) => {}
        }
    }
}

impl RawFeedback {
    fn entity(&self, chain_id: u64) -> Value {
        let agent = format!("{chain_id}:{}", self.agent);
        let id = format!("{agent}:{}:{}", lower(self.client), self.index);
        let [tag1, tag2] = &self.tags;
        json!({
            "id": id, "agent": {"id": agent, "agentId": self.agent.to_string(), "chainId": chain_id.to_string()},
            "clientAddress": lower(self.client), "feedbackIndex": self.index.to_string(), "value": self.value,
            "tag1": tag1, "tag2": tag2, "endpoint": self.endpoint, "feedbackURI": self.uri,
            "feedbackURIType": kind(&self.uri), "feedbackHash": self.hash, "isRevoked": self.revoked_at.is_some(),
            "createdAt": self.time.to_string(), "revokedAt": self.revoked_at.map(|time| time.to_string()),
            "feedbackFile": self.file(&id), "responses": [],
        })
    }

    /// The file in a data URI; files elsewhere are not read here.
    fn file(&self, id: &str) -> Option<Value> {
        let encoded = self.uri.strip_prefix("data:application/json;base64,")?;
        let file: Value = serde_json::from_slice(&STANDARD.decode(encoded).ok()?).ok()?;
        let field = |name: &str| file.get(name).cloned().unwrap_or_default();
        Some(json!({
            "id": id, "feedbackId": id, "text": field("text"), "tag1": field("tag1"), "tag2": field("tag2"),
            "mcpTool": field("mcpTool"), "mcpPrompt": field("mcpPrompt"), "mcpResource": field("mcpResource"),
            "a2aSkills": field("a2aSkills"), "a2aContextId": field("a2aContextId"), "a2aTaskId": field("a2aTaskId"),
            "oasfSkills": field("oasfSkills"), "oasfDomains": field("oasfDomains"),
            "proofOfPaymentFromAddress": null, "proofOfPaymentToAddress": null, "proofOfPaymentChainId": null,
            "proofOfPaymentTxHash": null, "createdAt": self.time.to_string(),
        }))
    }
}

fn registration(file: &ReadRegistration, id: &str, created: u64) -> Value {
    let of = |protocol: &str| file.service(protocol);
    let endpoint = |protocol: &str| of(protocol).map(|service| service.endpoint.to_string());
    let version = |protocol: &str| of(protocol).and_then(|service| service.version.as_ref().map(ToString::to_string));
    let names = |protocol: &str, list: fn(&ReadService) -> &Vec<bardo_base::text::SafeText>| {
        of(protocol)
            .map(|service| list(service).iter().map(ToString::to_string).collect::<Vec<_>>())
            .unwrap_or_default()
    };
    let trusts: Vec<String> = file.supported_trust.iter().map(ToString::to_string).collect();
    json!({
        "id": id, "agentId": id, "cid": null, "name": file.name.as_str(), "description": file.description.as_str(),
        "image": file.image.as_str(), "active": file.active, "x402Support": file.x402_support,
        "supportedTrusts": trusts, "mcpEndpoint": endpoint("mcp"), "mcpVersion": version("mcp"),
        "a2aEndpoint": endpoint("a2a"), "a2aVersion": version("a2a"), "webEndpoint": endpoint("web"),
        "emailEndpoint": endpoint("email"), "oasfEndpoint": endpoint("oasf"), "hasOASF": of("oasf").is_some(),
        "oasfSkills": [], "oasfDomains": [], "ens": endpoint("ens"), "did": endpoint("did"),
        "mcpTools": names("mcp", |service| &service.mcp_tools),
        "mcpPrompts": names("mcp", |service| &service.mcp_prompts),
        "mcpResources": names("mcp", |service| &service.mcp_resources),
        "a2aSkills": names("a2a", |service| &service.a2a_skills), "createdAt": created.to_string(),
    })
}

fn lower(address: Address) -> String {
    address.to_string().to_lowercase()
}

fn kind(uri: &str) -> &'static str {
    match uri.split_once(':').map(|(scheme, _)| scheme) {
        Some("ipfs") => "ipfs",
        Some("https") => "https",
        Some("http") => "http",
        Some("data") => "data",
        _ => "unknown",
    }
}

/// Value of feedback in decimal digits.
fn decimal(value: i128, decimals: u8) -> String {
    let places = usize::from(decimals);
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = places.saturating_add(1));
    let (whole, part) = digits.split_at(digits.len().saturating_sub(places));
    let part = part.trim_end_matches('0');
    let sign = if value < 0 { "-" } else { "" };
    if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_with_their_decimals() {
        for (value, decimals, wanted) in [(8_500, 2, "85"), (9_250, 2, "92.5"), (-5, 3, "-0.005"), (0, 0, "0")] {
            assert_eq!(decimal(value, decimals), wanted);
        }
    }
}
