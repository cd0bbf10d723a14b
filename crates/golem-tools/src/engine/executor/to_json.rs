//! Previews and transactions as JSON for envelopes. They hold all that an operator or a model needs to judge an action;
//! amounts are in whole tokens with dollar values.

use alloy::primitives::U256;
use serde_json::{Map, Value, json};

use bardo_base::units::TokenAmount;
use bardo_safety::guardian::GuardianOpinion;
use bardo_safety::pipeline::{CommitOutcome, CommitState, Preview};
use bardo_safety::safe_proposals::SafeProposalRecord;
use bardo_safety::value::ValuedAmount;
use bardo_safety::verdict::Verdict;
use golem_chain::token::{TokenId, TokenInfo};

/// Serializes a permit with its plan, limits, simulation and checks.
pub(super) fn preview(preview: &Preview) -> Value {
    let (permit, proposal) = (&preview.permit, preview.payload.proposal());
    let legs = preview.payload.legs().iter().map(|leg| {
        json!({
            "purpose": leg.purpose.as_str(), "from": leg.from, "to": leg.to, "value_wei": leg.value.to_string(),
            "data_bytes": leg.data.len(), "gas_limit": leg.gas_limit, "signatures_inside": leg.slots.len(),
        })
    });
    let moves = preview.simulated.moves.iter().map(|moved| {
        json!({"token": token(moved.token), "before_raw": moved.before.to_string(), "after_raw": moved.after.to_string()})
    });
    json!({
        "permit_id": permit.permit_id,
        "simulation_hash": permit.simulation_hash,
        "expected_outcome": permit.expected_outcome,
        "expires_at": permit.expires_at,
        "chain_id": proposal.chain_id,
        "account": proposal.account,
        "intent": proposal.intent.as_str(),
        "approval": preview.needs.word(),
        "reasons": preview.needs.reasons(),
        "bounds": {
            "pays_at_most": preview.values.outflows.iter().map(valued).collect::<Vec<_>>(),
            "receives_at_least": received(preview),
            "still_takeable": preview.values.takeable.iter().map(valued).collect::<Vec<_>>(),
            "gas_at_most_wei": permit.bounds.worst_gas.to_string(),
        },
        "spent_usd": preview.values.spent.to_string(),
        "gas_usd": preview.values.gas.to_string(),
        "legs": legs.collect::<Vec<_>>(),
        "simulated": {
            "block_number": preview.simulated.pinned.number,
            "gas_used": preview.simulated.gas_used,
            "action_class": preview.simulated.class,
            "moves": moves.collect::<Vec<_>>(),
        },
        "checks": verdicts(&preview.verdicts),
        "guardian": preview.opinion.as_ref().map(opinion),
    })
}

/// Serializes the safety-guardian's opinion of an action above the hot lane.
pub(super) fn opinion(opinion: &GuardianOpinion) -> Value {
    json!({"agrees": opinion.agrees, "why": opinion.why})
}

/// Returns the contract address, or `native` for the native token.
fn token(id: TokenId) -> String {
    match id {
        TokenId::Native => "native".to_owned(),
        TokenId::Erc20(address) => address.to_string(),
    }
}

fn valued(one: &ValuedAmount) -> Value {
    json!({ "token": one.token.symbol, "amount": amount(one.amount, &one.token), "usd": one.usd.to_string() })
}

/// Amount in whole tokens; raw units for impossible decimals.
fn amount(raw: U256, token: &TokenInfo) -> String {
    TokenAmount::new(raw, token.decimals).map_or_else(|_| raw.to_string(), |amount| amount.to_string())
}

/// Least amounts that the account receives. One that counts with no value, such as the shares of a vault, has no dollars; if it is not
/// listed, it is named by its address, since a vault calls its shares what it likes.
fn received(preview: &Preview) -> Vec<Value> {
    let (proposal, counted) = (preview.payload.proposal(), &preview.values.inflows);
    let own = proposal.inflows.iter().filter(|inflow| inflow.recipient == proposal.account);
    let others = own.filter(|inflow| counted.iter().all(|one| one.token.id != inflow.token.id));
    let others = others.map(|inflow| {
        let name = if inflow.token.listed { inflow.token.symbol.to_string() } else { token(inflow.token.id) };
        json!({ "token": name, "amount": amount(inflow.at_least, &inflow.token), "usd": null })
    });
    counted.iter().map(valued).chain(others).collect()
}

fn verdicts(all: &[Verdict]) -> Vec<Value> {
    all.iter().map(|verdict| json!(verdict.event())).collect()
}

/// Balances before and after, in whole tokens, of the plan's tokens. The source is the chain where known, otherwise the
/// last simulation.
fn moves(committed: &CommitOutcome) -> impl Iterator<Item = Value> {
    let proposal = committed.payload.proposal();
    let moved = committed.truth.as_ref().map_or(&committed.simulated.moves, |truth| &truth.moves);
    moved.iter().filter_map(|moved| {
        let out = proposal.outflows.iter().map(|flow| &flow.token);
        let mut named = out.chain(proposal.inflows.iter().map(|flow| &flow.token));
        let known = named.find(|known| known.id == moved.token)?;
        let whole = |raw| TokenAmount::new(raw, known.decimals).map(|amount| amount.to_string()).ok();
        Some(json!({
            "token": known.symbol, "address": token(moved.token),
            "before": whole(moved.before)?, "after": whole(moved.after)?,
        }))
    })
}

/// Serializes a proposal that was signed for the other owners of a Safe.
pub(super) fn safe_proposal(record: &SafeProposalRecord) -> Value {
    json!({
        "id": record.id, "safe": record.proposal.account, "nonce": record.nonce.to_string(), "hashes": record.hashes(),
        "state": record.state.as_str(), "signed_by": record.signatures.keys().collect::<Vec<_>>(),
        "owners_needed": record.threshold.to_string(),
    })
}

/// Serializes the outcome of a plan, to be merged with the tool's own hints.
pub(super) fn committed(committed: &CommitOutcome) -> Map<String, Value> {
    let transactions = committed.legs.iter().map(|leg| {
        json!({
            "purpose": leg.purpose.as_str(), "hash": leg.hash, "nonce": leg.nonce, "state": leg.state,
            "block": leg.block, "gas_used": leg.gas_used,
            "gas_cost_wei": leg.gas_cost.map(|wei| wei.to_string()),
        })
    });
    let state = match &committed.state {
        CommitState::Simulated => "simulated",
        CommitState::Done => "done",
        CommitState::Placed => "placed",
        CommitState::Reverted => "reverted",
        CommitState::Unclear => "unclear",
        CommitState::Stopped { .. } => "stopped",
    };
    let mut told = Map::new();
    told.insert("state".to_owned(), json!(state));
    told.insert("paper".to_owned(), json!(committed.on_paper));
    told.insert("transactions".to_owned(), transactions.collect());
    told.insert("checks".to_owned(), json!(verdicts(&committed.verdicts)));
    told.insert("left_wallet_usd".to_owned(), json!(committed.left_wallet().map(|usd| usd.to_string())));
    told.insert("counted_usd".to_owned(), json!(committed.counted.to_string()));
    told.insert("moves".to_owned(), moves(committed).collect());
    told.insert("remarks".to_owned(), json!(committed.remarks));
    if let Some(truth) = &committed.truth {
        told.insert("as_declared".to_owned(), json!(truth.matched()));
        told.insert("mismatches".to_owned(), json!(truth.mismatches));
    }
    told
}
