//! The `[alerts]` table of the file.

use super::super::alerts::{ALERT_NUMBERS, AlertDetail, AlertRule, AlertSettings, EmailTls, UnknownAlertRule};
use super::{ConfigError, Setting, Source, Value};
use crate::units::TokenAmount;

/// Keys of the table.
pub(super) const ALERTS: &[&str] = &[
    "rules",
    "detail",
    "decision_seconds",
    "within_minutes",
    "repeat_minutes",
    "per_hour",
    "gas_below",
    "balance_percent",
    "price_percent",
    "webhook_url",
    "webhook_secret_file",
    "telegram_chat",
    "telegram_token_file",
    "telegram_api_url",
    "email_server",
    "email_port",
    "email_tls",
    "email_user",
    "email_password_file",
    "email_from",
    "email_to",
    "desktop",
];
/// Decimals of the native token on every chain that Bardo knows.
const NATIVE_DECIMALS: u8 = 18;
/// Smallest and largest move that an alert can ask for, in percent.
const PERCENT: (u64, u64) = (1, 1_000);
/// Maximum number of addresses that receive e-mail.
const MOST_ADDRESSES: usize = 10;

impl Source<'_> {
    pub(super) fn alerts(&self, value: &Value<'_>) -> Result<AlertSettings, ConfigError> {
        let mut alerts = AlertSettings::default();
        for (key, value) in self.table("alerts", value, "a table: [alerts]")? {
            let name: &str = key.get_ref();
            let full = format!("alerts.{name}");
            let bounds = ALERT_NUMBERS.iter().find(|(known, ..)| *known == name);
            if let (Some((_, _, least, most)), Some(setting)) = (bounds, alerts.number_mut(name)) {
                *setting = self.within(&full, value, (*least, *most))?;
                continue;
            }
            let text =
                |expected: &'static str| self.string(&full, value, expected).map(|text| self.setting(value, text));
            let file = || self.path_of(&full, value).map(|path| Some(self.setting(value, path)));
            match name {
                "rules" => alerts.rules = self.setting(value, self.rules(&full, value)?),
                "detail" => {
                    let detail = match text("\"brief\" or \"full\"")?.value.as_str() {
                        "brief" => AlertDetail::Brief,
                        "full" => AlertDetail::Full,
                        _ => return Err(self.bad(value.span(), &full, "unknown; use \"brief\" or \"full\"")),
                    };
                    alerts.detail = self.setting(value, detail);
                }
                "gas_below" => {
                    let given = text("a string of native tokens such as \"0.02\"")?.value;
                    let amount = TokenAmount::parse(&given, NATIVE_DECIMALS)
                        .map_err(|error| self.bad(value.span(), &full, &error.to_string()))?;
                    alerts.gas_below = Some(self.setting(value, amount));
                }
                "balance_percent" => alerts.balance_percent = Some(self.within(&full, value, PERCENT)?),
                "price_percent" => alerts.price_percent = Some(self.within(&full, value, PERCENT)?),
                "webhook_url" => alerts.webhook.url = Some(self.setting(value, self.endpoint(&full, value)?)),
                "webhook_secret_file" => alerts.webhook.secret.file = file()?,
                "telegram_chat" => alerts.telegram.chat = Some(self.setting(value, self.chat(&full, value)?)),
                "telegram_token_file" => alerts.telegram.token.file = file()?,
                "telegram_api_url" => alerts.telegram.api_url = Some(self.setting(value, self.endpoint(&full, value)?)),
                "email_server" => alerts.email.server = Some(text("a host name such as \"smtp.example.com\"")?),
                "email_port" => {
                    let port = self.within(&full, value, (1, u64::from(u16::MAX)))?;
                    let number = u16::try_from(port.value).unwrap_or(u16::MAX);
                    alerts.email.port = Some(self.setting(value, number));
                }
                "email_tls" => {
                    let given = text("\"starttls\", \"tls\" or \"none\"")?.value;
                    let known = [EmailTls::Starttls, EmailTls::Tls, EmailTls::None];
                    let tls = known.into_iter().find(|tls| tls.as_str() == given).ok_or_else(|| {
                        let reason = "unknown; use \"starttls\", \"tls\", or \"none\" for a server on this machine";
                        self.bad(value.span(), &full, reason)
                    })?;
                    alerts.email.tls = self.setting(value, tls);
                }
                "email_user" => alerts.email.user = Some(text("a user name in quotes")?),
                "email_password_file" => alerts.email.password.file = file()?,
                "email_from" => alerts.email.from = Some(text("an address in quotes")?),
                "email_to" => alerts.email.to = self.setting(value, self.addresses(&full, value)?),
                "desktop" => alerts.desktop = self.setting(value, self.boolean(&full, value)?),
                _ => return Err(self.unknown(key.span(), name, "in [alerts]", ALERTS)),
            }
        }
        Ok(alerts)
    }

    fn within(&self, full: &str, value: &Value<'_>, (least, most): (u64, u64)) -> Result<Setting<u64>, ConfigError> {
        let number = self.number(full, value, "a whole number such as 30")?;
        if number < least || number > most {
            let reason = format!("{number} is out of range: use {least} to {most}");
            return Err(self.bad(value.span(), full, &reason));
        }
        Ok(self.setting(value, number))
    }

    fn rules(&self, full: &str, value: &Value<'_>) -> Result<Vec<AlertRule>, ConfigError> {
        let rules = self.list(full, value, "a list of rules: [\"decision_waits\", \"stop\"]")?.iter().map(|one| {
            let name = self.string(full, one, "a rule's name in quotes")?;
            name.parse().map_err(|error: UnknownAlertRule| self.bad(one.span(), full, &error.to_string()))
        });
        rules.collect()
    }

    /// Id of a chat, which is a number, or the public name of a channel (Bot API, `sendMessage`).
    fn chat(&self, full: &str, value: &Value<'_>) -> Result<String, ConfigError> {
        let chat = self.string(full, value, "a chat's id in quotes, such as \"123456789\"")?;
        let public = chat.strip_prefix('@').is_some_and(|name| !name.is_empty());
        if public || chat.parse::<i64>().is_ok() {
            return Ok(chat);
        }
        let reason = "not a chat: a whole number in quotes, negative for a group, or \"@name\" of a channel";
        Err(self.bad(value.span(), full, reason))
    }

    fn addresses(&self, full: &str, value: &Value<'_>) -> Result<Vec<String>, ConfigError> {
        let given = self.list(full, value, "a list of addresses: [\"me@example.com\"]")?;
        if given.len() > MOST_ADDRESSES {
            let reason = format!("at most {MOST_ADDRESSES} addresses; use a mailing list for more");
            return Err(self.bad(value.span(), full, &reason));
        }
        given.iter().map(|one| self.string(full, one, "an address in quotes")).collect()
    }
}
