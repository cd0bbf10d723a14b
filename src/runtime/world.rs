//! From the configuration to the world that tools see.

use std::sync::Arc;

use alloy::primitives::Address;
use futures::future::join_all;

use crate::base::clock::Clock;
use crate::base::config::Config;
use crate::base::units::Usd;
use crate::chain::network::{Network, NetworkKind, Plan, PlanError};
use crate::chain::price::{FixedPriceError, PriceChain};
use crate::chain::provider::{ChainClient, ConnectError, ConnectRules};
use crate::engine::{LostChain, World, WorldChain};
use crate::sandbox::keys::{KeyError, Party};
use crate::sandbox::{Progress, Sandbox, SandboxConfig, SandboxError};

/// A world, and the devnet in it where there is one: without it its chains would stop.
#[derive(Debug)]
pub struct OpenWorld {
    /// What tools see.
    pub world: World,
    /// The chains inside this process.
    pub sandbox: Option<Sandbox>,
}

/// Why there is no world.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration names no network that could be worked on.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The devnet did not start.
    #[error("the devnet did not start: {0}")]
    Sandbox(#[from] SandboxError),
    /// A chain of the devnet could not be held.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The configured test prices cannot be used.
    #[error(transparent)]
    Prices(#[from] FixedPriceError),
    /// The devnet's accounts could not be derived.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Opens the network that `config` asks for. Chains that cannot be reached are part of the world as
/// lost ones, so that a call that needs one can say so. Must be called on a tokio runtime.
///
/// The account is the devnet's first one where every chain is a devnet's, in this process or
/// another; on any other network there is none yet.
///
/// # Errors
/// An [`OpenError`] that says which setting is wrong, or why the devnet did not start.
pub async fn open(
    config: &Config,
    sandbox: impl FnOnce() -> SandboxConfig + Send + 'static,
    clock: Arc<dyn Clock>,
) -> Result<OpenWorld, OpenError> {
    open_telling(config, sandbox, clock, |_| {}).await
}

/// As [`open`]; `report` hears of every step of a devnet's boot, from the threads it boots on.
///
/// # Errors
/// As [`open`].
pub async fn open_telling(
    config: &Config,
    sandbox: impl FnOnce() -> SandboxConfig + Send + 'static,
    clock: Arc<dyn Clock>,
    report: impl Fn(Progress) + Send + Sync + 'static,
) -> Result<OpenWorld, OpenError> {
    match Plan::from_config(config)? {
        Plan::Devnet => embedded(config, sandbox, clock, report).await,
        Plan::Endpoints(plans) => {
            let connecting =
                plans.iter().map(|plan| ChainClient::connect(plan, ConnectRules::default(), clock.clone()));
            let mut chains = Vec::new();
            let mut lost = Vec::new();
            for (plan, connected) in plans.iter().zip(join_all(connecting).await) {
                match connected {
                    Ok(client) => chains.push(world_chain(config, client, &clock)?),
                    Err(reason) => {
                        lost.push(LostChain { name: plan.name.clone(), network: plan.network.clone(), reason });
                    }
                }
            }
            let account = development_account(chains.iter().map(WorldChain::network))?;
            Ok(OpenWorld { world: World::new(clock, account, chains, lost), sandbox: None })
        }
    }
}

async fn embedded(
    config: &Config,
    sandbox: impl FnOnce() -> SandboxConfig + Send + 'static,
    clock: Arc<dyn Clock>,
    report: impl Fn(Progress) + Send + Sync + 'static,
) -> Result<OpenWorld, OpenError> {
    // Building both chains takes every core for a moment: not on a thread that serves others.
    let booted = tokio::task::spawn_blocking(move || Sandbox::boot(&sandbox(), &report)).await;
    let sandbox = booted.map_err(|_| SandboxError::BuilderLost)??;
    let mut chains = Vec::new();
    for (network, chain) in sandbox.description().networks().into_iter().zip(sandbox.chains()) {
        let client = ChainClient::devnet(network, chain.devnet.clone(), clock.clone())?;
        chains.push(world_chain(config, client, &clock)?);
    }
    let account = sandbox.accounts().first().copied();
    Ok(OpenWorld { world: World::new(clock, account, chains, Vec::new()), sandbox: Some(sandbox) })
}

fn world_chain(config: &Config, client: ChainClient, clock: &Arc<dyn Clock>) -> Result<WorldChain, FixedPriceError> {
    let network = client.network();
    let configured = config
        .prices
        .iter()
        .find(|(name, _)| crate::chain::network::resolve(name, std::slice::from_ref(network)).is_ok());
    let fixed: std::collections::BTreeMap<String, Usd> =
        configured.map(|(_, prices)| prices.value.clone()).unwrap_or_default();
    let prices = PriceChain::for_chain(&client, &fixed, clock.clone())?;
    Ok(WorldChain::new(client, prices))
}

/// The development mnemonic's first account, where nothing but devnets could be touched with it.
fn development_account<'a>(mut networks: impl Iterator<Item = &'a Network>) -> Result<Option<Address>, KeyError> {
    let mut any = false;
    let all_devnets = networks.all(|network| {
        any = true;
        network.kind == NetworkKind::Devnet
    });
    if !(any && all_devnets) {
        return Ok(None);
    }
    Ok(Party::development_accounts()?.first().map(Party::address))
}
