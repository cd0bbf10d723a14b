//! Settings of the alerts: rules, channels, and the files of their secrets. Sending is done elsewhere.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use secrecy::SecretString;

use super::{Environment, RpcUrl, Setting, SettingOrigin};
use crate::units::TokenAmount;

/// Environment variable of the webhook's signing secret, which takes precedence over its file.
pub const WEBHOOK_SECRET: &str = "BARDO_ALERT_WEBHOOK_SECRET";
/// Environment variable of the Telegram bot's token, which takes precedence over its file.
pub const TELEGRAM_TOKEN: &str = "BARDO_ALERT_TELEGRAM_TOKEN";
/// Environment variable of the mail server's password, which takes precedence over its file.
pub const EMAIL_PASSWORD: &str = "BARDO_ALERT_EMAIL_PASSWORD";
/// URL of Telegram's Bot API.
pub const TELEGRAM_API: &str = "https://api.telegram.org";

/// Whole numbers of the alerts: key, default, minimum, maximum.
pub(super) const ALERT_NUMBERS: [(&str, u64, u64, u64); 4] = [
    ("decision_seconds", 30, 0, 86_400),
    ("within_minutes", 60, 1, 1_440),
    ("repeat_minutes", 15, 0, 1_440),
    ("per_hour", 30, 1, 600),
];

/// Condition under which an alert is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertRule {
    /// A decision waits for an answer.
    DecisionWaits,
    /// A decision lapsed without an answer.
    DecisionLapsed,
    /// The Golem's phase changed.
    Phase,
    /// The failure breaker opened.
    Breaker,
    /// A stop was raised or lowered.
    Stop,
    /// The endpoints of a chain do not answer, or disagree.
    Endpoint,
    /// The native token for gas runs low.
    Gas,
    /// The value of all holdings moved.
    Balance,
    /// The price of a token moved.
    Price,
}

impl AlertRule {
    /// All rules, in declaration order.
    pub const ALL: [Self; 9] = [
        Self::DecisionWaits,
        Self::DecisionLapsed,
        Self::Phase,
        Self::Breaker,
        Self::Stop,
        Self::Endpoint,
        Self::Gas,
        Self::Balance,
        Self::Price,
    ];

    /// Name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DecisionWaits => "decision_waits",
            Self::DecisionLapsed => "decision_lapsed",
            Self::Phase => "phase",
            Self::Breaker => "breaker",
            Self::Stop => "stop",
            Self::Endpoint => "endpoint",
            Self::Gas => "gas",
            Self::Balance => "balance",
            Self::Price => "price",
        }
    }
}

impl fmt::Display for AlertRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error of an unknown alert rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown rule; known: decision_waits, decision_lapsed, phase, breaker, stop, endpoint, gas, balance, price")]
pub struct UnknownAlertRule;

impl FromStr for AlertRule {
    type Err = UnknownAlertRule;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|rule| rule.as_str() == name).ok_or(UnknownAlertRule)
    }
}

/// Amount of detail in an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AlertDetail {
    /// Event, network, chain and time only: no amounts, accounts or holdings.
    #[default]
    Brief,
    /// Also titles, amounts, prices and reasons.
    Full,
}

/// Encryption of the connection to a mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EmailTls {
    /// The connection begins without encryption and must be upgraded before anything else is sent (RFC 3207).
    #[default]
    Starttls,
    /// The connection is encrypted from its first byte (RFC 8314).
    Tls,
    /// Not encrypted; accepted on this machine only.
    None,
}

impl EmailTls {
    /// Name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starttls => "starttls",
            Self::Tls => "tls",
            Self::None => "none",
        }
    }

    /// Port of a mail server that accepts messages this way (RFC 8314).
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Starttls => 587,
            Self::Tls => 465,
            Self::None => 25,
        }
    }
}

/// Secret of a channel: from the environment, or a file that is read when the channel is opened.
#[derive(Debug, Clone, Default)]
pub struct AlertSecret {
    /// Value from the environment. Never shown.
    pub value: Option<Setting<SecretString>>,
    /// File with the secret, which only its owner may read.
    pub file: Option<Setting<PathBuf>>,
}

impl AlertSecret {
    fn over(self, environment: &Environment, name: &str) -> Self {
        let given = environment.get(name).map(|value| Setting {
            value: SecretString::from(value.to_owned()),
            origin: SettingOrigin::Environment(name.to_owned()),
        });
        Self { value: given.or(self.value), ..self }
    }
}

/// Webhook: an HTTP POST of JSON to a URL, signed.
#[derive(Debug, Clone, Default)]
pub struct WebhookSettings {
    /// URL that receives the alerts; without one the channel is off.
    pub url: Option<Setting<RpcUrl>>,
    /// Signing secret, `whsec_` and base64 (Standard Webhooks).
    pub secret: AlertSecret,
}

/// Settings of the Telegram bot.
#[derive(Debug, Clone, Default)]
pub struct TelegramSettings {
    /// Chat that receives the alerts: its number, or `@name` of a channel; without one the channel is off.
    pub chat: Option<Setting<String>>,
    /// Token of the bot.
    pub token: AlertSecret,
    /// URL of a Bot API server of the operator's own; `None` for [`TELEGRAM_API`].
    pub api_url: Option<Setting<RpcUrl>>,
}

/// E-mail over a mail server that accepts messages (SMTP submission).
#[derive(Debug, Clone)]
pub struct EmailSettings {
    /// Host name of the mail server; without one the channel is off.
    pub server: Option<Setting<String>>,
    /// Port of the mail server; `None` for the usual port of its encryption.
    pub port: Option<Setting<u16>>,
    /// Encryption of the connection.
    pub tls: Setting<EmailTls>,
    /// User name on the mail server; `None` to send without authentication.
    pub user: Option<Setting<String>>,
    /// Password of that user.
    pub password: AlertSecret,
    /// Address that sends.
    pub from: Option<Setting<String>>,
    /// Addresses that receive.
    pub to: Setting<Vec<String>>,
}

/// Rules and channels of the alerts.
#[derive(Debug, Clone)]
pub struct AlertSettings {
    /// Rules in force. Gas, balance and price also need their threshold.
    pub rules: Setting<Vec<AlertRule>>,
    /// Amount of detail.
    pub detail: Setting<AlertDetail>,
    /// Seconds that a decision waits before it is reported.
    pub decision_seconds: Setting<u64>,
    /// Time within which a move of balance or price counts, in minutes.
    pub within_minutes: Setting<u64>,
    /// Time within which the same alert is not repeated, in minutes.
    pub repeat_minutes: Setting<u64>,
    /// Maximum number of messages per channel and hour.
    pub per_hour: Setting<u64>,
    /// Amount of a chain's native token below which its gas runs low; `None` for no such alert.
    pub gas_below: Option<Setting<TokenAmount>>,
    /// Move of the value of all holdings, in percent; `None` for no such alert.
    pub balance_percent: Option<Setting<u64>>,
    /// Move of a token's price, in percent; `None` for no such alert.
    pub price_percent: Option<Setting<u64>>,
    /// Settings of the webhook.
    pub webhook: WebhookSettings,
    /// Settings of the Telegram bot.
    pub telegram: TelegramSettings,
    /// Settings of the e-mail.
    pub email: EmailSettings,
    /// Notifications of this machine's desktop.
    pub desktop: Setting<bool>,
}

impl Default for AlertSettings {
    fn default() -> Self {
        fn setting<T>(value: T) -> Setting<T> {
            Setting { value, origin: SettingOrigin::Default }
        }
        let [decision_seconds, within_minutes, repeat_minutes, per_hour] =
            ALERT_NUMBERS.map(|(_, number, ..)| setting(number));
        Self {
            rules: setting(AlertRule::ALL.to_vec()),
            detail: setting(AlertDetail::default()),
            decision_seconds,
            within_minutes,
            repeat_minutes,
            per_hour,
            gas_below: None,
            balance_percent: None,
            price_percent: None,
            webhook: WebhookSettings::default(),
            telegram: TelegramSettings::default(),
            email: EmailSettings {
                server: None,
                port: None,
                tls: setting(EmailTls::default()),
                user: None,
                password: AlertSecret::default(),
                from: None,
                to: setting(Vec::new()),
            },
            desktop: setting(false),
        }
    }
}

impl AlertSettings {
    /// Takes the secrets of the environment over those of files.
    pub(super) fn over(mut self, environment: &Environment) -> Self {
        self.webhook.secret = self.webhook.secret.over(environment, WEBHOOK_SECRET);
        self.telegram.token = self.telegram.token.over(environment, TELEGRAM_TOKEN);
        self.email.password = self.email.password.over(environment, EMAIL_PASSWORD);
        self
    }

    /// True if a channel is configured.
    pub fn is_on(&self) -> bool {
        self.webhook.url.is_some() || self.telegram.chat.is_some() || self.email.server.is_some() || self.desktop.value
    }

    /// Number with this key, for assignment.
    pub(super) fn number_mut(&mut self, key: &str) -> Option<&mut Setting<u64>> {
        match key {
            "decision_seconds" => Some(&mut self.decision_seconds),
            "within_minutes" => Some(&mut self.within_minutes),
            "repeat_minutes" => Some(&mut self.repeat_minutes),
            "per_hour" => Some(&mut self.per_hour),
            _ => None,
        }
    }

    /// Lists every setting that has a value, for display: key, value, origin. Secrets appear only as present, and URLs
    /// without path and query.
    pub fn shown(&self) -> Vec<(&'static str, String, &SettingOrigin)> {
        let mut shown = Vec::new();
        let rules: Vec<&str> = self.rules.value.iter().map(|rule| rule.as_str()).collect();
        shown.push(("rules", rules.join(", "), &self.rules.origin));
        let detail = match self.detail.value {
            AlertDetail::Brief => "brief",
            AlertDetail::Full => "full",
        };
        shown.push(("detail", detail.to_owned(), &self.detail.origin));
        let numbers = [
            ("decision_seconds", Some(&self.decision_seconds)),
            ("within_minutes", Some(&self.within_minutes)),
            ("repeat_minutes", Some(&self.repeat_minutes)),
            ("per_hour", Some(&self.per_hour)),
            ("balance_percent", self.balance_percent.as_ref()),
            ("price_percent", self.price_percent.as_ref()),
        ];
        for (key, number) in numbers {
            shown.extend(number.map(|number| (key, number.value.to_string(), &number.origin)));
        }
        shown.extend(self.gas_below.as_ref().map(|gas| ("gas_below", gas.value.to_string(), &gas.origin)));
        let url = self.webhook.url.as_ref();
        shown.extend(url.map(|url| ("webhook_url", url.value.to_string(), &url.origin)));
        shown.extend(secret_shown(["webhook_secret", "webhook_secret_file"], &self.webhook.secret));
        let chat = self.telegram.chat.as_ref();
        shown.extend(chat.map(|chat| ("telegram_chat", chat.value.clone(), &chat.origin)));
        shown.extend(secret_shown(["telegram_token", "telegram_token_file"], &self.telegram.token));
        let api = self.telegram.api_url.as_ref();
        shown.extend(api.map(|api| ("telegram_api_url", api.value.to_string(), &api.origin)));
        let email = &self.email;
        shown.extend(email.server.as_ref().map(|server| ("email_server", server.value.clone(), &server.origin)));
        shown.extend(email.port.as_ref().map(|port| ("email_port", port.value.to_string(), &port.origin)));
        if email.server.is_some() {
            shown.push(("email_tls", email.tls.value.as_str().to_owned(), &email.tls.origin));
        }
        shown.extend(email.user.as_ref().map(|user| ("email_user", user.value.clone(), &user.origin)));
        shown.extend(secret_shown(["email_password", "email_password_file"], &email.password));
        shown.extend(email.from.as_ref().map(|from| ("email_from", from.value.clone(), &from.origin)));
        if !email.to.value.is_empty() {
            shown.push(("email_to", email.to.value.join(", "), &email.to.origin));
        }
        shown.push(("desktop", self.desktop.value.to_string(), &self.desktop.origin));
        shown
    }
}

impl AlertSettings {
    /// Configured files of the channels' secrets.
    pub fn secret_files(&self) -> impl Iterator<Item = &Path> {
        let secrets = [&self.webhook.secret, &self.telegram.token, &self.email.password];
        secrets.into_iter().filter_map(|secret| secret.file.as_ref().map(|file| file.value.as_path()))
    }
}

/// Rows of a secret, under the keys of its value and of its file.
fn secret_shown<'a>(
    [value, file]: [&'static str; 2],
    secret: &'a AlertSecret,
) -> Vec<(&'static str, String, &'a SettingOrigin)> {
    let mut shown = Vec::new();
    shown.extend(secret.value.as_ref().map(|set| (value, "set, hidden".to_owned(), &set.origin)));
    shown.extend(secret.file.as_ref().map(|set| (file, set.value.display().to_string(), &set.origin)));
    shown
}
