//! A service that speaks JSON over HTTP: a time limit, a size limit, no redirects, no hidden retries. A request that
//! may have been taken and was not answered is [`ServiceError::Unclear`], and is not sent again by anybody here.
//!
//! Not here: what any service says (see `uniswap::service`, `intents::service`).

use std::time::Duration;

use alloy::transports::http::reqwest::{Client, Method, RequestBuilder, Response, StatusCode, header, redirect, retry};
use serde_json::Value;
use url::Url;

use crate::base::service::ServiceError;
use crate::base::text::SafeText;

/// The largest answer that is read, in bytes.
const MAX_BODY: usize = 1 << 20;
/// From the first byte out to the last byte in.
const TIMEOUT: Duration = Duration::from_secs(12);
/// For the connection alone.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// No service can ask for a longer silence than this.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// What is waited where a service is busy and does not say how long, in seconds.
const USUAL_WAIT: u64 = 1;
/// Characters kept of what a service says.
const MAX_TEXT: usize = 300;

/// A service at one address.
#[derive(Debug, Clone)]
pub struct JsonService {
    client: Client,
    base: Url,
}

/// An address that is no service's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the address of a service: {0}")]
pub struct BadAddress(SafeText);

impl JsonService {
    /// The service at `base`, such as `http://127.0.0.1:8547`.
    ///
    /// # Errors
    /// [`BadAddress`] for anything but plain HTTP to this machine or HTTPS.
    pub fn new(base: &str) -> Result<Self, BadAddress> {
        let bad = |what: &dyn std::fmt::Display| BadAddress(SafeText::clean(&what.to_string(), MAX_TEXT));
        let base = Url::parse(base).map_err(|error| bad(&error))?;
        let loopback = match base.host() {
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost",
            None => false,
        };
        if base.cannot_be_a_base() || !(base.scheme() == "https" || base.scheme() == "http" && loopback) {
            return Err(bad(&"expected https, or http on this machine"));
        }
        let builder = Client::builder()
            .timeout(TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            // An idle connection that the service has just closed would make a request's fate unclear.
            .pool_max_idle_per_host(0);
        let builder = if loopback { builder.no_proxy() } else { builder };
        Ok(Self { client: builder.build().map_err(|error| bad(&error.without_url()))?, base })
    }

    /// Asks at `path`; nothing where the service knows no such thing.
    ///
    /// # Errors
    /// [`ServiceError`]; asking changes nothing, so nothing is unclear.
    pub async fn get(&self, path: &str) -> Result<Option<Value>, ServiceError> {
        let request = self.request(Method::GET, path)?;
        let answer = request.send().await.map_err(|error| ServiceError::Unreachable(text(&error.without_url())))?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        match read(answer).await {
            Err(ServiceError::Unclear(why)) => Err(ServiceError::Unreachable(why)),
            other => other.map(Some),
        }
    }

    /// Hands `body` in at `path`: once.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ServiceError> {
        let request = self.request(Method::POST, path)?.header(header::CONTENT_TYPE, "application/json");
        let sent = request.body(body.to_string()).send().await;
        let answer = sent.map_err(|error| {
            // Before there is a connection nothing has left; afterwards nobody knows.
            let connecting = error.is_connect() || error.is_builder();
            let why = text(&error.without_url());
            if connecting { ServiceError::Unreachable(why) } else { ServiceError::Unclear(why) }
        })?;
        read(answer).await
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, ServiceError> {
        let base = self.base.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{base}{path}")).map_err(|error| ServiceError::Unreachable(text(&error)))?;
        Ok(self.client.request(method, url))
    }
}

fn text(what: &dyn std::fmt::Display) -> SafeText {
    SafeText::clean(&what.to_string(), MAX_TEXT)
}

async fn read(mut answer: Response) -> Result<Value, ServiceError> {
    let status = answer.status();
    let after = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let mut body = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_BODY => body.extend_from_slice(&chunk),
            Ok(Some(_)) => return Err(ServiceError::Nonsense(text(&"an answer of more than 1 MiB"))),
            Ok(None) => break,
            Err(error) => return Err(ServiceError::Unclear(text(&error.without_url()))),
        }
    }
    let value: Result<Value, _> = serde_json::from_slice(&body);
    if status.is_success() {
        return value.map_err(|_| ServiceError::Nonsense(text(&"an answer that is not JSON")));
    }
    if status == StatusCode::TOO_MANY_REQUESTS {
        let after = Duration::from_secs(after.unwrap_or(USUAL_WAIT)).min(LONGEST_WAIT);
        return Err(ServiceError::Busy { after });
    }
    let value = value.unwrap_or_default();
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let said = format!("{} {} {}", status.as_u16(), field("errorCode"), field("detail"));
    if status.is_client_error() {
        Err(ServiceError::Refused(text(&said.trim())))
    } else {
        Err(ServiceError::Unclear(text(&said.trim())))
    }
}
