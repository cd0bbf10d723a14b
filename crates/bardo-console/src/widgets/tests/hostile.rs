//! Tests with hostile text at every place of every card.

use super::*;

/// Cards with `word` wherever outside text can appear.
fn poisoned(word: &str) -> Vec<CallCard> {
    let text = SafeText::clean(word, 400);
    let params = json!({"token_in": word, "token_out": word, "amount": word, "token": word, "chain": word});
    let (mut data, mut hints) = samples::quote_answer(true, 1.0);
    for field in ["token_in", "token_out", "amount_in", "amount_out", "route_type"] {
        data[field] = json!(word);
    }
    data["route"][0]["token_in"] = json!(word);
    data["route"][0]["version"] = json!(word);
    hints["source"] = json!(word);
    hints["warnings"] = json!([word]);
    hints["uniswapx"]["why"] = json!(word);
    hints["moves"] = json!([{"token": word, "before": word, "after": word}]);
    hints["spender_label"] = json!(word);
    let mut more = data.clone();
    more["token"] = json!(word);
    more["allowance"] = json!(word);
    more["tx_hash"] = json!(word);
    for field in ["amount", "health_factor_before", "health_factor_after"] {
        more[field] = json!(word);
    }
    more["liquidated_if"] = json!([{"token": word, "price_usd": word, "fall_pct": word}]);
    let events = |widget, data: &serde_json::Value| {
        vec![
            EventKind::ToolStart(ToolStart {
                tool_name: "uniswap_execute_swap".into(),
                params: RedactedParams::new(&params, &[]),
                params_hash: alloy_primitives::B256::ZERO,
                tick: None,
                facts: None,
            }),
            EventKind::ToolError(ToolFailed {
                error_code: ErrorCode::TokenLookalike,
                error_message: text.clone(),
                checks: None,
            }),
            EventKind::ToolEnd(ToolEnd {
                success: true,
                state: None,
                duration_ms: 1,
                result_summary: json!({word: word, "amount": word}),
                card: Some(ResultCard { widget, data: data.clone(), hints: Some(hints.clone()) }),
            }),
        ]
    };
    use bardo_base::model::CardKind;
    let mut cards = vec![
        (CallCard::Quote(Box::default()), CardKind::Quote),
        (CallCard::Swap(Box::default()), CardKind::Swap),
        (CallCard::Allowance(Box::default()), CardKind::Allowance),
        (CallCard::Lending(Box::default()), CardKind::Lending),
        (CallCard::Plain(Box::default()), CardKind::Quote),
    ];
    for (card, widget) in &mut cards {
        for event in events(*widget, &more) {
            card.fold(START_MILLIS, &event);
        }
    }
    let mut cards: Vec<CallCard> = cards.into_iter().map(|(card, _)| card).collect();
    let mut order = samples::order(DecayUnit::Seconds);
    order.token_in.symbol = text.clone();
    order.order_type = text.clone();
    (order.money, order.remark) = (text.clone(), text.clone());
    (order.amount_in, order.current_amount, order.end_amount) = (word.to_owned(), word.to_owned(), word.to_owned());
    if let Some(exclusive) = &mut order.exclusivity {
        exclusive.name = Some(text.clone());
    }
    cards.push(CallCard::Order(Box::new(OrderModel::known(START_MILLIS, &order))));
    let mut intent = samples::intent();
    (intent.source_chain, intent.destination_chain) = (text.clone(), text.clone());
    (intent.money, intent.remark) = (text.clone(), text.clone());
    intent.amount_in = word.to_owned();
    intent.bids[0].name = Some(text.clone());
    intent.bids[0].output_amount = word.to_owned();
    cards.push(CallCard::Bridge(Box::new(crate::widgets::bridge::BridgeModel::known(START_MILLIS, &intent))));
    cards
}

#[test]
fn no_hostile_text_reaches_a_cell() {
    for word in corpus::all() {
        for card in poisoned(&word) {
            for (width, height) in [(80, 30), (33, 12), (100, 1)] {
                let buffer = drawn(&card, width, height);
                for cell in &buffer.content {
                    let bad = cell.symbol().chars().any(|character| {
                        character.is_control() || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
                    });
                    assert!(!bad, "{word:?} put {:?} on the screen", cell.symbol());
                }
            }
        }
    }
}
