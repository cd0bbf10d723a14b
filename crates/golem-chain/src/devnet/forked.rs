//! Chains that continue from a block of a live network: their state, and the values they read of it.
//!
//! A value that the chain has not changed is read from the origin (see `fork::origin`). Executions run speculatively
//! first, to discover what they read and to fetch it in a few batches. Requests fetch before they reach the chain's
//! thread, so a slow origin delays its own readers and not the chain.
//!
//! Differences from the live network: the chain id, the state root (it covers only changed accounts), and everything
//! that happens there after the block. Earlier blocks and their logs are not available, only their hashes.

use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::eips::eip2935::HISTORY_STORAGE_ADDRESS;
use alloy::primitives::{Address, Bytes, U256};
use alloy::rpc::types::TransactionRequest;
use serde_json::Value;
use serde_json::value::RawValue;

use super::block::{Block, ChainTransaction};
use super::chain::{Chain, ChainConfig, ExecutionView};
use super::handle::{Devnet, DevnetStopped};
use super::ledger::{BlockStore, HistoryLimits};
use super::pool::TxPool;
use super::rpc::RpcError;
use super::state::WorldState;
use super::time::Timekeeper;
use revm::database_interface::DatabaseRef as _;

use crate::evm::{self, BlockContext, ChainRules, CheckMode, EvmError};
use crate::fork::holdings::{self, Holding};
use crate::fork::origin::{self, Origin, OriginError, OriginView};
use crate::fork::pinned::{MissedValues, MissingValues, addresses_in};
use bardo_base::text::SafeText;

/// Tip that a fork suggests on a chain with a base fee of at least this, in wei per gas; below it, a tenth of the base
/// fee.
const USUAL_TIP: u64 = 1_000_000_000;

impl WorldState {
    /// The empty difference to the block of an origin.
    pub(super) fn of_origin(origin: Arc<Origin>) -> Self {
        let mut state = Self::default();
        state.origin = Some(OriginView::new(origin));
        state
    }

    /// Returns true if this is the state of a fork.
    pub(crate) fn has_origin(&self) -> bool {
        self.origin.is_some()
    }

    /// The same state for a speculative execution: missing values are recorded, and read as `guess`.
    pub(crate) fn speculating(&self, guess: U256) -> Self {
        let mut state = self.clone();
        state.origin = self.origin.as_ref().map(|origin| origin.speculating(guess));
        state
    }

    /// Takes the values that a speculative execution missed.
    pub(crate) fn take_missed(&self) -> MissingValues {
        self.origin.as_ref().map(OriginView::take_missed).unwrap_or_default()
    }

    /// Fetches values of the origin that are not known yet.
    pub(crate) async fn fetch(&self, wanted: MissingValues) -> Result<(), OriginError> {
        match &self.origin {
            Some(view) if !wanted.is_empty() => view.origin().fetch(wanted).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Fetches values that will probably be read. A failure does not matter: what is really read is fetched again, and
    /// only then is missing.
    pub(crate) async fn fetch_ahead(&self, wanted: MissingValues) {
        let _fetched = self.fetch(wanted).await;
    }

    /// Fetches `needed` values, and `others` along with them if possible. Without an endpoint, the others are usually
    /// not in the cache.
    pub(crate) async fn fetch_with(&self, needed: MissingValues, others: MissingValues) -> Result<(), OriginError> {
        match self.fetch(others).await {
            Err(OriginError::Offline { .. }) => self.fetch(needed).await,
            fetched => fetched,
        }
    }

    /// Result of `work` on this state, after fetching in batches what it reads of the origin. If that fails, `work`
    /// gets the error from the read that needs the value.
    pub(crate) fn settled<T>(&self, work: impl Fn(&Self) -> T) -> T {
        let Some(view) = &self.origin else { return work(self) };
        let (rounds, guesses) = origin::rounds();
        for _ in 0..rounds {
            let mut round = MissedValues::default();
            for guess in guesses {
                let speculating = self.speculating(guess);
                let result = work(&speculating);
                if round.add(speculating.take_missed()) {
                    return result;
                }
            }
            if view.origin().fetch_blocking(round.into_parts().1).is_err() {
                break;
            }
        }
        work(self)
    }
}

impl Chain {
    /// Creates a chain that continues from the block of `origin` under another chain id, and fetches `accounts` of it.
    ///
    /// # Errors
    /// An [`OriginError`] if the endpoints do not return what every block needs.
    pub fn forked(
        origin: Arc<Origin>,
        chain_id: u64,
        history: HistoryLimits,
        accounts: &[Address],
    ) -> Result<Self, OriginError> {
        let mut needed = MissingValues::default();
        needed.add_account(HISTORY_STORAGE_ADDRESS);
        needed.add_account(origin.header().beneficiary);
        for account in accounts {
            needed.add_account(*account);
        }
        origin.fetch_blocking(needed)?;
        let header = origin.header().clone();
        let base_fee = header.base_fee_per_gas.unwrap_or_default();
        let config = ChainConfig {
            rules: ChainRules { chain_id, spec: origin.rules().spec },
            genesis_time: header.timestamp,
            base_fee,
            least_base_fee: 0,
            gas_limit: header.gas_limit,
            coinbase: header.beneficiary,
            suggested_tip: u128::from(if base_fee < USUAL_TIP { base_fee / 10 } else { USUAL_TIP }),
            balances: Vec::new(),
            codes: Vec::new(),
            history,
        };
        let hash = origin.hash();
        let block = Block { header, hash, transactions: Vec::new(), receipts: Vec::new() };
        let mut state = WorldState::of_origin(origin);
        state.push_block_hash(block.number(), hash);
        let block = Arc::new(block);
        let mut chain = Self {
            next_base_fee: base_fee,
            ledger: BlockStore::new(config.history, Arc::clone(&block), state.clone()),
            config,
            state,
            pool: TxPool::default(),
            time: Timekeeper::default(),
            impersonated: std::collections::BTreeSet::new(),
            impersonate_all: false,
            snapshots: super::rewind::SavedStates::default(),
            journal: super::events::EventLog::default(),
            reorgs: 0,
            edits: 0,
        };
        chain.next_base_fee = chain.base_fee_after(&block);
        Ok(chain)
    }

    /// Origin of a fork; `None` for a chain of its own.
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        self.state.origin.as_ref().map(OriginView::origin)
    }

    /// Makes the chain's time continue from its newest block, with the wall clock now at `now`, in seconds since the
    /// Unix epoch. Deadlines and price feeds of an older block then are as they were at that block.
    pub fn continue_time(&mut self, now: u64) {
        let behind = i128::from(self.head().header.timestamp) - i128::from(now);
        self.time = Timekeeper::travelling(i64::try_from(behind).unwrap_or_default(), None, None);
        self.time.set_wall(now);
    }

    /// Makes an account plain, without code and with nonce 0, gives it a balance in wei, and lists it in `eth_accounts`
    /// if its key is known. On a live network, the account of a publicly known key may have code that forwards whatever
    /// it receives.
    pub fn open_account(&mut self, address: Address, balance: U256) {
        self.edit(|state| {
            // Empty code is always valid.
            let _valid = state.set_code(address, Bytes::new());
            state.set_nonce(address, 0);
            state.set_balance(address, balance);
        });
        self.config.balances.push((address, balance));
    }

    /// Copies what the owner holds to the stand-in, without a block: the native balance, and `holdings`. Returns the
    /// indices of the holdings that could not be copied.
    ///
    /// # Errors
    /// The message of the failure if the origin cannot be read.
    pub fn copy_holdings(
        &mut self,
        owner: Address,
        stand_in: Address,
        holdings: &[Holding],
    ) -> Result<Vec<usize>, SafeText> {
        let (rules, next) = (*self.rules(), self.next_context());
        let copied = self.state.settled(|state| {
            state.basic_ref(owner).map_err(EvmError::Database)?;
            holdings::copy(state, rules, &next, holdings).map_err(|error| *error)
        });
        let copied = copied.map_err(|error: EvmError| SafeText::clean(&error.to_string(), 300))?;
        let balance = self.state.balance(owner);
        self.set_balance(stand_in, balance);
        for (contract, slot, value) in copied.writes {
            self.set_storage_at(contract, slot, value);
        }
        Ok(copied.missing)
    }
}

/// Values that a request reads, as far as it shows them itself.
enum Reads {
    /// An execution of this request at this block.
    Execution(Box<TransactionRequest>, BlockId),
    /// A transaction to send.
    Transaction(Box<ChainTransaction>),
    /// Properties of an account.
    Account(Address, BlockId),
    /// A storage slot.
    Slot(Address, U256, BlockId),
    /// Nothing of the origin, or nothing that is worth fetching ahead.
    Nothing,
}

impl Reads {
    fn of(method: &str, params: Option<&RawValue>) -> Self {
        let params: Vec<Value> = params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        fn param<T: serde::de::DeserializeOwned>(params: &[Value], place: usize) -> Option<T> {
            serde_json::from_value(params.get(place)?.clone()).ok()
        }
        let block = |place| param::<BlockId>(&params, place).unwrap_or_default();
        let reads = match method {
            "eth_call" | "eth_estimateGas" | "eth_createAccessList" => {
                param(&params, 0).map(|request| Self::Execution(request, block(1)))
            }
            "eth_sendTransaction" => param(&params, 0).map(|request| Self::Execution(request, BlockId::latest())),
            "eth_sendRawTransaction" => {
                let raw: Option<Bytes> = param(&params, 0);
                raw.and_then(|raw| ChainTransaction::decode(&raw).ok()).map(|sent| Self::Transaction(Box::new(sent)))
            }
            "eth_getBalance" | "eth_getCode" | "eth_getTransactionCount" => {
                param(&params, 0).map(|address| Self::Account(address, block(1)))
            }
            "eth_getStorageAt" => match (param(&params, 0), param(&params, 1)) {
                (Some(address), Some(slot)) => Some(Self::Slot(address, slot, block(2))),
                _ => None,
            },
            _ => None,
        };
        reads.unwrap_or(Self::Nothing)
    }

    const fn block(&self) -> Option<BlockId> {
        match self {
            Self::Execution(_, block) | Self::Account(_, block) | Self::Slot(_, _, block) => Some(*block),
            Self::Transaction(_) => Some(BlockId::latest()),
            Self::Nothing => None,
        }
    }
}

impl Devnet {
    /// Fetches what a request to a fork reads of the origin. Does nothing on other chains.
    ///
    /// # Errors
    /// The request's answer if a value cannot be read; [`DevnetStopped`] if the chain has stopped.
    pub(super) async fn read_ahead(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Result<(), RpcError>, DevnetStopped> {
        if self.origin().is_none() {
            return Ok(Ok(()));
        }
        let reads = Reads::of(method, params);
        let Some(block) = reads.block() else { return Ok(Ok(())) };
        let asked = self.run(move |chain| {
            let next = chain.next_context();
            chain.view(block).ok().map(|view| (view, *chain.rules(), chain.gas_limit(), next))
        });
        // An unknown block is the request's own error.
        let Some((view, rules, gas_limit, next)) = asked.await? else { return Ok(Ok(())) };
        let fetched = match reads {
            Reads::Execution(request, _) => execution(view, rules, gas_limit, *request).await,
            Reads::Transaction(sent) => {
                let view = ExecutionView { state: view.state, context: next };
                let transaction = evm::tx_env(&sent.envelope, sent.sender);
                discover(view, rules, transaction).await
            }
            Reads::Account(address, _) => {
                let mut wanted = MissingValues::default();
                wanted.add_account(address);
                view.state.fetch(wanted).await
            }
            Reads::Slot(address, slot, _) => {
                let mut wanted = MissingValues::default();
                wanted.add_slot(address, slot);
                view.state.fetch(wanted).await
            }
            Reads::Nothing => Ok(()),
        };
        Ok(fetched.map_err(|error| RpcError::server(error.to_string())))
    }
}

async fn execution(
    view: ExecutionView,
    rules: ChainRules,
    gas_limit: u64,
    request: TransactionRequest,
) -> Result<(), OriginError> {
    // An invalid request gets its error from the method itself.
    match evm::call_env(&request, &rules, &view.context, gas_limit) {
        Ok(transaction) => discover(view, rules, transaction).await,
        Err(_) => Ok(()),
    }
}

/// Runs a transaction speculatively until all values that it reads are known.
async fn discover(
    view: ExecutionView,
    rules: ChainRules,
    transaction: revm::context::TxEnv,
) -> Result<(), OriginError> {
    let mut wanted = MissingValues::default();
    if let revm::primitives::TxKind::Call(target) = transaction.kind {
        wanted.add_contract(target);
    }
    for address in addresses_in(&transaction.data) {
        wanted.add_contract(address);
    }
    wanted.add_account(transaction.caller);
    let (rounds, guesses) = origin::rounds();
    view.state.fetch_ahead(wanted).await;
    for _ in 0..rounds {
        let (needed, others) = missed(&view.state, rules, view.context, &transaction, guesses).await.into_parts();
        if needed.is_empty() {
            break;
        }
        view.state.fetch_with(needed, others).await?;
    }
    Ok(())
}

/// Values that speculative executions of a transaction miss; empty once all that it reads are known.
async fn missed(
    state: &WorldState,
    rules: ChainRules,
    context: BlockContext,
    transaction: &revm::context::TxEnv,
    guesses: [U256; 2],
) -> MissedValues {
    let (state, transaction) = (state.clone(), transaction.clone());
    let run = move || {
        let mut round = MissedValues::default();
        for guess in guesses {
            let speculating = state.speculating(guess);
            // Only the reads matter.
            let _result = evm::transact(&speculating, &rules, &context, CheckMode::Call, transaction.clone());
            if round.add(speculating.take_missed()) {
                break;
            }
        }
        round
    };
    tokio::task::spawn_blocking(run).await.unwrap_or_default()
}
