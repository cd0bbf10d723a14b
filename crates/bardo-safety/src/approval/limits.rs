//! Limits on approval requests. A rejected action is not requested again for a while, and no agent can flood the
//! operator.
//!
//! Two actions count as the same regardless of amount, slippage, deadline and tool, so that varying these does not get
//! around a rejection. The operator's own actions have no limits here. The state is in memory and uses the monotonic
//! clock: setting the wall clock has no effect, and a restart by the operator clears it.

use std::collections::{BTreeSet, HashMap, VecDeque};

use alloy::primitives::Address;

use super::AskedBy;
use crate::pipeline::Preview;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use golem_chain::token::{TokenId, TokenInfo};

/// Pause after the first, second, … rejection of the same action, in milliseconds. The last value repeats.
const PAUSES: [u64; 5] = [60_000, 300_000, 900_000, 3_600_000, 14_400_000];
/// Time after a pause during which another rejection still lengthens the next pause, in milliseconds: one day.
const REMEMBERED: u64 = 86_400_000;
/// Limit of open requests per agent.
pub const MAX_OPEN: usize = 8;
/// Limit of requests per agent within [`WINDOW`] that ended without an approval.
pub const MAX_UNANSWERED: usize = 20;
/// Window of [`MAX_UNANSWERED`], in milliseconds.
const WINDOW: u64 = 600_000;
/// Symbols of wrapped native tokens.
const WRAPPED: [&str; 5] = ["WETH", "WPOL", "WMATIC", "WBNB", "WAVAX"];
/// Limit of remembered rejections. The one whose pause ends first is dropped first.
const MAX_KINDS: usize = 1_024;

/// Identity of an action for the limits: two actions with the same value count as the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RejectedKind {
    golem_id: GolemId,
    chain_id: u64,
    account: Address,
    effect: ActionEffect,
    gives: BTreeSet<TokenId>,
    gets: BTreeSet<TokenId>,
    arrival: Option<(u64, TokenId)>,
    /// Every address except the account that receives something, or gets an allowance if the action spends no token.
    others: BTreeSet<Address>,
}

/// Effect of an action, independent of the tool that proposes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ActionEffect {
    /// Spends tokens and receives others, on this chain or another.
    Trade,
    /// Spends tokens and receives none.
    Pay,
    /// Spends no token: grants an allowance or calls a contract.
    Allow,
}

impl RejectedKind {
    fn of(preview: &Preview) -> Self {
        let proposal = preview.payload.proposal();
        let arrival = proposal.bridged();
        let arrival = arrival.map(|arrival| (arrival.chain_id, arrival.token.id));
        let gives: BTreeSet<_> = proposal.outflows.iter().map(|flow| unwrapped(&flow.token)).collect();
        let gets: BTreeSet<_> = proposal.inflows.iter().map(|inflow| unwrapped(&inflow.token)).collect();
        let effect = match (gives.is_empty(), gets.is_empty() && arrival.is_none()) {
            (true, _) => ActionEffect::Allow,
            (false, true) => ActionEffect::Pay,
            (false, false) => ActionEffect::Trade,
        };
        // Routers and settlers differ between tools with the same effect, so spenders count only where an allowance is
        // the effect.
        let spenders = proposal.allowances.iter().filter(|_| effect == ActionEffect::Allow).map(|bound| bound.spender);
        let allowed =
            proposal.allowances.iter().filter(|_| effect == ActionEffect::Allow).map(|bound| unwrapped(&bound.token));
        let recipients = proposal.recipients.iter().copied();
        let recipients = recipients.chain(proposal.inflows.iter().map(|inflow| inflow.recipient));
        let others = recipients.chain(spenders).filter(|other| *other != proposal.account).collect();
        Self {
            golem_id: proposal.golem_id.clone(),
            chain_id: proposal.chain_id,
            account: proposal.account,
            effect,
            gives: gives.into_iter().chain(allowed).collect(),
            gets,
            arrival,
            others,
        }
    }
}

/// Returns the token's id, with a wrapped native token counted as the native one. A false symbol makes more actions
/// count as the same, never fewer.
fn unwrapped(token: &TokenInfo) -> TokenId {
    if WRAPPED.contains(&token.symbol.as_str()) { TokenId::Native } else { token.id }
}

/// Rejection record of one kind of action.
#[derive(Debug, Clone, Copy)]
struct RejectionRecord {
    /// Number of rejections without an approval in between, within [`REMEMBERED`] of each other's pause.
    times: usize,
    /// End of the pause, in milliseconds on the monotonic clock.
    until: u64,
}

/// Reason for which a request is not queued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskRefused {
    /// The operator recently rejected the same action.
    #[error("the operator rejected this recently: request approval again in {retry_after_seconds} s")]
    RefusedBefore {
        /// Remaining pause, in seconds.
        retry_after_seconds: u64,
    },
    /// Too many of the agent's requests are open or ended without an approval.
    #[error("{why}: request approval again in {retry_after_seconds} s")]
    TooMany {
        /// Text with the number of requests.
        why: SafeText,
        /// Time until another request is possible, in seconds.
        retry_after_seconds: u64,
    },
}

impl AskRefused {
    /// Returns the time until the request is possible, in seconds.
    pub fn retry_after_seconds(&self) -> u64 {
        match self {
            Self::RefusedBefore { retry_after_seconds } | Self::TooMany { retry_after_seconds, .. } => {
                *retry_after_seconds
            }
        }
    }
}

/// State of the limits for one approval queue. Times are in milliseconds on the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct AskLimits {
    refused: HashMap<RejectedKind, RejectionRecord>,
    unanswered: HashMap<GolemId, VecDeque<u64>>,
}

impl AskLimits {
    /// Checks the limits for a request, given the agent's number of `open` requests. What the operator asks for through an
    /// agent's tools has none: a rejection tells the agent, and the operator decides again.
    pub(super) fn may_ask(
        &mut self,
        preview: &Preview,
        asked_by: &AskedBy,
        open: usize,
        now: u64,
    ) -> Result<(), AskRefused> {
        let golem_id = &preview.payload.proposal().golem_id;
        if *golem_id == GolemId::operator() || asked_by.is_operator() {
            return Ok(());
        }
        self.refused.retain(|_, refused| now < refused.until.saturating_add(REMEMBERED));
        if let Some(refused) = self.refused.get(&RejectedKind::of(preview)).filter(|refused| now < refused.until) {
            let retry_after_seconds = refused.until.saturating_sub(now).div_ceil(1_000);
            return Err(AskRefused::RefusedBefore { retry_after_seconds });
        }
        if open >= MAX_OPEN {
            let why = SafeText::clean(&format!("{open} approval requests of this agent are already pending"), 100);
            return Err(AskRefused::TooMany { why, retry_after_seconds: 60 });
        }
        let asked = self.unanswered.entry(golem_id.clone()).or_default();
        asked.retain(|at| now < at.saturating_add(WINDOW));
        match asked.front() {
            Some(first) if asked.len() >= MAX_UNANSWERED => {
                let minutes = WINDOW / 60_000;
                let why = format!(
                    "{} approval requests of this agent in {minutes} minutes ended without approval",
                    asked.len()
                );
                let retry_after_seconds = first.saturating_add(WINDOW).saturating_sub(now).div_ceil(1_000);
                Err(AskRefused::TooMany { why: SafeText::clean(&why, 100), retry_after_seconds })
            }
            _ => Ok(()),
        }
    }

    /// Records a rejection.
    pub(super) fn note_refused(&mut self, preview: &Preview, now: u64) {
        self.note_unanswered(preview, now);
        if preview.payload.proposal().golem_id == GolemId::operator() {
            return;
        }
        if self.refused.len() >= MAX_KINDS
            && let Some(first) = self.refused.iter().min_by_key(|(_, one)| one.until).map(|(kind, _)| kind.clone())
        {
            self.refused.remove(&first);
        }
        let entry = self.refused.entry(RejectedKind::of(preview)).or_insert(RejectionRecord { times: 0, until: 0 });
        let pause = PAUSES.get(entry.times).or(PAUSES.last()).copied().unwrap_or(u64::MAX);
        entry.times = entry.times.saturating_add(1);
        entry.until = now.saturating_add(pause);
    }

    /// Records a request that ended without an approval.
    pub(super) fn note_unanswered(&mut self, preview: &Preview, now: u64) {
        let golem_id = &preview.payload.proposal().golem_id;
        if *golem_id != GolemId::operator() {
            let asked = self.unanswered.entry(golem_id.clone()).or_default();
            asked.push_back(now);
            if asked.len() > MAX_UNANSWERED {
                asked.pop_front();
            }
        }
    }

    /// Forgets the rejections of this kind of action after an approval.
    pub(super) fn note_approved(&mut self, preview: &Preview) {
        self.refused.remove(&RejectedKind::of(preview));
    }
}
