//! The devnet's protocol fees, in contracts of our own to the interfaces that Uniswap published: the jar, the contract that
//! releases it for burnt UNI, and the adapter that owns the V3 factory and collects into the jar. The market fills it: of some V3
//! pools a fourth of the fees is the protocol's.
//!
//! Not here: the pools and the price of a release (see `plan`).

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::{SolCall, SolValue};

use super::actors::ActorRole;
use super::block_builder::BlockBuilder;
use super::contracts::BundledContract;
use super::error::SandboxError;
use super::genesis::Deployment;
use super::plan::{BURN_THRESHOLD, PROTOCOL_FEE_POOLS, SandboxToken};
use bardo_abi::protocol_fees::{TokenJar, V3FeeAdapter};
use bardo_abi::uniswap_v3::UniswapV3Factory;

/// A fourth of both tokens' fees, as `V3FeeAdapter.overridePoolFee` takes it.
const A_FOURTH: u8 = 0x44;

/// Deploys the contracts, makes the adapter the factory's owner, and sets the fees. Returns the addresses by key.
pub(super) fn open_fee_jar(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
) -> Result<BTreeMap<&'static str, Address>, SandboxError> {
    let treasury = builder.actors.address(ActorRole::Treasury);
    let factory = deployment.contracts.get("v3Factory").copied().unwrap_or_default();
    let uni = deployment.token(SandboxToken::Uni)?;
    let threshold = U256::from(BURN_THRESHOLD) * U256::from(10).pow(U256::from(SandboxToken::Uni.plan().decimals));
    let jar = builder.create2(BundledContract::TokenJar, &(treasury,).abi_encode_params(), B256::ZERO)?;
    let arguments = (uni, threshold, jar, treasury).abi_encode_params();
    let firepit = builder.create2(BundledContract::Firepit, &arguments, B256::ZERO)?;
    let arguments = (factory, jar, treasury).abi_encode_params();
    let adapter = builder.create2(BundledContract::V3FeeAdapter, &arguments, B256::ZERO)?;
    builder.seal()?;
    let releaser = TokenJar::setReleaserCall { releaser: firepit }.abi_encode();
    builder.call(ActorRole::Treasury, jar, releaser, 100_000, "naming the jar's releaser")?;
    let owner = UniswapV3Factory::setOwnerCall { owner: adapter }.abi_encode();
    builder.call(ActorRole::Treasury, factory, owner, 100_000, "naming the V3 factory's owner")?;
    builder.seal()?;
    for (a, b, venue) in PROTOCOL_FEE_POOLS {
        let is_it = |tokens: [SandboxToken; 2]| tokens == [a, b] || tokens == [b, a];
        let pools = deployment.pools.iter().filter(|pool| pool.venue == venue);
        for pool in pools.filter(|pool| is_it([pool.token0.token, pool.token1.token])) {
            let set = V3FeeAdapter::overridePoolFeeCall { pool: pool.address, feeOverride: A_FOURTH }.abi_encode();
            builder.call(ActorRole::Treasury, adapter, set, 120_000, "setting a protocol fee")?;
        }
    }
    builder.seal()?;
    Ok(BTreeMap::from([("tokenJar", jar), ("feeReleaser", firepit), ("v3FeeAdapter", adapter)]))
}
