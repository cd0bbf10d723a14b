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
use bardo_testkit::rpc_proxy::{Fate, Proxy, wrongs};

pub const SEND: &str = "eth_sendRawTransaction";
const RECEIPT: &str = "eth_getTransactionReceipt";
pub const HUNDRED: u64 = 100_000_000;
/// Timeout that only a fault exhausts.
pub const PATIENT: Duration = Duration::from_secs(240);
/// Number of polls within which bytes that may be resent would have been resent many times.
const LOOKS: usize = 40;

/// Devnet of this file: its many transactions take its time far ahead.
static MANY: LazyLock<Sandbox> = LazyLock::new(|| sandbox(7));

/// Test chain whose pipeline connects through a proxy.
pub struct Behind {
    pub world: TestHarness,
    pub pipeline: Pipeline,
    pub proxy: Proxy,
    _served: server::RpcServer,
}

impl Behind {
    /// `fate` decides by the test chain, the method, and the number of earlier requests of that method.
    pub async fn new<F>(account: usize, patience: Duration, fate: impl FnOnce(&TestHarness) -> F) -> Self
    where
        F: Fn(&str, usize) -> Fate + Send + Sync + 'static,
    {
        let sending = SenderRules {
            poll: Duration::from_millis(20),
            resend_after: Duration::from_millis(100),
            resend_unclear: Duration::from_millis(25),
            outbid_after: PATIENT,
            ..SenderRules::for_network(NetworkKind::Devnet, 1_000)
        };
        let world = TestHarness::in_step(&MANY, account, sending).await;
        let served = server::serve(MANY.chains()[0].devnet.clone(), 0).await.unwrap();
        let proxy = Proxy::start(served.url(), fate(&world)).await;
        let client = connect(world.client.network(), std::slice::from_ref(&proxy.url)).await;
        let pipeline = world.through(&client, patience);
        Self { world, pipeline, proxy, _served: served }
    }

    pub async fn commit(&self, proposal: Proposal) -> Result<CommitOutcome, PipelineRefusal> {
        let permit = self.pipeline.preview(proposal, self.world.wallet.clone(), ASKED).await?.permit.permit_id;
        self.pipeline.commit(permit, Consent::None).await
    }

    async fn swapped(&self) -> Result<CommitOutcome, PipelineRefusal> {
        self.commit(self.world.swap(HUNDRED).await).await
    }

    /// Waits for this many further polls of the chain.
    async fn looked(&self, times: usize) {
        self.asked(RECEIPT, self.proxy.count(RECEIPT) + times).await;
    }

    /// Waits for this many submissions.
    pub async fn sent(&self, times: usize) {
        self.asked(SEND, times).await;
    }

    async fn asked(&self, method: &str, times: usize) {
        for _ in 0..24_000 {
            if self.proxy.count(method) >= times {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{method} was asked {} times, and not {times}", self.proxy.count(method));
    }

    /// Executes the proposal in a process of its own, which ends at the `sends`th submission in total.
    pub async fn left(self: &Arc<Self>, proposal: Proposal, sends: usize) {
        // It has its own runtime, with which everything of it ends.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn({
            let behind = Arc::clone(self);
            async move {
                let client = connect(behind.world.client.network(), std::slice::from_ref(&behind.proxy.url)).await;
                let program = behind.world.program(&client);
                let preview = program.preview(proposal, behind.world.wallet.clone(), ASKED).await.unwrap();
                let _never = program.commit(preview.permit.permit_id, Consent::None).await;
            }
        });
        self.sent(sends).await;
        assert_eq!(self.pipeline.recover().await.unwrap(), [], "as long as it lives it is its own");
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(PATIENT)).await.unwrap();
    }

    /// Recovered actions, once the system has released the locks of an ended process.
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
    pub fn kept(&self) -> usize {
        let rows = self.world.store.read(|connection| {
            let count = connection.query_row("SELECT count(*) FROM sender_transaction", [], |row| row.get::<_, i64>(0));
            Ok::<_, bardo::store::StoreError>(count?)
        });
        usize::try_from(rows.unwrap()).unwrap()
    }

    /// Asserts that everything from `first` on has ended: each nonce was used once, by a transaction that the chain
    /// has, and nothing is reserved.
    pub async fn drained(&self, first: u64, what: &str) {
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
                    assert_eq!(before, None, "{what}: two of one nonce");
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
            let question = "SELECT count(*) FROM safety_permit WHERE ended IS NULL";
            Ok::<_, bardo::store::StoreError>(connection.query_row(question, [], |row| row.get::<_, i64>(0))?)
        });
        assert_eq!(open.unwrap(), 0, "{what}: what was held is settled");
        assert_eq!(world.allowance(world.contract(KnownContract::Permit2)).await, U256::ZERO, "{what}");
    }
}

/// Each failure at the first send of transaction number `leg` of a swap.
async fn each_wrong_at(leg: usize, account: usize) {
    for (wrong, gives_up) in wrongs() {
        let what = format!("{wrong:?} at transaction {leg}");
        let told = wrong.clone();
        let behind = Behind::new(account, PATIENT, |world| {
            let (wallet, done) = (Arc::clone(&world.wallet), AtomicBool::new(false));
            move |method: &str, _| {
                // The first submission after that many signatures is of the transaction that was signed last.
                let now = method == SEND && wallet.signatures.load(Ordering::SeqCst) == leg + 1;
                if now && !done.swap(true, Ordering::SeqCst) { told.clone() } else { Fate::Pass }
            }
        })
        .await;
        let world = &behind.world;
        let (nonce, usdc) = (world.nonce().await, world.balance(&world.usdc).await);
        let first = behind.swapped().await;
        if gives_up {
            // No endpoint had it, and nobody was paid; the allowance for it is revoked.
            match (leg, first) {
                (0, Err(refusal)) => assert_eq!(refusal.code, ErrorCode::ChainUnreachable, "{what}"),
                (1, Ok(CommitOutcome { state: CommitState::Stopped { code, .. }, remarks, .. })) => {
                    assert_eq!((code, remarks), (ErrorCode::ChainUnreachable, vec![]), "{what}");
                }
                (_, other) => panic!("{what}: {other:?}"),
            }
            assert_eq!(world.balance(&world.usdc).await, usdc, "{what}: nothing was sold");
            behind.drained(nonce, &what).await;
            let again = behind.swapped().await.unwrap_or_else(|refusal| panic!("{what}: {refusal:?}"));
            assert_eq!(again.state, CommitState::Done, "{what}: requested again");
        } else {
            let committed = first.unwrap_or_else(|refusal| panic!("{what}: {refusal:?}"));
            assert_eq!(
                (&committed.state, committed.remarks.len()),
                (&CommitState::Done, 0),
                "{what}: {:?}",
                committed.remarks
            );
            assert_eq!(behind.kept(), 2, "{what}: nothing was signed anew");
        }
        assert_eq!(usdc - world.balance(&world.usdc).await, U256::from(HUNDRED), "{what}: paid once");
        behind.drained(nonce, &what).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failed_send_of_the_allowance_ends_in_one_swap() {
    each_wrong_at(0, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failed_send_of_the_swap_ends_in_one_swap() {
    each_wrong_at(1, 5).await;
}

/// An unwilling endpoint: rejects every submission until it becomes willing, or until there is a second signature.
/// Optionally a stop is set at the second submission, the first resend of the same bytes.
#[derive(Clone, Default)]
struct Unwilling {
    willing: Arc<AtomicBool>,
    stops: bool,
}

impl Unwilling {
    fn fate(&self, world: &TestHarness, wrong: Fate) -> impl Fn(&str, usize) -> Fate + Send + Sync + use<> {
        let (wallet, book, own) = (Arc::clone(&world.wallet), Arc::clone(&world.book), self.clone());
        move |method, before| {
            let outbid = wallet.signatures.load(Ordering::SeqCst) > 1;
            if method != SEND || outbid || own.willing.load(Ordering::SeqCst) {
                return Fate::Pass;
            }
            if own.stops && before == 1 {
                *book.stop.lock().unwrap() = Some(StopLevel::Halt);
            }
            wrong.clone()
        }
    }

    /// Lifts the stop and lets the endpoint accept submissions.
    fn relents(&self, world: &TestHarness) {
        self.willing.store(true, Ordering::SeqCst);
        *world.book.stop.lock().unwrap() = None;
    }
}

pub const DEAR: Fate = Fate::Refuse(-32_000, "transaction underpriced");

#[tokio::test(flavor = "multi_thread")]
async fn an_underpriced_transaction_is_replaced_and_paid_once() {
    let behind = Behind::new(4, PATIENT, |world| Unwilling::default().fate(world, DEAR)).await;
    let world = &behind.world;
    let (nonce, usdc) = (world.nonce().await, world.balance(&world.usdc).await);
    let committed = behind.swapped().await.unwrap();
    assert_eq!(committed.state, CommitState::Done, "{committed:?}");
    assert_eq!((committed.remarks.len(), behind.kept()), (1, 3), "the allowance twice and the swap: {committed:?}");
    assert_eq!(usdc - world.balance(&world.usdc).await, U256::from(HUNDRED));
    behind.drained(nonce, "outbid").await;
}

/// A swap whose allowance is rejected for its price and is not replaced. `on_sign` is called at each signature with
/// their number. With a stop, nothing leaves before it is lifted, after `halted` signatures. In the end the transaction
/// that was signed first is included.
async fn not_outbid(
    stops: bool,
    on_sign: impl Fn(&Wallet, &Book, usize) + Send + Sync + 'static,
    halted: Option<usize>,
    what: &str,
) {
    let endpoint = Unwilling { stops, ..Unwilling::default() };
    let behind = Arc::new(Behind::new(4, PATIENT, |world| endpoint.fate(world, DEAR)).await);
    let world = &behind.world;
    let (nonce, usdc) = (world.nonce().await, world.balance(&world.usdc).await);
    let (wallet, book) = (Arc::clone(&world.wallet), Arc::clone(&world.book));
    let hook = move || on_sign(&wallet, &book, wallet.signatures.load(Ordering::SeqCst));
    *world.wallet.on_sign.lock().unwrap() = Hook::new(hook).into_inner().unwrap();
    let commit = tokio::spawn({
        let behind = Arc::clone(&behind);
        async move { behind.swapped().await }
    });
    behind.sent(2).await;
    match halted {
        Some(signed) => {
            behind.looked(LOOKS).await;
            assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), signed, "{what}");
            assert_eq!((behind.kept(), behind.proxy.count(SEND)), (1, 2), "{what}: nothing is kept, nothing is sent");
            assert_eq!(world.nonce().await, nonce, "{what}");
        }
        None => {
            while world.wallet.signatures.load(Ordering::SeqCst) < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    endpoint.relents(world);
    let committed = commit.await.unwrap().unwrap();
    assert_eq!((&committed.state, behind.kept()), (&CommitState::Done, 2), "{what}: {:?}", committed.remarks);
    assert_eq!(usdc - world.balance(&world.usdc).await, U256::from(HUNDRED), "{what}");
    behind.drained(nonce, what).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_stop_no_replacement_is_signed() {
    not_outbid(true, |_, _, _| {}, Some(1), "a stop before it is signed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_signed_during_a_stop_is_not_stored() {
    let halt = |_: &Wallet, book: &Book, signatures: usize| {
        if signatures == 2 {
            *book.stop.lock().unwrap() = Some(StopLevel::Halt);
        }
    };
    not_outbid(false, halt, Some(2), "a stop while it is signed").await;
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
    not_outbid(false, lie, None, "another value").await;
}

/// Bytes that were signed and sent before a stop, and that no endpoint has: they are tracked, and resent once it is
/// over.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_stop_an_earlier_transaction_is_not_resent() {
    // While the call waits for it, and afterwards, while it is only tracked.
    for patience in [PATIENT, Duration::ZERO] {
        let what = format!("waited for {patience:?}");
        let endpoint = Unwilling { stops: true, ..Unwilling::default() };
        let behind = Arc::new(Behind::new(5, patience, |world| endpoint.fate(world, Fate::LoseRequest)).await);
        let world = &behind.world;
        let (nonce, proposal) = (world.nonce().await, world.approval(HUNDRED));
        let commit = tokio::spawn({
            let behind = Arc::clone(&behind);
            async move { behind.commit(proposal).await }
        });
        behind.sent(2).await;
        behind.looked(LOOKS).await;
        assert_eq!(behind.proxy.count(SEND), 2, "{what}: not after the stop");
        endpoint.relents(world);
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
        behind.drained(nonce, &what).await;
    }
}

/// A transaction that an ended process sent, and that no endpoint has: the next process tracks it under a stop, and
/// sends it afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn under_a_stop_transactions_of_an_ended_process_are_only_watched() {
    let endpoint = Unwilling::default();
    let behind = Arc::new(Behind::new(8, PATIENT, |world| endpoint.fate(world, Fate::LoseRequest)).await);
    let world = &behind.world;
    let (nonce, proposal) = (world.nonce().await, world.approval(HUNDRED));
    behind.left(proposal, 1).await;
    let (sends, halt) = (behind.proxy.count(SEND), Some(StopLevel::Halt));
    *world.book.stop.lock().unwrap() = halt;
    endpoint.willing.store(true, Ordering::SeqCst);
    let told = behind.pipeline.to_send_again().unwrap();
    assert_eq!(told.iter().map(|left| left.now).collect::<Vec<_>>(), [false], "it is only watched for now");
    for _ in 0..2 {
        let found: Vec<_> = behind.recovered().await.into_iter().map(|one| (one.found, one.step, one.end)).collect();
        assert_eq!(found, [(RecoveryState::Waiting, RecoveryStep::Watch, ActionEnd::Unclear)]);
    }
    assert_eq!((behind.proxy.count(SEND), world.nonce().await), (sends, nonce), "nothing is sent");
    *world.book.stop.lock().unwrap() = None;
    let told = behind.pipeline.to_send_again().unwrap();
    assert_eq!(told.iter().map(|left| left.now).collect::<Vec<_>>(), [true]);
    let [one] = &behind.recovered().await[..] else { panic!() };
    assert_eq!((one.found, one.step), (RecoveryState::Whole, RecoveryStep::CountAll));
    assert!(matches!(one.end, ActionEnd::Done { .. }), "{one:?}");
    assert_eq!(world.nonce().await, nonce + 1);
    let permit = world.preview(world.revocation()).await.unwrap().permit.permit_id;
    assert_eq!(world.pipeline.commit(permit, Consent::None).await.unwrap().state, CommitState::Done);
    behind.drained(nonce, "left").await;
}

/// A writer to the ledger can call anything a revocation: the signed bytes decide.
#[tokio::test(flavor = "multi_thread")]
async fn under_a_stop_a_false_revocation_in_the_ledger_is_only_watched() {
    let endpoint = Unwilling::default();
    let behind = Arc::new(Behind::new(8, PATIENT, |world| endpoint.fate(world, Fate::LoseRequest)).await);
    let world = &behind.world;
    let (nonce, router) = (world.nonce().await, world.contract(KnownContract::UniversalRouter));
    let mut proposal = world.approval(HUNDRED);
    proposal.allowances[0].spender = router;
    proposal.legs = vec![world.approve(LegPurpose::Main, router, U256::from(HUNDRED))];
    behind.left(proposal, 1).await;
    let (sends, halt) = (behind.proxy.count(SEND), Some(StopLevel::Halt));
    *world.book.stop.lock().unwrap() = halt;
    endpoint.willing.store(true, Ordering::SeqCst);
    let changed = world.store.write(|transaction| {
        Ok::<_, bardo::store::StoreError>(transaction.execute("UPDATE safety_leg SET takes_back = 1", [])?)
    });
    assert_eq!(changed.await.unwrap(), 1);
    let told = behind.pipeline.to_send_again().unwrap();
    assert_eq!(told.iter().map(|left| left.now).collect::<Vec<_>>(), [false], "it is only watched");
    let found: Vec<_> = behind.recovered().await.into_iter().map(|one| (one.found, one.step, one.end)).collect();
    assert_eq!(found, [(RecoveryState::Waiting, RecoveryStep::Watch, ActionEnd::Unclear)]);
    assert_eq!((behind.proxy.count(SEND), world.nonce().await), (sends, nonce), "nothing is sent");
    *world.book.stop.lock().unwrap() = None;
    let [one] = &behind.recovered().await[..] else { panic!() };
    assert!(matches!(one.end, ActionEnd::Done { .. }), "{one:?}");
    assert_eq!(world.allowance(router).await, U256::from(HUNDRED));
    let nothing = bardo::abi::erc20::Erc20::approveCall { spender: router, value: U256::ZERO };
    world.send(world.contract_of(&world.usdc), nothing).await;
}

/// A revocation is signed under a stop, and must be included under it.
#[tokio::test(flavor = "multi_thread")]
async fn under_a_halt_a_revocation_is_sent_until_it_is_included() {
    let behind = Behind::new(5, PATIENT, |world| {
        let book = Arc::clone(&world.book);
        let lost = AtomicUsize::new(0);
        move |method: &str, _| {
            let stopped = book.stop.lock().unwrap().is_some();
            let now = method == SEND && stopped && lost.fetch_add(1, Ordering::SeqCst) < 2;
            if now { Fate::LoseRequest } else { Fate::Pass }
        }
    })
    .await;
    let world = &behind.world;
    let nonce = world.nonce().await;
    let given = behind.commit(world.approval(HUNDRED)).await.unwrap();
    assert_eq!(given.state, CommitState::Done, "{given:?}");
    *world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
    let sends = behind.proxy.count(SEND);
    let revoked = behind.commit(world.revocation()).await.unwrap();
    assert_eq!(revoked.state, CommitState::Done, "{revoked:?}");
    assert_eq!(behind.proxy.count(SEND), sends + 3, "twice for nothing, and once more");
    behind.drained(nonce, "taken back").await;
}
