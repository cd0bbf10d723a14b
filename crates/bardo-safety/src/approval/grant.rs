//! Standing approvals: for one Golem, one tool, one chain, the same tokens and recipients, under the
//! same rules and phase, up to a total, for a while.

use std::collections::BTreeSet;
use std::time::Duration;

use alloy::primitives::{Address, B256};
use tokio::sync::watch;
use tokio::time::Instant;

use super::reason::Reason;
use crate::pipeline::Preview;
use crate::typed::TypedMessage;
use bardo_base::clock::Clock;
use bardo_base::id::GolemId;
use bardo_base::model::{CapabilityTier, Phase};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use golem_chain::token::TokenId;

/// A standing approval.
#[derive(Debug, Clone)]
pub struct Grant {
    /// Names it on its desk.
    number: u64,
    scope: Scope,
    /// Total that the operator gave, which the action that was asked about is part of.
    granted: Usd,
    /// What may still be spent under it.
    left: Usd,
    /// When it was given, in milliseconds since the Unix epoch.
    given_at: u64,
    /// When it ends by the wall clock, in milliseconds since the Unix epoch: a suspended machine shortens it.
    ends_at: u64,
    /// When it ends by the monotonic clock: setting the wall clock back lengthens nothing.
    ends: Instant,
    /// The phase of whoever acts, as it was when it was given: it ends when that changes, and does not come back with it.
    own: Option<watch::Receiver<Phase>>,
}

/// One moment by both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// By the wall clock, in milliseconds since the Unix epoch.
    pub wall: u64,
    /// By the monotonic clock, which may stand still while the machine is suspended.
    pub steady: Instant,
}

impl Moment {
    /// The present.
    pub fn now(clock: &dyn Clock) -> Self {
        Self { wall: clock.now_millis(), steady: Instant::now() }
    }
}

/// What a grant is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Who may act.
    pub golem_id: GolemId,
    /// By which tool.
    pub tool: &'static str,
    /// Where.
    pub chain_id: u64,
    /// With whose money.
    pub account: Address,
    /// Every token that goes out.
    pub gives: BTreeSet<TokenId>,
    /// Every token that comes in: what may be bought may not be sold by the same word.
    pub gets: BTreeSet<TokenId>,
    /// Everybody who receives something.
    pub recipients: BTreeSet<Address>,
    /// The other chain and the token there that a bridge order brings.
    pub arrival: Option<(u64, TokenId)>,
    /// Whoever may take something by a signature: routers, reactors, settlers.
    pub takers: BTreeSet<Address>,
    /// Under which rules.
    pub policy: B256,
    /// In which phase.
    pub phase: Phase,
    /// After which stop: it ends with the next, even if that is lifted at once.
    pub last_stop: Option<SafeText>,
    /// True for an approval that was given on paper, which never lets anything be signed.
    pub paper: bool,
}

impl Scope {
    /// What a grant for an action of this kind is bound to.
    pub fn of(preview: &Preview) -> Self {
        let proposal = preview.framed.proposal();
        let arrival = proposal.order.as_ref().and_then(|order| order.arrival.as_ref());
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
            policy: preview.policy,
            phase: preview.phase,
            last_stop: preview.last_stop.clone(),
            paper: preview.paper,
        }
    }
}

/// The spenders of everything that is signed beside transactions.
fn takers(preview: &Preview) -> BTreeSet<Address> {
    let inside = preview.framed.legs().iter().flat_map(|leg| leg.slots.iter().map(|slot| &slot.message));
    let order = preview.framed.proposal().order.as_ref().map(|order| &order.message);
    inside.chain(order).flat_map(TypedMessage::takes).map(|takes| takes.spender).collect()
}

impl Grant {
    /// A standing approval for `granted` in all, of which `left` remains after the action that was asked about. It lasts
    /// for `millis` from `now`.
    pub(super) fn new(number: u64, preview: &Preview, (granted, left): (Usd, Usd), millis: u64, now: Moment) -> Self {
        Self {
            number,
            scope: Scope::of(preview),
            granted,
            left,
            given_at: now.wall,
            ends_at: now.wall.saturating_add(millis),
            ends: now.steady + Duration::from_millis(millis),
            own: preview.own.clone(),
        }
    }

    /// Names it on its desk, and no other there.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How long it still holds, by the clock that ends it first.
    pub fn lasts(&self, now: Moment) -> Duration {
        if now.wall < self.given_at {
            return Duration::ZERO;
        }
        let by_wall = Duration::from_millis(self.ends_at.saturating_sub(now.wall));
        self.ends.saturating_duration_since(now.steady).min(by_wall)
    }

    /// What it is bound to.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// What may still be spent under it.
    pub fn left(&self) -> Usd {
        self.left
    }

    /// Total that the operator gave, in dollars, which the action that was asked about is part of.
    pub fn granted(&self) -> Usd {
        self.granted
    }

    /// Whether it is still of use: in time, and under the rules and the phase of now.
    pub(super) fn lives(&self, now: Moment, policy: B256, phase: Phase) -> bool {
        self.stands(now) && self.scope.policy == policy && self.scope.phase == phase
    }

    /// Whether neither clock has ended it, the wall clock is not before the time at which it was given, and the phase has
    /// not changed since it was asked for.
    pub(super) fn stands(&self, now: Moment) -> bool {
        !self.lasts(now).is_zero() && self.own.as_ref().is_none_or(|own| matches!(own.has_changed(), Ok(false)))
    }

    /// Takes an action's spending out of it; false, and nothing taken, if it does not cover that.
    pub(super) fn take(&mut self, scope: &Scope, spent: Usd, now: Moment) -> bool {
        if !self.stands(now) || self.scope != *scope {
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
}

/// Why an action can never be covered by a grant; `None` if it can.
pub(super) fn never_granted(preview: &Preview) -> Option<&'static str> {
    let proposal = preview.framed.proposal();
    if proposal.tool.capability == CapabilityTier::Privileged {
        Some("it changes who holds authority")
    } else if preview.above_hot_lane {
        Some("it is above the hot lane")
    } else if preview.first_seen {
        Some("it pays somebody for the first time")
    } else if preview.parties.contains(&Reason::FirstAllowed) {
        Some("it lets somebody take for the first time")
    } else if !preview.values.takeable.is_empty() {
        Some("it leaves an allowance behind")
    } else if preview.needs.reasons().iter().any(Reason::is_of_this_one) {
        Some("something was found about it that no earlier answer was given for")
    } else {
        None
    }
}
