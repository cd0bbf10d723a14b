//! With whose hands a world is acted on: the account, the operator's rules, and the pipeline over both.
//! On devnets that is the development mnemonic's first account; on any other network nobody yet, and a write
//! answers `WALLET_NOT_CONFIGURED`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::data::{DataFolder, Ledger};
use super::{OpenWorld, policy};
use crate::base::clock::Clock;
use crate::base::config::Config;
use crate::base::error::{ErrorCode, ToolError};
use crate::base::model::Phase;
use crate::base::units::Usd;
use crate::chain::network::{Network, NetworkKind};
use crate::chain::sender::{Sender, SenderRules};
use crate::custody::DevelopmentAccount;
use crate::engine::{Acting, ApprovalMode, Paper, WorldChain};
use crate::fabric::Fabric;
use crate::safety::approval::ApprovalDesk;
use crate::safety::ground::Ground;
use crate::safety::operator::OperatorRules;
use crate::safety::pipeline::{Pipeline, PipelineChain, PipelineConfig};
use crate::safety::policy::Keeper;
use crate::safety::stop::StopFile;

/// A permit serves so long.
const PERMIT_TTL: Duration = Duration::from_secs(60);
/// A question to the operator lapses after so long.
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(300);
/// A receipt is waited for so long; after that the answer is that it is not known yet.
const PATIENCE: Duration = Duration::from_secs(60);
/// A pool must hold so many dollars before its mean is a price.
const MINIMUM_DEPTH_CENTS: u64 = 10_000_000;

/// What writes go through, and whose rules they are held to: for whoever follows the rules' file.
#[derive(Debug, Clone)]
pub struct Furnished {
    /// What an executor needs.
    pub acting: Acting,
    /// The policy in force, and what waits beside it.
    pub keeper: Arc<Keeper>,
}

/// Makes what writes go through, and ends what an earlier run on this ledger left half-way. `None` where there
/// is no account.
///
/// # Errors
/// A policy that cannot be used, or a ledger that cannot be brought to its end.
pub async fn acting(
    config: &Config,
    opened: &OpenWorld,
    ledger: &Ledger,
    fabric: &Fabric,
    clock: Arc<dyn Clock>,
) -> Result<Option<Acting>, ToolError> {
    Ok(furnish(config, opened, ledger, fabric, clock).await?.map(|furnished| furnished.acting))
}

/// As [`acting`], with the policy's keeper.
///
/// # Errors
/// As [`acting`].
pub async fn furnish(
    config: &Config,
    opened: &OpenWorld,
    ledger: &Ledger,
    fabric: &Fabric,
    clock: Arc<dyn Clock>,
) -> Result<Option<Furnished>, ToolError> {
    let chains = opened.world.chains();
    let devnet = |chain: &WorldChain| chain.network().kind == NetworkKind::Devnet;
    if chains.is_empty() || !chains.iter().all(devnet) {
        return Ok(None);
    }
    let account = DevelopmentAccount::new(0, chains.iter().map(|chain| &chain.client))
        .map_err(|error| ToolError::new(ErrorCode::WalletNotConfigured, error))?;
    let keeper = policy::open(config, true)
        .map_err(|error| ToolError::new(ErrorCode::ValidationFailed, format_args!("the policy: {error}")))?;
    let keeper = Arc::new(keeper);
    let minimum_depth = Usd::from_scaled(alloy::primitives::U256::from(MINIMUM_DEPTH_CENTS), 2)
        .map_err(|error| ToolError::new(ErrorCode::ValidationFailed, error))?;
    let networks: Vec<Network> = chains.iter().map(|chain| chain.network().clone()).collect();
    let stop = StopFile::in_folder(DataFolder::of(config).root());
    let rules = Arc::new(OperatorRules::new(Arc::clone(&keeper), stop, ledger.store.clone(), networks));
    let pipeline = Pipeline::new(PipelineConfig {
        chains: chains.iter().map(|chain| pipeline_chain(chain, ledger, &clock, minimum_depth)).collect(),
        store: ledger.store.clone(),
        rules,
        clock: clock.clone(),
        fabric: fabric.clone(),
        desk: ApprovalDesk::new(clock, fabric.clone(), APPROVAL_TIMEOUT),
        guardian: None,
        permit_ttl: PERMIT_TTL,
        patience: PATIENCE,
    });
    pipeline.recover().await.map_err(|refusal| refusal.error())?;
    // Nobody runs a Golem here whose phase could change.
    let (_, phase) = watch::channel(Phase::Thriving);
    let paper = Paper::default();
    let acting = Acting { pipeline, account: Arc::new(account), phase, approve: ApprovalMode::Never, paper };
    Ok(Some(Furnished { acting, keeper }))
}

fn pipeline_chain(chain: &WorldChain, ledger: &Ledger, clock: &Arc<dyn Clock>, minimum_depth: Usd) -> PipelineChain {
    let network = chain.network();
    let rules = SenderRules::for_network(network.kind, network.block_millis);
    PipelineChain {
        ground: Ground::new(chain.client.clone(), chain.prices.clone(), minimum_depth),
        sender: Sender::new(chain.client.clone(), ledger.store.clone(), clock.clone(), None, rules),
    }
}
