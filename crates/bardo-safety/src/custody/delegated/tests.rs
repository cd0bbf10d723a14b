//! The framework's real contracts on the devnet: what a session key can and cannot do for its owner.

use std::sync::Arc;
use std::time::Duration;

use alloy::consensus::{SignableTransaction as _, TxEip7702};
use alloy::eips::eip7702::Authorization;
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::providers::Provider as _;
use alloy::sol_types::{SolCall as _, SolValue as _};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;

use super::*;
use crate::custody::secret::SecretKey;
use crate::custody::session_keys::{self, SessionKeyId, SessionKeyRecord, SessionKeyState};
use crate::custody::signing::SigningKey;
use crate::custody::tests::{FEES, leg, proposal, to_sign};
use crate::proposal::SignatureSlot;
use crate::{audit, ledger, permit};
use bardo_abi::delegation::Delegation;
use bardo_abi::erc20::Erc20;
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::error::ErrorCode;
use bardo_base::text::SafeText;
use bardo_sandbox::plan::SandboxToken;
use bardo_sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use bardo_store::{Store, StoreConfig};
use golem_chain::devnet::MNEMONIC;
use golem_chain::network::{KnownContract, Network};
use golem_chain::provider::ChainClient;
use golem_chain::sender::{self, SendRoute, SendState, SenderRules, TxSender, WaitRules};

const USDC: u64 = 1_000_000;

/// A devnet with an owner that has the framework's code, and a session key with some ether.
pub(super) struct DelegationHarness {
    _sandbox: Sandbox,
    _folder: tempfile::TempDir,
    pub client: ChainClient,
    pub store: Store,
    sender: TxSender,
    pub owner: PrivateKeySigner,
    secret: SecretKey,
    pub session: SigningKey,
    pub usdc: Address,
}

impl DelegationHarness {
    pub async fn new() -> Self {
        let config = SandboxConfig {
            seed: 1,
            start_time: 1_800_000_000,
            pace: BlockPace::OnTransaction,
            clock: None,
            market: MarketMode::Off,
            keeper: false,
        };
        let sandbox = tokio::task::spawn_blocking(move || Sandbox::boot(&config, &|_| {})).await.unwrap().unwrap();
        let chain = sandbox.chain("ethereum").unwrap();
        let network = sandbox.description().networks().remove(0);
        let client = ChainClient::devnet(network.clone(), chain.devnet.clone(), Arc::new(SystemClock)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(
            StoreConfig::at(folder.path().join("l.db")),
            &[sender::MIGRATIONS, permit::MIGRATIONS, ledger::MIGRATIONS, audit::MIGRATIONS],
        )
        .unwrap();
        let rules = SenderRules::for_network(network.kind, network.block_millis);
        let sender = TxSender::new(client.clone(), store.clone(), Arc::new(SystemClock), None, rules);
        let secret = SecretKey::generate().unwrap();
        let session = SigningKey::new(&secret).unwrap();
        let owner = SecretKey::from_mnemonic(MNEMONIC, 0).unwrap().signer().unwrap();
        let usdc = chain.deployment.token(SandboxToken::Usdc).unwrap();
        Self { _sandbox: sandbox, _folder: folder, client, store, sender, owner, secret, session, usdc }
    }

    pub fn network(&self) -> &Network {
        self.client.network()
    }

    /// Sends a transaction from the owner's wallet, which also delegates its account to the framework's code.
    pub async fn as_owner(&self, to: Address, value: U256, data: Bytes) {
        let (owner, chain_id) = (self.owner.address(), self.client.chain_id());
        // An authorisation uses a nonce of its own, next to that of its transaction.
        self.sender.reconcile(owner).await.unwrap();
        let nonce = self.client.provider().get_transaction_count(owner).await.unwrap();
        let implementation = self.network().book.contract(KnownContract::Eip7702Delegator).unwrap();
        let authorization = Authorization { chain_id: U256::from(chain_id), address: implementation, nonce: nonce + 1 };
        let consent = self.owner.sign_hash_sync(&authorization.signature_hash()).unwrap();
        let authorization_list = vec![authorization.into_signed(consent)];
        let transaction = TxEip7702 {
            chain_id,
            nonce,
            gas_limit: 500_000,
            max_fee_per_gas: FEES.max_fee_per_gas,
            max_priority_fee_per_gas: FEES.max_priority_fee_per_gas,
            to,
            value,
            access_list: Default::default(),
            authorization_list,
            input: data,
        };
        let signature = self.owner.sign_hash_sync(&transaction.signature_hash()).unwrap();
        let signed = SignedTransaction::new(transaction.into_signed(signature).into()).unwrap();
        assert_eq!(self.deliver(signed).await, SendState::Included);
    }

    /// Signs the payload with the session key, sends it, and returns the final state.
    pub async fn as_session(&self, payload: SigningPayload) -> SendState {
        let nonce = self.client.provider().get_transaction_count(self.session.address()).await.unwrap();
        self.deliver(self.session.sign(&to_sign(payload, nonce)).unwrap()).await
    }

    async fn deliver(&self, signed: SignedTransaction) -> SendState {
        let ticket = self.sender.reserve_nonce(signed.from()).await.unwrap();
        assert_eq!(ticket.nonce, signed.nonce());
        let kept = self.sender.keep(ticket, signed, SendRoute::Public, None).await.unwrap();
        let hash = kept.hash();
        self.sender.send(kept).await.unwrap();
        let patience = Duration::from_secs(60);
        self.sender.wait(hash, WaitRules { patience, resend: false }).await.unwrap().record.state
    }

    /// Creates a grant with these limits, signed by the owner.
    pub fn grant(&self, limits: Vec<CallLimit>) -> DelegationGrant {
        DelegationGrant::read(self.network(), self.delegation(limits)).unwrap()
    }

    pub fn delegation(&self, limits: Vec<CallLimit>) -> Delegation {
        let limits = DelegationLimits::new(limits).unwrap();
        let (owner, session) = (self.owner.address(), self.session.address());
        let (mut delegation, digest) =
            DelegationGrant::draft(self.network(), owner, session, (&limits, DraftBounds::Waived), U256::from(7))
                .unwrap();
        delegation.signature = self.owner.sign_hash_sync(&digest).unwrap().as_bytes().into();
        delegation
    }

    /// Signature of the owner over a delegation.
    pub fn signed(&self, delegation: &Delegation) -> Bytes {
        let digest = DelegationGrant::digest(self.network(), delegation).unwrap();
        self.owner.sign_hash_sync(&digest).unwrap().as_bytes().into()
    }

    pub fn account(&self, limits: Vec<CallLimit>) -> DelegatedAccount {
        self.kept(self.grant(limits), SessionKeyId::random(), Arc::new(SystemClock))
    }

    /// Account of a session key with a granted row in the ledger.
    pub fn kept(&self, grant: DelegationGrant, id: SessionKeyId, clock: Arc<dyn Clock>) -> DelegatedAccount {
        let account = self.drafted(&grant, id, clock);
        let (key, signature) = (account.key.clone().unwrap(), grant.delegation().signature.clone());
        let granted = self.store.write(move |transaction| session_keys::grant(transaction, id, &signature, &key));
        futures::executor::block_on(granted).unwrap();
        account
    }

    /// Account of a session key whose row has no signature yet.
    pub fn drafted(&self, grant: &DelegationGrant, id: SessionKeyId, clock: Arc<dyn Clock>) -> DelegatedAccount {
        let end = grant.limits().all().iter().find_map(|limit| match limit {
            CallLimit::Time { before, .. } => Some(*before),
            _ => None,
        });
        let calls = grant.limits().all().iter().find_map(|limit| match limit {
            CallLimit::Calls(most) => Some(*most),
            _ => None,
        });
        let record = SessionKeyRecord {
            id,
            label: SafeText::clean("a swap", 40),
            address: grant.session(),
            owner: grant.owner(),
            chain_id: grant.chain_id(),
            manager: grant.manager(),
            delegation: grant.delegation().clone(),
            created_at: 1,
            expires_at: end.unwrap(),
            max_calls: calls,
            uses: 0,
            last_used: None,
            state: SessionKeyState::Drafted,
        };
        let keeper = SessionKeeper::new(id, "test", self.store.clone(), self.client.clone(), clock);
        let session = LocalAccount::open(SigningKey::new(&self.secret).unwrap());
        let account = DelegatedAccount::new(session, grant.clone(), keeper).unwrap();
        let key = account.key.clone().unwrap();
        let inserted = self.store.write(move |transaction| session_keys::insert(transaction, &record, &key));
        futures::executor::block_on(inserted).unwrap();
        account
    }

    pub fn prepare_payload(&self, account: &DelegatedAccount, leg: PlanLeg) -> Result<SigningPayload, PayloadError> {
        let chain_id = self.client.chain_id();
        account.prepare_payload(
            proposal(self.owner.address(), chain_id, vec![leg]),
            &PayloadContext { chain_id, fees: FEES },
        )
    }

    pub async fn usdc_of(&self, account: Address) -> U256 {
        let call = Erc20::balanceOfCall { owner: account }.abi_encode();
        let request = alloy::rpc::types::TransactionRequest { to: Some(self.usdc.into()), ..Default::default() };
        let answer = self.client.provider().call(request.input(call.into())).await.unwrap();
        U256::from_be_slice(&answer)
    }

    pub fn transfer(&self, to: Address, amount: u64) -> PlanLeg {
        let call = Erc20::transferCall { to, value: U256::from(amount * USDC) };
        leg(self.usdc, U256::ZERO, call.abi_encode().into(), 80_000)
    }

    /// Only USDC, only until 2100, and a loss of at most 500 USDC in one call.
    pub fn limits(&self) -> Vec<CallLimit> {
        vec![
            CallLimit::Targets(vec![self.usdc]),
            CallLimit::Time { after: 0, before: 4_102_444_800 },
            CallLimit::TokenLoss { token: self.usdc, owner: self.owner.address(), amount: U256::from(500 * USDC) },
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_key_does_for_its_owner_what_the_caveats_let_it_and_no_more() {
    let world = DelegationHarness::new().await;
    let owner = world.owner.address();
    let account = world.account(world.limits());
    assert_eq!((account.address(), account.kind()), (owner, AccountKind::Delegated));
    let not_yet = account.grant().check(&world.client).await.unwrap_err();
    assert!(matches!(not_yet, DelegationNotReady::NoDelegator { .. }), "{not_yet}");
    // The owner makes its account a delegator and gives the session key ether for gas.
    world.as_owner(world.session.address(), U256::from(10).pow(U256::from(17)), Bytes::new()).await;
    assert_eq!(account.grant().check(&world.client).await, Ok(()));

    // Within the limits: the owner's money moves, and the session key signs and pays for gas.
    let (friend, before) = (Address::repeat_byte(0x42), world.usdc_of(owner).await);
    let payload = world.prepare_payload(&account, world.transfer(friend, 400)).unwrap();
    let session = world.session.address();
    assert_eq!((payload.account(), payload.signer(), payload.payer()), (owner, session, session));
    assert_eq!(payload.legs()[0].to, world.network().book.contract(KnownContract::DelegationManager).unwrap());
    assert_eq!(payload.exposed(), [owner, session]);
    assert_eq!(world.as_session(payload).await, SendState::Included);
    assert_eq!(world.usdc_of(friend).await, U256::from(400 * USDC));
    assert_eq!(world.usdc_of(owner).await, before - U256::from(400 * USDC));

    // Above the maximum loss of one call: the chain rejects it.
    let payload = world.prepare_payload(&account, world.transfer(friend, 501)).unwrap();
    assert_eq!(world.as_session(payload).await, SendState::Reverted);
    // A contract that is not listed is rejected locally, and by the chain if the call is sent anyway.
    let weth = world.network().book.contract(KnownContract::WrappedNative).unwrap();
    let elsewhere =
        leg(weth, U256::ZERO, Erc20::transferCall { to: friend, value: U256::ONE }.abi_encode().into(), 80_000);
    let told = world.prepare_payload(&account, elsewhere.clone()).unwrap_err();
    assert!(told.to_string().contains(&weth.to_string()), "{told}");
    let smuggled = world.smuggle(&account, &elsewhere);
    assert_eq!(world.as_session(smuggled).await, SendState::Reverted);
    assert_eq!(world.usdc_of(friend).await, U256::from(400 * USDC), "nothing of that moved anything");

    // Another key cannot use the delegation.
    let stranger = SigningKey::new(&SecretKey::generate().unwrap()).unwrap();
    let keeper = account.keeper.clone();
    let other = DelegatedAccount::new(LocalAccount::locked(stranger.address()), world.grant(world.limits()), keeper);
    assert!(matches!(other, Err(GrantError::OtherSession { .. })), "{other:?}");

    // The owner revokes the delegation through its own account's code.
    let revoke = bardo_abi::delegation::DelegationManager::disableDelegationCall {
        delegation: account.grant().delegation().clone(),
    };
    world.as_owner(owner, U256::ZERO, revoke.abi_encode().into()).await;
    assert_eq!(account.grant().check(&world.client).await, Err(DelegationNotReady::Revoked));
    let payload = world.prepare_payload(&account, world.transfer(friend, 1)).unwrap();
    assert_eq!(world.as_session(payload).await, SendState::Reverted);
}

impl DelegationHarness {
    /// Builds a payload around a call that the account itself would reject.
    fn smuggle(&self, account: &DelegatedAccount, inner: &PlanLeg) -> SigningPayload {
        self.redeem(account.grant().delegation().clone(), inner)
    }

    /// Builds a payload that redeems a delegation as anyone with the session key's secret can.
    pub fn redeem(&self, delegation: Delegation, inner: &PlanLeg) -> SigningPayload {
        let call = DelegationManager::redeemDelegationsCall {
            permissionContexts: vec![vec![delegation].abi_encode().into()],
            modes: vec![B256::ZERO],
            executionCallDatas: vec![
                [inner.to.as_slice(), &inner.value.to_be_bytes::<32>(), &inner.data].concat().into(),
            ],
        };
        let session = self.session.address();
        let manager = self.network().book.contract(KnownContract::DelegationManager).unwrap();
        let outer = leg(manager, U256::ZERO, call.abi_encode().into(), 900_000);
        let chain_id = self.client.chain_id();
        let plain = LocalAccount::locked(session);
        plain
            .prepare_payload(proposal(session, chain_id, vec![outer]), &PayloadContext { chain_id, fees: FEES })
            .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_count_method_and_value_are_limits_too() {
    let world = DelegationHarness::new().await;
    let owner = world.owner.address();
    world.as_owner(world.session.address(), U256::from(10).pow(U256::from(17)), Bytes::new()).await;
    let friend = Address::repeat_byte(0x42);
    let ended = vec![CallLimit::Targets(vec![world.usdc]), CallLimit::Time { after: 0, before: 1_700_000_000 }];
    let once = vec![
        CallLimit::Targets(vec![world.usdc, friend]),
        CallLimit::Time { after: 0, before: 4_102_444_800 },
        CallLimit::Calls(1),
        CallLimit::Methods(vec![Erc20::transferCall::SELECTOR]),
        CallLimit::Value(U256::ZERO),
    ];
    let late = world.account(ended);
    let told = world.prepare_payload(&late, world.transfer(friend, 1)).unwrap_err();
    assert_eq!(told.code(), ErrorCode::SessionKeyExpired);
    assert_eq!(world.as_session(world.smuggle(&late, &world.transfer(friend, 1))).await, SendState::Reverted);

    let account = world.account(once);
    let approve = Erc20::approveCall { spender: friend, value: U256::ONE }.abi_encode();
    let method = leg(world.usdc, U256::ZERO, approve.into(), 80_000);
    let value = PlanLeg { value: U256::ONE, ..world.transfer(friend, 1) };
    for refused in [method, value] {
        let told = world.prepare_payload(&account, refused.clone()).unwrap_err();
        assert_eq!(told.code(), ErrorCode::SessionKeyOutOfScope);
        assert_eq!(world.as_session(world.smuggle(&account, &refused)).await, SendState::Reverted);
    }
    let first = world.prepare_payload(&account, world.transfer(friend, 1)).unwrap();
    assert_eq!(world.as_session(first.clone()).await, SendState::Included);
    assert_eq!(world.as_session(first).await, SendState::Reverted, "once means once");
    assert_eq!((world.usdc_of(friend).await, owner), (U256::from(USDC), account.address()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owners_policy_contract_judges_every_call_of_the_session_key() {
    use bardo_abi::policy_cage::PolicyCage::{self, AssetRule, CallRule, Rules};
    let world = DelegationHarness::new().await;
    world.as_owner(world.session.address(), U256::from(10).pow(U256::from(17)), Bytes::new()).await;
    let book = &world.network().book;
    let (cage, permit2) =
        (book.contract(KnownContract::PolicyCage).unwrap(), book.contract(KnownContract::Permit2).unwrap());
    let feed = book.feeds().iter().find(|feed| feed.pair == "USDC / USD").unwrap().address;
    let set = Rules {
        assets: vec![AssetRule {
            token: world.usdc,
            feed,
            exit: true,
            maxPerTransaction: 100 * u128::from(USDC),
            maxPerDay: 1_000 * u128::from(USDC),
            maxPosition: u128::MAX,
        }],
        calls: [Erc20::approveCall::SELECTOR, Erc20::transferCall::SELECTOR]
            .map(|selector| CallRule { target: world.usdc, selector: selector.into() })
            .to_vec(),
        spenders: vec![permit2],
        maxDrawdownBps: 1_000,
        maxLossBps: 10_000,
        minInterval: 0,
        maxPriceAge: 86_400,
    };
    let limits = vec![
        CallLimit::Targets(vec![world.usdc, cage]),
        CallLimit::Time { after: 0, before: 4_102_444_800 },
        CallLimit::PolicyCage,
    ];
    let account = world.account(limits);
    let friend = Address::repeat_byte(0x42);
    // Without rules from the owner, nothing is allowed.
    let payload = world.prepare_payload(&account, world.transfer(friend, 1)).unwrap();
    assert_eq!(world.as_session(payload).await, SendState::Reverted);
    world.as_owner(cage, U256::ZERO, PolicyCage::configureCall { set }.abi_encode().into()).await;

    let approve = |amount: u64| {
        let call = Erc20::approveCall { spender: permit2, value: U256::from(amount * USDC) };
        leg(world.usdc, U256::ZERO, call.abi_encode().into(), 80_000)
    };
    let clear = leg(cage, U256::ZERO, PolicyCage::clearCall {}.abi_encode().into(), 80_000);
    for (what, leg, end) in [
        ("a transfer inside the rules", world.transfer(friend, 100), SendState::Included),
        ("an approval inside the rules", approve(100), SendState::Included),
        ("more than one transaction may move", world.transfer(friend, 101), SendState::Reverted),
        ("more than may be approved", approve(101), SendState::Reverted),
        ("the rules themselves", clear, SendState::Reverted),
        ("a transfer inside the rules, again", world.transfer(friend, 100), SendState::Included),
    ] {
        let payload = world.prepare_payload(&account, leg).unwrap();
        assert_eq!(world.as_session(payload).await, end, "{what}");
    }
    assert_eq!(world.usdc_of(friend).await, U256::from(200 * USDC));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delegation_that_is_not_wholly_understood_is_none() {
    let world = DelegationHarness::new().await;
    let good = world.delegation(world.limits());
    let network = world.network();
    let read = |delegation: &Delegation| DelegationGrant::read(network, delegation.clone());
    assert_eq!(read(&good).unwrap().limits().all(), world.limits());

    // The manager's contract computes the same hash, so the owner signs what the chain verifies.
    let asked = DelegationManager::getDelegationHashCall { delegation: good.clone() }.abi_encode();
    let manager = network.book.contract(KnownContract::DelegationManager).unwrap();
    let request = alloy::rpc::types::TransactionRequest { to: Some(manager.into()), ..Default::default() };
    let told = world.client.provider().call(request.input(asked.into())).await.unwrap();
    assert_eq!(grant::delegation_hash(&good).as_slice(), told.as_ref());

    type Change = fn(&mut Delegation);
    let changes: [(&str, Change); 8] = [
        ("another session", |d| d.delegate = Address::repeat_byte(1)),
        ("anybody", |d| d.delegate = alloy::primitives::address!("0x0000000000000000000000000000000000000a11")),
        ("another owner", |d| d.delegator = Address::repeat_byte(1)),
        ("below another", |d| d.authority = B256::ZERO),
        ("a wider list", |d| d.caveats[0].terms = [d.caveats[0].terms.as_ref(), &[9; 20]].concat().into()),
        ("another salt", |d| d.salt = U256::from(8)),
        ("no signature", |d| d.signature = Bytes::new()),
        // This signature recovers to the owner as well, but the framework rejects it.
        ("the upper half of s", |d| {
            let signature = alloy::primitives::Signature::try_from(d.signature.as_ref()).unwrap();
            // Group order of secp256k1, by SEC 2.
            let order =
                alloy::primitives::uint!(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141_U256);
            let mirrored = alloy::primitives::Signature::new(signature.r(), order - signature.s(), !signature.v());
            d.signature = mirrored.as_bytes().into();
        }),
    ];
    for (what, change) in changes {
        let mut changed = good.clone();
        change(&mut changed);
        assert!(read(&changed).is_err(), "{what}");
    }
    let mut unknown = good.clone();
    unknown.caveats[2].enforcer = Address::repeat_byte(1);
    assert!(matches!(read(&unknown), Err(GrantError::Limits(LimitsError::Unknown { at: 2, .. }))));
    let mut broken = good.clone();
    broken.caveats[0].terms = vec![1; 21].into();
    assert!(matches!(read(&broken), Err(GrantError::Limits(LimitsError::Terms { at: 0 }))));
    for missing in [0, 1] {
        let mut limits = world.limits();
        limits.remove(missing);
        assert!(matches!(DelegationLimits::new(limits), Err(LimitsError::Unlimited(_))));
    }
    let account = world.account(world.limits());
    let permit = crate::typed::TypedMessage::Permit2Transfer {
        permit2: Address::ZERO,
        permit: bardo_abi::permit2::typed::PermitTransferFrom {
            permitted: bardo_abi::permit2::typed::TokenPermissions { token: world.usdc, amount: U256::ONE },
            spender: Address::ZERO,
            nonce: U256::ZERO,
            deadline: U256::ZERO,
        },
    };
    let mut signing = leg(world.usdc, U256::ZERO, vec![0; 100].into(), 80_000);
    signing.slots = vec![SignatureSlot { offset: 0, message: permit }];
    let refused = world.prepare_payload(&account, signing).unwrap_err();
    assert!(refused.to_string().contains("caveats limit calls, not signatures"), "{refused}");
}
