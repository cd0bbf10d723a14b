//! Rehearsals: a chain in this process that continues from a block of a live network, with a stand-in for the operator.
//!
//! The stand-in is the first account of the development mnemonic. It gets the holdings of the operator's account: the
//! native balance, the balances of all tokens in the address book, and its allowances for the contracts there, directly
//! and in Permit2. Nothing is sent to the live network, which is only read (see `golem_chain::fork::origin`), and the
//! chain has a local id, so nothing that is signed for it is valid there.

use std::sync::Arc;

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall as _;

use super::data::devnets::{DevnetError, DevnetNameError};
use super::data::{DataError, DataFolder};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::clock::Clock;
use bardo_base::config::{Config, ConfigError, ForkSettings};
use bardo_base::id::InstanceId;
use bardo_base::text::SafeText;
use bardo_safety::custody::{KeyName, Keystore};
use bardo_sandbox::keep::{KeptError, KeptFolder, KeptFork};
use bardo_sandbox::keys::{DevnetAccount, KeyError};
use bardo_sandbox::residents::{self, KeptMarket};
use bardo_sandbox::{BackgroundActors, BlockPace, MarketMode, SandboxChain, SandboxConfig, SandboxError};
use golem_chain::devnet::handle::SpawnError;
use golem_chain::devnet::keep::KeptChain;
use golem_chain::devnet::ledger::HistoryLimits;
use golem_chain::devnet::{Chain, Devnet, MiningMode, RunningConfig};
use golem_chain::fork::holdings::Holding;
use golem_chain::fork::origin::{ForkBlock, Origin, OriginError};
use golem_chain::network::{
    ChainPlan, DEVNET_BASE, DEVNET_ETHEREUM, KnownContract, LiveBlock, Network, NetworkPlanError,
};

/// Folder of cached blocks of live networks, in the data directory.
const FORKS: &str = "forks";
/// Native balance of the stand-in if it stands for nobody, and of the other development accounts, in wei.
const PLAY_BALANCE: u128 = 10_000_000_000_000_000_000;
/// Blocks and states that a rehearsal keeps in memory.
const HISTORY: HistoryLimits = HistoryLimits { blocks: 8_192, states: 256 };

/// A running rehearsal. Clones share it.
#[derive(Debug, Clone)]
pub struct Rehearsal {
    /// The local chain.
    pub devnet: Devnet,
    /// Network of the local chain, with the live network's contracts.
    pub network: Network,
    /// The live network's block.
    pub origin: Arc<Origin>,
    /// Identity of this rehearsal, after which its ledger is named.
    pub instance: InstanceId,
    /// Account that acts.
    pub stand_in: Address,
    /// Account whose holdings the stand-in got; `None` if it stands for nobody.
    pub holder: Option<Address>,
    /// Holdings that could not be copied, such as `the balance of stETH`.
    pub not_copied: Vec<SafeText>,
    /// True if the rehearsal is stored on disk and continues in the next run.
    pub is_kept: bool,
    /// The chain with its traders and fillers; `None` if nobody else acts there.
    pub residents: Option<SandboxChain>,
}

/// Errors of starting a rehearsal.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The network is not known, or its settings are wrong.
    #[error(transparent)]
    Plan(#[from] NetworkPlanError),
    /// The endpoint cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data folder cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The block is not valid.
    #[error("--fork: {0}")]
    Block(SafeText),
    /// The account to stand for is neither an address nor a key.
    #[error("--holder {asked}: not an address, and no key of this name: {reason}; `bardo keys list` lists the keys")]
    Holder {
        /// The given text.
        asked: SafeText,
        /// Error of the keystore.
        reason: SafeText,
    },
    /// The live network cannot be read.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// The holdings of the operator cannot be read.
    #[error("cannot read what {holder} holds: {reason}")]
    Holdings {
        /// Account whose holdings are copied.
        holder: Address,
        /// Cause of the failure.
        reason: SafeText,
    },
    /// The stored rehearsal has the name of another one.
    #[error(
        "{name} is kept and is not a fork of {asked}: it is {found}. Choose another name for --data, or resume it \
         without --fork"
    )]
    OtherKept {
        /// Name of the kept devnet.
        name: String,
        /// The requested network and block.
        asked: String,
        /// Description of the kept devnet.
        found: String,
    },
    /// The stored rehearsal has no actors.
    #[error(
        "{0} is kept without residents, and they cannot move in later: choose another name for --data, or remove \
         --residents"
    )]
    KeptWithout(String),
    /// The actors cannot act on the network's pools.
    #[error(transparent)]
    Residents(#[from] Box<SandboxError>),
    /// The stored rehearsal cannot be used.
    #[error(transparent)]
    Kept(#[from] DevnetError),
    /// The name of the kept rehearsal is invalid.
    #[error(transparent)]
    Name(#[from] DevnetNameError),
    /// The chain's thread could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A development account could not be derived.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The process is shutting down.
    #[error("the rehearsal was stopped before it started")]
    Stopped,
}

impl From<KeptError> for RehearsalError {
    fn from(error: KeptError) -> Self {
        Self::Kept(error.into())
    }
}

/// The chain of a rehearsal before its thread starts.
struct Built {
    chain: Chain,
    kept: Option<KeptChain>,
    instance: InstanceId,
    not_copied: Vec<SafeText>,
    network: Network,
    residents: Option<BackgroundActors>,
}

/// Starts the rehearsal that `fork` selects, or resumes the kept one of the configured name. `pace` has the pace and the
/// clock, and the seed and mode of the market of residents. Must be called on a tokio runtime.
///
/// # Errors
/// A [`RehearsalError`] that names the network, endpoint, file or setting at fault.
pub async fn start(
    config: &Config,
    fork: &ForkSettings,
    pace: SandboxConfig,
    clock: Arc<dyn Clock>,
) -> Result<Rehearsal, RehearsalError> {
    let plan = ChainPlan::live(&config.live_of(fork)?, fork)?;
    let data = DataFolder::of(config);
    let folder = match &config.kept_devnet {
        Some(name) => Some((name.clone(), data.keep_devnet(&name.parse()?)?)),
        None => None,
    };
    let record = match &folder {
        Some((_, folder)) => folder.record()?,
        None => None,
    };
    let asked: Option<ForkBlock> = fork.block.as_ref().map(|block| block.parse()).transpose().map_err(
        |error: golem_chain::fork::origin::NotABlock| RehearsalError::Block(SafeText::clean(&error.to_string(), 160)),
    )?;
    let mut holder = holder(config, fork, &data)?;
    let mut block = asked.unwrap_or(ForkBlock::Latest);
    if let (Some(record), Some((name, _))) = (&record, &folder) {
        let other = |found: String| RehearsalError::OtherKept { name: name.clone(), asked: fork.to_string(), found };
        let kept = record.fork.as_ref().ok_or_else(|| other("a devnet of its own".to_owned()))?;
        let fits = match asked {
            None => true,
            Some(ForkBlock::Number(number)) => number == kept.block.number,
            Some(ForkBlock::Hash(hash)) => hash == kept.block.hash,
            Some(ForkBlock::Latest | ForkBlock::Finalized) => false,
        };
        if kept.network != plan.name || !fits {
            return Err(other(format!("a fork of {}@{}", kept.network, kept.block.number)));
        }
        if fork.residents && kept.market.is_none() {
            return Err(RehearsalError::KeptWithout(name.clone()));
        }
        (block, holder) = (ForkBlock::Hash(kept.block.hash), kept.holder);
    }
    // A rehearsal with a data directory of its own uses the operator's cache.
    let shared = config.outer_data_dir.as_deref().unwrap_or_else(|| data.root()).join(FORKS);
    let cache = folder.as_ref().map_or(shared, |(_, folder)| folder.origin_cache());
    data.create()?;
    let origin = Origin::open(plan, block, &cache, Arc::clone(&clock)).await?;
    let network = network_of(&origin);
    let stand_in =
        DevnetAccount::development_accounts()?.first().map(DevnetAccount::address).ok_or(RehearsalError::Stopped)?;
    let (mining, clock) = (mining(&pace, &network), pace.clock);
    let seed = fork.residents.then_some(pace.seed);
    let building = {
        let (origin, network, now) =
            (Arc::clone(&origin), network.clone(), clock.as_ref().map(|clock| clock.now_seconds()));
        let folder = folder.map(|(_, folder)| folder);
        let plan = StartPlan { network, holder, now, seed };
        tokio::task::spawn_blocking(move || match (folder, record) {
            (Some(folder), Some(record)) => {
                let market = record.fork.and_then(|fork| fork.market);
                resume(&folder, record.instance, plan.network, market.as_ref(), &origin)
            }
            (folder, _) => build(&origin, plan, folder.as_ref()),
        })
    };
    let built = building.await.map_err(|_| RehearsalError::Stopped)??;
    let Built { chain, kept, instance, not_copied, network, residents } = built;
    if let (Some(residents), MarketMode::Off) = (&residents, pace.market) {
        residents.set_market(&chain, MarketMode::Off);
    }
    let hook = residents.as_ref().map(BackgroundActors::block_hook);
    let running = RunningConfig { mining, clock, hook };
    let is_kept = kept.is_some();
    let devnet = match kept {
        Some(kept) => Devnet::adopt_kept(chain, running, kept)?,
        None => Devnet::adopt(chain, running)?,
    };
    let residents = residents.map(|background_actors| SandboxChain {
        devnet: devnet.clone(),
        deployment: Arc::clone(background_actors.deployment()),
        background_actors,
    });
    Ok(Rehearsal { devnet, network, origin, instance, stand_in, holder, not_copied, is_kept, residents })
}

/// The local network over the origin's block. Its id is a devnet's, and never the origin's own.
fn network_of(origin: &Origin) -> Network {
    let live = origin.network();
    let chain_id = if live.chain_id == DEVNET_ETHEREUM { DEVNET_BASE } else { DEVNET_ETHEREUM };
    let block = LiveBlock {
        chain_id: live.chain_id,
        number: origin.number(),
        hash: origin.hash(),
        timestamp: origin.header().timestamp,
    };
    Network::rehearsal(live, chain_id, block)
}

fn mining(pace: &SandboxConfig, network: &Network) -> MiningMode {
    match pace.pace {
        BlockPace::Live => MiningMode::Interval(std::time::Duration::from_millis(network.block_millis)),
        BlockPace::Every(interval) => MiningMode::Interval(interval),
        BlockPace::OnTransaction => MiningMode::OnTransaction,
        BlockPace::Manual => MiningMode::Manual,
    }
}

/// Account that the stand-in stands for: the given one, or that of the configured key. A key is not unlocked for this.
fn holder(config: &Config, fork: &ForkSettings, data: &DataFolder) -> Result<Option<Address>, RehearsalError> {
    let of_key = |name: &str| -> Result<Address, SafeText> {
        let clean = |text: String| SafeText::clean(&text, 200);
        let name: KeyName =
            name.parse().map_err(|error: bardo_safety::custody::KeystoreError| clean(error.to_string()))?;
        Keystore::at(data.keys()).entry(&name).map(|entry| entry.address).map_err(|error| clean(error.to_string()))
    };
    match (&fork.holder, &config.account) {
        (Some(asked), _) => match asked.parse() {
            Ok(address) => Ok(Some(address)),
            Err(_) => of_key(asked)
                .map(Some)
                .map_err(|reason| RehearsalError::Holder { asked: SafeText::clean(asked, 80), reason }),
        },
        // Development accounts and broken keys stand for nobody, and session keys for their owner.
        (None, Some(_)) => Ok(super::account::named(config).ok().flatten().map(|named| named.address())),
        (None, None) => Ok(None),
    }
}

fn resume(
    folder: &KeptFolder,
    instance: InstanceId,
    mut network: Network,
    market: Option<&KeptMarket>,
    origin: &Arc<Origin>,
) -> Result<Built, RehearsalError> {
    let (kept, mut chain) = folder.resume_fork(origin)?;
    let residents =
        market.map(|market| residents::resume(&mut chain, &mut network, market).map_err(Box::new)).transpose()?;
    Ok(Built { chain, kept: Some(kept), instance, not_copied: Vec::new(), network, residents })
}

/// Properties of a new rehearsal's chain.
struct StartPlan {
    network: Network,
    holder: Option<Address>,
    /// Wall clock, in seconds since the Unix epoch; `None` for a chain whose time is its blocks'.
    now: Option<u64>,
    /// Seed of the residents' market; `None` without residents.
    seed: Option<u64>,
}

fn build(origin: &Arc<Origin>, plan: StartPlan, folder: Option<&KeptFolder>) -> Result<Built, RehearsalError> {
    let StartPlan { mut network, holder, now, seed } = plan;
    let accounts: Vec<Address> = DevnetAccount::development_accounts()?.iter().map(DevnetAccount::address).collect();
    let wanted: Vec<Address> = accounts.iter().copied().chain(holder).collect();
    let mut chain = Chain::forked(Arc::clone(origin), network.chain_id, HISTORY, &wanted)?;
    if let Some(now) = now {
        chain.continue_time(now);
    }
    // A holder among these accounts keeps what it has.
    for account in accounts.iter().filter(|account| Some(**account) != holder) {
        chain.open_account(*account, U256::from(PLAY_BALANCE));
    }
    let mut not_copied = Vec::new();
    if let (Some(holder), Some(stand_in)) = (holder, accounts.first()) {
        let (holdings, names): (Vec<Holding>, Vec<SafeText>) =
            holdings(&network, holder, *stand_in).into_iter().unzip();
        let missing = chain.copy_holdings(holder, *stand_in, &holdings);
        let missing = missing.map_err(|reason| RehearsalError::Holdings { holder, reason })?;
        not_copied = missing.into_iter().filter_map(|place| names.get(place).cloned()).collect();
    }
    let settled = seed.map(|seed| residents::settle(&mut chain, &mut network, seed).map_err(Box::new)).transpose();
    // What could not be read was taken as nothing on the way, and must not become what the stand-in holds.
    if let Some(error) = origin.take_failure() {
        return Err(error.into());
    }
    let (residents, market) = settled?.unzip();
    let instance = InstanceId::random();
    let kept = match (folder, network.rehearses) {
        (Some(folder), Some(block)) => {
            let fork = KeptFork { network: network.name.clone(), block, holder, market };
            Some(folder.begin_fork(instance, fork, &chain)?)
        }
        (Some(_) | None, _) => None,
    };
    Ok(Built { chain, kept, instance, not_copied, network, residents })
}

/// Balances and allowances of an account in the network's tokens, with a description of each.
fn holdings(network: &Network, owner: Address, stand_in: Address) -> Vec<(Holding, SafeText)> {
    let book = &network.book;
    let mut found = Vec::new();
    let mut add = |contract: Address, of: &dyn Fn(Address) -> Vec<u8>, what: String| {
        let call = |account| Bytes::from(of(account));
        let holding = Holding { contract, of_owner: call(owner), of_stand_in: call(stand_in) };
        found.push((holding, SafeText::clean(&what, 120)));
    };
    let takers: Vec<(KnownContract, Address)> =
        book.contracts().filter(|(contract, _)| contract.spender_role().is_ok()).collect();
    for token in book.tokens() {
        let symbol = &token.symbol;
        add(token.address, &|owner| Erc20::balanceOfCall { owner }.abi_encode(), format!("the balance of {symbol}"));
        for (contract, spender) in &takers {
            let of = |owner| Erc20::allowanceCall { owner, spender: *spender }.abi_encode();
            add(token.address, &of, format!("the allowance of {symbol} for {}", contract.name()));
        }
        let Some(permit2) = book.contract(KnownContract::Permit2) else { continue };
        for (contract, spender) in takers.iter().filter(|(_, spender)| *spender != permit2) {
            let of = |user| {
                let call = Permit2::allowanceCall { owner: user, token: token.address, spender: *spender };
                call.abi_encode()
            };
            add(permit2, &of, format!("the Permit2 allowance of {symbol} for {}", contract.name()));
        }
    }
    found
}
