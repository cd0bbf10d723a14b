//! Policy context of the operator's checks: policy, usage, network, and the action's demands on the limits.

use std::collections::BTreeMap;

use crate::check_inputs::CheckInputs;
use crate::ledger::{LedgerCaps, LedgerUsage, MicroUsd, ReservationRequest, TokenKey};
use crate::policy::{MaxUsd, Policy};
use crate::proposal::ProposalIntent;
use crate::signing_payload::SigningPayload;
use crate::value::UnknownValue;
use bardo_base::id::GolemId;
use bardo_base::units::{Rounding, Usd};
use golem_chain::network::Network;
use golem_chain::token::TokenId;

/// Policy, its usage, and an action's demands on it. Built once for all checks.
#[derive(Debug, Clone)]
pub struct PolicyContext<'a> {
    /// Policy in force.
    pub policy: &'a Policy,
    /// Usage of the limits by the ledger; an error if the ledger cannot be read.
    pub usage: Result<&'a LedgerUsage, &'a UnknownValue>,
    /// Network of the payload; `None` if its chain is not configured.
    pub network: Option<&'a Network>,
    /// Limits of the policy in the current phase.
    pub caps: LedgerCaps,
    /// Demands of the action on the limits; an error if a value is not known.
    pub request: Result<ReservationRequest, UnknownValue>,
}

impl<'a> PolicyContext<'a> {
    /// Builds the context for a signing payload and its check inputs.
    pub fn new(
        policy: &'a Policy,
        usage: Result<&'a LedgerUsage, &'a UnknownValue>,
        network: Option<&'a Network>,
        payload: &SigningPayload,
        inputs: &CheckInputs,
    ) -> Self {
        let caps = policy.caps(inputs.phase, inputs.reduce_only());
        Self { policy, usage, network, caps, request: request(payload, inputs, policy.rules().max_unfed_usd) }
    }

    /// Adds the value of open bridge orders, whose money is between two chains, to the equity.
    #[must_use]
    pub fn with_in_transit(mut self, in_transit: MicroUsd) -> Self {
        self.request = self.request.map(|request| request.with_in_transit(in_transit));
        self
    }
}

/// Returns the demands of a signing payload on the limits.
///
/// # Errors
/// [`UnknownValue`] if a figure is not known.
pub fn request(
    payload: &SigningPayload,
    inputs: &CheckInputs,
    most_unfed: MaxUsd,
) -> Result<ReservationRequest, UnknownValue> {
    let values = inputs.values.as_ref().map_err(Clone::clone)?;
    let chain_id = payload.proposal().chain_id;
    let only_revokes = inputs.only_revokes();
    let exempt = only_revokes || inputs.reduce_only();
    let mut tokens: BTreeMap<TokenKey, MicroUsd> = BTreeMap::new();
    let exit = inputs.reduce_only();
    let loss = if exit { Some(values.exit_loss()?) } else { None };
    // For an exit, its possible loss counts against the cap of the sold token.
    let given = values.outflows.iter().map(|one| (one.token.id, loss.map_or(one.usd, |loss| loss.min(one.usd))));
    let parts = given.chain(values.takeable.iter().map(|one| (one.token.id, one.usd)));
    for (token, usd) in parts.chain([(TokenId::Native, values.gas)]) {
        let part = up(usd)?;
        if part == MicroUsd::ZERO {
            continue;
        }
        let sum = tokens.entry((chain_id, token)).or_default();
        *sum = sum.plus(part).map_err(UnknownValue::because)?;
    }
    // An unknown portfolio must not block an exit or a revocation.
    let equity = match &inputs.portfolio {
        Ok(portfolio) => {
            let by_pools = most_unfed.0.map_or(portfolio.by_pools, |most| most.min(portfolio.by_pools));
            let equity = portfolio.equity.checked_add(by_pools).map_err(UnknownValue::because)?;
            MicroUsd::of(equity, Rounding::Down).map_err(UnknownValue::because)?
        }
        Err(_) if exempt => MicroUsd::ZERO,
        Err(doubt) => return Err(doubt.clone()),
    };
    let proposal = payload.proposal();
    let mut traded = values.outflows.iter().filter(|_| proposal.is_trade());
    let traded = traded.try_fold(Usd::ZERO, |sum, one| sum.checked_add(one.usd)).map_err(UnknownValue::because)?;
    let sold = if exit { moved(payload, inputs)? } else { BTreeMap::new() };
    Ok(ReservationRequest {
        spend: up(inputs.counted()?)?,
        gas: up(values.gas)?,
        tokens,
        // A repetition of signed bytes was counted as a trade when they were signed.
        trade: !only_revokes && proposal.intent != ProposalIntent::SpeedUp,
        only_revokes,
        by_operator: proposal.golem_id == GolemId::operator(),
        exit,
        sold,
        asked: inputs.asked,
        traded: up(traded)?,
        exempt,
        equity,
    })
}

/// Returns the dollars that the declared outflows move out of the account, by token. Gas and allowances are not
/// included.
///
/// # Errors
/// [`UnknownValue`] if a figure is not known.
pub fn moved(payload: &SigningPayload, inputs: &CheckInputs) -> Result<BTreeMap<TokenKey, MicroUsd>, UnknownValue> {
    let values = inputs.values.as_ref().map_err(Clone::clone)?;
    let mut moved: BTreeMap<TokenKey, MicroUsd> = BTreeMap::new();
    for one in &values.outflows {
        let sum = moved.entry((payload.proposal().chain_id, one.token.id)).or_default();
        *sum = sum.plus(up(one.usd)?).map_err(UnknownValue::because)?;
    }
    Ok(moved)
}

pub(super) fn up(usd: Usd) -> Result<MicroUsd, UnknownValue> {
    MicroUsd::of(usd, Rounding::Up).map_err(UnknownValue::because)
}
