//! Execution of a plan, one transaction after the other. Before each one after the first, the rest of the plan is
//! assessed again on the latest block. If the plan stops early, the allowances that it has given are revoked.

use std::collections::BTreeSet;

use alloy::eips::BlockId;
use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall as _;
use futures::future::BoxFuture;

use super::account_lock::LockSource;
use super::assess::{Assessment, gas_usd};
use super::commit::{CommitOutcome, CommitState, LegReport, ReservedSpend, committed};
use super::disputes::despite_disputes;
use super::order::PlacementError;
use super::replace::SigningNonce;
use super::settle::{ResendClearance, cost_of, main_is_done};
use super::sign::NotStored;
use super::{InProgressGuard, Pipeline, PipelineRefusal, PreparedAction};
use crate::approval::Consent;
use crate::orders::record::OrderRecord;
use crate::policy_engine::ActionEnd;
use crate::proposal::{AllowanceBound, AllowanceKind, LegPurpose, PlanLeg, Proposal, ProposalIntent};
use crate::signing_payload::FeeBound;
use crate::value::UnknownValue;
use crate::verdict::Verdict;
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::TxState;
use bardo_base::model::Check;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use golem_chain::multicall::{CallBatch, CallIndex};
use golem_chain::network::KnownContract;
use golem_chain::sender::{self, SendRoute, TxSender};
use golem_chain::token::TokenId;

/// Checks that every transaction after the first must pass again. Counters and caps are left out: they were reserved
/// for the whole plan.
const AGAIN: [Check; 7] = [
    Check::Halt,
    Check::PhaseGate,
    Check::TokenAllowlist,
    Check::SlippageGuard,
    Check::PolicyCage,
    Check::Simulation,
    Check::ChainHealth,
];

/// Checks that the rollup's data fee for the rest of a plan is still covered by the reservation for the whole plan. No
/// signature bounds that fee, and both estimates are doubled. It applies to revocations too, because nothing else
/// bounds their cost.
fn affordable(reserved: &Result<U256, UnknownValue>, rest: &Result<U256, UnknownValue>) -> Result<(), PipelineRefusal> {
    let unknown = |doubt: &UnknownValue| PipelineRefusal::new(ErrorCode::SafetyPriceUnknown, doubt);
    let (reserved, rest) = (reserved.as_ref().map_err(unknown)?, rest.as_ref().map_err(unknown)?);
    if rest.saturating_sub(*reserved) > *reserved {
        let why = format!(
            "the rollup's L1 data fee now exceeds the reservation: {} wei for the rest of the plan, of {reserved} wei \
             for all of it",
            rest.wrapping_shr(1)
        );
        return Err(PipelineRefusal::new(ErrorCode::SafetySpendingLimitExceeded, why));
    }
    Ok(())
}

/// Outcome of a plan.
enum PlanEnd {
    /// Every transaction is included and succeeded.
    Done,
    /// A transaction is included and reverted.
    Reverted,
    /// A transaction may have been sent, and its outcome is not known.
    Unclear,
    /// A wallet server may have signed the next transaction, and may send it itself. All of the spending counts.
    MaybeSigned { code: ErrorCode, why: String },
    /// Every transaction is included, and the order is submitted.
    Placed,
    /// Nothing further was signed, or a transaction failed without reverting the main one.
    Stopped { code: ErrorCode, why: String, failed: bool, verdicts: Vec<Verdict> },
}

/// State of a plan while its transactions are sent.
struct Progress {
    /// Reports of the transactions so far.
    legs: Vec<LegReport>,
    /// Notes for the caller.
    remarks: Vec<String>,
    /// Assessment of the plan before its latest transaction.
    current: Assessment,
    /// Clearance by which the last transaction may be sent again.
    clearance: ResendClearance,
}

impl Progress {
    fn new(first: &Assessment) -> Self {
        let clearance = ResendClearance::of(first);
        Self { legs: Vec::new(), remarks: Vec::new(), current: first.clone(), clearance }
    }

    /// True if at least one transaction was sent and may have an effect.
    fn anything_happened(&self) -> bool {
        self.legs.iter().any(|leg| leg.state != TxState::Dropped)
    }

    /// End of a plan with this intent after its last report; `None` if the next transaction can follow.
    fn ended(&self, sender: &TxSender, intent: ProposalIntent) -> Option<PlanEnd> {
        let last = self.legs.last()?;
        match last.state {
            TxState::Confirmed => None,
            TxState::Reverted if main_is_done(&self.legs) => {
                let why = "the main transaction succeeded, but the one that revokes the remaining allowance reverted";
                Some(PlanEnd::Stopped {
                    code: ErrorCode::ExecutionTxReverted,
                    why: why.to_owned(),
                    failed: true,
                    verdicts: Vec::new(),
                })
            }
            TxState::Reverted => Some(PlanEnd::Reverted),
            TxState::Dropped => {
                // A cancellation is the operator's decision: the agent must not try again, and the failure breaker
                // counts nothing.
                let (code, why) = match last.displaced_by {
                    Some(original) if intent == ProposalIntent::CancelTransaction => {
                        let why = format!("transaction {original} was included first, so nothing was cancelled");
                        (ErrorCode::ValidationFailed, why)
                    }
                    Some(cancellation) => {
                        let why = format!("the operator cancelled it: transaction {cancellation} has used its nonce");
                        (ErrorCode::ApprovalRefused, why)
                    }
                    None => (ErrorCode::ChainUnreachable, never_happens(sender, &self.legs)),
                };
                Some(PlanEnd::Stopped { code, why, failed: last.displaced_by.is_none(), verdicts: Vec::new() })
            }
            TxState::Signed | TxState::Sent | TxState::Unclear => Some(PlanEnd::Unclear),
        }
    }
}

impl PlanEnd {
    /// Settlement of the reservation in the ledger.
    fn settlement(&self, progress: &Progress, spent: Usd, gas: Usd) -> ActionEnd {
        match self {
            Self::Done => ActionEnd::Done { spent },
            Self::Unclear | Self::Placed => ActionEnd::Unclear,
            Self::MaybeSigned { .. } => ActionEnd::MaybeSigned { spent },
            Self::Reverted => ActionEnd::Reverted { gas },
            // A failed clean-up transaction does not change that the main one succeeded.
            Self::Stopped { .. } if main_is_done(&progress.legs) => ActionEnd::Done { spent },
            Self::Stopped { .. } if progress.anything_happened() => ActionEnd::Partly { spent },
            Self::Stopped { failed: true, .. } => ActionEnd::NotSent,
            Self::Stopped { failed: false, .. } => ActionEnd::Withdrawn,
        }
    }
}

impl Pipeline {
    /// Signs, stores, sends and follows every transaction, and settles the reservation.
    pub(super) async fn run_plan(
        &self,
        prepared: PreparedAction,
        first: Assessment,
        held: ReservedSpend,
        next: Option<(SigningNonce, FeeBound)>,
        at_work: InProgressGuard,
    ) -> Result<CommitOutcome, PipelineRefusal> {
        let payload = prepared.preview.payload.clone();
        let permit_id = prepared.preview.permit.permit_id;
        let sender = self.sender(payload.proposal().chain_id)?;
        let mut progress = Progress::new(&first);
        let mut ended = self.send_all(&prepared, (&first, held), &sender, next, &mut progress).await;
        let mut placed = None;
        if let PlanEnd::Done = ended
            && payload.order().is_some()
        {
            (ended, placed) = self.place_after(&prepared, &first, held.gas, &mut progress).await;
        }
        if !matches!(ended, PlanEnd::Done | PlanEnd::Placed | PlanEnd::Unclear) && progress.anything_happened() {
            progress.remarks.extend(self.revoke_allowances(&prepared, &progress.legs, |_| true).await);
        }
        // The effects of a repetition are those of the plan that waits for it, which reports them.
        let repeats = payload.proposal().intent == ProposalIntent::SpeedUp;
        let truth = match ended {
            _ if repeats => None,
            PlanEnd::Unclear | PlanEnd::MaybeSigned { .. } | PlanEnd::Placed => None,
            PlanEnd::Done | PlanEnd::Reverted | PlanEnd::Stopped { .. } => {
                let read = self.onchain_outcome(&prepared, &progress.legs).await;
                read.map_err(|doubt| progress.remarks.push(doubt.to_string())).ok()
            }
        };
        // Who did not do what the simulation showed may have left the allowance for later.
        if let (PlanEnd::Done, Some(truth)) = (&ended, &truth)
            && !truth.matched()
        {
            let left = self.left_allowances(&prepared).await;
            let is_left = |leg: &PlanLeg| left.as_ref().is_none_or(|left| left.contains(&(leg.to, spender_of(leg))));
            let remarks = self.revoke_allowances(&prepared, &progress.legs, is_left).await;
            progress.remarks.extend(remarks);
        }
        // Without the chain's figures, all of the reserved gas counts.
        let gas = truth.as_ref().and_then(|truth| gas_usd(&first.view.spreads, truth.gas_cost));
        let gas = gas.unwrap_or(held.gas);
        let spent = truth.as_ref().and_then(|truth| truth.spent(&payload, &progress.legs, &first, gas));
        let spent = spent.unwrap_or(held.spent).min(held.most_with(gas));
        let end = ended.settlement(&progress, spent, gas);
        // Spending that an order can still take stays reserved until the chain shows how the order ended.
        if !matches!(ended, PlanEnd::Placed)
            && let Err(error) = self.settle_as(permit_id, held, end).await
        {
            progress.remarks.push(format!("the ledger still counts the spending: {error}"));
        }
        if let Some(truth) = &truth
            && progress.anything_happened()
        {
            self.report_outcome(&payload, truth, &progress.legs).await;
        }
        if progress.anything_happened() || payload.proposal().replaces.is_some() {
            self.record_rivals(&payload, &sender, &progress.legs).await;
        }
        if let PlanEnd::Done = ended {
            self.poll_cancelled_orders(&payload).await;
            self.note_parties(&payload).await;
        }
        let anything_happened = progress.anything_happened();
        let Progress { legs, remarks, clearance, .. } = progress;
        // Where every transaction that was sent has ended, the last one says nothing about what is unclear: an order, which
        // the order service follows, or a transaction that may not be stored, which recovery finds.
        let all_sent = legs.iter().all(|leg| leg.state == TxState::Confirmed);
        if let PlanEnd::Unclear = ended
            && !all_sent
        {
            self.follow(sender, (payload, permit_id, held), &legs, clearance, at_work);
        }
        let mut blocking = Vec::new();
        let state = match ended {
            PlanEnd::Done => CommitState::Done,
            PlanEnd::Placed => CommitState::Placed,
            PlanEnd::Reverted => CommitState::Reverted,
            PlanEnd::Unclear => CommitState::Unclear,
            PlanEnd::MaybeSigned { code, why } => CommitState::Stopped { code, why },
            PlanEnd::Stopped { code, why, verdicts, .. } if anything_happened => {
                blocking = verdicts;
                CommitState::Stopped { code, why }
            }
            // Nothing was sent.
            PlanEnd::Stopped { code, why, .. } => return Err(PipelineRefusal::new(code, why)),
        };
        let mut committed = committed(&prepared.preview, first, state)?;
        if !blocking.is_empty() {
            committed.verdicts = blocking;
        }
        Ok(CommitOutcome { legs, truth, remarks, order: placed, ..committed })
    }

    /// Signs, stores, sends and follows the plan's transactions, one after the other, until one does not confirm.
    async fn send_all(
        &self,
        prepared: &PreparedAction,
        (first, held): (&Assessment, ReservedSpend),
        sender: &TxSender,
        mut next: Option<(SigningNonce, FeeBound)>,
        progress: &mut Progress,
    ) -> PlanEnd {
        let payload = &prepared.preview.payload;
        let private = self.inner.rules.needs_private_relay(payload, &first.inputs);
        let route = if private { SendRoute::Private } else { SendRoute::Public };
        for leg in 0..payload.legs().len() {
            let taken = match next.take() {
                Some(taken) => taken,
                None => match self.next_leg(prepared, leg, first).await {
                    Ok((assessment, taken)) => {
                        progress.current = assessment;
                        taken
                    }
                    Err(refusal) => {
                        return stopped_by(refusal);
                    }
                },
            };
            let stored = match self.sign_and_store(prepared, &progress.current, leg, taken, (route, held)).await {
                Ok(stored) => stored,
                Err(not_stored) => {
                    progress.remarks.extend(self.undo(sender, &not_stored).await);
                    let NotStored { nonce, code, why, failed, may_be_signed } = not_stored;
                    if may_be_signed {
                        return PlanEnd::MaybeSigned { code, why };
                    }
                    // Without a nonce it is not known whether something was signed or stored.
                    if nonce.is_some() {
                        return PlanEnd::Stopped { code, why, failed, verdicts: Vec::new() };
                    }
                    progress.remarks.push(why);
                    return PlanEnd::Unclear;
                }
            };
            progress.clearance = ResendClearance::of(&progress.current);
            let (report, outbids) = self.send_and_follow(prepared, &progress.current, leg, (sender, stored)).await;
            progress.remarks.extend(outbids);
            progress.legs.push(report);
            if let Some(ended) = progress.ended(sender, prepared.preview.payload.proposal().intent) {
                return ended;
            }
        }
        PlanEnd::Done
    }

    /// Submits the plan's order after its transactions. `reserved_gas` counts where the gas cost cannot be read.
    async fn place_after(
        &self,
        prepared: &PreparedAction,
        first: &Assessment,
        reserved_gas: Usd,
        progress: &mut Progress,
    ) -> (PlanEnd, Option<Box<OrderRecord>>) {
        let gas = cost_of(&prepared.reader, &progress.legs).await.ok();
        let gas = gas.and_then(|gas| gas_usd(&first.view.spreads, gas)).unwrap_or(reserved_gas);
        // The assessment before the transactions is out of date after them.
        let assessed = match progress.legs.len() {
            0 => Ok(progress.current.clone()),
            done => self.reassess_rest(prepared, done, first).await,
        };
        let assessment = match assessed {
            Ok(assessment) => assessment,
            Err(refusal) => {
                return (stopped_by(refusal), None);
            }
        };
        match self.place_order(prepared, &assessment, gas).await {
            Ok(order) => (PlanEnd::Placed, Some(Box::new(order))),
            Err(PlacementError { why, unclear: true, .. }) => {
                progress.remarks.push(why);
                (PlanEnd::Unclear, None)
            }
            Err(PlacementError { code, why, failed, .. }) => {
                (PlanEnd::Stopped { code, why, failed, verdicts: Vec::new() }, None)
            }
        }
    }

    /// Assesses the rest of the plan again and allocates the next nonce.
    async fn next_leg(
        &self,
        prepared: &PreparedAction,
        leg: usize,
        first: &Assessment,
    ) -> Result<(Assessment, (SigningNonce, FeeBound)), PipelineRefusal> {
        let payload = &prepared.preview.payload;
        let assessment = self.reassess_rest(prepared, leg, first).await?;
        let chain_id = payload.proposal().chain_id;
        let signer = payload.signer();
        let (seen, fees) = self.for_next(payload, despite_disputes(&assessment)).await?;
        let clock = self.inner.clock.clone();
        let ticket = self
            .inner
            .store
            .write(move |transaction| sender::allocate(transaction, chain_id, signer, seen, clock.now_millis()))
            .await
            .map_err(|error| PipelineRefusal::new(ErrorCode::StoreUnavailable, error))?;
        Ok((assessment, (SigningNonce::Reserved(ticket), fees)))
    }

    /// Assesses the rest of the plan again, from transaction number `leg`. `first` is the assessment that the plan was
    /// reserved with.
    async fn reassess_rest(
        &self,
        prepared: &PreparedAction,
        leg: usize,
        first: &Assessment,
    ) -> Result<Assessment, PipelineRefusal> {
        let PreparedAction { preview, reader, .. } = prepared;
        let payload = &preview.payload;
        let assessment = self.assess(reader, payload, leg, prepared.phase_request.now(), None).await?;
        affordable(&first.view.data_fee, &assessment.view.data_fee)?;
        let only_revokes = payload.legs().get(leg).is_some_and(|leg| leg.purpose == LegPurpose::CleanUp)
            && assessment.inputs.only_revokes();
        if !assessment.faults.is_empty() {
            return Err(PipelineRefusal::out_of_bounds(&assessment.faults, assessment.inputs.simulation));
        }
        // Without a simulation, nothing is known of what the rest would do.
        if assessment.inputs.simulation.is_none() {
            let status = assessment.verdicts.into_iter().filter(Verdict::blocks).collect();
            return Err(PipelineRefusal::by(status, None));
        }
        // A revocation may always go on.
        if !only_revokes {
            let status: Vec<_> = assessment
                .verdicts
                .iter()
                .filter(|verdict| verdict.blocks() && AGAIN.contains(&verdict.check))
                .cloned()
                .collect();
            if !status.is_empty() {
                return Err(PipelineRefusal::by(status, assessment.inputs.simulation));
            }
            if self.inner.rules.version() != preview.policy {
                let why = "the rules were changed in the middle of the plan";
                return Err(PipelineRefusal::new(ErrorCode::PermitMismatch, why));
            }
        }
        Ok(assessment)
    }

    /// Tokens with spenders that the plan's transactions approved and that may still take something; `None` if that cannot be
    /// read, so that everything is revoked.
    async fn left_allowances(&self, prepared: &PreparedAction) -> Option<BTreeSet<(Address, Option<Address>)>> {
        let (payload, reader) = (&prepared.preview.payload, &prepared.reader);
        let owner = payload.account();
        let multicall = reader.network().book.contract(KnownContract::Multicall3)?;
        let mut calls = CallBatch::default();
        let approved = payload.proposal().legs.iter().filter(|leg| leg.purpose == LegPurpose::Approve);
        let asked: Vec<_> = approved
            .map(|leg| {
                let asked = spender_of(leg).map(|spender| calls.push(leg.to, &Erc20::allowanceCall { owner, spender }));
                ((leg.to, spender_of(leg)), asked)
            })
            .collect();
        let answers = calls.send(reader.client.agreed(), multicall, BlockId::latest()).await.ok()?;
        // Another kind of call, and one without an answer, counts as left.
        let is_left = |asked: &Option<CallIndex<Erc20::allowanceCall>>| {
            asked.as_ref().and_then(|asked| asked.take(&answers)).is_none_or(|left| !left.is_zero())
        };
        Some(asked.into_iter().filter(|(_, asked)| is_left(asked)).map(|(which, _)| which).collect())
    }

    /// Revokes the allowances that the plan's first transactions gave and its main transaction did not use, as far as
    /// `concerns` their calls, down to what open orders may still take.
    async fn revoke_allowances(
        &self,
        prepared: &PreparedAction,
        legs: &[LegReport],
        concerns: impl Fn(&PlanLeg) -> bool,
    ) -> Vec<String> {
        let payload = &prepared.preview.payload;
        let given = payload.proposal().legs.iter().zip(legs);
        let given = given.filter(|(leg, report)| {
            leg.purpose == LegPurpose::Approve && report.state == TxState::Confirmed && concerns(leg)
        });
        let mut remarks = Vec::new();
        let mut back = Vec::new();
        // If the open orders cannot be read, nothing is kept for them: an invalidated order costs nothing.
        let promised = self.promised(payload).unwrap_or_default();
        let permit2 = prepared.reader.network().book.contract(KnownContract::Permit2);
        let stays = |token: Address, spender: Address| {
            let kept = promised.get(&token).filter(|_| permit2 == Some(spender));
            kept.copied().unwrap_or_default()
        };
        for (leg, _) in given {
            match opposite(leg, stays) {
                Some(leg) => back.push(leg),
                None => {
                    remarks.push(format!("an allowance given by a call of {} cannot be revoked automatically", leg.to))
                }
            }
        }
        if back.is_empty() {
            return remarks;
        }
        let bounds = payload.proposal().allowances.iter().map(|bound| {
            let at_most = match (bound.kind, bound.token.id) {
                (AllowanceKind::Erc20, TokenId::Erc20(token)) => stays(token, bound.spender),
                (AllowanceKind::Erc20 | AllowanceKind::Permit2 { .. }, _) => U256::ZERO,
            };
            AllowanceBound { at_most, ..bound.clone() }
        });
        let proposal = Proposal {
            intent: ProposalIntent::Revoke,
            legs: back,
            outflows: Vec::new(),
            inflows: Vec::new(),
            allowances: bounds.collect(),
            trade: None,
            recipients: Vec::new(),
            order: None,
            files: Vec::new(),
            replaces: None,
            arrival: None,
            expected_outcome: SafeText::clean("the allowances given for it are revoked", 200),
            ..payload.proposal().clone()
        };
        if let Err(refusal) = self.do_at_once(proposal, prepared).await {
            remarks.push(format!("the allowances given for it could not be revoked: {}", refusal.message));
        }
        remarks
    }

    /// Previews and commits an action that needs no consent. Boxed, because a commit can call this.
    fn do_at_once<'a>(
        &'a self,
        proposal: Proposal,
        like: &'a PreparedAction,
    ) -> BoxFuture<'a, Result<CommitOutcome, PipelineRefusal>> {
        Box::pin(async move {
            let preview = Box::pin(self.preview(proposal, like.account.clone(), like.phase_request.clone())).await?;
            self.commit_by(LockSource::Outer, preview.permit.permit_id, Consent::None).await
        })
    }
}

/// End of a plan whose rest was refused.
fn stopped_by(refusal: PipelineRefusal) -> PlanEnd {
    let PipelineRefusal { code, message, verdicts, .. } = refusal;
    PlanEnd::Stopped { code, why: message, failed: false, verdicts }
}

/// Explains why the last transaction can never be included, from its stored note: the endpoint's refusal, or the
/// transaction that used its nonce.
fn never_happens(sender: &TxSender, legs: &[LegReport]) -> String {
    let record = legs.last().and_then(|last| sender.record(last.hash).ok());
    let note = record.and_then(|record| record.note).map_or_else(String::new, |note| format!(": {note}"));
    format!("the transaction can never be included{note}")
}

/// Spender of a token's allowance that a call gives; `None` for any other call.
fn spender_of(leg: &PlanLeg) -> Option<Address> {
    Erc20::approveCall::abi_decode(&leg.data).ok().map(|call| call.spender)
}

/// Returns the call that revokes the allowance set by `leg`; `None` if `leg` sets none. `stays` gives the amount of a
/// token that a spender keeps.
fn opposite(leg: &PlanLeg, stays: impl Fn(Address, Address) -> U256) -> Option<PlanLeg> {
    let data: Bytes = if let Ok(call) = Erc20::approveCall::abi_decode(&leg.data) {
        let value = stays(leg.to, call.spender).min(call.value);
        Erc20::approveCall { spender: call.spender, value }.abi_encode().into()
    } else if let Ok(call) = Permit2::approveCall::abi_decode(&leg.data) {
        let nothing = Permit2::approveCall { amount: Default::default(), expiration: Default::default(), ..call };
        nothing.abi_encode().into()
    } else {
        return None;
    };
    Some(PlanLeg { purpose: LegPurpose::CleanUp, data, value: U256::ZERO, slots: Vec::new(), ..leg.clone() })
}
