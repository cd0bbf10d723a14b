//! The devnet's vault: OpenZeppelin's ERC-4626, with a deposit of the treasury and earnings, so that a share is worth more
//! than one token.
//!
//! Not here: its token and amounts (see `plan`).

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::{SolCall, SolValue};

use super::actors::ActorRole;
use super::block_builder::BlockBuilder;
use super::contracts::BundledContract;
use super::error::SandboxError;
use super::genesis::Deployment;
use super::plan::VAULT;
use bardo_abi::erc20::{Erc20, OpenMint};
use bardo_abi::erc4626::Erc4626;

/// Deploys the vault, deposits to it, and lets it earn. Returns its address.
pub(super) fn open_vault(builder: &mut BlockBuilder<'_>, deployment: &Deployment) -> Result<Address, SandboxError> {
    let asset = deployment.token(VAULT.token)?;
    let treasury = builder.actors.address(ActorRole::Treasury);
    let unit = U256::from(10).pow(U256::from(VAULT.token.plan().decimals));
    let whole = |tokens: u64| U256::from(tokens).saturating_mul(unit);
    let arguments = (asset, VAULT.name.to_owned(), VAULT.symbol.to_owned()).abi_encode_params();
    let vault = builder.create2(BundledContract::PlainVault, &arguments, B256::ZERO)?;
    let (assets, earned) = (whole(VAULT.deposited), whole(VAULT.earned));
    let mint = |to, value| OpenMint::mintCall { to, value }.abi_encode();
    let approve = Erc20::approveCall { spender: vault, value: assets }.abi_encode();
    let deposit = Erc4626::depositCall { assets, receiver: treasury }.abi_encode();
    for (to, input, gas, step) in [
        (asset, mint(treasury, assets), 120_000, "minting the vault's deposit"),
        (asset, approve, 80_000, "allowing the vault's deposit"),
        (vault, deposit, 200_000, "depositing to the vault"),
    ] {
        builder.call(ActorRole::Treasury, to, input, gas, step)?;
    }
    builder.seal()?;
    builder.call(ActorRole::Treasury, asset, mint(vault, earned), 120_000, "earning for the vault")?;
    builder.seal()?;
    Ok(vault)
}
