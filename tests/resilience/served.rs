//! A served session is killed while an action or an order is under way, and started again; its consoles are killed; its
//! endpoint hangs. The next console sees how the action ended, and everything was done once.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bardo::attach::wire::Rights;
use bardo::attach::{Connection, Place};
use bardo::base::fabric::{Event, EventKind, RecoveredEnd};
use bardo::base::failpoint::Failpoint;
use bardo::base::id::{CallId, GolemId};
use bardo::session::envelope::{CallStatus, ToolResponse};
use bardo::session::handle::{AddressedCommand, QueryResult, SessionCommand, SessionHandle, SessionNews, SessionQuery};
use bardo::session::questions::{OperatorAnswer, Question};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::host::{AMOUNT, Devnet, Home, ROOMY, settled};
use bardo_testkit::devnet;

/// Timeout of everything that is waited for, on a busy machine.
const WAIT: Duration = Duration::from_secs(300);
const SWAP: &str = "uniswap_execute_swap";

/// Waits until `look` finds something.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < WAIT, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A `bardo serve` with metrics; killed on drop.
struct Served {
    process: Child,
    place: Place,
    metrics: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}

impl Served {
    /// Starts a session that is killed at `failpoint`.
    fn start(home: &Home, devnet: &Devnet, failpoint: Option<&str>) -> Self {
        let given = format!("ethereum={}", devnet.url());
        let arguments = ["--rpc", &given, "--brain", "operator", "serve", "--metrics-port", "0"];
        let mut command = home.command(&arguments);
        command.envs(failpoint.map(|point| ("BARDO_FAILPOINT", point)));
        let mut process = command.spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut lines = String::new();
        let metrics = loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "{lines}");
            lines.push_str(&line);
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split('/').next().unwrap().to_owned();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let served = Self { process, place: Place::in_data(&home.path().join("data")), metrics };
        until("the session is ready", || served.get("/healthz").starts_with("HTTP/1.1 200 ").then_some(()));
        served
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.metrics);
        let _closed = stream.write_all(request.as_bytes());
        let mut response = Vec::new();
        let _reset = stream.read_to_end(&mut response);
        String::from_utf8(response).unwrap()
    }

    /// A figure of the metrics, by its whole name with labels.
    fn figure(&self, name: &str) -> Option<f64> {
        let text = self.get("/metrics");
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    async fn attach(&self) -> Console {
        let place = self.place.clone();
        let connection = tokio::task::spawn_blocking(move || Connection::open(&place, Rights::Operate)).await;
        let mut console = Console(connection.unwrap().unwrap().into_handle().unwrap());
        console.until(|news| matches!(news, SessionNews::Ready(_)).then_some(())).await;
        console
    }

    /// Waits until the failpoint has killed it; calls `meanwhile` in between.
    fn killed(&mut self, mut meanwhile: impl FnMut()) {
        let status = until("it is killed", || {
            meanwhile();
            self.process.try_wait().unwrap()
        });
        assert_eq!(status.signal(), Some(9), "{status}");
    }
}

struct Console(SessionHandle);

impl Console {
    async fn send(&self, command: SessionCommand) {
        self.0.commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    }

    async fn call(&self, tool: &str, params: Value) {
        let tool = tool.to_owned();
        let call =
            SessionCommand::Call { ticket: 1, tool, params, dry_run: false, idempotency_key: None, unasked: false };
        self.send(call).await;
    }

    async fn swap(&self, amount: &str) {
        let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": amount, "chain": "ethereum",
                            "prefer_uniswapx": false});
        self.call(SWAP, params).await;
    }

    /// First news that `wanted` accepts.
    async fn until<T>(&mut self, mut wanted: impl FnMut(SessionNews) -> Option<T>) -> T {
        let waiting = async {
            loop {
                if let Some(found) = wanted(self.0.news.recv().await.expect("the session goes on")) {
                    return found;
                }
            }
        };
        tokio::time::timeout(WAIT, waiting).await.expect("the news in time")
    }

    async fn reply(&mut self) -> Box<ToolResponse> {
        self.until(|news| if let SessionNews::Reply { response, .. } = news { Some(response) } else { None }).await
    }

    async fn question(&mut self) -> Question {
        self.until(|news| if let SessionNews::Questions(open) = news { open.first().cloned() } else { None }).await
    }

    /// Waits for an event that `wanted` accepts, wherever in the session's history it is.
    async fn event<T>(&mut self, what: &str, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            self.send(SessionCommand::Look { ticket: 9, query: SessionQuery::History { after: 0 } }).await;
            let found = |news| if let SessionNews::Found { found, .. } = news { Some(found) } else { None };
            let QueryResult::History { events, .. } = *self.until(found).await else { panic!("{what}") };
            if let Some(found) = events.iter().find_map(|event: &Arc<Event>| wanted(event)) {
                return found;
            }
            let seen: Vec<_> = events.iter().map(|event| &event.kind).collect();
            assert!(begun.elapsed() < WAIT, "{what}: {seen:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Event about an action that an earlier process left: its call, its tool and its end.
fn recovered(event: &Event) -> Option<(CallId, String, Option<RecoveredEnd>)> {
    let EventKind::ActionRecovered(found) = &event.kind else { return None };
    Some((event.call_id?, found.tool.as_ref()?.to_string(), found.end))
}

/// Mines until the ledger has nothing under way, then compares it with the chain; returns the swaps.
fn settled_after_all(home: &Home, devnet: &Devnet) -> u64 {
    until("nothing is under way", || {
        devnet.ask("evm_mine", json!([]));
        let open = "SELECT (SELECT count(*) FROM safety_permit WHERE ended IS NULL)
                    + (SELECT count(*) FROM sender_transaction WHERE settled_at IS NULL)";
        (home.count(open) == 0).then_some(())
    });
    settled(home, devnet)
}

fn pending_nonce(devnet: &Devnet) -> u64 {
    let answer = devnet.ask("eth_getTransactionCount", json!([crate::host::ACCOUNT, "pending"]));
    u64::from_str_radix(answer.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_after_a_killed_one_says_how_its_action_ended() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let mut swaps = 0;
    // The second step first: the first one leaves an allowance, and then a swap has one step.
    for (step, end) in [(2, RecoveredEnd::Done), (1, RecoveredEnd::Partly)] {
        let (weth, nonce) = (devnet.balance("WETH"), devnet.nonce());
        devnet.ask("evm_setAutomine", json!([false]));
        let mut served = Served::start(&home, &devnet, Some(&format!("{}:{step}", Failpoint::Sent.name())));
        let used = served.figure("bardo_limit_used_ratio{limit=\"day\"}").unwrap_or(0.0);
        let console = served.attach().await;
        console.swap("0.001").await;
        // The first step gets its block, so that the second follows; the step of the kill gets none.
        served.killed(|| {
            if step == 2 && devnet.nonce() == nonce && pending_nonce(&devnet) == nonce + 1 {
                devnet.ask("evm_mine", json!([]));
            }
        });
        drop(console);
        assert_eq!((devnet.nonce(), pending_nonce(&devnet)), (nonce + step - 1, nonce + step), "step {step}");

        let again = Served::start(&home, &devnet, None);
        let mut console = again.attach().await;
        let (call, tool, _) =
            console.event("it is under way", |event| recovered(event).filter(|one| one.2.is_none())).await;
        assert_eq!(tool, SWAP);
        devnet.ask("evm_setAutomine", json!([true]));
        devnet.ask("evm_mine", json!([]));
        let ended = |event: &Event| recovered(event).filter(|one| one.0 == call).and_then(|one| one.2);
        assert_eq!(console.event("its end", ended).await, end, "step {step}");
        assert_eq!(again.figure("bardo_calls_running"), Some(0.0));

        let done = u64::from(step == 2);
        swaps += done;
        assert_eq!(settled_after_all(&home, &devnet), swaps, "step {step}");
        assert_eq!(weth - devnet.balance("WETH"), AMOUNT * u128::from(done), "step {step}: sold once");
        assert_eq!(devnet.nonce(), nonce + step, "step {step}: one transaction for each step");
        // The limits count it; what a reservation of a dead process counts is at most what it reserved.
        let counted = until("the limits are reported", || again.figure("bardo_limit_used_ratio{limit=\"day\"}"));
        assert!(counted > used, "step {step}: {counted} after {used}");

        // The next action goes on with the next nonce.
        console.swap("0.001").await;
        let reply = console.reply().await;
        assert_eq!(reply.status, CallStatus::Success, "{reply:#?}");
        swaps += 1;
        assert_eq!(settled_after_all(&home, &devnet), swaps, "step {step}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_of_a_killed_session_ends_in_the_next_one() {
    let (devnet, home) = (Devnet::ticking(), Home::new(ROOMY));
    let weth = devnet.balance("WETH");
    let mut served = Served::start(&home, &devnet, Some(Failpoint::OrderSubmitted.name()));
    let console = served.attach().await;
    let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.01", "chain": "ethereum",
                        "decay_end_time": 40});
    console.call("uniswap_submit_uniswapx_order", params).await;
    served.killed(|| {});
    assert_eq!(home.open_orders().len(), 1);
    let again = Served::start(&home, &devnet, None);
    until("the order has ended", || home.open_orders().is_empty().then_some(()));
    // Only now: a console that reads nothing meanwhile is detached.
    let mut console = again.attach().await;
    let filled: String = home.ledger().query_row("SELECT status FROM safety_order", [], |row| row.get(0)).unwrap();
    console.event("its end", |event| matches!(event.kind, EventKind::OrderUpdate(_)).then_some(())).await;
    let sold = if filled == "filled" { 10 * AMOUNT } else { 0 };
    assert_eq!(weth - devnet.balance("WETH"), sold, "{filled}");
    until("its reservation is settled", || {
        (home.count("SELECT count(*) FROM ledger_reservation WHERE state IN ('open', 'unclear')") == 0).then_some(())
    });
    assert_eq!(home.count("SELECT count(*) FROM safety_order"), 1, "nothing was ordered again");
}

/// Opens the full-screen console on a served session in a terminal, once no other one is attached, and kills it.
fn kill_a_console(home: &Home, served: &Served) {
    until("there is no other", || (served.figure("bardo_consoles") == Some(0.0)).then_some(()));
    let pty = native_pty_system().openpty(PtySize { rows: 40, cols: 120, ..PtySize::default() }).unwrap();
    let mut command = CommandBuilder::new(devnet::program());
    command.env_clear();
    command.env("BARDO_HOME", home.path());
    command.env("TERM", "xterm-256color");
    command.arg("attach");
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut screen = pty.master.try_clone_reader().unwrap();
    std::thread::spawn(move || std::io::copy(&mut screen, &mut std::io::sink()));
    until("the console is attached", || (served.figure("bardo_consoles") == Some(1.0)).then_some(()));
    let id = Pid::from_raw(i32::try_from(child.process_id().unwrap()).unwrap()).unwrap();
    kill_process(id, Signal::KILL).unwrap();
    child.wait().unwrap();
    until("the console is gone", || (served.figure("bardo_consoles") == Some(0.0)).then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_consoles_end_neither_a_decision_nor_an_action() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let served = Served::start(&home, &devnet, None);
    let (weth, nonce) = (devnet.balance("WETH"), devnet.nonce());
    let mut asking = served.attach().await;
    // Above what the policy lets pass without approval.
    asking.swap("0.5").await;
    let question = asking.question().await;
    drop(asking);
    kill_a_console(&home, &served);
    devnet.ask("evm_setAutomine", json!([false]));
    let mut console = served.attach().await;
    let waiting = console.question().await;
    assert_eq!(waiting.key, question.key);
    let confirmation = waiting.requirement().met();
    let answer = OperatorAnswer::Once;
    console.send(SessionCommand::Answer { key: waiting.key, answer, confirmation, password: None }).await;
    until("a transaction is sent", || (pending_nonce(&devnet) > nonce).then_some(()));
    drop(console);
    kill_a_console(&home, &served);
    assert_eq!(devnet.nonce(), nonce);
    devnet.ask("evm_setAutomine", json!([true]));
    devnet.ask("evm_mine", json!([]));
    let mut console = served.attach().await;
    let ended = |event: &Event| if let EventKind::ToolEnd(end) = &event.kind { Some(end.success) } else { None };
    assert!(console.event("its end", ended).await);
    assert_eq!(settled_after_all(&home, &devnet), 1);
    assert_eq!(weth - devnet.balance("WETH"), 500 * AMOUNT, "sold once");
}

#[test]
fn a_hanging_endpoint_is_a_fault_until_it_answers() {
    const FAULT: &str = "bardo_chain_fault{chain=\"ethereum\"}";
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    // Without new blocks nothing is read whose failure would tell.
    let served = Served::start(&home, &devnet, None);
    assert_eq!(served.figure(FAULT), Some(0.0));
    // A stopped process accepts connections and answers none.
    let id = Pid::from_raw(i32::try_from(devnet.id()).unwrap()).unwrap();
    kill_process(id, Signal::STOP).unwrap();
    let answering = "bardo_endpoints_answering{chain=\"ethereum\"}";
    until("no endpoint answers", || (served.figure(answering) == Some(0.0)).then_some(()));
    // With that, and not only once a read has failed.
    let unwell = served.get("/healthz");
    assert!(unwell.starts_with("HTTP/1.1 503 ") && unwell.contains("ethereum"), "{unwell}");
    assert_eq!(served.figure(FAULT), Some(1.0));
    kill_process(id, Signal::CONT).unwrap();
    until("it is well again", || {
        devnet.ask("evm_mine", json!([]));
        served.get("/healthz").starts_with("HTTP/1.1 200 ").then_some(())
    });
    until("the fault is over", || (served.figure(FAULT) == Some(0.0)).then_some(()));
}
