//! E-mail over a mail server that accepts messages (SMTP submission, RFC 6409).
//!
//! `lettre` writes the message and holds the conversation. The connection is made here, because it must be bounded: a
//! server that sends one endless line would otherwise fill the memory. Before STARTTLS (RFC 3207) nothing but EHLO and
//! STARTTLS is sent, and what a server has sent ahead of the encryption is an error, not part of the conversation.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use futures::future::BoxFuture;
use lettre::Message;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::extension::ClientId;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;

use super::alert::AlertMessage;
use super::channel::{Channel, ChannelError, ChannelName, Delivered, SendError};
use super::secret::{ChannelSecret, HiddenTexts, MOST_CLEANED, SecretError};
use bardo_base::config::{EMAIL_PASSWORD, EmailSettings, EmailTls};
use bardo_base::text::SafeText;

const NAME: ChannelName = ChannelName::Email;
/// Timeout for the connection alone.
const CONNECT: Duration = Duration::from_secs(10);
/// Timeout for a whole attempt.
const WHOLE: Duration = Duration::from_secs(45);
/// Maximum number of bytes that a server may send in one attempt.
const MOST_FROM_SERVER: usize = 64 << 10;
/// Maximum length of a line before the encryption begins (RFC 5321, section 4.5.3.1.5).
const MOST_LINE: usize = 512;
/// Maximum number of lines of one reply before the encryption begins.
const MOST_LINES: usize = 64;
/// Command that ends the conversation. `lettre` also sends it after a refusal.
const QUIT: &[u8] = b"QUIT\r\n";
/// Greeting that replaces the one which a server has sent already, or does not send after STARTTLS.
const GREETING: &[u8] = b"220 ready\r\n";

#[derive(Debug)]
pub(crate) struct Email {
    server: String,
    port: u16,
    tls: EmailTls,
    encryption: Arc<ClientConfig>,
    login: Option<(String, ChannelSecret)>,
    hidden: HiddenTexts,
    from: Mailbox,
    to: Vec<Mailbox>,
}

impl Email {
    /// Opens the channel; `None` if no server is configured.
    pub(crate) fn open(settings: &EmailSettings) -> Result<Option<Self>, ChannelError> {
        let Some(server) = settings.server.as_ref().map(|server| server.value.clone()) else { return Ok(None) };
        let tls = settings.tls.value;
        if tls == EmailTls::None && !is_loopback(&server) {
            let why = "\"none\" is accepted for localhost, 127.0.0.1 and ::1 only; use \"starttls\" or \"tls\"";
            return Err(ChannelError::value("email_tls", why));
        }
        if tls != EmailTls::None && ServerName::try_from(server.as_str()).is_err() {
            let why = "not a host name: use one such as \"smtp.example.com\", without port and scheme";
            return Err(ChannelError::value("email_server", why));
        }
        let unset = |key| ChannelError::Unset { channel: NAME, key };
        let from = settings.from.as_ref().ok_or_else(|| unset("email_from"))?;
        let from = mailbox("email_from", &from.value)?;
        if settings.to.value.is_empty() {
            return Err(unset("email_to"));
        }
        let to = settings.to.value.iter().map(|address| mailbox("email_to", address)).collect::<Result<_, _>>()?;
        let failed = |error| ChannelError::Secret { channel: NAME, error };
        let login = match &settings.user {
            None => None,
            Some(user) => {
                let password = ChannelSecret::read(&settings.password).map_err(failed)?;
                let missing = SecretError::Unset { variable: EMAIL_PASSWORD, key: "email_password_file" };
                Some((user.value.clone(), password.ok_or_else(|| failed(missing))?))
            }
        };
        let hidden = hidden(login.as_ref());
        let port = settings.port.as_ref().map_or_else(|| tls.default_port(), |port| port.value);
        let encryption = encryption().map_err(|error| ChannelError::system(NAME, &error))?;
        Ok(Some(Self { server, port, tls, encryption: Arc::new(encryption), login, hidden, from, to }))
    }

    fn mail(&self, message: &AlertMessage<'_>) -> Result<Message, SendError> {
        let mut mail = Message::builder().from(self.from.clone()).subject(message.title());
        for to in &self.to {
            mail = mail.to(to.clone());
        }
        // The same for every attempt, so that a mail that arrived in spite of an error is recognised.
        let domain = self.from.email.domain();
        mail.message_id(Some(format!("<{}@{domain}>", message.alert.id)))
            .header(ContentType::TEXT_PLAIN)
            .body(message.text())
            .map_err(|error| SendError::never(&error.to_string()))
    }

    async fn attempt(&self, message: &AlertMessage<'_>) -> Result<Delivered, SendError> {
        let mail = self.mail(message)?;
        match timeout(WHOLE, self.converse(&mail)).await {
            Ok(result) => result,
            Err(_) => Err(SendError::again(&format!("no end of the conversation within {} s", WHOLE.as_secs()))),
        }
    }

    async fn converse(&self, mail: &Message) -> Result<Delivered, SendError> {
        let stream = self.connect().await?;
        // Without a name of its own: that of this machine is nobody's business.
        let hello = ClientId::Ipv4(Ipv4Addr::LOCALHOST);
        let mut connection =
            AsyncSmtpConnection::connect_with_transport(stream, &hello).await.map_err(|error| refused(&error))?;
        if let Some((user, password)) = &self.login {
            let credentials = Credentials::new(user.clone(), password.expose().to_owned());
            connection
                .auth(&[Mechanism::Plain, Mechanism::Login], &credentials)
                .await
                .map_err(|error| refused(&error))?;
        }
        let answer = connection.send(mail.envelope(), &mail.formatted()).await.map_err(|error| refused(&error))?;
        // The server has accepted the mail. This waits for no answer: the stream has ended for its reader with QUIT.
        let _closed = connection.quit().await;
        let said: Vec<&str> = answer.message().collect();
        let said = format!("{} {}", answer.code(), said.join(" "));
        Ok(Delivered(SafeText::clean(&said, MOST_CLEANED)))
    }

    async fn connect(&self) -> Result<Box<dyn AsyncTokioStream>, SendError> {
        let connecting = TcpStream::connect((self.server.as_str(), self.port));
        let tcp = match timeout(CONNECT, connecting).await {
            Ok(Ok(tcp)) => tcp,
            Ok(Err(error)) => return Err(SendError::again(&format!("cannot connect: {error}"))),
            Err(_) => return Err(SendError::again(&format!("no connection within {} s", CONNECT.as_secs()))),
        };
        let peer = tcp.peer_addr().map_err(|error| SendError::again(&error.to_string()))?;
        match self.tls {
            EmailTls::None => Ok(Box::new(BoundedStream::new(tcp, peer, &[]))),
            EmailTls::Tls => Ok(Box::new(BoundedStream::new(self.encrypt(tcp).await?, peer, &[]))),
            EmailTls::Starttls => {
                let tcp = start_tls(tcp).await?;
                Ok(Box::new(BoundedStream::new(self.encrypt(tcp).await?, peer, GREETING)))
            }
        }
    }

    async fn encrypt(&self, tcp: TcpStream) -> Result<tokio_rustls::client::TlsStream<TcpStream>, SendError> {
        let name = ServerName::try_from(self.server.clone()).map_err(|error| SendError::never(&error.to_string()))?;
        let encrypting = TlsConnector::from(Arc::clone(&self.encryption)).connect(name, tcp);
        encrypting.await.map_err(|error| SendError::again(&format!("no encrypted connection: {error}")))
    }
}

/// The password, and the forms in which AUTH sends it: servers quote the command that they refuse.
fn hidden(login: Option<&(String, ChannelSecret)>) -> HiddenTexts {
    let Some((user, password)) = login else { return HiddenTexts::default() };
    let plain = format!("\0{user}\0{}", password.expose());
    let mut texts = vec![password.expose().to_owned()];
    for text in [plain.as_str(), password.expose()] {
        texts.extend([STANDARD.encode(text), STANDARD_NO_PAD.encode(text)]);
    }
    HiddenTexts::new(texts)
}

/// Upgrades the connection: reads the greeting, sends EHLO and STARTTLS, and nothing else.
async fn start_tls(mut tcp: TcpStream) -> Result<TcpStream, SendError> {
    let plain = |why: &str| SendError::never(&format!("{why}; nothing was sent without encryption"));
    expect(&mut tcp, "220").await?;
    write(&mut tcp, b"EHLO [127.0.0.1]\r\n").await?;
    let offers = expect(&mut tcp, "250").await?;
    if !offers.iter().any(|offer| offer.eq_ignore_ascii_case("STARTTLS")) {
        return Err(plain("the server does not offer STARTTLS"));
    }
    write(&mut tcp, b"STARTTLS\r\n").await?;
    expect(&mut tcp, "220").await?;
    Ok(tcp)
}

async fn write(tcp: &mut TcpStream, line: &[u8]) -> Result<(), SendError> {
    tcp.write_all(line).await.map_err(|error| SendError::again(&error.to_string()))
}

/// Reads one reply of several lines, and returns their texts. The bytes are read one by one, so that none of those that
/// follow the reply are taken from the encrypted connection.
async fn expect(tcp: &mut TcpStream, code: &str) -> Result<Vec<String>, SendError> {
    let mut lines = Vec::new();
    while lines.len() < MOST_LINES {
        let line = read_line(tcp).await?;
        let (found, rest) = line.split_at_checked(3).unwrap_or((line.as_str(), ""));
        if found != code {
            let why = format!("the server answered {line}");
            let temporary = found.starts_with('4');
            return Err(if temporary { SendError::again(&why) } else { SendError::never(&why) });
        }
        let more = rest.starts_with('-');
        lines.push(rest.get(1..).unwrap_or_default().trim().to_owned());
        if !more {
            return Ok(lines);
        }
    }
    Err(SendError::never("the server's reply has too many lines"))
}

async fn read_line(tcp: &mut TcpStream) -> Result<String, SendError> {
    let mut line = Vec::new();
    loop {
        let byte = tcp.read_u8().await.map_err(|error| SendError::again(&error.to_string()))?;
        match byte {
            b'\n' => break,
            _ if line.len() >= MOST_LINE => return Err(SendError::never("the server's reply is too long")),
            _ => line.push(byte),
        }
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Converts an error of the conversation; `lettre` repeats the server's words and no command.
fn refused(error: &lettre::transport::smtp::Error) -> SendError {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        words.push_str(&format!(": {next}"));
        cause = next.source();
    }
    if error.is_permanent() || error.is_client() { SendError::never(&words) } else { SendError::again(&words) }
}

fn mailbox(key: &'static str, address: &str) -> Result<Mailbox, ChannelError> {
    let wrong = |_| ChannelError::value(key, "not an address such as \"bardo@example.com\"");
    let mailbox: Mailbox = address.parse().map_err(wrong)?;
    if address.is_ascii() { Ok(mailbox) } else { Err(ChannelError::value(key, "use an address of ASCII characters")) }
}

fn is_loopback(server: &str) -> bool {
    server == "localhost" || server.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Verification of servers as the operating system does it.
fn encryption() -> Result<ClientConfig, tokio_rustls::rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_platform_verifier()?.with_no_client_auth())
}

/// Stream that ends with an error when the server has sent too much, and that has ended for its reader once QUIT is
/// written: everything is decided by then, and a server that does not answer it would turn success into a repeat.
#[derive(Debug)]
struct BoundedStream<S> {
    inner: S,
    peer: SocketAddr,
    /// Bytes that are read before the server's own.
    first: &'static [u8],
    left: usize,
    has_quit: bool,
}

impl<S> BoundedStream<S> {
    fn new(inner: S, peer: SocketAddr, first: &'static [u8]) -> Self {
        Self { inner, peer, first, left: MOST_FROM_SERVER, has_quit: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let (now, later) = self.first.split_at(self.first.len().min(into.remaining()));
            into.put_slice(now);
            self.first = later;
            return Poll::Ready(Ok(()));
        }
        if self.has_quit {
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, into);
        let got = into.filled().len().saturating_sub(before);
        match self.left.checked_sub(got) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Err(io::Error::other("the server sends too much"))),
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.has_quit |= from == QUIT;
        Pin::new(&mut self.inner).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug> AsyncTokioStream for BoundedStream<S> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl Channel for Email {
    fn name(&self) -> ChannelName {
        NAME
    }

    fn destination(&self) -> SafeText {
        let to: Vec<String> = self.to.iter().map(|to| to.email.to_string()).collect();
        let (server, port, tls) = (&self.server, self.port, self.tls.as_str());
        SafeText::clean(&format!("{} over {server}:{port} ({tls})", to.join(", ")), 200)
    }

    fn send<'a>(&'a self, message: &'a AlertMessage<'a>) -> BoxFuture<'a, Result<Delivered, SendError>> {
        Box::pin(async { self.hidden.without(self.attempt(message).await) })
    }
}
