//! Vault tools compared with the contracts' own answers, and vaults that cheat.

use std::sync::LazyLock;

use alloy::primitives::{Address, TxKind, U256};
use alloy::sol_types::SolValue as _;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use super::{ToolHarness, harness_on};
use bardo_abi::erc20::{Erc20, OpenMint};
use bardo_base::error::ErrorCode;
use bardo_base::units::TokenAmount;
use bardo_sandbox::Sandbox;
use bardo_sandbox::contracts::BundledContract;

alloy::sol! {
    /// Written here from the standard, apart from the code under test.
    interface Standard {
        event Deposit(address indexed sender, address indexed owner, uint256 assets, uint256 shares);
        function deposit(uint256 assets, address receiver) external returns (uint256 shares);
        function redeem(uint256 shares, address receiver, address owner) external returns (uint256 assets);
        function totalAssets() external view returns (uint256);
        function totalSupply() external view returns (uint256);
        function convertToAssets(uint256 shares) external view returns (uint256);
        function previewDeposit(uint256 assets) external view returns (uint256);
        function previewRedeem(uint256 shares) external view returns (uint256);
        function balanceOf(address owner) external view returns (uint256);
    }
}

/// Devnet of these tests alone, because they count blocks.
static CHAIN: LazyLock<Sandbox> = LazyLock::new(super::sandbox);

/// One test at a time, because they share an account.
static ALONE: Mutex<()> = Mutex::const_new(());

async fn alone(account: usize) -> (ToolHarness, MutexGuard<'static, ()>) {
    let guard = ALONE.lock().await;
    (harness_on(&CHAIN, Some(account)), guard)
}

/// Account that deploys and attacks.
const OTHER: usize = 9;
const DOLLAR: u64 = 1_000_000;

fn usdc(whole: u64) -> U256 {
    U256::from(whole) * U256::from(DOLLAR)
}

fn raw(text: &Value) -> U256 {
    TokenAmount::parse(text.as_str().unwrap_or_else(|| panic!("{text}")), 6).unwrap().raw()
}

impl ToolHarness {
    async fn vault(&self, contract: BundledContract, arguments: Vec<u8>) -> Address {
        let code = contract.code().unwrap();
        self.transact(OTHER, TxKind::Create, [code.as_ref(), &arguments].concat()).await.unwrap()
    }

    async fn plain(&self) -> Address {
        let names = ("Plain".to_owned(), "pV".to_owned());
        self.vault(BundledContract::PlainVault, (self.token("USDC"), names.0, names.1).abi_encode_params()).await
    }

    async fn give(&self, to: Address, value: U256) {
        self.send(OTHER, self.token("USDC"), OpenMint::mintCall { to, value }).await;
    }

    async fn put(&self, account: usize, vault: Address, assets: U256) {
        let owner = CHAIN.accounts()[account];
        self.give(owner, assets).await;
        self.send(account, self.token("USDC"), Erc20::approveCall { spender: vault, value: assets }).await;
        self.send(account, vault, Standard::depositCall { assets, receiver: owner }).await;
    }

    async fn try_deposit(&self, vault: Address, amount: &str) -> Value {
        let params = json!({"vault_address": vault, "amount": amount, "chain": "ethereum"});
        self.data("vault_simulate_deposit", params).await
    }

    async fn try_withdraw(&self, vault: Address, shares: &str) -> Value {
        let params = json!({"vault_address": vault, "shares": shares, "chain": "ethereum"});
        self.data("vault_simulate_withdraw", params).await
    }

    async fn vault_state(&self, vault: Address) -> Value {
        self.data("get_vault_state", json!({"vault_address": vault, "chain": "ethereum"})).await
    }
}

fn kinds(data: &Value) -> Vec<&str> {
    data["findings"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect()
}

fn finding<'a>(data: &'a Value, kind: &str) -> &'a Value {
    let all = data["findings"].as_array().unwrap();
    all.iter().find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {data:#}"))
}

/// The simulated deposit and withdrawal are then made, and the contract's own balances compared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_vault_gives_what_is_simulated() {
    const ACCOUNT: usize = 7;
    let (harness, _guard) = alone(ACCOUNT).await;
    let me = CHAIN.accounts()[ACCOUNT];
    let vault = harness.plain().await;
    harness.put(OTHER, vault, usdc(3_000)).await;
    // Earnings of a third, long ago: a share is worth 1.333333 from then on.
    harness.give(vault, usdc(1_000)).await;
    harness.give(me, usdc(1_000)).await;
    let state = harness.vault_state(vault).await;
    assert_eq!((&state["asset"], &state["total_assets"]), (&json!("USDC"), &json!("4000")));
    let one = harness.ask(vault, Standard::convertToAssetsCall { shares: usdc(1) }).await;
    assert_eq!(raw(&state["share_price"]), one);
    assert_eq!(kinds(&state), Vec::<&str>::new(), "the donation is older than the last block: {state:#}");
    assert_eq!((&state["shares"], &state["max_deposit"]), (&json!("0"), &Value::Null));

    let tried = harness.try_deposit(vault, "750").await;
    assert_eq!(kinds(&tried), Vec::<&str>::new(), "{tried:#}");
    let preview = harness.ask(vault, Standard::previewDepositCall { assets: usdc(750) }).await;
    assert_eq!((raw(&tried["shares_previewed"]), raw(&tried["shares_received"])), (preview, preview));
    assert!(usdc(750) - raw(&tried["returned"]) <= U256::from(2), "rounding only: {tried:#}");
    harness.send(ACCOUNT, harness.token("USDC"), Erc20::approveCall { spender: vault, value: usdc(750) }).await;
    harness.send(ACCOUNT, vault, Standard::depositCall { assets: usdc(750), receiver: me }).await;
    let shares = harness.ask(vault, Standard::balanceOfCall { owner: me }).await;
    assert_eq!(shares, raw(&tried["shares_received"]), "as simulated");

    let state = harness.vault_state(vault).await;
    let pays = harness.ask(vault, Standard::previewRedeemCall { shares }).await;
    assert_eq!((raw(&state["shares"]), raw(&state["redeems_for"])), (shares, pays));
    let tried = harness.try_withdraw(vault, "max").await;
    assert_eq!((kinds(&tried), raw(&tried["received"])), (vec![], pays));
    let before = harness.ask(harness.token("USDC"), Erc20::balanceOfCall { owner: me }).await;
    harness.send(ACCOUNT, vault, Standard::redeemCall { shares, receiver: me, owner: me }).await;
    let after = harness.ask(harness.token("USDC"), Erc20::balanceOfCall { owner: me }).await;
    assert_eq!(after - before, pays, "as simulated");
    let params = json!({"vault_address": vault, "shares": "max", "chain": "ethereum"});
    assert_eq!(harness.code("vault_simulate_withdraw", params).await.1, ErrorCode::ValidationFailed, "no shares left");
}

/// The first depositor holds one unit of a share and donates: by OpenZeppelin's formula 100e6 · (1 + 1) / (10,000e6 + 1 + 1)
/// is less than one, so the next depositor of $100 would get nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inflation_attack_is_named() {
    const ACCOUNT: usize = 6;
    let (harness, _guard) = alone(ACCOUNT).await;
    let vault = harness.plain().await;
    harness.put(OTHER, vault, U256::from(1)).await;
    harness.give(CHAIN.accounts()[ACCOUNT], usdc(100)).await;
    harness.give(vault, usdc(10_000)).await;
    let tried = harness.try_deposit(vault, "100").await;
    assert_eq!(kinds(&tried), ["price_jump", "few_shares", "no_shares"], "{tried:#}");
    assert_eq!((&tried["shares_received"], &tried["returned"]), (&json!("0"), &Value::Null));
    let state = harness.vault_state(vault).await;
    assert_eq!(kinds(&state), ["price_jump", "few_shares"], "{state:#}");
    assert_eq!(finding(&state, "few_shares")["shares"], "0.000001");
    let newest = state["block_number"].as_u64().unwrap();
    assert_eq!(finding(&state, "price_jump")["since_block"], newest - 1, "the donation was the last block");
}

/// Five percent of the shares go to a collector; the preview says nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hidden_fee_on_entry_is_named() {
    const ACCOUNT: usize = 5;
    let (harness, _guard) = alone(ACCOUNT).await;
    let arguments = (harness.token("USDC"), CHAIN.accounts()[OTHER], U256::from(500)).abi_encode_params();
    let vault = harness.vault(BundledContract::HiddenFeeVault, arguments).await;
    harness.give(CHAIN.accounts()[ACCOUNT], usdc(400)).await;
    let tried = harness.try_deposit(vault, "400").await;
    // By hand: 400 shares less 20.
    assert_eq!((&tried["shares_previewed"], &tried["shares_received"]), (&json!("400"), &json!("380")));
    assert_eq!((raw(&tried["returned"]), kinds(&tried)), (usdc(380), vec!["preview_too_high", "round_trip_cost"]));
    assert_eq!(finding(&tried, "preview_too_high")["less_pct"], "5");
    assert_eq!(finding(&tried, "round_trip_cost")["cost_pct"], "5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vault_that_pays_nothing_out_is_named_before_and_after_a_deposit() {
    const ACCOUNT: usize = 4;
    let (harness, _guard) = alone(ACCOUNT).await;
    let vault = harness.vault(BundledContract::LockedVault, harness.token("USDC").abi_encode()).await;
    harness.give(CHAIN.accounts()[ACCOUNT], usdc(50)).await;
    let tried = harness.try_deposit(vault, "50").await;
    assert_eq!(kinds(&tried), ["withdrawal_fails"], "{tried:#}");
    assert_eq!((&tried["shares_received"], &tried["returned"]), (&json!("50"), &Value::Null));
    harness.put(ACCOUNT, vault, usdc(50)).await;
    let state = harness.vault_state(vault).await;
    assert_eq!(state["redeems_for"], "50", "its own words");
    let tried = harness.try_withdraw(vault, "max").await;
    assert_eq!((kinds(&tried), &tried["previewed"]), (vec!["withdrawal_fails"], &json!("50")), "{tried:#}");
    assert_eq!(tried["received"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_named_and_an_account_is_no_vault() {
    const ACCOUNT: usize = 3;
    let (harness, _guard) = alone(ACCOUNT).await;
    let arguments = (harness.token("USDC"), usdc(1_000)).abi_encode_params();
    let vault = harness.vault(BundledContract::CappedVault, arguments).await;
    harness.put(OTHER, vault, usdc(900)).await;
    harness.give(CHAIN.accounts()[ACCOUNT], usdc(300)).await;
    assert_eq!(harness.vault_state(vault).await["max_deposit"], "100");
    let tried = harness.try_deposit(vault, "101").await;
    assert_eq!(kinds(&tried), ["over_limit", "deposit_fails"], "{tried:#}");
    assert_eq!(finding(&tried, "over_limit")["limit"], "100");
    assert_eq!(kinds(&harness.try_deposit(vault, "100").await), Vec::<&str>::new());
    for not_a_vault in [CHAIN.accounts()[2], harness.token("USDC")] {
        let params = json!({"vault_address": not_a_vault, "amount": "1", "chain": "ethereum"});
        assert_eq!(harness.code("vault_simulate_deposit", params).await.1, ErrorCode::ValidationFailed);
    }
    let params = json!({"vault_address": vault, "amount": "999999999", "chain": "ethereum"});
    assert_eq!(harness.code("vault_simulate_deposit", params).await.1, ErrorCode::InsufficientBalance);
}
