//! Rate limits: trades per hour, calls per minute, cooldown, revocations, active hours.

use super::policy_context::PolicyContext;
use super::spending_limit::no_ledger;
use crate::check_inputs::CheckInputs;
use crate::signing_payload::SigningPayload;
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, FigureUnit, RuleFigures, Violation};
use bardo_base::fabric::{CheckReason, Finding};
use bardo_base::format::wait;
use bardo_base::id::GolemId;
use bardo_base::model::{Check, RuleName};
use bardo_base::text::SafeText;
use golem_chain::network::NetworkKind;

/// Maximum length of the active hours in words, in characters.
const MAX_HOURS: usize = 200;

/// Checks the action against the rate limits.
pub fn check(payload: &SigningPayload, inputs: &CheckInputs, context: &PolicyContext<'_>) -> Verdict {
    let usage = match context.usage {
        Ok(usage) => usage,
        Err(why) => return no_ledger(Check::RateLimit, why),
    };
    let caps = &context.caps;
    // Rates do not depend on the amount; the spending limit handles an unknown value.
    let (only_revokes, exit) = (inputs.only_revokes(), inputs.reduce_only());
    let by_operator = payload.proposal().golem_id == GolemId::operator();
    let mut violations = Vec::new();
    let mut asks = Vec::new();
    // An agent that uses up the rate must not lock positions in: its exits need approval, and the operator's exits
    // pass.
    match if only_revokes { None } else { caps.trade_rate(usage) } {
        Some(_) if exit && by_operator => {}
        // Without the current count, which may grow while the operator reads.
        Some(rate) if exit => asks.push(CheckReason::exit_above(&rate)),
        Some(rate) => violations.push(rate),
        None => {}
    }
    violations.extend(caps.against_rate(usage, !only_revokes, only_revokes || exit));
    let revocation = if only_revokes { caps.revocation_rate(usage) } else { None };
    match revocation {
        Some(_) if by_operator => {
            asks.push(CheckReason::ManyRevocations);
        }
        Some(violation) => violations.push(violation),
        None => {}
    }
    // The spending limit handles an unknown value.
    match context.request.as_ref().ok().and_then(|request| caps.revocation_gas(usage, request)) {
        Some(gas) if by_operator => asks.push(CheckReason::RevocationGas { rule: gas.rule, limit: gas.limit }),
        Some(gas) => violations.push(gas),
        None => {}
    }
    let hours = &context.policy.rules().active_hours;
    let by_both = hours_now(inputs, context);
    let closed = by_both.into_iter().find(|now| !hours.contains(*now)).filter(|_| !only_revokes);
    if exit && closed.is_some() && by_both.iter().any(|now| hours.contains(*now)) {
        // One of the two is wrong, and neither may open the hours or lock a position in by itself.
        asks.push(CheckReason::OutsideHours { hours: SafeText::clean(&hours.describe(), MAX_HOURS) });
    } else if let Some(now) = closed {
        let opens = hours.opens_in(now);
        violations.push(
            Violation::new(
                RuleName::ActiveHours,
                hours.describe(),
                "now",
                opens.map_or_else(
                    || "nothing at any time".to_owned(),
                    |seconds| format!("the same in {}", wait(seconds)),
                ),
            )
            .with(opens.map(|seconds| RuleFigures::new(FigureUnit::Seconds, 0, seconds).freeing_in(Some(seconds)))),
        );
    }
    if violations.is_empty() {
        let found = Finding::rate(usage.trades_hour, caps.trades_per_hour);
        let passed = Verdict::passed(Check::RateLimit, found);
        return asks.into_iter().fold(passed, Verdict::asking);
    }
    Verdict::broken(Check::RateLimit, ErrorCode::SafetyRateLimited, violations)
}

/// The hours by which an action may act or not, in milliseconds since the Unix epoch: the machine's, and the chain's
/// where it contradicts that. A devnet's time is its own.
fn hours_now(inputs: &CheckInputs, context: &PolicyContext<'_>) -> [u64; 2] {
    let network = context.network.filter(|network| network.kind != NetworkKind::Devnet);
    let times = network.map(|network| inputs.times(network)).filter(|times| !times.agree());
    [inputs.now_millis, times.map_or(inputs.now_millis, |times| times.chain.saturating_mul(1_000))]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use alloy::primitives::{Address, B256, Bytes, U256};

    use super::*;
    use crate::ledger::{FailureBreaker, LedgerUsage};
    use crate::policy::parse;
    use crate::proposal::ProposalIntent;
    use crate::sample;
    use crate::simulate::SimulatedEffects;
    use bardo_base::model::{ActionClass, Phase};
    use golem_chain::fork::{PinnedBlock, Simulation, StateChanges};

    /// Monday, 18 January 2027, 09:30 UTC, in seconds since the Unix epoch.
    const MONDAY: u64 = 1_800_264_600;

    /// Returns the rules that block an action at this time, after `calls_minute` calls in this minute.
    fn against(lines: &str, seconds: u64, calls_minute: u32, only_revokes: bool) -> Vec<String> {
        let now = seconds * 1_000;
        let me = Address::repeat_byte(1);
        let proposal = sample::proposal(me, ProposalIntent::Swap, sample::leg(me, Bytes::from_static(&[1, 2, 3, 4])));
        let payload = SigningPayload::new(sample::frame(proposal)).unwrap();
        let pinned = PinnedBlock { chain_id: 31_337, number: 1, hash: B256::ZERO };
        let inputs = CheckInputs {
            asked: false,
            now_millis: now,
            block_time: seconds,
            phase: Phase::Thriving,
            stop: None,
            tokens: Default::default(),
            values: Ok(Default::default()),
            portfolio: Ok(Default::default()),
            simulation: Some(SimulatedEffects {
                pinned,
                gas_used: 1,
                gas_cost: U256::ZERO,
                class: ActionClass::NewPosition,
                leaves: false,
                reduce_only: false,
                only_revokes,
                moves: vec![],
                paid: vec![],
                lending: None,
                simulation: Simulation { pinned, outcomes: vec![], changes: StateChanges::default() },
            }),
        };
        let usage = LedgerUsage {
            now,
            calls_minute,
            breaker: FailureBreaker::Closed { failures: 0 },
            ..LedgerUsage::default()
        };
        let policy = parse(&format!("preset = \"demo\"\n{lines}"), Path::new("rates.toml")).unwrap();
        let context = PolicyContext::new(&policy, Ok(&usage), None, &payload, &inputs);
        check(&payload, &inputs, &context).violations().iter().map(|one| one.rule.to_string()).collect()
    }

    #[test]
    fn outside_its_hours_it_only_takes_back() {
        let hours = "active_hours = [\"Mon 09:00-10:00\"]";
        for (seconds, expected) in [
            (MONDAY - 1_801, &["active_hours"][..]),
            (MONDAY - 1_800, &[]),
            (MONDAY + 1_799, &[]),
            (MONDAY + 1_800, &["active_hours"]),
            (MONDAY + 86_400, &["active_hours"]),
        ] {
            assert_eq!(against(hours, seconds, 0, false), expected, "{seconds}");
            assert_eq!(against(hours, seconds, 0, true), [""; 0], "{seconds}");
        }
        assert_eq!(against("", MONDAY, 0, false), [""; 0]);
    }

    #[test]
    fn the_call_limit_includes_the_checked_call() {
        let most = "max_tool_calls_per_minute = 5";
        assert_eq!(against(most, MONDAY, 5, false), [""; 0]);
        assert_eq!(against(most, MONDAY, 6, false), ["max_tool_calls_per_minute"]);
        assert_eq!(against(most, MONDAY, 6, true), ["max_tool_calls_per_minute"], "taking back is a call as well");
    }
}
