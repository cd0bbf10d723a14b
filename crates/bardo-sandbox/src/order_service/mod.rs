//! The devnet's UniswapX order service: checks and cosigns submitted orders, keeps the order book, and tracks each
//! order's state on the chain. Fillers read the book and compete through the real reactors.
//!
//! Not here: HTTP, and everything that acts for a swapper.

mod cosigner;
mod fillers;
mod local;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::{SolCall, SolEvent};
use parking_lot::Mutex;

pub use fillers::{FILLERS, Filler};
pub use local::LocalOrders;

use super::actors::{self, Actors};
use super::contracts::PERMIT2;
use super::genesis::Deployment;
use super::keys::KeyError;
use super::target::AssetPrices;
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_abi::uniswapx::Reactor;
use bardo_base::signer::signer_of;
use golem_chain::devnet::{Block, Chain};
use golem_chain::permit2::{Permit2Domain, nonce_position, nonce_used};
use golem_protocols::uniswap::gateway::BestBid;
use golem_protocols::uniswap::order::{
    OrderDecodeError, OrderExpectation, OrderFault, OrderKind, ResolutionPoint, ResolvedAmounts, UniswapXOrder,
};

/// Maximum number of open orders.
pub const MOST_OPEN: usize = 2_000;

/// State of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BookStatus {
    /// The order can be filled.
    Open,
    /// The order was filled.
    Filled(OnchainFill),
    /// The deadline has passed.
    Expired,
    /// The nonce was used without a fill.
    Cancelled,
    /// The swapper's balance or Permit2 allowance is too low. The order can become open again.
    InsufficientFunds,
}

/// A fill on the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnchainFill {
    /// Hash of the transaction.
    pub transaction: B256,
    /// Number of the block.
    pub block: u64,
    /// Address of the filler.
    pub filler: Address,
    /// Amounts of the fill; `None` if they cannot be computed.
    pub resolved: Option<ResolvedAmounts>,
}

/// An order in the order book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookEntry {
    /// The cosigned order.
    pub order: UniswapXOrder,
    /// Signature of the swapper.
    pub signature: Bytes,
    /// Current state of the order.
    pub status: BookStatus,
    /// Number of orders that the service accepted before it.
    pub number: u64,
    /// Height of the chain when the order was accepted.
    pub posted_at: u64,
}

/// Reason why the service refuses an order.
#[derive(Debug, thiserror::Error)]
pub enum OrderSubmitError {
    /// The bytes do not encode an order.
    #[error(transparent)]
    Decode(#[from] OrderDecodeError),
    /// The chain has no reactor for this kind of order.
    #[error("{kind} orders are not settled on {chain}")]
    NotSettledHere {
        /// Kind of the order.
        kind: OrderKind,
        /// Name of the chain.
        chain: &'static str,
    },
    /// The order violates requirements.
    #[error("the order is invalid: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Faults(Vec<OrderFault>),
    /// The signature is not the swapper's.
    #[error("the signature is not {swapper}'s over this order")]
    Signature {
        /// Address of the expected signer.
        swapper: Address,
    },
    /// The order book is full.
    #[error("{MOST_OPEN} orders are open: wait until some have ended")]
    Full,
    /// The cosigner could not sign.
    #[error(transparent)]
    Cosigner(#[from] KeyError),
}

/// State of the service.
#[derive(Debug, Default)]
struct OrderBook {
    entries: BTreeMap<B256, BookEntry>,
    /// Number of the last processed block.
    seen: u64,
    attempts: fillers::FillerActions,
}

/// Order service of one chain. Clones share their state.
#[derive(Debug, Clone)]
pub struct OrderService {
    seed: u64,
    deployment: Arc<Deployment>,
    actors: Actors,
    book: Arc<Mutex<OrderBook>>,
    fillers_rest: Arc<AtomicBool>,
}

impl OrderService {
    /// Creates a service with an empty order book.
    pub fn new(seed: u64, deployment: Arc<Deployment>, actors: Actors) -> Self {
        Self { seed, deployment, actors, book: Arc::default(), fillers_rest: Arc::default() }
    }

    /// Pauses or resumes the fillers.
    pub fn set_fillers_rest(&self, rest: bool) {
        self.fillers_rest.store(rest, Ordering::SeqCst);
    }

    /// Marks every filler as funded with these tokens, so that none is minted.
    pub fn set_stocked(&self, tokens: &[Address]) {
        let mut book = self.book.lock();
        for token in tokens {
            book.attempts.set_stocked(*token);
        }
    }

    /// Address of the cosigner.
    pub fn cosigner(&self) -> Address {
        self.actors.cosigner().address()
    }

    /// Reactor for orders of this kind; `None` if there is none.
    pub fn reactor(&self, kind: OrderKind) -> Option<Address> {
        let name = match kind {
            OrderKind::Dutch => return None,
            OrderKind::DutchV2 => "v2DutchReactor",
            OrderKind::DutchV3 => "v3DutchReactor",
            OrderKind::Priority => "priorityReactor",
        };
        self.deployment.contracts.get(name).copied()
    }

    /// Checks, cosigns and opens an encoded order with the swapper's signature; returns its hash. An order that is
    /// already in the book stays unchanged.
    ///
    /// # Errors
    /// [`OrderSubmitError`] with the reason of the refusal.
    pub fn submit(
        &self,
        chain: &Chain,
        kind: OrderKind,
        encoded: &[u8],
        signature: &Bytes,
    ) -> Result<B256, OrderSubmitError> {
        let order = UniswapXOrder::decode(kind, encoded)?;
        let chain_id = chain.rules().chain_id;
        let not_here = OrderSubmitError::NotSettledHere { kind, chain: self.deployment.plan.name };
        let reactor = self.reactor(kind).ok_or(not_here)?;
        let swapper = order.info().swapper;
        let expected = OrderExpectation {
            chain_id,
            now: chain.next_context().timestamp,
            reactor,
            swapper,
            recipient: swapper,
            cosigner: self.cosigner(),
        };
        let mut faults = order.faults(&expected);
        // The recipient is the swapper's choice.
        faults.retain(|fault| !matches!(fault, OrderFault::Recipient { .. }));
        if !faults.is_empty() {
            return Err(OrderSubmitError::Faults(faults));
        }
        let digest = order.permit().digest(&Permit2Domain { chain_id, permit2: PERMIT2 });
        let signer = Signature::from_raw(signature).ok().and_then(|it| signer_of(&it, &digest));
        if signer != Some(swapper) {
            return Err(OrderSubmitError::Signature { swapper });
        }
        let hash = order.hash();
        let mut book = self.book.lock();
        if book.entries.contains_key(&hash) {
            return Ok(hash);
        }
        if book.entries.values().filter(|entry| entry.can_fill()).count() >= MOST_OPEN {
            return Err(OrderSubmitError::Full);
        }
        let number = u64::try_from(book.entries.len()).unwrap_or(u64::MAX);
        let order = cosigner::cosign(order, number, chain, &self.actors)?;
        let (signature, posted_at) = (signature.clone(), chain.number());
        let entry = BookEntry { order, signature, status: BookStatus::Open, number, posted_at };
        book.entries.insert(hash, entry);
        Ok(hash)
    }

    /// The entry of an order; `None` if it is unknown.
    pub fn entry(&self, hash: B256) -> Option<BookEntry> {
        self.book.lock().entries.get(&hash).cloned()
    }

    /// All orders of a swapper, with their hashes.
    pub fn entries_of(&self, swapper: Address) -> Vec<(B256, BookEntry)> {
        let book = self.book.lock();
        let own = book.entries.iter().filter(|(_, entry)| entry.order.info().swapper == swapper);
        own.map(|(hash, entry)| (*hash, entry.clone())).collect()
    }

    /// Updates the order book from the chain.
    pub fn follow(&self, chain: &Chain) {
        let mut book = self.book.lock();
        if book.entries.is_empty() {
            book.seen = chain.number();
            return;
        }
        let reactors: BTreeSet<Address> = OrderKind::ALL.into_iter().filter_map(|kind| self.reactor(kind)).collect();
        if chain.number() < book.seen {
            // The chain was rolled back, so fills beyond its head no longer exist.
            let head = chain.number();
            for entry in book.entries.values_mut() {
                if matches!(&entry.status, BookStatus::Filled(fill) if fill.block > head) {
                    entry.status = BookStatus::Open;
                }
            }
            book.seen = head;
        }
        for block in chain.blocks(book.seen + 1, chain.number()) {
            for (index, receipt) in block.receipts.iter().enumerate() {
                for log in receipt.logs().iter().filter(|log| reactors.contains(&log.address)) {
                    let Ok(fill) = Reactor::Fill::decode_log(log) else { continue };
                    let Some(entry) = book.entries.get_mut(&fill.orderHash) else { continue };
                    let transaction = block.transactions.get(index).map(|it| it.hash).unwrap_or_default();
                    let at = at(chain.rules().chain_id, block, receipt.effective_gas_price, fill.filler);
                    let resolved = entry.order.resolve(&at).ok();
                    let (block, filler) = (block.header.number, fill.filler);
                    entry.status = BookStatus::Filled(OnchainFill { transaction, block, filler, resolved });
                }
            }
        }
        book.seen = chain.number();
        let now = U256::from(chain.next_context().timestamp);
        for entry in book.entries.values_mut().filter(|entry| entry.can_fill()) {
            entry.status = standing(chain, &entry.order, now);
        }
    }

    /// Creates the fillers' transactions for the next block.
    pub(super) fn fills(&self, chain: &Chain, prices: &AssetPrices) -> Vec<actors::ActorTransaction> {
        if self.fillers_rest.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let mut book = self.book.lock();
        let OrderBook { entries, attempts, .. } = &mut *book;
        let open = entries.iter().filter(|(_, entry)| entry.status == BookStatus::Open);
        fillers::decide(self.seed, chain, &self.deployment, &self.actors, prices, open, attempts)
    }

    /// Best output that a filler would deliver for the order in the next block; `None` if it cannot be filled.
    pub(super) fn best_bid(&self, chain: &Chain, prices: &AssetPrices, hash: B256) -> Option<BestBid> {
        let entry = self.entry(hash).filter(BookEntry::can_fill)?;
        fillers::best_bid(self.seed, chain, &self.deployment, &self.actors, prices, &entry)
    }
}

impl BookEntry {
    /// Returns true if the order could still be filled.
    pub fn can_fill(&self) -> bool {
        matches!(self.status, BookStatus::Open | BookStatus::InsufficientFunds)
    }
}

/// Context of a transaction in a sealed block.
fn at(chain_id: u64, block: &Block, gas_price: u128, filler: Address) -> ResolutionPoint {
    let base_fee = u128::from(block.header.base_fee_per_gas.unwrap_or_default());
    ResolutionPoint {
        chain_id,
        timestamp: block.header.timestamp,
        block: block.header.number,
        base_fee,
        priority_fee: gas_price.saturating_sub(base_fee),
        filler,
    }
}

/// State of an order that was not filled.
fn standing(chain: &Chain, order: &UniswapXOrder, now: U256) -> BookStatus {
    let info = order.info();
    let (word, _) = nonce_position(info.nonce);
    let bits = ask(chain, PERMIT2, Permit2::nonceBitmapCall { owner: info.swapper, word });
    if bits.is_some_and(|bits| nonce_used(info.nonce, bits)) {
        return BookStatus::Cancelled;
    }
    if info.deadline < now {
        return BookStatus::Expired;
    }
    let token = order.token_in();
    let has = ask(chain, token, Erc20::balanceOfCall { owner: info.swapper });
    let lets = ask(chain, token, Erc20::allowanceCall { owner: info.swapper, spender: PERMIT2 });
    let enough = |amount: Option<U256>| amount.is_some_and(|amount| amount >= order.most_in());
    if enough(has) && enough(lets) { BookStatus::Open } else { BookStatus::InsufficientFunds }
}

/// Result of a call on the chain's latest state; `None` if it fails.
pub(super) fn ask<C: SolCall>(chain: &Chain, to: Address, call: C) -> Option<C::Return> {
    let request = TransactionRequest {
        to: Some(TxKind::Call(to)),
        input: Bytes::from(call.abi_encode()).into(),
        ..Default::default()
    };
    let outcome = chain.call(&request, BlockId::latest(), None, None).ok()?;
    C::abi_decode_returns(&outcome.output).ok()
}
