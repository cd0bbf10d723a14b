//! Client for the smart-order-router sidecar: a program run by the user (`assets/sidecar`) that answers on a Unix
//! socket.
//!
//! Each request uses one connection: one line of JSON out, one line of JSON in. The request is `{id, method: "quote",
//! chainId, tokenIn: {address, decimals}, tokenOut, amount, tradeType}`. The answer is `{id, quote}` with a classic
//! quote (see `claim`), or `{id, error: {code, detail}}`. It is trusted no more than any other service.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::claim;
use super::pool::FixedAmount;
use super::quote::{QuoteError, QuoteRequest, QuoteSource, QuotedRoute, read, rebuilt};
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;

/// Display name of the sidecar.
const NAME: &str = "the smart-order-router sidecar";
/// Timeout from connecting to the end of the answer: a cold router reads many pools.
const PATIENCE: Duration = Duration::from_secs(13);
/// Maximum length of an answer, in bytes.
const MAX_LINE: u64 = 1 << 20;
/// Maximum length of quoted text, in characters.
const MAX_TEXT: usize = 300;

/// Client for the sidecar at one socket.
#[derive(Debug, Clone)]
pub struct Sidecar {
    socket: PathBuf,
    patience: Duration,
}

impl Sidecar {
    /// Creates a client for the sidecar that listens at `socket`.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket, patience: PATIENCE }
    }

    /// Sets the timeout of a request.
    #[must_use]
    pub fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Sends one request and returns its answer.
    ///
    /// # Errors
    /// Returns a [`ServiceError`]. A failed request has no effects, because requests change nothing.
    pub async fn ask(&self, question: &Value) -> Result<Value, ServiceError> {
        let id = format!("{:032x}", rand::random::<u128>());
        let mut question = question.clone();
        if let Value::Object(fields) = &mut question {
            fields.insert("id".to_owned(), id.clone().into());
        }
        let line = tokio::time::timeout(self.patience, self.exchange(format!("{question}\n")));
        let line =
            line.await.map_err(|_| unreachable(&format_args!("no response in {} s", self.patience.as_secs())))?;
        let line = line.map_err(|error| unreachable(&error))?;
        let invalid = |what: &str| ServiceError::InvalidResponse(SafeText::clean(what, MAX_TEXT));
        if line.last() != Some(&b'\n') {
            let long = line.len() as u64 >= MAX_LINE;
            return Err(invalid(if long { "a line of more than 1 MiB" } else { "a truncated response" }));
        }
        let answer: Value = serde_json::from_slice(&line).map_err(|_| invalid("a response that is not JSON"))?;
        if answer.get("id").and_then(Value::as_str) != Some(&id) {
            return Err(invalid("a response to another request"));
        }
        if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
            let field = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
            let reason = format!("{} {}", field("code"), field("detail"));
            return Err(ServiceError::Refused(SafeText::clean(reason.trim(), MAX_TEXT)));
        }
        Ok(answer)
    }

    #[cfg(unix)]
    async fn exchange(&self, question: String) -> io::Result<Vec<u8>> {
        use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

        let mut stream = tokio::net::UnixStream::connect(&self.socket).await?;
        stream.write_all(question.as_bytes()).await?;
        let mut line = Vec::new();
        BufReader::new(stream.take(MAX_LINE)).read_until(b'\n', &mut line).await?;
        Ok(line)
    }

    #[cfg(not(unix))]
    async fn exchange(&self, _: String) -> io::Result<Vec<u8>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "Unix sockets are not available on this system"))
    }
}

fn unreachable(what: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::Unreachable(SafeText::clean(&what.to_string(), MAX_TEXT))
}

impl QuoteSource for Sidecar {
    fn name(&self) -> &'static str {
        NAME
    }

    fn quote<'a>(&'a self, ask: &'a QuoteRequest<'a>) -> BoxFuture<'a, Result<QuotedRoute, QuoteError>> {
        Box::pin(async move {
            let [decimals_in, decimals_out] = ask.decimals;
            let (kind, amount) = match ask.request.exact {
                FixedAmount::In(amount) => ("EXACT_INPUT", amount),
                FixedAmount::Out(amount) => ("EXACT_OUTPUT", amount),
            };
            let question = json!({
                "method": "quote",
                "chainId": ask.chain_id,
                "tokenIn": { "address": ask.request.token_in, "decimals": decimals_in },
                "tokenOut": { "address": ask.request.token_out, "decimals": decimals_out },
                "amount": amount.to_string(),
                "tradeType": kind,
            });
            let answer = self.ask(&question).await.map_err(|error| QuoteError::Service { name: NAME, error })?;
            let quote = answer.get("quote").cloned().unwrap_or_default();
            let claim = read(NAME, claim::parse(&quote, &ask.claim_request()))?;
            rebuilt(NAME, ask, claim, None, quote).await
        })
    }
}
