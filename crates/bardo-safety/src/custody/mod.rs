//! Keys, and the accounts that sign with them. Only this module uses secrets to sign, and it signs only the content of
//! a [`Capability`](crate::Capability).
//!
//! | file | contents |
//! |---|---|
//! | `secret` | input of passwords, keys and mnemonics |
//! | `keystore` | encrypted key files (web3 secret storage, version 3) |
//! | `binding` | binding of a key file to its ledger |
//! | `signing` | signatures of typed messages and transactions; no user signature is made elsewhere in Bardo |
//! | `local` | account of a key file |
//! | `development` | the public development mnemonic, on devnets of this machine only |
//! | `reauthentication` | password check before a relaxing command, with limits on guessing |
//! | `revocable` | account that can be disabled permanently |
//! | `embedded` | account whose key is on a wallet server, with the check of what the server returns |
//! | `delegated` | session key that acts for an owner under on-chain caveats |
//! | `session_keys` | records of session keys in the ledger, and their checks before each signature |
//! | `safe` | a Safe that acts through the key of an owner |
//! | `inner_call` | calls as an account makes them, out of the wrapper of a Safe or a session key |
//!
//! Not here: the decision to sign (see `pipeline`), and the transport to a chain (see `golem_chain::sender`).

pub mod binding;
pub mod delegated;
pub mod development;
pub mod embedded;
pub mod inner_call;
pub mod keystore;
pub mod local;
pub mod reauthentication;
pub mod revocable;
pub mod safe;
pub mod secret;
pub mod session_keys;
mod signing;
#[cfg(test)]
mod tests;

pub use binding::{LedgerId, LedgerIdError};
pub use delegated::DelegatedAccount;
pub use development::{DevelopmentAccount, NotDevelopmentChain};
pub use embedded::{EmbeddedAccount, ServerContent, ServerFault, ServerKey, WalletServer};
pub use inner_call::InnerCall;
pub use keystore::{
    KeyEntry, KeyName, Keystore, KeystoreError, ListedKey, ServerCredential, ServerEnrolment, ServerWallet,
    ServerWalletError, SignedEnrolment,
};
pub use local::LocalAccount;
pub use reauthentication::{Reauthentication, ReauthenticationError};
pub use revocable::{RevocableAccount, RevocationSwitch};
pub use safe::{SafeAccount, SafeOwnerKey, SafeRefusal, SafeState};
pub use secret::{SHORTEST_PASSWORD, SecretError, SecretKey, for_a_new_key};
pub use session_keys::{SessionKeeper, SessionKeyId, SessionRefusal};

use bardo_base::error::{ErrorCode, ToolError};

/// Returns the error of a write without an account.
pub fn no_account() -> ToolError {
    ToolError::new(ErrorCode::WalletNotConfigured, "no account is set up that can sign")
}
