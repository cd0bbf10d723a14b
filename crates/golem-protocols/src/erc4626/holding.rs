//! Shares of vaults that an account holds, and what they pay out: the increase of the account's balance in a simulation that
//! redeems them. A share that pays nothing out is worth nothing, whatever its vault says.

use std::collections::BTreeSet;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::providers::DynProvider;

use super::call::VaultCall;
use bardo_abi::erc4626::Erc4626;
use bardo_base::text::SafeText;
use golem_chain::fork::{ExecutionStatus, Fork, ForkCall, ForkError, SimulationOptions, WatchList};
use golem_chain::multicall::{BatchResults, CallBatch, CallIndex};
use golem_chain::provider::ProviderError;

/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 200;

/// Gas limit of a simulated redemption.
const REDEEM_GAS: u64 = 8_000_000;

/// Error for vaults whose shares are not known.
#[derive(Debug, thiserror::Error)]
pub enum HoldingError {
    /// The chain does not answer.
    #[error(transparent)]
    Chain(#[from] ProviderError),
    /// The redemption could not be simulated.
    #[error(transparent)]
    Simulation(#[from] ForkError),
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
}

impl VaultHolding {
    /// Returns true if all of the shares can be redeemed.
    pub fn is_whole(&self) -> bool {
        self.pays.is_ok() && !self.is_partial
    }
}

/// Questions about an account's shares, in a batch of calls.
#[derive(Debug, Default)]
pub struct VaultQuestions(Vec<AskedVault>);

/// Questions about one vault.
#[derive(Debug)]
struct AskedVault {
    vault: Address,
    shares: CallIndex<Erc4626::balanceOfCall>,
    asset: CallIndex<Erc4626::assetCall>,
    decimals: CallIndex<Erc4626::decimalsCall>,
    most: CallIndex<Erc4626::maxRedeemCall>,
}

/// Answer of one vault, of which what the shares pay out is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldShares {
    vault: Address,
    shares: Option<U256>,
    asset: Option<Address>,
    decimals: Option<u8>,
    most: Option<U256>,
}

impl VaultQuestions {
    /// Adds the questions about these vaults to a batch.
    pub fn push(calls: &mut CallBatch, account: Address, vaults: &BTreeSet<Address>) -> Self {
        let asked = vaults.iter().map(|vault| AskedVault {
            vault: *vault,
            shares: calls.push(*vault, &Erc4626::balanceOfCall { owner: account }),
            asset: calls.push(*vault, &Erc4626::assetCall {}),
            decimals: calls.push(*vault, &Erc4626::decimalsCall {}),
            most: calls.push(*vault, &Erc4626::maxRedeemCall { owner: account }),
        });
        Self(asked.collect())
    }

    /// Answers of the vaults of which the account holds shares, and of those that do not tell. Vaults without code are left out.
    pub fn take(&self, answers: &BatchResults) -> Vec<HeldShares> {
        let answered = self.0.iter().filter(|asked| !asked.shares.is_void(answers)).map(|asked| HeldShares {
            vault: asked.vault,
            shares: asked.shares.take(answers),
            asset: asked.asset.take(answers),
            decimals: asked.decimals.take(answers),
            most: asked.most.take(answers),
        });
        answered.filter(|held| held.shares.is_none_or(|shares| !shares.is_zero())).collect()
    }
}

impl HeldShares {
    /// Simulates the redemption of all shares that the vault lets go on the block of `fork`.
    ///
    /// # Errors
    /// [`ForkError`] if nothing can be simulated.
    pub async fn redeemed(self, fork: &Fork, account: Address) -> Result<VaultHolding, ForkError> {
        let Self { vault, shares, asset, decimals, most } = self;
        let refused = |why: &str| Err(SafeText::clean(why, MAX_REASON));
        let holding = |pays, is_partial| VaultHolding {
            vault,
            asset: asset.unwrap_or_default(),
            shares: shares.unwrap_or_default(),
            decimals,
            pays,
            is_partial,
        };
        let (Some(held), Some(asset)) = (shares, asset) else {
            return Ok(holding(refused("the vault does not answer"), false));
        };
        // Without an answer there is no limit: the redemption itself decides.
        let redeemed = most.map_or(held, |most| most.min(held));
        if redeemed.is_zero() {
            return Ok(holding(refused("the vault lets nothing out now"), false));
        }
        let redeems = (vault, asset, account, redeemed);
        let pays = redeemed_after(fork, &[], &SimulationOptions::default(), redeems).await?;
        Ok(holding(pays, redeemed < held))
    }
}

/// Returns the shares of these vaults that `account` holds on the block that `fork` is pinned to. Vaults without code there, and
/// without shares, are left out; a vault that does not answer is a holding that pays nothing.
///
/// # Errors
/// [`HoldingError`] if the chain does not answer, or if nothing can be simulated.
pub async fn held(
    (provider, multicall): (&DynProvider, Address),
    fork: &Fork,
    account: Address,
    vaults: &BTreeSet<Address>,
) -> Result<Vec<VaultHolding>, HoldingError> {
    if vaults.is_empty() {
        return Ok(Vec::new());
    }
    let mut calls = CallBatch::default();
    let asked = VaultQuestions::push(&mut calls, account, vaults);
    let answers = calls.send(provider, multicall, BlockId::hash(fork.pinned().hash)).await?;
    let mut all = Vec::new();
    for held in asked.take(&answers) {
        all.push(held.redeemed(fork, account).await?);
    }
    Ok(all)
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
    let data = VaultCall::Redeem { shares }.calldata(account);
    let redeem = ForkCall::new(account, vault, data).with_gas_limit(REDEEM_GAS);
    let calls: Vec<ForkCall> = before.iter().cloned().chain([redeem]).collect();
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
