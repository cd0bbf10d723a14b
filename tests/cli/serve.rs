//! `bardo serve` and what attaches to it, with real processes on the embedded devnet.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use alloy::dyn_abi::eip712::TypedData;
use alloy::primitives::B256;
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;
use bardo::attach::wire::Rights;
use bardo::attach::{Connection, Place};
use bardo::base::fabric::EventKind;
use bardo::base::id::GolemId;
use bardo::base::model::StopLevel;
use bardo::base::text::SafeText;
use bardo::session::envelope::{CallStatus, ToolResponse};
use bardo::session::handle::{
    AddressedCommand, QueryResult, SessionCommand as Order, SessionHandle, SessionInfo, SessionNews, SessionQuery,
};
use bardo::session::questions::{AnswerKind, Confirmation, OperatorAnswer, Question, QuestionKey};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::timeout;

use crate::{bardo, run};

/// Timeout of everything that is waited for, on a busy machine.
const WAIT: Duration = Duration::from_secs(120);

pub struct Served {
    process: Child,
    pub home: tempfile::TempDir,
    said: BufReader<ChildStderr>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}

impl Served {
    fn start(home: tempfile::TempDir) -> Self {
        Self::with(home, &[], &[])
    }

    /// Starts a session with more arguments and variables.
    pub fn with(home: tempfile::TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_bardo"))
            .args(["--brain", "operator", "serve"])
            .args(arguments)
            .env_clear()
            .envs(variables.iter().copied())
            .env("BARDO_HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("serving at"), "{line}");
        Self { process, home, said }
    }

    /// The next line that it says.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line
    }

    /// Everything that it said since; it must have ended.
    pub fn said(&mut self) -> String {
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        said
    }

    fn place(&self) -> Place {
        place(self.home.path())
    }

    pub async fn attach(&self, rights: Rights) -> Console {
        let place = self.place();
        let connection = tokio::task::spawn_blocking(move || Connection::open(&place, rights)).await.unwrap().unwrap();
        Console(connection.into_handle().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Waits for the process; returns its stdout and its exit code.
    pub fn ended(&mut self) -> (String, Option<i32>) {
        let mut out = String::new();
        self.process.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (out, self.process.wait().unwrap().code())
    }
}

fn place(home: &Path) -> Place {
    Place::in_data(&home.join("data"))
}

pub struct Console(pub SessionHandle);

impl Console {
    pub async fn send(&self, command: Order) {
        self.0.commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    }

    /// First news that `wanted` accepts.
    pub async fn until<T>(&mut self, mut wanted: impl FnMut(SessionNews) -> Option<T>) -> T {
        let waiting = async {
            loop {
                if let Some(found) = wanted(self.0.news.recv().await.expect("the session goes on")) {
                    return found;
                }
            }
        };
        timeout(WAIT, waiting).await.expect("the news in time")
    }

    pub async fn ready(&mut self) -> Box<SessionInfo> {
        self.until(|news| if let SessionNews::Ready(ready) = news { Some(ready) } else { None }).await
    }

    pub async fn reply(&mut self) -> (u64, Box<ToolResponse>) {
        let reply =
            |news| if let SessionNews::Reply { ticket, response } = news { Some((ticket, response)) } else { None };
        self.until(reply).await
    }

    pub async fn question(&mut self) -> Question {
        let first = |news| if let SessionNews::Questions(open) = news { open.first().cloned() } else { None };
        self.until(first).await
    }
}

pub fn swap(ticket: u64, amount: &str) -> Order {
    let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": amount, "chain": "ethereum",
                        "prefer_uniswapx": false});
    let tool = "uniswap_execute_swap".into();
    Order::Call { ticket, tool, params, dry_run: false, idempotency_key: None, unasked: false }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_continues_while_consoles_attach_and_detach() {
    let mut served = Served::start(tempfile::tempdir().unwrap());
    let (out, err, code) = run(bardo(served.home.path()).args(["serve"]));
    assert_eq!((out.as_str(), code), ("", 1), "{err}");
    assert!(err.contains("served already") && err.contains("bardo attach"), "{err}");

    let mut first = served.attach(Rights::Operate).await;
    assert!(first.ready().await.tools.len() > 10);
    first.send(swap(5, "0.01")).await;
    let (ticket, response) = first.reply().await;
    assert_eq!((ticket, response.status), (5, CallStatus::Success), "{response:#?}");
    drop(first);

    // Another console receives what happened before it came.
    let mut second = served.attach(Rights::Watch).await;
    second.ready().await;
    second.send(Order::Look { ticket: 9, query: SessionQuery::History { after: 0 } }).await;
    let found = |news| if let SessionNews::Found { ticket: 9, found } = news { Some(found) } else { None };
    let QueryResult::History { events, .. } = *second.until(found).await else { panic!() };
    assert!(events.iter().any(|event| matches!(event.kind, EventKind::ToolVerified(_))), "{}", events.len());
    second.send(swap(1, "0.01")).await;
    let refused = |news| if let SessionNews::CommandResult { done: false, words } = news { Some(words) } else { None };
    assert!(second.until(refused).await.as_str().contains("read-only"));

    let (out, err, code) = run(bardo(served.home.path()).args(["serve", "--end"]));
    assert_eq!((err.as_str(), code), ("", 0), "{out}");
    let left = |news| if let SessionNews::Left(summary) = news { Some(summary) } else { None };
    assert_eq!(second.until(left).await.trades, 1);
    let (out, code) = served.ended();
    assert!(code == Some(0) && out.contains("1 trade"), "{out}");
    let (_, err, code) = run(bardo(served.home.path()).args(["serve", "--end"]));
    assert!(code == 1 && err.contains("no session of this data directory"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_waits_for_a_console_and_is_answered_once() {
    let served = Served::start(tempfile::tempdir().unwrap());
    let mut asking = served.attach(Rights::Operate).await;
    asking.ready().await;
    // Above what the demo policy lets pass without approval.
    asking.send(swap(2, "0.5")).await;
    let question = asking.question().await;
    drop(asking);
    // The console that asked is gone; the decision is not.
    let (mut one, mut other) = (served.attach(Rights::Operate).await, served.attach(Rights::Operate).await);
    for console in [&mut one, &mut other] {
        assert_eq!(console.question().await.key, question.key);
    }
    let answer = |reason: &str| Order::Answer {
        key: question.key,
        answer: OperatorAnswer::Refuse { reason: SafeText::clean(reason, 40) },
        confirmation: Confirmation::default(),
        password: None,
    };
    one.send(answer("too much")).await;
    let closed = |news| if let SessionNews::Questions(open) = news { open.is_empty().then_some(()) } else { None };
    other.until(closed).await;
    other.send(answer("late")).await;
    let late = |news| if let SessionNews::CommandResult { done: false, words } = news { Some(words) } else { None };
    let words = other.until(late).await;
    assert!(words.as_str().starts_with("this decision "), "{words}");
    let QuestionKey::Action(_) = question.key else { panic!("{:?}", question.key) };
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_killed_session_another_can_start() {
    let mut served = Served::start(tempfile::tempdir().unwrap());
    let mut console = served.attach(Rights::Operate).await;
    console.ready().await;
    console.send(Order::Raise { level: StopLevel::Halt, reason: SafeText::clean("leaving", 20) }).await;
    let told = |news| if let SessionNews::CommandResult { done, words } = news { Some((done, words)) } else { None };
    let (done, words) = console.until(told).await;
    assert!(done, "{words}");
    served.process.kill().unwrap();
    served.process.wait().unwrap();
    assert!(!served.place().is_served() && served.place().socket().exists());
    let (_, err, code) = run(bardo(served.home.path()).args(["attach", "--stdio"]));
    assert!(code == 1 && err.contains("start one with `bardo serve`"), "{err}");
    let home = std::mem::replace(&mut served.home, tempfile::tempdir().unwrap());
    drop(served);
    let mut again = Served::start(home);
    let mut console = again.attach(Rights::Watch).await;
    console.ready().await;
    again.signal(Signal::HUP);
    again.signal(Signal::TERM);
    let (out, code) = again.ended();
    let mut said = String::new();
    again.said.read_to_string(&mut said).unwrap();
    assert!(code == Some(0) && said.contains("finishing"), "{said}{out}");
}

/// A service manager restarts what ends with an error; a session that waits without a network would never act.
#[test]
fn a_session_that_cannot_start_ends_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let config = "network = \"sepolia\"\n[chains.sepolia]\nrpc = [\"http://127.0.0.1:9\"]\n";
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["--brain", "operator", "serve"]).timeout(WAIT));
    assert_eq!((out.as_str(), code), ("", 1), "{err}");
    assert!(err.contains("the session did not start: no endpoint of sepolia responds"), "{err}");
    assert!(!place(home.path()).is_served(), "its socket is closed");
}

/// Through another program, as through `ssh HOST bardo attach --stdio`.
#[tokio::test(flavor = "multi_thread")]
async fn a_console_reaches_a_session_through_another_program() {
    let served = Served::start(tempfile::tempdir().unwrap());
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_bardo"));
    program.args(["attach", "--stdio"]).env_clear().env("BARDO_HOME", served.home.path());
    program.stdin(std::os::fd::OwnedFd::from(theirs.try_clone().unwrap())).stdout(std::os::fd::OwnedFd::from(theirs));
    let mut child = program.spawn().unwrap();
    drop(program);
    let connection = tokio::task::spawn_blocking(move || Connection::over(ours, "bardo")).await.unwrap().unwrap();
    let mut console = Console(connection.into_handle().unwrap());
    console.ready().await;
    console.send(swap(3, "0.01")).await;
    assert_eq!(console.reply().await.1.status, CallStatus::Success);
    drop(console);
    assert!(child.wait().unwrap().success());
}

/// The session itself bounds what a console may do, so the rights that the program asks for decide.
#[test]
fn only_a_console_that_does_not_watch_has_rights_to_operate() {
    let served = Served::start(tempfile::tempdir().unwrap());
    for (flags, rights) in [(&["attach", "--stdio"][..], "operate"), (&["--watch", "attach", "--stdio"], "watch")] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_bardo"));
        program.args(flags).env_clear().env("BARDO_HOME", served.home.path());
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), format!("{{\"welcome\":{{\"rights\":\"{rights}\"}}}}"), "{flags:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

/// Another program's messages are shown until the session answers, and can neither draw nor command the terminal.
#[tokio::test(flavor = "multi_thread")]
async fn ignored_settings_of_a_new_session_are_reported() {
    let served = Served::start(tempfile::tempdir().unwrap());
    // It has said by then on which network it is.
    served.attach(Rights::Watch).await.ready().await;
    for (variable, flags, named) in [
        (None, vec!["--network", "base"], "--network"),
        (None, vec!["--rpc", "ethereum=http://127.0.0.1:9"], "--rpc"),
        (None, vec!["--brain", "operator"], "--brain"),
        (Some(("BARDO_NETWORK", "base")), vec![], "BARDO_NETWORK"),
        (Some(("BARDO_ACCOUNT", "main")), vec![], "BARDO_ACCOUNT"),
    ] {
        let (out, err, code) = run(bardo(served.home.path()).envs(variable).args(&flags));
        assert_eq!((code, out.as_str()), (2, ""), "{flags:?}: {err}");
        for part in ["a session on devnet is served from", named, "bardo attach", "bardo serve --end"] {
            assert!(err.contains(part), "{flags:?} {variable:?}: {part}: {err}");
        }
    }
    // An endpoint in the environment selects no network: the console attaches, and fails without a terminal.
    let (_, err, _) = run(bardo(served.home.path()).env("BARDO_RPC_BASE", "http://127.0.0.1:9"));
    assert!(err.contains("terminal"), "{err}");
}

#[test]
fn messages_of_the_connecting_program_are_cleaned() {
    let home = tempfile::tempdir().unwrap();
    let program = r"printf 'cannot \033]52;c;aGk=\007reach\r\n' >&2; exit 3";
    let (_, err, code) = run(bardo(home.path()).args(["attach", "--via", program]));
    assert!(code == 1 && err.contains("cannot \\u{1b}]52;c;aGk=\\u{7}reach\n") && !err.contains('\u{1b}'), "{err:?}");
}

/// The typed data that is printed is signed by another wallet, on another machine for all that the session knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_operator_approves_with_another_wallet() {
    let home = tempfile::tempdir().unwrap();
    let wallet = PrivateKeySigner::from_bytes(&B256::repeat_byte(7)).unwrap();
    let approver = wallet.address();
    let policy = format!("preset = \"demo\"\n[second_approval]\nabove_usd = \"100\"\napprovers = [\"{approver}\"]\n");
    std::fs::write(home.path().join("policy-devnet.toml"), policy).unwrap();
    let served = Served::start(home);
    let approve = |more: &[&str]| run(bardo(served.home.path()).arg("approve").args(more));
    let mut console = served.attach(Rights::Operate).await;
    console.ready().await;
    let (_, err, code) = approve(&[]);
    assert!(code == 3 && err.contains("no decision of this session waits"), "{code}: {err}");
    console.send(swap(2, "0.1")).await;
    let question = console.question().await;
    let once = |question: &Question| question.answers.iter().find(|one| one.kind == AnswerKind::Once).cloned().unwrap();
    assert!(once(&question).why_not.is_some(), "{question:?}");
    let (_, err, code) = approve(&[]);
    assert!(code == 3 && err.contains("no key in this data folder belongs to an approver"), "{code}: {err}");
    let (out, err, code) = approve(&["--typed-data"]);
    assert_eq!(code, 0, "{err}");
    let typed: TypedData = serde_json::from_str(&out).unwrap();
    let signed = |wallet: &PrivateKeySigner| {
        let signature = wallet.sign_hash_sync(&typed.eip712_signing_hash().unwrap()).unwrap();
        alloy::hex::encode_prefixed(signature.as_bytes())
    };
    let stranger = PrivateKeySigner::from_bytes(&B256::repeat_byte(8)).unwrap();
    let (_, err, code) = approve(&["--signature", &signed(&stranger)]);
    assert!(code == 3 && err.contains("does not name"), "{code}: {err}");
    let (out, err, code) = approve(&["--signature", &signed(&wallet)]);
    assert!(code == 0 && out.contains(&format!("approved by {approver}")), "{out}{err}");
    let given = |news| match news {
        SessionNews::Questions(open) => open.first().filter(|one| once(one).why_not.is_none()).cloned(),
        _ => None,
    };
    let question = console.until(given).await;
    let read = question.to_read.iter().map(|one| one.text.clone()).collect();
    let confirmation = Confirmation { read, ..Confirmation::default() };
    console.send(Order::Answer { key: question.key, answer: OperatorAnswer::Once, confirmation, password: None }).await;
    let (ticket, response) = console.reply().await;
    assert_eq!((ticket, response.status), (2, CallStatus::Success), "{response:#?}");
}
