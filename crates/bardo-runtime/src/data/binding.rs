//! Mapping from chains to their ledger, and the record in the ledger that proves it.

use std::collections::BTreeMap;

use alloy::eips::BlockNumberOrTag;
use alloy::primitives::B256;
use alloy::providers::{DynProvider, Provider};
use rusqlite::{OptionalExtension, params};
use serde_json::value::RawValue;

use super::{DataError, LedgerKind};
use crate::OpenEnvironment;
use bardo_base::id::InstanceId;
use bardo_store::{Migrations, Store, StoreError};
use golem_chain::network::{NetworkDescription, NetworkKind};
use golem_chain::provider::ProviderError;
use golem_tools::engine::ConnectedChain;

/// Folder of the ledger that all real networks share.
pub(crate) const REAL: &str = "real";

/// Table of the ledger's name, and of the first block of each of its chains.
pub(super) const MIGRATIONS: Migrations = Migrations {
    room: "runtime",
    steps: &["CREATE TABLE runtime_ledger (id TEXT NOT NULL PRIMARY KEY) STRICT;
    CREATE TABLE runtime_genesis (
        chain_id INTEGER NOT NULL PRIMARY KEY,
        hash BLOB NOT NULL
    ) STRICT"],
};

/// Identity of a set of chains.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChainSetIdentity {
    pub(super) kind: LedgerKind,
    /// Name of the ledger's folder.
    pub(super) folder: String,
    /// Name of a new ledger.
    name: String,
    /// Name and hash of the first block of each devnet chain, by chain id.
    pub(super) genesis: BTreeMap<u64, (String, B256)>,
}

impl ChainSetIdentity {
    /// Identity of all real networks together; the name is used for a new ledger.
    pub(super) fn real() -> Self {
        Self {
            kind: LedgerKind::Real,
            folder: REAL.to_owned(),
            name: format!("real-{}", InstanceId::random()),
            genesis: BTreeMap::new(),
        }
    }

    pub(super) async fn of(opened: &OpenEnvironment) -> Result<Self, DataError> {
        let world = &opened.world;
        let chains = world.chains();
        let devnet = chains.iter().find(|chain| chain.network().kind == NetworkKind::Devnet);
        let real = chains.iter().find(|chain| chain.network().kind != NetworkKind::Devnet);
        match (devnet, real) {
            (Some(devnet), Some(other)) => {
                Err(DataError::Mixed { devnet: devnet.network().to_string(), other: other.network().to_string() })
            }
            (None, Some(_)) => Ok(Self::real()),
            (None, None) => Err(match world.lost().first() {
                Some(lost) => lost.reason.clone().into(),
                None => DataError::NoChain,
            }),
            (Some(_), None) => {
                let mut genesis = BTreeMap::new();
                for chain in chains {
                    genesis.insert(chain.network().chain_id, (chain.network().to_string(), first_block(chain).await?));
                }
                let folder = match (&opened.sandbox, &opened.rehearsal) {
                    (_, Some(rehearsal)) if rehearsal.is_kept => format!("devnet-{}", rehearsal.instance),
                    (_, Some(rehearsal)) => format!("embedded-{}", rehearsal.instance),
                    // A kept devnet may be served to other processes the next time; they use the same name.
                    (Some(sandbox), None) if sandbox.is_kept() => format!("devnet-{}", sandbox.instance()),
                    (Some(sandbox), None) => format!("embedded-{}", sandbox.instance()),
                    (None, None) => match instance(chains).await? {
                        Some(instance) => format!("devnet-{instance}"),
                        // A node without a devnet id: only its first block identifies it.
                        None => match genesis.values().next() {
                            Some((_, hash)) => format!("devnet-genesis-{}", alloy::hex::encode(hash)),
                            None => return Err(DataError::NoChain),
                        },
                    },
                };
                Ok(Self { kind: LedgerKind::Devnet, name: folder.clone(), folder, genesis })
            }
        }
    }
}

/// Reads the hash of a chain's first block.
async fn first_block(chain: &ConnectedChain) -> Result<B256, DataError> {
    let failed = |reason| DataError::Unidentified { chain: chain.network().to_string(), reason };
    let read = |provider: DynProvider| async move {
        let block = provider.get_block_by_number(BlockNumberOrTag::Earliest).await?;
        Ok(block.map(|block| block.header.hash))
    };
    let hash = chain.client.read_possible(read, Option::is_some).await.map_err(failed)?;
    let missing = || ProviderError::Decode { detail: bardo_base::text::SafeText::clean("it has no first block", 40) };
    hash.ok_or_else(|| failed(missing()))
}

/// Reads the id of the devnet that the chains belong to, if it has one.
async fn instance(chains: &[ConnectedChain]) -> Result<Option<InstanceId>, DataError> {
    let mut named: Option<(String, Option<InstanceId>)> = None;
    for chain in chains {
        let provider = chain.client.provider();
        let answer = provider.raw_request::<_, Box<RawValue>>("bardo_describe".into(), [(); 0]).await;
        let found = match answer.map_err(ProviderError::from) {
            Ok(answer) => NetworkDescription::parse(answer.get()).ok().and_then(|description| description.instance),
            // A node without this method has no id.
            Err(ProviderError::Rpc { .. }) => None,
            Err(reason) => {
                return Err(DataError::Unidentified { chain: chain.network().to_string(), reason });
            }
        };
        match &named {
            Some((_, known)) if *known == found => {}
            Some((first, _)) => {
                let (first, second) = (first.clone(), chain.network().to_string());
                return Err(DataError::TwoDevnets { first, second });
            }
            None => named = Some((chain.network().to_string(), found)),
        }
    }
    Ok(named.and_then(|(_, instance)| instance))
}

/// Initialises the ledger for these chains, or checks that it belongs to them; returns its name.
pub(super) async fn bind(store: &Store, identity: &ChainSetIdentity) -> Result<String, DataError> {
    let path = store.path().to_owned();
    let name = identity.name.clone();
    let genesis = identity.genesis.clone();
    let bound = store.write(move |tx| {
        let known: Option<String> =
            tx.query_row("SELECT id FROM runtime_ledger", [], |row| row.get(0)).optional().map_err(StoreError::from)?;
        let id = match known {
            Some(id) => id,
            None => {
                tx.execute("INSERT INTO runtime_ledger (id) VALUES (?1)", [&name]).map_err(StoreError::from)?;
                name
            }
        };
        for (chain_id, (chain, found)) in genesis {
            // Devnet ids are two small numbers; a larger one that wraps still has its own row.
            let key = chain_id as i64;
            let bound: Option<Vec<u8>> = tx
                .query_row("SELECT hash FROM runtime_genesis WHERE chain_id = ?1", [key], |row| row.get(0))
                .optional()
                .map_err(StoreError::from)?;
            match bound {
                Some(bound) if bound == found.as_slice() => {}
                Some(bound) => {
                    let bound = B256::try_from(bound.as_slice()).unwrap_or_default();
                    return Err(DataError::OtherGenesis { path, chain, bound, found });
                }
                None => {
                    tx.execute(
                        "INSERT INTO runtime_genesis (chain_id, hash) VALUES (?1, ?2)",
                        params![key, found.as_slice()],
                    )
                    .map_err(StoreError::from)?;
                }
            }
        }
        Ok(id)
    });
    bound.await
}
