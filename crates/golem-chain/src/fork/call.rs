//! What is simulated: a [`Call`] with everything of a transaction that execution can see, and
//! nothing that needs a key.

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

use crate::evm::{Checks, TRANSACTION_GAS_CAP};
use crate::signed::sender_of;

/// One transaction to simulate. Amounts in wei, gas in gas units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The account that sends (and pays).
    pub from: Address,
    /// The account called, or a creation.
    pub to: TxKind,
    /// Wei sent along.
    pub value: U256,
    /// Calldata, or init code of a creation.
    pub data: Bytes,
    /// The transaction's gas limit.
    pub gas_limit: u64,
    /// Addresses and slots declared warm ([EIP-2930](https://eips.ethereum.org/EIPS/eip-2930)).
    pub access_list: AccessList,
    /// Delegations set by this transaction ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
    pub authorizations: Vec<Delegation>,
    /// Whether this stands for an exact transaction or for a call nobody pays for.
    pub payment: Payment,
}

/// Who pays for gas, and at which price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payment {
    /// Nobody: gas is free, any account may send, its nonce is taken as it is. What the sender
    /// would pay for gas is then missing from the changes.
    Free,
    /// As the real transaction: nonce, fees and balance are checked and charged.
    Exact {
        /// The sender's nonce in the transaction.
        nonce: u64,
        /// Price of a unit of gas in wei.
        fees: Fees,
    },
}

/// Gas price of a transaction, in wei per unit of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fees {
    /// Types 0 and 1.
    Legacy {
        /// The one price.
        gas_price: u128,
    },
    /// Types 2 and 4 ([EIP-1559](https://eips.ethereum.org/EIPS/eip-1559)).
    Dynamic {
        /// The most that is paid, base fee included.
        max_fee: u128,
        /// The most of it that goes to the block's producer.
        max_priority_fee: u128,
    },
}

/// A delegation in a type 4 transaction, signed or not yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delegation {
    /// As it stands in a transaction; the authority is recovered from the signature.
    Signed(SignedAuthorization),
    /// What will be signed, and by whom: to be simulated before it is.
    Unsigned {
        /// The account that delegates.
        authority: Address,
        /// What it will sign.
        authorization: Authorization,
    },
}

/// Why a transaction cannot be turned into a [`Call`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Blobs carry no effect that the simulation models.
    #[error("blob transactions (type 3) are not simulated: send a transaction of type 0, 1, 2 or 4")]
    Blob,
    /// The signature belongs to no key.
    #[error("the transaction's signature does not recover to an account")]
    Signature,
}

impl Call {
    /// A call of `to` with `data`, free of charge, with the highest gas limit a transaction may have.
    pub fn new(from: Address, to: Address, data: impl Into<Bytes>) -> Self {
        Self {
            from,
            to: TxKind::Call(to),
            value: U256::ZERO,
            data: data.into(),
            gas_limit: TRANSACTION_GAS_CAP,
            access_list: AccessList::default(),
            authorizations: Vec::new(),
            payment: Payment::Free,
        }
    }

    /// A contract creation with `init_code`, free of charge.
    pub fn create(from: Address, init_code: impl Into<Bytes>) -> Self {
        Self { to: TxKind::Create, ..Self::new(from, Address::ZERO, init_code) }
    }

    /// The same call with `value` wei sent along.
    #[must_use]
    pub fn with_value(mut self, value: U256) -> Self {
        self.value = value;
        self
    }

    /// The same call with another gas limit.
    #[must_use]
    pub fn with_gas_limit(mut self, gas_limit: u64) -> Self {
        self.gas_limit = gas_limit;
        self
    }

    /// The same call as the exact transaction with this nonce and these fees.
    #[must_use]
    pub fn paid(mut self, nonce: u64, fees: Fees) -> Self {
        self.payment = Payment::Exact { nonce, fees };
        self
    }

    /// The exact environment of a signed transaction.
    ///
    /// # Errors
    /// A blob transaction, or a signature that recovers to no account.
    pub fn from_signed(transaction: &TxEnvelope) -> Result<Self, CallError> {
        if transaction.is_eip4844() {
            return Err(CallError::Blob);
        }
        let from = sender_of(transaction).ok_or(CallError::Signature)?;
        let fees = match transaction.max_priority_fee_per_gas() {
            Some(max_priority_fee) => Fees::Dynamic { max_fee: transaction.max_fee_per_gas(), max_priority_fee },
            None => Fees::Legacy { gas_price: transaction.max_fee_per_gas() },
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
                .map(Delegation::Signed)
                .collect(),
            payment: Payment::Exact { nonce: transaction.nonce(), fees },
        })
    }

    /// The accounts whose state this call is known to read before any code runs.
    pub(super) fn accounts(&self) -> impl Iterator<Item = Address> + '_ {
        std::iter::once(self.from)
            .chain(self.to.to().copied())
            .chain(self.access_list.iter().map(|item| item.address))
            .chain(
                self.authorizations
                    .iter()
                    .flat_map(|delegation| match delegation {
                        Delegation::Signed(signed) => [signed.recover_authority().ok(), Some(signed.address)],
                        Delegation::Unsigned { authority, authorization } => {
                            [Some(*authority), Some(authorization.address)]
                        }
                    })
                    .flatten(),
            )
    }

    /// How strictly this call is examined before it runs.
    pub(super) fn checks(&self) -> Checks {
        match self.payment {
            Payment::Free => Checks::Call,
            Payment::Exact { .. } => Checks::Transaction,
        }
    }

    /// What revm executes, on the chain with this id.
    pub(super) fn environment(&self, chain_id: u64, account_nonce: u64) -> TxEnv {
        let (nonce, gas_price, gas_priority_fee) = match self.payment {
            Payment::Free => (account_nonce, 0, None),
            Payment::Exact { nonce, fees: Fees::Legacy { gas_price } } => (nonce, gas_price, None),
            Payment::Exact { nonce, fees: Fees::Dynamic { max_fee, max_priority_fee } } => {
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
            authorization_list: self.authorizations.iter().map(Delegation::environment).collect(),
        }
    }
}

impl Delegation {
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
