//! Mark of a data folder that was restored from a backup. Two copies of one account would sign with the same nonces and
//! spend the same limits twice, so the stop of a restored copy stays at halt until the operator has confirmed that the
//! other copy is stopped.

use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{StopError, StopFile, remove_if_present};
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_base::{private, regular_file};

/// Text that confirms that the other copy is stopped.
pub const OTHER_COPY_STOPPED: &str = "the other copy is stopped";
/// Name of the file in the data folder.
const FILE: &str = "RESTORED";
/// Reason of the stop of a restored copy.
pub(super) const REASON: &str = "restored from a backup: the copy that it was made from may still be running";
/// Maximum size of the file, in bytes.
const MOST: u64 = 4 << 10;

/// Origin of a restored data folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredCopy {
    /// Time of the backup, in milliseconds since the Unix epoch.
    pub made_at: u64,
    /// Host and data folder of the backup.
    pub made_from: SafeText,
}

impl StopFile {
    fn mark(&self) -> PathBuf {
        self.path.with_file_name(FILE)
    }

    /// Raises the stop to a halt and marks the folder as a restored copy: it cannot be lowered below a halt then.
    ///
    /// # Errors
    /// [`StopError::File`] if a file cannot be written.
    pub fn begin_restored(&self, copy: &RestoredCopy, now: u64) -> Result<(), StopError> {
        let mark = serde_json::to_vec_pretty(copy).map_err(|error| self.failed(error.into()))?;
        self.raise(StopLevel::Halt, REASON, "bardo restore", now)?;
        private::replace(&self.mark(), &mark).map_err(|error| self.failed(error))
    }

    /// Origin of this data folder, if it was restored and nobody has confirmed that the other copy is stopped. A mark
    /// that cannot be read counts.
    pub fn restored(&self) -> Option<RestoredCopy> {
        match regular_file::read(&self.mark(), MOST) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).unwrap_or_default()),
            // Where no file of this name can be, none is.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename
                ) =>
            {
                None
            }
            Err(_) => Some(RestoredCopy::default()),
        }
    }

    pub(super) fn is_restored(&self) -> bool {
        self.restored().is_some()
    }

    /// The same stop after the operator's confirmation: lowering it below a halt removes the mark as well.
    ///
    /// # Errors
    /// [`StopError::NotConfirmed`] for another text.
    pub fn confirm_other_copy_stopped(&self, typed: &str) -> Result<Self, StopError> {
        match typed.trim().eq_ignore_ascii_case(OTHER_COPY_STOPPED) {
            true => Ok(Self { other_copy_stopped: true, ..self.clone() }),
            false => Err(StopError::NotConfirmed),
        }
    }

    /// Removes the mark. The caller holds the lock.
    pub(super) fn remove_mark(&self) -> std::io::Result<()> {
        remove_if_present(&self.mark())?;
        match self.path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}
