//! The safety-guardian about a bridge: what arrives over there is valued by its own prices of that chain and held
//! against its own reading of the list.

use std::sync::Arc;

use alloy::primitives::{Address, U256};
use bardo::base::clock::{Clock, SystemClock};
use bardo::chain::price::PriceChain;
use bardo::chain::token::TokenId;
use bardo::engine::{Call, Input, Offered};
use bardo::golem::guardian::SafetyGuardian;
use bardo::safety::framed::Frame;
use bardo::safety::guardian::{Case, Guardian as _};
use bardo::safety::pipeline::Preview;
use bardo::safety::policy::Preset;
use bardo::safety::proposal::Arrival;
use serde_json::json;

use crate::bridges::Bridge;

/// A frame like the one that was previewed, which says otherwise what arrives.
async fn said_of(guardian: &SafetyGuardian, preview: &Preview, changed: impl FnOnce(&mut Arrival)) -> (bool, String) {
    let mut proposal = preview.framed.proposal().clone();
    changed(proposal.order.as_mut().unwrap().arrival.as_mut().unwrap());
    let framed = bardo::safety::Framed::new(Frame {
        proposal,
        kind: preview.framed.kind(),
        signer: preview.framed.signer(),
        payer: preview.framed.payer(),
        legs: preview.framed.legs().to_vec(),
        order: preview.framed.order().cloned(),
        fees: preview.framed.fees(),
    });
    let framed = framed.unwrap();
    let case = Case { framed: &framed, simulated: &preview.simulated, values: &preview.values };
    match guardian.review(case).await {
        Ok(opinion) => (opinion.agrees, opinion.why.to_string()),
        Err(error) => (false, error.to_string()),
    }
}

/// What a bridge brings is over there: the guardian reads its token, its price and its list there, and believes neither
/// the proposal nor the pipeline.
#[tokio::test(flavor = "multi_thread")]
async fn it_values_by_itself_what_a_bridge_brings() {
    let bridge = Bridge::open().await;
    let folder = tempfile::tempdir().unwrap();
    let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "100", "source_chain": "ethereum",
                        "destination_chain": "base"});
    let call = Call::new("uniswap_submit_cross_chain_intent", Input::Json(params));
    let offer = match bridge.executor.offer(call).await {
        Offered::Held(offer) => offer,
        Offered::Over(response) => panic!("{response:#?}"),
    };
    let preview = offer.preview().clone();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let watched = |count: usize| {
        let chains = bridge.world.chains().iter().take(count).map(|chain| {
            let prices = PriceChain::for_chain(&chain.client, &Default::default(), clock.clone()).unwrap();
            (chain.client.clone(), prices)
        });
        SafetyGuardian::new(chains, folder.path().join("policy.toml"), Preset::Demo)
    };
    let guardian = watched(2);
    let (agrees, why) = said_of(&guardian, &preview, |_| {}).await;
    assert!(agrees && why.contains("over there"), "{why}");
    // 100 dollars go out for one over there: 1,000,000 smallest units of USDC.
    let (agrees, why) = said_of(&guardian, &preview, |arrival| arrival.at_least = U256::from(1_000_000)).await;
    assert!(!agrees && why.contains("for at least $1"), "{why}");
    // Worth a hundred dollars by the decimals that the proposal claims, and a ten-thousandth of it by the chain's.
    let (agrees, why) = said_of(&guardian, &preview, |arrival| {
        arrival.token.decimals = 2;
        arrival.at_least = U256::from(10_000);
    })
    .await;
    assert!(!agrees && why.contains("for at least $0.01"), "{why}");
    // A token that is on no list there.
    let (agrees, why) = said_of(&guardian, &preview, |arrival| {
        arrival.token.id = TokenId::Erc20(Address::repeat_byte(7));
    })
    .await;
    assert!(!agrees, "{why}");
    // What it does not watch it does not agree to.
    let (agrees, why) = said_of(&watched(1), &preview, |_| {}).await;
    assert!(!agrees && why.contains("does not watch chain 31338"), "{why}");
    offer.take_back().await;
}

/// A policy of its own reading that does not list what arrives.
#[tokio::test(flavor = "multi_thread")]
async fn it_holds_what_arrives_against_the_list_of_its_chain() {
    let bridge = Bridge::open().await;
    let folder = tempfile::tempdir().unwrap();
    let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "100", "source_chain": "ethereum",
                        "destination_chain": "base"});
    let call = Call::new("uniswap_submit_cross_chain_intent", Input::Json(params));
    let Offered::Held(offer) = bridge.executor.offer(call).await else { panic!("no offer") };
    let preview = offer.preview().clone();
    let TokenId::Erc20(here) = preview.framed.proposal().outflows[0].token.id else { panic!("no token") };
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, format!("preset = \"demo\"\nallowed_tokens = [\"31337:{here}\"]\n")).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let chains = bridge.world.chains().iter().map(|chain| {
        let prices = PriceChain::for_chain(&chain.client, &Default::default(), clock.clone()).unwrap();
        (chain.client.clone(), prices)
    });
    let guardian = SafetyGuardian::new(chains, policy, Preset::Demo);
    let (agrees, why) = said_of(&guardian, &preview, |_| {}).await;
    assert!(!agrees && why.contains("USDC is not on the policy's list"), "{why}");
    offer.take_back().await;
}
