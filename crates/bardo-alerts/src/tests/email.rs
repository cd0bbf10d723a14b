//! E-mail against local mail servers that hold the documented conversation (RFC 5321, 3207, 4954).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::http::{self_signed, server_config};
use super::{PASSWORD, alert, brief, secret, settings};
use crate::channel::{Channel, SendError, channels};

/// Difference of a mail server from an honest one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Flaw {
    Honest,
    NoStarttls,
    Starttls,
    /// Sends a reply of its own before the encryption begins.
    StarttlsInjected,
    EndlessLine,
    EndlessReply,
    RejectsRecipient,
    Busy,
    RepeatsPassword,
    RepeatsCommand,
    /// Refuses the recipient, and answers nothing afterwards.
    RejectsThenStalls,
    /// Accepts the mail, and answers nothing afterwards.
    AcceptsThenStalls,
    Hangs,
    Closes,
}

/// Mail server that keeps all lines that it receives.
struct MailServer {
    port: u16,
    lines: Arc<Mutex<Vec<String>>>,
}

impl MailServer {
    async fn with(flaw: Flaw) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&lines);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    if converse(&mut stream, flaw, &kept).await {
                        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server_config()));
                        drop(acceptor.accept(stream.into_inner()).await);
                    }
                });
            }
        });
        Self { port, lines }
    }

    fn said(&self) -> String {
        self.lines.lock().join("\n")
    }
}

/// Holds one conversation; returns true if encryption begins.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufReader<S>,
    flaw: Flaw,
    kept: &Mutex<Vec<String>>,
) -> bool {
    if flaw == Flaw::Hangs {
        std::future::pending::<()>().await;
    }
    if flaw == Flaw::Closes {
        return false;
    }
    if flaw == Flaw::EndlessLine {
        while stream.get_mut().write_all(&[b'2'; 65_536]).await.is_ok() {}
        return false;
    }
    if flaw == Flaw::EndlessReply {
        while stream.get_mut().write_all("220-more\r\n".repeat(1_000).as_bytes()).await.is_ok() {}
        return false;
    }
    stream.get_mut().write_all(b"220 mail.example ESMTP\r\n").await.unwrap();
    let mut in_data = false;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return false;
        }
        let line = line.trim_end().to_owned();
        kept.lock().push(line.clone());
        let verb = line.split(' ').next().unwrap_or_default().to_uppercase();
        let reply = match (in_data, verb.as_str()) {
            (true, ".") => {
                in_data = false;
                "250 queued as 42\r\n".to_owned()
            }
            (true, _) => continue,
            (false, "EHLO") if matches!(flaw, Flaw::Starttls | Flaw::StarttlsInjected) => {
                "250-mail.example\r\n250-8BITMIME\r\n250 STARTTLS\r\n".to_owned()
            }
            (false, "EHLO") => "250-mail.example\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN\r\n".to_owned(),
            (false, "STARTTLS") => {
                let more = if flaw == Flaw::StarttlsInjected { "250 injected\r\n" } else { "" };
                stream.get_mut().write_all(format!("220 go\r\n{more}").as_bytes()).await.unwrap();
                return true;
            }
            (false, "AUTH") if flaw == Flaw::RepeatsPassword => format!("535 wrong password: {PASSWORD}\r\n"),
            (false, "AUTH") if flaw == Flaw::RepeatsCommand => format!("501 syntax error in {line}\r\n"),
            (false, "RCPT") if flaw == Flaw::RejectsThenStalls => "550 no such user\r\n".to_owned(),
            (false, "QUIT") if matches!(flaw, Flaw::RejectsThenStalls | Flaw::AcceptsThenStalls) => {
                std::future::pending().await
            }
            (false, "AUTH") => "235 welcome\r\n".to_owned(),
            (false, "MAIL") if flaw == Flaw::Busy => "451 try again later\r\n".to_owned(),
            (false, "RCPT") if flaw == Flaw::RejectsRecipient => "550 no such user\r\n".to_owned(),
            (false, "MAIL" | "RCPT") => "250 ok\r\n".to_owned(),
            (false, "DATA") => {
                in_data = true;
                "354 go ahead\r\n".to_owned()
            }
            (false, "QUIT") => "221 bye\r\n".to_owned(),
            (false, _) => "500 unknown\r\n".to_owned(),
        };
        stream.get_mut().write_all(reply.as_bytes()).await.unwrap();
    }
}

fn email(home: &TempDir, port: u16, tls: &str) -> Arc<dyn Channel> {
    let file = secret(home.path(), "email.password", &format!("{PASSWORD}\n"));
    let text = format!(
        "email_server = \"127.0.0.1\"\nemail_port = {port}\nemail_tls = \"{tls}\"\nemail_user = \"bardo\"\n\
         email_password_file = \"{}\"\nemail_from = \"bardo@example.com\"\nemail_to = [\"a@example.com\", \
         \"b@example.com\"]",
        file.display()
    );
    channels(&settings(home.path(), &text)).unwrap().remove(0)
}

#[tokio::test]
async fn a_mail_is_sent_in_the_documented_conversation() {
    let (home, server) = (TempDir::new().unwrap(), MailServer::with(Flaw::Honest).await);
    let channel = email(&home, server.port, "none");
    let alert = alert();
    let answer = channel.send(&brief(&alert)).await.unwrap();
    assert_eq!(answer.0.as_str(), "250 queued as 42");
    // The server may read the last command later than its answer is known.
    while !server.said().ends_with("QUIT") {
        tokio::task::yield_now().await;
    }
    let said = server.said();
    let login = STANDARD.encode(format!("\0bardo\0{PASSWORD}"));
    for line in [
        "EHLO [127.0.0.1]",
        &format!("AUTH PLAIN {login}"),
        "MAIL FROM:<bardo@example.com>",
        "RCPT TO:<a@example.com>",
        "RCPT TO:<b@example.com>",
        "DATA",
        "Subject: Bardo: A decision waits for your answer.",
        &format!("Message-ID: <{}@example.com>", alert.id),
        "Where: devnet (PLAY MONEY), ethereum",
        "QUIT",
    ] {
        assert!(said.lines().any(|found| found.starts_with(line)), "{line}\n{said}");
    }
}

#[tokio::test]
async fn nothing_but_ehlo_is_sent_without_encryption() {
    let home = TempDir::new().unwrap();
    for flaw in [Flaw::NoStarttls, Flaw::Honest] {
        let server = MailServer::with(flaw).await;
        let error = email(&home, server.port, "starttls").send(&brief(&alert())).await.unwrap_err();
        assert!(matches!(&error, SendError::Never(why) if why.as_str().contains("STARTTLS")), "{error}");
        assert_eq!(server.said(), "EHLO [127.0.0.1]");
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_has_signed_ends_the_conversation() {
    let home = TempDir::new().unwrap();
    for flaw in [Flaw::Starttls, Flaw::StarttlsInjected] {
        let server = MailServer::with(flaw).await;
        let error = email(&home, server.port, "starttls").send(&brief(&alert())).await.unwrap_err();
        assert!(error.to_string().contains("no encrypted connection"), "{error}");
        assert_eq!(server.said(), "EHLO [127.0.0.1]\nSTARTTLS", "neither login nor mail");
    }
    let error = email(&home, self_signed().await, "tls").send(&brief(&alert())).await.unwrap_err();
    assert!(error.to_string().contains("no encrypted connection"), "{error}");
}

#[tokio::test]
async fn endless_replies_are_cut_off() {
    let home = TempDir::new().unwrap();
    for (flaw, tls, says) in [
        (Flaw::EndlessLine, "none", "too much"),
        (Flaw::EndlessReply, "none", ""),
        (Flaw::EndlessLine, "starttls", "too long"),
        (Flaw::EndlessReply, "starttls", "too many lines"),
    ] {
        let server = MailServer::with(flaw).await;
        let error = email(&home, server.port, tls).send(&brief(&alert())).await.unwrap_err();
        assert!(error.to_string().contains(says), "{flaw:?}: {error}");
    }
}

#[tokio::test]
async fn refusals_are_told_apart_and_repeat_no_password() {
    let home = TempDir::new().unwrap();
    for (flaw, again) in
        [(Flaw::RejectsRecipient, false), (Flaw::RepeatsPassword, false), (Flaw::Busy, true), (Flaw::Closes, true)]
    {
        let server = MailServer::with(flaw).await;
        let channel = email(&home, server.port, "none");
        let error = channel.send(&brief(&alert())).await.unwrap_err();
        assert_eq!(matches!(error, SendError::Again { .. }), again, "{flaw:?}: {error}");
        assert!(!format!("{error:?} {channel:?}").contains(PASSWORD), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_server_that_hangs_is_given_up() {
    let (home, server) = (TempDir::new().unwrap(), MailServer::with(Flaw::Hangs).await);
    let error = email(&home, server.port, "none").send(&brief(&alert())).await.unwrap_err();
    assert!(matches!(&error, SendError::Again { why, .. } if why.as_str().contains("within 45 s")), "{error}");
}

#[tokio::test]
async fn settings_that_would_send_in_the_clear_or_nowhere_are_refused() {
    let home = TempDir::new().unwrap();
    let whole = "email_from = \"a@example.com\"\nemail_to = [\"b@example.com\"]\n";
    for (text, says) in [
        (format!("email_server = \"mail.example\"\nemail_tls = \"none\"\n{whole}"), "localhost"),
        (format!("email_server = \"https://mail.example\"\n{whole}"), "not a host name"),
        ("email_server = \"mail.example\"\nemail_to = [\"b@example.com\"]".to_owned(), "alerts.email_from"),
        ("email_server = \"mail.example\"\nemail_from = \"b@example.com\"".to_owned(), "alerts.email_to"),
        (format!("email_server = \"mail.example\"\nemail_user = \"me\"\n{whole}"), "BARDO_ALERT_EMAIL_PASSWORD"),
        (
            "email_server = \"mail.example\"\nemail_from = \"a@x\\r\\nBcc: c@d\"\nemail_to = [\"b@example.com\"]"
                .to_owned(),
            "not an address",
        ),
    ] {
        let error = channels(&settings(home.path(), &text)).map(drop).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_quit_changes_nothing() {
    let home = TempDir::new().unwrap();
    let patience = std::time::Duration::from_secs(20);
    let server = MailServer::with(Flaw::AcceptsThenStalls).await;
    let (channel, alert) = (email(&home, server.port, "none"), alert());
    let answer = timeout(patience, channel.send(&brief(&alert))).await.unwrap().unwrap();
    assert_eq!(answer.0.as_str(), "250 queued as 42");
    let server = MailServer::with(Flaw::RejectsThenStalls).await;
    let channel = email(&home, server.port, "none");
    let error = timeout(patience, channel.send(&brief(&alert))).await.unwrap().unwrap_err();
    assert!(matches!(&error, SendError::Never(why) if why.as_str().contains("no such user")), "{error}");
}

#[tokio::test]
async fn a_quoted_login_is_hidden() {
    let home = TempDir::new().unwrap();
    let server = MailServer::with(Flaw::RepeatsCommand).await;
    let error = email(&home, server.port, "none").send(&brief(&alert())).await.unwrap_err().to_string();
    let login = STANDARD.encode(format!("\0bardo\0{PASSWORD}"));
    assert!(error.contains("syntax error in AUTH PLAIN [secret removed]"), "{error}");
    assert!(!error.contains(login.trim_end_matches('=')), "{error}");
}
