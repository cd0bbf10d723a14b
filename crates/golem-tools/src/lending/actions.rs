//! Shared parts of `lending_supply`, `lending_withdraw`, `lending_borrow` and `lending_repay`.

use alloy::primitives::{Address, U256, U512};
use alloy::sol_types::SolEvent as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LiquidationPrice, impossible, read, value};
use crate::allowances::{self, approve};
use crate::engine::{CallContext, ConnectedChain, ToolReply};
use crate::shared::{PlanReceipt, insufficient, invalid, whole};
use bardo_abi::aave::AavePool;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{TxState, health_factor};
use bardo_base::format::{dollars, dollars_left};
use bardo_base::units::{Rounding, TokenAmount};
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent,
};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::aave::call::LendingCall;
use golem_protocols::aave::market::MarketState;
use golem_protocols::aave::math::{OutOfRange, WAD};
use golem_protocols::aave::position::{AccountSums, ReservePosition};

/// Steps of the tools.
pub(crate) const STEPS: &[&str] = &[
    "Reading lending market",
    "Simulating via Revm",
    "Approving token",
    "Signing transaction",
    "Broadcasting",
    "Confirming receipt",
];

/// Checks of the tools.
pub(crate) use crate::shared::CHECKS;

/// Least gas limit of the pool's calls. The pool uses up to 350,000 for plain tokens; tokens with more code need more.
const POOL_GAS: u64 = 900_000;

/// Detail of the refusal of a borrowing that more collateral would make possible.
pub(crate) const LACKS_COLLATERAL: &str = "lacks_collateral";

/// Gas of such a call without the account's reserves, and for each reserve that the health factor rests on. A reserve of
/// the devnet costs 43,000; elsewhere its price is behind more contracts.
const CALL_GAS: u64 = 400_000;
/// See [`CALL_GAS`].
const RESERVE_GAS: u64 = 60_000;

/// Gas limit of the pool's calls by the account: anybody can supply tokens for it, of which each costs gas.
fn pool_gas(state: &MarketState) -> u64 {
    let used = state.positions.iter().filter(|one| one.is_collateral || !one.debt.is_zero()).count();
    let used = u64::try_from(used).unwrap_or(u64::MAX);
    CALL_GAS.saturating_add(used.saturating_mul(RESERVE_GAS)).max(POOL_GAS)
}

/// Time for whose interest the allowance of a full repayment has room, in seconds. The pool takes no more than the debt.
const REPAYMENT_ROOM: u64 = 86_400;

/// Parameters of the tools.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token: symbol or 0x address. The market has wrapped tokens only, such as WETH.
    token: String,
    /// Amount in whole tokens, such as "25". "max" supplies the whole balance, withdraws the whole supply, or repays the
    /// whole debt as far as the balance reaches; a borrowing needs a number.
    amount: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

impl Params {
    /// The same for another tool that supplies or withdraws.
    pub(crate) fn new(token: String, amount: String, chain: String) -> Self {
        Self { token, amount, chain }
    }
}

/// Result of the tools.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the last transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Symbol of the token, as listed; otherwise its address.
    token: String,
    /// Amount in whole tokens, by the pool's event in the receipt; before inclusion, the most that the call takes or the
    /// least that it pays.
    amount: String,
    /// Health factor before, in hundredths rounded down; "none (no debt)" without debt. Absent if it was not simulated.
    health_factor_before: Option<String>,
    /// Health factor afterwards by the last simulation before signing, in the same form.
    health_factor_after: Option<String>,
    /// Changes of single prices that make the debt liquidable afterwards, by that simulation. A price that would have to more
    /// than double is left out.
    liquidated_if: Vec<LiquidationRow>,
    /// Gas used, or the simulated gas, in gas units.
    gas_used: u64,
    /// URL of the last transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Change of one token's price at which the debt can be liquidated.
#[derive(Debug, Serialize, JsonSchema)]
struct LiquidationRow {
    /// Symbol of the token.
    token: String,
    /// Price and change.
    #[serde(flatten)]
    at: LiquidationPrice,
}

/// Action of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LendingKind {
    /// `lending_supply`
    Supply,
    /// `lending_withdraw`
    Withdraw,
    /// `lending_borrow`
    Borrow,
    /// `lending_repay`
    Repay,
}

impl LendingKind {
    /// Verb of the action at the beginning of a sentence, and what it does it to.
    fn verb_and_preposition(self) -> [&'static str; 2] {
        match self {
            Self::Supply => ["Supply", "to Aave"],
            Self::Withdraw => ["Withdraw", "from Aave"],
            Self::Borrow => ["Borrow", "from Aave"],
            Self::Repay => ["Repay", "to Aave"],
        }
    }
}

/// Values kept from preparation for the result.
pub struct LendingPlan {
    kind: LendingKind,
    token: TokenInfo,
    symbol: String,
    pool: Address,
    account: Address,
    amount: TokenAmount,
}

impl LendingPlan {
    fn sentence(&self, amount: &TokenAmount) -> String {
        let [verb, place] = self.kind.verb_and_preposition();
        format!("{verb} {} {} {place}", whole(amount), self.symbol)
    }

    /// The same after it was done.
    fn done(&self, amount: &TokenAmount) -> String {
        let [_, place] = self.kind.verb_and_preposition();
        let verb = match self.kind {
            LendingKind::Supply => "Supplied",
            LendingKind::Withdraw => "Withdrew",
            LendingKind::Borrow => "Borrowed",
            LendingKind::Repay => "Repaid",
        };
        format!("{verb} {} {} {place}", whole(amount), self.symbol)
    }
}

/// Prepares an action.
///
/// # Errors
/// `VALIDATION_FAILED` for a token that the market does not take or give now, or an amount that is not there;
/// `INSUFFICIENT_BALANCE` if the wallet lacks it; the errors of the chain.
pub(crate) async fn prepare(
    context: &CallContext,
    params: &Params,
    kind: LendingKind,
) -> Result<(Proposal, LendingPlan), ToolError> {
    let chain = context.world.chain(&params.chain)?;
    let account = context.world.account(None)?;
    if context.world.paper().is_some() {
        let what = "the lending market is not kept in paper mode: supplies and debts there would be lost";
        return Err(ToolError::new(ErrorCode::ValidationFailed, what));
    }
    let token = chain.token(&params.token).await?;
    let TokenId::Erc20(asset) = token.id else {
        let what = format_args!("the market has wrapped tokens only: use wrap_native first, then W{}", token.symbol);
        return Err(invalid("token", &what));
    };
    context.step("Reading lending market");
    let contracts = super::contracts(chain)?;
    let (_, state) = read(chain, account).await?;
    let symbol = if token.listed { token.symbol.to_string() } else { asset.to_string() };
    let own = state.of(asset).ok_or_else(|| invalid("token", &format_args!("the market does not have {symbol}")))?;
    is_open(kind, own, &symbol)?;
    let amounts = Amounts { context, chain, token: &token, own, state: &state, account };
    let (call, at_least, clean_up) = amounts.of(kind, asset, params.amount.trim()).await?;
    let moved = match call {
        LendingCall::Withdraw { .. } => at_least,
        LendingCall::Supply { amount, .. } | LendingCall::Borrow { amount, .. } | LendingCall::Repay { amount, .. } => {
            amount
        }
    };
    let mut legs = Vec::new();
    let mut bounds = Vec::new();
    let gives = matches!(call, LendingCall::Supply { .. } | LendingCall::Repay { .. });
    if gives {
        let (standing, _) = allowances::read(chain, asset, account, contracts.pool, &[]).await?;
        if standing.of_token < moved {
            let first = !standing.of_token.is_zero()
                && allowances::needs_zero_first(chain, asset, account, contracts.pool, moved).await?;
            if first {
                legs.push(approve(LegPurpose::Approve, asset, contracts.pool, U256::ZERO));
            }
            legs.push(approve(LegPurpose::Approve, asset, contracts.pool, moved));
            let (spender, kind, at_most) = (contracts.pool, AllowanceKind::Erc20, U256::ZERO);
            bounds.push(AllowanceBound { token: token.clone(), spender, kind, at_most });
        }
    }
    legs.push(PlanLeg {
        purpose: LegPurpose::Main,
        to: contracts.pool,
        value: U256::ZERO,
        data: call.calldata(account),
        gas_limit: pool_gas(&state),
        slots: Vec::new(),
    });
    if clean_up && !bounds.is_empty() {
        legs.push(approve(LegPurpose::CleanUp, asset, contracts.pool, U256::ZERO));
    }
    let (mut outflows, mut inflows) = (Vec::new(), Vec::new());
    if gives {
        outflows.push(Outflow { token: token.clone(), amount: moved });
    } else {
        inflows.push(Inflow { token: token.clone(), at_least: moved, expected: moved, recipient: account });
    }
    let amount = TokenAmount::new(moved, token.decimals)?;
    let plan = LendingPlan { kind, token, symbol, pool: contracts.pool, account, amount };
    let proposal = Proposal {
        legs,
        outflows,
        inflows,
        allowances: bounds,
        ..context.proposal(chain.network().chain_id, account, ProposalIntent::Lending, &plan.sentence(&plan.amount))
    };
    Ok((proposal, plan))
}

/// Checks that the reserve takes the action now.
fn is_open(kind: LendingKind, own: &ReservePosition, symbol: &str) -> Result<(), ToolError> {
    let config = &own.reserve.config;
    let refuse = |why: &str| Err(invalid("token", &format_args!("{symbol} {why}")));
    if !config.active || config.paused {
        return refuse("is paused in the market; nothing can be done with it until that ends");
    }
    match kind {
        LendingKind::Supply | LendingKind::Borrow if config.frozen => {
            refuse("is frozen in the market: it can only be withdrawn and repaid")
        }
        LendingKind::Borrow if !config.borrowing => refuse("cannot be borrowed in the market"),
        LendingKind::Withdraw if own.supplied.is_zero() => refuse("is not supplied by the wallet"),
        LendingKind::Repay if own.debt.is_zero() => refuse("is not borrowed by the wallet"),
        LendingKind::Supply | LendingKind::Withdraw | LendingKind::Borrow | LendingKind::Repay => Ok(()),
    }
}

/// Figures that an amount is parsed with.
struct Amounts<'a> {
    context: &'a CallContext,
    chain: &'a ConnectedChain,
    token: &'a TokenInfo,
    own: &'a ReservePosition,
    state: &'a MarketState,
    account: Address,
}

impl Amounts<'_> {
    /// Returns the pool's call for the text of an amount, the least that a withdrawal pays, and whether a part of the
    /// allowance may stay unused.
    async fn of(&self, kind: LendingKind, asset: Address, text: &str) -> Result<(LendingCall, U256, bool), ToolError> {
        let all = text.eq_ignore_ascii_case("max");
        let given = match all {
            true => None,
            false => Some(TokenAmount::parse(text, self.token.decimals)?.raw()),
        };
        if given == Some(U256::ZERO) {
            return Err(invalid("amount", &"name an amount above zero"));
        }
        let whole = |raw| TokenAmount::new(raw, self.token.decimals);
        let symbol = &self.token.symbol;
        match kind {
            LendingKind::Supply => {
                let (free, held, promised) = self.free(asset).await?;
                let amount = given.unwrap_or(free);
                if amount.is_zero() {
                    return Err(invalid("amount", &format_args!("the wallet has no {symbol} to supply")));
                }
                if amount > free {
                    return Err(insufficient(self.token, [amount, held, promised])?);
                }
                Ok((LendingCall::Supply { asset, amount }, amount, false))
            }
            LendingKind::Withdraw => {
                let supplied = self.own.supplied;
                let amount = given.unwrap_or(supplied);
                if amount > supplied {
                    let what =
                        format_args!("the supply is {} {symbol}; use \"max\" to withdraw all of it", whole(supplied)?);
                    return Err(invalid("amount", &what));
                }
                self.is_there(amount).await?;
                self.stays_secured(amount)?;
                let calldata = if all { U256::MAX } else { amount };
                Ok((LendingCall::Withdraw { asset, amount: calldata }, amount, false))
            }
            LendingKind::Borrow => {
                let Some(amount) = given else {
                    return Err(invalid("amount", &"name the amount to borrow; \"max\" would leave no margin"));
                };
                self.is_there(amount).await?;
                let worth = value(&self.own.reserve, amount, Rounding::Up)?;
                let available = super::base(super::sums(self.state)?.available)?;
                if worth > available {
                    let what = format_args!(
                        "{} {symbol} are worth {}, and the market lends {} against the supplies",
                        whole(amount)?,
                        dollars(worth),
                        dollars_left(available)
                    );
                    return Err(invalid("amount", &what).detail(LACKS_COLLATERAL, true));
                }
                Ok((LendingCall::Borrow { asset, amount }, amount, false))
            }
            LendingKind::Repay => {
                let debt = self.own.debt;
                let (free, held, promised) = self.free(asset).await?;
                if let Some(amount) = given {
                    if amount > debt {
                        let what =
                            format_args!("the debt is {} {symbol}; use \"max\" to repay all of it", whole(debt)?);
                        return Err(invalid("amount", &what));
                    }
                    if amount > free {
                        return Err(insufficient(self.token, [amount, held, promised])?);
                    }
                    return Ok((LendingCall::Repay { asset, amount }, amount, false));
                }
                let amount = self.with_interest(debt)?.min(free);
                if amount.is_zero() {
                    return Err(insufficient(self.token, [debt, held, promised])?);
                }
                Ok((LendingCall::Repay { asset, amount }, amount, true))
            }
        }
    }

    /// Debt with the interest until its repayment is included, at the current rate and rounded up.
    fn with_interest(&self, debt: U256) -> Result<U256, ToolError> {
        let reserve = &self.own.reserve;
        let now = reserve.updated;
        let [first, last] = [now, now.saturating_add(REPAYMENT_ROOM)].map(|time| reserve.debt_growth(time));
        let (first, last) = (first.map_err(impossible)?, last.map_err(impossible)?);
        let grown = (U512::from(debt) * U512::from(last)).checked_div(U512::from(first));
        let grown = grown.and_then(|grown| grown.checked_add(U512::from(2))).ok_or(impossible(OutOfRange))?;
        if grown > U512::from(U256::MAX) { Err(impossible(OutOfRange)) } else { Ok(U256::from(grown)) }
    }

    /// Balance of the wallet that no open order may take, the whole balance, and what orders may take.
    async fn free(&self, asset: Address) -> Result<(U256, U256, U256), ToolError> {
        let held = crate::shared::balance(self.chain, self.account, self.token).await?;
        let promised = self.context.world.promised(self.chain.network().chain_id, self.account, asset)?;
        Ok((held.saturating_sub(promised), held, promised))
    }

    /// Checks that a withdrawal of an amount leaves the debt secured, as the pool requires. The policy requires more.
    fn stays_secured(&self, amount: U256) -> Result<(), ToolError> {
        // In a category, other thresholds hold than the reserves' own.
        let owes = self.state.positions.iter().any(|one| !one.debt.is_zero());
        if !owes || self.state.category != 0 {
            return Ok(());
        }
        let left = self.state.positions.iter().map(|one| match one.reserve.asset == self.own.reserve.asset {
            true => ReservePosition { supplied: one.supplied.saturating_sub(amount), ..*one },
            false => *one,
        });
        let left = AccountSums::of(&left.collect::<Vec<_>>()).map_err(impossible)?;
        if left.health >= WAD {
            return Ok(());
        }
        let factor = health_factor(left.health_hundredths());
        let what = format_args!("the debt would have a health factor of {factor}; repay first, or withdraw less");
        Err(invalid("amount", &what))
    }

    /// Checks that the pool has an amount to pay out.
    async fn is_there(&self, amount: U256) -> Result<(), ToolError> {
        let reserve = &self.own.reserve;
        let there = crate::shared::balance(self.chain, reserve.a_token, self.token).await?;
        if amount <= there {
            return Ok(());
        }
        let there = TokenAmount::new(there, self.token.decimals)?;
        let what = format_args!("the market has only {there} {} to pay out now", self.token.symbol);
        Err(invalid("amount", &what))
    }
}

/// Amount that the pool moved, by its event in the receipt of the main transaction; `None` before inclusion.
fn moved(plan: &LendingPlan, committed: &CommitOutcome) -> Option<U256> {
    let main = committed.legs.iter().find(|leg| leg.purpose == LegPurpose::Main && leg.state == TxState::Confirmed)?;
    let TokenId::Erc20(asset) = plan.token.id else { return None };
    main.logs.iter().filter(|log| log.address == plan.pool).find_map(|log| {
        let (reserve, account, amount) = match plan.kind {
            LendingKind::Supply => {
                let event = AavePool::Supply::decode_log(log).ok()?;
                (event.reserve, event.onBehalfOf, event.amount)
            }
            LendingKind::Withdraw => {
                let event = AavePool::Withdraw::decode_log(log).ok()?;
                (event.reserve, event.user, event.amount)
            }
            LendingKind::Borrow => {
                let event = AavePool::Borrow::decode_log(log).ok()?;
                (event.reserve, event.onBehalfOf, event.amount)
            }
            LendingKind::Repay => {
                let event = AavePool::Repay::decode_log(log).ok()?;
                (event.reserve, event.user, event.amount)
            }
        };
        ((reserve, account) == (asset, plan.account)).then_some(amount)
    })
}

pub(crate) fn output(
    context: &CallContext,
    plan: &LendingPlan,
    committed: &CommitOutcome,
) -> Result<ToolReply<Output>, ToolError> {
    let sent = PlanReceipt::of(context, committed)?;
    let amount = match moved(plan, committed) {
        Some(raw) => TokenAmount::new(raw, plan.token.decimals)?,
        None => plan.amount,
    };
    let mut done = match &committed.state {
        CommitState::Done => plan.done(&amount),
        CommitState::Simulated
        | CommitState::Placed
        | CommitState::Reverted
        | CommitState::Unclear
        | CommitState::Stopped { .. } => plan.sentence(&amount),
    };
    let effects = committed.simulated.lending.as_ref();
    let health =
        effects.map(|effects| [effects.before, effects.after].map(|sums| health_factor(sums.health_hundredths())));
    if let Some([before, after]) = &health {
        done.push_str(&format!("; by the simulation, health factor {before} before, {after} after"));
    }
    let falls = effects.map(|effects| effects.falls.as_slice()).unwrap_or_default();
    for fall in falls {
        done.push_str(&format!("; {fall}"));
    }
    let explanation = sent.explain(&done);
    let rows = falls.iter().map(|found| LiquidationRow {
        token: found.symbol.to_string(),
        at: LiquidationPrice::new(found.price, found.fall.get(), found.rises),
    });
    let [before, after] = health.map_or([None, None], |both| both.map(Some));
    let output = Output {
        tx_hash: sent.tx_hash,
        block_number: sent.block_number,
        token: plan.symbol.clone(),
        amount: amount.to_string(),
        health_factor_before: before,
        health_factor_after: after,
        liquidated_if: rows.collect(),
        gas_used: sent.gas_used,
        explorer_url: sent.explorer_url,
    };
    Ok(ToolReply::new(output, explanation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use golem_protocols::aave::math::RAY;
    use golem_protocols::aave::reserve::{ReserveConfig, ReserveState};

    /// By hand: eight reserves need 400,000 + 8 · 60,000 = 880,000, which is below the least; thirty need 2,200,000.
    #[test]
    fn the_gas_limit_grows_with_the_reserves_that_count() {
        let reserve = ReserveState {
            asset: Address::ZERO,
            id: 0,
            config: ReserveConfig::decode(U256::ZERO),
            a_token: Address::ZERO,
            debt_token: Address::ZERO,
            liquidity_index: RAY,
            debt_index: RAY,
            supply_rate: U256::ZERO,
            debt_rate: U256::ZERO,
            updated: 0,
            price: U256::ONE,
        };
        let gas = |collateral: usize, debts: usize, idle: usize| {
            let position = |is_collateral, debt| ReservePosition { reserve, supplied: U256::ONE, debt, is_collateral };
            let mut positions = vec![position(true, U256::ZERO); collateral];
            positions.extend(vec![position(false, U256::ONE); debts]);
            positions.extend(vec![position(false, U256::ZERO); idle]);
            let (account, oracle) = (Address::ZERO, Address::ZERO);
            pool_gas(&MarketState { account, positions, sums: None, category: 0, rewards: vec![], oracle })
        };
        assert_eq!([gas(1, 0, 0), gas(7, 1, 0), gas(1, 1, 100)], [900_000; 3]);
        assert_eq!([gas(9, 0, 0), gas(20, 10, 5)], [940_000, 2_200_000]);
    }
}
