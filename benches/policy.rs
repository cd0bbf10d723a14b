//! Cost of the policy decision about one prepared swap, without disk and simulation: every check except the slippage
//! guard, on inputs gathered before (goal: under 2 µs).

use std::collections::BTreeMap;
use std::hint::black_box;

use alloy::primitives::{Address, B256, Bytes, U256, address, hex};
use bardo::base::id::{CallId, GolemId};
use bardo::base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, Phase, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo::base::text::SafeText;
use bardo::base::units::Usd;
use bardo::chain::fork::{PinnedBlock, Simulation, StateChanges};
use bardo::chain::network::{AddressBook, Network};
use bardo::chain::token::{TokenId, TokenInfo};
use bardo::safety::check_inputs::{CheckInputs, Portfolio, PortfolioHolding};
use bardo::safety::checks::operators;
use bardo::safety::checks::policy_context::PolicyContext;
use bardo::safety::ledger::{LedgerUsage, MicroUsd, SpendWindow};
use bardo::safety::policy::{Policy, PolicyPreset};
use bardo::safety::proposal::{Inflow, LegPurpose, Outflow, PlanLeg, ProposalIntent};
use bardo::safety::simulate::{SimulatedEffects, TokenMove};
use bardo::safety::value::{ActionValues, ValuedAmount};
use bardo::safety::{AccountKind, FeeBound, PayloadLeg, PayloadParts, Proposal, SigningPayload};
use criterion::{Criterion, criterion_group, criterion_main};

const ME: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const ROUTER: Address = address!("0000000000000000000000000000000000000101");
const CHAIN: u64 = 31_337;
const NOW: u64 = 1_800_000_000_000;

const META: ToolMeta = ToolMeta {
    name: "uniswap_execute_swap",
    description: "",
    category: Category::Trading,
    capability: CapabilityTier::Write,
    risk_tier: RiskTier::Layer3,
    tick_budget: TickBudget::Slow,
    progress_steps: &[],
    sprite_trigger: SpriteTrigger::Executing,
    prompt_snippet: "",
    prompt_guidelines: Guidelines { thriving: "", cautious: "", declining: "", terminal: "", memory: None },
    idempotent: false,
    action_class: ActionClass::ReadOnly,
    checks: &[],
    event_params: &[],
    summary_fields: &[],
    card: None,
    spenders: &[],
};

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

fn micros(whole: u64) -> MicroUsd {
    MicroUsd::new(whole * 1_000_000).unwrap()
}

fn token(number: u8, symbol: &str) -> TokenInfo {
    let text = SafeText::clean(symbol, 20);
    TokenInfo {
        id: TokenId::Erc20(Address::repeat_byte(number)),
        symbol: text.clone(),
        name: text,
        decimals: 18,
        listed: true,
    }
}

fn framed() -> SigningPayload {
    let data = Bytes::from([&hex!("3593564c")[..], &[0; 640]].concat());
    let leg = PlanLeg {
        purpose: LegPurpose::Main,
        to: ROUTER,
        value: U256::ZERO,
        data: data.clone(),
        gas_limit: 300_000,
        slots: vec![],
    };
    let proposal = Proposal {
        chain_id: CHAIN,
        tool: META,
        call_id: CallId::new(NOW),
        golem_id: GolemId::operator(),
        account: ME,
        intent: ProposalIntent::Swap,
        legs: vec![leg],
        outflows: vec![Outflow { token: token(1, "USDC"), amount: U256::from(500_000_000u64) }],
        inflows: vec![Inflow {
            token: token(2, "WETH"),
            at_least: U256::from(1),
            expected: U256::from(2),
            recipient: ME,
        }],
        allowances: vec![],
        trade: None,
        recipients: vec![ME],
        order: None,
        files: Vec::new(),
        replaces: None,
        arrival: None,
        expected_outcome: SafeText::default(),
    };
    let leg = PayloadLeg {
        purpose: LegPurpose::Main,
        from: ME,
        to: ROUTER,
        value: U256::ZERO,
        data,
        gas_limit: 300_000,
        slots: vec![],
    };
    let fees = FeeBound { max_fee_per_gas: 20_000_000_000, max_priority_fee_per_gas: 1 };
    SigningPayload::new(PayloadParts {
        proposal,
        kind: AccountKind::LocalKey,
        signer: ME,
        payer: ME,
        legs: vec![leg],
        order: None,
        fees,
    })
    .unwrap()
}

fn facts() -> CheckInputs {
    let (sold, bought) = (token(1, "USDC"), token(2, "WETH"));
    let pinned = PinnedBlock { chain_id: CHAIN, number: 1, hash: B256::ZERO };
    let amount =
        |id, before: u64, after: u64| TokenMove { token: id, before: U256::from(before), after: U256::from(after) };
    CheckInputs {
        asked: false,
        now_millis: NOW,
        block_time: NOW / 1_000,
        phase: Phase::Thriving,
        stop: None,
        tokens: [&sold, &bought].map(|token| (token.id, token.clone())).into(),
        values: Ok(ActionValues {
            outflows: vec![ValuedAmount {
                token: sold.clone(),
                amount: U256::from(500_000_000u64),
                usd: usd("500.25"),
            }],
            inflows: vec![ValuedAmount { token: bought.clone(), amount: U256::from(1), usd: usd("497.5") }],
            takeable: vec![],
            gas: usd("1.25"),
            spent: usd("501.5"),
            received: usd("497.5"),
            present: None,
            ..ActionValues::default()
        }),
        portfolio: Ok(Portfolio {
            holdings: vec![PortfolioHolding {
                token: bought.clone(),
                amount: U256::from(1),
                value: usd("14000"),
                highest: usd("14000"),
            }],
            equity: usd("25310.42"),
            unpriced: vec![],
            lowest: [].into(),
            ..Portfolio::default()
        }),
        simulation: Some(SimulatedEffects {
            pinned,
            gas_used: 150_000,
            gas_cost: U256::ZERO,
            class: ActionClass::IncreasePosition,
            leaves: false,
            reduce_only: false,
            only_revokes: false,
            moves: vec![amount(sold.id, 5_000, 4_500), amount(bought.id, 1, 2)],
            paid: vec![],
            lending: None,
            simulation: Simulation { pinned, outcomes: vec![], changes: StateChanges::default() },
        }),
    }
}

fn decide(criterion: &mut Criterion) {
    let policy = Policy::preset(PolicyPreset::Demo);
    let (payload, inputs) = (framed(), facts());
    let mut book = AddressBook::default();
    book.set("universalRouter", ROUTER);
    let network = Network::devnet("ethereum", CHAIN, book);
    let usage = LedgerUsage {
        now: NOW,
        windows: [100, 1_900, 9_000].map(|whole| SpendWindow { spent: micros(whole), frees_at: None }),
        tokens: BTreeMap::new(),
        trades_hour: 12,
        last_trade: Some(NOW - 60_000),
        high_water: micros(25_400),
        ..LedgerUsage::default()
    };
    let ask = |usage| {
        let context = PolicyContext::new(&policy, Ok(usage), Some(&network), &payload, &inputs);
        operators(black_box(&payload), black_box(&inputs), &context)
    };
    assert!(ask(&usage).iter().all(|verdict| !verdict.blocks()), "{:#?}", ask(&usage));
    let full =
        LedgerUsage { windows: [micros(5_000); 3].map(|spent| SpendWindow { spent, frees_at: None }), ..usage.clone() };
    assert!(ask(&full).iter().any(|verdict| verdict.blocks()));
    criterion.bench_function("policy decision, a swap that passes", |bencher| bencher.iter(|| ask(&usage)));
    criterion.bench_function("policy decision, a swap over its caps", |bencher| bencher.iter(|| ask(&full)));
}

criterion_group!(benches, decide);
criterion_main!(benches);
