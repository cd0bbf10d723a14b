//! An HTTP endpoint as an alloy transport, with a timeout, a size limit, no redirects and no hidden retries.
//!
//! alloy's HTTP transport reads a body of any size; this one enforces a limit while reading. Requests that may change
//! state use a separate client that opens a connection per request. With a pooled connection that the server has just
//! closed, the outcome of such a request would be unclear.

use super::{
    error::{MalformedAnswer, ProviderError, TEXT_LIMIT},
    method::{RepeatRule, repeat_rule_of},
};
use alloy::{
    rpc::json_rpc::{RequestPacket, ResponsePacket, ResponsePayload},
    transports::{
        TransportError, TransportFut,
        http::reqwest::{self, Client, Response, header, redirect},
    },
};
use bardo_base::{clock::Clock, config::RpcUrl, text::SafeText};
use std::{
    error::Error as _,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

/// Limits of one HTTP exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Total timeout, from the first byte sent to the last byte received.
    pub timeout: Duration,
    /// Timeout for establishing the connection. Shorter than `timeout`, to distinguish an unreachable host from one
    /// that accepted the request and does not answer.
    pub connect_timeout: Duration,
    /// Largest accepted body, in bytes.
    pub max_body: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), connect_timeout: Duration::from_secs(4), max_body: 16 * 1024 * 1024 }
    }
}

/// Bytes read of an error response's body; enough for a JSON-RPC error.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// Upper limit for the pause that an endpoint can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// JSON-RPC over HTTP POST with limits. All its errors are [`ProviderError`]s.
#[derive(Debug, Clone)]
pub struct CappedHttp {
    reads: Client,
    sends: Client,
    url: Arc<RpcUrl>,
    label: SafeText,
    limits: HttpLimits,
    clock: Arc<dyn Clock>,
}

impl CappedHttp {
    /// Creates a transport to `url` without connecting.
    ///
    /// # Errors
    /// [`ProviderError::BadUrl`] for a URL that is not HTTP; [`ProviderError::Local`] if TLS cannot be initialised.
    pub fn new(url: RpcUrl, limits: HttpLimits, clock: Arc<dyn Clock>) -> Result<Self, ProviderError> {
        let label = SafeText::clean(&url.to_string(), 120);
        if !matches!(url.expose().scheme(), "http" | "https") {
            return Err(ProviderError::BadUrl { endpoint: label });
        }
        let builder = || {
            let builder = Client::builder()
                .connect_timeout(limits.connect_timeout)
                // A redirect would send the request, including keys and transactions, to another host.
                .redirect(redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false);
            if url.is_loopback() { builder.no_proxy() } else { builder }
        };
        let local = |error: reqwest::Error| ProviderError::Local {
            detail: SafeText::clean(&error.without_url().to_string(), TEXT_LIMIT),
        };
        let reads = builder().build().map_err(local)?;
        let sends = builder().http1_only().pool_max_idle_per_host(0).build().map_err(local)?;
        Ok(Self { reads, sends, url: Arc::new(url), label, limits, clock })
    }

    async fn exchange(self, packet: RequestPacket) -> Result<ResponsePacket, ProviderError> {
        let after = self.limits.timeout;
        tokio::time::timeout(after, self.unbounded(&packet))
            .await
            .unwrap_or_else(|_| Err(ProviderError::TimedOut { endpoint: self.label.clone(), after }))
    }

    async fn unbounded(&self, packet: &RequestPacket) -> Result<ResponsePacket, ProviderError> {
        let client = match repeat_rule_of(packet) {
            RepeatRule::Free => &self.reads,
            RepeatRule::Once => &self.sends,
        };
        let body = serde_json::to_vec(packet)
            .map_err(|error| ProviderError::Local { detail: SafeText::clean(&error.to_string(), TEXT_LIMIT) })?;
        let response = client
            .post(self.url.expose().clone())
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .send()
            .await
            .map_err(|error| self.network_error(error))?;

        let status = response.status();
        let retry_after = self.retry_after(&response);
        if status.is_success() {
            let body = self.read(response, self.limits.max_body, true).await?;
            return serde_json::from_slice(&body).map(|packet| self.without_secrets(packet)).map_err(|error| {
                // The parser's message may quote the body, and the body may quote the URL.
                let detail = SafeText::clean(&redact(&self.url, &error.to_string()), TEXT_LIMIT);
                ProviderError::Malformed { endpoint: self.label.clone(), what: MalformedAnswer::NotJson { detail } }
            });
        }
        if status.as_u16() == 429 {
            return Err(ProviderError::RateLimited { endpoint: self.label.clone(), retry_after });
        }
        // The status is reported even if the body cannot be read.
        let body = self.read(response, MAX_ERROR_BODY, false).await.unwrap_or_default();
        // A 5xx status comes from a gateway that may not know the outcome of the request, so its body does not count.
        // Only a client error is an answer.
        if status.is_client_error()
            && let Ok(packet) = serde_json::from_slice::<ResponsePacket>(&body)
        {
            return Ok(self.without_secrets(packet));
        }
        let text = redact(&self.url, &String::from_utf8_lossy(&body));
        let body = SafeText::clean(&text, TEXT_LIMIT);
        Err(ProviderError::Http { endpoint: self.label.clone(), status: status.as_u16(), body })
    }

    /// Removes parts of the URL from the packet's errors.
    fn without_secrets(&self, mut packet: ResponsePacket) -> ResponsePacket {
        let responses = match &mut packet {
            ResponsePacket::Single(response) => std::slice::from_mut(response),
            ResponsePacket::Batch(responses) => responses.as_mut_slice(),
        };
        for response in responses {
            if let ResponsePayload::Failure(error) = &mut response.payload {
                error.message = redact(&self.url, &error.message).into();
                error.data.take_if(|data| redact(&self.url, data.get()) != data.get());
            }
        }
        packet
    }

    /// Reads at most `limit` bytes of the body. A longer body is an error if `strict`, else it is cut.
    async fn read(&self, mut response: Response, limit: usize, strict: bool) -> Result<Vec<u8>, ProviderError> {
        let too_large = || ProviderError::TooLarge { endpoint: self.label.clone(), limit };
        let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
        if strict && announced.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let mut body = Vec::with_capacity(announced.unwrap_or(0).min(limit));
        while let Some(chunk) = response.chunk().await.map_err(|error| self.network_error(error))? {
            let room = limit.saturating_sub(body.len());
            if chunk.len() > room {
                if strict {
                    return Err(too_large());
                }
                body.extend(chunk.into_iter().take(room));
                break;
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn network_error(&self, error: reqwest::Error) -> ProviderError {
        let endpoint = self.label.clone();
        let nothing_sent = error.is_connect() || error.is_builder();
        let error = error.without_url();
        // The outermost message only says that sending failed; the innermost one names the cause.
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            reason = inner.to_string();
            source = inner.source();
        }
        let reason = SafeText::clean(&redact(&self.url, &reason), TEXT_LIMIT);
        if nothing_sent {
            ProviderError::Unreachable { endpoint, reason }
        } else {
            ProviderError::Interrupted { endpoint, reason }
        }
    }

    /// Parses `Retry-After` in both of its forms, seconds or a date
    /// (<https://www.rfc-editor.org/rfc/rfc9110#field.retry-after>).
    fn retry_after(&self, response: &Response) -> Option<Duration> {
        let text = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim();
        let wait = match text.parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                let until = httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
                until.saturating_sub(Duration::from_millis(self.clock.now_millis()))
            }
        };
        Some(wait.min(MAX_RETRY_AFTER))
    }

    /// Label of the endpoint in messages: its URL without parts that may be keys.
    pub fn label(&self) -> &SafeText {
        &self.label
    }
}

/// Minimum length of a path or query part that may be a key; shorter ones are words like `v2`.
const SHORTEST_SECRET: usize = 8;

/// Removes the parts of `url` that may be keys from `text`, which an endpoint sent.
fn redact(url: &RpcUrl, text: &str) -> String {
    let url = url.expose();
    let path = url.path_segments().into_iter().flatten();
    let query = url.query().into_iter().flat_map(|query| query.split(['&', '=']));
    let user = [url.username(), url.password().unwrap_or_default()];
    path.chain(query)
        .filter(|part| part.len() >= SHORTEST_SECRET)
        .chain(user.into_iter().filter(|part| !part.is_empty()))
        .fold(text.to_owned(), |text, secret| text.replace(secret, "[removed]"))
}

impl tower::Service<RequestPacket> for CappedHttp {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { this.exchange(packet).await.map_err(TransportError::from) })
    }
}
