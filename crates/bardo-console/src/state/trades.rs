//! Trades as CSV, from the events, for a spreadsheet or a tax adviser. Amounts are copied from the tools with every
//! digit.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::call_details::word;
use super::feed::{CallSeen, Feed};
use bardo_base::chains::{DEVNET_BASE, DEVNET_ETHEREUM, known};
use bardo_base::fabric::{Event, EventKind, IntentStatus, IntentUpdate, OrderStatus, OrderUpdate, TxState};
use bardo_base::format::utc;
use bardo_base::text::SafeText;

/// Names of the columns.
const HEAD: [&str; 13] = [
    "time",
    "call",
    "kind",
    "chain",
    "paid",
    "paid_token",
    "got",
    "got_token",
    "quoted",
    "gas_wei",
    "transaction",
    "chain_agrees",
    "how_it_ended",
];

/// Time in milliseconds since the Unix epoch, and the cells of a row.
type TradeCells = (u64, [String; 13]);

/// CSV of every trade in the feed, oldest first, with a header line. Orders and bridge orders have their filled
/// amounts.
pub fn csv(feed: &Feed) -> String {
    let mut gas = OrderGas::default();
    feed.calls.iter().for_each(|call| gas.take(call));
    let orders = feed.orders.iter().filter_map(|(at, order)| order_row(*at, order));
    let intents = feed.intents.iter().filter_map(|(at, intent)| intent_row(*at, intent));
    text(feed.calls.iter().filter_map(call_row).chain(orders).chain(intents).collect(), &gas)
}

/// CSV of a whole run from its events. Unlike [`csv`], it contains every trade, however many there are.
pub fn csv_of(events: impl IntoIterator<Item = Event>) -> String {
    let mut feed = Feed::default();
    let mut rows: BTreeMap<String, TradeCells> = BTreeMap::new();
    let mut gas = OrderGas::default();
    for event in events {
        let event = Arc::new(event);
        feed.take(&event);
        if let (EventKind::ToolEnd(_), Some(call)) = (&event.kind, event.call_id.and_then(|id| feed.call(id))) {
            gas.take(call);
            // Until its end nothing says that a swap became an auction: then the order is the trade.
            if order_of(call).is_some() {
                rows.remove(&call.call_id.to_string());
            }
        }
        let row = match &event.kind {
            EventKind::ToolEnd(_) | EventKind::ToolVerified(_) => {
                event.call_id.and_then(|id| feed.call(id)).and_then(call_row)
            }
            EventKind::OrderUpdate(order) => order_row(event.at, order),
            EventKind::IntentUpdate(intent) => intent_row(event.at, intent),
            _ => None,
        };
        // A later event about the same trade replaces its row.
        if let Some((at, row)) = row {
            let name = row.get(1).cloned().unwrap_or_default();
            let first = rows.get(&name).map_or(at, |(first, _)| *first);
            rows.insert(name, (first, row));
        }
    }
    text(rows.into_values().collect(), &gas)
}

/// Gas that the calls about an order or a bridge order paid on chain, in wei, by its hash: allowances, a deposit, a
/// cancellation. Fillers pay for the fill.
#[derive(Default)]
struct OrderGas(BTreeMap<String, Option<u128>>);

impl OrderGas {
    /// Adds what a call that has ended paid, where it placed or changed an order.
    fn take(&mut self, call: &CallSeen) {
        let Some(card) = call.end().and_then(|end| end.card.as_ref()) else { return };
        let Some(hash) = order_of(call).filter(|_| !call.asks_about_an_order()) else { return };
        let sum = self.0.entry(hash.to_lowercase()).or_insert(Some(0));
        *sum = sum.zip(paid_gas(card.hints.as_ref())).map(|(sum, paid)| sum.saturating_add(paid));
    }

    /// In wei; empty where a transaction's gas is not known, or the call that placed the order is not.
    fn cell(&self, hash: &str) -> String {
        self.0.get(&hash.to_lowercase()).copied().flatten().map(|wei| wei.to_string()).unwrap_or_default()
    }
}

/// Hash of the order or bridge order that the answer of a call names.
fn order_of(call: &CallSeen) -> Option<&str> {
    let data = &call.end()?.card.as_ref()?.data;
    ["order_hash", "intent_id"].into_iter().find_map(|name| data.get(name)?.as_str())
}

/// Total gas cost of a call's transactions by their receipts, in wei; `None` if one of them has no cost yet.
fn paid_gas(hints: Option<&Value>) -> Option<u128> {
    let costs = hints.and_then(|hints| hints.get("transactions")).and_then(Value::as_array).into_iter().flatten();
    costs
        .map(|one| one.get("gas_cost_wei")?.as_str()?.parse::<u128>().ok())
        .try_fold(0, |sum: u128, one| sum.checked_add(one?))
}

fn text(mut rows: Vec<TradeCells>, gas: &OrderGas) -> String {
    rows.sort_by_key(|(at, _)| *at);
    for (_, row) in &mut rows {
        if let [_, hash, _, _, _, _, _, _, _, cell, ..] = row
            && cell.is_empty()
        {
            *cell = gas.cell(hash);
        }
    }
    let mut text = HEAD.join(",");
    text.push('\n');
    for (_, row) in rows {
        text.push_str(&row.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

/// Name of a chain from its name or id; an unknown id is kept.
fn chain_name(asked: &str) -> String {
    let network = asked.parse().ok().and_then(|id: u64| match id {
        DEVNET_ETHEREUM => Some("ethereum"),
        DEVNET_BASE => Some("base"),
        id => known(id).map(|chain| chain.name),
    });
    network.unwrap_or(asked).to_owned()
}

fn order_row(at: u64, order: &OrderUpdate) -> Option<TradeCells> {
    let fill = order.fill.as_ref()?;
    let cells = [
        utc(at),
        order.order_hash.to_string(),
        order.kind_word().to_owned(),
        chain_name(&order.chain_id.to_string()),
        fill.amount_in.clone(),
        order.token_in.symbol.to_string(),
        fill.amount_out.clone(),
        order.token_out.symbol.to_string(),
        order.quoted_out.clone(),
        String::new(),
        fill.tx.hash.to_string(),
        // A fill is proven by the reactor's event.
        if order.status.is_final() { (order.status == OrderStatus::Filled).to_string() } else { String::new() },
        order.status.as_str().to_owned(),
    ];
    Some((at, cells))
}

fn intent_row(at: u64, intent: &IntentUpdate) -> Option<TradeCells> {
    let delivered = intent.status == IntentStatus::Filled;
    let got = intent.amount_out.clone();
    if !delivered && got.is_none() {
        return None;
    }
    let agrees = delivered && got.is_some();
    let cells = [
        utc(at),
        intent.intent_id.to_string(),
        "Bridge".to_owned(),
        format!("{} to {}", intent.source_chain, intent.destination_chain),
        intent.amount_in.clone(),
        intent.token_in.symbol.to_string(),
        got.unwrap_or_default(),
        intent.token_out.symbol.to_string(),
        intent.estimated_output.clone(),
        String::new(),
        intent.delivered.as_ref().map(|place| place.hash.to_string()).unwrap_or_default(),
        // Same rule as for the order's verification: delivered, and the arrival shows in the destination balance.
        agrees.to_string(),
        intent.status.as_str().to_owned(),
    ];
    Some((at, cells))
}

/// Row of a signed swap. Calls that were only quoted, simulated or rejected are not trades.
fn call_row(call: &CallSeen) -> Option<TradeCells> {
    let (settled_at, transaction) = call.transactions.last()?;
    let card = call.end().and_then(|end| end.card.as_ref());
    let none = Value::Null;
    let (data, hints) = card.map_or((&none, &none), |card| (&card.data, card.hints.as_ref().unwrap_or(&none)));
    let params = call.start.as_ref().map_or(&none, |start| start.params.value());
    let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    // An order tells of itself, with what was filled; so does a swap that became one.
    params.get("token_out").filter(|_| call.tool() == "uniswap_execute_swap" && order_of(call).is_none())?;
    let costs = hints.get("transactions").and_then(Value::as_array).into_iter().flatten();
    let gas = costs.filter_map(|one| text(one, "gas_cost_wei").parse::<u128>().ok()).fold(0, u128::saturating_add);
    let paid = Some(text(data, "amount_in")).filter(|paid| !paid.is_empty());
    let ended = match (call.standing(), transaction.state) {
        (_, TxState::Reverted) => "reverted".to_owned(),
        (standing, TxState::Confirmed) if transaction.leg < transaction.of => {
            let (done, of) = (transaction.leg, transaction.of);
            format!("{} after {done} of {of} transactions", standing.mark().1.to_lowercase())
        }
        (standing, _) => standing.mark().1.to_lowercase(),
    };
    let agreed = call.verified.as_ref().filter(|_| call.standing() == super::feed::CallStatus::Done);
    // The preview was made earlier, and an auction and a bridge have the time of their end as well.
    Some((
        *settled_at,
        [
            utc(*settled_at),
            call.call_id.to_string(),
            word(call.tool()).into_owned(),
            chain_name(&text(params, "chain")),
            paid.unwrap_or_else(|| text(params, "amount")),
            text(params, "token_in"),
            text(data, "amount_out"),
            text(params, "token_out"),
            text(hints, "quoted_out"),
            if gas == 0 { String::new() } else { gas.to_string() },
            transaction.hash.to_string(),
            // What was not done agrees with nothing.
            agreed.map(|verified| verified.matched.to_string()).unwrap_or_default(),
            ended,
        ],
    ))
}

/// Maximum length of a cell, in characters; more than a decimal number of 256 bits needs.
const MOST_CELL: usize = 200;

/// Cell with CSV quoting. Formulas and control characters are neutralised, because a recording is untrusted text.
fn quoted(cell: &str) -> String {
    let cell = SafeText::clean(cell, MOST_CELL);
    let cell = cell.as_str();
    let formula = cell.starts_with(['=', '+', '-', '@']);
    let plain = if formula { format!("'{cell}") } else { cell.to_owned() };
    if plain.contains([',', '"', '\n', '\r']) { format!("\"{}\"", plain.replace('"', "\"\"")) } else { plain }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::B256;
    use serde_json::json;

    use super::*;
    use bardo_base::fabric::{RedactedParams, ResultCard, ToolEnd, ToolStart, TxUpdate};
    use bardo_base::id::{CallId, GolemId};
    use bardo_base::model::CardKind;

    fn swap(feed: &mut Feed, seq: u64, symbol: &str, signed: bool) {
        for event in swap_events(seq, symbol, signed) {
            feed.take(&Arc::new(event));
        }
    }

    fn swap_events(seq: u64, symbol: &str, signed: bool) -> Vec<Event> {
        let call_id = CallId::new(1_700_000_000_000 + seq);
        let params = json!({ "token_in": "WETH", "token_out": symbol, "amount": "0.25", "chain": "ethereum" });
        let data = json!({ "amount_in": "0.25", "amount_out": "848.123456" });
        let hints =
            json!({ "quoted_out": "848.5", "transactions": [{ "gas_cost_wei": "21000" }, { "gas_cost_wei": "9" }] });
        let start = ToolStart {
            tool_name: "uniswap_execute_swap".into(),
            params: RedactedParams::new(&params, &[]),
            params_hash: B256::ZERO,
            tick: None,
            facts: None,
        };
        let update = TxUpdate {
            chain_id: 31_337,
            hash: B256::repeat_byte(7),
            leg: 1,
            of: 1,
            state: TxState::Confirmed,
            block: Some(9),
            gas_cost_wei: None,
            purpose: None,
        };
        let card = Some(ResultCard { widget: CardKind::Swap, data, hints: Some(hints) });
        let end = ToolEnd { success: true, state: None, duration_ms: 1, result_summary: Value::Null, card };
        let mut kinds = vec![EventKind::ToolStart(start)];
        kinds.extend(signed.then_some(EventKind::TxUpdate(update)));
        kinds.push(EventKind::ToolEnd(end));
        let event = |(at, kind)| {
            let golem_id = GolemId::operator();
            Event { seq: at, at: 1_700_000_000_000, golem_id, call_id: Some(call_id), kind }
        };
        (seq..).zip(kinds).map(event).collect()
    }

    #[test]
    fn a_whole_run_has_every_trade_though_a_screen_forgets_the_oldest() {
        let many = crate::state::feed::CALLS_KEPT as u64 + 9;
        let text = csv_of((0..many).flat_map(|call| swap_events(1 + call * 10, "USDC", true)));
        assert_eq!(text.lines().count() as u64, many + 1);
        let mut order = crate::widgets::samples::order(bardo_base::fabric::DecayUnit::Seconds);
        let told = |order: &OrderUpdate, seq| {
            let (golem_id, kind) = (GolemId::operator(), EventKind::OrderUpdate(Box::new(order.clone())));
            Event { seq, at: 1_700_000_000_000 + seq, golem_id, call_id: None, kind }
        };
        let open = told(&order, 1);
        order.fill = Some(bardo_base::fabric::OrderFill {
            tx: bardo_base::fabric::TxPlace { chain_id: 31_337, hash: B256::ZERO, block: None },
            filler: alloy_primitives::Address::ZERO,
            name: None,
            amount_in: "0.5".to_owned(),
            amount_out: "1698.80".to_owned(),
            position: 1,
        });
        order.status = OrderStatus::Filled;
        let text = csv_of([open, told(&order, 2), told(&order, 3)]);
        assert_eq!(text.lines().count(), 2, "{text}");
        let cells: Vec<&str> = text.lines().last().unwrap().split(',').collect();
        assert_eq!([cells[2], cells[3], cells[6], cells[11]], ["Auction", "ethereum", "1698.80", "true"], "{text}");
    }

    #[test]
    fn a_bridge_names_both_chains_in_their_column_and_tokens_in_theirs() {
        let mut intent = crate::widgets::samples::intent();
        intent.status = IntentStatus::Filled;
        intent.amount_out = Some("399.6".to_owned());
        let kind = EventKind::IntentUpdate(Box::new(intent));
        let golem_id = GolemId::operator();
        let text = csv_of([Event { seq: 1, at: 1_700_000_000_000, golem_id, call_id: None, kind }]);
        let cells: Vec<&str> = text.lines().last().unwrap().split(',').collect();
        assert_eq!(
            [cells[2], cells[3], cells[5], cells[7], cells[11]],
            ["Bridge", "ethereum to base", "USDC", "USDC", "true"]
        );
    }

    /// A delivery that does not show in the destination balance is still a row, but the chain does not agree to it.
    #[test]
    fn a_bridge_whose_arrival_no_balance_shows_is_listed_and_not_agreed_to() {
        let row = |status: IntentStatus, amount_out: Option<&str>| {
            let mut intent = crate::widgets::samples::intent();
            (intent.status, intent.amount_out) = (status, amount_out.map(str::to_owned));
            let (golem_id, kind) = (GolemId::operator(), EventKind::IntentUpdate(Box::new(intent)));
            let text = csv_of([Event { seq: 1, at: 1_700_000_000_000, golem_id, call_id: None, kind }]);
            let cells = text.lines().nth(1).map(|row| row.split(',').map(str::to_owned).collect::<Vec<_>>());
            cells.map(|cells| (cells[6].clone(), cells[11].clone()))
        };
        let cells = |got: &str, agrees: &str| Some((got.to_owned(), agrees.to_owned()));
        assert_eq!(row(IntentStatus::Filled, Some("399.6")), cells("399.6", "true"));
        assert_eq!(row(IntentStatus::Filled, None), cells("", "false"));
        assert_eq!(row(IntentStatus::Refunded, None), None, "nothing was traded");
    }

    /// A swap that became an auction only sends a transaction for its allowance. It has no row of its own with zero
    /// amounts beside the filled order.
    #[test]
    fn a_swap_that_became_an_auction_is_no_row_beside_its_order() {
        let mut events = swap_events(1, "USDC", true);
        let hash = B256::repeat_byte(0x41);
        for event in &mut events {
            if let EventKind::ToolEnd(ToolEnd { card: Some(card), .. }) = &mut event.kind {
                card.data = json!({ "order_hash": hash, "amount_in": "0", "amount_out": "0" });
            }
        }
        let verified = bardo_base::fabric::ToolVerified {
            expected_outcome: SafeText::clean("an auction", 20),
            actual_outcome: SafeText::clean("done", 20),
            ground_truth_source: "receipt".into(),
            matched: true,
            unfilled: false,
        };
        let end = events.pop().unwrap();
        let told = Event { kind: EventKind::ToolVerified(verified), ..end.clone() };
        events.extend([told, Event { seq: end.seq + 1, ..end }]);
        let mut feed = Feed::default();
        events.iter().for_each(|event| feed.take(&Arc::new(event.clone())));
        assert_eq!([csv(&feed), csv_of(events)].map(|text| text.lines().count()), [1, 1], "the head alone");
    }

    /// Events of a call about an order: the receipts of its transactions, where it sent some.
    fn order_call(at: u64, tool: &'static str, (field, hash): (&str, B256), costs: &[Option<&str>]) -> Vec<Event> {
        let params = json!({ field: hash });
        let transactions: Vec<Value> = costs.iter().map(|wei| json!({ "gas_cost_wei": wei })).collect();
        let (data, hints) = (json!({ field: hash }), json!({ "transactions": transactions }));
        let start = ToolStart {
            tool_name: tool.into(),
            params: RedactedParams::new(&params, &[]),
            params_hash: B256::ZERO,
            tick: None,
            facts: None,
        };
        let card = Some(ResultCard { widget: CardKind::Order, data, hints: Some(hints) });
        let end = ToolEnd { success: true, state: None, duration_ms: 1, result_summary: Value::Null, card };
        // One id for both events: each new one is different.
        let id = CallId::new(at);
        let event = |(seq, kind)| {
            let (golem_id, call_id) = (GolemId::operator(), Some(id));
            Event { seq, at: 1_700_000_000_000 + seq, golem_id, call_id, kind }
        };
        (at..).zip([EventKind::ToolStart(start), EventKind::ToolEnd(end)]).map(event).collect()
    }

    #[test]
    fn an_auction_and_a_bridge_have_the_gas_of_their_own_calls_receipts() {
        let mut order = crate::widgets::samples::order(bardo_base::fabric::DecayUnit::Seconds);
        order.fill = Some(bardo_base::fabric::OrderFill {
            tx: bardo_base::fabric::TxPlace { chain_id: 31_337, hash: B256::ZERO, block: None },
            filler: alloy_primitives::Address::ZERO,
            name: None,
            amount_in: "0.5".to_owned(),
            amount_out: "1698.80".to_owned(),
            position: 1,
        });
        order.status = OrderStatus::Filled;
        let mut intent = crate::widgets::samples::intent();
        (intent.status, intent.amount_out) = (IntentStatus::Filled, Some("399.6".to_owned()));
        let (auction, bridge) = (("order_hash", order.order_hash), ("intent_id", intent.intent_id));
        let kinds = [EventKind::OrderUpdate(Box::new(order)), EventKind::IntentUpdate(Box::new(intent))];
        let ends: Vec<Event> = (900..)
            .zip(kinds)
            .map(|(seq, kind)| Event { seq, at: 1_700_000_000_900, golem_id: GolemId::operator(), call_id: None, kind })
            .collect();
        let gas = |calls: Vec<Vec<Event>>| {
            let events: Vec<Event> = calls.into_iter().flatten().chain(ends.clone()).collect();
            let mut feed = Feed::default();
            events.iter().for_each(|event| feed.take(&Arc::new(event.clone())));
            let cells = |text: String| {
                let cell = |kind: &str| {
                    let row = text.lines().find(|row| row.split(',').nth(2) == Some(kind)).unwrap();
                    row.split(',').nth(9).unwrap().to_owned()
                };
                [cell("Auction"), cell("Bridge")]
            };
            let whole = cells(csv_of(events));
            assert_eq!(cells(csv(&feed)), whole, "the screen's export says the same");
            whole
        };
        let placed = order_call(10, "uniswap_submit_uniswapx_order", auction, &[Some("21000"), Some("9")]);
        let bridged = order_call(20, "uniswap_submit_cross_chain_intent", bridge, &[Some("70000")]);
        let asked = order_call(30, "uniswap_get_uniswapx_order_status", auction, &[]);
        let cancelled = order_call(40, "uniswapx_cancel_order", auction, &[Some("100")]);
        assert_eq!(gas(vec![placed.clone(), bridged.clone(), asked.clone()]), ["21009", "70000"]);
        assert_eq!(gas(vec![placed, bridged, cancelled]), ["21109", "70000"]);
        // An order under an allowance that stood already cost nothing; a receipt that is missing leaves it open.
        let free = order_call(10, "uniswap_submit_uniswapx_order", auction, &[]);
        let unclear = order_call(20, "uniswap_submit_cross_chain_intent", bridge, &[Some("70000"), None]);
        assert_eq!(gas(vec![free, unclear]), ["0", ""]);
        // Of an order that was placed before the recording nothing is known.
        assert_eq!(gas(vec![asked]), ["", ""]);
    }

    #[test]
    fn a_chain_that_was_named_by_its_id_stands_by_its_name() {
        let named = [("31337", "ethereum"), ("31338", "base"), ("42161", "arbitrum"), ("base", "base"), ("99", "99")];
        for (asked, name) in named {
            assert_eq!(chain_name(asked), name);
        }
    }

    #[test]
    fn a_signed_swap_is_a_row_and_a_rehearsed_one_is_none() {
        let mut feed = Feed::default();
        swap(&mut feed, 1, "USDC", true);
        swap(&mut feed, 11, "USDC", false);
        let text = csv(&feed);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0].split(',').count(), 13);
        let cells: Vec<&str> = lines[1].split(',').collect();
        assert_eq!(&cells[2..10], ["Swap", "ethereum", "0.25", "WETH", "848.123456", "USDC", "848.5", "21009"]);
        assert_eq!(cells[10], B256::repeat_byte(7).to_string());
        assert_eq!(cells[12], "done");
    }

    /// Its allowance is in a block, and the swap itself was blocked: nothing was sold.
    #[test]
    fn what_was_not_done_agrees_with_nothing() {
        let mut events = swap_events(1, "USDC", true);
        let verified = bardo_base::fabric::ToolVerified {
            expected_outcome: SafeText::clean("an allowance", 40),
            actual_outcome: SafeText::clean("an allowance", 40),
            ground_truth_source: "receipt".into(),
            matched: true,
            unfilled: false,
        };
        let about = Event { seq: events[2].seq + 1, kind: EventKind::ToolVerified(verified), ..events[2].clone() };
        let row = |events: &[Event]| csv_of(events.iter().cloned()).lines().last().unwrap().to_owned();
        events.push(about);
        assert!(row(&events).ends_with(",true,done"), "{}", row(&events));
        for event in &mut events {
            match &mut event.kind {
                EventKind::TxUpdate(update) => update.of = 2,
                EventKind::ToolEnd(end) => end.success = false,
                _ => {}
            }
        }
        let stopped = row(&events);
        assert!(stopped.ends_with(" after 1 of 2 transactions") && stopped.contains(",,"), "{stopped}");
        assert!(!stopped.contains("true"), "{stopped}");
    }

    #[test]
    fn nobodys_symbol_becomes_a_formula_or_a_column() {
        let mut feed = Feed::default();
        swap(&mut feed, 1, "=HYPERLINK(\"x\"),1", true);
        let text = csv(&feed);
        assert!(text.contains(",\"'=HYPERLINK(\"\"x\"\"),1\","), "{text}");
        assert_eq!(quoted("+1"), "'+1");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(quoted("plain 1.5"), "plain 1.5");
    }
}
