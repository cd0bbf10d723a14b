//! Sale of one holding in parts: the size of the next part, the reaction to a refusal, and the wait for an exhausted
//! rate.
//!
//! Dollar limits and trade rates make no part smaller or later: an exit counts only with its possible loss, and the
//! operator's own exits pass the rate limit.

use bardo_base::model::{Rule, RuleName};
use std::time::Duration;

use alloy::primitives::{Address, U256, U512};
use serde_json::{Value, json};

use super::{HoldingToSell, POLL_INTERVAL, SaleCause};
use crate::session::state::SessionState;
use bardo_base::display::readable_figure;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::units::{BasisPoints, Rounding, TokenAmount, Usd};
use bardo_safety::approval::AskedBy;
use bardo_safety::ledger::MicroUsd;
use golem_tools::engine::{ConnectedChain, TokenHolding, ToolCall, ToolInput, ToolResponse, WriteTool};
use golem_tools::trading::uniswap_execute_swap::ExecuteSwap;

/// Token that holdings are sold for.
const EXIT: &str = "USDC";

/// Share of the approval-free amount that one part may be worth, in basis points. The check values a sale at the
/// highest price source, plus gas. After a fall of a quarter, the 30-minute mean is still a third above the present
/// price; after a steeper fall the operator is asked in any case.
const OF_THE_ROOM: u32 = 7_000;

/// Maximum number of reductions to three quarters after a part was too large; the last part is a fortieth of the first.
const MOST_CUTS: u32 = 13;

/// Maximum number of parts that are made only to avoid an approval request.
const MOST_UNASKED: u64 = 24;

/// Maximum number of sales of one holding, as a safeguard.
const MOST_SALES: u32 = 500;

/// Number of retries of a sale that came too early, and the time between them.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_secs(15);

/// Delay after the first attempt to cancel blocking orders; after further ones it is [`BETWEEN_TRIES`].
const AFTER_CANCELLATION: Duration = Duration::from_secs(1);

/// Maximum wait for a rate before the sale is retried, in milliseconds: calls are counted over a minute.
const LONGEST_WAIT_MILLIS: u64 = 60_000;

/// Maximum total wait for exhausted rates between two sales of a holding, in milliseconds: the windows are at most an
/// hour.
const PATIENCE_MILLIS: u64 = 3_700_000;

/// Digits after the decimal point in a report.
const PLACES: usize = 6;

/// Reaction to a refused sale.
enum NextAttempt {
    /// Retry with a smaller part.
    Smaller,
    /// Retry the same part a little later.
    Later,
    /// Retry the same part when a rate permits it: after the given milliseconds, if the refusal states them.
    Wait(Option<u64>),
    /// Retry the same part after cancelling the orders that block it.
    Clear,
    /// End the sale of this holding.
    End,
}

/// Determines the reaction to a refusal from the rules that it violates.
fn next(error: &ToolError) -> NextAttempt {
    let violations = error.details().get("violations").and_then(Value::as_array);
    let mut rules = violations.into_iter().flatten().filter_map(|one| one.get("rule")?.as_str()).map(Rule::read);
    match error.code() {
        ErrorCode::SafetySpendingLimitExceeded | ErrorCode::RoutingInsufficientLiquidity => NextAttempt::Smaller,
        ErrorCode::OrderStillOpen => NextAttempt::Clear,
        ErrorCode::SafetyRateLimited => {
            NextAttempt::Wait(error.details().get("retry_after_ms").and_then(Value::as_u64))
        }
        ErrorCode::SafetySlippage | ErrorCode::SafetyPhaseBlocked
            if rules.any(|rule| rule.is(RuleName::MaxPriceImpactBps) || matches!(rule, Rule::PositionShare(_))) =>
        {
            NextAttempt::Smaller
        }
        // Right after a price fall the sources do not agree yet, and the chain moves during a preview.
        ErrorCode::SafetySlippage
        | ErrorCode::SafetyPhaseBlocked
        | ErrorCode::SafetyPriceUnknown
        | ErrorCode::SafetySimulationFailed
        | ErrorCode::PermitMismatch
        | ErrorCode::PermitExpired
        | ErrorCode::CallInProgress => NextAttempt::Later,
        _ => NextAttempt::End,
    }
}

/// Size of the next part: `room` dollars' worth of `held`, at most `share` of the initial position, reduced by a
/// quarter `cuts` times.
fn part_of(held: U256, position: U256, value: MicroUsd, room: MicroUsd, share: BasisPoints, cuts: u32) -> U256 {
    let by_value = match value {
        MicroUsd::ZERO => held,
        value => {
            let part = U512::from(held) * U512::from(room.get()) / U512::from(value.get());
            if part >= U512::from(held) { held } else { U256::from(part) }
        }
    };
    let part = by_value.min(share.of(position, Rounding::Down));
    (0..cuts).fold(part, |part, _| part / U256::from(4) * U256::from(3))
}

/// Name of a token for a tool: its symbol in the address book, as an operator reads it in rows and exports, or its
/// address if it is not listed, or if another token of the book has the same symbol.
pub(in crate::session) fn name_of(chain: &ConnectedChain, token: Address) -> String {
    let listed = chain.network().book.tokens();
    let symbol = listed.iter().find(|one| one.address == token).map(|one| one.symbol.as_str());
    let is_unique = |symbol: &&str| listed.iter().filter(|one| one.symbol.eq_ignore_ascii_case(symbol)).count() == 1;
    symbol.filter(is_unique).map_or_else(|| token.to_string(), str::to_owned)
}

impl SessionState {
    /// Waits until a time of the ledger's clock; returns false if selling must end first.
    async fn wait_until(&self, at: u64, cause: SaleCause) -> bool {
        while let Some(left) = at.checked_sub(self.sources.clock.now_millis()).filter(|left| *left > 0) {
            if self.must_end(cause).is_some() {
                return false;
            }
            self.sources.clock.pause(Duration::from_millis(left).min(POLL_INTERVAL)).await;
        }
        self.must_end(cause).is_none()
    }

    /// Sells one holding part by part. Returns a summary, and true if nothing of it is left.
    /// `more` is the number of holdings that are sold after it.
    pub(super) async fn sell(
        &self,
        holding: &HoldingToSell<'_>,
        account: Address,
        (cause, more): (SaleCause, Option<u32>),
    ) -> (String, bool) {
        let (mut sales, mut cuts, mut tries, mut waited) = (0_u32, 0_u32, 0_u32, 0_u64);
        let (mut position, mut is_cleared) = (None, false);
        let why = loop {
            let (held, value) = match self.worth(holding, account).await {
                Ok(found) => found,
                Err(error) => break error.message().to_owned(),
            };
            if held.raw().is_zero() {
                let sold = format!("Sold all {} on {}.", holding.token.symbol, holding.chain.network().name);
                return (if sales > 1 { format!("{sold} It took {sales} sales.") } else { sold }, true);
            }
            if let Some(why) = self.must_end(cause) {
                break why.to_owned();
            }
            if sales >= MOST_SALES {
                break format!("the limit of {MOST_SALES} sales was reached");
            }
            let position = *position.get_or_insert(held.raw());
            let part = self.part(held.raw(), position, value, cuts);
            let whole = part >= held.raw();
            let amount = match TokenAmount::new(part, held.decimals()) {
                Ok(_) if whole => "max".to_owned(),
                Ok(part) if !part.raw().is_zero() => part.to_string(),
                Ok(_) | Err(_) => break "the amounts that the policy allows are too small to sell".to_owned(),
            };
            let response = self.sell_part(holding, &amount, cause.asks(more)).await;
            let Some(error) = response.error else {
                // A part that was too large by a lagging price source may fit by now.
                (sales, tries, cuts) = (sales.saturating_add(1), 0, cuts.saturating_sub(1));
                (waited, is_cleared) = (0, false);
                continue;
            };
            match next(&error) {
                // Every order ends at its deadline, so retry until then, even if other orders are placed meanwhile.
                NextAttempt::Clear => {
                    let _left = self.unwind_orders(None).await;
                    let pause = if is_cleared { BETWEEN_TRIES } else { AFTER_CANCELLATION };
                    is_cleared = true;
                    let due = self.sources.clock.now_millis().saturating_add(pause.as_millis() as u64);
                    if !self.wait_until(due, cause).await {
                        break self.must_end(cause).unwrap_or("the sale was stopped").to_owned();
                    }
                }
                NextAttempt::Smaller if cuts < MOST_CUTS => cuts += 1,
                NextAttempt::Later if tries < TRIES => {
                    tries += 1;
                    let due = self.sources.clock.now_millis().saturating_add(BETWEEN_TRIES.as_millis() as u64);
                    if !self.wait_until(due, cause).await {
                        break self.must_end(cause).unwrap_or("the sale was stopped").to_owned();
                    }
                }
                NextAttempt::Wait(free_in) if waited < PATIENCE_MILLIS => {
                    let wait = free_in.unwrap_or(BETWEEN_TRIES.as_millis() as u64).clamp(1_000, LONGEST_WAIT_MILLIS);
                    waited = waited.saturating_add(wait);
                    if !self.wait_until(self.sources.clock.now_millis().saturating_add(wait), cause).await {
                        break self.must_end(cause).unwrap_or("the sale was stopped").to_owned();
                    }
                }
                NextAttempt::Smaller | NextAttempt::Later | NextAttempt::Wait(_) | NextAttempt::End => {
                    break error.message().to_owned();
                }
            }
        };
        let left = match self.worth(holding, account).await {
            Ok((held, _)) => readable_figure(&held.to_string(), PLACES),
            Err(_) => "the rest".to_owned(),
        };
        let (symbol, chain) = (&holding.token.symbol, &holding.chain.network().name);
        let summary = match sales {
            0 => format!("{symbol} on {chain} was not sold: {why}"),
            1 => format!("{symbol} on {chain}: one sale, {left} left: {why}"),
            sales => format!("{symbol} on {chain}: {sales} sales, {left} left: {why}"),
        };
        (summary, false)
    }

    async fn sell_part(&self, holding: &HoldingToSell<'_>, amount: &str, asked_by: AskedBy) -> ToolResponse {
        let params = json!({
            "token_in": name_of(holding.chain, holding.address), "token_out": EXIT, "amount": amount,
            "chain": holding.chain.network().chain_id.to_string(), "prefer_uniswapx": false,
        });
        let call = ToolCall { asked_by, ..ToolCall::new(ExecuteSwap::META.name, ToolInput::Json(params)) };
        self.sources.operator.call(call).await
    }

    /// Balance and value of a holding; no value without a price, which the sale then reports.
    async fn worth(
        &self,
        holding: &HoldingToSell<'_>,
        account: Address,
    ) -> Result<(TokenAmount, Option<Usd>), ToolError> {
        let found = holding.chain.held(account, &[holding.address]).await?;
        let Some(TokenHolding::Amount(on_chain)) = found.first().copied() else {
            return Err(ToolError::new(ErrorCode::TokenInvalid, "the token does not respond to balanceOf"));
        };
        let chain_id = holding.chain.network().chain_id;
        let held = self.sources.world.balance(chain_id, account, holding.token.id, on_chain)?;
        let held = TokenAmount::new(held, holding.token.decimals)?;
        let reports = holding.chain.prices.prices(&[holding.address]).await;
        let price = reports.first().and_then(|report| report.price.as_ref()).map(|price| price.usd);
        Ok((held, price.and_then(|price| Usd::value_of(held, price, Rounding::Up).ok())))
    }

    /// Size of the next part, in raw units.
    fn part(&self, held: U256, position: U256, value: Option<Usd>, cuts: u32) -> U256 {
        let Some(policy) = self.sources.keeper.as_ref().map(|keeper| keeper.current().policy) else {
            return U256::ZERO;
        };
        let rules = policy.rules();
        let share = rules.phases.of(*self.links.phase_now.borrow()).max_position_share_bps.0;
        let down = |usd: Usd| MicroUsd::of(usd, Rounding::Down).ok();
        // Without a price only the whole holding can be tried, and no check lets it pass.
        let Some(value) = value.and_then(|value| MicroUsd::of(value, Rounding::Up).ok()) else { return held };
        let own = rules.tools.0.get(ExecuteSwap::META.name).map(|rule| rule.requires_approval_above_usd);
        let asked = [Some(rules.require_human_approval_above_usd), Some(rules.spending_limits.hot_lane), own];
        let unasked = asked.into_iter().flatten().filter_map(|most| down(most.0?)).min();
        let few = |unasked: &MicroUsd| value.get() / unasked.get().max(1) < MOST_UNASKED;
        let room = unasked.filter(few).unwrap_or(MicroUsd::MAX);
        let most = room.share(BasisPoints::new(OF_THE_ROOM).unwrap_or(BasisPoints::ZERO));
        part_of(held, position, value, if value <= most { value } else { most }, share, cuts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(dollars: u64) -> MicroUsd {
        MicroUsd::new(dollars * 1_000_000).unwrap()
    }

    #[test]
    fn a_part_fits_the_limits_and_is_reduced_by_quarters() {
        let whole = BasisPoints::new(10_000).unwrap();
        let quarter = BasisPoints::new(2_500).unwrap();
        let part = |held: u64, position: u64, room: u64, share, cuts| {
            part_of(U256::from(held), U256::from(position), micros(1_000), micros(room), share, cuts)
        };
        // 800 units are worth 1,000 dollars: 250 dollars are 200 of them.
        assert_eq!(part(800, 800, 250, whole, 0), U256::from(200));
        assert_eq!(part(800, 800, 1_000, whole, 0), U256::from(800));
        assert_eq!(part(800, 800, 2_000, whole, 0), U256::from(800), "no more than there is");
        // A quarter of the initial position, however little of it is left.
        assert_eq!(part(800, 1_600, 1_000, quarter, 0), U256::from(400));
        assert_eq!(part(800, 800, 1_000, quarter, 0), U256::from(200));
        // Three quarters, and three quarters of that.
        assert_eq!(part(800, 800, 1_000, whole, 1), U256::from(600));
        assert_eq!(part(800, 800, 1_000, whole, 2), U256::from(450));
    }

    #[test]
    fn a_refusal_says_if_a_smaller_or_later_action_may_pass() {
        let refused = |code, rule: &str| {
            let violation = bardo_base::error::Violation::new(Rule::read(rule), "", "", "");
            match next(&ToolError::new(code, "no").violating(&[violation])) {
                NextAttempt::Smaller => "smaller",
                NextAttempt::Later => "later",
                NextAttempt::Wait(_) => "wait",
                NextAttempt::Clear => "clear",
                NextAttempt::End => "end",
            }
        };
        for (code, rule, wanted) in [
            (ErrorCode::SafetySpendingLimitExceeded, "max_single_trade_usd", "smaller"),
            (ErrorCode::SafetySlippage, "max_price_impact_bps", "smaller"),
            (ErrorCode::SafetySlippage, "max_loss_bps", "later"),
            (ErrorCode::SafetyPhaseBlocked, "phases.defensive.max_position_share_bps", "smaller"),
            (ErrorCode::SafetyPhaseBlocked, "phase Terminal", "later"),
            (ErrorCode::SafetyRateLimited, "max_tool_calls_per_minute", "wait"),
            (ErrorCode::SafetyRateLimited, "active_hours", "wait"),
            (ErrorCode::OrderStillOpen, "", "clear"),
            (ErrorCode::Halted, "stop", "end"),
            (ErrorCode::ApprovalRefused, "", "end"),
            (ErrorCode::SafetyTokenNotAllowed, "allowed_tokens", "end"),
        ] {
            assert_eq!(refused(code, rule), wanted, "{code} {rule}");
        }
    }
}
