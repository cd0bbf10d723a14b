//! The fillers, each with its own key, funds, margin, latency and failure rate. They fill orders from their own funds
//! through the reactor if the input is worth the output.
//!
//! The orders that a filler misses depend only on the seed and the order's sequence number. Order hashes depend on
//! salts and times, so they would make runs with the same seed differ.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, B256, U256, U512, keccak256};
use alloy::sol_types::{SolCall, SolValue};

use super::{BookEntry, ask};
use crate::actors::{self, ActorRole, Actors, TIP};
use crate::genesis::Deployment;
use crate::math::{PricedToken, amount_for};
use crate::plan::SandboxToken;
use crate::target::AssetPrices;
use bardo_abi::erc20::{Erc20, OpenMint, Weth9};
use bardo_abi::uniswapx::{Reactor, SignedOrder};
use bardo_base::text::SafeText;
use golem_chain::devnet::Chain;
use golem_protocols::uniswap::gateway::BestBid;
use golem_protocols::uniswap::order::{ResolutionPoint, UniswapXOrder};

/// Gas limit of a fill; a V2 Dutch fill takes about 150,000.
const FILL_GAS: u64 = 500_000;
/// Expected gas of a fill for the profit calculation.
const FILL_GAS_EXPECTED: u64 = 180_000;
/// Blocks after a sent fill before a filler tries the same order again.
const PATIENCE_BLOCKS: u64 = 4;
/// Maximum priority fee that a filler pays to win a Priority order, in wei per gas.
const HIGHEST_TIP: u128 = 200_000_000_000;
/// Maximum number of fills that a filler sends per block.
const MOST_FILLS: usize = 8;

/// Behaviour of a filler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filler {
    /// Role of the filler.
    pub role: ActorRole,
    /// Desired profit, in basis points of the amount it pays.
    pub margin_bps: u64,
    /// Blocks before it notices an order.
    pub latency: u64,
    /// Percentage of orders that it misses.
    pub overlooks: u64,
    /// Initial amount of each token, in dollars. When a token is used up, it fills no more orders for it.
    pub purse_dollars: u64,
}

/// All fillers: a steady one, a quick one with a high margin, and a slow one with a low margin and little funds.
pub const FILLERS: [Filler; 3] = [
    Filler { role: ActorRole::FirstFiller, margin_bps: 8, latency: 0, overlooks: 10, purse_dollars: 2_000_000 },
    Filler { role: ActorRole::SecondFiller, margin_bps: 15, latency: 0, overlooks: 30, purse_dollars: 500_000 },
    Filler { role: ActorRole::ThirdFiller, margin_bps: 3, latency: 3, overlooks: 50, purse_dollars: 4_000 },
];

/// Actions of the fillers that are not visible on the chain.
#[derive(Debug, Default)]
pub(super) struct FillerActions {
    /// Block for which a filler last sent a fill of an order.
    sent: BTreeMap<(ActorRole, B256), u64>,
    /// Tokens with which each filler has been funded.
    stocked: BTreeSet<(ActorRole, Address)>,
    /// Tokens that each filler has approved for each reactor.
    approved: BTreeSet<(ActorRole, Address, Address)>,
}

impl FillerActions {
    /// Marks all fillers as funded with a token.
    pub(super) fn set_stocked(&mut self, token: Address) {
        self.stocked.extend(FILLERS.iter().map(|filler| (filler.role, token)));
    }
}

/// Exclusive filler of an order.
pub(super) fn quickest(actors: &Actors, number: u64) -> Address {
    // Alternates between the two fillers without latency.
    let role = if number.is_multiple_of(2) { ActorRole::FirstFiller } else { ActorRole::SecondFiller };
    actors.address(role)
}

/// Creates the fillers' transactions for the next block.
pub(super) fn decide<'a>(
    seed: u64,
    chain: &Chain,
    deployment: &Deployment,
    actors: &Actors,
    prices: &AssetPrices,
    open: impl Iterator<Item = (&'a B256, &'a BookEntry)>,
    attempts: &mut FillerActions,
) -> Vec<actors::ActorTransaction> {
    let mut open: Vec<_> = open.collect();
    open.sort_by_key(|(_, entry)| entry.number);
    let mut orders = Vec::new();
    if open.is_empty() {
        return orders;
    }
    let market = MarketData { chain, deployment, actors, prices };
    for filler in FILLERS {
        let address = actors.address(filler.role);
        if chain.pending_nonce(address) > chain.state().nonce(address) {
            // An earlier transaction is not in a block yet.
            continue;
        }
        let mut spent: BTreeMap<Address, U256> = BTreeMap::new();
        let mut sent = 0;
        for (hash, entry) in &open {
            if sent == MOST_FILLS {
                break;
            }
            if !filler.is_visible(seed, **hash, entry, chain, attempts) {
                continue;
            }
            let Some(bid) = market.bid(&filler, address, &entry.order) else { continue };
            let reactor = entry.order.info().reactor;
            for (token, amount) in &bid.pays {
                market.prepare(&filler, *token, reactor, attempts, &mut orders);
                *spent.entry(*token).or_default() += *amount;
            }
            let affords = bid.pays.iter().all(|(token, _)| {
                let spent = spent.get(token).copied().unwrap_or_default();
                let has = ask(chain, *token, Erc20::balanceOfCall { owner: address });
                let lets = ask(chain, *token, Erc20::allowanceCall { owner: address, spender: reactor });
                has.is_some_and(|has| has >= spent) && lets.is_some_and(|lets| lets >= spent)
            });
            if affords {
                let signed = SignedOrder { order: entry.order.encode(), sig: entry.signature.clone() };
                let call = Reactor::executeCall { order: signed }.abi_encode();
                let fill = actors::ActorTransaction::call(filler.role, reactor, call, FILL_GAS, "filling an order");
                orders.push(actors::ActorTransaction { tip: bid.tip, ..fill });
                sent += 1;
                attempts.sent.insert((filler.role, **hash), chain.next_context().number);
            } else {
                for (token, amount) in &bid.pays {
                    if let Some(spent) = spent.get_mut(token) {
                        *spent -= *amount;
                    }
                }
            }
        }
    }
    orders
}

impl Filler {
    /// Returns true if the filler sees the order and is not waiting for an earlier fill of its own.
    fn is_visible(&self, seed: u64, hash: B256, entry: &BookEntry, chain: &Chain, attempts: &FillerActions) -> bool {
        let overlooked = self.overlooks_it(seed, chain.rules().chain_id, entry.number);
        let next = chain.next_context().number;
        let noticed = next > entry.posted_at + self.latency;
        let waits = attempts.sent.get(&(self.role, hash)).is_some_and(|sent| next < sent + PATIENCE_BLOCKS);
        !overlooked && noticed && !waits
    }

    fn overlooks_it(&self, seed: u64, chain_id: u64, number: u64) -> bool {
        let draw = keccak256([seed, self.purse_dollars, chain_id, number].map(U256::from).abi_encode());
        u64::from(draw.0[0]) * 100 / 256 < self.overlooks
    }
}

/// The highest first output that a filler who sees the order would deliver, which leaves it exactly its margin.
pub(super) fn best_bid(
    seed: u64,
    chain: &Chain,
    deployment: &Deployment,
    actors: &Actors,
    prices: &AssetPrices,
    entry: &BookEntry,
) -> Option<BestBid> {
    let order = &entry.order;
    let market = MarketData { chain, deployment, actors, prices };
    let token = order.bounds().least_out.first()?.token;
    let looking = FILLERS.iter().filter(|filler| !filler.overlooks_it(seed, chain.rules().chain_id, entry.number));
    let bids =
        looking.filter_map(|filler| Some((filler, market.most(filler, order.token_in(), order.most_in(), token)?)));
    let (filler, output) = bids.max_by_key(|(_, output)| *output)?;
    let name = SafeText::clean(filler.role.label(), 40);
    Some(BestBid { filler: actors.address(filler.role), name, output })
}

/// A filler's terms for an order.
struct FillerTerms {
    /// Output amounts by token.
    pays: Vec<(Address, U256)>,
    /// Priority fee of the fill, in wei per gas.
    tip: u128,
}

/// Public data for the fillers' decisions.
struct MarketData<'a> {
    chain: &'a Chain,
    deployment: &'a Deployment,
    actors: &'a Actors,
    prices: &'a AssetPrices,
}

impl MarketData<'_> {
    /// A filler's terms in the next block; `None` if the order does not pay enough.
    fn bid(&self, filler: &Filler, address: Address, order: &UniswapXOrder) -> Option<FillerTerms> {
        let mut tip = match order {
            // In a Priority order the fee is the bid, and improves the output from the first wei.
            UniswapXOrder::Priority(_) => 0,
            UniswapXOrder::Dutch(_) | UniswapXOrder::DutchV2(_) | UniswapXOrder::DutchV3(_) => TIP,
        };
        let mut resolved = order.resolve(&self.at(address, tip)).ok()?;
        if let UniswapXOrder::Priority(_) = order {
            // Binary search for the highest fee that leaves the margin.
            let (mut low, mut high) = (tip, HIGHEST_TIP);
            for _ in 0..48 {
                let middle = low + (high - low) / 2;
                let better = order.resolve(&self.at(address, middle)).ok();
                match better.filter(|better| self.leaves(filler, better, middle)) {
                    Some(better) => (low, tip, resolved) = (middle, middle, better),
                    None => high = middle,
                }
            }
        }
        if !self.leaves(filler, &resolved, tip) {
            return None;
        }
        let mut pays: BTreeMap<Address, U256> = BTreeMap::new();
        for output in &resolved.outputs {
            let sum = pays.entry(output.token).or_default();
            *sum = sum.checked_add(output.amount)?;
        }
        Some(FillerTerms { pays: pays.into_iter().collect(), tip })
    }

    fn at(&self, filler: Address, tip: u128) -> ResolutionPoint {
        let next = self.chain.next_context();
        ResolutionPoint {
            chain_id: self.chain.rules().chain_id,
            timestamp: next.timestamp,
            block: next.number,
            base_fee: next.base_fee.into(),
            priority_fee: tip,
            filler,
        }
    }

    /// Returns true if the input is worth the outputs, the gas and the filler's margin.
    fn leaves(&self, filler: &Filler, resolved: &golem_protocols::uniswap::order::ResolvedAmounts, tip: u128) -> bool {
        let Some(income) = self.dollars(resolved.token_in, resolved.amount_in) else { return false };
        let outgo = resolved.outputs.iter().map(|output| self.dollars(output.token, output.amount));
        let Some(outgo) = outgo.sum::<Option<U512>>() else { return false };
        let price = u128::from(self.chain.next_context().base_fee).saturating_add(tip);
        let wei = U256::from(price) * U256::from(FILL_GAS_EXPECTED);
        let Some(gas) = self.dollars(self.deployment.weth, wei) else { return false };
        income * U512::from(10_000) >= outgo * U512::from(10_000 + filler.margin_bps) + gas * U512::from(10_000)
    }

    /// Highest amount of `token_out` that leaves a filler its margin for `amount` of `token_in`.
    fn most(&self, filler: &Filler, token_in: Address, amount: U256, token_out: Address) -> Option<U256> {
        let income = self.dollars(token_in, amount)?;
        let price = u128::from(self.chain.next_context().base_fee).saturating_add(TIP);
        let gas = self.dollars(self.deployment.weth, U256::from(price) * U256::from(FILL_GAS_EXPECTED))?;
        let left = income.checked_sub(gas)? * U512::from(10_000) / U512::from(10_000 + filler.margin_bps);
        let one = self.dollars(token_out, U256::from(1))?;
        let most = left.checked_div(one)?;
        (most <= U512::from(U256::MAX)).then(|| U256::from(most))
    }

    /// Value of an amount, in units far below a cent; `None` for an unsupported token.
    fn dollars(&self, token: Address, amount: U256) -> Option<U512> {
        let quoted = self.quoted(token)?;
        let scale = U512::from(10).pow(U512::from(36 - u32::from(quoted.decimals.min(36))));
        Some(U512::from(amount) * U512::from(quoted.price) * scale)
    }

    fn quoted(&self, token: Address) -> Option<PricedToken> {
        let plan = self.token(token)?.plan();
        Some(PricedToken { price: self.prices.of(plan.asset), decimals: plan.decimals })
    }

    fn token(&self, address: Address) -> Option<SandboxToken> {
        let known = self.deployment.tokens.iter().find(|(token, at)| **at == address && !token.is_bad());
        known.map(|(token, _)| *token)
    }

    /// Funds the filler when a token is first needed, and approves the reactor.
    fn prepare(
        &self,
        filler: &Filler,
        token: Address,
        reactor: Address,
        attempts: &mut FillerActions,
        orders: &mut Vec<actors::ActorTransaction>,
    ) {
        let (Some(known), Some(quoted)) = (self.token(token), self.quoted(token)) else { return };
        let call = |input| actors::ActorTransaction::call(filler.role, token, input, 150_000, "a filler's purse");
        if attempts.stocked.insert((filler.role, token)) {
            let value = amount_for(filler.purse_dollars, quoted);
            if known == SandboxToken::Weth {
                orders.push(actors::ActorTransaction { value, ..call(Weth9::depositCall {}.abi_encode()) });
            } else {
                let to = self.actors.address(filler.role);
                orders.push(call(OpenMint::mintCall { to, value }.abi_encode()));
            }
        }
        if attempts.approved.insert((filler.role, token, reactor)) {
            orders.push(call(Erc20::approveCall { spender: reactor, value: U256::MAX }.abi_encode()));
        }
    }
}
