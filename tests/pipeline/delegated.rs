//! A swap by a session key for its owner, end to end: through the delegation framework's real contracts, with calls in
//! place of the signatures that only the owner could make.

use std::sync::Arc;

use alloy::consensus::{SignableTransaction as _, TxEip7702, TxEnvelope};
use alloy::eips::eip2718::Encodable2718 as _;
use alloy::eips::eip7702::Authorization;
use alloy::primitives::{Address, Bytes, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::{Filter, TransactionRequest};
use alloy::sol_types::{SolCall as _, SolEvent as _};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;
use bardo::abi::delegation::DelegationManager;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::permit2::Permit2;
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::id::GolemId;
use bardo::base::model::Phase;
use bardo::base::secret::Password;
use bardo::base::text::SafeText;
use bardo::chain::devnet::Chain;
use bardo::chain::network::KnownContract;
use bardo::chain::price::PriceChain;
use bardo::custody::delegated::{CallLimit, CallShape, DelegationGrant, DelegationLimits, DraftBounds};
use bardo::custody::session_keys::{self, SessionKeyRecord, SessionKeyState};
use bardo::custody::{DelegatedAccount, KeyName, Keystore, LedgerId, SecretKey, SessionKeeper, SessionKeyId};
use bardo::engine::{
    self, ApprovalMode, CallStatus, Catalog, ConnectedChain, Executor, ExecutorConfig, ToolCall, ToolInput,
    ToolResponse, WriteAccess,
};
use bardo::fabric::Fabric;
use bardo::safety::queue_key::QueueKey;
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};
use tokio::sync::watch;

use bardo_testkit::harness::{TestHarness, devnet};

const USDC: u64 = 1_000_000;

struct Session {
    world: TestHarness,
    owner: Address,
    key: Address,
    executor: Executor,
    _phase: watch::Sender<Phase>,
    _folder: tempfile::TempDir,
}

impl Session {
    /// An owner with 1,000 USDC whose account has the framework's code, and a session key with native tokens for gas.
    /// The key may make the calls of a swap, and lose at most 200 USDC per call.
    async fn new() -> Self {
        let world = TestHarness::new(4).await;
        let network = world.client.network().clone();
        let usdc = world.contract_of(&world.usdc);
        let signer = PrivateKeySigner::random();
        let owner = signer.address();
        let folder = tempfile::tempdir().unwrap();
        let keys = Keystore::at(folder.path().join("keys"));
        let (name, ledger): (KeyName, LedgerId) = ("session".parse().unwrap(), "test".parse().unwrap());
        let password = Password::new("battery staple".to_owned());
        let entry = keys.create(&name, &SecretKey::generate().unwrap(), &password, &ledger).unwrap();
        let key = entry.address;
        let coin = U256::from(10).pow(U256::from(18));
        let fund = move |chain: &mut Chain| {
            chain.set_balance(owner, coin);
            chain.set_balance(key, coin);
        };
        devnet().devnet.run(fund).await.unwrap();
        world.send(usdc, OpenMint::mintCall { to: owner, value: U256::from(1_000 * USDC) }).await;
        become_a_delegator(&world, &signer).await;

        // As `draft --swap USDC=200 --calls 12` makes them.
        let shapes = CallShape::swap(&network.book, usdc).unwrap();
        let limits = DelegationLimits::new(vec![
            CallLimit::Targets(shapes.iter().map(|shape| shape.target).collect()),
            CallLimit::Shapes(shapes.to_vec()),
            CallLimit::Value(U256::ZERO),
            CallLimit::Time { after: 0, before: 4_102_444_800 },
            CallLimit::Calls(12),
            CallLimit::TokenLoss { token: usdc, owner, amount: U256::from(200 * USDC) },
        ]);
        let (mut delegation, digest) =
            DelegationGrant::draft(&network, owner, key, (&limits.unwrap(), DraftBounds::Required), U256::from(7))
                .unwrap();
        delegation.signature = signer.sign_hash_sync(&digest).unwrap().as_bytes().into();
        let grant = DelegationGrant::read(&network, delegation).unwrap();
        assert_eq!(grant.check(&world.client).await, Ok(()));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let session = keys.open(&name, &password, &ledger).unwrap();
        let id = record_of(&world, &grant, session.queue_key_of(ledger.as_str(), owner).unwrap(), Some(12)).await;
        let keeper = SessionKeeper::new(id, ledger.as_str(), world.store.clone(), world.client.clone(), clock.clone());
        let account = DelegatedAccount::new(session, grant, keeper).unwrap();
        let prices = PriceChain::for_chain(&world.client, &Default::default(), clock.clone()).unwrap();
        let chains = vec![ConnectedChain::new(world.client.clone(), prices)];
        let (phase, own) = watch::channel(Phase::Thriving);
        let acting = WriteAccess {
            pipeline: world.pipeline.clone(),
            account: Arc::new(account),
            phase: own,
            approve: ApprovalMode::Never,
            paper: engine::PaperMode::default(),
        };
        let executor = Executor::new(ExecutorConfig {
            catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(),
            world: Arc::new(engine::ToolEnvironment::new(clock.clone(), Some(owner), chains, vec![])),
            fabric: Fabric::in_memory(1_000, clock),
            golem_id: GolemId::operator(),
            calls_per_minute: 1_000,
            hooks: vec![],
            store: None,
            acting: Some(acting),
        });
        Self { world, owner, key, executor, _phase: phase, _folder: folder }
    }

    async fn swap(&self, amount: &str) -> ToolResponse {
        let params = json!({"token_in": "USDC", "token_out": "WETH", "amount": amount, "chain": "ethereum"});
        self.executor.call(ToolCall::new("uniswap_execute_swap", ToolInput::Json(params))).await
    }

    async fn holds(&self, token: Address) -> U256 {
        self.world.ask(token, Erc20::balanceOfCall { owner: self.owner }).await
    }
}

/// Records a granted session key in the ledger.
pub async fn record_of(
    world: &TestHarness,
    grant: &DelegationGrant,
    key: QueueKey,
    max_calls: Option<u64>,
) -> SessionKeyId {
    let id = SessionKeyId::random();
    let record = SessionKeyRecord {
        id,
        label: SafeText::clean("swaps", 40),
        address: grant.session(),
        owner: grant.owner(),
        chain_id: grant.chain_id(),
        manager: grant.manager(),
        delegation: grant.delegation().clone(),
        created_at: 1,
        expires_at: 4_102_444_800,
        max_calls,
        uses: 0,
        last_used: None,
        state: SessionKeyState::Drafted,
    };
    let signature = grant.delegation().signature.clone();
    let written = world.store.write(move |transaction| {
        session_keys::insert(transaction, &record, &key)?;
        session_keys::grant(transaction, id, &signature, &key)
    });
    written.await.unwrap();
    id
}

/// The owner's own wallet delegates its account to the framework's code (EIP-7702).
pub async fn become_a_delegator(world: &TestHarness, signer: &PrivateKeySigner) {
    let chain_id = world.client.chain_id();
    let address = world.contract(KnownContract::Eip7702Delegator);
    // An authorisation takes a nonce of its own, besides its transaction's.
    let authorization = Authorization { chain_id: U256::from(chain_id), address, nonce: 1 };
    let consent = signer.sign_hash_sync(&authorization.signature_hash()).unwrap();
    let transaction = TxEip7702 {
        chain_id,
        nonce: 0,
        gas_limit: 200_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: signer.address(),
        value: U256::ZERO,
        access_list: Default::default(),
        authorization_list: vec![authorization.into_signed(consent)],
        input: Bytes::new(),
    };
    let signature = signer.sign_hash_sync(&transaction.signature_hash()).unwrap();
    let signed = TxEnvelope::from(transaction.into_signed(signature));
    let sent = world.client.provider().send_raw_transaction(&signed.encoded_2718()).await.unwrap();
    assert!(sent.get_receipt().await.unwrap().status());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_key_swaps_for_its_owner_and_leaves_nothing_allowed() {
    let session = Session::new().await;
    let (usdc, weth) = (session.world.contract_of(&session.world.usdc), session.world.contract_of(&session.world.weth));
    let (router, permit2) =
        (session.world.contract(KnownContract::UniversalRouterV210), session.world.contract(KnownContract::Permit2));
    let provider = session.world.client.provider().clone();
    let (nonce, coin) = (
        provider.get_transaction_count(session.owner).await.unwrap(),
        provider.get_balance(session.owner).await.unwrap(),
    );
    let before = [session.holds(usdc).await, session.holds(weth).await];
    let response = session.swap("100").await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    let data: Value = response.data.unwrap();
    let after = [session.holds(usdc).await, session.holds(weth).await];
    assert_eq!(before[0] - after[0], U256::from(100 * USDC), "out of the owner's account");
    assert!(after[1] > before[1], "and back into it");
    assert_eq!(data["amount_in"], "100");
    // The session key sends and pays: an allowance for Permit2, one inside it, and the swap.
    assert_eq!(provider.get_transaction_count(session.key).await.unwrap(), 3);
    assert_eq!(provider.get_transaction_count(session.owner).await.unwrap(), nonce);
    assert_eq!(provider.get_balance(session.owner).await.unwrap(), coin);
    // The allowance was used up completely.
    let owner = session.owner;
    assert_eq!(session.world.ask(usdc, Erc20::allowanceCall { owner, spender: permit2 }).await, U256::ZERO);
    let inside = session.world.ask(permit2, Permit2::allowanceCall { owner, token: usdc, spender: router }).await;
    assert_eq!(U256::from(inside.amount), U256::ZERO);

    // More than the caveats permit as a loss: the simulation shows the enforcer's revert, and nothing is sent.
    let refused = session.swap("201").await;
    assert_eq!(refused.status, CallStatus::Blocked, "{refused:#?}");
    assert_eq!(provider.get_transaction_count(session.key).await.unwrap(), 3);
    assert_is_listed(&session, usdc).await;
}

/// The used delegation is listed with its limits, for as long as the owner has not revoked it.
async fn assert_is_listed(session: &Session, usdc: Address) {
    let asked = async |params: Value| {
        let response = session.executor.call(ToolCall::new("wallet_get_delegation", ToolInput::Json(params))).await;
        assert_eq!(response.status, CallStatus::Success, "{response:#?}");
        response.data.unwrap()
    };
    // The manager's own hash of what it has redeemed.
    let manager = session.world.contract(KnownContract::DelegationManager);
    let filter = Filter::new().address(manager).from_block(0).topic1(session.owner.into_word());
    let logs = session.world.client.provider().get_logs(&filter).await.unwrap();
    let event = DelegationManager::RedeemedDelegation::decode_log(&logs[0].inner).unwrap();
    let delegation = event.data.delegation;
    let call = DelegationManager::getDelegationHashCall { delegation: delegation.clone() };
    let hash = session.world.ask(manager, call).await;

    let data = asked(json!({"contract": usdc.to_string(), "method": "approve(address,uint256)"})).await;
    assert_eq!((&data["delegated"], &data["understood"], &data["paused"]), (&json!(true), &json!(true), &json!(false)));
    assert_eq!(data["delegate_label"], "EIP-7702 delegator");
    assert_eq!((&data["complete"], &data["expires_at"]), (&json!(true), &json!(4_102_444_800_u64)));
    assert_eq!(data["permissions"].as_array().unwrap().len(), 1, "three uses of one delegation: {data:#}");
    let used = &data["permissions"][0];
    assert_eq!((&used["hash"], &used["delegate"]), (&json!(hash.to_string()), &json!(session.key.to_string())));
    assert_eq!((&used["in_force"], &used["revoked"], &used["permits"]), (&json!(true), &json!(false), &json!(true)));
    let limits: Vec<_> = used["limits"].as_array().unwrap().iter().map(|limit| limit.as_str().unwrap()).collect();
    assert_eq!(limits.len(), 6, "{limits:?}");
    assert!(limits[0].starts_with(&format!("calls only USDC ({usdc}), Permit2 (")), "{limits:?}");
    let permit2 = session.world.contract(KnownContract::Permit2);
    // The selector that every ERC-20 contract has for `approve`.
    let approve = "approve(address,uint256) (0x095ea7b3)";
    let approval = format!("makes only the calls {approve} of USDC ({usdc}) with argument 1 = Permit2 ({permit2}); ");
    assert!(limits[1].starts_with(&approval), "{limits:?}");
    assert_eq!(limits[3], "works before 2100-01-01 00:00:00Z");
    let loss = format!("takes at most 200 USDC ({usdc}) from {} per call", session.owner);
    assert_eq!(limits[5], loss);
    let other = asked(json!({"contract": session.key.to_string()})).await;
    assert_eq!(other["permissions"][0]["permits"], false);
    assert_eq!(asked(json!({})).await["permissions"][0]["permits"], Value::Null, "nothing is asked");

    // The owner revokes it by a call that only its own account may make.
    let (owner, client) = (session.owner, &session.world.client);
    let chain = &devnet().devnet;
    chain.run(move |chain: &mut Chain| chain.set_impersonated(owner, true)).await.unwrap();
    let request = |input: Vec<u8>| TransactionRequest::default().from(owner).to(manager).input(input.into());
    let disable = DelegationManager::disableDelegationCall { delegation };
    let sent = client.provider().send_transaction(request(disable.abi_encode())).await.unwrap();
    assert!(sent.get_receipt().await.unwrap().status());
    let revoked = asked(json!({})).await;
    let used = &revoked["permissions"][0];
    assert_eq!((&used["in_force"], &used["revoked"]), (&json!(false), &json!(true)), "{revoked:#}");
    assert_eq!(revoked["expires_at"], Value::Null);
}
