//! Generated cases, and their conversion into inputs of the checks.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, U256, address, hex};
use rand::Rng;
use rand::seq::IndexedRandom;

use super::META;
use crate::account::AccountKind;
use crate::check_inputs::{CheckInputs, Portfolio, PortfolioHolding};
use crate::checks::policy_context::PolicyContext;
use crate::checks::{operators, slippage};
use crate::ledger::{FailureBreaker, LedgerUsage, MicroUsd, SpendWindow};
use crate::policy::{Policy, PolicyError, parse};
use crate::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent, TradeFigures,
};
use crate::signing_payload::{FeeBound, PayloadLeg, PayloadParts, SigningPayload};
use crate::simulate::{SimulatedEffects, TokenMove};
use crate::value::{ActionValues, ExchangeValue, PriceConcern, UnknownValue, ValuedAmount};
use crate::verdict::Verdict;
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{ActionClass, Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Usd};
use golem_chain::fork::{PinnedBlock, Simulation, StateChanges};
use golem_chain::network::{AddressBook, Network};
use golem_chain::token::{TokenId, TokenInfo};

pub(super) const ME: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
pub(super) const FRIEND: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
pub(super) const ROUTER: Address = address!("0000000000000000000000000000000000000101");
pub(super) const PERMIT2: Address = address!("0000000000000000000000000000000000000102");
pub(super) const STRANGER: Address = address!("0000000000000000000000000000000000000999");
pub(super) const LISTED: Address = address!("0000000000000000000000000000000000000201");
pub(super) const OTHER: Address = address!("0000000000000000000000000000000000000202");
const EXECUTE: [u8; 4] = hex!("3593564c");
/// Friday, 15 January 2027, 08:00 UTC, in milliseconds since the Unix epoch.
const NOW: u64 = 1_800_000_000_000;
const HOUR: u64 = 3_600_000;

/// One case in plain figures, in whole dollars.
#[derive(Debug, Clone)]
pub(super) struct ModelCase {
    // The policy.
    pub single: Option<u64>,
    pub per_transaction: Option<u64>,
    pub hour: Option<u64>,
    pub day: Option<u64>,
    pub month: Option<u64>,
    pub token_once: Option<u64>,
    pub token_day: Option<u64>,
    pub position: Option<u64>,
    /// Limit for a holding that only pools price, and for the share of such holdings in the equity.
    pub unfed_most: Option<u64>,
    pub gas_most: Option<u64>,
    pub gwei_most: Option<u64>,
    pub allowance_most: Option<u64>,
    pub unlimited_allowed: bool,
    pub allowance_seconds: u64,
    pub tokens: &'static str,
    pub tool_listed: bool,
    pub chain_listed: bool,
    pub intent_listed: bool,
    pub protocol_listed: bool,
    pub wallet_listed: bool,
    pub recipients: &'static str,
    pub contracts: &'static str,
    pub spenders: &'static str,
    pub trades_most: u32,
    pub calls_most: u32,
    pub cooldown: u64,
    pub stop_loss: u32,
    /// First and last weekday, Monday being 0, and first and last hour of the day.
    pub hours: Option<(u64, u64, u64, u64)>,
    pub slippage_most: u32,
    pub impact_most: u32,
    pub loss_most: u32,
    /// Maximum quote age in seconds.
    pub quote_most: u64,
    /// Overrides of the preset's figures for the phase.
    pub figures: Option<PhaseFigures>,
    // Usage of the limits.
    pub spent: [u64; 3],
    pub token_spent: u64,
    pub token_moved: u64,
    pub coming: u64,
    pub trades: u32,
    /// Number of revocations in the last hour, and their limit.
    pub revocations: u32,
    pub revocations_most: u32,
    /// Gas cost of a day's revocations, in dollars.
    pub revocations_day: u64,
    /// Exit sales of agents within a day, in dollars.
    pub exits_day: u64,
    /// True if the operator acts, not an agent.
    pub by_hand: bool,
    pub calls: u32,
    pub last_trade_ago: Option<u64>,
    pub breaker: u8,
    pub high_water: u64,
    pub ledger: bool,
    /// True if the sold token is in a recorded liquidation plan.
    pub planned: bool,
    // The action.
    /// Minutes since Friday, 08:00.
    pub minute: u64,
    pub trade: Option<ModelTrade>,
    /// Guaranteed inflow at the least favourable prices, in dollars.
    pub received: u64,
    /// Outflow and inflow by the prices that do not lag, in dollars.
    pub present: Option<(u64, u64)>,
    /// True if the action is only an exit.
    pub leaves: bool,
    pub phase: Phase,
    pub stop: Option<StopLevel>,
    pub class: ActionClass,
    pub reduce_only: bool,
    pub only_revokes: bool,
    pub token_out_listed: bool,
    pub out: Option<u64>,
    pub gas: u64,
    pub gwei: u64,
    pub left_over: u64,
    pub allowance: u8,
    pub recipient_is_me: bool,
    pub target: u8,
    pub equity: Option<u64>,
    pub held: u64,
    pub sold_percent: u64,
    /// True if only pools price the bought token.
    pub unfed: bool,
    pub by_pools: u64,
}

/// Figures of a phase; shares in basis points.
#[derive(Debug, Clone, Copy)]
pub(super) struct PhaseFigures {
    pub size: u64,
    pub slippage: u32,
    pub impact: u32,
    pub exits_only: bool,
    pub share: u64,
}

/// A trade of 1,000 for 10,000 raw units; shares in basis points.
#[derive(Debug, Clone)]
pub(super) struct ModelTrade {
    pub slippage: u32,
    pub impact: u32,
    /// Price impact rounded down; `impact` is rounded up.
    pub reached: u32,
    /// Milliseconds since the quote; negative for a quote from the future.
    pub age: i64,
    /// Seconds until the deadline.
    pub deadline: i64,
    /// True for an exact-output trade.
    pub exact: bool,
    /// Difference between the least output and the quote less the slippage.
    pub more: i64,
    pub nothing_in: bool,
    pub nothing_out: bool,
}

impl ModelTrade {
    /// Least output of the trade, in raw units.
    fn least(&self) -> i64 {
        let promised = if self.exact { 10_000 } else { 10_000 - i64::from(self.slippage) };
        if self.nothing_out { 0 } else { promised + self.more }
    }
}

fn usd(whole: u64) -> Usd {
    Usd::from_scaled(U256::from(whole), 0).unwrap()
}

fn micros(whole: u64) -> MicroUsd {
    MicroUsd::new(whole * 1_000_000).unwrap()
}

fn token(address: Address, listed: bool) -> TokenInfo {
    let symbol = if listed { "GOOD" } else { "ODD" };
    let text = SafeText::clean(symbol, 20);
    TokenInfo { id: TokenId::Erc20(address), symbol: text.clone(), name: text, decimals: 18, listed }
}

impl ModelCase {
    pub(super) fn random(random: &mut impl Rng) -> Self {
        fn maybe(random: &mut impl Rng, around: u64) -> Option<u64> {
            random.random_bool(0.6).then(|| random.random_range(around / 2..=around * 3))
        }
        let out: u64 = random.random_range(0..150);
        let mut pick = |all: &[&'static str]| *all.choose(random).unwrap();
        let (tokens, recipients) =
            (pick(&["bundled", "bundled", "all", "one"]), pick(&["self", "self", "all", "friend"]));
        let (contracts, spenders) = (
            pick(&["book", "book", "all", "stranger", "function", "another"]),
            pick(&["book", "book", "all", "stranger"]),
        );
        let reduce_only = random.random_bool(0.25);
        let only_revokes = !reduce_only && random.random_bool(0.15);
        let mostly = |random: &mut _, chance| Rng::random_bool(random, chance);
        Self {
            single: maybe(random, 100),
            per_transaction: maybe(random, 100),
            hour: maybe(random, 300),
            day: maybe(random, 600),
            month: maybe(random, 1_500),
            token_once: maybe(random, 150),
            token_day: maybe(random, 200),
            position: maybe(random, 300),
            unfed_most: maybe(random, 150),
            gas_most: maybe(random, 6),
            gwei_most: maybe(random, 40),
            allowance_most: maybe(random, 60),
            unlimited_allowed: mostly(random, 0.2),
            allowance_seconds: 600,
            tokens,
            tool_listed: mostly(random, 0.9),
            chain_listed: mostly(random, 0.9),
            intent_listed: mostly(random, 0.9),
            protocol_listed: mostly(random, 0.9),
            wallet_listed: mostly(random, 0.9),
            recipients,
            contracts,
            spenders,
            trades_most: random.random_range(0..8),
            calls_most: random.random_range(0..8),
            cooldown: *[0, 60, 300].choose(random).unwrap(),
            stop_loss: *[0, 5, 10, 100].choose(random).unwrap(),
            hours: random.random_bool(0.3).then(|| {
                let (first, from) = (random.random_range(0..7), random.random_range(0..24));
                (first, random.random_range(first..7), from, random.random_range(from + 1..=24))
            }),
            slippage_most: random.random_range(20..250),
            impact_most: random.random_range(20..250),
            loss_most: random.random_range(0..1_500),
            quote_most: random.random_range(10..60),
            figures: random.random_bool(0.4).then(|| PhaseFigures {
                size: *[10_000, 5_000, 2_500].choose(random).unwrap(),
                slippage: random.random_range(20..250),
                impact: *[10_000, 150, 50].choose(random).unwrap(),
                exits_only: random.random_bool(0.3),
                share: *[10_000, 5_000, 1_000].choose(random).unwrap(),
            }),
            spent: {
                let hour = random.random_range(0..250);
                let day = hour + random.random_range(0..300);
                [hour, day, day + random.random_range(0..900)]
            },
            token_spent: random.random_range(0..250),
            token_moved: random.random_range(0..150),
            coming: if mostly(random, 0.5) { random.random_range(0..120) } else { 0 },
            trades: random.random_range(0..8),
            revocations: random.random_range(0..6),
            revocations_most: random.random_range(0..6),
            revocations_day: random.random_range(0..60),
            exits_day: random.random_range(0..400),
            by_hand: random.random_bool(0.4),
            calls: random.random_range(0..8),
            last_trade_ago: random.random_bool(0.7).then(|| random.random_range(0..400)),
            breaker: random.random_range(0..6),
            high_water: random.random_range(0..1_200),
            ledger: mostly(random, 0.97),
            planned: mostly(random, 0.3),
            minute: random.random_range(0..7 * 24 * 60),
            trade: random.random_bool(0.7).then(|| {
                let impact = random.random_range(0..200);
                ModelTrade {
                    slippage: random.random_range(0..150),
                    impact,
                    reached: impact - if random.random_bool(0.5) { impact.min(1) } else { 0 },
                    age: random.random_range(-7_000..40_000),
                    deadline: random.random_range(-3..60),
                    exact: random.random_bool(0.2),
                    more: if random.random_bool(0.2) { random.random_range(-1..=1) } else { 0 },
                    nothing_in: random.random_bool(0.02),
                    nothing_out: random.random_bool(0.02),
                }
            }),
            received: out - random.random_range(0..=out / 3),
            present: random.random_bool(0.7).then(|| {
                let given = random.random_range(0..150);
                (given, given - random.random_range(0..=given / 8))
            }),
            leaves: reduce_only || random.random_bool(0.2),
            phase: *Phase::ALL.choose(random).unwrap(),
            stop: random.random_bool(0.3).then(|| *StopLevel::ALL.choose(random).unwrap()),
            class: *ActionClass::ALL.choose(random).unwrap(),
            reduce_only,
            only_revokes,
            token_out_listed: mostly(random, 0.8),
            out: random.random_bool(0.95).then_some(out),
            gas: random.random_range(0..12),
            gwei: random.random_range(1..60),
            left_over: if random.random_bool(0.3) { random.random_range(0..100) } else { 0 },
            allowance: random.random_range(0..6),
            recipient_is_me: mostly(random, 0.8),
            target: random.random_range(0..8),
            equity: random.random_bool(0.95).then(|| random.random_range(0..1_200)),
            held: random.random_range(0..400),
            sold_percent: random.random_range(0..=100),
            unfed: mostly(random, 0.4),
            by_pools: if mostly(random, 0.4) { random.random_range(0..400) } else { 0 },
        }
    }

    pub(super) fn policy(&self) -> Result<Policy, PolicyError> {
        let most = |most: Option<u64>| most.map_or("\"none\"".to_owned(), |most| format!("\"{most}\""));
        let listed = |listed: bool, item: &str| format!("[\"{}\"]", if listed { item } else { "nothing" });
        let chain = if self.chain_listed { "31337" } else { "1" };
        let wallet = if self.wallet_listed { ME } else { STRANGER };
        let word = |word: &str, one: String| {
            if word == "one" || word == "friend" || word == "stranger" { one } else { format!("\"{word}\"") }
        };
        let lines = [
            ("max_single_trade_usd", most(self.single)),
            ("spending_limits.per_transaction", most(self.per_transaction)),
            ("spending_limits.per_day", most(None)),
            ("max_hourly_spend_usd", most(self.hour)),
            ("max_daily_spend_usd", most(self.day)),
            ("max_monthly_spend_usd", most(self.month)),
            (
                "token_caps",
                format!(
                    "{{ \"31337:{LISTED}\" = {{ max_single_usd = {}, max_daily_usd = {} }} }}",
                    most(self.token_once),
                    most(self.token_day)
                ),
            ),
            ("max_position_size_usd", most(self.position)),
            ("max_unfed_usd", most(self.unfed_most)),
            ("max_gas_usd", most(self.gas_most)),
            ("max_fee_per_gas_gwei", most(self.gwei_most)),
            ("max_allowance_usd", most(self.allowance_most)),
            ("allow_unlimited_allowance", self.unlimited_allowed.to_string()),
            ("max_allowance_seconds", self.allowance_seconds.to_string()),
            ("allowed_tokens", word(self.tokens, format!("[\"31337:{LISTED}\"]"))),
            ("allowed_tools", listed(self.tool_listed, META.name)),
            ("allowed_intent_types", listed(self.intent_listed, "swap")),
            ("allowed_protocols", listed(self.protocol_listed, "uniswap")),
            ("allowed_chains", format!("[\"{chain}\"]")),
            ("allowed_execution_wallets", format!("[\"{wallet}\"]")),
            ("allowed_recipients", word(self.recipients, format!("[\"{FRIEND}\"]"))),
            (
                "allowed_contracts",
                match self.contracts {
                    "stranger" => format!("[\"31337:{STRANGER}\"]"),
                    "function" => format!("[\"31337:{ROUTER}:0x3593564c\"]"),
                    "another" => format!("[\"31337:{ROUTER}:0xdeadbeef\"]"),
                    word => format!("\"{word}\""),
                },
            ),
            ("allowed_spenders", word(self.spenders, format!("[\"{STRANGER}\"]"))),
            ("max_trades_per_hour", self.trades_most.to_string()),
            ("max_revocations_per_hour", self.revocations_most.to_string()),
            ("max_tool_calls_per_minute", self.calls_most.to_string()),
            ("cooldown_seconds", self.cooldown.to_string()),
            ("stop_loss_pct", self.stop_loss.to_string()),
            (
                "active_hours",
                self.hours.map_or("\"always\"".to_owned(), |(first, last, from, to)| {
                    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
                    let day = |day: u64| DAYS[day as usize];
                    format!("[\"{}-{} {from:02}:00-{to:02}:00\"]", day(first), day(last))
                }),
            ),
            ("max_slippage_bps", self.slippage_most.to_string()),
            ("max_price_impact_bps", self.impact_most.to_string()),
            ("max_loss_bps", self.loss_most.to_string()),
            ("max_quote_age_seconds", self.quote_most.to_string()),
        ];
        let mut lines: Vec<_> = lines.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        if let Some(figures) = self.figures {
            let mut figure = |name: &str, value: String| {
                let phase = self.phase.as_str().to_ascii_lowercase();
                lines.push((format!("phases.{phase}.{name}"), value));
            };
            figure("size_factor_bps", figures.size.to_string());
            figure("max_slippage_bps", figures.slippage.to_string());
            figure("max_price_impact_bps", figures.impact.to_string());
            figure("exit_only", figures.exits_only.to_string());
            figure("max_position_share_bps", figures.share.to_string());
        }
        let text: String = lines.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        parse(&format!("preset = \"demo\"\n{text}"), std::path::Path::new("model.toml"))
    }

    fn now(&self) -> u64 {
        NOW + self.minute * 60_000
    }

    /// Contract and calldata of the main call.
    fn call(&self) -> (Address, Bytes) {
        match self.target {
            0 => (STRANGER, Bytes::from_static(&EXECUTE)),
            1 => (ROUTER, Bytes::from_static(&hex!("deadbeef"))),
            2 => (ROUTER, Bytes::from_static(&hex!("3593"))),
            3 => (ROUTER, Bytes::new()),
            _ => (ROUTER, Bytes::from_static(&EXECUTE)),
        }
    }

    /// Allowance of the case: spender, amount, expiry in seconds from now.
    fn allowance(&self) -> Option<(Address, U256, Option<u64>)> {
        match self.allowance {
            0 => Some((PERMIT2, U256::from(5), None)),
            1 => Some((STRANGER, U256::from(5), None)),
            2 => Some((PERMIT2, U256::MAX, None)),
            3 => Some((ROUTER, U256::from(5), Some(601))),
            4 => Some((ROUTER, U256::from(5), Some(600))),
            _ => None,
        }
    }

    fn framed(&self) -> SigningPayload {
        let (sold, bought) = (token(LISTED, true), token(OTHER, self.token_out_listed));
        let recipient = if self.recipient_is_me { ME } else { FRIEND };
        let (to, data) = self.call();
        let kind = |expiry: Option<u64>| match expiry {
            Some(seconds) => AllowanceKind::Permit2 { expires_at: self.now() / 1_000 + seconds },
            None => AllowanceKind::Erc20,
        };
        let proposal = Proposal {
            chain_id: 31_337,
            tool: META,
            call_id: CallId::new(NOW),
            golem_id: if self.by_hand { GolemId::operator() } else { "a-golem".parse().unwrap() },
            account: ME,
            intent: ProposalIntent::Swap,
            legs: vec![PlanLeg {
                purpose: LegPurpose::Main,
                to,
                value: U256::ZERO,
                data: data.clone(),
                gas_limit: 200_000,
                slots: vec![],
            }],
            outflows: vec![Outflow { token: sold.clone(), amount: U256::from(10) }],
            trade: self.trade.as_ref().map(|trade| self.trade(trade, &sold, &bought)),
            inflows: vec![Inflow { token: bought, at_least: U256::from(1), expected: U256::from(1), recipient }],
            allowances: self
                .allowance()
                .map(|(spender, at_most, expiry)| AllowanceBound { token: sold, spender, kind: kind(expiry), at_most })
                .into_iter()
                .collect(),
            recipients: vec![recipient],
            order: None,
            files: Vec::new(),
            replaces: None,
            arrival: None,
            expected_outcome: SafeText::default(),
        };
        let leg = PayloadLeg {
            purpose: LegPurpose::Main,
            from: ME,
            to,
            value: U256::ZERO,
            data,
            gas_limit: 200_000,
            slots: vec![],
        };
        let fees = FeeBound { max_fee_per_gas: u128::from(self.gwei) * 1_000_000_000, max_priority_fee_per_gas: 0 };
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

    fn trade(&self, trade: &ModelTrade, sold: &TokenInfo, bought: &TokenInfo) -> TradeFigures {
        let points = |points| BasisPoints::new(points).unwrap();
        TradeFigures {
            token_in: sold.clone(),
            token_out: bought.clone(),
            amount_in: U256::from(if trade.nothing_in { 0 } else { 1_000 }),
            expected_out: U256::from(10_000),
            min_out: U256::try_from(trade.least()).unwrap(),
            slippage: points(trade.slippage),
            price_impact: points(trade.impact),
            impact_reached: points(trade.reached),
            quoted_at: self.now().checked_add_signed(-trade.age).unwrap(),
            deadline: (self.now() / 1_000).checked_add_signed(trade.deadline).unwrap(),
            pools: vec![],
            exact_output: trade.exact,
        }
    }

    fn facts(&self) -> CheckInputs {
        let (sold, bought) = (token(LISTED, true), token(OTHER, self.token_out_listed));
        let values = self.out.map(|out| ActionValues {
            outflows: vec![ValuedAmount { token: sold.clone(), amount: U256::from(10), usd: usd(out) }],
            inflows: vec![],
            takeable: vec![ValuedAmount { token: sold.clone(), amount: U256::from(1), usd: usd(self.left_over) }],
            gas: usd(self.gas),
            spent: usd(out + self.left_over + self.gas),
            received: usd(self.received),
            present: self.present.map(|(given, received)| ExchangeValue { given: usd(given), received: usd(received) }),
            concerns: self.unfed.then_some(PriceConcern::NoFeed { token: OTHER }).into_iter().collect(),
            ..ActionValues::default()
        });
        let portfolio = self.equity.map(|equity| Portfolio {
            holdings: vec![PortfolioHolding {
                token: bought.clone(),
                amount: U256::from(1),
                value: usd(self.held / 2),
                highest: usd(self.held),
            }],
            equity: usd(equity),
            by_pools: usd(self.by_pools),
            unpriced: vec![],
            lowest: [].into(),
            ..Portfolio::default()
        });
        let pinned = PinnedBlock { chain_id: 31_337, number: 1, hash: B256::ZERO };
        CheckInputs {
            asked: false,
            now_millis: self.now(),
            block_time: self.now() / 1_000,
            phase: self.phase,
            stop: self.stop,
            tokens: [&sold, &bought].map(|token| (token.id, token.clone())).into(),
            values: values.ok_or_else(|| UnknownValue::because("no price")),
            portfolio: portfolio.ok_or_else(|| UnknownValue::because("no price")),
            simulation: Some(SimulatedEffects {
                pinned,
                gas_used: 1,
                gas_cost: U256::ZERO,
                class: self.class,
                leaves: self.leaves,
                reduce_only: self.reduce_only,
                only_revokes: self.only_revokes,
                moves: vec![TokenMove {
                    token: sold.id,
                    before: U256::from(100),
                    after: U256::from(100 - self.sold_percent),
                }],
                paid: vec![],
                lending: None,
                simulation: Simulation { pinned, outcomes: vec![], changes: StateChanges::default() },
            }),
        }
    }

    fn usage(&self) -> LedgerUsage {
        let window = |whole: u64| SpendWindow { spent: micros(whole), frees_at: None };
        LedgerUsage {
            now: self.now(),
            windows: self.spent.map(window),
            tokens: BTreeMap::from([((31_337, TokenId::Erc20(LISTED)), micros(self.token_spent))]),
            moved: BTreeMap::from([((31_337, TokenId::Erc20(LISTED)), micros(self.token_moved))]),
            coming: BTreeMap::from([((31_337, TokenId::Erc20(OTHER)), micros(self.coming))]),
            trades_hour: self.trades,
            revocations_hour: self.revocations,
            revocations_day: micros(self.revocations_day),
            exits_day: micros(self.exits_day),
            revocation_frees_at: Some(self.now() + HOUR),
            trade_frees_at: Some(self.now() + HOUR),
            calls_minute: self.calls,
            last_trade: self.last_trade_ago.map(|ago| self.now() - ago * 1_000),
            breaker: match self.breaker {
                0 => FailureBreaker::Open { until: self.now() + 1, failures: 3 },
                1 => FailureBreaker::Trial,
                2 => FailureBreaker::HalfOpen,
                _ => FailureBreaker::Closed { failures: 1 },
            },
            high_water: micros(self.high_water),
            liquidating: self.planned.then_some(TokenId::Erc20(LISTED)).into_iter().collect(),
        }
    }

    pub(super) fn decide(&self, policy: &Policy) -> Vec<Verdict> {
        let mut book = AddressBook::default();
        book.set("universalRouter", ROUTER);
        book.set("permit2", PERMIT2);
        let network = Network::devnet("ethereum", 31_337, book);
        let usage = self.usage();
        let unread = UnknownValue::because("the disk is gone");
        let usage = if self.ledger { Ok(&usage) } else { Err(&unread) };
        let (payload, inputs) = (self.framed(), self.facts());
        let mut verdicts =
            operators(&payload, &inputs, &PolicyContext::new(policy, usage, Some(&network), &payload, &inputs));
        verdicts.push(slippage::check(&payload, &inputs, &policy.slippage(self.phase)));
        verdicts
    }
}
