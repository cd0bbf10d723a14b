//! `uniswap_check_allowance`: checks whether a spender can take enough of a token.
//!
//! Universal Routers never use a token's own allowance. They spend through Permit2: the token must allow Permit2, and
//! Permit2 must allow the router until an expiry. A router can spend the smaller of the two amounts.

use std::time::Duration;

use alloy::primitives::{Address, U256};
use alloy::providers::bindings::IMulticall3;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply, address};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use golem_chain::multicall::CallBatch;
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::quote::{ApprovalQuery, SourceApproval};

/// Definition of the `uniswap_check_allowance` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<CheckAllowance>();

/// Universal Routers that spend through Permit2, preferred first.
const ROUTERS: [KnownContract; 5] = [
    KnownContract::UniversalRouter,
    KnownContract::UniversalRouterV210,
    KnownContract::UniversalRouterV211,
    KnownContract::UniversalRouterV212,
    KnownContract::UniversalRouterV220,
];

/// Timeout for the quote source's answer about approvals.
const SECOND_WORD_PATIENCE: Duration = Duration::from_millis(1_500);

/// Parameters of `uniswap_check_allowance`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token symbol or 0x address.
    token: String,
    /// Address of the spender; defaults to the chain's Universal Router.
    #[serde(default)]
    spender: Option<String>,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Result of `uniswap_check_allowance`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Symbol of a listed token; otherwise its address.
    token: String,
    /// Address of the spender.
    spender: String,
    /// Amount that the spender can take now, in raw units.
    allowance: String,
    /// True if the allowance covers the wallet's whole balance, so that no further approval is needed.
    sufficient: bool,
    /// True if an approval is needed first; the opposite of `sufficient`.
    needs_approval: bool,
}

/// Implementation of `uniswap_check_allowance`; see [`TOOL_DEF`].
pub struct CheckAllowance;

impl ReadTool for CheckAllowance {
    const META: ToolMeta = ToolMeta {
        name: "uniswap_check_allowance",
        description: "Shows how much of a token the Universal Router, Permit2 or another spender may take from the \
                      wallet, and whether an approval is needed before a swap or a liquidity operation.",
        category: Category::Trading,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Resolving token", "Reading allowance"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Shows how much of a token the Universal Router or Permit2 may take. Check before a swap or a \
                         liquidity operation whether an approval is needed first. Changes nothing.",
        prompt_guidelines: Guidelines {
            thriving: "Check before trades, and approve through Permit2 where several approvals can be combined.",
            cautious: "Check every time, and make sure the spender is a contract you expect.",
            declining: "Check before exits only.",
            terminal: "Check before exits, and approve no more than the current exit needs.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["token", "spender", "chain"],
        summary_fields: &["needs_approval", "allowance"],
        card: Some(CardKind::Allowance),
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"token": "WETH", "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let owner = context.world.account(None)?;
        context.step("Resolving token");
        let book = &chain.network().book;
        let spender = match &params.spender {
            Some(text) => address(text, "spender")?,
            None => default_router(chain)?,
        };
        if spender.is_zero() {
            return Err(ToolError::new(
                ErrorCode::ValidationFailed,
                "parameter `spender`: the zero address cannot spend; name the contract that will spend the token",
            )
            .detail("parameter", "spender"));
        }
        let token = chain.token(&params.token).await?;
        let label = book.label(spender);
        context.step("Reading allowance");
        let TokenId::Erc20(contract) = token.id else {
            return Ok(coin_needs_none(&token, spender));
        };
        let found = read(chain, contract, owner, spender).await?;
        let sufficient = found.usable >= found.balance;
        let output = Output {
            token: if token.listed { token.symbol.to_string() } else { contract.to_string() },
            spender: spender.to_string(),
            allowance: found.usable.to_string(),
            sufficient,
            needs_approval: !sufficient,
        };
        let who = label.clone().unwrap_or_else(|| spender.to_string());
        let explanation = if sufficient {
            format!("{who} may take all {} the wallet holds; no approval is needed.", token.symbol)
        } else if found.expired {
            format!("{who}'s Permit2 allowance of {} has expired; an approval is needed.", token.symbol)
        } else {
            format!("{who} may not take all {} the wallet holds; an approval is needed.", token.symbol)
        };
        let source_approval = compare_with_source(context, chain, contract, owner, spender, &found).await;
        let hints = json!({
            "quote_source": source_approval,
            "owner": owner,
            "balance": found.balance.to_string(),
            "spender_label": label,
            "token_allowance": found.of_token.to_string(),
            "permit2": found.of_permit2.map(|(amount, expires_at)| {
                json!({"amount": amount.to_string(), "expires_at": expires_at, "expired": found.expired})
            }),
        });
        Ok(ToolReply::new(output, explanation).hint(hints))
    }
}

fn default_router(chain: &ConnectedChain) -> Result<Address, ToolError> {
    let book = &chain.network().book;
    let known = ROUTERS.into_iter().find_map(|router| book.contract(router));
    known.map_or_else(|| chain.contract(KnownContract::UniversalRouter), Ok)
}

fn takes_through_permit2(book: &AddressBook, spender: Address) -> bool {
    ROUTERS.into_iter().any(|router| book.contract(router) == Some(spender))
}

/// Allowances of a token, all read in one block. Raw units.
struct TokenAllowances {
    /// Amount that the spender can take now.
    usable: U256,
    /// Balance of the owner.
    balance: U256,
    /// ERC-20 allowance of the spender, or of Permit2 for a router.
    of_token: U256,
    /// Permit2 allowance of a router, with its expiry in seconds since the Unix epoch; `None` for other spenders.
    of_permit2: Option<(U256, u64)>,
    /// True if a non-zero Permit2 allowance has expired.
    expired: bool,
}

async fn read(
    chain: &ConnectedChain,
    token: Address,
    owner: Address,
    spender: Address,
) -> Result<TokenAllowances, ToolError> {
    let network = chain.network();
    let routed = takes_through_permit2(&network.book, spender);
    let taker = if routed { chain.contract(KnownContract::Permit2)? } else { spender };
    let mut calls = CallBatch::default();
    let balance = calls.push(token, &Erc20::balanceOfCall { owner });
    let of_token = calls.push(token, &Erc20::allowanceCall { owner, spender: taker });
    let time = calls.push(chain.contract(KnownContract::Multicall3)?, &IMulticall3::getCurrentBlockTimestampCall {});
    let of_permit2 = routed.then(|| calls.push(taker, &Permit2::allowanceCall { owner, token, spender }));
    let answers = chain.ask(calls).await?;
    let silent = |what: &str| {
        ToolError::new(ErrorCode::TokenInvalid, format_args!("the contract at {token} does not respond to {what}"))
    };
    let balance = balance.take(&answers).ok_or_else(|| silent("balanceOf"))?;
    let of_token = of_token.take(&answers).ok_or_else(|| silent("allowance"))?;
    let inconsistent =
        |what: &str| ToolError::new(ErrorCode::ChainInconsistent, format_args!("{network} does not return {what}"));
    let now: u64 = time.take(&answers).ok_or_else(|| inconsistent("its time"))?.saturating_to();
    let Some(call) = of_permit2 else {
        return Ok(TokenAllowances { usable: of_token, balance, of_token, of_permit2: None, expired: false });
    };
    let allowed = call.take(&answers).ok_or_else(|| inconsistent("the Permit2 allowance"))?;
    let (amount, expires_at) = (U256::from(allowed.amount), allowed.expiration.to::<u64>());
    // Permit2 still pays in the second of the expiry, but the next block is at least one second later.
    let expired = expires_at <= now;
    let usable = if expired { U256::ZERO } else { amount.min(of_token) };
    // An allowance that was never granted has not expired.
    let expired = expired && !amount.is_zero();
    Ok(TokenAllowances { usable, balance, of_token, of_permit2: Some((amount, expires_at)), expired })
}

/// Asks the quote source whether the token allows Permit2 enough, and compares its answer with the chain. The chain's
/// answer always counts. Returns `None` for spenders other than routers, and for sources without an opinion on
/// approvals.
async fn compare_with_source(
    context: &CallContext,
    chain: &ConnectedChain,
    token: Address,
    owner: Address,
    spender: Address,
    found: &TokenAllowances,
) -> Option<Value> {
    let book = &chain.network().book;
    let permit2 = book.contract(KnownContract::Permit2).filter(|_| takes_through_permit2(book, spender))?;
    let quotes = &context.world.quotes;
    let ask = ApprovalQuery { chain_id: chain.network().chain_id, owner, token, amount: found.balance, permit2 };
    let enough = found.of_token >= found.balance;
    let Ok(answer) = tokio::time::timeout(SECOND_WORD_PATIENCE, quotes.approval(&ask)).await else {
        return Some(
            json!({ "name": quotes.name(), "agrees_with_chain": Value::Null, "error": "no response in time" }),
        );
    };
    match answer {
        Ok(None) => None,
        Ok(Some(word)) => {
            let source_approval = word == SourceApproval::Enough;
            Some(json!({
                "name": quotes.name(),
                "says_token_allows_permit2": source_approval,
                "agrees_with_chain": source_approval == enough,
            }))
        }
        Err(error) => Some(json!({
            "name": quotes.name(), "agrees_with_chain": Value::Null,
            "error": bardo_base::text::SafeText::clean(&error.to_string(), 300),
        })),
    }
}

/// Builds the answer for the native token, which is sent with the transaction and needs no approval.
fn coin_needs_none(token: &TokenInfo, spender: Address) -> ToolReply<Output> {
    let output = Output {
        token: token.symbol.to_string(),
        spender: spender.to_string(),
        allowance: "0".to_owned(),
        sufficient: true,
        needs_approval: false,
    };
    ToolReply::new(
        output,
        format!("{} is the native token: it is sent with the call and needs no approval.", token.symbol),
    )
}
