//! Manifest and permitted paths of a backup.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use bardo_base::text::SafeText;

/// Version of the format.
pub(super) const FORMAT: u32 = 1;
/// Name of the first entry.
pub(super) const MANIFEST: &str = "manifest.json";
/// Maximum size of the manifest, in bytes.
pub(super) const MOST_MANIFEST: u64 = 8 << 20;
/// Maximum number of files.
pub(super) const MOST_FILES: usize = 10_000;
/// Maximum size of one file, in bytes.
pub(super) const MOST_BYTES: u64 = 16 << 30;
/// Maximum size of a text file, in bytes.
pub(super) const MOST_TEXT: u64 = 4 << 20;
/// Maximum length of one part of a path, in bytes.
const MOST_NAME: usize = 128;

/// First entry of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupManifest {
    /// Version of the format.
    pub format: u32,
    /// Version of the Bardo that made it.
    pub bardo: SafeText,
    /// Time of the backup, in milliseconds since the Unix epoch.
    pub made_at: u64,
    /// Host and data folder that it was made from.
    pub made_from: SafeText,
    /// True if it contains key files.
    pub with_keys: bool,
    /// All other files, in their order.
    pub files: Vec<ListedFile>,
}

/// File of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedFile {
    /// Path in the archive.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
}

/// Path of a file that a backup may contain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupPath {
    text: String,
    kind: PathKind,
}

/// Place of a restored file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathKind {
    /// Database of the data folder.
    Database,
    /// Other file of the data folder.
    Data,
    /// Encrypted key file.
    Key,
    /// File beside the configuration.
    Config,
}

impl BackupPath {
    /// Parses the path of an archive's entry. `None` for any path that a backup does not contain: absolute ones, ones
    /// with `..`, links and unknown files among them.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let is_name = |part: &str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+');
            !part.is_empty() && part.len() <= MOST_NAME && !part.starts_with('.') && part.bytes().all(known)
        };
        if !parts.iter().all(|part| is_name(part)) {
            return None;
        }
        let kind = match parts.as_slice() {
            ["data", "ledger", _, "ledger.db" | "paper.db"] | ["data", "labels.db"] => PathKind::Database,
            ["data", "ledger", _, "ledger.audit-head" | "paper.audit-head"]
            | ["data", "ledger", _, "playbooks", _, _, "PLAYBOOK.md"]
            | ["data", "golems", _, "STRATEGY.md"] => PathKind::Data,
            ["data", "keys", _] => PathKind::Key,
            ["config", "config.toml" | "policy.toml" | "policy-devnet.toml"] => PathKind::Config,
            ["config", "archetypes", name] if name.ends_with(".toml") => PathKind::Config,
            _ => return None,
        };
        Some(Self { text: text.to_owned(), kind })
    }

    pub(super) fn kind(&self) -> PathKind {
        self.kind
    }

    /// The path as the archive has it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Path below the data folder or the folder of the configuration.
    pub(super) fn relative(&self) -> PathBuf {
        let path: &Path = self.text.as_ref();
        path.components().skip(1).filter(|part| matches!(part, Component::Normal(_))).collect()
    }
}

/// Reason why a manifest is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestFault {
    /// Another version of the format.
    #[error("its format is {0}, and this Bardo reads {FORMAT}")]
    Format(u32),
    /// More files than a backup may have.
    #[error("it lists more than {MOST_FILES} files")]
    TooManyFiles,
    /// A path that no file of a backup has.
    #[error("`{0}` is not a file of a backup")]
    ForeignFile(SafeText),
    /// A file above the maximum size of its kind.
    #[error("{path} is larger than {most} bytes")]
    TooLarge {
        /// Path in the backup.
        path: String,
        /// Maximum size, in bytes.
        most: u64,
    },
    /// Key files in a backup without keys.
    #[error("it lists key files, but says that it has none")]
    UnannouncedKeys,
    /// A path that occurs more than once.
    #[error("it lists a file twice")]
    Twice,
}

impl BackupManifest {
    /// Checks the format and every path. Returns the paths in their order.
    ///
    /// # Errors
    /// [`ManifestFault`].
    pub(super) fn paths(&self) -> Result<Vec<BackupPath>, ManifestFault> {
        if self.format != FORMAT {
            return Err(ManifestFault::Format(self.format));
        }
        if self.files.len() > MOST_FILES {
            return Err(ManifestFault::TooManyFiles);
        }
        let mut paths: Vec<BackupPath> = Vec::new();
        for listed in &self.files {
            let path = BackupPath::parse(&listed.path)
                .ok_or_else(|| ManifestFault::ForeignFile(SafeText::clean(&listed.path, 80)))?;
            let most = if path.kind() == PathKind::Database { MOST_BYTES } else { MOST_TEXT };
            if listed.bytes > most {
                return Err(ManifestFault::TooLarge { path: path.as_str().to_owned(), most });
            }
            if path.kind() == PathKind::Key && !self.with_keys {
                return Err(ManifestFault::UnannouncedKeys);
            }
            paths.push(path);
        }
        let mut sorted = paths.clone();
        sorted.sort_unstable_by_key(|path| path.text.to_ascii_lowercase());
        // Also where a file system does not tell letters of both cases apart.
        sorted.dedup_by_key(|path| path.text.to_ascii_lowercase());
        if sorted.len() < paths.len() {
            return Err(ManifestFault::Twice);
        }
        Ok(paths)
    }
}
