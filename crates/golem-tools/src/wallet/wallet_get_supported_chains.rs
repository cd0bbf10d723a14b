//! `wallet_get_supported_chains`: every configured chain, with its connection and what works on it.

use futures::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::data::get_chain_status::{condition, head, money, uniswap, wait_for_first_poll, word};
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use golem_chain::network::Network;

/// Definition of the `wallet_get_supported_chains` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetSupportedChains>();

/// Parameters of `wallet_get_supported_chains`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {}

/// Result of `wallet_get_supported_chains`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Every configured chain that the policy allows, the unreachable ones last.
    chains: Vec<SupportedChain>,
}

/// One configured chain.
#[derive(Debug, Serialize, JsonSchema)]
struct SupportedChain {
    /// EIP-155 chain id; absent if it is not configured and the chain never answered.
    chain_id: Option<u64>,
    /// Name that selects the chain.
    name: String,
    /// Kind of network: `devnet`, `test` or `real`; absent if it is not known.
    money: Option<&'static str>,
    /// Symbol of the native token, which pays for gas; absent if it is not known.
    native_symbol: Option<&'static str>,
    /// Connection: `healthy`, `degraded` or `down`.
    rpc_status: &'static str,
    /// Number of the latest block; absent while the chain is down.
    block_number: Option<u64>,
    /// Uniswap versions whose contracts the address book has.
    uniswap_versions: Vec<&'static str>,
    /// True if a service that settles auctions (UniswapX) is connected.
    auctions: bool,
    /// Reason why the chain could not be read; absent while it answers.
    error: Option<String>,
}

/// Implementation of `wallet_get_supported_chains`; see [`TOOL_DEF`].
pub struct GetSupportedChains;

impl ReadTool for GetSupportedChains {
    const META: ToolMeta = ToolMeta {
        name: "wallet_get_supported_chains",
        description: "Lists every configured chain with its connection, latest block, kind of money, native token, and \
                      the Uniswap versions and auctions available on it. Changes nothing.",
        category: Category::Wallet,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Checking chain health"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Chains on which you can act, with connection and Uniswap versions.",
        prompt_guidelines: Guidelines {
            thriving: "Check once at the start.",
            cautious: "Check after an error of a chain.",
            declining: "Check that every chain with a position answers.",
            terminal: "Check that every chain with a position answers.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &["chains"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({})
    }

    async fn run(context: &CallContext, _params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Checking chain health");
        let world = &context.world;
        let asked = world.some_chains()?;
        let heads = join_all(asked.iter().map(head)).await;
        join_all(asked.iter().map(wait_for_first_poll)).await;
        let connected = asked.iter().zip(heads).map(|(chain, head)| {
            let (network, polled) = (chain.network(), chain.client.health().condition);
            let status = word(condition(head.is_ok(), polled));
            let auctions = world.auction(network.chain_id).is_some();
            let known = described(&network.name, Some(network), status, auctions);
            match head {
                Ok(head) => SupportedChain { block_number: Some(head.number), ..known },
                Err(error) => SupportedChain { error: Some(error.to_string()), ..known },
            }
        });
        let lost = world.lost().iter().map(|lost| SupportedChain {
            error: Some(lost.reason.to_string()),
            ..described(&lost.name, lost.network.as_ref(), "down", false)
        });
        let chains: Vec<_> = connected.chain(lost).collect();
        let said: Vec<_> = chains.iter().map(|chain| format!("{} is {}", chain.name, chain.rpc_status)).collect();
        let said = format!("{}.", said.join(", "));
        Ok(ToolReply::new(Output { chains }, said))
    }
}

fn described(name: &str, network: Option<&Network>, rpc_status: &'static str, auctions: bool) -> SupportedChain {
    SupportedChain {
        chain_id: network.map(|network| network.chain_id),
        name: name.to_owned(),
        money: network.map(|network| money(network.kind)),
        native_symbol: network.map(|network| network.native_symbol),
        rpc_status,
        block_number: None,
        uniswap_versions: network.map(uniswap).unwrap_or_default(),
        auctions,
        error: None,
    }
}
