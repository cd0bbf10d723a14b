//! Actions that take the nonce of a waiting transaction: the same call with higher fees, or a cancellation.
//!
//! They pass through the pipeline like every other action. What differs:
//!
//! | step | difference |
//! |---|---|
//! | content | derived from the signed bytes of the waiting transaction, whose row is compared with them each time |
//! | nonce | not allocated: the one of the waiting transaction, which the chain must not have used |
//! | fees | at least an eighth above those of the waiting transaction, within the bound that the operator saw |
//! | account lock | not taken: the plan that waits may hold it, and no other nonce or allowance is touched |
//! | consent | the operator's, each time |
//! | ledger | a cancellation reserves its gas under its own permit. A repetition becomes the plan's transaction in the plan's own permit, and what it may cost more counts as spent at once |

use alloy::primitives::{Address, B256, U256};
use rusqlite::Transaction;
use serde_json::json;

use super::assess::{Assessment, gas_usd};
use super::commit::{LegReport, ReservedSpend};
use super::settle::ResendClearance;
use super::{Pipeline, PipelineRefusal};
use crate::approval::{ApprovalNeed, ApprovalReason};
use crate::audit::{AuditKind, AuditNote};
use crate::check_inputs::CheckInputs;
use crate::permit;
use crate::policy_engine::{ActionEnd, ReserveError};
use crate::proposal::{PlanLeg, Proposal, ProposalIntent, ReplacedTx};
use crate::signing_payload::{FeeBound, SigningPayload};
use crate::waiting_plan::origin_of;
use bardo_base::error::ErrorCode;
use bardo_base::id::{GolemId, PermitId};
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::sender::{
    self, FeeError, NonceReservation, RecordError, SendOutcome, SenderError, TxFees, TxRecord, TxSender,
};

/// Room of a replacement's fee bound above the fees that suffice at the preview: one full block raises the base fee by
/// an eighth.
const FEE_ROOM: u128 = 8;

/// Maximum length of a token's symbol, in characters.
const SYMBOL: usize = 12;

/// Nonce that a transaction is signed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SigningNonce {
    /// Allocated for it.
    Reserved(NonceReservation),
    /// Nonce of a waiting transaction.
    Replacing(ReplacedTx),
}

impl SigningNonce {
    pub(super) const fn number(&self) -> u64 {
        match self {
            Self::Reserved(ticket) => ticket.nonce,
            Self::Replacing(replaced) => replaced.nonce,
        }
    }
}

/// Fees as a bound, in wei per unit of gas.
const fn bound(fees: TxFees) -> FeeBound {
    FeeBound { max_fee_per_gas: fees.max_fee_per_gas, max_priority_fee_per_gas: fees.max_priority_fee_per_gas }
}

const fn fees(bound: FeeBound) -> TxFees {
    TxFees { max_fee_per_gas: bound.max_fee_per_gas, max_priority_fee_per_gas: bound.max_priority_fee_per_gas }
}

fn refused(error: &SenderError) -> PipelineRefusal {
    let code = match error {
        SenderError::Record(RecordError::Store(_)) => ErrorCode::StoreUnavailable,
        SenderError::Record(_) => ErrorCode::ValidationFailed,
        other => return other.clone().into(),
    };
    PipelineRefusal::new(code, error)
}

/// Returns true if the call of a proposal is exactly `call`, without signatures to fill in.
fn is_call(leg: &PlanLeg, call: &golem_chain::sender::SignedCall) -> bool {
    (leg.to, leg.value, &leg.data, leg.gas_limit) == (call.to, call.value, &call.data, call.gas_limit)
        && leg.slots.is_empty()
}

/// Maximum cost of a replacement beyond the transaction that it takes the place of, in wei. Nothing of a cancelled one
/// is paid, so a cancellation costs what it costs.
fn extra_wei(payload: &SigningPayload, replaced: &ReplacedTx) -> U256 {
    let gas = payload.legs().iter().fold(0_u64, |sum, leg| sum.saturating_add(leg.gas_limit));
    let more = match payload.proposal().intent {
        ProposalIntent::SpeedUp => payload.fees().max_fee_per_gas.saturating_sub(replaced.fees.max_fee_per_gas),
        _ => payload.fees().max_fee_per_gas,
    };
    U256::from(gas).saturating_mul(U256::from(more))
}

impl Pipeline {
    /// Returns the waiting transaction of the account with this hash, on any connected chain, with the id of its chain.
    ///
    /// # Errors
    /// [`PipelineRefusal`] with `VALIDATION_FAILED` if the account has none that can be replaced.
    pub fn waiting_transaction(&self, hash: B256, account: Address) -> Result<TxRecord, PipelineRefusal> {
        let known = self.inner.chains.iter().find(|chain| {
            chain.sender.record(hash).is_ok_and(|record| record.signed.chain_id() == chain.sender.chain_id())
        });
        let Some(chain) = known else {
            return Err(refused(&RecordError::Unknown(hash).into()));
        };
        let record = chain.sender.waiting_of(hash, account).map_err(|error| refused(&error))?;
        record.call().map_err(|error| refused(&error.into()))?;
        Ok(record)
    }

    /// Sends a waiting transaction's signed bytes to all endpoints again. Nothing is signed. A stop forbids it as it
    /// forbids every resend, except for transactions that only revoke.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if there is no such transaction, a stop is in force, or nothing could be sent.
    pub async fn rebroadcast(&self, hash: B256, account: Address) -> Result<SendOutcome, PipelineRefusal> {
        let record = self.waiting_transaction(hash, account)?;
        let chain_id = record.signed.chain_id();
        let unreadable = |error: bardo_store::StoreError| PipelineRefusal::new(ErrorCode::StoreUnavailable, error);
        let noted = self.inner.store.read(|connection| permit::is_noted_as_revoking(connection, hash));
        let revokes = self.still_revokes(chain_id, hash, noted.map_err(unreadable)?).map_err(unreadable)?;
        if !self.may_send_again(ResendClearance::of_left(revokes)) {
            return Err(PipelineRefusal::new(ErrorCode::Halted, "a stop is in force: only revocations are sent again"));
        }
        let sender = self.sender(chain_id)?;
        let sent = sender.rebroadcast(hash, account).await.map_err(|error| refused(&error))?;
        let body = json!({
            "hash": hash, "chain_id": chain_id, "account": account, "nonce": record.signed.nonce(),
            "state": sent.state.to_string(), "fault": sent.fault.as_ref().map(|(_, words)| words.to_string()),
        });
        let note = AuditNote { kind: AuditKind::TxRebroadcast, call_id: None, golem_id: GolemId::operator(), body };
        if let Err(error) = self.inner.audit_log.record(note).await {
            tracing::warn!(%error, "a rebroadcast is not in the audit log");
        }
        Ok(sent)
    }

    /// Fee bound of an action that takes the nonce of a waiting transaction.
    pub(super) async fn replacement_bound(
        &self,
        chain_id: u64,
        replaced: &ReplacedTx,
    ) -> Result<FeeBound, PipelineRefusal> {
        let (sender, old) = (self.sender(chain_id)?, fees(replaced.fees));
        let capped = |cap| TxFees { max_fee_per_gas: cap, max_priority_fee_per_gas: u128::MAX };
        let cap = self.inner.rules.largest_gas_fee().unwrap_or(u128::MAX);
        let (least, cap) = match sender.replacement_fees(old, capped(cap)).await {
            // The check of the limit says by how much.
            Err(SenderError::Fees(FeeError::AboveCap { .. })) => {
                (sender.replacement_fees(old, capped(u128::MAX)).await, u128::MAX)
            }
            least => (least, cap),
        };
        let least = least.map_err(|error| refused(&error))?;
        let room = least.max_fee_per_gas.div_ceil(FEE_ROOM);
        let max_fee_per_gas = least.max_fee_per_gas.saturating_add(room).min(cap);
        Ok(FeeBound { max_fee_per_gas, max_priority_fee_per_gas: least.max_priority_fee_per_gas })
    }

    /// Compares an action that takes another's nonce with the signed bytes of the waiting transaction. Returns that
    /// transaction, or `None` for an action with a nonce of its own.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if intent, nonce, fees or call are not those of the signed bytes, or if the transaction no
    /// longer waits.
    pub(super) fn verified_replacement(&self, payload: &SigningPayload) -> Result<Option<TxRecord>, PipelineRefusal> {
        let Proposal { intent, replaces, chain_id, legs, outflows, inflows, allowances, arrival, .. } =
            payload.proposal();
        let takes_nonce = matches!(intent, ProposalIntent::SpeedUp | ProposalIntent::CancelTransaction);
        let mismatch = |why: &str| Err(PipelineRefusal::new(ErrorCode::PermitMismatch, why));
        let replaced = match (replaces, takes_nonce) {
            (None, false) => return Ok(None),
            (Some(replaced), true) => replaced,
            (None, true) | (Some(_), false) => return mismatch("its intent does not fit the nonce that it takes"),
        };
        self.owns_replaced(payload, replaced.hash)?;
        if payload.signer() != payload.account() {
            return mismatch("only an account that sends its own transactions can replace one");
        }
        let record = self.sender(*chain_id)?.waiting_of(replaced.hash, payload.signer());
        let record = record.map_err(|error| refused(&error))?;
        if record.signed.nonce() != replaced.nonce || bound(record.fees()) != replaced.fees {
            return mismatch("the waiting transaction has another nonce or other fees");
        }
        let signed = record.call().map_err(|error| refused(&error.into()))?;
        let wanted = if *intent == ProposalIntent::SpeedUp { signed } else { record.cancellation() };
        let declares = !(outflows.is_empty() && inflows.is_empty() && allowances.is_empty() && arrival.is_none());
        let [leg] = legs.as_slice() else { return mismatch("it has more than one transaction") };
        let [prepared] = payload.legs() else { return mismatch("it has more than one transaction") };
        let same_bytes = (prepared.from, prepared.to, prepared.value, &prepared.data, prepared.gas_limit)
            == (payload.account(), wanted.to, wanted.value, &wanted.data, wanted.gas_limit);
        if declares || !is_call(leg, &wanted) || !same_bytes || !prepared.slots.is_empty() {
            return mismatch("its call is not that of the waiting transaction's signed bytes");
        }
        Ok(Some(record))
    }

    /// Checks that the acting Golem's own call sent the transaction to replace. The operator may replace every one.
    fn owns_replaced(&self, payload: &SigningPayload, hash: B256) -> Result<(), PipelineRefusal> {
        let acting = &payload.proposal().golem_id;
        if acting.is_operator() {
            return Ok(());
        }
        let origin = self.inner.store.read(|connection| origin_of(connection, hash));
        match origin.map_err(|error| refused(&error.into()))? {
            Some(origin) if origin.golem_id == *acting => Ok(()),
            Some(origin) => {
                let why = format_args!("transaction {hash} was sent by {}, not by {acting}", origin.golem_id);
                Err(PipelineRefusal::new(ErrorCode::TransactionNotOwn, why))
            }
            None => {
                let why = format_args!("the ledger does not say who sent transaction {hash}");
                Err(PipelineRefusal::new(ErrorCode::TransactionNotOwn, why))
            }
        }
    }

    /// Returns the fees of an action that replaces a waiting transaction, with the chain's current state.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the chain has used the nonce, or if the bound does not cover the fees that are needed now.
    pub(super) async fn for_replacement(
        &self,
        payload: &SigningPayload,
        replaced: &ReplacedTx,
    ) -> Result<FeeBound, PipelineRefusal> {
        let sender = self.sender(payload.proposal().chain_id)?;
        let (nonces, needed) = futures::join!(
            sender.nonces_despite_disputes(payload.signer()),
            sender.replacement_fees(fees(replaced.fees), fees(payload.fees()))
        );
        let latest = nonces.map_err(|error| refused(&error))?.latest;
        if latest > replaced.nonce {
            let why = format!(
                "nonce {} of transaction {} is already used on chain: its receipt decides, and nothing can replace it",
                replaced.nonce, replaced.hash
            );
            return Err(PipelineRefusal::new(ErrorCode::ValidationFailed, why));
        }
        if latest < replaced.nonce && payload.proposal().intent == ProposalIntent::SpeedUp {
            let why = format!(
                "nonce {latest} comes first: higher fees do not help transaction {} with nonce {} before that one is \
                 included; speed up or cancel the transaction with nonce {latest}",
                replaced.hash, replaced.nonce
            );
            return Err(PipelineRefusal::new(ErrorCode::ValidationFailed, why));
        }
        let needed = match needed {
            Err(error @ SenderError::Fees(_)) => {
                return Err(PipelineRefusal::new(ErrorCode::PermitMismatch, error));
            }
            other => other.map_err(|error| refused(&error))?,
        };
        Ok(bound(needed))
    }

    /// Reason for asking the operator about an action that takes the nonce of a waiting transaction.
    pub(super) fn replacement_reason(payload: &SigningPayload, inputs: &CheckInputs) -> Option<ApprovalReason> {
        let replaced = payload.proposal().replaces.as_ref()?;
        let cancels = payload.proposal().intent == ProposalIntent::CancelTransaction;
        let extra = extra_wei(payload, replaced);
        let worst = payload.worst_gas();
        // On a rollup, the data fee comes on top. A repetition pays about that of the original, which it replaces.
        let whole = inputs.values.as_ref().map_or(worst, |values| values.gas_wei.max(worst));
        let extra = if cancels { extra.saturating_add(whole.saturating_sub(worst)) } else { extra };
        Some(ApprovalReason::Replaces {
            transaction: replaced.hash,
            nonce: replaced.nonce,
            cancels,
            extra_wei: extra,
            extra_usd: inputs.values.as_ref().ok().and_then(|values| share_of(values.gas, extra, whole)),
            symbol: SafeText::clean("ETH", SYMBOL),
            origin: None,
        })
    }

    /// Adds the native token, and tool and owner of the waiting transaction, to a reason about its nonce.
    pub(super) fn with_origin(&self, needs: ApprovalNeed, chain_id: u64) -> Result<ApprovalNeed, PipelineRefusal> {
        let ApprovalNeed::Approval { mut reasons } = needs else { return Ok(needs) };
        for reason in &mut reasons {
            if let ApprovalReason::Replaces { transaction, symbol, origin, .. } = reason {
                *symbol = SafeText::clean(self.reader(chain_id)?.network().native_symbol, SYMBOL);
                let found = self.inner.store.read(|connection| origin_of(connection, *transaction));
                *origin = found.map_err(|error| refused(&error.into()))?;
            }
        }
        Ok(ApprovalNeed::Approval { reasons })
    }

    /// Makes a stored repetition the transaction of the plan that waits for it, and ends the repetition's own permit:
    /// what it may cost more counts as spent.
    ///
    /// # Errors
    /// [`ReserveError::Ledger`] if no open plan waits for the original; nothing is stored then.
    pub(super) fn adopt(
        &self,
        transaction: &Transaction<'_>,
        (permit_id, held): (PermitId, ReservedSpend),
        (old, new): (B256, B256),
        extra: Usd,
        now: u64,
    ) -> Result<Option<PermitId>, ReserveError> {
        // The plan's row may name an earlier transaction of its own, after an automatic replacement or a refused one.
        let known = sender::kin(transaction, old).map_err(|error| ReserveError::Ledger(error.to_string()))?;
        let mut plan = None;
        for hash in known {
            plan = permit::replace_hash(transaction, hash, new)?.or(plan);
        }
        // Only an open plan still reserves what the call spends: without one the call would count against no limit.
        let open = match plan {
            Some(plan) => !permit::has_ended(transaction, plan)?,
            None => false,
        };
        if !open {
            let why = format!("no open action waits for transaction {old}: cancel it instead");
            return Err(ReserveError::Ledger(why));
        }
        self.inner.rules.settle(transaction, now, held.reservation, ActionEnd::Partly { spent: extra })?;
        permit::note_end(transaction, permit_id, "withdrawn")?;
        Ok(plan)
    }

    /// Dollars of what a replacement may cost more; all of its reserved gas without a price.
    pub(super) fn extra_usd(payload: &SigningPayload, assessment: &Assessment, held: &ReservedSpend) -> Usd {
        let replaced = payload.proposal().replaces.as_ref();
        let extra = replaced.map(|replaced| extra_wei(payload, replaced));
        extra.and_then(|extra| gas_usd(&assessment.view.spreads, extra)).unwrap_or(held.gas).min(held.spent)
    }

    /// Records which of the transactions with the nonce was included, by its receipt.
    pub(super) async fn record_rivals(&self, payload: &SigningPayload, sender: &TxSender, legs: &[LegReport]) {
        let (Some(replaced), Some(last)) = (payload.proposal().replaces, legs.last()) else { return };
        let included = [last.hash, replaced.hash]
            .into_iter()
            .find(|hash| sender.record(*hash).is_ok_and(|record| record.state.is_mined()));
        let body = json!({
            "nonce": replaced.nonce, "original": replaced.hash, "replacement": last.hash, "included": included,
            "intent": payload.proposal().intent.as_str(),
        });
        if let Err(error) = self.inner.audit_log.record(self.note(payload, AuditKind::ActionVerified, body)).await {
            tracing::warn!(%error, "the outcome of a replacement is not in the audit log");
        }
    }
}

/// `gas` · `part` / `whole`, rounded up; `None` if it cannot be computed.
fn share_of(gas: Usd, part: U256, whole: U256) -> Option<Usd> {
    if part >= whole {
        return Some(gas);
    }
    // Ten-thousandths, rounded up, are exact enough for a figure that is shown.
    let share = part.saturating_mul(U256::from(10_000)).div_ceil(whole);
    Usd::value_of(TokenAmount::new(share, 4).ok()?, gas, Rounding::Up).ok()
}
