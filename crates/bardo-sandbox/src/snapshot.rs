//! The genesis snapshot: both chains after genesis, in one bundled file, so that a devnet starts without deployments.
//! The deployment code remains the source: a test runs it and compares everything, and `cargo run --release --example
//! genesis` writes the file again.
//!
//! The file contains digests of its inputs (contracts and plan) and of each chain. A snapshot of another plan or a
//! damaged one is an error, with no fallback to a deployment.
//!
//! The agents' past is bundled as signed transactions, which are executed at the start.
//!
//! Not here: deployment (see `genesis`), and the market history, which depends on seed and time (see `boot`).

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, OnceLock};

use alloy::consensus::TxEnvelope;
use alloy::eips::{Decodable2718, Encodable2718};
use alloy::primitives::{Address, B256, Keccak256, keccak256};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use super::actors::Actors;
use super::agents::history::PAST;
use super::agents::population::AGENTS;
use super::agents::{PastBlock, sign_past};
use super::contracts::BundledContract;
use super::error::SandboxError;
use super::genesis::{DeployedToken, Deployment, GenesisPool, StartStage, V4GenesisPool, empty_chain, furnish};
use super::keys::DevnetAccount;
use super::plan::{
    ASYNC_VAULTS, AsyncVaultSetup, BURN_THRESHOLD, CHAINS, ChainSetup, HOSTILE_POOL_DOLLARS, HostileHook, LENDING,
    OBSERVATIONS, PROTOCOL_FEE_POOLS, PoolCurrency, PoolHook, PoolSetup, ReserveSetup, STAIRS, SandboxToken,
    TokenSetup, V4PoolSetup, VAULT, VaultSetup, Venue, ranges_of,
};
use super::target::{AssetPrices, PricedAsset};
use golem_chain::devnet::bytes::{ByteReader, ByteWriter, BytesError};
use golem_chain::devnet::image::ImageError;
use golem_chain::devnet::{Chain, ChainTransaction};

/// Timestamp of block 0, in seconds since the Unix epoch: 14 November 2023. It is the same for every devnet, and so are
/// its first blocks. The market history begins later, at a time that depends on the start.
pub const GENESIS_TIME: u64 = 1_700_000_000;

/// The bundled snapshot file.
const FILE: &[u8] = include_bytes!("../../../assets/genesis/devnet.bin");

/// First bytes of the file, including the format version.
const MAGIC: &[u8] = b"bardo devnet genesis 2\n";

/// Maximum size of a decompressed chain, in bytes.
const MAX_UNPACKED: u64 = 256 << 20;

/// Error for a snapshot that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The snapshot was created from another plan.
    #[error("it was built from a different plan")]
    Outdated,
    /// The digest of a section is wrong.
    #[error("its digest is wrong")]
    Digest,
    /// The snapshot does not contain the chain.
    #[error("it has no chain {0}")]
    NoChain(&'static str),
    /// A section cannot be compressed or decompressed.
    #[error("it cannot be unpacked: {0}")]
    Unpack(String),
    /// A section does not contain a valid chain.
    #[error("a chain in it cannot be read: {0}")]
    Image(#[from] ImageError),
    /// A transaction of the agents' past is malformed.
    #[error("a transaction in it cannot be read")]
    Past,
    /// The address book does not match the plan.
    #[error("its address book does not match the plan: {0}")]
    AddressBook(String),
}

impl From<BytesError> for SnapshotError {
    fn from(error: BytesError) -> Self {
        Self::Image(error.into())
    }
}

/// A chain after genesis, with its address book.
#[derive(Clone)]
pub struct PopulatedChain {
    /// The chain after the last block of genesis.
    pub chain: Chain,
    /// Addresses of everything that genesis deployed.
    pub deployment: Deployment,
    /// Signed past of the agents, oldest block first. It happens at the start, to be recent.
    pub past: Arc<[PastBlock]>,
}

/// The chain of `plan` from the snapshot. The file is read once per process; later calls return cheap clones.
///
/// # Errors
/// [`SandboxError::Snapshot`] if the file cannot be used.
pub fn furnished(plan: &'static ChainSetup) -> Result<PopulatedChain, SandboxError> {
    static READ: [OnceLock<Result<PopulatedChain, SnapshotError>>; CHAINS.len()] =
        [const { OnceLock::new() }; CHAINS.len()];
    let place = CHAINS.iter().position(|known| known.chain_id == plan.chain_id).and_then(|place| READ.get(place));
    let place = place.ok_or(SandboxError::Snapshot(SnapshotError::NoChain(plan.name)))?;
    place.get_or_init(|| read(FILE, plan)).clone().map_err(SandboxError::Snapshot)
}

/// Like [`furnished`] without its cache, for measurements.
///
/// # Errors
/// [`SandboxError::Snapshot`] if the file cannot be used.
pub fn furnished_from_file(plan: &'static ChainSetup) -> Result<PopulatedChain, SandboxError> {
    read(FILE, plan).map_err(SandboxError::Snapshot)
}

/// Runs genesis at [`GENESIS_TIME`] with the anchor prices. Takes as long as all deployments together.
///
/// # Errors
/// A [`SandboxError`] that names the step that failed.
pub fn run_genesis(plan: &'static ChainSetup, report: &dyn Fn(StartStage)) -> Result<PopulatedChain, SandboxError> {
    let (actors, accounts) = (Actors::new()?, DevnetAccount::development_accounts()?);
    let mut chain = empty_chain(plan, &actors, &accounts, GENESIS_TIME)?;
    let demo = accounts.first().map(DevnetAccount::address).unwrap_or_default();
    let deployment = furnish(&mut chain, plan, &actors, demo, &AssetPrices::anchors(), report)?;
    let past = sign_past(chain.clone(), &deployment)?.into();
    Ok(PopulatedChain { chain, deployment, past })
}

/// Creates the file's content by running genesis for both chains. The same program always creates the same bytes.
///
/// # Errors
/// As for [`run_genesis`].
pub fn build_snapshot() -> Result<Vec<u8>, SandboxError> {
    let mut writer = ByteWriter::default();
    writer.hash(plan_digest());
    writer.hash(contracts_digest()?);
    writer.length(CHAINS.len());
    for plan in CHAINS {
        let made = run_genesis(plan, &|_| {})?;
        let section = content(&made).and_then(|content| pack(&content)).map_err(SandboxError::Snapshot)?;
        writer.bytes(plan.name.as_bytes());
        writer.hash(keccak256(&section));
        writer.bytes(&section);
    }
    Ok([MAGIC, &writer.into_bytes()].concat())
}

/// Returns true if the file was created from the bundled contracts. At run time only the plan is compared, which is
/// cheap; this function is for tests.
///
/// # Errors
/// A [`SandboxError`] for a damaged bundle or file.
pub fn is_made_of_bundled_contracts() -> Result<bool, SandboxError> {
    let read = || -> Result<(B256, B256), SnapshotError> {
        let mut reader = ByteReader::new(FILE.strip_prefix(MAGIC).ok_or(SnapshotError::Outdated)?);
        Ok((reader.hash()?, reader.hash()?))
    };
    Ok(read().map_err(SandboxError::Snapshot)? == (plan_digest(), contracts_digest()?))
}

/// Section of the file for the chain of `plan`, with verified digest.
fn section<'a>(file: &'a [u8], plan: &ChainSetup) -> Result<&'a [u8], SnapshotError> {
    let mut reader = ByteReader::new(file.strip_prefix(MAGIC).ok_or(SnapshotError::Outdated)?);
    let (made_of_plan, _contracts) = (reader.hash()?, reader.hash()?);
    if made_of_plan != plan_digest() {
        return Err(SnapshotError::Outdated);
    }
    for _ in 0..reader.length()? {
        let (name, digest, section) = (reader.text()?, reader.hash()?, reader.bytes()?);
        if name == plan.name {
            return if keccak256(section) == digest { Ok(section) } else { Err(SnapshotError::Digest) };
        }
    }
    Err(SnapshotError::NoChain(plan.name))
}

/// Serialises the address book as JSON, followed by the chain's image and the agents' past.
fn content(furnished: &PopulatedChain) -> Result<Vec<u8>, SnapshotError> {
    let book = serde_json::to_vec(&BookFile::of(&furnished.deployment));
    let mut writer = ByteWriter::default();
    writer.bytes(&book.map_err(|error| SnapshotError::AddressBook(error.to_string()))?);
    writer.bytes(&furnished.chain.to_image());
    writer.length(furnished.past.len());
    for PastBlock { hours, transactions } in furnished.past.iter() {
        writer.number(*hours);
        writer.length(transactions.len());
        for transaction in transactions {
            writer.address(transaction.sender);
            writer.bytes(&transaction.envelope.encoded_2718());
        }
    }
    Ok(writer.into_bytes())
}

fn pack(content: &[u8]) -> Result<Vec<u8>, SnapshotError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let packed = encoder.write_all(content).and_then(|()| encoder.finish());
    packed.map_err(|error| SnapshotError::Unpack(error.to_string()))
}

fn unpack(section: &[u8]) -> Result<Vec<u8>, SnapshotError> {
    let mut content = Vec::new();
    let unpacked = GzDecoder::new(section).take(MAX_UNPACKED).read_to_end(&mut content);
    unpacked.map_err(|error| SnapshotError::Unpack(error.to_string()))?;
    Ok(content)
}

fn read(file: &[u8], plan: &'static ChainSetup) -> Result<PopulatedChain, SnapshotError> {
    let content = unpack(section(file, plan)?)?;
    let mut reader = ByteReader::new(&content);
    let (book, image) = (reader.bytes()?, reader.bytes()?);
    let past = read_past(&mut reader)?.into();
    reader.finish()?;
    let book: BookFile = serde_json::from_slice(book).map_err(|error| SnapshotError::AddressBook(error.to_string()))?;
    Ok(PopulatedChain { chain: Chain::from_image(image)?, deployment: book.deployment(plan)?, past })
}

fn read_past(reader: &mut ByteReader<'_>) -> Result<Vec<PastBlock>, SnapshotError> {
    let mut past = Vec::new();
    for _ in 0..reader.length()? {
        let (hours, mut transactions) = (reader.number()?, Vec::new());
        for _ in 0..reader.length()? {
            let (sender, mut raw) = (reader.address()?, reader.bytes()?);
            let envelope = TxEnvelope::decode_2718(&mut raw).map_err(|_| SnapshotError::Past)?;
            // The digest covers the sender; recovering it would cost more than the execution.
            let hash = *envelope.tx_hash();
            transactions.push(ChainTransaction { envelope, sender, hash, impersonated: false });
        }
        past.push(PastBlock { hours, transactions });
    }
    Ok(past)
}

/// Digest of all inputs of genesis except the contracts' code: plans, tokens, prices, ranges, times and agents. It depends on
/// values only, so that a renamed type leaves the file as it is.
fn plan_digest() -> B256 {
    let mut hasher = Keccak256::new();
    let mut add = |values: &[&dyn std::fmt::Display]| {
        for value in values {
            let text = value.to_string();
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        }
    };
    add(&[&GENESIS_TIME, &OBSERVATIONS, &STAIRS]);
    for plan in CHAINS {
        let ChainSetup { name, chain_id, block_millis, base_fee, tokens, pools, v4_pools, demo_tokens, demo_ether } =
            plan;
        add(&[name, chain_id, block_millis, base_fee, demo_ether, &tokens.len(), &pools.len(), &demo_tokens.len()]);
        for token in *tokens {
            let TokenSetup { name, symbol, decimals, asset, contract, key } = token.plan();
            add(&[&name, &symbol, &decimals, &(asset as u8), &contract.name(), &key]);
        }
        for PoolSetup { a, b, venue, dollars } in *pools {
            let (ranges, step) = ranges_of(venue.fee());
            let is_v2 = matches!(venue, Venue::V2);
            add(&[&a.plan().key, &b.plan().key, &is_v2, &venue.fee(), dollars, &step, &ranges.len()]);
            ranges.iter().for_each(|range| add(&[range]));
        }
        add(&[&v4_pools.len()]);
        for V4PoolSetup { a, b, fee, hook, dollars } in *v4_pools {
            for side in [a, b] {
                add(&[&side.priced_as().plan().key, &(*side == PoolCurrency::Native)]);
            }
            add(&[fee, &hook.map_or("", PoolHook::key), dollars]);
        }
        for (token, amount) in *demo_tokens {
            add(&[&token.plan().key, amount]);
        }
    }
    add(&[&LENDING.len()]);
    for ReserveSetup { token, ltv, threshold, bonus, rates, supplied, borrowed } in LENDING {
        add(&[&token.plan().key, ltv, threshold, bonus, supplied, borrowed]);
        rates.percents().iter().for_each(|percent| add(&[percent]));
    }
    let VaultSetup { token, name, symbol, deposited, earned } = VAULT;
    add(&[&token.plan().key, &name, &symbol, &deposited, &earned]);
    for AsyncVaultSetup { kind, token, name, symbol, deposited, earned } in ASYNC_VAULTS {
        add(&[&kind.key(), &kind.amount(), &token.plan().key, name, symbol, deposited, earned]);
    }
    for hook in HostileHook::ALL {
        add(&[&hook.key(), &hook.contract().name(), &hook.flags(), &hook.pool_fee(), &HOSTILE_POOL_DOLLARS]);
    }
    add(&[&BURN_THRESHOLD]);
    for (a, b, venue) in PROTOCOL_FEE_POOLS {
        add(&[&a.plan().key, &b.plan().key, &venue.fee()]);
    }
    for asset in PricedAsset::ALL {
        add(&[&(asset as u8), &asset.anchor()]);
    }
    for agent in AGENTS {
        agent.inputs().iter().for_each(|input| add(&[input]));
    }
    for event in PAST {
        event.inputs().iter().for_each(|input| add(&[input]));
    }
    hasher.finalize()
}

/// Digest of the names and codes of all bundled contracts.
fn contracts_digest() -> Result<B256, SandboxError> {
    let mut hasher = Keccak256::new();
    for contract in BundledContract::ALL {
        hasher.update(contract.name().as_bytes());
        hasher.update(keccak256(contract.code()?));
    }
    Ok(hasher.finalize())
}

/// Serialised form of a [`Deployment`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BookFile {
    contracts: BTreeMap<String, Address>,
    enforcers: BTreeMap<String, Address>,
    /// Tokens by key.
    tokens: BTreeMap<String, Address>,
    /// Feeds by the assets' tickers.
    feeds: BTreeMap<String, Address>,
    /// Pools in the plan's order.
    pools: Vec<Address>,
    weth: Address,
    swap_router: Address,
    v2_router: Address,
    feed_keeper: Address,
    cosigner: Address,
    code_hashes: BTreeMap<String, B256>,
}

impl BookFile {
    pub(super) fn of(deployment: &Deployment) -> Self {
        fn named<T: Copy>(map: &BTreeMap<&'static str, T>) -> BTreeMap<String, T> {
            map.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        }
        Self {
            contracts: named(&deployment.contracts),
            enforcers: named(&deployment.enforcers),
            tokens: deployment.tokens.iter().map(|(token, at)| (token.plan().key.to_owned(), *at)).collect(),
            feeds: deployment.feeds.iter().map(|(asset, at)| (asset.ticker().to_owned(), *at)).collect(),
            pools: deployment.pools.iter().map(|pool| pool.address).collect(),
            weth: deployment.weth,
            swap_router: deployment.swap_router,
            v2_router: deployment.v2_router,
            feed_keeper: deployment.feed_keeper,
            cosigner: deployment.cosigner,
            code_hashes: named(&deployment.code_hashes),
        }
    }

    pub(super) fn deployment(self, plan: &'static ChainSetup) -> Result<Deployment, SnapshotError> {
        let unknown = |what: &str| SnapshotError::AddressBook(format!("{what} is unknown"));
        let mut tokens = BTreeMap::new();
        for (key, address) in self.tokens {
            let token = plan.tokens.iter().find(|token| token.plan().key == key).ok_or_else(|| unknown(&key))?;
            tokens.insert(*token, address);
        }
        let mut feeds = BTreeMap::new();
        for (ticker, address) in self.feeds {
            let asset = PricedAsset::ALL.into_iter().find(|asset| asset.ticker() == ticker);
            feeds.insert(asset.ok_or_else(|| unknown(&ticker))?, address);
        }
        if self.pools.len() != plan.pools.len() {
            return Err(unknown("a pool"));
        }
        let mut pools = Vec::with_capacity(plan.pools.len());
        for (pool, address) in plan.pools.iter().zip(self.pools) {
            let at = |token: SandboxToken| {
                let address = tokens.get(&token).ok_or_else(|| unknown(token.plan().key))?;
                Ok::<_, SnapshotError>(DeployedToken { token, address: *address })
            };
            let (a, b) = (at(pool.a)?, at(pool.b)?);
            let (token0, token1) = if a.address < b.address { (a, b) } else { (b, a) };
            pools.push(GenesisPool { address, venue: pool.venue, token0, token1, dollars: pool.dollars });
        }
        let contracts = leak_names(self.contracts);
        // A devnet that was stored before V4 was deployed has no such pools.
        let v4_pools = if contracts.contains_key("v4PoolManager") {
            let located = plan.v4_pools.iter().map(|setup| V4GenesisPool::locate(setup, &tokens, &contracts));
            located.collect::<Option<_>>().ok_or_else(|| unknown("a V4 pool"))?
        } else {
            Vec::new()
        };
        Ok(Deployment {
            plan: *plan,
            contracts,
            enforcers: leak_names(self.enforcers),
            tokens,
            feeds,
            pools,
            v4_pools,
            weth: self.weth,
            swap_router: self.swap_router,
            v2_router: self.v2_router,
            feed_keeper: self.feed_keeper,
            cosigner: self.cosigner,
            code_hashes: leak_names(self.code_hashes),
        })
    }
}

/// Leaks the names to get static lifetimes: a file is read once per chain, and [`Deployment`] otherwise takes the names
/// from the source.
fn leak_names<T>(named: BTreeMap<String, T>) -> BTreeMap<&'static str, T> {
    named.into_iter().map(|(name, value)| (&*name.leak(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The complete check: genesis gives the file's content, byte for byte.
    #[test]
    fn the_snapshot_file_matches_a_new_genesis() {
        let outdated = "the genesis snapshot is out of date: run `cargo run --release --example genesis`";
        assert!(is_made_of_bundled_contracts().unwrap(), "{outdated}");
        for plan in CHAINS {
            let made = content(&run_genesis(plan, &|_| {}).unwrap()).unwrap();
            // Compares decompressed data, since another compressor version may give other bytes.
            assert!(unpack(section(FILE, plan).unwrap()).unwrap() == made, "{}: {outdated}", plan.name);
        }
    }

    #[test]
    fn a_loaded_chain_equals_the_deployed_one() {
        for plan in CHAINS {
            let (loaded, made) = (furnished(plan).unwrap(), run_genesis(plan, &|_| {}).unwrap());
            let (left, right) = (loaded.chain.state(), made.chain.state());
            let addresses =
                |chain: &Chain| -> std::collections::BTreeSet<Address> { chain.state().addresses().collect() };
            assert_eq!(addresses(&loaded.chain), addresses(&made.chain));
            for address in addresses(&made.chain) {
                assert_eq!(left.balance(address), right.balance(address), "{address}");
                assert_eq!(left.nonce(address), right.nonce(address), "{address}");
                assert_eq!(left.code(address), right.code(address), "{address}");
                assert_eq!(left.code_hash(address), right.code_hash(address), "{address}");
                let slots =
                    |state: &golem_chain::devnet::WorldState| -> BTreeMap<_, _> { state.storage(address).collect() };
                assert_eq!(slots(left), slots(right), "{address}");
            }
            assert_eq!(left.clone().root(), right.clone().root());
            assert_eq!(left.clone().root(), right.clone().root());
            assert_eq!(loaded.chain.number(), made.chain.number());
            for (left, right) in loaded.chain.blocks(0, u64::MAX).zip(made.chain.blocks(0, u64::MAX)) {
                assert_eq!(left.hash, right.hash);
                assert!(format!("{left:?}") == format!("{right:?}"), "block {}", left.number());
            }
            assert_eq!(loaded.chain.next_context(), made.chain.next_context());
            assert_eq!(format!("{:?}", loaded.deployment), format!("{:?}", made.deployment));
            assert_eq!(format!("{:?}", loaded.past), format!("{:?}", made.past));
        }
    }

    #[test]
    fn a_damaged_or_outdated_snapshot_is_rejected() {
        let plan = CHAINS[0];
        let mut damaged = FILE.to_vec();
        let middle = MAGIC.len() + 64 + 100_000;
        damaged[middle] ^= 1;
        assert_eq!(read(&damaged, plan).err(), Some(SnapshotError::Digest));
        let mut other_plan = FILE.to_vec();
        other_plan[MAGIC.len()] ^= 1;
        assert_eq!(read(&other_plan, plan).err(), Some(SnapshotError::Outdated));
        assert_eq!(read(b"bardo devnet genesis 0\n", plan).err(), Some(SnapshotError::Outdated));
        assert!(matches!(read(&FILE[..FILE.len() / 4], plan), Err(SnapshotError::Image(_))));
        let error = SandboxError::Snapshot(SnapshotError::Digest).to_string();
        assert!(error.contains("digest is wrong") && error.contains("--example genesis"), "{error}");
    }
}
