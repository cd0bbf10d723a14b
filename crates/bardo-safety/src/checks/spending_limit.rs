//! Spending limits: caps in dollars on single actions, sliding windows, tokens, positions and gas, and bounds on
//! allowances.

use super::lending;
use super::policy_context::PolicyContext;
use crate::chain_snapshot::stables;
use crate::check_inputs::CheckInputs;
use crate::ledger::{CapPeriod, MicroUsd};
use crate::policy::MaxUsd;
use crate::proposal::{AllowanceBound, AllowanceKind, ProposalIntent};
use crate::signing_payload::SigningPayload;
use crate::typed::TypedMessage;
use crate::value::{ActionValues, UnknownValue, is_unlimited};
use crate::verdict::Verdict;
use crate::wrapping::GAS_RESERVE;
use alloy::primitives::U256;
use bardo_base::error::{ErrorCode, FigureUnit, RuleFigures, Violation};
use bardo_base::fabric::{CheckReason, Finding};
use bardo_base::format::{dollars, dollars_above, dollars_left, wait};
use bardo_base::model::{ActionClass, Check, RuleName};
use bardo_base::units::Usd;
use golem_chain::token::TokenId;

/// Checks the action against every spending limit.
pub fn check(payload: &SigningPayload, inputs: &CheckInputs, context: &PolicyContext<'_>) -> Verdict {
    let (values, request) = match (&inputs.values, &context.request) {
        (Ok(values), Ok(request)) => (values, request),
        (Err(doubt), _) | (Ok(_), Err(doubt)) => return unknown(doubt),
    };
    let usage = match context.usage {
        Ok(usage) => usage,
        Err(why) => return no_ledger(Check::SpendingLimit, why),
    };
    let caps = &context.caps;
    // A position must be sellable while it falls: an exit above the caps needs approval instead.
    let exceeded = caps.exceeded(usage, request);
    let (mut violations, mut over) = if request.exit { (Vec::new(), exceeded) } else { (exceeded, Vec::new()) };
    over.extend(caps.exit_volume(usage, request));
    position(payload, inputs, values, context, &mut violations);
    gas(payload, values, context, &mut violations);
    gas_reserve(payload, inputs, values, &mut violations);
    lending::check(payload, inputs, values, context, &mut violations);
    if !inputs.only_revokes() {
        let takeable = values.takeable.iter().map(|one| (one.token.symbol.as_str(), one.usd));
        for (symbol, usd) in takeable {
            let most = context.policy.rules().max_allowance_usd;
            let what = format_args!("of {symbol} left as an allowance");
            above(most, usd, RuleName::MaxAllowanceUsd, what, &mut violations);
        }
        for bound in &payload.proposal().allowances {
            allowance(bound, inputs, context, &mut violations);
        }
        signed(payload, inputs, context, &mut violations);
    }
    if violations.is_empty() {
        let day = caps.spend.iter().filter(|cap| cap.span == CapPeriod::Day).map(|cap| cap.limit).min();
        let after = usage.spent(CapPeriod::Day).plus(request.spend).unwrap_or(MicroUsd::MAX);
        let found = Finding::spending(request.spend.dollars(), after.dollars(), day.map(MicroUsd::dollars));
        let passed = Verdict::passed(Check::SpendingLimit, found);
        // Without figures: they change with every price while the operator reads, and the approval would no longer
        // cover the action.
        return over.iter().map(CheckReason::exit_above).fold(passed, Verdict::asking);
    }
    let endangers = violations.iter().any(lending::is_about_health);
    let code = if endangers { ErrorCode::SafetyHealthFactor } else { ErrorCode::SafetySpendingLimitExceeded };
    Verdict::broken(Check::SpendingLimit, code, violations)
}

fn unknown(doubt: &UnknownValue) -> Verdict {
    let violation = Violation::new(
        RuleName::Price,
        "every value must be known to check a limit",
        doubt.to_string(),
        "the same when every price is known",
    );
    Verdict::because(Check::SpendingLimit, ErrorCode::SafetyPriceUnknown, doubt, vec![violation])
}

/// Verdict for a ledger that cannot be read, so that past spending is unknown.
pub(super) fn no_ledger(check: Check, why: &UnknownValue) -> Verdict {
    let violation = Violation::new(
        RuleName::Ledger,
        "past spending must be known",
        why.to_string(),
        "the same when the ledger can be read",
    );
    Verdict::because(check, ErrorCode::StoreUnavailable, why, vec![violation])
}

/// Adds a violation if `usd` is above `most`. `of_what` is written only then.
pub(super) fn above(
    most: MaxUsd,
    usd: Usd,
    rule: RuleName,
    of_what: impl std::fmt::Display,
    violations: &mut Vec<Violation>,
) {
    let Some(most) = most.0.filter(|most| usd > *most) else { return };
    violations.push(
        Violation::new(
            rule,
            dollars(most),
            format_args!("{} {of_what}", dollars_above(usd, most)),
            format_args!("at most {}", dollars_left(most)),
        )
        .with(RuleFigures::new(FigureUnit::Usd, most, usd).leaving(most)),
    );
}

/// Checks the value of a holding after an action that adds to it, at the highest price. Incoming tokens, also of orders
/// that are not settled yet, count at what was given for them: at a fair price they are not worth more.
fn position(
    payload: &SigningPayload,
    inputs: &CheckInputs,
    values: &ActionValues,
    context: &PolicyContext<'_>,
    violations: &mut Vec<Violation>,
) {
    let rules = context.policy.rules();
    let class = inputs.class(payload.proposal().tool.action_class);
    let adds = matches!(class, ActionClass::NewPosition | ActionClass::IncreasePosition | ActionClass::Rebalance);
    if !(adds || values.exposed > Usd::ZERO) || inputs.only_revokes() {
        return;
    }
    if payload.proposal().intent == ProposalIntent::Liquidity {
        // What comes in beside a deposit are fees that the position already held.
        in_a_position(payload, inputs, values, context, violations);
        return;
    }
    let given = values.outflows.iter().try_fold(values.exposed, |sum, one| sum.checked_add(one.usd));
    for inflow in payload.proposal().inflows.iter().filter(|inflow| inflow.recipient == payload.account()) {
        let held = held(inputs, inflow.token.id);
        let coming = coming(context, payload.proposal().chain_id, inflow.token.id);
        let after = held.zip(given.ok()).zip(coming);
        let after = after.and_then(|((held, given), coming)| held.checked_add(given).ok()?.checked_add(coming).ok());
        let unfed = MaxUsd(rules.max_unfed_usd.0.filter(|_| values.is_unfed(inflow.token.id)));
        for (rule, most) in
            [(RuleName::MaxPositionSizeUsd, rules.max_position_size_usd), (RuleName::MaxUnfedUsd, unfed)]
        {
            let Some(limit) = most.0 else { continue };
            match after {
                Some(after) => {
                    let what = format_args!("of {} held afterwards", inflow.token.symbol);
                    above(most, after, rule, what, violations);
                }
                None => violations.push(Violation::new(
                    rule,
                    dollars(limit),
                    format_args!("the balance of {} is unknown", inflow.token.symbol),
                    "the same when it is known, or an exit now",
                )),
            }
        }
    }
}

/// Checks a deposit into a liquidity position: trades can turn all of it into either of its tokens, so for each the other
/// one's amount counts as held in it as well. A position that turns into a dollar stablecoin has been sold, so beside any
/// other token a stablecoin is left out.
fn in_a_position(
    payload: &SigningPayload,
    inputs: &CheckInputs,
    values: &ActionValues,
    context: &PolicyContext<'_>,
    violations: &mut Vec<Violation>,
) {
    let (proposal, most) = (payload.proposal(), context.policy.rules().max_position_size_usd);
    let Some(limit) = most.0 else { return };
    let stables = context.network.map(stables).unwrap_or_default();
    let is_stable = |id: TokenId| match id {
        TokenId::Erc20(address) => stables.contains(&address),
        TokenId::Native => false,
    };
    let any_other = proposal.outflows.iter().any(|flow| !is_stable(flow.token.id));
    for flow in proposal.outflows.iter().filter(|flow| !(any_other && is_stable(flow.token.id))) {
        let others = values.outflows.iter().filter(|one| one.token.id != flow.token.id);
        let after = others
            .map(|one| one.usd)
            .try_fold(held(inputs, flow.token.id), |sum, usd| sum.map(|sum| sum.checked_add(usd)).transpose());
        match after.ok().flatten() {
            Some(after) => {
                let what = format_args!("of {} if the position turns into it", flow.token.symbol);
                above(most, after, RuleName::MaxPositionSizeUsd, what, violations);
            }
            None => violations.push(Violation::new(
                RuleName::MaxPositionSizeUsd,
                dollars(limit),
                format_args!("the holdings of {} are unknown", flow.token.symbol),
                "the same when they are known",
            )),
        }
    }
}

/// Returns the dollars of a token in the wallet and in liquidity positions, at the highest price; `None` if they are not
/// known.
fn held(inputs: &CheckInputs, token: TokenId) -> Option<Usd> {
    let portfolio = inputs.portfolio.as_ref().ok()?;
    let in_wallet = portfolio.holdings.iter().find(|one| one.token.id == token).map_or(Usd::ZERO, |one| one.highest);
    in_wallet.checked_add(portfolio.in_positions.get(&token).copied().unwrap_or_default()).ok()
}

/// Returns the dollars given for the output of open orders in a token; `None` if the ledger cannot be read.
fn coming(context: &PolicyContext<'_>, chain_id: u64, token: TokenId) -> Option<Usd> {
    Some(context.usage.ok()?.coming.get(&(chain_id, token)).copied().unwrap_or_default().dollars())
}

fn gas(payload: &SigningPayload, values: &ActionValues, context: &PolicyContext<'_>, violations: &mut Vec<Violation>) {
    let rules = context.policy.rules();
    above(rules.max_gas_usd, values.gas, RuleName::MaxGasUsd, "of gas at most", violations);
    let fee = payload.fees().max_fee_per_gas;
    if let Some(most) = rules.max_fee_per_gas_gwei.wei().filter(|most| fee > *most) {
        violations.push(
            Violation::new(
                RuleName::MaxFeePerGasGwei,
                format_args!("{most} wei per unit of gas"),
                format_args!("{fee} wei"),
                "the same when gas is cheaper",
            )
            .with(RuleFigures::new(FigureUnit::Wei, most, fee).leaving(most)),
        );
    }
}

/// Checks that a wrapping leaves the native token that later exits, revocations and its own reversal need for gas.
/// Without it the account could do nothing until somebody sent some.
fn gas_reserve(payload: &SigningPayload, inputs: &CheckInputs, values: &ActionValues, violations: &mut Vec<Violation>) {
    if values.exposed == Usd::ZERO || payload.proposal().intent != ProposalIntent::Wrap {
        return;
    }
    let reserve = U256::from(GAS_RESERVE).saturating_mul(U256::from(payload.fees().max_fee_per_gas));
    let limit = format!("{reserve} wei of the native token stay for the gas of later actions");
    let moves = inputs.simulation.iter().flat_map(|simulated| &simulated.moves);
    // Without the cost of its own gas, which is bounded by `gas_wei`.
    let after = moves.filter(|moved| moved.token == TokenId::Native).map(|moved| moved.after).min();
    let Some(after) = after else {
        // A wrapping moves the native token: a simulation that does not show it shows something else.
        let unknown = "the simulation does not show what would stay";
        violations.push(Violation::new(RuleName::GasReserve, limit, unknown, "the same when it is known"));
        return;
    };
    let left = after.saturating_sub(values.gas_wei);
    if left < reserve {
        let value = format_args!("{left} wei would stay");
        violations.push(Violation::new(RuleName::GasReserve, limit, value, "a smaller amount").with(RuleFigures::new(
            FigureUnit::Wei,
            reserve,
            left,
        )));
    }
}

fn allowance(
    bound: &AllowanceBound,
    inputs: &CheckInputs,
    context: &PolicyContext<'_>,
    violations: &mut Vec<Violation>,
) {
    let rules = context.policy.rules();
    // The threshold that `value` uses: an allowance above it is not counted by its amount.
    if is_unlimited(bound.at_most) && !rules.allow_unlimited_allowance.0 {
        violations.push(Violation::new(
            RuleName::AllowUnlimitedAllowance,
            "exact amounts",
            format_args!("an unlimited allowance of {} for {}", bound.token.symbol, bound.spender),
            "the exact amount the action needs",
        ));
    }
    if let AllowanceKind::Permit2 { expires_at } = bound.kind
        && !bound.at_most.is_zero()
    {
        lasts(expires_at, "an allowance", inputs, context, violations);
    }
}

/// Checks every deadline of a signed message. Until its last deadline, an order is an option that others hold.
fn signed(
    payload: &SigningPayload,
    inputs: &CheckInputs,
    context: &PolicyContext<'_>,
    violations: &mut Vec<Violation>,
) {
    let inside = payload.legs().iter().flat_map(|leg| leg.slots.iter().map(|slot| (&slot.message, "a permit")));
    let order = payload.order().map(|order| (&order.message, "an order"));
    for (message, what) in inside.chain(order) {
        for takes in message.takes().iter().filter(|takes| !takes.amount.is_zero()) {
            lasts(takes.holds_until.max(takes.usable_until), what, inputs, context, violations);
        }
        if let TypedMessage::CrossChainOrder { intent, .. } = message {
            lasts(intent.fill_deadline.into(), what, inputs, context, violations);
        }
    }
}

/// Adds a violation if `until`, in seconds since the Unix epoch, exceeds the policy's maximum time. The time counts
/// from [`BlockTimes::moment`]. An endpoint that claims a later block than the machine's clock can explain extends no
/// order: `checks::clocks` lets only exits by a swap, and revocations, pass then.
///
/// [`BlockTimes::moment`]: bardo_base::clock::BlockTimes::moment
fn lasts(until: u64, what: &str, inputs: &CheckInputs, context: &PolicyContext<'_>, violations: &mut Vec<Violation>) {
    let most = context.policy.rules().max_allowance_seconds.0;
    let now = context.network.map_or(inputs.now_millis / 1_000, |network| inputs.times(network).deadline_time());
    let lasts = until.saturating_sub(now);
    let figures = RuleFigures::new(FigureUnit::Seconds, most, lasts).leaving(most);
    let found = |violation: &Violation| {
        violation.rule.is(RuleName::MaxAllowanceSeconds) && violation.figures.as_deref() == Some(&figures)
    };
    if lasts > most && !violations.iter().any(found) {
        violations.push(
            Violation::new(
                RuleName::MaxAllowanceSeconds,
                wait(most),
                wait(lasts),
                format_args!("{what} that ends within {}", wait(most)),
            )
            .with(figures),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use alloy::primitives::{Address, B256, Bytes};

    use super::*;
    use crate::ledger::LedgerUsage;
    use crate::policy::parse;
    use crate::sample;
    use crate::simulate::{SimulatedEffects, TokenMove};
    use bardo_base::model::Phase;
    use golem_chain::fork::{PinnedBlock, Simulation, StateChanges};

    /// Rules that a wrapping breaks after which `after` wei are left, of which its own gas costs 100 at most; `None` if
    /// the simulation shows no native token. Gas costs 10 gwei at most per unit.
    fn broken(exposed: &str, after: Option<U256>) -> Vec<String> {
        let me = Address::repeat_byte(1);
        let leg = sample::leg(me, Bytes::from_static(&[1, 2, 3, 4]));
        let payload = SigningPayload::new(sample::frame(sample::proposal(me, ProposalIntent::Wrap, leg))).unwrap();
        let pinned = PinnedBlock { chain_id: 31_337, number: 1, hash: B256::ZERO };
        let values =
            ActionValues { exposed: exposed.parse().unwrap(), gas_wei: U256::from(100), ..ActionValues::default() };
        let inputs = CheckInputs {
            asked: false,
            now_millis: 1_000,
            block_time: 1,
            phase: Phase::Thriving,
            stop: None,
            tokens: Default::default(),
            values: Ok(values),
            portfolio: Ok(Default::default()),
            simulation: Some(SimulatedEffects {
                pinned,
                gas_used: 1,
                gas_cost: U256::ZERO,
                class: ActionClass::ReadOnly,
                leaves: false,
                reduce_only: false,
                only_revokes: false,
                moves: after
                    .map(|after| TokenMove { token: TokenId::Native, before: U256::MAX, after })
                    .into_iter()
                    .collect(),
                paid: vec![],
                lending: None,
                simulation: Simulation { pinned, outcomes: vec![], changes: StateChanges::default() },
            }),
        };
        let usage = LedgerUsage::default();
        let policy = parse("preset = \"demo\"\n", Path::new("gas.toml")).unwrap();
        let context = PolicyContext::new(&policy, Ok(&usage), None, &payload, &inputs);
        check(&payload, &inputs, &context).violations().iter().map(|one| one.rule.to_string()).collect()
    }

    #[test]
    fn a_wrapping_leaves_the_gas_of_later_actions() {
        // Two million units of gas at 10 gwei, and the 100 wei of the wrapping itself.
        let least = U256::from(20_000_000_000_000_100_u64);
        assert_eq!(broken("5", Some(least)), [""; 0]);
        assert_eq!(broken("5", Some(least - U256::from(1))), ["gas_reserve"]);
        assert_eq!(broken("5", Some(U256::ZERO)), ["gas_reserve"]);
        assert_eq!(broken("5", None), ["gas_reserve"], "what stays is unknown");
        assert_eq!(broken("0", Some(U256::ZERO)), [""; 0], "any other action");
    }
}
