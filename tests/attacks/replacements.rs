//! Replacement of waiting transactions: rows of the ledger that lie, proposals that are not what was signed, and
//! endpoints that hide a receipt. The account signs nothing new, and nothing happens twice.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use alloy::consensus::{Transaction as _, TxEip1559};
use alloy::primitives::{Address, B256, Bytes, TxKind, U256};
use bardo::base::clock::SystemClock;
use bardo::base::config::RpcUrl;
use bardo::base::error::ErrorCode;
use bardo::base::id::CallId;
use bardo::base::model::StopLevel;
use bardo::chain::devnet::{MiningMode, server};
use bardo::chain::network::{ChainPlan, NetworkKind};
use bardo::chain::provider::{ChainClient, ConnectRules};
use bardo::chain::sender::{self, RecordError, SendState, SenderRules};
use bardo::chain::signed::SignedTransaction;
use bardo::safety::approval::Consent;
use bardo::safety::proposal::{Outflow, Proposal, ProposalIntent, ReplacedTx};
use bardo::sandbox::Sandbox;
use bardo::store::StoreError;

use bardo_testkit::harness::{ASKED, TestHarness, sandbox};
use bardo_testkit::lying_rpc::{Lie, LyingRpc};
use serde_json::json;

const HUNDRED: u64 = 100_000_000;
const BOTH: [ProposalIntent; 2] = [ProposalIntent::SpeedUp, ProposalIntent::CancelTransaction];

/// Harness on a devnet of its own, which mines on request only, with a waiting allowance of 100 USDC.
async fn waiting(seed: u64) -> (TestHarness, &'static Sandbox, B256) {
    let devnet: &'static Sandbox = Box::leak(Box::new(sandbox(seed)));
    let sending = SenderRules::for_network(NetworkKind::Devnet, 1_000);
    let world = TestHarness::in_step(devnet, 1, sending).await;
    devnet.chains()[0].devnet.set_mining(MiningMode::Manual).await.unwrap();
    let hash = world.leave_waiting(world.approval(HUNDRED)).await;
    (world, devnet, hash)
}

/// Asserts that the proposal is refused before anything is signed. Returns the error code.
async fn assert_refused(world: &TestHarness, proposal: Proposal, what: &str) -> ErrorCode {
    let before = world.wallet.signatures.load(Ordering::SeqCst);
    let refused = match world.preview(proposal).await {
        Ok(preview) => world.pipeline.commit(preview.permit.permit_id, Consent::Always).await.map(|_| ()).unwrap_err(),
        Err(refused) => refused,
    };
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), before, "{what}: {refused:?}");
    refused.code
}

/// Writes to the waiting transaction's row as somebody with access to the database would.
async fn forge(world: &TestHarness, hash: B256, set: &'static str, value: Vec<u8>) {
    let written = world.store.write(move |transaction| {
        let sql = format!("UPDATE sender_transaction SET {set} WHERE hash = ?1 AND ?2 IS NOT NULL");
        Ok::<_, StoreError>(transaction.execute(&sql, rusqlite::params![hash.as_slice(), value])?)
    });
    assert_eq!(written.await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_bytes_are_another_transaction_is_not_signed_again() {
    let (world, _devnet, hash) = waiting(81).await;
    let proposals = BOTH.map(|intent| world.replacing(hash, intent));
    let nonce = proposals[0].replaces.unwrap().nonce;
    // A payment that the same key signed elsewhere, with the same nonce and with others.
    for (chain_id, nonce) in [(31_337, nonce), (31_337, nonce + 1), (31_338, nonce)] {
        let other = TxEip1559 {
            chain_id,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: 5_000_000_000,
            max_priority_fee_per_gas: 1_000_000_000,
            to: TxKind::Call(Address::repeat_byte(0xee)),
            value: U256::from(1_u64),
            ..TxEip1559::default()
        };
        forge(&world, hash, "raw = ?2", world.wallet.sign_outside(other)).await;
        for proposal in &proposals {
            let code = assert_refused(&world, proposal.clone(), "the same proposal as before").await;
            assert_eq!(code, ErrorCode::ValidationFailed, "{chain_id} {nonce}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_says_that_an_included_transaction_waits_gets_no_signature() {
    let (world, devnet, hash) = waiting(82).await;
    let proposals = BOTH.map(|intent| world.replacing(hash, intent));
    devnet.chains()[0].devnet.mine().await.unwrap();
    while !world.pipeline.recover().await.unwrap().is_empty() {}
    assert_eq!(world.stored().last().unwrap().state, SendState::Included);
    for proposal in &proposals {
        let code = assert_refused(&world, proposal.clone(), "settled").await;
        assert_eq!(code, ErrorCode::ValidationFailed);
    }
    forge(&world, hash, "state = 'sent', settled_at = NULL, block_number = NULL, block_hash = NULL", vec![0]).await;
    for proposal in proposals {
        assert_refused(&world, proposal, "its row says that it waits").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_is_not_the_signed_bytes_is_refused() {
    let (world, _devnet, hash) = waiting(83).await;
    let stranger = Address::repeat_byte(0xee);
    for intent in BOTH {
        let honest = world.replacing(hash, intent);
        let replaced = honest.replaces.unwrap();
        let changed = |change: &dyn Fn(&mut Proposal)| {
            let mut proposal = honest.clone();
            change(&mut proposal);
            proposal
        };
        let spent = Outflow { token: world.usdc.clone(), amount: U256::from(1) };
        for (what, proposal) in [
            ("another target", changed(&|one| one.legs[0].to = stranger)),
            ("a value", changed(&|one| one.legs[0].value = U256::from(1))),
            ("other calldata", changed(&|one| one.legs[0].data = Bytes::from(vec![1, 2, 3, 4]))),
            ("more gas", changed(&|one| one.legs[0].gas_limit += 1)),
            ("two transactions", changed(&|one| one.legs.push(honest.legs[0].clone()))),
            ("an outflow", changed(&|one| one.outflows.push(spent.clone()))),
            (
                "another nonce",
                changed(&|one| one.replaces = Some(ReplacedTx { nonce: replaced.nonce + 1, ..replaced })),
            ),
            ("lower fees", {
                changed(&|one| {
                    let mut fees = replaced.fees;
                    fees.max_fee_per_gas /= 2;
                    one.replaces = Some(ReplacedTx { fees, ..replaced });
                })
            }),
            ("no waiting transaction", changed(&|one| one.replaces = None)),
            ("another intent", changed(&|one| one.intent = ProposalIntent::Revoke)),
            ("the other intent", {
                let other = if intent == BOTH[0] { BOTH[1] } else { BOTH[0] };
                changed(&|one| one.intent = other)
            }),
        ] {
            assert_refused(&world, proposal, &format!("{what}, {intent:?}")).await;
        }
        let unknown = changed(&|one| one.replaces = Some(ReplacedTx { hash: B256::repeat_byte(9), ..replaced }));
        assert_eq!(assert_refused(&world, unknown, "unknown").await, ErrorCode::ValidationFailed);
    }
    // Nothing of that touched the waiting transaction.
    let [record] = &world.stored()[..] else { panic!("{:?}", world.stored()) };
    assert_eq!((record.hash(), record.state), (hash, SendState::Sent));
    assert_eq!(record.signed.transaction().to(), Some(world.contract_of(&world.usdc)));
    assert_eq!(world.included_allowance().await, U256::ZERO);
}

/// A call counts against the limits with its action's reservation. The one of an ended action is released.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_whose_action_has_ended_is_not_repeated() {
    let (world, _devnet, hash) = waiting(84).await;
    let ended = world.store.write(|transaction| {
        let sql = "UPDATE safety_permit SET ended = 'not_sent' WHERE ended IS NULL";
        Ok::<_, StoreError>(transaction.execute(sql, [])?)
    });
    assert_eq!(ended.await.unwrap(), 1);
    let preview = world.preview(world.replacing(hash, ProposalIntent::SpeedUp)).await.unwrap();
    let refused = world.pipeline.commit(preview.permit.permit_id, Consent::Always).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::ValidationFailed, "{refused:?}");
    assert!(refused.message.contains("no open action waits"), "{refused:?}");
    let [record] = &world.stored()[..] else { panic!("{:?}", world.stored()) };
    assert_eq!((record.hash(), record.state), (hash, SendState::Sent));
}

/// Between its signature and an endpoint's acceptance, a cancellation must not lose to a resent or outbid original.
#[tokio::test(flavor = "multi_thread")]
async fn an_original_with_a_stored_cancellation_is_neither_sent_again_nor_outbid() {
    let (world, _devnet, hash) = waiting(85).await;
    let original = world.stored()[0].clone();
    let sign = |fee: u128, to, input| {
        let fees = original.fees();
        let signed = world.wallet.sign_outside(TxEip1559 {
            chain_id: 31_337,
            nonce: original.signed.nonce(),
            gas_limit: original.call().unwrap().gas_limit,
            max_fee_per_gas: fees.max_fee_per_gas * fee,
            max_priority_fee_per_gas: fees.max_priority_fee_per_gas * fee,
            to: TxKind::Call(to),
            input,
            ..TxEip1559::default()
        });
        SignedTransaction::decode(&signed).unwrap()
    };
    assert!(world.store.read(|connection| sender::sendable(connection, hash)).unwrap().is_some());
    let (cancellation, call) = (sign(2, world.account(), Bytes::new()), original.call().unwrap());
    let stored = cancellation.clone();
    let storing = world.store.write(move |transaction| {
        sender::store_rival(transaction, hash, &stored, CallId::new(1), 1).map(|permit| permit.hash())
    });
    assert_eq!(storing.await.unwrap(), cancellation.hash());
    assert_eq!(world.store.read(|connection| sender::sendable(connection, hash)).unwrap(), None);
    let waits = world.store.read(|connection| sender::sendable(connection, cancellation.hash())).unwrap();
    assert_eq!(waits.map(|record| record.hash()), Some(cancellation.hash()));
    let outbid = sign(3, call.to, call.data);
    let refused = world
        .store
        .write(move |transaction| sender::store_replacement(transaction, hash, &outbid, 2).map(|permit| permit.hash()));
    assert!(matches!(refused.await, Err(RecordError::Ended { .. })));
}

/// A cancellation or a speed-up changes what another Golem, or the operator, has decided.
#[tokio::test(flavor = "multi_thread")]
async fn a_golem_replaces_no_transaction_of_another() {
    let (world, _devnet, operators) = waiting(86).await;
    let of = |golem: &str, proposal: Proposal| Proposal { golem_id: golem.parse().unwrap(), ..proposal };
    for intent in BOTH {
        let proposal = world.replacing(operators, intent);
        assert!(proposal.golem_id.is_operator() && world.preview(proposal.clone()).await.is_ok(), "{intent:?}");
        assert_eq!(assert_refused(&world, of("alpha", proposal), "the operator's").await, ErrorCode::TransactionNotOwn);
    }
    let alphas = world.leave_waiting(of("alpha", world.approval(2 * HUNDRED))).await;
    let proposal = world.replacing(alphas, ProposalIntent::CancelTransaction);
    assert_eq!(assert_refused(&world, of("beta", proposal.clone()), "alpha's").await, ErrorCode::TransactionNotOwn);
    assert!(world.preview(of("alpha", proposal.clone())).await.is_ok());
    assert!(world.preview(proposal.clone()).await.is_ok(), "the operator may replace every one");
    // A transaction that no call of the ledger explains belongs to no Golem.
    let cut = world.store.write(|transaction| {
        Ok::<_, StoreError>(transaction.execute("UPDATE safety_leg SET hash = randomblob(32)", [])?)
    });
    assert_eq!(cut.await.unwrap(), 2);
    assert_eq!(assert_refused(&world, of("alpha", proposal), "without origin").await, ErrorCode::TransactionNotOwn);
}

/// Under a stop, cancellations and refunds may be sped up, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn under_a_stop_a_cancellation_is_sped_up_and_nothing_else() {
    let (world, _devnet, hash) = waiting(87).await;
    *world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
    let code = assert_refused(&world, world.replacing(hash, ProposalIntent::SpeedUp), "an allowance").await;
    assert_eq!(code, ErrorCode::Halted);
    let cancellation = world.leave_waiting(world.replacing(hash, ProposalIntent::CancelTransaction)).await;
    let hurried = world.preview(world.replacing(cancellation, ProposalIntent::SpeedUp)).await.unwrap();
    assert!(hurried.simulated.only_revokes);
}

/// The row of one transaction could name another plan's as the one that it repeats.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_link_makes_no_two_transactions_one_action() {
    let (world, _devnet, hash) = waiting(88).await;
    let cancellation = world.leave_waiting(world.replacing(hash, ProposalIntent::CancelTransaction)).await;
    let kin = |hash| world.store.read(|connection| sender::kin(connection, hash)).unwrap();
    assert_eq!((kin(hash), kin(cancellation)), (vec![hash], vec![cancellation]));
    forge(&world, cancellation, "replaces = ?2", hash.to_vec()).await;
    assert_eq!((kin(hash), kin(cancellation)), (vec![hash], vec![cancellation]));
    // The original is still held back by its cancellation.
    assert_eq!(world.store.read(|connection| sender::sendable(connection, hash)).unwrap(), None);
}

/// One endpoint alone, which lies about the account's nonce or about the fees of the next block.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_lies_about_nonce_or_fees_moves_no_replacement_out_of_its_bounds() {
    let (world, devnet, hash) = waiting(89).await;
    let served = server::serve(devnet.chains()[0].devnet.clone(), 0).await.unwrap();
    let original = world.stored()[0].clone();
    let nonce_ahead: Lie = Box::new(|question, answer| {
        if question["method"] == "eth_getTransactionCount" {
            answer["result"] = json!("0xffff");
        }
    });
    let dear: Lie = Box::new(|question, answer| match question["method"].as_str() {
        Some("eth_feeHistory") => answer["result"]["baseFeePerGas"] = json!(["0x174876e80000", "0x174876e80000"]),
        Some("eth_getBlockByNumber" | "eth_getBlockByHash") if answer["result"].is_object() => {
            answer["result"]["baseFeePerGas"] = json!("0x174876e80000");
        }
        _ => {}
    });
    for (what, lie) in [("a nonce that is ahead", nonce_ahead), ("a base fee of 25,600 gwei", dear)] {
        let proxy = LyingRpc::start(&served.url(), lie);
        proxy.lie(false);
        let network = world.client.network();
        let plan = ChainPlan {
            name: network.name.clone(),
            network: Some(network.clone()),
            chain_id: Some(network.chain_id),
            endpoints: vec![RpcUrl::parse(&proxy.url()).unwrap()],
        };
        let client = ChainClient::connect(&plan, ConnectRules::default(), Arc::new(SystemClock)).await.unwrap();
        let pipeline = world.over_client(&client);
        for intent in BOTH {
            proxy.lie(false);
            let previewed = pipeline.preview(world.replacing(hash, intent), world.wallet.clone(), ASKED).await;
            let permit_id = previewed.unwrap().permit.permit_id;
            proxy.lie(true);
            let before = world.wallet.signatures.load(Ordering::SeqCst);
            let refused = pipeline.commit(permit_id, Consent::Always).await.map(|_| ()).unwrap_err();
            assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), before, "{what}, {intent:?}: {refused:?}");
        }
    }
    let [record] = &world.stored()[..] else { panic!("{:?}", world.stored()) };
    assert_eq!((record.hash(), record.fees()), (hash, original.fees()));
    assert_eq!(world.included_allowance().await, U256::ZERO);
}
