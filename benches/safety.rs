//! The whole pipeline of a swap from the proposal to the signature: fee bounds, payload, check inputs, checks,
//! simulation, permit, repeated checks, the durable reservation with its nonce, and the signatures of permit and
//! transaction. For comparison, the `eth_call` of the same swap, in process and, if `BARDO_ANVIL` is set, to anvil over
//! HTTP. Goal: at most twice the time of that call.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use alloy::consensus::Transaction as _;
use alloy::network::TransactionBuilder as _;
use alloy::primitives::{Address, U256};
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::TransactionRequest;
use bardo::chain::signed::SignedTransaction;
use bardo::safety::account::{Account, AccountKind, PayloadContext, SignError};
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::{Capability, CommitState};
use bardo::safety::proposal::Proposal;
use bardo::safety::{PayloadError, SigningPayload};
use criterion::{Criterion, criterion_group, criterion_main};
use futures::future::BoxFuture;

use bardo_testkit::harness::{ASKED, TestHarness};

/// Account that signs as custody does and records the time, but returns no signature, so that the chain stays
/// unchanged.
#[derive(Debug)]
struct UpToTheSignature {
    wallet: Arc<bardo_testkit::harness::Wallet>,
    signed: Mutex<Option<(Instant, SignedTransaction)>>,
}

impl Account for UpToTheSignature {
    fn address(&self) -> Address {
        self.wallet.address()
    }

    fn signer(&self) -> Address {
        self.wallet.signer()
    }

    fn kind(&self) -> AccountKind {
        self.wallet.kind()
    }

    fn prepare_payload(&self, proposal: Proposal, context: &PayloadContext) -> Result<SigningPayload, PayloadError> {
        self.wallet.prepare_payload(proposal, context)
    }

    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<SignedTransaction, SignError>> {
        Box::pin(async move {
            let signed = self.wallet.sign(capability).await?;
            *self.signed.lock().unwrap() = Some((Instant::now(), signed));
            Err(SignError::Locked("the measurement ends here".to_owned()))
        })
    }
}

fn pipeline(criterion: &mut Criterion) {
    let runtime = bardo::base::runtime::multi_threaded(None).expect("a runtime");
    let world = runtime.block_on(TestHarness::new(1));
    // Like a wallet that has traded before: Permit2 may move its USDC.
    runtime.block_on(async {
        let permit = world.preview(world.approval(5_000_000_000)).await.expect("no objection").permit.permit_id;
        let committed = world.pipeline.commit(permit, Consent::None).await.expect("no objection");
        assert_eq!(committed.state, CommitState::Done);
    });
    let account = Arc::new(UpToTheSignature { wallet: Arc::clone(&world.wallet), signed: Mutex::new(None) });
    let swap = || async {
        let mut swap = world.swap(100_000_000).await;
        swap.legs.remove(0);
        swap
    };
    let once = || async {
        let proposal = swap().await;
        let begun = Instant::now();
        let preview = world.pipeline.preview(proposal, account.clone(), ASKED).await.expect("no objection");
        let previewed = begun.elapsed();
        assert!(world.pipeline.commit(preview.permit.permit_id, Consent::None).await.is_err());
        let (at, signed) = account.signed.lock().unwrap().take().expect("it was signed");
        (previewed, at.duration_since(begun), signed)
    };
    let total = |of: fn(&(Duration, Duration, SignedTransaction)) -> Duration, times: u64| {
        (0..times).fold(Duration::ZERO, |sum, _| sum + of(&runtime.block_on(once())))
    };
    let mut group = criterion.benchmark_group("swap");
    group.sample_size(20);
    group.bench_function("proposal to permit", |bencher| {
        bencher.iter_custom(|times| total(|(first, ..)| *first, times))
    });
    group.bench_function("proposal to signature", |bencher| {
        bencher.iter_custom(|times| total(|(_, all, _)| *all, times));
    });

    // The same swap as it would be sent, with its real Permit2 signature.
    let (_, _, signed) = runtime.block_on(once());
    let request = TransactionRequest::default()
        .with_from(world.account())
        .with_to(signed.transaction().to().expect("a call"))
        .with_input(signed.transaction().input().clone())
        .with_value(U256::ZERO);
    let call = |provider: DynProvider| {
        let (runtime, request) = (&runtime, &request);
        move || runtime.block_on(async { provider.call(request.clone()).await.expect("the swap goes through") })
    };
    let in_process = call(world.client.provider().clone());
    group.bench_function("eth_call, in process", |bencher| bencher.iter(&in_process));
    if std::env::var_os("BARDO_ANVIL").is_some() {
        let (state, timestamp, chain_id) = runtime.block_on(world.state());
        let (_anvil, provider) = runtime.block_on(bardo_testkit::anvil::start(&state, timestamp, chain_id));
        let over_http = call(provider);
        group.bench_function("eth_call, anvil over HTTP", |bencher| bencher.iter(&over_http));
    }
}

criterion_group!(benches, pipeline);
criterion_main!(benches);
