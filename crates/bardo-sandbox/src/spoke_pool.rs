//! Across's SpokePool on a devnet chain: the published contract behind a proxy, owned by the treasury, whose calls the messenger
//! brings as a bridge would.
//!
//! Not here: relayers and refunds (see `relayers`).

use alloy::primitives::{Address, B256};
use alloy::sol_types::{SolCall, SolValue};

use super::actors::ActorRole;
use super::block_builder::BlockBuilder;
use super::contracts::BundledContract;
use super::error::SandboxError;
use super::genesis::Deployment;
use bardo_abi::across::AcrossMessagedPool;

/// Largest age of a quote, in seconds, as on the public networks.
const QUOTE_TIME_BUFFER: u32 = 3_600;

/// Longest time until a fill deadline, in seconds, as on the public networks.
const FILL_DEADLINE_BUFFER: u32 = 21_600;

/// Deploys the pool and its proxy at addresses that depend on nothing deployed before. Returns the proxy's.
pub(super) fn open_spoke_pool(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
) -> Result<Address, SandboxError> {
    let [treasury, messenger] = [ActorRole::Treasury, ActorRole::Messenger].map(|role| builder.actors.address(role));
    let arguments = (deployment.weth, QUOTE_TIME_BUFFER, FILL_DEADLINE_BUFFER).abi_encode_params();
    let pool = builder.create2(BundledContract::SpokePool, &arguments, B256::ZERO)?;
    let begins = AcrossMessagedPool::initializeCall {
        bridge: messenger,
        initialDepositId: 0,
        crossDomainAdmin: treasury,
        withdrawalRecipient: treasury,
    };
    let arguments = (pool, alloy::primitives::Bytes::from(begins.abi_encode())).abi_encode_params();
    let proxy = builder.create2(BundledContract::ERC1967Proxy, &arguments, B256::ZERO)?;
    builder.seal()?;
    Ok(proxy)
}
