//! An account's requests in a vault, as the vault answers for them, and their unwinding in a simulation.

use alloy::primitives::{Address, Bytes, FixedBytes, U256};
use alloy::sol_types::SolCall;

use crate::erc4626::call::VaultCall;
use crate::erc4626::holding::REDEEM_GAS;
use bardo_abi::erc4626::Erc4626;
use bardo_abi::erc7540::{Erc7540, LagoonVault};
use golem_chain::fork::{ExecutionStatus, Fork, ForkCall, ForkError, Simulation, SimulationOptions, WatchList};
use golem_chain::multicall::{BatchResults, CallBatch, CallIndex};

/// Interface id of asynchronous deposits (ERC-165).
const ASYNC_DEPOSIT: FixedBytes<4> = FixedBytes([0xce, 0x3b, 0xbe, 0x50]);
/// Interface id of asynchronous redemptions (ERC-165).
const ASYNC_REDEEM: FixedBytes<4> = FixedBytes([0x62, 0x0e, 0xe8, 0xe4]);

/// Actions of a vault that are requests, by its own answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asynchrony {
    /// True if deposits are requested.
    pub deposits: bool,
    /// True if redemptions are requested.
    pub redemptions: bool,
}

impl Asynchrony {
    /// Returns true if a call of this form is one that the vault knows.
    pub fn fits(&self, call: &VaultCall) -> bool {
        let requests = if call.concerns_deposits() { self.deposits } else { self.redemptions };
        requests == call.is_asynchronous()
    }
}

/// Questions about what of a vault is asynchronous, in a batch of calls.
#[derive(Debug)]
pub struct AsynchronyQuestions([CallIndex<Erc7540::supportsInterfaceCall>; 2]);

impl AsynchronyQuestions {
    /// Adds the questions to a batch.
    pub fn push(calls: &mut CallBatch, vault: Address) -> Self {
        let mut asks = |interface| calls.push(vault, &Erc7540::supportsInterfaceCall { interfaceId: interface });
        Self([asks(ASYNC_DEPOSIT), asks(ASYNC_REDEEM)])
    }

    /// Answer of the vault. One that does not answer, such as every vault before ERC-7540, is not asynchronous.
    pub fn take(&self, answers: &BatchResults) -> Asynchrony {
        let [deposits, redemptions] = &self.0;
        let yes = |asked: &CallIndex<Erc7540::supportsInterfaceCall>| asked.take(answers).unwrap_or_default();
        Asynchrony { deposits: yes(deposits), redemptions: yes(redemptions) }
    }
}

/// An account's requests, in raw units. A claimable one was settled and waits for the account alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    /// Tokens whose shares are not settled.
    pub pending_assets: U256,
    /// Tokens whose shares can be claimed.
    pub claimable_assets: U256,
    /// Shares whose tokens are not settled.
    pub pending_shares: U256,
    /// Shares whose tokens can be claimed.
    pub claimable_shares: U256,
}

impl Requests {
    /// Returns true without any request.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if something can be claimed.
    pub fn is_claimable(&self) -> bool {
        !self.claimable_assets.is_zero() || !self.claimable_shares.is_zero()
    }
}

/// Questions about an account's requests, in a batch of calls.
#[derive(Debug)]
pub struct RequestQuestions {
    pending_assets: CallIndex<Erc7540::pendingDepositRequestCall>,
    claimable_assets: CallIndex<Erc7540::claimableDepositRequestCall>,
    pending_shares: CallIndex<Erc7540::pendingRedeemRequestCall>,
    claimable_shares: CallIndex<Erc7540::claimableRedeemRequestCall>,
}

impl RequestQuestions {
    /// Adds the questions to a batch.
    pub fn push(calls: &mut CallBatch, vault: Address, account: Address) -> Self {
        // The last request of the account; Lagoon's vaults have one of each kind.
        let (id, of) = (U256::ZERO, account);
        Self {
            pending_assets: calls.push(vault, &Erc7540::pendingDepositRequestCall { requestId: id, controller: of }),
            claimable_assets: calls
                .push(vault, &Erc7540::claimableDepositRequestCall { requestId: id, controller: of }),
            pending_shares: calls.push(vault, &Erc7540::pendingRedeemRequestCall { requestId: id, controller: of }),
            claimable_shares: calls.push(vault, &Erc7540::claimableRedeemRequestCall { requestId: id, controller: of }),
        }
    }

    /// Answers of the vault; what it does not answer for is nothing.
    pub fn take(&self, answers: &BatchResults) -> Requests {
        Requests {
            pending_assets: self.pending_assets.take(answers).unwrap_or_default(),
            claimable_assets: self.claimable_assets.take(answers).unwrap_or_default(),
            pending_shares: self.pending_shares.take(answers).unwrap_or_default(),
            claimable_shares: self.claimable_shares.take(answers).unwrap_or_default(),
        }
    }
}

/// Accounts by which a vault is settled, and its last valuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlers {
    /// Account that states what the vault is worth.
    pub valuation_manager: Address,
    /// Account that settles, and holds what the vault is worth.
    pub safe: Address,
    /// Worth of the vault by its last valuation, in raw units of its token.
    pub total_assets: U256,
}

/// Questions about [`Settlers`], in a batch of calls.
#[derive(Debug)]
pub struct SettlerQuestions {
    roles: CallIndex<LagoonVault::getRolesStorageCall>,
    total: CallIndex<Erc4626::totalAssetsCall>,
}

impl SettlerQuestions {
    /// Adds the questions to a batch.
    pub fn push(calls: &mut CallBatch, vault: Address) -> Self {
        Self {
            roles: calls.push(vault, &LagoonVault::getRolesStorageCall {}),
            total: calls.push(vault, &Erc4626::totalAssetsCall {}),
        }
    }

    /// Answers of the vault; `None` for one without Lagoon's interface.
    pub fn take(&self, answers: &BatchResults) -> Option<Settlers> {
        let roles = self.roles.take(answers)?;
        let total_assets = self.total.take(answers)?;
        Some(Settlers { valuation_manager: roles.valuationManager, safe: roles.safe, total_assets })
    }
}

/// Calls that settle the requests to redeem at the vault's last valuation, by those who may.
fn settlement(settlers: &Settlers) -> [(Address, Bytes); 2] {
    let total = settlers.total_assets;
    [
        (
            settlers.valuation_manager,
            LagoonVault::updateNewTotalAssetsCall { newTotalAssets: total }.abi_encode().into(),
        ),
        (settlers.safe, LagoonVault::settleRedeemCall { newTotalAssets: total }.abi_encode().into()),
    ]
}

/// Result of unwinding everything in a vault in a simulation, in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwound {
    /// Tokens that came to the account.
    pub assets: U256,
    /// Shares of the account once what is settled was claimed, also those that wait for a settlement.
    pub shares: U256,
    /// True if every request could be cancelled or claimed, and every share redeemed.
    pub is_whole: bool,
}

/// Unwinds everything that an account has in an asynchronous vault on the block of `fork`: cancels its request to deposit, claims
/// what is settled, and redeems its shares in a settlement at the last valuation, which the simulation makes in the name of those
/// who may. It pays only what the vault's Safe holds now. A request to deposit that cannot be cancelled any more counts as
/// nothing: until it is settled nobody knows its shares, and nobody pays it back.
///
/// # Errors
/// [`ForkError`] if nothing can be simulated.
pub async fn unwound(
    fork: &Fork,
    (vault, asset, account): (Address, Address, Address),
    requests: &Requests,
    settlers: Option<&Settlers>,
) -> Result<Unwound, ForkError> {
    let call = |from: Address, data: Bytes| ForkCall::new(from, vault, data).with_gas_limit(REDEEM_GAS);
    let own = |form: VaultCall| call(account, form.calldata(account));
    let watch = WatchList { tokens: vec![asset, vault], owners: vec![account], ..WatchList::default() };
    let options = SimulationOptions { watch, ..SimulationOptions::default() };
    let balance = ForkCall::new(account, vault, Erc4626::balanceOfCall { owner: account }.abi_encode());
    let mut first = Vec::new();
    if !requests.pending_assets.is_zero() {
        first.push(own(VaultCall::CancelDeposit));
    }
    if !requests.claimable_assets.is_zero() {
        first.push(own(VaultCall::ClaimShares { assets: requests.claimable_assets }));
    }
    if !requests.claimable_shares.is_zero() {
        first.push(own(VaultCall::ClaimAssets { shares: requests.claimable_shares }));
    }
    let claims = first.len();
    let asked: Vec<ForkCall> = first.iter().cloned().chain([balance]).collect();
    let simulation = fork.simulate_with(&asked, &options).await?;
    let works = |status: &ExecutionStatus| *status == ExecutionStatus::Success;
    let claimed = simulation.outcomes.iter().take(claims).all(|outcome| works(&outcome.status));
    let held = simulation.outcomes.get(claims).filter(|outcome| works(&outcome.status));
    let held = held.and_then(|outcome| Erc4626::balanceOfCall::abi_decode_returns_validate(&outcome.output).ok());
    let held = held.unwrap_or_default();
    let gained = |simulation: &Simulation| {
        let change = simulation.changes.balance(asset, account);
        change.map_or(U256::ZERO, |change| change.after.saturating_sub(change.before))
    };
    let shares = held.saturating_add(requests.pending_shares);
    let without = Unwound { assets: gained(&simulation), shares, is_whole: claimed && shares.is_zero() };
    let Some(settlers) = settlers.filter(|_| !shares.is_zero()) else { return Ok(without) };
    // Where a valuation has reached the request that stands, another one has to wait for it.
    let attempts = [(held, shares), (U256::ZERO, requests.pending_shares)];
    for (requested, redeemed) in attempts.into_iter().filter(|(_, redeemed)| !redeemed.is_zero()) {
        let mut calls = first.clone();
        if !requested.is_zero() {
            calls.push(own(VaultCall::RequestRedeem { shares: requested }));
        }
        calls.extend(settlement(settlers).map(|(from, data)| call(from, data)));
        calls.push(own(VaultCall::ClaimAssets { shares: redeemed }));
        let simulation = fork.simulate_with(&calls, &options).await?;
        let all = simulation.outcomes.len() == calls.len();
        let redeems = simulation.outcomes.iter().skip(claims).all(|outcome| works(&outcome.status));
        if all && redeems {
            let is_whole = claimed && redeemed == shares;
            return Ok(Unwound { assets: gained(&simulation), shares, is_whole });
        }
    }
    Ok(without)
}
