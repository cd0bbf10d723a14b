//! Where a model is asked: one address, one key, one answer at a time, streamed. What went wrong is sorted into what may
//! be tried again and what may not. The key goes to that address alone: no redirect is followed, and nothing but HTTPS
//! or this machine is spoken to.

use std::time::Duration;

use alloy::transports::http::reqwest::{Client, RequestBuilder, Response, StatusCode, header, redirect, retry};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use super::sse::Events;
use super::wire::{Answer, Style};
use bardo_base::config::RpcUrl;
use bardo_base::text::SafeText;

/// For the connection alone.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of a whole answer.
const MOST_ANSWER: usize = 4 << 20;
/// Bytes of a refusal that are read.
const MOST_REFUSAL: usize = 8 << 10;
/// No endpoint can ask for a longer silence than this.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Shortest key that is looked for in what an endpoint answers, in bytes. A shorter one occurs in ordinary words and
/// tool names by chance, and is no secret worth the harm.
const SHORTEST_SECRET: usize = 12;

/// Bytes of a list of models.
const MOST_LIST: usize = 4 << 20;

/// Characters of why something went wrong.
const MOST_WHY: usize = 500;

/// What stands where the key stood.
const REMOVED: &str = "[secret removed]";

/// An address and the key to it. Neither is ever shown whole.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    style: Style,
    key: Option<SecretString>,
    patience: Duration,
    /// From asking to the end of an answer, however well it flows.
    longest: Duration,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AskError {
    /// It may go better another time.
    #[error("{why}")]
    Again {
        /// What went wrong.
        why: SafeText,
        /// How long it asks to be left alone.
        after: Option<Duration>,
        /// Tokens that it has cost all the same, as far as can be told.
        bytes: usize,
    },
    /// It will not.
    #[error("{0}")]
    Never(SafeText),
}

impl Endpoint {
    /// # Errors
    /// In words, why this address is not spoken to.
    pub(super) fn new(
        base: &RpcUrl,
        style: Style,
        key: Option<SecretString>,
        [patience, longest]: [Duration; 2],
    ) -> Result<Self, String> {
        let scheme = base.expose().scheme();
        if !(scheme == "https" || scheme == "http" && base.is_loopback()) {
            return Err(format!(
                "{base} uses neither https nor a local address: others could read the key and all messages on the way"
            ));
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
        let client = builder.build().map_err(|error| error.without_url().to_string())?;
        Ok(Self { client, url, style, key, patience, longest })
    }

    /// Asks for the list of models, which costs no tokens; whether it holds `model`, where there is such a list.
    ///
    /// # Errors
    /// Why the endpoint does not answer, or what it refuses.
    pub(super) async fn lists(&self, model: &str) -> Result<Option<bool>, AskError> {
        let mut url = self.url.clone();
        let base = url.path().strip_suffix(self.style.path()).unwrap_or(url.path()).to_owned();
        url.set_path(&format!("{base}models"));
        let failed = |why: &dyn std::fmt::Display| AskError::Again {
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
        // Not every endpoint has such a list.
        if matches!(
            answer.status(),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
        ) {
            return Ok(None);
        }
        if !answer.status().is_success() {
            return Err(self.refusal(answer).await);
        }
        let mut body = Vec::new();
        while let Ok(Ok(Some(chunk))) = timeout(self.patience, answer.chunk()).await {
            body.extend_from_slice(&chunk);
            if body.len() > MOST_LIST {
                return Ok(None);
            }
        }
        let list: Option<Value> = serde_json::from_slice(&body).ok();
        let models = list.as_ref().and_then(|list| list.get("data")?.as_array());
        Ok(models.map(|models| models.iter().any(|one| one.get("id").and_then(Value::as_str) == Some(model))))
    }

    fn with_key(&self, request: RequestBuilder) -> RequestBuilder {
        let request = match (&self.key, self.style) {
            (Some(key), Style::Openai) => request.bearer_auth(key.expose_secret()),
            (Some(key), Style::Anthropic) => request.header("x-api-key", key.expose_secret()),
            (None, _) => request,
        };
        match self.style {
            Style::Anthropic => request.header("anthropic-version", "2023-06-01"),
            Style::Openai => request,
        }
    }

    /// Asks, and tells every new piece of text to `heard`.
    pub(super) async fn ask(&self, body: &Value, mut heard: impl FnMut(&str) + Send) -> Result<Answer, AskError> {
        let until = Instant::now() + self.longest;
        let body = body.to_string();
        let request = self.client.post(self.url.clone()).header(header::CONTENT_TYPE, "application/json");
        let request = self.with_key(request);
        let sent = body.len();
        // Its words may hold the key.
        let failed = |why: &dyn std::fmt::Display, bytes: usize| AskError::Again {
            why: text(&self.hidden(&why.to_string())),
            after: None,
            bytes,
        };
        let silent = |bytes: usize| failed(&format_args!("no data for {} s", self.patience.as_secs()), bytes);
        let answer = match timeout(self.patience, request.body(body).send()).await {
            Err(_) => return Err(silent(sent)),
            Ok(Err(error)) if error.is_builder() => {
                // A key with a line break in it, for one. Its words may hold the key.
                return Err(AskError::Never(text(
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
        let (mut events, mut whole, mut bytes) = (Events::default(), Answer::default(), 0_usize);
        let mut veil = Veil { key: self.key(), held: String::new() };
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
                let new = veil.take(&new);
                if !new.is_empty() {
                    heard(&new);
                }
            }
        }
        let rest = veil.end();
        if !rest.is_empty() {
            heard(&rest);
        }
        if !whole.ended {
            return Err(failed(&"the answer ended early", sent + bytes));
        }
        // What it does not count, or counts too low, is estimated: a token is seldom more than eight bytes, so an honest
        // count is above this.
        let estimate = u64::try_from((sent + whole.text.len()) / 8).unwrap_or(u64::MAX);
        whole.tokens = whole.tokens.max(estimate);
        // What it says and asks for goes into events, the log and back to it. Nothing of it is rewritten, since a call
        // with other arguments would be another call: an answer that repeats the key is not used at all.
        let asked = whole.calls.iter().flat_map(|asked| [&asked.id, &asked.tool, &asked.arguments]);
        if asked.chain([&whole.text]).chain(&whole.refusal).any(|part| self.repeats_key(part)) {
            return Err(failed(&"the answer repeats the API key, so it was discarded: replace the key", sent + bytes));
        }
        Ok(whole)
    }

    fn key(&self) -> Option<&str> {
        self.key.as_ref().map(|key| key.expose_secret()).filter(|key| key.len() >= SHORTEST_SECRET)
    }

    /// Whether the text holds the key, plainly or escaped inside JSON.
    fn repeats_key(&self, said: &str) -> bool {
        let Some(key) = self.key() else { return false };
        let escaped = serde_json::from_str::<Value>(said).ok().map(|value| holds(&value, key));
        said.contains(key) || escaped == Some(true)
    }

    /// The text without the key: an endpoint that repeats it gets it neither onto a screen nor into a file.
    fn hidden(&self, said: &str) -> String {
        self.key().map_or_else(|| said.to_owned(), |key| said.replace(key, REMOVED))
    }

    /// Why it refuses.
    async fn refusal(&self, mut answer: Response) -> AskError {
        let status = answer.status();
        let after = answer.headers().get(header::RETRY_AFTER).and_then(|value| silence(value.to_str().ok()?));
        let mut body = Vec::new();
        while let Ok(Ok(Some(chunk))) = timeout(self.patience, answer.chunk()).await {
            body.extend_from_slice(&chunk);
            if body.len() > MOST_REFUSAL {
                break;
            }
        }
        let said: Option<Value> = serde_json::from_slice(&body).ok();
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
            true => AskError::Again { why, after, bytes: 0 },
            false => AskError::Never(why),
        }
    }
}

/// What the owner can change so that the next request is not refused with this status; `None` where time may help.
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

/// How long an endpoint asks to be left alone. A date is no number of seconds: then the own wait counts.
fn silence(asked: &str) -> Option<Duration> {
    let seconds: u64 = asked.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// Whether a string or a name anywhere in the value holds `key`.
fn holds(value: &Value, key: &str) -> bool {
    match value {
        Value::String(text) => text.contains(key),
        Value::Array(all) => all.iter().any(|one| holds(one, key)),
        Value::Object(all) => all.iter().any(|(name, one)| name.contains(key) || holds(one, key)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Keeps the key out of a stream of words, also where it comes in pieces.
struct Veil<'a> {
    key: Option<&'a str>,
    /// An end that the key may begin with; it waits for what follows.
    held: String,
}

impl Veil<'_> {
    /// What may be passed on by now.
    fn take(&mut self, new: &str) -> String {
        let Some(key) = self.key else { return new.to_owned() };
        self.held.push_str(new);
        let mut clear = self.held.replace(key, REMOVED);
        let begins = |length: &usize| key.get(..*length).is_some_and(|part| clear.ends_with(part));
        let waits = (1..key.len()).rev().find(begins).unwrap_or(0);
        self.held = clear.split_off(clear.len() - waits);
        clear
    }

    /// What was held back and is no key.
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
    fn the_key_is_taken_out_of_a_stream_however_it_is_cut() {
        let (key, said) = ("sk-sk-1", "a sk-sk-1 b sk-sk-sk-1, s sk sk-sk-");
        let wanted = "a [secret removed] b sk-[secret removed], s sk sk-sk-";
        for cut in 1..said.len() {
            let mut veil = Veil { key: Some(key), held: String::new() };
            let pieces = said.as_bytes().chunks(cut).map(|piece| std::str::from_utf8(piece).unwrap());
            let mut told: Vec<String> = pieces.map(|piece| veil.take(piece)).collect();
            assert!(told.iter().all(|piece| !piece.contains(key)), "{told:?}");
            told.push(veil.end());
            assert_eq!(told.concat(), wanted, "pieces of {cut}");
        }
        let mut open = Veil { key: None, held: String::new() };
        assert_eq!(open.take("sk-"), "sk-");
    }

    #[test]
    fn nobody_can_ask_for_a_silence_without_end() {
        let seconds = |asked: &str| silence(asked).map(|asked| asked.as_secs());
        assert_eq!(seconds(" 7 "), Some(7));
        assert_eq!([seconds("120"), seconds("121"), seconds("18446744073709551615")], [Some(120); 3]);
        assert_eq!([seconds("Wed, 21 Oct 2026 07:28:00 GMT"), seconds("-1"), seconds("")], [None; 3]);
    }

    #[test]
    fn only_https_and_this_machine_are_spoken_to() {
        let made = |url: &str| {
            let base = RpcUrl::parse(url).unwrap();
            Endpoint::new(&base, Style::Openai, None, [CONNECT; 2]).map(|endpoint| endpoint.url.to_string())
        };
        assert_eq!(made("http://127.0.0.1:9/v1").unwrap(), "http://127.0.0.1:9/v1/chat/completions");
        assert_eq!(made("https://model.example").unwrap(), "https://model.example/chat/completions");
        for bad in
            ["http://model.example/v1", "ws://127.0.0.1:9", "http://127.0.0.1.example", "http://user:pw@a.example"]
        {
            let why = made(bad).unwrap_err();
            assert!(why.contains("neither https") && !why.contains("pw"), "{why}");
        }
    }
}
