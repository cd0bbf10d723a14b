//! Comparison of the values that a simulation read on all endpoints of the chain: one round trip after the last run.
//!
//! The run itself uses one endpoint's answers, so it is as fast as with a single endpoint. The other endpoints then
//! confirm the same accounts and slots of the same block. A strict majority corrects a value, and the calls run again;
//! without a majority there is no simulation. In both cases the contradiction is recorded
//! (`EndpointStack::disputes_since`), so that the caller can refuse actions that increase risk.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256, Bytes, U256, keccak256, map::HashMap, map::HashSet},
    rpc::types::Header,
};
use revm::state::{AccountInfo, Bytecode};
use serde_json::{Value, json};

use super::{
    ForkError,
    pinned::{MissingValues, PinnedState},
    remote::quantity,
};
use crate::provider::{CallAnswer, Dispute, EndpointAnswers, EndpointStack};

/// Number of attempts while an endpoint lacks the block.
const ATTEMPTS: usize = 4;
/// Wait before an endpoint without the block is queried again.
const CATCHING_UP: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verification {
    /// All values that were read are confirmed.
    Confirmed,
    /// A majority returned other values, which are now in the cache.
    Corrected,
}

/// Comparison state of one block: the confirmed values, and known properties of endpoints.
#[derive(Debug, Default)]
pub(super) struct VerifiedBlock {
    header: bool,
    items: HashSet<ReadItem>,
    /// Endpoints and subject of a contradiction that a majority settled. It applies to every later simulation on this
    /// block.
    settled: Option<(Vec<usize>, String)>,
    /// Endpoints that do not accept a block hash (before EIP-1898).
    by_number: HashSet<usize>,
}

/// A value that a simulation can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ReadItem {
    Balance(Address),
    Nonce(Address),
    Code(Address),
    Slot(Address, U256),
    BlockHash(u64),
}

impl std::fmt::Display for ReadItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Balance(account) => write!(f, "the balance of {account}"),
            Self::Nonce(account) => write!(f, "the nonce of {account}"),
            Self::Code(account) => write!(f, "the code of {account}"),
            Self::Slot(account, slot) => write!(f, "storage slot {slot:#x} of {account}"),
            Self::BlockHash(number) => write!(f, "the hash of block {number}"),
        }
    }
}

/// Values of the pinned block at one endpoint.
struct EndpointView {
    endpoint: usize,
    /// Values in the order of the items; `None` for an invalid one.
    values: Vec<Option<EndpointReading>>,
}

/// A value that an endpoint returned.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EndpointReading {
    Word(U256),
    Code { hash: B256, bytes: Bytes },
}

impl EndpointReading {
    /// Word by which two readings of one item are compared.
    fn key(&self) -> U256 {
        match self {
            Self::Word(word) => *word,
            Self::Code { hash, .. } => (*hash).into(),
        }
    }
}

/// Result of querying one endpoint.
enum EndpointReply {
    View(EndpointView),
    /// The endpoint lacks the block; `is_stalled` is true if its own latest block is too old.
    Lacks {
        endpoint: usize,
        is_stalled: bool,
    },
    /// The endpoint returned another header for the pinned hash.
    OtherHeader(usize),
    /// The endpoint must be queried by block number.
    ByNumber(usize),
    Nothing,
}

impl PinnedState {
    /// Compares the values that a run has read on all endpoints of the chain; does nothing with a single endpoint.
    ///
    /// # Errors
    /// [`ForkError::Disputed`] if endpoints differ without a majority; [`ForkError::Unverified`] if none answers.
    pub(super) async fn verify(&self, touched: MissingValues) -> Result<Verification, ForkError> {
        let Some(witnesses) = self.remote.witnesses() else { return Ok(Verification::Confirmed) };
        let items = self.open(&touched);
        self.remind(witnesses);
        if items.is_empty() && self.verified.lock().header {
            return Ok(Verification::Confirmed);
        }
        let views = self.views(witnesses, &items).await?;
        self.compare(witnesses, &items, views)
    }

    /// Records a contradiction that was settled on this block again, so that the current caller sees it too.
    fn remind(&self, witnesses: &EndpointStack) {
        let settled = self.verified.lock().settled.clone();
        if let Some((outvoted, subject)) = settled {
            witnesses.note(&subject, &outvoted, true);
        }
    }

    /// Values that were read and are not confirmed yet.
    fn open(&self, touched: &MissingValues) -> Vec<ReadItem> {
        let verified = self.verified.lock();
        let accounts = touched.accounts.iter();
        let accounts = accounts
            .flat_map(|account| [ReadItem::Balance(*account), ReadItem::Nonce(*account), ReadItem::Code(*account)]);
        let slots = touched.slots.iter().map(|(account, slot)| ReadItem::Slot(*account, *slot));
        let hashes = touched.hashes.iter().map(|number| ReadItem::BlockHash(*number));
        let settled = |item: &ReadItem| match item {
            ReadItem::Code(account) => self.remote.is_confirmed(*account, self.header.number),
            ReadItem::Balance(_) | ReadItem::Nonce(_) | ReadItem::Slot(..) | ReadItem::BlockHash(_) => false,
        };
        let all = accounts.chain(slots).chain(hashes);
        let mut open: Vec<ReadItem> = all.filter(|item| !verified.items.contains(item) && !settled(item)).collect();
        // A fixed order makes requests, records and tests reproducible.
        open.sort_unstable();
        open
    }

    /// Reads each endpoint's values of the pinned block.
    async fn views(&self, witnesses: &EndpointStack, items: &[ReadItem]) -> Result<Vec<EndpointView>, ForkError> {
        // Determined before an endpoint fails at these requests: if only one endpoint can answer them, the others must
        // still count.
        let expected = witnesses.expected();
        for attempt in 1..=ATTEMPTS {
            let replies = self.request_all(witnesses, items, attempt > 1).await;
            let others: Vec<usize> = replies
                .iter()
                .filter_map(|replies| if let EndpointReply::OtherHeader(one) = replies { Some(*one) } else { None })
                .collect();
            let by_number: Vec<usize> = replies
                .iter()
                .filter_map(|replies| if let EndpointReply::ByNumber(one) = replies { Some(*one) } else { None })
                .collect();
            let lacking: Vec<usize> = replies
                .iter()
                .filter_map(|replies| match replies {
                    EndpointReply::Lacks { endpoint, is_stalled: false } => Some(*endpoint),
                    EndpointReply::Lacks { .. }
                    | EndpointReply::View(_)
                    | EndpointReply::OtherHeader(_)
                    | EndpointReply::ByNumber(_)
                    | EndpointReply::Nothing => None,
                })
                .collect();
            let spoke: Vec<usize> = replies
                .iter()
                .filter_map(|replies| match replies {
                    EndpointReply::View(view) => Some(view.endpoint),
                    EndpointReply::Lacks { endpoint, .. }
                    | EndpointReply::OtherHeader(endpoint)
                    | EndpointReply::ByNumber(endpoint) => Some(*endpoint),
                    EndpointReply::Nothing => None,
                })
                .collect();
            let views: Vec<EndpointView> = replies
                .into_iter()
                .filter_map(|replies| if let EndpointReply::View(view) = replies { Some(view) } else { None })
                .collect();
            if !by_number.is_empty() {
                self.verified.lock().by_number.extend(by_number);
                continue;
            }
            if !others.is_empty() {
                let outvoted = views.len() > others.len() && views.len() > 1;
                let named =
                    if outvoted { others } else { views.iter().map(|view| view.endpoint).chain(others).collect() };
                let subject = format!("block {} ({})", self.header.number, self.header.hash);
                let dispute = witnesses.note(&subject, &named, outvoted);
                if !outvoted {
                    return Err(ForkError::Disputed(dispute));
                }
                self.verified.lock().settled = Some((named, subject));
                return Ok(views);
            }
            // A block that only one endpoint has may be invented. A single endpoint confirms only if no other works,
            // since a caller's run might be one that only it can answer.
            let decided = views.len() > 1 || (lacking.is_empty() && !witnesses.misses(&expected, &spoke).await);
            if decided {
                return if views.is_empty() { Err(ForkError::Unverified) } else { Ok(views) };
            }
            if attempt == ATTEMPTS {
                if views.is_empty() && lacking.is_empty() {
                    return Err(ForkError::Unverified);
                }
                let subject = match lacking.is_empty() {
                    true => format!("block {}, which only one of them returns", self.header.number),
                    false => format!("block {} ({})", self.header.number, self.header.hash),
                };
                let views: Vec<usize> = views.iter().map(|view| view.endpoint).collect();
                let others = lacking.into_iter().chain(expected.iter().copied()).filter(|one| !views.contains(one));
                let others: BTreeSet<usize> = others.collect();
                let named: Vec<usize> = views.into_iter().chain(others).collect();
                return Err(ForkError::Disputed(witnesses.note(&subject, &named, false)));
            }
            tokio::time::sleep(CATCHING_UP).await;
        }
        Err(ForkError::Unverified)
    }

    /// Requests the header and all items from every endpoint in one round trip.
    ///
    /// With `gently`, requests are small and sequential.
    async fn request_all(&self, witnesses: &EndpointStack, items: &[ReadItem], gently: bool) -> Vec<EndpointReply> {
        let by_number = self.verified.lock().by_number.clone();
        let number = json!(BlockNumberOrTag::Number(self.header.number));
        let calls = |endpoint: usize| {
            let numbered = by_number.contains(&endpoint);
            let block = if numbered { number.clone() } else { json!({ "blockHash": self.header.hash }) };
            let mut calls = vec![("eth_getBlockByHash", json!([self.header.hash, false]))];
            calls.extend(items.iter().map(|item| item.call(&block)));
            if numbered {
                // The number must mean the same block before and after the values that were read by it.
                calls.insert(1, ("eth_getBlockByNumber", json!([number, false])));
                calls.push(("eth_getBlockByNumber", json!([number, false])));
            }
            calls
        };
        let told = self.remote.ask_each(witnesses, gently, calls).await;
        told.into_iter().map(|answers| self.replies(answers, items, &by_number)).collect()
    }

    fn replies(&self, answers: EndpointAnswers, items: &[ReadItem], by_number: &HashSet<usize>) -> EndpointReply {
        let EndpointAnswers { endpoint, is_stalled, mut answers } = answers;
        if answers.contains(&CallAnswer::Behind) {
            return EndpointReply::Lacks { endpoint, is_stalled };
        }
        if answers.is_empty() {
            return EndpointReply::Nothing;
        }
        match answers.remove(0) {
            CallAnswer::Value(Value::Null) => return EndpointReply::Lacks { endpoint, is_stalled },
            CallAnswer::Value(header) if self.is_the_header(&header) => {}
            CallAnswer::Value(_) => return EndpointReply::OtherHeader(endpoint),
            CallAnswer::Behind | CallAnswer::BadParams | CallAnswer::Failed => return EndpointReply::Nothing,
        }
        if by_number.contains(&endpoint) {
            let after = answers.pop();
            let before = (!answers.is_empty()).then(|| answers.remove(0));
            let same = |answer: Option<CallAnswer>| matches!(answer, Some(CallAnswer::Value(header)) if self.is_the_header(&header));
            if !same(before) || !same(after) {
                return EndpointReply::Lacks { endpoint, is_stalled };
            }
        } else if answers.contains(&CallAnswer::BadParams) {
            return EndpointReply::ByNumber(endpoint);
        }
        if answers.len() != items.len() || answers.contains(&CallAnswer::Failed) {
            return EndpointReply::Nothing;
        }
        let values = items.iter().zip(answers).map(|(item, answer)| item.read(answer)).collect();
        EndpointReply::View(EndpointView { endpoint, values })
    }

    /// Returns true if a header equals the pinned one in all fields that a simulation uses.
    fn is_the_header(&self, header: &Value) -> bool {
        let Ok(header) = serde_json::from_value::<Header>(header.clone()) else { return false };
        let fields = |header: &Header| {
            (
                (header.hash, header.parent_hash, header.number, header.timestamp),
                (header.gas_limit, header.gas_used, header.base_fee_per_gas, header.beneficiary),
                (header.mix_hash, header.excess_blob_gas, header.blob_gas_used),
            )
        };
        fields(&header) == fields(&self.header)
    }

    /// Accepts the values on which all endpoints agree, or those of a majority.
    fn compare(
        &self,
        witnesses: &EndpointStack,
        items: &[ReadItem],
        views: Vec<EndpointView>,
    ) -> Result<Verification, ForkError> {
        let mut corrected: BTreeMap<ReadItem, EndpointReading> = BTreeMap::new();
        let mut outvoted: HashMap<usize, ReadItem> = HashMap::default();
        for (place, item) in items.iter().enumerate() {
            let cached = self.cached(*item);
            let told: Vec<(usize, Option<&EndpointReading>)> =
                views.iter().map(|view| (view.endpoint, view.values.get(place).and_then(Option::as_ref))).collect();
            if told.iter().all(|(_, reading)| reading.is_some_and(|reading| Some(reading.key()) == cached)) {
                continue;
            }
            let most = told
                .iter()
                .filter_map(|(_, reading)| *reading)
                .map(|reading| {
                    (
                        told.iter()
                            .filter(|(_, other)| other.is_some_and(|other| other.key() == reading.key()))
                            .count(),
                        reading,
                    )
                })
                .max_by_key(|(votes, _)| *votes)
                .filter(|(votes, _)| *votes > 1 && votes * 2 > told.len());
            let Some((_, majority)) = most else {
                let named: Vec<usize> = told.iter().map(|(endpoint, _)| *endpoint).collect();
                return Err(ForkError::Disputed(witnesses.note(&item.to_string(), &named, false)));
            };
            for (endpoint, reading) in &told {
                if reading.is_none_or(|reading| reading.key() != majority.key()) {
                    outvoted.insert(*endpoint, *item);
                }
            }
            if cached != Some(majority.key()) {
                corrected.insert(*item, majority.clone());
            }
        }
        if outvoted.is_empty() && corrected.is_empty() {
            let mut verified = self.verified.lock();
            verified.header = true;
            verified.items.extend(items.iter().copied());
            drop(verified);
            // A single endpoint confirms no code, since the code would not be compared again with the others.
            for item in items.iter().filter(|_| views.len() > 1) {
                if let (ReadItem::Code(account), Some(hash)) = (item, self.cached(*item)) {
                    self.remote.confirm_code(*account, hash.into());
                }
            }
            return Ok(Verification::Confirmed);
        }
        let subject = outvoted.values().next().or(corrected.keys().next()).map(ReadItem::to_string).unwrap_or_default();
        let mut named: Vec<usize> = outvoted.into_keys().collect();
        named.sort_unstable();
        let changed = !corrected.is_empty();
        self.correct(corrected)?;
        {
            let mut verified = self.verified.lock();
            verified.header = true;
            verified.items.extend(items.iter().copied());
            verified.settled = Some((named.clone(), subject.clone()));
        }
        let _noted: Dispute = witnesses.note(&subject, &named, true);
        Ok(if changed { Verification::Corrected } else { Verification::Confirmed })
    }

    /// The value that the run used, in the form of [`EndpointReading::key`].
    fn cached(&self, item: ReadItem) -> Option<U256> {
        let data = self.data.lock();
        match item {
            ReadItem::Balance(account) => data.accounts.get(&account).map(|info| info.balance),
            ReadItem::Nonce(account) => data.accounts.get(&account).map(|info| U256::from(info.nonce)),
            ReadItem::Code(account) => data.accounts.get(&account).map(|info| info.code_hash.into()),
            ReadItem::Slot(account, slot) => data.slots.get(&(account, slot)).copied(),
            ReadItem::BlockHash(number) => data.hashes.get(&number).map(|hash| (*hash).into()),
        }
    }

    /// Replaces values in the cache by those of the majority.
    fn correct(&self, corrected: BTreeMap<ReadItem, EndpointReading>) -> Result<(), ForkError> {
        let mut data = self.data.lock();
        for (item, reading) in corrected {
            match (item, reading) {
                (ReadItem::Balance(account), EndpointReading::Word(balance)) => {
                    data.accounts.entry(account).or_default().balance = balance;
                }
                (ReadItem::Nonce(account), EndpointReading::Word(nonce)) => {
                    let nonce = u64::try_from(nonce).map_err(|_| malformed(item))?;
                    data.accounts.entry(account).or_default().nonce = nonce;
                }
                (ReadItem::Code(account), EndpointReading::Code { bytes, .. }) => {
                    let code = Bytecode::new_raw_checked(bytes).map_err(|_| malformed(item))?;
                    self.remote.forget_code(account);
                    let known = data.accounts.entry(account).or_default();
                    *known = AccountInfo::new(known.balance, known.nonce, code.hash_slow(), code);
                }
                (ReadItem::Slot(account, slot), EndpointReading::Word(value)) => {
                    data.slots.insert((account, slot), value);
                }
                (ReadItem::BlockHash(number), EndpointReading::Word(hash)) => {
                    data.hashes.insert(number, hash.into());
                }
                (
                    ReadItem::Balance(_) | ReadItem::Nonce(_) | ReadItem::Slot(..) | ReadItem::BlockHash(_),
                    EndpointReading::Code { .. },
                )
                | (ReadItem::Code(_), EndpointReading::Word(_)) => return Err(malformed(item)),
            }
        }
        Ok(())
    }
}

fn malformed(item: ReadItem) -> ForkError {
    ForkError::Malformed { what: format!("the response for {item} has the wrong type") }
}

impl ReadItem {
    /// Method and parameters of the request for it.
    fn call(self, block: &Value) -> (&'static str, Value) {
        match self {
            Self::Balance(account) => ("eth_getBalance", json!([account, block])),
            Self::Nonce(account) => ("eth_getTransactionCount", json!([account, block])),
            Self::Code(account) => ("eth_getCode", json!([account, block])),
            Self::Slot(account, slot) => ("eth_getStorageAt", json!([account, B256::from(slot), block])),
            Self::BlockHash(number) => ("eth_getBlockByNumber", json!([BlockNumberOrTag::Number(number), false])),
        }
    }

    /// Parses its value from an answer; `None` if the answer is invalid.
    fn read(self, answer: CallAnswer) -> Option<EndpointReading> {
        let CallAnswer::Value(value) = answer else { return None };
        match self {
            Self::Balance(_) | Self::Nonce(_) | Self::Slot(..) => {
                quantity(&value, "a word").ok().map(EndpointReading::Word)
            }
            Self::Code(_) => {
                let bytes: Bytes = serde_json::from_value(value).ok()?;
                // revm's hash of empty code.
                let hash = if bytes.is_empty() { revm::primitives::KECCAK_EMPTY } else { keccak256(&bytes) };
                Some(EndpointReading::Code { hash, bytes })
            }
            Self::BlockHash(_) => {
                let header: Header = serde_json::from_value(value).ok()?;
                Some(EndpointReading::Word(header.hash.into()))
            }
        }
    }
}
