//! Keys, and the accounts that sign with them: the one place where a secret meets something to be signed, and it signs
//! nothing but what a [`Capability`](crate::Capability) carries.
//!
//! | file | holds |
//! |---|---|
//! | `secret` | passwords, keys and mnemonics on their way in |
//! | `keystore` | encrypted key files (web3 secret storage, version 3) |
//! | `binding` | which ledger a key file belongs to |
//! | `signing` | typed messages, then the transaction; the only signatures made for a user |
//! | `local` | an account of a key file |
//! | `development` | the well-known mnemonic, on devnets of this machine only |
//! | `reauthentication` | checks a key's password again before more is let through, with limits on guessing |
//! | `revocable` | an account whose hands can be taken away for good |
//! | `delegated` | a session key that acts for an owner under on-chain caveats |
//!
//! Not here: what may be signed (see `safety`), and how it reaches a chain (see `chain::sender`).

pub mod binding;
pub mod delegated;
pub mod development;
pub mod keystore;
pub mod local;
pub mod reauthentication;
pub mod revocable;
pub mod secret;
mod signing;
#[cfg(test)]
mod tests;

pub use binding::{BadLedgerId, LedgerId};
pub use delegated::DelegatedAccount;
pub use development::{DevelopmentAccount, NotForDevelopment};
pub use keystore::{KeyEntry, KeyName, Keystore, KeystoreError, Listed};
pub use local::LocalAccount;
pub use reauthentication::{Reauthentication, ReauthenticationError};
pub use revocable::{RevocableAccount, Revocation};
pub use secret::{SecretError, SecretKey, for_a_new_key};

use bardo_base::error::{ErrorCode, ToolError};

/// What a write answers where there is no account.
pub fn no_account() -> ToolError {
    ToolError::new(ErrorCode::WalletNotConfigured, "there is no account here that could sign")
}
