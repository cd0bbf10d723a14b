//! All positions of an account at one block. What never changes (pool and range of a position) is kept, so that positions
//! that were read before are listed and read in the same batch, with whatever else the caller asks in it. A new position
//! costs two more round trips: one for its pool and range, one for the batch again.

use std::collections::BTreeMap;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::providers::DynProvider;
use parking_lot::Mutex;

use super::{PositionContracts, PositionId, PositionKey, PositionState, StateCalls};
use bardo_abi::uniswap_v3::NonfungiblePositionManager;
use golem_chain::multicall::{BatchResults, CallBatch, CallIndex};
use golem_chain::provider::ProviderError;

/// Maximum number of positions of an account that are read and counted, in the order of the contract. Anybody can give an
/// account a position, so their number must not decide how much is read.
pub const MOST_COUNTED: usize = 200;

/// Number of positions asked for beyond those known from the last reading.
const AHEAD: usize = 4;

/// Number of accounts whose positions are kept.
const MOST_ACCOUNTS: usize = 64;

/// Maximum number of batches for one reading: the list grows and its keys are read, and a block may come between.
const MOST_ROUNDS: usize = 5;

/// Positions of an account at one block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountPositions {
    /// States of the positions, in the order of the contract.
    pub states: Vec<PositionState>,
    /// Number of positions beyond [`MOST_COUNTED`], which are not read and count as nothing.
    pub unread: u64,
}

/// Pools and ranges of the positions that each account had at the last reading. They are not believed: every reading
/// compares them with the contract's answer in the same batch.
#[derive(Debug, Default)]
pub struct PositionKeys(Mutex<BTreeMap<Address, Vec<PositionKey>>>);

/// Question for all positions of an account, before its next batch.
#[derive(Debug, Clone)]
pub struct PositionQuestion {
    contracts: PositionContracts,
    owner: Address,
    keys: Vec<PositionKey>,
    expected: usize,
}

/// Part of a batch that asks for all positions of an account.
#[derive(Debug)]
pub struct AskedPositions {
    question: PositionQuestion,
    count: CallIndex<NonfungiblePositionManager::balanceOfCall>,
    tokens: Vec<CallIndex<NonfungiblePositionManager::tokenOfOwnerByIndexCall>>,
    states: StateCalls,
}

/// Answer of a batch.
#[derive(Debug)]
pub enum PositionAnswer {
    /// The account has no other positions than these.
    Whole(AccountPositions),
    /// There are positions that were not asked for: read their pools and ranges, and ask again.
    Unknown {
        /// Number of positions of the account that are read.
        expected: usize,
        /// Identities whose pool and range are not known; all of them if the list itself was too short.
        ids: Vec<PositionId>,
    },
}

/// The endpoint contradicts itself: a position is in the list and cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the liquidity positions of the account cannot be read in full")]
pub struct UnreadablePositions;

/// Reason why the positions of an account are not known.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UnreadableSource {
    /// The chain does not answer.
    #[error(transparent)]
    Chain(#[from] ProviderError),
    /// It answers, and the answers contradict each other.
    #[error(transparent)]
    Unreadable(#[from] UnreadablePositions),
}

impl PositionQuestion {
    /// Adds the question to a batch.
    pub fn push(&self, calls: &mut CallBatch) -> AskedPositions {
        let Self { contracts, owner, .. } = *self;
        let count = calls.push(contracts.manager, &NonfungiblePositionManager::balanceOfCall { owner });
        // Indices past the end are answered with an error.
        let token =
            |index: usize| NonfungiblePositionManager::tokenOfOwnerByIndexCall { owner, index: U256::from(index) };
        let tokens = (0..self.expected).map(|index| calls.push(contracts.manager, &token(index))).collect();
        let states = StateCalls::push(calls, &contracts, &self.keys);
        AskedPositions { question: self.clone(), count, tokens, states }
    }

    /// Reads the pools and ranges that an answer lacks, in one round trip.
    ///
    /// # Errors
    /// [`UnreadableSource`] if the chain does not answer, or does not know a position that it has listed.
    pub async fn resolve(
        &mut self,
        provider: &DynProvider,
        (expected, ids): (usize, Vec<PositionId>),
        block: BlockId,
    ) -> Result<(), UnreadableSource> {
        self.expected = expected;
        self.keys.retain(|key| !ids.contains(&key.id));
        if !ids.is_empty() {
            let keys = self.contracts.keys(provider, &ids, block).await?;
            // A position that is gone in `block` is in no later list either.
            self.keys.extend(keys.into_iter().flatten());
        }
        Ok(())
    }
}

impl AskedPositions {
    /// Reads the answer from the batch's results, and keeps the keys for the next reading.
    ///
    /// # Errors
    /// [`UnreadablePositions`] if the contract does not answer, or an answer contradicts another.
    pub fn take(&self, known: &PositionKeys, answers: &BatchResults) -> Result<PositionAnswer, UnreadablePositions> {
        let PositionQuestion { contracts, owner, .. } = self.question;
        let Some(count) = self.count.take(answers) else {
            // Without a contract at the address there are no positions.
            let void = self.count.is_void(answers);
            return if void {
                Ok(PositionAnswer::Whole(AccountPositions::default()))
            } else {
                Err(UnreadablePositions)
            };
        };
        let all = usize::try_from(count).unwrap_or(usize::MAX);
        let listed = all.min(MOST_COUNTED);
        if self.tokens.len() < listed {
            return Ok(PositionAnswer::Unknown { expected: listed, ids: Vec::new() });
        }
        let ids: Option<Vec<_>> =
            self.tokens.iter().take(listed).map(|token| token.take(answers).map(PositionId::V3)).collect();
        let ids = ids.ok_or(UnreadablePositions)?;
        let states = self.states.take(&contracts, answers).into_iter().flatten();
        let states: BTreeMap<PositionId, PositionState> = states.map(|state| (state.key.id, state)).collect();
        let missing: Vec<PositionId> = ids.iter().copied().filter(|id| !states.contains_key(id)).collect();
        if !missing.is_empty() {
            return Ok(PositionAnswer::Unknown { expected: listed, ids: missing });
        }
        let states: Vec<PositionState> = ids.iter().filter_map(|id| states.get(id).copied()).collect();
        if states.iter().any(|state| state.owner != owner) {
            return Err(UnreadablePositions);
        }
        known.keep(owner, states.iter().map(|state| state.key).collect());
        let unread = u64::try_from(all.saturating_sub(listed)).unwrap_or(u64::MAX);
        Ok(PositionAnswer::Whole(AccountPositions { states, unread }))
    }
}

impl PositionKeys {
    /// Begins a reading of the positions of an account, with what is known from the last one.
    pub fn question(&self, contracts: PositionContracts, owner: Address) -> PositionQuestion {
        let keys = self.0.lock().get(&owner).cloned().unwrap_or_default();
        let expected = keys.len().saturating_add(AHEAD).min(MOST_COUNTED);
        PositionQuestion { contracts, owner, keys, expected }
    }

    /// Maximum number of batches that a reading may take.
    pub const fn most_rounds() -> usize {
        MOST_ROUNDS
    }

    fn keep(&self, owner: Address, keys: Vec<PositionKey>) {
        let mut kept = self.0.lock();
        if kept.len() >= MOST_ACCOUNTS && !kept.contains_key(&owner) {
            kept.pop_first();
        }
        kept.insert(owner, keys);
    }

    /// Positions of an account at `block`, in one round trip if none is new. Name the block by its hash.
    ///
    /// # Errors
    /// [`UnreadableSource`] if the chain does not answer, or its answers contradict each other.
    pub async fn read(
        &self,
        contracts: PositionContracts,
        provider: &DynProvider,
        owner: Address,
        block: BlockId,
    ) -> Result<AccountPositions, UnreadableSource> {
        let mut question = self.question(contracts, owner);
        for _ in 0..MOST_ROUNDS {
            let mut calls = CallBatch::default();
            let asked = question.push(&mut calls);
            let answers = calls.send(provider, contracts.multicall, block).await?;
            match asked.take(self, &answers)? {
                PositionAnswer::Whole(positions) => return Ok(positions),
                PositionAnswer::Unknown { expected, ids } => {
                    question.resolve(provider, (expected, ids), block).await?;
                }
            }
        }
        Err(UnreadablePositions.into())
    }
}
