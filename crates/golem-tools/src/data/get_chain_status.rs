//! `get_chain_status`: health and latest block of each configured chain.

use alloy::consensus::BlockHeader;
use alloy::eips::BlockNumberOrTag;
use alloy::providers::Provider;
use futures::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;
use golem_chain::network::{Network, NetworkKind, UniswapVersion};
use golem_chain::provider::{EndpointCondition, ProviderError};

/// Definition of the `get_chain_status` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetChainStatus>();

/// Timeout for the health monitor's first poll.
const FIRST_LOOK: std::time::Duration = std::time::Duration::from_millis(300);

/// Parameters of `get_chain_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id; without it, every configured chain.
    #[serde(default)]
    chain: Option<String>,
}

/// Result of `get_chain_status`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// True if every requested chain is healthy.
    all_healthy: bool,
    /// One entry per chain.
    chains: Vec<ChainStatus>,
}

/// Status of one chain.
#[derive(Debug, Serialize, JsonSchema)]
struct ChainStatus {
    /// Configured name of the chain.
    chain: String,
    /// EIP-155 chain id; absent if the chain has never answered.
    chain_id: Option<u64>,
    /// Kind of network: `devnet`, `test` or `real`; absent if the chain has never answered.
    money: Option<&'static str>,
    /// Condition: `healthy`, `degraded`, `down` or `unproven`.
    condition: &'static str,
    /// Number of the latest block.
    block_number: Option<u64>,
    /// Timestamp of the latest block, in seconds since the Unix epoch.
    block_timestamp: Option<u64>,
    /// Base fee of the latest block in gwei, as a decimal.
    base_fee_gwei: Option<String>,
    /// Moving average of the response time, in milliseconds.
    latency_ms: Option<u64>,
    /// Supported Uniswap versions on this chain.
    uniswap: Vec<&'static str>,
    /// RPC endpoints, in the configured order.
    endpoints: Vec<EndpointStatus>,
    /// Most recent error, if any.
    last_error: Option<String>,
}

/// Status of one RPC endpoint of a chain.
#[derive(Debug, Serialize, JsonSchema)]
struct EndpointStatus {
    /// Host of the endpoint. The full URL is never shown, because it may contain a key.
    endpoint: String,
    /// Condition: `healthy`, `degraded`, `down` or `unproven`.
    condition: &'static str,
    /// Moving average of the response time, in milliseconds.
    latency_ms: Option<u64>,
    /// Number of blocks behind the most advanced endpoint of the chain.
    lag_blocks: Option<u64>,
}

/// Implementation of `get_chain_status`; see [`TOOL_DEF`].
pub struct GetChainStatus;

impl ReadTool for GetChainStatus {
    const META: ToolMeta = ToolMeta {
        name: "get_chain_status",
        description: "Shows the health of each configured chain: condition, latest block, base fee, latency, and each \
                      of its endpoints.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Reading chain state", "Reading endpoint health"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Condition, latest block and latency of each chain. Read-only; changes nothing.",
        prompt_guidelines: Guidelines {
            thriving: "Check before moving assets to another chain, and after a slow call.",
            cautious: "Check before every trade; do not trade on a degraded chain.",
            declining: "Check before an exit, and choose the healthy chain where there is a choice.",
            terminal: "Check once before the last exits.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &["all_healthy"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Reading chain state");
        let world = &context.world;
        let (asked, lost) = match &params.chain {
            Some(name) => (vec![world.chain(name)?], &[][..]),
            None => (world.some_chains()?.iter().collect(), world.lost()),
        };
        let heads = join_all(asked.iter().map(|chain| head(chain))).await;
        context.step("Reading endpoint health");
        join_all(asked.iter().map(|chain| wait_for_first_poll(chain))).await;
        let mut chains: Vec<_> = asked.iter().zip(heads).map(|(chain, head)| status(chain, head)).collect();
        chains.extend(lost.iter().map(|lost| ChainStatus {
            chain: lost.name.clone(),
            chain_id: None,
            money: None,
            condition: "down",
            block_number: None,
            block_timestamp: None,
            base_fee_gwei: None,
            latency_ms: None,
            uniswap: Vec::new(),
            endpoints: Vec::new(),
            last_error: Some(lost.reason.to_string()),
        }));
        let words: Vec<_> = chains.iter().map(|chain| format!("{} is {}", chain.chain, chain.condition)).collect();
        let all_healthy = chains.iter().all(|chain| chain.condition == "healthy");
        Ok(ToolReply::new(Output { all_healthy, chains }, format!("{}.", words.join(", "))))
    }
}

/// Latest block, read directly from the chain.
pub(crate) struct LatestBlock {
    /// Number of the block.
    pub(crate) number: u64,
    timestamp: u64,
    base_fee: Option<u64>,
}

/// Waits up to [`FIRST_LOOK`] for the monitor's first poll. A process that makes a single call would otherwise see only
/// `unproven`.
pub(crate) async fn wait_for_first_poll(chain: &ConnectedChain) {
    let mut health = chain.client.health_handle();
    let now = health.now();
    if now.condition == EndpointCondition::Unproven && !now.endpoints.is_empty() {
        // An endpoint that does not answer within this time is reported as unproven.
        let _looked = tokio::time::timeout(FIRST_LOOK, health.next()).await;
    }
}

/// Reads the latest block.
///
/// # Errors
/// The provider's error.
pub(crate) async fn head(chain: &ConnectedChain) -> Result<LatestBlock, ProviderError> {
    let block = chain.client.provider().get_block_by_number(BlockNumberOrTag::Latest).await?;
    let header = block.map(|block| block.header).ok_or_else(|| ProviderError::Decode {
        detail: bardo_base::text::SafeText::clean("the chain has no latest block", 60),
    })?;
    Ok(LatestBlock { number: header.number(), timestamp: header.timestamp(), base_fee: header.base_fee_per_gas() })
}

/// Condition of a chain from a direct read, which is newer than the last poll of the monitor.
pub(crate) fn condition(read: bool, polled: EndpointCondition) -> EndpointCondition {
    match (read, polled) {
        (false, _) => EndpointCondition::Down,
        (true, EndpointCondition::Unproven) => EndpointCondition::Healthy,
        (true, EndpointCondition::Down) => EndpointCondition::Degraded,
        (true, known) => known,
    }
}

/// Name of a kind of network.
pub(crate) const fn money(kind: NetworkKind) -> &'static str {
    match kind {
        NetworkKind::Devnet => "devnet",
        NetworkKind::Test => "test",
        NetworkKind::Real => "real",
    }
}

/// Uniswap versions that the chain's address book supports.
pub(crate) fn uniswap(network: &Network) -> Vec<&'static str> {
    let words = network.uniswap_versions().into_iter().map(|version| match version {
        UniswapVersion::V2 => "v2",
        UniswapVersion::V3 => "v3",
        UniswapVersion::V4 => "v4",
    });
    words.collect()
}

fn status(chain: &ConnectedChain, head: Result<LatestBlock, ProviderError>) -> ChainStatus {
    let network = chain.network();
    let health = chain.client.health();
    let condition = condition(head.is_ok(), health.condition);
    let millis = |latency: std::time::Duration| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
    ChainStatus {
        chain: network.name.clone(),
        chain_id: Some(network.chain_id),
        money: Some(money(network.kind)),
        condition: word(condition),
        block_number: head.as_ref().ok().map(|head| head.number),
        block_timestamp: head.as_ref().ok().map(|head| head.timestamp),
        base_fee_gwei: head.as_ref().ok().and_then(|head| head.base_fee).and_then(gwei),
        latency_ms: health.latency.map(millis),
        uniswap: uniswap(network),
        endpoints: health
            .endpoints
            .iter()
            .map(|endpoint| EndpointStatus {
                endpoint: endpoint.label.to_string(),
                condition: word(endpoint.condition()),
                latency_ms: endpoint.latency.map(millis),
                lag_blocks: endpoint.lag_blocks,
            })
            .collect(),
        last_error: head.err().map(|error| error.to_string()).or(health.last_error.map(|error| error.to_string())),
    }
}

/// Wei as gwei.
pub(crate) fn gwei(wei: u64) -> Option<String> {
    TokenAmount::new(alloy::primitives::U256::from(wei), 9).ok().map(|amount| amount.to_string())
}

/// Name of a condition.
pub(crate) fn word(condition: EndpointCondition) -> &'static str {
    match condition {
        EndpointCondition::Healthy => "healthy",
        EndpointCondition::Unproven => "unproven",
        EndpointCondition::Degraded => "degraded",
        EndpointCondition::Down => "down",
    }
}
