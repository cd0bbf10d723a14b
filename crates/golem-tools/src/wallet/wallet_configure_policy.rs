//! `wallet_configure_policy`: writes the policy file from a template or from limits of the caller's own, after the operator
//! confirmed every changed line.
//!
//! Looser fields of the file are not in force by that alone: they wait for `bardo policy accept`, as after every change of the
//! file.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::administration::administration;
use super::policy_template::{CustomPolicy, PolicyTemplate, of_custom, of_template};
use crate::engine::{CallContext, PolicyDraft, RecordTool, ToolDef, ToolReply};
use crate::shared::invalid;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::policy::{FieldChange, Policy, parse};

/// Definition of the `wallet_configure_policy` tool.
pub static TOOL_DEF: ToolDef = ToolDef::record::<ConfigurePolicy>();

/// Parameters of `wallet_configure_policy`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// "vault-participant", "vault-manager", "defi-trading" or "read-only".
    #[serde(default)]
    policy_template: Option<PolicyTemplate>,
    /// Contracts, limits and chains instead of a template.
    #[serde(default)]
    custom_policy: Option<CustomPolicy>,
}

/// Result of `wallet_configure_policy`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the policy in the file.
    policy_hash: String,
    /// Template; absent for a custom policy.
    template: Option<PolicyTemplate>,
    /// Number of contracts that may be called: those that the policy lists, or those of the address books of the
    /// connected chains. Absent if every contract may be.
    allowed_contracts: Option<u32>,
    /// Dollars that may be spent in any 24 hours; absent without a limit.
    spending_limit_usd: Option<String>,
    /// True if the whole file is in force. What it loosens waits for `bardo policy accept` otherwise.
    in_force: bool,
    /// Differences from the policy that was in force.
    changes: Vec<PolicyChange>,
    /// Names of the fields that wait.
    waiting: Vec<String>,
    /// Path of the policy file.
    file: String,
    /// Path of the previous file, which `bardo policy undo` restores.
    previous_file: String,
}

/// Field of a policy that changed.
#[derive(Debug, Serialize, JsonSchema)]
struct PolicyChange {
    /// Name of the field.
    field: String,
    /// Previous value, as the file writes it.
    from: String,
    /// New value, in the same form.
    to: String,
    /// True if the new value allows nothing that the previous one did not.
    is_tighter: bool,
}

impl From<FieldChange> for PolicyChange {
    fn from(change: FieldChange) -> Self {
        let FieldChange { field, from, to, tighter } = change;
        Self { field, from, to, is_tighter: tighter }
    }
}

/// Implementation of `wallet_configure_policy`; see [`TOOL_DEF`].
pub struct ConfigurePolicy;

impl RecordTool for ConfigurePolicy {
    const META: ToolMeta = ToolMeta {
        name: "wallet_configure_policy",
        description: "Writes the policy that bounds every signature, from a template or with own contracts, limits and \
                      chains. Only the operator's own command may, who confirms each changed line. What it tightens \
                      applies at once; what it loosens waits for the operator's acceptance.",
        category: Category::Wallet,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Validating policy", "Applying to provider"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Writes the policy from a template or own limits. The operator confirms every changed line.",
        prompt_guidelines: Guidelines {
            thriving: "Propose the template that fits the strategy, such as defi-trading for active trading.",
            cautious: "Propose tighter limits and fewer contracts.",
            declining: "Propose read-only, or what the exits alone need.",
            terminal: "Propose read-only after the last exit.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::Halt, Check::RateLimit],
        event_params: &["policy_template", "custom_policy"],
        summary_fields: &["policy_hash", "template", "in_force"],
        card: None,
        spenders: &[],
    };
    const ALWAYS_RUNS: bool = false;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"policy_template": "vault-participant"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let administration = administration(context)?;
        context.step("Validating policy");
        let rules = context.world.rules.as_ref();
        let rules = rules.ok_or_else(|| ToolError::new(ErrorCode::StoreUnavailable, "no ledger is open"))?;
        let in_force = rules.policy();
        if rules.pending().is_some() {
            let what = "a looser policy file waits for a decision, which this would overwrite";
            return Err(ToolError::new(ErrorCode::ValidationFailed, what)
                .suggest("Run `bardo policy accept` or `bardo policy refuse` first."));
        }
        let (text, title) = match (params.policy_template, &params.custom_policy) {
            (Some(template), None) => (of_named(context, template, &in_force), format!("template {template}")),
            (None, Some(custom)) => (of_custom(custom, &in_force)?, "a custom policy".to_owned()),
            (Some(_), Some(_)) => {
                return Err(invalid("custom_policy", &"it counts only without policy_template: give one of the two"));
            }
            (None, None) => {
                return Err(invalid(
                    "policy_template",
                    &"write vault-participant, vault-manager, defi-trading or read-only, or give custom_policy",
                ));
            }
        };
        let policy = parse(&text, Path::new("the new policy"));
        let policy = Arc::new(policy.map_err(|error| ToolError::new(ErrorCode::ValidationFailed, error))?);
        let draft = PolicyDraft { text, policy: Arc::clone(&policy), title };
        context.step("Applying to provider");
        let written = administration.write_policy(draft).await?;
        let rules = policy.rules();
        let day = [rules.max_daily_spend_usd.0, rules.spending_limits.per_day.0].into_iter().flatten().min();
        let in_force = written.waiting.is_empty();
        let output = Output {
            policy_hash: policy.hash().to_string(),
            template: params.policy_template,
            allowed_contracts: contracts(context, &policy),
            spending_limit_usd: day.map(|limit| limit.to_string()),
            in_force,
            changes: written.changes.into_iter().map(PolicyChange::from).collect(),
            waiting: written.waiting.iter().map(|change| change.field.clone()).collect(),
            file: written.file.display().to_string(),
            previous_file: written.previous.display().to_string(),
        };
        let state = match in_force {
            true => "It is in force.".to_owned(),
            false => format!(
                "What it tightens is in force; {} looser fields wait for `bardo policy accept`.",
                output.waiting.len()
            ),
        };
        let said = format!(
            "The policy was written to {}. {state} `bardo policy undo` restores the previous one.",
            output.file
        );
        Ok(ToolReply::new(output, said))
    }
}

/// Text of a template for the connected chains.
fn of_named(context: &CallContext, template: PolicyTemplate, in_force: &Policy) -> String {
    let chains: Vec<u64> = context.world.chains().iter().map(|chain| chain.network().chain_id).collect();
    let others = crate::ALL_TOOL_DEFS.iter().filter(|tool| !tool.meta.signs()).map(|tool| tool.meta.name);
    of_template(template, &chains, others, in_force)
}

/// Number of contracts that a policy lets be called.
fn contracts(context: &CallContext, policy: &Policy) -> Option<u32> {
    let allowed = &policy.rules().allowed_contracts;
    let count = match (&allowed.listed, allowed.known) {
        (Some(listed), _) => listed.len(),
        (None, false) => return None,
        (None, true) => context.world.chains().iter().map(|chain| chain.network().book.contracts().count()).sum(),
    };
    u32::try_from(count).ok()
}
