//! Settings of the quote sources: which one is asked, where it is, and the key for it.
//!
//! The key comes from the environment alone, so that no file that is shared or shown holds it.

use std::path::PathBuf;

use secrecy::SecretString;

use super::{ConfigError, Environment, Origin, Setting, paths};

/// The variable that holds the key of Uniswap's Trading API.
const KEY: &str = "BARDO_UNISWAP_API_KEY";
/// Keys are some forty characters; a longer text is something else, pasted by mistake.
const LONGEST_KEY: usize = 512;

/// Who can be asked for quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuoteChoice {
    /// Uniswap's Trading API.
    TradingApi,
    /// The smart-order-router, run by the user as a program of its own.
    Sidecar,
    /// Bardo's own router.
    Own,
}

impl QuoteChoice {
    /// All of them, with the word they are chosen by.
    pub const WORDS: [(Self, &'static str); 3] =
        [(Self::TradingApi, "trading-api"), (Self::Sidecar, "sidecar"), (Self::Own, "own")];

    /// What a word chooses.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(choice, _)| *choice)
    }

    /// The word it is chosen by.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(choice, _)| *choice == self).map_or("own", |(_, word)| word)
    }
}

/// Which quote source is asked, and where it is.
#[derive(Debug, Clone, Default)]
pub struct QuoteSettings {
    /// Who is to be asked; where nobody says, the first that is set up.
    pub source: Option<Setting<QuoteChoice>>,
    /// The key of the Trading API.
    pub api_key: Option<Setting<SecretString>>,
    /// Where the Trading API is, where it is not at its public address.
    pub api_url: Option<Setting<String>>,
    /// The sidecar's Unix socket.
    pub sidecar_socket: Option<Setting<PathBuf>>,
}

impl QuoteSettings {
    /// Who is asked: who was named, or the first that is set up.
    pub fn choice(&self) -> QuoteChoice {
        match (&self.source, &self.api_key, &self.sidecar_socket) {
            (Some(named), ..) => named.value,
            (None, Some(_), _) => QuoteChoice::TradingApi,
            (None, None, Some(_)) => QuoteChoice::Sidecar,
            (None, None, None) => QuoteChoice::Own,
        }
    }

    /// Lays the environment over what the file says.
    pub(super) fn over(mut self, environment: &Environment) -> Result<Self, ConfigError> {
        let from =
            |name: &str| environment.get(name).map(|value| (value.to_owned(), Origin::Environment(name.to_owned())));
        let bad = |name: &str, reason: String| ConfigError::Environment { name: name.to_owned(), reason };
        if let Some((word, origin)) = from("BARDO_QUOTE_SOURCE") {
            let value = QuoteChoice::of_word(&word).ok_or_else(|| bad("BARDO_QUOTE_SOURCE", choices()))?;
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
            let value = paths::absolute(&path).map_err(|reason| bad("BARDO_SIDECAR_SOCKET", reason))?;
            self.sidecar_socket = Some(Setting { value, origin });
        }
        Ok(self)
    }
}

/// What can be chosen, in words.
pub(super) fn choices() -> String {
    let words: Vec<&str> = QuoteChoice::WORDS.iter().map(|(_, word)| *word).collect();
    format!("not a quote source; known: {}", words.join(", "))
}
