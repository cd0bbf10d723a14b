//! Tests of the feed under many events: every kept card is complete, and the limits are kept.

use serde_json::{Value, json};

use super::*;
use crate::widgets::samples;
use bardo_base::fabric::{
    ActionRecovered, DecayUnit, IntentStatus, OrderFill, OrderStatus, RecoveredEnd, RedactedParams, RequestRenewal,
    ResultCard, ToolEnd, ToolStart, ToolVerified, TxPlace, TxState, TxUpdate,
};
use bardo_base::id::GolemId;
use bardo_base::model::CardKind;

/// Events per call: start, step, three transaction updates, verification, end.
const EACH: u64 = 7;

fn events(call: u64) -> Vec<Arc<Event>> {
    let at = 1_700_000_000_000 + call * 10;
    let call_id = CallId::new(at);
    let tx = |state| {
        let hash = B256::repeat_byte(7);
        EventKind::TxUpdate(TxUpdate {
            chain_id: 31_337,
            hash,
            leg: 1,
            of: 1,
            state,
            block: Some(call),
            gas_cost_wei: None,
            purpose: None,
        })
    };
    let params = json!({ "token_in": "WETH", "token_out": "USDC", "amount": "0.25", "chain": "ethereum" });
    let kinds = [
        EventKind::ToolStart(ToolStart {
            tool_name: "uniswap_execute_swap".into(),
            params: RedactedParams::new(&params, &[]),
            params_hash: B256::ZERO,
            tick: None,
            facts: None,
        }),
        EventKind::ToolUpdate(bardo_base::fabric::ToolUpdate {
            step: bardo_base::text::SafeText::clean("Building calldata", 80),
            index: 3,
            of: 6,
        }),
        tx(TxState::Signed),
        tx(TxState::Sent),
        tx(TxState::Confirmed),
        EventKind::ToolVerified(ToolVerified {
            expected_outcome: SafeText::clean("a", 9),
            actual_outcome: SafeText::clean("a", 9),
            ground_truth_source: "receipt and balances".into(),
            matched: true,
            unfilled: false,
        }),
        EventKind::ToolEnd(ToolEnd {
            success: true,
            state: None,
            duration_ms: 9,
            result_summary: Value::Null,
            card: None,
        }),
    ];
    let event = |(place, kind)| {
        let seq = call * EACH + place;
        Arc::new(Event { seq, at, golem_id: GolemId::operator(), call_id: Some(call_id), kind })
    };
    (1..).zip(kinds).map(event).collect()
}

#[test]
fn many_events_lose_no_card_and_keep_no_more_than_there_may_be() {
    // A million events if `BARDO_LONG` is set; fewer show the same.
    let calls = if std::env::var_os("BARDO_LONG").is_some() { 1_000_000 / EACH } else { 20_000 };
    let mut feed = Feed::default();
    for call in 0..calls {
        events(call).iter().for_each(|event| feed.take(event));
    }
    assert_eq!(feed.counts.trades, calls);
    assert_eq!(feed.last, calls * EACH);
    assert_eq!(feed.calls.len(), CALLS_KEPT);
    assert!(feed.lines().count() <= LINES_KEPT);
    for (call, seen) in (calls - CALLS_KEPT as u64..).zip(&feed.calls) {
        assert_eq!(seen.started_at, 1_700_000_000_000 + call * 10, "in the order in which they came");
        assert_eq!((seen.standing(), seen.steps.len(), seen.transactions.len()), (CallStatus::Done, 1, 1));
        assert!(seen.card.is_some() && seen.verified.is_some() && seen.end().is_some());
    }
}

#[test]
fn an_event_that_comes_twice_or_late_changes_nothing() {
    let mut feed = Feed::default();
    let all: Vec<_> = (0..3).flat_map(events).collect();
    all.iter().for_each(|event| feed.take(event));
    let before = feed.clone();
    all.iter().rev().for_each(|event| feed.take(event));
    assert_eq!(feed, before);
}

#[test]
fn the_curve_has_a_point_every_few_seconds_and_the_newest() {
    let mut feed = Feed::default();
    for second in 0..60_u64 {
        let equity: Usd = format!("{}", 1_000 + second).parse().unwrap();
        let vitals = Vitals {
            phase: Phase::Thriving,
            why: SafeText::clean("nothing is wrong", 40),
            equity: Some(equity),
            high_water: None,
            drawdown_bps: Some(0),
            stop_loss_bps: 1_000,
            gas_runway_seconds: None,
            gas_wei: None,
            failures: 0,
            failures_limit: 3,
            age_seconds: second,
            lifespan_seconds: None,
            lending: None,
        };
        let golem_id = GolemId::operator();
        let at = second * 1_000;
        let kind = EventKind::Vitals(Box::new(vitals));
        feed.take(&Arc::new(Event { seq: second + 1, at, golem_id, call_id: None, kind }));
    }
    assert_eq!(feed.equity.back().map(|(at, _)| *at), Some(59_000));
    assert!((10..=20).contains(&feed.equity.len()), "{}", feed.equity.len());
}

#[test]
fn what_can_still_take_money_is_kept_however_much_has_ended() {
    let mut feed = Feed::default();
    let mut tell = |seq: u64, status| {
        let mut order = crate::widgets::samples::order(bardo_base::fabric::DecayUnit::Seconds);
        (order.order_hash, order.status) = (B256::from(alloy_primitives::U256::from(seq)), status);
        let at = 1_700_000_000_000 + seq;
        let kind = EventKind::OrderUpdate(Box::new(order));
        feed.take(&Arc::new(Event { seq, at, golem_id: GolemId::operator(), call_id: None, kind }));
    };
    // A thousand open orders first, then twice as many ended ones as are kept.
    (1..=1_000).for_each(|seq| tell(seq, OrderStatus::Open));
    let ended = 1_001..1_001 + 2 * ORDERS_KEPT as u64;
    ended.clone().for_each(|seq| tell(seq, OrderStatus::Filled));
    let open: Vec<B256> =
        feed.orders.iter().filter(|(_, one)| !one.status.is_final()).map(|(_, one)| one.order_hash).collect();
    assert_eq!(open, (1..=1_000).map(|seq| B256::from(alloy_primitives::U256::from(seq))).collect::<Vec<_>>());
    let past: Vec<u64> = feed.orders.iter().filter(|(_, one)| one.status.is_final()).map(|(at, _)| *at).collect();
    assert_eq!(past.len(), ORDERS_KEPT, "no more that have ended than there may be");
    assert_eq!(past.first(), Some(&(1_700_000_000_000 + ended.end - ORDERS_KEPT as u64)), "and the newest of them");
}

#[test]
fn an_update_that_names_no_call_reaches_the_card_that_placed_the_order() {
    let order = |number: u8, status| {
        let mut order = crate::widgets::samples::order(bardo_base::fabric::DecayUnit::Seconds);
        (order.order_hash, order.status) = (B256::repeat_byte(number), status);
        EventKind::OrderUpdate(Box::new(order))
    };
    // An id has a random part.
    let ids @ [first, second] = [CallId::new(1), CallId::new(2)];
    let mut feed = Feed::default();
    let mut tell = |call_id: Option<CallId>, kind: EventKind| {
        let seq = feed.last + 1;
        feed.take(&Arc::new(Event { seq, at: seq, golem_id: GolemId::operator(), call_id, kind }));
        let shown = ids.map(|id| match feed.call(id)?.card.as_ref()? {
            CallCard::Order(model) => Some(model.order.as_ref()?.status),
            _ => None,
        });
        (shown, feed.placed.len())
    };
    for id in ids {
        tell(Some(id), events(1)[0].kind.clone());
    }
    let (open, filled) = (Some(OrderStatus::Open), Some(OrderStatus::Filled));
    assert_eq!(tell(Some(first), order(1, OrderStatus::Open)), ([open, None], 1));
    assert_eq!(tell(Some(second), order(2, OrderStatus::Open)), ([open, open], 2));
    assert_eq!(tell(None, order(1, OrderStatus::Filled)), ([filled, open], 2));
    assert_eq!(
        tell(Some(first), order(2, OrderStatus::Filled)),
        ([filled, filled], 1),
        "both show the second order now"
    );
    // A call that is no longer kept shows nothing, and nothing remembers it.
    for call in 3..3 + CALLS_KEPT as u64 {
        tell(Some(CallId::new(call)), events(call)[0].kind.clone());
    }
    assert_eq!(tell(None, order(2, OrderStatus::Open)), ([None, None], 0));
}

/// Applies one event that belongs to no call.
fn told(feed: &mut Feed, at: u64, kind: EventKind) {
    let seq = feed.last + 1;
    feed.take(&Arc::new(Event { seq, at, golem_id: GolemId::operator(), call_id: None, kind }));
}

fn now(words: &str) -> EventKind {
    let text = |words: &str| SafeText::clean(words, 80);
    EventKind::GolemNow(GolemState { now: text(words), next: text(""), step: None, delegation: vec![] })
}

#[test]
fn a_line_of_the_show_stands_until_the_golem_goes_on_without_one() {
    let mut feed = Feed::default();
    let clean = |words: &str| SafeText::clean(words, 80);
    let caption = Caption { show: clean("tour"), text: clean("A quote."), at_seconds: 8 };
    told(&mut feed, 8_000, EventKind::Caption(caption));
    told(&mut feed, 8_010, now("Asking."));
    assert_eq!(feed.caption.as_ref().map(|caption| caption.text.as_str()), Some("A quote."));
    told(&mut feed, 38_000, now("Watching."));
    assert_eq!(feed.caption, None);
}

fn told_of(trades: &mut TradeCounter, call: CallId, kind: EventKind) -> bool {
    let call_id = Some(call);
    trades.take(&Event { seq: 1, at: 1, golem_id: GolemId::operator(), call_id, kind })
}

fn begun(tool: &'static str) -> EventKind {
    let params = RedactedParams::new(&Value::Null, &[]);
    EventKind::ToolStart(ToolStart { tool_name: tool.into(), params, params_hash: B256::ZERO, tick: None, facts: None })
}

fn agreed() -> EventKind {
    EventKind::ToolVerified(ToolVerified {
        expected_outcome: SafeText::clean("a", 9),
        actual_outcome: SafeText::clean("as declared", 20),
        ground_truth_source: "receipt and balances".into(),
        matched: true,
        unfilled: false,
    })
}

fn ended(success: bool, bps: i64) -> EventKind {
    let data = json!({ "slippage_actual_bps": bps });
    let card = Some(ResultCard { widget: CardKind::Swap, data, hints: None });
    EventKind::ToolEnd(ToolEnd { success, state: None, duration_ms: 1, result_summary: Value::Null, card })
}

#[test]
fn a_swap_is_a_trade_and_an_approval_is_none() {
    let mut trades = TradeCounter::default();
    let ids: Vec<CallId> = (0..6).map(CallId::new).collect();
    for tool in ["token_approve", "token_revoke", "uniswapx_cancel_order", "intent_refund"] {
        for kind in [begun(tool), agreed(), ended(true, 9)] {
            assert!(!told_of(&mut trades, ids[1], kind), "{tool}");
        }
    }
    assert_eq!(trades.count, 0);
    for (call, bps) in [(2, 4), (3, 9)] {
        assert!(
            !told_of(&mut trades, ids[call], begun("uniswap_execute_swap"))
                && !told_of(&mut trades, ids[call], agreed())
        );
        assert!(told_of(&mut trades, ids[call], ended(true, bps)));
    }
    // A call that was only simulated, and one that reverted, which the chain also reports on.
    for (call, seen, success) in [(4, false, true), (5, true, false)] {
        told_of(&mut trades, ids[call], begun("uniswap_execute_swap"));
        if seen {
            told_of(&mut trades, ids[call], agreed());
        }
        assert!(!told_of(&mut trades, ids[call], ended(success, 90)));
    }
    assert_eq!((trades.count, trades.average_short()), (2, Some(650)));
}

#[test]
fn an_auction_counts_when_it_is_filled_and_a_bridge_when_it_is_delivered_each_once() {
    let mut trades = TradeCounter::default();
    let ids: Vec<CallId> = (0..6).map(CallId::new).collect();
    let mut order = samples::order(DecayUnit::Seconds);
    // A swap that goes to auction first approves the token; that is not a trade.
    told_of(&mut trades, ids[1], begun("uniswap_execute_swap"));
    told_of(&mut trades, ids[1], agreed());
    assert!(!told_of(&mut trades, ids[1], EventKind::OrderUpdate(Box::new(order.clone()))));
    assert!(!told_of(&mut trades, ids[1], ended(true, 0)));
    order.status = OrderStatus::Filled;
    order.fill = Some(OrderFill {
        tx: TxPlace { chain_id: 31_337, hash: B256::repeat_byte(1), block: Some(1) },
        filler: alloy_primitives::Address::ZERO,
        name: None,
        amount_in: "0.5".to_owned(),
        amount_out: "1706.28".to_owned(),
        position: 1,
    });
    assert!(told_of(&mut trades, ids[1], EventKind::OrderUpdate(Box::new(order.clone()))));
    assert!(!told_of(&mut trades, ids[1], EventKind::OrderUpdate(Box::new(order))));
    let mut intent = samples::intent();
    assert!(!told_of(&mut trades, ids[2], EventKind::IntentUpdate(Box::new(intent.clone()))));
    intent.status = IntentStatus::Filled;
    // 499.31 were expected; 4.9931 less is 1 %.
    intent.amount_out = Some("494.3169".to_owned());
    assert!(told_of(&mut trades, ids[2], EventKind::IntentUpdate(Box::new(intent.clone()))));
    assert!(!told_of(&mut trades, ids[2], EventKind::IntentUpdate(Box::new(intent))));
    assert_eq!((trades.count, trades.average_short()), (2, Some(5_000)));
}

#[test]
fn a_history_draws_the_curve_of_worth_once_and_keeps_what_is_older_than_it() {
    let vitals = |seq: u64, at: u64| {
        let kind = EventKind::Vitals(Box::new(Vitals {
            phase: Phase::Thriving,
            why: SafeText::clean("fine", 9),
            equity: format!("{at}").parse().ok(),
            high_water: None,
            drawdown_bps: None,
            stop_loss_bps: 1,
            gas_runway_seconds: None,
            gas_wei: None,
            failures: 0,
            failures_limit: 3,
            age_seconds: 0,
            lifespan_seconds: None,
            lending: None,
        }));
        Arc::new(Event { seq, at, golem_id: GolemId::operator(), call_id: None, kind })
    };
    let all: Vec<_> = (1..=6).map(|number| vitals(number, number * 10_000)).collect();
    let mut feed = Feed::default();
    all.iter().for_each(|event| feed.take(event));
    // The ring has dropped the first two events.
    feed.take_history(&all[2..], 6);
    let times: Vec<u64> = feed.equity.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [10_000, 20_000, 30_000, 40_000, 50_000, 60_000]);
}

#[test]
fn that_events_were_missed_is_told_at_once_and_stays_told_when_they_are_looked_up() {
    let mut feed = Feed::default();
    let words = |feed: &Feed| {
        let told = feed.lines_from(LogLevel::Plain).map(|line| (line.seq, line.kind, line.text.to_string()));
        told.collect::<Vec<_>>()
    };
    let phase = |seq: u64| {
        let kind = EventKind::PhaseChanged(bardo_base::fabric::PhaseChanged {
            from: Phase::Thriving,
            to: Phase::Thriving,
            why: SafeText::clean("a look", 20),
        });
        Arc::new(Event { seq, at: seq * 1_000, golem_id: GolemId::operator(), call_id: None, kind })
    };
    let gap = |seq: u64, missed: u64| {
        let kind = EventKind::FabricGap(bardo_base::fabric::FabricGap { missed, first: seq + 1 - missed });
        Arc::new(Event { seq, at: seq * 1_000, golem_id: GolemId::operator(), call_id: None, kind })
    };
    feed.take(&phase(1));
    // The gap has the number of the last missed event.
    feed.take(&gap(4, 3));
    assert_eq!(feed.missed, 3);
    let missed = (4, "fabric:gap", "screen missed 3 events (nothing lost)".to_owned());
    assert_eq!(words(&feed).first(), Some(&missed));
    feed.take(&phase(5));
    feed.take_history(&(1..=5).map(phase).collect::<Vec<_>>(), 5);
    assert_eq!(feed.missed, 0);
    let told = words(&feed);
    assert_eq!(told.iter().map(|line| line.0).collect::<Vec<_>>(), [5, 4, 4, 3, 2, 1]);
    assert_eq!(told.get(1), Some(&missed), "right behind the last that was missed");
}

#[test]
fn what_was_remembered_is_forgotten_with_the_next_thing_that_is_done() {
    let mut feed = Feed::default();
    let tell = |feed: &mut Feed, kind| {
        let seq = feed.last + 1;
        feed.take(&Arc::new(Event { seq, at: 1, golem_id: GolemId::operator(), call_id: None, kind }));
    };
    tell(&mut feed, EventKind::MemoryHits(MemoryHits { similar: 3, changes: Vec::new() }));
    assert_eq!(feed.memory.as_ref().map(|memory| memory.similar), Some(3));
    let text = |text: &str| SafeText::clean(text, 40);
    let now = GolemState { now: text("Looking."), next: text(""), step: None, delegation: Vec::new() };
    tell(&mut feed, EventKind::GolemNow(now));
    assert_eq!(feed.memory, None);
}

#[test]
fn a_day_of_points_is_kept_from_its_beginning_and_the_newest_are_kept_whole() {
    let mut feed = Feed::default();
    let day = 86_400_000;
    let points = day / PRICE_MILLIS;
    for at in 0..points {
        feed.take_price(at * PRICE_MILLIS, Decimal::from(at));
    }
    assert!(feed.prices.len() <= POINTS_KEPT, "{}", feed.prices.len());
    assert_eq!(feed.prices.front().map(|(at, _)| *at), Some(0), "the day's first is there");
    assert_eq!(feed.prices.back().map(|(at, _)| *at), Some((points - 1) * PRICE_MILLIS));
    let times: Vec<u64> = feed.prices.iter().map(|(at, _)| *at).collect();
    assert!(times.is_sorted());
    // The last quarter of an hour keeps all of its points, and every hour of the day keeps some.
    let quarter = times.iter().filter(|at| **at >= day - 900_000).count();
    assert_eq!(quarter as u64, 900_000 / PRICE_MILLIS);
    for hour in 0..24_u64 {
        let range = hour * 3_600_000..(hour + 1) * 3_600_000;
        let kept = times.iter().filter(|at| range.contains(*at)).count();
        assert!(kept >= 15, "hour {hour}: {kept}");
    }
}

fn event_of(seq: u64, call: u64, kind: EventKind) -> Arc<Event> {
    let (at, golem_id) = (1_700_000_000_000 + seq, GolemId::operator());
    Arc::new(Event { seq, at, golem_id, call_id: Some(numbered(call)), kind })
}

/// Call id that sorts by its number.
fn numbered(call: u64) -> CallId {
    format!("01HF7YAT02{call:016}").parse().unwrap()
}

fn started(tool: &'static str, params: &Value) -> EventKind {
    let (params, params_hash) = (RedactedParams::new(params, &[]), B256::ZERO);
    EventKind::ToolStart(ToolStart { tool_name: tool.into(), params, params_hash, tick: None, facts: None })
}

fn over(success: bool, card: Option<ResultCard>) -> EventKind {
    EventKind::ToolEnd(ToolEnd { success, state: None, duration_ms: 9, result_summary: Value::Null, card })
}

fn failed(code: ErrorCode) -> EventKind {
    let error_message = SafeText::clean("why", 9);
    EventKind::ToolError(bardo_base::fabric::ToolFailed { error_code: code, error_message, checks: None })
}

/// A cancellation's response names the order and does not describe it: the card shows the response, instead of an order
/// that is still being signed.
#[test]
fn a_finished_cancellation_or_refund_shows_its_result() {
    for (tool, widget) in [("uniswapx_cancel_order", CardKind::Order), ("intent_refund", CardKind::CrossChain)] {
        let mut feed = Feed::default();
        let data = json!({ "status": "done", "tx_hash": format!("0x{}", "11".repeat(32)) });
        feed.take(&event_of(1, 1, started(tool, &json!({ "order_hash": format!("0x{}", "22".repeat(32)) }))));
        feed.take(&event_of(2, 1, over(true, Some(ResultCard { widget, data, hints: None }))));
        let card = feed.activity().next().and_then(|call| call.card.clone());
        assert!(matches!(card, Some(CallCard::Plain(_))), "{tool}: {card:?}");
    }
}

#[test]
fn what_asks_how_an_order_stands_is_told_in_the_row_of_that_order() {
    let mut feed = Feed::default();
    let order = samples::order(DecayUnit::Seconds);
    let asks = json!({ "order_hash": order.order_hash.to_string() });
    let card = || Some(ResultCard { widget: CardKind::Order, data: json!({}), hints: None });
    // Queried before its own row is known, as by another process: the newest query is its row.
    for (seq, call) in [(1, 1), (3, 2)] {
        feed.take(&event_of(seq, call, started("uniswap_get_uniswapx_order_status", &asks)));
        feed.take(&event_of(seq + 1, call, over(true, card())));
    }
    let rows: Vec<CallId> = feed.activity().map(|call| call.call_id).collect();
    assert_eq!(rows, [numbered(2)]);
    // Placed here: one row, which shows the result of every query.
    let params = json!({ "token_in": "WETH", "token_out": "USDC", "amount": "0.5", "chain": "ethereum" });
    feed.take(&event_of(10, 10, started("uniswap_submit_uniswapx_order", &params)));
    feed.take(&event_of(11, 10, EventKind::OrderUpdate(Box::new(order.clone()))));
    feed.take(&event_of(12, 10, over(true, card())));
    for call in 20..40 {
        feed.take(&event_of(call * 10, call, started("uniswap_get_uniswapx_order_status", &asks)));
        let status = if call == 39 { OrderStatus::Expired } else { OrderStatus::Open };
        let update = bardo_base::fabric::OrderUpdate { status, ..order.clone() };
        feed.take(&event_of(call * 10 + 1, call, EventKind::OrderUpdate(Box::new(update))));
        feed.take(&event_of(call * 10 + 2, call, over(true, card())));
    }
    let rows: Vec<&CallSeen> = feed.activity().collect();
    assert_eq!(rows.iter().map(|call| call.tool()).collect::<Vec<_>>(), ["uniswap_submit_uniswapx_order"]);
    let Some(CallCard::Order(model)) = &rows[0].card else { panic!("{:?}", rows[0].card) };
    assert_eq!(model.order.as_ref().unwrap().status, OrderStatus::Expired);
    // A query of another order keeps its row.
    let other = json!({ "order_hash": B256::repeat_byte(0x77).to_string() });
    feed.take(&event_of(900, 90, started("uniswap_get_uniswapx_order_status", &other)));
    feed.take(&event_of(901, 90, failed(ErrorCode::ValidationFailed)));
    assert_eq!(feed.activity().count(), 2);
}

#[test]
fn a_quote_that_a_form_asks_for_is_no_activity_and_half_a_form_is_no_failure() {
    let typed = json!({ "token_in": "WETH", "token_out": "U", "amount": "0.2", "chain": "ethereum" });
    for known_before in [true, false] {
        let mut feed = Feed::default();
        let call_id = numbered(1);
        if known_before {
            feed.set_aside(call_id);
        }
        feed.take(&event_of(1, 1, started("uniswap_get_quote", &typed)));
        feed.take(&event_of(2, 1, failed(ErrorCode::ValidationFailed)));
        feed.take(&event_of(3, 1, over(false, None)));
        if !known_before {
            feed.set_aside(call_id);
        }
        assert_eq!((feed.activity().count(), feed.counts.failed), (0, 0), "{known_before}");
        // The same call from anyone else counts as a failure.
        feed.take(&event_of(4, 2, started("uniswap_get_quote", &typed)));
        feed.take(&event_of(5, 2, failed(ErrorCode::ValidationFailed)));
        feed.take(&event_of(6, 2, over(false, None)));
        assert_eq!((feed.activity().count(), feed.counts.failed), (1, 1));
    }
}

#[test]
fn a_call_counts_as_blocked_where_its_card_says_so() {
    for code in [ErrorCode::Halted, ErrorCode::ApprovalRequired, ErrorCode::SafetySimulationFailed] {
        let mut feed = Feed::default();
        feed.take(&event_of(1, 1, started("uniswap_execute_swap", &json!({}))));
        feed.take(&event_of(2, 1, failed(code)));
        feed.take(&event_of(3, 1, over(false, None)));
        assert_eq!((feed.calls[0].standing(), feed.counts.blocked), (CallStatus::Blocked, 1), "{code}");
    }
}

/// Offer of a swap, with the amounts that its simulation moves.
fn offered(is_order: bool) -> EventKind {
    let text = |words: &str| SafeText::clean(words, 80);
    let change = |symbol: &str, change: &str| bardo_base::fabric::SimulatedChange {
        symbol: text(symbol),
        address: None,
        change: text(change),
        before: text("40"),
        after: text("3.5013"),
        gas: false,
    };
    EventKind::PermitIssued(bardo_base::fabric::PermitIssued {
        permit_id: bardo_base::id::PermitId::random(),
        simulation_hash: B256::ZERO,
        expected_outcome: text("Swap 36.4987 UNI for >= 284.5 USDC"),
        expires_at: 1_700_000_060_000,
        notify: false,
        changes: vec![change("UNI", "-36.4987"), change("USDC", "+286.78")],
        least_out: Some(bardo_base::fabric::LeastOut { amount: text("284.5"), symbol: text("USDC") }),
        leaves_usd: Some("286.78".parse().unwrap()),
        is_order,
    })
}

/// Everything on a card at a moment, as text.
fn card_text(call: &CallSeen) -> String {
    use crate::widgets::CardView as _;
    let now = crate::widgets::Moment { millis: 1_700_000_003_000, motion: true };
    let card = call.card.as_ref().unwrap();
    let title = card.title(now);
    let mut all: Vec<String> = title.left.iter().chain(&title.right).map(|(text, _)| text.clone()).collect();
    for row in card.short(now) {
        all.extend(row.left.iter().chain(&row.right).map(|(text, _)| text.clone()));
    }
    all.concat()
}

#[test]
fn an_offer_that_nobody_took_runs_nothing_and_is_no_failure() {
    let whole = json!({ "token_in": "UNI", "token_out": "USDC", "amount": "max", "chain": "ethereum" });
    for code in [ErrorCode::PermitExpired, ErrorCode::ToolCancelled] {
        let mut feed = Feed::default();
        feed.take(&event_of(1, 1, started("uniswap_execute_swap", &whole)));
        assert!(!feed.calls[0].is_offer() && card_text(&feed.calls[0]).contains("max UNI"));
        feed.take(&event_of(2, 1, offered(false)));
        let shown = card_text(&feed.calls[0]);
        assert!(feed.calls[0].is_offer() && shown.contains("≈ offer, 0:57 left: not signed"), "{shown}");
        // What "max" is, as simulated.
        assert!(shown.contains("Swap 36.4987 UNI → USDC") && !shown.contains("max"), "{shown}");
        feed.take(&event_of(3, 1, failed(code)));
        feed.take(&event_of(4, 1, over(false, None)));
        let counts = &feed.counts;
        assert_eq!((counts.blocked, counts.failed, counts.lapsed), (0, 0, 0), "{code}");
        assert_eq!((feed.calls[0].standing(), feed.calls[0].is_offer()), (CallStatus::NotDone, false), "{code}");
    }
}

#[test]
fn an_auction_that_waits_shows_what_it_pays_and_gets_at_least() {
    let mut feed = Feed::default();
    let sold = json!({ "token_in": "UNI", "token_out": "USDC", "amount": "36.4987", "chain": "ethereum" });
    feed.take(&event_of(1, 1, started("uniswap_execute_swap", &sold)));
    feed.take(&event_of(2, 1, offered(true)));
    let asked = bardo_base::fabric::ApprovalRequested {
        permit_id: bardo_base::id::PermitId::random(),
        title: SafeText::clean("Auction", 20),
        reasons: Vec::new(),
        lapses_at: 1_700_000_060_000,
        passes_by_itself: false,
        renewal: None,
    };
    feed.take(&event_of(3, 1, EventKind::ApprovalRequested(asked)));
    let shown = card_text(&feed.calls[0]);
    for words in ["WAITS FOR YOU", "pay 36.4987 UNI $286.78", "get at least 284.5 USDC", "offer 0:57 left"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn an_action_of_an_ended_process_has_its_name_and_its_end() {
    for (end, shown, open) in [
        (None, CallStatus::Running, true),
        (Some(RecoveredEnd::Done), CallStatus::Done, false),
        (Some(RecoveredEnd::Partly), CallStatus::NotDone, false),
        (Some(RecoveredEnd::Failed), CallStatus::Failed, false),
        (Some(RecoveredEnd::Unclear), CallStatus::Unclear, false),
    ] {
        let mut feed = Feed::default();
        let update = TxUpdate {
            chain_id: 31_337,
            hash: B256::repeat_byte(7),
            leg: 2,
            of: 2,
            state: TxState::Confirmed,
            block: Some(9),
            gas_cost_wei: None,
            purpose: None,
        };
        feed.take(&event_of(1, 1, EventKind::TxUpdate(update)));
        let tool = Some(SafeText::clean("uniswap_execute_swap", 40));
        feed.take(&event_of(2, 1, EventKind::ActionRecovered(ActionRecovered { tool, end })));
        let call = &feed.calls[0];
        assert_eq!((call.tool(), call.standing(), call.standing().is_open()), ("uniswap_execute_swap", shown, open));
    }
}

#[test]
fn a_request_that_is_simulated_again_is_no_news_unless_something_became_worse() {
    let mut feed = Feed::default();
    let sold = json!({ "token_in": "UNI", "token_out": "USDC", "amount": "36.4987", "chain": "ethereum" });
    feed.take(&event_of(1, 1, started("uniswap_execute_swap", &sold)));
    let asked = |renewal| {
        EventKind::ApprovalRequested(bardo_base::fabric::ApprovalRequested {
            permit_id: bardo_base::id::PermitId::random(),
            title: SafeText::clean("Auction", 20),
            reasons: Vec::new(),
            lapses_at: 1_700_000_060_000,
            passes_by_itself: false,
            renewal,
        })
    };
    let waits = || now("Selling UNI: it waits for you.");
    for (seq, kind) in [
        (2, offered(true)),
        (3, asked(None)),
        (4, waits()),
        (5, offered(true)),
        (6, asked(Some(RequestRenewal::AsGood))),
        (7, waits()),
        (8, offered(true)),
        (9, asked(Some(RequestRenewal::Worse))),
    ] {
        feed.take(&event_of(seq, 1, kind));
    }
    let told: Vec<u64> = feed.lines().filter(|line| line.level > LogLevel::Detail).map(|line| line.seq).collect();
    assert_eq!(told, [2, 3, 4, 9]);
    assert!(feed.lines().next_back().is_some_and(|line| line.text.as_str().starts_with("changed for the worse")));
}

#[test]
fn a_report_of_the_program_is_not_among_the_agents_thoughts() {
    let mut feed = Feed::default();
    for (seq, report) in [(1, false), (2, true)] {
        let text = SafeText::clean("Sold all UNI on ethereum.", 80);
        let said = GolemThought { thought: 0, text, more: false, report };
        feed.take(&event_of(seq, 1, EventKind::GolemThought(said)));
    }
    assert_eq!((feed.thoughts.len(), feed.lines().count()), (1, 2));
}
