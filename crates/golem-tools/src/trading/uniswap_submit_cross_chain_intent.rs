//! `uniswap_submit_cross_chain_intent`: signs an ERC-7683 order that pays a token on one chain for a token on another.
//! A relayer locks the input on the origin chain with that signature, delivers on the destination from its own funds,
//! and is repaid on the origin.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::providers::Provider as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::auction::approvals;
use crate::engine::{CallContext, ConnectedChain, ToolDef, ToolEnvironment, ToolReply, WriteTool};
use crate::orders::{self, CHECKS, card, field, random_nonce};
use crate::shared::{head_time, invalid, whole};
use bardo_abi::erc20::Erc20;
use bardo_abi::erc7683::AcrossOrderData;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::short_hash;
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpenderRole, SpriteTrigger, TickBudget,
    ToolMeta,
};
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::{self, BridgeArrival, Outflow, Proposal, SignedOrder};
use bardo_safety::typed::TypedMessage;
use golem_chain::devnet::MiningMode;
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_chain::provider::{ClientBackend, EndpointCondition, ProviderError};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::intents::CrossChainIntent;
use golem_protocols::intents::gateway::{BidRequest, RelayerBid};

/// Definition of the `uniswap_submit_cross_chain_intent` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<SubmitCrossChainIntent>();

/// Bounds of an intent's lifetime, in seconds: one minute to one week.
const SHORTEST: u64 = 60;
const LONGEST: u64 = 604_800;

/// Limits for the age of the destination's latest block, in block times and in seconds. Beyond both, the chain counts
/// as stalled.
const STILL_BLOCKS: u64 = 10;
const STILL_SECONDS: u64 = 60;

/// Parameters of `uniswap_submit_cross_chain_intent`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token paid on the source chain: symbol or 0x address.
    token_in: String,
    /// Token received on the destination chain: symbol or 0x address.
    token_out: String,
    /// Amount of token_in, in whole tokens. "max" is the wallet's whole balance.
    amount: String,
    /// Source chain: name, alias or decimal id.
    source_chain: String,
    /// Destination chain: name, alias or decimal id.
    destination_chain: String,
    /// Seconds until the intent can no longer be delivered.
    #[serde(default = "hour")]
    #[schemars(range(min = 60, max = 604_800))]
    deadline: u64,
}

fn hour() -> u64 {
    3_600
}

/// Bid of a filler.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FillerBid {
    /// Address of the filler.
    filler: String,
    /// Offered output, in whole tokens.
    output_amount: String,
    /// Filler's estimate of the delivery time, such as "8s".
    estimated_time: String,
}

/// Result of `uniswap_submit_cross_chain_intent`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id of the intent.
    intent_id: String,
    /// Status: `pending`, `filling`, `filled`, `expired` or `refunded`; `unclear` if the intent may have been signed
    /// but no service has confirmed it; `simulated` if nothing was signed; `error` if it was not sent.
    status: String,
    /// Name of the source chain.
    source_chain: String,
    /// Name of the destination chain.
    destination_chain: String,
    /// Output if the intent is filled, in whole tokens. Fillers deliver exactly the ordered amount.
    estimated_output: String,
    /// Bids of fillers, best first.
    filler_bids: Vec<FillerBid>,
    /// Number of bids.
    filler_count: usize,
}

/// Values kept from preparation for the result.
pub struct IntentPlan {
    id: B256,
    source: String,
    destination: String,
    least: TokenAmount,
    symbol: SafeText,
    bids: Vec<RelayerBid>,
}

/// Implementation of `uniswap_submit_cross_chain_intent`; see [`TOOL_DEF`].
pub struct SubmitCrossChainIntent;

impl WriteTool for SubmitCrossChainIntent {
    const META: ToolMeta = ToolMeta {
        name: "uniswap_submit_cross_chain_intent",
        description: "Signs an ERC-7683 order: a token leaves the source chain, and the winning filler delivers \
                      another one on the destination chain. The destination's health is checked first. The money is \
                      locked in a known contract until delivery; if nobody delivers in time, intent_refund returns it. \
                      Delivery is confirmed by the balance on the destination chain. Custody: under delegation, the \
                      session account signs over its own capped balance, and the origin settler must be among its \
                      allowed targets; the filler pays the gas. For an embedded wallet, its wallet server signs, and a \
                      local key signs in this process: a plain account has no on-chain bounds, and both are checked \
                      against the policy's source chains and spending limits off chain.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Slow,
        progress_steps: &[
            "Validating chains",
            "Signing intent",
            "Submitting to filler network",
            "Awaiting initial bids",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Moves value to another chain by an ERC-7683 intent that fillers compete for. Check the \
                         destination with get_chain_status first, every time.",
        prompt_guidelines: Guidelines {
            thriving: "Use it to rebalance between chains. Compare the bids before committing, and prefer chains where \
                       many fillers compete.",
            cautious: "Only towards a safer chain, with a deadline of 1800 s, and only if the destination is not \
                       degraded.",
            declining: "Not available unless the operator opens this phase to more than exits: sell on the chain where \
                        the tokens are.",
            terminal: "Not available: a bridge is not an exit. Sell on the chain where the tokens are.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ClosePosition,
        checks: CHECKS,
        event_params: &["token_in", "token_out", "amount", "source_chain", "destination_chain"],
        summary_fields: &["intent_id", "status", "filler_count"],
        card: Some(CardKind::CrossChain),
        spenders: &[SpenderRole::IntentSettler],
    };
    type Params = Params;
    type Output = Output;
    type Plan = IntentPlan;

    fn example() -> Value {
        json!({"token_in": "USDC", "token_out": "USDC", "amount": "100", "source_chain": "ethereum",
               "destination_chain": "base"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, IntentPlan), ToolError> {
        prepare(context, params).await
    }

    fn output(_: &CallContext, plan: IntentPlan, committed: &CommitOutcome) -> Result<ToolReply<Output>, ToolError> {
        output(plan, committed)
    }
}

async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, IntentPlan), ToolError> {
    context.step("Validating chains");
    let world = &context.world;
    if params.deadline < SHORTEST || params.deadline > LONGEST {
        let what = format_args!("{} s; expected {SHORTEST} to {LONGEST} s from now", params.deadline);
        return Err(invalid("deadline", &what));
    }
    let source = world.chain(&params.source_chain)?;
    let destination = match world.chain(&params.destination_chain) {
        Ok(chain) => chain,
        Err(error) if error.code() == ErrorCode::ChainUnknown => return Err(error),
        Err(error) => return Err(degraded(&params.destination_chain, error.message())),
    };
    let (from, to) = (source.network(), destination.network());
    if from.chain_id == to.chain_id {
        return Err(invalid("destination_chain", &"same as the source chain: use a swap instead"));
    }
    let account = world.account(None)?;
    world.orders()?;
    let arrives_at = health(destination, world.clock.now_seconds()).await?;
    let permit2 = source.contract(KnownContract::Permit2)?;
    let settler = source.contract(KnownContract::OriginSettler)?;
    known_code(destination, KnownContract::DestinationSettler).await?;
    let (token_in, token_out) =
        futures::try_join!(source.token(&params.token_in), destination.token(&params.token_out))?;
    let erc20 = |token: &golem_chain::token::TokenInfo, parameter: &str| match token.id {
        TokenId::Erc20(address) => Ok(address),
        TokenId::Native => {
            Err(invalid(parameter, &"an intent moves ERC-20 tokens, not the native token: wrap it first"))
        }
    };
    let (paid, wanted) = (erc20(&token_in, "token_in")?, erc20(&token_out, "token_out")?);
    let amount = if params.amount.trim().eq_ignore_ascii_case("max") {
        let on_chain = balance(source, paid, account).await?;
        context.world.balance(source.network().chain_id, account, token_in.id, on_chain)?
    } else {
        TokenAmount::parse(&params.amount, token_in.decimals)?.raw()
    };
    if amount.is_zero() {
        return Err(invalid("amount", &"zero; give the amount to send"));
    }
    context.step("Awaiting initial bids");
    let request = BidRequest {
        origin_chain_id: from.chain_id,
        destination_chain_id: to.chain_id,
        token_in: paid,
        amount_in: amount,
        token_out: wanted,
    };
    let (least, bids) = least(world, [source, destination], [&token_in, &token_out], &request).await?;
    let (legs, bounds) = approvals(world, source, &token_in, amount, permit2).await?;
    let leaves_at = head_time(source).await?;
    // Both chains compare their own times with its deadlines.
    let now = source.deadline_time(&*world.clock, leaves_at.max(arrives_at));
    let intent = intent_of(world, [settler, account], &request, least, [now, params.deadline])?;
    let given = TokenAmount::new(amount, token_in.decimals)?;
    let plan = IntentPlan {
        id: intent.id(),
        source: from.name.clone(),
        destination: to.name.clone(),
        least: TokenAmount::new(least, token_out.decimals)?,
        symbol: token_out.symbol.clone(),
        bids,
    };
    let expected = format!(
        "Bridge {} {} on {} for >= {} {} on {}",
        whole(&given),
        token_in.symbol,
        from.name,
        whole(&plan.least),
        token_out.symbol,
        to.name
    );
    let proposal = Proposal {
        legs,
        outflows: vec![Outflow { token: token_in, amount }],
        allowances: bounds,
        order: Some(Box::new(SignedOrder {
            message: TypedMessage::CrossChainOrder { permit2, intent: Box::new(intent) },
            holder: settler,
            arrival: Some(BridgeArrival { chain_id: to.chain_id, token: token_out, at_least: least, expected: least }),
        })),
        ..context.proposal(from.chain_id, account, proposal::ProposalIntent::Bridge, &expected)
    };
    Ok((proposal, plan))
}

/// The intent over `least` of the wanted token. `now` and the time until its end are in seconds.
fn intent_of(
    world: &ToolEnvironment,
    [origin_settler, account]: [Address; 2],
    request: &BidRequest,
    least: U256,
    [now, deadline]: [u64; 2],
) -> Result<CrossChainIntent, ToolError> {
    let time = |seconds: u64| {
        let moment = now.checked_add(seconds).and_then(|moment| u32::try_from(moment).ok());
        moment.ok_or_else(|| invalid("deadline", &"too late: exceeds the largest time of an intent"))
    };
    Ok(CrossChainIntent {
        origin_settler,
        user: account,
        nonce: random_nonce(world),
        origin_chain_id: request.origin_chain_id,
        // The input must be locked in the first half of the lifetime, to leave time for delivery.
        open_deadline: time(deadline / 2)?,
        fill_deadline: time(deadline)?,
        data: AcrossOrderData {
            inputToken: request.token_in,
            inputAmount: request.amount_in,
            outputToken: request.token_out,
            outputAmount: least,
            destinationChainId: U256::from(request.destination_chain_id),
            recipient: account.into_word(),
            exclusiveRelayer: Address::ZERO,
            depositNonce: U256::ZERO,
            exclusivityPeriod: 0,
            message: Bytes::new(),
        },
    })
}

/// Asks the relayers for bids; the least that must arrive, and the bids.
async fn least(
    world: &ToolEnvironment,
    [source, destination]: [&ConnectedChain; 2],
    [token_in, token_out]: [&TokenInfo; 2],
    request: &BidRequest,
) -> Result<(U256, Vec<RelayerBid>), ToolError> {
    let (from, to) = (source.network(), destination.network());
    let network = world.orders()?.chain(from.chain_id)?.bridges.as_ref().ok_or_else(|| {
        ToolError::new(
            ErrorCode::ChainUnsupported,
            format_args!("no service is connected that fills intents from {from}"),
        )
    })?;
    let bids = network.quote(request).await.map_err(|error| unanswered(&error))?;
    let asked = TokenAmount::new(request.amount_in, token_in.decimals)?;
    let reference = reference_bid(&bids).ok_or_else(|| {
        let (given, got) = (&token_in.symbol, &token_out.symbol);
        let what = format_args!("no filler bids for {asked} {given} on {from} against {got} on {to}");
        ToolError::new(ErrorCode::RoutingInsufficientLiquidity, what)
            .suggest("Try another amount: fillers skip amounts below their gas cost and above their balance.")
    })?;
    let reference = match fair_output(
        [source, destination],
        [request.token_in, request.token_out],
        asked,
        token_out.decimals,
    )
    .await
    {
        Some(fair) => reference.min(fair),
        None => reference,
    };
    // A relayer delivers exactly the ordered amount, so the minimum is also the expected output; the margin is the
    // filler's.
    Ok((world.intent_margin.minimum_out(reference), bids))
}

/// Returns the reference for the order's output: the median of the fillers' highest bids, the lower of the two middle
/// ones. A single filler that bids more than it will deliver moves the reference no further than the next honest bid.
fn reference_bid(bids: &[RelayerBid]) -> Option<U256> {
    let mut highest: BTreeMap<Address, U256> = BTreeMap::new();
    for bid in bids.iter().filter(|bid| !bid.output.is_zero()) {
        let output = highest.entry(bid.relayer).or_default();
        *output = bid.output.max(*output);
    }
    let mut outputs: Vec<U256> = highest.into_values().collect();
    outputs.sort();
    outputs.get(outputs.len().saturating_sub(1) / 2).copied()
}

/// Returns the value of the input amount in the output token, by both chains' price feeds; `None` without a price. No
/// filler can profitably deliver more.
pub(crate) async fn fair_output(
    [source, destination]: [&ConnectedChain; 2],
    [paid, wanted]: [Address; 2],
    amount: TokenAmount,
    decimals: u8,
) -> Option<U256> {
    let (there, here) = futures::join!(destination.prices.price(wanted), source.prices.price(paid));
    let (price_in, price_out) = (here.ok()?.usd, there.ok()?.usd);
    let value = Usd::value_of(amount, price_in, Rounding::Down).ok()?.scaled(12, Rounding::Down)?;
    let price = U256::from(price_out.scaled(12, Rounding::Up)?);
    let one = U256::from(10).checked_pow(U256::from(decimals))?;
    U256::from(value).checked_mul(one)?.checked_div(price)
}

pub(crate) fn degraded(chain: &str, why: impl std::fmt::Display) -> ToolError {
    ToolError::new(
        ErrorCode::CrossChainDestinationDegraded,
        format_args!("the destination {chain} is unhealthy: {why}"),
    )
}

fn unanswered(error: &ServiceError) -> ToolError {
    ToolError::new(ErrorCode::ChainUnreachable, error)
}

/// Checks that the destination answers and produces blocks; returns the timestamp of its latest block.
///
/// # Errors
/// `CROSS_CHAIN_DESTINATION_DEGRADED` otherwise.
pub(crate) async fn health(chain: &ConnectedChain, now: u64) -> Result<u64, ToolError> {
    let network = chain.network();
    let refuse = |why: String| degraded(&network.name, why);
    let head = head_time(chain).await.map_err(|error| refuse(error.message().to_owned()))?;
    let condition = chain.client.health().condition;
    if matches!(condition, EndpointCondition::Down | EndpointCondition::Degraded) {
        return Err(refuse(format!("its endpoints are {condition:?}").to_lowercase()));
    }
    let interval = match chain.client.backing() {
        ClientBackend::Devnet(devnet) => match devnet.mining().await.map_err(|error| refuse(error.to_string()))? {
            // This devnet mines a block with the first transaction, so an old block is normal.
            MiningMode::OnTransaction => return Ok(head),
            MiningMode::Manual => return Err(refuse("it produces no blocks".to_owned())),
            MiningMode::Interval(interval) => u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
        },
        ClientBackend::Endpoints(_) => network.block_millis,
    };
    let patience = (interval.saturating_mul(STILL_BLOCKS) / 1_000).max(STILL_SECONDS);
    let age = now.saturating_sub(head);
    if age > patience {
        return Err(refuse(format!("its latest block is {age} s old")));
    }
    Ok(head)
}

/// Returns the address of a contract from the address book after checking its code hash.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` if the contract or its hash is not listed, or the code differs.
async fn known_code(chain: &ConnectedChain, contract: KnownContract) -> Result<Address, ToolError> {
    let at = chain.contract(contract)?;
    let network = chain.network();
    let unsupported = |what: String| ToolError::new(ErrorCode::ChainUnsupported, what);
    let known = network.book.code_hash(contract);
    let known = known.ok_or_else(|| {
        unsupported(format!("the address book of {network} has no code hash for its {}", contract.key()))
    })?;
    let (provider, block) = chain.client.newest().await?;
    let code = provider.get_code_at(at).block_id(block).await.map_err(ProviderError::from)?;
    let found = keccak256(&code);
    if found == known {
        return Ok(at);
    }
    Err(unsupported(format!("the code of the {} of {network} at {at} differs from the known code", contract.key())))
}

async fn balance(chain: &ConnectedChain, token: Address, owner: Address) -> Result<U256, ToolError> {
    let mut calls = CallBatch::default();
    let held = calls.push(token, &Erc20::balanceOfCall { owner });
    let answers = chain.ask(calls).await?;
    held.take(&answers)
        .ok_or_else(|| ToolError::new(ErrorCode::TokenInvalid, format_args!("{token} does not respond to balanceOf")))
}

fn output(plan: IntentPlan, committed: &CommitOutcome) -> Result<ToolReply<Output>, ToolError> {
    let record = committed.order.as_deref();
    let intent_card = record.map(card);
    let status = orders::status(&committed.state, record);
    let text = |amount: U256| {
        TokenAmount::new(amount, plan.least.decimals()).map_or_else(|_| amount.to_string(), |amount| amount.to_string())
    };
    let bids = plan.bids.iter().map(|bid| FillerBid {
        filler: bid.relayer.to_string(),
        output_amount: text(bid.output),
        estimated_time: format!("{}s", bid.seconds),
    });
    let remark = intent_card.as_ref().map(|intent_card| field(intent_card, "remark")).unwrap_or_default();
    let least = format!("at least {} {} on {}", whole(&plan.least), plan.symbol, plan.destination);
    let words = match &committed.state {
        // It stays true when the order was delivered or refunded.
        CommitState::Placed => format!("Bridge order {} was placed, for {least}", short_hash(plan.id)),
        CommitState::Simulated => "Would be signed; nothing was signed".to_owned(),
        CommitState::Unclear => {
            format!("Bridge order {} may have been signed: do not send it again", short_hash(plan.id))
        }
        CommitState::Done | CommitState::Reverted | CommitState::Stopped { .. } => {
            "The bridge order was not sent".to_owned()
        }
    };
    let note = if remark.is_empty() { String::new() } else { format!(" Note: {remark}.") };
    let arrives = match &committed.state {
        CommitState::Simulated | CommitState::Unclear => format!(" It is for {least}."),
        CommitState::Placed | CommitState::Done | CommitState::Reverted | CommitState::Stopped { .. } => String::new(),
    };
    let explanation = format!("{words}.{arrives}{note}");
    let output = Output {
        intent_id: plan.id.to_string(),
        status,
        source_chain: plan.source,
        destination_chain: plan.destination,
        estimated_output: plan.least.to_string(),
        filler_bids: bids.collect(),
        filler_count: plan.bids.len(),
    };
    let hints = json!({"min_output": plan.least.to_string(), "intent": intent_card});
    Ok(ToolReply::new(output, explanation).hint(hints))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bids(outputs: &[(u8, u64)]) -> Vec<RelayerBid> {
        let bid = |(filler, output): &(u8, u64)| RelayerBid {
            relayer: Address::repeat_byte(*filler),
            name: SafeText::clean("filler", 10),
            output: U256::from(*output),
            seconds: 10,
            chosen: false,
        };
        outputs.iter().map(bid).collect()
    }

    #[test]
    fn one_filler_that_overbids_does_not_move_the_order_above_an_honest_bid() {
        for (outputs, expected) in [
            (&[(1, 990)][..], Some(990)),
            (&[(1, 990), (2, 9_000)], Some(990)),
            (&[(1, 990), (2, 980), (3, 9_000)], Some(990)),
            (&[(1, 990), (2, 980), (3, 985), (4, 9_000)], Some(985)),
            // Many bids of the same filler, and bids of zero.
            (&[(1, 990), (2, 980), (3, 9_000), (3, 9_001), (3, 9_002)], Some(990)),
            (&[(1, 990), (2, 0), (3, 0)], Some(990)),
            (&[(1, 0)], None),
            (&[], None),
        ] {
            assert_eq!(reference_bid(&bids(outputs)), expected.map(U256::from), "{outputs:?}");
        }
    }
}
