//! Failures between a signature and a block: every way in which a send can fail, at the first send of each transaction
//! of a swap; transactions that no block includes; and a stop during a wait. In the end each action was paid once, no
//! nonce was skipped, and the ledger agrees with the chain.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use alloy::consensus::TxEip1559;
use alloy::primitives::{B256, U256};
use alloy::providers::Provider as _;
use bardo::base::error::ErrorCode;
use bardo::base::model::StopLevel;
use bardo::chain::devnet::server;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::{self, SendState, SenderRules};
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::{
    CommitOutcome, CommitState, Pipeline, PipelineRefusal, RecoveredPermit, RecoveryState, RecoveryStep,
};
use bardo::safety::policy_engine::ActionEnd;
use bardo::safety::proposal::{LegPurpose, Proposal};
use bardo::sandbox::Sandbox;

use crate::endpoints::connect;
use bardo_testkit::harness::{ASKED, Book, Hook, TestHarness, Wallet, sandbox};
use bardo_testkit::rpc_proxy::{Fate, Proxy, send_faults};

pub const SEND: &str = "eth_sendRawTransaction";
const RECEIPT: &str = "eth_getTransactionReceipt";
pub const HUNDRED: u64 = 100_000_000;
/// Timeout that no successful call reaches.
pub const LONG_TIMEOUT: Duration = Duration::from_secs(240);
/// Number of polls in which bytes that may be resent would be resent many times.
const MANY_POLLS: usize = 40;

/// Devnet of this file. Its many transactions move its time far ahead.
static DEVNET: LazyLock<Sandbox> = LazyLock::new(|| sandbox(7));

/// Harness whose pipeline connects to the devnet through a proxy that can fail requests.
pub struct ProxiedHarness {
    pub world: TestHarness,
    pub pipeline: Pipeline,
    pub proxy: Proxy,
    _served: server::RpcServer,
}

impl ProxiedHarness {
    /// `fate` decides about each request by its method and the number of earlier requests of that method.
    pub async fn new<F>(account: usize, patience: Duration, fate: impl FnOnce(&TestHarness) -> F) -> Self
    where
        F: Fn(&str, usize) -> Fate + Send + Sync + 'static,
    {
        let sending = SenderRules {
            poll: Duration::from_millis(20),
            resend_after: Duration::from_millis(100),
            resend_unclear: Duration::from_millis(25),
            outbid_after: LONG_TIMEOUT,
            ..SenderRules::for_network(NetworkKind::Devnet, 1_000)
        };
        let world = TestHarness::in_step(&DEVNET, account, sending).await;
        let served = server::serve(DEVNET.chains()[0].devnet.clone(), 0).await.unwrap();
        let proxy = Proxy::start(served.url(), fate(&world)).await;
        let client = connect(world.client.network(), std::slice::from_ref(&proxy.url)).await;
        let pipeline = world.through(&client, patience);
        Self { world, pipeline, proxy, _served: served }
    }

    pub async fn commit(&self, proposal: Proposal) -> Result<CommitOutcome, PipelineRefusal> {
        let permit = self.pipeline.preview(proposal, self.world.wallet.clone(), ASKED).await?.permit.permit_id;
        self.pipeline.commit(permit, Consent::None).await
    }

    async fn commit_swap(&self) -> Result<CommitOutcome, PipelineRefusal> {
        self.commit(self.world.swap(HUNDRED).await).await
    }

    /// Waits for this many further polls of the chain.
    async fn wait_for_polls(&self, times: usize) {
        self.wait_for_requests(RECEIPT, self.proxy.count(RECEIPT) + times).await;
    }

    /// Waits until this many transactions have been submitted in total.
    pub async fn wait_for_sends(&self, times: usize) {
        self.wait_for_requests(SEND, times).await;
    }

    async fn wait_for_requests(&self, method: &str, times: usize) {
        for _ in 0..24_000 {
            if self.proxy.count(method) >= times {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{method} was requested {} times instead of {times}", self.proxy.count(method));
    }

    /// Executes the proposal as a process that ends at the `sends`th submission in total.
    pub async fn commit_in_ending_process(self: &Arc<Self>, proposal: Proposal, sends: usize) {
        // The process is a runtime of its own, and ends with it.
        let runtime = bardo::base::runtime::multi_threaded(Some(1)).unwrap();
        runtime.spawn({
            let proxied = Arc::clone(self);
            async move {
                let client = connect(proxied.world.client.network(), std::slice::from_ref(&proxied.proxy.url)).await;
                let program = proxied.world.program(&client);
                let preview = program.preview(proposal, proxied.world.wallet.clone(), ASKED).await.unwrap();
                let _never = program.commit(preview.permit.permit_id, Consent::None).await;
            }
        });
        self.wait_for_sends(sends).await;
        assert_eq!(self.pipeline.recover().await.unwrap(), [], "the process is still alive, so nothing is recovered");
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(LONG_TIMEOUT)).await.unwrap();
    }

    /// Recovers actions, once the system has released the locks of an ended process.
    async fn recovered(&self) -> Vec<RecoveredPermit> {
        for _ in 0..24_000 {
            let found = self.pipeline.recover().await.unwrap();
            if !found.is_empty() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("nothing is left to recover");
    }

    /// Number of transactions in the ledger.
    pub fn stored_count(&self) -> usize {
        let rows = self.world.store.read(|connection| {
            let count = connection.query_row("SELECT count(*) FROM sender_transaction", [], |row| row.get::<_, i64>(0));
            Ok::<_, bardo::store::StoreError>(count?)
        });
        usize::try_from(rows.unwrap()).unwrap()
    }

    /// Asserts that every transaction with a nonce of `first` or more has ended: each nonce was used once, by a
    /// transaction on the chain, and nothing is reserved.
    pub async fn assert_all_ended(&self, first: u64, what: &str) {
        let world = &self.world;
        let records = world.store.read(|connection| -> Result<Vec<sender::TxRecord>, sender::RecordError> {
            let mut statement = connection.prepare("SELECT hash FROM sender_transaction")?;
            let hashes: Vec<Vec<u8>> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            hashes.iter().map(|hash| Ok(sender::load(connection, B256::from_slice(hash))?.unwrap())).collect()
        });
        let mut used = BTreeMap::new();
        for record in records.unwrap() {
            assert!(record.settled_at.is_some(), "{what}: {record:?} has no end");
            match record.state {
                SendState::Included | SendState::Reverted => {
                    let receipt = world.client.provider().get_transaction_receipt(record.hash()).await.unwrap();
                    assert_eq!(receipt.map(|one| one.status()), Some(record.state == SendState::Included), "{what}");
                    let before = used.insert(record.signed.nonce(), record.hash());
                    assert_eq!(before, None, "{what}: two transactions with one nonce");
                }
                SendState::Dropped | SendState::Replaced => {
                    let found = world.client.provider().get_transaction_receipt(record.hash()).await.unwrap();
                    assert!(found.is_none(), "{what}: a block has {record:?}");
                }
                SendState::Stored | SendState::Sent | SendState::Unclear => panic!("{what}: {record:?}"),
            }
        }
        let next = world.nonce().await;
        assert_eq!(used.into_keys().collect::<Vec<_>>(), (first..next).collect::<Vec<_>>(), "{what}: each nonce once");
        let lane = world.store.read(|connection| sender::lane(connection, 31_337, world.account())).unwrap();
        assert_eq!((lane.open, lane.free, lane.reserved), (vec![], vec![], vec![]), "{what}");
        assert!(lane.next.is_none_or(|found| found == next), "{what}: {:?} and {next}", lane.next);
        let open = world.store.read(|connection| {
            let query = "SELECT count(*) FROM safety_permit WHERE ended IS NULL";
            Ok::<_, bardo::store::StoreError>(connection.query_row(query, [], |row| row.get::<_, i64>(0))?)
        });
        assert_eq!(open.unwrap(), 0, "{what}: every reservation is settled");
        assert_eq!(world.allowance(world.contract(KnownContract::Permit2)).await, U256::ZERO, "{what}");
    }
}

/// Plays each failure at the first send of transaction number `leg` of a swap.
async fn fail_each_send(leg: usize, account: usize) {
    for (wrong, gives_up) in send_faults() {
        let what = format!("{wrong:?} at transaction {leg}");
        let fate = wrong.clone();
        let proxied = ProxiedHarness::new(account, LONG_TIMEOUT, |world| {
            let (wallet, done) = (Arc::clone(&world.wallet), AtomicBool::new(false));
            move |method: &str, _| {
                // The first submission after that many signatures is that of the last signed transaction.
                let now = method == SEND && wallet.signatures.load(Ordering::SeqCst) == leg + 1;
                if now && !done.swap(true, Ordering::SeqCst) { fate.clone() } else { Fate::Pass }
            }
        })
        .await;
        let world = &proxied.world;
        let (nonce, usdc) = (world.nonce().await, world.balance(&world.usdc).await);
        let first = proxied.commit_swap().await;
        if gives_up {
            // No endpoint had the transaction, so nothing was sold, and the allowance is revoked.
            match (leg, first) {
                (0, Err(refusal)) => assert_eq!(refusal.code, ErrorCode::ChainUnreachable, "{what}"),
                (1, Ok(CommitOutcome { state: CommitState::Stopped { code, .. }, remarks, .. })) => {
                    assert_eq!((code, remarks), (ErrorCode::ChainUnreachable, vec![]), "{what}");
                }
                (_, other) => panic!("{what}: {other:?}"),
            }
            assert_eq!(world.balance(&world.usdc).await, usdc, "{what}: nothing was sold");
            proxied.assert_all_ended(nonce, &what).await;
            let again = proxied.commit_swap().await.unwrap_or_else(|refusal| panic!("{what}: {refusal:?}"));
            assert_eq!(again.state, CommitState::Done, "{what}: requested again");
        } else {
            let committed = first.unwrap_or_else(|refusal| panic!("{what}: {refusal:?}"));
            assert_eq!(
                (&committed.state, committed.remarks.len()),
                (&CommitState::Done, 0),
                "{what}: {:?}",
                committed.remarks
            );
            assert_eq!(proxied.stored_count(), 2, "{what}: nothing was signed again");
        }
        assert_eq!(usdc - world.balance(&world.usdc).await, U256::from(HUNDRED), "{what}: paid once");
        proxied.assert_all_ended(nonce, &what).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failed_send_of_the_allowance_ends_in_one_swap() {
    fail_each_send(0, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failed_send_of_the_swap_ends_in_one_swap() {
    fail_each_send(1, 5).await;
}

/// Endpoint that fails every submission until `accepts` is set, or until there is a second signature. With `stops`, a
/// stop is set at the second submission, the first resend of the same bytes.
#[derive(Clone, Default)]
struct FailingEndpoint {
    accepts: Arc<AtomicBool>,
    stops: bool,
}

impl FailingEndpoint {
    fn fate(&self, world: &TestHarness, wrong: Fate) -> impl Fn(&str, usize) -> Fate + Send + Sync + use<> {
        let (wallet, book, own) = (Arc::clone(&world.wallet), Arc::clone(&world.book), self.clone());
        move |method, before| {
            let outbid = wallet.signatures.load(Ordering::SeqCst) > 1;
            if method != SEND || outbid || own.accepts.load(Ordering::SeqCst) {
                return Fate::Pass;
            }
            if own.stops && before == 1 {
                *book.stop.lock().unwrap() = Some(StopLevel::Halt);
            }
            wrong.clone()
        }
    }

    /// Lifts the stop and lets the endpoint accept submissions.
    fn accept_again(&self, world: &TestHarness) {
        self.accepts.store(true, Ordering::SeqCst);
        *world.book.stop.lock().unwrap() = None;
    }
}

pub const UNDERPRICED: Fate = Fate::Refuse(-32_000, "transaction underpriced");

#[tokio::test(flavor = "multi_thread")]
async fn an_underpriced_transaction_is_replaced_and_paid_once() {
    let proxied =
        ProxiedHarness::new(4, LONG_TIMEOUT, |world| FailingEndpoint::default().fate(world, UNDERPRICED)).await;
    let world = &proxied.world;
    let (nonce, usdc) = (world.nonce().await, world.balance(&world.usdc).await);
    let committed = proxied.commit_swap().await.unwrap();
    assert_eq!(committed.state, CommitState::Done, "{committed:?}");
    assert_eq!(
        (committed.remarks.len(), proxied.stored_count()),
        (1, 3),
        "the allowance twice and the swap: {committed:?}"
    );
    assert_eq!(usdc - world.balance(&world.usdc).await, U256::from(HUNDRED));
    proxied.assert_all_ended(nonce, "outbid").await;
}

/// Plays a swap whose allowance is rejected as underpriced and is not replaced. `on_sign` is called at each signature
/// with the number of signatures. With a stop, nothing is sent before it is lifted, after `halted` signatures. In the
/// end the transaction that was signed first is included.
async fn assert_not_replaced(
    stops: bool,
    on_sign: impl Fn(&Wallet, &Book, usize) + Send + Sync + 'static,
    halted: Option<usize>,
    what: &str,
) {
    let endpoint = FailingEndpoint { stops, ..FailingEndpoint::default() };
    let proxied = Arc::new(ProxiedHarness::new(4, LONG_TIMEOUT, |world| endpoint.fate(world, UNDERPRICED)).await);
    let world = &proxied.world;
    let (nonce, usdc) = (world.nonce().await, world.balance(&world.usdc).await);
    let (wallet, book) = (Arc::clone(&world.wallet), Arc::clone(&world.book));
    let hook = move || on_sign(&wallet, &book, wallet.signatures.load(Ordering::SeqCst));
    *world.wallet.on_sign.lock().unwrap() = Hook::new(hook).into_inner().unwrap();
    let commit = tokio::spawn({
        let proxied = Arc::clone(&proxied);
        async move { proxied.commit_swap().await }
    });
    proxied.wait_for_sends(2).await;
    match halted {
        Some(signed) => {
            proxied.wait_for_polls(MANY_POLLS).await;
            assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), signed, "{what}");
            assert_eq!(
                (proxied.stored_count(), proxied.proxy.count(SEND)),
                (1, 2),
                "{what}: nothing more is stored or sent"
            );
            assert_eq!(world.nonce().await, nonce, "{what}");
        }
        None => {
            while world.wallet.signatures.load(Ordering::SeqCst) < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    endpoint.accept_again(world);
    let committed = commit.await.unwrap().unwrap();
    assert_eq!((&committed.state, proxied.stored_count()), (&CommitState::Done, 2), "{what}: {:?}", committed.remarks);
    assert_eq!(usdc - world.balance(&world.usdc).await, U256::from(HUNDRED), "{what}");
    proxied.assert_all_ended(nonce, what).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_stop_no_replacement_is_signed() {
    assert_not_replaced(true, |_, _, _| {}, Some(1), "a stop before it is signed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_signed_during_a_stop_is_not_stored() {
    let halt = |_: &Wallet, book: &Book, signatures: usize| {
        if signatures == 2 {
            *book.stop.lock().unwrap() = Some(StopLevel::Halt);
        }
    };
    assert_not_replaced(false, halt, Some(2), "a stop while it is signed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_is_checked_against_the_payload_like_the_first_signature() {
    let lie = |wallet: &Wallet, _: &Book, signatures: usize| {
        let falsify: Option<fn(&mut TxEip1559)> = match signatures {
            // The next one pays another account an additional wei.
            1 => Some(|transaction| transaction.value = U256::from(1)),
            _ => None,
        };
        *wallet.falsify.lock().unwrap() = falsify;
    };
    assert_not_replaced(false, lie, None, "another value").await;
}

/// Bytes that were signed and sent before a stop and that no endpoint has are tracked, and resent after the stop.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_stop_an_earlier_transaction_is_not_resent() {
    // While the call waits for it, and afterwards, while it is only tracked.
    for patience in [LONG_TIMEOUT, Duration::ZERO] {
        let what = format!("waited for {patience:?}");
        let endpoint = FailingEndpoint { stops: true, ..FailingEndpoint::default() };
        let proxied = Arc::new(ProxiedHarness::new(5, patience, |world| endpoint.fate(world, Fate::LoseRequest)).await);
        let world = &proxied.world;
        let (nonce, proposal) = (world.nonce().await, world.approval(HUNDRED));
        let commit = tokio::spawn({
            let proxied = Arc::clone(&proxied);
            async move { proxied.commit(proposal).await }
        });
        proxied.wait_for_sends(2).await;
        proxied.wait_for_polls(MANY_POLLS).await;
        assert_eq!(proxied.proxy.count(SEND), 2, "{what}: not after the stop");
        endpoint.accept_again(world);
        let committed = commit.await.unwrap().unwrap();
        let known = if patience.is_zero() { CommitState::Unclear } else { CommitState::Done };
        assert_eq!(committed.state, known, "{what}: {:?}", committed.remarks);
        // Tracked transactions are settled in the background.
        while !matches!(world.book.ends.lock().unwrap().last(), Some(ActionEnd::Done { .. })) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(world.nonce().await, nonce + 1, "{what}");
        let permit = world.preview(world.revocation()).await.unwrap().permit.permit_id;
        let revoked = world.pipeline.commit(permit, Consent::None).await.unwrap();
        assert_eq!(revoked.state, CommitState::Done, "{what}: {revoked:?}");
        proxied.assert_all_ended(nonce, &what).await;
    }
}

/// A transaction that an ended process sent, and that no endpoint has: the next process tracks it under a stop, and
/// sends it afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn under_a_stop_transactions_of_an_ended_process_are_only_watched() {
    let endpoint = FailingEndpoint::default();
    let proxied = Arc::new(ProxiedHarness::new(8, LONG_TIMEOUT, |world| endpoint.fate(world, Fate::LoseRequest)).await);
    let world = &proxied.world;
    let (nonce, proposal) = (world.nonce().await, world.approval(HUNDRED));
    proxied.commit_in_ending_process(proposal, 1).await;
    let (sends, halt) = (proxied.proxy.count(SEND), Some(StopLevel::Halt));
    *world.book.stop.lock().unwrap() = halt;
    endpoint.accepts.store(true, Ordering::SeqCst);
    let unsent = proxied.pipeline.to_send_again().unwrap();
    assert_eq!(unsent.iter().map(|left| left.now).collect::<Vec<_>>(), [false], "it is only watched under the stop");
    for _ in 0..2 {
        let found: Vec<_> = proxied.recovered().await.into_iter().map(|one| (one.found, one.step, one.end)).collect();
        assert_eq!(found, [(RecoveryState::Waiting, RecoveryStep::Watch, ActionEnd::Unclear)]);
    }
    assert_eq!((proxied.proxy.count(SEND), world.nonce().await), (sends, nonce), "nothing is sent");
    *world.book.stop.lock().unwrap() = None;
    let unsent = proxied.pipeline.to_send_again().unwrap();
    assert_eq!(unsent.iter().map(|left| left.now).collect::<Vec<_>>(), [true]);
    let [one] = &proxied.recovered().await[..] else { panic!() };
    assert_eq!((one.found, one.step), (RecoveryState::Whole, RecoveryStep::CountAll));
    assert!(matches!(one.end, ActionEnd::Done { .. }), "{one:?}");
    assert_eq!(world.nonce().await, nonce + 1);
    let permit = world.preview(world.revocation()).await.unwrap().permit.permit_id;
    assert_eq!(world.pipeline.commit(permit, Consent::None).await.unwrap().state, CommitState::Done);
    proxied.assert_all_ended(nonce, "left by an ended process").await;
}

/// The signed bytes decide what is a revocation, since anyone who can write to the ledger can call anything one.
#[tokio::test(flavor = "multi_thread")]
async fn under_a_stop_a_false_revocation_in_the_ledger_is_only_watched() {
    let endpoint = FailingEndpoint::default();
    let proxied = Arc::new(ProxiedHarness::new(8, LONG_TIMEOUT, |world| endpoint.fate(world, Fate::LoseRequest)).await);
    let world = &proxied.world;
    let (nonce, router) = (world.nonce().await, world.contract(KnownContract::UniversalRouterV210));
    let mut proposal = world.approval(HUNDRED);
    proposal.allowances[0].spender = router;
    proposal.legs = vec![world.approve(LegPurpose::Main, router, U256::from(HUNDRED))];
    proxied.commit_in_ending_process(proposal, 1).await;
    let (sends, halt) = (proxied.proxy.count(SEND), Some(StopLevel::Halt));
    *world.book.stop.lock().unwrap() = halt;
    endpoint.accepts.store(true, Ordering::SeqCst);
    let changed = world.store.write(|transaction| {
        Ok::<_, bardo::store::StoreError>(transaction.execute("UPDATE safety_leg SET takes_back = 1", [])?)
    });
    assert_eq!(changed.await.unwrap(), 1);
    let unsent = proxied.pipeline.to_send_again().unwrap();
    assert_eq!(unsent.iter().map(|left| left.now).collect::<Vec<_>>(), [false], "it is only watched");
    let found: Vec<_> = proxied.recovered().await.into_iter().map(|one| (one.found, one.step, one.end)).collect();
    assert_eq!(found, [(RecoveryState::Waiting, RecoveryStep::Watch, ActionEnd::Unclear)]);
    assert_eq!((proxied.proxy.count(SEND), world.nonce().await), (sends, nonce), "nothing is sent");
    *world.book.stop.lock().unwrap() = None;
    let [one] = &proxied.recovered().await[..] else { panic!() };
    assert!(matches!(one.end, ActionEnd::Done { .. }), "{one:?}");
    assert_eq!(world.allowance(router).await, U256::from(HUNDRED));
    let nothing = bardo::abi::erc20::Erc20::approveCall { spender: router, value: U256::ZERO };
    world.send(world.contract_of(&world.usdc), nothing).await;
}

/// A revocation that is signed under a stop must be included under it.
#[tokio::test(flavor = "multi_thread")]
async fn under_a_halt_a_revocation_is_sent_until_it_is_included() {
    let proxied = ProxiedHarness::new(5, LONG_TIMEOUT, |world| {
        let book = Arc::clone(&world.book);
        let lost = AtomicUsize::new(0);
        move |method: &str, _| {
            let stopped = book.stop.lock().unwrap().is_some();
            let now = method == SEND && stopped && lost.fetch_add(1, Ordering::SeqCst) < 2;
            if now { Fate::LoseRequest } else { Fate::Pass }
        }
    })
    .await;
    let world = &proxied.world;
    let nonce = world.nonce().await;
    let given = proxied.commit(world.approval(HUNDRED)).await.unwrap();
    assert_eq!(given.state, CommitState::Done, "{given:?}");
    *world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
    let sends = proxied.proxy.count(SEND);
    let revoked = proxied.commit(world.revocation()).await.unwrap();
    assert_eq!(revoked.state, CommitState::Done, "{revoked:?}");
    assert_eq!(proxied.proxy.count(SEND), sends + 3, "two lost submissions and one more");
    proxied.assert_all_ended(nonce, "revoked").await;
}
