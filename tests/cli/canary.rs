//! Secrets that stand in every place where one can stand, and a session with successes, failures, consoles, figures, alerts and a backup:
//! none of them is anywhere but in its place afterwards.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use alloy::hex;
use bardo::attach::wire::Rights;
use bardo::session::envelope::CallStatus;
use bardo::session::handle::{SessionCommand as Order, SessionNews};
use bardo::session::questions::{AnswerKind, Confirmation, OperatorAnswer, Question};
use bardo_testkit::wallet_server::{APP_ID, LocalWalletServer, SECRET as WALLET_SECRET, ServerMode, WALLET_ID};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::json;

use crate::fixture::{Fixture, on_a_terminal};
use crate::keys::with_secrets;
use crate::serve::{Console, Served, swap};
use crate::{bardo, run};

/// Private keys of the account and of the second approver, and the password of each file.
const KEY: &str = "7c1f3a5d9be2468013579bdf02468ace13579bdf02468ace13579bdf0badcafe";
const APPROVER: &str = "5d9be24680135c1f3a79bdf02468ace13579bdf02468ace13579bdf0badbeef7";
const KEY_PASSWORD: &str = "canary password of the key";
const APPROVER_PASSWORD: &str = "canary password of the approver";
const SERVER_PASSWORD: &str = "canary password of the wallet server";
const PASSPHRASE: &str = "canary passphrase of the backup";
/// Keys of services: of an endpoint's URL, of a model, of a quote source, and of each channel of alerts.
const RPC: &str = "canaryrpc4f1d0b";
const OTHER_RPC: &str = "canaryrpc99e0aa";
const MODEL: &str = "canarymodel2b8fd1";
const QUOTES: &str = "canaryquotes77c3e9";
const WEBHOOK: &str = "Y2FuYXJ5LXdlYmhvb2stc2VjcmV0LWtleQ==";
const WEBHOOK_PATH: &str = "canaryhookpath51ac";
const TELEGRAM: &str = "1234567:canaryTelegramTokenAbCdEfGhIjKl";
const EMAIL: &str = "canary-password-of-the-mail-server";

/// Every secret by its name.
fn secrets() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("key", KEY),
        ("approver's key", APPROVER),
        ("password of the key", KEY_PASSWORD),
        ("password of the approver", APPROVER_PASSWORD),
        ("password of the wallet server's file", SERVER_PASSWORD),
        ("secret of the wallet server", WALLET_SECRET),
        ("passphrase of the backup", PASSPHRASE),
        ("key of the endpoint", RPC),
        ("key of another endpoint", OTHER_RPC),
        ("key of the model", MODEL),
        ("key of the quotes", QUOTES),
        ("secret of the webhook", WEBHOOK),
        ("path of the webhook", WEBHOOK_PATH),
        ("token of Telegram", TELEGRAM),
        ("password of the mail server", EMAIL),
    ])
}

/// The forms in which bytes of a secret could be written.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.as_bytes().to_vec()];
    let mut bytes = vec![secret.as_bytes().to_vec()];
    if let (64, Ok(raw)) = (secret.len(), hex::decode(secret)) {
        let listed: Vec<String> = raw.iter().map(u8::to_string).collect();
        // As `Debug` and JSON write bytes.
        forms.push(listed.join(", ").into_bytes());
        forms.push(listed.join(",").into_bytes());
        forms.push(raw.clone());
        forms.push(secret.to_ascii_uppercase().into_bytes());
        bytes.push(raw);
    } else {
        let escaped: String = secret
            .bytes()
            .map(|byte| match byte {
                byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        forms.push(escaped.into_bytes());
    }
    for one in bytes {
        forms.push(hex::encode(&one).into_bytes());
        let standard = base64(&one);
        forms.push(standard.replace('+', "-").replace('/', "_").into_bytes());
        forms.push(standard.into_bytes());
    }
    forms
}

/// Base64 without the last characters, which depend on what follows the secret.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = bytes.chunks_exact(3).flat_map(|three| {
        let all = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[usize::try_from(all >> shift & 63).unwrap()]))
    });
    digits.collect()
}

/// Output and files of the program, by their place.
#[derive(Default)]
struct Seen(Vec<(String, Vec<u8>)>);

impl Seen {
    fn add(&mut self, place: impl Into<String>, text: impl Into<Vec<u8>>) {
        self.0.push((place.into(), text.into()));
    }

    /// Runs a command, whether it fails or not.
    fn run(&mut self, home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let (out, err, _) = run(bardo(home).envs(variables.iter().copied()).args(arguments));
        self.add(format!("bardo {arguments:?}"), format!("{out}{err}"));
        format!("{out}{err}")
    }

    /// Runs a command with secrets on its descriptors 3 and 4.
    fn run_with(&mut self, home: &Path, arguments: &str, third: &str, fourth: &str) -> String {
        let (out, err, _) = with_secrets(home, arguments, third, fourth);
        for name in ["third", "fourth"] {
            fs::remove_file(home.join(name)).unwrap();
        }
        self.add(format!("bardo {arguments}"), format!("{out}{err}"));
        format!("{out}{err}")
    }

    /// Adds every file below a folder, without those that are the place of a secret.
    fn read(&mut self, folder: &Path, but: &[&Path]) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.read(&path, but);
            } else if path.is_file() && !but.contains(&path.as_path()) {
                self.add(path.display().to_string(), fs::read(&path).unwrap());
            }
        }
    }

    /// The secrets that are in it, and where.
    fn found(&self) -> Vec<String> {
        let secrets = secrets();
        let named = secrets.iter().flat_map(|(name, secret)| forms(secret).into_iter().map(move |form| (*name, form)));
        let named: Vec<(&str, Vec<u8>)> = named.collect();
        // One pass over the bytes for all forms, by their first eight: there are megabytes of logs.
        let mut begins = HashMap::<&[u8], Vec<&(&str, Vec<u8>)>>::new();
        let mut pairs = vec![false; 1 << 16];
        let pair = |bytes: &[u8]| usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
        for one in &named {
            begins.entry(&one.1[..8]).or_default().push(one);
            pairs[pair(&one.1)] = true;
        }
        let mut found = Vec::new();
        for (place, bytes) in &self.0 {
            for (at, eight) in bytes.windows(8).enumerate().filter(|(_, eight)| pairs[pair(eight)]) {
                let here = begins.get(eight).into_iter().flatten().filter(|one| bytes[at..].starts_with(&one.1));
                found.extend(
                    here.map(|(name, form)| format!("{name} in {place}, as {}", String::from_utf8_lossy(form))),
                );
            }
        }
        found
    }
}

/// Server that repeats the head of each request in an error, as a service in debug mode does; `400` for most, `401` for a model.
fn repeating(status: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 65_536];
            stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            let read = stream.read(&mut request).unwrap_or_default();
            let body = json!({"error": {"message": String::from_utf8_lossy(&request[..read])}}).to_string();
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n");
            let _gone = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
        }
    });
    port
}

/// Files and configuration with a secret each; the places where they may stand.
fn plant(home: &Path) -> Vec<std::path::PathBuf> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut places = Vec::new();
    for (name, secret) in [
        ("webhook.secret", format!("whsec_{WEBHOOK}")),
        ("telegram.token", TELEGRAM.into()),
        ("email.password", EMAIL.into()),
    ] {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(home.join(name)).unwrap();
        file.write_all(secret.as_bytes()).unwrap();
        places.push(home.join(name));
    }
    let (hook, telegram, model) =
        (repeating("400 Bad Request"), repeating("401 Unauthorized"), repeating("401 Unauthorized"));
    let at = home.display();
    let config = format!(
        "[chains.sepolia]\nrpc = [\"http://127.0.0.1:9/v3/{OTHER_RPC}\"]\n[golem]\nmodel_url = \"http://127.0.0.1:{model}/v1\"\n\
         model_name = \"m\"\n[alerts]\ndecision_seconds = 0\nwebhook_url = \"http://127.0.0.1:{hook}/{WEBHOOK_PATH}\"\n\
         webhook_secret_file = \"{at}/webhook.secret\"\ntelegram_chat = \"1\"\ntelegram_token_file = \"{at}/telegram.token\"\n\
         telegram_api_url = \"http://127.0.0.1:{telegram}\"\nemail_server = \"127.0.0.1\"\nemail_port = 9\nemail_tls = \"none\"\n\
         email_user = \"bardo\"\nemail_password_file = \"{at}/email.password\"\nemail_from = \"bardo@example.com\"\n\
         email_to = [\"you@example.com\"]\n"
    );
    fs::write(home.join("config.toml"), config).unwrap();
    places.push(home.join("config.toml"));
    places
}

/// Keeps every piece of news, as the wire carries it and as `Debug` writes it, until one is wanted.
async fn until<T>(console: &mut Console, seen: &mut Seen, mut wanted: impl FnMut(&SessionNews) -> Option<T>) -> T {
    let mut all = String::new();
    let found = console.until(|news| {
        all += &format!("{news:?}{}", serde_json::to_string(&news).unwrap_or_default());
        wanted(&news)
    });
    let found = found.await;
    seen.add("the session's news", all);
    found
}

/// Everything that the console draws while somebody goes through its screens.
fn screens(home: &Path) -> Vec<u8> {
    let pty = native_pty_system().openpty(PtySize { rows: 60, cols: 200, ..PtySize::default() }).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env_clear();
    for (name, value) in [("BARDO_HOME", home.to_str().unwrap()), ("TERM", "xterm-256color"), ("BARDO_LOG", "trace")] {
        command.env(name, value);
    }
    command.args(["attach"]);
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut screen = pty.master.try_clone_reader().unwrap();
    let mut keys = pty.master.take_writer().unwrap();
    let reading = std::thread::spawn(move || {
        let mut shown = Vec::new();
        let _ended = screen.read_to_end(&mut shown);
        shown
    });
    for key in "1234567890?".chars() {
        std::thread::sleep(Duration::from_millis(700));
        let _gone = keys.write_all(key.to_string().as_bytes());
    }
    std::thread::sleep(Duration::from_millis(700));
    child.kill().unwrap();
    child.wait().unwrap();
    drop(keys);
    drop(pty.master);
    reading.join().unwrap()
}

/// A backup of the folder, opened elsewhere: its configuration has the hosts of endpoints alone.
fn back_up(seen: &mut Seen, home: &Path) {
    let file = home.join("bardo.backup");
    let said =
        seen.run_with(home, &format!("backup {} --passphrase-fd 3", file.display()), &format!("{PASSPHRASE}\n"), "");
    assert!(file.exists(), "{said}");
    let other = tempfile::tempdir().unwrap();
    let said = seen.run_with(
        other.path(),
        &format!("restore {} --passphrase-fd 3", file.display()),
        &format!("{PASSPHRASE}\n"),
        "",
    );
    assert!(other.path().join("config.toml").exists(), "{said}");
    seen.read(other.path(), &[]);
}

/// One swap that succeeds, one that fails, one that both operators approve.
async fn act(seen: &mut Seen, served: &Served) {
    let home = served.home.path();
    let mut console = served.attach(Rights::Operate).await;
    let ready = |news: &SessionNews| matches!(news, SessionNews::Ready(_)).then_some(());
    until(&mut console, seen, ready).await;
    for (ticket, amount, expected) in [(1, "0.01", CallStatus::Success), (2, "1000000", CallStatus::Error)] {
        console.send(swap(ticket, amount)).await;
        let reply = |news: &SessionNews| match news {
            SessionNews::Reply { ticket: one, response } if *one == ticket => Some(response.clone()),
            _ => None,
        };
        let response = until(&mut console, seen, reply).await;
        assert!(response.status == expected || ticket == 2, "{response:#?}");
        assert_eq!(response.status == CallStatus::Success, ticket == 1, "{response:#?}");
    }
    console.send(swap(3, "0.1")).await;
    let open = |news: &SessionNews| match news {
        SessionNews::Questions(open) => open.first().cloned(),
        _ => None,
    };
    until(&mut console, seen, open).await;
    for (password, expected) in [("canary that is wrong", 1), (APPROVER_PASSWORD, 0)] {
        let answers = [("to confirm: ", "approve\n"), ("password of the key second", &*format!("{password}\r"))];
        let (shown, code) = on_a_terminal(home, &["approve", "--key", "second"], &answers);
        assert_eq!(code.min(1), expected, "{shown}");
        seen.add("the second operator's terminal", shown);
    }
    let may =
        |question: &Question| question.answers.iter().any(|one| one.kind == AnswerKind::Once && one.why_not.is_none());
    let given = |news: &SessionNews| match news {
        SessionNews::Questions(open) => open.first().filter(|one| may(one)).cloned(),
        _ => None,
    };
    let question = until(&mut console, seen, given).await;
    seen.add("screens of a decision", screens(home));
    let read = question.to_read.iter().map(|one| one.text.clone()).collect();
    let confirmation = Confirmation { read, ..Confirmation::default() };
    console.send(Order::Answer { key: question.key, answer: OperatorAnswer::Once, confirmation, password: None }).await;
    let reply = |news: &SessionNews| matches!(news, SessionNews::Reply { ticket: 3, .. }).then_some(());
    until(&mut console, seen, reply).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_nowhere_but_in_its_place() {
    let fixture = Fixture::new();
    let home = tempfile::tempdir().unwrap();
    let mut seen = Seen::default();
    let planted = plant(home.path());
    let import = |name: &str| format!("keys import {name} --secret-fd 3 --password-fd 4");
    for (name, key, password) in [("canary", KEY, KEY_PASSWORD), ("second", APPROVER, APPROVER_PASSWORD)] {
        let said = seen.run_with(home.path(), &import(name), key, password);
        assert!(said.contains("0x"), "{said}");
    }
    let approver: alloy_signer_local::PrivateKeySigner = APPROVER.parse().unwrap();
    let approvers = format!("[second_approval]\nabove_usd = \"100\"\napprovers = [\"{}\"]\n", approver.address());
    fs::write(home.path().join("policy-devnet.toml"), format!("preset = \"demo\"\n{approvers}")).unwrap();
    let server = LocalWalletServer::start(KEY.parse().unwrap());
    let place =
        format!("--url {} --app-id {APP_ID} --wallet-id {WALLET_ID} --secret-fd 3 --password-fd 4", server.url());
    for mode in [ServerMode::Echo, ServerMode::Broken, ServerMode::Honest] {
        server.behave(mode);
        let name = format!("keys server {} {place}", if mode == ServerMode::Honest { "far" } else { "none" });
        seen.run_with(home.path(), &name, WALLET_SECRET, SERVER_PASSWORD);
    }

    let variables = [
        ("BARDO_LOG", "trace"),
        ("BARDO_MODEL_KEY", MODEL),
        ("BARDO_UNISWAP_API_KEY", QUOTES),
        ("RUST_BACKTRACE", "full"),
    ];
    let rpc = format!("ethereum={}/?key={RPC}", fixture.devnet.url(0));
    let mut served = Served::with(home, &["--rpc", &rpc, "--metrics-port", "0"], &variables);
    let figures = served.line();
    let address =
        figures.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_else(|| panic!("{figures}"));
    act(&mut seen, &served).await;
    for path in ["metrics", "healthz"] {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        seen.add(path, answer);
    }
    seen.add("screens", screens(served.home.path()));
    back_up(&mut seen, served.home.path());
    seen.run(served.home.path(), &["serve", "--end"], &[]);
    let (out, _) = served.ended();
    seen.add("what the session said", format!("{figures}{out}{}", served.said()));

    let home = served.home.path();
    for arguments in [
        &["log", "--json"][..],
        &["log", "verify"],
        &["keys", "list", "--json"],
        &["config", "show"],
        &["doctor", "--rpc", &rpc],
        &["--brain", "model", "doctor", "--rpc", &rpc],
        &["alerts", "list"],
        &["alerts", "test"],
        &["--network", "sepolia", "doctor"],
        &["--network", "sepolia", "call", "get_balances", "{}"],
        &["--rpc", &format!("ethereum=http://127.0.0.1:9/{RPC}"), "call", "get_balances", "{}"],
        &["halt", "--reason", "a stop"],
    ] {
        seen.run(home, arguments, &variables);
    }
    for (name, password) in [("canary", KEY_PASSWORD), ("far", SERVER_PASSWORD), ("canary", "a wrong one")] {
        let call = format!("--network sepolia call wallet_get_status '{{}}' --key {name} --password-fd 3");
        seen.run_with(home, &call, password, "");
    }
    let all: String = seen.0.iter().map(|(_, text)| String::from_utf8_lossy(text)).collect();
    for expected in ["0x", "bardo_", "channel", "trace"] {
        assert!(all.contains(expected), "nothing was seen of {expected}");
    }
    let places: Vec<&Path> = planted.iter().map(std::path::PathBuf::as_path).collect();
    seen.read(home, &places);
    assert!(seen.0.iter().any(|(place, text)| place.contains("/logs/") && text.len() > 10_000), "a log at trace level");
    assert_eq!(seen.found(), Vec::<String>::new());
    // In their places they are found.
    let mut places = Seen::default();
    places.0.extend(planted.iter().map(|place| (place.display().to_string(), fs::read(place).unwrap())));
    places.add("encodings", format!("{} {KEY_PASSWORD:?} {:?}", KEY.to_uppercase(), hex::decode(APPROVER).unwrap()));
    for name in [
        "secret of the webhook",
        "token of Telegram",
        "password of the mail server",
        "key of another endpoint",
        "key",
        "password of the key",
        "approver's key",
    ] {
        assert!(places.found().iter().any(|found| found.starts_with(&format!("{name} in "))), "{name}");
    }
}
