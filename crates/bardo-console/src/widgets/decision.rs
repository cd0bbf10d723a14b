//! Approval dialog: an approval request with its answers. The answers are always visible, and title and reason if there
//! is room. The rest scrolls if it does not fit, and says so. Nothing is cut: long lines wrap.

mod dialog_state;
mod password_input;
mod read_marks;
mod rows;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::Widget;

pub use dialog_state::{AnswerForm, Decision, DecisionOutcome, ENDED_MILLIS, GUARD_MILLIS};
pub use read_marks::LineText;
use read_marks::line_texts;
pub(in crate::widgets) use read_marks::numbered_lines;
use rows::{asked, body, brief_body, heading, raw, scope_rows};
pub use rows::{ends_words, question_brief, question_line};

use super::Moment;
use super::dialog::{inside, middle, open};
use super::figure::readable;
use super::paint::{Row, wrapped};
use super::text_input::{self, CURSOR};
use super::words::reasons;
use crate::format::{grouped, short_hash, time_of_day};
use crate::painter::{Painter, StyledText, styled_width};
use crate::theme::{Role, Theme};
use bardo_base::fabric::{ApprovalOutcome, ApprovalResolved};
use bardo_base::format::nearest_cent;
use bardo_base::id::GolemId;
use bardo_base::text::{SafeText, fit as shortened, width as width_of};
use bardo_base::units::{Rounding, Usd};
use bardo_session::market::MoneyKind;
use bardo_session::questions::{ActionRequest, AnswerKind, OFFER_NUMBER, Question, RequestSubject};

/// Maximum width of the dialog unless it fills the screen, in columns.
const WIDEST: u16 = 98;
/// Digits after the decimal point; full screen, the raw call and the copy have all.
const PLACES: usize = 6;
/// Number of digits that no figure exceeds.
const ALL_PLACES: usize = 100;
/// Width of an answer in the list of answers, in columns.
const ANSWER: usize = 34;
/// Role of an unrestricted Golem, which is not displayed because it explains nothing.
pub(crate) const WHOLE_GOLEM: &str = "golem-instance";
/// Number of lines that no request exceeds.
const MOST_LINES: u16 = 1_000;
/// Columns of an edge without text: corners, dashes, blanks.
const EDGE: usize = 9;
/// Prefix of a line that must be read.
const TO_READ: &str = "! ";
/// Width of the validity bar, in columns.
const BAR: u64 = 10;
/// Width from which the last line has room for its keys and for the ids of the offer, in columns.
const WITH_IDS: usize = 76;

/// Minimum number of lines of the body between title and answers. With fewer, the title scrolls with the body.
const LEAST_BODY: usize = 4;

/// Layout of the dialog.
struct DialogLayout {
    /// Remaining validity, if the upper edge has room for it.
    edge: Vec<StyledText>,
    /// Title in the upper edge.
    title: Vec<StyledText>,
    /// First heading of the body, if it is drawn in the rule above it.
    heading: Option<Row>,
    place: Rect,
    inner: Rect,
    head: Vec<Row>,
    middle: Vec<Row>,
    /// Texts of all lines from the title to the end of the body, in their order.
    texts: Vec<LineText>,
    foot: Vec<Row>,
    /// First visible line of the answers. If they do not all fit, the line with the cursor is visible.
    foot_first: usize,
    foot_room: usize,
    body_room: usize,
    offset: usize,
}

/// Visible part of the dialog, which counts as seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisiblePart {
    /// Width that the lines are wrapped to, in columns.
    pub columns: usize,
    /// Texts of all lines of title and body, whichever of them scrolls.
    pub lines: Vec<LineText>,
    /// Number of lines above the scrolling part, which are always visible.
    pub above: usize,
    /// Index of the first visible scrolling line.
    pub first: usize,
    /// Number of visible scrolling lines.
    pub shown: usize,
    /// True while the raw calls are shown instead of their description.
    pub raw: bool,
}

/// View model of the approval dialog: its state, and context of the request.
#[derive(Debug, Clone, Copy)]
pub struct DecisionModel<'a> {
    /// State of the dialog.
    pub decision: &'a Decision,
    /// Name of the requesting Golem; `None` if only its id is known.
    pub name: Option<&'a str>,
    /// Id and name of the session's Golem, if known: a standing approval is given to a Golem.
    pub golem: Option<(&'a GolemId, &'a str)>,
    /// Name of the network, if known.
    pub network: Option<&'a str>,
    /// Expected outcome of an earlier offer for the same trade, which failed because the price moved.
    pub before: Option<&'a SafeText>,
    /// Resolution of the request; `None` while it waits, or if no event reports it.
    pub outcome: Option<&'a ApprovalResolved>,
    /// True in a read-only console, which cannot answer.
    pub read_only: bool,
    /// Moment for which the dialog is drawn.
    pub now: Moment,
    /// Machine time for the guard, in milliseconds since the Unix epoch. The session time of a scenario or a recording
    /// may differ.
    pub clock: u64,
}

/// Role of the badge for a kind of money.
pub(crate) fn badge(money: MoneyKind) -> Role {
    match money {
        MoneyKind::Play | MoneyKind::Rehearsal => Role::BadgePlay,
        MoneyKind::Test => Role::BadgeTest,
        MoneyKind::Real => Role::BadgeReal,
        MoneyKind::Paper => Role::BadgePaper,
        MoneyKind::Replay => Role::BadgeReplay,
    }
}

fn layout(model: DecisionModel<'_>, area: Rect) -> Option<DialogLayout> {
    let decision = model.decision;
    let question = decision.shown.as_deref()?;
    let width = if decision.full { area.width } else { area.width.min(WIDEST) };
    let columns = usize::from(width).saturating_sub(4);
    let ended = decision.ended_at.is_some();
    // If not everything fits, the shortest form comes first and the rest below it.
    let brief = !decision.full && !decision.raw && !ended && !fits_whole(model, question, columns, area.height);
    let mut first = head(model, question, brief);
    let validity = if ended { Vec::new() } else { validity(model.now, question) };
    // The validity is never dropped: without room in the edge, it becomes the first line. Its maximum width decides, so
    // that no line moves during the countdown.
    let longest = styled_width(&validity).max(LONGEST_VALIDITY);
    let fits_edge = |title: &[StyledText]| styled_width(title) + longest + EDGE <= usize::from(width);
    // The name of the network is dropped before the validity; the chain stays.
    let whole = title(question, model.network, ended);
    let title = if fits_edge(&whole) { whole } else { title(question, None, ended) };
    let on_edge = fits_edge(&title);
    if !on_edge {
        let cut = styled_width(&title) + EDGE > usize::from(width);
        let place = match &question.about {
            RequestSubject::Action(action) if cut => {
                vec![(format!("{} {}", action.chain, action.chain_id), Role::TextDim)]
            }
            RequestSubject::Action(_)
            | RequestSubject::Policy(_)
            | RequestSubject::Lower { .. }
            | RequestSubject::LeavePaper
            | RequestSubject::ResetBreaker { .. }
            | RequestSubject::SellHoldings { .. } => Vec::new(),
        };
        first.insert(0, Row { left: place, right: validity.clone(), keep: true });
    }
    let edge = if on_edge { validity } else { Vec::new() };
    let below = match (decision.raw, brief) {
        (true, _) => raw(question),
        (false, false) => body(question, decision, columns),
        (false, true) => brief_body(question, decision, columns),
    };
    let texts = line_texts(&[first.as_slice(), below.as_slice()].concat(), columns);
    let mut head = wrapped(first, columns);
    let mut middle_rows = wrapped(below, columns);
    let mut foot = wrapped(foot(model, question, columns), columns);
    // If everything fits, the rule above the body shows its first heading.
    let fits = head.len() + middle_rows.len() + foot.len() + 3 <= usize::from(area.height);
    let lifts =
        fits && middle_rows.first().is_some_and(|row| heading(row).is_some_and(|words| width_of(words) + 6 < columns));
    let heading = if lifts { Some(middle_rows.remove(0)) } else { None };
    let needed = head.len() + middle_rows.len() + foot.len() + 4;
    let place = if decision.full { area } else { middle(area, usize::from(width), needed) };
    let inner = inside(place);
    let room = usize::from(inner.height);
    // Full screen shows as much as possible at once: the fixed parts scroll too, or are shortened.
    if decision.full && needed > usize::from(area.height) && !ended {
        head.append(&mut middle_rows);
        middle_rows = std::mem::take(&mut head);
        if decision.form.is_none() {
            foot = wrapped(short_foot(model, question), columns);
            if foot.len() > 1 && foot.len() + 2 + LEAST_BODY > room.saturating_sub(LEAST_BODY) {
                foot = wrapped(shortest_foot(model, question), columns);
            }
        }
    }
    // On a very small screen the answers are shortened before nothing of the request is left to read.
    let is_cut = needed > usize::from(area.height);
    if is_cut && !decision.full && !ended && decision.form.is_none() && foot.len() + 2 + LEAST_BODY > room {
        foot = wrapped(short_foot(model, question), columns);
    }
    // If even title and answers do not fit, the answers stay and everything else scrolls above them.
    let foot_room = foot.len().min(room);
    let cursor = foot.iter().rposition(|row| row.left.iter().any(|(text, _)| text.contains(CURSOR)));
    // Two rules are above them.
    let foot_first = cursor.map_or(0, |at| (at + 1).saturating_sub(foot_room.min(room.saturating_sub(2)).max(1)));
    if head.len() + foot_room + 2 + LEAST_BODY.min(middle_rows.len()) > room {
        head.append(&mut middle_rows);
        middle_rows = std::mem::take(&mut head);
    }
    let body_room = room.saturating_sub(foot_room + head.len() + 2);
    let offset = decision.offset.min(middle_rows.len().saturating_sub(body_room));
    Some(DialogLayout {
        edge,
        title,
        heading,
        place,
        inner,
        head,
        middle: middle_rows,
        texts,
        foot,
        foot_first,
        foot_room,
        body_room,
        offset,
    })
}

/// Returns true if title, body and answers all fit the height.
fn fits_whole(model: DecisionModel<'_>, question: &Question, columns: usize, height: u16) -> bool {
    let lines = |rows: Vec<Row>| wrapped(rows, columns).len();
    let body = lines(body(question, model.decision, columns));
    // Uses a dialog without input, so that input and messages do not switch to the shorter form.
    let calm = Decision::new(question.number, 0);
    let answers = foot(DecisionModel { decision: &calm, ..model }, question, columns);
    // Two edges and two rules; the first heading is in the rule above the body.
    let around = lines(head(model, question, false)) + lines(answers) + 4;
    body.saturating_sub(1) + around <= usize::from(height)
}

impl DecisionModel<'_> {
    /// Visible part of the dialog; `None` if no line of the body is visible or the answers are incomplete.
    pub fn fit(&self, area: Rect) -> Option<VisiblePart> {
        fit(*self, area)
    }

    /// Index of the warning that is drawn at a position.
    pub fn to_read_at(&self, area: Rect, at: Position) -> Option<usize> {
        to_read_at(*self, area, at)
    }

    /// Number of lines that the whole dialog needs at this width.
    pub fn height(&self, width: u16) -> u16 {
        layout(*self, Rect::new(0, 0, width, MOST_LINES)).map_or(0, |layout| layout.place.height)
    }
}

/// Widget of the approval dialog, centred in its area.
#[derive(Debug, Clone, Copy)]
pub struct DecisionDialog<'a> {
    model: DecisionModel<'a>,
    theme: &'a Theme,
}

impl<'a> DecisionDialog<'a> {
    /// Creates the widget of a dialog.
    pub const fn new(model: DecisionModel<'a>, theme: &'a Theme) -> Self {
        Self { model, theme }
    }
}

impl Widget for DecisionDialog<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        draw(self.model, &mut Painter { buffer, theme: self.theme }, area);
    }
}

fn fit(model: DecisionModel<'_>, area: Rect) -> Option<VisiblePart> {
    let layout = layout(model, area)?;
    let shown = layout.body_room.min(layout.middle.len() - layout.offset);
    let columns = usize::from(layout.inner.width);
    // Incomplete answers leave no room for a line above them. Lines are counted from the title, so that their numbers
    // stay the same whether the title is fixed or scrolls.
    let above = layout.head.len() + usize::from(layout.heading.is_some());
    let first = above + layout.offset;
    (shown > 0).then_some(VisiblePart { columns, lines: layout.texts, above, first, shown, raw: model.decision.raw })
}

fn to_read_at(model: DecisionModel<'_>, area: Rect, at: Position) -> Option<usize> {
    let layout = layout(model, area)?;
    let first = layout.inner.y + u16::try_from(layout.head.len()).unwrap_or(u16::MAX).saturating_add(1);
    let row = usize::from(at.y.checked_sub(first)?);
    if row >= layout.body_room || !layout.inner.contains(at) || model.decision.raw {
        return None;
    }
    let marked = |row: &Row| row.left.first().is_some_and(|(text, _)| text.starts_with(TO_READ));
    let row = layout.offset + row;
    let before = layout.middle.get(..row)?.iter().filter(|row| marked(row)).count();
    layout.middle.get(row).filter(|row| marked(row)).map(|_| before)
}

fn draw(model: DecisionModel<'_>, painter: &mut Painter<'_>, area: Rect) {
    let area = area.intersection(painter.buffer.area);
    let decision = model.decision;
    let (Some(question), Some(layout)) = (decision.shown.as_deref(), layout(model, area)) else { return };
    let DialogLayout { edge, title: upper, heading: lifted, place, head, middle, foot, body_room, offset, .. } = layout;
    let (foot_first, foot_room) = (layout.foot_first, layout.foot_room);
    let inner = open(painter, place, &upper, &edge);
    let mut y = inner.y;
    let bottom = inner.bottom();
    let put = |painter: &mut Painter<'_>, rows: &[Row], y: &mut u16| {
        for (at, row) in rows.iter().enumerate() {
            if *y >= bottom {
                return;
            }
            match heading(row).filter(|words| at > 0 && width_of(words) + 6 < usize::from(inner.width)) {
                Some(words) => rule(painter, place, *y, &[(words.to_owned(), Role::Title)], Vec::new()),
                None => painter.row(Rect { y: *y, height: 1, ..inner }, &row.left, &row.right),
            }
            *y += 1;
        }
    };
    let columns = usize::from(inner.width);
    put(painter, &head, &mut y);
    let hidden = middle.len() > body_room;
    // If title and range do not fit side by side, only a shorter range is drawn.
    let lifted = lifted.as_ref().and_then(heading);
    let title = lifted.unwrap_or_else(|| body_title(question, decision));
    let (long, short) =
        if hidden { lines_words(decision, offset, body_room, middle.len()) } else { Default::default() };
    if hidden && columns < width_of(title) + width_of(&long) + 6 {
        rule(painter, place, y, &[(short, Role::StateCare)], Vec::new());
    } else {
        let range = if hidden { vec![(long, Role::StateCare)] } else { Vec::new() };
        rule(painter, place, y, &[(title.to_owned(), Role::Title)], range);
    }
    y += 1;
    put(
        painter,
        middle.get(offset..).unwrap_or(&[]).get(..body_room.min(middle.len() - offset)).unwrap_or(&[]),
        &mut y,
    );
    let mut y = bottom.saturating_sub(u16::try_from(foot_room + 1).unwrap_or(u16::MAX)).max(y);
    let how: &[StyledText] = match decision.ended_at {
        Some(_) => &[("This decision has ended".to_owned(), Role::Title)],
        None if model.read_only => &[("Read-only: another console answers".to_owned(), Role::Title)],
        // In a form, letters are text.
        None if decision.typing() => &[("Your answer".to_owned(), Role::Title)],
        None => &[
            ("A letter selects, ".to_owned(), Role::Title),
            ("Enter".to_owned(), Role::Key),
            (" confirms".to_owned(), Role::Title),
        ],
    };
    rule(painter, place, y, how, picked(model));
    y += 1;
    put(painter, foot.get(foot_first..).unwrap_or(&[]), &mut y);
}

/// Range of the visible lines with the keys for the rest, in a long and a short form.
fn lines_words(decision: &Decision, offset: usize, room: usize, lines: usize) -> (String, String) {
    let last = (offset + room).min(lines);
    let key = if last < lines { "PgDn" } else { "PgUp" };
    // Full screen cannot be enlarged further, and letters are text in a form.
    let enlarges = !decision.full && !decision.typing() && decision.ended_at.is_none();
    let range = format!("lines {}–{last} of {lines} · {key}", offset + 1);
    let long = match (last < lines, enlarges) {
        (true, true) => format!("{range} shows more, z enlarges"),
        (true, false) => format!("{range} shows more"),
        (false, true) => format!("{range} goes back, z enlarges"),
        (false, false) => format!("{range} goes back"),
    };
    (long, range)
}

fn rule(painter: &mut Painter<'_>, place: Rect, y: u16, title: &[StyledText], right: Vec<StyledText>) {
    if y >= place.bottom() {
        return;
    }
    painter.division(place, y, title, &right, Role::DialogBorder);
}

fn picked(model: DecisionModel<'_>) -> Vec<StyledText> {
    let decision = model.decision;
    match decision.picked {
        None if decision.ended_at.is_some() || model.read_only => Vec::new(),
        // An approval is not accepted before, so it is said before a key is tried.
        None if decision.unseen().is_some_and(|unseen| unseen > 0) => {
            vec![("PgDn".to_owned(), Role::Key), (" to the end, then approve".to_owned(), Role::StateCare)]
        }
        None => vec![("nothing is selected".to_owned(), Role::TextDim)],
        Some(kind) => vec![
            (format!("selected: {} · ", label(kind)), Role::StateCare),
            ("Enter".to_owned(), Role::Key),
            (" confirms".to_owned(), Role::StateCare),
        ],
    }
}

fn label(kind: AnswerKind) -> &'static str {
    match kind {
        AnswerKind::Once => "approve once",
        AnswerKind::Similar => "approve similar for a while…",
        AnswerKind::Smaller => "smaller amount…",
        AnswerKind::Refuse => "reject, say why…",
        AnswerKind::RefuseAndStop => "reject and STOP everything",
    }
}

fn title(question: &Question, network: Option<&str>, ended: bool) -> Vec<StyledText> {
    let place = match (ended, question.number) {
        (true, _) => "DECISION ENDED · ".to_owned(),
        (false, OFFER_NUMBER) => "YOUR DECISION · ".to_owned(),
        (false, _) => format!("DECISION {} of {} · ", question.place, question.of),
    };
    let mut pieces = vec![(place, Role::Title), (format!("▐ {} ▌", question.money.describe()), badge(question.money))];
    if let Some(network) = network {
        pieces.push((format!(" {network}"), Role::TextDim));
    }
    if let RequestSubject::Action(action) = &question.about {
        pieces.push((format!(" {} {}", action.chain, action.chain_id), Role::TextDim));
    }
    pieces
}

/// Width of the longest validity text of an offer, `valid 10:00 ` with its bar, in columns.
const LONGEST_VALIDITY: usize = 22;

fn validity(now: Moment, question: &Question) -> Vec<StyledText> {
    let RequestSubject::Action(action) = &question.about else {
        return vec![("no deadline".to_owned(), Role::TextDim)];
    };
    if !now.motion {
        return vec![(format!("valid until {}", time_of_day(action.valid_until / 1000)), Role::TextDim)];
    }
    let left = action.valid_until.saturating_sub(now.millis);
    if left == 0 && question.number == OFFER_NUMBER {
        return vec![("expired".to_owned(), Role::StateBad)];
    }
    if left == 0 {
        return vec![("simulating again…".to_owned(), Role::StateCare)];
    }
    let whole = action.valid_until.saturating_sub(action.valid_since).max(1);
    let filled = usize::try_from((left * BAR).div_ceil(whole)).unwrap_or(0).min(10);
    let seconds = left / 1000;
    vec![
        (format!("valid {}:{:02} ", seconds / 60, seconds % 60), Role::Dialog),
        ("█".repeat(filled), Role::StateGood),
        ("░".repeat(10 - filled), Role::TextDim),
    ]
}

/// Row that says when the request passes without an answer; `None` if it does not.
fn silence(now: Moment, question: &Question) -> Option<Row> {
    let ends = question.ends_at.filter(|_| question.passes_by_itself)?;
    let words = ends_words(ends, true, now, usize::MAX);
    Some(Row::new("No answer      ", Role::TextDim).then(format!("it {words}"), Role::StateCare).kept())
}

/// Dollars rounded to the nearest cent, so that two lines about one amount agree. Less than a cent is shown as one.
fn cents(usd: Usd) -> String {
    let tiny = usd.scaled(2, Rounding::Down) == Some(0);
    let digits = if tiny { usd.to_fixed(2, Rounding::Up) } else { nearest_cent(usd) };
    format!("${}", grouped(&digits))
}

/// Consequence of leaving the request for later; `None` if it waits for its deadline.
fn later(question: &Question) -> Option<&'static str> {
    match question.number {
        OFFER_NUMBER => Some("until it expires"),
        _ if question.passes_by_itself => Some("it goes ahead"),
        _ => None,
    }
}

/// Deadline of the request, if it differs from the validity of its offer.
fn waits(now: Moment, question: &Question) -> Option<String> {
    let ends = question.ends_at.filter(|_| !question.passes_by_itself && question.number != OFFER_NUMBER)?;
    let seconds = ends.saturating_sub(now.millis) / 1_000;
    Some(match now.motion {
        true => format!("answer within {}:{:02}", seconds / 60, seconds % 60),
        false => format!("answer by {}", time_of_day(ends / 1_000)),
    })
}

/// Digits after the decimal point for figures of the dialog.
const fn places(decision: &Decision) -> usize {
    if decision.full { ALL_PLACES } else { PLACES }
}

fn head(model: DecisionModel<'_>, question: &Question, brief: bool) -> Vec<Row> {
    let (decision, name, places) = (model.decision, model.name, places(model.decision));
    let mut rows = vec![Row::new(asked(question, places), Role::TextStrong)];
    if let (Some(value), Some(row)) = (question.value, rows.first_mut()) {
        // A deposit takes what the price makes of it, up to a maximum.
        let deposits =
            matches!(&question.about, RequestSubject::Action(action) if action.intent.as_str() == "liquidity");
        let most = if deposits { "at most " } else { "" };
        row.right = vec![(format!("{most}{}", cents(value)), Role::TextStrong)];
    }
    let reasons: Vec<String> = reasons(&question.reasons).iter().map(|why| readable(why, places)).collect();
    let mut why = Row::new("Asked because  ", Role::TextDim).then(reasons.join(" · "), Role::Dialog);
    if let (Some(waits), None) = (waits(model.now, question), decision.ended_at) {
        why = why.end(waits, Role::TextDim);
    }
    rows.push(why);
    rows.extend(silence(model.now, question));
    if let (MoneyKind::Paper, RequestSubject::Action(_)) = (question.money, &question.about) {
        let words = "nothing is signed or sent: only paper balances and limits change";
        rows.push(Row::new("On paper       ", Role::TextDim).then(words, Role::StateCare).kept());
    }
    if let RequestSubject::Action(action) = &question.about {
        let operator = question.golem_id == GolemId::operator();
        let own = if operator { "you".to_owned() } else { question.golem_id.to_string() };
        let mut by = vec![name.map_or(own, str::to_owned)];
        // The unrestricted role adds nothing to the Golem's name.
        by.extend(action.asked_by.iter().map(ToString::to_string).filter(|role| role != WHOLE_GOLEM));
        let mut row = Row::new("Asked by       ", Role::TextDim).then(by.join(" › "), Role::Dialog);
        if let Some(opinion) = &action.opinion {
            let (says, role) = if opinion.agrees { ("agrees", Role::StateGood) } else { ("disagrees", Role::StateBad) };
            let why = if brief { String::new() } else { format!("; {}", opinion.why) };
            row = row.then(format!(" › safety-guardian ({says}{why})"), role);
        }
        rows.push(row);
        if let Some(said) = &action.words {
            let note = if brief { "not checked" } else { "agent's words, not checked" };
            rows.push(
                Row::new(format!("{:<15}", format!("{} says", shortened(name.unwrap_or("It"), 9))), Role::TextDim)
                    .then(format!("┆ {said}"), Role::TextAgent)
                    .end(note, Role::TextDim),
            );
        }
    }
    if let Some(before) = model.before {
        let text = format!("{} (no longer available)", readable(before.as_str(), places));
        rows.push(Row::new("Before         ", Role::TextDim).then(text, Role::StateCare).kept());
    }
    for changed in &decision.changed {
        rows.push(
            Row::new("≠ worse now    ", Role::StateCare)
                .then(readable(changed.as_str(), places), Role::StateCare)
                .kept(),
        );
    }
    rows
}

fn body_title(question: &Question, decision: &Decision) -> &'static str {
    match (&question.about, decision.raw) {
        (RequestSubject::Action(_), true) => "Exact calls to sign (d goes back)",
        (RequestSubject::Action(_), false) => "What changes, where it goes, checks",
        (RequestSubject::Policy(_), _) => "What changes",
        (
            RequestSubject::Lower { .. }
            | RequestSubject::LeavePaper
            | RequestSubject::ResetBreaker { .. }
            | RequestSubject::SellHoldings { .. },
            _,
        ) => "What it means",
    }
}

/// Ids of what would be signed: the offer, and the hash that it is bound to.
fn ids(action: &ActionRequest) -> String {
    let permit: String = action.permit.to_string().chars().take(4).collect();
    format!("offer {permit}…  hash {}", short_hash(action.hash))
}

/// Returns true if the ids fit beside the keys of the last line, which never scrolls.
const fn ids_below(columns: usize) -> bool {
    columns >= WITH_IDS
}

/// Returns true for a request to sell all holdings, which a different stop ends.
fn sells(model: DecisionModel<'_>) -> bool {
    matches!(model.decision.shown.as_deref().map(|shown| &shown.about), Some(RequestSubject::SellHoldings { .. }))
}

/// Rows in place of the answers once the request has ended: result, typed text, and the keys that close the dialog.
fn ended(model: DecisionModel<'_>) -> Vec<Row> {
    let is_offer = model.decision.number == OFFER_NUMBER;
    let (words, role) = match model.outcome.map(|resolved| resolved.outcome) {
        Some(ApprovalOutcome::Approved) => ("It was approved elsewhere.", Role::StateGood),
        Some(ApprovalOutcome::ApprovedSimilar) => ("It was approved elsewhere, with similar actions.", Role::StateGood),
        Some(ApprovalOutcome::Edited) => ("A smaller amount was requested elsewhere.", Role::StateCare),
        Some(ApprovalOutcome::Refused) => ("It was rejected elsewhere.", Role::StateBad),
        Some(ApprovalOutcome::RefusedAndHalted) => {
            ("It was rejected elsewhere, and everything stopped.", Role::StateBad)
        }
        Some(ApprovalOutcome::Lapsed) => {
            ("Nobody answered in time: it lapsed, and nothing was signed.", Role::StateCare)
        }
        None if is_offer => {
            ("The offer ended: it expired, or another one took its place. Nothing was signed.", Role::StateCare)
        }
        Some(ApprovalOutcome::Withdrawn) => ("It was withdrawn: nothing was signed.", Role::StateCare),
        None if sells(model) => {
            ("It was answered elsewhere, or the stop changed: nothing is asked any more.", Role::StateCare)
        }
        None => ("It no longer waits for an answer.", Role::StateCare),
    };
    let mut rows = vec![Row::new(words, role).kept()];
    if let Some(reason) = model.outcome.and_then(|resolved| resolved.reason.as_ref()).filter(|why| !why.is_empty()) {
        rows.push(Row::new(format!("Reason: \"{reason}\""), Role::Dialog).kept());
    }
    let typed = model.decision.form.iter().flat_map(|form| &form.fields).filter(|(_, field)| !field.text().is_empty());
    for (_, field) in typed {
        rows.push(Row::new("Not sent: ", Role::TextDim).then(field.text().to_owned(), Role::Dialog).kept());
    }
    rows.push(
        Row::new("Esc", Role::Key)
            .then(" or, after two seconds, ", Role::TextDim)
            .then("Enter", Role::Key)
            .then(" closes this. Other keys only scroll.", Role::TextDim),
    );
    rows
}

/// Short form of the answers and keys, one line each, for a screen without more room.
fn short_foot(model: DecisionModel<'_>, question: &Question) -> Vec<Row> {
    let decision = model.decision;
    let mut row = Row::default();
    for offered in &question.answers {
        let word = match offered.kind {
            AnswerKind::Once => "once",
            AnswerKind::Similar => "similar",
            AnswerKind::Smaller => "smaller",
            AnswerKind::Refuse => "reject",
            AnswerKind::RefuseAndStop => "STOP",
        };
        let letter = offered.kind.letter();
        row = match &offered.why_not {
            _ if model.read_only => row.then(format!("-{letter}- {word}  "), Role::TextDim),
            Some(_) => row.then(format!("-{letter}- {word}  "), Role::TextDim),
            None if decision.picked == Some(offered.kind) => row.then(format!("▸{letter} {word}  "), Role::Selection),
            None => row.then(letter.to_string(), Role::Key).then(format!(" {word}  "), Role::Dialog),
        };
    }
    let after = match later(question) {
        Some(why) => format!(" later ({why})  "),
        None => " later  ".to_owned(),
    };
    row = row.then("Esc", Role::Key).then(after, Role::Dialog);
    row = row
        .then("z", Role::Key)
        .then(if decision.full { " less  " } else { " full screen  " }, Role::Dialog)
        .then("d", Role::Key);
    row = row.then(if decision.raw { " back" } else { " raw" }, Role::Dialog);
    let mut rows = vec![row];
    if let Some(words) = key_message(model) {
        rows.push(Row::new(words, Role::StateCare).kept());
    }
    rows
}

/// Letters of the answers without their words, for full screen on a very small terminal.
fn shortest_foot(model: DecisionModel<'_>, question: &Question) -> Vec<Row> {
    let decision = model.decision;
    let mut row = Row::default();
    for offered in &question.answers {
        let letter = offered.kind.letter();
        row = match &offered.why_not {
            _ if model.read_only => row.then(format!("-{letter}- "), Role::TextDim),
            Some(_) => row.then(format!("-{letter}- "), Role::TextDim),
            None if decision.picked == Some(offered.kind) => row.then(format!("▸{letter} "), Role::Selection),
            None => row.then(letter.to_string(), Role::Key).then(" ", Role::Dialog),
        };
    }
    row = row.then(" Esc", Role::Key).then(" later  ", Role::Dialog).then("z", Role::Key).then(" less", Role::Dialog);
    let message = key_message(model).map(|words| Row::new(words, Role::StateCare).kept());
    std::iter::once(row).chain(message).collect()
}

/// Message about the last key, or about the remaining guard time.
fn key_message(model: DecisionModel<'_>) -> Option<String> {
    let decision = model.decision;
    if model.read_only {
        return None;
    }
    let left = decision.acts_from().map(|from| from.saturating_sub(model.clock));
    let soon = match left {
        Some(0) => None,
        // Tenths of a second, rounded up, so that keys never act later than shown.
        Some(left) if model.now.motion => {
            Some(format!("keys act in {}.{} s", left.div_ceil(100) / 10, left.div_ceil(100) % 10))
        }
        Some(_) | None => Some("keys act in a moment".to_owned()),
    };
    match (&decision.hint, soon) {
        (Some(hint), Some(soon)) if decision.hurried => Some(format!("{hint}: {soon}")),
        // Stands until the next key, so that nobody takes the ignored one for an answer.
        (Some(hint), None) if decision.hurried => Some(format!("{hint}: press the key again")),
        (Some(hint), _) if !decision.hurried => Some(hint.to_string()),
        (_, Some(soon)) if decision.picked.is_none() => Some(format!("{soon}: read it first")),
        _ => None,
    }
}

fn foot(model: DecisionModel<'_>, question: &Question, columns: usize) -> Vec<Row> {
    let decision = model.decision;
    if decision.ended_at.is_some() {
        return ended(model);
    }
    let mut rows = match &decision.form {
        Some(form) => form_rows(model, question, form),
        None => answer_rows(model, question, columns),
    };
    let ids = match &question.about {
        RequestSubject::Action(action) if ids_below(columns) => vec![(ids(action), Role::TextDim)],
        _ => Vec::new(),
    };
    match key_message(model) {
        Some(words) => rows.push(Row { right: ids, ..Row::new(words, Role::StateCare).kept() }),
        // In a text field, letters are text.
        // The row stays, so that a message moves nothing.
        None if decision.form.is_some() => rows.push(Row { right: ids, ..Row::default() }),
        None => {
            let zoom = if decision.full { "less" } else { "full screen" };
            let raw = if decision.raw { "back" } else { "raw call" };
            // A single decision has no next one.
            let next = (question.of > 1).then_some(("n", "next"));
            let keys = [Some(("d", raw)), Some(("y", "copy")), next, Some(("z", zoom))];
            let mut row = Row { right: ids, ..Row::default() };
            for (at, (key, does)) in keys.into_iter().flatten().enumerate() {
                let gap = if at == 0 { "" } else { "   " };
                row = row.then(gap, Role::TextDim).then(key, Role::Key).then(format!(" {does}"), Role::TextDim);
            }
            rows.push(row);
        }
    }
    rows
}

/// Fields of the picked answer, with what it means.
fn form_rows(model: DecisionModel<'_>, question: &Question, form: &AnswerForm) -> Vec<Row> {
    let decision = model.decision;
    let mut rows = Vec::new();
    let kind = decision.picked.map_or("", label);
    rows.push(Row::new(kind, Role::TextStrong));
    for (at, (label, field)) in form.fields.iter().enumerate() {
        let here = at == form.at;
        let mut row = Row::new(format!("{label}: "), Role::TextDim).kept();
        if here {
            // The rows of the dialog wrap, and all lines of a long reason must be readable.
            row.left.extend(text_input::pieces(field, Role::Selection));
        } else {
            row = row.then(field.text(), Role::Dialog);
        }
        rows.push(row);
    }
    if let (Some(confirm), Some(AnswerKind::Once | AnswerKind::Similar)) = (&question.confirm, decision.picked) {
        rows.push(Row::new(format!("to confirm, type {}", confirm.what), Role::StateCare));
    }
    if let (Some(AnswerKind::Similar), RequestSubject::Action(action)) = (decision.picked, &question.about) {
        rows.extend(scope_rows(model, action));
    }
    if let (Some(AnswerKind::Smaller), RequestSubject::Action(action)) = (decision.picked, &question.about)
        && let Some((amount, symbol)) = &action.amount
    {
        let words = format!(
            "less than {amount} {symbol}; it is prepared again, and goes ahead at once if it needs no approval then"
        );
        rows.push(Row::new(words, Role::TextDim));
    }
    let first = match form.fields.len() {
        0 | 1 => Row::default(),
        _ => Row::new("Tab", Role::Key).then(" next   ", Role::TextDim),
    };
    rows.push(
        first
            .then("Enter", Role::Key)
            .then(" confirms   ", Role::TextDim)
            .then("Esc", Role::Key)
            .then(" back", Role::TextDim),
    );
    rows
}

/// Answers to pick from, as many side by side as fit.
fn answer_rows(model: DecisionModel<'_>, question: &Question, columns: usize) -> Vec<Row> {
    let decision = model.decision;
    let mut rows = Vec::new();
    let offered: Vec<Vec<StyledText>> = question
        .answers
        .iter()
        .map(|offered| {
            let chosen = decision.picked == Some(offered.kind);
            let letter = offered.kind.letter();
            match &offered.why_not {
                // Struck out with characters, because not every terminal supports the attribute.
                _ if model.read_only => vec![(format!("-{letter}- {}", label(offered.kind)), Role::TextDim)],
                Some(_) => vec![(format!("-{letter}- {}", label(offered.kind)), Role::TextDim)],
                None if chosen => vec![(format!("▸{letter} {}", label(offered.kind)), Role::Selection)],
                None => {
                    vec![(format!(" {letter}"), Role::Key), (format!(" {}", label(offered.kind)), Role::Dialog)]
                }
            }
        })
        .collect();
    let after = format!(" later ({})", later(question).unwrap_or("keeps waiting"));
    let later = vec![(" Esc".to_owned(), Role::Key), (after, Role::Dialog)];
    let each = (columns / ANSWER).clamp(1, 3);
    let mut row: Vec<StyledText> = Vec::new();
    for (at, pieces) in offered.into_iter().chain([later]).enumerate() {
        if at > 0 && at % each == 0 {
            rows.push(Row::of(std::mem::take(&mut row)));
        }
        let padding = ANSWER.saturating_sub(styled_width(&pieces));
        row.extend(pieces);
        if (at + 1) % each != 0 {
            row.push((" ".repeat(padding), Role::Dialog));
        }
    }
    rows.push(Row::of(row));
    rows
}
