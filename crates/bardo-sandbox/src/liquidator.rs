//! The liquidator of the lending market: repays debts whose health factor has fallen below one, through the pool's own
//! `liquidationCall`, and keeps the collateral with its bonus. It reads borrowers from the pool's events.
//!
//! The blocks that it needs to notice a debt depend on the seed and the borrower alone. It has nothing until it first acts:
//! the faucet gives it ether and what it repays with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy::primitives::{Address, U256, U512, keccak256};
use alloy::sol_types::{SolCall, SolEvent as _, SolValue};
use parking_lot::Mutex;

use super::actors::{ActorRole, ActorTransaction, Actors};
use super::faucet::{self, FaucetAsset};
use super::genesis::Deployment;
use super::order_service::ask;
use super::plan::{LENDING, SandboxToken};
use bardo_abi::aave::{AaveBalance, AavePool};
use bardo_abi::erc20::Erc20;
use golem_chain::devnet::Chain;

/// Health factor below which the pool lets a debt be liquidated.
const ONE: U256 = alloy::primitives::uint!(1_000_000_000_000_000_000_U256);

/// Blocks after a sent liquidation before the same borrower is tried again.
const PATIENCE_BLOCKS: u64 = 3;

/// Most blocks that it needs to notice a debt, beyond the one that makes it liquidable.
const SLOWEST_BLOCKS: u64 = 1;

/// Gas limit of a liquidation; one takes about 450,000.
const LIQUIDATION_GAS: u64 = 1_200_000;

/// Ether that the faucet gives it once.
const ETHER: U256 = alloy::primitives::uint!(100_000_000_000_000_000_000_U256);

/// Least debt that is worth the gas of its liquidation, in the market's base currency: fifty dollars.
const LEAST_DEBT: u64 = 5_000_000_000;

/// Liquidator of one chain. Clones share their state.
#[derive(Debug, Clone)]
pub(super) struct Liquidator {
    seed: u64,
    deployment: Arc<Deployment>,
    actors: Actors,
    known: Arc<Mutex<KnownDebts>>,
}

/// Borrowers and liquidations so far.
#[derive(Debug, Default)]
struct KnownDebts {
    /// Newest block whose events were read.
    seen: u64,
    borrowers: BTreeSet<Address>,
    /// Block in which a debt was first seen to be liquidable.
    noticed: BTreeMap<Address, u64>,
    /// Block for which a liquidation was last sent.
    sent: BTreeMap<Address, u64>,
}

/// One reserve of a borrower.
struct Exposure {
    token: SandboxToken,
    asset: Address,
    /// Value of the collateral, in the market's base currency.
    secured: U256,
    debt: U256,
    /// Value of the debt.
    owed: U256,
}

impl Liquidator {
    pub(super) fn new(seed: u64, deployment: Arc<Deployment>, actors: Actors) -> Self {
        Self { seed, deployment, actors, known: Arc::default() }
    }

    /// Creates its transactions for the next block.
    pub(super) fn orders(&self, chain: &Chain) -> Vec<ActorTransaction> {
        let Some(pool) = self.deployment.contracts.get("aavePool").copied() else { return Vec::new() };
        let mut known = self.known.lock();
        self.follow(chain, pool, &mut known);
        let next = chain.next_context().number;
        let mut orders = Vec::new();
        for user in known.borrowers.clone() {
            let health = ask(chain, pool, AavePool::getUserAccountDataCall { user }).map(|sums| sums.healthFactor);
            if health.is_none_or(|health| health >= ONE) {
                known.noticed.remove(&user);
                continue;
            }
            let noticed = *known.noticed.entry(user).or_insert(next);
            let waits = known.sent.get(&user).is_some_and(|sent| next < sent + PATIENCE_BLOCKS);
            if waits || next < noticed.saturating_add(self.slowness(user)) {
                continue;
            }
            let (found, is_sent) = self.liquidate(chain, pool, user);
            orders.extend(found);
            if is_sent {
                known.sent.insert(user, next);
            }
        }
        orders
    }

    /// Reads the borrowers from new blocks. The treasury, which opened the market, is left alone.
    fn follow(&self, chain: &Chain, pool: Address, known: &mut KnownDebts) {
        // After a rollback, borrowers of blocks that no longer exist owe nothing, and are asked in vain.
        known.seen = known.seen.min(chain.number());
        let treasury = self.actors.address(ActorRole::Treasury);
        for block in chain.blocks(known.seen + 1, chain.number()) {
            for log in block.receipts.iter().flat_map(|receipt| receipt.logs()).filter(|log| log.address == pool) {
                let Ok(borrowed) = AavePool::Borrow::decode_log(log) else { continue };
                if borrowed.onBehalfOf != treasury {
                    known.borrowers.insert(borrowed.onBehalfOf);
                }
            }
        }
        known.seen = chain.number();
    }

    /// Blocks that it needs to notice a borrower's debt.
    fn slowness(&self, user: Address) -> u64 {
        let draw = keccak256((U256::from(self.seed), user).abi_encode());
        u64::from(draw.0[0]) % (SLOWEST_BLOCKS + 1)
    }

    /// Transactions that liquidate the largest debt of a borrower for the largest collateral, as much as the pool lets it
    /// repay; and whether the liquidation is among them, or only what it needs beforehand.
    fn liquidate(&self, chain: &Chain, pool: Address, user: Address) -> (Vec<ActorTransaction>, bool) {
        let own = self.actors.address(ActorRole::Liquidator);
        let exposures = self.exposures(chain, pool, user);
        let collateral = exposures.iter().max_by_key(|one| one.secured).filter(|one| !one.secured.is_zero());
        let debt = exposures.iter().max_by_key(|one| one.owed);
        let debt = debt.filter(|one| one.owed >= U256::from(LEAST_DEBT));
        let (Some(collateral), Some(debt)) = (collateral, debt) else { return (Vec::new(), false) };
        let held = ask(chain, debt.asset, Erc20::balanceOfCall { owner: own }).unwrap_or_default();
        let mut gifts = Vec::new();
        if chain.state().balance(own).is_zero() {
            gifts.extend(faucet::orders(&self.deployment, own, FaucetAsset::Ether(ETHER)).unwrap_or_default());
        }
        if held < debt.debt {
            // Room for the interest until its block.
            let gift = FaucetAsset::Token(debt.token, debt.debt.saturating_mul(U256::from(2)));
            gifts.extend(faucet::orders(&self.deployment, own, gift).unwrap_or_default());
        }
        if !gifts.is_empty() {
            return (gifts, false);
        }
        let call = |to, input, gas, step| ActorTransaction::call(ActorRole::Liquidator, to, input, gas, step);
        let mut orders = Vec::new();
        let allowed = ask(chain, debt.asset, Erc20::allowanceCall { owner: own, spender: pool }).unwrap_or_default();
        if allowed < debt.debt {
            let approve = Erc20::approveCall { spender: pool, value: U256::MAX }.abi_encode();
            orders.push(call(debt.asset, approve, 100_000, "a liquidator's allowance for the lending pool"));
        }
        let liquidation = AavePool::liquidationCallCall {
            collateralAsset: collateral.asset,
            debtAsset: debt.asset,
            user,
            debtToCover: U256::MAX,
            receiveAToken: false,
        };
        orders.push(call(pool, liquidation.abi_encode(), LIQUIDATION_GAS, "liquidating a debt"));
        (orders, true)
    }

    /// Collateral and debts of a borrower, by the pool's own bits and balances and the oracle's prices.
    fn exposures(&self, chain: &Chain, pool: Address, user: Address) -> Vec<Exposure> {
        let Some(bits) = ask(chain, pool, AavePool::getUserConfigurationCall { user }) else { return Vec::new() };
        let oracle = self.deployment.contracts.get("aaveOracle").copied().unwrap_or_default();
        let found = LENDING.iter().filter_map(|reserve| {
            let asset = *self.deployment.tokens.get(&reserve.token)?;
            let data = ask(chain, pool, AavePool::getReserveDataCall { asset })?;
            let price = ask(chain, oracle, bardo_abi::aave::AaveOracle::getAssetPriceCall { asset })?;
            let balance = |token| ask(chain, token, AaveBalance::balanceOfCall { user });
            let secures = bits.bit(usize::from(data.id).saturating_mul(2).saturating_add(1));
            let supplied = balance(data.aTokenAddress)?;
            let debt = balance(data.variableDebtTokenAddress)?;
            let unit = U512::from(10).pow(U512::from(reserve.token.plan().decimals));
            let value = |amount: U256| U256::from(U512::from(amount) * U512::from(price) / unit);
            let secured = if secures { value(supplied) } else { U256::ZERO };
            Some(Exposure { token: reserve.token, asset, secured, debt, owed: value(debt) })
        });
        found.collect()
    }
}
