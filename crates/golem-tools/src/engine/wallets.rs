//! Wallets and the policy file of this machine, as tools with the scope `admin:wallet` reach them. Only the operator's own
//! command has that scope: no agent and no running session does, so that none can give itself another wallet or policy.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use alloy::primitives::Address;
use futures::future::BoxFuture;

use bardo_base::error::ToolError;
use bardo_safety::policy::{FieldChange, Policy};
use golem_chain::network::Network;

/// Kind of a new wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewWallet {
    /// Key in an encrypted file of this machine.
    Local,
    /// Wallet on the wallet server of the configured account, with the policies of its wallet there.
    Server,
}

/// Wallet that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvisionedWallet {
    /// Name of its key file, which `--key` selects.
    pub name: String,
    /// Address of the wallet.
    pub address: Address,
    /// Number of policies that a wallet server enforces on it; `None` for a key file.
    pub server_policies: Option<usize>,
}

/// New content of the policy file.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyDraft {
    /// Text of the file.
    pub text: String,
    /// The same text, parsed.
    pub policy: Arc<Policy>,
    /// Short description, such as the template's name.
    pub title: String,
}

/// Policy file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenPolicy {
    /// Path of the file.
    pub file: PathBuf,
    /// File with the previous policy.
    pub previous: PathBuf,
    /// Differences from the policy that was in force.
    pub changes: Vec<FieldChange>,
    /// Differences that wait for `bardo policy accept`; empty if the whole file is in force.
    pub waiting: Vec<FieldChange>,
}

/// Access to the wallets and the policy file with the scope `admin:wallet`.
pub trait WalletAdministration: Send + Sync + fmt::Debug {
    /// Returns the kind of wallet that the configured account has, which a new one gets by default.
    ///
    /// # Errors
    /// `WALLET_NOT_CONFIGURED` for an account that does not exist.
    fn usual(&self) -> Result<NewWallet, ToolError>;

    /// Creates a wallet, after the operator gave the password of its key file. Without a label it gets the next free name.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` on a devnet, `SAFETY_RATE_LIMITED` above five wallets in an hour, `VALIDATION_FAILED` for an
    /// invalid or used name, `APPROVAL_REQUIRED` and `APPROVAL_REFUSED` without the password, and the errors of the key
    /// file and of the wallet server.
    fn provision<'a>(
        &'a self,
        network: &'a Network,
        kind: NewWallet,
        label: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ProvisionedWallet, ToolError>>;

    /// Writes the policy file, after the operator confirmed each changed line. The previous text is kept beside it.
    ///
    /// # Errors
    /// `APPROVAL_REQUIRED` and `APPROVAL_REFUSED` without the confirmation, and `STORE_UNAVAILABLE` if the file cannot be
    /// read or written.
    fn write_policy(&self, draft: PolicyDraft) -> BoxFuture<'_, Result<WrittenPolicy, ToolError>>;
}
