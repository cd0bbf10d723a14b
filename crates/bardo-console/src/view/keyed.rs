//! Tests of named keys: every drawn key acts where it is drawn, and a screen handles every key that its help lists.

use std::collections::BTreeSet;

use alloy_primitives::{Address, U256};
use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::buffer::Buffer;
use serde_json::{Value, json};

use super::pictures::{asked, lively};
use super::tests::{drawn, news, running, text};
use super::text_tests::{snapshot, start, tell};
use crate::keymap::{Action, Context, Key, help_on};
use crate::painter::Painter;
use crate::screens::{
    CommandReply, ScreenId, sample_agents, sample_custody, sample_pools, sample_positions, sample_tool, ticket,
};
use crate::state::{Effect, Input, Layer, State};
use crate::theme::{Role, Theme};
use crate::widgets::samples;
use bardo_base::fabric::{DecayUnit, EventKind, ResultCard, ToolEnd, TxState, TxUpdate};
use bardo_base::id::CallId;
use bardo_base::model::{CapabilityTier, CardKind};
use bardo_session::handle::{
    AddressedCommand, AllowanceState, AuditEntry, GrantState, QueryResult, SessionCommand, SessionNews,
};
use bardo_session::market::{FeedPrice, MoneyKind, TokenRow};

fn press(state: &mut State, key: Key) -> Vec<Effect> {
    state.update(Input::Time(state.clock.now_millis + 1_000));
    state.update(Input::Key(key))
}

/// Words drawn in the role of keys.
fn named(state: &State) -> BTreeSet<String> {
    let (theme, area) = (Theme::role_colours(), state.area());
    let mut buffer = Buffer::empty(area);
    let mut painter = Painter { buffer: &mut buffer, theme: &theme };
    match state.display.layers.last() {
        Some(top) => super::layer(&mut painter, state, top, super::over(area)),
        None => super::page(&mut painter, state, area),
    }
    let key = theme.style(Role::Key).fg;
    let mut words = BTreeSet::new();
    for row in buffer.content.chunks(usize::from(area.width)) {
        let told: String = row.iter().map(|cell| if Some(cell.fg) == key { cell.symbol() } else { " " }).collect();
        words.extend(told.split_whitespace().map(str::to_owned));
    }
    words
}

/// Drawn keys that have no effect in their context.
fn lies(state: &State) -> Vec<String> {
    let context = state.context();
    let does = |key: Key| match state.options.keys.action(context, key) {
        Some(action) => context != Context::Page || state.display.screen.does(action),
        None => false,
    };
    // Marks of a selection and the brackets of a button have the same role.
    let key = |word: &str| match word {
        "←" => Some(Key::plain(KeyCode::Left)),
        "→" => Some(Key::plain(KeyCode::Right)),
        word => Key::named(word),
    };
    let keys = named(state).into_iter().filter_map(|word| Some((key(&word)?, word)));
    keys.filter(|(key, word)| !matches!(word.as_str(), "▸" | "▏" | "[" | "]") && !does(*key))
        .map(|(_, word)| word)
        .collect()
}

/// Console with content on every screen.
fn full(width: u16, height: u16) -> State {
    let mut state = lively(width, height);
    news(&mut state, asked());
    let tool = |name: &str, capability| sample_tool(name, capability);
    if let Some(ready) = &mut state.session.ready {
        ready.tools = vec![
            tool("get_balances", CapabilityTier::Read),
            tool("uniswap_get_quote", CapabilityTier::Read),
            tool("uniswap_execute_swap", CapabilityTier::Write),
            tool("uniswapx_cancel_order", CapabilityTier::Write),
            tool("intent_refund", CapabilityTier::Write),
        ];
        // More rows than a page has lines.
        ready.tools[0].output_schema = json!({ "properties": (0..60)
            .map(|at| (format!("field_{at}"), json!({"type": "string"})))
            .collect::<serde_json::Map<_, _>>() });
    }
    let mut with = state.session.snapshot.as_deref().cloned().unwrap_or_else(snapshot);
    let allowance = |seed| AllowanceState {
        chain: text("ethereum"),
        chain_id: 31_337,
        symbol: text("WETH"),
        token: Address::repeat_byte(seed),
        spender: Address::repeat_byte(0xa3),
        label: None,
        through_permit2: false,
        raw: U256::from(7),
        amount: None,
        unlimited: false,
        expires_at: None,
        promised: None,
    };
    with.allowances.rows = (1..40).map(allowance).collect();
    let held = with.holdings[0].rows[0].clone();
    with.holdings[0].rows.extend((0..40).map(|_| held.clone()));
    with.grants = vec![GrantState {
        number: 1,
        golem_id: "ada".parse().unwrap(),
        tool: text("uniswap_execute_swap"),
        tokens: vec![text("WETH")],
        chain_id: 31_337,
        recipients: Vec::new(),
        granted: None,
        left: "100".parse().unwrap(),
        lasts_millis: 60_000,
    }];
    news(&mut state, SessionNews::Snapshot(std::sync::Arc::new(with)));
    let entry = |seq| AuditEntry {
        seq,
        at: samples::START_MILLIS,
        kind: text("permit:issued"),
        call_id: None,
        golem_id: text("ada"),
        body: Value::Null,
        hash: alloy_primitives::B256::ZERO,
    };
    let found = Box::new(QueryResult::Audit { entries: (1..60).map(entry).collect() });
    news(&mut state, SessionNews::Found { ticket: ticket(ScreenId::Audit, 1), found });
    state.session.feed.orders.insert(samples::START_MILLIS, samples::order(DecayUnit::Seconds));
    let mut late = samples::intent();
    (late.status, late.refund_from) = (bardo_base::fabric::IntentStatus::Expired, None);
    state.session.feed.intents.insert(samples::START_MILLIS, late);
    state.display.notice = None;
    state
}

#[test]
fn whatever_is_drawn_as_a_key_does_something_where_it_is_drawn() {
    for (width, height) in [(60, 24), (80, 24), (120, 40), (200, 50)] {
        for screen in ScreenId::ALL {
            let mut state = full(width, height);
            press(&mut state, Key::char(screen.key()));
            for key in ["j", "z", "z", "j"] {
                assert_eq!(lies(&state), Vec::<String>::new(), "{screen:?}\n{}", drawn(&state).join("\n"));
                press(&mut state, Key::named(key).unwrap());
            }
        }
        // The details of each call, with its card.
        let state = full(width, height);
        let calls: Vec<CallId> = state.session.feed.calls.iter().map(|call| call.call_id).collect();
        assert!(calls.len() >= 4);
        for call in calls {
            let mut state = full(width, height);
            state.display.layers.push(Layer::CallDetails(Box::new(crate::state::call_details::CallDetails::new(call))));
            assert_eq!(lies(&state), Vec::<String>::new(), "{}", drawn(&state).join("\n"));
        }
    }
}

#[test]
fn a_card_that_names_keys_names_them_only_where_they_are_bound() {
    // Shows that the check above can fail: on Logs there is no explorer key.
    let mut state = full(120, 40);
    press(&mut state, Key::char('8'));
    assert!(!state.display.screen.does(Action::Explorer));
    press(&mut state, Key::char('3'));
    assert!(named(&state).contains("x"), "an open order can be cancelled from its card\n{}", drawn(&state).join("\n"));
    // With the focus on Events, Enter opens the log, so the card does not claim it.
    let mut state = full(120, 40);
    assert!(drawn(&state).join("\n").contains("Enter opens"));
    for _ in 0..3 {
        press(&mut state, Key::plain(KeyCode::Tab));
    }
    assert!(!drawn(&state).join("\n").contains("Enter opens"));
}

#[test]
fn with_nothing_chosen_the_keys_of_live_are_about_the_card_that_is_drawn() {
    let mut state = lively(120, 40);
    let hash = alloy_primitives::B256::repeat_byte(0x8c).to_string();
    assert_eq!(press(&mut state, Key::char('y')), [Effect::Copy(hash.clone())]);
    press(&mut state, Key::char('o'));
    assert_eq!(state.display.notice, Some(text(&format!("bardo://tx/{hash}"))), "a devnet's has no page elsewhere");
    let Some(Layer::CallDetails(call_details)) = state.display.layers.last() else {
        panic!("{:?}", state.display.layers)
    };
    let shown = state.session.feed.call(call_details.call_id).unwrap();
    assert_eq!(shown.tool(), "uniswap_execute_swap");
    // A selected call is the one that the keys act on.
    let mut state = lively(120, 40);
    for _ in 0..2 {
        press(&mut state, Key::char('j'));
    }
    assert_ne!(press(&mut state, Key::char('y')), [Effect::Copy(hash)]);
}

/// Console on a network with this kind of money, with a transaction sent on `chain_id`.
fn sent(money: MoneyKind, chain_id: u64) -> State {
    let mut state = running(120, 40, &text("Selling."));
    if let Some(network) = &mut state.session.page.network {
        network.money = money;
    }
    let hash = alloy_primitives::B256::repeat_byte(0x8c);
    let tx = TxUpdate {
        chain_id,
        hash,
        leg: 1,
        of: 1,
        state: TxState::Sent,
        block: None,
        gas_cost_wei: None,
        purpose: None,
    };
    let events = vec![start("uniswap_execute_swap", samples::swap_params()), EventKind::TxUpdate(tx)];
    tell(&mut state, Some(CallId::new(1)), events);
    state
}

#[test]
fn a_transaction_is_looked_at_on_its_networks_explorer_and_a_devnets_here() {
    let hash = "0x8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c8c";
    for (money, chain, link) in [
        (MoneyKind::Real, 1, format!("https://etherscan.io/tx/{hash}")),
        (MoneyKind::Real, 8_453, format!("https://basescan.org/tx/{hash}")),
        (MoneyKind::Test, 11_155_111, format!("https://sepolia.etherscan.io/tx/{hash}")),
    ] {
        let mut state = sent(money, chain);
        assert_eq!(press(&mut state, Key::char('o')), [Effect::Copy(link.clone())]);
        assert_eq!(state.display.notice, Some(text(&link)));
        // The details show the full address, and the key is the same.
        press(&mut state, Key::plain(KeyCode::Enter));
        assert!(drawn(&state).join("\n").contains(&link), "{}", drawn(&state).join("\n"));
        assert_eq!(press(&mut state, Key::char('o')), [Effect::Copy(link)]);
    }
    // A devnet can copy a public chain, chain id included. Its transactions are in no explorer.
    for chain in [31_337, 1] {
        let mut state = sent(MoneyKind::Play, chain);
        assert!(press(&mut state, Key::char('o')).iter().all(|effect| !matches!(effect, Effect::Copy(_))));
        assert_eq!(state.display.notice, Some(text(&format!("bardo://tx/{hash}"))));
    }
}

/// Returns true if a key has a visible effect or emits an effect.
fn changes(state: &mut State, key: Key) -> bool {
    let before = (drawn(state), state.display.screen, state.display.layers.clone(), state.display.prompt.clone());
    let effects = state.update(Input::Key(key));
    let after = (drawn(state), state.display.screen, state.display.layers.clone(), state.display.prompt.clone());
    !effects.is_empty() || before != after
}

/// Keys pressed before a tested key, so that it has something to act on.
const BEFORE: &[&str] = &[
    "",
    "j",
    "Tab",
    "Tab j",
    "Tab Tab",
    "Tab Tab j",
    "Tab Tab Tab",
    "Shift-Tab",
    "Shift-Tab j",
    "]",
    "Ctrl-D",
    "z",
    "j j j",
    "G",
    "/ e Enter",
    "/ e Enter j",
    "Tab / e Enter",
];

/// Answers the reads of a screen until it asks for nothing more.
fn answered(state: &mut State, mut effects: Vec<Effect>, reply: &dyn Fn(&str, &Value) -> CommandReply) {
    while let Some(effect) = effects.pop() {
        let Effect::Send(AddressedCommand { command: SessionCommand::Call { ticket, tool, params, .. }, .. }) = effect
        else {
            continue;
        };
        let CommandReply::Reply(response) = reply(&tool, &params) else { panic!("no reply to {tool}") };
        effects.extend(state.update(Input::News(Box::new(SessionNews::Reply { ticket, response }))));
    }
}

/// Console on a screen that has what its keys act on.
fn full_on(screen: ScreenId) -> State {
    // An agent's card scrolls only where it has too little room.
    let (columns, rows) = if screen == ScreenId::Agents { (80, 10) } else { (120, 44) };
    let mut state = full(columns, rows);
    if screen == ScreenId::Pools {
        let token = |symbol: &str| TokenRow {
            symbol: text(symbol),
            address: Address::repeat_byte(1),
            price: FeedPrice::None(text("no feed")),
        };
        for chain in &mut state.session.page.chains {
            chain.tokens = vec![token("WETH"), token("USDC")];
        }
    }
    let effects = press(&mut state, Key::char(screen.key()));
    if screen == ScreenId::Positions {
        answered(&mut state, effects, &sample_positions);
    } else if screen == ScreenId::Pools {
        answered(&mut state, effects, &sample_pools);
    } else if screen == ScreenId::Custody {
        answered(&mut state, effects, &sample_custody);
    }
    if screen == ScreenId::Agents {
        let CommandReply::Reply(response) = sample_agents("one") else { panic!("no reply") };
        news(&mut state, SessionNews::Reply { ticket: ticket(screen, 1), response });
    }
    state
}

#[test]
fn every_key_that_the_help_of_a_screen_lists_does_something_there() {
    for screen in ScreenId::ALL {
        let rows: Vec<(Key, Action)> = {
            full_on(screen)
                .rows(Context::Page)
                .filter(|row| row.context == Context::Page)
                .map(|row| (row.keys[0], row.action))
                .collect()
        };
        for (key, action) in rows {
            // Going to the current screen, and back from nothing, has no effect.
            if matches!(action, Action::Back) || action == Action::GoTo(screen) {
                continue;
            }
            let done = BEFORE.iter().any(|keys| {
                let mut state = full_on(screen);
                for one in keys.split_whitespace() {
                    press(&mut state, Key::named(one).unwrap());
                }
                state.update(Input::Time(state.clock.now_millis + 60_000));
                state.display.notice = None;
                changes(&mut state, key)
            });
            assert!(done, "{screen:?}: {key} ({action:?}), {:?}", help_on(screen, action));
        }
    }
}

/// The last of five pages of positions can be reached, and stays selected when all are read again.
#[test]
fn five_hundred_positions_are_listed_to_the_last() {
    let mut state = full(120, 40);
    let reply = |tool: &str, params: &Value| {
        let CommandReply::Reply(mut response) = sample_positions(tool, params) else { panic!("no reply") };
        if tool == "list_positions" && response.error.is_none() {
            let offset = params["offset"].as_u64().unwrap();
            let entry =
                |at: u64| samples::positions::position("WETH", &(1_000 + offset + at).to_string(), -196_000, "open");
            let next = (offset < 400).then_some(offset + 100);
            response.data = Some(samples::positions::positions_reply((0..100).map(entry).collect(), next, 500, 0));
        }
        CommandReply::Reply(response)
    };
    let effects = press(&mut state, Key::char('i'));
    answered(&mut state, effects, &reply);
    press(&mut state, Key::char('G'));
    let shown = drawn(&state).join("\n");
    assert!(shown.contains("V3 #1499") && shown.contains("–504 of 504"), "{shown}");
    let effects = press(&mut state, Key::char('f'));
    answered(&mut state, effects, &reply);
    assert!(drawn(&state).join("\n").contains("▸● V3 #1499"));
}

#[test]
fn no_screen_does_what_its_help_does_not_list() {
    for screen in ScreenId::ALL {
        let state = full(120, 44);
        let hidden: Vec<(Key, Action)> = state
            .options
            .keys
            .rows(Context::Page)
            .filter(|row| row.context == Context::Page && !screen.does(row.action))
            .map(|row| (row.keys[0], row.action))
            .collect();
        for (key, action) in hidden {
            for keys in BEFORE {
                let mut state = full(120, 44);
                press(&mut state, Key::char(screen.key()));
                for one in keys.split_whitespace() {
                    press(&mut state, Key::named(one).unwrap());
                }
                // In a focused form, letters are text.
                if state.display.screens.get(screen).is_some_and(|view| view.accepts_text()) {
                    continue;
                }
                state.update(Input::Time(state.clock.now_millis + 60_000));
                state.display.notice = None;
                assert!(!changes(&mut state, key), "{screen:?} after `{keys}`: {key} ({action:?})");
            }
        }
    }
}

#[test]
fn the_help_says_what_a_key_does_on_this_screen() {
    let told = |screen: char| {
        let mut state = full(120, 60);
        press(&mut state, Key::char(screen));
        press(&mut state, Key::char('?'));
        drawn(&state).join("\n")
    };
    assert!(told('5').contains("v             verify that the audit log is intact"));
    assert!(told('8').contains("[             more lines: also lower levels"));
    assert!(told('1').contains("z             show only this panel, or all"));
    assert!(told('4').contains("[             a shorter time range"));
    assert!(!told('2').contains("/             filter"), "a form has nothing to narrow");
}

#[test]
fn the_open_orders_are_listed_on_a_hold_and_on_leaving() {
    let control = |letter| Key { code: KeyCode::Char(letter), modifiers: KeyModifiers::CONTROL };
    for letter in ['x', 'c'] {
        let mut state = full(120, 40);
        press(&mut state, control(letter));
        let shown = drawn(&state).join("\n");
        for words in
            ["auction 0.5 WETH → USDC can still fill, order 0x", "bridge 500 USDC ethereum → base is in progress"]
        {
            assert!(shown.contains(words), "{words}\n{shown}");
        }
        // Items without room are counted.
        let mut state = full(80, 24);
        for at in 0..40 {
            let mut order = samples::order(DecayUnit::Seconds);
            order.order_hash = alloy_primitives::B256::repeat_byte(at);
            state.session.feed.orders.insert(samples::START_MILLIS, order);
        }
        press(&mut state, control(letter));
        let shown = drawn(&state).join("\n");
        let listed = shown.matches("can still fill, order").count();
        assert!(listed >= 8 && shown.contains(" more lines"), "{listed}\n{shown}");
    }
}

/// Ends a transfer, whose result has no card, with a transaction on `chain_id` that cost this much gas, in wei. Its state
/// is reported twice.
fn paid_for_a_transfer(state: &mut State, call: u64, chain_id: u64, wei: u64) {
    let hash = alloy_primitives::B256::repeat_byte(0x22);
    let tx = |state| {
        let gas_cost_wei = Some(alloy_primitives::U256::from(wei));
        EventKind::TxUpdate(TxUpdate {
            chain_id,
            hash,
            leg: 1,
            of: 1,
            state,
            block: Some(9),
            gas_cost_wei,
            purpose: None,
        })
    };
    let end = ToolEnd { success: true, state: None, duration_ms: 9, result_summary: Value::Null, card: None };
    let begin = start("wallet_transfer_token", json!({ "token": "USDC", "amount": "25" }));
    let events = vec![begin, tx(TxState::Unclear), tx(TxState::Confirmed), EventKind::ToolEnd(end)];
    tell(state, Some(CallId::new(call)), events);
}

/// Ends a swap whose transactions on `chain_id` had these gas costs, in wei.
fn paid_gas(state: &mut State, call: u64, chain_id: u64, wei: &[u64]) {
    let hash = alloy_primitives::B256::repeat_byte(0x21);
    let tx = TxUpdate {
        chain_id,
        hash,
        leg: 1,
        of: 1,
        state: TxState::Confirmed,
        block: Some(9),
        gas_cost_wei: None,
        purpose: None,
    };
    let costs: Vec<_> = wei.iter().map(|wei| json!({ "gas_cost_wei": wei.to_string() })).collect();
    let card = ResultCard {
        widget: CardKind::Swap,
        data: json!({ "amount_in": "0.25", "amount_out": "852.375611119999" }),
        hints: Some(json!({ "quoted_out": "852.546103", "transactions": costs })),
    };
    let end = ToolEnd { success: true, state: None, duration_ms: 9, result_summary: Value::Null, card: Some(card) };
    let events =
        vec![start("uniswap_execute_swap", samples::swap_params()), EventKind::TxUpdate(tx), EventKind::ToolEnd(end)];
    tell(state, Some(CallId::new(call)), events);
}

#[test]
fn an_absence_is_told_in_dollars_and_enter_shows_all_of_it() {
    let mut state = lively(120, 44);
    state.update(Input::Focus(false));
    paid_gas(&mut state, 1, 31_337, &[1_000_000_000_000_000]);
    let at = state.clock.now_millis;
    state.update(Input::Time(at + 720_000));
    state.update(Input::Focus(true));
    let shown = drawn(&state).join("\n");
    // A thousandth of an ETH at $3,413.86, rounded up.
    for words in ["While you were away 12 min", "gas $3.42", "Enter all"] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    assert!(!shown.contains("Enter opens"), "{shown}");
    press(&mut state, Key::plain(KeyCode::Enter));
    assert_eq!((state.display.screen, state.display.layers.len()), (ScreenId::Logs, 0));
    press(&mut state, Key::char('1'));
    let shown = drawn(&state).join("\n");
    assert!(!shown.contains("While you were away") && shown.contains("Enter opens"), "{shown}");
    // With a selected call, Enter opens that call.
    state.update(Input::Focus(false));
    let at = state.clock.now_millis;
    state.update(Input::Time(at + 720_000));
    state.update(Input::Focus(true));
    press(&mut state, Key::char('j'));
    press(&mut state, Key::plain(KeyCode::Enter));
    assert!(matches!(state.display.layers.last(), Some(Layer::CallDetails(_))));
}

#[test]
fn gas_is_told_by_chain_and_coin_with_its_worth_and_since_when() {
    let mut state = full(200, 50);
    paid_gas(&mut state, 1, 31_337, &[400_000_000_000_000, 600_000_000_000_000]);
    paid_gas(&mut state, 2, 31_338, &[2_000_000_000_000_000]);
    paid_for_a_transfer(&mut state, 3, 31_337, 1_000_000_000_000_000);
    press(&mut state, Key::char('4'));
    let shown = drawn(&state).join("\n");
    // 0.0004, 0.0006 and 0.001 ETH. 1.3735 ETH are held at $4,687.08; none of the other chain's native token is held.
    for words in [
        "0.002 ETH on ethereum  $6.83",
        "3 transactions since 22:13",
        "0.002 native token on 31338",
        "1 transaction since",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
}

#[test]
fn a_card_rounds_and_the_whole_story_does_not() {
    let mut state = lively(120, 44);
    paid_gas(&mut state, 1, 31_337, &[1]);
    let shown = drawn(&state).join("\n");
    assert!(shown.contains("852.37 USDC") && !shown.contains("852.3756"), "{shown}");
    press(&mut state, Key::char('j'));
    press(&mut state, Key::plain(KeyCode::Enter));
    let shown = drawn(&state).join("\n");
    assert!(shown.contains("amount out  852.375611119999"), "{shown}");
    assert!(!shown.contains("amount in  "), "what is not rounded is not told twice\n{shown}");
}

#[test]
fn eighty_columns_have_what_is_drawn_for_them() {
    let shown = drawn(&lively(80, 24)).join("\n");
    for words in [
        "Now  Selling 0.25 WETH",
        "Next Buy UNI for $2,047.",
        "gas 9 d   streak 0/3",
        "sent 0x8c8c…8c8c   22:13:20 signed 0x8c8c…8c8c",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
}

#[test]
fn a_view_that_stands_still_says_so_at_every_width() {
    for width in [40, 44, 52, 60, 80, 100, 120, 200] {
        let mut state = lively(width, 24);
        press(&mut state, Key::char(' '));
        let header = drawn(&state).swap_remove(0);
        assert!(header.contains("frozen") && header.contains("PLAY MONEY"), "{width}: {header}");
        press(&mut state, Key::char(' '));
        assert!(!drawn(&state)[0].contains("frozen"));
    }
}

/// In the lowest window that is drawn, what is typed stands beside the name of its field, in every field of a form.
#[test]
fn the_field_that_is_edited_is_in_view_at_forty_columns_and_twelve_lines() {
    // Fields of `sample_tool`, required ones first, as the form orders and names them.
    let fields = ["token in", "token out", "amount", "chain", "exact", "slippage, bps", "spender"];
    for (columns, rows) in [(40, 12), (40, 10), (80, 24)] {
        for screen in [ScreenId::Trade, ScreenId::Tools] {
            let mut state = full(columns, rows);
            state.display.layers.clear();
            press(&mut state, Key::char(screen.key()));
            press(&mut state, Key::plain(KeyCode::Enter));
            for (at, field) in fields.iter().enumerate() {
                let value = format!("7{at}4{at}6");
                for letter in value.chars() {
                    press(&mut state, Key::char(letter));
                }
                let value = if *field == "exact" { "default: no" } else { value.as_str() };
                let shown = drawn(&state);
                let line = shown.iter().find(|line| line.contains(&format!("▸ {field}")));
                let beside = line.is_some_and(|line| line.contains(value));
                assert!(beside, "{screen:?} at {columns}x{rows}: {field}\n{}", shown.join("\n"));
                press(&mut state, Key::plain(KeyCode::Tab));
            }
            if screen == ScreenId::Trade {
                let shown = drawn(&state).join("\n");
                assert!(shown.contains("[ Preview ]"), "at {columns}x{rows} the button is gone\n{shown}");
            }
        }
    }
}
