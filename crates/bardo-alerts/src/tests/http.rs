//! Webhook and Telegram against local servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use parking_lot::Mutex;
use serde_json::Value;
use sha2::Sha256;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{TOKEN, WEBHOOK, alert, brief, secret, settings};
use crate::channel::{Channel, SendError, channels};

/// A request as it arrived.
#[derive(Debug, Clone, Default)]
struct Received {
    head: String,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("{name} is missing: {}", self.head))
    }
}

/// Server that records requests and answers each with the same bytes.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<Received>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, connections) = (Arc::<Mutex<Vec<Received>>>::default(), Arc::<AtomicUsize>::default());
        let answer: Arc<Vec<u8>> = Arc::new(answer.into());
        let (kept, count) = (Arc::clone(&requests), Arc::clone(&connections));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(attend(stream, Arc::clone(&answer), Arc::clone(&kept)));
            }
        });
        Self { port, requests, connections }
    }

    fn last(&self) -> Received {
        self.requests.lock().last().cloned().unwrap_or_default()
    }
}

async fn attend(mut stream: TcpStream, answer: Arc<Vec<u8>>, kept: Arc<Mutex<Vec<Received>>>) {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_owned();
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                kept.lock().push(Received { head, body: body.to_owned() });
                break;
            }
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(read @ 1..) => bytes.extend_from_slice(&chunk[..read]),
            Ok(_) | Err(_) => return,
        }
    }
    let _gone = stream.write_all(&answer).await;
    // An endless answer is one that goes on after the first bytes.
    if answer.ends_with(b"ENDLESS") {
        while stream.write_all(&[b'x'; 65_536]).await.is_ok() {}
    }
    if answer.is_empty() || answer.ends_with(b"STALL") {
        std::future::pending::<()>().await;
    }
}

fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn webhook(home: &TempDir, url: &str) -> Arc<dyn Channel> {
    let file = secret(home.path(), "webhook.secret", &format!("{WEBHOOK}\n"));
    let text = format!("webhook_url = \"{url}\"\nwebhook_secret_file = \"{}\"", file.display());
    channels(&settings(home.path(), &text)).unwrap().remove(0)
}

fn telegram(home: &TempDir, port: u16) -> Arc<dyn Channel> {
    let file = secret(home.path(), "telegram.token", TOKEN);
    let text = format!(
        "telegram_chat = \"-100\"\ntelegram_token_file = \"{}\"\ntelegram_api_url = \"http://127.0.0.1:{port}\"",
        file.display()
    );
    channels(&settings(home.path(), &text)).unwrap().remove(0)
}

#[tokio::test]
async fn a_webhook_is_signed_over_id_time_and_body() {
    let (home, server) = (TempDir::new().unwrap(), Server::answering(response("204 No Content", "", "")).await);
    let channel = webhook(&home, &format!("http://127.0.0.1:{}/hook/path-secret?key=query-secret", server.port));
    let alert = alert();
    let answer = channel.send(&brief(&alert)).await.unwrap();
    assert_eq!(answer.0.as_str(), "204");
    let request = server.last();
    assert!(request.head.starts_with("POST /hook/path-secret?key=query-secret HTTP/1.1"), "{}", request.head);
    let (id, time) = (request.header("webhook-id"), request.header("webhook-timestamp"));
    assert_eq!(id, alert.id);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    assert!(now.abs_diff(time.parse().unwrap()) < 60, "{time}");
    let key = STANDARD.decode(WEBHOOK.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{time}.{}", request.body).as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    assert_eq!(request.header("webhook-signature"), format!("v1,{signature}"));
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(body["type"], "bardo.decision_waits");
    assert_eq!(body["data"]["what"], "A decision waits for your answer.");
    assert_eq!(body["data"]["lapses_at_millis"], 1_700_000_000_000_u64);
    assert_eq!(body["data"]["details"], serde_json::json!([]), "brief is the default");
    let shown = format!("{channel:?} {}", channel.destination());
    for hidden in ["path-secret", "query-secret", "Y2FuYXJ5"] {
        assert!(!shown.contains(hidden), "{shown}");
    }
}

#[tokio::test]
async fn telegram_receives_plain_text_under_the_documented_names() {
    let home = TempDir::new().unwrap();
    let server = Server::answering(response("200 OK", "", r#"{"ok":true,"result":{"message_id":1}}"#)).await;
    let channel = telegram(&home, server.port);
    channel.send(&brief(&alert())).await.unwrap();
    let request = server.last();
    assert!(request.head.starts_with(&format!("POST /bot{TOKEN}/sendMessage HTTP/1.1")), "{}", request.head);
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(body["chat_id"], "-100");
    assert!(body["text"].as_str().unwrap().starts_with("Bardo: A decision waits"));
    assert_eq!(body.get("parse_mode"), None, "markup in a token's name must stay text");
    assert_eq!(body["link_preview_options"]["is_disabled"], true);
}

#[tokio::test]
async fn refusals_are_told_apart_and_a_requested_delay_is_kept() {
    let home = TempDir::new().unwrap();
    let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(90));
    for (status, headers, again, least) in [
        ("500 Internal Server Error", String::new(), true, None),
        ("429 Too Many Requests", "retry-after: 17\r\n".to_owned(), true, Some(17)),
        ("503 Service Unavailable", format!("retry-after: {later}\r\n"), true, Some(80)),
        ("429 Too Many Requests", "retry-after: 999999999\r\n".to_owned(), true, Some(3_600)),
        ("400 Bad Request", String::new(), false, None),
        ("410 Gone", String::new(), false, None),
    ] {
        let server = Server::answering(response(status, &headers, "no")).await;
        let channel = webhook(&home, &format!("http://127.0.0.1:{}/", server.port));
        match channel.send(&brief(&alert())).await.unwrap_err() {
            SendError::Again { why, after } => {
                assert!(again && why.as_str().contains(&status[..3]), "{status}: {why}");
                let seconds = after.map(|after| after.as_secs());
                assert!(seconds.is_none() == least.is_none() && seconds >= least, "{status}: {after:?}");
                assert!(seconds.is_none_or(|seconds| seconds <= 3_600), "{after:?}");
            }
            SendError::Never(why) => assert!(!again && why.as_str().contains(&status[..3]), "{status}: {why}"),
        }
    }
    let said = r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 5","parameters":{"retry_after":5}}"#;
    let server = Server::answering(response("429 Too Many Requests", "", said)).await;
    match telegram(&home, server.port).send(&brief(&alert())).await.unwrap_err() {
        SendError::Again { after, .. } => assert_eq!(after, Some(Duration::from_secs(5))),
        SendError::Never(why) => panic!("{why}"),
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let home = TempDir::new().unwrap();
    let elsewhere = Server::answering(response("200 OK", "", "")).await;
    let to = format!("location: http://127.0.0.1:{}/stolen\r\n", elsewhere.port);
    for status in ["301 Moved Permanently", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let server = Server::answering(response(status, &to, "")).await;
        let channel = webhook(&home, &format!("http://127.0.0.1:{}/", server.port));
        let error = channel.send(&brief(&alert())).await.unwrap_err();
        assert!(matches!(&error, SendError::Never(why) if why.as_str().contains("not followed")), "{error}");
    }
    assert_eq!(elsewhere.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_endless_answer_and_control_characters_do_no_harm() {
    let home = TempDir::new().unwrap();
    let head = "HTTP/1.1 500 Oops\r\nconnection: close\r\n\r\n\u{1b}[2J\u{202e}evil\n\n";
    let server = Server::answering(format!("{head}ENDLESS")).await;
    let channel = webhook(&home, &format!("http://127.0.0.1:{}/", server.port));
    let error = channel.send(&brief(&alert())).await.unwrap_err().to_string();
    assert!(error.starts_with("the server answered 500"), "{error}");
    assert!(error.chars().count() < 320 && !error.contains(['\u{1b}', '\n', '\u{202e}']), "{error}");
}

#[tokio::test]
async fn broken_connections_and_foreign_protocols_are_errors() {
    let home = TempDir::new().unwrap();
    for answer in ["HTTP/1.1 200 OK\r\ncontent-length: 10\r\n", "220 mail.example ESMTP\r\n"] {
        let server = Server::answering(answer).await;
        let channel = webhook(&home, &format!("http://127.0.0.1:{}/", server.port));
        let error = channel.send(&brief(&alert())).await.unwrap_err();
        assert!(matches!(error, SendError::Again { .. }), "{error}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let error = webhook(&home, &format!("http://127.0.0.1:{closed}/path-secret")).send(&brief(&alert())).await;
    let error = error.unwrap_err().to_string();
    assert!(!error.contains("path-secret"), "{error}");
    // A server without TLS behind an https URL, and one with a certificate that nobody has signed.
    for port in [unencrypted().await, self_signed().await] {
        let channel = webhook(&home, &format!("https://127.0.0.1:{port}/path-secret"));
        let error = channel.send(&brief(&alert())).await.unwrap_err().to_string();
        assert!(!error.contains("path-secret"), "{error}");
    }
}

/// Port of a server that speaks plain HTTP, whatever it is sent.
async fn unencrypted() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _gone = stream.write_all(response("200 OK", "", "").as_bytes()).await;
        }
    });
    port
}

/// Port of a TLS server with a certificate of its own.
pub(super) async fn self_signed() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server_config()));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move { drop(acceptor.accept(stream).await) });
        }
    });
    port
}

/// Encryption of a server with a certificate that nobody has signed.
pub(super) fn server_config() -> tokio_rustls::rustls::ServerConfig {
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::aws_lc_rs;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let key = tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up() {
    let home = TempDir::new().unwrap();
    let server = Server::answering("").await;
    let channel = webhook(&home, &format!("http://127.0.0.1:{}/", server.port));
    let error = channel.send(&brief(&alert())).await.unwrap_err();
    assert!(matches!(&error, SendError::Again { .. }), "{error}");
}

#[tokio::test]
async fn a_secret_that_a_server_repeats_is_removed() {
    let home = TempDir::new().unwrap();
    let bare = WEBHOOK.strip_prefix("whsec_").unwrap();
    let server =
        Server::answering(response("400 Bad", "", &format!("{WEBHOOK} {bare} key=query-secret hook/path-secret")))
            .await;
    let channel = webhook(&home, &format!("http://127.0.0.1:{}/hook/path-secret?key=query-secret", server.port));
    let error = channel.send(&brief(&alert())).await.unwrap_err().to_string();
    assert!(error.contains("[secret removed]"), "{error}");
    assert!([bare, "query-secret", "path-secret"].iter().all(|hidden| !error.contains(hidden)), "{error}");
    let bare = TOKEN.split_once(':').unwrap().1;
    let said = format!(r#"{{"ok":false,"error_code":401,"description":"Unauthorized {TOKEN} {bare}"}}"#);
    let server = Server::answering(response("401 Unauthorized", "", &said)).await;
    let channel = telegram(&home, server.port);
    let error = channel.send(&brief(&alert())).await.unwrap_err();
    assert!(error.to_string().contains("Unauthorized") && !error.to_string().contains("CANARY"), "{error}");
    // An error of the connection, whose URL has the token in its path.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let error = telegram(&home, closed).send(&brief(&alert())).await.unwrap_err();
    assert!(!format!("{error} {error:?} {channel:?} {}", channel.destination()).contains("CANARY"), "{error:?}");
}

#[tokio::test]
async fn secrets_of_others_and_urls_without_encryption_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = TempDir::new().unwrap();
    let file = secret(home.path(), "webhook.secret", WEBHOOK);
    let with = |url: &str, file: &std::path::Path| {
        let text = format!("webhook_url = \"{url}\"\nwebhook_secret_file = \"{}\"", file.display());
        channels(&settings(home.path(), &text)).map(drop).unwrap_err().to_string()
    };
    let error = with("http://hooks.example/path-secret", &file);
    assert!(error.contains("neither https") && !error.contains("path-secret"), "{error}");
    assert!(with("wss://hooks.example/", &file).contains("https://"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(with("https://hooks.example/", &file).contains("chmod 600"));
    assert!(with("https://hooks.example/", &home.path().join("missing")).contains("cannot read"));
    let short = secret(home.path(), "short", "whsec_c2hvcnQ=");
    let error = with("https://hooks.example/", &short);
    assert!(error.contains("24 to 64") && !error.contains("c2hvcnQ"), "{error}");
    let text = "telegram_chat = \"1\"\n";
    let error = channels(&settings(home.path(), text)).map(drop).unwrap_err().to_string();
    assert!(error.contains("BARDO_ALERT_TELEGRAM_TOKEN"), "{error}");
    let sly = secret(home.path(), "sly", "1:a/../../botx");
    let text = format!("telegram_chat = \"1\"\ntelegram_token_file = \"{}\"", sly.display());
    assert!(channels(&settings(home.path(), &text)).is_err(), "a token must not change the path");
}

#[tokio::test]
async fn a_body_that_stalls_does_not_change_the_status() {
    let home = TempDir::new().unwrap();
    let server = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nSTALL").await;
    let channel = webhook(&home, &format!("http://127.0.0.1:{}/", server.port));
    let (bot, alert) = (telegram(&home, server.port), alert());
    let (message, patience) = (brief(&alert), Duration::from_secs(20));
    let sent = tokio::time::timeout(patience, async { tokio::join!(channel.send(&message), bot.send(&message)) });
    let (hook, bot) = sent.await.unwrap();
    assert_eq!(hook.unwrap().0.as_str(), "200: STALL");
    bot.unwrap();
}

#[tokio::test]
async fn secrets_are_removed_after_cleaning_and_before_the_cut() {
    let home = TempDir::new().unwrap();
    // The Kelvin sign, which cleaning turns into a K, and a token across the end of what is shown.
    let token = "7001:KANARY-token_of-a-bot";
    let file = secret(home.path(), "kelvin.token", token);
    for said in [token.replacen('K', "\u{212a}", 1), format!("{}{token}", "x".repeat(270))] {
        let said = format!(r#"{{"ok":false,"description":"{said}"}}"#);
        let server = Server::answering(response("200 OK", "", &said)).await;
        let text = format!(
            "telegram_chat = \"1\"\ntelegram_token_file = \"{}\"\ntelegram_api_url = \"http://127.0.0.1:{}\"",
            file.display(),
            server.port
        );
        let channel = channels(&settings(home.path(), &text)).unwrap().remove(0);
        let error = channel.send(&brief(&alert())).await.unwrap_err().to_string();
        assert!(!error.contains("ANARY") && !error.contains("7001"), "{error}");
        assert!(error.contains("[secre") || error.contains("xxx"), "{error}");
    }
}
