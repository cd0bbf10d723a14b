//! Sources of forks: a devnet in this process, or endpoints.

use std::sync::Arc;

use alloy::{
    eips::BlockId,
    primitives::{Address, B256},
};

use super::{Fork, ForkError, MAX_TEXT, RemoteLimits, RemoteState};
use crate::{
    devnet::Devnet,
    evm::{BlockContext, ChainRules},
    provider::{ChainClient, ClientBackend},
};
use bardo_base::text::SafeText;

/// A chain whose blocks can be pinned. Cheap to clone; clones share their caches, so keep one per chain.
#[derive(Debug, Clone)]
pub enum ForkSource {
    /// A devnet in this process; forks share its state.
    Devnet(Devnet),
    /// A chain behind endpoints; forks fetch the values they read.
    Remote(Arc<RemoteState>),
}

/// Known properties of the block after the pinned one. Missing ones follow from the parent block, or on a devnet from
/// the devnet's own next block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextBlock {
    /// Block time in seconds since the Unix epoch; default: one second after the parent.
    pub timestamp: Option<u64>,
    /// Recipient of the priority fees; default: the parent's.
    pub coinbase: Option<Address>,
    /// Base fee in wei per gas; default: by EIP-1559 with Ethereum's parameters, which some rollups change.
    pub base_fee: Option<u64>,
    /// Randomness of the block; default: the parent's, since the next value is unknown.
    pub prevrandao: Option<B256>,
}

impl ForkSource {
    /// Creates the source of a connected chain. Endpoints follow the hardfork of the client's network.
    pub fn of(client: &ChainClient) -> Self {
        match client.backing() {
            ClientBackend::Devnet(devnet) => Self::Devnet(devnet.clone()),
            ClientBackend::Endpoints(stack) => {
                let rules = ChainRules { chain_id: client.chain_id(), spec: client.network().hardfork };
                let (provider, witnesses) = (client.provider().clone(), Some(stack.clone()));
                Self::Remote(RemoteState::witnessed_by(provider, witnesses, rules, RemoteLimits::default()))
            }
        }
    }
}

impl Fork {
    /// Pins `block` of `source`; simulated calls run in the block after it.
    ///
    /// # Errors
    /// [`ForkError`] for an unknown block, a stopped devnet, a failed request, or another chain behind the endpoint.
    pub async fn pin(source: &ForkSource, block: BlockId, next: NextBlock) -> Result<Self, ForkError> {
        match source {
            ForkSource::Devnet(devnet) => {
                let snapshot = devnet.snapshot(block).await.map_err(|_| ForkError::Stopped)?;
                let mut snapshot =
                    snapshot.map_err(|error| ForkError::State(SafeText::clean(&error.to_string(), MAX_TEXT)))?;
                next.correct(&mut snapshot.next);
                Ok(Self::on_devnet(snapshot))
            }
            ForkSource::Remote(remote) => remote.pin(block, next).await,
        }
    }
}

impl NextBlock {
    /// Overrides the derived values with the known ones.
    pub(super) fn correct(&self, context: &mut BlockContext) {
        let Self { timestamp, coinbase, base_fee, prevrandao } = *self;
        context.timestamp = timestamp.unwrap_or(context.timestamp);
        context.coinbase = coinbase.unwrap_or(context.coinbase);
        context.base_fee = base_fee.unwrap_or(context.base_fee);
        context.prevrandao = prevrandao.unwrap_or(context.prevrandao);
    }
}
