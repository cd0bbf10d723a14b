//! `uniswapx_cancel_order`: makes an order void on chain, by using up the nonce its signature needs.

use alloy::primitives::U256;
use alloy::sol_types::SolCall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::abi::permit2::Permit2;
use crate::base::error::ToolError;
use crate::base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use crate::base::text::SafeText;
use crate::chain::permit2::nonce_position;
use crate::engine::{CallContext, Reply, ToolDef, WriteTool};
use crate::safety::pipeline::{Committed, State};
use crate::safety::proposal::{Intent, Leg, Proposal, Purpose};
use crate::tools::allowances::{APPROVAL_GAS, Sent, invalid};
use crate::tools::orders::{CHECKS, hash, look};

/// The tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<CancelOrder>();

/// Parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Hash of the order, as uniswap_submit_uniswapx_order gave it; or the id of a bridge order that is not locked yet.
    order_hash: String,
}

/// Result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the order.
    order_hash: String,
    /// cancelled once the transaction is in a block; pending before.
    status: &'static str,
    /// Hash of the transaction; absent where nothing was sent.
    tx_hash: Option<String>,
    /// Block it is in; absent until it is in one.
    block_number: Option<u64>,
    /// Gas used, in units.
    gas_used: u64,
    /// Where to look at the transaction; absent where nothing was sent.
    explorer_url: Option<String>,
}

/// See [`TOOL_DEF`].
pub struct CancelOrder;

impl WriteTool for CancelOrder {
    const META: ToolMeta = ToolMeta {
        name: "uniswapx_cancel_order",
        description: "Makes an open order void: a transaction uses up the Permit2 nonce that its signature needs, and from \
                      then on nobody can fill it. A fill that comes first stands. Allowed in every phase and under every \
                      stop that still lets something be taken back.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Slow,
        progress_steps: &[
            "Asking the chain",
            "Simulating via Revm",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Makes an open order void on chain. It costs gas; letting an order expire costs nothing.",
        prompt_guidelines: Guidelines {
            thriving: "Cancel only where the price has left the order; otherwise let it expire.",
            cautious: "Cancel orders that no plan needs any more.",
            declining: "Cancel whatever is no exit.",
            terminal: "Cancel everything that is open before the last exits.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ClosePosition,
        checks: CHECKS,
        event_params: &["order_hash"],
        summary_fields: &["order_hash", "status", "tx_hash"],
        card: Some(CardKind::Order),
    };
    type Params = Params;
    type Output = Output;
    type Plan = String;

    fn example() -> Value {
        json!({"order_hash": format!("0x{}", "00".repeat(32))})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, String), ToolError> {
        let hash = hash(&params.order_hash, "order_hash")?;
        context.step("Asking the chain");
        let (record, _) = look(&context.world, hash).await?;
        if !record.is_live() {
            let what = format_args!("the order has ended already: {}", record.status);
            return Err(invalid("order_hash", &what));
        }
        let account = context.world.account(None)?;
        if account != record.account {
            return Err(invalid(
                "order_hash",
                &format_args!("the order is {}'s, and this wallet is {account}", record.account),
            ));
        }
        let nonce = record.message.unordered_nonce();
        let nonce = nonce.ok_or_else(|| invalid("order_hash", &"the order has no nonce that could be used up"))?;
        let (word, bit) = nonce_position(nonce);
        let call = Permit2::invalidateUnorderedNoncesCall { wordPos: word, mask: U256::from(1) << bit };
        let leg = Leg {
            purpose: Purpose::Main,
            to: record.message.verifier(),
            value: U256::ZERO,
            data: call.abi_encode().into(),
            gas_limit: APPROVAL_GAS,
            slots: Vec::new(),
        };
        let proposal = Proposal {
            chain_id: record.chain_id,
            tool: *context.meta(),
            call_id: context.call_id(),
            golem_id: context.golem_id().clone(),
            account,
            intent: Intent::CancelOrder,
            legs: vec![leg],
            outflows: Vec::new(),
            inflows: Vec::new(),
            allowances: Vec::new(),
            trade: None,
            recipients: vec![account],
            order: None,
            expected_outcome: SafeText::clean(&format!("nobody can fill order {hash} any more"), 300),
        };
        Ok((proposal, hash.to_string()))
    }

    fn output(context: &CallContext, order_hash: String, committed: &Committed) -> Result<Reply<Output>, ToolError> {
        let sent = Sent::of(context, committed)?;
        let explanation = sent.explain(&format!("nobody can fill order {order_hash} any more"));
        let status = if committed.state == State::Done { "cancelled" } else { "pending" };
        let output = Output {
            order_hash,
            status,
            tx_hash: sent.tx_hash,
            block_number: sent.block_number,
            gas_used: sent.gas_used,
            explorer_url: sent.explorer_url,
        };
        Ok(Reply::new(output, explanation))
    }
}
