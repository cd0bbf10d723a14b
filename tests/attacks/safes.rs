//! A Safe that others change, impostors of a Safe, and actions that would change who may act for it. Each Safe has the
//! acting owner and another one, who makes the changes.

use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::providers::Provider as _;
use alloy::sol_types::{SolCall, SolValue as _};
use bardo::abi::erc20::Erc20;
use bardo::abi::safe::Safe;
use bardo::base::error::ErrorCode;
use bardo::base::model::StopLevel;
use bardo::chain::network::KnownContract;
use bardo::custody::{SafeAccount, SafeOwnerKey, SafeRefusal, SafeState};
use bardo::safety::Account as _;
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::{CommitState, Pipeline, Preview};
use bardo::safety::proposal::{LegPurpose, Proposal, ProposalIntent};
use bardo::safety::safe_proposals::{ExchangeError, ExchangeFile, SafeProposalRecord, SafeProposalState};
use bardo::sandbox::contracts::BundledContract;
use bardo::sandbox::keys::DevnetAccount;
use bardo::sandbox::safes::devnet_safes;
use bardo::store::StoreError;
use bardo_testkit::harness::{ASKED, TOOL, TestHarness, leg, open};
use bardo_testkit::safe::TestSafe;
use serde_json::Value;

/// Account of the devnet that is the other owner.
const OTHER: usize = 6;

/// An exact allowance of the Safe for Permit2.
fn approval(world: &TestHarness, safe: &TestSafe) -> Proposal {
    Proposal { account: safe.address, ..world.approval(5_000_000) }
}

async fn preview(world: &TestHarness, account: &Arc<SafeAccount>, proposal: Proposal) -> Result<Preview, ErrorCode> {
    let previewed = world.pipeline.preview(proposal, account.clone(), ASKED).await;
    previewed.map_err(|refusal| refusal.code)
}

async fn allowance(world: &TestHarness, safe: &TestSafe) -> U256 {
    let call = Erc20::allowanceCall { owner: safe.address, spender: world.contract(KnownContract::Permit2) };
    world.ask(world.contract_of(&world.usdc), call).await
}

/// Call that changes who may act for a Safe, made from the addresses of a module and of a handler.
type SafeChange = fn(Address, Address) -> Vec<u8>;

#[tokio::test(flavor = "multi_thread")]
async fn a_safe_that_changed_after_it_was_bound_does_nothing_until_it_is_bound_again() {
    let world = TestHarness::new(OTHER).await;
    let handler = Address::repeat_byte(0x11);
    let module = world.contract(KnownContract::Permit2);
    let changes: [(&str, SafeChange); 4] = [
        ("module", |module, _| Safe::enableModuleCall { module }.abi_encode()),
        ("handler", |_, handler| Safe::setFallbackHandlerCall { handler }.abi_encode()),
        ("owner", |_, owner| Safe::addOwnerWithThresholdCall { owner, _threshold: U256::ONE }.abi_encode()),
        ("threshold", |_, owner| Safe::addOwnerWithThresholdCall { owner, _threshold: U256::from(2) }.abi_encode()),
    ];
    for (what, change) in changes {
        let safe = TestSafe::new(&world).await;
        let account = safe.account(&world).await;
        // It was previewed, and everything is ready to be signed.
        let ready = preview(&world, &account, approval(&world, &safe)).await.unwrap();
        let before = safe.numbers(&world).await.0;
        let mut call = safe.execution(world.account(), safe.address, Safe::nonceCall {});
        call.data = change(module, handler).into();
        world.send(safe.address, call).await;
        let refused = world.pipeline.commit(ready.permit.permit_id, Consent::None).await;
        let code = refused.map(|outcome| outcome.state).map_err(|why| why.code).unwrap_err();
        // With another threshold the call fails already in the last simulation, before the account is asked.
        assert!(code == ErrorCode::SafeRefused || what == "threshold", "{what}: {code}");
        let again = preview(&world, &account, approval(&world, &safe)).await;
        assert_eq!(again.map(drop), Err(ErrorCode::SafeRefused), "{what}");
        assert_eq!((safe.numbers(&world).await.0, allowance(&world, &safe).await), (before, U256::ZERO), "{what}");
        // The operator sees the change, and binds the Safe as it is now.
        let state = SafeState::read(&world.client, safe.address).await.unwrap();
        let found = match what {
            "module" => state.modules == [module] && state.has_others(),
            "handler" => state.handler == handler,
            "owner" => state.owners.contains(&handler),
            _ => state.threshold == U256::from(2),
        };
        assert!(found, "{what}: {state:?}");
        let bound = safe.account(&world).await;
        let after = preview(&world, &bound, approval(&world, &safe)).await.unwrap();
        assert_eq!(after.payload.proposes_to_safe(), what == "threshold", "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_who_was_removed_signs_nothing_for_the_safe() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    let account = safe.account(&world).await;
    let (sentinel, stranger) = (Address::with_last_byte(1), Address::repeat_byte(0x12));
    let swap = Safe::swapOwnerCall { prevOwner: sentinel, oldOwner: safe.owner, newOwner: stranger };
    safe.change(&world, swap).await;
    assert_eq!(preview(&world, &account, approval(&world, &safe)).await.map(drop), Err(ErrorCode::SafeRefused));
    // Not even if it is bound like this.
    let bound = safe.account(&world).await;
    let refused = bound.check().await.unwrap_err();
    assert_eq!(refused, SafeRefusal::NotOwner { safe: safe.address, owner: safe.owner });
    assert_eq!(preview(&world, &bound, approval(&world, &safe)).await.map(drop), Err(ErrorCode::SafeRefused));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_action_calls_the_safe_itself() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    let account = safe.account(&world).await;
    let calls: [Vec<u8>; 4] = [
        Safe::enableModuleCall { module: Address::repeat_byte(0x13) }.abi_encode(),
        Safe::setGuardCall { guard: Address::repeat_byte(0x13) }.abi_encode(),
        Safe::addOwnerWithThresholdCall { owner: Address::repeat_byte(0x13), _threshold: U256::ONE }.abi_encode(),
        Vec::new(),
    ];
    for call in calls {
        let own = leg(LegPurpose::Main, safe.address, Bytes::from(call));
        let proposal =
            Proposal { account: safe.address, legs: vec![own], ..world.proposal(ProposalIntent::Approve, Vec::new()) };
        assert_eq!(preview(&world, &account, proposal).await.map(drop), Err(ErrorCode::SafeRefused));
    }
    // Nor a message, which would need the Safe's own signature.
    let swap = Proposal { account: safe.address, ..world.swap(1_000_000).await };
    assert_eq!(preview(&world, &account, swap).await.map(drop), Err(ErrorCode::ValidationFailed));
    assert_eq!(safe.numbers(&world).await.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_looks_like_a_safe_is_none() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    // The proxy of Safe 1.4.1 over another contract, which could answer whatever it likes.
    let proxy = BundledContract::SafeProxy.creation(&world.contract_of(&world.usdc).abi_encode()).unwrap();
    let proxy = world.deploy(proxy).await;
    for impostor in [proxy, world.contract(KnownContract::Permit2), safe.owner] {
        let read = SafeState::read(&world.client, impostor).await;
        assert!(matches!(read, Err(SafeRefusal::NotSafe { .. })), "{read:?}");
        let bound = SafeState::read(&world.client, safe.address).await.unwrap().fingerprint();
        let key = SafeOwnerKey::Local(safe.key());
        let account = Arc::new(SafeAccount::new(impostor, bound, key, world.client.clone()));
        let proposal = Proposal { account: impostor, ..approval(&world, &safe) };
        assert_eq!(preview(&world, &account, proposal).await.map(drop), Err(ErrorCode::SafeRefused));
    }
    // A Safe of others, and one that needs two.
    let [first, second] = devnet_safes().unwrap().try_into().unwrap();
    let refused = SafeState::read(&world.client, first.address).await.unwrap().check_owner(safe.owner);
    assert_eq!(refused, Err(SafeRefusal::NotOwner { safe: first.address, owner: safe.owner }));
    let refused = SafeState::read(&world.client, second.address).await.unwrap().check_owner(safe.owner);
    assert_eq!(refused, Err(SafeRefusal::NotOwner { safe: second.address, owner: safe.owner }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_inside_the_safe_fails_as_a_whole() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    let account = safe.account(&world).await;
    let too_much = Erc20::transferCall { to: world.account(), value: U256::from(10_000_000_001_u64) };
    let usdc = world.contract_of(&world.usdc);
    let proposal = Proposal {
        account: safe.address,
        recipients: vec![world.account()],
        ..world.proposal(ProposalIntent::Transfer, vec![leg(LegPurpose::Main, usdc, too_much.abi_encode().into())])
    };
    assert!(preview(&world, &account, proposal).await.is_err());
    assert_eq!(safe.numbers(&world).await, (0, U256::ZERO));
    // On chain, the bytes that an owner would send for it make the whole transaction fail.
    let call = safe.execution(world.account(), usdc, too_much);
    let request = alloy::rpc::types::TransactionRequest::default().from(world.account()).to(safe.address);
    let answer = world.client.provider().call(request.input(call.abi_encode().into())).await;
    assert!(answer.unwrap_err().to_string().contains("GS013"));

    let done = preview(&world, &account, approval(&world, &safe)).await.unwrap();
    assert_eq!(done.payload.signer(), safe.owner);
    let done = world.pipeline.commit(done.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(done.state, CommitState::Done, "{:?}", done.remarks);
    assert_eq!(safe.numbers(&world).await, (1, U256::ONE));
    assert_eq!((allowance(&world, &safe).await, account.address()), (U256::from(5_000_000), safe.address));
}

/// Proposes an allowance as the acting owner, and returns the proposal.
async fn proposed(world: &TestHarness, safe: &TestSafe, usdc: u64) -> SafeProposalRecord {
    let proposal = Proposal { account: safe.address, ..world.approval(usdc) };
    let ready = preview(world, &safe.account(world).await, proposal).await.unwrap();
    let made = world.pipeline.commit(ready.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!((made.state, made.legs.len()), (CommitState::Placed, 0));
    *made.proposed.unwrap()
}

/// Exports a proposal as text, as a file has it.
async fn exported(pipeline: &Pipeline, id: B256) -> String {
    serde_json::to_string(&pipeline.export_safe_proposal(id).await.unwrap()).unwrap()
}

/// Signs the proposal of a file on another machine as the other owner; returns that machine's file.
async fn signed_elsewhere(
    world: &TestHarness,
    safe: &TestSafe,
    pipeline: &Pipeline,
    text: &str,
) -> Result<String, ErrorCode> {
    let (file, asked) = ExchangeFile::parse(text).unwrap();
    let proposal = file.proposal(&asked).unwrap();
    let account = safe.account_of_other(world, OTHER).await;
    let ready = pipeline.preview_safe_signature(&asked, proposal, TOOL, account, ASKED).await;
    let ready = ready.map_err(|refusal| refusal.code)?;
    let made = pipeline.commit(ready.permit.permit_id, Consent::None).await.map_err(|refusal| refusal.code)?;
    let id = made.proposed.unwrap().id;
    pipeline.import_safe_signatures(&file, &asked).await.unwrap();
    Ok(exported(pipeline, id).await)
}

async fn imported(pipeline: &Pipeline, text: &str) -> Result<Vec<Address>, ErrorCode> {
    let (file, asked) = ExchangeFile::parse(text).unwrap();
    pipeline.import_safe_signatures(&file, &asked).await.map(|(_, added)| added).map_err(|refusal| refusal.code)
}

async fn executed(
    pipeline: &Pipeline,
    id: B256,
    account: Arc<SafeAccount>,
) -> Result<(CommitState, SafeProposalState), ErrorCode> {
    let ready = pipeline.preview_safe_execution(id, TOOL, account, ASKED).await.map_err(|refusal| refusal.code)?;
    let made = pipeline.commit(ready.permit.permit_id, Consent::None).await.map_err(|refusal| refusal.code)?;
    Ok((made.state, pipeline.safe_proposal(id).unwrap().state))
}

fn state(pipeline: &Pipeline, id: B256) -> SafeProposalState {
    pipeline.safe_proposal(id).unwrap().state
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_is_executed_once_with_the_signatures_of_enough_owners() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::needing(&world, 2).await;
    // Another one was previewed before the first was signed: only one can have the Safe's next number.
    let account = safe.account(&world).await;
    let second = || Proposal { account: safe.address, ..world.approval(6_000_000) };
    let late = preview(&world, &account, second()).await.unwrap();
    let own = proposed(&world, &safe, 5_000_000).await;
    let refused = world.pipeline.commit(late.permit.permit_id, Consent::None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::SafeRefused, "{}", refused.message);
    assert_eq!(preview(&world, &account, second()).await.map(drop), Err(ErrorCode::SafeRefused));
    // The hash is what the deployed Safe computes, and the signature one that it accepts.
    let [transaction] = own.transactions().try_into().unwrap();
    let asked = Safe::getTransactionHashCall {
        to: transaction.to,
        value: U256::ZERO,
        data: transaction.data.clone(),
        operation: 0,
        safeTxGas: U256::ZERO,
        baseGas: U256::ZERO,
        gasPrice: U256::ZERO,
        gasToken: Address::ZERO,
        refundReceiver: Address::ZERO,
        _nonce: U256::ZERO,
    };
    assert_eq!(world.ask(safe.address, asked).await, own.id);
    assert_eq!(own.signatures.keys().collect::<Vec<_>>(), [&safe.owner]);
    // Nothing was sent, and one owner is not enough.
    assert_eq!((safe.numbers(&world).await, allowance(&world, &safe).await), ((0, U256::ZERO), U256::ZERO));
    assert_eq!(executed(&world.pipeline, own.id, account.clone()).await, Err(ErrorCode::SafeRefused));

    let folder = tempfile::tempdir().unwrap();
    let machine = world.pipeline_under(world.book.clone(), &open(&folder));
    let text = exported(&world.pipeline, own.id).await;
    let back = signed_elsewhere(&world, &safe, &machine, &text).await.unwrap();
    assert_eq!(imported(&world.pipeline, &back).await, Ok(vec![world.account()]));
    assert_eq!(imported(&world.pipeline, &back).await, Ok(vec![]), "nothing is new");
    let both: Vec<u8> =
        world.pipeline.safe_proposal(own.id).unwrap().signatures.values().flat_map(|one| one[0].to_vec()).collect();
    let check = Safe::checkSignaturesCall { dataHash: own.id, data: Bytes::new(), signatures: both.into() };
    world.ask(safe.address, check).await;

    let done = executed(&world.pipeline, own.id, account.clone()).await.unwrap();
    assert_eq!(done, (CommitState::Done, SafeProposalState::Executed));
    assert_eq!((safe.numbers(&world).await, allowance(&world, &safe).await), ((1, U256::ONE), U256::from(5_000_000)));
    assert_eq!(executed(&world.pipeline, own.id, account).await, Err(ErrorCode::SafeRefused));
    // The other machine finds it executed, and cannot execute it again.
    let other = safe.account_of_other(&world, OTHER).await;
    assert_eq!(executed(&machine, own.id, other).await, Err(ErrorCode::SafeRefused));
    machine.follow_safe_proposals().await.unwrap();
    assert_eq!(state(&machine, own.id), SafeProposalState::Executed);
    assert_eq!(safe.numbers(&world).await.1, U256::ONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_says_something_else_adds_no_signature() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::needing(&world, 2).await;
    let own = proposed(&world, &safe, 5_000_000).await;
    let folder = tempfile::tempdir().unwrap();
    let machine = world.pipeline_under(world.book.clone(), &open(&folder));
    let text = exported(&world.pipeline, own.id).await;
    let back = signed_elsewhere(&world, &safe, &machine, &text).await.unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut file: Value = serde_json::from_str(&back).unwrap();
        change(&mut file);
        file.to_string()
    };
    let parse = |change: &dyn Fn(&mut Value)| ExchangeFile::parse(&changed(change)).map(drop);
    assert_eq!(parse(&|file| file["transactions"][0]["operation"] = 1.into()), Err(ExchangeError::DelegateCall(0)));
    for field in ["gasPrice", "safeTxGas", "baseGas"] {
        assert_eq!(
            parse(&|file| file["transactions"][0][field] = "1".into()),
            Err(ExchangeError::Refund(0)),
            "{field}"
        );
    }
    for field in ["gasToken", "refundReceiver"] {
        let somebody = Value::from(safe.owner.to_string());
        assert_eq!(
            parse(&|file| file["transactions"][0][field] = somebody.clone()),
            Err(ExchangeError::Refund(0)),
            "{field}"
        );
    }
    for (field, value) in [("to", safe.owner.to_string()), ("data", "0x00".to_owned()), ("value", "1".to_owned())] {
        let refused = parse(&|file| file["transactions"][0][field] = value.clone().into());
        assert!(matches!(refused, Err(ExchangeError::Hash { index: 0, .. })), "{field}: {refused:?}");
    }
    let hash = B256::repeat_byte(7).to_string();
    let refused = parse(&|file| file["transactions"][0]["safeTxHash"] = hash.clone().into());
    assert!(matches!(refused, Err(ExchangeError::Hash { index: 0, .. })), "{refused:?}");
    // A file of another transaction of the same Safe, with its own hash.
    let mut foreign = own.transactions()[0].clone();
    foreign.value = U256::from(1);
    let foreign = changed(&|file| {
        file["transactions"][0]["value"] = "1".into();
        file["transactions"][0]["safeTxHash"] = foreign.hash().to_string().into();
    });
    assert_eq!(imported(&world.pipeline, &foreign).await, Err(ErrorCode::SafeRefused));
    let (file, asked) = ExchangeFile::parse(&foreign).unwrap();
    assert_eq!(file.proposal(&asked).map(drop), Err(ExchangeError::OtherTransactions));
    // Signatures: of a stranger, of an owner under another owner's name, twice, of nobody, and one that only refers to the
    // chain, where nobody has agreed.
    let one = |file: &Value, at: usize| file["transactions"][0]["confirmations"][at].clone();
    let stranger = DevnetAccount::development_accounts().unwrap().swap_remove(9);
    let forged = stranger.sign_digest(31_337, own.id).unwrap();
    let approved = [world.account().into_word().as_slice(), &[0; 32], &[1]].concat();
    let contract = [world.account().into_word().as_slice(), &[0; 32], &[0]].concat();
    type Change<'a> = &'a dyn Fn(&mut Value);
    let lies: [(&str, Change<'_>); 6] = [
        ("stranger", &|file| {
            let given = serde_json::json!({ "owner": stranger.address(), "signature": forged });
            file["transactions"][0]["confirmations"] = serde_json::json!([given]);
        }),
        ("another's name", &|file| {
            let mut given = one(file, 0);
            given["owner"] = one(file, 1)["owner"].clone();
            file["transactions"][0]["confirmations"] = serde_json::json!([given]);
        }),
        ("twice", &|file| {
            let given = one(file, 0);
            file["transactions"][0]["confirmations"] = serde_json::json!([given, given]);
        }),
        ("nobody", &|file| {
            file["transactions"][0]["confirmations"][0]["signature"] = Bytes::from(vec![0x11; 65]).to_string().into();
        }),
        ("approved", &|file| {
            let given = serde_json::json!({ "owner": world.account(), "signature": Bytes::from(approved.clone()) });
            file["transactions"][0]["confirmations"] = serde_json::json!([given]);
        }),
        ("contract", &|file| {
            let given = serde_json::json!({ "owner": world.account(), "signature": Bytes::from(contract.clone()) });
            file["transactions"][0]["confirmations"] = serde_json::json!([given]);
        }),
    ];
    for (what, change) in lies {
        let lie = changed(change);
        assert_eq!(imported(&world.pipeline, &lie).await, Err(ErrorCode::SafeRefused), "{what}");
        assert_eq!(world.pipeline.safe_proposal(own.id).unwrap().signatures.len(), 1, "{what}");
    }
    assert_eq!(imported(&world.pipeline, &back).await, Ok(vec![world.account()]), "the honest file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_that_does_more_than_it_says_is_signed_by_no_other_owner() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::needing(&world, 2).await;
    let own = proposed(&world, &safe, 5_000_000).await;
    let folder = tempfile::tempdir().unwrap();
    let machine = world.pipeline_under(world.book.clone(), &open(&folder));
    let text = exported(&world.pipeline, own.id).await;
    let mut file: Value = serde_json::from_str(&text).unwrap();
    file["proposal"]["allowances"][0]["at_most"] = "0x1".into();
    let refused = signed_elsewhere(&world, &safe, &machine, &file.to_string()).await;
    assert_eq!(refused.map(drop), Err(ErrorCode::SafetySimulationFailed));
    // Nor one with another number than the Safe's next.
    let mut later = own.transactions()[0].clone();
    later.nonce = U256::from(4);
    let mut file: Value = serde_json::from_str(&text).unwrap();
    file["transactions"][0]["nonce"] = 4.into();
    file["transactions"][0]["safeTxHash"] = later.hash().to_string().into();
    let refused = signed_elsewhere(&world, &safe, &machine, &file.to_string()).await;
    assert_eq!(refused.map(drop), Err(ErrorCode::SafeRefused));
    assert!(machine.safe_proposals().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_is_not_executed_after_a_stop_or_with_a_guard_that_was_set_meanwhile() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::needing(&world, 2).await;
    let own = proposed(&world, &safe, 5_000_000).await;
    let folder = tempfile::tempdir().unwrap();
    let machine = world.pipeline_under(world.book.clone(), &open(&folder));
    let text = exported(&world.pipeline, own.id).await;
    let back = signed_elsewhere(&world, &safe, &machine, &text).await.unwrap();
    imported(&world.pipeline, &back).await.unwrap();
    let account = safe.account(&world).await;
    *world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
    assert_eq!(executed(&world.pipeline, own.id, account.clone()).await, Err(ErrorCode::Halted));
    *world.book.stop.lock().unwrap() = None;
    // It was previewed before the guard was set.
    let ready = world.pipeline.preview_safe_execution(own.id, TOOL, account.clone(), ASKED).await.unwrap();
    let (at, slot) = (safe.address, U256::from_be_bytes(keccak256("guard_manager.guard.address").0));
    let guard = U256::from_be_bytes(world.contract(KnownContract::Permit2).into_word().0);
    world.run(move |chain| chain.set_storage_at(at, slot, guard)).await;
    let refused = world.pipeline.commit(ready.permit.permit_id, Consent::None).await.map(|done| done.state);
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(executed(&world.pipeline, own.id, account.clone()).await, Err(ErrorCode::SafeRefused));
    assert_eq!(
        (state(&world.pipeline, own.id), safe.numbers(&world).await.1),
        (SafeProposalState::Waiting, U256::ZERO)
    );
    world.run(move |chain| chain.set_storage_at(at, slot, U256::ZERO)).await;
    let done = executed(&world.pipeline, own.id, account).await.unwrap();
    assert_eq!(done, (CommitState::Done, SafeProposalState::Executed));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_execute_one_proposal_send_it_once() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::needing(&world, 2).await;
    let own = proposed(&world, &safe, 5_000_000).await;
    let folder = tempfile::tempdir().unwrap();
    let machine = world.pipeline_under(world.book.clone(), &open(&folder));
    let text = exported(&world.pipeline, own.id).await;
    let back = signed_elsewhere(&world, &safe, &machine, &text).await.unwrap();
    imported(&world.pipeline, &back).await.unwrap();
    let second = world.program(&world.client);
    let ready = |pipeline: Pipeline| {
        let (world, safe) = (&world, &safe);
        async move {
            let account = safe.account(world).await;
            let ready = pipeline.preview_safe_execution(own.id, TOOL, account, ASKED).await.unwrap();
            (pipeline, ready.permit.permit_id)
        }
    };
    let [first, second] = [ready(world.pipeline.clone()).await, ready(second).await];
    let ended =
        futures::future::join(first.0.commit(first.1, Consent::None), second.0.commit(second.1, Consent::None)).await;
    let done =
        [ended.0, ended.1].into_iter().filter(|end| end.as_ref().is_ok_and(|end| end.state == CommitState::Done));
    assert_eq!((done.count(), safe.numbers(&world).await), (1, (1, U256::ONE)));
    assert_eq!(state(&world.pipeline, own.id), SafeProposalState::Executed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_stays_reserved_until_the_safe_has_used_its_number() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::needing(&world, 2).await;
    let held = || -> i64 {
        let sum = "SELECT coalesce(sum(cents), 0) FROM book_held";
        world.store.read(|connection| Ok::<_, StoreError>(connection.query_row(sum, [], |row| row.get(0))?)).unwrap()
    };
    // Nobody has seen this one.
    let unseen = proposed(&world, &safe, 5_000_000).await;
    assert!(held() > 0);
    let rejected = world.pipeline.reject_safe_proposal(unseen.id).await.unwrap();
    assert_eq!((rejected.state, held()), (SafeProposalState::Withdrawn, 0));
    // This one is with the other owner, who signs it and keeps it.
    let shown = proposed(&world, &safe, 6_000_000).await;
    let reserved = held();
    let folder = tempfile::tempdir().unwrap();
    let machine = world.pipeline_under(world.book.clone(), &open(&folder));
    let text = exported(&world.pipeline, shown.id).await;
    signed_elsewhere(&world, &safe, &machine, &text).await.unwrap();
    let rejected = world.pipeline.reject_safe_proposal(shown.id).await.unwrap();
    assert_eq!((rejected.state, held()), (SafeProposalState::Rejected, reserved));
    world.pipeline.follow_safe_proposals().await.unwrap();
    assert_eq!((state(&world.pipeline, shown.id), held()), (SafeProposalState::Rejected, reserved));
    let account = safe.account(&world).await;
    assert_eq!(executed(&world.pipeline, shown.id, account.clone()).await, Err(ErrorCode::SafeRefused));
    // The other owner executes it nevertheless, and the ledger says so.
    let other = safe.account_of_other(&world, OTHER).await;
    let done = executed(&machine, shown.id, other).await.unwrap();
    assert_eq!(done, (CommitState::Done, SafeProposalState::Executed));
    world.pipeline.follow_safe_proposals().await.unwrap();
    assert_eq!(state(&world.pipeline, shown.id), SafeProposalState::Executed);
    // One whose number another has used can no longer happen.
    let lost = proposed(&world, &safe, 7_000_000).await;
    let text = exported(&world.pipeline, lost.id).await;
    world.pipeline.reject_safe_proposal(lost.id).await.unwrap();
    let instead = proposed(&world, &safe, 8_000_000).await;
    assert_eq!(instead.nonce, lost.nonce);
    let text_instead = exported(&world.pipeline, instead.id).await;
    let back = signed_elsewhere(&world, &safe, &machine, &text_instead).await.unwrap();
    imported(&world.pipeline, &back).await.unwrap();
    executed(&world.pipeline, instead.id, account).await.unwrap();
    world.pipeline.follow_safe_proposals().await.unwrap();
    assert_eq!(state(&world.pipeline, lost.id), SafeProposalState::Superseded);
    assert_eq!(signed_elsewhere(&world, &safe, &machine, &text).await.map(drop), Err(ErrorCode::SafeRefused));
}
