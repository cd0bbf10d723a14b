//! HTTP client of a wallet server, in the published shape of Privy's wallet API: `GET /v1/wallets/ID`, `POST /v1/wallets`,
//! and `POST /v1/wallets/ID/rpc` with `eth_signTransaction` and `eth_signTypedData_v4`
//! (<https://docs.privy.io/api-reference/wallets>). Requests are authenticated by the application's id and secret; the
//! optional authorization signatures of that API are not made, so a wallet that requires them refuses.
//!
//! Nothing here decides whether an answer is right: see `bardo_safety::custody::embedded`.

use std::fmt;
use std::time::Duration;

use alloy::consensus::TxEip1559;
use alloy::primitives::{Address, B128, Bytes, TxKind, U256, hex};
use alloy::transports::http::reqwest::{Client, RequestBuilder, Response, StatusCode, header, redirect, retry};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use url::Url;
use zeroize::Zeroizing;

use bardo_base::text::SafeText;
use bardo_safety::custody::{ServerContent, ServerCredential, ServerFault, ServerWallet, WalletServer};

/// Timeout for the connection alone.
const CONNECT: Duration = Duration::from_secs(10);

/// Timeout for a whole answer.
const WHOLE: Duration = Duration::from_secs(20);

/// Maximum size of an answer, in bytes: the calldata of a transaction has at most 128 KiB, and twice as many digits.
const MOST_ANSWER: usize = 1 << 20;

/// Maximum length of what a server says about a refusal, in characters.
const MOST_SHOWN: usize = 200;

/// Replacement of a text that repeats the credential.
const REMOVED: &str = "[the server repeated the credential]";

/// Client of one wallet. `Debug` does not show the credential.
pub struct WalletServerClient {
    client: Client,
    wallets: Url,
    wallet: Url,
    rpc: Url,
    app_id: String,
    wallet_id: String,
    /// Value of the header, and the forms in which an answer may repeat the credential.
    authorization: SecretString,
    hidden: [Zeroizing<String>; 2],
}

/// A wallet as its server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedWallet {
    /// Id of the wallet.
    pub id: String,
    /// Address of the wallet.
    pub address: Address,
    /// Ids of the policies that the server enforces on it.
    pub policies: Vec<String>,
}

impl WalletServerClient {
    /// Creates a client. It connects when it is used.
    ///
    /// # Errors
    /// [`ServerFault::Unavailable`] if no HTTP client can be made.
    pub fn new(wallet: &ServerWallet, credential: &ServerCredential) -> Result<Self, ServerFault> {
        let unavailable =
            |why: &dyn fmt::Display| ServerFault::Unavailable(SafeText::clean(&why.to_string(), MOST_SHOWN));
        let builder = Client::builder()
            .connect_timeout(CONNECT)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .pool_max_idle_per_host(0);
        let builder = if wallet.url.is_loopback() { builder.no_proxy() } else { builder };
        let client = builder.build().map_err(|error| unavailable(&error.without_url()))?;
        let below = |url: &Url, parts: &[&str]| {
            let mut at = url.clone();
            at.path_segments_mut()
                .map_err(|()| unavailable(&"its URL cannot have a path"))?
                .pop_if_empty()
                .extend(parts);
            Ok(at)
        };
        let wallets = below(wallet.url.expose(), &["v1", "wallets"])?;
        let at = below(&wallets, &[&wallet.wallet_id])?;
        let rpc = below(&at, &["rpc"])?;
        // Both are ASCII.
        let secret = Zeroizing::new(String::from_utf8_lossy(credential.expose()).into_owned());
        let login = Zeroizing::new(format!("{}:{}", wallet.app_id, secret.as_str()));
        let encoded = Zeroizing::new(STANDARD.encode(login.as_bytes()));
        let authorization = SecretString::from(format!("Basic {}", encoded.as_str()));
        Ok(Self {
            client,
            wallets,
            wallet: at,
            rpc,
            app_id: wallet.app_id.clone(),
            wallet_id: wallet.wallet_id.clone(),
            authorization,
            hidden: [secret, encoded],
        })
    }

    /// Reads the wallet from the server.
    ///
    /// # Errors
    /// [`ServerFault`] if the server refuses or does not answer, and [`ServerFault::Refused`] if the wallet is of
    /// another chain than Ethereum.
    pub async fn describe(&self) -> Result<DescribedWallet, ServerFault> {
        let answer = self.exchange(self.client.get(self.wallet.clone())).await?;
        let found = self.described(&answer)?;
        if found.id != self.wallet_id {
            return Err(ServerFault::Unclear(SafeText::clean("it describes another wallet", MOST_SHOWN)));
        }
        Ok(found)
    }

    /// Creates another wallet under these policies. `key` makes the server answer a repeated request with the same wallet.
    ///
    /// # Errors
    /// [`ServerFault::Refused`] and [`ServerFault::Unavailable`] if no wallet was created; after
    /// [`ServerFault::Unclear`] one may exist.
    pub async fn create(&self, policies: &[String], key: B128) -> Result<DescribedWallet, ServerFault> {
        let body = json!({ "chain_type": "ethereum", "policy_ids": policies }).to_string();
        let request = self.client.post(self.wallets.clone()).header(header::CONTENT_TYPE, "application/json");
        let request = request.header("privy-idempotency-key", hex::encode(key)).body(body);
        let answer = self.exchange(request).await?;
        // A wallet exists by now, whatever is wrong with its description.
        let unclear = |why: &str| ServerFault::Unclear(SafeText::clean(why, MOST_SHOWN));
        let created = self.described(&answer).map_err(|fault| unclear(&fault.to_string()))?;
        if created.id == self.wallet_id {
            return Err(unclear("it returned the wallet that it was asked through, not a new one"));
        }
        if created.policies != policies {
            return Err(unclear("the new wallet has other policies than it was asked for"));
        }
        Ok(created)
    }

    /// Reads the description of a wallet.
    fn described(&self, answer: &Value) -> Result<DescribedWallet, ServerFault> {
        let text = |key: &str| answer.get(key).and_then(Value::as_str);
        if text("chain_type") != Some("ethereum") {
            let kind = self.shown(text("chain_type").unwrap_or("none"));
            let why = format!("the wallet is of chain type {kind}, not ethereum");
            return Err(ServerFault::Refused(SafeText::clean(&why, MOST_SHOWN)));
        }
        let policies = answer
            .get("policy_ids")
            .and_then(Value::as_array)
            .and_then(|ids| ids.iter().map(|id| id.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>());
        let id = text("id").map(str::to_owned);
        let address = text("address").and_then(|address| address.parse().ok());
        match (id, address, policies) {
            (Some(id), Some(address), Some(policies)) => Ok(DescribedWallet { id, address, policies }),
            _ => Err(ServerFault::Unclear(SafeText::clean("the wallet has no address or no policies", MOST_SHOWN))),
        }
    }

    async fn call(&self, method: &str, params: Value, (field, encoding): (&str, &str)) -> Result<Bytes, ServerFault> {
        let body = json!({ "method": method, "params": params }).to_string();
        let request = self.client.post(self.rpc.clone()).header(header::CONTENT_TYPE, "application/json").body(body);
        let answer = self.exchange(request).await?;
        let data = answer.get("data");
        let text = |value: Option<&Value>, key: &str| value?.get(key)?.as_str().map(str::to_owned);
        let is_form = text(Some(&answer), "method").as_deref() == Some(method)
            && text(data, "encoding").as_deref() == Some(encoding);
        let bytes = text(data, field).filter(|_| is_form).and_then(|text| text.parse::<Bytes>().ok());
        let why = || ServerFault::Unclear(SafeText::clean("its answer has no signature", MOST_SHOWN));
        bytes.ok_or_else(why)
    }

    /// The header with the credential, which no log of the HTTP client shows.
    fn authorization(&self) -> Result<header::HeaderValue, ServerFault> {
        let value = header::HeaderValue::from_str(self.authorization.expose_secret());
        // A credential is visible ASCII.
        let mut value = value.map_err(|_| ServerFault::Unavailable(SafeText::clean("its credential", MOST_SHOWN)))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Makes one request and reads its answer.
    async fn exchange(&self, request: RequestBuilder) -> Result<Value, ServerFault> {
        let until = Instant::now() + WHOLE;
        let request = request.header(header::AUTHORIZATION, self.authorization()?).header("privy-app-id", &self.app_id);
        let unclear = |why: &dyn fmt::Display| ServerFault::Unclear(self.shown(&why.to_string()));
        let sent = match timeout_at(until, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let is_unsent = error.is_connect() || error.is_builder();
                let why = self.shown(&causes(&error.without_url()));
                return Err(if is_unsent { ServerFault::Unavailable(why) } else { ServerFault::Unclear(why) });
            }
            Err(_) => return Err(unclear(&format_args!("no answer within {} s", WHOLE.as_secs()))),
        };
        let status = sent.status();
        let body = match read(sent, until).await {
            Ok(body) => body,
            // The status of a refusal says enough.
            Err(_) if !status.is_success() => Vec::new(),
            Err(why) => return Err(unclear(&why)),
        };
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| unclear(&"its answer is not JSON"));
        }
        let said: Option<Value> = serde_json::from_slice(&body).ok();
        let said = |key: &str| said.as_ref().and_then(|said| said.get(key)?.as_str()).unwrap_or_default().to_owned();
        let said = [said("code"), said("error")];
        let said: Vec<&str> = said.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        let why = self.shown(&format!("status {} {}", status.as_u16(), said.join(": ")));
        Err(match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => ServerFault::Unavailable(why),
            _ if status.is_redirection() => ServerFault::Unavailable(why),
            StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT => ServerFault::Unclear(why),
            _ if status.is_client_error() => ServerFault::Refused(why),
            _ => ServerFault::Unclear(why),
        })
    }

    /// A text of the server for display. Cleaning comes first, because it may turn other signs into those of the
    /// credential.
    fn shown(&self, text: &str) -> SafeText {
        let cleaned = SafeText::clean(text, MOST_ANSWER).to_string();
        let repeats = self.hidden.iter().any(|hidden| cleaned.contains(hidden.as_str()));
        SafeText::clean(if repeats { REMOVED } else { &cleaned }, MOST_SHOWN)
    }
}

impl WalletServer for WalletServerClient {
    fn sign<'a>(&'a self, content: ServerContent<'a>) -> BoxFuture<'a, Result<Bytes, ServerFault>> {
        Box::pin(async move {
            match content {
                ServerContent::Typed(typed) => {
                    let data = json!({
                        "domain": typed.domain, "types": typed.resolver, "primary_type": typed.primary_type,
                        "message": typed.message,
                    });
                    self.call("eth_signTypedData_v4", json!({ "typed_data": data }), ("signature", "hex")).await
                }
                ServerContent::Transaction(transaction) => {
                    let params = json!({ "transaction": described(transaction) });
                    self.call("eth_signTransaction", params, ("signed_transaction", "rlp")).await
                }
            }
        })
    }
}

impl fmt::Debug for WalletServerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalletServerClient").field("wallet_id", &self.wallet_id).finish_non_exhaustive()
    }
}

/// A transaction in the shape of the API: amounts as hexadecimal quantities.
fn described(transaction: &TxEip1559) -> Value {
    let to = match transaction.to {
        TxKind::Call(to) => json!(to.to_string()),
        TxKind::Create => Value::Null,
    };
    json!({
        "type": 2, "to": to, "chain_id": transaction.chain_id, "nonce": transaction.nonce,
        "value": format!("{:#x}", transaction.value), "data": transaction.input,
        "gas_limit": format!("{:#x}", transaction.gas_limit),
        "max_fee_per_gas": format!("{:#x}", U256::from(transaction.max_fee_per_gas)),
        "max_priority_fee_per_gas": format!("{:#x}", U256::from(transaction.max_priority_fee_per_gas)),
    })
}

/// Reason why an answer could not be read whole.
#[derive(Debug, thiserror::Error)]
enum AnswerFault {
    #[error("its answer did not end within {} s", WHOLE.as_secs())]
    Late,
    #[error("its answer is larger than 1 MiB")]
    TooLarge,
    /// The connection failed; the error with its causes.
    #[error("{0}")]
    Broken(String),
}

async fn read(mut response: Response, until: Instant) -> Result<Vec<u8>, AnswerFault> {
    let mut body = Vec::new();
    loop {
        match timeout_at(until, response.chunk()).await {
            Err(_) => return Err(AnswerFault::Late),
            Ok(Err(error)) => return Err(AnswerFault::Broken(causes(&error.without_url()))),
            Ok(Ok(None)) => return Ok(body),
            Ok(Ok(Some(chunk))) if body.len().saturating_add(chunk.len()) > MOST_ANSWER => {
                return Err(AnswerFault::TooLarge);
            }
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
        }
    }
}

/// An error with its causes, which say more than the error itself.
fn causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        words.push_str(&format!(": {next}"));
        cause = next.source();
    }
    words
}
