//! Approval request as sections of plain rows, without colours or columns: everything that an operator must be able to
//! read before answering. The caller chooses width and emphasis, and must not leave anything out.

use super::signed::{inside_calls, order_fields};
use super::{ActionRequest, AddressPart, Question, RequestSubject};
use bardo_base::chains::display_name;
use bardo_base::display::{check_word, found, readable, readable_figure, reasons, tool_word};
use bardo_base::fabric::CheckOutcome;
use bardo_base::format::{dollars_used, grouped, nearest_cent, utc};
use bardo_base::units::{TokenAmount, Usd};

/// Digits of an amount after the decimal point. The signed messages and the raw calls have all digits.
const PLACES: usize = 6;

/// Row with a label and a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetailRow {
    /// Label; empty if the row continues the previous one.
    pub label: String,
    /// Value as text.
    pub value: String,
}

/// Titled group of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetailSection {
    /// Title of the section.
    pub title: String,
    /// Rows of the section.
    pub rows: Vec<DetailRow>,
}

impl DetailSection {
    fn new(title: &str) -> Self {
        Self { title: title.to_owned(), rows: Vec::new() }
    }

    fn row(&mut self, label: &str, value: impl std::fmt::Display) {
        self.rows.push(DetailRow { label: label.to_owned(), value: value.to_string() });
    }
}

/// Sections of a request without its raw calls, at a moment in milliseconds since the Unix epoch.
pub fn sections(question: &Question, now: u64) -> Vec<DetailSection> {
    let mut head =
        DetailSection::new(&format!("Decision {} of {} · {}", question.place, question.of, question.money.describe()));
    head.row("request", readable(question.title.as_str(), PLACES));
    if let Some(value) = question.value {
        head.row("worth", cents(value));
    }
    for reason in reasons(&question.reasons) {
        head.row("asked because", readable(&reason, PLACES));
    }
    for changed in &question.changed {
        head.row("CHANGED", readable(changed.as_str(), PLACES));
    }
    if let Some(second) = &question.second {
        match &second.given {
            Some(given) => head.row("second approval", format_args!("by {} at {}", given.by, utc(given.at))),
            None => head.row("second approval", "MISSING: one of these signs with `bardo approve`"),
        }
        for approver in second.approvers.iter().filter(|_| second.given.is_none()) {
            head.row("", approver);
        }
    }
    if let Some(ends_at) = question.ends_at {
        let then = if question.passes_by_itself { "it goes ahead by itself" } else { "it lapses" };
        head.row("answer within", format_args!("{} s, or {then}", seconds(ends_at.saturating_sub(now))));
    }
    let mut all = vec![head];
    match &question.about {
        RequestSubject::Action(action) => action_sections(&mut all, question, action, now),
        RequestSubject::SellHoldings { plan: Some(plan) } => {
            let mut changes = DetailSection::new("What changes");
            for (word, line) in plan.lines(PLACES) {
                changes.row(word, line);
            }
            all.push(changes);
        }
        RequestSubject::SellHoldings { plan: None }
        | RequestSubject::Policy(_)
        | RequestSubject::Lower { .. }
        | RequestSubject::LeavePaper
        | RequestSubject::ResetBreaker { .. } => {}
    }
    all
}

fn action_sections(all: &mut Vec<DetailSection>, question: &Question, action: &ActionRequest, now: u64) {
    all.push(changes(question, action));
    if !action.publishes.is_empty() {
        let mut publishes = DetailSection::new("Publishes, and nobody can withdraw it");
        for (name, text) in &action.publishes {
            publishes.row(name.as_str(), text);
        }
        all.push(publishes);
    }
    if !action.allowances.is_empty() {
        all.push(allowances(action));
    }
    all.extend(messages(action));
    all.push(places(action));
    all.push(checks(action, now));
}

/// Balances before and after, bounds and costs.
fn changes(question: &Question, action: &ActionRequest) -> DetailSection {
    let mut changes = DetailSection::new("What changes");
    changes.row("asked by", format_args!("{} with {}", question.golem_id, tool_word(action.tool.as_str())));
    changes.row("chain", format_args!("{}, chain id {}", action.chain, action.chain_id));
    changes.row("simulated on", format_args!("block #{}", grouped(&action.block.to_string())));
    let short = |figure: &str| readable_figure(figure, PLACES);
    for change in &action.changes {
        let dollars = change.dollars.as_deref().unwrap_or("no price");
        let worst = change.worst.as_ref().map(|worst| format!(", at worst {}", short(worst))).unwrap_or_default();
        let token = change.address.map(|address| format!(" ({address})")).unwrap_or_default();
        let gas = match (change.gas, action.has_own_signer()) {
            (true, true) => ", gas of the signer",
            (true, false) => ", gas",
            (false, _) => "",
        };
        changes.row(
            "balance",
            format_args!(
                "{} {}{token}: {} → {} ({dollars}{worst}{gas})",
                short(&change.expected),
                change.symbol,
                short(&change.before),
                short(&change.after)
            ),
        );
    }
    for (word, line) in action.lending.iter().flat_map(|lending| lending.lines(PLACES)) {
        changes.row(word, line);
    }
    if let Some(bound) = &action.bound {
        for flow in &bound.content.most_out {
            changes.row("at most", amount(flow.amount, flow.decimals, &flow.symbol));
        }
        for flow in &bound.content.least_in {
            let to = flow.recipient.map(|who| format!(" to {who}")).unwrap_or_default();
            changes.row("at least", format_args!("{}{to}", amount(flow.amount, flow.decimals, &flow.symbol)));
        }
        changes.row(
            "gas at most",
            format_args!(
                "{} of the chain's own token ({})",
                short(&TokenAmount::ether(bound.content.worst_gas).to_string()),
                cents(action.costs.gas)
            ),
        );
    }
    if let Some(arrival) = &action.arrival {
        changes.row(
            "arrives",
            format_args!(
                "{} {} on {}, at worst {}",
                short(&arrival.expected),
                arrival.symbol,
                display_name(arrival.chain_id),
                short(&arrival.least)
            ),
        );
    }
    let counted = action.costs.counted.unwrap_or(action.costs.spent);
    let why = match counted < action.costs.spent {
        true => ": a fair exit counts with its possible loss by feed and quote, without the 30-minute average",
        false => "",
    };
    let words = format_args!("{} with gas of at most {}{why}", dollars_used(counted), dollars_used(action.costs.gas));
    changes.row("counts against the limits", words);
    if let Err(why) = &action.nothing_else {
        changes.row("!", why);
    }
    changes
}

/// Allowances that are left after the action.
fn allowances(action: &ActionRequest) -> DetailSection {
    let mut allowances = DetailSection::new("Allowances afterwards");
    for after in &action.allowances {
        let spender = after.spender;
        let who = after.label.as_ref().map_or_else(|| spender.to_string(), |label| format!("{label} ({spender})"));
        allowances.row("", after.describe(&who, PLACES));
    }
    allowances
}

/// Addresses that the action involves.
fn places(action: &ActionRequest) -> DetailSection {
    let mut places = DetailSection::new("Where it goes");
    for place in &action.places {
        let part = match place.part {
            AddressPart::From => "from",
            AddressPart::Signer => "signed by",
            AddressPart::Calls => "calls",
            AddressPart::Spender => "spender",
            AddressPart::Receiver => "receiver",
        };
        let label = match (&place.label, place.listed) {
            _ if place.is_from => "  the account itself".to_owned(),
            (Some(label), true) => format!("  {label}, on your list"),
            (Some(label), false) if place.in_book => format!("  {label}, in address book"),
            (Some(label), false) => format!("  {label}, not in the address book"),
            (None, true) => "  on your list".to_owned(),
            (None, false) if place.part == AddressPart::From => String::new(),
            (None, false) => "  not in the address book".to_owned(),
        };
        let first = match (place.first_seen, label.is_empty()) {
            (true, true) => "  FIRST PAYMENT TO IT",
            (true, false) => " · FIRST PAYMENT TO IT",
            (false, _) => "",
        };
        places.row(part, format_args!("{}{label}{first}", place.address));
    }
    places
}

/// Results of the checks, and how long they hold.
fn checks(action: &ActionRequest, now: u64) -> DetailSection {
    let mut checks = DetailSection::new("Checks");
    if let Some(opinion) = &action.opinion {
        let agrees = if opinion.agrees { "agrees" } else { "disagrees" };
        checks.row("guardian", format_args!("{agrees}: {}", opinion.why));
    }
    for check in &action.checks {
        let mark = match check.outcome {
            CheckOutcome::Passed => "ok",
            CheckOutcome::Warned => "WARNING",
            CheckOutcome::Blocked => "BLOCKED",
        };
        checks.row(mark, format_args!("{}: {}", check_word(check.check), found(&check.finding)));
    }
    if let Some(at) = action.quoted_at {
        checks.row("quote age", format_args!("{} s", seconds(now.saturating_sub(at))));
    }
    let left = seconds(action.valid_until.saturating_sub(now));
    checks.row("valid for", format_args!("{left} s; after that it is simulated and asked again"));
    checks
}

/// Sections of all typed messages that would be signed, with every field.
fn messages(action: &ActionRequest) -> Vec<DetailSection> {
    let mut all = Vec::new();
    for message in inside_calls(action) {
        let mut section = DetailSection::new("Signed inside a call");
        section.row("SIGNS", &message.heading);
        for (name, value) in &message.fields {
            section.row("", format_args!("{name}: {value}"));
        }
        all.push(section);
    }
    if let Some(order) = &action.order {
        let mut section = DetailSection::new("Signed for others to settle");
        section.row("SIGNS", &order.kind);
        for (name, value) in order_fields(action, order) {
            section.row("", format_args!("{name}: {value}"));
        }
        all.push(section);
    }
    all
}

/// Sections of the calls as they would be signed, with the hash that binds them.
pub fn raw(question: &Question) -> Vec<DetailSection> {
    let RequestSubject::Action(action) = &question.about else { return Vec::new() };
    let of = action.raw.len();
    let mut all: Vec<DetailSection> = action
        .raw
        .iter()
        .enumerate()
        .map(|(at, call)| {
            let mut section = DetailSection::new(&format!("Call {} of {of} · {}", at + 1, call.purpose));
            section.row("to", call.to);
            section.row("value", format_args!("{} wei", call.value_wei));
            section.row("gas at most", call.gas_limit);
            section.row("calldata", &call.data);
            section
        })
        .collect();
    let mut permit = DetailSection::new("Identifiers");
    permit.row("offer", action.permit);
    permit.row("hash", action.hash);
    all.push(permit);
    all
}

/// Dollars for reading, to the nearest cent.
fn cents(usd: Usd) -> String {
    format!("${}", grouped(&nearest_cent(usd)))
}

fn seconds(millis: u64) -> u64 {
    millis / 1_000
}

fn amount(raw: alloy_primitives::U256, decimals: u8, symbol: &bardo_base::text::SafeText) -> String {
    match TokenAmount::new(raw, decimals) {
        Ok(amount) => format!("{} {symbol}", readable_figure(&amount.to_string(), PLACES)),
        Err(_) => format!("{} smallest units of {symbol}", grouped(&raw.to_string())),
    }
}
