//! Signing of one transaction: creates the capability, asks the account, compares the signed transaction with the
//! payload, and stores it before anything is sent.

use std::sync::Arc;

use alloy::consensus::Transaction as _;
use alloy::primitives::{Address, B256, Signature, TxKind};
use alloy::sol_types::SolCall as _;
use serde_json::json;
use tracing::{Span, field::display, instrument};

use super::assess::Assessment;
use super::capability::Capability;
use super::commit::ReservedSpend;
use super::replace::SigningNonce;
use super::{Pipeline, PreparedAction};
use crate::account::SignError;
use crate::audit::{self, AuditError, AuditKind, LogEntry};
use crate::parties::{ActionParty, PartyRole};
use crate::permit::{self, NotedLeg};
use crate::policy_engine::ReserveError;
use crate::proposal::{LegPurpose, ProposalIntent, SIGNATURE_BYTES};
use crate::signing_payload::{FeeBound, PayloadLeg, SigningPayload};
use bardo_abi::erc20::Erc20;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::TxState;
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::signer::signer_of;
use bardo_store::StoreError;
use golem_chain::sender::{self, RecordError, SendPermit, SendRoute, TxSender};
use golem_chain::signed::SignedTransaction;

/// Transaction that is signed and stored.
pub(super) struct StoredTx {
    pub send_permit: SendPermit,
    pub signed: SignedTransaction,
    pub route: SendRoute,
}

/// Reason why a signed transaction was not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreTxError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Ledger(#[from] ReserveError),
}

/// Reason why there is no stored transaction for a step of the plan.
#[derive(Debug)]
pub(super) struct NotStored {
    /// Nonce to release; `None` if it may have been signed with.
    pub nonce: Option<SigningNonce>,
    pub code: ErrorCode,
    pub why: String,
    /// True if it counts as a failure for the failure breaker; false if the action was withdrawn.
    pub failed: bool,
    /// True if the signer may have signed, and may send it itself.
    pub may_be_signed: bool,
}

impl NotStored {
    fn before(nonce: SigningNonce, code: ErrorCode, why: &str) -> Self {
        Self { nonce: Some(nonce), code, why: why.to_owned(), failed: false, may_be_signed: false }
    }

    /// Outcome of an error of the store; it has a nonce only if nothing can be on disk. `replacing` is the nonce if the
    /// transaction replaces a waiting one.
    fn in_store(replacing: Option<SigningNonce>, error: &StoreTxError) -> Self {
        let why = error.to_string();
        match (error, replacing) {
            // A replacement that its checks refused inside the transaction is not on disk.
            (
                StoreTxError::Record(
                    RecordError::Ended { .. }
                    | RecordError::TooCheap
                    | RecordError::Mismatch { .. }
                    | RecordError::NotReplaceable { .. },
                )
                | StoreTxError::Ledger(ReserveError::Ledger(_)),
                Some(nonce),
            ) => {
                Self { nonce: Some(nonce), code: ErrorCode::ValidationFailed, why, failed: false, may_be_signed: false }
            }
            // The row may or may not be on disk. The transaction was not sent, and recovery settles it.
            _ => Self { nonce: None, code: ErrorCode::StoreUnavailable, why, failed: false, may_be_signed: false },
        }
    }
}

/// Reason for refusing every signature in paper mode.
pub(super) const ON_PAPER: &str = "paper mode signs nothing";

/// Returns true if the calldata is an ERC-20 `approve` of more than zero.
fn allows(call: &[u8]) -> bool {
    Erc20::approveCall::abi_decode(call).is_ok_and(|approve| !approve.value.is_zero())
}

impl Pipeline {
    /// Signs one transaction and stores it. The stop file is read again before and after signing: nothing signed is
    /// stored once a stop has been set.
    ///
    /// # Errors
    /// [`NotStored`] if nothing will be sent. The stored state is unknown if it has no ticket.
    #[instrument(level = "debug", name = "sign", skip_all, fields(chain_id = prepared.preview.payload.proposal().chain_id, tx_hash))]
    pub(super) async fn sign_and_store(
        &self,
        prepared: &PreparedAction,
        assessment: &Assessment,
        leg: usize,
        (nonce, fees): (SigningNonce, FeeBound),
        (route, held): (SendRoute, ReservedSpend),
    ) -> Result<StoredTx, NotStored> {
        let PreparedAction { preview, account, .. } = prepared;
        let payload = &preview.payload;
        let signed = self.sign_as_framed(prepared, assessment, leg, (&nonce, fees)).await?;
        let noted = NotedLeg {
            leg,
            of: payload.legs().len(),
            main: payload.legs().get(leg).is_none_or(|leg| leg.purpose == LegPurpose::Main),
            only_revokes: assessment.inputs.only_revokes(),
        };
        let (permit_id, call_id) = (preview.permit.permit_id, payload.proposal().call_id);
        let golem_id = payload.proposal().golem_id.clone();
        let mut body = json!({
            "permit_id": permit_id, "leg": leg + 1, "of": noted.of, "hash": signed.hash(), "chain_id": signed.chain_id(),
            "from": signed.from(), "to": signed.transaction().to(), "nonce": signed.nonce(),
            "by": account.kind().as_str(), "route": match route { SendRoute::Public => "public", SendRoute::Private => "private" },
            "replaces": payload.proposal().replaces.map(|replaced| replaced.hash),
        });
        let (chain_id, owner) = (payload.proposal().chain_id, payload.account());
        let allows = payload.proposal().legs.get(leg).filter(|leg| allows(&leg.data)).map(|leg| leg.to);
        let allows = allows.map(|address| ActionParty { role: PartyRole::Token, chain_id, address, account: owner });
        let records = self.inner.known.clone();
        let (clock, bytes) = (Arc::clone(&self.inner.clock), signed.clone());
        let repeats = payload.proposal().intent == ProposalIntent::SpeedUp;
        let replacing = Some(nonce.clone()).filter(|nonce| matches!(nonce, SigningNonce::Replacing(_)));
        let (pipeline, extra) = (self.clone(), Self::extra_usd(payload, assessment, &held));
        let stored = self.inner.store.write(move |transaction| -> Result<SendPermit, StoreTxError> {
            let now = clock.now_millis();
            let send_permit = match nonce {
                SigningNonce::Reserved(ticket) => {
                    sender::keep(transaction, &ticket, &bytes, route, Some(call_id), now)?
                }
                SigningNonce::Replacing(old) if repeats => {
                    let kept = sender::store_repetition(transaction, old.hash, &bytes, now)?;
                    body["plan"] =
                        json!(pipeline.adopt(transaction, (permit_id, held), (old.hash, bytes.hash()), extra, now)?);
                    kept
                }
                SigningNonce::Replacing(old) => sender::store_rival(transaction, old.hash, &bytes, call_id, now)?,
            };
            if !repeats {
                permit::note_leg(transaction, permit_id, noted, bytes.hash())?;
            }
            if let Some(token) = allows {
                records.note(transaction, token, call_id, now)?;
            }
            let entry =
                LogEntry { kind: AuditKind::TxSigned, call_id: Some(call_id), golem_id: &golem_id, body: &body };
            audit::append(transaction, now, &entry)?;
            failpoint::reach(Failpoint::InsideStore);
            Ok(send_permit)
        });
        match stored.await {
            Ok(send_permit) => {
                failpoint::reach(Failpoint::Stored);
                Span::current().record("tx_hash", display(signed.hash()));
                self.emit_leg(payload, leg, signed.hash(), TxState::Signed, (None, None));
                Ok(StoredTx { send_permit, signed, route })
            }
            Err(error) => Err(NotStored::in_store(replacing, &error)),
        }
    }

    /// Signs transaction number `leg` of the plan and compares what the account returned with it. Refuses while a stop is
    /// in force that the assessment did not see, before and after signing.
    ///
    /// # Errors
    /// [`NotStored`], always with its nonce.
    async fn sign_as_framed(
        &self,
        prepared: &PreparedAction,
        assessment: &Assessment,
        leg: usize,
        (nonce, fees): (&SigningNonce, FeeBound),
    ) -> Result<SignedTransaction, NotStored> {
        let payload = &prepared.preview.payload;
        let refused = |code: ErrorCode, why: &str| NotStored::before(nonce.clone(), code, why);
        let failed = |code: ErrorCode, why: &str| NotStored { failed: true, ..refused(code, why) };
        if self.inner.paper.is_some() {
            return Err(refused(ErrorCode::WalletNotConfigured, ON_PAPER));
        }
        let stopped = || self.inner.rules.stop() != assessment.inputs.stop;
        let Some(capability) = Capability::new(payload.clone(), leg, nonce.number(), fees) else {
            return Err(refused(ErrorCode::PermitMismatch, "its fees are out of bounds"));
        };
        if stopped() {
            return Err(refused(ErrorCode::Halted, "a stop was set before it was signed"));
        }
        let purpose = payload.legs().get(leg).map_or(LegPurpose::Main, |leg| leg.purpose);
        self.step(payload, if purpose == LegPurpose::Approve { "Approving token" } else { "Signing transaction" });
        let signed = match prepared.account.sign(capability).await {
            Ok(signed) => signed,
            Err(error) => {
                // The nonce is free for the next transaction even if this one was signed: at most one of the two can happen.
                let (code, failed) = (error.code(), error.is_failure());
                let may_be_signed = matches!(error, SignError::Unclear(_));
                let nonce = Some(nonce.clone());
                return Err(NotStored { nonce, code, why: error.to_string(), failed, may_be_signed });
            }
        };
        failpoint::reach(Failpoint::Signed);
        if let Err(why) = as_framed(payload, leg, nonce.number(), fees, &signed) {
            // The signature covers something else: the transaction is dropped, never stored or sent.
            let why = format!("the account signed a different transaction: {why}");
            return Err(failed(ErrorCode::PermitMismatch, &why));
        }
        if stopped() {
            return Err(refused(ErrorCode::Halted, "a stop was set before it was sent"));
        }
        Ok(signed)
    }

    /// Releases the nonce of a transaction that was not stored. Returns a remark if that fails.
    pub(super) async fn undo(&self, sender: &TxSender, not_stored: &NotStored) -> Option<String> {
        // The nonce of a waiting transaction stays that transaction's.
        let Some(SigningNonce::Reserved(ticket)) = not_stored.nonce.clone() else { return None };
        sender.release_nonce(ticket).await.err().map(|error| format!("the nonce could not be released: {error}"))
    }
}

/// Checks that `signed` is exactly transaction number `leg` of the payload, with valid signatures of the right signers
/// in its signature slots.
pub(super) fn as_framed(
    payload: &SigningPayload,
    leg: usize,
    nonce: u64,
    fees: FeeBound,
    signed: &SignedTransaction,
) -> Result<(), &'static str> {
    let chain_id = payload.proposal().chain_id;
    let wanted = payload.legs().get(leg).ok_or("there is no such transaction")?;
    let transaction = signed.transaction();
    let same = |holds: bool, what: &'static str| if holds { Ok(()) } else { Err(what) };
    same(signed.from() == wanted.from, "another account signed")?;
    same(signed.chain_id() == chain_id, "another chain")?;
    same(signed.nonce() == nonce, "another nonce")?;
    same(transaction.kind() == TxKind::Call(wanted.to), "another target")?;
    same(transaction.value() == wanted.value, "another value")?;
    same(transaction.gas_limit() == wanted.gas_limit, "another gas limit")?;
    same(transaction.max_fee_per_gas() == fees.max_fee_per_gas, "other fees")?;
    same(transaction.max_priority_fee_per_gas() == Some(fees.max_priority_fee_per_gas), "another priority fee")?;
    same(transaction.access_list().is_none_or(|list| list.is_empty()), "an access list")?;
    same(transaction.authorization_list().is_none_or(<[_]>::is_empty), "a delegation")?;
    same(transaction.blob_versioned_hashes().is_none_or(<[_]>::is_empty), "blobs")?;
    filled(wanted, transaction.input(), chain_id)
}

/// Checks that `data` is the transaction's calldata with each slot filled by a signature of its signer.
fn filled(leg: &PayloadLeg, data: &[u8], chain_id: u64) -> Result<(), &'static str> {
    if data.len() != leg.data.len() {
        return Err("calldata of another length");
    }
    let mut expected = leg.data.to_vec();
    for slot in &leg.slots {
        let range = slot.offset..slot.offset.saturating_add(SIGNATURE_BYTES);
        let given = data.get(range.clone()).ok_or("a signature outside the calldata")?;
        let signer = recovered(given, slot.message.digest(chain_id)).ok_or("a broken signature in the calldata")?;
        if signer != slot.signer {
            return Err("a signature of another account in the calldata");
        }
        expected.get_mut(range).ok_or("a signature outside the calldata")?.copy_from_slice(given);
    }
    if expected == data { Ok(()) } else { Err("other calldata") }
}

fn recovered(signature: &[u8], digest: B256) -> Option<Address> {
    signer_of(&Signature::from_raw(signature).ok()?, &digest)
}

#[cfg(test)]
mod tests;
