//! A chain behind an endpoint, for forks: blocks to pin, code shared by blocks, and batched requests.
//!
//! Not here: the state of a pinned block (see [`pinned`](super::pinned)); retries, failover and timeouts (see
//! `chain::provider`).

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use alloy::{
    eips::{BlockId, BlockNumberOrTag},
    primitives::{Address, B256, Bytes, U64, U256},
    providers::{DynProvider, Provider},
    rpc::{client::BatchRequest, json_rpc::RpcRecv, types::Header},
};
use futures::future::try_join_all;
use parking_lot::Mutex;
use revm::state::Bytecode;
use serde_json::{Value, json};

use super::{Fork, ForkError, NextBlock, outcome::PinnedBlock, pinned::PinnedState};
use crate::{
    evm::{self, BlockContext, ChainRules, SpecId},
    provider::{Batching, CallAnswer, EndpointAnswers, EndpointStack, ProviderError, reached},
};

/// Number of blocks whose caches are kept.
const MAX_CACHED_BLOCKS: usize = 4;
/// Number of blocks after which code counts as settled. Since Cancun, deployed code cannot change, and no supported
/// chain is expected to be reorganised that deep.
const CODE_SETTLING_BLOCKS: u64 = 64;

/// Calls per request to endpoints that failed larger requests.
const SMALL_BATCH: usize = 10;

/// State of a chain behind an endpoint, for forks of its blocks. It owns the caches, so one instance should be shared.
#[derive(Debug)]
pub struct RemoteState {
    provider: DynProvider,
    /// All endpoints, if there are several. Each must confirm the values that a simulation reads.
    witnesses: Option<EndpointStack>,
    rules: ChainRules,
    limits: RemoteLimits,
    round_trips: AtomicU64,
    codes: Mutex<imbl::HashMap<Address, KnownCode>>,
    /// Code hashes that the endpoints have confirmed.
    confirmed: Mutex<imbl::HashMap<Address, B256>>,
    blocks: Mutex<VecDeque<Arc<PinnedState>>>,
}

/// Limits on the requests of one simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteLimits {
    /// Maximum number of runs until one has all the values that it reads.
    pub rounds: usize,
    /// Calls per JSON-RPC batch. A round with more calls sends several batches in parallel.
    pub batch: usize,
    /// Maximum number of values fetched in one round.
    pub reads: usize,
}

impl Default for RemoteLimits {
    fn default() -> Self {
        Self { rounds: 24, batch: 100, reads: 4096 }
    }
}

/// Accounts and slots that will be read, to fetch before the first run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefetchHints {
    /// Accounts: balance, nonce, code, and slots that contracts usually read first.
    pub accounts: Vec<Address>,
    /// Single slots, by contract and number.
    pub slots: Vec<(Address, U256)>,
}

#[derive(Debug, Clone)]
struct KnownCode {
    code: Bytecode,
    hash: B256,
    first_seen: u64,
    settled: bool,
}

impl RemoteState {
    /// Creates a source for the chain behind `provider`, which must have the chain id of `rules`.
    pub fn new(provider: DynProvider, rules: ChainRules, limits: RemoteLimits) -> Arc<Self> {
        Self::witnessed_by(provider, None, rules, limits)
    }

    /// Creates a source for the chain behind `provider`, with every value that a simulation reads compared on the
    /// endpoints of `witnesses`.
    pub fn witnessed_by(
        provider: DynProvider,
        witnesses: Option<EndpointStack>,
        rules: ChainRules,
        limits: RemoteLimits,
    ) -> Arc<Self> {
        let witnesses = witnesses.filter(|stack| stack.endpoints().len() > 1);
        Arc::new(Self {
            provider,
            witnesses,
            rules,
            limits,
            round_trips: AtomicU64::new(0),
            codes: Mutex::default(),
            confirmed: Mutex::default(),
            blocks: Mutex::default(),
        })
    }

    /// All endpoints of the chain; `None` with a single endpoint.
    pub(super) fn witnesses(&self) -> Option<&EndpointStack> {
        self.witnesses.as_ref()
    }

    /// Sends calls to all endpoints in parallel, in one round trip, or in several if `small_requests` is true.
    pub(super) async fn ask_each(
        &self,
        witnesses: &EndpointStack,
        small_requests: bool,
        calls: impl Fn(usize) -> Vec<(&'static str, Value)>,
    ) -> Vec<EndpointAnswers> {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let batching = match small_requests {
            false => Batching { calls: self.limits.batch, requests: usize::MAX },
            true => Batching { calls: self.limits.batch.min(SMALL_BATCH), requests: 1 },
        };
        witnesses.ask_each(batching, calls).await
    }

    /// Drops the caches of all blocks that no simulation uses.
    pub(super) fn drop_unused_blocks(&self) {
        self.blocks.lock().clear();
    }

    pub(super) fn limits(&self) -> RemoteLimits {
        self.limits
    }

    /// Number of sequential round trips so far. Batches in parallel count as one.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// Pins `block` in one round trip. A block that was pinned before keeps its cache.
    ///
    /// # Errors
    /// [`ForkError`] for a failed request, an unknown block, or another chain behind the endpoint.
    pub async fn pin(self: &Arc<Self>, block: BlockId, next: NextBlock) -> Result<Fork, ForkError> {
        let header_call = match block {
            BlockId::Hash(hash) => ("eth_getBlockByHash", json!([hash.block_hash, false])),
            BlockId::Number(number) => ("eth_getBlockByNumber", json!([number, false])),
        };
        let calls = vec![("eth_chainId", json!([])), header_call];
        let answers = match &self.witnesses {
            Some(witnesses) => self.common_block(witnesses, &calls, block.is_latest()).await,
            None => None,
        };
        let answers = match answers {
            Some(answers) => answers,
            None => self.ask(calls).await?,
        };
        let [chain_id, header] = answers.try_into().map_err(|_| ForkError::Malformed {
            what: "a batch of two calls does not have two responses".to_owned(),
        })?;
        let found: U64 = decode(chain_id, "eth_chainId")?;
        if found.to::<u64>() != self.rules.chain_id {
            return Err(ForkError::WrongChain { expected: self.rules.chain_id, found: found.to() });
        }
        let header: Option<Header> = decode(header, "the block")?;
        let header = header.ok_or(ForkError::UnknownBlock { block })?;
        let is_requested = match block {
            BlockId::Hash(asked) => header.hash == asked.block_hash,
            BlockId::Number(BlockNumberOrTag::Number(asked)) => header.number == asked,
            BlockId::Number(_) => true,
        };
        if !is_requested {
            return Err(ForkError::Malformed {
                what: "the endpoint returned a different block than requested".to_owned(),
            });
        }
        let mut context = self.after(&header);
        next.correct(&mut context);
        let pinned = PinnedBlock { chain_id: self.rules.chain_id, number: header.number, hash: header.hash };
        let state = self.state_of(header);
        Ok(Fork::on_remote(pinned, self.rules, context, state))
    }

    /// Answers of one endpoint about the block to pin: an endpoint of this chain that has the block and, for the latest
    /// block, whose block two endpoints have reached. `None` if no endpoint answers in time.
    async fn common_block(
        &self,
        witnesses: &EndpointStack,
        calls: &[(&'static str, Value)],
        latest: bool,
    ) -> Option<Vec<Value>> {
        let answers = self.ask_each(witnesses, false, |_| calls.to_vec()).await;
        let expected = json!(U64::from(self.rules.chain_id));
        let known: Vec<_> = answers
            .into_iter()
            .filter_map(|endpoint| match endpoint.answers.as_slice() {
                [CallAnswer::Value(chain_id), CallAnswer::Value(header)] if *chain_id == expected => {
                    let number = header.get("number").and_then(|number| quantity(number, "a block number").ok())?;
                    let number = u64::try_from(number).ok()?;
                    Some((number, endpoint.is_stalled, vec![chain_id.clone(), header.clone()]))
                }
                [..] => None,
            })
            .collect();
        let heads: Vec<(u64, bool)> = known.iter().map(|(number, is_stalled, _)| (*number, *is_stalled)).collect();
        let index = if latest { reached(&heads)? } else { 0 };
        known.into_iter().nth(index).map(|(_, _, answers)| answers)
    }

    /// Context of the block after `parent`, derived from the parent's header.
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
        let mut blocks = self.blocks.lock();
        blocks.retain(|state| !state.is_gone());
        if let Some(known) = blocks.iter().find(|state| state.hash() == header.hash) {
            return Arc::clone(known);
        }
        let state = Arc::new(PinnedState::new(Arc::clone(self), header));
        blocks.push_back(Arc::clone(&state));
        if blocks.len() > MAX_CACHED_BLOCKS {
            blocks.pop_front();
        }
        state
    }

    /// Sends all `calls` in one round trip and returns their answers in order.
    pub(super) async fn ask(&self, calls: Vec<(&'static str, Value)>) -> Result<Vec<Value>, ForkError> {
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

    /// Code of `account` that need not be fetched for block `number`; `None` if it is not settled.
    pub(super) fn settled_code(&self, account: Address, number: u64) -> Option<(Bytecode, B256)> {
        let codes = self.codes.lock();
        let known = codes.get(&account)?;
        (known.settled && known.first_seen <= number).then(|| (known.code.clone(), known.hash))
    }

    /// Returns true if the code need not be compared for block `number`: it is settled, and the endpoints have
    /// confirmed it.
    pub(super) fn is_confirmed(&self, account: Address, number: u64) -> bool {
        let settled = self.settled_code(account, number).map(|(_, hash)| hash);
        settled.is_some() && self.confirmed.lock().get(&account).copied() == settled
    }

    /// Records code that two or more endpoints have confirmed and none contradicts.
    pub(super) fn confirm_code(&self, account: Address, hash: B256) {
        self.confirmed.lock().insert(account, hash);
    }

    /// Removes code that a majority of endpoints contradicts.
    pub(super) fn forget_code(&self, account: Address) {
        self.codes.lock().remove(&account);
        self.confirmed.lock().remove(&account);
    }

    /// Records fetched code, and returns an already analysed copy if it is known.
    pub(super) fn record_code(
        &self,
        account: Address,
        number: u64,
        bytes: Bytes,
    ) -> Result<(Bytecode, B256), ForkError> {
        let mut codes = self.codes.lock();
        if let Some(known) = codes.get_mut(&account)
            && known.code.original_byte_slice() == bytes.as_ref()
        {
            known.settled |= number >= known.first_seen.saturating_add(CODE_SETTLING_BLOCKS);
            return Ok((known.code.clone(), known.hash));
        }
        let code = Bytecode::new_raw_checked(bytes).map_err(|_| ForkError::Malformed {
            what: format!("the code of {account} starts like a delegation but is not one"),
        })?;
        let hash = code.hash_slow();
        // A delegation can change with every block, and so can an account without code.
        if !code.is_empty() && !code.is_eip7702() && self.rules.spec.is_enabled_in(SpecId::CANCUN) {
            let known = KnownCode { code: code.clone(), hash, first_seen: number, settled: false };
            codes.insert(account, known);
        }
        Ok((code, hash))
    }
}

pub(super) fn decode<T: RpcRecv>(answer: Value, what: &str) -> Result<T, ForkError> {
    serde_json::from_value(answer).map_err(|_| wrong_type(what))
}

/// Parses a number: `0x` and 1 to 64 hex digits. An endpoint that lacks the state may return `0x`, which lenient
/// parsers read as zero; a missing value must not become a zero balance.
pub(super) fn quantity(answer: &Value, what: &str) -> Result<U256, ForkError> {
    answer
        .as_str()
        .and_then(|text| text.strip_prefix("0x"))
        .filter(|digits| (1..=64).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .and_then(|digits| U256::from_str_radix(digits, 16).ok())
        .ok_or_else(|| wrong_type(what))
}

pub(super) fn wrong_type(what: &str) -> ForkError {
    ForkError::Malformed { what: format!("the response to {what} has the wrong type") }
}

#[cfg(test)]
mod tests {
    use alloy::{
        providers::ProviderBuilder,
        rpc::{
            client::RpcClient,
            json_rpc::{RequestPacket, Response, ResponsePacket, ResponsePayload},
        },
        transports::{TransportError, TransportFut},
    };
    use std::task::{Context, Poll};

    use super::*;

    /// Transport that returns the same block for every request.
    #[derive(Clone)]
    struct BlockTransport(Value);

    impl tower::Service<RequestPacket> for BlockTransport {
        type Response = ResponsePacket;
        type Error = TransportError;
        type Future = TransportFut<'static>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, packet: RequestPacket) -> Self::Future {
            let block = self.0.clone();
            let respond = move |request: &alloy::rpc::json_rpc::SerializedRequest| {
                let answer = if request.method() == "eth_chainId" { json!("0x7a69") } else { block.clone() };
                let raw = serde_json::value::to_raw_value(&answer).unwrap();
                Response { id: request.id().clone(), payload: ResponsePayload::Success(raw) }
            };
            Box::pin(async move { Ok(ResponsePacket::Batch(packet.requests().iter().map(respond).collect())) })
        }
    }

    #[tokio::test]
    async fn an_endpoint_that_returns_another_block_is_rejected() {
        let header = Header::new(alloy::consensus::Header { number: 7, ..Default::default() });
        let hash = header.hash;
        let transport = BlockTransport(serde_json::to_value(&header).unwrap());
        let client = RpcClient::new(transport, true);
        let provider = ProviderBuilder::new().disable_recommended_fillers().connect_client(client).erased();
        let rules = ChainRules { chain_id: 31_337, spec: SpecId::OSAKA };
        let remote = RemoteState::new(provider, rules, RemoteLimits::default());
        for block in [BlockId::hash(hash), BlockId::number(7), BlockId::latest()] {
            let fork = remote.pin(block, NextBlock::default()).await.unwrap();
            assert_eq!(fork.pinned().hash, hash, "{block:?}");
        }
        for block in [BlockId::hash(B256::repeat_byte(3)), BlockId::number(8)] {
            let refused = remote.pin(block, NextBlock::default()).await;
            assert!(matches!(refused, Err(ForkError::Malformed { .. })), "{block:?}");
        }
    }
}
