//! Channel kinds, and the outcomes of a delivery.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::alert::AlertMessage;
use super::secret::{MOST_CLEANED, SecretError};
use super::{desktop, email, telegram, webhook};
use bardo_base::config::{AlertSettings, RpcUrl};
use bardo_base::text::SafeText;

/// Maximum length of an error's description, in characters.
const LONGEST: usize = 300;

/// Kind of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChannelName {
    /// HTTP POST to a URL.
    Webhook,
    /// Message of a Telegram bot.
    Telegram,
    /// E-mail over a mail server.
    Email,
    /// Notification of this machine's desktop.
    Desktop,
}

impl ChannelName {
    /// All kinds, in declaration order.
    pub const ALL: [Self; 4] = [Self::Webhook, Self::Telegram, Self::Email, Self::Desktop];

    /// Name on the command line and in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Telegram => "telegram",
            Self::Email => "email",
            Self::Desktop => "desktop",
        }
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error of an unknown channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown channel; known: webhook, telegram, email, desktop")]
pub struct UnknownChannel;

impl FromStr for ChannelName {
    type Err = UnknownChannel;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|channel| channel.as_str() == name).ok_or(UnknownChannel)
    }
}

/// Answer of a server that accepted an alert, cleaned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered(pub SafeText);

/// Errors of one attempt. Their texts contain no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Temporary: the attempt may be repeated.
    #[error("{why}")]
    Again {
        /// Description of the error.
        why: SafeText,
        /// Delay that the server asked for.
        after: Option<Duration>,
    },
    /// Permanent: the server will not accept this message.
    #[error("{0}")]
    Never(SafeText),
}

impl SendError {
    /// Error of an attempt; the channel removes its secrets, and cuts it.
    pub(crate) fn again(why: &str) -> Self {
        Self::Again { why: SafeText::clean(why, MOST_CLEANED), after: None }
    }

    /// Permanent error of an attempt; the channel removes its secrets, and cuts it.
    pub(crate) fn never(why: &str) -> Self {
        Self::Never(SafeText::clean(why, MOST_CLEANED))
    }

    /// Description of the error.
    pub fn why(&self) -> &SafeText {
        match self {
            Self::Again { why, .. } | Self::Never(why) => why,
        }
    }
}

/// Channel that delivers alerts.
pub trait Channel: Send + Sync + fmt::Debug {
    /// Kind of the channel.
    fn name(&self) -> ChannelName;

    /// Destination for display, without credentials.
    fn destination(&self) -> SafeText;

    /// Makes one attempt. It ends within a minute, whatever the server does.
    ///
    /// # Errors
    /// [`SendError`].
    fn send<'a>(&'a self, message: &'a AlertMessage<'a>) -> BoxFuture<'a, Result<Delivered, SendError>>;
}

/// Errors of opening a channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The secret cannot be used.
    #[error("alerts by {channel}: {error}")]
    Secret {
        /// Channel that needs it.
        channel: ChannelName,
        /// Error of the secret.
        error: SecretError,
    },
    /// A setting is missing.
    #[error("alerts by {channel}: set alerts.{key} in the configuration file")]
    Unset {
        /// Channel that needs it.
        channel: ChannelName,
        /// Key that is not set.
        key: &'static str,
    },
    /// The URL is neither encrypted nor on this machine.
    #[error("alerts.{key}: {url} uses neither https nor an address of this machine: others could read the alerts")]
    Unencrypted {
        /// Key of the URL.
        key: &'static str,
        /// URL without its credentials.
        url: RpcUrl,
    },
    /// A setting has an unusable value.
    #[error("alerts.{key}: {why}")]
    Value {
        /// Key of the setting.
        key: &'static str,
        /// Description of the error, and of what would be right.
        why: SafeText,
    },
    /// The system does not allow encrypted connections.
    #[error("alerts by {channel}: cannot prepare encrypted connections: {why}")]
    System {
        /// Channel that needs them.
        channel: ChannelName,
        /// Description of the error.
        why: SafeText,
    },
}

impl ChannelError {
    pub(crate) fn value(key: &'static str, why: &str) -> Self {
        Self::Value { key, why: SafeText::clean(why, LONGEST) }
    }

    pub(crate) fn system(channel: ChannelName, why: &dyn fmt::Display) -> Self {
        Self::System { channel, why: SafeText::clean(&why.to_string(), LONGEST) }
    }
}

/// Opens every configured channel: reads its secret, and checks its settings. Connects to nothing.
///
/// # Errors
/// The [`ChannelError`] of the first channel that cannot be used.
pub fn channels(settings: &AlertSettings) -> Result<Vec<Arc<dyn Channel>>, ChannelError> {
    let mut opened: Vec<Arc<dyn Channel>> = Vec::new();
    if let Some(channel) = webhook::Webhook::open(&settings.webhook)? {
        opened.push(Arc::new(channel));
    }
    if let Some(channel) = telegram::Telegram::open(&settings.telegram)? {
        opened.push(Arc::new(channel));
    }
    if let Some(channel) = email::Email::open(&settings.email)? {
        opened.push(Arc::new(channel));
    }
    if settings.desktop.value {
        opened.push(Arc::new(desktop::Desktop::open()?));
    }
    Ok(opened)
}
