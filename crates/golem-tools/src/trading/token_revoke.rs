//! `token_revoke`: revokes token allowances, on the token itself and inside Permit2.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::allowances::{self, APPROVAL_GAS, approve};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool, address};
use crate::shared::{CHECKS, PlanReceipt, contract_name, invalid};
use bardo_abi::permit2::Permit2::{self, TokenSpenderPair};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::{AllowanceBound, AllowanceKind, LegPurpose, PlanLeg, Proposal, ProposalIntent};
use golem_chain::network::KnownContract;
use golem_chain::token::TokenId;

/// Definition of the `token_revoke` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<TokenRevoke>();

/// Parameters of `token_revoke`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token: symbol or 0x address.
    pub token: String,
    /// Spender whose allowance is revoked, as a 0x address. By default, Permit2's allowance on the token and the
    /// routers' allowances inside Permit2.
    #[serde(default)]
    pub spender: Option<String>,
    /// Chain name, alias or decimal id.
    pub chain: String,
}

/// Result of `token_revoke`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Symbol of a listed token; otherwise its address.
    token: String,
    /// Addresses of the spenders whose allowances were revoked.
    spenders: Vec<String>,
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
pub struct RevocationPlan {
    token: String,
    spenders: Vec<String>,
    /// Labels of the spenders from the address book; the address where there is no label.
    called: Vec<String>,
}

/// Implementation of `token_revoke`; see [`TOOL_DEF`].
pub struct TokenRevoke;

impl WriteTool for TokenRevoke {
    const META: ToolMeta = ToolMeta {
        name: "token_revoke",
        description: "Revokes a contract's allowances of a token, on the token itself and inside Permit2. Allowed in \
                      every phase.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Slow,
        progress_steps: &[
            "Reading allowance",
            "Simulating via Revm",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Revokes an allowance. It is always allowed; use it for every allowance that is no longer \
                         needed.",
        prompt_guidelines: Guidelines {
            thriving: "Revoke allowances left over from an action.",
            cautious: "Revoke every allowance that the next action does not need.",
            declining: "Revoke every allowance that no exit needs.",
            terminal: "Revoke every allowance after the last exit.",
            memory: None,
        },
        idempotent: true,
        // The least strict class that a write can claim. The pipeline derives the actual class from the simulated
        // changes.
        action_class: ActionClass::ClosePosition,
        checks: CHECKS,
        event_params: &["token", "spender", "chain"],
        summary_fields: &["tx_hash", "spenders"],
        card: Some(CardKind::Allowance),
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = RevocationPlan;

    fn example() -> Value {
        json!({"token": "USDC", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, RevocationPlan), ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let account = context.world.account(None)?;
        let token = chain.token(&params.token).await?;
        let TokenId::Erc20(contract) = token.id else {
            return Err(invalid("token", &"the native token is sent with the call and has no allowances"));
        };
        context.step("Reading allowance");
        let permit2 = chain.contract(KnownContract::Permit2)?;
        let asked = params.spender.as_deref().map(|text| address(text, "spender")).transpose()?;
        let (spender, through): (Address, Vec<Address>) = match asked {
            Some(spender) => (spender, vec![spender]),
            None => {
                let routers = allowances::routers(chain).into_iter().map(|(router, _)| router);
                let positions = chain.network().book.contract(KnownContract::V4PositionManager);
                (permit2, routers.chain(positions).collect())
            }
        };
        let (standing, inside) = allowances::read(chain, contract, account, spender, &through).await?;
        let mut legs = Vec::new();
        let mut spenders = Vec::new();
        let mut bounds = Vec::new();
        let mut gone = |spender: Address, kind: AllowanceKind| {
            bounds.push(AllowanceBound { token: token.clone(), spender, kind, at_most: U256::ZERO });
        };
        if !standing.of_token.is_zero() {
            gone(spender, AllowanceKind::Erc20);
            legs.push(approve(LegPurpose::Main, contract, spender, U256::ZERO));
            spenders.push(spender.to_string());
        }
        let taken = through.iter().zip(&inside).filter(|(_, inside)| !inside.amount.is_zero());
        let approvals: Vec<TokenSpenderPair> =
            taken.map(|(router, _)| TokenSpenderPair { token: contract, spender: *router }).collect();
        if !approvals.is_empty() {
            spenders.extend(approvals.iter().map(|pair| pair.spender.to_string()));
            approvals.iter().for_each(|pair| gone(pair.spender, AllowanceKind::Permit2 { expires_at: 0 }));
            // A plan has one main transaction: the one before it becomes a preparing approval.
            legs.iter_mut().for_each(|leg: &mut PlanLeg| leg.purpose = LegPurpose::Approve);
            legs.push(PlanLeg {
                purpose: LegPurpose::Main,
                to: permit2,
                value: U256::ZERO,
                data: Permit2::lockdownCall { approvals }.abi_encode().into(),
                gas_limit: APPROVAL_GAS,
                slots: Vec::new(),
            });
        }
        if legs.is_empty() {
            let what = format_args!(
                "{} may take no {}; nothing needs to be done",
                asked.map_or_else(|| "no known contract".to_owned(), |one| one.to_string()),
                token.symbol
            );
            return Err(invalid("token", &what));
        }
        let book = &chain.network().book;
        let name = |text: &String| text.parse().ok().and_then(|one| book.label(one)).unwrap_or_else(|| text.clone());
        let called: Vec<String> = spenders.iter().map(name).collect();
        let names: Vec<String> = called.iter().map(|label| contract_name(label)).collect();
        let expected = format!("Revoke {} of {}", token.symbol, names.join(", "));
        let listed = if token.listed { token.symbol.to_string() } else { contract.to_string() };
        let plan = RevocationPlan { token: listed, spenders, called };
        let proposal = Proposal {
            legs,
            allowances: bounds,
            ..context.proposal(chain.network().chain_id, account, ProposalIntent::Revoke, &expected)
        };
        Ok((proposal, plan))
    }

    fn output(
        context: &CallContext,
        plan: RevocationPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        let sent = PlanReceipt::of(context, committed)?;
        let names: Vec<String> = plan.called.iter().map(|label| contract_name(label)).collect();
        let explanation = sent.explain(&format!("{} may no longer take {}", names.join(", "), plan.token));
        let hints = match (plan.spenders.as_slice(), plan.called.as_slice()) {
            ([spender], [called]) if spender != called => json!({"spender_label": called}),
            _ => json!({}),
        };
        let output = Output {
            token: plan.token,
            spenders: plan.spenders,
            tx_hash: sent.tx_hash,
            block_number: sent.block_number,
            gas_used: sent.gas_used,
            explorer_url: sent.explorer_url,
        };
        Ok(ToolReply::new(output, explanation).hint(hints))
    }
}
