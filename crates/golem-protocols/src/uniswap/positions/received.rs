//! V4 positions that an account was given, by the position manager's events: it does not list an account's tokens.
//!
//! The events are only a hint: the owner is asked for each position, and the number of the account's tokens says whether
//! some are missing.

use std::collections::BTreeSet;

use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::primitives::{Address, U256};
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::Filter;
use alloy::sol_types::SolEvent as _;

use bardo_abi::uniswap_v4::PositionManager;
use bardo_base::text::SafeText;
use golem_chain::provider::ProviderError;

/// Blocks of a request, where an endpoint does not answer for all of them at once: the first of these numbers for which it
/// does. Endpoints bound the range, many to less than ten thousand and some to ten.
const BLOCKS_AT_ONCE: [u64; 4] = [10_000, 1_000, 100, 10];

/// Maximum number of such requests of one reading; the next one goes on below.
const MOST_REQUESTS: usize = 12;

/// Blocks whose events were read, and the positions in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// First and last block that were read; `None` before the first reading.
    blocks: Option<(u64, u64)>,
    /// Index in [`BLOCKS_AT_ONCE`] of the number of blocks that the endpoint has answered for.
    step: usize,
    /// Tokens that the account was given in them, whether it still has them or not.
    pub(super) tokens: BTreeSet<U256>,
}

impl Received {
    /// Reads on: the blocks up to the named one, and then those below the first one that was read, as far as the endpoint
    /// answers.
    ///
    /// # Errors
    /// The provider's error, if it does not answer for the newest blocks.
    pub(super) async fn read_on(
        &mut self,
        provider: &DynProvider,
        manager: Address,
        owner: Address,
        block: BlockId,
    ) -> Result<(), ProviderError> {
        let newest = match block {
            BlockId::Number(BlockNumberOrTag::Number(number)) => number,
            BlockId::Number(_) | BlockId::Hash(_) => {
                let found = provider.get_block(block).await.map_err(ProviderError::from)?;
                let unknown = || ProviderError::Decode { detail: SafeText::clean("the named block is unknown", 60) };
                found.ok_or_else(unknown)?.header.number
            }
        };
        let (low, high) = match self.blocks {
            Some((low, high)) => (low, high),
            None => {
                if let Ok(found) = tokens(provider, (manager, owner), (0, newest)).await {
                    (self.blocks, self.tokens) = (Some((0, newest)), found);
                    return Ok(());
                }
                // Nothing is known yet: the blocks below the newest one are the first to read.
                (newest.saturating_add(1), newest)
            }
        };
        let mut requests = MOST_REQUESTS;
        let mut above = high.saturating_add(1);
        while above <= newest && requests > 0 {
            requests -= 1;
            let end = above.saturating_add(self.at_once() - 1).min(newest);
            match tokens(provider, (manager, owner), (above, end)).await {
                Ok(found) => self.tokens.extend(found),
                Err(_) if self.takes_fewer(end - above) => continue,
                Err(error) => return Err(error),
            }
            above = end.saturating_add(1);
            self.blocks = Some((low, end));
        }
        let mut below = low;
        while below > 0 && requests > 0 {
            requests -= 1;
            let begin = below.saturating_sub(self.at_once());
            match tokens(provider, (manager, owner), (begin, below - 1)).await {
                Ok(found) => self.tokens.extend(found),
                Err(_) if self.takes_fewer(below - 1 - begin) => continue,
                // Older blocks may be beyond what the endpoint keeps; what is missing is seen by the number of tokens.
                Err(_) => break,
            }
            below = begin;
            let end = self.blocks.map_or(newest, |(_, end)| end);
            self.blocks = Some((below, end));
        }
        Ok(())
    }

    /// Blocks of the next request.
    fn at_once(&self) -> u64 {
        BLOCKS_AT_ONCE.get(self.step).copied().unwrap_or(1).max(1)
    }

    /// Lets the next request ask for fewer blocks than one that failed, from its first block to `more` blocks after it.
    /// Returns false if there is no smaller number.
    fn takes_fewer(&mut self, more: u64) -> bool {
        let fewer = BLOCKS_AT_ONCE.iter().enumerate().skip(self.step + 1).find(|(_, at_once)| **at_once <= more);
        let Some((step, _)) = fewer else { return false };
        self.step = step;
        true
    }
}

/// Tokens that went to `owner` within a range of blocks.
async fn tokens(
    provider: &DynProvider,
    (manager, owner): (Address, Address),
    (first, last): (u64, u64),
) -> Result<BTreeSet<U256>, ProviderError> {
    let filter = Filter::new()
        .address(manager)
        .event_signature(PositionManager::Transfer::SIGNATURE_HASH)
        .topic2(owner.into_word())
        .from_block(first)
        .to_block(last);
    let logs = provider.get_logs(&filter).await.map_err(ProviderError::from)?;
    let events = logs.iter().filter(|log| log.address() == manager);
    let events = events.filter_map(|log| PositionManager::Transfer::decode_log(&log.inner).ok());
    Ok(events.filter(|event| event.to == owner).map(|event| event.id).collect())
}
