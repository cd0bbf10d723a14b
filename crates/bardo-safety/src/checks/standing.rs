//! What the operator's checks look at beside the frame and the facts, and what an action wants of
//! the limits.

use std::collections::BTreeMap;

use crate::facts::Facts;
use crate::framed::Framed;
use crate::ledger::{Caps, Micros, Request, TokenKey, Usage};
use crate::policy::{MaxUsd, Policy};
use crate::value::Doubt;
use bardo_base::id::GolemId;
use bardo_base::units::{Rounding, Usd};
use golem_chain::network::Network;
use golem_chain::token::TokenId;

/// The policy, what has been used of it, what is wanted of it, and the network. Made once for all checks.
#[derive(Debug, Clone)]
pub struct Standing<'a> {
    /// What holds.
    pub policy: &'a Policy,
    /// What has been used; an error where the ledger does not tell.
    pub usage: Result<&'a Usage, &'a Doubt>,
    /// The chain the frame is for; `None` where it is not one that is configured.
    pub network: Option<&'a Network>,
    /// The policy's limits in this phase.
    pub caps: Caps,
    /// What the frame wants of them.
    pub wish: Result<Request, Doubt>,
}

impl<'a> Standing<'a> {
    /// How a frame stands to the policy.
    pub fn new(
        policy: &'a Policy,
        usage: Result<&'a Usage, &'a Doubt>,
        network: Option<&'a Network>,
        framed: &Framed,
        facts: &Facts,
    ) -> Self {
        let caps = policy.caps(facts.phase, facts.reduce_only());
        Self { policy, usage, network, caps, wish: request(framed, facts, policy.rules().max_unfed_usd) }
    }

    /// The same with what is on its way over bridges among what is held.
    #[must_use]
    pub fn with_away(mut self, away: Micros) -> Self {
        self.wish = self.wish.map(|wish| wish.with_away(away));
        self
    }
}

/// What the frame wants of the limits.
///
/// # Errors
/// [`Doubt`] where a figure cannot be told.
pub fn request(framed: &Framed, facts: &Facts, most_unfed: MaxUsd) -> Result<Request, Doubt> {
    let values = facts.values.as_ref().map_err(Clone::clone)?;
    let chain_id = framed.proposal().chain_id;
    let takes_back = facts.takes_back();
    let exempt = takes_back || facts.reduce_only();
    let mut tokens: BTreeMap<TokenKey, Micros> = BTreeMap::new();
    let exit = facts.reduce_only();
    let loss = if exit { Some(values.exit_loss()?) } else { None };
    // Of an exit, what it may lose counts for the token that it sells.
    let given = values.outflows.iter().map(|one| (one.token.id, loss.map_or(one.usd, |loss| loss.min(one.usd))));
    let parts = given.chain(values.takeable.iter().map(|one| (one.token.id, one.usd)));
    for (token, usd) in parts.chain([(TokenId::Native, values.gas)]) {
        let part = up(usd)?;
        if part == Micros::ZERO {
            continue;
        }
        let sum = tokens.entry((chain_id, token)).or_default();
        *sum = sum.plus(part).map_err(Doubt::because)?;
    }
    // What cannot be told of the portfolio holds up nothing that only leaves it.
    let equity = match &facts.portfolio {
        Ok(portfolio) => {
            let by_pools = most_unfed.0.map_or(portfolio.by_pools, |most| most.min(portfolio.by_pools));
            let equity = portfolio.equity.checked_add(by_pools).map_err(Doubt::because)?;
            Micros::of(equity, Rounding::Down).map_err(Doubt::because)?
        }
        Err(_) if exempt => Micros::ZERO,
        Err(doubt) => return Err(doubt.clone()),
    };
    let proposal = framed.proposal();
    let mut traded = values.outflows.iter().filter(|_| proposal.is_trade());
    let traded = traded.try_fold(Usd::ZERO, |sum, one| sum.checked_add(one.usd)).map_err(Doubt::because)?;
    let sold = if exit { moved(framed, facts)? } else { BTreeMap::new() };
    Ok(Request {
        spend: up(facts.counted()?)?,
        tokens,
        trade: !takes_back,
        takes_back,
        by_operator: proposal.golem_id == GolemId::operator(),
        exit,
        sold,
        asked: facts.asked,
        traded: up(traded)?,
        exempt,
        equity,
    })
}

/// What the frame moves out of the account, by token; without gas, and without what others may take.
///
/// # Errors
/// [`Doubt`] where a figure cannot be told.
pub fn moved(framed: &Framed, facts: &Facts) -> Result<BTreeMap<TokenKey, Micros>, Doubt> {
    let values = facts.values.as_ref().map_err(Clone::clone)?;
    let mut moved: BTreeMap<TokenKey, Micros> = BTreeMap::new();
    for one in &values.outflows {
        let sum = moved.entry((framed.proposal().chain_id, one.token.id)).or_default();
        *sum = sum.plus(up(one.usd)?).map_err(Doubt::because)?;
    }
    Ok(moved)
}

pub(super) fn up(usd: Usd) -> Result<Micros, Doubt> {
    Micros::of(usd, Rounding::Up).map_err(Doubt::because)
}
