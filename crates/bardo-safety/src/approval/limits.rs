//! Limits on asking: the same thing is not asked again soon after a refusal, and no agent buries the operator under
//! questions.
//!
//! Amounts, slippage, deadlines and the tool are no part of what makes two actions the same, so that no variation of them
//! gets around a refusal. The operator's own actions have no limits here. Everything is kept in memory, by the monotonic
//! scale of the clock: setting the wall clock frees nothing, and a restart by the operator does.

use std::collections::{BTreeSet, HashMap, VecDeque};

use alloy::primitives::Address;

use crate::pipeline::Preview;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use golem_chain::token::{Token, TokenId};

/// How long the same is not asked again after its first, second, … refusal, in milliseconds. The last one repeats.
const PAUSES: [u64; 5] = [60_000, 300_000, 900_000, 3_600_000, 14_400_000];
/// How long after its pause a refusal still makes the next pause longer, in milliseconds: a day.
const REMEMBERED: u64 = 86_400_000;
/// The most questions of one agent that are open at once.
pub const MAX_OPEN: usize = 8;
/// The most questions of one agent within [`WINDOW`] that ended without an approval.
pub const MAX_UNANSWERED: usize = 20;
/// The window of [`MAX_UNANSWERED`], in milliseconds.
const WINDOW: u64 = 600_000;
/// Symbols of wrapped native tokens.
const WRAPPED: [&str; 5] = ["WETH", "WPOL", "WMATIC", "WBNB", "WAVAX"];
/// The most refused kinds of action that are remembered; the one whose pause ends first is forgotten first.
const MAX_KINDS: usize = 1_024;

/// What makes two actions the same after a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ActionKind {
    golem_id: GolemId,
    chain_id: u64,
    account: Address,
    effect: Effect,
    gives: BTreeSet<TokenId>,
    gets: BTreeSet<TokenId>,
    arrival: Option<(u64, TokenId)>,
    /// Everyone but the account itself who receives something, or may take something afterwards.
    others: BTreeSet<Address>,
}

/// What an action does, whichever tool proposes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Effect {
    /// Gives tokens for others.
    Trade,
    /// Gives tokens and gets none here.
    Pay,
    /// Gives no token: an allowance, or a call.
    Allow,
}

impl ActionKind {
    fn of(preview: &Preview) -> Self {
        let proposal = preview.framed.proposal();
        let arrival = proposal.order.as_ref().and_then(|order| order.arrival.as_ref());
        let arrival = arrival.map(|arrival| (arrival.chain_id, arrival.token.id));
        let gives: BTreeSet<_> = proposal.outflows.iter().map(|flow| unwrapped(&flow.token)).collect();
        let gets: BTreeSet<_> = proposal.inflows.iter().map(|inflow| unwrapped(&inflow.token)).collect();
        let effect = match (gives.is_empty(), gets.is_empty() && arrival.is_none()) {
            (true, _) => Effect::Allow,
            (false, true) => Effect::Pay,
            (false, false) => Effect::Trade,
        };
        // Routers and settlers differ between tools that do the same; who is let take matters where nothing else is done.
        let spenders = proposal.allowances.iter().filter(|_| effect == Effect::Allow).map(|bound| bound.spender);
        let allowed =
            proposal.allowances.iter().filter(|_| effect == Effect::Allow).map(|bound| unwrapped(&bound.token));
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

/// The token, with a wrapped native token counted as the native one. A symbol that lies makes more actions the same, never
/// fewer.
fn unwrapped(token: &Token) -> TokenId {
    if WRAPPED.contains(&token.symbol.as_str()) { TokenId::Native } else { token.id }
}

/// A refused kind of action.
#[derive(Debug, Clone, Copy)]
struct Refused {
    /// How often in a row.
    times: usize,
    /// When it may be asked again.
    until: u64,
}

/// Why something is not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskRefused {
    /// The operator refused the same a short while ago.
    #[error("the operator refused this a short while ago: it may be asked again in {retry_after_seconds} s")]
    RefusedBefore {
        /// When it may be asked again.
        retry_after_seconds: u64,
    },
    /// Too many of the agent's questions are open, or ended without an approval.
    #[error("{why}: ask again in {retry_after_seconds} s")]
    TooMany {
        /// How many there are.
        why: SafeText,
        /// When one more may be asked.
        retry_after_seconds: u64,
    },
}

impl AskRefused {
    /// When it may be asked again, in seconds.
    pub fn retry_after_seconds(&self) -> u64 {
        match self {
            Self::RefusedBefore { retry_after_seconds } | Self::TooMany { retry_after_seconds, .. } => {
                *retry_after_seconds
            }
        }
    }
}

/// What was refused and asked, for one desk. Times are in milliseconds on the clock's monotonic scale.
#[derive(Debug, Default)]
pub(super) struct AskLimits {
    refused: HashMap<ActionKind, Refused>,
    unanswered: HashMap<GolemId, VecDeque<u64>>,
}

impl AskLimits {
    /// Whether this may be asked now, while `open` questions of the same agent are.
    pub(super) fn may_ask(&mut self, preview: &Preview, open: usize, now: u64) -> Result<(), AskRefused> {
        let golem_id = &preview.framed.proposal().golem_id;
        if *golem_id == GolemId::operator() {
            return Ok(());
        }
        self.refused.retain(|_, refused| now < refused.until.saturating_add(REMEMBERED));
        if let Some(refused) = self.refused.get(&ActionKind::of(preview)).filter(|refused| now < refused.until) {
            let retry_after_seconds = refused.until.saturating_sub(now).div_ceil(1_000);
            return Err(AskRefused::RefusedBefore { retry_after_seconds });
        }
        if open >= MAX_OPEN {
            let why = SafeText::clean(&format!("{open} questions of this agent wait for the operator already"), 100);
            return Err(AskRefused::TooMany { why, retry_after_seconds: 60 });
        }
        let asked = self.unanswered.entry(golem_id.clone()).or_default();
        asked.retain(|at| now < at.saturating_add(WINDOW));
        match asked.front() {
            Some(first) if asked.len() >= MAX_UNANSWERED => {
                let minutes = WINDOW / 60_000;
                let why = format!("{} questions of this agent in {minutes} minutes ended unapproved", asked.len());
                let retry_after_seconds = first.saturating_add(WINDOW).saturating_sub(now).div_ceil(1_000);
                Err(AskRefused::TooMany { why: SafeText::clean(&why, 100), retry_after_seconds })
            }
            _ => Ok(()),
        }
    }

    /// The question ended by a refusal.
    pub(super) fn note_refused(&mut self, preview: &Preview, now: u64) {
        self.note_unanswered(preview, now);
        if preview.framed.proposal().golem_id == GolemId::operator() {
            return;
        }
        if self.refused.len() >= MAX_KINDS
            && let Some(first) = self.refused.iter().min_by_key(|(_, one)| one.until).map(|(kind, _)| kind.clone())
        {
            self.refused.remove(&first);
        }
        let entry = self.refused.entry(ActionKind::of(preview)).or_insert(Refused { times: 0, until: 0 });
        let pause = PAUSES.get(entry.times).or(PAUSES.last()).copied().unwrap_or(u64::MAX);
        entry.times = entry.times.saturating_add(1);
        entry.until = now.saturating_add(pause);
    }

    /// The question ended without an approval.
    pub(super) fn note_unanswered(&mut self, preview: &Preview, now: u64) {
        let golem_id = &preview.framed.proposal().golem_id;
        if *golem_id != GolemId::operator() {
            let asked = self.unanswered.entry(golem_id.clone()).or_default();
            asked.push_back(now);
            if asked.len() > MAX_UNANSWERED {
                asked.pop_front();
            }
        }
    }

    /// The operator approved an action of this kind: an earlier refusal no longer counts.
    pub(super) fn note_approved(&mut self, preview: &Preview) {
        self.refused.remove(&ActionKind::of(preview));
    }
}
