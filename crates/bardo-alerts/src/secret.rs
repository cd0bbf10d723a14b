//! Secrets of channels: read from the environment or a file that only its owner may read, and never shown.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;
use zeroize::Zeroizing;

use super::channel::{Delivered, SendError};
use bardo_base::config::AlertSecret;
use bardo_base::regular_file;
use bardo_base::text::SafeText;

/// Maximum size of a secret's file, in bytes.
const MOST: u64 = 4 << 10;
/// Minimum length of a part of a URL that is hidden, in bytes: shorter ones are words.
const SHORTEST_HIDDEN: usize = 8;
/// Maximum length of a text before secrets are removed from it, in characters: more than is read of any answer.
pub(crate) const MOST_CLEANED: usize = 128 << 10;
/// Maximum length of a server's answer that is shown, in characters.
const MOST_ANSWER: usize = 200;
/// Maximum length of an error that is shown, in characters.
const MOST_ERROR: usize = 300;
/// Replacement of a secret that a server repeats.
const REMOVED: &str = "[secret removed]";

/// Errors of a secret. They never repeat it.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// No secret is configured.
    #[error("no secret: set {variable}, or alerts.{key} to a file with it")]
    Unset {
        /// Environment variable for the secret.
        variable: &'static str,
        /// Key of its file.
        key: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// Others may read the file.
    #[error("{} can be read by other users (mode {mode:o}): run chmod 600 on it", path.display())]
    Shared {
        /// Path of the file.
        path: PathBuf,
        /// Permissions of the file.
        mode: u32,
    },
    /// The file belongs to another user.
    #[error("{} belongs to another user: make it a file of your own", path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
    },
    /// The secret is not one line of visible ASCII characters.
    #[error("the secret must be one line of ASCII letters, digits and signs, without spaces")]
    Malformed,
}

/// A channel's secret. `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct ChannelSecret(SecretString);

impl fmt::Debug for ChannelSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelSecret(…)")
    }
}

impl ChannelSecret {
    /// Reads the secret: from the environment, else from its file. `None` if neither is configured.
    ///
    /// # Errors
    /// [`SecretError`].
    pub(crate) fn read(source: &AlertSecret) -> Result<Option<Self>, SecretError> {
        if let Some(value) = &source.value {
            return Self::checked(value.value.expose_secret()).map(Some);
        }
        let Some(file) = &source.file else { return Ok(None) };
        let text = read_own(&file.value)?;
        Self::checked(&text).map(Some)
    }

    fn checked(text: &str) -> Result<Self, SecretError> {
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SecretError::Malformed);
        }
        Ok(Self(SecretString::from(text.to_owned())))
    }

    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Parts of it that must not be shown: the whole, and the part after its prefix (`whsec_`, or the number of a bot).
    pub(crate) fn parts(&self) -> Vec<String> {
        let whole = self.expose();
        let bare = whole.strip_prefix("whsec_").or_else(|| whole.split_once(':').map(|(_, rest)| rest));
        [Some(whole), bare].into_iter().flatten().map(str::to_owned).collect()
    }
}

/// Texts that no answer and no error may show. `Debug` does not show them.
#[derive(Clone, Default)]
pub(crate) struct HiddenTexts(Vec<Zeroizing<String>>);

impl fmt::Debug for HiddenTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HiddenTexts(…)")
    }
}

impl HiddenTexts {
    pub(crate) fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let mut texts: Vec<Zeroizing<String>> =
            texts.into_iter().filter(|text| !text.is_empty()).map(Zeroizing::new).collect();
        // The longest first, so that none is removed in part only.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Self(texts)
    }

    /// The parts of a URL that may be as secret as a password: login, path and query, from a length on that is not that
    /// of a word.
    pub(crate) fn of_url(url: &Url) -> impl Iterator<Item = String> {
        let segments = url.path_segments().into_iter().flatten().map(str::to_owned);
        let values = url.query_pairs().map(|(_, value)| value.into_owned());
        let raw = url.query().unwrap_or_default().split(['&', '=']).map(str::to_owned);
        let login = [url.username(), url.password().unwrap_or_default()].map(str::to_owned);
        segments.chain(values).chain(raw).chain(login).filter(|part| part.len() >= SHORTEST_HIDDEN)
    }

    /// The text for display, at most `most` characters long. Cleaning comes first, because it may turn other signs into
    /// those of a secret; the cut comes last, because the beginning of a secret is a part of it.
    pub(crate) fn shown(&self, text: &str, most: usize) -> SafeText {
        let cleaned = SafeText::clean(text, MOST_CLEANED).to_string();
        let without = self.0.iter().fold(cleaned, |text, hidden| text.replace(hidden.as_str(), REMOVED));
        SafeText::clean(&without, most)
    }

    /// The result of an attempt for display.
    pub(crate) fn without(&self, result: Result<Delivered, SendError>) -> Result<Delivered, SendError> {
        match result {
            Ok(Delivered(said)) => Ok(Delivered(self.shown(said.as_str(), MOST_ANSWER))),
            Err(SendError::Again { why, after }) => {
                Err(SendError::Again { why: self.shown(why.as_str(), MOST_ERROR), after })
            }
            Err(SendError::Never(why)) => Err(SendError::Never(self.shown(why.as_str(), MOST_ERROR))),
        }
    }
}

/// Reads a file that only its owner may read.
fn read_own(path: &Path) -> Result<Zeroizing<String>, SecretError> {
    let unreadable = |reason| SecretError::Unreadable { path: path.to_owned(), reason };
    let file = regular_file::open(path).map_err(unreadable)?;
    own_alone(path, &file)?;
    let mut text = Zeroizing::new(String::new());
    file.take(MOST.saturating_add(1)).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MOST {
        return Err(SecretError::Malformed);
    }
    Ok(text)
}

/// Checks the owner and the permissions of an open file. Root's files may belong to its group: a service manager hands
/// credentials over that way.
#[cfg(unix)]
fn own_alone(path: &Path, file: &File) -> Result<(), SecretError> {
    use std::os::unix::fs::MetadataExt as _;
    let found = file.metadata().map_err(|reason| SecretError::Unreadable { path: path.to_owned(), reason })?;
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own && found.uid() != 0 {
        return Err(SecretError::Foreign { path: path.to_owned() });
    }
    let mode = found.mode() & 0o777;
    let forbidden = if found.uid() == own { 0o077 } else { 0o027 };
    if mode & forbidden != 0 {
        return Err(SecretError::Shared { path: path.to_owned(), mode });
    }
    Ok(())
}

#[cfg(not(unix))]
fn own_alone(_: &Path, _: &File) -> Result<(), SecretError> {
    Ok(())
}
