//! Client of a subgraph of the registries, with the names of the published one
//! (<https://github.com/agent0lab/subgraph>).
//!
//! A subgraph is asked for one thing: which agents there are, with the texts of their files. It may be behind, belong to
//! another chain, leave agents out or invent them. Whatever is shown or counted is read from the registries.

use std::str::FromStr as _;
use std::time::Duration;

use alloy::primitives::{Address, B256, U256};
use serde_json::{Value, json};

use super::file::{ReadRegistration, ReadService};
use bardo_base::config::RpcUrl;
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use golem_chain::service::{JsonService, ServiceUrlError};

/// Number of agents of a request. With texts of usual length, it stays below the client's limit of 1 MiB.
const PAGE: usize = 500;
/// Maximum number of requests for agents: hosted subgraphs skip at most 5,000 entries.
const MAX_PAGES: usize = 10;
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of names in a list.
const MAX_NAMES: usize = 256;
const MAX_CHARS: usize = 512;
/// Maximum length of the address of a file, in characters.
const MAX_URI_CHARS: usize = 2_048;
const MAX_DESCRIPTION_CHARS: usize = 4_096;

const QUERY: &str = "query Agents($first: Int!, $skip: Int!) {
  _meta { block { number hash } hasIndexingErrors }
  agents(first: $first, skip: $skip, orderBy: lastActivity, orderDirection: desc) {
    chainId agentId owner agentURI lastActivity
    registrationFile {
      name description active mcpEndpoint a2aEndpoint supportedTrusts mcpTools mcpPrompts mcpResources a2aSkills
    }
  }
}";

/// Subgraph of one chain's registries.
#[derive(Debug, Clone)]
pub struct Subgraph {
    service: JsonService,
}

/// Agents by a subgraph, none of which is confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubgraphAgents {
    /// Number and hash of the last block that it has indexed.
    pub block: (u64, B256),
    /// The agents, the last active first.
    pub agents: Vec<SubgraphAgent>,
    /// True if there are more agents than were read.
    pub is_cut: bool,
}

/// Agent by a subgraph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubgraphAgent {
    /// Token id in the identity registry.
    pub id: U256,
    /// Account that owns it; `None` if the subgraph does not say.
    pub owner: Option<Address>,
    /// Address of its registration file, cleaned and cut; empty if the subgraph does not say.
    pub uri: SafeText,
    /// Time of its last event, in seconds since the Unix epoch.
    pub last_event: u64,
    /// Texts of its registration file; `None` if the subgraph has none.
    pub file: Option<ReadRegistration>,
}

/// Reason why a subgraph was not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubgraphError {
    /// The subgraph does not answer.
    #[error("the subgraph does not answer: {0}")]
    Service(#[from] ServiceError),
    /// The subgraph rejects the query.
    #[error("the subgraph rejects the query: {0}")]
    Rejected(SafeText),
    /// The answer does not have the expected form.
    #[error("the subgraph's answer has no {0}")]
    Without(&'static str),
    /// The subgraph failed while it indexed, so that its content is incomplete.
    #[error("the subgraph failed while it indexed")]
    Failed,
    /// The subgraph is of another chain.
    #[error("the subgraph is of the chain {0}")]
    OtherChain(SafeText),
    /// The subgraph went on to another block between two pages.
    #[error("the subgraph changed while it was read")]
    Moved,
}

impl Subgraph {
    /// Creates a client of the subgraph at `url`.
    ///
    /// # Errors
    /// [`ServiceUrlError`] unless the address is https, or http on this machine.
    pub fn new(url: &RpcUrl) -> Result<Self, ServiceUrlError> {
        Ok(Self { service: JsonService::new(url.expose().as_str())?.within(TIMEOUT) })
    }

    /// Reads the agents of chain `chain_id`.
    ///
    /// # Errors
    /// A [`SubgraphError`] if its answer cannot be used.
    pub async fn agents(&self, chain_id: u64) -> Result<SubgraphAgents, SubgraphError> {
        let mut read: Option<SubgraphAgents> = None;
        for page in 0..MAX_PAGES {
            let variables = json!({"first": PAGE, "skip": page.saturating_mul(PAGE)});
            let answer = self.service.ask("", &json!({"query": QUERY, "variables": variables})).await?;
            let (block, agents) = parsed(&answer, chain_id)?;
            let is_last = agents.len() < PAGE;
            let all = read.get_or_insert_with(|| SubgraphAgents { block, agents: Vec::new(), is_cut: true });
            if all.block != block {
                // Entries move between pages as the subgraph goes on, so that some would be missed.
                return Err(SubgraphError::Moved);
            }
            all.agents.extend(agents);
            all.is_cut = !is_last;
            if is_last {
                break;
            }
        }
        read.ok_or(SubgraphError::Without("agents"))
    }
}

type SubgraphPage = ((u64, B256), Vec<SubgraphAgent>);

fn parsed(answer: &Value, chain_id: u64) -> Result<SubgraphPage, SubgraphError> {
    if let Some(errors) = answer.get("errors").and_then(Value::as_array).filter(|errors| !errors.is_empty()) {
        let first = errors.first().and_then(|error| error.get("message")).and_then(Value::as_str).unwrap_or_default();
        return Err(SubgraphError::Rejected(SafeText::clean(first, 200)));
    }
    let data = answer.get("data").ok_or(SubgraphError::Without("data"))?;
    let meta = data.get("_meta").ok_or(SubgraphError::Without("block"))?;
    if meta.get("hasIndexingErrors").and_then(Value::as_bool) != Some(false) {
        return Err(SubgraphError::Failed);
    }
    let number = meta.pointer("/block/number").and_then(Value::as_u64).ok_or(SubgraphError::Without("block"))?;
    let hash = meta.pointer("/block/hash").and_then(Value::as_str).and_then(|hash| B256::from_str(hash).ok());
    let hash = hash.ok_or(SubgraphError::Without("block"))?;
    let entries = data.get("agents").and_then(Value::as_array).ok_or(SubgraphError::Without("agents"))?;
    let mut agents = Vec::new();
    for entry in entries.iter().take(PAGE) {
        let digits = |name: &str| match entry.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) | None => String::new(),
        };
        if digits("chainId") != chain_id.to_string() {
            return Err(SubgraphError::OtherChain(SafeText::clean(&digits("chainId"), 40)));
        }
        let id = U256::from_str_radix(&digits("agentId"), 10).map_err(|_| SubgraphError::Without("agent's number"))?;
        let file = entry.get("registrationFile").filter(|file| file.is_object()).map(file);
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        agents.push(SubgraphAgent {
            id,
            owner: text("owner").parse().ok(),
            uri: SafeText::clean(text("agentURI"), MAX_URI_CHARS),
            last_event: digits("lastActivity").parse().unwrap_or_default(),
            file,
        });
    }
    Ok(((number, hash), agents))
}

/// Texts of a file, as far as a search reads them.
fn file(file: &Value) -> ReadRegistration {
    let raw = |name: &str| file.get(name).and_then(Value::as_str).unwrap_or_default();
    let names = |name: &str| -> Vec<SafeText> {
        let list = file.get(name).and_then(Value::as_array).into_iter().flatten().take(MAX_NAMES);
        list.filter_map(Value::as_str).map(|text| SafeText::clean(text, MAX_CHARS)).collect()
    };
    let service = |name: &str, endpoint: &str| ReadService {
        name: SafeText::clean(name, MAX_CHARS),
        endpoint: SafeText::clean(endpoint, MAX_CHARS),
        version: None,
        mcp_tools: Vec::new(),
        mcp_prompts: Vec::new(),
        mcp_resources: Vec::new(),
        a2a_skills: Vec::new(),
    };
    let mut services = Vec::new();
    if !raw("mcpEndpoint").is_empty() {
        services.push(ReadService {
            mcp_tools: names("mcpTools"),
            mcp_prompts: names("mcpPrompts"),
            mcp_resources: names("mcpResources"),
            ..service("MCP", raw("mcpEndpoint"))
        });
    }
    if !raw("a2aEndpoint").is_empty() {
        services.push(ReadService { a2a_skills: names("a2aSkills"), ..service("A2A", raw("a2aEndpoint")) });
    }
    ReadRegistration {
        name: SafeText::clean(raw("name"), MAX_CHARS),
        description: SafeText::clean(raw("description"), MAX_DESCRIPTION_CHARS),
        image: SafeText::default(),
        services,
        x402_support: false,
        active: file.get("active").and_then(Value::as_bool).unwrap_or_default(),
        registrations: Vec::new(),
        supported_trust: names("supportedTrusts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Value {
        json!({"data": {
            "_meta": {"block": {"number": 7, "hash": B256::repeat_byte(3)}, "hasIndexingErrors": false},
            "agents": [
                {"chainId": "1", "agentId": "42", "lastActivity": "1700000000", "registrationFile": {
                    "name": "Ro\u{202e}uter", "description": "Finds routes.", "active": true,
                    "mcpEndpoint": "https://a.example/mcp", "mcpTools": ["quote", 7], "a2aEndpoint": null,
                }},
                {"chainId": 1, "agentId": 43, "lastActivity": 5, "registrationFile": null},
            ],
        }})
    }

    #[test]
    fn agents_are_read_with_their_texts_cleaned() {
        let (block, agents) = parsed(&answer(), 1).unwrap();
        assert_eq!(block, (7, B256::repeat_byte(3)));
        let file = agents[0].file.as_ref().unwrap();
        assert!(file.name.altered() && file.service("mcp").is_some() && file.service("a2a").is_none());
        assert_eq!(file.services[0].mcp_tools.len(), 1);
        assert_eq!((agents[1].id, agents[1].last_event, &agents[1].file), (U256::from(43), 5, &None));
    }

    #[test]
    fn an_answer_that_cannot_be_true_is_not_used() {
        let changed = |pointer: &str, value: Value| {
            let mut answer = answer();
            *answer.pointer_mut(pointer).unwrap() = value;
            parsed(&answer, 1).unwrap_err()
        };
        assert_eq!(changed("/data/_meta/hasIndexingErrors", json!(true)), SubgraphError::Failed);
        assert_eq!(changed("/data/_meta/hasIndexingErrors", Value::Null), SubgraphError::Failed);
        assert_eq!(changed("/data/_meta/block/hash", json!("0x12")), SubgraphError::Without("block"));
        assert_eq!(changed("/data/agents/0/agentId", json!("-1")), SubgraphError::Without("agent's number"));
        assert!(matches!(changed("/data/agents/1/chainId", json!("10")), SubgraphError::OtherChain(_)));
        assert_eq!(changed("/data/agents", Value::Null), SubgraphError::Without("agents"));
        let rejected = parsed(&json!({"errors": [{"message": "no field"}], "data": null}), 1).unwrap_err();
        assert!(rejected.to_string().contains("no field"));
        assert_eq!(parsed(&json!([]), 1).unwrap_err(), SubgraphError::Without("data"));
    }
}
