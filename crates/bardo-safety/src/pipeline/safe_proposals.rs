//! Actions of a Safe that needs several owners. A commit signs the Safe's transactions for the other owners and stores them
//! with our signatures, instead of sending anything. Their signatures are added as they come, each verified. An execution is
//! a preview and a commit of its own with all signatures in the calldata. What the Safe has done is read from its events,
//! also where another program executed it.

use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::{Filter, Log, TransactionRequest};
use alloy::sol_types::{SolCall as _, SolEvent as _};
use rusqlite::Transaction;
use serde_json::json;

use super::assess::Assessment;
use super::capability::Capability;
use super::commit::{CommitOutcome, CommitState, ReservedSpend, committed};
use super::sign::ON_PAPER;
use super::{PhaseRequest, Pipeline, PipelineRefusal, PreparedAction, Preview};
use crate::account::Account;
use crate::audit::{self, AuditError, AuditKind, LogEntry};
use crate::custody::safe::{Agreement, SafeSignatures, SafeTx};
use crate::custody::{SafeRefusal, SafeState};
use crate::orders::OrderError;
use crate::orders::depth::{self, ConfirmationDepth};
use crate::permit;
use crate::policy_engine::{ActionEnd, ReserveError};
use crate::proposal::{Proposal, TradeFigures};
use crate::safe_proposals::record::{self, SafeProposalRecord, SafeProposalState, TakeOverError};
use crate::safe_proposals::{ExchangeFile, StoredProposal};
use crate::signing_payload::SigningPayload;
use crate::simulate::TokenMove;
use bardo_abi::safe::Safe;
use bardo_base::error::ErrorCode;
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{Phase, ToolMeta};
use bardo_base::units::BasisPoints;
use bardo_store::StoreError;
use golem_chain::provider::{ChainClient, ProviderError};

/// End of a proposal, by the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FoundEnd {
    state: SafeProposalState,
    tx: Option<B256>,
}

/// Signatures that did not come about, with the end of the reservation.
struct NotSigned {
    code: ErrorCode,
    why: String,
    failed: bool,
}

impl NotSigned {
    fn withdrawn(code: ErrorCode, why: impl ToString) -> Self {
        Self { code, why: why.to_string(), failed: false }
    }
}

impl Pipeline {
    /// Signs the Safe's transactions of a payload for the other owners, and stores them. Nothing is sent.
    pub(super) async fn propose(
        &self,
        prepared: PreparedAction,
        assessment: Assessment,
        held: ReservedSpend,
    ) -> Result<CommitOutcome, PipelineRefusal> {
        match self.sign_proposal(&prepared, &assessment, held).await {
            Ok(record) => {
                let committed = committed(&prepared.preview, assessment, CommitState::Placed)?;
                Ok(CommitOutcome { proposed: Some(Box::new(record)), ..committed })
            }
            Err(NotSigned { code, why, failed }) => {
                let end = if failed { ActionEnd::NotSent } else { ActionEnd::Withdrawn };
                let settled = self.settle_as(prepared.preview.permit.permit_id, held, end).await;
                let still = settled.err().map(|error| format!("; the ledger still counts the spending: {error}"));
                Err(PipelineRefusal::new(code, format!("{why}{}", still.unwrap_or_default())))
            }
        }
    }

    async fn sign_proposal(
        &self,
        prepared: &PreparedAction,
        assessment: &Assessment,
        held: ReservedSpend,
    ) -> Result<SafeProposalRecord, NotSigned> {
        let PreparedAction { preview, account, .. } = prepared;
        let payload = &preview.payload;
        if self.inner.paper.is_some() {
            return Err(NotSigned::withdrawn(ErrorCode::WalletNotConfigured, ON_PAPER));
        }
        let nothing = || NotSigned::withdrawn(ErrorCode::ValidationFailed, "there is nothing to propose");
        let pinned = assessment.inputs.simulation.as_ref().map(|simulated| simulated.pinned.number);
        let (plan, from_block) = payload.safe().zip(pinned).ok_or_else(nothing)?;
        let proposal = StoredProposal::of(payload.proposal())
            .map_err(|error| NotSigned::withdrawn(ErrorCode::ValidationFailed, error))?;
        let stopped = || match self.inner.rules.stop() == assessment.inputs.stop {
            true => Ok(()),
            false => Err(NotSigned::withdrawn(ErrorCode::Halted, "a stop was set before it was signed")),
        };
        let hashes: Vec<B256> = SafeTx::of_payload(payload).iter().map(SafeTx::hash).collect();
        let mut signatures: Vec<Bytes> = Vec::new();
        for leg in 0..payload.legs().len() {
            stopped()?;
            let capability = Capability::of_safe(payload.clone(), leg).ok_or_else(nothing)?;
            let signed = account.sign_safe(capability).await;
            signatures.push(signed.map_err(|error| NotSigned {
                code: error.code(),
                failed: error.is_failure(),
                why: error.to_string(),
            })?);
        }
        failpoint::reach(Failpoint::Signed);
        stopped()?;
        let signer = payload.signer();
        let mut verified = SafeSignatures::default();
        if verified.add(&hashes, &[signer], &signatures) != Ok(signer) {
            let why = "the account signed something else".to_owned();
            return Err(NotSigned { code: ErrorCode::PermitMismatch, why, failed: true });
        }
        let record = SafeProposalRecord {
            id: hashes.first().copied().ok_or_else(nothing)?,
            nonce: plan.nonce,
            threshold: plan.threshold,
            proposal,
            signatures: [(signer, signatures)].into(),
            state: SafeProposalState::Waiting,
            shown: false,
            reservation: held.reservation,
            spent: held.spent,
            from_block,
            call_id: payload.proposal().call_id,
            golem_id: payload.proposal().golem_id.clone(),
            tx: None,
            created_at: self.inner.clock.now_millis(),
            ended_at: None,
        };
        self.store_proposal(preview, account.kind().as_str(), record).await
    }

    /// Stores a signed proposal and ends its permit: from here on the proposal's own state decides about the reservation.
    async fn store_proposal(
        &self,
        preview: &Preview,
        by: &'static str,
        record: SafeProposalRecord,
    ) -> Result<SafeProposalRecord, NotSigned> {
        let (permit_id, clock, kept) = (preview.permit.permit_id, Arc::clone(&self.inner.clock), record.clone());
        let body = json!({
            "proposal": record.id, "permit_id": permit_id, "chain_id": record.proposal.chain_id, "by": by,
            "safe": record.proposal.account, "nonce": record.nonce.to_string(), "hashes": record.hashes(),
            "expected_outcome": record.proposal.expected_outcome,
        });
        let written = self.inner.store.write(move |transaction| -> Result<Option<SafeProposalRecord>, AuditError> {
            record::store(transaction, &kept)?;
            permit::note_end(transaction, permit_id, "done")?;
            let (kind, golem_id) = (AuditKind::SafeSigned, &kept.golem_id);
            let entry = LogEntry { kind, call_id: Some(kept.call_id), golem_id, body: &body };
            audit::append(transaction, clock.now_millis(), &entry)?;
            failpoint::reach(Failpoint::InsideStore);
            Ok(record::find(transaction, kept.id)?)
        });
        // If it is not known whether the row is on disk, the permit is: with an end it keeps the reservation.
        let unwritten = |why: String| NotSigned::withdrawn(ErrorCode::StoreUnavailable, why);
        let stored = written.await.map_err(|error| unwritten(error.to_string()))?;
        failpoint::reach(Failpoint::Stored);
        stored.ok_or_else(|| unwritten("the proposal was not stored".to_owned()))
    }

    /// Checks that no other proposal of the payload's Safe waits. The commit repeats it in the transaction that reserves.
    pub(super) fn continued_proposal(&self, payload: &SigningPayload) -> Result<(), PipelineRefusal> {
        let read = self.inner.store.read(|connection| record::continued(connection, payload).map(drop));
        read.map_err(|error| match error {
            TakeOverError::Safe(refusal) => refused(refusal),
            TakeOverError::Store(_) | TakeOverError::Ledger(_) => unavailable(error),
        })
    }

    /// Returns every proposal of Safes in this ledger, the oldest first.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the ledger cannot be read.
    pub fn safe_proposals(&self) -> Result<Vec<SafeProposalRecord>, PipelineRefusal> {
        self.inner.store.read(record::every).map_err(unavailable)
    }

    /// Returns the proposal with this id.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if there is none, or if the ledger cannot be read.
    pub fn safe_proposal(&self, id: B256) -> Result<SafeProposalRecord, PipelineRefusal> {
        let found = self.inner.store.read(|connection| record::find(connection, id)).map_err(unavailable)?;
        found.ok_or_else(|| refused(SafeRefusal::State { id, state: "not in this ledger".to_owned() }))
    }

    /// Previews the execution of a proposal with the signatures that were collected: everything is checked again, and the
    /// simulation runs with them. `tool` is the tool that proposed it.
    ///
    /// # Errors
    /// [`PipelineRefusal`] as for [`Self::preview`], and if the proposal does not wait or too few owners have signed.
    pub async fn preview_safe_execution(
        &self,
        id: B256,
        tool: ToolMeta,
        account: Arc<dyn Account>,
        phase_request: PhaseRequest,
    ) -> Result<Preview, PipelineRefusal> {
        let record = self.safe_proposal(id)?;
        if record.state != SafeProposalState::Waiting {
            return Err(refused(SafeRefusal::State { id, state: record.state.to_string() }));
        }
        let call = (CallId::new(self.inner.clock.now_millis()), record.golem_id.clone());
        let proposal = record.proposal.proposal(tool, call).map_err(invalid)?;
        let state = self.safe_state(proposal.chain_id, proposal.account).await?;
        let signatures = record.verified(&state.owners);
        let signed = Some((record.nonce, &signatures));
        let payload = self.prepare_payload(&proposal, &*account, signed).await?;
        let payload = match self.quoted_again(&payload, phase_request.now()).await? {
            Some(proposal) => self.prepare_payload(&proposal, &*account, signed).await?,
            None => payload,
        };
        self.preview_payload(payload, account, phase_request).await
    }

    /// Previews the signature of another owner under a proposal that came from elsewhere: it is checked like one of our own.
    ///
    /// # Errors
    /// [`PipelineRefusal`] as for [`Self::preview`], and if the Safe's next transaction is not the proposal's first.
    pub async fn preview_safe_signature(
        &self,
        transactions: &[SafeTx],
        proposal: &StoredProposal,
        tool: ToolMeta,
        account: Arc<dyn Account>,
        phase_request: PhaseRequest,
    ) -> Result<Preview, PipelineRefusal> {
        let call = (CallId::new(self.inner.clock.now_millis()), GolemId::operator());
        let proposal = proposal.proposal(tool, call).map_err(invalid)?;
        let payload = self.prepare_payload(&proposal, &*account, None).await?;
        let own = SafeTx::of_payload(&payload);
        if !payload.proposes_to_safe() || own.is_empty() || own != transactions {
            let numbers = transactions.first().zip(own.first()).map(|(asked, own)| (asked.nonce, own.nonce));
            return Err(refused(match numbers {
                Some((nonce, now)) if nonce != now => SafeRefusal::Nonce { nonce, now },
                _ => SafeRefusal::Shape("the file's transactions are not those that would be signed"),
            }));
        }
        let payload = match self.quoted_again(&payload, phase_request.now()).await? {
            Some(proposal) => self.prepare_payload(&proposal, &*account, None).await?,
            None => payload,
        };
        self.preview_payload(payload, account, phase_request).await
    }

    /// Returns the proposal of a trade with a new quote: its calls are signed and stay, and what they bring now is what the
    /// simulation shows. Their minimum is then judged against that, and against the price sources as ever. `None` for any other
    /// action, and where the simulation shows no output, so that the checks refuse the old quote.
    async fn quoted_again(&self, payload: &SigningPayload, phase: Phase) -> Result<Option<Proposal>, PipelineRefusal> {
        let proposal = payload.proposal();
        let Some(trade) = &proposal.trade else { return Ok(None) };
        let reader = self.reader(proposal.chain_id)?;
        let assessment = self.assess(&reader, payload, 0, phase, None).await?;
        let moves = assessment.inputs.simulation.iter().flat_map(|simulated| &simulated.moves);
        let gained = |moved: &TokenMove| moved.after.checked_sub(moved.before).filter(|gained| !gained.is_zero());
        let mut gained = moves.filter(|moved| moved.token == trade.token_out.id).filter_map(gained);
        let Some(out) = gained.next() else { return Ok(None) };
        let quoted_at = self.inner.clock.now_millis();
        let trade = match trade.exact_output {
            true => TradeFigures { quoted_at, ..trade.clone() },
            false => {
                let slippage = share_below(out, trade.min_out);
                TradeFigures { quoted_at, expected_out: out, slippage, ..trade.clone() }
            }
        };
        Ok(Some(Proposal { trade: Some(trade), ..proposal.clone() }))
    }

    /// Adds the signatures of a file to a proposal that waits. Returns the owners whose signatures are new.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the file is for other transactions, or if a signature in it is not an owner's.
    pub async fn import_safe_signatures(
        &self,
        file: &ExchangeFile,
        transactions: &[SafeTx],
    ) -> Result<(B256, Vec<Address>), PipelineRefusal> {
        let id = transactions.first().map(SafeTx::hash).unwrap_or_default();
        let known = self.safe_proposal(id)?;
        if known.transactions() != transactions {
            return Err(refused(SafeRefusal::Shape("the file's transactions are not those of the proposal")));
        }
        let state = self.safe_state(known.proposal.chain_id, known.proposal.account).await?;
        let given = file.signatures(transactions, &state.owners).map_err(invalid)?;
        let client = self.chain(known.proposal.chain_id)?.reader.client.clone();
        for (owner, signatures) in given.each() {
            for (signature, transaction) in signatures.iter().zip(transactions) {
                let (hash, safe) = (transaction.hash(), transaction.safe);
                if Agreement::read(signature, hash) == Some(Agreement::Approved(owner))
                    && !SafeState::has_approved(&client, safe, owner, hash).await.map_err(refused)?
                {
                    return Err(refused(SafeRefusal::Shape("an owner has not agreed on chain")));
                }
            }
        }
        let added: Vec<Address> = given.owners().filter(|owner| !known.signatures.contains_key(owner)).collect();
        let signatures = given.each().map(|(owner, signatures)| (owner, signatures.to_vec())).collect();
        let written = self.inner.store.write(move |transaction| -> Result<bool, StoreError> {
            let current = record::find(transaction, id)?.filter(|record| record.state == SafeProposalState::Waiting);
            // Whoever has signed elsewhere may have our signatures too.
            let Some(current) = current else { return Ok(false) };
            record::store(transaction, &SafeProposalRecord { signatures, shown: true, ..current })?;
            Ok(true)
        });
        match written.await.map_err(unavailable)? {
            true => Ok((id, added)),
            false => Err(refused(SafeRefusal::State { id, state: self.safe_proposal(id)?.state.to_string() })),
        }
    }

    /// Returns the file with which other owners can sign or execute a proposal. From here on its signatures count as known to
    /// others.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the proposal has ended.
    pub async fn export_safe_proposal(&self, id: B256) -> Result<ExchangeFile, PipelineRefusal> {
        let known = self.safe_proposal(id)?;
        if known.state != SafeProposalState::Waiting {
            return Err(refused(SafeRefusal::State { id, state: known.state.to_string() }));
        }
        let state = self.safe_state(known.proposal.chain_id, known.proposal.account).await?;
        let written = self.inner.store.write(move |transaction| record::note_shown(transaction, id));
        written.await.map_err(unavailable)?;
        Ok(ExchangeFile::of(&known, &known.verified(&state.owners)))
    }

    /// Rejects a proposal that waits. If its signatures may be with others, its spending stays reserved until the Safe has used
    /// its number.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if it does not wait.
    pub async fn reject_safe_proposal(&self, id: B256) -> Result<SafeProposalRecord, PipelineRefusal> {
        let (rules, clock) = (Arc::clone(&self.inner.rules), Arc::clone(&self.inner.clock));
        let written = self.inner.store.write(move |transaction| -> Result<bool, ReserveError> {
            let now = clock.now_millis();
            let Some(known) = record::find(transaction, id)? else { return Ok(false) };
            if !record::reject(transaction, id)? {
                return Ok(false);
            }
            if !known.shown {
                let end = FoundEnd { state: SafeProposalState::Withdrawn, tx: None };
                record::end_as(transaction, id, (end.state, end.tx), now)?;
                rules.settle(transaction, now, known.reservation, ActionEnd::Withdrawn)?;
            }
            note_end(
                transaction,
                now,
                &known,
                FoundEnd {
                    state: if known.shown { SafeProposalState::Rejected } else { SafeProposalState::Withdrawn },
                    tx: None,
                },
            )?;
            Ok(true)
        });
        let done = written.await.map_err(unavailable)?;
        let record = self.safe_proposal(id)?;
        match done {
            true => Ok(record),
            false => Err(refused(SafeRefusal::State { id, state: record.state.to_string() })),
        }
    }

    /// Reads the end of every proposal that is not being executed by this ledger, and settles those that have ended.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if a chain or the ledger cannot be read.
    pub async fn follow_safe_proposals(&self) -> Result<(), PipelineRefusal> {
        for record in self.safe_proposals()? {
            let follows = matches!(record.state, SafeProposalState::Waiting | SafeProposalState::Rejected);
            let Ok(chain) = self.chain(record.proposal.chain_id) else { continue };
            if !follows {
                continue;
            }
            let found = found_end(&chain.reader.client, &record).await;
            let Some(found) = found.map_err(of_order)? else { continue };
            let (rules, clock) = (Arc::clone(&self.inner.rules), Arc::clone(&self.inner.clock));
            let written = self.inner.store.write(move |transaction| -> Result<(), ReserveError> {
                let now = clock.now_millis();
                let Some(known) = record::find(transaction, record.id)? else { return Ok(()) };
                // Another process may have begun to execute it, or have recorded the same end.
                if known.state != record.state || known.reservation != record.reservation {
                    return Ok(());
                }
                let spent = known.spent;
                let end = match found.state {
                    SafeProposalState::Executed => ActionEnd::Done { spent },
                    SafeProposalState::Partly => ActionEnd::Partly { spent },
                    SafeProposalState::Superseded
                    | SafeProposalState::Withdrawn
                    | SafeProposalState::Waiting
                    | SafeProposalState::Executing
                    | SafeProposalState::Rejected => ActionEnd::Withdrawn,
                };
                if record::end_as(transaction, known.id, (found.state, found.tx), now)? {
                    rules.settle(transaction, now, known.reservation, end)?;
                    note_end(transaction, now, &known, found)?;
                }
                Ok(())
            });
            written.await.map_err(unavailable)?;
        }
        Ok(())
    }

    async fn safe_state(&self, chain_id: u64, safe: Address) -> Result<SafeState, PipelineRefusal> {
        let client = &self.chain(chain_id)?.reader.client;
        SafeState::read(client, safe).await.map_err(refused)
    }
}

/// Reads how a proposal has ended, from the Safe's number and its events in confirmed blocks. `None` while the Safe can still
/// execute it, or while the events do not account for every number that the Safe has used.
async fn found_end(client: &ChainClient, record: &SafeProposalRecord) -> Result<Option<FoundEnd>, OrderError> {
    let ConfirmationDepth { confirmed, .. } = ConfirmationDepth::read(client, None).await?;
    let safe = record.proposal.account;
    let request = TransactionRequest { to: Some(safe.into()), ..Default::default() };
    let request = request.input(Safe::nonceCall {}.abi_encode().into());
    let answer = depth::agreeing_provider(client).call(request).block(BlockId::hash(confirmed.hash)).await;
    let now = Safe::nonceCall::abi_decode_returns(&answer.map_err(ProviderError::from)?)
        .map_err(|_| OrderError::InvalidAnswer("the Safe does not return its number".to_owned()))?;
    let used = now.saturating_sub(record.nonce);
    if used.is_zero() || confirmed.number <= record.from_block {
        return Ok(None);
    }
    let filter = Filter::new().address(safe).from_block(record.from_block.saturating_add(1)).to_block(confirmed.number);
    let filter =
        filter.event_signature(vec![Safe::ExecutionSuccess::SIGNATURE_HASH, Safe::ExecutionFailure::SIGNATURE_HASH]);
    let Some(events) = depth::events(client, &filter).await? else { return Ok(None) };
    // Each number that the Safe has used has one event. Without all of them, a missing one could be the proposal's.
    if U256::from(events.len()) != used {
        return Ok(None);
    }
    Ok(judged(record, used, &events))
}

/// Returns the end that the Safe's events show, where `used` numbers since the proposal's first have one each.
fn judged(record: &SafeProposalRecord, used: U256, events: &[Log]) -> Option<FoundEnd> {
    let hashes = record.hashes();
    let succeeded = |hash: &B256| {
        events
            .iter()
            .find(|log| Safe::ExecutionSuccess::decode_log(&log.inner).is_ok_and(|event| event.txHash == *hash))
    };
    let executed: Vec<&Log> = hashes.iter().filter_map(succeeded).collect();
    let tx = executed.last().and_then(|log| log.transaction_hash);
    if executed.len() == hashes.len() {
        return Some(FoundEnd { state: SafeProposalState::Executed, tx });
    }
    // Others can still execute the rest of what was shown to them.
    if used < U256::from(hashes.len()) && (record.shown || !executed.is_empty()) {
        return None;
    }
    let state = if executed.is_empty() { SafeProposalState::Superseded } else { SafeProposalState::Partly };
    Some(FoundEnd { state, tx })
}

/// Records the end of a proposal in the audit log.
fn note_end(
    transaction: &Transaction<'_>,
    now: u64,
    record: &SafeProposalRecord,
    found: FoundEnd,
) -> Result<(), ReserveError> {
    let body = json!({
        "proposal": record.id, "state": found.state.as_str(), "tx": found.tx, "safe": record.proposal.account,
        "chain_id": record.proposal.chain_id, "nonce": record.nonce.to_string(),
    });
    let (kind, golem_id) = (AuditKind::SafeEnded, &record.golem_id);
    let entry = LogEntry { kind, call_id: Some(record.call_id), golem_id, body: &body };
    audit::append(transaction, now, &entry).map(drop).map_err(|error| match error {
        AuditError::Store(error) => ReserveError::Store(error),
        other => ReserveError::Ledger(other.to_string()),
    })
}

/// Share by which `least` is below `out`, rounded up.
fn share_below(out: U256, least: U256) -> BasisPoints {
    let below = out.saturating_sub(least).saturating_mul(U256::from(10_000_u32)).div_ceil(out.max(U256::ONE));
    u32::try_from(below)
        .ok()
        .and_then(|points| BasisPoints::new(points).ok())
        .unwrap_or(BasisPoints::constant::<10_000>())
}

fn refused(refusal: SafeRefusal) -> PipelineRefusal {
    PipelineRefusal::new(refusal.code(), refusal)
}

fn invalid(error: impl std::fmt::Display) -> PipelineRefusal {
    PipelineRefusal::new(ErrorCode::SafeRefused, error)
}

fn unavailable(error: impl std::fmt::Display) -> PipelineRefusal {
    PipelineRefusal::new(ErrorCode::StoreUnavailable, error)
}

fn of_order(error: OrderError) -> PipelineRefusal {
    match error {
        OrderError::Chain(error) => error.into(),
        other => PipelineRefusal::new(ErrorCode::ChainInconsistent, other),
    }
}
