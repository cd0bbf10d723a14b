//! Connection of the configured chains, as tools see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;

use super::data::DataFolder;
use super::data::devnets::{DevnetError, DevnetNameError};
use super::depth::settings_of;
use super::faucet::DevnetFaucet;
use super::policy_cage::{self, ControlError};
use super::rehearsal::{self, Rehearsal, RehearsalError};
use super::session_keyring::FolderKeyring;
use super::{account, policy};
use bardo_base::clock::Clock;
use bardo_base::config::{AgentFileSettings, Config, ForkSettings, GATEWAYS, RpcUrl};
use bardo_base::units::Usd;
use bardo_sandbox::{Sandbox, SandboxChain, SandboxConfig, SandboxError, StartProgress};
use golem_chain::network::{DataFees, Network, NetworkPlan, NetworkPlanError, resolve};
use golem_chain::outside_file::names_a_proxy;
use golem_chain::price::{FixedPriceError, PriceChain};
use golem_chain::provider::{ChainClient, ConnectError, ConnectRules};
use golem_protocols::erc8004::files::{AgentFiles, IpfsNode};
use golem_protocols::erc8004::subgraph::Subgraph;
use golem_tools::engine::{AgentFileReaders, ConnectedChain, ToolEnvironment, UnavailableChain};
use golem_tools::identity::Credential;

/// Connected chains with their embedded devnet, which must stay alive for them to run.
#[derive(Debug)]
pub struct OpenEnvironment {
    /// Chains and accounts as tools see them.
    pub world: ToolEnvironment,
    /// Embedded devnet, if the chains are inside this process.
    pub sandbox: Option<Sandbox>,
    /// Rehearsal of a live network, if the chain is one.
    pub rehearsal: Option<Rehearsal>,
}

impl OpenEnvironment {
    /// Chains in this process on which actors live: those of the devnet, or the one of a rehearsal with residents.
    pub fn inhabited(&self) -> &[SandboxChain] {
        match (&self.sandbox, &self.rehearsal) {
            (Some(sandbox), _) => sandbox.chains(),
            (None, Some(rehearsal)) => rehearsal.residents.as_slice(),
            (None, None) => &[],
        }
    }
}

/// Errors of opening a network.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration names no usable network.
    #[error(transparent)]
    Plan(#[from] NetworkPlanError),
    /// The devnet did not start.
    #[error("cannot start the devnet: {0}")]
    Sandbox(#[from] SandboxError),
    /// A chain of the devnet could not be connected.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The kept devnet cannot be used.
    #[error(transparent)]
    Kept(#[from] DevnetError),
    /// The name of the kept devnet is invalid.
    #[error(transparent)]
    KeptName(#[from] DevnetNameError),
    /// The rehearsal did not start.
    #[error(transparent)]
    Rehearsal(#[from] RehearsalError),
    /// The configured test prices are invalid.
    #[error(transparent)]
    Prices(#[from] FixedPriceError),
    /// The account's rules cannot be set on the devnet.
    #[error(transparent)]
    PolicyCage(#[from] ControlError),
}

/// Opens the configured network. Unreachable chains are included as lost ones, so that calls that need them can report
/// it. Must be called on a tokio runtime.
///
/// Tools see the account that the configuration selects (see [`super::account`]). An account that cannot be selected is
/// absent here; actions report the reason.
///
/// # Errors
/// An [`OpenError`] that names the wrong setting, or the reason that the devnet did not start.
pub async fn open(
    config: &Config,
    sandbox: impl FnOnce() -> SandboxConfig + Send + 'static,
    clock: Arc<dyn Clock>,
) -> Result<OpenEnvironment, OpenError> {
    open_telling(config, sandbox, clock, |_| {}).await
}

/// Same as [`open`]; `report` is called for every step of a devnet's startup, on the threads that run it.
///
/// # Errors
/// Same as [`open`].
pub async fn open_telling(
    config: &Config,
    sandbox: impl FnOnce() -> SandboxConfig + Send + 'static,
    clock: Arc<dyn Clock>,
    report: impl Fn(StartProgress) + Send + Sync + 'static,
) -> Result<OpenEnvironment, OpenError> {
    if let Some(fork) = &config.fork {
        return rehearse(config, fork, sandbox(), clock).await;
    }
    match NetworkPlan::from_config(config)? {
        NetworkPlan::Devnet => embedded(config, sandbox, clock, report).await,
        NetworkPlan::Endpoints(plans) => {
            let connecting =
                plans.iter().map(|plan| ChainClient::connect(plan, ConnectRules::default(), clock.clone()));
            let mut chains = Vec::new();
            let mut lost = Vec::new();
            for (plan, connected) in plans.iter().zip(join_all(connecting).await) {
                match connected {
                    Ok(client) => chains.push(world_chain(config, client, &clock)?),
                    Err(reason) => {
                        lost.push(UnavailableChain { name: plan.name.clone(), network: plan.network.clone(), reason });
                    }
                }
            }
            // The first chain is the default; the configuration keeps no order.
            chains.sort_by_key(|chain: &ConnectedChain| chain.network().chain_id);
            // An embedded devnet ends with its process, and its index with it.
            let agents = DataFolder::of(config).agents_database();
            Ok(OpenEnvironment {
                world: watching(config, ToolEnvironment::new(clock, None, chains, lost)).keeping_agents(&agents),
                sandbox: None,
                rehearsal: None,
            })
        }
    }
}

async fn embedded(
    config: &Config,
    sandbox: impl FnOnce() -> SandboxConfig + Send + 'static,
    clock: Arc<dyn Clock>,
    report: impl Fn(StartProgress) + Send + Sync + 'static,
) -> Result<OpenEnvironment, OpenError> {
    // Building both chains uses every core for a moment, so it must not block a thread that serves others.
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
    let mut world = watching(config, ToolEnvironment::new(clock, None, chains, Vec::new()));
    world.faucet = Some(Arc::new(DevnetFaucet::of(&sandbox)));
    // Writes report a policy that cannot be used; until then the account has no rules. A kept devnet is the operator's
    // to set with `bardo policy cage set`.
    if let (false, Some(account), Ok(keeper)) = (sandbox.is_kept(), world.account, policy::open(config, true)) {
        policy_cage::follow_policy(&sandbox, account, &keeper.current().policy).await?;
    }
    Ok(OpenEnvironment { world, sandbox: Some(sandbox), rehearsal: None })
}

/// Opens a rehearsal of a live network.
async fn rehearse(
    config: &Config,
    fork: &ForkSettings,
    pace: SandboxConfig,
    clock: Arc<dyn Clock>,
) -> Result<OpenEnvironment, OpenError> {
    let rehearsal = rehearsal::start(config, fork, pace, Arc::clone(&clock)).await?;
    let client = ChainClient::devnet(rehearsal.network.clone(), rehearsal.devnet.clone(), Arc::clone(&clock))?;
    let chains = vec![world_chain(config, client, &clock)?];
    Ok(OpenEnvironment {
        world: watching(config, ToolEnvironment::new(clock, None, chains, Vec::new())),
        sandbox: None,
        rehearsal: Some(rehearsal),
    })
}

fn watching(config: &Config, mut world: ToolEnvironment) -> ToolEnvironment {
    world.quotes = super::quotes::source(config, &world);
    world.intent_margin = config.intent_margin.value;
    world.agent_files = agent_files(&config.agents, world.chains().iter().map(ConnectedChain::network));
    world.session_keys = Some(Arc::new(FolderKeyring::new(DataFolder::of(config), Arc::clone(&world.clock))));
    let picked = account::pick(config, &world).ok().flatten();
    world.account = picked.as_ref().map(account::SelectedAccount::address);
    world.custody = picked.as_ref().map(account::SelectedAccount::kind);
    world.payer = picked.as_ref().map(account::SelectedAccount::signer);
    if config.quotes.api_key.is_some() {
        let scopes = vec!["quotes".to_owned(), "orders".to_owned()];
        world.credentials.push(Credential { name: "uniswap-trading-api".to_owned(), scopes, expires_at: None });
    }
    world
}

/// Services for agents: readers of their files on public networks, and on devnets, where they are off unless they are set;
/// the node for own files, and the subgraphs of `networks`.
fn agent_files<'a>(settings: &AgentFileSettings, networks: impl Iterator<Item = &'a Network>) -> AgentFileReaders {
    let set = settings.gateways.as_ref().map(|gateways| gateways.value.clone());
    let usual = || GATEWAYS.iter().filter_map(|url| RpcUrl::parse(url).ok()).collect();
    let https = settings.https.as_ref().map(|https| https.value);
    let reader = |gateways: Vec<RpcUrl>, https: bool| {
        let wanted = !gateways.is_empty() || https;
        // Without TLS on this system no https endpoint can be reached either, which is reported.
        wanted.then(|| AgentFiles::new(gateways, https).ok()).flatten().map(Arc::new)
    };
    // Who sets a proxy does not want this machine's address to be seen.
    let direct = || !names_a_proxy(|name| std::env::var_os(name));
    let public = reader(set.clone().unwrap_or_else(usual), https.unwrap_or_else(direct));
    let devnet = reader(set.unwrap_or_default(), https.unwrap_or(false));
    let upload = settings.upload.as_ref().and_then(|node| IpfsNode::new(node.value.clone()).ok()).map(Arc::new);
    let mut subgraphs = BTreeMap::new();
    for network in networks {
        let named = settings.subgraphs.iter().find(|(name, _)| resolve(name, std::slice::from_ref(network)).is_ok());
        if let Some(subgraph) = named.and_then(|(_, url)| Subgraph::new(&url.value).ok()) {
            subgraphs.insert(network.chain_id, Arc::new(subgraph));
        }
    }
    AgentFileReaders { public, devnet, upload, subgraphs }
}

fn world_chain(
    config: &Config,
    client: ChainClient,
    clock: &Arc<dyn Clock>,
) -> Result<ConnectedChain, FixedPriceError> {
    let prices = prices(config, &client, clock)?;
    let oracle = settings_of(config, client.network()).and_then(|settings| settings.data_fee_oracle.as_ref());
    let data_fees = oracle.map(|oracle| oracle.value.map_or(DataFees::None, DataFees::Oracle));
    let chain = ConnectedChain::new(client, prices);
    Ok(match data_fees {
        Some(data_fees) => chain.charging(data_fees),
        None => chain,
    })
}

/// Price sources of a chain, which share nothing with any others.
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
