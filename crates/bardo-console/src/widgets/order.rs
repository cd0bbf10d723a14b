//! Card of an auction or a limit order: current and worst-case amounts, exclusivity, and result.

use std::cmp::Ordering;

use rust_decimal::prelude::ToPrimitive;

use super::call::CallModel;
use super::chart::{Curve, place};
use super::figure::{against, ago, amount, decimal, left, memory_rows, paid};
use super::paint::{CardLine, Group, Row, Title};
use super::reasons::Reasons;
use super::status::CardStatus;
use super::{CardKeys, CardView, Moment, keyed};
use crate::format::{age, dollars, grouped, gwei, short_address, short_hash};
use crate::painter::StyledText;
use crate::theme::Role;
use bardo_base::fabric::{DecayUnit, EventKind, FillerOffer, LeastOut, OrderFill, OrderStatus, OrderUpdate};
use bardo_base::text::{SafeText, width};
use bardo_base::units::Usd;

/// Age of the last update from which an open order is shown as stale, in milliseconds.
const STALE_AFTER_MILLIS: u64 = 30_000;
/// Usual height of the curve, in rows.
const CURVE_ROWS: usize = 4;
/// Tool that places an order with one price.
pub(crate) const LIMIT_ORDER: &str = "uniswap_place_limit_order";
/// Minimum width of a curve, in columns.
const LEAST_CURVE: usize = 30;

/// Model of an auction order's card.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OrderModel {
    /// Call that placed the order.
    pub call: CallModel,
    /// Newest update of the order.
    pub order: Option<Box<OrderUpdate>>,
    /// Time of that update, in milliseconds since the Unix epoch.
    pub heard_at: u64,
    /// Reasons for the routing, as the call that placed the order reported them.
    pub reasons: Reasons,
    /// Number of similar past trades in memory, and the changes that they caused.
    pub memory: Option<(u32, Vec<SafeText>)>,
    /// Extra rows of the curve, where there is room.
    pub taller: usize,
    /// Terms of the order while it is only offered, or waits for an answer.
    pub terms: Option<OrderTerms>,
}

/// Terms of an order that is not signed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderTerms {
    /// Minimum amount received, if the offer names it.
    pub least: Option<LeastOut>,
    /// Dollars of what leaves the wallet, without gas.
    pub leaves: Option<Usd>,
    /// Expiry of the offer, in milliseconds since the Unix epoch.
    pub expires_at: u64,
}

/// Display name of an order type.
pub fn type_words(order_type: &str) -> &str {
    match order_type {
        "DUTCH_V2" => "Dutch V2",
        "DUTCH_V3" => "Dutch V3",
        "PRIORITY" => "priority",
        other => other,
    }
}

/// Error text of an order with error names of services and contracts replaced by plain descriptions.
fn order_words(remark: &str) -> String {
    let words = [
        ("InvalidCosignature", "the cosigner's signature does not match the order"),
        ("InvalidCosignerInput", "the cosigner's input amount is invalid"),
        ("InvalidCosignerOutput", "the cosigner's output amount is invalid"),
        ("NoExclusiveOverride", "another filler still has exclusive rights"),
        ("InvalidNonce", "its nonce is already used"),
        ("InvalidReactor", "it is for another contract"),
        ("DeadlinePassed", "its deadline has passed"),
        ("OrderNotFillable", "it cannot be filled yet"),
    ];
    words.iter().fold(remark.to_owned(), |text, (name, plain)| text.replace(name, plain))
}

/// Name of a filler, or its shortened address.
fn filler_words(name: Option<&SafeText>, filler: alloy_primitives::Address) -> String {
    name.map_or_else(|| short_address(filler), ToString::to_string)
}

fn bid_name(bid: &FillerOffer) -> String {
    filler_words(bid.name.as_ref(), bid.filler)
}

impl OrderModel {
    /// Creates the card of a requested order.
    pub fn asked(call: CallModel) -> Self {
        Self { call, ..Self::default() }
    }

    /// Creates the card of an order that is known only from its own events, the last of which came at `at`.
    pub fn known(at: u64, order: &OrderUpdate) -> Self {
        let call = CallModel { at: order.signed_at.unwrap_or(at), status: CardStatus::Running, ..CallModel::default() };
        let mut model = Self { call, ..Self::default() };
        model.take(at, order);
        model
    }

    fn take(&mut self, at: u64, order: &OrderUpdate) {
        self.order = Some(Box::new(order.clone()));
        self.heard_at = at;
    }

    /// Applies an event of its call or of the order.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        match kind {
            EventKind::OrderUpdate(order) => self.take(at, order),
            EventKind::MemoryHits(hits) => self.memory = Some((hits.similar, hits.changes.clone())),
            other => {
                self.call.fold(at, other);
                if let EventKind::PermitIssued(permit) = other {
                    let (least, leaves) = (permit.least(), permit.leaves_usd);
                    self.terms = Some(OrderTerms { least, leaves, expires_at: permit.expires_at });
                }
                let EventKind::ToolEnd(end) = other else { return };
                let Some(hints) = end.card.as_ref().and_then(|card| card.hints.as_ref()) else { return };
                self.reasons = Reasons::read(hints);
                // A status query returns the order in its response.
                if let Some(order) = hints.get("order")
                    && let Ok(order) = serde_json::from_value::<OrderUpdate>(order.clone())
                {
                    self.take(at, &order);
                }
            }
        }
    }

    /// Status of the order at a moment.
    pub fn status(&self, now: Moment) -> CardStatus {
        let Some(order) = &self.order else {
            return if self.call.status == CardStatus::Done { CardStatus::Loading } else { self.call.status };
        };
        match order.status {
            OrderStatus::Pending => CardStatus::Loading,
            OrderStatus::Open if now.millis.saturating_sub(self.heard_at) > STALE_AFTER_MILLIS => CardStatus::Stale,
            OrderStatus::Open => CardStatus::Running,
            OrderStatus::Filled => CardStatus::Done,
            OrderStatus::Expired => CardStatus::Expired,
            OrderStatus::Cancelled => CardStatus::Cancelled,
            OrderStatus::InsufficientFunds => CardStatus::Blocked,
            OrderStatus::Error => CardStatus::Failed,
        }
    }

    /// Kind of the order, in words.
    fn kind(&self) -> &'static str {
        match &self.order {
            Some(order) => order.kind_word(),
            None if self.call.tool.as_str() == LIMIT_ORDER => "Limit order",
            None => "Auction",
        }
    }

    fn name(&self) -> String {
        match &self.order {
            Some(order) => {
                let (paid, from, to) = (paid(&order.amount_in), &order.token_in.symbol, &order.token_out.symbol);
                let kind = order.kind_word();
                format!("{kind} {paid} {from} → {to} · {}", type_words(order.order_type.as_str()))
            }
            None => format!("{} {}", self.kind(), super::quote::ask_words(&self.call)),
        }
    }

    fn status_text(&self, now: Moment) -> Vec<StyledText> {
        if self.order.is_none() {
            return self.call.status_text(now);
        }
        let status = self.status(now);
        vec![(format!("{} {}", status.mark(), self.state_text(now)), status.role())]
    }

    /// Status of the order as text.
    fn state_text(&self, now: Moment) -> String {
        let Some(order) = &self.order else { return String::new() };
        let status = self.status(now);
        match order.status {
            OrderStatus::Pending => "submitted".to_owned(),
            OrderStatus::Open if status == CardStatus::Stale => format!("STALE, updated {}", ago(self.heard_at, now)),
            OrderStatus::Open => format!("OPEN {}", left(order.deadline, now)),
            OrderStatus::Filled => "FILLED".to_owned(),
            OrderStatus::Expired => "EXPIRED".to_owned(),
            OrderStatus::Cancelled => "CANCELLED".to_owned(),
            OrderStatus::InsufficientFunds => "BLOCKED: funds missing".to_owned(),
            OrderStatus::Error => "FAILED".to_owned(),
        }
    }

    fn figures(order: &OrderUpdate) -> Row {
        if order.is_limit() {
            let (label, shown) = match &order.fill {
                Some(fill) => ("got ", &fill.amount_out),
                None => ("waits for ", &order.end_amount),
            };
            return Row::new(label, Role::TextDim)
                .then(amount(shown), Role::TextStrong)
                .then("   pools, when signed ", Role::TextDim)
                .then(amount(&order.quoted_out), Role::Text);
        }
        let (label, shown) = match &order.fill {
            Some(fill) => ("got ", &fill.amount_out),
            None if order.status.is_final() => ("started at ", &order.start_amount),
            None => ("now ", &order.current_amount),
        };
        Row::new(label, Role::TextDim)
            .then(amount(shown), Role::TextStrong)
            .then("   pools ", Role::TextDim)
            .then(amount(&order.quoted_out), Role::Text)
            .then("   worst case ", Role::TextDim)
            .then(amount(&order.end_amount), Role::Text)
    }

    fn fill_rows(order: &OrderUpdate, fill: &OrderFill) -> Vec<Row> {
        let who = filler_words(fill.name.as_ref(), fill.filler);
        let mut rows = vec![
            Row::new("Filled by ", Role::TextDim)
                .then(who, Role::Text)
                .then(format!(" at {}", position_words(order, fill.position)), Role::TextDim),
        ];
        if let Some((words, role)) = against_pools(&fill.amount_out, &order.quoted_out) {
            rows.push(Row::new(words, role).then(format!(" {}", amount(&order.quoted_out)), Role::TextDim));
        }
        let block = fill.tx.block.map_or(String::new(), |block| format!("  block #{}", grouped(&block.to_string())));
        rows.push(Row::new("tx ", Role::TextDim).then(short_hash(fill.tx.hash), Role::Text).then(block, Role::TextDim));
        rows
    }

    fn money_row(order: &OrderUpdate) -> Row {
        Row::new("Money: ", Role::TextDim).then(order.money.as_str(), Role::Text).kept()
    }
}

/// Comparison of a fill with what the pools would have paid when the order was signed. The quote of an auction is the start
/// of its curve, which is another figure.
fn against_pools(filled: &str, pools: &str) -> Option<(String, Role)> {
    against(filled, pools, ["the pools", "what the pools paid"])
}

/// Position on the curve as text, relative to the start of the curve.
fn position_words(order: &OrderUpdate, position: u64) -> String {
    let start = order.curve.points.first().map_or(0, |(at, _)| *at);
    match order.curve.unit {
        DecayUnit::Seconds => format!("{} s", position.saturating_sub(start)),
        DecayUnit::Blocks => match position.saturating_sub(start) {
            1 => "1 block".to_owned(),
            blocks => format!("{} blocks", grouped(&blocks.to_string())),
        },
        DecayUnit::Wei => gwei(position.into()),
    }
}

/// Rows of the curve with its marks and the labels of its ends.
fn curve_rows(order: &OrderUpdate, columns: usize, lines: usize) -> Vec<Row> {
    let points: Vec<(u64, f64)> =
        order.curve.points.iter().filter_map(|(at, value)| Some((*at, decimal(value)?.to_f64()?))).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let low = points.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
    if columns < LEAST_CURVE || first.0 >= last.0 || high.partial_cmp(&low) != Some(Ordering::Greater) {
        return vec![Row::new("constant price", Role::TextDim)];
    }
    let worst = amount(&order.end_amount);
    let best = amount(&order.start_amount);
    let labels = [&best, &worst];
    let gutter = labels.iter().map(|label| width(label)).max().unwrap_or(0) + 1;
    let mut curve = Curve::new(columns.saturating_sub(gutter), lines);
    let (across, down) = curve.dots();
    // A position outside the curve is drawn at the nearest end.
    let float = |at: u64| at.to_f64().unwrap_or(0.0);
    let x = |at: u64| place(float(at), float(first.0), float(last.0), across);
    let y = |value: f64| down.saturating_sub(1) - place(value, low, high, down);
    for pair in points.windows(2) {
        if let [from, to] = pair {
            curve.stroke((x(from.0), y(from.1)), (x(to.0), y(to.1)));
        }
    }
    let mark = match &order.fill {
        Some(fill) => Some((fill.position, &fill.amount_out, "filled", '◆')),
        // An order that ended without a fill has no position on its curve.
        None if order.status.is_final() => None,
        None => Some((order.position, &order.current_amount, "now", '●')),
    };
    let value = mark.and_then(|(_, shown, ..)| decimal(shown)?.to_f64());
    if let (Some((spot, _, word, character)), Some(value)) = (mark, value) {
        let (column, row) = (x(spot) / 2, y(value) / 4);
        curve.mark(column, row, character, Role::ChartMark);
        let room = columns.saturating_sub(gutter + column + 2);
        // The word is drawn beside its mark, on the side with room.
        let start = if room >= word.len() { column + 2 } else { column.saturating_sub(word.len() + 1) };
        for (at, letter) in word.chars().enumerate() {
            curve.mark(start + at, row, letter, Role::ChartMark);
        }
    }
    let mut rows: Vec<Row> = (0..lines)
        .zip(curve.rows())
        .map(|(at, drawn)| {
            let label = match at {
                0 => &best,
                at if at + 1 == lines => &worst,
                _ => "",
            };
            let mut left = vec![(format!("{label:<gutter$}"), Role::TextDim)];
            left.extend(drawn);
            Row::of(left)
        })
        .collect();
    let start = match order.curve.unit {
        DecayUnit::Wei => gwei(first.0.into()),
        DecayUnit::Seconds => "0 s".to_owned(),
        DecayUnit::Blocks => "block 0".to_owned(),
    };
    let end = position_words(order, last.0);
    let middle = match order.curve.unit {
        DecayUnit::Wei => "priority fee bid →",
        DecayUnit::Seconds | DecayUnit::Blocks => "",
    };
    rows.push(Row::new(format!("{:gutter$}{start}  {middle}", ""), Role::TextDim).end(end, Role::TextDim));
    rows
}

/// Row of the filler with exclusivity and its duration; `None` without exclusivity.
fn exclusivity_row(order: &OrderUpdate) -> Option<Row> {
    let exclusive = order.exclusivity.as_ref()?;
    let who = filler_words(exclusive.name.as_ref(), exclusive.filler);
    let row = Row::new("Exclusive to ", Role::TextDim).then(who, Role::Text);
    let over = order.position > exclusive.until;
    let distance = order.position.abs_diff(exclusive.until);
    let far = match order.curve.unit {
        DecayUnit::Seconds => age(distance),
        DecayUnit::Blocks if distance == 1 => "1 block".to_owned(),
        DecayUnit::Blocks => format!("{distance} blocks"),
        DecayUnit::Wei => String::new(),
    };
    Some(match (over, order.curve.unit) {
        (true, DecayUnit::Wei) => row.then(": ended, anyone may fill", Role::Text),
        (true, _) => row.then(format!(": ended {far} ago, anyone may fill"), Role::Text),
        (false, DecayUnit::Wei) => row.then(": in force", Role::Text),
        (false, _) => row.then(format!(": {far} more"), Role::Text),
    })
}

impl CardView for OrderModel {
    fn line(&self, now: Moment) -> CardLine {
        let status = self.status(now);
        let mut groups = Vec::new();
        match &self.order {
            Some(order) => {
                let got = match (&order.fill, order.status.is_final()) {
                    (Some(fill), _) => format!("{} ", amount(&fill.amount_out)),
                    // Nothing was received.
                    (None, true) => String::new(),
                    (None, false) => format!("{} ", amount(&order.current_amount)),
                };
                groups.push(Group {
                    rank: 0,
                    pieces: vec![
                        (format!("{} {} → ", paid(&order.amount_in), order.token_in.symbol), Role::Text),
                        (format!("{got}{}", order.token_out.symbol), Role::TextStrong),
                    ],
                });
                let text = match &order.fill {
                    Some(fill) => against_pools(&fill.amount_out, &order.quoted_out),
                    // The line already begins with the mark.
                    None => Some((self.state_text(now), status.role())),
                };
                if let Some((words, role)) = text {
                    groups.push(Group::new(1, format!("  {words}"), role));
                }
                // Shows the reason of a failure. Other endings are explained on the card.
                if !order.remark.is_empty() && status.is_bad() {
                    groups.push(Group::new(2, format!("  {}", order_words(order.remark.as_str())), Role::TextDim));
                }
            }
            None => groups.push(Group::new(0, super::quote::ask_words(&self.call), Role::Text)),
        }
        if let Some(why) = self.call.failure_words() {
            groups.push(Group::new(1, format!("  {why}"), status.role()));
        }
        // Without its call, the duration of an order is unknown.
        let right = if self.call.tool.is_empty() { Vec::new() } else { self.call.line_end(now) };
        CardLine { at: self.call.at, mark: status.sign(), kind: self.kind().to_owned(), groups, right }
    }

    fn title(&self, now: Moment) -> Title {
        Title { left: vec![(self.name(), Role::Title)], right: self.status_text(now) }
    }

    fn short(&self, now: Moment) -> Vec<Row> {
        let Some(order) = &self.order else { return self.without_order(now) };
        let mut rows = vec![Self::figures(order), Self::money_row(order)];
        if !order.remark.is_empty() {
            rows.push(Row::new(order_words(order.remark.as_str()), Role::TextDim));
        }
        rows
    }

    fn full(&self, now: Moment, columns: usize) -> Vec<Row> {
        let Some(order) = &self.order else { return self.without_order(now) };
        let mut rows = self.call.failure_rows();
        rows.push(Self::figures(order));
        // A limit order has no curve.
        if !order.is_limit() {
            rows.extend(curve_rows(order, columns, CURVE_ROWS + self.taller));
        }
        match &order.fill {
            Some(fill) => rows.extend(Self::fill_rows(order, fill)),
            None => {
                rows.extend(exclusivity_row(order).filter(|_| !order.status.is_final()));
                // An ended order receives no bids.
                if let Some(bid) = order.best_bid.as_ref().filter(|_| !order.status.is_final()) {
                    let soon = if bid.estimated_seconds > 0 {
                        format!(" in about {} s", bid.estimated_seconds)
                    } else {
                        String::new()
                    };
                    let words = format!("{}, {}{soon} (devnet only)", bid_name(bid), amount(&bid.output_amount));
                    rows.push(Row::new("Best bid: ", Role::TextDim).then(words, Role::Text));
                }
            }
        }
        if let Some(tx) = &order.cancelled_by {
            rows.push(Row::new("Cancelled by tx ", Role::TextDim).then(short_hash(tx.hash), Role::Text));
        }
        if !order.remark.is_empty() {
            let role = if self.status(now).is_bad() { Role::StateBad } else { Role::TextDim };
            rows.push(Row::new(order_words(order.remark.as_str()), role).kept());
        }
        rows.extend(memory_rows(self.memory.as_ref()));
        rows.push(Self::money_row(order));
        rows.extend(self.reasons.rows());
        rows
    }

    fn last(&self, _now: Moment, keys: CardKeys) -> Option<Row> {
        let order = self.order.as_ref()?;
        let mut row = Row::new(short_hash(order.order_hash), Role::Text);
        if keys.cancel && !order.status.is_final() {
            row = keyed(row, "x", "cancel…");
        }
        if keys.copy {
            row = keyed(row, "y", "copy");
        }
        Some(if keys.open.is_empty() { row } else { keyed(row, "Enter", keys.open) })
    }

    fn edge(&self, now: Moment) -> Role {
        self.status(now).edge()
    }
}

impl OrderModel {
    /// Amounts of an order that is not signed yet; `None` once it is over, or before its offer.
    fn terms_row(&self, now: Moment) -> Option<Row> {
        let terms = self.terms.as_ref().filter(|_| !self.call.status.is_over())?;
        let (asked, symbol) = (paid(self.call.param("amount").as_str()), self.call.token("token_in"));
        let mut row = Row::new("pay ", Role::TextDim).then(format!("{asked} {symbol}"), Role::Text);
        if let Some(leaves) = terms.leaves {
            row = row.then(format!(" {}", dollars(leaves)), Role::TextDim);
        }
        if let Some(least) = &terms.least {
            let words = format!("{} {}", amount(least.amount.as_str()), least.symbol);
            row = row.then("   get at least ", Role::TextDim).then(words, Role::TextStrong);
        }
        Some(row.end(format!("offer {}", left(terms.expires_at / 1000, now)), Role::TextDim))
    }

    fn without_order(&self, now: Moment) -> Vec<Row> {
        let mut rows = self.call.failure_rows();
        if rows.is_empty() {
            rows.extend(self.terms_row(now));
            rows.push(match self.call.status {
                CardStatus::Empty => Row::new("No order.", Role::TextDim),
                _ => self.call.pending_row("Being checked and signed…"),
            });
            rows.extend(memory_rows(self.memory.as_ref()));
            if self.call.status != CardStatus::Empty {
                rows.push(Row::new("Money: ", Role::TextDim).then("in your wallet", Role::Text).kept());
            }
        }
        rows
    }
}
