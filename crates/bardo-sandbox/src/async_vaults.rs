//! The devnet's asynchronous vaults, of our own contract to Lagoon's interface, and their manager: one vault that the manager
//! settles, one with a small cap that it settles too, one that it has forgotten, in which a resident's request is stuck, and one
//! that is paused. The manager is the vaults' owner, valuation manager and Safe in one.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::{SolCall, SolValue};

use super::actors::{ActorRole, ActorTransaction};
use super::block_builder::BlockBuilder;
use super::contracts::BundledContract;
use super::error::SandboxError;
use super::genesis::Deployment;
use super::order_service::ask;
use super::plan::{ASYNC_VAULTS, AsyncVaultKind, AsyncVaultSetup};
use bardo_abi::erc20::{Erc20, OpenMint};
use bardo_abi::erc4626::Erc4626;
use bardo_abi::erc7540::{Erc7540, LagoonInit, LagoonVault};
use golem_chain::devnet::Chain;

/// Number of the blocks in which the manager looks at its vaults: every fifth one.
const SETTLES_EVERY: u64 = 5;

/// Gas limit of a manager's call.
const GAS: u64 = 400_000;

/// Deploys the factory and the vaults, and fills each. Returns their addresses by their keys in the address book.
pub(super) fn open_async_vaults(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
) -> Result<BTreeMap<&'static str, Address>, SandboxError> {
    let factory = builder.create2(BundledContract::AsyncVaultFactory, &[], B256::ZERO)?;
    let mut made = BTreeMap::from([("asyncVaultFactory", factory)]);
    for setup in ASYNC_VAULTS {
        made.insert(setup.kind.key(), open(builder, deployment, setup)?);
    }
    Ok(made)
}

/// Deploys one vault; the treasury's deposit is settled and claimed, and then the vault earns.
fn open(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
    setup: &AsyncVaultSetup,
) -> Result<Address, SandboxError> {
    let asset = deployment.token(setup.token)?;
    let treasury = builder.actors.address(ActorRole::Treasury);
    let manager = builder.actors.address(ActorRole::VaultManager);
    let resident_address = builder.actors.address(ActorRole::FirstTrader);
    let unit = U256::from(10).pow(U256::from(setup.token.plan().decimals));
    let whole = |tokens: u64| U256::from(tokens).saturating_mul(unit);
    let init = LagoonInit {
        underlying: asset,
        name: setup.name.to_owned(),
        symbol: setup.symbol.to_owned(),
        safe: manager,
        whitelistManager: manager,
        valuationManager: manager,
        admin: manager,
        feeReceiver: manager,
        managementRate: 0,
        performanceRate: 0,
        enableWhitelist: false,
        rateUpdateCooldown: U256::ZERO,
    };
    let vault = builder.create2(BundledContract::AsyncVault, &(init,).abi_encode_params(), B256::ZERO)?;
    builder.seal()?;
    let allow = |value| Erc20::approveCall { spender: vault, value }.abi_encode();
    let claim = |assets| Erc7540::depositCall { assets, receiver: treasury, controller: treasury }.abi_encode();
    let values = |worth| LagoonVault::updateNewTotalAssetsCall { newTotalAssets: worth }.abi_encode();
    let settles = |worth| LagoonVault::settleDepositCall { newTotalAssets: worth }.abi_encode();
    let (deposited, worth) = (whole(setup.deposited), whole(setup.deposited.saturating_add(setup.earned)));
    let mut call = |role, to, input, step| {
        builder.call(role, to, input, GAS, step)?;
        // One after the other: each step needs the state that the last one left.
        builder.seal()
    };
    let (owner, settler) = (ActorRole::Treasury, ActorRole::VaultManager);
    call(settler, asset, allow(U256::MAX), "a vault manager's allowance for its vault")?;
    request(&mut call, owner, treasury, (asset, vault), deposited)?;
    call(settler, vault, values(U256::ZERO), "valuing an asynchronous vault")?;
    call(settler, vault, settles(U256::ZERO), "settling an asynchronous vault")?;
    call(owner, vault, claim(deposited), "claiming shares")?;
    let earns = OpenMint::mintCall { to: manager, value: whole(setup.earned) }.abi_encode();
    call(owner, asset, earns, "earning for an asynchronous vault")?;
    call(settler, vault, values(worth), "valuing an asynchronous vault")?;
    call(settler, vault, settles(worth), "settling an asynchronous vault")?;
    match setup.kind {
        AsyncVaultKind::Open => {}
        AsyncVaultKind::Capped { room } => {
            let cap = LagoonVault::updateMaxCapCall { maxCap: worth.saturating_add(whole(room)) };
            call(settler, vault, cap.abi_encode(), "capping an asynchronous vault")?;
        }
        AsyncVaultKind::Stuck { requested } => {
            // Valued and never settled: the request can neither be claimed nor cancelled.
            let (resident, asked) = (ActorRole::FirstTrader, whole(requested));
            request(&mut call, resident, resident_address, (asset, vault), asked)?;
            call(settler, vault, values(worth), "valuing an asynchronous vault")?;
        }
        AsyncVaultKind::Paused => {
            call(settler, vault, LagoonVault::pauseCall {}.abi_encode(), "pausing an asynchronous vault")?;
        }
    }
    Ok(vault)
}

/// Mints tokens to an actor and requests a deposit of them.
fn request(
    call: &mut impl FnMut(ActorRole, Address, Vec<u8>, &'static str) -> Result<(), SandboxError>,
    role: ActorRole,
    account: Address,
    (asset, vault): (Address, Address),
    assets: U256,
) -> Result<(), SandboxError> {
    let mint = OpenMint::mintCall { to: account, value: assets }.abi_encode();
    let allow = Erc20::approveCall { spender: vault, value: assets }.abi_encode();
    let asks = Erc7540::requestDepositCall { assets, controller: account, owner: account }.abi_encode();
    call(role, asset, mint, "minting for an asynchronous vault")?;
    call(role, asset, allow, "allowing an asynchronous vault")?;
    call(role, vault, asks, "requesting a deposit")
}

/// Manager of one chain's asynchronous vaults. Clones share nothing but the deployment.
#[derive(Debug, Clone)]
pub(super) struct VaultManager {
    deployment: Arc<Deployment>,
}

impl VaultManager {
    pub(super) fn new(deployment: Arc<Deployment>) -> Self {
        Self { deployment }
    }

    /// Creates its transactions for the next block: it values and settles each of its vaults that has requests, at what the vault
    /// was worth before.
    pub(super) fn orders(&self, chain: &Chain) -> Vec<ActorTransaction> {
        if !chain.next_context().number.is_multiple_of(SETTLES_EVERY) {
            return Vec::new();
        }
        let settled = ASYNC_VAULTS.iter().filter(|setup| setup.kind.is_settled());
        let vaults = settled.filter_map(|setup| {
            let vault = *self.deployment.contracts.get(setup.kind.key())?;
            Some((vault, *self.deployment.tokens.get(&setup.token)?))
        });
        vaults.flat_map(|(vault, asset)| Self::settle(chain, vault, asset).unwrap_or_default()).collect()
    }

    /// Transactions that settle a vault; `None` if nothing is requested there.
    fn settle(chain: &Chain, vault: Address, asset: Address) -> Option<Vec<ActorTransaction>> {
        // Requests wait in the first contract that the vault made.
        let waits = Erc20::balanceOfCall { owner: vault.create(1) };
        let requested =
            [asset, vault].iter().any(|token| ask(chain, *token, waits.clone()).is_some_and(|sum| !sum.is_zero()));
        let total = ask(chain, vault, Erc4626::totalAssetsCall {}).filter(|_| requested)?;
        let call = |input, step| ActorTransaction::call(ActorRole::VaultManager, vault, input, GAS, step);
        Some(vec![
            call(LagoonVault::updateNewTotalAssetsCall { newTotalAssets: total }.abi_encode(), "valuing a vault"),
            call(LagoonVault::settleDepositCall { newTotalAssets: total }.abi_encode(), "settling a vault"),
        ])
    }
}
