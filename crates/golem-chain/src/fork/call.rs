//! Calls to simulate: all parts of a transaction that affect execution, without anything that needs a key.

use alloy::{
    consensus::{Transaction as _, TxEnvelope},
    eips::{
        eip2930::AccessList,
        eip7702::{Authorization, RecoveredAuthority, RecoveredAuthorization, SignedAuthorization},
    },
    primitives::{Address, Bytes, TxKind, U256},
};
use revm::{
    context::{TransactionType, TxEnv},
    context_interface::either::Either,
};

use crate::evm::{CheckMode, TRANSACTION_GAS_CAP};
use crate::signed::sender_of;

/// A transaction to simulate. Amounts are in wei, gas in gas units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkCall {
    /// Account that sends the call and pays for it.
    pub from: Address,
    /// Address of the called account, or a contract creation.
    pub to: TxKind,
    /// Value to transfer, in wei.
    pub value: U256,
    /// Calldata, or init code for a creation.
    pub data: Bytes,
    /// Gas limit of the transaction.
    pub gas_limit: u64,
    /// Addresses and slots that are declared warm ([EIP-2930](https://eips.ethereum.org/EIPS/eip-2930)).
    pub access_list: AccessList,
    /// Delegations that the transaction sets ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
    pub authorizations: Vec<CodeDelegation>,
    /// Gas payment: as in an exact transaction, or free of charge.
    pub payment: GasPayment,
}

/// Payment for gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GasPayment {
    /// Gas is free, any account may send, and its current nonce is used. The changes then lack the sender's gas cost.
    Free,
    /// Nonce, fees and balance are checked and charged as in a real transaction.
    Exact {
        /// Nonce of the transaction.
        nonce: u64,
        /// Fees of the transaction.
        fees: CallFees,
    },
}

/// Fees of a transaction, in wei per unit of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFees {
    /// Fees of transaction types 0 and 1.
    Legacy {
        /// The gas price.
        gas_price: u128,
    },
    /// Fees of transaction types 2 and 4 ([EIP-1559](https://eips.ethereum.org/EIPS/eip-1559)).
    Dynamic {
        /// Maximum total fee, including the base fee.
        max_fee: u128,
        /// Maximum priority fee, paid to the block producer.
        max_priority_fee: u128,
    },
}

/// A delegation in a type 4 transaction, signed or unsigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeDelegation {
    /// A signed delegation; the authority is recovered from the signature.
    Signed(SignedAuthorization),
    /// A delegation that is simulated before it is signed.
    Unsigned {
        /// Account that delegates.
        authority: Address,
        /// Authorization that it will sign.
        authorization: Authorization,
    },
}

/// Error for a transaction that cannot be converted to a [`ForkCall`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The transaction carries blobs, which the simulation does not model.
    #[error("blob transactions (type 3) are not simulated: send a transaction of type 0, 1, 2 or 4")]
    Blob,
    /// The signature recovers to no account.
    #[error("the transaction's signature does not recover to an account")]
    Signature,
}

impl ForkCall {
    /// Creates a free call of `to` with `data`, with the highest gas limit that a transaction may have.
    pub fn new(from: Address, to: Address, data: impl Into<Bytes>) -> Self {
        Self {
            from,
            to: TxKind::Call(to),
            value: U256::ZERO,
            data: data.into(),
            gas_limit: TRANSACTION_GAS_CAP,
            access_list: AccessList::default(),
            authorizations: Vec::new(),
            payment: GasPayment::Free,
        }
    }

    /// Creates a free contract creation with `init_code`.
    pub fn create(from: Address, init_code: impl Into<Bytes>) -> Self {
        Self { to: TxKind::Create, ..Self::new(from, Address::ZERO, init_code) }
    }

    /// Sets the value to transfer, in wei.
    #[must_use]
    pub fn with_value(mut self, value: U256) -> Self {
        self.value = value;
        self
    }

    /// Sets the gas limit.
    #[must_use]
    pub fn with_gas_limit(mut self, gas_limit: u64) -> Self {
        self.gas_limit = gas_limit;
        self
    }

    /// Makes the call an exact transaction with this nonce and these fees.
    #[must_use]
    pub fn paid(mut self, nonce: u64, fees: CallFees) -> Self {
        self.payment = GasPayment::Exact { nonce, fees };
        self
    }

    /// Converts a signed transaction.
    ///
    /// # Errors
    /// [`CallError`] for a blob transaction, or a signature that recovers to no account.
    pub fn from_signed(transaction: &TxEnvelope) -> Result<Self, CallError> {
        if transaction.is_eip4844() {
            return Err(CallError::Blob);
        }
        let from = sender_of(transaction).ok_or(CallError::Signature)?;
        let fees = match transaction.max_priority_fee_per_gas() {
            Some(max_priority_fee) => CallFees::Dynamic { max_fee: transaction.max_fee_per_gas(), max_priority_fee },
            None => CallFees::Legacy { gas_price: transaction.max_fee_per_gas() },
        };
        Ok(Self {
            from,
            to: transaction.kind(),
            value: transaction.value(),
            data: transaction.input().clone(),
            gas_limit: transaction.gas_limit(),
            access_list: transaction.access_list().cloned().unwrap_or_default(),
            authorizations: transaction
                .authorization_list()
                .unwrap_or_default()
                .iter()
                .cloned()
                .map(CodeDelegation::Signed)
                .collect(),
            payment: GasPayment::Exact { nonce: transaction.nonce(), fees },
        })
    }

    /// Accounts that the call is known to read before any code runs.
    pub(super) fn accounts(&self) -> impl Iterator<Item = Address> + '_ {
        std::iter::once(self.from)
            .chain(self.to.to().copied())
            .chain(self.access_list.iter().map(|item| item.address))
            .chain(
                self.authorizations
                    .iter()
                    .flat_map(|delegation| match delegation {
                        CodeDelegation::Signed(signed) => [signed.recover_authority().ok(), Some(signed.address)],
                        CodeDelegation::Unsigned { authority, authorization } => {
                            [Some(*authority), Some(authorization.address)]
                        }
                    })
                    .flatten(),
            )
    }

    /// Strictness of the checks before the call runs.
    pub(super) fn checks(&self) -> CheckMode {
        match self.payment {
            GasPayment::Free => CheckMode::Call,
            GasPayment::Exact { .. } => CheckMode::Transaction,
        }
    }

    /// Transaction environment for revm on the chain with this id.
    pub(super) fn environment(&self, chain_id: u64, account_nonce: u64) -> TxEnv {
        let (nonce, gas_price, gas_priority_fee) = match self.payment {
            GasPayment::Free => (account_nonce, 0, None),
            GasPayment::Exact { nonce, fees: CallFees::Legacy { gas_price } } => (nonce, gas_price, None),
            GasPayment::Exact { nonce, fees: CallFees::Dynamic { max_fee, max_priority_fee } } => {
                (nonce, max_fee, Some(max_priority_fee))
            }
        };
        let kind = if !self.authorizations.is_empty() {
            TransactionType::Eip7702
        } else if gas_priority_fee.is_some() {
            TransactionType::Eip1559
        } else if !self.access_list.is_empty() {
            TransactionType::Eip2930
        } else {
            TransactionType::Legacy
        };
        TxEnv {
            tx_type: kind as u8,
            caller: self.from,
            gas_limit: self.gas_limit,
            gas_price,
            kind: self.to,
            value: self.value,
            data: self.data.clone(),
            nonce,
            chain_id: Some(chain_id),
            access_list: self.access_list.clone(),
            gas_priority_fee,
            blob_hashes: Vec::new(),
            max_fee_per_blob_gas: 0,
            authorization_list: self.authorizations.iter().map(CodeDelegation::environment).collect(),
        }
    }
}

impl CodeDelegation {
    fn environment(&self) -> Either<SignedAuthorization, RecoveredAuthorization> {
        match self {
            Self::Signed(signed) => Either::Left(signed.clone()),
            Self::Unsigned { authority, authorization } => Either::Right(RecoveredAuthorization::new_unchecked(
                authorization.clone(),
                RecoveredAuthority::Valid(*authority),
            )),
        }
    }
}
