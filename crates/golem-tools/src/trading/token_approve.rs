//! `token_approve`: grants an exact token allowance, on the token itself or, for a router, through Permit2 with an
//! expiry.

use alloy::primitives::{Address, U256, aliases::U48, aliases::U160};
use alloy::sol_types::SolCall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::allowances::{self, APPROVAL_GAS, approve};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool, address};
use crate::shared::{CHECKS, PlanReceipt, contract_name, head_time, invalid, whole};
use bardo_abi::permit2::Permit2;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::{AllowanceBound, AllowanceKind, LegPurpose, PlanLeg, Proposal, ProposalIntent};
use golem_chain::network::KnownContract;
use golem_chain::permit2::UNLIMITED;
use golem_chain::token::TokenId;

/// Parameters of `token_approve`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token: symbol or 0x address.
    token: String,
    /// Spender, as a 0x address; defaults to the chain's Universal Router, which spends through Permit2.
    #[serde(default)]
    spender: Option<String>,
    /// Amount in whole tokens, such as "500". "max" is the wallet's whole balance. "unlimited" removes the limit; it
    /// passes only if the policy allows unlimited allowances.
    amount: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Seconds until a Permit2 allowance expires. An allowance on the token itself does not expire.
    #[serde(default = "three_hundred")]
    #[schemars(range(min = 1, max = 2_592_000))]
    expires_in: u64,
}

/// Maximum lifetime of a Permit2 allowance, in seconds: thirty days.
const MAX_EXPIRY: u64 = 2_592_000;

fn three_hundred() -> u64 {
    300
}

/// Result of `token_approve`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Symbol of a listed token; otherwise its address.
    token: String,
    /// Address of the spender.
    spender: String,
    /// Allowance in whole tokens; "unlimited" without a limit.
    allowance: String,
    /// Expiry in seconds since the Unix epoch; absent if the allowance does not expire.
    expires_at: Option<u64>,
    /// Hash of the last transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Gas of all transactions, in gas units.
    gas_used: u64,
    /// URL of the last transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Values kept from preparation for the result.
pub struct ApprovalPlan {
    token: String,
    decimals: u8,
    spender: Address,
    label: Option<String>,
    amount: U256,
    expires_at: Option<u64>,
}

/// Implementation of `token_approve`; see [`TOOL_DEF`].
pub struct TokenApprove;

/// Definition of the `token_approve` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<TokenApprove>();

impl WriteTool for TokenApprove {
    const META: ToolMeta = ToolMeta {
        name: "token_approve",
        description: "Lets a contract take an exact amount of a token. For a Universal Router, the allowance goes \
                      through Permit2 and expires. An unlimited allowance passes only if the policy names it.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Slow,
        progress_steps: &[
            "Reading allowance",
            "Simulating via Revm",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Grants an exact allowance. Swaps grant their own; use this only for a contract that needs one \
                         beforehand.",
        prompt_guidelines: Guidelines {
            thriving: "Grant exactly what the next action needs, and only until it is done.",
            cautious: "Grant only what is used at once, and revoke the rest.",
            declining: "Grant only what an exit needs.",
            terminal: "Grant only what the last exits need, and revoke everything else.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::NewPosition,
        checks: CHECKS,
        event_params: &["token", "spender", "amount", "chain"],
        summary_fields: &["tx_hash", "allowance"],
        card: Some(CardKind::Allowance),
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = ApprovalPlan;

    fn example() -> Value {
        json!({"token": "USDC", "amount": "100", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, ApprovalPlan), ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let account = context.world.account(None)?;
        if params.expires_in == 0 || params.expires_in > MAX_EXPIRY {
            let what = format_args!("{} s; expected 1 to {MAX_EXPIRY}", params.expires_in);
            return Err(invalid("expires_in", &what));
        }
        let token = chain.token(&params.token).await?;
        let TokenId::Erc20(contract) = token.id else {
            return Err(invalid("token", &"the native token is sent with the call and needs no allowance"));
        };
        context.step("Reading allowance");
        let routers: Vec<Address> = allowances::routers(chain).into_iter().map(|(router, _)| router).collect();
        let spender = match &params.spender {
            Some(text) => address(text, "spender")?,
            None => allowances::router(chain)?.0,
        };
        if spender.is_zero() || spender == account || spender == contract {
            return Err(invalid("spender", &"name the contract that will spend the token"));
        }
        let through = routers.contains(&spender);
        let permit2 = chain.contract(KnownContract::Permit2);
        let taker = if through { permit2? } else { spender };
        let (standing, _) =
            allowances::read(chain, contract, account, taker, &[spender][..usize::from(through)]).await?;
        let (amount, in_permit2) = parse_amount(&params.amount, token.decimals, standing.balance)?;
        let (mut legs, mut bounds) = (Vec::new(), Vec::new());
        if standing.of_token != amount {
            let first = !standing.of_token.is_zero()
                && allowances::needs_zero_first(chain, contract, account, taker, amount).await?;
            if first {
                legs.push(approve(LegPurpose::Approve, contract, taker, U256::ZERO));
            }
            legs.push(approve(if through { LegPurpose::Approve } else { LegPurpose::Main }, contract, taker, amount));
            let kind = AllowanceKind::Erc20;
            bounds.push(AllowanceBound { token: token.clone(), spender: taker, kind, at_most: amount });
        }
        let expires_at = match through {
            true => {
                let now = chain.deadline_time(&*context.world.clock, head_time(chain).await?);
                Some(now.saturating_add(params.expires_in))
            }
            false => None,
        };
        if let Some(expires_at) = expires_at {
            legs.push(approve_in_permit2(taker, contract, spender, in_permit2, expires_at));
            let (kind, at_most) = (AllowanceKind::Permit2 { expires_at }, U256::from(in_permit2));
            bounds.push(AllowanceBound { token: token.clone(), spender, kind, at_most });
        }
        if legs.is_empty() {
            let what = format_args!("{spender} may already take exactly this amount; nothing needs to be done");
            return Err(invalid("amount", &what));
        }
        let shown = shown(amount, token.decimals);
        // The approval screen shows the full address separately, so a label is enough here.
        let label = chain.network().book.label(spender);
        let who = label.as_deref().map_or_else(|| spender.to_string(), contract_name);
        let expected = format!("Approve {shown} {} for {who}", token.symbol);
        let plan = ApprovalPlan {
            token: if token.listed { token.symbol.to_string() } else { contract.to_string() },
            decimals: token.decimals,
            spender,
            label,
            amount,
            expires_at,
        };
        let proposal = Proposal {
            legs,
            allowances: bounds,
            ..context.proposal(chain.network().chain_id, account, ProposalIntent::Approve, &expected)
        };
        Ok((proposal, plan))
    }

    fn output(
        context: &CallContext,
        plan: ApprovalPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        let sent = PlanReceipt::of(context, committed)?;
        let allowance = shown(plan.amount, plan.decimals);
        let who = plan.label.as_deref().map_or_else(|| plan.spender.to_string(), contract_name);
        let explanation = sent.explain(&format!("{who} may take {allowance} {}", plan.token));
        let output = Output {
            token: plan.token,
            spender: plan.spender.to_string(),
            allowance,
            expires_at: plan.expires_at,
            tx_hash: sent.tx_hash,
            block_number: sent.block_number,
            gas_used: sent.gas_used,
            explorer_url: sent.explorer_url,
        };
        Ok(ToolReply::new(output, explanation).hint(json!({"spender_label": plan.label})))
    }
}

/// Parses the amount into raw units: for the token, and for Permit2, whose amounts have 160 bits.
fn parse_amount(amount: &str, decimals: u8, balance: U256) -> Result<(U256, U160), ToolError> {
    let amount = match amount.trim() {
        text if text.eq_ignore_ascii_case("unlimited") => return Ok((U256::MAX, UNLIMITED)),
        text if text.eq_ignore_ascii_case("max") => balance,
        text => TokenAmount::parse(text, decimals)?.raw(),
    };
    if amount.is_zero() {
        return Err(invalid("amount", &"to set an allowance to zero, use token_revoke"));
    }
    let inside = U160::checked_from_limbs_slice(amount.as_limbs()).filter(|inside| *inside < UNLIMITED);
    let inside =
        inside.ok_or_else(|| invalid("amount", &"too large to be a limit: write \"unlimited\" if you mean that"))?;
    Ok((amount, inside))
}

fn shown(amount: U256, decimals: u8) -> String {
    if amount == U256::MAX {
        return "unlimited".to_owned();
    }
    TokenAmount::new(amount, decimals).map_or_else(|_| amount.to_string(), |amount| whole(&amount))
}
/// Call of Permit2 that lets `spender` take `amount` of `token`, in raw units, until `expires_at`, in Unix seconds.
fn approve_in_permit2(permit2: Address, token: Address, spender: Address, amount: U160, expires_at: u64) -> PlanLeg {
    let call = Permit2::approveCall { token, spender, amount, expiration: U48::from(expires_at) };
    PlanLeg {
        purpose: LegPurpose::Main,
        to: permit2,
        value: U256::ZERO,
        data: call.abi_encode().into(),
        gas_limit: APPROVAL_GAS,
        slots: Vec::new(),
    }
}
