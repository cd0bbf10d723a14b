//! `claim_fees`: collects the protocol fees of V3 pools into the jar.

use std::collections::BTreeMap;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::sol_types::SolEvent as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Jar, OwedRow};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool, address};
use crate::shared::{CHECKS, PlanReceipt, failed, invalid};
use bardo_abi::protocol_fees::ProtocolFeePool;
use bardo_base::contracts::KnownContract;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use golem_chain::fork::ForkCall;
use golem_protocols::protocol_fees::{FeeCall, MOST_POOLS};

/// Definition of the `claim_fees` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<ClaimFees>();

/// Gas beside one and a half times that of the simulated call.
const GAS_ROOM: u64 = 60_000;

/// Parameters of `claim_fees`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Addresses of V3 pools, at most 20; those of `get_tokenjar_balances` that owe the most if absent.
    #[serde(default)]
    pools: Option<Vec<String>>,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Fees of one pool.
#[derive(Debug, Serialize, JsonSchema)]
struct CollectedRow {
    /// Address of the pool.
    pool: String,
    /// Symbols of its tokens.
    tokens: [String; 2],
    /// Amounts that went into the jar, in whole tokens, by the pool's event; before inclusion, what it owes.
    amounts: [String; 2],
}

/// Result of `claim_fees`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Address of the jar.
    token_jar: String,
    /// Fees by pool.
    collected: Vec<CollectedRow>,
    /// Gas used, in gas units.
    gas_used: u64,
    /// URL of the transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Values kept from preparation for the result.
pub struct ClaimPlan {
    jar: Address,
    pools: Vec<OwedRow>,
    decimals: BTreeMap<Address, u8>,
}

/// Implementation of `claim_fees`; see [`TOOL_DEF`].
pub struct ClaimFees;

impl WriteTool for ClaimFees {
    const META: ToolMeta = ToolMeta {
        name: "claim_fees",
        description: "Collects the protocol fees that Uniswap V3 pools owe into the jar of protocol fees, through the adapter that \
                      owns the factory. Anybody may; the caller pays gas and receives nothing. Only a following release by \
                      execute_burn brings the caller anything.",
        category: Category::Fees,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: &[
            "Reading jar",
            "Simulating via Revm",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Collects protocol fees of V3 pools into the jar; costs gas and brings nothing by itself.",
        prompt_guidelines: Guidelines {
            thriving: "Collect before a release when what pools owe makes the release worth its cost.",
            cautious: "Leave it: it only costs gas.",
            declining: "Not allowed.",
            terminal: "Not allowed.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: CHECKS,
        event_params: &["pools", "chain"],
        summary_fields: &["tx_hash", "collected"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = ClaimPlan;

    fn example() -> Value {
        json!({"chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, ClaimPlan), ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let account = context.world.account(None)?;
        context.step("Reading jar");
        let jar = Jar::read(chain).await?;
        let adapter = chain.contract(KnownContract::V3FeeAdapter)?;
        let owed = jar.owed(chain).await?;
        let mut pools = match &params.pools {
            None => owed.into_iter().take(MOST_POOLS).collect(),
            Some(named) => {
                let mut chosen: Vec<OwedRow> = Vec::new();
                for name in named {
                    let pool = address(name, "pools")?;
                    let row = owed.iter().find(|row| row.address == pool).ok_or_else(|| {
                        let what = format_args!("{pool} is not a V3 pool of two listed tokens that owes protocol fees");
                        invalid("pools", &what).suggest("get_tokenjar_balances lists those that do.")
                    })?;
                    if !chosen.iter().any(|one| one.address == pool) {
                        chosen.push(row.clone());
                    }
                }
                chosen
            }
        };
        pools.sort_by_key(|row| row.address);
        if pools.is_empty() || pools.len() > MOST_POOLS {
            let what = format_args!("there are {} such pools; 1 to {MOST_POOLS} can be collected", pools.len());
            return Err(invalid("pools", &what));
        }
        let call = FeeCall::Collect { pools: pools.iter().map(|row| row.address).collect() };
        context.step("Simulating via Revm");
        let fork = chain.fork(BlockId::hash(jar.head.hash)).await?;
        let simulation = fork.simulate(&[ForkCall::new(account, adapter, call.calldata(account))]).await?;
        if let Some(error) = failed(&simulation, "the collection") {
            return Err(error);
        }
        let gas = simulation.gas_used();
        let leg = PlanLeg {
            purpose: LegPurpose::Main,
            to: adapter,
            value: U256::ZERO,
            data: call.calldata(account),
            gas_limit: gas.saturating_add(gas / 2).saturating_add(GAS_ROOM),
            slots: Vec::new(),
        };
        let count = pools.len();
        let book = &chain.network().book;
        let decimals = book.tokens().iter().map(|token| (token.address, token.decimals)).collect();
        let proposal = Proposal {
            legs: vec![leg],
            ..context.proposal(
                chain.network().chain_id,
                account,
                ProposalIntent::ProtocolFees,
                &sentence(count, jar.jar),
            )
        };
        Ok((proposal, ClaimPlan { jar: jar.jar, pools, decimals }))
    }

    fn output(
        context: &CallContext,
        plan: ClaimPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        let sent = PlanReceipt::of(context, committed)?;
        let logs: Vec<_> = committed.legs.iter().flat_map(|leg| &leg.logs).collect();
        let rows = plan.pools.iter().map(|row| {
            let own = logs.iter().filter(|log| log.address == row.address);
            let event = own.filter_map(|log| ProtocolFeePool::CollectProtocol::decode_log(log).ok()).next();
            let [first, second] = &row.owes;
            let amounts = match event {
                Some(event) => {
                    let whole = |asset: Address, raw: u128| {
                        let decimals = plan.decimals.get(&asset).copied().unwrap_or_default();
                        TokenAmount::new(U256::from(raw), decimals).map(|amount| amount.to_string())
                    };
                    [whole(first.asset, event.amount0)?, whole(second.asset, event.amount1)?]
                }
                None => [first.amount.clone(), second.amount.clone()],
            };
            Ok(CollectedRow { pool: row.pool.clone(), tokens: [first.symbol.clone(), second.symbol.clone()], amounts })
        });
        let collected = rows.collect::<Result<Vec<_>, ToolError>>()?;
        let explanation = sent.explain(&sentence(collected.len(), plan.jar));
        let output = Output {
            tx_hash: sent.tx_hash,
            block_number: sent.block_number,
            token_jar: plan.jar.to_string(),
            collected,
            gas_used: sent.gas_used,
            explorer_url: sent.explorer_url,
        };
        Ok(ToolReply::new(output, explanation))
    }
}

fn sentence(pools: usize, jar: Address) -> String {
    let what = if pools == 1 { "pool" } else { "pools" };
    format!("Collect the protocol fees of {pools} V3 {what} into the jar {jar}")
}
