//! `identity_verify_agent`: requests a validation of an own agent, or answers a request as its validator.

use alloy::primitives::{Address, B256, keccak256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::identity_get_validation_status::METHODS;
use super::index;
use super::shared::FoundAgent;
use super::write::{self, ChainNamed, Controllers, RegistryWrite, endpoint, events};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool, address};
use crate::shared::{CHECKS, PlanReceipt, invalid};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use golem_protocols::erc8004::directory::RegistrySet;
use golem_protocols::erc8004::{AgentId, RegistryCall, RegistryEvent};

/// Definition of the `identity_verify_agent` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VerifyAgent>();

/// Parameters of `identity_verify_agent`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Agent by chain id and number, such as "8453:42".
    agent_id: String,
    /// Method: "zkml", "tee-attestation" or "stake-secured".
    method: String,
    /// Proof: where it is and who validates it; or the validator's own response to a request.
    proof: Proof,
    /// Chain name, alias or id; by default the chain of the agent's id, which it must be.
    #[serde(default)]
    chain_id: Option<ChainNamed>,
}

/// Proof of a validation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Proof {
    /// Address of the validator who is asked; for a response, of this account.
    validator: String,
    /// https URL of the proof.
    #[serde(default)]
    uri: Option<String>,
    /// Hash of the answered request; only in a response.
    #[serde(default)]
    request_hash: Option<String>,
    /// Response from 0 to 100; only in a response.
    #[serde(default)]
    #[schemars(range(max = 100))]
    response: Option<u8>,
}

/// Result of `identity_verify_agent`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Id of the agent.
    agent_id: String,
    /// Method of the validation.
    method: &'static str,
    /// Hash of the request.
    request_hash: String,
    /// Response from 0 to 100, by the registry's event; absent for a request, which its validator has yet to answer.
    validation_score: Option<f64>,
    /// Gas used, in gas units.
    gas_used: u64,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// URL of the transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Values kept from preparation for the result.
pub struct VerificationPlan {
    registries: RegistrySet,
    id: AgentId,
    method: &'static str,
    request: B256,
    done: String,
}

/// Implementation of `identity_verify_agent`; see [`TOOL_DEF`].
pub struct VerifyAgent;

impl WriteTool for VerifyAgent {
    const META: ToolMeta = ToolMeta {
        name: "identity_verify_agent",
        description: "Requests a validation of an own agent in the ERC-8004 validation registry, by zkML, TEE \
                      attestation or stake; or answers a request whose validator this account is. Networks without that \
                      registry are refused. Every safety check applies.",
        category: Category::Identity,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Preparing proof", "Submitting verification tx", "Awaiting confirmation"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Requests or answers a validation of an agent on chain.",
        prompt_guidelines: Guidelines {
            thriving: "Request a validation at the first setup, and again when the last one is old.",
            cautious: "Request a new one if the last is older than 30 days.",
            declining: "Not relevant.",
            terminal: "Not relevant.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: CHECKS,
        event_params: &["agent_id", "method", "chain_id"],
        summary_fields: &["tx_hash", "method", "validation_score"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = VerificationPlan;

    fn example() -> Value {
        json!({"agent_id": "31337:0", "method": "zkml",
            "proof": {"validator": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "uri": "https://proofs.example/1.json"}})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, VerificationPlan), ToolError> {
        let account = context.world.account(None)?;
        let method = METHODS.into_iter().find(|method| params.method.trim().eq_ignore_ascii_case(method));
        let method =
            method.ok_or_else(|| invalid("method", &"expected \"zkml\", \"tee-attestation\" or \"stake-secured\""))?;
        let found = write::find(context, &params.agent_id, params.chain_id.as_ref()).await?;
        let registries = index::registries(found.chain)?;
        let registry = registries.validation.ok_or_else(|| {
            let what = format_args!("{} has no validation registry", found.chain.network());
            ToolError::new(ErrorCode::ChainUnsupported, what)
        })?;
        context.step("Preparing proof");
        let (call, request, done) = match (&params.proof.request_hash, params.proof.response) {
            (None, None) => request(&found, &params.proof, method, account).await?,
            (Some(hash), Some(response)) => respond(&found, &params.proof, method, account, (hash, response))?,
            (Some(_), None) | (None, Some(_)) => {
                return Err(invalid("proof", &"a response needs both request_hash and response; a request neither"));
            }
        };
        context.step("Submitting verification tx");
        let write = RegistryWrite { chain: found.chain, account, registry, call };
        let proposal = write.propose(context, vec![account], &done).await?;
        Ok((proposal, VerificationPlan { registries, id: found.id, method, request, done }))
    }

    fn output(
        context: &CallContext,
        plan: VerificationPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        let sent = PlanReceipt::of(context, committed)?;
        let score = events(committed, &plan.registries).into_iter().find_map(|event| match event {
            RegistryEvent::ValidationAnswered { request, response, .. } if request == plan.request => Some(response),
            _ => None,
        });
        let explanation = sent.explain(&plan.done);
        let output = Output {
            tx_hash: sent.tx_hash,
            agent_id: plan.id.to_string(),
            method: plan.method,
            request_hash: plan.request.to_string(),
            validation_score: score.map(f64::from),
            gas_used: sent.gas_used,
            block_number: sent.block_number,
            explorer_url: sent.explorer_url,
        };
        Ok(ToolReply::new(output, explanation))
    }
}

type PreparedCall = (RegistryCall, B256, String);

/// Request for a validation of an own agent.
async fn request(
    found: &FoundAgent<'_>,
    proof: &Proof,
    method: &str,
    account: Address,
) -> Result<PreparedCall, ToolError> {
    let validator = address(&proof.validator, "validator")?;
    let controllers = Controllers::read(found, account).await?;
    controllers.require(found.id, account)?;
    if validator.is_zero() || validator == account || controllers.all.contains(&validator) {
        return Err(invalid("validator", &"an account of the agent itself cannot validate it; name another"));
    }
    let uri = proof.uri.as_deref().ok_or_else(|| invalid("uri", &"a request names the https URL of its proof"))?;
    let uri = endpoint("uri", uri)?;
    let earlier = found.record()?.validations.len();
    let hash = keccak256(format!("{} {method} {validator} {uri} {earlier}", found.id));
    let done = format!("Request a validation of agent {} by {validator} ({method})", found.id);
    Ok((RegistryCall::RequestValidation { validator, agent: found.id.number, uri, hash }, hash, done))
}

/// Response to a request whose validator is this account.
fn respond(
    found: &FoundAgent<'_>,
    proof: &Proof,
    method: &str,
    account: Address,
    (hash, response): (&str, u8),
) -> Result<PreparedCall, ToolError> {
    let request: B256 = hash.trim().parse().map_err(|_| invalid("request_hash", &"expected 0x and 64 digits"))?;
    let asked = found.record()?.validations.iter().find(|asked| asked.request == request);
    let asked = asked.ok_or_else(|| invalid("request_hash", &"no such request of this agent; see its history"))?;
    if asked.validator != account || address(&proof.validator, "validator")? != account {
        return Err(invalid("validator", &format_args!("only {} can answer this request", asked.validator)));
    }
    let uri = proof.uri.as_deref().map(|uri| endpoint("uri", uri)).transpose()?.unwrap_or_default();
    let call = RegistryCall::RespondValidation { request, response, uri, hash: B256::ZERO, tag: method.to_owned() };
    call.check(account, &[]).map_err(|error| invalid("response", &error))?;
    let done = format!("Validate agent {} with {response} of 100 ({method})", found.id);
    Ok((call, request, done))
}
