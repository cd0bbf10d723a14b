//! Simulation over RPC with anvil: anvil loads the devnet's state, simulations read from it, and every transaction is
//! then executed on both.

use alloy::eips::{BlockId, Encodable2718};
use alloy::primitives::{Bytes, U256};
use alloy::providers::{DynProvider, Provider};
use bardo::chain::fork::{ExecutionStatus, Fork, ForkCall, ForkSource, RemoteLimits, RemoteState};
use serde_json::{Value, json};

use crate::simulation::execution::{Exchange, next_block, seed};
use bardo_testkit::anvil::start;

async fn ask(provider: &DynProvider, method: &'static str, params: Value) -> Value {
    provider.raw_request(method.into(), params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs anvil: run by .ci/run"]
async fn a_hundred_transactions_simulated_over_anvil_do_the_same_on_both_chains() {
    let mut exchange = Exchange::open(seed(22)).await;
    let (state, timestamp, rules) = exchange
        .devnet
        .run(|chain| (chain.state().clone(), chain.head().header.timestamp, *chain.rules()))
        .await
        .expect("a chain");
    let (_anvil, provider) = start(&state, timestamp, rules.chain_id).await;
    let source = ForkSource::Remote(RemoteState::new(provider.clone(), rules, RemoteLimits::default()));
    for _ in 0..110 {
        let next = next_block(&exchange).await;
        let attempt = exchange.attempt().await;
        let fork = Fork::pin(&source, BlockId::latest(), next).await.expect("a fork");
        let call = ForkCall::from_signed(&attempt.envelope).expect("a call");
        let simulation = fork.simulate(&[call]).await.unwrap_or_else(|error| panic!("{}: {error}", attempt.what));

        let what = attempt.what.clone();
        let (timestamp, base_fee) = (next.timestamp.expect("said"), next.base_fee.expect("said"));
        ask(&provider, "evm_setNextBlockTimestamp", json!([timestamp])).await;
        ask(&provider, "anvil_setNextBlockBaseFeePerGas", json!([U256::from(base_fee)])).await;
        ask(&provider, "anvil_setCoinbase", json!([next.coinbase.expect("said")])).await;
        let hash =
            ask(&provider, "eth_sendRawTransaction", json!([Bytes::from(attempt.envelope.encoded_2718())])).await;
        ask(&provider, "evm_mine", json!([])).await;
        let receipt = provider
            .get_transaction_receipt(serde_json::from_value(hash).expect("a hash"))
            .await
            .expect("a receipt")
            .unwrap_or_else(|| panic!("not in the block: {what}"));
        let outcome = &simulation.outcomes[0];
        assert_eq!(receipt.status(), outcome.status == ExecutionStatus::Success, "{what}: {:?}", outcome.status);
        assert_eq!(receipt.gas_used, outcome.gas_used, "{what}");
        let logs: Vec<_> = receipt.logs().iter().map(|log| log.inner.clone()).collect();
        assert_eq!(logs, outcome.logs, "{what}");
        for account in &simulation.changes.accounts {
            let balance = provider.get_balance(account.account).await.expect("a balance");
            let nonce = provider.get_transaction_count(account.account).await.expect("a nonce");
            assert_eq!((balance, nonce), (account.balance.after, account.nonce.after), "{what}: {account:?}");
        }
        for write in &simulation.changes.writes {
            let value = provider.get_storage_at(write.account, write.slot).await.expect("a slot");
            assert_eq!(value, write.value.after, "{what}: {write:?}");
        }
        exchange.compare(attempt, &simulation).await;
    }
}
