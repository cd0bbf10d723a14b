//! Fee queries, and completion of unsigned requests.

use alloy::consensus::{Transaction, TypedTransaction};
use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, TxKind};
use alloy::rpc::types::{FeeHistory, TransactionRequest};

use super::block::{Block, ChainTransaction};
use super::chain::Chain;
use super::error::{BlockError, SubmitError};
use crate::evm::call_env;

/// Maximum number of blocks in a fee history.
const HISTORY_BLOCKS: u64 = 1_024;

/// Blob base fee in wei per gas: always the minimum, since no block has blobs.
const BLOB_BASE_FEE: u128 = 1;

impl Chain {
    /// Result of `eth_gasPrice`: next base fee plus suggested tip, in wei per gas.
    pub fn gas_price(&self) -> u128 {
        u128::from(self.next_base_fee()).saturating_add(self.config().suggested_tip)
    }

    /// Fees of `count` blocks up to `newest`. For each of `percentiles`, it has the tip at which that share of the
    /// block's gas is reached.
    ///
    /// # Errors
    /// [`BlockError::NotFound`] if there is no block `newest`.
    pub fn fee_history(&self, count: u64, newest: BlockId, percentiles: &[f64]) -> Result<FeeHistory, BlockError> {
        let head = self.number();
        let newest_number = if newest == BlockId::pending() {
            head
        } else {
            self.block(newest).ok_or(BlockError::NotFound { asked: newest, head })?.number()
        };
        let count = count.min(HISTORY_BLOCKS).min(newest_number + 1);
        let oldest = (newest_number + 1).saturating_sub(count);
        let mut history = FeeHistory { oldest_block: oldest, ..Default::default() };
        let mut rewards = Vec::new();
        for block in self.blocks(oldest, newest_number).filter(|_| count > 0) {
            let context = block.context();
            history.base_fee_per_gas.push(u128::from(context.base_fee));
            history.base_fee_per_blob_gas.push(BLOB_BASE_FEE);
            history.blob_gas_used_ratio.push(0.0);
            // The method is defined to return a ratio; it is not used further.
            history.gas_used_ratio.push(block.header.gas_used as f64 / context.gas_limit.max(1) as f64);
            rewards.push(tips_at(block, percentiles));
        }
        if count > 0 {
            let after = match self.block(BlockId::number(newest_number + 1)) {
                Some(child) => child.context().base_fee,
                None => self.next_base_fee(),
            };
            history.base_fee_per_gas.push(u128::from(after));
            history.base_fee_per_blob_gas.push(BLOB_BASE_FEE);
        }
        history.reward = (!percentiles.is_empty()).then_some(rewards);
        Ok(history)
    }

    /// Completes the nonce, gas and fees of `request`, and adds it to the pool as an unsigned transaction. Its sender
    /// must be impersonated.
    ///
    /// # Errors
    /// [`SubmitError`] if the request is invalid or the pool does not admit it.
    pub fn send(&mut self, request: TransactionRequest) -> Result<B256, SubmitError> {
        let transaction = self.prepare(request)?;
        self.submit(transaction)
    }

    /// Creates the transaction that [`send`](Self::send) would submit.
    pub(super) fn prepare(&self, request: TransactionRequest) -> Result<ChainTransaction, SubmitError> {
        let sender = request.from.unwrap_or_default();
        if !self.is_impersonated(sender) {
            return Err(SubmitError::NotImpersonated(sender));
        }
        Ok(ChainTransaction::impersonated(self.complete(request, sender)?, sender))
    }

    /// Creates the complete transaction for a `request` from `sender`.
    pub(super) fn complete(
        &self,
        request: TransactionRequest,
        sender: Address,
    ) -> Result<TypedTransaction, SubmitError> {
        self.fill(request, sender)?.build_typed_tx().map_err(|_| SubmitError::Malformed)
    }

    fn fill(&self, mut request: TransactionRequest, sender: Address) -> Result<TransactionRequest, SubmitError> {
        // As for a call, contradictory fields are refused.
        call_env(&request, self.rules(), &self.next_context(), self.gas_limit())?;
        if let Some(input) = request.input.input.take().or_else(|| request.input.data.take()) {
            request.input = input.into();
        }
        request.from = Some(sender);
        request.to = Some(request.to.unwrap_or(TxKind::Create));
        request.chain_id = Some(self.rules().chain_id);
        request.nonce = Some(request.nonce.unwrap_or_else(|| self.pending_nonce(sender)));
        if request.gas_price.is_none() {
            let tip = request.max_priority_fee_per_gas.unwrap_or(self.config().suggested_tip);
            // Twice the base fee lasts for the next six blocks even if all of them are full.
            let cap = u128::from(self.next_base_fee()).saturating_mul(2).saturating_add(tip);
            let cap = *request.max_fee_per_gas.get_or_insert(cap);
            request.max_priority_fee_per_gas.get_or_insert(tip.min(cap));
        }
        if request.access_list.is_none() && request.gas_price.is_none() {
            request.access_list = Some(Default::default());
        }
        if request.gas.is_none() {
            let mut free = request.clone();
            free.gas_price = None;
            free.max_fee_per_gas = None;
            free.max_priority_fee_per_gas = None;
            let gas = self
                .estimate_gas(&free, BlockId::pending(), None, None)
                .map_err(|error| SubmitError::Estimate(Box::new(error)))?;
            request.gas = Some(gas);
        }
        Ok(request)
    }
}

/// For each percentile, the tip of the transaction at which that share of the block's gas is reached.
fn tips_at(block: &Block, percentiles: &[f64]) -> Vec<u128> {
    let base_fee = block.context().base_fee;
    let mut tips: Vec<(u128, u64)> = block
        .transactions
        .iter()
        .zip(&block.receipts)
        .map(|(transaction, receipt)| {
            (transaction.envelope.effective_tip_per_gas(base_fee).unwrap_or_default(), receipt.gas_used)
        })
        .collect();
    tips.sort_unstable();
    percentiles
        .iter()
        .map(|percentile| {
            let threshold = (block.header.gas_used as f64 * percentile.clamp(0.0, 100.0) / 100.0) as u64;
            let mut sum = 0_u64;
            for (tip, gas) in &tips {
                sum = sum.saturating_add(*gas);
                if sum >= threshold {
                    return *tip;
                }
            }
            tips.last().map_or(0, |(tip, _)| *tip)
        })
        .collect()
}
