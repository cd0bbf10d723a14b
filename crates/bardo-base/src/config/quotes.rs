//! Settings of the quote sources: the chosen source, its address, and its API key.
//!
//! The key comes from the environment only, so that no file that is shared or shown contains it.

use std::path::PathBuf;

use secrecy::SecretString;

use super::{ConfigError, Environment, Setting, SettingOrigin, paths};

/// Environment variable that holds the API key of Uniswap's Trading API.
const KEY: &str = "BARDO_UNISWAP_API_KEY";
/// Keys have about forty characters; a longer text was pasted by mistake.
const LONGEST_KEY: usize = 512;

/// A source of quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuoteChoice {
    /// Uniswap's Trading API.
    TradingApi,
    /// Uniswap's smart-order-router, run by the user as a separate process.
    Sidecar,
    /// Bardo's own router over the pools on chain.
    Own,
}

impl QuoteChoice {
    /// All choices, each with its name in the configuration.
    pub const WORDS: [(Self, &'static str); 3] =
        [(Self::TradingApi, "trading-api"), (Self::Sidecar, "sidecar"), (Self::Own, "own")];

    /// Returns the choice with this name.
    pub fn parse_name(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(choice, _)| *choice)
    }

    /// Name of the choice in the configuration.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(choice, _)| *choice == self).map_or("own", |(_, word)| word)
    }
}

/// The chosen quote source and its address.
#[derive(Debug, Clone, Default)]
pub struct QuoteSettings {
    /// Chosen source; `None` for the first that is set up.
    pub source: Option<Setting<QuoteChoice>>,
    /// API key of the Trading API.
    pub api_key: Option<Setting<SecretString>>,
    /// Address of the Trading API; `None` for the public one.
    pub api_url: Option<Setting<String>>,
    /// Path of the sidecar's Unix socket.
    pub sidecar_socket: Option<Setting<PathBuf>>,
}

impl QuoteSettings {
    /// Returns the chosen source, or the first that is set up.
    pub fn choice(&self) -> QuoteChoice {
        match (&self.source, &self.api_key, &self.sidecar_socket) {
            (Some(named), ..) => named.value,
            (None, Some(_), _) => QuoteChoice::TradingApi,
            (None, None, Some(_)) => QuoteChoice::Sidecar,
            (None, None, None) => QuoteChoice::Own,
        }
    }

    /// Applies environment variables over the settings of the file.
    pub(super) fn over(mut self, environment: &Environment) -> Result<Self, ConfigError> {
        let from = |name: &str| {
            environment.get(name).map(|value| (value.to_owned(), SettingOrigin::Environment(name.to_owned())))
        };
        let bad = |name: &str, reason: String| ConfigError::Environment { name: name.to_owned(), reason };
        if let Some((word, origin)) = from("BARDO_QUOTE_SOURCE") {
            let value = QuoteChoice::parse_name(&word).ok_or_else(|| bad("BARDO_QUOTE_SOURCE", choices()))?;
            self.source = Some(Setting { value, origin });
        }
        if let Some((key, origin)) = from(KEY) {
            let key = key.trim();
            if key.len() > LONGEST_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(bad(KEY, "not a valid key: expected printable characters without spaces".to_owned()));
            }
            self.api_key = Some(Setting { value: SecretString::from(key.to_owned()), origin });
        }
        if let Some((value, origin)) = from("BARDO_UNISWAP_API_URL") {
            self.api_url = Some(Setting { value, origin });
        }
        if let Some((path, origin)) = from("BARDO_SIDECAR_SOCKET") {
            let value = paths::absolute(&path).map_err(|error| bad("BARDO_SIDECAR_SOCKET", error.to_string()))?;
            self.sidecar_socket = Some(Setting { value, origin });
        }
        Ok(self)
    }
}

/// Error text that lists the known sources.
pub(super) fn choices() -> String {
    let words: Vec<&str> = QuoteChoice::WORDS.iter().map(|(_, word)| *word).collect();
    format!("not a quote source; known: {}", words.join(", "))
}
