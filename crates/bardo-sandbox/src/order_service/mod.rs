//! The devnet's order service for UniswapX: checks and cosigns what swappers hand in, keeps the book, and follows on the
//! chain what becomes of each order. Fillers look at the book and compete for it through the real reactors.
//!
//! Not here: HTTP, and anything that acts for a swapper.

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

use super::cast::{self, Cast};
use super::contracts::PERMIT2;
use super::genesis::Deployment;
use super::keys::KeyError;
use super::target::Prices;
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_abi::uniswapx::Reactor;
use bardo_base::signer::signer_of;
use golem_chain::devnet::{Block, Chain};
use golem_chain::permit2::{Domain, nonce_position, nonce_used};
use golem_protocols::uniswap::gateway::BestBid;
use golem_protocols::uniswap::order::{At, DecodeError, Expectation, Fault, Order, OrderKind, Resolved};

/// The most orders that are open at a time.
pub const MOST_OPEN: usize = 2_000;

/// What has become of an order, in the service's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It can be filled.
    Open,
    /// It was filled.
    Filled(Fill),
    /// Its deadline has passed.
    Expired,
    /// Its nonce was used up without a fill.
    Cancelled,
    /// The swapper does not have, or does not let Permit2 have, what it offers. It can become open again.
    InsufficientFunds,
}

/// A fill, as the chain has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fill {
    /// The transaction.
    pub transaction: B256,
    /// Its block.
    pub block: u64,
    /// Who filled.
    pub filler: Address,
    /// What moved.
    pub resolved: Option<Resolved>,
}

/// An order in the book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The order, cosigned.
    pub order: Order,
    /// The swapper's signature.
    pub signature: Bytes,
    /// What has become of it.
    pub status: Status,
    /// How many orders the service had before it.
    pub number: u64,
    /// The chain's height when it was taken in.
    pub posted_at: u64,
}

/// Why the service does not take an order.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Not an order.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// No reactor of this kind here.
    #[error("{kind} orders are not settled on {chain}")]
    NotSettledHere {
        /// The kind.
        kind: OrderKind,
        /// The chain.
        chain: &'static str,
    },
    /// It is not as it must be.
    #[error("the order is not sound: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Faults(Vec<Fault>),
    /// The signature is not the swapper's.
    #[error("the signature is not {swapper}'s over this order")]
    Signature {
        /// Who should have signed.
        swapper: Address,
    },
    /// The book is full.
    #[error("{MOST_OPEN} orders are open: wait until some have ended")]
    Full,
    /// The cosigner could not sign.
    #[error(transparent)]
    Cosigner(#[from] KeyError),
}

/// What the service remembers.
#[derive(Debug, Default)]
struct Book {
    entries: BTreeMap<B256, Entry>,
    /// The last block that was looked at.
    seen: u64,
    attempts: fillers::Attempts,
}

/// The order service of one chain. A clone is the same service.
#[derive(Debug, Clone)]
pub struct OrderService {
    seed: u64,
    deployment: Arc<Deployment>,
    cast: Cast,
    book: Arc<Mutex<Book>>,
    fillers_rest: Arc<AtomicBool>,
}

impl OrderService {
    /// An empty book for a furnished chain.
    pub fn new(seed: u64, deployment: Arc<Deployment>, cast: Cast) -> Self {
        Self { seed, deployment, cast, book: Arc::default(), fillers_rest: Arc::default() }
    }

    /// Lets the fillers look away from the book, or look again.
    pub fn set_fillers_rest(&self, rest: bool) {
        self.fillers_rest.store(rest, Ordering::SeqCst);
    }

    /// Who cosigns.
    pub fn cosigner(&self) -> Address {
        self.cast.cosigner().address()
    }

    /// The reactor that settles this kind here.
    pub fn reactor(&self, kind: OrderKind) -> Option<Address> {
        let name = match kind {
            OrderKind::Dutch => return None,
            OrderKind::DutchV2 => "v2DutchReactor",
            OrderKind::DutchV3 => "v3DutchReactor",
            OrderKind::Priority => "priorityReactor",
        };
        self.deployment.contracts.get(name).copied()
    }

    /// Takes in an encoded order with the swapper's signature, cosigns it and opens it; returns its hash. An order that
    /// is in the book already stays as it is there.
    ///
    /// # Errors
    /// [`SubmitError`] that says what is wrong.
    pub fn submit(
        &self,
        chain: &Chain,
        kind: OrderKind,
        encoded: &[u8],
        signature: &Bytes,
    ) -> Result<B256, SubmitError> {
        let order = Order::decode(kind, encoded)?;
        let chain_id = chain.rules().chain_id;
        let not_here = SubmitError::NotSettledHere { kind, chain: self.deployment.plan.name };
        let reactor = self.reactor(kind).ok_or(not_here)?;
        let swapper = order.info().swapper;
        let expected = Expectation {
            chain_id,
            now: chain.next_context().timestamp,
            reactor,
            swapper,
            recipient: swapper,
            cosigner: self.cosigner(),
        };
        let mut faults = order.faults(&expected);
        // Who receives is the swapper's own affair.
        faults.retain(|fault| !matches!(fault, Fault::Recipient { .. }));
        if !faults.is_empty() {
            return Err(SubmitError::Faults(faults));
        }
        let digest = order.permit().digest(&Domain { chain_id, permit2: PERMIT2 });
        let signer = Signature::from_raw(signature).ok().and_then(|it| signer_of(&it, &digest));
        if signer != Some(swapper) {
            return Err(SubmitError::Signature { swapper });
        }
        let hash = order.hash();
        let mut book = self.book.lock();
        if book.entries.contains_key(&hash) {
            return Ok(hash);
        }
        if book.entries.values().filter(|entry| entry.can_fill()).count() >= MOST_OPEN {
            return Err(SubmitError::Full);
        }
        let number = u64::try_from(book.entries.len()).unwrap_or(u64::MAX);
        let order = cosigner::cosign(order, number, chain, &self.cast)?;
        let (signature, posted_at) = (signature.clone(), chain.number());
        let entry = Entry { order, signature, status: Status::Open, number, posted_at };
        book.entries.insert(hash, entry);
        Ok(hash)
    }

    /// What is known of an order.
    pub fn entry(&self, hash: B256) -> Option<Entry> {
        self.book.lock().entries.get(&hash).cloned()
    }

    /// All of a swapper's orders.
    pub fn entries_of(&self, swapper: Address) -> Vec<(B256, Entry)> {
        let book = self.book.lock();
        let own = book.entries.iter().filter(|(_, entry)| entry.order.info().swapper == swapper);
        own.map(|(hash, entry)| (*hash, entry.clone())).collect()
    }

    /// Brings the book up to what the chain says.
    pub fn follow(&self, chain: &Chain) {
        let mut book = self.book.lock();
        if book.entries.is_empty() {
            book.seen = chain.number();
            return;
        }
        let reactors: BTreeSet<Address> = OrderKind::ALL.into_iter().filter_map(|kind| self.reactor(kind)).collect();
        if chain.number() < book.seen {
            // The chain went back: fills that are no longer in it never happened.
            let head = chain.number();
            for entry in book.entries.values_mut() {
                if matches!(&entry.status, Status::Filled(fill) if fill.block > head) {
                    entry.status = Status::Open;
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
                    entry.status = Status::Filled(Fill { transaction, block, filler, resolved });
                }
            }
        }
        book.seen = chain.number();
        let now = U256::from(chain.next_context().timestamp);
        for entry in book.entries.values_mut().filter(|entry| entry.can_fill()) {
            entry.status = standing(chain, &entry.order, now);
        }
    }

    /// What the fillers send in the block that is made next.
    pub(super) fn fills(&self, chain: &Chain, prices: &Prices) -> Vec<cast::Order> {
        if self.fillers_rest.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let mut book = self.book.lock();
        let Book { entries, attempts, .. } = &mut *book;
        let open = entries.iter().filter(|(_, entry)| entry.status == Status::Open);
        fillers::decide(self.seed, chain, &self.deployment, &self.cast, prices, open, attempts)
    }

    /// The best that a filler who looks at the order would deliver for it in the next block.
    pub(super) fn best_bid(&self, chain: &Chain, prices: &Prices, hash: B256) -> Option<BestBid> {
        let entry = self.entry(hash).filter(Entry::can_fill)?;
        fillers::best_bid(self.seed, chain, &self.deployment, &self.cast, prices, &entry)
    }
}

impl Entry {
    /// Whether it could still be filled.
    pub fn can_fill(&self) -> bool {
        matches!(self.status, Status::Open | Status::InsufficientFunds)
    }
}

/// The moment of a transaction in a sealed block.
fn at(chain_id: u64, block: &Block, gas_price: u128, filler: Address) -> At {
    let base_fee = u128::from(block.header.base_fee_per_gas.unwrap_or_default());
    At {
        chain_id,
        timestamp: block.header.timestamp,
        block: block.header.number,
        base_fee,
        priority_fee: gas_price.saturating_sub(base_fee),
        filler,
    }
}

/// How an order that was not filled stands.
fn standing(chain: &Chain, order: &Order, now: U256) -> Status {
    let info = order.info();
    let (word, _) = nonce_position(info.nonce);
    let bits = ask(chain, PERMIT2, Permit2::nonceBitmapCall { owner: info.swapper, word });
    if bits.is_some_and(|bits| nonce_used(info.nonce, bits)) {
        return Status::Cancelled;
    }
    if info.deadline < now {
        return Status::Expired;
    }
    let token = order.token_in();
    let has = ask(chain, token, Erc20::balanceOfCall { owner: info.swapper });
    let lets = ask(chain, token, Erc20::allowanceCall { owner: info.swapper, spender: PERMIT2 });
    let enough = |amount: Option<U256>| amount.is_some_and(|amount| amount >= order.most_in());
    if enough(has) && enough(lets) { Status::Open } else { Status::InsufficientFunds }
}

/// The answer of a call on the chain's latest state; nothing where it fails.
pub(super) fn ask<C: SolCall>(chain: &Chain, to: Address, call: C) -> Option<C::Return> {
    let request = TransactionRequest {
        to: Some(TxKind::Call(to)),
        input: Bytes::from(call.abi_encode()).into(),
        ..Default::default()
    };
    let outcome = chain.call(&request, BlockId::latest(), None, None).ok()?;
    C::abi_decode_returns(&outcome.output).ok()
}
