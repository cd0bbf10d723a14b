//! A script in the operator's terminal: lifting a halt, loosening a policy, reusing an approval.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256};
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::error::ErrorCode;
use bardo::base::id::GolemId;
use bardo::base::model::StopLevel;
use bardo::base::secret::Password;
use bardo::base::text::SafeText;
use bardo::chain::network::KnownContract;
use bardo::chain::sender;
use bardo::custody::keystore::{KeyName, Keystore, KeystoreError};
use bardo::custody::{Reauthentication, ReauthenticationError, SecretKey};
use bardo::fabric::{CheckReason, Fabric, HoldingsSale};
use bardo::runtime::actor::{Actor, ActorContext};
use bardo::runtime::data::{ALL_MIGRATIONS, DataFolder};
use bardo::runtime::reconcile::{self, AccountReconciliation};
use bardo::runtime::session::{Session, SessionOptions};
use bardo::safety::approval::{
    AnswerError, ApprovalNeed, ApprovalQueue, ApprovalReason, AskRefused, AskedBy, Decision, MAX_OPEN, MAX_UNANSWERED,
    OperatorReply, requirement,
};
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::operator_proof::{Authorisation, ProofError};
use bardo::safety::pipeline::Preview;
use bardo::safety::policy::{PolicyKeeper, PolicyPreset};
use bardo::safety::proposal::Proposal;
use bardo::safety::stop::{ActiveStop, RestoredCopy, StopError, StopFile};
use bardo::sandbox::{BlockPace, MarketMode, SandboxConfig};
use bardo::session::handle::{AddressedCommand, SessionCommand, SessionHandle, SessionNews};
use bardo::session::market::MarketUpdate;
use bardo::session::questions::{Confirmation, OperatorAnswer, QuestionKey, RequestSubject};
use bardo::store::{Store, StoreConfig};
use futures::future::BoxFuture;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::{Value, json};

use crate::real_network::{self, RealNetwork};
use bardo_testkit::harness::TestHarness;
use bardo_testkit::proof::proof;

const PASSWORD: &str = "correct horse battery";
const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const OTHER_KEY: &str = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";

/// Texts of key files, created once: key derivation is slow by design.
static KEY_FILE: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| key_file(KEY, PASSWORD));
static OTHER_KEY_FILE: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| key_file(OTHER_KEY, "attackers own"));

fn key_file(key: &str, password: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let secret = SecretKey::from_hex(key).unwrap();
    let keystore = Keystore::at(folder.path().join("keys"));
    let password = Password::new(password.to_owned());
    let entry = keystore.create(&"made".parse().unwrap(), &secret, &password, &"real-1".parse().unwrap()).unwrap();
    std::fs::read_to_string(entry.path).unwrap()
}

/// Home with one key file in its data directory.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    add_key(home.path(), "main", &KEY_FILE);
    home
}

fn add_key(home: &Path, name: &str, text: &str) {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    let keys = data(home).join("keys");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&keys).unwrap();
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(keys.join(format!("{name}.json"))).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn data(home: &Path) -> PathBuf {
    home.join("data")
}

fn stop_file(home: &Path) -> StopFile {
    StopFile::in_folder(&data(home))
}

/// Home with a key and a halt in force.
fn halted() -> tempfile::TempDir {
    let home = home();
    stop_file(home.path()).raise(StopLevel::Halt, "odd prices", "operator", now()).unwrap();
    home
}

fn now() -> u64 {
    SystemClock.now_millis()
}

fn is_halted(home: &Path) -> bool {
    stop_file(home).read().level() >= Some(StopLevel::Halt)
}

/// The binary with an environment of only this home.
fn bardo(home: &Path, arguments: &[&str]) -> Process {
    let mut command = Process::new(env!("CARGO_BIN_EXE_bardo"));
    command.env_clear().env("BARDO_HOME", home).args(arguments);
    command
}

/// Runs the binary on a terminal of its own. Each of `lines` is a prompt and the text that is typed once it appears.
/// Returns the output and the exit code.
fn on_a_terminal(home: &Path, variables: &[(&str, &str)], arguments: &[&str], lines: &[(&str, &str)]) -> (String, u32) {
    on_a_terminal_with(home, variables, arguments, lines, |_| {})
}

/// Runs the binary on a terminal, and calls a function before each line is typed.
fn on_a_terminal_with(
    home: &Path,
    variables: &[(&str, &str)],
    arguments: &[&str],
    lines: &[(&str, &str)],
    meanwhile: impl Fn(usize),
) -> (String, u32) {
    let pty = native_pty_system().openpty(PtySize { rows: 50, cols: 200, pixel_width: 0, pixel_height: 0 }).unwrap();
    // The shell can open a descriptor if one is requested.
    let mut command = CommandBuilder::new("/bin/sh");
    command.env_clear();
    command.env("BARDO", env!("CARGO_BIN_EXE_bardo"));
    command.env("BARDO_HOME", home);
    command.env("TERM", "xterm-256color");
    variables.iter().for_each(|(name, value)| command.env(name, value));
    command.args(["-c", &format!("\"$BARDO\" {}", arguments.join(" "))]);
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut reader = pty.master.try_clone_reader().unwrap();
    let shown: Arc<Mutex<Vec<u8>>> = Arc::default();
    let sink = Arc::clone(&shown);
    let reading = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            sink.lock().unwrap().extend_from_slice(&buffer[..count]);
        }
    });
    let mut writer = pty.master.take_writer().unwrap();
    let text = || String::from_utf8_lossy(&shown.lock().unwrap()).into_owned();
    let mut from = 0;
    let start = Instant::now();
    for (number, (before, typed)) in lines.iter().enumerate() {
        loop {
            if let Some(at) = text().get(from..).and_then(|rest| rest.find(before)) {
                from += at + before.len();
                break;
            }
            let ended = child.try_wait().unwrap().is_some();
            assert!(!ended && start.elapsed() < Duration::from_secs(60), "never shown: {before}\n{}", text());
            std::thread::sleep(Duration::from_millis(5));
        }
        meanwhile(number);
        writer.write_all(typed.as_bytes()).unwrap();
        writer.flush().unwrap();
    }
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.exit_code();
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it does not end\n{}", text());
        std::thread::sleep(Duration::from_millis(5));
    };
    drop(writer);
    drop(pty.master);
    reading.join().unwrap();
    (text(), code)
}

/// Prompts of `bardo resume`, in order.
const WORD: &str = "Type `resume` to confirm: ";
const ASKED: &str = "password of the key main: ";

#[test]
fn a_script_that_pipes_the_confirmation_into_resume_lifts_no_stop() {
    let home = halted();
    let mut child = bardo(home.path(), &["resume"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("resume\n{PASSWORD}\n").as_bytes()).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(3));
    assert!(is_halted(home.path()));
}

#[test]
fn a_script_on_a_terminal_lifts_no_stop_without_the_password() {
    let home = halted();
    // The word alone, then other inputs that a script would try.
    for tried in ["\r", "resume\r", "yes\r", "\u{3}", "\u{4}", "\u{1b}"] {
        let (shown, code) = on_a_terminal(home.path(), &[], &["resume"], &[(WORD, "resume\n"), (ASKED, tried)]);
        assert_ne!(code, 0, "{tried:?}: {shown}");
        assert!(is_halted(home.path()), "{tried:?}");
        // Each counts as a first guess here.
        let _none = std::fs::remove_file(data(home.path()).join("password-attempts"));
    }
}

#[test]
fn the_password_lifts_a_halt_and_is_never_shown() {
    let home = halted();
    let typed = format!("{PASSWORD}\r");
    let (shown, code) = on_a_terminal(home.path(), &[], &["resume"], &[(WORD, "resume\n"), (ASKED, &typed)]);
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("horse"), "{shown}");
    assert_eq!(stop_file(home.path()).read(), ActiveStop::None);
}

#[test]
fn wrong_passwords_are_slowed_down_and_recorded() {
    let home = halted();
    // Creates a ledger, whose audit log records the attempts.
    assert!(bardo(home.path(), &["halt", "--json"]).output().unwrap().status.success());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = bardo::runtime::data::DataFolder::at(&data(home.path()));
    drop(runtime.block_on(folder.open_real_ledger(now())).unwrap());
    let attempts = data(home.path()).join("password-attempts");
    let recorded = || -> Value { serde_json::from_slice(&std::fs::read(&attempts).unwrap()).unwrap() };
    let begun = now();
    for attempt in 1..=3 {
        let typed = format!("guess {attempt}\r");
        let (shown, code) = on_a_terminal(home.path(), &[], &["resume"], &[(WORD, "resume\n"), (ASKED, &typed)]);
        assert!(code != 0 && !shown.contains("in a row"), "{shown}");
        assert_eq!(recorded()["wrong"], attempt, "each guess is recorded");
        assert!((begun..=now()).contains(&recorded()["last"].as_u64().unwrap()), "{}", recorded());
    }
    // On a slow machine the pause would end before the next process starts. With the last guess in the future, the
    // whole pause always remains: an earlier clock does not shorten it.
    let later = json!({ "wrong": 3, "last": now() + 3_600_000 });
    std::fs::write(&attempts, later.to_string()).unwrap();
    // Now even the correct password must wait.
    for password in ["guess 4", PASSWORD] {
        let typed = format!("{password}\r");
        let (shown, code) = on_a_terminal(home.path(), &[], &["resume"], &[(WORD, "resume\n"), (ASKED, &typed)]);
        assert!(
            code == 3 && shown.contains("3 wrong passwords in a row") && shown.contains("Try again in 2 s"),
            "{shown}"
        );
        assert_eq!(recorded(), later, "what is refused unchecked is no guess");
    }
    assert!(is_halted(home.path()));
    let log = bardo(home.path(), &["log", "--json"]).output().unwrap().stdout;
    let log = String::from_utf8(log).unwrap();
    assert!(log.matches("password:refused").count() >= 5, "{log}");
    assert!(!log.contains("guess"), "no password is recorded: {log}");
}

#[test]
fn a_password_on_the_command_line_or_in_the_environment_is_not_accepted() {
    let home = halted();
    let given = bardo(home.path(), &["resume", "--password", PASSWORD]).output().unwrap();
    assert_eq!(given.status.code(), Some(2));
    let variables: Vec<(&str, &str)> =
        ["BARDO_PASSWORD", "BARDO_KEY_PASSWORD", "PASSWORD"].into_iter().map(|name| (name, PASSWORD)).collect();
    let (shown, code) = on_a_terminal(home.path(), &variables, &["resume"], &[(WORD, "resume\n"), (ASKED, "\u{3}")]);
    assert_ne!(code, 0, "{shown}");
    assert!(is_halted(home.path()));
}

#[test]
fn a_descriptor_gives_the_password_but_not_the_confirmation() {
    let home = halted();
    let file = home.path().join("secret");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let redirected = format!("3<{}", file.display());
    let arguments = ["resume", "--password-fd", "3", redirected.as_str()];
    let (shown, code) = on_a_terminal(home.path(), &[], &arguments, &[(WORD, "no\n")]);
    assert!(code == 4 && is_halted(home.path()), "{shown}");
    let (shown, code) = on_a_terminal(home.path(), &[], &arguments, &[(WORD, "resume\n")]);
    assert!(code == 0 && !is_halted(home.path()), "{shown}");
}

#[test]
fn the_attackers_own_key_lifts_no_stop() {
    let home = halted();
    add_key(home.path(), "aaa", &OTHER_KEY_FILE);
    let lines = [(WORD, "resume\n"), ("password of the key aaa: ", "attackers own\r"), (ASKED, "attackers own\r")];
    let (shown, code) = on_a_terminal(home.path(), &[], &["resume"], &lines);
    assert!(code != 0 && is_halted(home.path()), "{shown}");
}

#[test]
fn another_network_or_paper_mode_does_not_bypass_the_password() {
    for flags in [["--network", "devnet"].as_slice(), &["--paper"], &["--network", "sepolia"]] {
        let home = halted();
        let arguments: Vec<&str> = flags.iter().copied().chain(["resume"]).collect();
        let (shown, code) = on_a_terminal(home.path(), &[], &arguments, &[(WORD, "resume\n"), (ASKED, "\u{3}")]);
        assert!(code != 0 && is_halted(home.path()), "{flags:?}: {shown}");
    }
}

#[test]
fn an_unreadable_key_file_keeps_the_halt() {
    let home = halted();
    std::fs::write(data(home.path()).join("keys/main.json"), "{}").unwrap();
    let (shown, code) = on_a_terminal(home.path(), &[], &["resume"], &[(WORD, "resume\n")]);
    assert!(code != 0 && is_halted(home.path()), "{shown}");
}

#[test]
fn a_removed_stop_file_keeps_the_halt() {
    let home = halted();
    std::fs::remove_file(data(home.path()).join("STOP")).unwrap();
    assert!(is_halted(home.path()));
    let typed = format!("{PASSWORD}\r");
    let (shown, code) = on_a_terminal(home.path(), &[], &["resume"], &[(WORD, "resume\n"), (ASKED, &typed)]);
    assert!(shown.contains("removed or replaced"), "{shown}");
    assert_eq!(code, 0, "{shown}");
    assert_eq!(stop_file(home.path()).read(), ActiveStop::None);
}

#[test]
fn a_renamed_stop_file_keeps_the_halt() {
    let home = halted();
    let stop = data(home.path()).join("STOP");
    std::fs::rename(&stop, stop.with_extension("old")).unwrap();
    assert!(is_halted(home.path()));
}

#[test]
fn a_stop_file_replaced_by_a_lower_level_keeps_the_halt() {
    let home = halted();
    let lower = json!({ "level": "pause", "reason": "", "by": "operator", "at": 1, "id": "0" });
    std::fs::write(data(home.path()).join("STOP"), lower.to_string()).unwrap();
    assert!(is_halted(home.path()));
}

#[test]
fn a_link_in_the_place_of_the_stop_file_keeps_the_halt() {
    let home = halted();
    let stop = data(home.path()).join("STOP");
    let lower = home.path().join("lower");
    let text = json!({ "level": "exit-only", "reason": "", "by": "operator", "at": 1, "id": "0" }).to_string();
    std::fs::write(&lower, text).unwrap();
    for target in [lower.as_path(), Path::new("/dev/null"), Path::new("/nowhere")] {
        std::fs::remove_file(&stop).unwrap();
        std::os::unix::fs::symlink(target, &stop).unwrap();
        assert!(is_halted(home.path()), "{}", target.display());
    }
}

/// Password check of this home, and its correct passwords.
fn gate(home: &Path) -> (Reauthentication, Vec<(KeyName, Password)>) {
    let gate = Reauthentication::new(&data(home), data(home).join("keys"));
    (gate, vec![("main".parse().unwrap(), Password::new(PASSWORD.to_owned()))])
}

#[test]
fn a_proof_lifts_only_the_stop_that_was_shown() {
    let home = halted();
    let file = stop_file(home.path());
    let shown = file.read();
    let (gate, passwords) = gate(home.path());
    let at = now();
    let proof = |to| gate.prove(Authorisation::lower_stop(&shown, to), false, &passwords, at).unwrap();
    // For another level.
    let refused = file.lower(&shown, None, "", "script", at, proof(Some(StopLevel::Pause)));
    assert!(matches!(refused, Err(StopError::Proof(ProofError::OtherAction))), "{refused:?}");
    // For a stop that a higher one has replaced.
    let earlier = proof(None);
    file.raise(StopLevel::Revoke, "the key may be stolen", "operator", at).unwrap();
    let refused = file.lower(&file.read(), None, "", "script", at, earlier);
    assert!(matches!(refused, Err(StopError::Proof(ProofError::OtherAction))), "{refused:?}");
    assert_eq!(file.read().level(), Some(StopLevel::Revoke));
}

#[test]
fn an_old_proof_or_one_for_another_folder_lifts_no_stop() {
    let (home, other) = (halted(), tempfile::tempdir().unwrap());
    let file = stop_file(home.path());
    let shown = file.read();
    let wanted = Authorisation::lower_stop(&shown, None);
    let (gate, passwords) = gate(home.path());
    let at = now();
    for moment in [at + 60_000, at - 1] {
        let proof = gate.prove(wanted.clone(), false, &passwords, at).unwrap();
        let refused = file.lower(&shown, None, "", "script", moment, proof);
        assert!(matches!(refused, Err(StopError::Proof(ProofError::Expired))), "{refused:?}");
    }
    // A folder without keys creates proofs for anyone, but they are valid there only.
    let keyless = Reauthentication::new(other.path(), other.path().join("keys"));
    let proof = keyless.prove(wanted, false, &[], at).unwrap();
    let refused = file.lower(&shown, None, "", "script", at, proof);
    assert!(matches!(refused, Err(StopError::Proof(ProofError::OtherFolder))), "{refused:?}");
    assert!(is_halted(home.path()));
}

#[test]
fn an_approval_needs_the_password_of_the_signing_account() {
    let home = home();
    add_key(home.path(), "mine", &OTHER_KEY_FILE);
    let (gate, _) = gate(home.path());
    let account = Keystore::at(data(home.path()).join("keys")).entry(&"main".parse().unwrap()).unwrap().address;
    let wanted = |account| Authorisation::Approve { permit_id: bardo::base::id::PermitId::random(), account };
    // The attacker's own key, and their own password for the account's key.
    let own = [("mine".parse().unwrap(), Password::new("attackers own".to_owned()))];
    let refused = gate.prove(wanted(account), false, &own, now()).unwrap_err();
    assert!(matches!(refused, ReauthenticationError::Missing { .. }), "{refused}");
    let wrong = [("main".parse().unwrap(), Password::new("attackers own".to_owned()))];
    let refused = gate.prove(wanted(account), false, &wrong, now()).unwrap_err();
    assert!(matches!(refused, ReauthenticationError::Key(KeystoreError::Password { .. })), "{refused}");
    // An account without a key in this folder.
    let refused = gate.prove(wanted(Address::repeat_byte(9)), false, &own, now()).unwrap_err();
    assert!(matches!(refused, ReauthenticationError::NoKeyOf { .. }), "{refused}");
}

/// Minimal server that a policy accepts as Ethereum's mainnet.
fn mainnet() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ethereum=http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || while answer(&mut stream).is_some() {});
        }
    });
    url
}

fn answer(stream: &mut std::net::TcpStream) -> Option<()> {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        text.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&text).to_lowercase();
    let length = head.split("content-length:").nth(1)?.lines().next()?.trim().parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let asked: Value = serde_json::from_slice(&body).ok()?;
    let one = |asked: &Value| match asked["method"].as_str() {
        Some("eth_chainId") => json!({ "jsonrpc": "2.0", "id": asked["id"], "result": "0x1" }),
        _ => json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -32601, "message": "not found" } }),
    };
    let said = match asked.as_array() {
        Some(all) => Value::from_iter(all.iter().map(one)),
        None => one(&asked),
    };
    let said = said.to_string();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", said.len());
    stream.write_all(format!("{head}{said}").as_bytes()).ok()
}

/// Home with a key, on a real network, with a pending looser policy.
fn with_a_looser_policy() -> (tempfile::TempDir, String) {
    let (home, url) = (home(), mainnet());
    let policy = home.path().join("policy.toml");
    std::fs::write(&policy, "preset = \"paranoid\"\nmax_gas_usd = \"3\"\n").unwrap();
    // A new ledger accepts the file as it is.
    let first = bardo(home.path(), &["--rpc", &url, "policy", "accept"]).stdin(Stdio::null()).output().unwrap();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    std::fs::write(&policy, "preset = \"paranoid\"\nmax_gas_usd = \"44\"\n").unwrap();
    (home, url)
}

/// True if the looser policy is still pending.
fn waits(home: &Path, url: &str) -> bool {
    let asked = bardo(home, &["--rpc", url, "policy", "accept"]).stdin(Stdio::null()).output().unwrap();
    String::from_utf8(asked.stderr).unwrap().contains("max_gas_usd")
}

const LOOSEN: &str = "Type `loosen` to confirm: ";

#[test]
fn a_looser_policy_needs_the_password_on_a_real_network() {
    let (home, url) = with_a_looser_policy();
    let accept = ["--rpc", url.as_str(), "policy", "accept"];
    let (shown, code) = on_a_terminal(home.path(), &[], &accept, &[(LOOSEN, "loosen\n"), (ASKED, "guess\r")]);
    assert!(code != 0 && waits(home.path(), &url), "{shown}");
    let typed = format!("{PASSWORD}\r");
    let (shown, code) = on_a_terminal(home.path(), &[], &accept, &[(LOOSEN, "loosen\n"), (ASKED, &typed)]);
    assert!(code == 0 && !waits(home.path(), &url), "{shown}");
}

#[test]
fn a_policy_that_changed_after_it_was_shown_is_not_accepted() {
    let (home, url) = with_a_looser_policy();
    let policy = home.path().join("policy.toml");
    let accept = ["--rpc", url.as_str(), "policy", "accept"];
    let typed = format!("{PASSWORD}\r");
    // Once between the display and the word, once between the word and the password.
    for moment in 0..2 {
        std::fs::write(&policy, "preset = \"paranoid\"\nmax_gas_usd = \"44\"\n").unwrap();
        let change = |number| {
            if number == moment {
                std::fs::write(&policy, format!("preset = \"paranoid\"\nmax_gas_usd = \"999{moment}\"\n")).unwrap();
            }
        };
        let lines = [(LOOSEN, "loosen\n"), (ASKED, typed.as_str())];
        let (shown, code) = on_a_terminal_with(home.path(), &[], &accept, &lines, change);
        assert!(code != 0 && shown.contains("44") && !shown.contains("999"), "{shown}");
        assert!(shown.contains("changed since") && waits(home.path(), &url), "{shown}");
    }
}

#[test]
fn resetting_the_breaker_needs_the_password_on_a_real_network() {
    let (home, url) = with_a_looser_policy();
    let reset = ["--rpc", url.as_str(), "policy", "reset", "breaker"];
    let lines = [("Type `reset` to confirm: ", "reset\n"), (ASKED, "guess\r")];
    let (shown, code) = on_a_terminal(home.path(), &[], &reset, &lines);
    assert!(code != 0 && !shown.contains("the breaker is closed"), "{shown}");
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

/// Console session on mainnet in paper mode, with the account's key unlocked.
struct Rehearsal {
    home: tempfile::TempDir,
    handle: SessionHandle,
}

impl Rehearsal {
    async fn open() -> Self {
        let (home, url) = (tempfile::tempdir().unwrap(), mainnet());
        // A key belongs to one ledger and signs in no other.
        let ledger = DataFolder::at(&data(home.path())).open_real_ledger(now()).await.unwrap();
        let keystore = Keystore::at(data(home.path()).join("keys"));
        let (secret, password) = (SecretKey::from_hex(KEY).unwrap(), Password::new(PASSWORD.to_owned()));
        keystore.create(&"main".parse().unwrap(), &secret, &password, &ledger.id().parse().unwrap()).unwrap();
        drop(ledger);
        std::fs::write(home.path().join("policy.toml"), "preset = \"paranoid\"\n").unwrap();
        let variables = [("BARDO_HOME".to_owned(), home.path().to_str().unwrap().to_owned())];
        let flags = ConfigFlags { rpc: vec![url], account: Some("main".to_owned()), ..ConfigFlags::default() };
        let config = Config::load(&Environment::from_iter(variables), &flags).unwrap();
        let password = Some(Password::new(PASSWORD.to_owned()));
        let options = SessionOptions { paper: true, password, ..SessionOptions::default() };
        Self { home, handle: Session::open_with(config, options, Box::new(Nobody)) }
    }

    async fn send(&self, command: SessionCommand) {
        self.handle.commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    }

    /// Waits for the first message for which `pick` returns a value.
    async fn until<T>(&mut self, what: &str, mut pick: impl FnMut(SessionNews) -> Option<T>) -> T {
        let waiting = async {
            loop {
                let news = self.handle.news.recv().await.unwrap_or_else(|| panic!("it ended before {what}"));
                if let SessionNews::Market(MarketUpdate::Fault { message, .. }) = &news {
                    println!("{message}");
                }
                if let Some(found) = pick(news) {
                    return found;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap_or_else(|_| panic!("never: {what}"))
    }

    /// Approves the request under `key` with `password`; returns the success and the message, which contains `said` on
    /// success.
    async fn approve(&mut self, key: QuestionKey, password: Option<&str>, said: &str) -> (bool, String) {
        let password = password.map(|typed| Password::new(typed.to_owned()));
        let (answer, confirmation) = (OperatorAnswer::Once, Confirmation::default());
        self.send(SessionCommand::Answer { key, answer, confirmation, password }).await;
        self.until("an answer to the approval", |news| match news {
            SessionNews::CommandResult { done, words } if words.as_str().contains(said) || !done => {
                Some((done, words.to_string()))
            }
            _ => None,
        })
        .await
    }

    /// Tries to approve the request about `about` without a password and with a wrong one, then approves it with the
    /// correct one and expects the message `said`.
    async fn takes_the_password(&mut self, about: impl Fn(&RequestSubject) -> bool, said: &str) {
        let asked = self
            .until("a question", |news| match news {
                SessionNews::Questions(questions) => questions.iter().find(|one| about(&one.about)).cloned(),
                _ => None,
            })
            .await;
        assert!(asked.needs_password, "{asked:?}");
        for wrong in [None, Some("guess")] {
            let (done, why) = self.approve(asked.key, wrong, said).await;
            assert!(!done && why.contains("password"), "{wrong:?}: {why}");
        }
        let (done, words) = self.approve(asked.key, Some(PASSWORD), said).await;
        assert!(done, "{words}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaving_paper_mode_needs_the_password_on_a_real_network() {
    let mut console = Rehearsal::open().await;
    console.until("a session", |news| matches!(news, SessionNews::Ready(_)).then_some(())).await;
    console.send(SessionCommand::AskToLeavePaper).await;
    console.takes_the_password(|about| *about == RequestSubject::LeavePaper, "paper mode is off").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selling_everything_needs_the_password_on_a_real_network() {
    let mut console = Rehearsal::open().await;
    console.until("a session", |news| matches!(news, SessionNews::Ready(_)).then_some(())).await;
    stop_file(console.home.path()).raise(StopLevel::Flatten, "a script", "somebody", now()).unwrap();
    console.takes_the_password(RequestSubject::sells_holdings, "as far as the policy allows").await;
}

#[test]
fn accepting_the_chains_state_needs_the_password_on_a_real_network() {
    let (network, home) = (RealNetwork::start(32), tempfile::tempdir().unwrap());
    network.settle_in(home.path(), "");
    // The ledger knows the account before its first transaction, which another program then sends.
    let database = data(home.path()).join("ledger/real/ledger.db");
    let ledger = rusqlite::Connection::open(&database).unwrap();
    let account = real_network::ACCOUNT.parse::<Address>().unwrap();
    let known = "INSERT INTO sender_lane (chain_id, account, next_nonce) VALUES (?1, ?2, 0)";
    ledger.execute(known, rusqlite::params![real_network::CHAIN_ID, account.as_slice()]).unwrap();
    network.use_account_elsewhere();
    let next = || -> i64 { ledger.query_row("SELECT next_nonce FROM sender_lane", [], |row| row.get(0)).unwrap() };
    let arguments = network.arguments();
    let reconcile: Vec<&str> = arguments.iter().map(String::as_str).chain(["reconcile"]).collect();
    let word = ("Type `reconcile` to confirm: ", "reconcile\n");
    for tried in ["\r", "guess\r", "\u{3}"] {
        let (shown, code) = on_a_terminal(home.path(), &[], &reconcile, &[word, (ASKED, tried)]);
        assert!(code != 0 && next() == 0, "{tried:?}: {shown}");
    }
    // The word piped into stdin does not come from a terminal.
    let mut piped = bardo(home.path(), &reconcile).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(format!("reconcile\n{PASSWORD}\n").as_bytes()).unwrap();
    assert!(!piped.wait().unwrap().success());
    assert_eq!(next(), 0);
    let typed = format!("{}\r", real_network::PASSWORD);
    let (shown, code) = on_a_terminal(home.path(), &[], &reconcile, &[word, (ASKED, &typed)]);
    assert!(code == 0 && next() == 1, "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chains_state_is_accepted_only_if_unchanged_since_the_confirmation() {
    let (home, clock): (_, Arc<dyn Clock>) = (tempfile::tempdir().unwrap(), Arc::new(SystemClock));
    let variables = [("BARDO_HOME".to_owned(), home.path().to_str().unwrap().to_owned())];
    let config = Config::load(&Environment::from_iter(variables), &ConfigFlags::default()).unwrap();
    let sandbox = SandboxConfig {
        seed: 1,
        start_time: now() / 1_000,
        pace: BlockPace::OnTransaction,
        clock: Some(clock.clone()),
        market: MarketMode::Off,
        keeper: false,
    };
    let opened = bardo::runtime::open(&config, move || sandbox, clock.clone()).await.unwrap();
    let ledger = DataFolder::of(&config).open_ledger(&opened).await.unwrap();
    let account: Address = real_network::ACCOUNT.parse().unwrap();
    let shown = reconcile::standings(&opened, &ledger, &clock, account, &[]).await.unwrap().remove(0);
    let other = AccountReconciliation {
        chain_next: shown.chain_next + 1,
        chain_pending: shown.chain_pending + 1,
        ..shown.clone()
    };
    let take_over = async |shown: &AccountReconciliation, confirmed: &AccountReconciliation| {
        let proof = proof(home.path(), confirmed.authorisation(), now());
        reconcile::take_over(&opened, &ledger, &clock, shown, "a test", proof).await
    };
    let next = || ledger.store.read(|connection| sender::lane(connection, shown.chain_id, account)).unwrap().next;
    // Confirmed as shown, while the chain's state has changed since.
    let refused = take_over(&other, &other).await.unwrap_err();
    assert!(refused.message().contains("state has changed"), "{refused}");
    // The chain's present state, confirmed for other nonces.
    let refused = take_over(&shown, &other).await.unwrap_err();
    assert_eq!((refused.code(), next()), (ErrorCode::ApprovalRequired, None), "{refused}");
    take_over(&shown, &shown).await.unwrap();
    assert_eq!(next(), Some(shown.chain_next));
}

#[test]
fn a_devnets_proof_without_a_password_resets_nothing_elsewhere() {
    let home = home();
    let (gate, _) = gate(home.path());
    let account = Keystore::at(data(home.path()).join("keys")).entry(&"main".parse().unwrap()).unwrap().address;
    let policy = Authorisation::AcceptPolicy { hash: B256::ZERO };
    for wanted in [policy, Authorisation::LeavePaper { account }, Authorisation::SellHoldings { account }] {
        assert!(gate.prove(wanted.clone(), true, &[], now()).is_ok());
        let refused = gate.prove(wanted, false, &[], now()).unwrap_err();
        assert!(matches!(refused, ReauthenticationError::Missing { .. }), "{refused}");
    }
    // A stop applies to every network, so a devnet is no exception.
    let wanted = Authorisation::lower_stop(&ActiveStop::None, None);
    let refused = gate.prove(wanted, true, &[], now()).unwrap_err();
    assert!(matches!(refused, ReauthenticationError::Missing { .. }), "{refused}");
}

#[tokio::test]
async fn deleting_the_policy_from_the_ledger_does_not_make_a_looser_file_accepted() {
    let (tight, loose) = ("preset = \"demo\"\nmax_gas_usd = \"5\"\n", "preset = \"demo\"\nmax_gas_usd = \"50\"\n");
    let rules = async |folder: &Path| {
        let store = Store::open(StoreConfig::at(folder.join("ledger.db")), ALL_MIGRATIONS).unwrap();
        let keeper = Arc::new(PolicyKeeper::open(folder.join("policy.toml"), PolicyPreset::ReadOnly).unwrap());
        let rules = OperatorPolicyEngine::new(keeper, StopFile::in_folder(folder), store, []);
        rules.resume(SystemClock.now_millis()).await.unwrap();
        rules
    };
    for tamper in [
        "DELETE FROM policy_held",
        "DELETE FROM policy_held; DELETE FROM audit_entry",
        "DELETE FROM policy_held; DELETE FROM audit_entry WHERE kind LIKE 'policy:%'",
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("policy.toml"), tight).unwrap();
        // A new ledger accepts the file as it is.
        let first = rules(folder.path()).await;
        assert!(first.pending().is_none());
        drop(first);
        rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap().execute_batch(tamper).unwrap();
        std::fs::write(folder.path().join("policy.toml"), loose).unwrap();
        // The same for every later process.
        for _ in 0..2 {
            let after = rules(folder.path()).await;
            let waits = after.pending().unwrap_or_else(|| panic!("nobody was asked: {tamper}"));
            assert_ne!(after.policy().hash(), waits.policy.hash(), "{tamper}");
            let (holds, asked) = (after.policy().rules().max_gas_usd, waits.policy.rules().max_gas_usd);
            assert_ne!(holds, asked, "{tamper}");
        }
    }
}

/// Wall clock that a test sets forward or back, and a monotonic one that only a test advances, in milliseconds.
#[derive(Debug, Default)]
struct Clocks {
    wall: AtomicI64,
    steady: AtomicU64,
}

impl Clock for Clocks {
    fn now_millis(&self) -> u64 {
        now().saturating_add_signed(self.wall.load(Ordering::SeqCst))
    }

    fn steady_millis(&self) -> u64 {
        self.steady.load(Ordering::SeqCst)
    }
}

/// Approval queue with such clocks, and an agent's actions on the devnet.
struct Queue {
    world: TestHarness,
    clocks: Arc<Clocks>,
    approvals: ApprovalQueue,
}

const USDC: u64 = 1_000_000;

impl Queue {
    async fn new(account: usize) -> Self {
        let world = TestHarness::new(account).await;
        let reasons = vec![ApprovalReason::Found(CheckReason::Transfer)];
        *world.book.need.lock().unwrap() = ApprovalNeed::Approval { reasons };
        let clocks = Arc::<Clocks>::default();
        let approvals =
            ApprovalQueue::new(clocks.clone(), Fabric::in_memory(64, clocks.clone()), Duration::from_secs(300));
        Self { world, clocks, approvals }
    }

    /// The agent's swap of this amount of USDC for WETH.
    async fn swap(&self, usdc: u64) -> Arc<Preview> {
        self.preview("ada", self.world.swap(usdc).await).await
    }

    async fn preview(&self, golem: &str, proposal: Proposal) -> Arc<Preview> {
        let proposal = Proposal { golem_id: GolemId::stored(golem).unwrap(), ..proposal };
        Arc::new(self.world.preview(proposal).await.unwrap())
    }

    fn refuse(&self, preview: &Preview) {
        let reason = SafeText::clean("no", 10);
        self.approvals.answer(preview.permit.permit_id, OperatorAnswer::Refuse { reason }).unwrap();
    }

    /// Requests approval and rejects it. Error: the request was not accepted; seconds until it may be.
    async fn refused(&self, preview: Arc<Preview>) -> Result<(), u64> {
        self.refused_to(AskedBy::default(), preview).await
    }

    /// As [`Self::refused`], for a request of somebody else through the agent's tools.
    async fn refused_to(&self, asked_by: AskedBy, preview: Arc<Preview>) -> Result<(), u64> {
        let mut ticket = self.approvals.ask_for(Arc::clone(&preview), asked_by);
        if self.approvals.pending().is_empty() {
            let Decision::NotAsked(refused) = ticket.decision().await else { panic!("it was asked") };
            return Err(refused.retry_after_seconds());
        }
        self.refuse(&preview);
        assert!(matches!(ticket.decision().await, Decision::Refused { .. }));
        Ok(())
    }

    /// Grants a standing approval for swaps like this one for ten minutes.
    async fn grant(&self, preview: &Arc<Preview>) {
        let mut ticket = self.approvals.ask(Arc::clone(preview));
        let similar = OperatorAnswer::Similar { millis: 600_000, total: "5000".parse().unwrap() };
        self.approvals.answer(preview.permit.permit_id, similar).unwrap();
        assert!(matches!(ticket.decision().await, Decision::Approved(_)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standing_approval_expires_while_the_machine_is_suspended() {
    let queue = Queue::new(0).await;
    *queue.world.book.need.lock().unwrap() = ApprovalNeed::Approval { reasons: vec![ApprovalReason::HotLane] };
    let first = queue.swap(10 * USDC).await;
    queue.grant(&first).await;
    let next = queue.swap(11 * USDC).await;
    assert!(queue.approvals.granted(&next).is_some());
    // The monotonic clock stands still, the wall clock advances.
    queue.clocks.wall.fetch_add(8 * 3_600_000, Ordering::SeqCst);
    assert!(queue.approvals.granted(&next).is_none());
    assert!(queue.approvals.grants().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_the_clock_back_does_not_extend_a_standing_approval() {
    let queue = Queue::new(1).await;
    *queue.world.book.need.lock().unwrap() = ApprovalNeed::Approval { reasons: vec![ApprovalReason::HotLane] };
    let first = queue.swap(10 * USDC).await;
    queue.grant(&first).await;
    let next = queue.swap(11 * USDC).await;
    assert!(queue.approvals.granted(&next).is_some());
    queue.clocks.wall.fetch_sub(3_600_000, Ordering::SeqCst);
    assert!(queue.approvals.granted(&next).is_none());
    // It does not return with the clock.
    queue.clocks.wall.fetch_add(3_600_000, Ordering::SeqCst);
    assert!(queue.approvals.granted(&next).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_action_is_not_requested_again_in_another_form() {
    let queue = Queue::new(2).await;
    assert_eq!(queue.refused(queue.swap(100 * USDC).await).await, Ok(()));
    // One unit more, one less, half of it, and other calls.
    for usdc in [100 * USDC, 100 * USDC + 1, 100 * USDC - 1, 50 * USDC] {
        assert_eq!(queue.refused(queue.swap(usdc).await).await, Err(60), "{usdc}");
    }
    let parts = queue.world.swap_in_parts(100 * USDC, None, 2).await;
    assert_eq!(queue.refused(queue.preview("ada", parts).await).await, Err(60));
    // Through another tool with the same effect.
    let mut other = queue.world.swap(100 * USDC).await;
    other.tool.name = "another_tool";
    assert_eq!(queue.refused(queue.preview("ada", other).await).await, Err(60));
    // Another action is another request, and the operator's own requests are always accepted.
    assert_eq!(queue.refused(queue.preview("ada", queue.world.approval(5)).await).await, Ok(()));
    assert_eq!(queue.refused(queue.preview("operator", queue.world.swap(USDC).await).await).await, Ok(()));
    assert_eq!(queue.refused(queue.preview("operator", queue.world.swap(USDC).await).await).await, Ok(()));
}

/// The operator's command runs through the agent's tools, under the agent's name.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_binds_the_agent_and_not_the_operators_own_command() {
    let queue = Queue::new(5).await;
    assert_eq!(queue.refused(queue.swap(100 * USDC).await).await, Ok(()));
    for by in [AskedBy::Operator, AskedBy::Sale { sale: HoldingsSale::Flatten, more: Some(0) }] {
        assert_eq!(queue.refused_to(by.clone(), queue.swap(100 * USDC).await).await, Ok(()), "{by:?}");
    }
    // An agent's reason permits nothing, and what the operator rejected of their own neither lengthens nor ends its pause.
    let why = Some(SafeText::clean("the operator said so", 40));
    for by in [AskedBy::default(), AskedBy::Agent { why }] {
        assert_eq!(queue.refused_to(by, queue.swap(100 * USDC).await).await, Err(60));
    }
    let own = queue.swap(100 * USDC).await;
    let mut ticket = queue.approvals.ask_for(Arc::clone(&own), AskedBy::Operator);
    queue.approvals.answer(own.permit.permit_id, OperatorAnswer::Once).unwrap();
    assert!(matches!(ticket.decision().await, Decision::Approved(_)));
    assert_eq!(queue.refused(queue.swap(100 * USDC).await).await, Err(60));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rejection_of_an_action_lengthens_the_pause_before_the_next_request() {
    let queue = Queue::new(3).await;
    let mut asked = queue.swap(100 * USDC).await;
    for seconds in [60, 300, 900, 3_600, 14_400, 14_400] {
        assert_eq!(queue.refused(Arc::clone(&asked)).await, Ok(()));
        asked = queue.swap(100 * USDC).await;
        assert_eq!(queue.refused(Arc::clone(&asked)).await, Err(seconds));
        // Setting the wall clock forward shortens no pause.
        queue.clocks.wall.fetch_add(60, Ordering::SeqCst);
        queue.clocks.steady.fetch_add(seconds * 1_000 - 1, Ordering::SeqCst);
        assert_eq!(queue.refused(Arc::clone(&asked)).await, Err(1));
        queue.clocks.steady.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_cannot_flood_the_operator_with_requests() {
    let queue = Queue::new(4).await;
    let asked = queue.swap(10 * USDC).await;
    let too_many = async |queue: &Queue| {
        let mut ticket = queue.approvals.ask(Arc::clone(&asked));
        let is_open = queue.approvals.pending().len();
        // An open request is dropped here, which withdraws it.
        match tokio::time::timeout(Duration::from_millis(50), ticket.decision()).await {
            Ok(Decision::NotAsked(AskRefused::TooMany { retry_after_seconds, .. })) => Some(retry_after_seconds),
            Ok(other) => panic!("{other:?}"),
            Err(_) => {
                assert!(is_open > 0);
                None
            }
        }
    };
    let open: Vec<_> = (0..MAX_OPEN).map(|_| queue.approvals.ask(Arc::clone(&asked))).collect();
    assert_eq!(too_many(&queue).await, Some(60));
    assert_eq!(queue.approvals.pending().len(), MAX_OPEN);
    drop(open);
    // Requested and withdrawn again and again.
    for _ in MAX_OPEN..MAX_UNANSWERED {
        assert_eq!(too_many(&queue).await, None);
    }
    assert_eq!(too_many(&queue).await, Some(600));
    assert!(queue.approvals.pending().is_empty());
    // The operator's own requests are accepted all the same.
    let own = queue.preview("operator", queue.world.swap(USDC).await).await;
    let _ticket = queue.approvals.ask(own);
    assert_eq!(queue.approvals.pending().len(), 1);
}

/// The queue itself demands what must be read and typed, so that no program around it can leave that out.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_approval_does_not_pay_a_lookalike_address() {
    let queue = Queue::new(6).await;
    let known = queue.world.contract(KnownContract::Permit2);
    let who = Address::from_slice(&[&known[..2], &[0x33; 16], &known[18..]].concat());
    let mut of_lookalike = Arc::unwrap_or_clone(queue.swap(10 * USDC).await);
    of_lookalike.parties = vec![ApprovalReason::Resembles { who, known }];
    let asked = Arc::new(of_lookalike);
    let permit_id = asked.permit.permit_id;
    let mut ticket = queue.approvals.ask(Arc::clone(&asked));
    let required = queue.approvals.pending().remove(0).requirement;
    let digits = required.confirm.clone().unwrap().expected;
    assert!(known.to_string() != who.to_string() && who.to_string().contains(digits.as_str()), "{digits}");
    let typed = |text: &str| Confirmation { typed: Some(SafeText::clean(text, 20)), ..required.met() };
    let unread = Confirmation { read: Vec::new(), ..required.met() };
    assert!(!required.to_read.is_empty());
    for missing in [Confirmation::default(), unread, typed(""), typed("yes"), typed(&known.to_string()[2..6])] {
        let reply = OperatorReply { answer: OperatorAnswer::Once, confirmation: missing.clone() };
        let refused = queue.approvals.answer(permit_id, reply);
        assert!(matches!(refused, Err(AnswerError::Unconfirmed(_))), "{missing:?}: {refused:?}");
        // By hand, where the command shows the action, it is the same.
        let by_hand = queue.approvals.ask_approved(Arc::clone(&asked), &missing, None);
        assert!(matches!(by_hand, Err(AnswerError::Unconfirmed(_))), "{missing:?}");
    }
    assert_eq!(queue.approvals.pending().len(), 1, "it stays open");
    let reply = OperatorReply { answer: OperatorAnswer::Once, confirmation: required.met() };
    queue.approvals.answer(permit_id, reply).unwrap();
    assert!(matches!(ticket.decision().await, Decision::Approved(_)));
    assert!(queue.approvals.ask_approved(asked, &required.met(), None).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_press_does_not_approve_if_a_proof_is_needed() {
    let queue = Queue::new(5).await;
    queue.approvals.require_proof();
    let asked = queue.swap(10 * USDC).await;
    let (permit_id, account) = (asked.permit.permit_id, asked.payload.account());
    let mut ticket = queue.approvals.ask(Arc::clone(&asked));
    let similar = || OperatorAnswer::Similar { millis: 600_000, total: "5000".parse().unwrap() };
    for answer in [OperatorAnswer::Once, similar()] {
        let refused = queue.approvals.answer(permit_id, answer);
        assert_eq!(refused, Err(AnswerError::Unproved(ProofError::NoPassword)));
    }
    // A proof for another request, or for another account.
    let keyless = tempfile::tempdir().unwrap();
    let gate = Reauthentication::new(keyless.path(), keyless.path().join("keys"));
    let proof = |permit_id, account| {
        let wanted = Authorisation::Approve { permit_id, account };
        Some(gate.prove(wanted, true, &[], queue.clocks.now_millis()).unwrap())
    };
    for forged in [proof(bardo::base::id::PermitId::random(), account), proof(permit_id, Address::ZERO)] {
        let refused = queue.approvals.answer_proved(permit_id, OperatorAnswer::Once, forged);
        assert_eq!(refused, Err(AnswerError::Unproved(ProofError::OtherAction)));
    }
    queue.approvals.answer_proved(permit_id, OperatorAnswer::Once, proof(permit_id, account)).unwrap();
    assert!(matches!(ticket.decision().await, Decision::Approved(_)));
    // Nor does one by hand, whatever was read and typed.
    let met = requirement(&asked).met();
    let unproved = queue.approvals.ask_approved(Arc::clone(&asked), &met, None);
    assert!(matches!(unproved, Err(AnswerError::Unproved(ProofError::NoPassword))), "{:?}", unproved.is_ok());
    assert!(queue.approvals.ask_approved(asked, &met, proof(permit_id, account)).is_ok());
}

/// Two copies of one account would spend the same limits and nonces twice.
#[test]
fn a_restored_copy_stays_halted_without_the_words_about_the_other_copy() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(data(home.path())).unwrap();
    let copy = RestoredCopy { made_at: 1, made_from: SafeText::clean("old-host:/data", 40) };
    stop_file(home.path()).begin_restored(&copy, now()).unwrap();
    // A proof without the words, and a removed stop file.
    let file = stop_file(home.path());
    let shown = file.read();
    let alone = proof(&data(home.path()), Authorisation::lower_stop(&shown, None), now());
    let refused = file.lower(&shown, None, "", "script", now(), alone);
    assert!(matches!(refused, Err(StopError::Restored)), "{refused:?}");
    let (said, code) =
        on_a_terminal(home.path(), &[], &["resume"], &[("to confirm: ", "resume\n"), ("to confirm: ", "yes\n")]);
    assert!(code == 4 && said.contains("old-host:/data"), "{code}: {said}");
    assert!(is_halted(home.path()));
    std::fs::remove_file(file.path()).unwrap();
    assert!(is_halted(home.path()), "as after any stop that was removed by hand");
    let words = [("to confirm: ", "resume\n"), ("to confirm: ", "the other copy is stopped\n")];
    let (said, code) = on_a_terminal(home.path(), &[], &["resume"], &words);
    assert_eq!(code, 0, "{said}");
    assert!(!is_halted(home.path()) && file.restored().is_none());
}
