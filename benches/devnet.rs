//! The embedded devnet: building both chains, a quote through `eth_call`, and a transaction from sending to receipt.
//! Measured in process, over the loopback server, and with anvil (`BARDO_ANVIL`, if set) on the same state.

use std::hint::black_box;
use std::time::Duration;

use alloy::consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy::eips::{BlockId, Encodable2718};
use alloy::network::TransactionBuilder;
use alloy::primitives::aliases::{U24, U160};
use alloy::primitives::{Address, TxKind, U256};
use alloy::providers::{DynProvider, Provider, ProviderBuilder};
use alloy::rpc::types::TransactionRequest;
use alloy::signers::SignerSync;
use alloy::signers::local::{MnemonicBuilder, coins_bip39::English};
use alloy::sol_types::SolCall;
use bardo::abi::uniswap_v3::QuoterV2;
use bardo::chain::devnet::server;
use bardo::sandbox::plan::{ETHEREUM, SandboxToken};
use bardo::sandbox::snapshot::{furnished_from_file, run_genesis};
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime;

const START: u64 = 1_800_000_000;

fn config(pace: BlockPace) -> SandboxConfig {
    SandboxConfig { seed: 1, start_time: START, pace, clock: None, market: MarketMode::Off, keeper: false }
}

fn boot(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("devnet");
    group.sample_size(10).measurement_time(Duration::from_secs(10));
    group.bench_function("both chains ready", |bencher| {
        // The start ends before it is taken down.
        bencher
            .iter_with_large_drop(|| Sandbox::boot(black_box(&config(BlockPace::Manual)), &|_| {}).expect("a sandbox"));
    });
    // Compares the deployments on the larger chain with reading their result from the snapshot.
    group.bench_function("genesis by deployment", |bencher| {
        bencher.iter(|| run_genesis(black_box(&ETHEREUM), &|_| {}).expect("a chain"));
    });
    group.bench_function("genesis from the snapshot", |bencher| {
        bencher.iter(|| furnished_from_file(black_box(&ETHEREUM)).expect("a chain"));
    });
}

/// Signs and sends transfers of one wei, each after the receipt of the previous one.
struct Sender {
    provider: DynProvider,
    key: alloy::signers::local::PrivateKeySigner,
    chain_id: u64,
    nonce: u64,
}

impl Sender {
    async fn new(provider: DynProvider) -> Self {
        let mnemonic = "test test test test test test test test test test test junk";
        let key = MnemonicBuilder::<English>::default().phrase(mnemonic).index(1).expect("an index").build();
        let key = key.expect("a key");
        let chain_id = provider.get_chain_id().await.expect("an id");
        let nonce = provider.get_transaction_count(key.address()).await.expect("a nonce");
        Self { provider, key, chain_id, nonce }
    }

    async fn send(&mut self) {
        let tx = TxEip1559 {
            chain_id: self.chain_id,
            nonce: self.nonce,
            gas_limit: 21_000,
            max_fee_per_gas: 10_000_000_000,
            max_priority_fee_per_gas: 1_000_000,
            to: TxKind::Call(Address::repeat_byte(0x42)),
            value: U256::from(1),
            ..Default::default()
        };
        let signature = self.key.sign_hash_sync(&tx.signature_hash()).expect("a signature");
        let envelope = TxEnvelope::from(tx.into_signed(signature));
        let pending = self.provider.send_raw_transaction(&envelope.encoded_2718()).await.expect("accepted");
        let hash = *pending.tx_hash();
        while self.provider.get_transaction_receipt(hash).await.expect("an answer").is_none() {
            tokio::task::yield_now().await;
        }
        self.nonce += 1;
    }
}

/// Measures a quote and a transaction through `provider`.
fn measure(
    criterion: &mut Criterion,
    runtime: &Runtime,
    name: &str,
    provider: &DynProvider,
    quote: &TransactionRequest,
) {
    criterion.bench_function(&format!("eth_call/V3 quote, {name}"), |bencher| {
        bencher.iter(|| {
            runtime.block_on(async { provider.call(quote.clone()).block(BlockId::latest()).await.expect("a quote") })
        });
    });
    let mut sender = runtime.block_on(Sender::new(provider.clone()));
    criterion.bench_function(&format!("send to receipt, {name}"), |bencher| {
        bencher.iter(|| runtime.block_on(sender.send()));
    });
}

fn speak(criterion: &mut Criterion) {
    let sandbox = Sandbox::boot(&config(BlockPace::OnTransaction), &|_| {}).expect("a sandbox");
    let chain = sandbox.chain("ethereum").expect("the first chain");
    let quoter = sandbox.description().chains[0].contracts["quoterV2"];
    let call = QuoterV2::quoteExactInputSingleCall {
        params: QuoterV2::QuoteExactInputSingleParams {
            tokenIn: chain.deployment.weth,
            tokenOut: chain.deployment.token(SandboxToken::Usdc).expect("on every chain"),
            amountIn: U256::from(10).pow(U256::from(18)),
            fee: U24::from(500),
            sqrtPriceLimitX96: U160::ZERO,
        },
    };
    let quote = TransactionRequest::default().with_to(quoter).with_input(call.abi_encode());
    let runtime = bardo::base::runtime::multi_threaded(None).expect("a runtime");
    let devnet = &chain.devnet;

    let (state, timestamp, chain_id) = runtime
        .block_on(devnet.run(|chain| (chain.state().clone(), chain.head().header.timestamp, chain.rules().chain_id)))
        .expect("a chain");
    measure(criterion, &runtime, "in process", &devnet.provider().erased(), &quote);
    let served = runtime.block_on(server::serve(devnet.clone(), 0)).expect("a server");
    let url = served.url().parse().expect("a URL");
    measure(criterion, &runtime, "over HTTP", &ProviderBuilder::default().connect_http(url).erased(), &quote);
    if std::env::var_os("BARDO_ANVIL").is_some() {
        let (_anvil, provider) = runtime.block_on(async {
            let (process, provider) = bardo_testkit::anvil::start(&state, timestamp, chain_id).await;
            let _: serde_json::Value =
                provider.raw_request("evm_setAutomine".into(), serde_json::json!([true])).await.expect("automine");
            (process, provider)
        });
        measure(criterion, &runtime, "anvil over HTTP", &provider, &quote);
    }
}

criterion_group!(benches, boot, speak);
criterion_main!(benches);
