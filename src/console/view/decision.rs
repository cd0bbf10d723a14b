//! The decision, drawn. The title, why it is asked and the answers always stand; what lies between scrolls where it
//! does not fit, and says so. Nothing is cut: long lines go on in the next.

use ratatui::layout::{Position, Rect};

use super::badge;
use super::dialogs::{inside, middle, open};
use crate::base::text::width as width_of;
use crate::base::units::Usd;
use crate::console::format::{grouped, short_address, time_of_day};
use crate::console::pen::{Pen, Piece, pieces_width};
use crate::console::state::State;
use crate::console::state::decision::Decision;
use crate::console::theme::Role;
use crate::console::widgets::figure::readable;
use crate::console::widgets::paint::{Row, wrapped};
use crate::fabric::CheckOutcome;
use crate::runtime::questions::{About, ActionAsked, AnswerKind, Part, PolicyAsked, Question};

/// The widest dialog that is not full screen.
const WIDEST: u16 = 98;
/// Digits after the point of a figure; `d` and `y` have them all.
const PLACES: usize = 6;
/// Columns of one answer among others.
const ANSWER: usize = 32;
/// What a line that must be read begins with.
const TO_READ: &str = "! ";
/// Columns of a validity bar.
const BAR: u64 = 10;

/// The least lines of the body between title and answers; where there are fewer, the title scrolls with the body.
const LEAST_BODY: usize = 4;

/// Where everything of the dialog is.
struct Layout {
    place: Rect,
    inner: Rect,
    head: Vec<Row>,
    middle: Vec<Row>,
    foot: Vec<Row>,
    foot_room: usize,
    body_room: usize,
    offset: usize,
}

/// What of the dialog a terminal shows: what the reader has had before the eyes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fit {
    /// Columns the lines are broken at.
    pub columns: usize,
    /// Lines of the body, when nothing is hidden.
    pub lines: usize,
    /// The first that is shown.
    pub first: usize,
    /// How many are.
    pub shown: usize,
    /// Whether these are the calls as they would be signed, and not what they mean.
    pub raw: bool,
}

fn layout(state: &State, decision: &Decision, area: Rect) -> Option<Layout> {
    let question = decision.shown.as_deref()?;
    let width = if decision.full { area.width } else { area.width.min(WIDEST) };
    let columns = usize::from(width).saturating_sub(4);
    let mut head = wrapped(head(question, decision), columns);
    let mut middle_rows =
        wrapped(if decision.raw { raw(question) } else { body(question, decision, columns) }, columns);
    let foot = wrapped(foot(state, question, decision, columns), columns);
    let needed = head.len() + middle_rows.len() + foot.len() + 4;
    let place = if decision.full { area } else { middle(area, usize::from(width), needed) };
    let inner = inside(place);
    let room = usize::from(inner.height);
    // Where even title and answers do not fit, the answers stand, and all else scrolls above them.
    let foot_room = foot.len().min(room);
    if head.len() + foot_room + 2 + LEAST_BODY.min(middle_rows.len()) > room {
        head.append(&mut middle_rows);
        middle_rows = std::mem::take(&mut head);
    }
    let body_room = room.saturating_sub(foot_room + head.len() + 2);
    let offset = decision.offset.min(middle_rows.len().saturating_sub(body_room));
    Some(Layout { place, inner, head, middle: middle_rows, foot, foot_room, body_room, offset })
}

/// What of the decision is on the screen; `None` where it is not, or its answers are not whole.
pub(super) fn fit(state: &State, decision: &Decision, area: Rect) -> Option<Fit> {
    let laid = layout(state, decision, area)?;
    let shown = laid.body_room.min(laid.middle.len() - laid.offset);
    let whole = laid.foot_room == laid.foot.len() && shown > 0;
    let columns = usize::from(laid.inner.width);
    whole.then_some(Fit { columns, lines: laid.middle.len(), first: laid.offset, shown, raw: decision.raw })
}

/// What must be read that is drawn at a cell, by its place among what must be.
pub(super) fn to_read_at(state: &State, decision: &Decision, area: Rect, at: Position) -> Option<usize> {
    let laid = layout(state, decision, area)?;
    let first = laid.inner.y + u16::try_from(laid.head.len()).unwrap_or(u16::MAX).saturating_add(1);
    let row = usize::from(at.y.checked_sub(first)?);
    if row >= laid.body_room || !laid.inner.contains(at) || decision.raw {
        return None;
    }
    let marked = |row: &Row| row.left.first().is_some_and(|(text, _)| text.starts_with(TO_READ));
    let row = laid.offset + row;
    let before = laid.middle.get(..row)?.iter().filter(|row| marked(row)).count();
    laid.middle.get(row).filter(|row| marked(row)).map(|_| before)
}

/// Draws it.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, decision: &Decision, area: Rect) {
    let (Some(question), Some(laid)) = (decision.shown.as_deref(), layout(state, decision, area)) else { return };
    let Layout { place, head, middle, foot, foot_room, body_room, offset, .. } = laid;
    let inner = open(pen, place, &title(question), &validity(state, question));
    let mut y = inner.y;
    let bottom = inner.bottom();
    let put = |pen: &mut Pen<'_>, rows: &[Row], y: &mut u16| {
        for row in rows {
            if *y >= bottom {
                return;
            }
            pen.row(Rect { y: *y, height: 1, ..inner }, &row.left, &row.right);
            *y += 1;
        }
    };
    let columns = usize::from(inner.width);
    put(pen, &head, &mut y);
    let hidden = middle.len() > body_room;
    let above = if hidden {
        let last = (offset + body_room).min(middle.len());
        let words = format!("does not fit: lines {}–{last} of {} · j k, z shows all", offset + 1, middle.len());
        vec![(words, Role::StateCare)]
    } else {
        Vec::new()
    };
    // Where title and warning do not fit side by side, the warning stands alone, and shorter.
    let title = body_title(question, decision);
    if hidden && columns < width_of(title) + pieces_width(&above) + 6 {
        let words =
            format!("does not fit: {}–{} of {}", offset + 1, (offset + body_room).min(middle.len()), middle.len());
        rule(pen, place, y, &[(words, Role::StateCare)], Vec::new());
    } else {
        rule(pen, place, y, &[(title.to_owned(), Role::Title)], above);
    }
    y += 1;
    put(pen, middle.get(offset..).unwrap_or(&[]).get(..body_room.min(middle.len() - offset)).unwrap_or(&[]), &mut y);
    let mut y = bottom.saturating_sub(u16::try_from(foot_room + 1).unwrap_or(u16::MAX)).max(y);
    let how = [
        ("Letter picks, ".to_owned(), Role::Title),
        ("Enter".to_owned(), Role::Key),
        (" does it".to_owned(), Role::Title),
    ];
    rule(pen, place, y, &how, picked(decision));
    y += 1;
    put(pen, foot.get(..foot_room).unwrap_or(&[]), &mut y);
}

fn rule(pen: &mut Pen<'_>, place: Rect, y: u16, title: &[Piece], right: Vec<Piece>) {
    if y >= place.bottom() {
        return;
    }
    let whole = Rect { y, height: 1, ..place };
    pen.rule(whole, title, &right, Role::DialogBorder);
    pen.text(whole, whole.x, "├", Role::DialogBorder);
    pen.text(whole, whole.right().saturating_sub(1), "┤", Role::DialogBorder);
}

fn picked(decision: &Decision) -> Vec<Piece> {
    match decision.picked {
        None => vec![("nothing is picked".to_owned(), Role::TextDim)],
        Some(kind) => vec![
            (format!("picked: {} · ", words(kind)), Role::StateCare),
            ("Enter".to_owned(), Role::Key),
            (" does it".to_owned(), Role::StateCare),
        ],
    }
}

fn words(kind: AnswerKind) -> &'static str {
    match kind {
        AnswerKind::Once => "approve once",
        AnswerKind::Similar => "approve similar for a while…",
        AnswerKind::Smaller => "smaller amount…",
        AnswerKind::Refuse => "refuse, say why…",
        AnswerKind::RefuseAndStop => "refuse and STOP everything",
    }
}

fn title(question: &Question) -> Vec<Piece> {
    let mut pieces = vec![
        (format!("DECISION {} of {} · ", question.place, question.of), Role::Title),
        (format!("▐ {} ▌", question.money.words()), badge(question.money)),
    ];
    if let About::Action(action) = &question.about {
        pieces.push((format!(" {} {}", action.chain, action.chain_id), Role::TextDim));
    }
    pieces
}

fn validity(state: &State, question: &Question) -> Vec<Piece> {
    let About::Action(action) = &question.about else {
        return vec![("no limit of time".to_owned(), Role::TextDim)];
    };
    if !state.motion {
        return vec![(format!("valid until {}", time_of_day(action.valid_until / 1000)), Role::TextDim)];
    }
    let left = action.valid_until.saturating_sub(state.now_millis);
    if left == 0 {
        return vec![("simulating again…".to_owned(), Role::StateCare)];
    }
    let whole = action.valid_until.saturating_sub(action.valid_since).max(1);
    let filled = usize::try_from((left * BAR).div_ceil(whole)).unwrap_or(0).min(10);
    let seconds = left / 1000;
    let mut pieces = vec![
        (format!("valid {}:{:02} ", seconds / 60, seconds % 60), Role::Dialog),
        ("█".repeat(filled), Role::StateGood),
        ("░".repeat(10 - filled), Role::TextDim),
    ];
    if let Some(ends) = question.ends_at.filter(|_| question.passes_by_itself) {
        let seconds = ends.saturating_sub(state.now_millis) / 1000;
        pieces.push((format!(" passes by itself in {seconds} s"), Role::StateCare));
    }
    pieces
}

fn cents(usd: Usd) -> String {
    format!("${}", grouped(&usd.to_fixed(2, crate::base::units::Rounding::Up)))
}

fn head(question: &Question, decision: &Decision) -> Vec<Row> {
    let mut rows = vec![Row::new(readable(question.title.as_str(), PLACES), Role::TextStrong)];
    if let (Some(value), Some(row)) = (question.value, rows.first_mut()) {
        row.right = vec![(cents(value), Role::TextStrong)];
    }
    let reasons: Vec<String> = question.reasons.iter().map(|why| readable(why.as_str(), PLACES)).collect();
    rows.push(Row::new("Asked because  ", Role::TextDim).then(reasons.join(" · "), Role::Dialog));
    if let About::Action(action) = &question.about {
        let mut by: Vec<String> = vec![question.golem_id.to_string()];
        by.extend(action.asked_by.iter().map(ToString::to_string));
        let mut row = Row::new("Asked by       ", Role::TextDim).then(by.join(" › "), Role::Dialog);
        if let Some(opinion) = &action.opinion {
            let (says, role) = if opinion.agrees { ("agrees", Role::StateGood) } else { ("disagrees", Role::StateBad) };
            row = row.then(format!(" › safety-guardian ({says}; {})", opinion.why), role);
        }
        rows.push(row);
        if let Some(said) = &action.words {
            let note = "agent's words, not checked";
            rows.push(
                Row::new("It says        ", Role::TextDim)
                    .then(format!("┆ {said}"), Role::TextAgent)
                    .end(note, Role::TextDim),
            );
        }
    }
    for changed in &decision.changed {
        rows.push(Row::new("≠ changed      ", Role::StateCare).then(changed.as_str(), Role::StateCare).kept());
    }
    rows
}

fn body_title(question: &Question, decision: &Decision) -> &'static str {
    match (&question.about, decision.raw) {
        (About::Action(_), true) => "The calls as they would be signed (d goes back)",
        (About::Action(_), false) => "What changes, where it goes, checks",
        (About::Policy(_), _) => "What changes",
        (About::Lower { .. } | About::LeavePaper | About::ResetBreaker { .. } | About::SellAfterDeath, _) => {
            "What it means"
        }
    }
}

fn section(rows: &mut Vec<Row>, words: String) {
    if !rows.is_empty() {
        rows.push(Row::default());
    }
    rows.push(Row::new(words, Role::Title));
}

fn body(question: &Question, decision: &Decision, columns: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    match &question.about {
        About::Action(action) => action_rows(&mut rows, question, action, decision, columns),
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
        About::SellAfterDeath => {
            rows.push(Row::new("A yes sells all tokens for USDC, as far as your policy lets it.", Role::StateCare));
            rows.push(Row::new("A no leaves everything where it is: in your wallet.", Role::Dialog));
        }
    }
    rows
}

fn policy_rows(rows: &mut Vec<Row>, policy: &PolicyAsked) {
    rows.push(Row::new("From ", Role::TextDim).then(policy.file.as_str(), Role::Dialog));
    for change in &policy.changes {
        let (mark, role) = if change.tighter { ("  ", Role::Dialog) } else { ("! ", Role::StateCare) };
        rows.push(
            Row::new(mark, role)
                .then(format!("{}: ", change.field), Role::Dialog)
                .then(format!("{} → {}", change.from, change.to), role),
        );
    }
}

fn action_rows(rows: &mut Vec<Row>, question: &Question, action: &ActionAsked, decision: &Decision, columns: usize) {
    // What must be read comes first: it is what a small screen shows.
    if !question.to_read.is_empty() {
        let unread = decision.unread(question);
        section(rows, format!("To read: {} · {unread} left (Space marks the next as read)", question.to_read.len()));
        for one in &question.to_read {
            let (mark, role) =
                if decision.read.contains(&one.text) { ("[x]", Role::Dialog) } else { ("[ ]", Role::StateCare) };
            rows.push(Row::new(format!("{TO_READ}{mark} "), Role::StateCare).then(one.text.as_str(), role).kept());
        }
    }
    section(rows, format!("What changes · simulated on block #{}", grouped(&action.block.to_string())));
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
    for after in &action.allowances {
        let who = after.label.as_ref().map_or_else(|| short_address(after.spender), ToString::to_string);
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
        Err(why) => rows.push(Row::new(format!("! {why}"), Role::StateCare)),
    }
    let mut costs = Row::new("Counts as ", Role::TextDim).then(cents(action.costs.spent), Role::Dialog);
    costs = costs.then(format!(" spent; gas at most {}", cents(action.costs.gas)), Role::Dialog);
    if let Some((lost, bps)) = &action.costs.expected_loss {
        costs = costs.then(format!("; costs {} ({})", cents(*lost), share(*bps)), Role::Dialog);
    }
    if let Some(bps) = action.costs.worst_loss_bps {
        costs = costs.then(format!("; worst case {}", share(bps)), Role::StateCare);
    }
    rows.push(costs);
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
            row = row.then(format!("  {label}, in the address book"), Role::Dialog);
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
        let word = format!("{}  ", check_words(check.check));
        if pieces_width(&row.left) + width_of(&word) > columns && !row.left.is_empty() {
            rows.push(std::mem::take(&mut row));
        }
        row = row.then(format!("{mark} "), role).then(word, Role::Dialog);
    }
    rows.push(row);
    let permit = action.permit.to_string();
    let short: String = permit.chars().take(4).collect();
    rows.push(Row::new(
        format!("permit {short}…  hash {}", crate::console::format::short_hash(action.hash)),
        Role::TextDim,
    ));
}

fn share(bps: u64) -> String {
    format!("{}.{:02} %", bps / 100, bps % 100)
}

/// A check's name on the screen.
pub(super) fn check_words(check: crate::base::model::Check) -> &'static str {
    use crate::base::model::Check;
    match check {
        Check::Halt => "halt",
        Check::PhaseGate => "phase",
        Check::TokenAllowlist => "tokens",
        Check::SpendingLimit => "limits",
        Check::RateLimit => "rate",
        Check::BalanceBreaker => "breaker",
        Check::SlippageGuard => "slippage",
        Check::PolicyCage => "policy contract",
        Check::Simulation => "simulation",
        Check::ChainHealth => "other chain",
    }
}

fn raw(question: &Question) -> Vec<Row> {
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
    rows.push(Row::new(format!("permit {}", action.permit), Role::TextDim));
    rows.push(Row::new(format!("binds {}", action.hash), Role::TextDim));
    rows
}

fn foot(state: &State, question: &Question, decision: &Decision, columns: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(form) = &decision.form {
        let kind = decision.picked.map_or("", words);
        rows.push(Row::new(kind, Role::TextStrong));
        for (at, (label, field)) in form.fields.iter().enumerate() {
            let here = at == form.at;
            let cursor = if here { "▏" } else { "" };
            let role = if here { Role::Selection } else { Role::Dialog };
            rows.push(
                Row::new(format!("{label}: "), Role::TextDim)
                    .then(field.text().to_owned(), role)
                    .then(cursor, Role::Key)
                    .kept(),
            );
        }
        if let (Some(confirm), Some(AnswerKind::Once | AnswerKind::Similar)) = (&question.confirm, decision.picked) {
            rows.push(Row::new(format!("to confirm, type {}", confirm.what), Role::StateCare));
        }
        if let (Some(AnswerKind::Smaller), About::Action(action)) = (decision.picked, &question.about)
            && let Some((amount, symbol)) = &action.amount
        {
            rows.push(Row::new(
                format!("smaller than {amount} {symbol}; it is prepared and asked anew"),
                Role::TextDim,
            ));
        }
        rows.push(
            Row::new("Enter", Role::Key)
                .then(" does it   ", Role::TextDim)
                .then("Esc", Role::Key)
                .then(" back", Role::TextDim),
        );
    } else {
        let offered: Vec<Vec<Piece>> = question
            .answers
            .iter()
            .map(|offered| {
                let chosen = decision.picked == Some(offered.kind);
                let letter = offered.kind.letter();
                match &offered.why_not {
                    // Struck out in characters: a terminal need not know how to strike through.
                    Some(_) => vec![(format!("-{letter}- {}", words(offered.kind)), Role::TextDim)],
                    None if chosen => vec![(format!("▸{letter} {}", words(offered.kind)), Role::Selection)],
                    None => {
                        vec![(format!(" {letter}"), Role::Key), (format!(" {}", words(offered.kind)), Role::Dialog)]
                    }
                }
            })
            .collect();
        let later = vec![(" Esc".to_owned(), Role::Key), (" later (keeps waiting)".to_owned(), Role::Dialog)];
        let each = (columns / ANSWER).clamp(1, 3);
        let mut row: Vec<Piece> = Vec::new();
        for (at, pieces) in offered.into_iter().chain([later]).enumerate() {
            if at > 0 && at % each == 0 {
                rows.push(Row::of(std::mem::take(&mut row)));
            }
            let padding = ANSWER.saturating_sub(pieces_width(&pieces));
            row.extend(pieces);
            if (at + 1) % each != 0 {
                row.push((" ".repeat(padding), Role::Dialog));
            }
        }
        rows.push(Row::of(row));
    }
    let guarded = decision.acts_from().is_none_or(|from| state.now_millis < from);
    match (&decision.hint, guarded && decision.picked.is_none()) {
        (Some(hint), _) => rows.push(Row::new(hint.as_str(), Role::StateCare).kept()),
        (None, true) => rows.push(Row::new("keys act in a moment: read it first", Role::TextDim)),
        (None, false) => {
            let keys = [("d", "raw call"), ("y", "copy"), ("n", "next"), ("z", "full screen")];
            let mut row = Row::default();
            for (key, does) in keys {
                row = row.then(key, Role::Key).then(format!(" {does}   "), Role::TextDim);
            }
            rows.push(row);
        }
    }
    rows
}

/// Digits after the point where a figure is one of many.
const SHORT: usize = 4;

/// A question in a few words: what is paid and for what, where it is a trade.
pub(crate) fn question_brief(question: &Question) -> String {
    if let About::Action(action) = &question.about
        && let Some((amount, from)) = &action.amount
        && let Some(to) = action.changes.iter().find(|change| change.expected.starts_with('+') && !change.gas)
    {
        return format!("{} {from} → {}", readable(amount, SHORT), to.symbol);
    }
    readable(question.title.as_str(), SHORT)
}

/// The line of a decision among others: used by lists of questions.
pub(crate) fn question_line(question: &Question, now: u64, motion: bool) -> (Vec<Piece>, Vec<Piece>) {
    let mut left = vec![(readable(question.title.as_str(), SHORT), Role::Text)];
    if let Some(value) = question.value {
        left.push((format!("  {}", cents(value)), Role::TextStrong));
    }
    let right = match question.ends_at {
        None => vec![("no limit".to_owned(), Role::TextDim)],
        Some(at) if motion => {
            let seconds = at.saturating_sub(now) / 1000;
            vec![(format!("{}:{:02}", seconds / 60, seconds % 60), Role::StateCare)]
        }
        Some(at) => vec![(time_of_day(at / 1000), Role::StateCare)],
    };
    (left, right)
}
