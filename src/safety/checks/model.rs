//! The checks against a small model of themselves: plain comparisons of whole dollars, written from
//! the rules' descriptions and sharing no code with them.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, B256, Bytes, U256, address, hex};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::operators;
use super::standing::Standing;
use crate::base::id::{CallId, GolemId};
use crate::base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, Phase, RiskTier, SpriteTrigger, StopLevel, TickBudget,
    ToolMeta,
};
use crate::base::text::SafeText;
use crate::base::units::Usd;
use crate::chain::fork::{Changes, Pinned, Simulation};
use crate::chain::network::{AddressBook, Network};
use crate::chain::token::{Token, TokenId};
use crate::safety::account::AccountKind;
use crate::safety::facts::{Facts, Holding, Portfolio};
use crate::safety::framed::{FeeBound, Frame, Framed, FramedLeg};
use crate::safety::ledger::{Breaker, Micros, Usage, Window};
use crate::safety::policy::{Policy, PolicyError, parse};
use crate::safety::proposal::{AllowanceBound, AllowanceKind, Flow, Inflow, Intent, Leg, Proposal, Purpose};
use crate::safety::simulate::{Move, Simulated};
use crate::safety::value::{Doubt, Valued, Values};
use crate::safety::verdict::Verdict;

const ME: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const FRIEND: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
const ROUTER: Address = address!("0000000000000000000000000000000000000101");
const PERMIT2: Address = address!("0000000000000000000000000000000000000102");
const STRANGER: Address = address!("0000000000000000000000000000000000000999");
const LISTED: Address = address!("0000000000000000000000000000000000000201");
const OTHER: Address = address!("0000000000000000000000000000000000000202");
const EXECUTE: [u8; 4] = hex!("3593564c");
const NOW: u64 = 1_800_000_000_000;
const HOUR: u64 = 3_600_000;

pub(in crate::safety) const META: ToolMeta = ToolMeta {
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
};

/// What a case is made of, in plain figures. Dollars are whole.
#[derive(Debug, Clone)]
struct Case {
    // The policy.
    single: Option<u64>,
    per_transaction: Option<u64>,
    hour: Option<u64>,
    day: Option<u64>,
    month: Option<u64>,
    token_day: Option<u64>,
    position: Option<u64>,
    gas_most: Option<u64>,
    gwei_most: Option<u64>,
    allowance_most: Option<u64>,
    unlimited_allowed: bool,
    allowance_seconds: u64,
    tokens: &'static str,
    tool_listed: bool,
    chain_listed: bool,
    intent_listed: bool,
    protocol_listed: bool,
    wallet_listed: bool,
    recipients: &'static str,
    contracts: &'static str,
    spenders: &'static str,
    trades_most: u32,
    calls_most: u32,
    cooldown: u64,
    stop_loss: u32,
    // The standing.
    spent: [u64; 3],
    token_spent: u64,
    token_moved: u64,
    coming: u64,
    trades: u32,
    calls: u32,
    last_trade_ago: Option<u64>,
    breaker: u8,
    high_water: u64,
    ledger: bool,
    /// Whether what is sold is in a recorded liquidation plan.
    planned: bool,
    // The action.
    phase: Phase,
    stop: Option<StopLevel>,
    class: ActionClass,
    reduce_only: bool,
    takes_back: bool,
    token_out_listed: bool,
    out: Option<u64>,
    gas: u64,
    gwei: u64,
    left_over: u64,
    allowance: u8,
    recipient_is_me: bool,
    target: u8,
    equity: Option<u64>,
    held: u64,
    sold_percent: u64,
}

fn usd(whole: u64) -> Usd {
    Usd::from_scaled(U256::from(whole), 0).unwrap()
}

fn micros(whole: u64) -> Micros {
    Micros::new(whole * 1_000_000).unwrap()
}

fn token(address: Address, listed: bool) -> Token {
    let symbol = if listed { "GOOD" } else { "ODD" };
    let text = SafeText::clean(symbol, 20);
    Token { id: TokenId::Erc20(address), symbol: text.clone(), name: text, decimals: 18, listed }
}

impl Case {
    fn random(random: &mut impl Rng) -> Self {
        fn maybe(random: &mut impl Rng, around: u64) -> Option<u64> {
            random.random_bool(0.6).then(|| random.random_range(around / 2..=around * 3))
        }
        let out = random.random_range(0..150);
        let mut pick = |all: &[&'static str]| *all.choose(random).unwrap();
        let (tokens, recipients) =
            (pick(&["bundled", "bundled", "all", "one"]), pick(&["self", "self", "all", "friend"]));
        let (contracts, spenders) =
            (pick(&["book", "book", "all", "stranger"]), pick(&["book", "book", "all", "stranger"]));
        let reduce_only = random.random_bool(0.25);
        let takes_back = !reduce_only && random.random_bool(0.15);
        let mostly = |random: &mut _, chance| Rng::random_bool(random, chance);
        Self {
            single: maybe(random, 100),
            per_transaction: maybe(random, 100),
            hour: maybe(random, 300),
            day: maybe(random, 600),
            month: maybe(random, 1_500),
            token_day: maybe(random, 200),
            position: maybe(random, 300),
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
            spent: {
                let hour = random.random_range(0..250);
                let day = hour + random.random_range(0..300);
                [hour, day, day + random.random_range(0..900)]
            },
            token_spent: random.random_range(0..250),
            token_moved: random.random_range(0..150),
            coming: if mostly(random, 0.5) { random.random_range(0..120) } else { 0 },
            trades: random.random_range(0..8),
            calls: random.random_range(0..8),
            last_trade_ago: random.random_bool(0.7).then(|| random.random_range(0..400)),
            breaker: random.random_range(0..6),
            high_water: random.random_range(0..1_200),
            ledger: mostly(random, 0.97),
            planned: mostly(random, 0.3),
            phase: *Phase::ALL.choose(random).unwrap(),
            stop: random.random_bool(0.3).then(|| *StopLevel::ALL.choose(random).unwrap()),
            class: *ActionClass::ALL.choose(random).unwrap(),
            reduce_only,
            takes_back,
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
        }
    }

    fn policy(&self) -> Result<Policy, PolicyError> {
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
                self.token_day
                    .map_or("{}".to_owned(), |day| format!("{{ \"31337:{LISTED}\" = {{ max_daily_usd = {day} }} }}")),
            ),
            ("max_position_size_usd", most(self.position)),
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
            ("allowed_contracts", word(self.contracts, format!("[\"31337:{STRANGER}\"]"))),
            ("allowed_spenders", word(self.spenders, format!("[\"{STRANGER}\"]"))),
            ("max_trades_per_hour", self.trades_most.to_string()),
            ("max_tool_calls_per_minute", self.calls_most.to_string()),
            ("cooldown_seconds", self.cooldown.to_string()),
            ("stop_loss_pct", self.stop_loss.to_string()),
        ];
        let text: String = lines.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        parse(&format!("preset = \"demo\"\n{text}"), std::path::Path::new("model.toml"))
    }

    /// Which contract is called and by which function.
    fn call(&self) -> (Address, Bytes) {
        match self.target {
            0 => (STRANGER, Bytes::from_static(&EXECUTE)),
            1 => (ROUTER, Bytes::from_static(&hex!("deadbeef"))),
            2 => (ROUTER, Bytes::from_static(&hex!("3593"))),
            3 => (ROUTER, Bytes::new()),
            _ => (ROUTER, Bytes::from_static(&EXECUTE)),
        }
    }

    /// Kind of allowance: spender, amount, expiry in seconds from now.
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

    fn framed(&self) -> Framed {
        let (sold, bought) = (token(LISTED, true), token(OTHER, self.token_out_listed));
        let recipient = if self.recipient_is_me { ME } else { FRIEND };
        let (to, data) = self.call();
        let kind = |expiry: Option<u64>| match expiry {
            Some(seconds) => AllowanceKind::Permit2 { expires_at: NOW / 1_000 + seconds },
            None => AllowanceKind::Erc20,
        };
        let proposal = Proposal {
            chain_id: 31_337,
            tool: META,
            call_id: CallId::new(NOW),
            golem_id: GolemId::operator(),
            account: ME,
            intent: Intent::Swap,
            legs: vec![Leg {
                purpose: Purpose::Main,
                to,
                value: U256::ZERO,
                data: data.clone(),
                gas_limit: 200_000,
                slots: vec![],
            }],
            outflows: vec![Flow { token: sold.clone(), amount: U256::from(10) }],
            inflows: vec![Inflow { token: bought, at_least: U256::from(1), expected: U256::from(1), recipient }],
            allowances: self
                .allowance()
                .map(|(spender, at_most, expiry)| AllowanceBound { token: sold, spender, kind: kind(expiry), at_most })
                .into_iter()
                .collect(),
            trade: None,
            recipients: vec![recipient],
            order: None,
            expected_outcome: SafeText::default(),
        };
        let leg = FramedLeg {
            purpose: Purpose::Main,
            from: ME,
            to,
            value: U256::ZERO,
            data,
            gas_limit: 200_000,
            slots: vec![],
        };
        let fees = FeeBound { max_fee_per_gas: u128::from(self.gwei) * 1_000_000_000, max_priority_fee_per_gas: 0 };
        Framed::new(Frame {
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

    fn facts(&self) -> Facts {
        let (sold, bought) = (token(LISTED, true), token(OTHER, self.token_out_listed));
        let values = self.out.map(|out| Values {
            outflows: vec![Valued { token: sold.clone(), amount: U256::from(10), usd: usd(out) }],
            inflows: vec![],
            takeable: vec![Valued { token: sold.clone(), amount: U256::from(1), usd: usd(self.left_over) }],
            gas: usd(self.gas),
            spent: usd(out + self.left_over + self.gas),
            received: Usd::ZERO,
            present: None,
        });
        let portfolio = self.equity.map(|equity| Portfolio {
            holdings: vec![Holding {
                token: bought.clone(),
                amount: U256::from(1),
                value: usd(self.held / 2),
                highest: usd(self.held),
            }],
            equity: usd(equity),
            unpriced: vec![],
        });
        let pinned = Pinned { chain_id: 31_337, number: 1, hash: B256::ZERO };
        Facts {
            now_millis: NOW,
            block_time: NOW / 1_000,
            phase: self.phase,
            stop: self.stop,
            tokens: [&sold, &bought].map(|token| (token.id, token.clone())).into(),
            values: values.ok_or_else(|| Doubt::because("no price")),
            portfolio: portfolio.ok_or_else(|| Doubt::because("no price")),
            simulation: Some(Simulated {
                pinned,
                gas_used: 1,
                gas_cost: U256::ZERO,
                class: self.class,
                leaves: self.reduce_only,
                reduce_only: self.reduce_only,
                takes_back: self.takes_back,
                moves: vec![Move {
                    token: sold.id,
                    before: U256::from(100),
                    after: U256::from(100 - self.sold_percent),
                }],
                paid: vec![],
                simulation: Simulation { pinned, outcomes: vec![], changes: Changes::default() },
            }),
        }
    }

    fn usage(&self) -> Usage {
        let window = |whole: u64| Window { spent: micros(whole), frees_at: None };
        Usage {
            now: NOW,
            windows: self.spent.map(window),
            tokens: BTreeMap::from([((31_337, TokenId::Erc20(LISTED)), micros(self.token_spent))]),
            moved: BTreeMap::from([((31_337, TokenId::Erc20(LISTED)), micros(self.token_moved))]),
            coming: BTreeMap::from([((31_337, TokenId::Erc20(OTHER)), micros(self.coming))]),
            trades_hour: self.trades,
            trade_frees_at: Some(NOW + HOUR),
            calls_minute: self.calls,
            last_trade: self.last_trade_ago.map(|ago| NOW - ago * 1_000),
            breaker: match self.breaker {
                0 => Breaker::Open { until: NOW + 1, failures: 3 },
                1 => Breaker::Trial,
                2 => Breaker::HalfOpen,
                _ => Breaker::Closed { failures: 1 },
            },
            high_water: micros(self.high_water),
            liquidating: self.planned.then_some(TokenId::Erc20(LISTED)).into_iter().collect(),
        }
    }

    fn decide(&self, policy: &Policy) -> Vec<Verdict> {
        let mut book = AddressBook::default();
        book.set("universalRouter", ROUTER);
        book.set("permit2", PERMIT2);
        let network = Network::devnet("ethereum", 31_337, book);
        let usage = self.usage();
        let usage = if self.ledger { Ok(&usage) } else { Err("the disk is gone") };
        let (framed, facts) = (self.framed(), self.facts());
        operators(&framed, &facts, &Standing::new(policy, usage, Some(&network), &framed, &facts))
    }

    /// Which checks should block: the model.
    fn blocked(&self) -> BTreeSet<Check> {
        let mut blocked = BTreeSet::new();
        let mut block = |check, when: bool| {
            if when {
                blocked.insert(check);
            }
        };
        let sells = matches!(self.class, ActionClass::DecreasePosition | ActionClass::ClosePosition);

        let rung = self.stop.is_some_and(|level| match level {
            StopLevel::ExitOnly | StopLevel::Flatten => !(self.reduce_only && sells),
            StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke => true,
        });
        block(Check::Halt, rung && !self.takes_back);

        // The matrix, as how many of the five phases let a class pass.
        let part = self.planned && self.ledger && self.reduce_only && self.sold_percent > 0;
        let phases = match self.class {
            // A part of a plan closes.
            ActionClass::DecreasePosition if part => 5,
            ActionClass::NewPosition | ActionClass::IncreasePosition => 2,
            ActionClass::Rebalance => 3,
            ActionClass::DecreasePosition => 4,
            ActionClass::ClosePosition | ActionClass::ReadOnly => 5,
        };
        let phase = Phase::ALL.iter().position(|phase| *phase == self.phase).unwrap();
        let exits_only = phase >= 2 && !self.reduce_only && self.class != ActionClass::ReadOnly;
        // A hundred units were held. What went out within the day counts to the position: ten units are worth `out`.
        let gone = match (self.out, self.ledger) {
            (Some(out), true) if out > 0 => 10 * self.token_moved / out,
            _ => 0,
        };
        let too_much = (phase == 2 || phase == 3) && sells && self.sold_percent * 100 > (100 + gone) * 25;
        block(Check::PhaseGate, !self.takes_back && (phase >= phases || exits_only || too_much));

        let who = self.tool_listed && self.intent_listed && self.chain_listed && self.wallet_listed;
        let bought = match self.tokens {
            "all" => true,
            "bundled" => self.token_out_listed,
            _ => false,
        };
        let recipient = match self.recipients {
            "all" => true,
            "self" => self.recipient_is_me,
            _ => !self.recipient_is_me,
        };
        let (known_call, names_function) = (self.target >= 4, self.target != 2 && self.target != 3);
        let called = names_function
            && match self.contracts {
                "all" => true,
                "book" => known_call,
                _ => self.target == 0,
            };
        let protocol = self.protocol_listed && self.target != 0;
        let spender = match (self.allowance, self.spenders) {
            (5.., _) | (_, "all") => true,
            (which, "book") => which != 1,
            (which, _) => which == 1,
        };
        block(
            Check::TokenAllowlist,
            !who || !(self.takes_back || bought && recipient && called && protocol && spender),
        );

        let within = |limit: Option<u64>, value: u64| limit.is_none_or(|limit| value <= limit);
        // Half the size when cautious, but for exits; halves of dollars are kept by doubling.
        let half = phase == 1 && !self.reduce_only;
        let once = |limit: Option<u64>, value: u64| {
            limit.is_none_or(|limit| if half { value * 2 <= limit } else { value <= limit })
        };
        let adds =
            matches!(self.class, ActionClass::NewPosition | ActionClass::IncreasePosition | ActionClass::Rebalance);
        let spending = match (self.out, self.equity, self.ledger) {
            (None, ..) | (_, _, false) => false,
            (_, None, _) if !(self.reduce_only || self.takes_back) => false,
            (Some(out), equity, true) => {
                let spend = out + self.gas + self.left_over;
                let caps = once(self.single, spend)
                    && once(self.per_transaction, spend)
                    && within(self.hour, self.spent[0] + spend)
                    && within(self.day, self.spent[1] + spend)
                    && within(self.month, self.spent[2] + spend)
                    && (out + self.left_over == 0 || within(self.token_day, self.token_spent + out + self.left_over));
                let position = !adds
                    || self.position.is_none()
                    || !self.recipient_is_me
                    || equity.is_some() && within(self.position, self.held + self.coming + out);
                let gas = within(self.gas_most, self.gas) && within(self.gwei_most, self.gwei);
                let allowances = within(self.allowance_most, self.left_over)
                    && (self.allowance != 2 || self.unlimited_allowed)
                    && self.allowance != 3;
                gas && (self.takes_back || caps && position && allowances)
            }
        };
        block(Check::SpendingLimit, !spending);

        let exempt = self.reduce_only || self.takes_back;
        let trades = self.takes_back || self.trades < self.trades_most;
        let cooled = exempt || self.last_trade_ago.is_none_or(|ago| ago >= self.cooldown);
        block(Check::RateLimit, !self.ledger || !trades || !cooled || self.calls > self.calls_most);

        let highest = self.equity.map(|equity| equity.max(self.high_water));
        let fallen = highest.zip(self.equity).map(|(highest, equity)| (highest, highest - equity));
        let lost =
            fallen.is_none_or(|(highest, fallen)| fallen > 0 && fallen * 100 >= highest * u64::from(self.stop_loss));
        block(Check::BalanceBreaker, !exempt && (!self.ledger || self.out.is_none() || lost || self.breaker < 2));
        blocked
    }
}

#[test]
fn the_checks_agree_with_a_small_model_of_themselves() {
    const CASES: usize = 100_000;
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(4);
    let (mut passed, mut seen) = (0, BTreeMap::<Check, usize>::new());
    for number in 0..CASES {
        let case = Case::random(&mut random);
        let verdicts = case.decide(&case.policy().unwrap());
        let found: BTreeSet<Check> = verdicts.iter().filter(|one| one.blocks()).map(|one| one.check).collect();
        assert_eq!(found, case.blocked(), "case {number}: {case:#?}\n{verdicts:#?}");
        for one in verdicts {
            // Who is blocked is told by which rule, against what, and what would pass.
            assert_eq!(one.blocks(), !one.violations.is_empty(), "{one:?}");
            assert_eq!(one.blocks(), one.code.is_some(), "{one:?}");
            let whole = |one: &crate::base::error::Violation| {
                ![&one.rule, &one.limit, &one.value, &one.would_pass].iter().any(|text| text.is_empty())
            };
            assert!(one.violations.iter().all(whole), "{one:?}");
        }
        passed += usize::from(found.is_empty());
        found.into_iter().for_each(|check| *seen.entry(check).or_default() += 1);
    }
    // The cases are worth something: each check blocks some and something passes.
    assert!(passed > 50, "{passed} passed");
    assert_eq!(seen.len(), 6, "{seen:?}");
    assert!(seen.values().all(|blocked| (CASES / 50..CASES).contains(blocked)), "{seen:?}");
}
