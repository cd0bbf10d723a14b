//! Chat endpoint client: one URL, one key, one streamed answer at a time. Errors are classified as retryable or
//! permanent. The key goes only to the configured URL: redirects are not followed, and only HTTPS or a loopback address
//! is accepted.

use std::time::Duration;

use alloy::transports::http::reqwest::{Client, RequestBuilder, Response, StatusCode, header, redirect, retry};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use super::sse::EventParser;
use super::wire::{ApiStyle, ModelAnswer};
use bardo_base::config::RpcUrl;
use bardo_base::text::SafeText;

/// Timeout for the connection alone.
const CONNECT: Duration = Duration::from_secs(10);
/// Maximum size of a whole answer, in bytes.
const MOST_ANSWER: usize = 4 << 20;
/// Maximum size of an error response that is read, in bytes.
const MOST_REFUSAL: usize = 8 << 10;
/// Upper limit for an endpoint's requested retry delay.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Minimum length of a key that is redacted from answers, in bytes. Shorter keys occur by chance in ordinary words and
/// tool names; redacting them would do more harm than good.
const SHORTEST_SECRET: usize = 12;

/// Maximum size of a list of models, in bytes.
const MOST_LIST: usize = 4 << 20;

/// Maximum length of an error description, in characters.
const MOST_WHY: usize = 500;

/// Replacement for the key.
const REMOVED: &str = "[secret removed]";

/// Endpoint URL and key. Neither is ever shown in full.
#[derive(Debug, Clone)]
pub(super) struct ModelEndpoint {
    client: Client,
    url: Url,
    style: ApiStyle,
    key: Option<SecretString>,
    patience: Duration,
    /// Timeout for the whole answer, even if it keeps streaming.
    longest: Duration,
}

/// Error: the configuration or system does not allow requests to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A key of the configuration is not set.
    #[error("set golem.{0} in the configuration file")]
    Unset(&'static str),
    /// The address is neither encrypted nor local.
    #[error("{0} uses neither https nor a local address: others could read the key and all messages on the way")]
    Unencrypted(RpcUrl),
    /// No HTTP client can be made.
    #[error("{0}")]
    Client(SafeText),
}

/// Error of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Temporary error; the request may be repeated.
    #[error("{why}")]
    Again {
        /// Description of the error.
        why: SafeText,
        /// Retry delay requested by the endpoint.
        after: Option<Duration>,
        /// Bytes sent and received, as an estimate of the tokens that the failed request has cost.
        bytes: usize,
    },
    /// Permanent error, with its description.
    #[error("{0}")]
    Never(SafeText),
}

impl ModelEndpoint {
    /// Creates the client. `patience` limits each wait for data; `longest` limits the whole answer.
    ///
    /// # Errors
    /// [`ModelError`]: the address cannot be used.
    pub(super) fn new(
        base: &RpcUrl,
        style: ApiStyle,
        key: Option<SecretString>,
        [patience, longest]: [Duration; 2],
    ) -> Result<Self, ModelError> {
        let scheme = base.expose().scheme();
        if !(scheme == "https" || scheme == "http" && base.is_loopback()) {
            return Err(ModelError::Unencrypted(base.clone()));
        }
        let mut url = base.expose().clone();
        let path = format!("{}/{}", url.path().trim_end_matches('/'), style.path());
        url.set_path(&path);
        let builder = Client::builder()
            .connect_timeout(CONNECT)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .pool_max_idle_per_host(0);
        let builder = if base.is_loopback() { builder.no_proxy() } else { builder };
        let client = builder.build().map_err(|error| ModelError::Client(text(&error.without_url())))?;
        Ok(Self { client, url, style, key, patience, longest })
    }

    /// Requests the list of models, which costs no tokens. Returns whether it contains `model`, or `None` if the
    /// endpoint has no such list.
    ///
    /// # Errors
    /// [`EndpointError`] if the endpoint does not answer or refuses.
    pub(super) async fn lists(&self, model: &str) -> Result<Option<bool>, EndpointError> {
        let mut url = self.url.clone();
        let base = url.path().strip_suffix(self.style.path()).unwrap_or(url.path()).to_owned();
        url.set_path(&format!("{base}models"));
        let failed = |why: &dyn std::fmt::Display| EndpointError::Again {
            why: text(&self.hidden(&why.to_string())),
            after: None,
            bytes: 0,
        };
        let asked = timeout(self.patience, self.with_key(self.client.get(url)).send()).await;
        let mut answer = match asked {
            Err(_) => return Err(failed(&format_args!("no answer within {} s", self.patience.as_secs()))),
            Ok(Err(error)) => return Err(failed(&error.without_url())),
            Ok(Ok(answer)) => answer,
        };
        // Not every endpoint offers a list of models.
        if matches!(
            answer.status(),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
        ) {
            return Ok(None);
        }
        if !answer.status().is_success() {
            return Err(self.refusal(answer).await);
        }
        let Some(body) = self.short_body(&mut answer, MOST_LIST).await else { return Ok(None) };
        let list: Option<Value> = serde_json::from_slice(&body).ok();
        let models = list.as_ref().and_then(|list| list.get("data")?.as_array());
        Ok(models.map(|models| models.iter().any(|one| one.get("id").and_then(Value::as_str) == Some(model))))
    }

    fn with_key(&self, request: RequestBuilder) -> RequestBuilder {
        let request = match (&self.key, self.style) {
            (Some(key), ApiStyle::Openai) => request.bearer_auth(key.expose_secret()),
            (Some(key), ApiStyle::Anthropic) => request.header("x-api-key", key.expose_secret()),
            (None, _) => request,
        };
        match self.style {
            ApiStyle::Anthropic => request.header("anthropic-version", "2023-06-01"),
            ApiStyle::Openai => request,
        }
    }

    /// Sends a request and passes each new piece of text to `on_text`.
    ///
    /// # Errors
    /// [`EndpointError`] for a refused, broken, late or oversized answer, and for an answer that repeats the key.
    pub(super) async fn ask(
        &self,
        body: &Value,
        mut on_text: impl FnMut(&str) + Send,
    ) -> Result<ModelAnswer, EndpointError> {
        let until = Instant::now() + self.longest;
        let body = body.to_string();
        let request = self.client.post(self.url.clone()).header(header::CONTENT_TYPE, "application/json");
        let request = self.with_key(request);
        let sent = body.len();
        // The error text may contain the key.
        let failed = |why: &dyn std::fmt::Display, bytes: usize| EndpointError::Again {
            why: text(&self.hidden(&why.to_string())),
            after: None,
            bytes,
        };
        let silent = |bytes: usize| failed(&format_args!("no data for {} s", self.patience.as_secs()), bytes);
        let answer = match timeout(self.patience, request.body(body).send()).await {
            Err(_) => return Err(silent(sent)),
            Ok(Err(error)) if error.is_builder() => {
                // This happens, for example, if the key contains a line break. The error text may contain the key.
                return Err(EndpointError::Never(text(
                    &"cannot build the request: the key must be one line of plain letters",
                )));
            }
            Ok(Err(error)) => return Err(failed(&error.without_url(), 0)),
            Ok(Ok(answer)) => answer,
        };
        if !answer.status().is_success() {
            return Err(self.refusal(answer).await);
        }
        let mut answer_bytes = answer;
        let (mut events, mut whole, mut bytes) = (EventParser::default(), ModelAnswer::default(), 0_usize);
        let mut redactor = KeyRedactor { key: self.key(), held: String::new() };
        loop {
            let patience = until.min(Instant::now() + self.patience);
            let chunk = match timeout_at(patience, answer_bytes.chunk()).await {
                Err(_) if Instant::now() >= until => {
                    let most = format!("the answer did not end within {} s", self.longest.as_secs());
                    return Err(failed(&most, sent + bytes));
                }
                Err(_) => return Err(silent(sent + bytes)),
                Ok(Err(error)) => return Err(failed(&error.without_url(), sent + bytes)),
                Ok(Ok(None)) => break,
                Ok(Ok(Some(chunk))) => chunk,
            };
            bytes += chunk.len();
            if bytes > MOST_ANSWER {
                return Err(failed(&"the answer is larger than 4 MiB", sent + bytes));
            }
            let pieces = events.take(&chunk).map_err(|error| failed(&error, sent + bytes))?;
            for piece in pieces {
                let new = self.style.take(&piece, &mut whole).map_err(|error| failed(&error, sent + bytes))?;
                let new = redactor.take(&new);
                if !new.is_empty() {
                    on_text(&new);
                }
            }
        }
        let rest = redactor.end();
        if !rest.is_empty() {
            on_text(&rest);
        }
        if !whole.ended {
            return Err(failed(&"the answer ended early", sent + bytes));
        }
        // Missing or low token counts are replaced by an estimate. A token rarely exceeds eight bytes, so an honest
        // count is higher than this.
        let estimate = u64::try_from((sent + whole.text.len()) / 8).unwrap_or(u64::MAX);
        whole.tokens = whole.tokens.max(estimate);
        // Text and calls go into events, the log and the next request. Rewriting a call's arguments would change the
        // call, so an answer that repeats the key is discarded as a whole.
        let asked = whole.calls.iter().flat_map(|asked| [&asked.id, &asked.tool, &asked.arguments]);
        if asked.chain([&whole.text]).chain(&whole.refusal).any(|part| self.repeats_key(part)) {
            return Err(failed(&"the answer repeats the API key, so it was discarded: replace the key", sent + bytes));
        }
        Ok(whole)
    }

    fn key(&self) -> Option<&str> {
        self.key.as_ref().map(|key| key.expose_secret()).filter(|key| key.len() >= SHORTEST_SECRET)
    }

    /// True if the text contains the key, plainly or escaped inside JSON.
    fn repeats_key(&self, body: &str) -> bool {
        let Some(key) = self.key() else { return false };
        let escaped = serde_json::from_str::<Value>(body).ok().map(|value| holds(&value, key));
        body.contains(key) || escaped == Some(true)
    }

    /// Redacts the key from a text, so that an endpoint that repeats it cannot bring it onto a screen or into a file.
    fn hidden(&self, body: &str) -> String {
        self.key().map_or_else(|| body.to_owned(), |key| body.replace(key, REMOVED))
    }

    /// Reads a body of at most `most` bytes that comes within `patience` as a whole, so that an endpoint that sends it
    /// byte by byte holds nobody up; `None` for a longer or a slower one.
    async fn short_body(&self, answer: &mut Response, most: usize) -> Option<Vec<u8>> {
        let until = Instant::now() + self.patience;
        let mut body = Vec::new();
        loop {
            match timeout_at(until, answer.chunk()).await {
                Ok(Ok(Some(chunk))) if body.len().saturating_add(chunk.len()) <= most => body.extend_from_slice(&chunk),
                Ok(Ok(None)) => return Some(body),
                Ok(Ok(Some(_)) | Err(_)) | Err(_) => return None,
            }
        }
    }

    /// Converts an error response to an [`EndpointError`].
    async fn refusal(&self, mut answer: Response) -> EndpointError {
        let status = answer.status();
        let after = answer.headers().get(header::RETRY_AFTER).and_then(|value| silence(value.to_str().ok()?));
        let body = self.short_body(&mut answer, MOST_REFUSAL).await;
        let said: Option<Value> = body.and_then(|body| serde_json::from_slice(&body).ok());
        let said = said.as_ref().and_then(|said| {
            let error = said.get("error")?;
            error.get("message").unwrap_or(error).as_str()
        });
        let mut why = format!("the endpoint returned {}", status.as_u16());
        if let Some(said) = said {
            let said = self.hidden(said);
            why.push_str(&format!(": {said}"));
        }
        if let Some(change) = to_change(status) {
            why.push_str(&format!(". {change}"));
        }
        let why = text(&why);
        let again = status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT);
        match again {
            true => EndpointError::Again { why, after, bytes: 0 },
            false => EndpointError::Never(why),
        }
    }
}

/// Returns advice on the setting to change for this status; `None` if waiting may help.
fn to_change(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Some(
            "Check that golem.model_style matches this endpoint, that the endpoint serves the model in \
             golem.model_name, and that golem.model_reply_tokens is within that model's limit",
        ),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Some("Set BARDO_MODEL_KEY to a key that is valid there and may use the model in golem.model_name")
        }
        StatusCode::NOT_FOUND => Some("Check golem.model_url, golem.model_style and golem.model_name"),
        _ => None,
    }
}

/// Parses the `Retry-After` header in seconds, capped at [`LONGEST_WAIT`]. `None` for a date: the client then uses its
/// own delay.
fn silence(asked: &str) -> Option<Duration> {
    let seconds: u64 = asked.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// True if a string or a property name anywhere in the value contains `key`.
fn holds(value: &Value, key: &str) -> bool {
    match value {
        Value::String(text) => text.contains(key),
        Value::Array(all) => all.iter().any(|one| holds(one, key)),
        Value::Object(all) => all.iter().any(|(name, one)| name.contains(key) || holds(one, key)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Streaming redaction of the key, also if it arrives in several pieces.
struct KeyRedactor<'a> {
    key: Option<&'a str>,
    /// Tail of the text that may be the beginning of the key, held until more text arrives.
    held: String,
}

impl KeyRedactor<'_> {
    /// Adds text and returns the part that can be passed on.
    fn take(&mut self, new: &str) -> String {
        let Some(key) = self.key else { return new.to_owned() };
        self.held.push_str(new);
        let mut clear = self.held.replace(key, REMOVED);
        let begins = |length: &usize| key.get(..*length).is_some_and(|part| clear.ends_with(part));
        let waits = (1..key.len()).rev().find(begins).unwrap_or(0);
        self.held = clear.split_off(clear.len() - waits);
        clear
    }

    /// Returns the held tail, which did not become the key.
    fn end(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

fn text(what: &dyn std::fmt::Display) -> SafeText {
    SafeText::clean(&what.to_string(), MOST_WHY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_removed_from_a_stream_in_any_pieces() {
        let (key, body) = ("sk-sk-1", "a sk-sk-1 b sk-sk-sk-1, s sk sk-sk-");
        let wanted = "a [secret removed] b sk-[secret removed], s sk sk-sk-";
        for cut in 1..body.len() {
            let mut redactor = KeyRedactor { key: Some(key), held: String::new() };
            let pieces = body.as_bytes().chunks(cut).map(|piece| std::str::from_utf8(piece).unwrap());
            let mut told: Vec<String> = pieces.map(|piece| redactor.take(piece)).collect();
            assert!(told.iter().all(|piece| !piece.contains(key)), "{told:?}");
            told.push(redactor.end());
            assert_eq!(told.concat(), wanted, "pieces of {cut}");
        }
        let mut open = KeyRedactor { key: None, held: String::new() };
        assert_eq!(open.take("sk-"), "sk-");
    }

    #[test]
    fn a_requested_pause_is_limited() {
        let seconds = |asked: &str| silence(asked).map(|asked| asked.as_secs());
        assert_eq!(seconds(" 7 "), Some(7));
        assert_eq!([seconds("120"), seconds("121"), seconds("18446744073709551615")], [Some(120); 3]);
        assert_eq!([seconds("Wed, 21 Oct 2026 07:28:00 GMT"), seconds("-1"), seconds("")], [None; 3]);
    }

    #[test]
    fn only_https_and_loopback_are_contacted() {
        let made = |url: &str| {
            let base = RpcUrl::parse(url).unwrap();
            ModelEndpoint::new(&base, ApiStyle::Openai, None, [CONNECT; 2]).map(|endpoint| endpoint.url.to_string())
        };
        assert_eq!(made("http://127.0.0.1:9/v1").unwrap(), "http://127.0.0.1:9/v1/chat/completions");
        assert_eq!(made("https://model.example").unwrap(), "https://model.example/chat/completions");
        for bad in
            ["http://model.example/v1", "ws://127.0.0.1:9", "http://127.0.0.1.example", "http://user:pw@a.example"]
        {
            let why = made(bad).unwrap_err().to_string();
            assert!(why.contains("neither https") && !why.contains("pw"), "{why}");
        }
    }
}
