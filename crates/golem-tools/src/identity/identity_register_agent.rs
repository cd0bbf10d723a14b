//! `identity_register_agent`: registers an agent of this account, with its registration file on the chain or in IPFS.

use alloy::primitives::U256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::index;
use super::publish::PublishedFile;
use super::write::{self, ChainNamed, MAX_LONG_TEXT, MAX_TEXT, RegistryWrite, endpoint, events, published};
use crate::blocks::newest;
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::shared::{CHECKS, PlanReceipt, invalid};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use golem_protocols::erc8004::directory::RegistrySet;
use golem_protocols::erc8004::file::{AgentService, RegistrationFile, RegistryEntry, TYPE};
use golem_protocols::erc8004::{AgentId, RegistryCall, RegistryEvent};

/// Definition of the `identity_register_agent` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<RegisterAgent>();

/// Maximum number of names in a list of the file.
const MAX_NAMES: usize = 32;

/// Parameters of `identity_register_agent`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Name of the agent.
    name: String,
    /// Description of its purpose.
    #[serde(default)]
    description: Option<String>,
    /// IPFS hash or URL of its image.
    #[serde(default)]
    image: Option<String>,
    /// Content of the registration file: services, endpoints and trust models.
    registration: RegistrationInput,
    /// Chain name, alias or id; defaults to the network's first chain.
    #[serde(default)]
    chain_id: Option<ChainNamed>,
}

/// Content of the registration file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RegistrationInput {
    /// https URL of its MCP server.
    #[serde(default)]
    tool_endpoint: Option<String>,
    /// Version of the MCP protocol.
    #[serde(default)]
    tool_version: Option<String>,
    /// Names of the MCP server's tools.
    #[serde(default)]
    tools: Option<Vec<String>>,
    /// Names of the MCP server's prompts.
    #[serde(default)]
    prompts: Option<Vec<String>>,
    /// Names of the MCP server's resources.
    #[serde(default)]
    resources: Option<Vec<String>>,
    /// https URL of its A2A agent card.
    #[serde(default)]
    a2a_endpoint: Option<String>,
    /// Version of the A2A protocol.
    #[serde(default)]
    a2a_version: Option<String>,
    /// Names of its A2A skills.
    #[serde(default)]
    a2a_skills: Option<Vec<String>>,
    /// ENS name that points to it.
    #[serde(default)]
    ens: Option<String>,
    /// Decentralised identifier (DID) of the agent.
    #[serde(default)]
    did: Option<String>,
    /// True if it accepts payments by x402.
    #[serde(default)]
    x402_support: Option<bool>,
    /// Names of the supported trust models; by default "reputation" alone.
    #[serde(default)]
    supported_trusts: Option<Vec<String>>,
}

/// Result of `identity_register_agent`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Id of the new agent, by the registry's event; absent before confirmation.
    agent_id: Option<String>,
    /// EIP-155 id of the chain.
    chain_id: u64,
    /// Gas used, in gas units.
    gas_used: u64,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// URL of the transaction; absent if none was sent.
    explorer_url: Option<String>,
    /// Address of the registration file in IPFS; absent for a file on the chain.
    file_location: Option<String>,
    /// Reason why the file is not in IPFS although the chain names it; absent if there is none.
    file_problem: Option<String>,
}

/// Values kept from preparation for the result.
pub struct RegistrationPlan {
    registries: RegistrySet,
    file: PublishedFile,
    name: String,
    /// Id that the registration file names.
    expected: U256,
}

/// Implementation of `identity_register_agent`; see [`TOOL_DEF`].
pub struct RegisterAgent;

impl WriteTool for RegisterAgent {
    const META: ToolMeta = ToolMeta {
        name: "identity_register_agent",
        description: "Registers an agent of this account in the ERC-8004 identity registry, with its registration file \
                      on chain, or in IPFS where a node is configured. It cannot be undone, and everything in it is \
                      public. Every safety check applies.",
        category: Category::Identity,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Uploading metadata to IPFS", "Building registration tx", "Simulating", "Broadcasting"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Registers an agent on chain, irreversibly and in public. Use it once, at the first setup.",
        prompt_guidelines: Guidelines {
            thriving: "Register once, at the first setup. Check every field first.",
            cautious: "The same, and check that the endpoints can be reached.",
            declining: "Not relevant.",
            terminal: "Not relevant.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: CHECKS,
        event_params: &["name", "chain_id"],
        summary_fields: &["tx_hash", "agent_id"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = RegistrationPlan;

    fn example() -> Value {
        json!({"name": "Demo Golem", "description": "Swaps on Uniswap.", "chain_id": 31337,
            "registration": {"a2a_endpoint": "https://golem.example/.well-known/agent-card.json", "a2a_skills": ["swap"]}})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, RegistrationPlan), ToolError> {
        let chain = write::chain_or_first(context, params.chain_id.as_ref())?;
        let account = context.world.account(None)?;
        let registries = index::registries(chain)?;
        let head = newest(chain).await?;
        index::check_code(chain, &registries, head.hash).await?;
        let mut file = registration_file(&params)?;
        context.step("Building registration tx");
        // The file names the agent's own id, which the registry assigns: a trial shows it.
        let registry = registries.identity.address;
        let trial = RegistryCall::Register { uri: String::new(), metadata: Vec::new() };
        let trial = RegistryWrite { chain, account, registry, call: trial }.simulate().await?;
        let registered =
            trial.logs.iter().filter(|log| log.address == registry).find_map(|log| match RegistryEvent::decode(log) {
                Ok(RegistryEvent::Registered { agent, .. }) => Some(agent),
                Ok(_) | Err(_) => None,
            });
        let expected = registered.ok_or_else(|| {
            ToolError::new(ErrorCode::SafetySimulationFailed, "the registry's registration has no event Registered")
        })?;
        let agent_id = u64::try_from(expected).map_err(|_| invalid("chain_id", &"its agents' ids are too large"))?;
        file.registrations.push(RegistryEntry { agent_id, agent_registry: registries.identity.to_string() });
        let published = PublishedFile::prepare(context, bytes(&file)?).await?;
        let call = RegistryCall::Register { uri: published.uri(), metadata: Vec::new() };
        let write = RegistryWrite { chain, account, registry, call };
        let summary = format!("Register agent \"{}\" for {account} on {}", file.name, chain.network());
        let proposal = write.propose(context, vec![account], &summary).await?;
        let proposal = Proposal { files: published.beside_calldata(), ..proposal };
        Ok((proposal, RegistrationPlan { registries, file: published, name: file.name, expected }))
    }

    async fn complete(context: &CallContext, plan: &mut RegistrationPlan, committed: &CommitOutcome) {
        plan.file.store(context, Some("Uploading metadata to IPFS"), committed).await;
    }

    fn output(
        context: &CallContext,
        plan: RegistrationPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        let sent = PlanReceipt::of(context, committed)?;
        let chain_id = committed.payload.proposal().chain_id;
        let registered = events(committed, &plan.registries).into_iter().find_map(|event| match event {
            RegistryEvent::Registered { agent, .. } => Some(agent),
            _ => None,
        });
        let id = registered.map(|number| AgentId { chain_id, number });
        let done = match id {
            Some(id) if id.number != plan.expected => format!(
                "Agent \"{}\" is registered as {id}, while its file names {}: call identity_update_metadata to correct it",
                plan.name, plan.expected
            ),
            Some(id) => format!("Agent \"{}\" is registered as {id}", plan.name),
            None => format!("Register agent \"{}\"", plan.name),
        };
        let explanation = sent.explain(&done);
        let output = Output {
            tx_hash: sent.tx_hash,
            agent_id: id.map(|id| id.to_string()),
            chain_id,
            gas_used: sent.gas_used,
            block_number: sent.block_number,
            explorer_url: sent.explorer_url,
            file_location: plan.file.location(),
            file_problem: plan.file.problem(),
        };
        Ok(ToolReply::new(output, explanation))
    }
}

/// Bytes of the file.
pub(super) fn bytes(file: &RegistrationFile) -> Result<Vec<u8>, ToolError> {
    file.bytes().map_err(|error| ToolError::new(ErrorCode::ToolPanicked, error))
}

fn registration_file(params: &Params) -> Result<RegistrationFile, ToolError> {
    let input = &params.registration;
    let text = |parameter: &str, value: &Option<String>| {
        value.as_deref().map(|value| published(parameter, value, MAX_TEXT)).transpose()
    };
    let url =
        |parameter: &str, value: &Option<String>| value.as_deref().map(|value| endpoint(parameter, value)).transpose();
    let named =
        |name: &str, endpoint: String| AgentService { name: name.to_owned(), endpoint, ..AgentService::default() };
    let mut services = Vec::new();
    if let Some(endpoint) = url("tool_endpoint", &input.tool_endpoint)? {
        let version = text("tool_version", &input.tool_version)?;
        let list = |parameter: &str, list: &Option<Vec<String>>| names(parameter, list.as_deref().unwrap_or_default());
        services.push(AgentService {
            version,
            mcp_tools: list("tools", &input.tools)?,
            mcp_prompts: list("prompts", &input.prompts)?,
            mcp_resources: list("resources", &input.resources)?,
            ..named("MCP", endpoint)
        });
    } else if input.tool_version.is_some()
        || [&input.tools, &input.prompts, &input.resources].into_iter().any(Option::is_some)
    {
        return Err(invalid("tool_version", &"version, tools, prompts and resources need a tool_endpoint"));
    }
    if let Some(endpoint) = url("a2a_endpoint", &input.a2a_endpoint)? {
        let version = text("a2a_version", &input.a2a_version)?;
        let a2a_skills = names("a2a_skills", input.a2a_skills.as_deref().unwrap_or_default())?;
        services.push(AgentService { version, a2a_skills, ..named("A2A", endpoint) });
    } else if input.a2a_version.is_some() || input.a2a_skills.is_some() {
        return Err(invalid("a2a_skills", &"skills and version need an a2a_endpoint"));
    }
    if let Some(name) = text("ens", &input.ens)? {
        if !is_ens_name(&name) {
            return Err(invalid("ens", &format_args!("{name}; expected a name such as agent.example.eth")));
        }
        services.push(named("ENS", name));
    }
    if let Some(did) = text("did", &input.did)? {
        if !is_did(&did) {
            return Err(invalid("did", &format_args!("{did}; expected did:METHOD:ID, such as did:web:agent.example")));
        }
        services.push(named("DID", did));
    }
    let description = params.description.as_deref();
    Ok(RegistrationFile {
        kind: TYPE.to_owned(),
        name: published("name", &params.name, MAX_TEXT)?,
        description: description
            .map(|text| published("description", text, MAX_LONG_TEXT))
            .transpose()?
            .unwrap_or_default(),
        image: params.image.as_deref().map(|text| write::image("image", text)).transpose()?.unwrap_or_default(),
        services,
        x402_support: input.x402_support.unwrap_or_default(),
        active: true,
        registrations: Vec::new(),
        supported_trust: match &input.supported_trusts {
            Some(models) => names("supported_trusts", models)?,
            None => vec!["reputation".to_owned()],
        },
    })
}

/// Returns true if the text has the form of a name in ENS: labels without spaces, at least two, none of them empty.
fn is_ens_name(text: &str) -> bool {
    let labels = || text.split('.');
    labels().count() >= 2
        && labels()
            .all(|label| !label.is_empty() && !label.contains(|one: char| one.is_whitespace() || "/:".contains(one)))
}

/// Returns true if the text has the form of a decentralized identifier ([DID](https://www.w3.org/TR/did-core/#did-syntax)).
fn is_did(text: &str) -> bool {
    let Some((method, id)) = text.strip_prefix("did:").and_then(|rest| rest.split_once(':')) else { return false };
    let is_id_char = |one: char| one.is_ascii_alphanumeric() || ".-_:%".contains(one);
    !method.is_empty()
        && method.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit())
        && !id.is_empty()
        && !id.ends_with(':')
        && id.chars().all(is_id_char)
}

fn names(parameter: &str, list: &[String]) -> Result<Vec<String>, ToolError> {
    if list.len() > MAX_NAMES {
        return Err(invalid(parameter, &format_args!("at most {MAX_NAMES} entries")));
    }
    list.iter().map(|name| published(parameter, name, MAX_TEXT)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forms by ENSIP-15 and section 3.1 of DID Core.
    #[test]
    fn names_in_ens_and_identifiers_have_their_forms() {
        for name in ["agent.eth", "my.agent.example.eth", "agent.example.com"] {
            assert!(is_ens_name(name), "{name}");
        }
        for name in ["not a name", "agent", ".eth", "agent..eth", "agent.eth.", "https://agent.eth", "agent .eth"] {
            assert!(!is_ens_name(name), "{name}");
        }
        for did in
            ["did:web:agent.example", "did:example:123456789abcdefghi", "did:ethr:0x1:0xb9c5", "did:web:a%3A80:b"]
        {
            assert!(is_did(did), "{did}");
        }
        for did in ["nodid", "did:web", "did:web:", "did::id", "did:Web:id", "web:id", "did:web:a b", "did:web:a:"] {
            assert!(!is_did(did), "{did}");
        }
    }
}
