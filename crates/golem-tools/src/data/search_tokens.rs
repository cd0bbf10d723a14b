//! `search_tokens`: finds the known tokens of a chain, and inspects the token at an address.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply, address};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::nearest;
use golem_chain::token::{self, TokenError, TokenId, TokenInfo};

/// Definition of the `search_tokens` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<SearchTokens>();

/// Parameters of `search_tokens`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Part of a symbol or name, or a whole 0x address. Empty lists every known token.
    query: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Maximum number of tokens in the result.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100))]
    limit: u32,
}

fn ten() -> u32 {
    10
}

/// Result of `search_tokens`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// EIP-155 chain id.
    chain_id: u64,
    /// Number of matching tokens, including those beyond the limit.
    total: u64,
    /// Matching tokens, best match first.
    tokens: Vec<Found>,
}

/// One matching token.
#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// Symbol, with control characters removed.
    symbol: String,
    /// Name, with control characters removed.
    name: String,
    /// Number of decimals.
    decimals: u8,
    /// Contract address; absent for the native token.
    address: Option<String>,
    /// True for the native token and for tokens on the network's list.
    listed: bool,
    /// Warning if the token imitates another token and is therefore not traded.
    warning: Option<String>,
}

/// Implementation of `search_tokens`; see [`TOOL_DEF`].
pub struct SearchTokens;

impl ReadTool for SearchTokens {
    const META: ToolMeta = ToolMeta {
        name: "search_tokens",
        description: "Finds tokens on a chain by part of their symbol or name, or identifies the token at an address, \
                      with a warning if a token imitates a listed one.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Searching the token list", "Reading the contract"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Finds tokens by symbol, name or address. Use it before naming a token you have not used yet.",
        prompt_guidelines: Guidelines {
            thriving: "Search when a symbol is new to you; use the address it returns.",
            cautious: "Search before naming any token, and use only listed ones.",
            declining: "Search only for what an exit needs.",
            terminal: "Not needed: sell what is held into the stables and ETH you know.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &["total"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"query": "usd", "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let limit = match params.limit {
            1..=100 => params.limit as usize,
            other => {
                return Err(ToolError::new(
                    ErrorCode::ValidationFailed,
                    format_args!("parameter `limit`: {other} is not between 1 and 100"),
                )
                .detail("parameter", "limit"));
            }
        };
        context.step("Searching the token list");
        let query = params.query.trim();
        let mut tokens = if query.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x")) {
            context.step("Reading the contract");
            vec![at_address(chain, query).await?]
        } else {
            listed(chain, query)
        };
        let network = chain.network();
        let total = tokens.len();
        tokens.truncate(limit);
        let explanation = match (total, tokens.first()) {
            (0, _) => {
                let near = nearest(query, network.book.tokens().iter().map(|token| token.symbol.as_str()));
                let near = near.map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
                format!("No known token on {} matches.{near}", network.name)
            }
            (1, Some(only)) => match &only.warning {
                Some(warning) => format!("Do not trade it: {warning}."),
                None => format!("{} is {} on {}.", only.symbol, only.name, network.name),
            },
            _ => format!("{total} known tokens on {} match.", network.name),
        };
        let output = Output { chain: network.name.clone(), chain_id: network.chain_id, total: total as u64, tokens };
        Ok(ToolReply::new(output, explanation))
    }
}

/// Returns the listed tokens that match. An exact symbol comes first, then the others by the position of the query in
/// the symbol, then matches in the name.
fn listed(chain: &ConnectedChain, query: &str) -> Vec<Found> {
    let network = chain.network();
    let query = query.to_lowercase();
    let coin = TokenInfo::native(network);
    let coin = Found {
        symbol: coin.symbol.to_string(),
        name: coin.name.to_string(),
        decimals: coin.decimals,
        address: None,
        listed: true,
        warning: None,
    };
    let rank = |found: &Found| {
        let symbol = found.symbol.to_lowercase();
        if symbol == query {
            return Some(0);
        }
        let in_name = || found.name.to_lowercase().contains(&query).then_some(1_000);
        symbol.find(&query).map(|at| at + 1).or_else(in_name)
    };
    let tokens = network.book.tokens().iter().map(|token| Found {
        symbol: token.symbol.clone(),
        name: token.name.clone(),
        decimals: token.decimals,
        address: Some(token.address.to_string()),
        listed: true,
        warning: None,
    });
    let mut fitting: Vec<_> =
        std::iter::once(coin).chain(tokens).filter_map(|found| rank(&found).map(|rank| (rank, found))).collect();
    fitting.sort_by(|(one, a), (other, b)| one.cmp(other).then_with(|| a.symbol.cmp(&b.symbol)));
    fitting.into_iter().map(|(_, found)| found).collect()
}

/// Reads the token at an address, including a token that imitates another one.
async fn at_address(chain: &ConnectedChain, query: &str) -> Result<Found, ToolError> {
    let network = chain.network();
    let provider = chain.client.agreed();
    let (token, warning) = match token::resolve(query, network, provider).await {
        Ok(token) => (token, None),
        Err(error @ (TokenError::Lookalike { .. } | TokenError::Impostor { .. })) => {
            let read = token::read(&[address(query, "query")?], network, provider).await?;
            let Some(token) = read.into_iter().next() else { return Err(error.into()) };
            (token?, Some(error.to_string()))
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Found {
        symbol: token.symbol.to_string(),
        name: token.name.to_string(),
        decimals: token.decimals,
        address: match token.id {
            TokenId::Native => None,
            TokenId::Erc20(address) => Some(address.to_string()),
        },
        listed: token.listed,
        warning,
    })
}
