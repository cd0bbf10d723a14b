//! What a decision says, row by row: what changes, where it goes, the checks; a policy's change; the calls as they would be
//! signed; and a question in a line, for lists.

use super::{PLACES, TO_READ, cents, ids, ids_below};
use crate::base::model::Check;
use crate::base::text::width as width_of;
use crate::console::format::{grouped, time_of_day};
use crate::console::pen::{Piece, pieces_width};
use crate::console::state::decision::Decision;
use crate::console::theme::Role;
use crate::console::widgets::Moment;
use crate::console::widgets::figure::{ago, readable};
use crate::console::widgets::paint::Row;
use crate::console::widgets::words::{check_word, figure_of, policy_word, warning};
use crate::fabric::CheckOutcome;
use crate::runtime::questions::{About, ActionAsked, Part, PolicyAsked, PolicyChange, Question};

fn section(rows: &mut Vec<Row>, words: String) {
    rows.push(Row::new(words, Role::Title));
}

/// The words of a row that is a heading.
pub(super) fn heading(row: &Row) -> Option<&str> {
    match row.left.as_slice() {
        [(words, Role::Title)] if row.right.is_empty() => Some(words),
        _ => None,
    }
}

pub(super) fn body(question: &Question, decision: &Decision, columns: usize, now: Moment) -> Vec<Row> {
    let mut rows = Vec::new();
    match &question.about {
        About::Action(action) => action_rows(&mut rows, question, action, decision, (columns, now)),
        About::Policy(policy) => policy_rows(&mut rows, policy),
        About::Lower { from, to, said } => {
            let level = |level: &Option<crate::base::model::StopLevel>| {
                level.map_or("nothing".to_owned(), |level| level.to_string())
            };
            rows.push(Row::new(format!("The stop ladder goes from {} to {}.", level(from), level(to)), Role::Dialog));
            rows.push(Row::new("It was set by ", Role::TextDim).then(said.as_str(), Role::Dialog));
            rows.push(Row::new("What was held back may begin again at once.", Role::StateCare));
        }
        About::LeavePaper => {
            rows.push(Row::new("From a yes on, what passes the checks is signed and sent.", Role::StateCare));
        }
        About::ResetBreaker { failures } => {
            rows.push(Row::new(format!("{failures} failures in a row opened it."), Role::Dialog));
            rows.push(Row::new("Closed, new trades may begin at once.", Role::StateCare));
        }
        About::SellHoldings => {
            rows.push(Row::new("A yes sells all tokens for USDC, as far as your policy lets it.", Role::StateCare));
            rows.push(Row::new("A no leaves everything where it is: in your wallet.", Role::Dialog));
        }
    }
    rows
}

/// What a field was and is to be: dollars with their sign, the rest as the file has it.
fn policy_change(change: &PolicyChange) -> String {
    let told = |value: &str| {
        let bare = value.trim_matches('"');
        let dollars = (change.field.as_str().ends_with("_usd") || change.field.as_str().ends_with("hot_lane"))
            && bare.chars().all(|one| one.is_ascii_digit() || one == '.');
        if dollars { format!("${}", grouped(bare)) } else { bare.to_owned() }
    };
    format!("{} → {}", told(change.from.as_str()), told(change.to.as_str()))
}

/// What a question asks, in a line: of a policy, its change in words.
pub(super) fn asked(question: &Question, places: usize) -> String {
    match &question.about {
        About::Policy(policy) => match policy.changes.as_slice() {
            [one] => format!("{} {}", policy_word(one.field.as_str()), policy_change(one)),
            _ => question.title.to_string(),
        },
        _ => readable(question.title.as_str(), places),
    }
}

fn policy_rows(rows: &mut Vec<Row>, policy: &PolicyAsked) {
    rows.push(Row::new("From ", Role::TextDim).then(policy.file.as_str(), Role::Dialog));
    for change in &policy.changes {
        let (mark, role) = if change.tighter { ("  ", Role::Dialog) } else { ("! ", Role::StateCare) };
        rows.push(
            Row::new(mark, role)
                .then(format!("{}: ", policy_word(change.field.as_str())), Role::Dialog)
                .then(policy_change(change), role)
                .end(change.field.as_str(), Role::TextDim),
        );
    }
}

fn action_rows(
    rows: &mut Vec<Row>,
    question: &Question,
    action: &ActionAsked,
    decision: &Decision,
    (columns, now): (usize, Moment),
) {
    // What must be read comes first: it is what a small screen shows.
    if !question.to_read.is_empty() {
        let unread = decision.unread(question);
        section(rows, format!("To read: {} · {unread} left (Space marks the next as read)", question.to_read.len()));
        for one in &question.to_read {
            let (mark, role) =
                if decision.read.contains(&one.text) { ("[x]", Role::Dialog) } else { ("[ ]", Role::StateCare) };
            rows.push(
                Row::new(format!("{TO_READ}{mark} "), Role::StateCare).then(warning(one.text.as_str()), role).kept(),
            );
        }
    }
    // How old both are that the figures rest on.
    let simulated =
        format!("simulated on block #{}, {}", grouped(&action.block.to_string()), ago(action.valid_since, now));
    let quoted = action.quoted_at.map(|at| format!(" · quoted {}", ago(at, now))).unwrap_or_default();
    section(rows, format!("What changes · {simulated}{quoted}"));
    let symbols = action.changes.iter().map(|change| change.symbol.width()).max().unwrap_or(0);
    let short = |figure: &str| readable(figure, PLACES);
    let figures = action.changes.iter().map(|change| width_of(&short(&change.expected))).max().unwrap_or(0);
    for change in &action.changes {
        let role = if change.expected.starts_with('+') { Role::PriceUp } else { Role::PriceDown };
        let mut row = Row::new(format!("{:<symbols$}  ", change.symbol), Role::TextStrong)
            .then(format!("{:>figures$}  ", short(&change.expected)), role)
            .then(format!("{:>11}  ", change.dollars.as_deref().unwrap_or("no price")), Role::Dialog);
        if change.gas {
            row = row.then("gas", Role::TextDim);
        } else {
            row = row.then(format!("{} → {}", short(&change.before), short(&change.after)), Role::TextDim);
        }
        if let Some(worst) = &change.worst {
            row = row.end(format!("worst case {}", short(worst)), Role::StateCare);
        }
        rows.push(row);
    }
    if let Some(arrival) = &action.arrival {
        rows.push(
            Row::new(format!("{:<symbols$}  ", arrival.symbol), Role::TextStrong)
                .then(format!("+{}", arrival.expected), Role::PriceUp)
                .then(format!("  on chain {}", arrival.chain_id), Role::Dialog)
                .end(format!("worst case +{}", arrival.least), Role::StateCare),
        );
    }
    if let Some(order) = &action.order {
        let until = time_of_day(order.usable_until);
        rows.push(Row::new(format!("Signs: {}, to be settled until {until}", order.kind), Role::Dialog));
    }
    // Every field of every message that is signed beside the transactions.
    for signs in action.raw.iter().flat_map(|call| &call.signs) {
        rows.push(Row::new("Signs: ", Role::StateCare).then(signs.as_str(), Role::Dialog));
    }
    for after in &action.allowances {
        let who = after.label.as_ref().map_or_else(|| after.spender.to_string(), ToString::to_string);
        let none = !after.unlimited && after.amount.chars().all(|c| matches!(c, '0' | '.'));
        let amount = if after.unlimited { "WITHOUT LIMIT".to_owned() } else { short(&after.amount) };
        let until = match (after.through_permit2, after.expires_at) {
            (_, Some(at)) => format!(" until {}", time_of_day(at)),
            (_, None) => String::new(),
        };
        let was = after.before.as_ref().map(|before| format!("was {}; ", short(before))).unwrap_or_default();
        let kind = if after.unlimited { "unlimited" } else { "exact, not unlimited" };
        let role = if after.unlimited { Role::StateBad } else { Role::Dialog };
        let words = match none {
            true => format!("{who} may take no {} afterwards  ({})", after.symbol, was.trim_end_matches("; ")),
            false => format!("{who} may take {amount} {}{until}  ({was}{kind})", after.symbol),
        };
        rows.push(Row::new(words, role));
    }
    match &action.nothing_else {
        Ok(()) => rows.push(Row::new("Nothing else moves ✓", Role::StateGood)),
        // It is among what must be read.
        Err(why) => rows.push(
            Row::new("Whether nothing else moves is not known: ", Role::StateCare).then(why.as_str(), Role::StateCare),
        ),
    }
    let mut costs = Row::default();
    if let Some((lost, bps)) = &action.costs.expected_loss {
        let against = format!("{} ({}) against the mid price", cents(*lost), share(*bps));
        costs = costs.then("Costs ", Role::TextDim).then(against, Role::Dialog);
    }
    if let Some(bps) = action.costs.worst_loss_bps {
        let gap = if costs.left.is_empty() { "Worst case " } else { " · worst case " };
        costs = costs.then(format!("{gap}{}", share(bps)), Role::StateCare);
    }
    if !costs.left.is_empty() {
        rows.push(costs);
    }
    let counted = format!("{} · gas at most {}", cents(action.costs.spent), cents(action.costs.gas));
    rows.push(Row::new("Counts against your limits as ", Role::TextDim).then(counted, Role::Dialog));
    section(rows, "Where it goes".to_owned());
    for place in &action.places {
        let part = match place.part {
            Part::From => "from",
            Part::Signer => "signed by",
            Part::Calls => "calls",
            Part::Spender => "spender",
            Part::Receiver => "receiver",
        };
        let mut row = Row::new(format!("{part:<10}"), Role::TextDim).then(place.address.to_string(), Role::TextStrong);
        if place.is_from {
            row = row.then("  = from ✓", Role::StateGood);
        } else if let Some(label) = &place.label {
            let list = if place.listed { "on your list" } else { "in address book" };
            row = row.then(format!("  {label}, {list}"), Role::Dialog);
        } else if place.listed {
            row = row.then("  on your list", Role::Dialog);
        } else if place.part != Part::From {
            row = row.then("  not in the address book", Role::StateCare);
        }
        if place.first_seen {
            row = row.then("  FIRST PAYMENT TO IT", Role::StateBad);
        }
        rows.push(row);
    }
    let passed = action.checks.iter().filter(|check| check.outcome == CheckOutcome::Passed).count();
    section(rows, format!("Checks · {passed} ok · {} to read", question.to_read.len()));
    // A mark and its word stay together.
    let mut row = Row::default();
    for check in &action.checks {
        let (mark, role) = match check.outcome {
            CheckOutcome::Passed => ("✓", Role::StateGood),
            CheckOutcome::Warned => ("!", Role::StateCare),
            CheckOutcome::Blocked => ("✕", Role::StateBad),
        };
        let name = check_word(check.check);
        // The figure where it says more than the name.
        let figure = figure_of(check.check, check.detail.as_str());
        let word = match (check.check, figure) {
            (Check::SpendingLimit, Some(figure)) => format!("{figure}  "),
            (_, Some(figure)) => format!("{name} {figure}  "),
            (_, None) => format!("{name}  "),
        };
        if pieces_width(&row.left) + width_of(&word) > columns && !row.left.is_empty() {
            rows.push(std::mem::take(&mut row));
        }
        row = row.then(format!("{mark} "), role).then(word, Role::Dialog);
    }
    rows.push(row);
    if !ids_below(columns) {
        rows.push(Row::new(ids(action), Role::TextDim));
    }
}

fn share(bps: u64) -> String {
    format!("{}.{:02} %", bps / 100, bps % 100)
}

pub(super) fn raw(question: &Question) -> Vec<Row> {
    let About::Action(action) = &question.about else {
        return vec![Row::new("Nothing is signed for this.", Role::TextDim)];
    };
    let mut rows = Vec::new();
    for (at, call) in action.raw.iter().enumerate() {
        section(&mut rows, format!("Call {} of {} · {}", at + 1, action.raw.len(), call.purpose));
        rows.push(Row::new(
            format!("to {}  value {} wei  gas at most {}", call.to, call.value_wei, call.gas_limit),
            Role::Dialog,
        ));
        for signs in &call.signs {
            rows.push(Row::new("signs inside: ", Role::StateCare).then(signs.as_str(), Role::Dialog));
        }
        rows.push(Row::new(call.data.clone(), Role::TextDim));
    }
    if let Some(order) = &action.order {
        section(&mut rows, format!("Signed for others to settle · {}", order.kind));
        let names = order.fields.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        for (name, value) in &order.fields {
            rows.push(Row::new(format!("{name:<names$}  "), Role::TextDim).then(value.as_str(), Role::Dialog));
        }
    }
    rows.push(Row::new(format!("offer {}", action.permit), Role::TextDim));
    rows.push(Row::new(format!("binds {}", action.hash), Role::TextDim));
    rows
}

/// Digits after the point where a figure is one of many.
const SHORT: usize = 4;

/// A question in a few words: what is paid and for what, where it is a trade.
pub fn question_brief(question: &Question) -> String {
    if let About::Action(action) = &question.about
        && let Some((amount, from)) = &action.amount
        && let Some(to) = action.changes.iter().find(|change| change.expected.starts_with('+') && !change.gas)
    {
        return format!("{} {from} → {}", readable(amount, SHORT), to.symbol);
    }
    asked(question, SHORT)
}

/// What becomes of a question at its end, in so many columns: that silence lets it pass is said in every length.
pub fn ends_words(ends: u64, passes_by_itself: bool, now: Moment, columns: usize) -> String {
    let seconds = ends.saturating_sub(now.millis) / 1000;
    let left = if now.motion { format!("{}:{:02}", seconds / 60, seconds % 60) } else { time_of_day(ends / 1000) };
    if !passes_by_itself {
        return left;
    }
    let at = if now.motion { "in" } else { "at" };
    let told = [
        format!("goes ahead {at} {left} unless you refuse"),
        format!("goes ahead {at} {left}"),
        format!("ahead {at} {left}"),
    ];
    let [.., shortest] = &told;
    told.iter().find(|words| width_of(words) <= columns).unwrap_or(shortest).clone()
}

/// The line of a decision among others, of so many columns: used by lists of questions.
pub fn question_line(question: &Question, now: Moment, columns: usize) -> (Vec<Piece>, Vec<Piece>) {
    let mut left = vec![(asked(question, SHORT), Role::Text)];
    if let Some(value) = question.value {
        left.push((format!("  {}", cents(value)), Role::TextStrong));
    }
    let right = match question.ends_at {
        None => vec![("no limit".to_owned(), Role::TextDim)],
        // What is asked keeps half of the line.
        Some(at) => vec![(ends_words(at, question.passes_by_itself, now, columns / 2), Role::StateCare)],
    };
    (left, right)
}
