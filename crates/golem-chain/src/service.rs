//! A service that speaks JSON over HTTP: a time limit, a size limit, no redirects, no hidden retries. A request that
//! may have been taken and was not answered is [`ServiceError::Unclear`], and is not sent again by anybody here.
//! Where a service counts its callers' requests, so does this: what is too early waits or is not sent.
//!
//! Not here: what any service says (see `uniswap::service`, `intents::service`).

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

/// The largest answer that is read, in bytes.
const MAX_BODY: usize = 1 << 20;
/// From the first byte out to the last byte in.
const TIMEOUT: Duration = Duration::from_secs(12);
/// For the connection alone.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// No service can ask for a longer silence than this.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// What is waited where a service is busy and does not say how long.
const USUAL_WAIT: Duration = Duration::from_secs(1);
/// Characters kept of what a service says.
const MAX_TEXT: usize = 300;

/// Over so long a service counts requests.
const WINDOW: Duration = Duration::from_secs(1);
/// Nobody waits longer than this for a place among the requests of a service that counts them.
const MOST_QUEUED: Duration = Duration::from_secs(3);

/// A service at one address.
#[derive(Debug, Clone)]
pub struct JsonService {
    client: Client,
    base: Url,
    key: Option<HeaderValue>,
    pace: Option<Arc<Pace>>,
    timeout: Duration,
}

/// How often a service lets itself be asked.
#[derive(Debug)]
struct Pace {
    per_window: usize,
    told: Mutex<Told>,
}

/// What was sent when, and what the service said about it.
#[derive(Debug, Default)]
struct Told {
    /// When the last requests left, or will leave.
    sent: VecDeque<Instant>,
    /// Until when it wants to be left alone.
    quiet_until: Option<Instant>,
}

/// Of every service that counts, by its address.
static PACES: Mutex<BTreeMap<String, Arc<Pace>>> = Mutex::new(BTreeMap::new());

impl Pace {
    fn new(per_window: usize) -> Self {
        Self { per_window: per_window.max(1), told: Mutex::default() }
    }

    /// When the next request may leave; its place is taken with that.
    fn place(&self, now: Instant) -> Result<Instant, ServiceError> {
        let mut told = self.told.lock();
        if let Some(until) = told.quiet_until.filter(|until| *until > now) {
            return Err(ServiceError::Busy { after: until - now });
        }
        let full = told.sent.len() >= self.per_window;
        let free = if full { told.sent.front().map_or(now, |first| *first + WINDOW).max(now) } else { now };
        if free - now > MOST_QUEUED {
            return Err(ServiceError::Busy { after: free - now });
        }
        told.sent.push_back(free);
        while told.sent.len() > self.per_window {
            told.sent.pop_front();
        }
        Ok(free)
    }

    fn quiet(&self, until: Instant) {
        self.told.lock().quiet_until = Some(until);
    }
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
        let client = builder.build().map_err(|error| bad(&error.without_url()))?;
        Ok(Self { client, base, key: None, pace: None, timeout: TIMEOUT })
    }

    /// The same service, asked with a key in the header `x-api-key`.
    ///
    /// # Errors
    /// [`BadAddress`] for a key that no header can carry; it is not repeated.
    pub fn with_key(mut self, key: &SecretString) -> Result<Self, BadAddress> {
        let bad = |_| BadAddress(SafeText::clean("the key holds characters that no HTTP header can carry", MAX_TEXT));
        let mut value = HeaderValue::from_str(key.expose_secret()).map_err(bad)?;
        value.set_sensitive(true);
        self.key = Some(value);
        Ok(self)
    }

    /// The same service, asked at most so often in any second: by all of this process together, whoever said so first. A
    /// place that is not free soon is refused as [`ServiceError::Busy`], and after the service itself has asked for
    /// silence nothing is sent until that is over.
    #[must_use]
    pub fn at_most(mut self, per_second: usize) -> Self {
        let mut paces = PACES.lock();
        let pace = paces.entry(self.base.to_string()).or_insert_with(|| Arc::new(Pace::new(per_second)));
        self.pace = Some(Arc::clone(pace));
        self
    }

    /// The same service with another time limit.
    #[must_use]
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Where it is, without what a URL may hide.
    pub fn place(&self) -> String {
        let port = self.base.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{}{port}", self.base.scheme(), self.base.host_str().unwrap_or_default())
    }

    /// Asks at `path`; nothing where the service knows no such thing.
    ///
    /// # Errors
    /// [`ServiceError`]; asking changes nothing, so nothing is unclear.
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

    /// Asks with `body` at `path`, where asking changes nothing.
    ///
    /// # Errors
    /// [`ServiceError`]; nothing is unclear.
    pub async fn ask(&self, path: &str, body: &Value) -> Result<Value, ServiceError> {
        self.ask_with(path, body, None).await
    }

    /// As [`JsonService::ask`], with a header of the service's own.
    ///
    /// # Errors
    /// [`ServiceError`]; nothing is unclear.
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

    /// Hands `body` in at `path`: once.
    ///
    /// # Errors
    /// [`ServiceError`].
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
            // Before there is a connection nothing has left; afterwards nobody knows.
            let connecting = error.is_connect() || error.is_builder();
            let why = text(&error.without_url());
            if connecting { ServiceError::Unreachable(why) } else { ServiceError::Unclear(why) }
        })?;
        self.read(answer).await
    }

    /// Waits for a place among the requests, where they are counted.
    async fn wait(&self) -> Result<(), ServiceError> {
        if let Some(pace) = &self.pace {
            let place = pace.place(Instant::now())?;
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
            Ok(Some(_)) => return Err(ServiceError::Nonsense(text(&"an answer of more than 1 MiB"))),
            Ok(None) => break,
            Err(error) => return Err(ServiceError::Unclear(text(&error.without_url()))),
        }
    }
    // What a service says is shown and logged: it must not be able to tell our key to whoever reads that.
    if key.is_some_and(|key| !key.is_empty() && body.windows(key.len()).any(|part| part == key)) {
        return Err(ServiceError::Nonsense(text(&"an answer that repeats the key it was asked with")));
    }
    let value: Result<Value, _> = serde_json::from_slice(&body);
    if status.is_success() {
        return value.map_err(|_| ServiceError::Nonsense(text(&"an answer that is not JSON")));
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

/// `Retry-After` in either of its forms, seconds or a date
/// (<https://www.rfc-editor.org/rfc/rfc9110#field.retry-after>). A date is held against the answer's own, so that a
/// clock that differs from ours lengthens no wait.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let said = text(header::RETRY_AFTER)?;
    if let Ok(seconds) = said.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(said).ok()?;
    let now = text(header::DATE).and_then(|said| httpdate::parse_http_date(said).ok()).unwrap_or_else(SystemTime::now);
    // A time that is over asks for no more than the least.
    Some(until.duration_since(now).unwrap_or(USUAL_WAIT).max(USUAL_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_pace_wait_and_a_long_queue_is_refused() {
        let pace = Pace::new(3);
        let start = Instant::now();
        let places: Vec<Duration> = (0..9).map(|_| pace.place(start).unwrap() - start).collect();
        // Three at once, three a second later, three two seconds later.
        assert_eq!(places.iter().map(Duration::as_secs).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 2, 2, 2]);
        for _ in 0..3 {
            assert_eq!(pace.place(start).unwrap() - start, Duration::from_secs(3));
        }
        assert_eq!(pace.place(start), Err(ServiceError::Busy { after: Duration::from_secs(4) }));
        // Whoever comes when all have left waits for nobody.
        let later = start + Duration::from_secs(10);
        assert_eq!(pace.place(later), Ok(later));
    }

    /// The dates are RFC 9110's own examples of its three forms, and one 37 seconds later.
    #[test]
    fn a_wait_is_read_as_seconds_or_as_a_date() {
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
        // Over already: the least, never none.
        assert_eq!(of("Sun, 06 Nov 1994 08:49:37 GMT", Some(later)), Some(1));
        assert_eq!(of("Sun, 06 Nov 1994 08:49:37 GMT", None), Some(1));
        // Far in the future by this machine's clock.
        assert!(of("Fri, 31 Dec 9999 23:59:59 GMT", None).is_some_and(|wait| wait > 300));
        assert_eq!(of("soon", None), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn silence_that_was_asked_for_is_kept() {
        let pace = Pace::new(3);
        let start = Instant::now();
        pace.quiet(start + Duration::from_secs(7));
        assert_eq!(pace.place(start), Err(ServiceError::Busy { after: Duration::from_secs(7) }));
        let over = start + Duration::from_secs(7);
        assert_eq!(pace.place(over), Ok(over));
    }
}
