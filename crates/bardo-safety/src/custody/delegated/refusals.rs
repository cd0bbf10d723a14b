//! Refusals of a session key before it signs: each case both when the payload is prepared and when it is signed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::{SolCall as _, SolValue as _};

use super::tests::DelegationHarness;
use super::*;
use crate::audit::{self, AuditKind, LogAnchor, LogEntry, LogHead};
use crate::custody::session_keys::{
    self, EndedSessionKey, RevokedBy, SessionKeyError, SessionKeyId, SessionKeyRevocation,
};
use crate::custody::tests::{FEES, leg, proposal, to_sign};
use crate::proposal::{LegPurpose, Outflow};
use bardo_abi::delegation::Delegation;
use bardo_abi::erc20::Erc20;
use bardo_base::clock::Clock;
use bardo_base::error::ErrorCode;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_store::StoreError;
use golem_chain::network::KnownContract;
use golem_chain::token::TokenInfo;

const USDC: u64 = 1_000_000;
/// Start of the devnet's time, in seconds since the Unix epoch.
const CHAIN: u64 = 1_800_000_000;

/// Wall clock that is set by hand, in seconds.
#[derive(Debug)]
struct Wall(AtomicU64);

impl Clock for Wall {
    fn now_millis(&self) -> u64 {
        self.0.load(Ordering::SeqCst) * 1_000
    }
}

struct Held {
    world: DelegationHarness,
    account: DelegatedAccount,
    id: SessionKeyId,
    wall: Arc<Wall>,
}

impl Held {
    async fn with(more: Vec<CallLimit>, end: u64) -> Self {
        let world = DelegationHarness::new().await;
        let usdc = world.usdc;
        let first = [CallLimit::Targets(vec![usdc]), CallLimit::Time { after: 0, before: end }];
        let grant = world.grant(first.into_iter().chain(more).collect());
        let (id, wall) = (SessionKeyId::random(), Arc::new(Wall(AtomicU64::new(CHAIN))));
        let account = world.kept(grant, id, wall.clone());
        Self { world, account, id, wall }
    }

    fn transfer(&self) -> PlanLeg {
        self.world.transfer(Address::repeat_byte(0x42), 1)
    }

    fn payload(&self) -> SigningPayload {
        self.world.prepare_payload(&self.account, self.transfer()).unwrap()
    }

    /// Code with which the preparation is refused.
    fn preparing(&self, leg: PlanLeg) -> ErrorCode {
        self.world.prepare_payload(&self.account, leg).unwrap_err().code()
    }

    /// Code with which the signature is refused: no signed transaction exists, and none is counted.
    async fn signing(&self, to_sign: ToSign) -> ErrorCode {
        let before = self.row();
        let refused = self.account.sign_checked(to_sign).await;
        let Err(SignError::Session(refusal)) = refused else { panic!("{refused:?}") };
        assert_eq!(self.row(), before);
        refusal.code()
    }

    async fn both(&self, prepared: SigningPayload) -> [ErrorCode; 2] {
        [self.preparing(self.transfer()), self.signing(to_sign(prepared, 0)).await]
    }

    /// Number of signatures by the row's claim; `None` without a readable row.
    fn row(&self) -> Option<u64> {
        let id = self.id;
        let found = self.world.store.read(|connection| session_keys::find(connection, id));
        found.ok().flatten().map(|row| row.claims().uses)
    }

    async fn sql(&self, sql: &'static str) {
        let write = |transaction: &rusqlite::Transaction<'_>| Ok::<_, StoreError>(transaction.execute(sql, [])?);
        assert_eq!(self.world.store.write(write).await.unwrap(), 1, "{sql}");
    }

    /// A payload around a call that the account itself would not prepare, with declared outflows.
    fn forged(&self, inner: PlanLeg, outflows: Vec<Outflow>) -> SigningPayload {
        let grant = self.account.grant();
        let call = DelegationManager::redeemDelegationsCall {
            permissionContexts: vec![vec![grant.delegation().clone()].abi_encode().into()],
            modes: vec![B256::ZERO],
            executionCallDatas: vec![
                [inner.to.as_slice(), &inner.value.to_be_bytes::<32>(), &inner.data].concat().into(),
            ],
        };
        let outer = PayloadLeg {
            purpose: LegPurpose::Main,
            from: grant.session(),
            to: grant.manager(),
            value: U256::ZERO,
            data: call.abi_encode().into(),
            gas_limit: 600_000,
            slots: Vec::new(),
        };
        SigningPayload::new(PayloadParts {
            proposal: Proposal { outflows, ..proposal(grant.owner(), grant.chain_id(), vec![inner]) },
            kind: AccountKind::Delegated,
            signer: grant.session(),
            payer: grant.session(),
            legs: vec![outer],
            order: None,
            fees: FEES,
        })
        .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_session_key_signs_nothing_whichever_clock_says_so() {
    let held = Held::with(Vec::new(), CHAIN + 1_000_000).await;
    let payload = held.payload();
    held.account.sign_checked(to_sign(payload.clone(), 0)).await.unwrap();
    assert_eq!(held.row(), Some(1));
    held.wall.0.store(CHAIN + 1_000_000, Ordering::SeqCst);
    assert_eq!(held.both(payload.clone()).await, [ErrorCode::SessionKeyExpired; 2], "the machine's clock");
    held.wall.0.store(0, Ordering::SeqCst);
    held.sql("INSERT INTO ledger_clock (one, now) VALUES (1, 1801000000000)").await;
    assert_eq!(held.both(payload.clone()).await, [ErrorCode::SessionKeyExpired; 2], "the ledger's clock");
    held.sql("UPDATE ledger_clock SET now = 1").await;
    held.account.sign_checked(to_sign(payload, 0)).await.unwrap();

    // The chain's time is after the end, and the machine's is set back: the chain is read before each signature.
    let held = Held::with(Vec::new(), CHAIN - 10).await;
    held.wall.0.store(CHAIN - 1_000, Ordering::SeqCst);
    let payload = held.payload();
    assert_eq!(held.signing(to_sign(payload.clone(), 0)).await, ErrorCode::SessionKeyExpired);
    held.account.refresh().await.unwrap();
    assert_eq!(held.both(payload).await, [ErrorCode::SessionKeyExpired; 2]);
}

/// Enters a revocation into the audit log, as `bardo-runtime` does in the transaction that revokes.
fn record(transaction: &rusqlite::Transaction<'_>, id: &str, revocation: &SessionKeyRevocation) -> LogHead {
    let body = serde_json::json!({ "session_key": id, "by": revocation.by.as_str(), "reason": revocation.reason });
    let golem_id = GolemId::operator();
    let entry = LogEntry { kind: AuditKind::KeysRevoked, call_id: None, golem_id: &golem_id, body: &body };
    audit::append(transaction, 5, &entry).unwrap()
}

fn recorded(
    transaction: &rusqlite::Transaction<'_>,
    id: Option<&str>,
    revocation: &SessionKeyRevocation,
) -> Result<Vec<EndedSessionKey>, SessionKeyError> {
    let ended = session_keys::revoke(transaction, id, revocation)?;
    for one in &ended {
        record(transaction, &one.id, revocation);
    }
    Ok(ended)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_session_key_signs_nothing_and_nothing_in_the_ledger_brings_it_back() {
    let held = Held::with(Vec::new(), CHAIN + 1_000_000).await;
    let (payload, id) = (held.payload(), held.id);
    let reason = SafeText::clean("no longer needed", 40);
    let revocation = SessionKeyRevocation { at: 5, by: RevokedBy::Operator, reason };
    let again = revocation.clone();
    let revoke = |revocation: SessionKeyRevocation| {
        let id = id.to_string();
        held.world.store.write(move |transaction| recorded(transaction, Some(&id), &revocation))
    };
    assert_eq!(revoke(revocation).await.unwrap().len(), 1);
    assert_eq!(held.both(payload.clone()).await, [ErrorCode::SessionKeyRevoked; 2]);
    assert!(revoke(again).await.unwrap().is_empty(), "only once");
    let signature = held.account.grant().delegation().signature.clone();
    let write = move |transaction: &rusqlite::Transaction<'_>| {
        let sql = "UPDATE safety_session_key SET state = 'granted', signature = ?1, tag = zeroblob(32),
            revoked_at = NULL, revoked_by = NULL, reason = NULL";
        Ok::<_, StoreError>(transaction.execute(sql, [signature.to_vec()])?)
    };
    assert_eq!(held.world.store.write(write).await.unwrap(), 1);
    assert_eq!(held.both(payload.clone()).await, [ErrorCode::SessionKeyRevoked; 2], "by the audit log");
    held.sql("DELETE FROM audit_entry").await;
    assert_eq!(held.both(payload).await, [ErrorCode::SessionKeyUnverified; 2], "by the tag");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_row_of_an_older_copy_does_not_bring_a_revoked_session_key_back() {
    let held = Held::with(Vec::new(), CHAIN + 1_000_000).await;
    let (payload, id) = (held.payload(), held.id.to_string());
    let revoked = held.world.store.write(move |transaction| {
        transaction.execute("CREATE TABLE older AS SELECT * FROM safety_session_key", [])?;
        let reason = SafeText::clean("lost", 40);
        let revocation = SessionKeyRevocation { at: 5, by: RevokedBy::Stop, reason };
        let ended = session_keys::revoke(transaction, None, &revocation)?;
        assert_eq!((ended.len(), &ended[0].id), (1, &id));
        let head = record(transaction, &id, &revocation);
        transaction.execute("DELETE FROM safety_session_key", [])?;
        transaction.execute("INSERT INTO safety_session_key SELECT * FROM older", [])?;
        Ok::<_, session_keys::SessionKeyError>(head)
    });
    let head = revoked.await.unwrap();
    assert_eq!(held.both(payload.clone()).await, [ErrorCode::SessionKeyRevoked; 2]);
    // Whoever also removes the entry is found out by the log's anchor beside the database.
    LogAnchor::beside(held.world.store.path()).advance(head).unwrap();
    held.sql("DELETE FROM audit_entry").await;
    assert_eq!(held.both(payload).await, [ErrorCode::SessionKeyUnverified; 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owners_signature_proves_which_owner_manager_and_chain_a_row_belongs_to() {
    let held = Held::with(Vec::new(), CHAIN + 1_000_000).await;
    let (owner, chain_id, id) = (held.account.address(), held.world.client.chain_id(), held.id);
    let fits = |accepted| {
        let row = held.world.store.read(|connection| session_keys::find(connection, id)).unwrap().unwrap();
        row.is_signed_by_its_owner(accepted)
    };
    // The salt of this fixture's delegation is not its id.
    assert!(!fits(Some((owner, chain_id))));
    let mut delegation = held.account.grant().delegation().clone();
    delegation.salt = U256::from_str_radix(&id.to_string(), 16).unwrap();
    delegation.signature = held.world.signed(&delegation);
    let write = move |transaction: &rusqlite::Transaction<'_>| {
        let unsigned = Delegation { signature: Bytes::new(), ..delegation.clone() };
        let sql = "UPDATE safety_session_key SET delegation = ?1, signature = ?2";
        let params = rusqlite::params![unsigned.abi_encode(), delegation.signature.to_vec()];
        Ok::<_, StoreError>(transaction.execute(sql, params)?)
    };
    held.world.store.write(write).await.unwrap();
    assert!(fits(Some((owner, chain_id))));
    for accepted in [None, Some((Address::repeat_byte(1), chain_id)), Some((owner, chain_id + 1))] {
        assert!(!fits(accepted), "{accepted:?}");
    }
    for change in ["manager = owner", "chain_id = chain_id + 1", "owner = address", "address = owner"] {
        held.sql(Box::leak(format!("UPDATE safety_session_key SET {change}").into_boxed_str())).await;
        let row = held.world.store.read(|connection| session_keys::find(connection, id)).unwrap().unwrap();
        let claims = row.claims();
        assert!(!row.is_signed_by_its_owner(Some((claims.owner, claims.chain_id))), "{change}");
        let (manager, session) = (held.account.grant().manager(), held.account.grant().session());
        let restore = move |transaction: &rusqlite::Transaction<'_>| {
            let sql = "UPDATE safety_session_key SET manager = ?1, chain_id = ?2, owner = ?3, address = ?4";
            let columns = rusqlite::params![
                manager.as_slice(),
                i64::try_from(chain_id).unwrap(),
                owner.as_slice(),
                session.as_slice()
            ];
            Ok::<_, StoreError>(transaction.execute(sql, columns)?)
        };
        held.world.store.write(restore).await.unwrap();
    }
    assert!(fits(Some((owner, chain_id))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_row_is_revoked_with_the_others() {
    let held = Held::with(Vec::new(), CHAIN + 1_000_000).await;
    held.sql(
        "INSERT INTO safety_session_key SELECT 'zz', label, address, owner, chain_id, x'01', delegation, signature,
         created_at, expires_at, max_calls, uses, last_used, state, revoked_at, revoked_by, reason, tag
         FROM safety_session_key",
    )
    .await;
    let revoke = move |transaction: &rusqlite::Transaction<'_>| {
        let revocation = SessionKeyRevocation { at: 5, by: RevokedBy::Operator, reason: SafeText::default() };
        recorded(transaction, None, &revocation)
    };
    let ended = held.world.store.write(revoke).await.unwrap();
    let ids: Vec<&str> = ended.iter().map(|one| one.id.as_str()).collect();
    let own = held.id.to_string();
    assert!(ids.len() == 2 && ids.contains(&"zz") && ids.contains(&own.as_str()), "{ids:?}");
    let left = held.world.store.read(session_keys::has_live);
    assert!(!left.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_outside_the_delegation_is_not_signed() {
    let methods = CallLimit::Methods(vec![Erc20::transferCall::SELECTOR]);
    let held = Held::with(vec![methods, CallLimit::Value(U256::ZERO)], CHAIN + 1_000_000).await;
    let weth = held.world.network().book.contract(KnownContract::WrappedNative).unwrap();
    let approve = Erc20::approveCall { spender: weth, value: U256::ONE }.abi_encode();
    let target = PlanLeg { to: weth, ..held.transfer() };
    let method = leg(held.world.usdc, U256::ZERO, approve.into(), 80_000);
    let value = PlanLeg { value: U256::ONE, ..held.transfer() };
    for inner in [target, method, value] {
        let forged = to_sign(held.forged(inner.clone(), Vec::new()), 0);
        let refused = [held.preparing(inner.clone()), held.signing(forged).await];
        assert_eq!(refused, [ErrorCode::SessionKeyOutOfScope; 2], "{inner:?}");
    }
    // Another chain than the delegation's.
    let payload = held.payload();
    let elsewhere = PayloadContext { chain_id: 8_453, fees: FEES };
    let other = proposal(held.account.address(), 8_453, vec![held.transfer()]);
    let refused = held.account.prepare_payload(other, &elsewhere).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::SessionKeyOutOfScope);
    let signing = ToSign { chain_id: 8_453, ..to_sign(payload.clone(), 0) };
    assert_eq!(held.signing(signing).await, ErrorCode::SessionKeyOutOfScope);
    // Anything but a call of this delegation: another target, another function, bytes behind it, an amount.
    let changes: [fn(&mut PayloadLeg); 4] = [
        |leg| leg.to = Address::repeat_byte(9),
        |leg| leg.data = Bytes::from_static(b"\x01\x02\x03\x04"),
        |leg| leg.data = [leg.data.as_ref(), &[0]].concat().into(),
        |leg| leg.value = U256::ONE,
    ];
    for change in changes {
        let mut signing = to_sign(payload.clone(), 0);
        change(&mut signing.transaction);
        assert_eq!(held.signing(signing).await, ErrorCode::SessionKeyOutOfScope);
    }
    held.account.sign_checked(to_sign(payload, 0)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_the_loss_of_one_call_is_not_signed() {
    let world = DelegationHarness::new().await;
    let (usdc, owner) = (world.usdc, world.owner.address());
    drop(world);
    let limit = CallLimit::TokenLoss { token: usdc, owner, amount: U256::from(500 * USDC) };
    let held = Held::with(vec![limit], CHAIN + 1_000_000).await;
    let token = TokenInfo {
        id: TokenId::Erc20(usdc),
        symbol: SafeText::clean("USDC", 10),
        name: SafeText::clean("USD Coin", 20),
        decimals: 6,
        listed: true,
    };
    let outflow = |amount: u64| Outflow { token: token.clone(), amount: U256::from(amount * USDC) };
    let (chain_id, account) = (held.world.client.chain_id(), &held.account);
    let context = PayloadContext { chain_id, fees: FEES };
    // Two outflows count together.
    for (outflows, passes) in [(vec![outflow(500)], true), (vec![outflow(501)], false), (vec![outflow(251); 2], false)]
    {
        let asked = Proposal { outflows: outflows.clone(), ..proposal(owner, chain_id, vec![held.transfer()]) };
        let prepared = account.prepare_payload(asked, &context);
        let signing = to_sign(held.forged(held.transfer(), outflows), 0);
        if passes {
            prepared.unwrap();
            account.sign_checked(signing).await.unwrap();
        } else {
            assert_eq!(prepared.unwrap_err().code(), ErrorCode::SessionKeyOutOfScope);
            assert_eq!(held.signing(signing).await, ErrorCode::SessionKeyOutOfScope);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_key_signs_as_often_as_its_delegation_says() {
    let held = Held::with(vec![CallLimit::Calls(2)], CHAIN + 1_000_000).await;
    let payload = held.payload();
    // A plan of three transactions takes three calls.
    let (chain_id, owner) = (held.world.client.chain_id(), held.account.address());
    let plan = proposal(owner, chain_id, vec![held.transfer(); 3]);
    let refused = held.account.prepare_payload(plan, &PayloadContext { chain_id, fees: FEES }).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::SessionKeyUsedUp);
    held.account.sign_checked(to_sign(payload.clone(), 0)).await.unwrap();
    // Two at once take the last call only once.
    let sign = || held.account.sign_checked(to_sign(payload.clone(), 1));
    let (first, second) = tokio::join!(sign(), sign());
    assert_eq!(usize::from(first.is_ok()) + usize::from(second.is_ok()), 1);
    assert_eq!(held.row(), Some(2));
    assert_eq!(held.both(payload).await, [ErrorCode::SessionKeyUsedUp; 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_the_session_key_did_not_write_authorises_nothing() {
    for change in [
        "UPDATE safety_session_key SET uses = 0",
        "UPDATE safety_session_key SET last_used = last_used + 1",
        "UPDATE safety_session_key SET expires_at = expires_at + 1",
        "UPDATE safety_session_key SET max_calls = 1000",
        "UPDATE safety_session_key SET created_at = created_at + 1",
        "UPDATE safety_session_key SET label = 'another'",
        "UPDATE safety_session_key SET manager = owner",
        "UPDATE safety_session_key SET tag = zeroblob(32)",
        "UPDATE safety_session_key SET address = x'01'",
        "UPDATE safety_session_key SET delegation = x'01'",
        "DELETE FROM safety_session_key",
    ] {
        let held = Held::with(vec![CallLimit::Calls(5)], CHAIN + 1_000_000).await;
        let payload = held.payload();
        held.account.sign_checked(to_sign(payload.clone(), 0)).await.unwrap();
        held.sql(change).await;
        assert_eq!(held.both(payload).await, [ErrorCode::SessionKeyUnverified; 2], "{change}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_signs_nothing() {
    let held = Held::with(Vec::new(), CHAIN + 1_000_000).await;
    let id = SessionKeyId::random();
    let account = held.world.drafted(held.account.grant(), id, held.wall.clone());
    let drafted = Held { account, id, ..held };
    let payload = drafted.forged(drafted.transfer(), Vec::new());
    assert_eq!(drafted.both(payload).await, [ErrorCode::SessionKeyUnverified; 2]);
}
