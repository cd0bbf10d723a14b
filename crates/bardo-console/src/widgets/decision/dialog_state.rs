//! Approval dialog: chosen answer, read marks and typed text of one request, and the guard against hasty keys.
//!
//! A key that chooses, marks or confirms acts only after the guard time ([`GUARD_MILLIS`]). The request must have been
//! on the screen unchanged for that long, without any keystroke. Navigation acts at once. If a new simulation is worse,
//! an approval loses its choice and its read marks, and the guard time restarts. Otherwise everything is kept.

use std::borrow::Cow;
use std::collections::BTreeSet;

use rust_decimal::Decimal;
use serde::Deserialize as _;

use super::password_input::PasswordInput;
use super::read_marks::ReadMarks;
use super::{LineText, VisiblePart};
use crate::keymap::{Action, Key};
use crate::widgets::text_field::TextField;
use bardo_base::fabric::{ApprovalResolved, AskReason, CheckOutcome};
use bardo_base::id::{CallId, PermitId};
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, Usd};
use bardo_session::handle::AuditEntry;
use bardo_session::questions::{
    ActionRequest, AnswerKind, Confirmation, OFFER_NUMBER, OperatorAnswer, Question, RequestSubject,
};

/// Guard time for which a request must be on the screen without a keystroke before a key acts, in milliseconds.
pub const GUARD_MILLIS: u64 = 500;
/// Time for which Enter does not close a request that has ended, in milliseconds. Enter may still be meant as an answer to
/// it, and then the operator would not see that nothing was answered. Esc answers nothing.
pub const ENDED_MILLIS: u64 = 2_000;
/// Interval between two queries for the outcome of a request of another process, in milliseconds.
const OUTCOME_EVERY_MILLIS: u64 = 1_000;
/// Maximum number of these queries.
const OUTCOME_TIMES: u8 = 5;
/// Kind of the audit entries about answers.
const APPROVAL_RESOLVED: &str = "approval:resolved";
/// Default duration of a standing approval, in minutes.
const USUAL_MINUTES: &str = "60";

/// Text fields of the chosen answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerForm {
    /// Label and text of each field.
    pub fields: Vec<(&'static str, TextField)>,
    /// Index of the focused field.
    pub at: usize,
}

/// State of the approval dialog.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Number of the request, which stays the same when it is simulated again.
    pub number: u64,
    /// Request as of the last accepted update; a worse one clears the choice.
    pub shown: Option<Box<Question>>,
    /// Time at which the current form was first drawn, in milliseconds.
    drawn_at: Option<u64>,
    /// Time of the last key or paste, in milliseconds.
    touched_at: u64,
    /// Chosen answer, before it is confirmed.
    pub picked: Option<AnswerKind>,
    /// Text fields of the chosen answer, if it has any.
    pub form: Option<AnswerForm>,
    /// Set when a worse simulation has cleared the chosen answer, until the next Esc or answer.
    lost: bool,
    /// Typed password, which is never drawn.
    secret: PasswordInput,
    /// Set when a standing approval was confirmed once and needs a second confirmation.
    pub again: bool,
    /// Texts that were marked as read.
    pub read: BTreeSet<SafeText>,
    /// Descriptions of what became worse since the request was first shown.
    pub changed: Vec<SafeText>,
    /// Set while the raw call is shown.
    pub raw: bool,
    /// Set while the dialog fills the screen.
    pub full: bool,
    /// Number of lines scrolled past.
    pub offset: usize,
    /// Text that was on the screen.
    seen: ReadMarks,
    /// True once all of it was on the screen, in whichever form and width it was drawn.
    seen_whole: bool,
    /// Texts of all lines as drawn last; `None` before the first drawing.
    lines: Option<Vec<LineText>>,
    /// Number of lines in view at once; `None` before the first drawing.
    room: Option<usize>,
    /// Message about the last key.
    pub hint: Option<SafeText>,
    /// Set when the last key came within the guard time.
    pub hurried: bool,
    /// Time at which the request ended, in milliseconds since the Unix epoch; `None` while it can be answered.
    pub ended_at: Option<u64>,
    /// Outcome that the audit log has for a request of another process, whose events do not arrive here.
    pub outcome: Option<ApprovalResolved>,
    /// Times at which the audit log was asked for it, counted, and the last of them in milliseconds since the Unix epoch.
    outcome_asked: (u8, u64),
}

/// Result of a key in the dialog.
#[derive(Debug, Clone, PartialEq)]
pub enum DecisionOutcome {
    /// The dialog stays open.
    Stays,
    /// The dialog closes; the request keeps waiting.
    Later,
    /// The dialog closes; the request has ended.
    Closed,
    /// The operator confirmed this answer.
    Answer(OperatorAnswer),
    /// The next request is to be shown.
    Next,
    /// The request is to be copied.
    Copy,
}

impl Decision {
    /// Creates a dialog for the request with that number, which is not drawn yet.
    pub fn new(number: u64, now: u64) -> Self {
        Self {
            number,
            shown: None,
            drawn_at: None,
            touched_at: now,
            picked: None,
            form: None,
            lost: false,
            secret: PasswordInput::default(),
            again: false,
            read: BTreeSet::new(),
            changed: Vec::new(),
            raw: false,
            full: false,
            offset: 0,
            seen: ReadMarks::default(),
            seen_whole: false,
            lines: None,
            room: None,
            hint: None,
            hurried: false,
            ended_at: None,
            outcome: None,
            outcome_asked: (0, 0),
        }
    }

    /// Call and permit of an ended request of another process whose outcome is to be looked up now; `None` if there is
    /// nothing to look up. Its outcome may be written a moment after the request ends, so it is asked for a few times.
    pub fn wants_outcome(&mut self, now: u64) -> Option<(CallId, PermitId)> {
        let question = self.shown.as_deref().filter(|_| self.ended_at.is_some() && self.outcome.is_none())?;
        let RequestSubject::Action(action) = &question.about else { return None };
        let (times, last) = self.outcome_asked;
        let is_due = times == 0 || now >= last.saturating_add(OUTCOME_EVERY_MILLIS);
        if !question.reasons.contains(&AskReason::Elsewhere) || times >= OUTCOME_TIMES || !is_due {
            return None;
        }
        self.outcome_asked = (times + 1, now);
        Some((question.call_id?, action.permit))
    }

    /// Takes the outcome of the request from audit entries of its call, if it is among them.
    pub fn take_outcome(&mut self, entries: &[AuditEntry]) {
        let Some(RequestSubject::Action(action)) = self.shown.as_deref().map(|question| &question.about) else {
            return;
        };
        let permit = action.permit;
        let resolved = entries.iter().rev().filter(|entry| entry.kind.as_str() == APPROVAL_RESOLVED);
        let mut resolved = resolved.filter_map(|entry| ApprovalResolved::deserialize(&entry.body).ok());
        self.outcome = resolved.find(|one| one.permit_id == permit).or(self.outcome.take());
    }

    /// Marks the request as ended. The dialog stays with its text, and accepts only keys that scroll or close it.
    pub fn end(&mut self, now: u64) {
        if self.ended_at.is_none() {
            self.ended_at = Some(now);
            (self.picked, self.again, self.raw) = (None, false, false);
            // The dialog may stay open for hours, and other typed text is shown as not sent.
            self.secret.clear();
            self.hint = None;
        }
    }

    /// Updates the request. A simulation that is not worse keeps everything. A worse one clears choice, text and read
    /// marks of an approval. A chosen rejection is kept, whatever the figures are.
    pub fn follow(&mut self, question: &Question) {
        let Some(shown) = &self.shown else {
            self.shown = Some(Box::new(question.clone()));
            // What became worse before it was opened belongs to it as well.
            self.changed.clone_from(&question.changed);
            return;
        };
        if **shown == *question {
            return;
        }
        let keeps = same_question(shown, question) || is_no_worse(shown, question);
        let approves = self.picked.is_none_or(AnswerKind::lets_through);
        let mut next = question.clone();
        if keeps {
            keep_words(&mut next, shown);
        }
        self.shown = Some(Box::new(next));
        if keeps {
            // What the new simulation adds must be on the screen; what was there before stays read.
            self.seen_whole = false;
            // The shown changes follow the new figures; those that the new simulation no longer reports are dropped.
            if !self.changed.is_empty() {
                self.changed.clone_from(&question.changed);
            }
            // A warning with a different text must be read again.
            if self.unread(question) > 0 && self.picked.is_some_and(AnswerKind::is_approval) {
                self.unpick();
                self.hint = Some(SafeText::clean("simulated again: there is a new warning to read", 100));
                self.hurried = false;
            }
            return;
        }
        // A smaller amount that was typed is still wanted; the guard time starts again, and its action is simulated
        // again.
        if self.picked == Some(AnswerKind::Smaller) {
            self.secret.clear();
        } else if approves {
            self.unpick();
        }
        (self.again, self.hurried) = (false, false);
        self.read.clear();
        self.changed.clone_from(&question.changed);
        let simulated = matches!(question.about, RequestSubject::Action(_));
        let words = match (simulated, self.picked.is_none()) {
            (true, true) => "simulated again with a worse result: read the changes and select again",
            (true, false) => "simulated again with a worse result: read the changes",
            (false, true) => "the request has changed: read it again and select again",
            (false, false) => "the request has changed: read it again",
        };
        self.hint = Some(SafeText::clean(words, 100));
        self.drawn_at = None;
        (self.lines, self.offset) = (None, 0);
        self.seen.clear();
        self.seen_whole = false;
    }

    /// Clears the chosen answer and everything typed for it. An Esc that was meant for it must not close the dialog.
    fn unpick(&mut self) {
        self.lost = self.picked.is_some() || self.form.is_some();
        (self.picked, self.form, self.again) = (None, None, false);
        self.secret.clear();
    }

    /// Records how much of the dialog was drawn; `None` if it was hidden by another layer or a terminal that is too
    /// small. A hidden dialog accepts no answer, and the guard time restarts when it is visible again.
    pub fn drawn(&mut self, now: u64, fit: Option<VisiblePart>) {
        let (Some(fit), true) = (fit, self.shown.is_some()) else {
            self.drawn_at = None;
            return;
        };
        self.drawn_at.get_or_insert(now);
        self.room = Some(fit.shown);
        // Scrolling continues from the visible lines, also after a key that went beyond the end.
        self.offset = fit.first.saturating_sub(fit.above);
        if fit.raw {
            return;
        }
        let visible = fit.lines.iter().skip(fit.first).take(fit.shown);
        fit.lines.iter().take(fit.above).chain(visible).for_each(|line| self.seen.mark(line));
        // Every form has the whole request, so it is read in all of them once it was read in one.
        if self.seen_whole {
            fit.lines.iter().for_each(|line| self.seen.mark(line));
        }
        self.lines = Some(fit.lines);
        self.seen_whole = self.unseen() == Some(0);
    }

    /// Records a change of the terminal size: no answer is accepted until the dialog is drawn again.
    pub fn moved(&mut self) {
        self.drawn_at = None;
    }

    /// Number of lines that were not on the screen yet; `None` before the first drawing.
    pub fn unseen(&self) -> Option<usize> {
        self.lines.as_ref().map(|lines| lines.iter().filter(|line| !self.seen.has(line)).count())
    }

    /// Reason to reject an approval because some lines were never on the screen; `None` if all were.
    fn hidden(&self) -> Option<String> {
        match self.unseen() {
            Some(0) => None,
            Some(1) => Some("to approve, see the last line first: PgDn".to_owned()),
            Some(many) => Some(format!("to approve, see {many} more lines first: PgDn")),
            None => Some("the request is not on the screen: make the terminal larger".to_owned()),
        }
    }

    /// Time from which a key acts, in milliseconds; `None` while the dialog is not drawn.
    pub fn acts_from(&self) -> Option<u64> {
        Some(self.drawn_at?.max(self.touched_at).saturating_add(GUARD_MILLIS))
    }

    /// Handles a paste: the text is ignored and the guard time restarts.
    pub fn pasted(&mut self, now: u64) {
        (self.touched_at, self.hurried) = (now, false);
        self.hint = Some(SafeText::clean("pasted text is ignored here", 60));
    }

    /// Returns true while a text field of the chosen answer has the focus.
    pub fn typing(&self) -> bool {
        self.form.is_some() && self.ended_at.is_none()
    }

    /// Handles a key in the text field.
    pub fn type_key(&mut self, key: Key, now: u64) {
        self.touched_at = now;
        self.again = false;
        // What it asked for is being typed.
        self.hint = None;
        let Some(form) = &mut self.form else { return };
        let count = form.fields.len().max(1);
        match key.code {
            crossterm::event::KeyCode::Tab | crossterm::event::KeyCode::Down => form.at = (form.at + 1) % count,
            crossterm::event::KeyCode::BackTab | crossterm::event::KeyCode::Up => {
                form.at = (form.at + count - 1) % count;
            }
            _ => match form.fields.get_mut(form.at) {
                Some((PASSWORD, _)) => self.secret.key(key),
                Some((_, field)) => {
                    field.key(key);
                }
                None => {}
            },
        }
    }

    /// Handles an action of the key bindings. `rows` is the height to scroll by before the first drawing.
    pub fn act(&mut self, action: Action, now: u64, rows: usize) -> DecisionOutcome {
        // A page is what is visible at once: a larger step would skip lines.
        let page = self.room.unwrap_or(rows).max(1);
        if let Some(ended_at) = self.ended_at {
            // A key that was meant for the request must not close the notice unread.
            let calm = now >= ended_at.max(self.touched_at).saturating_add(GUARD_MILLIS);
            let seen = now >= ended_at.max(self.touched_at).saturating_add(ENDED_MILLIS);
            self.touched_at = now;
            match action {
                Action::Back | Action::CloseOrQuit if calm => return DecisionOutcome::Closed,
                Action::DoIt if seen => return DecisionOutcome::Closed,
                Action::Down => self.offset = self.offset.saturating_add(1),
                Action::Up => self.offset = self.offset.saturating_sub(1),
                Action::HalfPageDown => self.offset = self.offset.saturating_add(page),
                Action::HalfPageUp => self.offset = self.offset.saturating_sub(page),
                _ => {}
            }
            return DecisionOutcome::Stays;
        }
        let ready = self.acts_from().is_some_and(|from| now >= from);
        if matches!(action, Action::Down | Action::HalfPageDown | Action::Bottom) {
            // It may have asked to see the rest.
            self.hint = None;
        }
        match action {
            // Navigation acts at once.
            Action::Back => {
                // Both are cleared together, so that an answer never stays chosen without its text.
                let (typed, picked) = (self.form.take(), self.picked.take());
                self.secret.clear();
                if typed.is_some() || picked.is_some() || std::mem::take(&mut self.lost) {
                    self.touched_at = now;
                    return DecisionOutcome::Stays;
                }
                return DecisionOutcome::Later;
            }
            Action::Down => self.offset = self.offset.saturating_add(1),
            Action::Up => self.offset = self.offset.saturating_sub(1),
            Action::HalfPageDown => self.offset = self.offset.saturating_add(page),
            Action::HalfPageUp => self.offset = self.offset.saturating_sub(page),
            Action::Top => self.offset = 0,
            Action::Bottom => self.offset = usize::MAX,
            Action::Zoom => self.full = !self.full,
            Action::RawCall => {
                self.raw = !self.raw;
                self.offset = 0;
            }
            Action::NextQuestion => return DecisionOutcome::Next,
            Action::Copy => return DecisionOutcome::Copy,
            // Keys that lead to an answer wait for the guard time.
            Action::Pick(_) | Action::MarkRead | Action::DoIt => {
                self.touched_at = now;
                self.hurried = !ready;
                if !ready {
                    self.hint = Some(SafeText::clean("too soon", 60));
                    return DecisionOutcome::Stays;
                }
                (self.hint, self.lost) = (None, false);
                let Some(question) = self.shown.clone() else { return DecisionOutcome::Stays };
                return match action {
                    Action::Pick(kind) => self.pick(&question, kind),
                    Action::MarkRead => self.mark(&question),
                    _ => self.do_it(&question),
                };
            }
            _ => {}
        }
        // Navigation keys restart the guard time too.
        self.touched_at = now;
        DecisionOutcome::Stays
    }

    /// Number of warnings that are not marked as read.
    pub fn unread(&self, question: &Question) -> usize {
        question.to_read.iter().filter(|one| !self.read.contains(&one.text)).count()
    }

    /// Toggles the read mark of one warning, for a click on it.
    pub fn mark_one(&mut self, at: usize, now: u64) {
        let ready = self.acts_from().is_some_and(|from| now >= from);
        self.touched_at = now;
        if self.ended_at.is_some() {
            return;
        }
        self.hurried = !ready;
        let one = self.shown.as_ref().and_then(|question| question.to_read.get(at)).map(|one| one.text.clone());
        match one {
            Some(_) if !ready => self.hint = Some(SafeText::clean("too soon", 60)),
            Some(text) if self.read.contains(&text) => {
                self.read.remove(&text);
                // An approval that was chosen while the warning counted as read is cleared.
                if self.picked.is_some_and(AnswerKind::is_approval) {
                    self.unpick();
                }
            }
            Some(text) => drop(self.read.insert(text)),
            None => {}
        }
    }

    fn mark(&mut self, question: &Question) -> DecisionOutcome {
        match question.to_read.iter().find(|one| !self.read.contains(&one.text)) {
            Some(next) => drop(self.read.insert(next.text.clone())),
            None => self.hint = Some(SafeText::clean("all warnings are marked as read", 60)),
        }
        DecisionOutcome::Stays
    }

    /// Reason to reject an approval of this kind: unread warnings, or lines that were never on the screen.
    fn unread_or_hidden(&self, question: &Question, kind: AnswerKind) -> Option<String> {
        if !kind.is_approval() {
            return None;
        }
        match self.unread(question) {
            0 => self.hidden(),
            unread => Some(format!("{unread} to read first: Space marks the next ! as read")),
        }
    }

    fn pick(&mut self, question: &Question, kind: AnswerKind) -> DecisionOutcome {
        let offered = question.answers.iter().find(|offered| offered.kind == kind);
        let why_not = match offered {
            Some(offered) => offered.why_not.clone(),
            None => Some(SafeText::clean("not available for this decision", 40)),
        };
        if let Some(why) = why_not {
            // Enter must not send an answer that was chosen before.
            self.unpick();
            self.hint = Some(SafeText::clean(&format!("not available: {why}"), 200));
            return DecisionOutcome::Stays;
        }
        if let Some(why) = self.unread_or_hidden(question, kind) {
            self.hint = Some(SafeText::clean(&why, 200));
            return DecisionOutcome::Stays;
        }
        self.picked = Some(kind);
        self.again = false;
        self.secret.clear();
        self.form = form(question, kind);
        DecisionOutcome::Stays
    }

    fn do_it(&mut self, question: &Question) -> DecisionOutcome {
        let Some(kind) = self.picked else {
            // The reason why the letter before selected nothing stays.
            if self.hidden().is_some() && self.hint.is_some() {
                return DecisionOutcome::Stays;
            }
            self.hint = Some(SafeText::clean("nothing is selected: select with a letter, then press Enter", 60));
            return DecisionOutcome::Stays;
        };
        // Since the choice, the terminal may have another size, and a warning another text.
        if let Some(why) = self.unread_or_hidden(question, kind) {
            self.hint = Some(SafeText::clean(&why, 200));
            return DecisionOutcome::Stays;
        }
        let field_text = |name: &str| {
            let form = self.form.as_ref()?;
            form.fields.iter().find(|(label, _)| *label == name).map(|(_, field)| field.text().trim().to_owned())
        };
        if let (Some(confirm), AnswerKind::Once | AnswerKind::Similar) = (&question.confirm, kind)
            && !field_text(CONFIRM).is_some_and(|typed| typed.eq_ignore_ascii_case(confirm.expected.as_str()))
        {
            self.hint = Some(SafeText::clean(&format!("type {}", confirm.what), 200));
            return DecisionOutcome::Stays;
        }
        if question.needs_password && kind.lets_through() && self.secret.is_empty() {
            self.hint = Some(SafeText::clean("type the password of your key; it is not shown", 100));
            return DecisionOutcome::Stays;
        }
        let answer = match kind {
            AnswerKind::Once => Ok(OperatorAnswer::Once),
            AnswerKind::Similar => similar(question, field_text(MINUTES), field_text(TOTAL)),
            AnswerKind::Smaller => match field_text(AMOUNT).filter(|amount| !amount.is_empty()) {
                Some(amount) => smaller(question, amount),
                None => Err(Cow::Borrowed("type the smaller amount")),
            },
            AnswerKind::Refuse => Ok(OperatorAnswer::Refuse { reason: self.reason() }),
            AnswerKind::RefuseAndStop => Ok(OperatorAnswer::RefuseAndStop { reason: self.reason() }),
        };
        match answer {
            Err(why) => {
                self.hint = Some(SafeText::clean(&why, 100));
                DecisionOutcome::Stays
            }
            Ok(OperatorAnswer::Similar { .. }) if !self.again => {
                self.again = true;
                let words = "this approves several actions without asking: press Enter again";
                self.hint = Some(SafeText::clean(words, 100));
                DecisionOutcome::Stays
            }
            Ok(answer) => DecisionOutcome::Answer(answer),
        }
    }

    /// Read marks and typed confirmation, for the approval queue to check.
    pub fn confirmation(&self) -> Confirmation {
        let fields = self.form.iter().flat_map(|form| &form.fields);
        let typed = fields.filter(|(label, _)| *label == CONFIRM).map(|(_, field)| field.safe()).next();
        Confirmation { read: self.read.iter().cloned().collect(), typed }
    }

    /// Takes the typed password out of the dialog; `None` if none was typed.
    pub fn take_password(&mut self) -> Option<Password> {
        self.secret.take()
    }

    fn reason(&self) -> SafeText {
        let form = self.form.as_ref();
        form.and_then(|form| form.fields.first()).map(|(_, field)| field.safe()).unwrap_or_default()
    }
}

/// Answer with a smaller amount. The approval queue checks the amount again, in raw units.
///
/// # Errors
/// A message if the request has no amount, or if the text is not a positive number below it.
fn smaller(question: &Question, amount: String) -> Result<OperatorAnswer, Cow<'static, str>> {
    let RequestSubject::Action(action) = &question.about else { return Err("this decision has no amount".into()) };
    let Some((asked, _)) = &action.amount else {
        return Err("only a fixed amount that is sold, sent or bridged can be made smaller".into());
    };
    let Ok(wanted) = amount.parse::<Decimal>() else { return Err("type a number such as 0.25".into()) };
    match asked.parse::<Decimal>() {
        Ok(asked) if wanted >= asked => Err("type less than the requested amount".into()),
        _ if wanted <= Decimal::ZERO => Err("type an amount above zero".into()),
        _ => Ok(OperatorAnswer::Smaller { amount }),
    }
}

const PASSWORD: &str = "password of your key (not shown)";
const CONFIRM: &str = "to confirm";
const MINUTES: &str = "minutes";
const TOTAL: &str = "total limit in dollars";
const NO_MINUTES: &str = "give a whole number of minutes: Tab goes to its field";
const AMOUNT: &str = "the smaller amount";
const REASON: &str = "reason (sent to the Golem; optional)";
const OWN_REASON: &str = "reason (for the audit log; optional)";

/// Text fields of an answer; `None` if it needs none.
fn form(question: &Question, kind: AnswerKind) -> Option<AnswerForm> {
    let mut fields = match kind {
        AnswerKind::Once => Vec::new(),
        AnswerKind::Similar => vec![(MINUTES, TextField::holding(USUAL_MINUTES)), (TOTAL, TextField::default())],
        AnswerKind::Smaller => vec![(AMOUNT, TextField::default())],
        AnswerKind::Refuse | AnswerKind::RefuseAndStop => {
            let own = question.number == OFFER_NUMBER;
            vec![(if own { OWN_REASON } else { REASON }, TextField::default())]
        }
    };
    if question.confirm.is_some() && matches!(kind, AnswerKind::Once | AnswerKind::Similar) {
        fields.push((CONFIRM, TextField::default()));
    }
    if question.needs_password && kind.lets_through() {
        // The field stays empty: the password goes to the secret.
        fields.push((PASSWORD, TextField::default()));
    }
    (!fields.is_empty()).then_some(AnswerForm { fields, at: 0 })
}

/// Standing approval for similar actions. The approval queue checks the total again.
///
/// # Errors
/// A message if a field holds no number, or if the total does not cover the action that it is given with.
fn similar(
    question: &Question,
    minutes: Option<String>,
    total: Option<String>,
) -> Result<OperatorAnswer, Cow<'static, str>> {
    let minutes: u64 = minutes.and_then(|text| text.parse().ok()).ok_or(NO_MINUTES)?;
    let millis = minutes.checked_mul(60_000).filter(|millis| *millis > 0).ok_or(NO_MINUTES)?;
    let total: Usd = total
        .and_then(|text| text.parse().ok())
        .ok_or("give the total in dollars, such as 1500: Tab goes to its field")?;
    if let RequestSubject::Action(action) = &question.about
        && total < action.costs.spent
    {
        let least = action.costs.spent.to_fixed(2, Rounding::Up);
        return Err(format!("the total covers this action, too: type {least} or more").into());
    }
    Ok(OperatorAnswer::Similar { millis, total })
}

/// Returns true if two states of a request ask the same. Place in the queue and the agent's words are ignored.
fn same_question(one: &Question, other: &Question) -> bool {
    let mut other = other.clone();
    (other.place, other.of) = (one.place, one.of);
    keep_words(&mut other, one);
    *one == other
}

/// Keeps the agent's words from the first display: they belong to the action, not to what the agent does later.
fn keep_words(question: &mut Question, shown: &Question) {
    if let (RequestSubject::Action(action), RequestSubject::Action(known)) = (&mut question.about, &shown.about) {
        action.words.clone_from(&known.words);
        action.asked_by.clone_from(&known.asked_by);
    }
}

/// Returns true if a new simulation is not worse than the request as shown. The approval queue compares figures and
/// counts what became worse. Everything else is compared here, and any difference counts as worse.
fn is_no_worse(shown: &Question, now: &Question) -> bool {
    let (RequestSubject::Action(was), RequestSubject::Action(is)) = (&shown.about, &now.about) else { return false };
    let of_question = |question: &Question| {
        (question.number, question.revision, question.golem_id.clone(), question.call_id, question.money)
    };
    let parties = |action: &ActionRequest| -> BTreeSet<_> {
        action.places.iter().map(|place| (place.part, place.address, place.first_seen)).collect()
    };
    let unlimited = |action: &ActionRequest| -> BTreeSet<_> {
        let unlimited = action.allowances.iter().filter(|one| one.unlimited);
        unlimited.map(|one| (one.spender, one.symbol.clone())).collect()
    };
    let failing = |action: &ActionRequest| -> BTreeSet<_> {
        action.checks.iter().filter(|one| one.outcome != CheckOutcome::Passed).map(|one| one.check).collect()
    };
    of_question(shown) == of_question(now)
        && now.changed.len() <= shown.changed.len()
        && shown.confirm == now.confirm
        && shown.needs_password == now.needs_password
        && (shown.passes_by_itself || !now.passes_by_itself)
        && (&was.tool, &was.intent, was.chain_id) == (&is.tool, &is.intent, is.chain_id)
        && was.order.as_ref().map(|order| &order.kind) == is.order.as_ref().map(|order| &order.kind)
        && parties(is).is_subset(&parties(was))
        && unlimited(is).is_subset(&unlimited(was))
        && failing(is).is_subset(&failing(was))
        && (was.nothing_else.is_err() || is.nothing_else.is_ok())
}

#[cfg(test)]
mod tests;
