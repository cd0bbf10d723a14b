//! Tests of the cards' texts: no repetition, no outdated content, no code names.

use alloy_primitives::B256;

use super::*;

/// One-line form of a card, with its mark.
fn line_of(widget: &str, state: &str, width: u16) -> String {
    text_of(&drawn(&card(widget, state), width, 1))
}

/// Full card as one text.
fn told(widget: &str, state: &str) -> String {
    card(widget, state)
        .full(NOW, 200)
        .iter()
        .flat_map(|row| row.left.iter().chain(&row.right).map(|(text, _)| text.as_str()).chain(["\n"]))
        .collect()
}

#[test]
fn a_bad_result_carries_no_good_mark_in_its_line() {
    for width in [40, 80, 120] {
        for (widget, state, mark, words) in [
            ("swap", "disagrees", '✕', "CHAIN DISAGREES"),
            ("allowance", "needed", '!', "Needs"),
            ("allowance", "expired", '○', "Expired"),
            ("allowance", "unlimited", '!', "UNLIM"),
        ] {
            let line = line_of(widget, state, width);
            assert!(line.contains(mark) && !line.contains('✓') && line.contains(words), "{width}: {line}");
        }
    }
    let theme = theme("dark");
    let buffer = drawn_with(&theme, (80, 1), |painter, area| render(&card("swap", "disagrees"), painter, area, NOW));
    assert_eq!(style_at(&buffer, "✕").fg, theme.style(Role::StateBad).fg);
}

#[test]
fn what_has_ended_says_nothing_of_what_might_still_come() {
    for state in ["expired", "cancelled"] {
        assert!(!told("order", state).contains("would take"), "{state}");
    }
    assert_eq!(told("order", "open").matches("filler").count(), 2, "once exclusive, once the best");
    for state in ["expired", "refunded"] {
        let words = told("bridge", state);
        assert!(words.contains("Nothing was delivered") && words.contains("on base"), "{state}\n{words}");
        for never in ["You get", "expected", "chosen", "▸", "no tx yet"] {
            assert!(!words.contains(never), "{state}: {never}\n{words}");
        }
    }
}

#[test]
fn nothing_is_said_twice() {
    for (widget, state, words) in [
        ("swap", "refused", "wait for gas"),
        ("swap", "lapsed", "nothing was signed"),
        ("swap", "disagrees", "3.10 short"),
    ] {
        assert_eq!(told(widget, state).matches(words).count(), 1, "{widget} {state}\n{}", told(widget, state));
    }
    for (widget, state, card) in samples::cards() {
        let line = text_of(&drawn(&card, 120, 1));
        assert!(!line.contains("Bridge Bridge") && !line.contains("Bridge     Bridge"), "{line}");
        if matches!(widget, "order" | "bridge") {
            let mark = card.status(NOW).mark();
            assert_eq!(line.matches(mark).count(), 1, "{state}: {line}");
        }
    }
}

#[test]
fn no_card_speaks_as_the_code_does() {
    for (widget, state, card) in samples::cards() {
        let words: String = [told(widget, state), text_of(&drawn(&card, 160, 1))].concat();
        for raw in [">= ", "128412", "block 1285", "max_single", "slippage: slippage", "InvalidCosignature", " usd"] {
            assert!(!words.contains(raw), "{widget} {state}: {raw}\n{words}");
        }
    }
    assert_eq!(line_of("plain", "done", 80).matches("entries").count(), 0);
    assert!(line_of("plain", "done", 80).contains("total $24,979.76"));
}

#[test]
fn a_bridge_whose_delivery_is_not_on_the_other_chain_is_not_said_to_be_delivered() {
    for width in [40, 60, 80, 120] {
        for height in [1, 5, 30] {
            let text = text_of(&drawn(&card("bridge", "unseen"), width, height));
            // A single line may have room only for the beginning, which suffices.
            let words = if height == 1 { "NOT S" } else { "NOT SEEN THERE" };
            assert!(text.contains(words), "{width}x{height}\n{text}");
            let said = text.to_lowercase();
            assert!(!said.contains('✓') && !said.contains("deliv"), "{width}x{height}\n{text}");
        }
    }
}

#[test]
fn a_running_swap_says_in_five_lines_what_is_paid_and_what_comes_at_least() {
    let shown = text_of(&drawn(&card("swap", "running"), 100, 5));
    assert!(shown.contains("pay 0.25 WETH $853.14   get at least 848.28 USDC"), "{shown}");
    assert!(shown.contains("▸ confirm") && shown.contains("Money: sent"), "{shown}");
    assert!(told("swap", "running").contains("memory: slippage 100 bps to 50 bps"));
    assert!(told("order", "blocks").contains("memory: 120 s to 240 s for the auction: 2 of the last 3 alike lapsed"));
}

#[test]
fn what_a_confirmed_transaction_moved_is_in_the_wallet_no_more() {
    let compared = "checking it on chain";
    let tx = |state, leg, of| {
        let hash = alloy_primitives::B256::repeat_byte(0x8c);
        EventKind::TxUpdate(TxUpdate {
            chain_id: 31_337,
            hash,
            leg,
            of,
            state,
            block: None,
            gas_cost_wei: None,
            purpose: None,
        })
    };
    for (tool, before, moved) in [
        ("wallet_transfer_token", "in your wallet", "moved; "),
        ("intent_refund", "in the settler", "moved; "),
        ("uniswapx_cancel_order", "in your wallet; the order can still fill", "the cancellation is in a block; "),
    ] {
        for (state, leg, of, words) in [
            (TxState::Sent, 1, 1, "sent, not confirmed".to_owned()),
            (TxState::Confirmed, 1, 1, format!("{moved}{compared}")),
            // A preparing transaction has moved no money.
            (TxState::Confirmed, 1, 2, before.to_owned()),
            (TxState::Confirmed, 2, 2, format!("{moved}{compared}")),
            (TxState::Reverted, 1, 1, before.to_owned()),
            (TxState::Dropped, 1, 1, before.to_owned()),
        ] {
            let mut model = PlainModel::asked(START_MILLIS, tool, json!({ "token": "USDC", "amount": "120" }));
            model.fold(START_MILLIS + 5, &tx(state, leg, of));
            for rows in [model.short(NOW), model.full(NOW, 120)] {
                let told: String = rows.iter().flat_map(|row| &row.left).map(|(text, _)| text.as_str()).collect();
                assert!(told.contains(&format!("Money: {words}")), "{tool} {state:?} {leg}/{of}: {told}");
            }
        }
    }
}

#[test]
fn a_stale_quote_counts_down_no_deadline_and_an_auction_has_no_gas_of_its_own() {
    let fresh = told("quote", "done");
    assert!(fresh.contains("valid ") && fresh.contains("gas $"), "{fresh}");
    let stale = told("quote", "stale");
    assert!(stale.contains("older than 30 s") && !stale.contains("valid ") && !stale.contains(" left"), "{stale}");
    let auction = told("quote", "offered");
    assert!(auction.contains("the filler pays the gas") && !auction.contains("gas $"), "{auction}");
}

/// The operator agreed to less: every place that names the amount names the smaller one.
#[test]
fn a_smaller_amount_is_the_one_that_the_card_names() {
    for (tool, params, was, is) in [
        ("uniswap_execute_swap", samples::swap_params(), "0.25 WETH", "0.1 WETH"),
        (
            "wallet_transfer_token",
            json!({ "token": "USDC", "amount": "25", "recipient": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8" }),
            "Send 25 USDC",
            "Send 0.1 USDC",
        ),
        (
            "uniswap_submit_cross_chain_intent",
            json!({ "token_in": "USDC", "token_out": "USDC", "amount": "400", "source_chain": "ethereum",
                    "destination_chain": "base" }),
            "400 USDC",
            "0.1 USDC",
        ),
    ] {
        let params = RedactedParams::new(&params, &[]);
        let start = ToolStart { tool_name: tool.into(), params, params_hash: B256::ZERO, tick: None, facts: None };
        let mut card = CallCard::start(1, &start);
        let words = |card: &CallCard| {
            let title: String = card.title(NOW).left.iter().map(|(text, _)| text.as_str()).collect();
            let full: String = card
                .full(NOW, 200)
                .iter()
                .flat_map(|row| row.left.iter().chain(&row.right).map(|(text, _)| text.as_str()).chain(["\n"]))
                .collect();
            format!("{title}\n{full}\n{}", text_of(&drawn(card, 120, 1)))
        };
        assert!(words(&card).contains(was), "{tool}\n{}", words(&card));
        card.fold(
            2,
            &EventKind::ApprovalResolved(ApprovalResolved {
                permit_id: "0123456789abcdef0123456789abcdef".parse().unwrap(),
                outcome: ApprovalOutcome::Edited,
                reason: None,
                amount: Some(SafeText::clean("0.1", 10)),
            }),
        );
        assert!(words(&card).contains(is) && !words(&card).contains(was), "{tool}\n{}", words(&card));
    }
}
