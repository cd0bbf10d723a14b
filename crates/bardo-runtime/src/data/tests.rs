use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::B256;

use super::binding::ChainSetIdentity;
use super::scenario_folder::ScenarioFolder;
use super::*;
use bardo_base::clock::SystemClock;
use bardo_base::config::{ConfigFlags, Environment};
use bardo_store::StoreError;
use golem_chain::devnet::{ChainConfig, Devnet, DevnetConfig, RunningConfig};
use golem_chain::network::{AddressBook, Network, NetworkKind};
use golem_chain::price::PriceChain;
use golem_chain::provider::ChainClient;
use golem_tools::engine::{ConnectedChain, ToolEnvironment};

fn folder(home: &tempfile::TempDir) -> DataFolder {
    let environment = Environment::from_iter([("BARDO_HOME", home.path().to_str().unwrap())]);
    DataFolder::of(&Config::load(&environment, &ConfigFlags::default()).unwrap())
}

/// World of bare chains in this process; the tests choose the kind of each network.
fn world(chains: &[(u64, NetworkKind)]) -> OpenEnvironment {
    let clock: Arc<SystemClock> = Arc::new(SystemClock);
    let chains = chains.iter().map(|(chain_id, kind)| {
        let mut chain = ChainConfig::default();
        chain.rules.chain_id = *chain_id;
        let devnet = Devnet::spawn(DevnetConfig { chain, running: RunningConfig::default() }).unwrap();
        let mut network = Network::devnet(&format!("chain-{chain_id}"), *chain_id, AddressBook::default());
        network.kind = *kind;
        let client = ChainClient::devnet(network, devnet, clock.clone()).unwrap();
        let prices = PriceChain::for_chain(&client, &Default::default(), clock.clone()).unwrap();
        ConnectedChain::new(client, prices)
    });
    OpenEnvironment {
        world: ToolEnvironment::new(clock.clone(), None, chains.collect(), Vec::new()),
        sandbox: None,
        rehearsal: None,
    }
}

#[tokio::test]
async fn a_ledger_is_opened_again_under_its_name_and_by_its_own_chains_alone() {
    let home = tempfile::tempdir().unwrap();
    let data = folder(&home);
    let opened = world(&[(31_337, NetworkKind::Devnet)]);
    let first = data.open_ledger(&opened).await.unwrap();
    assert_eq!(first.kind, LedgerKind::Devnet);
    // A node without a devnet id is identified by its first block.
    let genesis = opened.world.chains()[0].client.provider();
    let genesis = alloy::providers::Provider::get_block_by_number(genesis, 0.into()).await.unwrap().unwrap();
    assert_eq!(first.id(), format!("devnet-genesis-{}", alloy::hex::encode(genesis.header.hash)));
    assert!(first.store.path().starts_with(home.path().join("data/ledger").join(first.id())));
    let again = data.open_ledger(&opened).await.unwrap();
    assert_eq!((again.id(), again.store.path()), (first.id(), first.store.path()));
    assert_eq!(data.newest_ledger().unwrap().as_deref(), Some(first.store.path()));

    // Another chain that claims the same name.
    let mut identity = ChainSetIdentity::of(&opened).await.unwrap();
    identity.genesis.values_mut().for_each(|(_, hash)| *hash = B256::repeat_byte(7));
    let refused = binding::bind(&first.store, &identity).await.unwrap_err();
    assert!(matches!(&refused, DataError::OtherGenesis { found, .. } if *found == B256::repeat_byte(7)), "{refused}");
}

#[tokio::test]
async fn real_networks_share_one_ledger_and_devnets_never_join_it() {
    let home = tempfile::tempdir().unwrap();
    let data = folder(&home);
    let one = data.open_ledger(&world(&[(31_337, NetworkKind::Real)])).await.unwrap();
    let other = data.open_ledger(&world(&[(5, NetworkKind::Test), (6, NetworkKind::Real)])).await.unwrap();
    assert_eq!((one.kind, one.id(), one.store.path()), (LedgerKind::Real, other.id(), other.store.path()));
    assert!(one.id().starts_with("real-"), "{}", one.id());
    assert_eq!(one.store.path(), home.path().join("data/ledger/real/ledger.db"));

    let both = data.open_ledger(&world(&[(31_337, NetworkKind::Devnet), (6, NetworkKind::Test)])).await.unwrap_err();
    assert!(matches!(both, DataError::Mixed { .. }), "{both}");
    let none = data.open_ledger(&world(&[])).await.unwrap_err();
    assert!(matches!(none, DataError::NoChain), "{none}");
    // Another data directory has another ledger: objects bound to one are rejected by the other.
    let elsewhere = tempfile::tempdir().unwrap();
    let third = folder(&elsewhere).open_ledger(&world(&[(6, NetworkKind::Real)])).await.unwrap();
    assert_ne!(third.id(), one.id());
}

#[test]
fn only_ended_devnets_are_removed() {
    let home = tempfile::tempdir().unwrap();
    let ledgers = home.path();
    let now = Duration::from_secs(2_000_000_000);
    let make = |name: &str, age_seconds: u64| {
        let folder = ledgers.join(name);
        std::fs::create_dir(&folder).unwrap();
        let database = std::fs::File::create(folder.join(DATABASE)).unwrap();
        database.set_modified(std::time::UNIX_EPOCH + now - Duration::from_secs(age_seconds)).unwrap();
        folder
    };
    let own = make("embedded-own", 9_999);
    for age in 1..=7 {
        make(&format!("embedded-{age}"), age);
    }
    make("devnet-young", 6 * 24 * 3_600);
    make("devnet-old", 8 * 24 * 3_600);
    let held = make("devnet-held", 9 * 24 * 3_600);
    make("real", 400 * 24 * 3_600);
    std::fs::create_dir(ledgers.join("embedded-without-database")).unwrap();
    let holding = folders::mark_in_use(&held).unwrap();
    make("devnet-kept", 99 * 24 * 3_600);
    let kept_devnets = std::collections::BTreeSet::from(["devnet-kept".to_owned()]);

    let left = || {
        let mut names: Vec<_> = std::fs::read_dir(ledgers)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    };
    folders::remove_leftovers(ledgers, &own, &kept_devnets, now);
    let kept = ["embedded-1", "embedded-2", "embedded-3", "embedded-4", "embedded-own", "embedded-without-database"];
    assert_eq!(left(), [&["devnet-held", "devnet-kept", "devnet-young"], &kept[..], &["real"]].concat());
    assert_eq!(folders::newest(&[ledgers.to_owned()]).unwrap(), Some(ledgers.join("embedded-1").join(DATABASE)));
    drop(holding);
    folders::remove_leftovers(ledgers, &own, &kept_devnets, now);
    assert_eq!(left(), [&["devnet-kept", "devnet-young"], &kept[..], &["real"]].concat());
}

#[cfg(unix)]
#[tokio::test]
async fn everything_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let data = folder(&home);
    let ledger = data.open_ledger(&world(&[(6, NetworkKind::Real)])).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(data.root()), mode(ledger.store.path())), (0o700, 0o600));
    assert_eq!(mode(ledger.store.path().parent().unwrap()), 0o700);
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("data"), "in the way").unwrap();
    let error = folder(&home).open_ledger(&world(&[(6, NetworkKind::Real)])).await.unwrap_err();
    assert!(matches!(&error, DataError::Folder { path, .. } if path.ends_with("data")), "{error}");
    let told = ToolError::from(DataError::Store(StoreError::Interrupted));
    assert_eq!(told.code(), ErrorCode::StoreUnavailable);
}

#[tokio::test]
async fn ledgers_are_found_beside_the_lock_of_the_shows() {
    let home = tempfile::tempdir().unwrap();
    let data = folder(&home);
    let opened = world(&[(31_337, NetworkKind::Devnet)]);
    let ledger = data.open_ledger(&opened).await.unwrap();
    let environment = Environment::from_iter([("BARDO_HOME", home.path().to_str().unwrap())]);
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    let (show, _) = ScenarioFolder::begin(&config, false).unwrap();
    drop(show);
    assert!(data.root().join("shows").join(LOCK).is_file(), "the lock of all shows stays");
    assert_eq!(data.ledgers().unwrap(), [ledger.store.path().to_owned()]);
}
