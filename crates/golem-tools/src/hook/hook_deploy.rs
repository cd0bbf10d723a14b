//! `hook_deploy`: deploys one of the hook templates at an address that states its permissions.

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256, keccak256};
use alloy::providers::Provider as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::manager;
use crate::blocks;
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::shared::{CHECKS, PlanReceipt, failed, invalid};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::hook_calls::first_salt;
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use golem_chain::fork::ForkCall;
use golem_chain::provider::ProviderError;
use golem_protocols::uniswap::hook::template::{DEPLOYMENT_PROXY, HookDeployment, HookTemplate};

/// Definition of the `hook_deploy` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<HookDeploy>();

/// Gas beside one and a quarter times that of the simulated call.
const GAS_ROOM: u64 = 30_000;

/// Number of addresses that are tried where the template was deployed already.
const MOST_ADDRESSES: u32 = 16;

/// Parameters of `hook_deploy`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Name of the template: "counting" or "opening".
    template: String,
    /// For "opening": first second in which pools of the hook trade, since the Unix epoch.
    #[serde(default)]
    opens_at: Option<u64>,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Result of `hook_deploy`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Name of the template.
    template: &'static str,
    /// Address of the hook, which follows from salt and creation code.
    hook: String,
    /// Permissions that the address states.
    permissions: Vec<&'static str>,
    /// Salt of the deployment.
    salt: String,
    /// Hash of the creation code with its arguments.
    creation_code_hash: String,
    /// Gas used, in gas units.
    gas_used: u64,
    /// URL of the transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Values kept from preparation for the result.
pub struct DeployPlan {
    template: HookTemplate,
    address: Address,
    salt: B256,
    code_hash: B256,
}

impl DeployPlan {
    fn sentence(&self) -> String {
        let (name, address, hash) = (self.template.name(), self.address, self.code_hash);
        format!("Deploy the hook template {name} at {address}; hash of its creation code {hash}")
    }
}

/// Implementation of `hook_deploy`; see [`TOOL_DEF`].
pub struct HookDeploy;

impl WriteTool for HookDeploy {
    const META: ToolMeta = ToolMeta {
        name: "hook_deploy",
        description: "Deploys one of the hook templates through the deterministic deployment proxy, at an address whose lowest bits \
                      state exactly the template's permissions. Only the bundled bytecode can be deployed, compared byte by byte \
                      before the signature. The operator is always asked.",
        category: Category::Hook,
        capability: CapabilityTier::Privileged,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Slow,
        progress_steps: &[
            "Mining address",
            "Simulating via Revm",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Deploys a bundled hook template at a mined address.",
        prompt_guidelines: Guidelines {
            thriving: "Only on the owner's instruction; read the template's source first.",
            cautious: "Only on the owner's instruction.",
            declining: "Not allowed.",
            terminal: "Not allowed.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: CHECKS,
        event_params: &["template", "opens_at", "chain"],
        summary_fields: &["tx_hash", "hook"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = DeployPlan;

    fn example() -> Value {
        json!({"template": "counting", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, DeployPlan), ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let account = context.world.account(None)?;
        let manager = manager(chain)?;
        let template = HookTemplate::named(&params.template).ok_or_else(|| {
            let names = HookTemplate::ALL.map(HookTemplate::name).join(", ");
            invalid("template", &format_args!("there is no such template; use one of {names}"))
        })?;
        let deployment = match (template, params.opens_at) {
            (HookTemplate::Counting, None) => HookDeployment::Counting,
            (HookTemplate::Counting, Some(_)) => {
                return Err(invalid("opens_at", &"only the template opening takes it"));
            }
            (HookTemplate::Opening, Some(opens_at)) => HookDeployment::Opening { opens_at },
            (HookTemplate::Opening, None) => {
                return Err(invalid("opens_at", &"name the first second in which pools of the hook trade"));
            }
        };
        context.step("Mining address");
        let head = blocks::newest(chain).await?;
        let block = BlockId::hash(head.hash);
        let provider = chain.client.agreed();
        let code = async |at: Address| provider.get_code_at(at).block_id(block).await.map_err(ProviderError::from);
        if code(DEPLOYMENT_PROXY).await?.is_empty() {
            let what = format_args!("{} has no deterministic deployment proxy", chain.network());
            return Err(ToolError::new(ErrorCode::ChainUnsupported, what));
        }
        let mut from = first_salt();
        let mut found = None;
        for _ in 0..MOST_ADDRESSES {
            let mined = tokio::task::spawn_blocking(move || deployment.mine(manager, from)).await;
            let Some((salt, at)) = mined.ok().flatten() else { break };
            if code(at).await?.is_empty() {
                found = Some((salt, at));
                break;
            }
            from = U256::from_be_bytes(salt.0).wrapping_add(U256::ONE);
        }
        let (salt, at) = found.ok_or_else(|| {
            ToolError::new(ErrorCode::ValidationFailed, "no free address with the template's permissions was found")
        })?;
        context.step("Simulating via Revm");
        let data = deployment.calldata(manager, salt);
        let fork = chain.fork(block).await?;
        let simulation = fork.simulate(&[ForkCall::new(account, DEPLOYMENT_PROXY, data.clone())]).await?;
        if let Some(error) = failed(&simulation, "the deployment") {
            return Err(error);
        }
        let gas = simulation.gas_used();
        let code_hash = keccak256(deployment.creation(manager));
        let plan = DeployPlan { template, address: at, salt, code_hash };
        let leg = PlanLeg {
            purpose: LegPurpose::Main,
            to: DEPLOYMENT_PROXY,
            value: U256::ZERO,
            data,
            gas_limit: gas.saturating_add(gas / 4).saturating_add(GAS_ROOM),
            slots: Vec::new(),
        };
        let proposal = Proposal {
            legs: vec![leg],
            ..context.proposal(chain.network().chain_id, account, ProposalIntent::Hook, &plan.sentence())
        };
        Ok((proposal, plan))
    }

    fn output(
        context: &CallContext,
        plan: DeployPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        let sent = PlanReceipt::of(context, committed)?;
        let explanation = sent.explain(&plan.sentence());
        let output = Output {
            tx_hash: sent.tx_hash,
            block_number: sent.block_number,
            template: plan.template.name(),
            hook: plan.address.to_string(),
            permissions: plan.template.permissions().iter().map(|one| one.name()).collect(),
            salt: plan.salt.to_string(),
            creation_code_hash: plan.code_hash.to_string(),
            gas_used: sent.gas_used,
            explorer_url: sent.explorer_url,
        };
        Ok(ToolReply::new(output, explanation))
    }
}
