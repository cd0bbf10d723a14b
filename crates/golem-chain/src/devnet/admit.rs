//! Admission rules of the transaction pool.

use alloy::consensus::Transaction;
use alloy::primitives::U256;
use revm::context::result::InvalidTransaction;
use revm::handler::validation::validate_initial_tx_gas;
use revm::primitives::eip3860::MAX_INITCODE_SIZE;

use super::block::ChainTransaction;
use super::chain::Chain;
use super::error::SubmitError;
use crate::evm::tx_env;

/// Type byte of a blob transaction ([EIP-4844](https://eips.ethereum.org/EIPS/eip-4844)).
const BLOB_TYPE: u8 = 3;

/// Type byte of a set-code transaction ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
const SET_CODE_TYPE: u8 = 4;

impl Chain {
    /// Checks `transaction` for admission to the pool, against the state at the head and the next block's base fee.
    pub(super) fn admit(&self, transaction: &ChainTransaction) -> Result<(), SubmitError> {
        let envelope = &transaction.envelope;
        let rules = self.rules();
        if let Some(have) = envelope.chain_id().filter(|have| *have != rules.chain_id) {
            return Err(SubmitError::WrongChain { have, want: rules.chain_id });
        }
        if envelope.tx_type() as u8 == BLOB_TYPE {
            return Err(SubmitError::UnsupportedType(BLOB_TYPE));
        }
        if self.pool().get(transaction.hash).is_some() || self.transaction(transaction.hash).is_some() {
            return Err(SubmitError::AlreadyKnown);
        }
        if envelope.tx_type() as u8 == SET_CODE_TYPE && envelope.authorization_list().is_none_or(<[_]>::is_empty) {
            return Err(SubmitError::EmptyAuthorizationList);
        }
        if envelope.is_create() && envelope.input().len() > MAX_INITCODE_SIZE {
            return Err(SubmitError::InitcodeTooLarge { size: envelope.input().len(), limit: MAX_INITCODE_SIZE });
        }
        self.admit_gas(transaction)?;
        self.admit_fees(transaction)?;
        self.admit_sender(transaction)
    }

    fn admit_gas(&self, transaction: &ChainTransaction) -> Result<(), SubmitError> {
        let gas = transaction.envelope.gas_limit();
        let limit = self.gas_limit();
        if gas > limit {
            return Err(SubmitError::ExceedsBlockGasLimit { gas, limit });
        }
        let cap = self.rules().transaction_gas_limit(limit);
        if gas > cap {
            return Err(SubmitError::ExceedsTransactionGasCap { gas, cap });
        }
        let environment = tx_env(&transaction.envelope, transaction.sender);
        match validate_initial_tx_gas(&environment, self.rules().spec, false, false, cap, None) {
            Ok(_) => Ok(()),
            Err(InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas, gas_limit }) => {
                Err(SubmitError::IntrinsicGasTooLow { gas: gas_limit, minimum: initial_gas })
            }
            Err(InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, gas_limit }) => {
                Err(SubmitError::FloorGasTooLow { gas: gas_limit, minimum: gas_floor })
            }
            Err(other) => Err(SubmitError::Invalid(other)),
        }
    }

    fn admit_fees(&self, transaction: &ChainTransaction) -> Result<(), SubmitError> {
        let fee_cap = transaction.envelope.max_fee_per_gas();
        if let Some(tip) = transaction.envelope.max_priority_fee_per_gas().filter(|tip| *tip > fee_cap) {
            return Err(SubmitError::TipAboveFeeCap { tip, fee_cap });
        }
        let base_fee = self.next_base_fee();
        if fee_cap < u128::from(base_fee) {
            return Err(SubmitError::FeeCapTooLow { fee_cap, base_fee });
        }
        Ok(())
    }

    fn admit_sender(&self, transaction: &ChainTransaction) -> Result<(), SubmitError> {
        let ChainTransaction { envelope, sender, impersonated, .. } = transaction;
        let (state, address) = (self.state(), *sender);
        let (nonce, next) = (envelope.nonce(), state.nonce(address));
        if nonce < next {
            return Err(SubmitError::NonceTooLow { next, nonce });
        }
        if nonce == u64::MAX {
            return Err(SubmitError::NonceAtMaximum);
        }
        // An account with a delegation may still send; other accounts with code may not (EIP-3607, EIP-7702).
        if !impersonated && state.has_contract_code(address) {
            return Err(SubmitError::SenderHasCode(address));
        }
        let have = state.balance(address);
        let want = U256::from(envelope.gas_limit())
            .saturating_mul(U256::from(envelope.max_fee_per_gas()))
            .saturating_add(envelope.value());
        if have < want {
            return Err(SubmitError::InsufficientFunds { address, have, want });
        }
        Ok(())
    }
}
