//! Tests of screen 2: the form, the quote that follows typing, the offer and its execution.

use super::*;
use bardo_base::error::{ErrorCode, FigureUnit, RuleFigures, ToolError, Violation};
use bardo_base::fabric::AskReason;
use bardo_base::model::{Category, RuleName};
use bardo_session::questions::{OFFER_NUMBER, Question, QuestionKey};

/// Permit of [`offer`].
fn permit_id() -> PermitId {
    "0123456789abcdef0123456789abcdef".parse().unwrap()
}

fn offer(expires_at: u64) -> Box<ToolResponse> {
    let checks = json!([{"check": "halt", "outcome": "passed", "detail": "no stop"}, {"check": "slippage_guard", "outcome": "warned", "detail": "close"}]);
    Box::new(ToolResponse {
        call_id: CallId::new(START_MILLIS),
        status: CallStatus::Simulated,
        data: Some(json!({"amount_in": "0.25", "amount_out": "852.5"})),
        error: None,
        decision_hints: Some(json!({"permit": {
            "permit_id": permit_id(), "simulation_hash": B256::repeat_byte(0x51),
            "expected_outcome": "Swap 0.25 WETH for >= 848.283372 USDC", "expires_at": expires_at, "gas_usd": "5.04",
            "bounds": {"pays_at_most": [{"token": "WETH", "amount": "0.25", "usd": "853.14"}],
                       "receives_at_least": [{"token": "USDC", "amount": "848.283372", "usd": "848.28"}], "still_takeable": []},
            "legs": [{"purpose": "main", "to": "0xa3af642cb02a15e2ad2edf63ed80279d059562bb"}], "checks": checks, "reasons": [],
        }})),
        explanation: Some("Would receive 852.5 USDC".to_owned()),
    })
}

/// Trade screen with a typed swap, and the requests that it emitted.
fn swap_typed(world: &TestHarness) -> (Trade, Vec<ScreenRequest>) {
    let mut trade = Trade::default();
    trade.shown(&world.known());
    assert!(!trade.accepts_text());
    trade.act(Action::Open, &world.known(), AREA);
    assert!(trade.accepts_text());
    let requests = typed(&mut trade, world, "WETH\tUSDC\t0.25");
    (trade, requests)
}

/// Approval request about [`offer`], as the session holds it.
fn held() -> Question {
    Question { key: QuestionKey::Action(permit_id()), number: OFFER_NUMBER, place: 0, of: 0, ..samples::question() }
}

/// Trade screen with a previewed swap whose offer is held, and the count of its command.
fn swap_offered(world: &mut TestHarness) -> (Trade, u32) {
    let (mut trade, _) = swap_typed(world);
    let asked = calls(&typed(&mut trade, world, "\n"));
    let [(count, ..)] = asked[..] else { panic!("{asked:?}") };
    trade.receive_reply(count, CommandReply::Reply(offer(world.now + 40_000)), &world.known());
    world.offer = Some(held());
    (trade, count)
}

#[test]
fn a_swap_by_keyboard_alone_is_previewed_then_decided_as_an_action_of_the_agents() {
    let mut world = world();
    let (mut trade, _) = swap_typed(&world);
    let asked = calls(&typed(&mut trade, &world, "\n"));
    let [(count, tool, params, dry_run)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((tool.as_str(), *dry_run), ("uniswap_execute_swap", true));
    assert_eq!(*params, json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.25", "chain": "ethereum"}));
    trade.receive_reply(*count, CommandReply::Began(CallId::new(1)), &world.known());
    trade.receive_reply(*count, CommandReply::Reply(offer(world.now + 40_000)), &world.known());
    world.offer = Some(held());
    let text = drawn(&trade, &world, AREA);
    assert!(text.contains("Swap 0.25 WETH for at least 848.283372 USDC") && text.contains("! slippage"), "{text}");
    // The quote's dollars and the offer's differ, and it says why.
    assert!(text.contains("at the least favourable prices"), "{text}");
    // It counts down while it is looked at, and then looks as over as it is.
    assert!(text.contains("0:40 left") && text.contains("[ Decide… ]"), "{text}");
    world.now += 15_000;
    assert!(drawn(&trade, &world, AREA).contains("0:25 left"));
    // Enter opens the approval dialog; the screen itself decides and sends nothing.
    assert_eq!(typed(&mut trade, &world, "\n"), [ScreenRequest::OpenOffer]);
    world.now += 25_000;
    let text = drawn(&trade, &world, AREA);
    assert!(text.contains("○ expired") && text.contains("[ Preview ]") && !text.contains("Decide"), "{text}");
    let more = calls(&typed(&mut trade, &world, "\n"));
    assert!(matches!(&more[..], [(_, tool, _, true), ..] if tool == "uniswap_execute_swap"), "{more:?}");
}

#[test]
fn a_tool_that_signs_nothing_acts_at_the_second_enter_and_once() {
    let mut world = world();
    for tool in world.ready.tools.iter_mut().filter(|tool| tool.name.as_str() == "uniswap_execute_swap") {
        tool.action_class = bardo_base::model::ActionClass::ReadOnly;
    }
    let (mut trade, _) = swap_typed(&world);
    let text = drawn(&trade, &world, AREA);
    assert!(
        text.contains("[ Do it ]") && text.contains("Enter again, does it at once") && !text.contains("[ Preview ]"),
        "{text}"
    );
    assert_eq!(calls(&typed(&mut trade, &world, "\n")), [], "the first Enter does nothing");
    assert!(drawn(&trade, &world, AREA).contains("Nothing is done yet"));
    // A changed form is another one.
    typed(&mut trade, &world, "5");
    assert_eq!(calls(&typed(&mut trade, &world, "\n")), []);
    let done = calls(&typed(&mut trade, &world, "\n"));
    assert!(matches!(&done[..], [(_, tool, _, false)] if tool == "uniswap_execute_swap"), "{done:?}");
    assert_eq!(calls(&typed(&mut trade, &world, "\n")), [], "not twice");
    // What failed was not done: it is asked about and done like a new one.
    let failed = ToolResponse {
        status: CallStatus::Error,
        data: None,
        error: Some(ToolError::new(ErrorCode::StoreUnavailable, "the disk is full")),
        decision_hints: None,
        ..*offer(world.now)
    };
    trade.receive_reply(done[0].0, CommandReply::Reply(Box::new(failed)), &world.known());
    assert_eq!(calls(&typed(&mut trade, &world, "\n")), []);
    assert!(matches!(&calls(&typed(&mut trade, &world, "\n"))[..], [(_, _, _, false)]));
}

#[test]
fn a_preview_gives_each_reason_for_its_approval_once() {
    let mut world = world();
    let (mut trade, _) = swap_typed(&world);
    let asked = calls(&typed(&mut trade, &world, "\n"));
    let count = asked.iter().find(|call| call.1.contains("execute")).unwrap().0;
    let usd = |text: &str| text.parse().unwrap();
    let field = SafeText::clean("spending_limits.hot_lane", 40);
    let above = AskReason::AboveLimit { value: usd("2047.53"), limit: usd("2000"), field };
    let mut answer = offer(world.now + 40_000);
    answer.decision_hints.as_mut().unwrap()["permit"]["reasons"] = json!([above, AskReason::HotLane]);
    trade.receive_reply(count, CommandReply::Reply(answer), &world.known());
    world.offer = Some(held());
    let text = drawn(&trade, &world, AREA);
    assert!(text.contains("above your $2,000 limit for a second opinion"), "{text}");
    assert_eq!(text.matches("needs approval").count(), 1, "{text}");
}

#[test]
fn a_preview_that_failed_shows_its_reasons_whole_and_nothing_that_could_be_done() {
    let world = world();
    let (mut trade, requests) = swap_typed(&world);
    let quote = calls(&requests)[0].0;
    let (data, hints) = samples::quote_answer(false, 0.1);
    let answer = ToolResponse { data: Some(data), decision_hints: Some(hints), ..*offer(0) };
    trade.receive_reply(quote, CommandReply::Reply(Box::new(answer)), &world.known());
    let asked = calls(&typed(&mut trade, &world, "\n"));
    let count = asked.iter().find(|call| call.1.contains("execute")).unwrap().0;
    let violations: Vec<Value> = (0..12)
        .map(|at| json!({"rule": format!("max_rule_{at:02}"), "limit": "1", "value": "2", "would_pass": "1"}))
        .collect();
    let error = bardo_base::error::ToolError::new(bardo_base::error::ErrorCode::ValidationFailed, "too much")
        .detail("violations", violations);
    let failed =
        ToolResponse { status: CallStatus::Blocked, data: None, error: Some(error), decision_hints: None, ..*offer(0) };
    trade.receive_reply(count, CommandReply::Reply(Box::new(failed)), &world.known());
    let text = drawn(&trade, &world, AREA);
    assert!((0..12).all(|at| text.contains(&format!("Max rule {at:02}"))), "{text}");
    assert!(text.contains("[ Preview ]") && !text.contains("Decide"), "{text}");
}

#[test]
fn a_cooldown_counts_down_and_is_said_once() {
    let mut world = world();
    let (mut trade, _) = swap_typed(&world);
    let asked = calls(&typed(&mut trade, &world, "\n"));
    let count = asked.iter().find(|call| call.1.contains("execute")).unwrap().0;
    let violation = Violation::new(RuleName::CooldownSeconds, "60 s", "12 s after the last one", "the same in 48 s")
        .with(RuleFigures::new(FigureUnit::Seconds, 60, 12).freeing_in(Some(48)));
    let finding = bardo_base::fabric::Finding::Broken { violations: vec![violation.clone()] };
    let (check, outcome) = (bardo_base::model::Check::RateLimit, bardo_base::fabric::CheckOutcome::Blocked);
    let check = bardo_base::fabric::SafetyCheck { check, outcome, finding };
    let error = ToolError::new(ErrorCode::SafetyRateLimited, "rate_limit: cooldown_seconds: 12 s after the last one")
        .violating(&[violation])
        .checked(&[check]);
    let failed =
        ToolResponse { status: CallStatus::Blocked, data: None, error: Some(error), decision_hints: None, ..*offer(0) };
    trade.receive_reply(count, CommandReply::Reply(Box::new(failed)), &world.known());
    for (later, words) in [(0, "too soon, free in 48 s"), (20_000, "free in 28 s"), (8_000, "free in 20 s")] {
        world.now += later;
        let text = drawn(&trade, &world, AREA);
        assert!(text.contains(words), "{text}");
        assert_eq!((text.matches("Cooldown").count(), text.matches("after the last one").count()), (1, 0), "{text}");
        assert!(text.contains("✕ rate") && !text.contains("cooldown_seconds"), "{text}");
    }
    world.now += 20_000;
    let text = drawn(&trade, &world, AREA);
    assert!(text.contains("free now: Enter previews again"), "{text}");
}

#[test]
fn a_transfer_by_hand_has_a_form_and_is_previewed_like_a_trade() {
    let mut world = world();
    let text_field = json!({"type": "string"});
    // As schemars writes an optional union of a number and a name.
    let chain = json!({"anyOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"type": "null"}]});
    let mut tool = world.ready.tools.iter().find(|tool| tool.name.as_str() == "uniswap_execute_swap").unwrap().clone();
    (tool.name, tool.category) = (SafeText::clean("wallet_transfer_token", 40), Category::Wallet);
    tool.input_schema = json!({
        "properties": {"token": text_field, "recipient": text_field, "amount": text_field, "chain_id": chain},
        "required": ["token", "recipient", "amount"],
    });
    world.ready.tools.push(tool);
    let mut trade = Trade::default();
    trade.shown(&world.known());
    while !drawn(&trade, &world, AREA).contains("▸ Transfer") {
        trade.act(Action::Right, &world.known(), AREA);
    }
    let shown = drawn(&trade, &world, AREA);
    assert!(shown.contains("chain") && !shown.contains("chain id"), "{shown}");
    assert!(!shown.contains("the quote updates"), "a transfer has no quote\n{shown}");
    trade.act(Action::Open, &world.known(), AREA);
    let recipient = Address::repeat_byte(0x70).to_string();
    let requests = typed(&mut trade, &world, &format!("USDC\t{recipient}\t25\n"));
    let [ScreenRequest::Send(sent)] = &requests[..] else { panic!("{requests:?}") };
    let SessionCommand::Offer { tool, params, .. } = &**sent else { panic!("{sent:?}") };
    assert_eq!(tool, "wallet_transfer_token");
    assert_eq!(*params, json!({"token": "USDC", "recipient": recipient, "amount": "25", "chain_id": "ethereum"}));
}

#[test]
fn a_quote_stands_only_beside_the_trade_that_it_is_of() {
    let world = world();
    let (mut trade, requests) = swap_typed(&world);
    let quotes = calls(&requests);
    assert_eq!(quotes[0].2["amount"], json!("0.2"));
    let (data, hints) = samples::quote_answer(false, 0.1);
    let answer = ToolResponse { data: Some(data), decision_hints: Some(hints), ..*offer(0) };
    trade.receive_reply(quotes[0].0, CommandReply::Reply(Box::new(answer)), &world.known());
    let shows = |trade: &Trade| drawn(trade, &world, AREA).contains("852.54 USDC");
    // The field contains `0.25` by now.
    assert!(!shows(&trade), "{}", drawn(&trade, &world, AREA));
    trade.type_key(key(KeyCode::Backspace), &world.known(), &mut Vec::new());
    assert!(shows(&trade), "{}", drawn(&trade, &world, AREA));
    trade.act(Action::Right, &world.known(), AREA);
    assert!(!shows(&trade), "of another tool");
}

#[test]
fn a_swap_by_mouse_alone() {
    let mut world = world();
    let mut trade = Trade::default();
    trade.shown(&world.known());
    // A mouse cannot type, so values are pasted into a clicked field.
    for (field, words) in [("token in*", "WETH"), ("token out*", "USDC"), ("amount*", "0.25")] {
        click(&mut trade, &world, field);
        trade.paste(&safe(words));
    }
    let asked = calls(&click(&mut trade, &world, "[ Preview ]"));
    let [(count, .., true)] = &asked[..] else { panic!("{asked:?}") };
    trade.receive_reply(*count, CommandReply::Reply(offer(world.now + 40_000)), &world.known());
    world.offer = Some(held());
    assert_eq!(click(&mut trade, &world, "[ Decide… ]"), [ScreenRequest::OpenOffer]);
}

#[test]
fn an_offer_counts_for_exactly_what_was_previewed_and_only_in_its_time() {
    let mut world = world();
    let (mut trade, _) = swap_typed(&world);
    let asked = calls(&typed(&mut trade, &world, "\n"));
    // The form changed while the answer was under way, so the answer does not belong to the current values.
    typed(&mut trade, &world, "9");
    trade.receive_reply(asked[0].0, CommandReply::Reply(offer(world.now + 40_000)), &world.known());
    let again: Vec<_> =
        calls(&typed(&mut trade, &world, "\n")).into_iter().filter(|call| call.1.contains("execute")).collect();
    assert!(matches!(&again[..], [(.., params, true)] if params["amount"] == "0.259"), "{again:?}");
    // An expired offer is requested again, not executed.
    trade.receive_reply(again[0].0, CommandReply::Reply(offer(world.now + 40_000)), &world.known());
    world.now += 40_000;
    let third: Vec<_> =
        calls(&typed(&mut trade, &world, "\n")).into_iter().filter(|call| call.1.contains("execute")).collect();
    assert!(matches!(&third[..], [(.., true)]), "{third:?}");
    // A response that was not simulated is not an offer, whatever else is held; nor is one that the session does not
    // hold.
    world.offer = Some(held());
    let mut refused = offer(world.now + 40_000);
    refused.status = CallStatus::Blocked;
    trade.receive_reply(third[0].0, CommandReply::Reply(refused), &world.known());
    assert!(!typed(&mut trade, &world, "\n").contains(&ScreenRequest::OpenOffer));
    for other in [None, Some(Question { key: QuestionKey::Action(PermitId::random()), ..held() })] {
        let (mut trade, _) = swap_offered(&mut world);
        world.offer = other;
        assert!(!typed(&mut trade, &world, "\n").contains(&ScreenRequest::OpenOffer));
    }
}

/// An offer on paper must be gone once transactions are signed for real, and the reverse.
#[test]
fn an_offer_is_over_once_it_would_move_other_money() {
    for (first, then) in [(true, false), (false, true)] {
        for by_tick in [true, false] {
            let mut world = world();
            world.snapshot.paper = first;
            let (mut trade, _) = swap_offered(&mut world);
            world.snapshot.paper = then;
            let mut requests = if by_tick { trade.tick(&world.known()) } else { Vec::new() };
            if by_tick {
                let text = drawn(&trade, &world, AREA);
                assert!(!text.contains("Decide") && text.contains("The kind of money has changed"), "{text}");
            }
            requests.extend(typed(&mut trade, &world, "\n"));
            assert!(!requests.contains(&ScreenRequest::OpenOffer), "{requests:?}");
            // The earlier preview is not an offer any more: Enter previews again.
            let again: Vec<_> = calls(&requests).into_iter().filter(|call| call.1.contains("execute")).collect();
            assert!(!again.is_empty(), "{requests:?}");
        }
    }
}

#[test]
fn quotes_follow_the_typing_one_at_a_time_and_not_too_often() {
    let mut world = world();
    let (mut trade, requests) = swap_typed(&world);
    let quotes = calls(&requests);
    assert_eq!(quotes.len(), 1, "one for the first amount that says something, none while it is under way: {quotes:?}");
    assert_eq!((quotes[0].1.as_str(), &quotes[0].2["amount"]), ("uniswap_get_quote", &json!("0.2")));
    assert_eq!(trade.wakes_at(), None, "nothing to do until the answer comes");
    let answer = |amount: &str| {
        let (mut data, hints) = samples::quote_answer(false, 0.1);
        data["amount_in"] = json!(amount);
        let call_id = CallId::new(START_MILLIS);
        let reply = ToolResponse {
            call_id,
            status: CallStatus::Success,
            data: Some(data),
            error: None,
            decision_hints: Some(hints),
            explanation: None,
        };
        CommandReply::Reply(Box::new(reply))
    };
    assert!(
        calls(&trade.receive_reply(quotes[0].0, answer("0.2"), &world.known())).is_empty(),
        "too soon after the last"
    );
    let wake = trade.wakes_at().unwrap();
    assert!(wake > world.now && wake <= world.now + 1_000);
    world.now = wake;
    let next = calls(&trade.tick(&world.known()));
    assert!(matches!(&next[..], [(_, _, params, _)] if params["amount"] == "0.25"), "{next:?}");
    trade.receive_reply(next[0].0, answer("0.25"), &world.known());
    assert_eq!(trade.wakes_at(), None, "nothing changed, nothing to ask");
    assert!(drawn(&trade, &world, AREA).contains("852.54 USDC"));
}

#[test]
fn what_came_of_a_deed_is_shown_though_the_view_stands_still() {
    let mut world = world();
    let (mut trade, count) = swap_offered(&mut world);
    world.frozen = Some(world.feed.clone());
    // After approval, the session reports that the call has begun once more.
    world.offer = None;
    let call = CallId::new(START_MILLIS + 77);
    trade.receive_reply(count, CommandReply::Began(call), &world.known());
    // The call has begun, and no event about it has arrived.
    let text = drawn(&trade, &world, AREA);
    assert!(text.contains("approved; waiting for its status") && !text.contains("Fill in the form"), "{text}");
    let params = json!({ "token_in": "WETH", "token_out": "USDC", "amount": "0.25", "chain": "ethereum" });
    let kinds = [
        EventKind::ToolStart(ToolStart {
            tool_name: "uniswap_execute_swap".into(),
            params: RedactedParams::new(&params, &[]),
            params_hash: B256::ZERO,
            tick: None,
            facts: None,
        }),
        EventKind::TxUpdate(TxUpdate {
            chain_id: 31_337,
            hash: B256::repeat_byte(0x8c),
            leg: 1,
            of: 1,
            state: TxState::Sent,
            block: None,
            gas_cost_wei: None,
            purpose: None,
        }),
    ];
    for (seq, kind) in (world.feed.last + 1..).zip(kinds) {
        let (at, golem_id) = (world.now, bardo_base::id::GolemId::operator());
        world.feed.take(&std::sync::Arc::new(Event { seq, at, golem_id, call_id: Some(call), kind }));
    }
    let text = drawn(&trade, &world, AREA);
    assert!(text.contains("sent, not confirmed") && !text.contains("Fill in the form"), "{text}");
    // The transaction hash can be copied as well.
    trade.type_key(key(KeyCode::Esc), &world.known(), &mut Vec::new());
    let copied = trade.act(Action::Copy, &world.known(), AREA).unwrap();
    assert_eq!(copied, [ScreenRequest::Copy(B256::repeat_byte(0x8c).to_string())]);
    // A call that is no longer in memory still has its answer.
    world.feed.calls.clear();
    let mut response = offer(world.now + 40_000);
    (response.status, response.data) = (CallStatus::Success, Some(json!({ "amount_out": "852.25" })));
    trade.receive_reply(count, CommandReply::Reply(response), &world.known());
    let text = drawn(&trade, &world, AREA);
    assert!(text.contains("852.25") && !text.contains("Fill in the form"), "{text}");
}

#[test]
fn the_quotes_of_a_form_are_left_out_of_the_activity_and_its_preview_is_not() {
    let world = world();
    let (mut trade, requests) = swap_typed(&world);
    let quote = calls(&requests)[0].0;
    // Quotes of a half-typed form cause neither an event nor a failure.
    let unasked = |request: &ScreenRequest| match request {
        ScreenRequest::Send(command) => matches!(**command, SessionCommand::Call { unasked: true, .. }),
        _ => false,
    };
    assert!(requests.iter().any(unasked), "{requests:?}");
    let (first, second) = (CallId::new(5), CallId::new(6));
    assert_eq!(
        trade.receive_reply(quote, CommandReply::Began(first), &world.known()),
        [ScreenRequest::SetAside(first)]
    );
    let asked = calls(&typed(&mut trade, &world, "\n"));
    let preview = asked.iter().find(|call| call.1.contains("execute")).unwrap().0;
    assert!(trade.receive_reply(preview, CommandReply::Began(second), &world.known()).is_empty());
}

/// Answers the quote that the typing of [`swap_typed`] requested first, and every quote that follows it.
fn answer_quotes(trade: &mut Trade, world: &TestHarness) {
    let mut asked = Some(1);
    while let Some(count) = asked {
        let (data, hints) = samples::quote_answer(false, 0.1);
        let answer = ToolResponse { data: Some(data), decision_hints: Some(hints), ..*offer(0) };
        let requests = trade.receive_reply(count, CommandReply::Reply(Box::new(answer)), &world.known());
        asked = calls(&requests).first().map(|(count, ..)| *count);
    }
}

#[test]
fn after_an_execution_digits_are_keys_again_and_an_edit_starts_over() {
    let mut world = world();
    let (mut trade, count) = swap_offered(&mut world);
    answer_quotes(&mut trade, &world);
    assert!(trade.accepts_text());
    world.offer = None;
    trade.receive_reply(count, CommandReply::Began(CallId::new(START_MILLIS + 77)), &world.known());
    assert!(!trade.accepts_text(), "a digit would be typed into the form instead of switching screens");
    let mut response = offer(world.now + 40_000);
    (response.status, response.data) = (CallStatus::Success, Some(json!({ "amount_out": "852.25" })));
    trade.receive_reply(count, CommandReply::Reply(response), &world.known());
    assert!(drawn(&trade, &world, AREA).contains("852.25"), "the result stays until the form is edited");
    trade.act(Action::Open, &world.known(), AREA);
    let requests = typed(&mut trade, &world, "1");
    let text = drawn(&trade, &world, AREA);
    assert!(!text.contains("852.25"), "{text}");
    // A quote from before the trade is not shown again either: a new one is requested.
    world.now += 2_000;
    let quotes = [requests, trade.tick(&world.known())].concat();
    assert!(quotes.iter().any(|one| matches!(one, ScreenRequest::Send(_))), "{quotes:?}");
}

#[test]
fn a_changed_policy_makes_a_preview_and_a_quote_outdated() {
    let mut world = world();
    let (mut trade, _) = swap_offered(&mut world);
    answer_quotes(&mut trade, &world);
    trade.tick(&world.known());
    assert!(drawn(&trade, &world, AREA).contains("Decide"));
    world.snapshot.policy.version += 1;
    world.now += 2_000;
    let requests = trade.tick(&world.known());
    let text = drawn(&trade, &world, AREA);
    assert!(!text.contains("Decide") && text.contains("The policy has changed: preview again."), "{text}");
    let quotes = calls(&requests);
    assert!(matches!(&quotes[..], [(_, tool, ..)] if tool == "uniswap_get_quote"), "{quotes:?}");
}

/// A tool names its parameter as JSON has it; a form names the field as it is labelled, and the cursor is in it.
#[test]
fn an_error_about_a_parameter_names_its_field_and_stands_in_it() {
    let world = world();
    let (mut trade, _) = swap_typed(&world);
    let asked = calls(&typed(&mut trade, &world, "\n"));
    let count = asked.iter().find(|call| call.1.contains("execute")).unwrap().0;
    let error = ToolError::new(ErrorCode::ValidationFailed, "parameter `slippage_bps`: 900; expected at most 300")
        .detail("parameter", "slippage_bps");
    let answer = ToolResponse { status: CallStatus::Error, data: None, error: Some(error), ..*offer(0) };
    trade.receive_reply(count, CommandReply::Reply(Box::new(answer)), &world.known());
    let text = drawn(&trade, &world, AREA);
    assert!(text.contains("FAILED: slippage, bps: 900; expected at most 300"), "{text}");
    assert!(text.contains("Correct the field “slippage, bps”.") && !text.contains("bardo tools"), "{text}");
    assert!(text.contains("▸ slippage, bps"), "{text}");
}

/// The chosen tool, its neighbours and its place among all, at a width that holds only some of them.
#[test]
fn the_line_of_tools_follows_the_chosen_one() {
    let world = world();
    let mut trade = Trade::default();
    trade.shown(&world.known());
    let area = Rect { width: 40, ..AREA };
    let line = |trade: &Trade| drawn(trade, &world, area).lines().next().unwrap_or_default().to_owned();
    for (at, chosen) in ["Swap", "Cancel order", "Refund bridge order", "Quote"].iter().enumerate() {
        let shown = line(&trade);
        assert!(shown.contains(&format!("▸ {chosen} ")), "{shown}");
        assert!(shown.trim_end().ends_with(&format!("{} of 4", at + 1)) && !shown.contains('…'), "{shown}");
        trade.act(Action::NextPanel, &world.known(), area);
    }
    // All fit a wide line, which needs no place.
    assert!(!drawn(&trade, &world, AREA).contains(" of 4"));
}
