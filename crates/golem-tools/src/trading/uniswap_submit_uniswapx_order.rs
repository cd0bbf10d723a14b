//! `uniswap_submit_uniswapx_order`: signs a UniswapX auction order and submits it to the order service. The filler pays
//! the gas; the price falls until a filler takes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::auction::{self, AuctionPlan, AuctionRequest};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::mev::measures;
use crate::orders::{self, CHECKS, card, field};
use crate::shared::invalid;
use crate::swap_query::slippage;
use bardo_base::error::ToolError;
use bardo_base::format::{short_hash, time_of_day};
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpenderRole, SpriteTrigger, TickBudget,
    ToolMeta,
};
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::Proposal;

/// Definition of the `uniswap_submit_uniswapx_order` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<SubmitUniswapXOrder>();

/// Maximum lifetime of an order, in seconds: one day.
const LONGEST: u64 = 86_400;

/// Parameters of `uniswap_submit_uniswapx_order`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token paid: symbol or 0x address. Orders cannot pay native tokens: pay WETH instead of ETH.
    token_in: String,
    /// Token received: symbol or 0x address.
    token_out: String,
    /// Amount of token_in, in whole tokens. "max" is the wallet's whole balance.
    amount: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Seconds until the auction starts. Only a priority order (on base) can set it. For the other kinds the cosigner
    /// starts the decay after about 10 s, and any other value is refused.
    #[serde(default = "ten")]
    #[schemars(range(max = 86_399))]
    decay_start_time: u64,
    /// Seconds until the order ends.
    #[serde(default = "hundred_and_twenty")]
    #[schemars(range(min = 1, max = 86_400))]
    decay_end_time: u64,
    /// Slippage tolerance in basis points below the quote, which leaves room for a filler's gas and margin. Defaults to
    /// 50, or less if phase or policy allow less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(max = 10_000), extend("default" = 50))]
    slippage_bps: Option<u32>,
}

fn ten() -> u64 {
    auction::STARTS_IN
}

fn hundred_and_twenty() -> u64 {
    120
}

/// Result of `uniswap_submit_uniswapx_order`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the order.
    order_hash: String,
    /// Order type: `DUTCH_V2`, `DUTCH_V3` or `PRIORITY`.
    order_type: &'static str,
    /// Status: `pending`, `open`, `filled`, `expired` or `cancelled`; `insufficient_funds` or `error` if the order
    /// cannot be filled; `unclear` if it may have been signed but no service has confirmed it; `simulated` if nothing
    /// was signed.
    status: String,
    /// Last second in which the order can be filled, since the Unix epoch.
    deadline: u64,
    /// Output at the start of the auction, in whole tokens.
    start_amount: String,
    /// Minimum output, in whole tokens.
    end_amount: String,
}

/// Implementation of `uniswap_submit_uniswapx_order`; see [`TOOL_DEF`].
pub struct SubmitUniswapXOrder;

impl WriteTool for SubmitUniswapXOrder {
    const META: ToolMeta = ToolMeta {
        name: "uniswap_submit_uniswapx_order",
        description: "Signs a UniswapX order and submits it to the order service, where fillers compete to settle it. \
                      Its price falls from a start to an end (on base it rises with the filler's priority fee \
                      instead); an unfilled order expires and costs no tokens. The filler pays the gas. The worst \
                      possible fill is simulated through the real reactor before anything is signed, and the order's \
                      full amount counts as spent until it has ended. Custody: under delegation, the session account \
                      signs over its own capped balance, for the owner as recipient, and needs no ETH. For an embedded \
                      wallet, its wallet server signs Permit2, and a local key signs it in this process: a plain \
                      account has no on-chain bounds, and both are checked against the policy's spending limits off \
                      chain.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Validating order", "Signing Permit2", "Submitting to filler network"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Places a UniswapX auction order that fillers settle, protected from front-running and without \
                         gas. Prefer it above $1K on mainnet. Track it with uniswap_get_uniswapx_order_status.",
        prompt_guidelines: Guidelines {
            thriving: "Prefer it to Classic routing above $1K: the auction usually gives the better price.",
            cautious: "Prefer it as well, with a shorter window, so that the price has less time to move.",
            declining: "For exits only, with decay_end_time at 60 so that it fills soon.",
            terminal: "Only if a fill may take time; otherwise exit at once with uniswap_execute_swap.",
            memory: None,
        },
        idempotent: false,
        // The least strict class that a write can claim. The pipeline derives the actual class from the simulated fill.
        action_class: ActionClass::ClosePosition,
        checks: CHECKS,
        event_params: &["token_in", "token_out", "amount", "chain"],
        summary_fields: &["order_hash", "order_type", "status"],
        card: Some(CardKind::Order),
        spenders: &[SpenderRole::OrderReactor],
    };
    type Params = Params;
    type Output = Output;
    type Plan = AuctionPlan;

    fn example() -> Value {
        json!({"token_in": "USDC", "token_out": "WETH", "amount": "250", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, AuctionPlan), ToolError> {
        context.step("Validating order");
        let Params { token_in, token_out, amount, chain, decay_start_time, decay_end_time, slippage_bps } = params;
        if decay_end_time == 0 || decay_end_time > LONGEST {
            return Err(invalid(
                "decay_end_time",
                &format_args!("{decay_end_time} s; expected 1 to {LONGEST} s from now"),
            ));
        }
        let slippage = slippage(context, slippage_bps)?;
        let request = AuctionRequest {
            token_in: &token_in,
            token_out: &token_out,
            amount: &amount,
            chain: &chain,
            starts_in: decay_start_time,
            ends_in: decay_end_time,
            slippage,
            limit: None,
        };
        auction::order(context, &request).await
    }

    fn output(_: &CallContext, plan: AuctionPlan, committed: &CommitOutcome) -> Result<ToolReply<Output>, ToolError> {
        Ok(summed_up(plan, committed))
    }
}

/// Builds the result from the order's record and the outcome of the commit.
pub(super) fn summed_up(plan: AuctionPlan, committed: &CommitOutcome) -> ToolReply<Output> {
    let record = committed.order.as_deref();
    let order_card = record.map(card);
    let status = orders::status(&committed.state, record);
    let remark = order_card.as_ref().map(|order_card| field(order_card, "remark")).unwrap_or_default();
    let said = match &committed.state {
        CommitState::Placed => format!("Order {} status: {status}", short_hash(plan.hash)),
        CommitState::Simulated => "Would be placed; nothing was signed".to_owned(),
        CommitState::Unclear => {
            format!("Order {} may have been signed: do not place it again, check its status", short_hash(plan.hash))
        }
        CommitState::Done | CommitState::Reverted | CommitState::Stopped { .. } => {
            "The order was not placed".to_owned()
        }
    };
    let explanation = format!(
        "{said}. It starts at {} {} and pays at least {}, until {} UTC.{}",
        plan.start,
        plan.symbol,
        plan.end,
        time_of_day(plan.deadline),
        if remark.is_empty() { String::new() } else { format!(" Note: {remark}.") }
    );
    let output = Output {
        order_hash: plan.hash.to_string(),
        order_type: plan.kind.name(),
        status,
        deadline: plan.deadline,
        start_amount: plan.start.to_string(),
        end_amount: plan.end.to_string(),
    };
    let hints = json!({
        "route_type": plan.kind.name(),
        "notes": plan.notes,
        "uniswapx": {"preferred": true, "used": true, "why": "it was requested as an order"},
        "mev": measures(orders::sight(&committed.state), plan.size.as_ref()),
        "order": order_card,
    });
    ToolReply::new(output, explanation).hint(hints)
}
