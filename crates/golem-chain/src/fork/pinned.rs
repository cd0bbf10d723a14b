//! State of one block as an endpoint returns it: pinned to the block, cached, and fetched in batches.
//!
//! Each request to a node costs a round trip, so calls run *speculatively* on the cached state. A missing value is
//! recorded and replaced by a guess, the run continues, and all missing values are then fetched in one batch. Only a
//! run without missing values counts; the others discover what is read. Only the addresses and slots that are read
//! leave the process, never a call.
//!
//! State requested by the block's hash belongs to that block. State requested by number counts only after a later check
//! that the number still means the same block.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
};

use alloy::{
    eips::{BlockId, BlockNumberOrTag},
    primitives::{Address, B256, U256, b256, map::HashSet, uint},
    rpc::types::Header,
};
use parking_lot::Mutex;
use revm::{
    database_interface::DatabaseRef,
    state::{AccountInfo, Bytecode},
};
use serde_json::{Value, json};

use super::{
    Fork, ForkError, Simulation, SimulationOptions,
    call::ForkCall,
    remote::{RemoteState, decode, quantity, wrong_type},
    run::{RunBudget, RunThread, run},
    verify::{Verification, VerifiedBlock},
};
use crate::{
    evm::{BlockContext, DatabaseError},
    provider::ProviderError,
};

/// Maximum number of addresses searched in one call's data.
const MAX_CALLDATA_ADDRESSES: usize = 32;
/// Guess for a missing storage word in the second run of a round. It is large enough for any balance or allowance check
/// to pass, so that the run gets further than with zero.
pub(super) const OPTIMISTIC: U256 = uint!(0x10000000000000000000000000_U256);

/// Slots fetched along with every account that might be a contract, because a run rarely gets past empty ones: the
/// first words of a V3 pool, reserves and lock of a V2 pair, and the implementation slots of proxies
/// ([EIP-1967](https://eips.ethereum.org/EIPS/eip-1967) and the earlier convention).
const GUESSED_SLOTS: [U256; 9] = [
    U256::ZERO,
    uint!(1_U256),
    uint!(2_U256),
    uint!(3_U256),
    uint!(4_U256),
    uint!(8_U256),
    uint!(12_U256),
    U256::from_be_bytes(b256!("360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc").0),
    U256::from_be_bytes(b256!("7050c9e0f4ca769c69bd3a8ef740bc37934f8e2c036e5a723fd8ee048ed3f8c3").0),
];

/// Cached state of one block.
#[derive(Debug)]
pub(super) struct PinnedState {
    pub(super) remote: Arc<RemoteState>,
    pub(super) header: Header,
    pub(super) data: Mutex<PinnedData>,
    /// Values that several endpoints have confirmed or a majority has corrected.
    pub(super) verified: Mutex<VerifiedBlock>,
    addressing: AtomicU8,
    /// Number of fetches by block number whose values are in `data`.
    by_number: AtomicU64,
    /// Number of those fetches that preceded a successful check of the block.
    checked: AtomicU64,
    /// The block is no longer part of the chain, so the cached values are invalid.
    gone: AtomicBool,
}

/// Form of the block parameter in state requests.
const UNTRIED: u8 = 0;
const BY_HASH: u8 = 1;
const BY_NUMBER: u8 = 2;

#[derive(Debug, Clone, Default)]
pub(super) struct PinnedData {
    pub(super) accounts: imbl::HashMap<Address, AccountInfo>,
    pub(super) slots: imbl::HashMap<(Address, U256), U256>,
    pub(super) hashes: imbl::HashMap<u64, B256>,
}

/// Values to fetch or to compare.
#[derive(Debug, Clone, Default)]
pub(crate) struct MissingValues {
    pub(super) accounts: HashSet<Address>,
    pub(super) slots: HashSet<(Address, U256)>,
    pub(super) hashes: HashSet<u64>,
}

impl PinnedData {
    /// Removes the values that are in here from `wanted`.
    pub(super) fn retain_missing(&self, wanted: &mut MissingValues) {
        wanted.accounts.retain(|account| !self.accounts.contains_key(account));
        wanted.slots.retain(|slot| !self.slots.contains_key(slot));
        wanted.hashes.retain(|number| !self.hashes.contains_key(number));
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.accounts.extend(other.accounts);
        self.slots.extend(other.slots);
        self.hashes.extend(other.hashes);
    }

    fn remove(&mut self, wanted: &MissingValues) {
        for account in &wanted.accounts {
            self.accounts.remove(account);
        }
        for slot in &wanted.slots {
            self.slots.remove(slot);
        }
        for number in &wanted.hashes {
            self.hashes.remove(number);
        }
    }
}

impl PinnedState {
    /// Creates a cache that only contains the block's header.
    pub(super) fn new(remote: Arc<RemoteState>, header: Header) -> Self {
        let mut data = PinnedData::default();
        data.hashes.insert(header.number, header.hash);
        if let Some(parent) = header.number.checked_sub(1) {
            data.hashes.insert(parent, header.parent_hash);
        }
        Self {
            remote,
            header,
            data: Mutex::new(data),
            verified: Mutex::default(),
            addressing: AtomicU8::new(UNTRIED),
            by_number: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            gone: AtomicBool::new(false),
        }
    }

    pub(super) fn hash(&self) -> B256 {
        self.header.hash
    }

    /// Returns true if the block was found to be no longer part of the chain.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Returns true if the cache contains values that were fetched by number and whose block was not checked since.
    fn is_unchecked(&self) -> bool {
        self.by_number.load(Ordering::Acquire) > self.checked.load(Ordering::Acquire)
    }

    /// Simulates on this state: fetches values that are known to be read, then repeats runs until nothing is missing.
    pub(super) async fn simulate(
        self: &Arc<Self>,
        fork: &Fork,
        calls: &[ForkCall],
        options: &SimulationOptions,
        budget: &Arc<RunBudget>,
    ) -> Result<Simulation, ForkError> {
        let mut wanted = Self::foreseen(&fork.next, calls, options);
        let rounds = self.remote.limits().rounds;
        for _ in 0..rounds {
            if self.is_gone() {
                return Err(ForkError::Reorganised { number: self.header.number, hash: self.header.hash });
            }
            self.fetch(wanted).await?;
            let SpeculationResult { result, missed, touched } = fork.speculate(self, calls, options, budget).await?;
            if missed.is_empty() {
                if self.is_unchecked() {
                    self.check_still_there().await?;
                }
                // After a correction by the majority, the calls run again.
                if self.verify(touched).await? == Verification::Corrected {
                    wanted = MissingValues::default();
                    continue;
                }
                return result;
            }
            wanted = missed;
        }
        Err(ForkError::NotConverging { rounds })
    }

    /// Runs once on the cached state. If values were missing, the result is invalid, and a second run with a larger
    /// guess discovers more of them. `None` if it needs too much gas for this thread.
    pub(super) fn run(
        &self,
        fork: &Fork,
        calls: &[ForkCall],
        options: &SimulationOptions,
        budget: &RunBudget,
        thread: RunThread,
    ) -> Option<SpeculationResult> {
        let data = self.data.lock().clone();
        let reads = self.remote.limits().reads;
        let touched = self.remote.witnesses().map(|_| RefCell::default());
        let view = Speculation { data: &data, guess: U256::ZERO, missed: RefCell::default(), touched, limit: reads };
        let result = run(fork, &view, calls, options, budget, thread)?;
        let touched = view.touched.map(RefCell::into_inner).unwrap_or_default();
        let mut missed = view.missed.into_inner();
        if !missed.is_empty() {
            let missing = RefCell::new(missed);
            let view = Speculation { data: &data, guess: OPTIMISTIC, missed: missing, touched: None, limit: reads };
            // The result of this run does not matter, only its reads.
            let _ = run(fork, &view, calls, options, budget, thread)?;
            missed = view.missed.into_inner();
            missed.guess_slots();
        }
        Some(SpeculationResult { result, missed, touched })
    }

    /// Values that are read in any case: accounts of the calls and in their data, the coinbase, declarations and hints.
    pub(super) fn foreseen(next: &BlockContext, calls: &[ForkCall], options: &SimulationOptions) -> MissingValues {
        let mut wanted = MissingValues::default();
        wanted.accounts.extend(&options.hints.accounts);
        wanted.accounts.extend(&options.watch.tokens);
        for call in calls {
            wanted.accounts.extend(call.accounts());
            wanted.accounts.extend(addresses_in(&call.data));
            for item in &call.access_list.0 {
                wanted.slots.extend(item.storage_keys.iter().map(|key| (item.address, U256::from_be_bytes(key.0))));
            }
        }
        for call in calls {
            wanted.accounts.remove(&call.from);
        }
        wanted.guess_slots();
        wanted.accounts.extend(calls.iter().map(|call| call.from));
        wanted.accounts.insert(next.coinbase);
        wanted.slots.extend(&options.hints.slots);
        wanted
    }

    /// Cached values of `wanted`.
    pub(super) fn values_of(&self, wanted: &MissingValues) -> PinnedData {
        let data = self.data.lock();
        let accounts = wanted.accounts.iter().filter_map(|key| Some((*key, data.accounts.get(key)?.clone())));
        let slots = wanted.slots.iter().filter_map(|key| Some((*key, *data.slots.get(key)?)));
        let hashes = wanted.hashes.iter().filter_map(|key| Some((*key, *data.hashes.get(key)?)));
        PinnedData { accounts: accounts.collect(), slots: slots.collect(), hashes: hashes.collect() }
    }

    /// Fetches `wanted`, checks that the block is still part of the chain, and compares the values on all endpoints.
    ///
    /// # Errors
    /// [`ForkError`]; values that could not be confirmed are removed again.
    pub(super) async fn fetch_checked(&self, wanted: &MissingValues) -> Result<(), ForkError> {
        let fetched = async {
            self.fetch_missing(wanted).await?;
            if self.is_unchecked() {
                self.check_still_there().await?;
            }
            self.verify(wanted.clone()).await
        };
        let Err(error) = fetched.await else { return Ok(()) };
        self.data.lock().remove(wanted);
        // An endpoint refuses a replaced block in words of its own.
        if matches!(error, ForkError::Endpoint(ProviderError::Rpc { .. })) {
            self.check_still_there().await?;
        }
        Err(error)
    }

    /// Fetches the values of `wanted` that are not cached, in one round trip.
    async fn fetch(&self, mut wanted: MissingValues) -> Result<(), ForkError> {
        self.data.lock().retain_missing(&mut wanted);
        if wanted.is_empty() { Ok(()) } else { self.fetch_missing(&wanted).await }
    }

    async fn fetch_missing(&self, wanted: &MissingValues) -> Result<(), ForkError> {
        let untried = self.addressing.load(Ordering::Acquire) == UNTRIED;
        match self.fetch_all(wanted).await {
            // An endpoint without EIP-1898 does not accept a block hash.
            Err(ForkError::Endpoint(ProviderError::Rpc { code: -32602, .. })) if untried => {
                self.addressing.store(BY_NUMBER, Ordering::Release);
                self.fetch_all(wanted).await
            }
            Ok(()) if untried => {
                self.addressing.store(BY_HASH, Ordering::Release);
                Ok(())
            }
            result => result,
        }
    }

    async fn fetch_all(&self, wanted: &MissingValues) -> Result<(), ForkError> {
        let number = self.header.number;
        let by_number = self.addressing.load(Ordering::Acquire) == BY_NUMBER;
        let block = if by_number {
            json!(BlockNumberOrTag::Number(number))
        } else {
            // EIP-1898; the endpoint refuses a block that a reorganisation has removed.
            json!({ "blockHash": self.header.hash, "requireCanonical": true })
        };
        let accounts: Vec<_> =
            wanted.accounts.iter().map(|account| (*account, self.remote.settled_code(*account, number))).collect();
        let mut calls = Vec::with_capacity(3 * accounts.len() + wanted.slots.len() + wanted.hashes.len());
        for (account, code) in &accounts {
            calls.push(("eth_getBalance", json!([account, block])));
            calls.push(("eth_getTransactionCount", json!([account, block])));
            if code.is_none() {
                calls.push(("eth_getCode", json!([account, block])));
            }
        }
        let slots: Vec<_> = wanted.slots.iter().copied().collect();
        calls.extend(
            slots.iter().map(|(account, slot)| ("eth_getStorageAt", json!([account, B256::from(*slot), block]))),
        );
        let hashes: Vec<_> = wanted.hashes.iter().copied().collect();
        calls.extend(
            hashes.iter().map(|number| ("eth_getBlockByNumber", json!([BlockNumberOrTag::Number(*number), false]))),
        );
        let mut answers = self.remote.ask(calls).await?.into_iter();
        let mut next = || {
            answers
                .next()
                .ok_or_else(|| ForkError::Malformed { what: "a batch has fewer responses than calls".to_owned() })
        };
        let mut fetched = PinnedData::default();
        for (account, code) in accounts {
            let balance = quantity(&next()?, "eth_getBalance")?;
            let nonce = quantity(&next()?, "eth_getTransactionCount")?;
            let nonce = u64::try_from(nonce).map_err(|_| wrong_type("eth_getTransactionCount"))?;
            let (code, hash) = match code {
                Some(settled) => settled,
                None => self.remote.record_code(account, number, decode(next()?, "eth_getCode")?)?,
            };
            fetched.accounts.insert(account, AccountInfo::new(balance, nonce, hash, code));
        }
        for slot in slots {
            fetched.slots.insert(slot, quantity(&next()?, "eth_getStorageAt")?);
        }
        for number in hashes {
            let header: Option<Header> = decode(next()?, "eth_getBlockByNumber")?;
            let header = header.ok_or(ForkError::UnknownBlock { block: BlockId::number(number) })?;
            fetched.hashes.insert(number, header.hash);
        }
        let mut data = self.data.lock();
        // Counted under the lock, so that no value is read before it counts as unchecked. A check that began earlier
        // does not cover it.
        if by_number || !fetched.hashes.is_empty() {
            self.by_number.fetch_add(1, Ordering::AcqRel);
        }
        data.extend(fetched);
        Ok(())
    }

    /// Checks that the block of this number is still the pinned one.
    pub(super) async fn check_still_there(&self) -> Result<(), ForkError> {
        let covered = self.by_number.load(Ordering::Acquire);
        let number = BlockNumberOrTag::Number(self.header.number);
        let answers = self.remote.ask(vec![("eth_getBlockByNumber", json!([number, false]))]).await?;
        let header: Option<Header> = decode(answers.into_iter().next().unwrap_or(Value::Null), "the block")?;
        if header.is_some_and(|header| header.hash == self.header.hash) {
            self.checked.fetch_max(covered, Ordering::AcqRel);
            return Ok(());
        }
        self.gone.store(true, Ordering::Release);
        Err(ForkError::Reorganised { number: self.header.number, hash: self.header.hash })
    }
}

/// Result of one speculative run.
pub(super) struct SpeculationResult {
    pub(super) result: Result<Simulation, ForkError>,
    /// Missing values; the result is valid only if there are none.
    pub(super) missed: MissingValues,
    /// Values that were read and need the confirmation of several endpoints.
    pub(super) touched: MissingValues,
}

impl MissingValues {
    pub(crate) fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.slots.is_empty() && self.hashes.is_empty()
    }

    fn len(&self) -> usize {
        self.accounts.len() + self.slots.len() + self.hashes.len()
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.accounts.extend(other.accounts);
        self.slots.extend(other.slots);
        self.hashes.extend(other.hashes);
    }

    /// Adds an account.
    pub(crate) fn add_account(&mut self, address: Address) {
        self.accounts.insert(address);
    }

    /// Adds a storage slot.
    pub(crate) fn add_slot(&mut self, address: Address, slot: U256) {
        self.slots.insert((address, slot));
    }

    /// Adds an account with the slots that are usually read of it.
    pub(crate) fn add_contract(&mut self, address: Address) {
        self.accounts.insert(address);
        self.slots.extend(GUESSED_SLOTS.map(|slot| (address, slot)));
    }

    /// Adds the slots that are usually read of the accounts.
    pub(crate) fn guess_slots(&mut self) {
        for account in &self.accounts {
            self.slots.extend(GUESSED_SLOTS.map(|slot| (*account, slot)));
        }
    }
}

/// Values that the speculative runs of one round missed.
#[derive(Debug, Default)]
pub(crate) struct MissedValues {
    first: MissingValues,
    all: MissingValues,
}

impl MissedValues {
    /// Adds what a run missed. Returns true if no run of the round has missed anything: its result is then exact.
    pub(crate) fn add(&mut self, missed: MissingValues) -> bool {
        if missed.is_empty() && self.all.is_empty() {
            return true;
        }
        if self.first.is_empty() {
            self.first = missed.clone();
        }
        self.all.extend(missed);
        false
    }

    /// Returns the values of the first run that missed any, which must be fetched, and those of all runs with the slots
    /// that are usually read of their accounts.
    pub(crate) fn into_parts(mut self) -> (MissingValues, MissingValues) {
        self.all.guess_slots();
        (self.first, self.all)
    }
}

/// View of the cached state for one run; missing values are recorded and guessed.
struct Speculation<'a> {
    data: &'a PinnedData,
    guess: U256,
    missed: RefCell<MissingValues>,
    /// Values that are read; `None` if they need no confirmation.
    touched: Option<RefCell<MissingValues>>,
    limit: usize,
}

impl Speculation<'_> {
    fn touch(&self, note: impl FnOnce(&mut MissingValues)) {
        if let Some(touched) = &self.touched {
            note(&mut touched.borrow_mut());
        }
    }

    fn miss(&self, note: impl FnOnce(&mut MissingValues)) {
        let mut missed = self.missed.borrow_mut();
        if missed.len() < self.limit {
            note(&mut missed);
        }
    }
}

impl DatabaseRef for Speculation<'_> {
    type Error = DatabaseError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, DatabaseError> {
        self.touch(|touched| {
            touched.accounts.insert(address);
        });
        if let Some(info) = self.data.accounts.get(&address) {
            return Ok((!info.is_empty()).then(|| info.clone()));
        }
        self.miss(|wanted| {
            wanted.accounts.insert(address);
        });
        Ok(Some(AccountInfo::from_balance(self.guess)))
    }

    fn code_by_hash_ref(&self, _: B256) -> Result<Bytecode, DatabaseError> {
        // Accounts carry their code, so code is never read by hash.
        Ok(Bytecode::default())
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, DatabaseError> {
        self.touch(|touched| {
            touched.slots.insert((address, slot));
        });
        if let Some(value) = self.data.slots.get(&(address, slot)) {
            return Ok(*value);
        }
        self.miss(|wanted| {
            wanted.slots.insert((address, slot));
        });
        Ok(self.guess)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, DatabaseError> {
        self.touch(|touched| {
            touched.hashes.insert(number);
        });
        if let Some(hash) = self.data.hashes.get(&number) {
            return Ok(*hash);
        }
        self.miss(|wanted| {
            wanted.hashes.insert(number);
        });
        Ok(B256::ZERO)
    }
}

/// Addresses that calldata seems to contain: twenty bytes after twelve zeros, at any offset.
pub(crate) fn addresses_in(data: &[u8]) -> HashSet<Address> {
    data.windows(32)
        .filter(|window| {
            let (padding, address) = window.split_at(12);
            padding.iter().all(|byte| *byte == 0) && address.iter().take(4).any(|byte| *byte != 0)
        })
        .filter(|window| window.get(12).is_some_and(|first| *first != 0))
        .map(|window| Address::from_slice(window.split_at(12).1))
        .take(MAX_CALLDATA_ADDRESSES)
        .collect()
}
