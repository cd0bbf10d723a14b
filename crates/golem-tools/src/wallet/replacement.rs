//! Shared parts of the tools that take the nonce of a waiting transaction.

use alloy::primitives::B256;
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::{CallContext, ToolReply};
use crate::orders::hash;
use crate::shared::{PlanReceipt, invalid};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent, ReplacedTx};
use bardo_safety::signing_payload::FeeBound;

/// Progress steps of these tools.
pub(super) const STEPS: &[&str] =
    &["Reading chain state", "Simulating via Revm", "Signing transaction", "Broadcasting", "Confirming receipt"];

/// Waiting transaction and what is done about it.
pub struct Replacement {
    original: B256,
    nonce: u64,
    cancels: bool,
}

/// Result of `speed_up_transaction` and `cancel_transaction`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplacementOutput {
    /// Hash of the transaction that was waiting.
    original: String,
    /// Nonce of both transactions.
    nonce: u64,
    /// Outcome: `included` for the new transaction, `original_included` for the one that was waiting, `reverted`,
    /// `pending`, or `simulated`.
    status: &'static str,
    /// Transaction with the nonce: the included one, or the new one before inclusion; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Gas used, in gas units.
    gas_used: u64,
    /// URL of the transaction; absent if none was sent.
    explorer_url: Option<String>,
}

impl Replacement {
    /// Proposes an action with the nonce of a waiting transaction of the account. Everything comes from its signed
    /// bytes, and the pipeline compares it with them again.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a malformed hash, or a transaction that is not waiting or not the account's.
    pub(super) fn propose(
        context: &CallContext,
        transaction: &str,
        intent: ProposalIntent,
    ) -> Result<(Proposal, Self), ToolError> {
        let original = hash(transaction, "transaction")?;
        context.step("Reading chain state");
        let account = context.world.account(None)?;
        let no_ledger = || ToolError::new(ErrorCode::WalletNotConfigured, "no ledger is open, so nothing waits in it");
        let rules = context.world.rules.as_ref().ok_or_else(no_ledger)?;
        let record = rules.waiting(original, account).map_err(|error| invalid("transaction", &error))?;
        let signed = record.call().map_err(|error| invalid("transaction", &error))?;
        let cancels = intent == ProposalIntent::CancelTransaction;
        let call = if cancels { record.cancellation() } else { signed };
        let nonce = record.signed.nonce();
        let expected = match cancels {
            true => format!("Cancel transaction {original} (nonce {nonce})"),
            false => format!("Speed up transaction {original} (nonce {nonce})"),
        };
        let fees = record.fees();
        let leg = PlanLeg {
            purpose: LegPurpose::Main,
            to: call.to,
            value: call.value,
            data: call.data,
            gas_limit: call.gas_limit,
            slots: Vec::new(),
        };
        let proposal = Proposal {
            legs: vec![leg],
            replaces: Some(ReplacedTx {
                hash: original,
                nonce,
                fees: FeeBound {
                    max_fee_per_gas: fees.max_fee_per_gas,
                    max_priority_fee_per_gas: fees.max_priority_fee_per_gas,
                },
            }),
            ..context.proposal(record.signed.chain_id(), account, intent, &expected)
        };
        Ok((proposal, Self { original, nonce, cancels }))
    }

    /// Summarises the outcome: which of the transactions with the nonce was included, by its receipt.
    pub(super) fn reply(
        self,
        context: &CallContext,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<ReplacementOutput>, ToolError> {
        let Self { original, nonce, cancels } = self;
        let sent = PlanReceipt::of(context, committed)?;
        let is_original = committed.legs.last().is_some_and(|leg| leg.hash == original);
        let (status, done) = match (&committed.state, cancels) {
            (CommitState::Simulated, _) => ("simulated", "nothing was signed".to_owned()),
            (CommitState::Done, _) if is_original => {
                ("original_included", format!("the original transaction {original} was included first"))
            }
            (CommitState::Done, true) => ("included", format!("transaction {original} is cancelled")),
            (CommitState::Done, false) => ("included", format!("transaction {original} was included with higher fees")),
            (CommitState::Reverted, _) => ("reverted", "the transaction reverted".to_owned()),
            (CommitState::Placed | CommitState::Unclear | CommitState::Stopped { .. }, _) => {
                ("pending", format!("either transaction with nonce {nonce} can still be included"))
            }
        };
        let explanation = sent.explain(&done);
        let output = ReplacementOutput {
            original: original.to_string(),
            nonce,
            status,
            tx_hash: sent.tx_hash,
            block_number: sent.block_number,
            gas_used: sent.gas_used,
            explorer_url: sent.explorer_url,
        };
        Ok(ToolReply::new(output, explanation))
    }
}
