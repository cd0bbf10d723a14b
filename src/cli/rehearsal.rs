//! `bardo devnet --fork`: a local copy of a live network on a loopback port, for other programs.

use std::sync::Arc;
use std::time::Instant;

use super::args::DevnetArguments;
use super::devnet::{interruption, print_description, sandbox};
use super::{CliExit, CommandFailure};
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::{Config, ForkSettings};
use bardo_runtime::rehearsal::{Rehearsal, start};
use bardo_sandbox::keys::DevnetAccount;
use bardo_sandbox::services::{self, ServiceServer};
use bardo_sandbox::{BlockPace, MarketMode, Sandbox};
use golem_chain::devnet::server::serve as serve_chain;
use golem_chain::network::{ChainDescription, NetworkDescription};

/// Serves the rehearsal until it is interrupted.
pub(super) fn serve(
    config: &Config,
    fork: &ForkSettings,
    arguments: &DevnetArguments,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let started = Instant::now();
    let pace = sandbox(arguments.seed, arguments.block_time.unwrap_or(BlockPace::Live), MarketMode::On);
    let runtime = bardo_base::runtime::multi_threaded(Some(2))?;
    runtime.block_on(async {
        let interrupted = interruption()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let rehearsal = start(config, fork, pace, clock).await?;
        let server = serve_chain(rehearsal.devnet.clone(), arguments.port).await?;
        let accounts: Vec<_> = DevnetAccount::development_accounts()?.iter().map(DevnetAccount::address).collect();
        let chain = ChainDescription { rpc: server.url(), ..ChainDescription::of(&rehearsal.network, &accounts) };
        let services = match &rehearsal.residents {
            Some(residents) => {
                let sandbox = Sandbox::of_rehearsal(residents.clone(), rehearsal.instance, rehearsal.is_kept)?;
                Some(services::serve(&sandbox, 0).await?)
            }
            None => None,
        };
        let description = NetworkDescription {
            chains: vec![chain],
            instance: Some(rehearsal.instance),
            order_service: services.as_ref().map(ServiceServer::url),
            ..NetworkDescription::default()
        };
        rehearsal.devnet.set_description(serde_json::to_value(&description)?).await?;
        print_description(&description, json)?;
        for line in about(&rehearsal) {
            eprintln!("bardo: {line}");
        }
        eprintln!("bardo: ready after {} ms; press Ctrl-C to stop", started.elapsed().as_millis());
        let mut head = rehearsal.devnet.head();
        let stopped = async move { while head.changed().await.is_ok() {} };
        tokio::select! {
            () = interrupted => {}
            () = stopped => {
                let words = "the chain stopped because its state could not be saved; see the log for the reason";
                return Err(words.to_owned().into());
            }
        }
        server.stop().await;
        Ok(CliExit::Success)
    })
}

/// Origin of a rehearsal and holdings of its stand-in, one fact per line.
pub(super) fn about(rehearsal: &Rehearsal) -> Vec<String> {
    let origin = &rehearsal.origin;
    let from = if origin.is_offline() { ", from the cache, because no endpoint responds" } else { "" };
    let mut lines = vec![format!(
        "REHEARSAL of {} at block {} ({}){from}; chain id {}",
        origin.network().name,
        origin.number(),
        origin.hash(),
        rehearsal.network.chain_id
    )];
    let stand_in = rehearsal.stand_in;
    lines.push(match rehearsal.holder {
        Some(holder) => format!("the stand-in {stand_in} has what {holder} held at that block"),
        None => format!("the stand-in {stand_in} has 10 of the native token; --holder gives it what an account holds"),
    });
    if !rehearsal.not_copied.is_empty() {
        let missing: Vec<_> = rehearsal.not_copied.iter().map(ToString::to_string).collect();
        lines.push(format!("not copied, because it is not stored in plain slots: {}", missing.join(", ")));
    }
    if let Some(residents) = &rehearsal.residents {
        let pools = residents.deployment.pools.len();
        lines.push(format!("traders act on {pools} pools, and fillers on UniswapX orders; price feeds stand still"));
    }
    lines.push(match rehearsal.is_kept {
        true => "it is kept and continues in the next run".to_owned(),
        false => "it is discarded at exit (--data NAME keeps it)".to_owned(),
    });
    lines
}
