//! The decision: what is picked, read and typed about one question, and when a key may act.
//!
//! A key that picks, marks or does something acts only when the question has been on the screen, as it is now, for
//! [`GUARD_MILLIS`], and nothing was typed for as long. Looking around acts at once. A question that becomes worse when
//! it is simulated again loses the picks and marks of an approval and is guarded again; one that does not keeps all.

use std::collections::BTreeSet;

use rust_decimal::Decimal;

use super::field::Field;
use super::secret::Secret;
use crate::keymap::{Action, Key};
use crate::widgets::decision::Fit;
use bardo_base::fabric::CheckOutcome;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_session::questions::{About, ActionAsked, AnswerKind, Confirmation, OperatorAnswer, Question};

/// How long a question must have stood there, untouched, before a key acts on it.
pub const GUARD_MILLIS: u64 = 500;
/// How long a standing approval lasts where nothing else is typed, in minutes.
const USUAL_MINUTES: &str = "60";

/// What is typed for the answer that is picked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// What each field is for, and what is in it.
    pub fields: Vec<(&'static str, Field)>,
    /// The field that has the keys.
    pub at: usize,
}

/// What is wrong with what was asked of the dialog, for the operator.
pub type Hint = SafeText;

/// The dialog.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The question's number, which stays when it is asked anew.
    pub number: u64,
    /// The question as it was when keys were last taken: a different one clears what was picked.
    pub shown: Option<Box<Question>>,
    /// When that was first on the screen.
    drawn_at: Option<u64>,
    /// When the last key or paste came.
    touched_at: u64,
    /// What is picked.
    pub picked: Option<AnswerKind>,
    /// What is typed for it.
    pub form: Option<Form>,
    /// The password that is typed for it, which nothing draws.
    secret: Secret,
    /// Whether a standing approval was confirmed once and waits for the second time.
    pub again: bool,
    /// What was marked as read.
    pub read: BTreeSet<SafeText>,
    /// What became worse since it was first shown here.
    pub changed: Vec<SafeText>,
    /// Whether the raw call is shown.
    pub raw: bool,
    /// Whether it has the whole screen.
    pub full: bool,
    /// Lines scrolled past.
    pub offset: usize,
    /// Lines of it that were on the screen, broken at so many columns.
    seen: BTreeSet<usize>,
    columns: usize,
    /// How many lines there are; `None` before it was on a screen.
    lines: Option<usize>,
    /// How many lines are in view at once, where it was on a screen.
    room: Option<usize>,
    /// What to say of the last key.
    pub hint: Option<Hint>,
    /// Whether that key came too soon.
    pub hurried: bool,
    /// When its question ended, in milliseconds since the Unix epoch; `None` while it can be answered.
    pub ended_at: Option<u64>,
}

/// What became of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    /// Nothing beyond the dialog.
    Stays,
    /// Close it; the question keeps waiting.
    Later,
    /// Close it; the question has ended.
    Closed,
    /// This is the answer.
    Answer(OperatorAnswer),
    /// Show the next question.
    Next,
    /// Copy the question.
    Copy,
}

impl Decision {
    /// A dialog for the question of that number, about to be drawn.
    pub fn new(number: u64, now: u64) -> Self {
        Self {
            number,
            shown: None,
            drawn_at: None,
            touched_at: now,
            picked: None,
            form: None,
            secret: Secret::default(),
            again: false,
            read: BTreeSet::new(),
            changed: Vec::new(),
            raw: false,
            full: false,
            offset: 0,
            seen: BTreeSet::new(),
            columns: 0,
            lines: None,
            room: None,
            hint: None,
            hurried: false,
            ended_at: None,
        }
    }

    /// Marks the question as ended. The dialog stays, with what was typed, and takes no key but those that close it.
    pub fn end(&mut self, now: u64) {
        if self.ended_at.is_none() {
            self.ended_at = Some(now);
            (self.picked, self.again, self.raw) = (None, false, false);
            self.hint = None;
        }
    }

    /// Takes in how the question is now. A new simulation that is no worse leaves everything as it was; a worse one takes
    /// back what was picked, typed and read for an approval. A refusal stands whatever the figures are.
    pub fn follow(&mut self, question: &Question) {
        let Some(shown) = &self.shown else {
            self.shown = Some(Box::new(question.clone()));
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
            // What is as good again as it was is not worse any more.
            self.changed.retain(|one| question.changed.contains(one));
            // A warning with other words is another warning.
            if self.unread(question) > 0 && self.picked.is_some_and(AnswerKind::is_approval) {
                self.unpick();
                self.hint = Some(SafeText::clean("simulated again: there is something new to read", 100));
                self.hurried = false;
            }
            return;
        }
        if approves {
            self.unpick();
        }
        (self.again, self.hurried) = (false, false);
        self.read.clear();
        self.changed.clone_from(&question.changed);
        let words = match approves {
            true => "simulated again with a worse result: read what changed; nothing is picked any more",
            false => "simulated again with a worse result: read what changed",
        };
        self.hint = Some(SafeText::clean(words, 100));
        self.drawn_at = None;
        (self.lines, self.offset) = (None, 0);
        self.seen.clear();
    }

    /// Takes back what was picked, with what was typed for it.
    fn unpick(&mut self) {
        (self.picked, self.form, self.again) = (None, None, false);
        self.secret.clear();
    }

    /// So much of it is on the screen now, as it is; `None`: nothing that could be answered. What is hidden by another
    /// dialog, or by a terminal that is too small, takes no answer, and is guarded anew when it is back.
    pub fn drawn(&mut self, now: u64, fit: Option<Fit>) {
        let (Some(fit), true) = (fit, self.shown.is_some()) else {
            self.drawn_at = None;
            return;
        };
        self.drawn_at.get_or_insert(now);
        self.room = Some(fit.shown);
        if fit.raw {
            return;
        }
        // Lines broken elsewhere are other lines, and so are those of its shorter form.
        if self.columns != fit.columns || self.lines.is_some_and(|lines| lines != fit.lines) {
            self.columns = fit.columns;
            self.seen.clear();
        }
        self.lines = Some(fit.lines);
        self.seen.extend(0..fit.above);
        self.seen.extend(fit.first..fit.first.saturating_add(fit.shown));
    }

    /// The terminal has another size: what was drawn is no longer where it was, and takes no answer until it is drawn
    /// again.
    pub fn moved(&mut self) {
        self.drawn_at = None;
    }

    /// How many lines of it were not on the screen yet; `None` where that is not known.
    pub fn unseen(&self) -> Option<usize> {
        self.lines.map(|lines| (0..lines).filter(|line| !self.seen.contains(line)).count())
    }

    /// Why a yes is not taken: nobody can have read what was never shown.
    fn hidden(&self) -> Option<String> {
        match self.unseen() {
            Some(0) => None,
            Some(1) => Some("one line of it was not on the screen yet: j k show it, z shows all".to_owned()),
            Some(many) => Some(format!("{many} lines of it were not on the screen yet: j k show them, z shows all")),
            None => Some("what you would approve is not on the screen: make the terminal larger".to_owned()),
        }
    }

    /// When the next key can act; `None` before it was drawn.
    pub fn acts_from(&self) -> Option<u64> {
        Some(self.drawn_at?.max(self.touched_at).saturating_add(GUARD_MILLIS))
    }

    /// Something was pasted: it does nothing but start the guard anew.
    pub fn pasted(&mut self, now: u64) {
        (self.touched_at, self.hurried) = (now, false);
        self.hint = Some(SafeText::clean("pasted text is ignored here", 60));
    }

    /// Whether the text of the picked answer has the keys.
    pub fn typing(&self) -> bool {
        self.form.is_some() && self.ended_at.is_none()
    }

    /// Takes a key while the text has the keys.
    pub fn type_key(&mut self, key: Key, now: u64) {
        self.touched_at = now;
        self.again = false;
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

    /// Takes an action of the keymap.
    pub fn act(&mut self, action: Action, now: u64, rows: usize) -> Taken {
        // A step that is larger than what is in view would leave lines out.
        let half = (self.room.unwrap_or(rows) / 2).max(1);
        if let Some(ended_at) = self.ended_at {
            // A key that was meant for the question must not close the notice unread.
            let calm = now >= ended_at.max(self.touched_at).saturating_add(GUARD_MILLIS);
            self.touched_at = now;
            match action {
                Action::Back | Action::CloseOrQuit if calm => return Taken::Closed,
                Action::Down => self.offset = self.offset.saturating_add(1),
                Action::Up => self.offset = self.offset.saturating_sub(1),
                Action::HalfPageDown => self.offset = self.offset.saturating_add(half),
                Action::HalfPageUp => self.offset = self.offset.saturating_sub(half),
                _ => {}
            }
            return Taken::Stays;
        }
        let ready = self.acts_from().is_some_and(|from| now >= from);
        match action {
            // Looking around.
            Action::Back => {
                // Both go at once: what is no longer typed must not still be picked.
                let (typed, picked) = (self.form.take(), self.picked.take());
                self.secret.clear();
                if typed.is_some() || picked.is_some() {
                    self.touched_at = now;
                    return Taken::Stays;
                }
                return Taken::Later;
            }
            Action::Down => self.offset = self.offset.saturating_add(1),
            Action::Up => self.offset = self.offset.saturating_sub(1),
            Action::HalfPageDown => self.offset = self.offset.saturating_add(half),
            Action::HalfPageUp => self.offset = self.offset.saturating_sub(half),
            Action::Top => self.offset = 0,
            Action::Bottom => self.offset = usize::MAX,
            Action::Zoom => (self.full, self.offset) = (!self.full, 0),
            Action::RawCall => {
                self.raw = !self.raw;
                self.offset = 0;
            }
            Action::NextQuestion => return Taken::Next,
            Action::Copy => return Taken::Copy,
            // Whatever leads to an answer waits for the guard.
            Action::Pick(_) | Action::MarkRead | Action::DoIt => {
                self.touched_at = now;
                self.hurried = !ready;
                if !ready {
                    self.hint = Some(SafeText::clean("too soon", 60));
                    return Taken::Stays;
                }
                self.hint = None;
                let Some(question) = self.shown.clone() else { return Taken::Stays };
                return match action {
                    Action::Pick(kind) => self.pick(&question, kind),
                    Action::MarkRead => self.mark(&question),
                    _ => self.do_it(&question),
                };
            }
            _ => {}
        }
        // What only looks around is a keystroke, too.
        self.touched_at = now;
        Taken::Stays
    }

    /// What is left to be read.
    pub fn unread(&self, question: &Question) -> usize {
        question.to_read.iter().filter(|one| !self.read.contains(&one.text)).count()
    }

    /// Marks one thing as read, or as not read: for a click on it.
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
                // A yes that was picked while it counted as read is picked no longer.
                if self.picked.is_some_and(AnswerKind::is_approval) {
                    self.unpick();
                }
            }
            Some(text) => drop(self.read.insert(text)),
            None => {}
        }
    }

    fn mark(&mut self, question: &Question) -> Taken {
        match question.to_read.iter().find(|one| !self.read.contains(&one.text)) {
            Some(next) => drop(self.read.insert(next.text.clone())),
            None => self.hint = Some(SafeText::clean("everything is marked as read", 60)),
        }
        Taken::Stays
    }

    /// Why an approval of this kind is not taken yet: something of it was not read, or never on the screen.
    fn unread_or_hidden(&self, question: &Question, kind: AnswerKind) -> Option<String> {
        if !kind.is_approval() {
            return None;
        }
        match self.unread(question) {
            0 => self.hidden(),
            unread => Some(format!("{unread} to read first: Space marks the next ! as read")),
        }
    }

    fn pick(&mut self, question: &Question, kind: AnswerKind) -> Taken {
        let offered = question.answers.iter().find(|offered| offered.kind == kind);
        let why_not = match offered {
            Some(offered) => offered.why_not.clone(),
            None => Some(SafeText::clean("not for this question", 40)),
        };
        if let Some(why) = why_not {
            self.hint = Some(SafeText::clean(&format!("not available: {why}"), 200));
            return Taken::Stays;
        }
        if let Some(why) = self.unread_or_hidden(question, kind) {
            self.hint = Some(SafeText::clean(&why, 200));
            return Taken::Stays;
        }
        self.picked = Some(kind);
        self.again = false;
        self.secret.clear();
        self.form = form(question, kind);
        Taken::Stays
    }

    fn do_it(&mut self, question: &Question) -> Taken {
        let Some(kind) = self.picked else {
            self.hint = Some(SafeText::clean("nothing is picked: a letter picks, Enter does it", 60));
            return Taken::Stays;
        };
        // The terminal may have another size than when it was picked, and a warning other words.
        if let Some(why) = self.unread_or_hidden(question, kind) {
            self.hint = Some(SafeText::clean(&why, 200));
            return Taken::Stays;
        }
        let said = |name: &str| {
            let form = self.form.as_ref()?;
            form.fields.iter().find(|(label, _)| *label == name).map(|(_, field)| field.text().trim().to_owned())
        };
        if let (Some(confirm), AnswerKind::Once | AnswerKind::Similar) = (&question.confirm, kind)
            && !said(CONFIRM).is_some_and(|typed| typed.eq_ignore_ascii_case(confirm.expected.as_str()))
        {
            self.hint = Some(SafeText::clean(&format!("type {}", confirm.what), 200));
            return Taken::Stays;
        }
        if question.needs_password && kind.lets_through() && self.secret.is_empty() {
            self.hint = Some(SafeText::clean("type the password of your key; nothing of it is shown", 100));
            return Taken::Stays;
        }
        let answer = match kind {
            AnswerKind::Once => Ok(OperatorAnswer::Once),
            AnswerKind::Similar => similar(said(MINUTES), said(TOTAL)),
            AnswerKind::Smaller => match said(AMOUNT).filter(|amount| !amount.is_empty()) {
                Some(amount) => smaller(question, amount),
                None => Err("type the smaller amount"),
            },
            AnswerKind::Refuse => Ok(OperatorAnswer::Refuse { reason: self.reason() }),
            AnswerKind::RefuseAndStop => Ok(OperatorAnswer::RefuseAndStop { reason: self.reason() }),
        };
        match answer {
            Err(why) => {
                self.hint = Some(SafeText::clean(why, 100));
                Taken::Stays
            }
            Ok(OperatorAnswer::Similar { .. }) if !self.again => {
                self.again = true;
                let words = "this lets more than one action pass without asking: Enter again gives it";
                self.hint = Some(SafeText::clean(words, 100));
                Taken::Stays
            }
            Ok(answer) => Taken::Answer(answer),
        }
    }

    /// What was marked as read and typed, for the approval queue to check.
    pub fn confirmation(&self) -> Confirmation {
        let fields = self.form.iter().flat_map(|form| &form.fields);
        let typed = fields.filter(|(label, _)| *label == CONFIRM).map(|(_, field)| field.safe()).next();
        Confirmation { read: self.read.iter().cloned().collect(), typed }
    }

    /// The password that was typed, which is gone here afterwards; `None` where none was.
    pub fn take_password(&mut self) -> Option<Password> {
        self.secret.take()
    }

    fn reason(&self) -> SafeText {
        let form = self.form.as_ref();
        form.and_then(|form| form.fields.first()).map(|(_, field)| field.safe()).unwrap_or_default()
    }
}

/// A smaller amount, where it is one. The approval queue checks it again, by raw units.
fn smaller(question: &Question, amount: String) -> Result<OperatorAnswer, &'static str> {
    let About::Action(action) = &question.about else { return Err("this question has no amount") };
    let Some((asked, _)) = &action.amount else { return Err("this action has no amount to make smaller") };
    let Ok(wanted) = amount.parse::<Decimal>() else { return Err("a smaller amount is a number such as 0.25") };
    match asked.parse::<Decimal>() {
        Ok(asked) if wanted >= asked => Err("that is not below the amount asked for"),
        _ if wanted <= Decimal::ZERO => Err("a smaller amount must be above zero"),
        _ => Ok(OperatorAnswer::Smaller { amount }),
    }
}

const PASSWORD: &str = "password of your key (not shown)";
const CONFIRM: &str = "to confirm";
const MINUTES: &str = "for how many minutes";
const TOTAL: &str = "up to how many dollars in all";
const NO_MINUTES: &str = "give a whole number of minutes: Tab goes to its field";
const AMOUNT: &str = "the smaller amount";
const REASON: &str = "why (told to the Golem; may be empty)";

/// The text an answer takes.
fn form(question: &Question, kind: AnswerKind) -> Option<Form> {
    let mut fields = match kind {
        AnswerKind::Once => Vec::new(),
        AnswerKind::Similar => vec![(MINUTES, Field::holding(USUAL_MINUTES)), (TOTAL, Field::default())],
        AnswerKind::Smaller => vec![(AMOUNT, Field::default())],
        AnswerKind::Refuse | AnswerKind::RefuseAndStop => vec![(REASON, Field::default())],
    };
    if question.confirm.is_some() && matches!(kind, AnswerKind::Once | AnswerKind::Similar) {
        fields.push((CONFIRM, Field::default()));
    }
    if question.needs_password && kind.lets_through() {
        // Nothing that is typed for it comes into the field.
        fields.push((PASSWORD, Field::default()));
    }
    (!fields.is_empty()).then_some(Form { fields, at: 0 })
}

fn similar(minutes: Option<String>, total: Option<String>) -> Result<OperatorAnswer, &'static str> {
    let minutes: u64 = minutes.and_then(|text| text.parse().ok()).ok_or(NO_MINUTES)?;
    let millis = minutes.checked_mul(60_000).filter(|millis| *millis > 0).ok_or(NO_MINUTES)?;
    let total: Usd = total
        .and_then(|text| text.parse().ok())
        .ok_or("give the total in dollars, such as 1500: Tab goes to its field")?;
    Ok(OperatorAnswer::Similar { millis, total })
}

/// Whether two states of a question ask the same: all that an answer could hang on, but not its place in the queue,
/// nor what the Golem says meanwhile.
fn same_question(one: &Question, other: &Question) -> bool {
    let mut other = other.clone();
    (other.place, other.of) = (one.place, one.of);
    keep_words(&mut other, one);
    *one == other
}

/// Keeps the agent's words as they were when the question was first shown: they belong to the action, not to what the
/// agent does meanwhile.
fn keep_words(question: &mut Question, shown: &Question) {
    if let (About::Action(action), About::Action(known)) = (&mut question.about, &shown.about) {
        action.words.clone_from(&known.words);
        action.asked_by.clone_from(&known.asked_by);
    }
}

/// Whether a question that was simulated again is no worse than as it was shown. Whoever asks compares the two by their
/// values and counts what became worse; here all that is more than a figure is compared once more, and whatever differs
/// counts as worse.
fn is_no_worse(shown: &Question, now: &Question) -> bool {
    let (About::Action(was), About::Action(is)) = (&shown.about, &now.about) else { return false };
    let of_question = |question: &Question| {
        (question.number, question.revision, question.golem_id.clone(), question.call_id, question.money)
    };
    let parties = |action: &ActionAsked| -> BTreeSet<_> {
        action.places.iter().map(|place| (place.part, place.address, place.first_seen)).collect()
    };
    let unlimited = |action: &ActionAsked| -> BTreeSet<_> {
        let unlimited = action.allowances.iter().filter(|one| one.unlimited);
        unlimited.map(|one| (one.spender, one.symbol.clone())).collect()
    };
    let failing = |action: &ActionAsked| -> BTreeSet<_> {
        action.checks.iter().filter(|one| one.outcome != CheckOutcome::Passed).map(|one| one.check).collect()
    };
    of_question(shown) == of_question(now)
        && now.changed.iter().all(|one| shown.changed.contains(one))
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
