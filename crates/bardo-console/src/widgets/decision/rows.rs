//! Rows of the approval dialog: balance changes, destinations, checks, policy changes, and raw calls. Also one-line
//! forms of a request for lists.

use super::{DecisionModel, PLACES, TO_READ, cents, ids, ids_below, places};
use crate::format::{dollars_used, grouped, short_address, short_hash, time_of_day};
use crate::painter::{StyledText, styled_width};
use crate::theme::Role;
use crate::widgets::Moment;
use crate::widgets::decision::Decision;
use crate::widgets::figure::readable;
use crate::widgets::order::LIMIT_ORDER;
use crate::widgets::paint::Row;
use crate::widgets::plain::tool_word;
use crate::widgets::words::{check_word, counted, figure_of, policy_value, policy_word};
use bardo_base::chains::display_name;
use bardo_base::display::readable_figure;
use bardo_base::fabric::{AskReason, CheckOutcome, Finding};
use bardo_base::model::Check;
use bardo_base::text::{SafeText, width as width_of};
use bardo_base::units::BasisPoints;
use bardo_session::handle::NamedAddress;
use bardo_session::questions::signed::{ReadableMessage, inside_calls};
use bardo_session::questions::{
    ActionAddress, ActionRequest, AddressPart, PolicyChange, PolicyRequest, Question, RequestSubject, SalePlan,
    TokenChange,
};

fn section(rows: &mut Vec<Row>, words: String) {
    rows.push(Row::new(words, Role::Title));
}

/// Text of a row that is a heading; `None` for other rows.
pub(super) fn heading(row: &Row) -> Option<&str> {
    match row.left.as_slice() {
        [(words, Role::Title)] if row.right.is_empty() => Some(words),
        _ => None,
    }
}

/// Rows of the second operator's approval: who can give it, or who gave it and when.
fn second_rows(rows: &mut Vec<Row>, question: &Question) {
    let Some(second) = &question.second else { return };
    if let Some(given) = &second.given {
        let row = Row::new("✓ Second approval by ", Role::StateGood).then(given.by.to_string(), Role::TextStrong);
        rows.push(row.then(format!(" at {}", time_of_day(given.at)), Role::Dialog));
        return;
    }
    rows.push(Row::new("! Needs a second approval: one of these signs with `bardo approve`", Role::StateCare));
    for approver in &second.approvers {
        rows.push(Row::new("  ", Role::TextDim).then(approver.to_string(), Role::TextStrong));
    }
}

pub(super) fn body(question: &Question, decision: &Decision, columns: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    second_rows(&mut rows, question);
    match &question.about {
        RequestSubject::Action(action) => action_rows(&mut rows, question, action, decision, columns),
        RequestSubject::Policy(policy) => policy_rows(&mut rows, policy),
        RequestSubject::Lower { from, to, said } => {
            let level = |level: &Option<bardo_base::model::StopLevel>| {
                level.map_or("no stop".to_owned(), |level| level.to_string())
            };
            let change = match from == to {
                true => format!("The stop stays at {}.", level(to)),
                false => format!("In force now: {}. After your approval: {}.", level(from), level(to)),
            };
            rows.push(Row::new(change, Role::Dialog));
            rows.push(Row::new("Set by ", Role::TextDim).then(said.as_str(), Role::Dialog));
            if from != to {
                rows.push(Row::new("Blocked actions may start again at once.", Role::StateCare));
            }
        }
        RequestSubject::LeavePaper => {
            rows.push(Row::new("Once you approve, actions that pass the checks are signed and sent.", Role::StateCare));
        }
        RequestSubject::ResetBreaker { failures } => {
            rows.push(Row::new(format!("It opened after {} in a row.", counted(*failures, "failure")), Role::Dialog));
            rows.push(Row::new("Once it is closed, new trades may start at once.", Role::StateCare));
        }
        RequestSubject::SellHoldings { plan } => {
            sale_rows(&mut rows, plan.as_deref(), places(decision));
            let what = "Approving sells every listed token but dollar stablecoins for USDC, on each chain, in parts, as far as \
                        your policy allows. Each sale is checked on its own.";
            rows.push(Row::new(what, Role::StateCare));
            let stays = "Debts in lending markets are repaid and supplies withdrawn before. The native token, dollar \
                         stablecoins, liquidity positions and tokens that are not listed stay.";
            rows.push(Row::new(stays, Role::Dialog));
            rows.push(Row::new("Rejecting leaves everything in your wallet.", Role::Dialog));
        }
    }
    rows
}

/// Rows of what a sale of all holdings sells, does before, and leaves.
fn sale_rows(rows: &mut Vec<Row>, plan: Option<&SalePlan>, places: usize) {
    let Some(plan) = plan else { return };
    for (word, line) in plan.lines(places) {
        let role = match word {
            "unknown" => Role::StateBad,
            "stays" => Role::TextDim,
            _ => Role::StateCare,
        };
        rows.push(Row::new(format!("{word:<11}"), Role::TextDim).then(line, role));
    }
}

/// Old and new value of a policy field, with its unit.
fn policy_change(change: &PolicyChange) -> String {
    let value = |written: &SafeText| policy_value(change.field.as_str(), written.as_str());
    format!("{} → {}", value(&change.from), value(&change.to))
}

/// Row of a message that is signed. The raw calls show its figures as they are signed.
fn signed_row(words: String) -> Row {
    Row::new("Signs: ", Role::StateCare).then(words, Role::Dialog)
}

/// Rows of all fields of a signed message after `first`, several in a row where they fit. No field is broken.
fn signed_fields(message: &ReadableMessage, first: &str, columns: usize) -> Vec<Row> {
    let mut lines: Vec<String> = Vec::new();
    for (name, value) in &message.fields {
        let field = format!("{name}: {value}");
        match lines.last_mut() {
            Some(line) if width_of(line) + 3 + width_of(&field) + width_of(first) <= columns => {
                line.push_str(" · ");
                line.push_str(&field);
            }
            Some(_) => lines.push(format!("  {field}")),
            None => lines.push(field),
        }
    }
    let mut lines = lines.into_iter();
    let first = lines.next().map(|line| Row::new(first, Role::StateCare).then(line, Role::Dialog));
    first.into_iter().chain(lines.map(|line| Row::new(line, Role::Dialog))).collect()
}

/// Title of a request in one line. For a single policy change, the change itself.
pub(super) fn asked(question: &Question, places: usize) -> String {
    match &question.about {
        RequestSubject::Policy(policy) => match policy.changes.as_slice() {
            [one] => format!("{} {}", policy_word(one.field.as_str()), policy_change(one)),
            _ => question.title.to_string(),
        },
        RequestSubject::Action(_) if replaced(question).is_some() => replaced(question).unwrap_or_default(),
        _ => readable(question.title.as_str(), places),
    }
}

/// Title of an action that takes the nonce of a waiting transaction, with its cost; `None` for other actions.
fn replaced(question: &Question) -> Option<String> {
    question.reasons.iter().find_map(|why| {
        let AskReason::Replaces { transaction, nonce, cancels, extra_usd, tool, .. } = why else { return None };
        let verb = if *cancels { "Cancel" } else { "Speed up" };
        let what = match tool {
            Some(tool) => format!("{}, transaction {}", tool_word(tool.as_str()), short_hash(*transaction)),
            None => format!("transaction {}", short_hash(*transaction)),
        };
        let more = if *cancels { "" } else { " more" };
        let most = extra_usd.map(|usd| format!(" · at most {}{more}", cents(usd))).unwrap_or_default();
        Some(format!("{verb}: {what}, nonce {nonce}{most}"))
    })
}

/// Row of a whole address and its name.
fn named_row(named: &NamedAddress) -> Row {
    Row::new(format!("    {}", named.address), Role::TextStrong).then(format!("  {}", named.name), Role::Dialog)
}

fn policy_rows(rows: &mut Vec<Row>, policy: &PolicyRequest) {
    rows.push(Row::new("From ", Role::TextDim).then(policy.file.as_str(), Role::Dialog));
    for change in &policy.changes {
        let (mark, role) = if change.tighter { ("  ", Role::Dialog) } else { ("! ", Role::StateCare) };
        rows.push(
            Row::new(mark, role)
                .then(format!("{}: ", policy_word(change.field.as_str())), Role::Dialog)
                .then(policy_change(change), role)
                .end(change.field.as_str(), Role::TextDim),
        );
        // A lower limit over the same period makes the change smaller than it looks.
        for bound in policy.binding.iter().filter(|bound| bound.field == change.field) {
            let words = format!("    still at most {}", cents(bound.limit));
            rows.push(Row::new(words, Role::Dialog).end(format!("by {}", bound.by), Role::TextDim));
        }
    }
    rows.extend(policy.names.iter().map(named_row));
}

/// Rows of the warnings that must be read, with their read marks. They come first, so that a small screen shows them.
fn to_read_rows(rows: &mut Vec<Row>, question: &Question, decision: &Decision) {
    if question.to_read.is_empty() {
        return;
    }
    let unread = decision.unread(question);
    section(rows, format!("To read: {} · {unread} left (Space marks the next as read)", question.to_read.len()));
    for one in &question.to_read {
        let (mark, role) =
            if decision.read.contains(&one.text) { ("[x]", Role::Dialog) } else { ("[ ]", Role::StateCare) };
        rows.push(Row::new(format!("{TO_READ}{mark} "), Role::StateCare).then(one.describe(), role).kept());
    }
}

/// Rows of the balances before and after.
fn balance_rows(rows: &mut Vec<Row>, action: &ActionRequest, changes: &[TokenChange], places: usize) {
    let symbols = changes.iter().map(|change| change.symbol.width()).max().unwrap_or(0);
    let short = |figure: &str| readable_figure(figure, places);
    let figures = changes.iter().map(|change| width_of(&short(&change.expected))).max().unwrap_or(0);
    for change in changes {
        let role = if change.expected.starts_with('+') { Role::PriceUp } else { Role::PriceDown };
        let mut row = Row::new(format!("{:<symbols$}  ", change.symbol), Role::TextStrong)
            .then(format!("{:>figures$}  ", short(&change.expected)), role)
            .then(format!("{:>11}  ", change.dollars.as_deref().unwrap_or("no price")), Role::Dialog);
        if change.gas {
            // A session key pays for its own transactions, not the account whose money moves.
            let whose = if action.has_own_signer() { "gas of the signer" } else { "gas" };
            row = row.then(whose, Role::TextDim);
        } else {
            row = row.then(format!("{} → {}", short(&change.before), short(&change.after)), Role::TextDim);
        }
        if let Some(worst) = &change.worst {
            row = row.end(format!("worst case {}", short(worst)), Role::StateCare);
        }
        rows.push(row);
    }
}

/// Rows of the balances that change, and of the arrival on another chain.
fn change_rows(rows: &mut Vec<Row>, action: &ActionRequest, with_gas: bool, places: usize) {
    let changes: Vec<TokenChange> = action.changes.iter().filter(|change| with_gas || !change.gas).cloned().collect();
    balance_rows(rows, action, &changes, places);
    let symbols = changes.iter().map(|change| change.symbol.width()).max().unwrap_or(0);
    for (word, line) in action.lending.iter().flat_map(|lending| lending.lines(places)) {
        rows.push(Row::new(format!("{word}  "), Role::TextStrong).then(line, Role::StateCare));
    }
    if action.tool.as_str() == OPENS_POSITION {
        rows.push(
            Row::new("Position  ", Role::TextStrong).then("a new one is minted to the receiver below", Role::PriceUp),
        );
    }
    if let Some(arrival) = &action.arrival {
        rows.push(
            Row::new(format!("{:<symbols$}  ", arrival.symbol), Role::TextStrong)
                .then(format!("+{}", readable_figure(&arrival.expected, places)), Role::PriceUp)
                .then(format!("  on {}", display_name(arrival.chain_id)), Role::Dialog)
                .end(format!("worst case +{}", readable_figure(&arrival.least, places)), Role::StateCare),
        );
    }
    if let Some(order) = &action.order {
        let until = time_of_day(order.usable_until);
        // The deadline of a bridge order is the delivery's, as in its form; its input is taken before that.
        let words = match order.delivered_by() {
            Some(by) => format!("must be delivered by {}; its input can be taken until {until}", time_of_day(by)),
            None => format!("can be settled until {until}"),
        };
        rows.push(Row::new(format!("Signs: {}, {words}", order.kind), Role::Dialog));
    }
}

/// Rows of the content that the action publishes, each text in full.
fn publish_rows(rows: &mut Vec<Row>, action: &ActionRequest) {
    if action.publishes.is_empty() {
        return;
    }
    rows.push(Row::new("Publishes, and nobody can withdraw it:", Role::StateCare));
    for (name, text) in &action.publishes {
        rows.push(Row::new(format!("  {name}: "), Role::TextDim).then(text.as_str(), Role::Dialog).kept());
    }
}

/// Rows of the allowances after the action.
fn allowance_rows(rows: &mut Vec<Row>, action: &ActionRequest, places: usize) {
    for after in &action.allowances {
        let who = after.label.as_ref().map_or_else(|| after.spender.to_string(), ToString::to_string);
        let role = if after.unlimited { Role::StateBad } else { Role::Dialog };
        rows.push(Row::new(after.describe(&who, places), role));
    }
}

/// Time of day of a timestamp in milliseconds. An age would grow, change the wrapping, and make seen lines count as
/// unseen.
fn at(millis: u64) -> String {
    time_of_day(millis / 1_000)
}

fn nothing_else_row(action: &ActionRequest) -> Row {
    match &action.nothing_else {
        Ok(()) if action.changes.iter().all(|change| change.gas) && action.allowances.is_empty() => {
            Row::new("No token of yours moves by it ✓", Role::StateGood)
        }
        Ok(()) => Row::new("Nothing else moves ✓", Role::StateGood),
        // The same text is among the warnings that must be read.
        Err(why) => {
            Row::new("Unknown whether anything else moves: ", Role::StateCare).then(why.as_str(), Role::StateCare)
        }
    }
}

/// Tool that swaps in pools, or by an order for others to fill.
const SWAP: &str = "uniswap_execute_swap";

/// Tool that opens a liquidity position.
const OPENS_POSITION: &str = "add_liquidity";

/// Row of the expected and worst-case cost against the market; `None` if neither is known.
fn cost_row(action: &ActionRequest) -> Option<Row> {
    // Against the pools' present price, an order that waits for its own has no cost.
    if action.tool.as_str() == LIMIT_ORDER {
        return Some(Row::new("Filled at this price or a better one, or never", Role::Dialog));
    }
    let mut costs = Row::default();
    if let Some((lost, bps)) = &action.costs.expected_loss {
        // The balances above have an auction's worst fill; what is expected is what the pools would pay at present.
        let auction = action.order.is_some() && action.arrival.is_none();
        let when = if auction { "if filled at the pools' present price" } else { "at the least favourable prices" };
        let against = format!("{} ({}) {when}", cents(*lost), share(*bps));
        costs = costs.then("Costs ", Role::TextDim).then(against, Role::Dialog);
    }
    if let Some(bps) = action.costs.worst_loss_bps {
        let gap = if costs.left.is_empty() { "Worst case " } else { " · worst case " };
        costs = costs.then(format!("{gap}{}", share(bps)), Role::StateCare);
    }
    (!costs.left.is_empty()).then_some(costs)
}

/// Row of the amount that counts toward the limits: the possible loss of a fair exit, else the outgoing value, each
/// with the maximum gas cost.
fn counted_row(action: &ActionRequest) -> Row {
    let counts = action.costs.counted.unwrap_or(action.costs.spent);
    // The average follows a falling price slowly, so the costs above can be larger.
    let why = match counts < action.costs.spent {
        true => ": a fair exit counts with its possible loss by feed and quote, without the 30-minute average",
        false => "",
    };
    let counted = format!("{} with gas of at most {}{why}", dollars_used(counts), dollars_used(action.costs.gas));
    Row::new("Counts against your limits as ", Role::TextDim).then(counted, Role::Dialog)
}

const fn part_word(part: AddressPart) -> &'static str {
    match part {
        AddressPart::From => "from",
        AddressPart::Signer => "signed by",
        AddressPart::Calls => "calls",
        AddressPart::Spender => "spender",
        AddressPart::Receiver => "receiver",
    }
}

/// Body for a small screen. First come the short forms of everything that matters for the answer: amounts with their
/// worst case, allowances, called and receiving addresses in full, and failed checks. The rest follows. Nothing is left
/// out, and all of it must have been on the screen before an approval.
pub(super) fn brief_body(question: &Question, decision: &Decision, columns: usize) -> Vec<Row> {
    let RequestSubject::Action(action) = &question.about else { return body(question, decision, columns) };
    let mut rows = Vec::new();
    second_rows(&mut rows, question);
    to_read_rows(&mut rows, question, decision);
    let simulated = format!("block #{} {}", grouped(&action.block.to_string()), at(action.valid_since));
    section(&mut rows, format!("What changes · {simulated}"));
    change_rows(&mut rows, action, false, PLACES);
    publish_rows(&mut rows, action);
    rows.extend(inside_calls(action).into_iter().map(|message| signed_row(message.heading)));
    allowance_rows(&mut rows, action, PLACES);
    rows.push(nothing_else_row(action));
    rows.extend(cost_row(action));
    for place in action.places.iter().filter(|place| place.part != AddressPart::From) {
        let mut row = Row::new(format!("{:<10}", part_word(place.part)), Role::TextDim)
            .then(place.address.to_string(), Role::TextStrong);
        row = match &place.label {
            _ if place.is_from => row.then(" = your account ✓", Role::StateGood),
            Some(label) => row.then(format!(" {label}"), Role::Dialog),
            None if place.listed => row.then(" on your list", Role::Dialog),
            None => row.then(" not listed", Role::StateCare),
        };
        if place.first_seen {
            row = row.then(" · ", Role::TextDim).then("FIRST PAYMENT TO IT", Role::StateBad);
        }
        rows.push(row);
    }
    rows.push(counted_row(action));
    let failing: Vec<_> = action.checks.iter().filter(|check| check.outcome != CheckOutcome::Passed).collect();
    for check in &failing {
        let (mark, role) = match check.outcome {
            CheckOutcome::Blocked => ("✕", Role::StateBad),
            CheckOutcome::Warned | CheckOutcome::Passed => ("!", Role::StateCare),
        };
        rows.push(Row::new(format!("{mark} {}", check_word(check.check)), role));
    }
    let passed = passed(action);
    let checks = if passed == 1 { "check" } else { "checks" };
    rows.push(Row::new("✓ ", Role::StateGood).then(format!("{passed} {checks} passed"), Role::Dialog));
    detail_rows(&mut rows, action, columns);
    rows
}

/// Rows that the short form leaves out.
fn detail_rows(rows: &mut Vec<Row>, action: &ActionRequest, columns: usize) {
    let quoted = action.quoted_at.map(|at| format!(" · quoted {}", self::at(at))).unwrap_or_default();
    section(rows, format!("Details{quoted}"));
    let gas: Vec<TokenChange> = action.changes.iter().filter(|change| change.gas).cloned().collect();
    balance_rows(rows, action, &gas, PLACES);
    for message in inside_calls(action) {
        rows.extend(signed_fields(&message, "Signs: ", columns));
    }
    if let Some(opinion) = &action.opinion {
        rows.push(Row::new("safety-guardian: ", Role::TextDim).then(opinion.why.as_str(), Role::Dialog));
    }
    rows.extend(price_row(action));
    for place in action.places.iter().filter(|place| place.part == AddressPart::From) {
        let row = Row::new(format!("{:<10}", part_word(place.part)), Role::TextDim);
        let row = row.then(place.address.to_string(), Role::TextStrong);
        rows.push(match &place.label {
            Some(label) => row.then(format!(" {label}"), Role::Dialog),
            None => row,
        });
    }
    label_rows(rows, action);
    check_rows(rows, action, columns);
    if !ids_below(columns) {
        rows.push(Row::new(ids(action), Role::TextDim));
    }
}

/// Rows that say which of the labels above are on the policy's list, and which in the address book.
fn label_rows(rows: &mut Vec<Row>, action: &ActionRequest) {
    let known = |fits: fn(&ActionAddress) -> bool| {
        let mut labels: Vec<&str> = Vec::new();
        let of_them =
            action.places.iter().filter(|place| fits(place) && !place.is_from && place.part != AddressPart::From);
        for label in of_them.filter_map(|place| place.label.as_ref()).map(SafeText::as_str) {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        labels.join(", ")
    };
    for (words, labels) in [
        ("on your list: ", known(|place| place.listed)),
        ("in address book: ", known(|place| !place.listed && place.in_book)),
        ("not in the address book: ", known(|place| !place.listed && !place.in_book)),
    ] {
        if !labels.is_empty() {
            rows.push(Row::new(words, Role::TextDim).then(labels, Role::Dialog));
        }
    }
}

/// Number of checks that compared the action with a rule and let it pass.
fn passed(action: &ActionRequest) -> usize {
    let compared = action.checks.iter().filter(|check| check.finding != Finding::NoCage);
    compared.filter(|check| check.outcome == CheckOutcome::Passed).count()
}

/// Rows of all checks with their figures. A mark stays with its word.
fn check_rows(rows: &mut Vec<Row>, action: &ActionRequest, columns: usize) {
    let mut row = Row::default();
    for check in &action.checks {
        let (mark, role) = match check.outcome {
            CheckOutcome::Passed if check.finding == Finding::NoCage => ("–", Role::TextDim),
            CheckOutcome::Passed => ("✓", Role::StateGood),
            CheckOutcome::Warned => ("!", Role::StateCare),
            CheckOutcome::Blocked => ("✕", Role::StateBad),
        };
        let name = check_word(check.check);
        // The figure replaces the name where it says more.
        let figure = figure_of(&check.finding);
        let word = match (check.check, figure) {
            (Check::SpendingLimit, Some(figure)) => format!("{figure}  "),
            (_, Some(figure)) => format!("{name} {figure}  "),
            (_, None) => format!("{name}  "),
        };
        if styled_width(&row.left) + width_of(&word) > columns && !row.left.is_empty() {
            rows.push(std::mem::take(&mut row));
        }
        row = row.then(format!("{mark} "), role).then(word, Role::Dialog);
    }
    rows.push(row);
}

/// Row that explains why a token may have two prices, if both directions are priced.
fn price_row(action: &ActionRequest) -> Option<Row> {
    let priced = |sign: char| {
        action.changes.iter().any(|change| !change.gas && change.dollars.is_some() && change.expected.starts_with(sign))
    };
    let words = "Dollars: pays at the highest of feed, mean and quote, gets at the lowest";
    (priced('−') && priced('+')).then(|| Row::new(words, Role::TextDim))
}

/// Rows of the scope of a standing approval, before it is given.
pub(super) fn scope_rows(model: DecisionModel<'_>, action: &ActionRequest) -> Vec<Row> {
    let Some(scope) = &action.similar else { return Vec::new() };
    let joined = |all: &[SafeText]| match all {
        [] => "nothing".to_owned(),
        all => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let gets = match scope.gets.as_slice() {
        [] if action.tool.as_str() == OPENS_POSITION => "a liquidity position".to_owned(),
        all => joined(all),
    };
    let asks = model.decision.shown.as_deref().is_some_and(|question| question.golem_id == scope.golem_id);
    let of_session = model.golem.filter(|(golem_id, _)| **golem_id == scope.golem_id).map(|(_, name)| name);
    let who = of_session.or(model.name.filter(|_| asks)).map_or_else(|| scope.golem_id.to_string(), str::to_owned);
    let arrives = scope.arrives_on.map(|chain| format!(" on {}", display_name(chain))).unwrap_or_default();
    let own = |who: &alloy_primitives::Address| {
        action.places.iter().any(|place| place.part == AddressPart::From && place.address == *who)
    };
    let receivers: Vec<String> =
        scope.receivers.iter().map(|who| if own(who) { "your account".to_owned() } else { who.to_string() }).collect();
    let dim = |label: &str| Row::new(format!("{label:<15}"), Role::TextDim);
    let pair = format!("{} → {gets}{arrives} on {}", joined(&scope.gives), action.chain);
    let tool = tool_word(scope.tool.as_str());
    // A swap that is signed as an order stays a swap, and may be made in pools next time.
    let by = if scope.tool.as_str() == SWAP && action.order.is_some() { " (by auction or in pools)" } else { "" };
    let mut rows = vec![
        dim("Approves").then(format!("{who}, with {tool}{by} only: {pair}"), Role::StateCare).kept(),
        dim("to").then(receivers.join(", "), Role::Dialog).kept(),
    ];
    let counted = cents(action.costs.spent);
    let size = match scope.each_up_to {
        None => format!("any, until the total is used up; this action uses {counted} of it"),
        Some(most) => {
            format!("up to {}, larger ones still ask; this action uses {counted} of the total", cents(most))
        }
    };
    rows.push(dim("size of each").then(size, Role::Dialog).kept());
    // Only a trade allows one.
    if let Some(slippage) = scope.slippage.filter(|slippage| *slippage != BasisPoints::ZERO) {
        rows.push(
            dim("slippage").then(format!("up to {slippage}, as in this action; more still asks"), Role::Dialog).kept(),
        );
    }
    let ends = "also on a stop, a policy change or a phase change; warnings about single actions still ask";
    rows.push(dim("ends").then(ends, Role::Dialog).kept());
    rows
}

fn action_rows(rows: &mut Vec<Row>, question: &Question, action: &ActionRequest, decision: &Decision, columns: usize) {
    to_read_rows(rows, question, decision);
    // Block and time of the simulation, and time of the quote, on which the figures are based.
    let simulated = format!("simulated on block #{}, {}", grouped(&action.block.to_string()), at(action.valid_since));
    let quoted = action.quoted_at.map(|at| format!(" · quoted {}", self::at(at))).unwrap_or_default();
    section(rows, format!("What changes · {simulated}{quoted}"));
    change_rows(rows, action, true, places(decision));
    publish_rows(rows, action);
    // Every field of every message that is signed besides the transactions.
    for message in inside_calls(action) {
        rows.push(signed_row(message.heading.clone()));
        rows.extend(signed_fields(&message, "  ", columns));
    }
    allowance_rows(rows, action, places(decision));
    rows.push(nothing_else_row(action));
    rows.extend(cost_row(action));
    rows.extend(price_row(action));
    section(rows, "Where it goes".to_owned());
    place_rows(rows, action, columns);
    let passed = passed(action);
    section(rows, format!("Checks and limits · {passed} ok · {} to read", question.to_read.len()));
    rows.push(counted_row(action));
    check_rows(rows, action, columns);
    if !ids_below(columns) {
        rows.push(Row::new(ids(action), Role::TextDim));
    }
}

/// Width from which the list of each address has room in its row, in columns.
const WITH_LISTS: usize = 90;

/// Rows of all addresses in full, one per address, with every part that it has.
fn place_rows(rows: &mut Vec<Row>, action: &ActionRequest, columns: usize) {
    let mut merged: Vec<(String, &ActionAddress)> = Vec::new();
    for place in &action.places {
        let word = part_word(place.part);
        let other = |known: &ActionAddress| {
            // The account itself and a first payment keep rows of their own.
            ActionAddress { part: place.part, ..known.clone() } == *place && !place.is_from && !place.first_seen
        };
        match merged.iter_mut().find(|(_, known)| known.part != AddressPart::From && other(known)) {
            Some((words, _)) => {
                words.push_str(", ");
                words.push_str(word);
            }
            None => merged.push((word.to_owned(), place)),
        }
    }
    let parts = merged.iter().map(|(words, _)| width_of(words) + 2).max().unwrap_or(0).max(10);
    let lists = columns >= WITH_LISTS;
    for (words, place) in merged {
        let mut row =
            Row::new(format!("{words:<parts$}"), Role::TextDim).then(place.address.to_string(), Role::TextStrong);
        if place.is_from {
            row = row.then("  = from ✓", Role::StateGood);
        } else if let Some(label) = &place.label {
            let (list, role) = match (place.listed, place.in_book) {
                (true, _) => (", on your list", Role::Dialog),
                (false, true) => (", in address book", Role::Dialog),
                // A label says who the operator thinks it is, not that anything knows it.
                (false, false) => (", not in the address book", Role::StateCare),
            };
            row = row.then(format!("  {label}"), Role::Dialog).then(if lists { list } else { "" }, role);
        } else if place.listed {
            row = row.then("  on your list", Role::Dialog);
        } else if place.part != AddressPart::From {
            row = row.then("  not in the address book", Role::StateCare);
        }
        if place.first_seen {
            row = row.then(" · ", Role::TextDim).then("FIRST PAYMENT TO IT", Role::StateBad);
        }
        rows.push(row);
    }
    if !lists {
        label_rows(rows, action);
    }
}

fn share(bps: u64) -> String {
    format!("{}.{:02} %", bps / 100, bps % 100)
}

pub(super) fn raw(question: &Question) -> Vec<Row> {
    let action = match &question.about {
        RequestSubject::Action(action) => action,
        RequestSubject::SellHoldings { .. } => {
            let words = "Each sale is a swap of its own, built and checked in its turn: there is no calldata yet.";
            return vec![Row::new(words, Role::TextDim)];
        }
        RequestSubject::Policy(_)
        | RequestSubject::Lower { .. }
        | RequestSubject::LeavePaper
        | RequestSubject::ResetBreaker { .. } => {
            return vec![Row::new("No transaction belongs to this decision itself.", Role::TextDim)];
        }
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
    rows.push(Row::new(format!("hash  {}", action.hash), Role::TextDim));
    rows
}

/// Digits after the decimal point in a list.
const SHORT: usize = 4;

/// Short description of a request: for a trade, what is paid and received.
pub fn question_brief(question: &Question) -> String {
    if let RequestSubject::Action(action) = &question.about
        && let Some((amount, from)) = &action.amount
        && let Some(to) = action.changes.iter().find(|change| change.expected.starts_with('+') && !change.gas)
    {
        // A swap by auction is not done when it is approved.
        let kind = match (action.tool.as_str(), action.intent.as_str()) {
            (LIMIT_ORDER, _) => "Limit order ",
            (_, "place_order") => "Auction ",
            _ => "",
        };
        return format!("{kind}{} {from} → {}", readable_figure(amount, SHORT), to.symbol);
    }
    // The amount comes first, so that a narrow list cuts the recipient.
    if let RequestSubject::Action(action) = &question.about
        && action.intent.as_str() == "transfer"
        && let Some((amount, token)) = &action.amount
        && let Some(to) = action.places.iter().find(|place| place.part == AddressPart::Receiver)
    {
        return format!("Send {} {token} → {}", readable_figure(amount, SHORT), short_address(to.address));
    }
    if let RequestSubject::Lower { to, .. } = &question.about {
        return to.map_or("Lift the stop".to_owned(), |to| format!("Lower the stop to {to}"));
    }
    asked(question, SHORT)
}

/// Deadline of a request, at most `columns` wide if possible. Every length says if the request passes without an
/// answer.
pub fn ends_words(ends: u64, passes_by_itself: bool, now: Moment, columns: usize) -> String {
    let seconds = ends.saturating_sub(now.millis) / 1000;
    let left = if now.motion { format!("{}:{:02}", seconds / 60, seconds % 60) } else { time_of_day(ends / 1000) };
    if !passes_by_itself {
        return left;
    }
    let at = if now.motion { "in" } else { "at" };
    let lines = [
        format!("goes ahead {at} {left} unless you reject it"),
        format!("goes ahead {at} {left}"),
        format!("ahead {at} {left}"),
    ];
    let [.., shortest] = &lines;
    lines.iter().find(|words| width_of(words) <= columns).unwrap_or(shortest).clone()
}

/// Line of a request in a list of this width: left and right end.
pub fn question_line(question: &Question, now: Moment, columns: usize) -> (Vec<StyledText>, Vec<StyledText>) {
    let mut left = vec![(asked(question, SHORT), Role::Text)];
    if let Some(value) = question.value {
        left.push((format!("  {}", cents(value)), Role::TextStrong));
    }
    let right = match question.ends_at {
        None => vec![("no limit".to_owned(), Role::TextDim)],
        // The description keeps half of the line.
        Some(at) => vec![(ends_words(at, question.passes_by_itself, now, columns / 2), Role::StateCare)],
    };
    (left, right)
}
