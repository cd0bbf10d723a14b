//! Tests of recovery on a ledger file with the operator's rules and without a chain: chain states are made up here.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use alloy::consensus::TxEip1559;
use alloy::primitives::{Address, U256};
use rusqlite::params;

use super::*;
use crate::approval::ApprovalQueue;
use crate::ledger;
use crate::operator_policy::OperatorPolicyEngine;
use crate::orders::{OrderStage, OrderState};
use crate::permit::{NotedLeg, PermitUseRecord};
use crate::pipeline::PipelineConfig;
use crate::policy::{PolicyKeeper, parse};
use crate::stop::StopFile;
use bardo_abi::erc7683::AcrossOrderData;
use bardo_base::clock::Clock;
use bardo_base::fabric::{CardToken, Fabric};
use bardo_base::text::SafeText;
use bardo_sandbox::keys::DevnetAccount;
use bardo_store::{Store, StoreConfig};
use golem_chain::provider::ProviderError;
use golem_chain::sender::{ChainNonces, MinedTx, RecordError, SendRoute, SendState, SenderError, TxRecord};
use golem_chain::signed::SignedTransaction;
use golem_protocols::intents;

const ACCOUNT: Address = Address::repeat_byte(7);
const CHAIN: u64 = 31_337;
/// Position of a permit's only transaction.
const ONLY: NotedLeg = NotedLeg { leg: 0, of: 1, main: true, only_revokes: false };

#[derive(Debug)]
struct TestSigner(AtomicU64);

impl Clock for TestSigner {
    fn now_millis(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl TestSigner {
    fn pass(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

/// A ledger, with one process on it.
struct TestLedger {
    folder: tempfile::TempDir,
    store: Store,
    clock: Arc<TestSigner>,
    pipeline: Pipeline,
}

fn open(folder: &Path) -> Store {
    let rooms = [sender::MIGRATIONS, permit::MIGRATIONS, audit::MIGRATIONS, ledger::MIGRATIONS];
    Store::open(StoreConfig::at(folder.join("ledger.db")), &rooms).unwrap()
}

fn ledger() -> TestLedger {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let clock = Arc::new(TestSigner(AtomicU64::new(1_790_000_000_000)));
    let policy = parse("preset = \"demo\"", Path::new("policy.toml")).unwrap();
    let stop = StopFile::in_folder(folder.path());
    let rules = OperatorPolicyEngine::new(Arc::new(PolicyKeeper::fixed(policy)), stop, store.clone(), []);
    let fabric = Fabric::in_memory(100, clock.clone());
    let queue = ApprovalQueue::new(clock.clone(), fabric.clone(), Duration::from_secs(60));
    let pipeline = Pipeline::new(PipelineConfig {
        chains: vec![],
        store: store.clone(),
        rules: Arc::new(rules),
        clock: clock.clone(),
        fabric,
        queue,
        key: None,
        guardian: None,
        permit_ttl: Duration::from_secs(60),
        patience: Duration::from_secs(1),
    });
    TestLedger { folder, store, clock, pipeline }
}

/// Writes what a commit writes before it signs: reservation, used permit, allocated nonce. The owner is the process
/// that opened `store`.
async fn begun(store: &Store, now: u64) -> PermitId {
    let (permit_id, call_id) = (PermitId::random(), CallId::new(now));
    let written = store.write(move |transaction| {
        transaction.execute(
            "INSERT INTO ledger_reservation (call_id, golem_id, chain_id, account, trade, exempt, micros, reserved_at, state)
             VALUES (?1, ?2, ?3, ?4, 0, 0, 9000000, ?5, 'open')",
            params![call_id.to_string(), GolemId::operator().as_str(), CHAIN as i64, ACCOUNT.to_string(), now as i64],
        )?;
        let reservation = transaction.last_insert_rowid();
        let used = PermitUseRecord {
            permit_id,
            simulation_hash: B256::ZERO,
            call_id,
            golem_id: GolemId::operator(),
            chain_id: CHAIN,
            account: ACCOUNT,
            gas_usd: "1".to_owned(),
            spent_usd: "9".to_owned(),
        };
        assert!(permit::consume(transaction, &used, reservation, now)?);
        let seen = ChainNonces { latest: 0, pending: 0 };
        let _ticket = sender::allocate(transaction, CHAIN, ACCOUNT, seen, now).unwrap();
        Ok::<_, StoreError>(())
    });
    written.await.unwrap();
    permit_id
}

impl TestLedger {
    fn now(&self) -> u64 {
        self.clock.now_millis()
    }

    fn reserved(&self) -> usize {
        self.store.read(sender::reserved).unwrap().len()
    }

    fn left(&self) -> Vec<OpenPermit> {
        self.store.read(open_permits).unwrap()
    }

    async fn run(&self, statement: &'static str) {
        let written = self.store.write(move |transaction| Ok::<_, StoreError>(transaction.execute(statement, [])?));
        assert!(written.await.unwrap() > 0, "{statement}");
    }

    fn reported<T: rusqlite::types::FromSql>(&self, question: &str) -> T {
        self.store
            .read(|connection| Ok::<_, StoreError>(connection.query_row(question, [], |row| row.get(0))?))
            .unwrap()
    }

    /// Records an order under this permit, in this stage.
    async fn order(&self, permit_id: PermitId, stage: OrderStage) -> orders::OrderRecord {
        let intent = intents::CrossChainIntent {
            origin_settler: Address::repeat_byte(1),
            user: ACCOUNT,
            nonce: U256::from(1),
            origin_chain_id: CHAIN,
            open_deadline: 1,
            fill_deadline: 2,
            data: AcrossOrderData {
                inputToken: Address::repeat_byte(2),
                inputAmount: U256::from(5),
                outputToken: Address::repeat_byte(3),
                outputAmount: U256::from(5),
                destinationChainId: U256::from(31_338),
                recipient: ACCOUNT.into_word(),
                exclusiveRelayer: Address::ZERO,
                depositNonce: U256::from(1),
                exclusivityPeriod: 0,
                message: Default::default(),
            },
        };
        let message = TypedMessage::CrossChainOrder { permit2: Address::repeat_byte(4), intent: Box::new(intent) };
        let asset = CardToken { symbol: SafeText::clean("X", 5), address: Address::ZERO, decimals: 6 };
        let status = OrderState::pending(&message);
        let record = orders::OrderRecord {
            hash: orders::identity(&message).unwrap().0,
            permit_id,
            call_id: CallId::new(1),
            golem_id: GolemId::operator(),
            chain_id: CHAIN,
            account: ACCOUNT,
            message,
            signature: None,
            stage,
            status,
            figures: orders::OrderFigures {
                token_in: asset.clone(),
                token_out: asset,
                quoted_out: U256::from(5),
                expected_outcome: SafeText::clean("what the test says", 100),
                from_block: 1,
                arrival_from_block: None,
                arrival_before: None,
            },
            card: None,
            reservation: Reservation(1),
            spent: "9".parse().unwrap(),
            gas: "1".parse().unwrap(),
            created_at: self.now(),
            signed_at: None,
            maybe_seen: false,
        };
        let written = record.clone();
        self.store.write(move |transaction| orders::insert(transaction, &written)).await.unwrap();
        record
    }
}

#[tokio::test]
async fn actions_of_another_process_are_left_alone_until_it_ends() {
    let ledger = ledger();
    let other = open(ledger.folder.path());
    let permit_id = begun(&other, ledger.now()).await;
    ledger.clock.pass(3_600_000);
    assert_eq!(ledger.pipeline.recover().await.unwrap(), []);
    assert_eq!(ledger.reserved(), 1, "its nonce is its own, however old");
    // Recovery resolves its work as soon as it has ended.
    drop(other);
    let recovered = ledger.pipeline.recover().await.unwrap();
    let (found, step, end) = (RecoveryState::Unsigned, RecoveryStep::Withdraw, ActionEnd::Withdrawn);
    assert_eq!(recovered, [RecoveredPermit { permit_id, hash: None, found, step, end }]);
    assert_eq!((ledger.reserved(), ledger.pipeline.recover().await.unwrap()), (0, vec![]));
    assert_eq!(ledger.reported::<String>("SELECT state FROM ledger_reservation"), "withdrawn");

    let other = open(ledger.folder.path());
    begun(&other, ledger.now()).await;
    drop(other);
    assert_eq!(ledger.pipeline.recover().await.unwrap().len(), 1, "not a moment later");
    assert_eq!(ledger.reserved(), 0);
}

#[tokio::test]
async fn actions_in_progress_are_left_alone_and_dropped_ones_are_recovered() {
    let ledger = ledger();
    let permit_id = begun(&ledger.store, ledger.now()).await;
    let at_work = ledger.pipeline.work_on(permit_id);
    ledger.clock.pass(3_600_000);
    assert_eq!(ledger.pipeline.recover().await.unwrap(), []);
    assert_eq!(ledger.reserved(), 1, "whoever is at work may be about to sign with it");
    drop(at_work);
    assert_eq!(ledger.pipeline.recover().await.unwrap().len(), 1);
    assert_eq!(ledger.reserved(), 0);
    // A commit allocates its nonce before it reports anything, so a new nonce is left alone.
    begun(&ledger.store, ledger.now()).await;
    ledger.clock.pass(LEAVE_ALONE - 1);
    ledger.pipeline.recover().await.unwrap();
    assert_eq!(ledger.reserved(), 1);
    ledger.clock.pass(1);
    ledger.pipeline.recover().await.unwrap();
    assert_eq!(ledger.reserved(), 0);
}

#[tokio::test]
async fn an_action_without_a_session_is_left_alone_for_a_while() {
    let ledger = ledger();
    let permit_id = begun(&ledger.store, ledger.now()).await;
    // As older versions recorded it.
    ledger.run("UPDATE safety_permit SET session = NULL").await;
    ledger.run("UPDATE sender_nonce SET session = NULL").await;
    ledger.clock.pass(LEAVE_ALONE - 1);
    assert_eq!((ledger.pipeline.recover().await.unwrap(), ledger.reserved()), (vec![], 1));
    // A signed transaction needs no grace period: sending it twice is harmless.
    let signed = ledger.store.write(move |transaction| {
        permit::note_leg(transaction, permit_id, NotedLeg { of: 2, main: false, ..ONLY }, B256::ZERO)
    });
    signed.await.unwrap();
    let found: Vec<_> = ledger.pipeline.recover().await.unwrap().into_iter().map(|one| one.found).collect();
    assert_eq!(found, [RecoveryState::Untold], "there is no chain to ask");
    ledger.run("DELETE FROM safety_leg").await;
    ledger.clock.pass(1);
    let found: Vec<_> = ledger.pipeline.recover().await.unwrap().into_iter().map(|one| one.found).collect();
    assert_eq!((found, ledger.reserved()), (vec![RecoveryState::Unsigned], 0));
}

#[tokio::test]
async fn two_that_recover_at_once_write_each_end_once() {
    let ledger = ledger();
    begun(&ledger.store, ledger.now()).await;
    let [left] = &ledger.left()[..] else { panic!() };
    let (found, step) = (RecoveryState::Unsigned, RecoveryStep::Withdraw);
    for _ in 0..2 {
        ledger.pipeline.write_end(left, found, step, machine::end(step, left.reserved)).await.unwrap();
    }
    assert_eq!(ledger.reported::<i64>("SELECT count(*) FROM audit_entry WHERE kind = 'recovery:step'"), 1);
    assert_eq!(ledger.reported::<i64>("SELECT count(*) FROM audit_entry WHERE kind = 'action:settled'"), 1);
    // A late commit does not settle it again.
    let late = ActionEnd::Done { spent: left.reserved.spent };
    ledger.pipeline.settle_as(left.permit_id, left.reserved, late).await.unwrap();
    assert_eq!(ledger.reported::<String>("SELECT ended FROM safety_permit"), "withdrawn");
    assert_eq!(ledger.reported::<String>("SELECT state FROM ledger_reservation"), "withdrawn");
    // Losing the race for a nonce is not an error.
    let loose = ledger.store.read(sender::reserved).unwrap();
    for _ in 0..2 {
        ledger.pipeline.release_all(loose.clone()).await.unwrap();
    }
    assert_eq!(ledger.reserved(), 0);
    // The process that won the race recorded it, once.
    let nonces = "FROM audit_entry WHERE kind = 'recovery:step' AND json_extract(body, '$.found') = 'loose_nonce'";
    assert_eq!(ledger.reported::<i64>(&format!("SELECT count(*) {nonces}")), 1);
    assert_eq!(ledger.reported::<String>(&format!("SELECT json_extract(body, '$.step') {nonces}")), "give_back");
    let nonce = i64::try_from(loose[0].ticket.nonce).unwrap();
    assert_eq!(ledger.reported::<i64>(&format!("SELECT json_extract(body, '$.nonce') {nonces}")), nonce);
}

#[tokio::test]
async fn an_unknown_outcome_is_recorded_once() {
    let ledger = ledger();
    let permit_id = begun(&ledger.store, ledger.now()).await;
    let signed = ledger.store.write(move |transaction| permit::note_leg(transaction, permit_id, ONLY, B256::ZERO));
    signed.await.unwrap();
    for _ in 0..3 {
        let recovered = ledger.pipeline.recover().await.unwrap();
        assert_eq!(
            (recovered[0].found, recovered[0].step, recovered[0].end),
            (RecoveryState::Untold, RecoveryStep::Watch, ActionEnd::Unclear)
        );
    }
    assert_eq!(ledger.reported::<i64>("SELECT count(*) FROM audit_entry WHERE kind = 'recovery:step'"), 1);
    assert_eq!(ledger.reported::<String>("SELECT state FROM ledger_reservation"), "open", "what was held stays held");
}

#[tokio::test]
async fn a_plan_that_was_only_prepared_costs_its_gas_and_can_be_repeated() {
    let ledger = ledger();
    begun(&ledger.store, ledger.now()).await;
    let [left] = &ledger.left()[..] else { panic!() };
    let step = machine::step(RecoveryState::Begun, false);
    ledger.pipeline.write_end(left, RecoveryState::Begun, step, machine::end(step, left.reserved)).await.unwrap();
    assert_eq!(ledger.reported::<String>("SELECT ended FROM safety_permit"), "withdrawn");
    assert_eq!(ledger.reported::<i64>("SELECT settled_micros FROM ledger_reservation"), 1_000_000);
    assert_eq!(ledger.pipeline.fate(left.call_id).unwrap(), SignedOutcome::Nothing);
}

#[tokio::test]
async fn an_order_that_was_never_signed_ends_with_its_permit_and_one_that_was_is_its_own_affair() {
    for by_recovery in [true, false] {
        let ledger = ledger();
        let permit_id = begun(&ledger.store, ledger.now()).await;
        ledger.order(permit_id, OrderStage::Reserved).await;
        let [left] = &ledger.left()[..] else { panic!() };
        if by_recovery {
            ledger.clock.pass(LEAVE_ALONE);
            assert_eq!(ledger.pipeline.recover().await.unwrap().len(), 1);
        } else {
            ledger.pipeline.settle_as(permit_id, left.reserved, ActionEnd::NotSent).await.unwrap();
        }
        assert_eq!(ledger.reported::<String>("SELECT stage || ' ' || status FROM safety_order"), "ended error");
    }
    for stage in [OrderStage::Signed, OrderStage::Submitting, OrderStage::Submitted, OrderStage::Refused] {
        let ledger = ledger();
        let permit_id = begun(&ledger.store, ledger.now()).await;
        let orders::OrderRecord { hash, call_id, status, .. } = ledger.order(permit_id, stage).await;
        ledger.run("UPDATE safety_order SET signature = x'01'").await;
        assert_eq!(
            ledger.pipeline.fate(call_id).unwrap(),
            SignedOutcome::Placed { hash, bridge: true, status },
            "{stage:?}"
        );
        assert_eq!(ledger.pipeline.recover().await.unwrap(), [], "{stage:?}: the orders bring it to its end");
        assert_eq!(ledger.reported::<String>("SELECT state FROM ledger_reservation"), "open", "{stage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn background_recovery_waits_until_the_session_may_act() {
    let ledger = ledger();
    begun(&ledger.store, ledger.now()).await;
    ledger.clock.pass(LEAVE_ALONE);
    let asked = Arc::new(AtomicUsize::new(0));
    // It acts from its fourth call.
    let counts = Arc::clone(&asked);
    ledger.pipeline.keep_recovering(Duration::from_secs(1), move || counts.fetch_add(1, Ordering::SeqCst) >= 3);
    let until = async |times| {
        while asked.load(Ordering::SeqCst) < times {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    // At the third call, the first two runs are over.
    until(3).await;
    assert_eq!(ledger.left().len(), 1);
    until(5).await;
    assert_eq!(ledger.left().len(), 0);
}

#[test]
fn a_chain_that_does_not_answer_is_found_and_a_ledger_that_does_not_is_an_error() {
    let why = SafeText::clean("gone", 10);
    let silent = SenderError::Provider(ProviderError::Unreachable { endpoint: why.clone(), reason: why });
    assert_eq!(unknown_state(silent).ok(), Some(RecoveryState::Untold));
    for broken in [
        SenderError::Record(RecordError::Store(StoreError::Corrupt("x".to_owned()))),
        SenderError::Lane(sender::LaneError::Store(StoreError::Corrupt("x".to_owned()))),
    ] {
        assert!(unknown_state(broken).is_err());
    }
}

/// A transaction in this state, included with this outcome or not included.
pub(in super::super) fn tx_status(state: SendState, mined: Option<bool>, settled: bool) -> TxStatus {
    let transaction = TxEip1559 { chain_id: CHAIN, to: ACCOUNT.into(), ..TxEip1559::default() };
    let signed =
        SignedTransaction::new(DevnetAccount::inhabitant("a test").unwrap().sign(transaction).unwrap()).unwrap();
    let hash = signed.hash();
    let mined = mined.map(|succeeded| {
        let receipt = json!({
            "type": "0x2", "status": if succeeded { "0x1" } else { "0x0" }, "cumulativeGasUsed": "0x1", "logs": [],
            "logsBloom": format!("0x{}", "0".repeat(512)), "transactionHash": hash, "transactionIndex": "0x0",
            "blockHash": B256::repeat_byte(1), "blockNumber": "0x1", "gasUsed": "0x1", "effectiveGasPrice": "0x1",
            "from": signed.from(), "to": ACCOUNT, "contractAddress": null,
        });
        MinedTx { hash, receipt: serde_json::from_value(receipt).unwrap(), confirmations: 1 }
    });
    let record = TxRecord {
        signed,
        route: SendRoute::Public,
        call_id: None,
        replaces: None,
        state,
        stored_at: 1,
        sends: 1,
        block: None,
        note: None,
        settled_at: settled.then_some(2),
    };
    TxStatus { record, mined, settled, displaced_by: None, relay: None, resent: None }
}

#[test]
fn the_recovery_state_follows_from_the_chain_and_the_last_signed_leg() {
    use RecoveryState::{Begun, Failed, Gone, GoneHalfway, Half, Shallow, Waiting, Whole};
    let leg = |leg, of, main, done| Some(LastLeg { hash: B256::ZERO, leg, of, main, done, only_revokes: false });
    // An allowance, then the swap; or a swap, then its clean-up.
    let (allowance, swap) = (leg(0, 2, false, false), leg(1, 2, true, false));
    let (first, tidying) = (leg(0, 2, true, false), leg(1, 2, true, true));
    let (only, included) = (leg(0, 1, true, false), SendState::Included);
    for (state, mined, settled, last, expected) in [
        (included, Some(true), false, swap, Shallow),
        (SendState::Reverted, Some(false), false, swap, Shallow),
        (included, Some(true), true, only, Whole),
        (included, Some(true), true, swap, Whole),
        (included, Some(true), true, tidying, Whole),
        (included, Some(true), true, allowance, Begun),
        (included, Some(true), true, first, Half),
        (SendState::Reverted, Some(false), true, allowance, Failed),
        (SendState::Reverted, Some(false), true, swap, Failed),
        (SendState::Reverted, Some(false), true, tidying, Half),
        (SendState::Dropped, None, true, allowance, Gone),
        (SendState::Dropped, None, true, only, Gone),
        (SendState::Dropped, None, true, swap, GoneHalfway),
        (SendState::Dropped, None, true, tidying, Half),
        (SendState::Stored, None, false, only, Waiting),
        (SendState::Sent, None, false, swap, Waiting),
        (SendState::Unclear, None, false, swap, Waiting),
    ] {
        assert_eq!(of_tx_status(&tx_status(state, mined, settled), last), expected, "{state} {mined:?} {last:?}");
    }
}

#[tokio::test]
async fn the_outcome_of_a_call_follows_from_all_its_permits() {
    let nothing = SignedOutcome::Nothing;
    let over = |succeeded, hashes: &[u8]| SignedOutcome::Ended {
        succeeded,
        transactions: hashes.iter().map(|byte| B256::repeat_byte(*byte)).collect(),
    };
    let cases: [(&[Option<&'static str>], SignedOutcome); 8] = [
        (&[], nothing.clone()),
        (&[Some("not_sent")], nothing.clone()),
        (&[Some("withdrawn"), Some("not_sent")], nothing),
        (&[None], SignedOutcome::Open),
        (&[Some("done"), None], SignedOutcome::Open),
        (&[Some("done")], over(true, &[1])),
        (&[Some("reverted")], over(false, &[1])),
        (&[Some("withdrawn"), Some("reverted"), Some("done")], over(false, &[2, 3])),
    ];
    for (ends, expected) in cases {
        let ledger = ledger();
        let call = CallId::new(ledger.now());
        for (number, ended) in (1..).zip(ends.iter().copied()) {
            let permit_id = begun(&ledger.store, ledger.now() + u64::from(number)).await;
            let written = ledger.store.write(move |transaction| {
                permit::note_leg(transaction, permit_id, ONLY, B256::repeat_byte(number))?;
                transaction.execute(
                    "UPDATE safety_permit SET call_id = ?1, ended = ?2 WHERE permit_id = ?3",
                    params![call.to_string(), ended, permit_id.to_string()],
                )?;
                Ok::<_, StoreError>(())
            });
            written.await.unwrap();
        }
        assert_eq!(ledger.pipeline.fate(call).unwrap(), expected, "{ends:?}");
    }
}

/// Signs the same bytes under a later permit: no endpoint took them the first time, and the nonce was released.
#[tokio::test]
async fn bytes_that_are_signed_again_are_the_later_permits() {
    let ledger = ledger();
    let (first, second) = (begun(&ledger.store, ledger.now()).await, begun(&ledger.store, ledger.now() + 1).await);
    for (permit_id, only_revokes) in [(first, false), (second, true)] {
        let leg = NotedLeg { only_revokes, ..ONLY };
        let noted = ledger.store.write(move |transaction| permit::note_leg(transaction, permit_id, leg, B256::ZERO));
        noted.await.unwrap();
    }
    assert_eq!(ledger.reported::<String>("SELECT permit_id FROM safety_leg"), second.to_string());
    let last = |left: OpenPermit| (left.permit_id, left.last.map(|leg| (leg.hash, leg.only_revokes)));
    let found: Vec<_> = ledger.left().into_iter().map(last).collect();
    assert_eq!(found, [(first, None), (second, Some((B256::ZERO, true)))]);
}
