//! From a nonce to a final receipt on the embedded devnet: nonce ticket in the ledger, stored bytes, sending, waiting,
//! with durable writes. Also the ledger's part of that cost.

use std::sync::Arc;
use std::time::Duration;

use alloy::consensus::{SignableTransaction, TxEip1559};
use alloy::primitives::{Address, TxKind, U256};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use bardo::base::clock::SystemClock;
use bardo::chain::devnet::{ChainConfig, Devnet, DevnetConfig, MiningMode, RunningConfig};
use bardo::chain::network::{AddressBook, Network};
use bardo::chain::provider::ChainClient;
use bardo::chain::sender::{MIGRATIONS, NonceReservation, SendRoute, SenderRules, TxSender, WaitRules};
use bardo::chain::signed::SignedTransaction;
use bardo::store::{Store, StoreConfig};
use criterion::{Criterion, criterion_group, criterion_main};

const CHAIN_ID: u64 = 31_337;

struct TestHarness {
    sender: TxSender,
    key: PrivateKeySigner,
    _folder: tempfile::TempDir,
}

impl TestHarness {
    /// Must be called on a tokio runtime.
    fn new() -> Self {
        let key = PrivateKeySigner::random();
        let chain = ChainConfig { balances: vec![(key.address(), U256::MAX >> 1)], ..ChainConfig::default() };
        let running = RunningConfig { mining: MiningMode::OnTransaction, clock: None, hook: None };
        let devnet = Devnet::spawn(DevnetConfig { chain, running }).expect("a devnet");
        let network = Network::devnet("ethereum", CHAIN_ID, AddressBook::default());
        let rules = SenderRules::for_network(network.kind, network.block_millis);
        let clock = Arc::new(SystemClock);
        let client = ChainClient::devnet(network, devnet, clock.clone()).expect("a client");
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), &[MIGRATIONS]).expect("a ledger");
        Self { sender: TxSender::new(client, store, clock, None, rules), key, _folder: folder }
    }

    fn sign(&self, ticket: &NonceReservation) -> SignedTransaction {
        let transaction = TxEip1559 {
            chain_id: CHAIN_ID,
            nonce: ticket.nonce,
            gas_limit: 21_000,
            max_fee_per_gas: 20_000_000_000,
            max_priority_fee_per_gas: 1_000_000,
            to: TxKind::Call(Address::repeat_byte(0x42)),
            value: U256::from(1),
            ..Default::default()
        };
        let signature = self.key.sign_hash_sync(&transaction.signature_hash()).expect("a signature");
        SignedTransaction::new(transaction.into_signed(signature).into()).expect("a transaction")
    }

    async fn send(&self) {
        let ticket = self.sender.reserve_nonce(self.key.address()).await.expect("a nonce");
        let signed = self.sign(&ticket);
        let kept = self.sender.keep(ticket, signed, SendRoute::Public, None).await.expect("stored");
        let hash = kept.hash();
        self.sender.send(kept).await.expect("sent");
        let rules = WaitRules { patience: Duration::from_secs(60), resend: false };
        assert!(self.sender.wait(hash, rules).await.expect("an end").settled);
    }
}

fn sending(criterion: &mut Criterion) {
    let runtime = bardo::base::runtime::multi_threaded(None).expect("a runtime");
    let world = runtime.block_on(async { TestHarness::new() });
    criterion.bench_function("sender/nonce to final receipt, in process", |bencher| {
        bencher.iter(|| runtime.block_on(world.send()));
    });
    criterion.bench_function("sender/nonce taken and given back", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let ticket = world.sender.reserve_nonce(world.key.address()).await.expect("a nonce");
                world.sender.release_nonce(ticket).await.expect("given back");
            });
        });
    });
}

criterion_group!(benches, sending);
criterion_main!(benches);
