//! Stored bytes go out: once for each time it is asked, one way, and what was answered is taken in.

use std::sync::Arc;

use alloy::primitives::{B256, Bytes};
use alloy::providers::Provider as _;

use super::fault::{SendFault, Treatment};
use super::record::{Kept, Record, Route, advance, count_send, family, sendable, settle};
use super::state::{TxEvent, TxState};
use super::{Sender, SenderError, lane};
use crate::provider::ProviderError;
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::text::SafeText;

/// What came of a send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendOutcome {
    /// The transaction's state now.
    pub state: TxState,
    /// What is to be done.
    pub treatment: Treatment,
    /// Why it was not simply accepted, and in whose words.
    pub fault: Option<(SendFault, SafeText)>,
}

/// The longest quotation of an endpoint, in characters.
const QUOTE_CHARS: usize = 300;

impl Sender {
    /// Sends for the first time what was just stored.
    ///
    /// # Errors
    /// [`SenderError`] if it was not sent, or what came of it could not be written down; it is then found by
    /// [`Self::pending`].
    pub async fn send(&self, kept: Kept) -> Result<SendOutcome, SenderError> {
        let record = self.record(kept.hash)?;
        self.dispatch(record).await
    }

    /// Sends the same bytes again, as after a restart. Nobody knows whether they have left before, so no refusal frees
    /// their nonce. Where it was refused while what it was to replace is out, that one is sent.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn resend(&self, hash: B256) -> Result<SendOutcome, SenderError> {
        let mut record = match self.0.store.read(|connection| sendable(connection, hash))? {
            Some(record) => record,
            None => self.record(hash)?,
        };
        if record.state == TxState::Stored {
            let hash = record.hash();
            record.state = self.0.store.write(move |tx| advance(tx, hash, TxEvent::Lost, None)).await?;
        }
        self.dispatch(record).await
    }

    async fn dispatch(&self, record: Record) -> Result<SendOutcome, SenderError> {
        let hash = record.hash();
        let (found, own) = (record.signed.chain_id(), self.chain_id());
        if found != own {
            return Err(SenderError::OtherChain { hash, found, own });
        }
        if record.settled_at.is_some() || !record.state.may_be_sent() {
            return Ok(SendOutcome { state: record.state, treatment: Treatment::WaitForReceipt, fault: None });
        }
        let provider = match (record.route, &self.0.relay) {
            (Route::Public, _) => self.0.client.provider(),
            (Route::Private, Some(relay)) => relay.provider(),
            (Route::Private, None) => return Err(SenderError::NoRelay(hash)),
        };
        let params = [Bytes::clone(record.signed.raw())];
        let answer: Result<B256, _> = provider.raw_request("eth_sendRawTransaction".into(), params).await;
        let fault = match answer {
            Ok(named) if named == hash => None,
            // Whatever that was, the endpoint had the bytes.
            Ok(_) => Some((
                SendFault::Unrecognised,
                SafeText::clean("the endpoint answered with the hash of another transaction", QUOTE_CHARS),
            )),
            Err(error) => {
                let error = ProviderError::from(error);
                Some((SendFault::of(&error), SafeText::clean(&error.to_string(), QUOTE_CHARS)))
            }
        };
        failpoint::reach(Failpoint::Answered);
        self.take_in(record, fault).await
    }

    /// Writes down what was answered, and frees the nonce where that is certain.
    async fn take_in(&self, record: Record, fault: Option<(SendFault, SafeText)>) -> Result<SendOutcome, SenderError> {
        let (treatment, event) = match &fault {
            None => (Treatment::WaitForReceipt, Some(TxEvent::Accepted)),
            Some((class, _)) => class.treatment(),
        };
        let note = fault.as_ref().map(|(_, words)| words.clone());
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
                    // It is out: what it was signed to replace is now second.
                    (TxEvent::Accepted | TxEvent::Lost, _) => {
                        for older in family(tx, chain_id, account, nonce)? {
                            if Some(older.hash) == record.replaces && older.state.may_be_sent() {
                                advance(tx, older.hash, TxEvent::Outbid, None)?;
                            }
                        }
                    }
                    // Nobody has it and nobody will: unless another of ours holds the nonce, it is free.
                    (TxEvent::Refused, TxState::Dropped) => {
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
        // A refusal of bytes that may have left before frees nothing: the chain is asked instead.
        let treatment = match (treatment, state) {
            (Treatment::GiveBack, state) if state != TxState::Dropped => Treatment::AskTheChain,
            (treatment, _) => treatment,
        };
        Ok(SendOutcome { state, treatment, fault })
    }
}
