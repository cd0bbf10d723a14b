//! Where things are kept: under `BARDO_HOME` if it is set, else where the platform puts them.

use std::path::{Path, PathBuf};

use directories::ProjectDirs;

use super::{ConfigError, Environment};

/// Files and folders, all absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The configuration file.
    pub config_file: PathBuf,
    /// The data folder: logs, keys and ledgers.
    pub data_dir: PathBuf,
}

impl Paths {
    /// `$BARDO_HOME/config.toml` and `$BARDO_HOME/data`, or the platform's own (XDG on Linux). The configuration may
    /// move the data folder elsewhere.
    ///
    /// # Errors
    /// [`ConfigError::NoHome`] where there is neither.
    pub fn find(environment: &Environment) -> Result<Self, ConfigError> {
        if let Some(home) = environment.get("BARDO_HOME") {
            let home = absolute(home)
                .map_err(|error| ConfigError::Environment { name: "BARDO_HOME".into(), reason: error.to_string() })?;
            return Ok(Self { config_file: home.join("config.toml"), data_dir: home.join("data") });
        }
        let dirs = ProjectDirs::from("", "", "bardo").ok_or(ConfigError::NoHome)?;
        Ok(Self { config_file: dirs.config_dir().join("config.toml"), data_dir: dirs.data_local_dir().to_owned() })
    }
}

/// A path that cannot be made absolute.
#[derive(Debug, thiserror::Error)]
#[error("not a usable path: {0}")]
pub(super) struct PathError(#[from] std::io::Error);

/// A folder as given, made absolute against the current one.
pub(super) fn absolute(given: &str) -> Result<PathBuf, PathError> {
    Ok(std::path::absolute(Path::new(given))?)
}
