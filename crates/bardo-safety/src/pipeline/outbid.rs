//! Replacement of a pending transaction with higher fees: same nonce, same call, and never above the payload's gas
//! bound, which the operator saw and the ledger reserved. A transaction that cannot be replaced keeps waiting. Under a
//! stop only revocations are replaced.

use alloy::primitives::B256;
use serde_json::json;

use super::assess::Assessment;
use super::capability::Capability;
use super::settle::Leave;
use super::sign::{KeepError, as_framed};
use super::{Pipeline, Prepared};
use crate::audit::{self, Entry, Kind};
use crate::framed::FeeBound;
use crate::permit;
use bardo_base::fabric::TxState;
use bardo_base::failpoint::{self, Failpoint};
use golem_chain::sender::{self, Fees, Kept, SendOutcome, Sender, TxState as Stage};

impl Pipeline {
    /// Signs transaction number `leg` again to replace `old`, stores it and sends it. Returns the new hash and a remark
    /// for the report.
    ///
    /// # Errors
    /// The reason, in words. Then `old` still waits, even if a replacement was signed: nothing is sent that is not
    /// stored.
    #[tracing::instrument(level = "debug", skip_all, fields(tx_hash = %old))]
    pub(super) async fn outbid(
        &self,
        prepared: &Prepared,
        assessment: &Assessment,
        leg: usize,
        (sender, old): (&Sender, B256),
    ) -> Result<(B256, String), String> {
        let Prepared { preview, account, .. } = prepared;
        let framed = &preview.framed;
        let stopped = || !self.may_send_again(Leave::of(assessment));
        let said = |error: &dyn std::fmt::Display| error.to_string();
        if stopped() {
            return Err("a stop was set".to_owned());
        }
        let bound = framed.fees();
        let cap =
            Fees { max_fee_per_gas: bound.max_fee_per_gas, max_priority_fee_per_gas: bound.max_priority_fee_per_gas };
        let replacement = sender.outbid(old, cap).await.map_err(|error| said(&error))?;
        let old = replacement.replaces;
        let Fees { max_fee_per_gas, max_priority_fee_per_gas } = replacement.fees;
        let fees = FeeBound { max_fee_per_gas, max_priority_fee_per_gas };
        // The content comes from the payload, not from the pending transaction.
        let capability = Capability::new(framed.clone(), leg, replacement.nonce, fees);
        let capability = capability.ok_or("its fees would exceed the gas limit of the permit")?;
        let signed = account.sign(capability).await.map_err(|error| said(&error))?;
        as_framed(framed, leg, replacement.nonce, fees, &signed).map_err(str::to_owned)?;
        failpoint::reach(Failpoint::OutbidSigned);
        if stopped() {
            return Err("a stop was set".to_owned());
        }
        let proposal = framed.proposal();
        let (permit_id, call_id, golem_id) = (preview.permit.permit_id, proposal.call_id, proposal.golem_id.clone());
        let body = json!({
            "permit_id": permit_id, "leg": leg + 1, "hash": signed.hash(), "replaces": old, "nonce": signed.nonce(),
            "chain_id": signed.chain_id(), "from": signed.from(), "max_fee_per_gas": max_fee_per_gas.to_string(),
            "max_priority_fee_per_gas": max_priority_fee_per_gas.to_string(),
        });
        let (clock, bytes) = (self.inner.clock.clone(), signed.clone());
        let stored = self.inner.store.write(move |transaction| -> Result<Kept, KeepError> {
            let now = clock.now_millis();
            let kept = sender::keep_replacement(transaction, old, &bytes, now)?;
            permit::replace_leg(transaction, permit_id, leg, bytes.hash())?;
            let entry = Entry { kind: Kind::TxOutbid, call_id: Some(call_id), golem_id: &golem_id, body: &body };
            audit::append(transaction, now, &entry)?;
            failpoint::reach(Failpoint::OutbidInsideStore);
            Ok(kept)
        });
        let kept = stored.await.map_err(|error| said(&error))?;
        failpoint::reach(Failpoint::OutbidStored);
        let hash = kept.hash();
        self.say_leg(framed, leg, hash, TxState::Signed, None);
        let sent = sender.send(kept).await;
        if let Ok(SendOutcome { state: Stage::Dropped, .. }) = sent {
            self.say_leg(framed, leg, hash, TxState::Dropped, None);
            self.say_leg(framed, leg, old, TxState::Sent, None);
            // Further replacements would be refused for the same reason.
            return Err(format!("its replacement {hash} was refused"));
        }
        self.say_leg(framed, leg, hash, if sent.is_ok() { TxState::Sent } else { TxState::Unclear }, None);
        Ok((
            hash,
            format!("{old} was not included: {hash} replaces it, at up to {max_fee_per_gas} wei per unit of gas"),
        ))
    }
}
