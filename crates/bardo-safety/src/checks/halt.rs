//! Halt check: blocks actions that the stop in force does not let through.

use crate::account::RevocationCause;
use crate::check_inputs::CheckInputs;
use crate::signing_payload::SigningPayload;
use crate::stop::{self, StopCategory};
use crate::vault_management;
use crate::verdict::Verdict;
use crate::wrapping::only_unwraps;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::Finding;
use bardo_base::id::GolemId;
use bardo_base::model::{Check, RuleName, StopLevel};

/// Verdict for an account whose session keys a `revoke` stop removed. It signs nothing, whatever stop is in force now.
pub fn without_keys() -> Verdict {
    let violation = Violation::new(
        RuleName::SessionKeys,
        "revoke drops a Golem's keys until its process restarts, even if the stop is lowered",
        "revoked",
        "the same after the operator lifts the stop and restarts the process; until then the operator can revoke \
                     allowances and cancel orders",
    );
    Verdict::because(Check::Halt, ErrorCode::Halted, RevocationCause::Stop, vec![violation])
}

/// Verdict for orders of agents, which no stop lets through, exits included. An order can be filled after the stop was
/// checked, and while open it may block the operator's exits.
fn no_order(level: StopLevel) -> Verdict {
    let violation = Violation::new(
        RuleName::Stop,
        format_args!("{level}: {}", stop::meaning(level)),
        "an order that is filled later",
        match stop::lets_through(Some(level), StopCategory::Exit) {
            true => "the same exit as a swap in one transaction: set prefer_uniswapx to false",
            false => "revocations, cancellations and refunds; everything else after the operator resumes",
        }
        .to_owned(),
    );
    Verdict::blocked(Check::Halt, ErrorCode::Halted, Finding::NoOrders { level, violations: vec![violation] })
}

/// Checks the action against the stop in force.
pub fn check(payload: &SigningPayload, inputs: &CheckInputs) -> Verdict {
    let class = inputs.class(payload.proposal().tool.action_class);
    let simulated = inputs.simulation.as_ref();
    let passage = if only_unwraps(payload.proposal(), simulated) {
        StopCategory::Exit
    } else {
        let takes_back = inputs.only_revokes() || vault_management::only_pauses(payload.proposal(), simulated);
        stop::passage(takes_back, inputs.reduce_only(), class)
    };
    let Some(level) = inputs.stop else {
        return Verdict::passed(Check::Halt, Finding::NoStop);
    };
    if payload.proposal().order.is_some() && payload.proposal().golem_id != GolemId::operator() {
        return no_order(level);
    }
    if stop::lets_through(Some(level), passage) {
        return Verdict::warned(Check::Halt, Finding::PassesStop { level });
    }
    let would_pass = match (stop::lets_through(Some(level), StopCategory::Exit), passage) {
        (true, _) => "an exit to an exit asset, a revocation or a cancellation",
        (false, _) => "revocations, cancellations and refunds; everything else after the operator resumes",
    };
    let violation = Violation::new(
        RuleName::Stop,
        format_args!("{level}: {}", stop::meaning(level)),
        format_args!("{class}{}", if inputs.reduce_only() { ", an exit" } else { "" }),
        would_pass.to_owned(),
    );
    Verdict::blocked(Check::Halt, ErrorCode::Halted, Finding::Stopped { level, violations: vec![violation] })
}
