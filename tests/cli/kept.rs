//! Devnets that are kept between runs.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bardo::base::clock::{Clock, SystemClock};
use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::runtime::data::{DataFolder, Ledger};
use bardo::runtime::{self, OpenEnvironment};
use bardo::sandbox::{BlockPace, MarketMode, SandboxConfig};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::{Value, json};

use crate::{bardo, run};
use bardo_testkit::devnet::{Devnet, ask};

/// First account of the development mnemonic.
const ALICE: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const BOB: &str = "0x00000000000000000000000000000000000b0b0b";

fn kept(home: &Path, block_time: &str) -> Devnet {
    Devnet::start_in(home, &["--data", "demo", "--block-time", block_time, "--seed", "7"])
}

fn end(mut devnet: Devnet, signal: &str) {
    let pid = devnet.child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    let code = devnet.child.wait().unwrap().code();
    assert_eq!(code, (signal == "-TERM").then_some(0));
}

/// Sends one wei from Alice to Bob; returns the receipt.
fn pay(devnet: &Devnet) -> Value {
    let url = devnet.url(0);
    ask(url, "anvil_impersonateAccount", json!([ALICE]));
    let hash = ask(url, "eth_sendTransaction", json!([{ "from": ALICE, "to": BOB, "value": "0x1" }]));
    let receipt = ask(url, "eth_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt["status"], "0x1");
    receipt
}

fn balance(devnet: &Devnet) -> Value {
    ask(devnet.url(0), "eth_getBalance", json!([BOB, "latest"]))
}

fn head(url: &str) -> (Value, Value) {
    let block = ask(url, "eth_getBlockByNumber", json!(["latest", false]));
    (block["number"].clone(), block["hash"].clone())
}

fn hash_at(url: &str, number: &Value) -> Value {
    ask(url, "eth_getBlockByNumber", json!([number, false]))["hash"].clone()
}

#[test]
fn a_kept_devnet_continues_where_it_ended() {
    let home = tempfile::tempdir().unwrap();
    let first = kept(home.path(), "0");
    let (instance, receipt) = (first.described["instance"].clone(), pay(&first));
    ask(first.url(0), "evm_increaseTime", json!([86_400]));
    ask(first.url(0), "evm_mine", json!([]));
    let before = ask(first.url(0), "eth_getBlockByNumber", json!(["latest", true]));
    end(first, "-TERM");

    let again = kept(home.path(), "0");
    assert_eq!(again.described["instance"], instance);
    assert_eq!(ask(again.url(0), "eth_getBlockByNumber", json!([before["number"], true])), before);
    assert_eq!(ask(again.url(0), "eth_getTransactionReceipt", json!([receipt["transactionHash"]])), receipt);
    assert_eq!(balance(&again), "0x1");
    // Time continues from its shifted value, and the market trades on both chains.
    let mut sent = 0;
    for _ in 0..40 {
        ask(again.url(1), "evm_increaseTime", json!([5]));
        ask(again.url(1), "evm_mine", json!([]));
        sent += ask(again.url(1), "eth_getBlockByNumber", json!(["latest", false]))["transactions"]
            .as_array()
            .unwrap()
            .len();
    }
    assert!(sent > 5, "{sent}");
    ask(again.url(0), "evm_mine", json!([]));
    let next = ask(again.url(0), "eth_getBlockByNumber", json!(["latest", false]));
    let number = |value: &Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
    let passed = number(&next["timestamp"]) - number(&before["timestamp"]);
    assert!((1..600).contains(&passed), "{passed} seconds");
    assert_eq!(next["parentHash"], before["hash"]);

    // One process at a time.
    let (out, err, code) = run(bardo(home.path()).args(["devnet", "--port", "0", "--data", "demo"]));
    assert_eq!((out.as_str(), code), ("", 1));
    assert!(err.contains("in use by another process"), "{err}");
    let (out, _, code) = run(bardo(home.path()).args(["devnet", "list", "--json"]));
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &listed[0]["name"], &listed[0]["in_use"]), (0, &json!("demo"), &json!(true)));
    assert_eq!(listed[0]["instance"], instance);
    end(again, "-TERM");

    // Without a name nothing is kept, and a new devnet is another one.
    let thrown = Devnet::start_in(home.path(), &["--block-time", "0"]);
    assert_ne!(thrown.described["instance"], instance);
    drop(thrown);
    let (out, _, _) = run(bardo(home.path()).args(["devnet", "list"]));
    assert!(out.starts_with("demo") && out.contains("ready") && out.lines().count() == 1, "{out}");
}

#[test]
fn every_block_that_was_seen_is_there_after_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let mut seen: Vec<(usize, Value, Value)> = Vec::new();
    for round in 0..4_u64 {
        let devnet = kept(home.path(), "100ms");
        for (chain, number, hash) in &seen {
            assert_eq!(hash_at(devnet.url(*chain), number), *hash, "round {round}, chain {chain}, block {number}");
        }
        assert_eq!(balance(&devnet), format!("{round:#x}"), "one payment a round");
        ask(devnet.url(0), "anvil_impersonateAccount", json!([ALICE]));
        let until = Instant::now() + Duration::from_millis(700 + 250 * round);
        while Instant::now() < until {
            for chain in [0, 1] {
                let (number, hash) = head(devnet.url(chain));
                seen.push((chain, number, hash));
            }
        }
        // A transaction whose receipt was read must not be lost.
        let send = json!([{ "from": ALICE, "to": BOB, "value": "0x1" }]);
        let hash = ask(devnet.url(0), "eth_sendTransaction", send);
        let sent = Instant::now();
        while ask(devnet.url(0), "eth_getTransactionReceipt", json!([hash])).is_null() {
            assert!(sent.elapsed() < Duration::from_secs(60));
        }
        end(devnet, "-KILL");
    }
    assert!(seen.len() > 40, "{}", seen.len());
}

#[test]
fn a_damaged_devnet_is_refused_and_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    end(kept(home.path(), "0"), "-TERM");
    let file = DataFolder::of(&config(home.path())).root().join("devnets/demo/base.chain");
    let mut damaged = std::fs::read(&file).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["devnet", "--port", "0", "--data", "demo"]));
    assert_eq!((out.as_str(), code), ("", 1));
    assert!(err.contains("base.chain is damaged") && err.contains("restore a snapshot"), "{err}");
    assert_eq!(std::fs::read(&file).unwrap(), damaged);
}

#[test]
fn a_snapshot_brings_chains_and_ledger_back() {
    let home = tempfile::tempdir().unwrap();
    let first = kept(home.path(), "0");
    pay(&first);
    let instance = first.described["instance"].as_str().unwrap().to_owned();
    let (_, err, code) = run(bardo(home.path()).args(["devnet", "snapshot", "demo", "one"]));
    assert!(code == 1 && err.contains("in use by another process"), "{err}");
    let at = head(first.url(0));
    end(first, "-TERM");
    let folder = DataFolder::of(&config(home.path()));
    // Ledger of this devnet, as a client beside it keeps one.
    let ledger = folder.root().join("ledger").join(format!("devnet-{instance}"));
    std::fs::create_dir_all(ledger.join("playbooks")).unwrap();
    std::fs::write(ledger.join("ledger.db"), "one").unwrap();
    std::fs::write(ledger.join("playbooks/PLAYBOOK.md"), "one").unwrap();

    let (out, err, code) = run(bardo(home.path()).args(["devnet", "snapshot", "demo", "one"]));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("snapshot one of demo was created"), "{out}");
    let (_, err, code) = run(bardo(home.path()).args(["devnet", "snapshot", "demo", "one"]));
    assert!(code == 1 && err.contains("already has a snapshot one"), "{err}");

    let second = kept(home.path(), "0");
    pay(&second);
    assert_eq!(balance(&second), "0x2");
    end(second, "-TERM");
    std::fs::write(ledger.join("ledger.db"), "two").unwrap();
    std::fs::write(ledger.join("later.db"), "two").unwrap();

    // Irreversible commands need a person.
    let (_, err, code) = run(bardo(home.path()).args(["devnet", "restore", "demo", "one"]));
    assert!(code == 3 && err.contains("needs your confirmation on a terminal"), "{err}");
    let (_, err, code) = run(bardo(home.path()).args(["devnet", "restore", "demo", "two"]));
    assert!(code == 1 && err.contains("demo has no snapshot two"), "{err}");
    let (screen, code) = on_a_terminal(home.path(), &["devnet", "restore", "demo", "one"], "yes\r");
    assert!(code == 4 && screen.contains("nothing was changed"), "{screen}");
    let (screen, code) = on_a_terminal(home.path(), &["devnet", "restore", "demo", "one"], "demo\r");
    assert!(code == 0 && screen.contains("demo was restored to snapshot one"), "{screen}");
    assert_eq!(std::fs::read_to_string(ledger.join("ledger.db")).unwrap(), "one");
    assert_eq!(std::fs::read_to_string(ledger.join("playbooks/PLAYBOOK.md")).unwrap(), "one");
    assert!(!ledger.join("later.db").exists());
    let third = kept(home.path(), "0");
    assert_eq!((balance(&third), head(third.url(0))), (json!("0x1"), at.clone()));
    end(third, "-TERM");

    // An interrupted restore is completed before the devnet continues.
    let devnet = folder.root().join("devnets/demo");
    let fourth = kept(home.path(), "0");
    pay(&fourth);
    end(fourth, "-TERM");
    std::fs::write(devnet.join("restoring"), "one").unwrap();
    std::fs::remove_dir_all(&ledger).unwrap();
    let fifth = kept(home.path(), "0");
    assert_eq!((balance(&fifth), head(fifth.url(0))), (json!("0x1"), at));
    assert_eq!(std::fs::read_to_string(ledger.join("ledger.db")).unwrap(), "one");
    assert!(!devnet.join("restoring").exists());
    end(fifth, "-TERM");

    let (_, err, code) = run(bardo(home.path()).args(["devnet", "delete", "demo"]));
    assert!(code == 3 && err.contains("needs your confirmation on a terminal"), "{err}");
    let (screen, code) = on_a_terminal(home.path(), &["devnet", "delete", "demo"], "demo\r");
    assert!(code == 0 && screen.contains("demo was deleted"), "{screen}");
    assert!(!devnet.exists() && !ledger.exists());
    let (_, err, code) = run(bardo(home.path()).args(["devnet", "delete", "demo"]));
    assert!(code == 1 && err.contains("there is no kept devnet demo"), "{err}");
    let (out, _, _) = run(bardo(home.path()).args(["devnet", "list"]));
    assert!(out.contains("no kept devnets"), "{out}");
}

#[test]
fn a_restore_that_cannot_begin_asks_for_no_passphrase() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("one.backup");
    let restore = || {
        let (screen, code) = on_a_terminal(home.path(), &["restore", file.to_str().unwrap()], "");
        assert!(code == 1 && !screen.contains("passphrase of the backup"), "{screen}");
        screen
    };
    assert!(restore().contains("No such file"), "a missing file");
    std::fs::write(&file, "not a backup").unwrap();
    assert!(restore().contains("is not a whole backup"), "another file");
    std::fs::create_dir(home.path().join("data")).unwrap();
    std::fs::write(home.path().join("data/ledger"), "").unwrap();
    assert!(restore().contains("is not empty"), "a data folder in use");
}

/// Runs the program on a terminal and types; returns its output and its exit code.
fn on_a_terminal(home: &Path, arguments: &[&str], typed: &str) -> (String, u32) {
    let pty = native_pty_system().openpty(PtySize { rows: 24, cols: 200, ..PtySize::default() }).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env_clear();
    command.env("BARDO_HOME", home);
    command.args(arguments);
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut screen = pty.master.try_clone_reader().unwrap();
    pty.master.take_writer().unwrap().write_all(typed.as_bytes()).unwrap();
    let code = child.wait().unwrap().exit_code();
    drop(pty.master);
    let mut shown = Vec::new();
    // A terminal whose program has ended returns an error after its last bytes.
    let _ended = screen.read_to_end(&mut shown);
    (String::from_utf8_lossy(&shown).into_owned(), code)
}

#[test]
fn a_console_on_a_kept_devnet_keeps_its_ledger_and_plays_no_scenario() {
    let home = tempfile::tempdir().unwrap();
    let folder = DataFolder::of(&config(home.path()));
    console(home.path());
    let first = folder.kept_devnets().unwrap();
    assert_eq!((first.len(), first[0].name.to_string(), first[0].is_in_use), (1, "demo".to_owned(), false));
    let instance = first[0].instance.unwrap();
    assert!(folder.root().join(format!("ledger/devnet-{instance}/ledger.db")).is_file());
    assert!(!folder.root().join("shows").exists());
    // The same devnet, served to other processes.
    let served = kept(home.path(), "0");
    assert_eq!(served.described["instance"], instance.to_string());
    let (number, hash) = head(served.url(0));
    end(served, "-KILL");
    console(home.path());
    assert_eq!(folder.kept_devnets().unwrap()[0].instance, Some(instance));
    let served = kept(home.path(), "0");
    assert_eq!(hash_at(served.url(0), &number), hash);
}

/// Runs the console until its devnet runs, then ends it.
fn console(home: &Path) {
    let pty = native_pty_system().openpty(PtySize { rows: 40, cols: 140, ..PtySize::default() }).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env_clear();
    command.env("BARDO_HOME", home);
    command.env("TERM", "xterm-256color");
    command.args(["--data", "demo"]);
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let pid = child.process_id().unwrap().to_string();
    let mut screen = pty.master.try_clone_reader().unwrap();
    let (mut shown, mut is_ended) = (Vec::new(), false);
    let mut some = [0; 4_096];
    while let Ok(read @ 1..) = screen.read(&mut some) {
        shown.extend_from_slice(&some[..read]);
        // The header appears after startup.
        if !is_ended && String::from_utf8_lossy(&shown).contains("PLAY MONEY") {
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            is_ended = true;
        }
    }
    assert!(child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&shown));
}

#[test]
fn names_that_could_lead_elsewhere_and_flags_without_a_devnet_are_usage_errors() {
    let home = tempfile::tempdir().unwrap();
    for name in ["../up", "", "a/b", ".", "Demo", "-x", &"a".repeat(41), "a b", "\u{1b}[2J"] {
        let (out, err, code) = run(bardo(home.path()).args(["devnet", &format!("--data={name}")]));
        assert_eq!((out.as_str(), code), ("", 2), "{name:?}: {err}");
        assert!(err.contains("1 to 40 lower-case letters") || err.contains("a value is required"), "{name:?}: {err}");
        assert!(!err.contains('\u{1b}'), "{err:?}");
    }
    for (arguments, says) in [
        (["--data", "demo", "doctor"].as_slice(), "keeps the console's devnet"),
        (["--data", "demo", "--scenario", "first-tour"].as_slice(), "keeps the console's devnet"),
        (["--data", "demo", "--rpc", "ethereum=http://127.0.0.1:1"].as_slice(), "another network is selected"),
    ] {
        let (_, err, code) = run(bardo(home.path()).args(arguments));
        assert_eq!(code, 2, "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
    assert!(!home.path().join("devnets").exists());
}

fn config(home: &Path) -> Config {
    let variables = [("BARDO_HOME".to_owned(), home.to_str().unwrap().to_owned())];
    let mut config = Config::load(&Environment::from_iter(variables), &ConfigFlags::default()).unwrap();
    config.kept_devnet = Some("demo".to_owned());
    config
}

async fn opened(home: &Path) -> (Config, OpenEnvironment) {
    let config = config(home);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let still = || SandboxConfig {
        seed: 7,
        start_time: SystemClock.now_seconds(),
        pace: BlockPace::Manual,
        clock: Some(Arc::new(SystemClock)),
        market: MarketMode::Off,
        keeper: false,
    };
    let opened = runtime::open(&config, still, clock).await.unwrap();
    (config, opened)
}

/// Inserts a settled transaction into the ledger, in a block of `chain_id`.
async fn settle(ledger: &Ledger, number: u64, hash: [u8; 32]) {
    let insert = "INSERT OR REPLACE INTO sender_transaction
        (hash, chain_id, account, nonce, raw, route, state, stored_at, block_number, block_hash, settled_at)
        VALUES (x'01', 31337, x'02', 0, x'03', 'public', 'mined', 1, ?1, ?2, 2)";
    let written = ledger.store.write(move |transaction| {
        transaction.execute(insert, (number.cast_signed(), hash.to_vec())).map_err(bardo::store::StoreError::from)
    });
    written.await.unwrap();
}

/// One run of the program up to the opened ledger; everything on its runtime ends with it, including the chains.
fn one_run<T>(home: &Path, run: impl AsyncFnOnce(&OpenEnvironment, Result<Ledger, String>) -> T) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = runtime.block_on(async {
        let (config, world) = opened(home).await;
        let ledger = DataFolder::of(&config).open_ledger(&world).await.map_err(|error| error.to_string());
        run(&world, ledger).await
    });
    drop(runtime);
    result
}

#[test]
fn a_chain_that_is_older_than_its_ledger_is_not_opened() {
    let home = tempfile::tempdir().unwrap();
    let chain = |world: &OpenEnvironment| world.sandbox.as_ref().unwrap().chain("ethereum").unwrap().devnet.clone();
    let (instance, path, number) = one_run(home.path(), async |world, ledger| {
        let ledger = ledger.unwrap();
        let block = chain(world).mine().await.unwrap();
        settle(&ledger, block.number(), *block.hash).await;
        (world.sandbox.as_ref().unwrap().instance(), ledger.store.path().to_owned(), block.number())
    });
    assert!(path.to_str().unwrap().contains(&format!("ledger/devnet-{instance}/")), "{path:?}");

    // The chain has the block, so the same ledger opens again.
    one_run(home.path(), async |world, ledger| {
        let ledger = ledger.unwrap();
        assert_eq!((world.sandbox.as_ref().unwrap().instance(), ledger.store.path()), (instance, path.as_path()));
        // A block that only the ledger knows: the chain's files are older.
        settle(&ledger, number + 1, [9; 32]).await;
    });
    let refused = one_run(home.path(), async |world, ledger| {
        assert_eq!(chain(world).head().borrow().number(), number);
        ledger.unwrap_err()
    });
    assert!(refused.contains("older than the ledger") && refused.contains("bardo devnet restore"), "{refused}");
    assert!(refused.contains(&format!("block {}", number + 1)), "{refused}");
}
