//! Accounts of the development mnemonic. Their keys are public, so they sign only for chains 31337 and 31338, in this
//! process or on this machine. Every other chain is rejected, both at setup and when signing.

use std::fmt;

use alloy::primitives::{Address, Bytes};
use futures::future::BoxFuture;

use super::local::frame_plain;
use super::secret::{SecretError, SecretKey};
use super::signing::SigningKey;
use crate::pipeline::{Order, OrderToSign, SafeToSign, ToSign};
use crate::proposal::Proposal;
use crate::{Account, AccountKind, Capability, PayloadContext, PayloadError, SignError, SigningPayload};
use golem_chain::devnet::MNEMONIC;
use golem_chain::network::{DEVNET_BASE, DEVNET_ETHEREUM, NetworkKind};
use golem_chain::provider::{ChainClient, ClientBackend};
use golem_chain::signed::SignedTransaction;

/// Account of the development mnemonic.
pub struct DevelopmentAccount {
    key: SigningKey,
}

/// Reason for which the development key must not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDevelopmentChain {
    /// A chain is not a devnet.
    #[error(
        "the development key signs for chains 31337 and 31338 only, not for {name} ({chain_id}): it is publicly known"
    )]
    Chain {
        /// Name of the chain.
        name: String,
        /// EIP-155 id of the chain.
        chain_id: u64,
    },
    /// A devnet is on another machine.
    #[error("the development key works only in this process and on loopback, but {name} is remote")]
    Elsewhere {
        /// Name of the chain.
        name: String,
    },
    /// No chain was given.
    #[error("no chain is connected that the development key can sign for")]
    NoChain,
    /// The account index is too high.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

impl DevelopmentAccount {
    /// Creates account number `index` of the development mnemonic, for use on `chains`.
    ///
    /// # Errors
    /// [`NotDevelopmentChain`] if any of the chains is not a devnet on this machine. A single real chain makes the key
    /// unavailable on all of them.
    pub fn new<'a>(index: u32, chains: impl IntoIterator<Item = &'a ChainClient>) -> Result<Self, NotDevelopmentChain> {
        let mut any = false;
        for client in chains {
            any = true;
            let network = client.network();
            if !is_devnet(client.chain_id()) || network.kind != NetworkKind::Devnet {
                return Err(NotDevelopmentChain::Chain { name: network.name.clone(), chain_id: client.chain_id() });
            }
            let here = match client.backing() {
                ClientBackend::Devnet(_) => true,
                // Local only if every endpoint is on loopback.
                ClientBackend::Endpoints(_) => alloy::providers::Provider::client(client.provider()).is_local(),
            };
            if !here {
                return Err(NotDevelopmentChain::Elsewhere { name: network.name.clone() });
            }
        }
        if !any {
            return Err(NotDevelopmentChain::NoChain);
        }
        let secret = SecretKey::from_mnemonic(MNEMONIC, index)?;
        Ok(Self { key: SigningKey::new(&secret).ok_or(SecretError::OutOfRange)? })
    }

    pub(super) fn sign_parts(&self, to_sign: &ToSign) -> Result<SignedTransaction, SignError> {
        if !is_devnet(to_sign.chain_id) {
            return Err(SignError::Refused("the development key signs for chains 31337 and 31338 only".into()));
        }
        self.key.sign(to_sign)
    }

    pub(super) fn sign_safe_parts(&self, to_sign: &SafeToSign) -> Result<Bytes, SignError> {
        if !is_devnet(to_sign.transaction.chain_id) {
            return Err(SignError::Refused("the development key signs for chains 31337 and 31338 only".into()));
        }
        self.key.sign_safe(to_sign)
    }

    pub(super) fn sign_order_parts(&self, to_sign: &OrderToSign) -> Result<Bytes, SignError> {
        if !is_devnet(to_sign.chain_id) {
            return Err(SignError::Refused("the development key signs for chains 31337 and 31338 only".into()));
        }
        self.key.sign_order(to_sign)
    }
}

/// Returns true for a devnet's chain id, which no real chain has.
const fn is_devnet(chain_id: u64) -> bool {
    matches!(chain_id, DEVNET_ETHEREUM | DEVNET_BASE)
}

impl Account for DevelopmentAccount {
    fn address(&self) -> Address {
        self.key.address()
    }

    fn signer(&self) -> Address {
        self.address()
    }

    fn kind(&self) -> AccountKind {
        AccountKind::DevelopmentKey
    }

    fn prepare_payload(&self, proposal: Proposal, context: &PayloadContext) -> Result<SigningPayload, PayloadError> {
        if !is_devnet(proposal.chain_id) {
            return Err(PayloadError::WrongChain {
                chain_id: proposal.chain_id,
                why: "the development key is publicly known; it signs for the devnet's chains 31337 and 31338 only"
                    .into(),
            });
        }
        frame_plain(self.key.address(), AccountKind::DevelopmentKey, proposal, context)
    }

    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<SignedTransaction, SignError>> {
        Box::pin(async move { self.sign_parts(&capability.into_parts()) })
    }

    fn sign_order(&self, capability: Capability<Order>) -> BoxFuture<'_, Result<Bytes, SignError>> {
        Box::pin(async move { self.sign_order_parts(&capability.into_parts()) })
    }
}

impl fmt::Debug for DevelopmentAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevelopmentAccount").field("address", &self.key.address()).finish()
    }
}
