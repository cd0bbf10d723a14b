//! Locations of the configuration file and the data directory: under `BARDO_HOME` if set, else the platform's defaults.

use std::path::{Path, PathBuf};

use directories::ProjectDirs;

use super::{ConfigError, Environment};

/// Locations of the configuration and the data, as absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigPaths {
    /// Path of the configuration file.
    pub config_file: PathBuf,
    /// Data directory: logs, keys and ledgers.
    pub data_dir: PathBuf,
}

impl ConfigPaths {
    /// Returns `$BARDO_HOME/config.toml` and `$BARDO_HOME/data`, or the platform's defaults (XDG on Linux). The
    /// configuration may move the data directory elsewhere.
    ///
    /// # Errors
    /// [`ConfigError::NoHome`] if neither `BARDO_HOME` nor a home directory exists; [`ConfigError::Environment`] if
    /// `BARDO_HOME` is not a usable path.
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

/// Makes a path absolute, relative to the current directory.
pub(super) fn absolute(given: &str) -> Result<PathBuf, PathError> {
    Ok(std::path::absolute(Path::new(given))?)
}
