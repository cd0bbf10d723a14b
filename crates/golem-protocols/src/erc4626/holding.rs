//! Shares of vaults that an account holds, and what they pay out: the increase of the account's balance in a simulation that
//! redeems them. A share that pays nothing out is worth nothing, whatever its vault says.
//!
//! Of a vault whose Safe is the account itself, the account also holds what belongs to the depositors. That is owed: the last
//! valuation, and the interest that the supply of the vault's token to the lending market may have earned since. Any vault can
//! say that the account is its Safe, and owe what it likes: where the address book has a factory, only of its vaults that counts,
//! and where it has none, what such a vault says proves no loss.

use std::collections::{BTreeMap, BTreeSet};

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256, U512};
use alloy::providers::DynProvider;

use super::call::VaultCall;
use crate::aave::math::RAY;
use crate::erc7540::requests::{
    Asynchrony, AsynchronyQuestions, RequestQuestions, Requests, SettlerQuestions, Settlers, Unwound, unwound,
};
use bardo_abi::aave::{AaveBalance, AavePool};
use bardo_abi::erc4626::Erc4626;
use bardo_abi::erc7540::LagoonFactory;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::text::SafeText;
use golem_chain::fork::{ExecutionStatus, Fork, ForkCall, ForkError, SimulationOptions, WatchList};
use golem_chain::multicall::{BatchResults, CallBatch, CallIndex};
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::provider::ProviderError;

/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 200;

/// Gas limit of a simulated redemption.
pub(crate) const REDEEM_GAS: u64 = 8_000_000;

/// Distance of the past block whose share price is compared, in blocks: most endpoints have the state of the last 128.
pub const PAST_BLOCKS: u64 = 100;

/// Number of shares whose price is read, in raw units.
const SAMPLE: u64 = 1_000_000_000_000_000_000;

/// Rise of the price since the past block up to which more is believed, in basis points. Earnings of 100 blocks are a fraction
/// of it.
const BELIEVED_RISE: u32 = 100;

/// Part of the price below which a payment says nothing of what the shares are worth, in basis points: a fee on withdrawals is
/// far smaller.
const FAR_BELOW: u32 = 1_000;

/// Error for vaults whose shares are not known.
#[derive(Debug, thiserror::Error)]
pub enum HoldingError {
    /// The chain does not answer.
    #[error(transparent)]
    Chain(#[from] ProviderError),
    /// The redemption could not be simulated.
    #[error(transparent)]
    Simulation(#[from] ForkError),
    /// The lending market does not answer for what the account supplied of a managed vault's token.
    #[error("the lending market does not report the supply of {0}, the token of a vault that the account manages")]
    Supply(Address),
}

impl From<HoldingError> for ToolError {
    fn from(error: HoldingError) -> Self {
        match error {
            HoldingError::Chain(error) => error.into(),
            HoldingError::Simulation(error) => error.into(),
            HoldingError::Supply(_) => Self::new(ErrorCode::ChainInconsistent, error),
        }
    }
}

/// Endpoint and contracts by which holdings are read.
#[derive(Debug, Clone, Copy)]
pub struct HoldingSources<'a> {
    provider: &'a DynProvider,
    multicall: Address,
    /// Lending market; `None` for a network without one.
    pool: Option<Address>,
    /// Factory of asynchronous vaults; `None` for a network without one.
    factory: Option<Address>,
}

impl<'a> HoldingSources<'a> {
    /// Sources of a network; `None` if its address book lacks Multicall3.
    pub fn of(provider: &'a DynProvider, book: &AddressBook) -> Option<Self> {
        let multicall = book.contract(KnownContract::Multicall3)?;
        let (pool, factory) = (book.contract(KnownContract::AavePool), book.contract(KnownContract::AsyncVaultFactory));
        Some(Self { provider, multicall, pool, factory })
    }
}

/// Shares of one vault that an account holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultHolding {
    /// Address of the vault, and of its shares.
    pub vault: Address,
    /// Token that the vault holds, by its own answer; the zero address without one.
    pub asset: Address,
    /// Shares in raw units; zero for a vault that does not answer.
    pub shares: U256,
    /// Decimals of the shares, by the vault's own answer.
    pub decimals: Option<u8>,
    /// Payment for redeeming them, in raw units of the token; the reason if they cannot be redeemed.
    pub pays: Result<U256, SafeText>,
    /// True if the vault lets go of a part of them only; [`Self::pays`] is for that part.
    pub is_partial: bool,
    /// Worth of the redeemed part by the higher of the vault's present and past price, in raw units of the token.
    pub worth: U256,
    /// Requests that wait in an asynchronous vault; `None` for any other. What they pay is in [`Self::pays`].
    pub requests: Option<Requests>,
    /// Tokens that the account holds for the vault as its Safe, in raw units: what of its wallet and supplies is not its own.
    /// Zero unless the account is the Safe.
    pub owed: U256,
    /// True if nothing but the vault itself says that the account is its Safe.
    pub only_claims: bool,
}

impl VaultHolding {
    /// Returns true if all of the shares can be redeemed for about what they are worth, and nothing is owed by the vault's own
    /// word alone.
    pub fn is_whole(&self) -> bool {
        self.pays.is_ok() && !self.is_partial && !self.is_short() && !self.only_claims
    }

    /// Returns true if the redemption pays far less than the shares are worth: the vault cheats, or its price was moved.
    pub fn is_short(&self) -> bool {
        self.pays.as_ref().is_ok_and(|pays| lacks(*pays, self.worth, FAR_BELOW))
    }
}

/// Returns true if `amount` is less than `worth` without this many basis points.
pub fn lacks(amount: U256, worth: U256, points: u32) -> bool {
    U512::from(amount) * U512::from(10_000) < U512::from(worth) * U512::from(10_000_u32.saturating_sub(points))
}

/// Price of a vault's shares by its own answers, now and [`PAST_BLOCKS`] blocks ago; `None` where there is no answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharePrice {
    /// Worth of [`SAMPLE`] shares now, in raw units of the token.
    pub now: Option<U256>,
    /// The same in the past. A vault that changes its price at once does not change this.
    pub past: Option<U256>,
}

impl SharePrice {
    /// Worth of these shares by the higher price, in raw units of the token; zero without a price.
    pub fn worth(&self, shares: U256) -> U256 {
        of_sample(self.now.max(self.past).unwrap_or_default(), shares)
    }

    /// Most that these shares count for, in raw units of the token: by the lower price, where the past one may have risen
    /// by 1 %. A vault can tell a simulation from a transaction, and pay more in it.
    fn most(&self, shares: U256) -> U256 {
        let now = self.now.map(|now| of_sample(now, shares));
        let past = self.past.map(|past| of_sample(past, shares)).map(|past| {
            let risen = U512::from(past) * U512::from(10_000 + BELIEVED_RISE);
            (risen / U512::from(10_000)).saturating_to()
        });
        now.into_iter().chain(past).min().unwrap_or_default()
    }
}

/// Worth of `shares` at the price of [`SAMPLE`] shares, rounded up by a unit, so that the vault's own rounding takes nothing.
fn of_sample(price: U256, shares: U256) -> U256 {
    let whole: U256 = (U512::from(price) * U512::from(shares) / U512::from(SAMPLE)).saturating_to();
    if price.is_zero() { whole } else { whole.saturating_add(U256::ONE) }
}

/// Question about the price of a vault's shares.
pub fn ask_price(calls: &mut CallBatch, vault: Address) -> CallIndex<Erc4626::convertToAssetsCall> {
    calls.push(vault, &Erc4626::convertToAssetsCall { shares: U256::from(SAMPLE) })
}

/// Prices of these vaults' shares [`PAST_BLOCKS`] blocks before block `number`. Without a block so far back, or without its
/// state, nothing is known of the past.
pub async fn past_prices(
    (provider, multicall): (&DynProvider, Address),
    vaults: impl IntoIterator<Item = Address>,
    number: u64,
) -> BTreeMap<Address, U256> {
    let Some(past) = number.checked_sub(PAST_BLOCKS) else { return BTreeMap::new() };
    let mut calls = CallBatch::default();
    let asked: Vec<_> = vaults.into_iter().map(|vault| (vault, ask_price(&mut calls, vault))).collect();
    let Ok(answers) = calls.send(provider, multicall, BlockId::number(past)).await else { return BTreeMap::new() };
    asked.into_iter().filter_map(|(vault, price)| Some((vault, price.take(&answers)?))).collect()
}

/// Questions about an account's shares, in a batch of calls.
#[derive(Debug, Default)]
pub struct VaultQuestions {
    account: Address,
    asked: Vec<AskedVault>,
}

/// Questions about one vault.
#[derive(Debug)]
struct AskedVault {
    vault: Address,
    shares: CallIndex<Erc4626::balanceOfCall>,
    asset: CallIndex<Erc4626::assetCall>,
    decimals: CallIndex<Erc4626::decimalsCall>,
    most: CallIndex<Erc4626::maxRedeemCall>,
    price: CallIndex<Erc4626::convertToAssetsCall>,
    asynchrony: AsynchronyQuestions,
    requests: RequestQuestions,
    settlers: SettlerQuestions,
    /// `None` without a factory.
    made: Option<CallIndex<LagoonFactory::isInstanceCall>>,
}

/// Tokens that an account holds for the depositors of a vault that it manages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepositorsTokens {
    /// Token of the vault.
    pub asset: Address,
    /// Vault whose Safe the account is.
    pub vault: Address,
    /// Last valuation, in raw units of the token.
    pub owed: U256,
}

/// Answer of one vault, of which what the shares pay out is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldShares {
    vault: Address,
    shares: Option<U256>,
    asset: Option<Address>,
    decimals: Option<u8>,
    most: Option<U256>,
    price: Option<U256>,
    asynchrony: Asynchrony,
    requests: Requests,
    settlers: Option<Settlers>,
    /// True if the address book's factory made the vault; `None` without a factory.
    made: Option<bool>,
}

impl VaultQuestions {
    /// Adds the questions about these vaults to a batch. The factory of the address book knows which vaults it made.
    pub fn push(
        calls: &mut CallBatch,
        (account, factory): (Address, Option<Address>),
        vaults: &BTreeSet<Address>,
    ) -> Self {
        let asked = vaults.iter().map(|vault| AskedVault {
            vault: *vault,
            shares: calls.push(*vault, &Erc4626::balanceOfCall { owner: account }),
            asset: calls.push(*vault, &Erc4626::assetCall {}),
            decimals: calls.push(*vault, &Erc4626::decimalsCall {}),
            most: calls.push(*vault, &Erc4626::maxRedeemCall { owner: account }),
            price: ask_price(calls, *vault),
            asynchrony: AsynchronyQuestions::push(calls, *vault),
            requests: RequestQuestions::push(calls, *vault, account),
            settlers: SettlerQuestions::push(calls, *vault),
            made: factory.map(|factory| calls.push(factory, &LagoonFactory::isInstanceCall { vault: *vault })),
        });
        Self { account, asked: asked.collect() }
    }

    /// Answers of the vaults of which the account holds shares, has requests or is the Safe, and of those that do not tell. Vaults without code
    /// are left out.
    pub fn take(&self, answers: &BatchResults) -> Vec<HeldShares> {
        let answered = self.asked.iter().filter(|asked| !asked.shares.is_void(answers)).map(|asked| HeldShares {
            vault: asked.vault,
            shares: asked.shares.take(answers),
            asset: asked.asset.take(answers),
            decimals: asked.decimals.take(answers),
            most: asked.most.take(answers),
            price: asked.price.take(answers),
            asynchrony: asked.asynchrony.take(answers),
            requests: asked.requests.take(answers),
            settlers: asked.settlers.take(answers),
            made: asked.made.as_ref().map(|made| made.take(answers) == Some(true)),
        });
        let has = |held: &HeldShares| {
            held.shares.is_none_or(|shares| !shares.is_zero()) || held.has_requests() || held.names_safe(self.account)
        };
        answered.filter(has).collect()
    }
}

impl HeldShares {
    fn has_requests(&self) -> bool {
        self.asynchrony != Asynchrony::default() && !self.requests.is_empty()
    }

    /// Returns true for a vault that says that its Safe is the account.
    fn names_safe(&self, account: Address) -> bool {
        self.settlers.is_some_and(|settlers| settlers.safe == account)
    }

    /// Returns true for a vault whose Safe is the account, as far as that can be known: a vault that the factory did not make may
    /// say anything.
    fn is_managed_by(&self, account: Address) -> bool {
        self.names_safe(account) && self.made != Some(false)
    }

    /// Returns true if nothing but the vault itself says that its Safe is the account.
    fn only_claims(&self, account: Address) -> bool {
        self.names_safe(account) && self.made != Some(true)
    }

    /// Token of a vault whose Safe is the account by the word of its factory, and its last valuation, which belongs to the
    /// depositors; `None` for any other vault, and for one that owes nothing.
    pub fn held_for_others(&self, account: Address) -> Option<DepositorsTokens> {
        let owed = self.owed(account);
        let owes = !self.only_claims(account) && !owed.is_zero();
        self.asset.filter(|_| owes).map(|asset| DepositorsTokens { asset, vault: self.vault, owed })
    }

    /// Last valuation of a vault whose Safe is the account; zero for any other.
    fn owed(&self, account: Address) -> U256 {
        self.settlers.filter(|_| self.is_managed_by(account)).map_or(U256::ZERO, |settlers| settlers.total_assets)
    }

    /// Simulates the redemption of all shares that the vault lets go on the block of `fork`. `past` is the past price of its
    /// shares: see [`SharePrice`].
    ///
    /// # Errors
    /// [`ForkError`] if nothing can be simulated.
    async fn redeemed(self, fork: &Fork, account: Address, past: Option<U256>) -> Result<VaultHolding, ForkError> {
        if self.asynchrony != Asynchrony::default() {
            // On the heap: it is rare, and large.
            return Box::pin(self.unwound(fork, account, past)).await;
        }
        let (owed, only_claims) = (self.owed(account), self.only_claims(account));
        let Self { vault, shares, asset, decimals, most, price, .. } = self;
        let price = SharePrice { now: price, past };
        let refused = |why: &str| Err(SafeText::clean(why, MAX_REASON));
        let holding = |pays, is_partial, worth| VaultHolding {
            vault,
            asset: asset.unwrap_or_default(),
            shares: shares.unwrap_or_default(),
            decimals,
            pays,
            is_partial,
            worth,
            requests: None,
            owed,
            only_claims,
        };
        let (Some(held), Some(asset), Some(_)) = (shares, asset, price.now) else {
            return Ok(holding(refused("the vault does not answer"), false, U256::ZERO));
        };
        // Without an answer there is no limit: the redemption itself decides.
        let redeemed = most.map_or(held, |most| most.min(held));
        if redeemed.is_zero() {
            return Ok(holding(refused("the vault lets nothing out now"), false, U256::ZERO));
        }
        let redeems = (vault, asset, account, redeemed);
        let worth = price.worth(redeemed);
        let pays = redeemed_after(fork, &[], &SimulationOptions::default(), redeems).await?;
        let pays = match pays {
            // A vault that queues withdrawals pays later, and one that cheats never.
            Ok(pays) if pays.is_zero() && worth > U256::ONE => refused("it pays nothing"),
            pays => pays.map(|pays| pays.min(price.most(redeemed))),
        };
        Ok(holding(pays, redeemed < held, worth))
    }

    /// Simulates the unwinding of everything in an asynchronous vault: see [`unwound`].
    async fn unwound(self, fork: &Fork, account: Address, past: Option<U256>) -> Result<VaultHolding, ForkError> {
        let (owed, only_claims) = (self.owed(account), self.only_claims(account));
        let is_own = self.names_safe(account);
        let Self { vault, shares, asset, decimals, price, requests, settlers, .. } = self;
        let price = SharePrice { now: price, past };
        let holding = |pays, is_partial, worth| VaultHolding {
            vault,
            asset: asset.unwrap_or_default(),
            shares: shares.unwrap_or_default(),
            decimals,
            pays,
            is_partial,
            worth,
            requests: Some(requests),
            owed,
            only_claims,
        };
        let (Some(_), Some(asset), Some(_)) = (shares, asset, price.now) else {
            let why = SafeText::clean("the vault does not answer", MAX_REASON);
            return Ok(holding(Err(why), false, U256::ZERO));
        };
        // The Safe's own shares are paid by itself, which a simulation shows as nothing.
        let settlers = settlers.filter(|_| !is_own);
        let Unwound { assets, shares, is_whole } =
            unwound(fork, (vault, asset, account), &requests, settlers.as_ref()).await?;
        let all = shares.saturating_add(requests.claimable_shares);
        // Without shares, not even the unit by which a price is rounded up.
        let worth = if all.is_zero() { U256::ZERO } else { price.worth(all) }.saturating_add(requests.pending_assets);
        // A vault can tell a simulation from a transaction, and pay more in it than its shares and the request are worth.
        let pays = assets.min(price.most(all).saturating_add(requests.pending_assets));
        // They are a part of what is owed, and never more than that.
        let own = if is_own && !shares.is_zero() { price.most(shares).min(owed) } else { U256::ZERO };
        let pays = pays.saturating_add(own);
        let pays = match pays {
            pays if pays.is_zero() && worth > U256::ONE => {
                Err(SafeText::clean("it pays nothing back before its manager settles", MAX_REASON))
            }
            pays => Ok(pays),
        };
        Ok(holding(pays, !is_whole, worth))
    }
}

/// Simulates the redemption of all of these shares on the block of `fork`, one vault after the other.
///
/// # Errors
/// [`HoldingError`] if nothing can be simulated, or the lending market does not answer for a managed vault.
pub async fn redeemed(
    sources: HoldingSources<'_>,
    fork: &Fork,
    account: Address,
    held: Vec<HeldShares>,
) -> Result<Vec<VaultHolding>, HoldingError> {
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let chain = (sources.provider, sources.multicall);
    let past = past_prices(chain, held.iter().map(|one| one.vault), fork.pinned().number).await;
    let managed = held.iter().filter(|one| one.is_managed_by(account)).filter_map(|one| one.asset);
    let mut interest = interest(sources, account, managed.collect(), BlockId::hash(fork.pinned().hash)).await?;
    let mut all = Vec::with_capacity(held.len());
    for shares in held {
        let past = past.get(&shares.vault).copied();
        let is_managed = shares.is_managed_by(account);
        let mut holding = shares.redeemed(fork, account, past).await?;
        // One supply serves all vaults of a token, and counts once.
        if is_managed && let Some(earned) = interest.remove(&holding.asset) {
            holding.owed = holding.owed.saturating_add(earned);
        }
        all.push(holding);
    }
    Ok(all)
}

/// Most interest that the account's supplies of these tokens can contain at a block, in raw units. What was supplied at the lowest
/// index, a ray, has earned the most; later principal counts as interest in part, so that no depositor's earnings are missing.
async fn interest(
    sources: HoldingSources<'_>,
    account: Address,
    assets: BTreeSet<Address>,
    block: BlockId,
) -> Result<BTreeMap<Address, U256>, HoldingError> {
    let Some(pool) = sources.pool.filter(|_| !assets.is_empty()) else { return Ok(BTreeMap::new()) };
    let mut calls = CallBatch::default();
    let asked = assets.into_iter().map(|asset| {
        let reserve = calls.push(pool, &AavePool::getReserveDataCall { asset });
        (asset, reserve, calls.push(pool, &AavePool::getReserveNormalizedIncomeCall { asset }))
    });
    let asked: Vec<_> = asked.collect();
    let answers = calls.send(sources.provider, sources.multicall, block).await?;
    let mut calls = CallBatch::default();
    let mut supplies = Vec::new();
    for (asset, reserve, index) in asked {
        let receipt = reserve.take(&answers).ok_or(HoldingError::Supply(asset))?.aTokenAddress;
        // A token that the market does not take.
        if receipt.is_zero() {
            continue;
        }
        let index = index.take(&answers).ok_or(HoldingError::Supply(asset))?;
        supplies.push((asset, index, calls.push(receipt, &AaveBalance::balanceOfCall { user: account })));
    }
    let answers = calls.send(sources.provider, sources.multicall, block).await?;
    let of = |(asset, index, supplied): (Address, U256, CallIndex<AaveBalance::balanceOfCall>)| {
        let supplied = supplied.take(&answers).ok_or(HoldingError::Supply(asset))?;
        Ok((asset, earned_at_most(supplied, index)))
    };
    supplies.into_iter().map(of).collect()
}

/// Most interest that a supply can contain at this index, rounded up.
pub fn earned_at_most(supplied: U256, index: U256) -> U256 {
    if index <= RAY {
        return U256::ZERO;
    }
    let principal: U256 = (U512::from(supplied) * U512::from(RAY) / U512::from(index)).saturating_to();
    supplied.saturating_sub(principal)
}

/// Returns the shares of these vaults that `account` holds on the block that `fork` is pinned to. Vaults without code there, and
/// without shares, are left out; a vault that does not answer is a holding that pays nothing.
///
/// # Errors
/// [`HoldingError`] if the chain does not answer, or if nothing can be simulated.
pub async fn held(
    sources: HoldingSources<'_>,
    fork: &Fork,
    account: Address,
    vaults: &BTreeSet<Address>,
) -> Result<Vec<VaultHolding>, HoldingError> {
    if vaults.is_empty() {
        return Ok(Vec::new());
    }
    let mut calls = CallBatch::default();
    let asked = VaultQuestions::push(&mut calls, (account, sources.factory), vaults);
    let answers = calls.send(sources.provider, sources.multicall, BlockId::hash(fork.pinned().hash)).await?;
    redeemed(sources, fork, account, asked.take(&answers)).await
}

/// Increase of the account's balance of `asset`, in raw units, if it redeems `shares` of `vault` after the calls; the reason
/// if the vault refuses, or if one of the calls fails.
///
/// # Errors
/// [`ForkError`] if nothing can be simulated.
pub async fn redeemed_after(
    fork: &Fork,
    before: &[ForkCall],
    options: &SimulationOptions,
    (vault, asset, account, shares): (Address, Address, Address, U256),
) -> Result<Result<U256, SafeText>, ForkError> {
    Box::pin(brought_after(fork, before, options, (vault, asset, account), VaultCall::Redeem { shares })).await
}

/// The same if it cancels its request to deposit instead.
///
/// # Errors
/// [`ForkError`] if nothing can be simulated.
pub async fn cancelled_after(
    fork: &Fork,
    before: &[ForkCall],
    options: &SimulationOptions,
    (vault, asset, account): (Address, Address, Address),
) -> Result<Result<U256, SafeText>, ForkError> {
    Box::pin(brought_after(fork, before, options, (vault, asset, account), VaultCall::CancelDeposit)).await
}

async fn brought_after(
    fork: &Fork,
    before: &[ForkCall],
    options: &SimulationOptions,
    (vault, asset, account): (Address, Address, Address),
    form: VaultCall,
) -> Result<Result<U256, SafeText>, ForkError> {
    let last = ForkCall::new(account, vault, form.calldata(account)).with_gas_limit(REDEEM_GAS);
    let calls: Vec<ForkCall> = before.iter().cloned().chain([last]).collect();
    let watch = WatchList { tokens: vec![asset, vault], owners: vec![account], ..WatchList::default() };
    let options = SimulationOptions { watch, ..options.clone() };
    let simulation = fork.simulate_with(&calls, &options).await?;
    let reason = |why: &dyn std::fmt::Display| Err(SafeText::clean(&why.to_string(), MAX_REASON));
    if simulation.outcomes.len() != calls.len() {
        return Ok(reason(&"the simulation ended before it"));
    }
    for outcome in &simulation.outcomes {
        match &outcome.status {
            ExecutionStatus::Success => {}
            ExecutionStatus::Reverted(why) => return Ok(reason(why)),
            ExecutionStatus::Halted(why) => return Ok(reason(why)),
        }
    }
    let change = simulation.changes_of(before.len()).and_then(|changes| changes.balance(asset, account));
    // Without an entry, nothing came.
    let gained = change.map_or(U256::ZERO, |change| change.after.saturating_sub(change.before));
    Ok(Ok(gained))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 1_000_000_000_000_000_000;

    /// By hand, at a price of 2 units of the token per share, before at 1: 500 shares are worth 1,000 and a unit of rounding, and
    /// count for no more than 500 and 1 % of it, and a unit of rounding in the price before.
    #[test]
    fn shares_count_for_the_lower_price_and_are_worth_the_higher() {
        let price = SharePrice { now: Some(U256::from(2 * UNIT)), past: Some(U256::from(UNIT)) };
        let shares = U256::from(500);
        assert_eq!((price.worth(shares), price.most(shares)), (U256::from(1_001), U256::from(506)));
        let fallen = SharePrice { now: price.past, past: price.now };
        assert_eq!((fallen.worth(shares), fallen.most(shares)), (U256::from(1_001), U256::from(501)));
        let young = SharePrice { past: None, ..price };
        assert_eq!((young.worth(shares), young.most(shares)), (U256::from(1_001), U256::from(1_001)));
        assert_eq!((SharePrice::default().worth(shares), SharePrice::default().most(shares)), (U256::ZERO, U256::ZERO));
        // A price beyond all bounds wraps round to nothing small.
        let huge = SharePrice { now: Some(U256::MAX), past: None };
        assert_eq!(huge.worth(U256::MAX), U256::MAX);
    }

    #[test]
    fn a_payment_far_below_the_price_is_short() {
        let paid = |pays: u64, worth: u64| VaultHolding {
            vault: Address::ZERO,
            asset: Address::ZERO,
            shares: U256::from(1),
            decimals: Some(6),
            pays: Ok(U256::from(pays)),
            is_partial: false,
            worth: U256::from(worth),
            requests: None,
            owed: U256::ZERO,
            only_claims: false,
        };
        for (pays, worth, is_whole) in
            [(1_000, 1_000, true), (900, 1_000, true), (899, 1_000, false), (0, 0, true), (1, 3_000, false)]
        {
            assert_eq!(paid(pays, worth).is_whole(), is_whole, "{pays} of {worth}");
        }
        assert!(!lacks(U256::from(96), U256::from(100), 400) && lacks(U256::from(95), U256::from(100), 400));
        assert!(!VaultHolding { only_claims: true, ..paid(1_000, 1_000) }.is_whole());
    }

    /// A vault may name anybody as its Safe. What it says is owed counts if the factory made it; without a factory it counts and
    /// proves no loss.
    #[test]
    fn what_is_owed_rests_on_the_factory() {
        let me = Address::repeat_byte(1);
        let (valuation_manager, total_assets) = (Address::repeat_byte(2), U256::from(900));
        let of = |safe, made| {
            let settlers = Some(Settlers { valuation_manager, safe, total_assets });
            let (vault, shares, asset) = (Address::repeat_byte(3), Some(U256::ZERO), Some(Address::repeat_byte(5)));
            let (asynchrony, requests) = (Asynchrony::default(), Requests::default());
            let (decimals, most, price) = (None, None, None);
            let held = HeldShares { vault, shares, asset, decimals, most, price, asynchrony, requests, settlers, made };
            assert_eq!(held.held_for_others(me).is_some(), safe == me && made == Some(true), "{held:?}");
            (held.owed(me), held.only_claims(me))
        };
        assert_eq!(of(me, Some(true)), (total_assets, false));
        assert_eq!(of(me, Some(false)), (U256::ZERO, true));
        assert_eq!(of(me, None), (total_assets, true));
        for made in [Some(true), Some(false), None] {
            assert_eq!(of(Address::repeat_byte(4), made), (U256::ZERO, false), "somebody else's");
        }
    }
}
