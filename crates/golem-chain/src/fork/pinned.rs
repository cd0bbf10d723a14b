//! One block's state as an endpoint tells it: pinned to the block, cached, filled in batches.
//!
//! A node is far and each question costs a round trip, so calls run *speculatively* on what is
//! cached: a value that is missing is noted and answered with a guess, the run goes on, and
//! afterwards everything that was missing is fetched in one batch. Only a run that missed nothing
//! counts; the others serve to find out what is read. What leaves the process are the addresses
//! and slots that are read, never a call.
//!
//! State asked for by the block's hash is that block's. What was asked for by number counts only once
//! the number was seen to mean the same block afterwards.

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
    Fork, ForkError, Options, Simulation,
    call::Call,
    remote::{Remote, decoded, not_of_its_type, quantity},
    run::{Effort, Place, run},
    verify::{Verification, Verified},
};
use crate::{
    evm::{BlockContext, DatabaseError},
    provider::ProviderError,
};

/// Addresses looked for in one call's data at most.
const MAX_CALLDATA_ADDRESSES: usize = 32;
/// What a missing storage word is taken for in the second run of a round: large enough for any
/// balance or allowance check to pass, so that the run gets further than with zero.
const OPTIMISTIC: U256 = uint!(0x10000000000000000000000000_U256);

/// Slots fetched along with any account that might be a contract, because a run that finds them
/// empty seldom gets past them: the first words of a V3 pool, reserves and lock of a V2 pair, and
/// where proxies keep their implementation
/// ([EIP-1967](https://eips.ethereum.org/EIPS/eip-1967), and the convention before it).
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

/// One block's cached state.
#[derive(Debug)]
pub(super) struct PinnedState {
    pub(super) remote: Arc<Remote>,
    pub(super) header: Header,
    pub(super) data: Mutex<Data>,
    /// What several endpoints have confirmed, or a majority of them has corrected.
    pub(super) verified: Mutex<Verified>,
    addressing: AtomicU8,
    /// Fetches by number that `data` holds values of.
    by_number: AtomicU64,
    /// How many of them came before a check that found the block still there.
    checked: AtomicU64,
    /// The block was found to be no longer part of the chain: nothing read here counts any more.
    gone: AtomicBool,
}

/// How a state request names the block.
const UNTRIED: u8 = 0;
const BY_HASH: u8 = 1;
const BY_NUMBER: u8 = 2;

#[derive(Debug, Clone, Default)]
pub(super) struct Data {
    pub(super) accounts: imbl::HashMap<Address, AccountInfo>,
    pub(super) slots: imbl::HashMap<(Address, U256), U256>,
    pub(super) hashes: imbl::HashMap<u64, B256>,
}

/// Values to fetch, or to compare.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) accounts: HashSet<Address>,
    pub(super) slots: HashSet<(Address, U256)>,
    pub(super) hashes: HashSet<u64>,
}

impl PinnedState {
    /// Nothing but what the block's header says.
    pub(super) fn new(remote: Arc<Remote>, header: Header) -> Self {
        let mut data = Data::default();
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

    /// The block's hash.
    pub(super) fn hash(&self) -> B256 {
        self.header.hash
    }

    /// Whether the block was found to be no longer part of the chain.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Whether anything cached was fetched by number and not held against the block since, whoever fetched it.
    fn is_unchecked(&self) -> bool {
        self.by_number.load(Ordering::Acquire) > self.checked.load(Ordering::Acquire)
    }

    /// Simulates on this state: fetches what is known to be read, then runs until nothing is missing.
    pub(super) async fn simulate(
        self: &Arc<Self>,
        fork: &Fork,
        calls: &[Call],
        options: &Options,
        effort: &Arc<Effort>,
    ) -> Result<Simulation, ForkError> {
        let mut wanted = self.foreseen(&fork.next, calls, options);
        let rounds = self.remote.limits().rounds;
        for _ in 0..rounds {
            if self.is_gone() {
                return Err(ForkError::Reorganised { number: self.header.number, hash: self.header.hash });
            }
            self.fetch(wanted).await?;
            let Speculated { result, missed, touched } = fork.speculate(self, calls, options, effort).await?;
            if missed.is_empty() {
                if self.is_unchecked() {
                    self.check_still_there().await?;
                }
                // What a majority corrects is run again.
                if self.verify(touched).await? == Verification::Corrected {
                    wanted = Wanted::default();
                    continue;
                }
                return result;
            }
            wanted = missed;
        }
        Err(ForkError::NotConverging { rounds })
    }

    /// Runs once on what is cached. If anything was missing the result is worthless, and a second
    /// run with a brighter guess finds more of what to fetch. `None` if that takes too long for this place.
    pub(super) fn run(
        &self,
        fork: &Fork,
        calls: &[Call],
        options: &Options,
        effort: &Effort,
        place: Place,
    ) -> Option<Speculated> {
        let data = self.data.lock().clone();
        let reads = self.remote.limits().reads;
        let touched = self.remote.witnesses().map(|_| RefCell::default());
        let view = Speculation { data: &data, guess: U256::ZERO, missed: RefCell::default(), touched, limit: reads };
        let result = run(fork, &view, calls, options, effort, place)?;
        let touched = view.touched.map(RefCell::into_inner).unwrap_or_default();
        let mut missed = view.missed.into_inner();
        if !missed.is_empty() {
            let missing = RefCell::new(missed);
            let view = Speculation { data: &data, guess: OPTIMISTIC, missed: missing, touched: None, limit: reads };
            // What this run comes to is of no interest, only what it reads.
            let _ = run(fork, &view, calls, options, effort, place)?;
            missed = view.missed.into_inner();
            missed.guess_slots();
        }
        Some(Speculated { result, missed, touched })
    }

    /// What is read in any case: accounts of the calls and their data, the coinbase, declarations, hints.
    fn foreseen(&self, next: &BlockContext, calls: &[Call], options: &Options) -> Wanted {
        let mut wanted = Wanted::default();
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

    /// Fetches what of `wanted` is not cached, in one round trip.
    async fn fetch(&self, mut wanted: Wanted) -> Result<(), ForkError> {
        {
            let data = self.data.lock();
            wanted.accounts.retain(|account| !data.accounts.contains_key(account));
            wanted.slots.retain(|slot| !data.slots.contains_key(slot));
            wanted.hashes.retain(|number| !data.hashes.contains_key(number));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let untried = self.addressing.load(Ordering::Acquire) == UNTRIED;
        match self.fetch_all(&wanted).await {
            // An endpoint from before EIP-1898 does not understand a block named by hash.
            Err(ForkError::Endpoint(ProviderError::Rpc { code: -32602, .. })) if untried => {
                self.addressing.store(BY_NUMBER, Ordering::Release);
                self.fetch_all(&wanted).await
            }
            Ok(()) if untried => {
                self.addressing.store(BY_HASH, Ordering::Release);
                Ok(())
            }
            result => result,
        }
    }

    async fn fetch_all(&self, wanted: &Wanted) -> Result<(), ForkError> {
        let number = self.header.number;
        let by_number = self.addressing.load(Ordering::Acquire) == BY_NUMBER;
        let block = if by_number {
            json!(BlockNumberOrTag::Number(number))
        } else {
            // EIP-1898; a block that a reorganisation took out is refused by the endpoint.
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
                .ok_or_else(|| ForkError::Malformed { what: "a batch has fewer answers than calls".to_owned() })
        };
        let mut fetched = Data::default();
        for (account, code) in accounts {
            let balance = quantity(&next()?, "eth_getBalance")?;
            let nonce = quantity(&next()?, "eth_getTransactionCount")?;
            let nonce = u64::try_from(nonce).map_err(|_| not_of_its_type("eth_getTransactionCount"))?;
            let (code, hash) = match code {
                Some(settled) => settled,
                None => self.remote.learn_code(account, number, decoded(next()?, "eth_getCode")?)?,
            };
            fetched.accounts.insert(account, AccountInfo::new(balance, nonce, hash, code));
        }
        for slot in slots {
            fetched.slots.insert(slot, quantity(&next()?, "eth_getStorageAt")?);
        }
        for number in hashes {
            let header: Option<Header> = decoded(next()?, "eth_getBlockByNumber")?;
            let header = header.ok_or(ForkError::UnknownBlock { block: BlockId::number(number) })?;
            fetched.hashes.insert(number, header.hash);
        }
        let mut data = self.data.lock();
        // Under the lock, so that nobody reads a value before it counts as unchecked. A check that began earlier
        // does not speak for it, and one that is never made leaves it so.
        if by_number || !fetched.hashes.is_empty() {
            self.by_number.fetch_add(1, Ordering::AcqRel);
        }
        data.accounts.extend(fetched.accounts);
        data.slots.extend(fetched.slots);
        data.hashes.extend(fetched.hashes);
        Ok(())
    }

    /// Makes sure that the block of this number is still the pinned one.
    async fn check_still_there(&self) -> Result<(), ForkError> {
        let covered = self.by_number.load(Ordering::Acquire);
        let number = BlockNumberOrTag::Number(self.header.number);
        let answers = self.remote.ask(vec![("eth_getBlockByNumber", json!([number, false]))]).await?;
        let header: Option<Header> = decoded(answers.into_iter().next().unwrap_or(Value::Null), "the block")?;
        if header.is_some_and(|header| header.hash == self.header.hash) {
            self.checked.fetch_max(covered, Ordering::AcqRel);
            return Ok(());
        }
        self.gone.store(true, Ordering::Release);
        Err(ForkError::Reorganised { number: self.header.number, hash: self.header.hash })
    }
}

/// What one speculative run came to.
pub(super) struct Speculated {
    pub(super) result: Result<Simulation, ForkError>,
    /// What was not cached; the result counts only where nothing was missing.
    pub(super) missed: Wanted,
    /// What was read, where several endpoints have to confirm it.
    pub(super) touched: Wanted,
}

impl Wanted {
    pub(super) fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.slots.is_empty() && self.hashes.is_empty()
    }

    fn len(&self) -> usize {
        self.accounts.len() + self.slots.len() + self.hashes.len()
    }

    fn guess_slots(&mut self) {
        for account in &self.accounts {
            self.slots.extend(GUESSED_SLOTS.map(|slot| (*account, slot)));
        }
    }
}

/// The cached state as one run sees it: what is missing is noted and guessed.
struct Speculation<'a> {
    data: &'a Data,
    guess: U256,
    missed: RefCell<Wanted>,
    /// What is read; `None` where nobody has to confirm it.
    touched: Option<RefCell<Wanted>>,
    limit: usize,
}

impl Speculation<'_> {
    fn touch(&self, note: impl FnOnce(&mut Wanted)) {
        if let Some(touched) = &self.touched {
            note(&mut touched.borrow_mut());
        }
    }

    fn miss(&self, note: impl FnOnce(&mut Wanted)) {
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
        // Accounts carry their code, so that nobody has to ask by hash.
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

/// Addresses that calldata seems to hold: twenty bytes after twelve zeros, wherever they lie.
fn addresses_in(data: &[u8]) -> HashSet<Address> {
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
