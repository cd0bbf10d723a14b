//! `uniswap_get_uniswapx_order_status`: state of an order, from the chain first and the order service second. Also
//! answers for bridge orders, so that a caller with an id need not know its kind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::orders::{card, field, hash, poll};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::orders::OrderRecord;
use bardo_safety::typed::TypedMessage;

/// Definition of the `uniswap_get_uniswapx_order_status` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetUniswapXOrderStatus>();

/// Parameters of `uniswap_get_uniswapx_order_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Hash of the order, as returned by uniswap_submit_uniswapx_order; or the id of an intent.
    order_hash: String,
}

/// Result of `uniswap_get_uniswapx_order_status`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the order.
    order_hash: String,
    /// Order type: `DUTCH_V2`, `DUTCH_V3` or `PRIORITY`; `ERC7683` for a bridge order.
    order_type: &'static str,
    /// Status: `pending`, `open`, `filled`, `expired` or `cancelled`; `insufficient_funds` or `error` if the order
    /// cannot be filled. For a bridge order `pending`, `filling`, `filled`, `expired` or `refunded`.
    status: String,
    /// Last second in which the order can be filled, since the Unix epoch.
    deadline: u64,
    /// Output at the start of the auction, in whole tokens.
    start_amount: String,
    /// Minimum output, in whole tokens.
    end_amount: String,
    /// Current output, or the output at the time of the fill, in whole tokens.
    current_amount: String,
    /// Received amount in whole tokens; absent before the fill.
    fill_amount: Option<String>,
    /// Address of the filler; absent before the fill.
    filler: Option<String>,
    /// Name of the filler at the order service; absent if the service names none.
    filler_name: Option<String>,
    /// Hash of the transaction that filled or cancelled the order; absent before.
    tx_hash: Option<String>,
    /// Location of the tokens, as a sentence.
    money: String,
    /// Obstacle or reason for the end, as a sentence; empty if there is none.
    remark: String,
}

/// Implementation of `uniswap_get_uniswapx_order_status`; see [`TOOL_DEF`].
pub struct GetUniswapXOrderStatus;

impl ReadTool for GetUniswapXOrderStatus {
    const META: ToolMeta = ToolMeta {
        name: "uniswap_get_uniswapx_order_status",
        description: "Shows the status of a UniswapX order or a bridge order of this wallet: its current price, the \
                      filler and fill price, or why it ended. Fills, cancellations and expiries are read from the \
                      chain, never from the order service alone.",
        category: Category::Trading,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Reading chain state"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Shows the status of a UniswapX order. Poll it until the order has ended, before any other \
                         trade of the same pair.",
        prompt_guidelines: Guidelines {
            thriving: "Poll between other work; the order needs no action.",
            cautious: "Poll often, and cancel an order if the market has moved away from its price.",
            declining: "Poll until the exit is filled; if it ends unfilled, exit with uniswap_execute_swap.",
            terminal: "Poll until it ends; do not wait for a second auction.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["order_hash"],
        summary_fields: &["status", "current_amount", "fill_amount"],
        card: Some(CardKind::Order),
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"order_hash": format!("0x{}", "00".repeat(32))})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let hash = hash(&params.order_hash, "order_hash")?;
        context.step("Reading chain state");
        let (record, doubt) = poll(&context.world, hash).await?;
        let card = card(&record);
        let doubt = doubt.map(|doubt| format!(" Last known state, because {doubt}.")).unwrap_or_default();
        let order = match &record.message {
            TypedMessage::UniswapxOrder { order, .. } => order,
            TypedMessage::CrossChainOrder { intent, .. } => {
                let output = bridged(&record, u64::from(intent.fill_deadline), &card);
                let explanation = format!("Bridge order {hash} status: {}. {}.{doubt}", output.status, output.money);
                return Ok(ToolReply::new(output, explanation).hint(json!({"order": card})));
            }
            TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => {
                return Err(ToolError::new(ErrorCode::ValidationFailed, "this id does not belong to an order"));
            }
        };
        let fill = card.get("fill");
        let of_fill = |name: &str| fill.and_then(|fill| fill.get(name)).and_then(Value::as_str).map(str::to_owned);
        let place = fill.and_then(|fill| fill.get("tx")).or_else(|| card.get("cancelled_by"));
        let output = Output {
            order_hash: record.hash.to_string(),
            order_type: order.kind().name(),
            status: record.status.to_string(),
            deadline: order.info().deadline.saturating_to(),
            start_amount: field(&card, "start_amount"),
            end_amount: field(&card, "end_amount"),
            current_amount: field(&card, "current_amount"),
            fill_amount: of_fill("amount_out"),
            filler: of_fill("filler"),
            filler_name: of_fill("name"),
            tx_hash: place.and_then(|place| place.get("hash")).and_then(Value::as_str).map(str::to_owned),
            money: field(&card, "money"),
            remark: field(&card, "remark"),
        };
        let explanation = format!("Order {hash} status: {}. {}.{doubt}", output.status, output.money);
        Ok(ToolReply::new(output, explanation).hint(json!({"order": card})))
    }
}

/// Builds the result for a bridge order, which asks for one constant amount.
fn bridged(record: &OrderRecord, deadline: u64, card: &Value) -> Output {
    let chosen = card.get("bids").and_then(Value::as_array).into_iter().flatten();
    let chosen = chosen.into_iter().find(|bid| bid.get("chosen").and_then(Value::as_bool) == Some(true));
    let of_chosen = |name: &str| chosen.and_then(|bid| bid.get(name)).and_then(Value::as_str).map(str::to_owned);
    let delivered = card.get("delivered").filter(|place| place.is_object());
    let place = card.get("refunded").filter(|place| place.is_object()).or(delivered);
    let asked = field(card, "min_out");
    Output {
        order_hash: record.hash.to_string(),
        order_type: "ERC7683",
        status: record.status.to_string(),
        deadline,
        start_amount: asked.clone(),
        end_amount: asked.clone(),
        current_amount: asked,
        fill_amount: card.get("amount_out").and_then(Value::as_str).map(str::to_owned),
        // Before the delivery, a bid names only a candidate. Afterwards the chain names the filler.
        filler: card.get("filler").and_then(Value::as_str).map(str::to_owned),
        filler_name: delivered.and_then(|_| of_chosen("name")),
        tx_hash: place.and_then(|place| place.get("hash")).and_then(Value::as_str).map(str::to_owned),
        money: field(card, "money"),
        remark: field(card, "remark"),
    }
}
