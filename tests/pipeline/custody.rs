//! Every tool that signs under every kind of custody: each cell of the table in the operator's guide is run here on the
//! devnet, refused with that very code, or named as not run. A tool without a row fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy::primitives::{Address, U256, address};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;
use bardo::abi::erc20::OpenMint;
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::id::GolemId;
use bardo::base::model::Phase;
use bardo::base::secret::Password;
use bardo::chain::devnet::Chain;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::price::PriceChain;
use bardo::chain::sender::SenderRules;
use bardo::custody::delegated::{CallLimit, DelegationGrant, DelegationLimits, DraftBounds};
use bardo::custody::{DelegatedAccount, KeyName, Keystore, LedgerId, SecretKey, SessionKeeper};
use bardo::engine::{
    self, ApprovalMode, CallStatus, Catalog, ConnectedChain, Executor, ExecutorConfig, ToolCall, ToolInput, WriteAccess,
};
use bardo::fabric::Fabric;
use bardo::safety::Account;
use bardo::sandbox::Sandbox;
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::delegated::{become_a_delegator, record_of};
use super::embedded::Wallet;
use bardo_testkit::harness::{TestHarness, sandbox};
use bardo_testkit::safe::TestSafe;

/// Kind of custody, in the order of the table's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Custody {
    KeyFile,
    WalletServer,
    SessionKey,
    Safe,
}

/// The table's rows: what each column says of a tool.
const ROWS: &[(&str, [&str; 4])] = &[
    ("add_liquidity", ["runs"; 4]),
    ("claim_fees", ["runs"; 4]),
    ("close_position", ["runs"; 4]),
    ("execute_burn", ["runs"; 4]),
    ("hook_deploy", ["runs"; 4]),
    ("identity_register_agent", ["runs"; 4]),
    ("identity_submit_feedback", ["runs"; 4]),
    ("identity_transfer_ownership", ["runs"; 4]),
    ("identity_update_metadata", ["runs"; 4]),
    ("identity_verify_agent", ["runs"; 4]),
    ("increase_liquidity", ["runs"; 4]),
    ("lending_borrow", ["runs"; 4]),
    ("lending_repay", ["runs"; 4]),
    ("lending_supply", ["runs"; 4]),
    ("lending_withdraw", ["runs"; 4]),
    ("remove_liquidity", ["runs"; 4]),
    ("token_approve", ["runs"; 4]),
    ("token_revoke", ["runs"; 4]),
    ("uniswap_execute_swap", ["runs"; 4]),
    ("unwrap_native", ["runs"; 4]),
    ("vault_deposit", ["runs"; 4]),
    ("vault_withdraw", ["runs"; 4]),
    ("wallet_transfer_token", ["runs"; 4]),
    ("wrap_native", ["runs"; 4]),
    // Tools that need a service, a resident or a past of the account.
    ("across_deposit", ["not run"; 4]),
    ("cancel_transaction", ["not run"; 4]),
    ("collect_fees", ["not run"; 4]),
    ("compound_fees", ["not run"; 4]),
    ("intent_refund", ["not run"; 4]),
    ("migrate_position", ["not run"; 4]),
    ("rebalance_position", ["not run"; 4]),
    ("speed_up_transaction", ["not run"; 4]),
    ("uniswap_place_limit_order", ["not run"; 4]),
    ("uniswap_submit_cross_chain_intent", ["not run"; 4]),
    ("uniswap_submit_uniswapx_order", ["not run"; 4]),
    ("uniswapx_cancel_order", ["not run"; 4]),
    ("vault_cancel_request", ["not run"; 4]),
    ("vault_claim", ["not run"; 4]),
    ("vault_deploy", ["not run"; 4]),
    ("vault_harvest", ["not run"; 4]),
    ("vault_pause", ["not run"; 4]),
    ("vault_rebalance", ["not run"; 4]),
    ("vault_resume", ["not run"; 4]),
    ("vault_set_cap", ["not run"; 4]),
    ("vault_settle", ["not run"; 4]),
    ("vault_teardown", ["not run"; 4]),
];

/// An account of one kind, with ten thousand USDC and native tokens.
struct Acting {
    executor: Executor,
    permit2: String,
    _world: TestHarness,
    _phase: watch::Sender<Phase>,
    _folder: tempfile::TempDir,
    _wallet: Option<Wallet>,
}

impl Acting {
    async fn of(custody: Custody) -> Self {
        let wallet = match custody {
            Custody::WalletServer => Some(Wallet::new().await),
            Custody::KeyFile | Custody::SessionKey | Custody::Safe => None,
        };
        // A devnet of its own, with the protocol fees of its genesis: nobody else collects them.
        let sandbox: &'static Sandbox = Box::leak(Box::new(sandbox(12)));
        let world = TestHarness::in_step(sandbox, 0, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await;
        let folder = tempfile::tempdir().unwrap();
        let keys = Keystore::at(folder.path().join("keys"));
        let (name, ledger): (KeyName, LedgerId) = ("key".parse().unwrap(), "test".parse().unwrap());
        let password = Password::new("battery staple".to_owned());
        let made = keys.create(&name, &SecretKey::generate().unwrap(), &password, &ledger).unwrap();
        let key = keys.open(&name, &password, &ledger).unwrap();
        let owner = PrivateKeySigner::random();
        let coin = U256::from(10).pow(U256::from(19));
        let safe = match custody {
            Custody::Safe => Some(TestSafe::new(&world).await),
            Custody::KeyFile | Custody::WalletServer | Custody::SessionKey => None,
        };
        let address = match (custody, &wallet) {
            (Custody::SessionKey, _) => owner.address(),
            (Custody::Safe, _) => safe.as_ref().unwrap().address,
            (_, Some(wallet)) => wallet.address,
            (_, None) => made.address,
        };
        let paid = made.address;
        let fund = move |chain: &mut Chain| [address, paid].into_iter().for_each(|one| chain.set_balance(one, coin));
        sandbox.chains()[0].devnet.run(fund).await.unwrap();
        let mint = OpenMint::mintCall { to: address, value: U256::from(10_000_000_000_u64) };
        world.send(world.contract_of(&world.usdc), mint).await;
        let uni = world.client.network().book.tokens().iter().find(|token| token.symbol == "UNI").unwrap().address;
        world.send(uni, OpenMint::mintCall { to: address, value: coin }).await;
        let account: Arc<dyn Account> = match (custody, &wallet) {
            (Custody::Safe, _) => safe.as_ref().unwrap().account(&world).await,
            (Custody::SessionKey, _) => {
                become_a_delegator(&world, &owner).await;
                let grant = grant_of_everything(&world, &owner, made.address);
                let clock: Arc<dyn Clock> = Arc::new(SystemClock);
                let id = record_of(&world, &grant, key.queue_key_of(ledger.as_str(), address).unwrap(), None).await;
                let (store, client) = (world.store.clone(), world.client.clone());
                let keeper = SessionKeeper::new(id, ledger.as_str(), store, client, clock);
                Arc::new(DelegatedAccount::new(key, grant, keeper).unwrap())
            }
            (_, Some(wallet)) => Arc::new(wallet.account()),
            (_, None) => Arc::new(key),
        };
        let (phase, own) = watch::channel(Phase::Thriving);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let prices = PriceChain::for_chain(&world.client, &Default::default(), clock.clone()).unwrap();
        let chains = vec![ConnectedChain::new(world.client.clone(), prices)];
        let acting = WriteAccess {
            pipeline: world.pipeline.clone(),
            account,
            phase: own,
            // A transfer to a new recipient, for example, needs the operator.
            approve: ApprovalMode::Always,
            paper: engine::PaperMode::default(),
        };
        let executor = Executor::new(ExecutorConfig {
            catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(),
            world: Arc::new(engine::ToolEnvironment::new(clock.clone(), Some(address), chains, vec![])),
            fabric: Fabric::in_memory(1_000, clock),
            golem_id: GolemId::operator(),
            calls_per_minute: 1_000,
            hooks: vec![],
            store: None,
            acting: Some(acting),
        });
        let permit2 = world.contract(KnownContract::Permit2).to_string();
        Self { executor, permit2, _world: world, _phase: phase, _folder: folder, _wallet: wallet }
    }
}

/// Contract that deploys by CREATE2, at the same address on every chain.
const DEPLOYER: Address = address!("0x4e59b44847b379578588920cA78FbF26c0B4956C");

/// Delegation of calls of every contract that the address book names, except those that a session key never calls.
fn grant_of_everything(world: &TestHarness, owner: &PrivateKeySigner, session: Address) -> DelegationGrant {
    let network = world.client.network();
    let never = [KnownContract::DelegationManager, KnownContract::Eip7702Delegator]
        .map(|contract| network.book.contract(contract).unwrap());
    // The entry point of ERC-4337, at the same address on every chain.
    let entry_point = address!("0x0000000071727De22E5E9d8BAf0edAc6f37da032");
    let tokens = network.book.tokens().iter().map(|token| token.address);
    let all: BTreeSet<Address> = network.book.contracts().map(|(_, at)| at).chain(tokens).chain([DEPLOYER]).collect();
    let targets = all.into_iter().filter(|at| !never.contains(at) && *at != entry_point).take(64).collect();
    let limits = [CallLimit::Targets(targets), CallLimit::Time { after: 0, before: 4_102_444_800 }];
    let limits = DelegationLimits::new(limits.to_vec()).unwrap();
    let (mut delegation, digest) =
        DelegationGrant::draft(network, owner.address(), session, (&limits, DraftBounds::Waived), U256::from(3))
            .unwrap();
    delegation.signature = owner.sign_hash_sync(&digest).unwrap().as_bytes().into();
    DelegationGrant::read(network, delegation).unwrap()
}

/// The calls, in an order in which each finds what it needs. `@position` and `@agent` stand for what an earlier one made.
fn calls(permit2: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("wrap_native", json!({"amount": "2", "chain": "ethereum"})),
        ("unwrap_native", json!({"amount": "0.5", "chain": "ethereum"})),
        ("token_approve", json!({"token": "USDC", "spender": permit2, "amount": "5", "chain": "ethereum"})),
        ("token_revoke", json!({"token": "USDC", "spender": permit2, "chain": "ethereum"})),
        (
            "wallet_transfer_token",
            json!({"token": "USDC", "amount": "1", "recipient": Address::repeat_byte(0x78), "chain": "ethereum"}),
        ),
        (
            "uniswap_execute_swap",
            json!({"token_in": "USDC", "token_out": "WETH", "amount": "1000", "chain": "ethereum"}),
        ),
        ("claim_fees", json!({"chain": "ethereum"})),
        ("execute_burn", json!({"chain": "ethereum"})),
        ("lending_supply", json!({"token": "USDC", "amount": "2000", "chain": "ethereum"})),
        ("lending_borrow", json!({"token": "DAI", "amount": "200", "chain": "ethereum"})),
        ("lending_repay", json!({"token": "DAI", "amount": "150", "chain": "ethereum"})),
        ("lending_withdraw", json!({"token": "USDC", "amount": "500", "chain": "ethereum"})),
        (
            "add_liquidity",
            json!({
                "token_a": "WETH", "token_b": "USDC", "amount_a": "0.1", "fee_tier": 3000, "width_pct": "10",
                "chain": "ethereum",
            }),
        ),
        ("increase_liquidity", json!({"position_id": "@position", "amount0": "0.01", "chain": "ethereum"})),
        ("remove_liquidity", json!({"position_id": "@position", "share_pct": "50", "chain": "ethereum"})),
        ("close_position", json!({"position_id": "@position", "chain": "ethereum"})),
        ("vault_deposit", json!({"amount": "500", "chain": "ethereum"})),
        ("vault_withdraw", json!({"shares": "max", "chain": "ethereum"})),
        (
            "identity_register_agent",
            json!({"name": "Custody", "description": "Signs.", "chain_id": 31337, "registration": {}}),
        ),
        ("identity_update_metadata", json!({"agent_id": "@agent", "updates": {"active": false}})),
        (
            "identity_verify_agent",
            json!({
                "agent_id": "@agent", "method": "zkml",
                "proof": {
                    "validator": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "uri": "https://proofs.example/1.json",
                },
            }),
        ),
        (
            "identity_transfer_ownership",
            json!({"agent_id": "@agent", "new_owner": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"}),
        ),
        ("identity_submit_feedback", json!({"agent_id": "31337:0", "score": 450, "tag1": "reliable"})),
        ("hook_deploy", json!({"template": "counting", "chain": "ethereum"})),
    ]
}

/// Runs every call under one kind of custody, and returns what each cell is.
async fn column(custody: Custody) -> BTreeMap<&'static str, String> {
    let acting = Acting::of(custody).await;
    let (mut made, mut cells) = (BTreeMap::<&str, String>::new(), BTreeMap::new());
    for (tool, params) in calls(&acting.permit2) {
        let mut params = params;
        for (name, value) in params.as_object_mut().unwrap() {
            if let Some(known) = value.as_str().and_then(|text| made.get(text)) {
                assert!(name.ends_with("_id"), "{name}");
                *value = json!(known);
            }
        }
        let done = acting.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await;
        let cell = match &done.error {
            Some(error) => format!("refused: {} {}", error.code(), error.message()),
            None => {
                assert_eq!(done.status, CallStatus::Success, "{custody:?} {tool}: {done:#?}");
                let hints = done.decision_hints.as_ref().unwrap();
                assert_eq!((&hints["mismatches"], &hints["state"]), (&json!([]), &json!("done")), "{tool}: {hints:#}");
                "runs".to_owned()
            }
        };
        let data = done.data.unwrap_or_default();
        for (mark, field) in [("@position", "position_id"), ("@agent", "agent_id")] {
            if let Some(id) = data[field].as_str().filter(|_| !made.contains_key(mark)) {
                made.insert(mark, id.to_owned());
            }
        }
        cells.insert(tool, cell);
    }
    cells
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_that_signs_does_under_each_custody_what_the_table_says() {
    let mut columns = Vec::new();
    for custody in [Custody::KeyFile, Custody::WalletServer, Custody::SessionKey, Custody::Safe] {
        columns.push(column(custody).await);
    }
    let mut wrong = Vec::new();
    for (tool, row) in ROWS {
        for (column, cell) in columns.iter().zip(row) {
            let found = column.get(tool).map_or("not run", String::as_str);
            if found != *cell {
                wrong.push(format!("{tool}: {cell}, found {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operator.md")).unwrap();
    let lines: Vec<String> =
        ROWS.iter().map(|(tool, cells)| format!("| `{tool}` | {} |\n", cells.join(" | "))).collect();
    assert!(guide.contains(&lines.concat()), "the guide's table should be:\n{}", lines.concat());
    let signing: BTreeSet<&str> =
        ALL_TOOL_DEFS.iter().filter(|tool| tool.meta.signs()).map(|tool| tool.meta.name).collect();
    assert_eq!(ROWS.iter().map(|(tool, _)| *tool).collect::<BTreeSet<_>>(), signing, "the rows of the table");
}
