//! Moves of a liquidity position to another range or pool, in steps: the position is closed, what the new one does not take
//! is swapped, and the rest is deposited. Each step is an action of its own for the pipeline. Shared by
//! `rebalance_position` and `migrate_position`.

use std::time::Duration;

use alloy::primitives::U256;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::candidate::{self, Figures, FiguresRow, Ground, Times, USUAL_HOURS, Unweighed, written};
use super::exits::{self, Exit, ExitPlan};
use crate::engine::{CallContext, CallStatus, ConnectedChain, StepCaller, StepFailure, ToolReply, ToolResponse};
use crate::positions::{self, AmountPair, impossible};
use crate::shared::{PlanReceipt, invalid};
use crate::swap_query::slippage;
use bardo_base::error::{ErrorCode, FigureUnit, RuleFigures, ToolError, Violation};
use bardo_base::format::fee;
use bardo_base::model::{ActionClass, Rule, RuleName};
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Rounding, TokenAmount, Usd};
use bardo_safety::checks::phase_gate::allows;
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::policy::Policy;
use bardo_safety::position_calls::MAX_DEVIATION;
use bardo_safety::proposal::Proposal;
use golem_chain::token::TokenInfo;
use golem_protocols::uniswap::pool_id::PoolId;
use golem_protocols::uniswap::positions::{PoolState, PositionPool, fair_sqrt_price};
use golem_protocols::uniswap::v3::math::MathError;
use golem_protocols::uniswap::v3::position::{TickRange, sqrt_prices_around};
use golem_protocols::uniswap::v4::liquidity_fault;

/// Tools of the second and the third step.
const SWAP: &str = "uniswap_execute_swap";
const DEPOSIT: &str = "add_liquidity";

/// Longest cooldown between two trades that a step waits for, in seconds. The tokens are in the wallet meanwhile.
const MOST_WAIT: u64 = 900;

/// Step of a move, and how its call ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct StepRow {
    /// `withdraw`, `swap` or `deposit`.
    step: &'static str,
    /// Tool of the step's call.
    tool: String,
    /// Id of the step's call.
    call_id: String,
    /// Status of the step's call.
    status: &'static str,
    /// Hash of its main transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Explanation of the step's call.
    explanation: String,
}

/// Call that goes on with a move that stopped.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct NextCall {
    /// Name of the tool.
    tool: &'static str,
    /// Parameters of the call.
    params: serde_json::Map<String, Value>,
}

/// Result of `rebalance_position`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// `moved`; `rehearsed` if only the withdrawal was simulated; `withdrawn` if the position is closed and no new one was
    /// opened: its tokens are in the wallet; `unclear` if the last step was sent and is not settled; `not_begun` if the
    /// withdrawal did not happen.
    state: &'static str,
    /// Identity of the position that was, or would be, closed.
    old_position_id: String,
    /// Identity of the new position; absent before it exists.
    position_id: Option<String>,
    /// Symbol of the pool's first token, as listed; otherwise its address.
    token0: String,
    /// Symbol of the pool's second token, as listed; otherwise its address.
    token1: String,
    /// Lower tick of the new range.
    tick_lower: i32,
    /// Upper tick of the new range.
    tick_upper: i32,
    /// Price of one whole token0 in whole tokens of token1 at the lower tick.
    price_lower: String,
    /// Price at the upper tick.
    price_upper: String,
    /// Amounts that the old position paid, with its fees, by the receipt; of the simulation before inclusion.
    withdrawn: AmountPair,
    /// Amounts of both tokens after the swap; absent before it, and if none was needed.
    after_swap: Option<AmountPair>,
    /// Amounts in the new position, by the receipt; absent before it exists.
    deposited: Option<AmountPair>,
    /// Amounts of the old position that are in the wallet now; absent before the withdrawal is included, and while a
    /// step's outcome is not known.
    in_wallet: Option<AmountPair>,
    /// Expected benefit when the move was decided; absent where the policy does not require it and it is not
    /// known.
    figures: Option<FiguresRow>,
    /// Steps in their order, as far as they were begun.
    steps: Vec<StepRow>,
    /// Call that goes on after a step failed; absent otherwise.
    next: Option<NextCall>,
    /// Gas used by all steps, or the simulated gas of the withdrawal, in gas units.
    gas_used: u64,
}

/// Values kept from preparation, and what the steps did.
pub struct MovePlan {
    exit: ExitPlan,
    chain: String,
    /// Pool of the new position.
    pool: PositionPool,
    /// That pool in words, if it is another one than before.
    new_pool: Option<String>,
    /// Both tokens, their symbols, and the names under which a call finds them.
    tokens: [TokenInfo; 2],
    symbols: [String; 2],
    names: [String; 2],
    fee: u32,
    range: TickRange,
    prices: [String; 2],
    slippage_bps: Option<u32>,
    figures: Option<Figures>,
    withdrawn: Option<[U256; 2]>,
    after_swap: Option<[U256; 2]>,
    deposited: Option<[U256; 2]>,
    new_id: Option<String>,
    steps: Vec<StepRow>,
    next: Option<NextCall>,
    gas_used: u64,
    is_unclear: bool,
}

/// Prepares the first step of a move, and what the later ones need.
///
/// # Errors
/// `VALIDATION_FAILED` for a position of somebody else or a target that is the present one; the refusals of
/// [`can_be_finished`] and [`benefit`]; the errors of the chain.
pub(super) async fn prepare(
    context: &CallContext,
    chain: &ConnectedChain,
    ground: Ground,
    slippage_bps: Option<u32>,
) -> Result<(Proposal, MovePlan), ToolError> {
    let slip = slippage(context, slippage_bps)?;
    let account = context.world.account(None)?;
    let (key, id) = (ground.state.key, ground.state.key.id.to_string());
    if ground.state.owner != account {
        return Err(invalid("position_id", &format_args!("position {id} belongs to {}", ground.state.owner)));
    }
    if !ground.leaves_pool() && ground.range == key.range {
        return Err(invalid("position_id", &"the position has that range already"));
    }
    let policy = context.world.policy();
    can_be_finished(context, chain, &ground, policy.as_deref())?;
    let figures = benefit(context, chain, &ground, policy.as_deref()).await?;
    let (proposal, exit) = exits::prepare(context, (&id, &chain.network().name), Exit::Whole(slip)).await?;
    let tokens = [ground.read.token(key.token0)?.clone(), ground.read.token(key.token1)?.clone()];
    let plan = MovePlan {
        exit,
        chain: chain.network().name.clone(),
        pool: ground.pool.pool,
        new_pool: ground.leaves_pool().then(|| pool_text(&ground.pool)),
        names: [candidate::name_of(chain, &tokens[0]), candidate::name_of(chain, &tokens[1])],
        symbols: [ground.read.symbol(key.token0), ground.read.symbol(key.token1)],
        tokens,
        fee: ground.pool.fee,
        range: ground.range,
        prices: candidate::prices_of(&ground, ground.range)?,
        slippage_bps,
        figures,
        withdrawn: None,
        after_swap: None,
        deposited: None,
        new_id: None,
        steps: Vec::new(),
        next: None,
        gas_used: 0,
        is_unclear: false,
    };
    let expected_outcome = SafeText::clean(&plan.intention(), 300);
    Ok((Proposal { expected_outcome, ..proposal }, plan))
}

/// Pool in words, such as `the V4 pool with a fee of 0.3 %`.
fn pool_text(pool: &PoolState) -> String {
    let version = if pool.pool.id().contract().is_some() { "V3" } else { "V4" };
    format!("the {version} pool with a fee of {}", fee(pool.fee))
}

/// Makes the later steps once the withdrawal is included.
pub(super) async fn carry_on(
    context: &CallContext,
    steps: &StepCaller,
    plan: &mut MovePlan,
    committed: &CommitOutcome,
) -> Result<(), StepFailure> {
    let failed = |error: ToolError| StepFailure { status: CallStatus::Error, error };
    let chain = context.world.chain(&plan.chain).map_err(failed)?;
    let withdrawn = exits::received(context, &plan.exit, committed).map_err(failed)?;
    plan.withdrawn = Some(withdrawn);
    plan.next = plan.deposit_call(withdrawn);
    let pool = pool_now(chain, plan).await.map_err(failed)?;
    let mut amounts = withdrawn;
    if let Some(needed) = candidate::needed_swap(plan.range, &pool, withdrawn).map_err(failed)? {
        context.step("Swapping the rest");
        let (paid, received) = if needed.gives_first { (0, 1) } else { (1, 0) };
        let call = plan.swap_call((paid, received), needed.amount).ok_or_else(|| failed(unwritable()))?;
        plan.next = Some(call.clone());
        let response = plan.run(context, steps, "swap", call).await?;
        amounts = plan.swapped(&response, (paid, received), withdrawn).ok_or_else(|| failed(unreadable(SWAP)))?;
        plan.after_swap = Some(amounts);
    }
    context.step("Opening the new position");
    let call = plan.deposit_call(amounts).ok_or_else(|| failed(unwritable()))?;
    plan.next = Some(call.clone());
    let response = plan.run(context, steps, "deposit", call).await?;
    plan.next = None;
    let data = response.data.as_ref();
    let text = |field: &str| Some(data?.get(field)?.as_str()?.to_owned());
    plan.new_id = text("position_id");
    let deposited = plan.raw(0, text("amount0")).zip(plan.raw(1, text("amount1")));
    plan.deposited = deposited.map(|(first, second)| [first, second]);
    if plan.new_id.is_none() || plan.deposited.is_none() {
        return Err(failed(unreadable(DEPOSIT)));
    }
    Ok(())
}

/// Result of a move.
///
/// # Errors
/// `CHAIN_INCONSISTENT` for amounts that no token has.
pub(super) fn output(
    context: &CallContext,
    plan: MovePlan,
    committed: &CommitOutcome,
) -> Result<ToolReply<Output>, ToolError> {
    let sent = PlanReceipt::of(context, committed)?;
    let is_done = committed.state == CommitState::Done;
    let simulated = exits::received(context, &plan.exit, committed)?;
    let withdrawn = plan.pair(plan.withdrawn.unwrap_or(simulated))?;
    let state = match (&committed.state, &plan.deposited) {
        (CommitState::Simulated, _) => "rehearsed",
        (CommitState::Done, Some(_)) => "moved",
        (CommitState::Done, None) if plan.is_unclear => "unclear",
        (CommitState::Done, None) => "withdrawn",
        (CommitState::Unclear | CommitState::Placed, _) => "unclear",
        (CommitState::Reverted | CommitState::Stopped { .. }, _) => "not_begun",
    };
    let in_wallet = match plan.deposited {
        _ if !is_done || plan.is_unclear => None,
        deposited => {
            let [out0, out1] = plan.after_swap.or(plan.withdrawn).unwrap_or(simulated);
            let [in0, in1] = deposited.unwrap_or_default();
            Some(plan.pair([out0.saturating_sub(in0), out1.saturating_sub(in1)])?)
        }
    };
    let first = StepRow {
        step: "withdraw",
        tool: context.meta().name.to_owned(),
        call_id: context.call_id().to_string(),
        status: match &committed.state {
            CommitState::Simulated => CallStatus::Simulated,
            CommitState::Done => CallStatus::Success,
            CommitState::Unclear | CommitState::Placed => CallStatus::Partial,
            CommitState::Reverted | CommitState::Stopped { .. } => CallStatus::Error,
        }
        .as_str(),
        tx_hash: sent.tx_hash.clone(),
        explanation: sent.explain(&format!("{} position {}", if is_done { "Closed" } else { "Close" }, plan.exit.id())),
    };
    let explanation = plan.explanation(state, &withdrawn, in_wallet.as_ref(), &sent);
    let MovePlan { symbols, prices, figures, steps, next, gas_used, .. } = &plan;
    let output = Output {
        state,
        old_position_id: plan.exit.id().to_string(),
        position_id: plan.new_id.clone(),
        token0: symbols[0].clone(),
        token1: symbols[1].clone(),
        tick_lower: plan.range.lower(),
        tick_upper: plan.range.upper(),
        price_lower: prices[0].clone(),
        price_upper: prices[1].clone(),
        after_swap: plan.after_swap.map(|amounts| plan.pair(amounts)).transpose()?,
        deposited: plan.deposited.map(|amounts| plan.pair(amounts)).transpose()?,
        in_wallet,
        withdrawn,
        figures: figures.as_ref().map(|figures| figures.row.clone()),
        steps: [first].into_iter().chain(steps.iter().cloned()).collect(),
        next: next.clone().filter(|_| is_done && !plan.is_unclear),
        gas_used: sent.gas_used.saturating_add(*gas_used),
    };
    Ok(ToolReply::new(output, explanation))
}

impl MovePlan {
    /// Description of the whole move, for the preview of its first step.
    fn intention(&self) -> String {
        let ([symbol0, symbol1], [low, high]) = (&self.symbols, &self.prices);
        let first = self.exit.expectation();
        let benefit = match &self.figures {
            Some(figures) => format!("; expected benefit {}", written(figures.benefit)),
            None => "; its benefit is not known".to_owned(),
        };
        format!(
            "First of the steps that move it to {}ticks {} to {} (prices {low} to {high} {symbol1} for {symbol0}){benefit}: {first}. \
             The swap and the new position follow, each with a preview of its own",
            self.place(),
            self.range.lower(),
            self.range.upper()
        )
    }

    /// Other pool of the new range, before its ticks; empty for the same pool.
    fn place(&self) -> String {
        self.new_pool.as_ref().map(|pool| format!("{pool}, ")).unwrap_or_default()
    }

    fn explanation(
        &self,
        state: &str,
        withdrawn: &AmountPair,
        in_wallet: Option<&AmountPair>,
        sent: &PlanReceipt,
    ) -> String {
        let [symbol0, symbol1] = &self.symbols;
        let old = self.exit.id();
        let of = |pair: &AmountPair| format!("{} {symbol0} and {} {symbol1}", pair.amount0, pair.amount1);
        let range = format!("{}ticks {} to {}", self.place(), self.range.lower(), self.range.upper());
        let last = self.steps.last().map(|step| (step.step, step.explanation.trim_end_matches('.')));
        match (state, in_wallet) {
            ("moved", Some(rest)) => format!(
                "Position {old} was moved to {range}: it paid {}, and is now position {}; {} of it stay in the wallet.",
                of(withdrawn),
                self.new_id.as_deref().unwrap_or_default(),
                of(rest)
            ),
            ("withdrawn", Some(rest)) => {
                let why = last.map_or_else(
                    || "the rest was not begun".to_owned(),
                    |(step, said)| format!("the {step} was not made: {said}"),
                );
                format!(
                    "Position {old} is closed, and no new one was opened: {why}. In the wallet are {} of it. `next` is the call \
                     that goes on.",
                    of(rest)
                )
            }
            ("unclear", _) => {
                let step = last.map_or("withdrawal", |(step, _)| step);
                format!(
                    "The {step} was sent and is not settled yet; nothing after it was begun. Look at list_positions later."
                )
            }
            ("rehearsed", _) => format!(
                "Dry run of the first step: position {old} would pay {}. The swap and the deposit into {range} are previewed \
                 once it has happened.",
                of(withdrawn)
            ),
            _ => sent.explain(&format!("Position {old} is as it was")),
        }
    }

    fn pair(&self, [raw0, raw1]: [U256; 2]) -> Result<AmountPair, ToolError> {
        let whole = |token: &TokenInfo, raw| Ok::<_, ToolError>(TokenAmount::new(raw, token.decimals)?.to_string());
        Ok(AmountPair { amount0: whole(&self.tokens[0], raw0)?, amount1: whole(&self.tokens[1], raw1)? })
    }

    /// Raw units of an amount of token `at` that a step's result tells.
    fn raw(&self, at: usize, text: Option<String>) -> Option<U256> {
        Some(TokenAmount::parse(&text?, self.tokens.get(at)?.decimals).ok()?.raw())
    }

    fn swap_call(&self, (paid, received): (usize, usize), amount: U256) -> Option<NextCall> {
        let token = self.tokens.get(paid)?;
        let params = json!({
            "token_in": self.names.get(paid)?,
            "token_out": self.names.get(received)?,
            "amount": TokenAmount::new(amount, token.decimals).ok()?.to_string(),
            "chain": self.chain,
            "prefer_uniswapx": false,
        });
        self.call(SWAP, params)
    }

    /// Deposit of at most these amounts, so that nothing else of the wallet's goes into the new position.
    fn deposit_call(&self, amounts: [U256; 2]) -> Option<NextCall> {
        let AmountPair { amount0, amount1 } = self.pair(amounts).ok()?;
        let [token_a, token_b] = &self.names;
        let mut params = json!({
            "token_a": token_a,
            "token_b": token_b,
            "amount_a": amount0,
            "amount_b": amount1,
            "tick_lower": self.range.lower(),
            "tick_upper": self.range.upper(),
            "chain": self.chain,
        });
        let (name, pool) = match self.pool.id() {
            PoolId::Contract(_) => ("fee_tier", json!(self.fee)),
            PoolId::Keyed(id) => ("pool_id", json!(id.to_string())),
        };
        params.as_object_mut()?.insert(name.to_owned(), pool);
        self.call(DEPOSIT, params)
    }

    fn call(&self, tool: &'static str, params: Value) -> Option<NextCall> {
        let Value::Object(mut params) = params else { return None };
        if let Some(points) = self.slippage_bps {
            params.insert("slippage_bps".to_owned(), json!(points));
        }
        Some(NextCall { tool, params })
    }

    /// Amounts after a swap, by what its result tells of the receipt.
    fn swapped(
        &self,
        response: &ToolResponse,
        (paid, received): (usize, usize),
        mut amounts: [U256; 2],
    ) -> Option<[U256; 2]> {
        let text = |field: &str| Some(response.data.as_ref()?.get(field)?.as_str()?.to_owned());
        let (given, got) = (self.raw(paid, text("amount_in"))?, self.raw(received, text("amount_out"))?);
        let left = amounts.get(paid)?.checked_sub(given)?;
        let sum = amounts.get(received)?.checked_add(got)?;
        *amounts.get_mut(paid)? = left;
        *amounts.get_mut(received)? = sum;
        Some(amounts)
    }

    /// Runs a step, and once more after a cooldown between trades that it met.
    async fn run(
        &mut self,
        context: &CallContext,
        steps: &StepCaller,
        step: &'static str,
        call: NextCall,
    ) -> Result<ToolResponse, StepFailure> {
        let failed = |error| StepFailure { status: CallStatus::Error, error };
        let mut has_waited = false;
        loop {
            steps.may_begin().map_err(failed)?;
            let call_id = steps.new_call_id();
            let response = steps.call(call_id, call.tool, Value::Object(call.params.clone())).await;
            let data = response.data.as_ref();
            self.gas_used = self
                .gas_used
                .saturating_add(data.and_then(|data| data.get("gas_used")).and_then(Value::as_u64).unwrap_or_default());
            let tx_hash = data.and_then(|data| Some(data.get("tx_hash")?.as_str()?.to_owned()));
            self.steps.push(StepRow {
                step,
                tool: call.tool.to_owned(),
                call_id: call_id.to_string(),
                status: response.status.as_str(),
                tx_hash,
                explanation: response.explanation.clone().unwrap_or_default(),
            });
            if response.status == CallStatus::Success {
                return Ok(response);
            }
            let cooldown = response.error.as_ref().and_then(cooldown).filter(|_| !has_waited);
            if let Some(seconds) = cooldown {
                has_waited = true;
                steps.pause(&*context.world.clock, Duration::from_secs(seconds)).await.map_err(failed)?;
                continue;
            }
            self.is_unclear = response.status == CallStatus::Partial;
            let error = response.error.unwrap_or_else(|| {
                let what = format_args!("the {step} ended as {}", response.status.as_str());
                ToolError::new(ErrorCode::ExecutionTxTimeout, what)
            });
            return Err(StepFailure { status: response.status, error });
        }
    }
}

/// Seconds until a cooldown that alone blocks a step is over; `None` for any other error, or a longer wait than
/// [`MOST_WAIT`].
fn cooldown(error: &ToolError) -> Option<u64> {
    if error.code() != ErrorCode::SafetyRateLimited {
        return None;
    }
    let violations = error.details().get("violations")?.as_array()?;
    let waits = violations.iter().map(|violation| {
        let is_cooldown = violation.get("rule")?.as_str()? == RuleName::CooldownSeconds.as_str();
        violation.get("figures")?.get("frees_in_seconds")?.as_u64().filter(|_| is_cooldown)
    });
    let longest = waits.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
    // A second more, because the wait is given in whole ones.
    Some(longest.saturating_add(1)).filter(|seconds| *seconds <= MOST_WAIT)
}

fn unwritable() -> ToolError {
    impossible(MathError::Overflow)
}

/// Error for a step's result that lacks what the next step needs.
fn unreadable(tool: &str) -> ToolError {
    let what = format_args!("{tool} succeeded and did not tell the amounts; nothing further was begun");
    ToolError::new(ErrorCode::ToolPanicked, what)
}

/// State of the pool after the withdrawal.
async fn pool_now(chain: &ConnectedChain, plan: &MovePlan) -> Result<PoolState, ToolError> {
    let (contracts, provider) = (positions::contracts(chain)?, chain.client.agreed());
    let pair = plan.exit.pair();
    let read = async |block| {
        Ok(match plan.pool {
            PositionPool::Contract(_) => contracts.pool_state(provider, pair, plan.fee, block).await?,
            PositionPool::Keyed(pool) => contracts.keyed_pool_state(provider, pool, block).await?,
        })
    };
    let (_, pool) = positions::with_head(chain, read).await?;
    pool.ok_or_else(|| impossible(MathError::PriceOutOfRange))
}

/// Refuses a move whose later steps would be refused: a position that is closed and not opened again is not moved. What can
/// only be known then, such as a limit that is used up meanwhile, stops the move where it is.
fn can_be_finished(
    context: &CallContext,
    chain: &ConnectedChain,
    ground: &Ground,
    policy: Option<&Policy>,
) -> Result<(), ToolError> {
    let phase = context.conditions().phase;
    if !allows(phase, ActionClass::NewPosition) {
        let what = format_args!("moving a position ends with a new one, which the phase {phase} does not allow");
        let class = ActionClass::NewPosition.to_string();
        let violation = Violation::new(Rule::Phase(phase), "no new position", class, "the same in a better phase");
        let error = ToolError::new(ErrorCode::SafetyPhaseBlocked, what).suggest("Use close_position to leave it.");
        return Err(error.violating(&[violation]));
    }
    for tool in [SWAP, DEPOSIT] {
        let is_listed = policy.is_none_or(|policy| {
            policy.rules().allowed_tools.allows_by(false, |listed| listed.iter().any(|word| word.0 == tool))
        });
        if !context.has_tool(tool) || !is_listed {
            let what = format_args!("moving a position needs {tool}, which this caller may not call");
            return Err(ToolError::new(ErrorCode::SafetyNotAllowed, what));
        }
    }
    if context.rests_on_one_of_several(chain.network().chain_id) {
        let what = "the endpoints contradict each other; a position is not moved by the word of one";
        return Err(ToolError::new(ErrorCode::ChainInconsistent, what));
    }
    if let PositionPool::Keyed(pool) = ground.pool.pool
        && let Some(what) = liquidity_fault(&pool)
    {
        let parameter = if ground.leaves_pool() { "pool_id" } else { "position_id" };
        return Err(invalid(parameter, &format_args!("nothing is deposited in this pool: {what}")));
    }
    let key = ground.state.key;
    if let Some(fair) = ground.read.priced(&key).and_then(fair_sqrt_price) {
        let bound = BasisPoints::new(MAX_DEVIATION).unwrap_or(BasisPoints::ZERO);
        let [low, high] = sqrt_prices_around(fair, bound);
        if !(low..=high).contains(&ground.pool.sqrt_price_x96) {
            let what =
                format_args!("the pool's price is not within {bound} of the feeds', so that no deposit is taken there");
            let error = ToolError::new(ErrorCode::SafetySimulationFailed, what);
            return Err(error.suggest("Move the position when pool and feeds agree."));
        }
    }
    let worth = ground.read.worth(&ground.state);
    if let (Some(policy), Some(worth)) = (policy, worth) {
        let rules = policy.rules();
        for (rule, most) in [
            (RuleName::MaxSingleTradeUsd, rules.max_single_trade_usd.0),
            (RuleName::PerTransaction, rules.spending_limits.per_transaction.0),
        ] {
            if let Some(most) = most.filter(|most| worth > *most) {
                let shown = worth.to_fixed(2, Rounding::Up);
                let what =
                    format_args!("the position is worth ${shown}, and one deposit may be ${most} at most ({rule})");
                let violation = Violation::new(rule, format!("${most}"), format!("${shown}"), "a smaller position")
                    .with(RuleFigures::new(FigureUnit::Usd, most, worth));
                let error = ToolError::new(ErrorCode::SafetySpendingLimitExceeded, what);
                return Err(error.violating(&[violation]));
            }
        }
        return fits_the_caps(context, chain, worth);
    }
    Ok(())
}

/// Refuses a move whose deposit no cap over time has room for now.
fn fits_the_caps(context: &CallContext, chain: &ConnectedChain, worth: Usd) -> Result<(), ToolError> {
    let world = &context.world;
    let Some(rules) = world.rules_in_force() else { return Ok(()) };
    let (chain_id, phase) = (chain.network().chain_id, context.conditions().phase);
    let status = rules.status(chain_id, world.account(None)?, context.golem_id(), phase, world.clock.now_millis());
    let status = status.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))?;
    let Some(cap) = status.caps.into_iter().find(|cap| cap.left.dollars() < worth) else { return Ok(()) };
    let [worth_shown, left] = [(worth, Rounding::Up), (cap.left.dollars(), Rounding::Down)]
        .map(|(value, rounding)| format!("${}", value.to_fixed(2, rounding)));
    let what = format_args!(
        "the position is worth {worth_shown}, and {left} are left of {}, so that it could be closed and not opened again",
        cap.rule
    );
    let violation = Violation::new(cap.rule.clone(), &left, &worth_shown, "the same once enough is left")
        .with(RuleFigures::new(FigureUnit::Usd, cap.left.dollars(), worth));
    Err(ToolError::new(ErrorCode::SafetySpendingLimitExceeded, what).violating(&[violation]))
}

/// Enforces `min_rebalance_benefit_usd` and `require_rebalance_check`. The times are fixed: a longer horizon, which the
/// caller could choose, would let any move pass.
///
/// # Errors
/// `SAFETY_REBALANCE_BENEFIT` below the minimum, or if the benefit must be known and is not; the errors of the chain.
async fn benefit(
    context: &CallContext,
    chain: &ConnectedChain,
    ground: &Ground,
    policy: Option<&Policy>,
) -> Result<Option<Figures>, ToolError> {
    let rules = policy.map(Policy::rules);
    let is_required = rules.is_none_or(|rules| rules.require_rebalance_check.0);
    let minimum = rules.map(|rules| rules.min_rebalance_benefit_usd.0).unwrap_or_default();
    let times = Times::of(USUAL_HOURS, USUAL_HOURS)?;
    let figures = match candidate::weigh(context, chain, ground, times).await {
        Ok(figures) => figures,
        Err(Unweighed::Failed(error)) => return Err(error),
        Err(Unweighed::Unknown(_)) if !is_required => return Ok(None),
        Err(Unweighed::Unknown(error)) => {
            let what = format_args!("the benefit of moving the position is not known: {}", error.message());
            let rule = RuleName::RequireRebalanceCheck;
            let violation = Violation::new(rule, "a known benefit", "not known", "the same with enough data");
            return Err(ToolError::new(ErrorCode::SafetyRebalanceBenefit, what).violating(&[violation]));
        }
    };
    if figures.reach(minimum) {
        return Ok(Some(figures));
    }
    let benefit = written(figures.benefit);
    let what = format_args!("{}; the policy asks for at least ${minimum}", figures.sentence());
    let violation = Violation::new(
        RuleName::MinRebalanceBenefitUsd,
        format!("at least ${minimum}"),
        benefit,
        "a range with a larger benefit",
    )
    .with(RuleFigures::new(FigureUnit::Usd, minimum, figures.benefit));
    let row = serde_json::to_value(&figures.row).unwrap_or_default();
    let error = ToolError::new(ErrorCode::SafetyRebalanceBenefit, what).detail("figures", row);
    Err(error.violating(&[violation]))
}
