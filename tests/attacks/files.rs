//! Files, folders, recordings and address books that an attacker created.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use alloy::primitives::B256;
use assert_cmd::Command;
use bardo::base::id::{CallId, GolemId};
use bardo::base::model::{CardKind, StopLevel};
use bardo::fabric::{Event, EventKind, RedactedParams, ResultCard, ToolEnd, ToolStart, TxState, TxUpdate};
use bardo::safety::stop::StopFile;
use serde_json::{Value, json};

use crate::allowances;
use crate::brain::{Console, Fixture, until};

/// Timeout of a command. Without it, a command that waits for a pipe would never end.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

fn bardo(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
    command.timeout(COMMAND_TIMEOUT);
    command.env_clear().env("BARDO_HOME", home);
    command
}

/// Runs a command; returns its standard output, its messages on standard error, and true if it succeeded.
fn run(command: &mut Command) -> (Vec<u8>, String, bool) {
    let output = command.output().unwrap();
    (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned(), output.status.success())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Paths below a folder that another user could open, each with its mode.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_symlink() {
            continue;
        }
        if mode(&path) & 0o077 != 0 {
            found.push(format!("{} {:o}", path.display(), mode(&path)));
        }
        if path.is_dir() {
            found.extend(open_to_others(&path));
        }
    }
    found
}

/// Runs a command with umask 0; returns its messages, and true if it succeeded.
fn with_umask_zero(data: &Path, command: &str) -> (String, bool) {
    let script = format!("umask 000; exec {} {command}", env!("CARGO_BIN_EXE_bardo"));
    let mut shell = Command::new("/bin/sh");
    shell.timeout(COMMAND_TIMEOUT);
    shell.env_clear().env("BARDO_HOME", data.parent().unwrap()).env("BARDO_DATA_DIR", data).env("BARDO_LOG", "debug");
    let (_, messages, succeeded) = run(shell.args(["-c", &script]));
    (messages, succeeded)
}

/// Runs a command whose first file is its log, and which then ends because its port is in use. Returns its messages.
fn run_until_log(data: &Path) -> String {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    with_umask_zero(data, &format!("devnet --port {port}")).0
}

#[test]
fn the_data_folder_is_private_to_its_owner_whatever_the_umask() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let messages = run_until_log(&data);
    assert!(data.join("logs").is_dir(), "{messages}");
    assert_eq!((mode(&data), open_to_others(&data)), (0o700, vec![]));
    let params = allowances::approve(&allowances::contract("permit2"));
    let rpc = allowances::rpc("ethereum");
    let _needs_approval = with_umask_zero(&data, &format!("call --approve never token_approve '{params}' --rpc {rpc}"));
    assert!(data.join("ledger").is_dir(), "no ledger");
    let (messages, succeeded) = with_umask_zero(&data, "halt");
    assert!(succeeded && data.join("STOP").exists(), "{messages}");
    assert_eq!((mode(&data), open_to_others(&data)), (0o700, vec![]));
}

#[test]
fn an_empty_data_folder_with_wide_permissions_is_restricted_before_use() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777)).unwrap();
    let messages = run_until_log(&data);
    assert!(data.join("logs").is_dir(), "{messages}");
    assert_eq!((mode(&data), open_to_others(&data)), (0o700, vec![]));
}

#[test]
fn a_data_folder_that_others_could_write_to_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("planted"), "").unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777)).unwrap();
    let messages = run_until_log(&data);
    assert!(messages.contains("other users can write to it") && messages.contains("chmod 700"), "{messages}");
    assert!(!data.join("logs").exists());
}

#[test]
fn the_target_of_a_linked_data_folder_is_restricted() {
    let home = tempfile::tempdir().unwrap();
    let real = home.path().join("real");
    fs::create_dir(&real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(&real, home.path().join("data")).unwrap();
    let messages = run_until_log(&home.path().join("data"));
    assert!(real.join("logs").is_dir(), "{messages}");
    assert_eq!((mode(&real), open_to_others(&real)), (0o700, vec![]));
}

#[test]
fn a_pipe_or_link_in_place_of_a_log_is_neither_waited_for_nor_followed() {
    for pipe in [true, false] {
        let home = tempfile::tempdir().unwrap();
        let logs = home.path().join("data/logs");
        fs::create_dir_all(&logs).unwrap();
        let elsewhere = home.path().join("elsewhere");
        fs::write(&elsewhere, "").unwrap();
        let planted = logs.join("bardo.2026-11-24.log");
        match pipe {
            true => assert!(std::process::Command::new("mkfifo").arg(&planted).status().unwrap().success()),
            false => symlink(&elsewhere, &planted).unwrap(),
        }
        let messages = run_until_log(&home.path().join("data"));
        assert!(messages.contains("not a regular file"), "{messages}");
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "");
    }
}

/// Recording of one swap whose output token has this symbol.
fn recording(symbol: &str) -> String {
    let call_id = CallId::new(1_700_000_000_000);
    let params = json!({ "token_in": "WETH", "token_out": "SYMBOL", "amount": "0.25", "chain": "ethereum" });
    let start = ToolStart {
        tool_name: "uniswap_execute_swap".into(),
        params: RedactedParams::new(&params, &[]),
        params_hash: B256::ZERO,
        tick: None,
        facts: None,
    };
    let state = TxState::Confirmed;
    let update = TxUpdate {
        chain_id: 31_337,
        hash: B256::repeat_byte(7),
        leg: 1,
        of: 1,
        state,
        block: Some(9),
        gas_cost_wei: None,
        purpose: None,
    };
    let card =
        ResultCard { widget: CardKind::Swap, data: json!({ "amount_in": "0.25", "amount_out": "848" }), hints: None };
    let end = ToolEnd { success: true, state: None, duration_ms: 1, result_summary: Value::Null, card: Some(card) };
    let kinds = [EventKind::ToolStart(start), EventKind::TxUpdate(update), EventKind::ToolEnd(end)];
    let events = (1..).zip(kinds).map(|(seq, kind)| {
        let event = Event { seq, at: 1_700_000_000_000, golem_id: GolemId::operator(), call_id: Some(call_id), kind };
        format!("{}\n", serde_json::to_string(&event).unwrap())
    });
    let escaped = serde_json::to_string(symbol).unwrap();
    events.collect::<String>().replace("\"SYMBOL\"", &escaped)
}

#[test]
fn text_of_a_recording_cannot_control_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("run.jsonl");
    for hostile in ["\u{1b}]52;c;cm0=\u{7}", "\u{9b}31m", "\u{7}", "\u{1b}[2J", "\u{0}", "\u{90}x\u{9c}", "\u{202e}x"] {
        fs::write(&file, recording(hostile)).unwrap();
        let (out, messages, succeeded) = run(bardo(home.path()).args(["log", "trades"]).arg(&file));
        let both = String::from_utf8(out).unwrap() + &messages;
        assert!(succeeded && both.contains("848"), "{both:?}");
        let control = both.chars().find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(control, None, "{both:?}");
    }
}

#[test]
fn a_file_name_cannot_control_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    for hostile in ["\u{1b}]0;owned\u{7}", "\u{1b}[2J", "\u{9b}31m", "\u{202e}"] {
        // None of these files exists, so the error names each.
        let name = home.path().join(format!("a{hostile}.jsonl"));
        let (log, replay) =
            ([OsStr::new("log"), OsStr::new("trades"), name.as_os_str()], [OsStr::new("replay"), name.as_os_str()]);
        for arguments in [&log[..], &replay[..]] {
            let (_, messages, succeeded) = run(bardo(home.path()).args(arguments));
            assert!(!succeeded && messages.contains(".jsonl"), "{messages:?}");
            let control = messages.chars().find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
            assert_eq!(control, None, "{messages:?}");
        }
    }
}

#[test]
fn no_cell_of_an_export_starts_a_formula() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("run.jsonl");
    for symbol in ["=cmd|'/c calc'!A0", "+1", "-1", "@SUM(1)", " \t=1", "\u{0}=1", "\r=1"] {
        fs::write(&file, recording(symbol)).unwrap();
        let (out, messages, succeeded) = run(bardo(home.path()).args(["log", "trades"]).arg(&file));
        assert!(succeeded, "{messages}");
        let text = String::from_utf8(out).unwrap();
        for cell in text.lines().skip(1).flat_map(|line| line.split(',')) {
            let shown = cell.trim_matches('"');
            assert!(!shown.starts_with(['=', '+', '-', '@', '\t', '\r']), "{cell:?} of {text}");
        }
    }
}

#[test]
fn a_recording_of_one_endless_line_is_refused_without_reading_it() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("run.jsonl");
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(b"{").unwrap();
    // A sparse gigabyte of zeros.
    file.set_len(1 << 30).unwrap();
    let start = std::time::Instant::now();
    let (_, messages, succeeded) = run(bardo(home.path()).args(["log", "trades"]).arg(&path));
    assert!(!succeeded && messages.contains("longer than any event"), "{messages}");
    assert!(start.elapsed() < std::time::Duration::from_secs(20));
    file.set_len(5 << 30).unwrap();
    let (_, messages, succeeded) = run(bardo(home.path()).args(["log", "trades"]).arg(&path));
    assert!(!succeeded && messages.contains("larger than the maximum of a recording"), "{messages}");
}

#[test]
fn a_pipe_in_place_of_a_recording_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("run.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (_, messages, succeeded) = run(bardo(home.path()).args(["log", "trades"]).arg(&pipe));
    assert!(!succeeded && messages.contains("it is a named pipe"), "{messages}");
}

/// Replaces a file by a pipe.
fn replace_by_pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path).unwrap();
    }
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Runs an action through the whole pipeline without approval; returns its output and messages.
fn act(home: &Path) -> String {
    let recipient = format!("0x{}", "1".repeat(40));
    let params = json!({ "token": "USDC", "recipient": recipient, "amount": "5", "chain_id": "ethereum" }).to_string();
    let rpc = allowances::rpc("ethereum");
    let arguments = ["call", "--approve", "never", "wallet_transfer_token", &params, "--rpc", &rpc];
    let (out, messages, succeeded) = run(bardo(home).args(arguments));
    let messages = String::from_utf8(out).unwrap() + &messages;
    assert!(!succeeded, "{messages}");
    messages
}

/// Files below a folder whose names end in `end`.
fn files_ending_in(folder: &Path, end: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(files_ending_in(&path, end));
        }
        if path.to_str().unwrap().ends_with(end) {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_pipe_does_not_block_a_halt() {
    // Location of the file: below the home, or beside its ledger.
    for place in [
        "data/STOP.lock",
        "config.toml",
        "policy-devnet.toml",
        "ledger.db-sessions/0123456789abcdef0123456789abcdef",
        "ledger.db-journal",
        "ledger.audit-head",
    ] {
        let home = tempfile::tempdir().unwrap();
        let messages = act(home.path());
        assert!(messages.contains("APPROVAL_REQUIRED"), "{messages}");
        let data = home.path().join("data");
        let ledger = files_ending_in(&data, "ledger.db").remove(0);
        replace_by_pipe(&if place.starts_with("ledger") {
            ledger.with_file_name(place)
        } else {
            home.path().join(place)
        });
        let (out, messages, succeeded) = run(bardo(home.path()).args(["halt", "--reason", "attacked"]));
        assert!(succeeded && String::from_utf8_lossy(&out).contains("attacked"), "{place}: {messages}");
        assert_eq!(StopFile::in_folder(&data).read().level(), Some(StopLevel::Halt), "{place}");
    }
}

#[test]
fn a_pipe_does_not_block_an_action() {
    for (place, continues) in
        [("sessions/0123456789abcdef0123456789abcdef", true), ("policy", false), ("journal", false), ("config", false)]
    {
        let home = tempfile::tempdir().unwrap();
        let messages = act(home.path());
        assert!(messages.contains("APPROVAL_REQUIRED"), "{messages}");
        let ledger = files_ending_in(&home.path().join("data"), "ledger.db").remove(0);
        let beside = |suffix: &str| ledger.with_file_name(format!("ledger.db-{suffix}"));
        match place {
            "policy" => replace_by_pipe(&home.path().join("policy-devnet.toml")),
            "config" => replace_by_pipe(&home.path().join("config.toml")),
            place => replace_by_pipe(&beside(place)),
        }
        let messages = act(home.path());
        assert!(messages.contains(if continues { "APPROVAL_REQUIRED" } else { "regular file" }), "{place}: {messages}");
    }
}

/// Neither listing the keys nor an action with a key whose file is a pipe waits for the pipe.
#[test]
fn a_pipe_in_place_of_a_key_file_is_not_waited_for() {
    let home = tempfile::tempdir().unwrap();
    replace_by_pipe(&home.path().join("data/keys/main.json"));
    let rpc = allowances::rpc("ethereum");
    let action = [
        "call",
        "--key",
        "main",
        "--approve",
        "never",
        "token_revoke",
        r#"{"token":"USDC","chain":"ethereum"}"#,
        "--rpc",
        &rpc,
    ];
    for arguments in [&["keys", "list"][..], &action] {
        let output = bardo(home.path()).args(arguments).output().unwrap();
        assert!(output.status.code().is_some(), "{arguments:?} did not end: {output:?}");
    }
}

#[test]
fn a_pipe_in_place_of_the_policy_does_not_freeze_the_console() {
    let fixture = Fixture::new("");
    let policy = fixture.home.path().join("policy-devnet.toml");
    fs::write(&policy, "preset = \"demo\"\n").unwrap();
    let console = Console::open(&fixture, "sleep 600", &[]);
    let mut keys = console.pair.master.take_writer().unwrap();
    until("the console runs", || console.shown().contains("RUNNING").then_some(()));
    replace_by_pipe(&policy);
    // The session reads the file again within this time.
    std::thread::sleep(Duration::from_secs(5));
    keys.write_all(b":").unwrap();
    keys.flush().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    keys.write_all(b"halt attacked\r").unwrap();
    keys.flush().unwrap();
    let stop = StopFile::in_folder(&fixture.home.path().join("data"));
    until("the console has set the halt", || (stop.read().level() == Some(StopLevel::Halt)).then_some(()));
}

/// Output and messages of a command with this address book.
fn with_book(book: &Value) -> String {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("book.json");
    fs::write(&file, book.to_string()).unwrap();
    let arguments = ["--rpc", "ethereum=http://127.0.0.1:9", "call", "get_chain_status", "{\"chain\":\"ethereum\"}"];
    let (out, messages, succeeded) = run(bardo(home.path()).arg("--book").arg(&file).args(arguments));
    assert!(!succeeded);
    String::from_utf8_lossy(&out).into_owned() + &messages
}

#[test]
fn a_book_that_calls_multicall3_the_router_of_mainnet_is_refused() {
    let multicall = "0xcA11bde05977b3631167028862bE2a173976CA11";
    let contracts = json!({ "universalRouter": multicall });
    let messages = with_book(&json!({ "chains": [{ "name": "ethereum", "chain_id": 1, "contracts": contracts }] }));
    assert!(messages.contains("changes a bundled entry"), "{messages}");
}

#[test]
fn a_book_with_its_own_settler_on_mainnet_is_refused() {
    let (settler, hash) = (format!("0x{}", "5".repeat(40)), format!("0x{}", "7".repeat(64)));
    let chain = json!({
        "name": "ethereum", "chain_id": 1, "contracts": { "originSettler": settler },
        "code_hashes": { "originSettler": hash },
    });
    let messages = with_book(&json!({ "chains": [chain] }));
    assert!(
        messages.contains("trusted_entries") && messages.contains(&settler) && messages.contains(&hash),
        "{messages}"
    );
}

#[test]
fn a_book_that_gives_another_chain_mainnets_name_is_refused() {
    let messages = with_book(&json!({ "chains": [{ "name": "ethereum", "chain_id": 424_242 }] }));
    assert!(messages.contains("another chain's name"), "{messages}");
}

#[test]
fn a_book_for_a_chain_without_a_bundled_book_needs_trusted_entries() {
    let (router, feed) = (format!("0x{}", "5".repeat(40)), format!("0x{}", "6".repeat(40)));
    let chain = json!({
        "name": "mine", "chain_id": 424_242, "contracts": { "v2Router": router },
        "tokens": { "USDC": { "address": feed, "decimals": 6 } },
        "feeds": { "USDC / USD": { "address": feed, "decimals": 8 } },
    });
    let messages = with_book(&json!({ "chains": [chain] }));
    for line in [
        format!("424242 contract v2Router {router}"),
        format!("424242 token USDC {feed} 6"),
        format!("424242 feed USDC / USD {feed} 8"),
    ] {
        assert!(messages.contains("trusted_entries") && messages.contains(&line), "{line}: {messages}");
    }
}

#[test]
fn a_book_that_calls_multicall3_a_router_on_another_chain_is_refused() {
    let multicall = "0xcA11bde05977b3631167028862bE2a173976CA11";
    let chain = json!({ "name": "mine", "chain_id": 424_242, "contracts": { "v2Router": multicall } });
    let messages = with_book(&json!({ "chains": [chain] }));
    assert!(messages.contains("never may, because it is Multicall3"), "{messages}");
}

#[test]
fn an_endpoint_over_a_network_without_encryption_is_refused() {
    let home = tempfile::tempdir().unwrap();
    for url in [
        "http://rpc.example",
        "http://127.0.0.1.evil.example",
        "http://127.0.0.1@evil.example",
        "http://[::ffff:1.2.3.4]",
        "ws://rpc.example",
    ] {
        let rpc = format!("ethereum={url}");
        for command in [["doctor"].as_slice(), &["call", "get_chain_status", "{\"chain\":\"ethereum\"}"]] {
            let (out, messages, succeeded) = run(bardo(home.path()).args(["--rpc", &rpc]).args(command));
            let both = String::from_utf8_lossy(&out).into_owned() + &messages;
            assert!(!succeeded && both.contains("allow_insecure_rpc"), "{url}: {both}");
        }
    }
}
