//! The safety-guardian alone: it values a bridge's inflow by its own prices of the destination chain and checks it
//! against its own reading of the allowlist; it simulates the bytes on its own fork.

use std::path::Path;
use std::sync::Arc;

use alloy::primitives::aliases::{U48, U160};
use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::abi::nft::Erc721;
use bardo::abi::permit2::Permit2;
use bardo::base::clock::{Clock, SystemClock};
use bardo::chain::network::KnownContract;
use bardo::chain::price::PriceChain;
use bardo::chain::token::TokenId;
use bardo::engine::{PreviewResult, ToolCall, ToolInput};
use bardo::golem::guardian::SafetyGuardian;
use bardo::safety::account::{Account as _, PayloadContext};
use bardo::safety::guardian::{Guardian as _, ReviewCase};
use bardo::safety::pipeline::Preview;
use bardo::safety::policy::PolicyPreset;
use bardo::safety::proposal::{BridgeArrival, LegPurpose, Proposal};
use bardo::safety::signing_payload::PayloadParts;
use serde_json::json;

use crate::bridges::Bridge;
use bardo_testkit::harness::{TestHarness, leg};

/// Opinion about a payload like the previewed one, with another declared arrival.
async fn said_of(
    guardian: &SafetyGuardian,
    preview: &Preview,
    changed: impl FnOnce(&mut BridgeArrival),
) -> (bool, String) {
    let mut proposal = preview.payload.proposal().clone();
    changed(proposal.order.as_mut().unwrap().arrival.as_mut().unwrap());
    let payload = bardo::safety::SigningPayload::new(PayloadParts {
        proposal,
        kind: preview.payload.kind(),
        signer: preview.payload.signer(),
        payer: preview.payload.payer(),
        legs: preview.payload.legs().to_vec(),
        order: preview.payload.order().cloned(),
        fees: preview.payload.fees(),
    });
    let payload = payload.unwrap();
    let case = ReviewCase { payload: &payload, simulated: &preview.simulated, values: &preview.values, shifts: &[] };
    match guardian.review(case).await {
        Ok(opinion) => (opinion.agrees, opinion.why.to_string()),
        Err(error) => (false, error.to_string()),
    }
}

/// A bridge's inflow is on the other chain: the guardian reads its token, its price and its allowlist there, and trusts
/// neither the proposal nor the pipeline.
#[tokio::test(flavor = "multi_thread")]
async fn it_values_a_bridge_orders_arrival_itself() {
    let bridge = Bridge::open().await;
    let folder = tempfile::tempdir().unwrap();
    let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "100", "source_chain": "ethereum",
                        "destination_chain": "base"});
    let call = ToolCall::new("uniswap_submit_cross_chain_intent", ToolInput::Json(params));
    let offer = match bridge.executor.offer(call).await {
        PreviewResult::Held(offer) => offer,
        PreviewResult::Over(response) => panic!("{response:#?}"),
    };
    let preview = offer.preview().clone();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let watched = |count: usize| {
        let chains = bridge.world.chains().iter().take(count).map(|chain| {
            let prices = PriceChain::for_chain(&chain.client, &Default::default(), clock.clone()).unwrap();
            (chain.client.clone(), prices)
        });
        SafetyGuardian::new(chains, folder.path().join("policy.toml"), PolicyPreset::Demo)
    };
    let guardian = watched(2);
    let (agrees, why) = said_of(&guardian, &preview, |_| {}).await;
    assert!(agrees && why.contains("on the other chain"), "{why}");
    // 100 dollars leave for one on the destination: 1,000,000 raw units of USDC.
    let (agrees, why) = said_of(&guardian, &preview, |arrival| arrival.at_least = U256::from(1_000_000)).await;
    assert!(!agrees && why.contains("for at least $1"), "{why}");
    // Worth a hundred dollars by the proposal's decimals, and a ten-thousandth of it by the chain's.
    let (agrees, why) = said_of(&guardian, &preview, |arrival| {
        arrival.token.decimals = 2;
        arrival.at_least = U256::from(10_000);
    })
    .await;
    assert!(!agrees && why.contains("for at least $0.01"), "{why}");
    // A token that is not on the allowlist there.
    let (agrees, why) = said_of(&guardian, &preview, |arrival| {
        arrival.token.id = TokenId::Erc20(Address::repeat_byte(7));
    })
    .await;
    assert!(!agrees, "{why}");
    // It does not agree to chains that it does not watch.
    let (agrees, why) = said_of(&watched(1), &preview, |_| {}).await;
    assert!(!agrees && why.contains("has no access to chain 31338"), "{why}");
    offer.withdraw().await;
}

/// A separately read policy that does not list the arriving token.
#[tokio::test(flavor = "multi_thread")]
async fn it_checks_an_arrival_against_the_destinations_token_list() {
    let bridge = Bridge::open().await;
    let folder = tempfile::tempdir().unwrap();
    let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "100", "source_chain": "ethereum",
                        "destination_chain": "base"});
    let call = ToolCall::new("uniswap_submit_cross_chain_intent", ToolInput::Json(params));
    let PreviewResult::Held(offer) = bridge.executor.offer(call).await else { panic!("no offer") };
    let preview = offer.preview().clone();
    let TokenId::Erc20(here) = preview.payload.proposal().outflows[0].token.id else { panic!("no token") };
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, format!("preset = \"demo\"\nallowed_tokens = [\"31337:{here}\"]\n")).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let chains = bridge.world.chains().iter().map(|chain| {
        let prices = PriceChain::for_chain(&chain.client, &Default::default(), clock.clone()).unwrap();
        (chain.client.clone(), prices)
    });
    let guardian = SafetyGuardian::new(chains, policy, PolicyPreset::Demo);
    let (agrees, why) = said_of(&guardian, &preview, |_| {}).await;
    assert!(!agrees && why.contains("USDC is not on the policy's list"), "{why}");
    offer.withdraw().await;
}

/// Guardian over the shared devnet, with its own policy.
fn own_of(world: &TestHarness, policy: &Path) -> SafetyGuardian {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let prices = PriceChain::for_chain(&world.client, &Default::default(), clock).unwrap();
    SafetyGuardian::new([(world.client.clone(), prices)], policy.to_owned(), PolicyPreset::Demo)
}

/// Opinion about this proposal in a new payload; the other inputs are those of the pipeline for the swap.
async fn said_of_swap(
    world: &TestHarness,
    guardian: &SafetyGuardian,
    preview: &Preview,
    proposal: Proposal,
) -> (bool, String) {
    let context = PayloadContext { chain_id: 31_337, fees: preview.payload.fees() };
    let payload = world.wallet.prepare_payload(proposal, &context).unwrap();
    let case = ReviewCase { payload: &payload, simulated: &preview.simulated, values: &preview.values, shifts: &[] };
    match guardian.review(case).await {
        Ok(opinion) => (opinion.agrees, opinion.why.to_string()),
        Err(error) => (false, error.to_string()),
    }
}

/// It runs the bytes on its own fork and objects to undeclared effects, whatever the pipeline found.
#[tokio::test(flavor = "multi_thread")]
async fn it_simulates_the_calldata_itself() {
    let world = TestHarness::new(4).await;
    let folder = tempfile::tempdir().unwrap();
    let guardian = own_of(&world, &folder.path().join("policy.toml"));
    let proposal = world.swap(100_000_000).await;
    let preview = world.preview(proposal.clone()).await.unwrap();
    let (agrees, why) = said_of_swap(&world, &guardian, &preview, proposal.clone()).await;
    assert!(agrees && why.contains("own USDC price $") && why.contains("own WETH price $"), "{why}");

    let (thief, usdc) = (Address::repeat_byte(0xba), world.contract_of(&world.usdc));
    let with = |to: Address, data: Vec<u8>| {
        let mut proposal = proposal.clone();
        proposal.legs.push(leg(LegPurpose::CleanUp, to, data.into()));
        proposal
    };
    let mut half = proposal.clone();
    half.outflows[0].amount = U256::from(50_000_000);
    let mut more = proposal.clone();
    more.inflows[0].at_least = more.inflows[0].expected * U256::from(2);
    let approves = Erc20::approveCall { spender: thief, value: U256::from(5) }.abi_encode();
    let pays = Erc20::transferCall { to: thief, value: U256::from(5) }.abi_encode();
    let permit2 = world.contract(KnownContract::Permit2);
    let amount = U160::from(5);
    let allows =
        Permit2::approveCall { token: usdc, spender: thief, amount, expiration: U48::from(u32::MAX) }.abi_encode();
    let operates = Erc721::setApprovalForAllCall { operator: thief, approved: true }.abi_encode();
    let positions = world.contract(KnownContract::V3PositionManager);
    for (changed, words) in [
        (half, format!("more of {usdc} leaves than declared")),
        (with(usdc, pays), format!("more of {usdc} leaves than declared")),
        (more, "less WETH arrives than the declared minimum".to_owned()),
        (with(usdc, approves), format!("{thief} may take more of {usdc} than declared")),
        (with(permit2, allows), format!("{thief} may take more of {usdc} through Permit2 than declared")),
        (with(positions, operates), format!("{thief} may take everything of {positions}")),
    ] {
        let (agrees, why) = said_of_swap(&world, &guardian, &preview, changed).await;
        assert!(!agrees && why.contains(&words), "{words}: {why}");
    }
}

/// It computes price and size itself: a swap with too large a loss, one above its own reading of the largest trade, and
/// a pipeline figure far from its own.
#[tokio::test(flavor = "multi_thread")]
async fn it_values_a_swap_itself() {
    let world = TestHarness::new(5).await;
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    let guardian = own_of(&world, &policy);
    let proposal = world.swap(100_000_000).await;
    let preview = world.preview(proposal.clone()).await.unwrap();
    let mut cheap = proposal.clone();
    cheap.inflows[0].at_least = U256::from(1_000_000_000_000_000_u64);
    let (agrees, why) = said_of_swap(&world, &guardian, &preview, cheap).await;
    // A thousandth of a WETH is a few dollars, whatever the market does.
    assert!(!agrees && why.contains("at its own prices, $100") && why.contains("is paid for at least $"), "{why}");

    // The pipeline's figure must equal its own within a few percent, or it objects.
    let counting = |spent: &str| {
        let mut preview = preview.clone();
        preview.values.spent = spent.parse().unwrap();
        preview
    };
    let (agrees, why) = said_of_swap(&world, &guardian, &counting("80"), proposal.clone()).await;
    assert!(!agrees && why.contains("but the pipeline at $80"), "{why}");
    let (agrees, why) = said_of_swap(&world, &guardian, &counting("110"), proposal.clone()).await;
    assert!(agrees, "counting too much is careful: {why}");

    std::fs::write(&policy, "preset = \"demo\"\nmax_single_trade_usd = \"60\"\n").unwrap();
    let (agrees, why) = said_of_swap(&world, &guardian, &preview, proposal).await;
    assert!(!agrees && why.contains("is above the limit for one trade"), "{why}");
}
