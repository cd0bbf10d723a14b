//! Test chain with a ledger in a file, a key, and senders.

use std::sync::Arc;
use std::time::Duration;

use alloy::consensus::{SignableTransaction, TxEip1559};
use alloy::primitives::{Address, B256, TxKind, U256};
use alloy::providers::Provider;
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use bardo_base::clock::SystemClock;
use bardo_base::config::RpcUrl;
use bardo_store::{Store, StoreConfig};
use golem_chain::devnet::{ChainConfig, Devnet, DevnetConfig, MiningMode, RunningConfig};
use golem_chain::network::{AddressBook, ChainPlan, Network};
use golem_chain::provider::{ChainClient, ConnectRules};
use golem_chain::sender::{
    MIGRATIONS, NonceReservation, PrivateRelay, SendOutcome, SendPermit, SendRoute, SenderError, SenderRules, TxFees,
    TxSender, TxStatus, WaitRules,
};
use golem_chain::signed::SignedTransaction;

pub const CHAIN_ID: u64 = 31_337;
pub const GWEI: u128 = 1_000_000_000;
/// Recipient of transfers.
pub const SINK: Address = Address::repeat_byte(0x42);
/// Timeout that only a fault exhausts.
pub const PATIENT: WaitRules = WaitRules { patience: Duration::from_secs(60), resend: true };
/// A single poll without waiting.
pub const NO_PATIENCE: WaitRules = WaitRules { patience: Duration::ZERO, resend: false };
/// Fees that every block here accepts.
pub const PLENTY: TxFees = TxFees { max_fee_per_gas: 20 * GWEI, max_priority_fee_per_gas: GWEI };

pub struct TestHarness {
    pub devnet: Devnet,
    pub client: ChainClient,
    pub key: PrivateKeySigner,
    pub rules: SenderRules,
    folder: tempfile::TempDir,
}

impl TestHarness {
    /// Chain on which the key owns ten ether.
    pub fn new(mining: MiningMode) -> Self {
        let key = PrivateKeySigner::random();
        let chain = ChainConfig { balances: vec![(key.address(), ether(10))], ..ChainConfig::default() };
        let running = RunningConfig { mining, clock: None, hook: None };
        let devnet = Devnet::spawn(DevnetConfig { chain, running }).unwrap();
        let network = Network::devnet("ethereum", CHAIN_ID, AddressBook::default());
        let rules = SenderRules {
            outbid_after: Duration::from_secs(60),
            poll: Duration::from_millis(20),
            resend_after: Duration::from_millis(50),
            resend_unclear: Duration::from_millis(25),
            ..SenderRules::for_network(network.kind, network.block_millis)
        };
        let client = ChainClient::devnet(network, devnet.clone(), Arc::new(SystemClock)).unwrap();
        Self { devnet, client, key, rules, folder: tempfile::tempdir().unwrap() }
    }

    /// View of one process: a store of its own on the shared file, and a sender.
    pub fn sender(&self) -> TxSender {
        self.sender_over(self.client.clone(), None)
    }

    pub fn sender_over(&self, client: ChainClient, relay: Option<PrivateRelay>) -> TxSender {
        TxSender::new(client, self.store(), Arc::new(SystemClock), relay, self.rules)
    }

    pub fn store(&self) -> Store {
        let config =
            StoreConfig { patience: Duration::from_secs(60), ..StoreConfig::at(self.folder.path().join("l.db")) };
        Store::open(config, &[MIGRATIONS]).unwrap()
    }

    pub fn account(&self) -> Address {
        self.key.address()
    }

    /// Signs a transfer of one wei to the sink with the ticket's nonce.
    pub fn sign(&self, ticket: &NonceReservation, fees: TxFees) -> SignedTransaction {
        self.sign_as(&self.key, ticket.nonce, U256::from(1), fees)
    }

    pub fn sign_as(&self, key: &PrivateKeySigner, nonce: u64, value: U256, fees: TxFees) -> SignedTransaction {
        sign(key, CHAIN_ID, nonce, value, fees)
    }

    /// Takes a nonce, signs and stores, without sending.
    pub async fn keep(&self, sender: &TxSender, fees: TxFees) -> SendPermit {
        let ticket = sender.reserve_nonce(self.account()).await.unwrap();
        let signed = self.sign(&ticket, fees);
        sender.keep(ticket, signed, SendRoute::Public, None).await.unwrap()
    }

    /// Signs, stores and sends.
    pub async fn send(&self, sender: &TxSender) -> (B256, SendOutcome) {
        let kept = self.keep(sender, PLENTY).await;
        let hash = kept.hash();
        (hash, sender.send(kept).await.unwrap())
    }

    /// Sends without a ledger, as another program with the same key would.
    pub async fn send_outside(&self, nonce: u64, value: U256) -> B256 {
        let signed = self.sign_as(&self.key, nonce, value, PLENTY);
        *self.client.provider().send_raw_transaction(signed.raw()).await.unwrap().tx_hash()
    }

    pub async fn chain_nonce(&self) -> u64 {
        self.client.provider().get_transaction_count(self.account()).await.unwrap()
    }

    pub async fn received(&self) -> U256 {
        self.client.provider().get_balance(SINK).await.unwrap()
    }
}

pub fn sign(key: &PrivateKeySigner, chain_id: u64, nonce: u64, value: U256, fees: TxFees) -> SignedTransaction {
    let transaction = TxEip1559 {
        chain_id,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: fees.max_fee_per_gas,
        max_priority_fee_per_gas: fees.max_priority_fee_per_gas,
        to: TxKind::Call(SINK),
        value,
        ..Default::default()
    };
    let signature = key.sign_hash_sync(&transaction.signature_hash()).unwrap();
    SignedTransaction::new(transaction.into_signed(signature).into()).unwrap()
}

pub fn ether(amount: u64) -> U256 {
    U256::from(amount) * U256::from(10).pow(U256::from(18))
}

/// Client of the endpoint at `url`, as the devnet's ethereum.
pub async fn connect(url: &str) -> ChainClient {
    connect_all(&[url]).await
}

/// Client of all these endpoints.
pub async fn connect_all(urls: &[&str]) -> ChainClient {
    let plan = ChainPlan {
        name: "ethereum".into(),
        network: Some(Network::devnet("ethereum", CHAIN_ID, AddressBook::default())),
        chain_id: Some(CHAIN_ID),
        endpoints: urls.iter().map(|url| RpcUrl::parse(url).unwrap()).collect(),
    };
    ChainClient::connect(&plan, ConnectRules::default(), Arc::new(SystemClock)).await.unwrap()
}

pub async fn waited(sender: &TxSender, hash: B256) -> TxStatus {
    let standing = sender.wait(hash, PATIENT).await.unwrap();
    assert!(standing.settled, "{standing:?}");
    standing
}

pub fn is_ahead(error: &SenderError) -> bool {
    matches!(error, SenderError::Lane(golem_chain::sender::LaneError::ChainAhead { .. }))
}
