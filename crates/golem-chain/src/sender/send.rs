//! Submission of stored transactions: each request sends once, on one route, and records the answer.

use std::sync::Arc;

use alloy::primitives::{B256, Bytes};
use alloy::providers::Provider as _;

use super::fault::{FaultTreatment, SendFault};
use super::record::{SendPermit, SendRoute, TxRecord, advance, count_send, family, sendable, settle};
use super::state::{SendEvent, SendState};
use super::{SenderError, TxSender, lane};
use crate::provider::ProviderError;
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::text::SafeText;

/// Result of a send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendOutcome {
    /// State of the transaction after the send.
    pub state: SendState,
    /// Recommended next step.
    pub treatment: FaultTreatment,
    /// Failure class and sanitised message; `None` if the endpoint accepted the transaction.
    pub fault: Option<(SendFault, SafeText)>,
}

/// Maximum length of a quoted endpoint message, in characters.
const QUOTE_CHARS: usize = 300;

impl TxSender {
    /// Sends a stored transaction for the first time.
    ///
    /// # Errors
    /// [`SenderError`] if it was not sent or the result could not be recorded; [`Self::pending`] then lists it.
    pub async fn send(&self, kept: SendPermit) -> Result<SendOutcome, SenderError> {
        let record = self.record(kept.hash)?;
        self.dispatch(record).await
    }

    /// Sends a stored transaction again, as after a restart. It may have been sent before, so a refusal does not
    /// release its nonce. If it is a refused replacement and the one it should replace is waiting, that one is sent.
    /// Nothing is sent if none waits, or if a later transaction of another plan takes the nonce.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn resend(&self, hash: B256) -> Result<SendOutcome, SenderError> {
        let mut record = match self.0.store.read(|connection| sendable(connection, hash))? {
            Some(record) => record,
            None => {
                let state = self.record(hash)?.state;
                return Ok(SendOutcome { state, treatment: FaultTreatment::WaitForReceipt, fault: None });
            }
        };
        if record.state == SendState::Stored {
            let hash = record.hash();
            record.state = self.0.store.write(move |tx| advance(tx, hash, SendEvent::Lost, None)).await?;
        }
        self.dispatch(record).await
    }

    async fn dispatch(&self, record: TxRecord) -> Result<SendOutcome, SenderError> {
        let hash = record.hash();
        let (found, own) = (record.signed.chain_id(), self.chain_id());
        if found != own {
            return Err(SenderError::OtherChain { hash, found, own });
        }
        if record.settled_at.is_some() || !record.state.may_be_sent() {
            return Ok(SendOutcome { state: record.state, treatment: FaultTreatment::WaitForReceipt, fault: None });
        }
        let provider = match (record.route, &self.0.relay) {
            (SendRoute::Public, _) => self.0.client.provider(),
            (SendRoute::Private, Some(relay)) => relay.provider(),
            (SendRoute::Private, None) => return Err(SenderError::NoRelay(hash)),
        };
        let params = [Bytes::clone(record.signed.raw())];
        let answer: Result<B256, _> = provider.raw_request("eth_sendRawTransaction".into(), params).await;
        let fault = match answer {
            Ok(named) if named == hash => None,
            // The hash is wrong, but the endpoint received the bytes.
            Ok(_) => Some((
                SendFault::Unrecognised,
                SafeText::clean("the endpoint returned the hash of another transaction", QUOTE_CHARS),
            )),
            Err(error) => {
                let error = ProviderError::from(error);
                Some((SendFault::of(&error), SafeText::clean(&error.to_string(), QUOTE_CHARS)))
            }
        };
        failpoint::reach(Failpoint::Answered);
        self.record_answer(record, fault).await
    }

    /// Records the answer, and releases the nonce if the refusal is certain.
    async fn record_answer(
        &self,
        record: TxRecord,
        fault: Option<(SendFault, SafeText)>,
    ) -> Result<SendOutcome, SenderError> {
        let (treatment, event) = match &fault {
            None => (FaultTreatment::WaitForReceipt, Some(SendEvent::Accepted)),
            Some((class, _)) => class.treatment(),
        };
        // An endpoint that has the transaction already refuses nothing.
        let refused = fault.as_ref().filter(|(class, _)| *class != SendFault::AlreadyKnown);
        let note = refused.map(|(_, words)| words.clone());
        let now = self.0.clock.now_millis();
        let record = Arc::new(record);
        let state = self
            .0
            .store
            .write(move |tx| {
                let (hash, signed) = (record.hash(), &record.signed);
                count_send(tx, hash)?;
                let Some(event) = event else { return Ok(record.state) };
                let state = advance(tx, hash, event, note.as_ref().map(SafeText::as_str))?;
                let (chain_id, account, nonce) = (signed.chain_id(), signed.from(), signed.nonce());
                match (event, state) {
                    // The transaction was sent, so every earlier one with its nonce is superseded, whether it was signed
                    // for the same plan or not.
                    (SendEvent::Accepted | SendEvent::Lost, _) => {
                        let all = family(tx, chain_id, account, nonce)?;
                        for older in all.iter().take_while(|one| one.hash != hash) {
                            if older.state.may_be_sent() && !older.settled {
                                advance(tx, older.hash, SendEvent::Outbid, None)?;
                            }
                        }
                    }
                    // No endpoint has the transaction; the nonce is released unless another of our transactions uses
                    // it.
                    (SendEvent::Refused, SendState::Dropped) => {
                        let others = family(tx, chain_id, account, nonce)?;
                        if others.iter().all(|other| other.hash == hash || other.settled) {
                            settle(tx, chain_id, account, nonce, now)?;
                            lane::release(tx, chain_id, account, nonce)?;
                        }
                    }
                    _ => {}
                }
                Ok::<_, super::RecordError>(state)
            })
            .await?;
        // If the bytes may have been sent before, a refusal releases nothing and the chain decides.
        let treatment = match (treatment, state) {
            (FaultTreatment::DropAndReleaseNonce, state) if state != SendState::Dropped => FaultTreatment::AskTheChain,
            (treatment, _) => treatment,
        };
        Ok(SendOutcome { state, treatment, fault })
    }
}
