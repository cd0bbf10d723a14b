//! Wallets and policies that nobody decided about: agents that ask for them, unattended callers, a server that lies about
//! what it created, and more wallets than the limit.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bardo::base::clock::{Clock, SystemClock};
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::id::GolemId;
use bardo::chain::network::Network;
use bardo::chain::price::PriceChain;
use bardo::engine::{
    Catalog, ConnectedChain, Executor, ExecutorConfig, NewWallet, PolicyDraft, ProvisionedWallet, ToolCall,
    ToolEnvironment, ToolInput, WalletAdministration, WrittenPolicy,
};
use bardo::fabric::Fabric;
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::policy::{Policy, PolicyKeeper, PolicyPreset};
use bardo::safety::stop::StopFile;
use bardo::store::{Store, StoreConfig};
use bardo::tools::ALL_TOOL_DEFS;
use bardo_testkit::harness::TestHarness;
use bardo_testkit::wallet_server::{APP_ID, LocalWalletServer, SECRET, ServerMode, ServerPolicy, WALLET_ID};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::real_network::{ACCOUNT, PASSWORD, RealNetwork};

/// Password of new wallets, looked for in every file and output.
const CANARY: &str = "canary-5d1e-of-the-new-wallet";

fn parsed((out, err, code): (String, String, i32)) -> (Value, i32) {
    (serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")), code)
}

fn keys(home: &Path) -> Vec<String> {
    let files = std::fs::read_dir(home.join("data/keys")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> =
        files.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".json")).collect();
    names.sort();
    names
}

/// Every regular file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files(&entry.path())),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

fn holds(file: &Path, text: &str) -> bool {
    std::fs::read(file).unwrap().windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn a_sixth_wallet_within_an_hour_is_refused_and_no_secret_is_left_anywhere() {
    let network = RealNetwork::start(71);
    let home = tempfile::tempdir().unwrap();
    network.settle_in(home.path(), "");
    let provision = |params: &Value| {
        let params = params.to_string();
        let arguments = ["call", "wallet_provision", &params, "--password-fd", "3"];
        network.run_with(home.path(), &arguments, CANARY)
    };
    // Nobody is there to give a password.
    let (answer, code) = parsed(network.run_with(home.path(), &["call", "wallet_provision", "{}"], ""));
    assert_eq!((&answer["error"]["code"], code), (&json!("APPROVAL_REQUIRED"), 3), "{answer}");
    for refused in ["safe", "zerodev"] {
        let (answer, _) = parsed(provision(&json!({"provider": refused})));
        assert_eq!(answer["error"]["code"], "VALIDATION_FAILED", "{answer}");
    }
    // The configured account's key is in a file, so no server has a credential.
    let (answer, _) = parsed(provision(&json!({"provider": "privy"})));
    assert_eq!(answer["error"]["code"], "WALLET_NOT_CONFIGURED", "{answer}");
    let (answer, _) = parsed(provision(&json!({"label": "../main"})));
    assert_eq!(answer["error"]["code"], "VALIDATION_FAILED", "{answer}");
    let (answer, _) = parsed(provision(&json!({"label": "main"})));
    assert!(answer["error"]["message"].as_str().unwrap().contains("exists already"), "{answer}");
    assert_eq!(keys(home.path()), ["main.json"]);

    let mut outputs = String::new();
    for number in 1..=5 {
        let (out, err, code) = provision(&json!({"provider": "local"}));
        outputs.push_str(&out);
        outputs.push_str(&err);
        let (answer, _) = parsed((out, err, code));
        assert_eq!((answer["status"].as_str(), code), (Some("success"), 0), "{answer}");
        let data = &answer["data"];
        assert_eq!(data["label"], format!("wallet-{number}"));
        assert_eq!((&data["provider"], &data["account_type"]), (&json!("local"), &json!("eoa")));
        assert_eq!(data["native_balance"], "0");
        let file = home.path().join(format!("data/keys/wallet-{number}.json"));
        let stored: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let address = data["address"].as_str().unwrap().to_lowercase();
        assert!(address.ends_with(stored["address"].as_str().unwrap().trim_start_matches("0x")), "{stored}");
    }
    // Each call was a process of its own: the ledger counts.
    let (answer, code) = parsed(provision(&json!({})));
    assert_eq!((&answer["error"]["code"], code == 0), (&json!("SAFETY_RATE_LIMITED"), false), "{answer}");
    assert_eq!(keys(home.path()).len(), 6);
    assert!(!outputs.contains(CANARY));
    let leaks: Vec<_> = files(home.path()).into_iter().filter(|file| holds(file, CANARY)).collect();
    assert_eq!(leaks, Vec::<PathBuf>::new());
    assert_eq!(network.sends(), 0);
}

/// Data folder in which the account `far` has its key on a wallet server.
fn far_account(seed: u64) -> (RealNetwork, tempfile::TempDir, LocalWalletServer) {
    let network = RealNetwork::start(seed);
    let home = tempfile::tempdir().unwrap();
    network.settle_in(home.path(), "");
    let first = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    let server = LocalWalletServer::start(first.parse().unwrap());
    server.enforce(ServerPolicy { targets: vec![ACCOUNT.parse().unwrap()], verifiers: Vec::new() });
    let url = server.url();
    let place = ["keys", "server", "far", "--url", &url, "--app-id", APP_ID, "--wallet-id", WALLET_ID];
    // One descriptor for each secret: the password comes on 4.
    let third = home.path().join("credential");
    std::fs::write(&third, SECRET).unwrap();
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "third=$1; shift; echo \"$PASSWORD\" | { exec \"$0\" \"$@\" --secret-fd 3 --password-fd 4 3<\"$third\" 4<&0 </dev/null; }"]);
    shell.arg(bardo_testkit::devnet::program()).arg(&third).args(place);
    let added = shell.env_clear().env("BARDO_HOME", home.path()).env("PASSWORD", PASSWORD).env("PATH", "/usr/bin:/bin");
    let added = added.output().unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    std::fs::remove_file(&third).unwrap();
    (network, home, server)
}

#[test]
fn a_wallet_server_that_lies_about_a_new_wallet_gets_no_key_file() {
    let (network, home, server) = far_account(72);
    let provision = |secret: &str| {
        let arguments = ["call", "wallet_provision", "--key", "far", "--password-fd", "3"];
        parsed(network.run_with(home.path(), &arguments, secret))
    };
    let (answer, _) = provision("not the password");
    assert_eq!(answer["error"]["code"], "WALLET_NOT_CONFIGURED", "{answer}");
    assert_eq!(server.created(), []);
    // An honest one: under the policies of the first wallet, with a file of its own.
    let (answer, code) = provision(PASSWORD);
    assert_eq!((answer["status"].as_str(), code), (Some("success"), 0), "{answer}");
    let [(_, address)] = server.created()[..] else { panic!("{:?}", server.created()) };
    assert_eq!(answer["data"]["address"].as_str().unwrap().parse(), Ok(address));
    assert_eq!((&answer["data"]["provider"], &answer["data"]["server_policies"]), (&json!("privy"), &json!(1)));
    let before = keys(home.path());
    assert_eq!(before, ["far.json", "main.json", "wallet-1.json"]);
    for (mode, code) in [
        (ServerMode::OtherAddress, "WALLET_SERVER_REFUSED"),
        (ServerMode::SameWallet, "WALLET_SERVER_UNCLEAR"),
        (ServerMode::NoPolicies, "WALLET_SERVER_UNCLEAR"),
        (ServerMode::Garbage, "WALLET_SERVER_UNCLEAR"),
        // The new wallet's own key does not sign for the file.
        (ServerMode::OtherKey, "WALLET_SERVER_REFUSED"),
    ] {
        server.behave(mode);
        let (answer, _) = provision(PASSWORD);
        assert_eq!(answer["error"]["code"], code, "{mode:?}: {answer}");
        assert!(!answer.to_string().contains(SECRET), "{answer}");
        assert_eq!(keys(home.path()), before, "{mode:?}");
        // What exists there is named, so that the operator can delete it.
        let is_named = answer["error"]["details"]["wallet_id"].is_string();
        assert_eq!(is_named, mode == ServerMode::OtherKey, "{answer}");
    }
    server.behave(ServerMode::Honest);
    // The attempts that reached the server count.
    let (answer, _) = provision(PASSWORD);
    assert_eq!(answer["error"]["code"], "SAFETY_RATE_LIMITED", "{answer}");
}

/// The key of an account that is here already comes under the id of a new wallet: another file would open it with another password.
#[test]
fn a_new_wallet_is_no_account_that_is_here_already() {
    let (network, home, server) = far_account(73);
    let provision = || {
        let arguments = ["call", "wallet_provision", "--key", "far", "--password-fd", "3"];
        parsed(network.run_with(home.path(), &arguments, PASSWORD)).0
    };
    assert_eq!(provision()["status"], "success");
    let before = keys(home.path());
    server.behave(ServerMode::KnownKey);
    let answer = provision();
    assert_eq!(answer["error"]["code"], "WALLET_SERVER_REFUSED", "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("here already"), "{answer}");
    assert!(answer["error"]["details"]["wallet_id"].is_string(), "{answer}");
    assert_eq!(keys(home.path()), before);
}

/// Administration that does what it is asked, and counts.
#[derive(Default)]
struct Obedient(AtomicUsize);

impl fmt::Debug for Obedient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Obedient")
    }
}

impl WalletAdministration for Obedient {
    fn usual(&self) -> Result<NewWallet, ToolError> {
        Ok(NewWallet::Local)
    }

    fn provision<'a>(
        &'a self,
        _: &'a Network,
        _: NewWallet,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ProvisionedWallet, ToolError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            let address = alloy::primitives::Address::repeat_byte(0x77);
            Ok(ProvisionedWallet { name: "w".to_owned(), address, server_policies: None })
        })
    }

    fn write_policy(&self, _: PolicyDraft) -> BoxFuture<'_, Result<WrittenPolicy, ToolError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            let (file, previous) = (PathBuf::from("policy.toml"), PathBuf::from("policy.toml.previous-1"));
            Ok(WrittenPolicy { file, previous, changes: Vec::new(), waiting: Vec::new() })
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_no_way_to_a_wallet_or_a_policy_of_its_own() {
    let world = TestHarness::new(9).await;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
    let keeper = Arc::new(PolicyKeeper::fixed(Policy::preset(PolicyPreset::Demo)));
    let networks = [world.client.network().clone()];
    let rules = OperatorPolicyEngine::new(keeper, StopFile::in_folder(folder.path()), store.clone(), networks);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let prices = PriceChain::for_chain(&world.client, &Default::default(), clock.clone()).unwrap();
    let chains = vec![ConnectedChain::new(world.client.clone(), prices)];
    let administration = Arc::new(Obedient::default());
    let mut environment = ToolEnvironment::new(clock.clone(), None, chains, vec![]).under(Arc::new(rules));
    environment.administration = Some(administration.clone());
    let environment = Arc::new(environment);
    let executor = |golem_id: GolemId| {
        Executor::new(ExecutorConfig {
            catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(),
            world: environment.clone(),
            fabric: Fabric::in_memory(1_000, clock.clone()),
            golem_id,
            calls_per_minute: 1_000,
            hooks: vec![],
            store: Some(store.clone()),
            acting: None,
        })
    };
    let calls = [
        ("wallet_provision", json!({"provider": "local"})),
        ("wallet_configure_policy", json!({"policy_template": "defi-trading"})),
        ("wallet_configure_policy", json!({"policy_template": "read-only"})),
    ];
    let agent = executor("ada".parse().unwrap());
    for (tool, params) in &calls {
        let response = agent.call(ToolCall::new(*tool, ToolInput::Json(params.clone()))).await;
        assert_eq!(response.error.unwrap().code(), ErrorCode::ApprovalRequired, "{tool}");
    }
    assert_eq!(administration.0.load(Ordering::SeqCst), 0, "an agent reached it");
    // The operator's own command does, so that the refusal was the agent's.
    let operator = executor(GolemId::operator());
    for (tool, params) in &calls {
        let response = operator.call(ToolCall::new(*tool, ToolInput::Json(params.clone()))).await;
        assert!(response.error.is_none(), "{tool}: {:?}", response.error);
    }
    assert_eq!(administration.0.load(Ordering::SeqCst), calls.len());
}
