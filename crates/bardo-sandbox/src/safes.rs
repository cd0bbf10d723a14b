//! Safes of the devnet: the published contracts of Safe 1.4.1 by their own factories, a Safe of the first development
//! account, and one that needs the first and the second.
//!
//! Not here: how a Safe acts (see `bardo_safety::custody::safe`).

use alloy::primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use alloy::sol_types::{SolCall as _, SolValue as _};

use super::actors::{ActorRole, ActorTransaction};
use super::block_builder::{BlockBuilder, deployment_gas};
use super::contracts::{self, BundledContract};
use super::error::SandboxError;
use super::genesis::Deployment;
use super::keys::DevnetAccount;
use super::plan::SandboxToken;
use bardo_abi::erc20::OpenMint;
use bardo_abi::safe::{Safe, SafeProxyFactory};

/// USDC of each Safe at the start, in raw units: 10,000.
const USDC: u64 = 10_000_000_000;

/// Native tokens of each Safe at the start, in wei: 2.
const NATIVE: u64 = 2_000_000_000_000_000_000;

/// Safe of the devnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevnetSafe {
    /// Address of the Safe, the same on both chains.
    pub address: Address,
    /// Addresses of the owners.
    pub owners: Vec<Address>,
    /// Number of owners that must agree.
    pub threshold: u64,
    setup: Vec<u8>,
}

/// Returns the devnet's Safes: that of the first development account, and that of the first two with the threshold 2.
///
/// # Errors
/// A [`SandboxError`] if the accounts or the bundled contracts cannot be read.
pub fn devnet_safes() -> Result<Vec<DevnetSafe>, SandboxError> {
    let accounts: Vec<Address> = DevnetAccount::development_accounts()?.iter().map(DevnetAccount::address).collect();
    let of_first = |owners: u64| {
        let owners_of: Vec<Address> = (0..owners).zip(&accounts).map(|(_, account)| *account).collect();
        DevnetSafe::of(owners_of, owners)
    };
    [1, 2].into_iter().map(of_first).collect()
}

impl DevnetSafe {
    /// Returns the Safe of these owners with this threshold, as the factory would make it.
    ///
    /// # Errors
    /// A [`SandboxError`] if the bundled contracts cannot be read.
    pub fn of(owners: Vec<Address>, threshold: u64) -> Result<Self, SandboxError> {
        let setup = Safe::setupCall {
            _owners: owners.clone(),
            _threshold: U256::from(threshold),
            to: Address::ZERO,
            data: Bytes::new(),
            fallbackHandler: contracts::SAFE_HANDLER,
            paymentToken: Address::ZERO,
            payment: U256::ZERO,
            paymentReceiver: Address::ZERO,
        }
        .abi_encode();
        let salt = keccak256((keccak256(&setup), U256::ZERO).abi_encode_packed());
        let code = BundledContract::SafeProxy.creation(&contracts::SAFE.abi_encode())?;
        let address = contracts::SAFE_FACTORY.create2_from_code(salt, code);
        Ok(Self { address, owners, threshold, setup })
    }

    /// Returns the call of the factory that makes the Safe.
    pub fn creation(&self) -> SafeProxyFactory::createProxyWithNonceCall {
        SafeProxyFactory::createProxyWithNonceCall {
            _singleton: contracts::SAFE,
            initializer: self.setup.clone().into(),
            saltNonce: U256::ZERO,
        }
    }
}

/// Sends the deployment of Safe's contracts at their published addresses, and makes and funds the devnet's Safes. The next block
/// has it all: a block of its own would shift everything that the market does later.
pub(super) fn send_safes(builder: &mut BlockBuilder<'_>, deployment: &Deployment) -> Result<(), SandboxError> {
    for (contract, _) in published() {
        let code = contract.code()?;
        let input = [B256::ZERO.as_slice(), code.as_ref()].concat();
        let gas = deployment_gas(code.len());
        builder.call(ActorRole::Treasury, contracts::SAFE_SINGLETON_FACTORY, input, gas, contract.name())?;
    }
    let usdc = deployment.token(SandboxToken::Usdc)?;
    for safe in devnet_safes()? {
        let create = safe.creation();
        builder.call(ActorRole::Treasury, contracts::SAFE_FACTORY, create.abi_encode(), 500_000, "making a Safe")?;
        let mint = OpenMint::mintCall { to: safe.address, value: U256::from(USDC) };
        builder.call(ActorRole::Treasury, usdc, mint.abi_encode(), 100_000, "minting tokens for a Safe")?;
        builder.send(ActorTransaction {
            to: TxKind::Call(safe.address),
            value: U256::from(NATIVE),
            ..ActorTransaction::call(ActorRole::Treasury, safe.address, Vec::new(), 60_000, "funding a Safe")
        })?;
    }
    Ok(())
}

/// Checks that [`send_safes`] put everything at its address.
pub(super) fn check_safes(builder: &BlockBuilder<'_>) -> Result<(), SandboxError> {
    let safes = devnet_safes()?.into_iter().map(|safe| ("a Safe", safe.address));
    let contracts = published().into_iter().map(|(contract, address)| (contract.name(), address));
    for (name, address) in contracts.chain(safes) {
        if builder.chain.state().code(address).is_empty() {
            return Err(SandboxError::Missing { name, address });
        }
    }
    Ok(())
}

/// Contracts of Safe with their published addresses.
const fn published() -> [(BundledContract, Address); 3] {
    [
        (BundledContract::Safe, contracts::SAFE),
        (BundledContract::SafeProxyFactory, contracts::SAFE_FACTORY),
        (BundledContract::CompatibilityFallbackHandler, contracts::SAFE_HANDLER),
    ]
}
