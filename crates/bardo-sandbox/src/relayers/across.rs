//! Deposits of Across's SpokePools on the devnet: the relayers fill them, and a stand-in for the data worker pays out of the
//! pools what is due by bundles, as on the public networks: the relayers for their fills, the depositors of what expired, and
//! the recipients of what no relayer filled and the pool was asked to pay itself (slow fills).
//!
//! Everything is read from the pools' own events, so that a restart continues where the chains are. A bundle has one leaf: the
//! payments of one token. On the public networks its root is proposed and can be disputed for hours first; here the treasury, which
//! owns the pools, brings it as a message of the messenger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use alloy::primitives::{Address, B256, U256, U512, keccak256};
use alloy::sol_types::{SolCall, SolEvent as _, SolValue};

use super::{
    AGAIN_BLOCKS, FILL_GAS, FailureKind, LastActed, OncePerToken, PATIENCE_BLOCKS, RELAYERS, RelayError, Relayer,
    Relayers, allow, dollars, quoted, stock,
};
use crate::actors::{ActorRole, ActorTransaction};
use crate::genesis::Deployment;
use crate::math::amount_for;
use crate::order_service::ask;
use crate::plan::SandboxToken;
use crate::target::AssetPrices;
use bardo_abi::across::{AcrossMessagedPool, AcrossRefundLeaf, AcrossRelay, AcrossSlowFill, AcrossSpokePool};
use bardo_abi::erc20::{Erc20, OpenMint};
use golem_chain::devnet::Chain;
use golem_protocols::across::event::{DepositEvent, FillEvent, RefundEvent, SlowFillRequest};
use golem_protocols::across::quote::{FeeQuote, FeeRequest};
use golem_protocols::across::{address_of, relay_hash};
use golem_protocols::intents::gateway::BidRequest;

/// Seconds after a fill deadline, by the destination's time, before its refund goes into a bundle.
const REFUND_AFTER: u64 = 20;
/// Most payments of one bundle.
const MOST_PAYMENTS: usize = 25;
/// Gas limits of a bundle's root and of its leaf.
const ROOT_GAS: u64 = 250_000;
const LEAF_GAS: u64 = 2_000_000;
/// Blocks after which a relayer asks for a slow fill of a deposit that nobody filled.
const SLOW_AFTER_BLOCKS: u64 = 24;
/// Gas limits of a request for a slow fill, of the pool's funding, and of a slow fill's leaf.
const SLOW_REQUEST_GAS: u64 = 150_000;
const FUND_GAS: u64 = 150_000;
const SLOW_LEAF_GAS: u64 = 400_000;
/// Part of a slow fill that the pool keeps, in basis points. A relayer's part goes to the depositor.
const POOL_FEE_BPS: u64 = 1;
/// Largest deposit that a quote names, in dollars.
const LARGEST_DOLLARS: u64 = 250_000;

/// A deposit by its origin and its id there.
type DepositKey = (u64, U256);

#[derive(Debug, Clone)]
struct SeenDeposit {
    relay: AcrossRelay,
    destination: u64,
    /// Number of deposits seen before it.
    number: u64,
    /// Height of the destination's next block when the relayers first saw it.
    noticed: Option<u64>,
}

/// Payment out of a pool: token, recipient, amount.
type Payment = (Address, Address, U256);

#[derive(Debug, Clone)]
struct Bundle {
    leaf: AcrossRefundLeaf,
    root: B256,
    /// Number that the pool gave it; `None` before its root is there.
    id: Option<u32>,
}

/// Payment of a slow fill under way on its destination.
#[derive(Debug, Clone)]
struct SlowBundle {
    deposit: DepositKey,
    leaf: AcrossSlowFill,
    root: B256,
    /// Number that the pool gave it; `None` before its root is there.
    id: Option<u32>,
}

/// Deposits, fills and payments by the pools' events so far.
#[derive(Debug, Default)]
pub(super) struct DepositBoard {
    /// Newest block that was read, by chain, with its time.
    seen: BTreeMap<u64, (u64, u64)>,
    deposits: BTreeMap<DepositKey, SeenDeposit>,
    fills: BTreeMap<DepositKey, Vec<FillEvent>>,
    /// Number of payments that bundles made, by chain.
    paid: BTreeMap<(u64, Payment), u64>,
    /// The bundle under way on a chain.
    bundles: BTreeMap<u64, Bundle>,
    /// Requests for slow fills, by deposit.
    slow_requests: BTreeMap<DepositKey, Vec<SlowFillRequest>>,
    /// The slow fill under way on a chain.
    slow_bundles: BTreeMap<u64, SlowBundle>,
    /// Deposits that were filled with less, each of them once.
    lied: BTreeSet<DepositKey>,
    sent: LastActed,
    stocked: OncePerToken,
    approved: OncePerToken,
}

impl DepositBoard {
    fn fill_of(&self, key: DepositKey, deposit: &SeenDeposit) -> Option<&FillEvent> {
        self.fills.get(&key)?.iter().find(|fill| fill.fills(&deposit.relay))
    }

    /// Reads the pool's events of new blocks. After a rollback, all of them are read again.
    fn read(&mut self, chain: &Chain, pool: Address) {
        let here = chain.rules().chain_id;
        let (mut seen, _) = self.seen.get(&here).copied().unwrap_or_default();
        if seen > chain.number() {
            self.forget(here);
            seen = 0;
        }
        for block in chain.blocks(seen + 1, chain.number()) {
            for log in block.receipts.iter().flat_map(|receipt| receipt.logs()).filter(|log| log.address == pool) {
                if let Some(event) = DepositEvent::decode(log, here) {
                    let number = u64::try_from(self.deposits.len()).unwrap_or(u64::MAX);
                    let Ok(destination) = u64::try_from(event.destination_chain_id) else { continue };
                    let key = (here, event.relay.depositId);
                    let deposit = SeenDeposit { relay: event.relay, destination, number, noticed: None };
                    self.deposits.entry(key).or_insert(deposit);
                } else if let Some(event) = FillEvent::decode(log) {
                    let Ok(origin) = u64::try_from(event.relay.originChainId) else { continue };
                    self.fills.entry((origin, event.relay.depositId)).or_default().push(event);
                } else if let Some(event) = SlowFillRequest::decode(log) {
                    let Ok(origin) = u64::try_from(event.relay.originChainId) else { continue };
                    self.slow_requests.entry((origin, event.relay.depositId)).or_default().push(event);
                } else if let Ok(event) = AcrossSpokePool::RelayedRootBundle::decode_log(log) {
                    let own = self.bundles.get_mut(&here).filter(|bundle| bundle.id.is_none());
                    if let Some(bundle) = own.filter(|bundle| bundle.root == event.relayerRefundRoot) {
                        bundle.id = Some(event.rootBundleId);
                    }
                    let slow = self.slow_bundles.get_mut(&here).filter(|bundle| bundle.id.is_none());
                    if let Some(bundle) = slow.filter(|bundle| bundle.root == event.slowRelayRoot) {
                        bundle.id = Some(event.rootBundleId);
                    }
                } else if let Some(event) = RefundEvent::decode(log) {
                    for (to, amount) in event.payments {
                        *self.paid.entry((here, (event.token, to, amount))).or_default() += 1;
                    }
                    self.bundles.remove(&here);
                }
            }
        }
        self.seen.insert(here, (chain.number(), chain.head().header.timestamp));
    }

    /// Forgets a chain's events, and the fills there of deposits elsewhere.
    fn forget(&mut self, here: u64) {
        let destinations: BTreeMap<DepositKey, u64> =
            self.deposits.iter().map(|(key, deposit)| (*key, deposit.destination)).collect();
        self.fills.retain(|key, _| destinations.get(key) != Some(&here));
        self.slow_requests.retain(|key, _| destinations.get(key) != Some(&here));
        self.slow_bundles.remove(&here);
        self.deposits.retain(|(origin, _), _| *origin != here);
        self.paid.retain(|(chain, _), _| *chain != here);
        self.lied.retain(|key| destinations.get(key) != Some(&here));
        self.bundles.remove(&here);
    }

    /// True if the destination's pool was asked to pay exactly this deposit itself.
    fn is_slow(&self, key: DepositKey, deposit: &SeenDeposit) -> bool {
        self.slow_requests.get(&key).is_some_and(|made| made.iter().any(|one| one.asks_for(&deposit.relay)))
    }

    /// True if a deposit can still be paid in a block with this time.
    fn is_open(&self, key: DepositKey, deposit: &SeenDeposit, time: u64) -> bool {
        u64::from(deposit.relay.fillDeadline) >= time && self.fill_of(key, deposit).is_none()
    }

    /// Payments that the pool of a chain owes and has not made, the oldest deposit first.
    fn due(&self, here: u64) -> Vec<Payment> {
        let mut own: Vec<_> = self.deposits.iter().filter(|((origin, _), _)| *origin == here).collect();
        own.sort_by_key(|(_, deposit)| deposit.number);
        let mut paid = self.paid.clone();
        let owed = own.into_iter().filter_map(|(key, deposit)| {
            let to = match self.fill_of(*key, deposit) {
                Some(fill) if fill.repayment_chain_id == U256::from(here) => fill.relayer,
                Some(_) => return None,
                None => {
                    let (_, time) = self.seen.get(&deposit.destination)?;
                    let over = *time > u64::from(deposit.relay.fillDeadline).saturating_add(REFUND_AFTER);
                    over.then_some(deposit.relay.depositor)?
                }
            };
            Some((address_of(deposit.relay.inputToken)?, address_of(to)?, deposit.relay.inputAmount))
        });
        owed.filter(|payment| match paid.get_mut(&(here, *payment)) {
            Some(times) if *times > 0 => {
                *times -= 1;
                false
            }
            Some(_) | None => true,
        })
        .collect()
    }
}

/// Root of a tree with this leaf alone, for which the proof is empty.
fn root_of(leaf: &AcrossRefundLeaf) -> B256 {
    keccak256(leaf.abi_encode())
}

impl Relayers {
    /// Quotes a deposit on the origin chain's thread: what even the dearest relayer would fill.
    ///
    /// # Errors
    /// [`RelayError`] for an unknown chain or pool, and if nobody would fill it.
    pub(super) fn suggest(
        &self,
        chain: &Chain,
        prices: &AssetPrices,
        request: &FeeRequest,
    ) -> Result<FeeQuote, RelayError> {
        for (chain_id, pool) in
            [(request.origin_chain_id, request.pool), (request.destination_chain_id, request.destination_pool)]
        {
            if self.contract(chain_id, "acrossSpokePool")? != pool {
                return Err(RelayError::Chain(chain_id));
            }
        }
        let asked = BidRequest {
            origin_chain_id: request.origin_chain_id,
            destination_chain_id: request.destination_chain_id,
            token_in: request.input_token,
            amount_in: request.amount,
            token_out: request.output_token,
        };
        let bids = self.quote(chain, prices, &asked)?;
        let slowest = bids.iter().map(|bid| bid.seconds).max().unwrap_or_default();
        let output_amount = bids.iter().map(|bid| bid.output).min().ok_or(RelayError::NoBid)?;
        let paid = quoted(self.deployment(request.origin_chain_id)?, request.input_token, prices);
        Ok(FeeQuote {
            output_amount,
            timestamp: u32::try_from(chain.head().header.timestamp).unwrap_or(u32::MAX),
            fill_seconds: slowest,
            least: Some(U256::from(1)),
            most: paid.map(|token| amount_for(LARGEST_DOLLARS, token)),
        })
    }

    /// Creates the transactions of relayers and data worker for this chain's next block.
    pub(super) fn act_on_deposits(&self, chain: &Chain, prices: &AssetPrices) -> Vec<ActorTransaction> {
        let here = chain.rules().chain_id;
        let Ok(pool) = self.contract(here, "acrossSpokePool") else { return Vec::new() };
        let mut board = self.deposits.lock();
        board.read(chain, pool);
        let mut orders = Vec::new();
        if !self.rest.load(Ordering::SeqCst) {
            self.fill(chain, prices, pool, &mut board, &mut orders);
        }
        self.pay(chain, pool, &mut board, &mut orders);
        self.pay_slowly(chain, pool, &mut board, &mut orders);
        orders
    }

    /// True if a party has no transaction waiting, and has not sent one for this purpose lately.
    fn may_send(&self, chain: &Chain, role: ActorRole, purpose: B256, sent: &mut LastActed) -> bool {
        let (key, next) = ((chain.rules().chain_id, role, purpose), chain.next_context().number);
        let address = self.actors.address(role);
        let busy = chain.pending_nonce(address) > chain.state().nonce(address);
        if busy || sent.get(&key).is_some_and(|block| next < block + AGAIN_BLOCKS) {
            return false;
        }
        sent.insert(key, next);
        true
    }

    /// Fills of the next block.
    fn fill(
        &self,
        chain: &Chain,
        prices: &AssetPrices,
        pool: Address,
        board: &mut DepositBoard,
        orders: &mut Vec<ActorTransaction>,
    ) {
        let (here, next) = (chain.rules().chain_id, chain.next_context());
        let open: Vec<DepositKey> = board
            .deposits
            .iter()
            .filter(|(key, deposit)| deposit.destination == here && board.is_open(**key, deposit, next.timestamp))
            .map(|(key, _)| *key)
            .collect();
        for key in open {
            let Some(deposit) = board.deposits.get_mut(&key) else { continue };
            let first_seen = *deposit.noticed.get_or_insert(next.number);
            let deposit = deposit.clone();
            let lies = self.lies.load(Ordering::SeqCst);
            if lies && board.lied.contains(&key) {
                continue;
            }
            let slow = self.slow.load(Ordering::SeqCst);
            if slow || !lies && next.number >= first_seen + SLOW_AFTER_BLOCKS {
                self.ask_slowly(chain, pool, (key, &deposit), board, orders);
            }
            if slow {
                continue;
            }
            for (place, relayer) in RELAYERS.iter().enumerate() {
                let turn = first_seen + relayer.latency + PATIENCE_BLOCKS * (place as u64);
                let fails = [FailureKind::Ignores, FailureKind::Forgets]
                    .iter()
                    .any(|kind| relayer.fails(self.seed, deposit.number, *kind));
                if next.number < turn || fails || !self.is_worth(&deposit, relayer, prices) {
                    continue;
                }
                let relay = match lies {
                    true => AcrossRelay {
                        outputAmount: deposit.relay.outputAmount / U256::from(2),
                        ..deposit.relay.clone()
                    },
                    false => deposit.relay.clone(),
                };
                if self.send_fill(chain, prices, (pool, key.0), relayer, relay, (&mut *board, &mut *orders)) {
                    if lies {
                        board.lied.insert(key);
                    }
                    break;
                }
            }
        }
    }

    /// True if a relayer keeps its margin on a deposit. Its gas was in the quote.
    fn is_worth(&self, deposit: &SeenDeposit, relayer: &Relayer, prices: &AssetPrices) -> bool {
        let priced = |chain_id: u64, token: B256| quoted(self.deployment(chain_id).ok()?, address_of(token)?, prices);
        let origin = u64::try_from(deposit.relay.originChainId).unwrap_or_default();
        let (Some(paid), Some(wanted)) =
            (priced(origin, deposit.relay.inputToken), priced(deposit.destination, deposit.relay.outputToken))
        else {
            return false;
        };
        let kept = U512::from(10_000_u64.saturating_sub(relayer.margin_bps));
        let own = deposit.relay.exclusiveRelayer.is_zero() && deposit.relay.message.is_empty();
        let income = dollars(deposit.relay.inputAmount, paid) * kept / U512::from(10_000);
        own && dollars(deposit.relay.outputAmount, wanted) <= income
    }

    /// Sends a relayer's fill, or first what it needs for it; true if it sends anything.
    fn send_fill(
        &self,
        chain: &Chain,
        prices: &AssetPrices,
        (pool, origin): (Address, u64),
        relayer: &Relayer,
        relay: AcrossRelay,
        (board, orders): (&mut DepositBoard, &mut Vec<ActorTransaction>),
    ) -> bool {
        let here = chain.rules().chain_id;
        let (Ok(deployment), Some(token)) = (self.deployment(here), address_of(relay.outputToken)) else {
            return false;
        };
        let address = self.actors.address(relayer.role);
        if chain.pending_nonce(address) > chain.state().nonce(address) {
            return false;
        }
        if stock(chain, deployment, prices, relayer, token, &mut board.stocked, orders, address)
            | allow(chain, relayer, token, pool, &mut board.approved, orders)
        {
            // The fill follows once the relayer is funded; until then there is none, true or false.
            return false;
        }
        let has = ask(chain, token, Erc20::balanceOfCall { owner: address });
        if has.is_none_or(|has| has < relay.outputAmount)
            || !self.may_send(chain, relayer.role, relay_hash(&relay, here), &mut board.sent)
        {
            return false;
        }
        let call = AcrossSpokePool::fillRelayCall {
            relayData: relay,
            repaymentChainId: U256::from(origin),
            repaymentAddress: address.into_word(),
        };
        orders.push(ActorTransaction::call(relayer.role, pool, call.abi_encode(), FILL_GAS, "filling a deposit"));
        true
    }

    /// Next step of the data worker on this chain.
    fn pay(&self, chain: &Chain, pool: Address, board: &mut DepositBoard, orders: &mut Vec<ActorTransaction>) {
        let here = chain.rules().chain_id;
        if !board.bundles.contains_key(&here) {
            let due = board.due(here);
            let Some((token, _, _)) = due.first().copied() else { return };
            let of_token = due.into_iter().filter(|(of, _, _)| *of == token).take(MOST_PAYMENTS);
            let (refund_addresses, refund_amounts) = of_token.map(|(_, to, amount)| (to, amount)).unzip();
            let leaf = AcrossRefundLeaf {
                amountToReturn: U256::ZERO,
                chainId: U256::from(here),
                refundAmounts: refund_amounts,
                leafId: 0,
                l2TokenAddress: token,
                refundAddresses: refund_addresses,
            };
            board.bundles.insert(here, Bundle { root: root_of(&leaf), leaf, id: None });
        }
        let Some(bundle) = board.bundles.get(&here).cloned() else { return };
        let (purpose, call, gas, step) = match bundle.id {
            None => {
                let root =
                    AcrossSpokePool::relayRootBundleCall { relayerRefundRoot: bundle.root, slowRelayRoot: B256::ZERO };
                let message = AcrossMessagedPool::onMessageReceivedCall {
                    originAddress: self.actors.address(ActorRole::Treasury),
                    originNetwork: 0,
                    data: root.abi_encode().into(),
                };
                (bundle.root, message.abi_encode(), ROOT_GAS, "bringing a bundle's root")
            }
            Some(id) => {
                let leaf = AcrossSpokePool::executeRelayerRefundLeafCall {
                    rootBundleId: id,
                    relayerRefundLeaf: bundle.leaf,
                    proof: Vec::new(),
                };
                (keccak256((bundle.root, id).abi_encode()), leaf.abi_encode(), LEAF_GAS, "paying a bundle's leaf")
            }
        };
        if self.may_send(chain, ActorRole::Messenger, purpose, &mut board.sent) {
            orders.push(ActorTransaction::call(ActorRole::Messenger, pool, call, gas, step));
        }
    }

    /// Amount that the pool of the destination pays for a deposit itself: all but its fee. `None` for a deposit that it does not pay:
    /// another token, one that nobody mints, one with conditions, or one that asks for more.
    fn slow_amount(&self, deposit: &SeenDeposit) -> Option<U256> {
        let relay = &deposit.relay;
        let origin = self.deployment(u64::try_from(relay.originChainId).ok()?).ok()?;
        let token = |deployment: &Deployment, word: B256| {
            let address = address_of(word)?;
            let found = deployment.tokens.iter().find(|(token, at)| **at == address && !token.is_bad());
            found.map(|(token, _)| *token).filter(|token| *token != SandboxToken::Weth)
        };
        let given = token(origin, relay.inputToken)?;
        let wanted = token(self.deployment(deposit.destination).ok()?, relay.outputToken)?;
        let fee = relay.inputAmount / U256::from(10_000 / POOL_FEE_BPS);
        let amount = relay.inputAmount.saturating_sub(fee);
        let own = relay.exclusiveRelayer.is_zero() && relay.message.is_empty();
        (own && given == wanted && amount >= relay.outputAmount).then_some(amount)
    }

    /// Asks the destination's pool to pay a deposit itself, once. The first relayer does, as anybody could.
    fn ask_slowly(
        &self,
        chain: &Chain,
        pool: Address,
        (key, deposit): (DepositKey, &SeenDeposit),
        board: &mut DepositBoard,
        orders: &mut Vec<ActorTransaction>,
    ) {
        if board.is_slow(key, deposit) || self.slow_amount(deposit).is_none() {
            return;
        }
        let (role, relay) = (ActorRole::FirstRelayer, deposit.relay.clone());
        let purpose = keccak256((relay_hash(&relay, deposit.destination), U256::from(1)).abi_encode());
        if self.may_send(chain, role, purpose, &mut board.sent) {
            let call = AcrossSpokePool::requestSlowFillCall { relayData: relay }.abi_encode();
            orders.push(ActorTransaction::call(role, pool, call, SLOW_REQUEST_GAS, "asking for a slow fill"));
        }
    }

    /// Next step of the data worker towards the slow fills that were asked for here: the pool gets the tokens, which the hub
    /// sends on the public networks, then the bundle's root, and the leaf pays.
    fn pay_slowly(&self, chain: &Chain, pool: Address, board: &mut DepositBoard, orders: &mut Vec<ActorTransaction>) {
        let (here, time) = (chain.rules().chain_id, chain.next_context().timestamp);
        let open = |board: &DepositBoard, key: DepositKey| {
            board.deposits.get(&key).is_some_and(|deposit| board.is_open(key, deposit, time))
        };
        if board.slow_bundles.get(&here).is_some_and(|bundle| !open(board, bundle.deposit)) {
            board.slow_bundles.remove(&here);
        }
        if !board.slow_bundles.contains_key(&here) {
            let mut asked: Vec<_> = board
                .deposits
                .iter()
                .filter(|(key, deposit)| {
                    deposit.destination == here && board.is_slow(**key, deposit) && open(board, **key)
                })
                .collect();
            asked.sort_by_key(|(_, deposit)| deposit.number);
            let next = asked.into_iter().find_map(|(key, deposit)| Some((*key, deposit, self.slow_amount(deposit)?)));
            let Some((deposit, seen, amount)) = next else { return };
            let leaf = AcrossSlowFill {
                relayData: seen.relay.clone(),
                chainId: U256::from(here),
                updatedOutputAmount: amount,
            };
            let root = keccak256(leaf.abi_encode());
            board.slow_bundles.insert(here, SlowBundle { deposit, leaf, root, id: None });
        }
        let Some(SlowBundle { leaf, root, id, .. }) = board.slow_bundles.get(&here).cloned() else { return };
        let Some(token) = address_of(leaf.relayData.outputToken) else { return };
        let amount = leaf.updatedOutputAmount;
        let has = ask(chain, token, Erc20::balanceOfCall { owner: pool }).unwrap_or_default();
        let (step, to, call, gas, words) = match id {
            _ if has < amount => {
                let call = OpenMint::mintCall { to: pool, value: amount }.abi_encode();
                (1, token, call, FUND_GAS, "funding a slow fill")
            }
            None => {
                let root = AcrossSpokePool::relayRootBundleCall { relayerRefundRoot: B256::ZERO, slowRelayRoot: root };
                let message = AcrossMessagedPool::onMessageReceivedCall {
                    originAddress: self.actors.address(ActorRole::Treasury),
                    originNetwork: 0,
                    data: root.abi_encode().into(),
                };
                (2, pool, message.abi_encode(), ROOT_GAS, "bringing a bundle's root")
            }
            Some(id) => {
                let call = AcrossSpokePool::executeSlowRelayLeafCall {
                    slowFillLeaf: leaf,
                    rootBundleId: id,
                    proof: Vec::new(),
                };
                (3, pool, call.abi_encode(), SLOW_LEAF_GAS, "paying a slow fill")
            }
        };
        let purpose = keccak256((root, U256::from(step)).abi_encode());
        if self.may_send(chain, ActorRole::Messenger, purpose, &mut board.sent) {
            orders.push(ActorTransaction::call(ActorRole::Messenger, to, call, gas, words));
        }
    }
}
