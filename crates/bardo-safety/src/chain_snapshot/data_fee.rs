//! Data fee of a rollup: the charge for posting a transaction on the base chain, in addition to gas. No gas limit
//! bounds it. It is estimated beforehand, doubled, and read from the receipt afterwards.

use alloy::consensus::{SignableTransaction as _, TxEip1559};
use alloy::eips::BlockId;
use alloy::network::TransactionBuilder as _;
use alloy::primitives::{B256, TxKind, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall as _;
use serde_json::Value;

use super::SnapshotReader;
use crate::signing_payload::SigningPayload;
use crate::value::UnknownValue;
use bardo_abi::gas_price_oracle::GasPriceOracle;
use golem_chain::network::DataFees;
use golem_chain::provider::ProviderError;

/// Factor on the estimate, because the base chain's fees change with every block of it.
const MARGIN: u64 = 2;

impl SnapshotReader {
    /// Returns the estimated data fee of the transactions of `payload` from index `from`, with a safety margin, in wei;
    /// zero if the chain charges none.
    ///
    /// # Errors
    /// [`UnknownValue`] if the chain charges a data fee and does not report it.
    pub async fn data_fee(&self, payload: &SigningPayload, from: usize, block: BlockId) -> Result<U256, UnknownValue> {
        let oracle = match self.data_fees {
            DataFees::None => return Ok(U256::ZERO),
            DataFees::Oracle(oracle) => oracle,
            DataFees::Unknown => return Err(self.unknown_fees()),
        };
        let read_error = |why: &dyn std::fmt::Display| {
            UnknownValue::because(format_args!("the rollup's L1 data fee is unknown: {why}"))
        };
        let asked = unsigned(payload).into_iter().skip(from).map(|data| async move {
            let request = TransactionRequest::default()
                .with_to(oracle)
                .with_input(GasPriceOracle::getL1FeeCall { data: data.into() }.abi_encode());
            let answer = self.client.agreed().call(request).block(block).await;
            let answer = answer.map_err(|error| read_error(&ProviderError::from(error)))?;
            GasPriceOracle::getL1FeeCall::abi_decode_returns(&answer).map_err(|error| read_error(&error))
        });
        let fees = futures::future::try_join_all(asked).await?;
        Ok(fees.into_iter().fold(U256::ZERO, U256::saturating_add).saturating_mul(U256::from(MARGIN)))
    }

    /// Returns the data fee of an included transaction, in wei, from its receipt, with the operator fee of OP Stack
    /// chains; zero if the chain charges none.
    ///
    /// # Errors
    /// [`UnknownValue`] if the chain charges a data fee and does not report it.
    pub async fn data_fee_paid(&self, hash: B256) -> Result<U256, UnknownValue> {
        match self.data_fees {
            DataFees::None => return Ok(U256::ZERO),
            DataFees::Oracle(_) => {}
            DataFees::Unknown => return Err(self.unknown_fees()),
        }
        // Receipts are asked of all endpoints, whatever the provider.
        let receipt = self.client.provider().raw_request::<_, Value>("eth_getTransactionReceipt".into(), (hash,)).await;
        let receipt = receipt.map_err(|error| UnknownValue::because(ProviderError::from(error)))?;
        let fee = receipt.get("l1Fee").and_then(Value::as_str).and_then(|text| text.parse().ok());
        let missing = || UnknownValue::because(format_args!("the receipt of {hash} does not contain its L1 data fee"));
        let fee: U256 = fee.ok_or_else(missing)?;
        Ok(fee.saturating_add(operator_fee(&receipt)))
    }

    fn unknown_fees(&self) -> UnknownValue {
        let network = self.network();
        UnknownValue::because(format_args!(
            "it is not configured whether {network} charges an L1 data fee: set chains.{}.data_fee_oracle to \"none\" \
             or to the fee oracle contract",
            network.name
        ))
    }
}

/// Operator fee of a transaction on an OP Stack chain since the Isthmus upgrade, in wei: `gasUsed · scalar / 10⁶ +
/// constant` (<https://specs.optimism.io/protocol/isthmus/exec-engine.html#operator-fee>). Receipts without the fields
/// have none.
fn operator_fee(receipt: &Value) -> U256 {
    let field = |name: &str| -> Option<U256> { receipt.get(name)?.as_str()?.parse().ok() };
    let by_gas = field("gasUsed").zip(field("operatorFeeScalar")).map(|(gas, scalar)| gas.saturating_mul(scalar));
    let by_gas = by_gas.unwrap_or_default() / U256::from(1_000_000);
    by_gas.saturating_add(field("operatorFeeConstant").unwrap_or_default())
}

/// Encodes each transaction for signing at its longest: with the highest nonce and the payload's fees.
fn unsigned(payload: &SigningPayload) -> Vec<Vec<u8>> {
    let fees = payload.fees();
    let legs = payload.legs().iter().map(|leg| TxEip1559 {
        chain_id: payload.proposal().chain_id,
        nonce: u64::MAX,
        gas_limit: leg.gas_limit,
        max_fee_per_gas: fees.max_fee_per_gas,
        max_priority_fee_per_gas: fees.max_priority_fee_per_gas,
        to: TxKind::Call(leg.to),
        value: leg.value,
        access_list: Default::default(),
        input: leg.data.clone(),
    });
    legs.map(|transaction| transaction.encoded_for_signing()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_fee_grows_with_gas_and_has_a_constant_part() {
        let receipt = serde_json::json!({
            // 200,000 gas at 5,000 millionths are 1,000, and 77 of the constant.
            "gasUsed": "0x30d40", "operatorFeeScalar": "0x1388", "operatorFeeConstant": "0x4d",
        });
        assert_eq!(operator_fee(&receipt), U256::from(1_077));
        assert_eq!(operator_fee(&serde_json::json!({ "gasUsed": "0x30d40" })), U256::ZERO);
    }
}
