//! `across_deposit`: deposits a token with the bridge Across, for a token on another chain.

use alloy::primitives::{Address, U256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::across::{QuotedRoute, RouteParams, quoted};
use crate::allowances::{self, approve};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::orders::CHECKS;
use crate::shared::{PlanReceipt, balance, insufficient, invalid, whole};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::TxState;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpenderRole, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::{
    AllowanceBound, AllowanceKind, BridgeArrival, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent,
};
use golem_protocols::across::call::OwnDeposit;
use golem_protocols::across::event::DepositEvent;

/// Definition of the `across_deposit` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<AcrossDeposit>();

/// Bounds of the time for a fill, in seconds: one minute to what the pools permit.
const SHORTEST: u64 = 60;
const LONGEST: u64 = 21_600;

/// Gas limit of a deposit; one takes about 100,000.
const DEPOSIT_GAS: u64 = 260_000;

/// Parameters of `across_deposit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token deposited on the source chain: symbol or 0x address.
    token_in: String,
    /// Token received on the destination chain: symbol or 0x address. Defaults to the symbol of token_in.
    #[serde(default)]
    token_out: Option<String>,
    /// Amount of token_in, in whole tokens. "max" is the wallet's whole balance.
    amount: String,
    /// Source chain: name, alias or decimal id.
    source_chain: String,
    /// Destination chain: name, alias or decimal id.
    destination_chain: String,
    /// Largest part of the deposit's value that may not arrive, in basis points.
    #[serde(default = "usual_fee")]
    #[schemars(range(max = 10_000))]
    max_fee_bps: u32,
    /// Seconds in which it can be filled; afterwards it is paid back.
    #[serde(default = "hour")]
    #[schemars(range(min = 60, max = 21_600))]
    deadline: u64,
}

fn hour() -> u64 {
    3_600
}

fn usual_fee() -> u32 {
    100
}

/// Result of `across_deposit`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the last transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Id of the deposit on the source chain, by the pool's event in the receipt; absent before inclusion. With it,
    /// across_get_deposit_status tells what becomes of it.
    deposit_id: Option<String>,
    /// Name of the source chain.
    source_chain: String,
    /// Name of the destination chain.
    destination_chain: String,
    /// Deposited amount, in whole tokens.
    amount_in: String,
    /// Amount that arrives if it is filled, in whole tokens. A fill delivers exactly it.
    amount_out: String,
    /// Part of the deposit's value that does not arrive, by both chains' price feeds, in basis points, rounded up.
    fee_bps: u64,
    /// Last second in which it can be filled, since the Unix epoch, by the destination's time.
    fill_deadline: u64,
    /// Pool that took it.
    pool: String,
    /// Gas of all transactions, in gas units; the simulated gas if none is known.
    gas_used: u64,
    /// URL of the last transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Values kept from preparation for the result.
pub struct DepositPlan {
    call: OwnDeposit,
    pool: Address,
    source: String,
    destination: String,
    given: TokenAmount,
    received: TokenAmount,
    symbols: [SafeText; 2],
    fee_bps: u64,
}

impl DepositPlan {
    fn sentence(&self, verb: &str) -> String {
        let [given, received] = &self.symbols;
        format!(
            "{verb} {} {given} on {} for {} {received} on {}",
            whole(&self.given),
            self.source,
            whole(&self.received),
            self.destination
        )
    }
}

/// Implementation of `across_deposit`; see [`TOOL_DEF`].
pub struct AcrossDeposit;

impl WriteTool for AcrossDeposit {
    const META: ToolMeta = ToolMeta {
        name: "across_deposit",
        description: "Moves a token to another chain through the bridge Across: deposits it in the SpokePool of the address \
                      book, and a relayer pays the wallet on the destination from its own funds. The amount that must arrive \
                      is in the deposit itself, bounded by max_fee_bps and the policy's loss limit at both chains' price \
                      feeds, whatever the quote says. Recipient and depositor are the wallet; no relayer is preferred and no \
                      message is sent. Unfilled, the pool pays the deposit back after its deadline: on public networks \
                      within hours, without a call. Wrapped ether arrives as ether.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Slow,
        progress_steps: &[
            "Validating chains",
            "Quoting",
            "Simulating via Revm",
            "Approving token",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Moves a token to another chain through Across. Quote it with across_get_quote first, and follow it \
                         with across_get_deposit_status.",
        prompt_guidelines: Guidelines {
            thriving: "Use it to rebalance between chains, with the fee in proportion to the gain.",
            cautious: "Only towards a safer chain, and only while the destination makes blocks.",
            declining: "Not available unless the operator opens this phase to more than exits: sell on the chain where \
                        the tokens are.",
            terminal: "Not available: a bridge is not an exit. Sell on the chain where the tokens are.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::Rebalance,
        checks: CHECKS,
        event_params: &["token_in", "token_out", "amount", "source_chain", "destination_chain"],
        summary_fields: &["deposit_id", "amount_in", "amount_out", "fee_bps"],
        card: None,
        spenders: &[SpenderRole::BridgePool],
    };
    type Params = Params;
    type Output = Output;
    type Plan = DepositPlan;

    fn example() -> Value {
        json!({"token_in": "USDC", "amount": "500", "source_chain": "ethereum", "destination_chain": "base"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, DepositPlan), ToolError> {
        prepare(context, params).await
    }

    fn output(
        context: &CallContext,
        plan: DepositPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        output(context, plan, committed)
    }
}

async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, DepositPlan), ToolError> {
    if params.deadline < SHORTEST || params.deadline > LONGEST {
        let what = format_args!("{} s; expected {SHORTEST} to {LONGEST} s from now", params.deadline);
        return Err(invalid("deadline", &what));
    }
    if params.max_fee_bps > 10_000 {
        return Err(invalid("max_fee_bps", &"more than the whole deposit"));
    }
    if context.world.paper().is_some() {
        let what = "a deposit with a bridge's pool cannot be made in paper mode: nobody would fill it";
        return Err(ToolError::new(ErrorCode::ValidationFailed, what));
    }
    let Params { token_in, token_out, amount, source_chain, destination_chain, max_fee_bps, deadline } = params;
    let asked = RouteParams { token_in, token_out, amount, source_chain, destination_chain };
    let route = quoted(&context.world, &asked, &|step| context.step(step)).await?;
    let (account, token, [asset, wanted]) = (route.account, route.token_in.clone(), route.contracts);
    let chain_id = route.source.network().chain_id;
    let held = balance(route.source, account, &token).await?;
    let promised = context.world.promised(chain_id, account, asset)?;
    if route.amount > held.saturating_sub(promised) {
        return Err(insufficient(&token, [route.amount, held, promised])?);
    }
    if route.fee_bps() > u64::from(max_fee_bps) {
        let (fee, bps) = (route.fee()?, route.fee_bps());
        let what = format_args!(
            "{} {} of the deposit would not arrive, {bps} bps of its value; at most {max_fee_bps} bps are allowed",
            whole(&fee),
            route.token_out.symbol
        );
        return Err(ToolError::new(ErrorCode::SafetySlippage, what)
            .detail("parameter", "max_fee_bps")
            .detail("fee_bps", bps)
            .suggest("Send more, since gas is the same for any amount, or allow a higher max_fee_bps."));
    }
    let call = OwnDeposit {
        input_token: asset,
        output_token: wanted,
        input_amount: route.amount,
        output_amount: route.output,
        destination_chain_id: route.destination.network().chain_id,
        quote_timestamp: route.quote_timestamp,
        fill_deadline: fill_deadline(&route, deadline)?,
    };
    let (legs, bounds) = legs(&route, &call).await?;
    let plan = DepositPlan {
        call,
        pool: route.pool,
        source: route.source.network().name.clone(),
        destination: route.destination.network().name.clone(),
        given: route.given()?,
        received: route.received()?,
        symbols: [route.token_in.symbol.clone(), route.token_out.symbol.clone()],
        fee_bps: route.fee_bps(),
    };
    let arrival = BridgeArrival {
        chain_id: call.destination_chain_id,
        token: route.token_out.clone(),
        at_least: call.output_amount,
        expected: call.output_amount,
    };
    let proposal = Proposal {
        legs,
        outflows: vec![Outflow { token, amount: route.amount }],
        allowances: bounds,
        arrival: Some(Box::new(arrival)),
        ..context.proposal(chain_id, account, ProposalIntent::Bridge, &plan.sentence("Deposit"))
    };
    Ok((proposal, plan))
}

/// Last second for a fill, which the pool must accept.
fn fill_deadline(route: &QuotedRoute<'_>, seconds: u64) -> Result<u32, ToolError> {
    let at = route.now.saturating_add(seconds).min(route.latest_deadline);
    u32::try_from(at).map_err(|_| invalid("deadline", &"exceeds the largest time of a deposit"))
}

/// The deposit, after an exact allowance for it where there is none.
async fn legs(route: &QuotedRoute<'_>, call: &OwnDeposit) -> Result<(Vec<PlanLeg>, Vec<AllowanceBound>), ToolError> {
    let (chain, account, pool, asset) = (route.source, route.account, route.pool, call.input_token);
    let (mut legs, mut bounds) = (Vec::new(), Vec::new());
    let (standing, _) = allowances::read(chain, asset, account, pool, &[]).await?;
    if standing.of_token < call.input_amount {
        let first = !standing.of_token.is_zero()
            && allowances::needs_zero_first(chain, asset, account, pool, call.input_amount).await?;
        if first {
            legs.push(approve(LegPurpose::Approve, asset, pool, U256::ZERO));
        }
        legs.push(approve(LegPurpose::Approve, asset, pool, call.input_amount));
        let (spender, kind, at_most) = (pool, AllowanceKind::Erc20, U256::ZERO);
        bounds.push(AllowanceBound { token: route.token_in.clone(), spender, kind, at_most });
    }
    legs.push(PlanLeg {
        purpose: LegPurpose::Main,
        to: pool,
        value: U256::ZERO,
        data: call.calldata(account),
        gas_limit: DEPOSIT_GAS,
        slots: Vec::new(),
    });
    Ok((legs, bounds))
}

/// Id of the deposit, by the pool's event in the receipt of the main transaction.
fn deposit_id(plan: &DepositPlan, committed: &CommitOutcome) -> Option<U256> {
    let proposal = committed.payload.proposal();
    let main = committed.legs.iter().find(|leg| leg.purpose == LegPurpose::Main && leg.state == TxState::Confirmed)?;
    let own = proposal.account.into_word();
    main.logs.iter().filter(|log| log.address == plan.pool).find_map(|log| {
        let event = DepositEvent::decode(log, proposal.chain_id)?;
        (event.relay.depositor == own).then_some(event.relay.depositId)
    })
}

fn output(context: &CallContext, plan: DepositPlan, committed: &CommitOutcome) -> Result<ToolReply<Output>, ToolError> {
    let sent = PlanReceipt::of(context, committed)?;
    let id = deposit_id(&plan, committed);
    let explanation = match id {
        Some(id) => {
            let done = plan.sentence("Deposited");
            sent.explain(&format!("{done}, as deposit {id}; it is not filled yet: see across_get_deposit_status"))
        }
        None => sent.explain(&plan.sentence("Deposit")),
    };
    let output = Output {
        tx_hash: sent.tx_hash,
        block_number: sent.block_number,
        deposit_id: id.map(|id| id.to_string()),
        source_chain: plan.source,
        destination_chain: plan.destination,
        amount_in: plan.given.to_string(),
        amount_out: plan.received.to_string(),
        fee_bps: plan.fee_bps,
        fill_deadline: plan.call.fill_deadline.into(),
        pool: plan.pool.to_string(),
        gas_used: sent.gas_used,
        explorer_url: sent.explorer_url,
    };
    Ok(ToolReply::new(output, explanation))
}
