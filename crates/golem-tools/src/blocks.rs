//! Blocks of a chain on which its endpoints agree, for readers of logs.

use alloy::eips::BlockId;
use alloy::primitives::B256;
use alloy::providers::Provider as _;

use crate::engine::ConnectedChain;
use bardo_base::error::{ErrorCode, ToolError};
use golem_chain::provider::ProviderError;

/// Block of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockPoint {
    /// Number of the block.
    pub(crate) number: u64,
    /// Hash of the block.
    pub(crate) hash: B256,
    /// Time of the block, in seconds since the Unix epoch.
    pub(crate) time: u64,
}

/// Newest block on which the endpoints agree.
///
/// # Errors
/// `CHAIN_INCONSISTENT` without one, or the provider's error.
pub(crate) async fn newest(chain: &ConnectedChain) -> Result<BlockPoint, ToolError> {
    block(chain, BlockId::latest()).await?.ok_or_else(|| {
        ToolError::new(ErrorCode::ChainInconsistent, format_args!("{} has no latest block", chain.network()))
    })
}

/// Block of this id, on which the endpoints agree; `None` if the chain does not have it.
///
/// # Errors
/// The provider's error.
pub(crate) async fn block(chain: &ConnectedChain, id: BlockId) -> Result<Option<BlockPoint>, ToolError> {
    let found = chain.client.agreed().get_block(id).await.map_err(ProviderError::from)?;
    Ok(found.map(|block| BlockPoint {
        number: block.header.number,
        hash: block.header.hash,
        time: block.header.timestamp,
    }))
}

/// True if the chain has the block with this number and hash.
///
/// # Errors
/// The provider's error.
pub(crate) async fn is_on_chain(chain: &ConnectedChain, (number, hash): (u64, B256)) -> Result<bool, ToolError> {
    Ok(block(chain, number.into()).await?.is_some_and(|block| block.hash == hash))
}

/// Distance below the newest block of the first block whose time is read, in blocks.
const FIRST_STEP: u64 = 64;

/// First block at or after `time`, in seconds since the Unix epoch; the newest block `head` if `time` is later. Times of
/// blocks never fall, so a few headers suffice: the search goes back in growing steps, and then narrows the range by
/// turns at the expected block and in the middle.
///
/// # Errors
/// `CHAIN_INCONSISTENT` if a block is missing or times fall, or the provider's error.
pub(crate) async fn first_block_since(
    chain: &ConnectedChain,
    time: u64,
    head: &BlockPoint,
) -> Result<BlockPoint, ToolError> {
    let mut high = *head;
    if high.time <= time {
        return Ok(high);
    }
    let mut step = FIRST_STEP;
    let mut low = loop {
        let found = header_between(chain, high.number.saturating_sub(step), (0, high.time)).await?;
        if found.time < time {
            break found;
        }
        high = found;
        if high.number == 0 {
            return Ok(high);
        }
        step = step.saturating_mul(4);
    };
    // Now `low` is before `time` and `high` is not.
    let mut halve = false;
    while high.number.saturating_sub(low.number) > 1 {
        let (blocks, seconds) = (high.number - low.number, high.time - low.time);
        let expected = u128::from(blocks) * u128::from(time - low.time) / u128::from(seconds.max(1));
        let offset = if halve { blocks / 2 } else { u64::try_from(expected).unwrap_or(blocks) };
        let found = header_between(chain, low.number + offset.clamp(1, blocks - 1), (low.time, high.time)).await?;
        if found.time < time {
            low = found
        } else {
            high = found
        }
        halve = !halve;
    }
    Ok(high)
}

/// Block of this number, whose time must be within this range.
async fn header_between(
    chain: &ConnectedChain,
    number: u64,
    (earliest, latest): (u64, u64),
) -> Result<BlockPoint, ToolError> {
    let inconsistent = |what: &str| {
        let what = format_args!("block {number} of {} {what}", chain.network());
        ToolError::new(ErrorCode::ChainInconsistent, what)
    };
    let found = block(chain, number.into()).await?.ok_or_else(|| inconsistent("is missing below its newest"))?;
    if found.number != number || !(earliest..=latest).contains(&found.time) {
        return Err(inconsistent("has a time that its neighbours contradict"));
    }
    Ok(found)
}

/// Returns true if the endpoint may answer a request for fewer blocks.
pub(crate) fn asks_for_less(error: &ProviderError) -> bool {
    match error {
        ProviderError::Rpc { .. }
        | ProviderError::TooLarge { .. }
        | ProviderError::TimedOut { .. }
        | ProviderError::Http { .. } => true,
        ProviderError::AllFailed { failures, .. } => failures.iter().any(asks_for_less),
        _ => false,
    }
}
