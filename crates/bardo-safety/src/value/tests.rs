//! Tests of allowances beside open orders, with expected figures computed by hand.

use alloy::primitives::address;

use super::*;
use crate::proposal::{Inflow, Outflow, Proposal, ProposalIntent};
use crate::sample::{self, token};
use bardo_base::units::BasisPoints;

const ME: Address = address!("00000000000000000000000000000000000000a1");
const PERMIT2: Address = address!("00000000000000000000000000000000000000b2");
const ROUTER: Address = address!("00000000000000000000000000000000000000c3");
const WETH: Address = address!("00000000000000000000000000000000000000d4");
const USDC: Address = address!("00000000000000000000000000000000000000e5");
const UNI: Address = address!("00000000000000000000000000000000000000f6");

/// A hundredth of a token with 18 decimals.
const CENTI: u64 = 10_000_000_000_000_000;

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

/// 0.36 WETH sold, with this allowance declared to remain afterwards. At most 200,000 gas at 10 gwei.
fn framed(trade: bool, spender: Address, kind: AllowanceKind, at_most: U256) -> SigningPayload {
    let token = token(WETH, "WETH", 18);
    framed_with(trade, vec![AllowanceBound { token, spender, kind, at_most }])
}

/// Like [`payload`], with these allowances.
fn framed_with(trade: bool, allowances: Vec<AllowanceBound>) -> SigningPayload {
    let (weth, usdc) = (token(WETH, "WETH", 18), token(USDC, "USDC", 6));
    let (sold, least) = (U256::from(36 * CENTI), U256::from(1_200_000_000u64));
    let made = TradeFigures {
        token_in: weth.clone(),
        token_out: usdc.clone(),
        amount_in: sold,
        expected_out: U256::from(1_224_000_000u64),
        min_out: least,
        slippage: BasisPoints::new(200).unwrap(),
        price_impact: BasisPoints::new(1).unwrap(),
        impact_reached: BasisPoints::new(1).unwrap(),
        quoted_at: 0,
        deadline: 1,
        pools: vec![],
        exact_output: false,
    };
    let intent = if trade { ProposalIntent::Swap } else { ProposalIntent::Approve };
    let mut proposal = sample::proposal(ME, intent, sample::leg(ROUTER, vec![1, 2, 3, 4]));
    if trade {
        proposal.outflows = vec![Outflow { token: weth.clone(), amount: sold }];
        proposal.inflows = vec![Inflow { token: usdc, at_least: least, expected: least, recipient: ME }];
        proposal.trade = Some(made);
    }
    proposal.allowances = allowances;
    SigningPayload::new(sample::frame(proposal)).unwrap()
}

/// Values with WETH at 3,400 dollars, one WETH held, and 0.07 WETH promised to open orders.
fn counted(payload: &SigningPayload) -> ActionValues {
    let tokens = [
        token(WETH, "WETH", 18),
        token(USDC, "USDC", 6),
        TokenInfo {
            id: TokenId::Native,
            symbol: SafeText::clean("ETH", 5),
            name: SafeText::clean("ETH", 5),
            decimals: 18,
            listed: true,
        },
    ];
    let spreads = PriceSpreads {
        of: [("3400", WETH), ("1", USDC)]
            .map(|(price, token)| (token, Ok(PriceSpread::lagging(PriceBand::of(usd(price), None)))))
            .into(),
        wrapped: Some(WETH),
    };
    let around = JudgeContext {
        permit2: Some(PERMIT2),
        promised: [(WETH, U256::from(7 * CENTI)), (UNI, U256::from(9 * CENTI))].into(),
        ..JudgeContext::default()
    };
    let held = [(TokenId::Erc20(WETH), U256::from(100 * CENTI))].into();
    let tokens = tokens.into_iter().map(|token| (token.id, token)).collect();
    values(payload, &tokens, &spreads, &held, &around, UnpricedRule::Doubt).unwrap()
}

#[test]
fn amounts_of_open_orders_are_not_counted_again_by_a_swap() {
    let erc20 = AllowanceKind::Erc20;
    // 0.36 · 3,400 = 1,224.00 dollars out; gas 200,000 · 10 gwei = 0.002 ETH, 6.80 dollars.
    let beside = counted(&framed(true, PERMIT2, erc20, U256::from(7 * CENTI)));
    assert_eq!((beside.gas, beside.spent), (usd("6.8"), usd("1230.8")));
    assert_eq!(beside.takeable, []);
    let alone = counted(&framed(true, PERMIT2, erc20, U256::ZERO));
    assert_eq!(beside, alone, "an open order makes the swap neither dearer nor cheaper");
    // Any excess over the promised amount counts: 0.10 − 0.07 = 0.03 WETH, 102 dollars.
    let beyond = counted(&framed(true, PERMIT2, erc20, U256::from(10 * CENTI)));
    assert_eq!(beyond.spent, usd("1332.8"));
    assert_eq!(beyond.takeable[0].amount, U256::from(3 * CENTI));
    // An allowance below the promised amount reduces nothing.
    assert_eq!(counted(&framed(true, PERMIT2, erc20, U256::from(2 * CENTI))).spent, usd("1230.8"));
}

#[test]
fn only_a_trades_allowance_of_permit2_is_that_of_open_orders() {
    let (seven, erc20) = (U256::from(7 * CENTI), AllowanceKind::Erc20);
    let in_permit2 = AllowanceKind::Permit2 { expires_at: 1 };
    // 0.07 · 3,400 = 238 dollars on top of the 1,230.80.
    assert_eq!(counted(&framed(true, ROUTER, erc20, seven)).spent, usd("1468.8"), "somebody else's");
    assert_eq!(counted(&framed(true, PERMIT2, in_permit2, seven)).spent, usd("1468.8"), "one inside Permit2");
    assert_eq!(counted(&framed(false, PERMIT2, erc20, seven)).spent, usd("244.8"), "nothing but an allowance");
    // An unlimited allowance counts as the whole holding: one WETH.
    assert_eq!(counted(&framed(true, PERMIT2, erc20, U256::MAX)).spent, usd("4630.8"));
}

#[test]
fn the_worse_of_quote_and_price_counts() {
    let quoted = |expected_out: u64| {
        let sound = framed(true, PERMIT2, AllowanceKind::Erc20, U256::ZERO);
        let mut proposal = sound.proposal().clone();
        proposal.trade.as_mut().unwrap().expected_out = U256::from(expected_out);
        let values = counted(&SigningPayload::new(sample::frame(proposal)).unwrap());
        (values.outflows[0].usd, values.received)
    };
    // 0.36 WETH are 1,224 dollars by price. The quote gives 1,300 for them, so they count as 1,300. The guaranteed
    // 1,200 are 1,200 / 1,300 of the 1,224 given: 1,129.84….
    let (out, certain) = quoted(1_300_000_000);
    assert_eq!(out, usd("1300"));
    assert!(certain > usd("1129.84") && certain < usd("1129.85"), "{certain}");
    // The quote gives 1,210, so the price counts on both sides.
    assert_eq!(quoted(1_210_000_000), (usd("1224"), usd("1200")));
}

#[test]
fn an_inflow_without_a_price_counts_as_nothing_and_an_outflow_needs_one() {
    let mut proposal = framed(false, PERMIT2, AllowanceKind::Erc20, U256::ZERO).proposal().clone();
    proposal.outflows.clear();
    let (at_least, expected) = (U256::from(1), U256::from(1));
    let token = sample::token(Address::repeat_byte(0x77), "SILENT", 18);
    let recipient = proposal.account;
    proposal.inflows = vec![Inflow { token: token.clone(), at_least, expected, recipient }];
    let weighed = |proposal: &Proposal, incoming| {
        let tokens = [(token.id, token.clone())].into();
        let spreads = PriceSpreads {
            of: [(WETH, Ok(PriceSpread::lagging(PriceBand::of(usd("3400"), None))))].into(),
            wrapped: Some(WETH),
        };
        let coin = [(TokenId::Native, TokenInfo { id: TokenId::Native, ..token.clone() })];
        let tokens: BTreeMap<TokenId, TokenInfo> = coin.into_iter().chain::<BTreeMap<_, _>>(tokens).collect();
        let payload = SigningPayload::new(sample::frame(proposal.clone())).unwrap();
        values(&payload, &tokens, &spreads, &BTreeMap::new(), &JudgeContext::default(), incoming)
    };
    assert!(weighed(&proposal, UnpricedRule::Doubt).is_err());
    let back = weighed(&proposal, UnpricedRule::Nothing).unwrap();
    // 200,000 · 10 gwei = 0.002 ETH at 3,400.
    assert_eq!((back.received, back.spent), (usd("0"), usd("6.8")));
    proposal.outflows = vec![Outflow { token: token.clone(), amount: U256::from(1) }];
    assert!(weighed(&proposal, UnpricedRule::Nothing).is_err(), "what goes out is never worth nothing");
    // A native token without a price blocks only other actions, not revocations.
    let coin = TokenInfo { id: TokenId::Native, ..token.clone() };
    let unpriced = |outflows: Vec<Outflow>, incoming| {
        let payload =
            SigningPayload::new(sample::frame(Proposal { outflows, inflows: vec![], ..proposal.clone() })).unwrap();
        let tokens = [(TokenId::Native, coin.clone())].into();
        let spreads = PriceSpreads { of: BTreeMap::new(), wrapped: Some(WETH) };
        values(&payload, &tokens, &spreads, &BTreeMap::new(), &JudgeContext::default(), incoming)
    };
    assert!(unpriced(vec![], UnpricedRule::Doubt).is_err());
    assert_eq!(unpriced(vec![], UnpricedRule::Nothing).unwrap().spent, usd("0"));
    let gives = vec![Outflow { token: coin.clone(), amount: U256::from(1) }];
    assert!(unpriced(gives, UnpricedRule::Nothing).is_err());
}

#[test]
fn an_approval_through_permit2_counts_once_and_as_the_larger_of_its_two_allowances() {
    let in_permit2 = AllowanceKind::Permit2 { expires_at: 1 };
    let bound = |address: Address, spender, kind, centi: u64| AllowanceBound {
        token: token(address, "WETH", 18),
        spender,
        kind,
        at_most: U256::from(centi * CENTI),
    };
    let to_permit2 = |centi| bound(WETH, PERMIT2, AllowanceKind::Erc20, centi);
    let inside = |centi| bound(WETH, ROUTER, in_permit2, centi);
    let spent = |allowances| counted(&framed_with(false, allowances)).spent;
    // 6.80 dollars of gas, and 0.07 · 3,400 = 238 dollars once.
    assert_eq!(spent(vec![to_permit2(7), inside(7)]), usd("244.8"));
    // 0.10 · 3,400 = 340 dollars, whichever allowance is larger.
    assert_eq!(spent(vec![to_permit2(10), inside(7)]), usd("346.8"));
    assert_eq!(spent(vec![to_permit2(7), inside(10)]), usd("346.8"));
    // Several allowances inside Permit2 add up: 0.04 and 0.05 are 306 dollars.
    let other = bound(WETH, address!("00000000000000000000000000000000000000c4"), in_permit2, 5);
    assert_eq!(spent(vec![to_permit2(9), inside(4), other]), usd("312.8"));
    // An unlimited allowance counts as the whole holding, once: one WETH.
    let unlimited = AllowanceBound { at_most: U256::MAX, ..to_permit2(1) };
    assert_eq!(spent(vec![unlimited, inside(7)]), usd("3406.8"));
    // Allowances outside Permit2, and those on another token, count separately.
    assert_eq!(spent(vec![bound(WETH, ROUTER, AllowanceKind::Erc20, 7), inside(7)]), usd("482.8"));
    let usdc = AllowanceBound { token: token(USDC, "USDC", 6), at_most: U256::from(5_000_000u64), ..inside(1) };
    assert_eq!(spent(vec![to_permit2(7), usdc]), usd("249.8"));
}
