//! Blocks leave a chain, one to twelve of them, while one of them has what an order waits for: a fill, a lock, a
//! delivery, a refund. Whoever waits for thirteen sees nothing of it: the order is as it was, its money stays held, and
//! the end is the one of the chain that stays.

use std::sync::Arc;

use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::Filter;
use alloy::sol_types::SolEvent as _;
use bardo::abi::erc7683::{DestinationSettler, OriginSettler};
use bardo::abi::uniswapx::Reactor;
use bardo::chain::devnet::{Chain, ChainTransaction};
use bardo::chain::network::Contract;
use bardo::store::StoreError;

use super::*;

/// Deep enough that twelve blocks may go.
const DEEP: u64 = 13;

impl Bridge {
    /// The same orders for somebody who waits for so many blocks.
    fn patient(&self) -> Orders {
        let chain = |name| {
            let client = self.world.chain(name).unwrap().client.clone();
            OrderChain { client, kind: OrderKind::DutchV2, auctions: None, bridges: None }
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let config = OrdersConfig {
            chains: vec![chain("ethereum"), chain("base")],
            store: self.store.clone(),
            rules: self.rules.clone(),
            clock: clock.clone(),
            fabric: Fabric::in_memory(100, clock),
        };
        Orders::at_depth(config, DEEP)
    }

    /// Both chains' time goes on by so many seconds at least, however far they are ahead of the clock already.
    async fn beyond(&self, seconds: u64) {
        for chain in self.sandbox.chains() {
            let time = || chain.devnet.head().borrow().header.timestamp;
            let until = time() + seconds;
            while time() < until {
                chain.devnet.run(move |chain: &mut Chain| chain.increase_time(seconds)).await.unwrap();
                chain.devnet.mine().await.unwrap();
            }
        }
    }

    async fn mine(&self, name: &str, blocks: u64) {
        for _ in 0..blocks {
            self.chain(name).devnet.mine().await.unwrap();
        }
    }

    /// The block with an event of a contract about this order.
    async fn event(&self, name: &str, contract: Address, event: B256, id: B256) -> Option<u64> {
        let filter = Filter::new().address(contract).event_signature(event).topic1(id).from_block(0);
        let logs = self.world.chain(name).unwrap().client.provider().get_logs(&filter).await.unwrap();
        logs.first().map(|log| log.block_number.unwrap())
    }

    /// Blocks until there is such an event, and then so many on it that `depth` of them, its own included, may go.
    async fn until(&self, name: &str, contract: Address, event: B256, id: B256, depth: u64) -> Option<u64> {
        for _ in 0..12 {
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

    /// The newest blocks leave; what the oldest of them had comes again where it stays.
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

    /// What the ledger holds for orders that have not ended.
    fn held(&self) -> u64 {
        let count = |connection: &rusqlite::Connection| -> Result<i64, StoreError> {
            let question = "SELECT count(*) FROM ledger_reservation WHERE state IN ('open', 'unclear')";
            Ok(connection.query_row(question, [], |row| row.get(0))?)
        };
        u64::try_from(self.store.read(count).unwrap()).unwrap()
    }

    fn settler(&self, name: &str, contract: &str) -> Address {
        self.chain(name).deployment.contracts[contract]
    }

    async fn auctioned(&self) -> B256 {
        let params = json!({"token_in": "USDC", "token_out": "WETH", "amount": "20", "chain": "ethereum",
                            "decay_start_time": 1, "decay_end_time": 60});
        let response = self.call("uniswap_submit_uniswapx_order", params).await;
        assert_eq!(response.status, Status::Partial, "{response:#?}");
        response.data.unwrap()["order_hash"].as_str().unwrap().parse().unwrap()
    }
}

/// What the order is to whoever waits, while it has not ended.
async fn live(orders: &Orders, id: B256, what: &str) -> String {
    let record = orders.look(id).await.unwrap();
    assert_eq!(record.stage, Stage::Submitted, "{what}: {record:#?}");
    record.status
}

async fn ended(orders: &Orders, id: B256, what: &str) -> Record {
    let record = orders.look(id).await.unwrap();
    assert_eq!(record.stage, Stage::Ended, "{what}: {record:#?}");
    record
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fill_that_leaves_the_chain_was_none() {
    for depth in 1..=12 {
        // A devnet of its own for each: what moves time far leaves feeds behind that are too old for the next one.
        let bridge = Bridge::open().await;
        let patient = bridge.patient();
        let reactor =
            bridge.world.chain("ethereum").unwrap().network().book.contract(Contract::V2DutchReactor).unwrap();
        let event = Reactor::Fill::SIGNATURE_HASH;
        let again = depth % 2 == 0;
        let what = format!("depth {depth}, again {again}");
        // A filler overlooks some orders: those expire.
        let mut placed = None;
        for _ in 0..4 {
            let before = bridge.usdc("ethereum", bridge.account).await;
            let id = bridge.auctioned().await;
            if let Some(block) = bridge.until("ethereum", reactor, event, id, depth).await {
                placed = Some((before, id, block));
                break;
            }
            bridge.beyond(70).await;
            bridge.mine("ethereum", DEEP).await;
            assert_eq!(ended(&patient, id, &what).await.status, "expired");
        }
        let (before, id, block) = placed.expect("nobody fills anything");
        let given = U256::from(20_000_000);
        assert_eq!(before - bridge.usdc("ethereum", bridge.account).await, given, "{what}");
        assert_eq!((live(&patient, id, &what).await, bridge.held()), ("open".to_owned(), 1), "{what}");

        bridge.lose("ethereum", depth, again).await;
        assert_eq!((live(&patient, id, &what).await, bridge.held()), ("open".to_owned(), 1), "{what}");
        if !again {
            assert_eq!(bridge.usdc("ethereum", bridge.account).await, before, "{what}: it is back");
            bridge.beyond(70).await;
        }
        bridge.mine("ethereum", DEEP).await;
        let record = ended(&patient, id, &what).await;
        assert_eq!(record.status, if again { "filled" } else { "expired" }, "{what}");
        assert_eq!(bridge.held(), 0, "{what}");
        let left = before - bridge.usdc("ethereum", bridge.account).await;
        assert_eq!(left, if again { given } else { U256::ZERO }, "{what}");
        let fill = &card(&record)["fill"];
        assert_eq!(fill["tx"]["block"].as_u64(), again.then_some(block), "{what}: {fill}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_leaves_the_chain_was_none() {
    for depth in 1..=12 {
        let bridge = Bridge::open().await;
        let patient = bridge.patient();
        let (settler, event) = (bridge.settler("ethereum", "originSettler"), OriginSettler::Open::SIGNATURE_HASH);
        let again = depth % 2 == 0;
        let what = format!("depth {depth}, again {again}");
        let before = bridge.purses().await;
        let (id, _) = bridge.locked(120).await;
        bridge.until("ethereum", settler, event, id, depth).await.unwrap();
        assert_eq!(bridge.purses().await[2] - before[2], U256::from(AMOUNT), "{what}: it is locked");
        bridge.lose("ethereum", depth, again).await;
        // Whatever was seen of it, it is as if it had not been.
        assert_eq!((live(&patient, id, &what).await, bridge.held()), ("pending".to_owned(), 1), "{what}");
        if !again {
            assert_eq!(bridge.purses().await, before, "{what}: it is back");
        }
        if again {
            bridge.mine("ethereum", DEEP).await;
            assert_eq!((live(&patient, id, &what).await, bridge.held()), ("filling".to_owned(), 1), "{what}");
        }
        bridge.beyond(130 + REFUND_DELAY).await;
        bridge.mine("ethereum", DEEP).await;
        bridge.mine("base", DEEP).await;
        if again {
            assert_eq!((live(&patient, id, &what).await, bridge.held()), ("expired".to_owned(), 1), "{what}");
            let back = bridge.refund(id).await;
            assert_eq!(back.status, Status::Success, "{what}: {back:#?}");
            bridge.mine("ethereum", DEEP).await;
        }
        let record = ended(&patient, id, &what).await;
        assert_eq!(record.status, if again { "refunded" } else { "expired" }, "{what}");
        assert_eq!((bridge.held(), bridge.purses().await), (0, before), "{what}: not a unit is missing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_leaves_its_chain_was_none() {
    for depth in 1..=12 {
        let bridge = Bridge::open().await;
        let patient = bridge.patient();
        let (settler, event) =
            (bridge.settler("base", "destinationSettler"), DestinationSettler::Filled::SIGNATURE_HASH);
        let again = depth % 2 == 0;
        let what = format!("depth {depth}, again {again}");
        let mut sent = None;
        for _ in 0..5 {
            let before = bridge.purses().await;
            let (id, _) = bridge.locked(240).await;
            bridge.mine("ethereum", DEEP).await;
            if bridge.until("base", settler, event, id, depth).await.is_some() {
                sent = Some((before, id));
                break;
            }
            // Whoever locked it has forgotten it.
            bridge.beyond(250 + REFUND_DELAY).await;
            bridge.mine("base", DEEP).await;
            assert_eq!(bridge.refund(id).await.status, Status::Success);
            bridge.mine("ethereum", DEEP).await;
            assert_eq!(ended(&patient, id, &what).await.status, "refunded");
        }
        let (before, id) = sent.expect("nobody delivers anything");
        let came = bridge.purses().await[1] - before[1];
        assert!(came > U256::from(AMOUNT * 95 / 100), "{what}: {came}");
        assert_eq!((live(&patient, id, &what).await, bridge.held()), ("filling".to_owned(), 1), "{what}");

        bridge.lose("base", depth, again).await;
        assert_eq!((live(&patient, id, &what).await, bridge.held()), ("filling".to_owned(), 1), "{what}");
        assert_eq!(bridge.purses().await[1] - before[1], if again { came } else { U256::ZERO }, "{what}");
        if again {
            // Seen to be there, and repaid over here: only then it has ended.
            bridge.mine("base", DEEP).await;
            assert_eq!((live(&patient, id, &what).await, bridge.held()), ("filled".to_owned(), 1), "{what}");
            for _ in 0..20 {
                if bridge.deposit(id).await == 2 {
                    break;
                }
                bridge.pass(1).await;
            }
            bridge.mine("ethereum", DEEP).await;
        } else {
            bridge.beyond(250 + REFUND_DELAY).await;
            bridge.mine("base", DEEP).await;
            bridge.mine("ethereum", DEEP).await;
            if bridge.deposit(id).await == 1 {
                assert_eq!((live(&patient, id, &what).await, bridge.held()), ("expired".to_owned(), 1), "{what}");
                assert_eq!(bridge.refund(id).await.status, Status::Success, "{what}");
                bridge.mine("ethereum", DEEP).await;
            }
        }
        let record = ended(&patient, id, &what).await;
        assert_eq!(record.status, if again { "filled" } else { "refunded" }, "{what}: {record:#?}");
        assert_eq!(bridge.held(), 0, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_leaves_the_chain_and_comes_again_is_one() {
    for depth in 1..=12 {
        let bridge = Bridge::open().await;
        let patient = bridge.patient();
        let (settler, event) = (bridge.settler("ethereum", "originSettler"), OriginSettler::Refunded::SIGNATURE_HASH);
        let what = format!("depth {depth}");
        let before = bridge.purses().await;
        let (id, _) = bridge.locked(60).await;
        bridge.mine("ethereum", DEEP).await;
        bridge.beyond(70 + REFUND_DELAY).await;
        bridge.mine("base", DEEP).await;
        bridge.mine("ethereum", 1).await;
        assert_eq!((live(&patient, id, &what).await, bridge.held()), ("expired".to_owned(), 1), "{what}");
        let back = bridge.refund(id).await;
        assert_eq!(back.status, Status::Success, "{what}: {back:#?}");
        bridge.until("ethereum", settler, event, id, depth).await.unwrap();
        assert_eq!((live(&patient, id, &what).await, bridge.purses().await), ("expired".to_owned(), before), "{what}");
        // The refund is the account's own transaction: its bytes are the same on every branch.
        bridge.lose("ethereum", depth, true).await;
        assert_eq!((live(&patient, id, &what).await, bridge.held()), ("expired".to_owned(), 1), "{what}");
        bridge.mine("ethereum", DEEP).await;
        assert_eq!(ended(&patient, id, &what).await.status, "refunded", "{what}");
        assert_eq!((bridge.held(), bridge.purses().await), (0, before), "{what}");
    }
}
