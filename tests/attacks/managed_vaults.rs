//! Asynchronous vaults that cheat their depositors, and vaults of the account's own whose management is bent: a vault that turns, a
//! role that is only claimed, a factory with another code, a valuation of what is not there, and a vault that changes between
//! preview and commit.

use std::sync::LazyLock;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::providers::Provider as _;
use alloy::sol_types::{SolCall, SolValue as _};
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::erc7540::{LagoonFactory, LagoonInit};
use bardo::base::error::ErrorCode;
use bardo::base::fabric::CheckReason;
use bardo::base::model::CapabilityTier;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::SenderRules;
use bardo::chain::token;
use bardo::safety::approval::Consent;
use bardo::safety::proposal::{Inflow, LegPurpose, Outflow, Proposal, ProposalIntent};
use bardo::sandbox::Sandbox;
use bardo::sandbox::contracts::BundledContract;
use bardo::sandbox::keys::DevnetAccount;

use bardo_testkit::harness::{TestHarness, leg, sandbox};

const STRANGER: Address = Address::repeat_byte(0x5a);

/// Devnet of these tests alone: one of them changes the factory's code.
static OWN: LazyLock<Sandbox> = LazyLock::new(|| sandbox(61));

alloy::sol! {
    /// Written here from the published interfaces, apart from the code under test.
    interface Managed {
        function deposit(uint256 assets, address receiver) external returns (uint256 shares);
        function requestDeposit(uint256 assets, address controller, address owner) external returns (uint256);
        function requestRedeem(uint256 shares, address controller, address owner) external returns (uint256);
        function updateNewTotalAssets(uint256 newTotalAssets) external;
        function settleDeposit(uint256 newTotalAssets) external;
        function pause() external;
        function unpause() external;
    }
}

fn usdc(whole: u64) -> U256 {
    U256::from(whole) * U256::from(1_000_000)
}

async fn world(account: usize) -> TestHarness {
    TestHarness::over(&OWN, account, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await
}

/// Parameters of a vault in which the account is everything.
fn own(me: Address, asset: Address) -> LagoonInit {
    LagoonInit {
        underlying: asset,
        name: "V".to_owned(),
        symbol: "V".to_owned(),
        safe: me,
        whitelistManager: me,
        valuationManager: me,
        admin: me,
        feeReceiver: me,
        managementRate: 0,
        performanceRate: 0,
        enableWhitelist: false,
        rateUpdateCooldown: U256::ZERO,
    }
}

/// Vault of the account's own that the factory made outside of Bardo.
async fn made(world: &TestHarness, salt: u8) -> Address {
    let (me, factory) = (world.account(), world.contract(KnownContract::AsyncVaultFactory));
    let create = LagoonFactory::createVaultProxyCall {
        logic: Address::ZERO,
        initialOwner: me,
        initialDelay: U256::from(86_400),
        init: own(me, world.contract_of(&world.usdc)),
        salt: B256::repeat_byte(salt),
    };
    let request =
        alloy::rpc::types::TransactionRequest::default().from(me).to(factory).input(create.abi_encode().into());
    let made = world.client.provider().call(request).await.unwrap();
    let mut transaction = bardo_testkit::outside::call(world.nonce().await, factory, create);
    transaction.gas_limit = 8_000_000;
    let raw = world.wallet.sign_outside(transaction);
    let sent = world.client.provider().send_raw_transaction(&raw).await.unwrap();
    assert!(sent.get_receipt().await.unwrap().status());
    Address::abi_decode(&made).unwrap()
}

/// The same vault by its creation code alone: its answers are the same, but no factory knows it.
async fn claimed(world: &TestHarness) -> Address {
    let init = (own(world.account(), world.contract_of(&world.usdc)),).abi_encode_params();
    world.deploy(BundledContract::AsyncVault.creation(&init).unwrap()).await
}

fn managing(world: &TestHarness, to: Address, call: impl SolCall) -> Proposal {
    let proposal = world
        .proposal(ProposalIntent::VaultManagement, vec![leg(LegPurpose::Main, to, Bytes::from(call.abi_encode()))]);
    Proposal { recipients: vec![world.account()], ..proposal }
}

async fn broken(world: &TestHarness, proposal: Proposal) -> Vec<String> {
    world.refused(proposal).await.1.into_iter().collect()
}

async fn asks(world: &TestHarness, proposal: Proposal, reason: CheckReason) -> bool {
    let preview = world.preview(proposal).await.unwrap();
    preview.verdicts.iter().any(|verdict| verdict.asks.contains(&reason))
}

/// A request by a depositor outside of Bardo.
async fn requested(world: &TestHarness, vault: Address, assets: U256) {
    let trader = DevnetAccount::inhabitant("first trader").unwrap();
    let (me, token) = (trader.address(), world.contract_of(&world.usdc));
    world.send_by(&trader, token, OpenMint::mintCall { to: me, value: assets }).await;
    world.send_by(&trader, token, Erc20::approveCall { spender: vault, value: assets }).await;
    world.send_by(&trader, vault, Managed::requestDepositCall { assets, controller: me, owner: me }).await;
}

/// A vault that paid at once when the account came, and now takes requests: it gets the shares for whatever its manager says later.
/// The shares are those of before, in the same storage.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_that_begins_to_take_requests_gets_no_shares_unasked() {
    let world = world(5).await;
    let (me, asset) = (world.account(), world.contract_of(&world.usdc));
    let arguments = (asset, "Plain".to_owned(), "pV".to_owned()).abi_encode_params();
    let vault = world.deploy(BundledContract::PlainVault.creation(&arguments).unwrap()).await;
    world.send(asset, Erc20::approveCall { spender: vault, value: usdc(200) }).await;
    world.send(vault, Managed::depositCall { assets: usdc(200), receiver: me }).await;
    let other = claimed(&world).await;
    let code = world.client.provider().get_code_at(other).await.unwrap();
    // It keeps what is requested in a contract of its own, as the one that it looks like.
    let (from, to) = (other.create(1), vault.create(1));
    let mut code = code.to_vec();
    let places: Vec<usize> = (0..code.len() - 20).filter(|at| code[*at..*at + 20] == from.0[..]).collect();
    assert!(!places.is_empty());
    for at in places {
        code[at..at + 20].copy_from_slice(to.as_slice());
    }
    let code = Bytes::from(code);
    let turn = OWN.chains()[0].devnet.run(move |chain| chain.set_code(vault, code));
    turn.await.unwrap().unwrap();
    let share = token::read(&[vault], world.client.network(), world.client.agreed()).await.unwrap();
    let share = share.into_iter().next().unwrap().unwrap();
    let shares = usdc(100);
    let request = || {
        let call = Managed::requestRedeemCall { shares, controller: me, owner: me };
        let main = leg(LegPurpose::Main, vault, call.abi_encode().into());
        Proposal {
            outflows: vec![Outflow { token: share.clone(), amount: shares }],
            recipients: vec![me],
            ..world.proposal(ProposalIntent::Vault, vec![main])
        }
    };
    assert!(asks(&world, request(), CheckReason::NewlyAsynchronous).await, "it turned just now");
    for _ in 0..100 {
        world.send(asset, OpenMint::mintCall { to: STRANGER, value: U256::ONE }).await;
    }
    assert!(!asks(&world, request(), CheckReason::NewlyAsynchronous).await, "it has taken requests for 100 blocks");
    assert!(!asks(&world, request(), CheckReason::SharePriceFell).await);
}

/// A call that manages a vault is declared as that and does nothing else, and no other form is signed.
#[tokio::test(flavor = "multi_thread")]
async fn a_management_call_is_nothing_else() {
    let world = world(6).await;
    let vault = made(&world, 1).await;
    let value = || managing(&world, vault, Managed::updateNewTotalAssetsCall { newTotalAssets: U256::ZERO });
    let previewed = world.preview(value()).await;
    assert!(previewed.is_ok(), "{previewed:?}");
    let (me, token) = (world.account(), world.usdc.clone());
    let inflow = Inflow { token: token.clone(), at_least: U256::ONE, expected: U256::ONE, recipient: me };
    let bent = [
        Proposal { intent: ProposalIntent::Vault, ..value() },
        Proposal { recipients: vec![STRANGER], ..value() },
        Proposal { outflows: vec![Outflow { token, amount: U256::ONE }], ..value() },
        Proposal { inflows: vec![inflow], ..value() },
        // Only a privileged tool pauses and resumes.
        managing(&world, vault, Managed::pauseCall {}),
        managing(&world, vault, Managed::unpauseCall {}),
        managing(&world, vault, Erc20::transferCall { to: STRANGER, value: U256::ONE }),
    ];
    for (at, proposal) in bent.into_iter().enumerate() {
        let rules = broken(&world, proposal).await;
        assert!(rules.contains(&"calldata".to_owned()), "{at}: {rules:?}");
    }
}

/// A contract answers that the account is its Safe and its manager, and has the code for it; but nobody vouches for the code.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_is_claimed_is_not_enough() {
    let world = world(7).await;
    let value = |vault| managing(&world, vault, Managed::updateNewTotalAssetsCall { newTotalAssets: U256::ZERO });
    let previewed = world.preview(value(made(&world, 2).await)).await;
    assert!(previewed.is_ok(), "{previewed:?}");
    assert_eq!(broken(&world, value(claimed(&world).await)).await, ["calldata"]);
    // The devnet's own vault is somebody else's.
    let foreign = world.contract(KnownContract::AsyncVault);
    let rules = broken(&world, value(foreign)).await;
    assert!(rules.contains(&"calldata".to_owned()), "{rules:?}");
}

/// The factory of the address book has another code, which could make any vault.
#[tokio::test(flavor = "multi_thread")]
async fn a_factory_with_another_code_deploys_nothing() {
    let world = world(8).await;
    let (me, factory) = (world.account(), world.contract(KnownContract::AsyncVaultFactory));
    let deploy = || {
        let create = LagoonFactory::createVaultProxyCall {
            logic: Address::ZERO,
            initialOwner: me,
            initialDelay: U256::from(86_400),
            init: own(me, world.contract_of(&world.usdc)),
            salt: B256::repeat_byte(9),
        };
        let mut proposal = managing(&world, factory, create);
        proposal.tool.capability = CapabilityTier::Privileged;
        proposal.legs[0].gas_limit = 8_000_000;
        proposal
    };
    let previewed = world.preview(deploy()).await;
    assert!(previewed.is_ok(), "{previewed:?}");
    let code = world.client.provider().get_code_at(factory).await.unwrap();
    // The same code with one more byte, which nothing ever executes.
    let changed = Bytes::from([code.as_ref(), &[0]].concat());
    let devnet = OWN.chains()[0].devnet.clone();
    devnet.run(move |chain| chain.set_code(factory, changed)).await.unwrap().unwrap();
    let rules = broken(&world, deploy()).await;
    devnet.run(move |chain| chain.set_code(factory, code)).await.unwrap().unwrap();
    assert_eq!(rules, ["calldata"]);
}

/// A valuation of more than the Safe holds would pay those who leave with the others' money; one that jumps is the operator's decision.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_is_not_settled_at_a_false_valuation() {
    let world = world(4).await;
    let vault = made(&world, 3).await;
    let asset = world.contract_of(&world.usdc);
    requested(&world, vault, usdc(1_000)).await;
    world.send(vault, Managed::updateNewTotalAssetsCall { newTotalAssets: U256::ZERO }).await;
    world.send(vault, Managed::settleDepositCall { newTotalAssets: U256::ZERO }).await;
    let held = world.ask(asset, Erc20::balanceOfCall { owner: world.account() }).await;
    let value = |total| managing(&world, vault, Managed::updateNewTotalAssetsCall { newTotalAssets: total });
    assert_eq!(broken(&world, value(held + U256::ONE)).await, ["vault_valuation"]);
    assert!(asks(&world, value(held), CheckReason::ValuedHigh).await);
    assert!(!asks(&world, value(usdc(1_000)), CheckReason::ValuedHigh).await);
}

/// An agent that is in league with a depositor raises the valuation by less than 1 % at a time: without interest that explains it,
/// each such step is the operator's decision.
#[tokio::test(flavor = "multi_thread")]
async fn a_valuation_does_not_creep_up_unasked() {
    let world = world(2).await;
    let vault = made(&world, 5).await;
    requested(&world, vault, usdc(1_000)).await;
    world.send(vault, Managed::updateNewTotalAssetsCall { newTotalAssets: U256::ZERO }).await;
    world.send(vault, Managed::settleDepositCall { newTotalAssets: U256::ZERO }).await;
    let value = |total| managing(&world, vault, Managed::updateNewTotalAssetsCall { newTotalAssets: total });
    assert!(!asks(&world, value(usdc(1_000)), CheckReason::ValuedHigh).await);
    let mut total = usdc(1_000);
    for _ in 0..3 {
        // By 0.9 %. Nothing is supplied to the lending market.
        total += total * U256::from(9) / U256::from(1_000);
        assert!(asks(&world, value(total), CheckReason::ValuedHigh).await, "{total}");
        world.send(vault, Managed::updateNewTotalAssetsCall { newTotalAssets: total }).await;
        world.send(vault, Managed::settleDepositCall { newTotalAssets: total }).await;
    }
}

/// Between preview and commit, the vault is valued at something else: the settlement that was shown is not the one that would be
/// signed, and nothing is.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_that_changes_between_preview_and_commit_is_not_settled() {
    let world = world(3).await;
    let vault = made(&world, 4).await;
    requested(&world, vault, usdc(500)).await;
    world.send(vault, Managed::updateNewTotalAssetsCall { newTotalAssets: U256::ZERO }).await;
    let settle = Proposal {
        inflows: vec![Inflow {
            token: world.usdc.clone(),
            at_least: usdc(500),
            expected: usdc(500),
            recipient: world.account(),
        }],
        ..managing(&world, vault, Managed::settleDepositCall { newTotalAssets: U256::ZERO })
    };
    let preview = world.preview(settle).await.unwrap();
    world.send(vault, Managed::updateNewTotalAssetsCall { newTotalAssets: usdc(7) }).await;
    let before = world.nonce().await;
    let refused = world.pipeline.commit(preview.permit.permit_id, Consent::Always).await.map(|_| ());
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, ErrorCode::PermitMismatch, "{refused:?}");
    assert_eq!(world.nonce().await, before);
}
