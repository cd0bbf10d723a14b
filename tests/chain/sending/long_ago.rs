//! A nonce that another program used so long ago that no endpoint has the states of that time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use alloy::primitives::{B256, U256};
use bardo::chain::devnet::{MiningMode, server};
use bardo::chain::provider::RetryRules;
use bardo::chain::sender::{SendState, SenderError, TxSender};
use serde_json::{Value, json};

use bardo_testkit::rpc_proxy::{Fate, Proxy};
use bardo_testkit::sending::{TestHarness, connect_all};

const COUNT: &str = "eth_getTransactionCount";
const RECEIPT: &str = "eth_getTransactionReceipt";
/// Number of states that the endpoint keeps. The sender asks for those 1, 3, 7, 15, 31, 63 and 127 blocks back.
const KEPT: u64 = 100;
const HOUR: u64 = 3_600;

/// Untruthful answer, if any.
type Said = Arc<Mutex<Option<Fate>>>;

/// A chain on which another program has used the nonce of a sent transaction. Its endpoint has configurable answers
/// about the latest state, and about states that it has not kept.
struct LongAgo {
    world: TestHarness,
    sender: TxSender,
    hash: B256,
    latest: Said,
    old: Said,
    receipts: Said,
    /// Number of requests about old states that are answered untruthfully.
    troubles: Arc<AtomicUsize>,
    _proxy: Proxy,
    _served: server::RpcServer,
}

impl LongAgo {
    async fn new() -> Self {
        Self::begun(false).await.spent().await
    }

    /// The same chain after another program used the nonce.
    async fn spent(self) -> Self {
        let chain = self;
        let (world, hash) = (&chain.world, chain.hash);
        world.devnet.run(move |chain| chain.drop_transaction(hash)).await.unwrap();
        world.send_outside(0, U256::from(7)).await;
        world.devnet.mine().await.unwrap();
        chain
    }

    /// Chain on which the nonce is still unused and no block was made; `beside`: with another endpoint that keeps all
    /// states.
    async fn begun(beside: bool) -> Self {
        let world = TestHarness::new(MiningMode::Manual);
        let served = server::serve(world.devnet.clone(), 0).await.unwrap();
        let (latest, old, receipts): (Said, Said, Said) = Default::default();
        let troubles = Arc::new(AtomicUsize::new(usize::MAX));
        let (told, refused, had, head) =
            (Arc::clone(&latest), Arc::clone(&old), Arc::clone(&receipts), world.devnet.head());
        let left = Arc::clone(&troubles);
        let fate = move |question: &Value, _| {
            let of = question["params"][1].as_str().unwrap_or_default().trim_start_matches("0x");
            let fate = match (question["method"].as_str(), u64::from_str_radix(of, 16)) {
                (Some(COUNT), Ok(number)) if number + KEPT < head.borrow().header.number => {
                    let less = |left: usize| left.checked_sub(1);
                    if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err() {
                        return Fate::Pass;
                    }
                    refused.lock().unwrap()
                }
                (Some(RECEIPT), _) => had.lock().unwrap(),
                (Some(COUNT), Err(_)) => told.lock().unwrap(),
                _ => return Fate::Pass,
            };
            fate.clone().unwrap_or(Fate::Pass)
        };
        let proxy = Proxy::asked(served.url(), fate).await;
        let own = served.url();
        let urls = [proxy.url.as_str(), own.as_str()];
        let client = connect_all(if beside { &urls } else { &urls[..1] }).await;
        let sender = world.sender_over(client, None);
        let (hash, _) = world.send(&sender).await;
        Self { world, sender, hash, latest, old, receipts, troubles, _proxy: proxy, _served: served }
    }

    /// Makes this many blocks at this interval in seconds.
    async fn pass(&self, blocks: u64, seconds: u64) {
        let work = move |chain: &mut bardo::chain::devnet::Chain| {
            for _ in 0..blocks {
                let next = chain.head().header.timestamp + seconds;
                chain.mine_at(next).unwrap();
            }
        };
        self.world.devnet.run(work).await.unwrap();
    }

    fn refuses(&self, fate: Option<Fate>) {
        *self.old.lock().unwrap() = fate;
    }

    /// State after one poll.
    async fn looked(&self) -> (SendState, bool) {
        let status = self.sender.poll(self.hash).await.unwrap();
        (status.record.state, status.settled)
    }
}

/// Errors with which nodes report temporary trouble, and some of them missing states.
const TROUBLE: [Fate; 4] = [
    Fate::Refuse(-32_603, "internal error"),
    Fate::Refuse(-32_002, "No state available for block 0x5f3d"),
    Fate::Refuse(-32_000, "upstream request timed out"),
    Fate::Refuse(-32_000, "header not found"),
];
const PRUNED: Fate = Fate::Refuse(-32_000, "missing trie node 5f3d (path ) state is not available");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_endpoint_errors_settle_nothing() {
    let chain = LongAgo::new().await;
    chain.pass(200, 2 * HOUR).await;
    for trouble in [Fate::Status(503), Fate::Status(429), Fate::LoseAnswer] {
        chain.refuses(Some(trouble.clone()));
        let untold = chain.sender.poll(chain.hash).await.expect_err(&format!("{trouble:?}"));
        assert!(matches!(untold, SenderError::Provider(_)), "{trouble:?}: {untold:?}");
        let record = chain.sender.record(chain.hash).unwrap();
        assert_eq!((record.state, record.settled_at), (SendState::Sent, None), "{trouble:?}");
    }
    for words in TROUBLE {
        chain.refuses(Some(words.clone()));
        assert_eq!(chain.looked().await, (SendState::Sent, false), "{words:?}");
    }
    // The endpoint answers truthfully again: the other transaction is found in its block.
    chain.refuses(None);
    assert_eq!(chain.looked().await, (SendState::Dropped, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_over_an_hour_of_blocks_count_as_a_pruned_state() {
    for words in TROUBLE {
        let chain = LongAgo::new().await;
        chain.refuses(Some(words.clone()));
        chain.pass(200, 60).await;
        assert_eq!(chain.looked().await, (SendState::Sent, false), "{words:?}");
        chain.pass(58, 60).await;
        assert_eq!(chain.looked().await, (SendState::Sent, false), "{words:?}");
        chain.pass(4, 60).await;
        assert_eq!(chain.looked().await, (SendState::Dropped, true), "{words:?}");
    }
}

/// The transaction is included, but the endpoint has lost its receipt. In two polls an hour apart, one request met
/// trouble that had passed by the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_in_two_separate_polls_free_nothing() {
    let chain = LongAgo::begun(false).await;
    *chain.receipts.lock().unwrap() = Some(Fate::Claim(Value::Null));
    chain.world.devnet.mine().await.unwrap();
    chain.refuses(Some(TROUBLE[3].clone()));
    for minutes in [130, 62] {
        chain.pass(minutes, 60).await;
        // As often as one request is repeated before its rejection counts.
        chain.troubles.store(RetryRules::default().rounds as usize, Ordering::SeqCst);
        assert_eq!(chain.looked().await, (SendState::Sent, false), "{minutes}");
        assert_eq!(chain.troubles.load(Ordering::SeqCst), 0, "it was met");
    }
    // The receipt is available again.
    *chain.receipts.lock().unwrap() = None;
    assert_eq!(chain.looked().await, (SendState::Included, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruned_states_count_as_old_after_an_hour_of_blocks() {
    let chain = LongAgo::new().await;
    chain.refuses(Some(PRUNED));
    // The oldest available state, 63 blocks back, is 63 seconds old.
    chain.pass(200, 1).await;
    assert_eq!(chain.looked().await, (SendState::Sent, false));
    // An hour and seven minutes later it is as far back as before, and slightly more than an hour has passed.
    chain.pass(100, 40).await;
    assert_eq!(chain.looked().await, (SendState::Dropped, true));
}

/// One endpoint has the old states and the other does not: they contradict each other about each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_pruned_by_one_of_two_endpoints_count_as_old_after_an_hour_of_blocks() {
    let chain = LongAgo::begun(true).await.spent().await;
    chain.refuses(Some(PRUNED));
    chain.pass(200, 1).await;
    assert_eq!(chain.looked().await, (SendState::Sent, false));
    chain.pass(100, 40).await;
    assert_eq!(chain.looked().await, (SendState::Dropped, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hour_restarts_if_the_nonce_was_unused_in_between() {
    let chain = LongAgo::new().await;
    chain.refuses(Some(PRUNED));
    chain.pass(200, 1).await;
    assert_eq!(chain.looked().await, (SendState::Sent, false));
    *chain.latest.lock().unwrap() = Some(Fate::Claim(json!("0x0")));
    assert_eq!(chain.looked().await, (SendState::Sent, false));
    *chain.latest.lock().unwrap() = None;
    chain.pass(100, 40).await;
    // 63 blocks of 40 seconds.
    assert_eq!(chain.looked().await, (SendState::Sent, false));
    chain.pass(40, 40).await;
    assert_eq!(chain.looked().await, (SendState::Dropped, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nonce_used_hours_ago_by_block_time_needs_no_second_poll() {
    let chain = LongAgo::new().await;
    chain.refuses(Some(PRUNED));
    chain.pass(200, 60).await;
    // 63 blocks of a minute.
    assert_eq!(chain.looked().await, (SendState::Dropped, true));
}
