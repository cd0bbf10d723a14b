//! Telegram: `sendMessage` of the Bot API (<https://core.telegram.org/bots/api#sendmessage>), as plain text.
//!
//! The token is part of the URL's path, so that no error may repeat a URL. Updates are never requested: what is written
//! to the bot is not read.

use futures::future::BoxFuture;
use reqwest::{Client, header};
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::alert::AlertMessage;
use super::channel::{Channel, ChannelError, ChannelName, Delivered, SendError};
use super::http::{self, HttpAnswer};
use super::secret::{ChannelSecret, HiddenTexts, MOST_CLEANED, SecretError};
use bardo_base::config::{RpcUrl, TELEGRAM_API, TELEGRAM_TOKEN, TelegramSettings};
use bardo_base::text::SafeText;

const NAME: ChannelName = ChannelName::Telegram;
/// Maximum length of a message, in characters (Bot API, `sendMessage`).
const LONGEST: usize = 4_096;

#[derive(Debug)]
pub(crate) struct Telegram {
    client: Client,
    api: RpcUrl,
    chat: String,
    token: ChannelSecret,
    hidden: HiddenTexts,
}

/// Answer of the Bot API.
#[derive(Debug, Deserialize)]
struct BotAnswer {
    ok: bool,
    #[serde(default)]
    description: String,
    parameters: Option<BotParameters>,
}

#[derive(Debug, Deserialize)]
struct BotParameters {
    /// Seconds to wait before the request may be repeated.
    retry_after: Option<u64>,
}

impl Telegram {
    /// Opens the channel; `None` if no chat is configured.
    pub(crate) fn open(settings: &TelegramSettings) -> Result<Option<Self>, ChannelError> {
        let Some(chat) = &settings.chat else { return Ok(None) };
        let api = match &settings.api_url {
            Some(url) => url.value.clone(),
            None => RpcUrl::parse(TELEGRAM_API).map_err(|error| ChannelError::system(NAME, &error))?,
        };
        let client = http::client(NAME, "telegram_api_url", &api)?;
        let failed = |error| ChannelError::Secret { channel: NAME, error };
        let token = ChannelSecret::read(&settings.token).map_err(failed)?;
        let unset = SecretError::Unset { variable: TELEGRAM_TOKEN, key: "telegram_token_file" };
        let token = token.ok_or_else(|| failed(unset))?;
        if !is_token(token.expose()) {
            let why = "not a bot's token: BotFather gives one such as 123456:ABC-DEF, digits, a colon, and letters";
            return Err(ChannelError::value("telegram_token_file", why));
        }
        let hidden = HiddenTexts::new(token.parts().into_iter().chain(HiddenTexts::of_url(api.expose())));
        Ok(Some(Self { client, api, chat: chat.value.clone(), token, hidden }))
    }

    fn url(&self) -> Url {
        let mut url = self.api.expose().clone();
        let path = format!("{}/bot{}/sendMessage", url.path().trim_end_matches('/'), self.token.expose());
        url.set_path(&path);
        url.set_query(None);
        url
    }

    async fn attempt(&self, message: &AlertMessage<'_>) -> Result<Delivered, SendError> {
        let text: String = message.text().chars().take(LONGEST).collect();
        let body = json!({
            "chat_id": self.chat,
            "text": text,
            // A preview would fetch an address that a token's name may contain.
            "link_preview_options": { "is_disabled": true },
        });
        let request = self
            .client
            .post(self.url())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "bardo")
            .body(body.to_string());
        judge(&http::exchange(request).await?)
    }
}

/// Result of an answer. Both the status and `ok` must report success. A success with a body that breaks off or drips
/// counts as delivered: the Bot API answers an accepted request alone that way, and a repeat would come twice.
fn judge(answer: &HttpAnswer) -> Result<Delivered, SendError> {
    let Ok(read) = serde_json::from_slice::<BotAnswer>(&answer.body) else {
        let said = String::from_utf8_lossy(&answer.body);
        return match answer.status.is_success() {
            true if answer.is_cut => Ok(Delivered(SafeText::clean(&answer.described(""), MOST_CLEANED))),
            true => Err(SendError::again(&format!("not an answer of the Bot API: {}", answer.described(&said)))),
            false => Err(answer.refusal(&said)),
        };
    };
    if answer.status.is_success() && read.ok {
        return Ok(Delivered(SafeText::clean(&answer.described("ok"), MOST_CLEANED)));
    }
    if answer.status.is_success() {
        return Err(SendError::never(&format!("the Bot API refused: {}", read.description)));
    }
    let asked = read.parameters.and_then(|parameters| parameters.retry_after);
    Err(match (answer.refusal(&read.description), asked) {
        (SendError::Again { why, .. }, Some(seconds)) => {
            SendError::Again { why, after: http::delay(&seconds.to_string()) }
        }
        (error, _) => error,
    })
}

/// True for digits, a colon, and letters, digits, `_` and `-`: nothing that changes the path of a URL.
fn is_token(text: &str) -> bool {
    let Some((number, rest)) = text.split_once(':') else { return false };
    let is_rest = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && !rest.is_empty()
        && rest.bytes().all(is_rest)
}

impl Channel for Telegram {
    fn name(&self) -> ChannelName {
        NAME
    }

    fn destination(&self) -> SafeText {
        SafeText::clean(&format!("chat {} at {}", self.chat, self.api), 200)
    }

    fn send<'a>(&'a self, message: &'a AlertMessage<'a>) -> BoxFuture<'a, Result<Delivered, SendError>> {
        Box::pin(async { self.hidden.without(self.attempt(message).await) })
    }
}
