//! Shared parts of `collect_fees`, `remove_liquidity` and `close_position`.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolEvent as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::data::get_position::not_found;
use crate::engine::{CallContext, ToolReply};
use crate::positions::{self, Described, impossible};
use crate::shared::{PlanReceipt, invalid, whole};
use bardo_abi::erc20::Erc20;
use bardo_abi::uniswap_v3::NonfungiblePositionManager as Manager;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::TxState;
use bardo_base::units::{BasisPoints, TokenAmount};
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::{Inflow, LegPurpose, PlanLeg, Proposal, ProposalIntent};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::positions::{ChangeKind, PositionChange, PositionId, PositionPool, PositionState};
use golem_protocols::uniswap::v3::manager::{PositionPlan, Withdrawal};
use golem_protocols::uniswap::v3::math::MathError;
use golem_protocols::uniswap::v3::position::sqrt_prices_around;
use golem_protocols::uniswap::v4::manager::{KeyedChange, KeyedPlan};

/// Steps of the tools.
pub(super) const STEPS: &[&str] =
    &["Reading position", "Simulating via Revm", "Signing transaction", "Broadcasting", "Confirming receipt"];

/// Checks of the tools.
pub(super) use crate::shared::CHECKS;

/// Time until a withdrawal expires, in seconds.
const EXPIRES_IN: u64 = 600;

/// Gas limit of a collection, and of a withdrawal with collection and burn. For plain tokens the latter uses about 210,000;
/// tokens with more code need more.
const COLLECT_GAS: u64 = 300_000;
const WITHDRAW_GAS: u64 = 500_000;

/// Result of a withdrawal from a position.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Identity of the position.
    position_id: String,
    /// Symbol of the pool's first token, as listed; otherwise its address.
    token0: String,
    /// Symbol of the pool's second token, as listed; otherwise its address.
    token1: String,
    /// Amount of token0 received, in whole tokens, by the receipt; of the last simulation before inclusion.
    amount0: String,
    /// Amount of token1 received, in whole tokens, by the receipt; of the last simulation before inclusion.
    amount1: String,
    /// Part of `amount0` that was collected beside the withdrawn liquidity: fees; absent before inclusion, and of a withdrawal
    /// from V4, whose events do not tell the two apart.
    fees0: Option<String>,
    /// Part of `amount1` that was collected beside the withdrawn liquidity: fees; absent like `fees0`.
    fees1: Option<String>,
    /// Liquidity that the position has left, in the pool's units.
    liquidity_left: String,
    /// True if the position's token was burned, or would be.
    closed: bool,
    /// Gas used, or the simulated gas, in gas units.
    gas_used: u64,
    /// URL of the transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Withdrawal that a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Only what the position is owed.
    Fees,
    /// A part of the liquidity, in ten thousandths of a percent.
    Part(U256, BasisPoints),
    /// All of it, and the position's end.
    Whole(BasisPoints),
}

/// Ten thousandths of a percent in the whole.
const WHOLE: u32 = 1_000_000;

/// Values kept from preparation for the result.
pub struct ExitPlan {
    state: PositionState,
    plan: PositionChange,
    tokens: [TokenInfo; 2],
    symbols: [String; 2],
    expected: [TokenAmount; 2],
}

impl ExitPlan {
    /// Identity of the position.
    pub(super) fn id(&self) -> PositionId {
        self.state.key.id
    }

    /// Addresses of token0 and token1; the zero address is the native token.
    pub(super) fn pair(&self) -> [Address; 2] {
        [self.state.key.token0, self.state.key.token1]
    }

    /// Expected payment of the withdrawal, in a sentence without its end.
    pub(super) fn expectation(&self) -> String {
        self.sentence(&self.expected)
    }

    fn sentence(&self, amounts: &[TokenAmount; 2]) -> String {
        let what = match self.plan.kind() {
            ChangeKind::Collect => "Collect the fees of",
            ChangeKind::Remove if self.is_all() => "Withdraw all liquidity of",
            ChangeKind::Remove => "Withdraw a part of",
            ChangeKind::Close => "Close",
            ChangeKind::Mint | ChangeKind::Increase | ChangeKind::Compound => "Change",
        };
        self.about(what, amounts)
    }

    /// The same after it was done.
    fn done(&self, amounts: &[TokenAmount; 2]) -> String {
        let what = match self.plan.kind() {
            ChangeKind::Collect => "Collected the fees of",
            ChangeKind::Remove if self.is_all() => "Withdrew all liquidity of",
            ChangeKind::Remove => "Withdrew a part of",
            ChangeKind::Close => "Closed",
            ChangeKind::Mint | ChangeKind::Increase | ChangeKind::Compound => "Changed",
        };
        self.about(what, amounts)
    }

    /// True if all liquidity is withdrawn.
    fn is_all(&self) -> bool {
        self.plan.withdrawn(self.state.liquidity) == self.state.liquidity
    }

    fn about(&self, what: &str, [amount0, amount1]: &[TokenAmount; 2]) -> String {
        let (id, [symbol0, symbol1]) = (self.state.key.id, &self.symbols);
        format!("{what} position {id} for {} {symbol0} and {} {symbol1}", whole(amount0), whole(amount1))
    }
}

/// Prepares a withdrawal.
///
/// # Errors
/// `POSITION_NOT_FOUND` without such a position; `VALIDATION_FAILED` for one of another account, or if nothing would come
/// out; the errors of the chain.
pub(super) async fn prepare(
    context: &CallContext,
    (position, chain): (&str, &str),
    exit: Exit,
) -> Result<(Proposal, ExitPlan), ToolError> {
    let chain = context.world.chain(chain)?;
    let account = context.world.account(None)?;
    if context.world.paper().is_some() {
        let what = "liquidity positions are not kept in paper mode, so nothing can be withdrawn there";
        return Err(ToolError::new(ErrorCode::ValidationFailed, what));
    }
    let id: PositionId = position.parse().map_err(|error| invalid("position_id", &error))?;
    context.step("Reading position");
    let (head, read) = positions::read(chain, &[id]).await?;
    let Some(state) = read.states.first().copied().flatten() else { return Err(not_found(chain.network(), id)) };
    if state.owner != account {
        return Err(invalid("position_id", &format_args!("position {id} belongs to {}", state.owner)));
    }
    let deadline = chain.deadline_time(&*context.world.clock, head.time).saturating_add(EXPIRES_IN);
    let plan = plan(&state, exit, U256::from(deadline))?;
    let withdrawn = state.withdrawn(plan.withdrawn(state.liquidity)).map_err(impossible)?;
    let owed = state.owed.map(U256::from);
    let expected = [sum(withdrawn[0], owed[0])?, sum(withdrawn[1], owed[1])?];
    if expected == [U256::ZERO; 2] && !matches!(exit, Exit::Whole(_)) {
        return Err(invalid("position_id", &format_args!("position {id} has nothing to withdraw now")));
    }
    let least = match (plan.least(), plan.kind()) {
        (Some(least), _) => least,
        // A collection pays at least what is owed now.
        (None, ChangeKind::Collect) => owed,
        (None, _) => [U256::ZERO; 2],
    };
    let manager = positions::contracts(chain)?.manager_of(id).ok_or_else(|| not_found(chain.network(), id))?;
    let tokens = tokens(&read, &state)?;
    let [first, second] = &tokens;
    let whole = |token: &TokenInfo, raw| TokenAmount::new(raw, token.decimals);
    let inflow =
        |token: &TokenInfo, at_least, expected| Inflow { token: token.clone(), at_least, expected, recipient: account };
    let inflows = vec![inflow(first, least[0], expected[0]), inflow(second, least[1], expected[1])];
    let found = ExitPlan {
        state,
        plan,
        symbols: [read.symbol(state.key.token0), read.symbol(state.key.token1)],
        expected: [whole(first, expected[0])?, whole(second, expected[1])?],
        tokens,
    };
    let gas_limit = if plan.kind() == ChangeKind::Collect { COLLECT_GAS } else { WITHDRAW_GAS };
    let proposal = Proposal {
        legs: vec![PlanLeg {
            purpose: LegPurpose::Main,
            to: manager,
            value: U256::ZERO,
            data: plan.calldata(account),
            gas_limit,
            slots: Vec::new(),
        }],
        inflows,
        ..context.proposal(
            chain.network().chain_id,
            account,
            ProposalIntent::Liquidity,
            &found.sentence(&found.expected),
        )
    };
    Ok((proposal, found))
}

/// Plan of the calls, with minimums from the amounts at both prices that the slippage allows.
fn plan(state: &PositionState, exit: Exit, deadline: U256) -> Result<PositionChange, ToolError> {
    let token_id = state.key.id.token();
    let least = |liquidity: u128, slippage| {
        let [low, high] = sqrt_prices_around(state.sqrt_price_x96, slippage);
        let at = |price| state.key.range.amounts(price, liquidity, false).map_err(impossible);
        let ([least0, _], [_, least1]) = (at(high)?, at(low)?);
        Ok::<_, ToolError>([least0, least1])
    };
    let withdrawal = |liquidity, slippage| {
        Ok::<_, ToolError>(Withdrawal { liquidity, least: least(liquidity, slippage)?, deadline })
    };
    let keyed = |change| {
        let currencies = [state.key.token0, state.key.token1];
        PositionChange::V4(KeyedPlan { currencies, change, deadline })
    };
    let is_keyed = match state.key.pool {
        PositionPool::Contract(_) => false,
        PositionPool::Keyed(_) => true,
    };
    Ok(match exit {
        Exit::Fees if is_keyed => {
            if state.liquidity == 0 {
                // The pool refuses it; what a V4 position earned is paid with its last withdrawal.
                return Err(invalid("position_id", &"the position has no liquidity, and nothing to withdraw"));
            }
            keyed(KeyedChange::Collect { token_id })
        }
        Exit::Fees => PositionChange::V3(PositionPlan::Collect { token_id }),
        Exit::Part(part, slippage) => {
            // At most the whole, which fits 128 bits.
            let liquidity = U256::from(state.liquidity).saturating_mul(part) / U256::from(WHOLE);
            let liquidity = u128::try_from(liquidity).unwrap_or(state.liquidity).min(state.liquidity);
            if liquidity == 0 {
                return Err(invalid("share_pct", &"that is none of the position's liquidity"));
            }
            if is_keyed {
                let least = narrow(least(liquidity, slippage)?)?;
                return Ok(keyed(KeyedChange::Remove { token_id, liquidity, least }));
            }
            PositionChange::V3(PositionPlan::Remove { token_id, part: withdrawal(liquidity, slippage)? })
        }
        Exit::Whole(slippage) if is_keyed => {
            keyed(KeyedChange::Close { token_id, least: narrow(least(state.liquidity, slippage)?)? })
        }
        Exit::Whole(slippage) => {
            let part = match state.liquidity {
                0 => None,
                liquidity => Some(withdrawal(liquidity, slippage)?),
            };
            PositionChange::V3(PositionPlan::Close { token_id, part })
        }
    })
}

/// Amounts as V4 takes them.
///
/// # Errors
/// `CHAIN_INCONSISTENT` for amounts that no pool can have.
pub(super) fn narrow([first, second]: [U256; 2]) -> Result<[u128; 2], ToolError> {
    let narrow = |amount| u128::try_from(amount).map_err(|_| impossible(MathError::Overflow));
    Ok([narrow(first)?, narrow(second)?])
}

/// Parses a share of a position in percent, with up to four decimals.
///
/// # Errors
/// `VALIDATION_FAILED` unless it is above 0 and at most 100.
pub(super) fn share(text: &str) -> Result<U256, ToolError> {
    let what = "use a percentage above 0 and up to 100, with up to four decimals";
    let share = TokenAmount::parse(text.trim().trim_end_matches('%').trim_end(), 4);
    let share = share.map_err(|_| invalid("share_pct", &what))?.raw();
    if share.is_zero() || share > U256::from(WHOLE) { Err(invalid("share_pct", &what)) } else { Ok(share) }
}

fn sum(first: U256, second: U256) -> Result<U256, ToolError> {
    first.checked_add(second).ok_or_else(|| impossible(MathError::Overflow))
}

fn tokens(read: &Described, state: &PositionState) -> Result<[TokenInfo; 2], ToolError> {
    Ok([read.token(state.key.token0)?.clone(), read.token(state.key.token1)?.clone()])
}

/// Amounts that the pool paid to the account, and those of the withdrawn liquidity as far as events tell them, by the
/// included transaction; `None` before inclusion. No event tells of the native token, of which the balance on the chain
/// counts, without gas.
fn paid(plan: &ExitPlan, committed: &CommitOutcome, pools: Address) -> Option<([U256; 2], Option<[U256; 2]>)> {
    let main = committed.legs.iter().find(|leg| leg.purpose == LegPurpose::Main && leg.state == TxState::Confirmed)?;
    let account = committed.payload.proposal().account;
    let received = |token: TokenId| match token {
        TokenId::Erc20(token) => {
            let logs = main.logs.iter().filter(|log| log.address == token);
            let transfers = logs.filter_map(|log| Erc20::Transfer::decode_log(log).ok());
            let mut amounts = transfers.filter(|one| (one.from, one.to) == (pools, account)).map(|one| one.data.value);
            amounts.try_fold(U256::ZERO, U256::checked_add)
        }
        TokenId::Native => {
            let moves = &committed.truth.as_ref()?.moves;
            let moved = moves.iter().find(|moved| moved.token == TokenId::Native);
            Some(moved.map_or(U256::ZERO, |moved| moved.after.saturating_sub(moved.before)))
        }
    };
    let key = &plan.state.key;
    let [first, second] = key.tokens();
    let received = [received(first)?, received(second)?];
    let manager = committed.payload.proposal().legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?.to;
    let withdrawn = match (key.id, plan.plan.kind()) {
        (PositionId::V4(_), ChangeKind::Collect) => Some([U256::ZERO; 2]),
        (PositionId::V4(_), _) => None,
        (PositionId::V3(token_id), _) => {
            let own = main.logs.iter().filter(|log| log.address == manager);
            let withdrawn = own.filter_map(|log| Manager::DecreaseLiquidity::decode_log(log).ok());
            let withdrawn = withdrawn.filter(|event| event.tokenId == token_id);
            Some(withdrawn.fold([U256::ZERO; 2], |[first, second], event| {
                [first.saturating_add(event.amount0), second.saturating_add(event.amount1)]
            }))
        }
    };
    Some((received, withdrawn))
}

/// Amounts that the account received, in raw units: by the included transaction, or by the last simulation before it.
///
/// # Errors
/// The errors of finding the chain.
pub(super) fn received(
    context: &CallContext,
    plan: &ExitPlan,
    committed: &CommitOutcome,
) -> Result<[U256; 2], ToolError> {
    let simulated = |token: TokenId| {
        let moved = committed.simulated.moves.iter().find(|moved| moved.token == token);
        moved.map_or(U256::ZERO, |moved| moved.after.saturating_sub(moved.before))
    };
    let [first, second] = &plan.tokens;
    let included = paid(plan, committed, holder(context, plan, committed)?).map(|(received, _)| received);
    Ok(included.unwrap_or([simulated(first.id), simulated(second.id)]))
}

/// Contract that holds the tokens of the position's pool.
fn holder(context: &CallContext, plan: &ExitPlan, committed: &CommitOutcome) -> Result<Address, ToolError> {
    let chain = context.world.chain(&committed.payload.proposal().chain_id.to_string())?;
    Ok(positions::contracts(chain)?.holder(&plan.state.key.pool).unwrap_or_default())
}

pub(super) fn output(
    context: &CallContext,
    plan: &ExitPlan,
    committed: &CommitOutcome,
) -> Result<ToolReply<Output>, ToolError> {
    let sent = PlanReceipt::of(context, committed)?;
    let [first, second] = &plan.tokens;
    let whole = |raw: [U256; 2]| {
        Ok::<_, ToolError>([TokenAmount::new(raw[0], first.decimals)?, TokenAmount::new(raw[1], second.decimals)?])
    };
    let amounts = received(context, plan, committed)?;
    let fees = match paid(plan, committed, holder(context, plan, committed)?) {
        Some((received, withdrawn)) => {
            let beside = |[first, second]: [U256; 2]| {
                whole([received[0].saturating_sub(first), received[1].saturating_sub(second)])
            };
            withdrawn.map(beside).transpose()?
        }
        None => None,
    };
    let received = whole(amounts)?;
    let is_done = committed.state == CommitState::Done;
    let explanation = sent.explain(&if is_done { plan.done(&received) } else { plan.sentence(&received) });
    let taken = plan.plan.withdrawn(plan.state.liquidity);
    let [fees0, fees1] = fees.map_or([None, None], |fees| fees.map(|fee| Some(fee.to_string())));
    let [amount0, amount1] = received.map(|amount| amount.to_string());
    let [token0, token1] = plan.symbols.clone();
    let output = Output {
        tx_hash: sent.tx_hash,
        block_number: sent.block_number,
        position_id: plan.state.key.id.to_string(),
        token0,
        token1,
        amount0,
        amount1,
        fees0,
        fees1,
        liquidity_left: plan.state.liquidity.saturating_sub(taken).to_string(),
        closed: plan.plan.kind() == ChangeKind::Close,
        gas_used: sent.gas_used,
        explorer_url: sent.explorer_url,
    };
    Ok(ToolReply::new(output, explanation))
}
