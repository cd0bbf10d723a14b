//! Do this machine's clock and the chain's time agree? Deadlines, expirations, windows of the limits and the age of prices
//! all rest on the time. Where the two differ, one of them is wrong, and nobody can tell which: nothing is signed that could
//! lose more. An exit or a revocation goes by the chain's time, which is what the chain compares its deadlines with.

use bardo_base::error::{ErrorCode, FigureUnit, Figures, Violation};
use bardo_base::fabric::Finding;
use bardo_base::model::{Check, RuleName};
use golem_chain::network::{Network, NetworkKind};

use crate::facts::Facts;
use crate::verdict::Verdict;

/// Suggested remedy if the clocks differ.
const SUGGESTION: &str = "Set this machine's clock by a time server. If it is right, the endpoint has stopped following the \
                          chain or lies about the time: remove it from the configuration.";

/// The clocks; `None` where they agree, and on devnets, whose time is their own.
pub fn check(facts: &Facts, network: &Network) -> Option<Verdict> {
    let times = facts.times(network);
    if network.kind == NetworkKind::Devnet || times.agree() {
        return None;
    }
    let finding = |violations| Finding::ClocksDiffer {
        machine: times.machine,
        chain: times.chain,
        tolerance_seconds: times.tolerance,
        violations,
    };
    if facts.reduce_only() || facts.takes_back() {
        return Some(Verdict::warned(Check::ChainHealth, finding(Vec::new())));
    }
    let by = times.machine.abs_diff(times.chain);
    let violation = Violation::new(
        RuleName::ClocksAgree,
        format_args!("this machine's clock and the chain's latest block within {} s", times.tolerance),
        format_args!("{by} s apart: {} by this machine, {} by the chain", times.machine, times.chain),
        "the same once both show the same time; an exit or a revocation now",
    )
    .with(Some(Figures::new(FigureUnit::Seconds, times.tolerance, by)));
    let blocked = Verdict::blocked(Check::ChainHealth, ErrorCode::ChainInconsistent, finding(vec![violation]));
    Some(blocked.suggesting(SUGGESTION))
}
