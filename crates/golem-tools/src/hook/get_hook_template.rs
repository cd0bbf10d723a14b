//! `get_hook_template`: sources of hooks that can be deployed.

use alloy::primitives::keccak256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use golem_protocols::uniswap::hook::template::{COMPILER, COMPILER_SETTINGS, HookTemplate};

/// Definition of the `get_hook_template` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetHookTemplate>();

/// Parameters of `get_hook_template`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Name of the template: "counting" or "opening". All of them, without their sources, if absent.
    #[serde(default)]
    template: Option<String>,
}

/// Result of `get_hook_template`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Templates; the named one alone if one is named.
    templates: Vec<TemplateRow>,
}

/// Template of a hook.
#[derive(Debug, Serialize, JsonSchema)]
struct TemplateRow {
    /// Name of the template.
    template: &'static str,
    /// Behaviour of the hook.
    description: &'static str,
    /// Permissions that its address must state.
    permissions: Vec<&'static str>,
    /// The same as the lowest 14 bits of the address, in hexadecimal.
    address_bits: String,
    /// Name of the contract.
    contract: &'static str,
    /// Constructor in Solidity.
    constructor: &'static str,
    /// Name and version of the compiler.
    compiler: &'static str,
    /// Settings of the compiler.
    compiler_settings: &'static str,
    /// Hash of the creation code without arguments.
    creation_code_hash: String,
    /// Solidity source, one file without imports; absent in a list.
    source: Option<&'static str>,
}

/// Implementation of `get_hook_template`; see [`TOOL_DEF`].
pub struct GetHookTemplate;

impl ReadTool for GetHookTemplate {
    const META: ToolMeta = ToolMeta {
        name: "get_hook_template",
        description: "Gives the Solidity source of a Uniswap V4 hook that Bardo can deploy, with its permissions, compiler and \
                      creation code hash; without a name, lists the templates.",
        category: Category::Hook,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Reading template"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Source and permissions of a hook that can be deployed.",
        prompt_guidelines: Guidelines {
            thriving: "Read the source before you build on a hook.",
            cautious: "Read only.",
            declining: "Not needed.",
            terminal: "Not needed.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["template"],
        summary_fields: &["templates"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"template": "counting"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Reading template");
        let named = match &params.template {
            None => None,
            Some(name) => Some(HookTemplate::named(name).ok_or_else(|| {
                let names = HookTemplate::ALL.map(HookTemplate::name).join(", ");
                invalid("template", &format_args!("there is no such template; use one of {names}"))
            })?),
        };
        let row = |template: HookTemplate| TemplateRow {
            template: template.name(),
            description: template.description(),
            permissions: template.permissions().iter().map(|one| one.name()).collect(),
            address_bits: format!("{:#06x}", template.bits()),
            contract: template.contract(),
            constructor: template.constructor(),
            compiler: COMPILER,
            compiler_settings: COMPILER_SETTINGS,
            creation_code_hash: keccak256(template.code()).to_string(),
            source: named.map(HookTemplate::source),
        };
        let templates: Vec<TemplateRow> = match named {
            Some(template) => vec![row(template)],
            None => HookTemplate::ALL.into_iter().map(row).collect(),
        };
        let explanation = match named {
            Some(template) => format!("{}: {}", template.contract(), template.description()),
            None => format!("{} hook templates.", templates.len()),
        };
        Ok(ToolReply::new(Output { templates }, explanation))
    }
}
