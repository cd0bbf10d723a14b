//! Swaps by an account whose key is on a wallet server, end to end on the devnet: the server signs, refuses, fails and
//! lies, and only what was asked is ever sent.

use std::sync::Arc;

use alloy::primitives::{Address, U256};
use alloy::providers::Provider as _;
use alloy_signer_local::PrivateKeySigner;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::id::GolemId;
use bardo::base::model::Phase;
use bardo::base::secret::Password;
use bardo::chain::devnet::Chain;
use bardo::chain::network::KnownContract;
use bardo::chain::price::PriceChain;
use bardo::custody::{
    EmbeddedAccount, KeyName, Keystore, LedgerId, ServerContent, ServerCredential, ServerEnrolment, ServerKey,
    ServerWallet, WalletServer as _,
};
use bardo::engine::{
    self, ApprovalMode, CallStatus, Catalog, ConnectedChain, Executor, ExecutorConfig, ToolCall, ToolInput,
    ToolResponse, WriteAccess,
};
use bardo::fabric::Fabric;
use bardo::runtime::wallet_server::WalletServerClient;
use bardo::tools::ALL_TOOL_DEFS;
use bardo_testkit::harness::{TestHarness, devnet};
use bardo_testkit::wallet_server::{APP_ID, LocalWalletServer, SECRET, ServerMode, ServerPolicy, WALLET_ID};
use serde_json::json;
use tokio::sync::watch;

const USDC: u64 = 1_000_000;

/// A wallet on a server, with 10,000 USDC and gas on the devnet.
pub struct Wallet {
    server: LocalWalletServer,
    key: Arc<ServerKey>,
    pub address: Address,
    _folder: tempfile::TempDir,
}

/// The program beside that wallet, with a ledger of its own.
struct Session {
    world: TestHarness,
    executor: Executor,
    address: Address,
    _phase: watch::Sender<Phase>,
}

impl Wallet {
    pub async fn new() -> Self {
        let signer = PrivateKeySigner::random();
        let address = signer.address();
        let server = LocalWalletServer::start(signer);
        let folder = tempfile::tempdir().unwrap();
        let keys = Keystore::at(folder.path().join("keys"));
        let (name, ledger): (KeyName, LedgerId) = ("server".parse().unwrap(), "test".parse().unwrap());
        let password = Password::new("battery staple".to_owned());
        let wallet = ServerWallet::parse(&server.url(), APP_ID, WALLET_ID).unwrap();
        let credential = ServerCredential::new(Password::new(SECRET.to_owned())).unwrap();
        let enrolment = ServerEnrolment::new(address, ledger.clone()).unwrap();
        let client = WalletServerClient::new(&wallet, &credential).unwrap();
        let signature = client.sign(ServerContent::Typed(&enrolment.statement().unwrap())).await.unwrap();
        let enrolment = enrolment.signed(&signature).unwrap();
        keys.create_server(&name, (wallet, &credential), enrolment, &password).unwrap();
        let key = Arc::new(keys.open_server(&name, &password, &ledger).unwrap());
        let coin = U256::from(10).pow(U256::from(18));
        devnet().devnet.run(move |chain: &mut Chain| chain.set_balance(address, coin)).await.unwrap();
        Self { server, key, address, _folder: folder }
    }

    /// The account, which asks the server for every signature.
    pub fn account(&self) -> EmbeddedAccount {
        let client = WalletServerClient::new(self.key.wallet(), self.key.credential()).unwrap();
        EmbeddedAccount::connected(Arc::clone(&self.key), Arc::new(client))
    }

    async fn session(&self) -> Session {
        self.session_approving(ApprovalMode::Never).await
    }

    async fn session_approving(&self, approve: ApprovalMode) -> Session {
        let world = TestHarness::new(4).await;
        let account = self.account();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let prices = PriceChain::for_chain(&world.client, &Default::default(), clock.clone()).unwrap();
        let chains = vec![ConnectedChain::new(world.client.clone(), prices)];
        let (phase, own) = watch::channel(Phase::Thriving);
        let acting = WriteAccess {
            pipeline: world.pipeline.clone(),
            account: Arc::new(account),
            phase: own,
            approve,
            paper: engine::PaperMode::default(),
        };
        let executor = Executor::new(ExecutorConfig {
            catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(),
            world: Arc::new(engine::ToolEnvironment::new(clock.clone(), Some(self.address), chains, vec![])),
            fabric: Fabric::in_memory(1_000, clock),
            golem_id: GolemId::operator(),
            calls_per_minute: 1_000,
            hooks: vec![],
            store: None,
            acting: Some(acting),
        });
        Session { world, executor, address: self.address, _phase: phase }
    }
}

impl Session {
    async fn swap(&self, amount: &str) -> ToolResponse {
        let params = json!({"token_in": "USDC", "token_out": "WETH", "amount": amount, "chain": "ethereum"});
        self.executor.call(ToolCall::new("uniswap_execute_swap", ToolInput::Json(params))).await
    }

    /// USDC and WETH of the wallet, and the number of its transactions.
    async fn state(&self) -> (U256, U256, u64) {
        let holds = async |token| self.world.ask(token, Erc20::balanceOfCall { owner: self.address }).await;
        let (usdc, weth) = (self.world.contract_of(&self.world.usdc), self.world.contract_of(&self.world.weth));
        let sent = self.world.client.provider().get_transaction_count(self.address).await.unwrap();
        (holds(usdc).await, holds(weth).await, sent)
    }

    async fn fund(&self) {
        let mint = OpenMint::mintCall { to: self.address, value: U256::from(10_000 * USDC) };
        self.world.send(self.world.contract_of(&self.world.usdc), mint).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_server_signs_a_swap_within_its_own_policy() {
    let wallet = Wallet::new().await;
    let session = wallet.session().await;
    session.fund().await;
    let permit2 = session.world.contract(KnownContract::Permit2);
    let router = session.world.contract(KnownContract::UniversalRouterV210);
    // The token's approval is a call of the token, which this policy does not allow.
    wallet.server.enforce(ServerPolicy { targets: vec![router], verifiers: vec![permit2] });
    let before = session.state().await;
    let refused = session.swap("100").await;
    let error = refused.error.clone().unwrap();
    assert_eq!((refused.status, error.code()), (CallStatus::Blocked, ErrorCode::WalletServerRefused), "{refused:#?}");
    assert!(error.message().to_string().contains("policy_violation"), "{}", error.message());
    assert_eq!((session.state().await, wallet.server.signed()), (before, 1), "nothing but the statement was signed");

    let usdc = session.world.contract_of(&session.world.usdc);
    wallet.server.enforce(ServerPolicy { targets: vec![router, usdc], verifiers: vec![permit2] });
    wallet.server.asked();
    let done = session.swap("100").await;
    assert_eq!(done.status, CallStatus::Success, "{done:#?}");
    let after = session.state().await;
    assert_eq!(before.0 - after.0, U256::from(100 * USDC));
    assert!(after.1 > before.1 && after.2 == before.2 + 2, "{before:?} {after:?}");
    assert_eq!(wallet.server.asked(), ["eth_signTransaction", "eth_signTypedData_v4", "eth_signTransaction"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_server_that_fails_or_lies_moves_nothing() {
    let wallet = Wallet::new().await;
    wallet.session().await.fund().await;
    let unclear = ErrorCode::WalletServerUnclear;
    for (mode, code) in [
        (ServerMode::Overloaded, ErrorCode::WalletServerUnavailable),
        (ServerMode::Redirect, ErrorCode::WalletServerUnavailable),
        (ServerMode::Echo, ErrorCode::WalletServerRefused),
        (ServerMode::Broken, unclear),
        (ServerMode::HangUp, unclear),
        (ServerMode::Garbage, unclear),
        (ServerMode::Endless, unclear),
        (ServerMode::OtherMethod, unclear),
        (ServerMode::OtherKey, unclear),
        (ServerMode::HighS, unclear),
        (ServerMode::OtherTarget, unclear),
        (ServerMode::OtherValue, unclear),
        (ServerMode::OtherNonce, unclear),
        (ServerMode::OtherChain, unclear),
        (ServerMode::OtherFees, unclear),
        (ServerMode::OtherCalldata, unclear),
        (ServerMode::AccessList, unclear),
    ] {
        // Each with a ledger of its own, because what may have been signed counts.
        let session = wallet.session().await;
        let before = session.state().await;
        wallet.server.behave(mode);
        let response = session.swap("100").await;
        let printed = format!("{response:?}");
        assert!(!printed.contains(SECRET) && !printed.contains("canary"), "{mode:?}: {printed}");
        assert_eq!(response.error.as_ref().map(ToolError::code), Some(code), "{mode:?}: {printed}");
        assert_ne!(response.status, CallStatus::Success, "{mode:?}: {printed}");
        assert_eq!(printed.contains("it may have signed"), code == unclear, "{mode:?}: {printed}");
        assert_eq!(session.state().await, before, "{mode:?}");
    }
    // A message over another amount is returned after the token's approval, which is then revoked.
    let session = wallet.session().await;
    let before = session.state().await;
    wallet.server.behave(ServerMode::OtherMessage);
    let response = session.swap("100").await;
    let after = session.state().await;
    assert_eq!((after.0, after.1, after.2), (before.0, before.1, before.2 + 2), "{response:#?}");
    assert!(format!("{response:?}").contains("not by the account over the message"), "{response:#?}");
    // The account is not locked: the next transaction takes the nonce that an unclear answer left, in the same ledger.
    wallet.server.behave(ServerMode::Broken);
    let response = session.swap("100").await;
    assert_eq!(response.error.as_ref().map(ToolError::code), Some(unclear), "{response:#?}");
    wallet.server.behave(ServerMode::Honest);
    let done = session.swap("100").await;
    assert_eq!(done.status, CallStatus::Success, "{done:#?}");
    assert_eq!(before.0 - session.state().await.0, U256::from(100 * USDC));
}

/// A wallet server signs the same as a key file: the account is the sender, the payer and the owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_server_signs_every_kind_of_transaction() {
    let wallet = Wallet::new().await;
    // A transfer to a new recipient, for example, needs the operator.
    let session = wallet.session_approving(ApprovalMode::Always).await;
    session.fund().await;
    let permit2 = session.world.contract(KnownContract::Permit2).to_string();
    let mut position = String::new();
    for (tool, params) in [
        ("wrap_native", json!({"amount": "0.2"})),
        ("unwrap_native", json!({"amount": "0.05"})),
        ("token_approve", json!({"token": "USDC", "spender": permit2, "amount": "5"})),
        ("token_revoke", json!({"token": "USDC", "spender": permit2})),
        ("wallet_transfer_token", json!({"token": "USDC", "amount": "1", "recipient": Address::repeat_byte(0x77)})),
        ("lending_supply", json!({"token": "USDC", "amount": "500"})),
        ("lending_withdraw", json!({"token": "USDC", "amount": "max"})),
        (
            "add_liquidity",
            json!({"token_a": "WETH", "token_b": "USDC", "amount_a": "0.1", "fee_tier": 3000, "width_pct": "10"}),
        ),
        ("close_position", json!({})),
    ] {
        let mut params = params;
        params["chain"] = json!("ethereum");
        if tool == "close_position" {
            params["position_id"] = json!(position);
        }
        let done = session.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await;
        assert_eq!(done.status, CallStatus::Success, "{tool}: {done:#?}");
        let hints = done.decision_hints.as_ref().unwrap();
        assert_eq!((&hints["mismatches"], &hints["state"]), (&json!([]), &json!("done")), "{tool}: {hints:#}");
        if tool == "add_liquidity" {
            position = done.data.unwrap()["position_id"].as_str().unwrap().to_owned();
        }
    }
    assert_eq!(session.state().await.2 + 1, wallet.server.signed() as u64, "each signature but the statement was sent");
}
