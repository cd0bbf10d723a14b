//! Hostile hooks among the devnet's residents, each with a V4 pool of USDC and USDT. Nobody trades in these pools, so that their
//! prices stay where both coins are worth the same, and the market of the other pools does not depend on them.
//!
//! Not here: the hooks' behaviour (see `HostileHooks.sol`), fees and flags (see `plan`).

use std::collections::BTreeMap;

use alloy::primitives::{Address, aliases::I24, aliases::U24, keccak256};
use alloy::sol_types::SolValue;

use super::block_builder::BlockBuilder;
use super::deploy::hook_salt;
use super::error::SandboxError;
use super::genesis::{Deployment, V4GenesisPool};
use super::math::PricedToken;
use super::plan::{HOSTILE_POOL_DOLLARS, HostileHook, PoolCurrency, SandboxToken, tick_spacing};
use super::v4_pools::{fill, make};
use bardo_abi::uniswap_v4::PoolKey;

/// Deploys the hooks, and creates and fills their pools. Returns the hooks' addresses by key.
pub(super) fn settle_hostile_hooks(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Result<BTreeMap<&'static str, Address>, SandboxError> {
    let manager = deployment.contracts.get("v4PoolManager").copied().unwrap_or_default();
    let mut made = BTreeMap::new();
    let mut pools = Vec::new();
    for hook in HostileHook::ALL {
        let arguments = match hook {
            HostileHook::ExitLock => Vec::new(),
            HostileHook::DepositTax | HostileHook::FeeJump => (manager,).abi_encode_params(),
        };
        let salt = hook_salt(hook.contract(), hook.flags(), &arguments)?;
        let address = builder.create2(hook.contract(), &arguments, salt)?;
        made.insert(hook.key(), address);
        pools.push(pool(deployment, hook, address)?);
    }
    builder.seal()?;
    make(builder, deployment, &pools, quoted)?;
    builder.seal()?;
    // Two positions each: the treasury must not have more than a reading of an account counts.
    fill(builder, deployment, (&pools, 2), quoted)?;
    builder.seal()?;
    Ok(made)
}

/// The pool of a hostile hook.
fn pool(deployment: &Deployment, hook: HostileHook, hooks: Address) -> Result<V4GenesisPool, SandboxError> {
    let (a, b) = (SandboxToken::Usdc, SandboxToken::Usdt);
    let (first, second) = (deployment.token(a)?, deployment.token(b)?);
    let ((currency0, token0), (currency1, token1)) =
        if first < second { ((first, a), (second, b)) } else { ((second, b), (first, a)) };
    let spacing = I24::try_from(tick_spacing(hook.pool_fee()));
    let key = PoolKey {
        currency0,
        currency1,
        fee: U24::saturating_from(hook.pool_fee()),
        tickSpacing: spacing.map_err(|_| SandboxError::NoSuchPool { chain: deployment.plan.name })?,
        hooks,
    };
    Ok(V4GenesisPool {
        key,
        id: keccak256(key.abi_encode()),
        currency0: PoolCurrency::Token(token0),
        currency1: PoolCurrency::Token(token1),
        dollars: HOSTILE_POOL_DOLLARS,
    })
}
