//! Revert reasons of included transactions. A receipt has none, so the transaction is run again with its block's time:
//! first on the state after its block, then on the state before it. The result is for display only and decides nothing.
//! The calldata comes from the local store: an endpoint that chose it could make this process run anything.

use std::time::Duration;

use alloy::consensus::Transaction as _;
use alloy::eips::BlockId;
use alloy::providers::Provider as _;

use super::Pipeline;
use super::commit::CommitOutcome;
use crate::chain_snapshot::SnapshotReader;
use bardo_base::fabric::TxState;
use golem_chain::fork::{ExecutionStatus, Fork, ForkCall, NextBlock};
use golem_chain::signed::SignedTransaction;

/// Timeout for the reason. The outcome does not depend on it.
const PATIENCE: Duration = Duration::from_secs(10);

impl Pipeline {
    /// Describes in one sentence which transaction reverted, and the reason if it can be found.
    pub async fn why_reverted(&self, committed: &CommitOutcome) -> String {
        let Some(leg) = committed.legs.iter().find(|leg| leg.state == TxState::Reverted) else {
            return "the transaction is in a block and reverted".to_owned();
        };
        let Some(block) = leg.block else {
            return format!("transaction {} is in a block and reverted", leg.hash);
        };
        let reported = format!("transaction {} is in block {block} and reverted", leg.hash);
        let chain_id = committed.payload.proposal().chain_id;
        let (Ok(reader), Ok(sender)) = (self.reader(chain_id), self.sender(chain_id)) else { return reported };
        let Ok(record) = sender.record(leg.hash) else { return reported };
        match tokio::time::timeout(PATIENCE, reason(&reader, &record.signed, block)).await {
            Ok(Some(why)) => format!("{reported}: {why}"),
            Ok(None) | Err(_) => format!("{reported}; a replay shows no reason"),
        }
    }
}

/// Returns the failure of the same call on the state after `block`, or else before it. `None` if the call succeeds on
/// both, or if the chain does not answer.
async fn reason(reader: &SnapshotReader, signed: &SignedTransaction, block: u64) -> Option<String> {
    let sent = signed.transaction();
    // Nonce and fees are left out: the nonce is used and the fees are paid.
    let call = ForkCall::new(signed.from(), sent.to()?, sent.input().clone())
        .with_value(sent.value())
        .with_gas_limit(sent.gas_limit());
    // One endpoint is enough: a person reads the reason, and nothing is decided by it.
    let header = reader.client.provider().get_block_by_number(block.into()).await.ok()??.header;
    let then = NextBlock {
        timestamp: Some(header.timestamp),
        coinbase: Some(header.beneficiary),
        base_fee: header.base_fee_per_gas,
        prevrandao: Some(header.mix_hash),
    };
    for state in [Some(block), block.checked_sub(1)].into_iter().flatten() {
        let Ok(fork) = Fork::pin(&reader.source, BlockId::number(state), then).await else { continue };
        let Ok(simulation) = fork.simulate(std::slice::from_ref(&call)).await else { continue };
        match simulation.outcomes.first().map(|outcome| &outcome.status) {
            Some(ExecutionStatus::Reverted(reason)) => return Some(reason.to_string()),
            Some(ExecutionStatus::Halted(why)) => {
                return Some(format!("it halts within its {} gas: {why}", sent.gas_limit()));
            }
            Some(ExecutionStatus::Success) | None => {}
        }
    }
    None
}
