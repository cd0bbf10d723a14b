//! Samples of approval requests in every state of their dialog, for tests, the gallery and snapshots.

use super::*;
use crate::keymap::Action;
use crate::widgets::decision::Decision;
use crate::widgets::decision::{VisiblePart, numbered_lines};
use crate::widgets::text_field::TextField;
use bardo_base::fabric::{AskReason, Finding, SafetyCheck};
use bardo_base::model::StopLevel;
use bardo_base::units::{BasisPoints, Usd};
use bardo_session::market::MoneyKind;
use bardo_session::questions::{
    ActionAddress, ActionCosts, ActionRequest, AddressPart, AllowanceAfter, AnswerKind, AnswerOption, OpinionDetails,
    PolicyChange, PolicyRequest, Question, QuestionKey, RawCall, RequestSubject, SimilarScope, TokenChange,
    TypedConfirmation, WarningToRead,
};

/// Time at which the samples are first drawn.
const FIRST_DRAWN: u64 = START_MILLIS;

fn dollars(figure: &str) -> Usd {
    figure.parse().unwrap_or(Usd::ZERO)
}

fn permit() -> PermitId {
    "7c1e0000000000000000000000000001".parse().unwrap_or_else(|_| PermitId::random())
}

fn change(symbol: &str, figures: [&str; 4], worst: Option<&str>, gas: bool) -> TokenChange {
    let [expected, dollars, before, after] = figures.map(str::to_owned);
    let dollars = Some(dollars);
    TokenChange {
        symbol: text(symbol),
        address: None,
        expected,
        dollars,
        before,
        after,
        worst: worst.map(str::to_owned),
        gas,
    }
}

fn place(part: AddressPart, seed: u8, label: Option<&str>, is_from: bool) -> ActionAddress {
    ActionAddress {
        part,
        address: Address::repeat_byte(seed),
        label: label.map(text),
        listed: false,
        in_book: label.is_some(),
        is_from,
        first_seen: false,
    }
}

fn checks(slippage: CheckOutcome) -> Vec<SafetyCheck> {
    let told = |check, outcome, detail: &str| SafetyCheck {
        check,
        outcome,
        finding: Finding::of_earlier_versions(check, &text(detail)),
    };
    let passed = |check, detail| told(check, CheckOutcome::Passed, detail);
    vec![
        passed(Check::Halt, "no stop is in force"),
        passed(Check::PhaseGate, "Thriving allows increase-position"),
        passed(Check::TokenAllowlist, "everything it touches is on its list"),
        passed(Check::SpendingLimit, "$2,047.53 now, $4,014.02 of $5,000.00 in 24 hours after it"),
        passed(Check::RateLimit, "3 of 120 trades in 60 minutes"),
        passed(Check::BalanceBreaker, "no failures in a row"),
        told(Check::SlippageGuard, slippage, "slippage 50 bps, impact 12 bps"),
        passed(Check::PolicyCage, "the account has set no rules in a policy contract"),
        passed(Check::Simulation, "block 1286, 171204 gas, 3 balances move as declared and nothing else"),
    ]
}

fn action() -> ActionRequest {
    ActionRequest {
        tool: text("uniswap_execute_swap"),
        intent: text("swap"),
        chain: text("ethereum"),
        chain_id: 31_337,
        valid_until: START_MILLIS + 48_000,
        valid_since: START_MILLIS + 5_000,
        asked_by: vec![text("trade-executor")],
        opinion: Some(OpinionDetails { agrees: true, why: text("own UNI price $7.83") }),
        words: Some(text("UNI is 1.8 % under its 1 h average.")),
        quoted_at: Some(START_MILLIS + 4_000),
        block: 1286,
        changes: vec![
            change("WETH", ["−0.600000", "−$2,047.53", "4.000000", "3.400000"], None, false),
            change("UNI", ["+259.829700", "+$2,037.06", "0", "259.829700"], Some("+258.530551"), false),
            change("ETH", ["−0.000171", "−$0.58", "1.3735", "1.3733"], None, true),
        ],
        lending: None,
        arrival: None,
        order: None,
        publishes: Vec::new(),
        allowances: vec![AllowanceAfter {
            symbol: text("WETH"),
            spender: Address::repeat_byte(0x22),
            label: Some(text("Permit2")),
            amount: "0.6".to_owned(),
            unlimited: false,
            through_permit2: false,
            expires_at: Some(START + 300),
            before: Some("0".to_owned()),
            before_unlimited: false,
            for_open_orders: None,
            until_settled: None,
        }],
        nothing_else: Ok(()),
        costs: ActionCosts {
            spent: dollars("2047.53"),
            counted: None,
            received: dollars("2026.87"),
            gas: dollars("0.58"),
            worst_loss_bps: Some(100),
            expected_loss: Some((dollars("10.47"), 51)),
        },
        places: vec![
            place(AddressPart::From, 0xf3, Some("the wallet \"demo\""), false),
            place(AddressPart::Calls, 0x66, Some("Universal Router 2.0"), false),
            ActionAddress { listed: true, ..place(AddressPart::Spender, 0x22, Some("Permit2"), false) },
            place(AddressPart::Receiver, 0xf3, None, true),
        ],
        checks: checks(CheckOutcome::Passed),
        permit: permit(),
        hash: B256::repeat_byte(0x51),
        raw: vec![RawCall {
            purpose: text("main"),
            to: Address::repeat_byte(0x66),
            value_wei: "0".to_owned(),
            gas_limit: 300_000,
            data: format!("0x3593564c{}", "00".repeat(120)),
            signs: Vec::new(),
        }],
        bound: None,
        amount: Some(("0.6".to_owned(), text("WETH"))),
        similar: None,
    }
}

/// Approval request about a swap.
pub fn question() -> Question {
    Question {
        key: QuestionKey::Own(1),
        number: 1,
        golem_id: "ada".parse().unwrap_or_else(|_| bardo_base::id::GolemId::operator()),
        call_id: None,
        place: 1,
        of: 1,
        title: text("Swap 0.6 WETH for >= 258.530551 UNI"),
        value: Some(dollars("2047.53")),
        money: MoneyKind::Play,
        asked_at: START_MILLIS,
        ends_at: Some(START_MILLIS + 300_000),
        passes_by_itself: false,
        needs_password: false,
        reasons: vec![AskReason::AboveLimit {
            value: dollars("2047.53"),
            limit: dollars("1000"),
            field: text("require_human_approval_above_usd"),
        }],
        changed: Vec::new(),
        revision: 0,
        second: None,
        to_read: Vec::new(),
        confirm: None,
        answers: AnswerKind::ALL.into_iter().map(|kind| AnswerOption { kind, why_not: None }).collect(),
        about: RequestSubject::Action(Box::new(action())),
    }
}

/// Failed checks are warnings to read as well, as where requests are built.
fn to_read() -> Question {
    let action = ActionRequest { checks: checks(CheckOutcome::Warned), ..action() };
    let warns = action.checks.iter().find(|check| check.outcome == CheckOutcome::Warned).cloned();
    let to_read = vec![
        WarningToRead { text: text("slippage_guard: slippage 50 bps, impact 12 bps"), check: warns },
        WarningToRead::plain(text("first buy of UNI by this wallet")),
        WarningToRead::plain(text("public mempool: no filler quoted UNI, so no auction")),
    ];
    Question { to_read, about: RequestSubject::Action(Box::new(action)), ..question() }
}

fn about(title: &str, about: RequestSubject) -> Question {
    let only = |kind| matches!(kind, AnswerKind::Once | AnswerKind::Refuse);
    let answers = AnswerKind::ALL.into_iter().filter(|kind| only(*kind));
    Question {
        title: text(title),
        value: None,
        ends_at: None,
        reasons: vec![AskReason::said("it lets more through than before")],
        answers: answers.map(|kind| AnswerOption { kind, why_not: None }).collect(),
        about,
        ..question()
    }
}

/// Dialog that was drawn completely, past its guard time.
fn looked(question: &Question) -> Decision {
    let mut decision = Decision::new(question.number, FIRST_DRAWN);
    decision.follow(question);
    decision.drawn(
        FIRST_DRAWN,
        Some(VisiblePart { columns: 80, lines: numbered_lines(40), above: 0, first: 0, shown: 40, raw: false }),
    );
    decision
}

/// Dialog after some actions.
fn after(question: &Question, actions: &[Action]) -> Decision {
    let mut decision = looked(question);
    for (at, action) in (1..).zip(actions) {
        decision.act(*action, FIRST_DRAWN + at * 1_000, 40);
    }
    decision
}

/// Dialog after its request ended, with typed text.
fn ended(mut decision: Decision, typed: &str) -> Decision {
    if let Some((_, field)) = decision.form.as_mut().and_then(|form| form.fields.first_mut()) {
        *field = TextField::holding(typed);
    }
    decision.end(NOW.millis);
    decision
}

/// Resolution event of a sample's request; `None` if it still waits.
pub fn outcome(state: &str) -> Option<ApprovalResolved> {
    let outcome = (state == "lapsed while typing").then_some(ApprovalOutcome::Lapsed)?;
    Some(ApprovalResolved { permit_id: permit(), outcome, reason: None, amount: None })
}

/// Approval dialogs, one per state.
pub fn decisions() -> Vec<(&'static str, Decision)> {
    use Action::{MarkRead, Pick, RawCall as ShowRaw};
    let asked = question();
    let fresh = {
        let mut decision = Decision::new(asked.number, NOW.millis);
        decision.follow(&asked);
        decision
    };
    let soon = Question { passes_by_itself: true, ends_at: Some(NOW.millis + 20_000), ..question() };
    let with = |until: u64| {
        let about = RequestSubject::Action(Box::new(ActionRequest { valid_until: until, ..action() }));
        Question { about, ..soon.clone() }
    };
    let struck = {
        let why = |kind| match kind {
            AnswerKind::Similar => Some(text("it pays a new recipient")),
            AnswerKind::Smaller => Some(text("an approval has no smaller amount")),
            AnswerKind::Once | AnswerKind::Refuse | AnswerKind::RefuseAndStop => None,
        };
        let what = text("the last four characters of the receiver's address");
        Question {
            answers: AnswerKind::ALL.into_iter().map(|kind| AnswerOption { kind, why_not: why(kind) }).collect(),
            confirm: Some(TypedConfirmation { what, expected: text("19d3") }),
            money: MoneyKind::Real,
            ..question()
        }
    };
    let changed = {
        let mut decision = after(&asked, &[Pick(AnswerKind::Once)]);
        let again = Question {
            title: text("Swap 0.6 WETH for >= 249.017203 UNI"),
            changed: vec![text("UNI at least 258.530551 -> 249.017203")],
            ..question()
        };
        decision.follow(&again);
        decision.drawn(
            FIRST_DRAWN + 2_000,
            Some(VisiblePart { columns: 80, lines: numbered_lines(40), above: 0, first: 0, shown: 40, raw: false }),
        );
        decision
    };
    let change = |field: &str, from: &str, to: &str, tighter| PolicyChange {
        field: text(field),
        from: text(from),
        to: text(to),
        tighter,
    };
    let policy = PolicyRequest {
        file: text("policy.toml"),
        changes: vec![
            change("max_daily_spend_usd", "5000", "8000", false),
            change("max_slippage_bps", "100", "50", true),
        ],
        binding: vec![bardo_base::fabric::BindingLimit {
            field: text("max_daily_spend_usd"),
            by: text("spending_limits.per_day"),
            limit: Usd::whole(6_000),
        }],
        names: Vec::new(),
        texts: None,
    };
    let with_action =
        |action: ActionRequest| Question { about: RequestSubject::Action(Box::new(action)), ..question() };
    let scope = SimilarScope {
        golem_id: "ada".parse().unwrap_or_else(|_| bardo_base::id::GolemId::operator()),
        tool: text("uniswap_execute_swap"),
        gives: vec![text("WETH")],
        gets: vec![text("UNI")],
        receivers: vec![Address::repeat_byte(0xf3)],
        arrives_on: None,
        slippage: BasisPoints::new(50).ok(),
        each_up_to: Some(Usd::whole(2_500)),
    };
    let scoped = with_action(ActionRequest { similar: Some(scope), ..action() });
    let mut shared = action();
    if let Some(allowance) = shared.allowances.first_mut() {
        (allowance.amount, allowance.for_open_orders) = ("0.85".to_owned(), Some("0.25".to_owned()));
    }
    let lower =
        RequestSubject::Lower { from: Some(StopLevel::Halt), to: None, said: text("the operator: the price is wrong") };
    vec![
        ("fresh", fresh),
        ("looked", looked(&asked)),
        ("to read", after(&to_read(), &[MarkRead])),
        ("on paper", looked(&Question { money: MoneyKind::Paper, ..asked.clone() })),
        ("picked", after(&asked, &[Pick(AnswerKind::Once)])),
        ("form", after(&asked, &[Pick(AnswerKind::Smaller)])),
        ("changed", changed),
        ("lapsing", looked(&with(NOW.millis + 4_000))),
        ("over", looked(&with(NOW.millis))),
        ("struck out", after(&struck, &[Pick(AnswerKind::Similar)])),
        ("similar", after(&scoped, &[Pick(AnswerKind::Similar)])),
        ("open orders", looked(&with_action(shared))),
        ("confirm", after(&struck, &[Pick(AnswerKind::Once)])),
        ("raw", after(&asked, &[ShowRaw])),
        ("ended", ended(after(&asked, &[Pick(AnswerKind::Once)]), "")),
        ("lapsed while typing", ended(after(&asked, &[Pick(AnswerKind::Refuse)]), "please leave it: gas is high")),
        ("policy", looked(&about("A looser policy", RequestSubject::Policy(policy)))),
        ("lower", looked(&about("Lift the stop", lower))),
        ("reset", looked(&about("Close the failure breaker", RequestSubject::ResetBreaker { failures: 3 }))),
        ("paper", looked(&about("Leave paper mode", RequestSubject::LeavePaper))),
    ]
}
