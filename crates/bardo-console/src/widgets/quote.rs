//! Card of a quote: expected result of a swap, its route, and the validity.

use rust_decimal::Decimal;
use serde_json::Value;

use super::call::CallModel;
use super::figure::{ago, amount, decimal, impact_badge, left, paid, percent, text};
use super::paint::{CardLine, Group, Row, Title};
use super::reasons::Reasons;
use super::status::CardStatus;
use super::{CardView, Moment};
use crate::format::{dollars, fee, grouped, ratio};
use crate::painter::StyledText;
use crate::theme::Role;
use bardo_base::fabric::EventKind;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// Age from which a quote is shown as stale, in milliseconds.
pub const STALE_AFTER_MILLIS: u64 = 30_000;
/// Maximum number of pools read per route; more than a route can have.
const MAX_HOPS: usize = 32;

/// Pool of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Symbol of the input token.
    pub token_in: SafeText,
    /// Symbol of the output token.
    pub token_out: SafeText,
    /// Pool version: `V2`, `V3` or `V4`.
    pub version: SafeText,
    /// Fee in hundredths of a basis point.
    pub fee_tier: u32,
    /// Number of the split's part that the pool belongs to, starting at 1.
    pub leg: u64,
    /// Share of that part, in basis points.
    pub share_bps: u32,
}

/// Quote as returned by a tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Quote {
    /// Amount paid, in whole tokens.
    pub amount_in: SafeText,
    /// Amount received, in whole tokens.
    pub amount_out: SafeText,
    /// Minimum amount received, in whole tokens.
    pub minimum_out: Option<SafeText>,
    /// Maximum amount paid for an exact output, in whole tokens.
    pub maximum_in: Option<SafeText>,
    /// Symbol of the paid token.
    pub token_in: SafeText,
    /// Symbol of the received token.
    pub token_out: SafeText,
    /// Value paid, in dollars.
    pub usd_in: Option<Usd>,
    /// Value received, in dollars.
    pub usd_out: Option<Usd>,
    /// Received tokens per paid token.
    pub out_per_in: Option<Decimal>,
    /// Paid tokens per received token.
    pub in_per_out: Option<Decimal>,
    /// Price impact of the trade, in percent.
    pub impact: Option<Decimal>,
    /// Price impact including pool fees, in percent.
    pub impact_with_fee: Option<Decimal>,
    /// Pools of the route, part by part.
    pub hops: Vec<Hop>,
    /// Route type: `CLASSIC`, `DUTCH_V2`, `DUTCH_V3` or `PRIORITY`.
    pub route_type: SafeText,
    /// Amount that the pools would give at once, in whole tokens; `None` unless the quote is of an auction.
    pub pools_out: Option<SafeText>,
    /// Gas cost, in dollars.
    pub gas_usd: Option<Decimal>,
    /// Gas, in units.
    pub gas_units: Option<u64>,
    /// Allowed slippage, in basis points.
    pub slippage_bps: Option<u64>,
    /// End of validity, in seconds since the Unix epoch; 0 if not reported.
    pub deadline: u64,
    /// Block of the quote.
    pub block: Option<u64>,
    /// Source of the quote.
    pub source: Option<SafeText>,
    /// Advantage of another source over Bardo's own router, in basis points; negative if it is worse. `None` for the
    /// own router.
    pub ahead_bps: Option<i64>,
    /// Reasons for the routing.
    pub reasons: Reasons,
    /// Warnings about the quote.
    pub warnings: Vec<SafeText>,
}

/// Model of a quote's card.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuoteModel {
    /// Call that the card shows.
    pub call: CallModel,
    /// Quote, once it has arrived.
    pub quote: Option<Quote>,
    /// Time of its arrival, in milliseconds since the Unix epoch.
    pub answered_at: Option<u64>,
}

impl Quote {
    /// Reads a tool's response; `None` if it is not a quote.
    pub fn read(data: &Value, hints: &Value) -> Option<Self> {
        let usd = |field: &str| text(hints, field).and_then(|text| text.as_str().parse().ok());
        let ratio = |value: &Value, field: &str| text(value, field).and_then(|text| decimal(text.as_str()));
        let hop = |hop: &Value| {
            Some(Hop {
                token_in: text(hop, "token_in")?,
                token_out: text(hop, "token_out")?,
                version: text(hop, "version")?,
                fee_tier: u32::try_from(hop.get("fee_tier")?.as_u64()?).ok()?,
                leg: hop.get("leg").and_then(Value::as_u64).unwrap_or(1),
                share_bps: hop.get("share_bps").and_then(Value::as_u64).and_then(|bps| u32::try_from(bps).ok())?,
            })
        };
        let route = data.get("route").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        let warnings = hints.get("warnings").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        Some(Self {
            amount_in: text(data, "amount_in")?,
            amount_out: text(data, "amount_out")?,
            minimum_out: text(hints, "minimum_out"),
            maximum_in: text(hints, "maximum_in"),
            token_in: text(data, "token_in")?,
            token_out: text(data, "token_out")?,
            usd_in: usd("amount_in_usd"),
            usd_out: usd("amount_out_usd"),
            out_per_in: ratio(hints, "price_out_per_in"),
            in_per_out: ratio(hints, "price_in_per_out"),
            impact: ratio(data, "price_impact_pct"),
            impact_with_fee: ratio(hints, "price_impact_with_fee_pct"),
            hops: route.iter().take(MAX_HOPS).filter_map(hop).collect(),
            route_type: text(data, "route_type").unwrap_or_default(),
            pools_out: hints.get("alternative").and_then(|pools| text(pools, "amount_out")),
            gas_usd: ratio(data, "gas_estimate_usd"),
            gas_units: hints.get("gas_units").and_then(Value::as_u64),
            slippage_bps: hints.get("slippage_bps").and_then(Value::as_u64),
            deadline: data.get("deadline").and_then(Value::as_u64).unwrap_or(0),
            block: hints.get("block_number").and_then(Value::as_u64),
            source: text(hints, "source"),
            ahead_bps: hints
                .get("source_compared")
                .and_then(|compared| compared.get("ahead_of_own_router_bps")?.as_i64()),
            reasons: Reasons::read(hints),
            warnings: warnings.iter().take(8).filter_map(|one| Some(SafeText::clean(one.as_str()?, 300))).collect(),
        })
    }

    /// Gas of the route. That of an auction is the filler's cost, which the quote allows for.
    fn gas_words(&self) -> String {
        match self.gas_usd {
            _ if is_auction(self.route_type.as_str()) => "the filler pays the gas".to_owned(),
            Some(gas) => format!("gas ${gas:.2}"),
            None => "gas: no price".to_owned(),
        }
    }

    fn badge(&self) -> Vec<StyledText> {
        let (word, role) = impact_badge(self.impact);
        let figure = self.impact.map_or(String::new(), |impact| format!("{} ", percent(impact)));
        vec![("impact ".to_owned(), Role::TextDim), (figure, Role::Text), (word.to_owned(), role)]
    }

    /// Rows of the route, one per part of the split, such as `WETH ─V3 0.05 % 70 %→ USDC`.
    pub fn chain_rows(&self) -> Vec<Row> {
        let mut legs: Vec<u64> = self.hops.iter().map(|hop| hop.leg).collect();
        legs.dedup();
        let split = legs.len() > 1;
        let of_leg = |leg: u64| {
            let hops: Vec<_> = self.hops.iter().filter(|hop| hop.leg == leg).collect();
            let first = hops.first().map(|hop| hop.token_in.to_string()).unwrap_or_default();
            let mut row = Row::new(format!("  {first} "), Role::Text);
            for (at, hop) in hops.iter().enumerate() {
                // The share belongs to the whole part, so it is shown once.
                let share = if split && at == 0 {
                    format!(" {} %", Decimal::new(i64::from(hop.share_bps), 2).normalize())
                } else {
                    String::new()
                };
                row = row.then(format!("─{} {}{share}→ ", hop.version, fee(hop.fee_tier)), Role::Chart);
                row = row.then(format!("{} ", hop.token_out), Role::Text);
            }
            row
        };
        legs.into_iter().map(of_leg).collect()
    }
}

/// Comparison of another source's route with Bardo's own.
fn against_own(ahead: i64) -> String {
    match ahead {
        0 => "same as Bardo's own router on the same pools".to_owned(),
        1.. => format!("{ahead} bps better than Bardo's own router, after gas"),
        _ => format!("{} bps worse than Bardo's own router, after gas", ahead.unsigned_abs()),
    }
}

/// Returns true for routes that a filler settles.
fn is_auction(route_type: &str) -> bool {
    matches!(route_type, "DUTCH_V2" | "DUTCH_V3" | "PRIORITY")
}

/// Display text of a route type.
pub fn route_words(route_type: &str) -> String {
    match route_type {
        "CLASSIC" => "through pools".to_owned(),
        "DUTCH_V2" => "auction · Dutch V2".to_owned(),
        "DUTCH_V3" => "auction · Dutch V3".to_owned(),
        "PRIORITY" => "auction · priority".to_owned(),
        other => SafeText::clean(other, 24).as_str().to_owned(),
    }
}

impl QuoteModel {
    /// Creates the card of a requested call.
    pub fn asked(at: u64, tool: &str, params: Value) -> Self {
        Self { call: CallModel::asked(at, tool, params), ..Self::default() }
    }

    /// Applies an event of its call.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        self.call.fold(at, kind);
        if let EventKind::ToolEnd(end) = kind
            && let Some(card) = &end.card
        {
            self.quote = Quote::read(&card.data, card.hints.as_ref().unwrap_or(&Value::Null));
            self.answered_at = Some(at);
        }
    }

    /// Status at a moment: a quote becomes stale and then expires.
    pub fn status(&self, now: Moment) -> CardStatus {
        match (&self.quote, self.answered_at, self.call.status) {
            (Some(quote), _, CardStatus::Done) if quote.deadline > 0 && quote.deadline <= now.millis / 1000 => {
                CardStatus::Expired
            }
            (Some(_), Some(at), CardStatus::Done) if now.millis.saturating_sub(at) > STALE_AFTER_MILLIS => {
                CardStatus::Stale
            }
            (None, _, CardStatus::Done) => CardStatus::Empty,
            (_, _, status) => status,
        }
    }

    fn pair(&self) -> String {
        match &self.quote {
            Some(quote) => format!("{} {} → {}", paid(quote.amount_in.as_str()), quote.token_in, quote.token_out),
            None => ask_words(&self.call),
        }
    }
}

/// Requested trade as text, from the parameters.
pub(super) fn ask_words(call: &CallModel) -> String {
    let (token_in, token_out) = (call.token("token_in"), call.token("token_out"));
    if token_in.is_empty() && token_out.is_empty() {
        // A call about an order, such as a cancellation, names no tokens.
        return match call.status {
            CardStatus::Empty => "no request yet".to_owned(),
            _ => call.param("order_hash").as_str().chars().take(10).collect(),
        };
    }
    format!("{} {token_in} → {token_out}", paid(call.param("amount").as_str()))
}

impl CardView for QuoteModel {
    fn line(&self, now: Moment) -> CardLine {
        let status = self.status(now);
        let mut groups = Vec::new();
        match &self.quote {
            Some(quote) => {
                let paid = format!("{} {}", paid(quote.amount_in.as_str()), quote.token_in);
                let got = format!(" → {} {}", amount(quote.amount_out.as_str()), quote.token_out);
                groups.push(Group { rank: 0, pieces: vec![(paid, Role::Text), (got, Role::TextStrong)] });
                let mut badge = quote.badge();
                badge.insert(0, ("  ".to_owned(), Role::Text));
                groups.push(Group { rank: 2, pieces: badge });
                // A past quote is always stale, so a list shows this as a word without a warning mark.
                if matches!(status, CardStatus::Stale | CardStatus::Expired) {
                    groups.push(Group::new(3, format!("  {}", status.word().to_lowercase()), Role::TextDim));
                }
            }
            None => groups.push(Group::new(0, self.pair(), Role::Text)),
        }
        if let Some(why) = self.call.failure_words() {
            groups.push(Group::new(1, format!("  {why}"), status.role()));
        }
        let status = if status == CardStatus::Stale { CardStatus::Done } else { status };
        CardLine {
            at: self.call.at,
            mark: status.sign(),
            kind: "Quote".to_owned(),
            groups,
            right: self.call.line_end(now),
        }
    }

    fn title(&self, now: Moment) -> Title {
        let status = self.status(now);
        let right = match (status, self.answered_at) {
            (CardStatus::Done | CardStatus::Stale | CardStatus::Expired, Some(at)) => {
                // The age counts from the quote, not from when it became stale.
                let word = match status {
                    CardStatus::Done => "✓".to_owned(),
                    _ => format!("{} {} · quoted", status.mark(), status.word()),
                };
                vec![(format!("{word} {}", ago(at, now)), status.role())]
            }
            (CardStatus::Empty, _) => vec![(format!("{} {}", status.mark(), status.word()), status.role())],
            _ => self.call.status_text(now),
        };
        Title { left: vec![(format!("Quote {}", self.pair()), Role::Title)], right }
    }

    fn short(&self, now: Moment) -> Vec<Row> {
        let Some(quote) = &self.quote else { return self.without_answer() };
        let worth = |usd: Option<Usd>| usd.map_or(String::new(), |usd| format!(" {}", dollars(usd)));
        let mut rows = self.call.failure_rows();
        // An auction's amount is where its price begins to fall.
        let got = if is_auction(quote.route_type.as_str()) { "from " } else { "get " };
        rows.push(
            Row::new(got, Role::TextDim)
                .then(format!("{} {}", amount(quote.amount_out.as_str()), quote.token_out), Role::TextStrong)
                .then(worth(quote.usd_out), Role::Text)
                .then("  for ", Role::TextDim)
                .then(format!("{} {}", paid(quote.amount_in.as_str()), quote.token_in), Role::Text)
                .then(worth(quote.usd_in), Role::Text),
        );
        let mut second = Row::of(quote.badge());
        second = second.then(format!("  {}", route_words(quote.route_type.as_str())), Role::TextDim);
        second = second.then(format!("  {}", quote.gas_words()), Role::TextDim);
        // A stale quote is not traded any more, however long its deadline is.
        if self.status(now) == CardStatus::Done {
            second = second.end(left(quote.deadline, now), Role::TextDim);
        }
        rows.push(second);
        if let Some(warning) = quote.warnings.first() {
            rows.push(Row::new("! ", Role::StateCare).then(warning.as_str(), Role::StateCare).kept());
        }
        rows
    }

    fn full(&self, now: Moment, _columns: usize) -> Vec<Row> {
        let Some(quote) = &self.quote else { return self.without_answer() };
        let worth = |usd: Option<Usd>| usd.map_or("no price".to_owned(), dollars);
        let mut rows = self.call.failure_rows();
        let status = self.status(now);
        if matches!(status, CardStatus::Stale | CardStatus::Expired) {
            let words = if status == CardStatus::Stale {
                "older than 30 s: get a new quote before trading"
            } else {
                "expired: get a new quote"
            };
            rows.push(Row::new(format!("{} {words}", status.mark()), status.role()).kept());
        }
        rows.push(
            Row::new("pay   ", Role::TextDim)
                .then(format!("{} {}", paid(quote.amount_in.as_str()), quote.token_in), Role::Text)
                .end(worth(quote.usd_in), Role::Text),
        );
        let got = if is_auction(quote.route_type.as_str()) { "from  " } else { "get   " };
        rows.push(
            Row::new(got, Role::TextDim)
                .then(format!("{} {}", amount(quote.amount_out.as_str()), quote.token_out), Role::TextStrong)
                .end(worth(quote.usd_out), Role::TextStrong),
        );
        if let Some(pools) = &quote.pools_out {
            rows.push(
                Row::new("pools ", Role::TextDim)
                    .then(format!("{} {}", amount(pools.as_str()), quote.token_out), Role::Text)
                    .end("if swapped at once", Role::TextDim),
            );
        }
        // Rounding never promises too much: the minimum is rounded down, the maximum up.
        let least = quote.minimum_out.as_ref().map(|least| ("min   ", amount(least.as_str()), &quote.token_out));
        let most = quote.maximum_in.as_ref().map(|most| ("max   ", paid(most.as_str()), &quote.token_in));
        for (word, bound, token) in least.into_iter().chain(most) {
            let mut row = Row::new(word, Role::TextDim).then(format!("{bound} {token}"), Role::Text);
            if let Some(bps) = quote.slippage_bps {
                row = row.end(format!("slippage {} %", Decimal::from(bps) / Decimal::ONE_HUNDRED), Role::TextDim);
            }
            rows.push(row);
        }
        let price = |from: &SafeText, to: &SafeText, price: Decimal| format!("1 {from} = {} {to}", ratio(price));
        if let (Some(forth), Some(back)) = (quote.out_per_in, quote.in_per_out) {
            rows.push(
                Row::new(price(&quote.token_in, &quote.token_out, forth), Role::Text)
                    .end(price(&quote.token_out, &quote.token_in, back), Role::TextDim),
            );
        }
        let mut impact = Row::of(quote.badge());
        if let Some(all) = quote.impact_with_fee {
            impact = impact.end(format!("with fees {}", percent(all)), Role::TextDim);
        }
        rows.push(impact);
        rows.push(
            Row::new("route ", Role::TextDim)
                .then(route_words(quote.route_type.as_str()), Role::Text)
                .end(quote.gas_words(), Role::TextDim),
        );
        rows.extend(quote.chain_rows());
        for warning in &quote.warnings {
            rows.push(Row::new("! ", Role::StateCare).then(warning.as_str(), Role::StateCare).kept());
        }
        if let Some(source) = &quote.source {
            let mut row = Row::new("by ", Role::TextDim).then(source.as_str(), Role::Text);
            if let Some(block) = quote.block {
                row = row.end(format!("block #{}", grouped(&block.to_string())), Role::TextDim);
            }
            rows.push(row);
        }
        if let Some(ahead) = quote.ahead_bps {
            rows.push(Row::new(format!("   {}", against_own(ahead)), Role::TextDim));
        }
        rows.extend(quote.reasons.rows());
        if status == CardStatus::Done {
            rows.push(Row::new("valid ", Role::TextDim).then(left(quote.deadline, now), Role::Text));
        }
        rows
    }

    fn edge(&self, now: Moment) -> Role {
        self.status(now).edge()
    }
}

impl QuoteModel {
    fn without_answer(&self) -> Vec<Row> {
        let mut rows = self.call.failure_rows();
        if rows.is_empty() {
            rows.push(match self.call.status {
                CardStatus::Empty | CardStatus::Done => Row::new("No quote yet.", Role::TextDim),
                _ => Row::new("Searching the pools for the best route…", Role::TextDim),
            });
        }
        rows
    }
}
