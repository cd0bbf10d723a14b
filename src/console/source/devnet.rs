//! The embedded devnet as a source: boots both chains, telling of every step, then follows their blocks.

use std::sync::Arc;

use tokio::sync::watch;

use super::reader::{ChainReader, PoolPlace};
use super::{StatusSource, Updates};
use crate::base::clock::{Clock, SystemClock};
use crate::base::text::SafeText;
use crate::chain::devnet::Block;
use crate::console::state::model::{BootStep, ChainIdentity, Money, Network, PoolVersion, Update};
use crate::sandbox::genesis::{Deployment, Stage};
use crate::sandbox::plan::Venue;
use crate::sandbox::{MarketMode, Pace, Progress, Sandbox, SandboxChain, SandboxConfig};

/// Two chains in this process, with a market on them.
#[derive(Debug, Clone, Copy)]
pub struct DevnetSource {
    /// Decides everything the market does.
    pub seed: u64,
}

impl StatusSource for DevnetSource {
    fn start(self: Box<Self>, updates: Updates) {
        tokio::spawn(async move {
            let telling = updates.clone();
            let seed = self.seed;
            // A boot that panics has ended the console by its report.
            let Ok(booted) = tokio::task::spawn_blocking(move || boot(seed, &telling)).await else { return };
            match booted {
                Ok(sandbox) => follow(&sandbox, &updates).await,
                Err(words) => tell(&updates, Update::Fault { chain: None, message: words }).await,
            }
        });
    }
}

fn boot(seed: u64, updates: &Updates) -> Result<Sandbox, SafeText> {
    let config = SandboxConfig {
        seed,
        start_time: SystemClock.now_seconds(),
        pace: Pace::Live,
        clock: Some(Arc::new(SystemClock)),
        market: MarketMode::On,
        keeper: true,
    };
    let report = |progress: Progress| {
        // A console that has closed needs no news.
        let _ = updates.blocking_send(Update::Boot(step_of(progress)));
    };
    Sandbox::boot(&config, &report).map_err(|error| SafeText::clean(&error.to_string(), 200))
}

fn step_of(progress: Progress) -> BootStep {
    let (step, detail) = match progress.stage {
        Stage::Contracts => ("deploying the protocols' contracts", String::new()),
        Stage::Pools => ("creating pools", String::new()),
        Stage::Funds => ("funding everybody", String::new()),
        Stage::Liquidity => ("filling the pools", String::new()),
        Stage::Past { done, of } => ("living through two hours of market", format!("block {done} of {of}")),
        Stage::Ready => ("running", String::new()),
    };
    BootStep {
        chain: SafeText::clean(progress.chain, 40),
        step: SafeText::clean(step, 80),
        detail: SafeText::clean(&detail, 40),
        done: progress.stage == Stage::Ready,
    }
}

async fn follow(sandbox: &Sandbox, updates: &Updates) {
    let networks = sandbox.description().networks();
    let wallet = sandbox.accounts().first().copied().unwrap_or_default();
    let chains = networks.iter().map(|network| ChainIdentity {
        name: SafeText::clean(&network.name, 40),
        id: network.chain_id,
        interval_millis: Some(network.block_millis),
    });
    let started = Network { name: SafeText::clean("devnet", 40), money: Money::Play, chains: chains.collect(), wallet };
    tell(updates, Update::Started(started)).await;
    let chains = networks.into_iter().zip(sandbox.chains()).enumerate().map(|(place, (network, chain))| {
        let pools = pools_of(&chain.deployment);
        let reader = ChainReader::new(place, network, chain.devnet.provider(), wallet, pools);
        follow_chain(place, reader, chain, updates)
    });
    futures::future::join_all(chains).await;
}

pub(super) fn pools_of(deployment: &Deployment) -> Vec<PoolPlace> {
    let place = |pool: &crate::sandbox::genesis::Pool| PoolPlace {
        address: pool.address,
        version: match pool.venue {
            Venue::V2 => PoolVersion::V2,
            Venue::V3(_) => PoolVersion::V3,
        },
        fee_pips: pool.venue.fee(),
        token0: pool.token0.address,
        token1: pool.token1.address,
    };
    deployment.pools.iter().map(place).collect()
}

async fn follow_chain(
    place: usize,
    reader: Result<ChainReader, super::reader::ReadError>,
    chain: &SandboxChain,
    updates: &Updates,
) {
    let fault = |words: String| Update::Fault { chain: Some(place), message: SafeText::clean(&words, 160) };
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(error) => return tell(updates, fault(error.to_string())).await,
    };
    let mut head: watch::Receiver<Arc<Block>> = chain.devnet.head();
    // The block that is there already is news, too.
    head.mark_changed();
    loop {
        tokio::select! {
            () = updates.closed() => return,
            changed = head.changed() => if changed.is_err() {
                return tell(updates, fault("the chain has stopped".to_owned())).await;
            },
        }
        let number = head.borrow_and_update().number();
        let update = match reader.read(number).await {
            Ok(snapshot) => Update::Chain(Box::new(snapshot)),
            Err(error) => fault(error.to_string()),
        };
        tell(updates, update).await;
    }
}

async fn tell(updates: &Updates, update: Update) {
    // A console that has closed needs no news.
    let _ = updates.send(update).await;
}
