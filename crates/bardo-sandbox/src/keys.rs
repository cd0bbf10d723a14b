//! Keys of the devnet's actors and development accounts. They are public, so each of them signs for the devnet's two
//! chains only.
//!
//! Not here: users' keys (see `custody`).

use alloy::consensus::{SignableTransaction, TxEip1559, TxEip7702, TxEnvelope};
use alloy::eips::eip2718::Encodable2718 as _;
use alloy::eips::eip7702::Authorization;
use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::providers::Provider as _;
use alloy_signer::SignerSync;
use alloy_signer_local::{MnemonicBuilder, PrivateKeySigner};

pub use golem_chain::devnet::MNEMONIC;
use golem_chain::provider::{ChainClient, ProviderError};

/// Chain ids that a sandbox key signs for: the devnet's `ethereum` and `base`.
pub const SANDBOX_CHAIN_IDS: [u64; 2] = [31337, 31338];

/// Number of accounts of [`MNEMONIC`] that the devnet funds.
pub const DEVELOPMENT_ACCOUNTS: usize = 10;

/// Error of a devnet key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The transaction is for a chain that is not the devnet's.
    #[error("a devnet key signs for chains 31337 and 31338 only, not for chain {0}")]
    ForeignChain(u64),
    /// The key could not be derived from the mnemonic.
    #[error("a devnet key could not be derived: {0}")]
    Derivation(#[from] alloy_signer_local::LocalSignerError),
    /// The hash of a label is not a valid key.
    #[error("the label {0:?} does not give a valid key: choose another")]
    Label(String),
    /// The signature could not be made.
    #[error("a devnet transaction could not be signed: {0}")]
    Signing(#[from] alloy_signer::Error),
}

/// An account on the devnet with its key.
#[derive(Clone)]
pub struct DevnetAccount {
    signer: PrivateKeySigner,
}

impl DevnetAccount {
    /// Derives the actor's key from its label. It is the same on every devnet, so addresses do not depend on the seed.
    ///
    /// # Errors
    /// [`KeyError::Label`] if the label gives no valid key.
    pub fn inhabitant(label: &'static str) -> Result<Self, KeyError> {
        let secret = keccak256(format!("bardo devnet inhabitant: {label}"));
        let signer = PrivateKeySigner::from_bytes(&secret).map_err(|_| KeyError::Label(label.to_owned()))?;
        Ok(Self { signer })
    }

    /// Derives the key of an account around the devnet's agents (see `agents`): an owner, wallet, client or validator.
    ///
    /// # Errors
    /// [`KeyError::Label`] if `key` gives no valid key.
    pub(super) fn agent(key: &str) -> Result<Self, KeyError> {
        let secret = keccak256(format!("bardo devnet agents: {key}"));
        let signer = PrivateKeySigner::from_bytes(&secret).map_err(|_| KeyError::Label(key.to_owned()))?;
        Ok(Self { signer })
    }

    /// The first [`DEVELOPMENT_ACCOUNTS`] accounts of [`MNEMONIC`], at m/44'/60'/0'/0/i.
    ///
    /// # Errors
    /// [`KeyError::Derivation`] if a key cannot be derived.
    pub fn development_accounts() -> Result<Vec<Self>, KeyError> {
        let parent = MnemonicBuilder::from_phrase(MNEMONIC).build_parent_key()?;
        let accounts: Result<Vec<_>, _> = parent.children().take(DEVELOPMENT_ACCOUNTS).collect();
        Ok(accounts?.into_iter().map(|signer| Self { signer }).collect())
    }

    /// Address of the account.
    pub fn address(&self) -> Address {
        self.signer.address()
    }

    /// Signs a transaction for one of the devnet's chains.
    ///
    /// # Errors
    /// [`KeyError::ForeignChain`] for another chain, or [`KeyError::Signing`].
    pub fn sign(&self, transaction: TxEip1559) -> Result<TxEnvelope, KeyError> {
        if !SANDBOX_CHAIN_IDS.contains(&transaction.chain_id) {
            return Err(KeyError::ForeignChain(transaction.chain_id));
        }
        let signature = self.signer.sign_hash_sync(&transaction.signature_hash())?;
        Ok(transaction.into_signed(signature).into())
    }

    /// Signs a transaction that gives this account the code of `implementation` (EIP-7702), for one of the devnet's
    /// chains. The authorisation takes the nonce after the transaction's.
    ///
    /// # Errors
    /// [`KeyError::ForeignChain`] for another chain, or [`KeyError::Signing`].
    pub fn sign_with_code(&self, transaction: TxEip7702, implementation: Address) -> Result<TxEnvelope, KeyError> {
        let TxEip7702 { chain_id, nonce, .. } = transaction;
        if !SANDBOX_CHAIN_IDS.contains(&chain_id) {
            return Err(KeyError::ForeignChain(chain_id));
        }
        let nonce = nonce.saturating_add(1);
        let authorization = Authorization { chain_id: U256::from(chain_id), address: implementation, nonce };
        let consent = self.signer.sign_hash_sync(&authorization.signature_hash())?;
        let transaction = TxEip7702 { authorization_list: vec![authorization.into_signed(consent)], ..transaction };
        let signature = self.signer.sign_hash_sync(&transaction.signature_hash())?;
        Ok(transaction.into_signed(signature).into())
    }

    /// Signs a digest for one of the devnet's chains; the signature is r, s, and v of 27 or 28.
    ///
    /// # Errors
    /// [`KeyError::ForeignChain`] for another chain, or [`KeyError::Signing`].
    pub fn sign_digest(&self, chain_id: u64, digest: B256) -> Result<Bytes, KeyError> {
        if !SANDBOX_CHAIN_IDS.contains(&chain_id) {
            return Err(KeyError::ForeignChain(chain_id));
        }
        Ok(self.signer.sign_hash_sync(&digest)?.as_bytes().into())
    }
}

/// Sends a transaction of a devnet account, and waits until it is in a block. Returns false if it is for another chain,
/// was not included, or reverted.
///
/// # Errors
/// A [`ProviderError`] if the chain refuses the transaction.
pub async fn send(client: &ChainClient, signed: &TxEnvelope) -> Result<bool, ProviderError> {
    if !SANDBOX_CHAIN_IDS.contains(&client.chain_id()) {
        return Ok(false);
    }
    let sent = client.provider().send_raw_transaction(&signed.encoded_2718()).await.map_err(ProviderError::from)?;
    Ok(sent.get_receipt().await.is_ok_and(|receipt| receipt.status()))
}

impl std::fmt::Debug for DevnetAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DevnetAccount({})", self.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::consensus::transaction::SignerRecoverable;
    use alloy::primitives::address;
    use golem_chain::devnet::PUBLIC_KEY_ACCOUNTS;

    #[test]
    fn development_accounts_are_the_well_known_ones() {
        let accounts = DevnetAccount::development_accounts().unwrap();
        assert_eq!(accounts.len(), 10);
        assert_eq!(accounts[0].address(), address!("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"));
        assert_eq!(accounts[1].address(), address!("0x70997970C51812dc3A010C7d01b50e0d17dc79C8"));
        assert_eq!(accounts[9].address(), address!("0xa0Ee7A142d267C1f36714E4a8F75612F20a79720"));
    }

    #[test]
    fn the_addresses_that_must_not_be_paid_elsewhere_are_those_of_the_mnemonic() {
        let parent = MnemonicBuilder::from_phrase(MNEMONIC).build_parent_key().unwrap();
        let derived: Vec<Address> = parent.children().take(20).map(|signer| signer.unwrap().address()).collect();
        assert_eq!(derived, PUBLIC_KEY_ACCOUNTS);
    }

    #[test]
    fn a_key_signs_for_the_devnet_and_refuses_every_other_chain() {
        let mut parties = DevnetAccount::development_accounts().unwrap();
        parties.push(DevnetAccount::inhabitant("test").unwrap());
        for party in parties {
            for chain_id in SANDBOX_CHAIN_IDS {
                let signed = party.sign(TxEip1559 { chain_id, ..Default::default() }).unwrap();
                assert_eq!(signed.recover_signer().unwrap(), party.address());
            }
            for chain_id in [0, 1, 10, 137, 8453, 42161, 11_155_111, 31336, 31339, u64::MAX] {
                let refused = party.sign(TxEip1559 { chain_id, ..Default::default() });
                assert!(matches!(refused, Err(KeyError::ForeignChain(id)) if id == chain_id));
                let refused = party.sign_with_code(TxEip7702 { chain_id, ..Default::default() }, Address::ZERO);
                assert!(matches!(refused, Err(KeyError::ForeignChain(id)) if id == chain_id));
                let refused = party.sign_digest(chain_id, B256::ZERO);
                assert!(matches!(refused, Err(KeyError::ForeignChain(id)) if id == chain_id));
            }
        }
    }

    #[test]
    fn debug_shows_an_address_and_no_secret() {
        let party = DevnetAccount::inhabitant("test").unwrap();
        assert_eq!(format!("{party:?}"), format!("DevnetAccount({})", party.address()));
    }
}
