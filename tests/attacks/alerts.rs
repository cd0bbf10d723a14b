//! Attacks of a server that alerts are sent to: it answers with redirects, repeated secrets, control characters, or not
//! at all.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

/// Secrets of the channels, which must appear nowhere but in the requests.
const SECRETS: [&str; 4] = ["Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5", "CANARY-token", "path-canary", "query-canary"];

/// Server that answers every request with the same bytes, then keeps the connection open if the answer is empty.
fn server(answer: impl Into<Vec<u8>>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (answer, requests): (Vec<u8>, _) = (answer.into(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&requests);
    std::thread::spawn(move || {
        let mut silent: Vec<TcpStream> = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            if answer.is_empty() {
                silent.push(stream);
                continue;
            }
            let mut request = [0; 65_536];
            let mut read = 0;
            // Head and body arrive in one or two pieces; the body ends with a brace.
            while read == 0 || request[read - 1] != b'}' {
                match stream.read(&mut request[read..]) {
                    Ok(more @ 1..) => read += more,
                    Ok(_) | Err(_) => break,
                }
            }
            let _gone = stream.write_all(&answer);
        }
    });
    (port, requests)
}

/// A home whose alerts go to a webhook and a Telegram server on this machine.
fn home(webhook: u16, telegram: u16) -> TempDir {
    let home = TempDir::new().unwrap();
    for (name, secret) in [("webhook", format!("whsec_{}", SECRETS[0])), ("token", format!("1:{}", SECRETS[1]))] {
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(home.path().join(name)).unwrap();
        file.write_all(secret.as_bytes()).unwrap();
    }
    let at = home.path().display();
    let config = format!(
        "[alerts]\nprice_percent = 5\nwebhook_url = \"http://127.0.0.1:{webhook}/{}?key={}\"\nwebhook_secret_file = \
         \"{at}/webhook\"\ntelegram_chat = \"1\"\ntelegram_token_file = \"{at}/token\"\ntelegram_api_url = \
         \"http://127.0.0.1:{telegram}\"\n",
        SECRETS[2], SECRETS[3]
    );
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    home
}

fn bardo(home: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
    command.args(arguments).env_clear().env("BARDO_HOME", home.path()).env("BARDO_LOG", "trace");
    command.output().unwrap()
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Fails if a file below `folder` contains a secret.
fn without_secrets(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            without_secrets(&path);
        } else if path.is_file() {
            let bytes = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            let found = SECRETS.iter().find(|secret| bytes.contains(**secret));
            assert_eq!(found, None, "{}", path.display());
        }
    }
}

#[test]
fn a_server_that_redirects_or_repeats_a_secret_learns_and_shows_none() {
    let (elsewhere, stolen) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let to = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:{elsewhere}/\r\ncontent-length: 0\r\n\r\n"
    );
    let said = format!(r#"{{"ok":false,"description":"\u001b[2J bad token 1:{}"}}"#, SECRETS[1]);
    let repeats = format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{said}", said.len());
    let home = home(server(to).0, server(repeats).0);
    for arguments in [&["alerts", "test"][..], &["--json", "alerts", "test"], &["alerts", "list"], &["config", "show"]]
    {
        let output = bardo(&home, arguments);
        let shown = shown(&output);
        assert_eq!(output.status.code(), Some(i32::from(arguments.contains(&"test"))), "{shown}");
        let found = SECRETS.iter().find(|secret| shown.contains(**secret));
        assert!(found.is_none() && !shown.contains('\u{1b}'), "{arguments:?}: {shown}");
    }
    assert_eq!(stolen.load(Ordering::SeqCst), 0, "a redirect would carry the alert elsewhere");
}

#[test]
fn a_hostile_or_silent_server_holds_up_no_session_and_its_failure_is_recorded() {
    let said = format!("\u{1b}[2J\u{202e}{} {} {}", SECRETS[0], SECRETS[2], SECRETS[3]);
    let refuses = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\n\r\n{said}", said.len());
    let (webhook, requests) = server(refuses);
    let home = home(webhook, server("").0);
    let scenario = home.path().join("fall.toml");
    let query = |at| format!("[[beat]]\nat = {at}\ndo = \"query_state\"\nparams = {{ query = \"balances\" }}\n");
    let cue = "[[cue]]\nat = 4\ndo = { market = { bps = -800, blocks = 2 } }\n";
    let text = format!("name = \"fall\"\nabout = \"a\"\n{}{cue}{}", query(1), query(60));
    std::fs::write(&scenario, text).unwrap();
    let output = bardo(&home, &["golem", "run", "--headless", "--scenario", scenario.to_str().unwrap()]);
    let shown = shown(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(requests.load(Ordering::SeqCst) > 0, "the fall is an alert");
    let failed = r#""kind":"alert:channel","channel":"webhook","works":false"#;
    assert!(shown.contains(failed), "{shown}");
    assert!(!shown.contains('\u{1b}') && SECRETS.iter().all(|secret| !shown.contains(secret)), "{shown}");
    without_secrets(&home.path().join("data"));
    let listed = bardo(&home, &["alerts", "list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("fails: the server answered 400"), "{listed}");
}
