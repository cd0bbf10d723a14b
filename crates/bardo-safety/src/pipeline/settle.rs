//! What became of what was sent: the receipt, the account's balances before and after as the chain
//! tells them, and the ledger's last word.

use std::collections::BTreeMap;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::sol_types::SolEvent as _;
use tokio::time::Instant;
use tracing::{Instrument as _, debug_span, instrument};

use super::assess::Assessment;
use super::commit::{Held, LegReport};
use super::sign::Stored;
use super::{AtWork, Pipeline, Prepared};
use crate::audit::Kind;
use crate::framed::Framed;
use crate::ground::Ground;
use crate::proposal::{Proposal, Purpose};
use crate::rulebook::End;
use crate::simulate::Move;
use crate::value::Valued;
use bardo_abi::erc20::Erc20;
use bardo_base::fabric::{EventKind, ToolVerified, TxState};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::id::PermitId;
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::sender::{Sender, Standing, TxState as Stage};
use golem_chain::token::{Token, TokenId};

/// How often what is not settled is looked at in the background.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(15);

/// Where the word on what became of transactions comes from.
const GROUND_TRUTH: &str = "transaction_receipt + balance_diff";

/// What the chain says became of the account's money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    /// Every balance that the plan's own transactions moved, gas apart.
    pub moves: Vec<Move>,
    /// What gas cost in all, in wei.
    pub gas_cost: U256,
    /// What was not as declared; empty where everything was.
    pub mismatches: Vec<SafeText>,
}

impl Truth {
    /// Whether everything was as declared.
    pub fn matched(&self) -> bool {
        self.mismatches.is_empty()
    }

    /// What counts as spent: what went out at the prices it was reserved at, what can still be taken,
    /// and gas. `None` where that cannot be told; then all that was reserved counts.
    ///
    /// Once what the plan is for has happened, what was declared to go out has gone, as it was reserved. Balances do not
    /// lessen that: what others bring to the account in the same blocks would be taken for money that was not spent.
    pub(super) fn spent(&self, framed: &Framed, legs: &[LegReport], assessment: &Assessment, gas: Usd) -> Option<Usd> {
        let values = assessment.facts.values.as_ref().ok()?;
        let mut spent = values.takeable.iter().try_fold(gas, |sum, one| sum.checked_add(one.usd)).ok()?;
        let declared: &[Valued] = if main_is_done(legs) { &values.outflows } else { &[] };
        // A fair exit counts as what it may lose, as it was reserved.
        let most = if assessment.facts.reduce_only() { Some(values.exit_loss().ok()?) } else { None };
        let mut given = Usd::ZERO;
        for one in declared {
            let usd = match paid(framed, legs, one.token.id) {
                Some(amount) if amount < one.amount => {
                    let amount = TokenAmount::new(amount, one.token.decimals).ok()?;
                    let price = assessment.look.spreads.get(one.token.id).ok()?.all.highest;
                    Usd::value_of(amount, price, Rounding::Up).ok()?.min(one.usd)
                }
                _ => one.usd,
            };
            given = given.checked_add(usd).ok()?;
        }
        spent = spent.checked_add(most.map_or(given, |most| given.min(most))).ok()?;
        let of_them = |id: TokenId| declared.iter().any(|one| one.token.id == id);
        for moved in self.moves.iter().filter(|moved| moved.after < moved.before && !of_them(moved.token)) {
            let token = assessment.facts.tokens.get(&moved.token)?;
            let lost = TokenAmount::new(moved.before.saturating_sub(moved.after), token.decimals).ok()?;
            let price = assessment.look.spreads.get(moved.token).ok()?.all.highest;
            spent = spent.checked_add(Usd::value_of(lost, price, Rounding::Up).ok()?).ok()?;
        }
        Some(spent)
    }
}

/// Whether what a plan is for is in a block and succeeded.
pub(super) fn main_is_done(legs: &[LegReport]) -> bool {
    legs.iter().any(|leg| leg.purpose == Purpose::Main && leg.state == TxState::Confirmed)
}

/// How much of a token a trade of exact output has taken from the account, by the token's own events in the plan's own
/// transactions. `None` for all else, and where there are no such events: then it took what was declared.
fn paid(framed: &Framed, legs: &[LegReport], token: TokenId) -> Option<U256> {
    let trade = framed.proposal().trade.as_ref().filter(|trade| trade.exact_output && trade.token_in.id == token)?;
    let TokenId::Erc20(contract) = trade.token_in.id else { return None };
    let logs = legs.iter().flat_map(|leg| &leg.logs).filter(|log| log.address == contract);
    let transfers: Vec<_> = logs.filter_map(|log| Erc20::Transfer::decode_log(log).ok()).collect();
    let sum = |is: &dyn Fn(&Erc20::Transfer) -> bool| {
        let those = transfers.iter().filter(|transfer| is(&transfer.data));
        those.fold(U256::ZERO, |sum, transfer| sum.saturating_add(transfer.data.value))
    };
    let (out, back) = (sum(&|one| one.from == framed.account()), sum(&|one| one.to == framed.account()));
    (!out.is_zero()).then(|| out.saturating_sub(back))
}

impl Pipeline {
    /// Sends stored bytes and waits for their end, for as long as the pipeline's patience lasts; what no block takes
    /// meanwhile is outbid. With what was done beside.
    pub(super) async fn send_and_follow(
        &self,
        prepared: &Prepared,
        assessment: &Assessment,
        leg: usize,
        (sender, stored): (&Sender, Stored),
    ) -> (LegReport, Vec<String>) {
        let framed = &prepared.preview.framed;
        let Stored { kept, signed, route } = stored;
        let hash = kept.hash();
        let report = LegReport {
            purpose: framed.legs().get(leg).map_or(Purpose::Main, |leg| leg.purpose),
            hash,
            route,
            nonce: signed.nonce(),
            state: TxState::Unclear,
            block: None,
            gas_used: None,
            gas_cost: None,
            logs: Vec::new(),
        };
        let main = report.purpose != Purpose::Approve;
        if main {
            self.step(framed, "Broadcasting");
        }
        failpoint::reach(Failpoint::Sending);
        let chain_id = framed.proposal().chain_id;
        let sending = debug_span!("broadcast", chain_id, tx_hash = %hash);
        let state = match sender.send(kept).instrument(sending).await {
            Ok(sent) if sent.state == Stage::Dropped => TxState::Dropped,
            Ok(_) => TxState::Sent,
            // It may have left: only the chain can tell.
            Err(_) => TxState::Unclear,
        };
        failpoint::reach(Failpoint::Sent);
        self.say_leg(framed, leg, hash, state, None);
        if state == TxState::Dropped {
            return (LegReport { state, ..report }, Vec::new());
        }
        if main {
            self.step(framed, "Confirming receipt");
        }
        let mut remarks = Vec::new();
        let (mut hash, mut may_outbid) = (hash, true);
        let deadline = Instant::now() + self.inner.patience;
        let waiting = debug_span!("receipt", chain_id, tx_hash = %hash);
        let followed = async {
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                let patience = if may_outbid { left.min(sender.rules().outbid_after) } else { left };
                let standing = sender.wait_while(hash, patience, || self.may_send_again(Leave::of(assessment))).await;
                let report = LegReport { hash, ..report.clone() };
                let over = Instant::now() >= deadline;
                match standing {
                    Ok(standing) if standing.settled || over => break with_standing(report, &standing),
                    // In a block that is not deep enough: it only takes time.
                    Ok(standing) if standing.mined.is_some() => {}
                    Ok(_) if may_outbid => match self.outbid(prepared, assessment, leg, (sender, hash)).await {
                        Ok((newer, remark)) => {
                            remarks.push(remark);
                            hash = newer;
                        }
                        Err(why) => {
                            tracing::debug!(%hash, why, "a transaction that waits is not outbid");
                            may_outbid = false;
                        }
                    },
                    Ok(_) => {}
                    Err(why) if over => {
                        remarks.push(format!("What became of transaction {hash} is not known: {why}."));
                        break report;
                    }
                    // The chain does not answer: it is asked until patience is over.
                    Err(_) => tokio::time::sleep(sender.rules().poll).await,
                }
            }
        };
        let report = followed.instrument(waiting).await;
        failpoint::reach(Failpoint::Mined);
        self.say_leg(framed, leg, report.hash, report.state, report.block);
        (report, remarks)
    }

    /// Balances before and after, held against the declaration.
    ///
    /// # Errors
    /// Why it cannot be told.
    #[instrument(level = "debug", name = "verify", skip_all)]
    pub(super) async fn truth(&self, prepared: &Prepared, legs: &[LegReport]) -> Result<Truth, String> {
        let framed = &prepared.preview.framed;
        let blocks = || legs.iter().filter_map(|leg| leg.block);
        let (Some(first), Some(last)) = (blocks().min(), blocks().max()) else {
            return Ok(Truth { moves: Vec::new(), gas_cost: U256::ZERO, mismatches: Vec::new() });
        };
        let ground = &prepared.ground;
        let tokens = ground.tokens(framed, BlockId::latest()).await.map_err(|doubt| doubt.to_string())?;
        let at = |block: u64| ground.balances(framed.account(), &tokens, BlockId::number(block));
        let (before, after) = futures::join!(at(first.saturating_sub(1)), at(last));
        let (before, after) = (before.map_err(|doubt| doubt.to_string())?, after.map_err(|doubt| doubt.to_string())?);
        let gas_cost = cost_of(ground, legs).await?;
        let pays = framed.payer() == framed.account();
        let mut moves = moves(&before, &after, if pays { gas_cost } else { U256::ZERO });
        if pays {
            moves = without_others_native(moves, framed, legs);
        }
        for id in tokens.keys().filter(|id| matches!(id, TokenId::Erc20(_))) {
            let held = before.get(id).map_or(U256::ZERO, |(_, amount)| *amount);
            let known = moves.iter().position(|moved| moved.token == *id);
            let by_balance = known.and_then(|at| moves.get(at)).map_or(held, |moved| moved.after);
            let Some(own) = after_own(framed.account(), *id, held, legs).filter(|own| *own != by_balance) else {
                continue;
            };
            // The balance moved by more than this plan: its own events count where the block's other transfers explain
            // the rest exactly. A token whose events and balances contradict each other is judged by its balances.
            let others = ground.transfers(framed.account(), *id, (first, last)).await;
            if others
                .is_some_and(|all| held.checked_add(all.0).and_then(|sum| sum.checked_sub(all.1)) == Some(by_balance))
            {
                if let Some(at) = known {
                    moves.remove(at);
                }
                moves.extend((own != held).then_some(Move { token: *id, before: held, after: own }));
            }
        }
        let all_done = legs.len() == framed.legs().len() && legs.iter().all(|leg| leg.state == TxState::Confirmed);
        let mismatches = mismatches(framed, &moves, all_done);
        Ok(Truth { moves, gas_cost, mismatches })
    }

    /// Says, and records, what was expected and what is.
    pub(super) async fn say_truth(&self, framed: &Framed, truth: &Truth, legs: &[LegReport]) {
        let verified = ToolVerified {
            expected_outcome: framed.proposal().expected_outcome.clone(),
            actual_outcome: SafeText::clean(&actual_outcome(framed.proposal(), truth, legs), 600),
            ground_truth_source: GROUND_TRUTH.into(),
            matched: truth.matched(),
        };
        let moved = truth.moves.iter().map(describe).collect::<Vec<_>>().join(", ");
        let body = serde_json::json!({
            "matched": verified.matched, "mismatches": truth.mismatches, "moves": moved,
            "gas_cost_wei": truth.gas_cost.to_string(), "expected_outcome": verified.expected_outcome,
            "actual_outcome": verified.actual_outcome, "ground_truth_source": verified.ground_truth_source,
        });
        if let Err(error) = self.inner.trail.record(self.note(framed, Kind::ActionVerified, body)).await {
            tracing::warn!(%error, "what the chain says is not on the audit trail");
        }
        self.say(framed, EventKind::ToolVerified(verified));
    }

    /// Whether what was signed with such leave may be sent again, or outbid, now: not under a stop that has come since,
    /// unless it only takes back, which must arrive whatever stands.
    pub(super) fn may_send_again(&self, leave: Leave) -> bool {
        let stop = self.inner.rules.stop();
        leave.takes_back || stop.is_none() || stop == leave.signed_under
    }

    /// Follows what is not settled in the background, settles what was held once it is, and says how it ended. `leave` is
    /// that of the last of `legs`.
    pub(super) fn follow(
        &self,
        sender: Sender,
        (framed, permit_id, held): (Framed, PermitId, Held),
        legs: &[LegReport],
        leave: Leave,
        at_work: AtWork,
    ) {
        let Some((last, before)) = legs.split_last() else { return };
        let (last, leg, before) = (last.clone(), before.len(), Before::of(before));
        let pipeline = self.clone();
        let (proposal, tx_hash) = (framed.proposal(), last.hash);
        let (call_id, chain_id) = (proposal.call_id, proposal.chain_id);
        // No child of the call's span, which ends when the caller is answered.
        let span = debug_span!(parent: None, "follow", %call_id, %permit_id, chain_id, %tx_hash);
        let work = async move {
            let (_at_work, _attendance) = (at_work, pipeline.inner.clock.attend());
            loop {
                let may_send = || pipeline.may_send_again(leave);
                match sender.wait_while(last.hash, LOOK_AGAIN, may_send).await {
                    Ok(standing) if standing.settled => {
                        // What cannot be written now is settled by the next start.
                        let _written = pipeline.settle_as(permit_id, held, end_of(&standing, held, before)).await;
                        let ended = with_standing(last, &standing);
                        pipeline.say_leg(&framed, leg, ended.hash, ended.state, ended.block);
                        return;
                    }
                    Ok(_) => {}
                    Err(_) => pipeline.inner.clock.pause(LOOK_AGAIN).await,
                }
            }
        };
        tokio::spawn(work.instrument(span));
    }
}

/// What stood when something was signed, as far as it decides whether it may go out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leave {
    /// The stop that was in force.
    signed_under: Option<StopLevel>,
    /// Whether it only takes back what others may take.
    takes_back: bool,
}

impl Leave {
    pub(super) fn of(assessment: &Assessment) -> Self {
        Self { signed_under: assessment.facts.stop, takes_back: assessment.facts.takes_back() }
    }

    /// Of what an ended program has left. Under which stop it was signed is not kept, so any holds it back that it does
    /// not pass.
    pub(super) const fn of_left(takes_back: bool) -> Self {
        Self { signed_under: None, takes_back }
    }
}

/// What of a plan is in blocks before its last transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing.
    Nothing,
    /// Something, and what the plan is for is not among it.
    Prepared,
    /// What the plan is for.
    Main,
}

impl Before {
    fn of(legs: &[LegReport]) -> Self {
        match legs {
            [] => Self::Nothing,
            legs if main_is_done(legs) => Self::Main,
            _ => Self::Prepared,
        }
    }
}

/// How what was held ends, by where its last transaction stands and what was done before it. What succeeded without
/// being watched counts in full.
fn end_of(standing: &Standing, held: Held, before: Before) -> End {
    match (&standing.mined, standing.record.state, before) {
        (Some(mined), ..) if mined.receipt.status() => End::Done { spent: held.spent },
        // A last transaction that only tidies up undoes nothing by failing.
        (Some(_), _, Before::Main) | (None, Stage::Dropped, Before::Main) => End::Done { spent: held.spent },
        (Some(_), ..) | (None, Stage::Dropped, Before::Prepared) => End::Reverted { gas: held.gas },
        (None, Stage::Dropped, Before::Nothing) => End::NotSent,
        (None, ..) => End::Unclear,
    }
}

fn with_standing(report: LegReport, standing: &Standing) -> LegReport {
    let Some(mined) = standing.mined.as_ref().filter(|_| standing.settled) else {
        let gone = standing.settled && standing.record.state == Stage::Dropped;
        let state = if gone { TxState::Dropped } else { TxState::Unclear };
        return LegReport { state, ..report };
    };
    let receipt = &mined.receipt;
    LegReport {
        hash: mined.hash,
        state: if receipt.status() { TxState::Confirmed } else { TxState::Reverted },
        block: receipt.block_number,
        gas_used: Some(receipt.gas_used),
        gas_cost: Some(U256::from(receipt.gas_used).saturating_mul(U256::from(receipt.effective_gas_price))),
        logs: receipt.logs().iter().map(|log| log.inner.clone()).collect(),
        ..report
    }
}

/// The account's balance of a token after the plan's own transactions alone, by the token's events in their receipts:
/// without one that names the account nothing of it moved. `None` for the native token, and past 256 bits.
fn after_own(account: Address, token: TokenId, held: U256, legs: &[LegReport]) -> Option<U256> {
    let TokenId::Erc20(contract) = token else { return None };
    let logs = legs.iter().flat_map(|leg| &leg.logs).filter(|log| log.address == contract);
    let own = logs.filter_map(|log| Erc20::Transfer::decode_log(log).ok());
    let own: Vec<_> = own.collect();
    let sum = |is: &dyn Fn(&Erc20::Transfer) -> bool| {
        own.iter().filter(|one| is(&one.data)).try_fold(U256::ZERO, |sum, one| sum.checked_add(one.data.value))
    };
    let (came, went) = (sum(&|one| one.to == account)?, sum(&|one| one.from == account)?);
    held.checked_add(came)?.checked_sub(went)
}

/// The moves, of the native token no more than the plan's own transactions sent with them: the account pays it out in no
/// other way, so what is missing beyond that left it in other transactions of the same blocks.
fn without_others_native(moves: Vec<Move>, framed: &Framed, legs: &[LegReport]) -> Vec<Move> {
    let done = framed.legs().iter().zip(legs).filter(|(_, report)| report.state == TxState::Confirmed);
    let sent = done.fold(U256::ZERO, |sum, (leg, _)| sum.saturating_add(leg.value));
    let own = |moved: Move| match moved.token {
        TokenId::Native => Move { after: moved.after.max(moved.before.saturating_sub(sent)), ..moved },
        TokenId::Erc20(_) => moved,
    };
    moves.into_iter().map(own).filter(|moved| moved.before != moved.after).collect()
}

type Balances = BTreeMap<TokenId, (Token, U256)>;

fn moves(before: &Balances, after: &Balances, gas: U256) -> Vec<Move> {
    let none = U256::ZERO;
    let of = |balances: &Balances, id: &TokenId| balances.get(id).map_or(none, |(_, amount)| *amount);
    let moved = before.keys().map(|id| {
        let paid = if *id == TokenId::Native { gas } else { none };
        Move { token: *id, before: of(before, id), after: of(after, id).saturating_add(paid) }
    });
    moved.filter(|moved| moved.before != moved.after).collect()
}

/// What is not as declared. Where not everything was done, only what went out is held to account.
fn mismatches(framed: &Framed, moves: &[Move], all_done: bool) -> Vec<SafeText> {
    let proposal = framed.proposal();
    let mut found = Vec::new();
    let mut note = |text: String| found.push(SafeText::clean(&text, 300));
    let out_of = |id: TokenId| {
        let flows = proposal.outflows.iter().filter(|flow| flow.token.id == id);
        flows.fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.amount))
    };
    for moved in moves.iter().filter(|moved| moved.after < moved.before) {
        let (lost, most) = (moved.before.saturating_sub(moved.after), out_of(moved.token));
        if lost > most {
            note(format!("{} went out, at most {most} was declared ({})", lost, describe(moved)));
        }
    }
    for inflow in proposal.inflows.iter().filter(|inflow| all_done && inflow.recipient == proposal.account) {
        let moved = moves.iter().find(|moved| moved.token == inflow.token.id);
        let came = moved
            .map_or(U256::ZERO, |moved| moved.after.saturating_add(out_of(moved.token)).saturating_sub(moved.before));
        if came < inflow.at_least {
            note(format!("{came} of {} came in, at least {} was declared", inflow.token.symbol, inflow.at_least));
        }
    }
    found
}

/// What came of a plan, in a sentence: what the account received, by which transaction, and what was not as declared.
fn actual_outcome(proposal: &Proposal, truth: &Truth, legs: &[LegReport]) -> String {
    let received = proposal.inflows.iter().filter(|inflow| inflow.recipient == proposal.account).map(|inflow| {
        let moved = truth.moves.iter().find(|moved| moved.token == inflow.token.id);
        let came = moved.map_or(U256::ZERO, |moved| moved.after.saturating_sub(moved.before));
        let amount =
            TokenAmount::new(came, inflow.token.decimals).map_or_else(|_| came.to_string(), |came| came.to_string());
        format!("{amount} {}", inflow.token.symbol)
    });
    let received = received.collect::<Vec<_>>().join(" and ");
    let done = if received.is_empty() { "Done".to_owned() } else { format!("Received {received}") };
    let main = legs.iter().rfind(|leg| leg.purpose == Purpose::Main).or(legs.last());
    let hash = main.map_or_else(String::new, |leg| format!(", tx {}", leg.hash));
    let otherwise = truth.mismatches.iter().map(SafeText::as_str).collect::<Vec<_>>().join("; ");
    let otherwise = if otherwise.is_empty() { otherwise } else { format!("; not as declared: {otherwise}") };
    format!("{done}{hash}{otherwise}")
}

fn describe(moved: &Move) -> String {
    let name = match moved.token {
        TokenId::Native => "coin".to_owned(),
        TokenId::Erc20(address) => address.to_string(),
    };
    format!("{name} {} → {}", moved.before, moved.after)
}

/// What transactions have cost in all, in wei: their gas, and on a rollup what is paid beside it.
///
/// # Errors
/// Why it cannot be told.
pub(super) async fn cost_of(ground: &Ground, legs: &[LegReport]) -> Result<U256, String> {
    let mut cost = legs.iter().filter_map(|leg| leg.gas_cost).fold(U256::ZERO, U256::saturating_add);
    for leg in legs.iter().filter(|leg| leg.block.is_some()) {
        let paid = ground.data_fee_paid(leg.hash).await.map_err(|doubt| doubt.to_string())?;
        cost = cost.saturating_add(paid);
    }
    Ok(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::recover::tests::standing;
    use crate::rulebook::Reservation;

    #[test]
    fn what_is_followed_counts_by_where_its_last_transaction_stands_and_what_was_done_before_it() {
        let held = Held { reservation: Reservation(1), spent: "9".parse().unwrap(), gas: "1".parse().unwrap() };
        let (all, gas) = (End::Done { spent: held.spent }, End::Reverted { gas: held.gas });
        let (included, reverted, dropped) = (Stage::Included, Stage::Reverted, Stage::Dropped);
        for (state, mined, before, expected) in [
            (included, Some(true), Before::Nothing, all),
            (included, Some(true), Before::Prepared, all),
            (included, Some(true), Before::Main, all),
            (reverted, Some(false), Before::Nothing, gas),
            (reverted, Some(false), Before::Prepared, gas),
            (reverted, Some(false), Before::Main, all),
            (dropped, None, Before::Nothing, End::NotSent),
            (dropped, None, Before::Prepared, gas),
            (dropped, None, Before::Main, all),
            (Stage::Sent, None, Before::Main, End::Unclear),
        ] {
            let standing = standing(state, mined, true);
            assert_eq!(end_of(&standing, held, before), expected, "{state} {mined:?} after {before:?}");
        }
    }
}
