//! Screen of custody: the account, its session keys with countdown and use, its delegations, and its allowances with the
//! value at risk. Revocations are calls of tools, which ask wherever the policy wants a decision.

mod read;

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};
use ratatui::widgets::Widget;
use serde_json::{Value, json};

use self::read::{CustodyReadings, Purpose};
use super::filter::Filter;
use super::reading::{OLD_MILLIS, ReadQueue, age_words};
use super::screen_dialog::{DialogOption, ScreenDialog, ScreenDialogView, column};
use super::{CommandReply, ScreenContext, ScreenId, ScreenRequest, ScreenView, call, list};
use crate::format::dollars;
use crate::keymap::Action;
use crate::painter::{Painter, StyledText, line};
use crate::scroll::ScrollOffset;
use crate::theme::{Role, Theme};
use crate::widgets::Moment;
use crate::widgets::custody::{AllowanceAtRisk, CustodyCard, CustodyView as Entry};
use crate::widgets::paint::{Row, cut, rows, wrapped};
use bardo_base::format::counted;
use bardo_base::text::{SafeText, fit, width};

/// Width from which list and card stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 150;
/// Least height of the card, in lines.
const LEAST_CARD: u16 = 9;
/// Maximum number of lines above the list.
const MOST_ABOVE: u16 = 4;
/// Maximum number of allowances that one confirmation revokes. Each is a transaction of its own.
const MOST_AT_ONCE: usize = 20;
/// First count of the tickets of revocations; those of reads are below.
const REVOCATIONS: u32 = 1 << 31;

/// Identity of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EntryKey {
    Account,
    Key(SafeText),
    Delegation(SafeText),
    Allowance([SafeText; 3], bool),
}

/// Calls that a confirmation sends.
type Calls = Vec<(&'static str, Value)>;

impl Entry<'_> {
    fn key(self) -> EntryKey {
        match self {
            Self::Account(_) => EntryKey::Account,
            Self::Key(key) => EntryKey::Key(key.id.clone()),
            Self::Delegation(found) => EntryKey::Delegation(found.chain.clone()),
            Self::Allowance(one) => {
                let names = [one.chain.clone(), one.token_address.clone(), one.spender.clone()];
                EntryKey::Allowance(names, one.in_permit2)
            }
        }
    }

    fn filtered(self) -> String {
        match self {
            Self::Account(account) => format!("account {} {}", account.address, account.custody().0),
            Self::Key(key) => {
                let label = key.label.as_ref().map_or("", SafeText::as_str);
                format!("session key {} {} {label} {}", key.id, key.address, key.state)
            }
            Self::Delegation(found) => format!("delegation {} {}", found.chain, found.contract),
            Self::Allowance(one) => {
                let unlimited = if one.unlimited { "unlimited" } else { "" };
                format!("allowance {} {} {} {} {unlimited}", one.chain, one.token, one.who(), one.spender)
            }
        }
    }

    /// Mark, kind, subject, state and figure of the row.
    fn parts(self, now: Moment) -> (StyledText, &'static str, String, StyledText, StyledText) {
        match self {
            Self::Account(account) => {
                let (words, role) = account.custody();
                let mark = if role == Role::Text { ("●", Role::StateGood) } else { ("!", role) };
                let chains = u64::try_from(account.chains.len()).unwrap_or(u64::MAX);
                let figure = (counted(chains, "chain", "chains"), Role::TextDim);
                ((mark.0.to_owned(), mark.1), "Account", account.address.to_string(), (words.to_owned(), role), figure)
            }
            Self::Key(key) => {
                let (mark, words, role) = key.status(now);
                let name = key.label.as_ref().unwrap_or(&key.address).to_string();
                ((mark.to_owned(), role), "Key", name, (words, role), (key.use_words(), Role::Text))
            }
            Self::Delegation(found) => {
                let acting = found.used.iter().filter(|one| one.in_force).count();
                let (words, role) = match (found.understood, acting) {
                    (false, _) => ("not understood".to_owned(), Role::StateBad),
                    (true, 0) => ("none in force".to_owned(), Role::TextDim),
                    (true, count) => (format!("{count} in force"), Role::StateCare),
                };
                let mark = if found.understood { "●" } else { "!" };
                let name = found.label.as_ref().unwrap_or(&found.contract);
                (
                    (mark.to_owned(), role),
                    "Delegate",
                    name.to_string(),
                    (words, role),
                    (found.chain.to_string(), Role::TextDim),
                )
            }
            Self::Allowance(one) => {
                let role = if one.unlimited || one.label.is_none() { Role::StateCare } else { Role::Text };
                let mark = if role == Role::Text { "✓" } else { "!" };
                let scope = format!("{} {}", one.scope(), one.token);
                (
                    (mark.to_owned(), role),
                    "Allowance",
                    format!("{scope} → {}", one.who()),
                    (one.chain.to_string(), Role::TextDim),
                    one.risk(),
                )
            }
        }
    }
}

/// Parameters that revoke an allowance.
fn revocation(one: &AllowanceAtRisk) -> (&'static str, Value) {
    let params = json!({
        "token": one.token_address.as_str(), "chain": one.chain.as_str(), "spender": one.spender.as_str(),
    });
    ("token_revoke", params)
}

/// State of the screen of custody.
#[derive(Debug, Default)]
pub struct Custody {
    read: CustodyReadings,
    queue: ReadQueue<Purpose>,
    /// Time of the newest reading's start, in milliseconds of the machine's clock.
    asked_at: Option<u64>,
    chosen: Option<EntryKey>,
    /// Selected row, used if the chosen one is gone.
    selected: usize,
    zoomed: bool,
    card_offset: ScrollOffset,
    filter: Filter,
    ask: Option<ScreenDialog>,
    /// Number of revocations that were sent.
    sent: u32,
}

impl Custody {
    fn listed(&self) -> Vec<Entry<'_>> {
        let read = &self.read;
        let account = read.account.value.iter().map(Entry::Account);
        let keys = read.keys.value.iter().flat_map(|keys| &keys.keys).map(Entry::Key);
        let delegations =
            read.chains.iter().filter_map(|chain| chain.delegation.value.as_ref()?.as_ref()).map(Entry::Delegation);
        let allowances =
            read.chains.iter().flat_map(|chain| chain.allowances.value.iter().flat_map(|found| &found.rows));
        let all = account.chain(keys).chain(delegations).chain(allowances.map(Entry::Allowance));
        all.filter(|entry| !self.filter.stands() || self.filter.lets(&entry.filtered())).collect()
    }

    fn row(&self, all: &[Entry<'_>]) -> usize {
        let chosen = self.chosen.as_ref().and_then(|key| all.iter().position(|entry| entry.key() == *key));
        chosen.unwrap_or_else(|| self.selected.min(all.len().saturating_sub(1)))
    }

    fn choose(&mut self, row: usize) {
        self.chosen = self.listed().get(row).map(|entry| entry.key());
        self.selected = row;
        self.card_offset = ScrollOffset::default();
    }

    /// Reads everything, unless it is being read.
    fn read_all(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let Some(network) = known.page.network.as_ref().filter(|_| known.may_read()) else { return Vec::new() };
        self.read.follow(network.chains.iter().map(|chain| &chain.name));
        self.queue.ask(Purpose::Account);
        self.queue.ask(Purpose::Keys);
        for (chain, name) in network.chains.iter().map(|chain| chain.name.clone()).enumerate() {
            self.queue.ask(Purpose::Delegation { chain, name: name.clone() });
            self.queue.ask(Purpose::Allowances { chain, name });
        }
        self.asked_at = Some(known.machine_millis);
        self.queue.start(ScreenId::Custody, known.machine_millis)
    }

    fn above(&self) -> Vec<Row> {
        let mut all: Vec<Row> = self.read.faults().into_iter().map(|words| Row::new(words, Role::StateBad)).collect();
        all.extend(self.read.gaps().into_iter().map(|words| Row::new(words, Role::StateCare)));
        if !self.queue.is_idle() {
            all.push(
                Row::new("Reading custody…  ", Role::TextDim).then("Esc", Role::Key).then(" stops", Role::TextDim),
            );
        }
        all
    }

    fn empty_words(&self, known: &ScreenContext<'_>) -> &'static str {
        match () {
            () if known.replayed() => "A recording has no custody to read.",
            () if known.watch_only && self.asked_at.is_none() => {
                "A read-only console calls no tools, so it reads no custody."
            }
            () if self.filter.stands() => "Nothing matches the filter.",
            () if !self.queue.is_idle() => "Reading…",
            () if self.asked_at.is_none() => "Not read yet.",
            () if !self.read.faults().is_empty() => "Nothing could be read.",
            () => "There is nothing to list.",
        }
    }

    fn plan(&self, count: usize, area: Rect) -> (Rect, Rect) {
        let none = Rect { width: 0, height: 0, ..area };
        if count == 0 {
            return (area, none);
        }
        if self.zoomed {
            return (none, area);
        }
        if area.width >= SIDE_BY_SIDE {
            return list::beside(area, area.width * 11 / 20);
        }
        let above = self.above().len().min(usize::from(MOST_ABOVE));
        let lines = u16::try_from(count + above + 2).unwrap_or(u16::MAX);
        let most = area.height.saturating_sub(LEAST_CARD).min(area.height / 2).max(3);
        list::stacked(area, lines.min(most))
    }

    fn rows_area(&self, list: Rect) -> (Vec<Row>, Rect) {
        let inner = list.inner(Margin::new(2, 1));
        let lines = wrapped(self.above(), usize::from(inner.width).max(1));
        let most = MOST_ABOVE.min(inner.height.saturating_sub(1));
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(most);
        (lines, Rect { y: inner.y + height, height: inner.height - height, ..inner })
    }

    /// Asks whether to revoke the selected row, or all of its kind.
    fn ask_to_revoke(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let notice = |words: &str| vec![ScreenRequest::Notice(SafeText::clean(words, 200))];
        if known.watch_only {
            return notice("this console is read-only: it cannot change anything");
        }
        let all = self.listed();
        let Some(entry) = all.get(self.row(&all)).copied() else { return notice("nothing is selected") };
        let option = |letter, words: String, then: Calls| DialogOption { letter, words, then };
        let (title, facts, ways) = match entry {
            Entry::Account(_) => return notice("an account is not revoked: select a key or an allowance"),
            Entry::Delegation(_) => {
                return notice("only its owner ends a delegation on chain; session keys are revoked here");
            }
            Entry::Key(key) => {
                let acting =
                    self.read.keys.value.iter().flat_map(|keys| &keys.keys).filter(|key| key.can_act()).count();
                let reason = "revoked on the screen of custody";
                let facts = vec![
                    Row::new("key      ", Role::TextDim).then(key.address.as_str(), Role::Dialog),
                    Row::new("acts for ", Role::TextDim).then(key.owner.as_str(), Role::Dialog),
                    Row::new(
                        "At once and for good. Its delegation stays on chain until the owner ends it.",
                        Role::Dialog,
                    ),
                ];
                let one = json!({ "key_ids": [key.id.as_str()], "reason": reason });
                let mut ways = Vec::new();
                if key.can_act() {
                    ways.push(option('r', "revoke this key".to_owned(), vec![("session_revoke_key", one)]));
                }
                if acting > 0 {
                    let every = vec![("session_revoke_key", json!({ "reason": reason }))];
                    let count = u64::try_from(acting).unwrap_or(u64::MAX);
                    let words =
                        format!("revoke every session key of this machine: {} can act", counted(count, "key", "keys"));
                    ways.push(option('a', words, every));
                }
                ("Revoke session keys?", facts, ways)
            }
            Entry::Allowance(one) => {
                let facts = vec![
                    Row::new(format!("{} may take {} {}", one.who(), one.scope(), one.token), Role::Dialog),
                    Row::new("token    ", Role::TextDim).then(one.token_address.as_str(), Role::Dialog),
                    Row::new("spender  ", Role::TextDim).then(one.spender.as_str(), Role::Dialog),
                    Row::new("on ", Role::TextDim)
                        .then(format!("{}; each is a transaction that costs gas", one.chain), Role::Dialog),
                ];
                let mut ways = vec![option('r', "revoke it".to_owned(), vec![revocation(one)])];
                let every: Vec<_> = self
                    .read
                    .chains
                    .iter()
                    .filter(|chain| chain.name == one.chain)
                    .flat_map(|chain| chain.allowances.value.iter().flat_map(|found| &found.rows))
                    .collect();
                if every.len() > 1 {
                    let taken = every.len().min(MOST_AT_ONCE);
                    let words = match every.len() > taken {
                        true => format!("revoke the {taken} of {} with the most at risk on {}", every.len(), one.chain),
                        false => format!("revoke all {taken} on {}", one.chain),
                    };
                    ways.push(option('a', words, every.into_iter().take(taken).map(revocation).collect()));
                }
                ("Revoke allowances?", facts, ways)
            }
        };
        let tools = known.ready.map(|ready| ready.tools.as_slice()).unwrap_or_default();
        let has = |calls: &Calls| calls.iter().all(|(name, _)| tools.iter().any(|tool| tool.name.as_str() == *name));
        let ways: Vec<_> = ways.into_iter().filter(|way| has(&way.then)).collect();
        if ways.is_empty() {
            return notice("there is nothing to revoke about it");
        }
        let key = entry.key();
        let mut options = Vec::with_capacity(ways.len());
        for DialogOption { letter, words, then } in ways {
            options.push(DialogOption { letter, words, then: self.revocations(then) });
        }
        self.ask = Some(ScreenDialog::new(title, facts, options).opened(known.machine_millis));
        self.chosen = Some(key);
        Vec::new()
    }

    /// Requests that run the calls and say how many they are.
    fn revocations(&mut self, calls: Calls) -> Vec<ScreenRequest> {
        let mut requests = Vec::with_capacity(calls.len() + 1);
        for (tool, params) in calls {
            let count = REVOCATIONS | self.sent;
            self.sent = self.sent.wrapping_add(1) % REVOCATIONS;
            requests.push(call(ScreenId::Custody, count, tool, params));
        }
        let words = counted(u64::try_from(requests.len()).unwrap_or(u64::MAX), "revocation", "revocations");
        requests.push(ScreenRequest::Notice(SafeText::clean(&format!("{words} requested; see Live for each"), 80)));
        requests
    }

    /// Value that spenders could take now on all chains, and whether a part of it is not known.
    fn at_risk(&self) -> Option<String> {
        let found: Vec<_> = self.read.chains.iter().filter_map(|chain| chain.allowances.value.as_ref()).collect();
        let whole =
            found.iter().try_fold(bardo_base::units::Usd::ZERO, |sum, one| sum.checked_add(one.at_risk?).ok())?;
        let complete = found.len() == self.read.chains.len() && found.iter().all(|one| one.complete);
        (!found.is_empty()).then(|| format!("{}{} at risk", if complete { "" } else { "≥ " }, dollars(whole)))
    }
}

/// Panel of the list.
struct ListPanel<'a> {
    theme: &'a Theme,
    screen: &'a Custody,
    known: &'a ScreenContext<'a>,
    all: &'a [Entry<'a>],
}

fn row_pieces(entry: Entry<'_>, here: bool, columns: usize, now: Moment) -> Vec<StyledText> {
    let (mark, kind, subject, state, figure) = entry.parts(now);
    let state_columns = if columns >= 84 {
        34
    } else if columns >= 60 {
        20
    } else {
        0
    };
    let figure_columns = if columns >= 36 { 13 } else { 0 };
    let used = 3 + 10 + state_columns + figure_columns + 2;
    let subject_columns = columns.saturating_sub(used).min(46);
    let mut pieces = vec![
        (if here { "▸" } else { " " }.to_owned(), Role::BorderFocus),
        (format!("{} ", mark.0), mark.1),
        (format!("{} ", column(kind, 9)), Role::TextDim),
        (format!("{} ", column(&subject, subject_columns)), Role::TextStrong),
    ];
    if state_columns > 0 {
        pieces.push((format!("{} ", column(&state.0, state_columns)), state.1));
    }
    if figure_columns > 0 {
        let text = fit(&figure.0, figure_columns).into_owned();
        pieces.push((format!("{}{text}", " ".repeat(figure_columns.saturating_sub(width(&text)))), figure.1));
    }
    cut(&pieces, columns)
}

impl Widget for ListPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let painter = &mut Painter { buffer, theme: self.theme };
        let Self { screen, known, all, .. } = &self;
        let risk = screen.at_risk().map_or(String::new(), |risk| format!("  {risk}"));
        let failed = !screen.read.faults().is_empty();
        let mut right: Vec<StyledText> =
            screen.read.oldest().map(|at| age_words(at, failed, known)).into_iter().collect();
        if !right.is_empty() {
            right.push(("  ".to_owned(), Role::TextDim));
        }
        right.extend(screen.filter.label());
        let room = usize::from(screen.rows_area(area).1.height);
        let count = list::counted_rows(screen.row(all), room, all.len());
        let inner = list::framed(painter, area, true, &format!("Custody {count}{risk}"), &right);
        if inner.is_empty() {
            return;
        }
        let (above, place) = screen.rows_area(area);
        rows(painter, Rect { height: inner.height - place.height, ..inner }, &above);
        if all.is_empty() {
            let words = vec![Row::new(screen.empty_words(known), Role::TextDim)];
            rows(painter, place, &wrapped(words, usize::from(place.width)));
            return;
        }
        let (selected, room) = (screen.row(all), usize::from(place.height));
        let first = list::first_shown(selected, room);
        for (at, (index, entry)) in (0..place.height).zip(all.iter().enumerate().skip(first)) {
            if index == selected {
                painter.fill(line(place, at), Role::Selection);
            }
            let pieces = row_pieces(*entry, index == selected, usize::from(place.width), known.live());
            painter.pieces(line(place, at), &pieces);
        }
    }
}

impl ScreenView for Custody {
    fn id(&self) -> ScreenId {
        ScreenId::Custody
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        let all = self.listed();
        let (list, card) = self.plan(all.len(), area);
        painter.render(ListPanel { theme: painter.theme, screen: self, known, all: &all }, list);
        if let Some(entry) = all.get(self.row(&all)).filter(|_| !card.is_empty()) {
            let below = match (known.watch_only, entry) {
                (false, Entry::Key(_) | Entry::Allowance(_)) => "x revokes this or all… · y copies",
                _ => "y copies",
            };
            let widget = CustodyCard::new(*entry, painter.theme, known.live());
            painter.render(widget.below(below).scrolled(&self.card_offset), card);
        }
        if let Some(ask) = &self.ask {
            painter.render(ScreenDialogView::new(ask, painter.theme), area);
        }
    }

    fn open_hint(&self, _known: &ScreenContext<'_>) -> Option<&'static str> {
        match (self.zoomed, self.listed().is_empty()) {
            (true, _) => Some("all rows"),
            (false, true) => Some("read"),
            (false, false) => Some("open"),
        }
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        let all = self.listed();
        let (count, at) = (all.len(), self.row(&all));
        let (list, card) = self.plan(count, area);
        if matches!(action, Action::HalfPageDown | Action::HalfPageUp) && self.zoomed {
            self.card_offset.scroll(action, usize::from(card.height.saturating_sub(2)));
            return Some(Vec::new());
        }
        let page = usize::from(list.height.saturating_sub(2)).max(2);
        if let Some(to) = list::moved(action, at, count.saturating_sub(1), page) {
            self.choose(to);
            return Some(Vec::new());
        }
        match action {
            Action::Open if count == 0 => return Some(self.read_all(known)),
            Action::Follow => return Some(self.read_all(known)),
            Action::Open | Action::Zoom if count > 0 => {
                self.zoomed = !self.zoomed;
                self.card_offset = ScrollOffset::default();
            }
            Action::CancelSelected => return Some(self.ask_to_revoke(known)),
            Action::Back if self.zoomed => self.zoomed = false,
            Action::Back if self.filter.stands() => self.filter.clear(),
            Action::Back if !self.queue.is_idle() => {
                let (purposes, requests) = self.queue.cancel();
                purposes.iter().for_each(|purpose| self.read.fail(purpose, "the reading was stopped"));
                return Some(requests);
            }
            Action::Filter => self.filter.open(),
            Action::Copy => {
                let all = self.listed();
                let text = match all.get(at)? {
                    Entry::Account(account) => account.address.to_string(),
                    Entry::Key(key) => key.address.to_string(),
                    Entry::Delegation(found) => found.contract.to_string(),
                    Entry::Allowance(one) => one.spender.to_string(),
                };
                return Some(vec![ScreenRequest::Copy(text)]);
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    fn dialog(&self) -> Option<&ScreenDialog> {
        self.ask.as_ref()
    }

    fn dialog_slot(&mut self) -> Option<&mut Option<ScreenDialog>> {
        Some(&mut self.ask)
    }

    fn filter(&self) -> Option<&Filter> {
        Some(&self.filter)
    }

    fn filter_mut(&mut self) -> Option<&mut Filter> {
        Some(&mut self.filter)
    }

    fn click_page(&mut self, at: Position, _known: &ScreenContext<'_>, area: Rect) -> Vec<ScreenRequest> {
        let all = self.listed();
        let (count, before) = (all.len(), self.row(&all));
        let (list, _) = self.plan(count, area);
        if list.width >= 4 && list.height >= 3 {
            let inside = self.rows_area(list).1;
            let first = list::first_shown(before, usize::from(inside.height));
            if let Some(row) = list::row_at(at, inside, first, count) {
                self.choose(row);
            }
        }
        Vec::new()
    }

    fn wheel(&mut self, _at: Position, down: bool, _known: &ScreenContext<'_>, _area: Rect) {
        let all = self.listed();
        let (at, last) = (self.row(&all), all.len().saturating_sub(1));
        let to = if down { (at + 1).min(last) } else { at.saturating_sub(1) };
        self.choose(to);
    }

    fn shown(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let fresh = self.asked_at.is_some_and(|at| known.machine_millis < at.saturating_add(OLD_MILLIS));
        if fresh { Vec::new() } else { self.read_all(known) }
    }

    fn tick(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let (late, mut requests) = self.queue.overdue(known.machine_millis);
        late.iter().for_each(|purpose| self.read.fail(purpose, "no reply came in time"));
        requests.extend(self.queue.start(ScreenId::Custody, known.machine_millis));
        requests
    }

    fn receive_reply(&mut self, count: u32, reply: CommandReply, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        if count >= REVOCATIONS {
            let mut requests = super::said(&reply);
            if matches!(reply, CommandReply::Reply(_)) {
                // The list is outdated once a revocation has ended.
                requests.extend(self.read_all(known));
            }
            return requests;
        }
        match reply {
            CommandReply::Began(call) => return self.queue.began(count, call),
            CommandReply::Reply(response) => {
                if let Some(purpose) = self.queue.ended(count) {
                    self.read.receive(&purpose, &response, known.machine_millis);
                }
            }
            CommandReply::Found(_) => {}
        }
        self.queue.start(ScreenId::Custody, known.machine_millis)
    }
}
