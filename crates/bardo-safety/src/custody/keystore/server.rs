//! Wallet server that has a key: where it is, which wallet, and the credential that it asks for.

use std::fmt;

use alloy::dyn_abi::TypedData;
use alloy::primitives::{Address, Bytes, Signature};
use alloy::sol_types::{Eip712Domain, SolStruct as _, eip712_domain};

use crate::custody::binding::LedgerId;
use crate::custody::secret::{Password, SecretError, SecretKey};
use crate::custody::signing::SigningKey;
use bardo_base::config::{RpcUrl, RpcUrlError};
use bardo_base::signer::signer_of;
use bardo_base::text::SafeText;
use golem_chain::typed_data::typed_data;

alloy::sol! {
    /// Statement of a wallet that a file with this key of its own decides for it in a ledger. Without it, a
    /// process that can write files could claim a wallet's address, and decide for it with a password of its own.
    struct WalletServerKeyFile {
        address wallet;
        address key;
        string ledger;
    }
}

/// Maximum length of an id, in characters.
const LONGEST_ID: usize = 100;

/// Maximum length of a credential, in bytes.
const LONGEST_CREDENTIAL: usize = 512;

/// A wallet on a wallet server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerWallet {
    /// Base URL of the server: https, or this machine.
    pub url: RpcUrl,
    /// Id of the application that the server knows us as.
    pub app_id: String,
    /// Id of the wallet.
    pub wallet_id: String,
    /// Address of the wallet.
    pub address: Address,
}

/// Reason for which a wallet server cannot be named so. The texts of the caller are not repeated, except ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerWalletError {
    /// The URL is not one.
    #[error("the wallet server's URL: {0}")]
    Url(#[from] RpcUrlError),
    /// The URL is neither encrypted nor on this machine.
    #[error("the wallet server's URL must begin with https://, because the credential is sent to it")]
    Unencrypted,
    /// The URL carries a credential, a query or a fragment.
    #[error("the wallet server's URL must have no login, query or fragment: the credential is asked for separately")]
    Extras,
    /// The id has other characters.
    #[error("`{0}` is not an id of a wallet server: use 1 to {LONGEST_ID} letters, digits, `-` and `_`")]
    Id(SafeText),
    /// The wallet did not sign that the file is its own.
    #[error("the wallet server's signature is not by {0} over the statement that the file is its own")]
    NotItsOwn(Address),
    /// The statement cannot be made.
    #[error("the wallet's statement cannot be written as typed data")]
    Statement,
    /// No secret could be made.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The credential is not one line of visible characters.
    #[error("the credential must be one line of 1 to {LONGEST_CREDENTIAL} ASCII letters, digits and signs")]
    Credential,
}

impl ServerWallet {
    /// Checks where a wallet is. Its address is zero until [`Self::of`] gives it one.
    ///
    /// # Errors
    /// [`ServerWalletError`].
    pub fn parse(url: &str, app_id: &str, wallet_id: &str) -> Result<Self, ServerWalletError> {
        let url = RpcUrl::parse(url)?;
        let plain = url.expose();
        if !(plain.scheme() == "https" || plain.scheme() == "http" && url.is_loopback()) {
            return Err(ServerWalletError::Unencrypted);
        }
        let is_bare = plain.username().is_empty() && plain.password().is_none();
        if !is_bare || plain.query().is_some() || plain.fragment().is_some() {
            return Err(ServerWalletError::Extras);
        }
        for id in [app_id, wallet_id] {
            let fits = (1..=LONGEST_ID).contains(&id.len())
                && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
            if !fits {
                return Err(ServerWalletError::Id(SafeText::clean(id, LONGEST_ID)));
            }
        }
        let (app_id, wallet_id) = (app_id.to_owned(), wallet_id.to_owned());
        Ok(Self { url, app_id, wallet_id, address: Address::ZERO })
    }

    /// The same wallet with its address.
    #[must_use]
    pub fn of(self, address: Address) -> Self {
        Self { address, ..self }
    }
}

/// Credential of a wallet server, wiped from memory on drop. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerCredential(Password);

impl ServerCredential {
    /// Checks a credential as the server gave it.
    ///
    /// # Errors
    /// [`ServerWalletError::Credential`].
    pub fn new(text: Password) -> Result<Self, ServerWalletError> {
        let bytes = text.expose();
        let fits = (1..=LONGEST_CREDENTIAL).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
        if fits { Ok(Self(text)) } else { Err(ServerWalletError::Credential) }
    }

    /// Bytes of the credential, for requests to its server: ASCII.
    pub fn expose(&self) -> &[u8] {
        self.0.expose()
    }
}

impl fmt::Debug for ServerCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerCredential(…)")
    }
}

/// A new file's own secret, and the statement that its wallet signs.
pub struct ServerEnrolment {
    secret: SecretKey,
    key: Address,
    wallet: Address,
    ledger: LedgerId,
}

/// Enrolment with the wallet's signature.
pub struct SignedEnrolment {
    pub(super) secret: SecretKey,
    pub(super) key: Address,
    pub(super) wallet: Address,
    pub(super) ledger: LedgerId,
    pub(super) signature: Signature,
}

impl ServerEnrolment {
    /// Makes the secret of a file for `wallet` in `ledger`.
    ///
    /// # Errors
    /// [`ServerWalletError::Secret`] without randomness.
    pub fn new(wallet: Address, ledger: LedgerId) -> Result<Self, ServerWalletError> {
        let secret = SecretKey::generate()?;
        let key = SigningKey::new(&secret).ok_or(SecretError::OutOfRange)?.address();
        Ok(Self { secret, key, wallet, ledger })
    }

    /// The statement for the wallet to sign.
    ///
    /// # Errors
    /// [`ServerWalletError::Statement`].
    pub fn statement(&self) -> Result<TypedData, ServerWalletError> {
        typed_data(&statement(self.wallet, self.key, &self.ledger), domain()).ok_or(ServerWalletError::Statement)
    }

    /// Takes the wallet's signature.
    ///
    /// # Errors
    /// [`ServerWalletError::NotItsOwn`] for any other.
    pub fn signed(self, signature: &Bytes) -> Result<SignedEnrolment, ServerWalletError> {
        let Self { secret, key, wallet, ledger } = self;
        let found = Signature::from_raw(signature).ok().filter(|found| is_own(wallet, key, &ledger, found));
        let signature = found.ok_or(ServerWalletError::NotItsOwn(wallet))?;
        Ok(SignedEnrolment { secret, key, wallet, ledger, signature })
    }
}

/// True if `wallet` has signed that the file with the key `key` decides for it in `ledger`.
pub(super) fn is_own(wallet: Address, key: Address, ledger: &LedgerId, signature: &Signature) -> bool {
    let hash = statement(wallet, key, ledger).eip712_signing_hash(&domain());
    signer_of(signature, &hash) == Some(wallet)
}

fn statement(wallet: Address, key: Address, ledger: &LedgerId) -> WalletServerKeyFile {
    WalletServerKeyFile { wallet, key, ledger: ledger.to_string() }
}

/// Without chain and contract: no contract accepts the statement.
fn domain() -> Eip712Domain {
    eip712_domain! {
        name: "Bardo",
        version: "1",
    }
}
