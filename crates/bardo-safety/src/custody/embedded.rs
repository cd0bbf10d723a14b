//! Account whose key is on a wallet server. The server gets the content of a capability and returns signatures, which
//! count only if they are over exactly that content, byte by byte, by the account's own key.
//!
//! The server is not trusted with what is signed, but it has the key: it can sign whatever it likes without being asked.
//! Policies on the server, and the balance of the wallet, bound that; nothing here can.
//!
//! Not here: the transport (see `bardo-runtime`), and which server has which key (see `keystore::server`).

use std::fmt;
use std::sync::Arc;

use alloy::consensus::{TxEip1559, TxEnvelope};
use alloy::dyn_abi::TypedData;
use alloy::primitives::{Address, Bytes, Signature};
use futures::future::BoxFuture;

use super::keystore::{ServerCredential, ServerWallet};
use super::local::frame_plain;
use super::secret::SecretKey;
use super::signing;
use crate::pipeline::{Order, OrderToSign, ToSign};
use crate::proposal::{Proposal, SIGNATURE_BYTES};
use crate::queue_key::QueueKey;
use crate::typed::TypedMessage;
use crate::{Account, AccountKind, Capability, PayloadContext, PayloadError, SignError, SigningPayload};
use bardo_base::signer::signer_of;
use bardo_base::text::SafeText;
use golem_chain::signed::SignedTransaction;

/// Connection to a wallet server, for one wallet.
pub trait WalletServer: fmt::Debug + Send + Sync {
    /// Asks for a signature. Returns the 65 bytes of a signature over typed data, or the EIP-2718 encoding of a signed
    /// transaction, as the server gave them: the caller checks them.
    ///
    /// # Errors
    /// [`ServerFault`].
    fn sign<'a>(&'a self, content: ServerContent<'a>) -> BoxFuture<'a, Result<Bytes, ServerFault>>;
}

/// Content for a wallet server to sign.
#[derive(Debug, Clone, Copy)]
pub enum ServerContent<'a> {
    /// Typed data ([EIP-712](https://eips.ethereum.org/EIPS/eip-712)).
    Typed(&'a TypedData),
    /// An EIP-1559 transaction without its signature.
    Transaction(&'a TxEip1559),
}

/// Reason for which a wallet server gave no signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// The server refused, for example by a policy of its own. Nothing was signed.
    #[error("{0}")]
    Refused(SafeText),
    /// The server was not reached, or is not serving now. Nothing was signed.
    #[error("{0}")]
    Unavailable(SafeText),
    /// The request was sent, and no answer that can be read came back: it may have been signed.
    #[error("{0}")]
    Unclear(SafeText),
}

impl From<ServerFault> for SignError {
    fn from(fault: ServerFault) -> Self {
        match fault {
            ServerFault::Refused(why) => Self::ServerRefused(why),
            ServerFault::Unavailable(why) => Self::ServerUnavailable(why),
            ServerFault::Unclear(why) => Self::Unclear(why.to_string()),
        }
    }
}

/// Opened credential of a wallet, with the secret that authenticates its account's rows in the ledger.
pub struct ServerKey {
    wallet: ServerWallet,
    credential: ServerCredential,
    secret: SecretKey,
}

impl ServerKey {
    pub(super) fn new(wallet: ServerWallet, credential: ServerCredential, secret: SecretKey) -> Self {
        Self { wallet, credential, secret }
    }

    /// Wallet on the server.
    pub fn wallet(&self) -> &ServerWallet {
        &self.wallet
    }

    /// Credential of the server.
    pub fn credential(&self) -> &ServerCredential {
        &self.credential
    }
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerKey").field("wallet", &self.wallet).finish_non_exhaustive()
    }
}

/// Account of a wallet server: connected, or known by its address only, which is enough for previews.
pub struct EmbeddedAccount {
    address: Address,
    open: Option<(Arc<ServerKey>, Arc<dyn WalletServer>)>,
}

impl EmbeddedAccount {
    /// Creates an account without its credential. It can prepare payloads but not sign.
    pub fn locked(address: Address) -> Self {
        Self { address, open: None }
    }

    /// Creates an account that signs through `server`.
    pub fn connected(key: Arc<ServerKey>, server: Arc<dyn WalletServer>) -> Self {
        Self { address: key.wallet.address, open: Some((key, server)) }
    }

    /// Key that authenticates rows of `account`, for which this key acts; `None` while the account is locked.
    pub(super) fn queue_key_of(&self, ledger: &str, account: Address) -> Option<QueueKey> {
        self.open.as_ref().map(|(key, _)| QueueKey::derive(key.secret.expose(), ledger, account))
    }

    fn server(&self) -> Result<&dyn WalletServer, SignError> {
        match &self.open {
            Some((_, server)) => Ok(server.as_ref()),
            None => Err(SignError::Locked("the credential of its wallet server was not opened".into())),
        }
    }

    /// Signs the content of a capability: each message at its offset in the calldata, then the transaction that
    /// contains it.
    pub(super) async fn sign_parts(&self, to_sign: &ToSign) -> Result<SignedTransaction, SignError> {
        let server = self.server()?;
        signing::check(to_sign, self.address)?;
        let mut data = to_sign.transaction.data.to_vec();
        for slot in &to_sign.transaction.slots {
            let place = signing::place(&mut data, slot, self.address)?;
            place.copy_from_slice(&self.sign_message(server, &slot.message, to_sign.chain_id).await?);
        }
        let unsigned = signing::unsigned(to_sign, data);
        let raw = server.sign(ServerContent::Transaction(&unsigned)).await?;
        let signed = SignedTransaction::decode(&raw)
            .map_err(|_| SignError::Unclear("it returned bytes that are no signed transaction".into()))?;
        let is_asked = matches!(signed.transaction(), TxEnvelope::Eip1559(found) if *found.tx() == unsigned);
        // A signature over something else exists. What was asked may have been signed as well.
        if !is_asked {
            return Err(SignError::Unclear("it returned another transaction than it was asked to sign".into()));
        }
        if signed.from() != self.address {
            return Err(SignError::Unclear(format!("it signed with the key of {}", signed.from())));
        }
        Ok(signed)
    }

    pub(super) async fn sign_order_parts(&self, to_sign: &OrderToSign) -> Result<Bytes, SignError> {
        let server = self.server()?;
        signing::check_order(to_sign, self.address)?;
        Ok(self.sign_message(server, &to_sign.message, to_sign.chain_id).await?.into())
    }

    /// Returns the server's signature over a message as `r ‖ s ‖ v` with v 27 or 28.
    async fn sign_message(
        &self,
        server: &dyn WalletServer,
        message: &TypedMessage,
        chain_id: u64,
    ) -> Result<[u8; SIGNATURE_BYTES], SignError> {
        let typed = message
            .typed_data(chain_id)
            .ok_or_else(|| SignError::Refused(format!("a {} cannot be written as typed data", message.kind())))?;
        let given = server.sign(ServerContent::Typed(&typed)).await?;
        let signature = Signature::from_raw(&given).ok().filter(|signature| signature.normalize_s().is_none());
        let signature =
            signature.ok_or_else(|| SignError::Unclear("it returned bytes that are no signature".into()))?;
        // The hash is of the message that was checked, not of what the server says that it signed.
        match signer_of(&signature, &message.digest(chain_id)) {
            Some(signer) if signer == self.address => Ok(signature.as_bytes()),
            _ => Err(SignError::Unclear("its signature is not by the account over the message that was asked".into())),
        }
    }
}

impl Account for EmbeddedAccount {
    fn address(&self) -> Address {
        self.address
    }

    fn signer(&self) -> Address {
        self.address()
    }

    fn kind(&self) -> AccountKind {
        AccountKind::Embedded
    }

    fn queue_key(&self, ledger: &str) -> Option<QueueKey> {
        self.queue_key_of(ledger, self.address)
    }

    fn prepare_payload(&self, proposal: Proposal, context: &PayloadContext) -> Result<SigningPayload, PayloadError> {
        frame_plain(self.address, AccountKind::Embedded, proposal, context)
    }

    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<SignedTransaction, SignError>> {
        Box::pin(async move { self.sign_parts(&capability.into_parts()).await })
    }

    fn sign_order(&self, capability: Capability<Order>) -> BoxFuture<'_, Result<Bytes, SignError>> {
        Box::pin(async move { self.sign_order_parts(&capability.into_parts()).await })
    }
}

impl fmt::Debug for EmbeddedAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedAccount")
            .field("address", &self.address)
            .field("connected", &self.open.is_some())
            .finish()
    }
}
