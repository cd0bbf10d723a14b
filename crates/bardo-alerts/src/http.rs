//! Bounded HTTP requests: no redirects, no unbounded bodies, no waiting without end, and errors without URLs, because a
//! URL may contain a credential.

use std::time::{Duration, SystemTime};

use reqwest::{Client, RequestBuilder, Response, StatusCode, header, redirect, retry};
use tokio::time::{Instant, timeout, timeout_at};

use super::channel::{ChannelError, ChannelName, SendError};
use super::secret::MOST_CLEANED;
use bardo_base::config::RpcUrl;
use bardo_base::text::SafeText;

/// Timeout for the connection alone.
const CONNECT: Duration = Duration::from_secs(10);
/// Timeout for the status and headers of an answer.
const WHOLE: Duration = Duration::from_secs(30);
/// Maximum size of an answer that is read, in bytes.
const MOST_ANSWER: usize = 16 << 10;
/// Timeout for the body: what has arrived by then is enough, because the status has decided.
const BODY: Duration = Duration::from_secs(2);
/// Upper limit of the delay that a server can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// Answer of a server.
pub(crate) struct HttpAnswer {
    pub status: StatusCode,
    pub retry_after: Option<Duration>,
    /// Beginning of the body.
    pub body: Vec<u8>,
    /// True if the body goes on, or broke off.
    pub is_cut: bool,
}

/// Checks that a URL is encrypted or on this machine, and makes a client for it.
pub(crate) fn client(channel: ChannelName, key: &'static str, url: &RpcUrl) -> Result<Client, ChannelError> {
    match url.expose().scheme() {
        "https" => {}
        "http" if url.is_loopback() => {}
        "http" => return Err(ChannelError::Unencrypted { key, url: url.clone() }),
        _ => return Err(ChannelError::value(key, "use a URL that begins with https://")),
    }
    let builder = Client::builder()
        .connect_timeout(CONNECT)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .pool_max_idle_per_host(0);
    let builder = if url.is_loopback() { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| ChannelError::system(channel, &error.without_url()))
}

/// Makes one request and reads the beginning of its answer. Redirects are answers.
///
/// # Errors
/// [`SendError`], without the URL.
pub(crate) async fn exchange(request: RequestBuilder) -> Result<HttpAnswer, SendError> {
    match timeout(WHOLE, request.send()).await {
        Ok(response) => Ok(read(response.map_err(failed)?).await),
        Err(_) => Err(SendError::again(&format!("no answer within {} s", WHOLE.as_secs()))),
    }
}

fn failed(error: reqwest::Error) -> SendError {
    let builder = error.is_builder();
    let error = error.without_url();
    // The causes say more than the error itself, and are made by libraries that know no URL.
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        words.push_str(&format!(": {next}"));
        cause = next.source();
    }
    if builder { SendError::never(&words) } else { SendError::again(&words) }
}

/// Reads the beginning of a body. One that breaks off or does not end does not change what the status says.
async fn read(mut response: Response) -> HttpAnswer {
    let status = response.status();
    let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| delay(value.to_str().ok()?));
    let (mut body, mut is_cut) = (Vec::new(), true);
    let ends = Instant::now() + BODY;
    while let Ok(Ok(chunk)) = timeout_at(ends, response.chunk()).await {
        let Some(chunk) = chunk else {
            is_cut = false;
            break;
        };
        let room = MOST_ANSWER.saturating_sub(body.len());
        body.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
        if body.len() >= MOST_ANSWER {
            break;
        }
    }
    HttpAnswer { status, retry_after, body, is_cut }
}

impl HttpAnswer {
    /// Status, and the beginning of the body or a part of it.
    pub fn described(&self, said: &str) -> String {
        let status = self.status.as_u16();
        if said.trim().is_empty() { format!("{status}") } else { format!("{status}: {said}") }
    }

    /// Error of a status other than success.
    pub fn refusal(&self, said: &str) -> SendError {
        let shown = self.described(said);
        if self.status.is_redirection() {
            return SendError::never(&format!(
                "the server answered {shown}, a redirect, which is not followed: set the URL that it leads to"
            ));
        }
        let again = self.status.is_server_error()
            || matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
        let why = format!("the server answered {shown}");
        match again {
            true => SendError::Again { why: SafeText::clean(&why, MOST_CLEANED), after: self.retry_after },
            false => SendError::never(&why),
        }
    }
}

/// Parses `Retry-After`: seconds, or a date (RFC 9110, section 10.2.3).
pub(crate) fn delay(asked: &str) -> Option<Duration> {
    let asked = asked.trim();
    let delay = match asked.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = httpdate::parse_http_date(asked).ok()?;
            at.duration_since(SystemTime::now()).unwrap_or_default()
        }
    };
    Some(delay.min(LONGEST_WAIT))
}
