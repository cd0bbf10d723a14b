//! A second operator's approval: a stolen first console, forged and replayed signatures, a policy that is weakened, and a
//! hostile process on the socket. Without the signature of a key that the policy names, nothing is signed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::primitives::{Address, B256, Signature, U256, hex, uint};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;
use bardo::attach::wire::Rights;
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::error::ErrorCode;
use bardo::base::id::PermitId;
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::runtime::questions::second;
use bardo::safety::approval::{
    AnswerError, ApprovalNeed, Consent, Decision, OperatorAnswer, PendingApproval, requirement,
};
use bardo::safety::operator_policy::{AcceptError, OperatorPolicyEngine};
use bardo::safety::operator_proof::Authorisation;
use bardo::safety::pipeline::{CommitState, Preview};
use bardo::safety::policy::{Policy, PolicyKeeper, PolicyPreset};
use bardo::safety::second_approval::{SecondError, SecondRequirement, SecondSignature, SecondStatement};
use bardo::safety::stop::StopFile;
use bardo::session::envelope::CallStatus;
use bardo::session::handle::SessionCommand;
use bardo::session::questions::{AnswerKind, Confirmation, Question};
use bardo::store::{Store, StoreConfig};
use serde_json::json;

use super::served::Served;
use bardo_testkit::harness::{Hook, TestHarness};
use bardo_testkit::proof::proof;

const HUNDRED: u64 = 100_000_000;
/// Order of the group, from [SEC 2](https://www.secg.org/sec2-v2.pdf).
const ORDER: U256 = uint!(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141_U256);

fn key(number: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(number)).unwrap()
}

fn raw(statement: &SecondStatement, key: &PrivateKeySigner) -> Signature {
    key.sign_hash_sync(&statement.digest()).unwrap()
}

fn signed(statement: &SecondStatement, key: &PrivateKeySigner) -> SecondSignature {
    SecondSignature::new(raw(statement, key)).unwrap()
}

fn by(approvers: &[Address]) -> SecondRequirement {
    SecondRequirement {
        above: Some("50".parse().unwrap()),
        approvers: approvers.iter().copied().collect::<BTreeSet<_>>(),
    }
}

/// Harness whose rules ask for the second approval of key 1 for every action.
async fn guarded() -> TestHarness {
    let world = TestHarness::new(0).await;
    *world.book.second.lock().unwrap() = Some(by(&[key(1).address()]));
    world
}

/// Preview of an allowance, in the queue, with its request.
async fn asked(world: &TestHarness) -> (Arc<Preview>, PendingApproval, SecondStatement) {
    let preview = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    let ticket = world.queue.ask(Arc::clone(&preview));
    let statement = SecondStatement::of(&preview, world.queue.pending().last().unwrap().ends_at);
    (preview, ticket, statement)
}

/// Waits for the approval of a request that has its second approval, and returns the consent.
async fn approved(world: &TestHarness, preview: &Preview, mut ticket: PendingApproval) -> Consent {
    world.queue.answer(preview.permit.permit_id, OperatorAnswer::Once).unwrap();
    match ticket.decision().await {
        Decision::Approved(yes) => Consent::Approved(yes),
        other => panic!("{other:?}"),
    }
}

async fn refused(world: &TestHarness, permit_id: PermitId, consent: Consent) -> String {
    let before = world.wallet.signatures.load(Ordering::SeqCst);
    let refusal = world.pipeline.commit(permit_id, consent).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::ApprovalRequired, "{refusal:?}");
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), before);
    refusal.message
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stolen_first_console_signs_nothing_that_needs_a_second_approval() {
    let world = guarded().await;
    world.book.always.store(true, Ordering::SeqCst);
    for consent in [Consent::None, Consent::Always] {
        let preview = world.preview(world.approval(HUNDRED)).await.unwrap();
        assert!(refused(&world, preview.permit.permit_id, consent).await.contains("a second approval is missing"));
    }
    let (preview, ticket, statement) = asked(&world).await;
    let permit_id = preview.permit.permit_id;
    let similar = OperatorAnswer::Similar { millis: 600_000, total: "5000".parse().unwrap() };
    for answer in [OperatorAnswer::Once, similar] {
        let answered = world.queue.answer(permit_id, answer);
        assert!(matches!(answered, Err(AnswerError::Second(SecondError::Missing(_)))), "{answered:?}");
    }
    let by_hand = world.queue.ask_approved(Arc::clone(&preview), &requirement(&preview).met(), None);
    assert!(matches!(by_hand, Err(AnswerError::Second(SecondError::Missing(_)))), "{:?}", by_hand.is_ok());
    // An approval that was asked for before the rules demanded a second one.
    *world.book.second.lock().unwrap() = None;
    *world.book.need.lock().unwrap() = ApprovalNeed::Delay { millis: 60_000 };
    let before = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    let mut earlier = world.queue.ask(Arc::clone(&before));
    world.queue.answer(before.permit.permit_id, OperatorAnswer::Once).unwrap();
    let Decision::Approved(yes) = earlier.decision().await else { panic!() };
    *world.book.second.lock().unwrap() = Some(by(&[key(1).address()]));
    refused(&world, before.permit.permit_id, Consent::Approved(yes)).await;
    *world.book.need.lock().unwrap() = ApprovalNeed::Instant;
    // With the second operator it goes on, and the audit log names both.
    world.queue.approve_second(permit_id, signed(&statement, &key(1))).await.unwrap();
    let consent = approved(&world, &preview, ticket).await;
    let committed = world.pipeline.commit(permit_id, consent).await.unwrap();
    assert_eq!(committed.state, CommitState::Done);
    let log = world.trail();
    let of = |kind: &str| log.iter().rfind(|(one, _)| one == kind).map(|(_, body)| body.clone()).unwrap();
    assert_eq!(of("approval:seconded")["by"], json!(key(1).address()));
    assert_eq!(of("approval:resolved")["by"], "operator");
    let used = of("permit:consumed");
    assert_eq!(used["second_approval"]["by"], json!(key(1).address()));
    assert_eq!(used["second_approval"]["digest"], json!(statement.digest()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_or_malleable_signature_is_no_second_approval() {
    let world = guarded().await;
    let (preview, _ticket, statement) = asked(&world).await;
    let permit_id = preview.permit.permit_id;
    let SecondStatement::Action { account, chain_id, action, policy, outcome, deadline, .. } = statement.clone() else {
        panic!()
    };
    let of = |account, chain_id, permit_id, action, deadline| SecondStatement::Action {
        account,
        chain_id,
        permit_id,
        action,
        policy,
        outcome: outcome.clone(),
        deadline,
    };
    let other = world.preview(world.approval(2 * HUNDRED)).await.unwrap();
    for (what, statement) in [
        ("another action", of(account, chain_id, permit_id, other.permit.simulation_hash, deadline)),
        ("another chain", of(account, chain_id + 1, permit_id, action, deadline)),
        ("another account", of(Address::repeat_byte(9), chain_id, permit_id, action, deadline)),
        ("another permit", of(account, chain_id, other.permit.permit_id, action, deadline)),
        ("a later deadline", of(account, chain_id, permit_id, action, deadline + 1)),
    ] {
        let taken = world.queue.approve_second(permit_id, signed(&statement, &key(1))).await;
        assert!(matches!(taken, Err(SecondError::NotApprover { .. })), "{what}: {taken:?}");
    }
    let by_stranger = world.queue.approve_second(permit_id, signed(&statement, &key(4))).await;
    assert!(matches!(by_stranger, Err(SecondError::NotApprover { .. })), "{by_stranger:?}");
    // The mirrored signature recovers to the same key.
    let genuine = raw(&statement, &key(1));
    let mirrored = Signature::new(genuine.r(), ORDER - genuine.s(), !genuine.v());
    assert_eq!(mirrored.recover_address_from_prehash(&statement.digest()).unwrap(), key(1).address());
    assert_eq!(SecondSignature::new(mirrored), Err(SecondError::Malformed));
    let written = hex::encode_prefixed(mirrored.as_bytes());
    assert_eq!(written.parse::<SecondSignature>(), Err(SecondError::Malformed));
    assert!(world.queue.pending()[0].second.is_none());
    let answered = world.queue.answer(permit_id, OperatorAnswer::Once);
    assert!(matches!(answered, Err(AnswerError::Second(_))), "{answered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_approval_is_used_for_one_request_only() {
    let world = guarded().await;
    let (preview, ticket, statement) = asked(&world).await;
    let signature = signed(&statement, &key(1));
    world.queue.approve_second(preview.permit.permit_id, signature).await.unwrap();
    // The request ends without an answer; the same action is asked for again.
    drop(ticket);
    let (again, ticket, _) = asked(&world).await;
    for permit_id in [preview.permit.permit_id, again.permit.permit_id] {
        assert!(world.queue.approve_second(permit_id, signature).await.is_err());
    }
    let answered = world.queue.answer(again.permit.permit_id, OperatorAnswer::Once);
    assert!(matches!(answered, Err(AnswerError::Second(SecondError::Missing(_)))), "{answered:?}");
    drop(ticket);
    // An approval with its second one, presented for another permit.
    let (preview, ticket, statement) = asked(&world).await;
    world.queue.approve_second(preview.permit.permit_id, signed(&statement, &key(1))).await.unwrap();
    let consent = approved(&world, &preview, ticket).await;
    let other = world.preview(world.approval(HUNDRED)).await.unwrap();
    refused(&world, other.permit.permit_id, consent).await;
    // After a restart nothing of it is left.
    let (preview, ticket, statement) = asked(&world).await;
    world.queue.approve_second(preview.permit.permit_id, signed(&statement, &key(1))).await.unwrap();
    drop(ticket);
    let mut world = world;
    world.restart();
    let late = world.queue.approve_second(preview.permit.permit_id, signed(&statement, &key(1))).await;
    assert_eq!(late, Err(SecondError::Over));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approver_that_is_removed_before_signing_does_not_count() {
    let world = guarded().await;
    let (preview, ticket, statement) = asked(&world).await;
    world.queue.approve_second(preview.permit.permit_id, signed(&statement, &key(1))).await.unwrap();
    let consent = approved(&world, &preview, ticket).await;
    *world.book.second.lock().unwrap() = Some(by(&[key(2).address()]));
    assert!(refused(&world, preview.permit.permit_id, consent).await.contains("does not name"));
    // Removed between the last check and the signature: inside the transaction that consumes the permit.
    *world.book.second.lock().unwrap() = Some(by(&[key(1).address()]));
    let (preview, ticket, statement) = asked(&world).await;
    world.queue.approve_second(preview.permit.permit_id, signed(&statement, &key(1))).await.unwrap();
    let consent = approved(&world, &preview, ticket).await;
    let book = Arc::clone(&world.book);
    *world.book.on_reserve.lock().unwrap() =
        Hook::new(move || *book.second.lock().unwrap() = Some(by(&[key(2).address()]))).into_inner().unwrap();
    assert!(refused(&world, preview.permit.permit_id, consent).await.contains("does not name"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trading_key_is_never_its_own_second_approver() {
    let world = guarded().await;
    *world.book.second.lock().unwrap() = Some(by(&[key(1).address(), world.account()]));
    let refusal = world.preview(world.approval(HUNDRED)).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::SafetyNotAllowed);
    assert!(refusal.message.contains("which acts itself"), "{}", refusal.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_not_weakened_without_the_second_operator() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
    let path = folder.path().join("policy.toml");
    let approver = key(1).address();
    let guarded = format!("preset = \"demo\"\n[second_approval]\nabove_usd = \"500\"\napprovers = [\"{approver}\"]\n");
    std::fs::write(&path, &guarded).unwrap();
    let keeper = Arc::new(PolicyKeeper::open(path.clone(), PolicyPreset::ReadOnly).unwrap());
    let rules = OperatorPolicyEngine::new(keeper, StopFile::in_folder(folder.path()), store, []);
    rules.acts_for(key(2).address());
    let now = || SystemClock.now_millis();
    rules.resume(now()).await.unwrap();
    let in_force = rules.policy().hash();
    let accept = async |hash| {
        let proof = proof(folder.path(), Authorisation::AcceptPolicy { hash }, now());
        rules.accept(hash, "operator", now(), proof).await
    };
    let other = key(3).address();
    let weaker = [
        "preset = \"demo\"\n".to_owned(),
        guarded.replace("500", "5000"),
        guarded.replace(&format!("\"{approver}\""), &format!("\"{approver}\", \"{other}\"")),
        guarded.replace(&approver.to_string(), &other.to_string()),
        guarded.replace("[second", "max_gas_usd = \"5000\"\n[second"),
    ];
    for text in &weaker {
        std::fs::write(&path, text).unwrap();
        let hash = rules.pending().expect("it waits").policy.hash();
        let alone = accept(hash).await;
        assert!(matches!(alone, Err(AcceptError::Second(SecondError::Missing(_)))), "{text}: {:?}", alone.is_ok());
        assert_eq!(rules.policy().hash(), in_force, "{text}");
    }
    std::fs::write(&path, &weaker[0]).unwrap();
    let weak = rules.pending().unwrap().policy;
    let hash = weak.hash();
    let deadline = now() + 60_000;
    let (statement, _) = rules.policy_statement(&weak, deadline).unwrap().unwrap();
    for (stranger, deadline) in [(key(2), deadline), (key(3), deadline), (key(1), deadline + 1)] {
        let taken = rules.approve_second(hash, deadline, signed(&statement, &stranger), now());
        assert!(taken.is_err(), "{:?}", stranger.address());
    }
    let far = now() + 86_400_000;
    let (long, _) = rules.policy_statement(&weak, far).unwrap().unwrap();
    assert!(rules.approve_second(hash, far, signed(&long, &key(1)), now()).is_err(), "for a whole day");
    let signature = signed(&statement, &key(1));
    assert_eq!(rules.approve_second(hash, deadline, signature, now()).unwrap(), approver);
    assert_eq!(accept(hash).await.unwrap().unwrap().policy.hash(), hash);
    // The first operator tightens it, and loosens it again with the old signature.
    std::fs::write(&path, &guarded).unwrap();
    assert_eq!(rules.policy().hash(), in_force);
    let recorded = || rules.policy_statement(&weak, deadline).unwrap().unwrap().0 != statement;
    for _ in 0..2_400 {
        if recorded() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    std::fs::write(&path, &weaker[0]).unwrap();
    assert_eq!(rules.pending().unwrap().policy.hash(), hash);
    assert!(rules.approve_second(hash, deadline, signature, now()).is_err());
    assert!(matches!(accept(hash).await, Err(AcceptError::Second(SecondError::Missing(_)))));
}

/// Rules of a new ledger whose policy asks key 1 for a second approval, and the weaker policy that is tried.
struct GuardedLedger {
    folder: tempfile::TempDir,
    guarded: String,
    weaker: &'static str,
}

impl GuardedLedger {
    fn new() -> Self {
        let approver = key(1).address();
        let guarded =
            format!("preset = \"demo\"\n[second_approval]\nabove_usd = \"500\"\napprovers = [\"{approver}\"]\n");
        Self { folder: tempfile::tempdir().unwrap(), guarded, weaker: "preset = \"demo\"\nmax_gas_usd = \"5000\"\n" }
    }

    /// Starts a process on the ledger, with a policy file of this name and text.
    async fn process(&self, file: &str, text: &str) -> OperatorPolicyEngine {
        let path = self.folder.path().join(file);
        std::fs::write(&path, text).unwrap();
        let store = Store::open(StoreConfig::at(self.folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
        let keeper = Arc::new(PolicyKeeper::open(path, PolicyPreset::ReadOnly).unwrap());
        let rules = OperatorPolicyEngine::new(keeper, StopFile::in_folder(self.folder.path()), store, []);
        rules.resume(SystemClock.now_millis()).await.unwrap();
        rules
    }

    async fn accept(&self, rules: &OperatorPolicyEngine, hash: B256) -> Result<(), AcceptError> {
        let now = SystemClock.now_millis();
        let proof = proof(self.folder.path(), Authorisation::AcceptPolicy { hash }, now);
        rules.accept(hash, "operator", now, proof).await.map(drop)
    }
}

/// The record of the policy in force is removed, damaged, or replaced by a weaker policy's.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_record_of_the_policy_makes_no_second_operator_needless() {
    let weak = Policy::from_sources([GuardedLedger::new().weaker]).unwrap().unwrap();
    let replaced = format!(
        "UPDATE policy_held SET hash = x'{}', sources = '{}'",
        hex::encode(weak.hash()),
        serde_json::to_string(&[GuardedLedger::new().weaker]).unwrap()
    );
    for tamper in ["DELETE FROM policy_held", "UPDATE policy_held SET sources = '[\"x\"]'", replaced.as_str()] {
        let ledger = GuardedLedger::new();
        drop(ledger.process("policy.toml", &ledger.guarded).await);
        rusqlite::Connection::open(ledger.folder.path().join("ledger.db")).unwrap().execute_batch(tamper).unwrap();
        let rules = ledger.process("policy.toml", ledger.weaker).await;
        let waiting = rules.pending().unwrap_or_else(|| panic!("{tamper}: it is in force")).policy;
        let alone = ledger.accept(&rules, waiting.hash()).await;
        assert!(matches!(alone, Err(AcceptError::Second(SecondError::Missing(_)))), "{tamper}: {alone:?}");
        // The second operator repairs it.
        let deadline = SystemClock.now_millis() + 60_000;
        let (statement, approvers) = rules.policy_statement(&waiting, deadline).unwrap().unwrap();
        assert_eq!(approvers, BTreeSet::from([key(1).address()]), "{tamper}");
        let now = SystemClock.now_millis();
        rules.approve_second(waiting.hash(), deadline, signed(&statement, &key(1)), now).unwrap();
        ledger.accept(&rules, waiting.hash()).await.unwrap();
    }
}

/// A process that follows another file, or was stopped meanwhile, does not know the stricter policy of the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_missed_the_second_operators_policy_accepts_no_other() {
    let ledger = GuardedLedger::new();
    let missed = ledger.process("old.toml", "preset = \"demo\"\n").await;
    drop(ledger.process("policy.toml", &ledger.guarded).await);
    std::fs::write(ledger.folder.path().join("old.toml"), ledger.weaker).unwrap();
    let waiting = missed.pending().unwrap().policy.hash();
    let accepted = ledger.accept(&missed, waiting).await;
    assert!(matches!(accepted, Err(AcceptError::Overtaken)), "{accepted:?}");
}

/// A refusal ends the second approval that was given before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_policy_needs_another_second_approval() {
    let ledger = GuardedLedger::new();
    let rules = ledger.process("policy.toml", &ledger.guarded).await;
    let path = ledger.folder.path().join("policy.toml");
    std::fs::write(&path, ledger.weaker).unwrap();
    let weak = rules.pending().unwrap().policy;
    let deadline = SystemClock.now_millis() + 60_000;
    let (statement, _) = rules.policy_statement(&weak, deadline).unwrap().unwrap();
    let signature = signed(&statement, &key(1));
    rules.approve_second(weak.hash(), deadline, signature, SystemClock.now_millis()).unwrap();
    assert!(rules.refuse(weak.hash(), "operator", SystemClock.now_millis()).await.unwrap());
    let again = rules.approve_second(weak.hash(), deadline, signature, SystemClock.now_millis());
    assert!(again.is_err(), "{again:?}");
    assert_eq!(rules.second_given(weak.hash()), None);
}

/// A process that found the socket and its token acts as a console. It approves nothing as the second operator.
#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_process_on_the_socket_gives_no_second_approval() {
    let approver = key(1).address();
    let policy = format!("preset = \"demo\"\n[second_approval]\nabove_usd = \"100\"\napprovers = [\"{approver}\"]\n");
    let served = tokio::task::spawn_blocking(move || Served::start_with("policy-devnet.toml", &policy)).await.unwrap();
    let (mut first, mut second) = (served.attach(Rights::Operate).await, served.attach(Rights::Watch).await);
    let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.1", "chain": "ethereum",
                        "prefer_uniswapx": false});
    first.send(SessionCommand::Offer { ticket: 1, tool: "uniswap_execute_swap".into(), params }).await;
    let question: Question = second.question(|question| question.second.is_some()).await;
    let once = |question: &Question| SessionCommand::Answer {
        key: question.key,
        answer: OperatorAnswer::Once,
        confirmation: Confirmation { read: question.to_read.iter().map(|one| one.text.clone()).collect(), typed: None },
        password: None,
    };
    first.send(once(&question)).await;
    first.refused("a second approval is missing").await;
    let approve = |signature: String| SessionCommand::ApproveSecond { key: question.key, signature, deadline: None };
    let statement = second::statement(&question, SystemClock.now_millis()).unwrap();
    for (forged, why) in
        [("0x12".to_owned(), "not a signature"), (signed(&statement, &key(4)).to_string(), "does not name")]
    {
        second.send(approve(forged)).await;
        second.refused(why).await;
    }
    second.send(once(&question)).await;
    second.refused("read-only").await;
    // A session that shows another action than it hashes is not signed for.
    let mut altered = question.clone();
    if let bardo::session::questions::RequestSubject::Action(action) = &mut altered.about
        && let Some(bound) = &mut action.bound
    {
        bound.content.account = Address::repeat_byte(9);
    }
    assert!(second::statement(&altered, 0).is_err());
    // The second operator's key, from a console without rights.
    second.send(approve(signed(&statement, &key(1)).to_string())).await;
    let given = first.question(|question| question.second.as_ref().is_some_and(|second| second.given.is_some())).await;
    assert_eq!(given.second.as_ref().unwrap().given.unwrap().by, approver);
    let once_offered = given.answers.iter().find(|offered| offered.kind == AnswerKind::Once).unwrap();
    assert_eq!(once_offered.why_not, None);
    first.send(once(&given)).await;
    assert_eq!(first.reply().await.status, CallStatus::Success);
}
