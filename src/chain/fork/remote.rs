//! A fork whose state comes over JSON-RPC: pinned to one block, cached, filled in batches.
//!
//! A node is far and each question costs a round trip, so calls run *speculatively* on what is
//! cached: a value that is missing is noted and answered with a guess, the run goes on, and
//! afterwards everything that was missing is fetched in one batch. Only a run that missed nothing
//! counts; the others serve to find out what is read. What leaves the process are the addresses
//! and slots that are read, never a call.
//!
//! Not here: retry, failover and time limits (see `chain::provider`).

use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
};

use alloy::{
    eips::{BlockId, BlockNumberOrTag},
    primitives::{Address, B256, Bytes, U64, U256, b256, map::HashSet, uint},
    providers::{DynProvider, Provider},
    rpc::{client::BatchRequest, json_rpc::RpcRecv, types::Header},
};
use futures::future::try_join_all;
use revm::{
    database_interface::DatabaseRef,
    state::{AccountInfo, Bytecode},
};
use serde_json::{Value, json};

use super::{Fork, ForkError, NextBlock, Options, Simulation, call::Call, outcome::Pinned};
use crate::chain::{
    evm::{self, BlockContext, ChainRules, DatabaseError, SpecId},
    provider::ProviderError,
};

/// Blocks whose caches are kept.
const BLOCKS_KEPT: usize = 4;
/// Code seen unchanged over this many blocks is taken to stay: since Cancun deployed code cannot
/// change, and a reorganisation that deep is not expected on any chain here.
const SETTLED_AFTER: u64 = 64;
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

/// State of a chain behind an endpoint, for forks of its blocks. Share it: caches live here.
#[derive(Debug)]
pub struct Remote {
    provider: DynProvider,
    rules: ChainRules,
    limits: RemoteLimits,
    round_trips: AtomicU64,
    codes: Mutex<imbl::HashMap<Address, KnownCode>>,
    blocks: Mutex<VecDeque<Arc<PinnedState>>>,
}

/// Bounds on what one simulation may ask of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteLimits {
    /// Runs until one misses nothing, at most.
    pub rounds: usize,
    /// Calls in one JSON-RPC batch. A round that needs more sends several batches at the same time.
    pub batch: usize,
    /// Values fetched in one round.
    pub reads: usize,
}

impl Default for RemoteLimits {
    fn default() -> Self {
        Self { rounds: 24, batch: 100, reads: 4096 }
    }
}

/// Accounts and slots that a caller knows will be read, to be fetched before the first run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Accounts: balance, nonce, code, and the slots that contracts read first.
    pub accounts: Vec<Address>,
    /// Single slots.
    pub slots: Vec<(Address, U256)>,
}

#[derive(Debug, Clone)]
struct KnownCode {
    code: Bytecode,
    hash: B256,
    first_seen: u64,
    settled: bool,
}

/// One block's cached state.
#[derive(Debug)]
pub(super) struct PinnedState {
    remote: Arc<Remote>,
    header: Header,
    data: Mutex<Data>,
    addressing: AtomicU8,
    /// The block was found to be no longer part of the chain: nothing read here counts any more.
    gone: AtomicBool,
}

/// How a state request names the block.
const UNTRIED: u8 = 0;
const BY_HASH: u8 = 1;
const BY_NUMBER: u8 = 2;

#[derive(Debug, Clone, Default)]
struct Data {
    accounts: imbl::HashMap<Address, AccountInfo>,
    slots: imbl::HashMap<(Address, U256), U256>,
    hashes: imbl::HashMap<u64, B256>,
}

/// Values to fetch.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    accounts: HashSet<Address>,
    slots: HashSet<(Address, U256)>,
    hashes: HashSet<u64>,
}

impl Remote {
    /// The chain behind `provider`, which must have the id of `rules`.
    pub fn new(provider: DynProvider, rules: ChainRules, limits: RemoteLimits) -> Arc<Self> {
        Arc::new(Self {
            provider,
            rules,
            limits,
            round_trips: AtomicU64::new(0),
            codes: Mutex::default(),
            blocks: Mutex::default(),
        })
    }

    /// Round trips made so far, one after the other. Batches sent at the same time count as one.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// Pins `block`: one round trip. A block pinned before keeps its cache.
    ///
    /// # Errors
    /// Endpoint errors, an unknown block, or another chain behind the endpoint.
    pub async fn pin(self: &Arc<Self>, block: BlockId, next: NextBlock) -> Result<Fork, ForkError> {
        let header_call = match block {
            BlockId::Hash(hash) => ("eth_getBlockByHash", json!([hash.block_hash, false])),
            BlockId::Number(number) => ("eth_getBlockByNumber", json!([number, false])),
        };
        let [chain_id, header] = self
            .ask(vec![("eth_chainId", json!([])), header_call])
            .await?
            .try_into()
            .map_err(|_| ForkError::Malformed { what: "a batch of two calls has not two answers".to_owned() })?;
        let found: U64 = decoded(chain_id, "eth_chainId")?;
        if found.to::<u64>() != self.rules.chain_id {
            return Err(ForkError::WrongChain { expected: self.rules.chain_id, found: found.to() });
        }
        let header: Option<Header> = decoded(header, "the block")?;
        let header = header.ok_or(ForkError::UnknownBlock { block })?;
        let mut context = self.after(&header);
        next.correct(&mut context);
        let pinned = Pinned { chain_id: self.rules.chain_id, number: header.number, hash: header.hash };
        let state = self.state_of(header);
        Ok(Fork::on_remote(pinned, self.rules, context, state))
    }

    /// The block after `parent`, as far as the parent tells.
    fn after(&self, parent: &Header) -> BlockContext {
        BlockContext {
            number: parent.number.saturating_add(1),
            timestamp: parent.timestamp.saturating_add(1),
            base_fee: parent
                .base_fee_per_gas
                .map_or(0, |fee| evm::next_base_fee(parent.gas_used, parent.gas_limit, fee)),
            gas_limit: parent.gas_limit,
            coinbase: parent.beneficiary,
            prevrandao: parent.mix_hash,
            excess_blob_gas: parent.next_block_excess_blob_gas(self.rules.blob_params()).unwrap_or_default(),
        }
    }

    fn state_of(self: &Arc<Self>, header: Header) -> Arc<PinnedState> {
        let mut blocks = locked(&self.blocks);
        blocks.retain(|state| !state.gone.load(Ordering::Acquire));
        if let Some(known) = blocks.iter().find(|state| state.header.hash == header.hash) {
            return Arc::clone(known);
        }
        let mut data = Data::default();
        data.hashes.insert(header.number, header.hash);
        if let Some(parent) = header.number.checked_sub(1) {
            data.hashes.insert(parent, header.parent_hash);
        }
        let state = Arc::new(PinnedState {
            remote: Arc::clone(self),
            header,
            data: Mutex::new(data),
            addressing: AtomicU8::new(UNTRIED),
            gone: AtomicBool::new(false),
        });
        blocks.push_back(Arc::clone(&state));
        if blocks.len() > BLOCKS_KEPT {
            blocks.pop_front();
        }
        state
    }

    /// Asks all `calls` at once and returns their answers in order: one round trip.
    async fn ask(&self, calls: Vec<(&'static str, Value)>) -> Result<Vec<Value>, ForkError> {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let batches = calls.chunks(self.limits.batch.max(1)).map(|calls| self.ask_batch(calls));
        Ok(try_join_all(batches).await?.into_iter().flatten().collect())
    }

    async fn ask_batch(&self, calls: &[(&'static str, Value)]) -> Result<Vec<Value>, ForkError> {
        let mut batch = BatchRequest::new(self.provider.client());
        let mut waiting = Vec::with_capacity(calls.len());
        for (method, params) in calls {
            waiting.push(batch.add_call::<_, Value>(*method, params).map_err(ProviderError::from)?);
        }
        batch.send().await.map_err(ProviderError::from)?;
        Ok(try_join_all(waiting).await.map_err(ProviderError::from)?)
    }

    /// Code of `account` that need not be fetched again for block `number`.
    fn settled_code(&self, account: Address, number: u64) -> Option<(Bytecode, B256)> {
        let codes = locked(&self.codes);
        let known = codes.get(&account)?;
        (known.settled && known.first_seen <= number).then(|| (known.code.clone(), known.hash))
    }

    /// Remembers code that was fetched, and gives back an analysed copy if it is a known one.
    fn learn_code(&self, account: Address, number: u64, bytes: Bytes) -> Result<(Bytecode, B256), ForkError> {
        let mut codes = locked(&self.codes);
        if let Some(known) = codes.get_mut(&account)
            && known.code.original_byte_slice() == bytes.as_ref()
        {
            known.settled |= number >= known.first_seen.saturating_add(SETTLED_AFTER);
            return Ok((known.code.clone(), known.hash));
        }
        let code = Bytecode::new_raw_checked(bytes).map_err(|_| ForkError::Malformed {
            what: format!("the code of {account} begins like a delegation and is none"),
        })?;
        let hash = code.hash_slow();
        // A delegation can change with every block, and so can an account that has no code yet.
        if !code.is_empty() && !code.is_eip7702() && self.rules.spec.is_enabled_in(SpecId::CANCUN) {
            let known = KnownCode { code: code.clone(), hash, first_seen: number, settled: false };
            codes.insert(account, known);
        }
        Ok((code, hash))
    }
}

impl PinnedState {
    /// Simulates on this state: fetches what is known to be read, then runs until nothing is missing.
    pub(super) async fn simulate(
        self: &Arc<Self>,
        fork: &Fork,
        calls: &[Call],
        options: &Options,
    ) -> Result<Simulation, ForkError> {
        let before = self.remote.round_trips();
        let mut wanted = self.foreseen(&fork.next, calls, options);
        for _ in 0..self.remote.limits.rounds {
            if self.gone.load(Ordering::Acquire) {
                return Err(ForkError::Reorganised { number: self.header.number, hash: self.header.hash });
            }
            self.fetch(wanted).await?;
            let (result, missed) = fork.attempt(self, calls, options).await?;
            if missed.is_empty() {
                if self.addressing.load(Ordering::Acquire) == BY_NUMBER && self.remote.round_trips() > before {
                    self.check_still_there().await?;
                }
                return result;
            }
            wanted = missed;
        }
        Err(ForkError::NotConverging { rounds: self.remote.limits.rounds })
    }

    /// Runs once on what is cached. If anything was missing the result is worthless, and a second
    /// run with a brighter guess finds more of what to fetch.
    pub(super) fn run(
        &self,
        fork: &Fork,
        calls: &[Call],
        options: &Options,
    ) -> (Result<Simulation, ForkError>, Wanted) {
        let data = locked(&self.data).clone();
        let reads = self.remote.limits.reads;
        let view = Speculation { data: &data, guess: U256::ZERO, missed: RefCell::default(), limit: reads };
        let result = super::run(fork, &view, calls, options);
        let mut missed = view.missed.into_inner();
        if !missed.is_empty() {
            let view = Speculation { data: &data, guess: OPTIMISTIC, missed: RefCell::new(missed), limit: reads };
            // What this run comes to is of no interest, only what it reads.
            let _ = super::run(fork, &view, calls, options);
            missed = view.missed.into_inner();
            missed.guess_slots();
        }
        (result, missed)
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
            let data = locked(&self.data);
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
        let block = match self.addressing.load(Ordering::Acquire) {
            BY_NUMBER => json!(BlockNumberOrTag::Number(number)),
            // EIP-1898; a block that a reorganisation took out is refused by the endpoint.
            _ => json!({ "blockHash": self.header.hash, "requireCanonical": true }),
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
        let mut data = locked(&self.data);
        data.accounts.extend(fetched.accounts);
        data.slots.extend(fetched.slots);
        data.hashes.extend(fetched.hashes);
        Ok(())
    }

    /// Makes sure that the block of this number is still the pinned one.
    async fn check_still_there(&self) -> Result<(), ForkError> {
        let number = BlockNumberOrTag::Number(self.header.number);
        let answers = self.remote.ask(vec![("eth_getBlockByNumber", json!([number, false]))]).await?;
        let header: Option<Header> = decoded(answers.into_iter().next().unwrap_or(Value::Null), "the block")?;
        if header.is_some_and(|header| header.hash == self.header.hash) {
            return Ok(());
        }
        self.gone.store(true, Ordering::Release);
        Err(ForkError::Reorganised { number: self.header.number, hash: self.header.hash })
    }
}

impl Wanted {
    fn is_empty(&self) -> bool {
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
    limit: usize,
}

impl Speculation<'_> {
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
        if let Some(value) = self.data.slots.get(&(address, slot)) {
            return Ok(*value);
        }
        self.miss(|wanted| {
            wanted.slots.insert((address, slot));
        });
        Ok(self.guess)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, DatabaseError> {
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

fn decoded<T: RpcRecv>(answer: Value, what: &str) -> Result<T, ForkError> {
    serde_json::from_value(answer).map_err(|_| not_of_its_type(what))
}

/// A number as the wire has it: `0x` and 1 to 64 hex digits. An endpoint that lacks the state may answer `0x`,
/// which lenient parsers read as zero; zero is a balance, and nothing is not.
fn quantity(answer: &Value, what: &str) -> Result<U256, ForkError> {
    answer
        .as_str()
        .and_then(|text| text.strip_prefix("0x"))
        .filter(|digits| (1..=64).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .and_then(|digits| U256::from_str_radix(digits, 16).ok())
        .ok_or_else(|| not_of_its_type(what))
}

fn not_of_its_type(what: &str) -> ForkError {
    ForkError::Malformed { what: format!("the answer to {what} is not of its type") }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while holding one of these locks; if it did, the maps would still be whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
