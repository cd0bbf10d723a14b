//! The devnet's relayers: independent parties with keys and funds on both chains. They bid for intents, and the best
//! bidder locks the user's funds on the origin chain with the user's signature. A relayer delivers on the destination
//! chain. The messenger then reports it to the origin chain, which pays the relayer.
//!
//! They also fill deposits of Across's SpokePools (see `across`).
//!
//! Each relayer has its own margin, latency and failure rates. The intents that it ignores, drops after winning or
//! leaves undelivered depend only on the seed and the intent's sequence number. Ids differ in every run, so they are
//! not used.
//!
//! Not here: HTTP, and everything that acts for a user.

mod across;
mod local;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy::primitives::{Address, B256, Bytes, Signature, U256, U512, keccak256};
use alloy::sol_types::{SolCall, SolValue};
use parking_lot::Mutex;

pub use local::LocalRelayers;

use across::DepositBoard;

use super::actors::{self, ActorRole, Actors, TIP};
use super::contracts::PERMIT2;
use super::genesis::Deployment;
use super::math::{PricedToken, amount_for};
use super::order_service::ask;
use super::plan::SandboxToken;
use super::target::AssetPrices;
use bardo_abi::erc20::{Erc20, OpenMint, Weth9};
use bardo_abi::erc7683::{DestinationSettler, OriginSettler};
use bardo_abi::permit2::Permit2;
use bardo_base::signer::signer_of;
use bardo_base::text::SafeText;
use golem_chain::devnet::Chain;
use golem_chain::permit2::{Permit2Domain, nonce_position, nonce_used};
use golem_protocols::intents::gateway::{BidRequest, RelayerBid};
use golem_protocols::intents::{CrossChainIntent, IntentExpectation, IntentFault};

/// Maximum number of unfinished intents.
pub const MOST_OPEN: usize = 1_000;

/// Gas limits of opening, delivering and repaying.
const OPEN_GAS: u64 = 600_000;
const FILL_GAS: u64 = 300_000;
const REPAY_GAS: u64 = 150_000;
/// Expected gas of opening and delivering together, for the profit calculation.
const GAS_EXPECTED: u64 = 420_000;
/// Blocks for which a relayer has priority before the next one may act.
const PATIENCE_BLOCKS: u64 = 6;
/// Blocks before a party sends the same transaction again.
const AGAIN_BLOCKS: u64 = 4;

/// Behaviour of a relayer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relayer {
    /// Role of the relayer.
    pub role: ActorRole,
    /// Margin, in basis points of the input.
    pub margin_bps: u64,
    /// Blocks before it notices an event.
    pub latency: u64,
    /// Percentage of intents for which it never bids.
    pub ignores: u64,
    /// Percentage of intents that it bids for but does not lock.
    pub drops: u64,
    /// Percentage of locked intents that it does not deliver.
    pub forgets: u64,
    /// Initial amount of each token on each chain, in dollars. When a token is used up, it delivers no more of it.
    pub purse_dollars: u64,
}

/// All relayers: a steady one, a quick one with a high margin, and an unreliable one with a low margin and little
/// funds.
pub const RELAYERS: [Relayer; 3] = [
    Relayer {
        role: ActorRole::FirstRelayer,
        margin_bps: 10,
        latency: 1,
        ignores: 10,
        drops: 5,
        forgets: 5,
        purse_dollars: 1_000_000,
    },
    Relayer {
        role: ActorRole::SecondRelayer,
        margin_bps: 20,
        latency: 0,
        ignores: 20,
        drops: 5,
        forgets: 5,
        purse_dollars: 300_000,
    },
    Relayer {
        role: ActorRole::ThirdRelayer,
        margin_bps: 6,
        latency: 2,
        ignores: 50,
        drops: 25,
        forgets: 25,
        purse_dollars: 4_000,
    },
];

/// Kind of a relayer's random failure.
#[derive(Debug, Clone, Copy)]
enum FailureKind {
    Ignores,
    Drops,
    Forgets,
}

impl Relayer {
    fn fails(&self, seed: u64, number: u64, kind: FailureKind) -> bool {
        let (part, salt) = match kind {
            FailureKind::Ignores => (self.ignores, 1u64),
            FailureKind::Drops => (self.drops, 2),
            FailureKind::Forgets => (self.forgets, 3),
        };
        let draw = keccak256([seed, self.margin_bps, salt, number].map(U256::from).abi_encode());
        u64::from(draw.0[0]) * 100 / 256 < part
    }
}

/// Reason why the relayers refuse an intent.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The origin or destination chain is not the devnet's.
    #[error("chain {0} is not a chain of the devnet")]
    Chain(u64),
    /// The intent violates requirements.
    #[error("the intent is invalid: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Faults(Vec<IntentFault>),
    /// The signature is not the user's.
    #[error("the signature is not {user}'s over this intent")]
    Signature {
        /// Address of the expected signer.
        user: Address,
    },
    /// No relayer bids for this amount and these tokens.
    #[error("no relayer would deliver that much of this token")]
    NoBid,
    /// Too many intents are unfinished.
    #[error("{MOST_OPEN} intents are in progress: wait until some have ended")]
    Full,
}

/// A submitted intent.
#[derive(Debug, Clone)]
struct PostedIntent {
    intent: CrossChainIntent,
    /// Number of intents that were submitted before it.
    number: u64,
    signature: Bytes,
    bids: Vec<(Relayer, RelayerBid)>,
    posted_at: u64,
    /// True while the funds are locked on the origin chain.
    locked: bool,
    /// Height of the destination chain's next block when the lock was first seen there.
    seen_locked_at: Option<u64>,
    /// Address that the origin chain owes the payment, once delivered.
    owed_to: Option<Address>,
    /// True if nothing remains to be done.
    over: bool,
}

/// Block for which each party last acted on an intent, by chain.
type LastActed = BTreeMap<(u64, ActorRole, B256), u64>;

/// One-time actions of a party for a token, by chain.
type OncePerToken = BTreeSet<(u64, ActorRole, Address)>;

#[derive(Debug, Default)]
struct RelayBoard {
    posted: BTreeMap<B256, PostedIntent>,
    /// Block for which a party last sent a transaction for an intent.
    sent: LastActed,
    stocked: OncePerToken,
    approved: OncePerToken,
}

/// Relayers of both chains. Clones share their state.
#[derive(Debug, Clone)]
pub struct Relayers {
    seed: u64,
    actors: Actors,
    deployments: Arc<BTreeMap<u64, Arc<Deployment>>>,
    board: Arc<Mutex<RelayBoard>>,
    deposits: Arc<Mutex<DepositBoard>>,
    /// True while all relayers fill deposits of the SpokePools with less than they ask for.
    lies: Arc<AtomicBool>,
    /// True while the relayers fill no deposits of the SpokePools, and ask for slow fills of them.
    slow: Arc<AtomicBool>,
    /// True while all relayers pause deliveries.
    rest: Arc<AtomicBool>,
}

impl Relayers {
    /// Creates relayers between these chains.
    pub fn new(seed: u64, actors: Actors, deployments: impl IntoIterator<Item = Arc<Deployment>>) -> Self {
        let deployments = deployments.into_iter().map(|one| (one.plan.chain_id, one)).collect();
        Self {
            seed,
            actors,
            deployments: Arc::new(deployments),
            board: Arc::default(),
            deposits: Arc::default(),
            lies: Arc::default(),
            slow: Arc::default(),
            rest: Arc::default(),
        }
    }

    /// Pauses or resumes deliveries; relayers still lock intents during a pause.
    pub fn set_rest(&self, rest: bool) {
        self.rest.store(rest, Ordering::SeqCst);
    }

    /// Lets relayers fill deposits of the SpokePools with half of what they ask for, or as they are.
    pub fn set_lies(&self, lies: bool) {
        self.lies.store(lies, Ordering::SeqCst);
    }

    /// Lets relayers ask the SpokePools to pay deposits themselves instead of filling them, or fill them.
    pub fn set_slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::SeqCst);
    }

    fn deployment(&self, chain_id: u64) -> Result<&Arc<Deployment>, RelayError> {
        self.deployments.get(&chain_id).ok_or(RelayError::Chain(chain_id))
    }

    fn contract(&self, chain_id: u64, name: &str) -> Result<Address, RelayError> {
        self.deployment(chain_id)?.contracts.get(name).copied().ok_or(RelayError::Chain(chain_id))
    }

    /// Current bids of the relayers, best first. Called on the origin chain's thread.
    ///
    /// # Errors
    /// [`RelayError::Chain`] for a chain that is not the devnet's.
    pub fn quote(
        &self,
        chain: &Chain,
        prices: &AssetPrices,
        request: &BidRequest,
    ) -> Result<Vec<RelayerBid>, RelayError> {
        Ok(self.bids(chain, prices, request, None)?.into_iter().map(|(_, bid)| bid).collect())
    }

    fn bids(
        &self,
        chain: &Chain,
        prices: &AssetPrices,
        request: &BidRequest,
        number: Option<u64>,
    ) -> Result<Vec<(Relayer, RelayerBid)>, RelayError> {
        let (origin, destination) =
            (self.deployment(request.origin_chain_id)?, self.deployment(request.destination_chain_id)?);
        let (Some(paid), Some(wanted)) =
            (quoted(origin, request.token_in, prices), quoted(destination, request.token_out, prices))
        else {
            return Ok(Vec::new());
        };
        let price = u128::from(chain.next_context().base_fee).saturating_add(TIP);
        let ether = quoted(origin, origin.weth, prices);
        let gas = ether.map(|ether| dollars(U256::from(price) * U256::from(GAS_EXPECTED), ether)).unwrap_or_default();
        let income = dollars(request.amount_in, paid);
        let one = dollars(U256::from(1), wanted).max(U512::from(1));
        let mut bids = Vec::new();
        for relayer in RELAYERS {
            if number.is_some_and(|number| relayer.fails(self.seed, number, FailureKind::Ignores)) {
                continue;
            }
            let kept = U512::from(10_000_u64.saturating_sub(relayer.margin_bps));
            let left = (income * kept / U512::from(10_000)).saturating_sub(gas);
            let output = left / one;
            if output.is_zero() || output > U512::from(U256::MAX) {
                continue;
            }
            let blocks = relayer.latency * 2 + 4;
            let bid = RelayerBid {
                relayer: self.actors.address(relayer.role),
                name: SafeText::clean(relayer.role.label(), 40),
                output: U256::from(output),
                seconds: blocks * destination.plan.block_millis.max(origin.plan.block_millis) / 1_000,
                chosen: false,
            };
            bids.push((relayer, bid));
        }
        bids.sort_by_key(|(_, bid)| std::cmp::Reverse(bid.output));
        Ok(bids)
    }

    /// Accepts a signed intent on the origin chain's thread; returns its id. A known intent stays unchanged.
    ///
    /// # Errors
    /// [`RelayError`] with the reason of the refusal.
    pub fn submit(
        &self,
        chain: &Chain,
        prices: &AssetPrices,
        intent: &CrossChainIntent,
        signature: &Bytes,
    ) -> Result<B256, RelayError> {
        let origin = chain.rules().chain_id;
        let destination = u64::try_from(intent.data.destinationChainId).map_err(|_| RelayError::Chain(u64::MAX))?;
        self.deployment(destination)?;
        let expected = IntentExpectation {
            now: chain.next_context().timestamp,
            origin_chain_id: origin,
            destination_chain_id: destination,
            origin_settler: self.contract(origin, "originSettler")?,
            user: intent.user,
            recipient: intent.user,
        };
        let mut faults = intent.faults(&expected);
        // The recipient is the user's choice.
        faults.retain(|fault| !matches!(fault, IntentFault::Recipient { .. }));
        if !faults.is_empty() {
            return Err(RelayError::Faults(faults));
        }
        let digest = intent.permit().digest(&Permit2Domain { chain_id: origin, permit2: PERMIT2 });
        let signer = Signature::from_raw(signature).ok().and_then(|it| signer_of(&it, &digest));
        if signer != Some(intent.user) {
            return Err(RelayError::Signature { user: intent.user });
        }
        let id = intent.id();
        let request = BidRequest {
            origin_chain_id: origin,
            destination_chain_id: destination,
            token_in: intent.data.inputToken,
            amount_in: intent.data.inputAmount,
            token_out: intent.data.outputToken,
        };
        let mut board = self.board.lock();
        if board.posted.contains_key(&id) {
            return Ok(id);
        }
        let number = u64::try_from(board.posted.len()).unwrap_or(u64::MAX);
        let mut bids = self.bids(chain, prices, &request, Some(number))?;
        bids.retain(|(_, bid)| bid.output >= intent.data.outputAmount);
        if bids.is_empty() && self.bids(chain, prices, &request, None)?.is_empty() {
            return Err(RelayError::NoBid);
        }
        if let Some((_, first)) = bids.first_mut() {
            first.chosen = true;
        }
        if board.posted.values().filter(|posted| !posted.over).count() >= MOST_OPEN {
            return Err(RelayError::Full);
        }
        let posted = PostedIntent {
            intent: intent.clone(),
            number,
            signature: signature.clone(),
            bids,
            posted_at: chain.number(),
            locked: false,
            seen_locked_at: None,
            owed_to: None,
            over: false,
        };
        board.posted.insert(id, posted);
        Ok(id)
    }

    /// Bids for an intent; `None` if it is unknown.
    pub fn bids_for(&self, id: B256) -> Option<Vec<RelayerBid>> {
        let board = self.board.lock();
        board.posted.get(&id).map(|posted| posted.bids.iter().map(|(_, bid)| bid.clone()).collect())
    }

    /// Creates the transactions of relayers and messenger for this chain's next block.
    pub(super) fn act(&self, chain: &Chain, prices: &AssetPrices) -> Vec<actors::ActorTransaction> {
        let here = chain.rules().chain_id;
        let mut orders = Vec::new();
        let mut board = self.board.lock();
        let RelayBoard { posted, sent, stocked, approved } = &mut *board;
        let mut open: Vec<_> = posted.iter_mut().filter(|(_, posted)| !posted.over).collect();
        open.sort_by_key(|(_, posted)| posted.number);
        for (id, posted) in open {
            if posted.intent.origin_chain_id == here {
                self.on_origin(chain, *id, posted, sent, &mut orders);
            } else if posted.intent.data.destinationChainId == U256::from(here) {
                self.on_destination(chain, prices, *id, posted, (sent, stocked, approved), &mut orders);
            }
        }
        drop(board);
        orders.extend(self.act_on_deposits(chain, prices));
        orders
    }

    fn on_origin(
        &self,
        chain: &Chain,
        id: B256,
        posted: &mut PostedIntent,
        sent: &mut LastActed,
        orders: &mut Vec<actors::ActorTransaction>,
    ) {
        let here = chain.rules().chain_id;
        let Ok(settler) = self.contract(here, "originSettler") else { return };
        let next = chain.next_context();
        let deposit = ask(chain, settler, OriginSettler::depositsCall { orderId: id });
        let status = deposit.map_or(0, |deposit| deposit.status);
        posted.locked = status == 1;
        if status > 1 {
            posted.over = true;
            return;
        }
        let mut may = |role: ActorRole| {
            let key = (here, role, id);
            let waits = sent.get(&key).is_some_and(|block| next.number < block + AGAIN_BLOCKS);
            let busy = chain.pending_nonce(self.actors.address(role)) > chain.state().nonce(self.actors.address(role));
            if waits || busy {
                return false;
            }
            sent.insert(key, next.number);
            true
        };
        if status == 0 {
            let (word, _) = nonce_position(posted.intent.nonce);
            let bits = ask(chain, PERMIT2, Permit2::nonceBitmapCall { owner: posted.intent.user, word });
            let void = bits.is_some_and(|bits| nonce_used(posted.intent.nonce, bits));
            if void || u64::from(posted.intent.open_deadline) < next.timestamp {
                posted.over = true;
                return;
            }
            // The best bidder comes first; the next one acts if it has not locked after some blocks.
            for (place, (relayer, _)) in posted.bids.iter().enumerate() {
                let turn = posted.posted_at + relayer.latency + PATIENCE_BLOCKS * (place as u64);
                if next.number > turn
                    && !relayer.fails(self.seed, posted.number, FailureKind::Drops)
                    && may(relayer.role)
                {
                    let data = posted.intent.open_for(posted.signature.clone(), Bytes::new());
                    orders.push(actors::ActorTransaction::call(
                        relayer.role,
                        settler,
                        data.to_vec(),
                        OPEN_GAS,
                        "locking an intent",
                    ));
                    return;
                }
            }
        } else if let Some(to) = posted.owed_to
            && may(ActorRole::Messenger)
        {
            let call = OriginSettler::repayCall { orderId: id, repayTo: to }.abi_encode();
            orders.push(actors::ActorTransaction::call(
                ActorRole::Messenger,
                settler,
                call,
                REPAY_GAS,
                "reporting a delivery",
            ));
        }
    }

    fn on_destination(
        &self,
        chain: &Chain,
        prices: &AssetPrices,
        id: B256,
        posted: &mut PostedIntent,
        (sent, stocked, approved): (&mut LastActed, &mut OncePerToken, &mut OncePerToken),
        orders: &mut Vec<actors::ActorTransaction>,
    ) {
        if !posted.locked || posted.owed_to.is_some() || self.rest.load(Ordering::SeqCst) {
            return;
        }
        let here = chain.rules().chain_id;
        let (Ok(settler), Ok(deployment)) = (self.contract(here, "destinationSettler"), self.deployment(here)) else {
            return;
        };
        let next = chain.next_context();
        let filled = ask(chain, settler, DestinationSettler::filledForCall { orderId: id }).unwrap_or_default();
        if !filled.is_zero() {
            posted.owed_to = Some(filled);
            return;
        }
        if u64::from(posted.intent.fill_deadline) < next.timestamp {
            return;
        }
        let first_seen = *posted.seen_locked_at.get_or_insert(next.number);
        let (token, amount) = (posted.intent.data.outputToken, posted.intent.data.outputAmount);
        for (place, (relayer, _)) in posted.bids.iter().enumerate() {
            let turn = first_seen + relayer.latency + PATIENCE_BLOCKS * (place as u64);
            if next.number < turn || relayer.fails(self.seed, posted.number, FailureKind::Forgets) {
                continue;
            }
            let address = self.actors.address(relayer.role);
            if chain.pending_nonce(address) > chain.state().nonce(address) {
                continue;
            }
            if stock(chain, deployment, prices, relayer, token, stocked, orders, address)
                | allow(chain, relayer, token, settler, approved, orders)
            {
                // The delivery follows once the relayer is funded.
                return;
            }
            let key = (here, relayer.role, id);
            if sent.get(&key).is_some_and(|block| next.number < block + AGAIN_BLOCKS) {
                continue;
            }
            let has = ask(chain, token, Erc20::balanceOfCall { owner: address });
            if has.is_none_or(|has| has < amount) {
                // The relayer's funds are used up.
                continue;
            }
            sent.insert(key, next.number);
            let told = posted.intent.relay(posted.intent.deposit_id()).abi_encode().into();
            let call =
                DestinationSettler::fillCall { orderId: id, originData: told, fillerData: address.abi_encode().into() };
            orders.push(actors::ActorTransaction::call(
                relayer.role,
                settler,
                call.abi_encode(),
                FILL_GAS,
                "delivering an intent",
            ));
            return;
        }
    }
}

/// Funds a relayer when a token is first needed; true if the transaction is pending.
#[allow(clippy::too_many_arguments)]
fn stock(
    chain: &Chain,
    deployment: &Deployment,
    prices: &AssetPrices,
    relayer: &Relayer,
    token: Address,
    stocked: &mut OncePerToken,
    orders: &mut Vec<actors::ActorTransaction>,
    to: Address,
) -> bool {
    let known = deployment.tokens.iter().find(|(known, at)| **at == token && !known.is_bad()).map(|(known, _)| *known);
    let (Some(known), Some(price)) = (known, quoted(deployment, token, prices)) else { return false };
    if !stocked.insert((chain.rules().chain_id, relayer.role, token)) {
        return false;
    }
    let value = amount_for(relayer.purse_dollars, price);
    let call = |input| actors::ActorTransaction::call(relayer.role, token, input, 150_000, "a relayer's purse");
    if known == SandboxToken::Weth {
        orders.push(actors::ActorTransaction { value, ..call(Weth9::depositCall {}.abi_encode()) });
    } else {
        orders.push(call(OpenMint::mintCall { to, value }.abi_encode()));
    }
    true
}

/// Approves the settler for a relayer's token once; true if the transaction is pending.
fn allow(
    chain: &Chain,
    relayer: &Relayer,
    token: Address,
    settler: Address,
    approved: &mut OncePerToken,
    orders: &mut Vec<actors::ActorTransaction>,
) -> bool {
    if !approved.insert((chain.rules().chain_id, relayer.role, token)) {
        return false;
    }
    let call = Erc20::approveCall { spender: settler, value: U256::MAX }.abi_encode();
    orders.push(actors::ActorTransaction::call(relayer.role, token, call, 150_000, "a relayer's purse"));
    true
}

fn quoted(deployment: &Deployment, address: Address, prices: &AssetPrices) -> Option<PricedToken> {
    let found = deployment.tokens.iter().find(|(token, at)| **at == address && !token.is_bad());
    let plan = found.map(|(token, _)| token.plan())?;
    Some(PricedToken { price: prices.of(plan.asset), decimals: plan.decimals })
}

/// Value of an amount, in units far below a cent.
fn dollars(amount: U256, token: PricedToken) -> U512 {
    let scale = U512::from(10).pow(U512::from(36 - u32::from(token.decimals.min(36))));
    U512::from(amount) * U512::from(token.price) * scale
}
