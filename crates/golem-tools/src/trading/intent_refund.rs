//! `intent_refund`: recovers the tokens of a bridge order that were locked and not delivered in time.

use alloy::primitives::{Bytes, TxKind};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::orders::{CHECKS, CancelReceipt, cancellation_proposal, card, field, own};
use crate::shared::{head_time, invalid};
use bardo_abi::erc7683::OriginSettler;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::IntentStatus;
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_safety::orders::OrderState;
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::{Inflow, Proposal, ProposalIntent};
use bardo_safety::typed::TypedMessage;
use golem_chain::provider::ProviderError;

/// Definition of the `intent_refund` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<IntentRefund>();

/// Gas limit of a refund, with a margin.
const REFUND_GAS: u64 = 160_000;

/// Parameters of `intent_refund`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Id of the intent, as returned by uniswap_submit_cross_chain_intent.
    pub intent_id: String,
}

/// Result of `intent_refund`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id of the intent.
    intent_id: String,
    /// Status: `refunded` once the transaction is confirmed, `expired` before.
    status: &'static str,
    /// Refunded amount, in whole tokens.
    amount: String,
    /// Symbol of the refunded token.
    token: String,
    /// Name of the chain on which it is refunded.
    chain: String,
    /// Transaction that refunded the intent.
    #[serde(flatten)]
    transaction: CancelReceipt,
}

/// Values kept from preparation for the result.
pub struct RefundPlan {
    intent_id: String,
    amount: String,
    symbol: SafeText,
    chain: String,
}

/// Implementation of `intent_refund`; see [`TOOL_DEF`].
pub struct IntentRefund;

impl WriteTool for IntentRefund {
    const META: ToolMeta = ToolMeta {
        name: "intent_refund",
        description: "Refunds the money of a cross-chain intent that was locked but not delivered before its deadline. \
                      The origin settler pays only the account that signed. Allowed in every phase.",
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
        prompt_snippet: "Refunds the money locked by an expired cross-chain intent. It is always allowed.",
        prompt_guidelines: Guidelines {
            thriving: "Call it as soon as an intent has expired.",
            cautious: "Call it as soon as an intent has expired.",
            declining: "Call it as soon as an intent has expired, before the next exit.",
            terminal: "Call it for every expired intent before the last exits.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ClosePosition,
        checks: CHECKS,
        event_params: &["intent_id"],
        summary_fields: &["amount", "token", "chain", "status", "intent_id", "tx_hash"],
        card: Some(CardKind::CrossChain),
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = RefundPlan;

    fn example() -> Value {
        json!({"intent_id": format!("0x{}", "00".repeat(32))})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, RefundPlan), ToolError> {
        let record = own(context, &params.intent_id, "intent_id").await?;
        let id = record.hash;
        let TypedMessage::CrossChainOrder { intent, .. } = &record.message else {
            return Err(invalid("intent_id", &"this is the hash of an auction order, which locks no money"));
        };
        let known = card(&record);
        // Money that is locked and can still be delivered comes back later: waiting helps.
        let is_filling = record.status == OrderState::Bridge(IntentStatus::Filling);
        if !(is_filling || record.status.has_expired()) || !record.is_live() {
            let what = format_args!("the intent is {}: {}", record.status, field(&known, "money"));
            return Err(invalid("intent_id", &what));
        }
        let chain = context.world.chain(&record.chain_id.to_string())?;
        let (provider, block) = chain.client.newest().await?;
        let request = TransactionRequest {
            to: Some(TxKind::Call(intent.origin_settler)),
            input: Bytes::from(OriginSettler::refundDelayCall {}.abi_encode()).into(),
            ..Default::default()
        };
        let delay = provider.call(request).block(block).await.map_err(ProviderError::from)?;
        let delay = OriginSettler::refundDelayCall::abi_decode_returns(&delay).map_err(|_| {
            ToolError::new(ErrorCode::ChainInconsistent, "the settler does not return its refund delay")
        })?;
        let from = u64::from(intent.fill_deadline).saturating_add(delay.into());
        // The settler goes by its chain's time.
        let now = chain.deadline_time(&*context.world.clock, head_time(chain).await?);
        if now <= from {
            let seconds = from.saturating_sub(now).saturating_add(1);
            let what = format_args!("the settler refunds it from {from} on, in {seconds} s, unless it is delivered");
            return Err(ToolError::new(ErrorCode::NotYet, what).detail("retry_after_seconds", seconds));
        }
        if is_filling {
            let what = "ask for its status first: it may have been delivered since it was last read";
            return Err(ToolError::new(ErrorCode::NotYet, what).detail("retry_after_seconds", 1));
        }
        let call = (intent.origin_settler, OriginSettler::refundCall { orderId: id }.abi_encode().into(), REFUND_GAS);
        let amount = field(&known, "amount_in");
        let symbol = record.figures.token_in.symbol.clone();
        let expected = format!("{amount} {symbol} of intent {id} is back in the wallet");
        // The inflow must be declared: the pipeline treats undeclared receipts as unexpected.
        let back = intent.data.inputAmount;
        let token = chain.token(&intent.data.inputToken.to_string()).await?;
        let inflow = Inflow { token, at_least: back, expected: back, recipient: record.account };
        let proposal = Proposal {
            inflows: vec![inflow],
            ..cancellation_proposal(context, &record, ProposalIntent::Refund, call, &expected)
        };
        Ok((
            proposal,
            RefundPlan { intent_id: id.to_string(), amount, symbol, chain: chain.network().name.to_string() },
        ))
    }

    fn output(
        context: &CallContext,
        plan: RefundPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        let done = format!("{} {} of intent {} is back in the wallet", plan.amount, plan.symbol, plan.intent_id);
        let (transaction, ended, explanation) = CancelReceipt::of(context, committed, &done)?;
        let status = if ended { "refunded" } else { "expired" };
        let RefundPlan { intent_id, amount, symbol, chain } = plan;
        Ok(ToolReply::new(
            Output { intent_id, status, amount, token: symbol.to_string(), chain, transaction },
            explanation,
        ))
    }
}
