//! Signing account of `bardo call`: a key of the key directory on test networks and real ones, the development mnemonic
//! on devnets, none without a named key.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{self, Stdio};

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::id::GolemId;
use bardo::runtime::actor::{Actor, ActorContext};
use bardo::runtime::session::{Session, SessionOptions};
use bardo::session::handle::{AddressedCommand, LeaveMode, SessionCommand, SessionHandle, SessionNews};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::devnet::start;
use crate::fixture::Fixture;
use crate::{bardo, run};

const FIRST: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const FIRST_ADDRESS: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const PASSWORD: &str = "battery staple";
const SWAP: &str = r#"{"token_in":"WETH","token_out":"USDC","amount":"0.1","chain":"sepolia"}"#;

/// Endpoint that claims to be sepolia and knows nothing else; returns its URL.
fn sepolia() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || serve(stream.unwrap()));
        }
    });
    url
}

fn serve(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim().to_ascii_lowercase();
            match line.strip_prefix("content-length:") {
                Some(digits) => length = digits.trim().parse().ok()?,
                None if line.is_empty() => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let asked: Value = serde_json::from_slice(&body).ok()?;
        let one = |asked: &Value| match asked["method"].as_str() {
            Some("eth_chainId") => json!({"jsonrpc": "2.0", "id": asked["id"], "result": "0xaa36a7"}),
            _ => {
                let error = json!({"code": -32_601, "message": "this endpoint knows its chain and nothing else"});
                json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})
            }
        };
        let answer = match &asked {
            Value::Array(all) => Value::Array(all.iter().map(one).collect()),
            asked => one(asked),
        };
        let body = answer.to_string();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
    }
}

/// Runs the binary in a shell that provides descriptors 3 and 4.
fn shell(home: &Path, arguments: &str, third: &str, fourth: &str) -> (Value, String, i32) {
    fs::write(home.join("third"), third).unwrap();
    fs::write(home.join("fourth"), fourth).unwrap();
    let script = format!("exec \"$BARDO\" {arguments} 3<\"$HOME/third\" 4<\"$HOME/fourth\"");
    let mut command = process::Command::new("sh");
    command.env_clear().env("BARDO_HOME", home).env("HOME", home).env("BARDO", env!("CARGO_BIN_EXE_bardo"));
    let output = command.args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let out = text(output.stdout);
    (serde_json::from_str(&out).unwrap_or(Value::Null), text(output.stderr), output.status.code().unwrap())
}

#[test]
fn nobody_acts_on_a_test_network_until_a_key_is_named_and_opened() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let at = format!("--rpc sepolia={}", sepolia());
    let swap =
        |more: &str, third: &str| shell(home, &format!("call uniswap_execute_swap '{SWAP}' {at} {more}"), third, "");
    let refused = |answer: (Value, String, i32), code: &str, says: &str| {
        let (envelope, err, _) = answer;
        let error = &envelope["error"];
        assert_eq!(error["code"], code, "{envelope} {err}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
        let (_, shown, _) = (0, envelope.to_string(), 0);
        assert!(!shown.contains(PASSWORD) && !err.contains(PASSWORD) && !shown.contains(FIRST));
    };
    refused(swap("", ""), "WALLET_NOT_CONFIGURED", "no account is set up");
    refused(swap("--key trading", ""), "WALLET_NOT_CONFIGURED", "unknown key `trading`");
    refused(swap("--key development:0", ""), "WALLET_NOT_CONFIGURED", "is public");

    let import = "keys import trading --secret-fd 3 --password-fd 4 --json";
    let (key, err, code) = shell(home, import, FIRST, PASSWORD);
    assert_eq!((&key["address"], code), (&json!(FIRST_ADDRESS), 0), "{err}");
    // Still no account: it must be named.
    refused(swap("", ""), "WALLET_NOT_CONFIGURED", "no account is set up");
    refused(swap("--key trading --password-fd 3", "wrong password"), "WALLET_NOT_CONFIGURED", "cannot open");
    // A command line without access to the password is invalid.
    let (_, err, code) = swap("--key trading", "");
    assert!(code == 2 && err.contains("no terminal is available to ask"), "{err}");
    // Unlocked, it reaches the chain; a rehearsal needs no password for that.
    refused(swap("--key trading --password-fd 3", PASSWORD), "CHAIN_INCONSISTENT", "");
    refused(swap("--key trading --paper", ""), "CHAIN_INCONSISTENT", "");
    refused(swap("--key trading --dry-run", ""), "CHAIN_INCONSISTENT", "");

    // The same by configuration.
    fs::write(home.join("config.toml"), "account = \"trading\"\n").unwrap();
    refused(swap("--dry-run", ""), "CHAIN_INCONSISTENT", "");

    // The key does not belong to the ledger of another folder.
    let other = tempfile::tempdir().unwrap();
    let kept = home.join("data/keys/trading.json");
    let copy = other.path().join("data/keys");
    fs::create_dir_all(&copy).unwrap();
    fs::copy(kept, copy.join("trading.json")).unwrap();
    let call = format!("call uniswap_execute_swap '{SWAP}' {at} --key trading --paper");
    refused(shell(other.path(), &call, "", ""), "WALLET_NOT_CONFIGURED", "belongs to ledger");
}

#[test]
fn only_development_accounts_sign_on_a_devnet() {
    let devnet = start();
    let home = tempfile::tempdir().unwrap();
    let given = format!("ethereum={}", devnet.url(0));
    let call = |more: &[&str]| -> Value {
        let params = r#"{"token":"USDC","amount":"5","chain":"ethereum"}"#;
        let fixed = ["call", "token_approve", params, "--approve", "always", "--rpc", &given];
        let (out, err, _) = run(bardo(home.path()).args(fixed).args(more));
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"))
    };
    assert_eq!(call(&["--key", "trading"])["error"]["code"], "WALLET_NOT_CONFIGURED");
    assert_eq!(call(&["--key", "development:99"])["error"]["code"], "WALLET_NOT_CONFIGURED");
    // A key that is configured for real networks is ignored here.
    fs::write(home.path().join("config.toml"), "account = \"trading\"\n").unwrap();
    let first = call(&["--dry-run"]);
    assert_eq!(first["status"], "simulated", "{first}");
    assert_eq!(
        first["decision_hints"]["permit"]["account"].as_str().unwrap().to_lowercase(),
        FIRST_ADDRESS.to_lowercase()
    );
    let second = call(&["--key", "development:1", "--wait"]);
    assert_eq!(second["status"], "success", "{second}");
    let account = &devnet.described["chains"][0]["accounts"][1];
    let third = call(&["--key", "development:1", "--paper"]);
    assert_eq!(third["status"], "simulated", "{third}");
    let acted = third["decision_hints"]["permit"]["account"].as_str().unwrap().to_lowercase();
    assert!(account.to_string().to_lowercase().contains(&acted), "{account} {acted}");
}

#[test]
fn a_swap_that_is_only_rehearsed_shows_what_it_would_change_and_changes_nothing() {
    let fixture = Fixture::new();
    let wallet = fixture.account().to_owned();
    let balance = |symbol: &str| {
        let call = format!("0x70a08231000000000000000000000000{}", wallet.trim_start_matches("0x").to_lowercase());
        fixture.ask("eth_call", json!([{"to": fixture.token(symbol), "data": call}, "latest"]))
    };
    let chain = || {
        let coin = fixture.ask("eth_getBalance", json!([wallet, "latest"]));
        (fixture.nonce("pending"), fixture.ask("eth_blockNumber", json!([])), coin, balance("USDC"), balance("WETH"))
    };
    let ledger = || -> Vec<i64> {
        let Ok(ledgers) = fs::read_dir(fixture.home.path().join("data/ledger")) else { return Vec::new() };
        let path = ledgers.map(|entry| entry.unwrap().path().join("ledger.db")).next().unwrap();
        let ledger = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let count = |table: &str| {
            ledger.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0)).unwrap()
        };
        ["sender_transaction", "safety_permit", "safety_leg", "safety_party", "ledger_reservation"].map(count).into()
    };
    let before = chain();
    let trade = json!({"token_in": "USDC", "token_out": "WETH", "amount": "100"});
    for how in ["--dry-run", "--paper"] {
        let (answer, exit) = fixture.swap(trade.clone(), &[how]);
        assert_eq!((&answer["status"], exit), (&json!("simulated"), 0), "{how}: {answer}");
        let permit = &answer["decision_hints"]["permit"];
        let moves = permit["simulated"]["moves"].as_array().unwrap();
        let (gives, gets) = (fixture.token("USDC").to_lowercase(), fixture.token("WETH").to_lowercase());
        let moved = |token: &str| {
            let of = |one: &&Value| one["token"].as_str().unwrap().to_lowercase() == token;
            let one = moves.iter().find(of).unwrap_or_else(|| panic!("{how}: no {token} in {permit}"));
            let raw = |field: &str| one[field].as_str().unwrap().parse::<u128>().unwrap();
            (raw("before_raw"), raw("after_raw"))
        };
        let hex = |value: &Value| u128::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
        let (given, got) = (moved(&gives), moved(&gets));
        assert!(given.0 == hex(&before.3) && given.0 - given.1 == 100_000_000, "{how}: {permit}");
        assert!(got.0 == hex(&before.4) && got.1 > got.0, "{how}: {permit}");
        assert!(answer["data"]["tx_hash"].is_null(), "{how}: {answer}");
        assert_eq!(chain(), before, "{how}");
        assert_eq!(ledger(), [0; 5], "{how}");
    }
    // The same without paper mode does all of that.
    let (answer, exit) = fixture.swap(trade, &[]);
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{answer}");
    assert_ne!(chain(), before);
    assert!(ledger().iter().take(3).all(|rows| *rows > 0));
}

/// Actor that does nothing.
struct Nobody;

impl Actor for Nobody {
    fn live(self: Box<Self>, mut seat: ActorContext) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // An ended session counts as leaving, too.
            let _left = seat.leaving.wait_for(|leaving| *leaving).await;
        })
    }
}

/// A program that was killed during a sale leaves a plan that permits parts that nothing else would permit.
#[test]
fn a_starting_process_ends_the_plans_of_a_killed_one() {
    let fixture = Fixture::new();
    let (answer, exit) = fixture.swap(json!({}), &[]);
    assert_eq!(exit, 0, "{answer}");
    let ledgers = fs::read_dir(fixture.home.path().join("data/ledger")).unwrap();
    let path = ledgers.map(|entry| entry.unwrap().path().join("ledger.db")).next().unwrap();
    let ledger = rusqlite::Connection::open(path).unwrap();
    let planned =
        || ledger.query_row("SELECT count(*) FROM ledger_liquidation", [], |row| row.get::<_, i64>(0)).unwrap();
    let plan = "INSERT INTO ledger_liquidation (chain_id, account, token, planned_at) VALUES (31337, ?1, 'native', 1)";
    ledger.execute(plan, [fixture.account().parse::<alloy::primitives::Address>().unwrap().to_string()]).unwrap();
    let variables = [("BARDO_HOME".to_owned(), fixture.home.path().to_str().unwrap().to_owned())];
    let flags = ConfigFlags { rpc: vec![fixture.given.clone()], ..ConfigFlags::default() };
    let config = Config::load(&Environment::from_iter(variables), &flags).unwrap();
    let starts = async |watch| {
        let options = SessionOptions { watch, ..SessionOptions::default() };
        let SessionHandle { commands, mut news } = Session::open_with(config.clone(), options, Box::new(Nobody));
        while !matches!(news.recv().await.expect("it comes up"), SessionNews::Ready(_)) {}
        let command = SessionCommand::Leave(LeaveMode::Finish);
        commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
        while news.recv().await.is_some() {}
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(starts(true));
    assert_eq!(planned(), 1, "who only watches changes nothing");
    runtime.block_on(starts(false));
    assert_eq!(planned(), 0);
}

#[test]
fn calls_per_minute_hold_over_processes() {
    let devnet = start();
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("policy-devnet.toml"), "preset = \"demo\"\nmax_tool_calls_per_minute = 1\n").unwrap();
    let given = format!("ethereum={}", devnet.url(0));
    let params = r#"{"token":"USDC","amount":"5","chain":"ethereum"}"#;
    let call = || {
        let (out, err, code) =
            run(bardo(home.path()).args(["call", "token_approve", params, "--dry-run", "--rpc", &given]));
        (serde_json::from_str::<Value>(&out).unwrap_or_else(|_| panic!("{out}{err}")), code)
    };
    assert_eq!(call().1, 0);
    let (second, code) = call();
    assert_eq!((&second["error"]["code"], code), (&json!("SAFETY_RATE_LIMITED"), 3), "{second}");
    let violation = &second["error"]["details"]["violations"][0];
    assert_eq!((&violation["rule"], &violation["limit"]), (&json!("max_tool_calls_per_minute"), &json!("1")));
    let wait = second["error"]["details"]["retry_after_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&wait), "{wait}");
}
