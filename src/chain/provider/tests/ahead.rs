//! Endpoints that claim to be ahead of the others: nobody falls silent by their word.

use super::*;

/// Answers every question for a block with this one and all else with `word`.
async fn told(number: u64, word: Value) -> Server {
    Server::start(CHAIN_ID, move |_, question| {
        let block = json!({"number": format!("{number:#x}"), "timestamp": "0x3e8"});
        let says = if question["method"] == "eth_getBlockByNumber" { block } else { word.clone() };
        Reaction::Body(server::result(question, says))
    })
    .await
}

/// The endpoints after enough polls for every condition to be settled.
async fn polled(endpoints: &[Endpoint]) -> Vec<Condition> {
    let patience = MonitorRules { patience: PATIENT, ..MonitorRules::default() };
    let (mut monitor, handle) = Monitor::new(CHAIN_ID, endpoints.to_vec(), patience, Arc::new(FixedClock(1_010)));
    for _ in 0..5 {
        monitor.poll().await;
    }
    handle.now().endpoints.iter().map(EndpointHealth::condition).collect()
}

fn nonce() -> SerializedRequest {
    Request::new("eth_getTransactionCount", Id::Number(1), ("0x00", "latest")).serialize().unwrap()
}

#[tokio::test]
async fn one_that_claims_to_be_ahead_makes_nobody_look_behind() {
    let honest = (told(100, json!("0x1")).await, told(100, json!("0x1")).await);
    let liar = told(110, json!("0x9")).await;
    let endpoints = vec![endpoint(&honest.0.url), endpoint(&liar.url), endpoint(&honest.1.url)];
    assert_eq!(polled(&endpoints).await, [Condition::Healthy; 3]);
    assert_eq!(endpoints[0].health().lag_blocks, Some(0));
    // Of two, neither can say that the other is behind.
    let endpoints = vec![endpoint(&honest.0.url), endpoint(&liar.url)];
    assert_eq!(polled(&endpoints).await, [Condition::Healthy; 2]);
}

#[tokio::test]
async fn an_endpoint_that_is_behind_still_contradicts() {
    let (honest, one, other) =
        (told(100, json!("0x1")).await, told(110, json!("0x9")).await, told(110, json!("0x9")).await);
    let endpoints = vec![endpoint(&honest.url), endpoint(&one.url), endpoint(&other.url)];
    let stack = stack(endpoints.clone(), 1);
    assert_eq!(polled(&endpoints).await, [Condition::Degraded, Condition::Healthy, Condition::Healthy]);
    let refused = ask(&stack, nonce()).await.unwrap_err();
    assert!(matches!(refused, ProviderError::Disagreement { .. }), "{refused:?}");
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_abstains() {
    let honest = told(100, json!("0x1")).await;
    let endpoints = vec![endpoint(&honest.url), endpoint(&dead_url().await)];
    let stack = stack(endpoints.clone(), 1);
    assert_eq!(polled(&endpoints).await, [Condition::Healthy, Condition::Down]);
    assert_eq!(results(&ask(&stack, nonce()).await.unwrap()), ["\"0x1\""]);
}
