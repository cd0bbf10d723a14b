//! Replacement of a pending transaction with higher fees: same nonce, same call, and never above the payload's gas
//! bound, which the operator saw and the ledger reserved. A transaction that cannot be replaced keeps waiting. Under a
//! stop only revocations are replaced.

use alloy::primitives::B256;
use serde_json::json;

use super::assess::Assessment;
use super::capability::Capability;
use super::settle::ResendClearance;
use super::sign::{StoreTxError, as_framed};
use super::{Pipeline, PreparedAction};
use crate::account::SignError;
use crate::audit::{self, AuditKind, LogEntry};
use crate::permit;
use crate::signing_payload::FeeBound;
use bardo_base::fabric::TxState;
use bardo_base::failpoint::{self, Failpoint};
use golem_chain::sender::{self, SendOutcome, SendPermit, SendState as Stage, SenderError, TxFees, TxSender};

/// Error of outbidding a waiting transaction.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutbidError {
    /// A stop forbids another signature.
    #[error("a stop was set")]
    Stopped,
    /// The sender knows no fees that outbid it within the cap.
    #[error(transparent)]
    Sender(#[from] SenderError),
    /// The new fees are above what was shown and approved.
    #[error("its fees would exceed the maximum that the permit allows")]
    AboveBound,
    /// The account does not sign.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// The account signed other bytes; the difference.
    #[error("{0}")]
    OtherBytes(&'static str),
    /// The new transaction is not stored.
    #[error(transparent)]
    Keep(#[from] StoreTxError),
    /// No endpoint takes the new transaction.
    #[error("its replacement {0} was refused")]
    Refused(B256),
}

impl Pipeline {
    /// Signs transaction number `leg` again to replace `old`, stores it and sends it. Returns the new hash and a remark
    /// for the report.
    ///
    /// # Errors
    /// [`OutbidError`]. The old one still waits then, whatever was signed: nothing that was not stored is sent.
    #[tracing::instrument(level = "debug", skip_all, fields(tx_hash = %old))]
    pub(super) async fn outbid(
        &self,
        prepared: &PreparedAction,
        assessment: &Assessment,
        leg: usize,
        (sender, old): (&TxSender, B256),
    ) -> Result<(B256, String), OutbidError> {
        let PreparedAction { preview, account, .. } = prepared;
        let payload = &preview.payload;
        let stopped = || !self.may_send_again(ResendClearance::of(assessment));
        if stopped() {
            return Err(OutbidError::Stopped);
        }
        let bound = payload.fees();
        let cap =
            TxFees { max_fee_per_gas: bound.max_fee_per_gas, max_priority_fee_per_gas: bound.max_priority_fee_per_gas };
        let replacement = sender.outbid(old, cap).await?;
        let old = replacement.replaces;
        let TxFees { max_fee_per_gas, max_priority_fee_per_gas } = replacement.fees;
        let fees = FeeBound { max_fee_per_gas, max_priority_fee_per_gas };
        // The content comes from the payload, not from the pending transaction.
        let capability = Capability::new(payload.clone(), leg, replacement.nonce, fees);
        let capability = capability.ok_or(OutbidError::AboveBound)?;
        let signed = account.sign(capability).await?;
        as_framed(payload, leg, replacement.nonce, fees, &signed).map_err(OutbidError::OtherBytes)?;
        failpoint::reach(Failpoint::OutbidSigned);
        if stopped() {
            return Err(OutbidError::Stopped);
        }
        let proposal = payload.proposal();
        let (permit_id, call_id, golem_id) = (preview.permit.permit_id, proposal.call_id, proposal.golem_id.clone());
        let body = json!({
            "permit_id": permit_id, "leg": leg + 1, "hash": signed.hash(), "replaces": old, "nonce": signed.nonce(),
            "chain_id": signed.chain_id(), "from": signed.from(), "max_fee_per_gas": max_fee_per_gas.to_string(),
            "max_priority_fee_per_gas": max_priority_fee_per_gas.to_string(),
        });
        let (clock, bytes) = (self.inner.clock.clone(), signed.clone());
        let stored = self.inner.store.write(move |transaction| -> Result<SendPermit, StoreTxError> {
            let now = clock.now_millis();
            let kept = sender::store_replacement(transaction, old, &bytes, now)?;
            permit::replace_leg(transaction, permit_id, leg, bytes.hash())?;
            let entry =
                LogEntry { kind: AuditKind::TxOutbid, call_id: Some(call_id), golem_id: &golem_id, body: &body };
            audit::append(transaction, now, &entry)?;
            failpoint::reach(Failpoint::OutbidInsideStore);
            Ok(kept)
        });
        let kept = stored.await?;
        failpoint::reach(Failpoint::OutbidStored);
        let hash = kept.hash();
        self.emit_leg(payload, leg, hash, TxState::Signed, (None, None));
        let sent = sender.send(kept).await;
        if let Ok(SendOutcome { state: Stage::Dropped, .. }) = sent {
            self.emit_leg(payload, leg, hash, TxState::Dropped, (None, None));
            self.emit_leg(payload, leg, old, TxState::Sent, (None, None));
            // Further replacements would be refused for the same reason.
            return Err(OutbidError::Refused(hash));
        }
        self.emit_leg(payload, leg, hash, if sent.is_ok() { TxState::Sent } else { TxState::Unclear }, (None, None));
        Ok((
            hash,
            format!("{old} was not included: {hash} replaces it, at up to {max_fee_per_gas} wei per unit of gas"),
        ))
    }
}
