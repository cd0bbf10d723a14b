//! Tests of running calls: the content of swap, quote and order cards while they change.

use super::*;

#[test]
fn a_call_that_looks_at_an_order_shows_how_it_stands() {
    let orders = samples::orders();
    let (_, looked) = orders.iter().find(|(state, _)| *state == "looked at").unwrap();
    let shown = text_of(&drawn(&CallCard::Order(Box::new(looked.clone())), 80, 1));
    assert!(shown.contains("0.5 WETH → 1,700.62 USDC") && shown.contains("OPEN 1:10 left"), "{shown}");
}

#[test]
fn of_an_order_without_its_call_no_time_is_told_that_nothing_took() {
    for (state, model) in samples::orders() {
        let line = model.line(NOW);
        assert!(!model.call.tool.is_empty() || line.right.is_empty(), "{state}: {:?}", line.right);
    }
    for (state, model) in samples::bridges() {
        let line = model.line(NOW);
        assert!(!model.call.tool.is_empty() || line.right.is_empty(), "{state}: {:?}", line.right);
    }
}

fn swap_of(events: Vec<EventKind>) -> SwapModel {
    let mut model =
        SwapModel::asked(START_MILLIS, "uniswap_execute_swap", samples::swap_params(), &samples::SWAP_STEPS);
    for (at, event) in (1..).zip(events) {
        model.fold(START_MILLIS + at, &event);
    }
    model
}

fn tx(leg: u32, of: u32, state: TxState) -> EventKind {
    let hash = alloy_primitives::B256::repeat_byte(0x11);
    EventKind::TxUpdate(TxUpdate {
        chain_id: 31_337,
        hash,
        leg,
        of,
        state,
        block: Some(7),
        gas_cost_wei: None,
        purpose: None,
    })
}

#[test]
fn an_approval_before_the_swap_is_not_taken_for_the_swap() {
    let swap = swap_of(vec![tx(1, 2, TxState::Signed), tx(1, 2, TxState::Sent), tx(1, 2, TxState::Confirmed)]);
    let state = |name: &str| swap.steps.iter().find(|step| step.name.as_str() == name).unwrap().state;
    assert_eq!(state("Approving token"), StepState::Done);
    assert_ne!(state("Confirming receipt"), StepState::Done);
    assert!(swap.money().contains("1 of 2"), "{}", swap.money());
    assert!(swap.money().contains("in your wallet"), "{}", swap.money());
}

#[test]
fn money_is_never_said_to_be_safe_once_it_may_have_left() {
    for state in [TxState::Sent, TxState::Unclear] {
        let swap = swap_of(vec![tx(1, 1, TxState::Signed), tx(1, 1, state)]);
        assert!(!swap.money().contains("in your wallet"), "{state:?}: {}", swap.money());
    }
    // The call failed after the transaction was sent: the chain's last state counts, not the end of the call.
    let mut events = vec![tx(1, 1, TxState::Sent)];
    events.push(EventKind::ToolError(ToolFailed {
        error_code: ErrorCode::ExecutionTxTimeout,
        error_message: SafeText::clean("not in a block yet", 40),
        checks: None,
    }));
    let swap = swap_of(events);
    assert!(swap.money().contains("sent, not confirmed"), "{}", swap.money());
}

/// Before it is signed, too: its steps are none of a swap's.
#[test]
fn a_swap_that_is_offered_as_an_auction_is_shown_as_one() {
    let offered = |is_order| {
        EventKind::PermitIssued(bardo_base::fabric::PermitIssued {
            permit_id: "7c1e0000000000000000000000000001".parse().unwrap(),
            simulation_hash: alloy_primitives::B256::ZERO,
            expected_outcome: SafeText::clean("an offer", 40),
            expires_at: START_MILLIS + 60_000,
            notify: false,
            changes: Vec::new(),
            least_out: None,
            leaves_usd: None,
            is_order,
        })
    };
    let mut card = CallCard::Swap(Box::new(swap_of(Vec::new())));
    card.fold(START_MILLIS + 5, &offered(false));
    assert!(matches!(card, CallCard::Swap(_)));
    card.fold(START_MILLIS + 5, &offered(true));
    let shown = text_of(&drawn(&card, 80, 12));
    assert!(shown.contains("Auction 0.25 WETH") && !shown.contains("build"), "{shown}");
}

#[test]
fn a_swap_by_auction_becomes_the_order_it_is() {
    let mut card = CallCard::Swap(Box::new(swap_of(Vec::new())));
    card.fold(START_MILLIS + 5, &EventKind::OrderUpdate(Box::new(samples::order(DecayUnit::Seconds))));
    assert!(matches!(&card, CallCard::Order(order) if order.order.is_some() && order.call.at == START_MILLIS));
}

#[test]
fn a_quote_grows_stale_and_its_time_passes() {
    let mut model = QuoteModel::asked(START_MILLIS, "uniswap_get_quote", samples::swap_params());
    assert_eq!(model.status(NOW), CardStatus::Loading);
    let (data, hints) = samples::quote_answer(false, 0.1);
    let card = Some(ResultCard { widget: bardo_base::model::CardKind::Quote, data, hints: Some(hints) });
    let end = ToolEnd { success: true, state: None, duration_ms: 9, result_summary: json!(null), card };
    model.fold(START_MILLIS, &EventKind::ToolEnd(end));
    let at = |seconds: u64| model.status(Moment { millis: START_MILLIS + seconds * 1000, motion: true });
    assert_eq!(
        [at(0), at(30), at(31), at(299), at(300)].map(|status| status),
        [CardStatus::Done, CardStatus::Done, CardStatus::Stale, CardStatus::Stale, CardStatus::Expired]
    );
}

#[test]
fn an_answer_that_is_none_is_no_quote_and_no_panic() {
    for data in [json!(null), json!([]), json!({"amount_in": 1}), json!({"route": [1, null, {"leg": -1}]}), json!("x")]
    {
        assert_eq!(crate::widgets::quote::Quote::read(&data, &data), None);
        assert_eq!(crate::widgets::swap::SwapResult::read(&data, &data), None);
        assert_eq!(allowance::Allowance::read("token_approve", &data, &data), None);
    }
    let most = U256::MAX.to_string();
    let data = json!({"token": "WETH", "allowance": most, "sufficient": true, "spender": "not an address"});
    let read = allowance::Allowance::read("uniswap_check_allowance", &data, &json!({})).unwrap();
    assert!(read.unlimited && read.spender.is_none());
}

/// A line has no room for whole addresses, and says first why.
#[test]
fn a_blocked_spender_is_named_with_the_reason_in_one_line() {
    let spender = "0x000000000000000000000000000000000000bEEF";
    let mut model =
        SwapModel::asked(START_MILLIS, "uniswap_execute_swap", samples::swap_params(), &samples::SWAP_STEPS);
    model.fold(
        START_MILLIS + 1,
        &EventKind::ToolError(ToolFailed {
            error_code: ErrorCode::SafetyNotAllowed,
            error_message: SafeText::clean(&format!("Spender not allowed: {spender}"), 200),
            checks: None,
        }),
    );
    let words = model.call.failure_words().unwrap();
    assert!(words.ends_with("0x0000…bEEF") && !words.contains(spender), "{words}");
}
