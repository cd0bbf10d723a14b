//! Reorganisations of one to twelve blocks that contain what an order waits for: a fill, a lock, a delivery, a refund.
//! With thirteen confirmations nothing of it is visible: the order is unchanged, its money stays reserved, and the end
//! is that of the canonical chain.

use std::path::Path;
use std::sync::Arc;

use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::Filter;
use alloy::sol_types::SolEvent as _;
use bardo::abi::erc7683::{DestinationSettler, OriginSettler};
use bardo::abi::uniswapx::Reactor;
use bardo::chain::devnet::{Chain, ChainTransaction};
use bardo::chain::network::KnownContract;
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::policy::{PolicyKeeper, parse};
use bardo::safety::stop::StopFile;
use bardo::store::{StoreConfig, StoreError};

use super::*;

/// Enough confirmations for a reorganisation of twelve blocks.
const DEEP: u64 = 13;

impl Bridge {
    /// A copy of the present ledger, used with this many confirmations. The other tracker of these orders accepts a
    /// devnet's blocks at once and is not asked.
    async fn patient(&self) -> Patient {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let copy = path.to_str().unwrap().to_owned();
        rusqlite::Connection::open(self.store.path()).unwrap().execute("VACUUM INTO ?1", [copy]).unwrap();
        let store = Store::open(StoreConfig::at(path), ALL_MIGRATIONS).unwrap();
        let chain = |name| {
            let client = self.world.chain(name).unwrap().client.clone();
            OrderChain {
                client,
                kind: OrderKind::DutchV2,
                auctions: None,
                bridges: None,
                deposits: None,
                confirmations: Some(DEEP),
            }
        };
        let policy = parse(POLICY, Path::new("policy.toml")).unwrap();
        let networks = ["ethereum", "base"].map(|name| self.world.chain(name).unwrap().network().clone());
        let stop = StopFile::in_folder(folder.path());
        let rules = OperatorPolicyEngine::new(Arc::new(PolicyKeeper::fixed(policy)), stop, store.clone(), networks);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let config = OrdersConfig {
            chains: vec![chain("ethereum"), chain("base")],
            store: store.clone(),
            rules: Arc::new(rules),
            clock: clock.clone(),
            fabric: Fabric::in_memory(100, clock),
        };
        Patient { orders: Orders::new(config), store, _folder: folder }
    }

    async fn mine(&self, name: &str, blocks: u64) {
        for _ in 0..blocks {
            self.chain(name).devnet.mine().await.unwrap();
        }
    }

    /// Block with this event of a contract about this order.
    async fn event(&self, name: &str, contract: Address, event: B256, id: B256) -> Option<u64> {
        let filter = Filter::new().address(contract).event_signature(event).topic1(id).from_block(0);
        let logs = self.world.chain(name).unwrap().client.provider().get_logs(&filter).await.unwrap();
        logs.first().map(|log| log.block_number.unwrap())
    }

    /// Makes blocks until this event exists, then until it has `depth` blocks including its own.
    async fn until(&self, name: &str, contract: Address, event: B256, id: B256, depth: u64) -> Option<u64> {
        for _ in 0..40 {
            if let Some(block) = self.event(name, contract, event, id).await {
                let head = self.chain(name).devnet.head().borrow().header.number;
                assert!(head < block + depth, "block {block} lies too deep at {head}");
                self.mine(name, block + depth - 1 - head).await;
                return Some(block);
            }
            self.mine(name, 1).await;
        }
        None
    }

    /// Removes the newest blocks; with `again`, transactions of the oldest of them are included again.
    async fn lose(&self, name: &str, depth: u64, again: bool) {
        let change = move |chain: &mut Chain| {
            let oldest = chain.head().header.number + 1 - depth;
            let block = chain.blocks(oldest, oldest).next().unwrap().clone();
            let kept: Vec<(ChainTransaction, u64)> =
                block.transactions.iter().filter(|_| again).map(|one| (one.as_ref().clone(), 0)).collect();
            chain.reorg(depth, kept).map(|_| ())
        };
        self.chain(name).devnet.run(change).await.unwrap().unwrap();
    }

    /// Refunds a locked order as soon as the settler permits it.
    async fn brought_back(&self, id: B256, what: &str) {
        for _ in 0..12 {
            let back = self.refund(id).await;
            if back.status == CallStatus::Success {
                return;
            }
            // The endpoint may not know the newest blocks yet.
            let early = ["the settler refunds it from", "the intent is filling"];
            assert!(early.iter().any(|words| message(&back).contains(words)), "{what}: {}", message(&back));
            self.pass(10).await;
        }
        panic!("{what}: the settler never gives it back");
    }

    fn settler(&self, name: &str, contract: &str) -> Address {
        self.chain(name).deployment.contracts[contract]
    }

    /// Places an auction order; `None` if the service did not answer in time, as on a busy machine.
    async fn auctioned(&self) -> Option<B256> {
        let params = json!({"token_in": "USDC", "token_out": "WETH", "amount": "250", "chain": "ethereum",
                            "decay_end_time": 40});
        let response = self.call("uniswap_submit_uniswapx_order", params).await;
        assert_eq!(response.status, CallStatus::Partial, "{response:#?}");
        let data = response.data.unwrap();
        (data["status"] == "open").then(|| data["order_hash"].as_str().unwrap().parse().unwrap())
    }
}

struct Patient {
    orders: Orders,
    store: Store,
    _folder: tempfile::TempDir,
}

impl Patient {
    /// Number of reservations in the ledger for this order: one or none.
    fn held(&self, id: B256) -> u64 {
        let count = |connection: &rusqlite::Connection| -> Result<i64, StoreError> {
            let question = "SELECT count(*) FROM safety_order JOIN safety_permit USING (permit_id)
                            JOIN ledger_reservation ON id = safety_permit.reservation
                            WHERE hash = ?1 AND state IN ('open', 'unclear')";
            Ok(connection.query_row(question, [id.as_slice()], |row| row.get(0))?)
        };
        u64::try_from(self.store.read(count).unwrap()).unwrap()
    }

    /// Status of an open order, and its number of reservations.
    async fn live(&self, id: B256, what: &str) -> (String, u64) {
        let record = self.orders.poll(id).await.unwrap();
        assert_eq!(record.stage, OrderStage::Submitted, "{what}: {record:#?}");
        (record.status.to_string(), self.held(id))
    }

    async fn ended(&self, id: B256, what: &str) -> OrderRecord {
        let record = self.orders.poll(id).await.unwrap();
        assert_eq!(record.stage, OrderStage::Ended, "{what}: {record:#?}");
        assert_eq!(self.held(id), 0, "{what}: nothing is held any more");
        record
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reorganised_fill_does_not_count() {
    let event = Reactor::Fill::SIGNATURE_HASH;
    for depth in 1..=12 {
        let again = depth % 2 == 0;
        let what = format!("depth {depth}, again {again}");
        // A filler overlooks some orders. Each case uses its own devnet: advancing time far leaves feeds that are too
        // old for the next one.
        let mut placed = None;
        for _ in 0..6 {
            let bridge = Bridge::open().await;
            let book = &bridge.world.chain("ethereum").unwrap().network().book;
            let reactor = book.contract(KnownContract::V2DutchReactor).unwrap();
            let before = bridge.usdc("ethereum", bridge.account).await;
            let Some(id) = bridge.auctioned().await else { continue };
            let patient = bridge.patient().await;
            if let Some(block) = bridge.until("ethereum", reactor, event, id, depth).await {
                placed = Some((bridge, patient, before, id, block));
                break;
            }
        }
        let (bridge, patient, before, id, block) = placed.expect("nobody fills anything");
        let given = U256::from(250_000_000);
        assert_eq!(before - bridge.usdc("ethereum", bridge.account).await, given, "{what}");
        assert_eq!(patient.live(id, &what).await, ("open".to_owned(), 1), "{what}");

        bridge.lose("ethereum", depth, again).await;
        assert_eq!(patient.live(id, &what).await, ("open".to_owned(), 1), "{what}");
        if !again {
            assert_eq!(bridge.usdc("ethereum", bridge.account).await, before, "{what}: it is back");
            bridge.pass(70).await;
        }
        bridge.mine("ethereum", DEEP).await;
        let record = patient.ended(id, &what).await;
        assert_eq!(record.status.as_str(), if again { "filled" } else { "expired" }, "{what}");
        let left = before - bridge.usdc("ethereum", bridge.account).await;
        assert_eq!(left, if again { given } else { U256::ZERO }, "{what}");
        let fill = &card(&record)["fill"];
        assert_eq!(fill["tx"]["block"].as_u64(), again.then_some(block), "{what}: {fill}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reorganised_lock_does_not_count() {
    for depth in 1..=12 {
        let bridge = Bridge::open().await;
        let (settler, event) = (bridge.settler("ethereum", "originSettler"), OriginSettler::Open::SIGNATURE_HASH);
        let again = depth % 2 == 0;
        let what = format!("depth {depth}, again {again}");
        let before = bridge.purses().await;
        let (id, _) = bridge.locked(60).await;
        let patient = bridge.patient().await;
        bridge.until("ethereum", settler, event, id, depth).await.unwrap();
        assert_eq!(bridge.purses().await[2] - before[2], U256::from(AMOUNT), "{what}: it is locked");
        bridge.lose("ethereum", depth, again).await;
        // Whatever was seen, the order is as if it had not happened.
        assert_eq!(patient.live(id, &what).await, ("pending".to_owned(), 1), "{what}");
        if !again {
            assert_eq!(bridge.purses().await, before, "{what}: it is back");
        }
        if again {
            bridge.mine("ethereum", DEEP).await;
            assert_eq!(patient.live(id, &what).await, ("filling".to_owned(), 1), "{what}");
        }
        bridge.pass(70 + REFUND_DELAY).await;
        bridge.mine("ethereum", DEEP).await;
        bridge.mine("base", DEEP).await;
        if again {
            assert_eq!(patient.live(id, &what).await, ("expired".to_owned(), 1), "{what}");
            bridge.brought_back(id, &what).await;
            bridge.mine("ethereum", DEEP).await;
        }
        let record = patient.ended(id, &what).await;
        assert_eq!(record.status.as_str(), if again { "refunded" } else { "expired" }, "{what}");
        assert_eq!(bridge.purses().await, before, "{what}: not a unit is missing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reorganised_delivery_does_not_count() {
    let event = DestinationSettler::Filled::SIGNATURE_HASH;
    for depth in 1..=12 {
        let again = depth % 2 == 0;
        let what = format!("depth {depth}, again {again}");
        // A relayer may forget an order that it has locked.
        let mut sent = None;
        for _ in 0..6 {
            let bridge = Bridge::open().await;
            let settler = bridge.settler("base", "destinationSettler");
            let before = bridge.purses().await;
            let (id, _) = bridge.locked(60).await;
            let patient = bridge.patient().await;
            bridge.mine("ethereum", DEEP).await;
            if bridge.until("base", settler, event, id, depth).await.is_some() {
                sent = Some((bridge, patient, before, id));
                break;
            }
        }
        let (bridge, patient, before, id) = sent.expect("nobody delivers anything");
        let came = bridge.purses().await[1] - before[1];
        assert!(came > U256::from(AMOUNT * 95 / 100), "{what}: {came}");
        assert_eq!(patient.live(id, &what).await, ("filling".to_owned(), 1), "{what}");

        bridge.lose("base", depth, again).await;
        assert_eq!(patient.live(id, &what).await, ("filling".to_owned(), 1), "{what}");
        assert_eq!(bridge.purses().await[1] - before[1], if again { came } else { U256::ZERO }, "{what}");
        let settler = bridge.settler("base", "destinationSettler");
        let delivered = async || bridge.event("base", settler, event, id).await.is_some();
        if again {
            // Delivered on the destination and repaid on the origin: only then it has ended.
            bridge.mine("base", DEEP).await;
            assert_eq!(patient.live(id, &what).await, ("filled".to_owned(), 1), "{what}");
        } else {
            bridge.pass(70 + REFUND_DELAY).await;
            bridge.mine("base", DEEP).await;
            bridge.mine("ethereum", DEEP).await;
        }
        if delivered().await || bridge.deposit(id).await == 2 {
            for _ in 0..20 {
                if bridge.deposit(id).await == 2 {
                    break;
                }
                bridge.pass(1).await;
            }
        } else {
            assert_eq!(patient.live(id, &what).await, ("expired".to_owned(), 1), "{what}");
            bridge.brought_back(id, &what).await;
        }
        bridge.mine("ethereum", DEEP).await;
        let record = patient.ended(id, &what).await;
        let now = bridge.purses().await;
        // If the lock was undone, a relayer may have delivered again; and the devnet's messenger reports a delivery to
        // the origin as soon as it has seen it, on any branch: then the money is gone and counted as gone.
        match record.status.as_str() {
            "filled" => assert_eq!(before[0] - now[0], U256::from(AMOUNT), "{what}"),
            "refunded" => assert_eq!((now, again), (before, false), "{what}"),
            other => panic!("{what}: {other}"),
        }
        if again {
            assert_eq!((record.status.as_str(), now[1] - before[1]), ("filled", came), "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reorganised_refund_counts_once() {
    for depth in 1..=12 {
        let bridge = Bridge::open().await;
        let (settler, event) = (bridge.settler("ethereum", "originSettler"), OriginSettler::Refunded::SIGNATURE_HASH);
        let what = format!("depth {depth}");
        let before = bridge.purses().await;
        let (id, _) = bridge.locked(60).await;
        let patient = bridge.patient().await;
        bridge.mine("ethereum", DEEP).await;
        bridge.pass(70 + REFUND_DELAY).await;
        bridge.mine("base", DEEP).await;
        bridge.mine("ethereum", 1).await;
        assert_eq!(patient.live(id, &what).await, ("expired".to_owned(), 1), "{what}");
        bridge.brought_back(id, &what).await;
        bridge.until("ethereum", settler, event, id, depth).await.unwrap();
        assert_eq!(patient.live(id, &what).await, ("expired".to_owned(), 1), "{what}");
        assert_eq!(bridge.purses().await, before, "{what}: it is back");
        // The refund is the account's own transaction, with the same bytes on every branch.
        bridge.lose("ethereum", depth, true).await;
        assert_eq!(patient.live(id, &what).await, ("expired".to_owned(), 1), "{what}");
        bridge.mine("ethereum", DEEP).await;
        assert_eq!(patient.ended(id, &what).await.status.as_str(), "refunded", "{what}");
        assert_eq!(bridge.purses().await, before, "{what}");
    }
}
