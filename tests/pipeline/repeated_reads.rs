//! Reads of a commit before the signature: none on the same block as the preview, and all of them again on another
//! block.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use bardo::chain::devnet::{Chain, ChainTransaction, server};
use bardo::chain::network::NetworkKind;
use bardo::chain::sender::SenderRules;
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::CommitState;
use bardo::sandbox::Sandbox;
use serde_json::Value;

use crate::endpoints::connect;
use bardo_testkit::harness::{ASKED, Hook, TestHarness, sandbox};
use bardo_testkit::rpc_proxy::{Fate, Proxy};

/// Chain on which nobody else makes blocks.
static QUIET: LazyLock<Sandbox> = LazyLock::new(|| sandbox(11));

/// One test at a time, because each makes blocks.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Time for which a commit may use the reads of its preview, as in `safety::pipeline`.
const MAX_READ_AGE: Duration = Duration::from_secs(2);

/// Requests to the chain, by method.
struct RequestLog {
    /// Requests during the preview.
    preview: Vec<String>,
    /// Requests of its commit, up to the signature.
    commit: Vec<String>,
    /// Time between the beginning of the preview and the signature.
    since: Duration,
}

impl RequestLog {
    /// True if the commit has read as much of the chain as the preview. It makes four requests fewer: what never changes is
    /// cached (which words and ticks of a pool are read, and the tokens of the lending market's reserves), but no value.
    fn all_repeated(&self) -> bool {
        let reads = |methods: &[String]| methods.iter().filter(|method| *method == "eth_call").count();
        reads(&self.preview) > 1 && reads(&self.commit) + 4 == reads(&self.preview)
    }
}

/// Previews a swap, runs `between`, and commits it. Returns the requests.
async fn requests_with(account: usize, between: impl AsyncFn(&TestHarness)) -> RequestLog {
    let _alone = ALONE.lock().await;
    let world = TestHarness::over(&QUIET, account, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await;
    let served = server::serve(QUIET.chains()[0].devnet.clone(), 0).await.unwrap();
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorder = Arc::clone(&requests);
    let record = move |asked: &Value, _: usize| {
        // A request may be a batch.
        let each = asked.as_array().map_or(std::slice::from_ref(asked), Vec::as_slice);
        recorder.lock().unwrap().extend(each.iter().map(|one| one["method"].as_str().unwrap().to_owned()));
        Fate::Pass
    };
    let proxy = Proxy::asked(served.url(), record).await;
    let client = connect(world.client.network(), std::slice::from_ref(&proxy.url)).await;
    let pipeline = world.through(&client, Duration::from_secs(60));
    let proposal = world.swap(50_000_000).await;
    requests.lock().unwrap().clear();
    let begun = Instant::now();
    let preview = pipeline.preview(proposal, world.wallet.clone(), ASKED).await.unwrap();
    let asked = std::mem::take(&mut *requests.lock().unwrap());
    between(&world).await;
    requests.lock().unwrap().clear();
    let before = Arc::new(Mutex::new(None));
    let (recorder, notes) = (Arc::clone(&requests), Arc::clone(&before));
    let note = move || {
        let (mut notes, requests) = (notes.lock().unwrap(), recorder.lock().unwrap());
        notes.get_or_insert_with(|| (requests.clone(), begun.elapsed()));
    };
    *world.wallet.on_sign.lock().unwrap() = Hook::new(note).into_inner().unwrap();
    let committed = pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(committed.state, CommitState::Done);
    let (commit, since) = before.lock().unwrap().take().expect("it was signed");
    RequestLog { preview: asked, commit, since }
}

/// Methods that read or run something of the chain's state.
const READS: [&str; 5] = ["eth_call", "eth_getStorageAt", "eth_getProof", "eth_getCode", "debug_traceCall"];

#[tokio::test(flavor = "multi_thread")]
async fn on_the_block_of_its_preview_a_commit_repeats_no_read() {
    // On a slow machine the reads may be too old: another test covers that.
    for _ in 0..20 {
        let RequestLog { commit, since, .. } = requests_with(1, async |_| {}).await;
        if since < MAX_READ_AGE {
            assert!(!commit.iter().any(|method| READS.contains(&method.as_str())), "{commit:?}");
            assert!(
                commit.iter().any(|method| method == "eth_getBlockByNumber"),
                "the latest block is read: {commit:?}"
            );
            assert!(commit.iter().any(|method| method == "eth_getTransactionCount"), "the nonces are read: {commit:?}");
            return;
        }
    }
    panic!("nothing was signed within two seconds of its preview's beginning");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_another_block_a_commit_repeats_every_read() {
    let mined = async |_: &TestHarness| drop(QUIET.chains()[0].devnet.mine().await.unwrap());
    let log = requests_with(2, mined).await;
    assert!(log.all_repeated(), "{:?} {:?}", log.preview, log.commit);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_another_block_of_the_same_height_a_commit_repeats_every_read() {
    let replaced = async |_: &TestHarness| {
        // The replacing block has the same transactions as the last one: the same state under another hash.
        let replace = |chain: &mut Chain| {
            let kept = chain.head().transactions.iter().map(|one| (ChainTransaction::clone(one), 0)).collect();
            chain.reorg(1, kept).map(|_| ())
        };
        QUIET.chains()[0].devnet.run(replace).await.unwrap().unwrap();
    };
    let log = requests_with(4, replaced).await;
    assert!(log.all_repeated(), "{:?} {:?}", log.preview, log.commit);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_are_too_old_are_repeated() {
    let log = requests_with(3, async |_| tokio::time::sleep(MAX_READ_AGE).await).await;
    assert!(log.since >= MAX_READ_AGE);
    assert!(log.all_repeated(), "{:?} {:?}", log.preview, log.commit);
}
