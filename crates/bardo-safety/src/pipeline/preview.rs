//! Preview of an action: signing payload, check inputs, checks, simulation and required consent, and a permit if
//! nothing blocks it. Reserves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Not as _;
use std::sync::Arc;

use alloy::primitives::{Address, B256, U256};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{Span, field::display, instrument};

use super::{PhaseRequest, Pipeline, PipelineRefusal, PreparedAction, consent};
use crate::account::{Account, PayloadContext, RevocationCause};
use crate::approval::{ApprovalNeed, ApprovalReason};
use crate::audit::AuditKind;
use crate::chain_snapshot::SnapshotReader;
use crate::check_inputs::CheckInputs;
use crate::checks::halt;
use crate::custody::safe::SafeSignatures;
use crate::guardian::{GuardianOpinion, ReviewCase};
use crate::permit::ActionPermit;
use crate::proposal::Proposal;
use crate::second_approval::SecondRequirement;
use crate::signing_payload::SigningPayload;
use crate::simulate::{SimulatedEffects, least_out};
use crate::value::ActionValues;
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::{CheckReason, EventKind, Finding, PermitIssued};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::model::{Check, Phase, RuleName};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use golem_chain::network::KnownContract;
use golem_chain::network::NetworkKind;
use golem_chain::sender::{self, LaneError, RecordError, TxRecord};
use golem_chain::token::TokenId;

/// Previewed action that no check blocks.
#[derive(Debug, Clone)]
pub struct Preview {
    /// Permit to execute the action.
    pub permit: ActionPermit,
    /// Signing payload of the action.
    pub payload: SigningPayload,
    /// Findings of the simulation.
    pub simulated: SimulatedEffects,
    /// Dollar values of the action.
    pub values: ActionValues,
    /// Dollars that count against the limits: the possible loss and gas of a fair exit, the full spending of any other
    /// action.
    pub counted: Usd,
    /// Verdict of every check.
    pub verdicts: Vec<Verdict>,
    /// Consent that the action needs.
    pub needs: ApprovalNeed,
    /// Opinion of the safety-guardian; `None` if the action did not need one.
    pub opinion: Option<GuardianOpinion>,
    /// True if the action is above the hot lane, so that the safety-guardian must agree.
    pub above_hot_lane: bool,
    /// Largest spending of one action that a standing approval for such actions covers; `None` without a limit.
    pub largest_granted: Option<Usd>,
    /// Second approval that the action needs; `None` if it needs none.
    pub second: Option<SecondRequirement>,
    /// True if the action pays a recipient for the first time.
    pub first_seen: bool,
    /// Reasons for approval that concern the action's recipients and spenders.
    pub parties: Vec<ApprovalReason>,
    /// Hash of the rules that the action was checked under.
    pub policy: B256,
    /// Phase that the action was checked in.
    pub phase: Phase,
    /// Phase of the acting Golem, updated after the preview; `None` if it is fixed.
    pub(crate) own: Option<watch::Receiver<Phase>>,
    /// Identifier of the last stop that was set before the preview.
    pub last_stop: Option<SafeText>,
    /// Kind of the network: devnet, test network or real network.
    pub network: NetworkKind,
    /// True for a paper-mode action, which is never signed.
    pub paper: bool,
    /// State of the account's own orders and transactions when the action was simulated.
    pub under_way: UnderWay,
}

/// Orders and transactions that an account has under way on one chain. While they stay the same, a simulation still rests on
/// the account's own state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnderWay {
    /// Amounts that open orders could still take, by token, in raw units.
    pub promised: BTreeMap<Address, U256>,
    /// Next nonce that this ledger would allocate; `None` before the first one.
    pub next_nonce: Option<u64>,
    /// Hashes of the signed transactions without a final outcome.
    pub unsettled: BTreeSet<B256>,
}

impl Pipeline {
    /// Assesses `proposal` as `account` would sign it, and issues a permit for exactly that if nothing blocks it.
    ///
    /// # Errors
    /// [`PipelineRefusal`] with every verdict and violation that blocks the action.
    #[instrument(level = "debug", skip_all, fields(chain_id = proposal.chain_id, permit_id))]
    pub async fn preview(
        &self,
        proposal: Proposal,
        account: Arc<dyn Account>,
        phase_request: PhaseRequest,
    ) -> Result<Preview, PipelineRefusal> {
        let payload = self.prepare_payload(&proposal, &*account, None).await?;
        self.preview_payload(payload, account, phase_request).await
    }

    /// Assesses a prepared payload, and issues a permit for it if nothing blocks it.
    pub(super) async fn preview_payload(
        &self,
        payload: SigningPayload,
        account: Arc<dyn Account>,
        phase_request: PhaseRequest,
    ) -> Result<Preview, PipelineRefusal> {
        let reader = self.reader(payload.proposal().chain_id)?;
        let previewed = Box::pin(self.preview_on(&payload, reader, account, phase_request)).await;
        match &previewed {
            Ok(preview) => {
                Span::current().record("permit_id", display(preview.permit.permit_id));
            }
            Err(refusal) => self.record_refusal(&payload, None, refusal).await,
        }
        previewed
    }

    async fn preview_on(
        &self,
        payload: &SigningPayload,
        reader: SnapshotReader,
        account: Arc<dyn Account>,
        phase_request: PhaseRequest,
    ) -> Result<Preview, PipelineRefusal> {
        let phase_request = phase_request.since_now();
        let last_stop = self.inner.rules.last_stop();
        self.verified_replacement(payload)?;
        if self.inner.paper.is_none() {
            self.continued_proposal(payload)?;
        }
        let under_way = self.under_way(payload)?;
        self.step(payload, "Simulating via Revm");
        failpoint::reach(Failpoint::Framed);
        let (assessment, outside) =
            futures::join!(self.assess(&reader, payload, 0, phase_request.now(), None), self.used_outside(payload));
        let assessment = assessment?;
        failpoint::reach(Failpoint::Assessed);
        let mut verdicts = assessment.verdicts.clone();
        let inputs = &assessment.inputs;
        if inputs.stop.is_some() {
            self.inner.queue.drop_grants();
        }
        if account.revoked() == Some(RevocationCause::Stop) {
            // The keys are gone for the session, even if the stop that took them would now let this action pass.
            verdicts.retain(|verdict| verdict.check != Check::Halt);
            verdicts.insert(0, halt::without_keys());
        }
        verdicts.extend(self.unseen(payload, inputs)?);
        verdicts.extend(self.approves_itself(payload, inputs));
        verdicts.extend(outside);
        let above_hot_lane = self.inner.rules.above_hot_lane(payload, inputs);
        let opinion = match !verdicts.iter().any(Verdict::blocks) && above_hot_lane {
            true => self.guardians_opinion(payload, inputs, &mut verdicts).await,
            false => None,
        };
        self.emit_verdicts(payload, &verdicts);
        let (Some(simulated), Ok(values), false) =
            (&inputs.simulation, &inputs.values, verdicts.iter().any(Verdict::blocks))
        else {
            return Err(PipelineRefusal::by(verdicts, inputs.simulation.clone()));
        };
        let policy = self.inner.rules.version();
        let now = self.inner.clock.now_millis();
        let permit = ActionPermit::issue(payload, policy, now, self.inner.permit_ttl);
        let parties = self.parties(payload, inputs, &reader)?;
        let by_rules = self.inner.rules.consent(payload, inputs);
        let needs = consent::needs(by_rules, payload, inputs, &verdicts, above_hot_lane, &parties);
        let second = self.inner.rules.second_approval(payload, inputs);
        let needs = self.with_origin(consent::and_second(needs, second.as_ref()), payload.proposal().chain_id)?;
        let preview = Preview {
            permit,
            payload: payload.clone(),
            simulated: simulated.clone(),
            values: values.clone(),
            counted: inputs.counted().unwrap_or(values.spent),
            verdicts,
            needs,
            opinion,
            above_hot_lane,
            largest_granted: self.inner.rules.largest_granted(),
            second,
            first_seen: parties.contains(&ApprovalReason::FirstPaid),
            parties,
            policy,
            phase: inputs.phase,
            own: phase_request.own.clone(),
            last_stop,
            network: reader.network().kind,
            paper: self.inner.paper.is_some(),
            under_way,
        };
        self.report_permit(&preview).await?;
        self.remember(
            PreparedAction { preview: preview.clone(), account, reader, phase_request, view: assessment.view },
            now,
            Instant::now(),
        );
        failpoint::reach(Failpoint::Permitted);
        Ok(preview)
    }

    /// Asks the safety guardian about an action above the hot lane, and adds its objection to `verdicts`. `None` if it
    /// did not answer, which blocks the action.
    async fn guardians_opinion(
        &self,
        payload: &SigningPayload,
        inputs: &CheckInputs,
        verdicts: &mut Vec<Verdict>,
    ) -> Option<GuardianOpinion> {
        match self.ask_guardian(payload, inputs).await {
            Ok(opinion) => {
                if !opinion.agrees {
                    let asked = CheckReason::GuardianDisagrees { why: opinion.why.clone() };
                    verdicts.push(Verdict::passed(Check::SpendingLimit, Finding::said(&asked)).asking(asked));
                }
                Some(opinion)
            }
            Err(verdict) => {
                verdicts.push(verdict);
                None
            }
        }
    }

    /// Records the permit in the audit log, and then reports it as an event.
    async fn report_permit(&self, preview: &Preview) -> Result<(), PipelineRefusal> {
        let Preview { permit, payload, simulated, values, .. } = preview;
        let proposal = payload.proposal();
        let bounds = &permit.bounds;
        let declared = bounds.outflows.iter().map(|flow| &flow.token);
        let declared = declared.chain(bounds.inflows.iter().map(|inflow| &inflow.token));
        let native_symbol = self.reader(proposal.chain_id)?.network().native_symbol;
        let changes = simulated.balance_changes(payload, declared, native_symbol);
        let body = json!({
            "permit_id": permit.permit_id, "simulation_hash": permit.simulation_hash, "policy": preview.policy,
            "tool": proposal.tool.name, "intent": proposal.intent.as_str(), "chain_id": proposal.chain_id,
            "account": proposal.account, "expected_outcome": permit.expected_outcome,
            "spent_usd": values.spent, "gas_usd": values.gas, "phase": preview.phase, "expires_at": permit.expires_at,
            "needs": preview.needs.word(), "reasons": preview.needs.reasons(), "changes": changes,
        });
        // Without this record, a permit could be used that the audit log does not have.
        let recorded = self.inner.audit_log.record(self.note(payload, AuditKind::PermitIssued, body)).await;
        recorded.map_err(|error| PipelineRefusal::new(ErrorCode::StoreUnavailable, error))?;
        self.emit(
            payload,
            EventKind::PermitIssued(PermitIssued {
                permit_id: permit.permit_id,
                simulation_hash: permit.simulation_hash,
                expected_outcome: permit.expected_outcome.clone(),
                expires_at: permit.expires_at,
                notify: preview.needs == ApprovalNeed::Notify,
                changes,
                least_out: least_out(proposal),
                leaves_usd: values.leaves(),
                is_order: proposal.order.is_some(),
            }),
        );
        Ok(())
    }

    /// Builds the signing payload of `proposal` for `account`, with a fee bound from the chain's current fees. With `signed`, it
    /// executes a Safe's proposal from this number on with these signatures.
    pub(super) async fn prepare_payload(
        &self,
        proposal: &Proposal,
        account: &dyn Account,
        signed: Option<(U256, &SafeSignatures)>,
    ) -> Result<SigningPayload, PipelineRefusal> {
        let fees = match &proposal.replaces {
            Some(replaced) => self.replacement_bound(proposal.chain_id, replaced).await?,
            None => self.fee_bound(proposal.chain_id).await?,
        };
        let context = PayloadContext { chain_id: proposal.chain_id, fees };
        let refuse = |why: &dyn std::fmt::Display| PipelineRefusal::new(ErrorCode::ValidationFailed, why);
        account.refresh().await.map_err(|error| PipelineRefusal::new(error.code(), error))?;
        let payload = match signed {
            None => account.prepare_payload(proposal.clone(), &context),
            Some(signed) => account.prepare_signed(proposal.clone(), &context, signed),
        };
        let payload = payload.map_err(|error| PipelineRefusal::new(error.code(), error))?;
        // The account must build exactly the proposed payload, for itself, with the given fees.
        if payload.proposal() != proposal || payload.account() != account.address() || payload.kind() != account.kind()
        {
            return Err(refuse(&"the account prepared something other than the proposal"));
        }
        if payload.fees() != fees {
            return Err(refuse(&"the account prepared other fees than it was given"));
        }
        Ok(payload)
    }

    /// Returns a blocking verdict if the chain has transactions of the signer that this ledger does not have: the commit
    /// would not get a nonce. `None` if nothing would be sent with a new nonce. An answer that cannot be had blocks
    /// nothing here, because the commit reads the nonces again.
    async fn used_outside(&self, payload: &SigningPayload) -> Option<Verdict> {
        let sends = !payload.legs().is_empty() && !payload.proposes_to_safe();
        if self.inner.paper.is_some() || !sends || payload.proposal().replaces.is_some() {
            return None;
        }
        let (chain_id, signer) = (payload.proposal().chain_id, payload.signer());
        // The chain is read first: a transaction of this ledger is in it before it is on the chain.
        let seen = self.sender(chain_id).ok()?.nonces_despite_disputes(signer).await.ok()?;
        let read = self.inner.store.read(|connection| sender::next_nonce(connection, chain_id, signer, seen));
        match read {
            Err(error @ LaneError::ChainAhead { .. }) => {
                Some(Verdict::because(Check::Simulation, ErrorCode::AccountUsedOutside, &error, Vec::new()))
            }
            Ok(_) | Err(_) => None,
        }
    }

    /// Returns true if the action would be simulated differently now, because of what the account itself has done since:
    /// signed or settled another transaction, or opened or ended an order. If the ledger cannot be read, it counts as such.
    pub fn is_outdated(&self, preview: &Preview) -> bool {
        let proposal = preview.payload.proposal();
        let replaced = proposal.replaces.as_ref();
        replaced.is_some_and(|replaced| self.waiting_transaction(replaced.hash, proposal.account).is_err())
            || self.under_way(&preview.payload).is_ok_and(|now| now == preview.under_way).not()
    }

    fn under_way(&self, payload: &SigningPayload) -> Result<UnderWay, PipelineRefusal> {
        let (chain_id, signer) = (payload.proposal().chain_id, payload.signer());
        let promised = self.promised(payload)?;
        let read = self.inner.store.read(|connection| {
            let open = sender::open(connection, chain_id)?;
            Ok::<_, RecordError>((open, sender::lane(connection, chain_id, signer)?.next))
        });
        let (open, next_nonce) = read.map_err(|error| PipelineRefusal::new(ErrorCode::StoreUnavailable, error))?;
        let own = open.iter().filter(|record| record.signed.from() == signer);
        Ok(UnderWay { promised, next_nonce, unsettled: own.map(TxRecord::hash).collect() })
    }

    /// Refuses an action that allows Permit2 what an open order could take, after that order has ended: the allowance
    /// would be too large. Other allowances leave no room for orders.
    pub(super) fn order_has_ended(&self, preview: &Preview) -> Result<(), PipelineRefusal> {
        if preview.simulated.only_revokes {
            return Ok(());
        }
        let now = self.promised(&preview.payload)?;
        let proposal = preview.payload.proposal();
        let permit2 = self.reader(proposal.chain_id)?.network().book.contract(KnownContract::Permit2);
        let of_orders =
            proposal.allowances.iter().filter(|bound| permit2.is_none_or(|permit2| bound.spender == permit2));
        let allowed = of_orders.filter_map(|bound| match bound.token.id {
            TokenId::Erc20(token) => Some(token),
            TokenId::Native => None,
        });
        let promised =
            |amounts: &BTreeMap<Address, U256>, token: Address| amounts.get(&token).copied().unwrap_or_default();
        let mut allowed =
            allowed.filter(|token| promised(&now, *token) < promised(&preview.under_way.promised, *token));
        match allowed.next() {
            None => Ok(()),
            Some(_) => {
                let why = "an open order that its allowance was prepared for has ended meanwhile: preview it again";
                Err(PipelineRefusal::new(ErrorCode::PermitMismatch, why))
            }
        }
    }

    /// Returns a blocking verdict if the policy names the acting account as its own second approver: one key would be
    /// both persons.
    fn approves_itself(&self, payload: &SigningPayload, inputs: &CheckInputs) -> Option<Verdict> {
        let second = self.inner.rules.second_approval(payload, inputs)?;
        let own = payload.exposed().into_iter().find(|own| second.approvers.contains(own))?;
        let why = format!(
            "second_approval.approvers names {own}, which acts itself: name an address whose key another person has"
        );
        Some(Verdict::because(Check::SpendingLimit, ErrorCode::SafetyNotAllowed, why, Vec::new()))
    }

    /// Returns a blocking verdict if the action must go through a private relay and the chain has none: it would be
    /// signed and could not be sent.
    pub(super) fn unseen(
        &self,
        payload: &SigningPayload,
        inputs: &CheckInputs,
    ) -> Result<Option<Verdict>, PipelineRefusal> {
        let chain_id = payload.proposal().chain_id;
        if !self.inner.rules.needs_private_relay(payload, inputs) || self.sender(chain_id)?.has_relay() {
            return Ok(None);
        }
        let why = "it must go through a private relay, but none is configured for this chain";
        let violation = Violation::new(
            RuleName::PrivateRpcAboveUsd,
            "above it, a transaction is sent to a private relay only",
            "no relay",
            "a smaller amount, or the same after setting `relay` for this chain in the configuration",
        );
        Ok(Some(Verdict::because(Check::SpendingLimit, ErrorCode::SafetyNotAllowed, why, vec![violation])))
    }

    /// Asks the safety-guardian about an action above the hot lane. Anything but agreement blocks the action. For a
    /// fair exit, an objection to the size or a missing guardian is left to the operator: a buying limit must not lock
    /// a position in.
    async fn ask_guardian(&self, payload: &SigningPayload, inputs: &CheckInputs) -> Result<GuardianOpinion, Verdict> {
        let blocked = |why: String| {
            let violation =
                Violation::new(RuleName::HotLane, "above it, the safety-guardian must agree", &why, "a smaller amount");
            Verdict::because(Check::SpendingLimit, ErrorCode::SafetySpendingLimitExceeded, why, vec![violation])
        };
        let Some(guardian) = &self.inner.guardian else {
            if inputs.reduce_only() {
                let why = SafeText::clean("no safety-guardian is running", 40);
                return Ok(GuardianOpinion { agrees: false, why, left_to_operator: true });
            }
            return Err(blocked(
                "it needs the safety-guardian's agreement, but no safety-guardian is running".to_owned(),
            ));
        };
        let (Some(simulated), Ok(values)) = (&inputs.simulation, &inputs.values) else {
            return Err(blocked("it needs the safety-guardian's agreement, but its value is unknown".to_owned()));
        };
        let shifts = self.shifts(payload).map_err(|refusal| blocked(refusal.message))?;
        match guardian.review(ReviewCase { payload, simulated, values, shifts: &shifts }).await {
            Ok(opinion) if opinion.agrees || opinion.left_to_operator && inputs.reduce_only() => Ok(opinion),
            Ok(opinion) => Err(blocked(format!("the safety-guardian does not agree: {}", opinion.why))),
            Err(error) => Err(blocked(error.to_string())),
        }
    }
}
