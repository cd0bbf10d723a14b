//! Start of both devnet chains.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;

use super::actors::Actors;
use super::agents;
use super::background_actors::{BackgroundActors, MarketMode};
use super::error::SandboxError;
use super::genesis::{Deployment, StartStage};
use super::keep::{KeptFolder, KeptRecord};
use super::keys::DevnetAccount;
use super::plan::{CHAINS, ChainSetup};
use super::relayers::Relayers;
use super::snapshot::{self, PopulatedChain};
use bardo_base::clock::Clock;
use bardo_base::id::InstanceId;
use golem_chain::devnet::keep::KeptChain;
use golem_chain::devnet::{Chain, Devnet, MiningMode, RunningConfig};
use golem_chain::network::{ChainDescription, DescribedFeed, DescribedToken, NetworkDescription};

/// Duration of the market history before the start, in seconds.
pub const PAST_SECONDS: u64 = 7_200;

/// Block interval of that history, in seconds.
const HISTORY_BLOCK_SECONDS: u64 = 60;

/// Number of history blocks per price feed update.
const HISTORY_FEED_BLOCKS: u64 = 5;

/// Earliest start of the market history, in seconds since the Unix epoch: an hour after block 0, when the deployment is
/// complete.
const EARLIEST_MARKET_START: u64 = snapshot::GENESIS_TIME + 3_600;

/// Mode of block production after the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockPace {
    /// By interval: ethereum every 2 s, base every second.
    Live,
    /// By a custom interval.
    Every(Duration),
    /// A block as soon as a transaction is pending.
    OnTransaction,
    /// Blocks on request only.
    Manual,
}

/// Configuration of a devnet.
#[derive(Clone)]
pub struct SandboxConfig {
    /// Seed of the market.
    pub seed: u64,
    /// Timestamp of the last history block, in seconds since the Unix epoch. Later blocks follow the clock.
    pub start_time: u64,
    /// Mode of block production.
    pub pace: BlockPace,
    /// Source of timestamps; with `None` each block is one second later, which is reproducible.
    pub clock: Option<Arc<dyn Clock>>,
    /// Mode of the market after the start.
    pub market: MarketMode,
    /// True to update price feeds after the start.
    pub keeper: bool,
}

/// Progress report of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartProgress {
    /// Name of the chain.
    pub chain: &'static str,
    /// Stage that it has reached.
    pub stage: StartStage,
}

/// One chain of the devnet.
#[derive(Debug, Clone)]
pub struct SandboxChain {
    /// Handle to the running chain.
    pub devnet: Devnet,
    /// Background actors of the chain.
    pub background_actors: BackgroundActors,
    /// Addresses of the deployed contracts.
    pub deployment: Arc<Deployment>,
}

/// The devnet's two chains. Clones share them.
#[derive(Debug, Clone)]
pub struct Sandbox {
    instance: InstanceId,
    chains: Vec<SandboxChain>,
    accounts: Vec<Address>,
    is_kept: bool,
}

/// A chain whose thread has not started yet.
struct BuiltChain {
    chain: Chain,
    background_actors: BackgroundActors,
    kept: Option<KeptChain>,
}

impl Sandbox {
    /// Builds and starts both chains, each on its own thread. `report` is called for each step from either thread.
    ///
    /// # Errors
    /// A [`SandboxError`] if a chain cannot be built or started.
    pub fn boot(config: &SandboxConfig, report: &(dyn Fn(StartProgress) + Sync)) -> Result<Self, SandboxError> {
        let actors = Actors::new()?;
        let built = build_all(config, &actors, report)?;
        Self::start(config, actors, InstanceId::random(), config.seed, built, report)
    }

    /// Resumes the chains stored in `folder`, or creates new ones and stores them there. A stored devnet keeps its
    /// seed, market and time; the seed and start time of `config` are ignored then.
    ///
    /// # Errors
    /// A [`SandboxError`] that names the unusable file and the remedy.
    pub fn boot_kept(
        config: &SandboxConfig,
        folder: &KeptFolder,
        report: &(dyn Fn(StartProgress) + Sync),
    ) -> Result<Self, SandboxError> {
        let actors = Actors::new()?;
        if let Some(record) = folder.record()? {
            let built = resume_all(&record, folder, &actors, report)?;
            return Self::start(config, actors, record.instance, record.seed, built, report);
        }
        let mut built = build_all(config, &actors, report)?;
        let instance = InstanceId::random();
        let chains: Vec<(Chain, Deployment)> = built
            .iter()
            .map(|built| (built.chain.clone(), Deployment::clone(built.background_actors.deployment())))
            .collect();
        let began = config.start_time.saturating_sub(PAST_SECONDS);
        for (built, kept) in built.iter_mut().zip(folder.begin(instance, config.seed, began, &chains)?) {
            built.kept = Some(kept);
        }
        Self::start(config, actors, instance, config.seed, built, report)
    }

    fn start(
        config: &SandboxConfig,
        actors: Actors,
        instance: InstanceId,
        seed: u64,
        built: Vec<BuiltChain>,
        report: &(dyn Fn(StartProgress) + Sync),
    ) -> Result<Self, SandboxError> {
        let is_kept = built.iter().any(|built| built.kept.is_some());
        let relayers =
            Relayers::new(seed, actors, built.iter().map(|built| Arc::clone(built.background_actors.deployment())));
        let mut chains = Vec::with_capacity(built.len());
        for built in built {
            let chain = run(config, built)?;
            chain.background_actors.join(relayers.clone());
            report(StartProgress { chain: chain.deployment.plan.name, stage: StartStage::Ready });
            chains.push(chain);
        }
        let accounts = DevnetAccount::development_accounts()?.iter().map(DevnetAccount::address).collect();
        Ok(Self { instance, chains, accounts, is_kept })
    }

    /// A devnet of one chain: a rehearsal with its actors.
    ///
    /// # Errors
    /// A [`SandboxError`] if a development account cannot be derived.
    pub fn of_rehearsal(chain: SandboxChain, instance: InstanceId, is_kept: bool) -> Result<Self, SandboxError> {
        let accounts = DevnetAccount::development_accounts()?.iter().map(DevnetAccount::address).collect();
        Ok(Self { instance, chains: vec![chain], accounts, is_kept })
    }

    /// Returns true if the devnet is stored on disk and continues in the next run.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Unique id of this devnet. Each new devnet has its own, also with the same seed.
    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    /// The chains, ethereum first.
    pub fn chains(&self) -> &[SandboxChain] {
        &self.chains
    }

    /// The chain with this name or decimal id.
    pub fn chain(&self, name: &str) -> Option<&SandboxChain> {
        self.chains.iter().find(|chain| {
            let plan = chain.deployment.plan;
            plan.name == name || plan.chain_id.to_string() == name
        })
    }

    /// Development accounts, the demo wallet first.
    pub fn accounts(&self) -> &[Address] {
        &self.accounts
    }

    /// Self-description of the devnet. The server fills in its URLs.
    pub fn description(&self) -> NetworkDescription {
        NetworkDescription {
            chains: self.chains.iter().map(|chain| describe(&chain.deployment, &self.accounts)).collect(),
            instance: Some(self.instance),
            order_service: None,
            intent_service: None,
        }
    }
}

/// Builds the chain of `plan` from the genesis snapshot with the agents' past before `began`, in seconds since the Unix
/// epoch, and two hours of market history since then.
///
/// # Errors
/// A [`SandboxError`] if the snapshot cannot be used or an actor's transaction fails.
pub fn build_chain(
    seed: u64,
    plan: &'static ChainSetup,
    actors: &Actors,
    began: u64,
    report: &dyn Fn(StartStage),
) -> Result<(Chain, BackgroundActors), SandboxError> {
    report(StartStage::Snapshot);
    let PopulatedChain { mut chain, deployment, past } = snapshot::furnished(plan)?;
    agents::replay_past(&mut chain, &past, began)?;
    let background_actors = BackgroundActors::new(seed, began, Arc::new(deployment), actors.clone());
    simulate_history(&mut chain, &background_actors, began, report)?;
    chain.set_next_base_fee(plan.base_fee);
    Ok((chain, background_actors))
}

/// Builds all chains of the devnet, each on its own thread.
fn build_all(
    config: &SandboxConfig,
    actors: &Actors,
    report: &(dyn Fn(StartProgress) + Sync),
) -> Result<Vec<BuiltChain>, SandboxError> {
    let began = config.start_time.checked_sub(PAST_SECONDS).filter(|began| *began >= EARLIEST_MARKET_START).ok_or(
        SandboxError::StartTooEarly { start: config.start_time, earliest: EARLIEST_MARKET_START + PAST_SECONDS },
    )?;
    on_threads(|plan| {
        let report_stage = |stage| report(StartProgress { chain: plan.name, stage });
        let (chain, background_actors) = build_chain(config.seed, plan, actors, began, &report_stage)?;
        Ok(BuiltChain { chain, background_actors, kept: None })
    })
}

/// Reads all chains of a stored devnet, each on its own thread.
fn resume_all(
    record: &KeptRecord,
    folder: &KeptFolder,
    actors: &Actors,
    report: &(dyn Fn(StartProgress) + Sync),
) -> Result<Vec<BuiltChain>, SandboxError> {
    on_threads(|plan| {
        report(StartProgress { chain: plan.name, stage: StartStage::Kept });
        let (kept, chain, deployment) = folder.resume(record, plan)?;
        let background_actors = BackgroundActors::new(record.seed, record.began, Arc::new(deployment), actors.clone());
        Ok(BuiltChain { chain, background_actors, kept: Some(kept) })
    })
}

/// Runs `build` for every chain, each on its own thread.
fn on_threads(
    build: impl Fn(&'static ChainSetup) -> Result<BuiltChain, SandboxError> + Sync,
) -> Result<Vec<BuiltChain>, SandboxError> {
    let build = &build;
    std::thread::scope(|scope| {
        let builders: Vec<_> = CHAINS.into_iter().map(|plan| scope.spawn(move || build(plan))).collect();
        // A panicking builder has reported its panic; its chain is missing.
        builders.into_iter().map(|builder| builder.join().unwrap_or(Err(SandboxError::BuilderLost))).collect()
    })
}

/// Starts a chain's thread with its background actors.
fn run(config: &SandboxConfig, built: BuiltChain) -> Result<SandboxChain, SandboxError> {
    let BuiltChain { chain, background_actors, kept } = built;
    let deployment = Arc::clone(background_actors.deployment());
    let plan = deployment.plan;
    if config.market == MarketMode::Off {
        background_actors.set_market(&chain, MarketMode::Off);
    }
    background_actors.set_keeper_rests(!config.keeper);

    let mining = match config.pace {
        BlockPace::Live => MiningMode::Interval(Duration::from_millis(plan.block_millis)),
        BlockPace::Every(interval) => MiningMode::Interval(interval),
        BlockPace::OnTransaction => MiningMode::OnTransaction,
        BlockPace::Manual => MiningMode::Manual,
    };
    let running = RunningConfig { mining, clock: config.clock.clone(), hook: Some(background_actors.block_hook()) };
    let devnet = match kept {
        Some(kept) => Devnet::adopt_kept(chain, running, kept)?,
        None => Devnet::adopt(chain, running)?,
    };
    Ok(SandboxChain { devnet, background_actors, deployment })
}

/// Produces the market history before the start: two hours of blocks in which the background actors trade.
fn simulate_history(
    chain: &mut Chain,
    background_actors: &BackgroundActors,
    began: u64,
    report: &dyn Fn(StartStage),
) -> Result<(), SandboxError> {
    let blocks = PAST_SECONDS / HISTORY_BLOCK_SECONDS;
    for done in 1..=blocks {
        chain.set_next_timestamp(began + done * HISTORY_BLOCK_SECONDS)?;
        background_actors.set_keeper_rests(done % HISTORY_FEED_BLOCKS != 0);
        background_actors.act(chain)?;
        let block = chain.mine();
        if let Some(failure) = block.receipts.iter().find_map(|receipt| receipt.failure.clone()) {
            return Err(SandboxError::Failed { step: "the market's history", failure });
        }
        report(StartStage::Past { done, of: blocks });
    }
    Ok(())
}

/// Describes a devnet chain as every devnet with the bundled contracts has it, without starting one. `None` for the id of
/// another chain.
///
/// # Errors
/// [`SandboxError::Snapshot`] if the snapshot cannot be used.
pub fn bundled_description(chain_id: u64) -> Result<Option<ChainDescription>, SandboxError> {
    let Some(plan) = CHAINS.into_iter().find(|plan| plan.chain_id == chain_id) else { return Ok(None) };
    let PopulatedChain { deployment, .. } = snapshot::furnished(plan)?;
    Ok(Some(describe(&deployment, &[])))
}

fn describe(deployment: &Deployment, accounts: &[Address]) -> ChainDescription {
    let plan = deployment.plan;
    let mut contracts: BTreeMap<String, Address> = BTreeMap::new();
    contracts.extend(deployment.contracts.iter().map(|(name, address)| ((*name).to_owned(), *address)));
    contracts.extend(deployment.enforcers.iter().map(|(name, address)| (enforcer_key(name), *address)));
    let (bad, usable): (Vec<_>, Vec<_>) = deployment.tokens.iter().partition(|(token, _)| token.is_bad());
    contracts.extend(bad.into_iter().map(|(token, address)| (token.plan().key.to_owned(), *address)));
    contracts.insert("orderCosigner".to_owned(), deployment.cosigner);
    ChainDescription {
        name: plan.name.to_owned(),
        chain_id: plan.chain_id,
        rpc: String::new(),
        contracts,
        code_hashes: deployment.code_hashes.iter().map(|(name, hash)| ((*name).to_owned(), *hash)).collect(),
        tokens: usable
            .into_iter()
            .map(|(token, address)| {
                let token_setup = token.plan();
                let token = DescribedToken {
                    address: *address,
                    decimals: token_setup.decimals,
                    name: token_setup.name.to_owned(),
                };
                (token_setup.key.to_owned(), token)
            })
            .collect(),
        feeds: deployment
            .feeds
            .iter()
            .map(|(asset, address)| {
                (format!("{} / USD", asset.ticker()), DescribedFeed { address: *address, decimals: 8 })
            })
            .collect(),
        accounts: accounts.to_vec(),
        rehearses: None,
    }
}

/// Key of an enforcer in the description: its name with the leading capitals in lower case, so that
/// `AllowedTargetsEnforcer` becomes `allowedTargetsEnforcer` and `ERC20StreamingEnforcer` `erc20StreamingEnforcer`.
fn enforcer_key(name: &str) -> String {
    let capitals = name.chars().take_while(char::is_ascii_uppercase).count();
    let lowercase_count = if capitals > 1 { capitals } else { 1 };
    name.chars().enumerate().map(|(at, c)| if at < lowercase_count { c.to_ascii_lowercase() } else { c }).collect()
}
