//! Why a transaction that is in a block has reverted. A receipt does not say, so what was signed is run once more: on
//! the state that its block left, which has in it whatever came before, and then on the one that its block found, both
//! at its block's own time. What this answers is for a person to read and decides nothing. The bytes are those that are
//! stored here: an endpoint that could say what is run could have anything run, for as long as it likes.

use std::time::Duration;

use alloy::consensus::Transaction as _;
use alloy::eips::BlockId;
use alloy::providers::Provider as _;

use super::Pipeline;
use super::commit::Committed;
use crate::ground::Ground;
use bardo_base::fabric::TxState;
use golem_chain::fork::{Call, Fork, NextBlock, Status};
use golem_chain::signed::Signed;

/// How long anybody waits to be told: the money is gone whatever the answer.
const PATIENCE: Duration = Duration::from_secs(10);

impl Pipeline {
    /// In a sentence, which of the transactions reverted, and why as far as that can be told.
    pub async fn why_reverted(&self, committed: &Committed) -> String {
        let Some(leg) = committed.legs.iter().find(|leg| leg.state == TxState::Reverted) else {
            return "the transaction is in a block and reverted".to_owned();
        };
        let Some(block) = leg.block else {
            return format!("transaction {} is in a block and reverted", leg.hash);
        };
        let told = format!("transaction {} is in block {block} and reverted", leg.hash);
        let chain_id = committed.framed.proposal().chain_id;
        let (Ok(ground), Ok(sender)) = (self.ground(chain_id), self.sender(chain_id)) else { return told };
        let Ok(record) = sender.record(leg.hash) else { return told };
        match tokio::time::timeout(PATIENCE, reason(&ground, &record.signed, block)).await {
            Ok(Some(why)) => format!("{told}: {why}"),
            Ok(None) | Err(_) => format!("{told}; run again it does not tell why"),
        }
    }
}

/// What stands in the way of the same call on the state after `block`, or else before it; `None` where nothing does, or
/// the chain does not answer.
async fn reason(ground: &Ground, signed: &Signed, block: u64) -> Option<String> {
    let sent = signed.transaction();
    // Neither the nonce, which is used up, nor the fees, which are paid, are asked again.
    let call = Call::new(signed.from(), sent.to()?, sent.input().clone())
        .with_value(sent.value())
        .with_gas_limit(sent.gas_limit());
    // One endpoint is enough: a person reads the reason, and nothing is decided by it.
    let header = ground.client.provider().get_block_by_number(block.into()).await.ok()??.header;
    let then = NextBlock {
        timestamp: Some(header.timestamp),
        coinbase: Some(header.beneficiary),
        base_fee: header.base_fee_per_gas,
        prevrandao: Some(header.mix_hash),
    };
    for state in [Some(block), block.checked_sub(1)].into_iter().flatten() {
        let Ok(fork) = Fork::pin(&ground.source, BlockId::number(state), then).await else { continue };
        let Ok(simulation) = fork.simulate(std::slice::from_ref(&call)).await else { continue };
        match simulation.outcomes.first().map(|outcome| &outcome.status) {
            Some(Status::Reverted(reason)) => return Some(reason.to_string()),
            Some(Status::Halted(why)) => return Some(format!("it breaks within its {} gas: {why}", sent.gas_limit())),
            Some(Status::Success) | None => {}
        }
    }
    None
}
