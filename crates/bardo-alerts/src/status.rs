//! State of the channels on disk, so that `bardo doctor` and `bardo alerts list` can show it while a session runs and
//! afterwards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use bardo_base::text::SafeText;
use bardo_base::{private, regular_file};

/// Name of the file in the data directory.
const NAME: &str = "alerts.json";
/// Maximum size of the file, in bytes.
const MOST: u64 = 64 << 10;

/// State of a channel at its last attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Time of the last delivered alert, in milliseconds since the Unix epoch; `None` for none yet.
    pub delivered_at: Option<u64>,
    /// Time since which no attempt has succeeded, in milliseconds since the Unix epoch; `None` if the last one did.
    pub failing_since: Option<u64>,
    /// Error of the last attempt; empty if it succeeded.
    pub why: SafeText,
    /// Number of alerts that the last session gave up.
    pub lost: u64,
}

/// File with the state of every channel.
#[derive(Debug, Clone)]
pub struct StatusFile(PathBuf);

impl StatusFile {
    /// File in a data directory.
    pub fn in_data(data: &Path) -> Self {
        Self(data.join(NAME))
    }

    /// State of every channel by its name; empty if no session has written it, or if the file cannot be read.
    pub fn read(&self) -> BTreeMap<String, ChannelStatus> {
        let read = regular_file::read(&self.0, MOST).ok();
        read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// The operating system's error.
    pub(crate) fn write(&self, channels: &BTreeMap<String, ChannelStatus>) -> std::io::Result<()> {
        private::replace(&self.0, &serde_json::to_vec(channels)?)
    }
}
