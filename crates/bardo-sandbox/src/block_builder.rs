//! Block builder for genesis: submits signed orders and mines blocks in which no transaction may fail.
//!
//! Not here: the contents of the blocks (see `deploy`, `liquidity`).

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, TxKind, U256};

use super::actors::{ActorRole, ActorTransaction, Actors, TIP, UnsentTransaction, send, send_from};
use super::contracts::{self, BundledContract};
use super::error::SandboxError;
use super::keys::DevnetAccount;
use golem_chain::devnet::Chain;
use golem_chain::evm::TRANSACTION_GAS_CAP;

/// Block builder of a chain during genesis.
pub(super) struct BlockBuilder<'a> {
    pub(super) chain: &'a mut Chain,
    pub(super) actors: &'a Actors,
    steps: BTreeMap<B256, &'static str>,
}

impl<'a> BlockBuilder<'a> {
    pub(super) fn new(chain: &'a mut Chain, actors: &'a Actors) -> Self {
        Self { chain, actors, steps: BTreeMap::new() }
    }

    pub(super) fn send(&mut self, order: ActorTransaction) -> Result<(), SandboxError> {
        let step = order.step;
        let hash = send(self.chain, self.actors, order)?;
        self.steps.insert(hash, step);
        Ok(())
    }

    pub(super) fn send_from(&mut self, party: &DevnetAccount, unsent: UnsentTransaction) -> Result<(), SandboxError> {
        let step = unsent.step;
        let hash = send_from(self.chain, party, unsent)?;
        self.steps.insert(hash, step);
        Ok(())
    }

    pub(super) fn call(
        &mut self,
        role: ActorRole,
        to: Address,
        input: Vec<u8>,
        gas: u64,
        step: &'static str,
    ) -> Result<(), SandboxError> {
        self.send(ActorTransaction::call(role, to, input, gas, step))
    }

    /// Sends a contract creation by the treasury; returns the future address.
    pub(super) fn create(&mut self, contract: BundledContract, arguments: &[u8]) -> Result<Address, SandboxError> {
        self.create_code(contract.creation(arguments)?, contract.name())
    }

    pub(super) fn create_code(&mut self, input: Bytes, step: &'static str) -> Result<Address, SandboxError> {
        let treasury = self.actors.address(ActorRole::Treasury);
        let address = treasury.create(self.chain.pending_nonce(treasury));
        let gas = deployment_gas(input.len());
        self.send(ActorTransaction {
            role: ActorRole::Treasury,
            to: TxKind::Create,
            value: U256::ZERO,
            input,
            gas,
            tip: TIP,
            step,
        })?;
        Ok(address)
    }

    /// Creates a contract through the deployment proxy, at an address that depends on salt, code and arguments only.
    pub(super) fn create2(
        &mut self,
        contract: BundledContract,
        arguments: &[u8],
        salt: B256,
    ) -> Result<Address, SandboxError> {
        self.create2_code(contract.creation(arguments)?, salt, contract.name())
    }

    /// Like [`Self::create2`], with finished creation code.
    pub(super) fn create2_code(
        &mut self,
        code: Bytes,
        salt: B256,
        step: &'static str,
    ) -> Result<Address, SandboxError> {
        let gas = deployment_gas(code.len());
        let input = [salt.as_slice(), code.as_ref()].concat();
        self.call(ActorRole::Treasury, contracts::DEPLOYMENT_PROXY, input, gas, step)?;
        Ok(contracts::DEPLOYMENT_PROXY.create2_from_code(salt, code))
    }

    /// Mines blocks, one second apart, until all sent transactions are included; fails if one of them failed.
    pub(super) fn seal(&mut self) -> Result<(), SandboxError> {
        while self.chain.has_ready() {
            let block = self.chain.mine();
            for (transaction, receipt) in block.transactions.iter().zip(&block.receipts) {
                let step = self.steps.remove(&transaction.hash).unwrap_or("a transaction");
                if let Some(failure) = &receipt.failure {
                    return Err(SandboxError::Failed { step, failure: failure.clone() });
                }
            }
        }
        match self.steps.first_key_value() {
            None => Ok(()),
            Some((first, _)) => Err(SandboxError::Stuck { waiting: self.steps.len(), first: *first }),
        }
    }
}

/// Gas limit for any constructor of the bundle: 200 per byte of stored code, 16 per byte of calldata, and its
/// execution.
pub(super) fn deployment_gas(length: usize) -> u64 {
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    length.saturating_mul(260).saturating_add(700_000).min(TRANSACTION_GAS_CAP)
}
