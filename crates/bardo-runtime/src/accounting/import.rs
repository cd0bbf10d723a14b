//! Import of what an account received and gave, from the chain and the ledger, block by block.
//!
//! Every read is what the endpoints agree on ([`ChainClient::agreed`]); where they contradict each other without a
//! majority, nothing is imported. ERC-20 amounts come from events, amounts of the native token from balances, since its
//! transfers leave no event. A block that has left the chain takes its entries with it.
//!
//! [`ChainClient::agreed`]: golem_chain::provider::ChainClient::agreed

use std::collections::{BTreeMap, BTreeSet};

use alloy::consensus::Transaction as _;
use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::{Filter, Log, TransactionReceipt};
use alloy::sol_types::SolEvent as _;
use bardo_abi::erc20::{Erc20, Weth9};
use bardo_abi::erc7683::{DestinationSettler, OriginSettler};
use bardo_abi::uniswap_v4::PoolManager;
use bardo_abi::uniswapx::Reactor;

use super::native::{NativeFinding, NativeReader, OwnNative};
use bardo_accounting::entry::{
    AFTER_TRANSACTIONS, Action, Entry, EntryNote, Flow, Origin, Token, TokenFacts, UNEXPLAINED_POSITION,
};
use bardo_accounting::report::{self, Balance};
use bardo_accounting::tables::{self, TokenFault};
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_safety::chain_snapshot::{SnapshotReadError, SnapshotReader, stables};
use bardo_safety::ledger::{self, LedgerError};
use bardo_safety::orders::record::{self, OrderParty};
use bardo_safety::value::UnknownValue;
use bardo_store::{Store, StoreError};
use golem_chain::network::{KnownContract, Network, NetworkKind};
use golem_chain::provider::ProviderError;
use golem_chain::sender::{self, RecordError};
use golem_chain::token::{self, MAX_NAME, MAX_SYMBOL, TokenError, TokenId, TokenInfo};
use golem_protocols::uniswap::discovery::keys_of;
use golem_protocols::uniswap::v4::key_hash;

/// Maximum number of blocks whose events are read at once; many endpoints refuse more.
const BLOCKS_AT_ONCE: u64 = 2_000;
/// Number of times that blocks are read whose events do not explain the balances. A node behind a load balancer may
/// answer without the events that it does not have yet.
const READS: u32 = 3;
/// Least time between two prices that are stored for no action, in seconds of block time.
const WITNESS_EVERY: u64 = 60;
/// Seconds of a day.
const DAY: u64 = 86_400;

/// Result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    /// Last block of the books.
    pub block: u64,
    /// Number of entries stored.
    pub entries: usize,
    /// Number of entries deleted, because their blocks left the chain.
    pub taken_back: usize,
}

/// Error of an import. The books stay as they were.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The chain does not answer, or its endpoints contradict each other.
    #[error(transparent)]
    Chain(#[from] ProviderError),
    /// Balances cannot be read.
    #[error("balances cannot be read: {0}")]
    Balances(#[from] SnapshotReadError),
    /// The cost of a transaction cannot be read.
    #[error("{0}")]
    Fees(UnknownValue),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The descriptions of tokens cannot be read.
    #[error("tokens cannot be read: {0}")]
    Tokens(Box<TokenError>),
    /// A signed transaction cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The chain changed while it was read.
    #[error("the chain was reorganised while it was read; the next import starts over")]
    Reorganised,
    /// Another process imported at the same time.
    #[error("another process imported at the same time; the next import goes on from there")]
    Superseded,
    /// An endpoint does not have a block that the books know.
    #[error("the endpoints do not have block {0}, up to which the books go; use an endpoint that has it")]
    BlockUnknown(u64),
    /// No block of the books is on the chain.
    #[error(
        "none of the newest blocks in the books is on this chain: an endpoint follows another chain, or the chain was \
         reset; nothing was changed"
    )]
    OtherChain,
    /// An answer is impossible.
    #[error("the endpoint's answer is invalid: {0}")]
    Invalid(&'static str),
}

/// One account on one chain, with its ledger.
pub struct Importer<'a> {
    /// Reader of the chain.
    pub reader: &'a SnapshotReader,
    /// Database with the ledger and the books.
    pub store: &'a Store,
    /// Account whose books these are.
    pub account: Address,
    /// Confirmations that a block needs, including the block itself.
    pub confirmations: u64,
}

/// Number, hash and time of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockFacts {
    pub number: u64,
    pub hash: B256,
    pub at: u64,
}

/// Draft of an entry while its flows are collected.
struct Draft {
    note: Option<EntryNote>,
    position: u64,
    block: BlockFacts,
    origin: Origin,
    action: Option<Action>,
    gas: U256,
    flows: BTreeMap<Token, Flow>,
}

/// Drafts by transaction.
type Drafts = BTreeMap<B256, Draft>;

/// Tokens in the books, and those that are not, or not wholly, in them.
struct TrackedTokens {
    tokens: BTreeMap<TokenId, TokenInfo>,
    faults: BTreeMap<Token, TokenFault>,
}

impl TrackedTokens {
    fn unlisted(&self) -> BTreeMap<TokenId, TokenInfo> {
        self.tokens.iter().filter(|(_, info)| !info.listed).map(|(id, info)| (*id, info.clone())).collect()
    }
}

/// Entries of a range of blocks before they are stored, with the faults of tokens that were found.
struct RangeDraft {
    entries: Vec<Entry>,
    faults: BTreeMap<Token, TokenFault>,
}

impl Importer<'_> {
    /// Imports everything up to the newest block with enough confirmations. Importing twice changes nothing.
    ///
    /// # Errors
    /// [`ImportError`]; nothing of the range that failed is stored.
    pub async fn run(&self) -> Result<Imported, ImportError> {
        let (chain_id, account) = (self.chain_id(), self.account);
        // The latest block is the highest that two endpoints have reached. Their bare numbers nearly always differ.
        let head = self.reader.client.agreed().get_block_by_number(BlockNumberOrTag::Latest).await;
        let head = head.map_err(ProviderError::from)?.ok_or(ImportError::Invalid("there is no newest block"))?;
        let head = head.header.number;
        let newest = head.saturating_sub(self.confirmations.saturating_sub(1));
        let mut done = Imported::default();
        let mut from = match self.last_on_chain(head, &mut done).await? {
            Some(last) => last,
            None => self.begin(newest).await?,
        };
        done.block = from.0;
        while from.0 < newest {
            let mut to = newest.min(from.0.saturating_add(BLOCKS_AT_ONCE));
            // After a long pause, many nodes have only the newest states: then all blocks are one range.
            if to < newest && self.is_state_dropped(to).await? {
                to = newest;
            }
            let (entries, last) = self.range(from, to).await?;
            done.entries += entries;
            (from, done.block) = (last, to);
        }
        self.witness(done.block).await?;
        tracing::trace!(chain_id, %account, block = done.block, "the books are up to date");
        Ok(done)
    }

    async fn is_state_dropped(&self, number: u64) -> Result<bool, ImportError> {
        let balance = self.reader.client.agreed().get_balance(self.account).number(number).await;
        match balance.map_err(|error| ImportError::Chain(ProviderError::from(error))) {
            Ok(_) => Ok(false),
            Err(error) if is_state_missing(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    pub(super) fn chain_id(&self) -> u64 {
        self.reader.client.chain_id()
    }

    fn network(&self) -> &Network {
        self.reader.network()
    }

    /// Contract that wraps the native token, if the address book lists it as a token.
    fn wrapped(&self) -> Option<Address> {
        let book = &self.network().book;
        book.contract(KnownContract::WrappedNative)
            .filter(|wrapped| book.tokens().iter().any(|token| token.address == *wrapped))
    }

    /// Newest imported block that is still on the chain. Everything above it is deleted.
    ///
    /// Only another hash at the same height, or a height above `head`, shows that a block has left. Many nodes answer
    /// nothing for old blocks, which says nothing about the chain.
    async fn last_on_chain(&self, head: u64, done: &mut Imported) -> Result<Option<(u64, B256)>, ImportError> {
        let (chain_id, account) = (self.chain_id(), self.account);
        let known = self.store.read(|connection| tables::blocks(connection, chain_id, account))?;
        let mut stays = None;
        for (number, hash) in &known {
            match self.block(*number).await? {
                Some(block) if block.hash == *hash => {
                    stays = Some((*number, *hash));
                    break;
                }
                Some(_) => {}
                None if *number > head => {}
                None => return Err(ImportError::BlockUnknown(*number)),
            }
        }
        if stays.is_none() && !known.is_empty() && self.network().kind != NetworkKind::Devnet {
            return Err(ImportError::OtherChain);
        }
        if stays != known.first().copied() {
            let number = stays.map(|(number, _)| number);
            done.taken_back = self.store.write(move |tx| tables::take_back(tx, chain_id, account, number)).await?;
            tracing::info!(chain_id, %account, entries = done.taken_back, "entries were deleted: their blocks left the chain");
        }
        Ok(stays)
    }

    /// Stores the balances with which the books begin: before the first transaction that this ledger signed, or now.
    async fn begin(&self, newest: u64) -> Result<(u64, B256), ImportError> {
        let (chain_id, account) = (self.chain_id(), self.account);
        let signed =
            self.store.read(|connection| sender::signed_for(connection, chain_id, account, 0..u64::MAX >> 1))?;
        let mut first = newest;
        for record in signed.iter().take(8) {
            if let Some(receipt) = self.receipt(record.hash()).await? {
                first = receipt.block_number.unwrap_or(newest).saturating_sub(1).min(newest);
                break;
            }
        }
        let tokens = self.tracked().await?;
        // A node may have dropped so old a state; the books then begin now.
        let opening = match self.opening(first, &tokens).await {
            Err(error) if first < newest && is_state_missing(&error) => {
                tracing::info!(chain_id, %account, %error, "earlier states are not available: the books begin now");
                self.opening(newest, &tokens).await?
            }
            other => other?,
        };
        let block = opening.block;
        let mut faults = tokens.faults.clone();
        faults.extend(unopened(&tokens.tokens, &opening));
        self.store_all(RangeDraft { entries: vec![opening], faults }, None, block, &tokens).await?;
        Ok(block)
    }

    /// Entry with the balances of `tokens` after a block. Zero balances are stored as well: the token is in the books. An
    /// unlisted token whose balance cannot be read is left out.
    async fn opening(&self, number: u64, tracked: &TrackedTokens) -> Result<Entry, ImportError> {
        let tokens = &tracked.tokens;
        let block = self.block(number).await?.ok_or(ImportError::Invalid("a block is missing"))?;
        let balances =
            self.reader.readable_balances(self.account, &tracked.unlisted(), BlockId::hash(block.hash)).await?;
        let flow = |(id, (_, amount)): (TokenId, (TokenInfo, U256))| {
            (token_of(id), Flow { received: amount, given: U256::ZERO })
        };
        let mut flows: BTreeMap<Token, Flow> = balances.into_iter().map(flow).collect();
        flows.retain(|token, _| tokens.keys().any(|id| token_of(*id) == *token));
        // A listed token without a contract here has no balance.
        for id in tokens.iter().filter(|(_, info)| info.listed).map(|(id, _)| id) {
            flows.entry(token_of(*id)).or_default();
        }
        // Tokens that join the books at the same block are distinguished by the first of them.
        let apart =
            flows.keys().next().copied().flatten().map_or(0, |token| {
                token.as_slice().iter().take(4).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
            });
        Ok(Entry {
            chain_id: self.chain_id(),
            account: self.account,
            block: (block.number, block.hash),
            position: AFTER_TRANSACTIONS + 1 + apart,
            at: block.at,
            tx: None,
            origin: Origin::Opening,
            action: None,
            flows,
            gas: U256::ZERO,
            note: None,
        })
    }

    /// Imports the blocks above the last imported one up to `to`. Returns the number of entries, and the block at `to`.
    async fn range(&self, imported: (u64, B256), to: u64) -> Result<(usize, (u64, B256)), ImportError> {
        let (chain_id, account, from) = (self.chain_id(), self.account, imported.0);
        let last = self.block(to).await?.ok_or(ImportError::Invalid("a block is missing"))?;
        let before = self.block(from).await?.ok_or(ImportError::Invalid("a block is missing"))?;
        if before.hash != imported.1 {
            return Err(ImportError::Reorganised);
        }
        let tracked = self.tracked().await?;
        let mut read = 1;
        let draft = loop {
            let mut draft = self.read_range((before, last), &tracked).await?;
            let (uneven, again) = self.unexplained(&mut draft, last, &tracked).await?;
            if !again || read >= READS {
                draft.entries.extend(uneven);
                break draft;
            }
            tracing::debug!(chain_id, %account, block = to, "events do not explain the balances: the blocks are read again");
            read += 1;
        };
        // If the chain changed meanwhile, parts of two chains may be mixed.
        if self.block(to).await? != Some(last) || self.block(from).await? != Some(before) {
            return Err(ImportError::Reorganised);
        }
        let count = draft.entries.len();
        let block = (last.number, last.hash);
        self.store_all(draft, Some(imported), block, &tracked).await?;
        Ok((count, block))
    }

    /// Reads the blocks above the first up to the second.
    async fn read_range(
        &self,
        (before, last): (BlockFacts, BlockFacts),
        tracked: &TrackedTokens,
    ) -> Result<RangeDraft, ImportError> {
        let (chain_id, account) = (self.chain_id(), self.account);
        let (mut entries, mut faults) = (Vec::new(), tracked.faults.clone());
        let opened = self.store.read(|connection| tables::opened_tokens(connection, chain_id, account))?;
        let is_open = |id: &TokenId| opened.contains(&token_of(*id));
        let joined = tracked.tokens.iter().filter(|(id, _)| !is_open(id)).map(|(id, info)| (*id, info.clone()));
        let joined = TrackedTokens { tokens: joined.collect(), faults: BTreeMap::new() };
        // Tokens whose events count: those that were in the books at the first block, or joined them there.
        let mut counted: BTreeSet<Token> = opened.clone();
        if !joined.tokens.is_empty() {
            let (mut opening, late) = match self.opening(before.number, &joined).await {
                Err(error) if is_state_missing(&error) => (self.opening(last.number, &joined).await?, true),
                other => (other?, false),
            };
            opening.flows.retain(|token, _| !opened.contains(token));
            faults.extend(unopened(&joined.tokens, &opening));
            if late {
                faults.extend(opening.flows.keys().map(|token| (*token, TokenFault::JoinedLate)));
            } else {
                counted.extend(opening.flows.keys());
            }
            entries.push(opening);
        }
        let contracts: BTreeSet<Address> =
            tracked.tokens.keys().map(|id| token_of(*id)).filter(|token| counted.contains(token)).flatten().collect();
        let orders = self.store.read(|connection| record::parties(connection, account))?;
        let (mut drafts, own) = self.own_transactions((before, last)).await?;
        let mut native = own;
        let overflowed =
            self.add_events(&mut drafts, &mut native, &orders, (before.number, last.number), &contracts).await?;
        faults.extend(overflowed.into_iter().map(|token| (Some(token), TokenFault::Overflow)));
        let known = self.store.read(|connection| tables::entries_of(connection, chain_id, account))?;
        let stored = report::balances(known.iter().chain(&entries)).get(&None).copied().flatten();
        let reader = NativeReader { importer: self, own: &native, stored: stored.and_then(Balance::held) };
        for finding in reader.find(before, last).await? {
            add_native(&mut drafts, &mut entries, (chain_id, account), finding);
        }
        entries.extend(drafts.into_iter().map(|(tx, draft)| entry((chain_id, account), tx, draft)));
        Ok(RangeDraft { entries, faults })
    }

    /// Entry with the differences between the books and the balances at `last`, and whether another reading may explain
    /// them: that is not so for a token that had such a difference before.
    async fn unexplained(
        &self,
        draft: &mut RangeDraft,
        last: BlockFacts,
        tracked: &TrackedTokens,
    ) -> Result<(Option<Entry>, bool), ImportError> {
        let (chain_id, account) = (self.chain_id(), self.account);
        let known = self.store.read(|connection| tables::entries_of(connection, chain_id, account))?;
        let usual: BTreeSet<Token> = known
            .iter()
            .filter(|entry| entry.origin == Origin::Unexplained)
            .flat_map(|entry| entry.flows.keys().copied())
            .collect();
        let books = report::balances(known.iter().chain(&draft.entries));
        let balances = self.reader.readable_balances(account, &tracked.unlisted(), BlockId::hash(last.hash)).await?;
        let held: BTreeMap<Token, U256> =
            balances.into_iter().map(|(id, (_, amount))| (token_of(id), amount)).collect();
        let (mut flows, mut again) = (BTreeMap::new(), false);
        for (token, balance) in books {
            let by_books = balance.unwrap_or_default();
            let Some(held) = held.get(&token) else {
                if by_books.held() != Some(U256::ZERO) {
                    draft.faults.insert(token, TokenFault::BalanceUnreadable);
                }
                continue;
            };
            match balance.and_then(|balance| difference(balance, *held)) {
                None => drop(draft.faults.insert(token, TokenFault::Overflow)),
                Some(flow) if flow == Flow::default() => {}
                Some(flow) => {
                    again |= !usual.contains(&token);
                    flows.insert(token, flow);
                }
            }
        }
        if flows.is_empty() {
            return Ok((None, false));
        }
        let entry = Entry {
            chain_id,
            account,
            block: (last.number, last.hash),
            position: UNEXPLAINED_POSITION,
            at: last.at,
            tx: None,
            origin: Origin::Unexplained,
            action: None,
            flows,
            gas: U256::ZERO,
            note: None,
        };
        Ok((Some(entry), again))
    }

    /// Stores entries up to `block`, if the books still end with `imported`.
    async fn store_all(
        &self,
        RangeDraft { entries, faults }: RangeDraft,
        imported: Option<(u64, B256)>,
        block: (u64, B256),
        tracked: &TrackedTokens,
    ) -> Result<(), ImportError> {
        let (chain_id, account, wrapped) = (self.chain_id(), self.account, self.wrapped());
        let dollars = stables(self.network());
        let facts: Vec<(Token, TokenFacts)> = tracked
            .tokens
            .values()
            .map(|info| {
                let token = token_of(info.id);
                let facts = TokenFacts {
                    symbol: info.symbol.clone(),
                    decimals: info.decimals,
                    listed: info.listed || token.is_none(),
                    is_dollar: token.is_some_and(|token| dollars.contains(&token)),
                    wraps_native: token.is_some() && token == wrapped,
                };
                (token, facts)
            })
            .collect();
        let work = move |tx: &rusqlite::Transaction<'_>| {
            // Another process may have read the same blocks meanwhile; what both found must not be stored twice.
            if tables::last_block(tx, chain_id, account)? != imported {
                return Err(ImportError::Superseded);
            }
            for (token, facts) in &facts {
                tables::store_token(tx, chain_id, *token, facts)?;
            }
            for entry in entries {
                match entry.origin {
                    Origin::Unexplained => tables::store_unexplained(tx, entry)?,
                    Origin::Opening | Origin::Transaction | Origin::Order | Origin::Bridge | Origin::Outside => {
                        tables::store_entry(tx, &entry)?;
                    }
                }
            }
            tables::store_faults(tx, (chain_id, account), block.0, &faults)?;
            Ok(tables::store_block(tx, chain_id, account, block)?)
        };
        self.store.write(work).await
    }

    /// Tokens in the books: the native one, those of the address book, and those that an action of Bardo's traded. Any
    /// other token can claim any transfer in its events. An unlisted token keeps the symbol and the decimals with which
    /// it joined the books.
    async fn tracked(&self) -> Result<TrackedTokens, ImportError> {
        let network = self.network();
        let listed = network.book.tokens().iter().map(|token| TokenInfo {
            id: TokenId::Erc20(token.address),
            symbol: SafeText::clean(&token.symbol, MAX_SYMBOL),
            name: SafeText::clean(&token.name, MAX_NAME),
            decimals: token.decimals,
            listed: true,
        });
        let mut tokens: BTreeMap<TokenId, TokenInfo> = listed.map(|token| (token.id, token)).collect();
        tokens.insert(TokenId::Native, TokenInfo::native(network));
        let chain_id = self.chain_id();
        let (traded, stored) = self.store.read(|connection| {
            Ok::<_, StoreError>((tables::traded_tokens(connection, chain_id)?, tables::tokens(connection)?))
        })?;
        let mut faults = BTreeMap::new();
        // Other decimals would revalue all earlier entries.
        for info in tokens.values_mut() {
            let token = token_of(info.id);
            let Some(first) = stored.get(&(chain_id, token)) else { continue };
            if first.decimals != info.decimals {
                faults.insert(token, TokenFault::Changed);
                info.decimals = first.decimals;
            }
        }
        let unlisted: Vec<Address> =
            traded.into_iter().filter(|token| !tokens.contains_key(&TokenId::Erc20(*token))).collect();
        if !unlisted.is_empty() {
            let read = token::read(&unlisted, network, self.reader.client.agreed()).await;
            let read = read.map_err(|error| ImportError::Tokens(Box::new(error)))?;
            for (address, read) in unlisted.iter().zip(read) {
                let id = TokenId::Erc20(*address);
                let first = stored.get(&(chain_id, Some(*address))).map(|facts| {
                    let (symbol, name) = (facts.symbol.clone(), SafeText::default());
                    TokenInfo { id, symbol, name, decimals: facts.decimals, listed: false }
                });
                let (info, fault) = first_facts(first, read.ok());
                faults.extend(fault.map(|fault| (Some(*address), fault)));
                tokens.extend(info.map(|info| (id, info)));
            }
        }
        Ok(TrackedTokens { tokens, faults })
    }

    /// Drafts of the account's own transactions that the blocks contain, and what they moved of the native token.
    async fn own_transactions(
        &self,
        (before, last): (BlockFacts, BlockFacts),
    ) -> Result<(Drafts, BTreeMap<B256, OwnNative>), ImportError> {
        let (chain_id, account) = (self.chain_id(), self.account);
        let agreed = self.reader.client.agreed();
        let at = |number: u64| agreed.get_transaction_count(account).number(number).into_future();
        // Nodes that have dropped the older state know the count of the newer one.
        let nonces = match futures::join!(at(before.number), at(last.number)) {
            (Ok(first), Ok(next)) => first..next,
            (Err(error), Ok(next)) => match ImportError::Chain(ProviderError::from(error)) {
                error if is_state_missing(&error) => 0..next,
                error => return Err(error),
            },
            (_, Err(error)) => return Err(ProviderError::from(error).into()),
        };
        let signed = self.store.read(|connection| sender::signed_for(connection, chain_id, account, nonces))?;
        let (mut drafts, mut native) = (Drafts::new(), BTreeMap::new());
        for record in signed {
            let Some(receipt) = self.receipt(record.hash()).await? else { continue };
            let (Some(number), Some(hash)) = (receipt.block_number, receipt.block_hash) else { continue };
            if number <= before.number || number > last.number {
                continue;
            }
            if receipt.from != account || receipt.transaction_hash != record.hash() {
                return Err(ImportError::Invalid("a receipt is another transaction's"));
            }
            let block = self.block(number).await?.filter(|block| block.hash == hash).ok_or(ImportError::Reorganised)?;
            let gas = self.gas(&receipt).await?;
            let action = self.action(record.call_id, None)?;
            let draft = Draft {
                note: None,
                position: receipt.transaction_index.unwrap_or_default(),
                block,
                origin: Origin::Transaction,
                action,
                gas,
                flows: BTreeMap::new(),
            };
            let sent = record.signed.transaction();
            let moved = self.native_of((sent.value(), sent.to()), &receipt, (number, gas));
            native.insert(record.hash(), moved);
            drafts.insert(record.hash(), draft);
        }
        Ok((drafts, native))
    }

    /// Native tokens that a transaction of the account moved, and how many of them could have come back.
    fn native_of(
        &self,
        (value, to): (U256, Option<Address>),
        receipt: &TransactionReceipt,
        (block, gas): (u64, U256),
    ) -> OwnNative {
        let value = if receipt.status() { value } else { U256::ZERO };
        // What was wrapped or sold to a pool cannot have come back, unless it was unwrapped or bought again.
        let (sold, bought) = self.traded_in_v4(receipt.logs());
        let kept = value.saturating_sub(self.wrapped_in(receipt.logs())).saturating_sub(sold);
        let released = self.unwrapped(receipt.logs()).saturating_add(bought);
        let may_return = if receipt.status() { kept.saturating_add(released) } else { U256::ZERO };
        // What the account sends to itself stays.
        let value = if to == Some(self.account) { U256::ZERO } else { value };
        OwnNative { block, value, gas, may_return }
    }

    /// Native tokens that the wrapping contract took in a transaction.
    fn wrapped_in(&self, logs: &[Log]) -> U256 {
        let of_wrapper = || logs.iter().filter(|log| Some(log.address()) == self.wrapped());
        let sum = |amounts: &mut dyn Iterator<Item = U256>| amounts.fold(U256::ZERO, U256::saturating_add);
        let deposited = of_wrapper().filter_map(|log| Some(Weth9::Deposit::decode_log(&log.inner).ok()?.data.wad));
        // Some wrappers, such as Arbitrum's, have no event of their own: they mint.
        let minted = of_wrapper().filter_map(|log| {
            let moved = Erc20::Transfer::decode_log(&log.inner).ok()?.data;
            moved.from.is_zero().then_some(moved.value)
        });
        sum(&mut { deposited }).max(sum(&mut { minted }))
    }

    /// Native tokens that the wrapping contract released in a transaction, to any account.
    fn unwrapped(&self, logs: &[Log]) -> U256 {
        let of_wrapper = || logs.iter().filter(|log| Some(log.address()) == self.wrapped());
        let sum = |amounts: &mut dyn Iterator<Item = U256>| amounts.fold(U256::ZERO, U256::saturating_add);
        let withdrawn = of_wrapper().filter_map(|log| Some(Weth9::Withdrawal::decode_log(&log.inner).ok()?.data.wad));
        // Some wrappers, such as Arbitrum's, have no event of their own: they burn.
        let burned = of_wrapper().filter_map(|log| {
            let moved = Erc20::Transfer::decode_log(&log.inner).ok()?.data;
            moved.to.is_zero().then_some(moved.value)
        });
        sum(&mut { withdrawn }).max(sum(&mut { burned }))
    }

    /// Native tokens that V4 pools took and gave in a transaction. They leave no event of a token: the pools are known by
    /// the usual keys of the native token with the book's tokens and those that moved.
    fn traded_in_v4(&self, logs: &[Log]) -> (U256, U256) {
        let book = &self.network().book;
        let Some(manager) = book.contract(KnownContract::V4PoolManager) else { return (U256::ZERO, U256::ZERO) };
        let swaps: Vec<_> = logs
            .iter()
            .filter(|log| log.address() == manager)
            .filter_map(|log| Some(PoolManager::Swap::decode_log(&log.inner).ok()?.data))
            .collect();
        if swaps.is_empty() {
            return (U256::ZERO, U256::ZERO);
        }
        let tokens = book.tokens().iter().map(|token| token.address).chain(logs.iter().map(Log::address));
        let ids: BTreeSet<B256> =
            tokens.flat_map(|token| keys_of(Address::ZERO, token)).map(|key| key_hash(&key)).collect();
        // Amounts are from the trader's side: negative if paid.
        swaps.iter().filter(|swap| ids.contains(&swap.id)).fold((U256::ZERO, U256::ZERO), |(sold, bought), swap| {
            let amount = U256::from(swap.amount0.unsigned_abs());
            if swap.amount0 < 0 { (sold.saturating_add(amount), bought) } else { (sold, bought.saturating_add(amount)) }
        })
    }

    async fn gas(&self, receipt: &TransactionReceipt) -> Result<U256, ImportError> {
        let gas = U256::from(receipt.gas_used)
            .checked_mul(U256::from(receipt.effective_gas_price))
            .ok_or(ImportError::Invalid("a receipt's gas cost exceeds 256 bits"))?;
        let data_fee = self.reader.data_fee_paid(receipt.transaction_hash).await.map_err(ImportError::Fees)?;
        gas.checked_add(data_fee).ok_or(ImportError::Invalid("a receipt's gas cost exceeds 256 bits"))
    }

    /// Adds the token events of the blocks above `range.0` up to `range.1`. Returns the tokens whose transfers exceed 256
    /// bits: nothing of them is added.
    async fn add_events(
        &self,
        drafts: &mut Drafts,
        native: &mut BTreeMap<B256, OwnNative>,
        orders: &BTreeMap<B256, OrderParty>,
        range: (u64, u64),
        contracts: &BTreeSet<Address>,
    ) -> Result<BTreeSet<Address>, ImportError> {
        let mut overflowed = BTreeSet::new();
        let mut checked: BTreeSet<B256> = BTreeSet::new();
        for log in self.events(range, contracts).await? {
            let Some((token, received, given)) = self.flow_of(&log) else { continue };
            let (Some(tx), Some(number), Some(hash)) = (log.transaction_hash, log.block_number, log.block_hash) else {
                return Err(ImportError::Invalid("an event has no transaction"));
            };
            if number <= range.0 || number > range.1 {
                return Err(ImportError::Invalid("an event is outside of the blocks asked for"));
            }
            if checked.insert(tx) {
                self.classify(drafts, native, orders, (tx, number, hash), log.transaction_index).await?;
            }
            let draft = drafts.get_mut(&tx).ok_or(ImportError::Reorganised)?;
            let flow = draft.flows.entry(Some(token)).or_default();
            match flow.received.checked_add(received).zip(flow.given.checked_add(given)) {
                Some((received, given)) => *flow = Flow { received, given },
                None => drop(overflowed.insert(token)),
            }
        }
        for draft in drafts.values_mut() {
            draft.flows.retain(|token, _| token.is_none_or(|token| !overflowed.contains(&token)));
        }
        // Own transactions without token events may still have opened a bridge order.
        let own: Vec<B256> = drafts.keys().copied().filter(|tx| !checked.contains(tx)).collect();
        for tx in own {
            let known = drafts.get(&tx).map(|draft| (tx, draft.block.number, draft.block.hash));
            if let Some(known) = known {
                self.classify(drafts, native, orders, known, None).await?;
            }
        }
        Ok(overflowed)
    }

    /// Finds out to which action a transaction belongs, and makes its draft.
    async fn classify(
        &self,
        drafts: &mut Drafts,
        native: &mut BTreeMap<B256, OwnNative>,
        orders: &BTreeMap<B256, OrderParty>,
        (tx, number, hash): (B256, u64, B256),
        position: Option<u64>,
    ) -> Result<(), ImportError> {
        let receipt = self.receipt(tx).await?.ok_or(ImportError::Reorganised)?;
        if receipt.block_hash != Some(hash) {
            return Err(ImportError::Reorganised);
        }
        let settled = self.orders_of(&receipt, orders);
        // What several orders moved together belongs to none of them alone.
        let (order, note) = match settled.as_slice() {
            [one] => (Some(*one), None),
            [] => (None, None),
            _ => (None, Some(EntryNote::SeveralOrders)),
        };
        let origin = match (order, note) {
            (Some(party), _) if party.is_bridge => Some(Origin::Bridge),
            (Some(_), _) | (None, Some(_)) => Some(Origin::Order),
            (None, None) => None,
        };
        if let Some(draft) = drafts.get_mut(&tx) {
            if origin == Some(Origin::Bridge) {
                draft.origin = Origin::Bridge;
            }
            return Ok(());
        }
        let block = self.block(number).await?.filter(|block| block.hash == hash).ok_or(ImportError::Reorganised)?;
        let action = match order {
            Some(party) => self.action(Some(party.call_id), Some(party))?,
            None => None,
        };
        if settled.iter().any(|party| party.wants_native) {
            let paid = OwnNative { block: number, value: U256::ZERO, gas: U256::ZERO, may_return: U256::MAX };
            native.insert(tx, paid);
        }
        let mut gas = U256::ZERO;
        if receipt.from == self.account {
            // Another program with the same key, or the operator's wallet.
            let sent = self.reader.client.agreed().get_transaction_by_hash(tx).await.map_err(ProviderError::from)?;
            let sent = sent.ok_or(ImportError::Reorganised)?;
            gas = self.gas(&receipt).await?;
            native.insert(tx, self.native_of((sent.value(), sent.to()), &receipt, (number, gas)));
        }
        let position = position.or(receipt.transaction_index).unwrap_or_default();
        let origin = origin.unwrap_or(Origin::Outside);
        let flows = BTreeMap::new();
        drafts.insert(tx, Draft { note, position, block, origin, action, gas, flows });
        Ok(())
    }

    /// Orders of this account's that a transaction settled, opened or refunded, by the events of reactors and settlers in
    /// the address book.
    fn orders_of<'o>(
        &self,
        receipt: &TransactionReceipt,
        orders: &'o BTreeMap<B256, OrderParty>,
    ) -> Vec<&'o OrderParty> {
        let contracts: BTreeSet<Address> = self.network().book.contracts().map(|(_, address)| address).collect();
        let known = receipt.logs().iter().filter(|log| contracts.contains(&log.address()));
        let hashes: BTreeSet<B256> = known.filter_map(|log| order_in(log.topics(), self.account)).collect();
        hashes.iter().filter_map(|hash| orders.get(hash)).collect()
    }

    fn action(&self, call_id: Option<CallId>, party: Option<&OrderParty>) -> Result<Option<Action>, ImportError> {
        let Some(call_id) = call_id else { return Ok(None) };
        let golem_id = match party {
            Some(party) => Some(party.golem_id.clone()),
            None => self.store.read(|connection| ledger::golem_of(connection, call_id))?,
        };
        Ok(golem_id.map(|golem_id| Action { call_id, golem_id, tool: SafeText::default() }))
    }

    /// Events by which a token in the books moved to or from the account.
    async fn events(&self, (from, to): (u64, u64), contracts: &BTreeSet<Address>) -> Result<Vec<Log>, ImportError> {
        let mut logs = Vec::new();
        let mut first = from.saturating_add(1);
        while first <= to {
            let last = to.min(first.saturating_add(BLOCKS_AT_ONCE - 1));
            logs.extend(self.events_at_once((first, last), contracts).await?);
            first = last.saturating_add(1);
        }
        Ok(logs)
    }

    async fn events_at_once(
        &self,
        (first, last): (u64, u64),
        contracts: &BTreeSet<Address>,
    ) -> Result<Vec<Log>, ImportError> {
        if contracts.is_empty() {
            return Ok(Vec::new());
        }
        let contracts: Vec<Address> = contracts.iter().copied().collect();
        let account = self.account.into_word();
        let base = Filter::new().from_block(first).to_block(last);
        let transfers = base.clone().address(contracts.clone()).event_signature(Erc20::Transfer::SIGNATURE_HASH);
        let mut filters = vec![transfers.clone().topic1(account), transfers.topic2(account)];
        if let Some(wrapped) = self.wrapped().filter(|wrapped| contracts.contains(wrapped)) {
            let wraps = vec![Weth9::Deposit::SIGNATURE_HASH, Weth9::Withdrawal::SIGNATURE_HASH];
            filters.push(base.address(wrapped).event_signature(wraps).topic1(account));
        }
        let mut logs: Vec<Log> = Vec::new();
        let mut seen = BTreeSet::new();
        for filter in filters {
            for log in self.reader.client.agreed().get_logs(&filter).await.map_err(ProviderError::from)? {
                if log.removed {
                    return Err(ImportError::Invalid("an event of a block that left the chain"));
                }
                // A transfer to oneself is in two answers.
                if seen.insert((log.block_number, log.log_index)) {
                    logs.push(log);
                }
            }
        }
        Ok(logs)
    }

    /// Token, incoming and outgoing amount of an event; `None` if it moves nothing of the account's.
    fn flow_of(&self, log: &Log) -> Option<(Address, U256, U256)> {
        let token = log.address();
        let mine = |address: Address, amount: U256| if address == self.account { amount } else { U256::ZERO };
        if let Ok(moved) = Erc20::Transfer::decode_log(&log.inner) {
            let Erc20::Transfer { from, to, value } = moved.data;
            return (from != to).then(|| (token, mine(to, value), mine(from, value)));
        }
        if Some(token) != self.wrapped() {
            return None;
        }
        if let Ok(wrapped) = Weth9::Deposit::decode_log(&log.inner) {
            return Some((token, mine(wrapped.data.dst, wrapped.data.wad), U256::ZERO));
        }
        let unwrapped = Weth9::Withdrawal::decode_log(&log.inner).ok()?;
        Some((token, U256::ZERO, mine(unwrapped.data.src, unwrapped.data.wad)))
    }

    async fn receipt(&self, hash: B256) -> Result<Option<TransactionReceipt>, ImportError> {
        Ok(self.reader.client.agreed().get_transaction_receipt(hash).await.map_err(ProviderError::from)?)
    }

    pub(super) async fn block(&self, number: u64) -> Result<Option<BlockFacts>, ImportError> {
        let block = self.reader.client.agreed().get_block_by_number(BlockNumberOrTag::Number(number)).await;
        let block = block.map_err(ProviderError::from)?;
        Ok(block.map(|block| BlockFacts { number, hash: block.header.hash, at: block.header.timestamp }))
    }

    /// Stores the present prices of the tokens that the account holds, as witnessed at the last imported block, and thins
    /// out those of earlier days.
    async fn witness(&self, number: u64) -> Result<(), ImportError> {
        let chain_id = self.chain_id();
        let Some(block) = self.block(number).await? else { return Ok(()) };
        let last = self.store.read(|connection| tables::last_witnessed(connection, chain_id))?;
        if last.is_some_and(|last| block.at < last.saturating_add(WITNESS_EVERY)) {
            return Ok(());
        }
        let account = self.account;
        let entries = self.store.read(|connection| tables::entries_of(connection, chain_id, account))?;
        let recent = |entry: &&Entry| entry.at.saturating_add(DAY) > block.at;
        let moved: BTreeSet<Token> =
            entries.iter().filter(recent).flat_map(|entry| entry.flows.keys().copied()).collect();
        let is_held = |(token, balance): (Token, Option<Balance>)| {
            let held = balance.and_then(Balance::held).is_some_and(|held| !held.is_zero());
            (held || moved.contains(&token)).then(|| token.map_or(TokenId::Native, TokenId::Erc20))
        };
        let tokens: Vec<TokenId> = report::balances(&entries).into_iter().filter_map(is_held).collect();
        let spreads = self.reader.spreads_on(block.hash, &tokens, &[]).await;
        let prices: Vec<(Address, Usd)> =
            spreads.of.iter().filter_map(|(token, spread)| Some((*token, spread.as_ref().ok()?.held()))).collect();
        let work = move |tx: &rusqlite::Transaction<'_>| {
            for (token, usd) in &prices {
                tables::store_price(tx, (chain_id, Some(*token)), block.at, None, *usd)?;
            }
            tables::thin_prices(tx, chain_id, block.at.saturating_sub(DAY))?;
            Ok::<_, StoreError>(())
        };
        Ok(self.store.write(work).await?)
    }
}

/// Returns true if the reason is that the endpoints have dropped so old a state.
pub(super) fn is_state_missing(error: &ImportError) -> bool {
    match error {
        ImportError::Chain(error) | ImportError::Balances(SnapshotReadError::Chain(error)) => error.is_state_missing(),
        _ => false,
    }
}

/// The token of the books for a token of the chain.
pub(super) fn token_of(id: TokenId) -> Token {
    match id {
        TokenId::Native => None,
        TokenId::Erc20(address) => Some(address),
    }
}

/// Hash of the order that an event of a reactor or a settler is about, if it concerns this account. An `Open` event
/// names the account in its data alone, and only the account's own orders are looked up.
fn order_in(topics: &[B256], account: Address) -> Option<B256> {
    let concerns = |topic: usize| topics.get(topic) == Some(&account.into_word());
    let is_own = match *topics.first()? {
        Reactor::Fill::SIGNATURE_HASH | DestinationSettler::Filled::SIGNATURE_HASH => concerns(3),
        OriginSettler::Refunded::SIGNATURE_HASH => concerns(2),
        OriginSettler::Open::SIGNATURE_HASH => true,
        _ => false,
    };
    topics.get(1).copied().filter(|_| is_own)
}

/// Tokens that an opening leaves out, because their balance cannot be read.
fn unopened(tokens: &BTreeMap<TokenId, TokenInfo>, opening: &Entry) -> impl Iterator<Item = (Token, TokenFault)> {
    let missing = tokens.keys().map(|id| token_of(*id)).filter(|token| !opening.flows.contains_key(token));
    missing.map(|token| (token, TokenFault::BalanceUnreadable)).collect::<Vec<_>>().into_iter()
}

/// Facts with which a token is in the books, by those that are stored and those that it reports now.
fn first_facts(first: Option<TokenInfo>, now: Option<TokenInfo>) -> (Option<TokenInfo>, Option<TokenFault>) {
    match (first, now) {
        (Some(first), Some(now)) if (&first.symbol, first.decimals) != (&now.symbol, now.decimals) => {
            (Some(first), Some(TokenFault::Changed))
        }
        (Some(first), _) => (Some(first), None),
        (None, Some(now)) => (Some(now), None),
        (None, None) => (None, Some(TokenFault::Unreadable)),
    }
}

/// Flow that makes the books agree with a balance; `None` if the sums do not fit 256 bits.
fn difference(books: Balance, held: U256) -> Option<Flow> {
    let left = held.checked_add(books.given)?;
    let flow = |received: U256, given: U256| Some(Flow { received, given });
    match left.checked_sub(books.received) {
        Some(more) => flow(more, U256::ZERO),
        None => flow(U256::ZERO, books.received.saturating_sub(left)),
    }
}

fn entry((chain_id, account): (u64, Address), tx: B256, draft: Draft) -> Entry {
    let Draft { note, position, block, origin, action, gas, flows } = draft;
    Entry {
        chain_id,
        account,
        block: (block.number, block.hash),
        position,
        at: block.at,
        tx: Some(tx),
        origin,
        action,
        flows,
        gas,
        note,
    }
}

/// Adds a movement of the native token to its transaction, or as an entry of its own.
fn add_native(
    drafts: &mut Drafts,
    entries: &mut Vec<Entry>,
    (chain_id, account): (u64, Address),
    finding: NativeFinding,
) {
    let NativeFinding { block, tx, flow, uncertain } = finding;
    if let Some(draft) = tx.and_then(|tx| drafts.get_mut(&tx)) {
        draft.flows.insert(None, flow);
        draft.note = draft.note.or(uncertain.then_some(EntryNote::MayIncludeDeposit));
        return;
    }
    entries.push(Entry {
        chain_id,
        account,
        block: (block.number, block.hash),
        position: AFTER_TRANSACTIONS,
        at: block.at,
        tx: None,
        origin: Origin::Outside,
        action: None,
        flows: BTreeMap::from([(None, flow)]),
        gas: U256::ZERO,
        note: None,
    });
}
