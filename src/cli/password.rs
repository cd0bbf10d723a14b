//! Password prompts for commands that permit more.

use super::{CliExit, CommandFailure, secret};
use bardo_base::secret::Password;
use bardo_safety::custody::{KeyName, KeystoreError, Reauthentication, ReauthenticationError};
use bardo_safety::operator_proof::Authorisation;

/// Returns the passwords that `wanted` requires, from descriptor `fd` with one line per key in order of name, or from
/// prompts. Empty if it requires none.
pub(super) fn ask(
    gate: &Reauthentication,
    wanted: &Authorisation,
    devnet: bool,
    fd: Option<u32>,
) -> Result<Vec<(KeyName, Password)>, CommandFailure> {
    let keys = gate.keys_for(wanted, devnet).map_err(refused)?;
    let asked: Vec<String> = keys.iter().map(|key| format!("password of the key {}", key.name)).collect();
    let texts = secret::read_all(fd, &asked)?;
    Ok(keys.into_iter().map(|key| key.name).zip(texts.into_iter().map(|text| secret::password(&text))).collect())
}

/// Converts a rejected proof into the command's failure.
pub(super) fn refused(error: ReauthenticationError) -> CommandFailure {
    let exit = match error {
        ReauthenticationError::Key(KeystoreError::Password { .. }) | ReauthenticationError::Missing { .. } => {
            CliExit::Rejected
        }
        ReauthenticationError::TooMany { .. } | ReauthenticationError::NoKeyOf { .. } => CliExit::Blocked,
        ReauthenticationError::Key(_) | ReauthenticationError::Attempts { .. } | ReauthenticationError::Interrupted => {
            CliExit::Error
        }
    };
    CommandFailure { exit, error: error.into() }
}
