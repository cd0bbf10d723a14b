//! Card of a bridge order: progress on both chains, bids of fillers, and the refund.

use alloy_primitives::Address;

use super::call::CallModel;
use super::figure::{amount, countdown, paid};
use super::paint::{CardLine, Group, Row, Title};
use super::status::CardStatus;
use super::{CardKeys, CardView, Moment, keyed};
use crate::format::{grouped, short_address, short_hash, time_of_day};
use crate::painter::StyledText;
use crate::theme::Role;
use bardo_base::fabric::{EventKind, FillerOffer, IntentStatus, IntentUpdate, TxPlace};
use bardo_base::text::width;

/// Age of the last update from which an open order is shown as stale, in milliseconds.
const STALE_AFTER_MILLIS: u64 = 60_000;
/// Width from which the two chains stand side by side, in columns.
const LEAST_TRACK: usize = 36;
/// Maximum number of listed bids; the others are counted.
const MOST_BIDS: usize = 4;

/// Model of a bridge order's card.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BridgeModel {
    /// Call that placed the order.
    pub call: CallModel,
    /// Newest update of the order.
    pub intent: Option<Box<IntentUpdate>>,
    /// Time of that update, in milliseconds since the Unix epoch.
    pub heard_at: u64,
}

impl BridgeModel {
    /// Creates the card of a requested order.
    pub fn asked(call: CallModel) -> Self {
        Self { call, ..Self::default() }
    }

    /// Creates the card of an order that is known only from its own events.
    pub fn known(at: u64, intent: &IntentUpdate) -> Self {
        let call =
            CallModel { at: intent.signed_at.unwrap_or(at), status: CardStatus::Running, ..CallModel::default() };
        let mut model = Self { call, ..Self::default() };
        model.take(at, intent);
        model
    }

    fn take(&mut self, at: u64, intent: &IntentUpdate) {
        self.intent = Some(Box::new(intent.clone()));
        self.heard_at = at;
    }

    /// Applies an event of its call or of the order.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        match kind {
            EventKind::IntentUpdate(intent) => self.take(at, intent),
            other => self.call.fold(at, other),
        }
    }

    /// Status of the order at a moment.
    pub fn status(&self, now: Moment) -> CardStatus {
        let Some(intent) = &self.intent else {
            return if self.call.status == CardStatus::Done { CardStatus::Loading } else { self.call.status };
        };
        let old = now.millis.saturating_sub(self.heard_at) > STALE_AFTER_MILLIS;
        match intent.status {
            IntentStatus::Pending => CardStatus::Loading,
            IntentStatus::Filling if old => CardStatus::Stale,
            IntentStatus::Filling => CardStatus::Running,
            IntentStatus::Filled if is_unseen(intent) => CardStatus::Unclear,
            IntentStatus::Filled => CardStatus::Done,
            IntentStatus::Expired => CardStatus::Expired,
            IntentStatus::Refunded => CardStatus::Cancelled,
        }
    }

    fn status_text(&self, now: Moment) -> Vec<StyledText> {
        if self.intent.is_none() {
            return self.call.status_text(now);
        }
        let status = self.status(now);
        vec![(format!("{} {}", status.mark(), self.state_text(now)), status.role())]
    }

    /// Status of the order as text.
    fn state_text(&self, now: Moment) -> String {
        let Some(intent) = &self.intent else { return String::new() };
        let status = self.status(now);
        let seconds = now.millis.saturating_sub(self.call.at) / 1000;
        match intent.status {
            IntentStatus::Pending => "signed, not locked".to_owned(),
            IntentStatus::Filling if status == CardStatus::Stale => {
                format!("STALE, updated {}", super::figure::ago(self.heard_at, now))
            }
            IntentStatus::Filling if now.motion => format!("FILLING {}", countdown(seconds)),
            IntentStatus::Filling => "FILLING".to_owned(),
            IntentStatus::Filled if is_unseen(intent) => "NOT SEEN THERE".to_owned(),
            IntentStatus::Filled => "DELIVERED".to_owned(),
            IntentStatus::Expired if is_over(intent) => "EXPIRED".to_owned(),
            IntentStatus::Expired => match refund_ahead(intent, now) {
                Some(from) if now.motion => {
                    let wait = from.saturating_sub(now.millis / 1000);
                    format!("EXPIRED, refund in {}", crate::format::age(wait))
                }
                Some(from) => format!("EXPIRED, refund from {}", time_of_day(from)),
                None => "EXPIRED, refundable".to_owned(),
            },
            IntentStatus::Refunded => "REFUNDED".to_owned(),
        }
    }

    fn name(&self) -> String {
        match &self.intent {
            Some(intent) => format!(
                "Bridge {} {}  {} → {}",
                paid(&intent.amount_in),
                intent.token_in.symbol,
                intent.source_chain,
                intent.destination_chain
            ),
            None => format!("Bridge {}", self.asked_words()).trim_end().to_owned(),
        }
    }

    /// Requested order as text, as far as its parameters are known.
    fn asked_words(&self) -> String {
        let token = self.call.token("token_in");
        let asked = format!("{} {token}", paid(self.call.param("amount").as_str())).trim().to_owned();
        match (self.call.param("source_chain"), self.call.param("destination_chain")) {
            (from, to) if !from.is_empty() && !to.is_empty() => format!("{asked}  {from} → {to}"),
            _ => asked,
        }
    }

    fn money_row(intent: &IntentUpdate) -> Row {
        Row::new("Money: ", Role::TextDim).then(intent.money.as_str(), Role::Text).kept()
    }

    fn delivered_row(intent: &IntentUpdate) -> Row {
        let out = &intent.token_out.symbol;
        match &intent.amount_out {
            Some(got) => {
                let mut row = Row::new("You got ", Role::TextDim)
                    .then(format!("{} {out} on {}", amount(got), intent.destination_chain), Role::TextStrong);
                if let Some((words, role)) = super::figure::against_quote(got, &intent.estimated_output) {
                    row = row.then(format!("  {words}"), role);
                }
                row
            }
            None if is_unseen(intent) => {
                Row::new(format!("Not seen on {}: ", intent.destination_chain), Role::StateCare)
                    .then(format!("{} {out} or more was requested", amount(&intent.min_out)), Role::Text)
            }
            None if never_delivered(intent) => Row::new("Nothing was delivered: ", Role::TextDim).then(
                format!("{} {out} or more was requested on {}", amount(&intent.min_out), intent.destination_chain),
                Role::Text,
            ),
            None => Row::new("You get at least ", Role::TextDim)
                .then(format!("{} {out} on {}", amount(&intent.min_out), intent.destination_chain), Role::Text)
                .then(format!("  expected {}", amount(&intent.estimated_output)), Role::TextDim),
        }
    }

    fn refund_row(intent: &IntentUpdate, now: Moment) -> Option<Row> {
        match intent.status {
            IntentStatus::Filled | IntentStatus::Refunded => None,
            IntentStatus::Expired if is_over(intent) => None,
            IntentStatus::Pending if intent.locked.is_none() => {
                Some(Row::new("If nobody takes it, nothing is locked and nothing is paid.", Role::TextDim))
            }
            IntentStatus::Expired => {
                let words = match refund_ahead(intent, now) {
                    Some(from) => capital(&refund_words(from, now)),
                    None => "A refund is possible now.".to_owned(),
                };
                Some(Row::new("Nobody delivered. ", Role::StateCare).then(words, Role::Text).kept())
            }
            IntentStatus::Pending | IntentStatus::Filling => {
                let words = match intent.refund_from {
                    Some(from) => capital(&refund_words(from, now)),
                    // The settler has not reported how long after the deadline.
                    None => format!("Refund some time after {}", time_of_day(intent.fill_deadline)),
                };
                Some(Row::new("Nobody delivers? ", Role::TextDim).then(words, Role::Text))
            }
        }
    }
}

/// Returns true if the order is settled. An order that expired before the lock has moved no money, so there is no
/// refund.
pub fn is_over(intent: &IntentUpdate) -> bool {
    intent.status.is_final() || intent.status == IntentStatus::Expired && intent.locked.is_none()
}

/// Time from which the settler refunds, in seconds since the Unix epoch; `None` if it has passed or is unknown.
pub fn refund_ahead(intent: &IntentUpdate, now: Moment) -> Option<u64> {
    intent.refund_from.filter(|from| *from > now.millis / 1000)
}

/// Time of the refund as text, such as `refund from 15:11:20 (in 59 min)`.
pub fn refund_words(from: u64, now: Moment) -> String {
    let when = time_of_day(from);
    match from.saturating_sub(now.millis / 1000) {
        wait if now.motion && wait > 0 => format!("refund from {when} (in {})", crate::format::age(wait)),
        _ => format!("refund from {when}"),
    }
}

/// Text of a refund at the start of a sentence.
fn capital(words: &str) -> String {
    words.strip_prefix('r').map_or_else(|| words.to_owned(), |rest| format!("R{rest}"))
}

/// Returns true if nothing is locked yet, so that the signature can still be invalidated.
pub const fn is_voidable(intent: &IntentUpdate) -> bool {
    matches!(intent.status, IntentStatus::Pending) && intent.locked.is_none()
}

/// Returns true if the order ended without a delivery on the destination chain.
const fn never_delivered(intent: &IntentUpdate) -> bool {
    matches!(intent.status, IntentStatus::Expired | IntentStatus::Refunded)
}

/// Returns true if the source chain accepted and paid a delivery that the destination chain does not show. Its block
/// may have been reorganised away, or the chain cannot be read.
const fn is_unseen(intent: &IntentUpdate) -> bool {
    matches!(intent.status, IntentStatus::Filled) && intent.delivered.is_none()
}

fn bidder(name: Option<&bardo_base::text::SafeText>, filler: Address) -> String {
    name.map_or_else(|| short_address(filler), ToString::to_string)
}

/// Rows of both chains with the track between them, what happened on each, and the transactions.
fn track_rows(intent: &IntentUpdate, columns: usize) -> Vec<Row> {
    let (source, destination) = (intent.source_chain.as_str(), intent.destination_chain.as_str());
    let happened = |place: Option<&TxPlace>, word: &str, none: &str| match place {
        Some(TxPlace { block: Some(block), .. }) => format!("{word} #{}", grouped(&block.to_string())),
        Some(_) => format!("{word}, not confirmed"),
        None => none.to_owned(),
    };
    let bids = match intent.bids.len() {
        0 => "no bids".to_owned(),
        1 => "1 bid".to_owned(),
        many => format!("{many} bids"),
    };
    let back = intent.refunded.as_ref();
    let lock = match back {
        Some(_) => happened(back, "refunded", ""),
        None => happened(intent.locked.as_ref(), "locked", "not locked"),
    };
    let waiting = match intent.status {
        IntentStatus::Expired | IntentStatus::Refunded => "not delivered",
        IntentStatus::Filled => "not seen",
        IntentStatus::Pending | IntentStatus::Filling => "waiting",
    };
    let delivery = happened(intent.delivered.as_ref(), "delivered", waiting);
    let none_yet = if never_delivered(intent) || is_unseen(intent) { "" } else { "no tx yet" };
    let hash = |place: Option<&TxPlace>| place.map_or(none_yet.to_owned(), |place| short_hash(place.hash));
    let (first_tx, last_tx) = (hash(back.or(intent.locked.as_ref())), hash(intent.delivered.as_ref()));
    let lines = [[source, "fillers", destination], [&lock, &bids, &delivery], [&first_tx, "", &last_tx]];
    let widest =
        |column: usize| lines.iter().map(|line| line.get(column).map_or(0, |text| width(text))).max().unwrap_or(0);
    let (one, two, three) = (widest(0), widest(1), widest(2));
    if columns < LEAST_TRACK || one + two + three + 4 > columns {
        // Stacked on narrow cards, so that nothing is lost.
        return vec![
            Row::new(format!("{source}: "), Role::TextDim).then(lock, Role::Text).end(first_tx, Role::TextDim),
            Row::new("fillers: ", Role::TextDim).then(bids, Role::Text),
            Row::new(format!("{destination}: "), Role::TextDim).then(delivery, Role::Text).end(last_tx, Role::TextDim),
        ];
    }
    let middle = columns / 2;
    let right = columns.saturating_sub(three);
    let three_columns = |texts: [&str; 3], role: Role| {
        let [a, b, c] = texts;
        let b_at = middle.saturating_sub(width(b) / 2).max(width(a) + 1);
        let gap = b_at.saturating_sub(width(a));
        let rest = right.saturating_sub(b_at + width(b));
        Row::of(vec![(format!("{a}{}{b}{}{c}", " ".repeat(gap), " ".repeat(rest)), role)])
    };
    let [names, told, hashes] = lines;
    vec![
        three_columns(names, Role::TextStrong),
        track(intent, right, middle),
        three_columns(told, Role::Text),
        three_columns(hashes, Role::TextDim),
    ]
}

/// Track of the order: completed parts are thick, future parts are dotted. `length` is the column of the last stop.
fn track(intent: &IntentUpdate, length: usize, middle: usize) -> Row {
    let gone = ("━", Role::StateGood);
    let ahead = ("┄", Role::TextDim);
    let lost = ("┄", Role::StateCare);
    let (first, half, station, rest, last) = match intent.status {
        IntentStatus::Pending => (("○", Role::TextDim), ahead, ("○", Role::TextDim), ahead, ("○", Role::TextDim)),
        IntentStatus::Filling => (("●", Role::StateGood), gone, ("◉", Role::Chart), ahead, ("○", Role::TextDim)),
        IntentStatus::Filled if is_unseen(intent) => {
            (("●", Role::StateGood), gone, ("●", Role::StateGood), lost, ("?", Role::StateCare))
        }
        IntentStatus::Filled => (("●", Role::StateGood), gone, ("●", Role::StateGood), gone, ("●", Role::StateGood)),
        IntentStatus::Expired => (("●", Role::StateCare), lost, ("✕", Role::StateCare), ahead, ("○", Role::TextDim)),
        IntentStatus::Refunded => {
            (("●", Role::StateGood), ("←", Role::StateGood), ("✕", Role::TextDim), ahead, ("○", Role::TextDim))
        }
    };
    let span = |(text, role): (&str, Role), count: usize| (text.repeat(count), role);
    let one = |(text, role): (&str, Role)| (text.to_owned(), role);
    Row::of(vec![
        one(first),
        span(half, middle.saturating_sub(1)),
        one(station),
        span(rest, length.saturating_sub(middle + 1)),
        one(last),
    ])
}

fn bid_rows(intent: &IntentUpdate) -> Vec<Row> {
    let over = never_delivered(intent);
    let shown = intent.bids.iter().take(MOST_BIDS);
    let names = shown.map(|bid| width(&bidder(bid.name.as_ref(), bid.filler))).max().unwrap_or(0).max(10);
    let row = |bid: &FillerOffer| {
        // A bidder that was chosen but did not deliver is not marked as chosen.
        let chosen = bid.chosen && !over;
        let who = bidder(bid.name.as_ref(), bid.filler);
        let after = " ".repeat(names.saturating_sub(width(&who)) + 1);
        let (mark, role) = if chosen { ("▸ ", Role::Chart) } else { ("  ", Role::TextDim) };
        let mut row = Row::new(mark, role)
            .then(format!("{who}{after}"), Role::Text)
            .then(format!("{:>12}", amount(&bid.output_amount)), if chosen { Role::TextStrong } else { Role::Text })
            .then(format!("   ≈{} s", bid.estimated_seconds), Role::TextDim);
        if chosen {
            row = row.then("   chosen", Role::Chart);
        }
        row
    };
    let mut rows: Vec<Row> = intent.bids.iter().take(MOST_BIDS).map(row).collect();
    if let Some(more) = intent.bids.len().checked_sub(MOST_BIDS).filter(|more| *more > 0) {
        rows.push(Row::new(format!("  + {more} more bids"), Role::TextDim));
    }
    if !rows.is_empty() {
        // A relayer could pay its bid, and pays what was ordered.
        rows.push(Row::new("  The relayer keeps what its bid is above your order.", Role::TextDim));
    }
    rows
}

impl CardView for BridgeModel {
    fn line(&self, now: Moment) -> CardLine {
        let status = self.status(now);
        let mut groups = Vec::new();
        match &self.intent {
            Some(intent) => {
                let got = match never_delivered(intent) || is_unseen(intent) {
                    true => intent.token_out.symbol.to_string(),
                    false => amount(intent.amount_out.as_ref().unwrap_or(&intent.estimated_output)),
                };
                groups.push(Group {
                    rank: 0,
                    pieces: vec![
                        (format!("{} {} → ", paid(&intent.amount_in), intent.token_in.symbol), Role::Text),
                        (format!("{got} on {}", intent.destination_chain), Role::TextStrong),
                    ],
                });
                // The line already begins with the mark.
                groups.push(Group::new(1, format!("  {}", self.state_text(now)), status.role()));
                if !intent.remark.is_empty() {
                    groups.push(Group::new(2, format!("  {}", intent.remark), Role::TextDim));
                }
            }
            None => groups.push(Group::new(0, self.asked_words(), Role::Text)),
        }
        if let Some(why) = self.call.failure_words() {
            groups.push(Group::new(1, format!("  {why}"), status.role()));
        }
        let right = if self.call.tool.is_empty() { Vec::new() } else { self.call.line_end(now) };
        CardLine { at: self.call.at, mark: status.sign(), kind: "Bridge".to_owned(), groups, right }
    }

    fn title(&self, now: Moment) -> Title {
        Title { left: vec![(self.name(), Role::Title)], right: self.status_text(now) }
    }

    fn short(&self, _now: Moment) -> Vec<Row> {
        let Some(intent) = &self.intent else { return self.without_intent() };
        let mut rows = vec![Self::delivered_row(intent), Self::money_row(intent)];
        if !intent.remark.is_empty() {
            rows.push(Row::new(intent.remark.as_str(), Role::TextDim));
        }
        rows
    }

    fn full(&self, now: Moment, columns: usize) -> Vec<Row> {
        let Some(intent) = &self.intent else { return self.without_intent() };
        let mut rows = self.call.failure_rows();
        rows.extend(track_rows(intent, columns));
        rows.extend(bid_rows(intent));
        rows.push(Self::delivered_row(intent));
        if let Some(place) = &intent.repaid {
            let words = format!("The filler was repaid on {}, tx {}", intent.source_chain, short_hash(place.hash));
            rows.push(Row::new(words, Role::TextDim));
        }
        if !intent.remark.is_empty() {
            rows.push(Row::new(intent.remark.as_str(), Role::TextDim));
        }
        rows.push(Self::money_row(intent));
        rows.extend(Self::refund_row(intent, now));
        rows
    }

    fn last(&self, now: Moment, keys: CardKeys) -> Option<Row> {
        let intent = self.intent.as_ref()?;
        let mut row = Row::new(short_hash(intent.intent_id), Role::Text);
        let refunds = intent.status == IntentStatus::Expired && !is_over(intent) && refund_ahead(intent, now).is_none();
        row = if keys.cancel && refunds {
            keyed(row, "x", "refund…").kept()
        } else if keys.cancel && is_voidable(intent) {
            keyed(row, "x", "cancel…")
        } else {
            row.then("  settler ", Role::TextDim).then(short_address(intent.settler), Role::TextDim)
        };
        if keys.copy {
            row = keyed(row, "y", "copy");
        }
        Some(if keys.open.is_empty() { row } else { keyed(row, "Enter", keys.open) })
    }

    fn edge(&self, now: Moment) -> Role {
        self.status(now).edge()
    }
}

impl BridgeModel {
    fn without_intent(&self) -> Vec<Row> {
        let mut rows = self.call.failure_rows();
        if rows.is_empty() {
            rows.push(match self.call.status {
                CardStatus::Empty => Row::new("No bridge order.", Role::TextDim),
                _ => self.call.pending_row("Being checked and signed…"),
            });
            if self.call.status != CardStatus::Empty {
                rows.push(Row::new("Money: ", Role::TextDim).then("in your wallet", Role::Text).kept());
            }
        }
        rows
    }
}
