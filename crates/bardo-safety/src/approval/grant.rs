//! Standing approvals: for one Golem, one tool, one chain, the same tokens and recipients, under the
//! same rules and phase, with at most the same slippage, up to a total, for a while.

use std::collections::BTreeSet;
use std::time::Duration;

use alloy::primitives::{Address, B256};
use tokio::sync::watch;
use tokio::time::Instant;

use super::reason::ApprovalReason;
use crate::pipeline::Preview;
use crate::proposal::Proposal;
use crate::typed::TypedMessage;
use bardo_base::clock::Clock;
use bardo_base::id::GolemId;
use bardo_base::model::{CapabilityTier, Phase};
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Usd};
use golem_chain::token::TokenId;

/// Standing approval that covers similar actions.
#[derive(Debug, Clone)]
pub struct ApprovalGrant {
    number: u64,
    scope: GrantScope,
    /// Total that the operator gave, which the action that was asked about is part of.
    granted: Usd,
    /// Remaining spending limit.
    left: Usd,
    /// Time of the approval, in milliseconds since the Unix epoch.
    given_at: u64,
    /// End by the wall clock, in milliseconds since the Unix epoch. It also counts the time during which the machine is
    /// suspended.
    ends_at: u64,
    /// End by the monotonic clock. Setting the wall clock back cannot extend it.
    ends: Instant,
    /// Phase of the acting Golem, subscribed before the approval. Any change ends the approval, even if the phase
    /// changes back.
    own: Option<watch::Receiver<Phase>>,
}

/// Point in time on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct GrantTime {
    /// Wall clock reading, in milliseconds since the Unix epoch.
    pub wall: u64,
    /// Monotonic clock reading. This clock may pause while the machine is suspended.
    pub steady: Instant,
}

impl GrantTime {
    /// Reads both clocks.
    pub fn now(clock: &dyn Clock) -> Self {
        Self { wall: clock.now_millis(), steady: Instant::now() }
    }
}

/// Properties of an action that a standing approval requires to be equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantScope {
    /// Golem that may act.
    pub golem_id: GolemId,
    /// Name of the tool.
    pub tool: &'static str,
    /// Chain of the transactions.
    pub chain_id: u64,
    /// Account that spends.
    pub account: Address,
    /// Every token that leaves the account.
    pub gives: BTreeSet<TokenId>,
    /// Every token that the account receives. An approval to buy a token does not permit selling it.
    pub gets: BTreeSet<TokenId>,
    /// Every address that receives something.
    pub recipients: BTreeSet<Address>,
    /// Destination chain and token of a bridge order.
    pub arrival: Option<(u64, TokenId)>,
    /// Every spender of a signed message: routers, reactors, settlers.
    pub takers: BTreeSet<Address>,
    /// The largest slippage that it allows. A size is bounded by the grant's total; how much of a trade may be lost to
    /// its counterparty is not, so that more of that is asked about again.
    pub slippage: BasisPoints,
    /// Under which rules.
    pub policy: B256,
    /// Golem's phase when the preview was made.
    pub phase: Phase,
    /// Text of the last stop before the preview. A later stop ends the approval, even if it is lifted at once.
    pub last_stop: Option<SafeText>,
    /// True for an approval in paper trading, which never permits a signature.
    pub paper: bool,
}

impl GrantScope {
    /// Returns the scope of an action.
    pub fn of(preview: &Preview) -> Self {
        let proposal = preview.payload.proposal();
        let arrival = proposal.bridged();
        let inflow_recipients = proposal.inflows.iter().map(|inflow| inflow.recipient);
        Self {
            golem_id: proposal.golem_id.clone(),
            tool: proposal.tool.name,
            chain_id: proposal.chain_id,
            account: proposal.account,
            gives: proposal.outflows.iter().map(|flow| flow.token.id).collect(),
            gets: proposal.inflows.iter().map(|inflow| inflow.token.id).collect(),
            recipients: proposal.recipients.iter().copied().chain(inflow_recipients).collect(),
            arrival: arrival.map(|arrival| (arrival.chain_id, arrival.token.id)),
            takers: takers(preview),
            slippage: slippage(proposal),
            policy: preview.policy,
            phase: preview.phase,
            last_stop: preview.last_stop.clone(),
            paper: preview.paper,
        }
    }
}

impl GrantScope {
    /// Returns true if a grant bound to this scope covers `action`: its slippage is not higher, and everything else is
    /// equal.
    pub fn covers(&self, action: &Self) -> bool {
        action.slippage <= self.slippage && *self == Self { slippage: self.slippage, ..action.clone() }
    }
}

/// Slippage that the trade states, or the largest share of an expected inflow or arrival that may be missing, whichever
/// is more: a stated figure alone would be the tool's word.
fn slippage(proposal: &Proposal) -> BasisPoints {
    let stated = proposal.trade.as_ref().map_or(BasisPoints::ZERO, |trade| trade.slippage);
    let inflows = proposal.inflows.iter().map(|inflow| (inflow.expected, inflow.at_least));
    let arrival = proposal.bridged();
    let all = inflows.chain(arrival.map(|arrival| (arrival.expected, arrival.at_least)));
    all.map(|(expected, least)| BasisPoints::lacking(expected, least)).fold(stated, BasisPoints::max)
}

/// Spenders of every signed message that is not a transaction.
fn takers(preview: &Preview) -> BTreeSet<Address> {
    let inside = preview.payload.legs().iter().flat_map(|leg| leg.slots.iter().map(|slot| &slot.message));
    let order = preview.payload.proposal().order.as_ref().map(|order| &order.message);
    inside.chain(order).flat_map(TypedMessage::takes).map(|takes| takes.spender).collect()
}

impl ApprovalGrant {
    /// A standing approval for `granted` in all, of which `left` remains after the action that was asked about. It
    /// lasts for `millis` from `now`.
    pub(super) fn new(
        number: u64,
        preview: &Preview,
        (granted, left): (Usd, Usd),
        millis: u64,
        now: GrantTime,
    ) -> Self {
        Self {
            number,
            scope: GrantScope::of(preview),
            granted,
            left,
            given_at: now.wall,
            ends_at: now.wall.saturating_add(millis),
            ends: now.steady + Duration::from_millis(millis),
            own: preview.own.clone(),
        }
    }

    /// Returns the number that identifies the approval in its queue.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the remaining time, by the clock that ends it first.
    pub fn lasts(&self, now: GrantTime) -> Duration {
        if now.wall < self.given_at {
            return Duration::ZERO;
        }
        let by_wall = Duration::from_millis(self.ends_at.saturating_sub(now.wall));
        self.ends.saturating_duration_since(now.steady).min(by_wall)
    }

    /// Returns the properties that an action must match.
    pub fn scope(&self) -> &GrantScope {
        &self.scope
    }

    /// Returns the remaining spending limit.
    pub fn left(&self) -> Usd {
        self.left
    }

    /// Total that the operator gave, in dollars, which the action that was asked about is part of.
    pub fn granted(&self) -> Usd {
        self.granted
    }

    /// Returns true if the approval is in time and matches this policy and phase.
    pub(super) fn is_in_force(&self, now: GrantTime, policy: B256, phase: Phase) -> bool {
        self.stands(now) && self.scope.policy == policy && self.scope.phase == phase
    }

    /// Returns true if neither clock has ended the approval, the wall clock is not before its start, and the Golem's
    /// phase has not changed since the request.
    pub(super) fn stands(&self, now: GrantTime) -> bool {
        !self.lasts(now).is_zero() && self.own.as_ref().is_none_or(|own| matches!(own.has_changed(), Ok(false)))
    }

    /// Deducts an action's spending. Returns false, and deducts nothing, if the approval does not cover the action.
    pub(super) fn take(&mut self, scope: &GrantScope, spent: Usd, now: GrantTime) -> bool {
        if !self.stands(now) || !self.scope.covers(scope) {
            return false;
        }
        match self.left.checked_sub(spent) {
            Ok(left) => {
                self.left = left;
                true
            }
            Err(_) => false,
        }
    }

    /// Gives back the spending of an action that was not done.
    pub(super) fn give_back(&mut self, spent: Usd) {
        self.left = self.left.checked_add(spent).map_or(self.left, |left| left.min(self.granted));
    }
}

/// Returns the reason for which no standing approval can cover the action; `None` if one can.
pub(super) fn never_granted(preview: &Preview) -> Option<&'static str> {
    let proposal = preview.payload.proposal();
    if proposal.tool.capability == CapabilityTier::Privileged {
        Some("it changes who has authority")
    } else if preview.second.is_some() {
        Some("it needs a second operator's approval")
    } else if preview.above_hot_lane {
        Some("it is so large that it needs a second opinion")
    } else if preview.first_seen {
        Some("it pays a new recipient")
    } else if preview.parties.contains(&ApprovalReason::FirstAllowed) {
        Some("it gives an allowance to a new spender")
    } else if !preview.values.takeable.is_empty() {
        Some("it leaves an allowance")
    } else if preview.needs.reasons().iter().any(ApprovalReason::is_of_this_one) {
        Some("it has a finding that no earlier approval covers")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::U256;

    use super::super::model::{preview, proposal, usd};
    use super::*;
    use crate::proposal::{Inflow, ProposalIntent};
    use crate::sample;

    #[test]
    fn a_grant_ends_by_the_earlier_of_both_clocks() {
        let start = GrantTime { wall: 1_000_000, steady: Instant::now() };
        let at = |wall: u64, steady: u64| GrantTime { wall, steady: start.steady + Duration::from_millis(steady) };
        let of = preview(proposal(), 10, start.wall);
        let grant = ApprovalGrant::new(1, &of, (usd(100), usd(90)), 60_000, start);
        for (now, expected) in [
            (at(1_059_999, 59_999), true),
            // A suspended machine's monotonic clock stands still; a wall clock may be held back.
            (at(1_060_000, 0), false),
            (at(1_000_000, 60_000), false),
            (at(999_999, 0), false),
        ] {
            assert_eq!(grant.stands(now), expected, "{now:?}");
        }
    }

    #[test]
    fn slippage_without_a_trade_is_the_part_not_guaranteed_to_come_in() {
        let account = Address::repeat_byte(1);
        let mut proposal = sample::proposal(account, ProposalIntent::Bridge, sample::leg(account, vec![]));
        assert_eq!(slippage(&proposal), BasisPoints::ZERO);
        for (at_least, points) in [(10_000, 0), (9_951, 49), (9_900, 100), (0, 10_000)] {
            let token = sample::token(Address::repeat_byte(2), "USDC", 6);
            let (at_least, expected) = (U256::from(at_least), U256::from(10_000));
            proposal.inflows = vec![Inflow { token, at_least, expected, recipient: account }];
            assert_eq!(slippage(&proposal).get(), points);
        }
    }
}
