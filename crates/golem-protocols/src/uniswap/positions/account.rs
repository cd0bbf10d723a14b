//! All positions of an account at one block. What never changes (pool and range of a position) is kept, so that positions
//! that were read before are listed and read in the same batch, with whatever else the caller asks in it. A new position
//! costs two more round trips: one for its pool and range, one for the batch again. A V4 position costs one more, for the
//! events that tell of it.

use std::collections::{BTreeMap, BTreeSet};

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::providers::DynProvider;
use parking_lot::Mutex;

use super::received::Received;
use super::{PositionContracts, PositionId, PositionKey, PositionState, StateCalls};
use bardo_abi::uniswap_v3::NonfungiblePositionManager;
use bardo_abi::uniswap_v4::PositionManager;
use golem_chain::multicall::{BatchResults, CallBatch, CallIndex};
use golem_chain::provider::ProviderError;

/// Maximum number of positions of an account that are read and counted of each version: those of V3 in the order of the
/// contract, and those of V4 in the order of their numbers. Anybody can give an
/// account a position, so their number must not decide how much is read.
pub const MOST_COUNTED: usize = 200;

/// Number of positions asked for beyond those known from the last reading.
const AHEAD: usize = 4;

/// Maximum number of V4 positions whose owner is asked for after a reading of events. Anybody can give an account positions
/// and take them back in other ways.
const MOST_ASKED: usize = 600;

/// Number of accounts whose positions are kept.
const MOST_ACCOUNTS: usize = 64;

/// Maximum number of batches for one reading: the list grows and its keys are read, and a block may come between.
const MOST_ROUNDS: usize = 5;

/// Positions of an account at one block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountPositions {
    /// States of the positions: those of V3 in the order of the contract, then those of V4 in the order of their numbers.
    pub states: Vec<PositionState>,
    /// Number of positions that are not read and count as nothing: those beyond [`MOST_COUNTED`], and those of V4 whose
    /// events the endpoint does not return.
    pub unread: u64,
}

/// Pools and ranges of the positions that each account had at the last reading. They are not believed: every reading
/// compares them with the contract's answer in the same batch.
#[derive(Debug, Default)]
pub struct PositionKeys(Mutex<BTreeMap<Address, Known>>);

/// Positions of an account as the last reading found them, and the events read for them.
#[derive(Debug, Clone, Default)]
struct Known {
    keys: Vec<PositionKey>,
    received: Received,
}

/// Question for all positions of an account, before its next batch.
#[derive(Debug, Clone)]
pub struct PositionQuestion {
    contracts: PositionContracts,
    owner: Address,
    keys: Vec<PositionKey>,
    /// Number of V3 positions that are asked for.
    expected: usize,
    received: Received,
    /// True once the events were read.
    has_read_events: bool,
}

/// Part of a batch that asks for all positions of an account.
#[derive(Debug)]
pub struct AskedPositions {
    question: PositionQuestion,
    count: CallIndex<NonfungiblePositionManager::balanceOfCall>,
    tokens: Vec<CallIndex<NonfungiblePositionManager::tokenOfOwnerByIndexCall>>,
    keyed_count: Option<CallIndex<PositionManager::balanceOfCall>>,
    states: StateCalls,
}

/// Answer of a batch.
#[derive(Debug)]
pub enum PositionAnswer {
    /// The account has no other positions than these.
    Whole(AccountPositions),
    /// There are positions that were not asked for: find them, and ask again.
    Unknown(MissingPositions),
}

/// Positions that an answer lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingPositions {
    /// Number of V3 positions of the account that are read.
    expected: usize,
    /// V3 positions whose pool and range is not known; none if the list itself was too short.
    ids: Vec<PositionId>,
    /// True if the account has V4 positions that are not known.
    keyed: bool,
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
        let keyed_count = contracts.v4.map(|v4| calls.push(v4.manager, &PositionManager::balanceOfCall { owner }));
        let states = StateCalls::push(calls, &contracts, &self.keys);
        AskedPositions { question: self.clone(), count, tokens, keyed_count, states }
    }

    /// Finds the positions that an answer lacks, with their pools and ranges: in one round trip, and with V4 in three or a
    /// few more.
    ///
    /// # Errors
    /// [`UnreadableSource`] if the chain does not answer.
    pub async fn resolve(
        &mut self,
        provider: &DynProvider,
        missing: MissingPositions,
        block: BlockId,
    ) -> Result<(), UnreadableSource> {
        let MissingPositions { expected, mut ids, keyed } = missing;
        self.expected = expected;
        self.keys.retain(|key| !ids.contains(&key.id));
        if let Some(v4) = self.contracts.v4.filter(|_| keyed) {
            self.received.read_on(provider, v4.manager, self.owner, block).await?;
            self.has_read_events = true;
            let known: BTreeSet<U256> = self.keys.iter().filter_map(|key| keyed_token(key.id)).collect();
            let new: Vec<U256> = self.received.tokens.difference(&known).copied().take(MOST_ASKED).collect();
            let own = self.contracts.owned_tokens(provider, self.owner, &new, block).await?;
            let room = MOST_COUNTED.saturating_sub(known.len());
            ids.extend(own.into_iter().take(room).map(PositionId::V4));
        }
        if !ids.is_empty() {
            let keys = self.contracts.keys(provider, &ids, block).await?;
            // A position that is gone in `block` is in no later list either.
            self.keys.extend(keys.into_iter().flatten());
        }
        Ok(())
    }
}

/// Number of a V4 position's token.
fn keyed_token(id: PositionId) -> Option<U256> {
    match id {
        PositionId::V3(_) => None,
        PositionId::V4(token) => Some(token),
    }
}

impl PositionContracts {
    /// V4 positions among `tokens` that belong to `owner`, in one round trip.
    async fn owned_tokens(
        &self,
        provider: &DynProvider,
        owner: Address,
        tokens: &[U256],
        block: BlockId,
    ) -> Result<Vec<U256>, ProviderError> {
        let Some(v4) = self.v4.filter(|_| !tokens.is_empty()) else { return Ok(Vec::new()) };
        let mut calls = CallBatch::default();
        let asked: Vec<_> =
            tokens.iter().map(|id| calls.push(v4.manager, &PositionManager::ownerOfCall { id: *id })).collect();
        let answers = calls.send(provider, self.multicall, block).await?;
        let own = tokens.iter().zip(asked).filter(|(_, asked)| asked.take(&answers) == Some(owner));
        Ok(own.map(|(token, _)| *token).collect())
    }
}

impl AskedPositions {
    /// Reads the answer from the batch's results, and keeps the keys for the next reading.
    ///
    /// # Errors
    /// [`UnreadablePositions`] if the contract does not answer, or an answer contradicts another.
    pub fn take(&self, known: &PositionKeys, answers: &BatchResults) -> Result<PositionAnswer, UnreadablePositions> {
        let PositionQuestion { contracts, owner, .. } = self.question;
        let states = self.states.take(&contracts, answers).into_iter().flatten();
        let mut states: BTreeMap<PositionId, PositionState> = states.map(|state| (state.key.id, state)).collect();
        let (listed, missing, beyond) = self.listed(answers, &states)?;
        let (keyed, unknown) = self.keyed(answers, &states)?;
        if listed > self.tokens.len() || !missing.is_empty() || unknown > 0 && !self.question.has_read_events {
            let keyed = unknown > 0 && !self.question.has_read_events;
            return Ok(PositionAnswer::Unknown(MissingPositions { expected: listed, ids: missing, keyed }));
        }
        let ids = self.tokens.iter().take(listed).filter_map(|token| token.take(answers).map(PositionId::V3));
        let states: Vec<PositionState> = ids.chain(keyed).filter_map(|id| states.remove(&id)).collect();
        if states.iter().any(|state| state.owner != owner) {
            return Err(UnreadablePositions);
        }
        let keys = states.iter().map(|state| state.key).collect();
        known.keep(owner, Known { keys, received: self.question.received.clone() });
        Ok(PositionAnswer::Whole(AccountPositions { states, unread: beyond.saturating_add(unknown) }))
    }

    /// Number of V3 positions that are read, those of them whose state is not known, and the number of the others.
    fn listed(
        &self,
        answers: &BatchResults,
        states: &BTreeMap<PositionId, PositionState>,
    ) -> Result<(usize, Vec<PositionId>, u64), UnreadablePositions> {
        let Some(count) = self.count.take(answers) else {
            // Without a contract at the address there are no positions.
            return if self.count.is_void(answers) { Ok((0, Vec::new(), 0)) } else { Err(UnreadablePositions) };
        };
        let all = usize::try_from(count).unwrap_or(usize::MAX);
        let listed = all.min(MOST_COUNTED);
        let beyond = u64::try_from(all.saturating_sub(listed)).unwrap_or(u64::MAX);
        if self.tokens.len() < listed {
            return Ok((listed, Vec::new(), beyond));
        }
        let ids: Option<Vec<_>> =
            self.tokens.iter().take(listed).map(|token| token.take(answers).map(PositionId::V3)).collect();
        let ids = ids.ok_or(UnreadablePositions)?;
        Ok((listed, ids.into_iter().filter(|id| !states.contains_key(id)).collect(), beyond))
    }

    /// V4 positions of the account whose state is known, and the number of the others. Positions that it no longer has are
    /// left out.
    fn keyed(
        &self,
        answers: &BatchResults,
        states: &BTreeMap<PositionId, PositionState>,
    ) -> Result<(Vec<PositionId>, u64), UnreadablePositions> {
        let Some(count) = &self.keyed_count else { return Ok((Vec::new(), 0)) };
        let own = states.values().filter(|state| keyed_token(state.key.id).is_some());
        let own = own.filter(|state| state.owner == self.question.owner).map(|state| state.key.id);
        let own: Vec<PositionId> = own.collect();
        match count.take(answers) {
            Some(count) => {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                let known = u64::try_from(own.len()).unwrap_or(u64::MAX);
                // A position that the contract does not count is none of the account's.
                let unknown = count.checked_sub(known).ok_or(UnreadablePositions)?;
                Ok((own, unknown))
            }
            None if count.is_void(answers) => Ok((Vec::new(), 0)),
            None => Err(UnreadablePositions),
        }
    }
}

impl PositionKeys {
    /// Begins a reading of the positions of an account, with what is known from the last one.
    pub fn question(&self, contracts: PositionContracts, owner: Address) -> PositionQuestion {
        let Known { keys, received } = self.0.lock().get(&owner).cloned().unwrap_or_default();
        let listed = keys.iter().filter(|key| keyed_token(key.id).is_none()).count();
        let expected = listed.saturating_add(AHEAD).min(MOST_COUNTED);
        PositionQuestion { contracts, owner, keys, expected, received, has_read_events: false }
    }

    /// Maximum number of batches that a reading may take.
    pub const fn most_rounds() -> usize {
        MOST_ROUNDS
    }

    /// Keeps the V4 positions of a question, beside what is known of V3.
    fn keep_keyed(&self, owner: Address, question: PositionQuestion) {
        let Known { mut keys, .. } = self.0.lock().get(&owner).cloned().unwrap_or_default();
        keys.retain(|key| keyed_token(key.id).is_none());
        keys.extend(question.keys);
        self.keep(owner, Known { keys, received: question.received });
    }

    fn keep(&self, owner: Address, known: Known) {
        let mut kept = self.0.lock();
        if kept.len() >= MOST_ACCOUNTS && !kept.contains_key(&owner) {
            kept.pop_first();
        }
        kept.insert(owner, known);
    }

    /// V4 positions of an account at `block`, and the number of those that are not known.
    ///
    /// # Errors
    /// As [`PositionKeys::read`].
    pub async fn keyed_of(
        &self,
        contracts: PositionContracts,
        provider: &DynProvider,
        owner: Address,
        block: BlockId,
    ) -> Result<(Vec<PositionId>, u64), UnreadableSource> {
        let Some(v4) = contracts.v4 else { return Ok((Vec::new(), 0)) };
        // Nothing of V3 is read here.
        let mut question = self.question(contracts, owner);
        question.keys.retain(|key| keyed_token(key.id).is_some());
        loop {
            let mut calls = CallBatch::default();
            let count = calls.push(v4.manager, &PositionManager::balanceOfCall { owner });
            let states = StateCalls::push(&mut calls, &contracts, &question.keys);
            let answers = calls.send(provider, contracts.multicall, block).await?;
            let states = states.take(&contracts, &answers).into_iter().flatten();
            let own: BTreeSet<PositionId> =
                states.filter(|state| state.owner == owner).map(|state| state.key.id).collect();
            let count = match count.take(&answers) {
                Some(count) => u64::try_from(count).unwrap_or(u64::MAX),
                None if count.is_void(&answers) => return Ok((Vec::new(), 0)),
                None => return Err(UnreadablePositions.into()),
            };
            let known = u64::try_from(own.len()).unwrap_or(u64::MAX);
            let unknown = count.checked_sub(known).ok_or(UnreadablePositions)?;
            if unknown == 0 || question.has_read_events {
                question.keys.retain(|key| own.contains(&key.id));
                self.keep_keyed(owner, question);
                return Ok((own.into_iter().collect(), unknown));
            }
            let missing = MissingPositions { expected: question.expected, ids: Vec::new(), keyed: true };
            question.resolve(provider, missing, block).await?;
        }
    }

    /// Positions of an account at `block`, in one round trip if none is new and no hook takes part in a withdrawal. Name the
    /// block by its hash.
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
                PositionAnswer::Whole(mut positions) => {
                    contracts.try_exits(provider, positions.states.iter_mut(), block).await;
                    return Ok(positions);
                }
                PositionAnswer::Unknown(missing) => question.resolve(provider, missing, block).await?,
            }
        }
        Err(UnreadablePositions.into())
    }
}
