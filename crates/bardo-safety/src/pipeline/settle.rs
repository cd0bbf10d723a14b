//! Settlement: receipts, balance changes by the chain, and the final ledger entry.

use std::collections::BTreeMap;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::providers::Provider as _;
use alloy::sol_types::SolEvent as _;
use tokio::time::Instant;
use tracing::{Instrument as _, debug_span, instrument};

use super::assess::Assessment;
use super::commit::{LegReport, ReservedSpend};
use super::sign::StoredTx;
use super::{InProgressGuard, Pipeline, PreparedAction};
use crate::account::AccountKind;
use crate::across_calls;
use crate::audit::AuditKind;
use crate::chain_snapshot::SnapshotReader;
use crate::custody::safe::{self, SafeTx};
use crate::fee_calls;
use crate::lending_calls;
use crate::policy_engine::ActionEnd;
use crate::position_calls::{self, PositionManagers};
use crate::proposal::{LegPurpose, Proposal};
use crate::registry_calls;
use crate::signing_payload::SigningPayload;
use crate::simulate::TokenMove;
use crate::value::{UnknownValue, ValuedAmount};
use crate::vault_calls;
use crate::vault_management;
use bardo_abi::erc20::Erc20;
use bardo_base::fabric::{EventKind, ToolVerified, TxState};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::id::PermitId;
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::sender::{SendState as Stage, TxSender, TxStatus};
use golem_chain::token::{TokenId, TokenInfo};

/// Poll interval for unresolved transactions in the background.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(15);

/// Source of the actual outcome, as events and the audit log name it.
const GROUND_TRUTH: &str = "transaction_receipt + balance_diff";

/// Effect of a plan on the account, as the chain shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnchainOutcome {
    /// Balances that the plan's own transactions moved, without gas.
    pub moves: Vec<TokenMove>,
    /// Total gas cost in wei, including a rollup's data fee.
    pub gas_cost: U256,
    /// Deviations from the declaration; empty if there are none.
    pub mismatches: Vec<SafeText>,
}

impl OnchainOutcome {
    /// Returns true if the outcome is as declared.
    pub fn matched(&self) -> bool {
        self.mismatches.is_empty()
    }

    /// Returns the dollars that count as spent: declared outflows at the prices of the reservation, amounts that others
    /// can still take, other losses, and gas. `None` if a value is missing; then the full reservation counts.
    ///
    /// Once the main transaction succeeded, the declared outflow counts in full, whatever the balances show. Other
    /// deposits in the same blocks would otherwise look like money that was not spent.
    pub(super) fn spent(
        &self,
        payload: &SigningPayload,
        legs: &[LegReport],
        assessment: &Assessment,
        gas: Usd,
    ) -> Option<Usd> {
        let values = assessment.inputs.values.as_ref().ok()?;
        let mut spent = values.takeable.iter().try_fold(gas, |sum, one| sum.checked_add(one.usd)).ok()?;
        let declared: &[ValuedAmount] = if main_is_done(legs) { &values.outflows } else { &[] };
        // A fair exit counts as its possible loss, as it was reserved.
        let most = if assessment.inputs.reduce_only() { Some(values.exit_loss().ok()?) } else { None };
        let mut given = Usd::ZERO;
        for one in declared {
            let usd = match paid(payload, legs, one.token.id) {
                Some(amount) if amount < one.amount => {
                    let amount = TokenAmount::new(amount, one.token.decimals).ok()?;
                    let price = assessment.view.spreads.get(one.token.id).ok()?.all.highest;
                    Usd::value_of(amount, price, Rounding::Up).ok()?.min(one.usd)
                }
                _ => one.usd,
            };
            given = given.checked_add(usd).ok()?;
        }
        spent = spent.checked_add(most.map_or(given, |most| given.min(most))).ok()?;
        // An action that moves no value, such as a repayment, has no valued outflows: what it declares is not lost.
        let neutral = |id: TokenId| {
            values.outflows.is_empty() && payload.proposal().outflows.iter().any(|flow| flow.token.id == id)
        };
        let of_them = |id: TokenId| declared.iter().any(|one| one.token.id == id) || neutral(id);
        for moved in self.moves.iter().filter(|moved| moved.after < moved.before && !of_them(moved.token)) {
            let token = assessment.inputs.tokens.get(&moved.token)?;
            let lost = TokenAmount::new(moved.before.saturating_sub(moved.after), token.decimals).ok()?;
            let price = assessment.view.spreads.get(moved.token).ok()?.all.highest;
            spent = spent.checked_add(Usd::value_of(lost, price, Rounding::Up).ok()?).ok()?;
        }
        Some(spent)
    }
}

/// Returns true if the plan's main transaction is included and succeeded.
pub(super) fn main_is_done(legs: &[LegReport]) -> bool {
    legs.iter().any(|leg| leg.purpose == LegPurpose::Main && leg.state == TxState::Confirmed)
}

/// Returns true if the plan did what it is for: its main transaction, or all of a plan that has none.
fn is_done(legs: &[LegReport]) -> bool {
    let has_main = legs.iter().any(|leg| leg.purpose == LegPurpose::Main);
    let only_cleans_up = legs.iter().all(|leg| leg.purpose == LegPurpose::CleanUp);
    match has_main || !only_cleans_up {
        true => main_is_done(legs),
        false => legs.iter().all(|leg| leg.state == TxState::Confirmed),
    }
}

/// Returns the amount that an exact-output trade took from the account, by the token's `Transfer` events in the plan's
/// own receipts. `None` for any other trade or token, and without such events: then the declared amount counts.
fn paid(payload: &SigningPayload, legs: &[LegReport], token: TokenId) -> Option<U256> {
    let trade = payload.proposal().trade.as_ref().filter(|trade| trade.exact_output && trade.token_in.id == token)?;
    let TokenId::Erc20(contract) = trade.token_in.id else { return None };
    let logs = legs.iter().flat_map(|leg| &leg.logs).filter(|log| log.address == contract);
    let transfers: Vec<_> = logs.filter_map(|log| Erc20::Transfer::decode_log(log).ok()).collect();
    let sum = |is: &dyn Fn(&Erc20::Transfer) -> bool| {
        let those = transfers.iter().filter(|transfer| is(&transfer.data));
        those.fold(U256::ZERO, |sum, transfer| sum.saturating_add(transfer.data.value))
    };
    let (out, back) = (sum(&|one| one.from == payload.account()), sum(&|one| one.to == payload.account()));
    (!out.is_zero()).then(|| out.saturating_sub(back))
}

impl Pipeline {
    /// Sends a stored transaction and follows it until it settles or the pipeline's patience ends, replacing it with
    /// higher fees if no block includes it. Returns the report, and remarks on what was done meanwhile.
    pub(super) async fn send_and_follow(
        &self,
        prepared: &PreparedAction,
        assessment: &Assessment,
        leg: usize,
        (sender, stored): (&TxSender, StoredTx),
    ) -> (LegReport, Vec<String>) {
        let payload = &prepared.preview.payload;
        let StoredTx { send_permit, signed, route } = stored;
        let hash = send_permit.hash();
        let report = LegReport {
            purpose: payload.legs().get(leg).map_or(LegPurpose::Main, |leg| leg.purpose),
            hash,
            route,
            nonce: signed.nonce(),
            state: TxState::Unclear,
            displaced_by: None,
            block: None,
            gas_used: None,
            gas_cost: None,
            logs: Vec::new(),
        };
        let main = report.purpose != LegPurpose::Approve;
        if main {
            self.step(payload, "Broadcasting");
        }
        failpoint::reach(Failpoint::Sending);
        let chain_id = payload.proposal().chain_id;
        let sending = debug_span!("broadcast", chain_id, tx_hash = %hash);
        let state = match sender.send(send_permit).instrument(sending).await {
            Ok(sent) if sent.state == Stage::Dropped => TxState::Dropped,
            Ok(_) => TxState::Sent,
            // It may have been sent; only the chain can tell.
            Err(_) => TxState::Unclear,
        };
        failpoint::reach(Failpoint::Sent);
        self.emit_leg(payload, leg, hash, state, (None, None));
        if state == TxState::Dropped {
            return (LegReport { state, ..report }, Vec::new());
        }
        if main {
            self.step(payload, "Confirming receipt");
        }
        let mut remarks = Vec::new();
        let (mut hash, mut may_outbid) = (hash, true);
        let deadline = Instant::now() + self.inner.patience;
        let waiting = debug_span!("receipt", chain_id, tx_hash = %hash);
        let followed = async {
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                let patience = if may_outbid { left.min(sender.rules().outbid_after) } else { left };
                let status =
                    sender.wait_while(hash, patience, || self.may_send_again(ResendClearance::of(assessment))).await;
                let report = LegReport { hash, ..report.clone() };
                let over = Instant::now() >= deadline;
                match status {
                    Ok(status) if status.settled || over => break with_tx_status(report, &status),
                    // Included, without enough confirmations yet.
                    Ok(status) if status.mined.is_some() => {}
                    // The operator decides about this very transaction: a raise would take the decision away.
                    Ok(_)
                        if self.inner.queue.asks_to_replace(
                            payload.proposal().chain_id,
                            payload.signer(),
                            report.nonce,
                        ) => {}
                    Ok(_) if may_outbid => match self.outbid(prepared, assessment, leg, (sender, hash)).await {
                        Ok((newer, remark)) => {
                            remarks.push(remark);
                            hash = newer;
                        }
                        Err(why) => {
                            tracing::debug!(%hash, %why, "a pending transaction is not replaced");
                            may_outbid = false;
                        }
                    },
                    Ok(_) => {}
                    Err(why) if over => {
                        remarks.push(format!("The outcome of transaction {hash} is unknown: {why}."));
                        break report;
                    }
                    // The chain does not answer; poll until the deadline.
                    Err(_) => tokio::time::sleep(sender.rules().poll).await,
                }
            }
        };
        let report = executed(payload, followed.instrument(waiting).await);
        failpoint::reach(Failpoint::Mined);
        self.emit_leg(payload, leg, report.hash, report.state, (report.block, report.gas_cost));
        (report, remarks)
    }

    /// Compares the account's balances before and after the plan with its declaration.
    ///
    /// # Errors
    /// The reason why balances or costs cannot be read, in words.
    #[instrument(level = "debug", name = "verify", skip_all)]
    pub(super) async fn onchain_outcome(
        &self,
        prepared: &PreparedAction,
        legs: &[LegReport],
    ) -> Result<OnchainOutcome, UnknownValue> {
        let payload = &prepared.preview.payload;
        let blocks = || legs.iter().filter_map(|leg| leg.block);
        let (Some(first), Some(last)) = (blocks().min(), blocks().max()) else {
            return Ok(OnchainOutcome { moves: Vec::new(), gas_cost: U256::ZERO, mismatches: Vec::new() });
        };
        let reader = &prepared.reader;
        let tokens = reader.tokens(payload, BlockId::latest()).await?;
        let at = |block: u64| reader.balances(payload.account(), &tokens, BlockId::number(block));
        let (before, after) = futures::join!(at(first.saturating_sub(1)), at(last));
        let (before, after) = (before?, after?);
        let gas_cost = cost_of(reader, legs).await?;
        let pays = payload.payer() == payload.account();
        let mut moves = moves(&before, &after, if pays { gas_cost } else { U256::ZERO });
        if pays {
            let own = without_foreign_native(moves.clone(), payload, legs);
            if own != moves && has_no_code(reader, payload.account(), last).await {
                moves = own;
            }
        }
        // Any token of the account may have moved in these blocks, by an order of its own for example.
        let all = before.keys().chain(after.keys().filter(|id| !before.contains_key(*id)));
        for id in all.filter(|id| matches!(id, TokenId::Erc20(_))) {
            let held = before.get(id).map_or(U256::ZERO, |(_, amount)| *amount);
            let known = moves.iter().position(|moved| moved.token == *id);
            let by_balance = known.and_then(|at| moves.get(at)).map_or(held, |moved| moved.after);
            let Some(own) = after_own(payload.account(), *id, held, legs).filter(|own| *own != by_balance) else {
                continue;
            };
            // The balance moved by more than this plan. The plan's own events count if other transfers in these blocks
            // explain the rest exactly. If a token's events contradict its balances, the balances count.
            let others = reader.transfers(payload.account(), *id, (first, last)).await;
            if others
                .is_some_and(|all| held.checked_add(all.0).and_then(|sum| sum.checked_sub(all.1)) == Some(by_balance))
            {
                if let Some(at) = known {
                    moves.remove(at);
                }
                moves.extend((own != held).then_some(TokenMove { token: *id, before: held, after: own }));
            }
        }
        let all_done = legs.len() == payload.legs().len() && legs.iter().all(|leg| leg.state == TxState::Confirmed);
        let mut mismatches = mismatches(payload, &moves, all_done);
        let logs: Vec<_> = legs.iter().flat_map(|leg| &leg.logs).collect();
        let registries = registry_calls::registries(&reader.network().book);
        let managers = PositionManagers::of(&reader.network().book);
        let pool = lending_calls::pool(&reader.network().book);
        let missing = registry_calls::unproven(payload.proposal(), &registries, &logs)
            .or_else(|| position_calls::unproven(payload.proposal(), managers, &logs))
            .or_else(|| lending_calls::unproven(payload.proposal(), pool, &logs))
            .or_else(|| vault_calls::unproven(payload.proposal(), &logs))
            .or_else(|| vault_management::unproven(payload.proposal(), &reader.network().book, &logs))
            .or_else(|| fee_calls::unproven(payload.proposal(), &reader.network().book, &logs))
            .or_else(|| across_calls::unproven(payload.proposal(), &reader.network().book, &logs))
            .filter(|_| all_done);
        mismatches.extend(missing.map(|event| SafeText::clean(&format!("the receipt has no event {event}"), 300)));
        Ok(OnchainOutcome { moves, gas_cost, mismatches })
    }

    /// Reports and records the expected and the actual outcome.
    pub(super) async fn report_outcome(&self, payload: &SigningPayload, truth: &OnchainOutcome, legs: &[LegReport]) {
        // What was stopped before its own transaction agrees with nothing that it declared.
        let done = is_done(legs);
        let verified = ToolVerified {
            expected_outcome: payload.proposal().expected_outcome.clone(),
            actual_outcome: SafeText::clean(&actual_outcome(payload.proposal(), truth, legs), 600),
            ground_truth_source: GROUND_TRUTH.into(),
            matched: truth.matched() && done,
            unfilled: truth.matched() && !done,
        };
        let moved = truth.moves.iter().map(describe).collect::<Vec<_>>().join(", ");
        let body = serde_json::json!({
            "matched": verified.matched, "unfilled": verified.unfilled, "mismatches": truth.mismatches, "moves": moved,
            "gas_cost_wei": truth.gas_cost.to_string(), "expected_outcome": verified.expected_outcome,
            "actual_outcome": verified.actual_outcome, "ground_truth_source": verified.ground_truth_source,
        });
        if let Err(error) = self.inner.audit_log.record(self.note(payload, AuditKind::ActionVerified, body)).await {
            tracing::warn!(%error, "the on-chain outcome is not in the audit log");
        }
        self.emit(payload, EventKind::ToolVerified(verified));
    }

    /// Returns true if a transaction that was signed with this clearance may be sent again, or replaced, now. A new
    /// stop forbids it, except for revocations, which must go through under any stop.
    pub(super) fn may_send_again(&self, leave: ResendClearance) -> bool {
        let stop = self.inner.rules.stop();
        leave.only_revokes || stop.is_none() || stop == leave.signed_under
    }

    /// Follows an unresolved plan in the background, and settles its reservation once the last transaction is settled.
    /// `leave` belongs to the last of `legs`.
    pub(super) fn follow(
        &self,
        sender: TxSender,
        (payload, permit_id, held): (SigningPayload, PermitId, ReservedSpend),
        legs: &[LegReport],
        leave: ResendClearance,
        at_work: InProgressGuard,
    ) {
        let Some((last, before)) = legs.split_last() else { return };
        let (last, leg, before) = (last.clone(), before.len(), EarlierLegs::of(before));
        let pipeline = self.clone();
        let (proposal, tx_hash) = (payload.proposal(), last.hash);
        let (call_id, chain_id) = (proposal.call_id, proposal.chain_id);
        // Not a child of the call's span, which ends when the caller gets its response.
        let span = debug_span!(parent: None, "follow", %call_id, %permit_id, chain_id, %tx_hash);
        let work = async move {
            let (_at_work, _attendance) = (at_work, pipeline.inner.clock.attend());
            loop {
                let may_send = || pipeline.may_send_again(leave);
                match sender.wait_while(last.hash, POLL_INTERVAL, may_send).await {
                    Ok(status) if status.settled => {
                        // If this write fails, recovery settles the reservation.
                        let _written = pipeline.settle_as(permit_id, held, end_of(&status, held, before)).await;
                        let ended = executed(&payload, with_tx_status(last, &status));
                        pipeline.emit_leg(&payload, leg, ended.hash, ended.state, (ended.block, ended.gas_cost));
                        return;
                    }
                    Ok(_) => {}
                    Err(_) => pipeline.inner.clock.pause(POLL_INTERVAL).await,
                }
            }
        };
        tokio::spawn(work.instrument(span));
    }
}

/// Stop and action class at signing time; they decide whether a transaction may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResendClearance {
    /// Stop in force when it was signed.
    signed_under: Option<StopLevel>,
    /// True if it only revokes, cancels or refunds.
    only_revokes: bool,
}

impl ResendClearance {
    pub(super) fn of(assessment: &Assessment) -> Self {
        Self { signed_under: assessment.inputs.stop, only_revokes: assessment.inputs.only_revokes() }
    }

    /// Clearance for transactions that an ended process left. The ledger does not say under which stop they were
    /// signed, so any stop holds them back unless they only revoke.
    pub(super) const fn of_left(only_revokes: bool) -> Self {
        Self { signed_under: None, only_revokes }
    }
}

/// Part of a plan that is included before its last transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EarlierLegs {
    /// No transaction is included.
    Nothing,
    /// Preparatory transactions only.
    Prepared,
    /// The main transaction.
    Main,
}

impl EarlierLegs {
    fn of(legs: &[LegReport]) -> Self {
        match legs {
            [] => Self::Nothing,
            legs if main_is_done(legs) => Self::Main,
            _ => Self::Prepared,
        }
    }
}

/// Determines how a reservation ends from the last transaction's state and from what was included before it. A success
/// that was not observed in the foreground counts in full.
fn end_of(status: &TxStatus, held: ReservedSpend, before: EarlierLegs) -> ActionEnd {
    let displaced = status.displaced_by.is_some();
    match (&status.mined, status.record.state, before) {
        // A cancellation is the operator's decision and no failure.
        (None, Stage::Dropped, EarlierLegs::Nothing) if displaced => ActionEnd::Withdrawn,
        (None, Stage::Dropped, EarlierLegs::Prepared) if displaced => ActionEnd::Partly { spent: held.gas },
        (Some(mined), ..) if mined.receipt.status() => ActionEnd::Done { spent: held.spent },
        // A failed clean-up does not undo the main transaction.
        (Some(_), _, EarlierLegs::Main) | (None, Stage::Dropped, EarlierLegs::Main) => {
            ActionEnd::Done { spent: held.spent }
        }
        (Some(_), ..) | (None, Stage::Dropped, EarlierLegs::Prepared) => ActionEnd::Reverted { gas: held.gas },
        (None, Stage::Dropped, EarlierLegs::Nothing) => ActionEnd::NotSent,
        (None, ..) => ActionEnd::Unclear,
    }
}

fn with_tx_status(report: LegReport, status: &TxStatus) -> LegReport {
    let Some(mined) = status.mined.as_ref().filter(|_| status.settled) else {
        let gone = status.settled && status.record.state == Stage::Dropped;
        let state = if gone { TxState::Dropped } else { TxState::Unclear };
        let displaced_by = status.displaced_by.filter(|_| gone);
        return LegReport { state, displaced_by, ..report };
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

/// The report of a transaction, which counts as failed if it is a Safe's and its receipt does not say that the Safe
/// executed the call.
fn executed(payload: &SigningPayload, report: LegReport) -> LegReport {
    let hashes = payload.safe().map(|_| SafeTx::of_payload(payload).iter().map(SafeTx::hash).collect::<Vec<_>>());
    let is_failed = payload.kind() == AccountKind::Safe
        && report.state == TxState::Confirmed
        && !safe::executed(payload.account(), hashes.as_deref(), &report.logs);
    LegReport { state: if is_failed { TxState::Reverted } else { report.state }, ..report }
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
    let (received, sent) = (sum(&|one| one.to == account)?, sum(&|one| one.from == account)?);
    held.checked_add(received)?.checked_sub(sent)
}

/// Returns true if only transactions of the account can take native tokens from it: it has no code, as a delegation
/// (EIP-7702) would give it. False where that cannot be read.
async fn has_no_code(reader: &SnapshotReader, account: Address, block: u64) -> bool {
    let code = reader.client.agreed().get_code_at(account).number(block).await;
    code.is_ok_and(|code| code.is_empty())
}

/// The moves, of the native token no more than the plan's own transactions sent with them: an account without code pays
/// it out in no other way, so what is missing beyond that left it in other transactions of the same blocks.
fn without_foreign_native(moves: Vec<TokenMove>, payload: &SigningPayload, legs: &[LegReport]) -> Vec<TokenMove> {
    let done = payload.legs().iter().zip(legs).filter(|(_, report)| report.state == TxState::Confirmed);
    let sent = done.fold(U256::ZERO, |sum, (leg, _)| sum.saturating_add(leg.value));
    let own = |moved: TokenMove| match moved.token {
        TokenId::Native => TokenMove { after: moved.after.max(moved.before.saturating_sub(sent)), ..moved },
        TokenId::Erc20(_) => moved,
    };
    moves.into_iter().map(own).filter(|moved| moved.before != moved.after).collect()
}

type Balances = BTreeMap<TokenId, (TokenInfo, U256)>;

fn moves(before: &Balances, after: &Balances, gas: U256) -> Vec<TokenMove> {
    let none = U256::ZERO;
    let of = |balances: &Balances, id: &TokenId| balances.get(id).map_or(none, |(_, amount)| *amount);
    let moved = before.keys().map(|id| {
        let paid = if *id == TokenId::Native { gas } else { none };
        TokenMove { token: *id, before: of(before, id), after: of(after, id).saturating_add(paid) }
    });
    moved.filter(|moved| moved.before != moved.after).collect()
}

/// Returns deviations from the declaration. If the plan did not complete, only outflows are compared.
fn mismatches(payload: &SigningPayload, moves: &[TokenMove], all_done: bool) -> Vec<SafeText> {
    let proposal = payload.proposal();
    let mut found = Vec::new();
    let mut note = |text: String| found.push(SafeText::clean(&text, 300));
    let out_of = |id: TokenId| {
        let flows = proposal.outflows.iter().filter(|flow| flow.token.id == id);
        flows.fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.amount))
    };
    for moved in moves.iter().filter(|moved| moved.after < moved.before) {
        let (lost, most) = (moved.before.saturating_sub(moved.after), out_of(moved.token));
        if lost > most {
            note(format!("{} left, at most {most} was declared ({})", lost, describe(moved)));
        }
    }
    for inflow in proposal.inflows.iter().filter(|inflow| all_done && inflow.recipient == proposal.account) {
        let moved = moves.iter().find(|moved| moved.token == inflow.token.id);
        let received = moved
            .map_or(U256::ZERO, |moved| moved.after.saturating_add(out_of(moved.token)).saturating_sub(moved.before));
        if received < inflow.at_least {
            note(format!("{received} of {} came in, at least {} was declared", inflow.token.symbol, inflow.at_least));
        }
    }
    found
}

/// Describes a plan's result in one sentence: amounts received, transaction hash, deviations.
fn actual_outcome(proposal: &Proposal, truth: &OnchainOutcome, legs: &[LegReport]) -> String {
    let received = proposal.inflows.iter().filter(|inflow| inflow.recipient == proposal.account).map(|inflow| {
        let moved = truth.moves.iter().find(|moved| moved.token == inflow.token.id);
        let amount_in = moved.map_or(U256::ZERO, |moved| moved.after.saturating_sub(moved.before));
        let amount = TokenAmount::new(amount_in, inflow.token.decimals)
            .map_or_else(|_| amount_in.to_string(), |amount_in| amount_in.to_string());
        format!("{amount} {}", inflow.token.symbol)
    });
    let received = received.collect::<Vec<_>>().join(" and ");
    let done = match (is_done(legs), received.is_empty()) {
        (false, _) => "Not done".to_owned(),
        (true, true) => "Done".to_owned(),
        (true, false) => format!("Received {received}"),
    };
    let main = legs.iter().rfind(|leg| leg.purpose == LegPurpose::Main).or(legs.last());
    let hash = main.map_or_else(String::new, |leg| format!(", tx {}", leg.hash));
    let otherwise = truth.mismatches.iter().map(SafeText::as_str).collect::<Vec<_>>().join("; ");
    let otherwise = if otherwise.is_empty() { otherwise } else { format!("; not as declared: {otherwise}") };
    format!("{done}{hash}{otherwise}")
}

fn describe(moved: &TokenMove) -> String {
    let name = match moved.token {
        TokenId::Native => "coin".to_owned(),
        TokenId::Erc20(address) => address.to_string(),
    };
    format!("{name} {} → {}", moved.before, moved.after)
}

/// Returns the total cost of included transactions in wei: gas, and a rollup's data fee.
///
/// # Errors
/// The reason why a data fee cannot be read, in words.
pub(super) async fn cost_of(reader: &SnapshotReader, legs: &[LegReport]) -> Result<U256, UnknownValue> {
    let mut cost = legs.iter().filter_map(|leg| leg.gas_cost).fold(U256::ZERO, U256::saturating_add);
    for leg in legs.iter().filter(|leg| leg.block.is_some()) {
        let paid = reader.data_fee_paid(leg.hash).await?;
        cost = cost.saturating_add(paid);
    }
    Ok(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::recover::tests::tx_status;
    use crate::policy_engine::Reservation;

    #[test]
    fn a_followed_plan_counts_by_its_last_transaction_and_its_earlier_legs() {
        let held =
            ReservedSpend { reservation: Reservation(1), spent: "9".parse().unwrap(), gas: "1".parse().unwrap() };
        let (all, gas) = (ActionEnd::Done { spent: held.spent }, ActionEnd::Reverted { gas: held.gas });
        let (included, reverted, dropped) = (Stage::Included, Stage::Reverted, Stage::Dropped);
        for (state, mined, before, expected) in [
            (included, Some(true), EarlierLegs::Nothing, all),
            (included, Some(true), EarlierLegs::Prepared, all),
            (included, Some(true), EarlierLegs::Main, all),
            (reverted, Some(false), EarlierLegs::Nothing, gas),
            (reverted, Some(false), EarlierLegs::Prepared, gas),
            (reverted, Some(false), EarlierLegs::Main, all),
            (dropped, None, EarlierLegs::Nothing, ActionEnd::NotSent),
            (dropped, None, EarlierLegs::Prepared, gas),
            (dropped, None, EarlierLegs::Main, all),
            (Stage::Sent, None, EarlierLegs::Main, ActionEnd::Unclear),
        ] {
            let status = tx_status(state, mined, true);
            assert_eq!(end_of(&status, held, before), expected, "{state} {mined:?} after {before:?}");
        }
    }
}
