//! Lying tools and accounts, changing chains and rules: each ends in a refusal, and nothing is signed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy::eips::BlockNumberOrTag;
use alloy::primitives::{Address, U256, keccak256};
use alloy::providers::Provider as _;
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::base::error::ErrorCode;
use bardo::base::units::BasisPoints;
use bardo::chain::devnet::server;
use bardo::chain::network::KnownContract;
use bardo::chain::price::{NoPrice, PriceChain, PriceResult, PriceSource};
use bardo::safety::account::{Account as _, PayloadContext};
use bardo::safety::approval::Consent;
use bardo::safety::chain_snapshot::{SnapshotReadError, SnapshotReader};
use bardo::safety::pipeline::{CommitState, PipelineRefusal};
use bardo::safety::proposal::{AllowanceBound, AllowanceKind, LegPurpose, Outflow, ProposalIntent};
use bardo::safety::signing_payload::FeeBound;
use bardo::safety::typed::TypedMessage;
use futures::future::BoxFuture;

use crate::endpoints::connect;
use bardo_testkit::harness::{TestHarness, devnet, leg};

const HUNDRED: u64 = 100_000_000;
const STRANGER: Address = Address::repeat_byte(0x51);

fn rules(world: &(ErrorCode, std::collections::BTreeSet<String>)) -> Vec<&str> {
    world.1.iter().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_lies_about_what_it_does_is_refused() {
    let world = TestHarness::new(6).await;
    let honest = world.swap(HUNDRED).await;
    assert!(world.preview(honest.clone()).await.is_ok());

    let mut less_out = honest.clone();
    less_out.outflows[0].amount -= U256::from(1);
    less_out.trade.as_mut().unwrap().amount_in -= U256::from(1);
    let refused = world.refused(less_out).await;
    assert_eq!(refused.0, ErrorCode::SafetySimulationFailed);
    assert!(rules(&refused).contains(&"outflow"), "{refused:?}");

    let mut more_in = honest.clone();
    more_in.inflows[0].at_least = more_in.inflows[0].expected + U256::from(1);
    assert!(rules(&world.refused(more_in).await).contains(&"inflow"));

    let mut unnamed_in = honest.clone();
    unnamed_in.inflows.clear();
    unnamed_in.trade = None;
    assert!(rules(&world.refused(unnamed_in).await).contains(&"undeclared_inflow"));

    // The allowance remains: its spender is declared, but not that it remains.
    let permit2 = world.contract(KnownContract::Permit2);
    let mut stays = honest.clone();
    stays.legs = vec![world.approve(LegPurpose::Approve, permit2, U256::from(HUNDRED * 2)), stays.legs[1].clone()];
    assert!(rules(&world.refused(stays).await).contains(&"allowance"));

    // To another account, in a declared swap.
    let transfer = Erc20::transferCall { to: STRANGER, value: U256::from(HUNDRED) };
    let mut theft = honest.clone();
    theft.legs = vec![leg(LegPurpose::Main, world.contract_of(&world.usdc), transfer.abi_encode().into())];
    assert!(rules(&world.refused(theft.clone()).await).contains(&"inflow"));
    // And without a declared inflow.
    theft.inflows.clear();
    theft.trade = None;
    assert!(rules(&world.refused(theft).await).contains(&"recipient"));

    // The declared inflow arrives today, but the calldata would accept less tomorrow.
    let soft = world.swap_enforcing(HUNDRED, Some(U256::from(1))).await;
    assert_eq!(rules(&world.refused(soft).await), ["calldata"]);

    // A signature over more than is declared.
    let mut wide = honest.clone();
    let TypedMessage::Permit2Allowance { permit, .. } = &mut wide.legs[1].slots[0].message else { panic!() };
    permit.details.amount = alloy::primitives::aliases::U160::MAX;
    let refused = world.refused(wide).await;
    assert!(rules(&refused).contains(&"signature") && rules(&refused).contains(&"calldata"), "{refused:?}");

    // An unknown call.
    let mut unknown = honest.clone();
    unknown.legs[1].data = vec![0xde, 0xad, 0xbe, 0xef].into();
    unknown.legs[1].slots.clear();
    assert!(rules(&world.refused(unknown).await).contains(&"calldata"));

    let mut other_token = honest.clone();
    other_token.outflows[0].token.decimals = 18;
    assert_eq!(world.refused(other_token).await.0, ErrorCode::SafetyPriceUnknown);
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_violated_rule_is_named_at_once() {
    let world = TestHarness::new(6).await;
    *world.book.cap.lock().unwrap() = "10".parse().unwrap();
    let mut bad = world.swap(HUNDRED).await;
    let trade = bad.trade.as_mut().unwrap();
    trade.slippage = BasisPoints::new(300).unwrap();
    trade.price_impact = BasisPoints::new(500).unwrap();
    trade.quoted_at -= 120_000;
    let (code, rules) = world.refused(bad).await;
    // The first blocking check determines the error code; all are reported.
    assert_eq!(code, ErrorCode::SafetySpendingLimitExceeded);
    let wanted = ["max_price_impact_bps", "max_quote_age_seconds", "max_single_trade_usd", "max_slippage_bps"];
    assert_eq!(rules.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trade_that_guarantees_too_little_is_refused() {
    let world = TestHarness::new(6).await;
    let mut cheap = world.swap(HUNDRED).await;
    let half = cheap.inflows[0].expected / U256::from(2);
    // The tool declares it itself, with its quote: only other price sources reveal it.
    cheap.inflows[0].at_least = half;
    cheap.inflows[0].expected = half;
    let trade = cheap.trade.as_mut().unwrap();
    (trade.expected_out, trade.min_out) = (half, half);
    let (code, rules) = world.refused(cheap).await;
    assert_eq!(code, ErrorCode::SafetySlippage);
    assert!(rules.contains("max_loss_bps"), "{rules:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlimited_allowance_counts_as_the_whole_balance() {
    let world = TestHarness::new(6).await;
    let permit2 = world.contract(KnownContract::Permit2);
    let mut proposal =
        world.proposal(ProposalIntent::Approve, vec![world.approve(LegPurpose::Main, permit2, U256::MAX)]);
    proposal.allowances = vec![AllowanceBound {
        token: world.usdc.clone(),
        spender: permit2,
        kind: AllowanceKind::Erc20,
        at_most: U256::MAX,
    }];
    *world.book.cap.lock().unwrap() = "9999".parse().unwrap();
    let (code, _) = world.refused(proposal).await;
    // The account holds 10,000 USDC or more.
    assert_eq!(code, ErrorCode::SafetySpendingLimitExceeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_rules_or_prices_invalidate_the_permit() {
    let world = TestHarness::new(7).await;
    let code = |refusal: PipelineRefusal| refusal.code;
    let permit = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
    *world.book.version.lock().unwrap() = keccak256("other rules");
    let refused = world.pipeline.commit(permit, Consent::None).await.map_err(code);
    assert_eq!(refused.err(), Some(ErrorCode::PermitMismatch));

    // The account's money leaves meanwhile: the swap would revert. What other tests left in the account counts as well, so that
    // no limit may hinder it; here it is always more than the usual ones.
    let plenty = OpenMint::mintCall { to: world.account(), value: U256::from(200_000_000_000_u64) };
    world.send(world.contract_of(&world.usdc), plenty).await;
    for limit in [&world.book.cap, &world.book.hot_lane] {
        *limit.lock().unwrap() = "100000000".parse().unwrap();
    }
    let permit = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
    let everything = world.balance(&world.usdc).await;
    let transfer = Erc20::transferCall { to: STRANGER, value: everything };
    let mut away = world.proposal(
        ProposalIntent::Transfer,
        vec![leg(LegPurpose::Main, world.contract_of(&world.usdc), transfer.abi_encode().into())],
    );
    away.outflows = vec![Outflow { token: world.usdc.clone(), amount: everything }];
    away.recipients = vec![STRANGER];
    let moving = world.preview(away.clone()).await.unwrap().permit.permit_id;
    // It pays a recipient for the first time, which needs approval.
    let without = world.pipeline.commit(moving, Consent::None).await.map_err(code);
    assert_eq!(without.err(), Some(ErrorCode::ApprovalRequired));
    let moving = world.preview(away).await.unwrap().permit.permit_id;
    let moved = world.pipeline.commit(moving, Consent::Always).await.unwrap();
    assert_eq!(moved.state, CommitState::Done, "{:?}", moved.remarks);
    let refused = world.pipeline.commit(permit, Consent::None).await.map_err(code);
    assert_eq!(refused.err(), Some(ErrorCode::PermitMismatch));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_over_other_bytes_is_not_sent() {
    let world = TestHarness::new(8).await;
    let nonce = world.nonce().await;
    for falsify in [
        (|transaction| transaction.value = U256::from(1)) as fn(&mut alloy::consensus::TxEip1559),
        |transaction| transaction.input = vec![1, 2, 3, 4].into(),
        |transaction| transaction.max_fee_per_gas *= 1_000,
        |transaction| transaction.max_priority_fee_per_gas += 1,
        |transaction| transaction.gas_limit += 1,
        |transaction| transaction.nonce += 1,
        |transaction| transaction.chain_id = 31_338,
        |transaction| transaction.to = STRANGER.into(),
    ] {
        let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
        *world.wallet.falsify.lock().unwrap() = Some(falsify);
        let refused = world.pipeline.commit(permit, Consent::None).await;
        assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::PermitMismatch));
        *world.wallet.falsify.lock().unwrap() = None;
    }
    assert_eq!(world.nonce().await, nonce);
    // Every nonce was freed: the next action takes the first again.
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    let committed = world.pipeline.commit(permit, Consent::None).await.unwrap();
    assert_eq!(committed.legs[0].nonce, nonce);
}

/// Feeds behind an endpoint that fails on the first request.
#[derive(Debug)]
struct FailsOnce {
    feeds: PriceChain,
    asked: AtomicU64,
}

impl PriceSource for FailsOnce {
    fn name(&self) -> &'static str {
        "feeds that fail once"
    }

    fn prices<'a>(&'a self, tokens: &'a [Address]) -> BoxFuture<'a, Vec<PriceResult>> {
        Box::pin(async move {
            if self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
                return tokens.iter().map(|_| Err(NoPrice::NoAnswer)).collect();
            }
            self.feeds.prices(tokens).await.into_iter().map(|report| Ok(report.require().unwrap().clone())).collect()
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_price_read_is_repeated_on_the_same_block() {
    let world = TestHarness::new(6).await;
    let feeds = PriceChain::for_chain(&world.client, &Default::default(), world.clock.clone()).unwrap();
    let source = Arc::new(FailsOnce { feeds, asked: AtomicU64::new(0) });
    let reader = SnapshotReader::new(world.client.clone(), PriceChain::new(vec![source]), "10000".parse().unwrap());
    let head = world.client.provider().get_block_by_number(BlockNumberOrTag::Latest).await.unwrap().unwrap();
    let (token, block) = ([world.usdc.id], head.header.hash);

    assert!(reader.spreads_on(block, &token, &[]).await.get(world.usdc.id).is_err());
    assert!(reader.spreads_on(block, &token, &[]).await.get(world.usdc.id).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_chain_is_not_reported_as_a_bad_token() {
    let world = TestHarness::new(6).await;
    let served = server::serve(devnet().devnet.clone(), 0).await.unwrap();
    let client = connect(world.client.network(), &[served.url()]).await;
    let reader = SnapshotReader::new(client, PriceChain::default(), "10000".parse().unwrap());
    let fees = FeeBound { max_fee_per_gas: 1_000_000_000, max_priority_fee_per_gas: 1 };
    let context = PayloadContext { chain_id: 31_337, fees };
    let payload = world.wallet.prepare_payload(world.swap(HUNDRED).await, &context).unwrap();
    assert!(reader.tokens(&payload, alloy::eips::BlockId::latest()).await.is_ok());
    // A dropped server would still answer on the open connection for a moment.
    served.stop().await;
    let untold = reader.tokens(&payload, alloy::eips::BlockId::latest()).await.unwrap_err();
    assert!(matches!(untold, SnapshotReadError::Chain(_)), "{untold:?}");
}
