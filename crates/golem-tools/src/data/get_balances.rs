//! `get_balances`: token balances of an account per chain, with dollar values where a price exists.

use alloy::primitives::Address;
use alloy::providers::bindings::IMulticall3;
use futures::future::try_join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolEnvironment, ToolReply};
use bardo_abi::erc20::Erc20;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::dollars;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_chain::token::{self, TokenId, TokenInfo};

/// Definition of the `get_balances` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetBalances>();

/// Maximum number of tokens per call.
const MOST_TOKENS: usize = 50;

/// Parameters of `get_balances`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id; without it, every configured chain.
    #[serde(default)]
    chain: Option<String>,
    /// Token symbols or 0x addresses; defaults to the native token and every listed token.
    #[serde(default)]
    tokens: Option<Vec<String>>,
    /// Account to query; defaults to the wallet.
    #[serde(default)]
    account: Option<String>,
}

/// Result of `get_balances`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Address of the account.
    account: String,
    /// Total value over all chains, in dollars. Tokens without a price are not counted.
    total_usd: String,
    /// True if every non-zero balance has a price and is counted.
    all_priced: bool,
    /// One entry per chain.
    chains: Vec<ChainBalances>,
    /// Configured chains that could not be reached; their balances are not counted.
    not_reached: Vec<String>,
}

/// Balances on one chain, all read in the same block.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChainBalances {
    /// Name of the chain.
    pub(crate) chain: String,
    /// EIP-155 chain id.
    pub(crate) chain_id: u64,
    /// Number of the block that was read.
    pub(crate) block_number: u64,
    /// Total value on this chain, in dollars. Tokens without a price are not counted.
    pub(crate) total_usd: String,
    /// One entry per token. If no tokens were named, only non-zero balances are listed.
    pub(crate) balances: Vec<Balance>,
}

/// Balance of one token.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Balance {
    /// Symbol, with control characters removed.
    token: String,
    /// Contract address; absent for the native token.
    pub(crate) address: Option<String>,
    /// Number of decimals.
    decimals: u8,
    /// Balance in whole tokens, as a decimal.
    pub(crate) amount: String,
    /// Balance in raw units, as an integer.
    pub(crate) raw: String,
    /// Price of one whole token, in dollars; absent without a price.
    price_usd: Option<String>,
    /// Value of the balance in dollars, rounded down to twelve decimals; absent without a price.
    pub(crate) value_usd: Option<String>,
    /// Reason why there is no price; absent with a price.
    pub(crate) no_price: Option<String>,
}

/// Implementation of `get_balances`; see [`TOOL_DEF`].
pub struct GetBalances;

impl ReadTool for GetBalances {
    const META: ToolMeta = ToolMeta {
        name: "get_balances",
        description: "Lists the balances of the wallet or another account on one chain or all, exact and in dollars. \
                      All balances of a chain are from the same block.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Resolving tokens", "Reading balances", "Reading prices"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Balances per chain with dollar values. Call it before planning a trade and after making one.",
        prompt_guidelines: Guidelines {
            thriving: "Check before and after each trade.",
            cautious: "Check before each trade, and keep enough of the native token for gas.",
            declining: "Check to plan exits, the riskiest holding first.",
            terminal: "Check what is left to sell.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &["total_usd", "all_priced"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"chain": "ethereum", "tokens": ["ETH", "WETH", "USDC"]})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let world = &context.world;
        let account = world.account(params.account.as_deref())?;
        let read = read_balances(context, account, params.chain.as_deref(), params.tokens.as_deref()).await?;
        let AllBalances { total, all_priced, chains, not_reached } = read;
        let shown = dollars(total);
        let mut explanation = if all_priced {
            format!("The account holds {shown}.")
        } else {
            format!("The account holds {shown}, plus tokens without a price.")
        };
        if world.paper().is_some() {
            explanation.push_str(" PAPER: includes paper trades.");
        }
        if !not_reached.is_empty() {
            explanation.push_str(&format!(" Not included, because unreachable: {}.", not_reached.join(", ")));
        }
        Ok(ToolReply::new(
            Output { account: account.to_string(), total_usd: total.to_string(), all_priced, chains, not_reached },
            explanation,
        ))
    }
}

/// Balances of an account on one chain or all of them.
pub(crate) struct AllBalances {
    /// Total value in dollars, of the tokens that have a price.
    pub(crate) total: Usd,
    /// True if every non-zero balance has a price.
    pub(crate) all_priced: bool,
    /// One entry per chain.
    pub(crate) chains: Vec<ChainBalances>,
    /// Configured chains that could not be reached.
    pub(crate) not_reached: Vec<String>,
}

/// Reads the balances of the named tokens, or of the native token and every listed one, on the named chain or all.
///
/// # Errors
/// `VALIDATION_FAILED` for too many tokens, and the errors of the chains.
pub(crate) async fn read_balances(
    context: &CallContext,
    account: Address,
    chain: Option<&str>,
    named: Option<&[String]>,
) -> Result<AllBalances, ToolError> {
    let world = &context.world;
    let (chains, lost) = match chain {
        Some(name) => (vec![world.chain(name)?], &[][..]),
        None => (world.some_chains()?.iter().collect(), world.lost()),
    };
    if let (true, Some(first)) = (chains.is_empty(), lost.first()) {
        return Err(first.reason.clone().into());
    }
    if named.is_some_and(|named| named.len() > MOST_TOKENS) {
        return Err(ToolError::new(
            ErrorCode::ValidationFailed,
            format_args!("parameter `tokens`: at most {MOST_TOKENS} tokens per call"),
        )
        .detail("parameter", "tokens"));
    }
    context.step("Resolving tokens");
    let tokens = try_join_all(chains.iter().map(|chain| tokens_of(chain, named))).await?;
    context.step("Reading balances");
    let asked = chains.iter().zip(tokens);
    let held = try_join_all(asked.map(|(chain, tokens)| held_on(world, chain, account, tokens))).await?;
    context.step("Reading prices");
    let valued = chains.iter().zip(held).map(|(chain, held)| value(chain, held, named.is_some()));
    let valued = try_join_all(valued).await?;
    let total = valued.iter().try_fold(Usd::ZERO, |sum, (_, total)| sum.checked_add(*total)).map_err(too_much)?;
    let chains: Vec<_> = valued.into_iter().map(|(balances, _)| balances).collect();
    let mut all = chains.iter().flat_map(|chain| &chain.balances);
    let all_priced = all.all(|balance| balance.no_price.is_none() || balance.raw == "0");
    let not_reached = lost.iter().map(|lost| lost.name.clone()).collect();
    Ok(AllBalances { total, all_priced, chains, not_reached })
}

/// Resolves the named tokens, or lists the native token and every listed token.
pub(crate) async fn tokens_of(chain: &ConnectedChain, named: Option<&[String]>) -> Result<Vec<TokenInfo>, ToolError> {
    let network = chain.network();
    if let Some(named) = named {
        return try_join_all(named.iter().map(|name| chain.token(name))).await;
    }
    let addresses: Vec<Address> = network.book.tokens().iter().map(|token| token.address).collect();
    let listed = token::read(&addresses, network, chain.client.agreed()).await?;
    // A listed token whose contract is missing or differs from the list has no usable balance.
    Ok(std::iter::once(TokenInfo::native(network)).chain(listed.into_iter().flatten()).collect())
}

/// Balances read in one block.
pub(crate) struct BlockBalances {
    /// Number of the block.
    block_number: u64,
    /// Tokens with their amounts, zero ones too.
    pub(crate) balances: Vec<(TokenInfo, TokenAmount)>,
}

/// Balances of `account` in the newest block, with paper trades.
///
/// # Errors
/// `TOKEN_INVALID` for a token that does not answer, and the errors of the chain.
pub(crate) async fn held_on(
    world: &ToolEnvironment,
    chain: &ConnectedChain,
    account: Address,
    tokens: Vec<TokenInfo>,
) -> Result<BlockBalances, ToolError> {
    let multicall = chain.contract(KnownContract::Multicall3)?;
    let mut calls = CallBatch::default();
    let number = calls.push(multicall, &IMulticall3::getBlockNumberCall {});
    let coin = calls.push(multicall, &IMulticall3::getEthBalanceCall { addr: account });
    let asked: Vec<_> = tokens
        .into_iter()
        .map(|token| {
            let call = match token.id {
                TokenId::Native => None,
                TokenId::Erc20(address) => Some(calls.push(address, &Erc20::balanceOfCall { owner: account })),
            };
            (token, call)
        })
        .collect();
    let answers = chain.ask(calls).await?;
    let missing = |what: &dyn std::fmt::Display| {
        ToolError::new(ErrorCode::ChainInconsistent, format_args!("{} does not return {what}", chain.network()))
    };
    let balances = asked
        .into_iter()
        .map(|(token, call)| {
            let raw = match &call {
                None => coin.take(&answers).ok_or_else(|| missing(&"the native balance"))?,
                Some(call) => call.take(&answers).ok_or_else(|| {
                    ToolError::new(
                        ErrorCode::TokenInvalid,
                        format_args!("{} does not respond to balanceOf", token.symbol),
                    )
                })?,
            };
            let raw = world.balance(chain.network().chain_id, account, token.id, raw)?;
            let amount = TokenAmount::new(raw, token.decimals)?;
            Ok((token, amount))
        })
        .collect::<Result<_, ToolError>>()?;
    let block_number = number.take(&answers).ok_or_else(|| missing(&"its block number"))?.saturating_to();
    Ok(BlockBalances { block_number, balances })
}

/// Adds prices. Unless `all` is set, zero balances are left out.
pub(crate) async fn value(
    chain: &ConnectedChain,
    held: BlockBalances,
    all: bool,
) -> Result<(ChainBalances, Usd), ToolError> {
    let network = chain.network();
    let kept: Vec<_> = held.balances.into_iter().filter(|(_, amount)| all || !amount.raw().is_zero()).collect();
    let contracts: Vec<Option<Address>> = kept.iter().map(|(token, _)| token.contract(network)).collect();
    let asked: Vec<Address> = contracts.iter().flatten().copied().collect();
    let mut reports = chain.prices.prices(&asked).await.into_iter();
    let mut total = Usd::ZERO;
    let mut balances = Vec::with_capacity(kept.len());
    for ((token, amount), contract) in kept.into_iter().zip(contracts) {
        let report = contract.and_then(|_| reports.next());
        let price = report.as_ref().map(|report| report.require().cloned());
        let (price_usd, value_usd, no_price) = match price {
            Some(Ok(price)) => {
                let value = Usd::value_of(amount, price.usd, Rounding::Down).map_err(too_much)?;
                total = total.checked_add(value).map_err(too_much)?;
                (Some(price.usd.to_string()), Some(value.to_string()), None)
            }
            Some(Err(unknown)) => (None, None, Some(unknown.to_string())),
            None => (None, None, Some("this chain's wrapped native token is unknown".to_owned())),
        };
        balances.push(Balance {
            token: token.symbol.to_string(),
            address: match token.id {
                TokenId::Native => None,
                TokenId::Erc20(address) => Some(address.to_string()),
            },
            decimals: token.decimals,
            amount: amount.to_string(),
            raw: amount.raw().to_string(),
            price_usd,
            value_usd,
            no_price,
        });
    }
    let balances = ChainBalances {
        chain: network.name.clone(),
        chain_id: network.chain_id,
        block_number: held.block_number,
        total_usd: total.to_string(),
        balances,
    };
    Ok((balances, total))
}

fn too_much(error: bardo_base::units::UsdError) -> ToolError {
    ToolError::new(ErrorCode::PriceUnavailable, format_args!("the value cannot be computed: {error}"))
}
