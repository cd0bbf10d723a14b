//! Is a stop in force that this action does not pass?

use crate::account::Revoked;
use crate::facts::Facts;
use crate::framed::Framed;
use crate::stop::{self, Passage};
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::Finding;
use bardo_base::id::GolemId;
use bardo_base::model::{Check, RuleName, StopLevel};

/// Of an account whose keys the ladder's highest step took away: whatever stop is in force by now, it signs nothing.
pub fn without_keys() -> Verdict {
    let violation = Violation::new(
        RuleName::SessionKeys,
        "revoke takes a Golem's keys away for as long as its program runs, lowered or not",
        "revoked",
        "the same once the operator has lifted the stop and started the program anew; until then the \
                     operator's own hand takes back allowances and cancels orders",
    );
    Verdict::because(Check::Halt, ErrorCode::Halted, Revoked::Stop, vec![violation])
}

/// Agents sign no orders under a stop, exits included: an order can be filled later than the stop is looked at, and while it
/// is open it may hold up the operator's exits.
fn no_order(level: StopLevel) -> Verdict {
    let violation = Violation::new(
        RuleName::Stop,
        format_args!("{level}: {}", stop::meaning(level)),
        "an order that others fill later",
        match stop::lets_through(Some(level), Passage::Exit) {
            true => "the same exit as a swap in one transaction: set prefer_uniswapx to false",
            false => "taking back allowances and orders; everything else once the operator resumes",
        }
        .to_owned(),
    );
    Verdict::blocked(Check::Halt, ErrorCode::Halted, Finding::NoOrders { level, violations: vec![violation] })
}

/// The stop ladder.
pub fn check(framed: &Framed, facts: &Facts) -> Verdict {
    let class = facts.class(framed.proposal().tool.action_class);
    let passage = stop::passage(facts.takes_back(), facts.reduce_only(), class);
    let Some(level) = facts.stop else {
        return Verdict::passed(Check::Halt, Finding::NoStop);
    };
    if framed.proposal().order.is_some() && framed.proposal().golem_id != GolemId::operator() {
        return no_order(level);
    }
    if stop::lets_through(Some(level), passage) {
        return Verdict::warned(Check::Halt, Finding::PassesStop { level });
    }
    let would_pass = match (stop::lets_through(Some(level), Passage::Exit), passage) {
        (true, _) => "an exit to an exit asset, or taking back allowances and orders",
        (false, _) => "taking back allowances and orders; everything else once the operator resumes",
    };
    let violation = Violation::new(
        RuleName::Stop,
        format_args!("{level}: {}", stop::meaning(level)),
        format_args!("{class}{}", if facts.reduce_only() { ", an exit" } else { "" }),
        would_pass.to_owned(),
    );
    Verdict::blocked(Check::Halt, ErrorCode::Halted, Finding::Stopped { level, violations: vec![violation] })
}
