//! Where forks come from: a devnet in this process, or endpoints.

use std::sync::Arc;

use alloy::{
    eips::BlockId,
    primitives::{Address, B256},
};

use super::{Fork, ForkError, MAX_TEXT, Remote, RemoteLimits};
use crate::{
    devnet::Devnet,
    evm::{BlockContext, ChainRules},
    provider::{Backing, ChainClient},
};
use bardo_base::text::SafeText;

/// A chain that blocks can be pinned of. Cheap to clone; clones share their caches, so keep one
/// per chain.
#[derive(Debug, Clone)]
pub enum Source {
    /// In this process: a fork takes its state as it is.
    Devnet(Devnet),
    /// Behind an endpoint: a fork reads what it needs.
    Remote(Arc<Remote>),
}

/// What is known about the block after the pinned one. What is left out follows from its parent,
/// or, on a devnet, is what the chain itself is going to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextBlock {
    /// Seconds since the Unix epoch; otherwise one second after the parent.
    pub timestamp: Option<u64>,
    /// Who receives the priority fees; otherwise as in the parent.
    pub coinbase: Option<Address>,
    /// Wei per gas; otherwise by EIP-1559 with Ethereum's parameters, which some rollups change.
    pub base_fee: Option<u64>,
    /// The block's randomness; otherwise the parent's, since the next is not known to anyone.
    pub prevrandao: Option<B256>,
}

impl Source {
    /// The source behind a connected chain. Endpoints are taken to follow Osaka's rules.
    pub fn of(client: &ChainClient) -> Self {
        match client.backing() {
            Backing::Devnet(devnet) => Self::Devnet(devnet.clone()),
            Backing::Endpoints(stack) => {
                let rules = ChainRules { chain_id: client.chain_id(), spec: client.network().hardfork };
                let (provider, witnesses) = (client.provider().clone(), Some(stack.clone()));
                Self::Remote(Remote::witnessed_by(provider, witnesses, rules, RemoteLimits::default()))
            }
        }
    }
}

impl Fork {
    /// Pins `block` of `source`; the calls to come run in the block after it.
    ///
    /// # Errors
    /// See [`ForkError`]: an unknown block, a stopped devnet, an endpoint that fails or is another chain's.
    pub async fn pin(source: &Source, block: BlockId, next: NextBlock) -> Result<Self, ForkError> {
        match source {
            Source::Devnet(devnet) => {
                let snapshot = devnet.snapshot(block).await.map_err(|_| ForkError::Stopped)?;
                let mut snapshot =
                    snapshot.map_err(|error| ForkError::State(SafeText::clean(&error.to_string(), MAX_TEXT)))?;
                next.correct(&mut snapshot.next);
                Ok(Self::on_devnet(snapshot))
            }
            Source::Remote(remote) => remote.pin(block, next).await,
        }
    }
}

impl NextBlock {
    /// Puts what is known in the place of what was derived.
    pub(super) fn correct(&self, context: &mut BlockContext) {
        let Self { timestamp, coinbase, base_fee, prevrandao } = *self;
        context.timestamp = timestamp.unwrap_or(context.timestamp);
        context.coinbase = coinbase.unwrap_or(context.coinbase);
        context.base_fee = base_fee.unwrap_or(context.base_fee);
        context.prevrandao = prevrandao.unwrap_or(context.prevrandao);
    }
}
