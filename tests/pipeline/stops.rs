//! A stop at every stage: after it is set nothing is signed, stored or sent, and allowances are revoked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use alloy::primitives::{Address, Bytes, U256, hex};
use bardo::base::error::ErrorCode;
use bardo::base::id::GolemId;
use bardo::base::model::StopLevel;
use bardo::base::text::SafeText;
use bardo::chain::devnet::Chain;
use bardo::chain::network::KnownContract;
use bardo::chain::token::{TokenId, TokenInfo};
use bardo::custody::RevocableAccount;
use bardo::safety::RevocationCause;
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::CommitState;
use bardo::safety::policy_engine::ActionEnd;
use bardo::safety::proposal::Proposal;
use bardo::store::StoreError;

use bardo_testkit::harness::{ASKED, Hook, TestHarness, devnet, party_key};

const HUNDRED: u64 = 100_000_000;

fn halt(world: &TestHarness) -> impl Fn() + Send + Sync + 'static {
    let book = Arc::clone(&world.book);
    move || *book.stop.lock().unwrap() = Some(StopLevel::Halt)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_before_the_preview_or_the_commit_prevents_the_signature() {
    let world = TestHarness::new(9).await;
    let permit = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
    let swap = world.swap(HUNDRED).await;
    halt(&world)();
    assert_eq!(world.refused(swap).await.0, ErrorCode::Halted);
    let refused = world.pipeline.commit(permit, Consent::None).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::Halted));
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_during_the_reservation_prevents_the_signature() {
    let world = TestHarness::new(9).await;
    let nonce = world.nonce().await;
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    *world.book.on_reserve.lock().unwrap() = Hook::new(halt(&world)).into_inner().unwrap();
    let refused = world.pipeline.commit(permit, Consent::None).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::Halted));
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
    assert_eq!(*world.book.ends.lock().unwrap(), [ActionEnd::Withdrawn]);
    assert_eq!(world.nonce().await, nonce);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_signed_during_a_stop_is_neither_stored_nor_sent() {
    let world = TestHarness::new(9).await;
    let nonce = world.nonce().await;
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    *world.wallet.on_sign.lock().unwrap() = Hook::new(halt(&world)).into_inner().unwrap();
    let refused = world.pipeline.commit(permit, Consent::None).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::Halted));
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 1);
    // The signed transaction is neither stored nor sent.
    assert_eq!(*world.book.ends.lock().unwrap(), [ActionEnd::Withdrawn]);
    assert_eq!(world.nonce().await, nonce);
    let kept: i64 = world
        .store
        .read(|connection| {
            Ok::<_, bardo::store::StoreError>(connection.query_row(
                "SELECT count(*) FROM sender_transaction",
                [],
                |row| row.get(0),
            )?)
        })
        .unwrap();
    assert_eq!(kept, 0);
}

/// The highest stop level, set and lowered again between preview and signature.
#[tokio::test(flavor = "multi_thread")]
async fn keys_revoked_before_the_signature_count_as_a_stop_and_not_as_a_failure() {
    let world = TestHarness::new(9).await;
    let nonce = world.nonce().await;
    let (account, revocation) = RevocableAccount::new(world.wallet.clone());
    let preview = world.pipeline.preview(world.approval(HUNDRED), Arc::new(account), ASKED).await;
    let permit = preview.unwrap().permit.permit_id;
    assert!(revocation.revoke(RevocationCause::Stop) && !revocation.revoke(RevocationCause::Stop));
    let refusal = world.pipeline.commit(permit, Consent::None).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::Halted, "{refusal:?}");
    assert!(refusal.message.contains("lift the stop and restart the process"), "{refusal:?}");
    assert_eq!(*world.book.ends.lock().unwrap(), [ActionEnd::Withdrawn]);
    assert_eq!((world.wallet.signatures.load(Ordering::SeqCst), world.nonce().await), (0, nonce));
    // Nothing restores the keys of a dead Golem, whatever was set before.
    revocation.revoke(RevocationCause::Death);
    revocation.revoke(RevocationCause::Stop);
    assert_eq!(revocation.why(), Some(RevocationCause::Death));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_half_way_through_a_plan_revokes_its_allowance() {
    let world = TestHarness::new(9).await;
    let (usdc, nonce) = (world.balance(&world.usdc).await, world.nonce().await);
    let permit2 = world.contract(KnownContract::Permit2);
    let permit = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
    // The stop is set once the allowance is included, that is, when the second step is about to be signed.
    let (book, wallet) = (Arc::clone(&world.book), Arc::clone(&world.wallet));
    *world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
        if wallet.signatures.load(Ordering::SeqCst) == 2 {
            *book.stop.lock().unwrap() = Some(StopLevel::Halt);
        }
    })
    .into_inner()
    .unwrap();
    let committed = world.pipeline.commit(permit, Consent::None).await.unwrap();
    let CommitState::Stopped { code, .. } = committed.state else { panic!("{:?}", committed.state) };
    assert_eq!(code, ErrorCode::Halted);
    assert_eq!(committed.remarks, Vec::<String>::new());
    assert_eq!(world.balance(&world.usdc).await, usdc);
    // Granted, and revoked under the halt: the swap itself was never sent.
    assert_eq!(world.allowance(permit2).await, U256::ZERO);
    assert_eq!(world.nonce().await, nonce + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_halt_an_allowance_can_be_revoked() {
    let world = TestHarness::new(9).await;
    let permit2 = world.contract(KnownContract::Permit2);
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    world.pipeline.commit(permit, Consent::None).await.unwrap();
    assert_eq!(world.allowance(permit2).await, U256::from(HUNDRED));
    halt(&world)();
    let preview = world.preview(world.revocation()).await.unwrap();
    assert!(preview.simulated.only_revokes);
    world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(world.allowance(permit2).await, U256::ZERO);
}

/// Runtime code of a contract that reports a false allowance: its owner sets the value, and any `approve` clears it.
const FALSE_ALLOWANCE_CODE: &[u8] = &hex!(
    "5f3560e01c" // the selector
    "8063095ea7b314604057" // approve
    "8063dd62ed3e14605057" // allowance
    "8063313ce56714605957" // decimals
    "806395d89b4114606257" // symbol
    "806306fdde0314606257" // name
    "5f5f5260205ff3" // everything else returns 0
    "0000"
    "5b5f5f555b5b5b5b60015f5260205ff3" // at 0x40
    "5b5f545f5260205ff3" // at 0x50
    "5b60125f5260205ff3" // at 0x59
    "5b60205f52600360205262455649" "60e81b60405260605ff3" // at 0x62: "EVI"
);

/// Installs a contract with a false allowance; returns its address and this Golem's proposal to revoke the allowance.
pub async fn false_allowance(world: &TestHarness, at: u8, golem_id: &str) -> (Address, Proposal) {
    let contract = Address::repeat_byte(at);
    let put = move |chain: &mut Chain| {
        chain.set_code(contract, Bytes::from_static(FALSE_ALLOWANCE_CODE)).unwrap();
        chain.set_storage_at(contract, U256::ZERO, U256::from(9));
    };
    devnet().devnet.run(put).await.unwrap();
    let mut revoke = Proposal { golem_id: golem_id.parse().unwrap(), ..world.revocation() };
    revoke.legs[0].to = contract;
    let symbol = || SafeText::clean("EVI", 40);
    revoke.allowances[0].token =
        TokenInfo { id: TokenId::Erc20(contract), symbol: symbol(), name: symbol(), decimals: 18, listed: false };
    (contract, revoke)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_only_an_unknown_contract_reports_is_blocked_by_a_stop() {
    let world = TestHarness::new(9).await;
    let (_, revoke) = false_allowance(&world, 0x5a, "ada").await;
    let preview = world.preview(revoke.clone()).await.unwrap();
    let reported = &preview.simulated.simulation.changes.allowances;
    assert_eq!(
        (reported.len(), preview.simulated.only_revokes),
        (1, false),
        "reported as falling from 9 to 0: {reported:?}"
    );
    halt(&world)();
    let refused = world.preview(revoke.clone()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Halted, "{refused:?}");
    // The operator's own call cannot be part of a Golem's loop.
    let by_hand = Proposal { golem_id: GolemId::operator(), ..revoke };
    assert!(world.preview(by_hand).await.unwrap().simulated.only_revokes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_this_account_has_approved_before_may_be_revoked_under_a_stop() {
    let world = TestHarness::new(9).await;
    let approved_tokens = || -> Vec<(i64, String, String)> {
        let read = world.store.read(|connection| -> Result<Vec<_>, StoreError> {
            let mut rows =
                connection.prepare("SELECT chain_id, account, address FROM safety_party WHERE role = 'token'")?;
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            Ok(rows.query_map([], row)?.collect::<Result<_, _>>()?)
        });
        read.unwrap()
    };
    let commit = async |proposal| {
        let permit = world.preview(proposal).await.unwrap().permit.permit_id;
        world.pipeline.commit(permit, Consent::None).await.unwrap();
    };
    // Every signature is recorded for the action, whatever its later envelope contains.
    commit(world.approval(HUNDRED)).await;
    let (account, usdc) = (world.account().to_string(), world.contract_of(&world.usdc).to_string());
    assert_eq!(approved_tokens(), [(31_337, account.clone(), usdc)]);
    let (stranger, revoke) = false_allowance(&world, 0x5b, "ada").await;
    commit(revoke.clone()).await;
    assert_eq!(approved_tokens().len(), 1, "a revocation does not add a token");

    halt(&world)();
    assert_eq!(world.preview(revoke.clone()).await.unwrap_err().code, ErrorCode::Halted);
    // Rows that someone else writes into the database do not count: without a tag, with an invalid one, and with the
    // tag of another row.
    for forged in [
        "INSERT INTO safety_allowed (chain_id, account, token) VALUES (31337, ?1, ?2)",
        "INSERT INTO safety_party VALUES ('token', 31337, ?2, ?1, 'call', 1, zeroblob(32))",
        "INSERT OR REPLACE INTO safety_party SELECT role, chain_id, ?2, account, call_id, first_at, tag FROM safety_party
             WHERE role = 'token' AND account = ?1 AND address <> ?2",
    ] {
        let (account, stranger) = (account.clone(), stranger.to_string());
        let write = move |transaction: &rusqlite::Transaction<'_>| -> Result<usize, StoreError> {
            Ok(transaction.execute(forged, [account, stranger])?)
        };
        assert_eq!(world.store.write(write).await.unwrap(), 1, "{forged}");
        false_allowance(&world, 0x5b, "ada").await;
        assert_eq!(world.preview(revoke.clone()).await.unwrap_err().code, ErrorCode::Halted, "{forged}");
    }
    // A row with the tag that the account's key creates, computed here from its parts.
    let (chain_id, at) = (31_337_u64, 1_i64);
    let (owner, chain_id, at) = (world.account(), chain_id.to_be_bytes(), at.to_be_bytes());
    let parts: [&[u8]; 6] = [b"token", &chain_id, stranger.as_slice(), owner.as_slice(), b"call", &at];
    let tag = party_key(owner).tag("bardo party 1", &parts);
    let insert = move |transaction: &rusqlite::Transaction<'_>| -> Result<usize, StoreError> {
        let row = rusqlite::params![account, stranger.to_string(), tag.as_slice()];
        let sql = "INSERT OR REPLACE INTO safety_party VALUES ('token', 31337, ?2, ?1, 'call', 1, ?3)";
        Ok(transaction.execute(sql, row)?)
    };
    world.store.write(insert).await.unwrap();
    false_allowance(&world, 0x5b, "ada").await;
    assert!(world.preview(revoke).await.unwrap().simulated.only_revokes);
    // The row counts for that token only.
    let (_, other) = false_allowance(&world, 0x5c, "ada").await;
    assert_eq!(world.preview(other).await.unwrap_err().code, ErrorCode::Halted);
}
