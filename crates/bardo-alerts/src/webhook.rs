//! Webhook: an HTTP POST of JSON, signed after the Standard Webhooks specification
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use hmac::{Hmac, Mac as _};
use reqwest::{Client, header};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::alert::AlertMessage;
use super::channel::{Channel, ChannelError, ChannelName, Delivered, SendError};
use super::http;
use super::secret::{ChannelSecret, HiddenTexts, MOST_CLEANED, SecretError};
use bardo_base::config::{RpcUrl, WEBHOOK_SECRET, WebhookSettings};
use bardo_base::text::SafeText;

const NAME: ChannelName = ChannelName::Webhook;
/// Prefix of a symmetric secret.
const PREFIX: &str = "whsec_";
/// Minimum and maximum length of the secret, in bytes.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

#[derive(Debug)]
pub(crate) struct Webhook {
    client: Client,
    url: RpcUrl,
    key: WebhookSecret,
    hidden: HiddenTexts,
}

/// Key of the signature, decoded. `Debug` does not show it.
#[derive(Clone)]
struct WebhookSecret(Zeroizing<Vec<u8>>);

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

impl WebhookSecret {
    fn decode(secret: &str) -> Option<Self> {
        let key = STANDARD.decode(secret.strip_prefix(PREFIX)?).ok().map(Zeroizing::new)?;
        LENGTHS.contains(&key.len()).then_some(Self(key))
    }

    /// Signature of a message: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`.
    fn sign(&self, id: &str, timestamp: u64, body: &str) -> String {
        // HMAC takes keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body.as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl Webhook {
    /// Opens the channel; `None` if no URL is configured.
    pub(crate) fn open(settings: &WebhookSettings) -> Result<Option<Self>, ChannelError> {
        let Some(url) = &settings.url else { return Ok(None) };
        let client = http::client(NAME, "webhook_url", &url.value)?;
        let failed = |error| ChannelError::Secret { channel: NAME, error };
        let secret = ChannelSecret::read(&settings.secret).map_err(failed)?;
        let unset = SecretError::Unset { variable: WEBHOOK_SECRET, key: "webhook_secret_file" };
        let secret = secret.ok_or_else(|| failed(unset))?;
        let key = WebhookSecret::decode(secret.expose()).ok_or_else(|| {
            let why = "the signing secret must be \"whsec_\" and the base64 of 24 to 64 random bytes, such as printed \
                       by: echo whsec_$(openssl rand -base64 32)";
            ChannelError::value("webhook_secret_file", why)
        })?;
        let hidden = HiddenTexts::new(secret.parts().into_iter().chain(HiddenTexts::of_url(url.value.expose())));
        Ok(Some(Self { client, url: url.value.clone(), key, hidden }))
    }

    async fn attempt(&self, message: &AlertMessage<'_>) -> Result<Delivered, SendError> {
        let body = message.json().to_string();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let id = message.alert.id.as_str();
        let request = self
            .client
            .post(self.url.expose().clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "bardo")
            .header("webhook-id", id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", self.key.sign(id, now, &body))
            .body(body);
        let answer = http::exchange(request).await?;
        let said = String::from_utf8_lossy(&answer.body);
        if !answer.status.is_success() {
            return Err(answer.refusal(&said));
        }
        Ok(Delivered(SafeText::clean(&answer.described(&said), MOST_CLEANED)))
    }
}

impl Channel for Webhook {
    fn name(&self) -> ChannelName {
        NAME
    }

    fn destination(&self) -> SafeText {
        SafeText::clean(&self.url.to_string(), 200)
    }

    fn send<'a>(&'a self, message: &'a AlertMessage<'a>) -> BoxFuture<'a, Result<Delivered, SendError>> {
        Box::pin(async { self.hidden.without(self.attempt(message).await) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_an_independent_implementation() {
        // Test vector of the reference libraries, recomputed with Python: base64(hmac.new(b64decode("MfKQ…"),
        // b"ID.TIME.BODY", sha256).digest())
        let key = WebhookSecret::decode("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_of_another_form_or_length_is_refused() {
        for bad in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_ä", "whsec_"] {
            assert!(WebhookSecret::decode(bad).is_none(), "{bad}");
        }
    }
}
