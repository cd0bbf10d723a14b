//! From the configuration to the world that tools see.

use std::sync::Arc;

use futures::future::join_all;

use super::account;
use super::data::DataFolder;
use super::data::devnets::{BadDevnetName, DevnetError};
use bardo_base::clock::Clock;
use bardo_base::config::Config;
use bardo_base::units::Usd;
use bardo_sandbox::{Progress, Sandbox, SandboxConfig, SandboxError};
use golem_chain::network::{Plan, PlanError};
use golem_chain::price::{FixedPriceError, PriceChain};
use golem_chain::provider::{ChainClient, ConnectError, ConnectRules};
use golem_tools::engine::{LostChain, World, WorldChain};

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
    #[error("cannot start the devnet: {0}")]
    Sandbox(#[from] SandboxError),
    /// A chain of the devnet could not be held.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The devnet that is to be kept cannot be used.
    #[error(transparent)]
    Kept(#[from] DevnetError),
    /// The name under which the devnet is to be kept is none.
    #[error(transparent)]
    KeptName(#[from] BadDevnetName),
    /// The configured test prices cannot be used.
    #[error(transparent)]
    Prices(#[from] FixedPriceError),
}

/// Opens the network that `config` asks for. Chains that cannot be reached are part of the world as
/// lost ones, so that a call that needs one can say so. Must be called on a tokio runtime.
///
/// The account that tools look at is the one the configuration picks (see [`super::account`]); one that cannot be picked
/// is none here, and whoever acts is told why.
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
            Ok(OpenWorld { world: watching(config, World::new(clock, None, chains, lost)), sandbox: None })
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
    let kept = match &config.kept_devnet {
        Some(name) => Some((DataFolder::of(config), name.parse()?)),
        None => None,
    };
    let boot = move || -> Result<Sandbox, OpenError> {
        match kept {
            Some((folder, name)) => Ok(Sandbox::boot_kept(&sandbox(), &folder.keep_devnet(&name)?, &report)?),
            None => Ok(Sandbox::boot(&sandbox(), &report)?),
        }
    };
    let sandbox = tokio::task::spawn_blocking(boot).await.map_err(|_| SandboxError::BuilderLost)??;
    let mut chains = Vec::new();
    for (network, chain) in sandbox.description().networks().into_iter().zip(sandbox.chains()) {
        let client = ChainClient::devnet(network, chain.devnet.clone(), clock.clone())?;
        chains.push(world_chain(config, client, &clock)?);
    }
    Ok(OpenWorld { world: watching(config, World::new(clock, None, chains, Vec::new())), sandbox: Some(sandbox) })
}

fn watching(config: &Config, mut world: World) -> World {
    world.quotes = super::quotes::source(config, &world);
    world.intent_margin = config.intent_margin.value;
    world.account = account::pick(config, &world).ok().flatten().map(|picked| picked.address());
    world
}

fn world_chain(config: &Config, client: ChainClient, clock: &Arc<dyn Clock>) -> Result<WorldChain, FixedPriceError> {
    let prices = prices(config, &client, clock)?;
    Ok(WorldChain::new(client, prices))
}

/// Sources of prices of a chain, which share nothing with any others.
pub(super) fn prices(
    config: &Config,
    client: &ChainClient,
    clock: &Arc<dyn Clock>,
) -> Result<PriceChain, FixedPriceError> {
    let network = client.network();
    let configured = config
        .prices
        .iter()
        .find(|(name, _)| golem_chain::network::resolve(name, std::slice::from_ref(network)).is_ok());
    let fixed: std::collections::BTreeMap<String, Usd> =
        configured.map(|(_, prices)| prices.value.clone()).unwrap_or_default();
    PriceChain::for_chain(client, &fixed, clock.clone())
}
