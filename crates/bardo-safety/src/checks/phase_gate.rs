//! Phase gate: classes of action that each phase allows.
//!
//! | class | Thriving | Cautious | Defensive | Survival | Terminal |
//! |---|---|---|---|---|---|
//! | new-position | yes | yes | no | no | no |
//! | increase-position | yes | yes | no | no | no |
//! | rebalance | yes | yes | yes | no | no |
//! | decrease-position | yes | yes | yes | yes | no |
//! | close-position | yes | yes | yes | yes | yes |
//! | read-only | yes | yes | yes | yes | yes |
//!
//! The policy's settings for the phase apply in addition: with `exit_only`, a rebalance does not pass. Revocations,
//! cancellations and refunds pass in every phase.
//!
//! `max_position_share_bps` is a share of the current holding plus what left it within a day, by the ledger. A quarter
//! at a time therefore takes four sales, and the last one closes the position. Measured by the remainder alone, a
//! position could never be closed.
//!
//! A sale under a recorded liquidation plan counts as closing a position. Otherwise a position larger than one trade
//! could never be left. The sale must be a fair exit, and only of tokens that the plan names.

use alloy::primitives::{U256, U512};
use bardo_base::fabric::Finding;

use super::policy_context::PolicyContext;
use crate::check_inputs::CheckInputs;
use crate::ledger::{MicroUsd, percent};
use crate::proposal::ProposalIntent;
use crate::signing_payload::SigningPayload;
use crate::simulate::figure;
use crate::verdict::Verdict;
use crate::wrapping::only_unwraps;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::model::{ActionClass, Check, Phase, Rule};
use bardo_base::units::Rounding;
use golem_chain::token::TokenId;

/// Returns true if `phase` allows actions of `class`.
pub const fn allows(phase: Phase, class: ActionClass) -> bool {
    use ActionClass as C;
    match (class, phase) {
        (C::NewPosition | C::IncreasePosition, Phase::Thriving | Phase::Cautious) => true,
        (C::NewPosition | C::IncreasePosition, Phase::Defensive | Phase::Survival | Phase::Terminal) => false,
        (C::Rebalance, Phase::Thriving | Phase::Cautious | Phase::Defensive) => true,
        (C::Rebalance, Phase::Survival | Phase::Terminal) => false,
        (C::DecreasePosition, Phase::Terminal) => false,
        (C::DecreasePosition, Phase::Thriving | Phase::Cautious | Phase::Defensive | Phase::Survival) => true,
        (C::ClosePosition | C::ReadOnly, _) => true,
    }
}

/// Checks the action against its phase.
pub fn check(payload: &SigningPayload, inputs: &CheckInputs, context: &PolicyContext<'_>) -> Verdict {
    let phase = inputs.phase;
    let class = inputs.class(payload.proposal().tool.action_class);
    if inputs.only_revokes() {
        return Verdict::passed(Check::PhaseGate, Finding::PhaseTakesBack { phase });
    }
    // Gas for the exits themselves must be within reach in every phase.
    if only_unwraps(payload.proposal(), inputs.simulation.as_ref()) {
        return Verdict::passed(Check::PhaseGate, Finding::PhaseAllows { phase, class: ActionClass::ReadOnly });
    }
    let rules = context.policy.rules().phases.of(phase);
    let mut violations = Vec::new();
    let closes = allows(phase, ActionClass::ClosePosition) && is_part_of_a_plan(inputs, context, class);
    if !(allows(phase, class) || closes) {
        let allowed: Vec<_> =
            ActionClass::ALL.iter().filter(|class| allows(phase, **class)).map(|one| one.as_str()).collect();
        violations.push(Violation::new(
            Rule::Phase(phase),
            allowed.join(", "),
            class.to_string(),
            "an action of one of these classes, or the same in a better phase",
        ));
    }
    if rules.exit_only.0 && !inputs.reduce_only() && class != ActionClass::ReadOnly {
        violations.push(Violation::new(
            Rule::ExitOnly(phase),
            "exits only: to an exit asset, to the wallet itself, at a fair price, leaving no allowance",
            class.to_string(),
            "a sale of holdings for a stablecoin or the native token",
        ));
    }
    let share = rules.max_position_share_bps.0;
    // A repayment pays a debt and sells nothing, what a vault pays out is the account's own, and what a settlement pays is the
    // depositors'.
    let sells = matches!(class, ActionClass::DecreasePosition | ActionClass::ClosePosition)
        && !matches!(
            payload.proposal().intent,
            ProposalIntent::Lending | ProposalIntent::Vault | ProposalIntent::VaultManagement
        );
    let moves = inputs.simulation.iter().flat_map(|simulated| &simulated.moves);
    for one in moves.filter(|one| sells && share.get() < 10_000 && one.after < one.before) {
        let sold = one.before.saturating_sub(one.after);
        let position = one.before.saturating_add(gone(inputs, context, payload.proposal().chain_id, one.token));
        if U512::from(sold) * U512::from(10_000) > U512::from(position) * U512::from(share.get()) {
            let most: U256 = share.of(position, Rounding::Down);
            let shown = |raw| figure(payload.proposal(), one.token, raw);
            violations.push(Violation::new(
                Rule::PositionShare(phase),
                format_args!("{} % of a position in one trade", percent(share)),
                format_args!("{} of {}", shown(sold), shown(position)),
                format_args!("at most {} now, and the rest in another trade", shown(most)),
            ));
        }
    }
    if violations.is_empty() {
        return Verdict::passed(Check::PhaseGate, Finding::PhaseAllows { phase, class });
    }
    Verdict::blocked(
        Check::PhaseGate,
        ErrorCode::SafetyPhaseBlocked,
        Finding::PhaseForbids { phase, class, violations },
    )
}

/// Returns true if the action sells only tokens that a recorded liquidation plan sells completely.
fn is_part_of_a_plan(inputs: &CheckInputs, context: &PolicyContext<'_>, class: ActionClass) -> bool {
    let (Ok(usage), Some(simulated)) = (context.usage, &inputs.simulation) else { return false };
    let mut sold = simulated.moves.iter().filter(|one| one.after < one.before).peekable();
    class == ActionClass::DecreasePosition
        && inputs.reduce_only()
        && sold.peek().is_some()
        && sold.all(|one| usage.liquidating.contains(&one.token))
}

/// Returns the amount of a token that left within a day by the ledger, in raw units at the current price, rounded down.
/// Allowances, pending actions and unfilled orders do not count. Zero if it is not known: then a share is one of the
/// remainder.
fn gone(inputs: &CheckInputs, context: &PolicyContext<'_>, chain_id: u64, token: TokenId) -> U256 {
    let (Ok(usage), Ok(values)) = (context.usage, &inputs.values) else { return U256::ZERO };
    let spent = usage.moved.get(&(chain_id, token)).copied().unwrap_or_default();
    let valued = values.outflows.iter().find(|one| one.token.id == token);
    let worth = valued.and_then(|one| Some((one.amount, MicroUsd::of(one.usd, Rounding::Up).ok()?)));
    let Some((amount, worth)) = worth.filter(|(_, worth)| *worth != MicroUsd::ZERO) else { return U256::ZERO };
    let raw = U512::from(amount) * U512::from(spent.get()) / U512::from(worth.get());
    if raw > U512::from(U256::MAX) { U256::ZERO } else { U256::from(raw) }
}
