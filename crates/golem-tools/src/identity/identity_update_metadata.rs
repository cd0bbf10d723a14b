//! `identity_update_metadata`: changes the registration file of an agent of this account.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::identity_register_agent::bytes;
use super::index;
use super::publish::PublishedFile;
use super::shared::FoundAgent;
use super::write::{
    self, ChainNamed, Controllers, MAX_LONG_TEXT, MAX_TEXT, RegistryWrite, endpoint, events, image, published,
};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::shared::{CHECKS, PlanReceipt, invalid};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use golem_protocols::erc8004::directory::{AgentFile, RegistrySet};
use golem_protocols::erc8004::file::{
    AgentService, ReadRegistration, ReadService, RegistrationFile, RegistryEntry, TYPE,
};
use golem_protocols::erc8004::location::FileLocation;
use golem_protocols::erc8004::{AgentId, RegistryCall, RegistryEvent};

/// Definition of the `identity_update_metadata` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<UpdateMetadata>();

/// Parameters of `identity_update_metadata`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Agent by chain id and number, such as "8453:42".
    agent_id: String,
    /// Fields to change; the others stay.
    updates: Updates,
    /// Chain name, alias or id; by default the chain of the agent's id, which it must be.
    #[serde(default)]
    chain_id: Option<ChainNamed>,
}

/// Fields to change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Updates {
    /// New name of the agent.
    #[serde(default)]
    name: Option<String>,
    /// New description of its purpose.
    #[serde(default)]
    description: Option<String>,
    /// New IPFS hash or URL of its image.
    #[serde(default)]
    image: Option<String>,
    /// New https URL of its MCP server.
    #[serde(default)]
    tool_endpoint: Option<String>,
    /// New https URL of its A2A agent card.
    #[serde(default)]
    a2a_endpoint: Option<String>,
    /// True if it is in service.
    #[serde(default)]
    active: Option<bool>,
}

/// Result of `identity_update_metadata`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Id of the agent.
    agent_id: String,
    /// Names of the changed fields.
    fields_updated: Vec<&'static str>,
    /// True if the registry's event confirms the change.
    confirmed: bool,
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
pub struct UpdatePlan {
    registries: RegistrySet,
    id: AgentId,
    file: PublishedFile,
    fields: Vec<&'static str>,
}

/// Implementation of `identity_update_metadata`; see [`TOOL_DEF`].
pub struct UpdateMetadata;

impl WriteTool for UpdateMetadata {
    const META: ToolMeta = ToolMeta {
        name: "identity_update_metadata",
        description: "Changes the registration file of an agent that this account owns or operates (ERC-8004): name, \
                      description, image, endpoints, active status. The new file is public, on chain or in IPFS where a \
                      node is configured. Every safety check applies.",
        category: Category::Identity,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Uploading to IPFS", "Building update tx", "Simulating", "Broadcasting"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Changes an own agent's public metadata on chain.",
        prompt_guidelines: Guidelines {
            thriving: "Update when endpoints change or services are added.",
            cautious: "Update only what must change, and check that new endpoints can be reached.",
            declining: "Set active to false when you wind down, and say so in the description, if the phase allows it.",
            terminal: "Set active to false as the last update, if the phase allows it.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: CHECKS,
        event_params: &["agent_id", "chain_id"],
        summary_fields: &["tx_hash", "fields_updated"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = UpdatePlan;

    fn example() -> Value {
        json!({"agent_id": "31337:0", "updates": {"active": false}})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, UpdatePlan), ToolError> {
        let account = context.world.account(None)?;
        let found = write::find(context, &params.agent_id, params.chain_id.as_ref()).await?;
        Controllers::read(&found, account).await?.require(found.id, account)?;
        let registries = index::registries(found.chain)?;
        let present = present_file(context, &found).await?;
        let mut file = written(&present, &registries, found.id)?;
        let fields = apply(&params.updates, &mut file)?;
        if present.read().is_some_and(|present| is_same(present, &copied(present), &file)) {
            let what = format_args!("agent {} has these values already; nothing would change", found.id);
            return Err(invalid("updates", &what).suggest("Name a value that differs from the profile's."));
        }
        if file.name.is_empty() {
            return Err(invalid("updates", &"the agent has no readable file yet, so the new one needs a name"));
        }
        context.step("Building update tx");
        let published = PublishedFile::prepare(context, bytes(&file)?).await?;
        let call = RegistryCall::SetUri { agent: found.id.number, uri: published.uri() };
        let registry = registries.identity.address;
        let write = RegistryWrite { chain: found.chain, account, registry, call };
        let summary = format!("Change {} of agent {}", fields.join(", "), found.id);
        let proposal = write.propose(context, vec![account], &summary).await?;
        let proposal = Proposal { files: published.beside_calldata(), ..proposal };
        Ok((proposal, UpdatePlan { registries, id: found.id, file: published, fields }))
    }

    async fn complete(context: &CallContext, plan: &mut UpdatePlan, committed: &CommitOutcome) {
        plan.file.store(context, Some("Uploading to IPFS"), committed).await;
    }

    fn output(
        context: &CallContext,
        plan: UpdatePlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        let sent = PlanReceipt::of(context, committed)?;
        let confirmed = events(committed, &plan.registries)
            .iter()
            .any(|event| matches!(event, RegistryEvent::UriUpdated { agent, .. } if *agent == plan.id.number));
        let fields = plan.fields.join(", ");
        let explanation = match sent.is_done() {
            true => format!("Changed {fields} of agent {}.", plan.id),
            false => sent.explain(&format!("Change {fields} of agent {}", plan.id)),
        };
        let output = Output {
            tx_hash: sent.tx_hash,
            agent_id: plan.id.to_string(),
            fields_updated: plan.fields,
            confirmed,
            gas_used: sent.gas_used,
            block_number: sent.block_number,
            explorer_url: sent.explorer_url,
            file_location: plan.file.location(),
            file_problem: plan.file.problem(),
        };
        Ok(ToolReply::new(output, explanation))
    }
}

/// The agent's file, from IPFS where the registry names content there: its bytes have the named hash. What an https
/// server says is not copied into a file of this account.
async fn present_file(context: &CallContext, found: &FoundAgent<'_>) -> Result<AgentFile, ToolError> {
    let agent = found.record()?;
    if !matches!(agent.file, AgentFile::Elsewhere) || agent.uri.altered() {
        return Ok(agent.file.clone());
    }
    let is_content = matches!(FileLocation::parse(agent.uri.as_str()), Ok(FileLocation::Ipfs(_)));
    let Some(files) = context.world.agent_files(found.chain.network()).filter(|_| is_content) else {
        return Ok(AgentFile::Elsewhere);
    };
    match files.read(agent.uri.as_str()).await {
        Ok(outside) => Ok(match ReadRegistration::read(&outside.bytes) {
            Ok(file) => AgentFile::Read(Box::new(file)),
            Err(error) => AgentFile::Invalid(error),
        }),
        Err(_) => Ok(AgentFile::Elsewhere),
    }
}

/// Present content of the agent's file, with its registration in this registry.
///
/// # Errors
/// `VALIDATION_FAILED` for a file that cannot be read, which an update would lose.
fn written(file: &AgentFile, registries: &RegistrySet, id: AgentId) -> Result<RegistrationFile, ToolError> {
    let mut written = match file {
        AgentFile::Read(file) => copied(file),
        AgentFile::Absent | AgentFile::Invalid(_) => RegistrationFile {
            kind: TYPE.to_owned(),
            name: String::new(),
            description: String::new(),
            image: String::new(),
            services: Vec::new(),
            x402_support: false,
            active: true,
            registrations: Vec::new(),
            supported_trust: vec!["reputation".to_owned()],
        },
        AgentFile::Elsewhere => {
            let what =
                "its registration file is not on chain and cannot be read here: an update would lose its content";
            return Err(invalid("agent_id", &what)
                .suggest("Name a gateway to IPFS under [agents] that has the file, or change it where it is stored."));
        }
    };
    let own = registries.identity.to_string();
    written.registrations.retain(|entry| entry.agent_registry != own);
    let agent_id = u64::try_from(id.number).map_err(|_| invalid("agent_id", &"the number is too large for a file"))?;
    written.registrations.push(RegistryEntry { agent_id, agent_registry: own });
    Ok(written)
}

fn copied(file: &ReadRegistration) -> RegistrationFile {
    let texts = |list: &[SafeText]| list.iter().map(SafeText::to_string).collect::<Vec<_>>();
    let service = |service: &ReadService| AgentService {
        name: service.name.to_string(),
        endpoint: service.endpoint.to_string(),
        version: service.version.as_ref().map(SafeText::to_string),
        mcp_tools: texts(&service.mcp_tools),
        mcp_prompts: texts(&service.mcp_prompts),
        mcp_resources: texts(&service.mcp_resources),
        a2a_skills: texts(&service.a2a_skills),
    };
    RegistrationFile {
        kind: TYPE.to_owned(),
        name: file.name.to_string(),
        description: file.description.to_string(),
        image: file.image.to_string(),
        services: file.services.iter().map(service).collect(),
        x402_support: file.x402_support,
        active: file.active,
        registrations: file
            .registrations
            .iter()
            .map(|(agent_id, registry)| RegistryEntry { agent_id: *agent_id, agent_registry: registry.to_string() })
            .collect(),
        supported_trust: texts(&file.supported_trust),
    }
}

/// True if the new file says what the present one says. Cleaned text differs from the present one, and is worth writing.
fn is_same(present: &ReadRegistration, copied: &RegistrationFile, new: &RegistrationFile) -> bool {
    !present.has_altered_text() && copied == new
}

/// Applies the updates; returns the names of the changed fields.
fn apply(updates: &Updates, file: &mut RegistrationFile) -> Result<Vec<&'static str>, ToolError> {
    let mut fields = Vec::new();
    if let Some(name) = &updates.name {
        file.name = published("name", name, MAX_TEXT)?;
        fields.push("name");
    }
    if let Some(description) = &updates.description {
        file.description = published("description", description, MAX_LONG_TEXT)?;
        fields.push("description");
    }
    if let Some(address) = &updates.image {
        file.image = image("image", address)?;
        fields.push("image");
    }
    for (field, protocol, value) in
        [("tool_endpoint", "MCP", &updates.tool_endpoint), ("a2a_endpoint", "A2A", &updates.a2a_endpoint)]
    {
        let Some(value) = value else { continue };
        let endpoint = endpoint(field, value)?;
        match file.services.iter_mut().find(|service| service.name.eq_ignore_ascii_case(protocol)) {
            Some(service) => service.endpoint = endpoint,
            None => {
                file.services.push(AgentService { name: protocol.to_owned(), endpoint, ..AgentService::default() });
            }
        }
        fields.push(field);
    }
    if let Some(active) = updates.active {
        file.active = active;
        fields.push("active");
    }
    if fields.is_empty() {
        return Err(invalid("updates", &"name at least one field to change"));
    }
    Ok(fields)
}
