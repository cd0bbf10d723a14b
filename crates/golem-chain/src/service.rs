//! HTTP client for JSON services, with a timeout, a size limit, no redirects and no hidden retries. A request that may
//! have been accepted but got no answer is [`ServiceError::Unclear`]; this module never resends it. For services with a
//! rate limit, requests are paced: each one waits for its slot or is not sent.
//!
//! Not here: the messages of particular services (see `uniswap::service`, `intents::service`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use alloy::transports::http::reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode, header, header::HeaderMap, header::HeaderValue, redirect,
    retry,
};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;

/// Largest response body that is read, in bytes.
const MAX_BODY: usize = 1 << 20;
/// Total timeout of a request, from the first byte sent to the last byte received.
const TIMEOUT: Duration = Duration::from_secs(12);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// Upper limit for the wait that a service can request.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Default wait where a rate-limited response names none.
const USUAL_WAIT: Duration = Duration::from_secs(1);
/// Characters of a service's message that are kept.
const MAX_TEXT: usize = 300;

/// Window over which requests are counted.
const WINDOW: Duration = Duration::from_secs(1);
/// Longest wait for a slot; beyond it a request is refused as [`ServiceError::Busy`].
const MOST_QUEUED: Duration = Duration::from_secs(3);

/// Client of one service, at one base address.
#[derive(Debug, Clone)]
pub struct JsonService {
    client: Client,
    base: Url,
    key: Option<HeaderValue>,
    pace: Option<Arc<RateLimiter>>,
    timeout: Duration,
}

/// Rate limiter of one service address, shared by the process.
#[derive(Debug)]
struct RateLimiter {
    per_window: usize,
    history: Mutex<RequestHistory>,
}

/// Request history of a rate limiter.
#[derive(Debug, Default)]
struct RequestHistory {
    /// Times at which the last requests left or will leave.
    sent: VecDeque<Instant>,
    /// End of the pause that the service asked for.
    quiet_until: Option<Instant>,
}

/// Rate limiters of the process, by base address.
static PACES: Mutex<BTreeMap<String, Arc<RateLimiter>>> = Mutex::new(BTreeMap::new());

impl RateLimiter {
    fn new(per_window: usize) -> Self {
        Self { per_window: per_window.max(1), history: Mutex::default() }
    }

    /// Reserves the next free slot and returns its time.
    fn reserve_slot(&self, now: Instant) -> Result<Instant, ServiceError> {
        let mut history = self.history.lock();
        if let Some(until) = history.quiet_until.filter(|until| *until > now) {
            return Err(ServiceError::Busy { after: until - now });
        }
        let full = history.sent.len() >= self.per_window;
        let free = if full { history.sent.front().map_or(now, |first| *first + WINDOW).max(now) } else { now };
        if free - now > MOST_QUEUED {
            return Err(ServiceError::Busy { after: free - now });
        }
        history.sent.push_back(free);
        while history.sent.len() > self.per_window {
            history.sent.pop_front();
        }
        Ok(free)
    }

    fn quiet(&self, until: Instant) {
        // An answer to an earlier request does not shorten a pause.
        let mut history = self.history.lock();
        history.quiet_until = history.quiet_until.max(Some(until));
    }
}

/// Error for an address or key that cannot be used for a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the address of a service: {0}")]
pub struct ServiceUrlError(SafeText);

impl JsonService {
    /// Creates a client for the service at `base`, such as `http://127.0.0.1:8547`.
    ///
    /// # Errors
    /// [`ServiceUrlError`] unless the address is HTTPS, or plain HTTP to this machine.
    pub fn new(base: &str) -> Result<Self, ServiceUrlError> {
        let bad = |what: &dyn std::fmt::Display| ServiceUrlError(SafeText::clean(&what.to_string(), MAX_TEXT));
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
            // With an idle connection that the service has just closed, the outcome of a request would be unclear.
            .pool_max_idle_per_host(0);
        let builder = if loopback { builder.no_proxy() } else { builder };
        let client = builder.build().map_err(|error| bad(&error.without_url()))?;
        Ok(Self { client, base, key: None, pace: None, timeout: TIMEOUT })
    }

    /// Adds a key, which every request sends in the header `x-api-key`.
    ///
    /// # Errors
    /// [`ServiceUrlError`] for a key that no HTTP header can carry. The message does not contain the key.
    pub fn with_key(mut self, key: &SecretString) -> Result<Self, ServiceUrlError> {
        let bad = |_| {
            ServiceUrlError(SafeText::clean("the key contains characters that an HTTP header cannot carry", MAX_TEXT))
        };
        let mut value = HeaderValue::from_str(key.expose_secret()).map_err(bad)?;
        value.set_sensitive(true);
        self.key = Some(value);
        Ok(self)
    }

    /// Limits the requests per second. All clients of this process with the same base address share one limit, and the
    /// first caller sets it. A request whose slot is not free soon is refused as [`ServiceError::Busy`]. Once the
    /// service has asked for a pause, nothing is sent until the pause is over.
    #[must_use]
    pub fn at_most(mut self, per_second: usize) -> Self {
        let mut paces = PACES.lock();
        let pace = paces.entry(self.base.to_string()).or_insert_with(|| Arc::new(RateLimiter::new(per_second)));
        self.pace = Some(Arc::clone(pace));
        self
    }

    /// Replaces the request timeout.
    #[must_use]
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns scheme, host and port of the service, without path, query or credentials.
    pub fn origin(&self) -> String {
        let port = self.base.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{}{port}", self.base.scheme(), self.base.host_str().unwrap_or_default())
    }

    /// Sends a GET request to `path`; `None` for status 404.
    ///
    /// # Errors
    /// A [`ServiceError`], never [`ServiceError::Unclear`]: the request changes nothing.
    pub async fn get(&self, path: &str) -> Result<Option<Value>, ServiceError> {
        let request = self.request(Method::GET, path)?;
        self.wait().await?;
        let answer = request.send().await.map_err(|error| ServiceError::Unreachable(text(&error.without_url())))?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        match self.read(answer).await {
            Err(ServiceError::Unclear(why)) => Err(ServiceError::Unreachable(why)),
            other => other.map(Some),
        }
    }

    /// Sends `body` to `path` in a POST request that changes nothing at the service.
    ///
    /// # Errors
    /// A [`ServiceError`], never [`ServiceError::Unclear`].
    pub async fn ask(&self, path: &str, body: &Value) -> Result<Value, ServiceError> {
        self.ask_with(path, body, None).await
    }

    /// Like [`JsonService::ask`], with one more request header.
    ///
    /// # Errors
    /// A [`ServiceError`], never [`ServiceError::Unclear`].
    pub async fn ask_with(
        &self,
        path: &str,
        body: &Value,
        header: Option<(&'static str, &'static str)>,
    ) -> Result<Value, ServiceError> {
        match self.send(path, body, header).await {
            Err(ServiceError::Unclear(why)) => Err(ServiceError::Unreachable(why)),
            other => other,
        }
    }

    /// Submits `body` to `path` in a POST request, exactly once.
    ///
    /// # Errors
    /// A [`ServiceError`]; [`ServiceError::Unclear`] if the service may have accepted the request.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ServiceError> {
        self.send(path, body, None).await
    }

    async fn send(
        &self,
        path: &str,
        body: &Value,
        header: Option<(&'static str, &'static str)>,
    ) -> Result<Value, ServiceError> {
        let mut request = self.request(Method::POST, path)?.header(header::CONTENT_TYPE, "application/json");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        self.wait().await?;
        let sent = request.body(body.to_string()).send().await;
        let answer = sent.map_err(|error| {
            // Nothing is sent before the connection is established; after that the outcome is unknown.
            let connecting = error.is_connect() || error.is_builder();
            let why = text(&error.without_url());
            if connecting { ServiceError::Unreachable(why) } else { ServiceError::Unclear(why) }
        })?;
        self.read(answer).await
    }

    /// Waits for a slot if the client has a rate limit.
    async fn wait(&self) -> Result<(), ServiceError> {
        if let Some(pace) = &self.pace {
            let place = pace.reserve_slot(Instant::now())?;
            tokio::time::sleep_until(place).await;
        }
        Ok(())
    }

    async fn read(&self, answer: Response) -> Result<Value, ServiceError> {
        let read = read(answer, self.key.as_ref().map(HeaderValue::as_bytes)).await;
        if let (Some(pace), Err(ServiceError::Busy { after })) = (&self.pace, &read) {
            pace.quiet(Instant::now() + *after);
        }
        read
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, ServiceError> {
        let base = self.base.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{base}{path}")).map_err(|error| ServiceError::Unreachable(text(&error)))?;
        let request = self.client.request(method, url).timeout(self.timeout);
        Ok(match &self.key {
            Some(key) => request.header("x-api-key", key.clone()),
            None => request,
        })
    }
}

fn text(what: &dyn std::fmt::Display) -> SafeText {
    SafeText::clean(&what.to_string(), MAX_TEXT)
}

async fn read(mut answer: Response, key: Option<&[u8]>) -> Result<Value, ServiceError> {
    let status = answer.status();
    let after = retry_after(answer.headers());
    let mut body = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_BODY => body.extend_from_slice(&chunk),
            Ok(Some(_)) => return Err(ServiceError::InvalidResponse(text(&"a response of more than 1 MiB"))),
            Ok(None) => break,
            Err(error) => return Err(ServiceError::Unclear(text(&error.without_url()))),
        }
    }
    // Messages of a service are shown and logged, so they must not contain the API key.
    if key.is_some_and(|key| !key.is_empty() && body.windows(key.len()).any(|part| part == key)) {
        return Err(ServiceError::InvalidResponse(text(&"a response that contains the API key")));
    }
    let value: Result<Value, _> = serde_json::from_slice(&body);
    if status.is_success() {
        return value.map_err(|_| ServiceError::InvalidResponse(text(&"a response that is not JSON")));
    }
    if status == StatusCode::TOO_MANY_REQUESTS {
        let after = after.unwrap_or(USUAL_WAIT).min(LONGEST_WAIT);
        return Err(ServiceError::Busy { after });
    }
    let value = value.unwrap_or_default();
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (code, detail) = (field("errorCode"), field("detail"));
    if status.is_client_error() {
        Err(ServiceError::refused(status.as_u16(), &code, &detail, MAX_TEXT))
    } else {
        Err(ServiceError::Unclear(text(&format!("{} {code} {detail}", status.as_u16()).trim())))
    }
}

/// Parses `Retry-After` in both of its forms, seconds or a date
/// (<https://www.rfc-editor.org/rfc/rfc9110#field.retry-after>). A date is compared with the response's own `Date`, so
/// that a clock difference does not lengthen the wait.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let said = text(header::RETRY_AFTER)?;
    if let Ok(seconds) = said.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(said).ok()?;
    let now = text(header::DATE).and_then(|said| httpdate::parse_http_date(said).ok()).unwrap_or_else(SystemTime::now);
    // A date in the past asks for the minimum wait.
    Some(until.duration_since(now).unwrap_or(USUAL_WAIT).max(USUAL_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_above_the_rate_wait_and_a_long_queue_is_rejected() {
        let pace = RateLimiter::new(3);
        let start = Instant::now();
        let places: Vec<Duration> = (0..9).map(|_| pace.reserve_slot(start).unwrap() - start).collect();
        // Three at once, three after one second, three after two seconds.
        assert_eq!(places.iter().map(Duration::as_secs).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 2, 2, 2]);
        for _ in 0..3 {
            assert_eq!(pace.reserve_slot(start).unwrap() - start, Duration::from_secs(3));
        }
        assert_eq!(pace.reserve_slot(start), Err(ServiceError::Busy { after: Duration::from_secs(4) }));
        // Once the window is over, a request leaves at once.
        let later = start + Duration::from_secs(10);
        assert_eq!(pace.reserve_slot(later), Ok(later));
    }

    /// The dates are the examples of the three date forms in RFC 9110, and one that is 37 seconds later.
    #[test]
    fn retry_after_is_parsed_as_seconds_or_a_date() {
        let of = |after: &'static str, date: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(after));
            if let Some(date) = date {
                headers.insert(header::DATE, HeaderValue::from_static(date));
            }
            retry_after(&headers).map(|wait| wait.as_secs())
        };
        let later = "Sun, 06 Nov 1994 08:50:14 GMT";
        for now in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(of(later, Some(now)), Some(37), "{now}");
        }
        assert_eq!(of("120", Some("Sun, 06 Nov 1994 08:49:37 GMT")), Some(120));
        // A date in the past gives the minimum wait, not zero.
        assert_eq!(of("Sun, 06 Nov 1994 08:49:37 GMT", Some(later)), Some(1));
        assert_eq!(of("Sun, 06 Nov 1994 08:49:37 GMT", None), Some(1));
        // Far in the future by this machine's clock.
        assert!(of("Fri, 31 Dec 9999 23:59:59 GMT", None).is_some_and(|wait| wait > 300));
        assert_eq!(of("soon", None), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn a_requested_pause_is_kept() {
        let pace = RateLimiter::new(3);
        let start = Instant::now();
        pace.quiet(start + Duration::from_secs(7));
        assert_eq!(pace.reserve_slot(start), Err(ServiceError::Busy { after: Duration::from_secs(7) }));
        let over = start + Duration::from_secs(7);
        assert_eq!(pace.reserve_slot(over), Ok(over));
    }
}
