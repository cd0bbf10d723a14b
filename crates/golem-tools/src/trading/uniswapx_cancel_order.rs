//! `uniswapx_cancel_order`: cancels an order on chain, by invalidating the Permit2 nonce that its signature needs.

use alloy::primitives::{B256, U256};
use alloy::sol_types::SolCall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::allowances::APPROVAL_GAS;
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::orders::{CHECKS, CancelReceipt, cancellation_proposal, card, field, own};
use crate::shared::invalid;
use bardo_abi::permit2::Permit2;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::IntentStatus;
use bardo_base::format::short_hash;
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::orders::{OrderRecord, OrderState};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::{Proposal, ProposalIntent};
use golem_chain::multicall::CallBatch;
use golem_chain::permit2::{nonce_position, nonce_used};

/// Definition of the `uniswapx_cancel_order` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<CancelOrder>();

/// Parameters of `uniswapx_cancel_order`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Hash of the order, as returned by uniswap_submit_uniswapx_order; or the id of a bridge order that is not locked
    /// yet.
    pub order_hash: String,
}

/// Result of `uniswapx_cancel_order`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the order.
    order_hash: String,
    /// Status: `cancelled` once the transaction is confirmed, `pending` before.
    status: &'static str,
    /// Transaction that cancelled the order.
    #[serde(flatten)]
    transaction: CancelReceipt,
}

/// Implementation of `uniswapx_cancel_order`; see [`TOOL_DEF`].
pub struct CancelOrder;

impl WriteTool for CancelOrder {
    const META: ToolMeta = ToolMeta {
        name: "uniswapx_cancel_order",
        description: "Cancels an open order: a transaction invalidates the Permit2 nonce of its signature, and from \
                      then on nobody can fill it. An earlier fill remains valid. Allowed in every phase and under \
                      every stop that still permits cancellations.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Slow,
        progress_steps: &[
            "Reading chain state",
            "Simulating via Revm",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Cancels an open order on chain. It costs gas; letting an order expire costs nothing.",
        prompt_guidelines: Guidelines {
            thriving: "Cancel only if the market has moved away from the order; otherwise let it expire.",
            cautious: "Cancel orders that no plan needs.",
            declining: "Cancel every order that is not an exit.",
            terminal: "Cancel all open orders before the last exits.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ClosePosition,
        checks: CHECKS,
        event_params: &["order_hash"],
        summary_fields: &["order_hash", "status", "tx_hash"],
        card: Some(CardKind::Order),
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = B256;

    fn example() -> Value {
        json!({"order_hash": format!("0x{}", "00".repeat(32))})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, B256), ToolError> {
        let record = own(context, &params.order_hash, "order_hash").await?;
        if !record.is_live() {
            let what = format_args!("the order has already ended: {}", record.status);
            return Err(invalid("order_hash", &what));
        }
        let nonce = record.message.unordered_nonce();
        let nonce = nonce.ok_or_else(|| invalid("order_hash", &"the order has no nonce that could be invalidated"))?;
        let (word, bit) = nonce_position(nonce);
        if is_used(context, &record, word, nonce).await? {
            let known = card(&record);
            let what = match record.status {
                OrderState::Bridge(IntentStatus::Pending) | OrderState::Auction(_) | OrderState::Unplaced => {
                    "its nonce is already used, so nobody can fill it".to_owned()
                }
                OrderState::Bridge(_) => format!("its money is already locked: {}", field(&known, "money")),
            };
            return Err(invalid("order_hash", &what));
        }
        let call = Permit2::invalidateUnorderedNoncesCall { wordPos: word, mask: U256::from(1) << bit };
        let call = (record.message.verifier(), call.abi_encode().into(), APPROVAL_GAS);
        let expected = format!("order {} can no longer be filled", short_hash(record.hash));
        Ok((cancellation_proposal(context, &record, ProposalIntent::CancelOrder, call, &expected), record.hash))
    }

    fn output(
        context: &CallContext,
        order_hash: B256,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        let done = format!("order {} can no longer be filled", short_hash(order_hash));
        let (transaction, ended, explanation) = CancelReceipt::of(context, committed, &done)?;
        let status = if ended { "cancelled" } else { "pending" };
        Ok(ToolReply::new(Output { order_hash: order_hash.to_string(), status, transaction }, explanation))
    }
}

/// Returns true if the nonce of a signed order is used in the chain's newest block.
///
/// # Errors
/// `CHAIN_INCONSISTENT` if Permit2 does not answer, and the errors of the chain.
async fn is_used(context: &CallContext, record: &OrderRecord, word: U256, nonce: U256) -> Result<bool, ToolError> {
    let chain = context.world.chain(&record.chain_id.to_string())?;
    let mut calls = CallBatch::default();
    let bits = calls.push(record.message.verifier(), &Permit2::nonceBitmapCall { owner: record.account, word });
    let answers = chain.ask(calls).await?;
    let silent = || ToolError::new(ErrorCode::ChainInconsistent, "Permit2 does not return which nonces are used");
    Ok(nonce_used(nonce, bits.take(&answers).ok_or_else(silent)?))
}
