//! Attacks of a local process on a served session: its socket, its token and its metrics.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use bardo::attach::wire::Rights;
use bardo::attach::{Connection, Place};
use bardo::base::id::GolemId;
use bardo::session::envelope::{CallStatus, ToolResponse};
use bardo::session::handle::{AddressedCommand, SessionCommand, SessionHandle, SessionNews};
use bardo::session::questions::Question;
use serde_json::json;

/// Timeout of everything that is waited for, on a busy machine.
const WAIT: Duration = Duration::from_secs(120);

/// Session that `bardo serve` runs on a devnet of its own.
pub struct Served {
    process: Child,
    home: tempfile::TempDir,
    /// Address of the metrics, as `127.0.0.1:PORT`.
    metrics: String,
    _messages: BufReader<ChildStderr>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}

impl Served {
    fn start() -> Self {
        Self::in_home(tempfile::tempdir().unwrap())
    }

    /// Starts a session with this file in its folder.
    pub fn start_with(file: &str, content: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(file), content).unwrap();
        Self::in_home(home)
    }

    /// Attaches a console.
    pub async fn attach(&self, rights: Rights) -> Console {
        let place = self.place();
        let connection = tokio::task::spawn_blocking(move || Connection::open(&place, rights)).await.unwrap().unwrap();
        Console(connection.into_handle().unwrap())
    }

    fn in_home(home: tempfile::TempDir) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_bardo"))
            .args(["--brain", "operator", "serve", "--metrics-port", "0"])
            .env_clear()
            .env("BARDO_HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut messages = BufReader::new(process.stderr.take().unwrap());
        let mut lines = String::new();
        let metrics = loop {
            let mut line = String::new();
            assert!(messages.read_line(&mut line).unwrap() > 0, "{lines}");
            lines.push_str(&line);
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split('/').next().unwrap().to_owned();
            }
        };
        let served = Self { process, home, metrics, _messages: messages };
        let begun = Instant::now();
        while !served.get("/healthz").starts_with("HTTP/1.1 200 OK\r\n") {
            assert!(begun.elapsed() < WAIT, "{}", served.get("/healthz"));
            std::thread::sleep(Duration::from_millis(50));
        }
        served
    }

    /// Whole HTTP response to `request`.
    fn http(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let _closed = stream.write_all(request.as_bytes());
        let mut response = Vec::new();
        let _reset = stream.read_to_end(&mut response);
        String::from_utf8(response).unwrap()
    }

    fn get(&self, path: &str) -> String {
        self.http(&format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.metrics))
    }

    fn place(&self) -> Place {
        Place::in_data(&self.home.path().join("data"))
    }
}

/// Console that is attached to a served session.
pub struct Console(SessionHandle);

impl Console {
    pub async fn send(&mut self, command: SessionCommand) {
        let sent = AddressedCommand { golem_id: GolemId::operator(), command };
        self.0.commands.send(sent).await.unwrap();
    }

    async fn until<T>(&mut self, wanted: impl Fn(SessionNews) -> Option<T>) -> T {
        let waiting = async {
            loop {
                if let Some(found) = wanted(self.0.news.recv().await.expect("the session goes on")) {
                    return found;
                }
            }
        };
        tokio::time::timeout(WAIT, waiting).await.expect("the news in time")
    }

    /// Next listed decision of this kind.
    pub async fn question(&mut self, wanted: impl Fn(&Question) -> bool) -> Question {
        let found = |news| match news {
            SessionNews::Questions(open) => open.iter().find(|question| wanted(question)).cloned(),
            _ => None,
        };
        self.until(found).await
    }

    /// Waits for the message of a command that was not carried out, for this reason. Other consoles' messages come, too.
    pub async fn refused(&mut self, why: &str) {
        let refused = |news| match news {
            SessionNews::CommandResult { done: false, words } => words.as_str().contains(why).then_some(()),
            _ => None,
        };
        self.until(refused).await;
    }

    /// Next response of a call.
    pub async fn reply(&mut self) -> Box<ToolResponse> {
        self.until(|news| if let SessionNews::Reply { response, .. } = news { Some(response) } else { None }).await
    }
}

/// Used share of the daily limit, by the metrics; 0 if they do not contain it.
fn used_of_day(metrics: &str) -> f64 {
    let figure = metrics.lines().find_map(|line| line.strip_prefix("bardo_limit_used_ratio{limit=\"day\"} "));
    figure.map_or(0.0, |figure| figure.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_contain_no_account_token_or_amount() {
    let served = tokio::task::spawn_blocking(Served::start).await.unwrap();
    let place = served.place();
    let connection = tokio::task::spawn_blocking(move || Connection::open(&place, Rights::Operate)).await;
    let mut console = connection.unwrap().unwrap().into_handle().unwrap();
    let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.01", "chain": "ethereum",
                        "prefer_uniswapx": false});
    let command = SessionCommand::Call {
        ticket: 1,
        tool: "uniswap_execute_swap".into(),
        params,
        dry_run: false,
        idempotency_key: None,
        unasked: false,
    };
    console.commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    let swapped = tokio::time::timeout(WAIT, async {
        loop {
            if let SessionNews::Reply { response, .. } = console.news.recv().await.unwrap() {
                break response;
            }
        }
    });
    let swapped = swapped.await.unwrap();
    assert_eq!(swapped.status, CallStatus::Success, "{swapped:#?}");
    // The reply and the events that the figures are made of arrive on ways of their own.
    let text = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        loop {
            let text = served.get("/metrics");
            let ended = text.contains("\nbardo_calls_running 0\n") && text.contains("state=\"confirmed\"");
            if (ended && used_of_day(&text) > 0.0) || began.elapsed() > WAIT {
                return text;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let text = text.await.unwrap();
    for line in [
        "bardo_session_ready 1",
        "bardo_consoles 1",
        "bardo_calls_total{tool=\"uniswap_execute_swap\",result=\"success\"} 1",
        "bardo_call_seconds_count{tool=\"uniswap_execute_swap\"} 1",
        "bardo_stop{level=\"none\"} 1",
        "bardo_stop{level=\"halt\"} 0",
        "bardo_chain_fault{chain=\"ethereum\"} 0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} is missing in\n{text}");
    }
    let confirmed = text.lines().find(|line| line.starts_with("bardo_transactions_total{state=\"confirmed\"}"));
    assert!(confirmed.is_some_and(|line| !line.ends_with(" 0")), "{text}");
    // A swap of $30 or so of a limit: a share of it, and neither its dollars nor its parties.
    assert!((0.000_1..0.1).contains(&used_of_day(&text)), "{text}");
    for private in ["0x", "USDC", "WETH", "usd"] {
        assert!(!text.contains(private), "{private} in\n{text}");
    }
}

#[test]
fn neither_a_web_page_nor_a_flood_of_requests_gets_the_metrics() {
    let served = Served::start();
    let at = served.metrics.clone();
    let refused = |request: String, status: &str| {
        let response = served.http(&request);
        let first = response.lines().next().unwrap_or_default();
        assert_eq!(first.split_whitespace().nth(1), Some(status), "{request:.200}\n{response}");
        assert!(!response.contains("bardo_"), "{response}");
    };
    let get =
        |host: &str, more: &str| format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\n{more}connection: close\r\n\r\n");
    // A name of a page's that leads to this machine, and a page that uses the real address.
    refused(get("attacker.example", ""), "403");
    refused(get("127.0.0.1.attacker.example", ""), "403");
    refused(get("attacker.example:127", ""), "403");
    refused(get(&at, "origin: http://attacker.example\r\n"), "403");
    refused(get(&at, "origin: null\r\n"), "403");
    refused("GET /metrics HTTP/1.0\r\n\r\n".to_owned(), "403");
    refused(get(&at, "").replacen("GET", "POST", 1), "405");
    refused(get(&at, "").replacen("/metrics", "/../data", 1), "404");
    refused(get(&at, &format!("x: {}\r\n", "a".repeat(64 << 10))), "431");
    // Connections that say nothing take every place, and lose it.
    let silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(&at).unwrap()).collect();
    assert!(served.get("/healthz").ends_with("\r\n\r\nok\n"));
    drop(silent);
    // It listens on the loopback interface alone.
    let port: u16 = at.rsplit(':').next().unwrap().parse().unwrap();
    let listening = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = listening.lines().filter_map(|line| line.split_whitespace().nth(1));
    let ours: Vec<_> = local.filter(|local| local.ends_with(&format!(":{port:04X}"))).collect();
    assert!(!ours.is_empty() && ours.iter().all(|local| local.starts_with("0100007F:")), "{ours:?}");
}

/// A stolen token and an open socket do not suffice: the kernel says whose process it is.
#[test]
fn a_process_of_another_user_is_refused_although_it_has_the_token() {
    // Only the superuser can act as another user.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let served = Served::start();
    let (socket, token) = (served.place().socket(), served.place().token().unwrap());
    let open = |path: &Path, mode: u32| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    socket
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(served.home.path()))
        .for_each(|folder| open(folder, 0o755));
    open(&socket, 0o666);
    let greeting = format!("{{\"bardo\":1,\"token\":\"{}\",\"rights\":\"operate\"}}\n", token.as_str());
    let answer_to = |user: Option<u32>| {
        let (socket, greeting) = (socket.clone(), greeting.clone());
        // The user of one thread alone changes.
        let greeting = move || {
            if let Some(user) = user.map(rustix::process::Uid::from_raw) {
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            }
            let mut stream = UnixStream::connect(socket).unwrap();
            stream.set_read_timeout(Some(WAIT)).unwrap();
            let _closed = stream.write_all(greeting.as_bytes());
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            line
        };
        std::thread::spawn(greeting).join().unwrap()
    };
    let own = answer_to(None);
    assert!(own.contains("welcome"), "{own}");
    let other = answer_to(Some(65_534));
    assert!(other.contains("another user") && !other.contains("welcome"), "{other}");
}

#[test]
fn a_local_process_without_the_token_can_neither_command_nor_read_events() {
    let served = Served::start();
    let folder = served.place().socket().parent().unwrap().to_owned();
    for (path, mode) in [(served.place().socket(), 0o600), (folder.join("token"), 0o600), (folder, 0o700)] {
        let found = path.symlink_metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{}", path.display());
    }
    let raise = r#"{"sent":{"golem_id":"operator","command":{"do":"hold"}}}"#;
    let zeros = "0".repeat(64);
    for first in [
        String::new(),
        raise.to_owned(),
        format!(r#"{{"bardo":1,"token":"{zeros}","rights":"operate"}}"#),
        r#"{"bardo":1,"token":"","rights":"operate"}"#.to_owned(),
        r#"{"bardo":1,"rights":"operate"}"#.to_owned(),
        "x".repeat(1 << 20),
    ] {
        let mut stream = UnixStream::connect(served.place().socket()).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let _closed = stream.write_all(format!("{first}\n{raise}\n").as_bytes());
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.lines().count() <= 1 && !answer.contains("welcome"), "{first:.80}\n{answer}");
    }
    // Connections that say nothing keep no console out.
    let silent: Vec<UnixStream> = (0..16).map(|_| UnixStream::connect(served.place().socket()).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(2_500));
    drop(Connection::open(&served.place(), Rights::Operate).unwrap());
    drop(silent);
    let metrics = served.get("/metrics");
    assert!(metrics.lines().any(|line| line == "bardo_stop{level=\"none\"} 1"), "{metrics}");
}
